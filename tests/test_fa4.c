/* test_fa4.c - FlashAttention-4: the paper's accounts come out of the walk, two CTAs, what fits a B200, when operations happen.
 *
 *   accounts   cycles per 128 x 128 tile and unit = the integers of arXiv:2603.05451, Tables 1 and 3, from what the kernels
 *              read and write, divided by the rates of the profile
 *   two CTAs   walk = closed form at every shape of whole tiles, gradients = oracle; what cannot be paired is refused
 *   chip       registers, shared and tensor memory of a B200 hold both passes; other chips have no tcgen05
 *   numbers    O, L and gradients in BF16 and float32 with the real tiles on a B200 against the oracle
 *   rescaling  conditional: O and L as exact as without, the reference never falls, one reference for P, l and O; the share of a
 *              numeric run, given to a counting one, gives the same counts; rows decide alone, by warps, or all together
 *   polynomial O within the polynomial's error; MUFU is relieved by exactly the share
 *   time       busy units are the accounts; a rate moves the makespan when it binds
 * Counts of one CTA and numbers at other tiles: test_counts.c, test_counts_backward.c, test_forward.c, test_backward.c.
 */
/* label: closed-form */
#include "test.h"

#include "support/count_case.h"

#include "algos/oracle.h"

#include <string.h>

typedef struct {
    Test test;
    Profile b200;
    Alloc alloc;
} Context;

static const BackwardVariant two_ctas = {.two_ctas = true};

/* Forward, or backward when `variant` is not NULL, in `config` with the real tiles. The caller frees the run. */
static bool walk(Context *x, AttentionRun *run, const AttentionShape *shape, const BackwardVariant *variant, MachineConfig config,
                 const Profile *chip, Status *status)
{
    const RunSetup setup = {.algorithm = &algorithm_fa4, .profile = chip, .tiles = {256, 128}, .config = config};
    if (!attention_run_prepare(run, &setup, shape, &x->alloc, status)) return false;
    if (variant == NULL) return attention_run_forward(run);
    return attention_run_prepare_backward(run, (TileSize){128, 128}, *variant) && attention_run_backward(run);
}

/* ---------------------------------------------------------------------------------------------------------------- accounts */

static uint64_t atomic_bytes(const AttentionRun *run)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < run->machine.ledger_count; i++)
        bytes += run->machine.ledger[i].traffic.atomic_adds * element_bytes(run->machine.ledger[i].tensor->type);
    return bytes;
}

typedef struct {
    const char *name;
    const BackwardVariant *variant; /* NULL: forward */
    uint64_t tensor, exp, operands, ds, dq;
} Account;

static const BackwardVariant one_cta = {0};
static const Account accounts[] = {
    {"forward", NULL, 1024, 1024, 768, 0, 0},
    {"backward, one CTA", &one_cta, 2560, 1024, 2048, 256, 1024},
    {"backward, two CTAs", &two_ctas, 2560, 1024, 1536, 256, 512},
};

static void check_account(Context *x, const Account *want, uint64_t N)
{
    Status status = {0};
    AttentionRun run;
    const AttentionShape shape = attention_shape(N, 128);
    const uint64_t tiles = N / 128 * (N / 128), smem = x->b200.smem_bytes_per_cycle_per_sm * tiles;
    walk(x, &run, &shape, want->variant, (MachineConfig){.mode = MODE_COUNT}, &x->b200, &status);
    check_text(&x->test, status.text, "", want->name);
    const Counts *main_kernel = &run.machine.launches[want->variant == NULL ? 0 : 1].counts;
    check_u64(&x->test, run.totals.matmul_flops, want->tensor * tiles * x->b200.tcgen05_bf16_flops_per_cycle_per_sm, want->name);
    check_u64(&x->test, main_kernel->elements[OP_EXP_ROWS], want->exp * tiles * x->b200.mufu_ops_per_cycle_per_sm, want->name);
    check_u64(&x->test, run.totals.smem_operand_bytes, want->operands * smem, want->name);
    if (want->variant != NULL) { /* dQ: written by threads, and as much read back by the copies that add it */
        check_u64(&x->test, 2 * atomic_bytes(&run), want->dq * smem, want->name);
        check_u64(&x->test, run.totals.smem_thread_bytes - atomic_bytes(&run), want->ds * smem, want->name);
    }
    attention_run_free(&run);
}

static void check_accounts(Context *x)
{
    for (size_t i = 0; i < sizeof accounts / sizeof accounts[0]; i++)
        for (uint64_t N = 256; N <= 4096; N *= 4) check_account(x, &accounts[i], N);
    check_u64(&x->test, 2048 + 256 + 1024, 3328, "Table 3: one CTA");
    check_u64(&x->test, 1536 + 256 + 384 + 512, 2688, "Table 3: two CTAs; the exchange of 384 is the paper's");
}

/* ---------------------------------------------------------------------------------------------------------------- two CTAs */

static void check_pair(Context *x, const CountCase *c)
{
    char what[320], shape[256];
    Status status = {0};
    AttentionRun run;
    CountPair pairs[COUNT_PAIRS];
    const RunSetup setup = {
        .algorithm = &algorithm_fa4, .profile = &x->b200, .tiles = c->tiles, .config = {.mode = MODE_COUNT, .l2 = c->l2}};
    const bool ok = attention_run_prepare(&run, &setup, &c->shape, &x->alloc, &status) &&
                    attention_run_prepare_backward(&run, c->tiles, two_ctas) && attention_run_backward(&run);
    count_case_name(c, shape, sizeof shape);
    check_text(&x->test, status.text, "", shape);
    count_pairs(&run.totals, &run.closed_form, pairs);
    for (size_t i = 0; ok && i < COUNT_PAIRS; i++) {
        snprintf(what, sizeof what, "%s, two CTAs: %s", shape, pairs[i].name);
        check_u64(&x->test, pairs[i].counted, pairs[i].formula, what);
    }
    attention_run_free(&run);
}

static void check_pairs(Context *x, int cases)
{
    static const uint32_t sides[] = {2, 8, 32, 64, 128};
    static const uint64_t head_dims[] = {1, 8, 40, 64, 96, 128};
    uint64_t random = 4;
    for (int i = 0; i < cases; i++) {
        CountCase c = {&algorithm_fa4, attention_shape(1, head_dims[random_between(&random, 0, 5)]), {0, 0}, L2_NONE};
        AttentionShape *s = &c.shape;
        c.tiles = (TileSize){sides[random_between(&random, 0, 4)], sides[random_between(&random, 0, 4)]};
        s->seqlen_q = c.tiles.Br * random_between(&random, 0, 6);
        s->seqlen_k = 2 * c.tiles.Bc * random_between(&random, 0, 4);
        s->mask = (MaskKind)random_between(&random, 0, 2);
        s->window_left = random_between(&random, 0, 1) ? -1 : (int64_t)random_between(&random, 0, 300);
        s->kv_heads = random_between(&random, 1, 2);
        s->heads = s->kv_heads * random_between(&random, 1, 3);
        c.l2 = random_between(&random, 0, 1) ? L2_IDEAL : L2_NONE;
        check_pair(x, &c);
    }
}

/* ------------------------------------------------------------------------------------------------------------ what is refused */

static void check_refused(Context *x, const Profile *chip, const AttentionShape *shape, const BackwardVariant *variant,
                          MachineConfig config, const char *text)
{
    Status status = {0};
    AttentionRun run = {0};
    check_true(&x->test, !walk(x, &run, shape, variant, config, chip, &status), text);
    check_text(&x->test, status.text, text, "refused");
    check_u64(&x->test, status.code, STATUS_INFEASIBLE, text);
    attention_run_free(&run);
}

static void check_refusals(Context *x)
{
    static const char *const others[] = {"a100", "h100", "h200"};
    static const BackwardVariant deterministic = {.deterministic = true};
    const MachineConfig count = {.mode = MODE_COUNT};
    const AttentionShape whole = attention_shape(256, 64), ragged = attention_shape(257, 64);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        Status status = {0};
        Profile chip;
        char text[120];
        check_true(&x->test, profile_load(others[i], &x->alloc, &chip, &status), status.text);
        snprintf(text, sizeof text, "fa4_forward needs tcgen05: %s has no tcgen05", others[i]);
        check_refused(x, &chip, &whole, NULL, count, text);
    }
    check_refused(x, &x->b200, &ragged, &two_ctas, count,
                  "fa4: two CTAs need whole tiles: 257 queries in blocks of 128, 257 keys in pairs of blocks of 128");
    check_refused(x, &x->b200, &whole, &deterministic, count, "fa4: its backward has no other dQ sums or loop order; use fa2");
}

static void check_too_many_rows(Context *x)
{
    Status status = {0};
    AttentionRun run;
    const AttentionShape shape = attention_shape(512, 64);
    attention_count(&run, &algorithm_fa4, &shape, (TileSize){258, 16}, L2_NONE, &x->b200, &x->alloc, &status);
    check_text(&x->test, status.text, "fa4: 258 query rows per block; at most 256, two tiles of the 128 lanes of tensor memory",
               "rows");
    attention_run_free(&run);
}

/* --------------------------------------------------------------------------------------------------------------------- chip */

/* The real tiles fit at head dims up to 128, and use what the paper says: all of tensor memory, three K/V stages beside Q and O.
 */
static void check_capacity(Context *x)
{
    static const BackwardVariant *const passes[] = {NULL, &one_cta, &two_ctas};
    static const uint64_t smem[] = {(2 * 64 + 3 * 32) << 10, (6 * 32 + 2 * 16) << 10, (4 * 32 + 4 * 16 + 2 * 8) << 10};
    for (size_t i = 0; i < 3; i++)
        for (uint64_t d = 64; d <= 128; d += 32) {
            Status status = {0};
            AttentionRun run;
            const AttentionShape shape = attention_shape(512, d);
            walk(x, &run, &shape, passes[i], (MachineConfig){.mode = MODE_COUNT}, &x->b200, &status);
            check_text(&x->test, status.text, "", "the real tiles fit");
            if (d == 128) {
                check_u64(&x->test, run.totals.tmem_peak_bytes, x->b200.tmem_bytes_per_sm, "all 512 columns of tensor memory");
                check_u64(&x->test, run.totals.sram_peak_bytes, smem[i], "shared memory");
            }
            attention_run_free(&run);
        }
}

/* ------------------------------------------------------------------------------------------------------------------- numbers */

/* The counts of a finished run are its formula's. Rows x key blocks that rescaled. */
static uint64_t check_formula(Context *x, const AttentionRun *run, const char *what)
{
    CountPair pairs[COUNT_PAIRS];
    char text[200];
    count_pairs(&run->totals, &run->closed_form, pairs);
    for (size_t i = 0; i < COUNT_PAIRS; i++) {
        snprintf(text, sizeof text, "%s: %s", what, pairs[i].name);
        check_u64(&x->test, pairs[i].counted, pairs[i].formula, text);
    }
    return run->machine.launches[0].counts.elements[OP_ROWS_EXP_DIFFERENCE];
}

static void check_numbers(Context *x, const AttentionShape *shape, BackwardVariant variant, double tolerance)
{
    Status status = {0};
    AttentionRun run;
    ForwardError forward;
    BackwardError backward;
    const Precision precision = shape->dtype == ELEMENT_F64 ? PRECISION_F64 : PRECISION_F32;
    const RunSetup setup = {
        .algorithm = &algorithm_fa4, .profile = &x->b200, .config = {.mode = MODE_NUMERIC, .precision = precision, .poison = true}};
    bool ok = attention_run_prepare(&run, &setup, shape, &x->alloc, &status) &&
              attention_run_prepare_backward(&run, (TileSize){0, 0}, variant);
    if (ok) attention_random_inputs(&run.attention, &run.machine, 7);
    ok = ok && attention_run_forward(&run) && oracle_compare(&run.attention, &run.machine, &forward) &&
         attention_run_backward(&run) && oracle_compare_backward(&run.attention, &run.machine, &backward);
    check_text(&x->test, status.text, "", "a run on a B200");
    if (ok) {
        check_true(&x->test, forward.max_abs_O <= tolerance && forward.max_abs_L <= tolerance, "O and L on a B200");
        const double most = tolerance * (backward.max_gradient > 1 ? backward.max_gradient : 1);
        check_true(&x->test, backward.max_abs_dQ <= most && backward.max_abs_dK <= most && backward.max_abs_dV <= most,
                   "gradients");
        check_formula(x, &run, variant.two_ctas ? "two CTAs, computed" : "one CTA, computed");
    }
    attention_run_free(&run);
}

static void check_all_numbers(Context *x)
{
    static const struct {
        ElementType type;
        double tolerance;
    } types[] = {{ELEMENT_F64, 1e-13}, {ELEMENT_F32, 1e-5}, {ELEMENT_BF16, 2e-2}};
    for (size_t i = 0; i < 3; i++)
        for (int mask = MASK_NONE; mask <= MASK_CAUSAL_TOP_LEFT; mask++) {
            AttentionShape s = attention_shape(391, mask == MASK_NONE ? 128 : 64);
            s.dtype = types[i].type;
            s.mask = (MaskKind)mask;
            s.seqlen_q = mask == MASK_CAUSAL ? 300 : 391;
            s.heads = 2;
            check_numbers(x, &s, one_cta, types[i].tolerance);
            s.seqlen_q = mask == MASK_CAUSAL ? 384 : 512; /* two CTAs need whole tiles */
            s.seqlen_k = 512;
            check_numbers(x, &s, two_ctas, types[i].tolerance);
        }
}

/* ----------------------------------------------------------------------------------------------------------------- rescaling */

/* One or two rows with the log2 scores that are given, exactly: q_r = e_r, k_j = the scores of key j. */
typedef struct {
    const char *name;
    uint32_t rows, keys, Bc;
    double scores[2][4], values[4]; /* per row and key */
    double O, L;                    /* of the last row */
    uint64_t rescales;              /* key blocks at which some row got another reference */
    uint64_t alone;                 /* rows x key blocks that did when each row decides for itself */
} Scored;

/* Field cases 42 and 43. */
static const Scored scored[] = {
    {"42: one reference for P, l and O", 1, 2, 1, {{0, 4}}, {0, 1}, 0.94117647058823529, 2.8332133440562161, 1, 1},
    {"43a: another row's growth does not lower a maximum", 2, 2, 1, {{0, 20}, {0, -200}}, {5, 9}, 5, 0, 2, 3},
    {"43b: grown by less than 8", 1, 2, 1, {{0, 7.99}}, {0, 1}, 0.996081991057784, 5.54217167712049, 1, 1},
    {"43b: grown by 8", 1, 2, 1, {{0, 8}}, {0, 1}, 256.0 / 257, 5.5490760848952201, 1, 1},
    {"43b: grown by more than 8", 1, 2, 1, {{0, 8.01}}, {0, 1}, 0.996135723004093, 5.55598067888995, 2, 2},
    {"43c: hidden first blocks", 1, 4, 1, {{-INFINITY, -INFINITY, -50, -51}}, {7, 7, 2, 4}, 8.0 / 3, -34.251894, 1, 1},
    {"43d: 6 natural", 1, 2, 1, {{0, 6 * 1.4426950408889634}}, {0, 1}, 0.99752737684336534, 6.0024756851377303, 2, 2},
    {"43d: raw 40 at scale 1/8", 1, 2, 1, {{0, 5 * 1.4426950408889634}}, {0, 1}, 0.99330714907571527, 5.0067153484891183, 1, 1},
    {"growth in steps below 8 is measured from the reference", 1, 4, 1, {{0, 5, 10, 15}}, {0, 0, 0, 1}, 0.9687509238728751, 10.42895545303899, 2, 2},
};

static void check_scored(Context *x, const Scored *c, uint32_t decision_rows)
{
    Status status = {0};
    AttentionRun run;
    AttentionShape shape = attention_shape(c->keys, 2);
    shape.seqlen_q = c->rows;
    shape.dtype = ELEMENT_F64;
    shape.softmax_scale = 0x1.62e42fefa39efp-1; /* ln 2: scores are in log2 */
    const RunSetup setup = {.algorithm = &algorithm_fa4,
                            .profile = &x->b200,
                            .tiles = {4, c->Bc},
                            .config = {.mode = MODE_NUMERIC, .precision = PRECISION_F64, .poison = true}};
    bool ok = attention_run_prepare(&run, &setup, &shape, &x->alloc, &status);
    Attention *const a = &run.attention;
    a->fa4 = (Fa4Options){.conditional = true, .threshold = 8, .decision_rows = decision_rows};
    for (uint64_t i = 0; ok && i < 2; i++) {
        for (uint64_t r = 0; r < c->rows; r++) tensor_set(&run.machine, a->Q, 2 * r + i, r == i ? 1 : 0);
        for (uint64_t j = 0; j < c->keys; j++) {
            tensor_set(&run.machine, a->K, 2 * j + i, c->scores[i][j]);
            tensor_set(&run.machine, a->V, 2 * j + i, c->values[j]);
        }
    }
    ok = ok && attention_run_forward(&run);
    check_text(&x->test, status.text, "", c->name);
    if (ok) {
        check_close(&x->test, tensor_value(&run.machine, a->O, 2 * (c->rows - 1)), c->O, 1e-6, c->name);
        check_close(&x->test, tensor_value(&run.machine, a->L, c->rows - 1), c->L, 1e-6, c->name);
        const Counts *counts = &run.machine.launches[0].counts;
        check_u64(&x->test, check_formula(x, &run, c->name), c->rescales * c->rows, c->name);
        check_u64(&x->test, counts->references_moved, decision_rows == 1 ? c->alone : c->rescales, c->name);
        check_u64(&x->test, counts->references_moved + counts->references_kept, (decision_rows == 1 ? c->rows : 1) * c->keys, c->name);
    }
    attention_run_free(&run);
}

/* O and L of random inputs in float64, whatever the threshold and the logits' spread. Rows x key blocks that rescaled. */
static uint64_t check_exact(Context *x, const AttentionShape *shape, double threshold, uint32_t decision_rows)
{
    Status status = {0};
    AttentionRun run;
    ForwardError error;
    uint64_t rescaled = 0;
    const RunSetup setup = {.algorithm = &algorithm_fa4,
                            .profile = &x->b200,
                            .tiles = {128, 16},
                            .config = {.mode = MODE_NUMERIC, .precision = PRECISION_F64, .poison = true}};
    bool ok = attention_run_prepare(&run, &setup, shape, &x->alloc, &status);
    if (ok) attention_random_inputs(&run.attention, &run.machine, 3);
    run.attention.fa4 = (Fa4Options){.conditional = true, .threshold = threshold, .decision_rows = decision_rows};
    ok = ok && attention_run_forward(&run) && oracle_compare(&run.attention, &run.machine, &error);
    check_text(&x->test, status.text, "", "conditional rescaling");
    if (ok) {
        check_close(&x->test, error.max_abs_O, 0, 1e-12, "O with conditional rescaling");
        check_close(&x->test, error.max_abs_L, 0, 1e-12, "L with conditional rescaling");
        rescaled = check_formula(x, &run, "conditional rescaling");
    }
    attention_run_free(&run);
    return rescaled;
}

static void check_thresholds(Context *x)
{
    for (int mask = MASK_NONE; mask <= MASK_CAUSAL_TOP_LEFT; mask++)
        for (int spread = 1; spread <= 16; spread *= 4) {
            AttentionShape shape = attention_shape(201, 32);
            shape.dtype = ELEMENT_F64;
            shape.mask = (MaskKind)mask;
            shape.heads = 2;
            shape.softmax_scale *= spread;
            const uint64_t always = check_exact(x, &shape, 0, 0), often = check_exact(x, &shape, 1, 0), rarely = check_exact(x, &shape, 8, 0);
            check_exact(x, &shape, 8, 1);
            check_exact(x, &shape, 8, UINT32_MAX);
            check_true(&x->test, always >= often && often >= rarely && rarely > 0, "a higher threshold rescales no more");
            if (spread == 16) check_true(&x->test, often > rarely, "wide logits rescale past the first block");
        }
}

static Totals conditional_totals(Context *x, const AttentionShape *shape, Mode mode, const Fa4Options *fa4, uint64_t *rescaled)
{
    Status status = {0};
    AttentionRun run;
    Totals totals = {0};
    const RunSetup setup = {.algorithm = &algorithm_fa4, .profile = &x->b200, .tiles = {256, 128}, .config = {.mode = mode}};
    bool ok = attention_run_prepare(&run, &setup, shape, &x->alloc, &status);
    if (ok && mode == MODE_NUMERIC) attention_random_inputs(&run.attention, &run.machine, 5);
    run.attention.fa4 = *fa4;
    ok = ok && attention_run_forward(&run);
    check_text(&x->test, status.text, "", "counts with conditional rescaling");
    if (ok) {
        *rescaled = check_formula(x, &run, "a share of rescalings");
        totals = run.totals;
    }
    attention_run_free(&run);
    return totals;
}

/* Of n key blocks ceil(n share) rescale; 16 here. With standard normal inputs and the threshold 8 the first alone does: 1/16. */
static void check_shares(Context *x)
{
    static const struct {
        uint32_t ppm;
        uint64_t blocks;
    } shares[] = {{0, 1}, {62500, 1}, {62501, 2}, {100000, 2}, {250000, 4}, {333333, 6}, {500000, 8}, {999999, 16}, {1000000, 16}};
    const AttentionShape shape = attention_shape(2048, 64);
    uint64_t rescaled = 0, counted = 0;
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
        const Fa4Options fa4 = {.conditional = true, .rescale_ppm = shares[i].ppm};
        conditional_totals(x, &shape, MODE_COUNT, &fa4, &counted);
        check_u64(&x->test, counted, 2048 * shares[i].blocks, "rows x ceil(16 share)");
    }
    const Fa4Options data = {.conditional = true, .threshold = 8};
    const Totals computed = conditional_totals(x, &shape, MODE_NUMERIC, &data, &rescaled);
    check_u64(&x->test, rescaled, 2048, "normal inputs: the first key block alone");
    const Fa4Options share = {.conditional = true, .rescale_ppm = (uint32_t)(rescaled * 1000000 / (2048 * 16))};
    const Totals walked = conditional_totals(x, &shape, MODE_COUNT, &share, &counted);
    check_true(&x->test, memcmp(&computed, &walked, sizeof walked) == 0, "the numeric run's share, counted: the same totals");
}

/* Counted without data, heads multiplied: query tiles of 128, 128 and 44 rows x 4 key blocks, of which ceil(4 / 2) rescale. */
static void check_decisions(Context *x)
{
    static const struct {
        uint32_t rows;
        uint64_t groups;
    } decisions[] = {{0, 4 + 4 + 2}, {1, 300}, {100, 2 + 2 + 1}, {UINT32_MAX, 3}};
    for (size_t i = 0; i < sizeof decisions / sizeof decisions[0]; i++) {
        Status status = {0};
        AttentionRun run;
        AttentionShape shape = attention_shape(512, 64);
        shape.seqlen_q = 300;
        shape.batch = 2;
        shape.heads = shape.kv_heads = 3;
        const RunSetup setup = {.algorithm = &algorithm_fa4, .profile = &x->b200, .tiles = {256, 128}};
        bool ok = attention_run_prepare(&run, &setup, &shape, &x->alloc, &status);
        run.attention.fa4 = (Fa4Options){.conditional = true, .rescale_ppm = 500000, .decision_rows = decisions[i].rows};
        ok = ok && attention_run_forward(&run);
        check_text(&x->test, status.text, "", "decisions");
        const Counts *counts = &run.machine.launches[0].counts;
        if (ok) check_u64(&x->test, counts->references_moved, decisions[i].groups * 2 * 6, "groups x blocks that rescale x heads");
        if (ok) check_u64(&x->test, counts->references_kept, decisions[i].groups * 2 * 6, "groups x blocks that do not x heads");
        attention_run_free(&run);
    }
}

/* ---------------------------------------------------------------------------------------------------------------- polynomial */

static double polynomial_error(Context *x, uint32_t sixteenths, bool bf16_weights)
{
    Status status = {0};
    AttentionRun run;
    ForwardError error = {0};
    AttentionShape shape = attention_shape(391, 64);
    shape.dtype = ELEMENT_F32;
    shape.mask = MASK_CAUSAL;
    const RunSetup setup = {.algorithm = &algorithm_fa4, .profile = &x->b200, .config = {.mode = MODE_NUMERIC, .poison = true}};
    bool ok = attention_run_prepare(&run, &setup, &shape, &x->alloc, &status);
    if (ok) attention_random_inputs(&run.attention, &run.machine, 7);
    run.attention.fa4.poly_sixteenths = sixteenths;
    run.attention.fa4.bf16_weights = bf16_weights;
    ok = ok && attention_run_forward(&run) && oracle_compare(&run.attention, &run.machine, &error);
    check_text(&x->test, status.text, "", "polynomial exponentials");
    if (ok) check_formula(x, &run, "polynomial exponentials");
    attention_run_free(&run);
    return error.max_abs_O / error.max_O;
}

/* Every weight is within 8.6e-5 of the exact one, so O is within twice that of the largest |v|, here below 5 max |O|. */
static void check_polynomial(Context *x)
{
    const double none = polynomial_error(x, 0, false), some = polynomial_error(x, 3, false), all = polynomial_error(x, 16, false);
    const double bf16 = polynomial_error(x, 0, true), both = polynomial_error(x, 16, true);
    check_true(&x->test, none < 2e-6, "no polynomial: float32's error");
    check_true(&x->test, some > 4 * none && some < 2 * 8.6e-5, "3 of 16: the polynomial's error");
    check_true(&x->test, all > 4 * none && all < 2 * 8.6e-5, "all: the polynomial's error");
    check_true(&x->test, bf16 > 4 * all && bf16 < 2 * 3.9e-3 && both < 1.2 * bf16, "weights in BF16 drown it");
}

static LaunchTime polynomial_time(Context *x, uint32_t sixteenths)
{
    Status status = {0};
    AttentionRun run;
    const AttentionShape shape = attention_shape(2048, 128);
    const RunSetup setup = {.algorithm = &algorithm_fa4, .profile = &x->b200, .tiles = {256, 128}, .config = {.l2 = L2_IDEAL, .time = true}};
    LaunchTime time = {0};
    const bool ok = attention_run_prepare(&run, &setup, &shape, &x->alloc, &status);
    run.attention.fa4.poly_sixteenths = sixteenths;
    if (ok && attention_run_forward(&run)) time = run.machine.launches[0].time;
    check_text(&x->test, status.text, "", "time with polynomial exponentials");
    attention_run_free(&run);
    return time;
}

/* 256 tiles of 1024 cycles of exponentials, and the rescaling factors, which stay. */
static void check_relief(Context *x)
{
    const LaunchTime none = polynomial_time(x, 0);
    for (uint32_t k = 0; k <= 16; k++) {
        const LaunchTime time = polynomial_time(x, k);
        check_u64(&x->test, none.busy[UNIT_MUFU] - time.busy[UNIT_MUFU], 256 * 64 * k, "MUFU cycles saved: k/16 of 1024 a tile");
        check_u64(&x->test, time.busy[UNIT_ISSUE] - none.busy[UNIT_ISSUE], 256 * 128 * 128 / 32 / 4 * 4 * k / 16,
                  "issue cycles: five and a half instructions for one and a half");
    }
}

/* --------------------------------------------------------------------------------------------------------------------- time */

static LaunchTime time_of(Context *x, const BackwardVariant *variant, uint64_t d, const Profile *chip)
{
    Status status = {0};
    AttentionRun run;
    const AttentionShape shape = attention_shape(2048, d);
    walk(x, &run, &shape, variant, (MachineConfig){.mode = MODE_COUNT, .l2 = L2_IDEAL, .time = true}, chip, &status);
    check_text(&x->test, status.text, "", "time");
    const LaunchTime time = run.machine.launches[variant == NULL ? 0 : 1].time;
    attention_run_free(&run);
    return time;
}

/* 2048 / 128 = 16 tiles a side; a block has 32 of them forward, 16 backward. */
static void check_time(Context *x)
{
    const LaunchTime forward = time_of(x, NULL, 128, &x->b200), one = time_of(x, &one_cta, 128, &x->b200);
    const LaunchTime two = time_of(x, &two_ctas, 128, &x->b200), small = time_of(x, NULL, 64, &x->b200);
    check_u64(&x->test, forward.busy[UNIT_TENSOR], 256 * 1024, "tensor cores, forward");
    check_u64(&x->test, one.busy[UNIT_TENSOR], 256 * 2560, "tensor cores, backward");
    check_u64(&x->test, one.busy[UNIT_SHARED], 256 * 3328, "shared memory, one CTA");
    check_u64(&x->test, two.busy[UNIT_SHARED], 256 * (2688 - 384), "shared memory, two CTAs, without their exchange");
    check_true(&x->test, forward.sm_cycles >= 32 * 1024 && small.sm_cycles >= 32 * 1024, "no faster than MUFU");
    check_true(&x->test, one.sm_cycles >= 16 * 3328 && two.sm_cycles >= 16 * 2560, "no faster than the busiest unit");
    check_true(&x->test, two.sm_cycles < one.sm_cycles, "two CTAs are faster");
    check_text(&x->test, small.bound, "MUFU", "d = 64 waits for exponentials");
    Profile doubled = x->b200;
    doubled.mufu_ops_per_cycle_per_sm *= 2;
    check_true(&x->test, time_of(x, NULL, 64, &doubled).sm_cycles < small.sm_cycles, "twice the MUFU rate");
}

int main(void)
{
    Context x = {0};
    Status status = {0};
    if (profile_load("b200", &x.alloc, &x.b200, &status)) {
        check_accounts(&x);
        check_pairs(&x, 300);
        check_refusals(&x);
        check_too_many_rows(&x);
        check_capacity(&x);
        check_all_numbers(&x);
        for (size_t i = 0; i < sizeof scored / sizeof scored[0]; i++)
            for (size_t rows = 0; rows < 4; rows++) check_scored(&x, &scored[i], (const uint32_t[]){0, 1, 2, UINT32_MAX}[rows]);
        check_thresholds(&x);
        check_shares(&x);
        check_decisions(&x);
        check_polynomial(&x);
        check_relief(&x);
        check_time(&x);
    }
    check_text(&x.test, status.text, "", "profile b200");
    check_u64(&x.test, x.alloc.live_bytes, 0, "memory left at the end");
    return test_end(&x.test, "fa4");
}
