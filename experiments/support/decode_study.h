/* decode_study.h - what several programs need of decoding: which SMs are in use (§6.1, pitfall 9, exercise 11), and that merging
 * parts is associative and commutative to rounding (exercise 3).
 */
#ifndef ATTNLAB_DECODE_STUDY_H
#define ATTNLAB_DECODE_STUDY_H

#include "algos/run.h"
#include "algos/split_heuristics.h"

/* ---- SMs in use ---- */

/* One block per SM, as the lecture counts. */
typedef struct {
    uint64_t blocks;     /* unsplit x splits */
    uint64_t waves;      /* ceil(blocks / SMs) */
    double used_percent; /* blocks / (waves x SMs) */
} SplitUse;

bool split_use(uint64_t unsplit_blocks, uint64_t splits, uint64_t sm_count, SplitUse *use, Status *status);

/* A launch of one query per head with packed heads: batch x kv_heads blocks. keys in blocks of Bc. */
SplitProblem decode_split_problem(uint64_t batch, uint64_t kv_heads, uint64_t keys, uint64_t Bc, uint64_t sm_count);

/* Nanoseconds in which `blocks` equal blocks read `bytes` of HBM, wave by wave, `resident` on an SM: an SM with a block draws, an
 * idle one does not (sim/bandwidth.h). Rounded up wave by wave. */
uint64_t blocks_read_nanoseconds(const Profile *chip, uint64_t bytes, uint64_t blocks, uint64_t resident);

/* Exercise 11: batch 2, 8 K/V heads, 32k keys in blocks of 128, 132 SMs. */
typedef struct {
    SplitProblem problem;
    SplitUse unsplit;              /* 16 blocks, 1 wave, 12.1 % */
    SplitUse eight, thirty_three;  /* 128, 1, 97.0 %; 528, 4, 100 % */
    double parts_ratio;            /* traffic of the parts, 33 against 8 */
    uint64_t by_rule[SPLIT_RULES]; /* the lecture's 8; what each published rule answers */
    uint64_t eligible;             /* 7: the lecture's rule with FlashAttention-2's eligibility test, still one block per SM */
} Exercise11;

bool exercise_11(uint64_t sm_count, Exercise11 *answer, Status *status);

/* ---- merging (exercise 3) ---- */

/* Random triples of parts (O: d standard normal numbers, L: 4 x one), merged by the combine kernel in float64. Largest
 * differences of O. */
typedef struct {
    double bracketing; /* (a b) c against a (b c): associative */
    double order;      /* a b against b a, and a b c against c b a: commutative */
    double shape;      /* part after part against a tree */
    double largest;    /* |O| */
} MergeStudy;

bool merge_study(uint64_t triples, uint64_t d, uint64_t seed, Alloc *alloc, MergeStudy *study, Status *status);

/* One query against `keys` random keys in float64, keys in blocks of 64: the largest |O - O'|. */
typedef struct {
    double from_oracle;  /* O' by the float64 oracle */
    double from_unsplit; /* O' by the same kernel without splitting */
} SplitError;

enum { MOST_SPLIT_ERRORS = 8 };
/* For each of `count` numbers of parts (at most MOST_SPLIT_ERRORS), on the same numbers. */
bool split_errors(uint64_t keys, uint64_t d, MergeOrder merge, const uint32_t *splits, size_t count, uint64_t seed, Alloc *alloc,
                  SplitError *errors, Status *status);

#endif
