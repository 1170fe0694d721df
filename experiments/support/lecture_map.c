/* lecture_map.c - see lecture_map.h.
 *
 * The lecture: notes to Lecture 21, "Optimizing Attention for Modern Hardware", of CMU 11-868 Large Language Model Systems
 * (Spring 2026). Its text refers to tables that are not in it ("lost" below) and to five scripts by number and part ("01
 * 号脚本第 4 部分"). Chinese titles are the lecture's; English ones too where it gives them, else translated.
 */
#include "lecture_map.h"
#include "text.h"

#include <string.h>

/* ------------------------------------------------------------------------------------------------------------- the lecture */

typedef struct {
    const char *number, *title_zh, *title_en;
    const char *program;        /* the section's own, whether it is there yet or not; NULL: it has none */
} Section;

static const Section sections[] = {
    {"0", "本讲导航", "How to read this lecture", NULL},
    {"0.1", "学习目标", "Learning goals", NULL},
    {"0.2", "先修与本讲范围", "Prerequisites and scope", NULL},
    {"0.3", "本讲地图", "Map", NULL},
    {"0.4", "记号", "Notation", NULL},
    {"1", "动机：瓶颈不在算，在搬", "Motivation", NULL},
    {"1.1", "长序列：能力、真实性、新领域", "Long sequences: ability, realism, new fields", "s1_1_score_matrix"},
    {"1.2", "近似注意力为什么没有流行起来", "Why approximate attention did not catch on", NULL},
    {"1.3", "GPU 的存储层次", "The memory hierarchy of a GPU", NULL},
    {"1.4", "标准实现的读写账", "The ledger of standard attention", "s1_4_standard_ledger"},
    {"1.5", "一个对照：在 CPU 上会怎样？", "A counter-example: what happens on a CPU?", "s1_5_cpu"},
    {"2", "FlashAttention：分块与重计算", "Tiling and recomputation", NULL},
    {"2.1", "两个难点", "Two difficulties", NULL},
    {"2.2", "分块的两次尝试", "Two attempts at tiling", "s2_2_rescaling"},
    {"2.3", "IO 复杂度：Θ(N²d²/M)", "IO complexity", "s2_3_io_complexity"},
    {"2.4", "下界：不可能对所有 M 都做得更好", "The lower bound: no algorithm is better for every M", "s2_4_l2_roofline"},
    {"2.5", "因果掩码：整块跳过", "The causal mask: whole tiles are skipped", "s2_5_causal"},
    {"2.6", "反向：只存 logsumexp，重算 P", "Backward: keep the logsumexp, recompute P", "s2_6_backward"},
    {"2.7", "多算了 FLOPs，为什么反而快", "More FLOPs, and yet faster", "s2_7_recompute"},
    {"2.8", "dropout：存种子，不存掩码", "Dropout: keep the seed, not the mask", "s2_8_dropout"},
    {"3", "FlashAttention-2：更好的并行与分工", "Parallelism and work partitioning", NULL},
    {"3.1", "换循环顺序", "Exchanging the loops", "s3_1_loop_order"},
    {"3.2", "更少的非矩阵乘运算", "Fewer operations outside the matrix products", "s3_2_nonmatmul"},
    {"3.3", "沿序列维并行", "Parallel along the sequence", "s3_3_parallelism"},
    {"3.4", "一个线程块里 warp 怎么分工：split-K vs split-Q", "How the warps of a block share the work", "s3_4_warp_split"},
    {"3.5", "结果", "Results", "s3_5_results"},
    {"4", "FlashAttention-3：Hopper 的异步与低精度", "Asynchrony and low precision on Hopper", NULL},
    {"4.1", "新硬件，新指令", "New hardware, new instructions", "s4_1_async"},
    {"4.2", "为什么要重叠：exp 的周期账", "Why to overlap: the cycles of exp", "s4_2_exp_cycles"},
    {"4.3", "乒乓调度与组内流水线", "Ping-pong and the pipeline inside a warpgroup", "s4_3_pingpong"},
    {"4.4", "FP8 与不相干处理", "FP8 and incoherent processing", "s4_4_fp8"},
    {"4.5", "持久内核与因果注意力的负载均衡", "Persistent kernels and balancing causal attention", "s4_5_scheduling"},
    {"4.6", "结果", "Results", "s4_6_results"},
    {"5", "FlashAttention-4：Blackwell 的不对称扩展", "Asymmetric hardware scaling", NULL},
    {"5.1", "瓶颈又转移了", "The bottleneck has moved again", "s5_1_asymmetric"},
    {"5.2", "用 FMA 单元算 exp", "exp on the FMA units", "s5_2_poly_exp"},
    {"5.3", "有条件的重新缩放", "Conditional rescaling", "s5_3_rescale_threshold"},
    {"5.4", "反向：2-CTA 与 TMEM", "Backward: 2-CTA and tensor memory", "s5_4_backward_2cta"},
    {"5.5", "结果与 CuTe-DSL", "Results and CuTe-DSL", "s5_5_results"},
    {"6", "推理时的注意力", "Attention for inference", NULL},
    {"6.1", "Flash-Decoding：沿 K/V 切开", "Flash-Decoding: splitting along K/V", "s6_1_flash_decoding"},
    {"6.2", "GQA 打包", "GQA packing", "s6_2_gqa_packing"},
    {"7", "小结", "Summary", "s7_ladder"},
    {"8", "常见误区", "Common pitfalls", "s8_pitfalls"},
    {"9", "练习", "Exercises", "s9_exercises"},
    {"10", "延伸阅读", "Further reading", NULL},
    {"11", "下一讲预告", "Next lecture", NULL},
};
enum { SECTIONS = sizeof sections / sizeof sections[0] };

/* A table or a script part of the lecture, and where it is here. table: NULL while the program is not there. */
typedef struct {
    const char *name;           /* "T4"; "02-2": script 02, part 2 */
    const char *section;
    const char *what;
    const char *program, *table;
    const char *also;           /* other places of the lecture that refer to it; "" for none */
} Place;

static const Place lost_tables[] = {
    {"T1", "1.4", "FLOPs, bytes and intensity of the three kernels, N = 4096, d = 128", "s1_4_standard_ledger", "intensity", ""},
    {"T2", "1.5", "time and peak memory of standard and blocked attention on a CPU", "s1_5_cpu", "times", ""},
    {"T3", "2.1", "two difficulties and the answer to each", "s2_2_rescaling", "difficulties", ""},
    {"T4", "2.3", "reads and writes of FlashAttention against M, N = 1024, d = 64", "s2_3_io_complexity", "io", ""},
    {"T5", "2.4", "roofline of standard attention and FlashAttention with an ideal L2", "s2_4_l2_roofline", "roofline", ""},
    {"T6", "2.7", "GPT-2 medium measured on an A100: FLOPs, HBM traffic, time", "s2_7_recompute", "published", ""},
    {"T7", "3.3", "thread blocks, waves and used SMs of FlashAttention and FlashAttention-2", "s3_3_parallelism", "utilisation", ""},
    {"T8", "4.2", "cycles of exp and of the matrix products of a tile", "s4_2_exp_cycles", "ratio", ""},
    {"T9", "4.3", "tensor cores and MUFU in use, by order of execution", "s4_3_pingpong", "schedules", ""},
    {"T10", "4.4", "error of FP8 attention by quantisation and rotation", "s4_4_fp8", "errors", ""},
    {"T11", "5.2", "polynomials for 2^x: error by degree, in float32 and BF16", "s5_2_poly_exp", "accuracy", ""},
    {"T12", "5.3", "rescaled blocks and error by threshold", "s5_3_rescale_threshold", "thresholds", ""},
};

static const Place script_parts[] = {
    {"01-1", "1.4", "counting memory: what standard attention reads and writes, N = 256", "s1_4_standard_ledger", "ledger", ""},
    {"01-2", "1.4", "intensity of its three kernels", "s1_4_standard_ledger", "intensity", ""},
    {"01-3", "2.4", "K and V are shared in L2: 132 to 66 MiB, then the roofline", "s2_4_l2_roofline", "traffic", ""},
    {"01-4", "1.1", "how large the N x N score matrix is", "s1_1_score_matrix", "sizes", ""},
    {"01-5", "1.5", "standard and blocked attention timed on a CPU", "s1_5_cpu", "times", "8 (3)"},
    {"02-1", "2.2", "FlashAttention is exact: its distance from the reference", "s2_2_rescaling", "errors", "8 (1)"},
    {"02-2", "2.3", "counted traffic against M, beside the closed form", "s2_3_io_complexity", "io", "8 (3)"},
    {"02-3", "2.3", "how traffic scales with N, d and M", "s2_3_io_complexity", "scaling", ""},
    {"02-4", "2.5", "tiles and FLOPs that a causal mask leaves", "s2_5_causal", "tiles", ""},
    {"02-5", "3.1", "the two loop orders compared", "s3_1_loop_order", "order", ""},
    {"03-1", "2.6", "gradients against automatic differentiation", "s2_6_backward", "gradients", ""},
    {"03-2", "2.6", "the identity behind D = rowsum(dO o O)", "s2_6_backward", "identity", ""},
    {"03-3", "2.6", "memory kept for the backward pass: P or L", "s2_6_backward", "saved", ""},
    {"03-4", "2.7", "FLOPs of both passes with recomputation, and their intensity", "s2_7_recompute", "flops", ""},
    {"03-5", "2.8", "dropout regenerated from a seed in both loop orders", "s2_8_dropout", "errors", "9 (4)"},
    {"04-1", "3.2", "operations outside the matrix products and their share of the time", "s3_2_nonmatmul", "shares", ""},
    {"04-2", "3.3", "SMs in use, wave by wave", "s3_3_parallelism", "utilisation", ""},
    {"04-3", "3.4", "shared-memory traffic of split-K and split-Q", "s3_4_warp_split", "splits", ""},
    {"04-4", "2.6", "atomic additions when query blocks are outside: twice as many", "s2_6_backward", "orders", "9 (6)"},
    {"04-5", "6.1", "SMs in use when decoding, without and with split K/V", "s6_1_flash_decoding", "batches", ""},
    {"04-6", "4.5", "causal blocks on three SMs in launch order and longest first", "s4_5_scheduling", "example", ""},
    {"05-1", "4.2", "cycles of exp beside those of the matrix products", "s4_2_exp_cycles", "ratio", ""},
    {"05-2", "4.3", "a scheduling model of ping-pong and of the pipeline", "s4_3_pingpong", "schedules", ""},
    {"05-3", "4.4", "FP8 error with outliers, with and without rotation", "s4_4_fp8", "errors", "8 (7)"},
    {"05-4", "5.2", "minimax polynomials for 2^x", "s5_2_poly_exp", "accuracy", ""},
    {"05-5", "5.3", "rescaling only when the maximum grew by more than a threshold", "s5_3_rescale_threshold", "thresholds", ""},
};

/* ---------------------------------------------------------------------------------------------------------------- its report */

static const Column section_columns[] = {
    {"section", "", "of the lecture"},
    {"标题", "", "its title"},
    {"title", "", "in English"},
    {"programs", "", "its own, then others that judge a claim of it"},
    {"tables", "", "of its own program"},
    {"claims", "", "numbers and statements of the section that are judged"},
};
static const Column place_columns[] = {
    {"table", "", "in the order of the lecture"},
    {"section", "", "of the lecture"},
    {"what", "", "what it held"},
    {"program", "", "that computes it"},
    {"its table", "", "id of the program's table"},
};
static const Column part_columns[] = {
    {"脚本", "", "script and part, as the lecture names them"},
    {"section", "", "of the lecture"},
    {"what", "", "what it is about"},
    {"program", "", "that computes it"},
    {"its table", "", "id of the program's table"},
    {"also in", "", "sections that refer to it again"},
};
static const Column program_columns[] = {
    {"program", "", "build/bin/NAME"},
    {"section", "", "of the lecture"},
    {"title", "", "what it shows"},
    {"tables", "", "their ids"},
    {"tests", "", "CTest names"},
};
static const Column claim_columns[] = {
    {"section", "", "of the lecture"},
    {"claim", "", "its id"},
    {"what", "", "what is claimed"},
    {"lecture", "", "as the lecture states it"},
    {"expected", "", "verdict"},
    {"program", "", "that judges it"},
    {"test", "", "CTest name"},
};
static const TableSpec sections_spec = {"sections", "Sections · 章节", section_columns, 6};
static const TableSpec tables_spec = {"lost_tables", "Tables that the lecture's text has lost · 讲义缺失的表格", place_columns, 5};
static const TableSpec parts_spec = {"script_parts", "Numbered parts of the lecture's scripts · 脚本与部分", part_columns, 6};
static const TableSpec programs_spec = {"programs", "Programs · 程序", program_columns, 5};
static const TableSpec claims_spec = {"claims", "Claims · 讲义里的数字", claim_columns, 7};
static const TableSpec *const map_tables[] = {&sections_spec, &tables_spec, &parts_spec, &programs_spec, &claims_spec};

const ReportSpec lecture_map_spec = {.section = "", .title_en = "Lecture map", .title_zh = "讲义对照", .tables = map_tables,
                                     .table_count = sizeof map_tables / sizeof map_tables[0]};

#define NOT_YET "not yet"

typedef struct {
    const Experiment *const *programs;
    size_t count;
    Report *report;
} Map;

static Text new_list(const Map *map) { return (Text){.alloc = map->report->alloc, .status = map->report->status}; }

static void add_to_list(Text *list, const char *item)
{
    if (list->length > 0) text_add(list, ", ");
    text_add(list, item);
}

static void cell_list(Table *table, Text *list)
{
    cell_text(table, list->length > 0 ? list->data : "");
    text_free(list);
}

static const Experiment *find_program(const Map *map, const char *name)
{
    for (size_t i = 0; name != NULL && i < map->count; i++)
        if (strcmp(map->programs[i]->program.name, name) == 0) return map->programs[i];
    return NULL;
}

static bool has_table(const Experiment *program, const char *id)
{
    for (size_t i = 0; i < program->report.table_count; i++)
        if (strcmp(program->report.tables[i]->id, id) == 0) return true;
    return false;
}

static const Section *find_section(const char *number, size_t length)
{
    for (size_t i = 0; i < SECTIONS; i++)
        if (strlen(sections[i].number) == length && strncmp(sections[i].number, number, length) == 0) return &sections[i];
    return NULL;
}

/* "2.3"; "8.3", a pitfall, is in 8; "ex2", an exercise, in 9. NULL: no such section. */
static const Section *section_of_claim(const ClaimSpec *claim)
{
    const Section *section = find_section(claim->section, strlen(claim->section));
    const char *dot = strrchr(claim->section, '.');
    if (section == NULL && dot != NULL) section = find_section(claim->section, (size_t)(dot - claim->section));
    if (section == NULL && strncmp(claim->section, "ex", 2) == 0) section = find_section("9", 1);
    return section;
}

static uint64_t claims_in(const Experiment *program, const Section *section)
{
    uint64_t claims = 0;
    for (size_t i = 0; i < program->report.claim_count; i++) claims += section_of_claim(&program->report.claims[i]) == section;
    return claims;
}

static void cell_table_ids(const Map *map, Table *table, const Experiment *program)
{
    Text list = new_list(map);
    for (size_t i = 0; program != NULL && i < program->report.table_count; i++) add_to_list(&list, program->report.tables[i]->id);
    cell_list(table, &list);
}

/* The section whose own program this is, there or not. */
static const Section *owner(const char *program)
{
    for (size_t i = 0; i < SECTIONS; i++)
        if (sections[i].program != NULL && strcmp(sections[i].program, program) == 0) return &sections[i];
    return NULL;
}

/* -------------------------------------------------------------------------------------------------------------- its tables */

static void add_section(const Map *map, Table *table, const Section *section)
{
    const Experiment *own = find_program(map, section->program);
    Text names = new_list(map);
    uint64_t claims = 0;
    if (section->program != NULL) add_to_list(&names, own != NULL ? section->program : NOT_YET);
    for (size_t i = 0; i < map->count; i++) {
        const uint64_t judged = claims_in(map->programs[i], section);
        claims += judged;
        if (judged > 0 && map->programs[i] != own) add_to_list(&names, map->programs[i]->program.name);
    }
    table_row(table);
    cell_text(table, section->number);
    cell_text(table, section->title_zh);
    cell_text(table, section->title_en);
    cell_list(table, &names);
    cell_table_ids(map, table, own);
    if (claims > 0) cell_count(table, claims);
    else cell_empty(table);
}

static void check_place(const Map *map, const Place *place)
{
    const Experiment *program = find_program(map, place->program);
    if (find_section(place->section, strlen(place->section)) == NULL)
        report_mismatch(map->report, "%s: the lecture has no section '%s'", place->name, place->section);
    if (owner(place->program) == NULL)
        report_mismatch(map->report, "%s: no section has the program '%s'", place->name, place->program);
    if (program == NULL) return;
    if (place->table == NULL)
        report_mismatch(map->report, "%s: %s is there; say which of its tables in support/lecture_map.c", place->name,
                        place->program);
    else if (!has_table(program, place->table))
        report_mismatch(map->report, "%s: %s has no table '%s'", place->name, place->program, place->table);
}

static void add_place(const Map *map, Table *table, const Place *place)
{
    const bool there = find_program(map, place->program) != NULL;
    table_row(table);
    cell_text(table, place->name);
    cell_text(table, place->section);
    cell_text(table, place->what);
    cell_text(table, there ? place->program : NOT_YET);
    cell_text(table, there && place->table != NULL ? place->table : "");
    if (table->spec == &parts_spec) cell_text(table, place->also);
    check_place(map, place);
}

/* A program's output is kept byte for byte; where it holds times the program only runs with --check. */
static void add_test(Text *list, const Experiment *program, const char *suffix)
{
    if (list->length > 0) text_add(list, ", ");
    text_addf(list, program->wall_clock ? "cli_%s_check" : "golden_%s.%s", program->program.name, suffix);
}

static void add_program(const Map *map, Table *table, const Experiment *program)
{
    const Section *section = owner(program->program.name);
    Text tests = new_list(map);
    add_test(&tests, program, "txt");
    if (!program->wall_clock) add_test(&tests, program, "json");
    table_row(table);
    cell_text(table, program->program.name);
    cell_text(table, program->report.section);
    cell_textf(table, "%s · %s", program->report.title_en, program->report.title_zh);
    cell_table_ids(map, table, program);
    cell_list(table, &tests);
    if (section == NULL || strcmp(section->number, program->report.section) != 0)
        report_mismatch(map->report, "%s is not the map's program of section %s", program->program.name, program->report.section);
}

static void add_claims(const Map *map, Table *table, const Section *section, const Experiment *program)
{
    for (size_t i = 0; i < program->report.claim_count; i++) {
        const ClaimSpec *claim = &program->report.claims[i];
        if (section_of_claim(claim) != section) continue;
        Text test = new_list(map);
        add_test(&test, program, "txt");
        table_row(table);
        cell_text(table, claim->section);
        cell_text(table, claim->id);
        cell_text(table, claim->what);
        cell_text(table, claim->lecture);
        cell_text(table, verdict_name(claim->expected));
        cell_text(table, program->program.name);
        cell_list(table, &test);
    }
}

/* Every claim is in the lecture, and nobody else's id is the same. */
static void check_claim(const Map *map, const Experiment *program, const ClaimSpec *claim)
{
    size_t same = 0;
    if (section_of_claim(claim) == NULL)
        report_mismatch(map->report, "%s: claim %s is of section '%s', which the lecture does not have", program->program.name,
                        claim->id, claim->section);
    for (size_t i = 0; i < map->count; i++)
        for (size_t c = 0; c < map->programs[i]->report.claim_count; c++)
            same += strcmp(map->programs[i]->report.claims[c].id, claim->id) == 0;
    if (same != 1) report_mismatch(map->report, "%s: claim id %s is used %zu times", program->program.name, claim->id, same);
}

static void fill_places(const Map *map, const TableSpec *spec, const Place *places, size_t count, const char *note)
{
    Table *table = report_table(map->report, spec);
    for (size_t i = 0; i < count; i++) add_place(map, table, &places[i]);
    table_note(table, "%s", note);
}

static void fill_sections(const Map *map)
{
    Table *table = report_table(map->report, &sections_spec);
    for (size_t i = 0; i < SECTIONS; i++) add_section(map, table, &sections[i]);
    table_note(table, "\"" NOT_YET "\": the section's own program is not part of this version. Sections without any program have "
                      "nothing to compute.");
}

static void fill_programs(const Map *map)
{
    Table *table = report_table(map->report, &programs_spec);
    for (size_t i = 0; i < map->count; i++) add_program(map, table, map->programs[i]);
    table_note(table, "All but those whose output holds times also run with --check in the test named lecture.");
}

static void fill_claims(const Map *map)
{
    Table *table = report_table(map->report, &claims_spec);
    for (size_t i = 0; i < SECTIONS; i++)
        for (size_t p = 0; p < map->count; p++) add_claims(map, table, &sections[i], map->programs[p]);
    for (size_t p = 0; p < map->count; p++) {
        const ReportSpec *spec = &map->programs[p]->report;
        for (size_t c = 0; c < spec->claim_count; c++) check_claim(map, map->programs[p], &spec->claims[c]);
    }
    table_note(table, "equal: the same to the last digit that the lecture prints. close: within a stated spread. differs: with the "
                      "reason, which the program prints. cited: a measurement or quotation that cannot be computed; never counted as "
                      "reproduced.");
}

void lecture_map_fill(const Experiment *const *programs, size_t count, Report *report)
{
    const Map map = {programs, count, report};
    fill_sections(&map);
    fill_places(&map, &tables_spec, lost_tables, sizeof lost_tables / sizeof lost_tables[0],
                "The text ends a sentence with a colon and no table follows; what stood there is rebuilt from the sentences around "
                "it.");
    fill_places(&map, &parts_spec, script_parts, sizeof script_parts / sizeof script_parts[0],
                "01-4 is what the lecture calls 01 号脚本第 4 部分 (script 01, part 4). In \"also in\", (n) is the number of a pitfall "
                "or an answer.");
    fill_programs(&map);
    fill_claims(&map);
    report_note(report, "Written by lecture --map --format md; cmake --build build --target regold writes it again.");
}
