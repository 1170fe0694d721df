/* test.h - the smallest harness that prints both values and the formula when a check fails.
 *
 * A test program is a main() that creates a Test, runs table-driven checks and returns test_end(). Checks do not stop the run;
 * only the first twenty failures are printed.
 */
#ifndef ATTNLAB_TEST_H
#define ATTNLAB_TEST_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    uint64_t checks;
    uint64_t failures;
} Test;

/* True and silent when ok; otherwise counts a failure and says whether to print it. */
static inline bool test_failed(Test *t, bool ok)
{
    t->checks++;
    if (ok) return false;
    return ++t->failures <= 20;
}

/* what: the case and the formula, e.g. "fa2 N=5 Bc=2: K reads = Tr*Nk*d". */
static inline void check_u64(Test *t, uint64_t got, uint64_t want, const char *what)
{
    if (test_failed(t, got == want)) printf("FAIL %s: got %" PRIu64 ", want %" PRIu64 "\n", what, got, want);
}

static inline void check_i64(Test *t, int64_t got, int64_t want, const char *what)
{
    if (test_failed(t, got == want)) printf("FAIL %s: got %" PRId64 ", want %" PRId64 "\n", what, got, want);
}

static inline void check_true(Test *t, bool ok, const char *what)
{
    if (test_failed(t, ok)) printf("FAIL %s\n", what);
}

static inline void check_text(Test *t, const char *got, const char *want, const char *what)
{
    if (test_failed(t, strcmp(got, want) == 0)) printf("FAIL %s: got \"%s\", want \"%s\"\n", what, got, want);
}

/* True when got is within tolerance * max(1, |want|) of want. NaN matches only NaN, an infinity only itself. */
static inline bool close_enough(double got, double want, double tolerance)
{
    if (want != want || got != got) return want != want && got != got;
    if (got == want) return true;
    const double magnitude = want < 0 ? -want : want, error = got > want ? got - want : want - got;
    return error - error == 0 && error <= tolerance * (magnitude > 1 ? magnitude : 1);   /* an infinite error is never small */
}

static inline void check_close(Test *t, double got, double want, double tolerance, const char *what)
{
    if (test_failed(t, close_enough(got, want, tolerance)))
        printf("FAIL %s: got %.17g, want %.17g within %g\n", what, got, want, tolerance);
}

static inline int test_end(const Test *t, const char *name)
{
    printf("%s: %" PRIu64 " checks, %" PRIu64 " failures\n", name, t->checks, t->failures);
    if (t->checks == 0) printf("FAIL %s: no check was run\n", name);
    return t->failures == 0 && t->checks > 0 ? 0 : 1;
}

#endif
