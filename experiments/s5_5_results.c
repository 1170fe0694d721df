/* s5_5_results.c - lecture §5.5: the speeds that are quoted for FlashAttention-4, beside what our time model gives.
 *
 * Measured speeds stay cited. Computed here: shares and ratios of numbers that the paper prints (Zadouri et al. 2026, Figures
 * 4-6), and the time model of the same kernels on the profile b200, with its error in every row. The forward kernel is modelled
 * twice: with every exponential on MUFU and O rescaled at every key block, and as shipped (3 of 16 exponentials by polynomial, O
 * rescaled at the first key block). Compile times and FlexAttention have nothing to model.
 */
#include "support/experiment.h"
#include "support/published_rows.h"

#include <string.h>

/* ---- the declarations ---- */

static const Column quoted_columns[] = {
    {"what", "", "a number of the lecture"},
    {"lecture", "", "as it states it"},
    {"bars", "", "smallest and largest of the paper's bars"},
    {"model", "", "smallest and largest at the same shapes; empty where there is no model"},
};
static const TableSpec quoted_table = {"quoted", "The lecture's numbers, the paper's bars, the model", quoted_columns, 4};

static const TableSpec forward_table = {"forward", "Forward on a B200, BF16 (FlashAttention-4 paper, Figure 4)",
                                        published_columns, PUBLISHED_COLUMNS};
static const TableSpec plain_table = {"plain",
                                      "The same without its two savings: all exponentials by MUFU, O rescaled at every key block",
                                      published_columns, PUBLISHED_COLUMNS};
static const TableSpec backward_table = {"backward", "Backward on a B200, BF16 (Figure 6; two CTAs)", published_columns,
                                         PUBLISHED_COLUMNS};
static const TableSpec fa2_table = {"fa2", "The baseline: FlashAttention-2 on a B200, forward (Figure 4) and backward (Figure 6)",
                                    published_columns, PUBLISHED_COLUMNS};

static const Column ratio_columns[] = {
    {"FlashAttention-4 over", "", "the kernel it is compared with"},
    {"pass", "", "forward or backward"},
    {"d", "", "head dimension"},
    {"bars", "", "that both have"},
    {"least", "x", "quotient of printed bars"},
    {"most", "x", "quotient of printed bars"},
    {"mean", "x", "over the bars"},
};
static const TableSpec ratio_table = {"ratios", "FlashAttention-4 against others, from the printed bars", ratio_columns, 7};

static const TableSpec *const tables[] = {&quoted_table, &ratio_table, &forward_table, &plain_table, &backward_table, &fa2_table};

#define PAPER  "measured (arXiv:2603.05451)"
#define SLIDES "measured by the authors (slides 53-55)"

static const ClaimSpec claims[] = {
    {"S5.5-01", "5.5", "forward, the most (slide 53)", "about 1600 TFLOP/s", VERDICT_CITED, SLIDES, NULL},
    {"S5.5-02", "5.5", "forward, the most (paper)", "1613 TFLOP/s", VERDICT_CITED, PAPER, NULL},
    {"S5.5-03", "5.5", "over cuDNN 9.13", "1.3x", VERDICT_CITED, PAPER ": 1.1-1.3x, of which the lecture has the largest", NULL},
    {"S5.5-04", "5.5", "over Triton", "2.7x", VERDICT_CITED, PAPER ": 2.1-2.7x, of which the lecture has the largest", NULL},
    {"S5.5-05", "5.5", "backward, over FlashAttention-2 without Blackwell's instructions", "4x", VERDICT_CITED, SLIDES, NULL},
    {"S5.5-06", "5.5", "compile time, over C++ templates", "20-30x", VERDICT_CITED, PAPER ": 55 s and 45 s to 2.5 s and 1.4 s",
     NULL},
    {"S5.5-07", "5.5", "FlexAttention faster by", "2.7-3.0x", VERDICT_CITED, SLIDES, NULL},
    {"S5.5-08", "5.5", "utilisation of 1613 TFLOP/s", "71%", VERDICT_DIFFERS, "1613 / 2250, rounded",
     "the paper truncates 71.7 %"},
    {"S5.5-08t", "5.5", "the same, truncated", "71%", VERDICT_EQUAL, "floor(100 * 1613 / 2250)", NULL},
    {"S5.5-06d", "5.5", "55 s / 2.5 s and 45 s / 1.4 s (forward, backward) are 20-30x", "20-30x", VERDICT_DIFFERS,
     "quotients of the printed times", "22x and 32x: \"20-30x\" is a rounding of both"},
    {"R-D5.5", "5.5", "FlashAttention-4 is 1.3x faster than cuDNN", "1.3x", VERDICT_DIFFERS,
     "Figures 4 and 5, forward: quotients of bars, cuDNN 9.13 and 9.19",
     "a maximum: the bars at hand give at most 1.24 over cuDNN 9.13, and about 1 over 9.19, which has taken over its ideas"},
    {"R-D5.5-triton", "5.5", "over Triton (Figure 4)", "2.1-2.7x", VERDICT_EQUAL, "quotients of bars, one decimal", NULL},
    {"R-5.5-4x", "5.5", "backward over FlashAttention-2 (Figure 6, N from 16K)", "4x", VERDICT_EQUAL,
     "quotients of bars, mean, no decimals", NULL},
    {"R-5.5-order", "5.5",
     "the model agrees that FlashAttention-4 is faster than FlashAttention-2, at every bar of Figures 4 and 6", "faster",
     VERDICT_EQUAL, "time model, B200", NULL},
};

typedef struct {
    Profile b200;
    ModelErrors forward, plain, backward, fa2, fa2_backward;
    BarRange gain, gain_backward; /* the model's FA4 / FA2 */
} Results;

static const BackwardVariant two_ctas = {.two_ctas = true}, one_cta = {.direct_dq = false};

/* ---- the model ---- */

static PublishedModel forward_model(bool shipped)
{
    PublishedModel model = {.kernel = "fa4", .algorithm = &algorithm_fa4};
    if (shipped) model.fa4 = fa4_as_shipped(false);
    return model;
}

static bool add_bars(const Context *context, Report *report, Results *r)
{
    const PublishedModel shipped = forward_model(true), plain = forward_model(false);
    const PublishedModel backward = {"fa4", &algorithm_fa4, &two_ctas, {0}, 0};
    const PublishedModel old = {"fa2", &algorithm_fa2, NULL, {0}, 0}, old_backward = {"fa2", &algorithm_fa2, &one_cta, {0}, 0};
    Alloc *alloc = context->alloc;
    Status *status = context->status;
    Table *table = report_table(report, &forward_table);
    if (!published_rows(table, FA4_FIGURE_4, &shipped, &r->b200, &r->forward, alloc, status)) return false;
    table_note(table, "Mean absolute error: %.0f %%. At 1000 W a B200 does not hold its highest clock under full load.",
               mean_absolute(&r->forward));
    table = report_table(report, &plain_table);
    if (!published_rows(table, FA4_FIGURE_4, &plain, &r->b200, &r->plain, alloc, status)) return false;
    table_note(table, "Mean absolute error: %.0f %%.", mean_absolute(&r->plain));
    table = report_table(report, &backward_table);
    if (!published_rows(table, FA4_FIGURE_6, &backward, &r->b200, &r->backward, alloc, status)) return false;
    table_note(table, "Mean absolute error: %.0f %%.", mean_absolute(&r->backward));
    table = report_table(report, &fa2_table);
    if (!published_rows(table, FA4_FIGURE_4, &old, &r->b200, &r->fa2, alloc, status) ||
        !published_rows(table, FA4_FIGURE_6, &old_backward, &r->b200, &r->fa2_backward, alloc, status))
        return false;
    table_note(table,
               "Mean absolute error: %.0f %% forward, %.0f %% backward. mma.sync on Blackwell: the same kernel as on the A100.",
               mean_absolute(&r->fa2), mean_absolute(&r->fa2_backward));
    return true;
}

static void widen(BarRange *range, double value)
{
    if (range->count == 0 || value < range->low) range->low = value;
    if (range->count == 0 || value > range->high) range->high = value;
    range->count++;
}

/* FA4 over FA2 in the model, at the bars of one figure. */
static bool model_gains(const Context *context, Report *report, const Profile *b200, PublishedFigure figure, BarRange *range)
{
    const bool backward = strcmp(published_source(figure)->pass, "bwd") == 0;
    for (size_t i = 0; i < published_curve_count; i++) {
        const PublishedCurve *curve = &published_curves[i];
        if (curve != published_curve(figure, "fa4", curve->head_dim, curve->causal)) continue;
        for (size_t p = 0; p < PUBLISHED_POINTS && curve->points[p].seqlen > 0; p++) {
            TimedSetup setup = {.algorithm = &algorithm_fa2, .chip = b200, .shape = published_shape(curve, p)};
            TimedRun old, new;
            if (backward) setup.backward = &one_cta;
            if (!timed_run(&old, &setup, report, context->alloc, context->status)) return false;
            setup.algorithm = &algorithm_fa4;
            setup.fa4 = fa4_as_shipped(false);
            if (backward) setup.backward = &two_ctas;
            if (!timed_run(&new, &setup, report, context->alloc, context->status)) return false;
            if (old.tflops > 0) widen(range, new.tflops / old.tflops);
        }
    }
    return true;
}

/* ---- ratios of bars ---- */

static BarRange over(PublishedFigure figure, const char *kernel, uint64_t from)
{
    return bar_range(&(BarQuery){.figure = figure, .kernel = "fa4", .over = kernel, .from = from});
}

static void add_ratios(Report *report)
{
    static const struct {
        const char *kernel, *pass, *d;
        PublishedFigure figure;
    } rows[] = {{"cudnn 9.13", "forward", "128", FA4_FIGURE_4}, {"cudnn 9.13", "forward, causal", "192, 128", FA4_FIGURE_5},
                {"cudnn 9.19", "forward", "128", FA4_FIGURE_4}, {"cudnn 9.19", "forward, causal", "192, 128", FA4_FIGURE_5},
                {"triton 3.6", "forward", "128", FA4_FIGURE_4}, {"fa2", "forward", "128", FA4_FIGURE_4},
                {"fa2", "backward", "128", FA4_FIGURE_6}};
    Table *table = report_table(report, &ratio_table);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const BarRange range = over(rows[i].figure, rows[i].kernel, 0);
        table_row(table);
        cell_text(table, rows[i].kernel);
        cell_text(table, rows[i].pass);
        cell_text(table, rows[i].d);
        cell_count(table, range.count);
        cell_decimals(table, range.low, 2);
        cell_decimals(table, range.high, 2);
        cell_decimals(table, range.mean, 2);
    }
    table_note(table, "192, 128: head dimension of Q and K, and of V. Below 1 the other kernel is faster.");
}

/* ---- the quotations ---- */

static void quoted_row(Table *table, const char *what, const char *lecture, BarRange bars, BarRange model, int decimals,
                       const char *unit)
{
    table_row(table);
    cell_text(table, what);
    cell_text(table, lecture);
    cell_textf(table, "%.*f-%.*f %s", decimals, bars.low, decimals, bars.high, unit);
    if (model.count > 0)
        cell_textf(table, "%.*f-%.*f %s", decimals, model.low, decimals, model.high, unit);
    else
        cell_empty(table);
}

static BarRange speeds_of(const ModelErrors *errors)
{
    return (BarRange){.low = errors->slowest, .high = errors->fastest, .count = errors->count};
}

static void add_quoted(Table *table, const Results *r)
{
    const BarRange none = {0}, forward = bar_range(&(BarQuery){.figure = FA4_FIGURE_4, .kernel = "fa4"});
    const BarRange backward = bar_range(&(BarQuery){.figure = FA4_FIGURE_6, .kernel = "fa4"});
    quoted_row(table, "forward", "most 1600; 1613 TFLOP/s", forward, speeds_of(&r->forward), 0, "TFLOP/s");
    quoted_row(table, "backward", "(none)", backward, speeds_of(&r->backward), 0, "TFLOP/s");
    quoted_row(table, "forward, over cuDNN 9.13", "1.3x", over(FA4_FIGURE_4, "cudnn 9.13", 0), none, 2, "x");
    quoted_row(table, "forward, over cuDNN 9.19", "(none)", over(FA4_FIGURE_4, "cudnn 9.19", 0), none, 2, "x");
    quoted_row(table, "forward, over Triton", "2.7x", over(FA4_FIGURE_4, "triton 3.6", 0), none, 2, "x");
    quoted_row(table, "forward, over FlashAttention-2", "(none)", over(FA4_FIGURE_4, "fa2", 0), r->gain, 1, "x");
    quoted_row(table, "backward, over FlashAttention-2", "4x", over(FA4_FIGURE_6, "fa2", 0), r->gain_backward, 1, "x");
}

static void judge_claims(Report *report, const Results *r)
{
    const double peak = (double)r->b200.peak_bf16_flops_per_chip / 1e12;
    const BarRange forward = bar_range(&(BarQuery){.figure = FA4_FIGURE_4, .kernel = "fa4"});
    const BarRange old = over(FA4_FIGURE_4, "cudnn 9.13", 0), wide = over(FA4_FIGURE_5, "cudnn 9.13", 0);
    const BarRange now = over(FA4_FIGURE_4, "cudnn 9.19", 0), now_wide = over(FA4_FIGURE_5, "cudnn 9.19", 0);
    const BarRange triton = over(FA4_FIGURE_4, "triton 3.6", 0), backward = over(FA4_FIGURE_6, "fa2", 16384);
    const double low = now.low < now_wide.low ? now.low : now_wide.low,
                 high = now.high > now_wide.high ? now.high : now_wide.high;
    const double low13 = old.low < wide.low ? old.low : wide.low, high13 = old.high > wide.high ? old.high : wide.high;
    claim_cited(report, "S5.5-01", "%.1f%% of %.0f", 100 * 1600 / peak, peak);
    claim_cited(report, "S5.5-02", "highest bar at d = 128: %.0f", forward.high);
    claim_cited(report, "S5.5-03", "bars: %.2f-%.2fx", low13, high13);
    claim_cited(report, "S5.5-04", "bars: %.2f-%.2fx", triton.low, triton.high);
    claim_cited(report, "S5.5-05", "bars from N = 16K: %.1f-%.1fx", backward.low, backward.high);
    claim_cited(report, "S5.5-06", "%.0fx, %.0fx", 55 / 2.5, 45 / 1.4);
    claim_cited(report, "S5.5-07", "-");
    claim_decimals(report, "S5.5-08", 71, 0, 100 * 1613 / peak, "%");
    claim_count(report, "S5.5-08t", 71, (uint64_t)(100 * 1613 / peak), "%");
    claim_holds(report, "S5.5-06d", 55 / 2.5 <= 30.5 && 45 / 1.4 <= 30.5, "%.0fx, %.0fx", 55 / 2.5, 45 / 1.4);
    claim_holds(report, "R-D5.5", low >= 1.25, "9.13: %.2f-%.2fx, 9.19: %.2f-%.2fx", low13, high13, low, high);
    claim_holds(report, "R-D5.5-triton", triton.low >= 2.05 && triton.low < 2.15 && triton.high >= 2.65 && triton.high < 2.75,
                "%.2f-%.2fx", triton.low, triton.high);
    claim_decimals(report, "R-5.5-4x", 4, 0, backward.mean, "x");
    const bool faster = r->gain.low > 1 && r->gain_backward.low > 1;
    claim_holds(report, "R-5.5-order", faster, "%s", faster ? "at every bar" : "not at every bar");
}

static bool run(Context *context, Report *report)
{
    Results results = {.gain = {.count = 0}};
    if (!profile_load("b200", context->alloc, &results.b200, context->status)) return false;
    Table *quoted = report_table(report, &quoted_table);
    add_ratios(report);
    if (!add_bars(context, report, &results) || !model_gains(context, report, &results.b200, FA4_FIGURE_4, &results.gain) ||
        !model_gains(context, report, &results.b200, FA4_FIGURE_6, &results.gain_backward))
        return false;
    add_quoted(quoted, &results);
    judge_claims(report, &results);
    return status_ok(context->status);
}

const Experiment experiment_s5_5_results = {
    .program =
        {
            .name = "s5_5_results",
            .purpose = "the quoted speeds of FlashAttention-4 beside the papers' bars and the time model (lecture 5.5)",
            .examples = {"", "--format csv"},
        },
    .report =
        {
            .section = "5.5",
            .title_en = "Results of FlashAttention-4",
            .title_zh = "FlashAttention-4 的结果",
            .tables = tables,
            .table_count = sizeof tables / sizeof tables[0],
            .claims = claims,
            .claim_count = sizeof claims / sizeof claims[0],
        },
    .run = run,
};
