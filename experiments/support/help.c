/* help.c - see help.h. Everything is read from the option table and the program's declarations; nothing is said twice. */
#include "help.h"

#include <string.h>

enum { LEFT_WIDTH = 30 };

static void add_left(Text *out, const char *left)
{
    const size_t width = text_width(left);
    text_add(out, left);
    if (width + 2 > LEFT_WIDTH) text_add(out, "\n");
    text_add_repeated(out, ' ', width + 2 > LEFT_WIDTH ? LEFT_WIDTH : LEFT_WIDTH - width);
}

/* The default in this program: its own, else the one all programs share. */
static const char *default_of(const ProgramSpec *program, OptionId id)
{
    for (size_t i = 0; i < program->option_count; i++)
        if (program->options[i].id == id && program->options[i].default_value != NULL) return program->options[i].default_value;
    return option_when_absent(id);
}

static void write_option(const ProgramSpec *program, OptionId id, Text *out)
{
    char range[OPTION_RANGE_SIZE];
    Text left = {.alloc = out->alloc, .status = out->status};
    const char *short_name = option_short_name(id), *argument = option_argument(id);
    if (id == OPTION_OUTPUT && program->output_is_directory) argument = "DIR";
    text_addf(&left, "  %s%s%s%s%s", short_name == NULL ? "" : short_name, short_name == NULL ? "" : ", ", option_name(id),
              argument == NULL ? "" : " ", argument == NULL ? "" : argument);
    if (left.data != NULL) add_left(out, left.data);
    text_free(&left);
    text_addf(out, "%s\n", option_meaning(id));
    if (argument == NULL) return;
    text_add_repeated(out, ' ', LEFT_WIDTH);
    text_addf(out, "%s (default: %s)\n", option_range(id, range), default_of(program, id));
}

static void write_options(const ProgramSpec *program, Text *out)
{
    text_add(out, "\nOptions (--option value or --option=value; the last one of a repeated option holds;\n"
                  "numbers take k and m: 1k = 1024; where N[,N...] stands, a list sweeps):\n");
    for (int id = OPTION_VERSION + 1; id < OPTION_COUNT; id++)
        if (option_is_taken(program, (OptionId)id)) write_option(program, (OptionId)id, out);
    for (int id = 0; id <= OPTION_VERSION; id++) write_option(program, (OptionId)id, out);
}

static void write_operand(const ProgramSpec *program, Text *out)
{
    text_addf(out, "\nThe %s:", program->operand);
    for (size_t i = 0; program->operand_choices[i] != NULL; i++)
        text_addf(out, "%s %s", i > 0 ? "," : "", program->operand_choices[i]);
    text_add(out, "\n");
}

static void write_glossary(const TableSpec *table, Text *out)
{
    if (table->column_count == 0) return;
    text_addf(out, "\nColumns of %s (%s):\n", table->id, table->title);
    for (size_t i = 0; i < table->column_count; i++) {
        const Column *column = &table->columns[i];
        Text left = {.alloc = out->alloc, .status = out->status};
        text_addf(&left, "  %s%s%s%s", column->name, column->unit[0] == '\0' ? "" : " [", column->unit,
                  column->unit[0] == '\0' ? "" : "]");
        if (left.data != NULL) add_left(out, left.data);
        text_free(&left);
        text_addf(out, "%s\n", column->meaning);
    }
}

void help_write(const ProgramSpec *program, const TableSpec *const *tables, size_t table_count, Text *out)
{
    text_addf(out, "%s: %s\n\nUsage: %s%s%s%s [options]\n", program->name, program->purpose, program->name,
              program->operand == NULL ? "" : program->operand_optional ? " [" : " <",
              program->operand == NULL ? "" : program->operand,
              program->operand == NULL ? "" : program->operand_optional ? "]" : ">");
    if (program->examples[0] != NULL) text_add(out, "\nExamples:\n");
    for (size_t i = 0; i < 2 && program->examples[i] != NULL; i++)
        text_addf(out, "  %s%s%s\n", program->name, program->examples[i][0] == '\0' ? "" : " ", program->examples[i]);
    if (program->operand != NULL) write_operand(program, out);
    write_options(program, out);
    text_add(out, "\nExit code: 0 ok; 1 a verdict is not the expected one (with --check) or a closed form fails; 2 usage;\n"
                  "3 the configuration cannot exist (does not fit, overflows, lacks an instruction, takes too long);\n"
                  "4 input, output or memory; 77 skipped.\n");
    for (size_t i = 0; i < table_count; i++) write_glossary(tables[i], out);
}

void version_write(const ProgramSpec *program, Text *out)
{
    text_addf(out, "attnlab %s %s\n", ATTNLAB_VERSION, program->name);
}
