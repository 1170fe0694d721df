/* test_timeline.c - schedules worked by hand, the rules on random programs against a slow second simulation, and what must hold
 * of any timeline.
 *
 * The chip of these tests does one of everything per cycle: a product of x FLOP takes x cycles of the tensor cores, x
 * exponentials x cycles of MUFU, a load of x bytes x cycles of the copy path. So a table of operations is a table of durations.
 */
/* label: unit, property */
#include "test.h"

#include "sim/checked.h"
#include "sim/philox.h"
#include "sim/timeline.h"

typedef struct {
    Test test;
    Alloc alloc;
} Context;

/* One per cycle of everything. startup, latency, barrier and shared memory are what a case asks for. */
static Profile simple_chip(void)
{
    return (Profile){.name = "simple",
                     .sm_count = 1,
                     .tensor_clock_hz = 1000000000,
                     .wgmma_bf16_flops_per_cycle_per_sm = 1,
                     .mufu_ops_per_cycle_per_sm = 1,
                     .issue_slots_per_cycle_per_sm = PROFILE_UNLIMITED,
                     .smem_bytes_per_cycle_per_sm = 1,
                     .l2_bytes_per_second_per_sm = 1000000000,
                     .wgmma_queue_instructions = PROFILE_UNLIMITED,
                     .warp_size = 32};
}

/* ---- programs ---- */

/* MATMUL, EXP, LOAD: so many cycles on their unit. FILL: so many warp instructions, on no unit unless the chip has an issue rate.
 */
typedef enum { MATMUL, EXP, LOAD, STORE, FILL, ARRIVE, SYNC } Kind;

enum { NO_TILE = -1, BLOCKING = 0, ASYNC = 1, MOST_STEPS = 64, MOST_OPERATIONS = 3 * MOST_STEPS /* with a wait for each of two tiles that are read */ };

typedef struct {
    int stream;
    Kind kind;
    int async;
    uint32_t cycles;
    int read0, read1, written; /* tiles by number; NO_TILE */
    uint64_t start, end;       /* expected */
} Step;

static const Operation operation_of[] = {[MATMUL] = OP_MATMUL, [EXP] = OP_EXP_ROWS,  [LOAD] = OP_LOAD, [STORE] = OP_STORE,
                                         [FILL] = OP_FILL,     [ARRIVE] = OP_ARRIVE, [SYNC] = OP_SYNC};

static Tile tile(int number, uint64_t area)
{
    return (Tile){.name = "tile",
                  .space = SPACE_REGISTERS,
                  .type = ELEMENT_BF16,
                  .element_bytes = 1,
                  .storage = (uint32_t)number,
                  .area = area};
}

static const Tensor bytes_in_memory = {.name = "bytes", .type = ELEMENT_U8};

/* shared_bytes: what a product reads of shared memory. */
static void record(Timeline *timeline, const Step *step, uint64_t shared_bytes, TensorInstruction instruction)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    const uint64_t area = step->kind == FILL ? 32 * (uint64_t)step->cycles : step->kind == MATMUL ? 1 : step->cycles;
    const Stream stream = {.name = names[step->stream], .warps = 1, .index = (uint32_t)step->stream};
    Tile read0 = tile(step->read0, area), read1 = tile(step->read1, area), written = tile(step->written, area);
    written.product_flops = step->cycles;
    written.product_operand_bytes = shared_bytes;
    written.rows = written.cols = 64;
    written.depth = 32 * step->cycles; /* as many wgmma instructions as cycles, for operands of a byte */
    const Event event = {.operation = operation_of[step->kind],
                         .stream = &stream,
                         .instruction = instruction,
                         .async = step->async,
                         .tensor = &bytes_in_memory,
                         .read = {step->read0 != NO_TILE ? &read0 : NULL, step->read1 != NO_TILE ? &read1 : NULL},
                         .written = {step->written != NO_TILE ? &written : NULL}};
    timeline_observe(timeline, &event);
}

/* ---- worked schedules ---- */

typedef struct {
    const char *what;
    uint64_t startup, latency, barrier, interval_millicycles, issue_slots, shared_bytes, queue;
    bool mma_sync; /* of a kernel without wgmma and TMA */
    int blocks; /* 2: the steps are recorded as two resident blocks */
    uint64_t makespan;
    Step steps[16];
    size_t count;
} Worked;

enum { Q, K, V, S, P, O, S2, P2, O2, TURN, TURN2 };

static const Worked worked[] = {
    {.what = "one stream, in order",
     .makespan = 17,
     .count = 3,
     .steps = {{0, MATMUL, 0, 10, Q, K, S, 0, 10}, {0, EXP, 0, 4, S, NO_TILE, S, 10, 14}, {0, MATMUL, 0, 3, P, V, O, 14, 17}}},
    {.what = "two streams share a unit: ties go by program order",
     .makespan = 15,
     .count = 2,
     .steps = {{0, MATMUL, 0, 10, Q, K, S, 0, 10}, {1, MATMUL, 0, 5, Q, K, S2, 10, 15}}},
    {.what = "two streams on two units at the same time",
     .makespan = 10,
     .count = 2,
     .steps = {{0, MATMUL, 0, 10, Q, K, S, 0, 10}, {1, EXP, 0, 5, S2, NO_TILE, S2, 0, 5}}},
    {.what = "a blocking product holds its stream",
     .makespan = 14,
     .count = 2,
     .steps = {{0, MATMUL, BLOCKING, 10, Q, K, S, 0, 10}, {0, EXP, 0, 4, P, NO_TILE, P, 10, 14}}},
    {.what = "an asynchronous one does not",
     .makespan = 10,
     .count = 2,
     .steps = {{0, MATMUL, ASYNC, 10, Q, K, S, 0, 10}, {0, EXP, 0, 4, P, NO_TILE, P, 0, 4}}},
    {.what = "read after write: not before 10, at 10",
     .makespan = 14,
     .count = 2,
     .steps = {{0, MATMUL, ASYNC, 10, Q, K, S, 0, 10}, {0, EXP, 0, 4, S, NO_TILE, P, 10, 14}}},
    {.what = "write after read: K is free at 10",
     .makespan = 17,
     .count = 2,
     .steps = {{0, MATMUL, ASYNC, 10, Q, K, S, 0, 10}, {1, LOAD, ASYNC, 7, NO_TILE, NO_TILE, K, 10, 17}}},
    {.what = "two readers: a write waits for the later one",
     .makespan = 17,
     .count = 3,
     .steps = {{0, MATMUL, ASYNC, 10, Q, K, S, 0, 10},
               {1, EXP, 0, 4, K, NO_TILE, S2, 0, 4},
               {2, LOAD, ASYNC, 7, NO_TILE, NO_TILE, K, 10, 17}}},
    {.what = "two readers may read at once",
     .makespan = 24,
     .count = 4,
     .steps = {{0, LOAD, ASYNC, 7, NO_TILE, NO_TILE, K, 0, 7},
               {0, EXP, 0, 4, K, NO_TILE, S, 7, 11},
               {1, MATMUL, ASYNC, 9, Q, K, S2, 7, 16},
               {2, LOAD, 0, 8, NO_TILE, NO_TILE, K, 16, 24}}},
    {.what = "write after write",
     .makespan = 15,
     .count = 2,
     .steps = {{0, MATMUL, ASYNC, 10, Q, K, S, 0, 10}, {1, LOAD, ASYNC, 5, NO_TILE, NO_TILE, S, 10, 15}}},
    {.what = "a chain through three tiles",
     .makespan = 21,
     .count = 3,
     .steps = {{0, LOAD, ASYNC, 7, NO_TILE, NO_TILE, K, 0, 7},
               {1, MATMUL, ASYNC, 10, Q, K, S, 7, 17},
               {2, EXP, 0, 4, S, NO_TILE, P, 17, 21}}},
    {.what = "asynchronous products of one stream keep their order",
     .makespan = 25,
     .count = 3,
     .steps = {{1, LOAD, ASYNC, 10, NO_TILE, NO_TILE, K, 0, 10},
               {0, MATMUL, ASYNC, 10, Q, K, S, 10, 20},
               {0, MATMUL, ASYNC, 5, P, V, O, 20, 25}}},
    {.what = "those of another stream may go before",
     .makespan = 20,
     .count = 3,
     .steps = {{1, LOAD, ASYNC, 10, NO_TILE, NO_TILE, K, 0, 10},
               {0, MATMUL, ASYNC, 10, Q, K, S, 10, 20},
               {2, MATMUL, ASYNC, 5, P, V, O, 0, 5}}},
    {.what = "copies do not queue behind products",
     .makespan = 20,
     .count = 3,
     .steps = {{1, LOAD, ASYNC, 10, NO_TILE, NO_TILE, K, 0, 10},
               {0, MATMUL, ASYNC, 10, Q, K, S, 10, 20},
               {0, LOAD, ASYNC, 5, NO_TILE, NO_TILE, V, 10, 15}}},
    {.what = "an asynchronous operation waits for its turn in the stream",
     .makespan = 9,
     .count = 2,
     .steps = {{0, EXP, 0, 4, P, NO_TILE, P, 0, 4}, {0, MATMUL, ASYNC, 5, Q, K, S, 4, 9}}},
    {.what = "who can start first starts first, not who is earlier in the program",
     .makespan = 27,
     .count = 4,
     .steps = {{0, LOAD, ASYNC, 7, NO_TILE, NO_TILE, K, 0, 7},
               {1, MATMUL, ASYNC, 10, Q, K, S, 17, 27},
               {2, EXP, 0, 5, P, NO_TILE, P, 0, 5},
               {2, MATMUL, ASYNC, 12, P, V, O, 5, 17}}},
    {.what = "who was ready first goes first",
     .makespan = 40,
     .count = 5,
     .steps = {{0, MATMUL, ASYNC, 20, Q, K, S, 0, 20},
               {1, EXP, 0, 9, P, NO_TILE, P, 0, 9},
               {1, MATMUL, ASYNC, 10, P, V, O, 30, 40},
               {2, LOAD, ASYNC, 8, NO_TILE, NO_TILE, P2, 0, 8},
               {2, MATMUL, ASYNC, 10, P2, V, O2, 20, 30}}},
    {.what = "a result comes later than its unit is free",
     .startup = 6,
     .makespan = 25,
     .count = 3,
     .steps = {{0, MATMUL, ASYNC, 10, Q, K, S, 0, 16},
               {1, MATMUL, ASYNC, 9, Q, K, S2, 10, 25},
               {0, EXP, 0, 4, S, NO_TILE, P, 16, 20}}},
    {.what = "a load takes the latency more, the next one overlaps with it",
     .latency = 100,
     .makespan = 114,
     .count = 3,
     .steps = {{0, LOAD, ASYNC, 7, NO_TILE, NO_TILE, K, 0, 107},
               {0, LOAD, ASYNC, 7, NO_TILE, NO_TILE, V, 7, 114},
               {1, STORE, ASYNC, 7, O, NO_TILE, NO_TILE, 14, 21}}},
    {.what = "a stream alone leaves issue slots to another",
     .interval_millicycles = 3000,
     .issue_slots = 1,
     .makespan = 36,
     .count = 3,
     .steps = {{0, FILL, 0, 10, NO_TILE, NO_TILE, S, 0, 30},
               {1, FILL, 0, 2, NO_TILE, NO_TILE, S2, 10, 16},
               {0, FILL, 0, 2, NO_TILE, NO_TILE, P, 30, 36}}},
    {.what = "an operation takes all its units together",
     .shared_bytes = 12,
     .makespan = 32,
     .count = 3,
     .steps = {{0, MATMUL, ASYNC, 10, Q, K, S, 0, 12},
               {1, EXP, 0, 20, P, NO_TILE, P, 0, 20},
               {2, MATMUL, ASYNC, 20, Q, K, S2, 12, 32}}},
    {.what = "a barrier: sync waits for arrive",
     .barrier = 3,
     .makespan = 17,
     .count = 4,
     .steps = {{0, EXP, 0, 10, S, NO_TILE, S, 0, 10},
               {0, ARRIVE, ASYNC, 0, NO_TILE, NO_TILE, TURN, 10, 10},
               {1, SYNC, 0, 0, TURN, NO_TILE, NO_TILE, 10, 13},
               {1, MATMUL, 0, 4, Q, K, S2, 13, 17}}},
    {.what = "a barrier without an arrival before it lets pass",
     .barrier = 3,
     .makespan = 10,
     .count = 3,
     .steps = {{1, SYNC, 0, 0, TURN, NO_TILE, NO_TILE, 0, 3},
               {1, EXP, 0, 4, P, NO_TILE, P, 3, 7},
               {0, MATMUL, 0, 10, Q, K, S, 0, 10}}},
    {.what = "an arrival does not wait for asynchronous products before it",
     .makespan = 14,
     .count = 4,
     .steps = {{0, MATMUL, ASYNC, 10, Q, K, S, 0, 10},
               {0, ARRIVE, ASYNC, 0, NO_TILE, NO_TILE, TURN, 0, 0},
               {1, SYNC, 0, 0, TURN, NO_TILE, NO_TILE, 0, 0},
               {1, MATMUL, ASYNC, 4, P, V, O, 10, 14}}},
    {.what = "operations without a unit keep their order too",
     .barrier = 2,
     .makespan = 14,
     .count = 4,
     .steps = {{0, EXP, 0, 10, S, NO_TILE, TURN, 0, 10},
               {1, ARRIVE, ASYNC, 0, TURN, NO_TILE, P, 12, 12},
               {1, ARRIVE, ASYNC, 0, NO_TILE, NO_TILE, TURN2, 12, 12},
               {2, SYNC, 0, 0, TURN2, NO_TILE, NO_TILE, 12, 14}}},
    {.what = "what another stream made is handed over by a barrier, one's own is not",
     .barrier = 3,
     .makespan = 21,
     .count = 3,
     .steps = {{0, EXP, 0, 10, S, NO_TILE, P, 0, 10},
               {0, EXP, 0, 4, P, NO_TILE, P2, 10, 14},
               {1, MATMUL, ASYNC, 4, P2, V, O, 17, 21}}},
    {.what = "a warpgroup stands still until all but the queue's 3 instructions of its product are done",
     .queue = 3,
     .makespan = 11,
     .count = 2,
     .steps = {{0, MATMUL, ASYNC, 10, Q, K, S, 0, 10}, {0, EXP, 0, 4, P, NO_TILE, P, 7, 11}}},
    {.what = "its next product is issued then, and waits for the tensor cores",
     .queue = 3,
     .makespan = 22,
     .count = 3,
     .steps = {{0, MATMUL, ASYNC, 10, Q, K, S, 0, 10},
               {0, MATMUL, ASYNC, 5, P, V, O, 10, 15},
               {0, EXP, 0, 10, P2, NO_TILE, P2, 12, 22}}},
    {.what = "a product that the queue holds does not stop it",
     .queue = 3,
     .makespan = 10,
     .count = 3,
     .steps = {{1, MATMUL, 0, 7, Q, K, S2, 0, 7}, {0, MATMUL, ASYNC, 3, Q, K, S, 7, 10}, {0, EXP, 0, 4, P, NO_TILE, P, 0, 4}}},
    {.what = "copies by the threads themselves: 3 instructions for 512 bytes, then the stream goes on",
     .interval_millicycles = 2000,
     .mma_sync = true,
     .makespan = 10,
     .count = 2,
     .steps = {{0, LOAD, ASYNC, 10, NO_TILE, NO_TILE, K, 0, 10}, {0, EXP, 0, 1, P, NO_TILE, P, 6, 8}}},
    {.what = "one warpgroup in order: 2 (2 G + S), G = 10, S = 10",
     .makespan = 60,
     .count = 6,
     .steps = {{0, MATMUL, ASYNC, 10, Q, K, S, 0, 10},
               {0, EXP, 0, 10, S, NO_TILE, P, 10, 20},
               {0, MATMUL, ASYNC, 10, P, V, O, 20, 30},
               {0, MATMUL, ASYNC, 10, Q, K, S, 30, 40},
               {0, EXP, 0, 10, S, NO_TILE, P, 40, 50},
               {0, MATMUL, ASYNC, 10, P, V, O, 50, 60}}},
    {.what = "two in turns: 4 products a tile, the exponentials inside them",
     .makespan = 80,
     .count = 12,
     .steps = {{0, MATMUL, ASYNC, 10, Q, K, S, 0, 10},
               {1, MATMUL, ASYNC, 10, Q, K, S2, 10, 20},
               {0, EXP, 0, 10, S, NO_TILE, P, 10, 20},
               {0, MATMUL, ASYNC, 10, P, V, O, 20, 30},
               {0, MATMUL, ASYNC, 10, Q, K, S, 30, 40},
               {1, EXP, 0, 10, S2, NO_TILE, P2, 20, 30},
               {1, MATMUL, ASYNC, 10, P2, V, O2, 40, 50},
               {1, MATMUL, ASYNC, 10, Q, K, S2, 50, 60},
               {0, EXP, 0, 10, S, NO_TILE, P, 40, 50},
               {0, MATMUL, ASYNC, 10, P, V, O, 60, 70},
               {1, EXP, 0, 10, S2, NO_TILE, P2, 60, 70},
               {1, MATMUL, ASYNC, 10, P2, V, O2, 70, 80}}},
    {.what = "softmax of one tile beside the product of the tile before",
     .makespan = 50,
     .count = 6,
     .steps = {{0, MATMUL, ASYNC, 10, Q, K, S, 0, 10},
               {0, EXP, 0, 10, S, NO_TILE, P, 10, 20},
               {0, MATMUL, ASYNC, 10, Q, K, S, 20, 30},
               {0, MATMUL, ASYNC, 10, P, V, O, 30, 40},
               {0, EXP, 0, 10, S, NO_TILE, P2, 30, 40},
               {0, MATMUL, ASYNC, 10, P2, V, O, 40, 50}}},
    {.what = "a copy by another stream is looked for once, also when it is long there",
     .barrier = 3,
     .makespan = 38,
     .count = 4,
     .steps = {{1, LOAD, ASYNC, 5, NO_TILE, NO_TILE, K, 0, 5},
               {0, EXP, 0, 20, Q, NO_TILE, P, 0, 20},
               {0, EXP, 0, 10, K, NO_TILE, S, 23, 33},
               {0, EXP, 0, 5, K, NO_TILE, S2, 33, 38}}},
    {.what = "who comes early waits until it is there, and then as long",
     .barrier = 3,
     .makespan = 18,
     .count = 2,
     .steps = {{1, LOAD, ASYNC, 5, NO_TILE, NO_TILE, K, 0, 5}, {0, EXP, 0, 10, K, NO_TILE, S, 8, 18}}},
    {.what = "looking takes six instructions as well",
     .barrier = 3,
     .interval_millicycles = 2000,
     .makespan = 30,
     .count = 2,
     .steps = {{1, LOAD, ASYNC, 5, NO_TILE, NO_TILE, K, 0, 5}, {0, EXP, 0, 10, K, NO_TILE, S, 20, 30}}},
    {.what = "two resident blocks share units, not tiles",
     .blocks = 2,
     .makespan = 24,
     .count = 2,
     .steps = {{0, MATMUL, 0, 10, Q, K, S, 0, 10}, {0, EXP, 0, 4, S, NO_TILE, P, 10, 14}}},
};

static Profile chip_of(const Worked *w)
{
    Profile chip = simple_chip();
    chip.matmul_startup_cycles = w->startup;
    chip.l2_latency_cycles = w->latency;
    chip.barrier_latency_cycles = w->barrier;
    chip.issue_interval_millicycles_per_warp = w->interval_millicycles;
    if (w->queue > 0) chip.wgmma_queue_instructions = w->queue;
    if (w->issue_slots > 0) chip.issue_slots_per_cycle_per_sm = w->issue_slots;
    return chip;
}

/* What holds of every timeline that was simulated. */
static void check_laws(Context *x, const Timeline *timeline, const char *what)
{
    uint64_t holds = 0, charged = 0;
    for (uint32_t i = 0; i < timeline->count; i++) {
        const TimedOperation *operation = &timeline->operations[i];
        holds += operation->cost.hold + operation->cost.issue + timeline->profile->barrier_latency_cycles;
        check_true(&x->test, operation->end == operation->start + operation->cost.hold && operation->end <= timeline->makespan,
                   what);
        for (uint32_t k = 0; k < operation->dependency_count; k++)
            check_true(&x->test,
                       timeline->operations[timeline->dependencies[operation->first_dependency + k]].end <= operation->start,
                       what);
    }
    check_true(&x->test, timeline->makespan <= holds, "the time is at most the sum of all holds, issues and barriers");
    for (int unit = 0; unit < UNIT_KINDS; unit++)
        check_true(&x->test, timeline->busy[unit] <= timeline->makespan, "no unit is busy for longer than the time");
    const CriticalPath path = timeline_critical_path(timeline);
    for (int unit = 0; unit < UNIT_KINDS; unit++) {
        check_true(&x->test, path.unit[unit] <= timeline->busy[unit], "the critical path is in a unit for at most its busy time");
        charged += path.unit[unit];
    }
    check_true(&x->test, path.latency <= timeline->makespan, what);
    check_u64(&x->test, charged + path.latency, timeline->makespan, "the critical path sums to the time");
}

static void test_worked(Context *x)
{
    for (size_t i = 0; i < sizeof worked / sizeof worked[0]; i++) {
        const Worked *w = &worked[i];
        const Profile chip = chip_of(w);
        Status status = {0};
        Timeline timeline;
        char what[120];
        timeline_init(&timeline, &chip, &x->alloc, &status);
        for (int block = 0; block < (w->blocks > 0 ? w->blocks : 1); block++) {
            if (block > 0) timeline_next_block(&timeline);
            for (size_t k = 0; k < w->count; k++) record(&timeline, &w->steps[k], w->shared_bytes, w->mma_sync ? TENSOR_MMA_SYNC : TENSOR_WGMMA);
        }
        check_true(&x->test, timeline_run(&timeline), w->what);
        for (size_t k = 0, recorded = 0; k < w->count; k++, recorded++) {
            while (timeline.operations[recorded].awaits_copy) recorded++;
            snprintf(what, sizeof what, "%s: start of operation %zu", w->what, k);
            check_u64(&x->test, timeline.operations[recorded].start, w->steps[k].start, what);
            snprintf(what, sizeof what, "%s: end of operation %zu", w->what, k);
            check_u64(&x->test, timeline.operations[recorded].end, w->steps[k].end, what);
        }
        check_u64(&x->test, timeline.makespan, w->makespan, w->what);
        check_laws(x, &timeline, w->what);
        timeline_free(&timeline);
    }
}

/* Of the two blocks above: the second's product waits for the unit, its exponentials do not meet the first's tiles. */
static void test_resident(Context *x)
{
    const Worked *w = &worked[sizeof worked / sizeof worked[0] - 1];
    const Profile chip = chip_of(w);
    Status status = {0};
    Timeline timeline;
    timeline_init(&timeline, &chip, &x->alloc, &status);
    for (int block = 0; block < 9; block++) {
        if (block > 0) timeline_next_block(&timeline);
        for (size_t k = 0; k < w->count && status_ok(&status); k++) record(&timeline, &w->steps[k], 0, TENSOR_WGMMA);
    }
    check_true(&x->test, status.code == STATUS_INFEASIBLE && strstr(status.text, "at most 8 resident blocks") != NULL,
               status.text);
    status = (Status){0};
    timeline_clear(&timeline);
    check_u64(&x->test, timeline.count, 0, "operations after timeline_clear");
    for (int block = 0; block < 2; block++) {
        if (block > 0) timeline_next_block(&timeline);
        for (size_t k = 0; k < w->count; k++) record(&timeline, &w->steps[k], 0, TENSOR_WGMMA);
    }
    check_true(&x->test, timeline_run(&timeline), "two blocks");
    check_u64(&x->test, timeline.operations[2].start, 10, "the second block's product starts");
    check_u64(&x->test, timeline.operations[3].start, 20, "the second block's exponentials start");
    check_u64(&x->test, timeline.makespan, 24, "two blocks: makespan");
    check_u64(&x->test, timeline.busy[UNIT_TENSOR], 20, "two blocks: tensor cores");
    timeline_free(&timeline);
}

/* ---- views ---- */

/* Reads of S and writes of P, a view of S, are reads and writes of one storage. */
static void test_views(Context *x)
{
    const Profile chip = simple_chip();
    const Step product = {0, MATMUL, ASYNC, 10, Q, K, S, 0, 10}, apart = {1, LOAD, ASYNC, 5, NO_TILE, NO_TILE, P, 0, 5};
    Status status = {0};
    Timeline timeline;
    timeline_init(&timeline, &chip, &x->alloc, &status);
    record(&timeline, &product, 0, TENSOR_WGMMA);
    record(&timeline, &apart, 0, TENSOR_WGMMA);
    timeline_run(&timeline);
    check_u64(&x->test, timeline.operations[1].start, 0, "a tile of its own is free");
    timeline_clear(&timeline);
    record(&timeline, &product, 0, TENSOR_WGMMA);
    const Stream stream = {.name = "b", .warps = 1, .index = 1};
    Tile view = tile(P, 5);
    view.storage = S;
    const Event event = {.operation = OP_LOAD, .stream = &stream, .async = true, .tensor = &bytes_in_memory, .written = {&view}};
    timeline_observe(&timeline, &event);
    timeline_run(&timeline);
    check_u64(&x->test, timeline.operations[1].start, 10, "a view is the tile below it");
    timeline_free(&timeline);
}

/* ---- what cannot end ---- */

static void test_deadlock(Context *x)
{
    const Profile chip = simple_chip();
    const Step first = {0, MATMUL, 0, 10, Q, K, S, 0, 10}, second = {0, EXP, 0, 4, S, NO_TILE, P, 10, 14};
    Status status = {0};
    Timeline timeline;
    timeline_init(&timeline, &chip, &x->alloc, &status);
    record(&timeline, &first, 0, TENSOR_WGMMA);
    record(&timeline, &second, 0, TENSOR_WGMMA);
    record(&timeline, &second, 0, TENSOR_WGMMA);
    timeline.operations[1].first_dependency = 0; /* a program cannot say so: the second waits for the third */
    timeline.operations[1].dependency_count = 1;
    timeline.dependencies[0] = 2;
    check_true(&x->test, !timeline_run(&timeline), "a circle is refused");
    check_text(&x->test, status.text, "timeline: 2 of 3 operations wait for each other", "the message");
    timeline_free(&timeline);
}

static void test_empty(Context *x)
{
    const Profile chip = simple_chip();
    Status status = {0};
    Timeline timeline;
    timeline_init(&timeline, &chip, &x->alloc, &status);
    check_true(&x->test, timeline_run(&timeline), "nothing takes no time");
    check_u64(&x->test, timeline.makespan, 0, "nothing: makespan");
    check_u64(&x->test, timeline_critical_path(&timeline).latency, 0, "nothing: critical path");
    timeline_free(&timeline);
}

/* ---- random programs, and a second simulation ---- */

/* Each step of the clock looks at every operation that has not started: slow, and without queues. */
static bool may_start(const Timeline *timeline, const bool *started, const uint64_t *start, const uint64_t *unit_free,
                      uint32_t index, uint64_t *at, uint64_t *ready)
{
    const TimedOperation *operation = &timeline->operations[index];
    uint64_t from = 0, queued = 0;
    Cost own = operation->cost;
    int unit = UNIT_COPY;
    for (int u = 0; u < UNIT_KINDS; u++)
        if (own.occupancy[u] > own.occupancy[unit]) unit = u;
    for (uint32_t i = 0; i < index; i++) { /* program order: the stream, then its asynchronous queue */
        const TimedOperation *before = &timeline->operations[i];
        if (before->stream != operation->stream) continue;
        if (!before->async || before->cost.queued_at > 0) {
            if (!started[i]) return false;
            from = max_u64(from, start[i] + (before->async ? before->cost.queued_at : before->cost.hold));
        }
        if (before->async) from += before->cost.issue;
        if (before->async && operation->async) {
            int other = UNIT_COPY;
            for (int u = 0; u < UNIT_KINDS; u++)
                if (before->cost.occupancy[u] > before->cost.occupancy[other]) other = u;
            if (other != unit) continue;
            if (!started[i]) return false;
            queued = max_u64(queued, start[i]);
        }
    }
    for (uint32_t k = 0; k < operation->dependency_count; k++) {
        const uint32_t other = timeline->dependencies[operation->first_dependency + k];
        if (!started[other]) return false;
        const TimedOperation *made = &timeline->operations[other];
        const bool handed_over = made->stream != operation->stream && made->operation != OP_ARRIVE && operation->operation != OP_SYNC;
        from = max_u64(from, start[other] + made->cost.hold + (handed_over ? timeline->profile->barrier_latency_cycles : 0));
    }
    *ready = from;
    *at = max_u64(from, queued);
    for (int u = 0; u < UNIT_KINDS; u++)
        if (own.occupancy[u] > 0) *at = max_u64(*at, unit_free[u]);
    return true;
}

static void simulate_slowly(const Timeline *timeline, uint64_t start[MOST_OPERATIONS])
{
    bool started[MOST_OPERATIONS] = {false};
    uint64_t unit_free[UNIT_KINDS] = {0};
    for (uint32_t done = 0; done < timeline->count; done++) {
        uint32_t best = UINT32_MAX;
        uint64_t best_at = UINT64_MAX, best_ready = UINT64_MAX, at, ready;
        for (uint32_t i = 0; i < timeline->count; i++) {
            if (started[i] || !may_start(timeline, started, start, unit_free, i, &at, &ready)) continue;
            if (at < best_at || (at == best_at && ready < best_ready)) {
                best = i;
                best_at = at;
                best_ready = ready;
            }
        }
        started[best] = true;
        start[best] = best_at;
        for (int u = 0; u < UNIT_KINDS; u++)
            if (timeline->operations[best].cost.occupancy[u] > 0)
                unit_free[u] = best_at + timeline->operations[best].cost.occupancy[u];
    }
}

static uint32_t draw(uint64_t seed, uint64_t *counter, uint32_t below)
{
    return (uint32_t)(philox_element(seed, 0, (*counter)++) % below);
}

static Step random_step(uint64_t seed, uint64_t *counter)
{
    static const Kind kinds[] = {MATMUL, MATMUL, EXP, EXP, LOAD, STORE, FILL, ARRIVE, SYNC};
    const Kind kind = kinds[draw(seed, counter, 9)];
    Step step = {.stream = (int)draw(seed, counter, 4),
                 .kind = kind,
                 .cycles = 1 + draw(seed, counter, 20),
                 .read0 = NO_TILE,
                 .read1 = NO_TILE,
                 .written = NO_TILE};
    step.async = kind == ARRIVE || ((kind == MATMUL || kind == LOAD || kind == STORE) && draw(seed, counter, 3) > 0);
    if (kind != LOAD && kind != FILL && kind != ARRIVE) step.read0 = (int)draw(seed, counter, 8);
    if (kind == MATMUL) step.read1 = (int)draw(seed, counter, 8);
    if (kind != STORE && kind != SYNC) step.written = (int)draw(seed, counter, 8);
    return step;
}

static void record_random(Timeline *timeline, uint64_t seed)
{
    uint64_t counter = 0;
    const uint32_t count = 3 + draw(seed, &counter, MOST_STEPS - 3), shared = draw(seed, &counter, 2), mma_sync = draw(seed, &counter, 2);
    for (uint32_t i = 0; i < count; i++) {
        const Step step = random_step(seed, &counter);
        record(timeline, &step, shared * step.cycles / 2, mma_sync ? TENSOR_MMA_SYNC : TENSOR_WGMMA);
    }
}

/* No two operations have a unit at once, no blocking two a stream. */
static void check_exclusive(Context *x, const Timeline *timeline, const char *what)
{
    for (uint32_t i = 0; i < timeline->count; i++)
        for (uint32_t k = 0; k < i; k++) {
            const TimedOperation *a = &timeline->operations[i], *b = &timeline->operations[k];
            for (int unit = 0; unit < UNIT_KINDS; unit++)
                if (a->cost.occupancy[unit] > 0 && b->cost.occupancy[unit] > 0)
                    check_true(&x->test,
                               a->start + a->cost.occupancy[unit] <= b->start || b->start + b->cost.occupancy[unit] <= a->start,
                               what);
            if (a->stream == b->stream && !a->async && !b->async) check_true(&x->test, b->end <= a->start, what);
        }
}

static void test_random(Context *x)
{
    Profile chip = simple_chip();
    chip.matmul_startup_cycles = 3;
    chip.barrier_latency_cycles = 2;
    chip.l2_latency_cycles = 11;
    chip.issue_slots_per_cycle_per_sm = 2;
    chip.issue_interval_millicycles_per_warp = 2700;
    chip.mma_sync_bf16_flops_per_cycle_per_sm = 1;
    chip.mma_sync_startup_cycles = 5;
    chip.wgmma_queue_instructions = 4;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        Status status = {0};
        Timeline timeline;
        uint64_t expected[MOST_OPERATIONS] = {0}, before;
        char what[64];
        timeline_init(&timeline, &chip, &x->alloc, &status);
        record_random(&timeline, seed);
        check_true(&x->test, timeline_run(&timeline), "a random program ends");
        simulate_slowly(&timeline, expected);
        for (uint32_t i = 0; i < timeline.count; i++) {
            snprintf(what, sizeof what, "program %" PRIu64 ": start of operation %" PRIu32, seed, i);
            check_u64(&x->test, timeline.operations[i].start, expected[i], what);
        }
        check_laws(x, &timeline, what);
        check_exclusive(x, &timeline, what);
        before = timeline.makespan;
        timeline_run(&timeline);
        check_u64(&x->test, timeline.makespan, before, "a second simulation of the same recording");
        timeline_free(&timeline);
    }
}

/* ---- rates ---- */

/* The rate of each unit, one that a program can be timed without. */
static uint64_t *rate_of(Profile *chip, Unit unit)
{
    switch (unit) {
    case UNIT_TENSOR:
        return &chip->wgmma_bf16_flops_per_cycle_per_sm;
    case UNIT_MUFU:
        return &chip->mufu_ops_per_cycle_per_sm;
    case UNIT_ISSUE:
        return &chip->issue_slots_per_cycle_per_sm;
    case UNIT_SHARED:
        return &chip->smem_bytes_per_cycle_per_sm;
    default:
        return &chip->l2_bytes_per_second_per_sm;
    }
}

typedef struct {
    uint64_t makespan, busy[UNIT_KINDS];
    CriticalPath path;
} Outcome;

static Outcome outcome_of(Context *x, const Profile *chip, const Step *steps, size_t count)
{
    Status status = {0};
    Timeline timeline;
    timeline_init(&timeline, chip, &x->alloc, &status);
    for (size_t i = 0; i < count; i++) record(&timeline, &steps[i], 0, TENSOR_WGMMA);
    timeline_run(&timeline);
    Outcome outcome = {.makespan = timeline.makespan, .path = timeline_critical_path(&timeline)};
    memcpy(outcome.busy, timeline.busy, sizeof outcome.busy);
    timeline_free(&timeline);
    return outcome;
}

/* Products bound this loop; its exponentials run beside them; shared memory is not used at all. */
static void test_rates(Context *x)
{
    static const Step steps[] = {{0, MATMUL, ASYNC, 100, Q, K, S, 0, 0},
                                 {0, EXP, 0, 40, P, NO_TILE, P, 0, 0},
                                 {0, MATMUL, ASYNC, 100, P, V, O, 0, 0},
                                 {0, EXP, 0, 40, P2, NO_TILE, P2, 0, 0},
                                 {1, LOAD, ASYNC, 60, NO_TILE, NO_TILE, S2, 0, 0}};
    enum { COUNT = sizeof steps / sizeof steps[0] };
    Profile chip = simple_chip();
    for (int unit = 0; unit < UNIT_KINDS; unit++) *rate_of(&chip, (Unit)unit) *= unit == UNIT_ISSUE ? 1 : 2;
    const Outcome base = outcome_of(x, &chip, steps, COUNT);
    check_text(&x->test, critical_path_bound(&base.path), "tensor cores", "what binds");
    for (int unit = 0; unit < UNIT_KINDS; unit++) {
        Profile slower = chip, off = chip;
        if (unit == UNIT_ISSUE) continue; /* unlimited in this chip */
        *rate_of(&slower, (Unit)unit) /= 2;
        *rate_of(&off, (Unit)unit) = PROFILE_UNLIMITED;
        const Outcome slow = outcome_of(x, &slower, steps, COUNT), without = outcome_of(x, &off, steps, COUNT);
        check_u64(&x->test, slow.busy[unit], 2 * base.busy[unit], "half the rate is twice the busy time");
        check_u64(&x->test, without.busy[unit], 0, "an unlimited unit is never busy");
        if (unit == UNIT_TENSOR) check_u64(&x->test, slow.makespan, 2 * base.makespan, "half the rate of the unit that binds");
        if (unit == UNIT_TENSOR) check_true(&x->test, without.makespan < base.makespan, "the unit that binds, switched off");
        if (unit == UNIT_SHARED)
            check_true(&x->test, memcmp(&without, &base, sizeof base) == 0, "an unused unit, switched off, changes nothing");
        if (unit == UNIT_MUFU || unit == UNIT_COPY)
            check_u64(&x->test, without.makespan, base.makespan, "a unit beside the one that binds");
    }
}

int main(void)
{
    Context x = {0};
    test_worked(&x);
    test_resident(&x);
    test_views(&x);
    test_deadlock(&x);
    test_empty(&x);
    test_random(&x);
    test_rates(&x);
    return test_end(&x.test, "test_timeline");
}
