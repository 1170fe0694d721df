/* h200_stores.h - how many of their half sectors two kernels of cuDNN send to L2 twice, on one NVIDIA H200.
 *
 * A sector of 32 bytes that two instructions store, 16 bytes each, crosses to L2 once if L1 merges the two and twice if not. That is a matter of time:
 * how many other stores are under way. It is the same for head dimensions 64 and 128 and for any split of the work into heads and rows; what
 * decides is how many thread blocks a launch has, alone on an SM, in one wave, or one after another. From the rows of
 * hw_profiles/measured/h200_half_sectors.csv with 1,024 rows a head and other than 16 heads: the mean by number of blocks, in 1/1000. The other
 * rows of that file, and tests/test_silicon.c, say how well it holds for other shapes.
 */
#ifndef ATTNLAB_H200_STORES_H
#define ATTNLAB_H200_STORES_H

#include <stdint.h>

typedef struct {
    uint64_t blocks, twice;
} H200HalfSectors;

/* compute_dot_do_o: the float32 sums of dQ that it sets to zero. */
static const H200HalfSectors h200_half_sectors_dot[] = {
    {64, 159},   {128, 227},  {192, 334},  {256, 333},  {384, 125},  {512, 60},   {640, 172},
    {768, 254},  {1024, 336}, {1280, 319}, {1536, 272}, {2048, 350}, {2560, 279}, {3072, 256},
    {4096, 203}, {6144, 159}, {8192, 145}, {12288, 115}, {16384, 102}, {24576, 96}, {32768, 93},
};

/* convert_dq_to_16bits: dQ. */
static const H200HalfSectors h200_half_sectors_convert[] = {
    {32, 670},   {64, 859},   {96, 840},   {128, 848},  {160, 700},  {192, 622},  {256, 503},  {320, 423},  {384, 410},
    {512, 294},  {640, 264},  {768, 221},  {1024, 147}, {1280, 108}, {1536, 88},  {1792, 122}, {2048, 389}, {2304, 597},
    {2560, 623}, {3072, 565}, {4096, 492}, {6144, 555}, {8192, 572}, {12288, 562}, {16384, 559},
};

enum {
    H200_DOT_POINTS = sizeof h200_half_sectors_dot / sizeof h200_half_sectors_dot[0],
    H200_CONVERT_POINTS = sizeof h200_half_sectors_convert / sizeof h200_half_sectors_convert[0]
};

#endif
