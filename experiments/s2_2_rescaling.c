/* s2_2_rescaling.c - lecture §2.1 and §2.2: why softmax resists tiling, the attempt that fails, and the rescaling that is exact.
 *
 * Keys come in blocks; A_j = exp(S_j) and l_j = rowsum(A_j) of one block are known, the whole row's l is not:
 *
 *     first attempt     O = sum_j A_j V_j / l_j     own denominators: a row's weights sum to the number of blocks, not 1
 *     second attempt    O <- (l_old/l_new) O + A_j V_j / l_new, l_new = l_old + l_j     exact, but exp(S) overflows
 *     FlashAttention    O <- (l e^(m - m_new) O + e^(m~ - m_new) P~ V_j) / l_new        the same relative to a running maximum m
 *
 * All three are kernels that run on real data here (float64 unless said) and are compared with the textbook definition in
 * float64 (algos/oracle.h). Weights are made visible by a V whose column c is 1 for the keys of block c: O then holds the weight
 * that each block gets. The last table measures how far standard attention and both FlashAttentions are from the definition.
 * That distance is rounding: it depends on the random numbers and on the order of summation, so a claim about it is held against
 * a spread. Left out: counts and time; BF16, whose error is thousands of times larger (1e-3) and hides all this.
 */
#include "support/experiment.h"
#include "support/population.h"
#include "support/tensor_named.h"
#include "support/text.h"

#include "algos/oracle.h"
#include "algos/run.h"
#include "sim/checked.h"
#include "sim/math_functions.h"

#include <math.h>
#include <string.h>

/* ---- the attempts as kernels: one thread block per query block ---- */

typedef enum { FIRST_ATTEMPT, SECOND_ATTEMPT, FLASH_ATTENTION, METHODS } Method;
static const char *const method_names[METHODS] = {"first attempt", "second attempt", "FlashAttention (fa1)"};

static void first_attempt_block(Block *b, const void *arguments, uint64_t i)
{
    const Attention *a = arguments;
    const uint32_t Br = a->Br, Bc = a->Bc, d = (uint32_t)a->shape.head_dim, rows = live_rows(a, i);
    const ElementType type = a->shape.dtype, statistic = a->statistic;
    Stream *w = stream(b, "compute", 4);
    Tile *q = shared_tile(b, "Q", type, Br, d), *k = shared_tile(b, "K", type, Bc, d), *v = shared_tile(b, "V", type, Bc, d);
    Tile *s = register_tile(b, "S", statistic, Br, Bc), *p = tile_view(s, "A", type, Br, Bc);
    Tile *o = register_tile(b, "O", statistic, Br, d), *av = register_tile(b, "A V", statistic, Br, d);
    Rows *zero = row_vector(b, "0", statistic, Br), *l = row_vector(b, "l", statistic, Br);
    fill(w, o, rows, d, 0.0);
    fill(w, zero, rows, 1, 0.0);
    load(w, q, a->Q, i * Br);
    for (uint64_t j = 0; j < key_blocks(a); j++) {
        load(w, k, a->K, j * Bc);
        load(w, v, a->V, j * Bc);
        matmul_nt_scaled(w, s, q, k, a->shape.softmax_scale);
        exp_rows(w, s, s, zero);            /* A_j = exp(S_j) */
        row_sum(w, l, s);                   /* l_j, of this block alone */
        convert(w, p, s);
        matmul_nn(w, av, p, v);
        divide_rows(w, av, l);              /* A_j V_j / l_j */
        add(w, o, av);
    }
    store(w, a->O, i * Br, o);
}

static void second_attempt_block(Block *b, const void *arguments, uint64_t i)
{
    const Attention *a = arguments;
    const uint32_t Br = a->Br, Bc = a->Bc, d = (uint32_t)a->shape.head_dim, rows = live_rows(a, i);
    const ElementType type = a->shape.dtype, statistic = a->statistic;
    Stream *w = stream(b, "compute", 4);
    Tile *q = shared_tile(b, "Q", type, Br, d), *k = shared_tile(b, "K", type, Bc, d), *v = shared_tile(b, "V", type, Bc, d);
    Tile *s = register_tile(b, "S", statistic, Br, Bc), *p = tile_view(s, "A", type, Br, Bc);
    Tile *o = register_tile(b, "O", statistic, Br, d), *av = register_tile(b, "A V", statistic, Br, d);
    Rows *zero = row_vector(b, "0", statistic, Br), *l = row_vector(b, "l", statistic, Br);
    Rows *l_block = row_vector(b, "l of the block", statistic, Br), *weight = row_vector(b, "l_old/l_new", statistic, Br);
    fill(w, o, rows, d, 0.0);
    fill(w, zero, rows, 1, 0.0);
    fill(w, l, rows, 1, 0.0);
    load(w, q, a->Q, i * Br);
    for (uint64_t j = 0; j < key_blocks(a); j++) {
        load(w, k, a->K, j * Bc);
        load(w, v, a->V, j * Bc);
        matmul_nt_scaled(w, s, q, k, a->shape.softmax_scale);
        exp_rows(w, s, s, zero);
        row_sum(w, l_block, s);
        convert(w, p, s);
        matmul_nn(w, av, p, v);
        rows_max(w, weight, l, l);          /* l_old */
        rows_add(w, l, l_block);            /* l_new = l_old + l_j */
        divide_rows(w, weight, l);
        scale_rows(w, o, weight);           /* (l_old/l_new) O */
        divide_rows(w, av, l);              /* A_j V_j / l_new */
        add(w, o, av);
    }
    store(w, a->O, i * Br, o);
}

static bool launch_method(Machine *machine, Attention *a, Method method)
{
    if (method == FLASH_ATTENTION) return algorithm_fa1.forward(machine, a);
    const Kernel kernel = {.name = method_names[method], .instruction = TENSOR_MMA_SYNC, .threads = 128,
                           .registers_per_thread = 255,
                           .run = method == FIRST_ATTEMPT ? first_attempt_block : second_attempt_block};
    return launch(machine, &kernel, one_block_per_query_block(a), a);
}

/* ---- running them ---- */

/* One head. Blocks of Br rows and Bc keys. */
typedef struct {
    uint64_t N, d, seed;
    uint32_t Br, Bc;
    double factor;              /* on the scores, beyond 1/sqrt(d) */
    ElementType dtype;          /* f64 or f32 */
} Setup;

static bool prepare(const Context *context, const Profile *profile, const Setup *setup, uint64_t Nq, uint64_t Nk,
                    Machine *machine, Attention *a)
{
    AttentionShape shape = attention_shape(setup->N, setup->d);
    shape.seqlen_q = Nq;
    shape.seqlen_k = Nk;
    shape.dtype = setup->dtype;
    shape.softmax_scale *= setup->factor;
    const MachineConfig config = {
        .mode = MODE_NUMERIC, .l2 = L2_NONE, .precision = setup->dtype == ELEMENT_F64 ? PRECISION_F64 : PRECISION_F32};
    machine_init(machine, profile, config, context->alloc, context->status);
    if (!attention_init(a, machine, &shape, setup->Br, setup->Bc)) return false;
    attention_random_inputs(a, machine, setup->seed);
    return status_ok(context->status);
}

static double distance(double a, double b) { return isnan(a) || isnan(b) ? INFINITY : fabs(a - b); }

static double max_distance(const Machine *machine, const Tensor *tensor, uint64_t first, uint64_t count, const double *want)
{
    double worst = 0.0;
    for (uint64_t i = 0; i < count; i++) {
        const double x = distance(tensor_value(machine, tensor, first + i), want[first + i]);
        if (x > worst) worst = x;
    }
    return worst;
}

/* O of one method on random data against the oracle's. */
static double method_error(const Context *context, const Profile *profile, const Setup *setup, Method method,
                           const double *oracle)
{
    Machine machine;
    Attention a;
    double error = INFINITY;
    if (prepare(context, profile, setup, setup->N, setup->N, &machine, &a) && launch_method(&machine, &a, method))
        error = max_distance(&machine, a.O, 0, tensor_elements(a.O), oracle);
    machine_free(&machine);
    return error;
}

/* V[k][c] = 1 where key k is in block c: row i of O becomes the weights that query i gives to the blocks. At most d blocks. */
static void mark_blocks(const Machine *machine, const Attention *a)
{
    const uint64_t d = a->shape.head_dim;
    for (uint64_t k = 0; k < a->shape.seqlen_k; k++)
        for (uint64_t c = 0; c < d; c++) tensor_set(machine, a->V, k * d + c, k / a->Bc == c ? 1.0 : 0.0);
}

/* weights[i * d + c]: what row i gives to block c. */
static bool method_weights(const Context *context, const Profile *profile, const Setup *setup, Method method, double *weights)
{
    Machine machine;
    Attention a;
    bool ok = prepare(context, profile, setup, setup->N, setup->N, &machine, &a);
    if (ok) {
        mark_blocks(&machine, &a);
        ok = launch_method(&machine, &a, method);
        for (uint64_t i = 0; ok && i < tensor_elements(a.O); i++) weights[i] = tensor_value(&machine, a.O, i);
    }
    machine_free(&machine);
    return ok;
}

static double row_sum_of(const double *weights, uint64_t row, uint64_t d)
{
    double sum = 0.0;
    for (uint64_t c = 0; c < d; c++) sum += weights[row * d + c];
    return sum;
}

/* The oracle's O for a setup, [N][d], to be freed; NULL after a failure. */
static double *oracle_of(const Context *context, const Profile *profile, const Setup *setup)
{
    Machine machine;
    Attention a;
    double *O = alloc_array(context->alloc, checked_mul(setup->N, setup->d, "N x d", context->status), sizeof *O,
                            "the oracle's O", context->status);
    if (O == NULL) return NULL;
    if (prepare(context, profile, setup, setup->N, setup->N, &machine, &a)) oracle_forward(&a, &machine, O, NULL);
    machine_free(&machine);
    return O;
}

/* ---- the declarations ---- */

static const Column difficulty_columns[] = {
    {"difficulty", "", "slide 9"},
    {"remedy", "", "slide 9"},
    {"number", "", "what it amounts to, here"},
    {"section", "", "of the lecture"},
};
static const TableSpec difficulties_table = {"difficulties", "Two difficulties and their remedies (slide 9)", difficulty_columns,
                                             4};

static const Column attempt_columns[] = {
    {"method", "", "how blocks are put together"},
    {"blocks", "", "key blocks, N / Bc"},
    {"least row sum", "", "smallest sum of a row's weights; 1 is right"},
    {"largest row sum", "", "largest sum of a row's weights"},
    {"max error", "", "max |O - oracle|"},
    {"max |O|", "", "of the oracle, to compare the error with"},
};
static const TableSpec attempts_table = {"attempts", "Putting the blocks of a row together", attempt_columns, 6};

static const Column weight_columns[] = {
    {"row", "", "query"},
    {"method", "", "how blocks are put together"},
    {"block 1", "", "weight of the keys of the first block"},
    {"block 2", "", "weight of the keys of the second block"},
    {"sum", "", "of both; 1 is right"},
    {"picture", "", "1, 2: weight of the blocks, 30 characters = 1"},
};
static const TableSpec weights_table = {"weights", "Row weights summing to 2, then to 1 (two blocks)", weight_columns, 6};

static const Column overflow_columns[] = {
    {"scores x", "", "factor on the scores"},
    {"largest score", "", "row maximum kept by FlashAttention (float64)"},
    {"second attempt, f32", "", "elements of O that are infinite or NaN"},
    {"FlashAttention, f32", "", "elements of O that are infinite or NaN"},
    {"second attempt, f64", "", "elements of O that are infinite or NaN"},
    {"FlashAttention, f64", "", "elements of O that are infinite or NaN"},
};
static const TableSpec overflow_table = {"overflow", "Why the running maximum: elements of O lost to overflow", overflow_columns,
                                         6};

static const Column online_columns[] = {
    {"keys seen", "", "after this block"},
    {"m", "", "largest score so far"},
    {"e^(m_old-m)", "", "what the old sum and the old O are multiplied by"},
    {"l", "", "sum of e^(score - m) so far"},
    {"L = m + log l", "", "logsumexp of the keys seen"},
    {"oracle L", "", "the same from the definition"},
    {"max |O - oracle|", "", "against the definition over the keys seen"},
};
static const TableSpec online_table = {"online", "The online update, block by block (query 0)", online_columns, 7};

static const Column error_columns[] = {
    {"N", "", "sequence length"},
    {"d", "", "head dimension"},
    {"mask", "", "none or causal"},
    {"dtype", "", "of all arithmetic; the inputs are float32 numbers in both"},
    {"algorithm", "", "standard, fa1 (paper, Algorithm 1) or fa2"},
    {"samples", "", "independent heads of random data, --batch"},
    {"least", "", "smallest of the samples' max |O - oracle|"},
    {"median", "", "median of the samples' max |O - oracle|"},
    {"largest", "", "largest of the samples' max |O - oracle|"},
};
static const TableSpec errors_table = {"errors", "Exact, not approximate: distance from the float64 definition", error_columns,
                                       9};

static const TableSpec *const tables[] = {&difficulties_table, &attempts_table, &weights_table,
                                          &overflow_table,     &online_table,   &errors_table};

#define SPREAD_RULE "band: our spread over N = 256, 512, 1024, 12 samples each (--seqlen 256,512,1k --batch 12)"

static const ClaimSpec claims[] = {
    {"2.1-1", "2.1", "difficulties listed on slide 9", "2", VERDICT_CITED, "quoted", NULL},
    {"2.2-1", "2.2", "first attempt (own denominators, then add) is wrong, N=256, d=64, two blocks", "wrong", VERDICT_EQUAL,
     "O = sum_j A_j V_j / l_j: the weights of a row sum to the number of blocks", NULL},
    {"2.2-2", "2.2", "second attempt, (l1/l2) O1 + A2 V2/l2, N=256, d=64, two blocks", "exact", VERDICT_EQUAL,
     "float64: error below 4e-15, weights sum to 1 within 4e-15", NULL},
    {"2.2-3", "2.2", "FlashAttention (Algorithm 1) against the reference, float64, no mask", "8.9e-16", VERDICT_CLOSE,
     SPREAD_RULE, NULL},
    {"2.2-4", "2.2", "the same, causal", "1.0e-15", VERDICT_CLOSE, SPREAD_RULE, NULL},
    {"2.2-5", "2.2", "float32 error of FlashAttention", "2.8e-7", VERDICT_CLOSE, SPREAD_RULE, NULL},
    {"2.2-6", "2.2", "float32 error of standard attention", "4.0e-7", VERDICT_CLOSE, SPREAD_RULE, NULL},
    {"2.2-order", "2.2", "float32: FlashAttention and standard attention are of the same order", "same order", VERDICT_EQUAL,
     "the larger error over the smaller is below 10, every sample, both masks", NULL},
    {"2.2-7", "2.2", "the online update m, l, O", "formulas", VERDICT_EQUAL,
     "fa1 keeps m, l in HBM: m + log l = the oracle's L and O = the oracle's after every prefix of the keys", NULL},
};

enum { MAX_SAMPLES = 64, LECTURE_N = 256, LECTURE_D = 64, LECTURE_SAMPLES = 2 };

static const ProgramOption options[] = {
    {OPTION_BATCH, "2"}, {OPTION_SEQLEN, "256"}, {OPTION_HEAD_DIM, "64"}, {OPTION_BLOCK_Q, "64"}, {OPTION_BLOCK_K, "64"}};

/* ---- §2.1 ---- */

static void add_difficulties(Report *report, uint64_t N)
{
    Table *table = report_table(report, &difficulties_table);
    table_row(table);
    cell_text(table, "softmax normalises a row, a tile does not see the whole row");
    cell_text(table, "tiling with rescaling: blocks from HBM to SRAM, online softmax");
    cell_text(table, "a row's weights sum to 2 instead of 1");
    cell_text(table, "2.2");
    table_row(table);
    cell_text(table, "the backward pass needs the N x N attention matrix");
    cell_text(table, "recomputation from Q, K, V in SRAM; only L is kept");
    cell_textf(table, "P: N^2 = %" PRIu64 " elements a head; L: N = %" PRIu64, N * N, N);
    cell_text(table, "2.6");
    claim_cited(report, "2.1-1", "2 rows");
}

/* ---- §2.2: the attempts ---- */

static void attempt_row(Table *table, const Setup *setup, Method method, const double *weights, double error, double max_O)
{
    double least = INFINITY, largest = -INFINITY;
    for (uint64_t i = 0; i < setup->N; i++) {
        const double sum = row_sum_of(weights, i, setup->d);
        if (sum < least) least = sum;
        if (sum > largest) largest = sum;
    }
    table_row(table);
    cell_text(table, method_names[method]);
    cell_count(table, ceil_div(setup->N, setup->Bc));
    cell_decimals(table, least, 6);
    cell_decimals(table, largest, 6);
    cell_significant(table, error, 2);
    cell_significant(table, max_O, 2);
}

static void weight_row(Table *table, const Setup *setup, Method method, const double *weights, uint64_t row)
{
    enum { ONE = 30, LONGEST = 3 * ONE };
    char line[LONGEST + 1];
    const double first = weights[row * setup->d], second = weights[row * setup->d + 1];
    size_t end = (size_t)((first + second) * ONE + 0.5), middle = (size_t)(first * ONE + 0.5);
    end = end < LONGEST ? end : LONGEST;
    middle = middle < end ? middle : end;
    memset(line, '1', middle);
    memset(line + middle, '2', end - middle);
    line[end] = '\0';
    table_row(table);
    cell_count(table, row);
    cell_text(table, method_names[method]);
    cell_decimals(table, first, 3);
    cell_decimals(table, second, 3);
    cell_decimals(table, first + second, 3);
    cell_text(table, line);
}

static void judge_attempts(Report *report, Method method, const Setup *setup, const double *weights, double error)
{
    const double want = method == FIRST_ATTEMPT ? 2.0 : 1.0;
    double worst = 0.0;
    for (uint64_t i = 0; i < setup->N; i++) worst = fmax(worst, distance(row_sum_of(weights, i, setup->d), want));
    if (method == FIRST_ATTEMPT)
        claim_holds(report, "2.2-1", worst < 1e-14 && error > 0.1, "weights sum to 2 instead of 1; max |error| %.2f", error);
    if (method == SECOND_ATTEMPT)
        claim_holds(report, "2.2-2", worst < 4e-15 && error < 4e-15, "weights sum to 1; max |error| %.1e", error);
}

/* Two and eight blocks of a head of N = 256; the picture and the claims take two. */
static bool add_attempts(const Context *context, const Profile *profile, Report *report)
{
    Setup setup = {.N = LECTURE_N, .d = LECTURE_D, .seed = context->options->seed, .Br = 64, .factor = 1.0, .dtype = ELEMENT_F64};
    double *oracle = oracle_of(context, profile, &setup), max_O = 0.0;
    double *weights = alloc_array(context->alloc, 3 * setup.N * setup.d, sizeof *weights, "row weights", context->status);
    Table *attempts = report_table(report, &attempts_table), *picture = report_table(report, &weights_table);
    for (uint64_t i = 0; status_ok(context->status) && i < setup.N * setup.d; i++) max_O = fmax(max_O, fabs(oracle[i]));
    for (Method method = FIRST_ATTEMPT; method < METHODS && status_ok(context->status); method++)
        for (uint32_t blocks = 2; blocks <= 8; blocks *= 4) {
            setup.Bc = LECTURE_N / blocks;
            const double error = method_error(context, profile, &setup, method, oracle);
            if (!method_weights(context, profile, &setup, method, weights)) break;
            attempt_row(attempts, &setup, method, weights, error, max_O);
            if (blocks > 2) continue;
            for (uint64_t row = 0; row < 4; row++) weight_row(picture, &setup, method, weights, row);
            judge_attempts(report, method, &setup, weights, error);
        }
    table_title(attempts, "%s (N = %d, d = %d, float64)", attempts_table.title, LECTURE_N, LECTURE_D);
    table_note(attempts, "With its own denominator each block's weights sum to 1, so T blocks sum to T: a sum of averages.");
    table_note(picture, "The first attempt gives every block the same say. Rescaled, a block counts by its share of "
               "the row's l.");
    alloc_free(context->alloc, weights);
    alloc_free(context->alloc, oracle);
    return status_ok(context->status);
}

/* ---- §2.2: why the maximum is subtracted ---- */

/* Elements of O that are infinite or NaN; *largest becomes FlashAttention's largest row maximum. */
static uint64_t count_lost(const Context *context, const Profile *profile, const Setup *setup, Method method, double *largest)
{
    Machine machine;
    Attention a;
    uint64_t lost = 0;
    if (prepare(context, profile, setup, setup->N, setup->N, &machine, &a) && launch_method(&machine, &a, method)) {
        for (uint64_t i = 0; i < tensor_elements(a.O); i++)
            if (!isfinite(tensor_value(&machine, a.O, i))) lost++;
        const Tensor *m = tensor_named(&machine, "m");
        if (m != NULL) *largest = tensor_value(&machine, m, 0);
        for (uint64_t i = 0; m != NULL && i < setup->N; i++) *largest = fmax(*largest, tensor_value(&machine, m, i));
    }
    machine_free(&machine);
    return lost;
}

static void add_overflow(const Context *context, const Profile *profile, Report *report)
{
    static const double factors[] = {1, 30, 300};
    Setup setup = {.N = LECTURE_N, .d = LECTURE_D, .seed = context->options->seed, .Br = 64, .Bc = 128};
    Table *table = report_table(report, &overflow_table);
    for (size_t f = 0; f < sizeof factors / sizeof factors[0]; f++) {
        uint64_t lost[2][2];
        double largest = 0.0;
        setup.factor = factors[f];
        for (int wide = 0; wide < 2; wide++) {
            setup.dtype = wide ? ELEMENT_F64 : ELEMENT_F32;
            lost[wide][0] = count_lost(context, profile, &setup, SECOND_ATTEMPT, &largest);
            lost[wide][1] = count_lost(context, profile, &setup, FLASH_ATTENTION, &largest);
        }
        table_row(table);
        cell_count(table, (uint64_t)factors[f]);
        cell_decimals(table, largest, 1);
        for (int i = 0; i < 4; i++) cell_count(table, lost[i / 2][i % 2]);
    }
    table_note(table, "Of %d elements. exp overflows past 88.7 in float32, past 709.8 in float64, and infinity / "
               "infinity is NaN.",
               LECTURE_N * LECTURE_D);
    table_note(table, "Relative to the maximum no exponent is positive. Any other base near the maximum would do as "
               "well (pitfall 5).");
}

/* ---- §2.2: the online update ---- */

typedef struct {
    double m, l, L, oracle_L, error;
} OnlineState;

/* FlashAttention-1's m, l, O of query 0 after `keys` keys: a run on the first `keys` rows of K and V ends in that state. */
static bool online_state(const Context *context, const Profile *profile, const Setup *setup, uint64_t keys, OnlineState *state)
{
    Machine machine;
    Attention a;
    double O[MAX_HEAD_DIM], L = 0.0;
    const bool ok = prepare(context, profile, setup, 1, keys, &machine, &a) && launch_method(&machine, &a, FLASH_ATTENTION) &&
                    oracle_forward(&a, &machine, O, &L);
    *state = (OnlineState){0};
    if (ok) {
        state->m = tensor_value(&machine, tensor_named(&machine, "m"), 0);
        state->l = tensor_value(&machine, tensor_named(&machine, "l"), 0);
        state->L = state->m + log_f64(state->l);
        state->oracle_L = L;
        state->error = max_distance(&machine, a.O, 0, setup->d, O);
    }
    machine_free(&machine);
    return ok;
}

static bool add_online(const Context *context, const Profile *profile, Report *report)
{
    enum { BLOCK = 32 };
    const Setup setup = {.N = LECTURE_N, .d = LECTURE_D, .seed = context->options->seed, .Br = 64, .Bc = BLOCK, .factor = 1.0,
                         .dtype = ELEMENT_F64};
    double m_old = -INFINITY, worst = 0.0;
    Table *table = report_table(report, &online_table);
    for (uint64_t keys = BLOCK; keys <= setup.N; keys += BLOCK) {
        OnlineState state;
        if (!online_state(context, profile, &setup, keys, &state)) return false;
        table_row(table);
        cell_count(table, keys);
        cell_decimals(table, state.m, 4);
        cell_decimals(table, exp_f64(m_old - state.m), 4);
        cell_decimals(table, state.l, 4);
        cell_decimals(table, state.L, 4);
        cell_decimals(table, state.oracle_L, 4);
        cell_significant(table, state.error, 2);
        m_old = state.m;
        worst = fmax(worst, fmax(state.error, distance(state.L, state.oracle_L)));
    }
    table_note(table, "m only grows; when it does, what was accumulated shrinks by e^(m_old-m). The first block finds "
               "m = -inf: factor 0.");
    table_note(table, "After every block O is the exact attention over the keys seen so far, whatever the rest of the "
               "row holds.");
    claim_holds(report, "2.2-7", worst < 4e-15, "after each of 8 blocks L and O agree within %.1e", worst);
    return status_ok(context->status);
}

/* ---- §2.2: exactness ---- */

enum { COMPARED = 3, STANDARD = 0, FA1 = 1, FA2 = 2 };
static const Algorithm *const compared[COMPARED] = {&algorithm_standard, &algorithm_fa1, &algorithm_fa2};

/* Errors max |O - oracle| of samples, which are heads of one batch, by mask (0 none, 1 causal), precision (0 float64, 1 float32) and
 * algorithm; worst_ratio: of fa1 and standard on the same float32 sample, the larger over the smaller. */
typedef struct {
    Population population;
    Range errors[2][2][COMPARED];
    double worst_ratio;
} Errors;

static AttentionShape population_shape(const Population *p, MaskKind mask, ElementType dtype)
{
    AttentionShape shape = attention_shape(p->N, p->d);
    shape.batch = p->samples;
    shape.mask = mask;
    shape.dtype = dtype;
    return shape;
}

/* Random Q, K, V, float32 numbers also where the arithmetic is float64: one definition then serves both. */
static void float32_inputs(const Attention *a, const Machine *machine, uint64_t seed)
{
    Tensor *const inputs[] = {a->Q, a->K, a->V};
    attention_random_inputs(a, machine, seed);
    for (int t = 0; t < 3 && a->shape.dtype == ELEMENT_F64; t++)
        for (uint64_t i = 0; i < tensor_elements(inputs[t]); i++)
            tensor_set(machine, inputs[t], i, (double)(float)tensor_value(machine, inputs[t], i));
}

/* One algorithm on all samples. The oracle is computed with the first and kept for the others: the inputs are the same. */
static bool sample_errors(const Context *context, const Profile *profile, const Population *p, const AttentionShape *shape,
                          const Algorithm *algorithm, double *oracle, bool oracle_is_known, double errors[MAX_SAMPLES])
{
    const RunSetup setup = {
        .algorithm = algorithm,
        .profile = profile,
        .tiles = p->tiles,
        .config = {.mode = MODE_NUMERIC, .precision = shape->dtype == ELEMENT_F64 ? PRECISION_F64 : PRECISION_F32}};
    AttentionRun run;
    bool ok = attention_run_prepare(&run, &setup, shape, context->alloc, context->status);
    if (ok) {
        float32_inputs(&run.attention, &run.machine, p->seed);
        ok = (oracle_is_known || oracle_forward(&run.attention, &run.machine, oracle, NULL)) && attention_run_forward(&run);
    }
    for (uint64_t s = 0; ok && s < p->samples; s++)
        errors[s] = max_distance(&run.machine, run.attention.O, s * p->N * p->d, p->N * p->d, oracle);
    attention_run_free(&run);
    return ok;
}

static double larger_ratio(double a, double b)
{
    if (a == b) return 1.0;
    return a > b ? a / b : b / a;
}

static bool measure_errors(const Context *context, const Profile *profile, const Population *p, Errors *x)
{
    *x = (Errors){.population = *p, .worst_ratio = 1.0};
    double *oracle = alloc_array(context->alloc, p->samples * p->N * p->d, sizeof *oracle, "the oracle's O", context->status);
    bool ok = oracle != NULL;
    for (int causal = 0; causal < 2; causal++)
        for (int narrow = 0; narrow < 2; narrow++) {
            const AttentionShape shape =
                population_shape(p, causal ? MASK_CAUSAL : MASK_NONE, narrow ? ELEMENT_F32 : ELEMENT_F64);
            double errors[COMPARED][MAX_SAMPLES];
            for (int i = 0; i < COMPARED; i++)
                ok = ok && sample_errors(context, profile, p, &shape, compared[i], oracle, narrow || i > 0, errors[i]);
            for (uint64_t s = 0; ok && narrow && s < p->samples; s++)
                x->worst_ratio = fmax(x->worst_ratio, larger_ratio(errors[FA1][s], errors[STANDARD][s]));
            for (int i = 0; ok && i < COMPARED; i++) x->errors[causal][narrow][i] = range_of_errors(errors[i], p->samples);
        }
    alloc_free(context->alloc, oracle);
    return ok;
}

static void errors_rows(Table *table, const Errors *x)
{
    const Population *p = &x->population;
    for (int row = 0; row < 4 * COMPARED; row++) {
        const int causal = row / (2 * COMPARED), narrow = row / COMPARED % 2, algorithm = row % COMPARED;
        const Range *range = &x->errors[causal][narrow][algorithm];
        table_row(table);
        cell_count(table, p->N);
        cell_count(table, p->d);
        cell_text(table, causal ? "causal" : "none");
        cell_text(table, narrow ? "f32" : "f64");
        cell_text(table, compared[algorithm]->name);
        cell_count(table, p->samples);
        cell_significant(table, range->low, 2);
        cell_significant(table, range->median, 2);
        cell_significant(table, range->high, 2);
    }
}


static bool short_enough(const Population *p, Status *status)
{
    const uint64_t most = UINT64_C(1) << 32;        /* a minute and a half, and 4 GiB of S and P at most */
    if (p->samples < 1 || p->samples > MAX_SAMPLES)
        return status_fail(status, STATUS_USAGE, "--batch: %" PRIu64 " samples are not allowed; expected 1 to %d", p->samples,
                           MAX_SAMPLES);
    const uint64_t scores = checked_mul(checked_mul(p->N, p->N, "N x N", status), p->samples, "N x N x samples", status);
    const uint64_t work = checked_mul(scores, max_u64(p->d, 16), "N x N x samples x d", status);
    if (status_ok(status) && work > most)
        return status_fail(status, STATUS_INFEASIBLE,
                           "the computation is too long: N x N x samples x d = %" PRIu64 ", at most %" PRIu64, work, most);
    return status_ok(status);
}

static bool add_errors(const Context *context, const Profile *profile, const Errors *lecture, Report *report)
{
    const Options *o = context->options;
    Table *table = report_table(report, &errors_table);
    for (size_t i = 0; i < options_point_count(o); i++) {
        const OptionPoint point = options_point(o, i);
        const Population p = {
            point.seqlen, point.head_dim, point.batch, o->seed, {(uint32_t)point.block_q, (uint32_t)point.block_k}, 0};
        Errors measured;
        if (!short_enough(&p, context->status)) return false;
        const bool known = same_population(&p, &lecture->population);
        if (!known && !measure_errors(context, profile, &p, &measured)) return false;
        errors_rows(table, known ? lecture : &measured);
    }
    if (lecture->errors[0][0][STANDARD].high == 0.0)
        table_note(table, "Standard attention in float64 takes the steps of the definition in the same order: no "
                   "difference at all.");
    table_note(table, "FlashAttention in float64 differs in the last digits only: it is exact (pitfall 1), summed in "
               "another order.");
    table_note(table, "In float32 the blocked sums are no worse than whole rows.");
    table_note(table, "The digits depend on the data, N, the blocks and the order of summation (here key after key; a "
               "BLAS sums otherwise),");
    table_note(table, "so the lecture's numbers are held against the spread of many samples, not compared digit by digit.");
    return true;
}

/* ---- the statistical claims ---- */

/* Smallest and largest error of our own code over N = 256, 512, 1024, twelve samples each:
 *     s2_2_rescaling --seqlen 256,512,1k --batch 12      (20 seconds)
 * one more in the second digit on either side. The lecture's number and ours must both lie inside. */
typedef struct {
    const char *id;
    int causal, narrow, algorithm;
    double lecture, low, high;
} Spread;

static const Spread spreads[] = {
    {"2.2-3", 0, 0, FA1, 8.9e-16, 5.5e-16, 1.2e-15},
    {"2.2-4", 1, 0, FA1, 1.0e-15, 5.5e-16, 1.4e-15},
    {"2.2-5", 0, 1, FA1, 2.8e-7, 1.3e-7, 6.1e-7},
    {"2.2-6", 0, 1, STANDARD, 4.0e-7, 2.8e-7, 6.6e-7},
};

static void judge_spreads(Report *report, const Errors *x)
{
    for (size_t i = 0; i < sizeof spreads / sizeof spreads[0]; i++) {
        const Spread *s = &spreads[i];
        const double ours = x->errors[s->causal][s->narrow][s->algorithm].median;
        if (s->lecture < s->low || s->lecture > s->high)
            claim_holds(report, s->id, false, "%.1e (our spread %.1e to %.1e)", ours, s->low, s->high);
        else
            claim_close(report, s->id, s->low, s->high, ours, 2, "");
    }
    claim_holds(report, "2.2-order", x->worst_ratio < 10, "larger over smaller: at most %.1f", x->worst_ratio);
}

static bool run(Context *context, Report *report)
{
    Profile unbounded;
    Errors lecture;
    const Population lecture_population = {LECTURE_N, LECTURE_D, LECTURE_SAMPLES, 1, {64, 64}, 0};
    if (!profile_load("unbounded", context->alloc, &unbounded, context->status)) return false;
    if (!measure_errors(context, &unbounded, &lecture_population, &lecture)) return false;
    report_param_text(report, "machine", "unbounded, computing");
    report_param_count(report, "seed", context->options->seed);
    add_difficulties(report, LECTURE_N);
    if (!add_attempts(context, &unbounded, report)) return false;
    add_overflow(context, &unbounded, report);
    if (!add_online(context, &unbounded, report) || !add_errors(context, &unbounded, &lecture, report)) return false;
    judge_spreads(report, &lecture);
    return status_ok(context->status);
}

const Experiment experiment_s2_2_rescaling = {
    .program = {
        .name = "s2_2_rescaling",
        .purpose = "softmax from blocks: the wrong attempt, the right one, and how exact it is (lecture 2.1, 2.2)",
        .examples = {"", "--seqlen 256,512,1k --batch 12"},
        .options = options,
        .option_count = sizeof options / sizeof options[0],
    },
    .report = {
        .section = "2.2",
        .title_en = "Two attempts at tiling, and rescaling",
        .title_zh = "分块的两次尝试",
        .tables = tables,
        .table_count = sizeof tables / sizeof tables[0],
        .claims = claims,
        .claim_count = sizeof claims / sizeof claims[0],
    },
    .run = run,
};
