/* standard_backward.c - standard attention, backward pass. Dao et al. 2022, arXiv:2205.14135, Algorithm 3. Lecture §2.7.
 *
 *     1  dV = Pᵀ dO                          reads P, dO        writes dV
 *     2  dP = dO Vᵀ                          reads dO, V        writes dP (N x N)
 *     3  dS = P o (dP - rowsum(P o dP))      reads P, dP        writes dS (N x N)
 *     4  dQ = scale dS K                     reads dS, K        writes dQ
 *     5  dK = scale dSᵀ Q                    reads dS, Q        writes dK            8Nd + 7N² in all
 *
 * P is the one that the forward wrote. Under an ideal L2 each operand is counted once per kernel. A mask saves nothing; hidden elements of dP are
 * written as 0. With dropout the stored mask is applied where P and dP are used. Row sums hold whole rows on chip; rows too long are read twice.
 */
#include "algorithm.h"

typedef struct {
    Attention *attention;
    Tensor *dP, *dS;
    uint32_t strip_rows, strip_cols;        /* the part of P and dP that a block of kernel 3 holds */
} StandardBackward;

/* C += Aᵀ B over all query blocks and all query heads of the group: kernels 1 and 5. */
static void gather_rows(Stream *w, const Attention *a, Tensor *scores, Tensor *queries, bool dropped, Tile *x, Tile *y, Tile *sum, uint64_t j)
{
    Block *b = w->block;
    Tile *z = dropped ? keep_tile(b, a, a->Br) : NULL;
    fill(w, sum, live_keys(a, j), (uint32_t)a->shape.head_dim, 0.0);
    for (uint64_t head = 0; head < group_size(a); head++) {
        b->member = head;
        for (uint64_t i = 0; i < query_blocks(a); i++) {
            load_part(w, x, scores, i * a->Br, j * a->Bc);
            declare_masked(w, x, i * a->Br, j * a->Bc, a->band);
            keep_or_load(w, a, z, x, i * a->Br, j * a->Bc);
            if (z != NULL) apply_dropout(w, x, x, z, a->shape.dropout.p);
            load(w, y, queries, i * a->Br);
            matmul_tn_continue(w, sum, x, y);
        }
    }
    b->member = 0;
}

static void dv_block(Block *b, const void *arguments, uint64_t j)
{
    const StandardBackward *f = arguments;
    const Attention *a = f->attention;
    const uint32_t d = (uint32_t)a->shape.head_dim;
    Stream *w = stream(b, "compute", b->kernel->threads / 32);
    Tile *p = shared_tile(b, "P", a->shape.dtype, a->Br, a->Bc), *d_o = shared_tile(b, "dO", a->shape.dtype, a->Br, d);
    Tile *dv = register_tile(b, "dV", a->statistic, a->Bc, d);
    gather_rows(w, a, a->P, a->dO, true, p, d_o, dv, j);
    store(w, a->dV, j * a->Bc, dv);
}

static void dp_block(Block *b, const void *arguments, uint64_t i)
{
    const StandardBackward *f = arguments;
    const Attention *a = f->attention;
    const uint32_t d = (uint32_t)a->shape.head_dim;
    Stream *w = stream(b, "compute", b->kernel->threads / 32);
    Tile *d_o = shared_tile(b, "dO", a->shape.dtype, a->Br, d), *v = shared_tile(b, "V", a->shape.dtype, a->Bc, d);
    Tile *dp = register_tile(b, "dP", a->statistic, a->Br, a->Bc), *z = keep_tile(b, a, a->Br);
    if (key_blocks(a) > 0) load(w, d_o, a->dO, i * a->Br);
    for (uint64_t j = 0; j < key_blocks(a); j++) {
        load(w, v, a->V, j * a->Bc);
        matmul_nt(w, dp, d_o, v);
        keep_or_load(w, a, z, dp, i * a->Br, j * a->Bc);
        if (z != NULL) apply_dropout(w, dp, dp, z, a->shape.dropout.p);
        mask_gradient(w, dp, i * a->Br, j * a->Bc, a->band);
        store_part(w, f->dP, i * a->Br, j * a->Bc, dp);
    }
}

/* dS = P o (dP - D) for a strip of rows that fits whole. */
static void ds_whole_rows(Stream *w, const StandardBackward *f, Tile *p, Tile *dp, Rows *D, uint64_t row)
{
    load(w, p, f->attention->P, row);
    load(w, dp, f->dP, row);
    row_dot(w, D, p, dp);
    subtract_rows(w, dp, D);
    multiply(w, dp, p);
    store(w, f->dS, row, dp);
}

/* Rows that do not fit: D first, dS in a second pass. */
static void ds_long_rows(Stream *w, const StandardBackward *f, Tile *p, Tile *dp, Rows *D, uint64_t row)
{
    const Attention *a = f->attention;
    Rows *part = row_vector(w->block, "part", D->type, f->strip_rows);
    fill(w, D, (uint32_t)min_u64(f->strip_rows, a->shape.seqlen_q - row), 1, 0.0);
    for (uint64_t col = 0; col < a->shape.seqlen_k; col += f->strip_cols) {
        load_part(w, p, a->P, row, col);
        load_part(w, dp, f->dP, row, col);
        row_dot(w, part, p, dp);
        rows_add(w, D, part);
    }
    for (uint64_t col = 0; col < a->shape.seqlen_k; col += f->strip_cols) {
        load_part(w, p, a->P, row, col);
        load_part(w, dp, f->dP, row, col);
        subtract_rows(w, dp, D);
        multiply(w, dp, p);
        store_part(w, f->dS, row, col, dp);
    }
}

static void ds_block(Block *b, const void *arguments, uint64_t i)
{
    const StandardBackward *f = arguments;
    const Attention *a = f->attention;
    Stream *w = stream(b, "compute", b->kernel->threads / 32);
    Tile *p = shared_tile(b, "P", a->shape.dtype, f->strip_rows, f->strip_cols), *dp = shared_tile(b, "dP", a->shape.dtype, f->strip_rows, f->strip_cols);
    Rows *D = row_vector(b, "D", a->statistic, f->strip_rows);
    if (a->shape.seqlen_k == 0) return;
    if (f->strip_cols == a->shape.seqlen_k) ds_whole_rows(w, f, p, dp, D, i * f->strip_rows);
    else ds_long_rows(w, f, p, dp, D, i * f->strip_rows);
}

static void dq_block(Block *b, const void *arguments, uint64_t i)
{
    const StandardBackward *f = arguments;
    const Attention *a = f->attention;
    const uint32_t d = (uint32_t)a->shape.head_dim;
    Stream *w = stream(b, "compute", b->kernel->threads / 32);
    Tile *ds = shared_tile(b, "dS", a->shape.dtype, a->Br, a->Bc), *k = shared_tile(b, "K", a->shape.dtype, a->Bc, d);
    Tile *dq = register_tile(b, "dQ", a->statistic, a->Br, d);
    fill(w, dq, live_rows(a, i), d, 0.0);
    for (uint64_t j = 0; j < key_blocks(a); j++) {
        load_part(w, ds, f->dS, i * a->Br, j * a->Bc);
        declare_masked(w, ds, i * a->Br, j * a->Bc, a->band);
        load(w, k, a->K, j * a->Bc);
        matmul_nn_continue(w, dq, ds, k);
    }
    scale(w, dq, a->shape.softmax_scale);
    store(w, a->dQ, i * a->Br, dq);
}

static void dk_block(Block *b, const void *arguments, uint64_t j)
{
    const StandardBackward *f = arguments;
    const Attention *a = f->attention;
    const uint32_t d = (uint32_t)a->shape.head_dim;
    Stream *w = stream(b, "compute", b->kernel->threads / 32);
    Tile *ds = shared_tile(b, "dS", a->shape.dtype, a->Br, a->Bc), *q = shared_tile(b, "Q", a->shape.dtype, a->Br, d);
    Tile *dk = register_tile(b, "dK", a->statistic, a->Bc, d);
    gather_rows(w, a, f->dS, a->Q, false, ds, q, dk, j);
    scale(w, dk, a->shape.softmax_scale);
    store(w, a->dK, j * a->Bc, dk);
}

bool standard_backward(Machine *machine, Attention *a)
{
    const AttentionShape *s = &a->shape;
    StandardBackward f = {.attention = a};
    if (a->P == NULL) a->P = machine_tensor(machine, "P", s->dtype, s->batch, s->heads, s->seqlen_q, s->seqlen_k);
    f.dP = machine_tensor(machine, "dP", s->dtype, s->batch, s->heads, s->seqlen_q, s->seqlen_k);
    f.dS = machine_tensor(machine, "dS", s->dtype, s->batch, s->heads, s->seqlen_q, s->seqlen_k);
    standard_strip(machine->profile->smem_bytes_per_block / 2, s, &f.strip_rows, &f.strip_cols);
    const Kernel dv = attention_kernel(&algorithm_standard, "standard_dv", a, dv_block);
    const Kernel dp = attention_kernel(&algorithm_standard, "standard_dp", a, dp_block);
    const Kernel ds = attention_kernel(&algorithm_standard, "standard_ds", a, ds_block);
    const Kernel dq = attention_kernel(&algorithm_standard, "standard_dq", a, dq_block);
    const Kernel dk = attention_kernel(&algorithm_standard, "standard_dk", a, dk_block);
    const Grid strips = {ceil_div(s->seqlen_q, f.strip_rows), s->heads, s->batch};
    return launch(machine, &dv, one_block_per_key_block(a), &f) && launch(machine, &dp, one_block_per_query_block(a), &f) &&
           launch(machine, &ds, strips, &f) && launch(machine, &dq, one_block_per_query_block(a), &f) &&
           launch(machine, &dk, one_block_per_key_block(a), &f);
}
