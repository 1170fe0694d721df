/* s4_6_results.c - lecture §4.6: the speeds that are quoted for FlashAttention-3, beside what our time model gives.
 *
 * Measured speeds stay cited. Computed here: whether the quoted numbers agree with one another, with the bars that the paper
 * prints (Shah et al. 2024, Figures 5 and 7), and with the time model of the same kernel on the same chip; every modelled speed
 * has its error beside it. The slides are of a later kernel and CUDA 12.8, the bars of the first: where the two differ, neither
 * is wrong.
 *
 * The steps are two chains, not one: 580, 640, 670, 700 without a mask, and 670, 730 with a causal one. The model switches off
 * the same things in the same kernel (algos/fa3.c); what a persistent kernel and longest-first gain comes from the schedule of
 * blocks (§4.5).
 */
#include "support/block_plan.h"
#include "support/experiment.h"
#include "support/published_rows.h"

/* ---- the declarations ---- */

static const Column quoted_columns[] = {
    {"what", "", "a number of the lecture"},
    {"lecture", "", "as it states it"},
    {"bars", "", "smallest and largest of the paper's bars, d = 64, 128, 256"},
    {"model", "", "smallest and largest at the same shapes"},
};
static const TableSpec quoted_table = {"quoted", "The lecture's numbers, the paper's bars, the model", quoted_columns, 4};

static const Column chain_columns[] = {
    {"chain", "", "what the speeds belong to"},
    {"step", "", "added to the one before"},
    {"slides", "TFLOP/s", "quoted: measured on an H100"},
    {"gain", "x", "over the step before, slides"},
    {"model", "TFLOP/s", "the same kernel with the same things switched off"},
    {"model gain", "x", "over the step before"},
    {"error", "%", "model over slides, less 100 %"},
};
static const TableSpec chain_table = {"chains", "The steps of FlashAttention-3 (H100, d = 128)", chain_columns, 7};

static const TableSpec forward_table = {"forward", "FlashAttention-3 paper, Figure 5: forward on an H100, FP16",
                                        published_columns, PUBLISHED_COLUMNS};
static const TableSpec fp8_table = {"fp8", "FlashAttention-3 paper, Figure 7: forward on an H100, FP8", published_columns,
                                    PUBLISHED_COLUMNS};

static const TableSpec *const tables[] = {&quoted_table, &chain_table, &forward_table, &fp8_table};

#define SLIDES "measured by the authors (slides 47-49)"

static const ClaimSpec claims[] = {
    {"S4.6-01", "4.6", "CUDA of the benchmark (H100)", "12.8", VERDICT_CITED, "slides 47-49; the paper's bars are of CUDA 12.3",
     NULL},
    {"S4.6-02", "4.6", "BF16 over FlashAttention-2", "1.8-2.2x", VERDICT_CITED, SLIDES "; the paper's abstract: 1.5-2.0x", NULL},
    {"S4.6-03", "4.6", "causal, BF16", "730-750 TFLOP/s", VERDICT_CITED, SLIDES, NULL},
    {"S4.6-04", "4.6", "BF16, the most", "840 TFLOP/s", VERDICT_CITED, SLIDES, NULL},
    {"S4.6-05", "4.6", "FP8, the most", "1.3 PFLOP/s", VERDICT_CITED, SLIDES, NULL},
    {"S4.6-06", "4.6", "causal attention is about as fast as a matrix product", "about equal", VERDICT_CITED, SLIDES, NULL},
    {"S4.6-07", "4.6", "FP16, the most, at publication", "740 TFLOP/s", VERDICT_CITED,
     "measured (abstract of arXiv:2407.08608); its highest bar is 756", NULL},
    {"S4.6-08", "4.6", "utilisation of 740 TFLOP/s", "75%", VERDICT_EQUAL, "740 / 989", NULL},
    {"R-4.6-2x", "4.6", "the paper's bars show 1.8-2.2x over FlashAttention-2 too (from N = 4096)", "1.8-2.2x", VERDICT_DIFFERS,
     "bars of Figure 5: FA3 / FA2, d = 64, 128, 256",
     "the slides are of a later kernel and CUDA; in the paper 1.5x at d = 64, 1.7-1.8x at 128, and above 2x at 256 only"},
    {"R-4.6-order", "4.6", "the model agrees that FlashAttention-3 is no slower than FlashAttention-2, at every bar of Figure 5",
     "faster", VERDICT_EQUAL, "time model, H100", NULL},
};

typedef struct {
    Profile h100;
    ModelErrors fa2, fa3, fp8;
    double causal_low, causal_high; /* the model's FA3, N from 4096 */
    double gain_low, gain_high;     /* the model's FA3 / FA2 */
} Results;

static const PublishedModel fa3 = {"fa3", &algorithm_fa3, NULL, {0}, 0}, fa2 = {"fa2", &algorithm_fa2, NULL, {0}, 0};

/* ---- the bars ---- */

static bool add_bars(const Context *context, Report *report, Results *r)
{
    Table *forward = report_table(report, &forward_table);
    if (!published_rows(forward, FA3_FIGURE_5, &fa3, &r->h100, &r->fa3, context->alloc, context->status)) return false;
    table_note(forward, "Mean absolute error: %.0f %%. FA2 on the same card: s3_5_results.", mean_absolute(&r->fa3));
    Table *fp8 = report_table(report, &fp8_table);
    if (!published_rows(fp8, FA3_FIGURE_7, &fa3, &r->h100, &r->fp8, context->alloc, context->status)) return false;
    table_note(
        fp8,
        "Mean absolute error: %.0f %%. The model takes the BF16 kernel and its tiles with one-byte operands: the shipped FP8 "
        "kernel has wider tiles,",
        mean_absolute(&r->fp8));
    table_note(fp8, "and transposes V and permutes P between the products (4.4), which is not modelled.");
    return true;
}

static bool speed(const Context *context, Report *report, const TimedSetup *setup, double *tflops)
{
    TimedRun run;
    if (!timed_run(&run, setup, report, context->alloc, context->status)) return false;
    *tflops = run.tflops;
    return true;
}

/* FA3 over FA2 in the model, and its causal speeds. */
static bool compare_kernels(const Context *context, Report *report, Results *r)
{
    for (size_t i = 0; i < published_curve_count; i++) {
        const PublishedCurve *curve = &published_curves[i];
        if (curve != published_curve(FA3_FIGURE_5, "fa3", curve->head_dim, curve->causal)) continue;
        for (size_t p = 0; p < PUBLISHED_POINTS && curve->points[p].seqlen > 0; p++) {
            TimedSetup setup = {.algorithm = fa2.algorithm, .chip = &r->h100, .shape = published_shape(curve, p)};
            double before = 0, after = 0;
            if (!speed(context, report, &setup, &before)) return false;
            setup.algorithm = fa3.algorithm;
            if (!speed(context, report, &setup, &after)) return false;
            const double gain = before > 0 ? after / before : 0;
            if (r->gain_low <= 0 || gain < r->gain_low) r->gain_low = gain;
            if (gain > r->gain_high) r->gain_high = gain;
            if (!curve->causal || curve->points[p].seqlen < 4096) continue;
            if (r->causal_low <= 0 || after < r->causal_low) r->causal_low = after;
            if (after > r->causal_high) r->causal_high = after;
        }
    }
    return true;
}

/* ---- the chains ---- */

enum { FREE, TURNS, BOTH, PERSISTENT, CAUSAL, LONGEST, STEPS };

static const struct {
    const char *chain, *step;
    uint64_t slides;
} steps[STEPS] = {{"no mask", "TMA, wgmma, warp roles; the scheduler overlaps", 580},
                  {"no mask", "ping-pong of two warpgroups", 640},
                  {"no mask", "overlap inside a warpgroup", 670},
                  {"no mask", "persistent kernel", 700},
                  {"causal", "natural order", 670},
                  {"causal", "longest blocks first", 730}};

static AttentionShape shape_of(uint64_t batch, uint64_t N, MaskKind mask)
{
    AttentionShape shape = attention_shape(N, 128);
    shape.batch = batch;
    shape.heads = shape.kv_heads = 16;
    shape.mask = mask;
    return shape;
}

/* What hiding the ends of tasks gains at this speed, and what the order gains. */
static bool schedule_gains(const Context *context, const Profile *h100, double tflops, double *persistent, double *longest)
{
    const AttentionShape full = shape_of(4, 8448, MASK_NONE), causal = shape_of(1, 8192, MASK_CAUSAL);
    const TileSize tiles = {128, 128};
    Persistent hidden = {0};
    OrderGain order = {0};
    Plan plan = {0};
    const bool ok = plan_launch(context, &plan, &full, tiles) &&
                    plan_persistent(context, &plan, h100, (uint64_t)tflops, &hidden) &&
                    order_gain(context, h100, &causal, tiles, &order);
    if (ok) {
        *persistent = (double)hidden.apart / (double)hidden.overlapped;
        *longest = (double)order.natural / (double)order.longest;
    }
    plan_free(context, &plan);
    return ok;
}

static bool model_steps(const Context *context, Report *report, const Profile *h100, double model[STEPS])
{
    static const Fa3Options variants[] = {{.no_ping_pong = true, .no_overlap = true}, {.no_overlap = true}, {.consumers = 0}};
    TimedSetup setup = {.algorithm = &algorithm_fa3, .chip = h100, .shape = shape_of(4, 8448, MASK_NONE)};
    double persistent = 1, longest = 1;
    for (int i = FREE; i <= BOTH; i++) {
        setup.fa3 = variants[i];
        if (!speed(context, report, &setup, &model[i])) return false;
    }
    setup.shape = shape_of(1, 8192, MASK_CAUSAL);
    if (!speed(context, report, &setup, &model[CAUSAL]) || !schedule_gains(context, h100, model[BOTH], &persistent, &longest))
        return false;
    model[PERSISTENT] = model[BOTH] * persistent;
    model[LONGEST] = model[CAUSAL] * longest;
    return true;
}

static bool add_chains(const Context *context, Report *report, const Profile *h100)
{
    Table *table = report_table(report, &chain_table);
    double model[STEPS] = {0};
    if (!model_steps(context, report, h100, model)) return false;
    for (int i = 0; i < STEPS; i++) {
        const bool first = i == FREE || i == CAUSAL;
        table_row(table);
        cell_text(table, steps[i].chain);
        cell_text(table, steps[i].step);
        cell_count(table, steps[i].slides);
        if (first)
            cell_empty(table);
        else
            cell_decimals(table, (double)steps[i].slides / (double)steps[i - 1].slides, 3);
        cell_significant(table, model[i], 3);
        if (first)
            cell_empty(table);
        else
            cell_decimals(table, model[i] / model[i - 1], 3);
        cell_error(table, model[i], (double)steps[i].slides);
    }
    table_note(table,
               "The slides do not state their shapes. Model: batch 4, 16 heads, N = 8448 (the paper's ablation); causal: batch "
               "1, 16 heads, N = 8192,");
    table_note(table,
               "one block per SM. The last step of each chain is a gain of the block schedule (s4_5_scheduling), not of the "
               "kernel.");
    table_note(table,
               "In the model warpgroups take turns by themselves, so barriers can only cost (s4_3_pingpong); the real scheduler "
               "promises no order.");
    return true;
}

/* ---- the quotations ---- */

static BarRange speeds(PublishedFigure figure, bool causal_only, uint64_t from)
{
    return bar_range(&(BarQuery){.figure = figure, .kernel = "fa3", .from = from, .causal_only = causal_only});
}

static BarRange gains(uint64_t from)
{
    return bar_range(&(BarQuery){.figure = FA3_FIGURE_5, .kernel = "fa3", .over = "fa2", .from = from});
}

static void add_quoted(Table *table, const Results *r)
{
    const BarRange gain = gains(0), causal = speeds(FA3_FIGURE_5, true, 4096);
    const BarRange all = speeds(FA3_FIGURE_5, false, 0), fp8 = speeds(FA3_FIGURE_7, false, 0);
    const struct {
        const char *what, *lecture;
        double bar_low, bar_high, low, high;
        int decimals;
        const char *unit;
    } rows[] = {
        {"over FlashAttention-2", "1.8-2.2x", gain.low, gain.high, r->gain_low, r->gain_high, 1, "x"},
        {"causal, N from 4096", "730-750 TFLOP/s", causal.low, causal.high, r->causal_low, r->causal_high, 0, "TFLOP/s"},
        {"FP16, BF16, all bars", "most 740; 840 TFLOP/s", all.low, all.high, r->fa3.slowest, r->fa3.fastest, 0, "TFLOP/s"},
        {"FP8, all bars", "most 1.3 PFLOP/s", fp8.low, fp8.high, r->fp8.slowest, r->fp8.fastest, 0, "TFLOP/s"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        table_row(table);
        cell_text(table, rows[i].what);
        cell_text(table, rows[i].lecture);
        cell_textf(table, "%.*f-%.*f %s", rows[i].decimals, rows[i].bar_low, rows[i].decimals, rows[i].bar_high, rows[i].unit);
        cell_textf(table, "%.*f-%.*f %s", rows[i].decimals, rows[i].low, rows[i].decimals, rows[i].high, rows[i].unit);
    }
}

static void judge_claims(Report *report, const Results *r)
{
    const double peak = (double)r->h100.peak_bf16_flops_per_chip / 1e12;
    const BarRange gain = gains(4096), causal = speeds(FA3_FIGURE_5, true, 4096), all = speeds(FA3_FIGURE_5, false, 0),
                   fp8 = speeds(FA3_FIGURE_7, false, 0);
    claim_cited(report, "S4.6-01", "-");
    claim_cited(report, "S4.6-02", "bars from N = 4096: %.1f-%.1fx", gain.low, gain.high);
    claim_cited(report, "S4.6-03", "%.1f-%.1f%% of %.0f; bars from N = 4096: %.0f-%.0f", 100 * 730 / peak, 100 * 750 / peak, peak,
                causal.low, causal.high);
    claim_cited(report, "S4.6-04", "%.1f%% of %.0f; bars: at most %.0f", 100 * 840 / peak, peak, all.high);
    claim_cited(report, "S4.6-05", "%.1f%% of %.0f; bars: at most %.0f", 100 * 1300 / (2 * peak), 2 * peak, fp8.high);
    claim_cited(report, "S4.6-06", "-");
    claim_cited(report, "S4.6-07", "bars: at most %.0f", all.high);
    claim_decimals(report, "S4.6-08", 75, 0, 100 * 740 / peak, "%");
    claim_holds(report, "R-4.6-2x", gain.low >= 1.75 && gain.high <= 2.25, "%.1f-%.1fx", gain.low, gain.high);
    claim_holds(report, "R-4.6-order", r->gain_low >= 1, "%s", r->gain_low >= 1 ? "at every bar" : "not at every bar");
}

static bool run(Context *context, Report *report)
{
    Results results = {.gain_low = 0};
    if (!profile_load("h100", context->alloc, &results.h100, context->status)) return false;
    Table *quoted = report_table(report, &quoted_table);
    if (!add_chains(context, report, &results.h100) || !compare_kernels(context, report, &results) ||
        !add_bars(context, report, &results))
        return false;
    add_quoted(quoted, &results);
    judge_claims(report, &results);
    return status_ok(context->status);
}

const Experiment experiment_s4_6_results = {
    .program =
        {
            .name = "s4_6_results",
            .purpose = "the quoted speeds of FlashAttention-3 and its two chains of steps, beside the time model (lecture 4.6)",
            .examples = {"", "--format csv"},
        },
    .report =
        {
            .section = "4.6",
            .title_en = "Results of FlashAttention-3",
            .title_zh = "FlashAttention-3 的结果",
            .tables = tables,
            .table_count = sizeof tables / sizeof tables[0],
            .claims = claims,
            .claim_count = sizeof claims / sizeof claims[0],
        },
    .run = run,
};
