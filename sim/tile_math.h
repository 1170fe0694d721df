/* tile_math.h - the arithmetic of tiles, apart from everything that counts.
 *
 * A Matrix is column-major with the row index contiguous: element (r, c) is data[c * ld + r]. In attention a row is a query, so the
 * query row is the vector axis: every loop below runs over rows innermost, needs no reassociation to vectorise, and therefore
 * gives the same bits for any compiler, optimisation level and vector width. Sums run in ascending index order, one rounding per
 * operation (-ffp-contract=off).
 *
 * There is one source (tile_math_body.h), compiled once per precision and, where the compiler can, once more per vector extension;
 * tile_math_select() picks at run time. Rows past `rows` up to the next multiple of TILE_ROW_ALIGNMENT are scratch: they may be
 * computed, never read as results.
 */
#ifndef ATTNLAB_TILE_MATH_H
#define ATTNLAB_TILE_MATH_H

#include "formats.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TILE_ROW_ALIGNMENT = 32 };

typedef struct {
    void *data;             /* double or float, as TileMath::real_bytes says */
    uint32_t rows, cols;    /* live part */
    uint64_t ld;            /* distance between columns, a multiple of TILE_ROW_ALIGNMENT, at least rows */
} Matrix;

/* Which (row, column) pairs of a tile are visible: column c of row r iff first + r <= c < last + r. */
typedef struct {
    int64_t first, last;
} VisibleBand;

typedef enum { PRECISION_F32, PRECISION_F64 } Precision;

typedef struct {
    const char *name;       /* "f32 avx2" */
    size_t real_bytes;

    /* C = A B (+ C when accumulating), times alpha when not. A: M x K, or K x M when a_transposed; B: K x N, or N x K when
     * b_transposed. Each element is the sum over ascending k. */
    void (*matmul)(Matrix c, Matrix a, bool a_transposed, Matrix b, bool b_transposed, double alpha, bool accumulate);
    /* The same product for a banded A (M x K) whose hidden elements must not touch B at all: 0 * NaN never enters. */
    void (*matmul_banded)(Matrix c, Matrix a, bool a_transposed, VisibleBand band, Matrix b, bool b_transposed, bool accumulate);

    void (*fill)(Matrix x, double value);
    void (*copy)(Matrix y, Matrix x, ElementType rounding);         /* y = x, rounded to a format */
    void (*scale)(Matrix x, double factor);
    void (*add)(Matrix y, Matrix x);                                /* y += x */
    void (*hide)(Matrix x, VisibleBand band, double value);         /* hidden elements become value */

    /* Per-row operations; m, l, alpha, ... are rows x 1. */
    void (*row_max)(Matrix m_new, Matrix m_old, Matrix x);          /* m_new = max(m_old, max over columns); NaN elements are passed over */
    /* The same, but a group of consecutive rows (at least one) keeps m_old while none of its rows has grown by more than threshold. How many
     * groups moved. */
    uint32_t (*row_max_lagging)(Matrix m_new, Matrix m_old, Matrix x, double threshold, uint32_t group);
    void (*row_sum)(Matrix l, Matrix alpha, Matrix x);              /* l = alpha l + sum over columns; alpha.data NULL: l = sum */
    void (*exp_rows)(Matrix y, Matrix x, Matrix m);                 /* y = exp(x - m); a row with m = -inf takes 0 as its reference */
    void (*exp_rows_mixed)(Matrix y, Matrix x, Matrix m, uint32_t sixteenths); /* the same, by a polynomial in the first of each 16 columns */
    void (*exp_difference)(Matrix alpha, Matrix m_old, Matrix m_new); /* exp(m_old - m_new), 0 where m_old = -inf */
    void (*scale_rows)(Matrix x, Matrix factor);
    void (*scale_cols)(Matrix x, Matrix factor);                    /* column c times factor's row c */
    void (*weigh_rows)(Matrix x, Matrix weight, Matrix lse);        /* the same, but 0 where lse = -inf */
    void (*subtract_rows)(Matrix x, Matrix d);                      /* x - d, the same d along a row */
    void (*row_dot)(Matrix d, Matrix x, Matrix y);                  /* sum over columns of x y */
    void (*divide_rows)(Matrix x, Matrix l);                        /* 0 where l = 0 */
    void (*multiply)(Matrix y, Matrix a, Matrix b);                 /* element-wise */
    void (*keep_scaled)(Matrix y, Matrix x, Matrix keep, double factor);    /* y = factor x where keep = 1, 0 where keep = 0 */
    void (*maximum)(Matrix y, Matrix a, Matrix b);
    void (*log_sum_exp)(Matrix lse, Matrix m, Matrix l);            /* m + log l, -inf where l = 0 */

    /* Between row-major memory (row stride in elements) and a tile. load says whether a value was not finite. */
    bool (*load)(Matrix tile, const void *memory, uint64_t row_stride);
    void (*store)(void *memory, uint64_t row_stride, Matrix tile, ElementType rounding);
    void (*accumulate)(void *memory, uint64_t row_stride, Matrix tile);     /* memory += tile */
} TileMath;

/* The widest variant that this processor can run. */
const TileMath *tile_math_select(Precision precision);

/* Every variant that this processor can run, widest last; tests compare their bits. */
size_t tile_math_count(Precision precision);
const TileMath *tile_math_variant(Precision precision, size_t index);

#endif
