/* test_lecture_map.c - the lecture's map made from a few invented programs: what it shows, and which mistakes it names.
 * That the real map has no mistake and is LECTURE_MAP.md is the test lecture_map. */
#include "test.h"

#include "experiments/support/lecture_map.h"
#include "experiments/support/text.h"
#include "experiments/support/writers.h"

static const Column columns[] = {{"N", "", "sequence length"}};
static const TableSpec sizes = {"sizes", "Sizes", columns, 1};
static const TableSpec io = {"io", "IO", columns, 1}, scaling = {"scaling", "Scaling", columns, 1};
static const TableSpec *const score_tables[] = {&sizes}, *const io_tables[] = {&io, &scaling}, *const io_table_alone[] = {&io};

static const ClaimSpec score_claims[] = {{"1.1-1", "1.1", "a | b", "8 MiB", VERDICT_EQUAL, "N*N*2", NULL},
                                         {"0.4-1", "0.4", "bytes", "2", VERDICT_CITED, "2", NULL}};
static const ClaimSpec io_claims[] = {{"8-3", "8.3", "small M", "more", VERDICT_EQUAL, "", NULL},
                                      {"ex2-1", "ex 2", "Bc", "192", VERDICT_EQUAL, "", NULL}};
static const ClaimSpec lost_claim[] = {{"12-1", "12", "a section that is not there", "1", VERDICT_EQUAL, "", NULL}};
static const ClaimSpec same_claim[] = {{"1.1-1", "2.3", "an id that is taken", "1", VERDICT_EQUAL, "", NULL}};

#define PROGRAM(program_name, of, table_list, tables_in_it, claim_list, claims_in_it) \
    {.program = {.name = program_name}, .report = {.section = of, .title_en = "title", .title_zh = "题", .tables = table_list, \
     .table_count = tables_in_it, .claims = claim_list, .claim_count = claims_in_it}}

static const Experiment score = PROGRAM("s1_1_score_matrix", "1.1", score_tables, 1, score_claims, 2);
static const Experiment traffic = PROGRAM("s2_3_io_complexity", "2.3", io_tables, 2, io_claims, 2);
static const Experiment stranger = PROGRAM("s1_2_stranger", "1.2", score_tables, 1, NULL, 0);
static const Experiment displaced = PROGRAM("s2_3_io_complexity", "2.4", io_tables, 2, io_claims, 2);
static const Experiment tableless = PROGRAM("s2_3_io_complexity", "2.3", io_table_alone, 1, io_claims, 2);
static const Experiment lost = PROGRAM("s2_3_io_complexity", "2.3", io_tables, 2, lost_claim, 1);
static const Experiment same = PROGRAM("s2_3_io_complexity", "2.3", io_tables, 2, same_claim, 1);

static const struct {
    const Experiment *second;   /* beside `score` */
    const char *mistake;        /* the first one; "": none */
} cases[] = {
    {&traffic, ""},
    {&stranger, "s1_2_stranger is not the map's program of section 1.2"},
    {&displaced, "s2_3_io_complexity is not the map's program of section 2.4"},
    {&tableless, "02-3: s2_3_io_complexity has no table 'scaling'"},
    {&lost, "s2_3_io_complexity: claim 12-1 is of section '12', which the lecture does not have"},
    {&same, "s1_1_score_matrix: claim id 1.1-1 is used 2 times"},
};

/* What the map of these two programs must show. */
static const char *const lines[] = {
    "| 0.4 | 记号 | Notation | s1_1_score_matrix |  | 1 |\n",
    "| 1.2 | 近似注意力为什么没有流行起来 | Why approximate attention did not catch on |  |  |  |\n",
    "| 2.2 | 分块的两次尝试 | Two attempts at tiling | not yet |  |  |\n",
    "| 2.3 | IO 复杂度：Θ(N²d²/M) | IO complexity | s2_3_io_complexity | io, scaling |  |\n",
    "| 8 | 常见误区 | Common pitfalls | not yet, s2_3_io_complexity |  | 1 |\n",
    "| 02-2 | 2.3 | counted traffic against M, beside the closed form | s2_3_io_complexity | io | 8 (3) |\n",
    "| 05-5 | 5.3 | rescaling only when the maximum grew by more than a threshold | not yet |  |  |\n",
    "| 0.4 | 0.4-1 | bytes | 2 | cited | s1_1_score_matrix | golden_s1_1_score_matrix.txt |\n",
    "| 1.1 | 1.1-1 | a \\| b | 8 MiB | equal | s1_1_score_matrix | golden_s1_1_score_matrix.txt |\n",
    "| 8.3 | 8-3 | small M | more | equal | s2_3_io_complexity | golden_s2_3_io_complexity.txt |\n",
    "| ex 2 | ex2-1 | Bc | 192 | equal | s2_3_io_complexity | golden_s2_3_io_complexity.txt |\n",
};

static size_t rows_of(const Report *report, const char *table)
{
    for (size_t i = 0; i < report->table_count; i++)
        if (strcmp(report->tables[i]->spec->id, table) == 0) return report->tables[i]->row_count;
    return 0;
}

static void run_case(Test *t, size_t c)
{
    const Experiment *const programs[] = {&score, cases[c].second};
    Alloc alloc = {0};
    Status status = {0};
    Report report;
    Text text = {.alloc = &alloc, .status = &status};
    report_init(&report, LECTURE_MAP_NAME, &lecture_map_spec, &alloc, &status);
    lecture_map_fill(programs, 2, &report);
    report_finish(&report);
    report_write(&report, FORMAT_MARKDOWN, &text);
    check_text(t, status.text, "", "the map's status");
    check_text(t, report.mismatch_count > 0 ? report.mismatches[0] : "", cases[c].mistake, "the first mistake");
    check_u64(t, rows_of(&report, "script_parts"), 26, "numbered script parts");
    check_u64(t, rows_of(&report, "lost_tables"), 12, "lost tables");
    for (size_t i = 0; c == 0 && i < sizeof lines / sizeof lines[0]; i++)
        check_true(t, text.data != NULL && strstr(text.data, lines[i]) != NULL, lines[i]);
    text_free(&text);
    report_free(&report);
    check_u64(t, alloc.live_bytes, 0, "live bytes at the end");
}

int main(void)
{
    Test t = {0};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) run_case(&t, c);
    return test_end(&t, "test_lecture_map");
}
