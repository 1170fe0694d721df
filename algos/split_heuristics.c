/* split_heuristics.c - see split_heuristics.h. */
#include "split_heuristics.h"

#include "sim/checked.h"

enum { MOST_SPLITS = 128, FEW_KEY_BLOCKS = 4 };

/* What FlashAttention-3 takes the L2 to hold. */
#define ASSUMED_L2_BYTES (UINT64_C(50) << 20)

const char *split_rule_name(SplitRule rule)
{
    static const char *const names[SPLIT_RULES] = {"lecture", "FlashAttention-2", "FlashAttention-3", "FlashAttention-4"};
    return names[rule];
}

uint64_t split_key_blocks(uint64_t key_blocks, uint64_t splits) { return splits > 0 ? ceil_div(key_blocks, splits) : 0; }

uint64_t split_used(uint64_t key_blocks, uint64_t splits)
{
    return key_blocks > 0 && splits > 0 ? ceil_div(key_blocks, split_key_blocks(key_blocks, splits)) : 0;
}

uint64_t split_slots(SplitRule rule, uint64_t sm_count) { return rule == SPLIT_FA2 ? 2 * sm_count : sm_count; }

SplitEfficiency split_efficiency(uint64_t blocks, uint64_t splits, uint64_t slots)
{
    if (blocks == 0 || splits == 0 || slots == 0) return (SplitEfficiency){0, 1};
    return (SplitEfficiency){blocks * splits, slots * ceil_div(blocks * splits, slots)};
}

/* x >= percent % of y, exactly. Blocks are fewer than the slots here, so that nothing comes near 64 bits. */
static bool at_least(SplitEfficiency x, uint64_t percent, SplitEfficiency y)
{
    return 100 * x.numerator * y.denominator >= percent * y.numerator * x.denominator;
}

/* FlashAttention-2: with as many key blocks per part as one part fewer has, the last part would be idle. */
static bool is_eligible(SplitRule rule, uint64_t key_blocks, uint64_t splits)
{
    return rule != SPLIT_FA2 || splits == 1 || split_key_blocks(key_blocks, splits) != split_key_blocks(key_blocks, splits - 1);
}

/* The smallest s of at least 85 % of the best efficiency. */
static uint64_t smallest_good(SplitRule rule, const SplitProblem *p, uint64_t slots)
{
    const uint64_t most = min_u64(MOST_SPLITS, min_u64(slots, p->key_blocks));
    SplitEfficiency best = {0, 1};
    for (uint64_t s = 1; s <= most; s++) {
        const SplitEfficiency e = split_efficiency(p->blocks, s, slots);
        if (is_eligible(rule, p->key_blocks, s) && at_least(e, 100, best)) best = e;
    }
    for (uint64_t s = 1; s <= most; s++)
        if (is_eligible(rule, p->key_blocks, s) && at_least(split_efficiency(p->blocks, s, slots), SPLIT_GOOD_PERCENT, best))
            return s;
    return 1;
}

/* The chip is full: only FlashAttention-3 still cuts, when queries pass twice over keys and values that L2 does not hold. */
static uint64_t splits_of_full_chip(SplitRule rule, const SplitProblem *p)
{
    const bool cut = rule == SPLIT_FA3 && !p->masked && p->kv_head_bytes > ASSUMED_L2_BYTES && p->query_blocks >= 2 * p->sm_count;
    return cut ? min_u64(ceil_div(p->kv_head_bytes, ASSUMED_L2_BYTES), MOST_SPLITS) : 1;
}

uint64_t split_count(SplitRule rule, const SplitProblem *p)
{
    const uint64_t slots = split_slots(rule, p->sm_count);
    const bool few = p->key_blocks <= FEW_KEY_BLOCKS && (rule == SPLIT_FA3 || rule == SPLIT_FA4);
    if (p->blocks == 0 || p->key_blocks == 0) return 1;
    if (rule == SPLIT_FA4) return few ? 1 : max_u64(min_u64(p->sm_count / p->blocks, min_u64(MOST_SPLITS, p->key_blocks)), 1);
    if (p->blocks > slots || 5 * p->blocks >= 4 * slots) return splits_of_full_chip(rule, p);
    return few ? 1 : smallest_good(rule, p, slots);
}
