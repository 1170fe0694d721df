/* test_mufu_exp2.c - the model of MUFU's 2^x: its error over all 2^23 fractions, whole numbers, ends, and that BF16 does not
 * see it. */
#include "test.h"

#include "sim/formats.h"
#include "sim/math_functions.h"
#include "sim/mufu_exp2.h"

#include <math.h>
#include <stdlib.h>

typedef struct {
    double largest, squares;
    uint64_t count, same_in_bf16, decreases;
} Error;

static void add(Error *e, float x, float before)
{
    const double want = exp2_f64((double)x), off = fabs((double)mufu_exp2(x) - want) / want;
    e->largest = fmax(e->largest, off);
    e->squares += off * off;
    e->count++;
    e->same_in_bf16 += bf16_from_f32(mufu_exp2(x)) == bf16_from_f32((float)want);
    e->decreases += mufu_exp2(x) < before;
}

/* A row of hw_profiles/measured/h200_mufu_exp2.csv; -1 when there is none. */
static double measured(const char *quantity)
{
    FILE *file = fopen(TEST_DATA "/../hw_profiles/measured/h200_mufu_exp2.csv", "r");
    char line[128];
    double value = -1;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, quantity, strlen(quantity)) == 0 && line[strlen(quantity)] == ',') value = strtod(line + strlen(quantity) + 1, NULL);
    if (file != NULL) fclose(file);
    return value;
}

int main(void)
{
    Test t = {0};
    Error unit = {0}, wide = {0};
    float before = 0;
    for (uint32_t i = 0; i < 1u << 23; i++) {
        const float x = (float)i * 0x1p-23f;
        add(&unit, x, before);
        before = mufu_exp2(x);
    }
    for (uint32_t i = 0; i < 1000000; i++) add(&wide, -126.0f + (float)i * 1.4e-4f, 0);
    const double rms = sqrt(unit.squares / (double)unit.count), share = (double)unit.same_in_bf16 / (double)unit.count;
    printf("largest relative error %.4g, root mean square %.3g, the same in BF16 %.5f %%\n", unit.largest, rms, 100 * share);
    check_close(&t, unit.largest, 1.34e-7, 0.01e-7, "largest relative error");
    check_close(&t, rms, 3.15e-8, 0.05e-8, "root mean square");
    check_close(&t, share, 0.9999977, 2e-7, "share that BF16 does not see");
    check_true(&t, unit.largest < measured("max_relative_error") && unit.largest > 0.9 * measured("max_relative_error"), "as far off as the H200 at most");
    check_true(&t, rms < measured("rms_relative_error") && rms > 0.5 * measured("rms_relative_error"), "half as far on average");
    check_true(&t, fabs(share - measured("same_in_bf16")) < 3e-6, "BF16 sees it as rarely");
    check_u64(&t, unit.decreases, 0, "it grows with x");
    check_true(&t, wide.largest < 1.8e-7, "everywhere, the argument being rounded to 2^-23 besides");

    for (int k = -126; k < 128; k++) check_close(&t, (double)mufu_exp2((float)k), ldexp(1.0, k), 0, "whole numbers are exact");
    const struct {
        float x, want;
    } ends[] = {{-INFINITY, 0}, {INFINITY, INFINITY}, {128, INFINITY}, {-126.5f, 0}, {-1e30f, 0}, {1e30f, INFINITY}, {0x1p-30f, 1}, {-0x1p-30f, 1}};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        check_close(&t, (double)mufu_exp2(ends[i].x), (double)ends[i].want, 0, "an end, or next to 0");
    check_true(&t, isnan(mufu_exp2(NAN)), "NaN survives");
    return test_end(&t, "mufu_exp2");
}
