/* launch_time.c - see launch_time.h. */
#include "launch_time.h"
#include "bandwidth.h"
#include "checked.h"
#include "chip_schedule.h"
#include "timeline.h"

#include <stdlib.h>
#include <string.h>

enum { STEADY = 4, MAX_RESIDENT = TIMELINE_STREAMS / MAX_STREAMS - 1, SCALE = 1000 };

/* One kind of block. */
typedef struct {
    BlockWork work;                 /* of the first such block */
    uint64_t alone, together;       /* cycles: by itself, and with resident - 1 others like it */
    uint64_t busy[UNIT_KINDS];      /* of one block */
    uint32_t id;                    /* in the order of discovery */
} BlockClass;

typedef struct {
    Machine *machine;
    const Kernel *kernel;
    Grid grid;
    const void *arguments;
    Profile profile;                /* the chip as one of its busy SMs sees it */
    Timeline timeline;
    BlockClass *classes;            /* ascending by loads */
    uint64_t count, capacity;
    uint64_t resident;
    CriticalPath path;              /* of the class with the most loads that was simulated */
} Timing;

/* Records `copies` blocks like this one and simulates them. */
static bool simulate(Timing *t, uint64_t index, uint64_t copies)
{
    Machine *machine = t->machine;
    const MachineConfig config = machine->config;
    machine->config.observe = timeline_observe;
    machine->config.observer = &t->timeline;
    timeline_clear(&t->timeline);
    for (uint64_t copy = 0; copy < copies && status_ok(machine->status); copy++) {
        if (copy > 0) timeline_next_block(&t->timeline);
        Block *block = block_new(machine, t->kernel, t->grid);
        if (block == NULL) break;
        block_begin(block, 0, 0, index);
        t->kernel->run(block, t->arguments, index);
        block_free(block);
    }
    machine->config = config;
    return status_ok(machine->status) && timeline_run(&t->timeline);
}

static bool simulate_class(Timing *t, BlockClass *c)
{
    if (!simulate(t, c->work.index, 1)) return false;
    c->alone = t->timeline.makespan;
    memcpy(c->busy, t->timeline.busy, sizeof c->busy);
    c->together = c->alone;
    if (t->resident > 1) {
        if (!simulate(t, c->work.index, t->resident)) return false;
        c->together = t->timeline.makespan;
    }
    t->path = timeline_critical_path(&t->timeline);
    return true;
}

static int by_loads(const void *a, const void *b)
{
    const BlockClass *x = a, *y = b;
    if (x->work.loads != y->work.loads) return x->work.loads < y->work.loads ? -1 : 1;
    return x->work.index < y->work.index ? -1 : x->work.index > y->work.index;
}

/* Ascending by loads; class_of follows. */
static bool sort_classes(Timing *t, uint32_t *class_of)
{
    uint32_t *place = alloc_array(t->machine->alloc, t->count, sizeof *place, "block classes", t->machine->status);
    if (place == NULL) return false;
    qsort(t->classes, t->count, sizeof *t->classes, by_loads);
    for (uint32_t i = 0; i < t->count; i++) place[t->classes[i].id] = i;
    for (uint64_t i = 0; i < t->grid.blocks; i++) class_of[i] = place[class_of[i]];
    alloc_free(t->machine->alloc, place);
    return true;
}

/* The classes of a launch, found through a small open hash table of their hashes. */
static bool find_classes(Timing *t, const BlockWork *works, uint32_t *class_of)
{
    Alloc *alloc = t->machine->alloc;
    uint64_t slots = 16;
    while (slots < 2 * t->grid.blocks) slots *= 2;
    uint32_t *table = alloc_array(alloc, slots, sizeof *table, "block classes", t->machine->status);
    t->classes = alloc_array(alloc, t->grid.blocks, sizeof *t->classes, "block classes", t->machine->status);
    for (uint64_t i = 0; table != NULL && t->classes != NULL && i < t->grid.blocks; i++) {
        uint64_t slot = works[i].hash & (slots - 1);
        while (table[slot] != 0 && t->classes[table[slot] - 1].work.hash != works[i].hash) slot = (slot + 1) & (slots - 1);
        if (table[slot] == 0) {
            t->classes[t->count] = (BlockClass){.work = works[i], .id = (uint32_t)t->count};
            table[slot] = (uint32_t)++t->count;
        }
        class_of[i] = table[slot] - 1;
    }
    alloc_free(alloc, table);
    return status_ok(t->machine->status) && sort_classes(t, class_of);
}

/* What a longer loop adds from one class to the next. */
typedef struct {
    uint64_t loads, alone, together, busy[UNIT_KINDS];
} Step;

static Step step_between(const BlockClass *a, const BlockClass *b)
{
    Step step = {b->work.loads - a->work.loads, b->alone - a->alone, b->together - a->together, {0}};
    for (int unit = 0; unit < UNIT_KINDS; unit++) step.busy[unit] = b->busy[unit] - a->busy[unit];
    return step;
}

static bool same_step(const Step *a, const Step *b)
{
    return a->loads == b->loads && a->alone == b->alone && a->together == b->together && memcmp(a->busy, b->busy, sizeof a->busy) == 0;
}

/* c = from + as many steps as the loads between them make; false when they make no whole number. */
static bool extend(BlockClass *c, const BlockClass *from, const Step *step)
{
    const uint64_t loads = c->work.loads - from->work.loads;
    if (step->loads == 0 || loads % step->loads != 0) return false;
    const uint64_t steps = loads / step->loads;
    c->alone = from->alone + steps * step->alone;
    c->together = from->together + steps * step->together;
    for (int unit = 0; unit < UNIT_KINDS; unit++) c->busy[unit] = from->busy[unit] + steps * step->busy[unit];
    return true;
}

/* Simulates from the shortest on. A step spans two classes, because a ring of two stages may repeat only every other tile, and twice the
 * period when the kernel has one; once STEADY steps in a row were the same, the next classes follow by that step. */
static bool time_classes(Timing *t)
{
    const uint64_t span = 2 * max_u64(t->kernel->period, 1);
    Step step = {0};
    uint64_t steady = 0;
    for (uint64_t i = 0; i < t->count; i++) {
        BlockClass *c = &t->classes[i];
        if (steady >= STEADY && extend(c, &t->classes[i - span], &step)) continue;
        if (!simulate_class(t, c)) return false;
        if (i < span) continue;
        const Step next = step_between(&t->classes[i - span], c);
        steady = next.loads > 0 && same_step(&next, &step) ? steady + 1 : 1;
        step = next;
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------------------- on the chip */

static uint64_t bandwidth_cycles(uint64_t bytes, uint64_t bytes_per_second, uint64_t clock_hz)
{
    if (bytes_per_second == PROFILE_UNLIMITED || bytes_per_second == 0) return 0;
    /* bytes / (bytes per second) * clock, without leaving 64 bits: whole seconds apart */
    const uint64_t seconds = bytes / bytes_per_second, rest = bytes % bytes_per_second;
    return seconds * clock_hz + ceil_div(rest / 1000 * (clock_hz / 1000), max_u64(bytes_per_second / 1000000, 1));
}

/* What the launch's bytes take; HBM, whose clock is its own, in nanoseconds as well. */
static uint64_t memory_times(const Machine *machine, LaunchRecord *record)
{
    uint64_t l2 = 0, hbm = 0;
    for (uint32_t i = 0; i < record->row_count; i++) {
        const LedgerRow *row = &machine->ledger[record->first_row + i];
        const uint64_t bytes = element_bytes(row->tensor->type);
        l2 += (row->traffic.l2_to_sm + row->traffic.sm_to_l2) * bytes;
        hbm += (row->traffic.hbm_read + row->traffic.hbm_write) * bytes;
    }
    const Profile *p = machine->profile;
    record->time.l2_cycles = bandwidth_cycles(l2, p->l2_bytes_per_second_per_chip, p->tensor_clock_hz);
    const uint64_t nanoseconds = hbm_nanoseconds(p, hbm, min_u64(record->blocks, p->sm_count));
    record->time.hbm_cycles = nanoseconds / 1000 * (p->tensor_clock_hz / 1000000) + nanoseconds % 1000 * (p->tensor_clock_hz / 1000000) / 1000;
    return nanoseconds;
}

/* All blocks of the launch, head by head, on the SMs. A block's work is its time alone; while k are resident a cycle of work takes longer, by
 * the ratio that the longest class shows. */
static bool schedule_blocks(Timing *t, const uint32_t *class_of, LaunchRecord *record)
{
    Machine *machine = t->machine;
    const uint64_t heads = t->grid.heads * t->grid.batch, count = record->blocks;
    uint64_t *work = alloc_array(machine->alloc, count, sizeof *work, "block times", machine->status);
    if (work == NULL) return false;
    for (uint64_t h = 0; h < heads; h++)
        for (uint64_t i = 0; i < t->grid.blocks; i++) {
            const BlockClass *c = &t->classes[class_of[i]];
            work[h * t->grid.blocks + i] = max_u64(c->alone, 1);
            for (int unit = 0; unit < UNIT_KINDS; unit++) record->time.busy[unit] += c->busy[unit];
        }
    const BlockClass *longest = &t->classes[t->count - 1];
    uint64_t time_per_work[MAX_RESIDENT];
    for (uint64_t k = 1; k <= t->resident; k++) {       /* between alone and all together: a straight line */
        const uint64_t extra = longest->together > longest->alone ? longest->together - longest->alone : 0;
        time_per_work[k - 1] = SCALE + (t->resident > 1 ? extra * SCALE * (k - 1) / ((t->resident - 1) * max_u64(longest->alone, 1)) : 0);
    }
    const ChipSlots chip = {.sm_count = machine->profile->sm_count, .blocks_per_sm = t->resident, .time_per_work = time_per_work};
    const BlockList list = {.work = work, .count = count};
    ChipSchedule schedule;
    const bool ok = chip_schedule(&schedule, &list, &chip, machine->alloc, machine->status);
    if (ok) record->time.sm_cycles = ceil_div(schedule.makespan, SCALE);
    chip_schedule_free(&schedule);
    alloc_free(machine->alloc, work);
    return ok;
}

/* SMs that all read at once get their share of L2's bandwidth, not what one gets alone. */
static void share_l2(Profile *profile, uint64_t busy_sms)
{
    if (profile->l2_bytes_per_second_per_chip == PROFILE_UNLIMITED || busy_sms == 0) return;
    profile->l2_bytes_per_second_per_sm = min_u64(profile->l2_bytes_per_second_per_sm, profile->l2_bytes_per_second_per_chip / busy_sms);
}

/* The power limit: a cycle takes 1 / boost clock while the tensor cores rest and 1 / full_tensor_clock while they multiply, and never less than
 * 1 / tensor_clock on average. On an H200 this gives, from cuBLAS alone, the clocks of four other kernels within 4 % (1.47 to 1.75 GHz;
 * tests/test_silicon_times.c). */
static uint64_t nanoseconds_of(const Profile *p, uint64_t cycles, uint64_t multiplying)
{
    const double rest = (double)(cycles - min_u64(multiplying, cycles)) / (double)p->boost_clock_hz;
    const double limited = rest + (double)min_u64(multiplying, cycles) / (double)p->full_tensor_clock_hz;
    const double fastest = (double)cycles / (double)p->tensor_clock_hz;
    return (uint64_t)(1e9 * (limited > fastest ? limited : fastest) + 0.5);
}

/* Cycles in which the launch's FLOP keep all tensor cores busy, by the fastest instruction: power goes by products, not by pipe. */
static uint64_t multiplying_cycles(const Profile *p, uint64_t flops)
{
    const uint64_t rate = max_u64(p->mma_sync_bf16_flops_per_cycle_per_sm,
                                  max_u64(p->wgmma_bf16_flops_per_cycle_per_sm, p->tcgen05_bf16_flops_per_cycle_per_sm));
    return flops / max_u64(rate * p->sm_count, 1);
}

static void name_bound(const Timing *t, LaunchTime *time)
{
    time->cycles = max_u64(time->sm_cycles, max_u64(time->l2_cycles, time->hbm_cycles));
    time->bound = time->cycles == time->sm_cycles ? critical_path_bound(&t->path) : time->cycles == time->hbm_cycles ? "HBM" : "L2";
    const bool shared = t->profile.l2_bytes_per_second_per_sm < t->machine->profile->l2_bytes_per_second_per_sm;
    if (shared && time->bound == unit_name(UNIT_COPY)) time->bound = "L2";      /* each SM copies as fast as its share of L2 lets it */
}

bool blocks_held_by_sm(const Machine *machine, const Kernel *kernel, const LaunchRecord *record, uint64_t *blocks)
{
    const Profile *p = machine->profile;
    Occupancy occupancy;
    if (!blocks_per_sm(p, record->smem_peak_bytes, kernel->threads, kernel->registers_per_thread, &occupancy, machine->status)) return false;
    const uint64_t by_tmem = record->tmem_peak_bytes > 0 ? max_u64(p->tmem_bytes_per_sm / record->tmem_peak_bytes, 1) : UINT64_MAX;
    *blocks = min_u64(occupancy.blocks, by_tmem);
    return true;
}

static bool resident_blocks(Timing *t, const LaunchRecord *record)
{
    uint64_t held = 0;
    if (!blocks_held_by_sm(t->machine, t->kernel, record, &held)) return false;
    const uint64_t enough = max_u64(ceil_div(record->blocks, min_u64(t->machine->profile->sm_count, UINT32_MAX)), 1);
    t->resident = min_u64(min_u64(held, MAX_RESIDENT), enough);
    return true;
}

bool time_launch(Machine *machine, const Kernel *kernel, Grid grid, const void *arguments, const BlockWork *works, LaunchRecord *record)
{
    Timing t = {.machine = machine, .kernel = kernel, .grid = grid, .arguments = arguments};
    record->time.bound = "nothing";
    if (record->blocks == 0) return true;
    uint32_t *class_of = alloc_array(machine->alloc, grid.blocks, sizeof *class_of, "block classes", machine->status);
    t.profile = *machine->profile;
    share_l2(&t.profile, min_u64(record->blocks, machine->profile->sm_count));
    bool ok = class_of != NULL && timeline_init(&t.timeline, &t.profile, machine->alloc, machine->status) && resident_blocks(&t, record) &&
              find_classes(&t, works, class_of);
    if (ok && time_classes(&t)) {
        record->time.blocks_per_sm = t.resident;
        const uint64_t hbm = memory_times(machine, record);
        ok = schedule_blocks(&t, class_of, record);
        name_bound(&t, &record->time);
        const uint64_t cycles = max_u64(record->time.sm_cycles, record->time.l2_cycles);
        record->time.nanoseconds = max_u64(hbm, nanoseconds_of(machine->profile, cycles, multiplying_cycles(machine->profile, record->counts.matmul_flops)));
    } else {
        ok = false;
    }
    alloc_free(machine->alloc, t.classes);
    alloc_free(machine->alloc, class_of);
    if (t.timeline.alloc != NULL) timeline_free(&t.timeline);
    return ok;
}
