/* spread.h - mean and standard deviation of a quantity over seeds. */
#ifndef ATTNLAB_SPREAD_H
#define ATTNLAB_SPREAD_H

#include <math.h>
#include <stdint.h>

/* All zero: nothing seen yet. Sums are kept about the first value, so that close values lose no digits. */
typedef struct {
    uint64_t count;
    double first, sum, squares, least, most;
} Spread;

static inline void spread_add(Spread *s, double x)
{
    if (s->count++ == 0) s->first = s->least = s->most = x;
    s->sum += x - s->first;
    s->squares += (x - s->first) * (x - s->first);
    s->least = x < s->least ? x : s->least;
    s->most = x > s->most ? x : s->most;
}

static inline double spread_mean(const Spread *s) { return s->count == 0 ? 0.0 : s->first + s->sum / (double)s->count; }

/* Root of the mean square. */
static inline double spread_rms(const Spread *s)
{
    return s->count == 0 ? 0.0 : sqrt((s->squares + 2 * s->first * s->sum) / (double)s->count + s->first * s->first);
}

/* Of the sample (divided by count - 1); 0 for one value. */
static inline double spread_deviation(const Spread *s)
{
    if (s->count < 2) return 0.0;
    const double variance = (s->squares - s->sum * s->sum / (double)s->count) / (double)(s->count - 1);
    return variance > 0.0 ? sqrt(variance) : 0.0;
}

#endif
