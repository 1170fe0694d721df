/* math_functions.h - our own exp, exp2 and natural logarithm, because a library's differ.
 *
 * A libm with and without FMA, or of another system, gives other last bits, and then no result of the project could be compared
 * byte for byte. These give the same bits from every compiler, optimisation level and vector width (the payload of a NaN
 * aside).
 *
 * Largest error in units in the last place (0.5 is the best possible), and the share of all 2^32 float32 arguments whose
 * result is not the nearest float:
 *
 *                  ULP                                            not the nearest
 *     exp_f32      0.777     every argument                       0.10 %
 *     exp2_f32     0.792     every argument                       0.11 %
 *     log_f32      0.840     every argument                       0.31 %
 *     exp_f64      0.628     |x| <= 1, 50 million arguments
 *                  0.776     all results, 50 million arguments; the largest is a subnormal result, rounded a second time
 *     exp2_f64     0.676     |x| <= 1;  0.776 all results
 *     log_f64      0.854     in [1/2, 2], 50 million arguments;  0.838 all exponents
 *
 * Reproduce: build/tests/test_math_functions --all (6 minutes). The bound that the test enforces is below 1 ULP everywhere,
 * subnormal arguments and results included.
 *
 * Special cases, as C11 Annex F: NaN gives NaN; exp(-inf) = 0, exp(inf) = inf, exp(0) = 1, exp2(integer) exact; too large gives
 * inf, too small shrinks through the subnormals to 0; log(1) = 0, log(inf) = inf, log(+-0) = -inf, log(negative) = NaN. Nothing
 * sets errno; floating-point exception flags mean nothing. Rounding mode: to nearest; no flush-to-zero.
 *
 * In a loop over an array use the inline versions of math_inline.h: the same source, vectorised. Nanoseconds per element on one
 * core of a Xeon of the Sapphire Rapids generation, gcc 12 -O3 (clang 14: the same within 15 %), arrays in the nearest caches
 * (build/tests/test_math_functions --time):
 *
 *                  SSE2 (default build)  AVX2    AVX-512
 *     exp_f32      1.3                   0.64    0.40
 *     exp2_f32     1.4                   0.69    0.44
 *     log_f32      1.6                   0.77    0.44
 *     exp_f64      4.2                   2.0     1.4
 *     exp2_f64     4.3                   2.1     1.4
 *     log_f64      4.2                   2.1     1.2
 */
#ifndef ATTNLAB_MATH_FUNCTIONS_H
#define ATTNLAB_MATH_FUNCTIONS_H

double exp_f64(double x);   /* e^x */
double exp2_f64(double x);  /* 2^x */
double log_f64(double x);   /* natural logarithm */

float exp_f32(float x);
float exp2_f32(float x);
float log_f32(float x);

#endif
