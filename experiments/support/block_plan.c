/* block_plan.c - see block_plan.h. */
#include "block_plan.h"

#include "sim/checked.h"

/* ---- the blocks ---- */

const char *const order_names[ORDERS] = {"natural", "reversed", "LPT", "sections"};

#define SECTION_BYTES (UINT64_C(32) << 20) /* FlashAttention-3's budget */

/* Scheduled in four orders in some seconds. */
#define MOST_BLOCKS (UINT64_C(1) << 22)

void plan_free(const Context *context, Plan *plan)
{
    alloc_free(context->alloc, plan->work);
    alloc_free(context->alloc, plan->bytes);
    alloc_free(context->alloc, plan->order);
}

static bool plan_sizes(const Context *context, Plan *plan, const AttentionShape *shape, TileSize tiles)
{
    Status *status = context->status;
    if (!attention_check(shape, status)) return false;
    plan->attention = (Attention){.shape = *shape, .Br = tiles.Br, .Bc = tiles.Bc, .band = attention_band(shape)};
    plan->Tr = query_blocks(&plan->attention);
    const uint64_t heads = checked_mul(shape->batch, shape->heads, "heads (batch * heads)", status);
    plan->count = checked_mul(heads, plan->Tr, "blocks (batch * heads * ceil(N / Br))", status);
    if (status_ok(status) && plan->count > MOST_BLOCKS)
        return status_fail(status, STATUS_INFEASIBLE, "%" PRIu64 " thread blocks are too many to schedule (at most %" PRIu64 ")",
                           plan->count, MOST_BLOCKS);
    plan->group = max_u64(plan->Tr * group_size(&plan->attention), 1);
    const uint64_t row = 2 * shape->head_dim * element_bytes(shape->dtype); /* of K and of V */
    plan->tile_bytes = row * tiles.Bc;
    plan->kv_head_bytes = checked_mul(row, shape->seqlen_k, "K and V of a head", status);
    return status_ok(status);
}

bool plan_launch(const Context *context, Plan *plan, const AttentionShape *shape, TileSize tiles)
{
    const char *what = "blocks of a launch";
    *plan = (Plan){0};
    if (!plan_sizes(context, plan, shape, tiles)) return false;
    plan->work = alloc_array(context->alloc, plan->count, sizeof *plan->work, what, context->status);
    plan->bytes = alloc_array(context->alloc, plan->count, sizeof *plan->bytes, what, context->status);
    plan->order = alloc_array(context->alloc, plan->count, sizeof *plan->order, what, context->status);
    if (!status_ok(context->status)) return false;
    const uint64_t row = 2 * shape->head_dim * element_bytes(shape->dtype);
    for (uint64_t b = 0; b < plan->count; b++) {
        if (b >= plan->Tr) { /* as in the first head */
            plan->work[b] = plan->work[b - plan->Tr];
            plan->bytes[b] = plan->bytes[b - plan->Tr];
        } else {
            const BlockRange keys = visible_key_blocks(&plan->attention, b);
            plan->work[b] = keys.end - keys.first;
            plan->bytes[b] = plan->work[b] > 0 ? row * min_u64(keys.end * tiles.Bc, shape->seqlen_k) : 0;
        }
        plan->work_sum += plan->work[b];
        plan->kv_asked = checked_add(plan->kv_asked, plan->bytes[b], "bytes of K and V read", context->status);
    }
    return status_ok(context->status);
}

/* Query blocks of a section: those of as many K/V heads as fit. */
static uint64_t section_blocks(const Plan *plan)
{
    return groups_that_fit(plan->kv_head_bytes, SECTION_BYTES) * plan->group; /* at most 2^25 * MOST_BLOCKS */
}

bool plan_order(const Context *context, Plan *plan, Order order)
{
    order_by_launch(plan->order, plan->count);
    if (order == REVERSED) order_reversed_in_groups(plan->order, plan->count, max_u64(plan->Tr, 1));
    if (order == LONGEST_FIRST || order == SECTIONS) {
        const uint64_t section = order == SECTIONS ? section_blocks(plan) : max_u64(plan->count, 1);
        return order_longest_first(plan->order, plan->work, plan->count, section, context->alloc, context->status);
    }
    return true;
}

bool schedule_plan(const Context *context, Plan *plan, Order order, const ChipSlots *chip, ChipSchedule *schedule)
{
    *schedule = (ChipSchedule){0};
    if (!plan_order(context, plan, order)) return false;
    const BlockList list = {.work = plan->work, .order = plan->order, .count = plan->count};
    return chip_schedule(schedule, &list, chip, context->alloc, context->status);
}

bool order_gain(const Context *context, const Profile *chip, const AttentionShape *shape, TileSize tiles, OrderGain *gain)
{
    const ChipSlots slots = {chip->sm_count, 1, NULL};
    ChipSchedule natural = {0}, longest = {0};
    Plan plan;
    const bool ok = plan_launch(context, &plan, shape, tiles) && schedule_plan(context, &plan, NATURAL, &slots, &natural) &&
                    schedule_plan(context, &plan, LONGEST_FIRST, &slots, &longest);
    *gain = (OrderGain){natural.makespan, longest.makespan, natural.efficiency, longest.efficiency};
    chip_schedule_free(&natural);
    chip_schedule_free(&longest);
    plan_free(context, &plan);
    return ok;
}

/* ---- a persistent kernel ---- */

/* Cycles to read or write `bytes` by one SM alone, after `latency`. */
static uint64_t transfer_cycles(const Profile *chip, uint64_t bytes, uint64_t latency)
{
    const uint64_t per_second = chip->l2_bytes_per_second_per_sm;
    return latency + ceil_div(bytes * (chip->tensor_clock_hz / 1000000), per_second / 1000000);
}

bool persistent_blocks(const Context *context, const Profile *chip, uint64_t *blocks)
{
    Occupancy occupancy;
    if (!blocks_per_sm(chip, 232448, 384, 168, &occupancy, context->status)) return false;
    *blocks = chip->sm_count * occupancy.blocks;
    return true;
}

static bool persistent_makespan(const Context *context, const Plan *plan, BlockList list, uint64_t workers, uint64_t *makespan)
{
    ChipSchedule s;
    list.work = plan->work;
    list.count = plan->count;
    const bool ok = chip_schedule(&s, &list, &(ChipSlots){workers, 1, NULL}, context->alloc, context->status);
    *makespan = s.makespan;
    chip_schedule_free(&s);
    return ok;
}

bool plan_persistent(const Context *context, Plan *plan, const Profile *chip, uint64_t tflops, Persistent *result)
{
    const uint64_t tile_flops = UINT64_C(4) * 128 * 128 * 128, tile = 128 * 128 * 2, megahertz = chip->tensor_clock_hz / 1000000;
    const uint64_t cycles = tile_flops * chip->sm_count * megahertz / (tflops * 1000000);
    *result = (Persistent){.prologue = transfer_cycles(chip, 2 * tile, chip->hbm_latency_cycles),
                           .epilogue = transfer_cycles(chip, tile, chip->l2_latency_cycles)};
    const BlockList apart = {.prologue = result->prologue, .epilogue = result->epilogue};
    BlockList overlapped = apart;
    overlapped.overlap = true;
    if (!persistent_blocks(context, chip, &result->workers)) return false;
    for (uint64_t b = 0; b < plan->count; b++) plan->work[b] *= cycles;
    result->task = plan->count > 0 ? plan->work[0] : 0;
    return persistent_makespan(context, plan, apart, result->workers, &result->apart) &&
           persistent_makespan(context, plan, overlapped, result->workers, &result->overlapped);
}
