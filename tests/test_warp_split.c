/* test_warp_split.c - split-K and split-Q, each warp written out (algos/warp_split.h).
 *
 *   results     both against the oracle: every mask, grouped heads, ragged lengths, NaN in all that is unwritten; f64 and f32
 *   counts      walk = closed form at odd lengths; exchange under a mask = a sum over executed tiles; the lecture's 540,672, 0 (§3.4)
 *   fa2         split-Q with four warps = fa2.c, counter by counter and bit by bit: its instruction shape says the same
 *   limits      split-K at 128 rows needs more registers than a chip has; splits that do not divide
 */
/* label: closed-form */
#include "test.h"

#include "support/count_case.h"

#include "algos/closed_forms_warps.h"
#include "algos/oracle.h"
#include "algos/run.h"
#include "algos/warp_split.h"

#include <math.h>

typedef struct {
    Test test;
    Profile unbounded, a100;
    Alloc alloc;
} Context;

/* One case, and what ran of it. */
typedef struct {
    AttentionShape shape;
    TileSize tiles;
    WarpSplit split;
    uint32_t warps;
} Case;

typedef struct {
    Machine machine;
    Attention attention;
    Totals totals;
} Ran;

static const char *case_name(const Case *c, char text[200])
{
    const AttentionShape *s = &c->shape;
    snprintf(text, 200, "%s, %u warps, B=%d H=%d/%d Nq=%d Nk=%d d=%d Br=%u Bc=%u mask %d window %d,%d",
             c->split == WARPS_SPLIT_KEYS ? "split-K" : "split-Q", c->warps, (int)s->batch, (int)s->heads, (int)s->kv_heads,
             (int)s->seqlen_q, (int)s->seqlen_k, (int)s->head_dim, c->tiles.Br, c->tiles.Bc, (int)s->mask, (int)s->window_left,
             (int)s->window_right);
    return text;
}

static bool run_case(Context *x, Ran *ran, const Case *c, const Profile *profile, MachineConfig config, Status *status)
{
    *ran = (Ran){0};
    machine_init(&ran->machine, profile, config, &x->alloc, status);
    if (!attention_init(&ran->attention, &ran->machine, &c->shape, c->tiles.Br, c->tiles.Bc)) return false;
    if (config.mode == MODE_NUMERIC) attention_random_inputs(&ran->attention, &ran->machine, 1);
    return warp_split_forward(&ran->machine, &ran->attention, c->split, c->warps) && machine_totals(&ran->machine, &ran->totals);
}

static MachineConfig numeric(const AttentionShape *shape)
{
    return (MachineConfig){
        .mode = MODE_NUMERIC, .precision = shape->dtype == ELEMENT_F64 ? PRECISION_F64 : PRECISION_F32, .poison = true};
}

/* ------------------------------------------------------------------------------------------------------------------ results */

static void check_result(Context *x, const Case *c)
{
    char name[200];
    Status status = {0};
    Ran ran;
    ForwardError error = {0};
    const bool ok =
        run_case(x, &ran, c, &x->unbounded, numeric(&c->shape), &status) && oracle_compare(&ran.attention, &ran.machine, &error);
    check_text(&x->test, status.text, "", case_name(c, name));
    const double tolerance = c->shape.dtype == ELEMENT_F64 ? 1e-14 : 5e-6;
    if (ok) check_close(&x->test, error.max_abs_O, 0, tolerance, case_name(c, name));
    if (ok) check_close(&x->test, error.max_abs_L, 0, tolerance, "L of the same");
    machine_free(&ran.machine);
}

static void results(Context *x)
{
    static const AttentionShape shapes[] = {
        {.batch = 1,
         .heads = 1,
         .kv_heads = 1,
         .seqlen_q = 64,
         .seqlen_k = 64,
         .head_dim = 16,
         .window_left = -1,
         .window_right = -1},
        {.batch = 2,
         .heads = 4,
         .kv_heads = 2,
         .seqlen_q = 37,
         .seqlen_k = 53,
         .head_dim = 12,
         .window_left = -1,
         .window_right = -1},
        {.batch = 1,
         .heads = 2,
         .kv_heads = 1,
         .seqlen_q = 53,
         .seqlen_k = 37,
         .head_dim = 9,
         .mask = MASK_CAUSAL,
         .window_left = -1,
         .window_right = -1},
        {.batch = 1,
         .heads = 1,
         .kv_heads = 1,
         .seqlen_q = 41,
         .seqlen_k = 41,
         .head_dim = 8,
         .mask = MASK_CAUSAL_TOP_LEFT,
         .window_left = 7,
         .window_right = -1},
        {.batch = 1,
         .heads = 1,
         .kv_heads = 1,
         .seqlen_q = 20,
         .seqlen_k = 60,
         .head_dim = 8,
         .window_left = 3,
         .window_right = 2},
        {.batch = 1,
         .heads = 1,
         .kv_heads = 1,
         .seqlen_q = 3,
         .seqlen_k = 1,
         .head_dim = 1,
         .window_left = -1,
         .window_right = -1},
        {.batch = 1,
         .heads = 1,
         .kv_heads = 1,
         .seqlen_q = 5,
         .seqlen_k = 0,
         .head_dim = 2,
         .window_left = -1,
         .window_right = -1},
    };
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (uint32_t warps = 1; warps <= MOST_SPLIT_WARPS; warps++)
            for (int split = 0; split < 2; split++)
                for (int narrow = 0; narrow < 2; narrow++) {
                    Case c = {shapes[s], {4 * warps, 2 * warps}, (WarpSplit)split, warps};
                    c.shape.softmax_scale = 0.5;
                    c.shape.dtype = narrow ? ELEMENT_F32 : ELEMENT_F64;
                    check_result(x, &c);
                    c.tiles = (TileSize){12 * warps, 24 * warps};
                    check_result(x, &c);
                }
}

/* ------------------------------------------------------------------------------------------------------------------- counts */

static uint64_t sync_count(const Ran *ran)
{
    const Counts *counts = &ran->machine.launches[0].counts;
    return counts->elements[OP_ARRIVE] + counts->elements[OP_SYNC];
}

static CountedProblem counted(const Case *c)
{
    const AttentionShape *s = &c->shape;
    return (CountedProblem){.batch = s->batch,
                            .heads = s->heads,
                            .kv_heads = s->kv_heads,
                            .Nq = s->seqlen_q,
                            .Nk = s->seqlen_k,
                            .d = s->head_dim,
                            .Br = c->tiles.Br,
                            .Bc = c->tiles.Bc,
                            .element_bytes = element_bytes(s->dtype),
                            .statistic_bytes = s->dtype == ELEMENT_F64 ? 8 : 4};
}

static void check_counts(Context *x, const Case *c)
{
    char name[200];
    Status status = {0};
    Ran ran;
    WarpSplitForm form;
    const CountedProblem problem = counted(c);
    const bool ok =
        run_case(x, &ran, c, &x->unbounded, (MachineConfig){.mode = MODE_COUNT}, &status) &&
        (c->split == WARPS_SPLIT_KEYS ? closed_form_split_keys : closed_form_split_queries)(&problem, c->warps, &form, &status);
    check_text(&x->test, status.text, "", case_name(c, name));
    if (ok) {
        const AttentionShape *s = &c->shape;
        check_u64(&x->test, ran.totals.smem_thread_bytes, form.exchange_bytes, case_name(c, name));
        check_u64(&x->test, ran.totals.smem_operand_bytes, form.operand_bytes, "operands of the same");
        check_u64(&x->test, sync_count(&ran), form.barriers * (c->warps + 1), "arrivals and waits of the same");
        check_u64(&x->test, ran.totals.nonmatmul_ops, form.nonmatmul_ops, "nonmatmul_ops of the same");
        check_u64(&x->test, ran.totals.register_peak_bytes, s->seqlen_q > 0 ? form.register_bytes : 0, "registers of the same");
        check_u64(&x->test, ran.totals.matmul_flops, 4 * s->batch * s->heads * s->seqlen_q * s->seqlen_k * s->head_dim,
                  "matmul_flops of the same");
    }
    machine_free(&ran.machine);
}

static void counts(Context *x)
{
    static const ElementType types[] = {ELEMENT_BF16, ELEMENT_F32, ELEMENT_F64};
    uint64_t random = 1;
    for (int i = 0; i < 400; i++) {
        Case c = {.split = (WarpSplit)(i % 2), .warps = (uint32_t)random_between(&random, 1, MOST_SPLIT_WARPS)};
        c.shape = attention_shape(random_between(&random, 0, 200), random_between(&random, 1, 130));
        c.shape.seqlen_k = random_between(&random, 0, 200);
        c.shape.batch = random_between(&random, 1, 2);
        c.shape.kv_heads = random_between(&random, 1, 2);
        c.shape.heads = c.shape.kv_heads * random_between(&random, 1, 3);
        c.shape.dtype = types[random_between(&random, 0, 2)];
        c.tiles =
            (TileSize){c.warps * (uint32_t)random_between(&random, 1, 20), c.warps * (uint32_t)random_between(&random, 1, 20)};
        check_counts(x, &c);
    }
}

/* Under a mask: every warp that has keys in an executed tile exchanges, tile by tile. */
static void masked_exchange(Context *x)
{
    for (uint64_t N = 1; N < 60; N += 7) {
        Case c = {.shape = attention_shape(N, 5), .tiles = {8, 12}, .split = WARPS_SPLIT_KEYS, .warps = 4};
        c.shape.mask = MASK_CAUSAL;
        Status status = {0};
        Ran ran;
        uint64_t bytes = 0;
        if (run_case(x, &ran, &c, &x->unbounded, (MachineConfig){.mode = MODE_COUNT}, &status))
            for (uint64_t row = 0; row < N; row++)
                for (uint64_t key = 0; key < N;
                     key += 3) /* a warp's keys begin here; its tile is executed if the block's last row sees it */
                    if (key / 12 * 12 <= min_u64(row / 8 * 8 + 7, N - 1)) bytes += 2 * (5 + 2) * 4;
        check_text(&x->test, status.text, "", "causal split-K");
        check_u64(&x->test, ran.totals.smem_thread_bytes, bytes,
                  "causal split-K: exchange = 2 (d + 2) 4 bytes for each row and part");
        machine_free(&ran.machine);
    }
}

static void lecture_numbers(Context *x)
{
    for (int split = 0; split < 2; split++) {
        const Case c = {attention_shape(256, 64), {128, 128}, (WarpSplit)split, 4};
        const bool keys = split == WARPS_SPLIT_KEYS;
        Status status = {0};
        Ran ran;
        run_case(x, &ran, &c, &x->unbounded, (MachineConfig){.mode = MODE_COUNT}, &status);
        check_text(&x->test, status.text, "", "the lecture's shape");
        check_u64(&x->test, ran.totals.smem_thread_bytes / 2, keys ? 540672 : 0, "exchange of one query block (lecture 3.4)");
        check_u64(&x->test, ran.totals.smem_operand_bytes / 2, keys ? 2 * 98304 : 2 * 147456, "operand bytes of one query block");
        machine_free(&ran.machine);
    }
}

/* ---------------------------------------------------------------------------------------------------------------------- fa2 */

#define SAME(x, field) check_u64(&(x)->test, ran.totals.field, fa2.totals.field, "split-Q against fa2: " #field)

static void same_as_fa2(Context *x)
{
    Case c = {attention_shape(200, 64), {128, 128}, WARPS_SPLIT_QUERIES, 4};
    c.shape.mask = MASK_CAUSAL;
    c.shape.dtype = ELEMENT_F32;
    Status status = {0};
    Ran ran;
    AttentionRun fa2;
    const RunSetup setup = {.algorithm = &algorithm_fa2, .profile = &x->unbounded, .tiles = c.tiles, .config = numeric(&c.shape)};
    bool ok = run_case(x, &ran, &c, &x->unbounded, numeric(&c.shape), &status);
    ok = attention_run_prepare(&fa2, &setup, &c.shape, &x->alloc, &status) && ok;
    if (ok) attention_random_inputs(&fa2.attention, &fa2.machine, 1);
    ok = ok && attention_run_forward(&fa2);
    check_text(&x->test, status.text, "", "split-Q and fa2");
    if (ok) {
        SAME(x, hbm_read_bytes);
        SAME(x, hbm_write_bytes);
        SAME(x, smem_thread_bytes);
        SAME(x, smem_operand_bytes);
        SAME(x, smem_copy_bytes);
        SAME(x, matmul_flops);
        SAME(x, matmul_flops_exact_mask);
        SAME(x, nonmatmul_ops);
        SAME(x, exp_ops);
        SAME(x, sram_peak_bytes);
        SAME(x, register_peak_bytes);
        for (uint64_t i = 0; i < tensor_elements(ran.attention.O); i++)
            check_true(&x->test, tensor_value(&ran.machine, ran.attention.O, i) == tensor_value(&fa2.machine, fa2.attention.O, i),
                       "split-Q and fa2: the same bits");
    }
    machine_free(&ran.machine);
    attention_run_free(&fa2);
}

/* ------------------------------------------------------------------------------------------------------------------- limits */

static void limits(Context *x)
{
    static const struct {
        TileSize tiles;
        WarpSplit split;
        uint32_t warps;
        const char *error; /* beginning */
    } rows[] = {
        {{128, 128}, WARPS_SPLIT_KEYS, 4, "split_k: tile o_w does not fit in registers of a100: needs 32768 bytes"},
        {{128, 128}, WARPS_SPLIT_QUERIES, 4, ""},
        {{16, 256}, WARPS_SPLIT_KEYS, 4, ""},
        {{128, 126}, WARPS_SPLIT_KEYS, 4, "4 warps cannot split 126 keys evenly"},
        {{126, 128}, WARPS_SPLIT_QUERIES, 4, "4 warps cannot split 126 query rows evenly"},
        {{128, 128}, WARPS_SPLIT_QUERIES, 0, "0 warps cannot split a tile here; allowed: 1 to 4"},
        {{120, 120}, WARPS_SPLIT_KEYS, 5, "5 warps cannot split a tile here; allowed: 1 to 4"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const Case c = {attention_shape(256, 64), rows[i].tiles, rows[i].split, rows[i].warps};
        Status status = {0};
        Ran ran;
        run_case(x, &ran, &c, &x->a100, (MachineConfig){.mode = MODE_COUNT}, &status);
        status.text[strlen(rows[i].error)] = '\0';
        check_text(&x->test, status.text, rows[i].error, "a split that cannot be");
        check_true(&x->test, status_ok(&status) == (rows[i].error[0] == '\0'), "refused, or not");
        machine_free(&ran.machine);
    }
}

int main(void)
{
    Context x = {0};
    Status status = {0};
    profile_load("unbounded", &x.alloc, &x.unbounded, &status);
    profile_load("a100", &x.alloc, &x.a100, &status);
    check_text(&x.test, status.text, "", "profiles");
    results(&x);
    counts(&x);
    masked_exchange(&x);
    lecture_numbers(&x);
    same_as_fa2(&x);
    limits(&x);
    check_u64(&x.test, x.alloc.live_bytes, 0, "bytes still allocated at the end");
    return test_end(&x.test, "test_warp_split");
}
