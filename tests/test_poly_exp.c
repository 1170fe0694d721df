/* test_poly_exp.c - the polynomial 2^x: its error against the definition, its ends, and that powers of two are exact. */
#include "test.h"

#include "sim/math_functions.h"
#include "sim/poly_exp.h"

#include <math.h>

static double relative_error(float x)
{
    const double want = exp2_f64((double)x);
    return fabs((double)poly_exp2_f32_inline(x) - want) / want;
}

int main(void)
{
    Test t = {0};
    const struct {
        float x;
        float want;
    } exact[] = {{0.0f, 1.0f}, {-1.0f, 0.5f}, {-126.0f, 0x1p-126f}, {1.0f, 2.0f}, {8.0f, 256.0f}, {127.0f, 0x1p127f},
                 {-INFINITY, 0.0f}, {-1e30f, 0.0f}, {-150.0f, 0.0f}, {-127.0f, 0.0f}, {-128.0f, 0.0f}, {-200.0f, 0.0f}, {-254.0f, 0.0f}};
    for (size_t i = 0; i < sizeof exact / sizeof exact[0]; i++)
        check_close(&t, (double)poly_exp2_f32_inline(exact[i].x), (double)exact[i].want, 0.0, "2^x at an end or a power of two");
    check_true(&t, isnan(poly_exp2_f32_inline(NAN)), "NaN survives");

    double worst = 0.0, worst_f64 = 0.0;
    for (uint32_t i = 0; i <= 2000000; i++) {               /* [-126, 16], both sides of every integer */
        const float x = -126.0f + (float)i * 7.1e-5f;
        worst = fmax(worst, relative_error(x));
        const double wide = (double)x, want = exp2_f64(wide);
        worst_f64 = fmax(worst_f64, fabs(poly_exp2_f64_inline(wide) - want) / want);
    }
    for (int k = -125; k < 16; k++) {
        worst = fmax(worst, relative_error(nextafterf((float)k, -INFINITY)));
        worst = fmax(worst, relative_error(nextafterf((float)k, INFINITY)));
    }
    check_true(&t, worst < 8.6e-5 && worst > 8.5e-5, "float32: the largest relative error is the fit's 8.56e-5");
    check_true(&t, worst_f64 < 8.56e-5 && worst_f64 > 8.55e-5, "float64: 8.559e-5");
    printf("largest relative error: %.4g in float32, %.4g in float64\n", worst, worst_f64);
    return test_end(&t, "poly_exp");
}
