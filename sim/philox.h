/* philox.h - Philox4x32-10: random numbers without state.
 *
 * Philox is a keyed bijection: ten rounds turn a 128-bit counter and a 64-bit key into 128 random bits. Element i of a stream is
 * therefore computed from (seed, stream, i) alone: in any order, by any block, twice with the same result. That is how a dropout
 * mask is regenerated in the backward pass instead of being stored, and how every tensor of a run is filled from one seed.
 *
 * Layout: key = seed (low word first); counter words 0-1 = index / 4 and words 2-3 = stream, low word first; the element is
 * output word index % 4. Streams do not overlap: each has 2^66 elements, an index names the first 2^64.
 *
 * Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011; the constants and known answers are
 * those of the authors' Random123 library. Lecture: section 2.8 (dropout). Left out: the 7-round and 64-bit variants.
 */
#ifndef ATTNLAB_PHILOX_H
#define ATTNLAB_PHILOX_H

#include <stdint.h>

void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* Elements 4 * block ... 4 * block + 3 of a stream. */
void philox_block(uint64_t seed, uint64_t stream, uint64_t block, uint32_t out[4]);

/* Element `index` of a stream: 32 uniform bits. */
uint32_t philox_element(uint64_t seed, uint64_t stream, uint64_t index);

#endif
