/* s6_2_gqa_packing.c - lecture §6.2: one query fills one row of 64.
 *
 * A product's tile has a fixed height (WGMMA: 64 rows), and one query of one head is one row of it: 1/64 of the products count.
 * The g query heads that share a K/V head can be rows of one tile, because they meet the same keys:
 *
 *     in use = rows / (M ceil(rows / M)),  rows = queries (unpacked) or queries x g (packed)
 *
 * and K and V are read once per tile instead of once per head: g times fewer bytes at one query. Both come from walks of
 * algos/decode.c: the share from FLOP of live rows over FLOP of whole tiles, the passes from the bytes that the SMs read of K and
 * V over the size of the cache. FlashAttention-2 packs one query (a reshape of Q), FlashAttention-3 any number; then a mask goes
 * by the query, row / g. On silicon the height shows: tensor instructions of an H200's decoding kernels are those of whole tiles,
 * to the instruction. Left out: that rows of no query cost no time here.
 */
#include "support/experiment.h"
#include "support/h200_decode.h"

#include "algos/decode.h"
#include "algos/run.h"

#include <stdio.h>

/* ---- what is walked ---- */

enum { KEYS = 32768, HEAD_DIM = 128, GROUP = 8, WGMMA_ROWS = 64 };

typedef struct {
    uint64_t blocks, stacked; /* of the split kernel, one part; query heads in a tile */
    double rows_percent;      /* FLOP of live rows over FLOP of whole tiles */
    uint64_t key_bytes;       /* that the SMs read of K and V */
    double passes;            /* over the cache */
} Packed;

static AttentionShape packed_shape(uint64_t queries, uint64_t heads, uint64_t kv_heads, uint64_t keys, uint64_t d)
{
    AttentionShape shape = attention_shape(queries, d);
    shape.heads = heads;
    shape.kv_heads = kv_heads;
    shape.seqlen_k = keys;
    return shape;
}

static bool walk_packed(const Context *context, const AttentionShape *shape, uint64_t tile_rows, QueryPacking packing,
                        Packed *packed)
{
    AttentionRun run;
    Profile unbounded;
    if (!profile_load("unbounded", context->alloc, &unbounded, context->status)) return false;
    const RunSetup setup = {.algorithm = &algorithm_decode,
                            .profile = &unbounded,
                            .config = {.mode = MODE_COUNT, .l2 = L2_IDEAL},
                            .tiles = {(uint32_t)tile_rows, algorithm_decode.tiles(shape).Bc}};
    const DecodeOptions options = {.splits = 1, .packing = packing};
    *packed = (Packed){0};
    const bool ok = attention_run_prepare(&run, &setup, shape, context->alloc, context->status) &&
                    attention_run_set_decode(&run, options) && attention_run_forward(&run);
    for (uint32_t i = 0; ok && i < run.machine.ledger_count; i++) {
        const LedgerRow *row = &run.machine.ledger[i];
        if (row->tensor == run.attention.K || row->tensor == run.attention.V)
            packed->key_bytes += row->traffic.l2_to_sm * element_bytes(row->tensor->type);
    }
    const uint64_t cache = decode_cache_bytes(shape->batch, shape->kv_heads, shape->seqlen_k, shape->head_dim,
                                              element_bytes(shape->dtype), context->status);
    if (ok) packed->blocks = run.machine.launches[0].blocks;
    if (ok && cache > 0) {
        packed->stacked = decode_plan(&run.attention, unbounded.sm_count).group;
        packed->passes = (double)packed->key_bytes / (double)cache;
        const double whole = 4.0 * (double)(packed->blocks * tile_rows) * (double)shape->seqlen_k * (double)shape->head_dim;
        packed->rows_percent = whole > 0 ? 100 * (double)run.totals.matmul_flops / whole : 0;
    }
    attention_run_free(&run);
    return ok && status_ok(context->status);
}

/* ---- the declarations ---- */

static const Column use_columns[] = {
    {"queries", "", "per sequence"},
    {"group", "", "query heads on one K/V head"},
    {"unpacked", "%", "rows of the tiles in use, as walked"},
    {"tiles", "", "of one K/V head, unpacked"},
    {"K/V passes", "", "bytes that the SMs read of K and V over the cache, unpacked"},
    {"rows", "", "packed: queries x group"},
    {"packed tiles", "", "of one K/V head"},
    {"packed", "%", "rows of the tiles in use, as walked"},
    {"passes", "", "packed"},
    {"check", "", "both tile counts against ceil(queries / M) group and ceil(queries group / M)"},
};
static const TableSpec use_table = {"utilisation", "Rows of a tile in use, without and with packing", use_columns, 10};

static const Column rule_columns[] = {
    {"queries", "", "per sequence; 8 query heads on one K/V head, tiles of 64 rows"},
    {"never", "%", "rows in use"},
    {"FA2", "%", "packed when there is one query: Q is reshaped, there is no mask to bend"},
    {"FA3", "%", "packed always; the mask goes by row / group"},
    {"never KiB", "KiB", "K and V that the SMs read, 32k keys, d = 128"},
    {"FA2 KiB", "KiB", "the same"},
    {"FA3 KiB", "KiB", "the same"},
};
static const TableSpec rules_table = {"rules", "FlashAttention-2's reshape and FlashAttention-3's packing", rule_columns, 7};

static const TableSpec picture_table = {
    "picture", "One pass over K and V per line: the rows of a tile (digits: query head; .: nobody)", NULL, 0};

static const Column height_columns[] = {
    {"tile rows", "", "height M of a tile"},
    {"of", "", "who uses it"},
    {"g = 1", "%", "rows in use, one query"},
    {"g = 4", "%", "packed"},
    {"g = 8", "%", "packed"},
    {"g = 16", "%", "packed"},
    {"g = 64", "%", "packed"},
};
static const TableSpec heights_table = {"heights", "Rows in use by the height of the tile, one query", height_columns, 7};

static const Column instruction_columns[] = {
    {"kernel", "", "decoding kernel on an H200"},
    {"K/V heads", "", "of 32 query heads; batch 1, d = 128"},
    {"keys", "", "per sequence"},
    {"tile rows", "", "of the kernel"},
    {"tiles", "", "K/V heads x ceil(rows / M), packed"},
    {"whole tiles", "", "4 M N d tiles / 4096: mma.sync instructions of 16 x 8 x 16 for all rows"},
    {"measured", "", "tensor instructions by the hardware's counters"},
    {"check", "", "one against the other"},
    {"useful", "%", "rows in use"},
};
static const TableSpec instructions_table = {"instructions", "Tensor instructions of whole tiles, against an H200",
                                             instruction_columns, 9};

static const ClaimSpec claims[] = {
    {"P065", "6.2", "WGMMA: least rows in M (slide 59)", "64", VERDICT_CITED, "a property of the instruction", NULL},
    {"P066", "6.2", "one query per head: rows of the tile in use", "1/64 = 1.6%", VERDICT_EQUAL,
     "live FLOP over FLOP of whole tiles, as walked", NULL},
    {"P067", "6.2", "packed, 8 query heads on a K/V head, one query", "12.5%", VERDICT_EQUAL, "8/64, as walked", NULL},
    {"P068", "6.2", "packed, 16 queries", "100%", VERDICT_EQUAL, "128/128, as walked", NULL},
    {"P069", "6.2", "packing multiplies the use of the tile by the group (one query, 8 heads)", "8x", VERDICT_EQUAL,
     "12.5 / 1.5625; at 16 queries x4", NULL},
    {"P070", "6.2", "passes over K and V, packed and not (one query, 8 heads)", "1 and 8", VERDICT_EQUAL,
     "bytes of K and V as walked over the cache", NULL},
    {"R-A11-6.2", "6.2", "FlashAttention-2 packs one query, FlashAttention-3 any number", "one; any", VERDICT_EQUAL,
     "stacked heads at 1 and 2 queries", NULL},
    {"R-D11", "6.2", "decoding uses 1/64 of the tile (cuDNN's decoding kernel on an H200)", "1/64", VERDICT_DIFFERS,
     "tensor instructions by the counters over those of one row", "its tiles have 16 rows (mma.sync, not WGMMA): 1/16"},
};

static const TableSpec *const tables[] = {&use_table, &rules_table, &picture_table, &heights_table, &instructions_table};
static const ProgramOption options[] = {{OPTION_HEADS, "8"},      {OPTION_KV_HEADS, "1"},   {OPTION_SEQLEN, "1,2,4,8,16"},
                                        {OPTION_SEQLEN_K, "32k"}, {OPTION_HEAD_DIM, "128"}, {OPTION_BLOCK_Q, "64"}};

/* ---- use ---- */

static bool use_row(const Context *context, Report *report, Table *table, const OptionPoint *point)
{
    const AttentionShape shape = packed_shape(point->seqlen, point->heads, point->kv_heads, point->seqlen_k, point->head_dim);
    const uint64_t group = point->heads / point->kv_heads, rows = point->seqlen * group;
    Packed apart, together;
    if (!walk_packed(context, &shape, point->block_q, PACK_NEVER, &apart) ||
        !walk_packed(context, &shape, point->block_q, PACK_ALWAYS, &together))
        return false;
    table_row(table);
    cell_count(table, point->seqlen);
    cell_count(table, group);
    cell_decimals(table, apart.rows_percent, 1);
    cell_count(table, apart.blocks / point->kv_heads);
    cell_significant(table, apart.passes, 3);
    cell_count(table, rows);
    cell_count(table, together.blocks / point->kv_heads);
    cell_decimals(table, together.rows_percent, 1);
    cell_significant(table, together.passes, 3);
    report_check(report, apart.blocks, point->heads * ceil_div(point->seqlen, point->block_q), "tiles, unpacked");
    cell_check(table, together.blocks, point->kv_heads * ceil_div(rows, point->block_q), "tiles, packed");
    return true;
}

static bool add_use(const Context *context, Report *report)
{
    Table *table = report_table(report, &use_table);
    for (size_t i = 0; i < options_point_count(context->options); i++) {
        const OptionPoint point = options_point(context->options, i);
        if (!use_row(context, report, table, &point)) return false;
    }
    table_note(table, "Passes are what the SMs ask of L2. A pass is one tile's: 16 queries of 8 heads are two tiles of 64 rows "
                      "and two passes (one with 128 rows a block,");
    table_note(table, "FlashAttention-3's), where the lecture says that K and V are read once.");
    return true;
}

static bool add_rules(const Context *context, Report *report)
{
    static const QueryPacking packings[] = {PACK_NEVER, PACK_ONE_QUERY, PACK_ALWAYS};
    Table *table = report_table(report, &rules_table);
    for (uint64_t queries = 1; queries <= 16; queries *= 2) {
        const AttentionShape shape = packed_shape(queries, GROUP, 1, KEYS, HEAD_DIM);
        Packed packed[PACK_RULES];
        for (int i = 0; i < PACK_RULES; i++)
            if (!walk_packed(context, &shape, WGMMA_ROWS, packings[i], &packed[i])) return false;
        table_row(table);
        cell_count(table, queries);
        for (int i = 0; i < PACK_RULES; i++) cell_decimals(table, packed[i].rows_percent, 1);
        for (int i = 0; i < PACK_RULES; i++) cell_count(table, packed[i].key_bytes / 1024);
    }
    return true;
}

/* ---- the picture ---- */

/* The tile that begins at row `first` of `rows`: by rows the heads of a group in turn, or always `head`. */
static void draw_tile(Table *picture, const char *label, uint64_t first, uint64_t rows, uint64_t group, uint64_t head)
{
    char line[WGMMA_ROWS + 1];
    for (uint64_t r = 0; r < WGMMA_ROWS; r++)
        line[r] = first + r < rows ? (char)('0' + (group > 1 ? (first + r) % group : head)) : '.';
    line[WGMMA_ROWS] = '\0';
    picture_line(picture, "%-22s|%s|", label, line);
}

static void add_picture(Report *report)
{
    static const uint64_t queries[] = {1, 4, 16};
    Table *picture = report_table(report, &picture_table);
    char label[32];
    for (uint64_t head = 0; head < GROUP; head++) {
        snprintf(label, sizeof label, "1 query, head %" PRIu64, head);
        draw_tile(picture, label, 0, 1, 1, head);
    }
    for (size_t i = 0; i < sizeof queries / sizeof queries[0]; i++)
        for (uint64_t first = 0; first < queries[i] * GROUP; first += WGMMA_ROWS) {
            snprintf(label, sizeof label, "%" PRIu64 " quer%s, packed", queries[i], queries[i] == 1 ? "y" : "ies");
            draw_tile(picture, label, first, queries[i] * GROUP, GROUP, 0);
        }
    table_note(picture, "8 query heads on one K/V head. Each line costs the same bytes of K and V: eight lines for one query "
                        "unpacked, one packed.");
    table_note(picture, "Packed rows go by query, then head; the mask of a row is that of query row / 8.");
}

/* ---- heights ---- */

static bool add_heights(const Context *context, Report *report)
{
    static const struct {
        uint64_t rows;
        const char *who;
    } heights[] = {{16, "mma.sync; cuDNN's decoding kernel"},
                   {64, "WGMMA; FlashAttention-2's split kernel"},
                   {128, "tcgen05; FlashAttention-3 with two consumers"}};
    static const uint64_t groups[] = {1, 4, 8, 16, 64};
    Table *table = report_table(report, &heights_table);
    for (size_t h = 0; h < sizeof heights / sizeof heights[0]; h++) {
        table_row(table);
        cell_count(table, heights[h].rows);
        cell_text(table, heights[h].who);
        for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
            const AttentionShape shape = packed_shape(1, groups[g], 1, 1024, HEAD_DIM);
            Packed packed;
            if (!walk_packed(context, &shape, heights[h].rows, PACK_ALWAYS, &packed)) return false;
            cell_decimals(table, packed.rows_percent, 1);
        }
    }
    return true;
}

/* ---- silicon ---- */

/* One mma.sync instruction of BF16: m16n8k16. */
enum { INSTRUCTION_FLOP = 2 * 16 * 8 * 16, FA2_ROWS = 64, CUDNN_ROWS = 16, MEASURED_HEADS = 32 };

static void instruction_row(Table *table, const char *kernel, const H200TensorInstructions *row, uint64_t tile_rows,
                            uint64_t measured)
{
    const uint64_t rows = MEASURED_HEADS / row->kv_heads, tiles = row->kv_heads * ceil_div(rows, tile_rows);
    table_row(table);
    cell_text(table, kernel);
    cell_count(table, row->kv_heads);
    cell_count(table, row->keys);
    cell_count(table, tile_rows);
    cell_count(table, tiles);
    const uint64_t whole = 4 * tile_rows * row->keys * HEAD_DIM * tiles / INSTRUCTION_FLOP;
    cell_count(table, whole);
    cell_count(table, measured);
    cell_check(table, measured, whole, "tensor instructions");
    cell_decimals(table, 100 * (double)rows / (double)(tile_rows * ceil_div(rows, tile_rows)), 2);
}

static void add_instructions(Report *report)
{
    Table *table = report_table(report, &instructions_table);
    for (size_t i = 0; i < sizeof h200_tensor_instructions / sizeof h200_tensor_instructions[0]; i++) {
        const H200TensorInstructions *row = &h200_tensor_instructions[i];
        instruction_row(table, "FlashAttention-2, split", row, FA2_ROWS, row->flash);
        instruction_row(table, "cuDNN", row, CUDNN_ROWS, row->cudnn);
    }
    table_note(table, "Rows of no query are computed like any other. These kernels do not notice, they wait for HBM: what "
                      "packing saves them is bytes. FlashAttention-2's");
    table_note(table, "training kernel with 128 rows, which it takes for large batches, does (s6_1_flash_decoding, \"tiles\").");
}

/* ---- the claims, at the lecture's shape ---- */

static bool judge_claims(const Context *context, Report *report)
{
    const AttentionShape one = packed_shape(1, GROUP, 1, KEYS, HEAD_DIM), two = packed_shape(2, GROUP, 1, KEYS, HEAD_DIM),
                         sixteen = packed_shape(16, GROUP, 1, KEYS, HEAD_DIM);
    Packed apart, together, full, fa2_one, fa2_two, fa3_two;
    if (!walk_packed(context, &one, WGMMA_ROWS, PACK_NEVER, &apart) ||
        !walk_packed(context, &one, WGMMA_ROWS, PACK_ALWAYS, &together) ||
        !walk_packed(context, &sixteen, WGMMA_ROWS, PACK_ALWAYS, &full) ||
        !walk_packed(context, &one, WGMMA_ROWS, PACK_ONE_QUERY, &fa2_one) ||
        !walk_packed(context, &two, WGMMA_ROWS, PACK_ONE_QUERY, &fa2_two) ||
        !walk_packed(context, &two, WGMMA_ROWS, PACK_ALWAYS, &fa3_two))
        return false;
    claim_cited(report, "P065", "%d", WGMMA_ROWS);
    claim_decimals(report, "P066", 1.6, 1, apart.rows_percent, "%");
    claim_decimals(report, "P067", 12.5, 1, together.rows_percent, "%");
    claim_decimals(report, "P068", 100, 0, full.rows_percent, "%");
    claim_decimals(report, "P069", 8, 0, together.rows_percent / apart.rows_percent, "x");
    claim_holds(report, "P070", together.passes == 1 && apart.passes == 8, "%.0f and %.0f", together.passes, apart.passes);
    claim_holds(report, "R-A11-6.2", fa2_one.stacked == GROUP && fa2_two.stacked == 1 && fa3_two.stacked == GROUP,
                "FA2 %" PRIu64 ", then %" PRIu64 " heads in a tile; FA3 %" PRIu64, fa2_one.stacked, fa2_two.stacked,
                fa3_two.stacked);
    const H200TensorInstructions *mha = &h200_tensor_instructions[0];
    const uint64_t one_row = 4 * mha->keys * HEAD_DIM * mha->kv_heads; /* FLOP of one row per head */
    const uint64_t rows = mha->cudnn * INSTRUCTION_FLOP / one_row;
    claim_holds(report, "R-D11", rows == WGMMA_ROWS, "1/%" PRIu64, rows);
    return status_ok(context->status);
}

static bool run(Context *context, Report *report)
{
    if (!add_use(context, report) || !add_rules(context, report)) return false;
    add_picture(report);
    if (!add_heights(context, report)) return false;
    add_instructions(report);
    return judge_claims(context, report);
}

const Experiment experiment_s6_2_gqa_packing = {
    .program =
        {
            .name = "s6_2_gqa_packing",
            .purpose = "query heads of one K/V head as rows of one tile (lecture 6.2)",
            .examples = {"", "--heads 64 --kv-heads 8 --seqlen 1,3,5 --block-q 16"},
            .options = options,
            .option_count = sizeof options / sizeof options[0],
        },
    .report =
        {
            .section = "6.2",
            .title_en = "GQA packing",
            .title_zh = "GQA 打包",
            .tables = tables,
            .table_count = sizeof tables / sizeof tables[0],
            .claims = claims,
            .claim_count = sizeof claims / sizeof claims[0],
        },
    .run = run,
};
