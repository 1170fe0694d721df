/* test_split_heuristics.c - field case 23 and the lecture's numbers (§6.1, exercise 11), and what FlashAttention-2 really chose:
 * the grids of its decoding kernel in hw_profiles/measured/h200_counters.csv.
 */
/* label: unit */
#include "test.h"

#include "algos/split_heuristics.h"

#include "sim/checked.h"

typedef struct {
    const char *what;
    SplitProblem problem;
    uint64_t splits[SPLIT_RULES]; /* lecture, fa2, fa3, fa4; 0: not asked */
} ChoiceCase;

static SplitProblem decode_problem(uint64_t blocks, uint64_t keys, uint64_t Bc, uint64_t sm_count)
{
    return (SplitProblem){.blocks = blocks, .query_blocks = 1, .key_blocks = ceil_div(keys, Bc), .sm_count = sm_count};
}

static void check_choice(Test *t, const ChoiceCase *c)
{
    char what[200];
    for (int rule = 0; rule < SPLIT_RULES; rule++) {
        if (c->splits[rule] == 0) continue;
        snprintf(what, sizeof what, "%s, rule of %s", c->what, split_rule_name((SplitRule)rule));
        check_u64(t, split_count((SplitRule)rule, &c->problem), c->splits[rule], what);
    }
}

/* By hand, or as the published code answers. */
static void choices(Test *t)
{
    const ChoiceCase cases[] = {
        {"6.1: batch 1 x 32 heads, 128k keys", decode_problem(32, 131072, 128, 132), {4, 7, 4, 4}},
        {"6.1: batch 2", decode_problem(64, 131072, 128, 132), {2, 4, 2, 2}},
        {"6.1: batch 3", decode_problem(96, 131072, 128, 132), {4, 0, 4, 1}},
        {"6.1: batch 4", decode_problem(128, 131072, 128, 132), {1, 2, 1, 1}},
        {"6.1: batch 8", decode_problem(256, 131072, 128, 132), {1, 1, 1, 1}},
        {"6.1: batch 32", decode_problem(1024, 131072, 128, 132), {1, 1, 1, 1}},
        {"ex11: 16 blocks, 32k keys", decode_problem(16, 32768, 128, 132), {8, 14, 8, 8}},
        {"23: 1 K/V head, 8192 keys", decode_problem(1, 8192, 128, 132), {55, 0, 55, 64}},
        {"23: 8 K/V heads, 8192 keys", decode_problem(8, 8192, 128, 132), {15, 0, 15, 16}},
        {"23: four key blocks", decode_problem(8, 512, 128, 132), {4, 4, 1, 1}},
        {"23: 12 heads on 108 SMs", decode_problem(12, 32768, 128, 108), {8, 0, 8, 9}},
        {"nothing to split", decode_problem(0, 1024, 128, 132), {1, 1, 1, 1}},
        {"no keys", decode_problem(8, 0, 128, 132), {1, 1, 1, 1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) check_choice(t, &cases[i]);

    /* FlashAttention-3 cuts a full chip only when one head's K and V exceed 50 MiB, queries pass twice over them, and nothing is
     * masked */
    SplitProblem full = {
        .blocks = 264, .query_blocks = 264, .key_blocks = 2048, .sm_count = 132, .kv_head_bytes = (UINT64_C(120) << 20)};
    check_u64(t, split_count(SPLIT_FA3, &full), 3, "fa3, 120 MiB of K and V: ceil(120 / 50)");
    full.masked = true;
    check_u64(t, split_count(SPLIT_FA3, &full), 1, "the same, causal");
    full.masked = false;
    full.query_blocks = 263;
    check_u64(t, split_count(SPLIT_FA3, &full), 1, "the same with fewer query blocks than 2 x SMs");
    full.query_blocks = 264;
    check_u64(t, split_count(SPLIT_LECTURE, &full), 1, "the lecture's rule knows no L2");
}

/* ex11: FlashAttention-2's eligibility alone, with one block per SM, leaves 7: 33 parts would be eligible only if 256 key blocks
 * fell into fewer per part than with 32. */
static void eligibility(Test *t)
{
    static const struct {
        uint64_t key_blocks, splits, used;
    } used[] = {{64, 11, 11}, {64, 12, 11}, {64, 20, 16}, {64, 33, 32}, {64, 64, 64}, {5, 2, 2},
                {5, 4, 3},    {5, 8, 5},    {64, 55, 32}, {64, 15, 13}, {0, 4, 0}};
    char what[80];
    for (size_t i = 0; i < sizeof used / sizeof used[0]; i++) {
        snprintf(what, sizeof what, "23: %" PRIu64 " key blocks in %" PRIu64 " parts: used", used[i].key_blocks, used[i].splits);
        check_u64(t, split_used(used[i].key_blocks, used[i].splits), used[i].used, what);
    }
    const SplitEfficiency two = split_efficiency(48, 2, 108), three = split_efficiency(48, 3, 108);
    check_u64(t, two.numerator * 9, two.denominator * 8, "23: 48 blocks on 108 SMs, 2 parts: 8/9");
    check_u64(t, three.numerator * 3, three.denominator * 2, "23: 3 parts: 2/3");
    const SplitProblem half =
        decode_problem(16, 32768, 128, 66); /* FlashAttention-2's two blocks per SM on half the SMs: 132 slots */
    check_u64(t, split_count(SPLIT_FA2, &half), 7, "ex11: FlashAttention-2's eligibility on 132 slots");
}

/* Every decoding launch of FlashAttention-2 in the counters: its grid is query blocks x parts x (batch x heads), and heads are
 * K/V heads. */
static void measured_grids(Test *t)
{
    FILE *file = fopen(TEST_DATA "/../hw_profiles/measured/h200_counters.csv", "r");
    char line[1024], what[200];
    uint64_t rows = 0;
    check_true(t, file != NULL, "h200_counters.csv");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        uint64_t batch, heads, kv_heads, queries, keys, d, causal, x, parts, z;
        char launch[128];
        if (sscanf(line,
                   "flash_decode,fwd,%" SCNu64 ",%" SCNu64 ",%" SCNu64 ",%" SCNu64 ",%" SCNu64 ",%" SCNu64 ",%" SCNu64
                   ",%127[^,],%" SCNu64 "x%" SCNu64 "x%" SCNu64,
                   &batch, &heads, &kv_heads, &queries, &keys, &d, &causal, launch, &x, &parts, &z) != 11)
            continue;
        if (strstr(launch, "splitkv_kernel") == NULL) continue;
        const SplitProblem p = {
            .blocks = batch * kv_heads, .query_blocks = 1, .key_blocks = ceil_div(keys, 128), .sm_count = 132};
        snprintf(what, sizeof what,
                 "flash_decode, batch %" PRIu64 ", %" PRIu64 " K/V heads, %" PRIu64 " keys: grid %" PRIu64 "x%" PRIu64
                 "x%" PRIu64,
                 batch, kv_heads, keys, x, parts, z);
        check_u64(t, split_count(SPLIT_FA2, &p), parts, what);
        check_u64(t, p.blocks, z, what);
        rows++;
    }
    if (file != NULL) fclose(file);
    check_u64(t, rows, 3, "decoding launches in the counters");
}

int main(void)
{
    Test t = {0};
    choices(&t);
    eligibility(&t);
    measured_grids(&t);
    return test_end(&t, "split_heuristics");
}
