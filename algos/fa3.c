/* fa3.c - FlashAttention-3, forward pass, on Hopper. Shah et al. 2024, arXiv:2407.08608, Algorithms 1 and 2. Lecture §4.
 *
 * A thread block is one producer warpgroup and one to three consumers (four for tests), each with its own 64 query rows. The producer copies
 * K and V (TMA) into a ring of two stages; the consumers compute with wgmma, which is asynchronous. Three things overlap, and each can be
 * switched off (Fa3Options; so can the asynchrony of copies and products itself, which leaves FlashAttention-2's way of working):
 *     copies with everything         the ring: K_j+1 arrives while tile j is worked on
 *     softmax of one warpgroup       ping-pong: named barriers give the tensor cores to one warpgroup at a time, for a turn of
 *       with products of another       { P V of tile j, Q Kᵀ of tile j+1 }; meanwhile the other does its softmax
 *     softmax of tile j with P V     inside a warpgroup: Q Kᵀ of tile j and P V of tile j-1 are issued, then softmax j runs; P needs registers
 *       of tile j-1                    of its own, next to S
 * The numbers are FlashAttention-2's, the traffic too: K and V once per query block. Dropout, which the shipped kernel lacks, is FlashAttention-2's.
 *
 * Registers: a consumer thread has 240 (two consumers) or 160 (three); beside O, S and P about 32 hold addresses, statistics and loop state
 * (declared as a tile, so that the arena shows why 176 keys are the most at d = 128).
 *
 * FP8 (§4.4; Fp8Options, fp8.h). Q, K and V are codes with scales; products add in float32. What the kernel does about it, and what it costs:
 *     S = (1/s_Q)(1/s_K) scale Q8 K8ᵀ   the scales ride on the softmax scale: free (with a scale per row two multiplications per score)
 *     P8 = E4M3(2^8 e^(S - m))          the reference is m - 8 ln 2: one addition per row; l carries the 2^8 and cancels it. P <= 256 < 448
 *     O += P8 V8, in units of 1/s_V     with a scale per block, alpha also changes units: one multiplication per row and tile
 *     O = diag(l)^-1 O / s_V            one multiplication per row; then O Jᵀ if V was rotated, before O leaves the registers
 * wgmma takes FP8 operands only with the inner dimension contiguous, which V is not: the producer warpgroup transposes each V tile in shared memory (LDSM, STSM:
 * read once, written once) into a ring of its own. Scales are read into shared memory with their tiles, as numbers, not as operations.
 *
 * Left out: clusters that share K and V (multicast), the persistent loop over tiles, P through shared memory, the register permutation that
 * FP8's accumulator layout needs between the two products.
 */
#include "algorithm.h"
#include "fp8.h"

enum { STAGES = 2, OVERHEAD_REGISTERS = 30, WARPGROUP = 128 };

/* Registers per thread of the producer and of a consumer, by the number of consumers (setmaxnreg in flash-attention, hopper). Four consumers are
 * no shipped configuration. */
static const struct {
    uint32_t producer, consumer;
} registers_of[MAX_CONSUMERS + 1] = {{0, 0}, {56, 256}, {24, 240}, {32, 160}, {24, 120}};

/* One consumer warpgroup. */
typedef struct {
    Stream *w;
    uint64_t row;               /* its first query row */
    uint32_t rows;              /* its live rows; 0: none in the last block */
    Tile *q, *s, *p, *o, *z;
    Rows *m, *m_new, *l, *alpha;
    Tile *turn;                 /* the barrier that gives it the tensor cores */
    Rows *q_descale;            /* 1/s of its rows, with a scale per row */
    double unit;                /* 1/s of the last V tile: O is in this unit */
} Consumer;

typedef struct {
    const Attention *a;
    Stream *producer;
    Consumer consumers[MAX_CONSUMERS];
    uint32_t count;
    Tile *k[STAGES], *v[STAGES];
    BlockRange keys;
    bool ping_pong, overlap;

    bool fp8;
    ScaleGranularity scales;
    const Tensor *Q, *K, *V;    /* what is loaded: codes, if there are any */
    Tile *transposed[STAGES];   /* V in the layout that FP8 products need */
    Rows *q_descale, *k_descale[STAGES], *v_descale[STAGES];     /* with a scale per tensor, all stages are the same tile */
} Fa3;

/* ---------------------------------------------------------------------------------------------------------------- producer */

static uint64_t stage_of(const Fa3 *f, uint64_t j) { return (j - f->keys.first) % STAGES; }

static bool scale_per_tile(const Fa3 *f) { return f->scales == SCALE_BLOCK || f->scales == SCALE_ROW; }

static void load_k(const Fa3 *f, uint64_t j)
{
    const uint64_t stage = stage_of(f, j);
    if (j >= f->keys.end) return;
    load(f->producer, f->k[stage], f->K, j * f->a->Bc);
    if (scale_per_tile(f)) load(f->producer, f->k_descale[stage], f->a->k8.descale, f->scales == SCALE_ROW ? j * f->a->Bc : j);
}

static void load_v(const Fa3 *f, uint64_t j)
{
    const uint64_t stage = stage_of(f, j);
    if (j >= f->keys.end) return;
    load(f->producer, f->v[stage], f->V, j * f->a->Bc);
    if (scale_per_tile(f)) load(f->producer, f->v_descale[stage], f->a->v8.descale, j);
    if (f->fp8) convert(f->producer, f->transposed[stage], f->v[stage]);
}

/* Scales that hold for the whole block of queries. */
static void load_descales(const Fa3 *f, uint64_t i)
{
    const Attention *a = f->a;
    if (f->scales == SCALE_NONE || f->keys.first == f->keys.end) return;
    if (f->scales == SCALE_ROW) {
        for (uint32_t c = 0; c < f->count; c++)
            if (f->consumers[c].rows > 0) load(f->producer, f->consumers[c].q_descale, a->q8.descale, f->consumers[c].row);
        return;
    }
    load(f->producer, f->q_descale, a->q8.descale, f->scales == SCALE_TENSOR ? 0 : i);
    if (f->scales == SCALE_BLOCK) return;
    load(f->producer, f->k_descale[0], a->k8.descale, 0);
    load(f->producer, f->v_descale[0], a->v8.descale, 0);
}

/* --------------------------------------------------------------------------------------------------------------- consumers */

static void scores(const Fa3 *f, const Consumer *c, uint64_t j) { matmul_nt(c->w, c->s, c->q, f->k[stage_of(f, j)]); }

static void weighted_sum(const Fa3 *f, const Consumer *c, uint64_t j)
{
    matmul_nn_add(c->w, c->o, c->p, f->fp8 ? f->transposed[stage_of(f, j)] : f->v[stage_of(f, j)]);
}

/* S in its own unit, times the softmax scale. */
static void scale_scores(const Fa3 *f, const Consumer *c, uint64_t j)
{
    const double factor = f->a->shape.softmax_scale;
    const Rows *k_descale = f->k_descale[stage_of(f, j)];
    if (f->scales == SCALE_TENSOR || f->scales == SCALE_BLOCK) {
        scale(c->w, c->s, factor * tile_scalar(f->q_descale) * tile_scalar(k_descale));
        return;
    }
    scale(c->w, c->s, factor);
    if (f->scales == SCALE_NONE) return;
    scale_rows(c->w, c->s, c->q_descale);
    scale_cols(c->w, c->s, k_descale);
}

/* The maximum (or what stands for it) less ln 2^8: what makes P 2^8 times as large. In alpha, which is free at that time. */
static Rows *lowered_reference(const Fa3 *f, const Consumer *c, const Rows *m)
{
    static const double ln2 = 0x1.62e42fefa39efp-1;
    fill(c->w, c->alpha, c->rows, 1, -ln2 * f->a->shape.fp8.p_log2_scale);
    add(c->w, c->alpha, m);
    return c->alpha;
}

/* P = e^(S - m), alpha = e^(m_old - m). */
static void exponentials(const Fa3 *f, const Consumer *c)
{
    if (f->fp8) exp_rows(c->w, c->s, c->s, lowered_reference(f, c, c->m_new));
    rows_exp_difference(c->w, c->alpha, c->m, c->m_new);
    if (!f->fp8) exp_rows(c->w, c->s, c->s, c->m_new);
}

/* O is in units of the last V tile's scale; the next product is in those of tile j's. */
static void change_unit(const Fa3 *f, Consumer *c, uint64_t j)
{
    if (!scale_per_tile(f)) return;
    const double unit = tile_scalar(f->v_descale[stage_of(f, j)]);
    scale(c->w, c->alpha, j == f->keys.first ? 1.0 : c->unit / unit);
    c->unit = unit;
}

/* m, l and P of tile j; O is rescaled once what runs on it is done. */
static void softmax(const Fa3 *f, Consumer *c, uint64_t j)
{
    const Attention *a = f->a;
    scale_scores(f, c, j);
    mask(c->w, c->s, c->row, j * a->Bc, a->band);
    row_max(c->w, c->m_new, c->m, c->s);
    exponentials(f, c);
    row_sum_scaled(c->w, c->l, c->alpha, c->s);
    keep_or_load(c->w, a, c->z, c->s, c->row, j * a->Bc);
    drop_and_convert(c->w, a, c->p, c->s, c->z);
    change_unit(f, c, j);
    scale_rows(c->w, c->o, c->alpha);
    Rows *const swap = c->m;
    c->m = c->m_new;
    c->m_new = swap;
}

/* The turn at the tensor cores: taken from whoever has it, given to the next. */
static void begin_turn(const Fa3 *f, const Consumer *c)
{
    if (f->ping_pong) barrier_sync(c->w, c->turn);
}

static void end_turn(const Fa3 *f, const Consumer *c)
{
    const uint32_t next = ((uint32_t)(c - f->consumers) + 1) % f->count;
    if (f->ping_pong) barrier_arrive(c->w, f->consumers[next].turn);
}

/* Tile j of one consumer. Without overlap S of tile j is there: softmax, then the turn { P V of j, Q Kᵀ of j + 1 }. With overlap the turn
 * { Q Kᵀ of j, P V of j - 1 } comes first and runs while the softmax of j, which needs only S, goes on. */
static void consume(const Fa3 *f, Consumer *c, uint64_t j)
{
    const bool first = j == f->keys.first, last = j + 1 == f->keys.end;
    if (c->rows == 0) return;
    if (f->overlap) {
        if (!first) {
            begin_turn(f, c);
            scores(f, c, j);
            weighted_sum(f, c, j - 1);
            end_turn(f, c);
        }
        softmax(f, c, j);
        if (last) weighted_sum(f, c, j);
        return;
    }
    softmax(f, c, j);
    begin_turn(f, c);
    weighted_sum(f, c, j);
    if (!last) scores(f, c, j + 1);
    end_turn(f, c);
}

static void begin_consumer(const Fa3 *f, Consumer *c)
{
    const uint32_t d = (uint32_t)f->a->shape.head_dim;
    if (c->rows == 0) return;
    fill(c->w, c->o, c->rows, d, 0.0);
    fill(c->w, c->l, c->rows, 1, 0.0);
    fill(c->w, c->m, c->rows, 1, -INFINITY);
    if (f->keys.first < f->keys.end) load(f->producer, c->q, f->Q, c->row);
}

/* L and O from sums that carry 2^8 and the unit of V. */
static void finish_fp8(const Fa3 *f, const Consumer *c)
{
    const double unit = f->scales == SCALE_TENSOR ? tile_scalar(f->v_descale[0]) : c->unit;
    rows_log_sum_exp(c->w, c->alpha, lowered_reference(f, c, c->m), c->l);
    if (f->scales != SCALE_NONE) scale(c->w, c->l, f->keys.first < f->keys.end ? 1.0 / unit : 1.0);
    divide_rows(c->w, c->o, c->l);
}

static void finish_consumer(const Fa3 *f, const Consumer *c)
{
    const Attention *a = f->a;
    const AttentionShape *s = &a->shape;
    if (c->rows == 0) return;
    if (f->fp8) finish_fp8(f, c);
    else {
        divide_rows(c->w, c->o, c->l);
        rows_log_sum_exp(c->w, c->alpha, c->m, c->l);
    }
    if (f->fp8 && s->fp8.rotation == ROTATE_QKV) unrotate_rows(c->w, c->o, s->fp8.seed, c->w->block->head * s->kv_heads / s->heads);
    store(c->w, a->O, c->row, c->o);
    store(c->w, a->L, c->row, c->alpha);
}

/* ------------------------------------------------------------------------------------------------------------------- block */

/* Of its warps one copies; all four transpose V in FP8. */
Stream *fa3_producer(Block *b, uint32_t count, bool fp8)
{
    register_tile(b, "producer", ELEMENT_F32, WARPGROUP, registers_of[count].producer);
    return stream(b, "producer", fp8 ? 4 : 1);
}

static void new_ring(Block *b, Fa3 *f)
{
    const Attention *a = f->a;
    const uint32_t d = (uint32_t)a->shape.head_dim;
    for (int stage = 0; stage < STAGES; stage++) {
        f->k[stage] = shared_tile(b, "K", a->shape.dtype, a->Bc, d);
        f->v[stage] = shared_tile(b, "V", a->shape.dtype, a->Bc, d);
        if (f->fp8) f->transposed[stage] = shared_tile(b, "V transposed", a->shape.dtype, a->Bc, d);
    }
    if (f->scales == SCALE_NONE) return;
    if (f->scales != SCALE_ROW) f->q_descale = shared_tile(b, "1/s_Q", ELEMENT_F32, 1, 1);
    for (int stage = 0; stage < STAGES; stage++) {
        const bool shared = f->scales == SCALE_TENSOR && stage > 0;
        f->k_descale[stage] = shared ? f->k_descale[0] : shared_tile(b, "1/s_K", ELEMENT_F32, f->scales == SCALE_ROW ? a->Bc : 1, 1);
        f->v_descale[stage] = shared ? f->v_descale[0] : shared_tile(b, "1/s_V", ELEMENT_F32, 1, 1);
    }
}

Stream *fa3_consumer(Block *b, uint32_t index)
{
    static const char *const names[MAX_CONSUMERS] = {"consumer 0", "consumer 1", "consumer 2", "consumer 3"};
    return stream(b, names[index], 4);
}

static Consumer new_consumer(Block *b, const Attention *a, uint32_t index, uint32_t full, uint64_t i, bool overlap)
{
    const uint32_t R = (uint32_t)min_u64(full, a->Br - (uint64_t)index * full);     /* the last may have fewer rows */
    const uint32_t d = (uint32_t)a->shape.head_dim;
    const uint64_t row = i * a->Br + (uint64_t)index * full, end = min_u64((i + 1) * a->Br, a->shape.seqlen_q);
    Consumer c = {.w = fa3_consumer(b, index), .row = row, .rows = row < end ? (uint32_t)min_u64(R, end - row) : 0};
    c.w->async_matmul = !a->fa3.blocking_products;
    c.q = shared_tile(b, "Q", a->shape.dtype, R, d);
    c.s = register_tile(b, "S", a->statistic, R, a->Bc);
    c.p = overlap ? register_tile(b, "P", a->shape.dtype, R, a->Bc) : tile_view(c.s, "P", a->shape.dtype, R, a->Bc);
    c.o = register_tile(b, "O", a->statistic, R, d);
    register_tile(b, "addresses and loop state", ELEMENT_F32, WARPGROUP, OVERHEAD_REGISTERS);
    c.m = row_vector(b, "m", a->statistic, R);
    c.m_new = row_vector(b, "m_new", a->statistic, R);
    c.l = row_vector(b, "l", a->statistic, R);
    c.alpha = row_vector(b, "alpha", a->statistic, R);
    if (is_fp8(a->shape.dtype) && a->shape.fp8.scales == SCALE_ROW) c.q_descale = row_vector(b, "1/s_Q", a->statistic, R);
    c.z = keep_tile(b, a, R);
    c.turn = barrier(b, "turn");
    return c;
}

/* 64, one wgmma, unless the number of consumers is given (the lecture's schedules: 128). */
static uint32_t rows_per_consumer(const Attention *a)
{
    return a->fa3.consumers > 0 ? (a->Br + a->fa3.consumers - 1) / a->fa3.consumers : (uint32_t)min_u64(a->Br, 64);
}

static void fa3_block(Block *b, const void *arguments, uint64_t i)
{
    const Attention *a = arguments;
    const uint32_t count = fa3_consumers(a), R = rows_per_consumer(a);
    const bool quantised = attention_quantises(&a->shape);
    Fa3 f = {.a = a, .count = count, .keys = visible_key_blocks(a, i), .ping_pong = !a->fa3.no_ping_pong && count > 1,
             .overlap = !a->fa3.no_overlap, .fp8 = is_fp8(a->shape.dtype), .scales = quantised ? a->shape.fp8.scales : SCALE_NONE,
             .Q = quantised ? a->q8.codes : a->Q, .K = quantised ? a->k8.codes : a->K, .V = quantised ? a->v8.codes : a->V};
    if (!a->fa3.blocking_copies) f.producer = fa3_producer(b, count, f.fp8);
    for (uint32_t c = 0; c < count; c++) f.consumers[c] = new_consumer(b, a, c, R, i, f.overlap);
    if (a->fa3.blocking_copies) {
        f.producer = f.consumers[0].w;
        f.producer->async_copy = false;
    }
    new_ring(b, &f);

    load_descales(&f, i);
    for (uint32_t c = 0; c < count; c++) begin_consumer(&f, &f.consumers[c]);
    load_k(&f, f.keys.first);
    load_v(&f, f.keys.first);
    for (uint32_t c = 0; c < count && f.keys.first < f.keys.end; c++)
        if (f.consumers[c].rows > 0) scores(&f, &f.consumers[c], f.keys.first);
    for (uint64_t j = f.keys.first; j < f.keys.end; j++) {
        load_k(&f, j + 1);
        for (uint32_t c = 0; c < count; c++) consume(&f, &f.consumers[c], j);
        load_v(&f, j + 1);                                  /* its stage held V of tile j - 1, which the overlap used only now */
    }
    for (uint32_t c = 0; c < count; c++) finish_consumer(&f, &f.consumers[c]);
}

uint32_t fa3_consumers(const Attention *a)
{
    if (a->fa3.consumers > 0) return a->fa3.consumers;
    return (uint32_t)ceil_div(a->Br, 64);
}

static bool fa3_forward(Machine *machine, Attention *a)
{
    const AttentionShape *s = &a->shape;
    if (fa3_consumers(a) > MAX_CONSUMERS)
        return status_fail(machine->status, STATUS_INFEASIBLE, "fa3: %u query rows per block need %u consumer warpgroups of 64; at most %d", a->Br,
                           fa3_consumers(a), MAX_CONSUMERS);
    if (a->Z != NULL && a->Br > 64 && a->Br % 64 != 0)
        return status_fail(machine->status, STATUS_INFEASIBLE, "fa3 reads a stored dropout mask by 64 rows: %u query rows per block are no multiple", a->Br);
    a->L = machine_tensor(machine, "L", a->statistic, s->batch, s->heads, s->seqlen_q, 1);
    const Kernel kernel = attention_kernel(&algorithm_fa3, "fa3_forward", a, fa3_block);
    return launch_fp8_prepass(machine, a) && launch_keep_mask(machine, a, kernel) && launch(machine, &kernel, one_block_per_query_block(a), a);
}

/* The same file's FP8 tiles, V row-major (transposed in the kernel). */
static TileSize fa3_fp8_tiles(const AttentionShape *s)
{
    if (s->head_dim <= 64) return (TileSize){192, 160};
    if (s->head_dim <= 96) return (TileSize){192, 128};
    if (s->head_dim <= 128) return (TileSize){128, 224};
    return s->head_dim <= 192 ? (TileSize){128, 160} : (TileSize){128, 128};
}

bool fa3_is_masked(const AttentionShape *s) { return s->mask != MASK_NONE || s->window_left >= 0 || s->window_right >= 0; }

/* Real tiles: flash-attention, hopper/tile_size.h. Where the real kernel keeps P in shared memory (head dims up to 96 without a mask), those with P
 * in registers. */
static TileSize fa3_tiles(const AttentionShape *s)
{
    if (is_fp8(s->dtype)) return fa3_fp8_tiles(s);
    if (s->head_dim <= 64) return (TileSize){192, 128};
    if (s->head_dim <= 96) return (TileSize){128, 128};
    if (s->head_dim <= 128) return (TileSize){128, fa3_is_masked(s) ? 128 : 176};
    return s->head_dim <= 192 ? (TileSize){128, 112} : (TileSize){128, 80};
}

/* One producer warpgroup and the consumers; registers as an average over them. */
static Geometry fa3_geometry(const AttentionShape *s, TileSize tiles)
{
    (void)s;
    const uint32_t consumers = (uint32_t)min_u64(max_u64(ceil_div(tiles.Br, 64), 1), MAX_CONSUMERS);
    const uint32_t registers = registers_of[consumers].producer + consumers * registers_of[consumers].consumer;
    return (Geometry){.threads = WARPGROUP * (consumers + 1), .registers_per_thread = registers / (consumers + 1), .shape = {64, 256}};
}

const Algorithm algorithm_fa3 = {
    .name = "fa3",
    .title = "FlashAttention-3, forward",
    .source = "Shah et al. 2024, arXiv:2407.08608, Algorithms 1 and 2",
    .instruction = TENSOR_WGMMA,
    .tiles = fa3_tiles,
    .geometry = fa3_geometry,
    .forward = fa3_forward,
    .closed_form = closed_form_fa3,
    .backward = fa3_backward,
    .backward_tiles = fa3_backward_tiles,
    .backward_closed_form = closed_form_fa4_backward,       /* what is moved and touched is the same; the instructions' shapes differ */
};
