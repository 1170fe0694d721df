/* timed_run.c - see timed_run.h. */
#include "timed_run.h"

#include <string.h>

Fa4Options fa4_as_shipped(void) { return (Fa4Options){.poly_sixteenths = 3, .conditional = true, .threshold = 8}; }

AttentionShape published_shape(const PublishedCurve *curve, size_t point)
{
    AttentionShape shape = attention_shape(curve->points[point].seqlen, curve->head_dim);
    shape.batch = curve->points[point].batch;
    shape.heads = shape.kv_heads = curve->heads;
    shape.dtype = published_source(curve->figure)->dtype;
    if (curve->causal) shape.mask = MASK_CAUSAL;
    return shape;
}

static bool walk(AttentionRun *run, const TimedSetup *setup, Alloc *alloc, Status *status)
{
    RunSetup forward = {
        .algorithm = setup->algorithm, .profile = setup->chip, .config = {.mode = MODE_COUNT, .l2 = L2_IDEAL, .time = true}};
    if (setup->backward == NULL) forward.tiles = setup->tiles;
    if (!attention_run_prepare(run, &forward, &setup->shape, alloc, status)) return false;
    run->attention.fa3 = setup->fa3;
    run->attention.fa4 = setup->fa4;
    if (setup->backward == NULL) return attention_run_forward(run);
    return attention_run_prepare_backward(run, setup->tiles, *setup->backward) && attention_run_backward(run);
}

static bool sum_up(TimedRun *out, const TimedSetup *setup, const AttentionRun *run, Status *status)
{
    uint64_t flops = matmul_flops_convention(&run->problem, setup->shape.mask != MASK_NONE, status), longest = 0;
    out->totals = run->totals;
    out->tiles = setup->backward == NULL ? run->setup.tiles : run->backward_tiles;
    out->launches = run->machine.launch_count;
    for (uint32_t i = 0; i < run->machine.launch_count; i++) {
        const LaunchRecord *launch = &run->machine.launches[i];
        out->cycles += launch->time.cycles;
        for (int unit = 0; unit < UNIT_KINDS; unit++) out->busy[unit] += launch->time.busy[unit];
        if (i > 0 && launch->time.cycles <= longest) continue;
        longest = launch->time.cycles;
        out->bound = launch->time.bound;
        out->blocks = launch->blocks;
        out->blocks_per_sm = launch->time.blocks_per_sm;
    }
    if (setup->backward != NULL) flops = checked_mul(flops, 5, "matmul FLOPs of the backward pass", status) / 2;
    if (setup->chip->tensor_clock_hz > 0) out->microseconds = (double)out->cycles * 1e6 / (double)setup->chip->tensor_clock_hz;
    if (out->microseconds > 0) out->tflops = (double)flops / out->microseconds * 1e-6;
    return status_ok(status);
}

bool timed_run(TimedRun *out, const TimedSetup *setup, Report *report, Alloc *alloc, Status *status)
{
    AttentionRun run = {0};
    CountPair pairs[COUNT_PAIRS];
    *out = (TimedRun){.bound = ""};
    bool ok = walk(&run, setup, alloc, status);
    if (ok) {
        count_pairs(&run.totals, &run.closed_form, pairs);
        for (size_t i = 0; i < COUNT_PAIRS; i++) report_check(report, pairs[i].counted, pairs[i].formula, pairs[i].name);
        ok = sum_up(out, setup, &run, status);
    }
    attention_run_free(&run);
    return ok;
}
