/* silicon_rows.h - a file of hardware counters, row by row beside what silicon_counts.h says, and the errors summed up. */
#ifndef ATTNLAB_SILICON_ROWS_H
#define ATTNLAB_SILICON_ROWS_H

#include "csv_table.h"
#include "silicon_counts.h"

/* The columns batch, heads, kv_heads, seqlen_q, seqlen_k, head_dim and causal of a file, and the problem that a row of them describes (BF16).
 * Errors name the line and the column. */
enum { SILICON_SHAPE_COLUMNS = 7 };
typedef struct {
    size_t column[SILICON_SHAPE_COLUMNS];
} SiliconShapeColumns;
bool silicon_shape_columns(const CsvTable *table, SiliconShapeColumns *columns, Status *status);
bool silicon_shape_read(const CsvTable *table, size_t row, const SiliconShapeColumns *columns, AttentionShape *shape, Status *status);
/* The same in what those columns say. */
bool silicon_same_shape(const AttentionShape *x, const AttentionShape *y);

/* One launch. */
typedef struct {
    SiliconLaunch launch;
    size_t line;                            /* of the file */
    uint64_t chip[SILICON_COUNTERS];        /* the counters */
    SiliconCounts model;                    /* ours */
    uint64_t dram_once;                     /* bytes that a perfect L2 would read from HBM; after silicon_rows_dram */
    const SiliconKernel *kernel;            /* NULL: the row is skipped, */
    const char *skipped;                    /* and why */
} SiliconRow;

typedef struct {
    CsvTable table;                         /* what the texts of the rows point into */
    SiliconRow *rows;
    size_t count;
    Alloc *alloc;
} SiliconRows;

/* Reads `path`, or the built-in h200_counters.csv when it is NULL, and computes each row for `chip`. A malformed row is an error that names
 * its line; one of an unknown kernel is skipped, a counter whose column or field is missing
 * is unknown. silicon_rows_free is the caller's even after a failure. */
bool silicon_rows_load(SiliconRows *rows, const char *path, const Profile *chip, Alloc *alloc, Status *status);
/* The same from text that is named `name` in errors. */
bool silicon_rows_parse(SiliconRows *rows, const char *name, const char *text, size_t length, const Profile *chip, Alloc *alloc, Status *status);
void silicon_rows_free(SiliconRows *rows);

/* (model - chip) / chip in percent; 0 when both are 0, infinite when only the chip's is. */
double silicon_error(uint64_t model, uint64_t chip);

/* The same for a counter of a row; of dram_write_bytes relative to all bytes that the launch wrote. */
double silicon_row_error(const SiliconRow *row, SiliconCounter counter);

/* The target of a row: that of its kernel, but 3 % for what model or chip read from HBM (nearly) once, because all that runs together fits L2. */
double silicon_row_target(const SiliconRow *row, SiliconCounter counter);

typedef enum { SILICON_MET, SILICON_KNOWN_MISS, SILICON_MISSED } SiliconVerdict;
const char *silicon_verdict_name(SiliconVerdict verdict);       /* "ok", "known", "MISSED" */
/* Of a row that is not skipped and a counter that is not left out. */
SiliconVerdict silicon_verdict(const SiliconRow *row, SiliconCounter counter);

/* The errors of some rows in one counter. */
typedef struct {
    size_t rows, met;
    double median, worst;                   /* percent, without and with sign */
} SiliconSummary;

/* Which rows and counters are looked at. */
typedef struct {
    const char *kernel;                     /* column `kernel`; NULL: all */
    const char *pass;                       /* NULL: both */
    int counter;                            /* a SiliconCounter; -1: all */
    bool dram;                              /* HBM too: after silicon_rows_dram */
} SiliconFilter;

/* The simulated L2's bytes of HBM for the rows that the filter leaves: some seconds for the built-in file. */
bool silicon_rows_dram(SiliconRows *rows, const SiliconFilter *filter, Status *status);

bool silicon_row_is_shown(const SiliconRow *row, const SiliconFilter *filter);
bool silicon_counter_is_shown(const SiliconKernel *kernel, SiliconCounter counter, const SiliconFilter *filter);
/* Both, of a row that is not skipped, and the counter is known of it. */
bool silicon_cell_is_shown(const SiliconRow *row, SiliconCounter counter, const SiliconFilter *filter);

/* Over the rows of a kernel (NULL: of all kernels) that the filter leaves. */
bool silicon_summarise(const SiliconRows *rows, const SiliconFilter *filter, const SiliconKernel *kernel, SiliconCounter counter,
                       SiliconSummary *summary, Status *status);

#endif
