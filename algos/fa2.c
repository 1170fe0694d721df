/* fa2.c - FlashAttention-2, forward pass. Dao 2023, "FlashAttention-2: Faster Attention with Better Parallelism and Work
 * Partitioning", Algorithm 1. Lecture §3.
 *
 * One thread block per query block: Q_i stays in shared memory, O_i, m_i, l_i stay in registers from beginning to end, K and V stream
 * by. O is accumulated unnormalised and divided by l once; only L = m + log l is kept for the backward pass. HBM traffic without L2, no mask:
 * Nd (Q) + 2 Nd Tr (K, V once per query block) + Nd (O) + N (L).
 *
 * The warps split the query rows (split-Q); K and V have one buffer each, as shipped,
 * filled by asynchronous copies one step ahead. Key blocks run
 * first to last; the shipped kernel runs last to first (Attention::last_keys_first). P takes the registers of S. A query block that sees no key reads nothing.
 */
#include "algorithm.h"

static uint64_t key_block(const Attention *a, BlockRange keys, uint64_t step)
{
    return a->last_keys_first ? keys.end - 1 - step : keys.first + step;
}

static void fa2_block(Block *b, const void *arguments, uint64_t i)
{
    const Attention *a = arguments;
    const uint32_t Br = a->Br, Bc = a->Bc, d = (uint32_t)a->shape.head_dim, rows = live_rows(a, i);
    const ElementType type = a->shape.dtype, statistic = a->statistic;
    Stream *w = stream(b, "compute", b->kernel->threads / 32);

    Tile *q = shared_tile(b, "Q", type, Br, d);
    Tile *k = shared_tile(b, "K", type, Bc, d);
    Tile *v = shared_tile(b, "V", type, Bc, d);
    Tile *s = register_tile(b, "S", statistic, Br, Bc);
    Tile *p = tile_view(s, "P", type, Br, Bc), *z = keep_tile(b, a, a->Br);
    Tile *o = register_tile(b, "O", statistic, Br, d);
    Rows *m = row_vector(b, "m", statistic, Br), *m_new = row_vector(b, "m_new", statistic, Br);
    Rows *l = row_vector(b, "l", statistic, Br), *alpha = row_vector(b, "alpha", statistic, Br);

    fill(w, o, rows, d, 0.0);                               /* line 5: O = 0, l = 0, m = -inf, on chip */
    fill(w, l, rows, 1, 0.0);
    fill(w, m, rows, 1, -INFINITY);

    const BlockRange keys = visible_key_blocks(a, i);
    if (keys.first < keys.end) {
        load(w, q, a->Q, i * Br);                           /* line 4 */
        load(w, k, a->K, key_block(a, keys, 0) * Bc);       /* line 7, for the first block */
    }
    for (uint64_t step = 0; step < keys.end - keys.first; step++) {
        const uint64_t j = key_block(a, keys, step);
        load(w, v, a->V, j * Bc);                           /* line 7: arrives while S is computed */
        matmul_nt(w, s, q, k);                              /* line 8: S = scale Q_i K_jᵀ */
        if (step + 1 < keys.end - keys.first) load(w, k, a->K, key_block(a, keys, step + 1) * Bc);  /* the next K, while the rest goes on */
        scale(w, s, a->shape.softmax_scale);
        mask(w, s, i * Br, j * Bc, a->band);
        row_max(w, m_new, m, s);                            /* line 9: m_new = max(m, rowmax S) */
        rows_exp_difference(w, alpha, m, m_new);            /*         alpha = e^(m - m_new) */
        exp_rows(w, s, s, m_new);                           /*         P = e^(S - m_new) */
        row_sum_scaled(w, l, alpha, s);                     /*         l = alpha l + rowsum P */
        keep_or_load(w, a, z, s, i * a->Br, j * a->Bc);
        drop_and_convert(w, a, p, s, z);                    /*         P as an operand, dropped where Z = 0 */
        scale_rows(w, o, alpha);                            /* line 10: O = diag(alpha) O + P V_j */
        matmul_nn_add(w, o, p, v);
        Rows *const swap = m;
        m = m_new;
        m_new = swap;
    }
    divide_rows(w, o, l);                                   /* line 12: O = diag(l)^-1 O */
    rows_log_sum_exp(w, alpha, m, l);                       /* line 13: L = m + log l */
    store(w, a->O, i * Br, o);                              /* lines 14, 15 */
    store(w, a->L, i * Br, alpha);
}

static bool fa2_forward(Machine *machine, Attention *a)
{
    const AttentionShape *s = &a->shape;
    a->L = machine_tensor(machine, "L", a->statistic, s->batch, s->heads, s->seqlen_q, 1);
    const Kernel kernel = attention_kernel(&algorithm_fa2, "fa2_forward", a, fa2_block);
    return launch_keep_mask(machine, a, kernel) && launch(machine, &kernel, one_block_per_query_block(a), a);
}

/* Real tiles: flash-attention 2.x, hdim tables for sm80 (head dim 256: the A100's). */
static TileSize fa2_tiles(const AttentionShape *s) { return s->head_dim <= 64 ? (TileSize){128, 128} : (TileSize){128, 64}; }

/* Four warps, eight when the accumulators S and O would take more than 240 of a thread's 255 registers (as shipped: head dims past 128,
 * or 128 x 128 tiles at head dim 128). */
static Geometry fa2_geometry(const AttentionShape *s, TileSize tiles)
{
    const uint64_t words = (uint64_t)tiles.Br * (tiles.Bc + s->head_dim) * (s->dtype == ELEMENT_F64 ? 2 : 1);
    const uint32_t warps = s->head_dim <= 128 && words <= 4 * 32 * 240 ? 4 : 8;
    return (Geometry){.threads = 32 * warps, .registers_per_thread = 255, .shape = {(tiles.Br + warps - 1) / warps, 0}};
}

const Algorithm algorithm_fa2 = {
    .name = "fa2",
    .title = "FlashAttention-2, forward",
    .source = "Dao 2023, arXiv:2307.08691, Algorithm 1",
    .instruction = TENSOR_MMA_SYNC,
    .tiles = fa2_tiles,
    .geometry = fa2_geometry,
    .forward = fa2_forward,
    .closed_form = closed_form_fa2,
    .backward = fa2_backward,
    .backward_tiles = fa2_backward_tiles,
    .backward_closed_form = closed_form_fa2_backward,
};
