/* warp_split.c - split-K and split-Q (lecture §3.4). Dao 2023, arXiv:2307.08691, section 3.3 and Figure 3.
 *
 * split-K    warp w has the keys [w Bc/W, (w + 1) Bc/W) of a tile and all Br rows: its softmax is one of Bc/W keys, its result
 *            (m, l, o) partial. At every K/V tile the W results go through shared memory, and all warps merge them:
 *                m_new = max(m, m_w)
 *                l = e^(m - m_new) l + e^(m_w - m_new) l_w,     O = e^(m - m_new) O + e^(m_w - m_new) o_w
 *            W Br (d + 2) numbers written, as many read, and two barriers. All of Q is read by every warp, each key by one.
 * split-Q    warp w has the rows [w Br/W, (w + 1) Br/W) and sweeps over all keys: what it has is final. Nothing is exchanged; all
 *            of K and V is read by every warp, each row of Q by one.
 *
 * A merge takes one partial result after the other. FlashAttention-1 as shipped agreed on the row maximum first and then only
 * added. Barriers are those of the exchange: a tile that a copy fills for several warps needs its own in both splits.
 */
#include "warp_split.h"

#include <math.h>

typedef struct {
    const Attention *attention;
    uint32_t warps;
} Split;

/* -------------------------------------------------------------------------------------------------------------------- split-K */

typedef struct {
    Stream *stream;
    Tile *k, *v;                        /* its keys, Bc/W x d, in shared memory */
    Tile *s, *p, *o;                    /* Br x Bc/W, P over S, Br x d: its registers */
    Rows *m;
    Tile *shared_o;                     /* the partial result, where all warps can read it */
    Rows *shared_l, *shared_m;
} KeyWarp;

/* Rows of the block, spread over all warps. */
typedef struct {
    Stream *stream;
    Tile *o, *part_o;
    Rows *m, *m_new, *l, *part_m, *part_l;
    Rows *weight, *part_weight;         /* e^(m - m_new), e^(m_w - m_new) */
} Merged;

static KeyWarp key_warp(Block *b, const Attention *a, uint32_t keys)
{
    const uint32_t Br = a->Br, d = (uint32_t)a->shape.head_dim;
    const ElementType type = a->shape.dtype, statistic = a->statistic;
    Tile *s = register_tile(b, "S_w", statistic, Br, keys);
    return (KeyWarp){
        .stream = stream(b, "warp", 1),
        .k = shared_tile(b, "K_w", type, keys, d),
        .v = shared_tile(b, "V_w", type, keys, d),
        .s = s,
        .p = tile_view(s, "P_w", type, Br, keys),
        .o = register_tile(b, "o_w", statistic, Br, d),
        .m = row_vector(b, "m_w", statistic, Br),
        .shared_o = shared_tile(b, "shared o_w", statistic, Br, d),
        .shared_l = shared_tile(b, "shared l_w", statistic, Br, 1),
        .shared_m = shared_tile(b, "shared m_w", statistic, Br, 1),
    };
}

/* `part_o` may take the registers of a partial result: by the time it is read back, that has been written. */
static Merged merged_rows(Block *b, const Attention *a, uint32_t warps, Tile *written)
{
    const uint32_t Br = a->Br, d = (uint32_t)a->shape.head_dim;
    const ElementType statistic = a->statistic;
    return (Merged){
        .stream = stream(b, "all warps", warps),
        .o = register_tile(b, "O", statistic, Br, d),
        .part_o = tile_view(written, "o_w read back", statistic, Br, d),
        .m = row_vector(b, "m", statistic, Br),
        .m_new = row_vector(b, "m_new", statistic, Br),
        .l = row_vector(b, "l", statistic, Br),
        .part_m = row_vector(b, "m_w read back", statistic, Br),
        .part_l = row_vector(b, "l_w read back", statistic, Br),
        .weight = row_vector(b, "e^(m - m_new)", statistic, Br),
        .part_weight = row_vector(b, "e^(m_w - m_new)", statistic, Br),
    };
}

/* Attention of all rows of block i over the warp's keys alone, left in shared memory. */
static void partial_result(const Attention *a, const KeyWarp *warp, const Tile *q, uint64_t i, uint64_t key)
{
    Stream *w = warp->stream;
    load(w, warp->k, a->K, key);
    load(w, warp->v, a->V, key);
    matmul_nt(w, warp->s, q, warp->k);
    scale(w, warp->s, a->shape.softmax_scale);
    mask(w, warp->s, i * a->Br, key, a->band);
    fill(w, warp->m, live_rows(a, i), 1, -INFINITY);
    row_max(w, warp->m, warp->m, warp->s);                  /* m_w = rowmax S_w */
    exp_rows(w, warp->s, warp->s, warp->m);                 /* P_w = e^(S_w - m_w) */
    row_sum(w, warp->shared_l, warp->s);                    /* l_w = rowsum P_w, written */
    convert(w, warp->p, warp->s);
    matmul_nn(w, warp->o, warp->p, warp->v);                /* o_w = P_w V_w */
    convert(w, warp->shared_m, warp->m);                    /* m_w, o_w written */
    convert(w, warp->shared_o, warp->o);
}

static void merge(Merged *t, const KeyWarp *part)
{
    Stream *w = t->stream;
    convert(w, t->part_m, part->shared_m);                  /* each number is read once */
    convert(w, t->part_l, part->shared_l);
    convert(w, t->part_o, part->shared_o);
    rows_max(w, t->m_new, t->m, t->part_m);
    rows_exp_difference(w, t->weight, t->m, t->m_new);
    rows_exp_difference(w, t->part_weight, t->part_m, t->m_new);
    rows_multiply(w, t->l, t->l, t->weight);
    rows_multiply(w, t->part_l, t->part_l, t->part_weight);
    rows_add(w, t->l, t->part_l);
    scale_rows(w, t->o, t->weight);
    scale_rows(w, t->part_o, t->part_weight);
    add(w, t->o, t->part_o);
    Rows *const swap = t->m;
    t->m = t->m_new;
    t->m_new = swap;
}

static void split_keys_block(Block *b, const void *arguments, uint64_t i)
{
    const Split *split = arguments;
    const Attention *a = split->attention;
    const uint32_t warps = split->warps, slice = a->Bc / warps, d = (uint32_t)a->shape.head_dim, rows = live_rows(a, i);
    Tile *q = shared_tile(b, "Q", a->shape.dtype, a->Br, d);
    Tile *written = barrier(b, "partial results are written"), *read = barrier(b, "partial results are read");
    KeyWarp warp[MOST_SPLIT_WARPS];
    for (uint32_t w = 0; w < warps; w++) warp[w] = key_warp(b, a, slice);
    Merged t = merged_rows(b, a, warps, warp[0].o);

    fill(t.stream, t.o, rows, d, 0.0);
    fill(t.stream, t.l, rows, 1, 0.0);
    fill(t.stream, t.m, rows, 1, -INFINITY);
    const BlockRange keys = visible_key_blocks(a, i);
    if (keys.first < keys.end) load(t.stream, q, a->Q, i * a->Br);
    for (uint64_t j = keys.first; j < keys.end; j++) {
        const uint64_t live = ceil_div(live_keys(a, j), slice); /* warps that have keys */
        for (uint32_t w = 0; w < live; w++) partial_result(a, &warp[w], q, i, j * a->Bc + (uint64_t)w * slice);
        for (uint32_t w = 0; w < warps; w++) barrier_arrive(warp[w].stream, written);
        barrier_sync(t.stream, written);
        for (uint32_t w = 0; w < live; w++) merge(&t, &warp[w]);
        barrier_arrive(t.stream, read);
        for (uint32_t w = 0; w < warps; w++) barrier_sync(warp[w].stream, read);
    }
    divide_rows(t.stream, t.o, t.l);
    rows_log_sum_exp(t.stream, t.weight, t.m, t.l);
    store(t.stream, a->O, i * a->Br, t.o);
    store(t.stream, a->L, i * a->Br, t.weight);
}

/* -------------------------------------------------------------------------------------------------------------------- split-Q */

typedef struct {
    Stream *stream;
    Tile *q;                            /* its rows, Br/W x d, in shared memory */
    Tile *s, *p, *o;                    /* Br/W x Bc, P over S, Br/W x d: its registers */
    Rows *m, *m_new, *l, *alpha;
} QueryWarp;

static QueryWarp query_warp(Block *b, const Attention *a, uint32_t rows)
{
    const uint32_t d = (uint32_t)a->shape.head_dim;
    const ElementType type = a->shape.dtype, statistic = a->statistic;
    Tile *s = register_tile(b, "S_w", statistic, rows, a->Bc);
    return (QueryWarp){
        .stream = stream(b, "warp", 1),
        .q = shared_tile(b, "Q_w", type, rows, d),
        .s = s,
        .p = tile_view(s, "P_w", type, rows, a->Bc),
        .o = register_tile(b, "O_w", statistic, rows, d),
        .m = row_vector(b, "m_w", statistic, rows),
        .m_new = row_vector(b, "m_new", statistic, rows),
        .l = row_vector(b, "l_w", statistic, rows),
        .alpha = row_vector(b, "alpha", statistic, rows),
    };
}

static void begin_rows(const Attention *a, const QueryWarp *warp, uint64_t row, bool sees_keys)
{
    Stream *w = warp->stream;
    const uint32_t rows = (uint32_t)min_u64(warp->o->max_rows, a->shape.seqlen_q - row);
    fill(w, warp->o, rows, (uint32_t)a->shape.head_dim, 0.0);
    fill(w, warp->l, rows, 1, 0.0);
    fill(w, warp->m, rows, 1, -INFINITY);
    if (sees_keys) load(w, warp->q, a->Q, row);
}

/* The warp's rows meet one tile of K and V, read as a whole: Algorithm 1 of FlashAttention-2, lines 8 to 10. */
static void next_keys(const Attention *a, QueryWarp *warp, const Tile *k, const Tile *v, uint64_t row, uint64_t key)
{
    Stream *w = warp->stream;
    matmul_nt(w, warp->s, warp->q, k);
    scale(w, warp->s, a->shape.softmax_scale);
    mask(w, warp->s, row, key, a->band);
    row_max(w, warp->m_new, warp->m, warp->s);
    rows_exp_difference(w, warp->alpha, warp->m, warp->m_new);
    exp_rows(w, warp->s, warp->s, warp->m_new);
    row_sum_scaled(w, warp->l, warp->alpha, warp->s);
    convert(w, warp->p, warp->s);
    scale_rows(w, warp->o, warp->alpha);
    matmul_nn_add(w, warp->o, warp->p, v);
    Rows *const swap = warp->m;
    warp->m = warp->m_new;
    warp->m_new = swap;
}

static void end_rows(const Attention *a, const QueryWarp *warp, uint64_t row)
{
    Stream *w = warp->stream;
    divide_rows(w, warp->o, warp->l);
    rows_log_sum_exp(w, warp->alpha, warp->m, warp->l);
    store(w, a->O, row, warp->o);
    store(w, a->L, row, warp->alpha);
}

static void split_queries_block(Block *b, const void *arguments, uint64_t i)
{
    const Split *split = arguments;
    const Attention *a = split->attention;
    const uint32_t strip = a->Br / split->warps, d = (uint32_t)a->shape.head_dim;
    const uint64_t first = i * a->Br;
    Stream *all = stream(b, "all warps", split->warps);
    Tile *k = shared_tile(b, "K", a->shape.dtype, a->Bc, d), *v = shared_tile(b, "V", a->shape.dtype, a->Bc, d);
    QueryWarp warp[MOST_SPLIT_WARPS];
    for (uint32_t w = 0; w < split->warps; w++) warp[w] = query_warp(b, a, strip);

    const BlockRange keys = visible_key_blocks(a, i);
    const uint64_t live = ceil_div(live_rows(a, i), strip); /* warps that have rows */
    for (uint32_t w = 0; w < live; w++) begin_rows(a, &warp[w], first + (uint64_t)w * strip, keys.first < keys.end);
    for (uint64_t j = keys.first; j < keys.end; j++) {
        load(all, k, a->K, j * a->Bc);
        load(all, v, a->V, j * a->Bc);
        for (uint32_t w = 0; w < live; w++) next_keys(a, &warp[w], k, v, first + (uint64_t)w * strip, j * a->Bc);
    }
    for (uint32_t w = 0; w < live; w++) end_rows(a, &warp[w], first + (uint64_t)w * strip);
}

/* ------------------------------------------------------------------------------------------------------------------ launching */

static bool can_split(const Machine *machine, const Attention *a, WarpSplit split, uint32_t warps)
{
    const bool keys = split == WARPS_SPLIT_KEYS;
    const uint32_t side = keys ? a->Bc : a->Br;
    if (a->shape.dropout_source != DROPOUT_NONE)
        return status_fail(machine->status, STATUS_INFEASIBLE, "the warp splits have no dropout");
    if (warps < 1 || warps > MOST_SPLIT_WARPS)
        return status_fail(machine->status, STATUS_INFEASIBLE, "%u warps cannot split a tile here; allowed: 1 to %d", warps,
                           MOST_SPLIT_WARPS);
    if (side % warps != 0)
        return status_fail(machine->status, STATUS_INFEASIBLE, "%u warps cannot split %u %s evenly", warps, side,
                           keys ? "keys" : "query rows");
    return true;
}

bool warp_split_forward(Machine *machine, Attention *a, WarpSplit split, uint32_t warps)
{
    const bool keys = split == WARPS_SPLIT_KEYS;
    const AttentionShape *s = &a->shape;
    if (!can_split(machine, a, split, warps)) return false;
    a->L = machine_tensor(machine, "L", a->statistic, s->batch, s->heads, s->seqlen_q, 1);
    const Split arguments = {a, warps};
    const Kernel kernel = {.name = keys ? "split_k" : "split_q",
                           .instruction = TENSOR_MMA_SYNC,
                           .threads = 32 * warps,
                           .registers_per_thread = 255,
                           .run = keys ? split_keys_block : split_queries_block};
    return launch(machine, &kernel, one_block_per_query_block(a), &arguments);
}
