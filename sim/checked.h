/* checked.h - exact counts: 64-bit unsigned integers that refuse to wrap.
 *
 * A count never passes through a double and never wraps. Each helper returns the exact result, or records STATUS_INFEASIBLE with
 * the name of the quantity and both operands. This is the only header of sim/ that the closed forms may include (with status.h):
 * a formula must not be fed by the counter that it checks.
 */
#ifndef ATTNLAB_CHECKED_H
#define ATTNLAB_CHECKED_H

#include "status.h"

#include <inttypes.h>
#include <stdint.h>

/* a + b; `what` names the sum in the error. */
static inline uint64_t checked_add(uint64_t a, uint64_t b, const char *what, Status *status)
{
    if (a > UINT64_MAX - b) {
        status_fail(status, STATUS_INFEASIBLE, "%s overflows 64 bits: %" PRIu64 " + %" PRIu64, what, a, b);
        return UINT64_MAX;
    }
    return a + b;
}

/* a * b; `what` names the product in the error. */
static inline uint64_t checked_mul(uint64_t a, uint64_t b, const char *what, Status *status)
{
    if (a != 0 && b > UINT64_MAX / a) {
        status_fail(status, STATUS_INFEASIBLE, "%s overflows 64 bits: %" PRIu64 " * %" PRIu64, what, a, b);
        return UINT64_MAX;
    }
    return a * b;
}

/* ceil(a / b) for b > 0, without overflow. */
static inline uint64_t ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

static inline uint64_t min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }

#endif
