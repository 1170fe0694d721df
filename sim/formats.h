/* formats.h - the number formats of tensor cores, bit for bit: BF16, FP16, E4M3, E5M2.
 *
 *     name   sign+exponent+mantissa  bias  largest   smallest normal  smallest subnormal   infinity, NaN
 *     bf16   1+8+7                   127   3.39e38   2^-126           2^-133               as IEEE
 *     fp16   1+5+10                  15    65504     2^-14            2^-24                as IEEE
 *     e4m3   1+4+3                   7     448       2^-6             2^-9                 no infinity; NaN = S.1111.111
 *     e5m2   1+5+2                   15    57344     2^-14            2^-16                as IEEE
 *
 * Every conversion from float32 rounds once, to nearest, ties to even, subnormal results included; -0 keeps its sign. A NaN
 * stays a NaN with its sign: the format's plain quiet NaN, but FP16 codes keep the upper ten bits of the payload (as NumPy and
 * ml_dtypes do). What happens past the largest finite value of an FP8 format is the caller's choice, because hardware and
 * frameworks differ: see Fp8Overflow.
 *
 * How: with e the exponent of x, or the format's smallest one if x is below it, the neighbours of x in a format of m mantissa
 * bits lie 2^(e-m) apart. Adding and taking away 2^(e-m+23) rounds |x| to that grid in float32's own rounding, for normal and
 * subnormal results alike, so there is no double rounding and no branch. BF16 is float32 cut short: there the rounding is an
 * integer addition. Flush-to-zero mode must be off.
 *
 * Sources: IEEE 754-2019 (binary16); Micikevicius et al., "FP8 Formats for Deep Learning", arXiv:2209.05433 (E4M3, E5M2).
 * Lecture: section 1 (bytes per element), section 4.4 (FP8). Left out: stochastic rounding, FP4/FP6, block scales.
 */
#ifndef ATTNLAB_FORMATS_H
#define ATTNLAB_FORMATS_H

#include "float_bits.h"

#include <stdbool.h>
#include <stdint.h>

/* What one element of a tensor is stored as. */
typedef enum { ELEMENT_F64, ELEMENT_F32, ELEMENT_BF16, ELEMENT_FP16, ELEMENT_E4M3, ELEMENT_E5M2,
               ELEMENT_U8 /* small whole numbers: a stored dropout mask */ } ElementType;

/* Bytes per element: 8, 4, 2, 2, 1, 1, 1. */
uint64_t element_bytes(ElementType type);

/* "f64", "f32", "bf16", "fp16", "e4m3", "e5m2", "u8". */
const char *element_name(ElementType type);

/* Reads a name of element_name(), or "fp8" for E4M3. False (and *type untouched) when there is no such name. */
bool element_from_name(const char *name, ElementType *type);

/* Past the largest finite FP8 value (after rounding), and for infinities: */
typedef enum {
    FP8_SATURATE,       /* +-448 or +-57344, as the GPU's conversion instruction (cvt.satfinite); NaN stays NaN */
    FP8_NONFINITE       /* E4M3: NaN; E5M2: infinity, as PyTorch and ml_dtypes */
} Fp8Overflow;

/* float32 -> code. */
uint16_t bf16_from_f32(float x);
uint16_t fp16_from_f32(float x);
uint8_t e4m3_from_f32(float x, Fp8Overflow overflow);
uint8_t e5m2_from_f32(float x, Fp8Overflow overflow);

/* code -> float32, exact. */
float f32_from_bf16(uint16_t code);
float f32_from_fp16(uint16_t code);
float f32_from_e4m3(uint8_t code);
float f32_from_e5m2(uint8_t code);

/* x[i] <- the value of x[i] in the format, 0 <= i < count. F64, F32 and U8 leave the array as it is; FP8 saturates.
 * A million values take 0.3 ms for BF16 and 0.6 ms for the others (SSE2, a Xeon of the Sapphire Rapids generation;
 * build/tests/test_formats --time). */
void round_elements(ElementType type, float *x, uint64_t count);

/* The value of x in the format, as float32 (NaN: 7fc00000 with its sign). Inline and without branches, so loops vectorise. */
static inline float round_bf16(float x);
static inline float round_fp16(float x);
static inline float round_e4m3(float x, Fp8Overflow overflow);
static inline float round_e5m2(float x, Fp8Overflow overflow);

/* ------------------------------------------------------------------------------------------------- inline definitions */

/* x on the grid of a format with m mantissa bits and smallest normal 2^min_exponent; past max_finite it is `beyond`. */
static inline float round_to_grid(float x, uint32_t m, int32_t min_exponent, float max_finite, float beyond)
{
    const uint32_t sign = bits_from_f32(x) & 0x80000000u, magnitude = bits_from_f32(x) & 0x7fffffffu;
    const int32_t lowest = (min_exponent + 127) * (1 << 23), highest = (100 + 127) * (1 << 23); /* past 2^100 all is beyond */
    int32_t exponent = (int32_t)(magnitude & 0x7f800000u);
    exponent = exponent < lowest ? lowest : exponent;
    exponent = exponent > highest ? highest : exponent;
    const float grid = f32_from_bits((uint32_t)exponent + ((23u - m) << 23));
    float rounded = (f32_from_bits(magnitude) + grid) - grid;
    rounded = rounded > max_finite ? beyond : rounded;
    const uint32_t bits = magnitude > 0x7f800000u ? 0x7fc00000u : bits_from_f32(rounded);
    return f32_from_bits(bits | sign);
}

static inline float round_bf16(float x)
{
    const uint32_t bits = bits_from_f32(x), nearest = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
    return f32_from_bits((bits & 0x7fffffffu) > 0x7f800000u ? (bits & 0x80000000u) | 0x7fc00000u : nearest);
}

static inline float round_fp16(float x) { return round_to_grid(x, 10, -14, 65504.0f, f32_from_bits(0x7f800000u)); }

static inline float round_e4m3(float x, Fp8Overflow overflow)
{
    return round_to_grid(x, 3, -6, 448.0f, overflow == FP8_SATURATE ? 448.0f : f32_from_bits(0x7fc00000u));
}

static inline float round_e5m2(float x, Fp8Overflow overflow)
{
    return round_to_grid(x, 2, -14, 57344.0f, overflow == FP8_SATURATE ? 57344.0f : f32_from_bits(0x7f800000u));
}

#endif
