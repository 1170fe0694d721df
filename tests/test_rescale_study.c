/* test_rescale_study.c - conditional rescaling on data: the kernel's counters are the rule's, weights stay below 2^tau (lecture §5.3).
 *
 *   decisions   kernel = replayed rule at every threshold and number of rows that decide together; a finer decision never rescales more rows;
 *               a higher threshold never rescales more; the first key block always does
 *   bound       the largest weight is at most 2^tau; at tau = 200 float32 overflows, at 120 not
 *   worst case  exercise 9: finite at 128 - log2 N, NaN a tenth above
 *   spread      scores times s with threshold s tau decide as before
 */
/* label: property */
#include "test.h"

#include "experiments/support/exp_facts.h"
#include "experiments/support/rescale_study.h"
#include "experiments/support/spread.h"

#include <math.h>

static void check_run(Test *t, RescaleCase *c, double tau, uint32_t rows)
{
    RescaleOutcome outcome;
    char what[96];
    snprintf(what, sizeof what, "growth %g, tau %g, %u rows decide", c->setup.growth, tau, rows);
    check_true(t, rescale_run(c, tau, rows, true, &outcome), what);
    check_u64(t, outcome.rescaled, rescale_decisions(c, tau, rows, 1), what);
    check_u64(t, outcome.rescaled + outcome.skipped, rescale_decision_count(c, rows), what);
    check_true(t, outcome.rescaled >= c->setup.queries / rows, what);
    if (tau > 120) return;
    check_true(t, outcome.largest_weight <= tau + 1e-4, what);
    check_u64(t, outcome.nonfinite, 0, what);
    check_true(t, outcome.max_error < (c->setup.growth > 1 ? 1e-4 : 1e-6), what);
}

static void check_order(Test *t, const RescaleCase *c)
{
    static const uint32_t rows[] = {1, 2, 32, 64, 128};
    static const double taus[] = {0, 0.5, 1, 2, 4, 8, 16, 100};
    for (size_t i = 0; i < 8; i++)
        for (size_t g = 0; g < 5; g++) {
            const uint64_t moved = rescale_decisions(c, taus[i], rows[g], 1);
            if (g > 0) check_true(t, moved * rows[g] >= rescale_decisions(c, taus[i], rows[g - 1], 1) * rows[g - 1], "more rows together rescale more rows");
            if (i > 0) check_true(t, moved <= rescale_decisions(c, taus[i - 1], rows[g], 1), "a higher threshold rescales no more");
            check_u64(t, rescale_decisions(c, 4 * taus[i], rows[g], 4), moved, "scores and threshold times 4");
        }
}

static void check_case(Test *t, double growth, Alloc *alloc)
{
    static const uint32_t rows[] = {1, 32, 128};
    static const double taus[] = {0, 1, 8, 120, 200};
    Status status = {0};
    RescaleCase c;
    const RescaleSetup setup = {11, 256, 1024, 32, growth};
    check_true(t, rescale_case_init(&c, &setup, alloc, &status), status.text);
    for (size_t i = 0; i < 5; i++)
        for (size_t g = 0; g < 3; g++) check_run(t, &c, taus[i], rows[g]);
    check_order(t, &c);
    rescale_case_free(&c);
}

/* On N(0,1) nothing but the first block rescales at tau = 8; growing scores overflow at 200. */
static void check_ends(Test *t, Alloc *alloc)
{
    Status status = {0};
    RescaleCase plain, growing;
    RescaleOutcome outcome;
    const RescaleSetup setup = {1, 256, 2048, 64, 1}, steep = {1, 256, 2048, 64, 50};
    check_true(t, rescale_case_init(&plain, &setup, alloc, &status) && rescale_run(&plain, 8, 128, false, &outcome), status.text);
    check_u64(t, outcome.rescaled, 2, "N(0,1), tau = 8: the first block of each query tile");
    check_true(t, isnan(outcome.max_error), "an error that was not asked for");
    check_true(t, rescale_case_init(&growing, &steep, alloc, &status) && rescale_run(&growing, 200, 128, false, &outcome), status.text);
    check_true(t, outcome.nonfinite > 1000, "growing, tau = 200: overflow");
    check_true(t, rescale_largest_score(&growing) > 128, "the largest score is past 2^128");
    rescale_case_free(&plain);
    rescale_case_free(&growing);
}

static void check_worst(Test *t, Alloc *alloc)
{
    static const uint64_t lengths[] = {256, 2048, 16384};
    for (size_t i = 0; i < 3; i++) {
        Status status = {0};
        double at = 0, above = 0;
        const double bound = rescale_threshold_bound(lengths[i]);
        check_true(t, rescale_worst_case(lengths[i], bound, &at, alloc, &status) && rescale_worst_case(lengths[i], bound + 1.1, &above, alloc, &status),
                   status.text);
        check_close(t, at, 1.0, 1e-4, "finite and right at the bound");
        check_true(t, isnan(above), "infinity over infinity above it");
    }
}

static void check_spread(Test *t)
{
    Spread s = {0};
    check_close(t, spread_deviation(&s) + spread_mean(&s), 0, 0, "nothing");
    const double values[] = {1e9 + 1, 1e9 + 2, 1e9 + 3, 1e9 + 6};
    for (int i = 0; i < 4; i++) spread_add(&s, values[i]);
    check_close(t, spread_mean(&s), 1e9 + 3, 0, "mean");
    check_close(t, spread_deviation(&s), sqrt(14.0 / 3), 1e-15, "sample deviation");
    check_close(t, s.most - s.least, 5, 0, "range");
}

int main(void)
{
    Test t = {0};
    Alloc alloc = {0};
    check_case(&t, 1, &alloc);
    check_case(&t, 50, &alloc);
    check_ends(&t, &alloc);
    check_worst(&t, &alloc);
    check_spread(&t);
    Status status = {0};
    RescaleCase c;
    const RescaleSetup bad = {1, 100, 1024, 64, 1};
    check_true(&t, !rescale_case_init(&c, &bad, &alloc, &status) && status.code == STATUS_USAGE, "100 queries are refused");
    rescale_case_free(&c);
    check_u64(&t, alloc.live_bytes, 0, "memory left at the end");
    return test_end(&t, "rescale_study");
}
