/* test_fp8_counts.c - FlashAttention-3 in FP8, every count three ways: walk = closed form = brute force, for every granularity
 * of scales, rotation, fused pass and pass of its own, mask, ragged tail and head grouping. Also: counting = computing, all
 * heads = one head multiplied, and the known numbers of lecture §4.4.
 */
/* label: closed-form */
#include "test.h"

#include "support/brute_force_fp8.h"
#include "support/count_case.h"


typedef struct {
    Test test;
    Profile unbounded;
    Alloc alloc;
} Context;

static void case_name(const CountCase *c, const char *ways, const char *field, char *text, size_t size)
{
    static const char *const rotations[] = {"no rotation", "rotate qk", "rotate qkv"};
    char shape[256];
    const Fp8Options *o = &c->shape.fp8;
    count_case_name(c, shape, sizeof shape);
    snprintf(text, size, "%s scales by %s, %s, %s: %s, %s", shape, granularity_name(o->scales), rotations[o->rotation], o->prepass ? "own pass" : "fused",
             field, ways);
}

static void check_field(Context *x, const CountCase *c, const char *field, const char *ways, uint64_t got, uint64_t want)
{
    char what[500] = "";
    if (got != want) case_name(c, ways, field, what, sizeof what);
    check_u64(&x->test, got, want, what);
}

static bool check_done(Context *x, const CountCase *c, const Status *status)
{
    char what[500] = "";
    if (!status_ok(status)) case_name(c, "status", "", what, sizeof what);
    check_text(&x->test, status->text, "", what);
    return status_ok(status);
}

static BruteFp8 brute_fp8(const Fp8Options *o)
{
    static const BruteScales scales[] = {BRUTE_UNSCALED, BRUTE_BY_TENSOR, BRUTE_BY_BLOCK, BRUTE_BY_ROW};
    const bool codes = o->scales != SCALE_NONE || o->rotation != ROTATE_NONE;
    return (BruteFp8){.scales = scales[o->scales], .codes = codes, .rotate_qk = o->rotation != ROTATE_NONE, .rotate_v = o->rotation == ROTATE_QKV,
                      .prepass = o->prepass, .source_bytes = codes ? element_bytes(o->source) : 1};
}

static void check_ways(Context *x, const CountCase *c, bool brute)
{
    Status status = {0};
    AttentionRun run;
    BruteCounts counts = {0};
    if (count_walk(&run, c, (MachineConfig){.mode = MODE_COUNT}, &x->unbounded, &x->alloc, &status) && brute) {
        const BruteProblem problem = brute_problem(c, &run.problem);
        const BruteFp8 fp8 = brute_fp8(&c->shape.fp8);
        brute_force_fp8(&problem, &fp8, &counts, &x->alloc, &status);
    }
    attention_run_free(&run);
    if (!check_done(x, c, &status)) return;
    for (size_t i = 0; i < COUNT_FIELDS; i++) {
        const uint64_t walked = count_at(&run.totals, count_fields[i].walk);
        check_field(x, c, count_fields[i].name, "walk against closed form", walked, count_at(&run.closed_form, count_fields[i].form));
        if (brute) check_field(x, c, count_fields[i].name, "walk against brute force", walked, count_at(&counts, count_fields[i].brute));
    }
}

static void random_fp8(AttentionShape *shape, uint64_t *random)
{
    static const ElementType sources[] = {ELEMENT_BF16, ELEMENT_FP16, ELEMENT_F32};
    shape->dtype = random_between(random, 0, 3) ? ELEMENT_E4M3 : ELEMENT_E5M2;
    shape->fp8.scales = (ScaleGranularity)random_between(random, 0, 3);
    shape->fp8.rotation = (Rotation)random_between(random, 0, 2);
    shape->fp8.prepass = random_between(random, 0, 1) == 1;
    shape->fp8.source = sources[random_between(random, 0, 2)];
}

static void small_random(Context *x, int cases)
{
    uint64_t random = 1;
    for (int i = 0; i < cases; i++) {
        CountCase c = {&algorithm_fa3, attention_shape(1, random_between(&random, 1, 12)), {0, 0}, random_between(&random, 0, 1) ? L2_IDEAL : L2_NONE};
        c.shape.seqlen_q = random_between(&random, 0, 14);
        c.shape.seqlen_k = random_between(&random, 0, 14);
        random_mask(&c.shape, &random);
        random_heads(&c.shape, &random, 3);
        random_fp8(&c.shape, &random);
        c.tiles = (TileSize){(uint32_t)random_between(&random, 1, 9), (uint32_t)random_between(&random, 1, 9)};
        check_ways(x, &c, true);
    }
}

/* Several consumers, instruction shapes that do not divide, lengths past a block. */
static void wide_random(Context *x, int cases)
{
    static const uint64_t head_dims[] = {1, 16, 40, 64, 80, 96, 128, 192, 256};
    static const uint32_t blocks[] = {16, 48, 64, 65, 100, 128, 160, 192, 224, 256};
    uint64_t random = 2;
    for (int i = 0; i < cases; i++) {
        CountCase c = {&algorithm_fa3, attention_shape(1, head_dims[random_between(&random, 0, 8)]), {0, 0}, random_between(&random, 0, 1) ? L2_IDEAL : L2_NONE};
        c.tiles = (TileSize){blocks[random_between(&random, 0, 9)], blocks[random_between(&random, 0, 9)]};
        c.shape.seqlen_q = random_length(&random, c.tiles.Br);
        c.shape.seqlen_k = random_length(&random, c.tiles.Bc);
        random_mask(&c.shape, &random);
        random_heads(&c.shape, &random, 4);
        random_fp8(&c.shape, &random);
        check_ways(x, &c, false);
    }
}

/* More blocks than the kernel of the maxima takes at once. */
static void many_blocks(Context *x)
{
    CountCase c = {&algorithm_fa3, attention_shape(9000, 2), {1, 5000}, L2_NONE};
    c.shape.dtype = ELEMENT_E4M3;
    c.shape.fp8.scales = SCALE_TENSOR;
    c.shape.fp8.prepass = true;
    c.shape.seqlen_k = 1;
    check_ways(x, &c, false);
}

static void check_executor(Context *x, const CountCase *c, MachineConfig config, const char *ways)
{
    Status status = {0};
    AttentionRun one, other;
    const bool ok = count_walk(&one, c, (MachineConfig){.mode = MODE_COUNT}, &x->unbounded, &x->alloc, &status);
    const bool ok_too = count_walk(&other, c, config, &x->unbounded, &x->alloc, &status);
    if (check_done(x, c, &status) && ok && ok_too)
        for (size_t i = 0; i < COUNT_FIELDS; i++)
            check_field(x, c, count_fields[i].name, ways, count_at(&other.totals, count_fields[i].walk), count_at(&one.totals, count_fields[i].walk));
    attention_run_free(&one);
    attention_run_free(&other);
}

static void executors(Context *x, int cases)
{
    uint64_t random = 3;
    for (int i = 0; i < cases; i++) {
        CountCase c = {&algorithm_fa3, attention_shape(1, random_between(&random, 1, 20)), {0, 0}, random_between(&random, 0, 1) ? L2_IDEAL : L2_NONE};
        c.shape.seqlen_q = random_between(&random, 0, 40);
        c.shape.seqlen_k = random_between(&random, 0, 40);
        random_mask(&c.shape, &random);
        random_heads(&c.shape, &random, 3);
        random_fp8(&c.shape, &random);
        c.tiles = (TileSize){(uint32_t)random_between(&random, 1, 17), (uint32_t)random_between(&random, 1, 17)};
        check_executor(x, &c, (MachineConfig){.mode = MODE_NUMERIC}, "numeric against count");
        check_executor(x, &c, (MachineConfig){.mode = MODE_COUNT, .walk_all_heads = true}, "all heads walked against one");
    }
}

/* N = 8192, d = 128, tiles 128 x 224: V is transposed by every query block, 64 times 1 MiB read and written; rotation of Q and K 2 x 8192 x 896; a pass of its own
 * moves 3 bytes an element. */
static void known_numbers(Context *x)
{
    CountCase c = {&algorithm_fa3, attention_shape(8192, 128), {128, 224}, L2_IDEAL};
    uint64_t thread_bytes[2] = {0}, operations[2] = {0}, bytes[2] = {0};
    c.shape.dtype = ELEMENT_E4M3;
    c.shape.fp8.scales = SCALE_BLOCK;
    c.shape.fp8.rotation = ROTATE_QK;
    for (int own = 0; own < 2; own++) {
        Status status = {0};
        AttentionRun run;
        c.shape.fp8.prepass = own == 1;
        count_walk(&run, &c, (MachineConfig){.mode = MODE_COUNT}, &x->unbounded, &x->alloc, &status);
        check_done(x, &c, &status);
        thread_bytes[own] = run.totals.smem_thread_bytes;
        operations[own] = run.totals.nonmatmul_ops;
        bytes[own] = run.totals.hbm_read_bytes + run.totals.hbm_write_bytes;
        attention_run_free(&run);
    }
    check_u64(&x->test, thread_bytes[0], 64 * 2 * (UINT64_C(8192) * 128), "V transposed: Tr 2 N d bytes");
    check_u64(&x->test, operations[1] - operations[0], 2 * 8192 * 896 + 3 * 2 * UINT64_C(8192) * 128, "the pass: 2 N d log2 d + 3 x 2 N d operations");
    check_u64(&x->test, bytes[1] - bytes[0], 3 * 3 * UINT64_C(8192) * 128 + 4 * (64 + 37 + 37), "the pass: 3 x 3 N d bytes, and a scale per block");
}

int main(void)
{
    Context x = {0};
    Status status = {0};
    if (profile_load("unbounded", &x.alloc, &x.unbounded, &status)) {
        small_random(&x, 3000);
        wide_random(&x, 1000);
        many_blocks(&x);
        executors(&x, 150);
        known_numbers(&x);
    }
    check_text(&x.test, status.text, "", "profile unbounded");
    check_u64(&x.test, x.alloc.live_bytes, 0, "memory left at the end");
    return test_end(&x.test, "fp8_counts");
}
