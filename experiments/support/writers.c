/* writers.c - what the four writers (writers.h) share. */
#include "writers.h"
#include "report_internal.h"
#include "writers_internal.h"

#include <stdio.h>
#include <string.h>

const char *format_name(Format format)
{
    static const char *const names[] = {"text", "md", "csv", "json"};
    return names[format];
}

const char *format_suffix(Format format) { return format == FORMAT_TEXT ? "txt" : format_name(format); }

const char *cell_spell(const Cell *cell, int grouping, char buffer[NUMBER_SIZE])
{
    switch (cell->kind) {
    case CELL_EMPTY: return "";
    case CELL_TEXT: return cell->value.text;
    case CELL_COUNT: return format_count(buffer, cell->value.count, grouping);
    case CELL_SIGNED: return format_signed(buffer, cell->value.integer, grouping);
    case CELL_DECIMALS: return format_decimals(buffer, cell->value.real, cell->digits, grouping);
    case CELL_SIGNIFICANT: return format_significant(buffer, cell->value.real, cell->digits, grouping);
    }
    return "";
}

bool column_is_numeric(const Table *table, size_t column)
{
    for (size_t i = column; i < table->cell_count; i += table->column_count)
        if (cell_is_number(&table->cells[i])) return true;
    return false;
}

/* ---- runs as tables ---- */

static void flat_begin(const Report *report, Report *flat)
{
    *flat = *report;
    flat->blocks = NULL;
    flat->tables = NULL;
    flat->runs = NULL;
    flat->table_count = flat->table_capacity = flat->run_count = flat->run_capacity = 0;
    flat->void_table.report = flat;
}

static void copy_cell(Table *to, Cell cell)
{
    char buffer[NUMBER_SIZE];
    switch (cell.kind) {
    case CELL_EMPTY: cell_empty(to); break;
    case CELL_TEXT: cell_text(to, cell.value.text); break;
    case CELL_COUNT: cell_count(to, cell.value.count); break;
    case CELL_SIGNED: cell_signed(to, cell.value.integer); break;
    case CELL_DECIMALS: cell_decimals(to, cell.value.real, cell.digits); break;
    case CELL_SIGNIFICANT: cell_significant(to, cell.value.real, cell.digits); break;
    default: cell_text(to, cell_spell(&cell, GROUP_NONE, buffer)); break;
    }
}

static const Cell *find_cell(const Table *table, const char *name)
{
    for (size_t i = 0; table != NULL && table->row_count > 0 && i < table->column_count; i++)
        if (strcmp(table->columns[i].name, name) == 0) return &table->cells[i];
    return NULL;
}

static const Column quantity_columns[] = {
    {"quantity", "", "what was counted, timed or compared"},
    {"unit", "", "its unit"},
    {"value", "", "from the walk"},
    {"closed form", "", "from the formula"},
    {"check", "", "ok, or the two differ"},
};
static const TableSpec quantities_spec = {"totals", "Totals", quantity_columns, 5};

static void add_quantities(Table *to, const Table *from, const Table *closed_form)
{
    for (size_t i = 0; from != NULL && from->row_count > 0 && i < from->column_count; i++) {
        const Cell *cell = &from->cells[i], *formula = find_cell(closed_form, from->columns[i].name);
        char a[NUMBER_SIZE], b[NUMBER_SIZE];
        table_row(to);
        cell_text(to, from->columns[i].name);
        cell_text(to, from->columns[i].unit);
        copy_cell(to, *cell);
        copy_cell(to, formula == NULL ? (Cell){.kind = CELL_EMPTY} : *formula);
        const bool same = formula != NULL && strcmp(cell_spell(cell, 0, a), cell_spell(formula, 0, b)) == 0;
        cell_text(to, formula == NULL || formula->kind == CELL_EMPTY ? "" : same ? "ok" : "differs");
    }
}

/* Whether a parameter has the same value in all runs (it is then shown once, above them). */
static bool param_is_common(const Report *report, const char *name)
{
    char first_buffer[NUMBER_SIZE], buffer[NUMBER_SIZE];
    const Cell *first = find_cell(report->runs[0]->params, name);
    for (size_t i = 1; i < report->run_count; i++) {
        const Cell *cell = find_cell(report->runs[i]->params, name);
        if (first == NULL || cell == NULL) return false;
        if (strcmp(cell_spell(first, GROUP_NONE, first_buffer), cell_spell(cell, GROUP_NONE, buffer)) != 0) return false;
    }
    return first != NULL;
}

/* Puts the common parameters into flat's; common[i] says it of column i of the first run. */
static void add_common_params(const Report *report, Report *flat, bool *common)
{
    const Table *params = report->runs[0]->params;
    flat->params = NULL;
    flat->param_count = flat->param_capacity = 0;
    for (size_t i = 0; i < report->param_count; i++) report_param(flat, report->params[i].name, report->params[i].cell);
    for (size_t i = 0; params != NULL && params->row_count > 0 && i < params->column_count; i++) {
        common[i] = param_is_common(report, params->columns[i].name);
        if (common[i]) report_param(flat, params->columns[i].name, params->cells[i]);
    }
}

/* "Run 2 of 3 (seqlen 2,048): " with the parameters that are not common; "" for a single run. */
static const char *describe_run(Report *flat, const Report *report, size_t index, const bool *common)
{
    const Table *params = report->runs[0]->params;
    if (report->run_count == 1) return "";
    Text text = {.alloc = report->alloc, .status = report->status};
    text_addf(&text, "Run %zu of %zu", index + 1, report->run_count);
    const char *before = " (";
    for (size_t i = 0; params != NULL && i < params->column_count; i++) {
        char buffer[NUMBER_SIZE];
        const Cell *cell = find_cell(report->runs[index]->params, params->columns[i].name);
        if (common[i] || cell == NULL) continue;
        text_addf(&text, "%s%s %s", before, params->columns[i].name, cell_spell(cell, GROUP_THOUSANDS, buffer));
        before = ", ";
    }
    text_add(&text, before[0] == ',' ? "): " : ": ");
    const char *kept = report_string(flat, text.data == NULL ? "" : text.data);
    text_free(&text);
    return kept;
}

void flatten_runs_to_read(const Report *report, Report *flat)
{
    flat_begin(report, flat);
    if (report->run_count == 0) return;
    const Table *params = report->runs[0]->params;
    bool *common = report_memory(flat, params == NULL ? 1 : params->column_count);
    if (common == NULL) return;
    add_common_params(report, flat, common);
    for (size_t i = 0; i < report->run_count && status_ok(report->status); i++) {
        const Run *run = report->runs[i];
        const char *description = describe_run(flat, report, i, common);
        if (run->ledger != NULL) {
            Table *ledger = report_table(flat, run->ledger->spec);
            if (!status_ok(report->status)) return;
            *ledger = *run->ledger;
            ledger->report = flat;
            table_title(ledger, "%s%s", description, run->ledger->title);
        }
        Table *totals = report_table(flat, &quantities_spec);
        table_title(totals, "%sTotals", description);
        add_quantities(totals, run->totals, run->closed_form);
        add_quantities(totals, run->time, NULL);
        add_quantities(totals, run->error, NULL);
    }
    for (size_t i = 0; i < report->table_count; i++) {          /* pictures */
        Table *picture = report_table(flat, report->tables[i]->spec);
        if (!status_ok(report->status)) return;
        *picture = *report->tables[i];
        picture->report = flat;
    }
}

/* The first run that has this member, for its columns. */
typedef const Table *(*MemberOf)(const Run *);
static const Table *params_of(const Run *run) { return run->params; }
static const Table *ledger_of(const Run *run) { return run->ledger; }
static const Table *totals_of(const Run *run) { return run->totals; }
static const Table *closed_form_of(const Run *run) { return run->closed_form; }
static const Table *time_of(const Run *run) { return run->time; }
static const Table *error_of(const Run *run) { return run->error; }

static const Table *first_of(const Report *report, MemberOf member)
{
    for (size_t i = 0; i < report->run_count; i++)
        if (member(report->runs[i]) != NULL) return member(report->runs[i]);
    return NULL;
}

static const Column run_column = {"run", "", "the sweep point, counted from 1"};

static Table *joined_table(Report *flat, const char *id, const char *title, size_t column_count, Column **columns)
{
    TableSpec *spec = report_memory(flat, sizeof *spec);
    *columns = report_memory(flat, column_count * sizeof **columns);
    if (spec == NULL || *columns == NULL) return &flat->void_table;
    *spec = (TableSpec){id, title, *columns, column_count};
    return report_table(flat, spec);
}

static void join_one_row_members(const Report *report, Report *flat)
{
    static const MemberOf members[] = {params_of, totals_of, closed_form_of, time_of, error_of};
    enum { MEMBERS = sizeof members / sizeof members[0], CLOSED_FORM = 2 };
    size_t column_count = 1, at = 1;
    const Table *first[MEMBERS];
    for (size_t m = 0; m < MEMBERS; m++) {
        first[m] = first_of(report, members[m]);
        column_count += first[m] == NULL ? 0 : first[m]->column_count;
    }
    Column *columns;
    Table *joined = joined_table(flat, "runs", "one row per sweep point", column_count, &columns);
    if (columns == NULL || !status_ok(flat->status)) return;
    columns[0] = run_column;
    for (size_t m = 0; m < MEMBERS; m++) {
        for (size_t c = 0; first[m] != NULL && c < first[m]->column_count; c++) {
            columns[at] = first[m]->columns[c];
            if (m == CLOSED_FORM) {
                char name[160];
                snprintf(name, sizeof name, "closed_form.%s", columns[at].name);
                columns[at].name = report_string(flat, name);
            }
            at++;
        }
    }
    for (size_t r = 0; r < report->run_count; r++) {
        table_row(joined);
        cell_count(joined, r + 1);
        for (size_t m = 0; m < MEMBERS; m++) {
            for (size_t c = 0; first[m] != NULL && c < first[m]->column_count; c++) {
                const Cell *cell = find_cell(members[m](report->runs[r]), first[m]->columns[c].name);
                copy_cell(joined, cell == NULL ? (Cell){.kind = CELL_EMPTY} : *cell);
            }
        }
    }
}

static void join_ledgers(const Report *report, Report *flat)
{
    const Table *first = first_of(report, ledger_of);
    if (first == NULL) return;
    Column *columns;
    Table *joined = joined_table(flat, first->spec->id, first->title, first->column_count + 1, &columns);
    if (columns == NULL || !status_ok(flat->status)) return;
    columns[0] = run_column;
    memcpy(columns + 1, first->columns, first->column_count * sizeof *columns);
    for (size_t r = 0; r < report->run_count; r++) {
        const Table *ledger = report->runs[r]->ledger;
        if (ledger == NULL || ledger->spec != first->spec) continue;
        for (size_t i = 0; i < ledger->cell_count; i++) {
            if (i % ledger->column_count == 0) {
                table_row(joined);
                cell_count(joined, r + 1);
            }
            copy_cell(joined, ledger->cells[i]);
        }
    }
}

void flatten_runs_to_plot(const Report *report, Report *flat)
{
    flat_begin(report, flat);
    if (report->run_count == 0) return;
    join_one_row_members(report, flat);
    join_ledgers(report, flat);
}

/* ---- dispatch ---- */

static void write_flattened(const Report *report, Format format, Text *out)
{
    Report flat;
    if (format == FORMAT_CSV) flatten_runs_to_plot(report, &flat);
    else flatten_runs_to_read(report, &flat);
    if (format == FORMAT_CSV) write_csv(&flat, out);
    else if (format == FORMAT_MARKDOWN) write_markdown(&flat, out);
    else write_text(&flat, out);
    report_free(&flat);
}

bool report_write(const Report *report, Format format, Text *out)
{
    if (!status_ok(report->status)) return false;
    if (report->run_count > 0 && format != FORMAT_JSON) {
        write_flattened(report, format, out);
        return status_ok(out->status);
    }
    switch (format) {
    case FORMAT_TEXT: write_text(report, out); break;
    case FORMAT_MARKDOWN: write_markdown(report, out); break;
    case FORMAT_CSV: write_csv(report, out); break;
    case FORMAT_JSON: write_json(report, out); break;
    case FORMAT_COUNT: return status_fail(out->status, STATUS_USAGE, "unknown output format");
    }
    return status_ok(out->status);
}
