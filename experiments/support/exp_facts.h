/* exp_facts.h - three facts about exponentials that several programs state (§5.2, §5.3, pitfalls 5 and 8, exercise 9).
 *
 *     any base cancels     O = sum_j 2^(s_j - b) v_j / sum_j 2^(s_j - b) for every b: the row maximum is a choice. Until float32 ends: with b far
 *                          above the maximum all weights are 0 and O = 0 / 0, far below it they overflow.
 *     threshold bound      weights up to 2^tau, N of them: their sum stays below 2^128 if tau < 128 - log2 N. Safe, not attained: the first
 *                          block sets the base, so its keys count 1 at most and l <= (N - Bc) 2^tau + Bc. O may exceed l by max |V|.
 *     BF16 hides the rest  how often the degree-3 polynomial and 2^x are the same BF16 number
 */
#ifndef ATTNLAB_EXP_FACTS_H
#define ATTNLAB_EXP_FACTS_H

#include "sim/alloc.h"
#include "sim/poly_fit.h"

/* 128 - log2 N, N >= 1: thresholds below it are safe. Exact where N is a power of two. */
double rescale_threshold_bound(uint64_t N);

/* Plain softmax attention of one head in float32, N(0,1) inputs, with another base than the row maximum. */
typedef struct {
    double max_error;               /* max |O - O in float64| over the finite entries */
    uint64_t nonfinite, entries;    /* of O: infinities and NaN, and all N d */
} BaseOutcome;

/* Base = row maximum + `above` (log2 units). N and d are multiples of 32, at most 4096 and 512. */
bool attention_with_base(BaseOutcome *outcome, uint32_t N, uint32_t d, uint64_t seed, double above, Alloc *alloc, Status *status);

/* The minimax polynomial of this degree (relative error, p(0) = 1) on the 2^20 points of [0, 1) that the claims stand on. */
enum { EXP2_POINTS = 1 << 20 };
bool polynomial_accuracy(uint32_t degree, Exp2Accuracy *accuracy, Status *status);

#endif
