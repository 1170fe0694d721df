/* lecture_map.h - from the lecture to the programs: its sections, its lost tables, the numbered parts of its scripts, its
 * claims.
 *
 * What the lecture is made of stands in one table in lecture_map.c; programs, tables, claims and verdicts come from the
 * registry. A program that is named there and not in the registry is shown as not yet there, so the map never promises more
 * than the build holds. LECTURE_MAP.md is this map as Markdown: lecture --map --format md.
 */
#ifndef ATTNLAB_LECTURE_MAP_H
#define ATTNLAB_LECTURE_MAP_H

#include "experiment.h"

#include <stddef.h>

/* The program name under which the map's report is written. */
#define LECTURE_MAP_NAME "lecture --map"
extern const ReportSpec lecture_map_spec;

/* Fills a report made with lecture_map_spec from these programs. A mismatch is recorded for: a program that is no section's
 * own or whose section differs from the map's, a table that its program does not have, a program whose place in the map
 * names no table, a claim whose section is not in the lecture or whose id is used twice. */
void lecture_map_fill(const Experiment *const *programs, size_t count, Report *report);

#endif
