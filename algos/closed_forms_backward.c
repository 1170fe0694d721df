/* closed_forms_backward.c - every count of the backward passes as a formula. See closed_forms.h.
 *
 * The sums over executed block pairs are those of the forward pass (closed_forms.c, steps 1 and 2). Two things are new: launches
 * whose blocks belong to K/V heads instead of query heads (a group's dK and dV are summed inside a block), and additions at L2.
 * Per query head: what an executed pair costs. Per K/V head: what a key block costs, seen or not, because dK and dV are always
 * written. Lecture §2.6-2.8.
 */
#include "closed_forms_internal.h"

/* The same account for launches with one row of blocks per K/V head. */
static Account per_kv_head(const Account *a)
{
    Account keys = *a;
    keys.heads = a->kv_heads;
    return keys;
}

/* Additions into rows of an operand: twice an element (read and written) at L2. An ideal L2 fetches and writes back a row once;
 * without L2 they are no HBM traffic of the launch but stand in atomic_elements alone. */
static void atomic_adds(const Account *a, const Operand *x, uint64_t asked_rows, uint64_t fresh_rows)
{
    ClosedForm *f = a->form;
    const uint64_t asked = checked_mul(checked_mul(a->heads, asked_rows, x->name, a->status), x->cols, x->name, a->status);
    const uint64_t fresh = checked_mul(checked_mul(x->heads, fresh_rows, x->name, a->status), x->cols, x->name, a->status);
    f->atomic_elements = checked_add(f->atomic_elements, checked_mul(2, asked, x->name, a->status), x->name, a->status);
    f->sm_to_l2_bytes = checked_add(f->sm_to_l2_bytes, checked_mul(asked, x->bytes, x->name, a->status), x->name, a->status);
    if (!a->problem->ideal_l2) return;
    const uint64_t bytes = checked_mul(fresh, x->bytes, x->name, a->status);
    f->hbm_read_elements = checked_add(f->hbm_read_elements, fresh, x->name, a->status);
    f->hbm_read_bytes = checked_add(f->hbm_read_bytes, bytes, x->name, a->status);
    f->hbm_write_elements = checked_add(f->hbm_write_elements, fresh, x->name, a->status);
    f->hbm_write_bytes = checked_add(f->hbm_write_bytes, bytes, x->name, a->status);
}

/* `products` matrix products of 2 r c d FLOPs; a visible pair has its share of each. */
static void matmuls(const Account *a, uint64_t products)
{
    count(a, &a->form->matmul_flops, "matmul_flops", 2 * products, a->sums.area, a->d);
    count(a, &a->form->matmul_flops_exact_mask, "matmul_flops_exact_mask", 2 * products, a->visible, a->d);
}

/* ---------------------------------------------------------------------------------------------------- FlashAttention-2 */

/* P and dS of every executed pair, from L and D, and the three gradients from them; P and dS go through shared memory, because dV
 * and dK need them transposed. */
static void tile_work(const Account *a, const CountedBackward *b)
{
    const PairSums *s = &a->sums;
    const uint64_t e = a->problem->element_bytes;
    if (s->pairs == 0) return;
    CountedProblem gradients = *a->problem;                     /* left_reads: of dV, dK; right_reads: of dQ */
    gradients.shape_n = b->key_m;
    gradients.shape_m = b->query_m;
    const PairSums g = pair_sums(&gradients, true, a->status);

    matmuls(a, 5);
    exponentials(a, 1, s->area, 1);
    nonmatmul(a, 5, s->area, 1);        /* scale 1, subtract and exp 2, dP - D 1, P o 1 */
    drop_scores(a);                     /* P; and dP, with the same mask */
    if (a->problem->dropout) nonmatmul(a, 1, s->area, 1);

    operand_reads(a, 2 * e, s->left_reads, a->d);               /* S = Q Kᵀ, dP = dO Vᵀ: Q and dO, K and V */
    operand_reads(a, 2 * e, s->right_reads, a->d);
    operand_reads(a, 2 * e, s->area, groups(a->d, b->key_n));   /* dV = Pᵀ dO, dK = dSᵀ Q */
    operand_reads(a, 2 * e, g.left_reads, a->d);
    operand_reads(a, e, s->area, groups(a->d, b->query_n));     /* dQ = dS K */
    operand_reads(a, e, g.right_reads, a->d);
    thread_touches(a, 2 * e, s->area, 1);                       /* P and dS written */
}

/* D = rowsum(dO o O), a launch of its own. */
static void dot(const Account *a)
{
    loads(a, &a->O, 2 * a->Nq, 2 * a->Nq);      /* O, dO */
    stores(a, &a->L, a->Nq, a->Nq);             /* D */
    nonmatmul(a, 2, a->Nq, a->d);
}

/* Where dQ is added up: in float32 sums, one per split, cleared with D and converted by a last launch; or in dQ itself, cleared
 * by a first one. */
static void query_sums(const Account *a, const CountedBackward *b)
{
    const CountedProblem *p = a->problem;
    const uint64_t splits = b->direct_dq ? 1 : max_u64(b->splits, 1);
    const Operand sums = {"dQ sums", a->heads, p->d, b->direct_dq ? p->element_bytes : p->statistic_bytes};
    const uint64_t rows = checked_mul(splits, a->Nq, sums.name, a->status);
    stores(a, &sums, rows, rows);
    atomic_adds(a, &sums, a->sums.rows, a->sums.pairs > 0 ? rows_of_splits(p, splits, a->status) : 0);
    if (b->direct_dq) {
        nonmatmul(a, 1, a->sums.rows, a->d);                    /* scaled before it is added */
        return;
    }
    loads(a, &sums, rows, rows);
    stores(a, &a->Q, a->Nq, a->Nq);
    nonmatmul(a, splits, a->Nq, a->d);                          /* splits - 1 additions, scale 1 */
}

static void key_blocks_outside(const Account *a, const CountedBackward *b)
{
    const PairSums *s = &a->sums;
    const Account keys = per_kv_head(a);
    const uint64_t e = a->problem->element_bytes;

    query_sums(a, b);
    loads(&keys, &a->K, s->seen_keys, s->seen_keys);            /* line 7: K_j, V_j of every key block that is seen */
    loads(&keys, &a->V, s->seen_keys, s->seen_keys);
    loads(a, &a->Q, s->rows, s->seeing_rows);                   /* line 9: Q_i, dO_i, L_i, D_i per executed pair */
    loads(a, &a->O, s->rows, s->seeing_rows);
    loads(a, &a->L, s->rows, s->seeing_rows);
    loads(a, &a->L, s->rows, s->seeing_rows);
    stores(&keys, &a->K, a->Nk, a->Nk);                         /* line 18: dK_j, dV_j of every key block */
    stores(&keys, &a->V, a->Nk, a->Nk);

    nonmatmul(a, 2, s->keys, a->d);                             /* added into dV, dK */
    nonmatmul(&keys, 1, a->Nk, a->d);                           /* dK scaled */
    copies(&keys, 2 * e, s->seen_keys, a->d);
    copies(a, 2 * e, s->rows, a->d);
}

/* dQ_i on chip, dK and dV added into float32 sums, which one launch clears and another converts. */
static void query_blocks_outside(const Account *a)
{
    const PairSums *s = &a->sums;
    const Account keys = per_kv_head(a);
    const uint64_t e = a->problem->element_bytes;
    const Operand sums = {"dK, dV sums", a->kv_heads, a->d, a->problem->statistic_bytes};

    stores(&keys, &sums, 2 * a->Nk, 2 * a->Nk);
    loads(a, &a->Q, s->seeing_rows, s->seeing_rows);
    loads(a, &a->O, s->seeing_rows, s->seeing_rows);
    loads(a, &a->L, 2 * s->seeing_rows, 2 * s->seeing_rows);
    loads(a, &a->K, s->keys, s->seen_keys);
    loads(a, &a->V, s->keys, s->seen_keys);
    atomic_adds(a, &sums, s->keys, s->seen_keys);
    atomic_adds(a, &sums, s->keys, s->seen_keys);
    stores(a, &a->Q, a->Nq, a->Nq);
    loads(&keys, &sums, 2 * a->Nk, 2 * a->Nk);
    stores(&keys, &a->K, a->Nk, a->Nk);
    stores(&keys, &a->V, a->Nk, a->Nk);

    nonmatmul(a, 1, s->rows, a->d);                             /* added into dQ */
    nonmatmul(a, 1, a->Nq, a->d);                               /* dQ, dK scaled */
    nonmatmul(&keys, 1, a->Nk, a->d);
    copies(a, 2 * e, s->seeing_rows, a->d);
    copies(a, 2 * e, s->keys, a->d);
}

bool closed_form_fa2_backward(const CountedBackward *b, ClosedForm *form, Status *status)
{
    const Account a = open_account(&b->problem, true, form, status);
    dot(&a);
    tile_work(&a, b);
    if (b->query_blocks_outside) query_blocks_outside(&a);
    else key_blocks_outside(&a, b);
    return status_ok(status);
}

/* ------------------------------------------------------------------------------------------------------------ standard */

/* C = Aᵀ B with A of N_q x N_k and B of N_q x d, for every key block: dV = Pᵀ dO, dK = dSᵀ Q. A and B come through shared
 * memory. */
static void transposed_product(const Account *a, const Operand *scores)
{
    const PairSums *s = &a->sums;
    const uint64_t e = a->problem->element_bytes;
    const Account keys = per_kv_head(a);
    CountedProblem by_keys = *a->problem;                       /* left_reads: rows of B, once per group of m keys */
    by_keys.shape_n = a->problem->shape_m;
    loads(a, scores, a->Nq, a->Nq);
    loads(a, &a->Q, s->rows, s->seeing_rows);
    stores(&keys, &a->K, a->Nk, a->Nk);
    copies(a, e, s->area, 1);
    copies(a, e, s->rows, a->d);
    operand_reads(a, e, s->area, groups(a->d, a->problem->shape_n));
    if (s->pairs > 0) operand_reads(a, e, pair_sums(&by_keys, false, a->status).left_reads, a->d);
}

/* Algorithm 3: five launches over the full matrix. Rows of P and dP that do not fit on chip are read twice: for D, in `parts` of
 * a row, and for dS. */
bool closed_form_standard_backward(const CountedBackward *b, ClosedForm *form, Status *status)
{
    const CountedProblem *p = &b->problem;
    const Account a = open_account(p, false, form, status), keys = per_kv_head(&a);
    const PairSums *s = &a.sums;
    const uint64_t e = p->element_bytes;
    const bool whole_rows = p->softmax_cols >= p->Nk;
    const uint64_t parts = whole_rows ? 0 : ceil_div(a.Nk, max_u64(p->softmax_cols, 1)), times_read = whole_rows ? 1 : 2;
    const Operand P = {"P", a.heads, a.Nk, e}, dP = {"dP", a.heads, a.Nk, e}, dS = {"dS", a.heads, a.Nk, e};
    matmuls(&a, 4);

    transposed_product(&a, &P);                                 /* kernel 1: dV */
    drop_scores(&a);
    if (p->dropout) thread_touches(&a, 2 * e, s->area, 1);      /* of P, in place in shared memory */

    loads(&a, &a.O, s->seeing_rows, s->seeing_rows);            /* kernel 2: dO once, V once per query block, dP written */
    loads(&a, &a.V, s->keys, s->seen_keys);
    stores(&a, &dP, a.Nq, a.Nq);
    copies(&a, e, s->seeing_rows, a.d);
    copies(&a, e, s->keys, a.d);
    operand_reads(&a, e, s->left_reads, a.d);
    operand_reads(&a, e, s->right_reads, a.d);
    drop_scores(&a);

    loads(&a, &P, times_read * a.Nq, a.Nq);                     /* kernel 3, in shared memory: dS = P o (dP - D) */
    loads(&a, &dP, times_read * a.Nq, a.Nq);
    stores(&a, &dS, a.Nq, a.Nq);
    copies(&a, (2 * times_read + 1) * e, a.Nq, a.Nk);
    nonmatmul(&a, 4, a.Nq, a.Nk);                               /* D 2, subtracted 1, P o 1 */
    nonmatmul(&a, 1, a.Nq, parts);                              /* D of a long row: a part's sum added 1 */
    thread_touches(&a, 7 * e, a.Nq, a.Nk);                      /* D 2, subtracted in place 2, P o in place 3 */

    loads(&a, &dS, a.Nq, a.Nq);                                 /* kernel 4: dQ; K once per query block */
    loads(&a, &a.K, s->keys, s->seen_keys);
    stores(&a, &a.Q, a.Nq, a.Nq);
    copies(&a, e, s->area, 1);
    copies(&a, e, s->keys, a.d);
    operand_reads(&a, e, s->area, groups(p->d, p->shape_n));
    operand_reads(&a, e, s->right_reads, a.d);
    nonmatmul(&a, 1, a.Nq, a.d);                                /* dQ scaled */

    transposed_product(&a, &dS);                                /* kernel 5: dK */
    nonmatmul(&keys, 1, a.Nk, a.d);                             /* dK scaled */
    return status_ok(status);
}
