/* hadamard.h - rotation of rows by a random-sign Hadamard matrix, by butterflies.
 *
 *     X J,   J = diag(s) H / sqrt(b),   H_ij = (-1)^popcount(i & j) (Sylvester),  s_i = +-1 at random
 *
 * J is orthogonal: (Q J)(K J)ᵀ = Q Kᵀ, while each element of a row of Q J is a +-1 weighted sum of the whole row, so that one
 * large element is spread over all. Its inverse is the same butterfly with the signs afterwards: X Jᵀ = X H diag(s) / sqrt(b).
 *
 * Size. A Sylvester matrix exists for powers of two. For any other d, J is block-diagonal: b is the largest power of two that
 * divides d (at most HADAMARD_MAX_BLOCK), and each run of b columns is transformed on its own, normalised by its own size,
 * sqrt(b). An odd d is only given signs.
 *
 * Cost: log2 b stages of d additions a row, d log2 b in all (896 at d = 128, where the dense product takes 2 d² = 32,768
 * operations). The signs and 1/sqrt(b) are not counted: a kernel flips sign bits and folds the factor into the scale of the
 * quantisation.
 *
 * Signs: bit 31 of Philox element i of stream (seed, head), one sequence per head; Q and K of a head, and all query heads that
 * share a K/V head, must use the same. Sums are float32 (or float64), in the order of the stages: the same bits everywhere.
 *
 * Source: Shah et al. 2024, arXiv:2407.08608, section 3.3 (incoherent processing), after QuIP (arXiv:2307.13304). Lecture §4.4.
 * Left out: Hadamard matrices of other orders (12, 20, 28, ...), which would make J dense for d = 96.
 */
#ifndef ATTNLAB_HADAMARD_H
#define ATTNLAB_HADAMARD_H

#include "tile_math.h"

enum { HADAMARD_MAX_BLOCK = 1024 };

/* b: the largest power of two that divides d, at most HADAMARD_MAX_BLOCK. 1 for odd d. */
uint32_t hadamard_block(uint32_t d);

/* log2 b. */
uint32_t hadamard_stages(uint32_t d);

/* Additions for one row: d log2 b. */
uint64_t hadamard_additions(uint32_t d);

/* signs[0 .. d - 1], each +1 or -1. */
void hadamard_signs(int8_t *signs, uint32_t d, uint64_t seed, uint64_t head);

/* The columns of x (its live part, x.cols of them) become those of X J; x is float or double by `precision`. */
void hadamard_rotate(Precision precision, Matrix x, const int8_t *signs);

/* X Jᵀ: undoes it, up to rounding. */
void hadamard_unrotate(Precision precision, Matrix x, const int8_t *signs);

#endif
