/* test_tile_math.c - the tile arithmetic, every function of every build of it, against the same sum written one element at a
 * time.
 *
 * Expected: the same bits, for portable, AVX2 and AVX-512 code, float32 and float64, rows 1 to 70 and odd columns, with zeros,
 * subnormals, infinities and NaN among the values; only a NaN's payload is left open. The naive side computes in double and
 * rounds after every operation: a double has more than twice the bits of a float, so one float operation comes out exactly
 * rounded. Everything outside the live part starts as NaN and must not be read; outside the rows' alignment nothing may be
 * written.
 *
 * Last, one numeric FlashAttention-2 run and one of FlashAttention-1, whose bits are a constant of this file: gcc and clang, -O0
 * to -O3, any vector width. tests/test_tile_math --hash prints the constants.
 */
/* label: unit, property */
#include "test.h"

#include "support/count_case.h"

#include "algos/run.h"
#include "sim/math_functions.h"
#include "sim/normal.h"
#include "sim/poly_exp.h"

#include <math.h>

enum { MOST_ROWS = 70, MOST_COLS = 260, LD = 96, BORDER = 2, ELEMENTS = LD * (MOST_COLS + BORDER), ARRAYS = 3 };

/* A tile in the precision under test and the same in double. */
typedef struct {
    double naive[ELEMENTS];
    union {
        float f32[ELEMENTS];
        double f64[ELEMENTS];
    } data;
} Array;

typedef struct {
    Test test;
    Alloc alloc;
    const TileMath *math;
    Array *arrays;              /* A, B, C */
    uint64_t random;
    char what[160];
} Context;

/* --------------------------------------------------------------------------------------------------------- values and tiles */

static double rounded(const Context *x, double value)
{
    return x->math->real_bytes == sizeof(float) ? (double)(float)value : value;
}

static double get(const Context *x, const Array *a, uint64_t i)
{
    return x->math->real_bytes == sizeof(float) ? (double)a->data.f32[i] : a->data.f64[i];
}

static void set(const Context *x, Array *a, uint64_t i, double value)
{
    if (x->math->real_bytes == sizeof(float)) a->data.f32[i] = (float)value;
    else a->data.f64[i] = value;
    a->naive[i] = rounded(x, value);
}

typedef enum { FINITE, MILD, ANY } Values;

/* Mostly normal numbers; one in eight is special. MILD: no NaN or infinity, so that sums stay comparable. */
static double random_value(Context *x, Values values)
{
    static const double specials[] = {0.0, -0.0, 1e-40, -1e30, 700.0, -700.0, -INFINITY, INFINITY, NAN};
    const double normal = normal_quantile((double)random_between(&x->random, 1, 999999) / 1e6);
    if (values == FINITE || random_between(&x->random, 0, 7) != 0) return normal;
    return specials[random_between(&x->random, 0, values == ANY ? 8 : 5)];
}

static Array *field_of_nan(Context *x, int which, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) set(x, &x->arrays[which], i, NAN);
    return &x->arrays[which];
}

/* A rows x cols tile of random values in a field of NaN. */
static Matrix tile(Context *x, int which, uint32_t rows, uint32_t cols, Values values)
{
    Array *a = field_of_nan(x, which, (uint64_t)LD * (cols + BORDER));
    for (uint32_t c = 0; c < cols; c++)
        for (uint32_t r = 0; r < rows; r++) set(x, a, (uint64_t)c * LD + r, random_value(x, values));
    return (Matrix){&a->data, rows, cols, LD};
}

static double *naive(Context *x, int which, uint32_t r, uint32_t c) { return &x->arrays[which].naive[(uint64_t)c * LD + r]; }

static uint64_t bits_of(double value) { return isnan(value) ? UINT64_C(0x7ff8000000000000) : bits_from_f64(value); }

/* The live part is what the naive side says; beyond the padded rows and the columns all is still NaN. */
static void compare(Context *x, int which, uint32_t rows, uint32_t cols, const char *function)
{
    const Array *a = &x->arrays[which];
    const uint32_t padded = (rows + TILE_ROW_ALIGNMENT - 1) / TILE_ROW_ALIGNMENT * TILE_ROW_ALIGNMENT;
    for (uint32_t c = 0; c < cols + BORDER; c++)
        for (uint32_t r = 0; r < LD; r++) {
            const double got = get(x, a, (uint64_t)c * LD + r), want = a->naive[(uint64_t)c * LD + r];
            const bool live = r < rows && c < cols, scratch = r < padded && c < cols;
            if (!live && scratch) continue;
            const bool same = live ? bits_of(got) == bits_of(want) : isnan(got);
            if (test_failed(&x->test, same))
                printf("FAIL %s %s, %s: (%u, %u) of %u x %u: got %a, want %a\n", x->math->name, function, x->what, r, c, rows,
                       cols, got, want);
        }
}

/* ------------------------------------------------------------------------------------------------------------------ products */

typedef struct {
    uint32_t rows, cols, depth;
    bool a_transposed, b_transposed, accumulate;
    double alpha;
    VisibleBand band;           /* of A as it stands in memory; first > last: all visible */
} Product;

static bool is_hidden(const Product *p, uint32_t r, uint32_t c)
{
    return p->band.first <= p->band.last && ((int64_t)c < p->band.first + (int64_t)r || (int64_t)c >= p->band.last + (int64_t)r);
}

static double naive_element(Context *x, const Product *p, uint32_t i, uint32_t j)
{
    double sum = p->accumulate ? *naive(x, 2, i, j) : 0.0;
    for (uint32_t k = 0; k < p->depth; k++) {
        const uint32_t r = p->a_transposed ? k : i, c = p->a_transposed ? i : k;
        if (is_hidden(p, r, c)) continue;
        const double right = p->b_transposed ? *naive(x, 1, j, k) : *naive(x, 1, k, j);
        sum = rounded(x, sum + rounded(x, *naive(x, 0, r, c) * right));
    }
    return p->accumulate || p->alpha == 1.0 ? sum : rounded(x, sum * rounded(x, p->alpha));
}

static void naive_product(Context *x, const Product *p)
{
    for (uint32_t j = 0; j < p->cols; j++)
        for (uint32_t i = 0; i < p->rows; i++) *naive(x, 2, i, j) = naive_element(x, p, i, j);
}

static void check_product(Context *x, const Product *p, Values values)
{
    const bool banded = p->band.first <= p->band.last;
    const Matrix a = p->a_transposed ? tile(x, 0, p->depth, p->rows, values) : tile(x, 0, p->rows, p->depth, values);
    const Matrix b = p->b_transposed ? tile(x, 1, p->cols, p->depth, values) : tile(x, 1, p->depth, p->cols, values);
    const Matrix c = tile(x, 2, p->rows, p->cols, p->accumulate ? FINITE : ANY);
    snprintf(x->what, sizeof x->what, "depth %u, A%s B%s, alpha %g%s, band %d..%d", p->depth, p->a_transposed ? "^T" : "",
             p->b_transposed ? "^T" : "", p->alpha, p->accumulate ? ", C +=" : "", (int)p->band.first, (int)p->band.last);
    naive_product(x, p);
    if (banded) x->math->matmul_banded(c, a, p->a_transposed, p->band, b, p->b_transposed, p->accumulate);
    else x->math->matmul(c, a, p->a_transposed, b, p->b_transposed, p->alpha, p->accumulate);
    compare(x, 2, p->rows, p->cols, banded ? "matmul_banded" : "matmul");
}

/* Depths around the 256 elements that are packed at a time; a transposed operand has its rows there, so it needs depth <= LD. */
static void check_products(Context *x, uint32_t rows, uint32_t cols)
{
    static const uint32_t depths[] = {1, 2, 3, 5, 8, 17, 31, 33, 64, 70};
    const VisibleBand all = {1, 0};
    for (int way = 0; way < 8; way++) {
        Product p = {rows, cols, depths[(rows + (uint32_t)way) % 10], way & 1, way & 2, way & 4, rows % 3 ? 1.0 : 0.125, all};
        check_product(x, &p, rows % 2 ? MILD : ANY);
        const int64_t first = (int64_t)random_between(&x->random, 0, 2 * rows) - (int64_t)rows;
        p.band = (VisibleBand){first, first + (int64_t)random_between(&x->random, 0, rows)};
        p.alpha = 1.0;
        check_product(x, &p, rows % 2 ? MILD : ANY);
    }
    const Product deep = {rows, 5, 255 + rows % 5, false, true, false, 1.0, all};
    if (rows % 10 == 0) check_product(x, &deep, FINITE);
}

/* Aᵀ with more than PACK_DEPTH (256) rows: its own small field, because LD is shorter than that. */
static void check_deep_transposed(Context *x)
{
    enum { DEPTH = 523, ROWS = 37, COLS = 6, A_LD = 544 };
    double *a = alloc_array(&x->alloc, A_LD * ROWS, sizeof *a, "A", &(Status){0});
    float *a_f32 = alloc_array(&x->alloc, A_LD * ROWS, sizeof *a_f32, "A", &(Status){0});
    double *b = alloc_array(&x->alloc, A_LD * COLS, sizeof *b, "B", &(Status){0});
    float *b_f32 = alloc_array(&x->alloc, A_LD * COLS, sizeof *b_f32, "B", &(Status){0});
    const bool is_f32 = x->math->real_bytes == sizeof(float);
    for (int i = 0; i < A_LD * ROWS; i++) a[i] = a_f32[i] = (float)random_value(x, FINITE);
    for (int i = 0; i < A_LD * COLS; i++) b[i] = b_f32[i] = (float)random_value(x, FINITE);
    const Matrix c = tile(x, 2, ROWS, COLS, ANY);
    for (int j = 0; j < COLS; j++)
        for (int i = 0; i < ROWS; i++) {
            double sum = 0;
            for (int k = 0; k < DEPTH; k++) sum = rounded(x, sum + rounded(x, a[i * A_LD + k] * b[j * A_LD + k]));
            *naive(x, 2, (uint32_t)i, (uint32_t)j) = sum;
        }
    x->math->matmul(c, (Matrix){is_f32 ? (void *)a_f32 : a, DEPTH, ROWS, A_LD}, true,
                    (Matrix){is_f32 ? (void *)b_f32 : b, DEPTH, COLS, A_LD}, false, 1.0, false);
    snprintf(x->what, sizeof x->what, "A^T of depth %d", DEPTH);
    compare(x, 2, ROWS, COLS, "matmul");
    void *const blocks[] = {a, a_f32, b, b_f32};
    for (int i = 0; i < 4; i++) alloc_free(&x->alloc, blocks[i]);
}

/* 0 * NaN: rows that do not see the key whose V is NaN stay finite, to the bit. */
static void check_nan_behind_mask(Context *x)
{
    enum { N = 9 };
    for (int transposed = 0; transposed < 2; transposed++) {
        const Matrix p = tile(x, 0, N, N, FINITE), c = tile(x, 2, N, 3, ANY);
        const Matrix v = transposed ? tile(x, 1, 3, N, FINITE) : tile(x, 1, N, 3, FINITE);
        for (uint32_t j = 0; j < 3; j++) set(x, &x->arrays[1], transposed ? 6 * LD + j : j * LD + 6, NAN);      /* key 6 */
        const VisibleBand causal = {-N, 1};                                                                      /* 0 <= c <= r */
        x->math->hide(p, causal, 0.0);
        x->math->matmul_banded(c, p, false, causal, v, transposed, false);
        for (uint32_t r = 0; r < N; r++)
            check_true(&x->test, isnan(get(x, &x->arrays[2], r)) == (r >= 6), "only rows from 6 on see the NaN");
    }
}

/* ------------------------------------------------------------------------------------------------------------- element-wise */

static void check_fill_and_hide(Context *x, uint32_t rows, uint32_t cols)
{
    const Matrix a = tile(x, 0, rows, cols, ANY);
    const int64_t first = (int64_t)random_between(&x->random, 0, 2 * rows) - (int64_t)rows;
    const VisibleBand band = {first, first + (int64_t)random_between(&x->random, 0, rows)};
    for (uint32_t c = 0; c < cols; c++)
        for (uint32_t r = 0; r < rows; r++)
            if ((int64_t)c < band.first + r || (int64_t)c >= band.last + r) *naive(x, 0, r, c) = -INFINITY;
    x->math->hide(a, band, -INFINITY);
    compare(x, 0, rows, cols, "hide");
    for (uint32_t c = 0; c < cols; c++)
        for (uint32_t r = 0; r < rows; r++) *naive(x, 0, r, c) = rounded(x, 0.1);
    x->math->fill(a, 0.1);
    compare(x, 0, rows, cols, "fill");
}

static void check_copy(Context *x, uint32_t rows, uint32_t cols)
{
    static const ElementType types[] = {ELEMENT_F64, ELEMENT_F32, ELEMENT_BF16, ELEMENT_FP16, ELEMENT_E4M3, ELEMENT_E5M2};
    const ElementType type = types[rows % 6];
    const Matrix a = tile(x, 0, rows, cols, ANY), b = tile(x, 1, rows, cols, ANY);
    for (uint32_t c = 0; c < cols; c++)
        for (uint32_t r = 0; r < rows; r++) {
            float value = (float)*naive(x, 0, r, c);
            round_elements(type, &value, 1);
            *naive(x, 1, r, c) = x->math->real_bytes == sizeof(float) ? (double)value : *naive(x, 0, r, c);
        }
    snprintf(x->what, sizeof x->what, "to %s", element_name(type));
    x->math->copy(b, a, type);
    compare(x, 1, rows, cols, "copy");
    memcpy(x->arrays[0].naive, x->arrays[1].naive, sizeof x->arrays[0].naive);
    x->math->copy(a, a, type);                              /* in place: P over S */
    compare(x, 0, rows, cols, "copy in place");
}

typedef enum {
    ADD,
    MULTIPLY,
    MAXIMUM,
    SCALE,
    SCALE_ROWS,
    WEIGH_ROWS,
    SUBTRACT_ROWS,
    DIVIDE_ROWS,
    EXP_ROWS,
    KEEP_SCALED,
    BINARY_COUNT
} Binary;
static const char *const binary_names[] = {"add",           "multiply",    "maximum",  "scale",      "scale_rows",
                                           "weigh_rows",    "subtract_rows", "divide_rows", "exp_rows", "keep_scaled"};
static const double factor = 0.7;

static double exponential(const Context *x, double value)
{
    return x->math->real_bytes == sizeof(float) ? (double)exp_f32((float)value) : exp_f64(value);
}

/* a op b, b a tile or (for the row operations) one value per row. */
static double naive_binary(const Context *x, Binary operation, double a, double b)
{
    switch (operation) {
    case ADD: return rounded(x, a + b);
    case MULTIPLY: return rounded(x, a * b);
    case MAXIMUM: return a > b ? a : b;
    case SCALE: return rounded(x, a * rounded(x, factor));
    case SCALE_ROWS: return rounded(x, a * b);
    case WEIGH_ROWS: return b == -INFINITY ? 0 : rounded(x, a * b);
    case SUBTRACT_ROWS: return rounded(x, a - b);
    case DIVIDE_ROWS: return b == 0 ? 0 : rounded(x, a / b);
    case EXP_ROWS: return exponential(x, rounded(x, a - (b == -INFINITY ? 0 : b)));
    case KEEP_SCALED: return b != 0 ? rounded(x, a * rounded(x, factor)) : 0;
    case BINARY_COUNT: break;
    }
    return NAN;
}

/* y = a op b; operations that change a in place get y = a. */
static void run_binary(const TileMath *math, Binary operation, Matrix y, Matrix a, Matrix b)
{
    switch (operation) {
    case ADD: math->add(a, b); break;
    case MULTIPLY: math->multiply(y, a, b); break;
    case MAXIMUM: math->maximum(y, a, b); break;
    case SCALE: math->scale(a, factor); break;
    case SCALE_ROWS: math->scale_rows(a, b); break;
    case WEIGH_ROWS: math->weigh_rows(a, b, b); break;
    case SUBTRACT_ROWS: math->subtract_rows(a, b); break;
    case DIVIDE_ROWS: math->divide_rows(a, b); break;
    case EXP_ROWS: math->exp_rows(y, a, b); break;
    case KEEP_SCALED: math->keep_scaled(y, a, b, factor); break;
    case BINARY_COUNT: break;
    }
}

static void check_binary(Context *x, Binary operation, uint32_t rows, uint32_t cols, bool in_place)
{
    const bool by_row = operation >= SCALE_ROWS && operation <= EXP_ROWS;
    const bool always_in_place = operation == ADD || (operation >= SCALE && operation <= DIVIDE_ROWS);
    const Matrix a = tile(x, 0, rows, cols, ANY), b = tile(x, 1, rows, by_row ? 1 : cols, ANY), y = tile(x, 2, rows, cols, ANY);
    const int to = in_place || always_in_place ? 0 : 2;
    for (uint32_t c = 0; c < cols; c++)
        for (uint32_t r = 0; r < rows; r++)
            *naive(x, to, r, c) = naive_binary(x, operation, *naive(x, 0, r, c), *naive(x, 1, r, by_row ? 0 : c));
    snprintf(x->what, sizeof x->what, "%s", to == 0 ? "in place" : "into another tile");
    run_binary(x->math, operation, to == 0 ? a : y, a, b);
    compare(x, to, rows, cols, binary_names[operation]);
}

/* --------------------------------------------------------------------------------------------------------------- one per row */

/* The maximum passes NaN elements over; a running maximum may be updated in place. */
static void check_row_max(Context *x, uint32_t rows, uint32_t cols, bool in_place)
{
    const Matrix a = tile(x, 0, rows, cols, ANY), old = tile(x, 1, rows, 1, ANY), new = tile(x, 2, rows, 1, ANY);
    const int to = in_place ? 1 : 2;
    for (uint32_t r = 0; r < rows; r++) {
        double m = *naive(x, 1, r, 0);
        for (uint32_t c = 0; c < cols; c++)
            if (*naive(x, 0, r, c) > m) m = *naive(x, 0, r, c);
        *naive(x, to, r, 0) = m;
    }
    x->math->row_max(in_place ? old : new, old, a);
    compare(x, to, rows, 1, "row_max");
}

/* A group of rows keeps the old maxima until one of them has grown by more than the threshold. */
static void check_row_max_lagging(Context *x, uint32_t rows, uint32_t cols, double threshold, uint32_t group)
{
    const Matrix a = tile(x, 0, rows, cols, rows % 2 ? MILD : ANY), old = tile(x, 1, rows, 1, rows % 2 ? MILD : ANY);
    const Matrix new = tile(x, 2, rows, 1, ANY);
    uint32_t moved = 0;
    for (uint64_t first = 0; first < rows; first += group) {
        const uint32_t start = (uint32_t)first, end = first + group < rows ? start + group : rows;
        bool moves = false;
        for (uint32_t r = start; r < end; r++) {
            const double before = *naive(x, 1, r, 0);
            double m = before;
            for (uint32_t c = 0; c < cols; c++)
                if (*naive(x, 0, r, c) > m) m = *naive(x, 0, r, c);
            *naive(x, 2, r, 0) = m;
            if (m > before && (before == -INFINITY || rounded(x, m - before) > rounded(x, threshold))) moves = true;
        }
        for (uint32_t r = start; r < end && !moves; r++) *naive(x, 2, r, 0) = *naive(x, 1, r, 0);
        moved += moves;
    }
    check_u64(&x->test, x->math->row_max_lagging(new, old, a, threshold, group), moved, "row_max_lagging: groups that moved");
    compare(x, 2, rows, 1, "row_max_lagging");
}

static double polynomial(const Context *x, double value)
{
    const double log2_e = rounded(x, 0x1.71547652b82fep+0), exponent = rounded(x, value * log2_e);
    return x->math->real_bytes == sizeof(float) ? (double)poly_exp2_f32_inline((float)exponent) : poly_exp2_f64_inline(exponent);
}

static void check_exp_rows_mixed(Context *x, uint32_t rows, uint32_t cols, uint32_t sixteenths)
{
    const Matrix a = tile(x, 0, rows, cols, ANY), m = tile(x, 1, rows, 1, ANY), y = tile(x, 2, rows, cols, ANY);
    for (uint32_t c = 0; c < cols; c++)
        for (uint32_t r = 0; r < rows; r++) {
            const double reference = *naive(x, 1, r, 0);
            const double difference = rounded(x, *naive(x, 0, r, c) - (reference == -INFINITY ? 0 : reference));
            *naive(x, 2, r, c) = c % 16 < sixteenths ? polynomial(x, difference) : exponential(x, difference);
        }
    x->math->exp_rows_mixed(y, a, m, sixteenths);
    compare(x, 2, rows, cols, "exp_rows_mixed");
}

static void check_row_sum(Context *x, uint32_t rows, uint32_t cols, bool scaled)
{
    const Matrix a = tile(x, 0, rows, cols, rows % 2 ? MILD : ANY), alpha = tile(x, 1, rows, 1, ANY),
                 l = tile(x, 2, rows, 1, ANY);
    for (uint32_t r = 0; r < rows; r++) {
        double sum = 0;
        for (uint32_t c = 0; c < cols; c++) sum = rounded(x, sum + *naive(x, 0, r, c));
        *naive(x, 2, r, 0) = scaled ? rounded(x, rounded(x, *naive(x, 1, r, 0) * *naive(x, 2, r, 0)) + sum) : sum;
    }
    x->math->row_sum(l, scaled ? alpha : (Matrix){0}, a);
    compare(x, 2, rows, 1, scaled ? "row_sum scaled" : "row_sum");
}

static void check_row_dot(Context *x, uint32_t rows, uint32_t cols)
{
    const Matrix a = tile(x, 0, rows, cols, rows % 2 ? MILD : ANY), b = tile(x, 1, rows, cols, ANY), d = tile(x, 2, rows, 1, ANY);
    for (uint32_t r = 0; r < rows; r++) {
        double sum = 0;
        for (uint32_t c = 0; c < cols; c++) sum = rounded(x, sum + rounded(x, *naive(x, 0, r, c) * *naive(x, 1, r, c)));
        *naive(x, 2, r, 0) = sum;
    }
    x->math->row_dot(d, a, b);
    compare(x, 2, rows, 1, "row_dot");
}

static void check_row_functions(Context *x, uint32_t rows)
{
    const Matrix m = tile(x, 0, rows, 1, ANY), l = tile(x, 1, rows, 1, ANY), y = tile(x, 2, rows, 1, ANY);
    for (uint32_t r = 0; r < rows; r++) {
        const double old = *naive(x, 0, r, 0), new = *naive(x, 1, r, 0);
        *naive(x, 2, r, 0) = old == -INFINITY ? 0 : exponential(x, rounded(x, old - new));
    }
    x->math->exp_difference(y, m, l);
    compare(x, 2, rows, 1, "exp_difference");
    for (uint32_t r = 0; r < rows; r++) {
        const double sum = *naive(x, 1, r, 0),
                     log_sum = x->math->real_bytes == sizeof(float) ? (double)log_f32((float)sum) : log_f64(sum);
        *naive(x, 2, r, 0) = sum == 0 ? -INFINITY : rounded(x, *naive(x, 0, r, 0) + log_sum);
    }
    x->math->log_sum_exp(y, m, l);
    compare(x, 2, rows, 1, "log_sum_exp");
}

/* ---------------------------------------------------------------------------------------------------------------- memory */

/* Row-major memory is an Array too; with a row stride above the columns, rows are not adjacent. */
static void check_load(Context *x, uint32_t rows, uint32_t cols, Values values)
{
    const uint64_t stride = cols + rows % 7;
    const Matrix to = tile(x, 0, rows, cols, ANY);
    Array *memory = field_of_nan(x, 1, rows * stride);
    bool nonfinite = false;
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < cols; c++) {
            set(x, memory, r * stride + c, random_value(x, values));
            *naive(x, 0, r, c) = memory->naive[r * stride + c];
            nonfinite = nonfinite || !isfinite(*naive(x, 0, r, c));
        }
    check_true(&x->test, x->math->load(to, &memory->data, stride) == nonfinite, "load says whether a value was not finite");
    compare(x, 0, rows, cols, "load");
}

/* Each of the three values that are not finite is seen wherever it stands. */
static void check_nonfinite(Context *x)
{
    static const double specials[] = {NAN, INFINITY, -INFINITY};
    for (uint32_t at = 0; at < 19 * 5; at++) {
        for (uint32_t i = 0; i < 19 * 5; i++) set(x, &x->arrays[1], i, i == at ? specials[at % 3] : -1e30);
        check_true(&x->test, x->math->load(tile(x, 0, 19, 5, ANY), &x->arrays[1].data, 5), "a value that is not finite is seen");
    }
}

/* store rounds, accumulate adds; neither touches what lies between the rows. */
static void check_store(Context *x, uint32_t rows, uint32_t cols, bool accumulate)
{
    const uint64_t stride = cols + rows % 7;
    const ElementType type = accumulate ? ELEMENT_F32 : rows % 2 ? ELEMENT_BF16 : ELEMENT_FP16;
    const Matrix from = tile(x, 0, rows, cols, ANY);
    Array *memory = &x->arrays[1];
    for (uint64_t i = 0; i < rows * stride; i++) set(x, memory, i, random_value(x, FINITE));
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < cols; c++) {
            double *want = &memory->naive[r * stride + c];
            float value = (float)*naive(x, 0, r, c);
            round_elements(type, &value, 1);
            if (accumulate) *want = rounded(x, *want + *naive(x, 0, r, c));
            else *want = x->math->real_bytes == sizeof(float) ? (double)value : *naive(x, 0, r, c);
        }
    if (accumulate) x->math->accumulate(&memory->data, stride, from);
    else x->math->store(&memory->data, stride, from, type);
    for (uint64_t i = 0; i < rows * stride; i++)
        check_u64(&x->test, bits_of(get(x, memory, i)), bits_of(memory->naive[i]), accumulate ? "accumulate" : "store");
}

static void check_variant(Context *x)
{
    for (uint32_t rows = 1; rows <= MOST_ROWS; rows++) {
        const uint32_t cols = 2 * (uint32_t)random_between(&x->random, 0, 12) + 1;
        check_products(x, rows, cols);
        for (int in_place = 0; in_place < 2; in_place++)
            for (int operation = 0; operation < BINARY_COUNT; operation++)
                check_binary(x, (Binary)operation, rows, cols, in_place);
        x->what[0] = '\0';
        check_fill_and_hide(x, rows, cols);
        check_copy(x, rows, cols);
        x->what[0] = '\0';
        check_row_max(x, rows, cols, rows % 3 == 0);
        for (size_t g = 0; g < 5; g++) check_row_max_lagging(x, rows, cols, rows % 5, (const uint32_t[]){1, 7, 32, 128, UINT32_MAX}[g]);
        check_exp_rows_mixed(x, rows, cols, rows % 17);
        check_row_sum(x, rows, cols, false);
        check_row_sum(x, rows, cols, true);
        check_row_dot(x, rows, cols);
        check_row_functions(x, rows);
        check_load(x, rows, cols, rows % 2 ? MILD : ANY);
        check_store(x, rows, cols, false);
        check_store(x, rows, cols, true);
    }
    check_deep_transposed(x);
    check_nan_behind_mask(x);
    check_nonfinite(x);
}

/* ------------------------------------------------------------------------------------------------------ the bits of a whole run
 */

/* FNV-1a over the bits of the values as float64. */
static void hash_tensor(uint64_t *hash, const Machine *machine, const Tensor *tensor)
{
    for (uint64_t i = 0; tensor != NULL && i < tensor_elements(tensor); i++) {
        const uint64_t bits = bits_from_f64(tensor_value(machine, tensor, i));
        for (int byte = 0; byte < 8; byte++) *hash = (*hash ^ (bits >> (8 * byte) & 255)) * UINT64_C(0x100000001b3);
    }
}

static uint64_t hash_run(Context *x, const Algorithm *algorithm, ElementType dtype, const TileMath *math)
{
    Status status = {0};
    Profile chip;
    AttentionRun run;
    AttentionShape shape = attention_shape(150, 40);
    shape.heads = 2;
    shape.mask = MASK_CAUSAL;
    shape.dtype = dtype;
    profile_load("unbounded", &x->alloc, &chip, &status);
    const RunSetup setup = {algorithm, &chip, {64, 48}, {.mode = MODE_NUMERIC, .l2 = L2_IDEAL, .math = math}};
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    if (attention_run_prepare(&run, &setup, &shape, &x->alloc, &status)) {
        attention_random_inputs(&run.attention, &run.machine, 1);
        attention_run_forward(&run);
        hash_tensor(&hash, &run.machine, run.attention.O);
        hash_tensor(&hash, &run.machine, run.attention.L);
    }
    check_text(&x->test, status.text, "", "a run whose bits are known");
    attention_run_free(&run);
    return hash;
}

static void check_hashes(Context *x, bool print)
{
    static const struct {
        const char *name;
        const Algorithm *algorithm;
        ElementType dtype;
        uint64_t hash;
    } runs[] = {
        {"fa2, f64", &algorithm_fa2, ELEMENT_F64, UINT64_C(0xbfc29b1d514c0bd5)},
        {"fa2, f32", &algorithm_fa2, ELEMENT_F32, UINT64_C(0x185d216dfa2c3a19)},
        {"fa2, bf16", &algorithm_fa2, ELEMENT_BF16, UINT64_C(0x61ccdb32dcdf47c4)},
        {"fa1, fp16", &algorithm_fa1, ELEMENT_FP16, UINT64_C(0x89f2bc16466d9e88)},
        {"standard, bf16", &algorithm_standard, ELEMENT_BF16, UINT64_C(0x3885f63501f1c609)},
    };
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        const Precision precision = runs[i].dtype == ELEMENT_F64 ? PRECISION_F64 : PRECISION_F32;
        for (size_t variant = 0; variant < tile_math_count(precision); variant++) {
            const TileMath *math = tile_math_variant(precision, variant);
            const uint64_t hash = hash_run(x, runs[i].algorithm, runs[i].dtype, math);
            char what[80];
            snprintf(what, sizeof what, "bits of %s with %s", runs[i].name, math->name);
            check_u64(&x->test, hash, runs[i].hash, what);
            if (print) printf("%s: 0x%016" PRIx64 "\n", what, hash);
        }
    }
}

int main(int argc, char **argv)
{
    Context x = {.random = 1};
    x.arrays = alloc_array(&x.alloc, ARRAYS, sizeof *x.arrays, "arrays", &(Status){0});
    for (int precision = PRECISION_F32; precision <= PRECISION_F64; precision++) {
        const size_t count = tile_math_count((Precision)precision);
        check_true(&x.test, tile_math_select((Precision)precision) == tile_math_variant((Precision)precision, count - 1),
                   "the widest is chosen");
        for (size_t i = 0; i < count; i++) {
            x.math = tile_math_variant((Precision)precision, i);
            check_variant(&x);
        }
    }
    check_hashes(&x, argc == 2 && strcmp(argv[1], "--hash") == 0);
    alloc_free(&x.alloc, x.arrays);
    check_u64(&x.test, x.alloc.live_bytes, 0, "bytes still allocated at the end");
    return test_end(&x.test, "tile_math");
}
