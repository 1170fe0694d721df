/* s4_4_fp8.c - lecture §4.4: what FP8 costs in precision, what rotation gives back, and what both cost in work.
 *
 *     FP8:       x ~ code / s,  s = 448 / max|x| over a tensor (or a block of 128 rows),  code = E4M3(s x)
 *     rotation:  Q -> Q J, K -> K J with J = diag(+-1) H / sqrt(d): scores stay, an outlier is spread over its row
 *     error:     sqrt(mean (O - O_exact)²); data and definition in support/fp8_error.h
 *
 * The lecture tried to reproduce the slides' factor of 2.6 with N = 1024 and found 1.6. Both are right: the factor grows with
 * N, because more keys share the column of a query's outlier; at N = 8192, a length of the paper's, its table comes out in
 * absolute values too, within the spread (table `lengths`). The lecture's explanation of why rotation helps fits INT8, whose levels are max/127
 * apart. E4M3 keeps three bits of mantissa whatever the maximum is: the error of Q itself is not changed by rotation, nor that
 * of S on average. Rotation takes it away from the few scores whose softmax weight is large (table `operands`).
 *
 * Left out: other formats (MXFP8, NVFP4), smoothing of K, rotation by other matrices. A default run has few seeds and one at
 * the longest N; --study has 24 and 20, and takes half a minute.
 */
#include "support/experiment.h"
#include "support/fp8_error.h"
#include "support/spread.h"

#include "algos/run.h"
#include "sim/cost.h"
#include "sim/hadamard.h"

#include <math.h>

enum { N_LECTURE = 1024, D_LECTURE = 128, QUERIES = 1024, N_PAPER = 8192, QUICK_SEEDS = 3, STUDY_SEEDS = 24, STUDY_LENGTH_SEEDS = 20, LONGEST = 65536 };

/* ---- the recipes ---- */

/* Of one granularity and rotation. */
enum { QK_E4M3, ALL_E4M3, QK_INT8, WAYS };
enum { TENSOR, BLOCK, TENSOR_ROTATED, BLOCK_ROTATED, ROWS };

static const char *const row_names[ROWS] = {"tensor", "block", "tensor", "block"};
static const ScaleGranularity row_scales[ROWS] = {SCALE_TENSOR, SCALE_BLOCK, SCALE_TENSOR, SCALE_BLOCK};
static bool is_rotated(int row) { return row >= TENSOR_ROTATED; }

/* One operand at a time, per tensor. */
enum { ONLY_V, ONLY_V_ROTATED, ONLY_P, V_AND_P, V_AND_P_ROTATED, BF16, P_256, PARTS };

static const Fp8Recipe parts[PARTS] = {
    [ONLY_V] = {.v = OPERAND_E4M3, .scales = SCALE_TENSOR},
    [ONLY_V_ROTATED] = {.v = OPERAND_E4M3, .scales = SCALE_TENSOR, .rotate_v = true},
    [ONLY_P] = {.p = OPERAND_E4M3, .scales = SCALE_TENSOR},
    [V_AND_P] = {.v = OPERAND_E4M3, .p = OPERAND_E4M3, .scales = SCALE_TENSOR},
    [V_AND_P_ROTATED] = {.v = OPERAND_E4M3, .p = OPERAND_E4M3, .scales = SCALE_TENSOR, .rotate_qk = true},
    [BF16] = {.qk = OPERAND_BF16, .v = OPERAND_BF16, .p = OPERAND_BF16},
    [P_256] = {.p = OPERAND_E4M3, .scales = SCALE_TENSOR, .p_scale = 256},
};

static Fp8Recipe recipe_of(int row, int way)
{
    const OperandFormat qk = way == QK_INT8 ? OPERAND_INT8 : OPERAND_E4M3, rest = way == ALL_E4M3 ? OPERAND_E4M3 : OPERAND_EXACT;
    return (Fp8Recipe){.qk = qk, .v = rest, .p = rest, .scales = row_scales[row], .rotate_qk = is_rotated(row)};
}

/* Everything measured at N = 1024, d = 128. */
typedef struct {
    Spread error[ROWS][WAYS], kernel[ROWS], part[PARTS];
    Spread qk_gain, qk_block_gain, all_gain, int8_gain, block_over_tensor, slide_gain;      /* per seed */
    Spread share, spread[2];                    /* outliers [%]; max / RMS before and after rotation */
    Fp8OperandError operand[2][2];              /* [E4M3, INT8][rotated], first seed */
    RotationError rotation;
} Measured;

/* Errors of one seed, [row][way] in a row. */
static double ratio(const double *e, int way, int row, int over) { return e[row * WAYS + way] / e[over * WAYS + way]; }

static void measure_factors(Measured *m, const double *e)
{
    spread_add(&m->qk_gain, ratio(e, QK_E4M3, TENSOR, TENSOR_ROTATED));
    spread_add(&m->qk_block_gain, ratio(e, QK_E4M3, BLOCK, BLOCK_ROTATED));
    spread_add(&m->all_gain, ratio(e, ALL_E4M3, TENSOR, TENSOR_ROTATED));
    spread_add(&m->slide_gain, ratio(e, ALL_E4M3, TENSOR, BLOCK_ROTATED));
    spread_add(&m->int8_gain, ratio(e, QK_INT8, TENSOR, TENSOR_ROTATED));
    spread_add(&m->block_over_tensor, ratio(e, ALL_E4M3, BLOCK_ROTATED, TENSOR_ROTATED));
}

static bool measure_kernel(const Context *context, Measured *m, const Fp8Case *c)
{
    for (int row = 0; row < ROWS; row++) {
        double error;
        if (!fp8_kernel_error(c, context->hw, row_scales[row], is_rotated(row) ? ROTATE_QK : ROTATE_NONE, &error, context->status)) return false;
        spread_add(&m->kernel[row], error);
    }
    return true;
}

/* The first seed also shows what happens to Q itself and to scores. */
static bool measure_first(const Context *context, Measured *m, Fp8Case *c)
{
    for (int format = 0; format < 2; format++)
        for (int rotated = 0; rotated < 2; rotated++)
            m->operand[format][rotated] = fp8_operand_error(
                c, (Fp8Recipe){.qk = format == 0 ? OPERAND_E4M3 : OPERAND_INT8, .scales = SCALE_TENSOR, .rotate_qk = rotated == 1});
    return fp8_rotation_error(c, &m->rotation, context->status);
}

static bool measure_seed(const Context *context, Measured *m, uint64_t seed, bool first)
{
    Fp8Case c;
    bool ok = fp8_case_init(&c, seed, N_LECTURE, QUERIES, D_LECTURE, context->alloc, context->status);
    if (ok) {
        Fp8Recipe recipes[ROWS * WAYS];
        double e[ROWS * WAYS], part[PARTS];
        for (int i = 0; i < ROWS * WAYS; i++) recipes[i] = recipe_of(i / WAYS, i % WAYS);
        fp8_errors(&c, recipes, ROWS * WAYS, e);
        fp8_errors(&c, parts, PARTS, part);
        for (int i = 0; i < ROWS * WAYS; i++) spread_add(&m->error[i / WAYS][i % WAYS], e[i]);
        for (int i = 0; i < PARTS; i++) spread_add(&m->part[i], part[i]);
        measure_factors(m, e);
        spread_add(&m->share, 100.0 * (double)c.outliers / (3.0 * N_LECTURE * D_LECTURE));
        for (int rotated = 0; rotated < 2; rotated++) spread_add(&m->spread[rotated], fp8_max_over_rms(&c, rotated == 1));
        ok = measure_kernel(context, m, &c) && (!first || measure_first(context, m, &c));
    }
    fp8_case_free(&c);
    return ok;
}

static bool measure(const Context *context, Measured *m)
{
    const uint32_t seeds = context->options->study ? STUDY_SEEDS : QUICK_SEEDS;
    *m = (Measured){0};
    for (uint32_t i = 0; i < seeds; i++)
        if (!measure_seed(context, m, context->options->seed + i, i == 0)) return false;
    return true;
}

/* ---- the error table ---- */

static const Column error_columns[] = {
    {"one scale per", "", "tensor (a head's Q, K or V), or block of 128 rows"},
    {"Q, K rotated", "", "by a random-sign Hadamard matrix"},
    {"QK E4M3", "", "RMS error of O with only Q and K in E4M3: mean over the seeds"},
    {"sd QK", "", "its standard deviation from seed to seed"},
    {"all E4M3", "", "the same with Q, K, V and P"},
    {"sd all", "", "its standard deviation"},
    {"kernel", "", "all E4M3 in FlashAttention-3's kernel: online softmax, P times 2^8"},
    {"QK INT8", "", "only Q and K, in INT8"},
};
static const TableSpec error_table = {"errors", "Error of O by quantisation and rotation, N = 1024, d = 128", error_columns,
                                      sizeof error_columns / sizeof error_columns[0]};

static void add_errors(Report *report, const Measured *m)
{
    Table *table = report_table(report, &error_table);
    for (int row = 0; row < ROWS; row++) {
        table_row(table);
        cell_text(table, row_names[row]);
        cell_text(table, is_rotated(row) ? "yes" : "no");
        for (int way = QK_E4M3; way <= ALL_E4M3; way++) {
            cell_significant(table, spread_mean(&m->error[row][way]), 3);
            cell_significant(table, spread_deviation(&m->error[row][way]), 2);
        }
        cell_significant(table, spread_mean(&m->kernel[row]), 3);
        cell_significant(table, spread_mean(&m->error[row][QK_INT8]), 3);
    }
    table_note(table, "%" PRIu64 " seeds. BF16 control: %.2e, standard deviation %.1e.", m->share.count,
               spread_mean(&m->part[BF16]), spread_deviation(&m->part[BF16]));
    table_note(table, "After rotation one scale per block gains nothing: block / tensor %.3f, standard deviation %.3f, %.3f to %.3f.",
               spread_mean(&m->block_over_tensor), spread_deviation(&m->block_over_tensor), m->block_over_tensor.least, m->block_over_tensor.most);
}

/* ---- what rotation gains ---- */

static const Column gain_columns[] = {
    {"error of O", "", "without rotation over with rotation, seed by seed"},
    {"gain", "", "mean"},
    {"sd", "", "standard deviation from seed to seed"},
    {"least", "", "of all seeds"},
    {"most", "", "of all seeds"},
    {"lecture", "", "as it states it"},
};
static const TableSpec gain_table = {"gains", "What rotation gains", gain_columns, sizeof gain_columns / sizeof gain_columns[0]};

static void gain_row(Table *table, const char *what, const Spread *s, const char *lecture)
{
    table_row(table);
    cell_text(table, what);
    cell_decimals(table, spread_mean(s), 2);
    cell_decimals(table, spread_deviation(s), 2);
    cell_decimals(table, s->least, 2);
    cell_decimals(table, s->most, 2);
    cell_text(table, lecture);
}

static void add_gains(Report *report, const Measured *m)
{
    Table *table = report_table(report, &gain_table);
    gain_row(table, "only Q, K in E4M3, per tensor", &m->qk_gain, "2.1");
    gain_row(table, "only Q, K in E4M3, per block", &m->qk_block_gain, "-");
    gain_row(table, "all in E4M3, per tensor", &m->all_gain, "1.6");
    gain_row(table, "all: per tensor / rotated per block", &m->slide_gain, "2.6 (slide)");
    gain_row(table, "only Q, K in INT8, per tensor", &m->int8_gain, "-");
}

/* ---- where the error comes from ---- */

static const Column part_columns[] = {
    {"in E4M3, per tensor", "", "the other operands are exact"},
    {"error of O", "", "mean over the seeds"},
    {"sd", "", "standard deviation"},
    {"part", "%", "of the squared error with all in E4M3, not rotated"},
    {"remark", "", ""},
};
static const TableSpec part_table = {"parts", "Which operand the error comes from", part_columns, sizeof part_columns / sizeof part_columns[0]};

static void part_row(Table *table, const char *what, const Spread *s, double all, const char *remark)
{
    table_row(table);
    cell_text(table, what);
    cell_significant(table, spread_mean(s), 3);
    cell_significant(table, spread_deviation(s), 2);
    cell_decimals(table, 100.0 * spread_mean(s) * spread_mean(s) / (all * all), 1);
    cell_text(table, remark);
}

static void add_parts(Report *report, const Measured *m)
{
    Table *table = report_table(report, &part_table);
    const double all = spread_mean(&m->error[TENSOR][ALL_E4M3]);
    part_row(table, "Q and K", &m->error[TENSOR][QK_E4M3], all, "");
    part_row(table, "Q and K, rotated", &m->error[TENSOR_ROTATED][QK_E4M3], all, "still the largest part");
    part_row(table, "V", &m->part[ONLY_V], all, "");
    part_row(table, "V, rotated (O rotated back)", &m->part[ONLY_V_ROTATED], all, "exercise 8: gains nothing here");
    part_row(table, "P", &m->part[ONLY_P], all, "P in [0, 1]");
    part_row(table, "P, stored as 2^8 P", &m->part[P_256], all, "what the kernel does: fewer subnormals");
    part_row(table, "V and P", &m->part[V_AND_P], all, "");
    part_row(table, "V and P; Q, K rotated, exact", &m->part[V_AND_P_ROTATED], all, "rotation does not reach V and P");
    part_row(table, "all", &m->error[TENSOR][ALL_E4M3], all, "");
    part_row(table, "all; Q, K rotated", &m->error[TENSOR_ROTATED][ALL_E4M3], all, "");
    part_row(table, "all in BF16", &m->part[BF16], all, "control");
}

/* ---- the operand itself ---- */

static const Column operand_columns[] = {
    {"format", "", "of Q and K, one scale per tensor"},
    {"rotated", "", ""},
    {"max / RMS", "", "of Q"},
    {"levels", "", "different magnitudes among the codes of Q, of at most 127 or 128"},
    {"RMS error of Q", "", "what rounding does to Q"},
    {"of S", "", "to the scores"},
    {"of O", "", "to the result (V and P exact)"},
};
static const TableSpec operand_table = {"operands", "What rounding does to Q, S (first seed) and O (all seeds)", operand_columns,
                                        sizeof operand_columns / sizeof operand_columns[0]};

static void add_operands(Report *report, const Measured *m)
{
    static const int way[2] = {QK_E4M3, QK_INT8}, row[2] = {TENSOR, TENSOR_ROTATED};
    Table *table = report_table(report, &operand_table);
    for (int format = 0; format < 2; format++)
        for (int rotated = 0; rotated < 2; rotated++) {
            const Fp8OperandError *e = &m->operand[format][rotated];
            table_row(table);
            cell_text(table, format == 0 ? "E4M3" : "INT8");
            cell_text(table, rotated ? "yes" : "no");
            cell_decimals(table, e->max_over_rms, 1);
            cell_count(table, e->levels);
            cell_significant(table, e->rms_error, 3);
            cell_significant(table, e->rms_score_error, 3);
            cell_significant(table, spread_mean(&m->error[row[rotated]][way[format]]), 3);
        }
    table_note(table, "max / RMS of all seeds: %.1f, standard deviation %.1f; rotated %.2f, %.2f.", spread_mean(&m->spread[0]),
               spread_deviation(&m->spread[0]), spread_mean(&m->spread[1]), spread_deviation(&m->spread[1]));
    table_note(table, "E4M3 is a floating-point format: its relative precision is the same for a large and a small value, so the error of Q and");
    table_note(table, "of S is the same before and after. Rotation takes it from the scores with the largest weights: O gains. INT8 gains at once.");
}

/* ---- the error against N ---- */

static const Column length_columns[] = {
    {"N", "", "keys; the first 1024 queries"},
    {"seeds", "", ""},
    {"tensor", "", "RMS error of O, all in E4M3, root of the mean square over the seeds"},
    {"block", "", ""},
    {"tensor, rotated", "", ""},
    {"block, rotated", "", ""},
    {"gain", "", "tensor / block rotated, mean of the seeds"},
    {"sd", "", "from seed to seed"},
};
static const TableSpec length_table = {"lengths", "The error against N: where the slide's 2.6 is", length_columns,
                                       sizeof length_columns / sizeof length_columns[0]};

typedef struct {
    Spread error[ROWS], gain;
} Length;

/* Longer sequences cost more and get fewer seeds, unless this is the study; the longest only the two rows that make the gain. */
static uint32_t seeds_of(const Options *o, uint64_t N) { return o->study ? STUDY_LENGTH_SEEDS : N <= N_LECTURE ? QUICK_SEEDS : 1; }
static bool is_measured(const Options *o, uint64_t N, int row) { return o->study || N < N_PAPER || row == TENSOR || row == BLOCK_ROTATED; }

static bool measure_length_seed(const Context *context, uint64_t N, uint64_t seed, Length *length)
{
    Fp8Case c;
    Fp8Recipe recipes[ROWS];
    int row_of[ROWS];
    double e[ROWS], by_row[ROWS] = {0};
    size_t count = 0;
    for (int row = 0; row < ROWS; row++) {
        if (!is_measured(context->options, N, row)) continue;
        row_of[count] = row;
        recipes[count++] = recipe_of(row, ALL_E4M3);
    }
    const bool ok = fp8_case_init(&c, seed, (uint32_t)N, (uint32_t)(N < QUERIES ? N : QUERIES), D_LECTURE, context->alloc, context->status);
    if (ok) fp8_errors(&c, recipes, count, e);
    fp8_case_free(&c);
    for (size_t i = 0; ok && i < count; i++) {
        by_row[row_of[i]] = e[i];
        spread_add(&length->error[row_of[i]], e[i]);
    }
    if (ok) spread_add(&length->gain, by_row[TENSOR] / by_row[BLOCK_ROTATED]);
    return ok;
}

/* The lecture's N has been measured already. */
static bool measure_length(const Context *context, const Measured *m, uint64_t N, Length *length)
{
    *length = (Length){0};
    if (N == N_LECTURE) {
        for (int row = 0; row < ROWS; row++) length->error[row] = m->error[row][ALL_E4M3];
        length->gain = m->slide_gain;
        return true;
    }
    if (N == 0 || N > LONGEST)
        return status_fail(context->status, STATUS_INFEASIBLE, "--seqlen: %" PRIu64 " keys are not allowed here; expected 1 to %d", N, LONGEST);
    for (uint32_t i = 0; i < seeds_of(context->options, N); i++)
        if (!measure_length_seed(context, N, context->options->seed + i, length)) return false;
    return true;
}

/* FlashAttention-3 paper, Table 3: FP8 per tensor, then without block quantisation, without rotation, with both. */
static void paper_row_of_lengths(Table *table)
{
    table_row(table);
    cell_text(table, "paper, Table 3");
    cell_text(table, "-");
    static const char *const printed[ROWS] = {"2.4e-2", "2.4e-2", "9.3e-3", "9.1e-3"};
    for (int row = 0; row < ROWS; row++) cell_text(table, printed[row]);
    cell_text(table, "2.6");
    cell_text(table, "-");
}

/* longest: N = 8192, which the claims are about; measured even if the table leaves it out. */
static bool add_lengths(const Context *context, const Measured *m, Report *report, Length *longest)
{
    bool found = false;
    Table *table = report_table(report, &length_table);
    for (size_t i = 0; i < options_point_count(context->options); i++) {
        const uint64_t N = options_point(context->options, i).seqlen;
        Length length;
        if (!measure_length(context, m, N, &length)) return false;
        if (N == N_PAPER) *longest = length;
        found = found || N == N_PAPER;
        table_row(table);
        cell_count(table, N);
        cell_count(table, length.gain.count);
        for (int row = 0; row < ROWS; row++) {
            if (length.error[row].count > 0) cell_significant(table, spread_rms(&length.error[row]), 3);
            else cell_text(table, "-");
        }
        cell_decimals(table, spread_mean(&length.gain), 2);
        if (length.gain.count > 1) cell_decimals(table, spread_deviation(&length.gain), 2);
        else cell_text(table, "-");
    }
    paper_row_of_lengths(table);
    table_note(table, "A query's error grows where its outlier meets an outlier column of K; the more keys, the more often. One seed scatters by the sd of");
    table_note(table, "--study (README: 20 seeds, 512 to 8192).");
    return found || measure_length(context, m, N_PAPER, longest);
}

/* ---- P with a reference that lags ---- */

static const Column lagging_columns[] = {
    {"x", "log2", "growth of the maximum after the first key; the reference is kept"},
    {"P is stored as", "", ""},
    {"largest P", "", "2^(x + offset); E4M3 ends at 448"},
    {"saturates", "", ""},
    {"O exact", "", "two keys, V = 0 and 1"},
    {"O", "", "with P in E4M3, l not rounded"},
};
static const TableSpec lagging_table = {"lagging", "FP8 P under conditional rescaling (5.3)", lagging_columns, sizeof lagging_columns / sizeof lagging_columns[0]};

static void add_lagging(Report *report)
{
    static const struct {
        double x;
        uint32_t offset;
    } rows[] = {{8, 0}, {4, 4}, {0.75, 8}, {0.807, 8}, {1, 8}, {4, 8}, {8, 8}};
    Table *table = report_table(report, &lagging_table);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const LaggingP p = fp8_lagging_p(rows[i].x, rows[i].x, rows[i].offset);
        table_row(table);
        cell_significant(table, rows[i].x, 3);
        cell_textf(table, "2^%u P", rows[i].offset);
        cell_decimals(table, p.largest_p, 1);
        cell_text(table, p.saturates ? "yes" : "no");
        cell_decimals(table, p.exact, 6);
        cell_decimals(table, p.output, 6);
    }
    table_note(table, "Stored as it is, P reaches 256 and nothing saturates. Stored as 2^8 P (FlashAttention-3), the threshold must stay");
    table_note(table, "below log2(448 / 256) = 0.807, or every tile be rescaled.");
}

/* ---- exactness and cost ---- */

static const Column exact_columns[] = {
    {"d", "", "head dimension"},
    {"block", "", "of the Hadamard matrix: the largest power of two that divides d"},
    {"additions", "", "for one row, by butterfly: d log2(block)"},
    {"dense", "", "multiply-adds of the product with a dense d x d matrix"},
    {"|J Jt - I|", "", "largest element, float64"},
    {"|(QJ)(KJ)t - QKt|", "", "largest element"},
    {"|P(VJ)Jt - PV|", "", "largest element"},
};
static const TableSpec exact_table = {"rotation", "Rotation: exact, and cheap", exact_columns, sizeof exact_columns / sizeof exact_columns[0]};

static bool add_rotation(const Context *context, const Measured *m, Report *report)
{
    static const uint32_t dims[] = {64, 80, 96, 128, 256};
    Table *table = report_table(report, &exact_table);
    for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++) {
        RotationError error = m->rotation;
        if (dims[i] != D_LECTURE) {
            Fp8Case c;
            const bool ok = fp8_case_init(&c, context->options->seed, 256, 64, dims[i], context->alloc, context->status) &&
                            fp8_rotation_error(&c, &error, context->status);
            fp8_case_free(&c);
            if (!ok) return false;
        }
        table_row(table);
        cell_count(table, dims[i]);
        cell_count(table, hadamard_block(dims[i]));
        cell_count(table, hadamard_additions(dims[i]));
        cell_count(table, (uint64_t)dims[i] * dims[i]);
        cell_significant(table, error.identity, 2);
        cell_significant(table, error.scores, 2);
        cell_significant(table, error.output, 2);
    }
    return true;
}

static const Column cost_columns[] = {
    {"Q, K, V become FP8", "", "N = 8192, d = 128, one head"},
    {"scale per", "", ""},
    {"rotated", "", ""},
    {"HBM", "bytes", "read and written, all launches, ideal L2"},
    {"L2 to SMs", "bytes", "what the SMs asked for"},
    {"V transposed", "bytes", "shared memory read and written by threads"},
    {"operations", "", "outside the products"},
    {"launches", "", ""},
    {"check", "", "against the closed forms"},
};
static const TableSpec cost_table = {"costs", "What FP8 moves and computes besides", cost_columns, sizeof cost_columns / sizeof cost_columns[0]};

typedef struct {
    const char *name;
    ElementType dtype;
    ScaleGranularity scales;
    Rotation rotation;
    bool prepass;
} CostCase;

static const CostCase costs[] = {
    {"not at all: BF16", ELEMENT_BF16, SCALE_NONE, ROTATE_NONE, false},
    {"fused into what wrote them", ELEMENT_E4M3, SCALE_BLOCK, ROTATE_QK, false},
    {"by a kernel each", ELEMENT_E4M3, SCALE_BLOCK, ROTATE_NONE, true},
    {"by a kernel each", ELEMENT_E4M3, SCALE_BLOCK, ROTATE_QK, true},
    {"by a kernel each", ELEMENT_E4M3, SCALE_BLOCK, ROTATE_QKV, true},
    {"by three kernels each", ELEMENT_E4M3, SCALE_TENSOR, ROTATE_QK, true},
    {"by a kernel each", ELEMENT_E4M3, SCALE_ROW, ROTATE_QK, true},
};

/* Every total against its formula: how many differ, each also recorded. */
static size_t check_totals(Report *report, const AttentionRun *run)
{
    CountPair pairs[COUNT_PAIRS];
    size_t wrong = 0;
    count_pairs(&run->totals, &run->closed_form, pairs);
    for (size_t i = 0; i < COUNT_PAIRS; i++) wrong += !report_check(report, pairs[i].counted, pairs[i].formula, pairs[i].name);
    return wrong;
}

static bool cost_row(const Context *context, Report *report, Table *table, const CostCase *cost, uint64_t *transposed)
{
    static const char *const rotations[] = {"-", "Q, K", "Q, K, V"};
    AttentionShape shape = attention_shape(8192, D_LECTURE);
    AttentionRun run;
    shape.dtype = cost->dtype;
    shape.fp8.scales = cost->scales;
    shape.fp8.rotation = cost->rotation;
    shape.fp8.prepass = cost->prepass;
    const bool ok = attention_count(&run, &algorithm_fa3, &shape, (TileSize){0, 0}, L2_IDEAL, context->hw, context->alloc, context->status);
    if (ok) {
        *transposed = run.totals.smem_thread_bytes;
        table_row(table);
        cell_text(table, cost->name);
        cell_text(table, cost->scales == SCALE_NONE ? "-" : granularity_name(cost->scales));
        cell_text(table, rotations[cost->rotation]);
        cell_count(table, run.totals.hbm_read_bytes + run.totals.hbm_write_bytes);
        cell_count(table, run.totals.l2_to_sm_bytes);
        cell_count(table, run.totals.smem_thread_bytes);
        cell_count(table, run.totals.nonmatmul_ops);
        cell_count(table, run.machine.launch_count);
        cell_text(table, check_totals(report, &run) == 0 ? "ok" : "differs");
    }
    attention_run_free(&run);
    return ok;
}

static bool add_costs(const Context *context, Report *report, uint64_t *transposed)
{
    Table *table = report_table(report, &cost_table);
    for (size_t i = 0; i < sizeof costs / sizeof costs[0]; i++) {
        uint64_t bytes = 0;
        if (!cost_row(context, report, table, &costs[i], &bytes)) return false;
        if (costs[i].scales == SCALE_BLOCK) *transposed = bytes;
    }
    table_note(table, "V is transposed by every query block, because products in FP8 read their operands only with the inner dimension contiguous: each of");
    table_note(table, "the 64 blocks reads and writes the whole V once in shared memory. Fused, the pass costs no traffic: a projection's epilogue or RoPE has");
    table_note(table, "the block in registers; with a scale per tensor it cannot be, unless the scale comes from an earlier step.");
    table_note(table, "A scale per row costs two multiplications per score: K's lies along the other axis of S.");
    return true;
}

/* ---- the declarations ---- */

static const TableSpec *const tables[] = {&error_table, &gain_table, &part_table, &operand_table, &length_table, &exact_table, &cost_table, &lagging_table};

/* The lecture shows one draw, we the mean of n: allowed are 2 standard deviations of the difference, 2 sqrt(1 + 1/n) of one draw's. */
#define SEEDED "mean of the seeds against one draw, 2 standard deviations of the difference; of one draw (--study): "

static const ClaimSpec claims[] = {
    {"S4.4-01", "4.4", "FP8 product rate over FP16 on the H100", "2", VERDICT_EQUAL, "the two rates of the profile, FLOP per cycle and SM", NULL},
    {"S4.4-02", "4.4", "share of large values in the data", "0.1%", VERDICT_CLOSE, "Bernoulli(0.001), counted; spread: binomial, 393,216 values a seed", NULL},
    {"S4.4-03", "4.4", "rotation leaves the scores as they are", "(QJ)(KJ)t = QKt", VERDICT_EQUAL, "largest difference in float64 below 1e-11", NULL},
    {"S4.4-04", "4.4", "cost of a Hadamard transform of a row", "O(d log d)", VERDICT_EQUAL, "d log2 d additions by butterfly, counted: 896 at d = 128", NULL},
    {"S4.4-05", "4.4", "error reduction by incoherent processing on the slides", "2.6", VERDICT_CITED, "FlashAttention-3 paper, Table 3: 2.4e-2 / 9.1e-3", NULL},
    {"S4.4-06", "4.4", "the 2.6 is not reproduced", "1.6 at N = 1024", VERDICT_DIFFERS,
     "tensor / block rotated at N = 8192; 1.82, which N = 1024 reaches (1.68, one standard deviation 0.14), or less would confirm it",
     "it is the length: the gain grows with N, to 2.45 (one seed: +- 0.46) at 8192, with the paper's absolute values"},
    {"S4.4-07", "4.4", "shape of the script's data", "N = 1024, d = 128", VERDICT_EQUAL, "input", NULL},
    {"S4.4-08", "4.4", "BF16 control", "7.30e-04", VERDICT_CLOSE, SEEDED "1.6e-4", NULL},
    {"S4.4-09", "4.4", "max|Q| / RMS before rotation", "26.9", VERDICT_CLOSE, SEEDED "3.1", NULL},
    {"S4.4-10", "4.4", "max|Q| / RMS after rotation", "5.0", VERDICT_CLOSE, SEEDED "0.42", NULL},
    {"S4.4-11", "4.4", "error with Q, K in FP8 falls by", "2.1", VERDICT_CLOSE, "error of O; " SEEDED "0.26", NULL},
    {"S4.4-12", "4.4", "error with all in FP8 falls by", "1.6", VERDICT_CLOSE, SEEDED "0.18", NULL},
    {"S4.4-13", "4.4", "per tensor: error with Q, K in FP8", "table lost; its recipe gives 1.33e-2", VERDICT_CLOSE, SEEDED "2.4e-3", NULL},
    {"S4.4-13-all", "4.4", "per tensor: error with all in FP8", "table lost; its recipe gives 1.40e-2", VERDICT_CLOSE, SEEDED "2.4e-3", NULL},
    {"S4.4-14", "4.4", "per block: error with Q, K in FP8", "table lost; its recipe gives 1.17e-2", VERDICT_CLOSE, SEEDED "2.2e-3", NULL},
    {"S4.4-14-all", "4.4", "per block: error with all in FP8", "table lost; its recipe gives 1.27e-2", VERDICT_CLOSE, SEEDED "2.2e-3", NULL},
    {"S4.4-15", "4.4", "rotated, per tensor: error with Q, K in FP8", "table lost; its recipe gives 7.0e-3", VERDICT_CLOSE, SEEDED "1.4e-3", NULL},
    {"S4.4-15-all", "4.4", "rotated, per tensor: error with all in FP8", "table lost; its recipe gives 8.5e-3", VERDICT_CLOSE, SEEDED "1.5e-3", NULL},
    {"S4.4-16", "4.4", "rotated, per block: error with Q, K in FP8", "table lost; its recipe gives 6.8e-3", VERDICT_CLOSE, SEEDED "1.4e-3", NULL},
    {"S4.4-16-all", "4.4", "rotated, per block: error with all in FP8", "table lost; its recipe gives 8.3e-3", VERDICT_CLOSE, SEEDED "1.4e-3", NULL},
    {"S4.4-17", "4.4", "rotation does not change the error of V and P", "unchanged", VERDICT_EQUAL, "V and P in E4M3, Q and K exact, with and without J: within 0.1%", NULL},
    {"S4.4-18", "4.4", "after rotation per block is slightly worse", "worse", VERDICT_CLOSE,
     "block / tensor, all in FP8: 1 within noise, 0.07 from seed to seed, 2 of them: worse and better by chance", NULL},
    {"S4.4-19", "4.4", "V is transposed inside the kernel", "no number", VERDICT_CITED, "slide 18; bytes of shared memory from the walk", NULL},
    {"R-C4.4", "4.4", "a large value squeezes the others into few levels of E4M3", "few levels", VERDICT_DIFFERS, "different magnitudes among the codes of Q, one scale",
     "true of INT8; E4M3 is a floating-point format and uses nearly all of its 127 magnitudes, with and without outliers"},
    {"R-A17", "4.4", "FP8 P with threshold 8 stays in range", "P <= 256 < 448", VERDICT_EQUAL, "it does if P is stored as it is; 2^(8 + offset) must not pass 448", NULL},
};

/* ---- the claims ---- */

static void judge_seeded(Report *report, const char *id, double lecture, double spread, const Spread *ours)
{
    const double allowed = 2 * spread * sqrt(1 + 1.0 / (double)ours->count);
    claim_close(report, id, lecture - allowed, lecture + allowed, spread_mean(ours), 3, "");
}

static void judge_errors(Report *report, const Measured *m)
{
    static const struct {
        const char *id;
        int row, way;
        double recipe, spread;
    } rows[] = {{"S4.4-13", TENSOR, QK_E4M3, 1.33e-2, 2.4e-3},         {"S4.4-13-all", TENSOR, ALL_E4M3, 1.40e-2, 2.4e-3},
                {"S4.4-14", BLOCK, QK_E4M3, 1.17e-2, 2.2e-3},          {"S4.4-14-all", BLOCK, ALL_E4M3, 1.27e-2, 2.2e-3},
                {"S4.4-15", TENSOR_ROTATED, QK_E4M3, 7.0e-3, 1.4e-3},  {"S4.4-15-all", TENSOR_ROTATED, ALL_E4M3, 8.5e-3, 1.5e-3},
                {"S4.4-16", BLOCK_ROTATED, QK_E4M3, 6.8e-3, 1.4e-3},   {"S4.4-16-all", BLOCK_ROTATED, ALL_E4M3, 8.3e-3, 1.4e-3}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        judge_seeded(report, rows[i].id, rows[i].recipe, rows[i].spread, &m->error[rows[i].row][rows[i].way]);
    judge_seeded(report, "S4.4-08", 7.30e-4, 1.6e-4, &m->part[BF16]);
    judge_seeded(report, "S4.4-09", 26.9, 3.1, &m->spread[0]);
    judge_seeded(report, "S4.4-10", 5.0, 0.42, &m->spread[1]);
    judge_seeded(report, "S4.4-11", 2.1, 0.26, &m->qk_gain);
    judge_seeded(report, "S4.4-12", 1.6, 0.18, &m->all_gain);
    judge_seeded(report, "S4.4-18", 1.0, 0.05, &m->block_over_tensor);
}

static void judge_claims(const Context *context, Report *report, const Measured *m, const Length *longest, uint64_t transposed)
{
    const Profile *hw = context->hw;
    const uint64_t fp16 = tensor_rate(hw, TENSOR_WGMMA, ELEMENT_FP16);
    claim_count(report, "S4.4-01", 2, fp16 > 0 ? tensor_rate(hw, TENSOR_WGMMA, ELEMENT_E4M3) / fp16 : 0, "");
    claim_close(report, "S4.4-02", 0.09, 0.11, spread_mean(&m->share), 3, "%");
    claim_holds(report, "S4.4-03", m->rotation.scores < 1e-11, "largest difference %.1e", m->rotation.scores);
    claim_holds(report, "S4.4-04", hadamard_additions(D_LECTURE) == 896, "%" PRIu64 " additions, dense %d", hadamard_additions(D_LECTURE),
                D_LECTURE * D_LECTURE);
    claim_cited(report, "S4.4-05", "%.2f at N = 8192", spread_mean(&longest->gain));
    claim_holds(report, "S4.4-06", spread_mean(&longest->gain) < 1.82, "%.2f at N = 8192 (%.2e / %.2e), %.2f at 1024", spread_mean(&longest->gain),
                spread_rms(&longest->error[TENSOR]), spread_rms(&longest->error[BLOCK_ROTATED]), spread_mean(&m->slide_gain));
    claim_holds(report, "S4.4-07", true, "N = %d, d = %d", N_LECTURE, D_LECTURE);
    judge_errors(report, m);
    const double v_p = spread_mean(&m->part[V_AND_P]), rotated = spread_mean(&m->part[V_AND_P_ROTATED]);
    claim_holds(report, "S4.4-17", fabs(rotated / v_p - 1) < 1e-3, "%.3e and %.3e", v_p, rotated);
    claim_cited(report, "S4.4-19", "%" PRIu64 " bytes at N = 8192", transposed);
    claim_holds(report, "R-C4.4", m->operand[0][0].levels < 64, "%u levels before, %u after (INT8: %u, %u)", m->operand[0][0].levels,
                m->operand[0][1].levels, m->operand[1][0].levels, m->operand[1][1].levels);
    const LaggingP plain = fp8_lagging_p(8, 8, 0), scaled = fp8_lagging_p(8, 8, 8);
    claim_holds(report, "R-A17", !plain.saturates && scaled.saturates, "P <= %.0f; as 2^8 P %.0f, saturated", plain.largest_p, scaled.largest_p);
}

static bool run(Context *context, Report *report)
{
    Measured measured;
    Length longest;
    uint64_t transposed = 0;
    if (!measure(context, &measured)) return false;
    add_errors(report, &measured);
    add_gains(report, &measured);
    add_parts(report, &measured);
    add_operands(report, &measured);
    if (!add_lengths(context, &measured, report, &longest) || !add_rotation(context, &measured, report) || !add_costs(context, report, &transposed)) return false;
    add_lagging(report);
    judge_claims(context, report, &measured, &longest, transposed);
    return status_ok(context->status);
}

static const ProgramOption options[] = {{OPTION_SEQLEN, "512,1k,2k,8k"}, {OPTION_STUDY, NULL}};

const Experiment experiment_s4_4_fp8 = {
    .program =
        {
            .name = "s4_4_fp8",
            .purpose = "the error of FP8 attention with outliers, by scales and rotation; what both cost (lecture 4.4)",
            .examples = {"", "--study --seqlen 512,1k,2k,4k,8k"},
            .options = options,
            .option_count = sizeof options / sizeof options[0],
        },
    .report =
        {
            .section = "4.4",
            .title_en = "FP8 and incoherent processing",
            .title_zh = "FP8 与不相干处理",
            .tables = tables,
            .table_count = sizeof tables / sizeof tables[0],
            .claims = claims,
            .claim_count = sizeof claims / sizeof claims[0],
        },
    .run = run,
};
