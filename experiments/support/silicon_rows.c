/* silicon_rows.c - see silicon_rows.h. */
#include "silicon_rows.h"
#include "measured.h"
#include "silicon_dram.h"

#include "sim/checked.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

enum { BATCH, HEADS, KV_HEADS, QUERIES, KEYS, HEAD_DIM, CAUSAL };   /* of SiliconShapeColumns */
enum { KERNEL, PASS, LAUNCH, GRID, BLOCK, TEXTS };
enum { FITS_PERCENT = 3 };                                          /* more than once that still counts as once; and the error allowed then */

typedef struct {
    SiliconShapeColumns shape;
    size_t text[TEXTS], counter[SILICON_COUNTERS];
    bool there[SILICON_COUNTERS];
} Columns;

bool silicon_shape_columns(const CsvTable *t, SiliconShapeColumns *columns, Status *status)
{
    static const char *const names[SILICON_SHAPE_COLUMNS] = {"batch", "heads", "kv_heads", "seqlen_q", "seqlen_k", "head_dim", "causal"};
    for (int i = 0; i < SILICON_SHAPE_COLUMNS; i++)
        if (!csv_column(t, names[i], &columns->column[i], status)) return false;
    return true;
}

static bool find_columns(const CsvTable *t, Columns *c, Status *status)
{
    static const char *const texts[TEXTS] = {"kernel", "pass", "launch", "grid", "block"};
    for (int i = 0; i < TEXTS; i++)
        if (!csv_column(t, texts[i], &c->text[i], status)) return false;
    for (int i = 0; i < SILICON_COUNTERS; i++) {
        Status missing = {0};
        c->there[i] = csv_column(t, silicon_counter_name((SiliconCounter)i), &c->counter[i], &missing);
    }
    return silicon_shape_columns(t, &c->shape, status);
}

/* "8x1x16": the product of three. */
static bool read_dimensions(const CsvTable *t, size_t row, size_t column, uint64_t *product, Status *status)
{
    const char *at = csv_text(t, row, column);
    *product = 1;
    for (int i = 0; i < 3; i++) {
        char *end = NULL;
        const uint64_t side = *at >= '1' && *at <= '9' ? strtoull(at, &end, 10) : 0;
        if (side == 0 || side > UINT32_MAX || *end != (i < 2 ? 'x' : '\0') || *product > UINT32_MAX)
            return csv_refuse(t, row, column, "grid", "three sizes, 8x1x16, together below 2^64", status);
        *product *= side;
        at = end + 1;
    }
    return true;
}

bool silicon_shape_read(const CsvTable *t, size_t row, const SiliconShapeColumns *c, AttentionShape *shape, Status *status)
{
    uint64_t size[SILICON_SHAPE_COLUMNS];
    for (int i = 0; i < SILICON_SHAPE_COLUMNS; i++)
        if (!csv_count(t, row, c->column[i], &size[i], status)) return false;
    if (size[CAUSAL] > 1) return csv_refuse(t, row, c->column[CAUSAL], "mask", "0 or 1", status);
    *shape = attention_shape(size[QUERIES], size[HEAD_DIM]);
    shape->batch = size[BATCH];
    shape->heads = size[HEADS];
    shape->kv_heads = size[KV_HEADS];
    shape->seqlen_k = size[KEYS];
    shape->mask = size[CAUSAL] == 1 ? MASK_CAUSAL : MASK_NONE;
    Status refused = {0};
    if (attention_check(shape, &refused)) return true;
    return status_fail(status, refused.code, "%.500s:%zu: %.400s", t->name, t->lines[row + 1], refused.text);
}

/* A column that is not there, or an empty field, is not measured. */
static bool is_measured(const CsvTable *t, size_t row, const Columns *c, int counter)
{
    return c->there[counter] && csv_text(t, row, c->counter[counter])[0] != '\0';
}

static bool read_row(const CsvTable *t, size_t row, const Columns *c, SiliconRow *out, Status *status)
{
    *out = (SiliconRow){.line = t->lines[row + 1],
                        .launch = {.kernel = csv_text(t, row, c->text[KERNEL]), .pass = csv_text(t, row, c->text[PASS]),
                                   .launch = csv_text(t, row, c->text[LAUNCH])}};
    for (int i = 0; i < SILICON_COUNTERS; i++)
        if (is_measured(t, row, c, i) && !csv_count(t, row, c->counter[i], &out->chip[i], status)) return false;
    return silicon_shape_read(t, row, &c->shape, &out->launch.shape, status) &&
           read_dimensions(t, row, c->text[GRID], &out->launch.grid, status) &&
           read_dimensions(t, row, c->text[BLOCK], &out->launch.threads, status);
}

/* ---- the model ---- */

bool silicon_same_shape(const AttentionShape *x, const AttentionShape *y)
{
    return x->batch == y->batch && x->heads == y->heads && x->kv_heads == y->kv_heads && x->seqlen_q == y->seqlen_q &&
           x->seqlen_k == y->seqlen_k && x->head_dim == y->head_dim && x->mask == y->mask;
}

static bool same_problem(const SiliconLaunch *a, const SiliconLaunch *b)
{
    return strcmp(a->kernel, b->kernel) == 0 && strcmp(a->pass, b->pass) == 0 && silicon_same_shape(&a->shape, &b->shape);
}

/* A combine kernel's number of parts: that of the launch that made them, the nearest before it of the same problem. */
static uint64_t splits_of(const SiliconRows *rows, size_t combine)
{
    for (size_t i = combine; i-- > 0;) {
        const SiliconRow *row = &rows->rows[i];
        if (row->kernel != NULL && strcmp(silicon_kernel_role(row->kernel), "split") == 0 &&
            same_problem(&row->launch, &rows->rows[combine].launch))
            return silicon_splits(&row->launch);
    }
    return 0;
}

static bool describe_row(SiliconRows *rows, size_t i, const Columns *columns, const Profile *chip, Status *status)
{
    SiliconRow *row = &rows->rows[i];
    Status failed = {0};
    row->kernel = silicon_kernel_of(&row->launch, &row->skipped);
    if (row->kernel == NULL) return true;
    if (strcmp(silicon_kernel_role(row->kernel), "combine") == 0) row->launch.splits = splits_of(rows, i);
    if (!silicon_counts(row->kernel, &row->launch, chip, &row->model, &row->skipped, &failed)) row->kernel = NULL;
    for (int c = 0; c < SILICON_COUNTERS; c++)
        if (!is_measured(&rows->table, i, columns, c)) row->model.unknown[c] = "not measured";
    return status_ok(&failed) ||
           status_fail(status, failed.code, "%.500s:%zu: %.400s", rows->table.name, row->line, failed.text);
}

static bool read_rows(SiliconRows *rows, const Profile *chip, Status *status)
{
    Columns columns;
    if (!find_columns(&rows->table, &columns, status)) return false;
    rows->rows = alloc_array(rows->alloc, rows->table.row_count, sizeof *rows->rows, "rows of counters", status);
    if (rows->rows == NULL) return false;
    for (size_t i = 0; i < rows->table.row_count; i++) {
        if (!read_row(&rows->table, i, &columns, &rows->rows[i], status) || !describe_row(rows, i, &columns, chip, status)) return false;
        rows->count++;
    }
    return true;
}

bool silicon_rows_load(SiliconRows *rows, const char *path, const Profile *chip, Alloc *alloc, Status *status)
{
    *rows = (SiliconRows){.alloc = alloc};
    return measured_load(&rows->table, path, "h200_counters", alloc, status) && read_rows(rows, chip, status);
}

bool silicon_rows_parse(SiliconRows *rows, const char *name, const char *text, size_t length, const Profile *chip, Alloc *alloc, Status *status)
{
    *rows = (SiliconRows){.alloc = alloc};
    return csv_parse(&rows->table, name, text, length, alloc, status) && read_rows(rows, chip, status);
}

static bool row_dram(SiliconRow *row, Alloc *alloc, Status *status)
{
    const SiliconLaunch *l = &row->launch;
    DramBytes bytes;
    DramProblem problem = {.shape = l->shape};
    if (!silicon_dram_find(l->kernel, l->pass, l->launch, &problem)) return true;
    Status failed = {0};
    if (!silicon_dram(&problem, alloc, &failed, &bytes)) {
        static const char too_long[] = "too long for the simulated L2, or it does not fit";
        row->model.unknown[SILICON_DRAM_READ] = row->model.unknown[SILICON_DRAM_WRITE] = too_long;
        return failed.code == STATUS_INFEASIBLE || status_fail(status, failed.code, "line %zu: %.400s", row->line, failed.text);
    }
    row->model.n[SILICON_DRAM_READ] = bytes.read;
    row->model.n[SILICON_DRAM_WRITE] = bytes.written;
    row->dram_once = bytes.once;
    return true;
}

bool silicon_rows_dram(SiliconRows *rows, const SiliconFilter *filter, Status *status)
{
    for (size_t i = 0; i < rows->count; i++) {
        SiliconRow *row = &rows->rows[i];
        if (row->kernel != NULL && silicon_row_is_shown(row, filter) && !row_dram(row, rows->alloc, status)) return false;
    }
    return true;
}

void silicon_rows_free(SiliconRows *rows)
{
    csv_free(&rows->table);
    alloc_free(rows->alloc, rows->rows);
    *rows = (SiliconRows){.alloc = rows->alloc};
}

/* ---- errors ---- */

double silicon_error(uint64_t model, uint64_t chip)
{
    if (model == chip) return 0;
    const double difference = model > chip ? (double)(model - chip) : -(double)(chip - model);
    return chip == 0 ? INFINITY : 100 * difference / (double)chip;
}

/* What HBM is written during a launch is what L2 could not keep: its error is judged by all that the launch wrote, or by more that was written. */
double silicon_row_error(const SiliconRow *row, SiliconCounter counter)
{
    const uint64_t model = row->model.n[counter], chip = row->chip[counter], written = max_u64(row->chip[SILICON_L2_WRITE], chip);
    if (counter != SILICON_DRAM_WRITE || written == 0) return silicon_error(model, chip);
    return 100 * ((double)model - (double)chip) / (double)written;
}

double silicon_row_target(const SiliconRow *row, SiliconCounter counter)
{
    const uint64_t least = min_u64(row->model.n[counter], row->chip[counter]);
    if (counter == SILICON_DRAM_READ && silicon_error(least, row->dram_once) <= FITS_PERCENT) return FITS_PERCENT;
    return silicon_target(row->kernel, counter);
}

const char *silicon_verdict_name(SiliconVerdict verdict)
{
    return verdict == SILICON_MET ? "ok" : verdict == SILICON_KNOWN_MISS ? "known" : "MISSED";
}

SiliconVerdict silicon_verdict(const SiliconRow *row, SiliconCounter counter)
{
    if (fabs(silicon_row_error(row, counter)) <= silicon_row_target(row, counter)) return SILICON_MET;
    return silicon_known_miss(row->kernel, counter) != NULL ? SILICON_KNOWN_MISS : SILICON_MISSED;
}

bool silicon_row_is_shown(const SiliconRow *row, const SiliconFilter *filter)
{
    return (filter->kernel == NULL || strcmp(filter->kernel, row->launch.kernel) == 0) &&
           (filter->pass == NULL || strcmp(filter->pass, row->launch.pass) == 0);
}

bool silicon_counter_is_shown(const SiliconKernel *kernel, SiliconCounter counter, const SiliconFilter *filter)
{
    const bool dram = counter == SILICON_DRAM_READ || counter == SILICON_DRAM_WRITE;
    return (filter->counter < 0 || filter->counter == (int)counter) && silicon_left_out(kernel, counter) == NULL && (filter->dram || !dram);
}

bool silicon_cell_is_shown(const SiliconRow *row, SiliconCounter counter, const SiliconFilter *filter)
{
    return row->kernel != NULL && silicon_row_is_shown(row, filter) && silicon_counter_is_shown(row->kernel, counter, filter) &&
           row->model.unknown[counter] == NULL;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Adds a row's error to those so far. */
static void add_error(const SiliconRow *row, SiliconCounter counter, double *sizes, SiliconSummary *summary)
{
    const double error = silicon_row_error(row, counter);
    if (summary->rows == 0 || fabs(error) > fabs(summary->worst)) summary->worst = error;
    sizes[summary->rows++] = fabs(error);
    summary->met += silicon_verdict(row, counter) == SILICON_MET;
}

bool silicon_summarise(const SiliconRows *rows, const SiliconFilter *filter, const SiliconKernel *kernel, SiliconCounter counter,
                       SiliconSummary *summary, Status *status)
{
    *summary = (SiliconSummary){0};
    double *sizes = alloc_array(rows->alloc, rows->count, sizeof *sizes, "errors", status);
    if (sizes == NULL) return false;
    for (size_t i = 0; i < rows->count; i++) {
        const SiliconRow *row = &rows->rows[i];
        if ((kernel == NULL || row->kernel == kernel) && silicon_cell_is_shown(row, counter, filter)) add_error(row, counter, sizes, summary);
    }
    qsort(sizes, summary->rows, sizeof *sizes, by_size);
    const size_t n = summary->rows;
    if (n > 0) summary->median = (sizes[(n - 1) / 2] + sizes[n / 2]) / 2;
    alloc_free(rows->alloc, sizes);
    return true;
}
