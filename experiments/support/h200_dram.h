/* h200_dram.h - DRAM and L2 counters of one NVIDIA H200 that s2_4_l2_roofline and s4_5_scheduling print beside the simulated L2 (§2.4, §4.5).
 *
 * Rows of hw_profiles/measured/h200_counters.csv and h200_l2.csv; README.md there says how they were measured, tests/test_silicon_dram.c compares the two.
 * Bytes. A block has 128 query rows (128 keys in the backward pass).
 */
#ifndef ATTNLAB_H200_DRAM_H
#define ATTNLAB_H200_DRAM_H

#include "silicon_dram.h"

typedef struct {
    const char *kernel;
    DramFamily family;
    DramLaunch launch;
    bool causal;
    uint64_t heads, seqlen, head_dim;       /* batch 1, as many keys as queries */
    uint64_t dram_read, dram_write;
    uint64_t l2_to_sm, sm_to_l2;
} H200Dram;

static const H200Dram h200_dram[] = {
    {"FlashAttention-2", DRAM_FLASH, DRAM_FORWARD, false, 16, 1024, 128, 12638976, 768, UINT64_C(71303168), UINT64_C(19857408)},
    {"FlashAttention-2", DRAM_FLASH, DRAM_FORWARD, false, 16, 16384, 64, 101093632, 30221824, UINT64_C(8623926400), UINT64_C(862978048)},
    {"FlashAttention-2", DRAM_FLASH, DRAM_FORWARD, false, 16, 16384, 128, 247659264, 77220608, UINT64_C(17247554816), UINT64_C(3840933888)},
    {"FlashAttention-2", DRAM_FLASH, DRAM_FORWARD, true, 16, 16384, 128, 298500608, 78294528, UINT64_C(8724576640), UINT64_C(1978646528)},
    {"FlashAttention-2", DRAM_FLASH, DRAM_FORWARD, false, 4, 65536, 128, 436373504, 85032704, UINT64_C(68787253632), UINT64_C(15115223040)},
    {"cuDNN", DRAM_CUDNN, DRAM_FORWARD, false, 16, 1024, 128, 12605696, 0, UINT64_C(71311360), UINT64_C(4202496)},
    {"cuDNN", DRAM_CUDNN, DRAM_FORWARD, false, 16, 16384, 64, 100704512, 26896384, UINT64_C(8623558784), UINT64_C(33624192)},
    {"cuDNN", DRAM_CUDNN, DRAM_FORWARD, false, 16, 16384, 128, 205147648, 59720448, UINT64_C(17247047808), UINT64_C(67178624)},
    {"cuDNN", DRAM_CUDNN, DRAM_FORWARD, true, 16, 16384, 128, 201353984, 60941824, UINT64_C(8724222080), UINT64_C(67178624)},
    {"cuDNN", DRAM_CUDNN, DRAM_FORWARD, false, 4, 65536, 128, 678341888, 67008000, UINT64_C(68786655360), UINT64_C(67178624)},
    {"FA2 backward", DRAM_FLASH, DRAM_BACKWARD, false, 16, 16384, 128, 609400064, 366524928, UINT64_C(17584890976), UINT64_C(17318281216)},
    {"FA2 backward", DRAM_FLASH, DRAM_BACKWARD, true, 16, 16384, 128, 405783808, 251668992, UINT64_C(8927766592), UINT64_C(8797552640)},
    {"cuDNN backward", DRAM_CUDNN, DRAM_BACKWARD, false, 16, 16384, 128, 592046080, 350989568, UINT64_C(17582906752), UINT64_C(17515827840)},
    {"cuDNN backward", DRAM_CUDNN, DRAM_BACKWARD, true, 16, 16384, 128, 405443584, 247100416, UINT64_C(8928024832), UINT64_C(8927990400)},
    {"standard, Q K^T", DRAM_STANDARD, DRAM_QK, false, 16, 8192, 128, 103950336, 2120939520, UINT64_C(3222269824), UINT64_C(2148528000)},
    {"standard, softmax", DRAM_STANDARD, DRAM_SOFTMAX, false, 16, 8192, 128, 2147551488, 2129771264, UINT64_C(2147483648), UINT64_C(2147483648)},
    {"standard, P V", DRAM_STANDARD, DRAM_PV, false, 16, 8192, 128, 2202243584, 29916672, UINT64_C(3221237632), UINT64_C(33566592)},
};

/* Causal attention by one Triton kernel (128 queries x 64 keys, 8 warps; 164 registers a thread at d = 128, 128 at d = 64, so one and two blocks
 * on an SM), its blocks in three orders: head by head, longest first over all heads, longest first in sections of as many heads as have 32 MiB
 * of K and V. */
typedef struct {
    uint64_t heads, seqlen, head_dim, blocks_per_sm;
    uint64_t dram_read[3];                  /* bytes */
    uint64_t time[3];                       /* nanoseconds, under the profiler */
} H200OrderReads;

static const H200OrderReads h200_order_reads[] = {
    {128, 8192, 128, 1, {UINT64_C(805499904), UINT64_C(17302865664), UINT64_C(1291582720)}, {5958432, 7514272, 6433760}},
    {128, 8192, 64, 2, {UINT64_C(402674432), UINT64_C(4464849664), UINT64_C(641962496)}, {3540160, 3724416, 3508128}},
    {16, 16384, 128, 1, {UINT64_C(201348864), UINT64_C(1156401152), UINT64_C(322524160)}, {3073664, 3233504, 3139456}},
    {16, 8192, 128, 1, {UINT64_C(100726784), UINT64_C(306799360), UINT64_C(158711296)}, {864480, 820832, 814560}},
};

enum { H200_ORDER_ROWS = sizeof h200_order_reads / sizeof h200_order_reads[0] };
enum { H200_DRAM_ROWS = sizeof h200_dram / sizeof h200_dram[0] };

#endif
