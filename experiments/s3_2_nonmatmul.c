/* s3_2_nonmatmul.c - lecture §3.2: operations that are no matrix products, what they cost, what FlashAttention-2 saves of them.
 *
 * Every operation of a kernel has a price per element (printed below): an element-wise addition, multiplication, division,
 * comparison or exponential is 1, e^(x - m) is 2, adding P V to O is 1 per element of O, L = m + log l is 0. One head, no mask:
 *
 *     standard   5 N²                                      max, subtract, exp, sum, divide
 *     FA1        5 N² + Tc (4 N d + 8 N)                   scale instead of divide; O, P V scaled, added, divided at every step
 *     FA2        5 N² + Tc (2 N d + 4 N) + N d             O scaled, added at every step; divided once
 *
 * Elements are counted by walks of the three kernels on the profile `unbounded` and multiplied by the prices. The rule is the
 * lecture's only in its results: the text gives 7.41M and 6.39M, not the weights. They pin N = 1024 and one head; the rule here
 * is the one in which each operation of the two listings can be named, and others that give the same integers stand beside it.
 * The time columns say what the text says: units that take turns, 312 TFLOP/s for products and 19.5 TFLOP/s for everything else.
 * That is wrong in two ways that the last tables show: exponentials run on a slower unit (§4.2), and units overlap (§4.3).
 */
#include "support/chips.h"
#include "support/experiment.h"
#include "support/text.h"

#include "algos/run.h"

#include "sim/checked.h"
#include "sim/ops.h"

#include <string.h>

/* ---- counting ---- */

typedef struct {
    uint64_t N, d;
    TileSize tiles;
} Problem;

enum { VERSIONS = 3, STANDARD = 0, FA1 = 1, FA2 = 2 };
static const Algorithm *const versions[VERSIONS] = {&algorithm_standard, &algorithm_fa1, &algorithm_fa2};
static const char *const version_names[VERSIONS] = {"standard", "FA1", "FA2"};

/* What one head does. */
typedef struct {
    Problem problem;
    uint64_t elements[OPERATION_KINDS];
    uint64_t matmul, nonmatmul, formula, exponentials;
    uint64_t statistics; /* numbers per head that stay in HBM for the backward pass */
} Work;

static bool is_statistic(const Tensor *tensor)
{
    return strcmp(tensor->name, "L") == 0 || strcmp(tensor->name, "l") == 0 || strcmp(tensor->name, "m") == 0;
}

static Work read_work(const AttentionRun *run, Problem problem)
{
    const Machine *machine = &run->machine;
    Work work = {.problem = problem,
                 .matmul = run->totals.matmul_flops,
                 .nonmatmul = run->totals.nonmatmul_ops,
                 .formula = run->closed_form.nonmatmul_ops,
                 .exponentials = run->totals.exp_ops};
    for (uint32_t i = 0; i < machine->launch_count; i++)
        for (int op = 0; op < OPERATION_KINDS; op++) work.elements[op] += machine->launches[i].counts.elements[op];
    for (uint32_t i = 0; i < machine->tensor_count; i++)
        if (is_statistic(&machine->tensors[i])) work.statistics += tensor_elements(&machine->tensors[i]);
    return work;
}

/* Zero after a failure. */
static Work count(const Context *context, Report *report, const Profile *machine, int version, Problem problem)
{
    const AttentionShape shape = attention_shape(problem.N, problem.d);
    Work work = {.problem = problem};
    AttentionRun run;
    if (attention_count(&run, versions[version], &shape, problem.tiles, L2_NONE, machine, context->alloc, context->status))
        work = read_work(&run, problem);
    attention_run_free(&run);
    report_check(report, work.nonmatmul, work.formula, version_names[version]);
    return work;
}

/* ---- what an operation is ---- */

/* Its elements are scores, elements of O, or one per row. */
typedef enum { OF_SCORES, OF_OUTPUT, OF_ROWS, GROUPS } Group;

/* The operations that cost something in a forward pass; the price itself is operation_price(). */
static const struct {
    Operation operation;
    Group group;
    const char *what;
} priced[] = {
    {OP_SCALE, OF_SCORES, "scale S (standard attention: a factor of its first product, free)"},
    {OP_ROW_MAX, OF_SCORES, "compare with the row maximum so far"},
    {OP_EXP_ROWS, OF_SCORES, "subtract m, exponential"},
    {OP_ROW_SUM, OF_SCORES, "add to the row sum"},
    {OP_DIVIDE_ROWS, OF_OUTPUT, "divide by l: O at every step (FA1), O once (FA2), P (standard)"},
    {OP_SCALE_ROWS, OF_OUTPUT, "scale the old O; FA1 scales P V as well"},
    {OP_ADD, OF_OUTPUT, "FA1: add P V to O"},
    {OP_ACCUMULATE, OF_OUTPUT, "FA2: add P V to O inside the product"},
    {OP_ROWS_MAX, OF_ROWS, "FA1: m_new = max(m, m~)"},
    {OP_ROWS_EXP_DIFFERENCE, OF_ROWS, "e^(m - m_new): subtract, exponential; FA1 twice"},
    {OP_ROWS_MULTIPLY, OF_ROWS, "FA1: l e^(m - m_new), l~ e^(m~ - m_new)"},
    {OP_ROWS_ADD, OF_ROWS, "FA1: their sum"},
    {OP_ROWS_SCALE_ADD, OF_ROWS, "FA2: l = alpha l + rowsum P: multiply, add"},
};
enum { PRICED = sizeof priced / sizeof priced[0] };

static uint64_t cost(const Work *work, size_t i)
{
    return work->elements[priced[i].operation] * operation_price(priced[i].operation);
}

/* Standard attention divides P, not O. */
static uint64_t group_cost(const Work *work, int version, Group group)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < PRICED; i++) {
        const bool divides_scores = version == STANDARD && priced[i].operation == OP_DIVIDE_ROWS;
        if ((divides_scores ? OF_SCORES : priced[i].group) == group) sum += cost(work, i);
    }
    return sum;
}

/* ---- prices ---- */

enum { CHIPS = 4, MOST_CHIPS = CHIPS + 1, A100 = 0 };
static const char *const chip_names[CHIPS] = {"a100", "h100", "h200", "b200"};

typedef struct {
    Profile all[MOST_CHIPS];
    size_t count;
} Chips;

static uint64_t matmul_rate(const Profile *chip)
{
    const uint64_t newest = max_u64(chip->wgmma_bf16_flops_per_cycle_per_sm, chip->tcgen05_bf16_flops_per_cycle_per_sm);
    return max_u64(newest, chip->mma_sync_bf16_flops_per_cycle_per_sm);
}

/* A fused multiply-add is 2 FLOP, as in the published FP32 peak. */
static uint64_t fp32_rate(const Profile *chip) { return 2 * chip->fp32_fma_per_cycle_per_sm; }

/* What a FLOP outside the tensor cores costs, in tensor-core FLOPs of the same time. */
static double fp32_price(const Profile *chip) { return (double)matmul_rate(chip) / (double)fp32_rate(chip); }
static double exp_price(const Profile *chip) { return (double)matmul_rate(chip) / (double)chip->mufu_ops_per_cycle_per_sm; }

static bool load_priced(const Context *context, Chips *chips)
{
    const bool has_price = context->hw->fp32_fma_per_cycle_per_sm != PROFILE_UNLIMITED && strcmp(context->hw->name, "unbounded") != 0;
    chips->count = load_chips(context, chip_names, CHIPS, has_price, chips->all);
    return chips->count > 0;
}

/* Time in tensor-core FLOPs when units take turns: exponentials at one price, all other operations at another. */
typedef struct {
    double fp32, exp;
} Prices;

static double other_time(const Work *work, Prices prices)
{
    const uint64_t exponentials = min_u64(work->exponentials, work->nonmatmul);
    return (double)(work->nonmatmul - exponentials) * prices.fp32 + (double)exponentials * prices.exp;
}

static double time_of(const Work *work, Prices prices) { return (double)work->matmul + other_time(work, prices); }

static double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

static double change(const Work *from, const Work *to)
{
    return from->nonmatmul > 0 ? 100 * ((double)to->nonmatmul / (double)from->nonmatmul - 1) : 0;
}

static double share_of_flops(const Work *work)
{
    return percent((double)work->nonmatmul, (double)(work->nonmatmul + work->matmul));
}

static double share_of_time(const Work *work, Prices prices) { return percent(other_time(work, prices), time_of(work, prices)); }

static double speedup(const Work *from, const Work *to, Prices prices)
{
    return time_of(to, prices) > 0 ? time_of(from, prices) / time_of(to, prices) : 0;
}

/* ---- the declarations ---- */

static const Column operation_columns[] = {
    {"operation", "", "of the machine"},        {"what", "", "in the listings"},
    {"price", "", "operations per element"},    {"standard", "ops", "elements counted x price"},
    {"FA1", "ops", "elements counted x price"}, {"FA2", "ops", "elements counted x price"},
};
static const TableSpec operations_table = {"operations", "The price list, and what each operation adds up to (one head)",
                                           operation_columns, 6};

static const Column share_columns[] = {
    {"N", "", "sequence length"},
    {"d", "", "head dimension"},
    {"version", "", "of attention"},
    {"matmul", "FLOP", "4 N² d"},
    {"non-matmul", "ops", "counted by the walk"},
    {"formula", "", "closed form: ok, or the difference"},
    {"against FA1", "%", "change of the non-matmul operations"},
    {"of all FLOPs", "%", "non-matmul / (non-matmul + matmul)"},
    {"of time at 16x", "%", "the same with non-matmul operations 16 times as dear"},
    {"time, FA1 = 1", "", "matmul + 16 non-matmul, against FA1"},
};
static const TableSpec shares_table = {"shares", "Non-matmul operations: few FLOPs, much time (one head)", share_columns, 10};

static const Column group_columns[] = {
    {"version", "", "of attention"},
    {"per score", "ops", "of operations on elements of S and P"},
    {"per element of O", "ops", "of operations on elements of O"},
    {"per row", "ops", "of operations on m and l"},
    {"picture", "", "s: scores, o: elements of O, r: rows; 60 characters = FA1"},
};
static const TableSpec groups_table = {"groups", "Where they are: the scores, which no version avoids", group_columns, 5};

static const Column block_columns[] = {
    {"Br = Bc", "", "rows and keys per block"},
    {"FA1", "ops", "non-matmul, counted"},
    {"FA2", "ops", "non-matmul, counted"},
    {"change", "%", "FA2 against FA1"},
    {"FA1 time/FA2 time", "", "at 16x, units taking turns"},
};
static const TableSpec blocks_table = {"blocks", "The saving depends on the block", block_columns, 5};

static const Column rule_columns[] = {
    {"Bc", "", "keys per block"},
    {"per score", "", "operations per element of S"},
    {"FA1 per O", "", "operations per element of O and step"},
    {"FA2 per O", "", "operations per element of O and step"},
    {"FA1 rows", "", "operations per row and step"},
    {"FA2 rows", "", "operations per row and step"},
    {"end", "", "FA2: operations per row after the last step"},
    {"FA1", "ops", "by the rule"},
    {"FA2", "ops", "by the rule"},
    {"gives 7.41M, 6.39M", "", "both, after rounding"},
    {"reading", "", "what the rule counts"},
};
static const TableSpec rules_table = {
    "rules", "Counting rules that give the lecture's figures, and near misses (N = 1024, d = 64)", rule_columns, 11};

static const Column price_columns[] = {
    {"chip", "", "profile"},
    {"matmul", "FLOP/cycle", "of one SM, BF16, best instruction"},
    {"FP32", "FLOP/cycle", "of one SM; a fused multiply-add is 2"},
    {"exp", "1/cycle", "of one SM: MUFU"},
    {"matmul : FP32 : exp", "", "one FLOP of each, in exponentials"},
    {"FP32 FLOP costs", "", "matmul FLOPs of the same time"},
    {"FP32 add costs", "", "the same for an addition or product that is not fused: it takes the place of 2 FLOP"},
    {"exp costs", "", "matmul FLOPs of the same time"},
};
static const TableSpec prices_table = {"prices", "What one operation costs on each chip", price_columns, 8};

static const Column time_columns[] = {
    {"chip", "", "profile"},
    {"exp priced as", "", "an FP32 FLOP (3.2) or at the MUFU rate (4.2)"},
    {"FP32", "", "price in matmul FLOPs"},
    {"exp", "", "price in matmul FLOPs"},
    {"FA1 share", "%", "non-matmul share of time, units taking turns"},
    {"FA2 share", "%", "non-matmul share of time, units taking turns"},
    {"FA1 time/FA2 time", "", "what the saving is worth"},
    {"exp/matmul", "", "time of FA2's exponentials over time of its products: above 1, exp is the longer"},
};
static const TableSpec times_table = {"times", "The share of time by two price lists", time_columns, 8};

static const Column silicon_columns[] = {
    {"N", "", "sequence length"},
    {"d", "", "head dimension"},
    {"instruction", "", "counted by the chip"},
    {"price list", "", "the operations that it stands for"},
    {"FA2 walk", "", "elements of these operations, one head"},
    {"H200", "", "executed by threads, one head"},
    {"H200/walk", "", "1: the price list counts what the chip does"},
};
static const TableSpec silicon_table = {"silicon", "The price list against hardware counters (FlashAttention-2 on one H200)",
                                        silicon_columns, 7};

static const Column statistic_columns[] = {
    {"version", "", "of attention"},
    {"kept", "", "tensors in HBM after the forward pass"},
    {"numbers", "", "per head"},
    {"per row", "", "numbers / N"},
};
static const TableSpec statistics_table = {"statistics", "Statistics kept for the backward pass (one head)", statistic_columns,
                                           4};

static const TableSpec *const tables[] = {&operations_table, &shares_table, &groups_table,  &blocks_table,    &rules_table,
                                          &prices_table,     &times_table,  &silicon_table, &statistics_table};

#define LECTURE_SHAPE "N=1024, d=64, one head"

static const ClaimSpec claims[] = {
    {"P010", "3.2", "A100 tensor-core peak, TFLOP/s", "312", VERDICT_EQUAL, "108 SMs x 2048 FLOP x 1410 MHz (profile a100)",
     NULL},
    {"P011", "3.2", "A100 FP32 peak outside the tensor cores, TFLOP/s", "19.5", VERDICT_EQUAL, "108 SMs x 64 FMA x 2 x 1410 MHz",
     NULL},
    {"P012", "3.2", "what a non-matmul FLOP costs", "16x", VERDICT_EQUAL, "2048 / (2 x 64) FLOP per cycle", NULL},
    {"P013", "3.2", "non-matmul operations of FA1, " LECTURE_SHAPE, "7.41M", VERDICT_EQUAL,
     "walk x price list at Br=Bc=128; the text gives no rule: fitted, not the only one (table rules)", NULL},
    {"P014", "3.2", "non-matmul operations of FA2, " LECTURE_SHAPE, "6.39M", VERDICT_EQUAL,
     "walk x price list at Br=Bc=128; the text gives no rule: fitted, not the only one (table rules)", NULL},
    {"P015", "3.2", "change from FA1 to FA2", "-14%", VERDICT_EQUAL, "(FA2 - FA1) / FA1", NULL},
    {"P016", "3.2", "non-matmul share of all FLOPs", "2-3%", VERDICT_EQUAL, "x / (x + 4N²d): FA2, FA1", NULL},
    {"P017", "3.2", "non-matmul share of time at 16x", "28-31%", VERDICT_EQUAL, "16x / (16x + 4N²d): FA2, FA1", NULL},
    {"P018", "3.2", "per element of O and step: FA1 two scalings and a division, FA2 one scaling", "2 + 1; 1", VERDICT_EQUAL,
     "elements counted / (N d Tc); the addition comes on top in both, without it no rule fits", NULL},
    {"P019", "3.2", "statistics kept for the backward pass: L instead of m and l", "1 instead of 2", VERDICT_EQUAL,
     "numbers left in HBM / N", NULL},
    {"R-A13", "3.2", "standard attention's non-matmul operations, to compare (not in the text)", "5N² = 5.24M", VERDICT_EQUAL,
     "walk x price list", NULL},
    {"R-A12.6", "3.2", "-14 % is not much (also pitfall 6: the speed-up comes from parallelism)", "not much", VERDICT_EQUAL,
     "(4N²d + 16 FA1) / (4N²d + 16 FA2) below 1.05", NULL},
    {"R-C3.2", "3.2", "an exponential costs 16x too, as in the 28-31 %", "16x", VERDICT_DIFFERS,
     "2048 FLOP / 16 MUFU results per cycle", "3.2 prices exp as an FP32 FLOP; by the MUFU rate of 4.2 it is 8 times as dear"},
};

static const ProgramOption options[] = {
    {OPTION_SEQLEN, "1k"}, {OPTION_HEAD_DIM, "64,128"}, {OPTION_BLOCK_Q, "128"}, {OPTION_BLOCK_K, "128"}};

/* ---- the tables ---- */

static Problem problem_of(const OptionPoint *point)
{
    return (Problem){point->seqlen, point->head_dim, {(uint32_t)point->block_q, (uint32_t)point->block_k}};
}

static void add_operations(const Work work[VERSIONS], Report *report)
{
    Table *table = report_table(report, &operations_table);
    const Problem *p = &work[FA1].problem;
    table_title(table,
                "The price list, and what each operation adds up to (one head, N = %" PRIu64 ", d = %" PRIu64
                ", Br = %u, Bc = %u)",
                p->N, p->d, p->tiles.Br, p->tiles.Bc);
    for (size_t i = 0; i < PRICED; i++) {
        table_row(table);
        cell_text(table, operation_name(priced[i].operation));
        cell_text(table, priced[i].what);
        cell_count(table, operation_price(priced[i].operation));
        for (int v = 0; v < VERSIONS; v++) {
            if (cost(&work[v], i) > 0)
                cell_count(table, cost(&work[v], i));
            else
                cell_empty(table);
        }
    }
    table_row(table);
    cell_text(table, "all");
    cell_empty(table);
    cell_empty(table);
    for (int v = 0; v < VERSIONS; v++) {
        uint64_t sum = 0;
        for (size_t i = 0; i < PRICED; i++) sum += cost(&work[v], i);
        cell_count(table, sum);
        report_check(report, sum, work[v].nonmatmul, "the operations listed are all that cost something");
    }
    table_note(table, "Free: loads, stores, products, masks, conversions, L = m + log l.");
    table_note(table, "FA1 and FA2 share the first four lines. Below them FA2 saves a scaling and a division of O at every "
                      "step, and half");
    table_note(table, "of the row statistics.");
}

static void share_row(Table *table, const Work *work, int version, const Work *fa1, Prices prices)
{
    table_row(table);
    cell_count(table, work->problem.N);
    cell_count(table, work->problem.d);
    cell_text(table, version_names[version]);
    cell_count(table, work->matmul);
    cell_count(table, work->nonmatmul);
    cell_check(table, work->nonmatmul, work->formula, version_names[version]);
    if (version == FA1)
        cell_empty(table);
    else
        cell_decimals(table, change(fa1, work), 1);
    cell_decimals(table, share_of_flops(work), 2);
    cell_decimals(table, share_of_time(work, prices), 1);
    cell_decimals(table, speedup(work, fa1, prices), 3);
}

/* `first`: of the first point of the sweep, already walked. */
static void add_shares(const Context *context, const Profile *machine, const Work first[VERSIONS], Prices prices, Report *report)
{
    Table *table = report_table(report, &shares_table);
    for (size_t i = 0; i < options_point_count(context->options); i++) {
        const OptionPoint point = options_point(context->options, i);
        Work work[VERSIONS];
        for (int v = 0; v < VERSIONS; v++) work[v] = i == 0 ? first[v] : count(context, report, machine, v, problem_of(&point));
        for (int v = 0; v < VERSIONS; v++) share_row(table, &work[v], v, &work[FA1], prices);
    }
    table_note(table,
               "16x: 312 / 19.5 TFLOP/s of the A100. Units take turns here; a kernel that overlaps them hides a part (4.3).");
    table_note(table, "Standard attention has the fewest and is still the slowest: its time goes into HBM traffic (1.4), "
                      "not seen here.");
}

static void add_groups(const Work work[VERSIONS], Report *report)
{
    enum { WIDTH = 60 };
    static const char marks[GROUPS] = {'s', 'o', 'r'};
    Table *table = report_table(report, &groups_table);
    for (int v = 0; v < VERSIONS; v++) {
        char line[2 * WIDTH + 1];
        size_t end = 0;
        uint64_t sum = 0;
        table_row(table);
        cell_text(table, version_names[v]);
        for (int g = 0; g < GROUPS; g++) {
            const uint64_t ops = group_cost(&work[v], v, (Group)g);
            sum += ops;
            const double until = work[FA1].nonmatmul > 0 ? (double)sum * WIDTH / (double)work[FA1].nonmatmul : 0;
            while (end < 2 * WIDTH && (double)end + 0.5 < until) line[end++] = marks[g];
            cell_count(table, ops);
        }
        line[end] = '\0';
        cell_text(table, line);
    }
    table_note(table, "Delayed division halves what grows with Tc; the 5 operations per score stay, and they are most of it.");
}

static void add_blocks(const Context *context, const Profile *machine, Prices prices, Report *report)
{
    static const uint32_t sides[] = {16, 32, 64, 128, 256};
    const uint64_t most_blocks = 1024; /* of a sequence: longer walks show nothing new */
    const OptionPoint point = options_point(context->options, 0);
    Table *table = report_table(report, &blocks_table);
    table_title(table, "The saving depends on the block (one head, N = %" PRIu64 ", d = %" PRIu64 ")", point.seqlen,
                point.head_dim);
    for (size_t i = 0; i < sizeof sides / sizeof sides[0]; i++) {
        const Problem p = {point.seqlen, point.head_dim, {sides[i], sides[i]}};
        if (ceil_div(p.N, sides[i]) > most_blocks) continue;
        const Work fa1 = count(context, report, machine, FA1, p), fa2 = count(context, report, machine, FA2, p);
        table_row(table);
        cell_count(table, sides[i]);
        cell_count(table, fa1.nonmatmul);
        cell_count(table, fa2.nonmatmul);
        cell_decimals(table, change(&fa1, &fa2), 1);
        cell_decimals(table, speedup(&fa1, &fa2, prices), 3);
    }
    if (ceil_div(point.seqlen, sides[0]) > most_blocks)
        table_note(table, "Blocks of which a sequence has more than %d are left out.", (int)most_blocks);
    table_note(table,
               "O is touched once per key block. Many small blocks: FA2 halves most of the work; few large ones: hardly any.");
}

/* ---- the counting rule ---- */

typedef struct {
    uint64_t Bc, per_score, fa1_o, fa2_o, fa1_rows, fa2_rows, end;
    const char *reading;
} Rule;

static const Rule rules[] = {
    {128, 5, 4, 2, 8, 4, 64, "ours: every operation of both listings; the end is O / l"},
    {64, 5, 2, 1, 4, 2, 64, "half of ours at half the block: the same integers for every d"},
    {64, 4, 3, 2, 4, 2, 64, "S is not scaled; one more per element of O"},
    {128, 4, 6, 4, 8, 4, 64, "S is not scaled; two more per element of O"},
    {128, 6, 2, 0, 8, 4, 64, "six per score, FA2's O free"},
    {128, 5, 4, 2, 9, 4, 64, "ours, one more per row in FA1"},
    {128, 5, 4, 2, 8, 4, 66, "ours, L = m + log l counted as 2"},
    {128, 5, 4, 2, 8, 5, 64, "near miss: FA2's running maximum as one more"},
    {128, 5, 3, 1, 8, 4, 64, "near miss: ours without the additions to O"},
    {64, 5, 4, 2, 8, 4, 64, "near miss: our weights with blocks of 64"},
};
enum { RULES = sizeof rules / sizeof rules[0], LECTURE_N = 1024, LECTURE_D = 64 };

/* N²: scores; N Tc: steps of all rows. */
static uint64_t rule_count(const Rule *r, uint64_t per_o, uint64_t per_row, uint64_t end)
{
    const uint64_t N = LECTURE_N, Tc = ceil_div(N, r->Bc);
    return r->per_score * N * N + Tc * N * (per_o * LECTURE_D + per_row) + end * N;
}

static uint64_t in_ten_thousands(uint64_t x) { return (x + 5000) / 10000; }

static void add_rules(const Work *fa1, const Work *fa2, Report *report)
{
    Table *table = report_table(report, &rules_table);
    for (size_t i = 0; i < RULES; i++) {
        const Rule *r = &rules[i];
        const uint64_t one = rule_count(r, r->fa1_o, r->fa1_rows, 0), two = rule_count(r, r->fa2_o, r->fa2_rows, r->end);
        const uint64_t cells[] = {r->Bc, r->per_score, r->fa1_o, r->fa2_o, r->fa1_rows, r->fa2_rows, r->end, one, two};
        table_row(table);
        for (size_t c = 0; c < sizeof cells / sizeof cells[0]; c++) cell_count(table, cells[c]);
        cell_text(table, in_ten_thousands(one) == 741 && in_ten_thousands(two) == 639 ? "yes" : "no");
        cell_text(table, r->reading);
        if (i > 0) continue;
        report_check(report, fa1->nonmatmul, one, "FA1 against our rule");
        report_check(report, fa2->nonmatmul, two, "FA2 against our rule");
    }
    table_note(table, "The text does not say how it counts. Its shares of time need 4N²d = 268.4M: N = 1024 and one head "
                      "are sure, block");
    table_note(table, "and weights are not.");
}

/* ---- chips ---- */

static void price_row(Table *table, const char *name, uint64_t matmul, uint64_t fp32, uint64_t mufu)
{
    const double m = (double)matmul, f = (double)fp32, e = (double)mufu;
    table_row(table);
    cell_text(table, name);
    cell_count(table, matmul);
    cell_count(table, fp32);
    cell_count(table, mufu);
    cell_textf(table, "%.0f : %.0f : 1", m / e, f / e);
    cell_decimals(table, m / f, 1);
    cell_decimals(table, 2 * m / f, 1);
    cell_decimals(table, m / e, 0);
}

/* One H200, CUDA C++ micro-benchmarks with clock64, median of 7: wgmma m64n128k16 4,094, FFMA 106.9, ex2 15.998 per SM and cycle. */
enum { H200_WGMMA = 4094, H200_FFMA_FLOPS = 214, H200_EX2 = 16 };

static void add_prices(const Chips *chips, Report *report)
{
    Table *table = report_table(report, &prices_table);
    for (size_t c = 0; c < chips->count; c++) {
        const Profile *chip = &chips->all[c];
        price_row(table, chip->name, matmul_rate(chip), fp32_rate(chip), chip->mufu_ops_per_cycle_per_sm);
    }
    price_row(table, "h200, measured", H200_WGMMA, H200_FFMA_FLOPS, H200_EX2);
    table_note(table, "Tensor cores double from A100 to H100 to B200, MUFU stays at 16 (the B300 has 32): the price of exp "
                      "doubles (4.2, 5.1).");
    table_note(table, "19.5 TFLOP/s counts a fused multiply-add as two: an addition that fuses with nothing costs 32x on "
                      "an A100, not 16x.");
    table_note(table,
               "h200, measured: micro-benchmarks (CUDA C++, clock64): wgmma 4,094 FLOP, FFMA 106.9, ex2 16.0 per SM and cycle.");
}

static void time_row(Table *table, const Profile *chip, bool mufu, const Work *fa1, const Work *fa2)
{
    const Prices prices = {fp32_price(chip), mufu ? exp_price(chip) : fp32_price(chip)};
    const double exponentials = (double)fa2->exponentials * prices.exp;
    table_row(table);
    cell_text(table, chip->name);
    cell_text(table, mufu ? "MUFU" : "FP32 FLOP");
    cell_decimals(table, prices.fp32, 0);
    cell_decimals(table, prices.exp, 0);
    cell_decimals(table, share_of_time(fa1, prices), 1);
    cell_decimals(table, share_of_time(fa2, prices), 1);
    cell_decimals(table, speedup(fa1, fa2, prices), 3);
    cell_decimals(table, fa2->matmul > 0 ? exponentials / (double)fa2->matmul : 0, 2);
}

static void add_times(const Chips *chips, const Work *fa1, const Work *fa2, Report *report)
{
    Table *table = report_table(report, &times_table);
    table_title(table, "The share of time by two price lists (N = %" PRIu64 ", d = %" PRIu64 ")", fa1->problem.N, fa1->problem.d);
    for (size_t c = 0; c < chips->count; c++)
        for (int mufu = 0; mufu < 2; mufu++) time_row(table, &chips->all[c], mufu, fa1, fa2);
    table_note(table, "At the lecture's shape exp at its own rate takes the share on an A100 to nearly half, not 28-31 %%, and "
                      "FA2's saving is");
    table_note(table,
               "worth less: it executes as many as FA1, but for one per row and step. FlashAttention-3 and 4 turn to that.");
}

/* ---- silicon ---- */

/* flash_fwd_kernel (PyTorch 2.11, CUDA 13.0, BF16, no mask, 16 heads) under Nsight Compute on one H200: thread instructions of
 * the launch, MUFU and all warp instructions times 32. */
typedef struct {
    Problem problem; /* the kernel's tiles */
    uint64_t heads, fmul, fadd, ffma, mufu_warps, tensor_warps, warps;
} Counters;

static const Counters counters[] = {
    {{1024, 64, {128, 128}}, 16, 26214400, 33685504, 655360, 544256, 1048576, 7136768},
    {{16384, 64, {128, 128}}, 16, 6710886400, 8592031744, 136314880, 138469376, 268435456, 1761763328},
    {{1024, 128, {128, 64}}, 16, 52428800, 33685504, 1179648, 560640, 2097152, 10412544},
};

static void silicon_row(Table *table, const Counters *c, const char *instruction, const char *stands_for, uint64_t walk,
                        uint64_t chip)
{
    table_row(table);
    cell_count(table, c->problem.N);
    cell_count(table, c->problem.d);
    cell_text(table, instruction);
    cell_text(table, stands_for);
    cell_count(table, walk);
    cell_count(table, chip / c->heads);
    if (walk > 0)
        cell_decimals(table, (double)(chip / c->heads) / (double)walk, 3);
    else
        cell_empty(table);
}

static void add_silicon(const Context *context, const Profile *machine, Report *report)
{
    Table *table = report_table(report, &silicon_table);
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++) {
        const Counters *c = &counters[i];
        const Work work = count(context, report, machine, FA2, c->problem);
        const uint64_t *e = work.elements;
        silicon_row(table, c, "FMUL", "scale S, rescale O, divide O", e[OP_SCALE] + e[OP_SCALE_ROWS] + e[OP_DIVIDE_ROWS],
                    c->fmul);
        silicon_row(table, c, "FADD", "S - m, m - m_new, row sums", e[OP_EXP_ROWS] + e[OP_ROWS_EXP_DIFFERENCE] + e[OP_ROW_SUM],
                    c->fadd);
        silicon_row(table, c, "MUFU", "exponentials", work.exponentials, c->mufu_warps * 32);
        silicon_row(table, c, "FFMA", "l = alpha l + sum", e[OP_ROWS_SCALE_ADD], c->ffma);
        silicon_row(table, c, "all but tensor", "the whole list", work.nonmatmul, (c->warps - c->tensor_warps) * 32);
    }
    table_note(table,
               "Five per score is what the chip does: one FMUL, two FADD, one MUFU, and a comparison, which has no counter.");
    table_note(table, "Solved from the rows, the chip's FMUL = N² + N d Tc + 8 N Tc and FADD = 2N² + 8N: the agreement to the last digit");
    table_note(table, "at N = 1024 is chance, within 4 %% everywhere is not.");
    table_note(table, "Row statistics are computed by the four lanes that share a row: 4 to 5 times as often as counted, "
                      "and still little.");
    table_note(table, "Adding P V to O (one per element of O and step, 8 %% of FA2's count at d = 64) is free: tensor "
                      "cores accumulate.");
    table_note(table, "All but tensor: the rest is comparisons, conversion of P to BF16, addresses, loads and barriers.");
    table_note(table, "Source: one H200, PyTorch 2.11 flash_fwd_kernel (CUDA 13.0), BF16, 16 heads, Nsight Compute, one launch.");
}

static void add_statistics(const Work work[VERSIONS], Report *report)
{
    static const char *const kept[VERSIONS] = {"none; P itself, N² numbers", "l, m", "L"};
    Table *table = report_table(report, &statistics_table);
    for (int v = 0; v < VERSIONS; v++) {
        table_row(table);
        cell_text(table, version_names[v]);
        cell_text(table, kept[v]);
        cell_count(table, work[v].statistics);
        cell_decimals(table, work[v].problem.N > 0 ? (double)work[v].statistics / (double)work[v].problem.N : 0, 0);
    }
}

/* ---- the claims, at the lecture's shape ---- */

static void judge_prices(const Profile *a100, Report *report)
{
    const double cycles = (double)a100->sm_count * (double)a100->tensor_clock_hz;
    claim_decimals(report, "P010", 312, 0, cycles * (double)matmul_rate(a100) / 1e12, " TFLOP/s");
    claim_decimals(report, "P011", 19.5, 1, cycles * (double)fp32_rate(a100) / 1e12, " TFLOP/s");
    claim_decimals(report, "P012", 16, 0, fp32_price(a100), "x");
    claim_holds(report, "R-C3.2", exp_price(a100) <= 16, "%.0fx", exp_price(a100));
}

static void judge_counts(const Work work[VERSIONS], Prices prices, Report *report)
{
    const Work *fa1 = &work[FA1], *fa2 = &work[FA2];
    const uint64_t N = fa1->problem.N, steps = N * fa1->problem.d * ceil_div(N, fa1->problem.tiles.Bc);
    claim_decimals(report, "P013", 7.41, 2, (double)fa1->nonmatmul / 1e6, "M");
    claim_decimals(report, "P014", 6.39, 2, (double)fa2->nonmatmul / 1e6, "M");
    claim_decimals(report, "P015", -14, 0, change(fa1, fa2), "%");
    const double flops1 = share_of_flops(fa1), flops2 = share_of_flops(fa2);
    claim_holds(report, "P016", flops2 >= 1.5 && flops2 < 2.5 && flops1 >= 2.5 && flops1 < 3.5, "FA2 %.2f%%, FA1 %.2f%%", flops2,
                flops1);
    const double time1 = share_of_time(fa1, prices), time2 = share_of_time(fa2, prices);
    claim_holds(report, "P017", time2 >= 27.5 && time2 < 28.5 && time1 >= 30.5 && time1 < 31.5, "FA2 %.2f%%, FA1 %.2f%%", time2,
                time1);
    const uint64_t *e1 = fa1->elements, *e2 = fa2->elements;
    claim_holds(report, "P018",
                e1[OP_SCALE_ROWS] == 2 * steps && e1[OP_DIVIDE_ROWS] == steps && e1[OP_ADD] == steps &&
                    e2[OP_SCALE_ROWS] == steps && e2[OP_DIVIDE_ROWS] == N * fa2->problem.d && e2[OP_ACCUMULATE] == steps,
                "FA1 2 scalings + 1 division, FA2 1 scaling (each + 1 addition)");
    claim_holds(report, "P019", fa1->statistics == 2 * N && fa2->statistics == N, "FA1 %" PRIu64 ", FA2 %" PRIu64 " per row",
                fa1->statistics / N, fa2->statistics / N);
    claim_holds(report, "R-A13", work[STANDARD].nonmatmul == 5 * N * N, "%" PRIu64 " = %.2fM", work[STANDARD].nonmatmul,
                (double)work[STANDARD].nonmatmul / 1e6);
    const double gain = speedup(fa1, fa2, prices);
    claim_holds(report, "R-A12.6", gain < 1.05, "%.3f times faster at 16x", gain);
}

static bool run(Context *context, Report *report)
{
    Profile machine;
    Chips chips;
    Work first[VERSIONS], lecture[VERSIONS];
    const OptionPoint point = options_point(context->options, 0);
    const Problem shape = problem_of(&point), lecture_shape = {LECTURE_N, LECTURE_D, {128, 128}};
    if (!profile_load("unbounded", context->alloc, &machine, context->status) || !load_priced(context, &chips)) return false;
    const double sixteen = fp32_price(&chips.all[A100]);
    const Prices prices = {sixteen, sixteen};
    for (int v = 0; v < VERSIONS; v++) {
        first[v] = count(context, report, &machine, v, shape);
        lecture[v] = count(context, report, &machine, v, lecture_shape);
    }
    report_param_text(report, "machine", "unbounded, one head, no mask");
    add_operations(first, report);
    add_shares(context, &machine, first, prices, report);
    add_groups(first, report);
    add_blocks(context, &machine, prices, report);
    add_rules(&lecture[FA1], &lecture[FA2], report);
    add_prices(&chips, report);
    add_times(&chips, &first[FA1], &first[FA2], report);
    add_silicon(context, &machine, report);
    add_statistics(first, report);
    judge_prices(&chips.all[A100], report);
    judge_counts(lecture, prices, report);
    return status_ok(context->status);
}

const Experiment experiment_s3_2_nonmatmul = {
    .program =
        {
            .name = "s3_2_nonmatmul",
            .purpose =
                "operations that are no matrix products: how many, what they cost, what FlashAttention-2 saves (lecture 3.2)",
            .examples = {"", "--seqlen 1k,8k --head-dim 64,128 --block-q 128 --block-k 64,128"},
            .options = options,
            .option_count = sizeof options / sizeof options[0],
        },
    .report =
        {
            .section = "3.2",
            .title_en = "Fewer non-matmul operations",
            .title_zh = "更少的非矩阵乘运算",
            .tables = tables,
            .table_count = sizeof tables / sizeof tables[0],
            .claims = claims,
            .claim_count = sizeof claims / sizeof claims[0],
        },
    .run = run,
};
