/* exit_codes.c - a program that ends in every way an experiment can end, for the tests of the frame: exit_codes WAY. */
#include "experiments/support/experiment.h"

#include <string.h>

static const char *const ways[] = {"ok", "mismatch", "unexpected", "unjudged", "infeasible", "skipped", "silent", NULL};

static const Column columns[] = {{"what", "", "counted"}, {"check", "", "against the closed form"}};
static const TableSpec counts_table = {"counts", "Counts", columns, 2};
static const TableSpec *const tables[] = {&counts_table};
static const ClaimSpec claims[] = {
    {"1-1", "1", "an exact count", "10", VERDICT_EQUAL, "N", NULL},
    {"1-2", "1", "a trend", "rises", VERDICT_DIFFERS, "compare", "it falls once"},
};

static bool run(Context *context, Report *report)
{
    const char *way = context->options->operand;
    Table *table = report_table(report, &counts_table);
    table_row(table);
    cell_text(table, "K reads");
    cell_check(table, 10, strcmp(way, "mismatch") == 0 ? 12 : 10, "K reads");
    claim_count(report, "1-1", 10, strcmp(way, "unexpected") == 0 ? 11 : 10, "");
    if (strcmp(way, "unjudged") != 0) claim_holds(report, "1-2", false, "295, 281");
    if (strcmp(way, "infeasible") == 0)
        return status_fail(context->status, STATUS_INFEASIBLE, "tile S needs 9 bytes, 8 are there");
    if (strcmp(way, "skipped") == 0) return status_fail(context->status, STATUS_SKIPPED, "no such device");
    return strcmp(way, "silent") != 0;
}

static const Experiment experiment = {
    .program = {.name = "exit_codes", .purpose = "ends in every way", .operand = "way", .operand_choices = ways},
    .report = {.section = "1", .title_en = "Exit codes", .title_zh = "", .tables = tables, .table_count = 1, .claims = claims,
               .claim_count = 2},
    .run = run,
};

int main(int argc, char **argv) { return experiment_main(&experiment, argc, argv); }
