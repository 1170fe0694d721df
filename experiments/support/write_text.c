/* write_text.c - a report as plain text for a terminal. Numbers at the right of their column, words at the left; the unit stands
 * under the name; no line ends in a space. */
#include "writers_internal.h"

#include <string.h>

enum { MAX_COLUMNS = 64, PARAM_LINE_WIDTH = 110 };

static void trim_line(Text *out)
{
    while (out->length > 0 && out->data[out->length - 1] == ' ') out->data[--out->length] = '\0';
    text_add(out, "\n");
}

/* Line breaks inside become spaces. */
static void add_padded(Text *out, const char *string, size_t width, bool right)
{
    const size_t used = text_width(string), space = used < width ? width - used : 0;
    if (right) text_add_repeated(out, ' ', space);
    for (const char *c = string; *c != '\0'; c++) text_add_bytes(out, *c == '\n' || *c == '\r' ? " " : c, 1);
    if (!right) text_add_repeated(out, ' ', space);
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static void write_grid(const Table *table, Text *out)
{
    size_t width[MAX_COLUMNS];
    bool right[MAX_COLUMNS], any_unit = false;
    char buffer[NUMBER_SIZE];
    const size_t columns = table->column_count;
    if (columns > MAX_COLUMNS) {
        status_fail(out->status, STATUS_INFEASIBLE, "table %s has %zu columns; a text table has at most %d", table->spec->id,
                    columns, MAX_COLUMNS);
        return;
    }
    for (size_t c = 0; c < columns; c++) {
        width[c] = larger(text_width(table->columns[c].name), text_width(table->columns[c].unit));
        right[c] = column_is_numeric(table, c);
        any_unit = any_unit || table->columns[c].unit[0] != '\0';
        for (size_t i = c; i < table->cell_count; i += table->column_count)
            width[c] = larger(width[c], text_width(cell_spell(&table->cells[i], GROUP_THOUSANDS, buffer)));
    }
    for (int line = 0; line < 2; line++) {
        if (line == 1 && !any_unit) continue;
        for (size_t c = 0; c < columns; c++) {
            text_add(out, "  ");
            add_padded(out, line == 0 ? table->columns[c].name : table->columns[c].unit, width[c], right[c]);
        }
        trim_line(out);
    }
    for (size_t c = 0; c < columns; c++) {
        text_add(out, "  ");
        text_add_repeated(out, '-', width[c]);
    }
    trim_line(out);
    for (size_t i = 0; i < table->cell_count; i++) {
        const size_t c = i % columns;
        text_add(out, "  ");
        add_padded(out, cell_spell(&table->cells[i], GROUP_THOUSANDS, buffer), width[c], right[c]);
        if (c + 1 == columns) trim_line(out);
    }
}

static void write_table(const Table *table, Text *out)
{
    char buffer[NUMBER_SIZE];
    text_addf(out, "\n%s\n", table->title);
    if (table_is_picture(table)) {
        for (size_t i = 0; i < table->cell_count; i++) {
            text_addf(out, "  %s", cell_spell(&table->cells[i], GROUP_NONE, buffer));
            trim_line(out);
        }
    } else {
        write_grid(table, out);
    }
    for (size_t i = 0; i < table->note_count; i++) text_addf(out, "  %s\n", table->notes[i]);
}

static void write_params(const Report *report, Text *out)
{
    size_t used = 0;
    for (size_t i = 0; i < report->param_count; i++) {
        char buffer[NUMBER_SIZE];
        const Param *param = &report->params[i];
        const char *value = cell_spell(&param->cell, GROUP_THOUSANDS, buffer);
        const size_t width = text_width(param->name) + 1 + text_width(value);
        const bool fits = used > 0 && used + 3 + width <= PARAM_LINE_WIDTH;
        text_addf(out, "%s%s %s", fits ? "   " : used > 0 ? "\n  " : "  ", param->name, value);
        used = fits ? used + 3 + width : width;
    }
    if (used > 0) text_add(out, "\n");
}

static void write_verdict_counts(const Report *report, Text *out)
{
    const char *separator = "";
    for (int verdict = VERDICT_EQUAL; verdict <= VERDICT_CITED; verdict++) {
        const size_t count = report_verdict_count(report, (Verdict)verdict);
        if (count == 0) continue;
        text_addf(out, "%s%zu %s", separator, count, verdict_name((Verdict)verdict));
        separator = ", ";
    }
}

static void write_claim(const Claim *claim, size_t indent, const size_t width[4], Text *out)
{
    const ClaimSpec *spec = claim->spec;
    const char *const fields[] = {spec->id, verdict_name(claim->verdict), spec->lecture, claim->ours};
    for (size_t i = 0; i < 4; i++) {
        text_add(out, "  ");
        add_padded(out, fields[i], width[i], false);
    }
    text_addf(out, "  %s\n", spec->what);
    if (claim->verdict != spec->expected) {
        text_add_repeated(out, ' ', indent);
        text_addf(out, "UNEXPECTED: expected %s\n", verdict_name(spec->expected));
    } else if (claim->verdict == VERDICT_DIFFERS) {
        text_add_repeated(out, ' ', indent);
        text_addf(out, "because %s\n", spec->reason);
    }
}

static void write_claims(const Report *report, Text *out)
{
    static const char *const head[] = {"id", "verdict", "lecture", "ours"};
    const size_t count = report->spec->claim_count;
    size_t width[4];
    if (count == 0) return;
    for (size_t i = 0; i < 4; i++) width[i] = strlen(head[i]);
    for (size_t i = 0; i < count; i++) {
        const Claim *claim = &report->claims[i];
        width[0] = larger(width[0], text_width(claim->spec->id));
        width[2] = larger(width[2], text_width(claim->spec->lecture));
        width[3] = larger(width[3], text_width(claim->ours));
    }
    text_add(out, "\nThe lecture's numbers and ours: ");
    write_verdict_counts(report, out);
    text_add(out, "\n");
    for (size_t i = 0; i < 4; i++) {
        text_add(out, "  ");
        add_padded(out, head[i], width[i], false);
    }
    text_add(out, "  what\n");
    for (size_t i = 0; i < 4; i++) {
        text_add(out, "  ");
        text_add_repeated(out, '-', width[i]);
    }
    text_add(out, "  ----\n");
    for (size_t i = 0; i < count; i++) write_claim(&report->claims[i], 2 + width[0] + 2, width, out);
}

void write_text(const Report *report, Text *out)
{
    const ReportSpec *spec = report->spec;
    text_addf(out, "%s: %s", report->program, spec->title_en);
    if (spec->title_zh != NULL && spec->title_zh[0] != '\0') text_addf(out, " · %s", spec->title_zh);
    if (spec->section != NULL && spec->section[0] != '\0') text_addf(out, " (lecture §%s)", spec->section);
    text_add(out, "\n");
    write_params(report, out);
    for (size_t i = 0; i < report->table_count; i++) write_table(report->tables[i], out);
    write_claims(report, out);
    if (report->note_count > 0) text_add(out, "\n");
    for (size_t i = 0; i < report->note_count; i++) text_addf(out, "%s\n", report->notes[i]);
}
