/* brute_force.c - see brute_force.h. */
#include "brute_force_internal.h"

#include <string.h>

static void new_launch(Run *run)
{
    Memory *const all[] = {&run->Q, &run->K, &run->V, &run->O, &run->l, &run->m, &run->S, &run->P, &run->parts, &run->part_lse};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) forget(all[i]);
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
    read_left_by(run, q, d, k, 0);      /* split-K: each warp reads its own part of P */
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

/* ---------------------------------------------------------------------------------------------------------- FlashAttention-4 */

/* As above, but O goes to shared memory first and is stored from there. */
static void fa4_block(Run *run, uint64_t i)
{
    const Span q = block_span(i, run->p->Br, run->p->Nq), d = whole(run->p->d);
    fa2_block(run, i);
    run->n->smem_thread_bytes += tile_bytes(q, d, run->p->element_bytes);
    copy(run, q, d, run->p->element_bytes);
}

static void fa4(Run *run) { each_head(run, fa4_block, query_blocks(run->p)); }

/* --------------------------------------------------------------------------------------------------------------------- decode */

/* A row of a tile: a query of one of the heads that are stacked. */
typedef struct {
    uint64_t head, query;
} StackedRow;

/* Rows first .. end - 1 of the tile rows of a K/V head (packed) or a query head. */
static StackedRow stacked_row(const BruteProblem *p, uint64_t grid_head, uint64_t row)
{
    const uint64_t group = p->packed ? p->heads / p->kv_heads : 1;
    return (StackedRow){grid_head * group + row % group, row / group};
}

static bool rows_see(const BruteProblem *p, uint64_t grid_head, Span rows, Span keys)
{
    for (uint64_t r = rows.first; r < rows.end; r++)
        for (uint64_t c = keys.first; c < keys.end; c++)
            if (visible(p, stacked_row(p, grid_head, r).query, c)) return true;
    return false;
}

/* One row against one key block: S, softmax, P V, and O rescaled. */
static void decode_row(Run *run, StackedRow row, Span keys)
{
    const BruteProblem *p = run->p;
    const Span q = {row.query, row.query + 1};
    run->head = row.head;
    multiply(run, q, keys);
    multiply(run, q, keys);
    for (uint64_t c = keys.first; c < keys.end; c++) {
        work(run, 3, 0);                                    /* scale, maximum, sum */
        work(run, 2, 1);
    }
    work(run, 4, 1);                                        /* alpha, l */
    for (uint64_t x = 0; x < p->d; x++) work(run, 2, 0);
}

static void decode_tile(Run *run, uint64_t grid_head, Span rows, Span keys)
{
    const Span d = whole(run->p->d);
    run->head = stacked_row(run->p, grid_head, rows.first).head;
    load_shared(run, &run->K, keys, d);
    load_shared(run, &run->V, keys, d);
    for (uint64_t r = rows.first; r < rows.end; r++) decode_row(run, stacked_row(run->p, grid_head, r), keys);
    read_left(run, rows, keys, d);
    read_right(run, rows, keys, d);
    read_right(run, rows, d, keys);
    run->n->tile_pairs++;
}

/* A block: part s of the keys for some rows. */
static void decode_part(Run *run, uint64_t grid_head, Span rows, uint64_t s)
{
    const BruteProblem *p = run->p;
    uint64_t key_blocks = 0, each = 0;
    while (key_blocks * p->Bc < p->Nk) key_blocks++;
    while (each * p->splits < key_blocks) each++;
    bool loaded = false;
    for (uint64_t j = s * each; j < (s + 1) * each && j < key_blocks; j++) {
        const Span keys = block_span(j, p->Bc, p->Nk);
        if (!rows_see(p, grid_head, rows, keys)) continue;
        for (uint64_t r = rows.first; !loaded && r < rows.end; r++) {
            const StackedRow row = stacked_row(p, grid_head, r);
            run->head = row.head;
            load_shared(run, &run->Q, (Span){row.query, row.query + 1}, whole(p->d));
        }
        loaded = true;
        decode_tile(run, grid_head, rows, keys);
    }
    for (uint64_t r = rows.first; r < rows.end; r++) {
        const StackedRow row = stacked_row(p, grid_head, r);
        const uint64_t at = p->splits > 1 ? s * p->Nq + row.query : row.query;
        run->head = row.head;
        for (uint64_t x = 0; x < p->d; x++) work(run, 1, 0);    /* divided by l */
        store(run, p->splits > 1 ? &run->parts : &run->O, (Span){at, at + 1}, whole(p->d));
        store(run, p->splits > 1 ? &run->part_lse : &run->l, (Span){at, at + 1}, whole(1));
    }
}

/* One query of one head: all its parts. */
static void decode_combine_row(Run *run, uint64_t query)
{
    const BruteProblem *p = run->p;
    for (uint64_t s = 0; s < p->splits; s++) {
        const Span at = {s * p->Nq + query, s * p->Nq + query + 1};
        load(run, &run->parts, at, whole(p->d));
        load(run, &run->part_lse, at, whole(1));
        if (p->merged_by_tree && s > 0) {
            work(run, 1, 0);                                /* the larger logsumexp */
            work(run, 2, 1);                                /* a weight each */
            work(run, 2, 1);
            work(run, 1, 0);                                /* their sum */
            for (uint64_t x = 0; x < p->d; x++) work(run, 4, 0);    /* both weighted, added, divided */
        }
        if (p->merged_by_tree) continue;
        work(run, 1, 0);                                    /* maximum */
        work(run, 2, 1);                                    /* e^(L_s - m) */
        work(run, 2, 0);                                    /* sum, divided by it */
        for (uint64_t x = 0; x < p->d; x++) work(run, 2, 0);    /* weighted, added */
    }
    store(run, &run->O, (Span){query, query + 1}, whole(p->d));
    store(run, &run->l, (Span){query, query + 1}, whole(1));
}

static void decode(Run *run)
{
    const BruteProblem *p = run->p;
    const uint64_t group = p->packed && p->heads > 0 ? p->heads / p->kv_heads : 1, rows = p->Nq * group;
    for (run->batch = 0; run->batch < p->batch; run->batch++)
        for (uint64_t head = 0; head < p->heads / group; head++)
            for (uint64_t first = 0; first < rows; first += p->Br)
                for (uint64_t s = 0; s < p->splits; s++)
                    decode_part(run, head, (Span){first, first + p->Br < rows ? first + p->Br : rows}, s);
    if (p->splits <= 1) return;
    new_launch(run);
    each_head(run, decode_combine_row, p->Nq);
}

/* ---------------------------------------------------------------------------------------------------------------------- a run */

bool brute_force(const char *algorithm, const BruteProblem *p, BruteCounts *counts, Alloc *alloc, Status *status)
{
    static const struct {
        const char *name;
        void (*run)(Run *run);
    } algorithms[] = {{"standard", standard}, {"fa1", fa1}, {"fa1-shipped", fa1_shipped}, {"fa2", fa2},
                      {"fa3", fa2},      /* the same blocks, loads and stores */
                      {"fa4", fa4},
                      {"decode", decode}};
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
    run.parts = new_memory(heads, p->splits * p->Nq, p->d, t, alloc, status);
    run.part_lse = new_memory(heads, p->splits * p->Nq, 1, t, alloc, status);
    bool known = false;
    for (size_t i = 0; i < sizeof algorithms / sizeof algorithms[0]; i++) {
        if (strcmp(algorithms[i].name, algorithm) != 0) continue;
        known = true;
        if (status_ok(status)) algorithms[i].run(&run);
    }
    if (!known) status_fail(status, STATUS_USAGE, "no brute-force count of algorithm '%s'", algorithm);
    Memory *const all[] = {&run.Q, &run.K, &run.V, &run.O, &run.l, &run.m, &run.S, &run.P, &run.parts, &run.part_lse};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free_memory(all[i], alloc);
    return status_ok(status);
}
