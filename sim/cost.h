/* cost.h - what one tile operation costs on one SM: how long it occupies each unit, and how long it holds its stream.
 *
 * Units serve one operation at a time. An operation takes all its units together at its start, each for its own occupancy; its result is
 * there, and a blocking stream goes on, after `hold` (at least the longest occupancy). Hold and occupancy differ: a warp alone issues an
 * instruction only every 2.7 cycles, yet leaves the issue slots in between to others.
 *
 *     tensor cores   2 M N K / (FLOP per cycle of the instruction class and type)
 *     MUFU           exponentials / 16
 *     issue          warp instructions / 4 slots; per element of a tile as cost.c lists, by what compilers make of each class of kernels
 *     shared memory  operand bytes that the instruction reads (InstructionShape, spaces of the operands), and bytes of threads, / 128
 *                    (of copies only additions to L2 from there, as the FlashAttention-4 paper counts)
 *     copy           bytes between L2 and the block / the rate of one SM; hold: L2 latency more
 *
 * A product by mma.sync (its stream waits for it) holds longer than the tensor cores take: its warps fetch fragments with instructions of their own and
 * start cold. One by wgmma is asynchronous, but its warpgroup issues at most so many instructions ahead and stands still while the queue
 * is full (`queued_at`): FlashAttention-3's products of the next tile delay the softmax that they should overlap.
 *
 * All cycles are integers, rounded up. A rate that the profile calls unlimited costs nothing: on `ideal_sm` only products and exponentials
 * take time. Left out: bank conflicts, register traffic, tensor memory, two warpgroups' products that interleave.
 */
#ifndef ATTNLAB_COST_H
#define ATTNLAB_COST_H

#include "machine.h"

typedef struct {
    uint64_t occupancy[UNIT_KINDS];     /* cycles */
    uint64_t hold;                      /* cycles, at least the longest occupancy */
    uint64_t issue;                     /* an asynchronous operation: cycles that its stream takes to issue it */
    uint64_t queued_at;                 /* the same: its stream goes on no earlier than this many cycles after its start; 0: it need not have started */
} Cost;

/* The cost of an operation as it is reported, with its tiles as they are then. */
Cost operation_cost(const Profile *profile, const Event *event);

/* Cycles in which a stream finds out at an mbarrier that a copy is complete. */
uint64_t copy_wait_cycles(const Profile *profile);

/* Cycles of work at a rate per cycle, rounded up; 0 when the rate is unlimited. */
uint64_t cycles_at(uint64_t amount, uint64_t rate);

/* FLOP per cycle and SM for operands of this type by this instruction class. */
uint64_t tensor_rate(const Profile *profile, TensorInstruction instruction, ElementType type);

#endif
