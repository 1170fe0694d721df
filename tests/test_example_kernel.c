/* test_example_kernel.c - the kernel that README.md builds in "Add a kernel of your own", and what a test of a new kernel
 * looks like.
 *
 * FlashAttention-2 without the running maximum: softmax does not change when the same number is subtracted from all scores
 * of a row, so any base will do as long as no exponential overflows (lecture §5.3, §8.5). With the base 0 the row maximum,
 * alpha and the rescaling of l and O go away. HBM traffic is FlashAttention-2's. Scores above 88.7 overflow float32; scaled
 * scores of normal inputs stay below 10.
 *
 * The lines between the README marks are README.md's, byte for byte (test readme).
 */
/* label: closed-form */
#include "test.h"

#include "algos/oracle.h"
#include "algos/run.h"

static const Algorithm algorithm_zero_base;

/* README: kernel */
/* FlashAttention-2 with the base 0 instead of the running maximum: P = e^S. One thread block per query block. */
static void zero_base_block(Block *b, const void *arguments, uint64_t i)
{
    const Attention *a = arguments;
    const uint32_t Br = a->Br, Bc = a->Bc, d = (uint32_t)a->shape.head_dim, rows = live_rows(a, i);
    const ElementType type = a->shape.dtype, statistic = a->statistic;
    Stream *w = stream(b, "compute", b->kernel->threads / 32);

    Tile *q = shared_tile(b, "Q", type, Br, d);
    Tile *k = shared_tile(b, "K", type, Bc, d), *v = shared_tile(b, "V", type, Bc, d);
    Tile *s = register_tile(b, "S", statistic, Br, Bc), *p = tile_view(s, "P", type, Br, Bc);
    Tile *o = register_tile(b, "O", statistic, Br, d);
    Rows *base = row_vector(b, "base", statistic, Br);
    Rows *l = row_vector(b, "l", statistic, Br), *sum = row_vector(b, "sum", statistic, Br);

    fill(w, o, rows, d, 0.0);
    fill(w, l, rows, 1, 0.0);
    fill(w, base, rows, 1, 0.0);
    const BlockRange keys = visible_key_blocks(a, i);       /* wholly masked blocks are not even read */
    if (keys.first < keys.end) load(w, q, a->Q, i * Br);
    for (uint64_t j = keys.first; j < keys.end; j++) {
        load(w, k, a->K, j * Bc);
        matmul_nt(w, s, q, k);                              /* S = scale Q Kᵀ */
        scale(w, s, a->shape.softmax_scale);
        mask(w, s, i * Br, j * Bc, a->band);
        exp_rows(w, s, s, base);                            /* P = e^(S - 0) */
        row_sum(w, sum, s);                                 /* l += rowsum P */
        rows_add(w, l, sum);
        convert(w, p, s);
        load(w, v, a->V, j * Bc);
        matmul_nn_add(w, o, p, v);                          /* O += P V, never rescaled */
    }
    divide_rows(w, o, l);
    rows_log_sum_exp(w, sum, base, l);                      /* L = 0 + log l */
    store(w, a->O, i * Br, o);
    store(w, a->L, i * Br, sum);
}

static bool zero_base_forward(Machine *machine, Attention *a)
{
    const AttentionShape *s = &a->shape;
    a->L = machine_tensor(machine, "L", a->statistic, s->batch, s->heads, s->seqlen_q, 1);
    const Kernel kernel = attention_kernel(&algorithm_zero_base, "zero_base", a, zero_base_block);
    return launch(machine, &kernel, one_block_per_query_block(a), a);
}

/* FlashAttention-2's counts less what is gone, per score: the comparison of the row maximum; per row of an executed block
 * pair: alpha = e^(m - m_new) (2 operations, one of them an exponential), alpha l + sum (2) become l + sum (1), and O's row
 * of d elements is not rescaled. */
static bool closed_form_zero_base(const CountedProblem *problem, ClosedForm *form, Status *status)
{
    if (!closed_form_fa2(problem, form, status)) return false;
    const uint64_t scores = form->matmul_flops / (4 * problem->d), rows = form->exp_ops - scores;
    form->nonmatmul_ops -= scores + rows * (2 + 1 + problem->d);
    form->exp_ops = scores;
    return true;
}

static TileSize zero_base_tiles(const AttentionShape *shape) { return (TileSize){128, shape->head_dim <= 64 ? 128 : 64}; }

static Geometry zero_base_geometry(const AttentionShape *shape, TileSize tiles)
{
    const uint32_t warps = shape->head_dim <= 128 ? 4 : 8;
    return (Geometry){.threads = 32 * warps, .registers_per_thread = 255, .shape = {(tiles.Br + warps - 1) / warps, 0}};
}

static const Algorithm algorithm_zero_base = {
    .name = "zero-base", .title = "FlashAttention-2 without the running maximum", .source = "README.md",
    .instruction = TENSOR_MMA_SYNC, .tiles = zero_base_tiles, .geometry = zero_base_geometry,
    .forward = zero_base_forward, .closed_form = closed_form_zero_base,
};
/* README: end */

/* N around the block edge of 64, ragged, longer keys than queries and the reverse, masks, grouped heads. */
static const AttentionShape shapes[] = {
    {.batch = 1, .heads = 1, .kv_heads = 1, .seqlen_q = 128, .seqlen_k = 128, .head_dim = 64},
    {.batch = 2, .heads = 4, .kv_heads = 2, .seqlen_q = 65, .seqlen_k = 63, .head_dim = 32},
    {.batch = 1, .heads = 1, .kv_heads = 1, .seqlen_q = 200, .seqlen_k = 130, .head_dim = 16, .mask = MASK_CAUSAL},
    {.batch = 1, .heads = 1, .kv_heads = 1, .seqlen_q = 70, .seqlen_k = 250, .head_dim = 16, .mask = MASK_CAUSAL_TOP_LEFT},
    {.batch = 1, .heads = 2, .kv_heads = 1, .seqlen_q = 190, .seqlen_k = 190, .head_dim = 8,
     .window_left = 40, .window_right = 3},
    {.batch = 1, .heads = 1, .kv_heads = 1, .seqlen_q = 1, .seqlen_k = 1, .head_dim = 1},
    {.batch = 1, .heads = 1, .kv_heads = 1, .seqlen_q = 5, .seqlen_k = 0, .head_dim = 4},
};

static AttentionShape complete(AttentionShape shape, ElementType type)
{
    if (shape.window_left == 0) shape.window_left = shape.window_right = -1;
    shape.softmax_scale = attention_shape(1, shape.head_dim).softmax_scale;
    shape.dtype = type;
    return shape;
}

/* README: test */
/* The walk against the closed form, every count; then the numbers against the float64 oracle. */
static void check_shape(Test *t, const AttentionShape *shape, L2Model l2, const Profile *chip, Alloc *alloc)
{
    const MachineConfig config = {.mode = MODE_NUMERIC, .l2 = l2, .precision = PRECISION_F64, .poison = true};
    const RunSetup setup = {&algorithm_zero_base, chip, {64, 64}, config};
    CountPair pairs[COUNT_PAIRS];
    ForwardError error = {0};
    AttentionRun run;
    Status status = {0};
    if (attention_run_prepare(&run, &setup, shape, alloc, &status)) {
        attention_random_inputs(&run.attention, &run.machine, 1);
        attention_run_forward(&run);
        oracle_compare(&run.attention, &run.machine, &error);
        count_pairs(&run.totals, &run.closed_form, pairs);
        for (size_t i = 0; i < COUNT_PAIRS; i++) check_u64(t, pairs[i].counted, pairs[i].formula, pairs[i].name);
    }
    check_text(t, status.text, "", "status");
    check_true(t, error.max_abs_O < 1e-14 && error.max_abs_L < 1e-14, "O and L are exact");
    attention_run_free(&run);
}
/* README: end */

/* N = 1024, d = 64, the lecture's §3.2: what is left of FlashAttention-2's operations. */
static void check_savings(Test *t, const Profile *chip, Alloc *alloc)
{
    const AttentionShape shape = attention_shape(1024, 64);
    const Algorithm *const algorithms[] = {&algorithm_fa2, &algorithm_zero_base};
    static const uint64_t operations[] = {6389760, 4792320}, exponentials[] = {1056768, 1048576};
    for (int i = 0; i < 2; i++) {
        AttentionRun run;
        Status status = {0};
        attention_count(&run, algorithms[i], &shape, (TileSize){128, 128}, L2_NONE, chip, alloc, &status);
        check_text(t, status.text, "", "status");
        check_u64(t, run.totals.nonmatmul_ops, operations[i], "non-matmul operations");
        check_u64(t, run.totals.exp_ops, exponentials[i], "exponentials");
        check_u64(t, run.totals.hbm_read_elements + run.totals.hbm_write_elements, 1180672, "HBM elements: the same");
        attention_run_free(&run);
    }
}

/* Where the base does matter: every score is 100, and e^100 is no float32. FlashAttention-2 gives the mean of V. */
static void check_overflow(Test *t, const Profile *chip, Alloc *alloc)
{
    const AttentionShape small = {.batch = 1, .heads = 1, .kv_heads = 1, .seqlen_q = 2, .seqlen_k = 3, .head_dim = 1};
    const AttentionShape shape = complete(small, ELEMENT_F32);
    const Algorithm *const algorithms[] = {&algorithm_fa2, &algorithm_zero_base};
    for (int i = 0; i < 2; i++) {
        const RunSetup setup = {algorithms[i], chip, {16, 16}, {.mode = MODE_NUMERIC, .l2 = L2_NONE, .precision = PRECISION_F32}};
        AttentionRun run;
        Status status = {0};
        attention_run_prepare(&run, &setup, &shape, alloc, &status);
        for (uint64_t n = 0; n < 2; n++) tensor_set(&run.machine, run.attention.Q, n, 10.0);
        for (uint64_t n = 0; n < 3; n++) tensor_set(&run.machine, run.attention.K, n, 10.0);
        for (uint64_t n = 0; n < 3; n++) tensor_set(&run.machine, run.attention.V, n, (double)n);
        attention_run_forward(&run);
        check_text(t, status.text, "", "status");
        check_close(t, tensor_value(&run.machine, run.attention.O, 0), i == 0 ? 1.0 : (double)NAN, 1e-6, algorithms[i]->name);
        attention_run_free(&run);
    }
}

int main(void)
{
    Test t = {0};
    Alloc alloc = {0};
    Status status = {0};
    Profile chip;
    profile_load("h100", &alloc, &chip, &status);
    check_text(&t, status.text, "", "h100");
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const AttentionShape shape = complete(shapes[i], ELEMENT_F64);
        check_shape(&t, &shape, L2_NONE, &chip, &alloc);
        check_shape(&t, &shape, L2_IDEAL, &chip, &alloc);
    }
    check_savings(&t, &chip, &alloc);
    check_overflow(&t, &chip, &alloc);
    check_u64(&t, alloc.live_bytes, 0, "bytes still allocated at the end");
    return test_end(&t, "test_example_kernel");
}
