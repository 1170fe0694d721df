/* launch_time.h - how long one launch takes on the whole chip. Used by launch(); not for kernels.
 *
 * Blocks that do the same work (BlockWork::hash) take the same time; one of each is simulated (timeline.h), once alone and once with as many
 * copies as an SM holds. A causal launch has blocks of every length: as soon as two more tiles add the same cycles four times in a
 * row, the others follow by that step (tests compare with the full simulation). The blocks then go to the SMs in launch order
 * (chip_schedule.h), and the launch ends no earlier than its bytes can be moved at the chip's L2 and HBM bandwidth.
 * Blocks on all SMs share L2's bandwidth; those on a few draw the part of HBM's that bandwidth.h gives. Cycles become nanoseconds at the clock that
 * the power limit leaves: the more the tensor cores multiply, the lower it is.
 * Left out: L2 misses (the HBM bytes are those of the ledger), and the launch itself (machine_nanoseconds adds one).
 */
#ifndef ATTNLAB_LAUNCH_TIME_H
#define ATTNLAB_LAUNCH_TIME_H

#include "machine.h"

/* What one block of the walked head does. */
typedef struct {
    uint64_t hash;
    uint64_t loads;
    uint64_t index;
} BlockWork;

/* works: [grid.blocks], in launch order. Fills record->time. */
bool time_launch(Machine *machine, const Kernel *kernel, Grid grid, const void *arguments, const BlockWork *works, LaunchRecord *record);

/* Blocks of this kernel that an SM holds at once, by occupancy and tensor memory. `record` says what a block held. STATUS_INFEASIBLE when not one
 * fits. */
bool blocks_held_by_sm(const Machine *machine, const Kernel *kernel, const LaunchRecord *record, uint64_t *blocks);

/* Blocks apart from launch(): one that can be run again and again. NULL when memory is short. */
Block *block_new(Machine *machine, const Kernel *kernel, Grid grid);
void block_begin(Block *block, uint64_t batch, uint64_t head, uint64_t index);
void block_free(Block *block);

#endif
