/* s1_4_standard_ledger.c - lecture §1.4 and §1.3: what standard attention moves, and which level of memory it moves it through.
 *
 * Standard attention (Dao et al. 2022, Algorithm 0) is three kernels that meet in HBM:
 *
 *     1  S = Q Kᵀ         reads 2Nd        writes N²
 *     2  P = softmax(S)   reads N²         writes N²
 *     3  O = P V          reads N² + Nd    writes Nd           in all 4Nd + 4N²
 *
 * Every element is counted by walking the kernels on the machine without limits, L2 ideal (each operand once per kernel), and
 * stands beside its formula. FLOPs over bytes is a kernel's intensity; a chip's balance point is its peak FLOP/s over its HBM
 * bytes/s. A kernel whose intensity is below the balance point waits for memory even when all else is perfect: it is
 * memory-bound.
 *
 *     kernels 1 and 3    2N²d / (e (2Nd + N²)) = (2/e) d / (1 + 2d/N)    e bytes per element; about d in FP16
 *     kernel 2           5N² / (e 2N²)                                   max, subtract, exp, sum, divide: 1.25 in FP16
 *
 * --hw FILE adds a chip of one's own to the tables of chips. What this leaves out: launch cost, and that a bound is not a speed.
 * The last table shows a softmax that is memory-bound by its intensity and far from the memory's bandwidth all the same.
 */
#include "support/experiment.h"
#include "support/ratios.h"
#include "support/text.h"

#include "algos/run.h"

#include "sim/checked.h"
#include "sim/math_functions.h"
#include "sim/ops.h"

#include <string.h>

/* ---- one walk, summed up per kernel ---- */

enum { KERNELS = 3, TENSOR_ROWS = 8, CHIPS = 4, BLOCK = 128 };

static const char *const kernel_names[KERNELS + 1] = {"1  S = Q K^T", "2  P = softmax(S)", "3  O = P V", "all three"};
static const char *const chip_names[CHIPS] = {"a100", "h100", "h200", "b200"};

/* What one kernel moved of one tensor, in elements. */
typedef struct {
    size_t kernel;
    const char *tensor;
    uint64_t read, written;
} TensorCount;

typedef struct {
    uint64_t read, written;             /* elements, all tensors */
    uint64_t score_read, score_written; /* of S and P among them */
    uint64_t flops, bytes;
} KernelCount;

typedef struct {
    AttentionShape shape;
    TensorCount tensors[TENSOR_ROWS]; /* Q K S, S P, P V O */
    size_t tensor_count;
    KernelCount kernels[KERNELS + 1]; /* the last is the sum */
} Walk;

static double intensity(const KernelCount *k) { return per(k->flops, k->bytes); }

static bool is_score(const char *tensor) { return strcmp(tensor, "S") == 0 || strcmp(tensor, "P") == 0; }

/* Matrix products at 2 FLOP per multiply-add, the rest by the price list (ops.h). */
static uint64_t launch_flops(const LaunchRecord *launch)
{
    uint64_t flops = launch->counts.matmul_flops;
    for (int op = 0; op < OPERATION_KINDS; op++) flops += launch->counts.elements[op] * operation_price((Operation)op);
    return flops;
}

static void add_to(KernelCount *k, const LedgerRow *row)
{
    const uint64_t read = row->traffic.hbm_read, written = row->traffic.hbm_write;
    k->read += read;
    k->written += written;
    k->bytes += (read + written) * element_bytes(row->tensor->type);
    if (!is_score(row->tensor->name)) return;
    k->score_read += read;
    k->score_written += written;
}

static void sum_up(Walk *walk, const Machine *machine)
{
    for (uint32_t i = 0; i < KERNELS && i < machine->launch_count; i++) {
        const LaunchRecord *launch = &machine->launches[i];
        for (uint32_t r = 0; r < launch->row_count && walk->tensor_count < TENSOR_ROWS; r++) {
            const LedgerRow *row = &machine->ledger[launch->first_row + r];
            walk->tensors[walk->tensor_count++] =
                (TensorCount){i, row->tensor->name, row->traffic.hbm_read, row->traffic.hbm_write};
            add_to(&walk->kernels[i], row);
            add_to(&walk->kernels[KERNELS], row);
        }
        walk->kernels[i].flops = launch_flops(launch);
        walk->kernels[KERNELS].flops += walk->kernels[i].flops;
    }
}

static void check_pairs(Report *report, const AttentionRun *run)
{
    CountPair pairs[COUNT_PAIRS];
    count_pairs(&run->totals, &run->closed_form, pairs);
    for (int i = 0; i < COUNT_PAIRS; i++) report_check(report, pairs[i].counted, pairs[i].formula, pairs[i].name);
}

/* Standard attention of one head, counted on the machine without limits. */
static bool walk_standard(const Context *context, Report *report, uint64_t N, uint64_t d, ElementType type, Walk *walk)
{
    AttentionRun run = {0};
    Profile unbounded;
    if (!profile_load("unbounded", context->alloc, &unbounded, context->status)) return false;
    *walk = (Walk){.shape = attention_shape(N, d)};
    walk->shape.dtype = type;
    const RunSetup setup = {.algorithm = &algorithm_standard,
                            .profile = &unbounded,
                            .tiles = {BLOCK, BLOCK},
                            .config = {.mode = MODE_COUNT, .l2 = L2_IDEAL}};
    const bool ok = attention_run_prepare(&run, &setup, &walk->shape, context->alloc, context->status) &&
                    attention_run_forward(&run);
    if (ok) {
        sum_up(walk, &run.machine);
        check_pairs(report, &run);
        const KernelCount *all = &walk->kernels[KERNELS];
        report_check(report, all->read + all->written, standard_elements(N, d, context->status), "elements moved, 4Nd + 4N^2");
    }
    attention_run_free(&run);
    return ok && status_ok(context->status);
}

/* The sweep point's shape where an option gives it, else the lecture's. */
static bool walk_point(const Context *context, Report *report, size_t index, uint64_t N, uint64_t d, Walk *walk)
{
    const Options *o = context->options;
    const OptionPoint point = options_point(o, index);
    if (o->given[OPTION_SEQLEN]) N = point.seqlen;
    if (o->given[OPTION_HEAD_DIM]) d = point.head_dim;
    return walk_standard(context, report, N, d, o->dtype, walk);
}

/* ---- silicon ---- */

/* The three kernels of standard attention alone, BF16, on one H200 (PyTorch 2.11, CUDA 13.0). The first three: CUDA events,
 * median (do_bench). The others: one launch under Nsight Compute, caches flushed, with the bytes that HBM saw. */
typedef struct {
    size_t kernel;
    uint64_t heads, N, d; /* heads: of the whole batch */
    double time_us;
    uint64_t dram_read, dram_write; /* 0: not measured */
} SiliconRow;

static const SiliconRow silicon[] = {
    {0, 4 * 16, 4096, 128, 667.41, 0, 0},
    {1, 4 * 16, 4096, 128, 3868.13, 0, 0},
    {2, 4 * 16, 4096, 128, 578.21, 0, 0},
    {0, 16, 8192, 64, 650.208, 50414848, 2120812800},
    {1, 16, 8192, 64, 3999.168, 2147615488, 2129662464},
    {2, 16, 8192, 64, 540.992, 2165560576, 11279872},
};
enum { SILICON_ROWS = sizeof silicon / sizeof silicon[0] };

/* The HGX B200 datasheet; the profile has the architecture brief's 8.0 TB/s. */
static const double b200_datasheet_tb_per_second = 7.7;

/* ---- the declarations ---- */

static const Column ledger_columns[] = {
    {"N", "", "sequence length"},
    {"d", "", "head dimension"},
    {"kernel", "", "the three launches of Algorithm 0"},
    {"tensor", "", "in HBM"},
    {"read", "elements", "counted by the walk"},
    {"written", "elements", "counted by the walk"},
    {"formula", "", "N d or N^2"},
    {"check", "", "counted against the formula"},
};
static const TableSpec ledger_table = {"ledger", "The ledger: one head, each operand once per kernel", ledger_columns, 8};

static const Column kernel_columns[] = {
    {"N", "", "sequence length"},
    {"d", "", "head dimension"},
    {"kernel", "", "the three launches of Algorithm 0, and their sum"},
    {"read", "elements", "counted by the walk"},
    {"written", "elements", "counted by the walk"},
    {"moved", "elements", "read + written"},
    {"formula", "", "of read + written"},
    {"check", "", "counted against the formula"},
    {"S and P", "%", "share of the moved elements that belong to S or P"},
};
static const TableSpec kernels_table = {"kernels", "Per kernel", kernel_columns, 9};

static const TableSpec bars_table = {"bars", "The same as bars", NULL, 0};

static const Column intensity_columns[] = {
    {"N", "", "sequence length"},
    {"d", "", "head dimension"},
    {"kernel", "", "the three launches of Algorithm 0, and their sum"},
    {"FLOP", "", "2 per multiply-add of a product, 5 per element of the softmax; counted by the walk"},
    {"bytes", "bytes", "read + written"},
    {"intensity", "FLOP/byte", "FLOP over bytes"},
    {"A100", "", "what binds, and the share of the peak FLOP/s that is left at best"},
    {"H100", "", "the same"},
    {"H200", "", "the same"},
    {"B200", "", "the same"},
};
static const TableSpec intensity_table = {"intensity", "Arithmetic intensity, and what binds where", intensity_columns, 10};

static const Column price_columns[] = {
    {"FLOP per element", "", "price of one softmax element"},
    {"what is counted", "", "the operations behind the price"},
    {"intensity", "FLOP/byte", "price over the bytes of one read and one write"},
    {"A100", "x", "balance point over intensity"},
    {"H100", "x", "the same"},
    {"H200", "x", "the same"},
    {"B200", "x", "the same"},
};
static const TableSpec price_table = {"softmax_price", "However a softmax element is priced", price_columns, 7};

static const Column balance_columns[] = {
    {"chip", "", "hardware profile"},
    {"peak", "TFLOP/s", "dense BF16 or FP16, as published"},
    {"HBM", "TB/s", "as published"},
    {"balance", "FLOP/byte", "peak over HBM bandwidth"},
    {"against the row above", "%", "change of the balance point"},
};
static const TableSpec balance_table = {"balance", "Balance points, in the order in which the chips came", balance_columns, 5};

static const Column memory_columns[] = {
    {"chip", "", "hardware profile"},
    {"SMs", "", "streaming multiprocessors"},
    {"HBM", "GB", "capacity"},
    {"HBM rate", "TB/s", "as published"},
    {"L2", "MiB", "capacity"},
    {"L1 + shared", "KiB/SM", "one array on each SM, split between L1 cache and shared memory: the paper's SRAM"},
    {"a block gets", "KiB", "the most shared memory that one thread block can ask for"},
    {"all SMs", "MiB", "SMs * (L1 + shared)"},
    {"SRAM rate", "TB/s", "SMs * 128 bytes * boost clock"},
    {"faster", "x", "SRAM rate over HBM rate"},
    {"smaller, one SM", "orders", "log10 of HBM capacity over L1 + shared of one SM"},
    {"smaller, all SMs", "orders", "log10 of HBM capacity over L1 + shared of all SMs"},
};
static const TableSpec memory_table = {"memory", "The levels of memory (section 1.3)", memory_columns, 12};

static const Column silicon_columns[] = {
    {"kernel", "", "each launched alone"},
    {"heads", "", "batch * heads"},
    {"N", "", "sequence length"},
    {"d", "", "head dimension"},
    {"time", "us", "measured"},
    {"walk", "GB", "bytes by the walk"},
    {"HBM counters", "GB", "bytes read and written by hardware counters, where they were taken"},
    {"counters/walk", "", "1: HBM saw what the walk says"},
    {"rate", "TB/s", "bytes of the walk over time"},
    {"of HBM", "%", "share of the published 4.8 TB/s"},
    {"of peak", "%", "share of the published 989 TFLOP/s"},
};
static const TableSpec silicon_table = {"silicon", "The three kernels on silicon: H200, BF16", silicon_columns, 11};

static const ClaimSpec claims[] = {
    {"1.3-1", "1.3", "A100: HBM capacity", "40-80 GB", VERDICT_EQUAL, "profile a100 (the 80 GB card)", NULL},
    {"1.3-2", "1.3", "A100: HBM bandwidth", "1.5-2.0 TB/s", VERDICT_EQUAL, "profile a100 (the 80 GB card), rounded to 0.1", NULL},
    {"1.3-3", "1.3", "A100: SRAM per SM (KB = 1024 bytes here; includes L1)", "192 KB", VERDICT_EQUAL, "profile a100", NULL},
    {"1.3-4", "1.3", "A100: number of SMs", "108", VERDICT_EQUAL, "profile a100", NULL},
    {"1.3-5", "1.3", "A100: SRAM bandwidth, all SMs", "19 TB/s", VERDICT_EQUAL, "SMs * 128 bytes/cycle * clock", NULL},
    {"1.3-6", "1.3", "SRAM is faster than HBM by", "one order of magnitude", VERDICT_EQUAL,
     "log10 of the ratio, to the nearest integer", NULL},
    {"1.3-7", "1.3", "SRAM of one SM is smaller than HBM by (with KB = 1000 or 1024)", "five orders of magnitude", VERDICT_EQUAL,
     "log10 of 40..80 GB / 192 KB lies between 5 and 6, all SMs apart", NULL},
    {"1.3-8", "1.3", "steps of a GPU computation (slide 8): HBM, compute and SRAM, HBM", "3", VERDICT_CITED, "quoted", NULL},
    {"1.4-1", "1.4", "kernel 1: read, write (N = 256, d = 64)", "2Nd, N^2", VERDICT_EQUAL, "2Nd = 32,768; N^2 = 65,536", NULL},
    {"1.4-2", "1.4", "kernel 2: read, write (N = 256, d = 64)", "N^2, N^2", VERDICT_EQUAL, "N^2 = 65,536", NULL},
    {"1.4-3", "1.4", "kernel 3: read, write (N = 256, d = 64)", "N^2 + Nd, Nd", VERDICT_EQUAL, "N^2 + Nd = 81,920; Nd = 16,384",
     NULL},
    {"1.4-4", "1.4", "standard attention in all (N, d = 256, 64 and 4096, 128)", "4Nd + 4N^2", VERDICT_EQUAL, "walk = 4Nd + 4N^2",
     NULL},
    {"1.4-5", "1.4", "counted elements (N = 256, d = 64)", "327,680", VERDICT_EQUAL, "walk of Algorithm 0", NULL},
    {"1.4-6", "1.4", "share of S and P (N = 256, d = 64)", "80%", VERDICT_EQUAL, "4N^2/(4Nd + 4N^2)", NULL},
    {"1.4-7", "1.4", "balance point of the A100", "153", VERDICT_EQUAL, "312 TFLOP/s / 2.039 TB/s", NULL},
    {"1.4-8", "1.4", "balance point of the H100", "295", VERDICT_EQUAL, "989 TFLOP/s / 3.35 TB/s", NULL},
    {"1.4-9", "1.4", "balance point of the B200", "281", VERDICT_EQUAL, "2250 TFLOP/s / 8.0 TB/s", NULL},
    {"1.4-10", "1.4", "softmax lies below the balance points by (N = 4096, d = 128)", "two orders of magnitude", VERDICT_EQUAL,
     "log10(balance / 1.25) to the nearest integer, 5 FLOP per element", NULL},
    {"1.4-11", "1.4", "intensity of the two products (N = 4096, d = 128)", "about d", VERDICT_EQUAL,
     "d/(1 + 2d/N), within 10 % of d", NULL},
    {"1.4-12", "1.4", "all three kernels are memory-bound on A100, H100 and B200", "all memory-bound", VERDICT_EQUAL,
     "largest intensity < smallest balance point", NULL},
    {"1.4-13", "1.4", "the balance point rises generation by generation", "rises", VERDICT_DIFFERS,
     "peak over HBM bandwidth, A100, H100, B200",
     "from H100 to B200 it falls: bandwidth grew 2.39x, the peak 2.28x (with 7.7 TB/s: 292, still below 295)"},
    {"7-1", "7", "standard attention moves 4Nd + 4N^2, its kernels lie below the balance points (as 1.4-4, 1.4-12)",
     "4Nd + 4N^2, below", VERDICT_EQUAL, "1.4-4 and 1.4-12", NULL},
    {"R-D2", "1.4", "memory-bound on silicon: all three run near the HBM bandwidth (H200, N = 4096, d = 128)", "all three",
     VERDICT_DIFFERS, "bytes of the walk / measured time, at least half of 4.8 TB/s",
     "the products do; PyTorch's softmax draws 23 % of 4.8 TB/s: an intensity bounds a speed, it does not predict it"},
};

static const TableSpec *const tables[] = {
    &ledger_table, &kernels_table, &bars_table, &intensity_table, &price_table, &balance_table, &memory_table, &silicon_table,
};
static const ProgramOption options[] = {{OPTION_SEQLEN, NULL}, {OPTION_HEAD_DIM, NULL}, {OPTION_DTYPE, "fp16"}};

/* ---- ledger and bars ---- */

static void add_ledger(Table *table, const Walk *walk)
{
    const uint64_t N = walk->shape.seqlen_q, d = walk->shape.head_dim;
    for (size_t i = 0; i < walk->tensor_count; i++) {
        const TensorCount *row = &walk->tensors[i];
        const bool score = is_score(row->tensor);
        table_row(table);
        cell_count(table, N);
        cell_count(table, d);
        cell_text(table, kernel_names[row->kernel]);
        cell_text(table, row->tensor);
        cell_count(table, row->read);
        cell_count(table, row->written);
        cell_text(table, score ? "N^2" : "Nd");
        cell_check(table, row->read + row->written, score ? N * N : N * d, row->tensor);
    }
}

static void add_kernels(Table *table, const Walk *walk, Status *status)
{
    static const char *const formulas[KERNELS + 1] = {"2Nd + N^2", "2N^2", "2Nd + N^2", "4Nd + 4N^2"};
    const uint64_t N = walk->shape.seqlen_q, d = walk->shape.head_dim;
    const uint64_t expected[KERNELS + 1] = {2 * N * d + N * N, 2 * N * N, 2 * N * d + N * N, standard_elements(N, d, status)};
    for (size_t i = 0; i <= KERNELS; i++) {
        const KernelCount *k = &walk->kernels[i];
        table_row(table);
        cell_count(table, N);
        cell_count(table, d);
        cell_text(table, kernel_names[i]);
        cell_count(table, k->read);
        cell_count(table, k->written);
        cell_count(table, k->read + k->written);
        cell_text(table, formulas[i]);
        cell_check(table, k->read + k->written, expected[i], kernel_names[i]);
        cell_decimals(table, 100 * per(k->score_read + k->score_written, k->read + k->written), 1);
    }
}

static void bar(Table *picture, const char *kernel, const char *what, uint64_t score, uint64_t all, uint64_t longest)
{
    enum { BAR = 48 };
    char line[BAR + 1];
    const size_t shaded = (size_t)(BAR * per(score, longest) + 0.5), length = (size_t)(BAR * per(all, longest) + 0.5);
    memset(line, '.', BAR);
    memset(line, '#', shaded);
    line[length] = '\0';
    picture_line(picture, "%-18s %-7s |%s", kernel, what, line);
}

/* Three bars per kernel on one scale, the bytes of S and P shaded. */
static void add_bars(Report *report, const Walk *walk)
{
    Table *picture = report_table(report, &bars_table);
    uint64_t longest = 0;
    for (size_t i = 0; i < KERNELS; i++) longest = max_u64(longest, walk->kernels[i].read + walk->kernels[i].written);
    for (size_t i = 0; i < KERNELS; i++) {
        const KernelCount *k = &walk->kernels[i];
        bar(picture, kernel_names[i], "read", k->score_read, k->read, longest);
        bar(picture, "", "written", k->score_written, k->written, longest);
        bar(picture, "", "both", k->score_read + k->score_written, k->read + k->written, longest);
    }
    table_title(picture, "The same as bars: # is S and P, . is Q, K, V, O (N = %" PRIu64 ", d = %" PRIu64 ")",
                walk->shape.seqlen_q, walk->shape.head_dim);
}

static bool add_ledgers(const Context *context, Report *report)
{
    Walk first = {0};
    Table *ledger = report_table(report, &ledger_table), *kernels = report_table(report, &kernels_table);
    for (size_t i = 0; i < options_point_count(context->options); i++) {
        Walk walk;
        if (!walk_point(context, report, i, 256, 64, &walk)) return false;
        if (i == 0) first = walk;
        add_ledger(ledger, &walk);
        add_kernels(kernels, &walk, context->status);
    }
    table_note(kernels, "S is written only to be read back by the next kernel, and so is P. Nothing of either is a result.");
    add_bars(report, &first);
    return true;
}

/* ---- intensity ---- */

static void cell_bound(Table *table, double flop_per_byte, const Profile *chip)
{
    const double share = ratio(flop_per_byte, profile_balance_flops_per_byte(chip));
    if (share <= 0) cell_empty(table);
    else if (share < 1) cell_textf(table, "memory, %.1f %%", 100 * share);
    else cell_text(table, "compute");
}

static bool add_intensity(const Context *context, Report *report, const Profile chips[CHIPS])
{
    Table *table = report_table(report, &intensity_table);
    for (size_t i = 0; i < options_point_count(context->options); i++) {
        Walk walk;
        if (!walk_point(context, report, i, 4096, 128, &walk)) return false;
        for (size_t k = 0; k <= KERNELS; k++) {
            table_row(table);
            cell_count(table, walk.shape.seqlen_q);
            cell_count(table, walk.shape.head_dim);
            cell_text(table, kernel_names[k]);
            cell_count(table, walk.kernels[k].flops);
            cell_count(table, walk.kernels[k].bytes);
            cell_decimals(table, intensity(&walk.kernels[k]), k == 1 ? 2 : 1);
            for (size_t c = 0; c < CHIPS; c++) cell_bound(table, intensity(&walk.kernels[k]), &chips[c]);
        }
    }
    table_note(table, "memory, 41 %%: the kernel waits for HBM, and the tensor cores reach at most 41 %% of their peak.");
    table_note(table,
               "The products cannot do better than d FLOP/byte in FP16 however long N is: their output or input is N x N.");
    return true;
}

static void add_prices(const Context *context, Report *report, const Profile chips[CHIPS])
{
    static const struct {
        uint64_t flops;
        const char *what;
    } prices[] = {{5, "max, subtract, exp, sum, divide (the price list of this project, and 5N^2 of section 3.2)"},
                  {4, "max, exp of the difference as one, sum, divide"},
                  {3, "exp of the difference as one, sum, divide (a comparison is no FLOP)"}};
    Table *table = report_table(report, &price_table);
    const uint64_t bytes = 2 * element_bytes(context->options->dtype);
    for (size_t i = 0; i < sizeof prices / sizeof prices[0]; i++) {
        table_row(table);
        cell_count(table, prices[i].flops);
        cell_text(table, prices[i].what);
        cell_decimals(table, per(prices[i].flops, bytes), 2);
        for (size_t c = 0; c < CHIPS; c++)
            cell_significant(table, ratio(profile_balance_flops_per_byte(&chips[c]), per(prices[i].flops, bytes)), 3);
    }
}

/* ---- chips ---- */

static void cell_if(Table *table, bool there, double real, int decimals)
{
    if (there) cell_decimals(table, real, decimals);
    else cell_empty(table);
}

static bool is_known(const Profile *hw)
{
    for (size_t c = 0; c < CHIPS; c++) {
        if (strcmp(hw->name, chip_names[c]) == 0) return true;
    }
    return false;
}

/* --hw FILE adds a chip of one's own. */
static bool is_extra(const Profile *hw)
{
    return !is_known(hw) && hw->hbm_bytes_per_second_per_chip != PROFILE_UNLIMITED && hw->hbm_bytes_per_chip != PROFILE_UNLIMITED;
}

static void balance_row(Table *table, const char *name, double peak, double bandwidth, double above)
{
    table_row(table);
    cell_text(table, name);
    cell_decimals(table, peak, 0);
    cell_decimals(table, bandwidth, 3);
    cell_decimals(table, peak / bandwidth, 1);
    cell_if(table, above > 0, 100 * (ratio(peak / bandwidth, above) - 1), 1);
}

static void add_balance(const Context *context, Report *report, const Profile chips[CHIPS])
{
    Table *table = report_table(report, &balance_table);
    double above = 0;
    for (size_t c = 0; c < CHIPS; c++) {
        balance_row(table, chips[c].name, tera(chips[c].peak_bf16_flops_per_chip), tera(chips[c].hbm_bytes_per_second_per_chip),
                    above);
        above = profile_balance_flops_per_byte(&chips[c]);
    }
    balance_row(table, "b200, datasheet HBM", tera(chips[CHIPS - 1].peak_bf16_flops_per_chip), b200_datasheet_tb_per_second, 0);
    const Profile *hw = context->hw;
    if (is_extra(hw))
        balance_row(table, hw->name, tera(hw->peak_bf16_flops_per_chip), tera(hw->hbm_bytes_per_second_per_chip), 0);
    table_note(
        table,
        "They do not rise with each generation: the H200 is an H100 with faster memory, and the B200 stays below the H100.");
    table_note(table,
               "The B200's HBM is 8.0 TB/s in the architecture brief (the lecture's 281) and 7.7 TB/s in the HGX datasheet.");
}

static double sram_bytes_per_second(const Profile *p)
{
    return (double)p->sm_count * (double)p->smem_bytes_per_cycle_per_sm * (double)p->boost_clock_hz;
}

static double log10_of(double x) { return log_f64(x) / log_f64(10); }

static void memory_row(Table *table, const Profile *p)
{
    const double sm = (double)p->l1_and_smem_bytes_per_sm, all = sm * (double)p->sm_count, hbm = (double)p->hbm_bytes_per_chip;
    table_row(table);
    cell_text(table, p->name);
    cell_count(table, p->sm_count);
    cell_decimals(table, hbm / 1e9, 0);
    cell_decimals(table, tera(p->hbm_bytes_per_second_per_chip), 3);
    cell_decimals(table, (double)p->l2_bytes_per_chip / (1 << 20), 1);
    cell_decimals(table, sm / 1024, 0);
    cell_decimals(table, (double)p->smem_bytes_per_block / 1024, 0);
    cell_decimals(table, all / (1 << 20), 1);
    cell_decimals(table, sram_bytes_per_second(p) / 1e12, 1);
    cell_decimals(table, sram_bytes_per_second(p) / (double)p->hbm_bytes_per_second_per_chip, 1);
    cell_decimals(table, log10_of(hbm / sm), 1);
    cell_decimals(table, log10_of(hbm / all), 1);
}

static void add_memory(const Context *context, Report *report, const Profile chips[CHIPS])
{
    Table *table = report_table(report, &memory_table);
    for (size_t c = 0; c < CHIPS; c++) memory_row(table, &chips[c]);
    if (is_extra(context->hw)) memory_row(table, context->hw);
    table_note(table, "The A100's 192 KB are 192 KiB and include the L1 cache: a thread block gets at most 163 KiB of them.");
    table_note(table, "Five orders smaller is one SM against all of HBM; all SMs together are three and a half orders smaller.");
}

/* ---- silicon ---- */

typedef struct {
    double bytes, flops, tb_per_second;
} SiliconRate;

static bool silicon_rate(const Context *context, Report *report, const SiliconRow *row, SiliconRate *rate)
{
    Walk walk;
    if (!walk_standard(context, report, row->N, row->d, ELEMENT_BF16, &walk)) return false;
    const KernelCount *k = &walk.kernels[row->kernel];
    rate->bytes = (double)row->heads * (double)k->bytes;
    rate->flops = (double)row->heads * (double)k->flops;
    rate->tb_per_second = rate->bytes / row->time_us / 1e6;
    return true;
}

static bool add_silicon(const Context *context, Report *report, const Profile *h200)
{
    Table *table = report_table(report, &silicon_table);
    for (size_t i = 0; i < SILICON_ROWS; i++) {
        const SiliconRow *row = &silicon[i];
        const double counted = (double)(row->dram_read + row->dram_write);
        SiliconRate rate;
        if (!silicon_rate(context, report, row, &rate)) return false;
        table_row(table);
        cell_text(table, kernel_names[row->kernel]);
        cell_count(table, row->heads);
        cell_count(table, row->N);
        cell_count(table, row->d);
        cell_significant(table, row->time_us, 4);
        cell_decimals(table, rate.bytes / 1e9, 3);
        cell_if(table, counted > 0, counted / 1e9, 3);
        cell_if(table, counted > 0, counted / rate.bytes, 3);
        cell_decimals(table, rate.tb_per_second, 2);
        cell_decimals(table, 100 * rate.tb_per_second / tera(h200->hbm_bytes_per_second_per_chip), 0);
        cell_decimals(table, 100 * rate.flops / row->time_us / 1e6 / tera(h200->peak_bf16_flops_per_chip), 1);
    }
    table_note(
        table,
        "Measured on one H200 (PyTorch 2.11, CUDA 13.0). Times: CUDA events, median; with counters: one launch, caches flushed.");
    table_note(
        table,
        "HBM saw the bytes of the walk, yet the softmax takes over 4 times as long as they need: something else holds it.");
    return true;
}

/* ---- the claims, at the lecture's shapes ---- */

static void judge_memory(Report *report, const Profile *a100)
{
    const double hbm = tera(a100->hbm_bytes_per_second_per_chip), sram = sram_bytes_per_second(a100) / 1e12;
    const double sm = (double)a100->l1_and_smem_bytes_per_sm, all = sm * (double)a100->sm_count;
    const double low = log10_of(40e9 / sm), high = log10_of(80e9 / sm), faster = log10_of(sram / hbm);
    claim_holds(report, "1.3-1",
                a100->hbm_bytes_per_chip >= UINT64_C(40000000000) && a100->hbm_bytes_per_chip <= UINT64_C(80000000000),
                "%" PRIu64 " GB", a100->hbm_bytes_per_chip / 1000000000);
    claim_holds(report, "1.3-2", hbm >= 1.5 && hbm < 2.05, "%.3f TB/s", hbm);
    claim_holds(report, "1.3-3", a100->l1_and_smem_bytes_per_sm == 192 * 1024, "%" PRIu64 " KiB; a block gets %" PRIu64 " KiB",
                a100->l1_and_smem_bytes_per_sm / 1024, a100->smem_bytes_per_block / 1024);
    claim_count(report, "1.3-4", 108, a100->sm_count, "");
    claim_decimals(report, "1.3-5", 19, 0, sram, " TB/s");
    claim_holds(report, "1.3-6", faster >= 0.5 && faster < 1.5, "%.1fx, %.2f orders", sram / hbm, faster);
    const double low_1000 = log10_of(40e9 / 192e3), high_1000 = log10_of(80e9 / 192e3); /* the same with KB = 1000 bytes */
    claim_holds(report, "1.3-7", low >= 5 && high < 6 && low_1000 >= 5 && high_1000 < 6,
                "one SM %.1f to %.1f, all SMs %.1f to %.1f orders", low, high, log10_of(40e9 / all), log10_of(80e9 / all));
    claim_cited(report, "1.3-8", "-");
}

static void judge_kernel(Report *report, const char *id, const KernelCount *k, uint64_t read, uint64_t written)
{
    char r[NUMBER_SIZE], w[NUMBER_SIZE];
    claim_holds(report, id, k->read == read && k->written == written, "read %s, write %s",
                format_count(r, k->read, GROUP_THOUSANDS), format_count(w, k->written, GROUP_THOUSANDS));
}

static bool judge_ledger(const Context *context, Report *report, const Walk *small, const Walk *large)
{
    const uint64_t N = 256, d = 64, counted = small->kernels[KERNELS].read + small->kernels[KERNELS].written;
    const uint64_t large_counted = large->kernels[KERNELS].read + large->kernels[KERNELS].written;
    const KernelCount *all = &small->kernels[KERNELS];
    judge_kernel(report, "1.4-1", &small->kernels[0], 2 * N * d, N * N);
    judge_kernel(report, "1.4-2", &small->kernels[1], N * N, N * N);
    judge_kernel(report, "1.4-3", &small->kernels[2], N * N + N * d, N * d);
    const bool equal =
        counted == standard_elements(N, d, context->status) && large_counted == standard_elements(4096, 128, context->status);
    char first[NUMBER_SIZE], second[NUMBER_SIZE];
    claim_holds(report, "1.4-4", equal, "%s and %s", format_count(first, counted, GROUP_THOUSANDS),
                format_count(second, large_counted, GROUP_THOUSANDS));
    claim_count(report, "1.4-5", 327680, counted, "");
    claim_decimals(report, "1.4-6", 80, 0, 100 * per(all->score_read + all->score_written, counted), "%");
    return equal;
}

static double smaller(double a, double b) { return a < b ? a : b; }

static void judge_balance(Report *report, const Walk *large, const Profile chips[CHIPS], bool equal)
{
    const double a100 = profile_balance_flops_per_byte(&chips[0]), h100 = profile_balance_flops_per_byte(&chips[1]);
    const double b200 = profile_balance_flops_per_byte(&chips[3]);
    const double lowest = smaller(a100, smaller(h100, b200)), highest = -smaller(-a100, smaller(-h100, -b200));
    const double qk = intensity(&large->kernels[0]), softmax = intensity(&large->kernels[1]), pv = intensity(&large->kernels[2]);
    const double from = log10_of(lowest / softmax), to = log10_of(highest / softmax), product = -smaller(-qk, -pv), d = 128;
    const bool below = qk < lowest && softmax < lowest && pv < lowest;
    claim_decimals(report, "1.4-7", 153, 0, a100, "");
    claim_decimals(report, "1.4-8", 295, 0, h100, "");
    claim_decimals(report, "1.4-9", 281, 0, b200, "");
    claim_holds(report, "1.4-10", from >= 1.5 && to < 2.5, "%.2f FLOP/byte: %.0f, %.0f, %.0f times below", softmax,
                a100 / softmax, h100 / softmax, b200 / softmax);
    claim_holds(report, "1.4-11", qk > 0.9 * d && qk <= d && pv > 0.9 * d && pv <= d, "%.1f and %.1f", qk, pv);
    claim_holds(report, "1.4-12", below, "at most %.1f < %.0f", product, lowest);
    claim_holds(report, "1.4-13", a100 < h100 && h100 < b200, "%.0f, %.0f, %.0f", a100, h100, b200);
    claim_holds(report, "7-1", below && equal, "4Nd + 4N^2, at most %.1f < %.0f", product, lowest);
}

static bool judge_claims(const Context *context, Report *report, const Profile chips[CHIPS])
{
    Walk small, large;
    SiliconRate rates[KERNELS];
    if (!walk_standard(context, report, 256, 64, ELEMENT_FP16, &small)) return false;
    if (!walk_standard(context, report, 4096, 128, ELEMENT_FP16, &large)) return false;
    judge_memory(report, &chips[0]);
    const bool equal = judge_ledger(context, report, &small, &large);
    judge_balance(report, &large, chips, equal);
    bool near_bandwidth = true;
    for (size_t i = 0; i < KERNELS; i++) {
        if (!silicon_rate(context, report, &silicon[i], &rates[i])) return false;
        near_bandwidth = near_bandwidth && rates[i].tb_per_second >= 0.5 * tera(chips[2].hbm_bytes_per_second_per_chip);
    }
    claim_holds(report, "R-D2", near_bandwidth, "%.2f, %.2f, %.2f TB/s", rates[0].tb_per_second, rates[1].tb_per_second,
                rates[2].tb_per_second);
    return status_ok(context->status);
}

static bool run(Context *context, Report *report)
{
    Profile chips[CHIPS];
    for (size_t c = 0; c < CHIPS; c++) {
        if (!profile_load(chip_names[c], context->alloc, &chips[c], context->status)) return false;
    }
    report_param_text(report, "hw", context->hw->name);
    report_param_text(report, "dtype", option_choice(OPTION_DTYPE, (int)context->options->dtype));
    if (!add_ledgers(context, report) || !add_intensity(context, report, chips)) return false;
    add_prices(context, report, chips);
    add_balance(context, report, chips);
    add_memory(context, report, chips);
    return add_silicon(context, report, &chips[2]) && judge_claims(context, report, chips);
}

const Experiment experiment_s1_4_standard_ledger = {
    .program = {
        .name = "s1_4_standard_ledger",
        .purpose = "what standard attention moves, its arithmetic intensity, and the levels of memory (lecture 1.3, 1.4)",
        .examples = {"", "--seqlen 1k,16k --head-dim 64,256"},
        .options = options,
        .option_count = sizeof options / sizeof options[0],
    },
    .report = {
        .section = "1.4",
        .title_en = "The ledger of standard attention",
        .title_zh = "标准实现的读写账",
        .tables = tables,
        .table_count = sizeof tables / sizeof tables[0],
        .claims = claims,
        .claim_count = sizeof claims / sizeof claims[0],
    },
    .run = run,
};
