/* silicon_counts.h - what the hardware counters of a real kernel should read, by formula.
 *
 * The counts of algos/closed_forms.h are an algorithm's. A chip counts a kernel: whole tiles, whole warps, whole sectors, and what the
 * compiler added. silicon_counts.c has both: the closed form of the algorithm with the tiles of the shipped kernel, and on top of it the
 * named mechanisms that a kernel has and an algorithm has not. Nothing is read from a counter, and no formula knows a row: what is needed
 * of a launch is what its launcher knew (shape, name, grid, threads).
 *
 *     l2_to_l1_read_bytes     bytes that the SMs read from L2
 *     l1_to_l2_write_bytes    bytes that they write or add atomically
 *     l2_red_sectors          32-byte sectors touched by additions at L2
 *     smem_wavefronts         128-byte cycles of shared memory: tensor-core operands and what threads read and write; copies are not in it
 *     xu_warp_insts           warp instructions of the MUFU/XU pipe (times 32: exponentials and the like)
 *     tensor_warp_insts       warp instructions of the tensor pipe
 *     tensor_pipe_cycles      cycles in which it is busy, summed over the four sub-cores of every SM
 *
 *     dram_read_bytes, dram_write_bytes   what HBM saw: it depends on which blocks meet in L2, so no formula here has it (silicon_dram.h)
 *
 * Left out: time. Known kernels: FlashAttention-2 as shipped in PyTorch ("flash") and cuDNN's
 * Hopper kernels ("cudnn"), both passes; their decoding kernels; cuBLAS products and PyTorch's softmax ("std_*").
 */
#ifndef ATTNLAB_SILICON_COUNTS_H
#define ATTNLAB_SILICON_COUNTS_H

#include "algos/attention.h"
#include "sim/profile.h"

typedef enum {
    SILICON_L2_READ, SILICON_L2_WRITE, SILICON_L2_RED, SILICON_SMEM, SILICON_XU, SILICON_TENSOR_INSTRUCTIONS, SILICON_TENSOR_CYCLES,
    SILICON_DRAM_READ, SILICON_DRAM_WRITE,      /* not by formula: silicon_rows.c asks the simulated L2 */
    SILICON_COUNTERS
} SiliconCounter;

/* The column's name in h200_counters.csv. */
const char *silicon_counter_name(SiliconCounter counter);

/* One launch, as its launcher knows it. */
typedef struct {
    const char *kernel, *pass, *launch;     /* columns of the file: "flash", "fwd", the kernel function's name */
    AttentionShape shape;
    uint64_t grid, threads;                 /* thread blocks, threads of each */
    uint64_t splits;                        /* of a combine kernel: parts of the keys; 0: not known (flash: by its rule) */
} SiliconLaunch;

/* A kernel whose counts are known. */
typedef struct SiliconKernel SiliconKernel;
size_t silicon_kernel_count(void);
const SiliconKernel *silicon_kernel_at(size_t index);

/* The kernel behind a launch. NULL when it is not known; *why then says so. */
const SiliconKernel *silicon_kernel_of(const SiliconLaunch *launch, const char **why);

const char *silicon_kernel_name(const SiliconKernel *kernel);       /* "flash" */
const char *silicon_kernel_pass(const SiliconKernel *kernel);       /* "fwd" */
const char *silicon_kernel_role(const SiliconKernel *kernel);       /* "forward", "gradients", "split", ... */
/* Parts of the keys of a launch whose role is "split", from its grid; 0 when that is too small. */
uint64_t silicon_splits(const SiliconLaunch *launch);
/* Why a counter has no formula; NULL when it has one. */
const char *silicon_left_out(const SiliconKernel *kernel, SiliconCounter counter);
/* Why a counter's target is not expected to be met everywhere; NULL when it is. */
const char *silicon_known_miss(const SiliconKernel *kernel, SiliconCounter counter);
/* The largest relative error allowed, in percent (of dram_read_bytes see silicon_row_target). */
double silicon_target(const SiliconKernel *kernel, SiliconCounter counter);

/* The counts of a launch. unknown: why a counter is not known of this launch (of all of a kernel: silicon_left_out); NULL when it is. */
typedef struct {
    uint64_t n[SILICON_COUNTERS];
    const char *unknown[SILICON_COUNTERS];
} SiliconCounts;

/* False with *why set when the launch is of a known kernel but cannot be described (no splits, no tile in the name), with a bad status when a
 * count leaves 64 bits. HBM's counters stay 0. */
bool silicon_counts(const SiliconKernel *kernel, const SiliconLaunch *launch, const Profile *chip, SiliconCounts *counts, const char **why,
                    Status *status);

/* One query: flash and cudnn make the query heads of a K/V head the rows of a tile, and drop the mask, which hides nothing. Any other shape is left. */
AttentionShape silicon_packed(const AttentionShape *shape);

/* The first _AxBxC_ of a kernel's name, or _AxB_ with C NULL; false when it has none. */
bool silicon_tile_in_name(const char *name, uint64_t *A, uint64_t *B, uint64_t *C);

/* Words that a thread of FlashAttention-2's forward kernel spills to L2: with each tile of keys, and once in a block. Zero for a head dimension of
 * which it is not known. */
typedef struct {
    uint64_t tile, block;
} SiliconSpill;
SiliconSpill silicon_flash_spill(uint64_t head_dim, bool masked);

/* A number that is no consequence of the algorithm: read off the counters of some rows. */
typedef struct {
    const char *what, *value, *from;
} SiliconCalibration;
extern const SiliconCalibration silicon_calibrations[];
extern const size_t silicon_calibration_count;

#endif
