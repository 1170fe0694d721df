/* test_launch_time.c - a launch's time against the same blocks simulated one by one, and what binds it.
 *
 * launch_time simulates a block of each kind and, once longer loops add the same cycles again and again, extends. Here an
 * observer of the walk simulates every block of a head in full.
 */
/* label: unit, property */
#include "test.h"

#include "experiments/support/timeline_view.h"

#include "sim/checked.h"
#include "sim/chip_schedule.h"

typedef struct {
    Test test;
    Alloc alloc;
} Context;

enum { MOST_BLOCKS = 160 };

typedef struct {
    const Algorithm *algorithm;
    const char *chip;
    uint64_t N, d, heads, sms;
    uint32_t Br, Bc;
    MaskKind mask;
    Fa4Options fa4;
} Case;

static const Case cases[] = {
    {&algorithm_fa3, "h100", 128 * 64, 128, 3, 132, 128, 128, MASK_CAUSAL, {0}},
    {&algorithm_fa3, "h200", 128 * 96, 128, 2, 7, 128, 128, MASK_CAUSAL, {0}},
    {&algorithm_fa3, "h100", 128 * 40 + 17, 128, 2, 5, 128, 128, MASK_CAUSAL, {0}},
    {&algorithm_fa3, "h100", 192 * 40, 64, 2, 5, 192, 128, MASK_CAUSAL, {0}},
    {&algorithm_fa3, "h100", 128 * 48, 128, 2, 132, 128, 176, MASK_CAUSAL, {0}},
    {&algorithm_fa3, "ideal_sm", 128 * 40, 128, 1, 3, 128, 128, MASK_CAUSAL, {0}},
    {&algorithm_fa2, "a100", 128 * 64, 128, 2, 108, 128, 64, MASK_CAUSAL, {0}},
    {&algorithm_fa2, "h100", 128 * 40, 64, 2, 9, 128, 128, MASK_CAUSAL, {0}},
    {&algorithm_fa2, "a100", 64 * 150, 64, 1, 2, 64, 64, MASK_CAUSAL, {0}},
    {&algorithm_fa2, "a100", 4096, 128, 4, 108, 128, 64, MASK_NONE, {0}},
    {&algorithm_fa3, "h100", 4096, 128, 4, 108, 128, 176, MASK_NONE, {0}},
    {&algorithm_fa4, "b200", 256 * 60, 128, 2, 7, 256, 128, MASK_CAUSAL, {0}},
    {&algorithm_fa4, "b200", 256 * 60, 128, 2, 7, 256, 128, MASK_CAUSAL, {.conditional = true, .rescale_ppm = 62500}},
    {&algorithm_fa4, "b200", 256 * 60, 128, 2, 7, 256, 128, MASK_CAUSAL, {.conditional = true, .rescale_ppm = 300000}},
    {&algorithm_fa4, "b200", 256 * 60, 64, 1, 5, 256, 128, MASK_CAUSAL, {.poly_sixteenths = 3, .conditional = true}},
};

static Profile chip_of(Context *x, const Case *c)
{
    Status status = {0};
    Profile chip = {0};
    check_true(&x->test, profile_load(c->chip, &x->alloc, &chip, &status), c->chip);
    chip.sm_count = c->sms;
    chip.max_blocks_per_sm = 1; /* several per SM: below */
    return chip;
}

static AttentionShape shape_of(const Case *c)
{
    AttentionShape shape = attention_shape(c->N, c->d);
    shape.heads = shape.kv_heads = c->heads;
    shape.mask = c->mask;
    return shape;
}

static LaunchTime time_of(Context *x, const Profile *chip, const Case *c, const char *what)
{
    Status status = {0};
    AttentionRun run;
    LaunchTime time = {0};
    const AttentionShape shape = shape_of(c);
    const RunSetup setup = {
        .algorithm = c->algorithm, .profile = chip, .tiles = {c->Br, c->Bc}, .config = {.l2 = L2_IDEAL, .time = true}};
    const bool ok = attention_run_prepare(&run, &setup, &shape, &x->alloc, &status);
    run.attention.fa4 = c->fa4;
    if (ok && attention_run_forward(&run)) time = run.machine.launches[0].time;
    attention_run_free(&run);
    check_true(&x->test, status_ok(&status), what);
    return time;
}

/* Simulates each block when the next one begins. */
typedef struct {
    Timeline timeline;
    uint64_t block, cycles[MOST_BLOCKS], busy[UNIT_KINDS];
} EachBlock;

static void finish_block(EachBlock *each)
{
    timeline_run(&each->timeline);
    each->cycles[each->block] = each->timeline.makespan;
    for (int unit = 0; unit < UNIT_KINDS; unit++) each->busy[unit] += each->timeline.busy[unit];
    timeline_clear(&each->timeline);
}

static void observe_block(void *observer, const Event *event)
{
    EachBlock *each = observer;
    if (event->stream->block->index != each->block) finish_block(each);
    each->block = event->stream->block->index;
    timeline_observe(&each->timeline, event);
}

static void simulate_blocks(Context *x, const Profile *chip, const Case *c, EachBlock *each)
{
    Status status = {0};
    AttentionShape shape = shape_of(c);
    AttentionRun run;
    const RunSetup setup = {.algorithm = c->algorithm,
                            .profile = chip,
                            .tiles = {c->Br, c->Bc},
                            .config = {.l2 = L2_IDEAL, .observe = observe_block, .observer = each}};
    *each = (EachBlock){0};
    timeline_init(&each->timeline, chip, &x->alloc, &status);
    shape.heads = shape.kv_heads = 1;
    const bool ok = attention_run_prepare(&run, &setup, &shape, &x->alloc, &status);
    run.attention.fa4 = c->fa4;
    check_true(&x->test, ok && attention_run_forward(&run), status.text);
    finish_block(each);
    attention_run_free(&run);
    timeline_free(&each->timeline);
}

static void test_against_full_simulation(Context *x)
{
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const Case *c = &cases[k];
        const Profile chip = chip_of(x, c);
        const uint64_t blocks = ceil_div(c->N, c->Br);
        uint64_t work[4 * MOST_BLOCKS];
        EachBlock each;
        char what[120];
        snprintf(what, sizeof what, "%s on %s, N = %" PRIu64 ", %" PRIu64 " SMs", c->algorithm->name, c->chip, c->N, c->sms);
        const LaunchTime time = time_of(x, &chip, c, what);
        Profile busy = chip;    /* all SMs that have a block share L2 */
        if (chip.l2_bytes_per_second_per_chip != PROFILE_UNLIMITED)
            busy.l2_bytes_per_second_per_sm =
                min_u64(chip.l2_bytes_per_second_per_sm, chip.l2_bytes_per_second_per_chip / min_u64(blocks * c->heads, c->sms));
        simulate_blocks(x, &busy, c, &each);
        for (uint64_t i = 0; i < blocks * c->heads; i++) work[i] = each.cycles[i % blocks];
        Status status = {0};
        ChipSchedule schedule;
        const BlockList list = {.work = work, .count = blocks * c->heads};
        check_true(&x->test, chip_schedule(&schedule, &list, &(ChipSlots){c->sms, 1, NULL}, &x->alloc, &status), what);
        check_u64(&x->test, time.sm_cycles, schedule.makespan, what);
        check_u64(&x->test, time.blocks_per_sm, 1, what);
        for (int unit = 0; unit < UNIT_KINDS; unit++)
            check_u64(&x->test, time.busy[unit], c->heads * each.busy[unit], unit_name((Unit)unit));
        chip_schedule_free(&schedule);
    }
}

/* Two equal blocks on one SM take as long as both recorded into one timeline, up to the thousandths in which their slowing down
 * is kept. */
static void test_residency(Context *x)
{
    Case c = {&algorithm_fa2, "a100", 2048, 64, 1, 8, 128, 128, MASK_NONE, {0}};
    Profile chip = chip_of(x, &c);
    EachBlock each;
    simulate_blocks(x, &chip, &c, &each);
    const uint64_t alone = each.cycles[0];
    chip.max_blocks_per_sm = 2;
    const LaunchTime two = time_of(x, &chip, &c, "16 blocks on 8 SMs, two each");
    check_u64(&x->test, two.blocks_per_sm, 2, "resident blocks");
    check_true(&x->test, two.sm_cycles > alone && two.sm_cycles < 2 * alone,
               "two blocks on an SM: slower than one alone, faster than one after the other");
    c.sms = chip.sm_count = 16;
    const LaunchTime one = time_of(x, &chip, &c, "16 blocks on 16 SMs");
    check_u64(&x->test, one.sm_cycles, alone, "16 blocks on 16 SMs: each has its own");
    check_u64(&x->test, one.blocks_per_sm, 1, "no more resident than there are blocks");
}

/* ---- bandwidth ---- */

static void test_bandwidth(Context *x)
{
    const Case c = {&algorithm_fa3, "h100", 4096, 128, 8, 132, 128, 128, MASK_NONE, {0}};
    Profile chip = chip_of(x, &c);
    const LaunchTime base = time_of(x, &chip, &c, "base");
    /* Q, K, V, O once and L: 8 heads * 4096 rows * (4 * 128 * 2 + 4) bytes */
    const double hbm = 8.0 * 4096 * (4 * 128 * 2 + 4), l2 = 8.0 * (4096 * (2 * 128 * 2 + 4) + 32 * 4096 * 2 * 128 * 2.0);
    check_close(&x->test, (double)base.hbm_cycles, hbm / (double)chip.hbm_sustained_bytes_per_second_per_chip * 1.83e9, 1e-3,
                "HBM: bytes over bandwidth");
    check_close(&x->test, (double)base.l2_cycles, l2 / (double)chip.l2_bytes_per_second_per_chip * 1.83e9, 1e-3,
                "L2: bytes over bandwidth");
    check_u64(&x->test, base.cycles, base.sm_cycles, "the SMs bind");
    chip.hbm_sustained_bytes_per_second_per_chip /= 1000;
    const LaunchTime slow_hbm = time_of(x, &chip, &c, "slow HBM");
    check_text(&x->test, slow_hbm.bound, "HBM", "HBM at a thousandth binds");
    check_u64(&x->test, slow_hbm.cycles, slow_hbm.hbm_cycles, "and is the time");
    check_u64(&x->test, slow_hbm.sm_cycles, base.sm_cycles, "while the SMs' own time stays");
    chip = chip_of(x, &c);
    chip.l2_bytes_per_second_per_chip /= 1000;
    check_text(&x->test, time_of(x, &chip, &c, "slow L2").bound, "L2", "L2 at a thousandth binds");
    const Case empty = {&algorithm_fa3, "h100", 0, 128, 1, 132, 128, 128, MASK_NONE, {0}};
    check_u64(&x->test, time_of(x, &chip, &empty, "no blocks").cycles, 0, "an empty launch");
}

/* Every unit's rate changes its busy time, and the launch's time when it is what binds. */
static void test_rates(Context *x)
{
    const Case c = {&algorithm_fa3, "h100", 4096, 128, 8, 132, 128, 128, MASK_NONE, {0}};
    const Profile chip = chip_of(x, &c);
    const LaunchTime base = time_of(x, &chip, &c, "base");
    for (int unit = 0; unit < UNIT_KINDS; unit++) {
        Profile slower = chip;
        uint64_t *const rates[UNIT_KINDS] = {&slower.wgmma_bf16_flops_per_cycle_per_sm, &slower.mufu_ops_per_cycle_per_sm,
                                             &slower.issue_slots_per_cycle_per_sm, &slower.smem_bytes_per_cycle_per_sm,
                                             &slower.l2_bytes_per_second_per_chip};
        *rates[unit] /= 2;
        const LaunchTime slow = time_of(x, &slower, &c, "slower");
        check_close(&x->test, (double)slow.busy[unit], 2 * (double)base.busy[unit], 0.03, unit_name((Unit)unit));
        check_true(&x->test, slow.cycles >= base.cycles, "no faster");
        if (strcmp(base.bound, unit_name((Unit)unit)) == 0)
            check_true(&x->test, slow.cycles > base.cycles, "half the rate of what binds");
        for (int other = 0; other < UNIT_KINDS; other++)
            if (other != unit) check_u64(&x->test, slow.busy[other], base.busy[other], "the other units are as busy as before");
    }
    Profile unused = chip;
    unused.fp8_flops_per_cycle_per_sm = unused.mma_sync_bf16_flops_per_cycle_per_sm = unused.fp32_fma_per_cycle_per_sm =
        PROFILE_UNLIMITED;
    const LaunchTime same = time_of(x, &unused, &c, "unused units");
    check_true(&x->test, same.cycles == base.cycles && memcmp(same.busy, base.busy, sizeof base.busy) == 0,
               "units that the kernel does not use change nothing");
    Profile off = chip;
    off.issue_interval_millicycles_per_warp = 0;
    check_true(&x->test, time_of(x, &off, &c, "no waiting between instructions").cycles < base.cycles, "instructions that need not wait");
}

int main(void)
{
    Context x = {0};
    test_against_full_simulation(&x);
    test_residency(&x);
    test_bandwidth(&x);
    test_rates(&x);
    return test_end(&x.test, "test_launch_time");
}
