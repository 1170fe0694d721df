/* test_fp8.c - FlashAttention-3 in FP8, its numbers. Against a second, float64 implementation that shares nothing with the
 * kernel: dense rotation from the definition, the nearest E4M3 code by bisection, attention row by row, P rounded against the
 * running maximum of each key block. What float32 and float64 make different is that now and then a value next to the middle of
 * two codes is rounded to the other one; so the root of the mean squared difference is bounded, and the largest one loosely.
 *
 * Then: fused and with a pass of its own give the same bits; a mask, ragged tails, grouped heads; rows without keys; NaN behind
 * a mask; field cases 34 (all zero), 38 (a reference that lags) and 39 (a scale per tensor lets the future into the past);
 * rotated V (exercise 8); the scores under rotation; the kernel's error beside that of the whole-row definition
 * (support/fp8_error.h).
 */
/* label: unit, golden, property */
#include "test.h"

#include "support/count_case.h"
#include "support/golden_case.h"

#include "experiments/support/fp8_error.h"
#include "sim/normal.h"
#include "sim/philox.h"

#include <float.h>
#include <math.h>

typedef struct {
    Test test;
    Profile unbounded;
    Alloc alloc;
} Context;

/* -------------------------------------------------------------------------------------------------- the second implementation */

enum { MOST_ROWS = 300, MOST_D = 96, SIGN_SEED = 11 };

static uint32_t power_in(uint32_t d)
{
    uint32_t b = 1;
    while (d % (2 * b) == 0) b *= 2;
    return b;
}

static double dense(uint32_t d, uint64_t head, uint32_t i, uint32_t j)
{
    const uint32_t b = power_in(d);
    if (i / b != j / b) return 0.0;
    uint32_t common = i % b & j % b, ones = 0;
    for (; common > 0; common &= common - 1) ones++;
    const double sign = philox_element(SIGN_SEED, head, i) >> 31 ? -1.0 : 1.0;
    return (ones % 2 ? -sign : sign) / sqrt((double)b);
}

/* rows x d; y = x J, or x Jᵀ. */
static void rotate_dense(double *x, uint32_t rows, uint32_t d, uint64_t head, bool back)
{
    static double matrix[MOST_D][MOST_D];
    double row[MOST_D];
    for (uint32_t i = 0; i < d; i++)
        for (uint32_t j = 0; j < d; j++) matrix[i][j] = back ? dense(d, head, j, i) : dense(d, head, i, j);
    for (uint32_t r = 0; r < rows; r++) {
        for (uint32_t j = 0; j < d; j++) {
            row[j] = 0;
            for (uint32_t i = 0; i < d; i++) row[j] += x[r * d + i] * matrix[i][j];
        }
        for (uint32_t j = 0; j < d; j++) x[r * d + j] = row[j];
    }
}

/* The nearest E4M3 value, by bisection over the codes; of two the one with the even code; 448 at most. */
static double nearest(double x)
{
    const double magnitude = fabs(x);
    uint32_t low = 0, high = 0x7f;
    while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;
        if ((double)f32_from_e4m3((uint8_t)middle) <= magnitude) low = middle;
        else high = middle;
    }
    const double below = (double)f32_from_e4m3((uint8_t)low), above = high < 0x7f ? (double)f32_from_e4m3((uint8_t)high) : INFINITY;
    const double value = magnitude - below < above - magnitude || (magnitude - below == above - magnitude && low % 2 == 0) ? below : above;
    return x < 0 ? -value : value;
}

/* x <- its values in E4M3, `group` rows to a scale (0: none). */
static void round_rows(double *x, uint32_t rows, uint32_t d, uint32_t group)
{
    for (uint32_t first = 0; first < rows; first += group ? group : rows) {
        const uint32_t end = group && first + group < rows ? first + group : rows;
        double largest = 0;
        for (uint32_t i = first * d; i < end * d; i++) largest = fmax(largest, fabs(x[i]));
        const double s = group == 0 || largest == 0 ? 1.0 : 448.0 / largest;
        for (uint32_t i = first * d; i < end * d; i++) x[i] = nearest(x[i] * s) / s;
    }
}

static uint32_t rows_of_scale(ScaleGranularity scales, uint32_t rows, uint32_t block, bool values)
{
    if (scales == SCALE_NONE) return 0;
    if (scales == SCALE_TENSOR) return rows > 0 ? rows : 1;
    return scales == SCALE_ROW && !values ? 1 : block;
}

/* One query. o: d, returns L. */
static double attend(const AttentionShape *s, uint32_t Bc, uint64_t i, const double *q, const double *k, const double *v, double *o)
{
    const uint32_t d = (uint32_t)s->head_dim;
    const double unit = ldexp(1.0, (int)s->fp8.p_log2_scale);
    double m = -INFINITY, l = 0;
    for (uint32_t c = 0; c < d; c++) o[c] = 0;
    for (uint64_t first = 0; first < s->seqlen_k; first += Bc) {
        const uint64_t end = min_u64(first + Bc, s->seqlen_k);
        double score[MOST_ROWS], largest = m;
        for (uint64_t j = first; j < end; j++) {
            double dot = 0;
            for (uint32_t c = 0; c < d; c++) dot += q[c] * k[j * d + c];
            score[j - first] = sees(s, i, j) ? dot * s->softmax_scale : -INFINITY;
            largest = fmax(largest, score[j - first]);
        }
        if (largest == -INFINITY) continue;
        const double alpha = exp(m - largest);
        l *= alpha;
        for (uint32_t c = 0; c < d; c++) o[c] *= alpha;
        for (uint64_t j = first; j < end; j++) {
            const double p = unit * exp(score[j - first] - largest), stored = nearest(p);
            l += p;
            for (uint32_t c = 0; c < d && stored != 0; c++) o[c] += stored * v[j * d + c];
        }
        m = largest;
    }
    for (uint32_t c = 0; c < d; c++) o[c] = l > 0 ? o[c] / l : 0;
    return l > 0 ? m + log(l / unit) : -INFINITY;
}

typedef struct {
    double squares, squares_of_reference, largest, largest_L;
    uint64_t count;
} Difference;

/* One query head of a finished run. Without scales O itself is in E4M3: rounding it is not a difference. */
static void compare_head(const AttentionRun *run, const double *q, const double *k, const double *v, uint64_t batch, uint64_t head, Difference *difference)
{
    const Attention *a = &run->attention;
    const AttentionShape *s = &a->shape;
    const uint32_t d = (uint32_t)s->head_dim, Nq = (uint32_t)s->seqlen_q, Nk = (uint32_t)s->seqlen_k;
    const uint64_t kv = head * s->kv_heads / s->heads;
    static double x[3][MOST_ROWS * MOST_D];
    for (uint32_t i = 0; i < Nq * d; i++) x[0][i] = q[(batch * s->heads + head) * Nq * d + i];
    for (uint32_t i = 0; i < Nk * d; i++) {
        x[1][i] = k[(batch * s->kv_heads + kv) * Nk * d + i];
        x[2][i] = v[(batch * s->kv_heads + kv) * Nk * d + i];
    }
    if (s->fp8.rotation != ROTATE_NONE) {
        rotate_dense(x[0], Nq, d, kv, false);
        rotate_dense(x[1], Nk, d, kv, false);
    }
    if (s->fp8.rotation == ROTATE_QKV) rotate_dense(x[2], Nk, d, kv, false);
    round_rows(x[0], Nq, d, rows_of_scale(s->fp8.scales, Nq, a->Br, false));
    round_rows(x[1], Nk, d, rows_of_scale(s->fp8.scales, Nk, a->Bc, false));
    round_rows(x[2], Nk, d, rows_of_scale(s->fp8.scales, Nk, a->Bc, true));
    for (uint64_t i = 0; i < Nq; i++) {
        double o[MOST_D];
        const uint64_t row = (batch * s->heads + head) * Nq + i;
        const double L = attend(s, a->Bc, i, x[0] + i * d, x[1], x[2], o), got = tensor_value(&run->machine, a->L, row);
        if (s->fp8.rotation == ROTATE_QKV) rotate_dense(o, 1, d, kv, true);
        if (!(L == got)) difference->largest_L = fmax(difference->largest_L, isfinite(got) ? fabs(L - got) : DBL_MAX);
        for (uint32_t c = 0; c < d; c++) {
            const double ours = tensor_value(&run->machine, a->O, row * d + c), slack = attention_quantises(s) ? 0 : fabs(o[c]) / 15 + 0x1p-10;
            const double off = isfinite(ours) ? fmax(fabs(ours - o[c]) - slack, 0) : DBL_MAX;
            difference->squares += off * off;
            difference->squares_of_reference += o[c] * o[c];
            difference->largest = fmax(difference->largest, off);
        }
    }
    difference->count += (uint64_t)Nq * d;
}

/* ------------------------------------------------------------------------------------------------------------------ the kernel */

static double q_data[4 * MOST_ROWS * MOST_D], k_data[4 * MOST_ROWS * MOST_D], v_data[4 * MOST_ROWS * MOST_D];

static bool run_fp8(Context *x, AttentionRun *run, const AttentionShape *shape, TileSize tiles, const double *q, const double *k, const double *v)
{
    Status status = {0};
    const NumericSetup setup = {.algorithm = &algorithm_fa3, .tiles = tiles, .precision = PRECISION_F32, .poison = true};
    const bool ok = numeric_forward(run, &setup, &x->unbounded, shape, q, k, v, &x->alloc, &status);
    check_text(&x->test, status.text, "", "the kernel runs");
    return ok;
}

static AttentionShape fp8_shape(uint64_t N, uint64_t d, ScaleGranularity scales, Rotation rotation)
{
    AttentionShape shape = attention_shape(N, d);
    shape.dtype = ELEMENT_E4M3;
    shape.fp8.scales = scales;
    shape.fp8.rotation = rotation;
    shape.fp8.seed = SIGN_SEED;
    shape.fp8.source = ELEMENT_F32;
    return shape;
}

/* Numbers as they stand in a source tensor; every 50th is ten times as large. */
static void random_data(const AttentionShape *s, uint64_t seed)
{
    double *const data[3] = {q_data, k_data, v_data};
    for (uint64_t t = 0; t < 3; t++) {
        const uint64_t count = s->batch * (t == 0 ? s->heads * s->seqlen_q : s->kv_heads * s->seqlen_k) * s->head_dim;
        for (uint64_t i = 0; i < count; i++) {
            const double value = normal_element(seed, t, i) * (philox_element(seed, 7 + t, i) % 50 == 0 ? 10.0 : 1.0);
            data[t][i] = attention_quantises(s) ? (double)(float)value : (double)round_e4m3((float)value, FP8_SATURATE);
        }
    }
}

static void check_case(Context *x, const AttentionShape *s, TileSize tiles, uint64_t seed)
{
    static const char *const rotations[] = {"none", "qk", "qkv"};
    char what[300], shape[200];
    AttentionRun run;
    Difference difference = {0};
    const CountCase named = {&algorithm_fa3, *s, tiles, L2_IDEAL};
    random_data(s, seed);
    if (run_fp8(x, &run, s, tiles, q_data, k_data, v_data))
        for (uint64_t b = 0; b < s->batch; b++)
            for (uint64_t h = 0; h < s->heads; h++) compare_head(&run, q_data, k_data, v_data, b, h, &difference);
    attention_run_free(&run);
    count_case_name(&named, shape, sizeof shape);
    const double rms = difference.count > 0 ? sqrt(difference.squares / (double)difference.count) : 0;
    const double reference = difference.count > 0 ? sqrt(difference.squares_of_reference / (double)difference.count) : 0;
    snprintf(what, sizeof what, "%s, scale per %s, rotate %s: RMS off %.2g of %.2g, largest %.2g, L %.2g", shape, granularity_name(s->fp8.scales),
             rotations[s->fp8.rotation], rms, reference, difference.largest, difference.largest_L);
    check_true(&x->test, rms <= 2e-3 * reference, what);
    check_true(&x->test, difference.largest <= 0.1 * reference, what);
    check_true(&x->test, difference.largest_L <= 2e-3, what);
}

static void check_against_reference(Context *x)
{
    static const struct {
        uint64_t batch, heads, kv_heads, Nq, Nk, d;
        TileSize tiles;
        MaskKind mask;
    } rows[] = {
        {1, 1, 1, 100, 100, 64, {64, 32}, MASK_NONE},     {1, 1, 1, 130, 70, 32, {128, 64}, MASK_CAUSAL}, {2, 4, 2, 33, 65, 16, {32, 16}, MASK_CAUSAL},
        {1, 2, 1, 70, 150, 80, {64, 48}, MASK_NONE},      {1, 1, 1, 200, 200, 96, {192, 128}, MASK_CAUSAL_TOP_LEFT}, {1, 3, 1, 5, 5, 5, {4, 2}, MASK_CAUSAL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int scales = SCALE_NONE; scales <= SCALE_ROW; scales++)
            for (int rotation = ROTATE_NONE; rotation <= ROTATE_QKV; rotation++) {
                AttentionShape s = fp8_shape(rows[i].Nq, rows[i].d, (ScaleGranularity)scales, (Rotation)rotation);
                s.batch = rows[i].batch;
                s.heads = rows[i].heads;
                s.kv_heads = rows[i].kv_heads;
                s.seqlen_k = rows[i].Nk;
                s.mask = rows[i].mask;
                check_case(x, &s, rows[i].tiles, i + 1);
            }
}

/* Fused, or with kernels of its own: the same O. */
static void check_prepass(Context *x)
{
    for (int scales = SCALE_NONE; scales <= SCALE_ROW; scales++) {
        AttentionShape s = fp8_shape(90, 48, (ScaleGranularity)scales, ROTATE_QKV);
        AttentionRun fused, own;
        random_data(&s, 3);
        const bool ok = run_fp8(x, &fused, &s, (TileSize){64, 32}, q_data, k_data, v_data);
        s.fp8.prepass = true;
        const bool ok_too = run_fp8(x, &own, &s, (TileSize){64, 32}, q_data, k_data, v_data);
        for (uint64_t i = 0; ok && ok_too && i < 90 * 48; i++)
            check_close(&x->test, tensor_value(&own.machine, own.attention.O, i), tensor_value(&fused.machine, fused.attention.O, i), 0,
                        "a pass of its own gives the same bits as a fused one");
        check_u64(&x->test, fused.machine.launch_count, 1, "fused: one launch");
        check_u64(&x->test, own.machine.launch_count, scales == SCALE_TENSOR ? 10 : 4, "three, or nine, more");
        if (ok && scales != SCALE_NONE) {
            static const uint64_t of_k[] = {0, 1, 3, 90}, of_v[] = {0, 1, 3, 3};
            check_u64(&x->test, fused.attention.k8.descale->rows, of_k[scales], "scales of K: 90 rows, blocks of 32");
            check_u64(&x->test, fused.attention.v8.descale->rows, of_v[scales], "scales of V: never per row");
        }
        attention_run_free(&fused);
        attention_run_free(&own);
    }
}

/* --------------------------------------------------------------------------------------------------------------- field cases */

/* 34: Q, K, V, or everything zero; N = 4, d = 4. */
static void check_zeros(Context *x)
{
    static const struct {
        const char *what;
        bool q, k, v;           /* zero? */
    } rows[] = {{"Q = 0", true, false, false}, {"K = 0", false, true, false}, {"V = 0", false, false, true}, {"all zero", true, true, true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int scales = SCALE_TENSOR; scales <= SCALE_ROW; scales++)
            for (int rotation = ROTATE_NONE; rotation <= ROTATE_QKV; rotation++) {
                const AttentionShape s = fp8_shape(4, 4, (ScaleGranularity)scales, (Rotation)rotation);
                char what[120];
                AttentionRun run;
                random_data(&s, 5);
                for (int e = 0; e < 16; e++) {
                    if (rows[i].q) q_data[e] = 0;
                    if (rows[i].k) k_data[e] = 0;
                    if (rows[i].v) v_data[e] = 0;
                }
                if (!run_fp8(x, &run, &s, (TileSize){4, 2}, q_data, k_data, v_data)) continue;
                for (uint64_t e = 0; e < 16; e++) {
                    const uint64_t c = e % 4;
                    const double average = (v_data[c] + v_data[4 + c] + v_data[8 + c] + v_data[12 + c]) / 4, got = tensor_value(&run.machine, run.attention.O, e);
                    double largest = 0;
                    for (int other = 0; other < 16; other++) largest = fmax(largest, fabs(v_data[other]));
                    snprintf(what, sizeof what, "34: %s, scale per %s, rotation %d: O = %g, mean of V %g", rows[i].what,
                             granularity_name((ScaleGranularity)scales), rotation, got, average);
                    if (rows[i].v) check_close(&x->test, got, 0, 0, what);
                    else if (rows[i].q || rows[i].k) check_true(&x->test, fabs(got - average) <= largest / 16, what);
                    else check_true(&x->test, isfinite(got), what);
                }
                if (rows[i].q || rows[i].k) check_close(&x->test, tensor_value(&run.machine, run.attention.L, 0), log(4.0), 1e-6, "34: L = ln 4");
                attention_run_free(&run);
            }
}

/* 34: one column of V zero, with a scale per tensor: that column of O is 0. */
static void check_zero_column(Context *x)
{
    const AttentionShape s = fp8_shape(4, 4, SCALE_TENSOR, ROTATE_NONE);
    AttentionRun run;
    random_data(&s, 5);
    for (int row = 0; row < 4; row++) v_data[4 * row + 2] = 0;
    if (run_fp8(x, &run, &s, (TileSize){4, 2}, q_data, k_data, v_data))
        for (uint64_t row = 0; row < 4; row++) check_close(&x->test, tensor_value(&run.machine, run.attention.O, 4 * row + 2), 0, 0, "34: a zero column");
    attention_run_free(&run);
}

/* 38: the arithmetic of a lagging reference. */
static void check_lagging(Test *t)
{
    static const struct {
        double x;
        uint32_t offset;
        double exact, output;
        bool saturates;
    } rows[] = {{4, 8, 0.941176, 0.102941, true}, {0.75, 8, 0.627115, 0.605938, false}, {4, 4, 0.941176, 0.941176, false}, {8, 0, 0.996109, 0.996109, false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char what[80];
        const LaggingP p = fp8_lagging_p(rows[i].x, rows[i].x, rows[i].offset), moved = fp8_lagging_p(rows[i].x, rows[i].x / 2, rows[i].offset);
        snprintf(what, sizeof what, "38: x = %g, P stored as 2^%u P", rows[i].x, rows[i].offset);
        check_close(t, p.exact, rows[i].exact, 1e-6, what);
        check_close(t, p.output, rows[i].output, 1e-6, what);
        check_true(t, p.saturates == rows[i].saturates, what);
        check_close(t, moved.largest_p, ldexp(1.0, (int)rows[i].offset), 0, "38: past the threshold the reference moves, and P is 1 again");
        check_true(t, !moved.saturates && fabs(moved.output - rows[i].exact) < 1e-6, what);
    }
    for (uint32_t offset = 0; offset <= 8; offset++) {          /* the rule: 2^(x + offset) <= 448 */
        const double most = log2(448.0) - offset;
        check_true(t, !fp8_lagging_p(most - 1e-9, 100, offset).saturates && fp8_lagging_p(most + 1e-9, 100, offset).saturates, "38: threshold + offset <= log2 448");
    }
}

/* 39: 2 x 2 causal, q = k = 0, V = [2^-10, x] with one scale: row 0 does not see x, and yet it depends on it. With a scale per block of one row it does not. */
static void check_future(Context *x)
{
    static const struct {
        ScaleGranularity scales;
        double other, want;
    } rows[] = {{SCALE_TENSOR, 1024, 0}, {SCALE_TENSOR, 0, 0x1p-10}, {SCALE_BLOCK, 1024, 0x1p-10}, {SCALE_BLOCK, 0, 0x1p-10}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        AttentionShape s = fp8_shape(2, 1, rows[i].scales, ROTATE_NONE);
        const double zero[2] = {0, 0}, v[2] = {0x1p-10, rows[i].other};
        AttentionRun run;
        s.mask = MASK_CAUSAL;
        if (run_fp8(x, &run, &s, (TileSize){1, 1}, zero, zero, v))
            check_close(&x->test, tensor_value(&run.machine, run.attention.O, 0), rows[i].want, 1e-9, "39: row 0 of V = [2^-10, x]");
        attention_run_free(&run);
    }
}

/* What a row does not see does not show, NaN included; what it sees does. */
static void check_nan(Context *x)
{
    for (int scales = SCALE_NONE; scales <= SCALE_ROW; scales++) {
        AttentionShape s = fp8_shape(3, 2, (ScaleGranularity)scales, ROTATE_NONE);
        const double q[6] = {0}, k[6] = {0, 0, 0, 0, NAN, 0}, v[6] = {1, -1, 1, -1, NAN, 2};
        AttentionRun run;
        s.mask = MASK_CAUSAL;
        if (run_fp8(x, &run, &s, (TileSize){2, 2}, q, k, v)) {
            for (uint64_t e = 0; e < 4; e++) check_close(&x->test, tensor_value(&run.machine, run.attention.O, e), e % 2 ? -1 : 1, 1e-6, "NaN behind the mask");
            check_true(&x->test, isnan(tensor_value(&run.machine, run.attention.O, 4)), "a visible NaN");
        }
        attention_run_free(&run);
        s.seqlen_k = 1;                                     /* rows 0 and 1 see nothing */
        if (run_fp8(x, &run, &s, (TileSize){2, 2}, q, k, v)) {
            check_close(&x->test, tensor_value(&run.machine, run.attention.O, 0), 0, 0, "a row without keys");
            check_close(&x->test, tensor_value(&run.machine, run.attention.L, 1), -INFINITY, 0, "its L");
            check_close(&x->test, tensor_value(&run.machine, run.attention.O, 5), -1, 1e-6, "a row with one key");
        }
        attention_run_free(&run);
    }
}

/* ------------------------------------------------------------------------------------------------ the definition of the study */

static void check_study(Context *x)
{
    Status status = {0};
    Fp8Case c;
    RotationError rotation = {0};
    if (fp8_case_init(&c, 1, 300, 200, 64, &x->alloc, &status) && fp8_rotation_error(&c, &rotation, &status)) {
        check_true(&x->test, rotation.identity < 1e-14 && rotation.scores < 1e-12 && rotation.output < 1e-13, "rotation is exact in float64");
        check_true(&x->test, fp8_error(&c, (Fp8Recipe){0}) < 2e-6, "nothing rounded: float32's own error");
        check_true(&x->test, fp8_error(&c, (Fp8Recipe){.rotate_qk = true, .rotate_v = true}) < 4e-6, "rotated, nothing rounded: exercise 8");
        const double v = fp8_error(&c, (Fp8Recipe){.v = OPERAND_E4M3, .p = OPERAND_E4M3, .scales = SCALE_TENSOR});
        const double v_rotated = fp8_error(&c, (Fp8Recipe){.v = OPERAND_E4M3, .p = OPERAND_E4M3, .scales = SCALE_TENSOR, .rotate_qk = true});
        check_true(&x->test, v > 1e-3 && fabs(v_rotated / v - 1) < 1e-3, "rotation of Q and K does not change the error of V and P");
        const Fp8Recipe recipes[3] = {{.qk = OPERAND_E4M3, .scales = SCALE_BLOCK}, {.qk = OPERAND_E4M3, .v = OPERAND_E4M3, .scales = SCALE_BLOCK}, {.qk = OPERAND_BF16}};
        double together[3];
        fp8_errors(&c, recipes, 3, together);
        for (int i = 0; i < 3; i++) check_close(&x->test, together[i], fp8_error(&c, recipes[i]), 0, "recipes together and alone");
        check_true(&x->test, together[2] < together[0] && together[0] < together[1], "BF16 < Q, K in FP8 < V too");
    }
    for (int scales = SCALE_TENSOR; scales <= SCALE_BLOCK && status_ok(&status); scales++) {
        double kernel = 0;
        const Fp8Recipe whole_row = {.qk = OPERAND_E4M3, .v = OPERAND_E4M3, .p = OPERAND_E4M3, .scales = (ScaleGranularity)scales, .p_scale = 256};
        const double study = fp8_error(&c, whole_row);
        fp8_kernel_error(&c, &x->unbounded, (ScaleGranularity)scales, ROTATE_NONE, &kernel, &status);
        check_true(&x->test, fabs(kernel / study - 1) < 0.1, "the kernel's error is that of the whole-row definition, within 10 %");
    }
    fp8_case_free(&c);
    check_text(&x->test, status.text, "", "study");
}

/* Every allocation of the study fails once: an error, and nothing is left. */
static void check_memory(Context *x)
{
    for (uint64_t k = 1, made = k; made >= k; k++) {
        Status status = {0};
        Alloc alloc = {.fail_at = k};
        Fp8Case c;
        RotationError rotation;
        double error;
        const bool ok = fp8_case_init(&c, 1, 8, 8, 8, &alloc, &status) && fp8_rotation_error(&c, &rotation, &status) &&
                        fp8_kernel_error(&c, &x->unbounded, SCALE_BLOCK, ROTATE_QKV, &error, &status);
        fp8_case_free(&c);
        made = alloc.requests;
        check_true(&x->test, ok == (made < k) && status.code == (ok ? STATUS_OK : STATUS_IO), "the k-th allocation fails: out of memory");
        check_u64(&x->test, alloc.live_bytes, 0, "and nothing is left");
    }
}

/* What is refused. */
static void check_refusals(Context *x)
{
    AttentionShape s = fp8_shape(4, 4, SCALE_TENSOR, ROTATE_NONE);
    Status status = {0}, wrong_type = {0}, too_large = {0}, wide = {0};
    AttentionRun run;
    const RunSetup fa2 = {.algorithm = &algorithm_fa2, .profile = &x->unbounded, .tiles = {4, 4}};
    attention_run_prepare(&run, &fa2, &s, &x->alloc, &status);
    attention_run_free(&run);
    check_text(&x->test, status.text, "fa2 has no FP8 scales or rotation; fa3 has", "another algorithm");
    s.dtype = ELEMENT_BF16;
    attention_check(&s, &wrong_type);
    check_text(&x->test, wrong_type.text, "scales and rotation are for FP8; the type is bf16", "another type");
    s.dtype = ELEMENT_E4M3;
    s.fp8.p_log2_scale = 9;
    attention_check(&s, &too_large);
    check_text(&x->test, too_large.text, "P times 2^9 leaves the range of E4M3, 448; expected 2^0 to 2^8", "P out of range");
    s.fp8.p_log2_scale = 8;
    const NumericSetup f64 = {.algorithm = &algorithm_fa3, .tiles = {4, 4}, .precision = PRECISION_F64};
    random_data(&s, 1);
    numeric_forward(&run, &f64, &x->unbounded, &s, q_data, k_data, v_data, &x->alloc, &wide);
    attention_run_free(&run);
    check_text(&x->test, wide.text, "max_blocks_Q: quantisation is computed in float32 only", "float64");
}

int main(void)
{
    Context x = {0};
    Status status = {0};
    if (profile_load("unbounded", &x.alloc, &x.unbounded, &status)) {
        check_against_reference(&x);
        check_prepass(&x);
        check_zeros(&x);
        check_zero_column(&x);
        check_lagging(&x.test);
        check_future(&x);
        check_nan(&x);
        check_study(&x);
        check_memory(&x);
        check_refusals(&x);
    }
    check_text(&x.test, status.text, "", "profile unbounded");
    check_u64(&x.test, x.alloc.live_bytes, 0, "memory left at the end");
    return test_end(&x.test, "fp8");
}
