/* bandwidth.c - see bandwidth.h. */
#include "bandwidth.h"
#include "checked.h"

/* 1 / x^3 */
static double inverse_cube(double x) { return 1.0 / (x * x * x); }

/* The largest whole x of which 1 / x^3 is still at least y, below `most`: bisection, so that no root function of a libm has a
 * say. */
static uint64_t inverse_cube_root(double y, uint64_t most)
{
    uint64_t low = 0, high = most;
    while (low < high) {
        const uint64_t middle = low + (high - low + 1) / 2;
        if (inverse_cube((double)middle) >= y)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

uint64_t hbm_bandwidth(const Profile *p, uint64_t busy)
{
    const uint64_t sustained = p->hbm_sustained_bytes_per_second_per_chip, one = p->hbm_bytes_per_second_per_sm,
                   n = min_u64(busy, p->sm_count);
    if (sustained == PROFILE_UNLIMITED) return PROFILE_UNLIMITED;
    if (n == p->sm_count || n == 0 || one == PROFILE_UNLIMITED) return n > 0 ? sustained : 0;
    const double all = (double)p->sm_count * (double)one, some = (double)n * (double)one;
    if (all <= (double)sustained) return n * one;                            /* together they do not fill it */
    const double room = inverse_cube((double)sustained) - inverse_cube(all); /* 1 / A^3 */
    return inverse_cube_root(inverse_cube(some) + room, sustained);
}

uint64_t hbm_nanoseconds(const Profile *p, uint64_t bytes, uint64_t busy)
{
    const uint64_t rate = hbm_bandwidth(p, busy);
    if (rate == PROFILE_UNLIMITED || rate == 0) return 0;
    uint64_t time = bytes / rate, rest = bytes % rate;
    for (int power = 0; power < 3; power++) { /* seconds to milli-, micro-, nanoseconds: three digits more each time */
        rest *= 1000;                         /* rates stay far below 2^64 / 1000 */
        time = time < UINT64_MAX / 1001 ? 1000 * time + rest / rate : UINT64_MAX - 1;
        rest %= rate;
    }
    return time + (rest > 0);
}
