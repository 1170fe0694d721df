/* fa2_backward.c - FlashAttention-2, backward pass. Dao 2023, arXiv:2307.08691, Algorithm 2. Lecture §2.6, §2.8.
 *
 *     P = e^(S - L)     dV_j += Pᵀ dO_i     dP = dO_i V_jᵀ     dS = P o (dP - D_i)     dQ_i += scale dS K_j     dK_j += scale dSᵀ Q_i
 *
 * Only L was kept by the forward: P is recomputed from it in one step, no online softmax. D = rowsum(dO o O), because sum_k P_ik dP_ik = dO_i . O_i,
 * comes from a small kernel. One thread block per key block: dK_j and dV_j stay on chip and are written once; dQ_i collects from all key
 * blocks by atomic adds. HBM traffic as the lecture counts it (direct_dq, no mask, no L2; an atomic add of one element is two):
 *     6Nd + N + Tc (4Nd + 2N)
 *
 * As shipped (default) the atomic adds go into float32 sums, which the first kernel clears and a last one scales and converts. Deterministic: a
 * fixed number of blocks strides over the key blocks, each into its own sums. The other loop order (query_blocks_outside) has two gradients to
 * add atomically instead of one. Grouped heads: a block loops over the query heads of its K/V head, so dK and dV need no further sum.
 * Left out: the double buffer of Q.
 */
#include "algorithm.h"
#include "backward_sums.h"

typedef struct {
    BackwardGeometry geometry;
    BackwardSums sums;                  /* splits: blocks per head that stride over the key blocks; 1 when sums are shared */
    Tensor *dK_sum, *dV_sum;            /* the other loop order */
} Backward;

/* ----------------------------------------------------------------------------------------------------- zeroing the sums */

/* direct_dq adds into dQ itself, which must start from zero; the lecture's count leaves that out, so it is a launch of its own. */
static void zero_queries_block(Block *b, const void *arguments, uint64_t i)
{
    const Backward *f = arguments;
    const Attention *a = f->sums.attention;
    Stream *w = stream(b, "compute", b->kernel->threads / 32);
    Tile *zero = register_tile(b, "0", a->shape.dtype, a->Br, (uint32_t)a->shape.head_dim);
    backward_clear_rows(w, b, a->dQ, 1, i * a->Br, zero, live_rows(a, i));
}

static void zero_keys_block(Block *b, const void *arguments, uint64_t j)
{
    const Backward *f = arguments;
    const Attention *a = f->sums.attention;
    const uint32_t rows = live_keys(a, j);
    Stream *w = stream(b, "compute", b->kernel->threads / 32);
    Tile *zero = register_tile(b, "0", a->shape.dtype, a->Bc, (uint32_t)a->shape.head_dim);
    backward_clear_rows(w, b, f->dK_sum, 1, j * a->Bc, zero, rows);
    backward_clear_rows(w, b, f->dV_sum, 1, j * a->Bc, zero, rows);
}

/* --------------------------------------------------------------------------------- the step that both loop orders share */

typedef struct {
    Tile *q, *d_o, *k, *v;              /* shared memory: Br x d, Br x d, Bc x d, Bc x d */
    Tile *p, *ds;                       /* Br x Bc, shared memory: P and dS as operands of the transposed products */
    Tile *s, *dp, *z;                   /* Br x Bc, registers */
    Rows *L, *D;                        /* Br */
} Tiles;

static Tiles declare_tiles(Block *b, const Attention *a)
{
    const uint32_t Br = a->Br, Bc = a->Bc, d = (uint32_t)a->shape.head_dim;
    const ElementType type = a->shape.dtype, statistic = a->statistic;
    return (Tiles){
        .k = shared_tile(b, "K", type, Bc, d),
        .v = shared_tile(b, "V", type, Bc, d),
        .q = shared_tile(b, "Q", type, Br, d),
        .d_o = shared_tile(b, "dO", type, Br, d),
        .p = shared_tile(b, "P", type, Br, Bc),
        .ds = shared_tile(b, "dS", type, Br, Bc),
        .s = register_tile(b, "S", statistic, Br, Bc),
        .dp = register_tile(b, "dP", statistic, Br, Bc),
        .z = keep_tile(b, a, a->Br),
        .L = row_vector(b, "L", statistic, Br),
        .D = row_vector(b, "D", statistic, Br),
    };
}

static void load_queries(Stream *w, const Backward *f, const Tiles *t, uint64_t i)
{
    const Attention *a = f->sums.attention;
    load(w, t->q, a->Q, i * a->Br);
    load(w, t->d_o, a->dO, i * a->Br);
    load(w, t->L, a->L, i * a->Br);
    load(w, t->D, f->sums.D, i * a->Br);
}

/* P and dS of one tile, as operands in shared memory. */
static void recompute_tile(Stream *w, const Backward *f, const Tiles *t, uint64_t i, uint64_t j)
{
    const Attention *a = f->sums.attention;
    w->shape = f->geometry.scores;
    matmul_nt(w, t->s, t->q, t->k);                         /* S = scale Q_i K_jᵀ */
    scale(w, t->s, a->shape.softmax_scale);
    mask(w, t->s, i * a->Br, j * a->Bc, a->band);
    exp_rows(w, t->s, t->s, t->L);                          /* P = e^(S - L): no running maximum */
    keep_or_load(w, a, t->z, t->s, i * a->Br, j * a->Bc);
    drop_and_convert(w, a, t->p, t->s, t->z);
    matmul_nt(w, t->dp, t->d_o, t->v);                      /* dP = dO_i V_jᵀ */
    if (t->z != NULL) apply_dropout(w, t->dp, t->dp, t->z, a->shape.dropout.p);
    subtract_rows(w, t->dp, t->D);                          /* dS = P o (dP - D) */
    multiply(w, t->dp, t->s);
    convert(w, t->ds, t->dp);
}

/* ------------------------------------------------------------------------------------------------ key blocks outside */

/* Adds the contributions of all query blocks of one head to dK_j and dV_j, and sends dQ's away. */
static void gather_head(Stream *w, const Backward *f, const Tiles *t, Tile *dk, Tile *dv, Tile *dq, uint64_t head, uint64_t split, uint64_t j)
{
    Block *b = w->block;
    const Attention *a = f->sums.attention;
    const BlockRange queries = visible_query_blocks(a, j);
    for (uint64_t i = queries.first; i < queries.end; i++) {
        b->member = head;
        load_queries(w, f, t, i);
        recompute_tile(w, f, t, i, j);
        w->shape = f->geometry.key_gradients;
        matmul_tn_add(w, dv, t->p, t->d_o);                 /* dV_j += Pᵀ dO_i */
        matmul_tn_add(w, dk, t->ds, t->q);                  /* dK_j += dSᵀ Q_i */
        w->shape = f->geometry.query_gradients;
        matmul_nn(w, dq, t->ds, t->k);                      /* dQ_i += dS K_j */
        if (a->variant.direct_dq) scale(w, dq, a->shape.softmax_scale);
        b->member = head * f->sums.splits + split;
        atomic_add(w, a->variant.direct_dq ? a->dQ : f->sums.dQ_sum, i * a->Br, dq);
    }
    b->member = 0;
}

static void key_block(Stream *w, const Backward *f, const Tiles *t, Tile *dk, Tile *dv, Tile *dq, uint64_t split, uint64_t j)
{
    const Attention *a = f->sums.attention;
    const BlockRange queries = visible_query_blocks(a, j);
    const uint32_t rows = live_keys(a, j), d = (uint32_t)a->shape.head_dim;
    fill(w, dk, rows, d, 0.0);
    fill(w, dv, rows, d, 0.0);
    if (queries.first < queries.end && group_size(a) > 0) {
        load(w, t->k, a->K, j * a->Bc);
        load(w, t->v, a->V, j * a->Bc);
        for (uint64_t head = 0; head < group_size(a); head++) gather_head(w, f, t, dk, dv, dq, head, split, j);
    }
    scale(w, dk, a->shape.softmax_scale);
    store(w, a->dK, j * a->Bc, dk);
    store(w, a->dV, j * a->Bc, dv);
}

/* Block `index` takes key blocks index, index + stride, ...: one when the sums are shared, all of its share when deterministic. */
static void backward_block(Block *b, const void *arguments, uint64_t index)
{
    const Backward *f = arguments;
    const Attention *a = f->sums.attention;
    const uint32_t d = (uint32_t)a->shape.head_dim;
    Stream *w = stream(b, "compute", b->kernel->threads / 32);
    const Tiles t = declare_tiles(b, a);
    Tile *dk = register_tile(b, "dK", a->statistic, a->Bc, d), *dv = register_tile(b, "dV", a->statistic, a->Bc, d);
    Tile *dq = register_tile(b, "dQ", a->statistic, a->Br, d);
    const uint64_t stride = a->variant.deterministic ? f->sums.splits : key_blocks(a), split = a->variant.deterministic ? index : 0;
    for (uint64_t j = index; j < key_blocks(a); j += stride) key_block(w, f, &t, dk, dv, dq, split, j);
}

/* ----------------------------------------------------------------------------------------------- query blocks outside */

static void query_block(Block *b, const void *arguments, uint64_t i)
{
    const Backward *f = arguments;
    const Attention *a = f->sums.attention;
    const uint32_t d = (uint32_t)a->shape.head_dim;
    Stream *w = stream(b, "compute", b->kernel->threads / 32);
    const Tiles t = declare_tiles(b, a);
    Tile *dq = register_tile(b, "dQ", a->statistic, a->Br, d);
    Tile *dk = register_tile(b, "dK", a->statistic, a->Bc, d), *dv = register_tile(b, "dV", a->statistic, a->Bc, d);
    const BlockRange keys = visible_key_blocks(a, i);

    fill(w, dq, live_rows(a, i), d, 0.0);
    if (keys.first < keys.end) load_queries(w, f, &t, i);
    for (uint64_t j = keys.first; j < keys.end; j++) {
        load(w, t.k, a->K, j * a->Bc);
        load(w, t.v, a->V, j * a->Bc);
        recompute_tile(w, f, &t, i, j);
        w->shape = f->geometry.query_gradients;
        matmul_nn_add(w, dq, t.ds, t.k);                    /* dQ_i += dS K_j, on chip */
        w->shape = f->geometry.key_gradients;
        matmul_tn(w, dv, t.p, t.d_o);                       /* dV_j += Pᵀ dO_i, dK_j += dSᵀ Q_i, by atomic adds */
        matmul_tn(w, dk, t.ds, t.q);
        atomic_add(w, f->dV_sum, j * a->Bc, dv);
        atomic_add(w, f->dK_sum, j * a->Bc, dk);
    }
    scale(w, dq, a->shape.softmax_scale);
    store(w, a->dQ, i * a->Br, dq);
}

static void convert_keys_block(Block *b, const void *arguments, uint64_t j)
{
    const Backward *f = arguments;
    const Attention *a = f->sums.attention;
    Stream *w = stream(b, "compute", b->kernel->threads / 32);
    Tile *sum = register_tile(b, "sum", a->statistic, a->Bc, (uint32_t)a->shape.head_dim);
    load(w, sum, f->dK_sum, j * a->Bc);
    scale(w, sum, a->shape.softmax_scale);
    store(w, a->dK, j * a->Bc, sum);
    load(w, sum, f->dV_sum, j * a->Bc);
    store(w, a->dV, j * a->Bc, sum);
}

/* -------------------------------------------------------------------------------------------------------------- launches */

static Kernel backward_kernel(const Backward *f, const char *name, void (*run)(Block *, const void *, uint64_t))
{
    return (Kernel){.name = name, .instruction = TENSOR_MMA_SYNC, .shape = f->geometry.scores, .threads = f->geometry.threads,
                    .registers_per_thread = f->geometry.registers_per_thread, .run = run};
}

static bool run_key_blocks_outside(Machine *machine, Backward *f)
{
    const Attention *a = f->sums.attention;
    const AttentionShape *s = &a->shape;
    if (a->variant.deterministic) f->sums.splits = fa2_backward_splits(machine->profile->sm_count, s, key_blocks(a));
    if (!a->variant.direct_dq)
        f->sums.dQ_sum = machine_tensor(machine, "dQ sum", a->statistic, s->batch, s->heads * f->sums.splits, s->seqlen_q, s->head_dim);
    const Kernel dot = backward_kernel(f, "fa2_bwd_dot", backward_dot_block), main_kernel = backward_kernel(f, "fa2_bwd", backward_block);
    const Kernel conversion = backward_kernel(f, "fa2_bwd_convert", backward_convert_block);
    const Kernel zero = backward_kernel(f, "fa2_bwd_zero", zero_queries_block);
    Grid grid = one_block_per_key_block(a);
    if (a->variant.deterministic) grid.blocks = f->sums.splits;
    return (!a->variant.direct_dq || launch(machine, &zero, one_block_per_query_block(a), f)) &&
           launch(machine, &dot, one_block_per_query_block(a), &f->sums) && launch(machine, &main_kernel, grid, f) &&
           (a->variant.direct_dq || launch(machine, &conversion, one_block_per_query_block(a), &f->sums));
}

static bool run_query_blocks_outside(Machine *machine, Backward *f)
{
    const Attention *a = f->sums.attention;
    const AttentionShape *s = &a->shape;
    f->dK_sum = machine_tensor(machine, "dK sum", a->statistic, s->batch, s->kv_heads, s->seqlen_k, s->head_dim);
    f->dV_sum = machine_tensor(machine, "dV sum", a->statistic, s->batch, s->kv_heads, s->seqlen_k, s->head_dim);
    const Kernel dot = backward_kernel(f, "fa2_bwd_dot", backward_dot_block), zero = backward_kernel(f, "fa2_bwd_zero", zero_keys_block);
    const Kernel main_kernel = backward_kernel(f, "fa2_bwd_by_queries", query_block);
    const Kernel conversion = backward_kernel(f, "fa2_bwd_convert", convert_keys_block);
    return launch(machine, &dot, one_block_per_query_block(a), &f->sums) && launch(machine, &zero, one_block_per_key_block(a), f) &&
           launch(machine, &main_kernel, one_block_per_query_block(a), f) && launch(machine, &conversion, one_block_per_key_block(a), f);
}

bool fa2_backward(Machine *machine, Attention *a)
{
    const AttentionShape *s = &a->shape;
    if (a->variant.deterministic && (a->variant.direct_dq || a->variant.query_blocks_outside))
        return status_fail(machine->status, STATUS_USAGE, "the deterministic backward has its own sums and loop order: "
                                                          "it excludes direct dQ and query blocks outside");
    Backward f = {.geometry = fa2_backward_geometry(s, (TileSize){a->Br, a->Bc}),
                  .sums = {.attention = a, .splits = 1}};
    f.sums.D = machine_tensor(machine, "D", a->statistic, s->batch, s->heads, s->seqlen_q, 1);
    if (a->L == NULL) a->L = machine_tensor(machine, "L", a->statistic, s->batch, s->heads, s->seqlen_q, 1);
    return a->variant.query_blocks_outside ? run_query_blocks_outside(machine, &f) : run_key_blocks_outside(machine, &f);
}

/* Enough blocks for every SM over all heads (flash-attention 2.x, deterministic mode); never more than there are key blocks. */
uint64_t fa2_backward_splits(uint64_t sm_count, const AttentionShape *s, uint64_t key_blocks_per_head)
{
    const uint64_t heads = max_u64(s->batch * s->kv_heads, 1);
    return max_u64(min_u64(ceil_div(min_u64(sm_count, UINT32_MAX), heads), key_blocks_per_head), 1);
}

/* Real tiles (sm80): flash-attention 2.x. */
TileSize fa2_backward_tiles(const AttentionShape *s)
{
    return s->head_dim <= 64 ? (TileSize){128, 128} : s->head_dim <= 128 ? (TileSize){64, 128} : (TileSize){64, 64};
}

/* Eight warps in a grid over each product: 4 x 2 up to head dim 64; above, 2 x 4 for S, dP and dQ and 4 x 2 for dK and dV. */
BackwardGeometry fa2_backward_geometry(const AttentionShape *s, TileSize tiles)
{
    const uint32_t d = (uint32_t)s->head_dim, rows = d <= 64 ? 4 : 2, cols = 8 / rows;
    return (BackwardGeometry){
        .threads = 256,
        .registers_per_thread = 255,
        .scores = {(tiles.Br + rows - 1) / rows, (tiles.Bc + cols - 1) / cols},
        .key_gradients = {(tiles.Bc + 3) / 4, (d + 1) / 2},
        .query_gradients = {(tiles.Br + rows - 1) / rows, (d + cols - 1) / cols},
    };
}
