/* ops_inline.h - the common case of each operation, inline; included by ops.h.
 *
 * Counting must be cheap: a walk over a million-token head takes 67 million pairs of K/V tiles. So each operation begins with its common
 * case, when nobody computes or watches, no shared memory is touched and shapes are as they were: one addition, and done. Each kind adds
 * to a counter of its own, so that no chain of additions to one address holds the processor up; prices are applied once, at the end.
 * Overflow leaves a sticky mark that the launch looks at. The bytes of a tile fit 64 bits, as its declaration checks; what a matrix product
 * costs is checked where it is worked out, once for many repetitions.
 * Being inline, it costs a kernel no call: 1.6 s instead of 2.1 s for a million-token head (build/bin/benchmark).
 */
#ifndef ATTNLAB_OPS_INLINE_H
#define ATTNLAB_OPS_INLINE_H

#include <math.h>

/* --- what ops.c does when counting is not all */

void op_mark_overflow(const Stream *w);
/* Threads touch a whole tile, once or more; only shared memory is a traffic level. */
void op_count_touch(const Stream *w, const Tile *x, int touches);

/* How a product meets what is in C: replaces it, adds to it as an operation of its own, or goes on with the same long product. */
typedef enum { PRODUCT_REPLACES, PRODUCT_ADDS, PRODUCT_CONTINUES } ProductKind;

/* Which operand is transposed. */
typedef enum { PRODUCT_NN, PRODUCT_NT, PRODUCT_TN } ProductForm;

void load_fully(Stream *w, Tile *tile, const Tensor *tensor, uint64_t row);
void matmul_fully(Stream *w, Tile *c, const Tile *a, const Tile *b, ProductForm form, double alpha, ProductKind kind);
void mask_fully(Stream *w, Tile *x, uint64_t row, uint64_t col, Band band, double hidden);
void scale_fully(Stream *w, Tile *x, double factor);
void add_fully(Stream *w, Tile *y, const Tile *x);
void convert_fully(Stream *w, Tile *y, const Tile *x);
void row_max_fully(Stream *w, Rows *m_new, const Rows *m_old, const Tile *x);
void exp_rows_fully(Stream *w, Tile *p, const Tile *x, const Rows *m);
void row_sum_fully(Stream *w, Rows *l, const Tile *x);
void row_sum_scaled_fully(Stream *w, Rows *l, const Rows *alpha, const Tile *x);
void scale_rows_fully(Stream *w, Tile *x, const Rows *factor);
void divide_rows_fully(Stream *w, Tile *x, const Rows *l);
void subtract_rows_fully(Stream *w, Tile *x, const Rows *d);
void multiply_fully(Stream *w, Tile *y, const Tile *x);
void rows_exp_difference_fully(Stream *w, Rows *alpha, const Rows *m_old, const Rows *m_new);
void rows_max_fully(Stream *w, Rows *y, const Rows *a, const Rows *b);
void rows_multiply_fully(Stream *w, Rows *y, const Rows *a, const Rows *b);
void barrier_arrive_fully(Stream *w, Tile *token);
void barrier_sync_fully(Stream *w, const Tile *token);

/* --- counting */

static inline void op_count(const Stream *w, uint64_t *counter, uint64_t amount)
{
    const uint64_t sum = *counter + amount;
    *counter = sum;
    if (sum < amount) op_mark_overflow(w);
}

static inline void op_count_elements(const Stream *w, Operation operation, uint64_t elements)
{
    op_count(w, &w->block->counts.elements[operation], elements);
}

/* The common case of an operation: counts and says that this is all. */
static inline bool op_count_only(const Stream *w, Operation operation, uint64_t elements, bool simple)
{
    if (simple) op_count_elements(w, operation, elements);
    return simple;
}

static inline void op_count_copy(const Stream *w, const Tile *x)
{
    if (x->space == SPACE_SHARED) op_count(w, &w->block->counts.smem_copy_bytes, tile_elements_here(x) * x->element_bytes);
}

static inline bool op_same_rows_and_cols(const Tile *a, const Tile *b) { return a->shape == b->shape; }

static inline bool op_is_product(const Tile *x) { return x->product.left != UINT64_MAX; }

/* --- between HBM and the block */

/* A whole tile like the one before, which HBM sees always (no L2) or never (rows that the ideal L2 holds). */
static inline bool op_is_repeated_load(const Stream *w, const Tile *tile, const Tensor *tensor, uint64_t row)
{
    const Block *block = w->block;
    if (!block->counting_only || tensor == NULL || tile->cols != tensor->cols || tile->rows != tile->max_rows) return false;
    if (tile->banded || op_is_product(tile)) return false;       /* something else has used the tile since */
    if (row >= tensor->rows || tensor->rows - row < tile->max_rows) return false;
    if (block->machine->config.l2 == L2_NONE) return true;
    return block->coverage_heads[tensor->index] == 1 && coverage_holds(block->touched[tensor->index], row, row + tile->rows);
}

static inline void op_repeat_load(const Stream *w, const Tile *tile, const Tensor *tensor)
{
    Traffic *traffic = &w->block->traffic[tensor->index];
    op_count_elements(w, OP_LOAD, 1);
    op_count(w, &traffic->l2_to_sm, tile_elements_here(tile));
    op_count_copy(w, tile);
}

static inline void load(Stream *w, Tile *tile, const Tensor *tensor, uint64_t row)
{
    if (op_is_repeated_load(w, tile, tensor, row)) op_repeat_load(w, tile, tensor);
    else load_fully(w, tile, tensor, row);
}

/* --- tensor cores */

static inline void op_count_product(const Stream *w, const Tile *c, const Tile *a, ProductKind kind)
{
    Counts *counts = &w->block->counts;
    op_count(w, &counts->matmul_flops, c->product_flops);
    if (a->banded) op_count(w, &counts->matmul_flops_hidden, 2 * (a->area - a->visible) * c->cols);
    op_count(w, &counts->smem_operand_bytes, c->product_operand_bytes);
    op_count_elements(w, OP_MATMUL, c->area);
    if (kind == PRODUCT_ADDS) op_count_elements(w, OP_ACCUMULATE, c->area);
}

/* The product that filled c last time, again (perhaps with the other stage of a ring). */
static inline bool op_is_repeated(const Stream *w, const Tile *c, const Tile *a, const Tile *b, ProductForm form)
{
    const ProductKey *last = &c->product;
    const uint64_t differs = (last->left ^ a->shape) | (last->right ^ b->shape) | (last->left_kind ^ a->kind) | (last->right_kind ^ b->kind) |
                             (last->form ^ (uint32_t)form) | (last->instruction.m ^ w->shape.m) | (last->instruction.n ^ w->shape.n);
    return c->simple && !c->banded && differs == 0;
}

static inline void op_product(Stream *w, Tile *c, const Tile *a, const Tile *b, ProductForm form, double alpha, ProductKind kind)
{
    if (op_is_repeated(w, c, a, b, form)) op_count_product(w, c, a, kind);
    else matmul_fully(w, c, a, b, form, alpha, kind);
}

static inline void matmul_nt_scaled(Stream *w, Tile *c, const Tile *a, const Tile *b, double alpha) { op_product(w, c, a, b, PRODUCT_NT, alpha, PRODUCT_REPLACES); }

static inline void matmul_nt(Stream *w, Tile *c, const Tile *a, const Tile *b) { op_product(w, c, a, b, PRODUCT_NT, 1.0, PRODUCT_REPLACES); }

static inline void matmul_nn(Stream *w, Tile *c, const Tile *a, const Tile *b) { op_product(w, c, a, b, PRODUCT_NN, 1.0, PRODUCT_REPLACES); }

static inline void matmul_nn_add(Stream *w, Tile *c, const Tile *a, const Tile *b) { op_product(w, c, a, b, PRODUCT_NN, 1.0, PRODUCT_ADDS); }

static inline void matmul_nn_continue(Stream *w, Tile *c, const Tile *a, const Tile *b) { op_product(w, c, a, b, PRODUCT_NN, 1.0, PRODUCT_CONTINUES); }

static inline void matmul_tn(Stream *w, Tile *c, const Tile *a, const Tile *b) { op_product(w, c, a, b, PRODUCT_TN, 1.0, PRODUCT_REPLACES); }

static inline void matmul_tn_add(Stream *w, Tile *c, const Tile *a, const Tile *b) { op_product(w, c, a, b, PRODUCT_TN, 1.0, PRODUCT_ADDS); }

static inline void matmul_tn_continue(Stream *w, Tile *c, const Tile *a, const Tile *b) { op_product(w, c, a, b, PRODUCT_TN, 1.0, PRODUCT_CONTINUES); }

/* --- masks */

/* The last row sees the first column, and the first row the last. */
static inline bool op_is_all_visible(const Tile *x, uint64_t row, uint64_t col, Band band)
{
    const int64_t offset = (int64_t)row - (int64_t)col;
    return offset + band.low + x->rows <= 1 && offset + band.high + 1 >= x->cols;
}

static inline void mask(Stream *w, Tile *x, uint64_t row, uint64_t col, Band band)
{
    if (!op_is_all_visible(x, row, col, band)) mask_fully(w, x, row, col, band, -INFINITY);
}

static inline void mask_gradient(Stream *w, Tile *x, uint64_t row, uint64_t col, Band band)
{
    if (!op_is_all_visible(x, row, col, band)) mask_fully(w, x, row, col, band, 0.0);
}

/* --- CUDA cores and MUFU */

static inline void barrier_arrive(Stream *w, Tile *token)
{
    if (!op_count_only(w, OP_ARRIVE, 1, token->simple)) barrier_arrive_fully(w, token);
}

static inline void barrier_sync(Stream *w, const Tile *token)
{
    if (!op_count_only(w, OP_SYNC, 1, token->simple)) barrier_sync_fully(w, token);
}

static inline void scale(Stream *w, Tile *x, double factor)
{
    if (!op_count_only(w, OP_SCALE, x->area, x->simple)) scale_fully(w, x, factor);
}

static inline void add(Stream *w, Tile *y, const Tile *x)
{
    if (!op_count_only(w, OP_ADD, y->area, x->simple && y->simple && op_same_rows_and_cols(x, y))) add_fully(w, y, x);
}

/* P and dS go from registers to shared memory once a tile: that, too, is only counted. */
static inline void convert(Stream *w, Tile *y, const Tile *x)
{
    const bool alike = op_same_rows_and_cols(x, y) && !x->banded && !y->banded && !op_is_product(y);
    if (!op_count_only(w, OP_CONVERT, x->area, x->simple && alike)) convert_fully(w, y, x);
    else op_count_touch(w, y, 1);
}

static inline void row_max(Stream *w, Rows *m_new, const Rows *m_old, const Tile *x)
{
    if (!op_count_only(w, OP_ROW_MAX, x->area, x->simple && m_old->simple && m_new->simple && m_old->area == x->rows && m_new->area == x->rows)) row_max_fully(w, m_new, m_old, x);
}

static inline void exp_rows(Stream *w, Tile *p, const Tile *x, const Rows *m)
{
    if (!op_count_only(w, OP_EXP_ROWS, x->area, p == x && x->simple && m->simple && m->area == x->rows)) exp_rows_fully(w, p, x, m);
}

static inline void row_sum(Stream *w, Rows *l, const Tile *x)
{
    if (!op_count_only(w, OP_ROW_SUM, x->area, x->simple && l->simple && l->area == x->rows)) row_sum_fully(w, l, x);
}

static inline void row_sum_scaled(Stream *w, Rows *l, const Rows *alpha, const Tile *x)
{
    const bool simple = x->simple && l->simple && alpha->simple && l->area == x->rows && alpha->area == x->rows;
    if (!(op_count_only(w, OP_ROW_SUM, x->area, simple) && op_count_only(w, OP_ROWS_SCALE_ADD, x->rows, simple))) row_sum_scaled_fully(w, l, alpha, x);
}

static inline void scale_rows(Stream *w, Tile *x, const Rows *factor)
{
    if (!op_count_only(w, OP_SCALE_ROWS, x->area, x->simple && factor->simple && factor->area == x->rows)) scale_rows_fully(w, x, factor);
}

static inline void divide_rows(Stream *w, Tile *x, const Rows *l)
{
    if (!op_count_only(w, OP_DIVIDE_ROWS, x->area, x->simple && l->simple && l->area == x->rows)) divide_rows_fully(w, x, l);
}

static inline void subtract_rows(Stream *w, Tile *x, const Rows *d)
{
    if (!op_count_only(w, OP_SUBTRACT_ROWS, x->area, x->simple && d->simple && d->area == x->rows)) subtract_rows_fully(w, x, d);
}

static inline void multiply(Stream *w, Tile *y, const Tile *x)
{
    if (!op_count_only(w, OP_MULTIPLY, y->area, x->simple && y->simple && op_same_rows_and_cols(x, y) && !x->banded && !y->banded)) multiply_fully(w, y, x);
}

static inline bool op_simple_rows(const Rows *y, const Rows *a, const Rows *b)
{
    return y->simple && a->simple && b->simple && y->area == a->rows && b->area == a->rows;
}

static inline void rows_exp_difference(Stream *w, Rows *alpha, const Rows *m_old, const Rows *m_new)
{
    if (!op_count_only(w, OP_ROWS_EXP_DIFFERENCE, m_old->rows, op_simple_rows(alpha, m_old, m_new))) rows_exp_difference_fully(w, alpha, m_old, m_new);
}

static inline void rows_max(Stream *w, Rows *y, const Rows *a, const Rows *b)
{
    if (!op_count_only(w, OP_ROWS_MAX, a->rows, op_simple_rows(y, a, b))) rows_max_fully(w, y, a, b);
}

static inline void rows_multiply(Stream *w, Rows *y, const Rows *a, const Rows *b)
{
    if (!op_count_only(w, OP_ROWS_MULTIPLY, a->rows, op_simple_rows(y, a, b))) rows_multiply_fully(w, y, a, b);
}

#endif
