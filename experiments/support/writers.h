/* writers.h - a Report as text, Markdown, CSV or JSON. Writers are pure functions of the report.
 *
 * text: aligned columns, units under the names, thousands separators; the claims as the last table.
 * md:   GitHub tables, to be pasted into the lecture; pictures are code blocks.
 * csv:  RFC 4180 fields in lines that end in \n. Comment lines with the parameters, then the tables, each a block of its own:
 *           # id: title
 *           name [unit],name [unit],...
 *           ...
 *           # note: ...
 *       with two blank lines between, as gnuplot wants (plot FILE index "id"); one table can be
 *       read by pandas.read_csv(..., comment="#"). The claims come last.
 * json: schema 1:
 *           {"schema":1,"program":"","params":{},"tables":[{"id":"","title":"","columns":[{"name":"","unit":""}],"rows":[[]]}],
 *            "claims":[{"id":"","what":"","lecture":"","ours":"","verdict":"","expected":"","rule":""}]}
 *       The explorer has "runs":[{"params":{},"ledger":[{}],"totals":{},"closed_form":{},"time":{},"error":{}}] in
 *       place of tables, null for what a run does not have. Integers above 2^53 are strings, an empty cell is null; nan, inf
 *       and -inf are strings.
 * Reals carry the same digits in all four.
 */
#ifndef ATTNLAB_WRITERS_H
#define ATTNLAB_WRITERS_H

#include "options.h"
#include "report.h"
#include "text.h"

bool report_write(const Report *report, Format format, Text *out);

/* "text", "md", "csv", "json", and the suffix of a file in that format: "txt", "md", "csv", "json". */
const char *format_name(Format format);
const char *format_suffix(Format format);

#endif
