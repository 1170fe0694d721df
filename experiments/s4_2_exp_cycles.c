/* s4_2_exp_cycles.c - lecture §4.2: exponentials and matrix products of a tile, in cycles.
 *
 * A tile of M queries and N keys at head dim d takes two products (S = QKᵀ and PV) and M N exponentials:
 *
 *     products       4 M N d / F cycles      F FLOP per cycle and SM of the tensor cores
 *     exponentials   M N / X cycles          X per cycle and SM of MUFU
 *     ratio          F / (4 d X)             M and N cancel
 *
 * The cycles here are counted: a kernel of three operations (Q Kᵀ, exp, P V) runs on the machine with the chip's rates, and a
 * timeline says how long each unit was busy. The formula stands beside it. Capacities are lifted, since a tile of d = 256 fits no
 * register file; every other part of a softmax (maximum, sum, scaling) is left out here, as in the lecture: s4_3_pingpong and
 * s5_1 have it.
 */
#include "support/experiment.h"
#include "support/ratios.h"
#include "support/timeline_view.h"

#include "sim/checked.h"
#include "sim/ops.h"

#include <stdio.h>
#include <string.h>

/* ---- the account ---- */

typedef struct {
    uint64_t M, N, d;
    ElementType type;
} TileAccount;

static void account_block(Block *b, const void *arguments, uint64_t index)
{
    const TileAccount *t = arguments;
    Stream *w = stream(b, "warpgroups", b->kernel->threads / 32);
    const uint32_t M = (uint32_t)t->M, N = (uint32_t)t->N, d = (uint32_t)t->d;
    Tile *q = shared_tile(b, "Q", t->type, M, d), *k = shared_tile(b, "K", t->type, N, d),
         *v = shared_tile(b, "V", t->type, N, d);
    Tile *s = register_tile(b, "S", ELEMENT_F32, M, N), *p = tile_view(s, "P", t->type, M, N),
         *o = register_tile(b, "O", ELEMENT_F32, M, d);
    Rows *m = row_vector(b, "m", ELEMENT_F32, M);
    (void)index;
    fill(w, q, M, d, 0.0);
    fill(w, k, N, d, 0.0);
    fill(w, v, N, d, 0.0);
    fill(w, m, M, 1, 0.0);
    fill(w, o, M, d, 0.0);
    matmul_nt(w, s, q, k);
    exp_rows(w, s, s, m);
    convert(w, p, s);
    matmul_nn_add(w, o, p, v);
}

static TensorInstruction newest_instruction(const Profile *chip)
{
    return profile_has(chip, TENSOR_TCGEN05) ? TENSOR_TCGEN05 : profile_has(chip, TENSOR_WGMMA) ? TENSOR_WGMMA : TENSOR_MMA_SYNC;
}

/* What the two units did, and what the walk counted. */
typedef struct {
    uint64_t matmul_cycles, exp_cycles, flops, exponentials;
} Account;

/* Everything but products and exponentials costs nothing; any tile fits. */
static Profile account_chip(const Profile *chip)
{
    Profile p = *chip;
    p.smem_bytes_per_block = p.registers_per_thread = p.registers_per_sm = p.smem_bytes_per_cycle_per_sm =
        p.issue_slots_per_cycle_per_sm = PROFILE_UNLIMITED;
    p.issue_interval_millicycles_per_warp = p.matmul_startup_cycles = 0;
    return p;
}

/* timeline: NULL unless wanted; its free is the caller's then. */
static bool account(const Context *context, const Profile *chip, TensorInstruction instruction, TileAccount tile,
                    Account *account, Timeline *timeline)
{
    const Profile lifted = account_chip(chip);
    const Kernel kernel = {.name = "tile_account",
                           .instruction = instruction,
                           .shape = {64, 256},
                           .threads = 256,
                           .registers_per_thread = 1,
                           .run = account_block};
    Timeline own;
    Timeline *const record = timeline != NULL ? timeline : &own;
    Machine machine;
    bool ok = timeline_init(record, &lifted, context->alloc, context->status);
    machine_init(&machine, &lifted,
                 (MachineConfig){.mode = MODE_COUNT, .l2 = L2_NONE, .observe = timeline_observe, .observer = record},
                 context->alloc, context->status);
    ok = ok && launch(&machine, &kernel, (Grid){1, 1, 1}, &tile) && timeline_run(record);
    if (ok) {
        const Counts *counts = &machine.launches[0].counts;
        *account =
            (Account){record->busy[UNIT_TENSOR], record->busy[UNIT_MUFU], counts->matmul_flops, counts->elements[OP_EXP_ROWS]};
    }
    machine_free(&machine);
    if (timeline == NULL) timeline_free(&own);
    return ok;
}

static double exp_ratio(const Account *a) { return ratio((double)a->exp_cycles, (double)a->matmul_cycles); }

/* ---- the chips ---- */

typedef struct {
    const Profile *chip;
    TensorInstruction instruction;
    ElementType type;
    const char *name; /* "FP16/BF16" */
} Line;

enum { MOST_CHIPS = 4, MOST_LINES = 3 * MOST_CHIPS };

static uint64_t line_rate(const Line *line) { return tensor_rate(line->chip, line->instruction, line->type); }

/* A chip's newest instruction in BF16 and, if it has one, FP8; on Hopper mma.sync too. */
static size_t chip_lines(const Profile *chip, Line *lines)
{
    size_t count = 0;
    const TensorInstruction newest = newest_instruction(chip);
    if (newest == TENSOR_WGMMA && profile_has(chip, TENSOR_MMA_SYNC))
        lines[count++] = (Line){chip, TENSOR_MMA_SYNC, ELEMENT_BF16, "FP16/BF16"};
    lines[count++] = (Line){chip, newest, ELEMENT_BF16, "FP16/BF16"};
    if (chip->fp8_flops_per_cycle_per_sm > 0) lines[count++] = (Line){chip, newest, ELEMENT_E4M3, "FP8"};
    return count;
}

typedef struct {
    Profile chips[MOST_CHIPS]; /* a100, h100, b200, and --hw if it is another */
    size_t chip_count;
    Line lines[MOST_LINES];
    size_t line_count;
} World;

static bool make_world(const Context *context, World *world)
{
    static const char *const names[] = {"a100", "h100", "b200"};
    bool shown = false;
    world->chip_count = world->line_count = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!profile_load(names[i], context->alloc, &world->chips[world->chip_count++], context->status)) return false;
        shown = shown || memcmp(&world->chips[i], context->hw, sizeof *context->hw) == 0;
    }
    if (!shown) world->chips[world->chip_count++] = *context->hw;
    for (size_t i = 0; i < world->chip_count; i++)
        world->line_count += chip_lines(&world->chips[i], &world->lines[world->line_count]);
    return true;
}

/* ---- the declarations ---- */

static const Column ratio_columns[] = {
    {"chip", "", "profile"},
    {"type", "", "of the operands"},
    {"instruction", "", "of the tensor cores"},
    {"F", "FLOP", "per cycle and SM, dense"},
    {"X", "exp", "per cycle and SM"},
    {"d", "", "head dimension"},
    {"matmul", "cycles", "tensor cores busy with the two products of the tile"},
    {"exp", "cycles", "MUFU busy with its exponentials"},
    {"exp / matmul", "", "above 1 the exponentials take longer"},
    {"F/(4dX)", "", "the formula"},
};
static const TableSpec ratio_table = {"ratio", "Exponentials against products of one tile", ratio_columns, 10};

static const TableSpec map_picture = {"map", "Who takes longer, by chip and head dimension", NULL, 0};

static const Column tile_columns[] = {
    {"M", "", "query rows"},
    {"N", "", "keys"},
    {"FLOP", "", "4 M N d"},
    {"exps", "", "M N"},
    {"matmul", "cycles", "tensor cores"},
    {"exp", "cycles", "MUFU"},
    {"exp / matmul", "", "the same for every tile"},
};
static const TableSpec tile_table = {"tiles", "The ratio does not depend on the tile (H100, FP16, d = 128)", tile_columns, 7};

static const Column card_columns[] = {
    {"chip", "", "profile"},
    {"matmul", "TFLOP/s", "published, BF16, dense"},
    {"F", "FLOP", "per cycle and SM"},
    {"exp", "T/s", "peak X / F: clock and SMs cancel"},
    {"exp by clock", "T/s", "X * SMs * tensor clock"},
    {"matmul / exp", "FLOP", "tensor FLOP in the time of one exponential"},
    {"d at 1", "", "head dim at which both take as long: F / (4 X)"},
};
static const TableSpec card_table = {"cards", "The whole card, from its specification", card_columns, 7};

static const TableSpec gantt_picture = {"gantt", "One tile, in order", NULL, 0};

static const ClaimSpec claims[] = {
    {"S4.2-01", "4.2", "head dimension and tile of the account", "d = 128, 128 x 128", VERDICT_EQUAL, "input", NULL},
    {"S4.2-02", "4.2", "work of the two products of a tile", "8.4 MFLOP", VERDICT_EQUAL,
     "4 M N d = 8,388,608, counted by the walk", NULL},
    {"S4.2-03", "4.2", "FP16 WGMMA rate of an SM (H100)", "4096 FLOP per cycle", VERDICT_EQUAL,
     "profile; 989 TFLOP/s / (132 SMs * 1.83 GHz) = 4094, 4094 measured on an H200", NULL},
    {"S4.2-04", "4.2", "products of a tile, H100 FP16, d = 128", "2048 cycles", VERDICT_EQUAL, "tensor cores busy", NULL},
    {"S4.2-05", "4.2", "exponentials of a tile", "16K", VERDICT_EQUAL, "M N, counted by the walk; 16 * 1024", NULL},
    {"S4.2-06", "4.2", "MUFU rate of an SM", "16 per cycle", VERDICT_EQUAL, "profile; 15.998 measured on an H200 (B300 has 32)",
     NULL},
    {"S4.2-07", "4.2", "exponentials of a tile", "1024 cycles", VERDICT_EQUAL, "MUFU busy", NULL},
    {"S4.2-08", "4.2", "exponentials over products, H100 FP16, d = 128", "half", VERDICT_EQUAL, "1024 / 2048", NULL},
    {"S4.2-09", "4.2", "the ratio is F/(4 d X), whatever the tile", "independent of the tile", VERDICT_EQUAL, "table `tiles`",
     NULL},
    {"S4.2-10", "4.2", "exp / matmul, A100 FP16/BF16, d = 64", "table lost; its formula gives 0.5 (matmul 2048)", VERDICT_EQUAL,
     "busy cycles of the walk", NULL},
    {"S4.2-11", "4.2", "exp / matmul, A100 FP16/BF16, d = 128", "table lost; its formula gives 0.25 (matmul 4096)", VERDICT_EQUAL,
     "busy cycles of the walk", NULL},
    {"S4.2-12", "4.2", "exp / matmul, A100 FP16/BF16, d = 256", "table lost; its formula gives 0.125 (matmul 8192)",
     VERDICT_EQUAL, "busy cycles of the walk", NULL},
    {"S4.2-13", "4.2", "exp / matmul, H100 FP16/BF16, d = 64", "table lost; its formula gives 1 (matmul 1024)", VERDICT_EQUAL,
     "busy cycles of the walk", NULL},
    {"S4.2-14", "4.2", "exp / matmul, H100 FP16/BF16, d = 128", "half (table: 0.5, matmul 2048)", VERDICT_EQUAL,
     "busy cycles of the walk", NULL},
    {"S4.2-15", "4.2", "exp / matmul, H100 FP16/BF16, d = 256", "table lost; its formula gives 0.25 (matmul 4096)", VERDICT_EQUAL,
     "busy cycles of the walk", NULL},
    {"S4.2-16", "4.2", "exp / matmul, H100 FP8, d = 64", "table lost; its formula gives 2 (matmul 512)", VERDICT_EQUAL,
     "busy cycles of the walk", NULL},
    {"S4.2-17", "4.2", "exp / matmul, H100 FP8, d = 128", "1024 both (table: 1, matmul 1024)", VERDICT_EQUAL,
     "busy cycles of the walk", NULL},
    {"S4.2-18", "4.2", "exp / matmul, H100 FP8, d = 256", "table lost; its formula gives 0.5 (matmul 2048)", VERDICT_EQUAL,
     "busy cycles of the walk", NULL},
    {"S4.2-19", "4.2", "exp / matmul, B200 BF16, d = 64", "table lost; its formula gives 2 (matmul 512)", VERDICT_EQUAL,
     "busy cycles of the walk", NULL},
    {"S4.2-20", "4.2", "exp / matmul, B200 BF16, d = 128", "1024 both (table: 1, matmul 1024)", VERDICT_EQUAL,
     "busy cycles of the walk", NULL},
    {"S4.2-21", "4.2", "exp / matmul, B200 BF16, d = 256", "table lost; its formula gives 0.5 (matmul 2048)", VERDICT_EQUAL,
     "busy cycles of the walk", NULL},
    {"S4.2-22", "4.2", "exp / matmul, B200 FP8, d = 64", "table lost; its formula gives 4 (matmul 256)", VERDICT_EQUAL,
     "busy cycles of the walk", NULL},
    {"S4.2-23", "4.2", "exp / matmul, B200 FP8, d = 128", "table lost; its formula gives 2 (matmul 512)", VERDICT_EQUAL,
     "busy cycles of the walk", NULL},
    {"S4.2-24", "4.2", "exp / matmul, B200 FP8, d = 256", "table lost; its formula gives 1 (matmul 1024)", VERDICT_EQUAL,
     "busy cycles of the walk", NULL},
    {"S4.2-25", "4.2", "exponentials per second of the H100, from its specification", "3.86 T/s", VERDICT_EQUAL,
     "989e12 * 16 / 4096", NULL},
    {"S4.2-26", "4.2", "special functions in the FlashAttention-3 paper", "3.9 TFLOPS", VERDICT_CITED,
     "quoted from the paper; 16 * 132 * 1.83 GHz", NULL},
    {"S4.2-27", "4.2", "products per second of the H100", "989 TFLOP/s", VERDICT_CITED, "datasheet", NULL},
    {"S4.2-28", "4.2", "the tensor cores double with each generation", "x2", VERDICT_EQUAL,
     "F of a100, h100, b200: 2048, 4096, 8192", NULL},
    {"S4.2-29", "4.2", "MUFU stays at 16 per cycle and SM", "16", VERDICT_EQUAL, "X of a100, h100, b200", NULL},
    {"S4.2-30", "4.2", "FP8 on H100 or BF16 on B200: exp and matmul take as long", "1024 and 1024 cycles", VERDICT_EQUAL,
     "busy cycles of the walk", NULL},
    {"R-D7-4.2", "4.2", "MUFU stays at 16, whatever the generation", "16", VERDICT_DIFFERS, "quoted: FlashAttention-4 paper",
     "B300 (Blackwell Ultra) has 32: the ratio that this section complains about was halved in hardware"},
};

static const TableSpec *const tables[] = {&ratio_table, &map_picture, &tile_table, &card_table, &gantt_picture};
static const ProgramOption options[] = {{OPTION_HEAD_DIM, "64,96,128,256"},
                                        {OPTION_BLOCK_Q, "128"},
                                        {OPTION_BLOCK_K, "128"},
                                        {OPTION_GANTT, NULL},
                                        {OPTION_TRACE, NULL}};

/* ---- the tables ---- */

static bool add_ratio(const Context *context, Report *report, const World *world)
{
    Table *table = report_table(report, &ratio_table);
    for (size_t l = 0; l < world->line_count; l++)
        for (size_t i = 0; i < options_point_count(context->options); i++) {
            const Line *line = &world->lines[l];
            const OptionPoint point = options_point(context->options, i);
            const TileAccount tile = {point.block_q, point.block_k, point.head_dim, line->type};
            Account a;
            if (!account(context, line->chip, line->instruction, tile, &a, NULL)) return false;
            const uint64_t F = line_rate(line), X = line->chip->mufu_ops_per_cycle_per_sm, half = 2 * tile.M * tile.N * tile.d;
            table_row(table);
            cell_text(table, line->chip->name);
            cell_text(table, line->name);
            cell_text(table, tensor_instruction_name(line->instruction));
            cell_count(table, F);
            cell_count(table, X);
            cell_count(table, tile.d);
            cell_count(table, a.matmul_cycles);
            cell_count(table, a.exp_cycles);
            cell_decimals(table, exp_ratio(&a), 3);
            cell_decimals(table, ratio((double)F, 4.0 * (double)(tile.d * X)), 3);
            report_check(report, a.matmul_cycles, 2 * cycles_at(half, F), "products: twice 2 M N d / F, each rounded up");
            report_check(report, a.exp_cycles, cycles_at(tile.M * tile.N, X), "exponentials: M N / X, rounded up");
            report_check(report, a.flops, 2 * half, "FLOP of the tile: 4 M N d");
            report_check(report, a.exponentials, tile.M * tile.N, "exponentials of the tile: M N");
        }
    table_note(table, "Measured on an H200, whose SM is the H100's: 4094 FLOP (wgmma), 2686 (mma.sync) and 15.998 exponentials "
                      "per cycle and SM.");
    table_note(table, "In order a tile takes the sum of both columns, perfectly overlapped the larger one (s4_3_pingpong).");
    table_note(table, "Exponentials alone are not a softmax: one of 64 x 128 scores took 850 cycles there where MUFU needs 512.");
    return true;
}

static const uint64_t map_dims[] = {16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 384, 512};

static bool map_line(const Context *context, Table *picture, const Line *line)
{
    char text[16 * sizeof map_dims / sizeof map_dims[0]];
    size_t length = 0;
    for (size_t i = 0; i < sizeof map_dims / sizeof map_dims[0]; i++) {
        Account a;
        if (!account(context, line->chip, line->instruction, (TileAccount){128, 128, map_dims[i], line->type}, &a, NULL))
            return false;
        const double r = exp_ratio(&a);
        length += (size_t)snprintf(text + length, sizeof text - length, " %5.2f%c", r,
                                   r > 1      ? '#'
                                   : r == 1   ? '='
                                   : r >= 0.5 ? '+'
                                              : '.');
    }
    picture_line(picture, "%-8s %-9s %-9s%s", line->chip->name, line->name, tensor_instruction_name(line->instruction), text);
    return true;
}

static bool add_map(const Context *context, Report *report, const World *world)
{
    Table *picture = report_table(report, &map_picture);
    char axis[16 * sizeof map_dims / sizeof map_dims[0]];
    size_t length = 0;
    for (size_t i = 0; i < sizeof map_dims / sizeof map_dims[0]; i++)
        length += (size_t)snprintf(axis + length, sizeof axis - length, " %5" PRIu64 " ", map_dims[i]);
    picture_line(picture, "%-28s%s", "exp / matmul at d =", axis);
    for (size_t i = 0; i < world->line_count; i++)
        if (!map_line(context, picture, &world->lines[i])) return false;
    picture_line(picture, "# exponentials take longer   = as long   + half as long or more: worth hiding   . less than half");
    return true;
}

static bool tile_row(const Context *context, Table *table, const Profile *h100, uint64_t M, uint64_t N, bool *same)
{
    Account a;
    if (!account(context, h100, TENSOR_WGMMA, (TileAccount){M, N, 128, ELEMENT_BF16}, &a, NULL)) return false;
    *same = *same && 2 * a.exp_cycles == a.matmul_cycles;
    if (table == NULL) return true;
    table_row(table);
    cell_count(table, M);
    cell_count(table, N);
    cell_count(table, a.flops);
    cell_count(table, a.exponentials);
    cell_count(table, a.matmul_cycles);
    cell_count(table, a.exp_cycles);
    cell_decimals(table, exp_ratio(&a), 2);
    return true;
}

/* table: NULL when only the answer is wanted. */
static bool add_tiles(const Context *context, Table *table, const Profile *h100, bool *same)
{
    static const uint64_t sizes[][2] = {{64, 64},   {64, 128},  {128, 64},  {128, 128},
                                        {128, 176}, {192, 128}, {256, 128}, {256, 256}};
    *same = true;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (!tile_row(context, table, h100, sizes[i][0], sizes[i][1], same)) return false;
    return true;
}

/* X over F of the peak, in exponentials per second. */
static double card_exp_rate(const Profile *chip)
{
    const uint64_t F = profile_tensor_rate(chip, newest_instruction(chip));
    return (double)chip->peak_bf16_flops_per_chip * (double)chip->mufu_ops_per_cycle_per_sm / (double)F;
}

static void add_cards(Report *report, const World *world)
{
    Table *table = report_table(report, &card_table);
    for (size_t i = 0; i < world->chip_count; i++) {
        const Profile *chip = &world->chips[i];
        const uint64_t F = profile_tensor_rate(chip, newest_instruction(chip)), X = chip->mufu_ops_per_cycle_per_sm;
        table_row(table);
        cell_text(table, chip->name);
        cell_count(table, chip->peak_bf16_flops_per_chip / UINT64_C(1000000000000));
        cell_count(table, F);
        cell_decimals(table, card_exp_rate(chip) / 1e12, 2);
        cell_decimals(table, (double)X * (double)chip->sm_count * (double)chip->tensor_clock_hz / 1e12, 2);
        cell_count(table, X > 0 ? F / X : 0);
        cell_count(table, X > 0 ? F / (4 * X) : 0);
    }
    table_note(table, "B300 (Blackwell Ultra) doubles MUFU to 32 per cycle (FlashAttention-4 paper): F / (4 X) is 64 again, as "
                      "on the H100 (s5_1_asymmetric).");
}

/* ---- one tile as a timeline ---- */

static bool add_timeline(const Context *context, Report *report)
{
    const OptionPoint point = options_point(context->options, 0);
    const Profile *hw = context->hw;
    const TileAccount tile = {point.block_q, point.block_k, point.head_dim, ELEMENT_BF16};
    Timeline timeline = {0};
    Account a;
    bool ok = account(context, hw, newest_instruction(hw), tile, &a, &timeline);
    if (ok && context->options->gantt) {
        Table *picture = report_table(report, &gantt_picture);
        table_title(picture, "One tile in order, %s, %" PRIu64 " x %" PRIu64 ", d = %" PRIu64, hw->name, tile.M, tile.N, tile.d);
        timeline_picture(picture, &timeline, timeline_scale(&timeline, 0));
        timeline_legend(picture);
    }
    if (ok && context->options->trace != NULL)
        ok = timeline_trace(context->options->trace, "two products and the exponentials of a tile", &timeline, context->alloc,
                            context->status);
    timeline_free(&timeline);
    return ok;
}

/* ---- the claims, at the lecture's shapes ---- */

static bool judge_cells(const Context *context, Report *report, const World *world)
{
    enum { A100, H100, B200 };
    static const struct {
        const char *id;
        int chip;
        ElementType type;
        uint64_t d, matmul;
    } cells[] = {
        {"S4.2-10", A100, ELEMENT_BF16, 64, 2048},  {"S4.2-11", A100, ELEMENT_BF16, 128, 4096},
        {"S4.2-12", A100, ELEMENT_BF16, 256, 8192}, {"S4.2-13", H100, ELEMENT_BF16, 64, 1024},
        {"S4.2-14", H100, ELEMENT_BF16, 128, 2048}, {"S4.2-15", H100, ELEMENT_BF16, 256, 4096},
        {"S4.2-16", H100, ELEMENT_E4M3, 64, 512},   {"S4.2-17", H100, ELEMENT_E4M3, 128, 1024},
        {"S4.2-18", H100, ELEMENT_E4M3, 256, 2048}, {"S4.2-19", B200, ELEMENT_BF16, 64, 512},
        {"S4.2-20", B200, ELEMENT_BF16, 128, 1024}, {"S4.2-21", B200, ELEMENT_BF16, 256, 2048},
        {"S4.2-22", B200, ELEMENT_E4M3, 64, 256},   {"S4.2-23", B200, ELEMENT_E4M3, 128, 512},
        {"S4.2-24", B200, ELEMENT_E4M3, 256, 1024},
    };
    for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++) {
        const Profile *chip = &world->chips[cells[i].chip];
        Account a;
        if (!account(context, chip, newest_instruction(chip), (TileAccount){128, 128, cells[i].d, cells[i].type}, &a, NULL))
            return false;
        claim_holds(report, cells[i].id, a.matmul_cycles == cells[i].matmul && a.exp_cycles == 1024,
                    "%.3g (matmul %" PRIu64 ", exp %" PRIu64 ")", exp_ratio(&a), a.matmul_cycles, a.exp_cycles);
    }
    return true;
}

static bool judge_claims(const Context *context, Report *report, const World *world)
{
    const Profile *a100 = &world->chips[0], *h100 = &world->chips[1], *b200 = &world->chips[2];
    const TileAccount tile = {128, 128, 128, ELEMENT_BF16}, fp8 = {128, 128, 128, ELEMENT_E4M3};
    Account a, h100_fp8, b200_bf16;
    bool same = true;
    if (!account(context, h100, TENSOR_WGMMA, tile, &a, NULL) || !account(context, h100, TENSOR_WGMMA, fp8, &h100_fp8, NULL) ||
        !account(context, b200, TENSOR_TCGEN05, tile, &b200_bf16, NULL) || !add_tiles(context, NULL, h100, &same))
        return false;
    const uint64_t F[] = {profile_tensor_rate(a100, TENSOR_MMA_SYNC), profile_tensor_rate(h100, TENSOR_WGMMA),
                          profile_tensor_rate(b200, TENSOR_TCGEN05)};
    const uint64_t X[] = {a100->mufu_ops_per_cycle_per_sm, h100->mufu_ops_per_cycle_per_sm, b200->mufu_ops_per_cycle_per_sm};
    claim_holds(report, "S4.2-01", tile.d == 128 && tile.M == 128 && tile.N == 128, "d = %" PRIu64 ", %" PRIu64 " x %" PRIu64,
                tile.d, tile.M, tile.N);
    claim_decimals(report, "S4.2-02", 8.4, 1, (double)a.flops / 1e6, " MFLOP");
    claim_count(report, "S4.2-03", 4096, F[1], "");
    claim_count(report, "S4.2-04", 2048, a.matmul_cycles, " cycles");
    claim_count(report, "S4.2-05", 16 * 1024, a.exponentials, "");
    claim_holds(report, "S4.2-06", X[0] == 16 && X[1] == 16 && X[2] == 16, "%" PRIu64 ", %" PRIu64 ", %" PRIu64, X[0], X[1],
                X[2]);
    claim_count(report, "S4.2-07", 1024, a.exp_cycles, " cycles");
    claim_decimals(report, "S4.2-08", 0.5, 1, exp_ratio(&a), "");
    claim_holds(report, "S4.2-09", same, "%s", same ? "0.50 for each of 8 tiles" : "not the same for all tiles");
    claim_decimals(report, "S4.2-25", 3.86, 2, card_exp_rate(h100) / 1e12, " T/s");
    claim_cited(report, "S4.2-26", "%.3f T/s by clock",
                (double)X[1] * (double)h100->sm_count * (double)h100->tensor_clock_hz / 1e12);
    claim_cited(report, "S4.2-27", "%.0f by F * SMs * clock",
                (double)F[1] * (double)h100->sm_count * (double)h100->tensor_clock_hz / 1e12);
    claim_holds(report, "S4.2-28", F[1] == 2 * F[0] && F[2] == 2 * F[1], "%" PRIu64 ", %" PRIu64 ", %" PRIu64, F[0], F[1], F[2]);
    claim_holds(report, "S4.2-29", X[0] == 16 && X[1] == X[0] && X[2] == X[0], "%" PRIu64 ", %" PRIu64 ", %" PRIu64, X[0], X[1],
                X[2]);
    claim_holds(report, "S4.2-30",
                h100_fp8.matmul_cycles == 1024 && h100_fp8.exp_cycles == 1024 && b200_bf16.matmul_cycles == 1024 &&
                    b200_bf16.exp_cycles == 1024,
                "%" PRIu64 " and %" PRIu64, b200_bf16.exp_cycles, b200_bf16.matmul_cycles);
    claim_holds(report, "R-D7-4.2", false, "B300: 32");
    return judge_cells(context, report, world);
}

static bool run(Context *context, Report *report)
{
    World world;
    bool same = true;
    report_param_text(report, "hw", context->hw->name);
    if (!make_world(context, &world) || !add_ratio(context, report, &world) || !add_map(context, report, &world)) return false;
    Table *tiles = report_table(report, &tile_table);
    if (!add_tiles(context, tiles, &world.chips[1], &same)) return false;
    add_cards(report, &world);
    if ((context->options->gantt || context->options->trace != NULL) && !add_timeline(context, report)) return false;
    return judge_claims(context, report, &world);
}

const Experiment experiment_s4_2_exp_cycles = {
    .program =
        {
            .name = "s4_2_exp_cycles",
            .purpose =
                "exponentials against matrix products of a tile, in cycles, for every chip, type and head dim (lecture 4.2)",
            .examples = {"", "--head-dim 72,96 --hw h200 --gantt"},
            .options = options,
            .option_count = sizeof options / sizeof options[0],
        },
    .report =
        {
            .section = "4.2",
            .title_en = "Why to overlap: the cycles of exp",
            .title_zh = "为什么要重叠：exp 的周期账",
            .tables = tables,
            .table_count = sizeof tables / sizeof tables[0],
            .claims = claims,
            .claim_count = sizeof claims / sizeof claims[0],
        },
    .run = run,
};
