/* coverage.h - which elements of one matrix in HBM a launch has touched.
 *
 * The ideal L2 reads each byte from HBM once and writes it once, so it must know what was touched before. Accesses that span whole
 * rows (Q, K, V, O, statistics) are kept as disjoint row intervals, sorted: a sweep over K/V blocks leaves one interval, and the
 * common question "is this inside the interval of last time" costs a few comparisons. Accesses to parts of rows (S and P of standard
 * attention) must lie on one grid of tiles per launch and are kept as one bit a tile.
 */
#ifndef ATTNLAB_COVERAGE_H
#define ATTNLAB_COVERAGE_H

#include "alloc.h"
#include "status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    uint64_t first, end;
} RowInterval;

typedef struct {
    RowInterval *intervals;     /* disjoint, ascending, not adjacent */
    uint32_t count, capacity;
    uint32_t last;              /* the interval that answered last time */
    uint8_t *tiles;             /* bit (row tile * tile columns + column tile) */
    uint64_t tile_rows, tile_cols, grid_cols;
} Coverage;

/* One tile of a matrix: rows [row, row + rows), columns [col, col + cols). */
typedef struct {
    uint64_t row, col, rows, cols;          /* what is touched, clipped to the matrix */
    uint64_t grid_rows, grid_cols;          /* the unclipped tile shape: the grid on which partial rows lie */
    uint64_t matrix_rows, matrix_cols;
} Region;

/* Whether whole rows [first, end) lie in the interval that answered last: the quick case of coverage_add, which then returns 0. */
static inline bool coverage_holds(const Coverage *coverage, uint64_t first, uint64_t end)
{
    if (coverage->last >= coverage->count) return false;
    const RowInterval *last = &coverage->intervals[coverage->last];
    return last->first <= first && end <= last->end;
}

/* Marks the region and returns how many of its elements had not been touched before. */
uint64_t coverage_add(Coverage *coverage, const Region *region, Alloc *alloc, Status *status);

/* Empty again. */
void coverage_free(Coverage *coverage, Alloc *alloc);

#endif
