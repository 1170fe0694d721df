/* float_bits.h - a floating-point number and the integer that holds its bits, both ways.
 *
 * IEEE 754 binary32 and binary64. The arithmetic of sim/ relies on float being evaluated as float and double as double (one
 * rounding per operation); a compiler that evaluates wider is refused here.
 */
#ifndef ATTNLAB_FLOAT_BITS_H
#define ATTNLAB_FLOAT_BITS_H

#include <float.h>
#include <stdint.h>
#include <string.h>

#if FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16
#error "float must be evaluated as float (on 32-bit x86: -msse2 -mfpmath=sse)"
#endif

static inline uint32_t bits_from_f32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float f32_from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint64_t bits_from_f64(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double f64_from_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#endif
