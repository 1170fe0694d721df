/* timed_run.h - one algorithm on one problem and chip: what it moves at each level and how long the time model gives it.
 *
 * A walk in MODE_COUNT with time and an ideal L2. Launches follow one another: cycles and busy times add up. TFLOP/s are by the
 * benchmark convention (4 batch heads N^2 d, half of it if causal, times 2.5 backward), as the papers print them. Lecture §3.5,
 * §4.6, §5.5, §7.
 */
#ifndef ATTNLAB_TIMED_RUN_H
#define ATTNLAB_TIMED_RUN_H

#include "published.h"
#include "report.h"

#include "algos/run.h"

typedef struct {
    const Algorithm *algorithm;
    const Profile *chip;
    AttentionShape shape;
    TileSize tiles; /* {0, 0}: those of the real kernel that fit */
    Fa3Options fa3;
    Fa4Options fa4;
    const BackwardVariant *backward; /* NULL: forward */
} TimedSetup;

typedef struct {
    Totals totals;
    TileSize tiles;
    uint64_t launches;
    uint64_t blocks, blocks_per_sm; /* of the longest launch */
    uint64_t cycles, busy[UNIT_KINDS];
    double microseconds, tflops;
    const char *bound; /* of the longest launch */
} TimedRun;

/* Counts are checked against the closed form (a mismatch goes to the report). False with STATUS_INFEASIBLE when the chip lacks
 * the algorithm's instruction or a tile does not fit. */
bool timed_run(TimedRun *run, const TimedSetup *setup, Report *report, Alloc *alloc, Status *status);

/* The same of a run that is over: its forward or its backward pass, whichever ran last. False when a product leaves 64 bits. */
bool timed_run_sum(TimedRun *out, const AttentionRun *run, bool backward, Status *status);

/* Matrix FLOPs by the benchmark convention; the backward counts two and a half forwards. */
uint64_t run_convention_flops(const AttentionRun *run, bool backward, Status *status);

/* Whether the chip has the instruction that the algorithm is written with. */
static inline bool runs_on(const Algorithm *algorithm, const Profile *chip) { return profile_has(chip, algorithm->instruction); }

/* Bytes between L2 and the SMs, between HBM and L2, and through shared memory, both directions. */
static inline uint64_t l2_bytes(const Totals *t) { return t->l2_to_sm_bytes + t->sm_to_l2_bytes; }
static inline uint64_t hbm_bytes(const Totals *t) { return t->hbm_read_bytes + t->hbm_write_bytes; }
static inline uint64_t smem_bytes(const Totals *t) { return t->smem_operand_bytes + t->smem_thread_bytes + t->smem_copy_bytes; }

/* FlashAttention-4 as it ships on the B200 for d = 128: 3 of 16 exponentials by polynomial, 2 with a causal mask (its tuning table), O rescaled
 * at the first key block only (what random data give, §5.3). */
Fa4Options fa4_as_shipped(bool causal);

/* The problem of one bar. */
AttentionShape published_shape(const PublishedCurve *curve, size_t point);

/* 100 (ours / theirs - 1) */
static inline double error_percent(double ours, double theirs) { return theirs > 0 ? 100 * (ours / theirs - 1) : 0; }

#endif
