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
    uint64_t splits;                    /* decode: parts of ceil(key blocks / splits) key blocks */
    bool packed, merged_by_tree;        /* decode: the heads of a group are rows of one tile; parts are merged two at a time */
} BruteProblem;

typedef struct {
    uint64_t hbm_read_elements, hbm_write_elements, hbm_read_bytes, hbm_write_bytes;
    uint64_t l2_to_sm_bytes, sm_to_l2_bytes;
    uint64_t atomic_elements;           /* two for every element added to: read and written */
    uint64_t smem_operand_bytes, smem_thread_bytes, smem_copy_bytes;
    uint64_t matmul_flops, matmul_flops_exact_mask, nonmatmul_ops, exp_ops;
    uint64_t tile_pairs;
} BruteCounts;

/* Algorithm by name: "standard", "fa1", "fa1-shipped", "fa2", "fa3", "fa4", "decode". False (no memory, no such name) with the reason in status. */
bool brute_force(const char *algorithm, const BruteProblem *problem, BruteCounts *counts, Alloc *alloc, Status *status);

/* A backward pass; instruction_rows and instruction_cols are those of S and dP (standard attention: of all products). */
typedef struct {
    BruteProblem problem;
    uint64_t key_rows, key_cols;        /* what one instruction covers of dK and dV */
    uint64_t query_rows, query_cols;    /* of dQ */
    bool direct_dq, query_blocks_outside;
    uint64_t splits;                    /* sums of dQ, each for every splits-th key block; at least 1 */
    bool dropout, stored_mask;          /* the mask is regenerated, or one byte per score in memory */
} BruteBackward;

/* Algorithm by name: "standard" (Dao et al. 2022, Algorithm 3), "fa2" (Dao 2023, Algorithm 2), "fa3" (Shah et al. 2024,
 * Algorithm 3), "fa4" (Zadouri et al. 2026, one CTA). */
bool brute_force_backward(const char *algorithm, const BruteBackward *problem, BruteCounts *counts, Alloc *alloc, Status *status);

/* What dropout adds to a forward pass: reads of a stored mask, writing it first, and its work. */
typedef struct {
    bool stored_mask, written;
} BruteDropout;

bool brute_force_dropout(const char *algorithm, const BruteProblem *problem, BruteDropout dropout, BruteCounts *counts,
                         Alloc *alloc, Status *status);

#endif
