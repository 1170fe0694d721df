/* population.h - several samples of random inputs to one head, and what their errors are together. */
#ifndef ATTNLAB_POPULATION_H
#define ATTNLAB_POPULATION_H

#include "algos/run.h"

#include <math.h>
#include <stdlib.h>

/* `seed` is the first sample's. */
typedef struct {
    uint64_t N, d, samples, seed;
    TileSize tiles;
    double dropout;
} Population;

static inline bool same_population(const Population *a, const Population *b)
{
    return a->N == b->N && a->d == b->d && a->samples == b->samples && a->seed == b->seed && a->tiles.Br == b->tiles.Br &&
           a->tiles.Bc == b->tiles.Bc && fabs(a->dropout - b->dropout) <= 0.0;
}

/* Of the errors of all samples. */
typedef struct {
    double low, median, high;
} Range;

static inline int compare_errors(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts them. The median of an even number is the mean of two. */
static inline Range range_of_errors(double *errors, size_t count)
{
    qsort(errors, count, sizeof *errors, compare_errors);
    return (Range){errors[0], (errors[(count - 1) / 2] + errors[count / 2]) / 2, errors[count - 1]};
}

/* max |x - y| over the elements of two tensors of one shape. A NaN stays. */
static inline double largest_difference(const Machine *a, const Tensor *x, const Machine *b, const Tensor *y)
{
    double worst = 0.0;
    for (uint64_t i = 0; i < tensor_elements(x); i++) {
        const double difference = fabs(tensor_value(a, x, i) - tensor_value(b, y, i));
        if (!(difference <= worst)) worst = difference;
    }
    return worst;
}

#endif
