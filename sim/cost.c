/* cost.c - see cost.h. */
#include "cost.h"
#include "checked.h"

uint64_t cycles_at(uint64_t amount, uint64_t rate) { return rate == PROFILE_UNLIMITED || rate == 0 ? 0 : ceil_div(amount, rate); }

uint64_t tensor_rate(const Profile *profile, TensorInstruction instruction, ElementType type)
{
    const bool fp8 = type == ELEMENT_E4M3 || type == ELEMENT_E5M2;
    return fp8 && profile->fp8_flops_per_cycle_per_sm > 0 ? profile->fp8_flops_per_cycle_per_sm : profile_tensor_rate(profile, instruction);
}

/* Instructions per 8 elements of a tile, by one thread, beside those of exponentials. A scale rides on the multiply-add of the exponential that
 * follows; a conversion packs two elements; Philox takes about 60 instructions for four. */
static const uint8_t instructions_per_8[OPERATION_KINDS] = {
    [OP_FILL] = 8,
    [OP_CONVERT] = 4,
    [OP_MASK] = 16,
    [OP_SCALE] = 0,
    [OP_ADD] = 8,
    [OP_ROW_MAX] = 8,
    [OP_ROW_SUM] = 8,
    [OP_SCALE_ROWS] = 8,
    [OP_DIVIDE_ROWS] = 8,
    [OP_SUBTRACT_ROWS] = 8,
    [OP_MULTIPLY] = 8,
    [OP_ROW_DOT] = 8,
    [OP_RANDOM_KEEP] = 120,
    [OP_DROPOUT] = 16,
    [OP_ROWS_MAX] = 8,
    [OP_ROWS_MULTIPLY] = 8,
    [OP_ROWS_ADD] = 8,
    [OP_ROWS_LOG_SUM_EXP] = 24,
};

/* Blackwell does two float32 additions, multiplications or multiply-adds in one instruction, and takes the maximum of three (PTX ISA: f32x2, max.f32
 * with three operands; sm_100). */
static bool is_packed(Operation op)
{
    return op == OP_ADD || op == OP_ROW_MAX || op == OP_ROW_SUM || op == OP_SCALE_ROWS || op == OP_DIVIDE_ROWS || op == OP_SUBTRACT_ROWS ||
           op == OP_MULTIPLY || op == OP_ROW_DOT;
}

/* An exponential, per 8 elements, as compiled. With ex2 flushing small results to zero: scale and subtract, MUFU. Without: compare, scale up,
 * MUFU, scale down. PyTorch's FlashAttention-2 also multiplies and subtracts apart. Measured: the hardware's count of warp instructions per tile
 * (hw_profiles/measured/h200_counters.csv) leaves 8.1 per score to mma.sync kernels and 7.1 to cuDNN's; FlashAttention-4 by its source. cuDNN's are
 * multiply, subtract, MUFU (h200_opcodes.csv); the other two come with its wgmma, ten with each (descriptors to uniform registers, addresses, fences).
 * wgmma takes 32 bytes of the inner dimension, so they are one a score and byte of an element: half as many in FP8. */
static const uint8_t exponential_per_8[] = {[TENSOR_MMA_SYNC] = 48, [TENSOR_WGMMA] = 24, [TENSOR_TCGEN05] = 12};
enum { WGMMA_COMPANIONS_PER_8 = 8, USUAL_ELEMENT_BYTES = 2 };

static uint32_t companions_per_8(const Event *event)
{
    const uint32_t bytes = event->read[0] != NULL ? event->read[0]->product_element_bytes : 0;
    return event->instruction == TENSOR_WGMMA ? WGMMA_COMPANIONS_PER_8 * (bytes > 0 ? bytes : USUAL_ELEMENT_BYTES) : 0;
}

/* The polynomial exponential: scale and subtract, clamp, to integer and back, fraction, three multiply-adds, exponent added (machine code for
 * Hopper: 4 FFMA, 3 FADD, FMNMX, LEA). Packed, all but the last two are by pairs. */
static const uint8_t polynomial_per_8[] = {[TENSOR_MMA_SYNC] = 72, [TENSOR_WGMMA] = 72, [TENSOR_TCGEN05] = 44};

static uint64_t instructions_per_8_of(const Event *event)
{
    const bool exponential = event->operation == OP_EXP_ROWS || event->operation == OP_ROWS_EXP_DIFFERENCE;
    if (exponential) return exponential_per_8[event->instruction] + companions_per_8(event);
    return instructions_per_8[event->operation] / (event->instruction == TENSOR_TCGEN05 && is_packed(event->operation) ? 2U : 1U);
}

/* mma.sync kernels fetch operands from shared memory and copy tiles with instructions of their own: per 512 bytes (one ldmatrix.x4 or cp.async of
 * a warp) that one, its address and its share of the loop. Measured: 270 and 298 instructions per tile and warp at d = 64 and 128, of the same counters. */
enum { FRAGMENT_BYTES = 512, INSTRUCTIONS_PER_FRAGMENT = 3 };

static uint64_t fragment_instructions(uint64_t bytes) { return ceil_div(bytes, FRAGMENT_BYTES) * INSTRUCTIONS_PER_FRAGMENT; }

/* Cycles that so many instructions, divided among the stream's warps, take when a warp issues one every `interval` thousandths of a cycle. */
static uint64_t chain_cycles(const Stream *stream, uint64_t instructions, uint64_t interval)
{
    return ceil_div(ceil_div(instructions, max_u64(stream->warps, 1)) * interval, 1000);
}

/* A round trip to shared memory, as for a named barrier, and the instructions around it. Measured: 42 to 46 cycles for one warpgroup
 * (hw_profiles/measured/h200_barriers.csv). */
enum { MBARRIER_INSTRUCTIONS = 6 };

uint64_t copy_wait_cycles(const Profile *profile)
{
    return profile->barrier_latency_cycles + ceil_div(MBARRIER_INSTRUCTIONS * profile->issue_interval_millicycles_per_warp, 1000);
}

static void set_hold(Cost *cost, uint64_t hold)
{
    cost->hold = max_u64(cost->hold, hold);
    for (int unit = 0; unit < UNIT_KINDS; unit++) cost->hold = max_u64(cost->hold, cost->occupancy[unit]);
}

/* Elements that threads and tensor cores work on: the whole tile, live or not. */
static uint64_t whole(const Tile *tile)
{
    return tile->area == 0 ? 0 : max_u64(tile->area, (uint64_t)tile->max_rows * tile->max_cols);
}

/* The tile whose elements set the work: the widest that the operation reads or writes. */
static uint64_t work_elements(const Event *event)
{
    uint64_t elements = 0;
    if (event->operation == OP_CONVERT) return tile_elements_here(event->written[0]);     /* it may be a part of what is read */
    for (int i = 0; i < EVENT_TILES; i++) {
        if (event->read[i] != NULL) elements = max_u64(elements, whole(event->read[i]));
        if (event->written[i] != NULL) elements = max_u64(elements, whole(event->written[i]));
    }
    return elements;
}

static uint64_t touched_bytes(const Event *event)
{
    uint64_t bytes = 0;
    for (int i = 0; i < EVENT_TILES; i++) {
        const Tile *const tiles[] = {event->read[i], event->written[i]};
        for (int k = 0; k < 2; k++)
            if (tiles[k] != NULL && tiles[k]->space == SPACE_SHARED) bytes += tile_elements_here(tiles[k]) * tiles[k]->element_bytes;
    }
    return bytes;
}

static Cost thread_cost(const Profile *profile, const Event *event)
{
    const Operation op = event->operation;
    const bool statistic = op >= OP_ROWS_SCALE_ADD;             /* one value per row, computed by every lane that shares the row */
    const uint64_t elements = work_elements(event) * (statistic ? profile->row_statistic_lanes : 1), lanes = profile->warp_size;
    const uint64_t poly = op == OP_EXP_ROWS ? event->stream->poly_sixteenths : 0, mufu = 16 - poly;
    const uint64_t instructions = ceil_div(elements * mufu * instructions_per_8_of(event), 128 * lanes);      /* of all warps of the stream */
    const uint64_t polynomial = ceil_div(elements * poly * polynomial_per_8[event->instruction], 128 * lanes);
    Cost cost = {0};
    cost.occupancy[UNIT_ISSUE] = cycles_at(instructions + polynomial, profile->issue_slots_per_cycle_per_sm);
    if (op == OP_EXP_ROWS || op == OP_ROWS_EXP_DIFFERENCE) cost.occupancy[UNIT_MUFU] = cycles_at(ceil_div(elements * mufu, 16), profile->mufu_ops_per_cycle_per_sm);
    cost.occupancy[UNIT_SHARED] = cycles_at(touched_bytes(event), profile->smem_bytes_per_cycle_per_sm);
    set_hold(&cost, chain_cycles(event->stream, instructions, profile->issue_interval_millicycles_per_warp) +
                        chain_cycles(event->stream, polynomial, profile->independent_interval_millicycles_per_warp));
    return cost;
}

/* wgmma takes 64 rows, up to 256 columns and 32 bytes of the inner dimension. A warpgroup issues until the queue is full and then stands still:
 * it goes on when no more than the queue holds is left to do. */
static uint64_t queued_at(const Profile *profile, const Event *event, uint64_t cycles)
{
    const Tile *c = event->written[0];
    const uint64_t steps = ceil_div((uint64_t)c->depth * event->read[0]->element_bytes, 32);
    const uint64_t instructions = max_u64(ceil_div(c->rows, 64) * ceil_div(c->cols, 256) * steps, 1);
    if (event->instruction != TENSOR_WGMMA || instructions <= profile->wgmma_queue_instructions) return 0;
    return cycles - cycles * profile->wgmma_queue_instructions / instructions;
}

/* Warps of a stream that one of the SM's four schedulers has. */
static uint64_t warps_per_scheduler(const Stream *stream) { return max_u64(stream->warps / 4, 1); }

/* A warp multiplies in its share of the tensor cores' time and fetches fragments before and after; warps of one scheduler cover for each other. */
static Cost matmul_cost(const Profile *profile, const Event *event)
{
    const Tile *c = event->written[0];
    const bool synchronous = event->instruction == TENSOR_MMA_SYNC;
    const uint64_t instructions = synchronous ? fragment_instructions(c->product_operand_bytes) : 0;
    Cost cost = {0};
    const uint64_t flops = c->area > 0 ? c->product_flops / c->area * whole(c) : c->product_flops;
    cost.occupancy[UNIT_TENSOR] = cycles_at(flops, tensor_rate(profile, event->instruction, event->read[0]->type));
    cost.occupancy[UNIT_SHARED] = cycles_at(c->product_operand_bytes, profile->smem_bytes_per_cycle_per_sm);
    cost.occupancy[UNIT_ISSUE] = cycles_at(instructions, profile->issue_slots_per_cycle_per_sm);
    cost.queued_at = queued_at(profile, event, cost.occupancy[UNIT_TENSOR]);
    const uint64_t chain = chain_cycles(event->stream, instructions, profile->issue_interval_millicycles_per_warp);
    const uint64_t own = cost.occupancy[UNIT_TENSOR] / warps_per_scheduler(event->stream) + chain;
    set_hold(&cost, max_u64(cost.occupancy[UNIT_TENSOR], own) + (synchronous ? profile->mma_sync_startup_cycles : profile->matmul_startup_cycles));
    return cost;
}

/* Cycles in which one SM draws so many bytes from L2; both rates in millions, so that the product stays below 2^64. */
static uint64_t copy_cycles(const Profile *profile, uint64_t bytes)
{
    const uint64_t rate = profile->l2_bytes_per_second_per_sm;
    if (rate == PROFILE_UNLIMITED) return 0;
    return ceil_div(bytes * (profile->tensor_clock_hz / 1000000), max_u64(rate / 1000000, 1));
}

static Cost copy_cost(const Profile *profile, const Event *event)
{
    const bool is_load = event->operation == OP_LOAD;
    const Tile *tile = is_load ? event->written[0] : event->read[0];
    const uint64_t bytes = tile_elements_here(tile) * element_bytes(event->tensor->type);
    Cost cost = {0};
    cost.occupancy[UNIT_COPY] = copy_cycles(profile, bytes);
    if (event->operation == OP_ATOMIC_ADD && tile->space == SPACE_SHARED)       /* the one copy that the FlashAttention-4 paper charges there */
        cost.occupancy[UNIT_SHARED] = cycles_at(bytes, profile->smem_bytes_per_cycle_per_sm);
    if (event->instruction == TENSOR_MMA_SYNC && event->async) cost.issue = chain_cycles(event->stream, fragment_instructions(bytes), profile->issue_interval_millicycles_per_warp);
    set_hold(&cost, cost.occupancy[UNIT_COPY] + (is_load ? profile->l2_latency_cycles : 0));
    return cost;
}

Cost operation_cost(const Profile *profile, const Event *event)
{
    switch (event->operation) {
    case OP_LOAD:
    case OP_STORE:
    case OP_ATOMIC_ADD: return copy_cost(profile, event);
    case OP_MATMUL: return matmul_cost(profile, event);
    case OP_ARRIVE: return (Cost){0};
    case OP_SYNC: return (Cost){.hold = profile->barrier_latency_cycles};
    default: return thread_cost(profile, event);
    }
}
