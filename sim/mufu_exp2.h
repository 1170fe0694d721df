/* mufu_exp2.h - a model of 2^x as the special function unit (MUFU.EX2) computes it: a table and a quadratic.
 *
 *     x = k + f,  f in [0, 1) with 23 binary digits,  f = i/64 + t,  2^f ~ c0[i] + c1[i] t + c2[i] t², rounded to 24 digits
 *
 * That is the published structure of such units (64 intervals, a squarer, coefficients of some 26, 16 and 10 digits). The
 * coefficients here are our own fit: c0 in units of 2^-25, c1 of 2^-16, c2 of 2^-11, each fitted after the ones behind it had
 * been rounded; c0[0] is 1, so that whole numbers are exact. Results below 2^-126 become 0, as in ex2.approx.ftz.
 *
 *                                       this model       an H200, measured
 *     largest relative error            1.34e-7          1.42e-7
 *     root of the mean square           3.2e-8           5.9e-8
 *     the same as exact after BF16      99.9998 %        99.9996 %
 *
 * So the model is as far off as silicon at most, and half as far on average: its coefficients are not the silicon's, and bits
 * are not to be compared. (tests/test_mufu_exp2.c measures the first column; the second is
 * hw_profiles/measured/h200_mufu_exp2.csv.) What it is for: to show that P, rounded to BF16 or FP8 afterwards, does not see the
 * difference between this, an exact exponential and a polynomial (poly_exp.h).
 *
 * Source of the structure: S. F. Oberman and M. Y. Siu, "A High-Performance Area-Efficient Multifunction Interpolator",
 * ARITH-17, 2005. Lecture §4.2, §5.2.
 */
#ifndef ATTNLAB_MUFU_EXP2_H
#define ATTNLAB_MUFU_EXP2_H

#include "float_bits.h"

#include <stdint.h>

static const int32_t mufu_exp2_table[64][3] = {
    {33554432, 45426, 494}, {33919817, 45920, 500}, {34289181, 46420, 505}, {34662562, 46926, 511},
    {35040016, 47436, 517}, {35421576, 47953, 522}, {35807292, 48475, 528}, {36197207, 49003, 534},
    {36591368, 49537, 539}, {36989824, 50076, 545}, {37392613, 50622, 551}, {37799793, 51173, 557},
    {38211407, 51730, 563}, {38627500, 52294, 569}, {39048126, 52863, 576}, {39473335, 53438, 582},
    {39903172, 54020, 588}, {40337689, 54608, 595}, {40776937, 55203, 601}, {41220968, 55804, 608},
    {41669835, 56412, 614}, {42123590, 57026, 621}, {42582285, 57647, 628}, {43045975, 58275, 635},
    {43514714, 58910, 641}, {43988561, 59551, 648}, {44467565, 60199, 656}, {44951783, 60855, 663},
    {45441275, 61518, 670}, {45936098, 62188, 677}, {46436309, 62865, 685}, {46941971, 63549, 692},
    {47453134, 64241, 700}, {47969864, 64941, 707}, {48492222, 65648, 715}, {49020267, 66363, 723},
    {49554065, 67085, 731}, {50093673, 67816, 738}, {50639157, 68554, 747}, {51190580, 69301, 755},
    {51748008, 70056, 763}, {52311507, 70819, 771}, {52881141, 71590, 780}, {53456982, 72369, 788},
    {54039090, 73157, 797}, {54627537, 73954, 805}, {55222392, 74759, 814}, {55823725, 75573, 823},
    {56431605, 76396, 832}, {57046105, 77228, 841}, {57667296, 78069, 850}, {58295249, 78920, 859},
    {58930043, 79779, 869}, {59571749, 80648, 878}, {60220443, 81526, 888}, {60876200, 82414, 897},
    {61539100, 83311, 907}, {62209217, 84218, 917}, {62886632, 85135, 927}, {63571423, 86062, 937},
    {64263671, 86999, 947}, {64963457, 87946, 958}, {65670862, 88904, 968}, {66385970, 89872, 979},
};

/* NaN stays NaN; 2^-infinity = 0, 2^infinity = infinity; whole numbers are exact. */
static inline float mufu_exp2(float x)
{
    if (x != x) return x;
    if (x >= 128.0f) return f32_from_bits(0x7f800000u);
    if (x < -126.0f) return 0.0f;
    const double scaled = (double)x * 0x1p23, round_to_integer = 0x1.8p52;
    const int64_t fixed = (int64_t)((scaled + round_to_integer) - round_to_integer);            /* 23 binary digits, to nearest */
    const int64_t digits = fixed & 0x7fffff, k = (fixed - digits) / 0x800000;                   /* floor */
    const int32_t *c = mufu_exp2_table[digits >> 17];
    const int64_t t = digits & 0x1ffff;                                                         /* in units of 2^-23 */
    const int64_t sum = (int64_t)c[0] * (INT64_C(1) << 32) + (int64_t)c[1] * t * (1 << 18) + (int64_t)c[2] * t * t;   /* of 2^-57, exact */
    const int64_t significand = (sum + (INT64_C(1) << 33)) >> 34;                               /* 2^23 .. 2^24 */
    return f32_from_bits((uint32_t)((k + 127) * 0x800000 + (significand - 0x800000)));
}

#endif
