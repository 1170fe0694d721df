/* report_internal.h - what report.c shares with claims.c and the writers. */
#ifndef ATTNLAB_REPORT_INTERNAL_H
#define ATTNLAB_REPORT_INTERNAL_H

#include "report.h"

#include <stdarg.h>

/* Zeroed memory that lives as long as the report; NULL after a failure. */
void *report_memory(Report *report, size_t bytes);
/* Copies; "" after a failure. */
const char *report_string(Report *report, const char *string);
const char *report_vformat(Report *report, const char *format, va_list args);

/* A text in the cell must live as long as the report. */
void report_param(Report *report, const char *name, Cell cell);

/* Every claim was judged; one that is expected to differ gives its reason. */
bool claims_are_complete(const Report *report);

#endif
