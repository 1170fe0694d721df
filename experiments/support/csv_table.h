/* csv_table.h - a CSV file as a table of named columns: what measured data are read with.
 *
 * Fields are separated by commas; one that begins with a quotation mark ends with the next single one and may hold commas, line ends and
 * doubled quotation marks (RFC 4180). Lines end in \n or \r\n; empty ones and a leading byte-order mark are ignored. The first line names
 * the columns. Whoever reads asks for columns by name, in any order; columns that nobody asks for are ignored.
 *
 * An error is one line that says where: "FILE:12: column seqlen_q: '12x' is no count; expected a decimal integer below 2^64". What cannot
 * be opened or read is STATUS_IO, what stands in it STATUS_USAGE.
 */
#ifndef ATTNLAB_CSV_TABLE_H
#define ATTNLAB_CSV_TABLE_H

#include "sim/alloc.h"
#include "sim/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    const char *name;           /* of the file, for errors; borrowed */
    char *text;                 /* what the fields point into */
    const char **fields;        /* [1 + row_count][column_count], the header first */
    size_t *lines;              /* [1 + row_count]: where each begins in the file, from 1 */
    size_t row_count, column_count;
    Alloc *alloc;
} CsvTable;

/* `text` need not be terminated and is copied. csv_free is the caller's even after a failure. */
bool csv_parse(CsvTable *table, const char *name, const char *text, size_t length, Alloc *alloc, Status *status);
/* The same from a file of at most 64 MiB. */
bool csv_load(CsvTable *table, const char *path, Alloc *alloc, Status *status);
void csv_free(CsvTable *table);

/* The column of that name. A missing one is an error that offers the nearest. */
bool csv_column(const CsvTable *table, const char *name, size_t *column, Status *status);

/* A field; row 0 is the first after the header. Lives as long as the table. */
const char *csv_text(const CsvTable *table, size_t row, size_t column);
/* A decimal integer, digits alone. */
bool csv_count(const CsvTable *table, size_t row, size_t column, uint64_t *value, Status *status);
/* A finite decimal number, not negative. */
bool csv_real(const CsvTable *table, size_t row, size_t column, double *value, Status *status);
/* Records "FILE:LINE: column NAME: 'VALUE' is no WHAT; expected EXPECTED" and returns false: for values that only the caller can judge. */
bool csv_refuse(const CsvTable *table, size_t row, size_t column, const char *what, const char *expected, Status *status);

#endif
