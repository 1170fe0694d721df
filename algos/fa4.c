/* fa4.c - FlashAttention-4, forward pass, on Blackwell. Zadouri et al. 2026, arXiv:2603.05451, Section 3. Lecture §5.1.
 *
 * A thread block works on two query tiles of 128 rows in turn: while one has the tensor cores, the other is in its softmax. One
 * thread issues all products (tcgen05): they read operands from shared memory or tensor memory and leave their result in tensor
 * memory, so that accumulators cost no registers and a thread can own a whole row of S. Roles, each a stream of its own:
 *
 *     load          K and V through a ring of three stages in shared memory (TMA), Q once
 *     MMA           S = Q Kᵀ with both operands in shared memory; O += P V with P in tensor memory
 *     softmax 0, 1  one warpgroup per query tile: maximum, exponential, sum, P over S in the same columns
 *     correction    O = alpha O, off the softmax's path; divides by l at the end
 *     epilogue      O from shared memory to HBM (TMA)
 *
 * Tensor memory at d = 128: S0, S1, O0, O1 of 128 columns each, all 512. A turn is { P V of tile j, Q Kᵀ of tile j + 1 }.
 *
 * Cycles per 128 x 128 tile, d = 128, on B200: 2 products 1024, exponentials 1024, shared memory 768 = Q 256 + K 256 + V 256;
 * they follow from the instruction's 128 x 128 shape and from where its operands are (tests/test_fa4.c). The polynomial
 * exponential and conditional rescaling (Section 3.1; lecture §5.2, §5.3) are options, off by default: the accounts are without.
 * Left out: P handed over in two parts, pairs of CTAs, more than three stages where the head dimension leaves room, and reading
 * and writing tensor memory, which costs nothing here as in the paper's account.
 */
#include "algorithm.h"

enum { TILES = 2, STAGES = 3, LANES = 128, WARPGROUP = 128, WARP = 32 };
/* Per thread: 8 x 192 + 4 x 80 + 4 x 48 are the 128 on average that 16 warps can have. */
enum { WARPS = 16, REGISTERS = 128, CORRECTION_REGISTERS = 80, OTHER_REGISTERS = 48, OVERHEAD_REGISTERS = 30 };

#define LN_2 0x1.62e42fefa39efp-1
#define MILLION UINT64_C(1000000)

/* One query tile and the warpgroup that does its softmax. */
typedef struct {
    Stream *softmax;
    uint64_t row;        /* its first query row */
    uint32_t rows;       /* its live rows; 0: none in the last block */
    Tile *q, *s, *p, *o; /* s, p (a view of s) and o in tensor memory */
    Tile *out;           /* O on its way to HBM, in shared memory */
    Tile *z;
    Rows *m, *m_new, *l, *alpha;
    Rows *sum;           /* of a tile's P alone, where l is not rescaled */
} QueryTile;

typedef struct {
    const Attention *a;
    Stream *load, *mma, *correction, *epilogue;
    QueryTile tiles[TILES];
    Tile *ring[STAGES]; /* K_first, V_first, K_first+1, V_first+1, ... */
    BlockRange keys;
} Fa4;

/* ------------------------------------------------------------------------------------------------------------------ roles */

static Tile *k_stage(const Fa4 *f, uint64_t j) { return f->ring[2 * (j - f->keys.first) % STAGES]; }
static Tile *v_stage(const Fa4 *f, uint64_t j) { return f->ring[(2 * (j - f->keys.first) + 1) % STAGES]; }

static void load_stage(const Fa4 *f, Tile *stage, const Tensor *tensor, uint64_t j)
{
    stage->name = tensor->name;
    load(f->load, stage, tensor, j * f->a->Bc);
}

/* K_j takes the place of V_j-2, V_j that of K_j-1. */
static void load_keys(const Fa4 *f, uint64_t j)
{
    if (j >= f->keys.end) return;
    load_stage(f, k_stage(f, j), f->a->K, j);
    load_stage(f, v_stage(f, j), f->a->V, j);
}

static void scores(const Fa4 *f, const QueryTile *t, uint64_t j)
{
    if (j < f->keys.end) matmul_nt(f->mma, t->s, t->q, k_stage(f, j));
}

static void weighted_sum(const Fa4 *f, const QueryTile *t, uint64_t j) { matmul_nn_add(f->mma, t->o, t->p, v_stage(f, j)); }

/* Without data: of n key blocks ceil(n share) rescale, evenly spread, the first among them. */
static bool assumed_to_rescale(const Fa4 *f, uint64_t j)
{
    const uint64_t n = j - f->keys.first, share = f->a->fa4.rescale_ppm;
    return n == 0 || ceil_div((n + 1) * share, MILLION) > ceil_div(n * share, MILLION);
}

/* Key blocks after which that pattern repeats. */
static uint64_t rescale_period(uint64_t share)
{
    uint64_t divisor = MILLION;
    for (uint64_t rest = share; rest != 0;) { /* Euclid */
        const uint64_t next = divisor % rest;
        divisor = rest;
        rest = next;
    }
    return MILLION / divisor;
}

/* The reference of tile j's exponentials; whether it is another than before in any row. */
static bool new_reference(const Fa4 *f, const QueryTile *t, uint64_t j)
{
    const Fa4Options *o = &f->a->fa4;
    const uint32_t group = o->decision_rows == 0 ? WARP : o->decision_rows;
    if (o->conditional) return row_max_lagging(t->softmax, t->m_new, t->m, t->s, o->threshold * LN_2, group, assumed_to_rescale(f, j));
    row_max(t->softmax, t->m_new, t->m, t->s);
    return true;
}

/* m, l and P of tile j. The correction warps rescale O once the product before has been added to it. P, l and O share one
 * reference: where m stays, P is relative to the old one. */
static void softmax(const Fa4 *f, QueryTile *t, uint64_t j)
{
    const Attention *a = f->a;
    Stream *w = t->softmax;
    scale(w, t->s, a->shape.softmax_scale);
    mask(w, t->s, t->row, j * a->Bc, a->band);
    const bool rescale = new_reference(f, t, j);
    if (rescale) {
        rows_exp_difference(w, t->alpha, t->m, t->m_new);
        scale_rows(f->correction, t->o, t->alpha);
    }
    exp_rows(w, t->s, t->s, t->m_new);
    if (rescale) row_sum_scaled(w, t->l, t->alpha, t->s);
    else {
        row_sum(w, t->sum, t->s);
        rows_add(w, t->l, t->sum);
    }
    keep_or_load(w, a, t->z, t->s, t->row, j * a->Bc);
    drop_and_convert(w, a, t->p, t->s, t->z);
    Rows *const swap = t->m;
    t->m = t->m_new;
    t->m_new = swap;
}

static void begin_tile(const Fa4 *f, const QueryTile *t)
{
    fill(f->correction, t->o, t->rows, (uint32_t)f->a->shape.head_dim, 0.0);
    fill(t->softmax, t->l, t->rows, 1, 0.0);
    fill(t->softmax, t->m, t->rows, 1, -INFINITY);
    if (f->keys.first < f->keys.end) load(f->load, t->q, f->a->Q, t->row);
}

static void finish_tile(const Fa4 *f, const QueryTile *t)
{
    const Attention *a = f->a;
    rows_log_sum_exp(t->softmax, t->alpha, t->m, t->l);
    store(t->softmax, a->L, t->row, t->alpha);
    divide_rows(f->correction, t->o, t->l);
    convert(f->correction, t->out, t->o);
    store(f->epilogue, a->O, t->row, t->out);
}

/* ------------------------------------------------------------------------------------------------------------------ block */

/* Two equal tiles; an odd number of rows (no real kernel's) is one. */
static uint32_t rows_per_tile(uint32_t Br) { return Br % TILES == 0 ? Br / TILES : Br; }

static QueryTile new_tile(Block *b, const Attention *a, uint32_t index, uint64_t i)
{
    static const char *const names[TILES] = {"softmax 0", "softmax 1"};
    const uint32_t d = (uint32_t)a->shape.head_dim, full = rows_per_tile(a->Br), R = index == 0 ? full : a->Br - full;
    const uint64_t row = i * a->Br + (uint64_t)index * full, end = min_u64((i + 1) * a->Br, a->shape.seqlen_q);
    QueryTile t = {.softmax = stream(b, names[index], 4), .row = row, .rows = row < end ? (uint32_t)min_u64(R, end - row) : 0};
    t.q = shared_tile(b, "Q", a->shape.dtype, R, d);
    t.out = shared_tile(b, "O out", a->shape.dtype, R, d);
    t.s = tensor_memory_tile(b, "S", a->statistic, R, a->Bc);
    t.p = tile_view(t.s, "P", a->fa4.bf16_weights ? ELEMENT_BF16 : a->shape.dtype, R, a->Bc);
    t.o = tensor_memory_tile(b, "O", a->statistic, R, d);
    register_tile(b, "a row of S per thread", a->statistic, R, a->Bc);
    register_tile(b, "addresses and loop state", ELEMENT_F32, WARPGROUP, OVERHEAD_REGISTERS);
    t.m = row_vector(b, "m", a->statistic, R);
    t.m_new = row_vector(b, "m_new", a->statistic, R);
    t.l = row_vector(b, "l", a->statistic, R);
    t.alpha = row_vector(b, "alpha", a->statistic, R);
    if (a->fa4.conditional) t.sum = row_vector(b, "row sums", a->statistic, R);
    t.softmax->poly_sixteenths = a->fa4.poly_sixteenths;
    t.z = keep_tile(b, a, R);
    return t;
}

static void fa4_block(Block *b, const void *arguments, uint64_t i)
{
    const Attention *a = arguments;
    Fa4 f = {.a = a,
             .load = stream(b, "load", 1),
             .mma = stream(b, "MMA", 1),
             .correction = stream(b, "correction", 4),
             .epilogue = stream(b, "epilogue", 1),
             .keys = visible_key_blocks(a, i)};
    for (uint32_t t = 0; t < TILES; t++) f.tiles[t] = new_tile(b, a, t, i);
    for (int stage = 0; stage < STAGES; stage++)
        f.ring[stage] = shared_tile(b, "K or V", a->shape.dtype, a->Bc, (uint32_t)a->shape.head_dim);
    register_tile(b, "correction", ELEMENT_F32, WARPGROUP, CORRECTION_REGISTERS);
    register_tile(b, "load, MMA, epilogue", ELEMENT_F32, WARPGROUP, OTHER_REGISTERS);
    const uint32_t live = f.tiles[1].rows > 0 ? 2 : 1;

    for (uint32_t t = 0; t < live; t++) begin_tile(&f, &f.tiles[t]);
    load_keys(&f, f.keys.first);
    for (uint32_t t = 0; t < live; t++) scores(&f, &f.tiles[t], f.keys.first);
    for (uint64_t j = f.keys.first; j < f.keys.end; j++) {
        load_keys(&f, j + 1);
        for (uint32_t t = 0; t < live; t++) {
            softmax(&f, &f.tiles[t], j);
            weighted_sum(&f, &f.tiles[t], j);
            scores(&f, &f.tiles[t], j + 1);
        }
    }
    for (uint32_t t = 0; t < live; t++) finish_tile(&f, &f.tiles[t]);
}

static bool fa4_forward(Machine *machine, Attention *a)
{
    const AttentionShape *s = &a->shape;
    if (a->Br > TILES * LANES)
        return status_fail(machine->status, STATUS_INFEASIBLE,
                           "fa4: %u query rows per block; at most %d, two tiles of the %d lanes of tensor memory", a->Br,
                           TILES * LANES, LANES);
    a->L = machine_tensor(machine, "L", a->statistic, s->batch, s->heads, s->seqlen_q, 1);
    Kernel kernel = attention_kernel(&algorithm_fa4, "fa4_forward", a, fa4_block);
    if (a->fa4.conditional) kernel.period = rescale_period(a->fa4.rescale_ppm);
    return launch_keep_mask(machine, a, kernel) && launch(machine, &kernel, one_block_per_query_block(a), a);
}

/* Real tiles: flash-attention 4, head dims up to 128. */
static TileSize fa4_tiles(const AttentionShape *s)
{
    (void)s;
    return (TileSize){TILES * LANES, 128};
}

/* An instruction covers the rows of one query tile, 128 at most. */
static Geometry fa4_geometry(const AttentionShape *s, TileSize tiles)
{
    (void)s;
    return (Geometry){.threads = 32 * WARPS,
                      .registers_per_thread = REGISTERS,
                      .shape = {.m = (uint32_t)min_u64(rows_per_tile(tiles.Br), LANES), .n = LANES}};
}

const Algorithm algorithm_fa4 = {
    .name = "fa4",
    .title = "FlashAttention-4",
    .source = "Zadouri et al. 2026, arXiv:2603.05451",
    .instruction = TENSOR_TCGEN05,
    .tiles = fa4_tiles,
    .geometry = fa4_geometry,
    .forward = fa4_forward,
    .closed_form = closed_form_fa4,
    .backward = fa4_backward,
    .backward_tiles = fa4_backward_tiles,
    .backward_closed_form = closed_form_fa4_backward,
};
