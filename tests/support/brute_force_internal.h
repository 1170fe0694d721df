/* brute_force_internal.h - what the brute-force counts of both passes share: memory with a flag per element, masks by definition,
 * products pair by pair. Static: kernels of algos/ use some of these names. */
#ifndef ATTNLAB_BRUTE_FORCE_INTERNAL_H
#define ATTNLAB_BRUTE_FORCE_INTERNAL_H

#include "brute_force.h"

/* A matrix [heads, rows, cols] in HBM and what the current launch did to each element. */
typedef struct {
    uint64_t heads, rows, cols, bytes;
    bool *touched, *written;
} Memory;

typedef struct {
    const BruteProblem *p;
    BruteCounts *n;
    uint64_t batch, head;               /* where the loops are */
    Memory Q, K, V, O, l, m, S, P, parts, part_lse;     /* l also stands for the logsumexp of algorithms that keep only one statistic */
} Run;

/* Rows [first, end) of a block. */
typedef struct {
    uint64_t first, end;
} Span;

static inline Span block_span(uint64_t block, uint64_t size, uint64_t length)
{
    const uint64_t first = block * size, end = first + size;
    return (Span){first, end < length ? end : length};
}

static inline Span whole(uint64_t length) { return (Span){0, length}; }

static inline uint64_t length_of(Span s) { return s.end - s.first; }

/* ------------------------------------------------------------------------------------------------------------------- masks */

/* The definition: position of the query on the key axis, bottom-right aligned (top-left for that one mask). */
static inline bool visible(const BruteProblem *p, uint64_t query, uint64_t key)
{
    const int64_t row = (int64_t)query, column = (int64_t)key, diagonal = row + (int64_t)p->Nk - (int64_t)p->Nq;
    if (p->mask == BRUTE_CAUSAL && column > diagonal) return false;
    if (p->mask == BRUTE_CAUSAL_TOP_LEFT && column > row) return false;
    if (p->window_left >= 0 && column < diagonal - p->window_left) return false;
    if (p->window_right >= 0 && column > diagonal + p->window_right) return false;
    return true;
}

static inline bool any_visible(const BruteProblem *p, Span queries, Span keys)
{
    for (uint64_t r = queries.first; r < queries.end; r++)
        for (uint64_t c = keys.first; c < keys.end; c++)
            if (visible(p, r, c)) return true;
    return false;
}

/* -------------------------------------------------------------------------------------------------------------- HBM and L2 */

static inline uint64_t element_of(const Run *run, const Memory *x, uint64_t row, uint64_t col)
{
    const uint64_t heads_per_batch = x->heads / run->p->batch;
    const uint64_t group = run->p->heads > heads_per_batch ? run->p->heads / heads_per_batch : 1;
    return ((run->batch * heads_per_batch + run->head / group) * x->rows + row) * x->cols + col;
}

static inline void load(const Run *run, Memory *x, Span rows, Span cols)
{
    for (uint64_t r = rows.first; r < rows.end; r++)
        for (uint64_t c = cols.first; c < cols.end; c++) {
            const uint64_t i = element_of(run, x, r, c);
            run->n->l2_to_sm_bytes += x->bytes;
            if (run->p->ideal_l2 && x->touched[i]) continue;
            x->touched[i] = true;
            run->n->hbm_read_elements++;
            run->n->hbm_read_bytes += x->bytes;
        }
}

static inline void store(const Run *run, Memory *x, Span rows, Span cols)
{
    for (uint64_t r = rows.first; r < rows.end; r++)
        for (uint64_t c = cols.first; c < cols.end; c++) {
            const uint64_t i = element_of(run, x, r, c);
            run->n->sm_to_l2_bytes += x->bytes;
            x->touched[i] = true;
            if (run->p->ideal_l2 && x->written[i]) continue;
            x->written[i] = true;
            run->n->hbm_write_elements++;
            run->n->hbm_write_bytes += x->bytes;
        }
}

static inline void forget(Memory *x)
{
    for (uint64_t i = 0; i < x->heads * x->rows * x->cols; i++) x->touched[i] = x->written[i] = false;
}

/* ------------------------------------------------------------------------------------------------------------ inside a block */

/* Bytes of a tile of rows x cols, one element at a time. */
static inline uint64_t tile_bytes(Span rows, Span cols, uint64_t bytes)
{
    uint64_t sum = 0;
    for (uint64_t r = rows.first; r < rows.end; r++)
        for (uint64_t c = cols.first; c < cols.end; c++) sum += bytes;
    return sum;
}

static inline void copy(const Run *run, Span rows, Span cols, uint64_t bytes)
{
    run->n->smem_copy_bytes += tile_bytes(rows, cols, bytes);
}

/* A load or a store whose tile is in shared memory. */
static inline void load_shared(const Run *run, Memory *x, Span rows, Span cols)
{
    load(run, x, rows, cols);
    copy(run, rows, cols, x->bytes);
}

static inline void store_shared(const Run *run, Memory *x, Span rows, Span cols)
{
    store(run, x, rows, cols);
    copy(run, rows, cols, x->bytes);
}

/* The instructions of a product of left (rows x inner) and right (inner x cols): each takes its part of the rows and columns (0:
 * all). */
static inline void read_right_by(const Run *run, Span rows, Span cols, Span inner, uint64_t instruction_rows)
{
    const uint64_t step = instruction_rows ? instruction_rows : length_of(rows), e = run->p->element_bytes;
    for (uint64_t r = rows.first; r < rows.end; r += step) run->n->smem_operand_bytes += tile_bytes(inner, cols, e);
}

static inline void read_left_by(const Run *run, Span rows, Span cols, Span inner, uint64_t instruction_cols)
{
    const uint64_t step = instruction_cols ? instruction_cols : length_of(cols), e = run->p->element_bytes;
    for (uint64_t c = cols.first; c < cols.end; c += step) run->n->smem_operand_bytes += tile_bytes(rows, inner, e);
}

static inline void read_right(const Run *run, Span rows, Span cols, Span inner)
{
    read_right_by(run, rows, cols, inner, run->p->instruction_rows);
}

static inline void read_left(const Run *run, Span rows, Span cols, Span inner)
{
    read_left_by(run, rows, cols, inner, run->p->instruction_cols);
}

/* Multiply-adds of Q Kᵀ, or of P V: d per (query, key) pair. */
static inline void multiply(const Run *run, Span queries, Span keys)
{
    for (uint64_t r = queries.first; r < queries.end; r++)
        for (uint64_t c = keys.first; c < keys.end; c++)
            for (uint64_t x = 0; x < run->p->d; x++) {
                run->n->matmul_flops += 2;
                if (visible(run->p, r, c)) run->n->matmul_flops_exact_mask += 2;
            }
}

static inline void work(const Run *run, uint64_t operations, uint64_t exponentials)
{
    run->n->nonmatmul_ops += operations;
    run->n->exp_ops += exponentials;
}

/* S = Q Kᵀ, scaled; its maximum; P = e^(S - m); its sum: what the fused kernels do to each score. */
static inline void score_and_softmax(const Run *run, Span queries, Span keys)
{
    multiply(run, queries, keys);
    read_left(run, queries, keys, whole(run->p->d));
    read_right(run, queries, keys, whole(run->p->d));
    for (uint64_t r = queries.first; r < queries.end; r++)
        for (uint64_t c = keys.first; c < keys.end; c++) {
            work(run, 1, 0);        /* times scale */
            work(run, 1, 0);        /* compared with the maximum */
            work(run, 2, 1);        /* minus the maximum, exponential */
            work(run, 1, 0);        /* added to the sum */
        }
    run->n->tile_pairs++;
}

static inline void each_head(Run *run, void (*block)(Run *run, uint64_t i), uint64_t blocks)
{
    for (run->batch = 0; run->batch < run->p->batch; run->batch++)
        for (run->head = 0; run->head < run->p->heads; run->head++)
            for (uint64_t i = 0; i < blocks; i++) block(run, i);
}

static inline uint64_t query_blocks(const BruteProblem *p)
{
    uint64_t blocks = 0;
    while (blocks * p->Br < p->Nq) blocks++;
    return blocks;
}

/* -------------------------------------------------------------------------------------------------------------------- memory */

static inline Memory new_memory(uint64_t heads, uint64_t rows, uint64_t cols, uint64_t bytes, Alloc *alloc, Status *status)
{
    Memory x = {.heads = heads, .rows = rows, .cols = cols, .bytes = bytes};
    x.touched = alloc_array(alloc, heads * rows * cols, sizeof(bool), "touched elements", status);
    x.written = alloc_array(alloc, heads * rows * cols, sizeof(bool), "written elements", status);
    return x;
}

static inline void free_memory(Memory *x, Alloc *alloc)
{
    alloc_free(alloc, x->touched);
    alloc_free(alloc, x->written);
}

#endif
