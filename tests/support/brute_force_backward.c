/* brute_force_backward.c - the backward passes, and dropout, counted element by element. See brute_force.h. */
#include "brute_force_internal.h"

#include <string.h>

typedef struct {
    Run run;
    const BruteBackward *b;
    Memory dO, dQ, dK, dV, D, Z, dP, dS;
    Memory dQ_sum;                      /* rows of split 0, of split 1, ... */
    Memory dK_sum, dV_sum;
    bool copied_out;                    /* FlashAttention-3 and -4: P stays out of shared memory, dQ leaves through it */
} Backward;

enum { MEMORIES = 17 };

static void list_memories(Backward *f, Memory *all[MEMORIES])
{
    Run *run = &f->run;
    Memory *const list[MEMORIES] = {&run->Q, &run->K, &run->V, &run->O, &run->l, &run->P,    &f->dO,     &f->dQ,    &f->dK,
                                    &f->dV,  &f->D,   &f->Z,   &f->dP,  &f->dS,  &f->dQ_sum, &f->dK_sum, &f->dV_sum};
    for (int i = 0; i < MEMORIES; i++) all[i] = list[i];
}

static void next_launch(Backward *f)
{
    Memory *all[MEMORIES];
    list_memories(f, all);
    for (int i = 0; i < MEMORIES; i++) forget(all[i]);
}

/* One launch: `blocks` blocks for every query head, or for every K/V head (run.head is then the first query head of its
 * group). */
static void launch_heads(Backward *f, void (*block)(Backward *f, uint64_t i), uint64_t blocks, bool kv_heads)
{
    const BruteProblem *p = f->run.p;
    const uint64_t group = p->heads > p->kv_heads ? p->heads / p->kv_heads : 1;
    next_launch(f);
    for (f->run.batch = 0; f->run.batch < p->batch; f->run.batch++)
        for (uint64_t head = 0; head < (kv_heads ? p->kv_heads : p->heads); head++)
            for (uint64_t i = 0; i < blocks; i++) {
                f->run.head = kv_heads ? head * group : head;
                block(f, i);
            }
}

static uint64_t key_blocks(const BruteProblem *p)
{
    uint64_t blocks = 0;
    while (blocks * p->Bc < p->Nk) blocks++;
    return blocks;
}

static Span queries_of(const Backward *f, uint64_t i) { return block_span(i, f->run.p->Br, f->run.p->Nq); }

static Span keys_of(const Backward *f, uint64_t j) { return block_span(j, f->run.p->Bc, f->run.p->Nk); }

static uint64_t query_heads_of_group(const BruteProblem *p) { return p->heads / p->kv_heads; }

/* An addition at L2: two per element, and what an ideal L2 lets through. */
static void add_to(const Run *run, Memory *x, Span rows, uint64_t row_offset)
{
    for (uint64_t r = rows.first; r < rows.end; r++)
        for (uint64_t c = 0; c < x->cols; c++) {
            const uint64_t i = element_of(run, x, row_offset + r, c);
            run->n->sm_to_l2_bytes += x->bytes;
            run->n->atomic_elements += 2;
            if (!run->p->ideal_l2) continue;
            run->n->hbm_read_elements += !x->touched[i];
            run->n->hbm_read_bytes += x->touched[i] ? 0 : x->bytes;
            run->n->hbm_write_elements += !x->written[i];
            run->n->hbm_write_bytes += x->written[i] ? 0 : x->bytes;
            x->touched[i] = x->written[i] = true;
        }
}

static void work_on(const Run *run, Span rows, Span cols, uint64_t operations)
{
    for (uint64_t r = rows.first; r < rows.end; r++)
        for (uint64_t c = cols.first; c < cols.end; c++) work(run, operations, 0);
}

/* ----------------------------------------------------------------------------------------------------- FlashAttention-2 */

static void fa2_dot(Backward *f, uint64_t i)
{
    const Span q = queries_of(f, i), d = whole(f->run.p->d);
    load(&f->run, &f->run.O, q, d);
    load(&f->run, &f->dO, q, d);
    work_on(&f->run, q, d, 1);          /* times */
    work_on(&f->run, q, d, 1);          /* plus */
    store(&f->run, &f->D, q, whole(1));
    if (f->b->direct_dq || f->b->query_blocks_outside) return;
    for (uint64_t split = 0; split < f->b->splits; split++)
        store(&f->run, &f->dQ_sum, (Span){split * f->run.p->Nq + q.first, split * f->run.p->Nq + q.end}, d);
}

static void fa2_zero_queries(Backward *f, uint64_t i) { store(&f->run, &f->dQ, queries_of(f, i), whole(f->run.p->d)); }

static void fa2_zero_keys(Backward *f, uint64_t j)
{
    store(&f->run, &f->dK_sum, keys_of(f, j), whole(f->run.p->d));
    store(&f->run, &f->dV_sum, keys_of(f, j), whole(f->run.p->d));
}

static void load_query_side(Backward *f, Span q)
{
    load_shared(&f->run, &f->run.Q, q, whole(f->run.p->d));
    load_shared(&f->run, &f->dO, q, whole(f->run.p->d));
    load(&f->run, &f->run.l, q, whole(1));
    load(&f->run, &f->D, q, whole(1));
}

static void load_key_side(Backward *f, Span k)
{
    load_shared(&f->run, &f->run.K, k, whole(f->run.p->d));
    load_shared(&f->run, &f->run.V, k, whole(f->run.p->d));
}

/* S, P, dP, dS and the three products of one pair of blocks. */
static void fa2_tile(Backward *f, Span q, Span k)
{
    const Run *run = &f->run;
    const BruteBackward *b = f->b;
    const Span d = whole(run->p->d);
    for (int product = 0; product < 2; product++) {     /* S = Q Kᵀ, dP = dO Vᵀ */
        multiply(run, q, k);
        read_left(run, q, k, d);
        read_right(run, q, k, d);
    }
    if (b->dropout && b->stored_mask) load(run, &f->Z, q, k);
    for (uint64_t r = q.first; r < q.end; r++)
        for (uint64_t c = k.first; c < k.end; c++) {
            work(run, 1, 0);                            /* times scale */
            work(run, 2, 1);                            /* minus L, exponential */
            work(run, 1, 0);                            /* dP minus D */
            work(run, 1, 0);                            /* times P */
            if (b->dropout) work(run, 2, 0);            /* P dropped, dP dropped */
            run->n->smem_thread_bytes += (f->copied_out ? 1 : 2) * run->p->element_bytes;  /* P and dS written; or dS alone */
        }
    for (int product = 0; product < 2; product++) {     /* dV = Pᵀ dO, dK = dSᵀ Q */
        multiply(run, q, k);
        if (!f->copied_out) read_left_by(run, k, d, q, b->key_cols);   /* else P and dS are in registers or tensor memory */
        read_right_by(run, k, d, q, b->key_rows);
    }
    multiply(run, q, k);                                /* dQ = dS K */
    read_left_by(run, q, d, k, b->query_cols);
    read_right_by(run, q, d, k, b->query_rows);
    run->n->tile_pairs++;
}

static void fa2_key_block(Backward *f, uint64_t j)
{
    const BruteProblem *p = f->run.p;
    const Span k = keys_of(f, j), d = whole(p->d);
    const uint64_t first_head = f->run.head, group = query_heads_of_group(p);
    if (group > 0 && any_visible(p, whole(p->Nq), k)) load_key_side(f, k);
    for (f->run.head = first_head; f->run.head < first_head + group; f->run.head++)
        for (uint64_t i = 0; i * p->Br < p->Nq; i++) {
            const Span q = queries_of(f, i);
            if (!any_visible(p, q, k)) continue;
            load_query_side(f, q);
            fa2_tile(f, q, k);
            work_on(&f->run, k, d, 2);                  /* added to dV, dK */
            if (f->b->direct_dq) work_on(&f->run, q, d, 1);             /* times scale */
            if (f->b->direct_dq) add_to(&f->run, &f->dQ, q, 0);
            else add_to(&f->run, &f->dQ_sum, q, j % f->b->splits * p->Nq);
            if (!f->copied_out) continue;
            f->run.n->smem_thread_bytes += tile_bytes(q, d, p->statistic_bytes);
            copy(&f->run, q, d, p->statistic_bytes);
        }
    f->run.head = first_head;
    work_on(&f->run, k, d, 1);                          /* dK times scale */
    store(&f->run, &f->dK, k, d);
    store(&f->run, &f->dV, k, d);
}

static void fa2_convert_queries(Backward *f, uint64_t i)
{
    const Span q = queries_of(f, i), d = whole(f->run.p->d);
    for (uint64_t split = 0; split < f->b->splits; split++) {
        load(&f->run, &f->dQ_sum, (Span){split * f->run.p->Nq + q.first, split * f->run.p->Nq + q.end}, d);
        work_on(&f->run, q, d, 1);                      /* added to the first; the first: times scale */
    }
    store(&f->run, &f->dQ, q, d);
}

static void fa2_query_block(Backward *f, uint64_t i)
{
    const BruteProblem *p = f->run.p;
    const Span q = queries_of(f, i), d = whole(p->d);
    if (any_visible(p, q, whole(p->Nk))) load_query_side(f, q);
    for (uint64_t j = 0; j * p->Bc < p->Nk; j++) {
        const Span k = keys_of(f, j);
        if (!any_visible(p, q, k)) continue;
        load_key_side(f, k);
        fa2_tile(f, q, k);
        work_on(&f->run, q, d, 1);                      /* added to dQ */
        add_to(&f->run, &f->dV_sum, k, 0);
        add_to(&f->run, &f->dK_sum, k, 0);
    }
    work_on(&f->run, q, d, 1);                          /* dQ times scale */
    store(&f->run, &f->dQ, q, d);
}

static void fa2_convert_keys(Backward *f, uint64_t j)
{
    const Span k = keys_of(f, j), d = whole(f->run.p->d);
    load(&f->run, &f->dK_sum, k, d);
    load(&f->run, &f->dV_sum, k, d);
    work_on(&f->run, k, d, 1);                          /* dK times scale */
    store(&f->run, &f->dK, k, d);
    store(&f->run, &f->dV, k, d);
}

static void fa2(Backward *f)
{
    const uint64_t Tr = query_blocks(f->run.p), Tc = key_blocks(f->run.p);
    if (f->b->direct_dq && !f->b->query_blocks_outside) launch_heads(f, fa2_zero_queries, Tr, false);
    launch_heads(f, fa2_dot, Tr, false);
    if (f->b->query_blocks_outside) {
        launch_heads(f, fa2_zero_keys, Tc, true);
        launch_heads(f, fa2_query_block, Tr, false);
        launch_heads(f, fa2_convert_keys, Tc, true);
    } else {
        launch_heads(f, fa2_key_block, Tc, true);
        if (!f->b->direct_dq) launch_heads(f, fa2_convert_queries, Tr, false);
    }
}

/* ---------------------------------------------------------------------------------------------------------- standard */

/* sum += (scores of the key block)ᵀ (rows of x), over the group and all query blocks. */
static void gather(Backward *f, Memory *scores, Memory *x, bool dropped, uint64_t j)
{
    const Run *run = &f->run;
    const BruteProblem *p = run->p;
    const Span k = keys_of(f, j), d = whole(p->d);
    const uint64_t first_head = run->head, group = query_heads_of_group(p);
    for (f->run.head = first_head; f->run.head < first_head + group; f->run.head++)
        for (uint64_t i = 0; i * p->Br < p->Nq; i++) {
            const Span q = queries_of(f, i);
            load_shared(run, scores, q, k);
            if (dropped && f->b->dropout) {
                if (f->b->stored_mask) load(run, &f->Z, q, k);
                work_on(run, q, k, 1);
                run->n->smem_thread_bytes += tile_bytes(q, k, 2 * p->element_bytes);
            }
            load_shared(run, x, q, d);
            multiply(run, q, k);
            read_left(run, k, d, q);
            read_right(run, k, d, q);
        }
    f->run.head = first_head;
}

static void standard_dv(Backward *f, uint64_t j)
{
    gather(f, &f->run.P, &f->dO, true, j);
    store(&f->run, &f->dV, keys_of(f, j), whole(f->run.p->d));
}

static void standard_dk(Backward *f, uint64_t j)
{
    gather(f, &f->dS, &f->run.Q, false, j);
    work_on(&f->run, keys_of(f, j), whole(f->run.p->d), 1);
    store(&f->run, &f->dK, keys_of(f, j), whole(f->run.p->d));
}

static void standard_dp(Backward *f, uint64_t i)
{
    const Run *run = &f->run;
    const Span q = queries_of(f, i), d = whole(run->p->d);
    for (uint64_t j = 0; j * run->p->Bc < run->p->Nk; j++) {
        const Span k = keys_of(f, j);
        if (j == 0) load_shared(run, &f->dO, q, d);
        load_shared(run, &f->run.V, k, d);
        multiply(run, q, k);
        read_left(run, q, k, d);
        read_right(run, q, k, d);
        if (f->b->dropout) work_on(run, q, k, 1);
        if (f->b->dropout && f->b->stored_mask) load(run, &f->Z, q, k);
        store(run, &f->dP, q, k);
        run->n->tile_pairs++;
    }
}

/* One row; in one piece, or twice in pieces. */
static void standard_ds(Backward *f, uint64_t row)
{
    const Run *run = &f->run;
    const BruteProblem *p = run->p;
    const Span r = {row, row + 1};
    const bool fits = p->softmax_cols >= p->Nk;
    for (int pass = fits ? 2 : 1; pass <= 2; pass++)
        for (uint64_t first = 0; first < p->Nk; first += p->softmax_cols) {
            const Span part = {first, first + p->softmax_cols < p->Nk ? first + p->softmax_cols : p->Nk};
            load_shared(run, &f->run.P, r, part);
            load_shared(run, &f->dP, r, part);
            if (pass == 1) work(run, 1, 0);                     /* the part's sum added to D */
            for (uint64_t c = part.first; c < part.end; c++) {
                if (fits || pass == 1) {
                    work(run, 2, 0);                            /* P dP, summed */
                    run->n->smem_thread_bytes += 2 * p->element_bytes;
                }
                if (pass == 1) continue;
                work(run, 2, 0);                                /* minus D, times P: in place, P read once more */
                run->n->smem_thread_bytes += (2 + 2 + 1) * p->element_bytes;
            }
            if (pass == 2) store_shared(run, &f->dS, r, part);
        }
}

static void standard_dq(Backward *f, uint64_t i)
{
    const Run *run = &f->run;
    const Span q = queries_of(f, i), d = whole(run->p->d);
    for (uint64_t j = 0; j * run->p->Bc < run->p->Nk; j++) {
        const Span k = keys_of(f, j);
        load_shared(run, &f->dS, q, k);
        load_shared(run, &f->run.K, k, d);
        multiply(run, q, k);
        read_left(run, q, d, k);
        read_right(run, q, d, k);
    }
    work_on(run, q, d, 1);
    store(run, &f->dQ, q, d);
}

static void standard(Backward *f)
{
    const uint64_t Tr = query_blocks(f->run.p), Tc = key_blocks(f->run.p);
    launch_heads(f, standard_dv, Tc, true);
    launch_heads(f, standard_dp, Tr, false);
    launch_heads(f, standard_ds, f->run.p->Nq, false);
    launch_heads(f, standard_dq, Tr, false);
    launch_heads(f, standard_dk, Tc, true);
}

/* -------------------------------------------------------------------------------------------------- dropout in a forward */

static void write_mask(Backward *f, uint64_t i)
{
    for (uint64_t j = 0; j * f->run.p->Bc < f->run.p->Nk; j++) store(&f->run, &f->Z, queries_of(f, i), keys_of(f, j));
}

static void drop(Backward *f, uint64_t i)
{
    const BruteProblem *p = f->run.p;
    for (uint64_t j = 0; j * p->Bc < p->Nk; j++) {
        const Span q = queries_of(f, i), k = keys_of(f, j);
        if (!any_visible(p, q, k)) continue;
        work_on(&f->run, q, k, 1);
        if (f->b->stored_mask) load(&f->run, &f->Z, q, k);
    }
}

/* P is in shared memory, and nothing is skipped. */
static void standard_drop(Backward *f, uint64_t i)
{
    const Span q = queries_of(f, i), k = whole(f->run.p->Nk);
    work_on(&f->run, q, k, 1);
    f->run.n->smem_thread_bytes += tile_bytes(q, k, 2 * f->run.p->element_bytes);
    if (f->b->stored_mask) load(&f->run, &f->Z, q, k);
}

/* ---------------------------------------------------------------------------------------------------------------- a run */

static bool new_backward(Backward *f, const BruteBackward *b, BruteCounts *counts, Alloc *alloc, Status *status)
{
    const BruteProblem *p = &b->problem;
    const uint64_t heads = p->batch * p->heads, kv_heads = p->batch * p->kv_heads, e = p->element_bytes, t = p->statistic_bytes;
    *f = (Backward){.run = {.p = p, .n = counts}, .b = b};
    f->run.Q = new_memory(heads, p->Nq, p->d, e, alloc, status);
    f->run.K = new_memory(kv_heads, p->Nk, p->d, e, alloc, status);
    f->run.V = new_memory(kv_heads, p->Nk, p->d, e, alloc, status);
    f->run.O = new_memory(heads, p->Nq, p->d, e, alloc, status);
    f->run.l = new_memory(heads, p->Nq, 1, t, alloc, status);
    f->run.P = new_memory(heads, p->Nq, p->Nk, e, alloc, status);
    f->dO = new_memory(heads, p->Nq, p->d, e, alloc, status);
    f->dQ = new_memory(heads, p->Nq, p->d, e, alloc, status);
    f->dK = new_memory(kv_heads, p->Nk, p->d, e, alloc, status);
    f->dV = new_memory(kv_heads, p->Nk, p->d, e, alloc, status);
    f->D = new_memory(heads, p->Nq, 1, t, alloc, status);
    f->Z = new_memory(heads, p->Nq, p->Nk, 1, alloc, status);
    f->dP = new_memory(heads, p->Nq, p->Nk, e, alloc, status);
    f->dS = new_memory(heads, p->Nq, p->Nk, e, alloc, status);
    f->dQ_sum = new_memory(heads, b->splits * p->Nq, p->d, t, alloc, status);
    f->dK_sum = new_memory(kv_heads, p->Nk, p->d, t, alloc, status);
    f->dV_sum = new_memory(kv_heads, p->Nk, p->d, t, alloc, status);
    return status_ok(status);
}

static void free_backward(Backward *f, Alloc *alloc)
{
    Memory *all[MEMORIES];
    list_memories(f, all);
    for (int i = 0; i < MEMORIES; i++) free_memory(all[i], alloc);
}

bool brute_force_backward(const char *algorithm, const BruteBackward *b, BruteCounts *counts, Alloc *alloc, Status *status)
{
    Backward f;
    *counts = (BruteCounts){0};
    const bool copied_out = strcmp(algorithm, "fa3") == 0 || strcmp(algorithm, "fa4") == 0;
    const bool is_fa2 = strcmp(algorithm, "fa2") == 0 || copied_out;
    if (!is_fa2 && strcmp(algorithm, "standard") != 0)
        return status_fail(status, STATUS_USAGE, "no brute-force count of a backward pass of '%s'", algorithm);
    if (new_backward(&f, b, counts, alloc, status)) {
        f.copied_out = copied_out;
        if (is_fa2) fa2(&f);
        else standard(&f);
    }
    free_backward(&f, alloc);
    return status_ok(status);
}

bool brute_force_dropout(const char *algorithm, const BruteProblem *p, BruteDropout dropout, BruteCounts *counts, Alloc *alloc,
                         Status *status)
{
    Backward f;
    const BruteBackward b = {.problem = *p, .splits = 1, .dropout = true, .stored_mask = dropout.stored_mask};
    *counts = (BruteCounts){0};
    if (new_backward(&f, &b, counts, alloc, status)) {
        if (dropout.written) launch_heads(&f, write_mask, query_blocks(p), false);
        launch_heads(&f, strcmp(algorithm, "standard") == 0 ? standard_drop : drop, query_blocks(p), false);
    }
    free_backward(&f, alloc);
    return status_ok(status);
}
