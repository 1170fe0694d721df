/* tile_math_body.h - the one source of the tile arithmetic; included by tile_math_f32.c and tile_math_f64.c, which define
 *   REAL            float or double
 *   EXP, EXP_SCALED branch-free exponential e^x of math_inline.h
 *   POLY_EXP2       2^x by polynomial (poly_exp.h)
 *   LOG             natural logarithm
 *   ROUND_STRIP     (to, from, type): TILE_ROW_ALIGNMENT values rounded to an element type
 *   TABLE           name of the resulting TileMath, TABLE_NAME its text
 *
 * The matrix product is the outer-product form: a 32 x 4 block of C stays in registers while k runs, 32 rows wide. Measured on one
 * core of a 2.3 GHz Sapphire Rapids (build/bin/benchmark): 25 GFLOP/s with SSE2, 42-57 with AVX2, 85-90 with AVX-512.
 */
#include "keep_loop.h"

#include <math.h>
#include <string.h>

enum { MR = TILE_ROW_ALIGNMENT, NR = 4, PACK_DEPTH = 256 };

static REAL *column(Matrix x, uint32_t c) { return (REAL *)x.data + (uint64_t)c * x.ld; }

/* A strip of two vectors x NR columns: its sums fit the registers. The width changes no bit, only the speed. */
#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64 };
#elif defined(__AVX2__)
enum { VECTOR_BYTES = 32 };
#else
enum { VECTOR_BYTES = 16 };
#endif
enum { STRIP = 2 * VECTOR_BYTES / (int)sizeof(REAL) };

/* acc[NR][STRIP] += A(:, 0..depth) B(0..depth, :) for STRIP rows and NR columns; a advances by lda per k, b by b_k per k and b_j per column. */
static void strip_product(REAL *restrict c, uint64_t ldc, const REAL *restrict a, uint64_t lda, const REAL *restrict b, uint64_t b_k,
                          uint64_t b_j, uint32_t depth)
{
    REAL acc[NR][STRIP];
    for (int j = 0; j < NR; j++)
        KEEP_LOOP
        for (int i = 0; i < STRIP; i++) acc[j][i] = c[(uint64_t)j * ldc + (uint64_t)i];
    for (uint32_t k = 0; k < depth; k++) {
        for (int j = 0; j < NR; j++) {
            const REAL scalar = b[k * b_k + (uint64_t)j * b_j];
            KEEP_LOOP
            for (int i = 0; i < STRIP; i++) acc[j][i] += a[k * lda + (uint64_t)i] * scalar;
        }
    }
    for (int j = 0; j < NR; j++)
        KEEP_LOOP
        for (int i = 0; i < STRIP; i++) c[(uint64_t)j * ldc + (uint64_t)i] = acc[j][i];
}

/* The same for MR rows. */
static void block_product(REAL *restrict c, uint64_t ldc, const REAL *restrict a, uint64_t lda, const REAL *restrict b, uint64_t b_k,
                          uint64_t b_j, uint32_t depth)
{
    for (int i = 0; i < MR; i += STRIP) strip_product(c + i, ldc, a + i, lda, b, b_k, b_j, depth);
}

/* The same for one column: the tail of a column count that is not a multiple of NR. */
static void column_product(REAL *restrict c, const REAL *restrict a, uint64_t lda, const REAL *restrict b, uint64_t b_k, uint32_t depth)
{
    REAL acc[MR];
    for (int i = 0; i < MR; i++) acc[i] = c[i];
    for (uint32_t k = 0; k < depth; k++) {
        const REAL scalar = b[k * b_k];
        for (int i = 0; i < MR; i++) acc[i] += a[k * lda + (uint64_t)i] * scalar;
    }
    for (int i = 0; i < MR; i++) c[i] = acc[i];
}

static void panel_product(Matrix c, uint32_t row, const REAL *a, uint64_t lda, const REAL *b, uint64_t b_k, uint64_t b_j, uint32_t depth)
{
    uint32_t j = 0;
    for (; j + NR <= c.cols; j += NR) block_product(column(c, j) + row, c.ld, a, lda, b + j * b_j, b_k, b_j, depth);
    for (; j < c.cols; j++) column_product(column(c, j) + row, a, lda, b + j * b_j, b_k, depth);
}

static void fill(Matrix x, double value)
{
    for (uint32_t c = 0; c < x.cols; c++) {
        REAL *restrict column_c = column(x, c);
        for (uint32_t r = 0; r < x.rows; r++) column_c[r] = (REAL)value;
    }
}

static void scale(Matrix x, double factor)
{
    const REAL f = (REAL)factor;
    for (uint32_t c = 0; c < x.cols; c++) {
        REAL *restrict column_c = column(x, c);
        for (uint32_t r = 0; r < x.rows; r++) column_c[r] *= f;
    }
}

/* Rows row..row+MR of Aᵀ, columns k0..k0+depth, made contiguous; rows past the end are zero. */
static void pack_transposed(REAL *packed, Matrix a, uint32_t row, uint32_t k0, uint32_t depth)
{
    for (uint32_t i = 0; i < MR; i++) {
        const REAL *source = row + i < a.cols ? column(a, row + i) + k0 : NULL;
        for (uint32_t k = 0; k < depth; k++) packed[k * MR + i] = source != NULL ? source[k] : (REAL)0;
    }
}

static void matmul(Matrix c, Matrix a, bool a_transposed, Matrix b, bool b_transposed, double alpha, bool accumulate)
{
    const uint32_t depth = a_transposed ? a.rows : a.cols;
    const uint64_t b_k = b_transposed ? b.ld : 1, b_j = b_transposed ? 1 : b.ld;
    const REAL *b_data = b.data;
    if (!accumulate) {
        const Matrix padded = {c.data, (c.rows + MR - 1) / MR * MR, c.cols, c.ld};
        fill(padded, 0.0);
    }
    for (uint32_t row = 0; row < c.rows; row += MR) {
        if (!a_transposed) {
            panel_product(c, row, column(a, 0) + row, a.ld, b_data, b_k, b_j, depth);
            continue;
        }
        REAL packed[PACK_DEPTH * MR];
        for (uint32_t k0 = 0; k0 < depth; k0 += PACK_DEPTH) {
            const uint32_t part = depth - k0 < PACK_DEPTH ? depth - k0 : PACK_DEPTH;
            pack_transposed(packed, a, row, k0, part);
            panel_product(c, row, packed, MR, b_data + k0 * b_k, b_k, b_j, part);
        }
    }
    if (!accumulate && alpha != 1.0) scale(c, alpha);
}

static void matmul_banded(Matrix c, Matrix a, bool a_transposed, VisibleBand band, Matrix b, bool b_transposed, bool accumulate)
{
    const uint32_t depth = a_transposed ? a.rows : a.cols;
    if (!accumulate) fill(c, 0.0);
    for (uint32_t j = 0; j < c.cols; j++)
        for (uint32_t i = 0; i < c.rows; i++)
            for (uint32_t k = 0; k < depth; k++) {
                const uint32_t r = a_transposed ? k : i, col = a_transposed ? i : k;
                if ((int64_t)col < band.first + (int64_t)r || (int64_t)col >= band.last + (int64_t)r) continue;
                column(c, j)[i] += column(a, col)[r] * (b_transposed ? column(b, k)[j] : column(b, j)[k]);
            }
}

static void copy(Matrix y, Matrix x, ElementType rounding)
{
    const bool keeps_bits = rounding == ELEMENT_F64 || (rounding == ELEMENT_F32 && sizeof(REAL) == sizeof(float));
    if (keeps_bits && y.data == x.data && y.ld == x.ld) return;     /* P over S in the same precision */
    for (uint32_t c = 0; c < x.cols; c++)
        for (uint32_t row = 0; row < x.rows; row += MR) {
            REAL rounded[MR];
            ROUND_STRIP(rounded, column(x, c) + row, rounding);
            for (int i = 0; i < MR; i++) column(y, c)[row + (uint32_t)i] = rounded[i];
        }
}

static void add(Matrix y, Matrix x)
{
    for (uint32_t c = 0; c < x.cols; c++) {
        const REAL *restrict from = column(x, c);
        REAL *restrict to = column(y, c);
        for (uint32_t r = 0; r < x.rows; r++) to[r] += from[r];
    }
}

static void hide(Matrix x, VisibleBand band, double value)
{
    for (uint32_t c = 0; c < x.cols; c++)
        for (uint32_t r = 0; r < x.rows; r++)
            if ((int64_t)c < band.first + (int64_t)r || (int64_t)c >= band.last + (int64_t)r) column(x, c)[r] = (REAL)value;
}

static void row_max(Matrix m_new, Matrix m_old, Matrix x)
{
    REAL *m = column(m_new, 0);
    const REAL *old = column(m_old, 0);
    for (uint32_t r = 0; r < x.rows; r++) m[r] = old[r];
    for (uint32_t c = 0; c < x.cols; c++) {
        const REAL *restrict values = column(x, c);
        REAL *restrict running = m;
        for (uint32_t r = 0; r < x.rows; r++) running[r] = values[r] > running[r] ? values[r] : running[r];
    }
}

/* A 32-row strip at a time: the strip's sums stay in registers while the columns go by. */
static void row_sum(Matrix l, Matrix alpha, Matrix x)
{
    REAL *l_rows = column(l, 0);
    for (uint32_t row = 0; row < x.rows; row += MR) {
        REAL sum[MR] = {0};
        for (uint32_t c = 0; c < x.cols; c++) {
            const REAL *restrict values = column(x, c) + row;
            for (int i = 0; i < MR; i++) sum[i] += values[i];
        }
        REAL total[MR];                     /* indexed by a variable below: a copy lets sum[] itself live in registers */
        for (int i = 0; i < MR; i++) total[i] = sum[i];
        for (uint32_t i = 0; i < MR && row + i < x.rows; i++) {
            const uint32_t r = row + i;
            l_rows[r] = alpha.data != NULL ? column(alpha, 0)[r] * l_rows[r] + total[i] : total[i];
        }
    }
}

static void exp_rows(Matrix y, Matrix x, Matrix m)
{
    const REAL *m_rows = column(m, 0);
    for (uint32_t row = 0; row < x.rows; row += MR) {
        const uint32_t count = x.rows - row < MR ? x.rows - row : MR;
        REAL reference[MR] = {0};
        for (uint32_t i = 0; i < count; i++) reference[i] = m_rows[row + i] == (REAL)-INFINITY ? (REAL)0 : m_rows[row + i];
        for (uint32_t c = 0; c < x.cols; c++) {
            const REAL *from = column(x, c) + row;
            REAL *to = column(y, c) + row;
            REAL result[MR];                /* y may be x: without it the compiler must assume that they overlap */
            for (int i = 0; i < MR; i++) result[i] = EXP(from[i] - reference[i]);
            for (int i = 0; i < MR; i++) to[i] = result[i];
        }
    }
}

/* Columns c with c % 16 < sixteenths go through the polynomial, in base 2. */
static void exp_rows_mixed(Matrix y, Matrix x, Matrix m, uint32_t sixteenths)
{
    const REAL *m_rows = column(m, 0);
    const REAL log2_e = (REAL)0x1.71547652b82fep+0;
    for (uint32_t c = 0; c < x.cols; c++) {
        const REAL *from = column(x, c);
        REAL *to = column(y, c);
        const bool polynomial = c % 16 < sixteenths;
        for (uint32_t r = 0; r < x.rows; r++) {
            const REAL difference = from[r] - (m_rows[r] == (REAL)-INFINITY ? (REAL)0 : m_rows[r]);
            to[r] = polynomial ? POLY_EXP2(difference * log2_e) : EXP(difference);
        }
    }
}

static uint32_t row_max_lagging(Matrix m_new, Matrix m_old, Matrix x, double threshold, uint32_t group)
{
    REAL *fresh = column(m_new, 0);
    const REAL *old = column(m_old, 0);
    uint32_t moved = 0;
    row_max(m_new, m_old, x);
    for (uint32_t row = 0; row < x.rows; row += group) {
        const uint32_t end = x.rows - row < group ? x.rows : row + group;
        bool moves = false;
        for (uint32_t r = row; r < end; r++)
            if (fresh[r] > old[r] && (old[r] == (REAL)-INFINITY || fresh[r] - old[r] > (REAL)threshold)) moves = true;
        for (uint32_t r = row; r < end && !moves; r++) fresh[r] = old[r];
        moved += moves;
        if (end == x.rows) break;               /* row + group might leave 32 bits */
    }
    return moved;
}

static void exp_difference(Matrix alpha, Matrix m_old, Matrix m_new)
{
    for (uint32_t r = 0; r < alpha.rows; r++) {
        const REAL old = column(m_old, 0)[r];
        column(alpha, 0)[r] = old == (REAL)-INFINITY ? (REAL)0 : EXP(old - column(m_new, 0)[r]);
    }
}

static void scale_rows(Matrix x, Matrix factor)
{
    const REAL *restrict f = column(factor, 0);
    for (uint32_t c = 0; c < x.cols; c++) {
        REAL *restrict values = column(x, c);
        for (uint32_t r = 0; r < x.rows; r++) values[r] *= f[r];
    }
}

static void scale_cols(Matrix x, Matrix factor)
{
    for (uint32_t c = 0; c < x.cols; c++) {
        REAL *restrict values = column(x, c);
        const REAL f = column(factor, 0)[c];
        for (uint32_t r = 0; r < x.rows; r++) values[r] *= f;
    }
}

static void weigh_rows(Matrix x, Matrix weight, Matrix lse)
{
    const REAL *restrict f = column(weight, 0), *restrict logsumexp = column(lse, 0);
    for (uint32_t c = 0; c < x.cols; c++) {
        REAL *restrict values = column(x, c);
        for (uint32_t r = 0; r < x.rows; r++) values[r] = logsumexp[r] == (REAL)-INFINITY ? (REAL)0 : values[r] * f[r];
    }
}

static void subtract_rows(Matrix x, Matrix d)
{
    const REAL *restrict subtrahend = column(d, 0);
    for (uint32_t c = 0; c < x.cols; c++) {
        REAL *restrict values = column(x, c);
        for (uint32_t r = 0; r < x.rows; r++) values[r] -= subtrahend[r];
    }
}

static void row_dot(Matrix d, Matrix x, Matrix y)
{
    REAL *restrict sum = column(d, 0);
    for (uint32_t r = 0; r < x.rows; r++) sum[r] = (REAL)0;
    for (uint32_t c = 0; c < x.cols; c++) {
        const REAL *restrict a = column(x, c), *restrict b = column(y, c);
        for (uint32_t r = 0; r < x.rows; r++) sum[r] += a[r] * b[r];
    }
}

static void divide_rows(Matrix x, Matrix l)
{
    const REAL *restrict divisor = column(l, 0);
    for (uint32_t c = 0; c < x.cols; c++) {
        REAL *restrict values = column(x, c);
        for (uint32_t r = 0; r < x.rows; r++) values[r] = divisor[r] == (REAL)0 ? (REAL)0 : values[r] / divisor[r];
    }
}

static void multiply(Matrix y, Matrix a, Matrix b)
{
    for (uint32_t c = 0; c < y.cols; c++) {
        const REAL *left = column(a, c), *right = column(b, c);
        REAL *to = column(y, c);
        for (uint32_t r = 0; r < y.rows; r++) to[r] = left[r] * right[r];
    }
}

static void keep_scaled(Matrix y, Matrix x, Matrix keep, double factor)
{
    const REAL f = (REAL)factor;
    for (uint32_t c = 0; c < y.cols; c++) {
        const REAL *from = column(x, c), *kept = column(keep, c);
        REAL *to = column(y, c);
        for (uint32_t r = 0; r < y.rows; r++) to[r] = kept[r] != (REAL)0 ? from[r] * f : (REAL)0;
    }
}

static void maximum(Matrix y, Matrix a, Matrix b)
{
    for (uint32_t c = 0; c < y.cols; c++)
        for (uint32_t r = 0; r < y.rows; r++)
            column(y, c)[r] = column(a, c)[r] > column(b, c)[r] ? column(a, c)[r] : column(b, c)[r];
}

static void log_sum_exp(Matrix lse, Matrix m, Matrix l)
{
    for (uint32_t r = 0; r < lse.rows; r++) {
        const REAL sum = column(l, 0)[r];
        column(lse, 0)[r] = sum == (REAL)0 ? (REAL)-INFINITY : column(m, 0)[r] + LOG(sum);
    }
}

static bool row_is_finite(const REAL *values, uint32_t count)
{
    int bad = 0;                            /* x - x is 0 for every finite x, and NaN for an infinity or a NaN */
    for (uint32_t c = 0; c < count; c++) bad |= values[c] - values[c] != (REAL)0;
    return bad == 0;
}

/* Four rows of memory become four rows of the tile: what compilers turn into vector shuffles. */
static void transpose_4x4(REAL *restrict to, uint64_t ld, const REAL *restrict from, uint64_t stride)
{
    for (uint64_t c = 0; c < 4; c++)
        for (uint64_t r = 0; r < 4; r++) to[c * ld + r] = from[r * stride + c];
}

/* Row-major memory to a column-major tile. */
static bool load(Matrix tile, const void *memory, uint64_t row_stride)
{
    const REAL *base = memory;
    bool finite = true;
    uint32_t r = 0;
    for (; r + 4 <= tile.rows; r += 4) {
        for (uint32_t i = 0; i < 4; i++) finite &= row_is_finite(base + (r + i) * row_stride, tile.cols);
        uint32_t c = 0;
        for (; c + 4 <= tile.cols; c += 4) transpose_4x4(column(tile, c) + r, tile.ld, base + r * row_stride + c, row_stride);
        for (; c < tile.cols; c++)
            for (uint32_t i = 0; i < 4; i++) column(tile, c)[r + i] = base[(r + i) * row_stride + c];
    }
    for (; r < tile.rows; r++) {
        finite &= row_is_finite(base + r * row_stride, tile.cols);
        for (uint32_t c = 0; c < tile.cols; c++) column(tile, c)[r] = base[r * row_stride + c];
    }
    return !finite;
}

static void store(void *memory, uint64_t row_stride, Matrix tile, ElementType rounding)
{
    REAL *base = memory;
    for (uint32_t c = 0; c < tile.cols; c++) {
        for (uint32_t r0 = 0; r0 < tile.rows; r0 += MR) {
            const uint32_t count = tile.rows - r0 < MR ? tile.rows - r0 : MR;
            REAL rounded[MR];
            ROUND_STRIP(rounded, column(tile, c) + r0, rounding);
            for (uint32_t i = 0; i < count; i++) base[(r0 + i) * row_stride + c] = rounded[i];
        }
    }
}

static void accumulate(void *memory, uint64_t row_stride, Matrix tile)
{
    REAL *base = memory;
    for (uint32_t c = 0; c < tile.cols; c++)
        for (uint32_t r = 0; r < tile.rows; r++) base[r * row_stride + c] += column(tile, c)[r];
}

const TileMath TABLE = {
    .name = TABLE_NAME,
    .real_bytes = sizeof(REAL),
    .matmul = matmul,
    .matmul_banded = matmul_banded,
    .fill = fill,
    .copy = copy,
    .scale = scale,
    .add = add,
    .hide = hide,
    .row_max = row_max,
    .row_sum = row_sum,
    .exp_rows = exp_rows,
    .exp_rows_mixed = exp_rows_mixed,
    .row_max_lagging = row_max_lagging,
    .exp_difference = exp_difference,
    .scale_rows = scale_rows,
    .scale_cols = scale_cols,
    .weigh_rows = weigh_rows,
    .subtract_rows = subtract_rows,
    .row_dot = row_dot,
    .divide_rows = divide_rows,
    .multiply = multiply,
    .keep_scaled = keep_scaled,
    .maximum = maximum,
    .log_sum_exp = log_sum_exp,
    .load = load,
    .store = store,
    .accumulate = accumulate,
};
