/* s5_2_poly_exp.c - lecture §5.2: exponentials on the multiply-add units.
 *
 *     2^x = 2^floor(x) 2^f,  2^f ~ 1 + c1 f + ... + cn f^n,  floor(x) added to the exponent field
 *
 * Three questions. How good is a polynomial: fitted here by Remez (sim/poly_fit.h), evaluated in float32 as a chip does, before and after BF16, to
 * which P is rounded for the second product. What does attention see of it: FlashAttention-4's kernel, all weights by the polynomial of degree 3
 * or none, P in float32 or BF16, against the float64 oracle. And what is the best share: MUFU and the issue slots work side by side, so
 * moving exponentials helps until the instructions bind; two models of that stand beside one H200.
 */
#include "support/exp_facts.h"
#include "support/exp_mix.h"
#include "support/experiment.h"
#include "support/h200_exp.h"
#include "support/spread.h"

#include "algos/oracle.h"
#include "algos/run.h"
#include "sim/math_functions.h"
#include "sim/mufu_exp2.h"
#include "sim/normal.h"
#include "sim/philox.h"
#include "sim/poly_exp.h"

#include <stdio.h>
#include <string.h>

/* ---- the declarations ---- */

static const Column accuracy_columns[] = {
    {"2^f by", "", "fit: minimax with p(0) = 1 by Remez, of the relative or the absolute error; Chebyshev; Taylor; or a function"},
    {"degree", "", "of the polynomial"},
    {"p(0)", "", "1: powers of two are exact"},
    {"fit error", "", "max |p / 2^f - 1| on [0, 1], float64"},
    {"float32", "", "the same in float32: rounded coefficients, fused multiply-adds; on 2^20 points"},
    {"BF16", "", "the same after rounding to BF16"},
    {"identical", "%", "of the points where the BF16 number is 2^f correctly rounded"},
    {"max ULP", "", "largest difference, in BF16 units of the last place"},
};
static const TableSpec accuracy_table = {"accuracy", "Polynomials for 2^f on [0, 1)", accuracy_columns, 8};

static const Column coefficient_columns[] = {
    {"degree", "", "minimax, relative error, p(0) = 1"},
    {"coefficients", "", "c1, c2, ..."},
    {"extremes", "", "where the error is largest: degree + 1 points, signs in turn, one size"},
};
static const TableSpec coefficient_table = {"coefficients", "The fits", coefficient_columns, 3};

static const Column attention_columns[] = {
    {"data", "", "N = 512. outliers: N(0,1), 1 of 1000 with N(0,10^2) added (§4.4); plain: N(0,1)"},
    {"d", "", "head dimension"},
    {"keys", "", "per block; 512: the whole row at once"},
    {"error is", "", "row: max over rows of max |O - oracle| / max |oracle|; max: max |O - oracle|"},
    {"exp, f32", "", "float32 exponentials, P in float32; geometric mean over the seeds"},
    {"poly, f32", "", "degree 3, P in float32"},
    {"exp, BF16", "", "float32 exponentials, P rounded to BF16"},
    {"poly, BF16", "", "degree 3, P rounded to BF16"},
    {"spread", "x", "factor of one standard deviation, the largest of the four"},
};
static const TableSpec attention_table = {"attention", "What attention sees of it (float32 inputs)", attention_columns, 9};

static const Column mix_columns[] = {
    {"polynomial", "/16", "elements of 16 by polynomial, the others by MUFU"},
    {"chip", "per clock", "2^x per SM and clock, H200, 16 warps (h200_exp_mix.csv)"},
    {"two units", "per clock", "model: constants from rows 8 and 16"},
    {"error", "%", "model over chip - 1"},
    {"chip 2", "per clock", "another benchmark of the same, 32 warps (h200_exp_warps.csv)"},
    {"counted", "per clock", "model: instructions counted in its machine code, rates from rows 0 and 16"},
    {"a warp each", "clocks", "one warp on each scheduler, an iteration of 16 elements (chip 2)"},
};
static const TableSpec mix_table = {"mix", "How much goes to the polynomial: one H200 and two units", mix_columns, 7};

static const Column share_columns[] = {
    {"chip", "", "profile; MUFU 32: a B200 with twice the MUFU rate, as the B300 has"},
    {"d", "", "head dimension"},
    {"type", "", "of the products"},
    {"kernel", "", "walked on that chip"},
    {"tensor", "cycles", "per 128 x 128 scores"},
    {"MUFU", "cycles", "with no polynomial"},
    {"issue", "cycles", "all instructions, with no polynomial"},
    {"best, units", "/16", "share at which the longest of the three is shortest"},
    {"gain", "%", "of that longest unit"},
    {"best, timeline", "/16", "share with which the kernel, as written here, ends first (FlashAttention-4 only)"},
    {"gain ", "%", "of the timeline, N = 4096"},
    {"at 3/16", "%", "gain of the timeline at the share shipped for d = 128"},
    {"shipped", "/16", "quoted: the FlashAttention-4 kernel's tuning, no mask (FP8: causal)"},
};
static const TableSpec share_table = {"shares", "The best share on each chip", share_columns, 13};

static const TableSpec *const tables[] = {&accuracy_table, &coefficient_table, &attention_table, &mix_table, &share_table};

#define LAWSON "Remez, float32 Horner with fused multiply-adds, 2^20 points"
#define LOST   "table lost; its rule gives "

static const ClaimSpec claims[] = {
    {"S5.2-01", "5.2", "MUFU results per SM and cycle", "16", VERDICT_EQUAL, "profile h100; 15.998 measured on the H200", NULL},
    {"S5.2-02", "5.2", "multiply-adds per SM and cycle", "128", VERDICT_EQUAL, "profile h100; 107 measured on the H200", NULL},
    {"R-B-5.2-02", "5.2", "so a polynomial of three of them could run at", "128 / 3 = 42.7 per cycle (implied)", VERDICT_DIFFERS, "measured, H200",
     "range reduction, clamp and exponent are six instructions more: alone it is slower than MUFU's 16; it pays only beside MUFU"},
    {"S5.2-03", "5.2", "2^x = 2^floor(x) 2^f, floor(x) added to the exponent field: powers of two", "exact", VERDICT_EQUAL, "x = -126 .. 127, all degrees",
     NULL},
    {"S5.2-04", "5.2", "degree 1: fit / float32 / BF16 / identical / ULP", LOST "3.82e-02 / 3.82e-02 / 4.13e-02 / 4.59% / 10", VERDICT_EQUAL, LAWSON, NULL},
    {"S5.2-05", "5.2", "degree 2", LOST "2.05e-03 / 2.05e-03 / 5.55e-03 / 76.07% / 1", VERDICT_EQUAL, LAWSON, NULL},
    {"S5.2-06", "5.2", "degree 3", LOST "8.56e-05 / 8.57e-05 / 3.90e-03 / 99.00% / 1", VERDICT_EQUAL, LAWSON, NULL},
    {"S5.2-07", "5.2", "degree 4: largest error in float32", LOST "2.96e-06 (99.97% identical)", VERDICT_CLOSE,
     LAWSON "; 1 %: the coefficients' last bits decide", NULL},
    {"S5.2-08", "5.2", "degree 5", LOST "8.23e-08 / 1.43e-07 / 3.89e-03 / 100.00% / 1", VERDICT_EQUAL, LAWSON, NULL},
    {"S5.2-09", "5.2", "degree 6", LOST "2.01e-09 / 6.42e-08 / 3.89e-03 / 100.00% / 1", VERDICT_EQUAL, LAWSON, NULL},
    {"S5.2-10", "5.2", "degree 7", LOST "4.32e-11 / 5.96e-08 / 3.89e-03 / 100.00% / 1", VERDICT_EQUAL, LAWSON, NULL},
    {"S5.2-11", "5.2", "significant bits of BF16", "8", VERDICT_EQUAL, "the smallest n with 1 + 2^-n not a BF16 number", NULL},
    {"S5.2-12", "5.2", "possible relative rounding error of BF16", "3.9e-3", VERDICT_EQUAL, "2^-8; attained 2^-8 / (1 + 2^-8)", NULL},
    {"S5.2-13", "5.2", "degree 3 after BF16: identical to the exact value", "99%", VERDICT_EQUAL, "2^20 points", NULL},
    {"S5.2-14", "5.2", "degree 3 after BF16: the others differ by", "1", VERDICT_EQUAL, "units of the last place", NULL},
    {"S5.2-15", "5.2", "degree 3 after BF16: the largest error is BF16's own", "3.90e-3 against 3.89e-3", VERDICT_EQUAL, "within 1 % of one rounding alone", NULL},
    {"S5.2-16", "5.2", "attention, N = 512, degree 3, P in float32", "1.4e-4", VERDICT_CLOSE, "first row of `attention`; two deviations (1.2 each, 20 seeds) between a run and our mean", NULL},
    {"S5.2-17", "5.2", "attention, float32 exponentials", "3.3e-6", VERDICT_CLOSE, "the same row", NULL},
    {"S5.2-18", "5.2", "attention, P in BF16, either", "3.1e-3", VERDICT_CLOSE, "the same row", NULL},
    {"R-5.2-drowned", "5.2", "with P in BF16 the polynomial's error is drowned", "drowned", VERDICT_EQUAL, "exp and polynomial agree within 20 % in every row (the largest of 512 rows is a noisy number)", NULL},
    {"S5.2-19", "5.2", "share of a row that FlashAttention-4 computes by polynomial", "10-25%", VERDICT_CITED, "arXiv:2603.05451, Section 3.1.3", NULL},
    {"R-A11", "5.2", "slides: Chebyshev. Degree 3 interpolates with", "9.97e-5 (not in the text)", VERDICT_EQUAL, "at the Chebyshev points of [0, 1]; p(0) is not 1", NULL},
    {"R-A11-taylor", "5.2", "Taylor, degree 3", "5.6e-3 (not in the text)", VERDICT_EQUAL, "at f = 1", NULL},
    {"R-C5.2", "5.2", "the best mixture on an H200", "6/16, 23.3 per cycle (measured)", VERDICT_CLOSE, "two units: best share within 1/16, peak within 10 %", NULL},
};

static const ProgramOption options[] = {{OPTION_SEEDS, "3"}};

/* ---- how good ---- */

enum { DEGREES = POLY_FIT_DEGREE };

typedef struct {
    PolyFit fit;
    Exp2Accuracy accuracy;
} Measured;

typedef struct {
    Measured minimax[DEGREES + 1];              /* by degree */
    Measured absolute, points, series, taylor;  /* degree 3 */
    Exp2Accuracy function, mufu, ideal;
} Accuracies;

static void exp2_by_mufu(const void *unused, const float *x, float *y, uint32_t count)
{
    (void)unused;
    for (uint32_t i = 0; i < count; i++) y[i] = mufu_exp2(x[i]);
}

static bool measure(Measured *m, PolyFitKind kind, uint32_t degree, Status *status)
{
    if (!poly_fit(&m->fit, kind, degree, status)) return false;
    m->accuracy = exp2_accuracy(exp2_by_fit, &m->fit, EXP2_POINTS);
    return true;
}

static bool measure_all(Accuracies *a, Status *status)
{
    for (uint32_t n = 1; n <= DEGREES; n++)
        if (!measure(&a->minimax[n], FIT_MINIMAX_RELATIVE, n, status)) return false;
    a->function = exp2_accuracy(exp2_by_function, NULL, EXP2_POINTS);
    a->mufu = exp2_accuracy(exp2_by_mufu, NULL, EXP2_POINTS);
    a->ideal = exp2_accuracy(exp2_ideal, NULL, EXP2_POINTS);
    return measure(&a->absolute, FIT_MINIMAX_ABSOLUTE, 3, status) && measure(&a->points, FIT_CHEBYSHEV_POINTS, 3, status) &&
           measure(&a->series, FIT_CHEBYSHEV_SERIES, 3, status) && measure(&a->taylor, FIT_TAYLOR, 3, status);
}

static void accuracy_cells(Table *table, const Exp2Accuracy *a)
{
    cell_significant(table, a->max_relative, 3);
    cell_significant(table, a->max_relative_bf16, 4);
    cell_decimals(table, 100 * a->same_bf16, 4);
    cell_count(table, a->max_ulp_bf16);
}

static void fit_row(Table *table, const char *name, const Measured *m)
{
    table_row(table);
    cell_text(table, name);
    cell_count(table, m->fit.degree);
    if (m->fit.c[0] == 1.0) cell_text(table, "1");
    else cell_decimals(table, m->fit.c[0], 7);
    cell_significant(table, m->fit.error, 4);
    accuracy_cells(table, &m->accuracy);
}

static void function_row(Table *table, const char *name, const Exp2Accuracy *a)
{
    table_row(table);
    cell_text(table, name);
    for (int i = 0; i < 3; i++) cell_empty(table);
    accuracy_cells(table, a);
}

static void add_accuracy(Report *report, const Accuracies *a)
{
    Table *table = report_table(report, &accuracy_table);
    for (uint32_t n = 1; n <= DEGREES; n++) fit_row(table, "minimax", &a->minimax[n]);
    fit_row(table, "minimax, absolute", &a->absolute);
    fit_row(table, "Chebyshev points", &a->points);
    fit_row(table, "Chebyshev series", &a->series);
    fit_row(table, "Taylor", &a->taylor);
    function_row(table, "our exp2, float32", &a->function);
    function_row(table, "MUFU.EX2, a model of it", &a->mufu);
    table_row(table);
    cell_text(table, "MUFU.EX2 of an H200 (measured)");
    for (int i = 0; i < 3; i++) cell_empty(table);
    cell_significant(table, h200_mufu_max_relative, 3);
    cell_empty(table);
    cell_decimals(table, 100 * h200_mufu_same_bf16, 4);
    cell_count(table, h200_mufu_max_ulp_bf16);
    table_row(table);
    cell_text(table, "2^f, rounded once");
    for (int i = 0; i < 4; i++) cell_empty(table);
    cell_significant(table, a->ideal.max_relative_bf16, 4);
    cell_decimals(table, 100 * a->ideal.same_bf16, 4);
    cell_count(table, a->ideal.max_ulp_bf16);
    table_note(table, "From degree 3 on the third error is BF16's own rounding: higher degrees buy nothing for P in BF16.");
    table_note(table, "In float32 degree 5 is as good as MUFU; past it the coefficients' and Horner's roundings are all that is left.");
    table_note(table, "Chebyshev's fits need no search, but p(0) is not 1: 2^0 is 0.9999, and every power of two is off by 1e-4.");
}

static void add_coefficients(Report *report, const Accuracies *a)
{
    Table *table = report_table(report, &coefficient_table);
    for (uint32_t n = 1; n <= DEGREES; n++) {
        const PolyFit *fit = &a->minimax[n].fit;
        char coefficients[160] = "", extremes[160] = "";
        for (uint32_t i = 0; i <= n; i++) {
            const size_t c = strlen(coefficients), e = strlen(extremes);
            if (i > 0) snprintf(coefficients + c, sizeof coefficients - c, "%s%.8g", i > 1 ? ", " : "", fit->c[i]);
            snprintf(extremes + e, sizeof extremes - e, "%s%.3f", i > 0 ? ", " : "", fit->at[i]);
        }
        table_row(table);
        cell_count(table, n);
        cell_text(table, coefficients);
        cell_text(table, extremes);
    }
    table_note(table, "degree + 1 extremes of one size: no polynomial of that degree with p(0) = 1 is better (Chebyshev's theorem).");
    table_note(table, "Degree 3 rounded to float32 is what the kernels use (sim/poly_exp.h): %.7f, %.7f, %.7f.", (double)POLY_EXP_C1, (double)POLY_EXP_C2,
               (double)POLY_EXP_C3);
}

/* ---- what attention sees ---- */

enum { LENGTH = 512, EXPONENTIALS = 2, WEIGHT_TYPES = 2 };

typedef struct {
    const char *data;
    bool outliers;
    uint32_t d, keys;
} Definition;

static const Definition definitions[] = {{"outliers", true, 128, 512}, {"outliers", true, 128, 128}, {"plain", false, 64, 128}};

typedef enum { BY_ROW, BY_MAXIMUM, MEASURES } Measure;
static const char *const measure_names[MEASURES] = {"row", "max"};
#define SPREAD_OF_A_RUN 1.2     /* factor of one deviation: 20 seeds, first row of the table */
enum { DEFINITIONS = sizeof definitions / sizeof definitions[0], RECOMMENDED = 0 };

/* Logarithms of the errors. */
typedef struct {
    Spread error[MEASURES][EXPONENTIALS][WEIGHT_TYPES];     /* [][by polynomial][in BF16] */
} AttentionErrors;

/* The data of §4.4: one element of a thousand has another normal number added, of deviation 10. */
static void add_outliers(const Machine *machine, Tensor *tensor, uint64_t seed, uint64_t stream)
{
    enum { WHICH = 100, WHAT = 200 };           /* streams of random numbers of their own */
    const uint32_t share = (uint32_t)(4294967296.0 / 1000);
    for (uint64_t i = 0; i < tensor_elements(tensor); i++)
        if (philox_element(seed, WHICH + stream, i) < share)
            tensor_set(machine, tensor, i, tensor_value(machine, tensor, i) + 10 * normal_element(seed, WHAT + stream, i));
}

static void place_inputs(const AttentionRun *run, const Definition *def, uint64_t seed)
{
    Tensor *const inputs[] = {run->attention.Q, run->attention.K, run->attention.V};
    attention_random_inputs(&run->attention, &run->machine, seed);
    for (uint64_t t = 0; def->outliers && t < 3; t++) add_outliers(&run->machine, inputs[t], seed, t);
}

static void output_errors(const AttentionRun *run, const Definition *def, const double *want, double errors[MEASURES])
{
    errors[BY_ROW] = errors[BY_MAXIMUM] = 0;
    for (uint64_t i = 0; i < LENGTH; i++) {
        double difference = 0, size = 0;
        for (uint64_t c = 0; c < def->d; c++) {
            const double exact = want[i * def->d + c];
            difference = fmax(difference, fabs(tensor_value(&run->machine, run->attention.O, i * def->d + c) - exact));
            size = fmax(size, fabs(exact));
        }
        errors[BY_ROW] = fmax(errors[BY_ROW], difference / size);
        errors[BY_MAXIMUM] = fmax(errors[BY_MAXIMUM], difference);
    }
}

/* One run; the oracle is asked the first time (want[0] is NaN then). */
static bool attend(const Context *context, const Profile *chip, const Definition *def, uint64_t seed, bool polynomial, bool bf16, double *want, double errors[MEASURES])
{
    AttentionRun run;
    AttentionShape shape = attention_shape(LENGTH, def->d);
    shape.dtype = ELEMENT_F32;
    const RunSetup setup = {.algorithm = &algorithm_fa4, .profile = chip, .tiles = {256, def->keys}, .config = {.mode = MODE_NUMERIC}};
    bool ok = attention_run_prepare(&run, &setup, &shape, context->alloc, context->status);
    if (ok) {
        run.attention.fa4 = (Fa4Options){.poly_sixteenths = polynomial ? 16 : 0, .bf16_weights = bf16};
        place_inputs(&run, def, seed);
        ok = attention_run_forward(&run) && (!isnan(want[0]) || oracle_forward(&run.attention, &run.machine, want, NULL));
    }
    if (ok) output_errors(&run, def, want, errors);
    attention_run_free(&run);
    return ok;
}

static bool attention_errors(const Context *context, const Profile *chip, const Definition *def, AttentionErrors *errors)
{
    double *const want = alloc_array(context->alloc, (uint64_t)LENGTH * def->d, sizeof *want, "the oracle's O", context->status);
    bool ok = want != NULL;
    *errors = (AttentionErrors){0};
    for (uint64_t s = 0; ok && s < context->options->seeds; s++) {
        want[0] = NAN;
        for (int p = 0; p < EXPONENTIALS; p++)
            for (int b = 0; b < WEIGHT_TYPES; b++) {
                double found[MEASURES] = {1, 1};
                ok = ok && attend(context, chip, def, context->options->seed + s, p == 1, b == 1, want, found);
                for (int m = 0; m < MEASURES; m++) spread_add(&errors->error[m][p][b], log_f64(found[m]));
            }
    }
    alloc_free(context->alloc, want);
    return ok;
}

static double geometric_mean(const Spread *s) { return exp_f64(spread_mean(s)); }

static void attention_row(Table *table, const Definition *def, Measure measure, const AttentionErrors *errors)
{
    double spread = 0;
    table_row(table);
    cell_text(table, def->data);
    cell_count(table, def->d);
    cell_count(table, def->keys);
    cell_text(table, measure_names[measure]);
    for (int b = 0; b < WEIGHT_TYPES; b++)
        for (int p = 0; p < EXPONENTIALS; p++) {
            cell_significant(table, geometric_mean(&errors->error[measure][p][b]), 2);
            spread = fmax(spread, spread_deviation(&errors->error[measure][p][b]));
        }
    cell_decimals(table, exp_f64(spread), 2);
}

static bool add_attention(const Context *context, Report *report, AttentionErrors errors[DEFINITIONS])
{
    Profile roomy;                              /* a whole row of scores fits */
    Table *table = report_table(report, &attention_table);
    if (!profile_load("unbounded", context->alloc, &roomy, context->status)) return false;
    for (int i = 0; i < DEFINITIONS; i++) {
        if (!attention_errors(context, &roomy, &definitions[i], &errors[i])) return false;
        for (int m = 0; m < MEASURES; m++) attention_row(table, &definitions[i], (Measure)m, &errors[i]);
    }
    table_note(table, "The lecture's 3.3e-6, 1.4e-4 and 3.1e-3 name neither data nor measure; data with outliers contain all three, plain N(0,1) not the 3.3e-6.");
    table_note(table, "%" PRIu64 " seeds from %" PRIu64 " on; --seeds 20 for a steadier mean.", context->options->seeds, context->options->seed);
    return true;
}

/* ---- which share ---- */

static void add_mix(Report *report, const Profile *h200)
{
    enum { FOUR_WARPS = 2, ALL_WARPS = 5 };
    const ExpMixModel fitted = exp_mix_fitted(h200), counted = exp_mix_counted();
    Table *table = report_table(report, &mix_table);
    for (int i = 0; i < H200_EXP_MIXES; i++) {
        const H200ExpMix *row = &h200_exp_mix[i];
        const double model = 16 / exp_mix_clocks(&fitted, row->k);
        table_row(table);
        cell_count(table, row->k);
        cell_decimals(table, row->per_clock, 2);
        cell_decimals(table, model, 2);
        cell_decimals(table, 100 * (model / row->per_clock - 1), 1);
        cell_decimals(table, 16 * 32 * h200_warps[ALL_WARPS] / row->clocks[ALL_WARPS], 2);
        cell_decimals(table, 16 / exp_mix_clocks(&counted, row->k), 2);
        cell_decimals(table, row->clocks[FOUR_WARPS], 0);
    }
    table_note(table, "Two units: max((16 - k) / 16, (k p + (16 - k) m) / 128) clocks for 16, with p = %.2f and m = %.2f instructions.", fitted.polynomial,
               fitted.mufu);
    table_note(table, "Counted: p = %d, m = %d, 3 for the loop; MUFU at %.2f and %.0f instructions of 128 per clock. Near the best share both units are nearly",
               H200_POLY_INSTRUCTIONS, H200_MUFU_INSTRUCTIONS, counted.mufu_rate, counted.issue_rate);
    table_note(table, "full and get in each other's way, which neither model has. A third benchmark runs the polynomial alone at %.1f per clock.", h200_poly_per_clock);
    table_note(table, "One warp per scheduler, 16 independent elements in the compiler's order: 23 clocks for a polynomial's 9 instructions, under 1 for one of MUFU's.");
    table_note(table, "Interleaved by eights a polynomial takes half of that, which is what time mode charges (independent_interval of the profile).");
}

typedef struct {
    const char *name, *profile;
    const Algorithm *algorithm;
    uint64_t mufu, d;           /* mufu 0: the profile's */
    ElementType type;
    const char *shipped;
} ChipCase;

/* Shipped: derived from the tuning table of flash-attention 4's forward kernel. */
static const ChipCase chip_cases[] = {
    {"A100", "a100", &algorithm_fa2, 0, 64, ELEMENT_BF16, "-"},         {"A100", "a100", &algorithm_fa2, 0, 128, ELEMENT_BF16, "-"},
    {"H100", "h100", &algorithm_fa3, 0, 64, ELEMENT_BF16, "-"},         {"H100", "h100", &algorithm_fa3, 0, 128, ELEMENT_BF16, "-"},
    {"H100", "h100", &algorithm_fa3, 0, 128, ELEMENT_E4M3, "-"},        {"B200", "b200", &algorithm_fa4, 0, 64, ELEMENT_BF16, "-"},
    {"B200", "b200", &algorithm_fa4, 0, 128, ELEMENT_BF16, "3"},        {"B200", "b200", &algorithm_fa4, 0, 128, ELEMENT_E4M3, "4"},
    {"MUFU 32", "b200", &algorithm_fa4, 32, 64, ELEMENT_BF16, "-"},     {"MUFU 32", "b200", &algorithm_fa4, 32, 128, ELEMENT_BF16, "0"},
};
enum { CHIP_CASES = sizeof chip_cases / sizeof chip_cases[0], SHARE_LENGTH = 4096, TILE_SIDE = 128, LARGEST_SHARE = 8, SHIPPED_SHARE = 3 };

typedef struct {
    double busy[UNIT_KINDS];    /* cycles per 128 x 128 scores */
    double timeline;            /* cycles until the last block of one head ends */
} ShareTime;

static bool share_time(const Context *context, const Profile *chip, const ChipCase *c, uint32_t k, ShareTime *time)
{
    const double tiles = (double)SHARE_LENGTH * SHARE_LENGTH / (TILE_SIDE * TILE_SIDE);
    AttentionShape shape = attention_shape(SHARE_LENGTH, c->d);
    AttentionRun run;
    shape.dtype = c->type;
    const RunSetup setup = {.algorithm = c->algorithm, .profile = chip, .config = {.l2 = L2_IDEAL, .time = true}};
    bool ok = attention_run_prepare(&run, &setup, &shape, context->alloc, context->status);
    if (ok && c->algorithm == &algorithm_fa4) run.attention.fa4 = (Fa4Options){.poly_sixteenths = k, .conditional = true};     /* rescales once */
    ok = ok && attention_run_forward(&run);
    if (ok) {
        for (int u = 0; u < UNIT_KINDS; u++) time->busy[u] = (double)run.machine.launches[0].time.busy[u] / tiles;
        time->timeline = (double)run.machine.launches[0].time.sm_cycles;
    }
    attention_run_free(&run);
    return ok;
}

/* The longest of tensor cores, MUFU and issue slots when k of 16 exponentials have moved. */
static double longest_unit(const ShareTime *none, double exponentials, double added_issue, uint32_t k)
{
    const double mufu = none->busy[UNIT_MUFU] - exponentials * k / 16, issue = none->busy[UNIT_ISSUE] + added_issue * k / 16;
    return fmax(none->busy[UNIT_TENSOR], fmax(mufu, issue));
}

/* What all 16 sixteenths add to the issue slots of a B200, per tile. The other chips' kernels have no polynomial; their rows take the same, and no
 * share would help them. */
static bool added_instructions(const Context *context, double *cycles)
{
    Profile b200;
    ShareTime none, all;
    const ChipCase c = {"B200", "b200", &algorithm_fa4, 0, 128, ELEMENT_BF16, ""};
    if (!profile_load(c.profile, context->alloc, &b200, context->status) || !share_time(context, &b200, &c, 0, &none) ||
        !share_time(context, &b200, &c, 16, &all))
        return false;
    *cycles = all.busy[UNIT_ISSUE] - none.busy[UNIT_ISSUE];
    return true;
}

typedef struct {
    uint32_t k;                 /* the best */
    double shortest, shipped;   /* timeline there, and at SHIPPED_SHARE */
} BestTimeline;

static bool best_timeline(const Context *context, const Profile *chip, const ChipCase *c, const ShareTime *none, BestTimeline *best)
{
    *best = (BestTimeline){.shortest = none->timeline};
    for (uint32_t k = 1; k <= LARGEST_SHARE; k++) {
        ShareTime time;
        if (!share_time(context, chip, c, k, &time)) return false;
        if (k == SHIPPED_SHARE) best->shipped = time.timeline;
        if (time.timeline >= best->shortest) continue;
        best->k = k;
        best->shortest = time.timeline;
    }
    return true;
}

static double gain(double from, double to) { return 100 * (from / to - 1); }

static bool share_row(const Context *context, Table *table, const ChipCase *c, double added)
{
    Profile chip;
    ShareTime none;
    BestTimeline timeline;
    uint32_t units = 0;
    if (!profile_load(c->profile, context->alloc, &chip, context->status)) return false;
    if (c->mufu > 0) chip.mufu_ops_per_cycle_per_sm = c->mufu;
    const bool fa4 = c->algorithm == &algorithm_fa4;
    if (!share_time(context, &chip, c, 0, &none) || (fa4 && !best_timeline(context, &chip, c, &none, &timeline))) return false;
    const double exponentials = (double)(TILE_SIDE * TILE_SIDE) / (double)chip.mufu_ops_per_cycle_per_sm;
    for (uint32_t k = 1; k <= 16; k++)
        if (longest_unit(&none, exponentials, added, k) < longest_unit(&none, exponentials, added, units)) units = k;
    table_row(table);
    cell_text(table, c->name);
    cell_count(table, c->d);
    cell_text(table, element_name(c->type));
    cell_text(table, c->algorithm->name);
    cell_decimals(table, none.busy[UNIT_TENSOR], 0);
    cell_decimals(table, none.busy[UNIT_MUFU], 0);
    cell_decimals(table, none.busy[UNIT_ISSUE], 0);
    cell_count(table, units);
    cell_decimals(table, gain(longest_unit(&none, exponentials, added, 0), longest_unit(&none, exponentials, added, units)), 1);
    if (fa4) {
        cell_count(table, timeline.k);
        cell_decimals(table, gain(none.timeline, timeline.shortest), 1);
        cell_decimals(table, gain(none.timeline, timeline.shipped), 1);
    } else
        for (int i = 0; i < 3; i++) cell_empty(table);
    cell_text(table, c->shipped);
    return true;
}

static bool add_shares(const Context *context, Report *report)
{
    double added;
    Table *table = report_table(report, &share_table);
    if (!added_instructions(context, &added)) return false;
    for (int i = 0; i < CHIP_CASES; i++)
        if (!share_row(context, table, &chip_cases[i], added)) return false;
    table_note(table, "Units: everything overlaps, so only the longest unit counts. On a B200 16/16 add %.0f issue cycles (instructions by pairs of elements).", added);
    table_note(table, "A100 and H100 are not bound by MUFU alone, nor is a chip with twice its rate: no share gains there. At d = 128 a B200's MUFU and tensor");
    table_note(table, "cores tie, so by this count 1/16 is all that helps; the timeline's blocks wait for their softmax, and there more does, as in the paper's kernel.");
    return true;
}

/* ---- the claims ---- */

static void judge_row(Report *report, const char *id, const Accuracies *a, uint32_t degree)
{
    char ours[120], row[160];
    const Measured *m = &a->minimax[degree];
    snprintf(ours, sizeof ours, "%.2e / %.2e / %.2e / %.2f%% / %u", m->fit.error, m->accuracy.max_relative, m->accuracy.max_relative_bf16,
             100 * m->accuracy.same_bf16, m->accuracy.max_ulp_bf16);
    for (size_t i = 0; i < sizeof claims / sizeof claims[0]; i++) {
        if (strcmp(claims[i].id, id) != 0) continue;
        snprintf(row, sizeof row, LOST "%s", ours);
        claim_holds(report, id, strcmp(claims[i].lecture, row) == 0, "%s", ours);
    }
}

static bool powers_are_exact(const Accuracies *a)
{
    for (uint32_t n = 1; n <= DEGREES; n++)
        for (int k = -126; k <= 127; k++)
            if ((double)poly_fit_exp2_f32(&a->minimax[n].fit, (float)k) != exp2_f64(k)) return false;
    return true;
}

static uint64_t bf16_bits(void)
{
    uint64_t n = 1;
    for (float step = 0.5f; round_bf16(1.0f + step) == 1.0f + step; step /= 2) n++;
    return n;
}

static void judge_accuracy(Report *report, const Accuracies *a)
{
    static const struct {
        const char *id;
        uint32_t degree;
    } rows[] = {{"S5.2-04", 1}, {"S5.2-05", 2}, {"S5.2-06", 3}, {"S5.2-08", 5}, {"S5.2-09", 6}, {"S5.2-10", 7}};
    const Exp2Accuracy *cubic = &a->minimax[3].accuracy;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) judge_row(report, rows[i].id, a, rows[i].degree);
    claim_close(report, "S5.2-07", 0.99 * 2.96e-6, 1.01 * 2.96e-6, a->minimax[4].accuracy.max_relative, 3, "");
    const bool exact = powers_are_exact(a);
    claim_holds(report, "S5.2-03", exact, "%s", exact ? "exact" : "not exact");
    claim_count(report, "S5.2-11", 8, bf16_bits(), "");
    claim_significant(report, "S5.2-12", 3.9e-3, 2, 1.0 / 256, "");
    claim_decimals(report, "S5.2-13", 99, 0, 100 * cubic->same_bf16, "%");
    claim_count(report, "S5.2-14", 1, cubic->max_ulp_bf16, " ULP");
    claim_holds(report, "S5.2-15", cubic->max_relative_bf16 < 1.01 * a->ideal.max_relative_bf16, "%.3e against %.3e", cubic->max_relative_bf16,
                a->ideal.max_relative_bf16);
    claim_significant(report, "R-A11", 9.97e-5, 3, a->points.fit.error, "");
    claim_significant(report, "R-A11-taylor", 5.6e-3, 2, a->taylor.fit.error, "");
}

/* The lecture's one run against our mean of n: within two deviations of their difference. */
static void claim_near(Report *report, const char *id, double lecture, const Spread *logarithms)
{
    const double factor = exp_f64(2 * log_f64(SPREAD_OF_A_RUN) * sqrt(1 + 1 / (double)logarithms->count));
    claim_close(report, id, lecture / factor, lecture * factor, geometric_mean(logarithms), 2, "");
}

static void judge_attention(Report *report, const AttentionErrors errors[DEFINITIONS])
{
    const AttentionErrors *e = &errors[RECOMMENDED];
    double apart = 0;
    claim_near(report, "S5.2-16", 1.4e-4, &e->error[BY_ROW][1][0]);
    claim_near(report, "S5.2-17", 3.3e-6, &e->error[BY_ROW][0][0]);
    claim_near(report, "S5.2-18", 3.1e-3, &e->error[BY_ROW][1][1]);
    for (int i = 0; i < DEFINITIONS; i++)
        for (int m = 0; m < MEASURES; m++)
            apart = fmax(apart, fabs(geometric_mean(&errors[i].error[m][1][1]) / geometric_mean(&errors[i].error[m][0][1]) - 1));
    claim_holds(report, "R-5.2-drowned", apart < 0.2, "at most %.1f%% apart", 100 * apart);
}

static void judge_shares(Report *report, const Profile *h100, const Profile *h200)
{
    const ExpMixModel model = exp_mix_fitted(h200);
    const uint32_t best = exp_mix_best(&model);
    const double peak = 16 / exp_mix_clocks(&model, best);
    claim_count(report, "S5.2-01", 16, h100->mufu_ops_per_cycle_per_sm, "");
    claim_count(report, "S5.2-02", 128, h100->fp32_fma_per_cycle_per_sm, "");
    claim_holds(report, "R-B-5.2-02", h200_exp_mix[H200_EXP_MIXES - 1].per_clock > 42, "%.1f to %.1f per cycle", h200_poly_per_clock,
                h200_exp_mix[H200_EXP_MIXES - 1].per_clock);
    claim_cited(report, "S5.2-19", "MUFU cycles of a 128 x 128 tile: %.1f to %.0f", 0.9 * 1024, 0.75 * 1024);
    claim_close(report, "R-C5.2", best >= 5 && best <= 7 ? 0.9 * 23.266 : 0, best >= 5 && best <= 7 ? 1.1 * 23.266 : 0, peak, 3, " per cycle");
}

static bool run(Context *context, Report *report)
{
    Profile h100, h200;
    Accuracies accuracies;
    AttentionErrors errors[DEFINITIONS];
    if (!profile_load("h100", context->alloc, &h100, context->status) || !profile_load("h200", context->alloc, &h200, context->status)) return false;
    if (!measure_all(&accuracies, context->status)) return false;
    add_accuracy(report, &accuracies);
    add_coefficients(report, &accuracies);
    if (!add_attention(context, report, errors)) return false;
    add_mix(report, &h200);
    if (!add_shares(context, report)) return false;
    judge_accuracy(report, &accuracies);
    judge_attention(report, errors);
    judge_shares(report, &h100, &h200);
    return status_ok(context->status);
}

const Experiment experiment_s5_2_poly_exp = {
    .program =
        {
            .name = "s5_2_poly_exp",
            .purpose = "exponentials by polynomial: how exact, what attention sees, which share is best (lecture 5.2)",
            .examples = {"", "--seeds 20"},
            .options = options,
            .option_count = sizeof options / sizeof options[0],
        },
    .report =
        {
            .section = "5.2",
            .title_en = "exp on the FMA units",
            .title_zh = "用 FMA 单元算 exp",
            .tables = tables,
            .table_count = sizeof tables / sizeof tables[0],
            .claims = claims,
            .claim_count = sizeof claims / sizeof claims[0],
        },
    .run = run,
};
