/* write_csv.c - a report as CSV (writers.h says how several tables share a file). */
#include "writers_internal.h"

#include <string.h>

/* RFC 4180: quotes around a field that has a comma, a quote, a line break or, so that no row looks like a comment, a leading #.
 * */
static void add_field(Text *out, const char *string)
{
    if (strpbrk(string, ",\"\r\n") == NULL && string[0] != '#') {
        text_add(out, string);
        return;
    }
    text_add(out, "\"");
    for (const char *c = string; *c != '\0'; c++) {
        if (*c == '"') text_add(out, "\"");
        text_add_bytes(out, c, 1);
    }
    text_add(out, "\"");
}

/* A comment is one line whatever it holds. */
static void add_comment(Text *out, const char *label, const char *string)
{
    text_addf(out, "# %s", label);
    for (const char *c = string; *c != '\0'; c++) text_add_bytes(out, *c == '\n' || *c == '\r' ? " " : c, 1);
    text_add(out, "\n");
}

static void write_head(const Table *table, Text *out)
{
    text_addf(out, "# %s: ", table->spec->id);
    text_addf(out, "%s\n", table->title);
    for (size_t c = 0; c < table->column_count; c++) {
        const Column *column = &table->columns[c];
        Text name = {.alloc = out->alloc, .status = out->status};
        text_add(&name, column->name);
        if (column->unit[0] != '\0') text_addf(&name, " [%s]", column->unit);
        if (c > 0) text_add(out, ",");
        if (name.data != NULL) add_field(out, name.data);
        text_free(&name);
    }
    text_add(out, "\n");
}

static void write_table(const Table *table, Text *out)
{
    char buffer[NUMBER_SIZE];
    write_head(table, out);
    for (size_t i = 0; i < table->cell_count; i++) {
        const bool last = (i + 1) % table->column_count == 0;
        add_field(out, cell_spell(&table->cells[i], GROUP_NONE, buffer));
        text_add(out, last ? "\n" : ",");
    }
    for (size_t i = 0; i < table->note_count; i++) add_comment(out, "note: ", table->notes[i]);
}

static void write_claims(const Report *report, Text *out)
{
    text_add(out, "# claims: the lecture's numbers and ours\nid,section,what,lecture,ours,verdict,expected,rule,reason\n");
    for (size_t i = 0; i < report->spec->claim_count; i++) {
        const Claim *claim = &report->claims[i];
        const ClaimSpec *spec = claim->spec;
        const char *const fields[] = {spec->id,    spec->section, spec->what,
                                      spec->lecture, claim->ours, verdict_name(claim->verdict),
                                      verdict_name(spec->expected), spec->rule, spec->reason == NULL ? "" : spec->reason};
        for (size_t f = 0; f < sizeof fields / sizeof fields[0]; f++) {
            if (f > 0) text_add(out, ",");
            add_field(out, fields[f]);
        }
        text_add(out, "\n");
    }
}

void write_csv(const Report *report, Text *out)
{
    char buffer[NUMBER_SIZE];
    add_comment(out, "program: ", report->program);
    for (size_t i = 0; i < report->param_count; i++) {
        text_addf(out, "# param %s: ", report->params[i].name);
        text_addf(out, "%s\n", cell_spell(&report->params[i].cell, GROUP_NONE, buffer));
    }
    for (size_t i = 0; i < report->note_count; i++) add_comment(out, "note: ", report->notes[i]);
    for (size_t i = 0; i < report->table_count; i++) {
        text_add(out, "\n\n");
        write_table(report->tables[i], out);
    }
    if (report->spec->claim_count > 0) {
        text_add(out, "\n\n");
        write_claims(report, out);
    }
}
