/* closed_forms.h - every count of every kernel as a formula.
 *
 * A formula must not be fed by the counter that it checks: this file and closed_forms.c include nothing of sim/ but checked
 * integers, know no tile, tensor or machine, and take instruction shapes and capacities as plain numbers. No formula walks
 * blocks: sums over blocks of a banded mask are sums of clamped linear functions, done in a few divisions, so a formula answers
 * at any N.
 *
 * Checked three ways: closed form = walk (sim/) = brute force over elements (tests/), see tests/test_counts.c. Lecture §1.4,
 * §2.3-2.5, §3.1, §3.2.
 */
#ifndef ATTNLAB_CLOSED_FORMS_H
#define ATTNLAB_CLOSED_FORMS_H

#include "sim/checked.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    uint64_t batch, heads, kv_heads;
    uint64_t Nq, Nk, d;
    int64_t band_low, band_high;        /* query i sees keys i + low .. i + high, within 0 .. Nk - 1; low > high: none */
    uint64_t Br, Bc;                    /* at least 1 */
    uint64_t element_bytes;             /* of Q, K, V, O, S, P in HBM and of matmul operands */
    uint64_t statistic_bytes;           /* of accumulators and row statistics */
    bool ideal_l2;                      /* else every load and store goes to HBM */
    uint64_t shape_m, shape_n;          /* InstructionShape: 0 = all */
    uint64_t softmax_cols;              /* standard attention: elements of a row that a softmax block holds; >= Nk: whole rows */
} CountedProblem;

/* A backward pass: the problem's shape_m, shape_n are those of S and dP. */
typedef struct {
    CountedProblem problem;
    uint64_t key_m, key_n;              /* InstructionShape of dK and dV */
    uint64_t query_m, query_n;          /* of dQ */
    bool direct_dq, query_blocks_outside;
    uint64_t splits;                    /* blocks per K/V head, each with its own dQ sums (deterministic); 0: one block per key block, shared sums */
    bool dropout, stored_mask;          /* the mask is regenerated, or read from HBM (one byte per element) */
} CountedBackward;

/* The same quantities as sim's Totals, by formula. */
typedef struct {
    uint64_t hbm_read_elements, hbm_write_elements, hbm_read_bytes, hbm_write_bytes;
    uint64_t l2_to_sm_bytes, sm_to_l2_bytes;
    uint64_t atomic_elements;
    uint64_t smem_operand_bytes, smem_thread_bytes, smem_copy_bytes;
    uint64_t matmul_flops, matmul_flops_exact_mask, nonmatmul_ops, exp_ops;
    uint64_t tile_pairs;                /* (query block, key block) pairs executed, all heads: what a walk's length is about */
} ClosedForm;

/* All return false with STATUS_INFEASIBLE naming the product when a count leaves 64 bits (or a length or block 2^61), and with
 * STATUS_USAGE when a block size is 0. */
bool closed_form_standard(const CountedProblem *problem, ClosedForm *form, Status *status);     /* Dao 2022, Algorithm 0 */
bool closed_form_fa1(const CountedProblem *problem, ClosedForm *form, Status *status);          /* Algorithm 1 as listed */
bool closed_form_fa1_shipped(const CountedProblem *problem, ClosedForm *form, Status *status);
bool closed_form_fa2(const CountedProblem *problem, ClosedForm *form, Status *status);          /* Dao 2023, Algorithm 1 */

bool closed_form_standard_backward(const CountedBackward *problem, ClosedForm *form, Status *status);   /* Dao 2022, Algorithm 3 */
bool closed_form_fa2_backward(const CountedBackward *problem, ClosedForm *form, Status *status);        /* Dao 2023, Algorithm 2 */

/* The lecture's one-head formulas, elements, no mask, no L2 (§1.4, §2.3, §2.4, §3.1). */
uint64_t standard_elements(uint64_t N, uint64_t d, Status *status);                     /* 4Nd + 4N² */
uint64_t fa1_elements(uint64_t N, uint64_t d, uint64_t Bc, Status *status);             /* 2Nd + (Nd + 2N) + Tc (3Nd + 4N) */
uint64_t fa2_elements(uint64_t N, uint64_t d, uint64_t Br, Status *status);             /* 2Nd + N + 2Nd Tr */
uint64_t fa1_published_elements(uint64_t N, uint64_t d, uint64_t Bc, Status *status);   /* (1 + 3 Tc) Nd: Figure 2, middle */
uint64_t fa1_sram_elements(uint64_t Br, uint64_t Bc, uint64_t d, Status *status);       /* 2 Bc d + 2 Br d + 2 Br + Br Bc */

/* Matmul FLOPs of the forward pass by the benchmark convention: 4 batch heads Nq Nk d, halved for a causal mask. */
uint64_t matmul_flops_convention(const CountedProblem *problem, bool causal, Status *status);
/* Visible (query, key) pairs of one head. */
uint64_t visible_pairs(uint64_t Nq, uint64_t Nk, int64_t band_low, int64_t band_high, Status *status);

#endif
