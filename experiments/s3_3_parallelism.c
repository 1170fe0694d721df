/* s3_3_parallelism.c - lecture §3.3: enough thread blocks for all SMs, and the last wave.
 *
 * FlashAttention-1 launches one thread block per head, FlashAttention-2 one per query block of a head:
 *
 *     blocks(FA1) = batch * heads              blocks(FA2) = batch * heads * ceil(N / Br)
 *     waves = ceil(blocks / SMs)               utilisation = blocks / (waves * SMs)
 *
 * Long sequences come in small batches, so FA1 leaves most SMs idle. FA2 does not, but its last wave may be short: 256 blocks on
 * the 108 SMs of an A100 take three waves, the third with 40 blocks. The block counts are those of the launches that the machine
 * walks.
 *
 * The lecture's model gives a block an SM of its own. Real FlashAttention-2 blocks share: registers and shared memory hold two of
 * them. That halves the waves but not the time, because two residents slow each other down. The last table compares three models
 * with an H200: waves of one block per SM; waves of two; and two per SM whose speed depends on whether the neighbour is there
 * (sim/chip_schedule.h). What this leaves out: L2 and HBM, which all blocks share, and blocks of different lengths
 * (s4_5_scheduling).
 */
#include "support/chips.h"
#include "support/experiment.h"
#include "support/h200_waves.h"

#include "algos/run.h"

#include "sim/checked.h"
#include "sim/chip_schedule.h"

#include <string.h>

/* ---- what is counted ---- */

enum { A100, H100, H200, B200, CHIPS, MOST_CHIPS };

static const char *const chip_names[CHIPS] = {"a100", "h100", "h200", "b200"};

/* The four chips, and --hw behind them when it is none of these. */
typedef struct {
    Profile profiles[MOST_CHIPS];
    size_t count;
} Chips;

/* What one launch looked like. */
typedef struct {
    TileSize tiles;
    Geometry geometry;
    uint64_t blocks, smem_bytes, register_bytes;
} LaunchSeen;

/* Walks a forward pass; its last launch is the kernel. tiles {0, 0}: those of the real kernel. */
static bool see_launch(const Context *context, const Algorithm *algorithm, const AttentionShape *shape, TileSize tiles,
                       const Profile *profile, LaunchSeen *seen)
{
    AttentionRun run = {0};
    const bool ok = attention_count(&run, algorithm, shape, tiles, L2_IDEAL, profile, context->alloc, context->status);
    if (ok) {
        const LaunchRecord *record = &run.machine.launches[run.machine.launch_count - 1];
        *seen = (LaunchSeen){run.setup.tiles, algorithm->geometry(shape, run.setup.tiles), record->blocks,
                             record->smem_peak_bytes, record->register_peak_bytes};
    }
    attention_run_free(&run);
    return ok;
}

static AttentionShape point_shape(const Context *context, const OptionPoint *point)
{
    AttentionShape shape = attention_shape(point->seqlen, point->head_dim);
    shape.batch = point->batch;
    shape.heads = point->heads;
    shape.kv_heads = point->kv_heads;
    shape.dtype = context->options->dtype;
    return shape;
}

/* Blocks of both algorithms at one shape. */
typedef struct {
    uint64_t fa1, fa2, fa1_formula, fa2_formula;
} Blocks;

static bool count_blocks(const Context *context, const AttentionShape *shape, uint64_t Br, Blocks *blocks)
{
    LaunchSeen fa1, fa2;
    Profile unbounded;
    const TileSize tiles = {(uint32_t)Br, (uint32_t)Br};
    if (!profile_load("unbounded", context->alloc, &unbounded, context->status)) return false;
    if (!see_launch(context, &algorithm_fa1, shape, tiles, &unbounded, &fa1)) return false;
    if (!see_launch(context, &algorithm_fa2, shape, tiles, &unbounded, &fa2)) return false;
    const uint64_t heads = checked_mul(shape->batch, shape->heads, "heads (batch * heads)", context->status);
    blocks->fa1 = fa1.blocks;
    blocks->fa2 = fa2.blocks;
    blocks->fa1_formula = heads;
    blocks->fa2_formula =
        checked_mul(heads, ceil_div(shape->seqlen_q, Br), "blocks (batch * heads * ceil(N / Br))", context->status);
    return status_ok(context->status);
}

static double percent(Ratio r) { return 100 * ratio_value(r); }

/* ---- the declarations ---- */

static const Column utilisation_columns[] = {
    {"batch", "", "sequences"},
    {"heads", "", "query heads"},
    {"N", "", "sequence length"},
    {"FA1 blocks", "", "thread blocks of FlashAttention-1, as launched: one per head"},
    {"FA1 A100", "%", "blocks / (waves * SMs)"},
    {"FA1 H100", "%", "blocks / (waves * SMs)"},
    {"FA2 blocks", "", "thread blocks of FlashAttention-2: one per query block of a head"},
    {"waves A100", "", "ceil(blocks / SMs)"},
    {"last A100", "", "blocks in the last wave"},
    {"FA2 A100", "%", "blocks / (waves * SMs)"},
    {"waves H100", "", "ceil(blocks / SMs)"},
    {"last H100", "", "blocks in the last wave"},
    {"FA2 H100", "%", "blocks / (waves * SMs)"},
    {"check", "", "both block counts against batch * heads and batch * heads * ceil(N / Br)"},
};
static const TableSpec utilisation_table = {"utilisation", "Blocks, waves and SMs, one block per SM", utilisation_columns, 14};

static const Column occupancy_columns[] = {
    {"kernel", "", "FlashAttention-2 as walked here; cudnn: a kernel of FlashAttention-3's class, by its counters"},
    {"chip", "", "profile"},
    {"d", "", "head dimension"},
    {"tile", "", "query rows x keys of a block"},
    {"threads", "", "per block"},
    {"registers", "", "per thread, of 32 bits"},
    {"tiles", "", "registers of a thread that S, O, m, l and alpha take: the walk's peak"},
    {"smem", "bytes", "shared memory of a block: the walk's peak"},
    {"by registers", "", "blocks that the registers of an SM hold"},
    {"by smem", "", "blocks that its shared memory holds"},
    {"by threads", "", "blocks that its thread limit allows"},
    {"blocks per SM", "", "the smallest, and at most the chip's limit of blocks"},
    {"limited by", "", "the resource that allows no more"},
};
static const TableSpec occupancy_table = {"occupancy", "How many blocks an SM really holds", occupancy_columns, 13};

static const Column resident_columns[] = {
    {"chip", "", "profile"},
    {"SMs", "", "of the chip"},
    {"blocks per SM", "", "resident at once"},
    {"slots", "", "blocks that run at once"},
    {"blocks", "", "of the launch"},
    {"waves", "", "ceil(blocks / slots)"},
    {"last wave", "", "blocks in it"},
    {"utilisation", "%", "blocks / (waves * slots)"},
};
static const TableSpec resident_table = {"resident", "The lecture's last row with one and with two blocks per SM",
                                         resident_columns, 8};

static const Column staircase_columns[] = {
    {"heads", "", "of one sequence, N = 2,048, d = 128: 16 blocks each"},
    {"blocks", "", "thread blocks"},
    {"waves of 132", "", "one block per SM"},
    {"waves of 264", "", "two blocks per SM"},
    {"one per SM", "us", "model: launch + waves of 132 * time of one; fitted at 8 and 16 heads of cudnn"},
    {"cudnn", "us", "measured: persistent, one block per SM"},
    {"shared SM", "us", "model: two per SM, slower beside a neighbour; fitted at 8 and 16 heads of FA2"},
    {"FA2", "us", "measured: FlashAttention-2 as shipped"},
    {"off", "%", "shared SM over FA2"},
    {"picture", "", "FA2 measured, one # for 6 us"},
};
static const TableSpec staircase_table = {"staircase", "The wave staircase of an H200 (132 SMs)", staircase_columns, 10};

static const ClaimSpec claims[] = {
    {"P020", "3.3", "thread blocks of FA1 (batch 1, 16 heads, N = 2048)", "b*h", VERDICT_EQUAL, "b*h, as launched", NULL},
    {"P021", "3.3", "thread blocks of FA2 (Br = 128)", "b*h*N/Br", VERDICT_EQUAL, "b*h*ceil(N/Br), as launched", NULL},
    {"P022", "3.3", "thread blocks in the last row (only the product is pinned; here 1 x 16 x 2048)", "256", VERDICT_EQUAL,
     "b*h*ceil(N/Br)", NULL},
    {"P023", "3.3", "SMs of an A100", "108", VERDICT_EQUAL, "profile a100", NULL},
    {"P024", "3.3", "waves of 256 blocks on an A100", "3", VERDICT_EQUAL, "ceil(256/108)", NULL},
    {"P025", "3.3", "blocks in the third wave", "40", VERDICT_EQUAL, "256 - 2*108", NULL},
    {"P026", "3.3", "utilisation of an A100", "79%", VERDICT_EQUAL, "256/(3*108)", NULL},
    {"P027", "3.3", "SMs of an H100", "132", VERDICT_EQUAL, "profile h100", NULL},
    {"P028", "3.3", "waves of 256 blocks on an H100 (the second has 124 of 132)", "2", VERDICT_EQUAL, "ceil(256/132)", NULL},
    {"P029", "3.3", "utilisation of an H100", "97%", VERDICT_EQUAL, "256/(2*132)", NULL},
    {"R-D6", "3.3", "a thread block occupies an SM of its own (FA2, d = 128, H100)", "1 per SM", VERDICT_DIFFERS,
     "blocks_per_sm of the walked kernel", "registers and shared memory hold two: the model counts waves that do not happen"},
    {"R-D6-time", "3.3", "from 128 to 256 blocks, a second wave, the time doubles (H200)", "2x", VERDICT_DIFFERS,
     "measured times", "the second block shares the SM and fills the pauses of the first"},
};

static const TableSpec *const tables[] = {&utilisation_table, &occupancy_table, &resident_table, &staircase_table};
static const ProgramOption options[] = {{OPTION_BATCH, "8,4,2,1"}, {OPTION_HEADS, "16"},     {OPTION_KV_HEADS, NULL},
                                        {OPTION_SEQLEN, "2k"},     {OPTION_HEAD_DIM, "128"}, {OPTION_BLOCK_Q, "128"},
                                        {OPTION_DTYPE, "bf16"}};

/* ---- utilisation ---- */

static bool utilisation_cells(const Context *context, Table *table, uint64_t blocks, const Profile *chip, bool waves_too)
{
    Waves waves;
    if (!count_waves(blocks, chip->sm_count, 1, &waves, context->status)) return false;
    if (waves_too) {
        cell_count(table, waves.waves);
        cell_count(table, waves.last);
    }
    if (blocks > 0)
        cell_decimals(table, percent(waves.utilisation), 1);
    else
        cell_empty(table);
    return true;
}

static bool add_utilisation(const Context *context, Report *report, const Chips *chips)
{
    const Profile *a100 = &chips->profiles[A100], *h100 = &chips->profiles[H100];
    Table *table = report_table(report, &utilisation_table);
    for (size_t i = 0; i < options_point_count(context->options); i++) {
        const OptionPoint point = options_point(context->options, i);
        const AttentionShape shape = point_shape(context, &point);
        Blocks blocks;
        if (!count_blocks(context, &shape, point.block_q, &blocks)) return false;
        table_row(table);
        cell_count(table, shape.batch);
        cell_count(table, shape.heads);
        cell_count(table, shape.seqlen_q);
        cell_count(table, blocks.fa1);
        if (!utilisation_cells(context, table, blocks.fa1, a100, false)) return false;
        if (!utilisation_cells(context, table, blocks.fa1, h100, false)) return false;
        cell_count(table, blocks.fa2);
        if (!utilisation_cells(context, table, blocks.fa2, a100, true)) return false;
        if (!utilisation_cells(context, table, blocks.fa2, h100, true)) return false;
        report_check(report, blocks.fa1, blocks.fa1_formula, "blocks of FA1");
        cell_check(table, blocks.fa2, blocks.fa2_formula, "blocks of FA2");
    }
    table_note(table, "Utilisation counts SMs, not time: an SM with a block counts as used. Rows above the last are ours, the "
                      "lecture's are lost.");
    return true;
}

/* ---- occupancy ---- */

static void occupancy_cells(Table *table, const Occupancy *o)
{
    static const OccupancyLimit shown[] = {OCCUPANCY_REGISTERS, OCCUPANCY_SHARED_MEMORY, OCCUPANCY_THREADS};
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        if (o->by[shown[i]] == PROFILE_UNLIMITED)
            cell_text(table, "unlimited");
        else
            cell_count(table, o->by[shown[i]]);
    }
    if (o->blocks == PROFILE_UNLIMITED) {
        cell_text(table, "unlimited");
        cell_text(table, "nothing");
        return;
    }
    const bool both = o->limit == OCCUPANCY_REGISTERS && o->by[OCCUPANCY_SHARED_MEMORY] == o->blocks;
    cell_count(table, o->blocks);
    cell_textf(table, "%s%s", occupancy_limit_name(o->limit), both ? ", shared memory" : "");
}

/* FlashAttention-2 with its real tiles on this chip. */
static bool fa2_occupancy(const Context *context, const Profile *chip, uint64_t head_dim, LaunchSeen *seen, Occupancy *occupancy)
{
    const AttentionShape shape = attention_shape(1024, head_dim);
    return see_launch(context, &algorithm_fa2, &shape, (TileSize){0, 0}, chip, seen) &&
           blocks_per_sm(chip, seen->smem_bytes, seen->geometry.threads, seen->geometry.registers_per_thread, occupancy,
                         context->status);
}

static bool fa2_row(const Context *context, Table *table, const Profile *chip, uint64_t head_dim)
{
    LaunchSeen seen;
    Occupancy occupancy;
    if (!fa2_occupancy(context, chip, head_dim, &seen, &occupancy)) return false;
    table_row(table);
    cell_text(table, "fa2");
    cell_text(table, chip->name);
    cell_count(table, head_dim);
    cell_textf(table, "%u x %u", (unsigned)seen.tiles.Br, (unsigned)seen.tiles.Bc);
    cell_count(table, seen.geometry.threads);
    cell_count(table, seen.geometry.registers_per_thread);
    cell_count(table, seen.register_bytes / 4 / seen.geometry.threads);
    cell_count(table, seen.smem_bytes);
    occupancy_cells(table, &occupancy);
    return true;
}

/* cuDNN 9.19's Hopper kernel by Nsight Compute: 384 threads (a producer and two consumer warpgroups), 168 registers on average.
 */
static bool cudnn_row(const Context *context, Table *table, const Profile *chip, uint64_t head_dim, uint64_t smem_bytes)
{
    enum { THREADS = 384, REGISTERS = 168 };
    Occupancy occupancy;
    if (!blocks_per_sm(chip, smem_bytes, THREADS, REGISTERS, &occupancy, context->status)) return false;
    table_row(table);
    cell_text(table, "cudnn");
    cell_text(table, chip->name);
    cell_count(table, head_dim);
    cell_text(table, "128 x 128");
    cell_count(table, THREADS);
    cell_count(table, REGISTERS);
    cell_empty(table);
    cell_count(table, smem_bytes);
    occupancy_cells(table, &occupancy);
    return true;
}

static bool add_occupancy(const Context *context, Report *report, const Chips *chips)
{
    static const uint64_t head_dims[] = {64, 128};
    Table *table = report_table(report, &occupancy_table);
    for (size_t c = 0; c < chips->count; c++) {
        for (size_t i = 0; i < 2; i++) {
            if (profile_has(&chips->profiles[c], algorithm_fa2.instruction) &&
                !fa2_row(context, table, &chips->profiles[c], head_dims[i]))
                return false;
        }
    }
    if (!cudnn_row(context, table, &chips->profiles[H200], 64, 134144) ||
        !cudnn_row(context, table, &chips->profiles[H200], 128, 232448))
        return false;
    table_note(table, "An H200's counters say the same of FA2 as shipped: 128 threads, 255 registers, 49,152 bytes at d = 64, "
                      "65,536 at d = 128.");
    table_note(table, "Fewer registers per thread would make room for a third block, but the tiles alone need most of the 255.");
    return true;
}

static bool resident_row(const Context *context, Table *table, const Profile *chip, uint64_t blocks, uint64_t resident)
{
    Waves waves;
    if (!count_waves(blocks, chip->sm_count, resident, &waves, context->status)) return false;
    table_row(table);
    cell_text(table, chip->name);
    cell_count(table, chip->sm_count);
    cell_count(table, resident);
    cell_count(table, waves.slots);
    cell_count(table, blocks);
    cell_count(table, waves.waves);
    cell_count(table, waves.last);
    cell_decimals(table, percent(waves.utilisation), 1);
    return true;
}

static bool add_resident(const Context *context, Report *report, const Chips *chips)
{
    enum { BLOCKS = 256 };
    Table *table = report_table(report, &resident_table);
    for (size_t c = 0; c < chips->count; c++) {
        const Profile *chip = &chips->profiles[c];
        LaunchSeen seen;
        Occupancy occupancy;
        if (!resident_row(context, table, chip, BLOCKS, 1)) return false;
        if (!profile_has(chip, algorithm_fa2.instruction)) continue;
        if (!fa2_occupancy(context, chip, 128, &seen, &occupancy)) return false;
        if (occupancy.blocks > 1 && !resident_row(context, table, chip, BLOCKS, min_u64(occupancy.blocks, BLOCKS))) return false;
    }
    table_note(
        table,
        "Two per SM: the A100 needs two waves, not three, the Hopper chips one. The time of a wave is another one, though:");
    table_note(table, "with 216 slots the last 40 blocks run one per SM, and faster than with a neighbour.");
    return true;
}

/* ---- the staircase ---- */

/* Times in 10 ns, fitted to the rows of 8 and 16 heads: 128 blocks, one per SM, and 256 blocks, all but 8 SMs with two. */
typedef struct {
    uint64_t sm_count;
    uint64_t cudnn_launch, cudnn_wave;
    uint64_t fa2_launch, fa2_time[2]; /* of a block alone, and beside a neighbour */
} Staircase;

enum { BLOCKS_PER_HEAD = 16, MOST_BLOCKS = 640 };

static Staircase fit_staircase(uint64_t sm_count)
{
    const H200Staircase *alone = &h200_staircase[H200_ALONE], *paired = &h200_staircase[H200_PAIRED];
    const uint64_t wave = paired->cudnn - alone->cudnn;
    return (Staircase){.sm_count = sm_count,
                       .cudnn_launch = alone->cudnn - wave,
                       .cudnn_wave = wave,
                       .fa2_launch = h200_launch_time,
                       .fa2_time = {alone->flash - h200_launch_time, paired->flash - h200_launch_time}};
}

static bool shared_time(const Context *context, const Staircase *model, uint64_t blocks, uint64_t *time)
{
    uint64_t work[MOST_BLOCKS];
    ChipSchedule schedule;
    for (uint64_t b = 0; b < blocks; b++) work[b] = 1;
    const BlockList list = {.work = work, .count = blocks};
    const ChipSlots slots = {model->sm_count, 2, model->fa2_time};
    const bool ok = chip_schedule(&schedule, &list, &slots, context->alloc, context->status);
    *time = schedule.makespan + model->fa2_launch;
    chip_schedule_free(&schedule);
    return ok;
}

static double microseconds(uint64_t ten_nanoseconds) { return (double)ten_nanoseconds / 100; }

static double off_percent(uint64_t model, uint64_t measured) { return 100 * ((double)model / (double)measured - 1); }

static bool staircase_row(const Context *context, Table *table, const Staircase *model, const H200Staircase *measured,
                          double *worst)
{
    enum { BAR = 48 };
    static const char bar[BAR + 1] = "################################################";
    const uint64_t blocks = measured->heads * BLOCKS_PER_HEAD;
    uint64_t shared;
    Waves one, two;
    if (!count_waves(blocks, model->sm_count, 1, &one, context->status) ||
        !count_waves(blocks, model->sm_count, 2, &two, context->status) || !shared_time(context, model, blocks, &shared))
        return false;
    const double off = off_percent(shared, measured->flash);
    table_row(table);
    cell_count(table, measured->heads);
    cell_count(table, blocks);
    cell_count(table, one.waves);
    cell_count(table, two.waves);
    cell_decimals(table, microseconds(model->cudnn_launch + one.waves * model->cudnn_wave), 1);
    cell_decimals(table, microseconds(measured->cudnn), 1);
    cell_decimals(table, microseconds(shared), 1);
    cell_decimals(table, microseconds(measured->flash), 1);
    if (measured->heads >= H200_UNSPLIT_HEADS)
        cell_decimals(table, off, 1);
    else
        cell_text(table, "split");
    cell_textf(table, "%.*s", (int)(measured->flash / 600), bar);
    if (measured->heads >= H200_UNSPLIT_HEADS && off * off > *worst * *worst) *worst = off;
    return true;
}

static bool add_staircase(const Context *context, Report *report, const Chips *chips)
{
    const size_t rows = sizeof h200_staircase / sizeof h200_staircase[0];
    const Staircase model = fit_staircase(chips->profiles[H200].sm_count);
    Table *table = report_table(report, &staircase_table);
    double worst = 0;
    for (size_t i = 0; i < rows; i++)
        if (!staircase_row(context, table, &model, &h200_staircase[i], &worst)) return false;
    table_note(
        table,
        "FA2 climbs at 132, 264, 396 and 528 blocks, by turns a small and a large step: a first block on an SM costs %.1f us, a",
        microseconds(model.fa2_time[0]));
    table_note(table, "second one beside it makes that %.1f us for both. No counting of whole waves has steps of two sizes.",
               microseconds(model.fa2_time[1]));
    table_note(table,
               "The shared-SM model has three numbers: an empty launch (%.2f us, measured) and the two above; it is off by at "
               "most %.1f %%.",
               microseconds(model.fa2_launch), worst < 0 ? -worst : worst);
    table_note(
        table,
        "split: with fewer than 0.8 * 2 * 132 = 211 blocks of 64 rows (7 heads have 224) FlashAttention-2 splits the keys too.");
    return true;
}

/* ---- the claims, at the lecture's shape ---- */

static bool judge_claims(const Context *context, Report *report, const Chips *chips)
{
    const Profile *a100 = &chips->profiles[A100], *h100 = &chips->profiles[H100];
    AttentionShape shape = attention_shape(2048, 128);
    Waves on_a100, on_h100;
    Occupancy occupancy;
    LaunchSeen seen;
    Blocks blocks;
    shape.heads = shape.kv_heads = 16;
    if (!count_blocks(context, &shape, 128, &blocks)) return false;
    if (!count_waves(blocks.fa2, a100->sm_count, 1, &on_a100, context->status)) return false;
    if (!count_waves(blocks.fa2, h100->sm_count, 1, &on_h100, context->status)) return false;
    if (!fa2_occupancy(context, h100, 128, &seen, &occupancy)) return false;

    claim_holds(report, "P020", blocks.fa1 == blocks.fa1_formula, "%" PRIu64 " = 1*16", blocks.fa1);
    claim_holds(report, "P021", blocks.fa2 == blocks.fa2_formula, "%" PRIu64 " = 1*16*2048/128", blocks.fa2);
    claim_count(report, "P022", 256, blocks.fa2, "");
    claim_count(report, "P023", 108, a100->sm_count, "");
    claim_count(report, "P024", 3, on_a100.waves, "");
    claim_count(report, "P025", 40, on_a100.last, "");
    claim_decimals(report, "P026", 79, 0, percent(on_a100.utilisation), "%");
    claim_count(report, "P027", 132, h100->sm_count, "");
    claim_count(report, "P028", 2, on_h100.waves, "");
    claim_decimals(report, "P029", 97, 0, percent(on_h100.utilisation), "%");
    claim_holds(report, "R-D6", occupancy.blocks == 1, "%" PRIu64 " per SM", occupancy.blocks);
    const double growth = (double)h200_staircase[H200_PAIRED].flash / (double)h200_staircase[H200_ALONE].flash;
    claim_holds(report, "R-D6-time", growth > 1.95 && growth < 2.05, "%.2fx: %.1f to %.1f us", growth,
                microseconds(h200_staircase[H200_ALONE].flash), microseconds(h200_staircase[H200_PAIRED].flash));
    return status_ok(context->status);
}

static bool run(Context *context, Report *report)
{
    Chips chips;
    chips.count = load_chips(context, chip_names, CHIPS, true, chips.profiles);
    if (chips.count == 0) return false;
    report_param_text(report, "hw", context->hw->name);
    report_param_text(report, "dtype", option_choice(OPTION_DTYPE, (int)context->options->dtype));
    return add_utilisation(context, report, &chips) && add_occupancy(context, report, &chips) &&
           add_resident(context, report, &chips) && add_staircase(context, report, &chips) &&
           judge_claims(context, report, &chips);
}

const Experiment experiment_s3_3_parallelism = {
    .program =
        {
            .name = "s3_3_parallelism",
            .purpose = "thread blocks, waves and busy SMs (lecture 3.3)",
            .examples = {"", "--batch 1 --heads 8,16,32 --seqlen 1k,4k,16k"},
            .options = options,
            .option_count = sizeof options / sizeof options[0],
        },
    .report =
        {
            .section = "3.3",
            .title_en = "Parallel over the sequence",
            .title_zh = "沿序列维并行",
            .tables = tables,
            .table_count = sizeof tables / sizeof tables[0],
            .claims = claims,
            .claim_count = sizeof claims / sizeof claims[0],
        },
    .run = run,
};
