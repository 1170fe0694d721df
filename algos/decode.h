/* decode.h - how a decoding launch is laid out (decode.c): what is stacked, what is split, what stays idle. */
#ifndef ATTNLAB_DECODE_H
#define ATTNLAB_DECODE_H

#include "attention.h"

typedef struct {
    uint64_t group;                    /* query heads stacked in a tile; 1: not packed */
    uint64_t heads;                    /* of the grid, per sequence: heads / group */
    uint64_t rows;                     /* of one of them: N_q x group */
    uint64_t query_blocks, key_blocks; /* ceil(rows / Br), ceil(N_k / Bc) */
    uint64_t splits;                   /* parts, and blocks of the grid per query block */
    uint64_t split_blocks;             /* key blocks of a part, the last one fewer: ceil(key_blocks / splits) */
    uint64_t used;                     /* parts that have key blocks at all; the others are idle */
    uint64_t blocks;                   /* thread blocks: batch x heads x query_blocks x splits */
} DecodePlan;

/* For a chip with so many SMs; splits = 0 in the options asks FlashAttention-2's rule (split_heuristics.h). */
DecodePlan decode_plan(const Attention *a, uint64_t sm_count);

/* Merges the parts of `splits` (O: [batch, heads x splits, rows, d]; logsumexp: [batch, heads, rows, splits], both as part
 * tensors of this name) into O and L: the second kernel by itself. */
bool decode_combine(Machine *machine, const Attention *a, Tensor *parts, Tensor *part_lse, Tensor *O, Tensor *L);

#endif
