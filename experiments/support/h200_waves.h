/* h200_waves.h - times of one NVIDIA H200 that two programs print beside their models (§3.3, §4.5).
 *
 * The numbers of hw_profiles/measured/h200_waves.csv, whose README.md says how they were measured; tests/test_chip_schedule.c
 * compares the two. Times are in units of 10 ns, whole numbers.
 */
#ifndef ATTNLAB_H200_WAVES_H
#define ATTNLAB_H200_WAVES_H

#include <stdint.h>

/* Time against the number of thread blocks: one sequence of N = 2048, d = 128, no mask, `heads` heads of 16 blocks of 128
 * queries. flash: FlashAttention-2 as shipped in PyTorch; below 7 heads it splits the keys too, which is another kernel. cudnn: a
 * persistent kernel of the class of FlashAttention-3. */
typedef struct {
    uint64_t heads, flash, cudnn;
} H200Staircase;

static const H200Staircase h200_staircase[] = {
    {1, 2098, 3149},    {2, 2858, 3149},    {3, 4608, 3184},    {4, 4528, 3238},    {5, 5987, 3261},    {6, 6854, 3325},
    {7, 6899, 3421},    {8, 7030, 3514},    {9, 10592, 5853},   {10, 10525, 5888},  {11, 10602, 5894},  {12, 10611, 5939},
    {13, 10672, 5965},  {14, 10581, 5917},  {15, 10611, 5898},  {16, 10662, 6051},  {17, 16298, 8547},  {18, 16611, 8547},
    {19, 16467, 8605},  {20, 16512, 8570},  {21, 16530, 8608},  {22, 16602, 8674},  {23, 16690, 8634},  {24, 16614, 8730},
    {25, 20237, 11117}, {26, 20355, 11213}, {27, 20390, 11197}, {28, 20461, 11248}, {29, 20493, 11357}, {30, 20522, 11277},
    {31, 20458, 11354}, {32, 20426, 11389}, {33, 20522, 11394}, {34, 26026, 13712}, {35, 26195, 13846}, {36, 26141, 13888},
    {37, 26288, 13930}, {38, 26410, 13968}, {39, 26403, 13965}, {40, 26464, 14061},
};

enum {
    H200_UNSPLIT_HEADS = 7, /* from so many heads on, flash is one kernel */
    H200_ALONE = 7,
    H200_PAIRED = 15 /* the rows of 128 blocks, one per SM, and of 256: two on all but 8 SMs */
};

/* Causal attention by one Triton kernel (128 queries x 64 keys, 8 warps) with three orders of its blocks. */
typedef struct {
    uint64_t heads, seqlen, head_dim;
    uint64_t natural, reversed, longest_first; /* head by head; longest first inside each head; longest first of all heads */
} H200Orders;

static const H200Orders h200_orders[] = {
    {16, 2048, 64, 6358, 6168, 5565},         {16, 4096, 64, 17722, 17334, 11898},     {16, 8192, 64, 54653, 52118, 43310},
    {16, 16384, 64, 185616, 179360, 165101},  {128, 8192, 64, 343011, 338810, 358083}, {16, 2048, 128, 10118, 10240, 6874},
    {16, 4096, 128, 27678, 28493, 22602},     {16, 8192, 128, 83547, 90464, 82363},    {16, 16384, 128, 295728, 329133, 323768},
    {128, 8192, 128, 576051, 636315, 745936},
};

/* The same kernel built again on another H200 (hw_profiles/measured/h200_orders.csv): with room for two tiles of K and of V on chip, as above, and for
 * three. */
enum { H200_TWO_STAGES, H200_THREE_STAGES, H200_STAGES, H200_STAGE_ROWS = 12 };

static const H200Orders h200_stage_orders[H200_STAGES][H200_STAGE_ROWS] = {
    {
        {16, 4096, 64, 17270, 16410, 12420}, {16, 8192, 64, 48940, 50120, 40400}, {16, 16384, 64, 155830, 165620, 149720},
        {32, 8192, 64, 87490, 90050, 81130}, {64, 4096, 64, 46320, 48470, 45390}, {128, 8192, 64, 297170, 307500, 322570},
        {16, 4096, 128, 27860, 27810, 21760}, {16, 8192, 128, 79520, 85150, 76660}, {16, 16384, 128, 272140, 307060, 295930},
        {32, 8192, 128, 148430, 159620, 156200}, {64, 4096, 128, 84430, 86640, 86230}, {128, 8192, 128, 541940, 581850, 694090},
    },
    {
        {16, 4096, 64, 15990, 14410, 13170}, {16, 8192, 64, 44430, 44190, 36170}, {16, 16384, 64, 145080, 140780, 126540},
        {32, 8192, 64, 90370, 84210, 75160}, {64, 4096, 64, 45040, 43670, 39540}, {128, 8192, 64, 273180, 271930, 281510},
        {16, 4096, 128, 21740, 22070, 17800}, {16, 8192, 128, 67520, 65100, 58910}, {16, 16384, 128, 241400, 231730, 230300},
        {32, 8192, 128, 152450, 133710, 120680}, {64, 4096, 128, 71390, 69750, 66050}, {128, 8192, 128, 498960, 480740, 550460},
    },
};

/* An empty kernel, launched and waited for. */
static const uint64_t h200_launch_time = 589;

#endif
