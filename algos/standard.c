/* standard.c - standard attention as its three kernels. Dao et al. 2022, Algorithm 0. Lecture §1.4.
 *
 *     1  S = scale Q Kᵀ, masked      reads Q, K      writes S (N x N)
 *     2  P = softmax(S)              reads S         writes P (N x N)
 *     3  O = P V                     reads P, V      writes O                4Nd + 4N² in all
 *
 * Under an ideal L2 each operand is counted once per kernel, as the paper does; without L2 the tiled products also show their re-reads (K and V
 * once per query block). A mask saves nothing: all of S is computed, then -inf is written over the hidden part (§2.5). The scale rides
 * on the first product as a GEMM's alpha. The softmax holds whole rows on chip; rows too long for that are read twice.
 * Keeps no L. Left out: splitting d over several passes.
 */
#include "algorithm.h"

typedef struct {
    Attention *attention;
    Tensor *S;
    uint32_t softmax_rows, softmax_cols;        /* the part of S that a softmax block holds */
} Standard;

static void qk_block(Block *b, const void *arguments, uint64_t i)
{
    const Standard *f = arguments;
    const Attention *a = f->attention;
    const uint32_t Br = a->Br, Bc = a->Bc, d = (uint32_t)a->shape.head_dim;
    Stream *w = stream(b, "compute", b->kernel->threads / 32);
    Tile *q = shared_tile(b, "Q", a->shape.dtype, Br, d), *k = shared_tile(b, "K", a->shape.dtype, Bc, d);
    Tile *s = register_tile(b, "S", a->statistic, Br, Bc);

    if (key_blocks(a) > 0) load(w, q, a->Q, i * Br);
    for (uint64_t j = 0; j < key_blocks(a); j++) {
        load(w, k, a->K, j * Bc);
        matmul_nt_scaled(w, s, q, k, a->shape.softmax_scale);
        mask(w, s, i * Br, j * Bc, a->band);
        store_part(w, f->S, i * Br, j * Bc, s);
    }
}

/* Rows that fit: one read, one write. */
static void softmax_whole_rows(Stream *w, const Standard *f, Tile *s, Rows *m, Rows *l, uint64_t row)
{
    load(w, s, f->S, row);
    fill(w, m, s->rows, 1, -INFINITY);
    row_max(w, m, m, s);
    exp_rows(w, s, s, m);
    row_sum(w, l, s);
    divide_rows(w, s, l);
    store(w, f->attention->P, row, s);
}

/* Rows that do not fit: one pass for m and l (online), a second for P. */
static void softmax_long_rows(Stream *w, const Standard *f, Tile *s, Rows *m, Rows *l, uint64_t row)
{
    Block *b = w->block;
    const uint64_t Nk = f->attention->shape.seqlen_k;
    Rows *m_new = row_vector(b, "m_new", m->type, f->softmax_rows), *alpha = row_vector(b, "alpha", m->type, f->softmax_rows);
    const uint32_t rows = (uint32_t)min_u64(f->softmax_rows, f->S->rows - row);
    fill(w, m, rows, 1, -INFINITY);
    fill(w, l, rows, 1, 0.0);
    for (uint64_t col = 0; col < Nk; col += f->softmax_cols) {
        load_part(w, s, f->S, row, col);
        row_max(w, m_new, m, s);
        rows_exp_difference(w, alpha, m, m_new);
        exp_rows(w, s, s, m_new);
        row_sum_scaled(w, l, alpha, s);
        Rows *const swap = m;
        m = m_new;
        m_new = swap;
    }
    for (uint64_t col = 0; col < Nk; col += f->softmax_cols) {
        load_part(w, s, f->S, row, col);
        exp_rows(w, s, s, m);
        divide_rows(w, s, l);
        store_part(w, f->attention->P, row, col, s);
    }
}

static void softmax_block(Block *b, const void *arguments, uint64_t i)
{
    const Standard *f = arguments;
    const Attention *a = f->attention;
    Stream *w = stream(b, "compute", b->kernel->threads / 32);
    Tile *s = shared_tile(b, "S", a->shape.dtype, f->softmax_rows, f->softmax_cols);
    Rows *m = row_vector(b, "m", a->statistic, f->softmax_rows), *l = row_vector(b, "l", a->statistic, f->softmax_rows);
    if (a->shape.seqlen_k == 0) return;
    if (f->softmax_cols == a->shape.seqlen_k) softmax_whole_rows(w, f, s, m, l, i * f->softmax_rows);
    else softmax_long_rows(w, f, s, m, l, i * f->softmax_rows);
}

static void pv_block(Block *b, const void *arguments, uint64_t i)
{
    const Standard *f = arguments;
    const Attention *a = f->attention;
    const uint32_t Br = a->Br, Bc = a->Bc, d = (uint32_t)a->shape.head_dim;
    Stream *w = stream(b, "compute", b->kernel->threads / 32);
    Tile *p = shared_tile(b, "P", a->shape.dtype, Br, Bc), *v = shared_tile(b, "V", a->shape.dtype, Bc, d);
    Tile *o = register_tile(b, "O", a->statistic, Br, d), *z = keep_tile(b, a, a->Br);

    fill(w, o, live_rows(a, i), d, 0.0);
    for (uint64_t j = 0; j < key_blocks(a); j++) {
        load_part(w, p, f->attention->P, i * Br, j * Bc);
        declare_masked(w, p, i * Br, j * Bc, a->band);
        keep_or_load(w, a, z, p, i * a->Br, j * a->Bc);
        if (z != NULL) apply_dropout(w, p, p, z, a->shape.dropout.p);
        load(w, v, a->V, j * Bc);
        matmul_nn_continue(w, o, p, v);
    }
    store(w, a->O, i * Br, o);
}

static bool standard_forward(Machine *machine, Attention *a)
{
    const AttentionShape *s = &a->shape;
    Standard f = {.attention = a};
    f.S = machine_tensor(machine, "S", s->dtype, s->batch, s->heads, s->seqlen_q, s->seqlen_k);
    a->P = machine_tensor(machine, "P", s->dtype, s->batch, s->heads, s->seqlen_q, s->seqlen_k);
    standard_strip(machine->profile->smem_bytes_per_block, s, &f.softmax_rows, &f.softmax_cols);
    const Kernel qk = attention_kernel(&algorithm_standard, "standard_qk", a, qk_block);
    const Kernel softmax = attention_kernel(&algorithm_standard, "standard_softmax", a, softmax_block);
    const Kernel pv = attention_kernel(&algorithm_standard, "standard_pv", a, pv_block);
    const Grid rows = {ceil_div(s->seqlen_q, f.softmax_rows), s->heads, s->batch};
    return launch_keep_mask(machine, a, pv) && launch(machine, &qk, one_block_per_query_block(a), &f) && launch(machine, &softmax, rows, &f) &&
           launch(machine, &pv, one_block_per_query_block(a), &f);
}

static TileSize standard_tiles(const AttentionShape *s)
{
    (void)s;
    return (TileSize){128, 128};
}

static Geometry standard_geometry(const AttentionShape *s, TileSize tiles)
{
    (void)s;
    return (Geometry){.threads = 256, .registers_per_thread = 255, .shape = {(tiles.Br + 7) / 8, 0}};
}

const Algorithm algorithm_standard = {
    .name = "standard",
    .title = "Standard attention, three kernels",
    .source = "Dao et al. 2022, arXiv:2205.14135, Algorithm 0",
    .instruction = TENSOR_MMA_SYNC,
    .tiles = standard_tiles,
    .geometry = standard_geometry,
    .forward = standard_forward,
    .closed_form = closed_form_standard,
    .backward = standard_backward,
    .backward_tiles = standard_tiles,
    .backward_closed_form = closed_form_standard_backward,
};
