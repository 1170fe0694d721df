/* s4_1_async.c - lecture §4.1: two new instructions, and what it changes that nobody waits for them.
 *
 * mma.sync holds its warp until the product is there; wgmma is issued by four warps together and left to run, and TMA copies
 * whole tiles while the threads do something else. Two things follow, one of rate and one of time:
 *
 *     rate     on Hopper mma.sync reaches 0.656 of wgmma's FLOP per cycle (measured; quoted as 2/3)
 *     time     a blocking operation takes its own time; an asynchronous one only what is left of it when its result is needed
 *
 * One kernel shows the second: FlashAttention-3 (algos/fa3.c) on the H100's profile, its asynchrony switched on in steps. An
 * asynchronous product alone changes hardly anything, because the next line of the code needs its result: the order of the code has to
 * change too (the overlap of §4.3). The costs of the profile are not fitted, so cycles are the model's.
 */
#include "support/experiment.h"
#include "support/ratios.h"
#include "support/timeline_view.h"

#include <string.h>

/* ---- the steps ---- */

typedef struct {
    const char *name;
    Fa3Options fa3; /* consumers is filled in */
} Step;

typedef enum { BLOCKING, COPIES, PRODUCTS, OVERLAP, STEPS } StepId;

static const Step steps[STEPS] = {
    {"everything waits", {.no_ping_pong = true, .no_overlap = true, .blocking_copies = true, .blocking_products = true}},
    {"copies do not (TMA)", {.no_ping_pong = true, .no_overlap = true, .blocking_products = true}},
    {"nor do products (WGMMA)", {.no_ping_pong = true, .no_overlap = true}},
    {"and the code is reordered", {.no_ping_pong = true}},
};

enum { ROWS = 64, KEYS = 128, LONGEST = 1 << 18 };

/* `consumers` warpgroups of 64 rows against N keys. timeline_free is the caller's. */
static bool record_step(const Context *context, Timeline *timeline, const Profile *chip, StepId step, uint32_t consumers,
                        uint64_t N, uint64_t d)
{
    AttentionShape shape = attention_shape(N, d);
    const RunSetup setup = {.algorithm = &algorithm_fa3, .profile = chip, .tiles = {ROWS * consumers, KEYS}};
    shape.seqlen_q = (uint64_t)ROWS * consumers;
    return timeline_record_block(timeline, &setup, &shape, &steps[step].fa3, NULL, context->alloc, context->status);
}

/* ---- what was measured (CUDA C++ micro-benchmarks on one H200, clock64, median of 7; its SM is the H100's) ---- */

static const struct {
    TensorInstruction instruction;
    const char *issued_by, *waits;
    uint64_t warps;
    double measured; /* FLOP per cycle and SM, BF16 */
} rates[] = {
    {TENSOR_MMA_SYNC, "each warp for itself, 16 x 8 x 16", "the warp", 4, 2345.6},
    {TENSOR_MMA_SYNC, "each warp for itself, 16 x 8 x 16", "the warp", 8, 2686.9},
    {TENSOR_MMA_SYNC, "each warp for itself, 16 x 8 x 16", "the warp", 16, 2686.0},
    {TENSOR_WGMMA, "four warps together, 64 x 128 x 16", "nobody", 4, 4093.3},
    {TENSOR_WGMMA, "four warps together, 64 x 128 x 16", "nobody", 8, 4094.2},
    {TENSOR_WGMMA, "four warps together, 64 x 128 x 16", "nobody", 12, 4094.5},
};

enum { RATES = sizeof rates / sizeof rates[0], BEST_MMA = 1, BEST_WGMMA = 5 };

/* ---- the declarations ---- */

static const Column rate_columns[] = {
    {"instruction", "", "of the tensor cores"},
    {"issued by", "", "who, and the shape of one instruction"},
    {"who waits", "", "until the product is there"},
    {"warps", "", "that issued, on one SM"},
    {"measured", "FLOP", "per cycle and SM, BF16, one H200"},
    {"profile", "FLOP", "the same in h200"},
    {"of wgmma", "", "measured over the best wgmma"},
    {"ceiling", "TFLOP/s", "that share of the published 989"},
};
static const TableSpec rate_table = {"rates", "mma.sync against wgmma on Hopper", rate_columns, 8};

static const Column step_columns[] = {
    {"N", "", "keys that the block scans"},
    {"d", "", "head dimension"},
    {"warpgroups", "", "consumers, 64 query rows each"},
    {"step", "", "each line has the ones above it"},
    {"cycles", "", "of the block, model"},
    {"gain", "x", "over the line above"},
    {"FLOP per cycle", "", "of the products; the tensor cores can do 4096"},
    {"tensor cores", "%", "busy"},
    {"MUFU", "%", "busy"},
    {"copies", "%", "path from L2 busy"},
};
static const TableSpec step_table = {"steps", "One kernel, asynchrony switched on in steps", step_columns, 10};

static const TableSpec gantt_picture = {"gantt", "One kernel, blocking and asynchronous", NULL, 0};
static const TableSpec all_gantts_picture = {"all_steps", "Every step", NULL, 0};

static const Column kernel_columns[] = {
    {"chip", "", "profile"},
    {"kernel", "", "forward, batch 4, 16 heads, N = 4096, d = 128, BF16"},
    {"instruction", "", "of the tensor cores"},
    {"model", "TFLOP/s", "uncalibrated: an upper bound"},
    {"measured", "TFLOP/s", "H200: PyTorch 2.11 and cuDNN 9.19; H100: quoted, FlashAttention-3 paper"},
    {"of peak", "%", "measured over the published peak"},
};
static const TableSpec kernel_table = {"kernels", "A kernel written for mma.sync on Hopper", kernel_columns, 6};

static const Column register_columns[] = {
    {"loads by", "", "who moves K and V into shared memory"},
    {"producer", "", "registers per thread of its warpgroup (quoted)"},
    {"consumers", "", "registers per thread of two consumer warpgroups (quoted)"},
    {"in all", "", "registers of 384 threads"},
    {"most keys", "", "largest tile, a multiple of 16, whose O, S, P and 32 more fit a consumer's registers"},
};
static const TableSpec register_table = {"registers", "TMA saves registers (FlashAttention-3, two consumers, d = 128)",
                                         register_columns, 5};

static const ClaimSpec claims[] = {
    {"S4.1-01", "4.1", "warps that issue one WGMMA together", "4", VERDICT_EQUAL, "threads of a consumer warpgroup of FA3 / 32",
     NULL},
    {"S4.1-02", "4.1", "new H100 instructions that the section names", "2", VERDICT_EQUAL, "WGMMA, TMA", NULL},
    {"S4.1-03", "4.1", "share of the peak that mma.sync reaches on an H100", "2/3", VERDICT_CITED,
     "quoted (FlashAttention-3 blog); measured on an H200", NULL},
    {"S4.1-04", "4.1", "FlashAttention-2 on an H100, share of the peak", "35-40%", VERDICT_CITED,
     "quoted; FlashAttention-3 paper 370 of 989", NULL},
    {"R-A10-4.1", "4.1", "TMA saves registers", "saves registers", VERDICT_CITED,
     "registers per thread as shipped: producer and two consumers", NULL},
    {"R-4.1-alone", "4.1", "asynchronous instructions by themselves let softmax and products overlap", "(implied)",
     VERDICT_DIFFERS, "cycles with asynchronous products, code in the old order",
     "the next line of the code needs the result: only another order of the code makes room (4.3)"},
    {"R-D5", "4.1", "FlashAttention-2 is written for a synchronous A100", "synchronous", VERDICT_DIFFERS,
     "asynchronous loads in the timeline of FA2 on a100",
     "its products are synchronous, its copies are not: it loads with cp.async, one tile ahead"},
};

static const TableSpec *const tables[] = {&rate_table,         &step_table,   &gantt_picture,
                                          &all_gantts_picture, &kernel_table, &register_table};
static const ProgramOption options[] = {
    {OPTION_SEQLEN, "2k"}, {OPTION_HEAD_DIM, "128"}, {OPTION_GANTT, NULL}, {OPTION_TRACE, NULL}};

/* ---- rates ---- */

static void add_rates(Report *report, const Profile *h200)
{
    const double peak = (double)h200->peak_bf16_flops_per_chip / 1e12;
    Table *table = report_table(report, &rate_table);
    for (size_t i = 0; i < RATES; i++) {
        table_row(table);
        cell_text(table, tensor_instruction_name(rates[i].instruction));
        cell_text(table, rates[i].issued_by);
        cell_text(table, rates[i].waits);
        cell_count(table, rates[i].warps);
        cell_decimals(table, rates[i].measured, 0);
        cell_count(table, profile_tensor_rate(h200, rates[i].instruction));
        cell_decimals(table, rates[i].measured / rates[BEST_WGMMA].measured, 3);
        cell_decimals(table, peak * rates[i].measured / (double)profile_tensor_rate(h200, TENSOR_WGMMA), 0);
    }
    table_note(table, "mma.sync stops at 0.656 of wgmma however many warps issue. 2/3 is also the share that the tensor cores "
                      "are busy in a schedule that overlaps");
    table_note(table, "nothing (4.3): a coincidence, another thing.");
}

/* ---- steps ---- */

static bool step_row(const Context *context, Table *table, const Profile *chip, StepId step, uint32_t consumers,
                     const OptionPoint *point, uint64_t *before)
{
    Timeline timeline;
    const bool ok = record_step(context, &timeline, chip, step, consumers, point->seqlen, point->head_dim);
    const double flops = 4.0 * ROWS * consumers * (double)(point->seqlen * point->head_dim);
    if (ok) {
        table_row(table);
        cell_count(table, point->seqlen);
        cell_count(table, point->head_dim);
        cell_count(table, consumers);
        cell_text(table, steps[step].name);
        cell_count(table, timeline.makespan);
        if (step == BLOCKING)
            cell_empty(table);
        else
            cell_decimals(table, ratio((double)*before, (double)timeline.makespan), 2);
        cell_decimals(table, ratio(flops, (double)timeline.makespan), 0);
        cell_decimals(table, percent_of(timeline.busy[UNIT_TENSOR], timeline.makespan), 1);
        cell_decimals(table, percent_of(timeline.busy[UNIT_MUFU], timeline.makespan), 1);
        cell_decimals(table, percent_of(timeline.busy[UNIT_COPY], timeline.makespan), 1);
        *before = timeline.makespan;
    }
    timeline_free(&timeline);
    return ok;
}

static bool add_steps(const Context *context, Report *report, const Profile *chip)
{
    Table *table = report_table(report, &step_table);
    for (size_t i = 0; i < options_point_count(context->options); i++) {
        const OptionPoint point = options_point(context->options, i);
        if (point.seqlen < 1 || point.seqlen > LONGEST)
            return status_fail(context->status, STATUS_INFEASIBLE, "--seqlen %" PRIu64 ": a block's timeline takes 1 to %d keys",
                               point.seqlen, LONGEST);
        for (uint32_t consumers = 1; consumers <= 2; consumers++) {
            uint64_t before = 0;
            for (StepId step = BLOCKING; step < STEPS; step++)
                if (!step_row(context, table, chip, step, consumers, &point, &before)) return false;
        }
    }
    table_title(table, "One kernel, asynchrony switched on in steps (model of %s)", chip->name);
    table_note(table, "A second warpgroup fills the first one's waits even when everything blocks: that is how a GPU hid latency "
                      "before. Asynchronous products change nothing");
    table_note(table, "while the code asks for S right after issuing QKᵀ. Reordered (Q Kᵀ of j, P V of j - 1, then the softmax "
                      "of j) they leave the softmax something to run beside.");
    return true;
}

/* ---- pictures ---- */

static bool draw_step(const Context *context, Table *picture, const Profile *chip, StepId step, uint32_t consumers, uint64_t N,
                      uint64_t d)
{
    Timeline timeline;
    const bool ok = record_step(context, &timeline, chip, step, consumers, N, d);
    picture_line(picture, "%s (%u warpgroup%s)", steps[step].name, consumers, consumers > 1 ? "s" : "");
    if (ok) timeline_picture(picture, &timeline, 64);
    timeline_free(&timeline);
    return ok;
}

static bool add_gantts(const Context *context, Report *report, const Profile *chip)
{
    const OptionPoint point = options_point(context->options, 0);
    Table *picture = report_table(report, &gantt_picture);
    table_title(picture, "One kernel, blocking and asynchronous (model of %s, N = %" PRIu64 ", d = %" PRIu64 ")", chip->name,
                point.seqlen, point.head_dim);
    if (!draw_step(context, picture, chip, BLOCKING, 1, point.seqlen, point.head_dim) ||
        !draw_step(context, picture, chip, OVERLAP, 1, point.seqlen, point.head_dim))
        return false;
    timeline_legend(picture);
    if (!context->options->gantt) return true;
    Table *all = report_table(report, &all_gantts_picture);
    for (uint32_t consumers = 1; consumers <= 2; consumers++)
        for (StepId step = BLOCKING; step < STEPS; step++)
            if (!draw_step(context, all, chip, step, consumers, point.seqlen, point.head_dim)) return false;
    return true;
}

static bool write_trace(const Context *context, const Profile *chip)
{
    const OptionPoint point = options_point(context->options, 0);
    Timeline timeline;
    if (context->options->trace == NULL) return true;
    const bool ok = record_step(context, &timeline, chip, OVERLAP, 1, point.seqlen, point.head_dim) &&
                    timeline_trace(context->options->trace, "FlashAttention-3, one warpgroup, asynchronous", &timeline,
                                   context->alloc, context->status);
    timeline_free(&timeline);
    return ok;
}

/* ---- kernels on chips ---- */

static bool model_tflops(const Context *context, const Profile *chip, const Algorithm *algorithm, double *tflops)
{
    AttentionShape shape = attention_shape(4096, 128);
    AttentionRun run;
    const RunSetup setup = {.algorithm = algorithm, .profile = chip, .tiles = {0, 0}, .config = {.l2 = L2_IDEAL, .time = true}};
    shape.batch = 4;
    shape.heads = shape.kv_heads = 16;
    const bool ok = attention_run_prepare(&run, &setup, &shape, context->alloc, context->status) && attention_run_forward(&run);
    if (ok)
        *tflops = ratio((double)run.totals.matmul_flops, (double)machine_nanoseconds(&run.machine)) / 1e3;
    attention_run_free(&run);
    return ok;
}

static bool add_kernels(const Context *context, Report *report)
{
    static const struct {
        const char *chip, *kernel;
        const Algorithm *algorithm;
        double measured;
    } rows[] = {
        {"h100", "FlashAttention-2", &algorithm_fa2, 368},
        {"h200", "FlashAttention-2 (PyTorch's)", &algorithm_fa2, 351.8},
        {"h100", "FlashAttention-3", &algorithm_fa3, 638},
        {"h200", "FlashAttention-3 (cuDNN's, same class)", &algorithm_fa3, 638.8},
    };
    Table *table = report_table(report, &kernel_table);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        Profile chip;
        double tflops = 0;
        if (!profile_load(rows[i].chip, context->alloc, &chip, context->status) ||
            !model_tflops(context, &chip, rows[i].algorithm, &tflops))
            return false;
        table_row(table);
        cell_text(table, chip.name);
        cell_text(table, rows[i].kernel);
        cell_text(table, tensor_instruction_name(rows[i].algorithm->instruction));
        cell_significant(table, tflops, 3);
        cell_decimals(table, rows[i].measured, 0);
        cell_decimals(table, 100 * rows[i].measured * 1e12 / (double)chip.peak_bf16_flops_per_chip, 1);
    }
    table_note(table, "FlashAttention-2 is far below even mma.sync's 649 TFLOP/s: a chain of dependent instructions binds it, "
                      "more than the tensor cores do. Quoted figures:");
    table_note(table, "FlashAttention-3 paper, Figure 5; H200: measured.");
    return true;
}

/* ---- registers ---- */

/* O and S of 64 rows in float32, P in BF16, and 32 more. */
static uint64_t most_keys(uint64_t registers)
{
    uint64_t keys = 0;
    while (64 + (keys + 16) / 2 + (keys + 16) / 4 + 32 <= registers) keys += 16;
    return keys;
}

static void add_registers(Report *report)
{
    static const struct {
        const char *loads;
        uint64_t producer, consumer;
    } rows[] = {{"TMA", 24, 240}, {"threads (cp.async)", 40, 232}};
    Table *table = report_table(report, &register_table);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        table_row(table);
        cell_text(table, rows[i].loads);
        cell_count(table, rows[i].producer);
        cell_count(table, rows[i].consumer);
        cell_count(table, 128 * (rows[i].producer + 2 * rows[i].consumer));
        cell_count(table, most_keys(rows[i].consumer));
    }
    table_note(table, "Registers as flash-attention's Hopper kernel sets them (setmaxnreg); both sums fit the 65,536 of an SM. "
                      "Without TMA every producer thread computes");
    table_note(table, "addresses, and each consumer pays with 8 registers. 32 for statistics and addresses is an estimate; the "
                      "shipped tile has 176 keys.");
}

/* ---- the claims, at the lecture's shapes ---- */

static bool step_cycles(const Context *context, const Profile *chip, StepId step, uint64_t *cycles)
{
    Timeline timeline;
    const bool ok = record_step(context, &timeline, chip, step, 1, 2048, 128);
    *cycles = timeline.makespan;
    timeline_free(&timeline);
    return ok;
}

/* Loads of FA2's kernel on an A100 that its warps do not wait for. */
static bool judge_synchronous(const Context *context, Report *report)
{
    const AttentionShape shape = attention_shape(1024, 128);
    uint64_t loads = 0, asynchronous = 0, products = 0;
    Profile a100;
    Timeline timeline;
    if (!profile_load("a100", context->alloc, &a100, context->status)) return false;
    const RunSetup setup = {.algorithm = &algorithm_fa2, .profile = &a100};
    const bool ok = timeline_record_block(&timeline, &setup, &shape, NULL, NULL, context->alloc, context->status);
    for (uint32_t i = 0; i < timeline.count; i++) {
        const TimedOperation *operation = &timeline.operations[i];
        loads += operation->operation == OP_LOAD;
        asynchronous += operation->operation == OP_LOAD && operation->async;
        products += operation->operation == OP_MATMUL && operation->async;
    }
    timeline_free(&timeline);
    claim_holds(report, "R-D5", asynchronous == 0, "%" PRIu64 " of %" PRIu64 " loads are asynchronous, %" PRIu64 " products",
                asynchronous, loads, products);
    return ok;
}

static bool judge_claims(const Context *context, Report *report, const Profile *h100)
{
    static const char *const instructions[] = {"WGMMA", "TMA"};
    const AttentionShape shape = attention_shape(1024, 128);
    const Geometry geometry = algorithm_fa3.geometry(&shape, (TileSize){128, 128});
    const Attention two = {.Br = 128, .Bc = 128};
    uint64_t waiting = 0, alone = 0, reordered = 0;
    claim_count(report, "S4.1-01", 4, geometry.threads / (fa3_consumers(&two) + 1) / 32, "");
    claim_count(report, "S4.1-02", 2, sizeof instructions / sizeof instructions[0], "");
    claim_cited(report, "S4.1-03", "%.3f: %.0f of %.0f FLOP per cycle", rates[BEST_MMA].measured / rates[BEST_WGMMA].measured,
                rates[BEST_MMA].measured, rates[BEST_WGMMA].measured);
    claim_cited(report, "S4.1-04", "%.1f %% (352 of 989 TFLOP/s, H200)", 100 * 351.8 / 989);
    claim_cited(report, "R-A10-4.1", "24/240 with TMA, 40/232 without");
    if (!step_cycles(context, h100, COPIES, &waiting) || !step_cycles(context, h100, PRODUCTS, &alone) ||
        !step_cycles(context, h100, OVERLAP, &reordered))
        return false;
    claim_holds(report, "R-4.1-alone", 2 * (waiting - alone) > waiting - reordered,
                "%" PRIu64 " cycles waiting, %" PRIu64 " not waiting, %" PRIu64 " reordered", waiting, alone, reordered);
    return judge_synchronous(context, report);
}

static bool run(Context *context, Report *report)
{
    Profile h100, h200;
    if (!profile_load("h100", context->alloc, &h100, context->status) ||
        !profile_load("h200", context->alloc, &h200, context->status))
        return false;
    const bool can = profile_has(context->hw, TENSOR_WGMMA);
    const Profile *chip = can ? context->hw : &h100;
    report_param_text(report, "hw", context->hw->name);
    if (!can) report_note(report, "%s has no wgmma, so FlashAttention-3 does not run there: h100 is shown.", context->hw->name);
    add_rates(report, &h200);
    if (!add_steps(context, report, chip) || !add_gantts(context, report, chip) || !add_kernels(context, report)) return false;
    add_registers(report);
    return write_trace(context, chip) && judge_claims(context, report, &h100);
}

const Experiment experiment_s4_1_async = {
    .program =
        {
            .name = "s4_1_async",
            .purpose = "mma.sync against wgmma, and what asynchrony changes on the timeline (lecture 4.1)",
            .examples = {"", "--seqlen 4k --hw h200 --gantt --trace async.json"},
            .options = options,
            .option_count = sizeof options / sizeof options[0],
        },
    .report =
        {
            .section = "4.1",
            .title_en = "New hardware, new instructions",
            .title_zh = "新硬件，新指令",
            .tables = tables,
            .table_count = sizeof tables / sizeof tables[0],
            .claims = claims,
            .claim_count = sizeof claims / sizeof claims[0],
        },
    .run = run,
};
