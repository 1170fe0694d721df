/* test_experiment.c - one run of an experiment through the frame; then every allocation of run and writers fails in turn. */
#include "tests/test.h"

#include "experiments/support/experiment.h"
#include "experiments/support/help.h"
#include "experiments/support/text.h"
#include "experiments/support/writers.h"

static const Column columns[] = {{"N", "", "sequence length"}, {"S", "bytes", "N * N * 2"}};
static const TableSpec sizes_table = {"sizes", "Sizes", columns, 2};
static const TableSpec *const tables[] = {&sizes_table};
static const ClaimSpec claims[] = {{"1", "1", "one score matrix", "8 MiB", VERDICT_EQUAL, "N*N*2", NULL}};
static const ProgramOption options_taken[] = {{OPTION_SEQLEN, "2k,4k"}};

static bool run(Context *context, Report *report)
{
    report_param_text(report, "hw", context->hw->name);
    Table *table = report_table(report, &sizes_table);
    for (size_t i = 0; i < options_point_count(context->options); i++) {
        const uint64_t N = options_point(context->options, i).seqlen;
        table_row(table);
        cell_count(table, N);
        cell_count(table, N * N * 2);
    }
    claim_bytes(report, "1", UINT64_C(8) << 20, 2048 * 2048 * 2);
    return true;
}

static const Experiment experiment = {
    .program = {.name = "test", .purpose = "test the frame", .examples = {"", "--seqlen 1k"}, .options = options_taken,
                .option_count = 1},
    .report = {.section = "1", .title_en = "Sizes", .title_zh = "大小", .tables = tables, .table_count = 1, .claims = claims,
               .claim_count = 1},
    .run = run,
};

/* The text of one run, or of --help, with `fail_at` as in Alloc. */
static Status run_once(Test *t, uint64_t fail_at, bool help, uint64_t *requests)
{
    const char *const argv[] = {"test"};
    Alloc alloc = {.fail_at = fail_at};
    Status status = {0};
    Options options;
    Report report;
    Text text = {.alloc = &alloc, .status = &status};
    check_true(t, options_parse(&experiment.program, 1, argv, &options, &status), "no arguments");
    if (help) {
        help_write(&experiment.program, tables, 1, &text);
    } else {
        if (experiment_run(&experiment, &options, NULL, &alloc, &report, &status)) report_write(&report, FORMAT_MARKDOWN, &text);
        if (status_ok(&status)) check_i64(t, experiment_exit_code(&report, true), 0, "exit code");
        report_free(&report);
    }
    if (status_ok(&status))
        check_true(t, strstr(text.data, help ? "2k,4k" : "| 2,048 | 8,388,608 |\n| 4,096 | 33,554,432 |") != NULL, text.data);
    text_free(&text);
    check_u64(t, alloc.live_bytes, 0, "live bytes at the end");
    *requests = alloc.requests;
    return status;
}

int main(void)
{
    Test t = {0};
    for (int help = 0; help <= 1; help++) {
        uint64_t requests = 0, used = 0;
        check_text(&t, run_once(&t, 0, help, &requests).text, "", "no failure");
        check_true(&t, requests > 0, "something was allocated");
        for (uint64_t k = 1; k <= requests; k++)
            check_i64(&t, run_once(&t, k, help, &used).code, STATUS_IO, "exit code when an allocation fails");
    }
    return test_end(&t, "test_experiment");
}
