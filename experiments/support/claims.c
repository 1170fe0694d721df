/* claims.c - the lecture's numbers beside ours (report.h). A claim is judged once, by one of the functions below; the
 * comparison is on what the lecture prints, digit by digit, so that no tolerance can hide a wrong formula. */
#include "report.h"
#include "report_internal.h"
#include "text.h"

#include <stdio.h>
#include <string.h>

const char *verdict_name(Verdict verdict)
{
    static const char *const names[] = {"equal", "close", "differs", "cited"};
    return names[verdict];
}

static void judge(Report *report, const char *id, Verdict verdict, const char *ours)
{
    if (!status_ok(report->status)) return;
    for (size_t i = 0; i < report->spec->claim_count; i++) {
        Claim *claim = &report->claims[i];
        if (strcmp(claim->spec->id, id) != 0) continue;
        if (claim->ours != NULL) {
            status_fail(report->status, STATUS_MISMATCH, "claim %s is judged twice", id);
            return;
        }
        claim->verdict = verdict;
        claim->ours = ours;
        return;
    }
    status_fail(report->status, STATUS_MISMATCH, "claim %s is not declared by %s", id, report->program);
}

static const char *with_suffix(Report *report, const char *number, const char *suffix)
{
    const size_t length = strlen(number), suffix_size = strlen(suffix) + 1;
    char *text = report_memory(report, length + suffix_size);
    if (text == NULL) return "";
    memcpy(text, number, length);
    memcpy(text + length, suffix, suffix_size);
    return text;
}

static Verdict equal_if(bool same) { return same ? VERDICT_EQUAL : VERDICT_DIFFERS; }

void claim_count(Report *report, const char *id, uint64_t lecture, uint64_t ours, const char *suffix)
{
    char number[NUMBER_SIZE];
    judge(report, id, equal_if(ours == lecture), with_suffix(report, format_count(number, ours, GROUP_THOUSANDS), suffix));
}

void claim_bytes(Report *report, const char *id, uint64_t lecture, uint64_t ours)
{
    char number[NUMBER_SIZE];
    judge(report, id, equal_if(ours == lecture), report_string(report, format_bytes(number, ours)));
}

/* Drops the last two digits when both are zero after the point: 80.00 with no decimals asked for is 80. */
static void drop_zero_tail(char number[NUMBER_SIZE], int decimals)
{
    size_t length = strlen(number);
    if (length < 2 || strcmp(number + length - 2, "00") != 0) return;
    length -= decimals == 0 ? 3 : 2;
    number[length] = '\0';
}

void claim_decimals(Report *report, const char *id, double lecture, int decimals, double ours, const char *suffix)
{
    char printed[NUMBER_SIZE], rounded[NUMBER_SIZE], shown[NUMBER_SIZE];
    format_decimals(printed, lecture, decimals, GROUP_NONE);
    format_decimals(rounded, ours, decimals, GROUP_NONE);
    format_decimals(shown, ours, decimals + 2, GROUP_THOUSANDS);
    drop_zero_tail(shown, decimals);
    judge(report, id, equal_if(strcmp(printed, rounded) == 0), with_suffix(report, shown, suffix));
}

void claim_significant(Report *report, const char *id, double lecture, int digits, double ours, const char *suffix)
{
    char printed[NUMBER_SIZE], rounded[NUMBER_SIZE], shown[NUMBER_SIZE];
    format_significant(printed, lecture, digits, GROUP_NONE);
    format_significant(rounded, ours, digits, GROUP_NONE);
    format_significant(shown, ours, digits + 2, GROUP_THOUSANDS);
    judge(report, id, equal_if(strcmp(printed, rounded) == 0), with_suffix(report, shown, suffix));
}

void claim_close(Report *report, const char *id, double low, double high, double ours, int digits, const char *suffix)
{
    char number[NUMBER_SIZE], from[NUMBER_SIZE], to[NUMBER_SIZE], text[3 * NUMBER_SIZE + 64];
    snprintf(text, sizeof text, "%s%s (allowed %s to %s)", format_significant(number, ours, digits, GROUP_THOUSANDS), suffix,
             format_significant(from, low, digits, GROUP_THOUSANDS), format_significant(to, high, digits, GROUP_THOUSANDS));
    judge(report, id, ours >= low && ours <= high ? VERDICT_CLOSE : VERDICT_DIFFERS, report_string(report, text));
}

void claim_holds(Report *report, const char *id, bool holds, const char *ours, ...)
{
    va_list args;
    va_start(args, ours);
    judge(report, id, equal_if(holds), report_vformat(report, ours, args));
    va_end(args);
}

void claim_cited(Report *report, const char *id, const char *ours, ...)
{
    va_list args;
    va_start(args, ours);
    judge(report, id, VERDICT_CITED, report_vformat(report, ours, args));
    va_end(args);
}

bool claims_are_complete(const Report *report)
{
    for (size_t i = 0; i < report->spec->claim_count; i++) {
        const Claim *claim = &report->claims[i];
        if (claim->ours == NULL)
            return status_fail(report->status, STATUS_MISMATCH, "claim %s has no verdict", claim->spec->id);
        if (claim->spec->expected == VERDICT_DIFFERS && claim->spec->reason == NULL)
            return status_fail(report->status, STATUS_MISMATCH, "claim %s is expected to differ but gives no reason",
                               claim->spec->id);
    }
    return true;
}

size_t report_unexpected_count(const Report *report)
{
    size_t count = 0;
    for (size_t i = 0; i < report->spec->claim_count; i++) count += report->claims[i].verdict != report->claims[i].spec->expected;
    return count;
}

size_t report_verdict_count(const Report *report, Verdict verdict)
{
    size_t count = 0;
    for (size_t i = 0; i < report->spec->claim_count; i++) count += report->claims[i].verdict == verdict;
    return count;
}
