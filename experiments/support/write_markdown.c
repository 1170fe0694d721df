/* write_markdown.c - a report as GitHub Markdown: tables that can be pasted into the lecture as they are. */
#include "writers_internal.h"

#include <string.h>

/* A table cell: | is escaped, a line break becomes a space. */
static void add_escaped(Text *out, const char *string)
{
    for (const char *c = string; *c != '\0'; c++) {
        if (*c == '|') text_add(out, "\\|");
        else if (*c == '\n' || *c == '\r') text_add(out, " ");
        else if (*c == '<') text_add(out, "&lt;");
        else text_add_bytes(out, c, 1);
    }
}

static void add_cell(Text *out, const char *string)
{
    text_add(out, " ");
    add_escaped(out, string);
    text_add(out, " |");
}

static void write_grid(const Table *table, Text *out)
{
    char buffer[NUMBER_SIZE];
    text_add(out, "|");
    for (size_t c = 0; c < table->column_count; c++) {
        const Column *column = &table->columns[c];
        text_add(out, " ");
        add_escaped(out, column->name);
        if (column->unit[0] != '\0') {
            text_add(out, " [");
            add_escaped(out, column->unit);
            text_add(out, "]");
        }
        text_add(out, " |");
    }
    text_add(out, "\n|");
    for (size_t c = 0; c < table->column_count; c++) text_add(out, column_is_numeric(table, c) ? " ---: |" : " --- |");
    for (size_t i = 0; i < table->cell_count; i++) {
        if (i % table->column_count == 0) text_add(out, "\n|");
        add_cell(out, cell_spell(&table->cells[i], GROUP_THOUSANDS, buffer));
    }
    text_add(out, "\n");
}

static void write_table(const Table *table, Text *out)
{
    char buffer[NUMBER_SIZE];
    text_add(out, "\n### ");
    add_escaped(out, table->title);
    text_add(out, "\n\n");
    if (table_is_picture(table)) {
        text_add(out, "```text\n");
        for (size_t i = 0; i < table->cell_count; i++) text_addf(out, "%s\n", cell_spell(&table->cells[i], GROUP_NONE, buffer));
        text_add(out, "```\n");
    } else {
        write_grid(table, out);
    }
    for (size_t i = 0; i < table->note_count; i++) {
        text_add(out, "\n");
        add_escaped(out, table->notes[i]);
        text_add(out, "\n");
    }
}

static void write_claims(const Report *report, Text *out)
{
    if (report->spec->claim_count == 0) return;
    text_add(out, "\n### The lecture's numbers and ours\n\n| id | what | lecture | ours | verdict | rule |\n"
                  "| --- | --- | --- | --- | --- | --- |\n");
    for (size_t i = 0; i < report->spec->claim_count; i++) {
        const Claim *claim = &report->claims[i];
        const ClaimSpec *spec = claim->spec;
        text_add(out, "|");
        add_cell(out, spec->id);
        add_cell(out, spec->what);
        add_cell(out, spec->lecture);
        add_cell(out, claim->ours);
        text_addf(out, " %s", verdict_name(claim->verdict));
        if (claim->verdict != spec->expected) {
            text_addf(out, " (unexpected: expected %s)", verdict_name(spec->expected));
        } else if (claim->verdict == VERDICT_DIFFERS) {
            text_add(out, ": ");
            add_escaped(out, spec->reason);
        }
        text_add(out, " |");
        add_cell(out, spec->rule);
        text_add(out, "\n");
    }
}

void write_markdown(const Report *report, Text *out)
{
    const ReportSpec *spec = report->spec;
    char buffer[NUMBER_SIZE];
    text_add(out, "## ");
    if (spec->section != NULL && spec->section[0] != '\0') text_addf(out, "§%s ", spec->section);
    add_escaped(out, spec->title_en);
    if (spec->title_zh != NULL && spec->title_zh[0] != '\0') text_addf(out, " · %s", spec->title_zh);
    text_addf(out, "\n\nProgram: `%s`", report->program);
    for (size_t i = 0; i < report->param_count; i++) {
        text_addf(out, "; %s ", report->params[i].name);
        add_escaped(out, cell_spell(&report->params[i].cell, GROUP_THOUSANDS, buffer));
    }
    text_add(out, "\n");
    for (size_t i = 0; i < report->table_count; i++) write_table(report->tables[i], out);
    write_claims(report, out);
    for (size_t i = 0; i < report->note_count; i++) {
        text_add(out, "\n");
        add_escaped(out, report->notes[i]);
        text_add(out, "\n");
    }
}
