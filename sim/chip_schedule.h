/* chip_schedule.h - thread blocks on the SMs of a chip: which block runs where, from when to when.
 *
 * An SM holds blocks_per_sm blocks at once. A block goes to the slot that is free first, ties to the lowest slot; slots are
 * numbered across the chip (slot = layer * SMs + SM), so that every SM gets a first block before any gets a second. That is list
 * scheduling: what decides is the order of the list.
 *
 *     in launch order          as a grid is launched
 *     reversed in groups       the last block of each head first
 *     longest first (LPT)      stable; at most 4/3 - 1/(3 slots) of the best possible time (Graham 1969)
 *     longest first in sections    the same inside runs of blocks whose data fit a cache together, one section after the other
 *
 * Work is an integer in any unit (tiles, cycles). Without time_per_work a unit of work is a unit of time. With it, the blocks of
 * an SM share it: a unit of work takes time_per_work[k - 1] while k blocks are resident (so two blocks may take 3/2 as long as
 * one alone, and a block whose neighbour ends speeds up). All times are exact.
 *
 * Prologue and epilogue come before and after the work of each block. A persistent kernel (one worker per slot that takes tasks
 * from the list) can overlap them with its neighbours: it takes its next task so early that the prologue ends with the present
 * work (or at once if the work is shorter), and stores behind it, one epilogue at a time.
 *
 * What this leaves out: the memory system (blocks never slow each other down across SMs; the footprint below says when their data
 * outgrow a cache), the time to launch a block, and the counting model's own flaw: waves suit equal blocks only. Time is checked
 * 64-bit integers. Sorting 1,000,000 blocks once and scheduling them twice takes 0.2 s (tests/test_chip_schedule.c). Lecture §3.3,
 * §4.5, exercise 10.
 */
#ifndef ATTNLAB_CHIP_SCHEDULE_H
#define ATTNLAB_CHIP_SCHEDULE_H

#include "alloc.h"
#include "profile.h"
#include "status.h"

#include <stdbool.h>
#include <stdint.h>

/* An exact quotient; 0 / 0 where there is nothing to divide. */
typedef struct {
    uint64_t numerator, denominator;
} Ratio;

static inline double ratio_value(Ratio r) { return r.denominator > 0 ? (double)r.numerator / (double)r.denominator : 0; }

/* ------------------------------------------------------------------------------------------------------------ occupancy */

typedef enum {
    OCCUPANCY_REGISTERS,
    OCCUPANCY_SHARED_MEMORY,
    OCCUPANCY_THREADS,
    OCCUPANCY_BLOCKS,
    OCCUPANCY_LIMITS
} OccupancyLimit;

typedef struct {
    uint64_t blocks;               /* resident on an SM at once; PROFILE_UNLIMITED on a chip without limits */
    uint64_t by[OCCUPANCY_LIMITS]; /* what each resource alone would allow */
    OccupancyLimit limit;          /* the first of those that allow no more than `blocks` */
} Occupancy;

const char *occupancy_limit_name(OccupancyLimit limit); /* "registers" */

/* How many blocks of this kind an SM holds. Shared memory: as asked for plus what the system reserves per block; registers: each
 * warp's rounded up to the granule (exact for blocks of a multiple of four warps: the split into four sub-cores is left out).
 * STATUS_INFEASIBLE naming need and limit when one block does not fit; STATUS_USAGE for 0 threads. */
bool blocks_per_sm(const Profile *profile, uint64_t smem_bytes, uint64_t threads, uint64_t registers_per_thread,
                   Occupancy *occupancy, Status *status);

/* ---------------------------------------------------------------------------------------------------------------- waves */

/* The counting model: `slots` blocks run at a time, the next wave starts when all have ended. */
typedef struct {
    uint64_t slots;       /* SMs * blocks per SM */
    uint64_t waves, last; /* ceil(blocks / slots); blocks in the last wave */
    Ratio utilisation;    /* blocks / (waves * slots) */
} Waves;

/* STATUS_INFEASIBLE when a product leaves 64 bits, STATUS_USAGE for 0 slots. */
bool count_waves(uint64_t blocks, uint64_t sm_count, uint64_t resident, Waves *waves, Status *status);

/* --------------------------------------------------------------------------------------------------------------- orders */

/* order: [count], the block numbers in the order in which they are handed out. A group, a section: that many consecutive blocks
 * (the last may be shorter); at least 1. */
void order_by_launch(uint64_t *order, uint64_t count);
void order_reversed_in_groups(uint64_t *order, uint64_t count, uint64_t group);
/* section >= count: plain LPT. False when there is no memory. */
bool order_longest_first(uint64_t *order, const uint64_t *work, uint64_t count, uint64_t section, Alloc *alloc, Status *status);

/* How many groups of this size a section takes: the largest power of two whose bytes fit the budget, at least 1. */
uint64_t groups_that_fit(uint64_t bytes_per_group, uint64_t budget_bytes);

/* ------------------------------------------------------------------------------------------------------------- schedule */

typedef struct {
    uint64_t sm_count;             /* at least 1 */
    uint64_t blocks_per_sm;        /* at least 1 */
    const uint64_t *time_per_work; /* [blocks_per_sm], each at least 1; NULL: 1, whoever else is resident */
} ChipSlots;

typedef struct {
    const uint64_t *work;  /* [count], by block number */
    const uint64_t *order; /* [count], a permutation; NULL: 0, 1, 2, ... */
    uint64_t count;
    uint64_t prologue, epilogue; /* time of each block beside its work; 0 with time_per_work */
    bool overlap;                /* persistent: hidden behind the neighbours' work */
} BlockList;

typedef struct {
    uint64_t sm;
    uint64_t start, end; /* prologue and epilogue included */
} BlockTime;

typedef struct {
    uint64_t work, blocks; /* of the blocks that ran there */
    uint64_t finish;       /* when the last of them ended */
} SmLoad;

typedef struct {
    Alloc *alloc;
    uint64_t count, sm_count, slots;
    BlockTime *blocks; /* [count], by block number */
    SmLoad *sms;       /* [sm_count] */
    uint64_t work;     /* sum over blocks */
    uint64_t makespan;
    uint64_t bound;   /* no schedule ends earlier: max(ceil(sum / slots), longest), with the times of the chip */
    uint64_t busy;    /* slot-time spent on work, prologues and epilogues left out */
    Ratio efficiency; /* bound / makespan */
    Ratio busy_share; /* busy / (slots * makespan) */
} ChipSchedule;

/* Schedules the list. STATUS_USAGE when `order` is no permutation, a chip has no slots, or prologue, epilogue or overlap are
 * given with time_per_work; STATUS_INFEASIBLE when a time leaves 64 bits. chip_schedule_free is the caller's even after a
 * failure. */
bool chip_schedule(ChipSchedule *schedule, const BlockList *list, const ChipSlots *chip, Alloc *alloc, Status *status);
void chip_schedule_free(ChipSchedule *schedule);

/* ------------------------------------------------------------------------------------------------------------ footprint */

/* Blocks of a group read the same data: block b the first bytes[b] bytes of those of group b / group_size. What the running
 * blocks need at a time, each group counted once, is their footprint. A footprint is no cache: it says whether data could be
 * shared, not what was. */
typedef struct {
    uint64_t peak_bytes, peak_time; /* the largest, and when first */
    uint64_t time_over;             /* time with a footprint above the capacity */
    uint64_t block_time_over;       /* running blocks summed over that time */
} Footprint;

bool schedule_footprint(const ChipSchedule *schedule, const uint64_t *bytes, uint64_t group_size, uint64_t capacity,
                        Footprint *footprint, Status *status);

#endif
