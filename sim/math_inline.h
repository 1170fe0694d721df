/* math_inline.h - exp, exp2 and log as straight-line code that vectorises; math_functions.h has the same functions as calls.
 *
 *     e^x   = 2^k e^r,  k = round(x / ln 2),  r = x - k ln 2,  |r| <= ln 2 / 2,   e^r = 1 + r + r^2 q(r)
 *     2^x   = 2^k 2^r,  k = round(x),         r = x - k (exact)
 *     log x = k ln 2 + log m,  x = 2^k m,  m in [sqrt(1/2), sqrt 2),  s = f/(2+f) with f = m - 1,  log m = 2 atanh s
 *
 * No table, no branch, no call, no libm and no fused multiply-add: additions, multiplications, selects and integer shifts, in a
 * fixed order, so that every compiler, optimisation level and vector width gives the same bits (the payload of a NaN aside).
 * Compile with -ffp-contract=off; gcc also needs -fno-trapping-math to turn the selects into vector code.
 *
 * Rounding to an integer is the addition of 1.5 * 2^52 (2^23 in float32): the sum's low bits are that integer. Scaling by 2^k is
 * done in two halves, so that results grow into infinity and shrink through the subnormals to zero by themselves, with one
 * rounding. An argument whose result is far below the smallest subnormal (-infinity above all, the value of a masked score) is
 * clamped to where both halves are exact zeros: no slow subnormal arithmetic on the way.
 *
 * Polynomials: our own minimax fits of the relative error, coefficients rounded to the precision; the error of each is at its
 * definition. The split of log follows K. C. Ng's classic scheme (fdlibm, Sun Microsystems 1993): log(1+f) = f - (f^2/2 -
 * s (f^2/2 + R(s^2))). Measured errors: math_functions.h.
 */
#ifndef ATTNLAB_MATH_INLINE_H
#define ATTNLAB_MATH_INLINE_H

#include "float_bits.h"

/* ---------------------------------------------------------------------------------------------------------------- float64 */

/* y 2^(biased - 2046), 0 <= biased <= 4092; 0 when biased is 0. */
static inline double scale_f64(double y, uint64_t biased)
{
    const uint64_t half = biased >> 1, rest = biased - half;
    return y * f64_from_bits(half << 52) * f64_from_bits(rest << 52);
}

/* e^(hi + lo) for |hi + lo| <= 0.3467 and lo small against 1; r = hi + lo rounded. The large part 1 + hi is summed with its
 * rounding error, so that nearly all of the final error is the last addition's. q: within 2^-60.2 of (e^r - 1 - r) / r^2. */
static inline double exp_reduced_f64(double hi, double lo, double r)
{
    double q = 0x1.1e3d45bd3da34p-29;
    q = q * r + 0x1.af6bf004d3106p-26;
    q = q * r + 0x1.27e5b43d485fbp-22;
    q = q * r + 0x1.71ddf01c4409dp-19;
    q = q * r + 0x1.a01a01368fdcfp-16;
    q = q * r + 0x1.a01a01b37ffacp-13;
    q = q * r + 0x1.6c16c16c3049bp-10;
    q = q * r + 0x1.111111110ec59p-7;
    q = q * r + 0x1.5555555555503p-5;
    q = q * r + 0x1.555555555555bp-3;
    q = q * r + 0.5;
    const double sum = 1.0 + hi, rounding_error = (1.0 - sum) + hi;
    return sum + (rounding_error + (lo + r * r * q));
}

static inline double exp_f64_inline(double x)
{
    const double round_to_integer = 0x1.8p52;
    const double inverse_ln2 = 0x1.71547652b82fep+0;
    const double ln2_hi = 0x1.62e42fefa3800p-1, ln2_lo = 0x1.ef35793c76730p-45;    /* 42 bits: k ln2_hi is exact */
    x = x < -1418.0 ? -1418.0 : x;                          /* k = -2046: zero */
    x = x > 710.0 ? 710.0 : x;                              /* k = 1024: infinity */
    const double shifted = x * inverse_ln2 + round_to_integer;
    const double k = shifted - round_to_integer;
    const double hi = x - k * ln2_hi, lo = -(k * ln2_lo);
    return scale_f64(exp_reduced_f64(hi, lo, hi + lo), bits_from_f64(shifted) - bits_from_f64(round_to_integer) + 2046);
}

static inline double exp2_f64_inline(double x)
{
    const double round_to_integer = 0x1.8p52, round_to_26_bits = 0x1.8p26;
    const double ln2_hi = 0x1.62e43p-1, ln2_lo = -0x1.05c610ca86c39p-29;           /* 27 bits: times 26 bits is exact */
    x = x < -2046.0 ? -2046.0 : x;
    x = x > 1025.0 ? 1025.0 : x;
    const double shifted = x + round_to_integer;
    const double r = x - (shifted - round_to_integer);
    const double r_hi = (r + round_to_26_bits) - round_to_26_bits, r_lo = r - r_hi;
    const double hi = r_hi * ln2_hi, lo = r_lo * ln2_hi + r * ln2_lo;
    return scale_f64(exp_reduced_f64(hi, lo, hi + lo), bits_from_f64(shifted) - bits_from_f64(round_to_integer) + 2046);
}

/* Natural logarithm. log 0 = -infinity; of a negative number or NaN: NaN. */
static inline double log_f64_inline(double x)
{
    const double ln2_hi = 0x1.62e42fefa3800p-1, ln2_lo = 0x1.ef35793c76730p-45;
    const uint64_t one = 0x3ff0000000000000u, sqrt_half = 0x3fe6a09e667f3bcdu;
    const double normal = x < 0x1p-1022 ? x * 0x1p54 : x, shift = x < 0x1p-1022 ? 0x1p52 + 1023.0 + 54.0 : 0x1p52 + 1023.0;
    const uint64_t bits = bits_from_f64(normal), biased = (bits - sqrt_half + one) >> 52;
    const double k = f64_from_bits(biased | 0x4330000000000000u) - shift;           /* an integer below 2^52 as a double */
    const double f = f64_from_bits(bits - (biased << 52) + one) - 1.0;
    const double s = f / (2.0 + f), z = s * s;
    double p = 0x1.2f04f6560b779p-3;                        /* z p(z): within 2^-59.4 of 2 atanh(s)/s - 2, relative to it all */
    p = p * z + 0x1.39a1ced8663c9p-3;
    p = p * z + 0x1.74663db768711p-3;
    p = p * z + 0x1.c71c52118add8p-3;
    p = p * z + 0x1.24924941e3706p-2;
    p = p * z + 0x1.999999997ff09p-2;
    p = p * z + 0x1.5555555555592p-1;
    const double half_square = 0.5 * f * f;
    const double value = k * ln2_hi - ((half_square - (s * (half_square + z * p) + k * ln2_lo)) - f);
    const double finite = x > DBL_MAX ? x : value;
    const double special = x == 0.0 ? f64_from_bits(0xfff0000000000000u) : f64_from_bits(0x7ff8000000000000u);
    return x > 0.0 ? finite : special;
}

/* ---------------------------------------------------------------------------------------------------------------- float32 */

/* y 2^(biased - 254), 0 <= biased <= 508; 0 when biased is 0. */
static inline float scale_f32(float y, uint32_t biased)
{
    const uint32_t half = biased >> 1, rest = biased - half;
    return y * f32_from_bits(half << 23) * f32_from_bits(rest << 23);
}

/* As exp_reduced_f64. q: within 2^-28.2 of (e^r - 1 - r) / r^2 times r^2 / e^r. */
static inline float exp_reduced_f32(float hi, float lo, float r)
{
    float q = 0x1.6ac722p-10f;
    q = q * r + 0x1.123ddep-7f;
    q = q * r + 0x1.555858p-5f;
    q = q * r + 0x1.55548cp-3f;
    q = q * r + 0x1.fffffcp-2f;
    const float sum = 1.0f + hi, rounding_error = (1.0f - sum) + hi;
    return sum + (rounding_error + (lo + r * r * q));
}

static inline float exp_f32_inline(float x)
{
    const float round_to_integer = 0x1.8p23f;
    const float inverse_ln2 = 0x1.715476p+0f;
    const float ln2_hi = 0x1.62e4p-1f, ln2_lo = 0x1.7f7d1cp-20f;                    /* 16 bits: k ln2_hi is exact */
    x = x < -176.0f ? -176.0f : x;                          /* k = -254: zero */
    x = x > 89.0f ? 89.0f : x;                              /* k = 128: infinity */
    const float shifted = x * inverse_ln2 + round_to_integer;
    const float k = shifted - round_to_integer;
    const float hi = x - k * ln2_hi, lo = -(k * ln2_lo);
    return scale_f32(exp_reduced_f32(hi, lo, hi + lo), bits_from_f32(shifted) - bits_from_f32(round_to_integer) + 254);
}

static inline float exp2_f32_inline(float x)
{
    const float round_to_integer = 0x1.8p23f, round_to_12_bits = 0x1.8p11f;
    const float ln2_hi = 0x1.62ep-1f, ln2_lo = 0x1.0bfbe8p-15f;                     /* 12 bits: times 12 bits is exact */
    x = x < -254.0f ? -254.0f : x;
    x = x > 129.0f ? 129.0f : x;
    const float shifted = x + round_to_integer;
    const float r = x - (shifted - round_to_integer);
    const float r_hi = (r + round_to_12_bits) - round_to_12_bits, r_lo = r - r_hi;
    const float hi = r_hi * ln2_hi, lo = r_lo * ln2_hi + r * ln2_lo;
    return scale_f32(exp_reduced_f32(hi, lo, hi + lo), bits_from_f32(shifted) - bits_from_f32(round_to_integer) + 254);
}

static inline float log_f32_inline(float x)
{
    const float ln2_hi = 0x1.62e4p-1f, ln2_lo = 0x1.7f7d1cp-20f;
    const uint32_t one = 0x3f800000u, sqrt_half = 0x3f3504f3u;
    const float normal = x < 0x1p-126f ? x * 0x1p24f : x, shift = x < 0x1p-126f ? 0x1p23f + 127.0f + 24.0f : 0x1p23f + 127.0f;
    const uint32_t bits = bits_from_f32(normal), biased = (bits - sqrt_half + one) >> 23;
    const float k = f32_from_bits(biased | 0x4b000000u) - shift;
    const float f = f32_from_bits(bits - (biased << 23) + one) - 1.0f;
    const float s = f / (2.0f + f), z = s * s;
    float p = 0x1.31e0eep-2f;                               /* within 2^-30.2, as above */
    p = p * z + 0x1.995ed4p-2f;
    p = p * z + 0x1.55557ap-1f;
    const float half_square = 0.5f * f * f;
    const float value = k * ln2_hi - ((half_square - (s * (half_square + z * p) + k * ln2_lo)) - f);
    const float finite = x > FLT_MAX ? x : value;
    const float special = x == 0.0f ? f32_from_bits(0xff800000u) : f32_from_bits(0x7fc00000u);
    return x > 0.0f ? finite : special;
}

#endif
