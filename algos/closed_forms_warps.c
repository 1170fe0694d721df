/* closed_forms_warps.c - see closed_forms_warps.h. */
#include "closed_forms_warps.h"

/* Warps that have work, summed over the blocks of one side: `warps` in a whole block, as many as the tail reaches in the last. */
static uint64_t busy_warps(uint64_t length, uint64_t block, uint64_t warps, Status *status)
{
    const uint64_t share = block / warps, whole = length / block, tail = length % block;
    return checked_add(checked_mul(whole, warps, "warps with work", status), ceil_div(tail, share), "warps with work", status);
}

static uint64_t product(uint64_t a, uint64_t b, uint64_t c, const char *what, Status *status)
{
    return checked_mul(checked_mul(a, b, what, status), c, what, status);
}

/* each x y + other, for every head. */
static uint64_t all_heads(const CountedProblem *p, uint64_t one_head, const char *what, Status *status)
{
    return product(one_head, p->batch, p->heads, what, status);
}

static bool can_split(uint64_t block, const CountedProblem *p, uint64_t warps, Status *status)
{
    if (warps > 0 && p->Br > 0 && p->Bc > 0 && block % warps == 0) return status_ok(status);
    return status_fail(status, STATUS_USAGE, "%" PRIu64 " warps cannot split a side of %" PRIu64, warps, block);
}

/* 5 per score, `per_row` per row and `each` times, and the division by l at the end. */
static uint64_t nonmatmul(const CountedProblem *p, uint64_t per_row, uint64_t each, Status *status)
{
    const char *what = "nonmatmul_ops";
    const uint64_t scores = product(5, p->Nq, p->Nk, what, status), rows = product(per_row, p->Nq, each, what, status);
    return checked_add(checked_add(scores, rows, what, status), checked_mul(p->Nq, p->d, what, status), what, status);
}

/* e d (a + 2 b): Q once per a, K and V once per b. */
static uint64_t operands(const CountedProblem *p, uint64_t q_rows, uint64_t k_rows, Status *status)
{
    const char *what = "smem_operand_bytes";
    const uint64_t rows = checked_add(q_rows, checked_mul(2, k_rows, what, status), what, status);
    return product(rows, p->d, p->element_bytes, what, status);
}

bool closed_form_split_keys(const CountedProblem *p, uint64_t warps, WarpSplitForm *form, Status *status)
{
    *form = (WarpSplitForm){0};
    if (!can_split(p->Bc, p, warps, status)) return false;
    const uint64_t Tr = ceil_div(p->Nq, p->Br), Tc = ceil_div(p->Nk, p->Bc), slices = busy_warps(p->Nk, p->Bc, warps, status);
    const uint64_t q_rows = checked_mul(p->Nq, slices, "rows of Q", status), k_rows = checked_mul(p->Nk, Tr, "rows of K", status);
    const uint64_t partial = product(p->Nq, p->d + 2, p->statistic_bytes, "a partial result", status);
    form->exchange_bytes = all_heads(p, product(2, partial, slices, "smem_thread_bytes", status), "smem_thread_bytes", status);
    form->operand_bytes = all_heads(p, operands(p, q_rows, k_rows, status), "smem_operand_bytes", status);
    form->barriers = all_heads(p, product(2, Tr, Tc, "barriers", status), "barriers", status);
    form->nonmatmul_ops = all_heads(p, nonmatmul(p, 3 * p->d + 8, slices, status), "nonmatmul_ops", status);
    form->register_bytes = product(p->Br, warps * (p->Bc / warps + p->d + 1) + p->d + 7, p->statistic_bytes, "registers", status);
    return status_ok(status);
}

bool closed_form_split_queries(const CountedProblem *p, uint64_t warps, WarpSplitForm *form, Status *status)
{
    *form = (WarpSplitForm){0};
    if (!can_split(p->Br, p, warps, status)) return false;
    const uint64_t Tc = ceil_div(p->Nk, p->Bc), strips = busy_warps(p->Nq, p->Br, warps, status);
    const uint64_t q_rows = checked_mul(p->Nq, Tc, "rows of Q", status), k_rows = checked_mul(p->Nk, strips, "rows of K", status);
    form->operand_bytes = all_heads(p, operands(p, q_rows, k_rows, status), "smem_operand_bytes", status);
    form->nonmatmul_ops = all_heads(p, nonmatmul(p, 2 * p->d + 4, Tc, status), "nonmatmul_ops", status);
    form->register_bytes = product(p->Br, p->Bc + p->d + 4, p->statistic_bytes, "registers", status);
    return status_ok(status);
}
