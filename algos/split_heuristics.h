/* split_heuristics.h - into how many parts a decoding kernel cuts the keys: four published rules, side by side.
 *
 * Decoding has one block per (query block, head), too few for the chip; cutting the keys into s parts makes s times as many,
 * which pays until the last wave is short. With `blocks` unsplit and `slots` that run at once,
 *
 *     efficiency(s) = w / ceil(w),  w = blocks s / slots
 *
 * and all but one rule take the smallest s of at least 85 % of the best efficiency. They differ in what they try:
 *
 *     lecture  §6.1: s = 1 .. min(128, SMs, key blocks), one block per SM
 *     fa2      two blocks per SM; skips an s with as many key blocks per part as s - 1, which would leave parts idle
 *     fa3      the lecture's, but 1 for at most four key blocks, and K/V beyond 50 MiB are cut even when the chip is full
 *     fa4      no search: as many as there are free SMs per block, at most 128 and the key blocks; 1 for at most four
 *
 * The three with a search answer 1 at once when 80 % of the slots are taken. Efficiencies are compared as fractions, exactly; the
 * published code divides in float32. Sources: flash-attention csrc/flash_attn/flash_api.cpp (FlashAttention-2),
 * hopper/heuristics.h (FlashAttention-3), flash_attn/cute/interface.py (FlashAttention-4), at commit 0251105a. What a part is
 * worth in time they leave out.
 */
#ifndef ATTNLAB_SPLIT_HEURISTICS_H
#define ATTNLAB_SPLIT_HEURISTICS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum { SPLIT_LECTURE, SPLIT_FA2, SPLIT_FA3, SPLIT_FA4, SPLIT_RULES } SplitRule;

/* Of the best efficiency, what is good enough. */
enum { SPLIT_GOOD_PERCENT = 85 };

/* A launch before it is split. */
typedef struct {
    uint64_t blocks;       /* batch x heads as launched (K/V heads when packed) x query blocks */
    uint64_t query_blocks; /* of one head */
    uint64_t key_blocks;   /* of the sequence that is there, not of the cache's capacity */
    uint64_t sm_count;
    uint64_t kv_head_bytes; /* K and V of one head (FlashAttention-3 only) */
    bool masked;            /* causal or a window (FlashAttention-3 only) */
} SplitProblem;

/* Parts by this rule, 1 or more. */
uint64_t split_count(SplitRule rule, const SplitProblem *problem);

/* "lecture", "FlashAttention-2", ... */
const char *split_rule_name(SplitRule rule);

/* What a rule compares: numerator / denominator = w / ceil(w). 0 / 1 without blocks. */
typedef struct {
    uint64_t numerator, denominator;
} SplitEfficiency;
SplitEfficiency split_efficiency(uint64_t blocks, uint64_t splits, uint64_t slots);

/* Parts are cut in whole key blocks, ceil(T / s) each; so many of the s then have any: ceil(T / ceil(T / s)). The rest are idle.
 */
uint64_t split_key_blocks(uint64_t key_blocks, uint64_t splits);
uint64_t split_used(uint64_t key_blocks, uint64_t splits);

/* Blocks that run at once by the rule's own idea of an SM: two per SM for FlashAttention-2. */
uint64_t split_slots(SplitRule rule, uint64_t sm_count);

#endif
