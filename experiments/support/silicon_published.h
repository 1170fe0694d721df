/* silicon_published.h - the speeds that papers print, beside the time model, and which of two kernels the model puts first.
 *
 * Every bar of published.h at N >= 1024 whose kernel the model has is walked on its chip: FlashAttention-1, -2, -3, -4 and standard
 * attention by the real kernels' tiles, cuDNN 9.1 as the class of kernel it is (FlashAttention-3 without overlap inside a warpgroup; up to d = 128, where its tiles are known).
 * Nothing is fitted to the bars. A ranked pair is two times of the same problem, by the same source, that differ by more than 10 %; it is ranked
 * right when the model has the same one faster.
 */
#ifndef ATTNLAB_SILICON_PUBLISHED_H
#define ATTNLAB_SILICON_PUBLISHED_H

#include "silicon_times.h"
#include "timed_run.h"

/* One bar: who, what, and two times. */
typedef struct {
    const PublishedCurve *curve;
    size_t point;
    double printed_us, model_us;
} PublishedTime;

typedef struct {
    PublishedTime *rows;
    size_t count;
    Alloc *alloc;
} PublishedTimes;

/* Walks all bars: some seconds. published_times_free is the caller's even after a failure. */
bool published_times_model(PublishedTimes *times, Report *report, Alloc *alloc, Status *status);
void published_times_free(PublishedTimes *times);

/* Errors |model / measured - 1| of some rows. */
typedef struct {
    size_t count;
    double median, worst;       /* signed: of the row with the largest error */
    double share;               /* of rows within the limit, 0 to 1 */
    double ninth;               /* nine of ten rows err by no more */
} TimeErrors;

/* errors: [count] signed; sorted by size on return. */
TimeErrors time_errors(double *errors, size_t count, double limit);

typedef struct {
    size_t pairs, right;
} Ranking;

/* Pairs of times of the same problem that differ by more than 10 %. */
Ranking rank_published(const PublishedTimes *times);
Ranking rank_measured(const SiliconTimes *times);

#endif
