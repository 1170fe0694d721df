/* closed_forms_decode.c - every count of Flash-Decoding as a formula. See closed_forms.h; closed_forms.c explains the sums.
 * Lecture §6.
 *
 * Packed rows. Row r belongs to query r / g and sees the keys r / g + low .. r / g + high (r / g rounded down). Key j as g keys g
 * j .. g j + g - 1: then row r sees key block [first, last] iff r + g low .. r + g high meets [g first, g last + g - 1], without
 * rounding: a problem like any other with g times the keys, and what it says of keys is divided by g.
 *
 * Parts. A part is a block of ceil(Tc / s) Bc keys, and a query block loads Q for each part of which it sees a key: pairs of
 * query blocks with blocks of that size. The key block pairs themselves are those of the unsplit problem.
 */
#include "closed_forms_internal.h"

/* Heads, rows and keys as the launch has them. */
static bool stack(const CountedProblem *p, uint64_t g, CountedProblem *stacked, Status *status)
{
    *stacked = *p;
    if (g == 1) return true;
    const int64_t Nq = (int64_t)min_u64(p->Nq, INT64_MAX), Nk = (int64_t)min_u64(p->Nk, INT64_MAX), factor = (int64_t)g;
    stacked->heads = p->heads / g;
    stacked->Nq = checked_mul(p->Nq, g, "rows of a group", status);
    stacked->Nk = checked_mul(p->Nk, g, "keys of a group", status);
    stacked->Bc = checked_mul(p->Bc, g, "keys of a group", status);
    stacked->shape_n = checked_mul(p->shape_n, g, "keys of a group", status);
    if (!status_ok(status) || stacked->Nq > INT64_MAX || stacked->Nk > INT64_MAX) return status_ok(status);
    stacked->band_low = factor * (p->band_low < -Nq ? -Nq : p->band_low > Nk ? Nk : p->band_low);
    stacked->band_high = factor * (p->band_high < -Nq ? -Nq : p->band_high > Nk ? Nk : p->band_high);
    return true;
}

/* Rows x parts of which a query block sees a key. */
static uint64_t rows_of_parts(const CountedProblem *stacked, uint64_t splits, Status *status)
{
    CountedProblem parts = *stacked;
    const uint64_t key_blocks = ceil_div(stacked->Nk, stacked->Bc);
    parts.Bc = checked_mul(stacked->Bc, max_u64(ceil_div(key_blocks, splits), 1), "keys of a part", status);
    return status_ok(status) ? pair_sums(&parts, true, status).rows : 0;
}

/* The second kernel: all parts in, O and L out. */
static void combine(const Account *a, uint64_t splits)
{
    const uint64_t t = a->problem->statistic_bytes, merges = splits - 1;
    const uint64_t part_rows = checked_mul(splits, a->Nq, "rows of parts", a->status);
    const Operand parts = {"O parts", a->heads, a->d, t}, lse = {"L parts", a->heads, splits, t};
    stores(a, &parts, part_rows, part_rows);
    stores(a, &lse, a->Nq, a->Nq);
    loads(a, &parts, part_rows, part_rows);
    loads(a, &lse, a->Nq, a->Nq);
    if (a->problem->merged_by_tree) {
        nonmatmul(a, 6, merges, a->Nq);                                         /* max 1, two weights 2 each, their sum 1 */
        nonmatmul(a, checked_mul(4, merges, "merges", a->status), a->Nq, a->d); /* weighted 2, added 1, divided 1 */
        exponentials(a, 2, merges, a->Nq);
        return;
    }
    nonmatmul(a, 5, part_rows, 1);    /* max 1, exp of a difference 2, sum 1, weight 1 */
    nonmatmul(a, 2, part_rows, a->d); /* weighted 1, added 1 */
    exponentials(a, 1, part_rows, 1);
}

bool closed_form_decode(const CountedProblem *p, ClosedForm *form, Status *status)
{
    const uint64_t g = p->packed && p->kv_heads > 0 ? max_u64(p->heads / p->kv_heads, 1) : 1, splits = max_u64(p->splits, 1);
    CountedProblem stacked;
    *form = (ClosedForm){0};
    if (!stack(p, g, &stacked, status)) return false;
    Account a = open_account(&stacked, true, form, status);
    if (!status_ok(status)) return false;
    const PairSums *s = &a.sums;
    const uint64_t e = p->element_bytes, keys = s->keys / g, seen_keys = s->seen_keys / g, area = s->area / g;
    const uint64_t part_rows = checked_mul(splits, a.Nq, "rows of parts", status);
    const uint64_t query_rows = s->pairs > 0 ? rows_of_parts(&stacked, splits, status) : 0;
    if (a.Nq > 0)
        a.visible = checked_mul(g, visible_pairs(p->Nq, p->Nk, p->band_low, p->band_high, status), "visible pairs", status);

    loads(&a, &a.Q, query_rows, s->seeing_rows); /* once per part that sees a key */
    loads(&a, &a.K, keys, seen_keys);
    loads(&a, &a.V, keys, seen_keys);
    stores(&a, &a.O, a.Nq, a.Nq);
    stores(&a, &a.L, a.Nq, a.Nq);
    if (splits > 1) combine(&a, splits);

    count(&a, &form->matmul_flops, "matmul_flops", 4, area, a.d);
    count(&a, &form->matmul_flops_exact_mask, "matmul_flops_exact_mask", 4, a.visible, a.d);
    nonmatmul(&a, 5, area, 1);        /* scale 1, max 1, subtract and exp 2, sum 1 */
    nonmatmul(&a, 4, s->rows, 1);     /* alpha 2, alpha l + sum 2 */
    nonmatmul(&a, 2, s->rows, a.d);   /* O rescaled 1, P V added 1 */
    nonmatmul(&a, 1, part_rows, a.d); /* each part: O / l */
    exponentials(&a, 1, area, 1);
    exponentials(&a, 1, s->rows, 1);

    operand_reads(&a, e, s->left_reads, a.d);
    operand_reads(&a, 2 * e, s->right_reads / g, a.d);
    copies(&a, e, query_rows, a.d);
    copies(&a, 2 * e, keys, a.d);
    return status_ok(status);
}

uint64_t decode_cache_bytes(uint64_t batch, uint64_t kv_heads, uint64_t Nk, uint64_t d, uint64_t element_bytes, Status *status)
{
    static const char *const what = "2 batch kv_heads N_k d bytes";
    const uint64_t rows = checked_mul(checked_mul(batch, kv_heads, what, status), checked_mul(2, Nk, what, status), what, status);
    return checked_mul(rows, checked_mul(d, element_bytes, what, status), what, status);
}

uint64_t decode_parts_bytes(uint64_t batch, uint64_t heads, uint64_t Nq, uint64_t d, uint64_t splits, uint64_t statistic_bytes,
                            Status *status)
{
    static const char *const what = "2 splits batch heads N_q (d + 1) bytes";
    if (splits <= 1) return 0;
    const uint64_t rows =
        checked_mul(checked_mul(batch, heads, what, status), checked_mul(splits, Nq, what, status), what, status);
    return checked_mul(checked_mul(2, rows, what, status),
                       checked_mul(checked_add(d, 1, what, status), statistic_bytes, what, status), what, status);
}
