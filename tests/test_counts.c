/* test_counts.c - every count three ways: the walk on the machine, the closed form, and brute force over elements.
 *
 *   small shapes    walk = closed form = brute force, field by field: an exhaustive grid, then random shapes with heads
 *   wide shapes     walk = closed form at odd lengths, head dims up to 257, blocks from 1x1 to 256x256
 *   decoding        the same with any split, packing and order of merging
 *   executors       count = numeric, and one head multiplied = all heads walked
 *   known numbers   the integers of the papers and of the lecture (§1.4, §2.3, §2.5, §3.1, §3.2)
 *
 * A failure prints both values, the names of both ways and the whole shape. Takes 0.6 s at -O3, 3 s at -O0.
 */
/* label: closed-form */
#include "test.h"

#include "support/brute_force.h"
#include "support/count_case.h"

#include <math.h>

typedef struct {
    Test test;
    Profile unbounded;
    Alloc alloc;
    DecodeOptions decode;       /* what the next walks of algorithm_decode take */
} Context;

static void check_field(Context *x, const CountCase *c, const char *field, const char *ways, uint64_t got, uint64_t want)
{
    char what[400] = "", shape[256];
    if (got != want) {
        count_case_name(c, shape, sizeof shape);
        snprintf(what, sizeof what, "%s (decode: splits %u packing %d merge %d): %s, %s", shape, x->decode.splits, (int)x->decode.packing,
                 (int)x->decode.merge, field, ways);
    }
    check_u64(&x->test, got, want, what);
}

static bool check_done(Context *x, const CountCase *c, const Status *status)
{
    char what[256] = "";
    if (!status_ok(status)) count_case_name(c, what, sizeof what);
    check_text(&x->test, status->text, "", what);
    return status_ok(status);
}

/* ----------------------------------------------------------------------------------------------------------- the three ways */

/* Walk = closed form, and = brute force if asked. */
static void check_ways(Context *x, const CountCase *c, const Profile *profile, bool brute)
{
    Status status = {0};
    AttentionRun run;
    BruteCounts counts = {0};
    if (count_walk_decode(&run, c, x->decode, (MachineConfig){.mode = MODE_COUNT}, profile, &x->alloc, &status) && brute) {
        const BruteProblem problem = brute_problem(c, &run.problem);
        brute_force(c->algorithm->name, &problem, &counts, &x->alloc, &status);
    }
    attention_run_free(&run);
    if (!check_done(x, c, &status)) return;
    for (size_t i = 0; i < COUNT_FIELDS; i++) {
        const uint64_t walked = count_at(&run.totals, count_fields[i].walk);
        check_field(x, c, count_fields[i].name, "walk against closed form", walked, count_at(&run.closed_form, count_fields[i].form));
        if (brute) check_field(x, c, count_fields[i].name, "walk against brute force", walked, count_at(&counts, count_fields[i].brute));
    }
    if (brute) check_field(x, c, "tile_pairs", "closed form against brute force", run.closed_form.tile_pairs, counts.tile_pairs);
}

static void check_algorithms(Context *x, const AttentionShape *shape, TileSize tiles, L2Model l2, bool brute)
{
    for (size_t i = 0; i < algorithm_count(); i++) {
        if (algorithm_at(i)->closed_form == NULL) continue;
        const CountCase c = {algorithm_at(i), *shape, tiles, l2};
        check_ways(x, &c, &x->unbounded, brute);
    }
}

static const int64_t windows[][2] = {{-1, -1}, {0, -1}, {1, 0}, {2, 1}, {-1, 2}, {0, 0}, {3, -1}};
enum { WINDOWS = sizeof windows / sizeof windows[0] };

/* Every Nq, Nk up to 6 (block sizes up to 4 leave every kind of tail), every mask and window, both L2 models. */
static void small_grid(Context *x)
{
    AttentionShape shape = attention_shape(1, 2);
    for (shape.seqlen_q = 0; shape.seqlen_q <= 6; shape.seqlen_q++)
        for (shape.seqlen_k = 0; shape.seqlen_k <= 6; shape.seqlen_k++)
            for (uint32_t tiles = 0; tiles < 9; tiles++)
                for (int mask = 0; mask < 3; mask++)
                    for (size_t w = 0; w < WINDOWS; w++) {
                        shape.mask = (MaskKind)mask;
                        shape.window_left = windows[w][0];
                        shape.window_right = windows[w][1];
                        const TileSize size = {1u << tiles / 3, 1u << tiles % 3};
                        check_algorithms(x, &shape, size, (w + tiles) % 2 ? L2_IDEAL : L2_NONE, true);
                    }
}

static const ElementType element_types[] = {ELEMENT_F64, ELEMENT_F32, ELEMENT_BF16};

static void small_random(Context *x, int cases)
{
    uint64_t random = 1;
    for (int i = 0; i < cases; i++) {
        AttentionShape shape = attention_shape(1, random_between(&random, 1, 5));
        shape.seqlen_q = random_between(&random, 0, 14);
        shape.seqlen_k = random_between(&random, 0, 14);
        shape.dtype = element_types[random_between(&random, 0, 2)];
        random_mask(&shape, &random);
        random_heads(&shape, &random, 3);
        const TileSize tiles = {(uint32_t)random_between(&random, 1, 9), (uint32_t)random_between(&random, 1, 9)};
        check_algorithms(x, &shape, tiles, random_between(&random, 0, 1) ? L2_IDEAL : L2_NONE, true);
    }
}

/* Rows of S longer than shared memory: standard attention's two-pass softmax. The chip is cut down until a row does not fit. */
static void long_softmax_rows(Context *x)
{
    Profile small = x->unbounded;
    for (uint64_t Nk = 20; Nk <= 41; Nk++)
        for (small.smem_bytes_per_block = 32; small.smem_bytes_per_block <= 96; small.smem_bytes_per_block += 8) {
            AttentionShape shape = attention_shape(5, 1);
            shape.seqlen_k = Nk;
            shape.dtype = ELEMENT_F32;
            shape.heads = 2;
            const CountCase c = {&algorithm_standard, shape, {2, 2}, Nk % 2 ? L2_IDEAL : L2_NONE};
            check_ways(x, &c, &small, true);
        }
}

static void wide_random(Context *x, int cases)
{
    static const uint64_t head_dims[] = {1, 2, 3, 16, 40, 64, 65, 80, 96, 128, 129, 192, 256, 257};
    static const uint32_t blocks[] = {1, 2, 3, 7, 16, 17, 32, 48, 64, 96, 100, 128, 200, 255, 256};
    enum { LAST_BLOCK = sizeof blocks / sizeof blocks[0] - 1, LAST_DIM = sizeof head_dims / sizeof head_dims[0] - 1 };
    const uint64_t most_pairs = 4000;
    uint64_t random = 2;
    for (int i = 0; i < cases;) {
        const TileSize tiles = {blocks[random_between(&random, 0, LAST_BLOCK)], blocks[random_between(&random, 0, LAST_BLOCK)]};
        AttentionShape shape = attention_shape(1, head_dims[random_between(&random, 0, LAST_DIM)]);
        shape.seqlen_q = random_length(&random, tiles.Br);
        shape.seqlen_k = random_between(&random, 0, 2) ? random_length(&random, tiles.Bc) : shape.seqlen_q;
        if (ceil_div(shape.seqlen_q, tiles.Br) * ceil_div(shape.seqlen_k, tiles.Bc) > most_pairs) continue;
        shape.dtype = element_types[random_between(&random, 0, 2)];
        random_mask(&shape, &random);
        random_heads(&shape, &random, 8);
        check_algorithms(x, &shape, tiles, random_between(&random, 0, 1) ? L2_IDEAL : L2_NONE, false);
        i++;
    }
}

/* ------------------------------------------------------------------------------------------------------------- executors */

/* Another executor counts the same, launch by launch and in total. */
static void check_executor(Context *x, const CountCase *c, MachineConfig config, const char *ways)
{
    Status status = {0};
    AttentionRun one, other;
    const bool ok = count_walk_decode(&one, c, x->decode, (MachineConfig){.mode = MODE_COUNT}, &x->unbounded, &x->alloc, &status);
    const bool ok_too = count_walk_decode(&other, c, x->decode, config, &x->unbounded, &x->alloc, &status);
    if (check_done(x, c, &status) && ok && ok_too) {
        for (size_t i = 0; i < COUNT_FIELDS; i++)
            check_field(x, c, count_fields[i].name, ways, count_at(&other.totals, count_fields[i].walk), count_at(&one.totals, count_fields[i].walk));
        check_field(x, c, "ledger rows", ways, other.machine.ledger_count, one.machine.ledger_count);
        check_field(x, c, "sram_peak_bytes", ways, other.totals.sram_peak_bytes, one.totals.sram_peak_bytes);
        check_field(x, c, "register_peak_bytes", ways, other.totals.register_peak_bytes, one.totals.register_peak_bytes);
    }
    attention_run_free(&one);
    attention_run_free(&other);
}

/* Decoding: any parts, packed or not, merged in both orders; groups of heads that do not divide Br. By brute force, or (wide) longer. */
static void decode_random(Context *x, int cases, bool wide)
{
    uint64_t random = 5;
    for (int i = 0; i < cases; i++) {
        CountCase c = {&algorithm_decode, attention_shape(1, random_between(&random, 1, wide ? 130 : 4)), {1, 1}, random_between(&random, 0, 1) ? L2_IDEAL : L2_NONE};
        c.tiles = (TileSize){(uint32_t)random_between(&random, 1, wide ? 80 : 9), (uint32_t)random_between(&random, 1, wide ? 150 : 5)};
        c.shape.seqlen_q = random_between(&random, 0, 2) ? random_between(&random, 0, wide ? 90 : 6) : 1;
        c.shape.seqlen_k = wide ? random_length(&random, c.tiles.Bc) : random_between(&random, 0, 17);
        c.shape.dtype = element_types[random_between(&random, 0, 2)];
        random_mask(&c.shape, &random);
        random_heads(&c.shape, &random, wide ? 8 : 3);
        x->decode = random_decode(&c, &random);
        check_ways(x, &c, &x->unbounded, !wide);
        if (i % 8 != 0 || wide) continue;
        check_executor(x, &c, (MachineConfig){.mode = MODE_NUMERIC}, "numeric against count");
        check_executor(x, &c, (MachineConfig){.mode = MODE_COUNT, .walk_all_heads = true}, "all heads walked against one");
    }
    x->decode = (DecodeOptions){0};
}

static void executors(Context *x, int cases)
{
    uint64_t random = 3;
    for (int i = 0; i < cases; i++) {
        AttentionShape shape = attention_shape(1, random_between(&random, 1, 20));
        shape.seqlen_q = random_between(&random, 0, 40);
        shape.seqlen_k = random_between(&random, 0, 40);
        shape.dtype = element_types[random_between(&random, 0, 2)];
        random_mask(&shape, &random);
        random_heads(&shape, &random, 3);
        const TileSize tiles = {(uint32_t)random_between(&random, 1, 17), (uint32_t)random_between(&random, 1, 17)};
        for (size_t a = 0; a < algorithm_count(); a++) {
            const CountCase c = {algorithm_at(a), shape, tiles, random_between(&random, 0, 1) ? L2_IDEAL : L2_NONE};
            check_executor(x, &c, (MachineConfig){.mode = MODE_NUMERIC}, "numeric against count");
            check_executor(x, &c, (MachineConfig){.mode = MODE_COUNT, .walk_all_heads = true}, "all heads walked against one");
        }
    }
}

/* ---------------------------------------------------------------------------------------------------------- known numbers */

static uint64_t hbm_elements(const Totals *totals) { return totals->hbm_read_elements + totals->hbm_write_elements; }

/* One head, N x N. */
typedef struct {
    const Algorithm *algorithm;
    uint64_t N, d;
    TileSize tiles;
    MaskKind mask;
    uint64_t elements;          /* HBM traffic without L2 */
} KnownTraffic;

static const KnownTraffic known_traffic[] = {
    {&algorithm_fa1, 1024, 64, {16, 16}, MASK_NONE, 13043712},          /* lecture §2.3: M = 4096, 8192, ... 65536 elements */
    {&algorithm_fa1, 1024, 64, {32, 32}, MASK_NONE, 6621184},
    {&algorithm_fa1, 1024, 64, {64, 64}, MASK_NONE, 3409920},
    {&algorithm_fa1, 1024, 64, {64, 128}, MASK_NONE, 1804288},
    {&algorithm_fa1, 1024, 64, {64, 256}, MASK_NONE, 1001472},
    {&algorithm_fa1, 8192, 64, {64, 384}, MASK_NONE, 36913152},         /* scaling: base, 2N, 2d, 2M */
    {&algorithm_fa1, 16384, 64, {64, 384}, MASK_NONE, 141262848},
    {&algorithm_fa1, 8192, 128, {128, 192}, MASK_NONE, 139837440},
    {&algorithm_fa1, 8192, 64, {64, 768}, MASK_NONE, 19251200},
    {&algorithm_fa1, 1024, 64, {64, 64}, MASK_CAUSAL, 1904640},         /* §2.5 */
    {&algorithm_fa1, 300, 64, {32, 96}, MASK_NONE, 293400},
    {&algorithm_fa1, 1000, 32, {48, 80}, MASK_NONE, 1398000},
    {&algorithm_fa1, 1024, 64, {64, 200}, MASK_NONE, 1335296 + 1024 * 64 + 2 * 1024},   /* M = 100 KiB of two-byte elements */
    {&algorithm_fa1, 4, 2, {2, 2}, MASK_NONE, 96 + 4 * 2 + 2 * 4},
    {&algorithm_fa2, 1024, 64, {32, 32}, MASK_NONE, 4326400},           /* §3.1 */
    {&algorithm_fa2, 1024, 64, {64, 64}, MASK_NONE, 2229248},
    {&algorithm_fa2, 1024, 64, {128, 128}, MASK_NONE, 1180672},
    {&algorithm_fa2, 1024, 64, {256, 256}, MASK_NONE, 656384},
    {&algorithm_fa2, 1024, 64, {64, 256}, MASK_NONE, 2229248},
    {&algorithm_fa2, 1024, 64, {128, 64}, MASK_NONE, 1180672},
    {&algorithm_fa2, 300, 64, {32, 96}, MASK_NONE, 422700},
    {&algorithm_fa2, 1000, 32, {48, 80}, MASK_NONE, 1409000},
    {&algorithm_fa2, 4, 2, {2, 2}, MASK_NONE, 52},
};

static void check_known_traffic(Context *x)
{
    for (size_t i = 0; i < sizeof known_traffic / sizeof known_traffic[0]; i++) {
        const KnownTraffic *k = &known_traffic[i];
        Status status = {0};
        AttentionRun run;
        CountCase c = {k->algorithm, attention_shape(k->N, k->d), k->tiles, L2_NONE};
        c.shape.mask = k->mask;
        if (count_walk(&run, &c, (MachineConfig){.mode = MODE_COUNT}, &x->unbounded, &x->alloc, &status))
            check_field(x, &c, "HBM elements", "walk against the known number", hbm_elements(&run.totals), k->elements);
        check_done(x, &c, &status);
        attention_run_free(&run);
    }
}

/* §3.2, N = 1024, Br = Bc = 128, one head. */
static void check_known_operations(Context *x)
{
    static const struct {
        const Algorithm *algorithm;
        uint64_t d, nonmatmul_ops;
    } known[] = {{&algorithm_fa1, 64, 7405568},
                 {&algorithm_fa1, 128, 9502720},
                 {&algorithm_fa2, 64, 6389760},
                 {&algorithm_fa2, 128, 7503872},
                 {&algorithm_standard, 64, 5 * 1024 * 1024}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        Status status = {0};
        AttentionRun run;
        const CountCase c = {known[i].algorithm, attention_shape(1024, known[i].d), {128, 128}, L2_NONE};
        if (count_walk(&run, &c, (MachineConfig){.mode = MODE_COUNT}, &x->unbounded, &x->alloc, &status)) {
            check_field(x, &c, "nonmatmul_ops", "walk against the known number", run.totals.nonmatmul_ops,
                        known[i].nonmatmul_ops);
            check_field(x, &c, "matmul_flops", "walk against 4 N^2 d", run.totals.matmul_flops, 4 * 1024 * 1024 * known[i].d);
        }
        check_done(x, &c, &status);
        attention_run_free(&run);
    }
}

/* §1.4, §2.4: N = 4096, d = 128, two bytes: 132 MiB with each operand once per kernel, 194 MiB with the products' re-reads. */
static void check_standard_bytes(Context *x)
{
    static const struct {
        L2Model l2;
        uint64_t mebibytes;
    } known[] = {{L2_IDEAL, 132}, {L2_NONE, 194}};
    for (size_t i = 0; i < 2; i++) {
        Status status = {0};
        AttentionRun run;
        const CountCase c = {&algorithm_standard, attention_shape(4096, 128), {128, 128}, known[i].l2};
        if (count_walk(&run, &c, (MachineConfig){.mode = MODE_COUNT}, &x->unbounded, &x->alloc, &status))
            check_field(x, &c, "HBM bytes", "walk against the known MiB", run.totals.hbm_read_bytes + run.totals.hbm_write_bytes,
                        known[i].mebibytes << 20);
        check_done(x, &c, &status);
        attention_run_free(&run);
    }
}

/* §2.5: 136 of 256 tiles, 142.6 of 268.4 MFLOP under a causal mask, for both loop orders. */
static void check_causal(Context *x)
{
    static const Algorithm *const algorithms[] = {&algorithm_fa1, &algorithm_fa1_shipped, &algorithm_fa2};
    for (size_t i = 0; i < sizeof algorithms / sizeof algorithms[0]; i++) {
        Status status = {0};
        AttentionRun run;
        CountCase c = {algorithms[i], attention_shape(1024, 64), {64, 64}, L2_NONE};
        c.shape.mask = MASK_CAUSAL;
        if (count_walk(&run, &c, (MachineConfig){.mode = MODE_COUNT}, &x->unbounded, &x->alloc, &status)) {
            check_field(x, &c, "tile_pairs", "closed form against 16 x 17 / 2", run.closed_form.tile_pairs, 136);
            check_field(x, &c, "matmul_flops", "walk against 136 tiles", run.totals.matmul_flops, 136 * 4 * 64 * 64 * 64);
            check_field(x, &c, "matmul_flops_exact_mask", "walk against N (N + 1) / 2 pairs", run.totals.matmul_flops_exact_mask,
                        524800 * 4 * 64);
        }
        check_done(x, &c, &status);
        attention_run_free(&run);
    }
}

/* Bytes of the ledger, the statistics apart. */
static uint64_t bytes_without_statistics(const Machine *machine)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < machine->ledger_count; i++) {
        const LedgerRow *row = &machine->ledger[i];
        if (strcmp(row->tensor->name, "L") == 0) continue;
        bytes += (row->traffic.hbm_read + row->traffic.hbm_write) * element_bytes(row->tensor->type);
    }
    return bytes;
}

/* FlashAttention (arXiv:2205.14135), Figure 2 (middle): batch 64, 16 heads, N = 1024, d = 64, two bytes: HBM traffic against
 * the block size. */
static void check_published_curve(Context *x)
{
    static const struct {
        uint32_t Bc;
        double gigabytes;
    } published[] = {{64, 6.577}, {128, 3.356}, {256, 1.745}, {512, 0.940}};
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        Status status = {0};
        AttentionRun run;
        char what[64];
        CountCase c = {&algorithm_fa1_shipped, attention_shape(1024, 64), {16, published[i].Bc}, L2_NONE};
        c.shape.batch = 64;
        c.shape.heads = c.shape.kv_heads = 16;
        if (count_walk(&run, &c, (MachineConfig){.mode = MODE_COUNT}, &x->unbounded, &x->alloc, &status)) {
            const uint64_t bytes = bytes_without_statistics(&run.machine);
            snprintf(what, sizeof what, "published curve, Bc = %u: GB", published[i].Bc);
            check_true(&x->test, fabs((double)bytes / 1e9 - published[i].gigabytes) <= 0.001, what);
            check_field(x, &c, "bytes", "walk against (1 + 3 Tc) Nd", bytes,
                        64 * 16 * 2 * fa1_published_elements(1024, 64, published[i].Bc, &status));
        }
        check_done(x, &c, &status);
        attention_run_free(&run);
    }
}

/* The one on-chip memory of FlashAttention-1 as listed: what the walk holds is 2 Bc d + 2 Br d + 2 Br + Br Bc elements. */
static void check_sram_peak(Context *x)
{
    for (uint64_t M = 4096; M <= 65536; M += 1024) {
        Status status = {0};
        AttentionRun run;
        CountCase c = {&algorithm_fa1, attention_shape(64, 64), paper_tiles(M, 64), L2_NONE};
        c.shape.dtype = ELEMENT_F32;
        if (count_walk(&run, &c, (MachineConfig){.mode = MODE_COUNT}, &x->unbounded, &x->alloc, &status))
            check_field(x, &c, "sram_peak_bytes", "walk against fa1_sram_elements", run.totals.sram_peak_bytes,
                        4 * fa1_sram_elements(c.tiles.Br, c.tiles.Bc, 64, &status));
        check_done(x, &c, &status);
        attention_run_free(&run);
    }
}

int main(void)
{
    Context x = {0};
    Status status = {0};
    if (profile_load("unbounded", &x.alloc, &x.unbounded, &status)) {
        small_grid(&x);
        small_random(&x, 2000);
        long_softmax_rows(&x);
        wide_random(&x, 3000);
        executors(&x, 150);
        decode_random(&x, 3000, false);
        decode_random(&x, 3000, true);
        check_known_traffic(&x);
        check_known_operations(&x);
        check_standard_bytes(&x);
        check_causal(&x);
        check_published_curve(&x);
        check_sram_peak(&x);
    }
    check_text(&x.test, status.text, "", "profile unbounded");
    check_u64(&x.test, x.alloc.live_bytes, 0, "memory left at the end");
    return test_end(&x.test, "counts");
}
