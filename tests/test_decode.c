/* test_decode.c - Flash-Decoding: numbers against the oracle for any split, packing and order of merging; field cases 24, 25, 51
 * and 52.
 *
 * The counts are compared in test_counts.c, the merging by itself in test_field_cases_splits.c, the choice of splits in
 * test_split_heuristics.c.
 */
/* label: unit, property */
#include "test.h"

#include "support/count_case.h"

#include "algos/decode.h"
#include "algos/oracle.h"

#include <math.h>
#include <stdlib.h>

typedef struct {
    Test test;
    Profile unbounded, h200;
    Alloc alloc;
} Context;

/* ------------------------------------------------------------------------------------------------------------------- numbers */

/* O and L must not depend on the cut, nor on how it is merged: float64 against the float64 oracle. */
static void any_split(Context *x, int cases)
{
    uint64_t random = 21;
    for (int i = 0; i < cases; i++) {
        CountCase c = {&algorithm_decode, attention_shape(1, random_between(&random, 1, 9)), {1, 1}, L2_IDEAL};
        c.tiles = (TileSize){(uint32_t)random_between(&random, 1, 9), (uint32_t)random_between(&random, 1, 9)};
        c.shape.seqlen_q = random_between(&random, 0, 1) ? 1 : random_between(&random, 0, 9);
        c.shape.seqlen_k = random_between(&random, 0, 60);
        c.shape.dtype = ELEMENT_F64;
        random_mask(&c.shape, &random);
        random_heads(&c.shape, &random, 4);
        const DecodeOptions options = random_decode(&c, &random);
        Status status = {0};
        AttentionRun run;
        ForwardError error = {0};
        char what[400], shape[256];
        const bool ok = count_walk_decode(&run, &c, options, (MachineConfig){.mode = MODE_NUMERIC, .poison = true}, &x->unbounded,
                                          &x->alloc, &status) &&
                        oracle_compare(&run.attention, &run.machine, &error);
        count_case_name(&c, shape, sizeof shape);
        snprintf(what, sizeof what, "%s, splits %u packing %d merge %d", shape, options.splits, (int)options.packing,
                 (int)options.merge);
        check_text(&x->test, status.text, "", what);
        check_true(&x->test, ok, what);
        check_close(&x->test, error.max_abs_O, 0, 2e-14, what);
        check_close(&x->test, error.max_abs_L, 0, 2e-14, what);
        attention_run_free(&run);
    }
}

/* One run on given numbers, one batch: q [heads, N_q], k and v [kv_heads, N_k], d = 1, scale 1. */
typedef struct {
    uint64_t heads, kv_heads, queries, keys;
    MaskKind mask;
    int64_t window_left;
    uint32_t Br, Bc;
    double (*score)(uint64_t key), (*value)(uint64_t key);
} SmallProblem;

static void solve(Context *x, const SmallProblem *p, DecodeOptions options, double *O)
{
    Status status = {0};
    AttentionRun run;
    AttentionShape shape = attention_shape(1, 1);
    shape.heads = p->heads;
    shape.kv_heads = p->kv_heads;
    shape.seqlen_q = p->queries;
    shape.seqlen_k = p->keys;
    shape.mask = p->mask;
    shape.window_left = p->window_left;
    shape.dtype = ELEMENT_F64;
    const RunSetup setup = {.algorithm = &algorithm_decode,
                            .profile = &x->unbounded,
                            .tiles = {p->Br, p->Bc},
                            .config = {.mode = MODE_NUMERIC, .precision = PRECISION_F64, .poison = true}};
    bool ok = attention_run_prepare(&run, &setup, &shape, &x->alloc, &status) && attention_run_set_decode(&run, options);
    for (uint64_t i = 0; ok && i < p->heads * p->queries; i++) tensor_set(&run.machine, run.attention.Q, i, 1);
    for (uint64_t i = 0; ok && i < p->kv_heads * p->keys; i++) {
        tensor_set(&run.machine, run.attention.K, i, p->score(i % p->keys));
        tensor_set(&run.machine, run.attention.V, i, p->value(i));
    }
    ok = ok && attention_run_forward(&run);
    check_text(&x->test, status.text, "", "a small problem");
    for (uint64_t i = 0; i < p->heads * p->queries; i++) O[i] = ok ? tensor_value(&run.machine, run.attention.O, i) : NAN;
    attention_run_free(&run);
}

static double zero(uint64_t key) { return (double)(key - key); }
static double waves(uint64_t key) { return (double)(key % 7) * 0.5 - 1; }
static double one_three(uint64_t key) { return key == 0 ? 1 : 3; }
static double count_up(uint64_t key) { return (double)(key + 1); }
static double nan_last(uint64_t key) { return key == 5 ? (double)NAN : (double)key; }

/* Case 25: packed rows are masked by their query, not by the row. */
static void packed_masks(Context *x)
{
    double O[70], plain[70];
    for (uint32_t splits = 1; splits <= 3; splits++)
        for (uint32_t Br = 1; Br <= 5; Br++) {
            const SmallProblem two = {2, 1, 2, 2, MASK_CAUSAL, -1, Br, 1, zero, one_three};
            solve(x, &two, (DecodeOptions){splits, PACK_ALWAYS, MERGE_SEQUENTIAL}, O);
            for (int i = 0; i < 4; i++)
                check_close(&x->test, O[i], i % 2 ? 2 : 1, 1e-15, "25: two heads of two causal queries: O = [1, 2] each");

            const SmallProblem seven = {14, 2,  5, 23,    MASK_CAUSAL,
                                        9,  Br, 4, waves, count_up}; /* groups of 7, which 4 does not hold */
            solve(x, &seven, (DecodeOptions){splits, PACK_ALWAYS, MERGE_TREE}, O);
            solve(x, &seven, (DecodeOptions){1, PACK_NEVER, MERGE_SEQUENTIAL}, plain);
            for (int i = 0; i < 70; i++)
                check_close(&x->test, O[i], plain[i], 1e-14, "25: groups of 7 packed against not packed");
        }
    /* a NaN behind the mask of some rows of a packed tile never shows in those: keys 0 .. 5, the last is seen by the last query
     * alone */
    const SmallProblem behind = {4, 1, 2, 6, MASK_CAUSAL, -1, 8, 6, zero, nan_last};
    solve(x, &behind, (DecodeOptions){1, PACK_ALWAYS, MERGE_SEQUENTIAL}, O);
    for (int i = 0; i < 8; i++) {
        if (i % 2 == 0)
            check_close(&x->test, O[i], 2, 1e-15, "a NaN behind the mask in a packed tile: mean of 0 .. 4");
        else
            check_true(&x->test, isnan(O[i]), "a NaN that a packed row sees");
    }
}

/* Case 24: groups of whole heads only. */
static void refused(Context *x)
{
    static const uint64_t heads[][2] = {{3, 2}, {33, 2}, {2, 4}, {4, 0}};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        Status status = {0};
        AttentionRun run;
        AttentionShape shape = attention_shape(1, 8);
        shape.heads = heads[i][0];
        shape.kv_heads = heads[i][1];
        check_true(
            &x->test,
            !attention_count(&run, &algorithm_decode, &shape, (TileSize){16, 16}, L2_IDEAL, &x->unbounded, &x->alloc, &status),
            "24: a ratio that does not divide is refused");
        check_u64(&x->test, status.code, STATUS_USAGE, "24: as a usage error");
        attention_run_free(&run);
    }
    Status status = {0};
    AttentionRun run;
    AttentionShape shape = attention_shape(1, 8);
    shape.dropout_source = DROPOUT_SEED;
    shape.dropout.p = 0.5;
    attention_count(&run, &algorithm_decode, &shape, (TileSize){16, 16}, L2_IDEAL, &x->unbounded, &x->alloc, &status);
    check_text(&x->test, status.text, "decode has no dropout", "dropout");
    attention_run_free(&run);
}

/* -------------------------------------------------------------------------------------------------------------------- traffic */

static AttentionShape decode_shape(uint64_t batch, uint64_t heads, uint64_t kv_heads, uint64_t queries, uint64_t keys)
{
    AttentionShape shape = attention_shape(queries, 128);
    shape.batch = batch;
    shape.heads = heads;
    shape.kv_heads = kv_heads;
    shape.seqlen_k = keys;
    return shape;
}

/* What a launch reads of K and V (L2 to SMs), and the whole run's totals. */
static uint64_t key_value_bytes(Context *x, const AttentionShape *shape, DecodeOptions options, Totals *totals)
{
    const CountCase c = {&algorithm_decode, *shape, {64, 128}, L2_IDEAL};
    Status status = {0};
    AttentionRun run;
    uint64_t bytes = 0;
    count_walk_decode(&run, &c, options, (MachineConfig){.mode = MODE_COUNT}, &x->h200, &x->alloc, &status);
    check_text(&x->test, status.text, "", "a decoding walk");
    for (uint32_t i = 0; i < run.machine.ledger_count; i++) {
        const LedgerRow *row = &run.machine.ledger[i];
        if (row->tensor == run.attention.K || row->tensor == run.attention.V) bytes += 2 * row->traffic.l2_to_sm;
    }
    *totals = run.totals;
    attention_run_free(&run);
    return bytes;
}

/* Case 51a: K, V, Q, O of a packed launch; unpacked, K and V are read once per query head. Case 52: g FLOP per byte. */
static void compulsory_bytes(Context *x)
{
    const AttentionShape shape = decode_shape(16, 80, 8, 1, 10241);
    Totals totals;
    Status status = {0};
    check_u64(&x->test, decode_cache_bytes(16, 8, 10241, 128, 2, &status), 671154176, "51a: K and V");
    check_u64(&x->test, key_value_bytes(x, &shape, (DecodeOptions){1, PACK_ONE_QUERY, MERGE_SEQUENTIAL}, &totals), 671154176,
              "51a: K and V as walked, packed");
    check_u64(&x->test, totals.hbm_read_bytes, 671154176 + 327680, "51a: K, V and Q");
    check_u64(&x->test, totals.hbm_write_bytes, 327680 + 16 * 80 * 4, "51a: O in two bytes, and L");
    check_u64(&x->test, totals.matmul_flops, UINT64_C(4) * 16 * 80 * 10241 * 128, "51a: FLOP");
    check_u64(&x->test, totals.matmul_flops / 671154176, 10, "52: g = 10 FLOP per byte of the cache");
    check_u64(&x->test, key_value_bytes(x, &shape, (DecodeOptions){1, PACK_NEVER, MERGE_SEQUENTIAL}, &totals),
              UINT64_C(6711541760), "51a: ten times unpacked");
    const AttentionShape mha = decode_shape(1, 32, 32, 1, 4096);
    const uint64_t mha_bytes = key_value_bytes(x, &mha, (DecodeOptions){0}, &totals);
    check_u64(&x->test, totals.matmul_flops, mha_bytes, "52: 1 FLOP per byte for one head each");
    check_u64(&x->test, decode_parts_bytes(1, 1, 1, 128, 4, 4, &status), 4128, "6.1: parts of one head, 2 s (d + 1) 4 bytes");
    check_text(&x->test, status.text, "", "closed forms of bytes");
}

/* Case 51b: what 29 splits of 64 heads, 4096 queries and d = 512 need as scratch: 14.5 GiB. */
static void scratch_bytes(Context *x)
{
    const CountCase c = {&algorithm_decode, attention_shape(4096, 512), {64, 64}, L2_IDEAL};
    CountCase many = c;
    Status status = {0};
    AttentionRun run;
    uint64_t bytes = 0;
    many.shape.heads = many.shape.kv_heads = 64;
    many.shape.seqlen_k = 29 * 64;
    count_walk_decode(&run, &many, (DecodeOptions){29, PACK_NEVER, MERGE_SEQUENTIAL}, (MachineConfig){.mode = MODE_COUNT},
                      &x->unbounded, &x->alloc, &status);
    check_text(&x->test, status.text, "", "51b");
    for (uint32_t i = 0; i < run.machine.ledger_count; i++)
        if (strcmp(run.machine.ledger[i].tensor->name, "O parts") == 0) bytes += 4 * run.machine.ledger[i].traffic.sm_to_l2;
    check_u64(&x->test, bytes, UINT64_C(15569256448), "51b: bytes of O of the parts, written once");
    attention_run_free(&run);
}

/* The counters of an H200 (hw_profiles/measured/h200_counters.csv): L2 to SMs of the split kernel beside the walk, within 0.2 %:
 * what both leave out is small beside the cache. Shared memory of a block is the walk's to the byte. */
static void measured_traffic(Context *x)
{
    FILE *file = fopen(TEST_DATA "/../hw_profiles/measured/h200_counters.csv", "r");
    char line[1024], what[200];
    uint64_t rows = 0;
    check_true(&x->test, file != NULL, "h200_counters.csv");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        uint64_t batch, heads, kv_heads, keys, read, smem;
        if (sscanf(line,
                   "flash_decode,fwd,%" SCNu64 ",%" SCNu64 ",%" SCNu64 ",1,%" SCNu64
                   ",128,0,pytorch_flash::flash_fwd_splitkv_kernel,%*[^,],%*[^,],%*u,%*u,%*u,%" SCNu64,
                   &batch, &heads, &kv_heads, &keys, &read) != 5)
            continue;
        smem = strtoull(strrchr(line, ',') + 1, NULL, 10);
        const AttentionShape shape = decode_shape(batch, heads, kv_heads, 1, keys);
        Totals totals;
        const uint64_t walked = key_value_bytes(x, &shape, (DecodeOptions){0}, &totals);
        snprintf(what, sizeof what, "batch %" PRIu64 ", %" PRIu64 "/%" PRIu64 " heads, %" PRIu64 " keys", batch, heads, kv_heads,
                 keys);
        check_close(&x->test, (double)walked / (double)read, 1, 0.002, what);
        check_u64(&x->test, totals.sram_peak_bytes, smem, what);
        rows++;
    }
    if (file != NULL) fclose(file);
    check_u64(&x->test, rows, 3, "split kernels in the counters");
}

/* ----------------------------------------------------------------------------------------------------------------------- plan */

static void plans(Context *x)
{
    static const struct {
        uint64_t batch, heads, kv_heads, queries, keys;
        DecodeOptions options;
        uint64_t group, query_blocks, splits, used, blocks;
    } cases[] = {
        {1, 32, 32, 1, 32768, {0, PACK_ONE_QUERY, MERGE_SEQUENTIAL}, 1, 1, 7, 7, 224},
        {1, 32, 8, 1, 32768, {0, PACK_ONE_QUERY, MERGE_SEQUENTIAL}, 4, 1, 29, 29, 232}, /* 256 key blocks, 9 each: 28.4 */
        {1, 32, 8, 1, 32768, {4, PACK_NEVER, MERGE_SEQUENTIAL}, 1, 1, 4, 4, 128},
        {1, 32, 8, 16, 32768, {4, PACK_ONE_QUERY, MERGE_SEQUENTIAL}, 1, 1, 4, 4, 128}, /* FlashAttention-2 packs one query only */
        {1, 32, 8, 16, 32768, {4, PACK_ALWAYS, MERGE_SEQUENTIAL}, 4, 1, 4, 4, 32},
        {1, 64, 8, 16, 32768, {4, PACK_ALWAYS, MERGE_SEQUENTIAL}, 8, 2, 4, 4, 64},
        {1, 8, 8, 1, 130, {4, PACK_ONE_QUERY, MERGE_SEQUENTIAL}, 1, 1, 4, 2, 32}, /* 23: by the length, not by a capacity of 1024
                                                                                   */
        {1, 8, 8, 1, 0, {4, PACK_ONE_QUERY, MERGE_SEQUENTIAL}, 1, 1, 4, 0, 32},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const AttentionShape shape =
            decode_shape(cases[i].batch, cases[i].heads, cases[i].kv_heads, cases[i].queries, cases[i].keys);
        const Attention a = {.shape = shape, .Br = 64, .Bc = 128, .decode = cases[i].options};
        const DecodePlan plan = decode_plan(&a, 132);
        char what[40];
        snprintf(what, sizeof what, "plan %zu", i);
        check_u64(&x->test, plan.group, cases[i].group, what);
        check_u64(&x->test, plan.query_blocks, cases[i].query_blocks, what);
        check_u64(&x->test, plan.splits, cases[i].splits, what);
        check_u64(&x->test, plan.used, cases[i].used, what);
        check_u64(&x->test, plan.blocks, cases[i].blocks, what);
    }
}

/* A tree over 8 parts holds one part per level and one more: 4 tiles of 4 rows, beside the logsumexp and 4 vectors. */
static void tree_levels(Context *x)
{
    const CountCase c = {&algorithm_decode, decode_shape(1, 1, 1, 1, 2048), {64, 128}, L2_IDEAL};
    Status status = {0};
    AttentionRun run;
    if (count_walk_decode(&run, &c, (DecodeOptions){8, PACK_NEVER, MERGE_TREE}, (MachineConfig){.mode = MODE_COUNT}, &x->h200,
                          &x->alloc, &status))
        check_u64(&x->test, run.machine.launches[1].register_peak_bytes, 4 * (4 * (4 * 128 + 4) + 4 * 4 + 4 * 8),
                  "registers of a tree over 8 parts");
    check_text(&x->test, status.text, "", "a tree");
    attention_run_free(&run);
}

/* Rows of the combine kernel's blocks, as shipped: 4, 8 or 16 by head dim; 4 past 256 and for a tree. */
static void combine_blocks(Context *x)
{
    static const struct {
        uint64_t d;
        MergeOrder merge;
        uint64_t blocks; /* for 20 rows */
    } cases[] = {{128, MERGE_SEQUENTIAL, 5}, {256, MERGE_SEQUENTIAL, 5}, {64, MERGE_SEQUENTIAL, 3}, {192, MERGE_SEQUENTIAL, 3},
                 {40, MERGE_SEQUENTIAL, 2},  {320, MERGE_SEQUENTIAL, 5}, {40, MERGE_TREE, 5}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CountCase c = {&algorithm_decode, attention_shape(20, cases[i].d), {64, 64}, L2_IDEAL};
        c.shape.seqlen_k = 256;
        Status status = {0};
        AttentionRun run;
        const DecodeOptions options = {4, PACK_NEVER, cases[i].merge};
        if (count_walk_decode(&run, &c, options, (MachineConfig){.mode = MODE_COUNT}, &x->h200, &x->alloc, &status))
            check_u64(&x->test, run.machine.launches[1].blocks, cases[i].blocks, "blocks of the combine kernel");
        check_text(&x->test, status.text, "", "a combine kernel");
        attention_run_free(&run);
    }
}

/* Every allocation of a packed, split, tree-merged run fails in turn: an error each time, and nothing left. */
static void out_of_memory(Context *x)
{
    for (uint64_t k = 1;; k++) {
        Status status = {0};
        Alloc alloc = {.fail_at = k};
        AttentionRun run;
        CountCase c = {&algorithm_decode, attention_shape(3, 4), {4, 4}, L2_IDEAL};
        c.shape.heads = 4;
        c.shape.kv_heads = 2;
        c.shape.mask = MASK_CAUSAL;
        const bool ok = count_walk_decode(&run, &c, (DecodeOptions){3, PACK_ALWAYS, MERGE_TREE},
                                          (MachineConfig){.mode = MODE_NUMERIC}, &x->unbounded, &alloc, &status);
        attention_run_free(&run);
        check_u64(&x->test, alloc.live_bytes, 0, "memory left after a failed run");
        check_true(&x->test, ok == (alloc.requests < k), status.text);
        if (alloc.requests < k) return;
        check_u64(&x->test, status.code, STATUS_IO, "out of memory");
    }
}

int main(void)
{
    Context x = {0};
    Status status = {0};
    if (profile_load("unbounded", &x.alloc, &x.unbounded, &status) && profile_load("h200", &x.alloc, &x.h200, &status)) {
        any_split(&x, 3000);
        packed_masks(&x);
        refused(&x);
        compulsory_bytes(&x);
        scratch_bytes(&x);
        measured_traffic(&x);
        plans(&x);
        tree_levels(&x);
        combine_blocks(&x);
        out_of_memory(&x);
    }
    check_text(&x.test, status.text, "", "profiles");
    check_u64(&x.test, x.alloc.live_bytes, 0, "memory left at the end");
    return test_end(&x.test, "decode");
}
