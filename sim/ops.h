/* ops.h - the tile operations from which kernels are written.
 *
 * Each is issued by a stream and does four things in one place: computes (if this machine computes), counts, checks shapes, and reports
 * an event that names the tiles read and written. Operations set the live rows and columns of the tiles they write, so a ragged last
 * tile needs no code in a kernel. After an error they do nothing.
 *
 * Price: the lecture's count of non-matmul operations (§3.2, fitted to its 7.41M and 6.39M), in brackets below: an element-wise
 * addition, multiplication, division, comparison or exponential is 1 per element; the exponential of a difference is 2; adding a product
 * into an accumulator is 1 per accumulator element; L = m + log l, moving, masking and converting are free. The price list never
 * drives time.
 */
#ifndef ATTNLAB_OPS_H
#define ATTNLAB_OPS_H

#include "machine.h"

/* ------------------------------------------------------------------------------------------ between HBM and the block */

/* Rows [row, row + max_rows) of this block's head, clipped to the tensor, HBM -> L2 -> tile. A tensor with fewer heads than the grid
 * is shared by groups of consecutive heads (grouped-query attention). The tile's max_cols must hold the tensor's columns. */
static inline void load(Stream *w, Tile *tile, const Tensor *tensor, uint64_t row);
/* The part from column `col` on, at most max_cols wide. */
void load_part(Stream *w, Tile *tile, const Tensor *tensor, uint64_t row, uint64_t col);
/* The tile's live part, rounded to the tensor's element type. */
void store(Stream *w, Tensor *tensor, uint64_t row, const Tile *tile);
void store_part(Stream *w, Tensor *tensor, uint64_t row, uint64_t col, const Tile *tile);
/* The tensor's rows += the tile, element by element, at L2. Counted apart: one read and one write per element (atomic_elements). */
void atomic_add(Stream *w, Tensor *tensor, uint64_t row, const Tile *tile);
void atomic_add_part(Stream *w, Tensor *tensor, uint64_t row, uint64_t col, const Tile *tile);

/* ----------------------------------------------------------------------------------------------------- named barriers */

/* A token: a tile without elements. */
Tile *barrier(Block *block, const char *name);
static inline void barrier_arrive(Stream *w, Tile *token);          /* does not wait */
static inline void barrier_sync(Stream *w, const Tile *token);      /* waits for the arrival before it in program order */

/* --------------------------------------------------------------------------------------------------------- tensor cores */

static inline void matmul_nt(Stream *w, Tile *c, const Tile *a, const Tile *b);                       /* C = A Bᵀ            [0] */
static inline void matmul_nt_scaled(Stream *w, Tile *c, const Tile *a, const Tile *b, double alpha);  /* C = alpha A Bᵀ, a GEMM's alpha [0] */
static inline void matmul_nn(Stream *w, Tile *c, const Tile *a, const Tile *b);                       /* C = A B             [0] */
static inline void matmul_nn_add(Stream *w, Tile *c, const Tile *a, const Tile *b);                   /* C += A B            [1 per element of C] */
static inline void matmul_nn_continue(Stream *w, Tile *c, const Tile *a, const Tile *b);              /* C += A B, the next part of one long product [0] */
static inline void matmul_tn(Stream *w, Tile *c, const Tile *a, const Tile *b);                       /* C = Aᵀ B            [0] */
static inline void matmul_tn_add(Stream *w, Tile *c, const Tile *a, const Tile *b);                   /* C += Aᵀ B           [1 per element of C] */
static inline void matmul_tn_continue(Stream *w, Tile *c, const Tile *a, const Tile *b);              /* C += Aᵀ B, the next part [0] */

/* Rows row.. and columns col.. of the live part of x, at most rows x cols, as an operand of a product: reads the memory of x and hides what x
 * hides. Good until x changes. */
Tile operand_part(const Tile *x, uint32_t row, uint32_t col, uint32_t rows, uint32_t cols);

/* ---------------------------------------------------------------------------------------------------------------- masks */

/* Column j of the score matrix is visible from row i iff i + low <= j <= i + high. */
typedef struct {
    int64_t low, high;
} Band;

/* Hides what lies outside the band: X holds rows row.. and columns col.. of the score matrix; hidden elements become -inf. Also
 * takes the hidden pairs back from matmul_flops_exact_mask for the product that filled X. [0] */
static inline void mask(Stream *w, Tile *x, uint64_t row, uint64_t col, Band band);
/* The same for a gradient of scores: hidden elements become 0. */
static inline void mask_gradient(Stream *w, Tile *x, uint64_t row, uint64_t col, Band band);
/* The same where X stacks `step` rows (the heads of a group) per row of the score matrix: row r of X counts as row (row + r) / step of the band.
 * Products of X must not transpose it. */
void mask_stacked(Stream *w, Tile *x, uint64_t row, uint64_t col, Band band, uint32_t step);
/* No instruction: tells the products that follow which elements of X were masked before they went through memory, so that
 * 0 * NaN does not enter and the exact count is right. A NaN of the row that got there on the way (0 / NaN) is 0 again. */
void declare_masked(Stream *w, Tile *x, uint64_t row, uint64_t col, Band band);

/* -------------------------------------------------------------------------------------------------- CUDA cores and MUFU */

void fill(Stream *w, Tile *x, uint32_t rows, uint32_t cols, double value);      /* X = value, live part rows x cols [0] */
static inline void scale(Stream *w, Tile *x, double factor);                                  /* X *= factor           [1 per element] */
static inline void add(Stream *w, Tile *y, const Tile *x);                                    /* Y += X                [1 per element] */
static inline void convert(Stream *w, Tile *y, const Tile *x);                                /* Y = X in Y's format   [0] */
/* Y = the part of X from (row, col) on, as much of it as Y holds. X hides nothing. [0] */
void convert_part(Stream *w, Tile *y, const Tile *x, uint32_t row, uint32_t col);

static inline void row_max(Stream *w, Rows *m_new, const Rows *m_old, const Tile *x);         /* m_new = max(m_old, row maxima) [1 per element] */
/* row_max with FlashAttention-4's conditional rescaling: `group` consecutive rows (at least 1; a warp: 32) keep m_old until one of them has
 * grown by more than `threshold` (natural log), then all of them take their maxima; none ever falls. Returns whether m_new differs from
 * m_old anywhere: only then l and O need rescaling. That depends on the data: a machine that only counts returns `assumed`, for every
 * group. Counts the groups that moved and those that did not. [1 per element] */
bool row_max_lagging(Stream *w, Rows *m_new, const Rows *m_old, const Tile *x, double threshold, uint32_t group, bool assumed);
/* P = e^(X - m) [2 per element]; w->poly_sixteenths of 16 columns by a polynomial on the multiply-add units instead of MUFU (poly_exp.h) */
static inline void exp_rows(Stream *w, Tile *p, const Tile *x, const Rows *m);
static inline void row_sum(Stream *w, Rows *l, const Tile *x);                                /* l = row sums          [1 per element] */
static inline void row_sum_scaled(Stream *w, Rows *l, const Rows *alpha, const Tile *x);      /* l = alpha l + row sums [1 per element, 2 per row] */
static inline void scale_rows(Stream *w, Tile *x, const Rows *factor);                        /* X = diag(factor) X    [1 per element] */
static inline void divide_rows(Stream *w, Tile *x, const Rows *l);                            /* X = diag(l)^-1 X, 0 where l = 0 [1 per element] */

/* scale_rows where a row with logsumexp = -inf, which stands for no keys at all, becomes 0 whatever it is, even NaN. [1 per element] */
void weigh_rows(Stream *w, Tile *x, const Rows *weight, const Rows *logsumexp);
static inline void subtract_rows(Stream *w, Tile *x, const Rows *d);                          /* X = X - d, the same d along a row [1 per element] */
static inline void multiply(Stream *w, Tile *y, const Tile *x);       /* Y = X o Y element-wise; hidden where X is, as are Y's pairs [1 per element] */
void row_dot(Stream *w, Rows *d, const Tile *x, const Tile *y);                 /* d = row sums of X o Y [2 per element] */

/* Dropout: Z = 1 where the element (row, col) of this block's head is kept, 0 where it is dropped. Each is decided by Philox from (seed, offset,
 * batch, head, row, col) alone, so any tile shape, loop order and pass sees the same mask: kept iff the 32 random bits >= p 2^32. */
typedef struct {
    double p;                   /* probability of being dropped, 0 <= p < 1 */
    uint64_t seed;
    uint32_t offset;            /* below 2^31; another offset is another mask */
} Dropout;
/* Whether one element is kept; head = batch * heads + head. */
bool dropout_keeps(const Dropout *dropout, uint64_t head, uint64_t row, uint64_t col);
/* `queries`: the tensor (Q) whose head the scores belong to. */
void random_keep(Stream *w, Tile *z, const Tensor *queries, uint64_t row, uint64_t col, uint32_t rows, uint32_t cols, const Dropout *dropout); /* [0] */
void apply_dropout(Stream *w, Tile *y, const Tile *x, const Tile *z, double p); /* Y = X o Z / (1 - p) in Y's format [1 per element] */

static inline void rows_exp_difference(Stream *w, Rows *alpha, const Rows *m_old, const Rows *m_new); /* e^(m_old - m_new) [2 per row] */
static inline void rows_max(Stream *w, Rows *y, const Rows *a, const Rows *b);                /* y = max(a, b)         [1 per row] */
static inline void rows_multiply(Stream *w, Rows *y, const Rows *a, const Rows *b);           /* y = a b               [1 per row] */
void rows_add(Stream *w, Rows *y, const Rows *x);                               /* y += x                [1 per row] */
void rows_log_sum_exp(Stream *w, Rows *lse, const Rows *m, const Rows *l);      /* m + log l, -inf where l = 0 [0] */

/* --------------------------------------------------------------------------------------------------- narrow formats (§4.4) */

void scale_cols(Stream *w, Tile *x, const Rows *factor);                        /* X = X diag(factor), counted as scale_rows [1 per element] */
/* Rows rotated by a random-sign Hadamard matrix of (seed, head), X J or X Jᵀ (hadamard.h); additions by butterfly [hadamard_additions() per row] */
void rotate_rows(Stream *w, Tile *x, uint64_t seed, uint64_t head);
void unrotate_rows(Stream *w, Tile *x, uint64_t seed, uint64_t head);
/* Largest finite magnitude of all of X, if `largest` holds one value, or of each row [1 per element] */
void absolute_max(Stream *w, Rows *largest, const Tile *x);
/* Y = codes of X scaled by its largest magnitudes, one of all or one per row; descale = what multiplies them back (quantise.h). Y's format is E4M3 or
 * E5M2; float32 arithmetic only. `largest` NULL: a scale of 1, and no descale. [1 per element, 0 without a scale] */
void quantise(Stream *w, Tile *y, Rows *descale, const Tile *x, const Rows *largest);
/* The first element of a tile, as a number that a kernel computes with; 1 when nobody computes. */
double tile_scalar(const Tile *x);

#include "ops_inline.h"

#endif
