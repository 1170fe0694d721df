/* test_counts_backward.c - every count of the backward passes, and of dropout, three ways: the walk, the closed form, brute force
 * over elements.
 *
 *   small shapes    walk = closed form = brute force, field by field: a grid, then random shapes with heads, splits and dropout
 *   wide shapes     walk = closed form at odd lengths, head dims up to 257, blocks from 1 x 1 to 256 x 256
 *   executors       count = numeric, one head multiplied = all heads walked, common case = full operations (somebody watches)
 *   forward         the same for forward passes with dropout
 *   lecture         the one-head formulas of §2.6 and §2.7 are the general forms; its integers; 64 bits
 *
 * A failure prints both values, the names of both ways and the whole shape. Takes 1.8 s at -O3.
 */
/* label: closed-form */
#include "test.h"

#include "support/backward_case.h"
#include "support/brute_force.h"
#include "support/count_case.h"

#include <math.h>

typedef struct {
    Test test;
    Profile chip;               /* unbounded */
    Alloc alloc;
} Context;

typedef struct {
    CountCase count;            /* its algorithm is the way's */
    const BackwardWay *way;
} BackwardCase;

static void name_of(const BackwardCase *c, char *text, size_t size)
{
    static const char *const dropout[] = {"no dropout", "dropout", "dropout, stored mask", "dropout, given mask"};
    char shape[256];
    count_case_name(&c->count, shape, sizeof shape);
    snprintf(text, size, "%s %s %s", shape, c->way != NULL ? c->way->name : "forward", dropout[c->count.shape.dropout_source]);
}

static void check_field(Context *x, const BackwardCase *c, const char *field, const char *ways, uint64_t got, uint64_t want)
{
    char what[500] = "", shape[320];
    if (got != want) {
        name_of(c, shape, sizeof shape);
        snprintf(what, sizeof what, "%s: %s, %s", shape, field, ways);
    }
    check_u64(&x->test, got, want, what);
}

static bool check_done(Context *x, const BackwardCase *c, const Status *status)
{
    char what[320] = "";
    if (!status_ok(status)) name_of(c, what, sizeof what);
    check_text(&x->test, status->text, "", what);
    return status_ok(status);
}

/* The backward pass alone when counting; after the forward pass when computing. Free with attention_run_free, also after a
 * failure. */
static bool walk(AttentionRun *run, const BackwardCase *c, MachineConfig config, const Profile *profile, Alloc *alloc,
                 Status *status)
{
    config.l2 = c->count.l2;
    return run_backward(run, c->way, c->count.tiles, config, profile, &(BackwardInputs){.shape = c->count.shape}, alloc, status);
}

/* ----------------------------------------------------------------------------------------------------------- the three ways */

static BruteBackward brute_backward(const BackwardCase *c, const CountedBackward *p)
{
    const AttentionShape *s = &c->count.shape;
    return (BruteBackward){.problem = brute_problem(&c->count, &p->problem), .key_rows = p->key_m, .key_cols = p->key_n,
                           .query_rows = p->query_m, .query_cols = p->query_n, .direct_dq = c->way->variant.direct_dq,
                           .query_blocks_outside = c->way->variant.query_blocks_outside, .splits = p->splits > 0 ? p->splits : 1,
                           .dropout = s->dropout_source != DROPOUT_NONE, .stored_mask = s->dropout_source >= DROPOUT_STORED};
}

/* Walk = closed form, and = brute force if asked. */
static void check_ways(Context *x, const BackwardCase *c, const Profile *profile, bool brute)
{
    Status status = {0};
    AttentionRun run;
    BruteCounts counts = {0};
    if (walk(&run, c, (MachineConfig){.mode = MODE_COUNT}, profile, &x->alloc, &status) && brute) {
        const BruteBackward problem = brute_backward(c, &run.backward_problem);
        brute_force_backward(c->count.algorithm->name, &problem, &counts, &x->alloc, &status);
    }
    if (check_done(x, c, &status)) {
        for (size_t i = 0; i < COUNT_FIELDS; i++) {
            const uint64_t walked = count_at(&run.totals, count_fields[i].walk);
            check_field(x, c, count_fields[i].name, "walk against closed form", walked, count_at(&run.closed_form, count_fields[i].form));
            if (brute) check_field(x, c, count_fields[i].name, "walk against brute force", walked, count_at(&counts, count_fields[i].brute));
        }
        if (brute)
            check_field(x, c, "tile_pairs", "closed form against brute force", run.closed_form.tile_pairs, counts.tile_pairs);
    }
    attention_run_free(&run);
}

/* FlashAttention-3's warpgroups share the keys of a stored mask equally (test_fa3.c: what is refused). */
static bool is_possible(const CountCase *c, size_t way)
{
    return (way != WAY_FA3 && way != WAY_FA3_ONE_DQ) || c->shape.dropout_source < DROPOUT_STORED || c->tiles.Bc % ceil_div(c->tiles.Bc, 64) == 0;
}

static void check_backwards(Context *x, const CountCase *count, const Profile *profile, bool brute)
{
    for (size_t i = 0; i < BACKWARD_WAYS; i++) {
        if (!is_possible(count, i)) continue;
        BackwardCase c = {*count, &backward_ways[i]};
        c.count.algorithm = c.way->algorithm;
        check_ways(x, &c, profile, brute);
    }
}

/* --- forward passes with dropout: what the brute-force count without dropout lacks is counted apart */

static void check_forward(Context *x, const BackwardCase *c, const Profile *profile, bool brute)
{
    Status status = {0};
    AttentionRun run;
    BruteCounts plain = {0}, extra = {0};
    if (count_walk(&run, &c->count, (MachineConfig){.mode = MODE_COUNT}, profile, &x->alloc, &status) && brute) {
        const BruteProblem problem = brute_problem(&c->count, &run.problem);
        const BruteDropout dropout = {.stored_mask = c->count.shape.dropout_source != DROPOUT_SEED,
                                      .written = c->count.shape.dropout_source == DROPOUT_STORED};
        brute_force(c->count.algorithm->name, &problem, &plain, &x->alloc, &status);
        brute_force_dropout(c->count.algorithm->name, &problem, dropout, &extra, &x->alloc, &status);
    }
    if (check_done(x, c, &status))
        for (size_t i = 0; i < COUNT_FIELDS; i++) {
            const uint64_t walked = count_at(&run.totals, count_fields[i].walk);
            check_field(x, c, count_fields[i].name, "forward: walk against closed form", walked,
                        count_at(&run.closed_form, count_fields[i].form));
            if (brute) check_field(x, c, count_fields[i].name, "forward: walk against brute force", walked,
                                   count_at(&plain, count_fields[i].brute) + count_at(&extra, count_fields[i].brute));
        }
    attention_run_free(&run);
}

static void check_forwards(Context *x, const CountCase *count, const Profile *profile, bool brute)
{
    BackwardCase c = {.count = *count};
    if (count->shape.dropout_source == DROPOUT_NONE) return;        /* test_counts.c */
    for (size_t a = 0; a < DROPOUT_FORWARDS; a++) {
        c.count.algorithm = dropout_forwards[a];
        check_forward(x, &c, profile, brute);
    }
}

/* ------------------------------------------------------------------------------------------------------------------ shapes */

static const int64_t windows[][2] = {{-1, -1}, {1, 0}, {2, 1}, {0, 0}, {3, -1}};
enum { WINDOWS = sizeof windows / sizeof windows[0] };

/* A machine with a few SMs, so that a deterministic pass has fewer splits than key blocks. */
static Profile with_sms(const Profile *chip, uint64_t sm_count)
{
    Profile profile = *chip;
    profile.sm_count = sm_count;
    return profile;
}

/* Every Nq, Nk up to 5, blocks of 1, 2 and 4, every mask and some windows; L2, dropout and the number of SMs take turns. */
static void small_grid(Context *x)
{
    uint64_t turn = 0;
    CountCase c = {.shape = attention_shape(1, 2)};
    AttentionShape *s = &c.shape;
    for (s->seqlen_q = 0; s->seqlen_q <= 5; s->seqlen_q++)
        for (s->seqlen_k = 0; s->seqlen_k <= 5; s->seqlen_k++)
            for (uint32_t tiles = 0; tiles < 9; tiles++)
                for (size_t w = 0; w < WINDOWS; w++) {
                    const Profile chip = with_sms(&x->chip, 1 + turn % 4);
                    s->mask = (MaskKind)(turn % 3);
                    s->window_left = windows[w][0];
                    s->window_right = windows[w][1];
                    s->dropout_source = turn % 5 ? DROPOUT_NONE : (DropoutSource)(turn / 5 % 4);
                    s->dropout.p = 0.25;
                    c.tiles = (TileSize){1u << tiles / 3, 1u << tiles % 3};
                    c.l2 = turn / 3 % 2 ? L2_IDEAL : L2_NONE;
                    check_backwards(x, &c, &chip, true);
                    check_forwards(x, &c, &chip, true);
                    turn++;
                }
}

static const ElementType element_types[] = {ELEMENT_F64, ELEMENT_F32, ELEMENT_BF16};

static void random_case(CountCase *c, uint64_t *random, uint64_t most_heads)
{
    c->shape.dtype = element_types[random_between(random, 0, 2)];
    random_mask(&c->shape, random);
    c->shape.dropout_source = random_between(random, 0, 1) ? DROPOUT_NONE : (DropoutSource)random_between(random, 1, 3);
    c->shape.dropout.p = 0.25;
    random_heads(&c->shape, random, most_heads);
    c->l2 = random_between(random, 0, 1) ? L2_IDEAL : L2_NONE;
}

static void small_random(Context *x, int cases)
{
    uint64_t random = 1;
    for (int i = 0; i < cases; i++) {
        CountCase c = {.shape = attention_shape(1, random_between(&random, 1, 4))};
        c.shape.seqlen_q = random_between(&random, 0, 12);
        c.shape.seqlen_k = random_between(&random, 0, 12);
        c.tiles = (TileSize){(uint32_t)random_between(&random, 1, 7), (uint32_t)random_between(&random, 1, 7)};
        random_case(&c, &random, 3);
        const Profile chip = with_sms(&x->chip, random_between(&random, 1, 24));
        check_backwards(x, &c, &chip, true);
        check_forwards(x, &c, &chip, true);
    }
}

/* Rows of P and dP longer than half of shared memory: standard attention reads them twice. */
static void long_rows(Context *x)
{
    Profile small = x->chip;
    for (uint64_t Nk = 20; Nk <= 41; Nk += 3)
        for (small.smem_bytes_per_block = 32; small.smem_bytes_per_block <= 96; small.smem_bytes_per_block += 8) {
            BackwardCase c = {{&algorithm_standard, attention_shape(5, 1), {2, 2}, Nk % 2 ? L2_IDEAL : L2_NONE},
                              &backward_ways[WAY_STANDARD]};
            c.count.shape.seqlen_k = Nk;
            c.count.shape.dtype = ELEMENT_F32;
            c.count.shape.heads = 2;
            check_ways(x, &c, &small, true);
        }
}

static void wide_random(Context *x, int cases)
{
    static const uint64_t head_dims[] = {1, 2, 3, 16, 40, 64, 65, 80, 96, 128, 129, 192, 256, 257};
    static const uint32_t blocks[] = {1, 2, 3, 7, 16, 17, 32, 48, 64, 96, 100, 128, 200, 255, 256};
    enum { LAST_BLOCK = sizeof blocks / sizeof blocks[0] - 1, LAST_DIM = sizeof head_dims / sizeof head_dims[0] - 1 };
    const uint64_t most_pairs = 2000;
    uint64_t random = 2;
    for (int i = 0; i < cases;) {
        CountCase c = {.shape = attention_shape(1, head_dims[random_between(&random, 0, LAST_DIM)])};
        c.tiles = (TileSize){blocks[random_between(&random, 0, LAST_BLOCK)], blocks[random_between(&random, 0, LAST_BLOCK)]};
        c.shape.seqlen_q = random_length(&random, c.tiles.Br);
        c.shape.seqlen_k = random_between(&random, 0, 2) ? random_length(&random, c.tiles.Bc) : c.shape.seqlen_q;
        if (ceil_div(c.shape.seqlen_q, c.tiles.Br) * ceil_div(c.shape.seqlen_k, c.tiles.Bc) > most_pairs) continue;
        random_case(&c, &random, 8);
        const Profile chip = with_sms(&x->chip, random_between(&random, 1, 200));
        check_backwards(x, &c, &chip, false);
        check_forwards(x, &c, &chip, false);
        i++;
    }
}

/* ------------------------------------------------------------------------------------------------------------- executors */

static void watch_nothing(void *observer, const Event *event)
{
    (void)observer;
    (void)event;
}

/* Another executor counts the same, launch by launch and in total. */
static void check_executor(Context *x, const BackwardCase *c, const Profile *chip, MachineConfig config, const char *ways)
{
    Status status = {0};
    AttentionRun one = {0}, other = {0};
    const bool ok = walk(&one, c, (MachineConfig){.mode = MODE_COUNT}, chip, &x->alloc, &status) &&
                    walk(&other, c, config, chip, &x->alloc, &status);
    if (check_done(x, c, &status) && ok) {
        for (size_t i = 0; i < COUNT_FIELDS; i++)
            check_field(x, c, count_fields[i].name, ways, count_at(&other.totals, count_fields[i].walk), count_at(&one.totals, count_fields[i].walk));
        check_field(x, c, "ledger rows", ways, other.machine.ledger_count, one.machine.ledger_count);
        check_field(x, c, "sram_peak_bytes", ways, other.totals.sram_peak_bytes, one.totals.sram_peak_bytes);
        check_field(x, c, "register_peak_bytes", ways, other.totals.register_peak_bytes, one.totals.register_peak_bytes);
    }
    attention_run_free(&one);
    attention_run_free(&other);
}

static void executors(Context *x, int cases)
{
    uint64_t random = 3;
    for (int i = 0; i < cases; i++) {
        BackwardCase c = {.count = {.shape = attention_shape(1, random_between(&random, 1, 20))}};
        c.count.shape.seqlen_q = random_between(&random, 0, 40);
        c.count.shape.seqlen_k = random_between(&random, 0, 40);
        c.count.tiles = (TileSize){(uint32_t)random_between(&random, 1, 17), (uint32_t)random_between(&random, 1, 17)};
        random_case(&c.count, &random, 3);
        const Profile chip = with_sms(&x->chip, random_between(&random, 1, 24));
        for (size_t w = 0; w < BACKWARD_WAYS; w++) {
            c.way = &backward_ways[w];
            c.count.algorithm = c.way->algorithm;
            check_executor(x, &c, &chip, (MachineConfig){.mode = MODE_NUMERIC}, "numeric against count");
            check_executor(x, &c, &chip, (MachineConfig){.mode = MODE_COUNT, .walk_all_heads = true},
                           "all heads walked against one");
            check_executor(x, &c, &chip, (MachineConfig){.mode = MODE_COUNT, .observe = watch_nothing}, "watched against not");
        }
    }
}

/* ---------------------------------------------------------------------------------------------------------- the lecture */

static uint64_t hbm_elements(const ClosedForm *form) { return form->hbm_read_elements + form->hbm_write_elements; }
static uint64_t hbm_bytes(const ClosedForm *form) { return form->hbm_read_bytes + form->hbm_write_bytes; }

/* One head, two-byte elements, no mask, no L2. */
static CountedBackward one_head(uint64_t N, uint64_t d, uint64_t Br, uint64_t Bc)
{
    return (CountedBackward){.problem = {.batch = 1, .heads = 1, .kv_heads = 1, .Nq = N, .Nk = N, .d = d, .band_low = INT64_MIN,
                                         .band_high = INT64_MAX, .Br = Br, .Bc = Bc, .element_bytes = 2, .statistic_bytes = 4,
                                         .softmax_cols = N}};
}

/* Without L2: what Algorithm 2 lists, plus zeroing dQ; Algorithm 3 with one query block re-reads nothing. */
static void check_listed(Test *t, CountedBackward p, const char *what)
{
    const CountedProblem *q = &p.problem;
    Status status = {0};
    ClosedForm form;
    p.direct_dq = true;
    closed_form_fa2_backward(&p, &form, &status);
    check_u64(t, fa2_backward_elements(q->Nq, q->d, q->Bc, &status), hbm_elements(&form) + form.atomic_elements - q->Nq * q->d,
              what);
    check_u64(t, fa2_backward_atomic_elements(q->Nq, q->d, q->Bc, &status), form.atomic_elements, what);
    check_u64(t, backward_flops(q->Nq, q->d, &status) + recompute_flops(q->Nq, q->d, &status), form.matmul_flops, what);
    p.direct_dq = false;
    closed_form_fa2_backward(&p, &form, &status);
    check_u64(t, fa2_backward_atomic_elements(q->Nq, q->d, q->Bc, &status), form.atomic_elements, what);
    p.query_blocks_outside = true;
    closed_form_fa2_backward(&p, &form, &status);
    check_u64(t, fa2_backward_atomic_elements_by_queries(q->Nq, q->d, q->Br, &status), form.atomic_elements, what);
    p.problem.Br = p.problem.Bc = q->Nq;
    closed_form_standard_backward(&p, &form, &status);
    check_u64(t, standard_backward_elements(q->Nq, q->d, &status), hbm_elements(&form), what);
    check_u64(t, backward_flops(q->Nq, q->d, &status), form.matmul_flops, what);
    check_text(t, status.text, "", what);
}

/* Ideal L2, both passes: 13Nd leaves out the row statistics (L written and read, D written and read: 4N) and that dQ is zeroed
 * and fetched before it is written (2Nd). In float32 the sums of dQ are zeroed and fetched at four bytes. */
static void check_both_passes(Test *t, CountedBackward p, const char *what)
{
    Status status = {0};
    ClosedForm forward, backward;
    p.problem.ideal_l2 = true;
    const uint64_t N = p.problem.Nq, d = p.problem.d;
    closed_form_fa2(&p.problem, &forward, &status);
    p.direct_dq = true;
    closed_form_fa2_backward(&p, &backward, &status);
    check_u64(t, flash_training_elements(N, d, &status), hbm_elements(&forward) + hbm_elements(&backward) - 4 * N - 2 * N * d,
              what);
    check_u64(t, forward_flops(N, d, &status), forward.matmul_flops, what);
    p.direct_dq = false;
    closed_form_fa2_backward(&p, &backward, &status);
    check_u64(t, flash_training_bytes_float32_dq(N, d, &status), hbm_bytes(&forward) + hbm_bytes(&backward) - 16 * N - 8 * N * d,
              what);
    closed_form_standard(&p.problem, &forward, &status);
    closed_form_standard_backward(&p, &backward, &status);
    check_u64(t, standard_training_elements(N, d, &status), hbm_elements(&forward) + hbm_elements(&backward), what);
    check_text(t, status.text, "", what);
}

static void check_lecture_formulas(Test *t)
{
    uint64_t random = 4;
    for (int i = 0; i < 500; i++) {
        const uint64_t N = random_between(&random, 1, 5000), d = random_between(&random, 1, 512);
        const CountedBackward p = one_head(N, d, random_between(&random, 1, 600), random_between(&random, 1, 600));
        char what[160];
        snprintf(what, sizeof what,
                 "N=%" PRIu64 " d=%" PRIu64 " Br=%" PRIu64 " Bc=%" PRIu64 ": one-head formula against the general form", N, d,
                 p.problem.Br, p.problem.Bc);
        check_listed(t, p, what);
        check_both_passes(t, p, what);
    }
}

static void check_ratio(Test *t, double got, double want, double tolerance, const char *what)
{
    check_close(t, got, want, tolerance / want, what);
}

static void check_lecture_values(Test *t)
{
    Status status = {0};
    const uint64_t N = 1024, d = 64, heads = 64 * 16;
    const double flops = (double)(forward_flops(N, d, &status) + backward_flops(N, d, &status));
    const double recomputed = (double)recompute_flops(N, d, &status);
    check_u64(t, fa2_backward_elements(512, 64, 64, &status), 1253888, "N = 512, d = 64, Bc = 64: 6Nd + N + Tc (4Nd + 2N)");
    check_u64(t, fa2_backward_elements(1024, 64, 64, &status), 4621312, "N = 1024, d = 64, Bc = 64");
    check_u64(t, fa2_backward_elements(300, 64, 96, &status), 425100, "N = 300, d = 64, Bc = 96");
    check_u64(t, fa2_backward_elements(1000, 32, 80, &status), 1883000, "N = 1000, d = 32, Bc = 80");
    check_u64(t, fa2_backward_atomic_elements(512, 64, 64, &status), 524288, "N = 512, d = 64, Bc = 64: Tc 2Nd");
    check_u64(t, fa2_backward_atomic_elements_by_queries(512, 64, 64, &status), 1048576,
              "N = 512, d = 64, Br = 64: twice as many");
    check_u64(t, standard_backward_elements(256, 64, &status), 589824, "N = 256, d = 64: 8Nd + 7N^2");
    check_u64(t, standard_training_elements(N, d, &status), 12320768, "N = 1024, d = 64: 12Nd + 11N^2");
    check_u64(t, flash_training_elements(N, d, &status), 851968, "N = 1024, d = 64: 13Nd");
    check_ratio(t, flops / (2.0 * (double)standard_training_elements(N, d, &status)), 32.68, 0.005, "standard: FLOPs per byte");
    check_ratio(t, (flops + recomputed) / (2.0 * (double)flash_training_elements(N, d, &status)), 551.38, 0.005,
                "flash: FLOPs per byte, 7N/13");
    check_ratio(t, (flops + recomputed) / (double)flash_training_bytes_float32_dq(N, d, &status), 421.65, 0.005,
                "flash, float32 dQ: 14N/34");
    check_ratio(t, (flops + recomputed) / flops, 14.0 / 12.0, 1e-15, "recomputation: 16.7 % more of both passes");
    check_ratio(t, recomputed / (double)backward_flops(N, d, &status), 0.25, 1e-15, "25 % more of the backward pass");

    check_u64(t, saved_p_bytes(64, 16, 1024, &status), UINT64_C(2) << 30, "P of batch 64, 16 heads, N = 1024: 2 GiB");
    check_u64(t, saved_l_bytes(64, 16, 1024, &status), UINT64_C(4) << 20, "L: 4 MiB");
    check_u64(t, saved_p_bytes(64, 16, 16384, &status), UINT64_C(512) << 30, "P at N = 16384: 512 GiB");
    check_u64(t, saved_l_bytes(64, 16, 16384, &status), UINT64_C(64) << 20, "L: 64 MiB");

    const double forward_gb = 2e-9 * (double)(heads * fa1_published_elements(N, d, 256, &status));
    const double backward_gb = 2e-9 * (double)(heads * fa1_published_backward_elements(N, d, 256, &status));
    check_ratio(t, forward_gb, 1.745, 0.0005, "FlashAttention-1, forward: GB");
    check_ratio(t, backward_gb, 2.684, 0.0005, "FlashAttention-1, backward (inferred): GB");
    check_ratio(t, forward_gb + backward_gb, 4.43, 0.005, "both: 4.43 GB, printed 4.4");
    check_ratio(t, 2e-9 * (double)(heads * standard_training_elements(N, d, &status)), 25.2, 0.05,
                "standard, both: 25.2 GB, printed 40.3");
    check_text(t, status.text, "", "lecture values");
}

/* The lecture's ledger of §2.6, tensor by tensor: N = 512, d = 64, blocks of 64. */
static void check_ledger(Context *x)
{
    static const struct {
        const char *kernel, *tensor;
        uint64_t read, written, added;
    } rows[] = {{"fa2_bwd_zero", "dQ", 0, 32768, 0}, {"fa2_bwd_dot", "O", 32768, 0, 0},  {"fa2_bwd_dot", "dO", 32768, 0, 0},
                {"fa2_bwd_dot", "D", 0, 512, 0},     {"fa2_bwd", "Q", 262144, 0, 0},     {"fa2_bwd", "K", 32768, 0, 0},
                {"fa2_bwd", "V", 32768, 0, 0},       {"fa2_bwd", "dO", 262144, 0, 0},    {"fa2_bwd", "dQ", 0, 0, 262144},
                {"fa2_bwd", "dK", 0, 32768, 0},      {"fa2_bwd", "dV", 0, 32768, 0},     {"fa2_bwd", "D", 4096, 0, 0},
                {"fa2_bwd", "L", 4096, 0, 0}};
    enum { ROWS = sizeof rows / sizeof rows[0] };
    const BackwardCase c = {{&algorithm_fa2, attention_shape(512, 64), {64, 64}, L2_NONE}, &backward_ways[WAY_FA2_DIRECT]};
    Status status = {0};
    AttentionRun run;
    walk(&run, &c, (MachineConfig){.mode = MODE_COUNT}, &x->chip, &x->alloc, &status);
    check_done(x, &c, &status);
    check_field(x, &c, "ledger rows", "walk against the lecture", run.machine.ledger_count, ROWS);
    for (uint32_t i = 0; i < run.machine.ledger_count; i++) {
        const LedgerRow *row = &run.machine.ledger[i];
        size_t k = 0;
        while (k < ROWS && (strcmp(rows[k].kernel, row->kernel) != 0 || strcmp(rows[k].tensor, row->tensor->name) != 0)) k++;
        check_true(&x->test, k < ROWS, row->tensor->name);
        if (k == ROWS) continue;
        check_field(x, &c, row->tensor->name, "read, walk against the lecture", row->traffic.hbm_read, rows[k].read);
        check_field(x, &c, row->tensor->name, "written, walk against the lecture", row->traffic.hbm_write, rows[k].written);
        check_field(x, &c, row->tensor->name, "added, walk against the lecture", row->traffic.atomic_adds, rows[k].added);
    }
    attention_run_free(&run);
}

/* Matmul FLOPs against the forward pass: 2.5 times with recomputation, twice without; under a causal mask exactly N (N + 1) / 2
 * pairs. */
static void check_flops(Context *x)
{
    for (size_t i = 0; i < BACKWARD_WAYS; i++)
        for (int mask = MASK_NONE; mask <= MASK_CAUSAL; mask++) {
            BackwardCase c = {{backward_ways[i].algorithm, attention_shape(1024, 64), {128, 64}, L2_NONE}, &backward_ways[i]};
            c.count.shape.mask = (MaskKind)mask;
            Status status = {0};
            AttentionRun run;
            ClosedForm forward;
            const uint64_t pairs = mask == MASK_NONE ? 1024 * 1024 : 524800, products = i == WAY_STANDARD ? 4 : 5;
            walk(&run, &c, (MachineConfig){.mode = MODE_COUNT}, &x->chip, &x->alloc, &status);
            c.way->algorithm->closed_form(&run.problem, &forward, &status);
            check_done(x, &c, &status);
            check_field(x, &c, "matmul_flops_exact_mask", "walk against 2 d per pair and product",
                        run.totals.matmul_flops_exact_mask, products * 2 * 64 * pairs);
            check_field(x, &c, "matmul_flops", "walk against the forward pass", 2 * run.totals.matmul_flops,
                        products * forward.matmul_flops);
            attention_run_free(&run);
        }
}

/* -------------------------------------------------------------------------------------------------- sums, limits, errors */

/* Rows that an ideal L2 fetches of the sums of `splits` splits, block by block. */
static uint64_t loop_over_splits(const CountedProblem *p, uint64_t splits)
{
    uint64_t rows = 0;
    for (uint64_t first_row = 0; first_row < p->Nq; first_row += p->Br) {
        const uint64_t r = min_u64(p->Br, p->Nq - first_row);
        uint64_t executed = 0;
        for (uint64_t first_key = 0; first_key < p->Nk; first_key += p->Bc) {
            const uint64_t c = min_u64(p->Bc, p->Nk - first_key);
            const int64_t to_last = (int64_t)(first_key + c) - 1 - (int64_t)first_row;      /* last key - first row */
            const int64_t to_first = (int64_t)first_key - (int64_t)(first_row + r) + 1;     /* first key - last row */
            executed += p->band_high >= p->band_low && to_last >= p->band_low && to_first <= p->band_high;
        }
        rows += r * min_u64(executed, splits);
    }
    return rows;
}

/* Through the difference that the sums make: splits and one sum differ by what is zeroed, fetched, written and read of the
 * sums. */
static void check_split_sums(Test *t)
{
    uint64_t random = 5;
    for (int i = 0; i < 4000; i++) {
        CountedBackward p = one_head(1, 1, 1, 1);
        CountedProblem *q = &p.problem;
        q->Nq = random_between(&random, 1, 900);
        q->Nk = random_between(&random, 1, 900);
        q->Br = random_between(&random, 1, 100);
        q->Bc = random_between(&random, 1, 100);
        q->Br = ceil_div(q->Nq, q->Br) > 100 ? q->Nq : q->Br;
        q->Bc = ceil_div(q->Nk, q->Bc) > 100 ? q->Nk : q->Bc;
        q->band_low = (int64_t)random_between(&random, 0, 2400) - 1200;
        q->band_high = random_between(&random, 0, 3) ? q->band_low + (int64_t)random_between(&random, 0, 400)
                                                     : (int64_t)random_between(&random, 0, 2400) - 1200;
        q->ideal_l2 = true;
        p.splits = random_between(&random, 1, ceil_div(q->Nk, q->Bc));
        Status status = {0};
        ClosedForm split, one;
        char what[200];
        closed_form_fa2_backward(&p, &split, &status);
        const uint64_t want = loop_over_splits(q, p.splits) - loop_over_splits(q, 1) + (p.splits - 1) * q->Nq;
        p.splits = 0;
        closed_form_fa2_backward(&p, &one, &status);
        snprintf(what, sizeof what,
                 "Nq=%" PRIu64 " Nk=%" PRIu64 " Br=%" PRIu64 " Bc=%" PRIu64 " band %" PRId64 "..%" PRId64 ": rows of splits",
                 q->Nq, q->Nk, q->Br, q->Bc, q->band_low, q->band_high);
        check_text(t, status.text, "", what);
        check_u64(t, split.hbm_read_elements - one.hbm_read_elements, want, what);
        check_u64(t, split.hbm_write_elements - one.hbm_write_elements, want, what);
    }
}

typedef bool BackwardForm(const CountedBackward *problem, ClosedForm *form, Status *status);
static BackwardForm *const forms[] = {closed_form_standard_backward, closed_form_fa2_backward};

/* FLOPs grow by exactly 4 per doubling of N, HBM bytes nearly so, up to N = 2^21; past 64 bits the product is named. */
static void check_growth(Test *t)
{
    for (size_t a = 0; a < 2; a++) {
        ClosedForm last = {0};
        for (uint64_t N = UINT64_C(1) << 17; N <= UINT64_C(1) << 21; N *= 2) {
            const CountedBackward p = one_head(N, 128, 128, 128);
            Status status = {0};
            ClosedForm form;
            check_true(t, forms[a](&p, &form, &status), status.text);
            check_u64(t, form.matmul_flops, (a == 0 ? 8 : 10) * N * N * 128, "8 or 10 N^2 d");
            const uint64_t bytes = hbm_bytes(&form), before = hbm_bytes(&last);
            if (before > 0)
                check_true(t, bytes <= 4 * before && bytes > 4 * before - before / 50, "bytes of 2N over N, with a linear part");
            last = form;
        }
        CountedBackward huge = one_head(UINT64_C(1) << 31, 128, 128, 128);
        Status status = {0};
        ClosedForm form;
        check_true(t, !forms[a](&huge, &form, &status) && status.code == STATUS_INFEASIBLE, "N = 2^31 overflows");
        check_true(t, strstr(status.text, "overflows 64 bits") != NULL, status.text);
        status = (Status){0};
        huge.problem.batch = 0;
        check_true(t, forms[a](&huge, &form, &status), "batch 0 does nothing");
        check_u64(t, hbm_elements(&form) + form.matmul_flops + form.nonmatmul_ops + form.atomic_elements, 0,
                  "batch 0 does nothing");
    }
}

static void check_limits(Test *t)
{
    for (size_t a = 0; a < 2; a++)
        for (int i = 0; i < 3; i++) {
            CountedBackward p = one_head(8, 1, i == 0 ? 0 : 4, i == 1 ? 0 : 4);
            if (i == 2) p.problem.Nq = UINT64_C(1) << 62;
            Status status = {0};
            ClosedForm form;
            check_true(t, !forms[a](&p, &form, &status), "refused");
            check_u64(t, status.code, i < 2 ? STATUS_USAGE : STATUS_INFEASIBLE, status.text);
        }
    Status status = {0};
    saved_p_bytes(UINT64_C(1) << 16, UINT64_C(1) << 16, UINT64_C(1) << 16, &status);
    check_text(t, status.text, "2 batch heads N^2 overflows 64 bits: 4294967296 * 8589934592", "the product is named");
}

/* A deterministic pass has sums and a loop order of its own. */
static void check_exclusive_variants(Context *x)
{
    static const BackwardVariant refused[] = {{.deterministic = true, .direct_dq = true},
                                              {.deterministic = true, .query_blocks_outside = true}};
    for (size_t i = 0; i < 2; i++) {
        const BackwardWay way = {"refused", &algorithm_fa2, refused[i]};
        const BackwardCase c = {{&algorithm_fa2, attention_shape(8, 2), {2, 2}, L2_NONE}, &way};
        Status status = {0};
        AttentionRun run;
        check_true(&x->test, !walk(&run, &c, (MachineConfig){.mode = MODE_COUNT}, &x->chip, &x->alloc, &status),
                   "variants that exclude each other");
        check_u64(&x->test, status.code, STATUS_USAGE, status.text);
        attention_run_free(&run);
    }
}

int main(void)
{
    Context x = {0};
    Status status = {0};
    if (profile_load("unbounded", &x.alloc, &x.chip, &status)) {
        small_grid(&x);
        small_random(&x, 2500);
        long_rows(&x);
        wide_random(&x, 2400);
        executors(&x, 60);
        check_lecture_formulas(&x.test);
        check_lecture_values(&x.test);
        check_ledger(&x);
        check_flops(&x);
        check_split_sums(&x.test);
        check_growth(&x.test);
        check_limits(&x.test);
        check_exclusive_variants(&x);
    }
    check_text(&x.test, status.text, "", "profile unbounded");
    check_u64(&x.test, x.alloc.live_bytes, 0, "memory left at the end");
    return test_end(&x.test, "counts_backward");
}
