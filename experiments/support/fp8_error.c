/* fp8_error.c - see fp8_error.h. */
#include "fp8_error.h"

#include "algos/run.h"
#include "sim/checked.h"
#include "sim/hadamard.h"
#include "sim/math_functions.h"
#include "sim/normal.h"
#include "sim/philox.h"

#include <math.h>

enum { STRIP_ROWS = 128, STRIP_KEYS = 256, PADDING = TILE_ROW_ALIGNMENT };

/* ------------------------------------------------------------------------------------------------------------- matrices */

static uint64_t padded(uint64_t rows) { return ceil_div(rows, TILE_ROW_ALIGNMENT) * TILE_ROW_ALIGNMENT; }

/* One vector more than a power of two between columns: they would share a few cache sets otherwise. */
static Matrix new_matrix(Fp8Case *c, uint32_t rows, uint32_t cols, size_t real_bytes, Status *status)
{
    const uint64_t ld = padded(rows) + PADDING;
    return (Matrix){alloc_array(c->alloc, ld * cols, real_bytes, "a matrix", status), rows, cols, ld};
}

static Matrix part(Matrix x, uint32_t row, uint32_t rows, uint32_t col, uint32_t cols, size_t real_bytes)
{
    return (Matrix){(char *)x.data + (col * x.ld + row) * real_bytes, rows, cols, x.ld};
}

static Matrix rows_of(Matrix x, uint32_t row, uint32_t rows, size_t real_bytes) { return part(x, row, rows, 0, x.cols, real_bytes); }

static float *f32_column(Matrix x, uint32_t c) { return (float *)x.data + c * x.ld; }
static double *f64_column(Matrix x, uint32_t c) { return (double *)x.data + c * x.ld; }

static void copy_f32(Matrix to, Matrix from)
{
    for (uint32_t c = 0; c < from.cols; c++)
        for (uint32_t r = 0; r < from.rows; r++) f32_column(to, c)[r] = f32_column(from, c)[r];
}

static void widen(Matrix to, Matrix from)
{
    for (uint32_t c = 0; c < from.cols; c++)
        for (uint32_t r = 0; r < from.rows; r++) f64_column(to, c)[r] = (double)f32_column(from, c)[r];
}

/* ----------------------------------------------------------------------------------------------------------------- data */

/* Philox streams of a tensor: two normal numbers and the coin of each element. The first ones belong to attention_random_inputs. */
enum { FIRST_STREAM = 16, STREAMS_PER_TENSOR = 3, SIGN_STREAM = 64 };

static const double OUTLIER_SHARE = 0.001, OUTLIER_DEVIATION = 10.0;

static uint64_t fill_with_outliers(Matrix x, uint64_t seed, uint64_t tensor)
{
    const uint64_t base = FIRST_STREAM + STREAMS_PER_TENSOR * tensor;
    const uint32_t below = (uint32_t)(OUTLIER_SHARE * 4294967296.0);
    uint64_t outliers = 0;
    for (uint32_t c = 0; c < x.cols; c++) {
        const uint64_t first = (uint64_t)c << 32;           /* so that row r is the same for every number of rows */
        float *values = f32_column(x, c);
        normal_fill_f32(values, x.rows, seed, base, first);
        for (uint32_t r = 0; r < x.rows; r++) {
            if (philox_element(seed, base + 2, first + r) >= below) continue;
            values[r] = (float)(normal_element(seed, base, first + r) + OUTLIER_DEVIATION * normal_element(seed, base + 1, first + r));
            outliers++;
        }
    }
    return outliers;
}

/* ------------------------------------------------------------------------------------------------------------- attention */

/* S = Q Kᵀ / sqrt(d) for some rows of Q, a piece of the keys at a time. */
static void scores(const TileMath *math, Matrix s, Matrix q, Matrix k)
{
    const size_t e = math->real_bytes;
    const double factor = 1.0 / sqrt((double)q.cols);
    for (uint32_t key = 0; key < k.rows; key += STRIP_KEYS) {
        const uint32_t keys = (uint32_t)min_u64(STRIP_KEYS, k.rows - key);
        math->matmul(part(s, 0, q.rows, key, keys, e), q, false, rows_of(k, key, keys, e), true, factor, false);
    }
}

/* S <- P = e^(S - m), l = row sums. */
static void softmax(const TileMath *math, Matrix s, Matrix m, Matrix none, Matrix l)
{
    math->fill(none, -INFINITY);
    math->row_max(m, none, s);
    math->exp_rows(s, s, m);
    math->row_sum(l, (Matrix){0}, s);
}

/* O = P V / l. */
static void weighted_sum(const TileMath *math, Matrix o, Matrix p, Matrix v, Matrix l)
{
    const size_t e = math->real_bytes;
    for (uint32_t key = 0; key < v.rows; key += STRIP_KEYS) {
        const uint32_t keys = (uint32_t)min_u64(STRIP_KEYS, v.rows - key);
        math->matmul(o, part(p, 0, o.rows, key, keys, e), false, rows_of(v, key, keys, e), false, 1.0, key > 0);
    }
    math->divide_rows(o, l);
}

static bool exact_attention(Fp8Case *c, Status *status)
{
    const TileMath *math = tile_math_select(PRECISION_F64);
    Matrix q = new_matrix(c, c->queries, c->d, sizeof(double), status), k = new_matrix(c, c->N, c->d, sizeof(double), status);
    Matrix v = new_matrix(c, c->N, c->d, sizeof(double), status), s = new_matrix(c, STRIP_ROWS, c->N, sizeof(double), status);
    Matrix rows = new_matrix(c, STRIP_ROWS, 3, sizeof(double), status);
    if (status_ok(status)) {
        widen(q, rows_of(c->Q, 0, c->queries, sizeof(float)));
        widen(k, c->K);
        widen(v, c->V);
        for (uint32_t row = 0; row < c->queries; row += STRIP_ROWS) {
            const uint32_t count = (uint32_t)min_u64(STRIP_ROWS, c->queries - row);
            const size_t e = sizeof(double);
            const Matrix strip = rows_of(s, 0, count, e), l = part(rows, 0, count, 2, 1, e);
            scores(math, strip, rows_of(q, row, count, e), k);
            softmax(math, strip, part(rows, 0, count, 0, 1, e), part(rows, 0, count, 1, 1, e), l);
            weighted_sum(math, rows_of(c->exact, row, count, e), strip, v, l);
        }
    }
    Matrix *const all[] = {&q, &k, &v, &s, &rows};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) alloc_free(c->alloc, all[i]->data);
    return status_ok(status);
}

bool fp8_case_init(Fp8Case *c, uint64_t seed, uint32_t N, uint32_t queries, uint32_t d, Alloc *alloc, Status *status)
{
    *c = (Fp8Case){.alloc = alloc, .seed = seed, .N = N, .queries = queries, .d = d};
    Matrix *const tensors[] = {&c->Q, &c->K, &c->V};
    for (uint64_t i = 0; i < 3; i++) {
        *tensors[i] = new_matrix(c, N, d, sizeof(float), status);
        if (tensors[i]->data != NULL) c->outliers += fill_with_outliers(*tensors[i], seed, i);
    }
    c->q = new_matrix(c, N, d, sizeof(float), status);
    c->k = new_matrix(c, N, d, sizeof(float), status);
    for (int i = 0; i < FP8_V_KINDS; i++) c->v[i] = new_matrix(c, N, d, sizeof(float), status);
    c->s = new_matrix(c, STRIP_ROWS, N, 2 * sizeof(float), status);         /* P before and after rounding */
    c->o = new_matrix(c, STRIP_ROWS, d, sizeof(float), status);
    c->m = new_matrix(c, STRIP_ROWS, 1, sizeof(float), status);
    c->none = new_matrix(c, STRIP_ROWS, 1, sizeof(float), status);
    c->l = new_matrix(c, STRIP_ROWS, 1, sizeof(float), status);
    c->exact = new_matrix(c, queries, d, sizeof(double), status);
    c->descale = alloc_array(alloc, N, sizeof(float), "scales", status);
    return status_ok(status) && exact_attention(c, status);
}

void fp8_case_free(Fp8Case *c)
{
    const Matrix all[] = {c->Q, c->K, c->V, c->q, c->k, c->s, c->o, c->m, c->none, c->l, c->exact};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) alloc_free(c->alloc, all[i].data);
    for (int i = 0; i < FP8_V_KINDS; i++) alloc_free(c->alloc, c->v[i].data);
    alloc_free(c->alloc, c->descale);
}

/* ------------------------------------------------------------------------------------------------------------- rounding */

static QuantisedFormat quantised(OperandFormat format) { return format == OPERAND_INT8 ? QUANTISED_INT8 : QUANTISED_E4M3; }

static void rotate(const Fp8Case *c, Precision precision, Matrix x, bool back)
{
    int8_t signs[1024];
    hadamard_signs(signs, c->d, c->seed, SIGN_STREAM);
    if (back) hadamard_unrotate(precision, x, signs);
    else hadamard_rotate(precision, x, signs);
}

/* to = from, rotated if asked, in its format, as values. */
static void round_operand(const Fp8Case *c, Matrix to, Matrix from, OperandFormat format, ScaleGranularity scales, bool rotated)
{
    copy_f32(to, from);
    if (rotated) rotate(c, PRECISION_F32, to, false);
    if (format == OPERAND_EXACT) return;
    if (format == OPERAND_BF16) {
        for (uint32_t col = 0; col < to.cols; col++) round_elements(ELEMENT_BF16, f32_column(to, col), to.rows);
        return;
    }
    quantise_matrix(to, to, quantised(format), scales, FP8_BLOCK_ROWS, c->descale);
    dequantise_matrix(to, scales, FP8_BLOCK_ROWS, c->descale);
}

static double p_scale(Fp8Recipe r) { return r.p_scale > 0 ? r.p_scale : r.p == OPERAND_INT8 ? 127.0 : 1.0; }

/* P in its format, as a value. */
static void round_p(Matrix to, Matrix from, Fp8Recipe r)
{
    const float s = (float)p_scale(r), back = (float)(1.0 / p_scale(r));
    for (uint32_t c = 0; c < from.cols; c++) {
        const float *p = f32_column(from, c);
        float *rounded = f32_column(to, c);
        if (r.p == OPERAND_E4M3)
            for (uint32_t i = 0; i < from.rows; i++) rounded[i] = round_e4m3(p[i] * s, FP8_SATURATE) * back;
        else if (r.p == OPERAND_BF16)
            for (uint32_t i = 0; i < from.rows; i++) rounded[i] = round_bf16(p[i] * s) * back;
        else
            for (uint32_t i = 0; i < from.rows; i++) rounded[i] = quantised_code(QUANTISED_INT8, p[i] * s) * back;
    }
}

/* --------------------------------------------------------------------------------------------------------------- errors */

static double squared_distance(Matrix o, Matrix exact, uint32_t row)
{
    double sum = 0;
    for (uint32_t c = 0; c < o.cols; c++)
        for (uint32_t r = 0; r < o.rows; r++) {
            const double difference = (double)f32_column(o, c)[r] - f64_column(exact, c)[row + r];
            sum += difference * difference;
        }
    return sum;
}

/* One strip of rows of one recipe, whose P is in c->s. */
static double strip_error(Fp8Case *c, const Fp8Recipe *r, Matrix v, uint32_t row, uint32_t count)
{
    const size_t e = sizeof(float);
    const TileMath *math = tile_math_select(PRECISION_F32);
    const Matrix p = rows_of(c->s, 0, count, e), o = rows_of(c->o, 0, count, e);
    const Matrix rounded = {f32_column(c->s, c->N), count, c->N, c->s.ld};
    if (r->p != OPERAND_EXACT) round_p(rounded, p, *r);
    weighted_sum(math, o, r->p == OPERAND_EXACT ? p : rounded, v, rows_of(c->l, 0, count, e));
    if (r->rotate_v) rotate(c, PRECISION_F32, o, true);
    return squared_distance(o, c->exact, row);
}

static bool same_scores(const Fp8Recipe *a, const Fp8Recipe *b)
{
    return a->qk == b->qk && a->rotate_qk == b->rotate_qk && (a->scales == b->scales || a->qk <= OPERAND_BF16);
}

static void round_qk(const Fp8Case *c, const Fp8Recipe *r)
{
    round_operand(c, c->q, c->Q, r->qk, r->scales, r->rotate_qk);
    round_operand(c, c->k, c->K, r->qk, r->scales, r->rotate_qk);
}

/* P of rows row .. of the operands in c->q and c->k, into c->s; l. */
static void strip_softmax(Fp8Case *c, uint32_t row, uint32_t count)
{
    const size_t e = sizeof(float);
    const TileMath *math = tile_math_select(PRECISION_F32);
    const Matrix s = rows_of(c->s, 0, count, e);
    scores(math, s, rows_of(c->q, row, count, e), c->k);
    softmax(math, s, rows_of(c->m, 0, count, e), rows_of(c->none, 0, count, e), rows_of(c->l, 0, count, e));
}

/* Recipes with the same scores; values[i] is the number of recipe i's V. */
static void errors_of_group(Fp8Case *c, const Fp8Recipe *recipes, const uint32_t *values, size_t count, double *error)
{
    round_qk(c, &recipes[0]);
    for (size_t i = 0; i < count; i++) {
        round_operand(c, c->v[values[i]], c->V, recipes[i].v, recipes[i].scales, recipes[i].rotate_v);
        error[i] = 0;
    }
    for (uint32_t row = 0; row < c->queries; row += STRIP_ROWS) {
        const uint32_t rows = (uint32_t)min_u64(STRIP_ROWS, c->queries - row);
        strip_softmax(c, row, rows);
        for (size_t i = 0; i < count; i++) error[i] += strip_error(c, &recipes[i], c->v[values[i]], row, rows);
    }
    for (size_t i = 0; i < count; i++) error[i] = sqrt(error[i] / ((double)c->queries * c->d));
}

static bool same_values(const Fp8Recipe *a, const Fp8Recipe *b)
{
    return a->v == b->v && a->rotate_v == b->rotate_v && (a->scales == b->scales || a->v <= OPERAND_BF16);
}

void fp8_errors(Fp8Case *c, const Fp8Recipe *recipes, size_t count, double *error)
{
    enum { MOST = 16 };
    for (size_t first = 0, end; first < count; first = end) {
        uint32_t values[MOST], kinds = 0;
        for (end = first; end < count && end - first < MOST && same_scores(&recipes[first], &recipes[end]); end++) {
            size_t earlier = first;
            while (earlier < end && !same_values(&recipes[earlier], &recipes[end])) earlier++;
            if (earlier == end && kinds == FP8_V_KINDS) break;
            values[end - first] = earlier < end ? values[earlier - first] : kinds++;
        }
        errors_of_group(c, recipes + first, values, end - first, error + first);
    }
}

double fp8_error(Fp8Case *c, Fp8Recipe recipe)
{
    double error;
    fp8_errors(c, &recipe, 1, &error);
    return error;
}

/* ------------------------------------------------------------------------------------------------------ the operand itself */

static double root_mean_square(Matrix x, Matrix minus)
{
    double sum = 0;
    for (uint32_t c = 0; c < x.cols; c++)
        for (uint32_t r = 0; r < x.rows; r++) {
            const double value = (double)f32_column(x, c)[r] - (minus.data != NULL ? (double)f32_column(minus, c)[r] : 0.0);
            sum += value * value;
        }
    return sqrt(sum / ((double)x.rows * x.cols));
}

/* Codes are told apart by their magnitude: an INT8 code is a whole number, an E4M3 code a multiple of 2^-9 whose code is 7 bits. */
static uint32_t count_levels(Matrix codes, OperandFormat format)
{
    bool seen[256] = {false};
    uint32_t levels = 0;
    for (uint32_t c = 0; c < codes.cols; c++)
        for (uint32_t r = 0; r < codes.rows; r++) {
            const float code = fabsf(f32_column(codes, c)[r]);
            seen[format == OPERAND_INT8 ? (uint32_t)code : e4m3_from_f32(code, FP8_SATURATE)] = true;
        }
    for (int i = 0; i < 256; i++) levels += seen[i];
    return levels;
}

/* S of both, strip by strip: the exact one from Q and K as they were. */
static double score_error(Fp8Case *c)
{
    const size_t e = sizeof(float);
    const TileMath *math = tile_math_select(PRECISION_F32);
    double sum = 0;
    for (uint32_t row = 0; row < c->queries; row += STRIP_ROWS) {
        const uint32_t count = (uint32_t)min_u64(STRIP_ROWS, c->queries - row);
        const Matrix s = rows_of(c->s, 0, count, e), exact = {f32_column(c->s, c->N), count, c->N, c->s.ld};
        scores(math, s, rows_of(c->q, row, count, e), c->k);
        scores(math, exact, rows_of(c->Q, row, count, e), c->K);
        const double rms = root_mean_square(s, exact);
        sum += rms * rms * count;
    }
    return sqrt(sum / c->queries);
}

double fp8_max_over_rms(Fp8Case *c, bool rotated)
{
    round_operand(c, c->v[0], c->Q, OPERAND_EXACT, SCALE_NONE, rotated);
    return (double)matrix_extent(c->v[0]).largest / root_mean_square(c->v[0], (Matrix){0});
}

Fp8OperandError fp8_operand_error(Fp8Case *c, Fp8Recipe recipe)
{
    Fp8OperandError error = {.max_over_rms = fp8_max_over_rms(c, recipe.rotate_qk)};    /* leaves Q or Q J in c->v[0] */
    if (recipe.qk == OPERAND_E4M3 || recipe.qk == OPERAND_INT8) {
        quantise_matrix(c->q, c->v[0], quantised(recipe.qk), recipe.scales, FP8_BLOCK_ROWS, c->descale);
        error.levels = count_levels(c->q, recipe.qk);
    }
    round_qk(c, &recipe);
    error.rms_error = root_mean_square(c->q, c->v[0]);
    error.rms_score_error = score_error(c);
    return error;
}

/* ------------------------------------------------------------------------------------------------------------- exactness */

/* Columns of the identity, then of J. */
static double identity_error(const Fp8Case *c, Matrix j, Matrix product)
{
    const TileMath *math = tile_math_select(PRECISION_F64);
    double worst = 0;
    math->fill(j, 0.0);
    for (uint32_t i = 0; i < c->d; i++) f64_column(j, i)[i] = 1.0;
    rotate(c, PRECISION_F64, j, false);
    math->matmul(product, j, false, j, true, 1.0, false);
    for (uint32_t col = 0; col < c->d; col++)
        for (uint32_t row = 0; row < c->d; row++) worst = fmax(worst, fabs(f64_column(product, col)[row] - (row == col ? 1.0 : 0.0)));
    return worst;
}

static double largest_difference(Matrix a, Matrix b)
{
    double worst = 0;
    for (uint32_t col = 0; col < a.cols; col++)
        for (uint32_t row = 0; row < a.rows; row++) {
            const double difference = fabs(f64_column(a, col)[row] - f64_column(b, col)[row]);
            if (!(difference <= worst)) worst = difference; /* a NaN stays */
        }
    return worst;
}

bool fp8_rotation_error(const Fp8Case *c, RotationError *error, Status *status)
{
    enum { Q, K, V, S, ROTATED_S, O, ROTATED_O, M, NONE, L, J, JJ, COUNT };
    const TileMath *math = tile_math_select(PRECISION_F64);
    const uint32_t rows = (uint32_t)min_u64(STRIP_ROWS, c->queries), d = c->d;
    const uint32_t shape[COUNT][2] = {[Q] = {rows, d}, [K] = {c->N, d}, [V] = {c->N, d}, [S] = {rows, c->N}, [ROTATED_S] = {rows, c->N},
                                      [O] = {rows, d}, [ROTATED_O] = {rows, d}, [M] = {rows, 1}, [NONE] = {rows, 1}, [L] = {rows, 1},
                                      [J] = {d, d}, [JJ] = {d, d}};
    Fp8Case memory = {.alloc = c->alloc};
    Matrix x[COUNT];
    for (int i = 0; i < COUNT; i++) x[i] = new_matrix(&memory, shape[i][0], shape[i][1], sizeof(double), status);
    if (status_ok(status)) {
        widen(x[Q], rows_of(c->Q, 0, rows, sizeof(float)));
        widen(x[K], c->K);
        widen(x[V], c->V);
        scores(math, x[S], x[Q], x[K]);
        rotate(c, PRECISION_F64, x[Q], false);
        rotate(c, PRECISION_F64, x[K], false);
        scores(math, x[ROTATED_S], x[Q], x[K]);
        error->scores = largest_difference(x[S], x[ROTATED_S]) * sqrt((double)d);
        softmax(math, x[S], x[M], x[NONE], x[L]);
        weighted_sum(math, x[O], x[S], x[V], x[L]);
        rotate(c, PRECISION_F64, x[V], false);
        weighted_sum(math, x[ROTATED_O], x[S], x[V], x[L]);
        rotate(c, PRECISION_F64, x[ROTATED_O], true);
        error->output = largest_difference(x[O], x[ROTATED_O]);
        error->identity = identity_error(c, x[J], x[JJ]);
    }
    for (int i = 0; i < COUNT; i++) alloc_free(c->alloc, x[i].data);
    return status_ok(status);
}

/* ------------------------------------------------------------------------------------------------------------ the kernel */

static void set_tensor(const Machine *machine, Tensor *tensor, Matrix from)
{
    for (uint32_t r = 0; r < from.rows; r++)
        for (uint32_t c = 0; c < from.cols; c++) tensor_set(machine, tensor, (uint64_t)r * from.cols + c, (double)f32_column(from, c)[r]);
}

static double tensor_error(const Machine *machine, const Tensor *o, Matrix exact)
{
    double sum = 0;
    for (uint32_t r = 0; r < exact.rows; r++)
        for (uint32_t c = 0; c < exact.cols; c++) {
            const double difference = tensor_value(machine, o, (uint64_t)r * exact.cols + c) - f64_column(exact, c)[r];
            sum += difference * difference;
        }
    return sqrt(sum / ((double)exact.rows * exact.cols));
}

bool fp8_kernel_error(const Fp8Case *c, const Profile *chip, ScaleGranularity scales, Rotation rotation, double *error, Status *status)
{
    const RunSetup setup = {.algorithm = &algorithm_fa3, .profile = chip, .tiles = {FP8_BLOCK_ROWS, FP8_BLOCK_ROWS},
                            .config = {.mode = MODE_NUMERIC, .l2 = L2_IDEAL, .precision = PRECISION_F32}};
    AttentionShape shape = attention_shape(c->N, c->d);
    AttentionRun run;
    shape.seqlen_q = c->queries;
    shape.dtype = ELEMENT_E4M3;
    shape.fp8.scales = scales;
    shape.fp8.rotation = rotation;
    shape.fp8.seed = c->seed;
    shape.fp8.source = ELEMENT_F32;
    bool ok = attention_run_prepare(&run, &setup, &shape, c->alloc, status);
    if (ok) {
        set_tensor(&run.machine, run.attention.Q, rows_of(c->Q, 0, c->queries, sizeof(float)));
        set_tensor(&run.machine, run.attention.K, c->K);
        set_tensor(&run.machine, run.attention.V, c->V);
        ok = attention_run_forward(&run);
    }
    if (ok) *error = tensor_error(&run.machine, run.attention.O, c->exact);
    attention_run_free(&run);
    return ok;
}

LaggingP fp8_lagging_p(double x, double threshold, uint32_t offset)
{
    const double reference = x > threshold ? x : 0.0, unit = exp2_f64((double)offset);
    const double p0 = unit * exp2_f64(0.0 - reference), p1 = unit * exp2_f64(x - reference);
    const double stored = (double)round_e4m3((float)p1, FP8_SATURATE);
    return (LaggingP){.largest_p = p1, .saturates = p1 > 448.0, .exact = p1 / (p0 + p1), .output = stored / (p0 + p1)};
}
