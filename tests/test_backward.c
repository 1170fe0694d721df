/* test_backward.c - gradients of every backward pass against the golden cases (another implementation's autograd, float64), the row-wise oracle
 * and central differences; dropout; independence of block order.
 *
 * Expected agreement with the golden cases: 1e-12 relative in float64 (1e-9 for large logits), 1e-5 in float32. Tiles and outputs start as NaN.
 */
/* label: golden */
#include "test.h"

#include "support/golden_case.h"

#include "algos/oracle.h"

#include <math.h>

static const char *const cases[] = {"one_by_one", "basic_16x8", "tiny_logits", "large_logits", "scale_unit", "causal_square_33",
                                    "causal_bottomright_5x9", "causal_bottomright_9x5", "causal_topleft_9x5", "window_left7",
                                    "gqa_8q_2kv", "ragged_37x53_d12", "d96", "wide_130", "dropout_p30"};

static const TileSize tiles[] = {{1, 1}, {2, 3}, {16, 32}, {64, 64}, {32, 16}};

static const struct {
    const char *name;
    BackwardVariant variant;
} variants[] = {
    {"as shipped", {0}},
    {"direct dQ", {.direct_dq = true}},
    {"deterministic", {.deterministic = true}},
    {"query blocks outside", {.query_blocks_outside = true}},
};

static double tolerance_of(const GoldenCase *golden, Precision precision)
{
    const bool large = strcmp(golden->name, "large_logits") == 0;
    if (precision == PRECISION_F32) return large ? 1e-3 : 1e-5;
    return large ? 1e-9 : 1e-12;
}

static void compare(Test *t, const AttentionRun *run, const Tensor *tensor, const double *want, double tolerance, const char *what)
{
    for (uint64_t i = 0; i < tensor_elements(tensor); i++) check_close(t, tensor_value(&run->machine, tensor, i), want[i], tolerance, what);
}

static void run_one(Test *t, const GoldenCase *golden, const NumericSetup *setup, size_t v, const Profile *chip, Alloc *alloc)
{
    Status status = {0};
    AttentionRun run = {0};
    char what[200];
    snprintf(what, sizeof what, "%s, %s %s, %s, tiles %ux%u", golden->name, setup->algorithm->name, variants[v].name,
             setup->precision == PRECISION_F64 ? "f64" : "f32", setup->tiles.Br, setup->tiles.Bc);
    const double tolerance = tolerance_of(golden, setup->precision);
    numeric_backward(&run, setup, variants[v].variant, chip, golden, alloc, &status);
    check_text(t, status.text, "", what);
    if (status_ok(&status)) {
        compare(t, &run, run.attention.O, golden->o, tolerance, what);
        compare(t, &run, run.attention.dQ, golden->dq, tolerance, what);
        compare(t, &run, run.attention.dK, golden->dk, tolerance, what);
        compare(t, &run, run.attention.dV, golden->dv, tolerance, what);
        if (setup->precision == PRECISION_F64) {
            BackwardError error;
            check_true(t, oracle_compare_backward(&run.attention, &run.machine, &error), what);
            check_true(t, error.max_abs_dQ + error.max_abs_dK + error.max_abs_dV <= 3 * tolerance * fmax(1.0, error.max_gradient), what);
        }
    }
    attention_run_free(&run);
}

static void run_case(Test *t, const GoldenCase *golden, const Profile *chip, Alloc *alloc)
{
    for (size_t a = 0; a < algorithm_count(); a++) {
        if (algorithm_at(a)->backward == NULL) continue;
        const size_t variant_count = algorithm_at(a) == &algorithm_fa2 ? sizeof variants / sizeof variants[0] : 1;
        for (size_t v = 0; v < variant_count; v++)
            for (size_t s = 0; s < sizeof tiles / sizeof tiles[0]; s++)
                for (int f32 = 0; f32 < 2; f32++) {
                    const NumericSetup setup = {algorithm_at(a), tiles[s], f32 ? PRECISION_F32 : PRECISION_F64, true};
                    run_one(t, golden, &setup, v, chip, alloc);
                }
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
        if (golden_read(path, &golden, &alloc, &status)) run_case(&t, &golden, &chip, &alloc);
        check_text(&t, status.text, "", path);
        golden_free(&golden, &alloc);
    }
    check_u64(&t, alloc.live_bytes, 0, "bytes still allocated at the end");
    return test_end(&t, "test_backward");
}
