/* csv_named.h - fields of a table of measurements, by the names of their columns. A bad one is in `status`, and then 0 or "". */
#ifndef ATTNLAB_CSV_NAMED_H
#define ATTNLAB_CSV_NAMED_H

#include "experiments/support/measured.h"

static inline const char *named_text(const CsvTable *table, size_t row, const char *name, Status *status)
{
    size_t column;
    return csv_column(table, name, &column, status) ? csv_text(table, row, column) : "";
}

static inline uint64_t named_count(const CsvTable *table, size_t row, const char *name, Status *status)
{
    size_t column;
    uint64_t value = 0;
    return csv_column(table, name, &column, status) && csv_count(table, row, column, &value, status) ? value : 0;
}

static inline double named_real(const CsvTable *table, size_t row, const char *name, Status *status)
{
    size_t column;
    double value = 0;
    return csv_column(table, name, &column, status) && csv_real(table, row, column, &value, status) ? value : 0;
}

/* The counts of several columns. */
static inline void named_counts(const CsvTable *table, size_t row, const char *const names[], size_t count, uint64_t values[], Status *status)
{
    for (size_t i = 0; i < count; i++) values[i] = named_count(table, row, names[i], status);
}

#endif
