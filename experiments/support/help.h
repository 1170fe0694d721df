/* help.h - what --help and --version print. */
#ifndef ATTNLAB_HELP_H
#define ATTNLAB_HELP_H

#include "options.h"
#include "report.h"
#include "text.h"

/* Purpose, usage, examples, options with ranges and defaults, exit codes, and the glossary of the columns of `tables`. */
void help_write(const ProgramSpec *program, const TableSpec *const *tables, size_t table_count, Text *out);

/* "attnlab 0.1.0 s1_1_score_matrix" */
void version_write(const ProgramSpec *program, Text *out);

#endif
