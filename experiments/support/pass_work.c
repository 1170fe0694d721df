/* pass_work.c - see pass_work.h. */
#include "pass_work.h"

static void check(Report *report, const AttentionRun *run)
{
    CountPair pairs[COUNT_PAIRS];
    count_pairs(&run->totals, &run->closed_form, pairs);
    for (size_t i = 0; i < COUNT_PAIRS; i++) report_check(report, pairs[i].counted, pairs[i].formula, pairs[i].name);
}

bool pass_work(PassWork *work, const Algorithm *algorithm, const Profile *machine, uint64_t N, uint64_t d, Report *report,
               Alloc *alloc, Status *status)
{
    const AttentionShape shape = attention_shape(N, d);
    const TileSize tiles = {64, 64};
    AttentionRun run = {0};
    bool ok = attention_count(&run, algorithm, &shape, tiles, L2_IDEAL, machine, alloc, status);
    if (ok) check(report, &run);
    work->flops[0] = run.totals.matmul_flops;
    work->elements[0] = hbm_elements(&run.totals);
    ok = ok && attention_run_prepare_backward(&run, tiles, (BackwardVariant){.direct_dq = true}) && attention_run_backward(&run);
    if (ok) check(report, &run);
    work->flops[1] = run.totals.matmul_flops;
    work->elements[1] = hbm_elements(&run.totals);
    attention_run_free(&run);
    return ok;
}
