/* timed_run.c - see timed_run.h. */
#include "timed_run.h"

#include <string.h>

Fa4Options fa4_as_shipped(bool causal)
{
    return (Fa4Options){.poly_sixteenths = causal ? 2 : 3, .conditional = true, .threshold = 8};
}

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

uint64_t run_convention_flops(const AttentionRun *run, bool backward, Status *status)
{
    const uint64_t forward = matmul_flops_convention(&run->problem, run->attention.shape.mask != MASK_NONE, status);
    return backward ? checked_mul(forward, 5, "matmul_flops_convention", status) / 2 : forward;
}

bool timed_run_sum(TimedRun *out, const AttentionRun *run, bool backward, Status *status)
{
    const double flops = (double)run_convention_flops(run, backward, status);
    uint64_t longest = 0;
    *out = (TimedRun){.totals = run->totals,
                      .tiles = backward ? run->backward_tiles : run->setup.tiles,
                      .launches = run->machine.launch_count,
                      .bound = ""};
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
    out->microseconds = (double)machine_nanoseconds(&run->machine) / 1e3;
    if (out->microseconds > 0) out->tflops = flops / out->microseconds * 1e-6;
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
        ok = timed_run_sum(out, &run, setup->backward != NULL, status);
    }
    attention_run_free(&run);
    return ok;
}
