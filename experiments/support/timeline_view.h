/* timeline_view.h - a simulated Timeline (sim/timeline.h) as characters and as trace events.
 *
 * Characters: a line per unit that was busy and a line per stream, a column for so many cycles, the beginning only. Units show
 * who has them (a, b, ... are the streams), streams what they do.
 *
 * Trace events: the JSON that ui.perfetto.dev and chrome://tracing open. A track per unit, and per stream one for what holds it
 * and one for each unit that its asynchronous operations occupy; on none of them two events overlap. A cycle is written as a
 * microsecond. The first TRACE_OPERATIONS operations only; otherData says how many there were.
 */
#ifndef ATTNLAB_TIMELINE_VIEW_H
#define ATTNLAB_TIMELINE_VIEW_H

#include "report.h"

#include "algos/run.h"

#include "sim/timeline.h"

enum { TIMELINE_COLUMNS = 96, TRACE_OPERATIONS = 4096 };

/* Records one thread block, Br queries of one head, and simulates it alone on its SM. The shape is cut to that; under a causal
 * mask these are the last queries, which see all keys. For algorithms of one kernel. setup->config is replaced. fa3, fa4: NULL, or
 * options of that algorithm. `timeline` is initialised here; timeline_free is the caller's even after a failure. */
bool timeline_record_block(Timeline *timeline, const RunSetup *setup, const AttentionShape *shape, const Fa3Options *fa3,
                           const Fa4Options *fa4, Alloc *alloc, Status *status);

/* Cycles per column with which the whole timeline, or its first `cycles`, fits: a power of two. */
uint64_t timeline_scale(const Timeline *timeline, uint64_t cycles);

/* Adds the lines to a picture (a table without columns). */
void timeline_picture(Table *picture, const Timeline *timeline, uint64_t cycles_per_column);

/* What the characters mean; once for all pictures of a report. */
void timeline_legend(Table *picture);

/* Writes the trace whole or not at all (output.h). title: what ran. STATUS_IO. */
bool timeline_trace(const char *path, const char *title, const Timeline *timeline, Alloc *alloc, Status *status);

#endif
