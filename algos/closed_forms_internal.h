/* closed_forms_internal.h - what the formulas of both passes share: the sums over executed block pairs, and the account that a
 * formula fills in. closed_forms.c explains the sums. Not for other files. */
#ifndef ATTNLAB_CLOSED_FORMS_INTERNAL_H
#define ATTNLAB_CLOSED_FORMS_INTERNAL_H

#include "closed_forms.h"

/* ----------------------------------------------------------------------------------------------- sums over executed pairs */

/* Of one head. r: rows of the query block, c: keys of the key block of an executed pair. */
typedef struct {
    uint64_t pairs;             /* Σ 1 */
    uint64_t rows;              /* Σ r: query rows loaded by key blocks (loops with keys outside) */
    uint64_t keys;              /* Σ c: key rows loaded by query blocks (loops with queries outside) */
    uint64_t area;              /* Σ r c: scores computed */
    uint64_t left_reads;        /* Σ r ceil(c / n): rows of Q that the instructions of Q Kᵀ read from shared memory */
    uint64_t right_reads;       /* Σ c ceil(r / m): rows of K in Q Kᵀ, and of V in P V */
    uint64_t seeing_rows;       /* rows of query blocks that see a key */
    uint64_t seen_keys;         /* keys of key blocks that are seen */
} PairSums;

static inline uint64_t groups(uint64_t extent, uint64_t instruction)
{
    return instruction == 0 ? 1 : ceil_div(extent, instruction);
}

/* Masked: of the pairs that the band leaves; else of the full matrix. */
PairSums pair_sums(const CountedProblem *problem, bool masked, Status *status);

/* Σ over query blocks of rows x splits that reach them, when split s has the key blocks s, s + splits, ...: rows of dQ sums that
 * are touched. */
uint64_t rows_of_splits(const CountedProblem *problem, uint64_t splits, Status *status);

/* ------------------------------------------------------------------------------------------------------- the account of a run */

/* A matrix in HBM, by what one of its rows costs. */
typedef struct {
    const char *name;
    uint64_t heads;             /* of the whole batch */
    uint64_t cols, bytes;
} Operand;

typedef struct {
    const CountedProblem *problem;
    uint64_t heads;             /* batch x query heads: what the blocks of a launch are multiplied with */
    uint64_t kv_heads;          /* batch x K/V heads */
    uint64_t Nq, Nk, d;
    PairSums sums;
    uint64_t visible;           /* visible (query, key) pairs of one head */
    Operand Q, K, V, O;         /* and their gradients */
    Operand L;                  /* and any other statistic: one number per row */
    Operand Z;                  /* the keep mask, element by element: its rows are scores */
    ClosedForm *form;
    Status *status;
} Account;

/* Empty form, sums and operands of a problem. Without batch, heads or queries there are no pairs and no query rows, so that
 * nothing can overflow. */
Account open_account(const CountedProblem *problem, bool masked, ClosedForm *form, Status *status);

static inline void move(const Account *a, const Operand *x, uint64_t asked_rows, uint64_t fresh_rows, uint64_t *sm_bytes,
                 uint64_t *hbm_elements, uint64_t *hbm_bytes)
{
    const uint64_t row_heads = checked_mul(a->heads, asked_rows, x->name, a->status);
    const uint64_t asked = checked_mul(row_heads, x->cols, x->name, a->status);
    const uint64_t fresh_row_heads = checked_mul(x->heads, fresh_rows, x->name, a->status);
    const uint64_t hbm = a->problem->ideal_l2 ? checked_mul(fresh_row_heads, x->cols, x->name, a->status) : asked;
    *sm_bytes = checked_add(*sm_bytes, checked_mul(asked, x->bytes, x->name, a->status), x->name, a->status);
    *hbm_elements = checked_add(*hbm_elements, hbm, x->name, a->status);
    *hbm_bytes = checked_add(*hbm_bytes, checked_mul(hbm, x->bytes, x->name, a->status), x->name, a->status);
}

/* One launch's loads of an operand, in rows: what the blocks of one query head ask for, and what an ideal L2 fetches for one
 * head of the operand. Grouped query heads ask for the same K and V again, an ideal L2 fetches them once. */
static inline void loads(const Account *a, const Operand *x, uint64_t asked_rows, uint64_t fresh_rows)
{
    move(a, x, asked_rows, fresh_rows, &a->form->l2_to_sm_bytes, &a->form->hbm_read_elements, &a->form->hbm_read_bytes);
}

/* The same for stores: an ideal L2 writes a row back once, however often it was stored. */
static inline void stores(const Account *a, const Operand *x, uint64_t asked_rows, uint64_t fresh_rows)
{
    move(a, x, asked_rows, fresh_rows, &a->form->sm_to_l2_bytes, &a->form->hbm_write_elements, &a->form->hbm_write_bytes);
}

/* counter += each x y, for every head. */
static inline void count(const Account *a, uint64_t *counter, const char *name, uint64_t each, uint64_t x, uint64_t y)
{
    const uint64_t head = checked_mul(checked_mul(each, x, name, a->status), y, name, a->status);
    *counter = checked_add(*counter, checked_mul(a->heads, head, name, a->status), name, a->status);
}

static inline void nonmatmul(const Account *a, uint64_t each, uint64_t x, uint64_t y)
{
    count(a, &a->form->nonmatmul_ops, "nonmatmul_ops", each, x, y);
}

static inline void exponentials(const Account *a, uint64_t each, uint64_t x, uint64_t y)
{
    count(a, &a->form->exp_ops, "exp_ops", each, x, y);
}

static inline void operand_reads(const Account *a, uint64_t bytes, uint64_t x, uint64_t y)
{
    count(a, &a->form->smem_operand_bytes, "smem_operand_bytes", bytes, x, y);
}

static inline void thread_touches(const Account *a, uint64_t bytes, uint64_t x, uint64_t y)
{
    count(a, &a->form->smem_thread_bytes, "smem_thread_bytes", bytes, x, y);
}

static inline void copies(const Account *a, uint64_t bytes, uint64_t x, uint64_t y)
{
    count(a, &a->form->smem_copy_bytes, "smem_copy_bytes", bytes, x, y);
}

/* Dropout of the scores on their way into one product: one operation per element; a stored mask is read. */
static inline void drop_scores(const Account *a)
{
    if (!a->problem->dropout) return;
    nonmatmul(a, 1, a->sums.area, 1);
    if (a->problem->stored_mask) loads(a, &a->Z, a->sums.area, a->sums.area);
}

#endif
