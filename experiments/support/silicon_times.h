/* silicon_times.h - a file of wall times, row by row beside the time model (sim/launch_time.h).
 *
 * flash is walked as FlashAttention-2, with two copies that PyTorch makes before its backward, its decoding as Flash-Decoding with its own rule
 * for the parts; cudnn as FlashAttention-3 (forward 128 x 128 tiles, softmax and products one after the other; backward 64 x 128); std_* as
 * the launches of standard attention, each timed alone. Launches of a pass follow one another. Constants come from
 * micro-benchmarks, from instruction counts and, the interval between instructions, from cuDNN's forward cycles (hw_profiles/h200.txt, sim/cost.c);
 * tiles and schedules from the kernels' names and source.
 */
#ifndef ATTNLAB_SILICON_TIMES_H
#define ATTNLAB_SILICON_TIMES_H

#include "silicon_rows.h"

typedef struct {
    const char *kernel, *pass;              /* columns of the file */
    AttentionShape shape;
    size_t line;
    double chip_us, model_us;               /* model_us: 0 when skipped */
    const char *stands_for;                 /* the algorithm that was walked */
    const char *bound;                      /* what binds the longest launch */
    const char *skipped;                    /* why there is no model; NULL: there is one */
} SiliconTime;

typedef struct {
    CsvTable table;
    SiliconTime *rows;
    size_t count;
    Alloc *alloc;
} SiliconTimes;

/* Reads `path`, or the built-in h200_timings.csv when it is NULL. silicon_times_free is the caller's even after a failure. */
bool silicon_times_load(SiliconTimes *times, const char *path, Alloc *alloc, Status *status);
void silicon_times_free(SiliconTimes *times);

/* Walks one row on the chip: some milliseconds. */
bool silicon_time_model(SiliconTime *row, const Profile *chip, Alloc *alloc, Status *status);

#endif
