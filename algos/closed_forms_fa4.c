/* closed_forms_fa4.c - every count of FlashAttention-4 as a formula. See closed_forms.h; closed_forms.c explains the sums.
 * Lecture §5.1, §5.4.
 *
 * The forward pass moves what FlashAttention-2's does; O goes through shared memory on its way out. The backward pass differs in
 * what shared memory sees: P never goes there, dS once, dQ in float32. Per 128 x 128 tile at d = 128, in cycles of 128 bytes: 768
 * forward; backward 2048 operands + 256 dS
 * + 1024 dQ with one CTA, 1536 + 256 + 512 per CTA with two (without their exchange). FlashAttention-3's backward touches the same
 * things as one CTA; its warpgroups' wgmma reads operands more often: 3328 + 256 + 1024.
 */
#include "closed_forms_internal.h"

bool closed_form_fa4(const CountedProblem *p, ClosedForm *form, Status *status)
{
    ClosedForm empty;
    Account a = open_account(p, true, &empty, status);
    if (!closed_form_fa2(p, form, status)) return false;
    a.form = form;
    thread_touches(&a, p->element_bytes, a.Nq, a.d); /* O written to shared memory, and stored from there */
    copies(&a, p->element_bytes, a.Nq, a.d);
    form->exp_ops -= p->kept_references;                       /* no alpha ... */
    form->nonmatmul_ops -= p->kept_references * (a.d + 3);     /* ... 2, l + sum for alpha l + sum 1, O not rescaled d */
    return status_ok(status);
}

/* Additions into the float32 sums of dQ: twice an element; an ideal L2 fetches and writes back each row once
 * (closed_forms_backward.c). */
static void add_query_gradients(const Account *a, const Operand *sums)
{
    ClosedForm *f = a->form, moved = {0};
    Account adds = *a;
    adds.form = &moved;
    stores(&adds, sums, a->sums.rows, a->sums.pairs > 0 ? a->sums.seeing_rows : 0);
    const uint64_t elements = moved.sm_to_l2_bytes / sums->bytes;
    f->sm_to_l2_bytes = checked_add(f->sm_to_l2_bytes, moved.sm_to_l2_bytes, sums->name, a->status);
    f->atomic_elements = checked_add(f->atomic_elements, checked_mul(2, elements, sums->name, a->status), sums->name, a->status);
    if (!a->problem->ideal_l2) return;
    f->hbm_read_elements = checked_add(f->hbm_read_elements, moved.hbm_write_elements, sums->name, a->status);
    f->hbm_read_bytes = checked_add(f->hbm_read_bytes, moved.hbm_write_bytes, sums->name, a->status);
    f->hbm_write_elements = checked_add(f->hbm_write_elements, moved.hbm_write_elements, sums->name, a->status);
    f->hbm_write_bytes = checked_add(f->hbm_write_bytes, moved.hbm_write_bytes, sums->name, a->status);
}

/* D, clearing and converting the sums. */
static void before_and_after(const Account *a, const Operand *sums)
{
    loads(a, &a->O, 2 * a->Nq, 2 * a->Nq); /* O, dO */
    stores(a, &a->L, a->Nq, a->Nq);        /* D */
    stores(a, sums, a->Nq, a->Nq);
    loads(a, sums, a->Nq, a->Nq);
    stores(a, &a->Q, a->Nq, a->Nq);
    nonmatmul(a, 3, a->Nq, a->d); /* D 2; dQ scaled 1 */
}

/* What instructions read from shared memory. Of Q and dO two CTAs read half each; their two key blocks are one of twice the keys
 * in the sums. */
static void operands(const Account *a, const CountedBackward *b)
{
    const PairSums *s = &a->sums;
    const CountedProblem *p = a->problem;
    const uint64_t e = p->element_bytes, Bc = b->problem.Bc;
    CountedProblem gradients = *p;
    gradients.shape_n = b->key_m;
    gradients.shape_m = b->query_m;
    const PairSums g = pair_sums(&gradients, true, a->status);
    operand_reads(a, 2 * e, b->two_ctas ? checked_mul(s->rows, groups(Bc, p->shape_n), "rows", a->status) : s->left_reads,
                  a->d); /* S = Q Kᵀ, dP = dO Vᵀ: Q and dO, K and V */
    operand_reads(a, 2 * e, s->right_reads, a->d);
    operand_reads(a, 2 * e, b->two_ctas ? checked_mul(s->rows, groups(Bc, b->key_m), "rows", a->status) : g.left_reads,
                  a->d);                                    /* dV = Pᵀ dO, dK = dSᵀ Q: dO and Q */
    operand_reads(a, e, s->area, groups(a->d, b->query_n)); /* dQ = dS K */
    operand_reads(a, e, g.right_reads, a->d);
}

bool closed_form_fa4_backward(const CountedBackward *b, ClosedForm *form, Status *status)
{
    CountedProblem pair = b->problem;
    if (b->two_ctas) pair.Bc = checked_mul(pair.Bc, 2, "keys of two CTAs", status);
    const Account a = open_account(&pair, true, form, status);
    const PairSums *s = &a.sums;
    Account keys = a;
    keys.heads = a.kv_heads;
    const uint64_t e = pair.element_bytes, t = pair.statistic_bytes, ctas = b->two_ctas ? 2 : 1;
    const Operand sums = {"dQ sums", a.heads, a.d, t};

    before_and_after(&a, &sums);
    loads(&keys, &a.K, ctas * s->seen_keys, s->seen_keys); /* two CTAs need K in two cuts */
    loads(&keys, &a.V, s->seen_keys, s->seen_keys);
    loads(&a, &a.Q, ctas * s->rows, s->seeing_rows); /* each of two CTAs: two halves of Q, of dO, all of L and D */
    loads(&a, &a.O, ctas * s->rows, s->seeing_rows);
    loads(&a, &a.L, ctas * s->rows, s->seeing_rows);
    loads(&a, &a.L, ctas * s->rows, s->seeing_rows);
    add_query_gradients(&a, &sums);
    stores(&keys, &a.K, a.Nk, a.Nk);
    stores(&keys, &a.V, a.Nk, a.Nk);

    count(&a, &form->matmul_flops, "matmul_flops", 10, s->area, a.d);
    count(&a, &form->matmul_flops_exact_mask, "matmul_flops_exact_mask", 10, a.visible, a.d);
    exponentials(&a, 1, s->area, 1);
    nonmatmul(&a, 5, s->area, 1); /* scale 1, subtract and exp 2, dP - D 1, P o 1 */
    drop_scores(&a);              /* P; and dP, with the same mask */
    if (pair.dropout) nonmatmul(&a, 1, s->area, 1);
    nonmatmul(&a, 2, s->keys, a.d); /* added into dV, dK */
    nonmatmul(&keys, 1, a.Nk, a.d); /* dK scaled */

    if (s->pairs > 0) operands(&a, b);
    thread_touches(&a, e, s->area, 1);   /* dS */
    thread_touches(&a, t, s->rows, a.d); /* dQ, and read back by the copies */
    copies(&a, t, s->rows, a.d);
    copies(&keys, (1 + ctas) * e, s->seen_keys, a.d);
    copies(&a, 2 * ctas * e, s->rows, a.d);
    return status_ok(status);
}
