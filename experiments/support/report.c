/* report.c - see report.h. Memory comes in blocks that only report_free gives back: arrays that grow leave their old copy behind,
 * which at most doubles what a report needs (tens of KiB) and keeps every pointer valid. Claims are in claims.c. */
#include "report.h"
#include "report_internal.h"
#include "text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- memory ---- */

enum { BLOCK_BYTES = 16 * 1024, CELL_ALIGNMENT = 16 };

struct ReportBlock {
    ReportBlock *next;
    size_t used, capacity;
    char *data;
};

static ReportBlock *add_block(Report *report, size_t bytes)
{
    const size_t header = (sizeof(ReportBlock) + CELL_ALIGNMENT - 1) / CELL_ALIGNMENT * CELL_ALIGNMENT;
    ReportBlock *block = alloc_array(report->alloc, header + bytes, 1, "report", report->status);
    if (block == NULL) return NULL;
    block->data = (char *)block + header;
    block->capacity = bytes;
    block->next = report->blocks;
    report->blocks = block;
    return block;
}

void *report_memory(Report *report, size_t bytes)
{
    if (!status_ok(report->status)) return NULL;
    const size_t rounded = (bytes + CELL_ALIGNMENT - 1) / CELL_ALIGNMENT * CELL_ALIGNMENT;
    ReportBlock *block = report->blocks;
    if (block == NULL || block->capacity - block->used < rounded)
        block = add_block(report, rounded > BLOCK_BYTES ? rounded : BLOCK_BYTES);
    if (block == NULL) return NULL;
    void *memory = block->data + block->used;
    block->used += rounded;
    return memory;
}

/* Room for one more element of an array; returns the array, old or new, or NULL. */
static void *room_for_one(Report *report, void *array, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity && status_ok(report->status)) return array;
    const size_t larger = *capacity == 0 ? 8 : 2 * *capacity;
    void *grown = report_memory(report, larger * size);
    if (grown == NULL) return NULL;
    if (count > 0) memcpy(grown, array, count * size);
    *capacity = larger;
    return grown;
}

const char *report_string(Report *report, const char *string)
{
    const size_t size = strlen(string) + 1;
    char *copy = report_memory(report, size);
    return copy == NULL ? "" : memcpy(copy, string, size);
}

const char *report_vformat(Report *report, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    const int length = vsnprintf(NULL, 0, format, args);
    char *string = length < 0 ? NULL : report_memory(report, (size_t)length + 1);
    if (string != NULL) vsnprintf(string, (size_t)length + 1, format, again);
    va_end(again);
    return string == NULL ? "" : string;
}

static void add_line(Report *report, const char ***lines, size_t *count, size_t *capacity, const char *line)
{
    const char **grown = room_for_one(report, *lines, *count, capacity, sizeof *grown);
    if (grown == NULL) return;
    *lines = grown;
    grown[(*count)++] = line;
}

/* ---- the whole ---- */

bool report_init(Report *report, const char *program, const ReportSpec *spec, Alloc *alloc, Status *status)
{
    *report = (Report){.program = program, .spec = spec, .alloc = alloc, .status = status};
    report->void_table.report = report;
    report->void_table.column_count = 1;
    report->claims = report_memory(report, (spec->claim_count + 1) * sizeof *report->claims);
    if (report->claims == NULL) return false;
    for (size_t i = 0; i < spec->claim_count; i++) report->claims[i] = (Claim){.spec = &spec->claims[i]};
    return true;
}

void report_free(Report *report)
{
    for (ReportBlock *block = report->blocks, *next; block != NULL; block = next) {
        next = block->next;
        alloc_free(report->alloc, block);
    }
    *report = (Report){.alloc = report->alloc, .status = report->status};
}

/* ---- tables ---- */

static const Column picture_column = {"line", "", "a line of the picture"};

static Table *new_table(Report *report, const TableSpec *spec)
{
    Table *table = report_memory(report, sizeof *table);
    if (table == NULL) return &report->void_table;
    const bool picture = spec->column_count == 0;
    *table = (Table){.report = report, .spec = spec, .title = spec->title, .columns = picture ? &picture_column : spec->columns,
                     .column_count = picture ? 1 : spec->column_count};
    return table;
}

Table *report_table(Report *report, const TableSpec *spec)
{
    Table *table = new_table(report, spec);
    Table **grown = room_for_one(report, report->tables, report->table_count, &report->table_capacity, sizeof *grown);
    if (grown == NULL) return &report->void_table;
    report->tables = grown;
    grown[report->table_count++] = table;
    return table;
}

Table *run_table(Report *report, const TableSpec *spec) { return new_table(report, spec); }

Run *report_run(Report *report)
{
    Run *run = report_memory(report, sizeof *run);
    Run **grown = room_for_one(report, report->runs, report->run_count, &report->run_capacity, sizeof *grown);
    if (run == NULL || grown == NULL) return &report->void_run;
    report->runs = grown;
    *run = (Run){0};
    return grown[report->run_count++] = run;
}

void table_title(Table *table, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    table->title = report_vformat(table->report, format, args);
    va_end(args);
}

static bool row_is_complete(const Table *table)
{
    const size_t full = table->row_count * table->column_count;
    if (table->cell_count == full) return true;
    return status_fail(table->report->status, STATUS_MISMATCH, "table %s: row %zu has %zu cells of %zu", table->spec->id,
                       table->row_count, table->cell_count + table->column_count - full, table->column_count);
}

void table_row(Table *table)
{
    if (status_ok(table->report->status) && row_is_complete(table)) table->row_count++;
}

static void add_cell(Table *table, Cell cell)
{
    Report *report = table->report;
    if (!status_ok(report->status)) return;
    if (table->cell_count >= table->row_count * table->column_count) {
        status_fail(report->status, STATUS_MISMATCH, "table %s: row %zu has more than %zu cells", table->spec->id,
                    table->row_count, table->column_count);
        return;
    }
    Cell *grown = room_for_one(report, table->cells, table->cell_count, &table->cell_capacity, sizeof *grown);
    if (grown == NULL) return;
    table->cells = grown;
    grown[table->cell_count++] = cell;
}

void cell_empty(Table *table) { add_cell(table, (Cell){.kind = CELL_EMPTY}); }

void cell_text(Table *table, const char *text)
{
    add_cell(table, (Cell){.kind = CELL_TEXT, .value.text = report_string(table->report, text)});
}

void cell_textf(Table *table, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_cell(table, (Cell){.kind = CELL_TEXT, .value.text = report_vformat(table->report, format, args)});
    va_end(args);
}

void cell_count(Table *table, uint64_t count) { add_cell(table, (Cell){.kind = CELL_COUNT, .value.count = count}); }

void cell_signed(Table *table, int64_t integer) { add_cell(table, (Cell){.kind = CELL_SIGNED, .value.integer = integer}); }

void cell_decimals(Table *table, double real, int decimals)
{
    add_cell(table, (Cell){.kind = CELL_DECIMALS, .digits = decimals, .value.real = real});
}

void cell_significant(Table *table, double real, int digits)
{
    add_cell(table, (Cell){.kind = CELL_SIGNIFICANT, .digits = digits, .value.real = real});
}

void table_note(Table *table, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *line = report_vformat(table->report, format, args);
    va_end(args);
    add_line(table->report, &table->notes, &table->note_count, &table->note_capacity, line);
}

void picture_line(Table *picture, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    table_row(picture);
    add_cell(picture, (Cell){.kind = CELL_TEXT, .value.text = report_vformat(picture->report, format, args)});
    va_end(args);
}

void cell_check(Table *table, uint64_t counted, uint64_t closed_form, const char *what)
{
    if (report_check(table->report, counted, closed_form, what)) {
        cell_text(table, "ok");
    } else {
        const bool more = counted > closed_form;
        cell_textf(table, "%c%" PRIu64, more ? '+' : '-', more ? counted - closed_form : closed_form - counted);
    }
}

/* ---- parameters, notes, mismatches ---- */

void report_param(Report *report, const char *name, Cell cell)
{
    Param *grown = room_for_one(report, report->params, report->param_count, &report->param_capacity, sizeof *grown);
    if (grown == NULL) return;
    report->params = grown;
    grown[report->param_count++] = (Param){.name = report_string(report, name), .cell = cell};
}

void report_param_text(Report *report, const char *name, const char *text)
{
    report_param(report, name, (Cell){.kind = CELL_TEXT, .value.text = report_string(report, text)});
}

void report_param_count(Report *report, const char *name, uint64_t count)
{
    report_param(report, name, (Cell){.kind = CELL_COUNT, .value.count = count});
}

void report_param_real(Report *report, const char *name, double real, int significant_digits)
{
    report_param(report, name, (Cell){.kind = CELL_SIGNIFICANT, .digits = significant_digits, .value.real = real});
}

void report_note(Report *report, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_line(report, &report->notes, &report->note_count, &report->note_capacity, report_vformat(report, format, args));
    va_end(args);
}

static void add_mismatch(Report *report, const char *line)
{
    add_line(report, &report->mismatches, &report->mismatch_count, &report->mismatch_capacity, line);
}

void report_mismatch(Report *report, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_mismatch(report, report_vformat(report, format, args));
    va_end(args);
}

bool report_check(Report *report, uint64_t counted, uint64_t closed_form, const char *what)
{
    if (counted == closed_form) return true;
    report_mismatch(report, "%s: counted %" PRIu64 ", closed form %" PRIu64, what, counted, closed_form);
    return false;
}

/* ---- the end ---- */

static bool is_declared(const ReportSpec *spec, const TableSpec *table)
{
    for (size_t i = 0; i < spec->table_count; i++)
        if (spec->tables[i] == table) return true;
    return false;
}

static bool run_is_complete(const Run *run)
{
    const Table *const members[] = {run->params, run->ledger, run->totals, run->closed_form, run->time, run->error};
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        if (members[i] != NULL && !row_is_complete(members[i])) return false;
    return true;
}

bool report_finish(Report *report)
{
    if (!status_ok(report->status)) return false;
    for (size_t i = 0; i < report->table_count; i++) {
        const Table *table = report->tables[i];
        if (!row_is_complete(table)) return false;
        if (!is_declared(report->spec, table->spec))
            return status_fail(report->status, STATUS_MISMATCH, "table %s is not declared by %s", table->spec->id,
                               report->program);
    }
    for (size_t i = 0; i < report->run_count; i++)
        if (!run_is_complete(report->runs[i])) return false;
    return claims_are_complete(report);
}
