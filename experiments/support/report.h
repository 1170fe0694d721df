/* report.h - the one result object of every program: parameters, tables, pictures, claims, runs.
 *
 * An experiment fills a Report; four writers (writers.h) turn it into text, Markdown, CSV or JSON. A column has a name, a unit
 * and a one-line meaning, given once, from which all headers and the glossary of --help come.
 *
 *     static const Column columns[] = {{"N", "", "sequence length"}, {"S", "bytes", "one score matrix"}};
 *     static const TableSpec sizes_table = {"sizes", "Score matrices", columns, 2};
 *     ...
 *     Table *t = report_table(report, &sizes_table);
 *     for (...) { table_row(t); cell_count(t, N); cell_count(t, bytes); }
 *
 * Building is sticky on the Status given to report_init: after a failure calls do nothing, so an experiment reads it once, or
 * never. A row with the wrong number of cells is an error. All strings are copied, except those of the static specs.
 */
#ifndef ATTNLAB_REPORT_H
#define ATTNLAB_REPORT_H

#include "sim/alloc.h"
#include "sim/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REPORT_SCHEMA = 1 };

/* ---- cells and tables ---- */

typedef enum { CELL_EMPTY, CELL_TEXT, CELL_COUNT, CELL_SIGNED, CELL_DECIMALS, CELL_SIGNIFICANT } CellKind;

typedef struct {
    CellKind kind;
    int digits;             /* CELL_DECIMALS: after the point; CELL_SIGNIFICANT: in total */
    union {
        const char *text;
        uint64_t count;
        int64_t integer;
        double real;
    } value;
} Cell;

typedef struct {
    const char *name;       /* short; a key in JSON, so without unit */
    const char *unit;       /* "bytes", "MiB", "cycles"; "" when there is none */
    const char *meaning;    /* one line for the glossary */
} Column;

/* What an experiment declares about a table. column_count 0: a picture, made of lines of characters. */
typedef struct {
    const char *id;         /* a key: letters, digits, _ */
    const char *title;
    const Column *columns;
    size_t column_count;
} TableSpec;

typedef struct Report Report;

typedef struct {
    Report *report;
    const TableSpec *spec;
    const char *title;      /* spec->title unless table_title replaced it */
    const Column *columns;  /* spec->columns; a picture has the single column "line" */
    size_t column_count;
    Cell *cells;            /* [row_count][column_count], row by row */
    size_t row_count, cell_count, cell_capacity;
    const char **notes;
    size_t note_count, note_capacity;
} Table;

/* Adds a table to the report, in the order of the calls. Never NULL. */
Table *report_table(Report *report, const TableSpec *spec);
/* A title that depends on the parameters. */
void table_title(Table *table, const char *format, ...) STATUS_PRINTF(2, 3);
/* Begins a row; the one before must be complete. */
void table_row(Table *table);
void cell_empty(Table *table);
void cell_text(Table *table, const char *text);
void cell_textf(Table *table, const char *format, ...) STATUS_PRINTF(2, 3);
void cell_count(Table *table, uint64_t count);
void cell_signed(Table *table, int64_t integer);
void cell_decimals(Table *table, double real, int decimals);        /* 120.5 */
void cell_significant(Table *table, double real, int digits);       /* 8.9e-16; modelled times: 3 digits */
/* A line under the table. */
void table_note(Table *table, const char *format, ...) STATUS_PRINTF(2, 3);
/* A line of a picture (a table whose spec has no columns). */
void picture_line(Table *picture, const char *format, ...) STATUS_PRINTF(2, 3);

/* A cell that compares a count with its closed form: "ok", or the difference with its sign; a difference is also recorded as a
 * mismatch of `what` (below). */
void cell_check(Table *table, uint64_t counted, uint64_t closed_form, const char *what);

/* ---- parameters, notes, mismatches ---- */

typedef struct {
    const char *name;
    Cell cell;
} Param;

/* Shown before the results, in this order. */
void report_param_text(Report *report, const char *name, const char *text);
void report_param_count(Report *report, const char *name, uint64_t count);
void report_param_real(Report *report, const char *name, double real, int significant_digits);
/* A line under everything. */
void report_note(Report *report, const char *format, ...) STATUS_PRINTF(2, 3);
/* A closed form and a count disagree (or another thing that must hold does not): the report is still written, the program ends
 * with exit code 1 and this line on stderr. */
void report_mismatch(Report *report, const char *format, ...) STATUS_PRINTF(2, 3);
/* Records a mismatch "what: counted ..., closed form ..." unless equal. Returns whether they are. */
bool report_check(Report *report, uint64_t counted, uint64_t closed_form, const char *what);

/* ---- claims: the lecture's numbers beside ours ---- */

typedef enum {
    VERDICT_EQUAL,      /* the same, to the last digit that the lecture prints */
    VERDICT_CLOSE,      /* within the spread that the claim states */
    VERDICT_DIFFERS,    /* with the reason in one line */
    VERDICT_CITED       /* a measurement or quotation that we cannot compute; never counted as reproduced */
} Verdict;
const char *verdict_name(Verdict verdict);

/* What stands in a static table beside the experiment. The run says what ours is; every claim is judged exactly once. */
typedef struct {
    const char *id;         /* "1.4-7" */
    const char *section;    /* "1.4" */
    const char *what;
    const char *lecture;    /* as the lecture states it */
    Verdict expected;
    const char *rule;       /* the formula or constant behind ours */
    const char *reason;     /* one line; required when `expected` is VERDICT_DIFFERS */
} ClaimSpec;

typedef struct {
    const ClaimSpec *spec;
    Verdict verdict;
    const char *ours;       /* NULL until judged */
} Claim;

/* Each judges one claim by id, at the lecture's own parameters (whatever options were given). */

/* Exact counts: equal or differs. `suffix` follows ours verbatim (" elements", "%", ""). */
void claim_count(Report *report, const char *id, uint64_t lecture, uint64_t ours, const char *suffix);
/* The same for byte counts; ours reads "8 MiB" where that is exact. */
void claim_bytes(Report *report, const char *id, uint64_t lecture, uint64_t ours);
/* The lecture printed `lecture` with this many decimals: equal when ours rounds to the same digits (12.4395 and 12.4). Ours is
 * shown with two decimals more unless it has none. */
void claim_decimals(Report *report, const char *id, double lecture, int decimals, double ours, const char *suffix);
/* The same for significant digits (1.35e8, 8.9e-16). */
void claim_significant(Report *report, const char *id, double lecture, int digits, double ours, const char *suffix);
/* Close when low <= ours <= high, else differs. Ours is shown with `digits` significant digits and the band. */
void claim_close(Report *report, const char *id, double low, double high, double ours, int digits, const char *suffix);
/* A statement ("all three are memory-bound"): equal when it holds, else differs; the text says what we found. */
void claim_holds(Report *report, const char *id, bool holds, const char *ours, ...) STATUS_PRINTF(4, 5);
/* Cited; the text may show our own number beside it ("-" when there is none). */
void claim_cited(Report *report, const char *id, const char *ours, ...) STATUS_PRINTF(3, 4);

/* ---- runs of the explorer: one per sweep point, instead of tables ---- */

/* Each member is a table: `ledger` has many rows, the others one row. NULL is JSON's null. closed_form has the columns of totals
 * or some of them. */
typedef struct {
    Table *params, *ledger, *totals, *closed_form, *time, *error;
} Run;

/* Adds a run with all members NULL. Never NULL itself. */
Run *report_run(Report *report);
/* A table that belongs to a run (run->ledger = run_table(report, &ledger_spec)). */
Table *run_table(Report *report, const TableSpec *spec);

/* ---- the whole ---- */

typedef struct {
    const char *section;            /* "1.1"; "" for the explorer */
    const char *title_en, *title_zh;
    const TableSpec *const *tables; /* all tables the program may add */
    size_t table_count;
    const ClaimSpec *claims;
    size_t claim_count;
} ReportSpec;

typedef struct ReportBlock ReportBlock;

struct Report {
    const char *program;            /* "s1_1_score_matrix" */
    const ReportSpec *spec;
    Alloc *alloc;
    Status *status;
    Param *params;
    size_t param_count, param_capacity;
    Table **tables;
    size_t table_count, table_capacity;
    Run **runs;
    size_t run_count, run_capacity;
    Claim *claims;                  /* [spec->claim_count], in the order of the spec */
    const char **notes;
    size_t note_count, note_capacity;
    const char **mismatches;
    size_t mismatch_count, mismatch_capacity;
    ReportBlock *blocks;            /* the memory of everything above */
    Table void_table;               /* what builders write to after a failure */
    Run void_run;
};

bool report_init(Report *report, const char *program, const ReportSpec *spec, Alloc *alloc, Status *status);
void report_free(Report *report);

/* To be called when the experiment has run: the last row of every table is complete, every table is declared in the spec, every
 * claim was judged. STATUS_MISMATCH otherwise. */
bool report_finish(Report *report);
/* Claims whose verdict is not the expected one. */
size_t report_unexpected_count(const Report *report);
/* How many claims got this verdict. */
size_t report_verdict_count(const Report *report, Verdict verdict);

#endif
