/* poly_exp.h - 2^x by a polynomial on the multiply-add units: what FlashAttention-4 gives part of its exponentials to.
 *
 *     2^x = 2^k 2^f,  k = floor(x),  f = x - k in [0, 1),  2^f ~ 1 + f (c1 + f (c2 + f c3)),  k added to the exponent field
 *
 * The coefficients are our own minimax fit of the relative error with p(0) = 1, so that powers of two are exact; the error equioscillates
 * at 8.56e-5 (tests/test_poly_exp.c measures it: 8.57e-5 in float32). BF16, to which P is rounded afterwards, has 3.9e-3.
 *
 * x is clamped to [-127, 127]; -infinity gives 0, NaN stays NaN. Between -127 and -126 the exponent field runs out and the result is a subnormal
 * of the right size but not of that precision. Lecture §5.2.
 * Left out: other degrees, and fitting them in a program.
 */
#ifndef ATTNLAB_POLY_EXP_H
#define ATTNLAB_POLY_EXP_H

#include "float_bits.h"

/* Straight-line code, as math_inline.h. The exponent field is added as an integer: no multiplication. */
static inline float poly_exp2_f32_inline(float x)
{
    const float round_to_integer = 0x1.8p23f;
    const float clamped = x < -127.0f ? -127.0f : x > 127.0f ? 127.0f : x;
    const float shifted = (clamped - 0.5f) + round_to_integer, rounded = shifted - round_to_integer;
    const float k = rounded + 1.0f <= clamped ? rounded + 1.0f : rounded > clamped ? rounded - 1.0f : rounded;      /* floor */
    const float f = clamped - k;
    const float p = 1.0f + f * (0x1.63e658p-1f + f * (0x1.d2378ap-3f + f * 0x1.3baaa6p-4f));
    const uint32_t power = bits_from_f32(k + round_to_integer) - bits_from_f32(round_to_integer);
    const float scaled = f32_from_bits(bits_from_f32(p) + (power << 23));
    return x != x ? x : x <= -127.0f ? 0.0f : scaled;
}

/* The same polynomial in float64, for the float64 path. */
static inline double poly_exp2_f64_inline(double x)
{
    const double round_to_integer = 0x1.8p52;
    const double clamped = x < -127.0 ? -127.0 : x > 127.0 ? 127.0 : x;
    const double shifted = (clamped - 0.5) + round_to_integer, rounded = shifted - round_to_integer;
    const double k = rounded + 1.0 <= clamped ? rounded + 1.0 : rounded > clamped ? rounded - 1.0 : rounded;
    const double f = clamped - k;
    const double p = 1.0 + f * (0x1.63e658p-1 + f * (0x1.d2378ap-3 + f * 0x1.3baaa6p-4));
    const uint64_t power = bits_from_f64(k + round_to_integer) - bits_from_f64(round_to_integer);
    const double scaled = f64_from_bits(bits_from_f64(p) + (power << 52));
    return x != x ? x : x <= -127.0 ? 0.0 : scaled;
}

#endif
