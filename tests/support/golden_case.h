/* golden_case.h - reads an attention case of tests/golden (format: tests/golden/README.md) and runs an algorithm on it. */
#ifndef ATTNLAB_GOLDEN_CASE_H
#define ATTNLAB_GOLDEN_CASE_H

#include "algos/run.h"

typedef struct {
    char name[64];
    AttentionShape shape;
    double dropout;
    double *q, *k, *v, *o, *lse;            /* forward */
    double *d_o, *dq, *dk, *dv, *keep;      /* backward and dropout; NULL when the case has none */
} GoldenCase;

bool golden_read(const char *path, GoldenCase *golden, Alloc *alloc, Status *status);
void golden_free(GoldenCase *golden, Alloc *alloc);

typedef struct {
    const Algorithm *algorithm;
    TileSize tiles;
    Precision precision;
    bool poison;                /* tiles and outputs start as NaN */
} NumericSetup;

/* Runs the forward pass on `chip` (loaded from "unbounded" by the caller). q, k, v: row-major [batch, heads, rows, d]. The caller frees the run. */
bool numeric_forward(AttentionRun *run, const NumericSetup *setup, const Profile *chip, const AttentionShape *shape, const double *q,
                     const double *k, const double *v, Alloc *alloc, Status *status);

/* Forward and backward of a golden case that has gradients; a dropout case uses its own keep mask. The caller frees the run. */
bool numeric_backward(AttentionRun *run, const NumericSetup *setup, BackwardVariant variant, const Profile *chip, const GoldenCase *golden,
                      Alloc *alloc, Status *status);

#endif
