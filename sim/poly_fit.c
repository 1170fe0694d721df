/* poly_fit.c - see poly_fit.h. */
#include "poly_fit.h"

#include "formats.h"
#include "math_functions.h"
#include "math_inline.h"
#include "poly_exp.h"

#include <math.h>

#define LN_2 0x1.62e42fefa39efp-1
#define PI   0x1.921fb54442d18p+1

enum { INTERVALS = 4096, ROUNDS = 60, UNKNOWNS = POLY_FIT_DEGREE + 1 };

double poly_fit_value(const PolyFit *fit, double f)
{
    double p = fit->c[fit->degree];
    for (uint32_t i = fit->degree; i-- > 0;) p = p * f + fit->c[i];
    return p;
}

static double relative_error(const PolyFit *fit, double f)
{
    const double exact = exp2_f64(f);
    return (poly_fit_value(fit, f) - exact) / exact;
}

/* The error that the fit is to make small. */
static double error_at(const PolyFit *fit, double f)
{
    return fit->kind == FIT_MINIMAX_ABSOLUTE ? poly_fit_value(fit, f) - exp2_f64(f) : relative_error(fit, f);
}

/* ------------------------------------------------------------------------------------------------------------------ Remez */

/* Gauss with row exchange: m rows of m unknowns and a right side. */
static bool solve(double a[UNKNOWNS][UNKNOWNS + 1], uint32_t m, double *x)
{
    for (uint32_t col = 0; col < m; col++) {
        uint32_t pivot = col;
        for (uint32_t r = col + 1; r < m; r++)
            if (fabs(a[r][col]) > fabs(a[pivot][col])) pivot = r;
        if (a[pivot][col] == 0.0) return false;
        for (uint32_t k = 0; k <= m; k++) {
            const double swap = a[col][k];
            a[col][k] = a[pivot][k];
            a[pivot][k] = swap;
        }
        for (uint32_t r = col + 1; r < m; r++) {
            const double factor = a[r][col] / a[col][col];
            for (uint32_t k = col; k <= m; k++) a[r][k] -= factor * a[col][k];
        }
    }
    for (uint32_t r = m; r-- > 0;) {
        x[r] = a[r][m];
        for (uint32_t k = r + 1; k < m; k++) x[r] -= a[r][k] * x[k];
        x[r] /= a[r][r];
    }
    return true;
}

/* c1..cn and E with error (-1)^i E at the n + 1 points. */
static bool level(PolyFit *fit)
{
    const uint32_t n = fit->degree, m = n + 1;
    double a[UNKNOWNS][UNKNOWNS + 1], x[UNKNOWNS];
    for (uint32_t i = 0; i < m; i++) {
        const double f = fit->at[i], exact = exp2_f64(f), weight = fit->kind == FIT_MINIMAX_ABSOLUTE ? 1.0 : 1.0 / exact;
        double power = weight;
        for (uint32_t k = 0; k < n; k++) a[i][k] = power *= f;
        a[i][n] = i % 2 == 0 ? -1.0 : 1.0;
        a[i][m] = (exact - 1.0) * weight;
    }
    if (!solve(a, m, x)) return false;
    fit->c[0] = 1.0;
    for (uint32_t k = 0; k < n; k++) fit->c[k + 1] = x[k];
    return true;
}

/* The extreme of a parabola through three points beside f, where that is larger than the error at f. */
static void refine(const PolyFit *fit, double *f, double *extreme)
{
    const double h = 1.0 / INTERVALS, left = error_at(fit, *f - h), right = error_at(fit, *f + h);
    const double curvature = left - 2.0 * *extreme + right;
    if (*f + h > 1.0 || curvature == 0.0) return;
    const double there = *f + 0.5 * h * (left - right) / curvature, value = error_at(fit, there);
    if (fabs(value) <= fabs(*extreme)) return;
    *f = there;
    *extreme = value;
}

/* The largest error of each stretch of one sign; false unless there are degree + 1 stretches. */
static bool find_extremes(PolyFit *fit)
{
    uint32_t found = 0;
    for (int i = 1; i <= INTERVALS; i++) {
        const double f = (double)i / INTERVALS, error = error_at(fit, f);
        if (found == 0 || (error > 0.0) != (fit->extreme[found - 1] > 0.0)) {
            if (found > fit->degree) return false;
            fit->extreme[found++] = 0.0;
        }
        if (fabs(error) > fabs(fit->extreme[found - 1])) {
            fit->at[found - 1] = f;
            fit->extreme[found - 1] = error;
        }
    }
    for (uint32_t i = 0; i < found; i++) refine(fit, &fit->at[i], &fit->extreme[i]);
    return found == fit->degree + 1;
}

static bool settled(const PolyFit *fit)
{
    double least = fabs(fit->extreme[0]), most = least;
    for (uint32_t i = 1; i <= fit->degree; i++) {
        least = fmin(least, fabs(fit->extreme[i]));
        most = fmax(most, fabs(fit->extreme[i]));
    }
    return most - least <= 1e-12 * most + 1e-17;
}

static bool minimax(PolyFit *fit)
{
    for (uint32_t i = 0; i <= fit->degree; i++) fit->at[i] = (i + 1.0) / (fit->degree + 1.0);
    for (int round = 0; round < ROUNDS; round++) {
        if (!level(fit) || !find_extremes(fit)) return false;
        if (settled(fit)) return true;
    }
    return fabs(fabs(fit->extreme[0]) - fabs(fit->extreme[1])) < 1e-5 * fabs(fit->extreme[0]);   /* rounding errors are all that moves */
}

/* -------------------------------------------------------------------------------------------------- Chebyshev and Taylor */

/* For |x| <= pi. */
static double cosine(double x)
{
    double sum = 1.0, term = 1.0;
    for (int i = 2; i <= 40; i += 2) {
        term *= -x * x / ((double)i * (i - 1));
        sum += term;
    }
    return sum;
}

/* Adds a T_k(2 f - 1) to the coefficients of f: T_i+1 = 2 (2 f - 1) T_i - T_i-1. */
static void add_chebyshev(PolyFit *fit, uint32_t k, double a)
{
    double before[UNKNOWNS] = {-1.0, 2.0}, now[UNKNOWNS] = {1.0};       /* T_-1 = T_1, T_0 */
    for (uint32_t step = 0; step < k; step++)
        for (uint32_t i = UNKNOWNS; i-- > 0;) {
            const double next = 4.0 * (i > 0 ? now[i - 1] : 0.0) - 2.0 * now[i] - before[i];
            before[i] = now[i];
            now[i] = next;
        }
    for (uint32_t i = 0; i < UNKNOWNS; i++) fit->c[i] += a * now[i];
}

/* Coefficients of T_k by the Chebyshev points: with as many as coefficients, the interpolation; with many, the series. */
static void chebyshev(PolyFit *fit, uint32_t points)
{
    for (uint32_t k = 0; k <= fit->degree; k++) {
        double sum = 0.0;
        for (uint32_t j = 0; j < points; j++) {
            const double angle = PI * (j + 0.5) / points;
            double previous = 1.0, term = cosine(angle);               /* cos k angle by its recurrence */
            const double first = term;
            for (uint32_t i = 1; i < k; i++) {
                const double next = 2.0 * first * term - previous;
                previous = term;
                term = next;
            }
            sum += (k == 0 ? 1.0 : term) * exp2_f64(0.5 * (first + 1.0));
        }
        add_chebyshev(fit, k, sum * (k == 0 ? 1.0 : 2.0) / points);
    }
}

static void taylor(PolyFit *fit)
{
    fit->c[0] = 1.0;
    for (uint32_t i = 1; i <= fit->degree; i++) fit->c[i] = fit->c[i - 1] * LN_2 / i;
}

bool poly_fit(PolyFit *fit, PolyFitKind kind, uint32_t degree, Status *status)
{
    *fit = (PolyFit){.kind = kind, .degree = degree};
    if (degree < 1 || degree > POLY_FIT_DEGREE)
        return status_fail(status, STATUS_USAGE, "polynomial degree %u is not allowed; expected 1 to %d", degree, POLY_FIT_DEGREE);
    if (kind == FIT_TAYLOR) taylor(fit);
    else if (kind == FIT_CHEBYSHEV_POINTS) chebyshev(fit, degree + 1);
    else if (kind == FIT_CHEBYSHEV_SERIES) chebyshev(fit, 4 * UNKNOWNS);
    else if (!minimax(fit)) return status_fail(status, STATUS_INFEASIBLE, "the minimax fit of degree %u does not settle", degree);
    for (int i = 0; i <= INTERVALS; i++) fit->error = fmax(fit->error, fabs(relative_error(fit, (double)i / INTERVALS)));
    for (uint32_t i = 0; kind == FIT_MINIMAX_RELATIVE && i <= degree; i++) fit->error = fmax(fit->error, fabs(fit->extreme[i]));
    for (uint32_t i = 0; i <= degree; i++) fit->c_f32[i] = (float)fit->c[i];
    return true;
}

/* ------------------------------------------------------------------------------------------------------------- evaluation */

/* The product is exact in float64. The sum is rounded to odd (its last bit remembers what was cut off), so rounding it to float32 is
 * the only rounding. */
static inline float fused(float a, float b, float c)
{
    const double product = (double)a * (double)b, addend = (double)c, sum = product + addend;
    const double part = sum - product, rest = (product - (sum - part)) + (addend - part);
    const uint64_t bits = bits_from_f64(sum), away = (rest > 0.0) == (sum > 0.0) ? bits + 1 : bits - 1;
    return (float)f64_from_bits(rest != 0.0 && bits % 2 == 0 ? away : bits);
}

float fused_multiply_add_f32(float a, float b, float c) { return fused(a, b, c); }

enum { BATCH = 256 };

void exp2_by_fit(const void *self, const float *x, float *y, uint32_t count)
{
    const PolyFit *fit = self;
    float f[BATCH], k[BATCH], p[BATCH];
    for (uint32_t first = 0; first < count; first += BATCH) {
        const uint32_t n = count - first < BATCH ? count - first : BATCH;
        for (uint32_t i = 0; i < n; i++) {
            const float clamped = poly_clamp_f32(x[first + i]);
            k[i] = poly_floor_f32(clamped);
            f[i] = clamped - k[i];
            p[i] = fit->c_f32[fit->degree];
        }
        for (uint32_t c = fit->degree; c-- > 0;)
            for (uint32_t i = 0; i < n; i++) p[i] = fused(p[i], f[i], fit->c_f32[c]);
        for (uint32_t i = 0; i < n; i++) y[first + i] = poly_scale_f32(p[i], k[i], x[first + i]);
    }
}

float poly_fit_exp2_f32(const PolyFit *fit, float x)
{
    float y;
    exp2_by_fit(fit, &x, &y, 1);
    return y;
}

void exp2_by_function(const void *unused, const float *x, float *y, uint32_t count)
{
    (void)unused;
    for (uint32_t i = 0; i < count; i++) y[i] = exp2_f32_inline(x[i]);
}

/* A positive float64 cut off at float32, with a last bit that remembers the rest: rounding that once more is one rounding. */
static inline float round_to_odd(double x)
{
    const float nearest = (float)x;
    const uint32_t cut = bits_from_f32(nearest) - ((double)nearest > x ? 1u : 0u);
    return f32_from_bits(cut | ((double)nearest != x ? 1u : 0u));
}

void exp2_ideal(const void *unused, const float *x, float *y, uint32_t count)
{
    (void)unused;
    for (uint32_t i = 0; i < count; i++) y[i] = round_to_odd(exp2_f64_inline((double)x[i]));
}

/* ---------------------------------------------------------------------------------------------------------------- accuracy */

static inline double larger(double a, double b) { return a > b ? a : b; }

static uint32_t account(Exp2Accuracy *a, float got, double exact)
{
    const float rounded = round_bf16(got), want = round_bf16(round_to_odd(exact));
    const int32_t ulps = (int32_t)(bits_from_f32(rounded) >> 16) - (int32_t)(bits_from_f32(want) >> 16);
    const uint32_t distance = (uint32_t)(ulps < 0 ? -ulps : ulps);
    a->max_relative = larger(fabs((double)got - exact) / exact, a->max_relative);
    a->max_relative_bf16 = larger(fabs((double)rounded - exact) / exact, a->max_relative_bf16);
    a->max_ulp_bf16 = distance > a->max_ulp_bf16 ? distance : a->max_ulp_bf16;
    return distance == 0;
}

Exp2Accuracy exp2_accuracy(Exp2Function *function, const void *self, uint32_t points)
{
    Exp2Accuracy a = {0};
    uint64_t same = 0;
    for (uint32_t first = 0; first < points; first += BATCH) {
        const uint32_t n = points - first < BATCH ? points - first : BATCH;
        float x[BATCH], got[BATCH];
        double exact[BATCH];
        for (uint32_t i = 0; i < n; i++) x[i] = (float)((double)(first + i) / points);
        for (uint32_t i = 0; i < n; i++) exact[i] = exp2_f64_inline((double)x[i]);
        function(self, x, got, n);
        for (uint32_t i = 0; i < n; i++) same += account(&a, got[i], exact[i]);
    }
    a.same_bf16 = (double)same / points;
    return a;
}
