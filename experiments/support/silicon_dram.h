/* silicon_dram.h - what HBM of an H200 reads and writes during one launch, predicted with the cache of sim/l2_chip.h (§2.4).
 *
 * The rows of hw_profiles/measured/h200_counters.csv name a kernel of a library; this says which kernel of algos/ does the same work
 * with which tiles, walks it on the profile h200 and lets its blocks run through the cache in the order in which the chip
 * hands them out. FlashAttention-2's forward kernel also stores the registers that it spills (silicon_flash_spill). Caches are empty when a launch
 * begins, as under the profiler, but for the 2.4 MB that the profiler itself leaves dirty (hw_profiles/measured/h200_passes.csv), and what has not been
 * written back when the launch ends is not counted: an L2 of 60 MiB keeps a good part of what a launch wrote.
 *
 *     family, launch             stands for                                           tiles, blocks on an SM
 *     flash, forward             flash_fwd_kernel                                     d <= 64: 128 x 128, else 128 x 64; two; last keys first
 *     flash, backward            flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel         d <= 64: 128 x 128, else 64 x 128; one
 *     flash, dot and convert     flash_bwd_dot_do_o_kernel, flash_bwd_convert_dq_kernel
 *     flash, decode              flash_fwd_splitkv_kernel: reads, not parts; the query heads of a K/V head are rows
 *     cudnn, the same            the kernels of cuDNN that do the same: forward 128 x 128 on 132 persistent blocks; backward as flash
 *     standard, qk               cuBLAS, a tile of S per block, in panels             128 x 256, or by its name (cublas_scores.h); one
 *     standard, softmax, pv      PyTorch's softmax, cuBLAS                            128 x 128; pv: 256 x 64 (d <= 64: 512), or by its name
 *
 * Left out: split keys, and what L2 writes back while HBM idles.
 */
#ifndef ATTNLAB_SILICON_DRAM_H
#define ATTNLAB_SILICON_DRAM_H

#include "cublas_scores.h"

typedef enum { DRAM_FLASH, DRAM_CUDNN, DRAM_STANDARD } DramFamily;

typedef enum {
    DRAM_FORWARD, DRAM_DECODE,
    DRAM_DOT, DRAM_BACKWARD, DRAM_CONVERT,  /* the three kernels of a backward pass: D and zeroed sums; gradients; dQ to BF16 */
    DRAM_QK, DRAM_SOFTMAX, DRAM_PV          /* the three of standard attention */
} DramLaunch;

/* One launch. */
typedef struct {
    DramFamily family;
    DramLaunch launch;
    AttentionShape shape;       /* BF16 */
    uint32_t tile_rows;         /* queries of a tile; 0: as in the table */
    ScoreTiles scores;          /* of DRAM_QK; a tile of 0 x 0: as in the table */
    bool lru;                   /* through the LRU of sim/l2_cache.h instead, without spilled registers: a comparison */
} DramProblem;

/* All but the shape, by the columns `kernel`, `pass` and `launch` of the file; false for a launch that no kernel here stands for (PyTorch's
 * elementwise kernels, the combination of split keys). */
bool silicon_dram_find(const char *kernel, const char *pass, const char *launch, DramProblem *problem);

/* Bytes. */
typedef struct {
    uint64_t read;              /* the counter dram_read_bytes */
    uint64_t written;           /* the counter dram_write_bytes: before the launch ends */
    uint64_t spilled;           /* of that, registers, */
    uint64_t earlier;           /* and what was dirty before the launch */
    uint64_t dirty;             /* written by the launch and still in L2 when it ends */
    uint64_t once;              /* what a perfect L2 reads: each byte once */
    uint64_t asked;             /* what the SMs read from L2 */
} DramBytes;

/* Some seconds at most for the rows of the file. Errors: those of a walk (attention_run_forward), and STATUS_USAGE for a pair of family and
 * launch that is none of the table. */
bool silicon_dram(const DramProblem *problem, Alloc *alloc, Status *status, DramBytes *bytes);

#endif
