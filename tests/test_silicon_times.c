/* test_silicon_times.c - the time model against silicon: targets that may not be missed, and the micro-benchmarks that fix its constants.
 *
 *   errors      measured times of one H200 and the bars of the papers: median and nine of ten rows within the stated bounds, per chip; kernels
 *               ranked as measured in 95 of 100 pairs that are more than 10 % apart
 *   staircase   time against the number of blocks steps where the chip's does, and nowhere else
 *   clock       the power limit: one constant, from cuBLAS, gives the clock of four other kernels
 *   queue       wgmma: a warpgroup has issued its last product 7 instructions before it is done, for every width; the profile says so
 *   start       a product by mma.sync takes the profile's cycles more than the tensor cores need
 */
/* label: property */
#include "test.h"

#include "experiments/support/h200_waves.h"
#include "experiments/support/measured.h"
#include "experiments/support/silicon_published.h"

#include <math.h>

typedef struct {
    Test test;
    Alloc alloc;
    Profile h200;
} Context;

/* ---- errors ---- */

static const TableSpec *const no_tables[] = {NULL};
static const ReportSpec no_report = {.section = "7", .title_en = "t", .title_zh = "t", .tables = no_tables};

static void check_errors(Context *x, const char *what, double *errors, size_t count, size_t least, double median, double limit)
{
    const TimeErrors e = time_errors(errors, count, limit);
    char text[120];
    snprintf(text, sizeof text, "%s: %zu rows, median |model / chip - 1| %.3f, at most %.3f", what, count, e.median, median);
    check_true(&x->test, count >= least && e.median <= median, text);
    snprintf(text, sizeof text, "%s: nine of ten rows err by %.3f, at most %.3f", what, e.ninth, limit);
    check_true(&x->test, e.ninth <= limit, text);
}

static void test_measured(Context *x, Ranking *ranking)
{
    SiliconTimes times;
    Status status = {0};
    double errors[256];
    size_t count = 0;
    bool ok = silicon_times_load(&times, NULL, &x->alloc, &status);
    for (size_t i = 0; ok && i < times.count; i++) {
        SiliconTime *row = &times.rows[i];
        const bool counts = strcmp(row->kernel, "flash") == 0 || strcmp(row->kernel, "cudnn") == 0;
        if (!counts || row->shape.seqlen_q < 1024 || count == 256) {
            row->skipped = "not asked for";
            continue;
        }
        ok = silicon_time_model(row, &x->h200, &x->alloc, &status);
        check_true(&x->test, row->skipped == NULL, "flash and cudnn have a kernel");
        errors[count++] = row->model_us / row->chip_us - 1;
    }
    check_text(&x->test, status.text, "", "h200_timings");
    check_errors(x, "flash and cudnn on an H200", errors, count, 50, 0.10, 0.20);
    *ranking = rank_measured(&times);
    silicon_times_free(&times);
}

static void test_published(Context *x, Ranking measured)
{
    /* pass NULL: both */
    static const struct {
        const char *chip, *kernel, *pass;
        ElementType dtype;
        size_t least;
    } groups[] = {{"a100", "fa2", "fwd", ELEMENT_FP16, 10}, {"a100", "fa2", "bwd", ELEMENT_FP16, 10}, {"h100", "fa3", NULL, ELEMENT_FP16, 20},
                  {"h100", "fa3", "fwd", ELEMENT_FP16, 16}, {"h100", "fa3", "bwd", ELEMENT_FP16, 6},  {"h100", "fa3", "fwd", ELEMENT_E4M3, 20},
                  {"b200", "fa4", "fwd", ELEMENT_BF16, 8},  {"b200", "fa4", "bwd", ELEMENT_BF16, 8},  {"h100", "fa2", NULL, ELEMENT_FP16, 20},
                  {"h100", "cudnn 9.1.1", "fwd", ELEMENT_FP16, 12}, {"h100", "cudnn 9.1.1", "bwd", ELEMENT_FP16, 6}};
    PublishedTimes times;
    Status status = {0};
    Report report;
    char what[100];
    double errors[256];
    report_init(&report, "test_silicon_times", &no_report, &x->alloc, &status);
    const bool ok = published_times_model(&times, &report, &x->alloc, &status);
    check_text(&x->test, status.text, "", "published times");
    for (size_t g = 0; ok && g < sizeof groups / sizeof groups[0]; g++) {
        size_t count = 0;
        for (size_t i = 0; i < times.count && count < 256; i++) {
            const PublishedTime *row = &times.rows[i];
            const PublishedSource *source = published_source(row->curve->figure);
            const bool same = strcmp(source->chip, groups[g].chip) == 0 && strcmp(row->curve->kernel, groups[g].kernel) == 0 &&
                              (groups[g].pass == NULL || strcmp(groups[g].pass, source->pass) == 0) && source->dtype == groups[g].dtype;
            if (same) errors[count++] = row->model_us / row->printed_us - 1;
        }
        snprintf(what, sizeof what, "%s %s %s, %s", groups[g].chip, groups[g].kernel, groups[g].pass == NULL ? "both" : groups[g].pass,
                 element_name(groups[g].dtype));
        check_errors(x, what, errors, count, groups[g].least, 0.12, 0.25);
    }
    const Ranking printed = rank_published(&times);
    const double share = (double)(measured.right + printed.right) / (double)(measured.pairs + printed.pairs);
    check_true(&x->test, measured.pairs >= 20 && printed.pairs >= 100 && share >= 0.95, "95 of 100 pairs ranked as measured");
    published_times_free(&times);
    report_free(&report);
}

static void test_counting_of_errors(Context *x)
{
    double errors[] = {0.3, -0.1, 0.05, -0.02, 0.2, 0.0, 0.01, -0.04, 0.06, 0.08};
    const TimeErrors e = time_errors(errors, 10, 0.1);
    check_close(&x->test, e.median, 0.055, 1e-12, "median of ten errors");
    check_close(&x->test, e.ninth, 0.2, 1e-12, "nine of ten err by at most the ninth");
    check_close(&x->test, e.worst, 0.3, 1e-12, "the largest");
    check_close(&x->test, e.share, 0.8, 1e-12, "within the limit, which counts");
    check_u64(&x->test, time_errors(errors, 0, 0.1).count, 0, "no rows");
}

/* ---- staircase ---- */

static double staircase_time(Context *x, uint64_t heads, bool flash)
{
    SiliconTime row = {.kernel = flash ? "flash" : "cudnn", .pass = "fwd", .shape = attention_shape(2048, 128)};
    Status status = {0};
    row.shape.heads = row.shape.kv_heads = heads;
    check_true(&x->test, silicon_time_model(&row, &x->h200, &x->alloc, &status) && row.skipped == NULL, "a step of the staircase");
    return row.model_us;
}

/* More than 10 % on the chip: more than 3 % in the model; else less than 2 %. */
static void test_staircase(Context *x, bool flash)
{
    const size_t rows = sizeof h200_staircase / sizeof h200_staircase[0];
    size_t steps = 0;
    double before = 0;
    for (size_t i = flash ? H200_UNSPLIT_HEADS : 0; i < rows; i++) {
        const uint64_t chip = flash ? h200_staircase[i].flash : h200_staircase[i].cudnn;
        const double model = staircase_time(x, h200_staircase[i].heads, flash);
        char what[120];
        if (before > 0) {
            const uint64_t chip_before = flash ? h200_staircase[i - 1].flash : h200_staircase[i - 1].cudnn;
            const bool step = chip * 10 > chip_before * 11;
            snprintf(what, sizeof what, "%s, %" PRIu64 " heads: model x %.3f, chip x %.3f", flash ? "flash" : "cudnn", h200_staircase[i].heads,
                     model / before, (double)chip / (double)chip_before);
            check_true(&x->test, step ? model > 1.03 * before : model < 1.06 * before, what);
            steps += step;
        }
        before = model;
    }
    check_u64(&x->test, steps, 4, "steps of the chip's staircase");
}

/* ---- clock ---- */

/* Kernels that ran for two seconds at the power limit; cycles of a call by hardware counters (batch 1, 16 heads), so the clock is known. */
static void test_clock(Context *x)
{
    static const struct {
        const char *kernel, *head_dim;
        double cycles, flops;           /* of 16 heads, N = 16384 */
    } kernels[] = {{"flash", "64", 6443423, 4.0 * 16 * 16384.0 * 16384 * 64}, {"flash", "128", 10950840, 4.0 * 16 * 16384.0 * 16384 * 128},
                   {"cudnn", "64", 4010328, 4.0 * 16 * 16384.0 * 16384 * 64}, {"cudnn", "128", 5479546, 4.0 * 16 * 16384.0 * 16384 * 128}};
    CsvTable t;
    Status status = {0};
    size_t kernel, pass, dim, seqlen, causal, ms, tflops;
    double full_clock = 0, value, utilisation = 0.86;
    const double rate = 4096.0 * 132, boost = (double)x->h200.boost_clock_hz;
    const bool ok = measured_load(&t, NULL, "h200_clocks", &x->alloc, &status) && csv_column(&t, "kernel", &kernel, &status) &&
                    csv_column(&t, "pass", &pass, &status) && csv_column(&t, "head_dim", &dim, &status) && csv_column(&t, "seqlen", &seqlen, &status) &&
                    csv_column(&t, "causal", &causal, &status) && csv_column(&t, "ms", &ms, &status) && csv_column(&t, "tflops", &tflops, &status);
    check_text(&x->test, status.text, "", "h200_clocks");
    for (size_t i = 0; ok && i < t.row_count; i++)
        if (strcmp(csv_text(&t, i, kernel), "cublas") == 0 && strcmp(csv_text(&t, i, seqlen), "8192") == 0 && csv_real(&t, i, tflops, &value, &status)) {
            const double clock = value * 1e12 / (rate * utilisation);
            full_clock = utilisation / (1 / clock - (1 - utilisation) / boost);
        }
    check_true(&x->test, full_clock > 1.2e9 && full_clock < (double)x->h200.full_tensor_clock_hz, "a long run is throttled more than a benchmark's");
    for (size_t i = 0; ok && i < t.row_count; i++)
        for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
            if (strcmp(csv_text(&t, i, kernel), kernels[k].kernel) != 0 || strcmp(csv_text(&t, i, dim), kernels[k].head_dim) != 0 ||
                strcmp(csv_text(&t, i, pass), "fwd") != 0 || strcmp(csv_text(&t, i, seqlen), "16384") != 0 || csv_text(&t, i, causal)[0] != '0' ||
                !csv_real(&t, i, ms, &value, &status))
                continue;
            const double heads = k % 2 == 0 ? 2 : 1, clock = heads * kernels[k].cycles / (value / 1e3), u = kernels[k].flops / (kernels[k].cycles * rate);
            check_close(&x->test, 1 / ((1 - u) / boost + u / full_clock), clock, 0.04, "clock at the power limit, from cuBLAS's");
        }
    csv_free(&t);
}

/* ---- wgmma's queue ---- */

static void test_queue(Context *x)
{
    CsvTable t;
    Status status = {0};
    size_t columns[6];
    static const char *const names[] = {"n", "instructions", "ideal_clk", "warpgroups", "issued_clk", "done_clk"};
    bool ok = measured_load(&t, NULL, "h200_wgmma_queue", &x->alloc, &status);
    for (size_t c = 0; c < 6; c++) ok = ok && csv_column(&t, names[c], &columns[c], &status);
    check_text(&x->test, status.text, "", "h200_wgmma_queue");
    size_t rows = 0;
    for (size_t i = 0; ok && i < t.row_count; i++) {
        double v[6];
        for (size_t c = 0; c < 6; c++) csv_real(&t, i, columns[c], &v[c], &status);
        if (v[3] > 1 || v[1] <= 8) continue;        /* one warpgroup, more than the queue holds */
        const double one = v[2] / v[1];
        check_close(&x->test, (v[5] - v[4]) / one, (double)x->h200.wgmma_queue_instructions, 0.08, "instructions issued ahead");
        rows++;
    }
    check_true(&x->test, rows >= 5, "rows of h200_wgmma_queue");
    csv_free(&t);
}

/* ---- mma.sync ---- */

static void test_start(Context *x)
{
    CsvTable t;
    Status status = {0};
    size_t name, value, unit, rows = 0;
    double sum = 0;
    const bool ok = measured_load(&t, NULL, "h200_chains", &x->alloc, &status) && csv_column(&t, "name", &name, &status) &&
                    csv_column(&t, "value", &value, &status) && csv_column(&t, "unit", &unit, &status);
    for (size_t i = 0; ok && i < t.row_count; i++) {
        double cycles = 0, ideal = 0;
        if (strncmp(csv_text(&t, i, name), "gemm_", 5) == 0 && csv_real(&t, i, value, &cycles, &status) &&
            sscanf(csv_text(&t, i, unit), "clk (ideal %lf)", &ideal) == 1) {
            sum += cycles - ideal;
            rows++;
        }
        if (strcmp(csv_text(&t, i, name), "polynomial_8_at_once") == 0 && csv_real(&t, i, value, &cycles, &status))
            check_close(&x->test, (double)x->h200.independent_interval_millicycles_per_warp / 1000, cycles / 9, 0.01, "nine instructions of a polynomial");
    }
    check_text(&x->test, status.text, "", "h200_chains");
    check_true(&x->test, rows == 5, "products by mma.sync");
    if (rows > 0) check_close(&x->test, (double)x->h200.mma_sync_startup_cycles, sum / (double)rows, 0.01, "cycles beyond the tensor cores'");
    csv_free(&t);
}

int main(void)
{
    Context x = {0};
    Status status = {0};
    if (profile_load("h200", &x.alloc, &x.h200, &status)) {
        Ranking measured = {0};
        test_counting_of_errors(&x);
        test_measured(&x, &measured);
        test_published(&x, measured);
        test_staircase(&x, true);
        test_staircase(&x, false);
        test_clock(&x);
        test_queue(&x);
        test_start(&x);
    }
    check_text(&x.test, status.text, "", "profile h200");
    check_u64(&x.test, x.alloc.live_bytes, 0, "memory left at the end");
    return test_end(&x.test, "silicon_times");
}
