/* s2_4_l2_roofline.c - lecture §2.4: the lower bound, what the L2 cache changes, and the roofline before and after.
 *
 * In the paper's model there is nothing between HBM and the SMs. Every query block of FlashAttention-2 then reads all of K and V:
 *
 *     2Nd (Q, O) + 2Nd N/Br (K, V)    against    4Nd + 4N² of standard attention: about d / (2 Br) of it
 *
 * Real chips have an L2 cache, and the query blocks of a head read the same K and V. If it holds them (L2 ideal), HBM sees Q, K,
 * V and O once, 4Nd, and the kernel turns from memory-bound to compute-bound. So an intensity means nothing until its L2 model is
 * named. Here both stand side by side, for standard attention too, whose products also read K and V for every query block.
 *
 *     time of a kernel = max(FLOPs / peak, bytes / HBM bandwidth)     standard attention: the sum over its three kernels
 *
 * Between "not there" and "perfect" lies a cache of some size: sim/l2_launch.h lets all heads run through one. The tables hbm_reads and hbm_writes
 * put all three beside the counters of one H200, the kernels of standard attention too. Left out: everything that keeps a kernel below its
 * roofline. --hw FILE adds a chip of one's own.
 */
#include "support/chips.h"
#include "support/experiment.h"
#include "support/h200_dram.h"
#include "support/ratios.h"

#include "algos/run.h"

#include "sim/checked.h"
#include "sim/ops.h"

#include <string.h>

/* ---- one walk ---- */

enum { KERNELS = 3, CHIPS = 4, MOST_CHIPS = CHIPS + 1, H200 = 2 };

static const char *const chip_names[CHIPS] = {"a100", "h100", "h200", "b200"};

/* FLOPs (matrix products, and the rest by the price list) and HBM bytes of one launch, the statistics L left out. */
typedef struct {
    uint64_t flops, bytes;
} KernelWork;

/* What one head moved, in bytes of HBM unless said otherwise. */
typedef struct {
    AttentionShape shape;
    uint32_t Br, Bc;
    uint64_t q_o, k_v, s_p, l, all, all_formula;
    uint64_t k_v_elements;
    uint64_t qkv_read; /* HBM to L2 */
    uint64_t sm_read;  /* L2 to the SMs */
    uint64_t matmul_flops;
    KernelWork kernels[KERNELS]; /* FlashAttention: the first only */
    uint64_t smem_per_block;     /* of the first launch */
} Walk;

/* 4N²d (less under a mask) over the bytes of everything but L. */
static double flop_per_byte(const Walk *walk) { return per(walk->matmul_flops, walk->all - walk->l); }

static bool is_either(const char *name, const char *a, const char *b) { return strcmp(name, a) == 0 || strcmp(name, b) == 0; }

static void add_row(Walk *walk, KernelWork *kernel, const LedgerRow *row)
{
    const char *name = row->tensor->name;
    const uint64_t elements = row->traffic.hbm_read + row->traffic.hbm_write, size = element_bytes(row->tensor->type);
    const bool k_v = is_either(name, "K", "V"), q_o = is_either(name, "Q", "O"), s_p = is_either(name, "S", "P");
    uint64_t *const kind = k_v ? &walk->k_v : q_o ? &walk->q_o : s_p ? &walk->s_p : &walk->l;
    *kind += elements * size;
    if (kind != &walk->l) kernel->bytes += elements * size;
    if (k_v) walk->k_v_elements += elements;
    if (k_v || q_o) walk->qkv_read += row->traffic.hbm_read * size;
}

static void sum_up(Walk *walk, const AttentionRun *run)
{
    const Machine *machine = &run->machine;
    for (uint32_t i = 0; i < KERNELS && i < machine->launch_count; i++) {
        const LaunchRecord *launch = &machine->launches[i];
        walk->kernels[i].flops = launch->counts.matmul_flops;
        for (int op = 0; op < OPERATION_KINDS; op++)
            walk->kernels[i].flops += launch->counts.elements[op] * operation_price((Operation)op);
        for (uint32_t r = 0; r < launch->row_count; r++)
            add_row(walk, &walk->kernels[i], &machine->ledger[launch->first_row + r]);
    }
    walk->all = run->totals.hbm_read_bytes + run->totals.hbm_write_bytes;
    walk->all_formula = run->closed_form.hbm_read_bytes + run->closed_form.hbm_write_bytes;
    walk->sm_read = run->totals.l2_to_sm_bytes;
    walk->matmul_flops = run->totals.matmul_flops;
    walk->smem_per_block = machine->launches[0].smem_peak_bytes;
}

/* One head on this machine. */
static bool walk_on(const Context *context, const Profile *hw, const Algorithm *algorithm, const AttentionShape *shape, TileSize tiles,
                    L2Model l2, Walk *walk, Status *status)
{
    AttentionRun run = {0};
    *walk = (Walk){.shape = *shape, .Br = tiles.Br, .Bc = tiles.Bc};
    const RunSetup setup = {.algorithm = algorithm, .profile = hw, .tiles = tiles, .config = {.mode = MODE_COUNT, .l2 = l2}};
    const bool ok = attention_run_prepare(&run, &setup, shape, context->alloc, status) && attention_run_forward(&run);
    if (ok) sum_up(walk, &run);
    attention_run_free(&run);
    return ok && status_ok(status);
}

/* On the machine without limits. */
static bool walk_head(const Context *context, const Algorithm *algorithm, const AttentionShape *shape, TileSize tiles, L2Model l2,
                      Walk *walk)
{
    Profile unbounded;
    return profile_load("unbounded", context->alloc, &unbounded, context->status) &&
           walk_on(context, &unbounded, algorithm, shape, tiles, l2, walk, context->status);
}

/* Both algorithms under both L2 models at one shape. */
typedef struct {
    Walk standard[2], fa2[2]; /* by L2_NONE, L2_IDEAL */
} Pair;

static bool walk_pair(const Context *context, const AttentionShape *shape, TileSize tiles, Pair *pair)
{
    for (int l2 = L2_NONE; l2 <= L2_IDEAL; l2++) {
        if (!walk_head(context, &algorithm_standard, shape, tiles, (L2Model)l2, &pair->standard[l2])) return false;
        if (!walk_head(context, &algorithm_fa2, shape, tiles, (L2Model)l2, &pair->fa2[l2])) return false;
    }
    return true;
}

static AttentionShape point_shape(const Context *context, const OptionPoint *point)
{
    AttentionShape shape = attention_shape(point->seqlen, point->head_dim);
    shape.dtype = context->options->dtype;
    return shape;
}

/* ---- the roofline ---- */

/* Seconds. */
typedef struct {
    double compute, memory, bound; /* bound: what the roofline allows */
} KernelTime;

static KernelTime kernel_time(const KernelWork *work, const Profile *chip)
{
    const double compute = per(work->flops, chip->peak_bf16_flops_per_chip);
    const double memory = per(work->bytes, chip->hbm_bytes_per_second_per_chip);
    return (KernelTime){compute, memory, compute > memory ? compute : memory};
}

static double standard_seconds(const Walk *walk, const Profile *chip)
{
    double seconds = 0;
    for (int i = 0; i < KERNELS; i++) seconds += kernel_time(&walk->kernels[i], chip).bound;
    return seconds;
}

/* The roofline of FlashAttention takes its matrix products alone, as benchmarks count. */
static KernelTime fa2_time(const Walk *walk, const Profile *chip)
{
    const KernelWork work = {walk->matmul_flops, walk->kernels[0].bytes};
    return kernel_time(&work, chip);
}

static double speed_up(const Walk *standard, const Walk *fa2, const Profile *chip)
{
    return ratio(standard_seconds(standard, chip), fa2_time(fa2, chip).bound);
}

/* The lecture's three, the H200, and with --hw FILE one's own. */
typedef struct {
    Profile all[MOST_CHIPS];
    const Profile *by_balance[MOST_CHIPS]; /* rising */
    size_t count;
} Chips;

static void sort_by_balance(Chips *chips)
{
    for (size_t c = 0; c < chips->count; c++) {
        size_t place = c;
        for (; place > 0; place--) {
            const Profile *before = chips->by_balance[place - 1];
            if (profile_balance_flops_per_byte(before) <= profile_balance_flops_per_byte(&chips->all[c])) break;
            chips->by_balance[place] = before;
        }
        chips->by_balance[place] = &chips->all[c];
    }
}

static bool load_sorted(const Context *context, Chips *chips)
{
    const Profile *hw = context->hw;
    const bool has_roofline = hw->hbm_bytes_per_second_per_chip != PROFILE_UNLIMITED && hw->l2_bytes_per_chip != PROFILE_UNLIMITED;
    chips->count = load_chips(context, chip_names, CHIPS, has_roofline, chips->all);
    sort_by_balance(chips);
    return chips->count > 0;
}

/* Blocks of FlashAttention-2 that one SM holds at once, by shared memory and registers. */
static uint64_t blocks_per_sm(const Profile *chip, const Walk *fa2, TileSize tiles)
{
    const Geometry geometry = algorithm_fa2.geometry(&fa2->shape, tiles);
    const uint64_t by_smem = chip->smem_bytes_per_sm / max_u64(fa2->smem_per_block + chip->smem_reserved_bytes_per_block, 1);
    const uint64_t per_warp = ceil_div(geometry.registers_per_thread * chip->warp_size, chip->register_granule_per_warp) *
                              chip->register_granule_per_warp;
    const uint64_t by_registers = chip->registers_per_sm / (per_warp * ceil_div(geometry.threads, chip->warp_size));
    return min_u64(by_smem, by_registers);
}

/* ---- silicon: one H200, PyTorch 2.11, CUDA 13.0, cuDNN 9.19, BF16 ---- */

/* Wall time: CUDA events, median. No mask, d = 128. */
typedef struct {
    const char *kernel;
    TensorInstruction instruction;
    uint64_t heads, N; /* heads: of the whole batch */
    double time_us;
} SpeedRow;

static const SpeedRow speeds[] = {
    {"FlashAttention-2", TENSOR_MMA_SYNC, 64, 4096, 1562.66},
    {"FlashAttention-2", TENSOR_MMA_SYNC, 16, 16384, 6291.49},
    {"cuDNN", TENSOR_WGMMA, 64, 4096, 860.62},
    {"cuDNN", TENSOR_WGMMA, 16, 16384, 3261.25},
};
enum { SPEED_ROWS = sizeof speeds / sizeof speeds[0] };

/* ---- the declarations ---- */

static const Column traffic_columns[] = {
    {"N", "", "sequence length"},
    {"d", "", "head dimension"},
    {"Br", "", "query rows per block"},
    {"algorithm", "", "standard attention (three kernels) or FlashAttention-2"},
    {"L2", "", "none: every load goes to HBM; ideal: each byte once per kernel; simulated: the cache of --hw, if the kernel fits that chip"},
    {"Q, O", "MiB", "HBM traffic, read + written"},
    {"K, V", "MiB", "HBM traffic"},
    {"S, P", "MiB", "HBM traffic"},
    {"sum", "MiB", "of the three"},
    {"L", "MiB", "logsumexp of each row, float32"},
    {"check", "", "all bytes against the closed form; between: a simulated cache lies between the other two"},
    {"intensity", "FLOP/byte", "FLOPs of the matrix products over the sum"},
};
static const TableSpec traffic_table = {"traffic", "HBM traffic of one head: no L2, an ideal and a simulated one", traffic_columns, 12};

static const Column reread_columns[] = {
    {"Br", "", "query rows per block"},
    {"K, V read", "elements", "by FlashAttention-2 without L2, counted by the walk"},
    {"formula", "elements", "2Nd ceil(N/Br)"},
    {"check", "", "counted against the formula"},
    {"over 4N^2", "%", "of the traffic of S and P in standard attention"},
    {"d/(2 Br)", "%", "the rule of the lecture"},
    {"sum", "MiB", "all but L"},
    {"intensity", "FLOP/byte", "FLOPs of the matrix products over the sum"},
};
static const TableSpec reread_table = {"rereads", "Without L2: larger query blocks read K and V less often", reread_columns, 8};

static const Column fit_columns[] = {
    {"N", "", "sequence length"},     {"K, V", "MiB", "of one head: 2Nd elements"},
    {"A100", "%", "share of its L2"}, {"H100", "%", "share of its L2"},
    {"H200", "%", "share of its L2"}, {"B200", "%", "share of its L2"},
};
static const TableSpec fit_table = {"fit", "K and V of one head against L2", fit_columns, 6};

static const Column working_columns[] = {
    {"chip", "", "hardware profile"},
    {"SMs", "", "streaming multiprocessors"},
    {"blocks per SM", "", "of FlashAttention-2, by shared memory and registers"},
    {"rows at once", "", "query rows of all resident blocks"},
    {"K, V in use", "MiB", "K and V of as many rows: what the resident blocks read together, whatever N is"},
    {"L2", "MiB", "capacity"},
    {"longest N", "", "whose K and V of one head still fit into L2"},
};
static const TableSpec working_table = {"in_use", "K and V that the blocks running at once share", working_columns, 7};

static const Column roofline_columns[] = {
    {"N", "", "sequence length"},
    {"d", "", "head dimension"},
    {"chip", "", "hardware profile, by rising balance point"},
    {"balance", "FLOP/byte", "peak over HBM bandwidth"},
    {"standard", "us", "sum over the three kernels of max(FLOPs/peak, bytes/bandwidth)"},
    {"FA2 compute", "us", "FLOPs of the matrix products over the peak"},
    {"FA2 memory", "us", "bytes over the HBM bandwidth, L left out"},
    {"FA2", "us", "the larger of both"},
    {"FA2 bound", "", "which of both it is"},
    {"speed-up", "x", "standard over FA2"},
    {"standard peak", "%", "share of the peak FLOP/s"},
    {"FA2 peak", "%", "share of the peak FLOP/s"},
};
static const TableSpec ideal_table = {"roofline", "Roofline of one head, ideal L2 (the lecture's table)", roofline_columns, 12};
static const TableSpec none_table = {"roofline_none", "Roofline of one head, no L2", roofline_columns, 12};

static const Column bound_columns[] = {
    {"M", "elements", "on-chip memory"},
    {"is", "", "where it lies in [d, Nd]"},
    {"bound", "elements", "N^2 d^2 / M"},
    {"FA1", "elements", "counted by the walk, no L2"},
    {"FA1/bound", "", "a constant factor: no algorithm does better than the order of the bound for all M"},
    {"compulsory", "elements", "4Nd: read Q, K, V, write O"},
};
static const TableSpec bound_table = {"lower_bound", "The lower bound (N = 1024, d = 64)", bound_columns, 6};

static const Column counter_columns[] = {
    {"kernel", "", "as shipped; standard: cuBLAS and PyTorch's softmax"},
    {"mask", "", "none or causal"},
    {"heads", "", "batch 1"},
    {"N", "", "sequence length"},
    {"d", "", "head dimension"},
    {"none", "MB", "no L2: what the SMs ask for in the walk"},
    {"ideal", "MB", "each byte once: the walk with an ideal L2"},
    {"LRU", "MB", "all heads through a cache of 30 MiB (what all SMs read is in both partitions) that drops what was not used for longest"},
    {"simulated", "MB", "through two partitions of 30 MiB that know ages roughly, with the registers that FA2 spills"},
    {"measured", "MB", "hardware counter"},
    {"once", "x", "measured over ideal; 1: HBM reads each byte once"},
    {"sim/meas", "x", "simulated over measured"},
    {"L2/walk", "x", "L2 to the SMs: hardware counter over what the SMs ask for in the walk"},
};
static const TableSpec counter_table = {"hbm_reads", "On silicon: what HBM reads with no L2, an ideal, a simulated and the real one (H200)",
                                        counter_columns, 13};

static const Column write_columns[] = {
    {"kernel", "", "as shipped"},
    {"mask", "", "none or causal"},
    {"N", "", "sequence length"},
    {"d", "", "head dimension"},
    {"stored", "MB", "what the launch leaves in memory: with an ideal L2 as much is written to HBM"},
    {"simulated", "MB", "written back before the launch ends"},
    {"measured", "MB", "hardware counter"},
    {"dirty", "MB", "simulated: still in L2 when the launch ends"},
    {"spilled", "MB", "simulated: registers, part of what is written back"},
    {"profiler", "MB", "simulated: what the profiler had left dirty, another part"},
    {"SM to L2", "x", "hardware counter, over stored: additions to dQ, and spilled registers"},
};
static const TableSpec write_table = {"hbm_writes", "On silicon: what HBM has written when the launch ends (H200)", write_columns, 11};

static const Column speed_columns[] = {
    {"kernel", "", "as shipped"},
    {"heads", "", "batch * heads"},
    {"N", "", "sequence length"},
    {"time", "us", "measured"},
    {"roofline", "us", "of the same heads, ideal L2"},
    {"rate", "TFLOP/s", "FLOPs of the matrix products over time"},
    {"of peak", "%", "share of the published 989 TFLOP/s"},
    {"of its instruction", "%", "share of what its tensor-core instruction can do: mma.sync 649, wgmma 989 TFLOP/s"},
    {"HBM busy", "%", "compulsory bytes over time and bandwidth"},
};
static const TableSpec speed_table = {"speed", "On silicon: is it bound by compute? (H200, d = 128, no mask)", speed_columns, 9};

static const ClaimSpec claims[] = {
    {"2.4-1", "2.4", "Proposition 3: for M in [d, Nd] no exact algorithm needs", "o(N^2 d^2/M) for all M", VERDICT_CITED,
     "quoted: Dao et al. 2022", NULL},
    {"2.4-2", "2.4", "at M = Nd the bound is what any algorithm must read", "N^2 d^2/M = Nd", VERDICT_EQUAL,
     "N^2 d^2/(Nd) at N = 1024, d = 64; FA1 at this M by the walk", NULL},
    {"2.4-3", "2.4", "K and V read by FA2 without L2 hits (N = 4096, d = 128, Br = 128)", "2N^2 d/Br", VERDICT_EQUAL,
     "walk = 2N^2 d/Br = 33,554,432", NULL},
    {"2.4-4", "2.4", "of the 4N^2 of standard attention (Br = d = 128)", "d/(2Br) = 1/2", VERDICT_EQUAL,
     "K, V of FA2 / S, P of standard", NULL},
    {"2.4-5", "2.4", "standard attention (N = 4096, d = 128)", "132 MiB", VERDICT_EQUAL, "walk, each operand once per kernel",
     NULL},
    {"2.4-6", "2.4", "FA2 without L2 hits (N = 4096, d = 128, Br = 128), L left out", "66 MiB", VERDICT_EQUAL, "walk, no L2",
     NULL},
    {"2.4-7", "2.4", "K and V of one head (N = 16K, d = 128)", "8 MiB", VERDICT_EQUAL, "walk, ideal L2", NULL},
    {"2.4-8", "2.4", "L2 of A100 and H100", "40 MB, 50 MB", VERDICT_EQUAL, "profiles a100 and h100, in MiB", NULL},
    {"2.4-9", "2.4", "FlashAttention becomes compute-bound (N = 4096, d = 128)", "compute-bound", VERDICT_EQUAL,
     "4N^2 d / (4Nd * 2 bytes) = N/2 > balance point of all chips, ideal L2", NULL},
    {"2.4-10", "2.4", "the higher the balance point, the larger the speed-up", "rises with it", VERDICT_EQUAL,
     "(4Nd + 4N^2) 2/bandwidth / (4N^2 d/peak) = 2(N + d)/(Nd) * balance", NULL},
    {"R-D3", "2.4", "HBM reads Q, K and V once each (H200; FA2, N = 16K, d = 128, without and with causal mask)", "1.00x",
     VERDICT_DIFFERS, "HBM read counter / bytes of Q, K, V",
     "what all SMs read is in both partitions of L2, so Q, K, V and O of a wave have 30 MiB, and heads cut by a wave are read twice"},
    {"R-C-2.4-fits", "2.4", "HBM reads where the simulated L2 or the H200 reads everything once: the largest deviation", "within 3 %", VERDICT_CLOSE,
     "simulated / measured, rows of table hbm_reads within 3 % of ideal", NULL},
    {"R-C-2.4-misses", "2.4", "HBM reads where both read more than once: the largest deviation", "within 30 %", VERDICT_CLOSE, "simulated / measured",
     NULL},
    {"R-C-2.4-cliff", "2.4", "FA2 with causal mask (N = 16K, d = 128): LRU over measured", "within 30 %", VERDICT_DIFFERS,
     "LRU / measured",
     "last keys first, no two blocks share a tile at a time: 22 of 30 MiB are in use, which LRU holds; the chip's cache does not tell what is "
     "in use from what was, and spilled registers take their part"},
    {"R-C-2.4-dirty", "2.4", "HBM has written what a launch stored when it ends (cuDNN, N = 16K, d = 128)", "100 %", VERDICT_DIFFERS,
     "HBM write counter / bytes stored", "a write-back cache: the last lines written still wait in L2, as simulated; 2.5 MB of both are what the profiler left dirty"},
    {"R-D4", "2.4", "FA2 as shipped is bound by the tensor cores (H200, N = 4096, d = 128)", "compute-bound", VERDICT_DIFFERS,
     "measured rate over peak, at least 80 % (as a good matrix product)",
     "a roofline is an upper bound: HBM is 4 % busy, mma.sync 54 %; FA2 waits for its own chain of dependent instructions"},
};

static const TableSpec *const tables[] = {
    &bound_table, &traffic_table, &reread_table, &fit_table, &working_table, &ideal_table, &none_table, &counter_table,
    &write_table, &speed_table,
};
static const ProgramOption options[] = {
    {OPTION_SEQLEN, "4k"}, {OPTION_HEAD_DIM, "128"}, {OPTION_BLOCK_Q, "128"}, {OPTION_BLOCK_K, "64"}, {OPTION_DTYPE, "bf16"},
};

/* ---- the lower bound ---- */

static bool fa1_elements_counted(const Context *context, Report *report, uint64_t N, uint64_t d, uint64_t M, uint64_t *elements)
{
    AttentionRun run = {0};
    Profile unbounded;
    if (!profile_load("unbounded", context->alloc, &unbounded, context->status)) return false;
    const AttentionShape shape = attention_shape(N, d);
    const TileSize tiles = paper_tiles(M, d);
    const bool ok = attention_count(&run, &algorithm_fa1, &shape, tiles, L2_NONE, &unbounded, context->alloc, context->status);
    *elements = run.totals.hbm_read_elements + run.totals.hbm_write_elements;
    if (ok) report_check(report, *elements, fa1_elements(N, d, tiles.Bc, context->status), "elements moved by FA1");
    attention_run_free(&run);
    return ok;
}

static bool add_lower_bound(const Context *context, Report *report)
{
    const uint64_t N = 1024, d = 64;
    const struct {
        uint64_t M;
        const char *is;
    } points[] = {{d * d, "d^2"}, {4 * d * d, "4 d^2"}, {N * d / 2, "Nd/2"}, {N * d, "Nd: all of K fits"}};
    Table *table = report_table(report, &bound_table);
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
        const uint64_t M = points[i].M, bound = N * N * d * d / M;
        uint64_t counted = 0;
        if (!fa1_elements_counted(context, report, N, d, M, &counted)) return false;
        table_row(table);
        cell_count(table, M);
        cell_text(table, points[i].is);
        cell_count(table, bound);
        cell_count(table, counted);
        cell_decimals(table, per(counted, bound), 2);
        cell_count(table, 4 * N * d);
        if (M == N * d)
            claim_holds(report, "2.4-2", bound == N * d, "Nd = %" PRIu64 "; FA1 moves %.2f Nd", bound, per(counted, N * d));
    }
    table_note(table, "The bound is an order of growth: FA1 keeps within a constant factor of it (12 to 16 here).");
    return true;
}

/* ---- traffic ---- */

/* All but the last two cells. */
static void traffic_cells(Table *table, const char *algorithm, const char *l2, const Walk *walk)
{
    table_row(table);
    cell_count(table, walk->shape.seqlen_q);
    cell_count(table, walk->shape.head_dim);
    cell_count(table, walk->Br);
    cell_text(table, algorithm);
    cell_text(table, l2);
    cell_decimals(table, mebi(walk->q_o), 2);
    cell_decimals(table, mebi(walk->k_v), 2);
    cell_decimals(table, mebi(walk->s_p), 2);
    cell_decimals(table, mebi(walk->all - walk->l), 2);
    cell_decimals(table, mebi(walk->l), 3);
}

static void traffic_row(Table *table, const char *algorithm, const char *l2, const Walk *walk)
{
    traffic_cells(table, algorithm, l2, walk);
    cell_check(table, walk->all, walk->all_formula, algorithm);
    cell_decimals(table, flop_per_byte(walk), 1);
}

/* A kernel with these tiles may not fit this chip, or its walk be too long for the cache: then there is no line. */
static bool simulated_row(const Context *context, Report *report, Table *table, const Algorithm *algorithm, const char *name, const Walk by_l2[2])
{
    Status status = {0};
    Walk walk;
    const TileSize tiles = {by_l2[L2_IDEAL].Br, by_l2[L2_IDEAL].Bc};
    if (!walk_on(context, context->hw, algorithm, &by_l2[L2_IDEAL].shape, tiles, L2_SIMULATED, &walk, &status))
        return status.code == STATUS_INFEASIBLE || status_fail(context->status, status.code, "%s", status.text);
    const bool between = by_l2[L2_IDEAL].all <= walk.all && walk.all <= by_l2[L2_NONE].all;
    if (!between) report_mismatch(report, "%s: %" PRIu64 " bytes with a simulated L2", name, walk.all);
    traffic_cells(table, name, "simulated", &walk);
    cell_text(table, between ? "between" : "outside");
    cell_decimals(table, flop_per_byte(&walk), 1);
    return true;
}

static bool add_traffic(const Context *context, Report *report, Table *table, const Pair *pair)
{
    traffic_row(table, "standard", "none", &pair->standard[L2_NONE]);
    traffic_row(table, "standard", "ideal", &pair->standard[L2_IDEAL]);
    if (!simulated_row(context, report, table, &algorithm_standard, "standard", pair->standard)) return false;
    traffic_row(table, "FA2", "none", &pair->fa2[L2_NONE]);
    traffic_row(table, "FA2", "ideal", &pair->fa2[L2_IDEAL]);
    return simulated_row(context, report, table, &algorithm_fa2, "FA2", pair->fa2);
}

static bool add_rereads(const Context *context, Report *report, const Pair *pair, uint32_t Bc)
{
    enum { MOST_PAIRS = 1 << 24 }; /* small blocks of very long sequences are left out */
    static const uint32_t blocks[] = {16, 32, 64, 128, 256, 512};
    const AttentionShape *shape = &pair->fa2[L2_NONE].shape;
    const uint64_t N = shape->seqlen_q, d = shape->head_dim, element = element_bytes(shape->dtype);
    Table *table = report_table(report, &reread_table);
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        Walk walk;
        if (ceil_div(N, blocks[i]) * ceil_div(N, Bc) > MOST_PAIRS) continue;
        if (!walk_head(context, &algorithm_fa2, shape, (TileSize){blocks[i], Bc}, L2_NONE, &walk)) return false;
        const uint64_t formula = 2 * N * d * ceil_div(N, blocks[i]);
        table_row(table);
        cell_count(table, blocks[i]);
        cell_count(table, walk.k_v_elements);
        cell_count(table, formula);
        cell_check(table, walk.k_v_elements, formula, "K and V read");
        cell_decimals(table, 100 * per(walk.k_v_elements, pair->standard[L2_IDEAL].s_p / element), 1);
        cell_decimals(table, 100 * per(d, 2 * (uint64_t)blocks[i]), 1);
        cell_decimals(table, mebi(walk.all - walk.l), 2);
        cell_decimals(table, flop_per_byte(&walk), 1);
    }
    table_title(table, "Without L2: larger query blocks read K and V less often (N = %" PRIu64 ", d = %" PRIu64 ")", N, d);
    table_note(table, "The intensity of FA2 without L2 comes near Br in FP16: more rows per block is all that helps there.");
    return true;
}

static void add_fit(Report *report, const Chips *chips, const AttentionShape *shape)
{
    const uint64_t row = 2 * shape->head_dim * element_bytes(shape->dtype);
    Table *table = report_table(report, &fit_table);
    for (uint64_t N = 4096; N <= 262144; N *= 2) {
        table_row(table);
        cell_count(table, N);
        cell_decimals(table, mebi(N * row), 0);
        for (size_t c = 0; c < CHIPS; c++) cell_decimals(table, 100 * per(N * row, chips->all[c].l2_bytes_per_chip), 1);
    }
    table_title(table, "K and V of one head against L2 (d = %" PRIu64 ")", shape->head_dim);
    table_note(table, "Above 100 %%, not even one head fits; above 50 %% it does not once both partitions of an L2 hold it, as they do when all SMs read it.");
}

static void add_in_use(Report *report, const Chips *chips, const Walk *fa2, TileSize tiles)
{
    const uint64_t row = 2 * fa2->shape.head_dim * element_bytes(fa2->shape.dtype);
    Table *table = report_table(report, &working_table);
    for (size_t c = 0; c < chips->count; c++) {
        const Profile *chip = &chips->all[c];
        const uint64_t blocks = blocks_per_sm(chip, fa2, tiles), rows = chip->sm_count * blocks * tiles.Br;
        table_row(table);
        cell_text(table, chip->name);
        cell_count(table, chip->sm_count);
        cell_count(table, blocks);
        cell_count(table, rows);
        cell_decimals(table, mebi(rows * row), 1);
        cell_decimals(table, mebi(chip->l2_bytes_per_chip), 1);
        cell_count(table, chip->l2_bytes_per_chip / row);
    }
    table_note(
        table,
        "Short heads: several run at once, each with its K and V. Long heads: one runs at a time, with all of its K and V.");
}

/* ---- the roofline ---- */

static void add_roofline(Table *table, const Chips *chips, const Walk *standard, const Walk *fa2)
{
    for (size_t c = 0; c < chips->count; c++) {
        const Profile *chip = chips->by_balance[c];
        const KernelTime time = fa2_time(fa2, chip);
        const double before = standard_seconds(standard, chip);
        table_row(table);
        cell_count(table, fa2->shape.seqlen_q);
        cell_count(table, fa2->shape.head_dim);
        cell_text(table, chip->name);
        cell_decimals(table, profile_balance_flops_per_byte(chip), 1);
        cell_significant(table, 1e6 * before, 3);
        cell_significant(table, 1e6 * time.compute, 4);
        cell_significant(table, 1e6 * time.memory, 3);
        cell_significant(table, 1e6 * time.bound, 4);
        cell_text(table, time.compute >= time.memory ? "compute" : "memory");
        cell_decimals(table, ratio(before, time.bound), 2);
        cell_decimals(table, 100 * ratio(time.compute, before), 0);
        cell_decimals(table, 100 * ratio(time.compute, time.bound), 0);
    }
}

static bool add_points(const Context *context, Report *report, const Chips *chips)
{
    Table *traffic = report_table(report, &traffic_table);
    Pair first = {0}, pair;
    TileSize tiles = {0};
    const size_t points = options_point_count(context->options);
    for (size_t i = 0; i < points; i++) {
        const OptionPoint point = options_point(context->options, i);
        const AttentionShape shape = point_shape(context, &point);
        const TileSize now = {(uint32_t)point.block_q, (uint32_t)point.block_k};
        if (!walk_pair(context, &shape, now, &pair)) return false;
        if (!add_traffic(context, report, traffic, &pair)) return false;
        if (i == 0) first = pair, tiles = now;
    }
    table_note(
        traffic,
        "N = 4096, d = 128 in BF16: FA2 is memory-bound at 124 and compute-bound at 2048. Name the L2 model of a roofline.");
    if (!add_rereads(context, report, &first, tiles.Bc)) return false;
    add_fit(report, chips, &first.fa2[L2_IDEAL].shape);
    add_in_use(report, chips, &first.fa2[L2_IDEAL], tiles);
    return true;
}

static bool add_rooflines(const Context *context, Report *report, const Chips *chips)
{
    Table *by_l2[2];
    by_l2[L2_IDEAL] = report_table(report, &ideal_table);
    by_l2[L2_NONE] = report_table(report, &none_table);
    for (size_t i = 0; i < options_point_count(context->options); i++) {
        const OptionPoint point = options_point(context->options, i);
        const AttentionShape shape = point_shape(context, &point);
        Pair pair;
        if (!walk_pair(context, &shape, (TileSize){(uint32_t)point.block_q, (uint32_t)point.block_k}, &pair)) return false;
        for (int l2 = L2_NONE; l2 <= L2_IDEAL; l2++) add_roofline(by_l2[l2], chips, &pair.standard[l2], &pair.fa2[l2]);
    }
    table_note(by_l2[L2_IDEAL], "The speed-up follows the balance point, not the year: the H100 gains most.");
    table_note(by_l2[L2_NONE],
               "The same kernels, only L2 is gone. Where both are memory-bound, FA2 gains the same on every chip.");
    return true;
}

/* ---- silicon ---- */

/* The largest deviations of the model, in percent. */
typedef struct {
    double fits, misses, cliff;
    double once[2];         /* FA2 at N = 16K, d = 128, by mask: measured reads over once */
    double written[2];      /* cuDNN there without mask: measured, simulated, in percent of what is stored */
} Deviations;

static bool is_flash_forward(const H200Dram *row) { return row->family == DRAM_FLASH && row->launch == DRAM_FORWARD; }

/* What the launch's tensors hold at its end. */
static uint64_t stored_bytes(const DramBytes *bytes) { return bytes->written - bytes->spilled - bytes->earlier + bytes->dirty; }

static void note_deviation(Deviations *d, const H200Dram *row, const DramBytes *bytes, uint64_t lru)
{
    const double off = 100 * (per(bytes->read, row->dram_read) - 1), size = off < 0 ? -off : off;
    const bool long_row = row->seqlen == 16384 && row->head_dim == 128;
    double *const most = per(min_u64(bytes->read, row->dram_read), bytes->once) <= 1.03 ? &d->fits : &d->misses;
    if (size > *most) *most = size;
    if (is_flash_forward(row) && row->causal && long_row) d->cliff = 100 * (per(lru, row->dram_read) - 1);
    if (is_flash_forward(row) && long_row) d->once[row->causal] = per(row->dram_read, bytes->once);
    if (row->family != DRAM_CUDNN || row->launch != DRAM_FORWARD || !long_row || row->causal) return;
    d->written[0] = 100 * per(row->dram_write, stored_bytes(bytes));
    d->written[1] = 100 * per(bytes->written, stored_bytes(bytes));
}

static void read_cells(Table *table, const H200Dram *row, const DramBytes *bytes, uint64_t lru)
{
    table_row(table);
    cell_text(table, row->kernel);
    cell_text(table, row->causal ? "causal" : "none");
    cell_count(table, row->heads);
    cell_count(table, row->seqlen);
    cell_count(table, row->head_dim);
    cell_decimals(table, (double)bytes->asked / 1e6, 1);
    cell_decimals(table, (double)bytes->once / 1e6, 1);
    cell_decimals(table, (double)lru / 1e6, 1);
    cell_decimals(table, (double)bytes->read / 1e6, 1);
    cell_decimals(table, (double)row->dram_read / 1e6, 1);
    cell_decimals(table, per(row->dram_read, bytes->once), 2);
    cell_decimals(table, per(bytes->read, row->dram_read), 3);
    cell_decimals(table, per(row->l2_to_sm, bytes->asked), 4);
}

static void write_cells(Table *table, const H200Dram *row, const DramBytes *bytes)
{
    const uint64_t stored = stored_bytes(bytes);
    table_row(table);
    cell_text(table, row->kernel);
    cell_text(table, row->causal ? "causal" : "none");
    cell_count(table, row->seqlen);
    cell_count(table, row->head_dim);
    cell_decimals(table, (double)stored / 1e6, 1);
    cell_decimals(table, (double)bytes->written / 1e6, 1);
    cell_decimals(table, (double)row->dram_write / 1e6, 1);
    cell_decimals(table, (double)bytes->dirty / 1e6, 1);
    cell_decimals(table, (double)bytes->spilled / 1e6, 1);
    cell_decimals(table, (double)bytes->earlier / 1e6, 1);
    cell_decimals(table, per(row->sm_to_l2, stored), 1);
}

static void judge_counters(Report *report, const Deviations *d)
{
    claim_holds(report, "R-D3", d->once[0] < 1.05 && d->once[1] < 1.05, "%.2fx, causal %.2fx", d->once[0], d->once[1]);
    claim_close(report, "R-C-2.4-fits", 0, 3, d->fits, 3, " %");
    claim_close(report, "R-C-2.4-misses", 0, 30, d->misses, 3, " %");
    claim_holds(report, "R-C-2.4-cliff", d->cliff > -30, "%.1f %%", d->cliff);
    claim_holds(report, "R-C-2.4-dirty", d->written[0] > 99, "%.1f %%; simulated %.1f %%", d->written[0], d->written[1]);
}

static bool add_counters(const Context *context, Report *report)
{
    Table *reads = report_table(report, &counter_table), *writes = report_table(report, &write_table);
    Deviations deviations = {0};
    for (size_t i = 0; i < H200_DRAM_ROWS; i++) {
        const H200Dram *row = &h200_dram[i];
        DramProblem problem = {.family = row->family, .launch = row->launch, .shape = attention_shape(row->seqlen, row->head_dim)};
        problem.shape.heads = problem.shape.kv_heads = row->heads;
        problem.shape.mask = row->causal ? MASK_CAUSAL : MASK_NONE;
        DramBytes bytes, lru;
        if (!silicon_dram(&problem, context->alloc, context->status, &bytes)) return false;
        problem.lru = true;
        if (!silicon_dram(&problem, context->alloc, context->status, &lru)) return false;
        read_cells(reads, row, &bytes, lru.read);
        write_cells(writes, row, &bytes);
        note_deviation(&deviations, row, &bytes, lru.read);
    }
    table_note(reads, "One launch each under Nsight Compute, caches flushed before it (PyTorch 2.11, CUDA 13.0, cuDNN 9.19). FA2 at N = 65,536: 11 times a");
    table_note(reads, "wave of 264 blocks sweeps over K and V of a head (34 MB), and every sweep misses: 11 * 33.6 + 67.1 MB.");
    table_note(reads, "The causal FA2 is where replacement shows: blocks that start together are at different keys, so nearly all of K and V stays in use. LRU");
    table_note(reads, "keeps what is in use; the chip knows ages only roughly, gives some of it up with every line that comes in, and reads it again.");
    table_note(reads, "cuBLAS goes through S in panels of eleven tiles, every second one backwards, and so does the walk here: each panel reads Q again");
    table_note(reads, "but for the rows where it turns (LRU: S in two copies leaves it less room). PyTorch's softmax moves S and P once.");
    table_note(writes, "The profiler repeats a launch for each group of counters, and what it does between finds 2.4 MB dirty in L2: a launch that needs the room");
    table_note(writes, "has them written. Measured with one group, a decoding kernel writes HBM 0.1 MB instead of 2.5 (hw_profiles/measured/h200_passes.csv).");
    table_note(writes, "Flash forward spills registers: what it stores to L2 is many times its output. The same lines over and over, but some get evicted.");
    judge_counters(report, &deviations);
    return true;
}

static bool add_speeds(const Context *context, Report *report, const Profile *h200)
{
    Table *table = report_table(report, &speed_table);
    for (size_t i = 0; i < SPEED_ROWS; i++) {
        const SpeedRow *row = &speeds[i];
        const AttentionShape shape = attention_shape(row->N, 128);
        Walk walk;
        if (!walk_head(context, &algorithm_fa2, &shape, (TileSize){128, 128}, L2_IDEAL, &walk)) return false;
        const double heads = (double)row->heads, rate = heads * (double)walk.matmul_flops / row->time_us / 1e6;
        const uint64_t per_cycle = profile_tensor_rate(h200, row->instruction) * h200->sm_count;
        const double limit = (double)per_cycle * (double)h200->tensor_clock_hz / 1e12;
        const double share = 100 * rate / tera(h200->peak_bf16_flops_per_chip);
        table_row(table);
        cell_text(table, row->kernel);
        cell_count(table, row->heads);
        cell_count(table, row->N);
        cell_significant(table, row->time_us, 4);
        cell_significant(table, 1e6 * heads * fa2_time(&walk, h200).bound, 3);
        cell_decimals(table, rate, 1);
        cell_decimals(table, share, 1);
        cell_decimals(table, 100 * rate / limit, 1);
        cell_decimals(table, 100 * 1e6 * heads * fa2_time(&walk, h200).memory / row->time_us, 1);
        if (i == 0) claim_holds(report, "R-D4", share >= 80, "%.1f %% of the peak", share);
    }
    table_note(table, "FlashAttention-2 issues mma.sync, which can reach two thirds of the peak here; it uses half of that.");
    return true;
}

/* ---- the claims, at the lecture's shapes ---- */

static void judge_traffic(Report *report, const Pair *pair)
{
    const uint64_t MiB = UINT64_C(1) << 20, N = 4096, d = 128, Br = 128;
    const Walk *fa2 = &pair->fa2[L2_NONE], *standard = &pair->standard[L2_IDEAL];
    claim_count(report, "2.4-3", 2 * N * N * d / Br, fa2->k_v_elements, " elements");
    claim_holds(report, "2.4-4", 2 * fa2->k_v == standard->s_p, "%.3f", per(fa2->k_v, standard->s_p));
    claim_bytes(report, "2.4-5", 132 * MiB, standard->all - standard->l);
    claim_bytes(report, "2.4-6", 66 * MiB, fa2->all - fa2->l);
}

static void judge_roofline(Report *report, const Pair *pair, const Chips *chips)
{
    const Walk *fa2 = &pair->fa2[L2_IDEAL], *standard = &pair->standard[L2_IDEAL];
    bool compute = true, rises = true;
    double last = 0, us[CHIPS], speed[CHIPS];
    for (size_t c = 0; c < chips->count; c++) {
        const KernelTime time = fa2_time(fa2, chips->by_balance[c]);
        const double now = speed_up(standard, fa2, chips->by_balance[c]);
        compute = compute && time.compute > time.memory;
        rises = rises && now >= last;
        last = now;
    }
    for (size_t c = 0; c < CHIPS; c++) {
        us[c] = 1e6 * fa2_time(fa2, &chips->all[c]).bound;
        speed[c] = speed_up(standard, fa2, &chips->all[c]);
    }
    claim_holds(report, "2.4-9", compute, "%.0f FLOP/byte; A100 %.2f, H100 %.2f, B200 %.2f us", flop_per_byte(fa2), us[0], us[1],
                us[3]);
    claim_holds(report, "2.4-10", rises, "A100 %.2fx, H200 %.2fx, B200 %.2fx, H100 %.2fx", speed[0], speed[2], speed[3],
                speed[1]);
}

static bool judge_claims(const Context *context, Report *report, const Chips *chips)
{
    const uint64_t MiB = UINT64_C(1) << 20, a100 = chips->all[0].l2_bytes_per_chip, h100 = chips->all[1].l2_bytes_per_chip;
    const AttentionShape shape = attention_shape(4096, 128), long_shape = attention_shape(16384, 128);
    Pair pair;
    Walk long_walk;
    if (!walk_pair(context, &shape, (TileSize){128, 64}, &pair)) return false;
    if (!walk_head(context, &algorithm_fa2, &long_shape, (TileSize){128, 128}, L2_IDEAL, &long_walk)) return false;
    claim_cited(report, "2.4-1", "FA1 moves 12 to 16 times the bound: see lower_bound");
    judge_traffic(report, &pair);
    claim_bytes(report, "2.4-7", 8 * MiB, long_walk.k_v);
    claim_holds(report, "2.4-8", a100 == 40 * MiB && h100 == 50 * MiB, "%" PRIu64 " MiB, %" PRIu64 " MiB", a100 / MiB,
                h100 / MiB);
    judge_roofline(report, &pair, chips);
    return status_ok(context->status);
}

static bool run(Context *context, Report *report)
{
    Chips chips = {0};
    if (!load_sorted(context, &chips)) return false;
    report_param_text(report, "hw", context->hw->name);
    report_param_text(report, "dtype", option_choice(OPTION_DTYPE, (int)context->options->dtype));
    return add_lower_bound(context, report) && add_points(context, report, &chips) && add_rooflines(context, report, &chips) &&
           add_counters(context, report) && add_speeds(context, report, &chips.all[H200]) &&
           judge_claims(context, report, &chips);
}

const Experiment experiment_s2_4_l2_roofline = {
    .program = {
        .name = "s2_4_l2_roofline",
        .purpose = "what the L2 cache changes, and the roofline before and after FlashAttention (lecture 2.4)",
        .examples = {"", "--seqlen 1k,64k --head-dim 64,128 --block-q 64"},
        .options = options,
        .option_count = sizeof options / sizeof options[0],
    },
    .report = {
        .section = "2.4",
        .title_en = "The lower bound, L2 and the roofline",
        .title_zh = "下界、L2 与屋顶线",
        .tables = tables,
        .table_count = sizeof tables / sizeof tables[0],
        .claims = claims,
        .claim_count = sizeof claims / sizeof claims[0],
    },
    .run = run,
};
