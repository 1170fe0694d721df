/* s8_pitfalls.c - lecture §8: nine common beliefs about FlashAttention, each met by a number that this run computes.
 *
 *     1  "it is an approximation"                  distance from the textbook in float64
 *     2  "it computes less"                        FLOPs and HBM elements of the walks
 *     3  "tiling is faster on any hardware"        traffic at M near d²; the balance point below which nothing is won
 *     4  "training saves no memory"                bytes kept for the backward pass
 *     5  "m must be the true maximum"              other bases in float32: harmless, and not
 *     6  "FlashAttention-2 reads less"             traffic by block sizes; what -14 % non-matmul work is worth
 *     7  "FP8's error comes from P"                error by operand, data with outliers
 *     8  "a polynomial exp is too coarse"          share that is the same BF16 number
 *     9  "decode with the training kernel"         SMs and rows of a product in use
 *
 * The wall-clock half of 3 is s1_5_cpu, the only program whose output holds measured times.
 */
#include "support/decode_study.h"
#include "support/exp_facts.h"
#include "support/experiment.h"
#include "support/fp8_error.h"
#include "support/pass_work.h"

#include "algos/oracle.h"
#include "algos/run.h"

#include <math.h>

/* ---- the declarations ---- */

static const Column verdict_columns[] = {
    {"no", "", "of the lecture's list"},
    {"belief", "", "what is often said"},
    {"number", "", "computed in this run"},
    {"verdict", "", "on the belief, by this number"},
};
static const TableSpec verdict_table = {"verdicts", "Nine beliefs and a number for each", verdict_columns, 4};

static const Column exact_columns[] = {
    {"algorithm", "", "computed in float64"},
    {"mask", "", "none or causal"},
    {"max |O - textbook|", "", "over all elements"},
    {"max |O|", "", "of the textbook"},
};
static const TableSpec exact_table = {"exact", "1: distance from the textbook, float64 (N = 256, d = 64)", exact_columns, 4};

static const Column flop_columns[] = {
    {"pass", "", "forward, backward, both"},
    {"standard", "MFLOP", "matrix products of the walk"},
    {"flash", "MFLOP", "FlashAttention-2's"},
    {"more", "%", "flash over standard"},
    {"standard HBM", "elements", "each operand once per kernel"},
    {"flash HBM", "elements", "ideal L2; dQ added into dQ itself"},
    {"less", "x", "standard over flash"},
};
static const TableSpec flop_table = {"flops", "2: what is computed and what is moved (N = 1024, d = 64)", flop_columns, 7};

static const Column memory_columns[] = {
    {"M/d2", "", "on-chip elements over d^2"},
    {"M", "elements", "of the paper's model"},
    {"FlashAttention", "elements", "Algorithm 1, no L2"},
    {"standard", "elements", "4Nd + 4N^2"},
    {"over standard", "x", "above 1: more traffic"},
};
static const TableSpec memory_table = {"small_memory", "3: a small on-chip memory (N = 1024, d = 64)", memory_columns, 5};

static const Column balance_columns[] = {
    {"machine", "", "or chip"},
    {"balance", "FLOP/byte", "peak over memory bandwidth"},
    {"gain", "x", "roofline of standard attention over that of FlashAttention, N = 4096, d = 128"},
};
static const TableSpec balance_table = {"balance", "3: what the gain depends on", balance_columns, 3};

static const Column saved_columns[] = {
    {"N", "", "sequence length"},
    {"P", "MiB", "kept by standard attention, FP16"},
    {"L", "MiB", "kept by FlashAttention, float32"},
    {"less", "x", "P over L"},
};
static const TableSpec saved_table = {"saved", "4: kept for the backward pass, one layer (batch 64, 16 heads)", saved_columns, 4};

static const Column base_columns[] = {
    {"base", "log2", "row maximum plus this"},
    {"error", "", "max |O - float64| over finite elements"},
    {"not finite", "", "elements of O that are NaN or infinite"},
    {"elements", "", "N d"},
};
static const TableSpec base_table = {"bases", "5: softmax with another base than the maximum (float32, N = 512, d = 64)",
                                     base_columns, 4};

static const Column order_columns[] = {
    {"Br", "", "query rows per block"},          {"Bc", "", "keys per block"},
    {"FA1", "elements", "walk, no L2"},          {"FA2", "elements", "walk, no L2"},
    {"FA1/FA2", "x", "below 1: FA2 moves more"},
};
static const TableSpec order_table = {"orders", "6: traffic of the two loop orders (N = 1024, d = 64)", order_columns, 5};

static const Column fp8_columns[] = {
    {"in E4M3", "", "what is rounded, one scale per tensor; the rest is exact"},
    {"error", "", "root mean square over O"},
    {"rotated", "", "the same with Q and K times a random Hadamard matrix"},
    {"less", "x", "error over rotated"},
};
static const TableSpec fp8_table = {"fp8", "7: error by operand (N = 1024, d = 128, 0.1 % outliers)", fp8_columns, 4};

static const Column degree_columns[] = {
    {"degree", "", "of the minimax polynomial for 2^f"}, {"float32", "", "max relative error"},
    {"BF16", "", "max relative error after rounding"},   {"same BF16", "%", "as 2^f correctly rounded"},
    {"ULP", "", "largest difference in BF16"},
};
static const TableSpec degree_table = {"degrees", "8: a polynomial after rounding to BF16 (2^20 points)", degree_columns, 5};

static const Column decode_columns[] = {
    {"kernel", "", "one query per head, 32 heads, batch 1, 128K keys, H100"},
    {"blocks", "", "thread blocks"},
    {"SMs in use", "%", "of the waves they take"},
    {"rows in use", "%", "of a 64-row product"},
};
static const TableSpec decode_table = {"decoding", "9: the training kernel when decoding", decode_columns, 4};

static const TableSpec *const tables[] = {&verdict_table, &exact_table, &flop_table, &memory_table, &balance_table, &saved_table,
                                          &base_table,    &order_table, &fp8_table,  &degree_table, &decode_table};

static const ClaimSpec claims[] = {
    {"8-1", "8.1", "in float64 FlashAttention differs from the textbook by rounding alone (N = 256, d = 64)", "rounding",
     VERDICT_CLOSE, "largest over FA1 to FA4, no mask and causal; band: our spread over 40 seeds, 6.7e-16 to 1.7e-15", NULL},
    {"8-2a", "8.2", "forward FLOPs are the same", "same", VERDICT_EQUAL, "walks, N = 1024, d = 64", NULL},
    {"8-2b", "8.2", "more FLOPs, forward and backward together", "17%", VERDICT_EQUAL, "walks: 14 / 12 - 1", NULL},
    {"R-B-8.2", "8.2", "more FLOPs in the backward pass, as the sentence reads (also R-B-7-3)", "17%", VERDICT_DIFFERS, "walks: 10 / 8 - 1",
     "17 % is of both passes together; of the backward pass alone it is 25 %"},
    {"8-2c", "8.2", "what it cuts is HBM traffic", "less", VERDICT_EQUAL, "walks of both passes, ideal L2", NULL},
    {"8-3a", "8.3", "M near d^2: more traffic than standard attention (also 8-3)", "more", VERDICT_EQUAL, "walk at M = d^2",
     NULL},
    {"8-3b", "8.3", "on a CPU it is no faster", "no faster", VERDICT_CITED, "a wall-clock measurement: s1_5_cpu", NULL},
    {"8-3c", "8.3", "the gain depends on compute over bandwidth", "depends", VERDICT_EQUAL,
     "roofline: none below N d / 2(N + d) FLOP per byte, in proportion above it", NULL},
    {"8-4", "8.4", "FlashAttention saves memory in training: L instead of P", "saves", VERDICT_EQUAL,
     "512 GiB against 64 MiB at N = 16K (2.6-10, 2.6-11)", NULL},
    {"S8-01", "8.5", "any base cancels (base = maximum + 110 in log2)", "cancels", VERDICT_EQUAL,
     "float32: no NaN, and an error below ten times that of the maximum", NULL},
    {"8-5b", "8.5", "as long as the exponentials do not all underflow (base = maximum + 150)", "not all underflow", VERDICT_EQUAL,
     "float32: every element of O is 0 / 0", NULL},
    {"8-6a", "8.6", "FA2 can read and write more (Br = 64, Bc = 256)", "more", VERDICT_EQUAL,
     "walks, N = 1024, d = 64 (also 3.1-2)", NULL},
    {"8-6b", "8.6", "its speed comes from parallelism, not from less non-matmul work", "parallelism", VERDICT_EQUAL,
     "-14 % at 16 FLOP each is 1.04x; SMs in use, 16 heads, N = 2048, A100: 15 % to 79 %", NULL},
    {"S8-02", "8.7", "with outliers the error comes from Q and K", "Q, K", VERDICT_EQUAL, "error by operand, each of 4 samples",
     NULL},
    {"8-7r", "8.7", "so rotating Q and K alone helps", "helps", VERDICT_EQUAL,
     "everything in E4M3: error over rotated error, mean of 4 samples", NULL},
    {"S8-03", "8.8", "degree 3 is the same as hardware exp nearly everywhere once rounded", "nearly everywhere", VERDICT_EQUAL,
     "at least 98.5 % the same BF16 number, the rest one ULP away", NULL},
    {"8-9a", "8.9", "the training kernel uses a small part of the SMs", "small part", VERDICT_EQUAL,
     "32 blocks on 132 SMs (also P058)", NULL},
    {"8-9b", "8.9", "split K/V and packing mend it", "mend", VERDICT_EQUAL,
     "SMs with the lecture's number of parts; rows with 8 query heads packed (also P063, P067)", NULL},
};

/* The belief, and whether the number of this run refutes it. */
static void begin_verdict(Table *table, int number, const char *belief)
{
    table_row(table);
    cell_count(table, (uint64_t)number);
    cell_text(table, belief);
}

static void end_verdict(Table *table, bool refuted) { cell_text(table, refuted ? "refuted" : "stands"); }

/* ---- 1: exact ---- */

enum { EXACT_N = 256, EXACT_D = 64 };

static bool distance(const Context *context, const Profile *machine, const Algorithm *algorithm, MaskKind mask,
                     ForwardError *error)
{
    AttentionShape shape = attention_shape(EXACT_N, EXACT_D);
    AttentionRun run = {0};
    shape.dtype = ELEMENT_F64;
    shape.mask = mask;
    const RunSetup setup = {.algorithm = algorithm,
                            .profile = machine,
                            .tiles = {64, 64},
                            .config = {.mode = MODE_NUMERIC, .l2 = L2_IDEAL, .precision = PRECISION_F64}};
    bool ok = attention_run_prepare(&run, &setup, &shape, context->alloc, context->status);
    if (ok) {
        attention_random_inputs(&run.attention, &run.machine, context->options->seed);
        ok = attention_run_forward(&run) && oracle_compare(&run.attention, &run.machine, error);
    }
    attention_run_free(&run);
    return ok;
}

static bool add_exact(const Context *context, Report *report, const Profile *machine, Table *verdicts)
{
    static const Algorithm *const algorithms[] = {&algorithm_standard, &algorithm_fa1, &algorithm_fa2, &algorithm_fa3,
                                                  &algorithm_fa4};
    Table *table = report_table(report, &exact_table);
    double worst = 0;
    for (size_t a = 0; a < sizeof algorithms / sizeof algorithms[0]; a++)
        for (int causal = 0; causal < 2; causal++) {
            ForwardError error = {0};
            if (!distance(context, machine, algorithms[a], causal ? MASK_CAUSAL : MASK_NONE, &error)) return false;
            table_row(table);
            cell_text(table, algorithms[a]->name);
            cell_text(table, causal ? "causal" : "none");
            cell_significant(table, error.max_abs_O, 2);
            cell_significant(table, error.max_O, 3);
            if (algorithms[a] != &algorithm_standard) worst = fmax(worst, error.max_abs_O);
        }
    table_note(
        table,
        "Standard attention adds up in the textbook's order; the others key block by key block: that order is all that differs.");
    claim_close(report, "8-1", 5e-16, 2e-15, worst, 2, "");
    begin_verdict(verdicts, 1, "FlashAttention is an approximation");
    cell_textf(verdicts, "float64: %.1e from the textbook at most", worst);
    end_verdict(verdicts, worst < 1e-14);
    return true;
}

/* ---- 2: FLOPs and traffic ---- */

static double more_percent(uint64_t a, uint64_t b) { return b > 0 ? 100 * ((double)a / (double)b - 1) : 0; }

static void flop_row(Table *table, const char *pass, uint64_t standard, uint64_t flash, uint64_t standard_moved,
                     uint64_t flash_moved)
{
    table_row(table);
    cell_text(table, pass);
    cell_decimals(table, (double)standard / 1e6, 1);
    cell_decimals(table, (double)flash / 1e6, 1);
    cell_decimals(table, more_percent(flash, standard), 1);
    cell_count(table, standard_moved);
    cell_count(table, flash_moved);
    cell_decimals(table, (double)standard_moved / (double)flash_moved, 1);
}

static bool add_flops(const Context *context, Report *report, const Profile *machine, Table *verdicts)
{
    PassWork s, f;
    Table *table = report_table(report, &flop_table);
    if (!pass_work(&s, &algorithm_standard, machine, 1024, 64, report, context->alloc, context->status) ||
        !pass_work(&f, &algorithm_fa2, machine, 1024, 64, report, context->alloc, context->status))
        return false;
    const uint64_t standard = s.flops[0] + s.flops[1], flash = f.flops[0] + f.flops[1];
    const uint64_t standard_moved = s.elements[0] + s.elements[1], flash_moved = f.elements[0] + f.elements[1];
    flop_row(table, "forward", s.flops[0], f.flops[0], s.elements[0], f.elements[0]);
    flop_row(table, "backward", s.flops[1], f.flops[1], s.elements[1], f.elements[1]);
    flop_row(table, "both", standard, flash, standard_moved, flash_moved);
    claim_holds(report, "8-2a", s.flops[0] == f.flops[0], "%.1f = %.1f MFLOP", (double)s.flops[0] / 1e6,
                (double)f.flops[0] / 1e6);
    claim_decimals(report, "8-2b", 17, 0, more_percent(flash, standard), "%");
    claim_decimals(report, "R-B-8.2", 17, 0, more_percent(f.flops[1], s.flops[1]), "%");
    claim_holds(report, "8-2c", flash_moved < standard_moved, "%.1f times less", (double)standard_moved / (double)flash_moved);
    begin_verdict(verdicts, 2, "FlashAttention computes less");
    cell_textf(verdicts, "forward +%.0f %%, backward +%.0f %%, both +%.1f %% FLOPs", more_percent(f.flops[0], s.flops[0]),
               more_percent(f.flops[1], s.flops[1]), more_percent(flash, standard));
    end_verdict(verdicts, flash >= standard);
    return true;
}

/* ---- 3: small memory, other machines ---- */

static bool walk_small(const Context *context, const Profile *machine, uint64_t M, uint64_t *elements)
{
    const AttentionShape shape = attention_shape(1024, 64);
    AttentionRun run = {0};
    const bool ok =
        attention_count(&run, &algorithm_fa1, &shape, paper_tiles(M, 64), L2_NONE, machine, context->alloc, context->status);
    *elements = hbm_elements(&run.totals);
    attention_run_free(&run);
    return ok;
}

/* Time by the roofline of each, over that of the other: max(FLOP / peak, bytes / bandwidth), both 4N²d FLOP; the machine has
 * `balance` FLOP per byte. */
static double roofline_gain(double balance, uint64_t N, uint64_t d, Status *status)
{
    const double flops = (double)forward_flops(N, d, status);
    const double standard = 2 * (double)standard_elements(N, d, status) * balance,
                 flash = 2 * 4 * (double)N * (double)d * balance;
    return fmax(flops, standard) / fmax(flops, flash);
}

static void balance_row(Table *table, const char *machine, double balance, Status *status)
{
    table_row(table);
    cell_text(table, machine);
    cell_decimals(table, balance, 0);
    cell_decimals(table, roofline_gain(balance, 4096, 128, status), 2);
}

static bool add_balance(const Context *context, Report *report, double *threshold)
{
    static const char *const names[] = {"a100", "h100", "b200"};
    Table *table = report_table(report, &balance_table);
    double gains[3], balances[3];
    *threshold = 4096.0 * 128 / (2 * (4096.0 + 128));
    balance_row(table, "10 FLOP per byte: a CPU", 10, context->status);
    balance_row(table, "N d / 2(N + d): the threshold", *threshold, context->status);
    for (int c = 0; c < 3; c++) {
        Profile chip;
        if (!profile_load(names[c], context->alloc, &chip, context->status)) return false;
        balances[c] = (double)chip.peak_bf16_flops_per_chip / (double)chip.hbm_bytes_per_second_per_chip;
        gains[c] = roofline_gain(balances[c], 4096, 128, context->status);
        balance_row(table, chip.name, balances[c], context->status);
    }
    table_note(
        table,
        "10 is the order of a CPU core with vector units: no chip of this project. Measured on the machine at hand: s1_5_cpu.");
    const double below = roofline_gain(10, 4096, 128, context->status);
    bool proportional = below == 1;
    for (int c = 0; c < 3; c++) proportional = proportional && fabs(gains[c] / (balances[c] / *threshold) - 1) < 1e-12;
    claim_holds(report, "8-3c", proportional, "1.00x at 10 FLOP/byte, %.2fx to %.2fx at %.0f to %.0f", gains[0], gains[1],
                balances[0], balances[1]);
    return true;
}

static bool add_small_memory(const Context *context, Report *report, const Profile *machine, Table *verdicts)
{
    static const uint64_t multiples[] = {1, 2, 3, 4, 8, 16};
    Table *table = report_table(report, &memory_table);
    const uint64_t standard = standard_elements(1024, 64, context->status);
    double first = 0, threshold = 0;
    for (size_t i = 0; i < sizeof multiples / sizeof multiples[0]; i++) {
        const uint64_t M = multiples[i] * 64 * 64;
        uint64_t flash = 0;
        if (!walk_small(context, machine, M, &flash)) return false;
        if (i == 0) first = (double)flash / (double)standard;
        table_row(table);
        cell_count(table, multiples[i]);
        cell_count(table, M);
        cell_count(table, flash);
        cell_count(table, standard);
        cell_decimals(table, (double)flash / (double)standard, 2);
    }
    claim_holds(report, "8-3a", first > 1, "%.2f times as much at M = d^2", first);
    claim_cited(report, "8-3b", "-");
    if (!add_balance(context, report, &threshold)) return false;
    begin_verdict(verdicts, 3, "tiling is faster on any hardware");
    cell_textf(verdicts, "M = d^2: %.2f times the traffic; below %.0f FLOP per byte no gain", first, threshold);
    end_verdict(verdicts, first > 1 && threshold > 0);
    return true;
}

/* ---- 4: memory in training ---- */

static void add_saved(const Context *context, Report *report, Table *verdicts)
{
    static const uint64_t lengths[] = {1024, 4096, 16384};
    Table *table = report_table(report, &saved_table);
    uint64_t p = 0, l = 0;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        p = saved_p_bytes(64, 16, lengths[i], context->status);
        l = saved_l_bytes(64, 16, lengths[i], context->status);
        table_row(table);
        cell_count(table, lengths[i]);
        cell_count(table, p >> 20);
        cell_count(table, l >> 20);
        cell_count(table, p / l);
    }
    table_note(table, "The closed forms of s2_6_backward, which checks them against the tensors that stay.");
    claim_holds(report, "8-4", p == UINT64_C(512) << 30 && l == UINT64_C(64) << 20,
                "%" PRIu64 " GiB and %" PRIu64 " MiB at N = 16K", p >> 30, l >> 20);
    begin_verdict(verdicts, 4, "the backward pass needs P, so training saves no memory");
    cell_textf(verdicts, "N = 16K: L is %" PRIu64 " times smaller than P", p / l);
    end_verdict(verdicts, l < p);
}

/* ---- 5: the base ---- */

static bool add_bases(const Context *context, Report *report, Table *verdicts)
{
    static const double bases[] = {-130, -110, -8, 0, 8, 110, 150};
    enum { BASES = sizeof bases / sizeof bases[0], MAXIMUM = 3, HIGH = 5, TOO_HIGH = 6 };
    BaseOutcome outcomes[BASES];
    Table *table = report_table(report, &base_table);
    for (int i = 0; i < BASES; i++) {
        if (!attention_with_base(&outcomes[i], 512, 64, context->options->seed, bases[i], context->alloc, context->status))
            return false;
        table_row(table);
        cell_signed(table, (int64_t)bases[i]);
        if (outcomes[i].nonfinite < outcomes[i].entries)
            cell_significant(table, outcomes[i].max_error, 2);
        else
            cell_empty(table);
        cell_count(table, outcomes[i].nonfinite);
        cell_count(table, outcomes[i].entries);
    }
    table_note(
        table,
        "Negative: weights up to 2^110 still add up below 2^128; 2^130 do not. Positive: weights down to 2^-110 are still normal "
        "numbers; at 2^-150 all are 0.");
    const BaseOutcome *usual = &outcomes[MAXIMUM], *high = &outcomes[HIGH], *lost = &outcomes[TOO_HIGH];
    claim_holds(report, "S8-01", high->nonfinite == 0 && high->max_error < 10 * usual->max_error, "%.1e, with the maximum %.1e",
                high->max_error, usual->max_error);
    claim_holds(report, "8-5b", lost->nonfinite == lost->entries, "%" PRIu64 " of %" PRIu64 " not finite", lost->nonfinite,
                lost->entries);
    begin_verdict(verdicts, 5, "m must be the true maximum");
    cell_textf(verdicts, "maximum + 110: error %.1e (else %.1e); + 150: %" PRIu64 " %% NaN", high->max_error, usual->max_error,
               100 * lost->nonfinite / lost->entries);
    end_verdict(verdicts, high->nonfinite == 0);
    return true;
}

/* ---- 6: FlashAttention-2 ---- */

static bool walk_order(const Context *context, const Profile *machine, const Algorithm *algorithm, TileSize tiles,
                       uint64_t *elements, uint64_t *nonmatmul)
{
    const AttentionShape shape = attention_shape(1024, 64);
    AttentionRun run = {0};
    const bool ok = attention_count(&run, algorithm, &shape, tiles, L2_NONE, machine, context->alloc, context->status);
    *elements = hbm_elements(&run.totals);
    *nonmatmul = run.totals.nonmatmul_ops;
    attention_run_free(&run);
    return ok;
}

static double used_percent(uint64_t blocks, const Profile *chip, Status *status)
{
    SplitUse use = {0};
    return split_use(blocks, 1, chip->sm_count, &use, status) ? use.used_percent : 0;
}

static bool add_orders(const Context *context, Report *report, const Profile *machine, const Profile *a100, Table *verdicts)
{
    static const TileSize tiles[] = {{128, 128}, {64, 64}, {128, 64}, {64, 128}, {64, 256}};
    enum { TILES = sizeof tiles / sizeof tiles[0] };
    Table *table = report_table(report, &order_table);
    double least = 0, speedup = 0, change = 0;
    for (int i = 0; i < TILES; i++) {
        uint64_t elements[2], ops[2];
        if (!walk_order(context, machine, &algorithm_fa1, tiles[i], &elements[0], &ops[0]) ||
            !walk_order(context, machine, &algorithm_fa2, tiles[i], &elements[1], &ops[1]))
            return false;
        const double ratio = (double)elements[0] / (double)elements[1], flops = (double)forward_flops(1024, 64, context->status);
        const double dear = (double)a100->mma_sync_bf16_flops_per_cycle_per_sm / (2 * (double)a100->fp32_fma_per_cycle_per_sm);
        if (i == 0) {
            speedup = (flops + dear * (double)ops[0]) / (flops + dear * (double)ops[1]);
            change = more_percent(ops[1], ops[0]);
        }
        least = ratio;
        table_row(table);
        cell_count(table, tiles[i].Br);
        cell_count(table, tiles[i].Bc);
        cell_count(table, elements[0]);
        cell_count(table, elements[1]);
        cell_decimals(table, ratio, 2);
    }
    const double before = used_percent(16, a100, context->status), after = used_percent(16 * 2048 / 128, a100, context->status);
    table_note(table,
               "Non-matmul operations at 128 x 128: %.0f %%, worth %.2fx if each costs 16 FLOP. SMs of an A100 in use at batch "
               "1, 16 heads, N = 2048:",
               change, speedup);
    table_note(table, "%.0f %% by a block per head, %.0f %% by a block per 128 queries: that is worth %.1fx.", before, after,
               after / before);
    claim_holds(report, "8-6a", least < 1, "FA2 moves %.2f times as much", 1 / least);
    claim_holds(report, "8-6b", speedup < 1.05 && after / before > 2, "%.2fx against %.1fx", speedup, after / before);
    begin_verdict(verdicts, 6, "FlashAttention-2 is faster because it reads less");
    cell_textf(verdicts, "Br 64, Bc 256: %.2f times as much; %.0f %% other work is %.2fx, more blocks %.1fx", 1 / least, change,
               speedup, after / before);
    end_verdict(verdicts, least < 1);
    return true;
}

/* ---- 7: FP8 ---- */

enum { FP8_SAMPLES = 4, FP8_PARTS = 4 };

static Fp8Recipe fp8_recipe(int part, bool rotate)
{
    const bool all = part == 3;
    return (Fp8Recipe){.qk = part == 0 || all ? OPERAND_E4M3 : OPERAND_EXACT,
                       .v = part == 1 || all ? OPERAND_E4M3 : OPERAND_EXACT,
                       .p = part == 2 || all ? OPERAND_E4M3 : OPERAND_EXACT,
                       .scales = SCALE_TENSOR,
                       .rotate_qk = rotate};
}

static bool measure_fp8(const Context *context, double mean[2 * FP8_PARTS], uint64_t *first_largest)
{
    Fp8Recipe recipes[2 * FP8_PARTS];
    for (int r = 0; r < 2 * FP8_PARTS; r++) recipes[r] = fp8_recipe(r % FP8_PARTS, r >= FP8_PARTS);
    for (uint64_t s = 0; s < FP8_SAMPLES; s++) {
        double error[2 * FP8_PARTS];
        Fp8Case c = {0};
        const bool ok = fp8_case_init(&c, context->options->seed + s, 1024, 256, 128, context->alloc, context->status);
        if (ok) fp8_errors(&c, recipes, 2 * FP8_PARTS, error);
        fp8_case_free(&c);
        if (!ok) return false;
        for (int r = 0; r < 2 * FP8_PARTS; r++) mean[r] += error[r] / FP8_SAMPLES;
        *first_largest += error[0] > error[1] && error[0] > error[2];
    }
    return true;
}

static bool add_fp8(const Context *context, Report *report, Table *verdicts)
{
    static const char *const parts[FP8_PARTS] = {"Q, K", "V", "P", "all"};
    double mean[2 * FP8_PARTS] = {0};
    uint64_t first_largest = 0;
    Table *table = report_table(report, &fp8_table);
    if (!measure_fp8(context, mean, &first_largest)) return false;
    for (int part = 0; part < FP8_PARTS; part++) {
        table_row(table);
        cell_text(table, parts[part]);
        cell_significant(table, mean[part], 2);
        cell_significant(table, mean[part + FP8_PARTS], 2);
        cell_decimals(table, mean[part] / mean[part + FP8_PARTS], 2);
    }
    table_note(table, "Mean of %d samples, the first 256 query rows of each. P is rounded as e^(S - maximum), without a scale.",
               FP8_SAMPLES);
    claim_holds(report, "S8-02", first_largest == FP8_SAMPLES, "Q, K %.1e, V %.1e, P %.1e", mean[0], mean[1], mean[2]);
    claim_holds(report, "8-7r", mean[3] > 1.2 * mean[3 + FP8_PARTS], "%.1fx", mean[3] / mean[3 + FP8_PARTS]);
    begin_verdict(verdicts, 7, "FP8 attention's error comes from P");
    cell_textf(verdicts, "Q and K %.1e, V %.1e, P %.1e", mean[0], mean[1], mean[2]);
    end_verdict(verdicts, mean[0] > mean[2]);
    return true;
}

/* ---- 8: the polynomial ---- */

static bool add_degrees(const Context *context, Report *report, Table *verdicts)
{
    Table *table = report_table(report, &degree_table);
    Exp2Accuracy third = {0};
    for (uint32_t degree = 2; degree <= 4; degree++) {
        Exp2Accuracy a;
        if (!polynomial_accuracy(degree, &a, context->status)) return false;
        if (degree == 3) third = a;
        table_row(table);
        cell_count(table, degree);
        cell_significant(table, a.max_relative, 3);
        cell_significant(table, a.max_relative_bf16, 3);
        cell_decimals(table, 100 * a.same_bf16, 2);
        cell_count(table, a.max_ulp_bf16);
    }
    table_note(table, "Exact rounding to BF16 has an error of %.3g itself.",
               exp2_accuracy(exp2_ideal, NULL, EXP2_POINTS).max_relative_bf16);
    claim_holds(report, "S8-03", third.same_bf16 >= 0.985 && third.max_ulp_bf16 == 1, "%.2f%% the same, the rest %u ULP",
                100 * third.same_bf16, third.max_ulp_bf16);
    begin_verdict(verdicts, 8, "a polynomial exp is too coarse");
    cell_textf(verdicts, "degree 3: %.2f %% the same BF16 number, the rest %u ULP away", 100 * third.same_bf16,
               third.max_ulp_bf16);
    end_verdict(verdicts, third.same_bf16 > 0.98);
    return true;
}

/* ---- 9: decoding ---- */

static void decode_row(Table *table, const char *kernel, uint64_t blocks, double sms, double rows)
{
    table_row(table);
    cell_text(table, kernel);
    cell_count(table, blocks);
    cell_decimals(table, sms, 0);
    cell_decimals(table, rows, 1);
}

static void add_decoding(const Context *context, Report *report, const Profile *h100, Table *verdicts)
{
    enum { HEADS = 32, GROUP = 8 };
    const double tile = algorithm_fa3.geometry(&(AttentionShape){.head_dim = 128}, (TileSize){64, 128}).shape.m;
    const SplitProblem plain = decode_split_problem(1, HEADS, 131072, 128, h100->sm_count);
    const uint64_t parts = split_count(SPLIT_LECTURE, &plain);
    const SplitProblem packed = decode_split_problem(1, HEADS / GROUP, 131072, 128, h100->sm_count);
    const uint64_t packed_parts = split_count(SPLIT_LECTURE, &packed);
    const double before = used_percent(HEADS, h100, context->status), after = used_percent(HEADS * parts, h100, context->status);
    Table *table = report_table(report, &decode_table);
    decode_row(table, "a block per query block", HEADS, before, 100 / tile);
    decode_row(table, "K and V split", HEADS * parts, after, 100 / tile);
    decode_row(table, "split, 8 query heads packed", packed.blocks * packed_parts,
               used_percent(packed.blocks * packed_parts, h100, context->status), 100 * GROUP / tile);
    table_note(table,
               "%" PRIu64 " parts, and %" PRIu64
               " when packed, by the lecture's rule. The last row needs grouped queries: 4 K/V heads.",
               parts, packed_parts);
    claim_holds(report, "8-9a", before < 25, "%.0f%% of the SMs, %.1f%% of a product's rows", before, 100 / tile);
    claim_holds(report, "8-9b", after > 95 && GROUP / tile == 0.125, "%.0f%% of the SMs, %.1f%% of the rows", after,
                100 * GROUP / tile);
    begin_verdict(verdicts, 9, "the training kernel will do for decoding");
    cell_textf(verdicts, "%.0f %% of the SMs and %.1f %% of a product's rows", before, 100 / tile);
    end_verdict(verdicts, before < 50);
}

static bool run(Context *context, Report *report)
{
    Profile machine, a100, h100;
    if (!profile_load("unbounded", context->alloc, &machine, context->status) ||
        !profile_load("a100", context->alloc, &a100, context->status) ||
        !profile_load("h100", context->alloc, &h100, context->status))
        return false;
    Table *verdicts = report_table(report, &verdict_table);
    if (!add_exact(context, report, &machine, verdicts) || !add_flops(context, report, &machine, verdicts) ||
        !add_small_memory(context, report, &machine, verdicts))
        return false;
    add_saved(context, report, verdicts);
    if (!add_bases(context, report, verdicts) || !add_orders(context, report, &machine, &a100, verdicts) ||
        !add_fp8(context, report, verdicts) || !add_degrees(context, report, verdicts))
        return false;
    add_decoding(context, report, &h100, verdicts);
    return status_ok(context->status);
}

const Experiment experiment_s8_pitfalls = {
    .program =
        {
            .name = "s8_pitfalls",
            .purpose = "nine common beliefs about FlashAttention, each beside a number that refutes it (lecture 8)",
            .examples = {"", "--seed 7 --format md"},
        },
    .report =
        {
            .section = "8",
            .title_en = "Common pitfalls",
            .title_zh = "常见误区",
            .tables = tables,
            .table_count = sizeof tables / sizeof tables[0],
            .claims = claims,
            .claim_count = sizeof claims / sizeof claims[0],
        },
    .run = run,
};
