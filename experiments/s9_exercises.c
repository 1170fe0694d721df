/* s9_exercises.c - lecture §9: the eleven answers, each a derivation in one line and the numbers that it gives.
 *
 * Proofs are tested on random data: exercise 3 (merging parts is associative and commutative) with the combine kernel of
 * Flash-Decoding, exercise 4 (sum_k P_ik dP_ik = dO_i . O_i, also with dropout) with FlashAttention-2's kernels, exercise 8 (what
 * a rotation cancels) with the Hadamard matrix of §4.4, all in float64. Counts come from walks and are checked against closed
 * forms; schedules and splits from the same code as §4.5 and §6.1. Where an answer needs more words, the section's own program
 * has them.
 */
#include "support/decode_study.h"
#include "support/exp_facts.h"
#include "support/experiment.h"
#include "support/fp8_error.h"
#include "support/pass_work.h"
#include "support/tensor_named.h"
#include "support/timed_run.h"

#include "sim/chip_schedule.h"
#include "sim/cost.h"
#include "sim/hadamard.h"
#include "sim/math_functions.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the declarations ---- */

static const Column answer_columns[] = {
    {"no", "", "of the exercise"},
    {"line", "", "the derivation, then what follows from it"},
    {"value", "", "computed in this run"},
};
static const TableSpec answer_table = {"answers", "Eleven answers", answer_columns, 3};

static const Column step_columns[] = {
    {"order", "", "in which the tasks are handed out: arrival, or longest first"},
    {"task", "", "its length"},
    {"worker", "", "the one that is free first, A before B"},
    {"from", "", "start"},
    {"until", "", "end"},
};
static const TableSpec step_table = {"steps", "10: six tasks on two workers", step_columns, 5};

static const Column split_columns[] = {
    {"parts", "", "into which each K/V head is cut"},
    {"blocks", "", "16 times as many"},
    {"waves", "", "on 132 SMs"},
    {"efficiency", "%", "blocks over the SMs of all waves"},
    {"enough", "", "at least 85 % of the best of all parts"},
    {"partial results", "x", "traffic of merging, over that of 8 parts"},
};
static const TableSpec split_table = {"splits", "11: into how many parts (batch 2, 8 K/V heads, 32K keys, 132 SMs)",
                                      split_columns, 6};

static const TableSpec *const tables[] = {&answer_table, &step_table, &split_table};

#define SPREAD(low, high) "our spread over 60 seeds: " low " to " high

static const ClaimSpec claims[] = {
    {"ex1-1", "ex 1", "4Nd (N = 2048, d = 64)", "524,288", VERDICT_EQUAL, "walk: elements of Q, K, V, O", NULL},
    {"ex1-2", "ex 1", "4N^2", "16,777,216", VERDICT_EQUAL, "walk: elements of S and P", NULL},
    {"ex1-3", "ex 1", "HBM traffic of standard attention, forward", "17,301,504", VERDICT_EQUAL, "walk", NULL},
    {"ex1-4", "ex 1", "share of the N x N matrices", "97.0%", VERDICT_EQUAL, "N / (N + d), walked", NULL},
    {"ex2-1", "ex 2", "elements in 192 KB, FP16", "98304", VERDICT_EQUAL, "192 KiB of an A100's SM / 2", NULL},
    {"ex2-2", "ex 2", "Bc (d = 128)", "192", VERDICT_EQUAL, "ceil(98304 / 512)", NULL},
    {"ex2-3", "ex 2", "Br", "128", VERDICT_EQUAL, "min(192, 128)", NULL},
    {"ex2-4", "ex 2", "Tc (N = 8192)", "43", VERDICT_EQUAL, "ceil(8192 / 192), walked", NULL},
    {"ex2-5", "ex 2", "leading term", "1.35e8", VERDICT_EQUAL, "walk: Q read, O read and written Tc times", NULL},
    {"ex2-6", "ex 2", "standard attention", "2.73e8", VERDICT_EQUAL, "4Nd + 4N^2", NULL},
    {"ex2-7", "ex 2", "standard over leading term", "about 2x", VERDICT_EQUAL, "one digit; with all terms 1.95", NULL},
    {"ex2-block", "ex 2", "the block of these tiles fits an A100's shared memory (also 2.3-ex2a, 2.3-ex2b)", "(implied)",
     VERDICT_DIFFERS, "2 (2 Bc d + 2 Br d + 2 Br + Br Bc) bytes against 163 KiB a block",
     "M is the paper's parameter: with S on chip 213,504 B are needed; 163,840 B fit when S stays in registers"},
    {"P071", "ex 3", "merging is associative and commutative: largest difference (float64, 200 triples, d = 64)", "rounding",
     VERDICT_CLOSE, "combine kernel, |O| near 4; " SPREAD("8.9e-16", "1.8e-15"), NULL},
    {"ex4-1", "ex 4", "sum_k P dP = dO.O", "holds", VERDICT_CLOSE,
     "largest of N = 512 rows, d = 64, float64; " SPREAD("2.2e-15", "6.2e-15"), NULL},
    {"ex4-2", "ex 4", "the same with dropout, p = 0.1", "still holds", VERDICT_CLOSE,
     "largest of N = 512 rows, d = 64, float64; " SPREAD("2.2e-15", "6.2e-15"), NULL},
    {"ex5-1", "ex 5", "standard, both passes", "12N^2 d", VERDICT_EQUAL, "walk, N = 1024, d = 64", NULL},
    {"ex5-2", "ex 5", "FlashAttention, both passes", "14N^2 d", VERDICT_EQUAL, "walk", NULL},
    {"ex5-3", "ex 5", "more", "16.7%", VERDICT_EQUAL, "walks", NULL},
    {"ex5-4", "ex 5", "each of dV, dP, dQ, dK", "2N^2 d", VERDICT_EQUAL, "walk of the standard backward / 4", NULL},
    {"ex6-1", "ex 6", "atomics of dK and dV, query blocks outside, over those of dQ (also P072)", "doubles", VERDICT_EQUAL,
     "walks, N = 512, d = 64, blocks of 64: Tr 4Nd over Tc 2Nd", NULL},
    {"ex6-2", "ex 6", "atomics of the forward pass (also P073)", "0", VERDICT_EQUAL, "walk", NULL},
    {"S9-01", "ex 7", "H100, d = 96", "0.67", VERDICT_EQUAL, "4096 / (4 x 96 x 16)", NULL},
    {"S9-02", "ex 7", "B200, d = 96", "1.33", VERDICT_EQUAL, "8192 / (4 x 96 x 16)", NULL},
    {"S9-03", "ex 8", "P(VJ)J^T = PV and (QJ)(KJ)^T = QK^T", "equal", VERDICT_CLOSE,
     "largest difference, float64, N = 256, d = 128; " SPREAD("5.0e-14", "1.6e-13"), NULL},
    {"S9-04", "ex 8", "what rotating V costs per row of O", "O(d log d)", VERDICT_EQUAL, "d log2 d additions at d = 128: 896",
     NULL},
    {"S9-05", "ex 9", "largest threshold", "128 - log2 N", VERDICT_EQUAL, "N = 2048: 117", NULL},
    {"S9-06", "ex 9", "at N = 2^20", "108", VERDICT_EQUAL, "128 - 20", NULL},
    {"S9-07", "ex 9", "the paper's", "8", VERDICT_CITED, "arXiv:2603.05451, Section 3.1.4", NULL},
    {"P074", "ex 10", "arrival order: ends", "A 1, 4, 8; B 2, 5, 10", VERDICT_EQUAL, "schedule", NULL},
    {"P075", "ex 10", "arrival order: finish", "10", VERDICT_EQUAL, "schedule", NULL},
    {"P076", "ex 10", "longest first: ends", "A 5, 8, 9; B 4, 7, 9", VERDICT_EQUAL, "schedule", NULL},
    {"P077", "ex 10", "longest first: finish", "9", VERDICT_EQUAL, "schedule", NULL},
    {"P078", "ex 10", "lower bound", "9", VERDICT_EQUAL, "ceil(18 / 2)", NULL},
    {"P079", "ex 11", "blocks without splitting", "16", VERDICT_EQUAL, "2 x 8", NULL},
    {"P080", "ex 11", "SMs in use", "12%", VERDICT_EQUAL, "16 / 132", NULL},
    {"P081", "ex 11", "8 parts: blocks, waves, efficiency", "128; 1; 97%", VERDICT_EQUAL, "128 / 132", NULL},
    {"P082", "ex 11", "33 parts: blocks, waves, efficiency", "528; 4; 100%", VERDICT_EQUAL, "528 / 528", NULL},
    {"P083", "ex 11", "33 parts cost more to merge", "more", VERDICT_EQUAL, "partial results, 33 / 8", NULL},
    {"P084", "ex 11", "parts by the 85 % rule of the lecture (and of FlashAttention-3)", "8", VERDICT_EQUAL,
     "smallest with 85 % of the best", NULL},
    {"R-B-ex11", "ex 11", "flash-attn's rule gives 8", "8", VERDICT_DIFFERS, "FlashAttention-2's, flash_api.cpp",
     "8 is FlashAttention-3's; FlashAttention-2 skips numbers that cut no shorter parts, and its answer is another"},
};

/* ---- rows of the answers ---- */

static void derive(Table *table, int number, const char *derivation)
{
    table_row(table);
    cell_count(table, (uint64_t)number);
    cell_text(table, derivation);
    cell_empty(table);
}

static void begin_line(Table *table, const char *line)
{
    table_row(table);
    cell_empty(table);
    cell_text(table, line);
}

static void count_line(Table *table, const char *line, uint64_t value)
{
    begin_line(table, line);
    cell_count(table, value);
}

static void decimal_line(Table *table, const char *line, double value, int decimals)
{
    begin_line(table, line);
    cell_decimals(table, value, decimals);
}

static void error_line(Table *table, const char *line, double value)
{
    begin_line(table, line);
    cell_significant(table, value, 2);
}

/* ---- 1, 2: HBM traffic ---- */

static uint64_t moved_of(const Machine *machine, const char *names)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < machine->ledger_count; i++)
        if (strchr(names, machine->ledger[i].tensor->name[0]) != NULL && machine->ledger[i].tensor->name[1] == '\0')
            sum += machine->ledger[i].traffic.hbm_read + machine->ledger[i].traffic.hbm_write;
    return sum;
}

static bool answer_1(const Context *context, Report *report, Table *table, const Profile *machine)
{
    const AttentionShape shape = attention_shape(2048, 64);
    AttentionRun run = {0};
    const bool ok = attention_count(&run, &algorithm_standard, &shape, (TileSize){128, 128}, L2_IDEAL, machine, context->alloc,
                                    context->status);
    if (ok) {
        const uint64_t vectors = moved_of(&run.machine, "QKVO"), square = moved_of(&run.machine, "SP"),
                       all = hbm_elements(&run.totals);
        report_check(report, all, standard_elements(2048, 64, context->status), "4Nd + 4N^2");
        derive(table, 1, "S, P: each written and read once, N^2 each time; Q, K, V, O: once, Nd: 4Nd + 4N^2");
        count_line(table, "4Nd", vectors);
        count_line(table, "4N^2", square);
        count_line(table, "in all, elements", all);
        decimal_line(table, "share of N x N, N / (N + d), %", 100 * (double)square / (double)all, 1);
        claim_count(report, "ex1-1", 524288, vectors, "");
        claim_count(report, "ex1-2", 16777216, square, "");
        claim_count(report, "ex1-3", 17301504, all, "");
        claim_decimals(report, "ex1-4", 97.0, 1, 100 * (double)square / (double)all, "%");
    }
    attention_run_free(&run);
    return ok;
}

static bool answer_2(const Context *context, Report *report, Table *table, const Profile *machine, const Profile *a100)
{
    enum { N = 8192, D = 128 };
    const AttentionShape shape = attention_shape(N, D);
    const uint64_t M = a100->l1_and_smem_bytes_per_sm / 2, standard = standard_elements(N, D, context->status);
    const TileSize tiles = paper_tiles(M, D);
    AttentionRun run = {0};
    const bool ok = attention_count(&run, &algorithm_fa1, &shape, tiles, L2_NONE, machine, context->alloc, context->status);
    if (ok) {
        const uint64_t Tc = key_blocks(&run.attention), all = hbm_elements(&run.totals);
        const uint64_t leading = moved_of(&run.machine, "QO") - (uint64_t)N * D; /* less O's initialisation */
        const uint64_t on_chip = 2 * fa1_sram_elements(tiles.Br, tiles.Bc, D, context->status);
        const uint64_t in_registers = 2 * (2 * (uint64_t)tiles.Bc * D + 2 * (uint64_t)tiles.Br * D),
                       there = a100->smem_bytes_per_block;
        report_check(report, all, fa1_elements(N, D, tiles.Bc, context->status), "2Nd + (Nd + 2N) + Tc (3Nd + 4N)");
        report_check(report, leading, 3 * (uint64_t)N * D * Tc, "3Nd Tc");
        derive(table, 2, "Bc = ceil(M/4d), Br = min(Bc, d), Tc = ceil(N/Bc); Q read, O read and written Tc times: 3Nd Tc");
        count_line(table, "M: 192 KiB of FP16", M);
        count_line(table, "Bc", tiles.Bc);
        count_line(table, "Br", tiles.Br);
        count_line(table, "Tc, N = 8192, d = 128", Tc);
        count_line(table, "3Nd Tc, elements", leading);
        count_line(table, "with the lower terms", all);
        count_line(table, "standard attention", standard);
        decimal_line(table, "standard over leading term", (double)standard / (double)leading, 2);
        count_line(table, "M is the paper's parameter. A block with S on chip, bytes", on_chip);
        count_line(table, "... with S, l, m in registers", in_registers);
        count_line(table, "... and what an A100 gives a block", there);
        claim_count(report, "ex2-1", 98304, M, "");
        claim_count(report, "ex2-2", 192, tiles.Bc, "");
        claim_count(report, "ex2-3", 128, tiles.Br, "");
        claim_count(report, "ex2-4", 43, Tc, "");
        claim_significant(report, "ex2-5", 1.35e8, 3, (double)leading, "");
        claim_significant(report, "ex2-6", 2.73e8, 3, (double)standard, "");
        claim_decimals(report, "ex2-7", 2, 0, (double)standard / (double)leading, "x");
        claim_holds(report, "ex2-block", on_chip <= there, "%" PRIu64 " of %" PRIu64 " B; S in registers: %" PRIu64, on_chip,
                    there, in_registers);
    }
    attention_run_free(&run);
    return ok;
}

/* ---- 3: merging ---- */

static bool answer_3(const Context *context, Report *report, Table *table)
{
    MergeStudy study;
    if (!merge_study(200, 64, context->options->seed, context->alloc, &study, context->status)) return false;
    derive(table, 3,
           "(m, l, o) stands for (sum e^s, sum e^s v) in units of e^m; merging changes units and adds: addition is associative, "
           "commutative");
    error_line(table, "200 random triples, float64: (a b) c against a (b c)", study.bracketing);
    error_line(table, "a b against b a, a b c against c b a", study.order);
    error_line(table, "part after part against a tree", study.shape);
    decimal_line(table, "the largest |O|", study.largest, 1);
    const double worst = fmax(study.bracketing, fmax(study.order, study.shape));
    claim_close(report, "P071", 5e-16, 3e-15, worst, 2, "");
    return true;
}

/* ---- 4: the identity ---- */

static double dot(const Machine *machine, const Tensor *x, uint64_t i, const Tensor *y, uint64_t j, uint64_t d)
{
    double sum = 0;
    for (uint64_t c = 0; c < d; c++) sum += tensor_value(machine, x, i * d + c) * tensor_value(machine, y, j * d + c);
    return sum;
}

/* sum_k P_ik dP_ik of row i: P from Q, K and L, dP_ik = Z_ik / (1 - p) dO_i . V_k. */
static double row_sum_of(const AttentionRun *run, uint64_t i)
{
    const Attention *a = &run->attention;
    const Machine *m = &run->machine;
    const Dropout *dropout = &a->shape.dropout;
    const uint64_t d = a->shape.head_dim;
    const bool drops = a->shape.dropout_source == DROPOUT_SEED;
    double sum = 0;
    for (uint64_t k = 0; k < a->shape.seqlen_k; k++) {
        if (drops && !dropout_keeps(dropout, 0, i, k)) continue;
        const double s = a->shape.softmax_scale * dot(m, a->Q, i, a->K, k, d);
        const double dP = dot(m, a->dO, i, a->V, k, d) / (drops ? 1 - dropout->p : 1);
        sum += exp_f64(s - tensor_value(m, a->L, i)) * dP;
    }
    return sum;
}

/* The largest difference from the kernel's D = rowsum(dO o O) over all rows. */
static bool identity_error(const Context *context, const Profile *machine, double p, double *worst)
{
    AttentionShape shape = attention_shape(512, 64);
    AttentionRun run = {0};
    shape.dtype = ELEMENT_F64;
    if (p > 0) shape.dropout_source = DROPOUT_SEED;
    shape.dropout = (Dropout){.p = p, .seed = context->options->seed};
    const TileSize tiles = {64, 64};
    const RunSetup setup = {.algorithm = &algorithm_fa2,
                            .profile = machine,
                            .tiles = tiles,
                            .config = {.mode = MODE_NUMERIC, .l2 = L2_IDEAL, .precision = PRECISION_F64}};
    bool ok = attention_run_prepare(&run, &setup, &shape, context->alloc, context->status) &&
              attention_run_prepare_backward(&run, tiles, (BackwardVariant){0});
    if (ok) {
        attention_random_inputs(&run.attention, &run.machine, context->options->seed);
        ok = attention_run_forward(&run) && attention_run_backward(&run);
    }
    const Tensor *D = ok ? tensor_named(&run.machine, "D") : NULL;
    for (uint64_t i = 0; D != NULL && i < shape.seqlen_q; i++)
        *worst = fmax(*worst, fabs(row_sum_of(&run, i) - tensor_value(&run.machine, D, i)));
    attention_run_free(&run);
    return ok;
}

static bool answer_4(const Context *context, Report *report, Table *table, const Profile *machine)
{
    double plain = 0, dropped = 0;
    if (!identity_error(context, machine, 0, &plain) || !identity_error(context, machine, 0.1, &dropped)) return false;
    derive(table, 4,
           "dP_ik = dO_i . V_k, so sum_k P_ik dP_ik = dO_i . sum_k P_ik V_k = dO_i . O_i; dropout: dP_ik = Z_ik/(1-p) dO_i . "
           "V_k, O has the same Z");
    error_line(table, "largest difference of 512 rows, float64", plain);
    error_line(table, "with dropout, p = 0.1", dropped);
    claim_close(report, "ex4-1", 1.5e-15, 8e-15, plain, 2, "");
    claim_close(report, "ex4-2", 1.5e-15, 8e-15, dropped, 2, "");
    return true;
}

/* ---- 5, 6: FLOPs, atomics ---- */

static bool answer_5(const Context *context, Report *report, Table *table, const Profile *machine)
{
    const uint64_t N = 1024, d = 64, unit = N * N * d;
    PassWork standard, flash;
    if (!pass_work(&standard, &algorithm_standard, machine, N, d, report, context->alloc, context->status) ||
        !pass_work(&flash, &algorithm_fa2, machine, N, d, report, context->alloc, context->status))
        return false;
    const uint64_t all = standard.flops[0] + standard.flops[1], more = flash.flops[0] + flash.flops[1];
    const double percent = 100 * ((double)more / (double)all - 1);
    derive(table, 5,
           "a product of N x N x d is 2N^2 d. Forward S, O; backward dV, dP, dQ, dK; FlashAttention computes S once more");
    decimal_line(table, "standard: forward, over N^2 d", (double)standard.flops[0] / (double)unit, 0);
    decimal_line(table, "standard: backward", (double)standard.flops[1] / (double)unit, 0);
    decimal_line(table, "FlashAttention: forward", (double)flash.flops[0] / (double)unit, 0);
    decimal_line(table, "FlashAttention: backward", (double)flash.flops[1] / (double)unit, 0);
    decimal_line(table, "more in both passes, %", percent, 1);
    claim_holds(report, "ex5-1", all == 12 * unit, "%.0f N^2 d", (double)all / (double)unit);
    claim_holds(report, "ex5-2", more == 14 * unit, "%.0f N^2 d", (double)more / (double)unit);
    claim_decimals(report, "ex5-3", 16.7, 1, percent, "%");
    claim_holds(report, "ex5-4", standard.flops[1] == 4 * 2 * unit, "%.0f N^2 d", (double)standard.flops[1] / (4 * (double)unit));
    return true;
}

static bool atomics(const Context *context, const Profile *machine, bool by_queries, uint64_t *forward, uint64_t *backward)
{
    const AttentionShape shape = attention_shape(512, 64);
    const TileSize tiles = {64, 64};
    const BackwardVariant variant = {.direct_dq = !by_queries, .query_blocks_outside = by_queries};
    AttentionRun run = {0};
    bool ok = attention_count(&run, &algorithm_fa2, &shape, tiles, L2_NONE, machine, context->alloc, context->status);
    *forward = run.totals.atomic_elements;
    ok = ok && attention_run_prepare_backward(&run, tiles, variant) && attention_run_backward(&run);
    *backward = run.totals.atomic_elements;
    attention_run_free(&run);
    return ok;
}

static bool answer_6(const Context *context, Report *report, Table *table, const Profile *machine)
{
    uint64_t none, by_keys, by_queries;
    if (!atomics(context, machine, false, &none, &by_keys) || !atomics(context, machine, true, &none, &by_queries)) return false;
    report_check(report, by_keys, fa2_backward_atomic_elements(512, 64, 64, context->status), "Tc 2Nd");
    report_check(report, by_queries, fa2_backward_atomic_elements_by_queries(512, 64, 64, context->status), "Tr 4Nd");
    derive(table, 6,
           "a block owns what belongs to its outer index: keys outside own dK, dV and add dQ; queries outside own dQ and add dK, "
           "dV; forward, queries own O");
    count_line(table, "keys outside: atomic elements of dQ, Tc 2Nd (N = 512, d = 64, blocks of 64)", by_keys);
    count_line(table, "queries outside: of dK and dV, Tr 4Nd", by_queries);
    count_line(table, "forward, queries outside", none);
    claim_holds(report, "ex6-1", by_queries == 2 * by_keys, "%" PRIu64 " -> %" PRIu64, by_keys, by_queries);
    claim_count(report, "ex6-2", 0, none, "");
    return true;
}

/* ---- 7, 8, 9 ---- */

static bool answer_7(const Context *context, Report *report, Table *table)
{
    Profile h100, b200;
    if (!profile_load("h100", context->alloc, &h100, context->status) ||
        !profile_load("b200", context->alloc, &b200, context->status))
        return false;
    const double h = (double)tensor_rate(&h100, TENSOR_WGMMA, ELEMENT_BF16) / (4.0 * 96 * (double)h100.mufu_ops_per_cycle_per_sm);
    const double b =
        (double)tensor_rate(&b200, TENSOR_TCGEN05, ELEMENT_BF16) / (4.0 * 96 * (double)b200.mufu_ops_per_cycle_per_sm);
    derive(table, 7, "(M N / X) / (4 M N d / F) = F / (4 d X): F FLOP and X exponentials per cycle and SM");
    decimal_line(table, "H100, d = 96: exp over matrix products", h, 2);
    decimal_line(table, "B200, d = 96", b, 2);
    claim_decimals(report, "S9-01", 0.67, 2, h, "");
    claim_decimals(report, "S9-02", 1.33, 2, b, "");
    return true;
}

static bool answer_8(const Context *context, Report *report, Table *table)
{
    enum { N = 256, D = 128 };
    Fp8Case c = {0};
    RotationError error = {0};
    const bool ok = fp8_case_init(&c, context->options->seed, N, N, D, context->alloc, context->status) &&
                    fp8_rotation_error(&c, &error, context->status);
    fp8_case_free(&c);
    if (!ok) return false;
    derive(table, 8, "(QJ)(KJ)^T = Q J J^T K^T = Q K^T: J cancels. P(VJ) = (PV)J: it does not, and O needs J^T at the end");
    error_line(table, "largest |(QJ)(KJ)^T - QK^T|, float64, N = 256, d = 128", error.scores);
    error_line(table, "largest |P(VJ)J^T - PV|", error.output);
    count_line(table, "additions per row of O for J^T, d log2 d", hadamard_additions(D));
    claim_close(report, "S9-03", 3e-14, 3e-13, fmax(error.scores, error.output), 2, "");
    claim_count(report, "S9-04", 896, hadamard_additions(D), " additions");
    return true;
}

/* 2^tau stays finite in FP16 for tau below this. */
static uint64_t fp16_bound(void)
{
    uint64_t tau = 0;
    while (isfinite(round_fp16((float)(UINT64_C(1) << tau)))) tau++;
    return tau;
}

static void answer_9(Report *report, Table *table)
{
    const uint64_t million = UINT64_C(1) << 20;
    const double bound = rescale_threshold_bound(2048), large = rescale_threshold_bound(million);
    /* The first block sets the base: its keys count 1 at most. Of 2^128. */
    const double most = ((double)(million - 128) * exp2_f64(large) + 128) / exp2_f64(127) / 2;
    derive(table, 9, "l is a sum of at most N numbers up to 2^tau: N 2^tau < 2^128, tau < 128 - log2 N");
    decimal_line(table, "N = 2048", bound, 0);
    decimal_line(table, "N = 2^20", large, 0);
    decimal_line(table, "the paper's", fa4_as_shipped(false).threshold, 0);
    begin_line(table, "safe, not attained: at the bound for N = 2^20 l <= (N - Bc) 2^tau + Bc, of 2^128, Bc = 128");
    cell_decimals(table, most, 5);
    count_line(table, "O may exceed l by max |V|; P in BF16 has float32's range, in FP16 it needs tau <", fp16_bound());
    claim_decimals(report, "S9-05", 117, 0, bound, "");
    claim_decimals(report, "S9-06", 108, 0, large, "");
    claim_cited(report, "S9-07", "%.0f below the bound at N = 2^20", large - fa4_as_shipped(false).threshold);
}

/* ---- 10: scheduling ---- */

enum { TASKS = 6, WORKERS = 2 };
static const uint64_t arrival[TASKS] = {1, 2, 3, 3, 4, 5};

/* "A 1, 4, 8; B 2, 5, 10": when the tasks of each worker end. */
static void ends_text(char *text, size_t size, const ChipSchedule *schedule, const uint64_t *order)
{
    size_t length = 0;
    for (uint64_t worker = 0; worker < WORKERS; worker++) {
        bool first = true;
        for (uint64_t i = 0; i < TASKS; i++) {
            const BlockTime *task = &schedule->blocks[order[i]];
            if (task->sm != worker || length >= size) continue;
            const int written = first ? snprintf(text + length, size - length, "%s%c %" PRIu64, worker > 0 ? "; " : "",
                                                 (char)('A' + worker), task->end)
                                      : snprintf(text + length, size - length, ", %" PRIu64, task->end);
            length += written > 0 ? (size_t)written : 0;
            first = false;
        }
    }
}

static bool schedule_tasks(const Context *context, Table *steps, bool longest, char *ends, size_t size, uint64_t *finish,
                           uint64_t *bound)
{
    uint64_t order[TASKS];
    const BlockList list = {.work = arrival, .order = order, .count = TASKS};
    ChipSchedule schedule = {0};
    bool ok = true;
    order_by_launch(order, TASKS);
    if (longest) ok = order_longest_first(order, arrival, TASKS, TASKS, context->alloc, context->status);
    ok = ok && chip_schedule(&schedule, &list, &(ChipSlots){WORKERS, 1, NULL}, context->alloc, context->status);
    for (uint64_t i = 0; ok && i < TASKS; i++) {
        const BlockTime *task = &schedule.blocks[order[i]];
        table_row(steps);
        cell_text(steps, longest ? "longest first" : "arrival");
        cell_count(steps, arrival[order[i]]);
        cell_text(steps, task->sm == 0 ? "A" : "B");
        cell_count(steps, task->start);
        cell_count(steps, task->end);
    }
    if (ok) ends_text(ends, size, &schedule, order);
    *finish = schedule.makespan;
    *bound = schedule.bound;
    chip_schedule_free(&schedule);
    return ok;
}

static bool answer_10(const Context *context, Report *report, Table *table, Table *steps)
{
    char ends[2][80] = {"", ""};
    uint64_t finish[2], bound[2];
    for (int longest = 0; longest < 2; longest++)
        if (!schedule_tasks(context, steps, longest == 1, ends[longest], sizeof ends[longest], &finish[longest], &bound[longest]))
            return false;
    derive(table, 10, "each task to whoever is free first; no schedule ends before max(ceil(sum / workers), longest task)");
    begin_line(table, "arrival order [1, 2, 3, 3, 4, 5]: tasks end at");
    cell_text(table, ends[0]);
    count_line(table, "finish", finish[0]);
    begin_line(table, "longest first [5, 4, 3, 3, 2, 1]");
    cell_text(table, ends[1]);
    count_line(table, "finish", finish[1]);
    count_line(table, "lower bound", bound[0]);
    claim_holds(report, "P074", strcmp(ends[0], "A 1, 4, 8; B 2, 5, 10") == 0, "%s", ends[0]);
    claim_count(report, "P075", 10, finish[0], "");
    claim_holds(report, "P076", strcmp(ends[1], "A 5, 8, 9; B 4, 7, 9") == 0, "%s", ends[1]);
    claim_count(report, "P077", 9, finish[1], "");
    claim_count(report, "P078", 9, bound[0], "");
    return true;
}

/* ---- 11: splitting ---- */

static bool split_rows(const Context *context, Table *table, const Profile *h100, uint64_t blocks)
{
    static const uint64_t parts[] = {1, 2, 4, 6, 7, 8, 9, 16, 32, 33, 34, 64};
    double best = 0;
    for (uint64_t s = 1; s <= 128; s++) {
        SplitUse use;
        if (!split_use(blocks, s, h100->sm_count, &use, context->status)) return false;
        best = fmax(best, use.used_percent);
    }
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        SplitUse use;
        if (!split_use(blocks, parts[i], h100->sm_count, &use, context->status)) return false;
        table_row(table);
        cell_count(table, parts[i]);
        cell_count(table, use.blocks);
        cell_count(table, use.waves);
        cell_decimals(table, use.used_percent, 2);
        cell_text(table, use.used_percent >= 0.85 * best ? "yes" : "no");
        cell_decimals(table, (double)parts[i] / 8, 2);
    }
    table_note(table, "7 parts have 84.85 %%: enough for a search that stops before 33 parts, whose best is 96.97 %%, not for "
                      "one that has seen 100 %%.");
    return true;
}

static bool answer_11(const Context *context, Report *report, Table *table, const Profile *h100)
{
    Exercise11 x;
    if (!exercise_11(h100->sm_count, &x, context->status)) return false;
    derive(table, 11,
           "blocks s batch x K/V heads on 132 SMs; efficiency w / ceil(w), w = blocks s / 132; smallest s with 85 % of the best");
    count_line(table, "blocks without splitting, 2 x 8", x.unsplit.blocks);
    decimal_line(table, "SMs in use, %", x.unsplit.used_percent, 1);
    decimal_line(table, "8 parts: 128 blocks, one wave, %", x.eight.used_percent, 1);
    decimal_line(table, "33 parts: 528 blocks, four waves, %", x.thirty_three.used_percent, 1);
    decimal_line(table, "partial results of 33 parts over those of 8", x.parts_ratio, 2);
    for (int rule = 0; rule < SPLIT_RULES; rule++) {
        char line[80];
        snprintf(line, sizeof line, "parts by the rule of: %s", split_rule_name((SplitRule)rule));
        count_line(table, line, x.by_rule[rule]);
    }
    count_line(table, "the lecture's rule, skipping numbers that cut no shorter parts (as FlashAttention-2 does)", x.eligible);
    claim_count(report, "P079", 16, x.unsplit.blocks, "");
    claim_decimals(report, "P080", 12, 0, x.unsplit.used_percent, "%");
    claim_holds(report, "P081", x.eight.blocks == 128 && x.eight.waves == 1 && round(x.eight.used_percent) == 97,
                "%" PRIu64 "; %" PRIu64 "; %.1f%%", x.eight.blocks, x.eight.waves, x.eight.used_percent);
    claim_holds(report, "P082", x.thirty_three.blocks == 528 && x.thirty_three.waves == 4 && x.thirty_three.used_percent == 100,
                "%" PRIu64 "; %" PRIu64 "; %.1f%%", x.thirty_three.blocks, x.thirty_three.waves, x.thirty_three.used_percent);
    claim_holds(report, "P083", x.parts_ratio > 1, "%.2f times the partial results", x.parts_ratio);
    claim_holds(report, "P084", x.by_rule[SPLIT_LECTURE] == 8 && x.by_rule[SPLIT_FA3] == 8, "%" PRIu64 ", %" PRIu64,
                x.by_rule[SPLIT_LECTURE], x.by_rule[SPLIT_FA3]);
    claim_holds(report, "R-B-ex11", x.by_rule[SPLIT_FA2] == 8,
                "%" PRIu64 " by FlashAttention-2's; %" PRIu64 " by the lecture's with its test of eligibility",
                x.by_rule[SPLIT_FA2], x.eligible);
    return split_rows(context, report_table(report, &split_table), h100, x.unsplit.blocks);
}

static bool run(Context *context, Report *report)
{
    Profile machine, a100, h100;
    if (!profile_load("unbounded", context->alloc, &machine, context->status) ||
        !profile_load("a100", context->alloc, &a100, context->status) ||
        !profile_load("h100", context->alloc, &h100, context->status))
        return false;
    Table *table = report_table(report, &answer_table), *steps = report_table(report, &step_table);
    if (!answer_1(context, report, table, &machine) || !answer_2(context, report, table, &machine, &a100) ||
        !answer_3(context, report, table) || !answer_4(context, report, table, &machine) ||
        !answer_5(context, report, table, &machine) || !answer_6(context, report, table, &machine) ||
        !answer_7(context, report, table) || !answer_8(context, report, table))
        return false;
    answer_9(report, table);
    return answer_10(context, report, table, steps) && answer_11(context, report, table, &h100) && status_ok(context->status);
}

const Experiment experiment_s9_exercises = {
    .program =
        {
            .name = "s9_exercises",
            .purpose = "the eleven exercises, derived and computed (lecture 9)",
            .examples = {"", "--seed 3 --format md"},
        },
    .report =
        {
            .section = "9",
            .title_en = "Exercises",
            .title_zh = "练习",
            .tables = tables,
            .table_count = sizeof tables / sizeof tables[0],
            .claims = claims,
            .claim_count = sizeof claims / sizeof claims[0],
        },
    .run = run,
};
