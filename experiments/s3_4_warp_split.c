/* s3_4_warp_split.c - lecture §3.4: how the warps of a thread block share a tile of scores.
 *
 *     split-K   each of W warps takes 1/W of the keys of a K/V tile for all Br rows: W partial results (m, l, o) per tile, which
 *               go through shared memory, are synchronised and merged
 *     split-Q   each warp takes 1/W of the rows and all keys: its result is final, nothing is exchanged
 *
 * Both are kernels in which every warp is a stream with tiles of its own (algos/warp_split.c), run on real data and counted. What
 * threads write to and read from shared memory is the exchange; what tensor-core instructions read from it are the operands:
 *
 *     exchange, one K/V tile   2 W Br (d + 2) 4 bytes          0
 *     operands, one K/V tile   (W Br + 2 Bc) d e               (Br + 2 W Bc) d e        e bytes an element
 *
 * So split-Q is not free: every warp reads all of K and V. It wins where tiles have as many rows as keys, as FlashAttention-2's
 * have; FlashAttention-1 came with 16 rows and 256 keys, where split-K was right, and split-Q impossible: a warp's instruction
 * needs 16 rows. Left out: bank conflicts, the barriers that copies for several warps need in both splits, and time beyond
 * bytes / 128 per cycle.
 */
#include "support/experiment.h"
#include "support/text.h"

#include "algos/closed_forms_warps.h"
#include "algos/oracle.h"
#include "algos/run.h"
#include "algos/warp_split.h"

#include "sim/checked.h"

#include <math.h>
#include <string.h>

/* ---- counting ---- */

typedef struct {
    uint64_t N, d;
    TileSize tiles;
    uint64_t warps;
    ElementType dtype;
} Problem;

enum { SPLITS = 2 };
static const char *const split_names[SPLITS] = {[WARPS_SPLIT_KEYS] = "split-K", [WARPS_SPLIT_QUERIES] = "split-Q"};

/* One query block against all N keys. `walked` is false when the formulas stand alone. */
typedef struct {
    Problem problem;
    uint64_t key_blocks;
    WarpSplitForm counted, formula;
    bool walked;
} Work;

static AttentionShape one_query_block(const Problem *p)
{
    AttentionShape shape = attention_shape(p->N, p->d);
    shape.seqlen_q = min_u64(p->N, p->tiles.Br);
    shape.dtype = p->dtype;
    return shape;
}

static bool formula_of(const Problem *p, WarpSplit split, WarpSplitForm *form, Status *status)
{
    const AttentionShape shape = one_query_block(p);
    const CountedProblem counted = {.batch = 1,
                                    .heads = 1,
                                    .kv_heads = 1,
                                    .Nq = shape.seqlen_q,
                                    .Nk = p->N,
                                    .d = p->d,
                                    .Br = p->tiles.Br,
                                    .Bc = p->tiles.Bc,
                                    .element_bytes = element_bytes(p->dtype),
                                    .statistic_bytes = p->dtype == ELEMENT_F64 ? 8 : 4};
    return (split == WARPS_SPLIT_KEYS ? closed_form_split_keys : closed_form_split_queries)(&counted, p->warps, form, status);
}

/* Every barrier is met by all warps and by the merge, as arrivals and waits. */
static WarpSplitForm read_counts(const Machine *machine, const Totals *totals, uint64_t warps)
{
    const Counts *counts = &machine->launches[0].counts;
    return (WarpSplitForm){.exchange_bytes = totals->smem_thread_bytes,
                           .operand_bytes = totals->smem_operand_bytes,
                           .barriers = (counts->elements[OP_ARRIVE] + counts->elements[OP_SYNC]) / (warps + 1),
                           .nonmatmul_ops = totals->nonmatmul_ops,
                           .register_bytes = totals->register_peak_bytes};
}

static bool walk(const Context *context, const Profile *profile, const Problem *p, WarpSplit split, WarpSplitForm *counted)
{
    const AttentionShape shape = one_query_block(p);
    Machine machine;
    Attention attention;
    Totals totals;
    machine_init(&machine, profile, (MachineConfig){.mode = MODE_COUNT}, context->alloc, context->status);
    const bool ok = attention_init(&attention, &machine, &shape, p->tiles.Br, p->tiles.Bc) &&
                    warp_split_forward(&machine, &attention, split, (uint32_t)p->warps) && machine_totals(&machine, &totals);
    if (ok) *counted = read_counts(&machine, &totals, p->warps);
    machine_free(&machine);
    return ok;
}

/* Counts where the machine has room for the warps, else the formula. All zero after a failure. */
static Work work_of(const Context *context, Report *report, const Profile *profile, Problem p, WarpSplit split)
{
    Work work = {.problem = p, .key_blocks = ceil_div(p.N, p.tiles.Bc), .walked = p.warps <= MOST_SPLIT_WARPS};
    if (!formula_of(&p, split, &work.formula, context->status)) return (Work){0};
    work.counted = work.formula;
    if (!work.walked || p.N == 0) return work;
    if (!walk(context, profile, &p, split, &work.counted)) return (Work){0};
    const WarpSplitForm *counted = &work.counted, *formula = &work.formula;
    report_check(report, counted->exchange_bytes, formula->exchange_bytes, "exchange of a split");
    report_check(report, counted->operand_bytes, formula->operand_bytes, "operand reads of a split");
    report_check(report, counted->barriers, formula->barriers, "barriers of a split");
    report_check(report, counted->nonmatmul_ops, formula->nonmatmul_ops, "non-matmul operations of a split");
    report_check(report, counted->register_bytes, formula->register_bytes, "registers of a split");
    return work;
}

static uint64_t shared_bytes(const Work *work) { return work->counted.exchange_bytes + work->counted.operand_bytes; }

static uint64_t per_tile(uint64_t x, const Work *work) { return work->key_blocks > 0 ? x / work->key_blocks : 0; }

/* 32-bit registers a thread for the tiles alone. */
static uint64_t registers_per_thread(const Work *work)
{
    return work->problem.warps > 0 ? ceil_div(work->counted.register_bytes, 4 * 32 * work->problem.warps) : 0;
}

/* ---- the declarations ---- */

static const TableSpec picture_table = {"picture", "Which warp computes which scores of a tile", NULL, 0};

static const Column split_columns[] = {
    {"d", "", "head dimension"},
    {"split", "", "of a tile of scores among the warps"},
    {"each warp", "", "its part"},
    {"partial results", "", "per K/V tile"},
    {"exchanged", "bytes", "written to and read from shared memory by threads, one query block"},
    {"exchange formula", "", "2 W Br (d + 2) 4 Tc, or 0: ok, or the difference"},
    {"barriers", "", "for the exchange, one query block"},
    {"operands", "bytes", "read from shared memory by tensor-core instructions, one query block"},
    {"operand formula", "", "((W Br + 2 Bc) or (Br + 2 W Bc)) d e Tc: ok, or the difference"},
    {"both", "bytes", "exchanged + operands"},
    {"non-matmul", "ops", "price list of 3.2; merging is part of it"},
};
static const TableSpec splits_table = {"splits", "The two splits, one query block", split_columns, 11};

static const Column error_columns[] = {
    {"dtype", "", "of all arithmetic"},
    {"samples", "", "independent heads of random data, --batch"},
    {"apart, least", "", "max |O_K - O_Q|, smallest over the samples"},
    {"apart, largest", "", "max |O_K - O_Q|, largest over the samples"},
    {"split-K error", "", "max |O_K - oracle|, largest over the samples"},
    {"split-Q error", "", "max |O_Q - oracle|, largest over the samples"},
    {"split-Q = fa2", "", "whether split-Q gives the bits of the program's FlashAttention-2"},
};
static const TableSpec errors_table = {"errors", "Both are the same attention", error_columns, 7};

static const Column cycle_columns[] = {
    {"chip", "", "profile"},
    {"split", "", "of a tile among the warps"},
    {"exchange", "cycles", "bytes / what shared memory gives per cycle"},
    {"operands", "cycles", "bytes / what shared memory gives per cycle"},
    {"shared memory", "cycles", "both"},
    {"tensor cores", "cycles", "4 Br Bc d FLOP by mma.sync"},
    {"longer", "", "the unit that one K/V tile keeps busy longer"},
    {"picture", "", "x: exchange, r: operand reads, |: end of the tensor cores; 48 cycles a character"},
};
static const TableSpec cycles_table = {"cycles", "Cycles of one K/V tile on one SM", cycle_columns, 8};

static const Column warp_columns[] = {
    {"warps", "", "W"},
    {"exchanged, K", "bytes", "split-K"},
    {"operands, K", "bytes", "split-K: Q once per warp"},
    {"operands, Q", "bytes", "split-Q: K and V once per warp"},
    {"K/Q", "", "all shared memory of split-K over that of split-Q"},
    {"by", "", "walk, or formula where the machine has no room for so many warps"},
};
static const TableSpec warps_table = {"warps", "More warps cost both splits (one K/V tile)", warp_columns, 6};

static const Column shape_columns[] = {
    {"Br", "", "query rows per block"},
    {"Bc", "", "keys per block"},
    {"d", "", "head dimension"},
    {"exchanged, K", "bytes", "split-K"},
    {"operands, K", "bytes", "split-K"},
    {"operands, Q", "bytes", "split-Q"},
    {"K/Q", "", "all shared memory of split-K over that of split-Q"},
    {"registers, K", "per thread", "split-K, tiles alone; a thread can have 255"},
    {"registers, Q", "per thread", "split-Q, tiles alone; a thread can have 255"},
    {"rows a warp, Q", "", "split-Q; one mma.sync needs 16"},
    {"possible", "", "which splits a kernel can have"},
    {"tile of", "", "a real kernel, or -"},
};
static const TableSpec shapes_table = {"shapes", "The split follows the shape of the tile (one K/V tile, 4 warps, BF16)",
                                       shape_columns, 12};

static const Column reading_columns[] = {
    {"Br", "", "query rows per block"},
    {"Bc", "", "keys per block"},
    {"N", "", "keys"},
    {"d", "", "head dimension"},
    {"o", "bytes", "one element of o"},
    {"m, l", "bytes", "each"},
    {"moves", "", "how often each partial result crosses shared memory"},
    {"exchanges", "", "per query block"},
    {"bytes", "bytes", "moves x 4 warps x Br (d o + 2 m) x exchanges"},
    {"reading", "", "what it would mean"},
};
static const TableSpec readings_table = {"readings", "Readings of the lecture's 540,672 bytes", reading_columns, 10};

static const Column silicon_columns[] = {
    {"N", "", "sequence length"},
    {"d", "", "head dimension"},
    {"tile", "", "Br x Bc of the kernel"},
    {"split-Q", "wavefronts", "counted operand bytes / 128, 16 heads"},
    {"H200", "wavefronts", "128-byte shared-memory cycles of the launch"},
    {"H200/split-Q", "", "1: the account is what the chip does"},
    {"split-K", "wavefronts", "what it would take: operands and exchange"},
    {"split-K/H200", "", "against the chip's"},
};
static const TableSpec silicon_table = {"silicon", "Shared memory of FlashAttention-2 on one H200", silicon_columns, 8};

static const TableSpec *const tables[] = {&picture_table, &splits_table, &errors_table,   &cycles_table,
                                          &warps_table,   &shapes_table, &readings_table, &silicon_table};

#define LECTURE_SHAPE "W=4, N=256, d=64, Br=Bc=128"

static const ClaimSpec claims[] = {
    {"P030", "3.4", "warps of a thread block", "4", VERDICT_CITED, "quoted; ours: FlashAttention-2's tiles at d = 64", NULL},
    {"P031", "3.4", "split-K: share of the keys per warp; partial results", "1/4; 4", VERDICT_EQUAL,
     "keys of a warp's tile / Bc; bytes exchanged / bytes of one (m, l, o)", NULL},
    {"P032", "3.4", "split-Q: share of the query rows per warp", "1/4", VERDICT_EQUAL,
     "reads of Q and of K, V: each row of Q by one warp, each key by all", NULL},
    {"P033", "3.4", "split-K: bytes through shared memory per query block, " LECTURE_SHAPE, "540,672", VERDICT_EQUAL,
     "walk; the text gives no shape: d and W are sure, N, Br and float32 are one reading (table readings)", NULL},
    {"P034", "3.4", "split-Q: bytes exchanged per query block", "0", VERDICT_EQUAL, "walk", NULL},
    {"3.4-sync", "3.4", "split-K needs barriers on top, split-Q none for an exchange", "barriers; 0", VERDICT_EQUAL,
     "walk: two per K/V tile, after writing and after reading", NULL},
    {"P035", "3.4", "split-K and split-Q agree but for rounding, float64, " LECTURE_SHAPE, "rounding", VERDICT_CLOSE,
     "median of 4 samples; band: our spread over 256 (--batch 64, --seed 1 to 4)", NULL},
    {"P035-f32", "3.4", "the same in float32", "rounding", VERDICT_CLOSE,
     "median of 4 samples; band: our spread over 256 (--batch 64, --seed 1 to 4)", NULL},
};

enum { MAX_SAMPLES = 64, LECTURE_SAMPLES = 4, LECTURE_SEED = 1, LECTURE_WARPS = 4 };
static const Problem lecture_problem = {256, 64, {128, 128}, LECTURE_WARPS, ELEMENT_BF16};

static const ProgramOption options[] = {{OPTION_BATCH, "4"},     {OPTION_SEQLEN, "256"},  {OPTION_HEAD_DIM, "64"},
                                        {OPTION_BLOCK_Q, "128"}, {OPTION_BLOCK_K, "128"}, {OPTION_DTYPE, "bf16"}};

static Problem problem_of(const Context *context, size_t index)
{
    const OptionPoint point = options_point(context->options, index);
    return (Problem){
        point.seqlen, point.head_dim, {(uint32_t)point.block_q, (uint32_t)point.block_k}, LECTURE_WARPS, context->options->dtype};
}

/* Before anything is walked: all warps get the same part. */
static bool can_be_split(const Context *context)
{
    for (size_t i = 0; i < options_point_count(context->options); i++) {
        const Problem p = problem_of(context, i);
        const OptionId option = p.tiles.Br % p.warps != 0 ? OPTION_BLOCK_Q : OPTION_BLOCK_K;
        const uint32_t side = option == OPTION_BLOCK_Q ? p.tiles.Br : p.tiles.Bc;
        if (side % p.warps != 0)
            return status_fail(context->status, STATUS_USAGE,
                               "%s: %u cannot be split among %" PRIu64 " warps; expected a multiple of %" PRIu64,
                               option_name(option), side, p.warps, p.warps);
    }
    return true;
}

/* ---- the picture ---- */

static void add_picture(Report *report)
{
    enum { ROWS = 8, COLS = 24 };
    Table *picture = report_table(report, &picture_table);
    picture_line(picture, "   split-K: keys ->             split-Q: keys ->");
    for (int r = 0; r < ROWS; r++) {
        char keys[COLS + 1], queries[COLS + 1];
        for (int c = 0; c < COLS; c++) {
            keys[c] = (char)('0' + c * LECTURE_WARPS / COLS);
            queries[c] = (char)('0' + r * LECTURE_WARPS / ROWS);
        }
        keys[COLS] = queries[COLS] = '\0';
        picture_line(picture, " %c %s   %c %s", r == 0 ? 'Q' : ' ', keys, r == 0 ? 'Q' : ' ', queries);
    }
    table_note(picture, "In split-K a row's softmax is spread over all warps: four maxima, four sums, four outputs to merge.");
}

/* ---- the table of the lecture ---- */

static void split_row(Table *table, WarpSplit split, const Work *work)
{
    const bool keys = split == WARPS_SPLIT_KEYS;
    const uint64_t warps = work->problem.warps;
    table_row(table);
    cell_count(table, work->problem.d);
    cell_text(table, split_names[split]);
    cell_textf(table, keys ? "all rows, 1/%" PRIu64 " of the keys" : "1/%" PRIu64 " of the rows, all keys", warps);
    cell_count(table, keys ? warps : 0);
    cell_count(table, work->counted.exchange_bytes);
    cell_check(table, work->counted.exchange_bytes, work->formula.exchange_bytes, "bytes exchanged");
    cell_count(table, work->counted.barriers);
    cell_count(table, work->counted.operand_bytes);
    cell_check(table, work->counted.operand_bytes, work->formula.operand_bytes, "operand bytes");
    cell_count(table, shared_bytes(work));
    cell_count(table, work->counted.nonmatmul_ops);
}

static void add_splits(const Context *context, const Profile *profile, Report *report)
{
    Table *table = report_table(report, &splits_table);
    for (size_t i = 0; i < options_point_count(context->options); i++)
        for (int split = 0; split < SPLITS; split++) {
            const Problem p = problem_of(context, i);
            const Work work = work_of(context, report, profile, p, (WarpSplit)split);
            split_row(table, (WarpSplit)split, &work);
        }
    const Problem p = problem_of(context, 0);
    if (options_point_count(context->options) == 1)
        table_title(table, "The two splits, one query block (N = %" PRIu64 ", Br = %u, Bc = %u, %" PRIu64 " warps)", p.N,
                    p.tiles.Br, p.tiles.Bc, p.warps);
    table_note(table, "Exchanged: m, l and o of every warp in float32, written once and read once at every K/V tile.");
    table_note(table,
               "Operands: split-K reads Q once per warp, split-Q reads K and V once per warp: it pays less than it saves.");
    table_note(table, "Merging costs 3d + 8 operations per row and partial result, split-Q's rescaling 2d + 4 per row and tile.");
    table_note(table,
               "A barrier after a copy that fills a tile for several warps is needed in both splits and not counted here.");
}

/* ---- results ---- */

/* Of one precision: the samples' largest differences, sorted. */
typedef struct {
    uint64_t samples;
    double apart[MAX_SAMPLES], keys[MAX_SAMPLES], queries[MAX_SAMPLES];
    bool same_bits;
} Differences;

typedef struct {
    Machine machine;
    Attention attention;
} Ran;

static AttentionShape sample_shape(const Problem *p, uint64_t samples)
{
    AttentionShape shape = attention_shape(p->N, p->d);
    shape.batch = samples;
    shape.dtype = p->dtype;
    return shape;
}

static bool run_split(const Context *context, const Profile *profile, const Problem *p, uint64_t samples, uint64_t seed,
                      WarpSplit split, Ran *ran)
{
    const AttentionShape shape = sample_shape(p, samples);
    const MachineConfig config = {.mode = MODE_NUMERIC, .precision = p->dtype == ELEMENT_F64 ? PRECISION_F64 : PRECISION_F32};
    machine_init(&ran->machine, profile, config, context->alloc, context->status);
    if (!attention_init(&ran->attention, &ran->machine, &shape, p->tiles.Br, p->tiles.Bc)) return false;
    attention_random_inputs(&ran->attention, &ran->machine, seed);
    return warp_split_forward(&ran->machine, &ran->attention, split, (uint32_t)p->warps);
}

static double output(const Ran *ran, uint64_t i) { return tensor_value(&ran->machine, ran->attention.O, i); }

/* NaN counts as infinitely far. */
static double further(double worst, double a, double b)
{
    return fabs(a - b) <= worst ? worst : isnan(a - b) ? INFINITY : fabs(a - b);
}

static void compare(const Ran *keys, const Ran *queries, const double *oracle, Differences *x)
{
    const uint64_t each = tensor_elements(keys->attention.O) / x->samples;
    for (uint64_t s = 0; s < x->samples; s++) {
        x->apart[s] = x->keys[s] = x->queries[s] = 0.0;
        for (uint64_t i = s * each; i < (s + 1) * each; i++) {
            const double k = output(keys, i), q = output(queries, i);
            x->apart[s] = further(x->apart[s], k, q);
            x->keys[s] = further(x->keys[s], k, oracle[i]);
            x->queries[s] = further(x->queries[s], q, oracle[i]);
        }
    }
}

/* The program's FlashAttention-2 on the same data. */
static bool same_as_fa2(const Context *context, const Profile *profile, const Problem *p, uint64_t seed, const Ran *queries,
                        bool *same)
{
    const AttentionShape *shape = &queries->attention.shape;
    const RunSetup setup = {
        .algorithm = &algorithm_fa2, .profile = profile, .tiles = p->tiles, .config = queries->machine.config};
    AttentionRun fa2;
    bool ok = attention_run_prepare(&fa2, &setup, shape, context->alloc, context->status);
    if (ok) attention_random_inputs(&fa2.attention, &fa2.machine, seed);
    ok = ok && attention_run_forward(&fa2);
    *same = ok;
    for (uint64_t i = 0; ok && i < tensor_elements(fa2.attention.O); i++)
        *same = *same && tensor_value(&fa2.machine, fa2.attention.O, i) == output(queries, i);
    attention_run_free(&fa2);
    return ok;
}

static void sort(double *x, uint64_t count)
{
    for (uint64_t i = 1; i < count; i++)
        for (uint64_t j = i; j > 0 && x[j] < x[j - 1]; j--) {
            const double swap = x[j];
            x[j] = x[j - 1];
            x[j - 1] = swap;
        }
}

static bool measure(const Context *context, const Profile *profile, const Problem *p, uint64_t samples, uint64_t seed,
                    Differences *x)
{
    Ran keys = {0}, queries = {0};
    *x = (Differences){.samples = samples};
    double *oracle = alloc_array(context->alloc, checked_mul(samples * p->N, p->d, "samples x N x d", context->status),
                                 sizeof *oracle, "the oracle's O", context->status);
    const bool ok = oracle != NULL && run_split(context, profile, p, samples, seed, WARPS_SPLIT_KEYS, &keys) &&
                    run_split(context, profile, p, samples, seed, WARPS_SPLIT_QUERIES, &queries) &&
                    oracle_forward(&queries.attention, &queries.machine, oracle, NULL) &&
                    same_as_fa2(context, profile, p, seed, &queries, &x->same_bits);
    if (ok) compare(&keys, &queries, oracle, x);
    if (keys.machine.alloc != NULL) machine_free(&keys.machine);
    if (queries.machine.alloc != NULL) machine_free(&queries.machine);
    alloc_free(context->alloc, oracle);
    sort(x->apart, samples);
    sort(x->keys, samples);
    sort(x->queries, samples);
    return ok;
}

static void error_row(Table *table, const char *dtype, const Differences *x)
{
    table_row(table);
    cell_text(table, dtype);
    cell_count(table, x->samples);
    cell_significant(table, x->apart[0], 2);
    cell_significant(table, x->apart[x->samples - 1], 2);
    cell_significant(table, x->keys[x->samples - 1], 2);
    cell_significant(table, x->queries[x->samples - 1], 2);
    cell_text(table, x->same_bits ? "bit for bit" : "no");
}

static bool short_enough(const Problem *p, uint64_t samples, Status *status)
{
    const uint64_t most = UINT64_C(1) << 31; /* half a minute */
    if (samples < 1 || samples > MAX_SAMPLES)
        return status_fail(status, STATUS_USAGE, "--batch: %" PRIu64 " samples are not allowed; expected 1 to %d", samples,
                           MAX_SAMPLES);
    const uint64_t scores = checked_mul(checked_mul(p->N, p->N, "N x N", status), samples, "N x N x samples", status);
    const uint64_t steps = checked_mul(scores, max_u64(p->d, 16), "N x N x samples x d", status);
    if (status_ok(status) && steps > most)
        return status_fail(status, STATUS_INFEASIBLE,
                           "the computation is too long: N x N x samples x d = %" PRIu64 ", at most %" PRIu64, steps, most);
    return status_ok(status);
}

static const ElementType precisions[] = {ELEMENT_F64, ELEMENT_F32};
static const char *const precision_names[] = {"f64", "f32"};
enum { PRECISIONS = 2 };

/* By precision, at the lecture's shape. */
static bool measure_lecture(const Context *context, const Profile *profile, Differences lecture[PRECISIONS])
{
    for (int i = 0; i < PRECISIONS; i++) {
        Problem p = lecture_problem;
        p.dtype = precisions[i];
        if (!measure(context, profile, &p, LECTURE_SAMPLES, LECTURE_SEED, &lecture[i])) return false;
    }
    return true;
}

static bool is_lecture(const Problem *p, uint64_t samples, uint64_t seed)
{
    const Problem *l = &lecture_problem;
    return p->N == l->N && p->d == l->d && p->tiles.Br == l->tiles.Br && p->tiles.Bc == l->tiles.Bc && samples == LECTURE_SAMPLES &&
           seed == LECTURE_SEED;
}

static bool add_errors(const Context *context, const Profile *profile, const Differences lecture[PRECISIONS], Report *report)
{
    const uint64_t samples = options_point(context->options, 0).batch, seed = context->options->seed;
    Table *table = report_table(report, &errors_table);
    for (int i = 0; i < PRECISIONS; i++) {
        Problem p = problem_of(context, 0);
        Differences x = lecture[i];
        p.dtype = precisions[i];
        if (!short_enough(&p, samples, context->status)) return false;
        if (!is_lecture(&p, samples, seed) && !measure(context, profile, &p, samples, seed, &x)) return false;
        error_row(table, precision_names[i], &x);
        if (!x.same_bits) report_mismatch(report, "split-Q and FlashAttention-2 differ in %s", precision_names[i]);
    }
    table_note(table, "The same numbers added in another order: they differ in the last digits, and by as much from the definition.");
    table_note(table, "How much depends on the data (--seed, --batch 64), so the claims below hold a band, not a number.");
    return true;
}

/* ---- cycles ---- */

enum { CHIPS = 4, MOST_CHIPS = CHIPS + 1 };
static const char *const chip_names[CHIPS] = {"a100", "h100", "h200", "b200"};

static uint64_t tensor_cycles(const Profile *chip, const Problem *p)
{
    return ceil_div(4 * (uint64_t)p->tiles.Br * p->tiles.Bc * p->d, chip->mma_sync_bf16_flops_per_cycle_per_sm);
}

static void cycle_picture(Table *table, uint64_t exchange, uint64_t operands, uint64_t tensor)
{
    enum { STEP = 48, WIDTH = 96 };
    char line[WIDTH + 2];
    const size_t end = (size_t)min_u64((exchange + operands + STEP / 2) / STEP, WIDTH),
                 mark = (size_t)min_u64((tensor + STEP / 2) / STEP, WIDTH);
    const size_t middle = (size_t)min_u64((exchange + STEP / 2) / STEP, end);
    memset(line, ' ', sizeof line);
    memset(line, 'x', middle);
    memset(line + middle, 'r', end - middle);
    line[mark] = '|';
    line[mark + 1 > end ? mark + 1 : end] = '\0';
    cell_text(table, line);
}

static void cycle_row(Table *table, const Profile *chip, WarpSplit split, const Work *work)
{
    const uint64_t exchange = ceil_div(per_tile(work->counted.exchange_bytes, work), chip->smem_bytes_per_cycle_per_sm);
    const uint64_t operands = ceil_div(per_tile(work->counted.operand_bytes, work), chip->smem_bytes_per_cycle_per_sm);
    const uint64_t tensor = tensor_cycles(chip, &work->problem);
    table_row(table);
    cell_text(table, chip->name);
    cell_text(table, split_names[split]);
    cell_count(table, exchange);
    cell_count(table, operands);
    cell_count(table, exchange + operands);
    cell_count(table, tensor);
    cell_text(table, exchange + operands > tensor ? "shared memory" : "tensor cores");
    cycle_picture(table, exchange, operands, tensor);
}

static bool has_rates(const Profile *chip)
{
    return chip->smem_bytes_per_cycle_per_sm != PROFILE_UNLIMITED && chip->mma_sync_bf16_flops_per_cycle_per_sm > 0;
}

static void add_cycles(const Context *context, const Profile *profile, Report *report)
{
    const Problem p = problem_of(context, 0);
    Table *table = report_table(report, &cycles_table);
    table_title(table, "Cycles of one K/V tile on one SM (Br = %u, Bc = %u, d = %" PRIu64 ")", p.tiles.Br, p.tiles.Bc, p.d);
    Profile chips[MOST_CHIPS];
    size_t count = 0;
    bool extra = has_rates(context->hw);
    for (; count < CHIPS; count++) {
        if (!profile_load(chip_names[count], context->alloc, &chips[count], context->status)) return;
        if (strcmp(chip_names[count], context->hw->name) == 0) extra = false;
    }
    if (extra) chips[count++] = *context->hw;
    for (size_t c = 0; c < count; c++)
        for (int split = 0; split < SPLITS; split++) {
            const Work work = work_of(context, report, profile, p, (WarpSplit)split);
            cycle_row(table, &chips[c], (WarpSplit)split, &work);
        }
    table_note(table,
               "At the lecture's shape split-K makes shared memory the bottleneck of every chip, before barriers and waiting.");
    table_note(table, "Instructions: FlashAttention-2's mma.sync (its rate on a b200 is assumed to be Hopper's). wgmma and "
                      "tcgen05 read");
    table_note(table, "an operand for 64 or 128 rows at once (5.1).");
}

/* ---- sweeps ---- */

static void ratio_cell(Table *table, const Work *keys, const Work *queries)
{
    if (shared_bytes(queries) > 0)
        cell_decimals(table, (double)shared_bytes(keys) / (double)shared_bytes(queries), 2);
    else
        cell_empty(table);
}

static void add_warps(const Context *context, const Profile *profile, Report *report)
{
    static const uint64_t warps[] = {1, 2, 4, 8, 16};
    Table *table = report_table(report, &warps_table);
    Problem p = problem_of(context, 0);
    table_title(table, "More warps cost both splits (one K/V tile, Br = %u, Bc = %u, d = %" PRIu64 ")", p.tiles.Br, p.tiles.Bc,
                p.d);
    for (size_t i = 0; i < sizeof warps / sizeof warps[0]; i++) {
        p.warps = warps[i];
        if (p.tiles.Br % p.warps != 0 || p.tiles.Bc % p.warps != 0) continue;
        const Work keys = work_of(context, report, profile, p, WARPS_SPLIT_KEYS);
        const Work queries = work_of(context, report, profile, p, WARPS_SPLIT_QUERIES);
        table_row(table);
        cell_count(table, p.warps);
        cell_count(table, per_tile(keys.counted.exchange_bytes, &keys));
        cell_count(table, per_tile(keys.counted.operand_bytes, &keys));
        cell_count(table, per_tile(queries.counted.operand_bytes, &queries));
        ratio_cell(table, &keys, &queries);
        cell_text(table, keys.walked ? "walk" : "formula");
    }
    table_note(table, "Split-K: exchange and reads of Q grow with W. Split-Q: reads of K and V do. (One warp alone "
                      "exchanges with itself.)");
}

typedef struct {
    TileSize tiles;
    uint64_t d;
    const char *kernel;
} TileShape;

static const TileShape tile_shapes[] = {
    {{16, 256}, 64, "FlashAttention-1 as shipped"},
    {{16, 128}, 128, "FlashAttention-1 as shipped"},
    {{64, 64}, 64, "-"},
    {{64, 128}, 64, "-"},
    {{128, 128}, 32, "-"},
    {{128, 128}, 64, "FlashAttention-2 (and the lecture's)"},
    {{128, 128}, 96, "-"},
    {{128, 64}, 128, "FlashAttention-2"},
    {{128, 128}, 128, "-"},
};

static void shape_row(Table *table, const TileShape *shape, const Work *keys, const Work *queries)
{
    enum { MOST_REGISTERS = 255, MMA_ROWS = 16 };
    const uint64_t rows = shape->tiles.Br / queries->problem.warps;
    const bool k = registers_per_thread(keys) <= MOST_REGISTERS;
    const bool q = registers_per_thread(queries) <= MOST_REGISTERS && rows >= MMA_ROWS;
    table_row(table);
    cell_count(table, shape->tiles.Br);
    cell_count(table, shape->tiles.Bc);
    cell_count(table, shape->d);
    cell_count(table, per_tile(keys->counted.exchange_bytes, keys));
    cell_count(table, per_tile(keys->counted.operand_bytes, keys));
    cell_count(table, per_tile(queries->counted.operand_bytes, queries));
    ratio_cell(table, keys, queries);
    cell_count(table, registers_per_thread(keys));
    cell_count(table, registers_per_thread(queries));
    cell_count(table, rows);
    cell_text(table, k && q ? "both" : k ? "split-K" : q ? "split-Q" : "neither");
    cell_text(table, shape->kernel);
}

static void add_shapes(const Context *context, const Profile *profile, Report *report)
{
    Table *table = report_table(report, &shapes_table);
    for (size_t i = 0; i < sizeof tile_shapes / sizeof tile_shapes[0]; i++) {
        const TileShape *shape = &tile_shapes[i];
        const Problem p = {2 * shape->tiles.Bc, shape->d, shape->tiles, LECTURE_WARPS, ELEMENT_BF16};
        const Work keys = work_of(context, report, profile, p, WARPS_SPLIT_KEYS);
        const Work queries = work_of(context, report, profile, p, WARPS_SPLIT_QUERIES);
        if (status_ok(context->status)) shape_row(table, shape, &keys, &queries);
    }
    table_note(table, "16 rows, 256 keys: split-K moves less (K/Q below 1), and split-Q, 4 rows a warp, cannot be. "
                      "FlashAttention-1 was right.");
    table_note(table,
               "128 rows: every warp of split-K needs a 128 x d accumulator, 256 registers a thread at d = 64. It does not fit.");
    table_note(table,
               "So split-Q came with the exchange of the loops (3.1): queries outside, large query tiles, few reads of K and V.");
    table_note(table, "128 x 128 at d = 128 takes eight warps in real kernels: half the registers.");
}

/* ---- readings of 540,672 ---- */

typedef struct {
    uint64_t Br, Bc, N, d, o, statistic, moves, exchanges;
    const char *reading;
} Reading;

static const Reading readings[] = {
    {128, 128, 256, 64, 4, 4, 2, 2, "ours: float32, written and read at each of two K/V tiles"},
    {64, 64, 256, 64, 4, 4, 2, 4, "the same with blocks of 64: any Br = Bc gives it at N = 256"},
    {64, 128, 512, 64, 4, 4, 2, 4, "the same, N = 512"},
    {128, 128, 128, 64, 8, 8, 2, 1, "float64 (what NumPy would hold), one exchange"},
    {128, 128, 128, 64, 4, 4, 4, 1, "float32, one exchange, each warp writes once and reads the other three"},
    {128, 128, 512, 64, 2, 2, 2, 4, "everything in 2 bytes, four exchanges"},
    {128, 128, 256, 128, 2, 4, 2, 2, "d = 128, o in 2 bytes, m and l in 4"},
    {128, 128, 256, 64, 2, 4, 2, 2, "near miss: d = 64, o in 2 bytes, m and l in 4"},
};

static void add_readings(uint64_t counted, Report *report)
{
    Table *table = report_table(report, &readings_table);
    for (size_t i = 0; i < sizeof readings / sizeof readings[0]; i++) {
        const Reading *r = &readings[i];
        const uint64_t bytes = r->moves * LECTURE_WARPS * r->Br * (r->d * r->o + 2 * r->statistic) * r->exchanges;
        const uint64_t cells[] = {r->Br, r->Bc, r->N, r->d, r->o, r->statistic, r->moves, r->exchanges, bytes};
        table_row(table);
        for (size_t c = 0; c < sizeof cells / sizeof cells[0]; c++) cell_count(table, cells[c]);
        cell_text(table, r->reading);
        if (i == 0) report_check(report, counted, bytes, "split-K's exchange against our reading");
    }
    table_note(table, "540,672 = 33 x 2^14. The text says \"per query block\" and nothing of N, the tile or the type.");
}

/* ---- silicon ---- */

/* flash_fwd_kernel (PyTorch 2.11, CUDA 13.0, BF16, no mask, 16 heads, 4 warps) under Nsight Compute on one H200. */
static const struct {
    uint64_t N, d;
    TileSize tiles;
    uint64_t wavefronts;
} counters[] = {
    {1024, 64, {128, 128}, 1278592},
    {16384, 64, {128, 128}, 318034921},
    {1024, 128, {128, 64}, 2812544},
    {16384, 128, {128, 64}, 703025530},
};

static void add_silicon(const Context *context, const Profile *profile, Report *report)
{
    enum { HEADS = 16, WAVEFRONT = 128 };
    Table *table = report_table(report, &silicon_table);
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++) {
        const Problem p = {counters[i].N, counters[i].d, counters[i].tiles, LECTURE_WARPS, ELEMENT_BF16};
        const Work keys = work_of(context, report, profile, p, WARPS_SPLIT_KEYS);
        const Work queries = work_of(context, report, profile, p, WARPS_SPLIT_QUERIES);
        const uint64_t blocks = HEADS * ceil_div(p.N, p.tiles.Br);
        const uint64_t q = shared_bytes(&queries) * blocks / WAVEFRONT, k = shared_bytes(&keys) * blocks / WAVEFRONT;
        table_row(table);
        cell_count(table, p.N);
        cell_count(table, p.d);
        cell_textf(table, "%u x %u", p.tiles.Br, p.tiles.Bc);
        cell_count(table, q);
        cell_count(table, counters[i].wavefronts);
        cell_decimals(table, q > 0 ? (double)counters[i].wavefronts / (double)q : 0, 3);
        cell_count(table, k);
        cell_decimals(table, (double)k / (double)counters[i].wavefronts, 2);
    }
    table_note(table, "The shipped kernel reads what split-Q must: all of K and V in every warp. 5 to 8 %% come on top; O, "
                      "which leaves");
    table_note(table, "through shared memory, is part of that.");
    table_note(table, "Source: one H200, PyTorch 2.11 flash_fwd_kernel (CUDA 13.0), BF16, 16 heads, Nsight Compute, one launch.");
}

/* ---- the claims, at the lecture's shape ---- */

static void judge_counts(const Work *keys, const Work *queries, Report *report)
{
    const Problem *p = &keys->problem;
    const uint64_t partial = p->tiles.Br * (p->d + 2) * 4, Tc = keys->key_blocks, Q = p->tiles.Br * p->d * 2,
                   KV = 2 * p->tiles.Bc * p->d * 2;
    const TileSize shipped = algorithm_fa2.tiles(&(AttentionShape){.head_dim = p->d});
    const Geometry geometry = algorithm_fa2.geometry(&(AttentionShape){.head_dim = p->d, .dtype = ELEMENT_BF16}, shipped);
    claim_cited(report, "P030", "%u in FlashAttention-2 at d = 64", geometry.threads / 32);
    const uint64_t results = keys->counted.exchange_bytes / (2 * partial * Tc);
    claim_holds(report, "P031", results == 4 && keys->counted.operand_bytes == Tc * (results * Q + KV),
                "%" PRIu64 " results; Q read %" PRIu64 " times, K and V once", results, results);
    claim_holds(report, "P032", queries->counted.operand_bytes == Tc * (Q + 4 * KV), "Q read once, K and V 4 times");
    claim_count(report, "P033", 540672, keys->counted.exchange_bytes, " bytes");
    claim_count(report, "P034", 0, queries->counted.exchange_bytes, " bytes");
    claim_holds(report, "3.4-sync", keys->counted.barriers == 2 * Tc && queries->counted.barriers == 0,
                "%" PRIu64 " per query block; %" PRIu64, keys->counted.barriers, queries->counted.barriers);
}

/* Smallest and largest difference of our own code over 256 samples, one more in the second digit on either side:
 *     s3_4_warp_split --batch 64 --seed 1      and seeds 2, 3, 4 */
static const struct {
    const char *id;
    double low, high;
} bands[PRECISIONS] = {{"P035", 3.8e-16, 2.5e-15}, {"P035-f32", 2.0e-7, 1.8e-6}};

static void judge_results(const Differences lecture[PRECISIONS], Report *report)
{
    for (int i = 0; i < PRECISIONS; i++)
        claim_close(report, bands[i].id, bands[i].low, bands[i].high, lecture[i].apart[LECTURE_SAMPLES / 2], 2, "");
}

static bool run(Context *context, Report *report)
{
    Profile machine;
    Differences lecture[PRECISIONS];
    if (!can_be_split(context) || !profile_load("unbounded", context->alloc, &machine, context->status)) return false;
    const Work keys = work_of(context, report, &machine, lecture_problem, WARPS_SPLIT_KEYS);
    const Work queries = work_of(context, report, &machine, lecture_problem, WARPS_SPLIT_QUERIES);
    report_param_text(report, "machine", "unbounded, one head, no mask");
    report_param_text(report, "operands", option_choice(OPTION_DTYPE, (int)context->options->dtype));
    report_param_count(report, "seed", context->options->seed);
    add_picture(report);
    add_splits(context, &machine, report);
    if (!measure_lecture(context, &machine, lecture) || !add_errors(context, &machine, lecture, report)) return false;
    add_cycles(context, &machine, report);
    add_warps(context, &machine, report);
    add_shapes(context, &machine, report);
    add_readings(keys.counted.exchange_bytes, report);
    add_silicon(context, &machine, report);
    if (!status_ok(context->status)) return false;
    judge_counts(&keys, &queries, report);
    judge_results(lecture, report);
    return status_ok(context->status);
}

const Experiment experiment_s3_4_warp_split = {
    .program =
        {
            .name = "s3_4_warp_split",
            .purpose = "how the warps of a block share a tile: split-K against split-Q (lecture 3.4)",
            .examples = {"--batch 64", "--seqlen 1k --head-dim 64,128 --block-q 64,128"},
            .options = options,
            .option_count = sizeof options / sizeof options[0],
        },
    .report =
        {
            .section = "3.4",
            .title_en = "Splitting a block's work among its warps: split-K and split-Q",
            .title_zh = "一个线程块里 warp 怎么分工：split-K vs split-Q",
            .tables = tables,
            .table_count = sizeof tables / sizeof tables[0],
            .claims = claims,
            .claim_count = sizeof claims / sizeof claims[0],
        },
    .run = run,
};
