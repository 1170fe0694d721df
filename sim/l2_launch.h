/* l2_launch.h - one launch through the simulated L2 cache. Used by launch() and the operations; not for kernels.
 *
 * While one head is walked, an L2Trace records what each of its blocks loads, stores and adds, in program order. l2_launch() then lets all
 * heads run: blocks go to the SMs in launch order, each to the slot that is free first (as in chip_schedule.h), as many to an SM as fit.
 * The clock of a block is the bytes that it has moved: a block moves its tiles at an even pace, blocks of the same kind stay in step, and
 * one with twice the work runs twice as long. Merged by these clocks, the accesses of all running blocks go to the cache (l2_cache.h, l2_chip.h),
 * which is empty when the launch begins, but for what the machine's configuration says was dirty. No feedback: a miss delays nobody. Tens of millions of tiles a second (build/bin/benchmark).
 *
 * A tile of the cache is the largest range of rows and columns by which every access to a tensor in this launch can be divided; mostly that
 * is the kernel's own tile. Capacity of the LRU: Profile::l2_bytes_per_chip / l2_partitions, because both partitions keep what SMs of both read.
 *
 * Left out: prefetch distance, SMs that run ahead, pace that changes with the neighbours of a block (a launch's last wave).
 */
#ifndef ATTNLAB_L2_LAUNCH_H
#define ATTNLAB_L2_LAUNCH_H

#include "l2_cache.h"
#include "machine.h"

/* One tile-sized access: rows [row, row + rows), columns [col, col + cols) of head `member` among those of a block's. */
typedef struct {
    uint32_t row, col, rows, cols;
    uint32_t member;
    uint8_t tensor, access;             /* index in the machine; L2Access */
} L2Piece;

/* The longest recording of a head, and the most accesses of all heads: some 100 MB, some ten seconds. */
#define L2_MOST_RECORDED (UINT64_C(1) << 25)
#define L2_MOST_ACCESSES (UINT64_C(1) << 28)

struct L2Trace {
    const char *kernel;
    Alloc *alloc;
    Status *status;
    L2Piece *pieces;                    /* the different ones */
    uint32_t piece_count, piece_capacity;
    uint32_t *table, slots;             /* piece + 1 by hash; 0: free */
    uint32_t *sequence;                 /* pieces in program order, block after block */
    uint64_t length, capacity;
    uint64_t *first, *end;              /* [blocks] of the sequence */
    uint64_t block;                     /* being walked */
};

/* For a head of so many blocks. NULL without memory. */
L2Trace *l2_trace_new(const char *kernel, uint64_t blocks, Alloc *alloc, Status *status);
void l2_trace_free(L2Trace *trace);
void l2_trace_begin(L2Trace *trace, uint64_t block);
void l2_trace_end(L2Trace *trace);
void l2_trace_add(L2Trace *trace, const L2Piece *piece);

/* What HBM sees of a launch, in bytes by tensor. `record`: what a block held, and the number of blocks. Everything that was written counts as written
 * to HBM; `outcome` says how much of it still waits in L2 when the launch ends. */
bool l2_launch(Machine *machine, const Kernel *kernel, Grid grid, const L2Trace *trace, const LaunchRecord *record, L2Traffic *traffic,
               L2Outcome *outcome);

#endif
