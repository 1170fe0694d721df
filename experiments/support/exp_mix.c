/* exp_mix.c - see exp_mix.h. */
#include "exp_mix.h"
#include "h200_exp.h"

#include "sim/cost.h"
#include "sim/ops.h"

enum { ELEMENTS = 16, LANES = 32, SCHEDULERS = 4, ALL_WARPS = H200_WARP_COUNTS - 1 };

double exp_mix_clocks(const ExpMixModel *m, uint32_t k)
{
    const double mufu = (ELEMENTS - k) / m->mufu_rate, issue = (k * m->polynomial + (ELEMENTS - k) * m->mufu + m->loop) / m->issue_rate;
    return mufu > issue ? mufu : issue;
}

uint32_t exp_mix_best(const ExpMixModel *model)
{
    uint32_t best = 0;
    for (uint32_t k = 1; k <= ELEMENTS; k++)
        if (exp_mix_clocks(model, k) < exp_mix_clocks(model, best)) best = k;
    return best;
}

static const H200ExpMix *measured(uint32_t k)
{
    for (int i = 0; i < H200_EXP_MIXES; i++)
        if (h200_exp_mix[i].k == k) return &h200_exp_mix[i];
    return NULL;
}

ExpMixModel exp_mix_fitted(const Profile *chip)
{
    const double issue = SCHEDULERS * LANES, all = issue / measured(16)->per_clock, half = issue / measured(8)->per_clock;
    return (ExpMixModel){.mufu_rate = (double)chip->mufu_ops_per_cycle_per_sm, .issue_rate = issue, .polynomial = all, .mufu = 2 * half - all};
}

ExpMixModel exp_mix_counted(void)
{
    const double threads = LANES * h200_warps[ALL_WARPS];
    const double none = measured(0)->clocks[ALL_WARPS], all = measured(16)->clocks[ALL_WARPS];
    return (ExpMixModel){.mufu_rate = ELEMENTS * threads / none,
                         .issue_rate = (ELEMENTS * H200_POLY_INSTRUCTIONS + H200_LOOP_INSTRUCTIONS) * threads / all,
                         .polynomial = H200_POLY_INSTRUCTIONS,
                         .mufu = H200_MUFU_INSTRUCTIONS,
                         .loop = H200_LOOP_INSTRUCTIONS};
}

/* ----------------------------------------------------------------------------------------------------------------- machine */

typedef struct {
    uint32_t warps, k;
} Mix;

static void mix_block(Block *b, const void *arguments, uint64_t index)
{
    const Mix *mix = arguments;
    const uint32_t rows = LANES * mix->warps;
    Stream *w = stream(b, "warps", mix->warps);
    Tile *x = register_tile(b, "x", ELEMENT_F32, rows, ELEMENTS);
    Rows *base = row_vector(b, "base", ELEMENT_F32, rows);
    (void)index;
    w->poly_sixteenths = mix->k;
    w->flush_to_zero = true;
    fill(w, x, rows, ELEMENTS, 0.0);
    fill(w, base, rows, 1, 0.0);
    exp_rows(w, x, x, base);
}

typedef struct {
    const Profile *chip;
    uint64_t clocks;
} Watch;

static void watch(void *observer, const Event *event)
{
    Watch *const seen = observer;
    if (event->operation == OP_EXP_ROWS) seen->clocks = operation_cost(seen->chip, event).hold;
}

bool exp_mix_machine(uint64_t *clocks, const Profile *chip, uint32_t warps, uint32_t k, Alloc *alloc, Status *status)
{
    Watch seen = {.chip = chip};
    Machine machine;
    const Mix mix = {warps, k};
    const Kernel kernel = {.name = "exp_mix", .instruction = TENSOR_MMA_SYNC, .threads = LANES * warps, .registers_per_thread = 32, .run = mix_block};
    machine_init(&machine, chip, (MachineConfig){.mode = MODE_COUNT, .observe = watch, .observer = &seen}, alloc, status);
    const bool ok = launch(&machine, &kernel, (Grid){1, 1, 1}, &mix);
    *clocks = seen.clocks;
    machine_free(&machine);
    return ok;
}
