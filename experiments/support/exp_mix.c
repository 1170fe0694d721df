/* exp_mix.c - see exp_mix.h. */
#include "exp_mix.h"
#include "h200_exp.h"

#include <stddef.h>

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
