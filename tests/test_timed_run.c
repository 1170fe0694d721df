/* test_timed_run.c - one timed run: the same counts and cycles as the run itself, rates by the convention, and what cannot run.
 */
#include "test.h"

#include "experiments/support/block_plan.h"
#include "experiments/support/pass_work.h"
#include "experiments/support/timed_run.h"

#include <math.h>

static const TableSpec *const no_tables[] = {NULL};
static const ReportSpec spec = {.section = "7", .title_en = "t", .title_zh = "t", .tables = no_tables};

typedef struct {
    Test test;
    Alloc alloc;
    Status status;
    Report report;
} Bench;

static AttentionShape shape_of(uint64_t heads, uint64_t N, uint64_t d, MaskKind mask)
{
    AttentionShape shape = attention_shape(N, d);
    shape.heads = shape.kv_heads = heads;
    shape.mask = mask;
    return shape;
}

/* A launch at the clock that the power limit leaves, and never above tensor_clock; launches follow one another after the first has started. */
static double seconds_of(const AttentionRun *run, const Profile *chip)
{
    const uint64_t wgmma = chip->wgmma_bf16_flops_per_cycle_per_sm, mma_sync = chip->mma_sync_bf16_flops_per_cycle_per_sm;
    const double rate = (double)((wgmma > 0 ? wgmma : mma_sync) * chip->sm_count);
    double seconds = (double)chip->launch_nanoseconds / 1e9;
    for (uint32_t i = 0; i < run->machine.launch_count; i++) {
        const double cycles = (double)run->machine.launches[i].time.cycles, products = (double)run->machine.launches[i].counts.matmul_flops / rate;
        const double limited = (cycles - products) / (double)chip->boost_clock_hz + products / (double)chip->full_tensor_clock_hz;
        seconds += fmax(limited, cycles / (double)chip->tensor_clock_hz);
    }
    return seconds;
}

/* Against attention_run_forward itself. */
static void test_same(Bench *b, const Algorithm *algorithm, const Profile *chip, MaskKind mask)
{
    const TimedSetup setup = {.algorithm = algorithm, .chip = chip, .shape = shape_of(4, 700, 64, mask)};
    const RunSetup plain = {.algorithm = algorithm, .profile = chip, .config = {.l2 = L2_IDEAL, .time = true}};
    AttentionRun run = {0};
    TimedRun timed;
    check_true(&b->test, timed_run(&timed, &setup, &b->report, &b->alloc, &b->status), algorithm->name);
    check_true(&b->test, attention_run_prepare(&run, &plain, &setup.shape, &b->alloc, &b->status) && attention_run_forward(&run),
               "run");
    uint64_t cycles = 0, tensor = 0;
    for (uint32_t i = 0; i < run.machine.launch_count; i++) {
        cycles += run.machine.launches[i].time.cycles;
        tensor += run.machine.launches[i].time.busy[UNIT_TENSOR];
    }
    const double flops = 4.0 * 4 * 700 * 700 * 64 / (mask == MASK_NONE ? 1 : 2), seconds = seconds_of(&run, chip);
    check_u64(&b->test, timed.cycles, cycles, "cycles = sum over launches");
    check_u64(&b->test, timed.busy[UNIT_TENSOR], tensor, "tensor cycles = sum over launches");
    check_u64(&b->test, timed.launches, run.machine.launch_count, "launches");
    check_u64(&b->test, l2_bytes(&timed.totals), run.totals.l2_to_sm_bytes + run.totals.sm_to_l2_bytes, "L2 bytes");
    check_close(&b->test, timed.tflops, flops / seconds / 1e12, 1e-3, "TFLOP/s = 4 h N^2 d / time, half if causal");
    attention_run_free(&run);
}

static void test_backward(Bench *b, const Profile *h100)
{
    const BackwardVariant variant = {.direct_dq = true};
    const TimedSetup setup = {
        .algorithm = &algorithm_fa2, .chip = h100, .shape = shape_of(2, 512, 64, MASK_NONE), .backward = &variant};
    TimedRun run;
    check_true(&b->test, timed_run(&run, &setup, &b->report, &b->alloc, &b->status), "backward");
    const double flops = 2.5 * 4.0 * 2 * 512 * 512 * 64;
    check_close(&b->test, run.tflops, flops / (run.microseconds * 1e6), 1e-9, "backward TFLOP/s = 2.5 * 4 h N^2 d / time");
}

/* fa3 needs wgmma, fa4 tcgen05. */
static void test_refused(Bench *b, const Profile chips[3])
{
    static const Algorithm *const algorithms[] = {&algorithm_fa2, &algorithm_fa3, &algorithm_fa4};
    static const bool runs[3][3] = {{true, false, false}, {true, true, false}, {true, false, true}};
    for (int c = 0; c < 3; c++)
        for (int a = 0; a < 3; a++) {
            const TimedSetup setup = {.algorithm = algorithms[a], .chip = &chips[c], .shape = shape_of(1, 256, 64, MASK_NONE)};
            Status status = {0};
            TimedRun run;
            const bool ok = timed_run(&run, &setup, &b->report, &b->alloc, &status);
            check_u64(&b->test, ok, runs[c][a], "whether it runs");
            check_u64(&b->test, runs_on(algorithms[a], &chips[c]), runs[c][a], "runs_on");
            check_u64(&b->test, status.code, runs[c][a] ? STATUS_OK : STATUS_INFEASIBLE, status.text);
        }
}

/* Causal work is 1 .. Tr for every head; LPT ends at the bound of the lecture's example; hiding the ends of tasks never costs. */
static void test_plans(Bench *b, const Profile *h100)
{
    const Context context = {.alloc = &b->alloc, .status = &b->status};
    const AttentionShape shape = shape_of(2, 512, 128, MASK_CAUSAL), full = shape_of(16, 2048, 128, MASK_NONE);
    const ChipSlots three = {3, 1, NULL};
    ChipSchedule schedule = {0};
    Persistent hidden = {0};
    Plan plan;
    check_true(&b->test, plan_launch(&context, &plan, &shape, (TileSize){128, 128}), "plan");
    for (uint64_t i = 0; i < plan.count; i++) check_u64(&b->test, plan.work[i], i % 4 + 1, "work of causal block i = i + 1");
    check_true(&b->test, schedule_plan(&context, &plan, LONGEST_FIRST, &three, &schedule), "schedule");
    check_u64(&b->test, schedule.makespan, 7, "LPT of 1, 2, 3, 4 twice on three SMs");
    chip_schedule_free(&schedule);
    plan_free(&context, &plan);
    check_true(&b->test, plan_launch(&context, &plan, &full, (TileSize){128, 128}), "plan");
    check_true(&b->test, plan_persistent(&context, &plan, h100, 670, &hidden), "persistent");
    check_u64(&b->test, hidden.workers, h100->sm_count, "one persistent block per SM");
    check_true(&b->test, hidden.overlapped <= hidden.apart && hidden.overlapped >= 2 * hidden.task,
               "256 blocks on 132 SMs: two tasks or more");
    plan_free(&context, &plan);
}

/* Standard 4 + 8, FlashAttention-2 4 + 10 N^2 d; elements of HBM 12Nd + 11N^2, and 13Nd with L and D. */
static void test_passes(Bench *b)
{
    const uint64_t N = 256, d = 64;
    Profile machine;
    PassWork standard, flash;
    check_true(&b->test, profile_load("unbounded", &b->alloc, &machine, &b->status), "unbounded");
    check_true(&b->test, pass_work(&standard, &algorithm_standard, &machine, N, d, &b->report, &b->alloc, &b->status),
               "standard");
    check_true(&b->test, pass_work(&flash, &algorithm_fa2, &machine, N, d, &b->report, &b->alloc, &b->status), "flash");
    check_u64(&b->test, standard.flops[0], 4 * N * N * d, "standard forward = 4 N^2 d");
    check_u64(&b->test, standard.flops[1], 8 * N * N * d, "standard backward = 8 N^2 d");
    check_u64(&b->test, flash.flops[0], 4 * N * N * d, "flash forward = 4 N^2 d");
    check_u64(&b->test, flash.flops[1], 10 * N * N * d, "flash backward = 10 N^2 d");
    check_u64(&b->test, standard.elements[0] + standard.elements[1], 12 * N * d + 11 * N * N, "12Nd + 11N^2");
    check_u64(&b->test, flash.elements[0], 4 * N * d + N, "4Nd + N");
    check_u64(&b->test, flash.elements[1], 11 * N * d + 3 * N,
              "11Nd + 3N: O, dO for D; Q, K, V, dO; dQ zeroed, read and written; dK, dV");
}

/* The work of all blocks is the number of tile pairs of the closed form, also where a window hides the first keys. */
static void test_window(Bench *b, const Profile *h100)
{
    const Context context = {.alloc = &b->alloc, .status = &b->status};
    AttentionShape shape = shape_of(3, 1000, 64, MASK_NONE);
    const RunSetup setup = {.algorithm = &algorithm_fa2, .profile = h100, .tiles = {128, 64}};
    AttentionRun run = {0};
    OrderGain gain;
    Plan plan;
    shape.window_left = 150;
    shape.window_right = 20;
    check_true(&b->test, attention_run_prepare(&run, &setup, &shape, &b->alloc, &b->status), "closed form");
    check_true(&b->test, plan_launch(&context, &plan, &shape, setup.tiles), "plan");
    check_u64(&b->test, plan.work_sum, run.closed_form.tile_pairs, "work of all blocks = tile pairs");
    plan_free(&context, &plan);
    attention_run_free(&run);
    check_true(&b->test, order_gain(&context, h100, &shape, setup.tiles, &gain), "orders");
    check_true(&b->test, gain.longest == gain.natural && ratio_value(gain.longest_efficiency) == 1,
               "24 blocks on 132 SMs: any order is the best");
}

int main(void)
{
    Bench b = {.alloc = {0}};
    Profile chips[3];
    const bool ok = profile_load("a100", &b.alloc, &chips[0], &b.status) &&
                    profile_load("h100", &b.alloc, &chips[1], &b.status) &&
                    profile_load("b200", &b.alloc, &chips[2], &b.status) &&
                    report_init(&b.report, "test_timed_run", &spec, &b.alloc, &b.status);
    check_true(&b.test, ok, b.status.text);
    if (ok) {
        test_same(&b, &algorithm_standard, &chips[0], MASK_NONE);
        test_same(&b, &algorithm_fa2, &chips[0], MASK_CAUSAL);
        test_same(&b, &algorithm_fa3, &chips[1], MASK_CAUSAL);
        test_same(&b, &algorithm_fa4, &chips[2], MASK_NONE);
        test_backward(&b, &chips[1]);
        test_refused(&b, chips);
        test_plans(&b, &chips[1]);
        test_passes(&b);
        test_window(&b, &chips[1]);
        check_u64(&b.test, b.report.mismatch_count, 0, "counts are the closed forms");
        check_text(&b.test, b.status.text, "", "status");
    }
    report_free(&b.report);
    check_u64(&b.test, b.alloc.live_bytes, 0, "live bytes");
    return test_end(&b.test, "test_timed_run");
}
