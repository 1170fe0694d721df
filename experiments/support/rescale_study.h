/* rescale_study.h - conditional rescaling on given data: what FlashAttention-4's kernel does at a threshold, and what it would do at others.
 *
 * A case is one head of N keys with Q, K, V ~ N(0,1) in float32; growing: row j of K is multiplied by growth^(j / (N - 1)), so that the maximum
 * of a row keeps rising. Runs are the kernel itself (algos/fa4.c) on a B200, query tiles of 128 rows, blocks of 128 keys, float32 throughout. The
 * reference is the same kernel in float64 without a threshold, which tests hold to the oracle within 1e-12.
 *
 * The decisions depend on nothing but the largest score of each row in each key block. A run leaves these behind, and rescale_decisions() replays
 * the rule on them: any threshold, any number of rows that decide together, scores of any spread, without another run. Where a run was made
 * with the same numbers, its counters say the same (tests/test_rescale_study.c). Lecture §5.3.
 */
#ifndef ATTNLAB_RESCALE_STUDY_H
#define ATTNLAB_RESCALE_STUDY_H

#include "sim/alloc.h"
#include "sim/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { RESCALE_ROWS = 128, RESCALE_KEYS = 128, RESCALE_WARP = 32 };

typedef struct {
    uint64_t seed;
    uint32_t queries, N, d;         /* queries: a multiple of 256, N: of 128 */
    double growth;                  /* 1: plain N(0,1) */
} RescaleSetup;

typedef struct {
    RescaleSetup setup;
    Alloc *alloc;
    Status *status;
    float *inputs[3];               /* Q, K, V */
    double *exact;                  /* O in float64; NULL until a run has asked for it */
    float *maxima;                  /* [queries][N / 128]: largest score, natural, of a row in a key block; after a run */
    bool have_maxima;
} RescaleCase;

/* rescale_case_free is the caller's even after a failure. */
bool rescale_case_init(RescaleCase *c, const RescaleSetup *setup, Alloc *alloc, Status *status);
void rescale_case_free(RescaleCase *c);

typedef struct {
    uint64_t rescaled, skipped;     /* decisions: groups of rows x key blocks; the first key block always rescales */
    double largest_weight;          /* log2 of the largest P */
    uint64_t nonfinite;             /* entries of O that are infinite or NaN */
    double max_error;               /* max |O - exact| over the others; NaN when it was not asked for */
} RescaleOutcome;

/* threshold in log2; decision_rows: 1, 32 (a warp), 128 (a query tile). */
bool rescale_run(RescaleCase *c, double threshold, uint32_t decision_rows, bool want_error, RescaleOutcome *outcome);

/* Decisions that rescale, by the rule alone: scores times `spread`. After a run. */
uint64_t rescale_decisions(const RescaleCase *c, double threshold, uint32_t decision_rows, double spread);
/* All decisions. */
uint64_t rescale_decision_count(const RescaleCase *c, uint32_t decision_rows);
/* The largest score in log2 units. After a run. */
double rescale_largest_score(const RescaleCase *c);

/* Exercise 9 at its worst: one query whose first key block scores 0 and all others exactly `threshold` (log2), V = 1: O must be 1. */
bool rescale_worst_case(uint64_t N, double threshold, double *O, Alloc *alloc, Status *status);

#endif
