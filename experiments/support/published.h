/* published.h - speeds of attention kernels as the FlashAttention papers print them on the bars of their figures (§3.5, §4.6,
 * §5.5).
 *
 * Quotations, not our measurements: TFLOP/s of 4 batch heads N^2 d (half of it if causal, times 2.5 backward), so that a bar says
 * nothing but a time. Bars of hw_profiles/measured/published_figures.csv; tests/test_published.c compares the two.
 */
#ifndef ATTNLAB_PUBLISHED_H
#define ATTNLAB_PUBLISHED_H

#include "sim/formats.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    FA2_FIGURE_5, /* A100, forward */
    FA3_FIGURE_5, /* H100, forward */
    FA3_FIGURE_7, /* H100, forward, FP8 */
    FA4_FIGURE_4, /* B200, forward */
    FA4_FIGURE_5, /* B200, forward, head dim 192 of Q and K, 128 of V */
    FA4_FIGURE_6, /* B200, backward */
    FA2_FIGURE_6, /* A100, backward */
    FA3_FIGURE_6, /* H100, backward */
    PUBLISHED_FIGURES
} PublishedFigure;

typedef struct {
    const char *id;   /* how the ids of its rows in the CSV begin: "fa2-f5" */
    const char *chip; /* profile */
    const char *pass; /* "fwd", "bwd" */
    ElementType dtype;
} PublishedSource;

enum { PUBLISHED_POINTS = 5 };

/* One kernel's bars of one panel. Unused points are zero at the end. */
typedef struct {
    PublishedFigure figure;
    const char *kernel; /* "fa2", "cudnn 9.13" */
    uint64_t head_dim, heads;
    bool causal;
    struct {
        uint64_t seqlen, batch, tflops;
    } points[PUBLISHED_POINTS];
} PublishedCurve;

extern const PublishedCurve published_curves[];
extern const size_t published_curve_count;

const PublishedSource *published_source(PublishedFigure figure);
/* NULL when there is none. */
const PublishedCurve *published_curve(PublishedFigure figure, const char *kernel, uint64_t head_dim, bool causal);
/* 0 when the curve (or NULL) has no such point. */
uint64_t published_tflops(const PublishedCurve *curve, uint64_t seqlen);

#endif
