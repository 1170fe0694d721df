/* backward_case.h - every way to run a backward pass, and a run of one: what the backward tests have in common. */
#ifndef ATTNLAB_BACKWARD_CASE_H
#define ATTNLAB_BACKWARD_CASE_H

#include "algos/run.h"

typedef struct {
    const char *name;
    const Algorithm *algorithm;
    BackwardVariant variant;
} BackwardWay;

enum { WAY_STANDARD, WAY_FA2, WAY_FA2_DIRECT, WAY_FA2_DETERMINISTIC, WAY_FA2_BY_QUERIES, WAY_FA3, WAY_FA3_ONE_DQ, WAY_FA4, BACKWARD_WAYS };

extern const BackwardWay backward_ways[BACKWARD_WAYS];

/* The forward passes that have dropout. */
enum { DROPOUT_FORWARDS = 5 };
extern const Algorithm *const dropout_forwards[DROPOUT_FORWARDS];

/* Row-major [batch, heads, rows, d], as Q, K, V, dO; keep: [batch, heads, N_q, N_k], for DROPOUT_GIVEN. What is NULL is random
 * (normal; every other element kept). */
typedef struct {
    AttentionShape shape;
    const double *q, *k, *v, *d_o, *keep;
} BackwardInputs;

/* Forward and backward with the same tiles when computing, backward alone when counting; in float64 if that is the shape's type.
 * The caller frees the run, also after a failure. */
bool run_backward(AttentionRun *run, const BackwardWay *way, TileSize tiles, MachineConfig config, const Profile *chip,
                  const BackwardInputs *inputs, Alloc *alloc, Status *status);

#endif
