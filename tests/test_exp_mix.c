/* test_exp_mix.c - the models of mixed exponentials against one H200, and the measured numbers against their files (lecture §5.2).
 *
 *   data       experiments/support/h200_exp.h holds what the files of hw_profiles/measured/ say
 *   two units  the best share is the chip's within 1/16 and the peak within 10 %, for both benchmarks; every mixture within 15 %
 *   machine    hardly slower than the chip, which lacks what the model does not know; 32 warps: the chip's best share within 1/16
 */
/* label: property */
#include "test.h"

#include "experiments/support/exp_mix.h"
#include "experiments/support/h200_exp.h"

#include <math.h>
#include <stdlib.h>

enum { FOUR = 2, ALL = 5 };

static FILE *data_file(Test *t, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/../hw_profiles/measured/%s", TEST_DATA, name);
    FILE *file = fopen(path, "r");
    check_true(t, file != NULL, name);
    return file;
}

static void check_mix_file(Test *t)
{
    FILE *file = data_file(t, "h200_exp_mix.csv");
    char line[200];
    int rows = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        unsigned k;
        double per_clock;
        if (sscanf(line, "%u,16,%lf", &k, &per_clock) != 2 || rows == H200_EXP_MIXES) continue;
        check_u64(t, h200_exp_mix[rows].k, k, line);
        check_close(t, h200_exp_mix[rows++].per_clock, per_clock, 0, line);
    }
    check_u64(t, (uint64_t)rows, H200_EXP_MIXES, "rows of h200_exp_mix.csv");
    if (file != NULL) fclose(file);
}

static void check_warps_file(Test *t)
{
    FILE *file = data_file(t, "h200_exp_warps.csv");
    char line[200];
    int rows = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        unsigned k, warps;
        double per_clock, clocks;
        if (sscanf(line, "%u,%u,%lf,%lf", &k, &warps, &per_clock, &clocks) != 4 || rows == H200_EXP_MIXES * H200_WARP_COUNTS) continue;
        const H200ExpMix *mix = &h200_exp_mix[rows / H200_WARP_COUNTS];
        check_u64(t, mix->k, k, line);
        check_u64(t, h200_warps[rows % H200_WARP_COUNTS], warps, line);
        check_close(t, mix->clocks[rows++ % H200_WARP_COUNTS], clocks, 0, line);
        check_close(t, 16 * 32 * warps / clocks, per_clock, 6e-4, line);
    }
    check_u64(t, (uint64_t)rows, H200_EXP_MIXES * H200_WARP_COUNTS, "rows of h200_exp_warps.csv");
    if (file != NULL) fclose(file);
}

static void check_mufu_file(Test *t)
{
    static const struct {
        const char *name;
        double value;
    } want[] = {{"mufu_ex2_per_sm_per_clk", h200_mufu_per_clock}, {"ffma_per_sm_per_clk", h200_ffma_per_clock}, {"poly3_exp2_per_sm_per_clk", h200_poly_per_clock}, {"mufu_ex2_max_rel_err", h200_mufu_max_relative}, {"mufu_ex2_rms_rel_err", h200_mufu_rms_relative}, {"mufu_ex2_bf16_same_as_exact", h200_mufu_same_bf16}, {"mufu_ex2_bf16_max_ulp", h200_mufu_max_ulp_bf16}};
    FILE *file = data_file(t, "h200_mufu.csv");
    char line[200], name[80];
    double value;
    size_t rows = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "%79[^,],%lf", name, &value) == 2 && rows < 7) {
            check_text(t, name, want[rows].name, "h200_mufu.csv");
            check_close(t, want[rows++].value, value, 0, name);
        }
    check_u64(t, rows, 7, "rows of h200_mufu.csv");
    if (file != NULL) fclose(file);
}

/* 2^x per SM and clock of a benchmark. */
static double chip_rate(int mix, bool counted) { return counted ? 16 * 32 * 32 / h200_exp_mix[mix].clocks[ALL] : h200_exp_mix[mix].per_clock; }

static void check_two_units(Test *t, const ExpMixModel *model, bool counted, double tolerance)
{
    int best = 0;
    double peak = 0;
    for (int i = 0; i < H200_EXP_MIXES; i++) {
        const double ours = 16 / exp_mix_clocks(model, h200_exp_mix[i].k), chip = chip_rate(i, counted);
        check_close(t, ours / chip, 1.0, tolerance, "2^x per clock of a mixture");
        if (chip > chip_rate(best, counted)) best = i;
        peak = fmax(peak, ours);
    }
    check_true(t, abs((int)exp_mix_best(model) - (int)h200_exp_mix[best].k) <= 1, "the best share within 1/16");
    check_close(t, peak / chip_rate(best, counted), 1.0, 0.1, "the peak within 10 %");
}

static void check_machine(Test *t, const Profile *h200, Alloc *alloc, Status *status)
{
    uint64_t best = 0, fewest = UINT64_MAX;
    for (int i = 0; i < H200_EXP_MIXES; i++) {
        const uint32_t k = h200_exp_mix[i].k;
        uint64_t four = 0, all = 0;
        check_true(t, exp_mix_machine(&four, h200, 4, k, alloc, status) && exp_mix_machine(&all, h200, 32, k, alloc, status), status->text);
        check_true(t, (double)four < h200_exp_mix[i].clocks[FOUR] * 1.1 && (double)all < h200_exp_mix[i].clocks[ALL], "hardly slower than the chip");
        if (all < fewest) {
            fewest = all;
            best = k;
        }
    }
    check_true(t, best >= 5 && best <= 7, "the best share of the machine: 6 on the chip");
}

int main(void)
{
    Test t = {0};
    Alloc alloc = {0};
    Status status = {0};
    Profile h200;
    check_mix_file(&t);
    check_warps_file(&t);
    check_mufu_file(&t);
    if (profile_load("h200", &alloc, &h200, &status)) {
        const ExpMixModel fitted = exp_mix_fitted(&h200), counted = exp_mix_counted();
        check_two_units(&t, &fitted, false, 0.06);
        check_two_units(&t, &counted, true, 0.15);
        check_close(&t, fitted.polynomial, 9.3, 0.02, "instructions of a polynomial");
        check_machine(&t, &h200, &alloc, &status);
    }
    check_text(&t, status.text, "", "profile h200");
    check_u64(&t, alloc.live_bytes, 0, "memory left at the end");
    return test_end(&t, "exp_mix");
}
