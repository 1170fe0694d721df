/* s3_5_results.c - lecture §3 and §3.5: the speeds that are quoted for FlashAttention-1 and 2, beside what our time model gives.
 *
 * Nobody computes a measured speed: the lecture's numbers stay cited. What can be computed is whether they agree with one another
 * (a share is a quotient), with the bars that the paper prints (Dao 2023, Figure 5), and with a model of the same kernel on the
 * same chip. The model is the one of `attn --mode time`: units of an SM, streams, blocks on SMs, bandwidth; none of its constants
 * is fitted to these bars. Its error is printed in every row. What it leaves out makes it too fast: mma.sync kernels wait for
 * themselves in ways that have no unit here.
 */
#include "support/experiment.h"
#include "support/published_rows.h"

/* ---- the declarations ---- */

static const TableSpec a100_table = {"a100", "FlashAttention-2 paper, Figure 5: forward on an A100, FP16", published_columns,
                                     PUBLISHED_COLUMNS};
static const TableSpec h100_table = {"h100", "FlashAttention-2 on an H100 (FlashAttention-3 paper, Figure 5)", published_columns,
                                     PUBLISHED_COLUMNS};

static const Column gain_columns[] = {
    {"d", "", "head dimension"},
    {"mask", "", "none or causal"},
    {"N", "", "sequence length"},
    {"printed", "x", "FA2 over FA1, bars of Figure 5"},
    {"model", "x", "the same two kernels in the model"},
    {"error", "%", "of the ratio"},
};
static const TableSpec gain_table = {"gains", "How much faster FlashAttention-2 is than FlashAttention-1 (A100)", gain_columns,
                                     6};

static const Column quoted_columns[] = {
    {"what", "", "a number of the lecture"},
    {"lecture", "", "as it states it"},
    {"bars", "", "what the printed bars say about it, forward"},
    {"model", "", "what our model says"},
};
static const TableSpec quoted_table = {"quoted", "The lecture's numbers, the papers' bars, the model", quoted_columns, 4};

static const TableSpec *const tables[] = {&quoted_table, &gain_table, &a100_table, &h100_table};

#define ABSTRACT "measured (abstract of arXiv:2307.08691)"

static const ClaimSpec claims[] = {
    {"P003", "3", "FlashAttention (1) on an A100, of the peak", "25-40%", VERDICT_CITED, ABSTRACT, NULL},
    {"P004", "3", "optimised matrix products, of the peak", "80-90%", VERDICT_CITED, "measured (arXiv:2307.08691, Section 1)",
     NULL},
    {"P036", "3.5", "FlashAttention-2 over FlashAttention", "about 2x", VERDICT_CITED, ABSTRACT, NULL},
    {"P037", "3.5", "FlashAttention-2, of the A100's peak", "50-73%", VERDICT_CITED, ABSTRACT, NULL},
    {"P038", "3.5", "training a GPT-style model end to end, per A100", "225 TFLOP/s", VERDICT_CITED, ABSTRACT, NULL},
    {"P039", "3.5", "model FLOPs utilisation of 225 TFLOP/s", "72%", VERDICT_EQUAL, "225 / 312", NULL},
    {"P040", "3.5", "FlashAttention-2 on the A100 (slide 17)", "70%", VERDICT_CITED, "measured by the authors", NULL},
    {"P041", "3.5", "FlashAttention-2 on the H100 (slide 17)", "35-40%", VERDICT_CITED, "measured by the authors", NULL},
    {"R-3.5-2x", "3.5", "\"about 2x\" holds forward for both head dims (no more than 2.5x on average over a head dim's bars)",
     "about 2x", VERDICT_DIFFERS, "bars of Figure 5, A100: FA2 / FA1, d = 64 and 128",
     "d = 64 gives 2x, d = 128 3x forward; the abstract's 2x is over forward, backward and both head dims"},
    {"R-3.5-50", "3.5", "every bar of FlashAttention-2 lies in 50-73 % of 312", "50-73%", VERDICT_DIFFERS,
     "bars of Figure 5, forward", "short causal sequences lie below; the range is that of long ones"},
    {"R-3.5-order", "3.5", "the model agrees that FlashAttention-2 is faster, at every bar of Figure 5", "faster", VERDICT_EQUAL,
     "time model, A100", NULL},
};

/* ---- the tables ---- */

static const PublishedModel standard = {"standard", &algorithm_standard, NULL, {0}, 0};
static const PublishedModel fa1 = {"fa1", &algorithm_fa1_shipped, NULL, {0}, 4096};
static const PublishedModel fa2 = {"fa2", &algorithm_fa2, NULL, {0}, 0};

typedef struct {
    Profile a100, h100;
    ModelErrors standard, fa1, fa2, fa2_h100;
    double gain_low, gain_high; /* the model's FA2 / FA1 */
} Results;

static bool add_bars(const Context *context, Report *report, Results *r)
{
    Alloc *alloc = context->alloc;
    Status *status = context->status;
    Table *a100 = report_table(report, &a100_table);
    if (!published_rows(a100, FA2_FIGURE_5, &standard, &r->a100, &r->standard, alloc, status) ||
        !published_rows(a100, FA2_FIGURE_5, &fa1, &r->a100, &r->fa1, alloc, status) ||
        !published_rows(a100, FA2_FIGURE_5, &fa2, &r->a100, &r->fa2, alloc, status))
        return false;
    table_note(a100, "Mean absolute error: standard %.0f %%, FA1 %.0f %%, FA2 %.0f %%.", mean_absolute(&r->standard),
               mean_absolute(&r->fa1), mean_absolute(&r->fa2));
    table_note(a100, "standard: PyTorch in several kernels (scale, mask, softmax, dropout apart); ours is Algorithm 0 in three, "
                     "each operand once: a bound for it.");
    table_note(a100,
               "fa1: as shipped, a block per head, split-K; up to N = 4096. Causal halves the FLOPs by convention; standard "
               "attention does them all.");
    Table *h100 = report_table(report, &h100_table);
    if (!published_rows(h100, FA3_FIGURE_5, &fa2, &r->h100, &r->fa2_h100, alloc, status)) return false;
    table_note(h100,
               "Mean absolute error: %.0f %%. The same kernel: mma.sync reaches two thirds of wgmma's rate, and nothing "
               "overlaps inside a warp.",
               mean_absolute(&r->fa2_h100));
    return true;
}

static bool speed_of(const Context *context, Report *report, const Profile *chip, const Algorithm *algorithm,
                     const PublishedCurve *curve, size_t point, double *tflops)
{
    const TimedSetup setup = {.algorithm = algorithm, .chip = chip, .shape = published_shape(curve, point)};
    TimedRun run;
    if (!timed_run(&run, &setup, report, context->alloc, context->status)) return false;
    *tflops = run.tflops;
    return true;
}

static bool gain_rows(const Context *context, Table *table, const PublishedCurve *curve, Results *r)
{
    const PublishedCurve *old = published_curve(FA2_FIGURE_5, "fa1", curve->head_dim, curve->causal);
    for (size_t p = 0; p < PUBLISHED_POINTS && curve->points[p].seqlen > 0; p++) {
        const uint64_t N = curve->points[p].seqlen;
        double before = 0, after = 0;
        if (N > fa1.longest) continue;
        if (!speed_of(context, table->report, &r->a100, fa1.algorithm, curve, p, &before) ||
            !speed_of(context, table->report, &r->a100, fa2.algorithm, curve, p, &after))
            return false;
        const double printed = (double)curve->points[p].tflops / (double)published_tflops(old, N), model = after / before;
        table_row(table);
        cell_count(table, curve->head_dim);
        cell_text(table, curve->causal ? "causal" : "none");
        cell_count(table, N);
        cell_decimals(table, printed, 2);
        cell_decimals(table, model, 2);
        cell_error(table, model, printed);
        if (r->gain_low <= 0 || model < r->gain_low) r->gain_low = model;
        if (model > r->gain_high) r->gain_high = model;
    }
    return true;
}

static bool add_gains(const Context *context, Report *report, Results *r)
{
    Table *table = report_table(report, &gain_table);
    for (size_t i = 0; i < published_curve_count; i++) {
        const PublishedCurve *curve = &published_curves[i];
        if (curve->figure != FA2_FIGURE_5 || published_curve(FA2_FIGURE_5, fa2.kernel, curve->head_dim, curve->causal) != curve)
            continue;
        if (!gain_rows(context, table, curve, r)) return false;
    }
    table_note(table,
               "Batch x heads is at least 64 in these benchmarks, so what FA2 gains by more blocks (3.3) hardly shows: it is "
               "the split of a block among its warps.");
    return true;
}

/* ---- the quotations ---- */

/* The printed bars of a kernel in percent of the chip's peak; of FA2 over FA1. */
static BarRange share_of_peak(PublishedFigure figure, const char *kernel, const Profile *chip)
{
    return bar_range(&(BarQuery){.figure = figure, .kernel = kernel, .scale = (double)chip->peak_bf16_flops_per_chip / 1e14});
}

static BarRange gains(uint64_t head_dim)
{
    return bar_range(&(BarQuery){.figure = FA2_FIGURE_5, .kernel = "fa2", .over = "fa1", .head_dim = head_dim});
}

static double share(const Profile *chip, double tflops) { return 100e12 * tflops / (double)chip->peak_bf16_flops_per_chip; }

static void add_quoted(Table *table, const Results *r)
{
    const BarRange old = share_of_peak(FA2_FIGURE_5, "fa1", &r->a100), now = share_of_peak(FA2_FIGURE_5, "fa2", &r->a100);
    const BarRange h100 = share_of_peak(FA3_FIGURE_5, "fa2", &r->h100), gain = gains(0);
    const struct {
        const char *what, *lecture;
        BarRange bars;
        double low, high;
        int decimals;
        const char *unit;
    } rows[] = {
        {"FA1 on the A100, of the peak", "25-40 %", old, share(&r->a100, r->fa1.slowest), share(&r->a100, r->fa1.fastest), 0,
         "%"},
        {"FA2 over FA1", "about 2x", gain, r->gain_low, r->gain_high, 1, "x"},
        {"FA2 on the A100, of the peak", "50-73 %", now, share(&r->a100, r->fa2.slowest), share(&r->a100, r->fa2.fastest), 0,
         "%"},
        {"FA2 on the H100, of the peak", "35-40 %", h100, share(&r->h100, r->fa2_h100.slowest),
         share(&r->h100, r->fa2_h100.fastest), 0, "%"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        table_row(table);
        cell_text(table, rows[i].what);
        cell_text(table, rows[i].lecture);
        cell_textf(table, "%.*f-%.*f %s", rows[i].decimals, rows[i].bars.low, rows[i].decimals, rows[i].bars.high, rows[i].unit);
        cell_textf(table, "%.*f-%.*f %s", rows[i].decimals, rows[i].low, rows[i].decimals, rows[i].high, rows[i].unit);
    }
    table_note(
        table,
        "Smallest and largest over the bars below. The FA2 paper itself gives FA1 30-50 %% forward and 25-35 %% backward.");
}

static void judge_claims(Report *report, const Results *r)
{
    const BarRange old = share_of_peak(FA2_FIGURE_5, "fa1", &r->a100), now = share_of_peak(FA2_FIGURE_5, "fa2", &r->a100);
    const BarRange h100 = share_of_peak(FA3_FIGURE_5, "fa2", &r->h100), gain = gains(0);
    const double long_run = (double)published_tflops(published_curve(FA2_FIGURE_5, "fa2", 128, false), 4096);
    claim_cited(report, "P003", "bars, forward: %.0f-%.0f%%", old.low, old.high);
    claim_cited(report, "P004", "-");
    claim_cited(report, "P036", "bars, forward: %.1f-%.1fx", gain.low, gain.high);
    claim_cited(report, "P037", "bars, forward: %.0f-%.0f%%", now.low, now.high);
    claim_cited(report, "P038", "-");
    claim_decimals(report, "P039", 72, 0, share(&r->a100, 225), "%");
    claim_cited(report, "P040", "bar at d = 128, N = 4096: %.0f%%", share(&r->a100, long_run));
    claim_cited(report, "P041", "bars, forward: %.0f-%.0f%%", h100.low, h100.high);
    const double narrow = gains(64).mean, wide = gains(128).mean;
    claim_holds(report, "R-3.5-2x", narrow <= 2.5 && wide <= 2.5, "%.1fx at d = 64, %.1fx at 128", narrow, wide);
    claim_holds(report, "R-3.5-50", now.low >= 50 && now.high <= 73, "%.0f-%.0f%%", now.low, now.high);
    claim_holds(report, "R-3.5-order", r->gain_low > 1, "%s", r->gain_low > 1 ? "faster at every bar" : "not at every bar");
}

static bool run(Context *context, Report *report)
{
    Results results = {.gain_low = 0};
    if (!profile_load("a100", context->alloc, &results.a100, context->status) ||
        !profile_load("h100", context->alloc, &results.h100, context->status))
        return false;
    Table *quoted = report_table(report, &quoted_table);
    if (!add_gains(context, report, &results) || !add_bars(context, report, &results)) return false;
    add_quoted(quoted, &results);
    judge_claims(report, &results);
    return status_ok(context->status);
}

const Experiment experiment_s3_5_results = {
    .program =
        {
            .name = "s3_5_results",
            .purpose = "the quoted speeds of FlashAttention-1 and 2 beside the time model (lecture 3, 3.5)",
            .examples = {"", "--format md"},
        },
    .report =
        {
            .section = "3.5",
            .title_en = "Results of FlashAttention-2",
            .title_zh = "FlashAttention-2 的结果",
            .tables = tables,
            .table_count = sizeof tables / sizeof tables[0],
            .claims = claims,
            .claim_count = sizeof claims / sizeof claims[0],
        },
    .run = run,
};
