/* cost.c - see cost.h. */
#include "cost.h"
#include "checked.h"

uint64_t cycles_at(uint64_t amount, uint64_t rate) { return rate == PROFILE_UNLIMITED || rate == 0 ? 0 : ceil_div(amount, rate); }

uint64_t tensor_rate(const Profile *profile, TensorInstruction instruction, ElementType type)
{
    const bool fp8 = type == ELEMENT_E4M3 || type == ELEMENT_E5M2;
    return fp8 && profile->fp8_flops_per_cycle_per_sm > 0 ? profile->fp8_flops_per_cycle_per_sm : profile_tensor_rate(profile, instruction);
}

/* Instructions per 8 elements of a tile, by one thread; MUFU's own instruction included. A scale rides on the multiply-add of the exponential
 * that follows; a conversion packs two elements; Philox takes about 60 instructions for four. */
static const uint8_t instructions_per_8[OPERATION_KINDS] = {
    [OP_FILL] = 8,
    [OP_CONVERT] = 4,
    [OP_MASK] = 16,
    [OP_SCALE] = 0,
    [OP_ADD] = 8,
    [OP_ROW_MAX] = 8,
    [OP_EXP_ROWS] = 16,
    [OP_ROW_SUM] = 8,
    [OP_SCALE_ROWS] = 8,
    [OP_DIVIDE_ROWS] = 8,
    [OP_SUBTRACT_ROWS] = 8,
    [OP_MULTIPLY] = 8,
    [OP_ROW_DOT] = 8,
    [OP_RANDOM_KEEP] = 120,
    [OP_DROPOUT] = 16,
    [OP_ROWS_EXP_DIFFERENCE] = 16,
    [OP_ROWS_MAX] = 8,
    [OP_ROWS_MULTIPLY] = 8,
    [OP_ROWS_ADD] = 8,
    [OP_ROWS_LOG_SUM_EXP] = 24,
};

/* The polynomial exponential, per 8 elements: scale and subtract, clamp, to integer and back, fraction, three multiply-adds, exponent added
 * (machine code for Hopper: 4 FFMA, 3 FADD, FMNMX, LEA). */
enum { POLY_EXP_INSTRUCTIONS_PER_8 = 72 };

static void set_hold(Cost *cost, uint64_t hold)
{
    cost->hold = max_u64(cost->hold, hold);
    for (int unit = 0; unit < UNIT_KINDS; unit++) cost->hold = max_u64(cost->hold, cost->occupancy[unit]);
}

/* The tile whose elements set the work: the widest that the operation reads or writes. */
static uint64_t work_elements(const Event *event)
{
    uint64_t elements = 0;
    if (event->operation == OP_CONVERT) return tile_elements_here(event->written[0]);     /* it may be a part of what is read */
    for (int i = 0; i < EVENT_TILES; i++) {
        if (event->read[i] != NULL) elements = max_u64(elements, event->read[i]->area);
        if (event->written[i] != NULL) elements = max_u64(elements, event->written[i]->area);
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
    const uint64_t elements = work_elements(event) * (statistic ? profile->row_statistic_lanes : 1), warps = max_u64(event->stream->warps, 1), lanes = profile->warp_size;
    const uint64_t poly = op == OP_EXP_ROWS ? event->stream->poly_sixteenths : 0, mufu = 16 - poly;
    const uint64_t per_128 = mufu * instructions_per_8[op] + poly * POLY_EXP_INSTRUCTIONS_PER_8;
    const uint64_t instructions = ceil_div(elements * per_128, 128 * lanes);      /* of all warps of the stream */
    Cost cost = {0};
    cost.occupancy[UNIT_ISSUE] = cycles_at(instructions, profile->issue_slots_per_cycle_per_sm);
    if (op == OP_EXP_ROWS || op == OP_ROWS_EXP_DIFFERENCE) cost.occupancy[UNIT_MUFU] = cycles_at(ceil_div(elements * mufu, 16), profile->mufu_ops_per_cycle_per_sm);
    cost.occupancy[UNIT_SHARED] = cycles_at(touched_bytes(event), profile->smem_bytes_per_cycle_per_sm);
    /* A polynomial is a chain of dependent instructions; MUFU's elements beside it are not, and go into the gaps, one a cycle at most. As
     * measured on a warp alone: 23 cycles per polynomial, 1.8 per MUFU element (hw_profiles/measured/h200_exp_warps.csv). */
    const uint64_t chained = op == OP_EXP_ROWS ? ceil_div(elements * poly * POLY_EXP_INSTRUCTIONS_PER_8, 128 * lanes) : instructions;
    const uint64_t beside = ceil_div(instructions - chained, warps);
    set_hold(&cost, beside + ceil_div(ceil_div(chained, warps) * profile->issue_interval_millicycles_per_warp, 1000));
    return cost;
}

static Cost matmul_cost(const Profile *profile, const Event *event)
{
    const Tile *c = event->written[0];
    Cost cost = {0};
    cost.occupancy[UNIT_TENSOR] = cycles_at(c->product_flops, tensor_rate(profile, event->instruction, event->read[0]->type));
    cost.occupancy[UNIT_SHARED] = cycles_at(c->product_operand_bytes, profile->smem_bytes_per_cycle_per_sm);
    set_hold(&cost, cost.occupancy[UNIT_TENSOR] + profile->matmul_startup_cycles);
    return cost;
}

/* Bytes per cycle that one SM draws from L2. */
static uint64_t copy_rate(const Profile *profile)
{
    if (profile->l2_bytes_per_second_per_sm == PROFILE_UNLIMITED) return PROFILE_UNLIMITED;
    return max_u64(profile->l2_bytes_per_second_per_sm / profile->tensor_clock_hz, 1);
}

static Cost copy_cost(const Profile *profile, const Event *event)
{
    const bool is_load = event->operation == OP_LOAD;
    const Tile *tile = is_load ? event->written[0] : event->read[0];
    const uint64_t bytes = tile_elements_here(tile) * element_bytes(event->tensor->type);
    Cost cost = {0};
    cost.occupancy[UNIT_COPY] = cycles_at(bytes, copy_rate(profile));
    if (event->operation == OP_ATOMIC_ADD && tile->space == SPACE_SHARED)       /* the one copy that the FlashAttention-4 paper charges there */
        cost.occupancy[UNIT_SHARED] = cycles_at(bytes, profile->smem_bytes_per_cycle_per_sm);
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
