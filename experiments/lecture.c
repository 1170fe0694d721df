/* lecture - runs every program of the lecture and writes its tables.
 *
 *     lecture -o build/lecture [--check] [--skip-timed] [--format F] [--hw NAME] [--seed N]     lecture --map [--format F]
 * [-o FILE]
 *
 * writes DIR/NAME.{txt,md,csv,json} for each program, with its default options, and DIR/index.{txt,md,csv,json}: section,
 * title and verdicts of each. --format F writes that format only. A program that fails leaves no files, the others are
 * written all the same, and the exit code is the worst of all. Plots are drawn by the CMake target `lecture`
 * (support/plot.cmake). --map runs nothing and prints where everything in the lecture is found (support/lecture_map.h);
 * LECTURE_MAP.md is that as Markdown.
 */
#include "support/experiment.h"
#include "support/help.h"
#include "support/lecture_map.h"
#include "support/output.h"
#include "support/platform.h"
#include "support/text.h"
#include "support/writers.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PATH_SIZE = 4096 };

static const ProgramOption program_options[] = {{OPTION_SKIP_TIMED, NULL}, {OPTION_MAP, NULL}};
static const ProgramSpec program = {
    .name = "lecture",
    .purpose = "run every program of the lecture and write its tables into a directory",
    .examples = {"-o build/lecture", "-o build/lecture --check --skip-timed"},
    .options = program_options,
    .option_count = 2,
    .output_is_directory = true,
};

static const Column index_columns[] = {
    {"section", "", "of the lecture"},
    {"program", "", "its name; the files are NAME.txt, NAME.md, NAME.csv, NAME.json"},
    {"title", "", "what it shows"},
    {"equal", "claims", "the lecture's numbers that come out to the last printed digit"},
    {"close", "claims", "within the stated spread"},
    {"differs", "claims", "with a reason"},
    {"cited", "claims", "measurements and quotations that cannot be computed"},
    {"unexpected", "claims", "verdicts that are not the expected one"},
    {"exit", "", "the program's exit code"},
};
static const TableSpec index_spec = {"index", "Programs", index_columns, sizeof index_columns / sizeof index_columns[0]};
static const TableSpec *const index_tables[] = {&index_spec};
static const ReportSpec index_report = {
    .section = "", .title_en = "The lecture's tables", .title_zh = "第 21 讲的全部表格", .tables = index_tables, .table_count = 1};

typedef struct {
    Options options;            /* of the runner */
    const char *path;           /* argv[0] */
    Alloc alloc;
    Report index;
    Table *table;
    int worst;                  /* exit code so far */
} Runner;

static void note_code(Runner *runner, int code)
{
    if (code != STATUS_SKIPPED && code > runner->worst) runner->worst = code;
}

static bool file_path(const Runner *runner, const char *name, Format format, char path[PATH_SIZE], Status *status)
{
    const int length = snprintf(path, PATH_SIZE, "%s/%s.%s", runner->options.output, name, format_suffix(format));
    if (length > 0 && length < PATH_SIZE) return true;
    return status_fail(status, STATUS_IO, "the path of %s is too long", name);
}

static bool format_is_wanted(const Runner *runner, Format format)
{
    return !runner->options.given[OPTION_FORMAT] || runner->options.format == format;
}

static bool write_files(Runner *runner, const char *name, const Report *report, Status *status)
{
    for (int format = 0; format < FORMAT_COUNT && status_ok(status); format++) {
        char path[PATH_SIZE];
        Text text = {.alloc = &runner->alloc, .status = status};
        if (!format_is_wanted(runner, (Format)format)) continue;
        if (report_write(report, (Format)format, &text) && file_path(runner, name, (Format)format, path, status))
            output_write(path, text.data, text.length, status);
        text_free(&text);
    }
    return status_ok(status);
}

/* What an earlier run left must not pass for this one's. */
static void remove_files(const Runner *runner, const char *name)
{
    for (int format = 0; format < FORMAT_COUNT; format++) {
        char path[PATH_SIZE];
        Status ignored = {0};
        if (file_path(runner, name, (Format)format, path, &ignored)) remove(path);
    }
}

static void add_index_row(Runner *runner, const Experiment *experiment, const Report *report, int code)
{
    Table *table = runner->table;
    table_row(table);
    cell_text(table, experiment->report.section);
    cell_text(table, experiment->program.name);
    cell_textf(table, "%s · %s", experiment->report.title_en, experiment->report.title_zh);
    for (int verdict = VERDICT_EQUAL; verdict <= VERDICT_CITED; verdict++) {
        if (report == NULL) cell_empty(table);
        else cell_count(table, report_verdict_count(report, (Verdict)verdict));
    }
    if (report == NULL) cell_empty(table);
    else cell_count(table, report_unexpected_count(report));
    cell_count(table, (uint64_t)code);
}

static void run_program(Runner *runner, const Experiment *experiment)
{
    const char *const no_arguments[] = {experiment->program.name, NULL};
    const char *name = experiment->program.name;
    Status status = {0};
    Options options;
    Report report;
    options_parse(&experiment->program, 1, no_arguments, &options, &status);
    options.hw = runner->options.hw;
    options.seed = runner->options.seed;
    const bool done = experiment_run(experiment, &options, runner->path, &runner->alloc, &report, &status) &&
                      write_files(runner, name, &report, &status);
    if (done) experiment_explain(name, &report, runner->options.check);
    else fprintf(stderr, "lecture: %s: %s\n", name, status.text);
    const int code = done ? experiment_exit_code(&report, runner->options.check) : (int)status.code;
    if (!done) remove_files(runner, name);
    add_index_row(runner, experiment, done ? &report : NULL, code);
    note_code(runner, code);
    report_free(&report);
}

static bool run_all(Runner *runner, Status *status)
{
    Text text = {.alloc = &runner->alloc, .status = status};
    Profile hw;
    if (!experiment_profile(runner->path, runner->options.hw, &runner->alloc, &hw, status)) return false;
    if (!platform_make_directories(runner->options.output))
        return status_fail(status, STATUS_IO, "cannot make the directory %s: %s", runner->options.output, strerror(errno));
    report_init(&runner->index, program.name, &index_report, &runner->alloc, status);
    runner->table = report_table(&runner->index, &index_spec);
    for (size_t i = 0; i < experiment_registry_count && status_ok(status); i++) {
        if (experiment_registry[i]->wall_clock && runner->options.skip_timed) continue;
        run_program(runner, experiment_registry[i]);
    }
    if (report_finish(&runner->index) && write_files(runner, "index", &runner->index, status) &&
        report_write(&runner->index, FORMAT_TEXT, &text))
        output_write(NULL, text.data, text.length, status);
    text_free(&text);
    report_free(&runner->index);
    return status_ok(status);
}

/* Names the map's mistakes on stderr; they make the exit code 1. */
static void print_map(Runner *runner, Status *status)
{
    Report report;
    Text text = {.alloc = &runner->alloc, .status = status};
    report_init(&report, LECTURE_MAP_NAME, &lecture_map_spec, &runner->alloc, status);
    lecture_map_fill(experiment_registry, experiment_registry_count, &report);
    if (report_finish(&report) && report_write(&report, runner->options.format, &text))
        output_write(runner->options.output, text.data, text.length, status);
    experiment_explain(program.name, &report, false);
    note_code(runner, experiment_exit_code(&report, false));
    text_free(&text);
    report_free(&report);
}

/* --help, --version: true when one was asked for. */
static bool print_about(const Options *options, Alloc *alloc, Status *status)
{
    Text text = {.alloc = alloc, .status = status};
    if (options->help) help_write(&program, index_tables, 1, &text);
    else if (options->version) version_write(&program, &text);
    if (text.length > 0) output_write(NULL, text.data, text.length, status);
    text_free(&text);
    return options->help || options->version;
}

int main(int argc, char **argv)
{
    Status status = {0};
    Runner runner = {.path = argc > 0 ? argv[0] : NULL};
    platform_ignore_broken_pipe();
    if (options_parse(&program, argc, (const char *const *)argv, &runner.options, &status) &&
        !print_about(&runner.options, &runner.alloc, &status)) {
        if (runner.options.map) print_map(&runner, &status);
        else if (runner.options.output == NULL)
            status_fail(&status, STATUS_USAGE, "-o: the directory is missing; expected -o DIR, or --map");
        else run_all(&runner, &status);
    }
    if (status_ok(&status)) return runner.worst;
    fprintf(stderr, "lecture: %s\n", status.text);
    return (int)status.code;
}
