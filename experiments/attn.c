/* attn.c - the explorer: one algorithm, any shape, on any chip, counted or computed.
 *
 *     attn fa2 --seqlen 4k,8k --head-dim 128 --l2 none
 *     attn fa2 --pass bwd --causal --mode numeric
 *     attn decode --seqlen 1 --seqlen-k 32k --heads 32 --kv-heads 8 --splits auto,4
 *
 * Each sweep point is a run: its parameters, the ledger (what moved, per kernel, tensor and level), the totals, the closed form beside them, and in
 * numeric mode the error against the float64 oracle, in time mode the modelled time. A total that differs from its closed form ends the program with exit code 1.
 * Without --block-q, --block-k or --sram the tiles are the real kernel's, made smaller where they do not fit.
 */
#include "support/experiment.h"
#include "support/timed_run.h"
#include "support/timeline_view.h"

#include "algos/decode.h"
#include "algos/oracle.h"
#include "algos/run.h"

#include <math.h>

/* What a numeric run may compute and compare: about a minute. */
#define MAX_COMPARED_FLOPS (UINT64_C(1) << 38)

/* What --gantt shows of a block. */
#define SHOWN_CYCLES UINT64_C(8192)

/* Memory of a numeric run. */
#define MAX_BYTES (UINT64_C(8) << 30)

/* ------------------------------------------------------------------------------------------------------------- the tables */

static const Column param_columns[] = {
    {"algorithm", "", "the kernel that was run"},
    {"pass", "", "forward or backward"},
    {"mode", "", "count: walked without data; time: also timed; numeric: computed"},
    {"hw", "", "hardware profile"},
    {"l2", "", "L2 model: none, ideal (each byte from HBM once per launch), or simulated (a cache of the chip's size)"},
    {"dtype", "", "element type of Q, K, V, O"},
    {"batch", "", "sequences"},
    {"heads", "", "query heads"},
    {"kv_heads", "", "K/V heads"},
    {"seqlen", "", "N_q, queries per sequence"},
    {"seqlen_k", "", "N_k, keys per sequence"},
    {"head_dim", "", "d"},
    {"mask", "", "none, causal (bottom-right) or causal-top-left"},
    {"window_left", "", "keys visible before the own one; -1 unbounded"},
    {"window_right", "", "keys visible after the own one; -1 unbounded"},
    {"scale", "", "what the scores are multiplied by"},
    {"dropout", "", "probability of dropping an element of P"},
    {"block_q", "", "Br, query rows per block"},
    {"block_k", "", "Bc, keys per block"},
    {"seed", "", "of the random inputs (numeric mode)"},
    {"threshold", "", "log2 growth of a row maximum that its reference lets pass; none: rescaled at every key block"},
    {"poly_share", "", "of the exponentials, by polynomial"},
    {"rescaled", "%", "rows x key blocks at which l and O were rescaled: all rows of a query tile when one of its decisions says so"},
    {"decided", "%", "decisions (--rescale-rows rows x key blocks) to rescale; equals rescaled without data"},
};
enum { PARAM_COLUMNS = sizeof param_columns / sizeof param_columns[0], FA4_COLUMNS = 4 };
static const TableSpec params_spec = {"params", "Parameters", param_columns, PARAM_COLUMNS - FA4_COLUMNS};
static const TableSpec fa4_params_spec = {"params", "Parameters", param_columns, PARAM_COLUMNS};

static const Column ledger_columns[] = {
    {"kernel", "", "the launch"},
    {"tensor", "", "what was moved"},
    {"level", "", "L2: between L2 and the SMs; HBM: between HBM and L2"},
    {"read_elements", "", "elements read"},
    {"write_elements", "", "elements written"},
    {"read_bytes", "bytes", "bytes read"},
    {"write_bytes", "bytes", "bytes written"},
    {"atomic_elements", "", "2 per atomic add: one read, one write; not part of the HBM lines without L2"},
};
static const TableSpec ledger_spec = {"ledger", "Ledger", ledger_columns, sizeof ledger_columns / sizeof ledger_columns[0]};

static const Column total_columns[] = {
    {"hbm_read_elements", "", "elements read from HBM"},
    {"hbm_write_elements", "", "elements written to HBM"},
    {"hbm_read_bytes", "bytes", "bytes read from HBM"},
    {"hbm_write_bytes", "bytes", "bytes written to HBM"},
    {"l2_to_sm_bytes", "bytes", "what the SMs asked L2 for"},
    {"sm_to_l2_bytes", "bytes", "what the SMs wrote"},
    {"atomic_elements", "", "2 per atomic add: one read, one write"},
    {"smem_operand_bytes", "bytes", "shared memory read by tensor-core instructions"},
    {"smem_thread_bytes", "bytes", "shared memory read and written by threads"},
    {"smem_copy_bytes", "bytes", "shared memory written and read by copies from and to L2"},
    {"matmul_flops", "FLOP", "on the live rows of executed tiles"},
    {"matmul_flops_exact_mask", "FLOP", "visible (query, key) pairs only"},
    {"nonmatmul_ops", "", "by the lecture's price list (section 3.2)"},
    {"exp_ops", "", "exponentials executed"},
    {"matmul_flops_convention", "FLOP", "4 N_q N_k d per head, halved if causal"},
    {"sram_peak_bytes", "bytes", "most shared memory that a block held"},
    {"register_peak_bytes", "bytes", "most register space that a block's tiles held"},
};
static const TableSpec totals_spec = {"totals", "Totals", total_columns, sizeof total_columns / sizeof total_columns[0]};
static const TableSpec closed_form_spec = {"closed_form", "Closed form", total_columns, sizeof total_columns / sizeof total_columns[0] - 2};

static const Column time_columns[] = {
    {"cycles", "cycles", "all launches, on the whole chip; modelled"},
    {"time_us", "us", "cycles at the tensor clock"},
    {"tflops", "TFLOP/s", "matmul_flops_convention over the time"},
    {"bound", "", "what most of the longest launch's time goes to: a unit, latency, L2 or HBM"},
    {"blocks_per_sm", "", "resident blocks of the longest launch"},
    {"tensor", "%", "utilization of the tensor cores"},
    {"mufu", "%", "of the exponential units"},
    {"issue", "%", "of the instruction issue slots"},
    {"smem", "%", "of shared memory"},
    {"copy", "%", "of the paths between L2 and the SMs"},
};
static const TableSpec time_spec = {"time", "Time (a model: see README, what is modelled)", time_columns, sizeof time_columns / sizeof time_columns[0]};

static const Column l2_columns[] = {
    {"seqlen", "", "N_q"},
    {"kernel", "", "the launch"},
    {"capacity", "MiB", "for data that all SMs read: they are held once in each partition"},
    {"at once", "blocks", "that run at the same time"},
    {"asked", "MB", "read by the SMs"},
    {"hits", "%", "of that, and of the old values of additions"},
    {"read", "MB", "from HBM"},
    {"ideal", "x", "over what an ideal L2 reads in all launches"},
    {"written back", "MB", "to HBM before the launch ended"},
    {"dirty", "MB", "in L2 when it ended"},
};
static const TableSpec l2_spec = {"l2", "The simulated L2 cache, empty when a launch begins", l2_columns, sizeof l2_columns / sizeof l2_columns[0]};

static const Column error_columns[] = {
    {"max_abs_O", "", "max |O - oracle|, oracle in float64"},
    {"max_abs_L", "", "max |L - oracle|; 0 when the algorithm keeps no L"},
    {"max_O", "", "max |oracle O|"},
};
static const TableSpec error_spec = {"error", "Error against the float64 oracle", error_columns, 3};

static const Column backward_error_columns[] = {
    {"max_abs_dQ", "", "max |dQ - oracle|, oracle in float64"},
    {"max_abs_dK", "", "max |dK - oracle|"},
    {"max_abs_dV", "", "max |dV - oracle|"},
    {"max_gradient", "", "the largest gradient of the oracle"},
};
static const TableSpec backward_error_spec = {"backward_error", "Error against the float64 oracle", backward_error_columns, 4};

static const Column decode_columns[] = {
    {"batch", "", "sequences"},
    {"heads", "", "query heads"},
    {"kv_heads", "", "K/V heads"},
    {"seqlen_k", "", "N_k, keys per sequence"},
    {"stacked", "", "query heads in one tile"},
    {"tile rows in use", "%", "queries x stacked heads, of the rows of the tiles that hold them"},
    {"splits", "", "parts of the keys: as asked for, or by FlashAttention-2's rule"},
    {"used", "", "parts that have key blocks"},
    {"idle", "", "parts that have none"},
    {"blocks", "", "thread blocks of the split kernel"},
    {"merge", "", "order in which the parts are merged"},
    {"cache", "bytes", "K and V, once"},
    {"parts", "bytes", "O and logsumexp of all parts, written and read"},
};
static const TableSpec decode_spec = {"decode", "Parts and packing", decode_columns, sizeof decode_columns / sizeof decode_columns[0]};

static const TableSpec gantt_spec = {"gantt", "One thread block", NULL, 0};

static const TableSpec *const tables[] = {&decode_spec, &gantt_spec, &fa4_params_spec, &ledger_spec, &totals_spec, &closed_form_spec, &l2_spec, &time_spec, &error_spec, &backward_error_spec};

/* ---------------------------------------------------------------------------------------------------------- one sweep point */

/* FP8: only FlashAttention-3 computes in it, and only its forward pass scales and rotates. */
static bool fp8_options(const Options *o, const Algorithm *algorithm, Fp8Options *fp8, Status *status)
{
    static const OptionId ids[] = {OPTION_QUANTISE, OPTION_ROTATE, OPTION_PREPASS};
    const bool fp8_kernel = algorithm == &algorithm_fa3 && o->pass == OPTION_PASS_FWD;
    *fp8 = attention_shape(1, 1).fp8;
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        if (o->given[ids[i]] && !(fp8_kernel && is_fp8(o->dtype)))
            return status_fail(status, STATUS_USAGE, "%s: not allowed with %s --pass %s --dtype %s; only the forward pass of fa3 with --dtype fp8 has it",
                               option_name(ids[i]), algorithm->name, option_choice(OPTION_PASS, (int)o->pass), option_choice(OPTION_DTYPE, (int)o->dtype));
    if (!is_fp8(o->dtype)) return true;
    if (o->mode == OPTION_MODE_NUMERIC && !fp8_kernel)
        return status_fail(status, STATUS_INFEASIBLE, "--dtype fp8: %s --pass %s can only be counted; fa3 computes its forward pass in FP8", algorithm->name,
                           option_choice(OPTION_PASS, (int)o->pass));
    if (!fp8_kernel) return true;
    fp8->scales = o->quantise;
    fp8->rotation = o->rotate;
    fp8->prepass = o->prepass == OPTION_PREPASS_KERNEL;
    fp8->seed = o->seed;
    return true;
}

/* FlashAttention-4's options: what they are for, and what no other run takes. */
static bool fa4_options(const Options *o, const Algorithm *algorithm, Fa4Options *fa4, Status *status)
{
    static const OptionId ids[] = {OPTION_THRESHOLD, OPTION_RESCALE_ROWS, OPTION_RESCALE_SHARE, OPTION_POLY_SHARE};
    const bool forward = o->pass == OPTION_PASS_FWD, numeric = o->mode == OPTION_MODE_NUMERIC;
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        if (o->given[ids[i]] && (algorithm != &algorithm_fa4 || !forward))
            return status_fail(status, STATUS_USAGE, "%s: not allowed with %s --pass %s; only the forward pass of fa4 has it", option_name(ids[i]),
                               algorithm->name, option_choice(OPTION_PASS, (int)o->pass));
    if (o->given[OPTION_THRESHOLD] && !numeric)
        return status_fail(status, STATUS_USAGE, "--threshold: not allowed with --mode %s, which has no data to compare with it; give --rescale-share",
                           option_choice(OPTION_MODE, (int)o->mode));
    if (o->given[OPTION_RESCALE_SHARE] && numeric)
        return status_fail(status, STATUS_USAGE, "--rescale-share: not allowed with --mode numeric, where the data decides; give --threshold");
    if (o->given[OPTION_RESCALE_ROWS] && !o->given[OPTION_THRESHOLD])
        return status_fail(status, STATUS_USAGE, "--rescale-rows: not allowed without --threshold, on which they decide");
    const double sixteenths = o->poly_share * 16;
    if (sixteenths != floor(sixteenths))
        return status_fail(status, STATUS_USAGE, "--poly-share: '%g' is not allowed; expected a multiple of 1/16 = 0.0625", o->poly_share);
    fa4->poly_sixteenths = (uint32_t)sixteenths;
    fa4->conditional = o->given[OPTION_THRESHOLD] || o->given[OPTION_RESCALE_SHARE];
    fa4->threshold = o->threshold;
    fa4->decision_rows = (uint32_t)o->rescale_rows;
    fa4->rescale_ppm = (uint32_t)lround(o->rescale_share * 1e6);
    return true;
}

static AttentionShape point_shape(const Options *o, const Fp8Options *fp8, const OptionPoint *point)
{
    AttentionShape shape = attention_shape(point->seqlen, point->head_dim);
    shape.batch = point->batch;
    shape.heads = point->heads;
    shape.kv_heads = point->kv_heads;
    shape.seqlen_k = point->seqlen_k;
    shape.mask = o->mask;
    shape.window_left = o->window_left;
    shape.window_right = o->window_right;
    shape.dtype = o->dtype;
    shape.fp8 = *fp8;
    if (o->given[OPTION_SCALE]) shape.softmax_scale = o->scale;
    if (o->dropout > 0.0) shape.dropout_source = DROPOUT_SEED;
    shape.dropout = (Dropout){.p = o->dropout, .seed = o->seed};
    return shape;
}

/* Tiles of the pass that is asked for: given ones, the paper's for --sram, the real kernel's otherwise; one given side replaces that side. */
static bool choose_tiles(const Context *cx, const Algorithm *algorithm, const AttentionShape *shape, const OptionPoint *point, TileSize *tiles)
{
    *tiles = (TileSize){(uint32_t)point->block_q, (uint32_t)point->block_k};
    if (point->block_q > 0 && point->block_k > 0) return true;
    if (point->sram > 0) *tiles = paper_tiles(max_u64(point->sram / element_bytes(shape->dtype), 1), shape->head_dim);
    else if (cx->options->pass == OPTION_PASS_BWD) {
        if (algorithm->backward == NULL) return status_fail(cx->status, STATUS_INFEASIBLE, "%s has no backward pass; standard, fa2, fa3 and fa4 have one", algorithm->name);
        if (!fitting_backward_tiles(algorithm, shape, cx->hw, cx->alloc, tiles, cx->status)) return false;
    } else if (!fitting_tiles(algorithm, shape, cx->hw, cx->alloc, tiles, cx->status)) return false;
    if (point->block_q > 0) tiles->Br = (uint32_t)point->block_q;
    if (point->block_k > 0) tiles->Bc = (uint32_t)point->block_k;
    return true;
}

static MachineConfig machine_config(const Options *o)
{
    return (MachineConfig){.mode = o->mode == OPTION_MODE_NUMERIC ? MODE_NUMERIC : MODE_COUNT, .l2 = o->l2,
                           .time = o->mode == OPTION_MODE_TIME,
                           .precision = o->dtype == ELEMENT_F64 ? PRECISION_F64 : PRECISION_F32};
}

/* ------------------------------------------------------------------------------------------------------------ writing a run */

static void write_fa4_params(Table *t, const Options *o, const AttentionRun *ran)
{
    uint64_t rescaled = 0, moved = 0, kept = 0;
    for (uint32_t i = 0; i < ran->machine.launch_count; i++) {
        const Counts *counts = &ran->machine.launches[i].counts;
        rescaled += counts->elements[OP_ROWS_EXP_DIFFERENCE];
        moved += counts->references_moved;
        kept += counts->references_kept;
    }
    const double all = (double)(rescaled + ran->problem.kept_references);
    if (o->given[OPTION_THRESHOLD]) cell_significant(t, o->threshold, 6);
    else cell_text(t, "none");
    cell_significant(t, o->poly_share, 6);
    cell_significant(t, all > 0 ? 100.0 * (double)rescaled / all : 0.0, 4);
    cell_significant(t, moved + kept > 0 ? 100.0 * (double)moved / (double)(moved + kept) : all > 0 ? 100.0 : 0.0, 4);
}

static void write_params(Report *report, Run *run, const Context *cx, const AttentionRun *ran)
{
    const TileSize tiles = cx->options->pass == OPTION_PASS_BWD ? ran->backward_tiles : ran->setup.tiles;
    const AttentionShape *s = &ran->attention.shape;
    const bool fa4 = ran->setup.algorithm == &algorithm_fa4 && cx->options->pass == OPTION_PASS_FWD;
    Table *t = run->params = run_table(report, fa4 ? &fa4_params_spec : &params_spec);
    table_row(t);
    cell_text(t, ran->setup.algorithm->name);
    cell_text(t, option_choice(OPTION_PASS, (int)cx->options->pass));
    cell_text(t, option_choice(OPTION_MODE, (int)cx->options->mode));
    cell_text(t, cx->hw->name);
    cell_text(t, option_choice(OPTION_L2, (int)cx->options->l2));
    cell_text(t, element_name(s->dtype));
    const uint64_t counts[] = {s->batch, s->heads, s->kv_heads, s->seqlen_q, s->seqlen_k, s->head_dim};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) cell_count(t, counts[i]);
    cell_text(t, option_choice(OPTION_MASK, (int)cx->options->mask));
    cell_signed(t, s->window_left);
    cell_signed(t, s->window_right);
    cell_significant(t, s->softmax_scale, 6);
    cell_significant(t, s->dropout.p, 6);
    cell_count(t, tiles.Br);
    cell_count(t, tiles.Bc);
    cell_count(t, cx->options->seed);
    if (fa4) write_fa4_params(t, cx->options, ran);
}

static void ledger_line(Table *t, const LedgerRow *row, const char *level, uint64_t read, uint64_t written, uint64_t atomic_elements)
{
    const uint64_t bytes = element_bytes(row->tensor->type);
    table_row(t);
    cell_text(t, row->kernel);
    cell_text(t, row->tensor->name);
    cell_text(t, level);
    cell_count(t, read);
    cell_count(t, written);
    cell_count(t, read * bytes);            /* checked when the totals were made */
    cell_count(t, written * bytes);
    cell_count(t, atomic_elements);
}

static void write_ledger(Report *report, Run *run, const Machine *machine)
{
    Table *t = run->ledger = run_table(report, &ledger_spec);
    for (uint32_t i = 0; i < machine->ledger_count; i++) {
        const LedgerRow *row = &machine->ledger[i];
        ledger_line(t, row, "L2", row->traffic.l2_to_sm, row->traffic.sm_to_l2, 2 * row->traffic.atomic_adds);
        ledger_line(t, row, "HBM", row->traffic.hbm_read, row->traffic.hbm_write, 0);
    }
}

enum { HBM_PAIRS = 4 };     /* count_pairs begins with reads and writes, in elements and in bytes */

/* A simulated L2 lets through what an ideal one does or more, at most all of it; an addition's operand is read and written. */
static void check_bounds(Report *report, const CountPair *simulated, const CountPair *ideal, uint64_t added)
{
    const uint64_t value = simulated->counted, inside = max_u64(min_u64(value, simulated->formula + added), ideal->formula);
    if (value != inside)
        report_mismatch(report, "%s: simulated %" PRIu64 " is not between %" PRIu64 " (ideal L2) and %" PRIu64 " (none)", simulated->name, value,
                        ideal->formula, simulated->formula + added);
}

/* No formula says what a cache does, but two enclose it. */
static bool write_simulated_totals(Report *report, const AttentionRun *ran, bool backward, Table *formula, const CountPair pairs[COUNT_PAIRS])
{
    ClosedForm ideal;
    CountPair bounds[COUNT_PAIRS];
    if (!attention_run_ideal_form(ran, backward, &ideal)) return false;
    count_pairs(&ran->totals, &ideal, bounds);
    for (size_t i = 0; i < HBM_PAIRS; i++) {
        const bool bytes = i >= 2;
        check_bounds(report, &pairs[i], &bounds[i],
                     bytes ? ran->closed_form.sm_to_l2_bytes - ran->closed_form.hbm_write_bytes : ran->closed_form.atomic_elements / 2);
        cell_empty(formula);
    }
    return true;
}

/* Totals and closed form share their columns; peaks have no formula. */
static bool write_totals(Report *report, Run *run, const AttentionRun *ran, bool backward, uint64_t convention)
{
    const bool simulated = ran->setup.config.l2 == L2_SIMULATED;
    CountPair pairs[COUNT_PAIRS];
    count_pairs(&ran->totals, &ran->closed_form, pairs);
    Table *totals = run->totals = run_table(report, &totals_spec);
    Table *formula = run->closed_form = run_table(report, &closed_form_spec);
    table_row(totals);
    table_row(formula);
    if (simulated && !write_simulated_totals(report, ran, backward, formula, pairs)) return false;
    for (size_t i = 0; i < COUNT_PAIRS; i++) {
        cell_count(totals, pairs[i].counted);
        if (simulated && i < HBM_PAIRS) continue;
        cell_count(formula, pairs[i].formula);
        report_check(report, pairs[i].counted, pairs[i].formula, pairs[i].name);
    }
    cell_count(totals, convention);
    cell_count(formula, convention);
    cell_count(totals, ran->totals.sram_peak_bytes);
    cell_count(totals, ran->totals.register_peak_bytes);
    return true;
}

/* What each launch did to the cache; the same table for all sweep points. */
static bool write_l2(Report *report, Table **table, const AttentionRun *ran, bool backward)
{
    ClosedForm ideal;
    if (*table == NULL) *table = report_table(report, &l2_spec);
    if (!attention_run_ideal_form(ran, backward, &ideal)) return false;
    for (uint32_t i = 0; i < ran->machine.launch_count; i++) {
        const LaunchRecord *launch = &ran->machine.launches[i];
        const L2Outcome *l2 = &launch->l2;
        uint64_t asked = 0, read = 0;
        for (uint32_t r = 0; r < launch->row_count; r++) {
            const LedgerRow *row = &ran->machine.ledger[launch->first_row + r];
            asked += row->traffic.l2_to_sm * element_bytes(row->tensor->type);
            read += row->traffic.hbm_read * element_bytes(row->tensor->type);
        }
        const double looked_up = (double)(l2->hit_bytes + l2->miss_bytes);
        table_row(*table);
        cell_count(*table, ran->attention.shape.seqlen_q);
        cell_text(*table, launch->kernel);
        if (l2->capacity_bytes == PROFILE_UNLIMITED) cell_text(*table, "unlimited");
        else cell_decimals(*table, (double)l2->capacity_bytes / (1 << 20), 2);
        cell_count(*table, l2->slots);
        cell_decimals(*table, (double)asked / 1e6, 3);
        cell_decimals(*table, looked_up > 0 ? 100 * (double)l2->hit_bytes / looked_up : 0, 2);
        cell_decimals(*table, (double)read / 1e6, 3);
        if (i == 0 && ideal.hbm_read_bytes > 0) cell_decimals(*table, (double)ran->totals.hbm_read_bytes / (double)ideal.hbm_read_bytes, 3);
        else cell_empty(*table);
        cell_decimals(*table, (double)l2->written_back_bytes / 1e6, 3);
        cell_decimals(*table, (double)l2->dirty_bytes / 1e6, 3);
    }
    return true;
}

/* Three digits: more would promise too much. */
static void write_time(Report *report, Run *run, const AttentionRun *ran, const Profile *hw, bool backward)
{
    TimedRun sum;
    if (!timed_run_sum(&sum, ran, backward, report->status)) return;
    Table *t = run->time = run_table(report, &time_spec);
    table_row(t);
    cell_count(t, sum.cycles);
    cell_significant(t, sum.microseconds, 3);
    cell_significant(t, sum.tflops, 3);
    cell_text(t, sum.bound);
    cell_count(t, sum.blocks_per_sm);
    for (int unit = 0; unit < UNIT_KINDS; unit++) {
        const double whole = (double)sum.cycles * (double)hw->sm_count;
        cell_significant(t, whole > 0 ? 100.0 * (double)sum.busy[unit] / whole : 0.0, 3);
    }
}

static bool write_error(Report *report, Run *run, const Attention *attention, const Machine *machine)
{
    ForwardError error;
    if (!oracle_compare(attention, machine, &error)) return false;
    Table *t = run->error = run_table(report, &error_spec);
    table_row(t);
    cell_significant(t, error.max_abs_O, 3);
    cell_significant(t, error.max_abs_L, 3);
    cell_significant(t, error.max_O, 3);
    return true;
}

static bool write_backward_error(Report *report, Run *run, const Attention *attention, const Machine *machine)
{
    BackwardError error;
    if (!oracle_compare_backward(attention, machine, &error)) return false;
    Table *t = run->error = run_table(report, &backward_error_spec);
    table_row(t);
    cell_significant(t, error.max_abs_dQ, 3);
    cell_significant(t, error.max_abs_dK, 3);
    cell_significant(t, error.max_abs_dV, 3);
    cell_significant(t, error.max_gradient, 3);
    return true;
}

/* --------------------------------------------------------------------------------------------------------------- the program */

/* The oracle takes one row at a time: it is what a numeric run waits for. */
static bool oracle_is_quick(const AttentionRun *ran, Status *status)
{
    if (ran->closed_form.matmul_flops <= MAX_COMPARED_FLOPS) return true;
    return status_fail(status, STATUS_INFEASIBLE, "--mode numeric: comparing %" PRIu64 " FLOP with the oracle is too long, at most %" PRIu64 "; use --mode count",
                       ran->closed_form.matmul_flops, MAX_COMPARED_FLOPS);
}

static bool write_run(const Context *cx, Report *report, Table **l2, AttentionRun *ran)
{
    const bool backward = cx->options->pass == OPTION_PASS_BWD, numeric = ran->setup.config.mode == MODE_NUMERIC;
    if (!attention_run_short_enough(ran) || (numeric && !oracle_is_quick(ran, cx->status))) return false;
    attention_random_inputs(&ran->attention, &ran->machine, cx->options->seed);
    if ((!backward || numeric) && !attention_run_forward(ran)) return false;
    if (backward && !attention_run_backward(ran)) return false;
    const uint64_t convention = run_convention_flops(ran, backward, cx->status);
    Run *run = report_run(report);
    write_params(report, run, cx, ran);
    write_ledger(report, run, &ran->machine);
    if (!write_totals(report, run, ran, backward, convention)) return false;
    if (ran->setup.config.l2 == L2_SIMULATED && !write_l2(report, l2, ran, backward)) return false;
    if (ran->setup.config.time) write_time(report, run, ran, cx->hw, backward);
    if (!numeric) return true;
    return backward ? write_backward_error(report, run, &ran->attention, &ran->machine) : write_error(report, run, &ran->attention, &ran->machine);
}

/* What was stacked, split and left idle; the traffic that splitting costs. */
static void write_decode(const Context *cx, Table *table, const AttentionRun *ran)
{
    const AttentionShape *s = &ran->attention.shape;
    const DecodePlan plan = decode_plan(&ran->attention, cx->hw->sm_count);
    const uint64_t cache = decode_cache_bytes(s->batch, s->kv_heads, s->seqlen_k, s->head_dim, element_bytes(s->dtype), cx->status);
    const uint64_t parts = decode_parts_bytes(s->batch, s->heads, s->seqlen_q, s->head_dim, plan.splits, element_bytes(ran->attention.statistic), cx->status);
    const double tile_rows = (double)(plan.query_blocks * ran->setup.tiles.Br);
    const uint64_t counts[] = {s->batch, s->heads, s->kv_heads, s->seqlen_k, plan.group};
    table_row(table);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) cell_count(table, counts[i]);
    cell_significant(table, tile_rows > 0 ? 100.0 * (double)plan.rows / tile_rows : 0.0, 3);
    cell_count(table, plan.splits);
    cell_count(table, plan.used);
    cell_count(table, plan.splits - plan.used);
    cell_count(table, plan.blocks);
    cell_text(table, option_choice(OPTION_MERGE, (int)ran->attention.decode.merge));
    cell_count(table, cache);
    cell_count(table, parts);
}

/* The timeline of one thread block, drawn and written. */
static bool show_block(const Context *cx, Report *report, const RunSetup *setup, const AttentionShape *shape, const Fa4Options *fa4)
{
    const Options *o = cx->options;
    Timeline timeline;
    if (!o->gantt && o->trace == NULL) return true;
    bool ok = timeline_record_block(&timeline, setup, shape, NULL, fa4, cx->alloc, cx->status);
    if (ok && o->gantt) {
        Table *picture = report_table(report, &gantt_spec);
        table_title(picture, "One thread block of %s on %s: %" PRIu64 " cycles", setup->algorithm->title, cx->hw->name, timeline.makespan);
        timeline_picture(picture, &timeline, timeline_scale(&timeline, SHOWN_CYCLES));
        timeline_legend(picture);
    }
    if (ok && o->trace != NULL) ok = timeline_trace(o->trace, setup->algorithm->title, &timeline, cx->alloc, cx->status);
    timeline_free(&timeline);
    return ok;
}

/* One block of one sweep point has a timeline to show, if its algorithm is one kernel. */
static bool timeline_options(const Options *o, const Algorithm *algorithm, Status *status)
{
    static const OptionId ids[] = {OPTION_GANTT, OPTION_TRACE};
    const bool one_kernel = algorithm == &algorithm_fa2 || algorithm == &algorithm_fa3 || algorithm == &algorithm_fa4;
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        if (o->given[ids[i]] && (o->mode != OPTION_MODE_TIME || o->pass != OPTION_PASS_FWD || !one_kernel || options_point_count(o) != 1))
            return status_fail(status, STATUS_USAGE, "%s: needs --mode time, the forward pass of fa2, fa3 or fa4, and one value in every list",
                               option_name(ids[i]));
    return true;
}

/* What belongs to some algorithms only. */
typedef struct {
    Fp8Options fp8;
    Fa4Options fa4;
} SpecialOptions;

/* Decoding's options are its own. */
static bool decode_options_fit(const Options *o, const Algorithm *algorithm, Status *status)
{
    static const OptionId ids[] = {OPTION_SPLITS, OPTION_PACKING, OPTION_MERGE};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        if (o->given[ids[i]] && algorithm != &algorithm_decode)
            return status_fail(status, STATUS_USAGE, "%s: not allowed with %s; only decode has it", option_name(ids[i]), algorithm->name);
    if (algorithm == &algorithm_decode && o->dropout > 0.0)
        return status_fail(status, STATUS_USAGE, "--dropout: not allowed with decode, which has none");
    return true;
}

/* Tables that all sweep points share. */
typedef struct {
    Table *parts;               /* of a decoding run; NULL for other algorithms */
    Table *l2;                  /* of a simulated L2; NULL until there is one */
} SharedTables;

static bool run_point(const Context *cx, Report *report, const Algorithm *algorithm, const SpecialOptions *special, SharedTables *shared,
                      const OptionPoint *point)
{
    const AttentionShape shape = point_shape(cx->options, &special->fp8, point);
    const bool backward = cx->options->pass == OPTION_PASS_BWD;
    RunSetup setup = {.algorithm = algorithm, .profile = cx->hw, .config = machine_config(cx->options)};
    AttentionRun ran;
    TileSize tiles;
    if (!attention_check(&shape, cx->status) || !choose_tiles(cx, algorithm, &shape, point, &tiles)) return false;
    if (!backward) setup.tiles = tiles;
    const BackwardVariant variant = {.deterministic = cx->options->deterministic};
    bool ok = attention_run_prepare(&ran, &setup, &shape, cx->alloc, cx->status) &&
              (!backward || attention_run_prepare_backward(&ran, tiles, variant));
    ran.attention.fa4 = special->fa4;
    if (shared->parts != NULL) {
        const DecodeOptions decode = {(uint32_t)point->splits, cx->options->packing, cx->options->merge};
        ok = ok && attention_run_set_decode(&ran, decode);
        if (ok) write_decode(cx, shared->parts, &ran);
    }
    ok = ok && write_run(cx, report, &shared->l2, &ran) && show_block(cx, report, &ran.setup, &shape, &special->fa4);
    attention_run_free(&ran);
    return ok && status_ok(cx->status);
}

static bool run_attn(Context *cx, Report *report)
{
    const Algorithm *algorithm = algorithm_find(cx->options->operand, cx->status);
    SpecialOptions special;
    if (algorithm == NULL || !fp8_options(cx->options, algorithm, &special.fp8, cx->status) ||
        !fa4_options(cx->options, algorithm, &special.fa4, cx->status) ||
        !timeline_options(cx->options, algorithm, cx->status) || !decode_options_fit(cx->options, algorithm, cx->status))
        return false;
    cx->alloc->limit_bytes = MAX_BYTES;
    report_param_text(report, "title", algorithm->title);
    report_param_text(report, "source", algorithm->source);
    if (is_fp8(cx->options->dtype) && algorithm == &algorithm_fa3) {
        report_param_text(report, "quantise", option_choice(OPTION_QUANTISE, (int)cx->options->quantise));
        report_param_text(report, "rotate", option_choice(OPTION_ROTATE, (int)cx->options->rotate));
        report_param_text(report, "prepass", option_choice(OPTION_PREPASS, (int)cx->options->prepass));
    }
    SharedTables shared = {.parts = algorithm == &algorithm_decode ? report_table(report, &decode_spec) : NULL};
    for (size_t i = 0; i < options_point_count(cx->options); i++) {
        const OptionPoint point = options_point(cx->options, i);
        if (!run_point(cx, report, algorithm, &special, &shared, &point)) return false;
    }
    return true;
}

static const ProgramOption options[] = {
    {OPTION_BATCH, "1"},    {OPTION_HEADS, "1"},    {OPTION_KV_HEADS, NULL}, {OPTION_SEQLEN, "1k"},  {OPTION_SEQLEN_K, NULL},
    {OPTION_HEAD_DIM, "64"}, {OPTION_BLOCK_Q, NULL}, {OPTION_BLOCK_K, NULL},  {OPTION_SRAM, NULL},    {OPTION_SPLITS, NULL},
    {OPTION_MASK, "none"},  {OPTION_PACKING, "one-query"}, {OPTION_MERGE, "sequential"},
    {OPTION_WINDOW, NULL},  {OPTION_SCALE, NULL},   {OPTION_DTYPE, "bf16"},  {OPTION_PASS, "fwd"},   {OPTION_MODE, "count"},
    {OPTION_L2, "ideal"},   {OPTION_DROPOUT, "0"},  {OPTION_DETERMINISTIC, NULL},
    {OPTION_THRESHOLD, NULL}, {OPTION_RESCALE_ROWS, "32"}, {OPTION_RESCALE_SHARE, NULL}, {OPTION_POLY_SHARE, "0"},
    {OPTION_QUANTISE, "tensor"}, {OPTION_ROTATE, "none"}, {OPTION_PREPASS, "kernel"},
    {OPTION_GANTT, NULL},   {OPTION_TRACE, NULL},
};

static const char *const algorithm_names[] = {"standard", "fa1", "fa1-shipped", "fa2", "fa3", "fa4", "decode", NULL};

static const Experiment attn = {
    .program = {.name = "attn",
                .purpose = "Runs one attention algorithm at any shape and prints what it moves, computes and how far it is from exact.",
                .examples = {"fa2 --seqlen 1k,4k,16k --head-dim 128 --l2 none", "fa1 --sram 192k --mode numeric --dtype f64 --causal"},
                .options = options,
                .option_count = sizeof options / sizeof options[0],
                .operand = "algorithm",
                .operand_choices = algorithm_names},
    .report = {.section = "", .title_en = "Attention explorer", .title_zh = "注意力实验台", .tables = tables,
               .table_count = sizeof tables / sizeof tables[0]},
    .run = run_attn,
};

int main(int argc, char **argv) { return experiment_main(&attn, argc, argv); }
