/* brute_force_fp8.h - FlashAttention-3 with FP8 operands, element by element: see brute_force.h. Every addition of a butterfly,
 * every scale and every byte of the pass that rounds the operands is an increment of its own.
 */
#ifndef ATTNLAB_BRUTE_FORCE_FP8_H
#define ATTNLAB_BRUTE_FORCE_FP8_H

#include "brute_force.h"

typedef enum { BRUTE_UNSCALED, BRUTE_BY_TENSOR, BRUTE_BY_BLOCK, BRUTE_BY_ROW } BruteScales;

typedef struct {
    BruteScales scales;
    bool codes;                 /* Q, K, V come in source_bytes each and are rounded; else they are FP8 already */
    bool rotate_qk, rotate_v, prepass;
    uint64_t source_bytes;      /* of Q, K, V and O */
} BruteFp8;

bool brute_force_fp8(const BruteProblem *problem, const BruteFp8 *fp8, BruteCounts *counts, Alloc *alloc, Status *status);

#endif
