/* test_report.c - the report object: cells, rows, claims, and what report_finish refuses. */
#include "tests/test.h"

#include "experiments/support/report.h"
#include "experiments/support/text.h"

#include <math.h>

/* ---- numbers ---- */

static void test_numbers(Test *t)
{
    static const struct {
        double value;
        int digits;
        int grouping;
        const char *decimals, *significant;
    } rows[] = {
        {0, 2, 0, "0.00", "0"},
        {-0.001, 2, 0, "0.00", "-0.0010"},
        {0.125, 2, 0, "0.12", "0.12"},          /* ties go to even */
        {0.375, 2, 0, "0.38", "0.38"},
        {120.4705882352941, 1, 0, "120.5", "100"},
        {1234.5, 3, 1, "1,234.500", "1,230"},
        {9.996, 3, 0, "9.996", "10.0"},
        {999999.5, 0, 1, "1,000,000", "1,000,000"},
        {8.9e-16, 2, 0, "0.00", "8.9e-16"},
        {1.35266304e8, 3, 1, "135,266,304.000", "135,000,000"},
        {1e12, 3, 0, "1000000000000.000", "1.00e12"},
        {0.000123456, 3, 0, "0.000", "0.000123"},
        {0.0000123456, 3, 0, "0.000", "1.23e-5"},
        {-12345.678, 1, 1, "-12,345.7", "-10,000"},
    };
    char buffer[NUMBER_SIZE];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check_text(t, format_decimals(buffer, rows[i].value, rows[i].digits, rows[i].grouping), rows[i].decimals, "decimals");
        format_significant(buffer, rows[i].value, rows[i].digits, rows[i].grouping);
        check_text(t, buffer, rows[i].significant, "significant");
    }
    check_text(t, format_decimals(buffer, NAN, 2, 0), "nan", "nan");
    check_text(t, format_decimals(buffer, INFINITY, 2, 0), "inf", "inf");
    check_text(t, format_significant(buffer, -INFINITY, 2, 0), "-inf", "-inf");
    check_u64(t, strlen(format_decimals(buffer, -1.7976931348623157e308, 30, 0)), 1 + 309 + 1 + 30, "the largest double fits");
}

static void test_counts(Test *t)
{
    char buffer[NUMBER_SIZE];
    check_text(t, format_count(buffer, UINT64_MAX, GROUP_THOUSANDS), "18,446,744,073,709,551,615", "UINT64_MAX grouped");
    check_text(t, format_count(buffer, 999, GROUP_THOUSANDS), "999", "three digits");
    check_text(t, format_count(buffer, 1000, GROUP_THOUSANDS), "1,000", "four digits");
    check_text(t, format_signed(buffer, INT64_MIN, GROUP_THOUSANDS), "-9,223,372,036,854,775,808", "INT64_MIN grouped");
    check_text(t, format_bytes(buffer, 8388608), "8 MiB", "8 MiB");
    check_text(t, format_bytes(buffer, UINT64_C(1) << 40), "1 TiB", "1 TiB");
    check_text(t, format_bytes(buffer, 13043712), "12,738 KiB", "a multiple of 1 KiB");
    check_text(t, format_bytes(buffer, 1001), "1,001 bytes", "no multiple");
    check_text(t, format_bytes(buffer, 0), "0 bytes", "nothing");
}

static void test_width(Test *t)
{
    static const struct {
        const char *text;
        size_t width;
    } rows[] = {{"", 0}, {"N", 1}, {"N² × d", 6}, {"μs", 2}, {"分数矩阵", 8}, {"QKᵀ", 3}, {"e\xCC\x81", 1}, {"（）", 4},
                {"\xFF\xFE", 2}, {"\xE5\x88", 2}, {"·", 1}, {"Θ(N²d²/M)", 9}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) check_u64(t, text_width(rows[i].text), rows[i].width, rows[i].text);
}

/* ---- a report to break ---- */

static const Column columns[] = {{"N", "", "length"}, {"S", "bytes", "score matrix"}};
static const TableSpec good_table = {"good", "Good", columns, 2};
static const TableSpec other_table = {"other", "Not declared", columns, 2};
static const TableSpec picture_table = {"picture", "Picture", NULL, 0};
static const TableSpec *const tables[] = {&good_table, &picture_table};
static const ClaimSpec claims[] = {
    {"a", "1", "a count", "10", VERDICT_EQUAL, "rule", NULL},
    {"b", "1", "a share", "80%", VERDICT_EQUAL, "rule", NULL},
    {"c", "1", "an error", "1e-15", VERDICT_CLOSE, "rule", NULL},
    {"d", "1", "a trend", "rises", VERDICT_DIFFERS, "rule", "it falls once"},
    {"e", "1", "history", "old", VERDICT_CITED, "rule", NULL},
};
enum { CLAIMS = sizeof claims / sizeof claims[0] };
static const ReportSpec spec = {.section = "1", .title_en = "Test", .title_zh = "", .tables = tables, .table_count = 2,
                                .claims = claims, .claim_count = CLAIMS};

static void judge_all(Report *report)
{
    claim_count(report, "a", 10, 10, " elements");
    claim_decimals(report, "b", 80, 0, 80, "%");
    claim_close(report, "c", 1e-16, 4e-15, 7.2e-16, 2, "");
    claim_holds(report, "d", false, "%d then %d", 295, 281);
    claim_cited(report, "e", "-");
}

static void break_nothing(Report *report)
{
    Table *table = report_table(report, &good_table);
    table_row(table);
    cell_count(table, 1);
    cell_count(table, 2);
    picture_line(report_table(report, &picture_table), "##%s", "##");
    judge_all(report);
}
static void short_row(Report *report)
{
    Table *table = report_table(report, &good_table);
    table_row(table);
    cell_count(table, 1);
    table_row(table);
    judge_all(report);
}
static void short_last_row(Report *report)
{
    Table *table = report_table(report, &good_table);
    table_row(table);
    cell_count(table, 1);
    judge_all(report);
}
static void long_row(Report *report)
{
    Table *table = report_table(report, &good_table);
    table_row(table);
    for (int i = 0; i < 3; i++) cell_count(table, 1);
    judge_all(report);
}
static void cell_before_row(Report *report)
{
    cell_count(report_table(report, &good_table), 1);
    judge_all(report);
}
static void undeclared_table(Report *report)
{
    report_table(report, &other_table);
    judge_all(report);
}
static void unjudged_claim(Report *report) { claim_count(report, "a", 10, 10, ""); }
static void unknown_claim(Report *report)
{
    judge_all(report);
    claim_cited(report, "f", "-");
}
static void claim_twice(Report *report)
{
    judge_all(report);
    claim_count(report, "a", 10, 10, "");
}
static void ledger_short_row(Report *report)
{
    Run *run = report_run(report);
    run->ledger = run_table(report, &good_table);
    table_row(run->ledger);
    cell_count(run->ledger, 1);
    judge_all(report);
}

static void test_finish(Test *t)
{
    static const struct {
        void (*build)(Report *);
        const char *text;       /* of the error; "" when all is well */
    } rows[] = {
        {break_nothing, ""},
        {short_row, "table good: row 1 has 1 cells of 2"},
        {short_last_row, "table good: row 1 has 1 cells of 2"},
        {long_row, "table good: row 1 has more than 2 cells"},
        {cell_before_row, "table good: row 0 has more than 2 cells"},
        {undeclared_table, "table other is not declared by test"},
        {unjudged_claim, "claim b has no verdict"},
        {unknown_claim, "claim f is not declared by test"},
        {claim_twice, "claim a is judged twice"},
        {ledger_short_row, "table good: row 1 has 1 cells of 2"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        Alloc alloc = {0};
        Status status = {0};
        Report report;
        report_init(&report, "test", &spec, &alloc, &status);
        rows[i].build(&report);
        const bool finished = report_finish(&report);
        check_text(t, status.text, rows[i].text, "report_finish");
        check_true(t, finished == (rows[i].text[0] == '\0'), "report_finish returns whether all is well");
        report_free(&report);
        check_u64(t, alloc.live_bytes, 0, "live bytes after report_free");
    }
}

/* ---- verdicts ---- */

typedef struct {
    double lecture;
    int digits;
    double ours;
    Verdict verdict;
    const char *text;
} Judged;

static const Judged decimals[] = {
    {12.4, 1, 12.4395, VERDICT_EQUAL, "12.440x"},
    {12.4, 1, 12.4501, VERDICT_DIFFERS, "12.450x"},
    {12.4, 1, 12.3499, VERDICT_DIFFERS, "12.350x"},
    {80, 0, 80, VERDICT_EQUAL, "80x"},
    {80, 0, 80.4, VERDICT_EQUAL, "80.40x"},
    {80, 0, 80.51, VERDICT_DIFFERS, "80.51x"},
    {153, 0, 153.02, VERDICT_EQUAL, "153.02x"},
    {1.5, 1, 1.5, VERDICT_EQUAL, "1.5x"},
    {0, 0, NAN, VERDICT_DIFFERS, "nanx"},
};
static const Judged significant[] = {
    {1.35e8, 3, 135266304, VERDICT_EQUAL, "135,270,000x"},
    {1.35e8, 3, 135500001, VERDICT_DIFFERS, "135,500,000x"},
    {8.9e-16, 2, 8.88e-16, VERDICT_EQUAL, "8.880e-16x"},
    {8.9e-16, 2, 8.8e-16, VERDICT_DIFFERS, "8.800e-16x"},
};

static void check_judged(Test *t, const Judged *row, bool is_decimals)
{
    static const ClaimSpec claim = {"a", "1", "what", "lecture", VERDICT_EQUAL, "rule", NULL};
    static const ReportSpec one = {.section = "1", .title_en = "", .title_zh = "", .claims = &claim, .claim_count = 1};
    Alloc alloc = {0};
    Status status = {0};
    Report report;
    report_init(&report, "test", &one, &alloc, &status);
    if (is_decimals) claim_decimals(&report, "a", row->lecture, row->digits, row->ours, "x");
    else claim_significant(&report, "a", row->lecture, row->digits, row->ours, "x");
    check_text(t, verdict_name(report.claims[0].verdict), verdict_name(row->verdict), row->text);
    check_text(t, report.claims[0].ours, row->text, "ours as shown");
    check_u64(t, report_unexpected_count(&report), row->verdict != VERDICT_EQUAL, "unexpected verdicts");
    report_free(&report);
}

static void test_verdicts(Test *t)
{
    for (size_t i = 0; i < sizeof decimals / sizeof decimals[0]; i++) check_judged(t, &decimals[i], true);
    for (size_t i = 0; i < sizeof significant / sizeof significant[0]; i++) check_judged(t, &significant[i], false);

    Alloc alloc = {0};
    Status status = {0};
    Report report;
    report_init(&report, "test", &spec, &alloc, &status);
    claim_count(&report, "a", 10, 11, " elements");
    claim_bytes(&report, "b", 1024, 1024);
    claim_close(&report, "c", 1e-16, 4e-15, 4.1e-15, 2, "");
    claim_holds(&report, "d", true, "%s", "rises");
    claim_cited(&report, "e", "-");
    check_true(t, report_finish(&report), "all judged");
    static const char *const verdicts[] = {"differs", "equal", "differs", "equal", "cited"};
    static const char *const ours[] = {"11 elements", "1 KiB", "4.1e-15 (allowed 1.0e-16 to 4.0e-15)", "rises", "-"};
    for (size_t i = 0; i < CLAIMS; i++) {
        check_text(t, verdict_name(report.claims[i].verdict), verdicts[i], claims[i].id);
        check_text(t, report.claims[i].ours, ours[i], claims[i].id);
    }
    check_u64(t, report_unexpected_count(&report), 3, "unexpected: a, c, d");
    check_u64(t, report_verdict_count(&report, VERDICT_DIFFERS), 2, "differs: a, c");
    check_u64(t, report_verdict_count(&report, VERDICT_EQUAL), 2, "equal: b, d");
    report_free(&report);
}

static void test_close(Test *t)
{
    static const struct {
        double ours;
        Verdict verdict;
    } rows[] = {{1, VERDICT_CLOSE}, {2, VERDICT_CLOSE}, {0.999, VERDICT_DIFFERS}, {2.001, VERDICT_DIFFERS},
                {NAN, VERDICT_DIFFERS}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        Alloc alloc = {0};
        Status status = {0};
        Report report;
        report_init(&report, "test", &spec, &alloc, &status);
        claim_close(&report, "c", 1, 2, rows[i].ours, 3, "");
        check_text(t, verdict_name(report.claims[2].verdict), verdict_name(rows[i].verdict), "close means 1 <= ours <= 2");
        report_free(&report);
    }
}

static void test_mismatch(Test *t)
{
    Alloc alloc = {0};
    Status status = {0};
    Report report;
    report_init(&report, "test", &spec, &alloc, &status);
    Table *table = report_table(&report, &good_table);
    table_row(table);
    cell_check(table, 5, 5, "same");
    cell_check(table, 5, 7, "K reads");
    table_row(table);
    cell_check(table, 9, 7, "V reads");
    cell_empty(table);
    check_text(t, table->cells[0].value.text, "ok", "equal counts");
    check_text(t, table->cells[1].value.text, "-2", "the walk counted two less");
    check_text(t, table->cells[2].value.text, "+2", "the walk counted two more");
    check_u64(t, report.mismatch_count, 2, "mismatches");
    check_text(t, report.mismatches[0], "K reads: counted 5, closed form 7", "the line for stderr");
    check_true(t, status_ok(&status), "a mismatch is no failure of the report");
    report_free(&report);
}

int main(void)
{
    Test t = {0};
    test_numbers(&t);
    test_counts(&t);
    test_width(&t);
    test_finish(&t);
    test_verdicts(&t);
    test_close(&t);
    test_mismatch(&t);
    return test_end(&t, "test_report");
}
