/* h200_decode.h - decoding on one NVIDIA H200: times that s6_1_flash_decoding prints beside its model (§6.1), and HBM bandwidth
 * by the SMs that read.
 *
 * The numbers of hw_profiles/measured/h200_timings.csv, h200_counters.csv and h200_micro2.csv, whose README.md says how they were
 * measured; tests/test_h200_decode.c compares them. 32 query heads, one query, d = 128, BF16. Times are in units of 10 ns,
 * bandwidths of 0.1 GB/s, whole numbers.
 */
#ifndef ATTNLAB_H200_DECODE_H
#define ATTNLAB_H200_DECODE_H

#include <stdint.h>

/* flash: FlashAttention-2 as shipped in PyTorch, split kernel and combine kernel (or, where it does not split, its training
 * kernel). cudnn: cuDNN's decoding kernel and its reduction. */
typedef struct {
    uint64_t batch, kv_heads, keys, flash, cudnn;
} H200Decode;

static const H200Decode h200_decode[] = {
    {1, 32, 2048, 2534, 2195},       {2, 32, 2048, 3578, 3213},       {4, 32, 2048, 5248, 4640},
    {8, 32, 2048, 10875, 7619},      {16, 32, 2048, 20624, 13584},    {32, 32, 2048, 40306, 25339},
    {1, 32, 32768, 15170, 13861},    {2, 32, 32768, 26102, 25616},    {4, 32, 32768, 50531, 48688},
    {8, 32, 32768, 162259, 95715},   {16, 32, 32768, 336963, 190627}, {32, 32, 32768, 699589, 386422},
    {1, 32, 131072, 57048, 49002},   {2, 32, 131072, 99878, 96163},   {4, 32, 131072, 189971, 188579},
    {8, 32, 131072, 664411, 375206}, {1, 8, 2048, 1824, 1344},        {2, 8, 2048, 2117, 1677},
    {4, 8, 2048, 2528, 2230},        {8, 8, 2048, 3475, 3226},        {16, 8, 2048, 5261, 4570},
    {32, 8, 2048, 10803, 7626},      {1, 8, 32768, 5904, 5030},       {2, 8, 32768, 8922, 8070},
    {4, 8, 32768, 15045, 13877},     {8, 8, 32768, 26016, 25702},     {16, 8, 32768, 50202, 48720},
    {32, 8, 32768, 154238, 95686},   {1, 8, 131072, 15648, 14013},    {2, 8, 131072, 28070, 25606},
    {4, 8, 131072, 56163, 49002},    {8, 8, 131072, 102403, 95965},   {16, 8, 131072, 200272, 188528},
    {32, 8, 131072, 614256, 375392},
};

/* Splits that FlashAttention-2 chose: the grid of its split kernel (h200_counters.csv). */
typedef struct {
    uint64_t batch, kv_heads, keys, splits;
} H200Splits;

static const H200Splits h200_splits[] = {{1, 32, 32768, 7}, {1, 8, 32768, 29}, {1, 8, 131072, 28}};

/* Tensor instructions (mma.sync m16n8k16, 4096 FLOP) of one launch, by the counters: FlashAttention-2's split kernel and cuDNN's.
 */
typedef struct {
    uint64_t kv_heads, keys, flash, cudnn;
} H200TensorInstructions;

static const H200TensorInstructions h200_tensor_instructions[] = {
    {32, 32768, 8388608, 2097152}, {8, 32768, 2097152, 524288}, {8, 131072, 8388608, 2097152}};

typedef struct {
    uint64_t sms, bandwidth;
} H200Bandwidth;

static const H200Bandwidth h200_bandwidth[] = {
    {1, 768},    {2, 1518},   {4, 2962},   {8, 6086},   {16, 11725},  {24, 17093},  {32, 22378},
    {48, 30848}, {64, 36857}, {80, 40960}, {96, 42983}, {112, 44258}, {128, 44925}, {132, 44763},
};

/* Kernels launched one after the other, without waiting: what each costs when it does nothing. */
static const uint64_t h200_next_launch_time = 516;

#endif
