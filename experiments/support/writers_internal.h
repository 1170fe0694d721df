/* writers_internal.h - shared by the four writers. */
#ifndef ATTNLAB_WRITERS_INTERNAL_H
#define ATTNLAB_WRITERS_INTERNAL_H

#include "writers.h"

void write_text(const Report *report, Text *out);
void write_markdown(const Report *report, Text *out);
void write_csv(const Report *report, Text *out);
void write_json(const Report *report, Text *out);

/* A cell's text; an empty cell gives "". The buffer is used for numbers only. */
const char *cell_spell(const Cell *cell, int grouping, char buffer[NUMBER_SIZE]);
static inline bool cell_is_number(const Cell *cell) { return cell->kind != CELL_TEXT && cell->kind != CELL_EMPTY; }

static inline bool table_is_picture(const Table *table) { return table->spec->column_count == 0; }
/* Numbers stand at the right: true when the column has one. */
bool column_is_numeric(const Table *table, size_t column);

/* The runs of an explorer as plain tables, for people (per run the ledger and its totals) and for plotting (one row per run, and
 * one ledger with a run column). `flat` borrows everything else from the report and must be freed. */
void flatten_runs_to_read(const Report *report, Report *flat);
void flatten_runs_to_plot(const Report *report, Report *flat);

#endif
