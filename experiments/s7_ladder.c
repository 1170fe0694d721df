/* s7_ladder.c - lecture §7: one shape on one chip, from standard attention to FlashAttention-4, a rung at a time.
 *
 * Every rung is the same mathematics. What changes is what an SM waits for:
 *
 *     standard   three kernels; S and P go through HBM
 *     FA1        one kernel, a thread block per head; S and P stay on chip; its warps share the keys and read Q again for each
 * key block FA2        a thread block per query block: O stays on chip, the warps share the queries FA3        wgmma and TMA are
 * asynchronous: products, softmax and copies overlap (Hopper alone) FA4        accumulators in tensor memory, two query tiles in
 * turn (Blackwell); then part of the exponentials by polynomial, and O rescaled only where the maximum jumps
 *
 * Bytes are exact counts of the walk, checked against the closed forms. Cycles are the time model's (README, what is modelled):
 * they rank the rungs and name the unit that binds; how far they are from published speeds is in s3_5, s4_6 and s5_5_results. A
 * chip that lacks a rung's instruction says so; to ask for that rung alone is refused with exit code 3.
 */
#include "support/block_plan.h"
#include "support/decode_study.h"
#include "support/exp_facts.h"
#include "support/experiment.h"
#include "support/ratios.h"
#include "support/tile_account.h"
#include "support/timed_run.h"

#include "algos/closed_forms_warps.h"

#include <stdio.h>
#include <string.h>

/* ---- the rungs ---- */

typedef enum { STANDARD, FA1, FA2, FA3, FA4_PLAIN, FA4, RUNGS } RungId;

static const struct {
    const char *name, *operand; /* as printed; on the command line */
    const Algorithm *algorithm;
    const char *missing;
} rungs[RUNGS] = {
    {"standard", "standard", &algorithm_standard, "no mma.sync"},
    {"FA1", "fa1", &algorithm_fa1_shipped, "no mma.sync"},
    {"FA2", "fa2", &algorithm_fa2, "no mma.sync"},
    {"FA3", "fa3", &algorithm_fa3, "no WGMMA"},
    {"FA4, all exp on MUFU", "fa4-plain", &algorithm_fa4, "no tcgen05"},
    {"FA4", "fa4", &algorithm_fa4, "no tcgen05"},
};
static const char *const operands[] = {"standard", "fa1", "fa2", "fa3", "fa4-plain", "fa4", NULL};

/* One shape on one chip. */
typedef struct {
    const Profile *chip;
    AttentionShape shape;
    TimedRun runs[RUNGS];
    bool there[RUNGS];
} Ladder;

static bool climb(const Context *context, Report *report, Ladder *ladder)
{
    for (int r = 0; r < RUNGS; r++) {
        TimedSetup setup = {.algorithm = rungs[r].algorithm, .chip = ladder->chip, .shape = ladder->shape};
        const bool asked = context->options->operand != NULL && strcmp(context->options->operand, rungs[r].operand) == 0;
        ladder->there[r] = asked || (context->options->operand == NULL && runs_on(rungs[r].algorithm, ladder->chip));
        if (!ladder->there[r]) continue;
        if (r == FA4) setup.fa4 = fa4_as_shipped(setup.shape.mask != MASK_NONE);
        if (!timed_run(&ladder->runs[r], &setup, report, context->alloc, context->status)) return false;
    }
    return true;
}

/* The rung below that this chip has; -1: none. */
static int below(const Ladder *ladder, int rung)
{
    int r = rung - 1;
    while (r >= 0 && !ladder->there[r]) r--;
    return r;
}

/* ---- the declarations ---- */

static const Column ladder_columns[] = {
    {"chip", "", "profile"},
    {"d", "", "head dimension"},
    {"N", "", "sequence length"},
    {"rung", "", "the algorithm, with the real kernel's tiles"},
    {"HBM", "MB", "read and written, ideal L2"},
    {"L2", "MB", "between L2 and the SMs, both directions"},
    {"shared", "MB", "through shared memory: operands, threads, copies"},
    {"blocks", "", "thread blocks of the longest launch"},
    {"cycles", "thousands", "of the tensor clock, whole chip; modelled"},
    {"tensor", "%", "tensor cores busy"},
    {"exp", "%", "MUFU busy"},
    {"bound by", "", "what binds in the model; or the instruction that the chip lacks"},
    {"speed", "TFLOP/s", "4 batch heads N^2 d over the time, half of it if causal"},
    {"gain", "x", "time of the rung before over this one's"},
};
enum { LADDER_COLUMNS = sizeof ladder_columns / sizeof ladder_columns[0] };
static const TableSpec ladder_table = {"ladder", "The ladder", ladder_columns, LADDER_COLUMNS};
static const TableSpec lines_picture = {"lines", "Each rung in a line: what it removed, what binds now", NULL, 0};

static const Column sentence_columns[] = {
    {"sentence", "", "of the lecture's summary"},
    {"quantity", "", "that it is about"},
    {"before", "", "without"},
    {"after", "", "with"},
    {"where", "", "shape and chip"},
};
static const TableSpec sentence_table = {"sentences", "The six sentences of the summary in numbers", sentence_columns, 5};

static const TableSpec *const tables[] = {&ladder_table, &lines_picture, &sentence_table};

static const ClaimSpec claims[] = {
    {"7-2", "7", "sentence 2: extra memory falls from O(N^2) to O(N) (also 2.6-8 to 2.6-11)", "O(N^2) -> O(N)", VERDICT_EQUAL,
     "kept for the backward pass when N doubles: P x4, L x2", NULL},
    {"7-3", "7", "sentence 2: more FLOPs, forward and backward together", "17%", VERDICT_EQUAL, "2N^2d / 12N^2d", NULL},
    {"7-S3-blocks", "7", "sentence 3: the new loop order gives parallelism along the sequence", "more blocks", VERDICT_EQUAL,
     "thread blocks of the two walks, N = 4096: times N / 128", NULL},
    {"7-S3-ops", "7", "sentence 3: delayed normalisation takes non-matmul operations away (also P015)", "fewer", VERDICT_EQUAL,
     "closed forms at N = 1024, d = 64, Br = Bc = 128", NULL},
    {"7-S3-warps", "7", "sentence 3: split-Q needs no exchange between warps (also P033, P034)", "none", VERDICT_EQUAL,
     "bytes exchanged per query block, split-K and split-Q, N = 256, d = 64", NULL},
    {"7-S4-exp", "7", "sentence 4: exp takes half of the time of the matrix products on H100 (also R-A14-h100)", "half",
     VERDICT_EQUAL, "account of FlashAttention-3's walk, d = 128", NULL},
    {"7-S4-lpt", "7", "sentence 4: longest first cures causal imbalance (also P051, P052)", "balanced", VERDICT_EQUAL,
     "efficiency in natural order and longest first, 16 heads, N = 8192, 132 SMs", NULL},
    {"7-S5-exp", "7", "sentence 5: on B200 exp is as slow as the matrix products (also S5.1-06, S5.1-07)", "as slow",
     VERDICT_EQUAL, "account of FlashAttention-4's walk, d = 128", NULL},
    {"7-S5-shared", "7",
     "sentence 5: shared memory binds the backward pass; two CTAs take traffic off it (also S5.4-04, S5.4-05)", "binds; less",
     VERDICT_EQUAL, "accounts of FlashAttention-4's backward, d = 128: shared against tensor cycles", NULL},
    {"7-S5-degree", "7", "sentence 5: BF16 needs a polynomial of degree 3 only (also S5.2-13, S5.2-15)", "degree 3",
     VERDICT_EQUAL,
     "largest relative error after rounding to BF16 over that of exact rounding: below 1.01 at degree 3, above 1.3 at 2", NULL},
    {"7-S5-rescale", "7", "sentence 5: most rescalings are saved (also S5.3-05)", "most", VERDICT_EQUAL,
     "numeric run of FlashAttention-4, N = 2048, d = 64, threshold 8: rows x key blocks that rescale", NULL},
    {"7-S6-splits", "7", "sentence 6: splitting K and V finds parallelism for decoding (also P058, P063)", "parallelism",
     VERDICT_EQUAL, "SMs in use, batch 1, 32 heads, 132 SMs, without and with the lecture's number of parts", NULL},
    {"7-S6-pack", "7", "sentence 6: packing fills the rows of a product (also P066, P067)", "fills", VERDICT_EQUAL,
     "live rows of a 64-row wgmma: 1 query, and 8 query heads that share a K/V head", NULL},
};

static const ProgramOption options[] = {{OPTION_BATCH, "16"},  {OPTION_HEADS, "16"},        {OPTION_KV_HEADS, NULL},
                                        {OPTION_SEQLEN, "4k"}, {OPTION_HEAD_DIM, "64,128"}, {OPTION_MASK, "none"}};

/* ---- the ladder ---- */

static void missing_row(Table *table, int rung)
{
    cell_text(table, rungs[rung].name);
    for (int i = 0; i < 7; i++) cell_empty(table);
    cell_text(table, rungs[rung].missing);
    cell_empty(table);
    cell_empty(table);
}

static double share(uint64_t busy, const TimedRun *run, const Profile *chip)
{
    const double whole = (double)run->cycles * (double)chip->sm_count;
    return whole > 0 ? 100 * (double)busy / whole : 0;
}

static void run_row(Table *table, const Ladder *ladder, int rung)
{
    const TimedRun *run = &ladder->runs[rung];
    const int before = below(ladder, rung);
    cell_text(table, rungs[rung].name);
    cell_decimals(table, (double)hbm_bytes(&run->totals) / 1e6, 0);
    cell_decimals(table, (double)l2_bytes(&run->totals) / 1e6, 0);
    cell_decimals(table, (double)smem_bytes(&run->totals) / 1e6, 0);
    cell_count(table, run->blocks);
    cell_significant(table, (double)run->cycles / 1e3, 3);
    cell_decimals(table, share(run->busy[UNIT_TENSOR], run, ladder->chip), 0);
    cell_decimals(table, share(run->busy[UNIT_MUFU], run, ladder->chip), 0);
    cell_text(table, run->bound);
    cell_significant(table, run->tflops, 3);
    if (before < 0 || run->microseconds <= 0)
        cell_empty(table);
    else
        cell_decimals(table, ladder->runs[before].microseconds / run->microseconds, 2);
}

static void add_rows(Table *table, const Options *o, const Ladder *ladder)
{
    for (int r = 0; r < RUNGS; r++) {
        if (!ladder->there[r] && o->operand != NULL) continue;
        table_row(table);
        cell_text(table, ladder->chip->name);
        cell_count(table, ladder->shape.head_dim);
        cell_count(table, ladder->shape.seqlen_q);
        if (ladder->there[r])
            run_row(table, ladder, r);
        else
            missing_row(table, r);
    }
}

/* What the rung took away from the one before, in its own numbers. */
static void removed(char *text, size_t size, const Ladder *ladder, int rung, const TimedRun *old, const TimedRun *now)
{
    const uint64_t Tc = ceil_div(ladder->shape.seqlen_k, max_u64(now->tiles.Bc, 1));
    switch (rung) {
    case FA1:
        snprintf(text, size, "S and P from HBM, %.0f -> %.0f MB", mega(hbm_bytes(&old->totals)), mega(hbm_bytes(&now->totals)));
        break;
    case FA2:
        snprintf(text, size,
                 "O read and written per key block (SMs write %.0f -> %.0f MB), split-K (shared memory %.0f -> %.0f MB); %" PRIu64
                 " -> %" PRIu64 " blocks",
                 mega(old->totals.sm_to_l2_bytes), mega(now->totals.sm_to_l2_bytes), mega(smem_bytes(&old->totals)),
                 mega(smem_bytes(&now->totals)), old->blocks, now->blocks);
        break;
    case FA3:
        snprintf(text, size, "waiting for products and copies; K and V read per 64 rows, not per warp (operands %.0f -> %.0f MB)",
                 mega(old->totals.smem_operand_bytes), mega(now->totals.smem_operand_bytes));
        break;
    case FA4_PLAIN:
        snprintf(text, size,
                 "the accumulators from registers; 128-row instructions (operands %.0f -> %.0f MB), 256-row blocks (L2 %.0f -> "
                 "%.0f MB)",
                 mega(old->totals.smem_operand_bytes), mega(now->totals.smem_operand_bytes), mega(l2_bytes(&old->totals)),
                 mega(l2_bytes(&now->totals)));
        break;
    default:
        snprintf(text, size, "%.0f %% of the exponentials from MUFU, %" PRIu64 " of %" PRIu64 " rescalings of O",
                 100.0 * fa4_as_shipped(false).poly_sixteenths / 16, Tc > 0 ? Tc - 1 : 0, Tc);
    }
}

static void add_lines(Table *picture, const Ladder *ladder)
{
    char text[300];
    const TimedRun *first = &ladder->runs[STANDARD];
    picture_line(picture, "%s, d = %" PRIu64, ladder->chip->name, ladder->shape.head_dim);
    for (int r = 0; r < RUNGS; r++) {
        const TimedRun *now = &ladder->runs[r];
        const int before = below(ladder, r);
        if (!ladder->there[r])
            picture_line(picture, "  %-21s %s", rungs[r].name, rungs[r].missing);
        else if (before < 0)
            picture_line(picture, "  %-21s bound by %s", rungs[r].name, first->bound);
        else {
            removed(text, sizeof text, ladder, r, &ladder->runs[before], now);
            picture_line(picture, "  %-21s removed %s", rungs[r].name, text);
            picture_line(picture, "  %-21s now bound by %s: %.2f times as fast", "", now->bound,
                         now->microseconds > 0 ? ladder->runs[before].microseconds / now->microseconds : 0);
        }
    }
}

enum { MOST_LADDERS = 24 };

static bool add_ladders(const Context *context, Report *report, const Profile *const chips[], size_t chip_count)
{
    const Options *o = context->options;
    const size_t points = options_point_count(o);
    Ladder ladders[MOST_LADDERS];
    size_t count = 0;
    if (points * chip_count > MOST_LADDERS)
        return status_fail(context->status, STATUS_INFEASIBLE, "%zu ladders are too many to print; at most %d",
                           points * chip_count, MOST_LADDERS);
    for (size_t c = 0; c < chip_count; c++)
        for (size_t i = 0; i < points; i++) {
            const OptionPoint point = options_point(o, i);
            Ladder *ladder = &ladders[count++];
            *ladder = (Ladder){.chip = chips[c], .shape = attention_shape(point.seqlen, point.head_dim)};
            ladder->shape.batch = point.batch;
            ladder->shape.heads = point.heads;
            ladder->shape.kv_heads = point.kv_heads;
            ladder->shape.mask = o->mask;
            if (!climb(context, report, ladder)) return false;
        }
    Table *table = report_table(report, &ladder_table);
    for (size_t i = 0; i < count; i++) add_rows(table, o, &ladders[i]);
    table_note(table,
               "HBM, L2 and shared memory are counts; cycles are modelled (beside published speeds: s3_5, s4_6, s5_5_results).");
    table_note(table, "standard is Algorithm 0 in three kernels that lose nothing, far faster than the PyTorch of the papers' "
                      "figures (s3_5_results).");
    if (o->operand != NULL) return true;
    Table *picture = report_table(report, &lines_picture);
    for (size_t i = 0; i < count; i++) add_lines(picture, &ladders[i]);
    return true;
}

/* ---- the sentences of the summary ---- */

typedef struct {
    double value;
    int decimals;
    const char *unit;
} Figure;

static void sentence(Table *table, int number, const char *quantity, Figure before, Figure after, const char *where)
{
    table_row(table);
    cell_count(table, (uint64_t)number);
    cell_text(table, quantity);
    cell_textf(table, "%.*f%s", before.decimals, before.value, before.unit);
    cell_textf(table, "%.*f%s", after.decimals, after.value, after.unit);
    cell_text(table, where);
}

/* Sentences 2 and 3 by closed form. */
static bool judge_counts(const Context *context, Report *report, Table *table)
{
    Status *status = context->status;
    const uint64_t p1 = saved_p_bytes(1, 1, 1024, status), p2 = saved_p_bytes(1, 1, 2048, status);
    const uint64_t l1 = saved_l_bytes(1, 1, 1024, status), l2 = saved_l_bytes(1, 1, 2048, status);
    const uint64_t extra = recompute_flops(1024, 64, status),
                   flops = forward_flops(1024, 64, status) + backward_flops(1024, 64, status);
    CountedProblem ops = {.batch = 1,
                          .heads = 1,
                          .kv_heads = 1,
                          .Nq = 1024,
                          .Nk = 1024,
                          .d = 64,
                          .band_low = -1024,
                          .band_high = 1024,
                          .Br = 128,
                          .Bc = 128,
                          .element_bytes = 2,
                          .statistic_bytes = 4};
    ClosedForm fa1, fa2;
    WarpSplitForm keys, queries;
    if (!closed_form_fa1(&ops, &fa1, status) || !closed_form_fa2(&ops, &fa2, status)) return false;
    ops.Nq = ops.Nk = 256;
    if (!closed_form_split_keys(&ops, 4, &keys, status) || !closed_form_split_queries(&ops, 4, &queries, status)) return false;
    const uint64_t query_blocks_here = ops.Nq / ops.Br;
    claim_holds(report, "7-2", p2 == 4 * p1 && l2 == 2 * l1,
                "P %" PRIu64 " -> %" PRIu64 ", L %" PRIu64 " -> %" PRIu64 " bytes a head", p1, p2, l1, l2);
    claim_decimals(report, "7-3", 17, 0, 100 * (double)extra / (double)flops, "%");
    const double change = 100 * ((double)fa2.nonmatmul_ops / (double)fa1.nonmatmul_ops - 1);
    claim_holds(report, "7-S3-ops", fa2.nonmatmul_ops < fa1.nonmatmul_ops, "%.2fM -> %.2fM, %.0f%%",
                (double)fa1.nonmatmul_ops / 1e6, (double)fa2.nonmatmul_ops / 1e6, change);
    claim_holds(report, "7-S3-warps", queries.exchange_bytes == 0 && keys.exchange_bytes > 0, "%" PRIu64 " -> %" PRIu64 " bytes",
                keys.exchange_bytes / query_blocks_here, queries.exchange_bytes);
    sentence(table, 2, "kept for the backward pass, N = 2048 over 1024", (Figure){(double)p2 / (double)p1, 0, "x (P)"},
             (Figure){(double)l2 / (double)l1, 0, "x (L)"}, "any head");
    sentence(table, 3, "non-matmul operations", (Figure){(double)fa1.nonmatmul_ops / 1e6, 2, "M (FA1)"},
             (Figure){(double)fa2.nonmatmul_ops / 1e6, 2, "M (FA2)"}, "N = 1024, d = 64, one head");
    return true;
}

static bool judge_parallelism(const Context *context, Report *report, Table *table, const Profile *a100, const Profile *h100)
{
    TimedSetup setup = {.algorithm = &algorithm_fa1_shipped, .chip = a100, .shape = attention_shape(4096, 64)};
    AttentionShape causal = attention_shape(8192, 128);
    TimedRun old, now;
    OrderGain order;
    causal.heads = causal.kv_heads = 16;
    causal.mask = MASK_CAUSAL;
    if (!timed_run(&old, &setup, report, context->alloc, context->status)) return false;
    setup.algorithm = &algorithm_fa2;
    if (!timed_run(&now, &setup, report, context->alloc, context->status) ||
        !order_gain(context, h100, &causal, (TileSize){128, 128}, &order))
        return false;
    const double before = 100 * ratio_value(order.natural_efficiency), after = 100 * ratio_value(order.longest_efficiency);
    claim_holds(report, "7-S3-blocks", old.blocks == 1 && now.blocks == 4096 / 128, "%" PRIu64 " -> %" PRIu64 " a head",
                old.blocks, now.blocks);
    claim_holds(report, "7-S4-lpt", before < 90 && after > 99.9, "%.1f%% -> %.1f%%", before, after);
    sentence(table, 3, "thread blocks of a head", (Figure){(double)old.blocks, 0, ""}, (Figure){(double)now.blocks, 0, ""},
             "N = 4096");
    sentence(table, 4, "efficiency of causal blocks on the SMs", (Figure){before, 1, " %"}, (Figure){after, 1, " %"},
             "16 heads, N = 8192, 132 SMs");
    return true;
}

/* Sentences 4 and 5: cycles per 128 x 128 tile of scores. */
static bool judge_accounts(const Context *context, Report *report, Table *table, const Profile *h100, const Profile *b200)
{
    static const BackwardVariant one_cta = {0}, two_ctas = {.two_ctas = true};
    const AccountSetup hopper = {.algorithm = &algorithm_fa3, .chip = h100, .d = 128, .tiles = {128, 128}};
    const AccountSetup blackwell = {.algorithm = &algorithm_fa4, .chip = b200, .d = 128};
    AccountSetup one = blackwell, two = blackwell;
    TileAccount a[4];
    one.backward = &one_cta;
    two.backward = &two_ctas;
    if (!tile_account(&a[0], &hopper, report, context->alloc, context->status) ||
        !tile_account(&a[1], &blackwell, report, context->alloc, context->status) ||
        !tile_account(&a[2], &one, report, context->alloc, context->status) ||
        !tile_account(&a[3], &two, report, context->alloc, context->status))
        return false;
    claim_holds(report, "7-S4-exp", a[0].exp == a[0].tensor / 2, "%.2f (%.0f and %.0f cycles)", a[0].exp / a[0].tensor, a[0].exp,
                a[0].tensor);
    claim_holds(report, "7-S5-exp", a[1].exp == a[1].tensor, "%.0f = %.0f cycles", a[1].exp, a[1].tensor);
    claim_holds(report, "7-S5-shared", a[2].shared > a[2].tensor && a[3].shared + EXCHANGE_CYCLES < a[2].shared,
                "%.0f > %.0f; two CTAs %.0f + %d exchanged", a[2].shared, a[2].tensor, a[3].shared, EXCHANGE_CYCLES);
    sentence(table, 5, "exp over matrix products, from one chip to the next", (Figure){a[0].exp / a[0].tensor, 2, " (h100)"},
             (Figure){a[1].exp / a[1].tensor, 2, " (b200)"}, "d = 128, forward");
    sentence(table, 5, "shared memory over matrix products", (Figure){a[2].shared / a[2].tensor, 2, " (one CTA)"},
             (Figure){(a[3].shared + EXCHANGE_CYCLES) / a[3].tensor, 2, " (two)"},
             "d = 128, backward, with the paper's exchange of dS");
    return true;
}

/* Rows x key blocks at which O was rescaled, of all, in percent. */
static bool rescaled_percent(const Context *context, const Profile *b200, double *percent)
{
    const AttentionShape shape = attention_shape(2048, 64);
    const RunSetup setup = {.algorithm = &algorithm_fa4, .profile = b200, .config = {.mode = MODE_NUMERIC, .l2 = L2_IDEAL}};
    AttentionRun run = {0};
    uint64_t rescaled = 0;
    bool ok = attention_run_prepare(&run, &setup, &shape, context->alloc, context->status);
    if (ok) {
        run.attention.fa4 = (Fa4Options){.conditional = true, .threshold = fa4_as_shipped(false).threshold};
        attention_random_inputs(&run.attention, &run.machine, 1);
        ok = attention_run_forward(&run);
        for (uint32_t i = 0; i < run.machine.launch_count; i++)
            rescaled += run.machine.launches[i].counts.elements[OP_ROWS_EXP_DIFFERENCE];
        *percent = 100 * (double)rescaled / (double)(rescaled + run.problem.kept_references);
    }
    attention_run_free(&run);
    return ok;
}

static bool judge_exponentials(const Context *context, Report *report, Table *table, const Profile *b200)
{
    Exp2Accuracy degree2, degree3;
    double rescaled = 0;
    if (!polynomial_accuracy(2, &degree2, context->status) || !polynomial_accuracy(3, &degree3, context->status) ||
        !rescaled_percent(context, b200, &rescaled))
        return false;
    const double ideal = exp2_accuracy(exp2_ideal, NULL, EXP2_POINTS).max_relative_bf16;
    const double two = degree2.max_relative_bf16 / ideal, three = degree3.max_relative_bf16 / ideal;
    claim_holds(report, "7-S5-degree", three < 1.01 && two > 1.3, "degree 3: %.3f, degree 2: %.2f", three, two);
    claim_holds(report, "7-S5-rescale", rescaled <= 10, "%.2f%% are left", rescaled);
    sentence(table, 5, "error in BF16 over that of exact rounding", (Figure){two, 2, " (degree 2)"},
             (Figure){three, 3, " (degree 3)"}, "2^x on [0, 1)");
    sentence(table, 5, "rescalings of O", (Figure){100, 0, " %"}, (Figure){rescaled, 2, " %"}, "N = 2048, d = 64, threshold 8");
    return true;
}

static bool judge_decoding(const Context *context, Report *report, Table *table, const Profile *h100)
{
    const SplitProblem decode = decode_split_problem(1, 32, 131072, 128, h100->sm_count);
    const uint64_t parts = split_count(SPLIT_LECTURE, &decode);
    SplitUse whole, cut;
    if (!split_use(32, 1, h100->sm_count, &whole, context->status) ||
        !split_use(32, parts, h100->sm_count, &cut, context->status))
        return false;
    const double before = whole.used_percent, after = cut.used_percent;
    const double rows = algorithm_fa3.geometry(&(AttentionShape){.head_dim = 128}, (TileSize){64, 128}).shape.m;
    claim_holds(report, "7-S6-splits", before < 25 && after > 95, "%.0f%% -> %.0f%% with %" PRIu64 " parts", before, after,
                parts);
    claim_holds(report, "7-S6-pack", rows == 64, "%.1f%% -> %.1f%%", 100 / rows, 100 * 8 / rows);
    sentence(table, 6, "SMs in use when decoding, without and with K and V in parts", (Figure){before, 0, " %"},
             (Figure){after, 0, " %"}, "batch 1, 32 heads, 132 SMs");
    sentence(table, 6, "live rows of a product, 8 query heads packed", (Figure){100 / rows, 1, " %"},
             (Figure){100 * 8 / rows, 1, " %"}, "one query, wgmma");
    return true;
}

static bool judge_claims(const Context *context, Report *report, const Profile *a100, const Profile *h100, const Profile *b200)
{
    Table *table = report_table(report, &sentence_table);
    const double intensity =
        (double)forward_flops(4096, 128, context->status) / (2 * (double)standard_elements(4096, 128, context->status));
    const double balance = (double)a100->peak_bf16_flops_per_chip / (double)a100->hbm_bytes_per_second_per_chip;
    sentence(table, 1, "FLOP per byte of standard attention, and the balance point (s1_4_standard_ledger)",
             (Figure){intensity, 0, ""}, (Figure){balance, 0, " (a100)"}, "N = 4096, d = 128");
    if (!judge_counts(context, report, table) || !judge_parallelism(context, report, table, a100, h100) ||
        !judge_accounts(context, report, table, h100, b200) || !judge_exponentials(context, report, table, b200))
        return false;
    return judge_decoding(context, report, table, h100) && status_ok(context->status);
}

static bool run(Context *context, Report *report)
{
    Profile a100, h100, h200, b200;
    const Options *o = context->options;
    if (!profile_load("a100", context->alloc, &a100, context->status) ||
        !profile_load("h100", context->alloc, &h100, context->status) ||
        !profile_load("h200", context->alloc, &h200, context->status) ||
        !profile_load("b200", context->alloc, &b200, context->status))
        return false;
    const bool one = o->given[OPTION_HW] || o->operand != NULL;
    const Profile *const all[] = {&a100, &h100, &h200, &b200}, *const given[] = {context->hw};
    report_param_text(report, "hw", one ? context->hw->name : "a100, h100, h200, b200");
    report_param_count(report, "batch", options_point(o, 0).batch);
    report_param_count(report, "heads", options_point(o, 0).heads);
    report_param_text(report, "mask", option_choice(OPTION_MASK, (int)o->mask));
    return add_ladders(context, report, one ? given : all, one ? 1 : sizeof all / sizeof all[0]) &&
           judge_claims(context, report, &a100, &h100, &b200);
}

const Experiment experiment_s7_ladder = {
    .program =
        {
            .name = "s7_ladder",
            .purpose = "standard attention to FlashAttention-4, a rung at a time: bytes, cycles, what binds (lecture 7)",
            .examples = {"", "fa3 --hw h200 --seqlen 16k --head-dim 128"},
            .options = options,
            .option_count = sizeof options / sizeof options[0],
            .operand = "rung",
            .operand_choices = operands,
            .operand_optional = true,
        },
    .report =
        {
            .section = "7",
            .title_en = "Summary: the ladder",
            .title_zh = "小结：从标准实现到 FlashAttention-4",
            .tables = tables,
            .table_count = sizeof tables / sizeof tables[0],
            .claims = claims,
            .claim_count = sizeof claims / sizeof claims[0],
        },
    .run = run,
};
