/* s2_3_io_complexity.c - lecture §2.3: how many elements FlashAttention-1 moves between HBM and an on-chip memory of M elements.
 *
 * Dao et al. 2022, Algorithm 1, sizes its blocks by M: Bc = ceil(M / 4d), Br = min(Bc, d). K and V are read once; each of the
 * Tc = ceil(N/Bc) key blocks sends all of Q, O, l, m past the SM and O, l, m back:
 *
 *     2Nd + (Nd + 2N) + Tc (3Nd + 4N)        leading term 3Nd Tc = 12 N²d²/M; standard attention: 4Nd + 4N²
 *
 * The walk of the algorithm on `unbounded` without L2 counts this, the formula checks it. From it follow the scaling laws and
 * the M from which FlashAttention moves less than standard attention (3 d², not d²). The program also shows what M is not: the
 * size of a memory into which the blocks fit; and that FlashAttention-1 has two counts, as listed and as shipped. Left out:
 * time, and L2, which changes all of it (s2_4_l2_roofline).
 */
#include "support/experiment.h"
#include "support/ratios.h"
#include "support/text.h"

#include "algos/run.h"
#include "sim/checked.h"

#include <stdio.h>
#include <string.h>

/* ---- counting ---- */

static uint64_t moved(const Totals *totals) { return totals->hbm_read_elements + totals->hbm_write_elements; }
static uint64_t moved_by_formula(const ClosedForm *form) { return form->hbm_read_elements + form->hbm_write_elements; }

/* One head of a shape, walked and checked against the algorithm's closed form. The caller frees the run, also after a failure. */
static bool walk(const Context *context, Report *report, const Algorithm *algorithm, const AttentionShape *shape, TileSize tiles,
                 L2Model l2, const Profile *machine, AttentionRun *run)
{
    const RunSetup setup = {.algorithm = algorithm, .profile = machine, .tiles = tiles, .config = {.mode = MODE_COUNT, .l2 = l2}};
    if (!attention_run_prepare(run, &setup, shape, context->alloc, context->status)) return false;
    if (!attention_run_forward(run)) return false;
    report_check(report, moved(&run->totals), moved_by_formula(&run->closed_form), algorithm->name);
    return true;
}

/* What the lecture's table says of one M. Sizes in elements. */
typedef struct {
    ElementType dtype;
    uint64_t N, d, M;
    TileSize tiles;
    uint64_t Tc, counted, standard, peak_bytes;
    bool fits;                  /* into a memory of exactly M elements */
} Point;

static AttentionShape shape_of(ElementType dtype, uint64_t N, uint64_t d)
{
    AttentionShape shape = attention_shape(N, d);
    shape.dtype = dtype;
    return shape;
}

/* The same walk where a block gets M elements and no more: what does not fit fails at its first tile. */
static bool fits_into(const Context *context, Report *report, const AttentionShape *shape, TileSize tiles, uint64_t bytes,
                      const Profile *machine)
{
    Profile small = *machine;
    small.smem_bytes_per_block = bytes;
    Status status = {0};
    Context attempt = *context;
    attempt.status = &status;
    AttentionRun run;
    const bool ok = walk(&attempt, report, &algorithm_fa1, shape, tiles, L2_NONE, &small, &run);
    attention_run_free(&run);
    if (!ok && status.code != STATUS_INFEASIBLE) status_fail(context->status, status.code, "%s", status.text);
    return ok;
}

static bool measure(const Context *context, Report *report, const Profile *machine, Point *p)
{
    const AttentionShape shape = shape_of(p->dtype, p->N, p->d);
    const uint64_t bytes = checked_mul(p->M, element_bytes(shape.dtype), "M in bytes", context->status);
    p->tiles = paper_tiles(p->M, p->d);
    AttentionRun fa1, standard;
    bool ok = walk(context, report, &algorithm_fa1, &shape, p->tiles, L2_NONE, machine, &fa1);
    ok = walk(context, report, &algorithm_standard, &shape, (TileSize){128, 128}, L2_IDEAL, machine, &standard) && ok;
    if (ok) {
        p->Tc = key_blocks(&fa1.attention);
        p->counted = moved(&fa1.totals);
        p->standard = moved(&standard.totals);
        p->peak_bytes = fa1.totals.sram_peak_bytes;
        p->fits = fits_into(context, report, &shape, p->tiles, bytes, machine);
    }
    attention_run_free(&fa1);
    attention_run_free(&standard);
    return ok && status_ok(context->status);
}

/* counted / (N²d²/M) */
static double over_bound(const Point *p)
{
    return (double)p->counted * (double)p->M / ((double)p->N * (double)p->N * (double)p->d * (double)p->d);
}

static uint64_t fa1_by_paper(uint64_t N, uint64_t d, uint64_t M, Status *status)
{
    return fa1_elements(N, d, paper_tiles(M, d).Bc, status);
}

/* The smallest M with less traffic than standard attention: traffic never grows with M, so halving finds it. 0: none. */
static uint64_t smallest_paying(uint64_t N, uint64_t d, Status *status)
{
    const uint64_t standard = standard_elements(N, d, status);
    uint64_t low = 0, high = checked_mul(checked_mul(4, d, "4d", status), max_u64(N, 1), "4dN", status);   /* Tc = 1 */
    if (!status_ok(status) || fa1_by_paper(N, d, high, status) >= standard) return 0;
    while (high - low > 1) {            /* low does not pay, high does */
        const uint64_t middle = low + (high - low) / 2;
        if (fa1_by_paper(N, d, middle, status) < standard) high = middle;
        else low = middle;
    }
    return high;
}

/* ---- the declarations ---- */

static const Column io_columns[] = {
    {"N", "", "sequence length"},
    {"d", "", "head dimension"},
    {"M", "elements", "on-chip size of the paper's model, --sram / bytes per element"},
    {"Bc", "", "ceil(M/4d)"},
    {"Br", "", "min(Bc, d)"},
    {"Tc", "", "ceil(N/Bc)"},
    {"counted", "elements", "read and written by the walk"},
    {"formula", "", "2Nd + (Nd+2N) + Tc(3Nd+4N): ok, or the difference"},
    {"3NdTc", "elements", "leading term"},
    {"lower", "%", "share of the other terms, (3Nd + 2N + 4N Tc) / counted"},
    {"count/(N2d2/M)", "", "counted / (N^2 d^2 / M)"},
    {"std/FA", "", "standard attention's count / this; below 1 FlashAttention moves more"},
    {"peak/M", "", "most on-chip memory that the walk held / M, in bytes"},
    {"in M", "", "whether the walk gets by with a memory of exactly M"},
};
static const TableSpec io_table = {"io", "FlashAttention-1 as listed: elements moved for an on-chip memory of M elements",
                                   io_columns, 14};

static const Column terms_columns[] = {
    {"M", "elements", "on-chip size"},
    {"3NdTc", "elements", "leading term"},
    {"4NTc", "elements", "l and m, read and written in every pass"},
    {"3Nd+2N", "elements", "K and V once, O, l and m initialised"},
    {"(3Nd+2N)/counted", "%", "share that does not fall with M"},
    {"peak", "elements", "2 Bc d (K, V) + 2 Br d (Q, O) + 2 Br (l, m) + Br Bc (S, overwritten by P)"},
    {"arena", "", "formula against the walk's arena: ok, or the difference; - when types are mixed"},
};
static const TableSpec terms_table = {"terms", "The terms one by one", terms_columns, 7};

static const Column crossing_columns[] = {
    {"M/d2", "", "M / d^2"},
    {"M", "elements", "on-chip size"},
    {"Bc", "", "ceil(M/4d)"},
    {"Tc", "", "ceil(N/Bc)"},
    {"FA1", "elements", "closed form"},
    {"FA/std", "", "over standard attention's 4Nd + 4N^2"},
    {"picture", "", "# = 0.05 of standard attention; | = standard attention"},
};
static const TableSpec crossing_table = {"crossing", "Where FlashAttention begins to pay", crossing_columns, 7};

static const Column scaling_columns[] = {
    {"case", "", "what is doubled"},
    {"N", "", "sequence length"},
    {"d", "", "head dimension"},
    {"M", "elements", "on-chip size"},
    {"Bc", "", "ceil(M/4d)"},
    {"Tc", "", "ceil(N/Bc)"},
    {"FlashAttention", "elements", "counted"},
    {"formula", "", "ok, or the difference"},
    {"x base", "", "over the first row"},
    {"standard", "elements", "4Nd + 4N^2"},
    {"std x base", "", "over the first row"},
};
static const TableSpec scaling_table = {"scaling", "Scaling from N = 8192, d = 64, M = 98,304 (192 KiB of FP16)", scaling_columns,
                                        11};

static const Column sram_columns[] = {
    {"chip", "", "hardware profile"},
    {"in shared memory", "", "of one thread block"},
    {"shared", "bytes", "needed"},
    {"registers", "bytes", "held in registers by tiles"},
    {"there", "bytes", "shared memory that one block can have"},
    {"verdict", "", "of a real allocation on this profile"},
};
static const TableSpec sram_table = {"sram", "What a real block does with these tiles", sram_columns, 6};

static const Column published_columns[] = {
    {"Bc", "", "keys per block"},
    {"Tc", "", "key blocks"},
    {"shipped: Q,K,V,O", "GB", "walk of fa1-shipped, the ledger rows of Q, K, V and O"},
    {"(1+3Tc)BHNd*2", "", "ok, or the difference in bytes"},
    {"published", "GB", "decoded from the curve of the figure"},
    {"L apart", "GB", "the row statistics, float32, which the published curve leaves out"},
    {"listed, 2 B each", "GB", "walk of fa1, every element at two bytes"},
    {"listed, l and m float32", "GB", "walk of fa1, in bytes"},
};
static const TableSpec published_table = {
    "published", "Two counts of FlashAttention-1: as shipped and as listed (batch 64, 16 heads, N = 1024, d = 64, FP16)",
    published_columns, 8};

static const Column unit_columns[] = {
    {"M is taken as", "", "102,400 bytes of FP16 are 51,200 elements"},
    {"M", "elements", "as the block sizes see it"},
    {"Bc", "", "ceil(M/4d)"},
    {"Br", "", "min(Bc, d)"},
    {"Tc", "", "ceil(N/Bc)"},
    {"moved", "elements", "without the initial writes of O, l, m"},
    {"initial", "elements", "Nd + 2N"},
    {"against bytes/2", "%", "error of the count"},
};
static const TableSpec unit_table = {"unit", "The unit of M: 102,400 bytes of FP16 at N = 1024, d = 64", unit_columns, 8};

static const TableSpec *const tables[] = {&io_table,   &terms_table,     &crossing_table, &scaling_table,
                                          &sram_table, &published_table, &unit_table};

static const ClaimSpec claims[] = {
    {"2.3-1", "2.3", "block sizes of Algorithm 1", "Bc = ceil(M/4d), Br = min(Bc, d)", VERDICT_EQUAL, "Algorithm 1, line 1",
     NULL},
    {"2.3-2", "2.3", "K and V are read once, elements (N=1024, d=64)", "2Nd", VERDICT_EQUAL, "ledger rows of K and V, M=65,536",
     NULL},
    {"2.3-3", "2.3", "leading term", "3Nd Tc = 12 N^2 d^2/M", VERDICT_EQUAL,
     "reads of Q and O, writes of O in the main launch, all five M", NULL},
    {"2.3-4", "2.3", "the count is the closed form, element by element", "equal", VERDICT_EQUAL,
     "walk = 2Nd + (Nd+2N) + Tc(3Nd+4N), five M", NULL},
    {"2.3-5", "2.3", "M doubles: the leading term", "x0.5", VERDICT_EQUAL, "3Nd Tc, each M over the one before", NULL},
    {"2.3-6", "2.3", "smallest count/(N^2 d^2/M): at M=4096 = d^2", "12.4", VERDICT_EQUAL, "walk * M/(N^2 d^2)", NULL},
    {"2.3-7", "2.3", "largest count/(N^2 d^2/M): at M=65,536 = Nd", "15.3", VERDICT_EQUAL, "walk * M/(N^2 d^2)", NULL},
    {"2.3-8", "2.3", "the share of lower-order terms grows with M", "grows", VERDICT_EQUAL, "(3Nd+2N)/count over five M", NULL},
    {"2.3-9", "2.3", "first row: FlashAttention moves more than standard attention", "more", VERDICT_EQUAL, "walks at M=4096",
     NULL},
    {"2.3-10", "2.3", "the M column of the table (not preserved)", "4096, ..., 65,536", VERDICT_CITED,
     "12.4 fixes M=4096, peak 1.26 fixes 16,384, 15.3 and peak 0.88 fix 65,536", NULL},
    {"2.3-11", "2.3", "FP16 elements in the 192 KB of one A100 SM", "about 100,000", VERDICT_EQUAL,
     "l1_and_smem_bytes_per_sm / 2", NULL},
    {"2.3-18", "2.3", "it pays only when M is much larger than d^2 (N=1024, d=64)", "M >> d^2", VERDICT_EQUAL,
     "smallest M with 2Nd+(Nd+2N)+Tc(3Nd+4N) < 4Nd+4N^2", NULL},
    {"2.3-12", "2.3", "smallest on-chip peak / M (M=65,536)", "0.88", VERDICT_EQUAL,
     "peak of the walk's arena, all elements 4 bytes", NULL},
    {"2.3-13", "2.3", "largest on-chip peak / M (M=16,384)", "1.26", VERDICT_EQUAL,
     "peak of the walk's arena, all elements 4 bytes", NULL},
    {"2.3-14", "2.3", "N doubles (base N=8192, d=64, M=98,304)", "3.83", VERDICT_EQUAL, "walk over walk; Tc 22 -> 43", NULL},
    {"2.3-15", "2.3", "d doubles", "3.79", VERDICT_EQUAL, "walk over walk; Tc 22 -> 43", NULL},
    {"2.3-16", "2.3", "M doubles", "0.52", VERDICT_EQUAL, "walk over walk; Tc 22 -> 11", NULL},
    {"2.3-17", "2.3", "standard attention when d doubles, N=8192", "almost unchanged", VERDICT_EQUAL,
     "(8Nd+4N^2)/(4Nd+4N^2), walked", NULL},
    {"8-3", "8.3", "pitfall 3: M close to d^2 means more traffic than standard attention", "more", VERDICT_EQUAL,
     "walks at M=d^2", NULL},
    {"2.3-fit", "2.3", "blocks sized by M fit into M elements", "they fit", VERDICT_DIFFERS,
     "walks with an arena of exactly M elements",
     "K, V, Q, O alone fill up to M; with l, m and the score tile it is 0.88 to 1.26 M: M is a parameter, not an arena"},
    {"2.3-ex2a", "2.3", "exercise 2's blocks with S on chip, two bytes each, in a block of A100", "192 KB", VERDICT_DIFFERS,
     "a real allocation: K, V, Q, O, l, m, S", "192 KB is L1 and shared memory together; a block gets 163 KiB = 166,912 B"},
    {"2.3-ex2b", "2.3", "the same with S in registers, as real kernels do", "192 KB", VERDICT_EQUAL,
     "a real allocation: K, V, Q, O", NULL},
    {"2.3-F2-64", "2.3", "published FA1 traffic, Bc=64 (FlashAttention, Figure 2, middle)", "6.577 GB", VERDICT_CLOSE,
     "walk of fa1-shipped, Q+K+V+O", NULL},
    {"2.3-F2-128", "2.3", "published FA1 traffic, Bc=128", "3.356 GB", VERDICT_CLOSE, "walk of fa1-shipped, Q+K+V+O", NULL},
    {"2.3-F2-256", "2.3", "published FA1 traffic, Bc=256", "1.745 GB", VERDICT_CLOSE, "walk of fa1-shipped, Q+K+V+O", NULL},
    {"2.3-F2-512", "2.3", "published FA1 traffic, Bc=512", "0.940 GB", VERDICT_CLOSE, "walk of fa1-shipped, Q+K+V+O", NULL},
    {"2.3-unit", "2.3", "M in bytes: 102,400 B of FP16, N=1024, d=64, without the initial writes", "1,335,296", VERDICT_EQUAL,
     "walk of the main launch at M = bytes / 2", NULL},
};

static const ProgramOption options[] = {
    {OPTION_SEQLEN, "1k"}, {OPTION_HEAD_DIM, "64"}, {OPTION_SRAM, "16k,32k,64k,128k,256k"}, {OPTION_DTYPE, "f32"}};

/* ---- the lecture's table ---- */

static void io_row(Table *table, const Point *p, uint64_t element, Status *status)
{
    const uint64_t leading = 3 * p->N * p->d * p->Tc;
    table_row(table);
    cell_count(table, p->N);
    cell_count(table, p->d);
    cell_count(table, p->M);
    cell_count(table, p->tiles.Bc);
    cell_count(table, p->tiles.Br);
    cell_count(table, p->Tc);
    cell_count(table, p->counted);
    cell_check(table, p->counted, fa1_by_paper(p->N, p->d, p->M, status), "FA1 elements without L2");
    cell_count(table, leading);
    cell_decimals(table, 100 * per(p->counted - leading, p->counted), 1);
    cell_decimals(table, p->N > 0 ? over_bound(p) : 0.0, 1);
    cell_decimals(table, per(p->standard, p->counted), 2);
    cell_decimals(table, per(p->peak_bytes, p->M * element), 2);
    cell_text(table, p->fits ? "fits" : "does not fit");
    report_check(table->report, p->standard, standard_elements(p->N, p->d, status), "standard attention, 4Nd + 4N^2");
}

static void terms_row(Table *table, const Point *p, uint64_t element, bool mixed, Status *status)
{
    const uint64_t Nd = p->N * p->d, peak = fa1_sram_elements(p->tiles.Br, p->tiles.Bc, p->d, status);
    table_row(table);
    cell_count(table, p->M);
    cell_count(table, 3 * Nd * p->Tc);
    cell_count(table, 4 * p->N * p->Tc);
    cell_count(table, 3 * Nd + 2 * p->N);
    cell_decimals(table, 100 * per(3 * Nd + 2 * p->N, p->counted), 1);
    cell_count(table, peak);
    if (mixed) cell_text(table, "-");
    else cell_check(table, p->peak_bytes, peak * element, "on-chip peak in bytes");
}

static void add_io(const Context *context, const Profile *machine, Report *report)
{
    const Options *o = context->options;
    const uint64_t element = element_bytes(o->dtype);
    const bool mixed = o->dtype != ELEMENT_F32 && o->dtype != ELEMENT_F64;      /* S, l, m are float32 then */
    Table *io = report_table(report, &io_table), *terms = report_table(report, &terms_table);
    for (size_t i = 0; i < options_point_count(o); i++) {
        const OptionPoint point = options_point(o, i);
        Point p = {.dtype = o->dtype, .N = point.seqlen, .d = point.head_dim, .M = max_u64(point.sram / element, 1)};
        if (!measure(context, report, machine, &p)) return;
        io_row(io, &p, element, context->status);
        terms_row(terms, &p, element, mixed, context->status);
    }
    table_note(io, "M is --sram in bytes / %" PRIu64 " bytes per element (%s). Standard attention: each operand once "
               "per kernel, 4Nd + 4N^2.",
               element, element_name(o->dtype));
    table_note(io, "\"in M\": the listing keeps K, V, Q, O, l, m and a score tile on chip. With Bc = M/4d the first "
               "four alone fill up to M.");
    table_note(terms, "Doubling M halves the leading term and leaves 3Nd + 2N: its share grows.");
}

/* ---- the crossing ---- */

static void crossing_row(Table *table, uint64_t N, uint64_t d, uint64_t M, Status *status)
{
    enum { UNIT = 20, LONGEST = 64 };       /* characters: of standard attention, of the picture */
    char line[LONGEST + 2];
    const uint64_t counted = fa1_by_paper(N, d, M, status), standard = standard_elements(N, d, status), Bc = paper_tiles(M, d).Bc;
    const double share = per(counted, standard);
    const size_t length = share * UNIT < LONGEST ? (size_t)(share * UNIT) : LONGEST;
    memset(line, ' ', sizeof line);
    memset(line, '#', length);
    if (share * UNIT > LONGEST) line[LONGEST - 1] = '>';
    line[UNIT] = '|';
    line[length > UNIT ? length : UNIT + 1] = '\0';
    table_row(table);
    cell_decimals(table, per(M, d * d), 2);
    cell_count(table, M);
    cell_count(table, Bc);
    cell_count(table, ceil_div(N, Bc));
    cell_count(table, counted);
    cell_decimals(table, share, 3);
    cell_text(table, line);
}

static void add_crossing(const Context *context, Report *report, uint64_t N, uint64_t d)
{
    static const uint64_t quarters[] = {4, 6, 8, 10, 11, 12, 13, 14, 16, 20, 24, 32, 48, 64};   /* M / (d²/4) */
    Status *status = context->status;
    if (N == 0) return;
    const uint64_t paying = smallest_paying(N, d, status);
    bool shown = paying == 0;
    Table *table = report_table(report, &crossing_table);
    table_title(table, "Where FlashAttention begins to pay (N = %" PRIu64 ", d = %" PRIu64 ")", N, d);
    for (size_t i = 0; i < sizeof quarters / sizeof quarters[0]; i++) {
        const uint64_t M = max_u64(quarters[i] * d * d / 4, 1);
        if (!shown && M >= paying) {
            if (paying > 1 && (i == 0 || quarters[i - 1] * d * d / 4 < paying - 1)) crossing_row(table, N, d, paying - 1, status);
            crossing_row(table, N, d, paying, status);
            shown = true;
            if (M == paying) continue;
        }
        crossing_row(table, N, d, M, status);
    }
    if (paying == 0)
        table_note(table, "At this shape no M pays: even one key block moves at least as much as standard attention.");
    else
        table_note(table,
                   "The smallest M that moves less than standard attention is %" PRIu64 " = %.2f d^2 (Bc = %u); %" PRIu64
                   " is not enough.",
                   paying, per(paying, d * d), paper_tiles(paying, d).Bc, paying - 1);
    table_note(table, "Why about 3 d^2: 12 N^2 d^2/M < 4 N^2 as soon as M > 3 d^2. The bars step because Tc is a whole number.");
}

/* ---- scaling ---- */

typedef struct {
    const char *name;
    uint64_t N, d, M;
} ScalingCase;

static const ScalingCase scaling_cases[] = {
    {"base", 8192, 64, 98304}, {"N x2", 16384, 64, 98304}, {"d x2", 8192, 128, 98304}, {"M x2", 8192, 64, 196608}};
enum { SCALING_CASES = sizeof scaling_cases / sizeof scaling_cases[0] };

/* Counts of the four cases, for the table and the claims. */
typedef struct {
    uint64_t fa1[SCALING_CASES], standard[SCALING_CASES];
} Scaling;

static bool count_scaling(const Context *context, const Profile *machine, Report *report, Scaling *scaling)
{
    for (size_t i = 0; i < SCALING_CASES; i++) {
        const ScalingCase *c = &scaling_cases[i];
        Point p = {.dtype = ELEMENT_F32, .N = c->N, .d = c->d, .M = c->M};
        if (!measure(context, report, machine, &p)) return false;
        scaling->fa1[i] = p.counted;
        scaling->standard[i] = p.standard;
    }
    return true;
}

static void add_scaling(const Context *context, Report *report, const Scaling *scaling)
{
    Table *table = report_table(report, &scaling_table);
    for (size_t i = 0; i < SCALING_CASES; i++) {
        const ScalingCase *c = &scaling_cases[i];
        const uint64_t Bc = paper_tiles(c->M, c->d).Bc;
        table_row(table);
        cell_text(table, c->name);
        cell_count(table, c->N);
        cell_count(table, c->d);
        cell_count(table, c->M);
        cell_count(table, Bc);
        cell_count(table, ceil_div(c->N, Bc));
        cell_count(table, scaling->fa1[i]);
        cell_check(table, scaling->fa1[i], fa1_by_paper(c->N, c->d, c->M, context->status), "FA1 elements, scaling");
        cell_decimals(table, per(scaling->fa1[i], scaling->fa1[0]), 2);
        cell_count(table, scaling->standard[i]);
        cell_decimals(table, per(scaling->standard[i], scaling->standard[0]), 3);
    }
    table_note(table, "Not 4, 4 and 1/2: Tc is rounded up (21.3 to 22, 42.7 to 43, 10.7 to 11), and 3Nd + 2N does not "
               "scale like N^2 d^2/M.");
}

/* ---- what a real block does ---- */

/* A block that only declares its tiles: exercise 2's, Br = 128, Bc = 192, d = 128. */
typedef struct {
    bool scores_on_chip;        /* S, l, m in shared memory at two bytes each, as the paper counts; else in registers, float32 */
} Residents;

static void declare_tiles(Block *b, const void *arguments, uint64_t index)
{
    enum { Br = 128, Bc = 192, d = 128 };
    const Residents *residents = arguments;
    (void)index;
    shared_tile(b, "K", ELEMENT_FP16, Bc, d);
    shared_tile(b, "V", ELEMENT_FP16, Bc, d);
    shared_tile(b, "Q", ELEMENT_FP16, Br, d);
    shared_tile(b, "O", ELEMENT_FP16, Br, d);
    if (residents->scores_on_chip) {
        shared_tile(b, "l", ELEMENT_FP16, Br, 1);
        shared_tile(b, "m", ELEMENT_FP16, Br, 1);
        shared_tile(b, "S", ELEMENT_FP16, Br, Bc);
    } else {
        row_vector(b, "l", ELEMENT_F32, Br);
        row_vector(b, "m", ELEMENT_F32, Br);
        register_tile(b, "S", ELEMENT_F32, Br, Bc);
    }
}

typedef struct {
    bool fits;
    uint64_t shared_bytes, register_bytes;      /* 0 unless it fits */
    char text[256];                             /* "fits", or why not */
} Allocation;

static void describe(Allocation *allocation, const Context *context, bool ok, const Totals *totals, const Status *attempt)
{
    *allocation =
        (Allocation){.fits = ok, .shared_bytes = totals->sram_peak_bytes, .register_bytes = totals->register_peak_bytes};
    snprintf(allocation->text, sizeof allocation->text, "%.200s", ok ? "fits" : attempt->text);
    if (!ok && attempt->code != STATUS_INFEASIBLE) status_fail(context->status, attempt->code, "%s", attempt->text);
}

/* One block of declared tiles on a chip. */
static Allocation allocate(const Context *context, const Profile *chip, bool scores_on_chip)
{
    const Residents residents = {scores_on_chip};
    const Kernel kernel = {
        .name = "block", .instruction = TENSOR_MMA_SYNC, .threads = 256, .registers_per_thread = 255, .run = declare_tiles};
    Status attempt = {0};
    Totals totals = {0};
    Machine machine;
    Allocation allocation;
    machine_init(&machine, chip, (MachineConfig){.mode = MODE_COUNT, .l2 = L2_NONE}, context->alloc, &attempt);
    const bool ok = launch(&machine, &kernel, (Grid){1, 1, 1}, &residents) && machine_totals(&machine, &totals);
    machine_free(&machine);
    describe(&allocation, context, ok, &totals, &attempt);
    return allocation;
}

/* One block of a real algorithm on a chip. */
static Allocation allocate_algorithm(const Context *context, const Profile *chip, const Algorithm *algorithm, TileSize tiles)
{
    const AttentionShape shape = shape_of(ELEMENT_FP16, 1, 128);
    Status attempt = {0};
    AttentionRun run;
    Allocation allocation;
    const bool ok = attention_count(&run, algorithm, &shape, tiles, L2_NONE, chip, context->alloc, &attempt);
    attention_run_free(&run);
    describe(&allocation, context, ok, &run.totals, &attempt);
    return allocation;
}

/* `there` is what the chip says, `anywhere` what the same allocation takes without limits. */
static void sram_row(Table *table, const Profile *chip, const char *what, const Allocation *there, const Allocation *anywhere)
{
    table_row(table);
    cell_text(table, chip->name);
    cell_text(table, what);
    cell_count(table, anywhere->shared_bytes);
    cell_count(table, anywhere->register_bytes);
    if (chip->smem_bytes_per_block == PROFILE_UNLIMITED) cell_text(table, "unlimited");
    else cell_count(table, chip->smem_bytes_per_block);
    cell_text(table, there->text);
}

static void sram_rows(const Context *context, Table *table, const Profile *chip, const Profile *unbounded)
{
    const TileSize exercise = {128, 192}, shipped = algorithm_fa2.tiles(&(AttentionShape){.head_dim = 128});
    for (int on_chip = 1; on_chip >= 0; on_chip--) {
        const Allocation there = allocate(context, chip, on_chip), anywhere = allocate(context, unbounded, on_chip);
        sram_row(table, chip, on_chip ? "K, V, Q, O, l, m, S: all at 2 bytes" : "K, V, Q, O; S, l, m in registers", &there,
                 &anywhere);
    }
    const Allocation listed = allocate_algorithm(context, chip, &algorithm_fa1, exercise);
    const Allocation listed_anywhere = allocate_algorithm(context, unbounded, &algorithm_fa1, exercise);
    sram_row(table, chip, "fa1 as listed: S, l, m are float32", &listed, &listed_anywhere);
    const Allocation fa2 = allocate_algorithm(context, chip, &algorithm_fa2, shipped),
                     fa2_anywhere = allocate_algorithm(context, unbounded, &algorithm_fa2, shipped);
    sram_row(table, chip, "fa2 with its own tiles, 128 x 64", &fa2, &fa2_anywhere);
}

static void add_sram(const Context *context, const Profile *a100, const Profile *unbounded, Report *report)
{
    Table *table = report_table(report, &sram_table);
    sram_rows(context, table, a100, unbounded);
    if (strcmp(context->hw->name, a100->name) != 0) sram_rows(context, table, context->hw, unbounded);
    table_note(table, "An SM of A100 has 192 KiB (98,304 FP16 elements, exercise 2's M) for L1 and shared memory together.");
    table_note(table, "One block gets 163 KiB = 166,912 bytes. Real kernels keep S, P and the statistics in registers "
               "and choose smaller tiles.");
}

/* ---- as shipped ---- */

static uint64_t ledger_elements(const Machine *machine, const char *kernel, const char *tensor, bool reads, bool writes)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < machine->ledger_count; i++) {
        const LedgerRow *row = &machine->ledger[i];
        if (strcmp(row->kernel, kernel) != 0 || (tensor != NULL && strcmp(row->tensor->name, tensor) != 0)) continue;
        sum += (reads ? row->traffic.hbm_read : 0) + (writes ? row->traffic.hbm_write : 0);
    }
    return sum;
}

enum { PUBLISHED_POINTS = 4 };
static const uint32_t published_Bc[PUBLISHED_POINTS] = {64, 128, 256, 512};
static const double published_GB[PUBLISHED_POINTS] = {6.577, 3.356, 1.745, 0.940};  /* read off the curve's vector path */
static const char *const published_ids[PUBLISHED_POINTS] = {"2.3-F2-64", "2.3-F2-128", "2.3-F2-256", "2.3-F2-512"};

typedef struct {
    uint64_t shipped_bytes, statistics_bytes, listed_elements, listed_bytes, Tc;
} Published;

/* Shipped on the A100, where the curve was measured (the blocks fit); the listing on `unbounded`. */
static bool count_published(const Context *context, const Profile *a100, const Profile *unbounded, Report *report, uint32_t Bc,
                            Published *x)
{
    static const char *const inputs[] = {"Q", "K", "V", "O"};
    AttentionShape shape = shape_of(ELEMENT_FP16, 1024, 64);
    shape.batch = 64;
    shape.heads = shape.kv_heads = 16;
    AttentionRun shipped, listed;
    bool ok = walk(context, report, &algorithm_fa1_shipped, &shape, (TileSize){16, Bc}, L2_NONE, a100, &shipped);
    ok = walk(context, report, &algorithm_fa1, &shape, (TileSize){16, Bc}, L2_NONE, unbounded, &listed) && ok;
    *x = (Published){0};
    if (ok) {
        for (int i = 0; i < 4; i++)
            x->shipped_bytes += 2 * ledger_elements(&shipped.machine, "fa1_forward", inputs[i], true, true);
        x->statistics_bytes = 4 * ledger_elements(&shipped.machine, "fa1_forward", "L", true, true);
        x->listed_elements = moved(&listed.totals);
        x->listed_bytes = listed.totals.hbm_read_bytes + listed.totals.hbm_write_bytes;
        x->Tc = key_blocks(&shipped.attention);
    }
    attention_run_free(&shipped);
    attention_run_free(&listed);
    return ok;
}

static double gigabytes(uint64_t bytes) { return (double)bytes / 1e9; }

static bool add_published(const Context *context, const Profile *a100, const Profile *unbounded, Report *report)
{
    const uint64_t heads = 64 * 16, N = 1024, d = 64;
    Table *table = report_table(report, &published_table);
    for (int i = 0; i < PUBLISHED_POINTS; i++) {
        Published x;
        if (!count_published(context, a100, unbounded, report, published_Bc[i], &x)) return false;
        table_row(table);
        cell_count(table, published_Bc[i]);
        cell_count(table, x.Tc);
        cell_decimals(table, gigabytes(x.shipped_bytes), 4);
        cell_check(table, x.shipped_bytes, 2 * heads * fa1_published_elements(N, d, published_Bc[i], context->status),
                   "FA1 as shipped, bytes");
        cell_decimals(table, published_GB[i], 3);
        cell_decimals(table, gigabytes(x.statistics_bytes), 4);
        cell_decimals(table, gigabytes(2 * x.listed_elements), 3);
        cell_decimals(table, gigabytes(x.listed_bytes), 3);
        claim_close(report, published_ids[i], published_GB[i] - 0.001, published_GB[i] + 0.001, gigabytes(x.shipped_bytes), 5,
                    " GB");
    }
    table_note(table, "The shipped kernel reads no O in its first pass and carries one statistic, not two; the curve "
               "counts Q, K, V, O only.");
    table_note(table, "The curve can be read to 0.001 GB. That 1 + 3 Tc is 13 at Bc = 256, as in the 13 Nd of section "
               "2.7, is chance.");
    return status_ok(context->status);
}

/* ---- the unit of M ---- */

/* Elements of the main launch and of the initialisation, at M elements. */
static bool count_launches(const Context *context, const Profile *machine, Report *report, uint64_t M, uint64_t *main_launch,
                           uint64_t *initial)
{
    const AttentionShape shape = shape_of(ELEMENT_FP16, 1024, 64);
    AttentionRun run;
    const bool ok = walk(context, report, &algorithm_fa1, &shape, paper_tiles(M, 64), L2_NONE, machine, &run);
    *main_launch = ok ? ledger_elements(&run.machine, "fa1_forward", NULL, true, true) : 0;
    *initial = ok ? ledger_elements(&run.machine, "fa1_init", NULL, true, true) : 0;
    attention_run_free(&run);
    return ok;
}

static bool add_unit(const Context *context, const Profile *machine, Report *report)
{
    enum { BYTES = 102400, N = 1024, d = 64 };
    const uint64_t M[] = {BYTES / 2, BYTES};
    uint64_t moved_elements[2], initial[2];
    Table *table = report_table(report, &unit_table);
    for (int i = 0; i < 2; i++) {
        if (!count_launches(context, machine, report, M[i], &moved_elements[i], &initial[i])) return false;
        const TileSize tiles = paper_tiles(M[i], d);
        table_row(table);
        cell_text(table, i == 0 ? "elements = bytes / 2" : "elements = bytes (wrong)");
        cell_count(table, M[i]);
        cell_count(table, tiles.Bc);
        cell_count(table, tiles.Br);
        cell_count(table, ceil_div(N, tiles.Bc));
        cell_count(table, moved_elements[i]);
        cell_count(table, initial[i]);
        cell_decimals(table, 100 * (per(moved_elements[i], moved_elements[0]) - 1), 1);
    }
    table_note(table, "The paper's M counts elements, a data sheet bytes. The same with all counts: --sram 102400 --dtype fp16.");
    claim_count(report, "2.3-unit", 1335296, moved_elements[0], " elements");
    return true;
}

/* ---- the claims, at the lecture's shapes ---- */

enum { LECTURE_M = 5 };
static const uint64_t lecture_M[LECTURE_M] = {4096, 8192, 16384, 32768, 65536};

/* Q and O read, O written in the main launch: 3Nd Tc; K and V read in all: 2Nd. */
static bool judge_ledgers(const Context *context, const Profile *machine, Report *report)
{
    const uint64_t N = 1024, d = 64;
    const AttentionShape shape = shape_of(ELEMENT_F32, N, d);
    bool leading_holds = true, halves = true;
    uint64_t before = 0, keys = 0;
    for (int i = 0; i < LECTURE_M; i++) {
        AttentionRun run;
        const bool ok = walk(context, report, &algorithm_fa1, &shape, paper_tiles(lecture_M[i], d), L2_NONE, machine, &run);
        const Machine *m = &run.machine;
        const uint64_t leading =
            ok ? ledger_elements(m, "fa1_forward", "Q", true, false) + ledger_elements(m, "fa1_forward", "O", true, true) : 0;
        keys = ok ? ledger_elements(m, "fa1_forward", "K", true, false) + ledger_elements(m, "fa1_forward", "V", true, false) : 0;
        leading_holds = leading_holds && leading * lecture_M[i] == 12 * N * N * d * d;
        halves = halves && (i == 0 || 2 * leading == before);
        before = leading;
        attention_run_free(&run);
        if (!ok) return false;
    }
    claim_count(report, "2.3-2", 2 * N * d, keys, " elements");
    claim_holds(report, "2.3-3", leading_holds, "3Nd Tc * M = 12 N^2 d^2 at five M");
    claim_holds(report, "2.3-5", halves, "exactly half, four times");
    return true;
}

static void judge_column(Report *report, const Point p[LECTURE_M], Status *status)
{
    bool sizes = true, counts = true, grows = true;
    double lowest = over_bound(&p[0]), highest = lowest, share = 0, least_peak = 2, most_peak = 0;
    int fitting = 0;
    for (int i = 0; i < LECTURE_M; i++) {
        const uint64_t Bc = (p[i].M + 4 * p[i].d - 1) / (4 * p[i].d);
        const double lower = per(3 * p[i].N * p[i].d + 2 * p[i].N, p[i].counted), peak = per(p[i].peak_bytes, 4 * p[i].M);
        sizes = sizes && p[i].tiles.Bc == Bc && p[i].tiles.Br == min_u64(Bc, p[i].d);
        counts = counts && p[i].counted == fa1_by_paper(p[i].N, p[i].d, p[i].M, status);
        grows = grows && lower > share;
        share = lower;
        lowest = over_bound(&p[i]) < lowest ? over_bound(&p[i]) : lowest;
        highest = over_bound(&p[i]) > highest ? over_bound(&p[i]) : highest;
        least_peak = peak < least_peak ? peak : least_peak;
        most_peak = peak > most_peak ? peak : most_peak;
        fitting += p[i].fits;
    }
    claim_holds(report, "2.3-1", sizes, "Bc %u to %u, Br %u to %u", p[0].tiles.Bc, p[LECTURE_M - 1].tiles.Bc, p[0].tiles.Br,
                p[LECTURE_M - 1].tiles.Br);
    claim_holds(report, "2.3-4", counts, "%s for five M", counts ? "equal" : "not equal");
    claim_decimals(report, "2.3-6", 12.4, 1, lowest, "");
    claim_decimals(report, "2.3-7", 15.3, 1, highest, "");
    const double first_share = per(3 * p[0].N * p[0].d + 2 * p[0].N, p[0].counted);
    claim_holds(report, "2.3-8", grows, "%.1f %% at M = 4096 to %.1f %% at 65536", 100 * first_share, 100 * share);
    claim_decimals(report, "2.3-12", 0.88, 2, least_peak, "");
    claim_decimals(report, "2.3-13", 1.26, 2, most_peak, "");
    claim_holds(report, "2.3-fit", fitting == LECTURE_M, "%d of %d rows fit", fitting, LECTURE_M);
    claim_holds(report, "2.3-9", p[0].counted > p[0].standard, "%" PRIu64 " against %" PRIu64, p[0].counted, p[0].standard);
    claim_holds(report, "8-3", p[0].counted > p[0].standard, "M = d^2: %.2f times as much", per(p[0].counted, p[0].standard));
    claim_cited(report, "2.3-10",
                "M = 8192 would move more than standard too (%.2f): \"first row\" speaks against it, \"M doubles\" for it",
                per(p[1].standard, p[1].counted));
}

static bool judge_column_points(const Context *context, const Profile *machine, Report *report)
{
    Point points[LECTURE_M];
    for (int i = 0; i < LECTURE_M; i++) {
        points[i] = (Point){.dtype = ELEMENT_F32, .N = 1024, .d = 64, .M = lecture_M[i]};
        if (!measure(context, report, machine, &points[i])) return false;
    }
    judge_column(report, points, context->status);
    return true;
}

static void judge_scaling(Report *report, const Scaling *x)
{
    claim_decimals(report, "2.3-14", 3.83, 2, per(x->fa1[1], x->fa1[0]), "");
    claim_decimals(report, "2.3-15", 3.79, 2, per(x->fa1[2], x->fa1[0]), "");
    claim_decimals(report, "2.3-16", 0.52, 2, per(x->fa1[3], x->fa1[0]), "");
    const double growth = per(x->standard[2], x->standard[0]);
    claim_holds(report, "2.3-17", growth < 1.01, "x%.3f", growth);
}

static void judge_chip(const Context *context, const Profile *a100, const Profile *unbounded, Report *report)
{
    Status *status = context->status;
    const uint64_t elements = a100->l1_and_smem_bytes_per_sm / 2, paying = smallest_paying(1024, 64, status);
    const bool below = fa1_by_paper(1024, 64, paying - 1, status) >= standard_elements(1024, 64, status);
    claim_holds(report, "2.3-11", elements == 98304, "%" PRIu64, elements);
    claim_holds(report, "2.3-18", paying == 12289 && below, "M = %" PRIu64 " = %.1f d^2; %" PRIu64 " is not enough", paying,
                per(paying, 64 * 64), paying - 1);
    const Allocation on_chip = allocate(context, a100, true), on_chip_anywhere = allocate(context, unbounded, true);
    const Allocation in_registers = allocate(context, a100, false), in_registers_anywhere = allocate(context, unbounded, false);
    const uint64_t there = a100->smem_bytes_per_block;
    claim_holds(report, "2.3-ex2a", on_chip.fits, "%" PRIu64 " B needed, %" PRIu64 " B there: %s", on_chip_anywhere.shared_bytes,
                there, on_chip.fits ? "fits" : "does not fit");
    claim_holds(report, "2.3-ex2b", in_registers.fits, "%" PRIu64 " B needed, %" PRIu64 " B there: %s",
                in_registers_anywhere.shared_bytes, there, in_registers.fits ? "fits" : "does not fit");
}

static bool run(Context *context, Report *report)
{
    Profile unbounded, a100;
    Scaling scaling;
    if (!profile_load("unbounded", context->alloc, &unbounded, context->status)) return false;
    if (!profile_load("a100", context->alloc, &a100, context->status)) return false;
    const OptionPoint point = options_point(context->options, 0);
    report_param_text(report, "machine", "unbounded, one head, no L2");
    report_param_text(report, "dtype", element_name(context->options->dtype));
    report_param_text(report, "hw", context->hw->name);
    add_io(context, &unbounded, report);
    add_crossing(context, report, point.seqlen, point.head_dim);
    if (!count_scaling(context, &unbounded, report, &scaling)) return false;
    add_scaling(context, report, &scaling);
    add_sram(context, &a100, &unbounded, report);
    if (!add_published(context, &a100, &unbounded, report) || !add_unit(context, &unbounded, report)) return false;
    if (!judge_ledgers(context, &unbounded, report) || !judge_column_points(context, &unbounded, report)) return false;
    judge_scaling(report, &scaling);
    judge_chip(context, &a100, &unbounded, report);
    return status_ok(context->status);
}

const Experiment experiment_s2_3_io_complexity = {
    .program = {
        .name = "s2_3_io_complexity",
        .purpose = "FlashAttention-1's HBM traffic against the on-chip size M, and where it pays (lecture 2.3)",
        .examples = {"", "--seqlen 2k,4k --head-dim 128 --sram 96k,192k --dtype fp16"},
        .options = options,
        .option_count = sizeof options / sizeof options[0],
    },
    .report = {
        .section = "2.3",
        .title_en = "IO complexity",
        .title_zh = "IO 复杂度：Θ(N²d²/M)",
        .tables = tables,
        .table_count = sizeof tables / sizeof tables[0],
        .claims = claims,
        .claim_count = sizeof claims / sizeof claims[0],
    },
    .run = run,
};
