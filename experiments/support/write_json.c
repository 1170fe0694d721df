/* write_json.c - a report as JSON, schema 1 (writers.h). One row, claim or run member a line, so that differences read well. */
#include "writers_internal.h"

/* Valid UTF-8 passes as it is; a byte that is none (a file name may hold anything) becomes U+FFFD. */
static void add_string(Text *out, const char *string)
{
    text_add(out, "\"");
    for (const char *c = string; *c != '\0';) {
        const size_t length = text_sequence_length(c);
        if (*c == '"' || *c == '\\') text_addf(out, "\\%c", *c);
        else if (*c == '\n') text_add(out, "\\n");
        else if (*c == '\t') text_add(out, "\\t");
        else if ((unsigned char)*c < 0x20) text_addf(out, "\\u%04x", (unsigned)(unsigned char)*c);
        else if (length == 0) text_add(out, "\\ufffd");
        else text_add_bytes(out, c, length);
        c += length < 1 ? 1 : length;
    }
    text_add(out, "\"");
}

/* A number that a double cannot hold exactly, or no number at all in JSON, becomes a string. */
static bool needs_quotes(const Cell *cell)
{
    const uint64_t exact = UINT64_C(1) << 53;
    const double real = cell->value.real;
    switch (cell->kind) {
    case CELL_TEXT: return true;
    case CELL_COUNT: return cell->value.count > exact;
    case CELL_SIGNED: return cell->value.integer > (int64_t)exact || cell->value.integer < -(int64_t)exact;
    case CELL_DECIMALS:
    case CELL_SIGNIFICANT: return !(real - real == 0);      /* nan, inf */
    case CELL_EMPTY: break;
    }
    return false;
}

static void add_cell(Text *out, const Cell *cell)
{
    char buffer[NUMBER_SIZE];
    if (cell->kind == CELL_EMPTY) text_add(out, "null");
    else if (needs_quotes(cell)) add_string(out, cell_spell(cell, GROUP_NONE, buffer));
    else text_add(out, cell_spell(cell, GROUP_NONE, buffer));
}

static void add_key(Text *out, const char *key, size_t position)
{
    if (position > 0) text_add(out, ",");
    add_string(out, key);
    text_add(out, ":");
}

static void write_table(const Table *table, Text *out)
{
    text_add(out, "{\"id\":");
    add_string(out, table->spec->id);
    text_add(out, ",\"title\":");
    add_string(out, table->title);
    text_add(out, ",\n  \"columns\":[");
    for (size_t c = 0; c < table->column_count; c++) {
        text_add(out, c > 0 ? ",{\"name\":" : "{\"name\":");
        add_string(out, table->columns[c].name);
        text_add(out, ",\"unit\":");
        add_string(out, table->columns[c].unit);
        text_add(out, "}");
    }
    text_add(out, "],\n  \"rows\":[");
    for (size_t i = 0; i < table->cell_count; i++) {
        const size_t c = i % table->column_count;
        text_add(out, c > 0 ? "," : i > 0 ? ",\n    [" : "\n    [");
        add_cell(out, &table->cells[i]);
        if (c + 1 == table->column_count) text_add(out, "]");
    }
    text_add(out, "]}");
}

/* Row `row` as an object with the columns' names as keys. */
static void write_object(const Table *table, size_t row, Text *out)
{
    text_add(out, "{");
    for (size_t c = 0; c < table->column_count; c++) {
        add_key(out, table->columns[c].name, c);
        add_cell(out, &table->cells[row * table->column_count + c]);
    }
    text_add(out, "}");
}

static void write_member(const char *name, const Table *table, Text *out)
{
    text_addf(out, ",\n  \"%s\":", name);
    if (table == NULL || table->row_count == 0) text_add(out, "null");
    else write_object(table, 0, out);
}

static void write_run(const Run *run, Text *out)
{
    text_add(out, "{\"params\":");
    if (run->params == NULL || run->params->row_count == 0) text_add(out, "{}");
    else write_object(run->params, 0, out);
    text_add(out, ",\n  \"ledger\":[");
    for (size_t row = 0; run->ledger != NULL && row < run->ledger->row_count; row++) {
        text_add(out, row > 0 ? ",\n    " : "\n    ");
        write_object(run->ledger, row, out);
    }
    text_add(out, "]");
    write_member("totals", run->totals, out);
    write_member("closed_form", run->closed_form, out);
    write_member("time", run->time, out);
    write_member("error", run->error, out);
    text_add(out, "}");
}

static void write_claim(const Claim *claim, Text *out)
{
    const ClaimSpec *spec = claim->spec;
    const char *const pairs[][2] = {{"id", spec->id},           {"what", spec->what},
                                    {"lecture", spec->lecture}, {"ours", claim->ours},
                                    {"verdict", verdict_name(claim->verdict)}, {"expected", verdict_name(spec->expected)},
                                    {"rule", spec->rule}};
    text_add(out, "{");
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        add_key(out, pairs[i][0], i);
        add_string(out, pairs[i][1]);
    }
    text_add(out, "}");
}

void write_json(const Report *report, Text *out)
{
    text_addf(out, "{\"schema\":%d,\"program\":", REPORT_SCHEMA);
    add_string(out, report->program);
    text_add(out, ",\n\"params\":{");
    for (size_t i = 0; i < report->param_count; i++) {
        add_key(out, report->params[i].name, i);
        add_cell(out, &report->params[i].cell);
    }
    text_add(out, report->run_count > 0 ? "},\n\"runs\":[" : "},\n\"tables\":[");
    for (size_t i = 0; i < report->run_count; i++) {
        text_add(out, i > 0 ? ",\n" : "\n");
        write_run(report->runs[i], out);
    }
    for (size_t i = 0; report->run_count == 0 && i < report->table_count; i++) {
        text_add(out, i > 0 ? ",\n" : "\n");
        write_table(report->tables[i], out);
    }
    text_add(out, "],\n\"claims\":[");
    for (size_t i = 0; i < report->spec->claim_count; i++) {
        text_add(out, i > 0 ? ",\n" : "\n");
        write_claim(&report->claims[i], out);
    }
    text_add(out, "]}\n");
}
