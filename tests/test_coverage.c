/* test_coverage.c - which elements a launch has touched: row intervals and tile bits against one flag per element. */
/* label: unit, property */
#include "test.h"

#include "support/count_case.h"

#include "sim/coverage.h"

typedef struct {
    Test test;
    Alloc alloc;
} Context;

enum { MOST_ROWS = 64, MOST_COLS = 40 };

typedef struct {
    bool touched[MOST_ROWS][MOST_COLS];
} Flags;

static uint64_t flag(Flags *flags, const Region *region)
{
    uint64_t fresh = 0;
    for (uint64_t r = region->row; r < region->row + region->rows; r++)
        for (uint64_t c = region->col; c < region->col + region->cols; c++) {
            fresh += !flags->touched[r][c];
            flags->touched[r][c] = true;
        }
    return fresh;
}

/* The intervals are what the header says: disjoint, ascending, not adjacent; and `last` is one of them. */
static void check_intervals(Context *x, const Coverage *coverage, const Flags *flags, uint64_t rows)
{
    uint64_t covered = 0, flagged = 0;
    for (uint32_t i = 0; i < coverage->count; i++) {
        const RowInterval *at = &coverage->intervals[i];
        check_true(&x->test, at->first < at->end, "an interval is not empty");
        check_true(&x->test, i == 0 || coverage->intervals[i - 1].end < at->first, "intervals ascend and do not touch");
        covered += at->end - at->first;
    }
    for (uint64_t r = 0; r < rows; r++) flagged += flags->touched[r][0];
    check_u64(&x->test, covered, flagged, "rows in the intervals");
    check_true(&x->test, coverage->count == 0 || coverage->last < coverage->count, "the last interval is one of them");
}

static void check_row_sequence(Context *x, uint64_t seed)
{
    uint64_t random = seed;
    Status status = {0};
    Coverage coverage = {0};
    Flags flags = {{{false}}};
    const uint64_t rows = random_between(&random, 1, MOST_ROWS), cols = random_between(&random, 1, 3),
                   longest = random_between(&random, 1, rows);
    for (int i = 0; i < 60; i++) {
        const uint64_t row = random_between(&random, 0, rows - 1),
                       length = min_u64(random_between(&random, 0, longest), rows - row);
        const Region region = {row, 0, length, cols, longest, cols, rows, cols};
        const bool held = coverage_holds(&coverage, row, row + length);
        const uint64_t fresh = flag(&flags, &region);
        check_true(&x->test, !held || fresh == 0, "coverage_holds only what is there");
        check_u64(&x->test, coverage_add(&coverage, &region, &x->alloc, &status), fresh, "rows not touched before x columns");
        check_true(&x->test, length == 0 || coverage_holds(&coverage, row, row + length) || fresh == 0, "what was added is held");
        check_intervals(x, &coverage, &flags, rows);
    }
    check_text(&x->test, status.text, "", "rows");
    coverage_free(&coverage, &x->alloc);
}

/* Parts of rows on a grid of tiles, the last ones clipped. */
static void check_tile_sequence(Context *x, uint64_t seed)
{
    uint64_t random = seed;
    Status status = {0};
    Coverage coverage = {0};
    Flags flags = {{{false}}};
    const uint64_t rows = random_between(&random, 1, MOST_ROWS), cols = random_between(&random, 2, MOST_COLS);
    const uint64_t tile_rows = random_between(&random, 1, rows), tile_cols = random_between(&random, 1, cols - 1);
    for (int i = 0; i < 60; i++) {
        const uint64_t row = random_between(&random, 0, ceil_div(rows, tile_rows) - 1) * tile_rows;
        const uint64_t col = random_between(&random, 0, ceil_div(cols, tile_cols) - 1) * tile_cols;
        const Region region = {row,  col, min_u64(tile_rows, rows - row), min_u64(tile_cols, cols - col), tile_rows, tile_cols,
                               rows, cols};
        check_u64(&x->test, coverage_add(&coverage, &region, &x->alloc, &status), flag(&flags, &region),
                  "elements of a tile not touched before");
    }
    check_text(&x->test, status.text, "", "tiles");
    check_u64(&x->test, coverage.count, 0, "tiles are kept as bits");
    coverage_free(&coverage, &x->alloc);
    check_true(&x->test, coverage.tiles == NULL && coverage.intervals == NULL, "empty again");
}

/* A matrix of 10 x 12: after the first region, what may the second be? The text is the refusal. */
static void check_off_grid(Context *x)
{
    static const struct {
        Region first, second;
        const char *error;
    } rows[] = {
        {{0, 0, 4, 5, 4, 5, 10, 12}, {4, 5, 4, 5, 4, 5, 10, 12}, ""},
        {{0, 0, 4, 5, 4, 5, 10, 12}, {8, 10, 2, 2, 4, 5, 10, 12}, ""},
        {{0, 0, 4, 5, 4, 5, 10, 12}, {1, 0, 4, 5, 4, 5, 10, 12}, "tile at row 1, column 0 is off the launch's 4 x 5 grid"},
        {{0, 0, 4, 5, 4, 5, 10, 12}, {0, 4, 4, 5, 4, 5, 10, 12}, "tile at row 0, column 4 is off the launch's 4 x 5 grid"},
        {{0, 0, 4, 5, 4, 5, 10, 12}, {0, 0, 2, 5, 2, 5, 10, 12}, "tile at row 0, column 0 is off the launch's 4 x 5 grid"},
        {{0, 0, 4, 5, 4, 5, 10, 12}, {0, 0, 4, 4, 4, 4, 10, 12}, "tile at row 0, column 0 is off the launch's 4 x 5 grid"},
        {{0, 0, 4, 5, 4, 5, 10, 12}, {0, 0, 4, 12, 4, 12, 10, 12}, "tile at row 0, column 0 is off the launch's 4 x 5 grid"},
        {{4, 5, 4, 5, 4, 5, 10, 12}, {0, 0, 4, 5, 4, 5, 10, 12}, ""},
        {{1, 0, 4, 5, 4, 5, 10, 12}, {4, 5, 4, 5, 4, 5, 10, 12}, "tile at row 1, column 0 is off the launch's 4 x 5 grid"},
        {{0, 0, 4, 12, 4, 12, 10, 12}, {4, 0, 4, 5, 4, 5, 10, 12}, "tile at row 4, column 0 is off the launch's 4 x 5 grid"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        Status status = {0};
        Coverage coverage = {0};
        coverage_add(&coverage, &rows[i].first, &x->alloc, &status);
        coverage_add(&coverage, &rows[i].second, &x->alloc, &status);
        check_text(&x->test, status.text, rows[i].error, "off the grid");
        check_u64(&x->test, status.code, rows[i].error[0] ? STATUS_INFEASIBLE : STATUS_OK, "off the grid");
        coverage_free(&coverage, &x->alloc);
    }
}

/* A sweep over blocks leaves one interval; 2^62 rows are no more than two. */
static void check_sizes(Context *x)
{
    Status status = {0};
    Coverage coverage = {0};
    const uint64_t rows = UINT64_C(1) << 62;
    for (uint64_t i = 0; i < 1000; i++)
        coverage_add(&coverage, &(Region){i * 128, 0, 128, 2, 128, 2, rows, 2}, &x->alloc, &status);
    check_u64(&x->test, coverage.count, 1, "a sweep is one interval");
    check_u64(&x->test, coverage_add(&coverage, &(Region){1, 0, rows - 1, 2, rows, 2, rows, 2}, &x->alloc, &status),
              2 * (rows - 128000), "the rest");
    check_u64(&x->test, coverage.count, 1, "still one interval");
    check_text(&x->test, status.text, "", "many rows");
    coverage_free(&coverage, &x->alloc);
}

/* Without memory: an error, no crash, and what was there stays. */
static void check_no_memory(Context *x)
{
    Alloc none = {.limit_bytes = 1};
    Status status = {0};
    Coverage coverage = {0};
    coverage_add(&coverage, &(Region){0, 0, 4, 12, 4, 12, 10, 12}, &none, &status);
    check_u64(&x->test, status.code, STATUS_IO, "no memory for intervals");
    status = (Status){0};
    check_u64(&x->test, coverage_add(&coverage, &(Region){0, 0, 4, 5, 4, 5, 10, 12}, &none, &status), 0, "no memory for tiles");
    check_u64(&x->test, status.code, STATUS_IO, "no memory for tiles");
    coverage_free(&coverage, &none);
    check_u64(&x->test, none.live_bytes, 0, "nothing is left");
}

int main(void)
{
    Context x = {0};
    for (uint64_t seed = 1; seed <= 500; seed++) {
        check_row_sequence(&x, 1000 * seed);
        check_tile_sequence(&x, 1000 * seed);
    }
    check_off_grid(&x);
    check_sizes(&x);
    check_no_memory(&x);
    check_u64(&x.test, x.alloc.live_bytes, 0, "bytes still allocated at the end");
    return test_end(&x.test, "coverage");
}
