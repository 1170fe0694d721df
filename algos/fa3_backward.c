/* fa3_backward.c - FlashAttention-3, backward pass, on Hopper. Shah et al. 2024, arXiv:2407.08608, Appendix B.1 (Algorithm 3, "backward pass with
 * warp specialization"); order, tiles and stages as in flash-attention's hopper/. cuDNN's Hopper backward is of the same class, with 64 x 128 tiles.
 * Lecture §4.
 *
 *     S = Q Kᵀ, dP = dO Vᵀ      both operands in shared memory
 *     dV += Pᵀ dO, dK += dSᵀ Q  P and dS in the registers where they were computed; dO, Q in shared memory
 *     dQ = dS K                 both in shared memory, so dS goes there as well; dQ leaves through shared memory, by atomic adds
 *
 * A thread block has one key block and loops over query blocks, as in FlashAttention-2 (fa2_backward.c has the maths). Roles:
 *     producer     one warp: K, V once, then Q (a ring of two stages) and dO (two up to d = 128, else one) with L and D (TMA)
 *     consumers    one warpgroup per 64 keys (in equal parts), each with its own K_w, V_w, dK_w, dV_w; S and dP of its keys
 *     dQ writer    one warp of the producer's group: adds what the consumers leave in shared memory (TMA reduce-add)
 * dQ needs all keys: after a barrier each consumer multiplies the dS of all of them with K, for its rows (d up to 64, if each consumer has 64
 * of them) or its columns (64 at a time). So each element of dQ is added once per key block, and the five products are 10 Br Bc d FLOP.
 * cuDNN's kernel leaves dQ to one of its two warpgroups, which everybody then waits for (one_consumer_dq; its machine code has the products of dQ
 * in a branch that half of the warps take).
 *
 * In a consumer S and dP are issued together and P is computed while dP runs; then dS; then dV, dQ, dK are issued, and dQ is copied out
 * while dK runs. Nothing of the next query block starts before: S and dP need the registers of P, dS and dQ. What overlaps is one warpgroup's
 * products with the other's P and dS. The real kernel computes Sᵀ and dPᵀ (64 keys, up to 256 queries per instruction), so that Pᵀ and dSᵀ are
 * left operands as they lie, and for d = 128 dQᵀ; here the products are of the same operands, and the instruction shapes say which bytes are
 * read.
 *
 * Registers bind: dK_w, dV_w, S and dP take 208 of 240 for 80 x 128 tiles at d = 128. P, then dQ lie where S was, dS where dP was. A mask
 * makes the real tile 64 x 128; dropout, which the real kernel lacks, too: its bits need registers.
 *
 * Left out: heads that share K and V are looped over here (the real kernel gives each a block and adds dK and dV in float32); V in registers
 * at d = 96; past d = 128 the real kernel divides dK and dV by columns (at 192 with a third consumer), so P goes through shared memory too,
 * and at 256 adds dQ from registers; dK and dV leave by registers here, through shared memory there.
 */
#include "algorithm.h"
#include "backward_sums.h"

enum { STAGES = 2, WARPGROUP = 128, MOST_KEYS = 64, MOST_ROWS = 64, MOST_COLUMNS = 64 };
enum { OVERHEAD_REGISTERS = 26 };       /* addresses and loop state, per thread: what the largest real tile leaves (d = 256) */

/* One consumer warpgroup, with keys w of the block. */
typedef struct {
    Stream *w;
    uint64_t key;               /* its first key */
    uint32_t rows;              /* its live keys; 0: none in the last block */
    Tile *k, *v;                /* keys x d, shared memory */
    Tile *ds[STAGES];           /* Br x keys, shared memory */
    Tile *staged;               /* a piece of dQ on its way out, float32, shared memory */
    Tile *s, *dp, *z;           /* Br x keys, registers */
    Tile *p, *dq, *ds_left;     /* the first two views of s, the last of dp */
    Tile *dk, *dv;              /* keys x d, registers */
} Consumer;

/* What a consumer computes of dQ at a time. */
typedef struct {
    uint32_t rows, cols;
} Piece;

typedef struct {
    const Attention *a;
    const BackwardSums *sums;
    BackwardGeometry geometry;
    Piece piece;
    Stream *producer, *writer;
    Consumer consumers[MAX_CONSUMERS];
    uint32_t count;
    uint32_t stages;            /* of dO and dS */
    Tile *q[STAGES], *d_o[STAGES];      /* Br x d, shared memory */
    Rows *L[STAGES], *D[STAGES];
    Tile *meeting;              /* the barrier of the consumers */
    BlockRange queries;
} Fa3;

/* ---------------------------------------------------------------------------------------------------------------- producer */

static void load_queries(const Fa3 *f, uint64_t i)
{
    const Attention *a = f->a;
    if (i >= f->queries.end) return;
    load(f->producer, f->q[i % STAGES], a->Q, i * a->Br);
    load(f->producer, f->L[i % STAGES], a->L, i * a->Br);
}

static void load_output_gradients(const Fa3 *f, uint64_t i)
{
    const Attention *a = f->a;
    if (i >= f->queries.end) return;
    load(f->producer, f->d_o[i % f->stages], a->dO, i * a->Br);
    load(f->producer, f->D[i % f->stages], f->sums->D, i * a->Br);
}

/* --------------------------------------------------------------------------------------------------------------- consumers */

/* P and dS of query block i and its keys, in registers. */
static void scores_and_gradients(const Fa3 *f, const Consumer *c, uint64_t i)
{
    const Attention *a = f->a;
    if (c->rows == 0) return;
    c->w->shape = f->geometry.scores;
    matmul_nt(c->w, c->s, f->q[i % STAGES], c->k);
    matmul_nt(c->w, c->dp, f->d_o[i % f->stages], c->v);    /* dP = dO_i V_wᵀ */
    scale(c->w, c->s, a->shape.softmax_scale);
    mask(c->w, c->s, i * a->Br, c->key, a->band);
    exp_rows(c->w, c->s, c->s, f->L[i % STAGES]);           /* P = e^(S - L) */
    keep_or_load(c->w, a, c->z, c->s, i * a->Br, c->key);
    if (c->z != NULL) apply_dropout(c->w, c->dp, c->dp, c->z, a->shape.dropout.p);
    subtract_rows(c->w, c->dp, f->D[i % f->stages]);        /* dS = P o (dP - D) */
    multiply(c->w, c->dp, c->s);
    drop_and_convert(c->w, a, c->p, c->s, c->z);
}

/* dS to the other consumers, and dV_w += Pᵀ dO_i. */
static void hand_over(const Fa3 *f, const Consumer *c, uint64_t i)
{
    if (c->rows == 0) return;
    convert(c->w, c->ds[i % f->stages], c->dp);
    convert(c->w, c->ds_left, c->dp);
    c->w->shape = f->geometry.key_gradients;
    matmul_tn_add(c->w, c->dv, c->p, f->d_o[i % f->stages]);
}

static void key_gradients(const Fa3 *f, const Consumer *c, uint64_t i)
{
    if (c->rows == 0) return;
    c->w->shape = f->geometry.key_gradients;
    matmul_tn_add(c->w, c->dk, c->ds_left, f->q[i % STAGES]);
}

/* All consumers have come as far as this. */
static void meet(const Fa3 *f)
{
    for (uint32_t n = 0; n < f->count; n++) barrier_arrive(f->consumers[n].w, f->meeting);
    for (uint32_t n = 0; n < f->count; n++) barrier_sync(f->consumers[n].w, f->meeting);
}

/* The piece of dQ_i = dS K_j from this row and column on, over the keys of all consumers. */
static void query_gradients(const Fa3 *f, const Consumer *c, uint64_t i, uint32_t row, uint32_t col)
{
    c->w->shape = f->geometry.query_gradients;
    for (uint32_t n = 0; n < f->count; n++) {
        const Consumer *other = &f->consumers[n];
        if (other->rows == 0) continue;
        const Tile ds = operand_part(other->ds[i % f->stages], row, 0, f->piece.rows, UINT32_MAX);
        const Tile k = operand_part(other->k, 0, col, UINT32_MAX, f->piece.cols);
        if (n == 0) matmul_nn(c->w, c->dq, &ds, &k);
        else matmul_nn_continue(c->w, c->dq, &ds, &k);
    }
}

/* Its pieces of dQ_i, and dK_w += dSᵀ Q_i meanwhile. */
static void gradients(const Fa3 *f, const Consumer *c, uint64_t i)
{
    const Attention *a = f->a;
    const uint32_t across = (uint32_t)ceil_div(a->shape.head_dim, f->piece.cols);
    const uint32_t pieces = across * (uint32_t)ceil_div(live_rows(a, i), f->piece.rows), index = (uint32_t)(c - f->consumers);
    const bool alone = a->variant.one_consumer_dq;
    const uint32_t first = alone && index > 0 ? pieces : index, step = alone ? 1 : f->count;
    for (uint32_t p = first; p < pieces; p += step) {
        const uint32_t row = p / across * f->piece.rows, col = p % across * f->piece.cols;
        query_gradients(f, c, i, row, col);
        if (p == first) key_gradients(f, c, i);
        convert(c->w, c->staged, c->dq);
        atomic_add_part(f->writer, f->sums->dQ_sum, i * a->Br + row, col, c->staged);
    }
    if (first >= pieces) key_gradients(f, c, i);
}

static void begin_consumer(const Fa3 *f, const Consumer *c)
{
    const uint32_t d = (uint32_t)f->a->shape.head_dim;
    if (c->rows == 0) return;
    fill(c->w, c->dk, c->rows, d, 0.0);
    fill(c->w, c->dv, c->rows, d, 0.0);
}

static void finish_consumer(const Fa3 *f, const Consumer *c)
{
    const Attention *a = f->a;
    if (c->rows == 0) return;
    scale(c->w, c->dk, a->shape.softmax_scale);
    store(c->w, a->dK, c->key, c->dk);
    store(c->w, a->dV, c->key, c->dv);
}

/* ------------------------------------------------------------------------------------------------------------------- block */

static uint32_t consumers_for(TileSize tiles) { return (uint32_t)min_u64(ceil_div(tiles.Bc, MOST_KEYS), MAX_CONSUMERS); }

static uint32_t keys_per_consumer(TileSize tiles) { return (uint32_t)ceil_div(tiles.Bc, consumers_for(tiles)); }

/* dQ by 64 rows where every consumer has them and d fits one instruction, as in the real kernel; else by at most 64 columns. */
static Piece piece_of(const AttentionShape *s, TileSize tiles)
{
    const uint32_t d = (uint32_t)s->head_dim, count = consumers_for(tiles);
    const uint32_t shares = count * (uint32_t)ceil_div(d, (uint64_t)count * MOST_COLUMNS);
    if (d <= MOST_COLUMNS && tiles.Br >= count * MOST_ROWS) return (Piece){MOST_ROWS, d};
    return (Piece){tiles.Br, (d + shares - 1) / shares};
}

static Consumer new_consumer(const Fa3 *f, Block *b, uint32_t index, uint64_t j)
{
    const Attention *a = f->a;
    const uint32_t d = (uint32_t)a->shape.head_dim, Br = a->Br;
    const uint32_t first = index * keys_per_consumer((TileSize){Br, a->Bc}), live = live_keys(a, j);
    const uint32_t keys = (uint32_t)min_u64(keys_per_consumer((TileSize){Br, a->Bc}), a->Bc - first);
    const ElementType type = a->shape.dtype, statistic = a->statistic;
    Consumer c = {.w = fa3_consumer(b, index), .key = j * a->Bc + first};
    c.rows = first < live ? (uint32_t)min_u64(keys, live - first) : 0;
    c.k = shared_tile(b, "K", type, keys, d);
    c.v = shared_tile(b, "V", type, keys, d);
    for (uint32_t stage = 0; stage < f->stages; stage++) c.ds[stage] = shared_tile(b, "dS", type, Br, keys);
    c.staged = shared_tile(b, "dQ out", statistic, f->piece.rows, f->piece.cols);
    c.s = register_tile(b, "S", statistic, Br, (uint32_t)max_u64(keys, f->piece.cols));
    c.p = tile_view(c.s, "P", type, Br, keys);
    c.dq = tile_view(c.s, "dQ", statistic, f->piece.rows, f->piece.cols);
    c.dp = register_tile(b, "dP", statistic, Br, keys);
    c.ds_left = tile_view(c.dp, "dS", type, Br, keys);
    c.dk = register_tile(b, "dK", statistic, keys, d);
    c.dv = register_tile(b, "dV", statistic, keys, d);
    c.z = keep_part(b, a, Br, keys);
    return c;
}

static Fa3 declare(Block *b, const BackwardSums *sums, uint64_t j)
{
    const Attention *a = sums->attention;
    const TileSize tiles = {a->Br, a->Bc};
    const uint32_t d = (uint32_t)a->shape.head_dim;
    Fa3 f = {.a = a, .sums = sums, .geometry = fa3_backward_geometry(&a->shape, tiles), .piece = piece_of(&a->shape, tiles), .count = consumers_for(tiles),
             .stages = d <= 128 ? STAGES : 1, .queries = visible_query_blocks(a, j)};
    f.producer = fa3_producer(b, f.count, false);
    f.writer = stream(b, "dQ writer", 1);
    register_tile(b, "addresses and loop state", ELEMENT_F32, f.count * WARPGROUP, OVERHEAD_REGISTERS);
    for (uint32_t n = 0; n < f.count; n++) f.consumers[n] = new_consumer(&f, b, n, j);
    for (uint32_t stage = 0; stage < STAGES; stage++) {
        f.q[stage] = shared_tile(b, "Q", a->shape.dtype, a->Br, d);
        f.L[stage] = row_vector(b, "L", a->statistic, a->Br);
    }
    for (uint32_t stage = 0; stage < f.stages; stage++) {
        f.d_o[stage] = shared_tile(b, "dO", a->shape.dtype, a->Br, d);
        f.D[stage] = row_vector(b, "D", a->statistic, a->Br);
    }
    f.meeting = barrier(b, "dS written");
    return f;
}

static void load_keys(const Fa3 *f)
{
    for (uint32_t n = 0; n < f->count; n++) {
        const Consumer *c = &f->consumers[n];
        if (c->rows == 0) continue;
        load(f->producer, c->k, f->a->K, c->key);
        load(f->producer, c->v, f->a->V, c->key);
    }
}

/* The contributions of the query blocks of one head. */
static void gather_head(const Fa3 *f, Block *b, uint64_t head)
{
    const uint64_t first = f->queries.first;
    b->member = head;
    for (uint64_t stage = 0; stage < STAGES; stage++) {
        load_queries(f, first + stage);
        if (stage < f->stages) load_output_gradients(f, first + stage);
    }
    for (uint64_t i = first; i < f->queries.end; i++) {
        for (uint32_t n = 0; n < f->count; n++) scores_and_gradients(f, &f->consumers[n], i);
        if (f->stages == 1) meet(f);                        /* the last dS has been read by all */
        for (uint32_t n = 0; n < f->count; n++) hand_over(f, &f->consumers[n], i);
        meet(f);
        for (uint32_t n = 0; n < f->count; n++) gradients(f, &f->consumers[n], i);
        load_output_gradients(f, i + f->stages);
        load_queries(f, i + STAGES);
    }
    b->member = 0;
}

static void fa3_block(Block *b, const void *arguments, uint64_t j)
{
    const BackwardSums *sums = arguments;
    const Fa3 f = declare(b, sums, j);
    for (uint32_t n = 0; n < f.count; n++) begin_consumer(&f, &f.consumers[n]);
    if (f.queries.first < f.queries.end && group_size(f.a) > 0) {
        load_keys(&f);
        for (uint64_t head = 0; head < group_size(f.a); head++) gather_head(&f, b, head);
    }
    for (uint32_t n = 0; n < f.count; n++) finish_consumer(&f, &f.consumers[n]);
}

/* ---------------------------------------------------------------------------------------------------------------- launches */

bool fa3_backward(Machine *machine, Attention *a)
{
    const BackwardGeometry geometry = fa3_backward_geometry(&a->shape, (TileSize){a->Br, a->Bc});
    const Kernel kernel = {.instruction = TENSOR_WGMMA, .shape = geometry.scores, .threads = geometry.threads,
                           .registers_per_thread = geometry.registers_per_thread, .run = fa3_block};
    const uint32_t count = consumers_for((TileSize){a->Br, a->Bc});
    if (a->variant.two_ctas) return status_fail(machine->status, STATUS_INFEASIBLE, "fa3: its backward has no pairs of CTAs; use fa4");
    if (a->Bc > MOST_KEYS * MAX_CONSUMERS)
        return status_fail(machine->status, STATUS_INFEASIBLE, "fa3: %u keys per block need %u consumer warpgroups of %d; at most %d", a->Bc,
                           (uint32_t)ceil_div(a->Bc, MOST_KEYS), MOST_KEYS, MAX_CONSUMERS);
    if (a->Z != NULL && a->Bc % count != 0)
        return status_fail(machine->status, STATUS_INFEASIBLE, "fa3 reads a stored dropout mask in %u equal parts: %u keys per block are no multiple",
                           count, a->Bc);
    return backward_with_sums(machine, a, "fa3", (BackwardNames){"fa3_bwd_dot", "fa3_bwd", "fa3_bwd_convert"}, kernel);
}

/* Real tiles: flash-attention, hopper/flash_bwd_launch_template.h. */
TileSize fa3_backward_tiles(const AttentionShape *s)
{
    const bool small = fa3_is_masked(s) || s->dropout_source != DROPOUT_NONE;
    if (s->head_dim <= 64) return (TileSize){128, 128};
    if (s->head_dim <= 96) return (TileSize){64, 128};
    if (s->head_dim <= 128) return (TileSize){small ? 64 : 80, 128};
    return s->head_dim <= 192 ? (TileSize){64, 96} : (TileSize){64, 80};
}

/* The warpgroups and registers of the forward pass, where query rows are what keys are here. dQᵀ is computed past d = 64: 64 columns and up to 256
 * queries per instruction; else dQ: 64 queries. */
BackwardGeometry fa3_backward_geometry(const AttentionShape *s, TileSize tiles)
{
    const uint32_t keys = keys_per_consumer(tiles);
    const Geometry warpgroups = algorithm_fa3.geometry(s, (TileSize){tiles.Bc, tiles.Br});
    return (BackwardGeometry){
        .threads = warpgroups.threads,
        .registers_per_thread = warpgroups.registers_per_thread,
        .scores = {256, keys},
        .key_gradients = {keys, 256},
        .query_gradients = {s->head_dim <= MOST_COLUMNS ? MOST_ROWS : 256, piece_of(s, tiles).cols},
    };
}
