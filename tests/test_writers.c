/* test_writers.c - one small report in all four formats, byte for byte; then every allocation fails in turn. */
#include "tests/test.h"

#include "experiments/support/report.h"
#include "experiments/support/writers.h"

#include <math.h>

/* ---- the report ---- */

static const Column columns[] = {
    {"chip", "", "name"}, {"count", "bytes", "an exact count"}, {"Δ", "", "signed"}, {"ratio", "×", "real"},
    {"error", "", "real"}};
static const TableSpec mixed_table = {"mixed", "Mixed | 混合", columns, 5};
static const TableSpec picture_table = {"triangle", "The triangle", NULL, 0};
static const TableSpec *const tables[] = {&mixed_table, &picture_table};
static const ClaimSpec claims[] = {
    {"1.4-7", "1.4", "balance point, \"A100\"", "153", VERDICT_EQUAL, "peak, bandwidth", NULL},
    {"1.4-13", "1.4", "平衡点 rises", "rises", VERDICT_DIFFERS, "153 < 295 < 281", "295 > 281"},
    {"1.1-6", "1.1", "history", "2K-4K", VERDICT_EQUAL, "quoted", NULL},
};
static const ReportSpec spec = {.section = "1.4", .title_en = "Test", .title_zh = "测试", .tables = tables, .table_count = 2,
                                .claims = claims, .claim_count = 3};

static void build_tables(Report *report)
{
    report_param_text(report, "hw", "h\"100");
    report_param_count(report, "seqlen", 4096);
    report_param_real(report, "scale", 0.125, 3);
    Table *table = report_table(report, &mixed_table);
    table_row(table);
    cell_text(table, "a|b,\"c\"\n#");
    cell_count(table, (UINT64_C(1) << 53) + 1);
    cell_signed(table, -1234);
    cell_decimals(table, 153.0201, 1);
    cell_significant(table, 8.9e-16, 2);
    table_row(table);
    cell_text(table, "分");
    cell_count(table, UINT64_C(1) << 53);
    cell_empty(table);
    cell_decimals(table, NAN, 1);
    cell_significant(table, -INFINITY, 2);
    table_note(table, "one note");
    Table *picture = report_table(report, &picture_table);
    picture_line(picture, "%s", "#.");
    picture_line(picture, "%s", "## ");
    claim_decimals(report, "1.4-7", 153, 0, 153.02, "");
    claim_holds(report, "1.4-13", false, "153, 295, 281");
    claim_cited(report, "1.1-6", "-");
    report_note(report, "the end");
}

static const char *const expected[FORMAT_COUNT] = {
    [FORMAT_TEXT] =
        "test: Test · 测试 (lecture §1.4)\n"
        "  hw h\"100   seqlen 4,096   scale 0.125\n"
        "\n"
        "Mixed | 混合\n"
        "  chip                       count       Δ  ratio    error\n"
        "                             bytes              ×\n"
        "  ---------  ---------------------  ------  -----  -------\n"
        "  a|b,\"c\" #  9,007,199,254,740,993  -1,234  153.0  8.9e-16\n"
        "  分         9,007,199,254,740,992            nan     -inf\n"
        "  one note\n"
        "\n"
        "The triangle\n"
        "  #.\n"
        "  ##\n"
        "\n"
        "The lecture's numbers and ours: 1 equal, 1 differs, 1 cited\n"
        "  id      verdict  lecture  ours           what\n"
        "  ------  -------  -------  -------------  ----\n"
        "  1.4-7   equal    153      153.02         balance point, \"A100\"\n"
        "  1.4-13  differs  rises    153, 295, 281  平衡点 rises\n"
        "          because 295 > 281\n"
        "  1.1-6   cited    2K-4K    -              history\n"
        "          UNEXPECTED: expected equal\n"
        "\n"
        "the end\n",
    [FORMAT_MARKDOWN] =
        "## §1.4 Test · 测试\n"
        "\n"
        "Program: `test`; hw h\"100; seqlen 4,096; scale 0.125\n"
        "\n"
        "### Mixed \\| 混合\n"
        "\n"
        "| chip | count [bytes] | Δ | ratio [×] | error |\n"
        "| --- | ---: | ---: | ---: | ---: |\n"
        "| a\\|b,\"c\" # | 9,007,199,254,740,993 | -1,234 | 153.0 | 8.9e-16 |\n"
        "| 分 | 9,007,199,254,740,992 |  | nan | -inf |\n"
        "\n"
        "one note\n"
        "\n"
        "### The triangle\n"
        "\n"
        "```text\n"
        "#.\n"
        "## \n"
        "```\n"
        "\n"
        "### The lecture's numbers and ours\n"
        "\n"
        "| id | what | lecture | ours | verdict | rule |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
        "| 1.4-7 | balance point, \"A100\" | 153 | 153.02 | equal | peak, bandwidth |\n"
        "| 1.4-13 | 平衡点 rises | rises | 153, 295, 281 | differs: 295 > 281 | 153 &lt; 295 &lt; 281 |\n"
        "| 1.1-6 | history | 2K-4K | - | cited (unexpected: expected equal) | quoted |\n"
        "\n"
        "the end\n",
    [FORMAT_CSV] =
        "# program: test\n"
        "# param hw: h\"100\n"
        "# param seqlen: 4096\n"
        "# param scale: 0.125\n"
        "# note: the end\n"
        "\n\n"
        "# mixed: Mixed | 混合\n"
        "chip,count [bytes],Δ,ratio [×],error\n"
        "\"a|b,\"\"c\"\"\n#\",9007199254740993,-1234,153.0,8.9e-16\n"
        "分,9007199254740992,,nan,-inf\n"
        "# note: one note\n"
        "\n\n"
        "# triangle: The triangle\n"
        "line\n"
        "\"#.\"\n"
        "\"## \"\n"
        "\n\n"
        "# claims: the lecture's numbers and ours\n"
        "id,section,what,lecture,ours,verdict,expected,rule,reason\n"
        "1.4-7,1.4,\"balance point, \"\"A100\"\"\",153,153.02,equal,equal,\"peak, bandwidth\",\n"
        "1.4-13,1.4,平衡点 rises,rises,\"153, 295, 281\",differs,differs,153 < 295 < 281,295 > 281\n"
        "1.1-6,1.1,history,2K-4K,-,cited,equal,quoted,\n",
    [FORMAT_JSON] =
        "{\"schema\":1,\"program\":\"test\",\n"
        "\"params\":{\"hw\":\"h\\\"100\",\"seqlen\":4096,\"scale\":0.125},\n"
        "\"tables\":[\n"
        "{\"id\":\"mixed\",\"title\":\"Mixed | 混合\",\n"
        "  \"columns\":[{\"name\":\"chip\",\"unit\":\"\"},{\"name\":\"count\",\"unit\":\"bytes\"},{\"name\":\"Δ\",\"unit\":\"\"},"
        "{\"name\":\"ratio\",\"unit\":\"×\"},{\"name\":\"error\",\"unit\":\"\"}],\n"
        "  \"rows\":[\n"
        "    [\"a|b,\\\"c\\\"\\n#\",\"9007199254740993\",-1234,153.0,8.9e-16],\n"
        "    [\"分\",9007199254740992,null,\"nan\",\"-inf\"]]},\n"
        "{\"id\":\"triangle\",\"title\":\"The triangle\",\n"
        "  \"columns\":[{\"name\":\"line\",\"unit\":\"\"}],\n"
        "  \"rows\":[\n"
        "    [\"#.\"],\n"
        "    [\"## \"]]}],\n"
        "\"claims\":[\n"
        "{\"id\":\"1.4-7\",\"what\":\"balance point, \\\"A100\\\"\",\"lecture\":\"153\",\"ours\":\"153.02\","
        "\"verdict\":\"equal\",\"expected\":\"equal\",\"rule\":\"peak, bandwidth\"},\n"
        "{\"id\":\"1.4-13\",\"what\":\"平衡点 rises\",\"lecture\":\"rises\",\"ours\":\"153, 295, 281\",\"verdict\":\"differs\","
        "\"expected\":\"differs\",\"rule\":\"153 < 295 < 281\"},\n"
        "{\"id\":\"1.1-6\",\"what\":\"history\",\"lecture\":\"2K-4K\",\"ours\":\"-\",\"verdict\":\"cited\","
        "\"expected\":\"equal\",\"rule\":\"quoted\"}]}\n",
};

/* ---- runs ---- */

static const Column param_columns[] = {{"algorithm", "", ""}, {"seqlen", "", ""}};
static const Column ledger_columns[] = {{"tensor", "", ""}, {"read_elements", "elements", ""}};
static const Column total_columns[] = {{"hbm_read_bytes", "bytes", ""}, {"exp_ops", "", ""}};
static const TableSpec params_table = {"params", "Parameters", param_columns, 2};
static const TableSpec ledger_table = {"ledger", "traffic by tensor", ledger_columns, 2};
static const TableSpec totals_table = {"totals", "Totals", total_columns, 2};
static const TableSpec closed_table = {"closed_form", "Closed form", total_columns, 1};
static const ReportSpec runs_spec = {.section = "", .title_en = "Runs", .title_zh = ""};

static Table *one_row(Report *report, const TableSpec *table_spec, uint64_t first, uint64_t second)
{
    Table *table = run_table(report, table_spec);
    table_row(table);
    cell_count(table, first);
    if (table_spec->column_count > 1) cell_count(table, second);
    return table;
}

static void build_runs(Report *report)
{
    for (uint64_t i = 0; i < 2; i++) {
        Run *run = report_run(report);
        run->params = run_table(report, &params_table);
        table_row(run->params);
        cell_text(run->params, "fa2");
        cell_count(run->params, UINT64_C(1024) << i);
        run->ledger = run_table(report, &ledger_table);
        for (uint64_t row = 0; row < 2; row++) {
            table_row(run->ledger);
            cell_text(run->ledger, row == 0 ? "Q" : "K");
            cell_count(run->ledger, 1000 * (i + 1) + row);
        }
        run->totals = one_row(report, &totals_table, UINT64_C(2048) << i, UINT64_MAX);
        if (i == 0) run->closed_form = one_row(report, &closed_table, 2047, 0);
    }
}

static const char *const expected_runs[FORMAT_COUNT] = {
    [FORMAT_TEXT] =
        "test: Runs\n"
        "  algorithm fa2\n"
        "\n"
        "Run 1 of 2 (seqlen 1,024): traffic by tensor\n"
        "  tensor  read_elements\n"
        "               elements\n"
        "  ------  -------------\n"
        "  Q               1,000\n"
        "  K               1,001\n"
        "\n"
        "Run 1 of 2 (seqlen 1,024): Totals\n"
        "  quantity        unit                        value  closed form  check\n"
        "  --------------  -----  --------------------------  -----------  -------\n"
        "  hbm_read_bytes  bytes                       2,048        2,047  differs\n"
        "  exp_ops                18,446,744,073,709,551,615\n"
        "\n"
        "Run 2 of 2 (seqlen 2,048): traffic by tensor\n"
        "  tensor  read_elements\n"
        "               elements\n"
        "  ------  -------------\n"
        "  Q               2,000\n"
        "  K               2,001\n"
        "\n"
        "Run 2 of 2 (seqlen 2,048): Totals\n"
        "  quantity        unit                        value  closed form  check\n"
        "  --------------  -----  --------------------------  -----------  -----\n"
        "  hbm_read_bytes  bytes                       4,096\n"
        "  exp_ops                18,446,744,073,709,551,615\n",
    [FORMAT_CSV] =
        "# program: test\n"
        "\n\n"
        "# runs: one row per sweep point\n"
        "run,algorithm,seqlen,hbm_read_bytes [bytes],exp_ops,closed_form.hbm_read_bytes [bytes]\n"
        "1,fa2,1024,2048,18446744073709551615,2047\n"
        "2,fa2,2048,4096,18446744073709551615,\n"
        "\n\n"
        "# ledger: traffic by tensor\n"
        "run,tensor,read_elements [elements]\n"
        "1,Q,1000\n"
        "1,K,1001\n"
        "2,Q,2000\n"
        "2,K,2001\n",
    [FORMAT_JSON] =
        "{\"schema\":1,\"program\":\"test\",\n"
        "\"params\":{},\n"
        "\"runs\":[\n"
        "{\"params\":{\"algorithm\":\"fa2\",\"seqlen\":1024},\n"
        "  \"ledger\":[\n"
        "    {\"tensor\":\"Q\",\"read_elements\":1000},\n"
        "    {\"tensor\":\"K\",\"read_elements\":1001}],\n"
        "  \"totals\":{\"hbm_read_bytes\":2048,\"exp_ops\":\"18446744073709551615\"},\n"
        "  \"closed_form\":{\"hbm_read_bytes\":2047},\n"
        "  \"time\":null,\n"
        "  \"error\":null},\n"
        "{\"params\":{\"algorithm\":\"fa2\",\"seqlen\":2048},\n"
        "  \"ledger\":[\n"
        "    {\"tensor\":\"Q\",\"read_elements\":2000},\n"
        "    {\"tensor\":\"K\",\"read_elements\":2001}],\n"
        "  \"totals\":{\"hbm_read_bytes\":4096,\"exp_ops\":\"18446744073709551615\"},\n"
        "  \"closed_form\":null,\n"
        "  \"time\":null,\n"
        "  \"error\":null}],\n"
        "\"claims\":[]}\n",
};

/* ---- checks ---- */

typedef struct {
    const ReportSpec *spec;
    void (*build)(Report *report);
    Format format;
    const char *expected;       /* NULL: any */
} Case;

static Status write_case(Test *t, const Case *c, uint64_t fail_at, uint64_t *requests)
{
    Alloc alloc = {.fail_at = fail_at};
    Status status = {0};
    Report report;
    Text text = {.alloc = &alloc, .status = &status};
    report_init(&report, "test", c->spec, &alloc, &status);
    c->build(&report);
    const bool written = report_finish(&report) && report_write(&report, c->format, &text);
    check_true(t, written == status_ok(&status), "report_write returns whether all is well");
    if (written && c->expected != NULL) check_text(t, text.data, c->expected, format_name(c->format));
    report_free(&report);
    text_free(&text);
    check_u64(t, alloc.live_bytes, 0, "live bytes at the end");
    *requests = alloc.requests;
    return status;
}

/* Every allocation in turn: a clean STATUS_IO and no leak. */
static void fail_each_allocation(Test *t, const Case *c, uint64_t requests)
{
    for (uint64_t k = 1; k <= requests; k++) {
        uint64_t used = 0;
        const Status status = write_case(t, c, k, &used);
        check_i64(t, status.code, STATUS_IO, "exit code when an allocation fails");
        check_true(t, strncmp(status.text, "out of memory: ", 15) == 0, status.text);
    }
}

static void build_bad_text(Report *report)
{
    report_param_text(report, "hw", "\xFF\x01\t分\xE5");
    for (int i = 0; i < 3; i++) claim_cited(report, claims[i].id, "-");
}

static void build_large(Report *report)
{
    Table *table = report_table(report, &picture_table);
    for (int i = 0; i < 3000; i++) picture_line(table, "%064d", i);
    for (int i = 0; i < 3; i++) claim_cited(report, claims[i].id, "-");
}

int main(void)
{
    Test t = {0};
    const Case other_cases[] = {
        {&spec, build_large, FORMAT_TEXT, NULL},
        {&spec, build_bad_text, FORMAT_TEXT, NULL},
    };
    uint64_t requests = 0;
    for (int format = 0; format < FORMAT_COUNT; format++) {
        const Case c = {&spec, build_tables, (Format)format, expected[format]};
        const Case runs = {&runs_spec, build_runs, (Format)format, expected_runs[format]};
        check_text(&t, write_case(&t, &c, 0, &requests).text, "", "no failure");
        fail_each_allocation(&t, &c, requests);
        check_text(&t, write_case(&t, &runs, 0, &requests).text, "", "no failure");
        fail_each_allocation(&t, &runs, requests);
    }
    for (size_t i = 0; i < sizeof other_cases / sizeof other_cases[0]; i++) {
        check_text(&t, write_case(&t, &other_cases[i], 0, &requests).text, "", "no failure");
        fail_each_allocation(&t, &other_cases[i], requests);
    }
    const Case bad_text = {&spec, build_bad_text, FORMAT_JSON, NULL};
    Alloc alloc = {0};
    Status status = {0};
    Report report;
    Text text = {.alloc = &alloc, .status = &status};
    report_init(&report, "test", &spec, &alloc, &status);
    bad_text.build(&report);
    report_write(&report, FORMAT_JSON, &text);
    check_true(&t, strstr(text.data, "\"hw\":\"\\ufffd\\u0001\\t分\\ufffd\"") != NULL, "JSON is valid whatever the bytes");
    report_free(&report);
    text_free(&text);
    return test_end(&t, "test_writers");
}
