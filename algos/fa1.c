/* fa1.c - FlashAttention-1, forward pass, twice: as the paper lists it and as it was shipped. Lecture §2.2, §2.3.
 *
 * As listed (Dao et al. 2022, arXiv:2205.14135, Algorithm 1): one thread block per head; the outer loop holds K_j, V_j, the inner loop reads
 * Q_i and what has been reached so far, O_i, l_i, m_i, and writes them back. O is normalised at every step. Everything lives in one on-chip
 * memory of M elements: K, V, Q, O, l, m and one score tile that P overwrites. HBM traffic without L2, no mask:
 *     2Nd + (Nd + 2N) + Tc (3Nd + 4N)        K, V once; line 2 writes O, l, m; Tc passes over all rows
 *
 * As shipped (flash-attention before 2.0): the same loops in steps of 16 query rows, one logsumexp per row instead of l and m, and the first
 * pass neither finds nor reads an O. Its published curve (Figure 2, middle) is (1 + 3 Tc) Nd: the statistics (N (2 Tc - 1)) are not in it.
 * S and P stay in registers. Left out: the four warps split the keys (split-K) and exchange partial results through shared memory
 * (§3.4), and O between passes is float32 in the shipped kernel while the published curve counts it at two bytes, as here.
 */
#include "algorithm.h"

/* ---------------------------------------------------------------------------------------------------------------- as listed */

typedef struct {
    Attention *attention;
    Tensor *l, *m;
} Fa1;

static void fa1_init_block(Block *b, const void *arguments, uint64_t index)
{
    (void)index;
    const Fa1 *f = arguments;
    const Attention *a = f->attention;
    const uint32_t Br = a->Br, d = (uint32_t)a->shape.head_dim;
    Stream *w = stream(b, "init", 4);
    Tile *o = register_tile(b, "O", a->statistic, Br, d);
    Rows *l = row_vector(b, "l", a->statistic, Br), *m = row_vector(b, "m", a->statistic, Br);

    for (uint64_t i = 0; i < query_blocks(a); i++) {        /* line 2: O = 0, l = 0, m = -inf in HBM */
        const uint32_t rows = live_rows(a, i);
        fill(w, o, rows, d, 0.0);
        fill(w, l, rows, 1, 0.0);
        fill(w, m, rows, 1, -INFINITY);
        store(w, a->O, i * Br, o);
        store(w, f->l, i * Br, l);
        store(w, f->m, i * Br, m);
    }
}

static void fa1_block(Block *b, const void *arguments, uint64_t index)
{
    (void)index;
    const Fa1 *f = arguments;
    const Attention *a = f->attention;
    const uint32_t Br = a->Br, Bc = a->Bc, d = (uint32_t)a->shape.head_dim;
    const ElementType type = a->shape.dtype, statistic = a->statistic;
    Stream *w = stream(b, "compute", 4);

    Tile *k = shared_tile(b, "K", type, Bc, d), *v = shared_tile(b, "V", type, Bc, d);
    Tile *q = shared_tile(b, "Q", type, Br, d), *o = shared_tile(b, "O", type, Br, d);
    Rows *l = shared_tile(b, "l", statistic, Br, 1), *m = shared_tile(b, "m", statistic, Br, 1);
    Tile *s = shared_tile(b, "S", statistic, Br, Bc), *p = tile_view(s, "P", type, Br, Bc), *z = keep_tile(b, a, a->Br);
    Tile *pv = register_tile(b, "PV", statistic, Br, d);
    Rows *nothing = row_vector(b, "-inf", statistic, Br), *m_tile = row_vector(b, "m~", statistic, Br);
    Rows *l_tile = row_vector(b, "l~", statistic, Br), *m_new = row_vector(b, "m_new", statistic, Br);
    Rows *old_weight = row_vector(b, "e^(m - m_new)", statistic, Br), *tile_weight = row_vector(b, "e^(m~ - m_new)", statistic, Br);

    for (uint64_t j = 0; j < key_blocks(a); j++) {          /* line 5 */
        const BlockRange queries = visible_query_blocks(a, j);
        if (queries.first == queries.end) continue;
        load(w, k, a->K, j * Bc);                           /* line 6 */
        load(w, v, a->V, j * Bc);
        for (uint64_t i = queries.first; i < queries.end; i++) {    /* line 7 */
            load(w, q, a->Q, i * Br);                       /* line 8 */
            load(w, o, a->O, i * Br);
            load(w, l, f->l, i * Br);
            load(w, m, f->m, i * Br);
            w->shape = b->kernel->shape;                    /* each warp reads all of Q_i and its quarter of K_j */
            matmul_nt(w, s, q, k);                          /* line 9: S = scale Q_i K_jᵀ */
            scale(w, s, a->shape.softmax_scale);
            mask(w, s, i * Br, j * Bc, a->band);
            fill(w, nothing, live_rows(a, i), 1, -INFINITY);
            row_max(w, m_tile, nothing, s);                 /* line 10: m~ = rowmax S, P~ = e^(S - m~), l~ = rowsum P~ */
            exp_rows(w, s, s, m_tile);
            row_sum(w, l_tile, s);
            keep_or_load(w, a, z, s, i * a->Br, j * a->Bc);
            drop_and_convert(w, a, p, s, z);
            rows_max(w, m_new, m, m_tile);                  /* line 11: m_new = max(m, m~) */
            rows_exp_difference(w, old_weight, m, m_new);
            rows_exp_difference(w, tile_weight, m_tile, m_new);
            rows_multiply(w, l, l, old_weight);             /*          l_new = e^(m - m_new) l + e^(m~ - m_new) l~ */
            rows_multiply(w, l_tile, l_tile, tile_weight);
            scale_rows(w, o, l);                            /* line 12: O = diag(l_new)^-1 (diag(l) e^(m - m_new) O + e^(m~ - m_new) P~ V_j) */
            rows_add(w, l, l_tile);
            w->shape = (InstructionShape){0, 0};            /* each warp reads its own quarter of P and of V_j */
            matmul_nn(w, pv, p, v);
            scale_rows(w, pv, tile_weight);
            add(w, o, pv);
            divide_rows(w, o, l);
            store(w, a->O, i * Br, o);
            store(w, f->l, i * Br, l);                      /* line 13 */
            store(w, f->m, i * Br, m_new);
        }
    }
}

static bool fa1_forward(Machine *machine, Attention *a)
{
    const AttentionShape *s = &a->shape;
    const Fa1 f = {a, machine_tensor(machine, "l", a->statistic, s->batch, s->heads, s->seqlen_q, 1),
                   machine_tensor(machine, "m", a->statistic, s->batch, s->heads, s->seqlen_q, 1)};
    const Kernel init = attention_kernel(&algorithm_fa1, "fa1_init", a, fa1_init_block);
    const Kernel forward = attention_kernel(&algorithm_fa1, "fa1_forward", a, fa1_block);
    return launch_keep_mask(machine, a, forward) && launch(machine, &init, one_block_per_head(a), &f) && launch(machine, &forward, one_block_per_head(a), &f);
}

/* --------------------------------------------------------------------------------------------------------------- as shipped */

static void fa1_shipped_block(Block *b, const void *arguments, uint64_t index)
{
    (void)index;
    const Attention *a = arguments;
    const uint32_t Br = a->Br, Bc = a->Bc, d = (uint32_t)a->shape.head_dim;
    const ElementType type = a->shape.dtype, statistic = a->statistic;
    Stream *w = stream(b, "compute", 4);

    Tile *k = shared_tile(b, "K", type, Bc, d), *v = shared_tile(b, "V", type, Bc, d), *q = shared_tile(b, "Q", type, Br, d);
    Tile *s = register_tile(b, "S", statistic, Br, Bc), *p = tile_view(s, "P", type, Br, Bc), *z = keep_tile(b, a, a->Br);
    Tile *o = register_tile(b, "O", statistic, Br, d), *pv = register_tile(b, "PV", statistic, Br, d);
    Rows *lse = row_vector(b, "L", statistic, Br), *m = row_vector(b, "m", statistic, Br), *l = row_vector(b, "l", statistic, Br);
    Rows *weight = row_vector(b, "e^(L - m)", statistic, Br);

    uint64_t first_unvisited = 0;       /* query blocks from here on have no O yet */
    for (uint64_t j = 0; j < key_blocks(a); j++) {
        const BlockRange queries = visible_query_blocks(a, j);
        if (queries.first == queries.end) continue;
        load(w, k, a->K, j * Bc);
        load(w, v, a->V, j * Bc);
        for (uint64_t i = queries.first; i < queries.end; i++) {
            const uint32_t rows = live_rows(a, i);
            load(w, q, a->Q, i * Br);
            if (i >= first_unvisited) {                     /* the first pass over these rows */
                fill(w, o, rows, d, 0.0);
                fill(w, lse, rows, 1, -INFINITY);
            } else {
                load(w, o, a->O, i * Br);
                load(w, lse, a->L, i * Br);
            }
            matmul_nt(w, s, q, k);                          /* S = scale Q_i K_jᵀ */
            scale(w, s, a->shape.softmax_scale);
            mask(w, s, i * Br, j * Bc, a->band);
            row_max(w, m, lse, s);                          /* m = max(L, rowmax S): no sum below can overflow */
            exp_rows(w, s, s, m);                           /* P = e^(S - m) */
            rows_exp_difference(w, weight, lse, m);         /* e^(L - m): the old sum in the new unit */
            row_sum(w, l, s);
            rows_add(w, l, weight);                         /* l = e^(L - m) + rowsum P */
            keep_or_load(w, a, z, s, i * a->Br, j * a->Bc);
            drop_and_convert(w, a, p, s, z);
            matmul_nn(w, pv, p, v);
            scale_rows(w, o, weight);                       /* O = diag(l)^-1 (e^(L - m) O + P V_j) */
            add(w, o, pv);
            divide_rows(w, o, l);
            rows_log_sum_exp(w, lse, m, l);                 /* L = m + log l */
            store(w, a->O, i * Br, o);
            store(w, a->L, i * Br, lse);
        }
        first_unvisited = max_u64(first_unvisited, queries.end);
    }
}

/* Rows that see no key are never visited by the loop over keys: they get O = 0 and L = -inf here. */
static void fa1_shipped_empty_block(Block *b, const void *arguments, uint64_t i)
{
    const Attention *a = arguments;
    const BlockRange keys = visible_key_blocks(a, i);
    if (keys.first < keys.end) return;
    Stream *w = stream(b, "compute", 4);
    Tile *o = register_tile(b, "O", a->statistic, a->Br, (uint32_t)a->shape.head_dim);
    Rows *lse = row_vector(b, "L", a->statistic, a->Br);
    fill(w, o, live_rows(a, i), (uint32_t)a->shape.head_dim, 0.0);
    fill(w, lse, live_rows(a, i), 1, -INFINITY);
    store(w, a->O, i * a->Br, o);
    store(w, a->L, i * a->Br, lse);
}

static bool fa1_shipped_forward(Machine *machine, Attention *a)
{
    const AttentionShape *s = &a->shape;
    a->L = machine_tensor(machine, "L", a->statistic, s->batch, s->heads, s->seqlen_q, 1);
    const Kernel forward = attention_kernel(&algorithm_fa1_shipped, "fa1_forward", a, fa1_shipped_block);
    const Kernel empty = attention_kernel(&algorithm_fa1_shipped, "fa1_empty_rows", a, fa1_shipped_empty_block);
    return launch_keep_mask(machine, a, forward) && launch(machine, &forward, one_block_per_head(a), a) && launch(machine, &empty, one_block_per_query_block(a), a);
}

/* Steps of 16 query rows; 256 keys up to head dim 64, 128 above (flash-attention at commit 72ad03ea). */
static TileSize fa1_tiles(const AttentionShape *s) { return (TileSize){16, s->head_dim <= 64 && s->seqlen_k > 128 ? 256 : 128}; }

/* Four warps split the keys: each reads all of Q_i and its quarter of K_j. */
static Geometry fa1_geometry(const AttentionShape *s, TileSize tiles)
{
    (void)s;
    return (Geometry){.threads = 128, .registers_per_thread = 255, .shape = {0, (tiles.Bc + 3) / 4}};
}

const Algorithm algorithm_fa1 = {
    .name = "fa1",
    .title = "FlashAttention-1, forward, as listed",
    .source = "Dao et al. 2022, arXiv:2205.14135, Algorithm 1",
    .instruction = TENSOR_MMA_SYNC,
    .tiles = fa1_tiles,
    .geometry = fa1_geometry,
    .forward = fa1_forward,
    .closed_form = closed_form_fa1,
};

const Algorithm algorithm_fa1_shipped = {
    .name = "fa1-shipped",
    .title = "FlashAttention-1, forward, as shipped",
    .source = "flash-attention before 2.0; arXiv:2205.14135, Figure 2 (middle)",
    .instruction = TENSOR_MMA_SYNC,
    .tiles = fa1_tiles,
    .geometry = fa1_geometry,
    .forward = fa1_shipped_forward,
    .closed_form = closed_form_fa1_shipped,
};
