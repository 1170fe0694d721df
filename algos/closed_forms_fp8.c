/* closed_forms_fp8.c - every count of FlashAttention-3 as a formula, FP8 included. See closed_forms.h; closed_forms.c explains
 * the sums. Lecture §4.4.
 *
 * With two-byte operands it counts what FlashAttention-2 does. FP8 adds: V read and written once more in shared memory per
 * tile, scales, some operations per row, and (unless it is fused into what came before) the pass that rotates and rounds. At N
 * = 8192, d = 128, one head: rotation 2 x 896 additions per token, against 16,384 x 128 x 2 FLOPs of both products per token.
 */
#include "closed_forms_internal.h"

enum { SCALE_BYTES = 4 };

/* Scales: read once per query block, or with each K and V tile. */
static void load_scales(const Account *a)
{
    const CountedProblem *p = a->problem;
    const PairSums *s = &a->sums;
    const Operand sQ = {"sQ", a->heads, 1, SCALE_BYTES}, sK = {"sK", a->kv_heads, 1, SCALE_BYTES}, sV = {"sV", a->kv_heads, 1, SCALE_BYTES};
    if (s->pairs == 0 || p->fp8.scales == COUNTED_SCALE_NONE) return;
    CountedProblem one_key_block = *p, one_query_block = *p;
    one_key_block.Bc = p->Nk;
    one_query_block.Br = p->Nq;
    const uint64_t query_blocks = pair_sums(&one_key_block, true, a->status).pairs;
    const uint64_t key_blocks = pair_sums(&one_query_block, true, a->status).pairs;
    if (p->fp8.scales == COUNTED_SCALE_TENSOR) {
        loads(a, &sQ, query_blocks, 1);
        loads(a, &sK, query_blocks, 1);
        loads(a, &sV, query_blocks, 1);
        copies(a, 3 * SCALE_BYTES, query_blocks, 1);
        return;
    }
    const bool by_row = p->fp8.scales == COUNTED_SCALE_ROW;
    loads(a, &sQ, by_row ? s->seeing_rows : query_blocks, by_row ? s->seeing_rows : query_blocks);
    loads(a, &sK, by_row ? s->keys : s->pairs, by_row ? s->seen_keys : key_blocks);
    loads(a, &sV, s->pairs, key_blocks);
    copies(a, SCALE_BYTES, s->pairs, 1);                            /* of V */
    copies(a, SCALE_BYTES, by_row ? s->keys : s->pairs, 1);         /* of K */
    copies(a, SCALE_BYTES, by_row ? s->seeing_rows : query_blocks, 1);  /* of Q */
    if (!by_row) return;
    thread_touches(a, SCALE_BYTES, s->rows, 1);                     /* each consumer multiplies its rows ... */
    thread_touches(a, SCALE_BYTES, s->right_reads, 1);              /* ... and its columns */
}

/* One operand of `rows` rows per head, in blocks. */
static void round_operand(const Account *a, uint64_t heads, uint64_t rows, uint64_t block_rows, bool rotated, CountedScales scales)
{
    const CountedFp8 *f = &a->problem->fp8;
    const uint64_t d = a->d, blocks = ceil_div(rows, block_rows);
    const Operand from = {"the operand", heads, d, f->source_bytes}, codes = {"codes", heads, d, a->problem->element_bytes};
    const Operand scale = {"scales", heads, 1, SCALE_BYTES};
    Account x = *a;
    x.heads = heads;
    if (rows == 0) return;
    loads(&x, &from, rows, rows);
    stores(&x, &codes, rows, rows);
    if (rotated) nonmatmul(&x, f->stages, rows, d);
    if (scales == COUNTED_SCALE_NONE) return;
    nonmatmul(&x, 2, rows, d);                                      /* maximum 1, scale 1 */
    if (scales != COUNTED_SCALE_TENSOR) {
        const uint64_t count = scales == COUNTED_SCALE_ROW ? rows : blocks;
        stores(&x, &scale, count, count);
        return;
    }
    loads(&x, &from, rows, rows);                                   /* once more: the first time only for its maximum */
    if (rotated) nonmatmul(&x, f->stages, rows, d);
    stores(&x, &scale, blocks, blocks);                             /* maxima of blocks, and their maximum */
    loads(&x, &scale, blocks, blocks);
    nonmatmul(&x, 1, blocks, 1);
    nonmatmul(&x, 1, ceil_div(blocks, f->maxima_at_once), 1);
    stores(&x, &scale, 1, 1);
    loads(&x, &scale, blocks, 1);
    stores(&x, &scale, 1, 1);                                       /* 1/s */
}

static void prepass(const Account *a)
{
    const CountedProblem *p = a->problem;
    const CountedFp8 *f = &p->fp8;
    if (!f->codes || !f->prepass) return;
    round_operand(a, a->heads, a->Nq, p->Br, f->rotate_qk, f->scales);
    round_operand(a, a->kv_heads, a->Nk, p->Bc, f->rotate_qk, f->scales);
    round_operand(a, a->kv_heads, a->Nk, p->Bc, f->rotate_v, f->scales == COUNTED_SCALE_ROW ? COUNTED_SCALE_BLOCK : f->scales);
}

bool closed_form_fa3(const CountedProblem *p, ClosedForm *form, Status *status)
{
    const CountedFp8 *f = &p->fp8;
    if (!closed_form_fa2(p, form, status)) return false;
    if (!f->operands) return true;
    ClosedForm empty;
    Account a = open_account(p, true, &empty, status);
    const PairSums *s = &a.sums;
    const bool per_tile = f->scales == COUNTED_SCALE_BLOCK || f->scales == COUNTED_SCALE_ROW;
    a.form = form;

    count(&a, &form->sm_to_l2_bytes, "O", f->source_bytes - p->element_bytes, a.Nq, a.d);       /* O is wider than the operands */
    count(&a, &form->hbm_write_bytes, "O", f->source_bytes - p->element_bytes, a.Nq, a.d);
    thread_touches(&a, 2 * p->element_bytes, s->keys, a.d);         /* V transposed */
    load_scales(&a);
    nonmatmul(&a, 1, s->rows, 1);                                   /* the reference of P */
    if (per_tile) nonmatmul(&a, 1, s->rows, 1);                     /* alpha in units of the next V */
    if (f->scales == COUNTED_SCALE_ROW) nonmatmul(&a, 2, s->area, 1);   /* S by rows and columns */
    nonmatmul(&a, f->scales == COUNTED_SCALE_NONE ? 1 : 2, a.Nq, 1);    /* L's reference; l / s_V */
    if (f->rotate_v) nonmatmul(&a, f->stages, a.Nq, a.d);           /* O back */
    prepass(&a);
    return status_ok(status);
}
