/* coverage.c - see coverage.h. */
#include "coverage.h"
#include "checked.h"

#include <string.h>

static bool spans_rows(const Region *region) { return region->cols == region->matrix_cols; }

/* Index of the first interval that ends at or after `row` (so that adjacent intervals merge). */
static uint32_t find_interval(const Coverage *coverage, uint64_t row)
{
    uint32_t low = 0, high = coverage->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (coverage->intervals[middle].end < row) low = middle + 1;
        else high = middle;
    }
    return low;
}

static uint64_t overlap_rows(const Coverage *coverage, uint64_t first, uint64_t end)
{
    if (coverage_holds(coverage, first, end)) return end - first;
    uint64_t rows = 0;
    for (uint32_t i = find_interval(coverage, first); i < coverage->count && coverage->intervals[i].first < end; i++) {
        const uint64_t from = max_u64(first, coverage->intervals[i].first), to = min_u64(end, coverage->intervals[i].end);
        if (to > from) rows += to - from;
    }
    return rows;
}

static void add_rows(Coverage *coverage, uint64_t first, uint64_t end, Alloc *alloc, Status *status)
{
    const uint32_t at = find_interval(coverage, first);
    uint32_t past = at;
    while (past < coverage->count && coverage->intervals[past].first <= end) past++;
    if (past == at) {                                           /* touches nothing: insert */
        if (coverage->count == coverage->capacity) {
            const uint32_t capacity = coverage->capacity ? 2 * coverage->capacity : 8;
            RowInterval *larger = alloc_resize(alloc, coverage->intervals, capacity, sizeof *larger, "row intervals", status);
            if (larger == NULL) return;
            coverage->intervals = larger;
            coverage->capacity = capacity;
        }
        memmove(&coverage->intervals[at + 1], &coverage->intervals[at], (coverage->count - at) * sizeof(RowInterval));
        coverage->intervals[at] = (RowInterval){first, end};
        coverage->count++;
    } else {                                                    /* merge [at, past) with the new one */
        coverage->intervals[at].first = min_u64(first, coverage->intervals[at].first);
        coverage->intervals[at].end = max_u64(end, coverage->intervals[past - 1].end);
        memmove(&coverage->intervals[at + 1], &coverage->intervals[past], (coverage->count - past) * sizeof(RowInterval));
        coverage->count -= past - at - 1;
    }
    coverage->last = at;
}

static uint64_t tile_bit(const Coverage *coverage, const Region *region)
{
    return region->row / coverage->tile_rows * coverage->grid_cols + region->col / coverage->tile_cols;
}

static bool start_grid(Coverage *coverage, const Region *region, Alloc *alloc, Status *status)
{
    coverage->tile_rows = region->grid_rows;
    coverage->tile_cols = region->grid_cols;
    coverage->grid_cols = ceil_div(region->matrix_cols, region->grid_cols);
    const uint64_t tiles = checked_mul(ceil_div(region->matrix_rows, region->grid_rows), coverage->grid_cols, "tile grid", status);
    coverage->tiles = alloc_array(alloc, tiles / 8 + 1, 1, "tile coverage", status);
    return coverage->tiles != NULL;
}

static bool on_grid(const Coverage *coverage, const Region *region)
{
    return coverage->tile_rows == region->grid_rows && coverage->tile_cols == region->grid_cols &&
           region->row % coverage->tile_rows == 0 && region->col % coverage->tile_cols == 0;
}

uint64_t coverage_add(Coverage *coverage, const Region *region, Alloc *alloc, Status *status)
{
    if (region->rows == 0 || region->cols == 0) return 0;
    if (spans_rows(region) && coverage->tiles == NULL) {
        const uint64_t end = region->row + region->rows;
        if (coverage_holds(coverage, region->row, end)) return 0;
        const uint64_t fresh = region->rows - overlap_rows(coverage, region->row, end);
        if (fresh > 0) add_rows(coverage, region->row, end, alloc, status);
        return fresh * region->cols;
    }
    if (coverage->tiles == NULL && !start_grid(coverage, region, alloc, status)) return 0;
    if (coverage->count > 0 || !on_grid(coverage, region)) {
        status_fail(status, STATUS_INFEASIBLE, "tile at row %" PRIu64 ", column %" PRIu64 " is off the launch's %" PRIu64 " x %" PRIu64 " grid",
                    region->row, region->col, coverage->tile_rows, coverage->tile_cols);
        return 0;
    }
    const uint64_t bit = tile_bit(coverage, region);
    const uint8_t mask = (uint8_t)(1u << (bit % 8));
    if (coverage->tiles[bit / 8] & mask) return 0;
    coverage->tiles[bit / 8] |= mask;
    return region->rows * region->cols;
}

void coverage_free(Coverage *coverage, Alloc *alloc)
{
    alloc_free(alloc, coverage->intervals);
    alloc_free(alloc, coverage->tiles);
    *coverage = (Coverage){0};
}
