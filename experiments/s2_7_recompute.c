/* s2_7_recompute.c - lecture §2.7: more FLOPs, and faster all the same.
 *
 *     FLOPs       forward 4N²d, backward 8N²d; FlashAttention recomputes S in the backward, + 2N²d: 12 -> 14 N²d (+16.7 %)
 *     traffic     standard 12Nd + 11N² elements; FlashAttention 13Nd if L2 absorbs all rereads
 *     intensity   12N²d / (2 (12Nd + 11N²)) = 33 FLOP/byte   ->   14N²d / (2 * 13Nd) = 7N/13 = 551      (N = 1024, d = 64, FP16)
 *
 * The 13 is a rule, not a measurement: dQ is written once in FP16, row statistics and zeroing are left out. This program walks
 * the kernels, says which rows the rule takes, and puts other rules beside it: float32 sums for dQ, everything that moves, no L2
 * at all. Then the roofline on four chips, and the published measurement beside our counts. What it leaves out: everything that
 * keeps a kernel below its roofline.
 */
#include "support/chips.h"
#include "support/experiment.h"
#include "support/ratios.h"
#include "support/text.h"

#include "algos/run.h"
#include "sim/checked.h"
#include "sim/math_functions.h"

#include <string.h>

/* The lecture's shape, and the layer of the published table: GPT-2 medium, batch 64 x 16 heads, FP16. */
enum { LECTURE_N = 1024, LECTURE_D = 64, LECTURE_BLOCK = 128, LAYER_HEADS = 64 * 16, CHIPS = 4 };

static const char *const chip_names[CHIPS] = {"a100", "h200", "b200", "h100"}; /* by rising balance point */

/* ---- one training step of one head: forward and backward, walked ---- */

typedef struct {
    AttentionRun forward, backward;
} Step;

typedef struct {
    const Context *context;
    Report *report;
    Profile machine;
    Profile chips[CHIPS + 1]; /* and the one of --hw if it is none of them */
    size_t chip_count;
} World;

static void check_all(Report *report, const AttentionRun *run)
{
    CountPair pairs[COUNT_PAIRS];
    count_pairs(&run->totals, &run->closed_form, pairs);
    for (size_t i = 0; i < COUNT_PAIRS; i++) report_check(report, pairs[i].counted, pairs[i].formula, pairs[i].name);
}

static AttentionShape one_head(uint64_t N, uint64_t d)
{
    AttentionShape shape = attention_shape(N, d);
    shape.dtype = ELEMENT_FP16;
    return shape;
}

typedef struct {
    uint64_t N, d;
    TileSize tiles;
} Problem;

/* free_step is the caller's, also after a failure. */
static bool walk_step(const World *world, const Algorithm *algorithm, Problem p, L2Model l2, bool direct_dq, Step *step)
{
    const Context *cx = world->context;
    const AttentionShape shape = one_head(p.N, p.d);
    const RunSetup setup = {
        .algorithm = algorithm, .profile = &world->machine, .tiles = p.tiles, .config = {.mode = MODE_COUNT, .l2 = l2}};
    *step = (Step){.forward = {.totals = {0}}};
    if (!attention_count(&step->forward, algorithm, &shape, p.tiles, l2, &world->machine, cx->alloc, cx->status) ||
        !attention_run_prepare(&step->backward, &setup, &shape, cx->alloc, cx->status) ||
        !attention_run_prepare_backward(&step->backward, p.tiles, (BackwardVariant){.direct_dq = direct_dq}) ||
        !attention_run_backward(&step->backward))
        return false;
    check_all(world->report, &step->forward);
    check_all(world->report, &step->backward);
    return true;
}

static void free_step(Step *step)
{
    attention_run_free(&step->forward);
    attention_run_free(&step->backward);
}

static uint64_t step_flops(const Step *step) { return step->forward.totals.matmul_flops + step->backward.totals.matmul_flops; }

static uint64_t row_moved(const LedgerRow *row) { return row->traffic.hbm_read + row->traffic.hbm_write; }

static uint64_t run_elements(const AttentionRun *run) { return run->totals.hbm_read_elements + run->totals.hbm_write_elements; }

/* Without L2 an atomic addition reads and writes HBM; with it these are HBM lines already. */
static uint64_t run_bytes(const AttentionRun *run)
{
    uint64_t bytes = run->totals.hbm_read_bytes + run->totals.hbm_write_bytes;
    for (uint32_t i = 0; i < run->machine.ledger_count && run->setup.config.l2 == L2_NONE; i++)
        bytes += 2 * run->machine.ledger[i].traffic.atomic_adds * element_bytes(run->machine.ledger[i].tensor->type);
    return bytes;
}

/* All walks that the tables of one shape need. */
typedef struct {
    Problem problem;
    Step standard, direct, shipped; /* ideal L2 */
    Step direct_none, shipped_none; /* no L2 */
} Steps;

static bool walk_all(const World *world, Problem p, Steps *s)
{
    *s = (Steps){.problem = p};
    const bool walked[] = {walk_step(world, &algorithm_standard, p, L2_IDEAL, false, &s->standard),
                           walk_step(world, &algorithm_fa2, p, L2_IDEAL, true, &s->direct),
                           walk_step(world, &algorithm_fa2, p, L2_IDEAL, false, &s->shipped),
                           walk_step(world, &algorithm_fa2, p, L2_NONE, true, &s->direct_none),
                           walk_step(world, &algorithm_fa2, p, L2_NONE, false, &s->shipped_none)};
    return walked[0] && walked[1] && walked[2] && walked[3] && walked[4];
}

static void free_all(Steps *s)
{
    Step *const steps[] = {&s->standard, &s->direct, &s->shipped, &s->direct_none, &s->shipped_none};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) free_step(steps[i]);
}

/* ---- the rules: what counts as traffic ---- */

/* A line of the walk with an ideal L2: where each variant of dQ has it, and whether the lecture's 13Nd takes it. */
typedef struct {
    const char *launch; /* "" in the forward pass */
    const char *array;
    bool write;
    const char *direct, *shipped; /* "launch/tensor"; NULL: not there */
    const char *left_out;         /* why; NULL: counted */
} Line;

#define STATISTIC "row statistics: N elements, not Nd"
static const Line lines[] = {
    {"forward", "Q", false, "fa2_forward/Q", "fa2_forward/Q", NULL},
    {"forward", "K", false, "fa2_forward/K", "fa2_forward/K", NULL},
    {"forward", "V", false, "fa2_forward/V", "fa2_forward/V", NULL},
    {"forward", "O", true, "fa2_forward/O", "fa2_forward/O", NULL},
    {"forward", "L", true, "fa2_forward/L", "fa2_forward/L", STATISTIC},
    {"zero dQ", "dQ", true, "fa2_bwd_zero/dQ", "fa2_bwd_dot/dQ sum", "zeroing: could stay in L2"},
    {"D", "O", false, "fa2_bwd_dot/O", "fa2_bwd_dot/O", NULL},
    {"D", "dO", false, "fa2_bwd_dot/dO", "fa2_bwd_dot/dO", NULL},
    {"D", "D", true, "fa2_bwd_dot/D", "fa2_bwd_dot/D", STATISTIC},
    {"main", "Q", false, "fa2_bwd/Q", "fa2_bwd/Q", NULL},
    {"main", "K", false, "fa2_bwd/K", "fa2_bwd/K", NULL},
    {"main", "V", false, "fa2_bwd/V", "fa2_bwd/V", NULL},
    {"main", "dO", false, "fa2_bwd/dO", "fa2_bwd/dO", NULL},
    {"main", "L", false, "fa2_bwd/L", "fa2_bwd/L", STATISTIC},
    {"main", "D", false, "fa2_bwd/D", "fa2_bwd/D", STATISTIC},
    {"main", "dQ", false, "fa2_bwd/dQ", "fa2_bwd/dQ sum", "the zeros, fetched back to add to"},
    {"main", "dQ", true, "fa2_bwd/dQ", "fa2_bwd/dQ sum", NULL},
    {"main", "dK", true, "fa2_bwd/dK", "fa2_bwd/dK", NULL},
    {"main", "dV", true, "fa2_bwd/dV", "fa2_bwd/dV", NULL},
    {"convert dQ", "sums", false, NULL, "fa2_bwd_convert/dQ sum", NULL},
    {"convert dQ", "dQ", true, NULL, "fa2_bwd_convert/dQ", NULL},
};
enum { LINES = sizeof lines / sizeof lines[0] };

typedef struct {
    uint64_t elements, bytes;
} Amount;

static bool row_is(const LedgerRow *row, const char *place)
{
    const size_t launch = strlen(row->kernel);
    return strncmp(row->kernel, place, launch) == 0 && place[launch] == '/' && strcmp(row->tensor->name, place + launch + 1) == 0;
}

static Amount amount_at(const Step *step, const char *place, bool write)
{
    Amount sum = {0};
    const Machine *machines[] = {&step->forward.machine, &step->backward.machine};
    for (size_t m = 0; m < 2 && place != NULL; m++)
        for (uint32_t i = 0; i < machines[m]->ledger_count; i++) {
            const LedgerRow *row = &machines[m]->ledger[i];
            if (!row_is(row, place)) continue;
            const uint64_t elements = write ? row->traffic.hbm_write : row->traffic.hbm_read;
            sum.elements += elements;
            sum.bytes += elements * element_bytes(row->tensor->type);
        }
    return sum;
}

/* What a rule takes of a step, and all of it. */
typedef struct {
    Amount counted, all;
} RuleSum;

static RuleSum sum_lines(const Step *step, bool direct)
{
    RuleSum sum = {.counted = {0}};
    for (size_t i = 0; i < LINES; i++) {
        const Amount amount = amount_at(step, direct ? lines[i].direct : lines[i].shipped, lines[i].write);
        sum.all.elements += amount.elements;
        sum.all.bytes += amount.bytes;
        if (lines[i].left_out != NULL) continue;
        sum.counted.elements += amount.elements;
        sum.counted.bytes += amount.bytes;
    }
    return sum;
}

/* The rules by which an intensity can be given. */
typedef enum { STANDARD, NONE_SHIPPED, NONE_LECTURE, IDEAL_ALL, IDEAL_FLOAT32, IDEAL_LECTURE, RULES } Rule;
static const struct {
    char letter;
    const char *what, *takes;
} rules[RULES] = {
    {'s', "standard, ideal L2", "12Nd + 11N^2 FP16 elements: each operand once per kernel"},
    {'n', "FA2, no L2, as shipped", "every load, store and addition; dQ in float32"},
    {'N', "FA2, no L2, the lecture's account", "all elements as FP16, dQ direct, no zeroing"},
    {'a', "FA2, ideal L2, all that moves", "as shipped: float32 sums zeroed, fetched, written, converted; statistics"},
    {'f', "FA2, ideal L2, float32 dQ", "17Nd: sums written once, read by the conversion kernel, dQ written"},
    {'L', "FA2, ideal L2, the lecture's rule", "13Nd: dQ written once in FP16"},
};

static uint64_t rule_bytes(const Steps *s, Rule rule)
{
    const Step *none = &s->direct_none;
    switch (rule) {
    case STANDARD:
        return run_bytes(&s->standard.forward) + run_bytes(&s->standard.backward);
    case NONE_SHIPPED:
        return run_bytes(&s->shipped_none.forward) + run_bytes(&s->shipped_none.backward);
    case NONE_LECTURE:
        return 2 * (run_elements(&none->forward) + run_elements(&none->backward) + none->backward.totals.atomic_elements -
                    amount_at(none, "fa2_bwd_zero/dQ", true).elements);
    case IDEAL_ALL:
        return sum_lines(&s->shipped, false).all.bytes;
    case IDEAL_FLOAT32:
        return sum_lines(&s->shipped, false).counted.bytes;
    case IDEAL_LECTURE:
        return sum_lines(&s->direct, true).counted.bytes;
    case RULES:
        break;
    }
    return 0;
}

static uint64_t rule_flops(const Steps *s, Rule rule) { return step_flops(rule == STANDARD ? &s->standard : &s->direct); }

static double intensity(const Steps *s, Rule rule) { return per(rule_flops(s, rule), rule_bytes(s, rule)); }

/* ---- the declarations ---- */

static const Column flop_columns[] = {
    {"N", "", "sequence length"},
    {"d", "", "head dimension"},
    {"pass", "", "forward, backward, or both"},
    {"standard", "FLOP", "matrix products, counted by the walk"},
    {"standard / N^2 d", "", "12 in all"},
    {"standard check", "", "against 4N^2 d, 8N^2 d, 12N^2 d"},
    {"FA2", "FLOP", "matrix products, counted by the walk"},
    {"FA2 / N^2 d", "", "14 in all"},
    {"FA2 check", "", "with 2N^2 d more in the backward pass: S again"},
    {"more", "%", "FA2 over standard - 1"},
    {"standard exp", "", "exponentials executed"},
    {"FA2 exp", "", "P again in the backward pass; rescaling factors in the forward"},
};
static const TableSpec flop_table = {"flops", "FLOPs: S is computed twice", flop_columns, 12};

static const Column kernel_columns[] = {
    {"kernel", "", "of standard attention"},
    {"Nd part", "elements", "Q, K, V, O, dO, dQ, dK, dV"},
    {"in Nd", "", "Nd part / Nd"},
    {"N^2 part", "elements", "S, P, dP, dS"},
    {"in N^2", "", "N^2 part / N^2"},
    {"matmul", "FLOP", "of the kernel"},
    {"intensity", "FLOP/byte", "matmul FLOP over FP16 bytes"},
};
static const TableSpec kernel_table = {"standard", "Where 12Nd + 11N^2 comes from: the eight kernels of standard attention",
                                       kernel_columns, 7};

static const Column rule_columns[] = {
    {"launch", "", "of FlashAttention-2, ideal L2"},
    {"array", "", "in HBM"},
    {"kind", "", "read or write"},
    {"dQ direct", "Nd", "FP16, elements / Nd"},
    {"in 13Nd", "Nd", "what the lecture's rule takes of it"},
    {"as shipped", "2Nd bytes", "float32 sums for dQ; bytes / 2Nd, so that FP16 reads as the left column"},
    {"in 17Nd", "2Nd bytes", "the same rule with float32 sums"},
    {"left out because", "", "empty: counted"},
};
static const TableSpec rule_table = {"rule", "Where 13Nd comes from, and 17Nd: the rows of FlashAttention-2", rule_columns, 8};

static const Column intensity_columns[] = {
    {"N", "", "sequence length"},
    {"d", "", "head dimension"},
    {"block", "", "Br x Bc; matters without L2 only"},
    {"mark", "", "in the picture"},
    {"what", "", "algorithm and L2 model"},
    {"matmul", "FLOP", "forward and backward"},
    {"HBM", "bytes", "forward and backward, by the rule"},
    {"intensity", "FLOP/byte", "of the two"},
    {"above", "", "chips whose balance point it exceeds"},
    {"the rule takes", "", "what is counted as traffic"},
};
static const TableSpec intensity_table = {"intensity", "Arithmetic intensity, forward + backward: 33, 551, and what lies between",
                                          intensity_columns, 10};

static const TableSpec roof_picture = {"balance", "33 -> 551 against the balance points (/ memory-bound, = compute-bound)", NULL,
                                       0};

static const Column roofline_columns[] = {
    {"chip", "", "hardware profile, by rising balance point; --hw may add one"},
    {"balance", "FLOP/byte", "peak over HBM bandwidth"},
    {"standard", "ms", "sum over its eight kernels of max(FLOPs/peak, bytes/bandwidth)"},
    {"compute-bound", "", "how many of the eight kernels are"},
    {"FA2 forward", "ms", "the larger of both times"},
    {"forward bound", "", "which one it is"},
    {"FA2 main backward", "ms", "the larger of both times"},
    {"backward bound", "", "which one it is"},
    {"D, convert", "ms", "the small kernels, memory-bound"},
    {"FA2", "ms", "sum of the launches"},
    {"speed-up", "x", "standard over FA2"},
};
static const TableSpec roofline_table = {"roofline", "Roofline, forward + backward", roofline_columns, 11};

static const Column published_columns[] = {
    {"quantity", "", "as in the published table"},
    {"standard", "", "printed"},
    {"standard v1", "", "printed in the paper's first version"},
    {"our standard", "", "standard attention"},
    {"FlashAttention", "", "printed"},
    {"FlashAttention v1", "", "printed in the paper's first version"},
    {"our FA1", "", "FlashAttention-1"},
    {"printed ratio", "", "of the two algorithms"},
    {"ours is", "", "how our column was made"},
};
static const TableSpec published_table = {
    "published", "GPT-2 medium on A100, forward + backward (cited: FlashAttention, Figure 2, left; slide 14) beside our counts",
    published_columns, 9};

static const Column fa1_columns[] = {
    {"pass", "", "of FlashAttention-1, Bc = 256"},
    {"elements", "elements", "of one head, counted by a walk without L2, statistics left out"},
    {"formula", "", "(1 + 3Tc) Nd and (4 + 4Tc) Nd: ok, or the difference"},
    {"layer", "GB", "1024 heads, FP16"},
    {"walk of", "", "the kernel that was walked"},
};
static const TableSpec fa1_table = {"fa1", "Where the printed 4.4 GB come from", fa1_columns, 5};

static const Column silicon_columns[] = {
    {"kernel", "", "as shipped"},
    {"forward", "ms", "measured"},
    {"backward", "ms", "measured, all launches"},
    {"both", "ms", "sum"},
    {"rate", "TFLOP/s", "14N^2 d over the sum"},
    {"of peak", "%", "of the H200's 989 TFLOP/s"},
    {"over roofline", "x", "measured time over the roofline of FA2 on the H200"},
};
static const TableSpec silicon_table = {"silicon", "The same layer on one H200 (BF16)", silicon_columns, 7};

static const ClaimSpec claims[] = {
    {"2.7-1", "2.7", "forward FLOPs", "4N^2 d", VERDICT_EQUAL, "walks of standard attention and FA2", NULL},
    {"2.7-2", "2.7", "backward FLOPs", "8N^2 d", VERDICT_EQUAL, "walk of standard attention: dV, dP, dQ, dK", NULL},
    {"2.7-3", "2.7", "recomputing QK^T", "2N^2 d", VERDICT_EQUAL, "walk of FA2's backward - walk of the standard backward", NULL},
    {"2.7-4", "2.7", "more FLOPs in all", "16.7 %", VERDICT_EQUAL, "14/12 - 1, walks", NULL},
    {"R-B-7-3", "2.7", "one more QK^T in the backward pass: more FLOPs (\"+17 %\" in sections 0.1, 7 and 8.2)", "17 %",
     VERDICT_DIFFERS, "backward alone: 10N^2 d / 8N^2 d - 1, walks",
     "17 % is of forward + backward; of the backward pass it is 25 %"},
    {"2.7-5", "2.7", "intensity of standard attention, N=1024, d=64, FP16", "33", VERDICT_EQUAL,
     "12N^2 d / (2 (12Nd + 11N^2)), walks, ideal L2", NULL},
    {"2.7-6", "2.7", "intensity of FlashAttention with L2 hits", "551", VERDICT_EQUAL,
     "14N^2 d / (2 * 13Nd), rows of the walk: see table rule", NULL},
    {"R-A5", "2.7", "the same with float32 sums for dQ and the conversion kernel, as shipped", "551", VERDICT_DIFFERS,
     "14N^2 d / (2 * 17Nd)", "551 counts dQ once, in FP16; the sums cost 4Nd more FP16 elements' worth of bytes"},
    {"2.7-7", "2.7", "551 is above every balance point, 33 below", "yes", VERDICT_EQUAL,
     "551 > 295 (H100), 33 < 153 (A100); four profiles", NULL},
    {"2.7-L2", "2.7", "above every balance point, if L2 does not hit (blocks of 128)", "yes", VERDICT_DIFFERS,
     "2 bytes * (18Nd + N + 6Nd + N + 8(4Nd + 2N))",
     "below A100's 153: the statement needs the L2 hits that the lecture assumes"},
    {"2.7-8", "2.7", "GFLOP, GPT-2 medium, A100 (slide 14)", "66.6 / 75.2", VERDICT_CITED,
     "quoted: FlashAttention, Figure 2, left", NULL},
    {"2.7-9", "2.7", "HBM read + written", "40.3 / 4.4 GB", VERDICT_CITED, "quoted: FlashAttention, Figure 2, left", NULL},
    {"2.7-10", "2.7", "run time", "41.7 / 7.3 ms", VERDICT_CITED, "quoted: FlashAttention, Figure 2, left", NULL},
    {"2.7-11", "2.7", "speed-up and memory saving (slide 15)", "2-4x, 10-20x", VERDICT_CITED, "quoted", NULL},
    {"2.7-12", "2.7", "several times faster in spite of 17 % more FLOPs", "several times", VERDICT_CITED, "quoted: 41.7 / 7.3 ms",
     NULL},
    {"2.7-13", "2.7", "traffic falls from O(N^2) to O(Nd), L2 hits assumed", "O(N^2) -> O(Nd)", VERDICT_EQUAL,
     "walks at N and 2N, ideal L2: FA2 grows by 2, standard attention by more than 3", NULL},
    {"R-B-2.7-13", "2.7", "traffic is O(Nd), whatever L2 does", "O(Nd)", VERDICT_DIFFERS, "walks at N and 2N, no L2",
     "the rereads are 4N^2 d/Bc backward and 2N^2 d/Br forward; O(Nd) holds with an ideal L2 only"},
    {"R-D14", "2.7", "66.6 and 75.2 GFLOP are the matmul FLOPs of the stated workload", "66.6 / 75.2", VERDICT_DIFFERS,
     "1024 heads * 12N^2 d and 14N^2 d, walks",
     "at 2 FLOP per multiply-add the workload has 12 times as many; the printed ratio is 1.13, not 14/12"},
    {"R-F2-fa1", "2.7", "HBM traffic of FlashAttention-1, forward + backward", "4.4 GB", VERDICT_EQUAL,
     "1024 heads * ((1 + 3Tc) + (4 + 4Tc)) Nd * 2 bytes at Bc = 256, walks; the backward share is inferred", NULL},
    {"R-F2-std", "2.7", "HBM traffic of standard attention, forward + backward", "40.3 GB", VERDICT_DIFFERS,
     "1024 heads * (12Nd + 11N^2) * 2 bytes, walks",
     "unexplained: 15 GB, seven more passes over an N x N matrix; the first version printed 35.3"},
};

static const TableSpec *const tables[] = {&flop_table,     &kernel_table,    &rule_table, &intensity_table, &roof_picture,
                                          &roofline_table, &published_table, &fa1_table,  &silicon_table};
static const ProgramOption options[] = {
    {OPTION_SEQLEN, "1k"}, {OPTION_HEAD_DIM, "64"}, {OPTION_BLOCK_Q, "128"}, {OPTION_BLOCK_K, "128"}};

/* ---- FLOPs ---- */

typedef struct {
    uint64_t flops, exps;
} Work;

static Work work_of(const AttentionRun *run) { return (Work){run->totals.matmul_flops, run->totals.exp_ops}; }
static Work sum_of(Work a, Work b) { return (Work){a.flops + b.flops, a.exps + b.exps}; }

static void flop_row(Table *table, const Problem *p, const char *pass, Work standard, Work fa2, uint64_t standard_formula,
                     uint64_t fa2_formula)
{
    const double unit = (double)p->N * (double)p->N * (double)p->d;
    table_row(table);
    cell_count(table, p->N);
    cell_count(table, p->d);
    cell_text(table, pass);
    cell_count(table, standard.flops);
    cell_decimals(table, ratio((double)standard.flops, unit), 0);
    cell_check(table, standard.flops, standard_formula, "matmul FLOPs of standard attention");
    cell_count(table, fa2.flops);
    cell_decimals(table, ratio((double)fa2.flops, unit), 0);
    cell_check(table, fa2.flops, fa2_formula, "matmul FLOPs of FA2");
    cell_decimals(table, standard.flops > 0 ? 100 * (per(fa2.flops, standard.flops) - 1) : 0.0, 1);
    cell_count(table, standard.exps);
    cell_count(table, fa2.exps);
}

static void flop_rows(Table *table, const World *world, const Steps *s)
{
    Status *status = world->context->status;
    const Problem *p = &s->problem;
    const uint64_t forward = forward_flops(p->N, p->d, status), backward = backward_flops(p->N, p->d, status),
                   again = recompute_flops(p->N, p->d, status);
    const Work sf = work_of(&s->standard.forward), sb = work_of(&s->standard.backward);
    const Work ff = work_of(&s->direct.forward), fb = work_of(&s->direct.backward);
    flop_row(table, p, "forward", sf, ff, forward, forward);
    flop_row(table, p, "backward", sb, fb, backward, backward + again);
    flop_row(table, p, "both", sum_of(sf, sb), sum_of(ff, fb), forward + backward, forward + backward + again);
}

/* ---- the two rules ---- */

/* Elements of N x d arrays, and of N x N arrays. */
typedef struct {
    uint64_t matrices, scores, flops;
} Parts;

static bool is_scores(const char *name)
{
    return strcmp(name, "S") == 0 || strcmp(name, "P") == 0 || strcmp(name, "dP") == 0 || strcmp(name, "dS") == 0;
}

static void kernel_row(Table *table, const Problem *p, const char *name, const Parts *parts)
{
    table_row(table);
    cell_text(table, name);
    cell_count(table, parts->matrices);
    cell_decimals(table, per(parts->matrices, p->N * p->d), 0);
    cell_count(table, parts->scores);
    cell_decimals(table, per(parts->scores, p->N * p->N), 0);
    cell_count(table, parts->flops);
    cell_decimals(table, per(parts->flops, 2 * (parts->matrices + parts->scores)), 1);
}

static void kernel_rows(Table *table, const Problem *p, const AttentionRun *run, Parts *total)
{
    for (uint32_t i = 0; i < run->machine.launch_count; i++) {
        const LaunchRecord *launch = &run->machine.launches[i];
        Parts parts = {.flops = launch->counts.matmul_flops};
        for (uint32_t r = 0; r < launch->row_count; r++) {
            const LedgerRow *row = &run->machine.ledger[launch->first_row + r];
            *(is_scores(row->tensor->name) ? &parts.scores : &parts.matrices) += row_moved(row);
        }
        kernel_row(table, p, launch->kernel, &parts);
        total->matrices += parts.matrices;
        total->scores += parts.scores;
        total->flops += parts.flops;
    }
}

static void add_kernels(const World *world, const Steps *s)
{
    const Problem *p = &s->problem;
    Parts total = {0};
    Table *table = report_table(world->report, &kernel_table);
    kernel_rows(table, p, &s->standard.forward, &total);
    kernel_rows(table, p, &s->standard.backward, &total);
    kernel_row(table, p, "all", &total);
    report_check(world->report, total.matrices + total.scores, standard_training_elements(p->N, p->d, world->context->status),
                 "12Nd + 11N^2");
    table_note(
        table,
        "An ideal L2 lets each operand through once per kernel. What has N^2 is written by one kernel and read by others.");
}

/* An amount in units of Nd FP16 elements; empty when the line is not there. */
static void unit_cell(Table *table, bool there, uint64_t amount, uint64_t unit)
{
    if (!there || unit == 0)
        cell_empty(table);
    else if (amount % unit == 0)
        cell_decimals(table, per(amount, unit), 0);
    else
        cell_decimals(table, per(amount, unit), 3);
}

static void rule_total(Table *table, const char *name, const char *note, uint64_t direct, uint64_t counted, uint64_t shipped,
                       uint64_t counted_bytes, uint64_t Nd)
{
    table_row(table);
    cell_text(table, name);
    cell_text(table, "");
    cell_text(table, "");
    unit_cell(table, true, direct, Nd);
    unit_cell(table, true, counted, Nd);
    unit_cell(table, true, shipped, 2 * Nd);
    unit_cell(table, true, counted_bytes, 2 * Nd);
    cell_text(table, note);
}

static void add_rule(const World *world, const Steps *s)
{
    const Problem *p = &s->problem;
    Status *status = world->context->status;
    const uint64_t Nd = p->N * p->d;
    const RuleSum direct = sum_lines(&s->direct, true), shipped = sum_lines(&s->shipped, false);
    Table *table = report_table(world->report, &rule_table);
    for (size_t i = 0; i < LINES; i++) {
        const Line *line = &lines[i];
        const Amount a = amount_at(&s->direct, line->direct, line->write), b = amount_at(&s->shipped, line->shipped, line->write);
        table_row(table);
        cell_text(table, line->launch);
        cell_text(table, line->array);
        cell_text(table, line->write ? "write" : "read");
        unit_cell(table, line->direct != NULL, a.elements, Nd);
        unit_cell(table, line->direct != NULL && line->left_out == NULL, a.elements, Nd);
        unit_cell(table, true, b.bytes, 2 * Nd);
        unit_cell(table, line->left_out == NULL, b.bytes, 2 * Nd);
        cell_text(table, line->left_out == NULL ? "" : line->left_out);
    }
    rule_total(table, "all", "", direct.all.elements, direct.counted.elements, shipped.all.bytes, shipped.counted.bytes, Nd);
    report_check(world->report, direct.all.elements, run_elements(&s->direct.forward) + run_elements(&s->direct.backward),
                 "all rows, dQ direct");
    report_check(world->report, shipped.all.bytes, run_bytes(&s->shipped.forward) + run_bytes(&s->shipped.backward),
                 "all rows, as shipped");
    report_check(world->report, direct.counted.elements, flash_training_elements(p->N, p->d, status), "13Nd");
    report_check(world->report, shipped.counted.bytes, flash_training_bytes_float32_dq(p->N, p->d, status), "34Nd bytes");
    table_note(table, "The lecture's 551 is 14N^2 d over 13Nd FP16 elements. What the shipped kernels add: float32 sums (a "
                      "4-byte write instead of a 2-byte");
    table_note(table, "one, read again, and dQ written: 17); and what both rules leave out.");
}

/* ---- intensity ---- */

static void chips_below(const World *world, double flop_per_byte, char text[64])
{
    text[0] = '\0';
    for (size_t c = 0; c < CHIPS; c++)
        if (flop_per_byte > profile_balance_flops_per_byte(&world->chips[c])) {
            if (text[0] != '\0') strcat(text, " ");
            strcat(text, chip_names[c]);
        }
    if (text[0] == '\0') strcpy(text, "none");
}

static void intensity_rows(Table *table, const World *world, const Steps *s)
{
    for (int rule = 0; rule < RULES; rule++) {
        char chips[64];
        chips_below(world, intensity(s, (Rule)rule), chips);
        table_row(table);
        cell_count(table, s->problem.N);
        cell_count(table, s->problem.d);
        cell_textf(table, "%u x %u", s->problem.tiles.Br, s->problem.tiles.Bc);
        cell_textf(table, "%c", rules[rule].letter);
        cell_text(table, rules[rule].what);
        cell_count(table, rule_flops(s, (Rule)rule));
        cell_count(table, rule_bytes(s, (Rule)rule));
        cell_decimals(table, intensity(s, (Rule)rule), 1);
        cell_text(table, chips);
        cell_text(table, rules[rule].takes);
    }
}

enum { OCTAVE = 10, OCTAVES = 7, WIDTH = OCTAVE * OCTAVES, LOWEST = 16 };

/* The column of an intensity on the picture's logarithmic axis, 16 to 2048. */
static int column_of(double flop_per_byte)
{
    if (!(flop_per_byte > LOWEST)) return 0;
    const int column = (int)(OCTAVE * log_f64(flop_per_byte / LOWEST) / log_f64(2.0));
    return column < WIDTH ? column : WIDTH - 1;
}

static void add_picture(const World *world, const Steps *s)
{
    char line[WIDTH + 1];
    Table *picture = report_table(world->report, &roof_picture);
    memset(line, ' ', WIDTH);
    line[WIDTH] = '\0';
    for (int rule = 0; rule < RULES; rule++) line[column_of(intensity(s, (Rule)rule))] = rules[rule].letter;
    picture_line(picture, "                 %s", line);
    for (size_t c = 0; c < world->chip_count; c++) {
        const double balance = profile_balance_flops_per_byte(&world->chips[c]);
        const int edge = column_of(balance);
        memset(line, '/', (size_t)edge);
        memset(line + edge, '=', (size_t)(WIDTH - edge));
        picture_line(picture, "%-10s %4.0f  %s", world->chips[c].name, balance, line);
    }
    picture_line(picture, "FLOP/byte        16        32        64        128       256       512       1024      2048");
    for (int rule = 0; rule < RULES; rule++)
        picture_line(picture, "  %c  %6.1f  %s", rules[rule].letter, intensity(s, (Rule)rule), rules[rule].what);
}

/* ---- the roofline ---- */

/* Seconds. */
typedef struct {
    double compute, memory, bound;
} KernelTime;

static KernelTime launch_time(const AttentionRun *run, const LaunchRecord *launch, const Profile *chip)
{
    uint64_t bytes = 0;
    for (uint32_t r = 0; r < launch->row_count; r++) {
        const LedgerRow *row = &run->machine.ledger[launch->first_row + r];
        bytes += row_moved(row) * element_bytes(row->tensor->type);
    }
    const double compute = per(launch->counts.matmul_flops, chip->peak_bf16_flops_per_chip);
    const double memory = per(bytes, chip->hbm_bytes_per_second_per_chip);
    return (KernelTime){compute, memory, compute > memory ? compute : memory};
}

typedef struct {
    double seconds;
    uint64_t compute_bound;
} RunTime;

static RunTime run_time(const AttentionRun *run, const Profile *chip)
{
    RunTime sum = {0};
    for (uint32_t i = 0; i < run->machine.launch_count; i++) {
        const KernelTime time = launch_time(run, &run->machine.launches[i], chip);
        sum.seconds += time.bound;
        sum.compute_bound += time.compute > time.memory;
    }
    return sum;
}

static const LaunchRecord *launch_named(const AttentionRun *run, const char *name)
{
    for (uint32_t i = 0; i < run->machine.launch_count; i++)
        if (strcmp(run->machine.launches[i].kernel, name) == 0) return &run->machine.launches[i];
    return &run->machine.launches[0];
}

static double layer_milliseconds(double seconds_per_head) { return 1e3 * LAYER_HEADS * seconds_per_head; }

static double fa2_seconds(const Steps *s, const Profile *chip)
{
    return run_time(&s->shipped.forward, chip).seconds + run_time(&s->shipped.backward, chip).seconds;
}

static void add_roofline(const World *world, const Steps *s)
{
    Table *table = report_table(world->report, &roofline_table);
    table_title(table, "%s (%d heads, N = %" PRIu64 ", d = %" PRIu64 ", ideal L2, dQ as shipped)", roofline_table.title,
                LAYER_HEADS, s->problem.N, s->problem.d);
    for (size_t c = 0; c < world->chip_count; c++) {
        const Profile *chip = &world->chips[c];
        const RunTime forward = run_time(&s->standard.forward, chip), backward = run_time(&s->standard.backward, chip);
        const double standard = forward.seconds + backward.seconds, fa2 = fa2_seconds(s, chip);
        const KernelTime first = launch_time(&s->shipped.forward, launch_named(&s->shipped.forward, "fa2_forward"), chip);
        const KernelTime main_kernel = launch_time(&s->shipped.backward, launch_named(&s->shipped.backward, "fa2_bwd"), chip);
        table_row(table);
        cell_text(table, chip->name);
        cell_decimals(table, profile_balance_flops_per_byte(chip), 0);
        cell_significant(table, layer_milliseconds(standard), 3);
        cell_count(table, forward.compute_bound + backward.compute_bound);
        cell_significant(table, layer_milliseconds(first.bound), 3);
        cell_text(table, first.compute >= first.memory ? "compute" : "memory");
        cell_significant(table, layer_milliseconds(main_kernel.bound), 3);
        cell_text(table, main_kernel.compute >= main_kernel.memory ? "compute" : "memory");
        cell_significant(table, layer_milliseconds(fa2 - first.bound - main_kernel.bound), 3);
        cell_significant(table, layer_milliseconds(fa2), 3);
        cell_decimals(table, ratio(standard, fa2), 2);
    }
    table_note(table, "Standard attention waits for HBM in every kernel. FlashAttention-2 spends 17 %% more FLOPs, which are "
                      "cheap, and saves bytes, which are not.");
}

/* ---- the published table ---- */

/* Read and written, statistics left out, of one launch (NULL: all); an addition counts as two. */
static uint64_t matrix_elements(const AttentionRun *run, const char *launch)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < run->machine.ledger_count; i++) {
        const LedgerRow *row = &run->machine.ledger[i];
        if (row->tensor->cols == 1 || (launch != NULL && strcmp(row->kernel, launch) != 0)) continue;
        sum += row_moved(row) + 2 * row->traffic.atomic_adds;
    }
    return sum;
}

typedef struct {
    uint64_t forward, backward; /* elements of one head */
} Fa1;

/* FlashAttention-1 as published at Bc = 256. Its backward pass moves what FlashAttention-2's main kernel moves with dQ direct: K,
 * V, dK, dV once; Q, dO and dQ (read and written) once per key block. */
static bool walk_fa1(const World *world, Fa1 *fa1)
{
    const Context *cx = world->context;
    const Problem p = {LECTURE_N, LECTURE_D, {256, 256}};
    const AttentionShape shape = one_head(p.N, p.d);
    AttentionRun run = {.totals = {0}};
    Step step;
    const bool ok1 =
        attention_count(&run, &algorithm_fa1_shipped, &shape, p.tiles, L2_NONE, &world->machine, cx->alloc, cx->status);
    const bool ok2 = walk_step(world, &algorithm_fa2, p, L2_NONE, true, &step);
    if (ok1 && ok2) *fa1 = (Fa1){matrix_elements(&run, NULL), matrix_elements(&step.backward, "fa2_bwd")};
    attention_run_free(&run);
    free_step(&step);
    return ok1 && ok2;
}

static double layer_gigabytes(uint64_t elements) { return (double)(2 * LAYER_HEADS * elements) / 1e9; }

static void fa1_row(Table *table, const char *pass, uint64_t elements, uint64_t formula, const char *walked)
{
    table_row(table);
    cell_text(table, pass);
    cell_count(table, elements);
    cell_check(table, elements, formula, "published traffic of FlashAttention-1");
    cell_decimals(table, layer_gigabytes(elements), 3);
    cell_text(table, walked);
}

static void add_fa1(const World *world, const Fa1 *fa1, const Steps *lecture)
{
    Status *status = world->context->status;
    const uint64_t forward = fa1_published_elements(LECTURE_N, LECTURE_D, 256, status);
    const uint64_t backward = fa1_published_backward_elements(LECTURE_N, LECTURE_D, 256, status);
    Table *table = report_table(world->report, &fa1_table);
    fa1_row(table, "forward", fa1->forward, forward, "fa1-shipped: Q, K, V, O");
    fa1_row(table, "backward (inferred)", fa1->backward, backward, "FA2's main backward kernel, dQ direct: the same loop order");
    fa1_row(table, "both", fa1->forward + fa1->backward, forward + backward, "");
    table_note(table, "The forward part is the published curve (Figure 2, middle: 1.745 GB at Bc = 256). That the backward part "
                      "is (4 + 4Tc) Nd is inferred from");
    table_note(table, "one number. The lecture's 13Nd of FA2, both passes, is %.3f GB too, but only because (1 + 3 * 4) = 13.",
               layer_gigabytes(sum_lines(&lecture->direct, true).counted.elements));
}

static void published_row(Table *table, const char *quantity, double standard, const char *v1, double ours, double fa1,
                          const char *fa1_v1, double ours_fa1, const char *how)
{
    table_row(table);
    cell_text(table, quantity);
    cell_decimals(table, standard, 1);
    cell_text(table, v1);
    cell_decimals(table, ours, 1);
    cell_decimals(table, fa1, 1);
    cell_text(table, fa1_v1);
    cell_decimals(table, ours_fa1, 2);
    cell_decimals(table, standard > fa1 ? standard / fa1 : fa1 / standard, 2);
    cell_text(table, how);
}

static void add_published(const World *world, const Steps *lecture, const Fa1 *fa1)
{
    const Profile *a100 = &world->chips[0];
    const double giga = LAYER_HEADS / 1e9, bytes = layer_gigabytes(fa1->forward + fa1->backward);
    const double standard = layer_gigabytes(rule_bytes(lecture, STANDARD) / 2);
    const double flops = giga * (double)step_flops(&lecture->standard), more = giga * (double)step_flops(&lecture->direct);
    const double compute = 1e12 * more / (double)a100->peak_bf16_flops_per_chip,
                 memory = 1e12 * bytes / (double)a100->hbm_bytes_per_second_per_chip;
    Table *table = report_table(world->report, &published_table);
    published_row(table, "GFLOP", 66.6, "-", flops, 75.2, "-", more, "12 and 14 N^2 d of 1024 heads, walks");
    published_row(table, "HBM, GB", 40.3, "35.3", standard, 4.4, "4.4", bytes,
                  "walks: ideal L2; FA1 at Bc = 256 without L2 (next table)");
    published_row(table, "time, ms", 41.7, "35.1",
                  layer_milliseconds(run_time(&lecture->standard.forward, a100).seconds +
                                     run_time(&lecture->standard.backward, a100).seconds),
                  7.3, "11.7", compute > memory ? compute : memory, "roofline of the A100 profile, a lower bound");
    table_note(table, "Batch 64, 16 heads, N = 1024, d = 64, FP16. 66.6 and 75.2 are not the FLOPs of this workload; only their "
                      "ratio is near 7/6. Standard");
    table_note(table, "attention's 40.3 GB are unexplained: seven more passes over an N x N matrix of FP16 than its eight "
                      "kernels need (masking and dropout of");
    table_note(table,
               "the measured layer are not stated). Slide 15: 2-4x faster, 10-20x less memory, nothing approximated (quoted).");
    claim_cited(world->report, "2.7-8", "walks: %.0f / %.0f GFLOP", flops, more);
    claim_cited(world->report, "2.7-9", "walks: %.1f / %.2f GB", standard, bytes);
    claim_cited(world->report, "2.7-10", "FA2 on one H200: 4.1 ms, see silicon");
    claim_cited(world->report, "2.7-11", "-");
    claim_cited(world->report, "2.7-12", "printed: %.1fx", 41.7 / 7.3);
    claim_holds(world->report, "R-D14", flops < 70 && more < 80, "%.1f / %.1f", flops, more);
    claim_decimals(world->report, "R-F2-fa1", 4.4, 1, bytes, " GB");
    claim_decimals(world->report, "R-F2-std", 40.3, 1, standard, " GB");
}

/* One H200: CUDA events, median; PyTorch 2.11, CUDA 13.0, cuDNN 9.19. Batch 64, 16 heads, N = 1024, d = 64, no mask. */
static const struct {
    const char *kernel;
    double forward_us, backward_us;
} measured[] = {
    {"FlashAttention-2", 969.95, 3127.38}, {"cuDNN", 624.64, 1855.54}, {"unfused PyTorch, float32", 16740.22, 19814.54}};

static void add_silicon(const World *world, const Steps *lecture)
{
    const Profile *h200 = &world->chips[1];
    const double roofline = layer_milliseconds(fa2_seconds(lecture, h200)),
                 flops = (double)(LAYER_HEADS * step_flops(&lecture->direct));
    Table *table = report_table(world->report, &silicon_table);
    for (size_t i = 0; i < sizeof measured / sizeof measured[0]; i++) {
        const double both = (measured[i].forward_us + measured[i].backward_us) / 1e3, rate = flops / both / 1e9;
        table_row(table);
        cell_text(table, measured[i].kernel);
        cell_decimals(table, measured[i].forward_us / 1e3, 2);
        cell_decimals(table, measured[i].backward_us / 1e3, 2);
        cell_decimals(table, both, 2);
        cell_decimals(table, rate, 0);
        cell_decimals(table, 1e14 * rate / (double)h200->peak_bf16_flops_per_chip, 1);
        cell_decimals(table, both / roofline, 1);
    }
    table_note(table, "PyTorch 2.11, CUDA 13.0, cuDNN 9.19, wall time. The unfused one computes in float32, without tensor "
                      "cores: no measure of the speed-up.");
    table_note(table, "Intensity says that HBM is not the limit any more; it does not say that the tensor cores are busy.");
}

/* ---- the claims, at the lecture's shape ---- */

static void judge_flops(Report *report, const Steps *s)
{
    const uint64_t unit = s->problem.N * s->problem.N * s->problem.d;
    const uint64_t sf = s->standard.forward.totals.matmul_flops, sb = s->standard.backward.totals.matmul_flops;
    const uint64_t ff = s->direct.forward.totals.matmul_flops, fb = s->direct.backward.totals.matmul_flops;
    claim_holds(report, "2.7-1", sf == 4 * unit && ff == 4 * unit, "%.0fN^2 d, both", per(sf, unit));
    claim_holds(report, "2.7-2", sb == 8 * unit, "%.0fN^2 d", per(sb, unit));
    claim_holds(report, "2.7-3", fb - sb == 2 * unit, "%.0fN^2 d", per(fb - sb, unit));
    claim_decimals(report, "2.7-4", 16.7, 1, 100 * (per(ff + fb, sf + sb) - 1), " %");
    claim_decimals(report, "R-B-7-3", 17, 0, 100 * (per(fb, sb) - 1), " %");
}

static void judge_intensity(const World *world, const Steps *s)
{
    Report *report = world->report;
    bool above = true, none_above = true;
    for (size_t c = 0; c < CHIPS; c++) {
        const double balance = profile_balance_flops_per_byte(&world->chips[c]);
        above = above && intensity(s, IDEAL_LECTURE) > balance && intensity(s, STANDARD) < balance;
        none_above = none_above && intensity(s, NONE_LECTURE) > balance;
    }
    claim_decimals(report, "2.7-5", 33, 0, intensity(s, STANDARD), " FLOP/byte");
    claim_decimals(report, "2.7-6", 551, 0, intensity(s, IDEAL_LECTURE), " FLOP/byte");
    claim_decimals(report, "R-A5", 551, 0, intensity(s, IDEAL_FLOAT32), " FLOP/byte");
    claim_holds(report, "2.7-7", above, "%.0f and %.0f against %.0f to %.0f", intensity(s, IDEAL_LECTURE), intensity(s, STANDARD),
                profile_balance_flops_per_byte(&world->chips[0]), profile_balance_flops_per_byte(&world->chips[CHIPS - 1]));
    claim_holds(report, "2.7-L2", none_above, "%.0f FLOP/byte", intensity(s, NONE_LECTURE));
}

static bool judge_growth(const World *world, const Steps *s)
{
    Steps twice;
    Problem p = s->problem;
    p.N *= 2;
    const bool ok = walk_all(world, p, &twice);
    if (ok) {
        const double ideal = per(rule_bytes(&twice, IDEAL_LECTURE), rule_bytes(s, IDEAL_LECTURE));
        const double standard = per(rule_bytes(&twice, STANDARD), rule_bytes(s, STANDARD));
        const double none = per(rule_bytes(&twice, NONE_LECTURE), rule_bytes(s, NONE_LECTURE));
        claim_holds(world->report, "2.7-13", ideal < 2.01 && standard > 3,
                    "N to 2N: standard %.2fx, FA2 %.2fx; %.1fx fewer bytes at N", standard, ideal,
                    per(rule_bytes(s, STANDARD), rule_bytes(s, IDEAL_LECTURE)));
        claim_holds(world->report, "R-B-2.7-13", none < 2.01, "N to 2N: %.2fx without L2", none);
    }
    free_all(&twice);
    return ok;
}

/* ---- the program ---- */

static bool add_points(const World *world)
{
    const Options *o = world->context->options;
    Table *flops = report_table(world->report, &flop_table), *table = NULL;
    for (size_t i = 0; i < options_point_count(o); i++) {
        const OptionPoint point = options_point(o, i);
        Steps s;
        const bool ok =
            walk_all(world, (Problem){point.seqlen, point.head_dim, {(uint32_t)point.block_q, (uint32_t)point.block_k}}, &s);
        if (ok) {
            flop_rows(flops, world, &s);
            if (i == 0) {
                add_kernels(world, &s);
                add_rule(world, &s);
                table = report_table(world->report, &intensity_table);
            }
            intensity_rows(table, world, &s);
            if (i == 0) add_picture(world, &s);
            if (i == 0) add_roofline(world, &s);
        }
        free_all(&s);
        if (!ok) return false;
    }
    table_note(flops, "The price of not keeping P: +2N^2 d, one product in seven, and its exponentials.");
    if (table != NULL)
        table_note(table,
                   "The last five are the same FlashAttention-2 kernels. An intensity is only as good as its rule: name L2, "
                   "the type of dQ, and what was left out.");
    return true;
}

static bool add_layer(const World *world)
{
    Steps lecture;
    Fa1 fa1 = {0};
    const bool ok =
        walk_all(world, (Problem){LECTURE_N, LECTURE_D, {LECTURE_BLOCK, LECTURE_BLOCK}}, &lecture) && walk_fa1(world, &fa1);
    if (ok) {
        add_published(world, &lecture, &fa1);
        add_fa1(world, &fa1, &lecture);
        add_silicon(world, &lecture);
        judge_flops(world->report, &lecture);
        judge_intensity(world, &lecture);
    }
    const bool grown = ok && judge_growth(world, &lecture);
    free_all(&lecture);
    return grown;
}

static bool load_profiles(World *world)
{
    const Context *cx = world->context;
    world->chip_count = load_chips(cx, chip_names, CHIPS, cx->hw->hbm_bytes_per_second_per_chip != PROFILE_UNLIMITED, world->chips);
    return world->chip_count > 0 && profile_load("unbounded", cx->alloc, &world->machine, cx->status);
}

static bool run(Context *context, Report *report)
{
    World world = {.context = context, .report = report};
    if (!load_profiles(&world)) return false;
    report_param_text(report, "machine", "unbounded, one head unless said");
    report_param_text(report, "dtype", "fp16");
    return add_points(&world) && add_layer(&world);
}

const Experiment experiment_s2_7_recompute = {
    .program =
        {
            .name = "s2_7_recompute",
            .purpose = "more FLOPs, fewer bytes: recomputation, arithmetic intensity and the roofline of training (lecture 2.7)",
            .examples = {"", "--seqlen 1k,4k,16k --head-dim 128 --block-q 64"},
            .options = options,
            .option_count = sizeof options / sizeof options[0],
        },
    .report =
        {
            .section = "2.7",
            .title_en = "More FLOPs, and faster all the same",
            .title_zh = "多算了 FLOPs，为什么反而快",
            .tables = tables,
            .table_count = sizeof tables / sizeof tables[0],
            .claims = claims,
            .claim_count = sizeof claims / sizeof claims[0],
        },
    .run = run,
};
