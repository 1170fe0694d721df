/* closed_forms.h - every count of every kernel as a formula.
 *
 * A formula must not be fed by the counter that it checks: this file and closed_forms.c include nothing of sim/ but checked
 * integers, know no tile, tensor or machine, and take instruction shapes and capacities as plain numbers. No formula walks
 * blocks: sums over blocks of a banded mask are sums of clamped linear functions, done in a few divisions, so a formula answers
 * at any N.
 *
 * Checked three ways: closed form = walk (sim/) = brute force over elements (tests/), see tests/test_counts.c. Lecture §1.4,
 * §2.3-2.5, §3.1, §3.2.
 */
#ifndef ATTNLAB_CLOSED_FORMS_H
#define ATTNLAB_CLOSED_FORMS_H

#include "sim/checked.h"

#include <stdbool.h>
#include <stdint.h>

/* FlashAttention-3 with FP8 operands. */
typedef enum { COUNTED_SCALE_NONE, COUNTED_SCALE_TENSOR, COUNTED_SCALE_BLOCK, COUNTED_SCALE_ROW } CountedScales;
typedef struct {
    bool operands;                      /* of one byte: V is transposed, P has a scale of its own */
    bool codes;                         /* Q, K, V came in another type */
    CountedScales scales;
    bool rotate_qk, rotate_v;
    bool prepass;                       /* rounding is launches of its own */
    uint64_t stages;                    /* of a butterfly: log2 of the largest power of two that divides d */
    uint64_t source_bytes;              /* of Q, K, V before, and of O */
    uint64_t maxima_at_once;            /* of blocks, compared by the kernel that finds the maximum of all */
} CountedFp8;

typedef struct {
    uint64_t batch, heads, kv_heads;
    uint64_t Nq, Nk, d;
    int64_t band_low, band_high;        /* query i sees keys i + low .. i + high, within 0 .. Nk - 1; low > high: none */
    uint64_t Br, Bc;                    /* at least 1 */
    uint64_t element_bytes;             /* of Q, K, V, O, S, P in HBM and of matmul operands */
    uint64_t statistic_bytes;           /* of accumulators and row statistics */
    bool ideal_l2;                      /* else every load and store goes to HBM */
    uint64_t shape_m, shape_n;          /* InstructionShape: 0 = all */
    uint64_t softmax_cols;              /* standard attention: elements of a row that a softmax block holds; >= Nk: whole rows */
    bool dropout;                       /* the keep mask is regenerated from its seed ... */
    uint64_t kept_references;           /* FlashAttention-4: rows x key blocks, all heads, at which l and O were not rescaled: given by the data */
    bool stored_mask, writes_mask;      /* ... or read from HBM, one byte per element; the forward writes it first */
    CountedFp8 fp8;
    uint64_t splits;                    /* decoding: parts of the key sequence, ceil(Tc / splits) key blocks each; 0 or 1: unsplit */
    bool packed;                        /* decoding: the query heads of a K/V head are rows of one tile, row = query x group + head */
    bool merged_by_tree;                /* decoding: parts are merged two at a time */
} CountedProblem;

/* A backward pass. FlashAttention's: the problem's shape_m, shape_n are those of S and dP. Standard attention has one shape for
 * all products, and softmax_cols are the elements of a row of P and of one of dP that a block holds. */
typedef struct {
    CountedProblem problem;
    uint64_t key_m, key_n;              /* InstructionShape of dK and dV */
    uint64_t query_m, query_n;          /* of dQ */
    bool direct_dq, query_blocks_outside;
    bool two_ctas;                      /* FlashAttention-4: two CTAs work on a pair of key blocks; whole tiles only */
    uint64_t splits;                    /* blocks per K/V head, each with its own dQ sums (deterministic); 0: shared sums */
} CountedBackward;

/* The same quantities as sim's Totals, by formula. */
typedef struct {
    uint64_t hbm_read_elements, hbm_write_elements, hbm_read_bytes, hbm_write_bytes;
    uint64_t l2_to_sm_bytes, sm_to_l2_bytes;
    uint64_t atomic_elements;
    uint64_t smem_operand_bytes, smem_thread_bytes, smem_copy_bytes;
    uint64_t matmul_flops, matmul_flops_exact_mask, nonmatmul_ops, exp_ops;
    uint64_t tile_pairs;                /* (query block, key block) pairs executed, all heads: what a walk's length is about */
} ClosedForm;

/* All return false with STATUS_INFEASIBLE naming the product when a count leaves 64 bits (or a length or block 2^61), and with
 * STATUS_USAGE when a block size is 0. */
bool closed_form_standard(const CountedProblem *problem, ClosedForm *form, Status *status);     /* Dao 2022, Algorithm 0 */
bool closed_form_fa1(const CountedProblem *problem, ClosedForm *form, Status *status);          /* Algorithm 1 as listed */
bool closed_form_fa1_shipped(const CountedProblem *problem, ClosedForm *form, Status *status);
bool closed_form_fa2(const CountedProblem *problem, ClosedForm *form, Status *status);          /* Dao 2023, Algorithm 1 */
bool closed_form_fa3(const CountedProblem *problem, ClosedForm *form, Status *status);          /* Shah 2024; FP8: closed_forms_fp8.c */

bool closed_form_standard_backward(const CountedBackward *problem, ClosedForm *form, Status *status);   /* 2022, Algorithm 3 */
bool closed_form_fa2_backward(const CountedBackward *problem, ClosedForm *form, Status *status);        /* 2023, Algorithm 2 */
/* FlashAttention-4, Zadouri 2026 (closed_forms_fa4.c). */
bool closed_form_fa4(const CountedProblem *problem, ClosedForm *form, Status *status);
/* FlashAttention-3's too, with one CTA and wgmma's shapes. */
bool closed_form_fa4_backward(const CountedBackward *problem, ClosedForm *form, Status *status);
/* Flash-Decoding: keys in parts, merged by a second kernel (closed_forms_decode.c). */
bool closed_form_decode(const CountedProblem *problem, ClosedForm *form, Status *status);
/* Its memory traffic by itself, bytes (§6.1): the cache, K and V once; the parts' O and logsumexp, written and read. */
uint64_t decode_cache_bytes(uint64_t batch, uint64_t kv_heads, uint64_t Nk, uint64_t d, uint64_t element_bytes, Status *status);
uint64_t decode_parts_bytes(uint64_t batch, uint64_t heads, uint64_t Nq, uint64_t d, uint64_t splits, uint64_t statistic_bytes, Status *status);

/* The lecture's one-head formulas, elements, no mask, no L2 (§1.4, §2.3, §2.4, §3.1). */
uint64_t standard_elements(uint64_t N, uint64_t d, Status *status);                     /* 4Nd + 4N² */
uint64_t fa1_elements(uint64_t N, uint64_t d, uint64_t Bc, Status *status);             /* 2Nd + (Nd + 2N) + Tc (3Nd + 4N) */
uint64_t fa2_elements(uint64_t N, uint64_t d, uint64_t Br, Status *status);             /* 2Nd + N + 2Nd Tr */
uint64_t fa1_published_elements(uint64_t N, uint64_t d, uint64_t Bc, Status *status);   /* (1 + 3 Tc) Nd: Figure 2, middle */
uint64_t fa1_sram_elements(uint64_t Br, uint64_t Bc, uint64_t d, Status *status);       /* 2 Bc d + 2 Br d + 2 Br + Br Bc */

/* The same for the backward pass (§2.6, §2.7). An atomic addition of one element counts as two: read and written. */
uint64_t standard_backward_elements(uint64_t N, uint64_t d, Status *status);                /* 8Nd + 7N² */
/* 6Nd + N + Tc (4Nd + 2N): added into dQ itself, without zeroing it first. */
uint64_t fa2_backward_elements(uint64_t N, uint64_t d, uint64_t Bc, Status *status);
uint64_t fa2_backward_atomic_elements(uint64_t N, uint64_t d, uint64_t Bc, Status *status); /* Tc 2Nd, of them: dQ */
/* Tr 4Nd: dK and dV in the other loop order. */
uint64_t fa2_backward_atomic_elements_by_queries(uint64_t N, uint64_t d, uint64_t Br, Status *status);
/* (4 + 4 Tc) Nd: inferred from one printed number, the 4.4 GB of Figure 2, left (with the forward's 1.745 GB it gives 4.43). */
uint64_t fa1_published_backward_elements(uint64_t N, uint64_t d, uint64_t Bc, Status *status);

/* Forward and backward (§2.7), each matrix once per kernel (ideal L2), no row statistics. */
uint64_t standard_training_elements(uint64_t N, uint64_t d, Status *status);                /* 12Nd + 11N² */
/* 13Nd: 4 forward (Q, K, V, O); 2 for D (O, dO), 4 read (Q, K, V, dO) and 3 written (dQ, dK, dV) backward. */
uint64_t flash_training_elements(uint64_t N, uint64_t d, Status *status);
/* 34Nd bytes: two-byte elements, but dQ is summed in float32 (4), read by a conversion kernel (4) and written (2) instead of
 * written once. */
uint64_t flash_training_bytes_float32_dq(uint64_t N, uint64_t d, Status *status);

/* What one layer keeps for the backward pass (§2.6): P in two-byte elements, or L in float32. */
uint64_t saved_p_bytes(uint64_t batch, uint64_t heads, uint64_t N, Status *status);         /* 2 batch heads N² */
uint64_t saved_l_bytes(uint64_t batch, uint64_t heads, uint64_t N, Status *status);         /* 4 batch heads N */

/* Matmul FLOPs of one head (§2.7). */
uint64_t forward_flops(uint64_t N, uint64_t d, Status *status);                             /* 4N²d: S, O */
uint64_t backward_flops(uint64_t N, uint64_t d, Status *status);                            /* 8N²d: dV, dP, dQ, dK */
uint64_t recompute_flops(uint64_t N, uint64_t d, Status *status);                           /* 2N²d: S again */

/* Matmul FLOPs of the forward pass by the benchmark convention: 4 batch heads Nq Nk d, halved for a causal mask. */
uint64_t matmul_flops_convention(const CountedProblem *problem, bool causal, Status *status);
/* Visible (query, key) pairs of one head. */
uint64_t visible_pairs(uint64_t Nq, uint64_t Nk, int64_t band_low, int64_t band_high, Status *status);

#endif
