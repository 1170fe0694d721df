/* brute_force.h - counts of attention by touching elements one at a time: slow, obvious, and independent.
 *
 * The third way to every count, beside the walk on the machine (sim/, algos/) and the closed forms. It shares no code with
 * either: masks are decided for each (query, key) pair from their definition, a block is executed iff some pair in it is visible
 * (all of its pairs are looked at), an ideal L2 is one flag per element, every head is walked, and every counter is an increment
 * in the innermost loop. The loops are those of the papers' listings (Dao et al. 2022, Algorithms 0 and 1; Dao 2023, Algorithm
 * 1). For shapes of some thousand pairs.
 */
#ifndef ATTNLAB_BRUTE_FORCE_H
#define ATTNLAB_BRUTE_FORCE_H

#include "sim/alloc.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum { BRUTE_NO_MASK, BRUTE_CAUSAL, BRUTE_CAUSAL_TOP_LEFT } BruteMask;

typedef struct {
    uint64_t batch, heads, kv_heads;
    uint64_t Nq, Nk, d;
    BruteMask mask;
    int64_t window_left, window_right;  /* -1: unbounded; bottom-right aligned */
    uint64_t Br, Bc;
    uint64_t element_bytes, statistic_bytes;
    bool ideal_l2;
    uint64_t instruction_rows, instruction_cols;    /* of a product that one instruction (or warp) covers; 0: all */
    uint64_t softmax_cols;              /* standard attention: elements of a row that fit on chip */
} BruteProblem;

typedef struct {
    uint64_t hbm_read_elements, hbm_write_elements, hbm_read_bytes, hbm_write_bytes;
    uint64_t l2_to_sm_bytes, sm_to_l2_bytes;
    uint64_t smem_operand_bytes, smem_thread_bytes, smem_copy_bytes;
    uint64_t matmul_flops, matmul_flops_exact_mask, nonmatmul_ops, exp_ops;
    uint64_t tile_pairs;
} BruteCounts;

/* Algorithm by name: "standard", "fa1", "fa1-shipped", "fa2". False (no memory, no such name) with the reason in status. */
bool brute_force(const char *algorithm, const BruteProblem *problem, BruteCounts *counts, Alloc *alloc, Status *status);

#endif
