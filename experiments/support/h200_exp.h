/* h200_exp.h - exponentials of one NVIDIA H200, measured, that s5_2_poly_exp prints beside its models.
 *
 * The numbers of hw_profiles/measured/h200_exp_mix.csv, h200_exp_warps.csv and h200_mufu.csv, whose README.md says how they were measured;
 * tests/test_exp_mix.c compares them.
 */
#ifndef ATTNLAB_H200_EXP_H
#define ATTNLAB_H200_EXP_H

#include <stdint.h>

enum { H200_WARP_COUNTS = 6 };
static const uint32_t h200_warps[H200_WARP_COUNTS] = {1, 2, 4, 8, 16, 32}; /* per SM, in h200_exp_mix::clocks */

/* k of every 16 elements by a polynomial of degree 3, the others by MUFU. */
typedef struct {
    uint32_t k;
    double per_clock;                   /* 2^x per SM and clock, 16 warps; a benchmark whose machine code was not kept */
    double clocks[H200_WARP_COUNTS];    /* of one iteration (16 elements of every thread); a benchmark whose machine code was counted */
} H200ExpMix;

static const H200ExpMix h200_exp_mix[] = {
    {0, 15.981, {154.008, 154.006, 154.006, 276.822, 555.723, 1110.037}},
    {1, 16.960, {153.008, 153.008, 153.008, 271.383, 540.846, 1080.504}},
    {2, 18.064, {145.008, 145.008, 145.008, 254.678, 508.961, 1021.498}},
    {3, 18.774, {139.008, 139.008, 139.008, 238.605, 476.754, 955.230}},
    {4, 20.643, {133.010, 133.010, 133.010, 225.791, 448.135, 894.486}},
    {5, 22.432, {135.018, 135.018, 135.018, 217.371, 432.773, 861.488}},
    {6, 23.266, {156.018, 156.018, 156.018, 242.984, 405.242, 803.023}},
    {7, 22.502, {178.018, 178.018, 178.018, 241.070, 418.605, 840.143}},
    {8, 21.109, {209.018, 209.018, 209.018, 291.051, 467.980, 927.908}},
    {10, 18.477, {248.018, 248.018, 248.018, 335.049, 555.307, 1103.631}},
    {12, 16.514, {289.018, 289.018, 289.018, 360.094, 626.670, 1240.492}},
    {14, 15.197, {327.018, 327.018, 327.018, 429.072, 682.977, 1348.836}},
    {16, 13.785, {369.018, 369.018, 369.018, 475.953, 755.746, 1489.264}},
};
enum { H200_EXP_MIXES = sizeof h200_exp_mix / sizeof h200_exp_mix[0] };

/* Warp instructions of the second benchmark's loop, from its machine code: a MUFU element is FFMA and MUFU.EX2, a polynomial 4 FFMA, 3 FADD,
 * FMNMX and LEA; the loop itself adds three. */
enum { H200_MUFU_INSTRUCTIONS = 2, H200_POLY_INSTRUCTIONS = 9, H200_LOOP_INSTRUCTIONS = 3 };

/* MUFU.EX2 over [0, 1): errors against float64, and BF16 numbers that are 2^x correctly rounded. */
static const double h200_mufu_max_relative = 1.4230e-07, h200_mufu_rms_relative = 5.9305e-08, h200_mufu_same_bf16 = 0.999996;
static const uint32_t h200_mufu_max_ulp_bf16 = 1;
/* Per SM and clock: MUFU.EX2 alone, plain multiply-adds, the polynomial alone in a third benchmark. */
static const double h200_mufu_per_clock = 15.998, h200_ffma_per_clock = 106.928, h200_poly_per_clock = 12.886;

#endif
