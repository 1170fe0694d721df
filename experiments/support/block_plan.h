/* block_plan.h - the thread blocks of an attention launch as work for a chip's SMs: how long each is, and in which order they go
 * (§4.5, §4.6).
 *
 * The work of a query block is the number of key blocks that it sees, by the same visible_key_blocks that the kernels walk.
 * chip_schedule.h hands the blocks out.
 */
#ifndef ATTNLAB_BLOCK_PLAN_H
#define ATTNLAB_BLOCK_PLAN_H

#include "experiment.h"

#include "algos/run.h"

#include "sim/chip_schedule.h"

typedef enum { NATURAL, REVERSED, LONGEST_FIRST, SECTIONS, ORDERS } Order;

extern const char *const order_names[ORDERS]; /* "natural", "reversed", "LPT", "sections" */

/* The blocks of a launch, head by head. */
typedef struct {
    Attention attention;                /* shape, blocks and band; it has no tensors */
    uint64_t Tr, count;                 /* blocks of a head, of the launch */
    uint64_t group;                     /* consecutive blocks that read one K/V head */
    uint64_t kv_head_bytes, tile_bytes; /* K and V of one head; of one key block */
    uint64_t work_sum, kv_asked;        /* tiles; bytes of K and V that all blocks read */
    uint64_t *work, *bytes;             /* [count]: tiles; bytes of K and V that the block reads */
    uint64_t *order;                    /* [count] */
} Plan;

/* plan_free is the caller's even after a failure: STATUS_USAGE for a bad shape, STATUS_INFEASIBLE for more than 2^22 blocks. */
bool plan_launch(const Context *context, Plan *plan, const AttentionShape *shape, TileSize tiles);
void plan_free(const Context *context, Plan *plan);

/* Fills plan->order. False when there is no memory. */
bool plan_order(const Context *context, Plan *plan, Order order);
/* In this order on this chip. chip_schedule_free is the caller's. */
bool schedule_plan(const Context *context, Plan *plan, Order order, const ChipSlots *chip, ChipSchedule *schedule);

/* Natural order against longest first, one block per SM. */
typedef struct {
    uint64_t natural, longest;                    /* makespans, in key blocks */
    Ratio natural_efficiency, longest_efficiency; /* bound / makespan */
} OrderGain;

bool order_gain(const Context *context, const Profile *chip, const AttentionShape *shape, TileSize tiles, OrderGain *gain);

/* A persistent kernel: as many blocks as the chip holds of cuDNN 9.19's Hopper kernel (the class of FlashAttention-3), by its
 * counters. */
bool persistent_blocks(const Context *context, const Profile *chip, uint64_t *blocks);

/* What it gains by hiding the beginnings and ends of its tasks behind its neighbours' work. Prologue: an HBM latency and two
 * tiles of 128 x 128 at what one SM can draw; epilogue: an L2 latency and one tile. */
typedef struct {
    uint64_t workers;
    uint64_t prologue, epilogue, task; /* cycles; task: of the first block's work */
    uint64_t apart, overlapped;        /* makespans in cycles */
} Persistent;

/* tflops: at which the work itself runs, 128 x 128 tiles at d = 128. The plan's work becomes cycles. */
bool plan_persistent(const Context *context, Plan *plan, const Profile *chip, uint64_t tflops, Persistent *result);

#endif
