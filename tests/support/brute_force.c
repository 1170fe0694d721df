/* brute_force.c - see brute_force.h. */
#include "brute_force.h"

#include <string.h>

/* A matrix [heads, rows, cols] in HBM and what the current launch did to each element. */
typedef struct {
    uint64_t heads, rows, cols, bytes;
    bool *touched, *written;
} Memory;

typedef struct {
    const BruteProblem *p;
    BruteCounts *n;
    uint64_t batch, head;               /* where the loops are */
    Memory Q, K, V, O, l, m, S, P;      /* l also stands for the logsumexp of algorithms that keep only one statistic */
} Run;

/* Rows [first, end) of a block. */
typedef struct {
    uint64_t first, end;
} Span;

static Span block_span(uint64_t block, uint64_t size, uint64_t length)
{
    const uint64_t first = block * size, end = first + size;
    return (Span){first, end < length ? end : length};
}

static Span whole(uint64_t length) { return (Span){0, length}; }

static uint64_t length_of(Span s) { return s.end - s.first; }

/* ------------------------------------------------------------------------------------------------------------------- masks */

/* The definition: position of the query on the key axis, bottom-right aligned (top-left for that one mask). */
static bool visible(const BruteProblem *p, uint64_t query, uint64_t key)
{
    const int64_t row = (int64_t)query, column = (int64_t)key, diagonal = row + (int64_t)p->Nk - (int64_t)p->Nq;
    if (p->mask == BRUTE_CAUSAL && column > diagonal) return false;
    if (p->mask == BRUTE_CAUSAL_TOP_LEFT && column > row) return false;
    if (p->window_left >= 0 && column < diagonal - p->window_left) return false;
    if (p->window_right >= 0 && column > diagonal + p->window_right) return false;
    return true;
}

static bool any_visible(const BruteProblem *p, Span queries, Span keys)
{
    for (uint64_t r = queries.first; r < queries.end; r++)
        for (uint64_t c = keys.first; c < keys.end; c++)
            if (visible(p, r, c)) return true;
    return false;
}

/* -------------------------------------------------------------------------------------------------------------- HBM and L2 */

static uint64_t element_of(const Run *run, const Memory *x, uint64_t row, uint64_t col)
{
    const uint64_t heads_per_batch = x->heads / run->p->batch, group = run->p->heads / heads_per_batch;
    return ((run->batch * heads_per_batch + run->head / group) * x->rows + row) * x->cols + col;
}

static void load(const Run *run, Memory *x, Span rows, Span cols)
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

static void store(const Run *run, Memory *x, Span rows, Span cols)
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

static void forget(Memory *x)
{
    for (uint64_t i = 0; i < x->heads * x->rows * x->cols; i++) x->touched[i] = x->written[i] = false;
}

static void new_launch(Run *run)
{
    Memory *const all[] = {&run->Q, &run->K, &run->V, &run->O, &run->l, &run->m, &run->S, &run->P};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) forget(all[i]);
}

/* ------------------------------------------------------------------------------------------------------------ inside a block */

/* Bytes of a tile of rows x cols, one element at a time. */
static uint64_t tile_bytes(Span rows, Span cols, uint64_t bytes)
{
    uint64_t sum = 0;
    for (uint64_t r = rows.first; r < rows.end; r++)
        for (uint64_t c = cols.first; c < cols.end; c++) sum += bytes;
    return sum;
}

static void copy(const Run *run, Span rows, Span cols, uint64_t bytes)
{
    run->n->smem_copy_bytes += tile_bytes(rows, cols, bytes);
}

/* A load or a store whose tile is in shared memory. */
static void load_shared(const Run *run, Memory *x, Span rows, Span cols)
{
    load(run, x, rows, cols);
    copy(run, rows, cols, x->bytes);
}

static void store_shared(const Run *run, Memory *x, Span rows, Span cols)
{
    store(run, x, rows, cols);
    copy(run, rows, cols, x->bytes);
}

/* The instructions of a product of left (rows x inner) and right (inner x cols): each takes its part of the rows and columns. */
static void read_right(const Run *run, Span rows, Span cols, Span inner)
{
    const uint64_t step = run->p->instruction_rows ? run->p->instruction_rows : length_of(rows), e = run->p->element_bytes;
    for (uint64_t r = rows.first; r < rows.end; r += step) run->n->smem_operand_bytes += tile_bytes(inner, cols, e);
}

static void read_left(const Run *run, Span rows, Span cols, Span inner)
{
    const uint64_t step = run->p->instruction_cols ? run->p->instruction_cols : length_of(cols), e = run->p->element_bytes;
    for (uint64_t c = cols.first; c < cols.end; c += step) run->n->smem_operand_bytes += tile_bytes(rows, inner, e);
}

/* Multiply-adds of Q Kᵀ, or of P V: d per (query, key) pair. */
static void multiply(const Run *run, Span queries, Span keys)
{
    for (uint64_t r = queries.first; r < queries.end; r++)
        for (uint64_t c = keys.first; c < keys.end; c++)
            for (uint64_t x = 0; x < run->p->d; x++) {
                run->n->matmul_flops += 2;
                if (visible(run->p, r, c)) run->n->matmul_flops_exact_mask += 2;
            }
}

static void work(const Run *run, uint64_t operations, uint64_t exponentials)
{
    run->n->nonmatmul_ops += operations;
    run->n->exp_ops += exponentials;
}

/* S = Q Kᵀ, scaled; its maximum; P = e^(S - m); its sum: what the fused kernels do to each score. */
static void score_and_softmax(const Run *run, Span queries, Span keys)
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

/* ----------------------------------------------------------------------------------------------------- standard (Algorithm 0) */

static void standard_scores(Run *run, uint64_t i)
{
    const BruteProblem *p = run->p;
    const Span q = block_span(i, p->Br, p->Nq), d = whole(p->d);
    for (uint64_t j = 0; j * p->Bc < p->Nk; j++) {
        const Span k = block_span(j, p->Bc, p->Nk);
        if (j == 0) load_shared(run, &run->Q, q, d);
        load_shared(run, &run->K, k, d);
        multiply(run, q, k);
        read_left(run, q, k, d);
        read_right(run, q, k, d);
        store(run, &run->S, q, k);
        run->n->tile_pairs++;
    }
}

/* One row; in one piece, or twice in pieces. */
static void standard_softmax(Run *run, uint64_t row)
{
    const BruteProblem *p = run->p;
    const Span r = {row, row + 1};
    const bool fits = p->softmax_cols >= p->Nk;
    for (uint64_t pass = fits ? 2 : 1; pass <= 2; pass++)
        for (uint64_t first = 0; first < p->Nk; first += p->softmax_cols) {
            const Span part = {first, first + p->softmax_cols < p->Nk ? first + p->softmax_cols : p->Nk};
            load_shared(run, &run->S, r, part);
            if (!fits && pass == 1) work(run, 4, 1);            /* alpha = e^(m - m_new); l = alpha l + sum */
            for (uint64_t c = part.first; c < part.end; c++) {
                if (fits || pass == 1) {
                    work(run, 2, 0);                            /* maximum, sum */
                    run->n->smem_thread_bytes += 2 * p->element_bytes;
                }
                work(run, 2, 1);                                /* minus the maximum, exponential: read and written */
                run->n->smem_thread_bytes += 2 * p->element_bytes;
                if (pass == 1) continue;
                work(run, 1, 0);                                /* divided: read and written */
                run->n->smem_thread_bytes += 2 * p->element_bytes;
            }
            if (pass == 2) store_shared(run, &run->P, r, part);
        }
}

static void standard_output(Run *run, uint64_t i)
{
    const BruteProblem *p = run->p;
    const Span q = block_span(i, p->Br, p->Nq), d = whole(p->d);
    for (uint64_t j = 0; j * p->Bc < p->Nk; j++) {
        const Span k = block_span(j, p->Bc, p->Nk);
        load_shared(run, &run->P, q, k);
        load_shared(run, &run->V, k, d);
        multiply(run, q, k);
        read_left(run, q, d, k);
        read_right(run, q, d, k);
    }
    store(run, &run->O, q, d);
}

static void each_head(Run *run, void (*block)(Run *run, uint64_t i), uint64_t blocks)
{
    for (run->batch = 0; run->batch < run->p->batch; run->batch++)
        for (run->head = 0; run->head < run->p->heads; run->head++)
            for (uint64_t i = 0; i < blocks; i++) block(run, i);
}

static uint64_t query_blocks(const BruteProblem *p)
{
    uint64_t blocks = 0;
    while (blocks * p->Br < p->Nq) blocks++;
    return blocks;
}

static void standard(Run *run)
{
    each_head(run, standard_scores, query_blocks(run->p));
    new_launch(run);
    each_head(run, standard_softmax, run->p->Nq);
    new_launch(run);
    each_head(run, standard_output, query_blocks(run->p));
}

/* ---------------------------------------------------------------------------------- FlashAttention-1 (Algorithm 1), as listed */

static void fa1_init(Run *run, uint64_t i)
{
    const Span q = block_span(i, run->p->Br, run->p->Nq);
    store(run, &run->O, q, whole(run->p->d));
    store(run, &run->l, q, whole(1));
    store(run, &run->m, q, whole(1));
}

/* What threads touch in shared memory, where S, P, O, l and m live. */
static void fa1_thread_bytes(const Run *run, Span q, Span k)
{
    const uint64_t e = run->p->element_bytes, t = run->p->statistic_bytes;
    uint64_t *bytes = &run->n->smem_thread_bytes;
    for (uint64_t r = q.first; r < q.end; r++) {
        for (uint64_t c = k.first; c < k.end; c++) {
            *bytes += t + 2 * t + t;    /* S written by the product, scaled in place, read for the maximum */
            *bytes += 2 * t + t;        /* exponential in place, read for the sum */
            *bytes += t + e;            /* S -> P */
        }
        for (uint64_t x = 0; x < run->p->d; x++) *bytes += 2 * e + 2 * e + 2 * e;   /* O weighted, added to, divided: in place */
        *bytes += t + t;                /* m read for the new maximum and for the weight */
        *bytes += 2 * t + t + 2 * t + t;    /* l weighted in place, read for O, added to in place, read for the division */
    }
}

static void fa1_tile(Run *run, Span q, Span k)
{
    const Span d = whole(run->p->d), one = whole(1);
    load_shared(run, &run->Q, q, d);                    /* line 8 */
    load_shared(run, &run->O, q, d);
    load_shared(run, &run->l, q, one);
    load_shared(run, &run->m, q, one);
    score_and_softmax(run, q, k);                       /* lines 9, 10 */
    for (uint64_t r = q.first; r < q.end; r++) {
        work(run, 1, 0);                                /* line 11: m_new = max(m, m~) */
        work(run, 2, 1);                                /* e^(m - m_new) */
        work(run, 2, 1);                                /* e^(m~ - m_new) */
        work(run, 3, 0);                                /* l_new: two products and their sum */
        for (uint64_t x = 0; x < run->p->d; x++) work(run, 4, 0);   /* line 12: two products, their sum, the division */
    }
    multiply(run, q, k);
    read_left(run, q, d, k);
    read_right(run, q, d, k);
    fa1_thread_bytes(run, q, k);
    store_shared(run, &run->O, q, d);
    store_shared(run, &run->l, q, one);                 /* line 13 */
    store(run, &run->m, q, one);
}

static void fa1_head(Run *run, uint64_t unused)
{
    (void)unused;
    const BruteProblem *p = run->p;
    for (uint64_t j = 0; j * p->Bc < p->Nk; j++) {
        const Span k = block_span(j, p->Bc, p->Nk);
        if (!any_visible(p, whole(p->Nq), k)) continue;
        load_shared(run, &run->K, k, whole(p->d));      /* line 6 */
        load_shared(run, &run->V, k, whole(p->d));
        for (uint64_t i = 0; i * p->Br < p->Nq; i++)
            if (any_visible(p, block_span(i, p->Br, p->Nq), k)) fa1_tile(run, block_span(i, p->Br, p->Nq), k);
    }
}

static void fa1(Run *run)
{
    each_head(run, fa1_init, query_blocks(run->p));
    new_launch(run);
    each_head(run, fa1_head, 1);
}

/* ------------------------------------------------------------------------------------------------ FlashAttention-1 as shipped */

static void shipped_tile(Run *run, Span q, Span k)
{
    const Span d = whole(run->p->d), one = whole(1);
    load_shared(run, &run->Q, q, d);
    if (any_visible(run->p, q, whole(k.first))) {       /* an earlier key block has been here */
        load(run, &run->O, q, d);
        load(run, &run->l, q, one);
    }
    score_and_softmax(run, q, k);
    for (uint64_t r = q.first; r < q.end; r++) {
        work(run, 2, 1);                                /* e^(L - m) */
        work(run, 1, 0);                                /* added to the sum */
        for (uint64_t x = 0; x < run->p->d; x++) work(run, 3, 0);   /* O weighted, P V added, divided */
    }
    multiply(run, q, k);
    read_right(run, q, d, k);                           /* P is in registers */
    store(run, &run->O, q, d);
    store(run, &run->l, q, one);
}

static void shipped_head(Run *run, uint64_t unused)
{
    (void)unused;
    const BruteProblem *p = run->p;
    for (uint64_t j = 0; j * p->Bc < p->Nk; j++) {
        const Span k = block_span(j, p->Bc, p->Nk);
        if (!any_visible(p, whole(p->Nq), k)) continue;
        load_shared(run, &run->K, k, whole(p->d));
        load_shared(run, &run->V, k, whole(p->d));
        for (uint64_t i = 0; i * p->Br < p->Nq; i++)
            if (any_visible(p, block_span(i, p->Br, p->Nq), k)) shipped_tile(run, block_span(i, p->Br, p->Nq), k);
    }
}

static void shipped_empty_rows(Run *run, uint64_t i)
{
    const Span q = block_span(i, run->p->Br, run->p->Nq);
    if (any_visible(run->p, q, whole(run->p->Nk))) return;
    store(run, &run->O, q, whole(run->p->d));
    store(run, &run->l, q, whole(1));
}

static void fa1_shipped(Run *run)
{
    each_head(run, shipped_head, 1);
    new_launch(run);
    each_head(run, shipped_empty_rows, query_blocks(run->p));
}

/* --------------------------------------------------------------------------------------------- FlashAttention-2 (Algorithm 1) */

static void fa2_block(Run *run, uint64_t i)
{
    const BruteProblem *p = run->p;
    const Span q = block_span(i, p->Br, p->Nq), d = whole(p->d);
    if (any_visible(p, q, whole(p->Nk))) load_shared(run, &run->Q, q, d);       /* line 4 */
    for (uint64_t j = 0; j * p->Bc < p->Nk; j++) {
        const Span k = block_span(j, p->Bc, p->Nk);
        if (!any_visible(p, q, k)) continue;
        load_shared(run, &run->K, k, d);                /* line 7 */
        load_shared(run, &run->V, k, d);
        score_and_softmax(run, q, k);                   /* lines 8, 9 */
        multiply(run, q, k);                            /* line 10; P is in registers */
        read_right(run, q, d, k);
        for (uint64_t r = q.first; r < q.end; r++) {
            work(run, 2, 1);                            /* e^(m - m_new) */
            work(run, 2, 0);                            /* l = that times l, plus the sum */
            for (uint64_t x = 0; x < p->d; x++) work(run, 2, 0);    /* O = that times O, plus P V */
        }
    }
    for (uint64_t r = q.first; r < q.end; r++)
        for (uint64_t x = 0; x < p->d; x++) work(run, 1, 0);        /* line 12 */
    store(run, &run->O, q, d);                          /* lines 14, 15 */
    store(run, &run->l, q, whole(1));
}

static void fa2(Run *run) { each_head(run, fa2_block, query_blocks(run->p)); }

/* ---------------------------------------------------------------------------------------------------------------------- a run */

static Memory new_memory(uint64_t heads, uint64_t rows, uint64_t cols, uint64_t bytes, Alloc *alloc, Status *status)
{
    Memory x = {.heads = heads, .rows = rows, .cols = cols, .bytes = bytes};
    x.touched = alloc_array(alloc, heads * rows * cols, sizeof(bool), "touched elements", status);
    x.written = alloc_array(alloc, heads * rows * cols, sizeof(bool), "written elements", status);
    return x;
}

static void free_memory(Memory *x, Alloc *alloc)
{
    alloc_free(alloc, x->touched);
    alloc_free(alloc, x->written);
}

bool brute_force(const char *algorithm, const BruteProblem *p, BruteCounts *counts, Alloc *alloc, Status *status)
{
    static const struct {
        const char *name;
        void (*run)(Run *run);
    } algorithms[] = {{"standard", standard}, {"fa1", fa1}, {"fa1-shipped", fa1_shipped}, {"fa2", fa2}};
    const uint64_t heads = p->batch * p->heads, kv_heads = p->batch * p->kv_heads, e = p->element_bytes, t = p->statistic_bytes;
    *counts = (BruteCounts){0};
    Run run = {.p = p, .n = counts};
    run.Q = new_memory(heads, p->Nq, p->d, e, alloc, status);
    run.K = new_memory(kv_heads, p->Nk, p->d, e, alloc, status);
    run.V = new_memory(kv_heads, p->Nk, p->d, e, alloc, status);
    run.O = new_memory(heads, p->Nq, p->d, e, alloc, status);
    run.l = new_memory(heads, p->Nq, 1, t, alloc, status);
    run.m = new_memory(heads, p->Nq, 1, t, alloc, status);
    run.S = new_memory(heads, p->Nq, p->Nk, e, alloc, status);
    run.P = new_memory(heads, p->Nq, p->Nk, e, alloc, status);
    bool known = false;
    for (size_t i = 0; i < sizeof algorithms / sizeof algorithms[0]; i++) {
        if (strcmp(algorithms[i].name, algorithm) != 0) continue;
        known = true;
        if (status_ok(status)) algorithms[i].run(&run);
    }
    if (!known) status_fail(status, STATUS_USAGE, "no brute-force count of algorithm '%s'", algorithm);
    Memory *const all[] = {&run.Q, &run.K, &run.V, &run.O, &run.l, &run.m, &run.S, &run.P};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free_memory(all[i], alloc);
    return status_ok(status);
}
