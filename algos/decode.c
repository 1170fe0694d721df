/* decode.c - Flash-Decoding: one query (or a few) against a long key sequence. Lecture §6.1, §6.2. Dao, Haziza, Massa, Sizov
 * 2023, "Flash-Decoding for long-context inference"; the split-KV kernel of FlashAttention-2 and the head packing of
 * FlashAttention-3.
 *
 * One block per query block leaves most SMs idle when there is one query. So the keys are cut into s parts of whole key blocks,
 * one thread block each, and a second kernel merges what they found:
 *
 *     part:     O_s = softmax over its keys, L_s = its logsumexp, both in float32; a part that sees no key has O_s = 0, L_s =
 * -inf combine:  L = log sum_s e^(L_s),  O = sum_s e^(L_s - L) O_s
 *
 * The merge is exact for any cut and any order, to rounding (§2.2's rescaling between parts); both orders are here: weights
 * first, then part after part (as shipped), or two at a time as a tree. A part with L_s = -inf is left out whatever its O_s is.
 *
 * Packing: the query heads that share a K/V head become rows of one tile, row = query x group + head, so that K and V are read
 * once for all of them. A mask then goes by the query, row / group. FlashAttention-2 does so for one query only, where it is a
 * reshape of Q; FlashAttention-3 for any number.
 *
 * Inside a part the loop is FlashAttention-2's (fa2.c). Idle parts write zeros, as shipped. Left out: paged caches, and that the
 * shipped combine kernel gathers rows of several heads in a block (its grid is smaller, its traffic the same).
 */
#include "algorithm.h"
#include "decode.h"
#include "split_heuristics.h"

enum { MOST_LEVELS = 17 }; /* of a tree over 65536 parts */

DecodePlan decode_plan(const Attention *a, uint64_t sm_count)
{
    const AttentionShape *s = &a->shape;
    const bool packs = a->decode.packing == PACK_ALWAYS || (a->decode.packing == PACK_ONE_QUERY && s->seqlen_q == 1);
    if (a->Br == 0 || a->Bc == 0) return (DecodePlan){.group = 1, .splits = 1}; /* the closed form refuses it */
    DecodePlan plan = {.group = packs ? max_u64(group_size(a), 1) : 1, .key_blocks = key_blocks(a)};
    plan.heads = s->heads / plan.group;
    plan.rows = s->seqlen_q * plan.group;
    plan.query_blocks = ceil_div(plan.rows, a->Br);
    const uint64_t unsplit = s->batch * plan.heads * plan.query_blocks;
    const SplitProblem problem = {
        .blocks = unsplit, .query_blocks = plan.query_blocks, .key_blocks = plan.key_blocks, .sm_count = sm_count};
    plan.splits = a->decode.splits > 0 ? a->decode.splits : split_count(SPLIT_FA2, &problem);
    plan.split_blocks = split_key_blocks(plan.key_blocks, plan.splits);
    plan.used = split_used(plan.key_blocks, plan.splits);
    plan.blocks = unsplit * plan.splits;
    return plan;
}

/* What the blocks of both kernels get. Q, O, L: stacked views when packed. */
typedef struct {
    const Attention *a;
    DecodePlan plan;
    Tensor *Q, *O, *L;
    Tensor *parts, *part_lse; /* NULL when unsplit */
} Decode;

/* The key blocks of part s that some row of query block i sees. */
static BlockRange part_of_keys(const Decode *x, uint64_t i, uint64_t s, uint32_t rows)
{
    const uint64_t first = i * x->a->Br, begin = s * x->plan.split_blocks, end = begin + x->plan.split_blocks;
    BlockRange keys = key_blocks_of_queries(x->a, first / x->plan.group, (first + rows - 1) / x->plan.group);
    keys.first = max_u64(keys.first, begin);
    keys.end = max_u64(min_u64(keys.end, end), keys.first);
    return keys;
}

/* Query block `index % query_blocks`, part `index / query_blocks`. */
static void part_block(Block *b, const void *arguments, uint64_t index)
{
    const Decode *x = arguments;
    const Attention *a = x->a;
    const uint64_t i = index % x->plan.query_blocks, part = index / x->plan.query_blocks, row = i * a->Br;
    const uint32_t Br = a->Br, Bc = a->Bc, d = (uint32_t)a->shape.head_dim, rows = (uint32_t)min_u64(Br, x->plan.rows - row);
    const ElementType type = a->shape.dtype, statistic = a->statistic;
    Stream *w = stream(b, "compute", b->kernel->threads / 32);

    Tile *q = shared_tile(b, "Q", type, Br, d);
    Tile *k = shared_tile(b, "K", type, Bc, d), *v = shared_tile(b, "V", type, Bc, d);
    Tile *s = register_tile(b, "S", statistic, Br, Bc), *p = tile_view(s, "P", type, Br, Bc);
    Tile *o = register_tile(b, "O", statistic, Br, d);
    Rows *m = row_vector(b, "m", statistic, Br), *m_new = row_vector(b, "m_new", statistic, Br);
    Rows *l = row_vector(b, "l", statistic, Br), *alpha = row_vector(b, "alpha", statistic, Br);

    fill(w, o, rows, d, 0.0);
    fill(w, l, rows, 1, 0.0);
    fill(w, m, rows, 1, -INFINITY);
    const BlockRange keys = part_of_keys(x, i, part, rows);
    if (keys.first < keys.end) {
        load(w, q, x->Q, row);
        load(w, k, a->K, keys.first * Bc);
    }
    for (uint64_t j = keys.first; j < keys.end; j++) {
        load(w, v, a->V, j * Bc);
        matmul_nt(w, s, q, k); /* S = scale Q Kᵀ */
        if (j + 1 < keys.end) load(w, k, a->K, (j + 1) * Bc);
        scale(w, s, a->shape.softmax_scale);
        if (x->plan.group == 1)
            mask(w, s, row, j * Bc, a->band);
        else
            mask_stacked(w, s, row, j * Bc, a->band, (uint32_t)x->plan.group); /* by the query of each row */
        row_max(w, m_new, m, s);
        rows_exp_difference(w, alpha, m, m_new);
        exp_rows(w, s, s, m_new);
        row_sum_scaled(w, l, alpha, s);
        convert(w, p, s);
        scale_rows(w, o, alpha);
        matmul_nn_add(w, o, p, v); /* O = diag(alpha) O + P V */
        Rows *const swap = m;
        m = m_new;
        m_new = swap;
    }
    divide_rows(w, o, l);             /* O_s: 0 where no key was seen */
    rows_log_sum_exp(w, alpha, m, l); /* L_s: -inf there */
    b->member = x->parts != NULL ? part : 0;
    store(w, x->parts != NULL ? x->parts : x->O, row, o);
    b->member = 0;
    if (x->parts != NULL)
        store_part(w, x->part_lse, row, part, alpha);
    else
        store(w, x->L, row, alpha);
}

/* ---------------------------------------------------------------------------------------------------------------- the merge */

/* Rows of O that a block holds: as shipped by head dim; fewer past the shipped kernel's head dims, and for a tree, which holds a
 * part per level. */
static uint32_t combine_rows(const Attention *a)
{
    const uint64_t d = a->shape.head_dim;
    if (d % 128 == 0 || d > 256 || a->decode.merge == MERGE_TREE) return 4;
    return d % 64 == 0 ? 8 : 16;
}

/* O of part s, and its logsumexp as a vector. */
static void load_part_result(Stream *w, const Decode *x, uint64_t row, uint64_t s, Tile *o, Rows *lse, const Tile *all_lse)
{
    w->block->member = s;
    load(w, o, x->parts, row);
    w->block->member = 0;
    convert_part(w, lse, all_lse, 0, (uint32_t)s);
}

/* Weights e^(L_s - L) of all parts, then O part after part. */
static void combine_sequentially(Block *b, Stream *w, const Decode *x, uint64_t row, const Tile *all_lse)
{
    const Attention *a = x->a;
    const uint32_t rows = all_lse->max_rows, live = (uint32_t)min_u64(rows, x->plan.rows - row), d = (uint32_t)a->shape.head_dim;
    const ElementType statistic = a->statistic;
    Tile *weights = register_tile(b, "weights", statistic, rows, all_lse->max_cols);
    Tile *o = register_tile(b, "O", statistic, rows, d), *part = register_tile(b, "O part", statistic, rows, d);
    Rows *none = row_vector(b, "-inf", statistic, rows), *m = row_vector(b, "m", statistic, rows),
         *l = row_vector(b, "l", statistic, rows);
    Rows *weight = row_vector(b, "weight", statistic, rows), *lse = row_vector(b, "L part", statistic, rows);

    fill(w, none, live, 1, -INFINITY);
    row_max(w, m, none, all_lse);
    exp_rows(w, weights, all_lse, m);
    row_sum(w, l, weights);
    divide_rows(w, weights, l);
    fill(w, o, live, d, 0.0);
    for (uint64_t s = 0; s < x->plan.splits; s++) {
        load_part_result(w, x, row, s, part, lse, all_lse);
        convert_part(w, weight, weights, 0, (uint32_t)s);
        weigh_rows(w, part, weight, lse); /* nothing where L_s = -inf */
        add(w, o, part);
    }
    rows_log_sum_exp(w, lse, m, l);
    store(w, x->O, row, o);
    store(w, x->L, row, lse);
}

/* Scratch of a merge. */
typedef struct {
    Rows *m, *l, *left, *right;
} MergeRows;

/* (O, L) of both into the first: m = max, weights e^(L - m), O = (w O + w' O') / (w + w'), L = m + log(w + w'). */
static void merge_two(Stream *w, const MergeRows *t, Tile *o, Rows *lse, Tile *other, const Rows *other_lse)
{
    rows_max(w, t->m, lse, other_lse);
    rows_exp_difference(w, t->left, lse, t->m);
    rows_exp_difference(w, t->right, other_lse, t->m);
    convert(w, t->l, t->left);
    rows_add(w, t->l, t->right);
    weigh_rows(w, o, t->left, lse);
    weigh_rows(w, other, t->right, other_lse);
    add(w, o, other);
    divide_rows(w, o, t->l);
    rows_log_sum_exp(w, lse, t->m, t->l);
}

/* A binary tree, depth first: equal subtrees merge as soon as there are two, so that only one per level waits. */
static void combine_by_tree(Block *b, Stream *w, const Decode *x, uint64_t row, const Tile *all_lse)
{
    const uint32_t rows = all_lse->max_rows, d = (uint32_t)x->a->shape.head_dim;
    const ElementType statistic = x->a->statistic;
    const MergeRows t = {row_vector(b, "m", statistic, rows), row_vector(b, "l", statistic, rows),
                         row_vector(b, "weight", statistic, rows), row_vector(b, "weight'", statistic, rows)};
    Tile *o[MOST_LEVELS + 1];
    Rows *lse[MOST_LEVELS + 1];
    uint32_t parts[MOST_LEVELS + 1], waiting = 0, levels = 0;
    for (uint64_t s = 0; s < x->plan.splits; s++) {
        if (waiting == levels && levels <= MOST_LEVELS) {
            o[levels] = register_tile(b, "O part", statistic, rows, d);
            lse[levels++] = row_vector(b, "L part", statistic, rows);
        }
        load_part_result(w, x, row, s, o[waiting], lse[waiting], all_lse);
        parts[waiting++] = 1;
        while (waiting > 1 && (parts[waiting - 2] == parts[waiting - 1] || s + 1 == x->plan.splits)) {
            waiting--;
            merge_two(w, &t, o[waiting - 1], lse[waiting - 1], o[waiting], lse[waiting]);
            parts[waiting - 1] += parts[waiting];
        }
    }
    store(w, x->O, row, o[0]);
    store(w, x->L, row, lse[0]);
}

static void combine_block(Block *b, const void *arguments, uint64_t index)
{
    const Decode *x = arguments;
    const uint32_t rows = combine_rows(x->a);
    Stream *w = stream(b, "compute", b->kernel->threads / 32);
    Tile *all_lse = register_tile(b, "L parts", x->a->statistic, rows, (uint32_t)x->plan.splits);
    load(w, all_lse, x->part_lse, index * rows);
    if (x->a->decode.merge == MERGE_TREE)
        combine_by_tree(b, w, x, index * rows, all_lse);
    else
        combine_sequentially(b, w, x, index * rows, all_lse);
}

static bool launch_combine(Machine *machine, const Decode *x)
{
    const uint64_t blocks = ceil_div(x->plan.rows, combine_rows(x->a));
    const Kernel kernel = {.name = "decode_combine",
                           .instruction = algorithm_decode.instruction,
                           .threads = 128,
                           .registers_per_thread = 128,
                           .run = combine_block};
    return launch(machine, &kernel, (Grid){blocks, x->plan.heads, x->a->shape.batch}, x);
}

bool decode_combine(Machine *machine, const Attention *a, Tensor *parts, Tensor *part_lse, Tensor *O, Tensor *L)
{
    if (parts == NULL || part_lse == NULL || O == NULL || L == NULL) return false;
    Decode x = {.a = a, .O = O, .L = L, .parts = parts, .part_lse = part_lse};
    x.plan = (DecodePlan){.group = 1, .heads = part_lse->heads, .rows = part_lse->rows, .splits = part_lse->cols};
    return launch_combine(machine, &x);
}

/* -------------------------------------------------------------------------------------------------------------- the launches */

static bool decode_forward(Machine *machine, Attention *a)
{
    const AttentionShape *s = &a->shape;
    if (s->dropout_source != DROPOUT_NONE) return status_fail(machine->status, STATUS_INFEASIBLE, "decode has no dropout");
    Decode x = {.a = a, .plan = decode_plan(a, machine->profile->sm_count)};
    a->L = machine_tensor(machine, "L", a->statistic, s->batch, s->heads, s->seqlen_q, 1);
    x.Q = machine_stacked_view(machine, a->Q, x.plan.group);
    x.O = machine_stacked_view(machine, a->O, x.plan.group);
    x.L = machine_stacked_view(machine, a->L, x.plan.group);
    if (x.plan.splits > 1) {
        x.parts =
            machine_tensor(machine, "O parts", a->statistic, s->batch, x.plan.heads * x.plan.splits, x.plan.rows, s->head_dim);
        x.part_lse = machine_tensor(machine, "L parts", a->statistic, s->batch, x.plan.heads, x.plan.rows, x.plan.splits);
    }
    const Kernel kernel = attention_kernel(&algorithm_decode, "decode_split", a, part_block);
    const Grid grid = {x.plan.query_blocks * x.plan.splits, x.plan.heads, s->batch};
    return status_ok(machine->status) && launch(machine, &kernel, grid, &x) && (x.parts == NULL || launch_combine(machine, &x));
}

/* Real tiles: flash-attention 2.x, split-KV. */
static TileSize decode_tiles(const AttentionShape *s)
{
    return (TileSize){64, s->head_dim <= 64 ? 256 : s->head_dim <= 128 ? 128 : 64};
}

/* Four warps that split the rows. */
static Geometry decode_geometry(const AttentionShape *s, TileSize tiles)
{
    (void)s;
    return (Geometry){.threads = 128, .registers_per_thread = 255, .shape = {(tiles.Br + 3) / 4, 0}};
}

const Algorithm algorithm_decode = {
    .name = "decode",
    .title = "Flash-Decoding: keys in parts, merged by logsumexp",
    .source = "Dao et al. 2023, Flash-Decoding; flash-attention 2, split-KV kernel",
    .instruction = TENSOR_MMA_SYNC,
    .tiles = decode_tiles,
    .geometry = decode_geometry,
    .forward = decode_forward,
    .closed_form = closed_form_decode,
};
