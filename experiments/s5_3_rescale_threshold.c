/* s5_3_rescale_threshold.c - lecture §5.3: O is rescaled only where a row's maximum has grown by more than tau.
 *
 *     O = sum_j 2^(s_j - m) v_j,  l = sum_j 2^(s_j - m),  O / l does not depend on m
 *
 * So m may lag behind the maximum, as long as P, l and O share it: then P = 2^(s - m) <= 2^tau. FlashAttention-4 takes tau = 8 (base 2), and
 * the 32 rows of a warp decide together. Everything here is FlashAttention-4's kernel (algos/fa4.c) in float32 on a B200, blocks of 128 keys,
 * or the rule replayed on the block maxima that a run left behind (support/rescale_study.h); wherever both exist they are compared.
 *
 * Two kinds of data: N(0,1), and growing scores, row j of K times 50^(j / (N - 1)). The lecture names neither recipe nor unit of its growing
 * data; this one has its largest score (316) and its overflow.
 */
#include "support/exp_facts.h"
#include "support/experiment.h"
#include "support/rescale_study.h"
#include "support/spread.h"

#include "sim/checked.h"
#include "sim/formats.h"

#include <float.h>
#include <stdio.h>

/* ---- the declarations ---- */

static const Column threshold_columns[] = {
    {"data", "", "plain: N(0,1); growing: row j of K times 50^(j / (N - 1)). N = 2048, d = 64, float32"},
    {"tau", "log2", "threshold; 0: FlashAttention-2's rule"},
    {"Q block", "", "rescalings, mean over the seeds, of 256 (query block, key block): 128 rows decide together"},
    {"+-", "", "one standard deviation"},
    {"share", "%", "of the 256"},
    {"warp", "", "of 1024, 32 rows decide together (as shipped)"},
    {"row", "", "of 32,768, each row by itself"},
    {"largest P", "log2", "of these runs; at most tau"},
    {"max error", "", "max |O - float64| of the first 256 queries, mean over the seeds"},
    {"to", "", "of the worst seed"},
    {"inf, NaN", "", "entries of O, mean over the seeds: of 131,072 in the last row of each, of 16,384 in the others"},
};
static const TableSpec threshold_table = {"thresholds", "Rescalings, bound and error by threshold", threshold_columns, 11};

static const Column spread_columns[] = {
    {"spread", "", "standard deviation of the scores before the base-2 factor; tau = 8"},
    {"row", "%", "key blocks skipped after the first, each row by itself"},
    {"warp", "%", "32 rows decide together"},
    {"Q block", "%", "128 rows"},
    {"all, warp", "%", "the first block counted too"},
};
static const TableSpec spread_table = {"spreads", "How often rescaling is skipped: scores of different spread", spread_columns, 5};

static const Column length_columns[] = {
    {"N", "", "keys; 256 queries"},
    {"Tc", "", "key blocks of 128"},
    {"rescaled", "", "decisions of a warp, tau = 8, N(0,1)"},
    {"of", "", "8 warps x Tc"},
    {"skipped", "%", "of them"},
    {"1 - 1/Tc", "%", "all but the first block"},
};
static const TableSpec length_table = {"lengths", "The share skipped is 1 - 1/Tc", length_columns, 6};

static const Column bound_columns[] = {
    {"N", "", "keys"},
    {"bound", "log2", "128 - log2 N (exercise 9): below it no sum can overflow"},
    {"worst l", "2^128", "first block 0, all later scores tau = bound: ((N - 128) 2^tau + 128) / 2^128"},
    {"O at the bound", "", "the kernel on that row with V = 1: 1 is right"},
    {"O 0.1 above", "", "the same with tau = bound + 0.1"},
};
static const TableSpec bound_table = {"bounds", "How large tau may be", bound_columns, 5};

static const TableSpec *const tables[] = {&threshold_table, &spread_table, &length_table, &bound_table};

static const ClaimSpec claims[] = {
    {"S5.3-01", "5.3", "tau = 8 in base 2 is a factor of", "256", VERDICT_EQUAL, "2^8", NULL},
    {"S5.3-02", "5.3", "largest weight with threshold tau", "2^tau", VERDICT_EQUAL, "largest P of every run below 2^tau", NULL},
    {"S5.3-03", "5.3", "N = 2048, blocks of 128: (Q block, KV block) pairs", "16 x 16 = 256", VERDICT_EQUAL, "decisions of a run", NULL},
    {"S5.3-04", "5.3", "tau = 8, N(0,1): only the first block of each Q block rescales", "16 of 256", VERDICT_EQUAL, "every seed", NULL},
    {"S5.3-05", "5.3", "tau = 8 skips (slides)", "90%", VERDICT_EQUAL, "at least: 1 - 16/256", NULL},
    {"R-B-5.3-05", "5.3", "that share is a property of the data", "90% (implied)", VERDICT_DIFFERS, "1 - 1/Tc, N = 1024 to 8192",
     "with N(0,1) scores only the first block rescales, which is initialisation: the share says how many blocks there are"},
    {"S5.3-06", "5.3", "tau = 0: rescalings of a Q block / warp / row", "table lost; its rule gives 256 / 985 / 6930", VERDICT_CLOSE,
     "rows: 2048 (1 + 1/2 + ... + 1/16) = 6924, within 2 %", NULL},
    {"S5.3-07", "5.3", "tau = 8 leaves the error as it is", "unchanged", VERDICT_EQUAL, "mean errors within a factor of 1.5", NULL},
    {"R-B-5.3-07", "5.3", "that error", "table lost; its rule gives 8.9e-8 with a BLAS", VERDICT_DIFFERS, "float32, tau = 0",
     "sums here run one key after the other, as listed, and exponentials are base e; a BLAS adds many partial sums"},
    {"R-B-5.3-10", "5.3", "the error on growing scores, tau = 0 and 8", "table lost; its rule gives 9.1e-6 with a BLAS", VERDICT_DIFFERS, "float32, first 256 queries",
     "a score of 300 has an error of 1e-5 from its own rounding; sequential sums double it"},
    {"S5.3-08", "5.3", "largest score of the growing data", "about 316", VERDICT_CLOSE, "log2 units; two deviations of a seed (30, 20 seeds)", NULL},
    {"S5.3-09", "5.3", "infinities and NaN at tau = 200", "31,152", VERDICT_CLOSE, "mean of the seeds; two deviations of a seed (6663, 20 seeds)", NULL},
    {"S5.3-10", "5.3", "infinities and NaN at tau = 8 on the same data", "0 (implied)", VERDICT_EQUAL, "first 256 queries", NULL},
    {"S5.3-11", "5.3", "largest float32", "about 2^128", VERDICT_EQUAL, "2^128 (1 - 2^-24)", NULL},
    {"S5.3-12", "5.3", "a warp rescales when one of its 32 threads must: tau = 0", "any of 32 (96.3% by its rule)", VERDICT_CLOSE, "of 1024, within 1 point",
     NULL},
    {"R-A17-fp16", "5.3", "P in FP16 needs tau below 16", "16 (not in the text)", VERDICT_EQUAL, "65504 < 2^16: the smallest whole tau at which 2^tau rounds to infinity",
     NULL},
    {"R-C5.3", "5.3", "skips per warp at spreads 1 / 4 / 8 / 16 (not in the text)", "100 / 85 / 55 / 24%", VERDICT_EQUAL, "within 4 points, after the first block",
     NULL},
};

static const ProgramOption options[] = {{OPTION_SEEDS, "3"}};

/* ---- the runs ---- */

enum { KEYS = 2048, HEAD_DIM = 64, SAMPLE = 2 * RESCALE_ROWS, TAUS = 5, OVERFLOWS = TAUS - 1, GRANULARITIES = 3, SPREADS = 5 };
#define GROWTH 50.0

typedef enum { PLAIN, GROWING, DATA } Data;
static const char *const data_names[DATA] = {"plain", "growing"};
static const double taus[DATA][TAUS] = {{0, 1, 2, 4, 8}, {0, 8, 100, 120, 200}};
static const uint32_t granularities[GRANULARITIES] = {RESCALE_ROWS, RESCALE_WARP, 1};
static const double spreads[SPREADS] = {1, 2, 4, 8, 16};

typedef struct {
    Spread rescaled[GRANULARITIES];         /* by the rule; the kernel's counters agree */
    Spread weight, error, nonfinite;
} AtThreshold;

typedef struct {
    AtThreshold at[DATA][TAUS];
    Spread largest_score;                   /* of the growing data */
    Spread skipped[SPREADS][GRANULARITIES]; /* share after the first block */
    uint64_t decisions[GRANULARITIES];
} Study;

/* One run with the query tile deciding; its counter is the replayed rule. */
static bool one_run(RescaleCase *c, double tau, bool want_error, AtThreshold *at, Report *report)
{
    RescaleOutcome outcome;
    if (!rescale_run(c, tau, RESCALE_ROWS, want_error, &outcome)) return false;
    report_check(report, outcome.rescaled, rescale_decisions(c, tau, RESCALE_ROWS, 1), "rescalings of the kernel and of the rule");
    spread_add(&at->weight, outcome.largest_weight);
    spread_add(&at->nonfinite, (double)outcome.nonfinite);
    if (want_error) spread_add(&at->error, outcome.max_error);
    return true;
}

static void replay(const RescaleCase *c, const double *thresholds, AtThreshold *at)
{
    for (int i = 0; i < TAUS; i++)
        for (int g = 0; g < GRANULARITIES; g++) spread_add(&at[i].rescaled[g], (double)rescale_decisions(c, thresholds[i], granularities[g], 1));
}

static void replay_spreads(const RescaleCase *c, Study *study)
{
    for (int s = 0; s < SPREADS; s++)
        for (int g = 0; g < GRANULARITIES; g++) {
            const double all = (double)rescale_decision_count(c, granularities[g]), first = all / (KEYS / RESCALE_KEYS);
            spread_add(&study->skipped[s][g], (all - (double)rescale_decisions(c, 8, granularities[g], spreads[s])) / (all - first));
        }
}

/* All queries run at the last threshold, and their block maxima serve the others; 256 of them run at each, for the error. (Growing scores make
 * many weights subnormal, and products with those are slow.) */
static bool one_case(const Context *context, Data data, uint64_t seed, Study *study, Report *report)
{
    RescaleCase all, sample;
    const double growth = data == GROWING ? GROWTH : 1;
    const RescaleSetup setup = {seed, KEYS, KEYS, HEAD_DIM, growth}, fewer = {seed, SAMPLE, KEYS, HEAD_DIM, growth};
    bool ok = rescale_case_init(&all, &setup, context->alloc, context->status) &&
              one_run(&all, taus[data][TAUS - 1], false, &study->at[data][TAUS - 1], report);
    if (ok) {
        replay(&all, taus[data], study->at[data]);
        if (data == GROWING) spread_add(&study->largest_score, rescale_largest_score(&all));
        else replay_spreads(&all, study);
        for (int g = 0; g < GRANULARITIES; g++) study->decisions[g] = rescale_decision_count(&all, granularities[g]);
    }
    rescale_case_free(&all);
    ok = rescale_case_init(&sample, &fewer, context->alloc, context->status) && ok;
    for (int i = 0; ok && i < TAUS; i++) {
        if (taus[data][i] == 200) continue;
        AtThreshold unused = {0}, *const at = &study->at[data][i];
        ok = one_run(&sample, taus[data][i], true, i == TAUS - 1 ? &unused : at, report);
        if (i == TAUS - 1) spread_add(&at->error, unused.error.first);
    }
    rescale_case_free(&sample);
    return ok;
}

/* ---- the tables ---- */

static void threshold_row(Table *table, Data data, int i, const Study *study)
{
    const AtThreshold *at = &study->at[data][i];
    table_row(table);
    cell_text(table, data_names[data]);
    cell_decimals(table, taus[data][i], 0);
    cell_decimals(table, spread_mean(&at->rescaled[0]), 1);
    cell_decimals(table, spread_deviation(&at->rescaled[0]), 1);
    cell_decimals(table, 100 * spread_mean(&at->rescaled[0]) / (double)study->decisions[0], 2);
    cell_decimals(table, spread_mean(&at->rescaled[1]), 0);
    cell_decimals(table, spread_mean(&at->rescaled[2]), 0);
    if (at->weight.count == 0) cell_empty(table);
    else if (isfinite(at->weight.most)) cell_decimals(table, at->weight.most, 2);
    else cell_text(table, "inf");
    if (at->error.count > 0) cell_significant(table, spread_mean(&at->error), 2);
    else cell_empty(table);
    if (at->error.count > 0) cell_significant(table, at->error.most, 2);
    else cell_empty(table);
    if (at->nonfinite.count > 0) cell_decimals(table, spread_mean(&at->nonfinite), 0);
    else cell_empty(table);
}

static void add_thresholds(const Context *context, Report *report, const Study *study)
{
    Table *table = report_table(report, &threshold_table);
    for (int data = 0; data < DATA; data++)
        for (int i = 0; i < TAUS; i++) threshold_row(table, (Data)data, i, study);
    table_note(table, "Growing: largest score %.0f +- %.0f (log2); infinities and NaN at tau = 200: +- %.0f, %.0f to %.0f.", spread_mean(&study->largest_score),
               spread_deviation(&study->largest_score), spread_deviation(&study->at[GROWING][OVERFLOWS].nonfinite),
               study->at[GROWING][OVERFLOWS].nonfinite.least, study->at[GROWING][OVERFLOWS].nonfinite.most);
    table_note(table, "The first key block always counts: there the reference is set. A row sees a new maximum at block k with probability 1/k, so tau = 0");
    table_note(table, "gives 2048 (1 + 1/2 + ... + 1/16) = 6924 per row; 128 rows together nearly always have one that does.");
    table_note(table, "%" PRIu64 " seeds from %" PRIu64 " on; --seeds 20 for steadier means.", context->options->seeds, context->options->seed);
}

static void add_spreads(Report *report, const Study *study)
{
    Table *table = report_table(report, &spread_table);
    const double Tc = KEYS / RESCALE_KEYS;
    for (int s = 0; s < SPREADS; s++) {
        table_row(table);
        cell_decimals(table, spreads[s], 0);
        for (int g = GRANULARITIES - 1; g >= 0; g--) cell_decimals(table, 100 * spread_mean(&study->skipped[s][g]), 1);
        cell_decimals(table, 100 * spread_mean(&study->skipped[s][1]) * (1 - 1 / Tc), 1);
    }
    table_note(table, "N(0,1) inputs have spread 1. Trained models' scores spread wider: there the threshold saves less, and the coarser the decision the less.");
    table_note(table, "The kernel decides per warp: each row alone would branch, a whole query tile would rescale for its one worst row.");
}

static bool add_lengths(const Context *context, Report *report)
{
    Table *table = report_table(report, &length_table);
    for (uint32_t N = 1024; N <= 8192; N *= 2) {
        RescaleCase c;
        RescaleOutcome outcome;
        const RescaleSetup setup = {context->options->seed, SAMPLE, N, HEAD_DIM, 1};
        const bool ok = rescale_case_init(&c, &setup, context->alloc, context->status) && rescale_run(&c, 8, RESCALE_WARP, false, &outcome);
        rescale_case_free(&c);
        if (!ok) return false;
        const uint64_t all = outcome.rescaled + outcome.skipped;
        table_row(table);
        cell_count(table, N);
        cell_count(table, N / RESCALE_KEYS);
        cell_count(table, outcome.rescaled);
        cell_count(table, all);
        cell_decimals(table, 100 * (double)outcome.skipped / (double)all, 2);
        cell_decimals(table, 100 * (1 - (double)RESCALE_KEYS / N), 2);
    }
    return true;
}

static bool add_bounds(const Context *context, Report *report)
{
    static const uint64_t lengths[] = {KEYS, UINT64_C(1) << 20};
    Table *table = report_table(report, &bound_table);
    for (size_t i = 0; i < 2; i++) {
        const uint64_t N = lengths[i];
        const double bound = rescale_threshold_bound(N);
        double at_bound, above;
        if (!rescale_worst_case(N, bound, &at_bound, context->alloc, context->status) ||
            !rescale_worst_case(N, bound + 0.1, &above, context->alloc, context->status))
            return false;
        table_row(table);
        cell_count(table, N);
        cell_decimals(table, bound, 0);
        cell_decimals(table, (double)(N - RESCALE_KEYS) / (double)N, 5);
        cell_decimals(table, at_bound, 4);
        if (isnan(above)) cell_text(table, "NaN");
        else cell_decimals(table, above, 4);
    }
    table_note(table, "l <= N 2^tau < 2^128. The bound is safe and not attained: the first block sets the reference, so its keys weigh 1 at most.");
    table_note(table, "tau = 8 leaves 100 powers of two at N = 2^20. O can exceed l by the largest |V|. P in FP16 needs tau < 16 (65504), in E4M3 2^tau");
    table_note(table, "times its scale at most 448: at tau = 8 a scale up to 1.75.");
    return true;
}

/* ---- the claims ---- */

static bool weights_bounded(const Study *study)
{
    for (int data = 0; data < DATA; data++)
        for (int i = 0; i < TAUS; i++)
            if (taus[data][i] < 128 && study->at[data][i].weight.most > taus[data][i] + 1e-4) return false; /* e^x in float32, x to 88 */
    return true;
}

static uint64_t smallest_fp16_overflow(void)
{
    uint64_t tau = 0;
    for (float weight = 1; isfinite(round_fp16(weight)); weight *= 2) tau++;
    return tau;
}

static void judge_counts(Report *report, const Study *study)
{
    const AtThreshold *none = &study->at[PLAIN][0], *eight = &study->at[PLAIN][TAUS - 1];
    const double skipped = 100 * (1 - spread_mean(&eight->rescaled[0]) / (double)study->decisions[0]);
    double harmonic = 0;
    for (int k = 1; k <= KEYS / RESCALE_KEYS; k++) harmonic += 1.0 / k;
    claim_count(report, "S5.3-03", 256, study->decisions[0], "");
    claim_holds(report, "S5.3-04", eight->rescaled[0].most == 16, "%.0f to %.0f of %" PRIu64, eight->rescaled[0].least, eight->rescaled[0].most,
                study->decisions[0]);
    claim_holds(report, "S5.3-05", skipped >= 90, "%.2f%%", skipped);
    claim_holds(report, "R-B-5.3-05", false, "87.50%% at N = 1024, 93.75%% at 2048, 98.44%% at 8192");
    claim_close(report, "S5.3-06", 0.98 * KEYS * harmonic, 1.02 * KEYS * harmonic, spread_mean(&none->rescaled[2]), 4, " per row");
    claim_close(report, "S5.3-12", 95.3, 97.3, 100 * spread_mean(&none->rescaled[1]) / (double)study->decisions[1], 3, "%");
    const double want[] = {100, 85, 55, 24};
    const int at[] = {0, 2, 3, 4};
    double farthest = 0;
    for (int i = 0; i < 4; i++) farthest = fmax(farthest, fabs(100 * spread_mean(&study->skipped[at[i]][1]) - want[i]));
    claim_holds(report, "R-C5.3", farthest <= 4, "%.0f / %.0f / %.0f / %.0f%%", 100 * spread_mean(&study->skipped[0][1]),
                100 * spread_mean(&study->skipped[2][1]), 100 * spread_mean(&study->skipped[3][1]), 100 * spread_mean(&study->skipped[4][1]));
}

static void judge_numbers(Report *report, const Study *study)
{
    const double none = spread_mean(&study->at[PLAIN][0].error), eight = spread_mean(&study->at[PLAIN][TAUS - 1].error);
    const bool bounded = weights_bounded(study);
    claim_count(report, "S5.3-01", 256, UINT64_C(1) << 8, "");
    claim_holds(report, "S5.3-02", bounded, bounded ? "at most 2^tau in every run" : "more than 2^tau");
    claim_holds(report, "S5.3-07", eight < 1.5 * none && none < 1.5 * eight, "%.1e and %.1e", none, eight);
    claim_holds(report, "R-B-5.3-07", none < 1.2e-7, "%.1e", none);
    const double growing = spread_mean(&study->at[GROWING][0].error);
    claim_holds(report, "R-B-5.3-10", growing < 1.2e-5, "%.1e and %.1e", growing, spread_mean(&study->at[GROWING][1].error));
    claim_close(report, "S5.3-08", 316 - 2 * 30, 316 + 2 * 30, spread_mean(&study->largest_score), 3, "");
    claim_close(report, "S5.3-09", 31152 - 2 * 6663, 31152 + 2 * 6663, spread_mean(&study->at[GROWING][OVERFLOWS].nonfinite), 5, "");
    claim_count(report, "S5.3-10", 0, (uint64_t)study->at[GROWING][1].nonfinite.most, "");
    claim_holds(report, "S5.3-11", (double)FLT_MAX == 0x1p128 * (1 - 0x1p-24), "2^128 (1 - 2^-24) = %.4g", (double)FLT_MAX);
    claim_count(report, "R-A17-fp16", 16, smallest_fp16_overflow(), "");
}

static bool run(Context *context, Report *report)
{
    Study study = {0};
    for (uint64_t s = 0; s < context->options->seeds; s++)
        for (int data = 0; data < DATA; data++)
            if (!one_case(context, (Data)data, context->options->seed + s, &study, report)) return false;
    add_thresholds(context, report, &study);
    add_spreads(report, &study);
    if (!add_lengths(context, report) || !add_bounds(context, report)) return false;
    judge_counts(report, &study);
    judge_numbers(report, &study);
    return status_ok(context->status);
}

const Experiment experiment_s5_3_rescale_threshold = {
    .program =
        {
            .name = "s5_3_rescale_threshold",
            .purpose = "rescaling O only where a maximum grew by more than a threshold (lecture 5.3)",
            .examples = {"", "--seeds 20"},
            .options = options,
            .option_count = sizeof options / sizeof options[0],
        },
    .report =
        {
            .section = "5.3",
            .title_en = "Conditional rescaling",
            .title_zh = "有条件的重新缩放",
            .tables = tables,
            .table_count = sizeof tables / sizeof tables[0],
            .claims = claims,
            .claim_count = sizeof claims / sizeof claims[0],
        },
    .run = run,
};
