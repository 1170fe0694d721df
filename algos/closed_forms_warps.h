/* closed_forms_warps.h - what split-K and split-Q cost, as formulas (lecture §3.4). As in closed_forms.h nothing knows the machine.
 *
 * Without a mask, one head. e: bytes of an operand, s: of a statistic; slices: warps that have keys, summed over key blocks (W Tc
 * when N_k is a multiple of Bc), strips: warps that have rows, summed over query blocks (W Tr).
 *
 *                      split-K                                             split-Q
 *     exchange         2 N_q (d + 2) s slices                              0
 *     operands         e d (N_q slices + 2 N_k Tr)                         e d (N_q Tc + 2 N_k strips)
 *     barriers         2 Tr Tc                                             0
 *     non-matmul       5 N_q N_k + (3d + 8) N_q slices + N_q d             5 N_q N_k + (2d + 4) N_q Tc + N_q d
 *     registers        s Br (W (Bc/W + d + 1) + d + 7)                     s Br (Bc + d + 4)          of one block
 */
#ifndef ATTNLAB_CLOSED_FORMS_WARPS_H
#define ATTNLAB_CLOSED_FORMS_WARPS_H

#include "closed_forms.h"

typedef struct {
    uint64_t exchange_bytes; /* written to and read from shared memory by threads */
    uint64_t operand_bytes;  /* read from shared memory by tensor-core instructions */
    uint64_t barriers;       /* block-wide, for the exchange */
    uint64_t nonmatmul_ops;  /* by the price list of §3.2 */
    uint64_t register_bytes; /* of the tiles of one block */
} WarpSplitForm;

/* For all heads. STATUS_INFEASIBLE naming the product when a count leaves 64 bits, STATUS_USAGE when a block size is 0 or the side
 * that is split no multiple of `warps`. The band of the problem is not looked at. */
bool closed_form_split_keys(const CountedProblem *problem, uint64_t warps, WarpSplitForm *form, Status *status);
bool closed_form_split_queries(const CountedProblem *problem, uint64_t warps, WarpSplitForm *form, Status *status);

#endif
