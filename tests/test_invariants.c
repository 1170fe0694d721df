/* test_invariants.c - what must hold of every count, whatever the formulas say.
 *
 *   bytes >= compulsory             Q rows that see a key, K and V rows that are seen, O: each once
 *   window <= causal <= full        counter by counter
 *   ideal L2 <= no L2               and each launch moves no element of a tensor more than once each way
 *   sums                            totals = sum of the ledger; no L2: HBM sees what the SMs ask for
 *   more on-chip memory             never more traffic: where that is true, and where not
 *   larger query blocks             never more K/V reads (FlashAttention-2): likewise
 *
 * Takes 0.3 s at -O3.
 */
/* label: property */
#include "test.h"

#include "support/count_case.h"

#include <stddef.h>

typedef struct {
    Test test;
    Profile unbounded;
    Alloc alloc;
} Context;

static void check_not_more(Context *x, const CountCase *c, const char *what, uint64_t smaller, uint64_t larger)
{
    char text[400], shape[256];
    if (!test_failed(&x->test, smaller <= larger)) return;
    count_case_name(c, shape, sizeof shape);
    snprintf(text, sizeof text, "%s: %s", shape, what);
    printf("FAIL %s: %" PRIu64 " > %" PRIu64 "\n", text, smaller, larger);
}

static void check_equal(Context *x, const CountCase *c, const char *what, uint64_t got, uint64_t want)
{
    char text[400] = "", shape[256];
    if (got != want) {
        count_case_name(c, shape, sizeof shape);
        snprintf(text, sizeof text, "%s: %s", shape, what);
    }
    check_u64(&x->test, got, want, text);
}

/* Counts without data. False, and a failed check, when the walk fails. Free with attention_run_free either way. */
static bool walk(Context *x, AttentionRun *run, const CountCase *c)
{
    Status status = {0};
    char shape[256];
    const bool ok = count_walk(run, c, (MachineConfig){.mode = MODE_COUNT}, &x->unbounded, &x->alloc, &status);
    count_case_name(c, shape, sizeof shape);
    check_text(&x->test, status.text, "", shape);
    run->machine.status = NULL;         /* does not outlive this function */
    return ok;
}

static bool totals_of(Context *x, const CountCase *c, Totals *totals)
{
    AttentionRun run;
    const bool ok = walk(x, &run, c);
    *totals = run.totals;
    attention_run_free(&run);
    return ok;
}

/* --------------------------------------------------------------------------------------------------------- one walk by itself */

static bool is_visible(Band band, uint64_t row, uint64_t key)
{
    const int64_t distance = (int64_t)key - (int64_t)row;
    return distance >= band.low && distance <= band.high;
}

/* Pair by pair. */
static void check_compulsory(Context *x, const CountCase *c, const AttentionRun *run)
{
    const AttentionShape *s = &c->shape;
    const Band band = run->attention.band;
    uint64_t seeing = 0, seen = 0, pairs = 0;
    for (uint64_t r = 0; r < s->seqlen_q; r++) {
        uint64_t keys = 0;
        for (uint64_t k = 0; k < s->seqlen_k; k++) keys += is_visible(band, r, k);
        pairs += keys;
        seeing += keys > 0;
    }
    for (uint64_t k = 0; k < s->seqlen_k; k++) {
        uint64_t r = 0;
        while (r < s->seqlen_q && !is_visible(band, r, k)) r++;
        seen += r < s->seqlen_q;
    }
    const uint64_t heads = s->batch * s->heads, kv_heads = s->batch * s->kv_heads, row = s->head_dim * element_bytes(s->dtype);
    const Totals *totals = &run->totals;
    check_not_more(x, c, "Q, K, V rows that must be read", (heads * seeing + 2 * kv_heads * seen) * row, totals->hbm_read_bytes);
    check_not_more(x, c, "O must be written", heads * s->seqlen_q * row, totals->hbm_write_bytes);
    check_equal(x, c, "exact FLOPs = 4 d visible pairs", totals->matmul_flops_exact_mask, 4 * heads * pairs * s->head_dim);
    check_not_more(x, c, "exact FLOPs", totals->matmul_flops_exact_mask, totals->matmul_flops);
}

static void check_sums(Context *x, const CountCase *c, const AttentionRun *run)
{
    Totals sum = {0};
    for (uint32_t i = 0; i < run->machine.ledger_count; i++) {
        const LedgerRow *row = &run->machine.ledger[i];
        const uint64_t bytes = element_bytes(row->tensor->type);
        sum.hbm_read_elements += row->traffic.hbm_read;
        sum.hbm_write_elements += row->traffic.hbm_write;
        sum.hbm_read_bytes += row->traffic.hbm_read * bytes;
        sum.hbm_write_bytes += row->traffic.hbm_write * bytes;
        sum.l2_to_sm_bytes += row->traffic.l2_to_sm * bytes;
        sum.sm_to_l2_bytes += row->traffic.sm_to_l2 * bytes;
        if (c->l2 != L2_IDEAL) continue;
        check_not_more(x, c, "ideal L2: an element is read once", row->traffic.hbm_read, tensor_elements(row->tensor));
        check_not_more(x, c, "ideal L2: an element is written once", row->traffic.hbm_write, tensor_elements(row->tensor));
    }
    uint32_t rows = 0;
    for (uint32_t i = 0; i < run->machine.launch_count; rows += run->machine.launches[i++].row_count)
        check_equal(x, c, "first ledger row of a launch", run->machine.launches[i].first_row, rows);
    check_equal(x, c, "ledger rows of all launches", rows, run->machine.ledger_count);
    const Totals *totals = &run->totals;
    check_equal(x, c, "hbm_read_elements = sum of the ledger", totals->hbm_read_elements, sum.hbm_read_elements);
    check_equal(x, c, "hbm_write_elements = sum of the ledger", totals->hbm_write_elements, sum.hbm_write_elements);
    check_equal(x, c, "hbm_read_bytes = sum of the ledger", totals->hbm_read_bytes, sum.hbm_read_bytes);
    check_equal(x, c, "hbm_write_bytes = sum of the ledger", totals->hbm_write_bytes, sum.hbm_write_bytes);
    check_equal(x, c, "l2_to_sm_bytes = sum of the ledger", totals->l2_to_sm_bytes, sum.l2_to_sm_bytes);
    check_equal(x, c, "sm_to_l2_bytes = sum of the ledger", totals->sm_to_l2_bytes, sum.sm_to_l2_bytes);
    if (c->l2 == L2_IDEAL) return;
    check_equal(x, c, "no L2: HBM reads = loads of the SMs", totals->hbm_read_bytes, totals->l2_to_sm_bytes);
    check_equal(x, c, "no L2: HBM writes = stores of the SMs", totals->hbm_write_bytes, totals->sm_to_l2_bytes);
}

/* ------------------------------------------------------------------------------------------------------- one walk and another */

/* Counter by counter. */
static void check_totals_not_more(Context *x, const CountCase *c, const Totals *smaller, const Totals *larger, const char *what)
{
    static const size_t counters[] = {
        offsetof(Totals, hbm_read_bytes),     offsetof(Totals, hbm_write_bytes),   offsetof(Totals, l2_to_sm_bytes),
        offsetof(Totals, sm_to_l2_bytes),     offsetof(Totals, smem_operand_bytes), offsetof(Totals, smem_thread_bytes),
        offsetof(Totals, smem_copy_bytes),    offsetof(Totals, matmul_flops),      offsetof(Totals, matmul_flops_exact_mask),
        offsetof(Totals, nonmatmul_ops),      offsetof(Totals, exp_ops)};
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++)
        check_not_more(x, c, what, *(const uint64_t *)(const void *)((const char *)smaller + counters[i]),
                       *(const uint64_t *)(const void *)((const char *)larger + counters[i]));
}

static void check_masks(Context *x, CountCase c, int64_t window)
{
    Totals full, causal, windowed;
    c.shape.mask = MASK_NONE;
    c.shape.window_left = c.shape.window_right = -1;
    const bool ok = totals_of(x, &c, &full);
    c.shape.mask = MASK_CAUSAL;
    const bool ok_causal = totals_of(x, &c, &causal);
    if (ok && ok_causal) check_totals_not_more(x, &c, &causal, &full, "causal against full");
    c.shape.window_left = window;
    if (totals_of(x, &c, &windowed) && ok_causal) check_totals_not_more(x, &c, &windowed, &causal, "window against causal");
}

static void check_l2(Context *x, CountCase c)
{
    Totals none, ideal;
    c.l2 = L2_NONE;
    const bool ok = totals_of(x, &c, &none);
    c.l2 = L2_IDEAL;
    if (totals_of(x, &c, &ideal) && ok) {
        check_totals_not_more(x, &c, &ideal, &none, "ideal L2 against none");
        check_equal(x, &c, "the SMs' loads do not depend on L2", ideal.l2_to_sm_bytes, none.l2_to_sm_bytes);
        check_equal(x, &c, "the SMs' stores do not depend on L2", ideal.sm_to_l2_bytes, none.sm_to_l2_bytes);
    }
}

static void random_shapes(Context *x, int cases)
{
    uint64_t random = 11;
    for (int i = 0; i < cases; i++) {
        AttentionShape shape = attention_shape(1, random_between(&random, 1, 70));
        shape.seqlen_q = random_between(&random, 0, 150);
        shape.seqlen_k = random_between(&random, 0, 2) ? random_between(&random, 0, 150) : shape.seqlen_q;
        shape.batch = random_between(&random, 1, 2);
        shape.kv_heads = random_between(&random, 1, 3);
        shape.heads = shape.kv_heads * random_between(&random, 1, 3);
        shape.mask = (MaskKind)random_between(&random, 0, 2);
        shape.window_left = (int64_t)random_between(&random, 0, 60) - 1;
        shape.window_right = random_between(&random, 0, 1) ? -1 : (int64_t)random_between(&random, 0, 60);
        for (size_t a = 0; a < algorithm_count(); a++) {
            const TileSize tiles = {(uint32_t)random_between(&random, 1, 40), (uint32_t)random_between(&random, 1, 40)};
            const CountCase c = {algorithm_at(a), shape, tiles, random_between(&random, 0, 1) ? L2_IDEAL : L2_NONE};
            AttentionRun run;
            if (walk(x, &run, &c)) {
                check_compulsory(x, &c, &run);
                check_sums(x, &c, &run);
            }
            attention_run_free(&run);
            check_masks(x, c, shape.window_left < 0 ? 0 : shape.window_left);
            check_l2(x, c);
        }
    }
}

/* -------------------------------------------------------------------------------------------------------------- larger blocks */

/* By closed form (proven equal to the walk in test_counts.c). */
static uint64_t formula_bytes(Context *x, const CountCase *c, bool causal)
{
    const AttentionShape *s = &c->shape;
    const int64_t shift = (int64_t)s->seqlen_k - (int64_t)s->seqlen_q;
    const CountedProblem p = {.batch = 1, .heads = 1, .kv_heads = 1, .Nq = s->seqlen_q, .Nk = s->seqlen_k, .d = s->head_dim,
                              .band_low = INT64_MIN, .band_high = causal ? shift : INT64_MAX,
                              .Br = c->tiles.Br, .Bc = c->tiles.Bc, .element_bytes = 2, .statistic_bytes = 4,
                              .ideal_l2 = c->l2 == L2_IDEAL};
    Status status = {0};
    ClosedForm form;
    c->algorithm->closed_form(&p, &form, &status);
    check_text(&x->test, status.text, "", c->algorithm->name);
    return form.hbm_read_bytes + form.hbm_write_bytes;
}

static CountCase case_of(const Algorithm *algorithm, const uint64_t lengths[2], uint64_t d, TileSize tiles, L2Model l2)
{
    CountCase c = {algorithm, attention_shape(lengths[0], d), tiles, l2};
    c.shape.seqlen_k = lengths[1];
    return c;
}

static void sweep_memory(Context *x, const Algorithm *algorithm, const uint64_t lengths[2], uint64_t d, bool causal, L2Model l2)
{
    uint64_t last = UINT64_MAX;
    for (uint64_t M = 4; M <= 200000; M += M < 4000 ? 4 : 64) {
        CountCase c = case_of(algorithm, lengths, d, paper_tiles(M, d), l2);
        const uint64_t bytes = formula_bytes(x, &c, causal);
        c.shape.mask = causal ? MASK_CAUSAL : MASK_NONE;
        check_not_more(x, &c, "bytes after one more step of M against before", bytes, last);
        last = bytes;
    }
}

/* More on-chip memory M, by the paper's block sizes. Without a mask there is never more traffic, at every single step of M,
 * ragged tails and all: neither block size shrinks, each pass moves whole sequences, and the passes (Tc, Tr) only get fewer.
 * With a causal mask on N x N it still holds with keys outside (FlashAttention-1): key block j moves the rows from j Bc on,
 * rounded to Br, and that starting row only grows. It does not hold with queries outside, nor for N_q != N_k: see
 * masked_steps(). */
static void more_memory(Context *x)
{
    static const Algorithm *const algorithms[] = {&algorithm_fa1, &algorithm_fa1_shipped, &algorithm_fa2};
    static const uint64_t lengths[][2] = {{1024, 1024}, {1000, 1000}, {1021, 1021}, {64, 64},
                                          {64, 1000},   {1000, 64},   {257, 511},   {1, 300}};
    static const uint64_t head_dims[] = {1, 16, 64, 96, 128};
    for (size_t a = 0; a < 3; a++)
        for (size_t n = 0; n < sizeof lengths / sizeof lengths[0]; n++)
            for (size_t i = 0; i < sizeof head_dims / sizeof head_dims[0]; i++) {
                sweep_memory(x, algorithms[a], lengths[n], head_dims[i], false, L2_NONE);
                sweep_memory(x, algorithms[a], lengths[n], head_dims[i], false, L2_IDEAL);
                if (lengths[n][0] == lengths[n][1] && algorithms[a] != &algorithm_fa2)
                    sweep_memory(x, algorithms[a], lengths[n], head_dims[i], true, L2_NONE);
            }
}

/* One element of M more, and more traffic: a key block on the diagonal is loaded whole, its hidden keys too, and hidden keys
 * are more when blocks are longer or lie worse. FlashAttention-2, causal, N = 64, d = 16: blocks 16 x 16 move 14,592 bytes, 16
 * x 17 14,976. */
static void masked_steps(Context *x)
{
    static const uint64_t N[2] = {64, 64};
    const CountCase before = case_of(&algorithm_fa2, N, 16, paper_tiles(1024, 16), L2_NONE);
    const CountCase after = case_of(&algorithm_fa2, N, 16, paper_tiles(1025, 16), L2_NONE);
    check_equal(x, &before, "causal, M = 1024: bytes", formula_bytes(x, &before, true), 14592);
    check_equal(x, &after, "causal, M = 1025: bytes", formula_bytes(x, &after, true), 14976);
}

/* What the SMs read of K, in elements (V is the same). */
static uint64_t key_reads(Context *x, const CountCase *c)
{
    AttentionRun run;
    uint64_t reads = 0;
    walk(x, &run, c);
    for (uint32_t i = 0; i < run.machine.ledger_count; i++)
        if (run.machine.ledger[i].tensor == run.attention.K) reads += run.machine.ledger[i].traffic.l2_to_sm;
    attention_run_free(&run);
    return reads;
}

/* FlashAttention-2 reads K and V once per query block. One row more per block never reads more without a mask; under any mask,
 * blocks that are merged never read more than they did apart. */
static void larger_query_blocks(Context *x)
{
    uint64_t random = 12;
    for (int i = 0; i < 60; i++) {
        const uint64_t lengths[2] = {random_between(&random, 1, 120), random_between(&random, 1, 120)};
        const uint32_t Bc = (uint32_t)random_between(&random, 1, 40);
        uint64_t last = UINT64_MAX;
        for (uint32_t Br = 1; Br <= lengths[0] + 1; Br++) {
            CountCase c = case_of(&algorithm_fa2, lengths, 1, (TileSize){Br, Bc}, L2_NONE);
            const uint64_t reads = key_reads(x, &c);
            check_not_more(x, &c, "K reads with one row more per block", reads, last);
            last = reads;
            c.shape.mask = i % 2 ? MASK_CAUSAL : MASK_CAUSAL_TOP_LEFT;
            c.shape.window_left = i % 3 ? -1 : 7;
            const uint64_t apart = key_reads(x, &c);
            c.tiles.Br = Br * (2 + Br % 3);
            check_not_more(x, &c, "K reads of merged blocks", key_reads(x, &c), apart);
        }
    }
}

int main(void)
{
    Context x = {0};
    Status status = {0};
    if (profile_load("unbounded", &x.alloc, &x.unbounded, &status)) {
        random_shapes(&x, 300);
        more_memory(&x);
        masked_steps(&x);
        larger_query_blocks(&x);
    }
    check_text(&x.test, status.text, "", "profile unbounded");
    check_u64(&x.test, x.alloc.live_bytes, 0, "memory left at the end");
    return test_end(&x.test, "invariants");
}
