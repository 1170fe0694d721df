/* experiment.c - see experiment.h. */
#include "experiment.h"
#include "help.h"
#include "output.h"
#include "platform.h"
#include "text.h"
#include "writers.h"

#include <stdio.h>

/* ---- one run ---- */

bool experiment_profile(const char *program_path, const char *name, Alloc *alloc, Profile *hw, Status *status)
{
    char directory[4096];
    const bool installed = program_path != NULL && profile_installed_directory(program_path, directory, sizeof directory);
    return profile_load_from(installed ? directory : NULL, name, alloc, hw, status);
}

bool experiment_run(const Experiment *experiment, const Options *options, const char *program_path, Alloc *alloc, Report *report,
                    Status *status)
{
    Profile hw;
    if (!report_init(report, experiment->program.name, &experiment->report, alloc, status)) return false;
    if (!experiment_profile(program_path, options->hw, alloc, &hw, status)) return false;
    Context context = {.alloc = alloc, .status = status, .options = options, .hw = &hw};
    if (!experiment->run(&context, report) && status_ok(status))
        status_fail(status, STATUS_MISMATCH, "failed without giving a reason");
    return report_finish(report);
}

/* ---- a program ---- */

void experiment_explain(const char *program, const Report *report, bool check)
{
    for (size_t i = 0; i < report->mismatch_count; i++) fprintf(stderr, "%s: %s\n", program, report->mismatches[i]);
    for (size_t i = 0; check && i < report->spec->claim_count; i++) {
        const Claim *claim = &report->claims[i];
        if (claim->verdict == claim->spec->expected) continue;
        fprintf(stderr, "%s: claim %s: %s, expected %s (lecture %s, ours %s)\n", program, claim->spec->id,
                verdict_name(claim->verdict), verdict_name(claim->spec->expected), claim->spec->lecture, claim->ours);
    }
}

int experiment_exit_code(const Report *report, bool check)
{
    const bool wrong = report->mismatch_count > 0 || (check && report_unexpected_count(report) > 0);
    return wrong ? STATUS_MISMATCH : STATUS_OK;
}

/* Help or version into `out`; false when neither was asked for. */
static bool write_about(const Experiment *experiment, const Options *options, Text *out)
{
    if (options->help) help_write(&experiment->program, experiment->report.tables, experiment->report.table_count, out);
    else if (options->version) version_write(&experiment->program, out);
    return options->help || options->version;
}

/* The report of one run into `out`; returns the exit code that it deserves. */
static int run_and_write(const Experiment *experiment, const Options *options, const char *program_path, Text *out)
{
    Report report;
    int code = STATUS_OK;
    if (experiment_run(experiment, options, program_path, out->alloc, &report, out->status) &&
        report_write(&report, options->format, out)) {
        experiment_explain(experiment->program.name, &report, options->check);
        code = experiment_exit_code(&report, options->check);
    }
    report_free(&report);
    return code;
}

int experiment_main(const Experiment *experiment, int argc, char **argv)
{
    Status status = {0};
    Alloc alloc = {0};
    Options options;
    Text out = {.alloc = &alloc, .status = &status};
    int code = STATUS_OK;
    platform_ignore_broken_pipe();
    if (options_parse(&experiment->program, argc, (const char *const *)argv, &options, &status)) {
        const bool about = write_about(experiment, &options, &out);
        if (!about) code = run_and_write(experiment, &options, argc > 0 ? argv[0] : NULL, &out);
        if (status_ok(&status)) output_write(about ? NULL : options.output, out.data, out.length, &status);
    }
    text_free(&out);
    if (status_ok(&status)) return code;
    fprintf(stderr, "%s: %s\n", experiment->program.name, status.text);
    return (int)status.code;
}
