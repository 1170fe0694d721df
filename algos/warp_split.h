/* warp_split.h - how the warps of a thread block share a tile of scores: split-K and split-Q, each warp written out. Lecture §3.4.
 *
 * FlashAttention-1 gives each warp a part of the keys, FlashAttention-2 a part of the queries. Both kernels here have the loops of
 * FlashAttention-2 (one block per query block, keys inside), so that nothing differs but the split. fa2.c says "the warps split
 * the rows" by an instruction shape; here every warp is a stream with tiles of its own, and what a split reads from and writes to
 * shared memory follows from the operations.
 */
#ifndef ATTNLAB_WARP_SPLIT_H
#define ATTNLAB_WARP_SPLIT_H

#include "attention.h"

typedef enum { WARPS_SPLIT_KEYS, WARPS_SPLIT_QUERIES } WarpSplit;

/* So many have room for their tiles and streams in a block of the machine (MAX_TILES, MAX_STREAMS). */
enum { MOST_SPLIT_WARPS = 4 };

/* O and L of the problem, the tiles of Br x Bc shared by `warps` warps. Adds the tensor L. STATUS_INFEASIBLE unless warps is 1 to
 * MOST_SPLIT_WARPS and divides the side that is split (Bc or Br), or when the tiles do not fit the chip: split-K needs a full
 * Br x d accumulator in each warp, 256 registers a thread at Br = 128, d = 64. Dropout is refused. */
bool warp_split_forward(Machine *machine, Attention *attention, WarpSplit split, uint32_t warps);

#endif
