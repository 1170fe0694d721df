/* poly_fit.h - polynomials for 2^f on [0, 1]: fitted, evaluated as a chip would, and measured.
 *
 *     minimax      p(f) = 1 + c1 f + ... + cn f^n that makes max |p(f) / 2^f - 1| (or max |p(f) - 2^f|) smallest. By Remez: solve for the
 *                  coefficients and E at n + 1 points where the error is to be +E, -E, ...; move the points to the extremes of that error;
 *                  repeat. At the end all n + 1 extremes have the size E, which proves that no such polynomial is better.
 *     Chebyshev    interpolation at the Chebyshev points of [0, 1], or the Chebyshev series cut off: no search, but p(0) is not 1, so
 *                  powers of two are not exact
 *     Taylor       (f ln 2)^i / i!: best at 0, worst at 1
 *
 * Float64 and our own functions only. Lecture §5.2; Zadouri et al. 2026, arXiv:2603.05451, Section 3.1.3, Table 2.
 * Left out: choosing coefficients among floats (they are rounded one by one; from degree 5 on that costs more than the fit).
 */
#ifndef ATTNLAB_POLY_FIT_H
#define ATTNLAB_POLY_FIT_H

#include "status.h"

#include <stdbool.h>
#include <stdint.h>

enum { POLY_FIT_DEGREE = 7 };

typedef enum {
    FIT_MINIMAX_RELATIVE, FIT_MINIMAX_ABSOLUTE,     /* with p(0) = 1 */
    FIT_CHEBYSHEV_POINTS, FIT_CHEBYSHEV_SERIES, FIT_TAYLOR
} PolyFitKind;

typedef struct {
    PolyFitKind kind;
    uint32_t degree;
    double c[POLY_FIT_DEGREE + 1];          /* c[0] + c[1] f + ... */
    float c_f32[POLY_FIT_DEGREE + 1];       /* rounded */
    double error;                           /* max |p(f) / 2^f - 1| on [0, 1], float64 coefficients */
    /* Minimax: where the error (of its kind) is extreme, and what it is there; degree + 1 of them. */
    double at[POLY_FIT_DEGREE + 1], extreme[POLY_FIT_DEGREE + 1];
} PolyFit;

/* degree: 1 to 7, else STATUS_USAGE. STATUS_INFEASIBLE when the exchange does not settle (it does for all of these). */
bool poly_fit(PolyFit *fit, PolyFitKind kind, uint32_t degree, Status *status);

/* p(f) in float64. */
double poly_fit_value(const PolyFit *fit, double f);

/* 2^x in float32: range reduction, clamp and exponent field of poly_exp.h, Horner's rule with fused multiply-adds. -infinity and x <= -127
 * give 0, NaN stays NaN. */
float poly_fit_exp2_f32(const PolyFit *fit, float x);

/* a b + c rounded once, as the chip's FFMA and C's fmaf, in a few double operations; for results that are normal. */
float fused_multiply_add_f32(float a, float b, float c);

/* --- how good a float32 2^x is --- */

/* y[i] = 2^x[i], 0 <= i < count. */
typedef void Exp2Function(const void *self, const float *x, float *y, uint32_t count);

typedef struct {
    double max_relative;            /* of the float32 result */
    double max_relative_bf16;       /* after rounding it to BF16 */
    double same_bf16;               /* share of points where that is 2^x correctly rounded to BF16 */
    uint32_t max_ulp_bf16;          /* largest difference in units of BF16's last place */
} Exp2Accuracy;

/* On the points k / points, 0 <= k < points, of [0, 1). The lecture's claims stand on 2^20. */
Exp2Accuracy exp2_accuracy(Exp2Function *function, const void *self, uint32_t points);

/* Functions to measure: a fit (self: const PolyFit *); our exp2_f32; 2^x correctly rounded to float32 "to odd", so that rounding it to BF16
 * is the one rounding that no polynomial can beat. The last two take no self. */
Exp2Function exp2_by_fit, exp2_by_function, exp2_ideal;

#endif
