/* s3_1_loop_order.c - lecture §3.1: what exchanging the two loops of FlashAttention does to the bytes from HBM.
 *
 * FlashAttention-1 holds K_j, V_j and streams the queries by: Q is read, O read and written Tc = ceil(N/Bc) times.
 * FlashAttention-2 holds Q_i and streams the keys by: K and V are read Tr = ceil(N/Br) times, O is written once.
 *
 *     FA1 = 2Nd + (Nd + 2N) + Tc (3Nd + 4N)        leading term 3Nd Tc, set by Bc alone
 *     FA2 = 2Nd + N + Tr 2Nd                        leading term 2Nd Tr, set by Br alone
 *
 * So neither order moves less as such: for square blocks FA2 wins by 3 to 2 (1.53 with the lower terms), and for a small Br
 * beside a large Bc it loses. The leading terms are equal at Bc = 1.5 Br. Every count is a walk on the profile `unbounded`
 * without L2 (the paper's two-level model), checked against its formula; the last table asks the same with an ideal L2. What
 * this leaves out: time. The gain of the new order is parallelism (§3.3), one query block being one thread block.
 */
#include "support/experiment.h"
#include "support/text.h"

#include "algos/run.h"
#include "sim/checked.h"
#include "sim/math_functions.h"

#include <string.h>

/* ---- counting ---- */

typedef struct {
    uint64_t N, d;
    TileSize tiles;
} Problem;

static uint64_t moved(const Totals *totals) { return totals->hbm_read_elements + totals->hbm_write_elements; }
static uint64_t moved_by_formula(const ClosedForm *form) { return form->hbm_read_elements + form->hbm_write_elements; }

/* Walks one head. The caller frees the run, also after a failure. */
static bool walk(const Context *context, const Profile *machine, const Algorithm *algorithm, Problem p, L2Model l2,
                 AttentionRun *run)
{
    const AttentionShape shape = attention_shape(p.N, p.d);
    const RunSetup setup = {
        .algorithm = algorithm, .profile = machine, .tiles = p.tiles, .config = {.mode = MODE_COUNT, .l2 = l2}};
    if (!attention_run_prepare(run, &setup, &shape, context->alloc, context->status)) return false;
    return attention_run_forward(run);
}

/* Elements that HBM reads and writes, counted and checked against the algorithm's closed form. 0 after a failure. */
static uint64_t count(const Context *context, Report *report, const Profile *machine, const Algorithm *algorithm, Problem p,
                      L2Model l2)
{
    AttentionRun run;
    const bool ok = walk(context, machine, algorithm, p, l2, &run);
    const uint64_t elements = ok ? moved(&run.totals) : 0;
    if (ok) report_check(report, elements, moved_by_formula(&run.closed_form), algorithm->name);
    attention_run_free(&run);
    return elements;
}

/* ---- the declarations ---- */

static const Column order_columns[] = {
    {"N", "", "sequence length"},
    {"d", "", "head dimension"},
    {"Br", "", "query rows per block"},
    {"Bc", "", "keys per block"},
    {"Tr", "", "query blocks, ceil(N/Br)"},
    {"Tc", "", "key blocks, ceil(N/Bc)"},
    {"FA1", "elements", "read and written by the walk of FlashAttention-1"},
    {"FA1 formula", "", "2Nd + (Nd + 2N) + Tc (3Nd + 4N): ok, or the difference"},
    {"FA2", "elements", "read and written by the walk of FlashAttention-2"},
    {"FA2 formula", "", "2Nd + N + Tr 2Nd: ok, or the difference"},
    {"FA1/FA2", "", "above 1: the new order moves less"},
    {"moves more", "", "the algorithm with the larger count"},
};
static const TableSpec order_table = {"order", "The two loop orders without L2 (one head)", order_columns, 12};

static const Column times_columns[] = {
    {"tensor", "", "in HBM"},
    {"FA1 reads", "times", "elements read / elements of the tensor"},
    {"FA1 writes", "times", "elements written / elements of the tensor; line 2 of the listing initialises O, l and m"},
    {"FA2 reads", "times", "elements read / elements of the tensor"},
    {"FA2 writes", "times", "elements written / elements of the tensor"},
};
static const TableSpec times_table = {"times", "How often each tensor is moved", times_columns, 5};

static const Column curve_columns[] = {
    {"Br", "", "query rows per block"},
    {"Bc", "", "keys per block: as many as keep the score tile at 16,384 elements"},
    {"FA1", "elements", "counted"},
    {"FA2", "elements", "counted"},
    {"picture", "", "1: FA1, 2: FA2, X: both; logarithmic"},
};
static const TableSpec curves_table = {
    "curves", "Two curves that cross: one score tile of 16,384 elements, cut in different shapes", curve_columns, 5};

static const Column l2_columns[] = {
    {"Br", "", "query rows per block"},
    {"Bc", "", "keys per block"},
    {"FA1, no L2", "elements", "HBM sees what the SMs ask for"},
    {"FA2, no L2", "elements", "HBM sees what the SMs ask for"},
    {"FA1/FA2", "", "without L2"},
    {"FA1, ideal L2", "elements", "each byte once per launch"},
    {"FA2, ideal L2", "elements", "each byte once per launch"},
    {"FA1/FA2, ideal", "", "with ideal L2"},
    {"formulas, ideal", "", "6Nd + 6N and 4Nd + N: ok, or the difference"},
};
static const TableSpec l2_table = {"l2", "The same with an ideal L2: the block sizes drop out", l2_columns, 9};

static const TableSpec *const tables[] = {&order_table, &times_table, &curves_table, &l2_table};

static const ClaimSpec claims[] = {
    {"3.1-1", "3.1", "N=1024, d=64, Br=Bc=64: FA1 moves this much more than FA2 (also P005)", "1.53", VERDICT_EQUAL,
     "(2Nd + Nd + 2N + Tc(3Nd+4N)) / (2Nd + N + 2Nd Tr), walked", NULL},
    {"3.1-2", "3.1", "Br=64, Bc=256: FA2 moves more (also P006)", "FA2 more", VERDICT_EQUAL, "the same two walks", NULL},
    {"3.1-L2", "3.1", "FA2 relies on L2 to absorb the repeated reads of K and V", "absorbed", VERDICT_EQUAL,
     "with an ideal L2 the walk of FA2 moves 4Nd + N for any Br", NULL},
    {"P007", "3.1", "what is moved again: FA1 Q and O, N/Bc times; FA2 K and V, N/Br times", "N/Bc; N/Br", VERDICT_EQUAL,
     "ledger rows / Nd at Br=64, Bc=256: Q and O of FA1 = Tc, K and V of FA2 = Tr", NULL},
    {"P008", "3.1", "FA2 writes O (and L) once", "1", VERDICT_EQUAL, "ledger rows: O writes Nd, L writes N, neither is read",
     NULL},
    {"P009", "3.1", "FA2's query block", "128", VERDICT_CITED, "the published kernel's table of tiles", NULL},
};

static const ProgramOption options[] = {
    {OPTION_SEQLEN, "1k"}, {OPTION_HEAD_DIM, "64"}, {OPTION_BLOCK_Q, NULL}, {OPTION_BLOCK_K, NULL}};

/* ---- the tables ---- */

static void ratio_cell(Table *table, uint64_t fa1, uint64_t fa2)
{
    if (fa2 > 0) cell_decimals(table, (double)fa1 / (double)fa2, 2);
    else cell_empty(table);
}

static void order_row(const Context *context, const Profile *machine, Table *table, Problem p)
{
    const uint64_t fa1 = count(context, table->report, machine, &algorithm_fa1, p, L2_NONE);
    const uint64_t fa2 = count(context, table->report, machine, &algorithm_fa2, p, L2_NONE);
    table_row(table);
    cell_count(table, p.N);
    cell_count(table, p.d);
    cell_count(table, p.tiles.Br);
    cell_count(table, p.tiles.Bc);
    cell_count(table, ceil_div(p.N, p.tiles.Br));
    cell_count(table, ceil_div(p.N, p.tiles.Bc));
    cell_count(table, fa1);
    cell_check(table, fa1, fa1_elements(p.N, p.d, p.tiles.Bc, context->status), "FA1 elements without L2");
    cell_count(table, fa2);
    cell_check(table, fa2, fa2_elements(p.N, p.d, p.tiles.Br, context->status), "FA2 elements without L2");
    ratio_cell(table, fa1, fa2);
    cell_text(table, fa1 > fa2 ? "FA1" : fa1 < fa2 ? "FA2" : "equal");
}

static const TileSize lecture_tiles[] = {{32, 32}, {64, 64}, {128, 128}, {256, 256}, {64, 256}, {128, 64}};
enum { LECTURE_TILES = sizeof lecture_tiles / sizeof lecture_tiles[0] };

/* The lecture's blocks, or the given ones; a side that is left out is the other side. */
static void add_order(const Context *context, const Profile *machine, Report *report)
{
    const Options *o = context->options;
    const bool given = o->given[OPTION_BLOCK_Q] || o->given[OPTION_BLOCK_K];
    Table *table = report_table(report, &order_table);
    for (size_t i = 0; i < options_point_count(o); i++) {
        const OptionPoint point = options_point(o, i);
        Problem p = {point.seqlen, point.head_dim, {(uint32_t)point.block_q, (uint32_t)point.block_k}};
        if (p.tiles.Br == 0) p.tiles.Br = p.tiles.Bc;
        if (p.tiles.Bc == 0) p.tiles.Bc = p.tiles.Br;
        if (given) order_row(context, machine, table, p);
        for (size_t t = 0; t < LECTURE_TILES && !given; t++) {
            p.tiles = lecture_tiles[t];
            order_row(context, machine, table, p);
        }
    }
    table_note(table, "FA1 depends on Bc alone, FA2 on Br alone%s.", given ? "" : ": compare 256 x 256 with 64 x 256, "
               "128 x 128 with 128 x 64");
}

static uint64_t ledger_reads(const Machine *machine, const char *tensor)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < machine->ledger_count; i++)
        if (strcmp(machine->ledger[i].tensor->name, tensor) == 0) sum += machine->ledger[i].traffic.hbm_read;
    return sum;
}

static uint64_t ledger_writes(const Machine *machine, const char *tensor)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < machine->ledger_count; i++)
        if (strcmp(machine->ledger[i].tensor->name, tensor) == 0) sum += machine->ledger[i].traffic.hbm_write;
    return sum;
}

/* Times, or empty when it is not moved at all. */
static void times_cell(Table *table, uint64_t elements, uint64_t size)
{
    if (elements == 0 || size == 0) cell_empty(table);
    else cell_significant(table, (double)elements / (double)size, 3);
}

static void times_rows(const Context *context, const AttentionRun *fa1, const AttentionRun *fa2, Report *report)
{
    static const char *const names[] = {"Q", "K", "V", "O", "l", "m", "L"};
    const AttentionShape *s = &fa1->attention.shape;
    Table *table = report_table(report, &times_table);
    table_title(table,
                "How often each tensor is moved (N = %" PRIu64 ", d = %" PRIu64 ", Br = %u, Bc = %u: Tr = %" PRIu64
                ", Tc = %" PRIu64 ")",
                s->seqlen_q, s->head_dim, fa1->attention.Br, fa1->attention.Bc, query_blocks(&fa1->attention),
                key_blocks(&fa1->attention));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const bool vector = i >= 4;
        const uint64_t size = vector ? s->seqlen_q : checked_mul(s->seqlen_q, s->head_dim, "Nd", context->status);
        table_row(table);
        cell_text(table, names[i]);
        times_cell(table, ledger_reads(&fa1->machine, names[i]), size);
        times_cell(table, ledger_writes(&fa1->machine, names[i]), size);
        times_cell(table, ledger_reads(&fa2->machine, names[i]), size);
        times_cell(table, ledger_writes(&fa2->machine, names[i]), size);
    }
    table_note(table, "FA1 carries O, l and m through HBM once per key block; FA2 keeps them on chip and pays with K and V.");
}

static void add_times(const Context *context, const Profile *machine, Report *report, Problem p)
{
    AttentionRun fa1, fa2;
    const bool ok1 = walk(context, machine, &algorithm_fa1, p, L2_NONE, &fa1),
               ok2 = walk(context, machine, &algorithm_fa2, p, L2_NONE, &fa2);
    if (ok1 && ok2) times_rows(context, &fa1, &fa2, report);
    attention_run_free(&fa1);
    attention_run_free(&fa2);
}

/* The picture's line: '1' and '2' at the logarithm of the two counts between `low` and `high`. */
static void curve_cell(Table *table, uint64_t fa1, uint64_t fa2, uint64_t low, uint64_t high)
{
    enum { WIDTH = 60 };
    char line[WIDTH + 2];
    memset(line, ' ', sizeof line);
    const double range = log_f64((double)high / (double)low);
    const int at1 = range > 0 ? (int)(WIDTH * log_f64((double)fa1 / (double)low) / range) : 0;
    const int at2 = range > 0 ? (int)(WIDTH * log_f64((double)fa2 / (double)low) / range) : 0;
    line[at1] = '1';
    line[at2] = at1 == at2 ? 'X' : '2';
    line[(at1 > at2 ? at1 : at2) + 1] = '\0';
    cell_text(table, line);
}

static void add_curves(const Context *context, const Profile *machine, Report *report, Problem p)
{
    enum { SCORE_TILE = 16384 };
    static const uint32_t Br[] = {16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024};
    enum { POINTS = sizeof Br / sizeof Br[0] };
    uint64_t fa1[POINTS], fa2[POINTS], low = UINT64_MAX, high = 1;
    if (p.N == 0) return;
    for (size_t i = 0; i < POINTS; i++) {
        p.tiles = (TileSize){Br[i], SCORE_TILE / Br[i]};
        fa1[i] = count(context, report, machine, &algorithm_fa1, p, L2_NONE);
        fa2[i] = count(context, report, machine, &algorithm_fa2, p, L2_NONE);
        low = min_u64(low, min_u64(fa1[i], fa2[i]));
        high = max_u64(high, max_u64(fa1[i], fa2[i]));
    }
    if (!status_ok(context->status)) return;
    Table *table = report_table(report, &curves_table);
    table_title(table, "%s (N = %" PRIu64 ", d = %" PRIu64 ")", curves_table.title, p.N, p.d);
    for (size_t i = 0; i < POINTS; i++) {
        table_row(table);
        cell_count(table, Br[i]);
        cell_count(table, SCORE_TILE / Br[i]);
        cell_count(table, fa1[i]);
        cell_count(table, fa2[i]);
        curve_cell(table, fa1[i], fa2[i], low, high);
    }
    table_note(table, "1: FA1, 2: FA2, X: both; to the right is more, on a logarithmic scale.");
    table_note(table, "3Nd N/Bc and 2Nd N/Br are equal at Bc = 1.5 Br, here Br = 105, Bc = 157: above that line the "
               "old order moves less,");
    table_note(table, "below it the new one does. Real FlashAttention-2 takes Br = 128.");
}

static void add_l2(const Context *context, const Profile *machine, Report *report, Problem p)
{
    Table *table = report_table(report, &l2_table);
    for (size_t t = 0; t < LECTURE_TILES; t++) {
        p.tiles = lecture_tiles[t];
        const uint64_t none1 = count(context, report, machine, &algorithm_fa1, p, L2_NONE);
        const uint64_t none2 = count(context, report, machine, &algorithm_fa2, p, L2_NONE);
        const uint64_t ideal1 = count(context, report, machine, &algorithm_fa1, p, L2_IDEAL);
        const uint64_t ideal2 = count(context, report, machine, &algorithm_fa2, p, L2_IDEAL);
        table_row(table);
        cell_count(table, p.tiles.Br);
        cell_count(table, p.tiles.Bc);
        cell_count(table, none1);
        cell_count(table, none2);
        ratio_cell(table, none1, none2);
        cell_count(table, ideal1);
        cell_count(table, ideal2);
        ratio_cell(table, ideal1, ideal2);
        cell_check(table, ideal1 + ideal2, 10 * p.N * p.d + 7 * p.N, "elements with an ideal L2");
    }
    table_note(table, "Within a launch an ideal L2 lets each byte through once. FA2: Q, K, V, O and L, 4Nd + N. FA1: "
               "a first launch");
    table_note(table, "writes O, l, m, a second reads Q, K, V, O, l, m and writes O, l, m: 6Nd + 6N. No block size "
               "matters any more.");
}

/* ---- the claims, at the lecture's shapes ---- */

static void judge_ledger(Report *report, const AttentionRun *fa1, const AttentionRun *fa2)
{
    const AttentionShape *s = &fa1->attention.shape;
    const uint64_t Nd = s->seqlen_q * s->head_dim, Tc = key_blocks(&fa1->attention), Tr = query_blocks(&fa1->attention);
    const Machine *m1 = &fa1->machine, *m2 = &fa2->machine;
    claim_holds(report, "P007",
                ledger_reads(m1, "Q") == Tc * Nd && ledger_reads(m1, "O") == Tc * Nd && ledger_writes(m1, "O") == (Tc + 1) * Nd &&
                    ledger_reads(m2, "K") == Tr * Nd && ledger_reads(m2, "V") == Tr * Nd && ledger_reads(m2, "Q") == Nd,
                "FA1: Q %" PRIu64 " times (N/Bc = %" PRIu64 "); FA2: K %" PRIu64 " times (N/Br = %" PRIu64 ")",
                ledger_reads(m1, "Q") / Nd, Tc, ledger_reads(m2, "K") / Nd, Tr);
    claim_holds(report, "P008",
                ledger_writes(m2, "O") == Nd && ledger_reads(m2, "O") == 0 && ledger_writes(m2, "L") == s->seqlen_q &&
                    ledger_reads(m2, "L") == 0,
                "O %" PRIu64 " and L %" PRIu64 " elements written, none read", ledger_writes(m2, "O"), ledger_writes(m2, "L"));
}

static bool judge_claims(const Context *context, const Profile *machine, Report *report)
{
    const uint64_t N = 1024, d = 64;
    const Problem square = {N, d, {64, 64}}, wide = {N, d, {64, 256}};
    const double square1 = (double)count(context, report, machine, &algorithm_fa1, square, L2_NONE);
    const double square2 = (double)count(context, report, machine, &algorithm_fa2, square, L2_NONE);
    claim_decimals(report, "3.1-1", 1.53, 2, square1 / square2, "");
    const uint64_t ideal64 = count(context, report, machine, &algorithm_fa2, square, L2_IDEAL);
    const uint64_t ideal128 = count(context, report, machine, &algorithm_fa2, (Problem){N, d, {128, 64}}, L2_IDEAL);
    claim_holds(report, "3.1-L2", ideal64 == 4 * N * d + N && ideal128 == ideal64,
                "%" PRIu64 " elements = 4Nd + N at Br 64 and 128", ideal64);
    const TileSize shipped = algorithm_fa2.tiles(&(AttentionShape){.head_dim = d});
    claim_cited(report, "P009", "ours is %u x %u at d = 64", shipped.Br, shipped.Bc);

    AttentionRun fa1, fa2;
    const bool ok1 = walk(context, machine, &algorithm_fa1, wide, L2_NONE, &fa1),
               ok2 = walk(context, machine, &algorithm_fa2, wide, L2_NONE, &fa2);
    if (ok1 && ok2) {
        const uint64_t wide1 = moved(&fa1.totals), wide2 = moved(&fa2.totals);
        claim_holds(report, "3.1-2", wide2 > wide1, "FA2 moves %.2f times as much: %" PRIu64 " against %" PRIu64,
                    (double)wide2 / (double)wide1, wide2, wide1);
        judge_ledger(report, &fa1, &fa2);
    }
    attention_run_free(&fa1);
    attention_run_free(&fa2);
    return status_ok(context->status);
}

static bool run(Context *context, Report *report)
{
    Profile machine;
    if (!profile_load("unbounded", context->alloc, &machine, context->status)) return false;
    const OptionPoint point = options_point(context->options, 0);
    const Problem first = {point.seqlen, point.head_dim, {64, 256}};
    report_param_text(report, "machine", "unbounded, one head, no L2 unless said");
    add_order(context, &machine, report);
    add_times(context, &machine, report, first);
    add_curves(context, &machine, report, first);
    add_l2(context, &machine, report, first);
    return judge_claims(context, &machine, report);
}

const Experiment experiment_s3_1_loop_order = {
    .program = {
        .name = "s3_1_loop_order",
        .purpose = "what exchanging the two loops does to HBM traffic: FlashAttention-1 against 2 (lecture 3.1)",
        .examples = {"", "--seqlen 4k,16k --head-dim 128 --block-q 64,128,256 --block-k 128"},
        .options = options,
        .option_count = sizeof options / sizeof options[0],
    },
    .report = {
        .section = "3.1",
        .title_en = "Exchanging the loops",
        .title_zh = "换循环顺序",
        .tables = tables,
        .table_count = sizeof tables / sizeof tables[0],
        .claims = claims,
        .claim_count = sizeof claims / sizeof claims[0],
    },
    .run = run,
};
