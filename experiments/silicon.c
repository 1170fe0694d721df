/* silicon.c - the model beside a real chip: hardware counters and wall times of shipped kernels, row by row.
 *
 *     silicon                             every row of one H200's counters, then the errors by kernel and counter
 *     silicon --summary                   only the errors, and what is behind them
 *     silicon --counters FILE --check     other rows of the same kernels; exit code 1 when a target is missed that should be met
 *
 * A row is one launch. Its counts are formulas (support/silicon_counts.h): the closed forms of algos/ with the tiles of the shipped kernel,
 * and the named mechanisms that a real kernel has on top. Nothing is fitted to a row; the numbers that were read off counters are
 * listed (table calibrated), and so is every counter that the model leaves out or is known to miss, with the reason. The chip is an H200
 * unless --hw names another. HBM bytes are those of the simulated L2 (support/silicon_dram.h). Times (support/silicon_times.h) stand beside
 * the time model without a verdict.
 */
#include "support/experiment.h"
#include "support/silicon_published.h"
#include "support/silicon_times.h"

#include "sim/suggest.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the declarations ---- */

static const Column worst_columns[] = {
    {"kernel", "", "flash: FlashAttention-2 as shipped in PyTorch; cudnn: cuDNN's Hopper kernels; std: standard attention's three"},
    {"pass", "", "forward or backward"},
    {"launch", "", "what the launch does"},
    {"rows", "", "launches compared"},
    {"L2 read", "%", "worst error of l2_to_l1_read_bytes; - left out, ! a target was missed"},
    {"L2 write", "%", "worst error of l1_to_l2_write_bytes"},
    {"L2 add", "%", "worst error of l2_red_sectors"},
    {"smem", "%", "worst error of smem_wavefronts"},
    {"XU", "%", "worst error of xu_warp_insts"},
    {"tensor", "%", "worst error of tensor_warp_insts"},
    {"cycles", "%", "worst error of tensor_pipe_cycles"},
    {"HBM read", "%", "worst error of dram_read_bytes"},
    {"HBM write", "%", "worst error of dram_write_bytes, relative to all that the launch wrote"},
};
static const TableSpec worst_table = {"worst", "Worst error, by launch and counter", worst_columns, 4 + SILICON_COUNTERS};

static const Column counter_columns[] = {
    {"counter", "", "column of the counters' file"},
    {"rows", "", "launches of which the model has this counter"},
    {"within", "", "rows whose error is within the target of their kernel"},
    {"share", "%", "of the rows"},
    {"median", "%", "of the errors without sign"},
    {"worst", "%", "the largest error; + the model is above the chip"},
};
static const TableSpec counter_table = {"counters", "All launches, by counter", counter_columns, 6};

static const Column summary_columns[] = {
    {"kernel", "", "flash, cudnn, std_qk, std_softmax, std_pv"},
    {"pass", "", "forward or backward"},
    {"launch", "", "what the launch does"},
    {"counter", "", "column of the counters' file"},
    {"target", "%", "largest error allowed; of what HBM reads once, 3"},
    {"rows", "", "launches compared"},
    {"within", "", "rows within the target"},
    {"median", "%", "of the errors without sign"},
    {"worst", "%", "the largest error; + the model is above the chip"},
};
static const TableSpec summary_table = {"summary", "Errors by launch and counter", summary_columns, 9};

static const Column miss_columns[] = {
    {"kernel", "", "flash, cudnn, std_qk, std_softmax, std_pv"},
    {"launch", "", "what the launch does"},
    {"counter", "", "column of the counters' file"},
    {"missed", "", "rows outside the target; 0: rows of h200_counters_more or h200_counters_decode are"},
    {"of", "", "rows"},
    {"worst", "%", "the largest error; + the model is above the chip"},
    {"why", "", "as far as it is known"},
};
static const TableSpec miss_table = {"missed", "Where the model is wrong", miss_columns, 7};

static const Column left_out_columns[] = {
    {"kernel", "", "flash, cudnn, std_qk, std_softmax, std_pv"},
    {"launch", "", "what the launch does"},
    {"counter", "", "column of the counters' file"},
    {"why", "", "why there is no formula"},
};
static const TableSpec left_out_table = {"left_out", "What the model leaves out", left_out_columns, 4};

static const Column calibrated_columns[] = {
    {"number", "", "what is no consequence of the algorithm"},
    {"value", "", "as used"},
    {"read off", "", "the counters that it was taken from"},
};
static const TableSpec calibrated_table = {"calibrated", "What is calibrated on what", calibrated_columns, 3};

static const Column skipped_columns[] = {
    {"line", "", "of the counters' file"},
    {"kernel", "", "as in the file"},
    {"launch", "", "as in the file"},
    {"why", "", "why it is not compared"},
};
static const TableSpec skipped_table = {"skipped", "Rows that are not compared", skipped_columns, 4};

static const Column row_columns[] = {
    {"line", "", "of the counters' file"},
    {"kernel", "", "as in the file"},
    {"pass", "", "forward or backward"},
    {"launch", "", "what the launch does"},
    {"heads", "", "query heads of the batch"},
    {"N_q", "", "queries"},
    {"N_k", "", "keys"},
    {"d", "", "head dimension"},
    {"causal", "", "1: with a causal mask"},
    {"counter", "", "column of the counters' file"},
    {"model", "", "ours"},
    {"chip", "", "the counter"},
    {"ratio", "", "model / chip"},
    {"target", "%", "largest error allowed"},
    {"verdict", "", "ok; known: missed, and table missed says why; MISSED: without a known reason"},
};
static const TableSpec row_table = {"rows", "Every launch and counter", row_columns, 15};

static const Column time_summary_columns[] = {
    {"kernel", "", "as in the file of times"},
    {"pass", "", "forward or backward"},
    {"rows", "", "problems timed"},
    {"fastest", "", "smallest model / chip"},
    {"median", "", "of model / chip"},
    {"slowest", "", "largest model / chip"},
    {"modelled as", "", "the algorithm of attn that was walked; or why there is none"},
};
static const TableSpec time_summary_table = {"time_summary", "Time: the model over the chip", time_summary_columns, 7};

static const Column time_columns[] = {
    {"line", "", "of the file of times"},
    {"kernel", "", "as in the file"},
    {"pass", "", "forward or backward"},
    {"heads", "", "query heads of the batch"},
    {"N_q", "", "queries"},
    {"N_k", "", "keys"},
    {"d", "", "head dimension"},
    {"causal", "", "1: with a causal mask"},
    {"chip", "us", "measured"},
    {"model", "us", "time model: launches one after the other, no launch cost"},
    {"ratio", "", "model / chip"},
    {"bound", "", "what binds the longest launch in the model"},
};
static const TableSpec time_table = {"times", "Every time", time_columns, 12};

static const Column error_columns[] = {
    {"chip", "", "whose times"},
    {"kernel", "", "as in the file, or on the bar"},
    {"pass", "", "forward or backward"},
    {"rows", "", "times at N >= 1024 that the model has a kernel for"},
    {"median", "%", "of |model / chip - 1|"},
    {"nine of ten", "%", "nine of ten rows err by no more"},
    {"limit", "%", "error that nine of ten rows should not exceed"},
    {"within", "%", "rows within the limit"},
    {"worst", "%", "the largest error"},
};
static const TableSpec error_table = {"time_errors", "Time: errors at N >= 1024", error_columns, 9};

static const Column ranking_columns[] = {
    {"times", "", "where they come from"},
    {"pairs", "", "two kernels, one problem, more than 10 % apart"},
    {"right", "", "pairs of which the model has the same one faster"},
    {"share", "%", "right of pairs"},
};
static const TableSpec ranking_table = {"ranking", "Which of two kernels is faster", ranking_columns, 4};

static const Column constant_columns[] = {
    {"constant", "", "key of the chip's profile"},
    {"a100", "", "NVIDIA A100"},
    {"h100", "", "NVIDIA H100"},
    {"h200", "", "NVIDIA H200"},
    {"b200", "", "NVIDIA B200"},
    {"fixed by", "", "what it was read off, on the H200; the other chips' values have their sources in hw_profiles/"},
};
static const TableSpec constant_table = {"constants", "Constants of the time model that no data sheet has: eight a chip", constant_columns, 6};

static const TableSpec *const tables[] = {&worst_table,   &counter_table, &miss_table,         &left_out_table, &calibrated_table,
                                          &time_summary_table, &constant_table, &error_table, &ranking_table, &skipped_table, &summary_table, &row_table, &time_table};
static const ProgramOption options[] = {{OPTION_COUNTERS, NULL}, {OPTION_TIMINGS, NULL}, {OPTION_KERNEL, NULL},
                                        {OPTION_PASS, NULL},     {OPTION_COUNTER, NULL}, {OPTION_SUMMARY, NULL}};

/* ---- what is looked at ---- */

static bool find_counter(const char *name, int *counter, Status *status)
{
    const char *names[SILICON_COUNTERS];
    *counter = -1;
    for (int i = 0; i < SILICON_COUNTERS; i++) {
        names[i] = silicon_counter_name((SiliconCounter)i);
        if (strcmp(names[i], name) == 0) *counter = i;
    }
    if (*counter >= 0) return true;
    const char *nearest = suggest_nearest(name, names, SILICON_COUNTERS);
    return status_fail(status, STATUS_USAGE, "--counter: no counter '%.60s' is modelled; %s%s%s", name,
                       nearest != NULL ? "did you mean '" : "expected a counter of ", nearest != NULL ? nearest : "table counters",
                       nearest != NULL ? "'?" : "");
}

enum { NAMES = 64 };

/* The kernels of both files, each once. */
static size_t kernel_names(const SiliconRows *rows, const SiliconTimes *times, const char *names[NAMES])
{
    size_t count = 0;
    for (size_t i = 0; i < rows->count + times->count && count < NAMES; i++) {
        const char *name = i < rows->count ? rows->rows[i].launch.kernel : times->rows[i - rows->count].kernel;
        size_t known = 0;
        while (known < count && strcmp(names[known], name) != 0) known++;
        if (known == count) names[count++] = name;
    }
    return count;
}

static bool kernel_is_there(const SiliconRows *rows, const SiliconTimes *times, const char *name, Status *status)
{
    const char *names[NAMES];
    const size_t count = kernel_names(rows, times, names);
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0) return true;
    const char *nearest = suggest_nearest(name, names, count);
    return status_fail(status, STATUS_USAGE, "--kernel: '%.60s' is neither in %.300s nor in %.300s%s%s%s", name, rows->table.name, times->table.name,
                       nearest != NULL ? "; did you mean '" : "", nearest != NULL ? nearest : "", nearest != NULL ? "'?" : "");
}

static bool make_filter(const Options *o, const SiliconRows *rows, const SiliconTimes *times, SiliconFilter *filter, Status *status)
{
    *filter = (SiliconFilter){.kernel = o->kernel, .counter = -1};
    if (o->given[OPTION_PASS]) filter->pass = option_choice(OPTION_PASS, (int)o->pass);
    return (o->kernel == NULL || kernel_is_there(rows, times, o->kernel, status)) &&
           (o->counter == NULL || find_counter(o->counter, &filter->counter, status));
}

/* ---- the tables ---- */

/* What the tables are made of. */
typedef struct {
    const Context *context;
    Report *report;
    const Profile *chip;
    SiliconRows rows;
    SiliconTimes times;
    SiliconFilter filter;
    /* by kernel and counter, [silicon_kernel_count()][SILICON_COUNTERS]; of a counter that is not shown: no rows */
    SiliconSummary *summaries;
} Silicon;

static const SiliconSummary *summary_of(const Silicon *s, size_t kernel, int counter)
{
    return &s->summaries[kernel * SILICON_COUNTERS + (size_t)counter];
}

static bool summarise_all(Silicon *s)
{
    s->summaries = alloc_array(s->context->alloc, silicon_kernel_count() * SILICON_COUNTERS, sizeof *s->summaries, "errors", s->context->status);
    if (s->summaries == NULL) return false;
    for (size_t k = 0; k < silicon_kernel_count(); k++)
        for (int c = 0; c < SILICON_COUNTERS; c++)
            if (!silicon_summarise(&s->rows, &s->filter, silicon_kernel_at(k), (SiliconCounter)c,
                                   &s->summaries[k * SILICON_COUNTERS + (size_t)c], s->context->status))
                return false;
    return true;
}

static size_t rows_of_kernel(const Silicon *s, const SiliconKernel *kernel)
{
    size_t count = 0;
    for (size_t i = 0; i < s->rows.count; i++)
        count += s->rows.rows[i].kernel == kernel && silicon_row_is_shown(&s->rows.rows[i], &s->filter);
    return count;
}

static void kernel_cells(Table *table, const SiliconKernel *kernel, bool pass_too)
{
    cell_text(table, silicon_kernel_name(kernel));
    if (pass_too) cell_text(table, silicon_kernel_pass(kernel));
    cell_text(table, silicon_kernel_role(kernel));
}

static void signed_percent(Table *table, double error)
{
    if (isinf(error)) cell_text(table, "inf");
    else cell_textf(table, "%+.2f", error == 0 ? 0.0 : error);
}

static void add_worst(const Silicon *s)
{
    Table *table = report_table(s->report, &worst_table);
    for (size_t k = 0; k < silicon_kernel_count(); k++) {
        const SiliconKernel *kernel = silicon_kernel_at(k);
        const size_t rows = rows_of_kernel(s, kernel);
        if (rows == 0) continue;
        table_row(table);
        kernel_cells(table, kernel, true);
        cell_count(table, rows);
        for (int c = 0; c < SILICON_COUNTERS; c++) {
            const SiliconSummary *summary = summary_of(s, k, c);
            if (summary->rows == 0) cell_text(table, "-");
            else cell_textf(table, "%.2f%s", fabs(summary->worst), summary->met < summary->rows ? " !" : "");
        }
    }
}

static bool add_counters(const Silicon *s)
{
    Table *table = report_table(s->report, &counter_table);
    for (int c = 0; c < SILICON_COUNTERS; c++) {
        SiliconSummary all;
        if (!silicon_summarise(&s->rows, &s->filter, NULL, (SiliconCounter)c, &all, s->context->status)) return false;
        if (all.rows == 0) continue;
        table_row(table);
        cell_text(table, silicon_counter_name((SiliconCounter)c));
        cell_count(table, all.rows);
        cell_count(table, all.met);
        cell_decimals(table, 100 * (double)all.met / (double)all.rows, 1);
        cell_decimals(table, all.median, 2);
        signed_percent(table, all.worst);
    }
    return true;
}

static void add_misses(const Silicon *s)
{
    Table *table = report_table(s->report, &miss_table);
    for (size_t k = 0; k < silicon_kernel_count(); k++) {
        for (int c = 0; c < SILICON_COUNTERS; c++) {
            const SiliconSummary *summary = summary_of(s, k, c);
            const char *why = silicon_known_miss(silicon_kernel_at(k), (SiliconCounter)c);
            if (summary->met == summary->rows && (why == NULL || summary->rows == 0)) continue;
            table_row(table);
            kernel_cells(table, silicon_kernel_at(k), false);
            cell_text(table, silicon_counter_name((SiliconCounter)c));
            cell_count(table, summary->rows - summary->met);
            cell_count(table, summary->rows);
            signed_percent(table, summary->worst);
            cell_text(table, why != NULL ? why : "not known");
        }
    }
}

static void add_left_out(const Silicon *s)
{
    Table *table = report_table(s->report, &left_out_table);
    for (size_t k = 0; k < silicon_kernel_count(); k++) {
        const SiliconKernel *kernel = silicon_kernel_at(k);
        for (int c = 0; c < SILICON_COUNTERS; c++) {
            const char *why = silicon_left_out(kernel, (SiliconCounter)c);
            if (why == NULL || rows_of_kernel(s, kernel) == 0 || (s->filter.counter >= 0 && s->filter.counter != c)) continue;
            table_row(table);
            kernel_cells(table, kernel, false);
            cell_text(table, silicon_counter_name((SiliconCounter)c));
            cell_text(table, why);
        }
    }
}

static void add_calibrations(Report *report)
{
    Table *table = report_table(report, &calibrated_table);
    for (size_t i = 0; i < silicon_calibration_count; i++) {
        table_row(table);
        cell_text(table, silicon_calibrations[i].what);
        cell_text(table, silicon_calibrations[i].value);
        cell_text(table, silicon_calibrations[i].from);
    }
}

/* One kernel's cycles are among what fixes them: cuDNN's forward pass, two shapes of the H200. */
static bool add_constants(const Context *context, Report *report)
{
    enum { CHIPS = 4 };
    static const char *const names[CHIPS] = {"a100", "h100", "h200", "b200"};
    static const struct {
        const char *key, *from;
    } constants[] = {
        {"issue_interval_millicycles_per_warp", "warp instructions and cycles of cuDNN's forward kernels (counters)"},
        {"independent_interval_millicycles_per_warp", "micro-benchmark: eight polynomials at once"},
        {"matmul_startup_cycles", "micro-benchmark: wgmma and wait"},
        {"mma_sync_startup_cycles", "micro-benchmark: products of 32 rows a warp with their ldmatrix"},
        {"wgmma_queue_instructions", "micro-benchmark: when a warpgroup has issued, and when it is done"},
        {"barrier_latency_cycles", "micro-benchmark: bar.sync"},
        {"full_tensor_clock_hz", "cuBLAS, 8192^3: TFLOP/s and share of tensor cycles"},
        {"launch_nanoseconds", "micro-benchmark: empty kernels back to back"},
    };
    Profile chips[CHIPS];
    for (size_t c = 0; c < CHIPS; c++)
        if (!profile_load(names[c], context->alloc, &chips[c], context->status)) return false;
    Table *table = report_table(report, &constant_table);
    for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++) {
        const ProfileKey *key = profile_key_named(constants[i].key);
        table_row(table);
        cell_text(table, key->name);
        for (size_t c = 0; c < CHIPS; c++) {
            char value[48];
            profile_format_value(key, profile_value(&chips[c], key), value, sizeof value);
            cell_text(table, value);
        }
        cell_text(table, constants[i].from);
    }
    table_note(table, "The first took the cycles of one kernel at two shapes; the others, and all that is said of other kernels and chips, no kernel's time.");
    table_note(table, "Beside them, by class of kernel and not by chip, the instructions of an exponential and of a fragment as compiled (sim/cost.c).");
    return true;
}

static void add_skipped(const Silicon *s)
{
    Table *table = NULL;
    for (size_t i = 0; i < s->rows.count; i++) {
        const SiliconRow *row = &s->rows.rows[i];
        if (row->kernel != NULL || !silicon_row_is_shown(row, &s->filter)) continue;
        if (table == NULL) table = report_table(s->report, &skipped_table);
        table_row(table);
        cell_count(table, row->line);
        cell_text(table, row->launch.kernel);
        cell_text(table, row->launch.launch);
        cell_text(table, row->skipped);
    }
}

static void add_summary(const Silicon *s)
{
    Table *table = report_table(s->report, &summary_table);
    for (size_t k = 0; k < silicon_kernel_count(); k++) {
        for (int c = 0; c < SILICON_COUNTERS; c++) {
            const SiliconSummary *summary = summary_of(s, k, c);
            if (summary->rows == 0) continue;
            table_row(table);
            kernel_cells(table, silicon_kernel_at(k), true);
            cell_text(table, silicon_counter_name((SiliconCounter)c));
            cell_decimals(table, silicon_target(silicon_kernel_at(k), (SiliconCounter)c), 1);
            cell_count(table, summary->rows);
            cell_count(table, summary->met);
            cell_decimals(table, summary->median, 2);
            signed_percent(table, summary->worst);
        }
    }
}

static void row_cells(Table *table, const SiliconRow *row, SiliconCounter counter)
{
    const AttentionShape *shape = &row->launch.shape;
    table_row(table);
    cell_count(table, row->line);
    cell_text(table, row->launch.kernel);
    cell_text(table, row->launch.pass);
    cell_text(table, silicon_kernel_role(row->kernel));
    cell_count(table, shape->batch * shape->heads);
    cell_count(table, shape->seqlen_q);
    cell_count(table, shape->seqlen_k);
    cell_count(table, shape->head_dim);
    cell_count(table, shape->mask != MASK_NONE);
    cell_text(table, silicon_counter_name(counter));
    cell_count(table, row->model.n[counter]);
    cell_count(table, row->chip[counter]);
    if (row->chip[counter] > 0) cell_decimals(table, (double)row->model.n[counter] / (double)row->chip[counter], 4);
    else cell_empty(table);
    cell_decimals(table, silicon_row_target(row, counter), 1);
    cell_text(table, silicon_verdict_name(silicon_verdict(row, counter)));
}

static void add_rows(const Silicon *s)
{
    Table *table = report_table(s->report, &row_table);
    for (size_t i = 0; i < s->rows.count; i++) {
        const SiliconRow *row = &s->rows.rows[i];
        for (int c = 0; c < SILICON_COUNTERS; c++)
            if (silicon_cell_is_shown(row, (SiliconCounter)c, &s->filter)) row_cells(table, row, (SiliconCounter)c);
    }
}

/* ---- times ---- */

static bool time_is_shown(const SiliconTime *row, const SiliconFilter *filter)
{
    return filter->counter < 0 && (filter->kernel == NULL || strcmp(filter->kernel, row->kernel) == 0) &&
           (filter->pass == NULL || strcmp(filter->pass, row->pass) == 0);
}

static double time_ratio(const SiliconTime *row) { return row->model_us / row->chip_us; }

static bool model_times(Silicon *s)
{
    for (size_t i = 0; i < s->times.count; i++)
        if (time_is_shown(&s->times.rows[i], &s->filter) &&
            !silicon_time_model(&s->times.rows[i], s->chip, s->context->alloc, s->context->status))
            return false;
    return true;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool same_kind(const SiliconTime *a, const SiliconTime *b) { return strcmp(a->kernel, b->kernel) == 0 && strcmp(a->pass, b->pass) == 0; }

/* One line for all rows of the kernel and pass of `first`. */
static void time_summary_row(const Silicon *s, Table *table, const SiliconTime *first, double *ratios)
{
    size_t count = 0, all = 0;
    for (size_t i = 0; i < s->times.count; i++) {
        const SiliconTime *row = &s->times.rows[i];
        if (!same_kind(row, first)) continue;
        all++;
        if (row->skipped == NULL) ratios[count++] = time_ratio(row);
    }
    qsort(ratios, count, sizeof *ratios, by_value);
    table_row(table);
    cell_text(table, first->kernel);
    cell_text(table, first->pass);
    cell_count(table, all);
    for (int i = 0; i < 3; i++) {
        if (count == 0) cell_empty(table);
        else cell_decimals(table, i == 1 ? (ratios[(count - 1) / 2] + ratios[count / 2]) / 2 : ratios[i == 0 ? 0 : count - 1], 2);
    }
    cell_text(table, first->skipped != NULL ? first->skipped : first->stands_for);
}

static bool add_time_summary(const Silicon *s)
{
    double *ratios = alloc_array(s->context->alloc, s->times.count, sizeof *ratios, "ratios", s->context->status);
    if (ratios == NULL) return false;
    Table *table = report_table(s->report, &time_summary_table);
    for (size_t i = 0; i < s->times.count; i++) {
        const SiliconTime *row = &s->times.rows[i];
        bool first = time_is_shown(row, &s->filter);
        for (size_t k = 0; k < i && first; k++) first = !same_kind(&s->times.rows[k], row);
        if (first) time_summary_row(s, table, row, ratios);
    }
    alloc_free(s->context->alloc, ratios);
    return true;
}

/* Rows of the file of times that count: attention, at N >= 1024, of this kernel and pass (NULL: flash and cudnn, both). */
static size_t measured_errors(const Silicon *s, const char *kernel, const char *pass, double *errors)
{
    size_t count = 0;
    for (size_t i = 0; i < s->times.count; i++) {
        const SiliconTime *row = &s->times.rows[i];
        const bool main_kernel = strcmp(row->kernel, "flash") == 0 || strcmp(row->kernel, "cudnn") == 0;
        if (row->skipped != NULL || row->shape.seqlen_q < 1024 || (kernel == NULL ? !main_kernel : strcmp(kernel, row->kernel) != 0)) continue;
        if (pass == NULL || strcmp(pass, row->pass) == 0) errors[count++] = time_ratio(row) - 1;
    }
    return count;
}

static size_t published_errors(const PublishedTimes *times, const char *chip, const char *kernel, const char *pass, bool fp8, double *errors)
{
    size_t count = 0;
    for (size_t i = 0; i < times->count; i++) {
        const PublishedTime *row = &times->rows[i];
        const PublishedSource *source = published_source(row->curve->figure);
        if (strcmp(chip, source->chip) != 0 || strcmp(kernel, row->curve->kernel) != 0 || fp8 != (source->dtype == ELEMENT_E4M3)) continue;
        if (pass == NULL || strcmp(pass, source->pass) == 0) errors[count++] = row->model_us / row->printed_us - 1;
    }
    return count;
}

static void error_cells(Table *table, const char *chip, const char *kernel, const char *pass, double *errors, size_t count, double limit)
{
    const TimeErrors e = time_errors(errors, count, limit);
    if (count == 0) return;
    table_row(table);
    cell_text(table, chip);
    cell_text(table, kernel);
    cell_text(table, pass == NULL ? "both" : pass);
    cell_count(table, count);
    cell_decimals(table, 100 * e.median, 1);
    cell_decimals(table, 100 * e.ninth, 1);
    cell_decimals(table, 100 * limit, 0);
    cell_decimals(table, 100 * e.share, 0);
    cell_textf(table, "%+.1f", 100 * e.worst);
}

static void add_measured_errors(const Silicon *s, Table *table, double *errors)
{
    static const struct {
        const char *kernel, *pass;
    } groups[] = {{"flash", "fwd"}, {"flash", "bwd"}, {"cudnn", "fwd"}, {"cudnn", "bwd"}, {NULL, NULL}};
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        const size_t count = measured_errors(s, groups[i].kernel, groups[i].pass, errors);
        error_cells(table, s->chip->name, groups[i].kernel == NULL ? "flash, cudnn" : groups[i].kernel, groups[i].pass, errors, count, 0.2);
    }
}

static void add_published_errors(Table *table, const PublishedTimes *times, double *errors)
{
    static const struct {
        const char *chip, *kernel, *pass;
        bool fp8;
    } groups[] = {{"a100", "fa2", "fwd", false},  {"a100", "fa2", "bwd", false},  {"h100", "fa2", "fwd", false}, {"h100", "fa2", "bwd", false},
                  {"h100", "cudnn 9.1.1", "fwd", false}, {"h100", "cudnn 9.1.1", "bwd", false}, {"h100", "fa3", "fwd", false}, {"h100", "fa3", "bwd", false},
                  {"h100", "fa3", "fwd", true},   {"b200", "fa2", "fwd", false},  {"b200", "fa4", "fwd", false}, {"b200", "fa4", "bwd", false}};
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        const size_t count = published_errors(times, groups[i].chip, groups[i].kernel, groups[i].pass, groups[i].fp8, errors);
        error_cells(table, groups[i].chip, groups[i].fp8 ? "fa3, FP8" : groups[i].kernel, groups[i].pass, errors, count, 0.25);
    }
}

static void ranking_cells(Table *table, const char *what, Ranking ranking)
{
    table_row(table);
    cell_text(table, what);
    cell_count(table, ranking.pairs);
    cell_count(table, ranking.right);
    if (ranking.pairs > 0) cell_decimals(table, 100 * (double)ranking.right / (double)ranking.pairs, 1);
    else cell_empty(table);
}

/* Errors and ranking; only of all rows, and on the chip of the measurements. */
static bool add_time_errors(Silicon *s)
{
    if (s->filter.kernel != NULL || s->filter.pass != NULL || s->filter.counter >= 0) return true;
    PublishedTimes published;
    bool ok = published_times_model(&published, s->report, s->context->alloc, s->context->status);
    double *errors = ok ? alloc_array(s->context->alloc, max_u64(s->times.count, published.count), sizeof *errors, "errors", s->context->status) : NULL;
    ok = errors != NULL;
    if (ok) {
        Table *table = report_table(s->report, &error_table);
        add_measured_errors(s, table, errors);
        add_published_errors(table, &published, errors);
        table = report_table(s->report, &ranking_table);
        const Ranking measured = rank_measured(&s->times), printed = rank_published(&published);
        ranking_cells(table, "measured: flash, cudnn", measured);
        ranking_cells(table, "published: standard, FA1 to FA4, cuDNN", printed);
        ranking_cells(table, "both", (Ranking){measured.pairs + printed.pairs, measured.right + printed.right});
    }
    alloc_free(s->context->alloc, errors);
    published_times_free(&published);
    return ok;
}

static void add_times(const Silicon *s)
{
    Table *table = report_table(s->report, &time_table);
    for (size_t i = 0; i < s->times.count; i++) {
        const SiliconTime *row = &s->times.rows[i];
        if (row->skipped != NULL || !time_is_shown(row, &s->filter)) continue;
        table_row(table);
        cell_count(table, row->line);
        cell_text(table, row->kernel);
        cell_text(table, row->pass);
        cell_count(table, row->shape.batch * row->shape.heads);
        cell_count(table, row->shape.seqlen_q);
        cell_count(table, row->shape.seqlen_k);
        cell_count(table, row->shape.head_dim);
        cell_count(table, row->shape.mask != MASK_NONE);
        cell_decimals(table, row->chip_us, 2);
        cell_significant(table, row->model_us, 3);
        cell_decimals(table, time_ratio(row), 2);
        cell_text(table, row->bound);
    }
}

/* ---- the whole ---- */

/* --check: a target that is missed without a known reason is a mismatch. */
static void check_targets(const Silicon *s)
{
    for (size_t i = 0; i < s->rows.count; i++) {
        const SiliconRow *row = &s->rows.rows[i];
        for (int c = 0; c < SILICON_COUNTERS; c++) {
            const SiliconCounter counter = (SiliconCounter)c;
            if (!silicon_cell_is_shown(row, counter, &s->filter) || silicon_verdict(row, counter) != SILICON_MISSED) continue;
            report_mismatch(s->report, "%s:%zu: %s %s: model %" PRIu64 ", chip %" PRIu64 ": %+.2f %%, target %.1f %%", s->rows.table.name,
                            row->line, row->launch.kernel, silicon_counter_name(counter), row->model.n[counter], row->chip[counter],
                            silicon_row_error(row, counter), silicon_row_target(row, counter));
        }
    }
}

static bool fill_report(Silicon *s)
{
    const Options *o = s->context->options;
    if (!make_filter(o, &s->rows, &s->times, &s->filter, s->context->status)) return false;
    s->filter.dram = s->filter.counter < 0 || s->filter.counter >= SILICON_DRAM_READ;
    if (s->filter.dram && !silicon_rows_dram(&s->rows, &s->filter, s->context->status)) return false;
    if (!summarise_all(s) || !model_times(s)) return false;
    report_param_text(s->report, "counters", s->rows.table.name);
    report_param_count(s->report, "launches", s->rows.count);
    report_param_text(s->report, "timings", s->times.table.name);
    report_param_count(s->report, "times", s->times.count);
    add_worst(s);
    if (!add_counters(s)) return false;
    add_misses(s);
    add_left_out(s);
    add_calibrations(s->report);
    if (!add_time_summary(s) || !add_constants(s->context, s->report) || !add_time_errors(s)) return false;
    add_skipped(s);
    add_summary(s);
    if (!o->summary) add_rows(s);
    if (!o->summary) add_times(s);
    if (o->check) check_targets(s);
    return true;
}

static bool run(Context *context, Report *report)
{
    Silicon s = {.context = context, .report = report, .rows.alloc = context->alloc, .times.alloc = context->alloc};
    Profile h200;
    if (!profile_load("h200", context->alloc, &h200, context->status)) return false;
    s.chip = context->options->given[OPTION_HW] ? context->hw : &h200;
    report_param_text(report, "hw", s.chip->name);
    const bool ok = silicon_rows_load(&s.rows, context->options->counters, s.chip, context->alloc, context->status) &&
                    silicon_times_load(&s.times, context->options->timings, context->alloc, context->status) && fill_report(&s);
    silicon_times_free(&s.times);
    alloc_free(context->alloc, s.summaries);
    silicon_rows_free(&s.rows);
    return ok;
}

static const Experiment experiment_silicon = {
    .program =
        {
            .name = "silicon",
            .purpose = "the model beside the hardware counters and wall times of a real chip",
            .examples = {"--summary", "--counters FILE --kernel flash --pass bwd --check"},
            .options = options,
            .option_count = sizeof options / sizeof options[0],
        },
    .report =
        {
            .section = "",
            .title_en = "The model beside silicon",
            .title_zh = "模型与真实芯片对照",
            .tables = tables,
            .table_count = sizeof tables / sizeof tables[0],
        },
    .run = run,
};

int main(int argc, char **argv) { return experiment_main(&experiment_silicon, argc, argv); }
