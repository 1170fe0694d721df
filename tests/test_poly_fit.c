/* test_poly_fit.c - the fits of 2^f: minimax errors equioscillate, Chebyshev interpolates, Taylor has its remainder; float32 evaluation.
 *
 *   minimax     n + 1 extremes of alternating sign and equal size, no point of a grid worse; p(0) = 1; errors and coefficients as published;
 *               moving any coefficient makes the error larger; degree 3 rounded to float32 is sim/poly_exp.h
 *   evaluation  -infinity, far below zero, NaN, powers of two, both sides of every integer; never decreasing; the fused multiply-add
 *   accuracy    the figures of lecture §5.2 on 2^20 points
 */
/* label: property */
#include "test.h"

#include "sim/math_functions.h"
#include "sim/normal.h"
#include "sim/poly_exp.h"
#include "sim/poly_fit.h"

#include <math.h>

static const char *const kind_names[] = {"minimax, relative", "minimax, absolute", "Chebyshev points", "Chebyshev series", "Taylor"};

static PolyFit fitted(Test *t, PolyFitKind kind, uint32_t degree)
{
    Status status = {0};
    PolyFit fit;
    check_true(t, poly_fit(&fit, kind, degree, &status), status.text);
    return fit;
}

static double weighted_error(const PolyFit *fit, double f)
{
    const double exact = exp2_f64(f), error = poly_fit_value(fit, f) - exact;
    return fit->kind == FIT_MINIMAX_ABSOLUTE ? error : error / exact;
}

static double largest_error(const PolyFit *fit)
{
    double worst = 0.0;
    for (int i = 0; i <= 20000; i++) worst = fmax(worst, fabs(weighted_error(fit, i / 20000.0)));
    return worst;
}

/* Rounding errors of float64 (2^-52) are 5e-6 of the error of degree 7. */
static double slack(uint32_t degree) { return degree <= 5 ? 1e-8 : degree == 6 ? 1e-6 : 2e-5; }

static void check_equioscillation(Test *t, const PolyFit *fit)
{
    const double level = fabs(fit->extreme[fit->degree]), tolerance = slack(fit->degree) * level;
    char what[96];
    snprintf(what, sizeof what, "%s, degree %u", kind_names[fit->kind], fit->degree);
    for (uint32_t i = 0; i <= fit->degree; i++) {
        check_true(t, fabs(fabs(fit->extreme[i]) - level) <= tolerance, what);
        check_true(t, fabs(weighted_error(fit, fit->at[i]) - fit->extreme[i]) <= tolerance, what);
        if (i > 0) check_true(t, fit->at[i] > fit->at[i - 1] && fit->extreme[i] * fit->extreme[i - 1] < 0, what);
    }
    check_close(t, fit->at[fit->degree], 1.0, 0, what);
    check_close(t, fit->c[0], 1.0, 0, what);
    check_true(t, largest_error(fit) <= level + tolerance, what);
    /* No neighbour is better: by the theorem none is, so a moved coefficient raises the largest error. */
    for (uint32_t k = 1; k <= fit->degree; k++)
        for (int sign = -1; sign <= 1; sign += 2) {
            PolyFit moved = *fit;
            moved.c[k] += sign * level / 4;
            check_true(t, largest_error(&moved) > level + tolerance, what);
        }
}

static void check_published(Test *t)
{
    static const double errors[] = {3.822e-2, 2.053e-3, 8.559e-5, 2.896e-6, 8.227e-8, 2.012e-9, 4.319e-11};
    static const double cubic[] = {1, 0.6951168, 0.2276450, 0.07706704}, quintic[] = {1, 0.6931513, 0.2401645, 0.05579991, 0.009017030, 0.001867130};
    for (uint32_t n = 1; n <= 7; n++) {
        const PolyFit fit = fitted(t, FIT_MINIMAX_RELATIVE, n);
        check_close(t, fit.error / errors[n - 1], 1.0, 3e-4, "the error of a degree");
        check_equioscillation(t, &fit);
        const PolyFit absolute = fitted(t, FIT_MINIMAX_ABSOLUTE, n);
        check_equioscillation(t, &absolute);
        check_true(t, absolute.error > fit.error, "relative is best in its own measure");
    }
    const PolyFit three = fitted(t, FIT_MINIMAX_RELATIVE, 3), five = fitted(t, FIT_MINIMAX_RELATIVE, 5);
    for (int i = 0; i < 4; i++) check_close(t, three.c[i], cubic[i], 1e-7, "degree 3");
    for (int i = 0; i < 6; i++) check_close(t, five.c[i], quintic[i], 1e-7, "degree 5");
    const float used[] = {1.0f, POLY_EXP_C1, POLY_EXP_C2, POLY_EXP_C3};
    for (int i = 0; i < 4; i++) check_u64(t, bits_from_f32(used[i]), bits_from_f32(three.c_f32[i]), "sim/poly_exp.h has the bits of the fit");
    check_close(t, fitted(t, FIT_CHEBYSHEV_POINTS, 3).error, 9.97e-5, 1e-7, "Chebyshev points, degree 3");
    check_true(t, fabs(fitted(t, FIT_CHEBYSHEV_POINTS, 3).c[0] - 1.0) > 9e-5, "... with p(0) that is not 1");
    check_close(t, fitted(t, FIT_TAYLOR, 3).error, 1 - (1 + 0.69314718056 + 0.24022650696 + 0.05550410866) / 2, 1e-9, "Taylor, degree 3, at 1");
}

/* An interpolation meets 2^f at its points; the series' coefficients are the limits. */
static void check_chebyshev(Test *t)
{
    for (uint32_t n = 1; n <= 7; n++) {
        const PolyFit fit = fitted(t, FIT_CHEBYSHEV_POINTS, n), series = fitted(t, FIT_CHEBYSHEV_SERIES, n);
        for (uint32_t j = 0; j <= n; j++) {
            const double f = 0.5 + 0.5 * cos(acos(-1.0) * (j + 0.5) / (n + 1.0));
            check_close(t, poly_fit_value(&fit, f), exp2_f64(f), 1e-14, "interpolated");
        }
        check_true(t, series.error < 1.1 * fit.error && series.error > fitted(t, FIT_MINIMAX_RELATIVE, n).error, "the series is as good within 10 %");
    }
}

static void check_refused(Test *t)
{
    const uint32_t degrees[] = {0, 8, 100};
    for (size_t i = 0; i < 3; i++) {
        Status status = {0};
        PolyFit fit;
        check_true(t, !poly_fit(&fit, FIT_TAYLOR, degrees[i], &status) && status.code == STATUS_USAGE, "no such degree");
    }
}

/* ------------------------------------------------------------------------------------------------------------- evaluation */

static void check_ends(Test *t, const PolyFit *fit)
{
    const struct {
        float x, want;
    } exact[] = {{0.0f, 1.0f}, {-0.0f, 1.0f}, {-1.0f, 0.5f}, {-126.0f, 0x1p-126f}, {1.0f, 2.0f}, {127.0f, 0x1p127f}, {-INFINITY, 0.0f},
                 {-1e30f, 0.0f}, {-150.0f, 0.0f}, {-127.0f, 0.0f}, {-128.0f, 0.0f}, {-200.0f, 0.0f}, {-254.0f, 0.0f}};
    for (size_t i = 0; i < sizeof exact / sizeof exact[0]; i++)
        check_close(t, (double)poly_fit_exp2_f32(fit, exact[i].x), (double)exact[i].want, 0.0, "an end or a power of two");
    for (uint32_t payload = 1; payload < 1u << 23; payload += 4097)         /* whatever its bits are: they meet integer additions */
        check_true(t, isnan(poly_fit_exp2_f32(fit, f32_from_bits(0x7f800000u + payload))) && isnan(poly_exp2_f32_inline(f32_from_bits(0xff800000u + payload))),
                   "NaN survives");
    check_true(t, poly_fit_exp2_f32(fit, -126.5f) > 0 && poly_fit_exp2_f32(fit, -126.5f) < 0x1p-126f, "between -127 and -126: of the right size");
    const double allowed = fit->error + 2.1e-7;             /* coefficients, Horner's roundings and f's */
    for (int k = -126; k <= 126; k++) {
        const float x = (float)k, sides[] = {nextafterf(x, -INFINITY), x, nextafterf(x, INFINITY), x + 0.3f};
        for (int i = k == -126 ? 1 : 0; i < 4; i++) {
            const double want = exp2_f64((double)sides[i]);
            check_true(t, fabs((double)poly_fit_exp2_f32(fit, sides[i]) - want) <= allowed * want, "both sides of an integer");
        }
        check_true(t, poly_fit_exp2_f32(fit, sides[0]) <= poly_fit_exp2_f32(fit, x), "not above the power of two below it");
        check_true(t, poly_fit_exp2_f32(fit, x) <= poly_fit_exp2_f32(fit, sides[2]), "not below it above it");
    }
}

/* All floats f = k 2^-23: p never decreases. Smaller arguments only repeat these f. */
static void check_monotone(Test *t, const PolyFit *fit)
{
    enum { COUNT = 1 << 12 };
    float x[COUNT], y[COUNT], last = 0.0f, fall = 0.0f;
    for (uint32_t first = 0; first < UINT32_C(1) << 23; first += COUNT) {
        for (uint32_t i = 0; i < COUNT; i++) x[i] = (float)(first + i) * 0x1p-23f;
        exp2_by_fit(fit, x, y, COUNT);
        for (uint32_t i = 0; i < COUNT; i++) {
            if (last - y[i] > fall) fall = last - y[i];
            last = y[i];
        }
    }
    check_true(t, fall == 0.0f, "2^f never falls");
    check_true(t, last <= 2.0f, "and stays below 2");
}

static void check_fused(Test *t)
{
    /* 0x1.000002p-12 x 0x1.fffffcp-13 + 0x1.000002p0 lies just below the middle of two floats; its float64 sum is that middle. */
    const float special[] = {0x1.000002p-12f, 0x1.fffffcp-13f, -0x1.000002p-12f, 0.0f, 1.0f, 0x1.fffffep-1f, 0x1.000002p+0f, 0x1p-24f, 0x1p-60f, -0x1.555556p-2f, 3.0f, 0x1.fffffep+20f};
    enum { SPECIAL = sizeof special / sizeof special[0] };
    for (int i = 0; i < SPECIAL * SPECIAL * SPECIAL; i++) {
        const float a = special[i % SPECIAL], b = special[i / SPECIAL % SPECIAL], c = special[i / SPECIAL / SPECIAL];
        check_close(t, (double)fused_multiply_add_f32(a, b, c), (double)fmaf(a, b, c), 0, "fused, special values");
    }
    float random[3000];
    normal_fill_f32(random, 3000, 5, 0, 0);
    for (int i = 0; i + 2 < 3000; i++)
        check_close(t, (double)fused_multiply_add_f32(random[i], random[i + 1], random[i + 2]), (double)fmaf(random[i], random[i + 1], random[i + 2]), 0, "fused");
}

/* ---------------------------------------------------------------------------------------------------------------- accuracy */

static void check_accuracy(Test *t)
{
    static const struct {
        double f32, bf16, same;
        uint32_t ulp;
    } want[] = {{3.822e-2, 4.127e-2, 0.0459, 10}, {2.053e-3, 5.550e-3, 0.7607, 1}, {8.565e-5, 3.9015e-3, 0.9900, 1}, {2.955e-6, 3.891e-3, 0.99966, 1}, {1.425e-7, 3.891e-3, 0.99999, 1}};
    for (uint32_t n = 1; n <= 5; n++) {
        const PolyFit fit = fitted(t, FIT_MINIMAX_RELATIVE, n);
        const Exp2Accuracy a = exp2_accuracy(exp2_by_fit, &fit, 1 << 20);
        check_close(t, a.max_relative / want[n - 1].f32, 1.0, 5e-4, "largest error in float32");
        check_close(t, a.max_relative_bf16 / want[n - 1].bf16, 1.0, 5e-4, "after rounding to BF16");
        check_close(t, a.same_bf16, want[n - 1].same, 5e-5, "the same BF16 number");
        check_u64(t, a.max_ulp_bf16, want[n - 1].ulp, "units of the last place");
    }
    const Exp2Accuracy ideal = exp2_accuracy(exp2_ideal, NULL, 1 << 20), function = exp2_accuracy(exp2_by_function, NULL, 1 << 20);
    check_close(t, ideal.same_bf16, 1.0, 0, "one rounding");
    check_close(t, ideal.max_relative_bf16 * 257, 1.0, 5e-5, "BF16's largest error is 2^-8 / (1 + 2^-8)");
    check_true(t, function.max_relative < 1e-7 && function.same_bf16 > 0.99999, "exp2_f32");
}

int main(void)
{
    Test t = {0};
    check_published(&t);
    check_chebyshev(&t);
    check_refused(&t);
    for (uint32_t n = 1; n <= 7; n++) {
        const PolyFit fit = fitted(&t, FIT_MINIMAX_RELATIVE, n);
        check_ends(&t, &fit);
        if (n == 3 || n == 5) check_monotone(&t, &fit);
    }
    check_fused(&t);
    check_accuracy(&t);
    return test_end(&t, "poly_fit");
}
