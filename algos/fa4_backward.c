/* fa4_backward.c - FlashAttention-4, backward pass, on Blackwell, with one CTA and with two. Zadouri et al. 2026,
 * arXiv:2603.05451, Section 4. Lecture §5.4.
 *
 *     S = Q Kᵀ, dP = dO Vᵀ      both operands in shared memory
 *     dV += Pᵀ dO, dK += dSᵀ Q  P and dS in tensor memory, where the threads left them
 *     dQ = dS K                 both in shared memory, so dS goes there as well; dQ leaves through shared memory, by atomic adds
 *
 * A thread block has one key block and loops over query blocks, as in FlashAttention-2 (fa2_backward.c has the maths). Roles:
 * load (TMA), MMA, eight compute warps (P and dS), a warpgroup that takes dQ out of tensor memory in slices of 32 columns. The
 * products dK and dQ of one query block run while the next one's P is computed. Tensor memory: S (P over it), dP (dS and dQ over
 * it), dV, dK. The real kernel computes Sᵀ and dPᵀ, so that Pᵀ and dSᵀ are left operands as they lie; here S and dP are products
 * of the same operands, and the next products take them transposed: the same bytes from the same places.
 *
 * Shared memory binds: 128 x 128 tiles, d = 128, take 2560 cycles of tensor cores, but 8 operand tiles of 256 cycles, dS 256 and
 * dQ in float32 1024 (written by threads, read back by the copies): 3328.
 *
 * Two CTAs (BackwardVariant::two_ctas) take neighbouring key blocks, and an instruction spans both: each holds half of Q and half
 * of dO and reads half where one CTA reads all (cut by rows for S and dP, by columns for dK and dV, so each has two halves, in
 * two tiles). They exchange half of dS, after which each has half of the query rows over twice the keys: dQ = dS K costs it as
 * much as before, but its dQ has half of the rows, so half is staged and added atomically. Each CTA is walked by itself: its
 * product dQ is written as all rows over its own keys, which has the same FLOP and operand bytes, and what it adds to dQ counts as
 * half of the rows (paired_tile), so that the two CTAs' additions together are the same sum. Not walked: the exchange itself (the
 * paper charges 384 cycles without a formula). It needs whole tiles. As in FlashAttention-2, D is computed and the float32 sums of dQ are cleared by a kernel before, and converted by
 * one after.
 */
#include "algorithm.h"
#include "backward_sums.h"

enum { SLICE = 32, WARPS = 16, COMPUTE_WARPS = 8, WARPGROUP = 128 };
enum { REGISTERS = 128, REDUCE_REGISTERS = 136, OTHER_REGISTERS = 104 }; /* per thread: on average; of two roles */

typedef struct {
    const Attention *a;
    const BackwardSums *sums;
    Stream *load, *mma, *compute, *reduce;
    Tile *k, *v, *k_for_dq;          /* Bc x d, shared memory; the last is k unless two CTAs need another cut of it */
    Tile *q[2], *d_o;                /* Br x d, shared memory: of S and dP; ... */
    Tile *q_right[2], *d_o_right;    /* ... of dK and dV: the same unless two CTAs need another cut */
    Tile *ds, *staged[2];            /* Br x Bc; rows x SLICE, float32: shared memory */
    Tile *s, *p, *dp, *ds_left, *dq; /* tensor memory; p a view of s, ds_left and dq views of dp */
    Tile *dk, *dv;                   /* Bc x d, tensor memory */
    Tile *p_exact, *z;               /* registers */
    Rows *L[2], *D[2];
} Fa4;

/* ------------------------------------------------------------------------------------------------------------------ roles */

static void load_queries(const Fa4 *f, uint64_t i)
{
    const Attention *a = f->a;
    const uint32_t stage = (uint32_t)(i % 2);
    load(f->load, f->q[stage], a->Q, i * a->Br);
    load(f->load, f->L[stage], a->L, i * a->Br);
    load(f->load, f->D[stage], f->sums->D, i * a->Br);
}

static void load_output_gradients(const Fa4 *f, uint64_t i)
{
    const Attention *a = f->a;
    load(f->load, f->d_o, a->dO, i * a->Br);
    if (f->d_o_right != f->d_o) load(f->load, f->d_o_right, a->dO, i * a->Br);
}

static void scores(const Fa4 *f, uint64_t i) { matmul_nt(f->mma, f->s, f->q[i % 2], f->k); }

/* P from S: in registers for dS, and as an operand. */
static void probabilities(const Fa4 *f, uint64_t i, uint64_t j)
{
    const Attention *a = f->a;
    Stream *w = f->compute;
    scale(w, f->s, a->shape.softmax_scale);
    mask(w, f->s, i * a->Br, j * a->Bc, a->band);
    exp_rows(w, f->p_exact, f->s, f->L[i % 2]);
    keep_or_load(w, a, f->z, f->p_exact, i * a->Br, j * a->Bc);
    drop_and_convert(w, a, f->p, f->p_exact, f->z);
}

/* dS = P o (dP - D), to shared memory for dQ and to tensor memory for dK. */
static void score_gradients(const Fa4 *f, uint64_t i)
{
    const Attention *a = f->a;
    Stream *w = f->compute;
    if (f->z != NULL) apply_dropout(w, f->dp, f->dp, f->z, a->shape.dropout.p);
    subtract_rows(w, f->dp, f->D[i % 2]);
    multiply(w, f->dp, f->p_exact);
    convert(w, f->ds, f->dp);
    convert(w, f->ds_left, f->dp);
}

static void send_query_gradients(const Fa4 *f, uint64_t i)
{
    const Attention *a = f->a;
    const uint32_t d = (uint32_t)a->shape.head_dim;
    for (uint32_t col = 0; col < d; col += SLICE) {
        Tile *slice = f->staged[col / SLICE % 2];
        convert_part(f->reduce, slice, f->dq, 0, col);
        atomic_add_part(f->reduce, f->sums->dQ_sum, i * a->Br, col, slice);
    }
}

/* ------------------------------------------------------------------------------------------------------------------ block */

/* One CTA: two stages of Q. Two: one stage of each cut. */
static void declare_queries(Block *b, Fa4 *f)
{
    const Attention *a = f->a;
    const uint32_t Br = a->Br, d = (uint32_t)a->shape.head_dim;
    const ElementType type = a->shape.dtype;
    const bool two = a->variant.two_ctas;
    f->d_o = f->d_o_right = two ? paired_tile(b, "dO", type, Br, d) : shared_tile(b, "dO", type, Br, d);
    if (two) f->d_o_right = paired_tile(b, "dO, columns", type, Br, d);
    for (int stage = 0; stage < 2; stage++) {
        if (!two) f->q[stage] = f->q_right[stage] = shared_tile(b, "Q", type, Br, d);
        f->L[stage] = row_vector(b, "L", a->statistic, Br);
        f->D[stage] = row_vector(b, "D", a->statistic, Br);
    }
    if (!two) return;
    f->q[0] = f->q[1] = paired_tile(b, "Q", type, Br, d);
    f->q_right[0] = f->q_right[1] = paired_tile(b, "Q, columns", type, Br, d);
}

static Fa4 declare(Block *b, const BackwardSums *sums)
{
    const Attention *a = sums->attention;
    const uint32_t Br = a->Br, Bc = a->Bc, d = (uint32_t)a->shape.head_dim;
    const ElementType type = a->shape.dtype, statistic = a->statistic;
    const bool two = a->variant.two_ctas;
    Fa4 f = {.a = a,
             .sums = sums,
             .load = stream(b, "load", 1),
             .mma = stream(b, "MMA", 1),
             .compute = stream(b, "compute", COMPUTE_WARPS),
             .reduce = stream(b, "dQ reduce", 4)};
    f.k = f.k_for_dq = shared_tile(b, "K", type, Bc, d);
    f.v = shared_tile(b, "V", type, Bc, d);
    if (two) f.k_for_dq = shared_tile(b, "K for dQ", type, Bc, d);
    declare_queries(b, &f);
    f.ds = shared_tile(b, "dS", type, Br, Bc);
    const uint32_t slice = (uint32_t)min_u64(SLICE, d);
    for (int i = 0; i < 2; i++)
        f.staged[i] = two ? paired_tile(b, "dQ out", statistic, Br, slice) : shared_tile(b, "dQ out", statistic, Br, slice);
    f.s = tensor_memory_tile(b, "S", statistic, Br, Bc);
    f.p = tile_view(f.s, "P", type, Br, Bc);
    Tile *columns = tensor_memory_tile(b, "dP, dS, dQ", statistic, Br, (uint32_t)max_u64(Bc, d));
    f.dp = tile_view(columns, "dP", statistic, Br, Bc);
    f.ds_left = tile_view(columns, "dS", type, Br, Bc);
    f.dq = tile_view(columns, "dQ", statistic, Br, d);
    f.dv = tensor_memory_tile(b, "dV", statistic, Bc, d);
    f.dk = tensor_memory_tile(b, "dK", statistic, Bc, d);
    f.p_exact = register_tile(b, "P in registers", statistic, Br, Bc);
    f.z = keep_tile(b, a, Br);
    register_tile(b, "dQ reduce", ELEMENT_F32, WARPGROUP, REDUCE_REGISTERS);
    register_tile(b, "load, MMA", ELEMENT_F32, WARPGROUP, OTHER_REGISTERS);
    return f;
}

/* The contributions of the query blocks of one head. */
static void gather_head(const Fa4 *f, Block *b, BlockRange queries, uint64_t head, uint64_t j)
{
    const Attention *a = f->a;
    b->member = head;
    load_queries(f, queries.first);
    load_output_gradients(f, queries.first);
    scores(f, queries.first);
    for (uint64_t i = queries.first; i < queries.end; i++) {
        const bool last = i + 1 == queries.end;
        Tile *q = f->q_right[i % 2];
        if (q != f->q[i % 2]) load(f->load, q, a->Q, i * a->Br);
        if (!last) load_queries(f, i + 1);
        probabilities(f, i, j);
        matmul_nt(f->mma, f->dp, f->d_o, f->v);           /* dP = dO_i V_jᵀ */
        matmul_tn_add(f->mma, f->dv, f->p, f->d_o_right); /* dV_j += Pᵀ dO_i */
        if (!last) load_output_gradients(f, i + 1);
        if (!last) scores(f, i + 1); /* while the threads compute dS */
        score_gradients(f, i);
        matmul_tn_add(f->mma, f->dk, f->ds_left, q);  /* dK_j += dSᵀ Q_i */
        matmul_nn(f->mma, f->dq, f->ds, f->k_for_dq); /* dQ_i += dS K_j */
        send_query_gradients(f, i);
    }
    b->member = 0;
}

/* Two CTAs work on the same query blocks: those that see a key of either. */
static BlockRange query_blocks_of(const Attention *a, uint64_t j)
{
    Attention pair = *a;
    if (!a->variant.two_ctas) return visible_query_blocks(a, j);
    pair.Bc *= 2;
    return visible_query_blocks(&pair, j / 2);
}

static void fa4_block(Block *b, const void *arguments, uint64_t j)
{
    const BackwardSums *sums = arguments;
    const Attention *a = sums->attention;
    const Fa4 f = declare(b, sums);
    const BlockRange queries = query_blocks_of(a, j);
    const uint32_t rows = live_keys(a, j), d = (uint32_t)a->shape.head_dim;
    fill(f.compute, f.dk, rows, d, 0.0);
    fill(f.compute, f.dv, rows, d, 0.0);
    if (queries.first < queries.end && group_size(a) > 0) {
        load(f.load, f.k, a->K, j * a->Bc);
        load(f.load, f.v, a->V, j * a->Bc);
        if (f.k_for_dq != f.k) load(f.load, f.k_for_dq, a->K, j * a->Bc);
        for (uint64_t head = 0; head < group_size(a); head++) gather_head(&f, b, queries, head, j);
    }
    scale(f.compute, f.dk, a->shape.softmax_scale);
    store(f.compute, a->dK, j * a->Bc, f.dk);
    store(f.compute, a->dV, j * a->Bc, f.dv);
}

/* -------------------------------------------------------------------------------------------------------------- launches */

static bool can_pair(const Machine *machine, const Attention *a)
{
    const AttentionShape *s = &a->shape;
    if (a->Br % 2 == 0 && s->seqlen_q % a->Br == 0 && s->seqlen_k % (2 * (uint64_t)a->Bc) == 0) return true;
    return status_fail(machine->status, STATUS_INFEASIBLE,
                       "fa4: two CTAs need whole tiles: %" PRIu64 " queries in blocks of %u, %" PRIu64
                       " keys in pairs of blocks of %u",
                       s->seqlen_q, a->Br, s->seqlen_k, a->Bc);
}

bool fa4_backward(Machine *machine, Attention *a)
{
    const BackwardGeometry geometry = fa4_backward_geometry();
    const Kernel kernel = {.instruction = TENSOR_TCGEN05,
                           .shape = geometry.scores,
                           .threads = geometry.threads,
                           .registers_per_thread = geometry.registers_per_thread,
                           .run = fa4_block};
    if (a->variant.two_ctas && !can_pair(machine, a)) return false;
    return backward_with_sums(machine, a, "fa4", (BackwardNames){"fa4_bwd_dot", "fa4_bwd", "fa4_bwd_convert"}, kernel);
}

TileSize fa4_backward_tiles(const AttentionShape *s)
{
    (void)s;
    return (TileSize){128, 128};
}

/* One tcgen05 instruction: 128 x 128 of the result. */
BackwardGeometry fa4_backward_geometry(void)
{
    const InstructionShape shape = {.m = 128, .n = 128};
    return (BackwardGeometry){.threads = 32 * WARPS,
                              .registers_per_thread = REGISTERS,
                              .scores = shape,
                              .key_gradients = shape,
                              .query_gradients = shape};
}
