/* chip_schedule.c - list scheduling with a binary heap; see chip_schedule.h for the model.
 *
 * Two engines. When a block's length does not depend on its neighbours, each slot is one entry of a heap ordered by (time it is
 * free, slot): a block costs one sift. When the blocks of an SM share it, the heap holds SMs by the time at which their next
 * resident ends. All residents of an SM advance together, so whenever one ends what the others have left is a whole number: no
 * rounding anywhere.
 */
#include "chip_schedule.h"

#include "checked.h"

/* ---- occupancy ---- */

static const char *const limit_names[OCCUPANCY_LIMITS] = {"registers", "shared memory", "threads", "blocks per SM"};

const char *occupancy_limit_name(OccupancyLimit limit) { return limit_names[limit]; }

static uint64_t held(uint64_t capacity, uint64_t need)
{
    return capacity == PROFILE_UNLIMITED || need == 0 ? PROFILE_UNLIMITED : capacity / need;
}

static bool check_one(uint64_t need, uint64_t there, const char *what, const char *whom, const Profile *profile, Status *status)
{
    return need <= there || status_fail(status, STATUS_INFEASIBLE, "a block needs %" PRIu64 " %s; %s has %" PRIu64 " per %s",
                                        need, what, profile->name, there, whom);
}

bool blocks_per_sm(const Profile *profile, uint64_t smem_bytes, uint64_t threads, uint64_t registers_per_thread,
                   Occupancy *occupancy, Status *status)
{
    *occupancy = (Occupancy){0};
    if (threads == 0) return status_fail(status, STATUS_USAGE, "a block has 0 threads; at least 1 is needed");
    const uint64_t granule = profile->register_granule_per_warp, warps = ceil_div(threads, profile->warp_size);
    const uint64_t of_warp = checked_mul(registers_per_thread, profile->warp_size, "registers of a warp", status);
    const uint64_t registers = checked_mul(warps, checked_mul(ceil_div(of_warp, granule), granule, "registers of a warp", status),
                                           "registers of a block", status);
    const uint64_t smem = checked_add(smem_bytes, profile->smem_reserved_bytes_per_block, "shared memory of a block", status);
    if (!status_ok(status)) return false;
    if (!check_one(registers_per_thread, profile->registers_per_thread, "registers a thread", "thread", profile, status) ||
        !check_one(registers, profile->registers_per_sm, "registers", "SM", profile, status) ||
        !check_one(smem_bytes, profile->smem_bytes_per_block, "bytes of shared memory", "block", profile, status) ||
        !check_one(smem, profile->smem_bytes_per_sm, "bytes of shared memory, reserved ones included,", "SM", profile, status) ||
        !check_one(threads, profile->max_threads_per_block, "threads", "block", profile, status) ||
        !check_one(threads, profile->max_threads_per_sm, "threads", "SM", profile, status))
        return false;
    occupancy->by[OCCUPANCY_REGISTERS] = held(profile->registers_per_sm, registers);
    occupancy->by[OCCUPANCY_SHARED_MEMORY] = held(profile->smem_bytes_per_sm, smem);
    occupancy->by[OCCUPANCY_THREADS] =
        held(profile->max_threads_per_sm, checked_mul(warps, profile->warp_size, "threads", status));
    occupancy->by[OCCUPANCY_BLOCKS] = profile->max_blocks_per_sm;
    for (int i = 1; i < OCCUPANCY_LIMITS; i++)
        if (occupancy->by[i] < occupancy->by[occupancy->limit]) occupancy->limit = (OccupancyLimit)i;
    occupancy->blocks = occupancy->by[occupancy->limit];
    return status_ok(status);
}

/* ---- waves ---- */

bool count_waves(uint64_t blocks, uint64_t sm_count, uint64_t resident, Waves *waves, Status *status)
{
    *waves = (Waves){0};
    const uint64_t slots = checked_mul(sm_count, resident, "slots of the chip (SMs * blocks per SM)", status);
    if (!status_ok(status)) return false;
    if (slots == 0) return status_fail(status, STATUS_USAGE, "a chip needs at least one SM and one block per SM");
    waves->slots = slots;
    waves->waves = ceil_div(blocks, slots);
    if (waves->waves == 0) return true;
    waves->last = blocks - (waves->waves - 1) * slots;
    waves->utilisation = (Ratio){blocks, checked_mul(waves->waves, slots, "slots of all waves", status)};
    return status_ok(status);
}

/* ---- orders ---- */

void order_by_launch(uint64_t *order, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) order[i] = i;
}

void order_reversed_in_groups(uint64_t *order, uint64_t count, uint64_t group)
{
    for (uint64_t first = 0; first < count;) {
        const uint64_t end = group < count - first ? first + group : count;
        for (uint64_t i = first; i < end; i++) order[i] = end - 1 - (i - first);
        first = end;
    }
}

/* Merges the descending runs from[first, middle) and from[middle, end); of equals the left one first. */
static void merge(uint64_t *to, const uint64_t *from, uint64_t first, uint64_t middle, uint64_t end, const uint64_t *work)
{
    uint64_t left = first, right = middle;
    for (uint64_t i = first; i < end; i++) {
        const bool take_left = left < middle && (right >= end || work[from[left]] >= work[from[right]]);
        to[i] = take_left ? from[left++] : from[right++];
    }
}

static bool is_descending(const uint64_t *order, uint64_t count, const uint64_t *work)
{
    for (uint64_t i = 1; i < count; i++)
        if (work[order[i]] > work[order[i - 1]]) return false;
    return true;
}

/* Sorts order[0, count) by merging runs of 1, 2, 4, ...; the result may lie in `spare`, and is copied back then. */
static void sort_descending(uint64_t *order, uint64_t *spare, uint64_t count, const uint64_t *work)
{
    uint64_t *from = order, *to = spare;
    if (is_descending(order, count, work)) return;
    for (uint64_t width = 1; width < count; width *= 2) {
        for (uint64_t first = 0; first < count; first += 2 * width)
            merge(to, from, first, min_u64(first + width, count), min_u64(first + 2 * width, count), work);
        uint64_t *const swap = from;
        from = to;
        to = swap;
    }
    for (uint64_t i = 0; from != order && i < count; i++) order[i] = from[i];
}

bool order_longest_first(uint64_t *order, const uint64_t *work, uint64_t count, uint64_t section, Alloc *alloc, Status *status)
{
    uint64_t *spare = alloc_array(alloc, count, sizeof *spare, "blocks to be sorted", status);
    if (spare == NULL) return false;
    order_by_launch(order, count);
    for (uint64_t first = 0; first < count;) {
        const uint64_t length = min_u64(section, count - first);
        sort_descending(order + first, spare, length, work);
        first += length;
    }
    alloc_free(alloc, spare);
    return true;
}

uint64_t groups_that_fit(uint64_t bytes_per_group, uint64_t budget_bytes)
{
    const uint64_t fit = bytes_per_group > 0 ? budget_bytes / bytes_per_group : budget_bytes;
    uint64_t groups = 1;
    while (groups <= fit / 2) groups *= 2;
    return groups;
}

/* ---- the heap: (time, id), smallest first, ties to the smaller id ---- */

typedef struct {
    uint64_t time, id;
} HeapEntry;

typedef struct {
    HeapEntry *entries;
    uint64_t count;
} Heap;

static bool before(HeapEntry a, HeapEntry b) { return a.time < b.time || (a.time == b.time && a.id < b.id); }

/* Puts `entry` into the hole at the top. */
static void heap_replace_top(Heap *heap, HeapEntry entry)
{
    uint64_t hole = 0;
    for (uint64_t child = 1; child < heap->count; child = 2 * hole + 1) {
        if (child + 1 < heap->count && before(heap->entries[child + 1], heap->entries[child])) child++;
        if (!before(heap->entries[child], entry)) break;
        heap->entries[hole] = heap->entries[child];
        hole = child;
    }
    if (heap->count > 0) heap->entries[hole] = entry;
}

static HeapEntry heap_pop(Heap *heap)
{
    const HeapEntry top = heap->entries[0];
    heap->count--;
    heap_replace_top(heap, heap->entries[heap->count]);
    return top;
}

static void heap_push(Heap *heap, HeapEntry entry)
{
    uint64_t hole = heap->count++;
    while (hole > 0 && before(entry, heap->entries[(hole - 1) / 2])) {
        heap->entries[hole] = heap->entries[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    heap->entries[hole] = entry;
}

/* ---- what both engines share ---- */

typedef struct {
    ChipSchedule *schedule;
    const BlockList *list;
    const ChipSlots *chip;
    uint64_t next; /* place in the list */
    Alloc *alloc;
    Status *status;
} Dispatcher;

static const uint64_t nowhere = UINT64_MAX; /* the SM of a block that was not handed out yet */

/* Takes the next block of the list for `sm` at `time`. UINT64_MAX when the order is wrong. */
static uint64_t take(Dispatcher *x, uint64_t sm, uint64_t time)
{
    const uint64_t place = x->next++, block = x->list->order == NULL ? place : x->list->order[place];
    ChipSchedule *schedule = x->schedule;
    if (block >= schedule->count || schedule->blocks[block].sm != nowhere) {
        status_fail(x->status, STATUS_USAGE,
                    "the order of %" PRIu64 " blocks is no permutation: place %" PRIu64 " holds %" PRIu64, schedule->count, place,
                    block);
        return UINT64_MAX;
    }
    SmLoad *load = &schedule->sms[sm];
    schedule->blocks[block].sm = sm;
    schedule->blocks[block].start = time;
    load->work += x->list->work[block]; /* at most the sum over all blocks, which was checked */
    load->blocks++;
    return block;
}

static void finish(ChipSchedule *schedule, uint64_t block, uint64_t time)
{
    BlockTime *at = &schedule->blocks[block];
    at->end = time;
    schedule->sms[at->sm].finish = max_u64(schedule->sms[at->sm].finish, time);
    schedule->makespan = max_u64(schedule->makespan, time);
}

/* ---- engine 1: a block's length is its own ---- */

/* Runs `block`, taken by a slot at `time`; *epilogue_end is when the slot's last epilogue ended. Returns when it takes its next
 * one. */
static uint64_t run_block(Dispatcher *x, uint64_t *epilogue_end, uint64_t block, uint64_t time)
{
    const BlockList *list = x->list;
    const uint64_t work_start = checked_add(time, list->prologue, "end of a prologue", x->status);
    const uint64_t work_end = checked_add(work_start, list->work[block], "end of a block", x->status);
    *epilogue_end = checked_add(max_u64(work_end, *epilogue_end), list->epilogue, "end of a block", x->status);
    finish(x->schedule, block, *epilogue_end);
    if (!list->overlap) return *epilogue_end;
    return max_u64(work_start, work_end > list->prologue ? work_end - list->prologue : 0);
}

static bool run_independent(Dispatcher *x)
{
    ChipSchedule *schedule = x->schedule;
    const uint64_t slots = min_u64(schedule->slots, max_u64(schedule->count, 1));
    Heap heap = {alloc_array(x->alloc, slots, sizeof(HeapEntry), "slots of the chip", x->status), slots};
    uint64_t *epilogue_ends = alloc_array(x->alloc, slots, sizeof *epilogue_ends, "slots of the chip", x->status);
    for (uint64_t i = 0; status_ok(x->status) && i < slots; i++) heap.entries[i] = (HeapEntry){0, i};
    while (status_ok(x->status) && x->next < schedule->count) {
        HeapEntry slot = heap.entries[0];
        const uint64_t block = take(x, slot.id % schedule->sm_count, slot.time);
        if (block == UINT64_MAX) break;
        slot.time = run_block(x, &epilogue_ends[slot.id], block, slot.time);
        heap_replace_top(&heap, slot);
    }
    alloc_free(x->alloc, epilogue_ends);
    alloc_free(x->alloc, heap.entries);
    schedule->busy = schedule->work;
    return status_ok(x->status);
}

/* ---- engine 2: the blocks of an SM share it ---- */

typedef struct {
    uint64_t block, remaining; /* work; block = nowhere: the slot is free */
} Resident;

typedef struct {
    Dispatcher *dispatcher;
    uint64_t layers, sm_count;
    const uint64_t *cost;     /* time_per_work */
    Resident *residents;      /* [layers][sm_count] */
    uint64_t *resident_count; /* [sm_count] */
    uint64_t *ended;          /* [sm_count]: SMs of which a resident has just ended */
    Heap heap;                /* SMs by the end of their next block */
} SharedChip;

static bool shared_init(SharedChip *c, Dispatcher *x)
{
    const ChipSlots *chip = x->chip;
    const char *what = "slots of the chip";
    *c = (SharedChip){.dispatcher = x, .layers = chip->blocks_per_sm, .sm_count = chip->sm_count, .cost = chip->time_per_work};
    for (uint64_t k = 0; k < c->layers; k++)
        if (c->cost[k] == 0) return status_fail(x->status, STATUS_USAGE, "a unit of work takes no time; at least 1 is needed");
    c->residents = alloc_array(x->alloc, x->schedule->slots, sizeof *c->residents, what, x->status);
    c->resident_count = alloc_array(x->alloc, c->sm_count, sizeof *c->resident_count, what, x->status);
    c->ended = alloc_array(x->alloc, c->sm_count, sizeof *c->ended, what, x->status);
    c->heap.entries = alloc_array(x->alloc, c->sm_count, sizeof *c->heap.entries, what, x->status);
    if (!status_ok(x->status)) return false;
    for (uint64_t i = 0; i < x->schedule->slots; i++) c->residents[i].block = nowhere;
    return true;
}

static void shared_free(SharedChip *c)
{
    Alloc *alloc = c->dispatcher->alloc;
    alloc_free(alloc, c->residents);
    alloc_free(alloc, c->resident_count);
    alloc_free(alloc, c->ended);
    alloc_free(alloc, c->heap.entries);
}

/* Work until the SM's next block ends. */
static uint64_t least_remaining(const SharedChip *c, uint64_t sm)
{
    uint64_t least = UINT64_MAX;
    for (uint64_t layer = 0; layer < c->layers; layer++) {
        const Resident *r = &c->residents[layer * c->sm_count + sm];
        if (r->block != nowhere) least = min_u64(least, r->remaining);
    }
    return least;
}

/* Lets the blocks end that have least left; it is `time` then. */
static void end_next(SharedChip *c, uint64_t sm, uint64_t time)
{
    const uint64_t progress = least_remaining(c, sm);
    for (uint64_t layer = 0; layer < c->layers; layer++) {
        Resident *r = &c->residents[layer * c->sm_count + sm];
        if (r->block == nowhere) continue;
        r->remaining -= progress;
        if (r->remaining > 0) continue;
        finish(c->dispatcher->schedule, r->block, time);
        r->block = nowhere;
        c->resident_count[sm]--;
    }
}

/* Puts the SM back into the heap, unless it is empty. */
static void await_next(SharedChip *c, uint64_t sm, uint64_t time)
{
    Status *status = c->dispatcher->status;
    if (c->resident_count[sm] == 0) return;
    const uint64_t length = checked_mul(least_remaining(c, sm), c->cost[c->resident_count[sm] - 1], "time of a block", status);
    heap_push(&c->heap, (HeapEntry){checked_add(time, length, "end of a block", status), sm});
}

/* Fills the free slots of these SMs (ascending; NULL: SMs 0 to count - 1), layer by layer. */
static void hand_out(SharedChip *c, const uint64_t *sms, uint64_t count, uint64_t time)
{
    Dispatcher *x = c->dispatcher;
    for (uint64_t layer = 0; layer < c->layers; layer++) {
        for (uint64_t i = 0; i < count && x->next < x->schedule->count && status_ok(x->status); i++) {
            const uint64_t sm = sms == NULL ? i : sms[i];
            Resident *r = &c->residents[layer * c->sm_count + sm];
            if (r->block != nowhere) continue;
            const uint64_t block = take(x, sm, time);
            if (block == UINT64_MAX) return;
            *r = (Resident){block, x->list->work[block]};
            c->resident_count[sm]++;
        }
    }
    for (uint64_t i = 0; i < count; i++) await_next(c, sms == NULL ? i : sms[i], time);
}

static bool run_shared(Dispatcher *x)
{
    SharedChip c;
    if (shared_init(&c, x)) hand_out(&c, NULL, c.sm_count, 0);
    while (status_ok(x->status) && c.heap.count > 0) {
        const uint64_t time = c.heap.entries[0].time;
        uint64_t ended = 0;
        while (c.heap.count > 0 && c.heap.entries[0].time == time) {
            const uint64_t sm = heap_pop(&c.heap).id; /* ascending, for equal times */
            end_next(&c, sm, time);
            c.ended[ended++] = sm;
        }
        hand_out(&c, c.ended, ended, time);
    }
    for (uint64_t b = 0; status_ok(x->status) && b < x->schedule->count; b++)
        x->schedule->busy =
            checked_add(x->schedule->busy, x->schedule->blocks[b].end - x->schedule->blocks[b].start, "busy time", x->status);
    shared_free(&c);
    return status_ok(x->status);
}

/* ---- the bound ---- */

/* No schedule ends before the work is spread evenly over all SMs at their best speed, nor before the longest block alone. */
static void set_bound(Dispatcher *x)
{
    ChipSchedule *s = x->schedule;
    const BlockList *list = x->list;
    const uint64_t *cost = x->chip->time_per_work;
    const uint64_t fixed = list->prologue + list->epilogue; /* checked by the caller */
    uint64_t longest = 0;
    for (uint64_t b = 0; b < s->count; b++) longest = max_u64(longest, list->work[b]);
    if (s->count == 0) return;
    if (cost == NULL) {
        const uint64_t each = list->overlap ? 0 : checked_mul(s->count, fixed, "prologues and epilogues", x->status);
        const uint64_t even = ceil_div(checked_add(s->work, each, "work with prologues and epilogues", x->status), s->slots);
        const uint64_t spread = list->overlap ? checked_add(even, fixed, "bound", x->status) : even;
        s->bound = max_u64(spread, checked_add(longest, fixed, "longest block", x->status));
        return;
    }
    uint64_t even = UINT64_MAX, least = UINT64_MAX;
    for (uint64_t k = 1; k <= x->chip->blocks_per_sm; k++) {
        const uint64_t time = checked_mul(s->work, cost[k - 1], "time of all work on one SM", x->status);
        even = min_u64(even, ceil_div(time, checked_mul(k, s->sm_count, "slots", x->status)));
        least = min_u64(least, cost[k - 1]);
    }
    s->bound = max_u64(even, checked_mul(longest, least, "time of the longest block", x->status));
}

/* ---- schedule ---- */

static bool check_list(const BlockList *list, const ChipSlots *chip, Status *status)
{
    if (chip->sm_count == 0 || chip->blocks_per_sm == 0)
        return status_fail(status, STATUS_USAGE, "a chip needs at least one SM and one block per SM");
    if (chip->time_per_work != NULL && (list->prologue > 0 || list->epilogue > 0 || list->overlap))
        return status_fail(status, STATUS_USAGE,
                           "prologues and epilogues on a shared SM are not modelled: make them part of the work");
    (void)checked_add(list->prologue, list->epilogue, "prologue and epilogue", status);
    return status_ok(status);
}

bool chip_schedule(ChipSchedule *schedule, const BlockList *list, const ChipSlots *chip, Alloc *alloc, Status *status)
{
    *schedule = (ChipSchedule){.alloc = alloc, .count = list->count, .sm_count = chip->sm_count};
    if (!check_list(list, chip, status)) return false;
    schedule->slots = checked_mul(chip->sm_count, chip->blocks_per_sm, "slots of the chip (SMs * blocks per SM)", status);
    for (uint64_t b = 0; status_ok(status) && b < list->count; b++)
        schedule->work = checked_add(schedule->work, list->work[b], "work of all blocks", status);
    if (!status_ok(status)) return false;
    schedule->blocks = alloc_array(alloc, list->count, sizeof *schedule->blocks, "times of the blocks", status);
    schedule->sms = alloc_array(alloc, chip->sm_count, sizeof *schedule->sms, "loads of the SMs", status);
    if (!status_ok(status)) return false;
    for (uint64_t b = 0; b < list->count; b++) schedule->blocks[b].sm = nowhere;

    Dispatcher x = {schedule, list, chip, 0, alloc, status};
    set_bound(&x);
    if (!status_ok(status) || !(chip->time_per_work == NULL ? run_independent(&x) : run_shared(&x))) return false;
    if (schedule->makespan == 0) return true;
    schedule->efficiency = (Ratio){schedule->bound, schedule->makespan};
    schedule->busy_share =
        (Ratio){schedule->busy, checked_mul(schedule->slots, schedule->makespan, "slot-time of the schedule", status)};
    return status_ok(status);
}

void chip_schedule_free(ChipSchedule *schedule)
{
    alloc_free(schedule->alloc, schedule->blocks);
    alloc_free(schedule->alloc, schedule->sms);
    schedule->blocks = NULL;
    schedule->sms = NULL;
}

/* ---- footprint ---- */

/* Running blocks of each group, as lists through the blocks; `most` is the largest of their bytes. */
typedef struct {
    const ChipSchedule *schedule;
    const uint64_t *bytes;
    uint64_t group_size;
    uint64_t *first, *most; /* [groups] */
    uint64_t *following;    /* [count] */
    uint64_t *by_start;     /* [count] */
    Heap ends;              /* running blocks */
    uint64_t now;           /* bytes */
} Sweep;

static void enter(Sweep *s, uint64_t block)
{
    const uint64_t group = block / s->group_size, most = max_u64(s->most[group], s->bytes[block]);
    s->now += most - s->most[group];
    s->most[group] = most;
    s->following[block] = s->first[group];
    s->first[group] = block;
    heap_push(&s->ends, (HeapEntry){s->schedule->blocks[block].end, block});
}

static void leave(Sweep *s, uint64_t block)
{
    const uint64_t group = block / s->group_size;
    uint64_t most = 0, *link = &s->first[group];
    while (*link != nowhere) {
        if (*link == block)
            *link = s->following[block];
        else {
            most = max_u64(most, s->bytes[*link]);
            link = &s->following[*link];
        }
    }
    s->now -= s->most[group] - most;
    s->most[group] = most;
}

/* Keys for sorting by start with sort_descending: the later, the smaller. */
static void sort_by_start(Sweep *s, uint64_t *keys, uint64_t *spare)
{
    const ChipSchedule *schedule = s->schedule;
    for (uint64_t b = 0; b < schedule->count; b++) keys[b] = UINT64_MAX - schedule->blocks[b].start;
    order_by_launch(s->by_start, schedule->count);
    sort_descending(s->by_start, spare, schedule->count, keys);
}

/* From one start or end to the next, ends before starts. */
static void sweep(Sweep *s, uint64_t capacity, Footprint *footprint, Status *status)
{
    const ChipSchedule *schedule = s->schedule;
    uint64_t next = 0, time = 0;
    while (next < schedule->count || s->ends.count > 0) {
        const uint64_t start = next < schedule->count ? schedule->blocks[s->by_start[next]].start : UINT64_MAX;
        const uint64_t end = s->ends.count > 0 ? s->ends.entries[0].time : UINT64_MAX, at = min_u64(start, end);
        if (s->now > capacity) {
            footprint->time_over += at - time;
            footprint->block_time_over = checked_add(
                footprint->block_time_over, checked_mul(s->ends.count, at - time, "block time", status), "block time", status);
        }
        time = at;
        while (s->ends.count > 0 && s->ends.entries[0].time == time) leave(s, heap_pop(&s->ends).id);
        while (next < schedule->count && schedule->blocks[s->by_start[next]].start == time) {
            const uint64_t block = s->by_start[next++];
            if (schedule->blocks[block].end > time) enter(s, block);
        }
        if (s->now > footprint->peak_bytes) {
            footprint->peak_bytes = s->now;
            footprint->peak_time = time;
        }
    }
}

bool schedule_footprint(const ChipSchedule *schedule, const uint64_t *bytes, uint64_t group_size, uint64_t capacity,
                        Footprint *footprint, Status *status)
{
    Alloc *alloc = schedule->alloc;
    const uint64_t count = schedule->count, groups = ceil_div(count, group_size);
    const char *what = "footprint of a schedule";
    uint64_t sum = 0;
    *footprint = (Footprint){0};
    for (uint64_t b = 0; b < count; b++) sum = checked_add(sum, bytes[b], what, status); /* no footprint is larger */
    Sweep s = {.schedule = schedule, .bytes = bytes, .group_size = group_size};
    s.first = alloc_array(alloc, groups, sizeof *s.first, what, status);
    s.most = alloc_array(alloc, groups, sizeof *s.most, what, status);
    s.following = alloc_array(alloc, count, sizeof *s.following, what, status);
    s.by_start = alloc_array(alloc, count, sizeof *s.by_start, what, status);
    s.ends.entries = alloc_array(alloc, count, sizeof *s.ends.entries, what, status);
    uint64_t *keys = alloc_array(alloc, count, sizeof *keys, what, status);
    if (status_ok(status)) {
        for (uint64_t g = 0; g < groups; g++) s.first[g] = nowhere;
        sort_by_start(&s, keys, s.following);
        sweep(&s, capacity, footprint, status);
    }
    alloc_free(alloc, s.first);
    alloc_free(alloc, s.most);
    alloc_free(alloc, s.following);
    alloc_free(alloc, s.by_start);
    alloc_free(alloc, s.ends.entries);
    alloc_free(alloc, keys);
    return status_ok(status);
}
