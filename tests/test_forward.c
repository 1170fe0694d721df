/* test_forward.c - forward results of every algorithm against the golden cases (another implementation, float64) and the oracle.
 *
 * Every algorithm x several tile shapes x float64 and float32. Expected agreement: 1e-12 relative in float64 (1e-9 for large
 * logits), 1e-5 in float32. All tiles and outputs start as NaN, so that nothing unwritten can be read.
 */
/* label: golden */
#include "test.h"

#include "support/golden_case.h"

#include "algos/oracle.h"

#include <math.h>

static const char *const cases[] = {"one_by_one", "basic_16x8", "tiny_logits", "large_logits", "scale_unit", "causal_square_33",
                                    "causal_bottomright_5x9", "causal_bottomright_9x5", "causal_topleft_9x5", "window_left7",
                                    "gqa_8q_2kv", "ragged_37x53_d12", "d96", "wide_130", "decode_1q_97k"};

static const TileSize tiles[] = {{1, 1}, {2, 3}, {16, 32}, {64, 64}, {128, 16}, {16, 128}};

static double tolerance_of(const GoldenCase *golden, Precision precision)
{
    if (precision == PRECISION_F32) return strcmp(golden->name, "large_logits") == 0 ? 2e-4 : 1e-5;
    return strcmp(golden->name, "large_logits") == 0 ? 1e-9 : 1e-12;
}

static void compare(Test *t, const AttentionRun *run, const Tensor *tensor, const double *want, double tolerance, const char *what)
{
    for (uint64_t i = 0; i < tensor_elements(tensor); i++) check_close(t, tensor_value(&run->machine, tensor, i), want[i], tolerance, what);
}

static void run_one(Test *t, const GoldenCase *golden, const NumericSetup *setup, const Profile *chip, Alloc *alloc)
{
    Status status = {0};
    AttentionRun run;
    char what[160];
    AttentionShape shape = golden->shape;
    shape.dtype = setup->precision == PRECISION_F64 ? ELEMENT_F64 : ELEMENT_F32;
    snprintf(what, sizeof what, "%s, %s, %s, tiles %ux%u", golden->name, setup->algorithm->name, setup->precision == PRECISION_F64 ? "f64" : "f32",
             setup->tiles.Br, setup->tiles.Bc);
    const double tolerance = tolerance_of(golden, setup->precision);
    numeric_forward(&run, setup, chip, &shape, golden->q, golden->k, golden->v, alloc, &status);
    check_text(t, status.text, "", what);
    if (status_ok(&status)) {
        compare(t, &run, run.attention.O, golden->o, tolerance, what);
        if (run.attention.L != NULL) compare(t, &run, run.attention.L, golden->lse, tolerance, what);
    }
    attention_run_free(&run);
}

/* The oracle itself against the golden cases. */
static void check_oracle(Test *t, const GoldenCase *golden, const Profile *chip, Alloc *alloc)
{
    Status status = {0};
    AttentionRun run;
    AttentionShape shape = golden->shape;
    shape.dtype = ELEMENT_F64;
    const NumericSetup setup = {&algorithm_fa2, {16, 16}, PRECISION_F64, true};
    numeric_forward(&run, &setup, chip, &shape, golden->q, golden->k, golden->v, alloc, &status);
    const uint64_t elements = tensor_elements(run.attention.O), rows = elements / shape.head_dim;
    double *O = alloc_array(alloc, elements, sizeof *O, "O", &status), *L = alloc_array(alloc, rows, sizeof *L, "L", &status);
    check_true(t, oracle_forward(&run.attention, &run.machine, O, L), golden->name);
    for (uint64_t i = 0; i < elements; i++) check_close(t, O[i], golden->o[i], tolerance_of(golden, PRECISION_F64), "oracle O");
    for (uint64_t i = 0; i < rows; i++) check_close(t, L[i], golden->lse[i], tolerance_of(golden, PRECISION_F64), "oracle L");
    alloc_free(alloc, O);
    alloc_free(alloc, L);
    attention_run_free(&run);
}

/* FlashAttention-2 with its key blocks last to first, as shipped: the same result but for rounding, and the same counts. */
static void check_last_keys_first(Test *t, const Profile *chip, Alloc *alloc)
{
    static const struct {
        uint64_t queries, keys;
        MaskKind mask;
        int64_t window_left;
    } shapes[] = {{64, 64, MASK_NONE, -1}, {37, 53, MASK_CAUSAL, -1}, {53, 37, MASK_CAUSAL, -1}, {40, 90, MASK_CAUSAL_TOP_LEFT, -1}, {33, 70, MASK_NONE, 9}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        Status status = {0};
        AttentionRun run;
        ForwardError error;
        CountPair pairs[COUNT_PAIRS];
        AttentionShape shape = attention_shape(shapes[i].queries, 12);
        shape.seqlen_k = shapes[i].keys;
        shape.mask = shapes[i].mask;
        shape.window_left = shapes[i].window_left;
        shape.dtype = ELEMENT_F64;
        const RunSetup setup = {.algorithm = &algorithm_fa2, .profile = chip, .tiles = {16, 8},
                                .config = {.mode = MODE_NUMERIC, .l2 = L2_IDEAL, .precision = PRECISION_F64, .poison = true}};
        if (attention_run_prepare(&run, &setup, &shape, alloc, &status)) {
            attention_random_inputs(&run.attention, &run.machine, 3);
            run.attention.last_keys_first = true;
        }
        const bool ok = attention_run_forward(&run) && oracle_compare(&run.attention, &run.machine, &error);
        check_text(t, status.text, "", "last keys first");
        check_true(t, ok && error.max_abs_O < 1e-12 && error.max_abs_L < 1e-12, "last keys first: O and L as the oracle's");
        count_pairs(&run.totals, &run.closed_form, pairs);
        for (int k = 0; k < COUNT_PAIRS; k++) check_u64(t, pairs[k].counted, pairs[k].formula, "last keys first: counts");
        attention_run_free(&run);
    }
}

int main(void)
{
    Test t = {0};
    Alloc alloc = {0};
    Status loaded = {0};
    Profile chip;
    profile_load("unbounded", &alloc, &chip, &loaded);
    check_text(&t, loaded.text, "", "the unbounded chip");
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        GoldenCase golden;
        Status status = {0};
        char path[512];
        snprintf(path, sizeof path, "%s/golden/%s.txt", TEST_DATA, cases[c]);
        const bool read = golden_read(path, &golden, &alloc, &status);
        check_text(&t, status.text, "", path);
        for (size_t a = 0; read && a < algorithm_count(); a++)
            for (size_t s = 0; s < sizeof tiles / sizeof tiles[0]; s++) {
                run_one(&t, &golden, &(NumericSetup){algorithm_at(a), tiles[s], PRECISION_F64, true}, &chip, &alloc);
                run_one(&t, &golden, &(NumericSetup){algorithm_at(a), tiles[s], PRECISION_F32, true}, &chip, &alloc);
            }
        if (read) check_oracle(&t, &golden, &chip, &alloc);
        golden_free(&golden, &alloc);
    }
    check_last_keys_first(&t, &chip, &alloc);
    check_u64(&t, alloc.live_bytes, 0, "bytes still allocated at the end");
    return test_end(&t, "test_forward");
}
