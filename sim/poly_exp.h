/* poly_exp.h - 2^x by a polynomial on the multiply-add units: what FlashAttention-4 gives part of its exponentials to.
 *
 *     2^x = 2^k 2^f,  k = floor(x),  f = x - k in [0, 1),  2^f ~ 1 + f (c1 + f (c2 + f c3)),  k added to the exponent field
 *
 * The coefficients are our own minimax fit of the relative error with p(0) = 1, so that powers of two are exact; the error equioscillates
 * at 8.56e-5 (8.57e-5 in float32). poly_fit.h computes such fits of any degree, and tests/test_poly_fit.c that these are its bits. BF16,
 * to which P is rounded afterwards, has 3.9e-3.
 *
 * x is clamped to [-127, 127]; -infinity gives 0, NaN stays NaN (the chip's maximum instruction would turn it into 2^-127: decided
 * otherwise here, because a NaN that a row sees must show). Between -127 and -126 the exponent field runs out and the result is a subnormal
 * of the right size but not of that precision (4.87e-39 instead of 8.3e-39 at -126.5). Lecture §5.2.
 * Left out: the fused multiply-adds of the chip (poly_fit.h has them); here each product and sum is rounded, which is as exact.
 */
#ifndef ATTNLAB_POLY_EXP_H
#define ATTNLAB_POLY_EXP_H

#include "float_bits.h"

/* Degree 3. */
#define POLY_EXP_C1 0x1.63e658p-1f
#define POLY_EXP_C2 0x1.d2378ap-3f
#define POLY_EXP_C3 0x1.3baaa6p-4f

/* Straight-line code, as math_inline.h. floor of a number in [-127, 127]. */
static inline float poly_floor_f32(float x)
{
    const float round_to_integer = 0x1.8p23f;
    const float shifted = (x - 0.5f) + round_to_integer, rounded = shifted - round_to_integer;
    return rounded + 1.0f <= x ? rounded + 1.0f : rounded > x ? rounded - 1.0f : rounded;
}

static inline float poly_clamp_f32(float x) { return x < -127.0f ? -127.0f : x > 127.0f ? 127.0f : x; }

/* p 2^k: the exponent field is added as an integer, no multiplication. x is the argument before it was clamped. */
static inline float poly_scale_f32(float p, float k, float x)
{
    const float round_to_integer = 0x1.8p23f;
    const uint32_t power = bits_from_f32(k + round_to_integer) - bits_from_f32(round_to_integer);
    const float scaled = f32_from_bits(bits_from_f32(p) + (power << 23));
    return x != x ? x : x <= -127.0f ? 0.0f : scaled;
}

static inline float poly_exp2_f32_inline(float x)
{
    const float clamped = poly_clamp_f32(x), k = poly_floor_f32(clamped), f = clamped - k;
    return poly_scale_f32(1.0f + f * (POLY_EXP_C1 + f * (POLY_EXP_C2 + f * POLY_EXP_C3)), k, x);
}

/* The same polynomial in float64, for the float64 path. */
static inline double poly_exp2_f64_inline(double x)
{
    const double round_to_integer = 0x1.8p52;
    const double clamped = x < -127.0 ? -127.0 : x > 127.0 ? 127.0 : x;
    const double shifted = (clamped - 0.5) + round_to_integer, rounded = shifted - round_to_integer;
    const double k = rounded + 1.0 <= clamped ? rounded + 1.0 : rounded > clamped ? rounded - 1.0 : rounded;
    const double f = clamped - k;
    const double p = 1.0 + f * ((double)POLY_EXP_C1 + f * ((double)POLY_EXP_C2 + f * (double)POLY_EXP_C3));
    const uint64_t power = bits_from_f64(k + round_to_integer) - bits_from_f64(round_to_integer);
    const double scaled = f64_from_bits(bits_from_f64(p) + (power << 52));
    return x != x ? x : x <= -127.0 ? 0.0 : scaled;
}

#endif
