/* ratios.h - quotients and units for the cells of tables. */
#ifndef ATTNLAB_RATIOS_H
#define ATTNLAB_RATIOS_H

#include <stdint.h>

/* 0 where nothing is divided by. */
static inline double ratio(double a, double b) { return b > 0 ? a / b : 0; }
static inline double per(uint64_t a, uint64_t b) { return ratio((double)a, (double)b); }
static inline double percent_of(uint64_t part, uint64_t whole) { return 100 * per(part, whole); }

static inline double mega(uint64_t x) { return (double)x / 1e6; }
static inline double tera(uint64_t x) { return (double)x / 1e12; }
static inline double mebi(uint64_t bytes) { return (double)bytes / (1 << 20); }

#endif
