/* csv_table.c - see csv_table.h. The text is copied once and cut in place: a field never grows when its quotation marks go. */
#include "csv_table.h"

#include "sim/suggest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COLUMNS = 256, LARGEST_FILE = 64 * 1024 * 1024, SHOWN_BYTES = 60 };

/* ---- fields ---- */

typedef struct {
    CsvTable *table;
    Status *status;
    const char *from, *end;     /* what is left to read */
    char *to;                   /* where the next field is written */
    size_t line, capacity;      /* rows that there is memory for, the header among them */
    size_t rows;
} Reader;

static bool fail_at(const Reader *r, const char *what)
{
    return status_fail(r->status, STATUS_USAGE, "%.500s:%zu: %s", r->table->name, r->line, what);
}

static bool at_line_end(const Reader *r)
{
    return r->from == r->end || *r->from == '\n' || (*r->from == '\r' && r->from + 1 < r->end && r->from[1] == '\n');
}

/* The reader stands on the opening quotation mark. */
static bool read_quoted(Reader *r)
{
    const size_t opened = r->line;
    for (r->from++; r->from < r->end; r->from++) {
        if (*r->from == '"') {
            if (r->from + 1 == r->end || r->from[1] != '"') {
                r->from++;
                return at_line_end(r) || *r->from == ',' ||
                       fail_at(r, "text after a closing quotation mark; expected a comma or the end of the line");
            }
            r->from++;
        }
        if (*r->from == '\n') r->line++;
        *r->to++ = *r->from;
    }
    r->line = opened;
    return fail_at(r, "a quotation mark is opened and never closed");
}

/* One field, terminated; the reader then stands on a comma or a line end. */
static bool read_field(Reader *r, const char **field)
{
    *field = r->to;
    if (r->from < r->end && *r->from == '"') {
        if (!read_quoted(r)) return false;
    } else {
        while (!at_line_end(r) && *r->from != ',') {
            if (*r->from == '"') return fail_at(r, "a quotation mark inside a field; expected it at the beginning");
            *r->to++ = *r->from++;
        }
    }
    *r->to++ = '\0';
    return true;
}

/* One more row of memory. */
static bool make_room(Reader *r)
{
    CsvTable *t = r->table;
    if (r->rows < r->capacity) return true;
    const size_t capacity = 2 * r->capacity + 16;
    const char **fields = alloc_resize(t->alloc, t->fields, capacity * t->column_count, sizeof *fields, "a table", r->status);
    if (fields != NULL) t->fields = fields;
    size_t *lines = alloc_resize(t->alloc, t->lines, capacity, sizeof *lines, "a table", r->status);
    if (lines != NULL) t->lines = lines;
    if (fields == NULL || lines == NULL) return false;
    r->capacity = capacity;
    return true;
}

static void end_line(Reader *r)
{
    if (r->from < r->end && *r->from == '\r') r->from++;
    if (r->from < r->end) r->from++;
    r->line++;
}

/* All fields of a line into `fields`; at most MOST_COLUMNS. */
static bool read_fields(Reader *r, const char *fields[MOST_COLUMNS], size_t *count)
{
    for (*count = 0;;) {
        if (*count == MOST_COLUMNS) return fail_at(r, "more than 256 fields");
        if (!read_field(r, &fields[(*count)++])) return false;
        if (at_line_end(r)) return true;
        r->from++;
    }
}

static bool keep_row(Reader *r, const char *const *fields, size_t count, size_t line)
{
    CsvTable *t = r->table;
    if (r->rows == 0) t->column_count = count;
    if (count != t->column_count)
        return status_fail(r->status, STATUS_USAGE, "%.500s:%zu: %zu fields; expected %zu, as many as column names", t->name, line,
                           count, t->column_count);
    if (!make_room(r)) return false;
    memcpy(t->fields + r->rows * count, fields, count * sizeof *fields);
    t->lines[r->rows++] = line;
    return true;
}

static bool names_differ(const Reader *r)
{
    const CsvTable *t = r->table;
    for (size_t i = 0; i < t->column_count; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(t->fields[i], t->fields[j]) == 0)
                return status_fail(r->status, STATUS_USAGE, "%.500s:%zu: two columns are named '%.60s'", t->name, t->lines[0], t->fields[i]);
    return true;
}

bool csv_parse(CsvTable *table, const char *name, const char *text, size_t length, Alloc *alloc, Status *status)
{
    *table = (CsvTable){.name = name, .alloc = alloc};
    Reader r = {.table = table, .status = status, .from = text, .end = text + length, .line = 1};
    if (length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) r.from += 3;
    if (memchr(text, '\0', length) != NULL) return status_fail(status, STATUS_USAGE, "%.500s: holds a zero byte: not a CSV file", name);
    table->text = r.to = alloc_array(alloc, length + 1, 2, "a table", status);      /* a field and its end for every byte, at most */
    if (table->text == NULL) return false;
    while (r.from < r.end) {
        const char *fields[MOST_COLUMNS];
        const size_t line = r.line;
        size_t count = 0;
        const bool empty = at_line_end(&r);
        if (!empty && (!read_fields(&r, fields, &count) || !keep_row(&r, fields, count, line))) return false;
        end_line(&r);
    }
    if (r.rows == 0) return status_fail(status, STATUS_USAGE, "%.500s: is empty; expected a line of column names", name);
    table->row_count = r.rows - 1;
    return names_differ(&r);
}

/* ---- files ---- */

bool csv_load(CsvTable *table, const char *path, Alloc *alloc, Status *status)
{
    *table = (CsvTable){.name = path, .alloc = alloc};
    errno = 0;
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return status_fail(status, STATUS_IO, "cannot open %.500s: %s", path, errno != 0 ? strerror(errno) : "no such file");
    char *text = NULL;
    size_t length = 0, capacity = 0;
    bool ok = true;
    while (ok && length == capacity && capacity <= LARGEST_FILE) {
        capacity = 2 * capacity + 65536;
        char *larger = alloc_resize(alloc, text, capacity, 1, "a CSV file", status);
        ok = larger != NULL;
        if (ok) text = larger;
        if (ok) length += fread(text + length, 1, capacity - length, file);
    }
    if (ok && ferror(file))
        ok = status_fail(status, STATUS_IO, "cannot read %.500s: %s", path, errno != 0 ? strerror(errno) : "read error");
    else if (ok && length > LARGEST_FILE)
        ok = status_fail(status, STATUS_USAGE, "%.500s is larger than %d bytes", path, LARGEST_FILE);
    fclose(file);
    ok = ok && csv_parse(table, path, text, length, alloc, status);
    alloc_free(alloc, text);
    return ok;
}

void csv_free(CsvTable *table)
{
    alloc_free(table->alloc, table->text);
    alloc_free(table->alloc, table->fields);
    alloc_free(table->alloc, table->lines);
    *table = (CsvTable){.alloc = table->alloc};
}

/* ---- values ---- */

bool csv_column(const CsvTable *table, const char *name, size_t *column, Status *status)
{
    for (size_t i = 0; i < table->column_count; i++) {
        *column = i;
        if (strcmp(table->fields[i], name) == 0) return true;
    }
    const char *nearest = suggest_nearest(name, table->fields, table->column_count);
    if (nearest != NULL)
        return status_fail(status, STATUS_USAGE, "%.500s:%zu: no column '%s'; did you mean '%.60s'?", table->name, table->lines[0], name, nearest);
    return status_fail(status, STATUS_USAGE, "%.500s:%zu: no column '%s'", table->name, table->lines[0], name);
}

const char *csv_text(const CsvTable *table, size_t row, size_t column) { return table->fields[(row + 1) * table->column_count + column]; }

bool csv_refuse(const CsvTable *table, size_t row, size_t column, const char *what, const char *expected, Status *status)
{
    char shown[SHOWN_BYTES + 4];
    const char *text = csv_text(table, row, column);
    const size_t length = strlen(text), kept = length < SHOWN_BYTES ? length : SHOWN_BYTES;
    for (size_t i = 0; i < kept; i++) shown[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7F ? '?' : text[i];
    strcpy(shown + kept, kept < length ? "..." : "");
    return status_fail(status, STATUS_USAGE, "%.500s:%zu: column %s: '%s' is no %s; expected %s", table->name, table->lines[row + 1],
                       table->fields[column], shown, what, expected);
}

bool csv_count(const CsvTable *table, size_t row, size_t column, uint64_t *value, Status *status)
{
    const char *text = csv_text(table, row, column);
    const size_t digits = strspn(text, "0123456789");
    errno = 0;
    *value = digits > 0 && text[digits] == '\0' ? strtoull(text, NULL, 10) : 0;
    if (digits > 0 && text[digits] == '\0' && errno == 0) return true;
    return csv_refuse(table, row, column, "count", "a decimal integer below 2^64", status);
}

bool csv_real(const CsvTable *table, size_t row, size_t column, double *value, Status *status)
{
    const char *text = csv_text(table, row, column);
    const size_t whole = strspn(text, "0123456789");
    const size_t fraction = text[whole] == '.' ? strspn(text + whole + 1, "0123456789") : 0;
    const size_t length = whole + fraction + (text[whole] == '.');
    *value = whole + fraction > 0 && text[length] == '\0' ? strtod(text, NULL) : -1;
    if (*value >= 0 && *value <= 1e300) return true;
    return csv_refuse(table, row, column, "number", "a finite decimal number, not negative", status);
}
