/* s2_6_backward.c - lecture §2.6: the backward pass from L alone: what it moves, who owns which gradient, what is not stored.
 *
 * Forward keeps O and one number per row, L = m + log l. Backward recomputes each tile of P in one step and never needs a row:
 *
 *     P = e^(S - L)       dV_j += Pᵀ dO_i       dP = dO_i V_jᵀ
 *     dS = P o (dP - D_i)       dK_j += dSᵀ Q_i       dQ_i += dS K_j           (1/sqrt(d) left out)
 *     D_i = sum_k P_ik dP_ik = dO_i . sum_k P_ik V_k = dO_i . O_i              from a small kernel that reads O and dO
 *
 * Numbers: the kernels of algos/fa2_backward.c on real data in float64, against standard attention on the same machine, which
 * holds P, dP and dS as full N x N matrices (and is itself compared with the row-wise oracle). What remains is rounding, so it is
 * held against a spread over seeds.
 *
 * Counts: the same kernels walked without data on the profile `unbounded`, each total checked against its closed form. An atomic
 * addition of one element counts as two, read and written. What this leaves out: time (§2.7), and that atomic additions of
 * several blocks can meet.
 */
#include "support/experiment.h"
#include "support/population.h"
#include "support/ratios.h"
#include "support/tensor_named.h"
#include "support/text.h"

#include "algos/oracle.h"
#include "algos/run.h"
#include "sim/checked.h"

#include <math.h>
#include <string.h>

/* The lecture's shape (script 03, part 1). */
enum { LECTURE_N = 512, LECTURE_D = 64, LECTURE_BLOCK = 64 };

/* A second of arithmetic per sample. */
enum { MAX_NUMERIC_N = 2048, MAX_SAMPLES = 200, ORACLE_N = 128 };

/* ---- counting: one walk of one head, checked ---- */

typedef struct {
    const char *name, *dq;
    BackwardVariant variant;
} Kind;

typedef enum { DIRECT, SHIPPED, DETERMINISTIC, BY_QUERIES, KINDS } KindId;
static const Kind kinds[KINDS] = {
    {"key blocks outside, dQ direct", "as the lecture counts", {.direct_dq = true}},
    {"key blocks outside, as shipped", "float32 sums", {.direct_dq = false}},
    {"key blocks outside, deterministic", "float32 sums of its own", {.deterministic = true}},
    {"query blocks outside", "on chip", {.query_blocks_outside = true}},
};

typedef struct {
    const Profile *profile;
    const Algorithm *algorithm;
    AttentionShape shape;
    TileSize tiles;
    L2Model l2;
    BackwardVariant variant;
} Problem;

/* The backward pass, counted; every total is checked against its closed form. The caller frees the run, also after a failure. */
static bool walk(const Context *context, Report *report, const Problem *p, AttentionRun *run)
{
    CountPair pairs[COUNT_PAIRS];
    const RunSetup setup = {
        .algorithm = p->algorithm, .profile = p->profile, .tiles = p->tiles, .config = {.mode = MODE_COUNT, .l2 = p->l2}};
    *run = (AttentionRun){0};
    if (!attention_run_prepare(run, &setup, &p->shape, context->alloc, context->status) ||
        !attention_run_prepare_backward(run, p->tiles, p->variant) || !attention_run_backward(run))
        return false;
    count_pairs(&run->totals, &run->closed_form, pairs);
    for (size_t i = 0; i < COUNT_PAIRS; i++) report_check(report, pairs[i].counted, pairs[i].formula, pairs[i].name);
    return true;
}

/* Without L2 atomic additions are no part of the HBM lines; with it they are. */
static uint64_t moved(const AttentionRun *run)
{
    const Totals *t = &run->totals;
    const bool none = run->setup.config.l2 == L2_NONE;
    return t->hbm_read_elements + t->hbm_write_elements + (none ? t->atomic_elements : 0);
}

typedef enum { READ, WRITE, ATOMIC } Direction;
static const char *const direction_names[] = {"read", "write", "atomic (x2)"};

static uint64_t traffic_of(const Traffic *t, Direction direction)
{
    return direction == READ ? t->hbm_read : direction == WRITE ? t->hbm_write : 2 * t->atomic_adds;
}

/* Elements of one tensor in one direction; launch NULL: all launches. */
static uint64_t ledger_sum(const Machine *machine, const char *launch, const char *tensor, Direction direction)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < machine->ledger_count; i++) {
        const LedgerRow *row = &machine->ledger[i];
        if (strcmp(row->tensor->name, tensor) == 0 && (launch == NULL || strcmp(row->kernel, launch) == 0))
            sum += traffic_of(&row->traffic, direction);
    }
    return sum;
}

static uint64_t tensor_bytes(const Machine *machine, const char *name)
{
    const Tensor *tensor = tensor_named(machine, name);
    return tensor == NULL ? 0 : tensor_elements(tensor) * element_bytes(tensor->type);
}

static AttentionShape one_head(uint64_t N, uint64_t d)
{
    AttentionShape shape = attention_shape(N, d);
    shape.dtype = ELEMENT_FP16;
    return shape;
}

/* ---- computing: gradients and the identity, float64 ---- */

enum { MASKS = 2, ORDERS = 2, SUMS = 3 };
static const char *const mask_names[MASKS] = {"none", "causal"};
static const MaskKind mask_kinds[MASKS] = {MASK_NONE, MASK_CAUSAL};
static const KindId orders[ORDERS] = {DIRECT, BY_QUERIES};
static const char *const sum_names[SUMS] = {"key after key", "in pairs", "in pairs"};
static const char *const other_sides[SUMS] = {"D of the kernel (dO . O, O from tiles)", "D of the kernel (dO . O, O from tiles)",
                                              "dO . O, O from full rows"};

/* One sample: largest differences over all elements. */
typedef struct {
    double gradients[ORDERS][3]; /* dQ, dK, dV of the kernel against full matrices */
    double worst[ORDERS];        /* the largest of the three */
    double identity[SUMS];
    double gradient; /* the largest gradient itself */
} Sample;

typedef struct {
    Population population;
    Sample samples[MASKS][MAX_SAMPLES];
} Errors;

static bool compute(const Context *context, const Profile *profile, const Algorithm *algorithm, const Population *p,
                    MaskKind mask, BackwardVariant variant, AttentionRun *run)
{
    AttentionShape shape = attention_shape(p->N, p->d);
    shape.dtype = ELEMENT_F64;
    shape.mask = mask;
    const RunSetup setup = {.algorithm = algorithm,
                            .profile = profile,
                            .tiles = p->tiles,
                            .config = {.mode = MODE_NUMERIC, .l2 = L2_NONE, .precision = PRECISION_F64}};
    *run = (AttentionRun){0};
    if (!attention_run_prepare(run, &setup, &shape, context->alloc, context->status) ||
        !attention_run_prepare_backward(run, p->tiles, variant))
        return false;
    attention_random_inputs(&run->attention, &run->machine, p->seed);
    return attention_run_forward(run) && attention_run_backward(run);
}

static double largest_value(const AttentionRun *a, const Tensor *x)
{
    double worst = 0.0;
    for (uint64_t i = 0; i < tensor_elements(x); i++) worst = fmax(worst, fabs(tensor_value(&a->machine, x, i)));
    return worst;
}

static double largest_of_three(const double x[3]) { return fmax(x[0], fmax(x[1], x[2])); }

static void compare_gradients(const AttentionRun *run, const AttentionRun *full, double out[3])
{
    const Attention *a = &run->attention, *b = &full->attention;
    out[0] = largest_difference(&run->machine, a->dQ, &full->machine, b->dQ);
    out[1] = largest_difference(&run->machine, a->dK, &full->machine, b->dK);
    out[2] = largest_difference(&run->machine, a->dV, &full->machine, b->dV);
}

static double in_order(const double *x, uint64_t n)
{
    double sum = 0.0;
    for (uint64_t i = 0; i < n; i++) sum += x[i];
    return sum;
}

/* Halves, halves of halves, ...: what array libraries do, with less rounding. */
static double in_pairs(const double *x, uint64_t n)
{
    return n <= 2 ? in_order(x, n) : in_pairs(x, n / 2) + in_pairs(x + n / 2, n - n / 2);
}

/* sum_k P_ik dP_ik from the full matrices, against D. */
static void compare_identity(const AttentionRun *flash, const AttentionRun *full, double *terms, Sample *sample)
{
    const Machine *m = &full->machine;
    const Attention *a = &full->attention;
    const Tensor *dP = tensor_named(m, "dP"), *D = tensor_named(&flash->machine, "D");
    const uint64_t N = a->shape.seqlen_q, d = a->shape.head_dim;
    for (uint64_t i = 0; i < N; i++) {
        double dot = 0.0;
        for (uint64_t c = 0; c < d; c++) dot += tensor_value(m, a->dO, i * d + c) * tensor_value(m, a->O, i * d + c);
        for (uint64_t k = 0; k < N; k++) terms[k] = tensor_value(m, a->P, i * N + k) * tensor_value(m, dP, i * N + k);
        const double kernel = tensor_value(&flash->machine, D, i), pairs = in_pairs(terms, N);
        sample->identity[0] = fmax(sample->identity[0], fabs(in_order(terms, N) - kernel));
        sample->identity[1] = fmax(sample->identity[1], fabs(pairs - kernel));
        sample->identity[2] = fmax(sample->identity[2], fabs(pairs - dot));
    }
}

static bool measure_sample(const Context *context, const Profile *profile, const Population *p, MaskKind mask, Sample *sample)
{
    AttentionRun full, flash[ORDERS] = {{.totals = {0}}};
    double *terms = alloc_array(context->alloc, p->N, sizeof *terms, "one row of P o dP", context->status);
    bool ok = terms != NULL;
    *sample = (Sample){.gradient = 0.0};
    ok = compute(context, profile, &algorithm_standard, p, mask, kinds[DIRECT].variant, &full) && ok;
    for (size_t o = 0; o < ORDERS; o++) {
        ok = ok && compute(context, profile, &algorithm_fa2, p, mask, kinds[orders[o]].variant, &flash[o]);
        if (!ok) continue;
        compare_gradients(&flash[o], &full, sample->gradients[o]);
        sample->worst[o] = largest_of_three(sample->gradients[o]);
    }
    if (ok) {
        const double values[3] = {largest_value(&full, full.attention.dQ), largest_value(&full, full.attention.dK),
                                  largest_value(&full, full.attention.dV)};
        sample->gradient = largest_of_three(values);
        compare_identity(&flash[0], &full, terms, sample);
    }
    for (size_t o = 0; o < ORDERS; o++) attention_run_free(&flash[o]);
    attention_run_free(&full);
    alloc_free(context->alloc, terms);
    return ok;
}

static bool measure(const Context *context, const Profile *profile, const Population *population, Errors *errors)
{
    errors->population = *population;
    for (size_t m = 0; m < MASKS; m++)
        for (uint64_t s = 0; s < population->samples; s++) {
            Population one = *population;
            one.seed = population->seed + s;
            if (!measure_sample(context, profile, &one, mask_kinds[m], &errors->samples[m][s])) return false;
        }
    return true;
}

/* Of one number of every sample, at `offset` within Sample. */
static Range range_of(const Errors *errors, size_t mask, size_t offset)
{
    double values[MAX_SAMPLES] = {0};
    const size_t n = (size_t)errors->population.samples;
    for (size_t s = 0; s < n; s++) memcpy(&values[s], (const char *)&errors->samples[mask][s] + offset, sizeof values[s]);
    return range_of_errors(values, n);
}

static size_t worst_at(size_t order) { return offsetof(Sample, worst) + order * sizeof(double); }
static size_t gradient_at(size_t order, size_t g) { return offsetof(Sample, gradients) + (3 * order + g) * sizeof(double); }
static size_t identity_at(size_t sum) { return offsetof(Sample, identity) + sum * sizeof(double); }

/* ---- the declarations ---- */

static const Column gradient_columns[] = {
    {"N", "", "sequence length"},
    {"mask", "", "none or causal"},
    {"kernel", "", "the loop order; both add up the same products in different order"},
    {"dQ", "", "max |kernel - full matrices|, median over the samples"},
    {"dK", "", "the same"},
    {"dV", "", "the same"},
    {"samples", "", "random inputs with seeds --seed, --seed + 1, ... (--batch)"},
    {"smallest", "", "the largest of the three, in the best sample"},
    {"median", "", "over the samples"},
    {"largest", "", "in the worst sample"},
    {"gradients", "", "the largest gradient itself, median over the samples"},
};
static const TableSpec gradient_table = {"gradients", "Gradients against full N x N matrices, float64", gradient_columns, 11};

static const Column identity_columns[] = {
    {"mask", "", "none or causal"},
    {"sum_k P dP added", "", "the order of summation over the N keys of a row"},
    {"compared with", "", "the other side of the identity"},
    {"samples", "", "random inputs"},
    {"smallest", "", "max over the rows of |difference|, in the best sample"},
    {"median", "", "over the samples"},
    {"largest", "", "in the worst sample"},
};
static const TableSpec identity_table = {"identity", "sum_k P_ik dP_ik = dO_i . O_i, float64", identity_columns, 7};

static const Column reference_columns[] = {
    {"N", "", "sequence length"}, {"mask", "", "none or causal"}, {"dQ", "", "max |standard attention - row-wise oracle|"},
    {"dK", "", "the same"},       {"dV", "", "the same"},
};
static const TableSpec reference_table = {
    "reference", "The reference itself: standard attention against the textbook, row by row", reference_columns, 5};

static const Column account_columns[] = {
    {"array", "", "in HBM"},
    {"kind", "", "read, write, or atomic addition (counted twice)"},
    {"formula", "", "of the lecture's account"},
    {"lecture's", "elements", "dQ added into dQ itself; counted by the walk"},
    {"shipped", "elements", "dQ added into float32 sums, a conversion kernel at the end"},
    {"each", "bytes", "per element, as shipped"},
    {"shipped, bytes", "bytes", "elements * bytes per element"},
};
static const TableSpec account_table = {"account", "The HBM account of the backward pass without L2", account_columns, 7};

static const TableSpec owners_picture = {"owners", "Who owns which gradient (letters: thread blocks; 4 x 4 tiles)", NULL, 0};

static const Column order_columns[] = {
    {"kernel", "", "loop order and where dQ is added up"},
    {"dQ", "", "how each element is written"},
    {"dK", "", "how each element is written"},
    {"dV", "", "how each element is written"},
    {"atomic", "elements", "counted by the walk, 2 per addition"},
    {"formula", "", "Tc 2Nd, or Tr 2 2Nd: ok, or the difference"},
    {"HBM", "elements", "all, without L2, zeroing and conversion included"},
    {"HBM, bytes", "bytes", "FP16; sums and statistics float32"},
    {"sums", "bytes", "memory beside the gradients"},
};
static const TableSpec order_table = {"orders", "Two loop orders: one gradient or two by atomic adds", order_columns, 9};

static const Column rerun_columns[] = {
    {"kernel", "", "run twice on the same float32 inputs, the thread blocks in another order"},
    {"dQ differs", "elements", "whose bits are not the same"},
    {"dK differs", "elements", "whose bits are not the same"},
    {"dV differs", "elements", "whose bits are not the same"},
    {"largest", "", "max |difference|"},
};
static const TableSpec rerun_table = {"reruns", "Is the result the same when the blocks finish in another order?", rerun_columns,
                                      5};

static const Column split_columns[] = {
    {"batch", "", "sequences"},
    {"heads", "", "per sequence"},
    {"N", "", "sequence length"},
    {"d", "", "head dimension"},
    {"key blocks", "", "per head: thread blocks as shipped"},
    {"splits", "", "thread blocks per head, each with its own sums: ceil(SMs / (batch heads)), at most the key blocks"},
    {"dQ", "", "the gradient in FP16"},
    {"shipped sums", "", "float32, one per head"},
    {"deterministic sums", "", "float32, one per split"},
};
static const TableSpec split_table = {"deterministic", "What a fixed order costs: one set of dQ sums per thread block",
                                      split_columns, 9};

static const Column saved_columns[] = {
    {"batch", "", "sequences"},
    {"heads", "", "per sequence"},
    {"N", "", "sequence length"},
    {"P", "", "what standard attention keeps: N x N per head, FP16"},
    {"P formula", "", "2 batch heads N^2: ok, or the difference"},
    {"L", "", "what FlashAttention keeps: N per head, float32"},
    {"L formula", "", "4 batch heads N: ok, or the difference"},
    {"P / L", "", "N / 2"},
};
static const TableSpec saved_table = {"saved", "Kept per layer for the backward pass", saved_columns, 8};

static const Column traffic_columns[] = {
    {"N", "", "sequence length"},
    {"d", "", "head dimension"},
    {"block", "", "Br = Bc"},
    {"standard", "elements", "Algorithm 3, each operand once per kernel: 8Nd + 7N^2"},
    {"FA2", "elements", "no L2, the lecture's account: 6Nd + N + Tc (4Nd + 2N)"},
    {"standard/FA2", "", "below 1: recomputation moves more"},
    {"standard, no L2", "elements", "its products read operands again for every block, too"},
    {"ratio, no L2", "", "the same model on both sides"},
    {"ratio, ideal L2", "", "both with an ideal L2, all of FA2's launches included"},
    {"N x N part", "%", "4N^2 d / Bc of FA2's account: rereads of Q, dO and the additions to dQ"},
};
static const TableSpec traffic_table = {
    "traffic", "Does the backward pass move less? Standard attention against FlashAttention-2", traffic_columns, 10};

static const Column silicon_columns[] = {
    {"mask", "", "none or causal"},
    {"N", "", "sequence length"},
    {"d", "", "head dimension"},
    {"tile", "", "Br x Bc of the kernel"},
    {"L2 to SMs", "MB", "hardware counter"},
    {"reads over walk", "", "against what the main kernel's blocks ask for in the walk"},
    {"SMs to L2", "MB", "hardware counter: atomic adds, dK, dV"},
    {"writes over walk", "", "against the walk"},
    {"HBM read", "MB", "hardware counter"},
    {"HBM over once", "", "against the walk with an ideal L2"},
};
static const TableSpec silicon_table = {
    "silicon", "On silicon: the main backward kernel of FlashAttention-2 on one H200, 16 heads", silicon_columns, 10};

static const TableSpec *const tables[] = {&gradient_table, &identity_table, &reference_table, &account_table,
                                          &owners_picture, &order_table,    &rerun_table,     &split_table,
                                          &saved_table,    &traffic_table,  &silicon_table};

#define SPREAD_RULE "band: our spread over 200 seeds (--batch 200)"
static const ClaimSpec claims[] = {
    {"2.6-1", "2.6", "what the forward keeps for the backward, besides its inputs", "O and L (N numbers)", VERDICT_EQUAL,
     "tensors of the forward walk: O, N x d, and L, N x 1", NULL},
    {"2.6-12", "2.6", "the backward formulas, tile by tile", "dV, dP, dS, dK, dQ", VERDICT_EQUAL,
     "as kernel (with the 1/sqrt(d) that the lecture leaves out): largest difference to full matrices below 3e-14", NULL},
    {"2.6-2", "2.6", "max |sum_k P dP - dO.O|, N=512, d=64, float64", "1.3e-15", VERDICT_CLOSE,
     SPREAD_RULE ", both sides from full rows, added in pairs", NULL},
    {"2.6-3", "2.6", "dQ, dK, dV against full matrices, no mask", "1e-15 level", VERDICT_CLOSE, SPREAD_RULE ", both loop orders",
     NULL},
    {"2.6-4", "2.6", "the same, causal: the largest", "7.1e-15", VERDICT_CLOSE,
     SPREAD_RULE ", query blocks outside: a sum in another order than the reference's", NULL},
    {"2.6-5", "2.6", "N x N terms in the backward traffic (N=512, d=64, B=64)", "none", VERDICT_DIFFERS,
     "6Nd + N + Tc(4Nd + 2N) contains 4N^2 d/Bc",
     "no N x N array is moved, but rereads grow as N^2 d/Bc; \"O(Nd)\" needs an L2 that absorbs them"},
    {"2.6-5a", "2.6", "N x N arrays in the backward pass", "none", VERDICT_EQUAL,
     "tensors of the walk with N x N elements or more", NULL},
    {"2.6-6", "2.6", "dQ by atomic adds, N=512, d=64, Bc=64 (also P001)", "524,288", VERDICT_EQUAL, "walk = Tc 2Nd", NULL},
    {"2.6-7", "2.6", "parallel over query blocks: dK and dV by atomic adds (also P002)", "doubles", VERDICT_EQUAL,
     "walk = Tr 2 2Nd, Br = Bc", NULL},
    {"2.6-8", "2.6", "kept per layer, batch 64 x 16 heads, N=1024: P", "2 GiB", VERDICT_EQUAL,
     "tensor P of the standard walk, FP16", NULL},
    {"2.6-9", "2.6", "the same: L", "4 MiB", VERDICT_EQUAL, "tensor L of the FA2 walk, float32", NULL},
    {"2.6-10", "2.6", "kept per layer, batch 64 x 16 heads, N=16K: P", "512 GiB", VERDICT_EQUAL,
     "tensor P of the standard walk, FP16", NULL},
    {"2.6-11", "2.6", "the same: L", "64 MiB", VERDICT_EQUAL, "tensor L of the FA2 walk, float32", NULL},
    {"R-A8", "2.6", "recomputation adds no HBM traffic (N=512, d=64, no L2)", "not more", VERDICT_DIFFERS,
     "standard / FA2 backward at blocks of 32, 64, 128: (8Nd + 7N^2) / (6Nd + N + Tc(4Nd + 2N))",
     "false at small blocks: at 32 keys rereads outweigh P, dP and dS; true with an ideal L2, and if standard attention has none "
     "either"},
};

static const ProgramOption options[] = {
    {OPTION_BATCH, "1"}, {OPTION_SEQLEN, "512"}, {OPTION_HEAD_DIM, "64"}, {OPTION_BLOCK_Q, NULL}, {OPTION_BLOCK_K, NULL}};

/* ---- gradients and identity ---- */

static void gradient_rows(Table *table, const Errors *errors)
{
    for (size_t m = 0; m < MASKS; m++)
        for (size_t o = 0; o < ORDERS; o++) {
            const Range worst = range_of(errors, m, worst_at(o));
            table_row(table);
            cell_count(table, errors->population.N);
            cell_text(table, mask_names[m]);
            cell_text(table, orders[o] == DIRECT ? "key blocks outside" : "query blocks outside");
            for (size_t g = 0; g < 3; g++) cell_significant(table, range_of(errors, m, gradient_at(o, g)).median, 2);
            cell_count(table, errors->population.samples);
            cell_significant(table, worst.low, 2);
            cell_significant(table, worst.median, 2);
            cell_significant(table, worst.high, 2);
            cell_significant(table, range_of(errors, m, offsetof(Sample, gradient)).median, 2);
        }
}

static void add_gradient_notes(Table *table)
{
    table_note(table, "Both kernels compute the same sums. The reference adds query rows from first to last, and so does the "
                      "kernel with key blocks");
    table_note(table, "outside: part of the rounding cancels. With query blocks outside whole tiles are added, as a BLAS would: "
                      "under a causal mask dV is");
    table_note(table, "then three times further away, because early keys collect P near 1 from many rows. An autograd with its "
                      "own order lands there.");
    table_note(table, "Golden gradients of another implementation's autograd: tests/test_backward.c (1e-12).");
}

static void add_identity(Report *report, const Errors *errors)
{
    Table *table = report_table(report, &identity_table);
    table_title(table, "%s (N = %" PRIu64 ", d = %" PRIu64 ")", identity_table.title, errors->population.N, errors->population.d);
    for (size_t m = 0; m < MASKS; m++)
        for (size_t s = 0; s < SUMS; s++) {
            const Range range = range_of(errors, m, identity_at(s));
            table_row(table);
            cell_text(table, mask_names[m]);
            cell_text(table, sum_names[s]);
            cell_text(table, other_sides[s]);
            cell_count(table, errors->population.samples);
            cell_significant(table, range.low, 2);
            cell_significant(table, range.median, 2);
            cell_significant(table, range.high, 2);
        }
    table_note(
        table,
        "The left side needs a whole row of P and dP, the right side two rows of d numbers. They differ by rounding alone.");
}

static bool add_reference(const Context *context, const Profile *profile, Report *report, const Population *lecture)
{
    Table *table = report_table(report, &reference_table);
    for (size_t m = 0; m < MASKS; m++) {
        Population small = *lecture;
        AttentionRun run;
        BackwardError error = {0};
        small.N = ORACLE_N;
        const bool ok = compute(context, profile, &algorithm_standard, &small, mask_kinds[m], kinds[DIRECT].variant, &run) &&
                        oracle_compare_backward(&run.attention, &run.machine, &error);
        attention_run_free(&run);
        if (!ok) return false;
        table_row(table);
        cell_count(table, small.N);
        cell_text(table, mask_names[m]);
        cell_significant(table, error.max_abs_dQ, 2);
        cell_significant(table, error.max_abs_dK, 2);
        cell_significant(table, error.max_abs_dV, 2);
        if (error.max_abs_dQ + error.max_abs_dK + error.max_abs_dV > 1e-13)
            report_mismatch(report, "standard attention is not the textbook's");
    }
    table_note(table, "The oracle never forms D from O: it adds up P o dP over the row.");
    return true;
}

/* One row per sweep point; the identity of the first. What is too long to compute is left out, its counts stay. */
static bool add_numbers(const Context *context, const Profile *profile, Report *report, const Errors *lecture, Errors *scratch)
{
    const Options *o = context->options;
    Table *table = report_table(report, &gradient_table);
    const Errors *first = NULL;
    for (size_t i = 0; i < options_point_count(o); i++) {
        const OptionPoint point = options_point(o, i);
        const Population p = {point.seqlen, point.head_dim, point.batch, o->seed, lecture->population.tiles, 0};
        if (p.N == 0 || p.N > MAX_NUMERIC_N) continue;
        const bool known = same_population(&p, &lecture->population);
        if (!known && !measure(context, profile, &p, scratch)) return false;
        gradient_rows(table, known ? lecture : scratch);
        if (first != NULL) continue;
        first = known ? lecture : scratch;
        add_identity(report, first);
    }
    add_gradient_notes(table);
    if (first == NULL) table_note(table, "Nothing to compute: N = 0, or above %d (P, dP and dS are N x N).", MAX_NUMERIC_N);
    return add_reference(context, profile, report, &lecture->population);
}

/* ---- the account ---- */

/* A line of the account: where the walk of each variant has it. NULL: not there. */
typedef struct {
    const char *array;
    Direction direction;
    const char *formula;
    const char *direct, *direct_launch;
    const char *shipped, *shipped_launch;
} Line;

static const Line lecture_lines[] = {
    {"dO", READ, "Nd + Tc Nd", "dO", NULL, "dO", NULL},
    {"O", READ, "Nd", "O", NULL, "O", NULL},
    {"D", WRITE, "N", "D", NULL, "D", NULL},
    {"K", READ, "Nd", "K", NULL, "K", NULL},
    {"V", READ, "Nd", "V", NULL, "V", NULL},
    {"Q", READ, "Tc Nd", "Q", NULL, "Q", NULL},
    {"L", READ, "Tc N", "L", NULL, "L", NULL},
    {"D", READ, "Tc N", "D", NULL, "D", NULL},
    {"dQ", ATOMIC, "Tc 2Nd", "dQ", NULL, "dQ sum", NULL},
    {"dK", WRITE, "Nd", "dK", NULL, "dK", NULL},
    {"dV", WRITE, "Nd", "dV", NULL, "dV", NULL},
};
static const Line other_lines[] = {
    {"dQ or its sums, zeroed", WRITE, "Nd", "dQ", "fa2_bwd_zero", "dQ sum", "fa2_bwd_dot"},
    {"sums, read by the conversion", READ, "Nd", NULL, NULL, "dQ sum", "fa2_bwd_convert"},
    {"dQ, written by the conversion", WRITE, "Nd", NULL, NULL, "dQ", "fa2_bwd_convert"},
};
enum { LECTURE_LINES = sizeof lecture_lines / sizeof lecture_lines[0], OTHER_LINES = sizeof other_lines / sizeof other_lines[0] };

typedef struct {
    uint64_t direct, shipped, shipped_bytes;
} Sums;

static void account_row(Table *table, const Line *line, const AttentionRun *direct, const AttentionRun *shipped, Sums *sums)
{
    const uint64_t elements =
        line->direct == NULL ? 0 : ledger_sum(&direct->machine, line->direct_launch, line->direct, line->direction);
    const uint64_t as_shipped = ledger_sum(&shipped->machine, line->shipped_launch, line->shipped, line->direction);
    const uint64_t size = element_bytes(tensor_named(&shipped->machine, line->shipped)->type);
    table_row(table);
    cell_text(table, line->array);
    cell_text(table, direction_names[line->direction]);
    cell_text(table, line->formula);
    if (line->direct == NULL)
        cell_empty(table);
    else
        cell_count(table, elements);
    cell_count(table, as_shipped);
    cell_count(table, size);
    cell_count(table, as_shipped * size);
    sums->direct += elements;
    sums->shipped += as_shipped;
    sums->shipped_bytes += as_shipped * size;
}

static void account_total(Table *table, const char *name, const char *formula, const Sums *sums)
{
    table_row(table);
    cell_text(table, name);
    cell_text(table, "");
    cell_text(table, formula);
    cell_count(table, sums->direct);
    cell_count(table, sums->shipped);
    cell_empty(table);
    cell_count(table, sums->shipped_bytes);
}

/* Returns the lecture's total. */
static uint64_t account_rows(Table *table, const AttentionRun *direct, const AttentionRun *shipped)
{
    Sums sums = {0};
    for (size_t i = 0; i < LECTURE_LINES; i++) account_row(table, &lecture_lines[i], direct, shipped, &sums);
    const uint64_t total = sums.direct;
    account_total(table, "the lecture's account", "6Nd + N + Tc(4Nd + 2N)", &sums);
    for (size_t i = 0; i < OTHER_LINES; i++) account_row(table, &other_lines[i], direct, shipped, &sums);
    account_total(table, "all launches", "", &sums);
    report_check(table->report, sums.direct, moved(direct), "the account, all launches, dQ direct");
    report_check(table->report, sums.shipped, moved(shipped), "the account, all launches, as shipped");
    return total;
}

static bool add_account(const Context *context, const Profile *machine, Report *report, const Problem *first)
{
    AttentionRun direct, shipped;
    Problem p = *first;
    const uint64_t N = p.shape.seqlen_q, d = p.shape.head_dim;
    p.profile = machine;
    p.variant = kinds[DIRECT].variant;
    const bool ok1 = walk(context, report, &p, &direct);
    p.variant = kinds[SHIPPED].variant;
    const bool ok2 = walk(context, report, &p, &shipped);
    if (ok1 && ok2) {
        Table *table = report_table(report, &account_table);
        table_title(table, "%s (N = %" PRIu64 ", d = %" PRIu64 ", Br = %u, Bc = %u: Tc = %" PRIu64 ")", account_table.title, N, d,
                    p.tiles.Br, p.tiles.Bc, ceil_div(N, p.tiles.Bc));
        report_check(report, account_rows(table, &direct, &shipped), fa2_backward_elements(N, d, p.tiles.Bc, context->status),
                     "6Nd + N + Tc (4Nd + 2N)");
        table_note(table,
                   "Nothing here has N x N elements, yet Q, dO and dQ cross Tc = N/Bc times: together 4N^2 d/Bc elements.");
        table_note(table, "The lecture adds into dQ itself and leaves its zeroing out. The shipped kernel adds in float32: the "
                          "same count of additions,");
        table_note(table, "twice the bytes, and a conversion kernel.");
    }
    attention_run_free(&direct);
    attention_run_free(&shipped);
    return ok1 && ok2;
}

/* ---- who owns which gradient ---- */

static void picture_of(Table *picture, bool by_queries)
{
    enum { BLOCKS = 4 };
    const char *const all = "A + B + C + D";
    picture_line(picture, by_queries ? "query blocks outside: thread block A owns Q0, B owns Q1, ..."
                                     : "key blocks outside (shipped): thread block A owns K0 and V0, B owns K1 and V1, ...");
    picture_line(picture, " ");
    picture_line(picture, "          K0  K1  K2  K3");
    for (int i = 0; i < BLOCKS; i++) {
        char line[64] = "";
        size_t at = 0;
        for (int j = 0; j < BLOCKS; j++, at += 4) {
            line[at] = (char)('A' + (by_queries ? i : j));
            memcpy(&line[at + 1], "   ", 4);
        }
        if (by_queries)
            picture_line(picture, "    Q%d    %s-> dQ%d = %c                   stays on chip, written once", i, line, i, 'A' + i);
        else
            picture_line(picture, "    Q%d    %s-> dQ%d = %s       atomic adds", i, line, i, all);
    }
    picture_line(picture, "          |   |   |   |");
    if (by_queries) {
        picture_line(picture, "          dK0 dK1 dK2 dK3  each = %s      atomic adds", all);
        picture_line(picture, "          dV0 dV1 dV2 dV3  each = %s      atomic adds", all);
    } else {
        picture_line(picture, "          dK0 dK1 dK2 dK3  = A, B, C, D               stay on chip, written once");
        picture_line(picture, "          dV0 dV1 dV2 dV3  = A, B, C, D               stay on chip, written once");
    }
    picture_line(picture, " ");
}

/* "8 adds" or "1 store" per element, from the main kernel's ledger. */
static void how_written(Table *table, const AttentionRun *run, const char *gradient, const char *sum)
{
    const Machine *machine = &run->machine;
    const uint64_t elements = tensor_elements(tensor_named(machine, gradient));
    const uint64_t adds = (ledger_sum(machine, NULL, gradient, ATOMIC) + ledger_sum(machine, NULL, sum, ATOMIC)) / 2;
    if (elements == 0)
        cell_empty(table);
    else if (adds > 0)
        cell_textf(table, "%" PRIu64 " atomic adds", adds / elements);
    else
        cell_textf(table, "%" PRIu64 " store", ledger_sum(machine, NULL, gradient, WRITE) / elements);
}

static bool order_row(const Context *context, Table *table, const Problem *first, KindId kind)
{
    AttentionRun run;
    Problem p = *first;
    p.variant = kinds[kind].variant;
    if (kind != DETERMINISTIC) p.profile = first->profile;
    const bool ok = walk(context, table->report, &p, &run);
    if (ok) {
        const uint64_t N = p.shape.seqlen_q, d = p.shape.head_dim;
        const uint64_t formula = kind == BY_QUERIES ? fa2_backward_atomic_elements_by_queries(N, d, p.tiles.Br, context->status)
                                                    : fa2_backward_atomic_elements(N, d, p.tiles.Bc, context->status);
        const Machine *m = &run.machine;
        table_row(table);
        cell_text(table, kinds[kind].name);
        how_written(table, &run, "dQ", "dQ sum");
        how_written(table, &run, "dK", "dK sum");
        how_written(table, &run, "dV", "dV sum");
        cell_count(table, run.totals.atomic_elements);
        cell_check(table, run.totals.atomic_elements, formula, "atomic elements");
        cell_count(table, moved(&run));
        const uint64_t atomic_bytes = run.totals.atomic_elements * (kind == DIRECT ? element_bytes(p.shape.dtype) : 4);
        cell_count(table, run.totals.hbm_read_bytes + run.totals.hbm_write_bytes + atomic_bytes);
        cell_count(table, tensor_bytes(m, "dQ sum") + tensor_bytes(m, "dK sum") + tensor_bytes(m, "dV sum"));
    }
    attention_run_free(&run);
    return ok;
}

static bool add_orders(const Context *context, Report *report, const Problem *first)
{
    Table *picture = report_table(report, &owners_picture);
    picture_of(picture, false);
    picture_of(picture, true);
    Table *table = report_table(report, &order_table);
    table_title(table, "%s (N = %" PRIu64 ", d = %" PRIu64 ", Br = %u, Bc = %u, no L2, %s)", order_table.title,
                first->shape.seqlen_q, first->shape.head_dim, first->tiles.Br, first->tiles.Bc, first->profile->name);
    for (int kind = 0; kind < KINDS; kind++)
        if (!order_row(context, table, first, (KindId)kind)) return false;
    table_note(table, "The forward pass has one output, O, and gives its query blocks to thread blocks: no atomic add at all. "
                      "The backward pass has three");
    table_note(table, "outputs; whichever loop is outside, some gradient collects from all thread blocks. Keys outside: one of "
                      "three. Queries outside: two.");
    return true;
}

/* ---- determinism ---- */

static bool float32_run(const Context *context, const Profile *hw, const Population *p, BackwardVariant variant, uint64_t order,
                        AttentionRun *run)
{
    AttentionShape shape = attention_shape(p->N, p->d);
    shape.dtype = ELEMENT_F32;
    const RunSetup setup = {.algorithm = &algorithm_fa2,
                            .profile = hw,
                            .tiles = p->tiles,
                            .config = {.mode = MODE_NUMERIC, .l2 = L2_NONE, .precision = PRECISION_F32, .shuffle_seed = order}};
    *run = (AttentionRun){0};
    if (!attention_run_prepare(run, &setup, &shape, context->alloc, context->status) ||
        !attention_run_prepare_backward(run, p->tiles, variant))
        return false;
    attention_random_inputs(&run->attention, &run->machine, p->seed);
    return attention_run_forward(run) && attention_run_backward(run);
}

static uint64_t different_elements(const AttentionRun *a, const Tensor *x, const AttentionRun *b, const Tensor *y)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < tensor_elements(x); i++) count += tensor_value(&a->machine, x, i) != tensor_value(&b->machine, y, i);
    return count;
}

static void rerun_row(Table *table, const char *name, const AttentionRun *a, const AttentionRun *b)
{
    double differences[3];
    const Attention *x = &a->attention, *y = &b->attention;
    compare_gradients(a, b, differences);
    table_row(table);
    cell_text(table, name);
    cell_count(table, different_elements(a, x->dQ, b, y->dQ));
    cell_count(table, different_elements(a, x->dK, b, y->dK));
    cell_count(table, different_elements(a, x->dV, b, y->dV));
    cell_significant(table, largest_of_three(differences), 2);
}

static bool add_reruns(const Context *context, const Profile *machine, Report *report, uint64_t seed)
{
    static const KindId rerun[] = {SHIPPED, DETERMINISTIC, BY_QUERIES};
    const Population p = {256, 32, 1, seed, {32, 32}, 0};
    Table *table = report_table(report, &rerun_table);
    table_title(table, "%s (N = %" PRIu64 ", d = %" PRIu64 ", float32)", rerun_table.title, p.N, p.d);
    for (size_t i = 0; i < sizeof rerun / sizeof rerun[0]; i++) {
        AttentionRun a, b;
        const BackwardVariant variant = kinds[rerun[i]].variant;
        const bool ok1 = float32_run(context, machine, &p, variant, 1, &a),
                   ok2 = float32_run(context, machine, &p, variant, 2, &b);
        if (ok1 && ok2) rerun_row(table, kinds[rerun[i]].name, &a, &b);
        attention_run_free(&a);
        attention_run_free(&b);
        if (!ok1 || !ok2) return false;
    }
    table_note(
        table,
        "Of %" PRIu64
        " elements each. Additions in another order round differently; a gradient that one thread block owns cannot change.",
        p.N * p.d);
    return true;
}

static bool add_splits(const Context *context, Report *report)
{
    static const struct {
        uint64_t batch, heads, N, d;
    } cases[] = {{1, 1, LECTURE_N, LECTURE_D}, {1, 16, 1024, 64}, {1, 16, 16384, 128}, {64, 16, 1024, 64}};
    char text[NUMBER_SIZE];
    Table *table = report_table(report, &split_table);
    table_title(table, "%s (%" PRIu64 " SMs of %s)", split_table.title, context->hw->sm_count, context->hw->name);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        AttentionRun run;
        Problem p = {.profile = context->hw,
                     .algorithm = &algorithm_fa2,
                     .shape = one_head(cases[i].N, cases[i].d),
                     .l2 = L2_NONE,
                     .variant = kinds[DETERMINISTIC].variant};
        p.shape.batch = cases[i].batch;
        p.shape.heads = p.shape.kv_heads = cases[i].heads;
        if (!fitting_backward_tiles(p.algorithm, &p.shape, p.profile, context->alloc, &p.tiles, context->status)) return false;
        const bool ok = walk(context, report, &p, &run);
        if (ok) {
            const uint64_t dq = tensor_bytes(&run.machine, "dQ"), sums = tensor_bytes(&run.machine, "dQ sum");
            const uint64_t keys = ceil_div(cases[i].N, p.tiles.Bc);
            const uint64_t counts[] = {cases[i].batch, cases[i].heads,
                                       cases[i].N,     cases[i].d,
                                       keys,           fa2_backward_splits(context->hw->sm_count, &p.shape, keys)};
            table_row(table);
            for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) cell_count(table, counts[c]);
            cell_text(table, format_bytes(text, dq));
            cell_text(table, format_bytes(text, 2 * dq));
            cell_text(table, format_bytes(text, sums));
        }
        attention_run_free(&run);
        if (!ok) return false;
    }
    table_note(table, "A split strides over the key blocks in a fixed order and nobody else adds into its sums; the conversion "
                      "kernel adds the splits up.");
    table_note(table,
               "With enough heads one split per head is left: deterministic for free, and idle SMs when there are few (%" PRIu64
               " SMs).",
               context->hw->sm_count);
    return true;
}

/* ---- saved memory ---- */

typedef struct {
    uint64_t p, l;
} Saved;

/* Bytes of what the forward of each algorithm leaves for the backward. */
static bool saved_bytes(const Context *context, const Profile *machine, uint64_t batch, uint64_t heads, uint64_t N, Saved *saved)
{
    AttentionShape shape = one_head(N, 64);
    AttentionRun standard = {0}, flash = {0};
    shape.batch = batch;
    shape.heads = shape.kv_heads = heads;
    const TileSize tiles = {128, 128};
    const bool ok =
        attention_count(&standard, &algorithm_standard, &shape, tiles, L2_IDEAL, machine, context->alloc, context->status) &&
        attention_count(&flash, &algorithm_fa2, &shape, tiles, L2_IDEAL, machine, context->alloc, context->status);
    if (ok) *saved = (Saved){tensor_bytes(&standard.machine, "P"), tensor_bytes(&flash.machine, "L")};
    attention_run_free(&standard);
    attention_run_free(&flash);
    return ok;
}

static bool add_saved(const Context *context, const Profile *machine, Report *report)
{
    const uint64_t batch = 64, heads = 16, MiB = UINT64_C(1) << 20;
    static const uint64_t lengths[] = {1024, 4096, 16384};
    static const char *const ids[][2] = {{"2.6-8", "2.6-9"}, {NULL, NULL}, {"2.6-10", "2.6-11"}};
    static const uint64_t lecture[][2] = {{2048, 4}, {0, 0}, {512 * 1024, 64}}; /* MiB */
    char text[NUMBER_SIZE];
    Table *table = report_table(report, &saved_table);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        Saved saved = {0};
        if (!saved_bytes(context, machine, batch, heads, lengths[i], &saved)) return false;
        table_row(table);
        cell_count(table, batch);
        cell_count(table, heads);
        cell_count(table, lengths[i]);
        cell_text(table, format_bytes(text, saved.p));
        cell_check(table, saved.p, saved_p_bytes(batch, heads, lengths[i], context->status), "bytes of P");
        cell_text(table, format_bytes(text, saved.l));
        cell_check(table, saved.l, saved_l_bytes(batch, heads, lengths[i], context->status), "bytes of L");
        cell_decimals(table, (double)saved.p / (double)saved.l, 0);
        if (ids[i][0] == NULL) continue;
        claim_bytes(report, ids[i][0], lecture[i][0] * MiB, saved.p);
        claim_bytes(report, ids[i][1], lecture[i][1] * MiB, saved.l);
    }
    table_note(table, "GPT-2 medium's attention, batch 64 x 16 heads. L must be float32: e^(S - L) repeats the forward's P only "
                      "if S - L is exact enough.");
    return true;
}

/* ---- does it move less? ---- */

typedef struct {
    uint64_t standard, standard_none, account, ideal; /* standard and ideal: with an ideal L2 */
} Compared;

static bool compare_traffic(const Context *context, Report *report, const Problem *fa2, Compared *c)
{
    Problem standard = *fa2, p = *fa2;
    bool ok = true;
    standard.algorithm = &algorithm_standard;
    p.variant = kinds[DIRECT].variant;
    for (int l2 = L2_NONE; ok && l2 <= L2_IDEAL; l2++) {
        AttentionRun full, flash;
        standard.l2 = p.l2 = (L2Model)l2;
        const bool ok1 = walk(context, report, &standard, &full), ok2 = walk(context, report, &p, &flash);
        ok = ok1 && ok2;
        if (ok && l2 == L2_NONE) {
            c->standard_none = moved(&full);
            c->account = moved(&flash) - ledger_sum(&flash.machine, "fa2_bwd_zero", "dQ", WRITE);
        } else if (ok) {
            c->standard = moved(&full);
            c->ideal = moved(&flash);
        }
        attention_run_free(&full);
        attention_run_free(&flash);
    }
    return ok;
}

static bool traffic_row(const Context *context, Table *table, const Problem *p, Compared *c)
{
    const uint64_t N = p->shape.seqlen_q, d = p->shape.head_dim, Tc = ceil_div(N, p->tiles.Bc);
    *c = (Compared){0};
    if (!compare_traffic(context, table->report, p, c)) return false;
    report_check(table->report, c->standard, standard_backward_elements(N, d, context->status), "8Nd + 7N^2");
    report_check(table->report, c->account, fa2_backward_elements(N, d, p->tiles.Bc, context->status), "6Nd + N + Tc (4Nd + 2N)");
    table_row(table);
    cell_count(table, N);
    cell_count(table, d);
    if (p->tiles.Br == p->tiles.Bc)
        cell_count(table, p->tiles.Bc);
    else
        cell_textf(table, "%u x %u", p->tiles.Br, p->tiles.Bc);
    cell_count(table, c->standard);
    cell_count(table, c->account);
    cell_decimals(table, per(c->standard, c->account), 2);
    cell_count(table, c->standard_none);
    cell_decimals(table, per(c->standard_none, c->account), 2);
    cell_decimals(table, per(c->standard, c->ideal), 2);
    cell_decimals(table, 100 * per(checked_mul(4 * N * d, Tc, "4 N d Tc", context->status), c->account), 1);
    return true;
}

static bool add_traffic(const Context *context, const Profile *machine, Report *report)
{
    static const uint32_t blocks[] = {16, 32, 64, 128, 256};
    const Options *o = context->options;
    const bool given = o->given[OPTION_BLOCK_Q] || o->given[OPTION_BLOCK_K];
    Table *table = report_table(report, &traffic_table);
    for (size_t i = 0; i < options_point_count(o); i++) {
        const OptionPoint point = options_point(o, i);
        Compared c;
        Problem p = {.profile = machine, .algorithm = &algorithm_fa2, .shape = one_head(point.seqlen, point.head_dim)};
        p.tiles = (TileSize){(uint32_t)(point.block_q ? point.block_q : point.block_k),
                             (uint32_t)(point.block_k ? point.block_k : point.block_q)};
        if (given && !traffic_row(context, table, &p, &c)) return false;
        for (size_t b = 0; b < sizeof blocks / sizeof blocks[0] && !given; b++) {
            p.tiles = (TileSize){blocks[b], blocks[b]};
            if (!traffic_row(context, table, &p, &c)) return false;
        }
    }
    table_note(table, "Recomputing P spares reading it, but every key block reads Q and dO again. The first ratio is the paper's "
                      "model; it lets standard");
    table_note(table, "attention read each operand once per kernel, which its tiled products can only do with an L2. With one "
                      "model on both sides,");
    table_note(table, "none or ideal, FlashAttention-2 moves less at every block size.");
    return true;
}

/* ---- silicon: one H200, PyTorch 2.11, CUDA 13.0, Nsight Compute, caches flushed before the launch; 16 heads, batch 1, BF16 ----
 */

typedef struct {
    bool causal;
    uint64_t N, d, l2_to_sm, sm_to_l2, dram_read;
} CounterRow;

static const CounterRow counters[] = {
    {false, 1024, 64, 38797312, 40239104, 12750592},
    {false, 1024, 128, 76546048, 75759616, 25329152},
    {false, 16384, 64, UINT64_C(8940582912), UINT64_C(8696889344), 210898688},
    {false, 16384, 128, UINT64_C(17584890976), UINT64_C(17318281216), 609400064},
    {true, 16384, 128, UINT64_C(8927766592), UINT64_C(8797552640), 405783808},
};

/* Bytes of one launch: asked for by the SMs, sent by them, read from HBM. */
typedef struct {
    uint64_t asked, sent, read;
} LaunchBytes;

static LaunchBytes launch_bytes(const Machine *machine, const char *launch)
{
    LaunchBytes sum = {0};
    for (uint32_t i = 0; i < machine->ledger_count; i++) {
        const LedgerRow *row = &machine->ledger[i];
        const uint64_t size = element_bytes(row->tensor->type);
        if (strcmp(row->kernel, launch) != 0) continue;
        sum.asked += row->traffic.l2_to_sm * size;
        sum.sent += row->traffic.sm_to_l2 * size;
        sum.read += row->traffic.hbm_read * size;
    }
    return sum;
}

static bool add_silicon(const Context *context, const Profile *machine, Report *report)
{
    Table *table = report_table(report, &silicon_table);
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++) {
        const CounterRow *row = &counters[i];
        AttentionRun run;
        Problem p = {.profile = machine, .algorithm = &algorithm_fa2, .shape = one_head(row->N, row->d), .l2 = L2_IDEAL};
        p.shape.heads = p.shape.kv_heads = 16;
        p.shape.mask = row->causal ? MASK_CAUSAL : MASK_NONE;
        p.tiles = fa2_backward_tiles(&p.shape);
        const bool ok = walk(context, report, &p, &run);
        const LaunchBytes walked = launch_bytes(&run.machine, "fa2_bwd");
        attention_run_free(&run);
        if (!ok) return false;
        table_row(table);
        cell_text(table, row->causal ? "causal" : "none");
        cell_count(table, row->N);
        cell_count(table, row->d);
        cell_textf(table, "%u x %u", p.tiles.Br, p.tiles.Bc);
        cell_decimals(table, (double)row->l2_to_sm / 1e6, 1);
        cell_decimals(table, per(row->l2_to_sm, walked.asked), 4);
        cell_decimals(table, (double)row->sm_to_l2 / 1e6, 1);
        cell_decimals(table, per(row->sm_to_l2, walked.sent), 4);
        cell_decimals(table, (double)row->dram_read / 1e6, 1);
        cell_decimals(table, per(row->dram_read, walked.read), 2);
    }
    table_note(table, "At N = 1024 the SMs ask for what the walk counts, to the byte, and L2 absorbs the rereads. At 16K and d = "
                      "128 without a mask it absorbs");
    table_note(table, "99 %% of them, and what is left is still half of what must be read. (PyTorch 2.11, CUDA 13.0, Nsight "
                      "Compute, caches flushed before.)");
    return true;
}

/* ---- the claims, at the lecture's shape ---- */

/* Smallest and largest over 200 samples, one more in the second digit on either side:
 *     s2_6_backward --batch 200       (half a minute)
 * The lecture's number and ours must both lie inside. */
typedef struct {
    const char *id;
    double lecture, low, high;
} Spread;
static const Spread identity_band = {"2.6-2", 1.3e-15, 1.2e-15, 3.7e-15};
static const Spread no_mask_band = {"2.6-3", 1e-15, 6.0e-16, 3.3e-15};
static const Spread causal_band = {"2.6-4", 7.1e-15, 3.0e-15, 1.3e-14};

static void judge_band(Report *report, const Spread *band, double ours)
{
    if (band->lecture < band->low || band->lecture > band->high)
        claim_holds(report, band->id, false, "%.1e (our spread %.1e to %.1e)", ours, band->low, band->high);
    else
        claim_close(report, band->id, band->low, band->high, ours, 2, "");
}

static void judge_numbers(Report *report, const Errors *x)
{
    const double none = fmax(range_of(x, 0, worst_at(0)).median, range_of(x, 0, worst_at(1)).median);
    const double causal = range_of(x, 1, worst_at(1)).median;
    judge_band(report, &identity_band, range_of(x, 0, identity_at(2)).median);
    judge_band(report, &no_mask_band, none);
    judge_band(report, &causal_band, causal);
    claim_holds(report, "2.6-12", none < 3e-14 && causal < 3e-14, "%.1e, causal %.1e", none, causal);
}

static void judge_kept(Report *report, const AttentionRun *forward)
{
    const Tensor *O = tensor_named(&forward->machine, "O"), *L = tensor_named(&forward->machine, "L");
    const bool ok = L != NULL && L->cols == 1 && L->rows == LECTURE_N && forward->machine.tensor_count == 5; /* with Q, K, V */
    claim_holds(report, "2.6-1", ok && O->cols == LECTURE_D, "O, and L with %" PRIu64 " numbers", L == NULL ? 0 : L->rows);
}

static void judge_account(Report *report, const AttentionRun *direct, const AttentionRun *by_queries)
{
    const uint64_t N = LECTURE_N, d = LECTURE_D, Tc = key_blocks(&direct->attention);
    const uint64_t rereads = 4 * Tc * N * d, atomic = direct->totals.atomic_elements;
    const uint64_t account = moved(direct) - ledger_sum(&direct->machine, "fa2_bwd_zero", "dQ", WRITE);
    uint64_t squares = 0;
    for (uint32_t i = 0; i < direct->machine.tensor_count; i++) squares += tensor_elements(&direct->machine.tensors[i]) >= N * N;
    claim_holds(report, "2.6-5", rereads == 0, "%" PRIu64 " of %" PRIu64 " elements are 4N^2 d/Bc", rereads, account);
    claim_holds(report, "2.6-5a", squares == 0, "%" PRIu64 " of %" PRIu32 " tensors", squares, direct->machine.tensor_count);
    claim_count(report, "2.6-6", 524288, atomic, " elements");
    claim_holds(report, "2.6-7", by_queries->totals.atomic_elements == 2 * atomic, "%" PRIu64 " elements, %.2fx",
                by_queries->totals.atomic_elements, per(by_queries->totals.atomic_elements, atomic));
}

static bool judge_small_blocks(const Context *context, Report *report, Problem p)
{
    static const uint32_t blocks[] = {32, 64, 128};
    double ratios[3] = {0};
    for (size_t i = 0; i < 3; i++) {
        Compared c = {0};
        p.tiles = (TileSize){blocks[i], blocks[i]};
        if (!compare_traffic(context, report, &p, &c)) return false;
        ratios[i] = per(c.standard, c.account);
    }
    claim_holds(report, "R-A8", ratios[0] >= 1 && ratios[1] >= 1 && ratios[2] >= 1,
                "standard / FA2 = %.2f, %.2f, %.2f at blocks of 32, 64, 128", ratios[0], ratios[1], ratios[2]);
    return true;
}

static bool judge_counts(const Context *context, const Profile *machine, Report *report)
{
    const TileSize tiles = {LECTURE_BLOCK, LECTURE_BLOCK};
    Problem p = {
        .profile = machine, .algorithm = &algorithm_fa2, .shape = one_head(LECTURE_N, LECTURE_D), .tiles = tiles, .l2 = L2_NONE};
    AttentionRun forward = {0}, direct, by_queries;
    bool ok = attention_count(&forward, &algorithm_fa2, &p.shape, tiles, L2_NONE, machine, context->alloc, context->status);
    if (ok) judge_kept(report, &forward);
    attention_run_free(&forward);
    p.variant = kinds[DIRECT].variant;
    ok = walk(context, report, &p, &direct) && ok;
    p.variant = kinds[BY_QUERIES].variant;
    ok = walk(context, report, &p, &by_queries) && ok;
    if (ok) judge_account(report, &direct, &by_queries);
    attention_run_free(&direct);
    attention_run_free(&by_queries);
    return ok && judge_small_blocks(context, report, p);
}

/* ---- the program ---- */

static bool check_samples(const Options *o, Status *status)
{
    for (size_t i = 0; i < o->batch.count; i++)
        if (o->batch.values[i] < 1 || o->batch.values[i] > MAX_SAMPLES)
            return status_fail(status, STATUS_USAGE, "--batch: %" PRIu64 " samples are not allowed; expected 1 to %d",
                               o->batch.values[i], MAX_SAMPLES);
    return true;
}

static bool run_with(const Context *context, const Profile *machine, Report *report, Errors *lecture, Errors *scratch)
{
    const OptionPoint point = options_point(context->options, 0);
    const Population at_lecture = {LECTURE_N, LECTURE_D, 1, context->options->seed, {LECTURE_BLOCK, LECTURE_BLOCK}, 0};
    Problem first = {
        .profile = machine, .algorithm = &algorithm_fa2, .shape = one_head(point.seqlen, point.head_dim), .l2 = L2_NONE};
    first.tiles.Br = (uint32_t)(point.block_q ? point.block_q : point.block_k ? point.block_k : LECTURE_BLOCK);
    first.tiles.Bc = (uint32_t)(point.block_k ? point.block_k : first.tiles.Br);
    if (!measure(context, machine, &at_lecture, lecture) || !add_numbers(context, machine, report, lecture, scratch) ||
        !add_account(context, machine, report, &first) || !add_orders(context, report, &first) ||
        !add_reruns(context, machine, report, context->options->seed) || !add_splits(context, report) ||
        !add_saved(context, machine, report) || !add_traffic(context, machine, report) || !add_silicon(context, machine, report))
        return false;
    judge_numbers(report, lecture);
    return judge_counts(context, machine, report);
}

static bool run(Context *context, Report *report)
{
    Profile machine;
    if (!check_samples(context->options, context->status) ||
        !profile_load("unbounded", context->alloc, &machine, context->status))
        return false;
    report_param_text(report, "machine", "unbounded unless said");
    report_param_text(report, "hw", context->hw->name);
    report_param_count(report, "seed", context->options->seed);
    Errors *both = alloc_array(context->alloc, 2, sizeof *both, "errors of all samples", context->status);
    const bool ok = both != NULL && run_with(context, &machine, report, &both[0], &both[1]);
    alloc_free(context->alloc, both);
    return ok;
}

const Experiment experiment_s2_6_backward = {
    .program =
        {
            .name = "s2_6_backward",
            .purpose = "the backward pass from L alone: gradients, HBM account, atomic adds, saved memory (lecture 2.6)",
            .examples =
                {
                    "",
                    "--seqlen 1k --head-dim 128 --block-q 64 --block-k 128",
                },
            .options = options,
            .option_count = sizeof options / sizeof options[0],
        },
    .report =
        {
            .section = "2.6",
            .title_en = "Backward: keep only logsumexp, recompute P",
            .title_zh = "反向：只存 logsumexp，重算 P",
            .tables = tables,
            .table_count = sizeof tables / sizeof tables[0],
            .claims = claims,
            .claim_count = sizeof claims / sizeof claims[0],
        },
    .run = run,
};
