/* test_field_cases_backward.c - small inputs on which public backward passes have been wrong, with the right gradients.
 *
 * Each row of the table is a bug report in miniature: gradients of a group not summed, dropout applied before the normaliser, an
 * lse so negative that a padded key overflows, rows that see nothing. The numbers were computed by hand or with numpy (finite
 * differences agree); `source` names the public thread. Every case runs through every backward pass, float64 and float32, with six
 * tile shapes, tiles, scratch and outputs filled with NaN beforehand, and twice: the second run must give the same bits. Reading
 * an input: with d = 1, q = 1 and scale 1 the score of key j is k_j.
 */
/* label: golden */
#include "test.h"

#include "support/backward_case.h"

#include "algos/oracle.h"

#include <math.h>

typedef struct {
    Test test;
    Profile chip;               /* unbounded */
    Alloc alloc;
} Context;

static const TileSize tiles[] = {{1, 1}, {2, 1}, {1, 2}, {4, 4}, {2, 3}, {64, 64}};
enum { TILES = sizeof tiles / sizeof tiles[0] };

/* Query heads share one K/V head; q, d_o: [head, row, d]; k, v: [row, d]. */
typedef struct {
    const char *name, *source;
    uint64_t heads, Nq, Nk, d;
    double scale;
    MaskKind mask;
    const double *q, *k, *v, *d_o;
    const double *keep;                         /* NULL: no dropout; else p = 0.5 */
    const double *O, *L, *dQ, *dK, *dV;         /* as printed, six decimals; NULL: not printed */
    bool exact;                                 /* bit-equal in float64 and float32 */
    double tolerance;                           /* 0: 1e-6, in float32 1e-5 */
} FieldCase;

#define VALUES (const double[])
#define NOTHING -INFINITY

static const FieldCase cases[] = {
    {"27: gradients of K and V are summed over the group", "levanter#449", 2, 2, 2, 1, 1, MASK_NONE, .q = VALUES{1, 2, -1, 0.5},
     .k = VALUES{1, -1}, .v = VALUES{2, 5}, .d_o = VALUES{1, 1, 2, 2}, .dQ = VALUES{-0.629962, -0.105976, -1.259923, -2.359343},
     .dK = VALUES{-0.380831, 0.380831}, .dV = VALUES{3.563334, 2.436666}},
    {"27: the first head alone", "native-sparse-attention-triton#27", 1, 2, 2, 1, 1, MASK_NONE, .q = VALUES{1, 2},
     .k = VALUES{1, -1}, .v = VALUES{2, 5}, .d_o = VALUES{1, 1}, .dQ = VALUES{-0.629962, -0.105976},
     .dK = VALUES{-0.420957, 0.420957}, .dV = VALUES{1.862811, 0.137189}},
    {"3c: the mask reaches the backward", "triton#4541", 2, 2, 2, 1, 1, MASK_CAUSAL, .q = VALUES{1, 2, -1, 0.5},
     .k = VALUES{1, -1}, .v = VALUES{2, 5}, .d_o = VALUES{1, 1, 2, 2}, .dQ = VALUES{0, -0.105976, 0, -2.359343},
     .dK = VALUES{-0.695812, 0.695812}, .dV = VALUES{5.444131, 0.555869}},

    {"4a: no keys at all", "xformers#1042", 1, 3, 0, 1, 1, MASK_NONE, .q = VALUES{1, 1, 1}, .k = VALUES{0}, .v = VALUES{0},
     .d_o = VALUES{1, 1, 1}, .O = VALUES{0, 0, 0}, .L = VALUES{NOTHING, NOTHING, NOTHING}, .dQ = VALUES{0, 0, 0}, .exact = true},
    {"4b: rows without a visible key", "flash-attention#978", 1, 3, 1, 1, 1, MASK_CAUSAL, .q = VALUES{0, 0, 0}, .k = VALUES{0},
     .v = VALUES{7}, .d_o = VALUES{1, 1, 1}, .O = VALUES{0, 0, 7}, .L = VALUES{NOTHING, NOTHING, 0}, .dQ = VALUES{0, 0, 0},
     .dK = VALUES{0}, .dV = VALUES{1}, .exact = true},
    {"11b: no queries: dK = dV = 0 is written", "flash-attention#2421", 1, 0, 3, 1, 1, MASK_NONE, .q = VALUES{0},
     .k = VALUES{1, 2, 3}, .v = VALUES{1, 2, 3}, .d_o = VALUES{0}, .dK = VALUES{0, 0, 0}, .dV = VALUES{0, 0, 0}, .exact = true},

    {"28: dropout acts after the softmax", "nki-samples#80", 1, 2, 2, 1, 1, MASK_NONE, .q = VALUES{1, 2}, .k = VALUES{0.5, -0.5},
     .v = VALUES{3, 7}, .d_o = VALUES{1, 1}, .keep = VALUES{1, 0, 1, 1}, .O = VALUES{4.386351, 6.953624},
     .L = VALUES{0.813262, 1.126928}, .dQ = VALUES{1.179672, -0.839949}, .dK = VALUES{-0.500226, 0.500226},
     .dV = VALUES{3.223711, 0.238406}},
    {"28: the only key is dropped", "nki-samples#80", 1, 1, 1, 1, 1, MASK_NONE, .q = VALUES{2}, .k = VALUES{3}, .v = VALUES{5},
     .d_o = VALUES{1}, .keep = VALUES{0}, .O = VALUES{0}, .L = VALUES{6}, .dQ = VALUES{0}, .dK = VALUES{0}, .dV = VALUES{0},
     .exact = true},
    {"28: one row is dropped", "torch-xpu-ops#3766", 1, 2, 2, 1, 1, MASK_NONE, .q = VALUES{1, 2}, .k = VALUES{0.5, -0.5},
     .v = VALUES{3, 7}, .d_o = VALUES{1, 1}, .keep = VALUES{0, 0, 1, 1}, .O = VALUES{0, 6.953624},
     .L = VALUES{0.813262, 1.126928}, .dQ = VALUES{0, -0.839949}, .dK = VALUES{-1.679897, 1.679897},
     .dV = VALUES{1.761594, 0.238406}},

    {"30a: one visible key", "flash-attention#334", 1, 3, 1, 2, 0.7, MASK_NONE, .q = VALUES{1, 2, 3, -1, 0.5, 0},
     .k = VALUES{2, 1}, .v = VALUES{5, -7}, .d_o = VALUES{1, 2, 3, 4, 5, 6}, .dQ = VALUES{0, 0, 0, 0, 0, 0}, .dK = VALUES{0, 0},
     .dV = VALUES{9, 12}, .tolerance = 1e-5},
    {"30a: the same, causal", "flash-attention#443", 1, 3, 1, 2, 0.7, MASK_CAUSAL, .q = VALUES{1, 2, 3, -1, 0.5, 0},
     .k = VALUES{2, 1}, .v = VALUES{5, -7}, .d_o = VALUES{1, 2, 3, 4, 5, 6}, .dQ = VALUES{0, 0, 0, 0, 0, 0}, .dK = VALUES{0, 0},
     .dV = VALUES{5, 6}, .tolerance = 1e-5},
    {"30b: logits -120, a padded key scored 0 would overflow", "pytorch#196678", 1, 3, 3, 1, 1, MASK_NONE, .q = VALUES{1, 1, 1},
     .k = VALUES{-120, -120, -120}, .v = VALUES{1, 2, 3}, .d_o = VALUES{1, 1, 1}, .O = VALUES{2, 2, 2},
     .L = VALUES{-118.901388, -118.901388, -118.901388}, .dQ = VALUES{0, 0, 0}, .dK = VALUES{-1, 0, 1}, .dV = VALUES{1, 1, 1},
     .tolerance = 1e-4},
    {"30b: five keys", "trl#7181", 1, 5, 5, 1, 1, MASK_NONE, .q = VALUES{1, 1, 1, 1, 1},
     .k = VALUES{-120, -120, -120, -120, -120}, .v = VALUES{1, 2, 3, 4, 5}, .d_o = VALUES{1, 1, 1, 1, 1},
     .O = VALUES{3, 3, 3, 3, 3}, .dQ = VALUES{0, 0, 0, 0, 0}, .dK = VALUES{-2, -1, 0, 1, 2}, .dV = VALUES{1, 1, 1, 1, 1},
     .tolerance = 1e-4},
    {"30b: logits +120", "cudnn-frontend#628", 1, 3, 3, 1, 1, MASK_NONE, .q = VALUES{1, 1, 1}, .k = VALUES{120, 120, 120},
     .v = VALUES{1, 2, 3}, .d_o = VALUES{1, 1, 1}, .O = VALUES{2, 2, 2}, .L = VALUES{121.098612, 121.098612, 121.098612},
     .dQ = VALUES{0, 0, 0}, .dK = VALUES{-1, 0, 1}, .dV = VALUES{1, 1, 1}, .tolerance = 1e-4},
    {"30b: five keys, logits +120", "cudnn-frontend#1072", 1, 5, 5, 1, 1, MASK_CAUSAL, .q = VALUES{1, 1, 1, 1, 1},
     .k = VALUES{120, 120, 120, 120, 120}, .v = VALUES{1, 2, 3, 4, 5}, .d_o = VALUES{1, 1, 1, 1, 1},
     .O = VALUES{1, 1.5, 2, 2.5, 3}, .dQ = VALUES{0, 0, 0, 0, 0}, .dK = VALUES{-1.358333, -0.075, 0.458333, 0.575, 0.4},
     .dV = VALUES{2.283333, 1.283333, 0.783333, 0.45, 0.2}, .tolerance = 1e-4},

    {"31b: the recomputed P is 1", "FastVideo#1730", 1, 1, 1, 1, 1, MASK_NONE, .q = VALUES{1}, .k = VALUES{100}, .v = VALUES{3},
     .d_o = VALUES{1}, .O = VALUES{3}, .L = VALUES{100}, .dQ = VALUES{0}, .dK = VALUES{0}, .dV = VALUES{1}, .exact = true},
};

/* ------------------------------------------------------------------------------------------------------------ running a case */

static BackwardInputs case_inputs(const FieldCase *c, Precision precision)
{
    AttentionShape s = attention_shape(c->Nq, c->d);
    s.heads = c->heads;
    s.seqlen_k = c->Nk;
    s.mask = c->mask;
    s.softmax_scale = c->scale;
    s.dtype = precision == PRECISION_F64 ? ELEMENT_F64 : ELEMENT_F32;
    s.dropout_source = c->keep != NULL ? DROPOUT_GIVEN : DROPOUT_NONE;
    s.dropout.p = c->keep != NULL ? 0.5 : 0;
    return (BackwardInputs){s, c->q, c->k, c->v, c->d_o, c->keep};
}

static void compare(Context *x, const AttentionRun *run, const Tensor *tensor, const double *want, double tolerance,
                    const char *what)
{
    for (uint64_t i = 0; i < tensor_elements(tensor); i++) {
        const double got = tensor_value(&run->machine, tensor, i);
        if (want != NULL) check_close(&x->test, got, want[i], tolerance, what);
        else check_true(&x->test, !isnan(got), what);
    }
}

static void compare_all(Context *x, const AttentionRun *run, const FieldCase *c, Precision precision, const char *what)
{
    const Attention *a = &run->attention;
    const double defined = precision == PRECISION_F64 ? 1e-12 : 1e-5, printed = precision == PRECISION_F64 ? 1e-6 : 1e-5;
    const double tolerance = c->exact ? 0 : c->tolerance != 0 ? c->tolerance : printed;
    BackwardError error;
    compare(x, run, a->O, c->O, tolerance, what);
    if (a->L != NULL) compare(x, run, a->L, c->L, tolerance, what);
    compare(x, run, a->dQ, c->dQ, tolerance, what);
    compare(x, run, a->dK, c->dK, tolerance, what);
    compare(x, run, a->dV, c->dV, tolerance, what);
    check_true(&x->test, oracle_compare_backward(a, &run->machine, &error), what);
    const double allowed = fmax(c->tolerance, defined * fmax(1, error.max_gradient));
    check_true(&x->test, fmax(error.max_abs_dQ, fmax(error.max_abs_dK, error.max_abs_dV)) <= allowed, what);
}

/* Case 11d: launching the backward again gives the same bits: nothing of the first run is added to. */
static void check_again(Context *x, AttentionRun *run, const char *what)
{
    const Tensor *const gradients[] = {run->attention.dQ, run->attention.dK, run->attention.dV};
    const size_t real = run->machine.math->real_bytes;
    void *before[3];
    for (int i = 0; i < 3; i++) {
        before[i] = alloc_array(&x->alloc, tensor_elements(gradients[i]), real, "the first gradients", run->machine.status);
        memcpy(before[i], gradients[i]->data, tensor_elements(gradients[i]) * real);
    }
    check_true(&x->test, attention_run_backward(run), what);
    for (int i = 0; i < 3; i++) {
        check_true(&x->test, memcmp(before[i], gradients[i]->data, tensor_elements(gradients[i]) * real) == 0, what);
        alloc_free(&x->alloc, before[i]);
    }
}

static void run_one(Context *x, const FieldCase *c, const BackwardWay *way, TileSize tile, Precision precision)
{
    Status status = {0};
    AttentionRun run;
    char what[200];
    const BackwardInputs inputs = case_inputs(c, precision);
    snprintf(what, sizeof what, "%s: %s, %s, tiles %ux%u", c->name, way->name, element_name(inputs.shape.dtype), tile.Br,
             tile.Bc);
    run_backward(&run, way, tile, (MachineConfig){.mode = MODE_NUMERIC, .poison = true}, &x->chip, &inputs, &x->alloc, &status);
    check_text(&x->test, status.text, "", what);
    if (status_ok(&status)) {
        compare_all(x, &run, c, precision, what);
        check_again(x, &run, what);
    }
    attention_run_free(&run);
}

static void check_table(Context *x)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (size_t w = 0; w < BACKWARD_WAYS; w++)
            for (size_t t = 0; t < TILES; t++) {
                run_one(x, &cases[i], &backward_ways[w], tiles[t], PRECISION_F64);
                run_one(x, &cases[i], &backward_ways[w], tiles[t], PRECISION_F32);
            }
}

/* Case 11a: batch 0 succeeds and counts nothing, computing or not. */
static void check_batch_zero(Context *x)
{
    for (size_t w = 0; w < BACKWARD_WAYS; w++)
        for (int mode = MODE_COUNT; mode <= MODE_NUMERIC; mode++) {
            Status status = {0};
            AttentionRun run;
            BackwardInputs inputs = {.shape = attention_shape(4, 2)};
            inputs.shape.batch = 0;
            run_backward(&run, &backward_ways[w], (TileSize){2, 2}, (MachineConfig){.mode = (Mode)mode}, &x->chip, &inputs,
                         &x->alloc, &status);
            check_text(&x->test, status.text, "", backward_ways[w].name);
            const Totals zero = {0};
            check_true(&x->test, memcmp(&run.totals, &zero, sizeof zero) == 0,
                       "11a: no sequence, no work (flash-attention#1159)");
            attention_run_free(&run);
        }
}

/* Case 13, backward: each query sees its own key only, and one row of Q, K, V or dO is not finite. Its own gradients are spoilt,
 * no others change. */
static void check_hidden_nan(Context *x)
{
    enum { N = 5, SPOILT = 2 };
    static const double values[] = {NAN, INFINITY};
    static const char *const input_names[] = {"Q", "K", "V", "dO"};
    for (size_t w = 0; w < BACKWARD_WAYS; w++)
        for (size_t t = 0; t < TILES; t++)
            for (int input = 0; input < 8; input++) {
                double rows[4][N] = {{1, -2, 3, 0.5, 2}, {0.25, 1, -1, 2, 1}, {3, 1, 4, 1, 5}, {1, 2, 3, 4, 5}};
                Status status = {0};
                AttentionRun clean, spoilt;
                BackwardInputs inputs = {attention_shape(N, 1), rows[0], rows[1], rows[2], rows[3], NULL};
                inputs.shape.window_left = inputs.shape.window_right = 0;
                inputs.shape.dtype = ELEMENT_F64;
                const MachineConfig config = {.mode = MODE_NUMERIC, .poison = true};
                run_backward(&clean, &backward_ways[w], tiles[t], config, &x->chip, &inputs, &x->alloc, &status);
                rows[input / 2][SPOILT] = values[input % 2];
                run_backward(&spoilt, &backward_ways[w], tiles[t], config, &x->chip, &inputs, &x->alloc, &status);
                check_text(&x->test, status.text, "", backward_ways[w].name);
                char what[160];
                snprintf(what, sizeof what, "13: %s, tiles %ux%u, %g in row 2 of %s (flashinfer#358)", backward_ways[w].name,
                         tiles[t].Br, tiles[t].Bc, values[input % 2], input_names[input / 2]);
                const Tensor *const got[] = {spoilt.attention.dQ, spoilt.attention.dK, spoilt.attention.dV};
                const Tensor *const want[] = {clean.attention.dQ, clean.attention.dK, clean.attention.dV};
                for (int i = 0; i < 3 * N; i++)
                    if (i % N != SPOILT)
                        check_close(&x->test, tensor_value(&spoilt.machine, got[i / N], (uint64_t)(i % N)),
                                    tensor_value(&clean.machine, want[i / N], (uint64_t)(i % N)), 0, what);
                attention_run_free(&clean);
                attention_run_free(&spoilt);
            }
}

/* --------------------------------------------------------------------------------------------- case 31: D and the sum of dS */

/* One query with scores ln 0.3 and ln 0.7, v = 1 and 1 + 2^-7, dO = 1: dK is dS. */
static void run_rounding_of_O(Context *x, AttentionRun *run, const BackwardWay *way, TileSize tile, ElementType type,
                              Status *status)
{
    static const double one[] = {1}, v[] = {1, 1.0078125};
    const double k[] = {log(0.3), log(0.7)};
    BackwardInputs inputs = {attention_shape(1, 1), one, k, v, one, NULL};
    inputs.shape.seqlen_k = 2;
    inputs.shape.softmax_scale = 1;
    inputs.shape.dtype = type;
    run_backward(run, way, tile, (MachineConfig){.mode = MODE_NUMERIC, .poison = true}, &x->chip, &inputs, &x->alloc, status);
}

/* 31a. In float64 and float32 dS sums to 0. With BF16 tensors O is rounded up to 1.0078125 = v_1 and D with it:
 * FlashAttention-2's dS_1 is 0, and the sum is off by the whole of dS_0. The error is the algorithm's and shows; standard
 * attention takes D from P and dP and has none. */
static void check_rounding_of_O(Context *x)
{
    static const ElementType types[] = {ELEMENT_F64, ELEMENT_F32, ELEMENT_BF16};
    for (size_t w = 0; w < BACKWARD_WAYS; w++)
        for (size_t t = 0; t < TILES; t++)
            for (size_t i = 0; i < 3; i++) {
                Status status = {0};
                AttentionRun run;
                char what[160];
                snprintf(what, sizeof what, "31a: %s, %s, tiles %ux%u (flash-attention#2322)", backward_ways[w].name,
                         element_name(types[i]), tiles[t].Br, tiles[t].Bc);
                run_rounding_of_O(x, &run, &backward_ways[w], tiles[t], types[i], &status);
                check_text(&x->test, status.text, "", what);
                const double O = tensor_value(&run.machine, run.attention.O, 0);
                const double dS[] = {tensor_value(&run.machine, run.attention.dK, 0),
                                     tensor_value(&run.machine, run.attention.dK, 1)};
                const bool rounded = types[i] == ELEMENT_BF16, by_O = rounded && w != WAY_STANDARD;
                check_close(&x->test, O, rounded ? 1.0078125 : 1.00546875, rounded ? 0 : 1e-6, what);
                check_close(&x->test, dS[0], by_O ? -0.00234375 : -0.001640625, rounded ? 2e-5 : 1e-6,
                            what); /* P_0 = 0.3003 from BF16 scores */
                check_close(&x->test, dS[1], by_O ? 0 : 0.001640625, by_O ? 0 : rounded ? 2e-5 : 1e-6, what);
                if (!rounded) check_true(&x->test, fabs(dS[0] + dS[1]) <= 1e-5 * (fabs(dS[0]) + fabs(dS[1])), what);
                attention_run_free(&run);
            }
}

/* 31: with one query, dO = 1 and d = 1, dV is the recomputed P: it sums to 1, and dS to 0. */
static void check_recomputed_rows(Context *x)
{
    for (size_t w = 0; w < BACKWARD_WAYS; w++)
        for (size_t t = 0; t < TILES; t++) {
            static const double one[] = {1};
            Status status = {0};
            AttentionRun run;
            BackwardInputs inputs = {.shape = attention_shape(1, 1), .q = one, .d_o = one};
            inputs.shape.seqlen_k = 37;
            inputs.shape.dtype = ELEMENT_F32;
            run_backward(&run, &backward_ways[w], tiles[t], (MachineConfig){.mode = MODE_NUMERIC, .poison = true}, &x->chip,
                         &inputs, &x->alloc, &status);
            check_text(&x->test, status.text, "", backward_ways[w].name);
            double sum_P = 0, sum_dS = 0, sum_abs = 0;
            for (uint64_t j = 0; j < 37; j++) {
                const double dS = tensor_value(&run.machine, run.attention.dK, j);
                sum_P += tensor_value(&run.machine, run.attention.dV, j);
                sum_dS += dS;
                sum_abs += fabs(dS);
            }
            check_close(&x->test, sum_P, 1, 1e-6, "31: sum of the recomputed P (ring-flash-attention#22)");
            check_true(&x->test, fabs(sum_dS) <= 1e-5 * sum_abs, "31: sum of dS (flash-attention#2151)");
            attention_run_free(&run);
        }
}

/* ----------------------------------------------------------------------------------------------------- case 32: the witness */

/* Three key blocks add a 1e8, a 1 and a -1e8 into dQ, in float32: with q = 0 every P is 1/3, v = 3, -6, 3 gives D = 0 and dS = 1,
 * -2, 1. */
static double witness(Context *x, const BackwardWay *way, uint64_t seed)
{
    static const double q[] = {0}, k[] = {1e8, -0.5, -1e8}, v[] = {3, -6, 3}, d_o[] = {1};
    Status status = {0};
    AttentionRun run;
    BackwardInputs inputs = {attention_shape(1, 1), q, k, v, d_o, NULL};
    inputs.shape.seqlen_k = 3;
    inputs.shape.softmax_scale = 1;
    inputs.shape.dtype = ELEMENT_F32;
    const MachineConfig config = {.mode = MODE_NUMERIC, .shuffle_seed = seed};
    run_backward(&run, way, (TileSize){1, 1}, config, &x->chip, &inputs, &x->alloc, &status);
    check_text(&x->test, status.text, "", way->name);
    const double dQ = tensor_value(&run.machine, run.attention.dQ, 0);
    attention_run_free(&run);
    return dQ;
}

/* dQ is 0 or 1 by the order of the key blocks; always the same where sums are not shared, or dQ stays on chip. */
static void check_witness(Context *x)
{
    for (size_t w = WAY_FA2; w < BACKWARD_WAYS; w++) {
        const bool shared = w == WAY_FA2 || w == WAY_FA2_DIRECT || w == WAY_FA3 || w == WAY_FA3_ONE_DQ || w == WAY_FA4;
        int zeros = 0, ones = 0, others = 0;
        for (uint64_t seed = 0; seed < 24; seed++) {
            const double dQ = witness(x, &backward_ways[w], seed);
            if (dQ == 0) zeros++;
            else if (fabs(dQ - 1) < 1e-5) ones++;
            else others++;
        }
        check_i64(&x->test, others, 0, "32: dQ is 0 or 1");
        check_true(&x->test, (zeros > 0 && ones > 0) == shared, backward_ways[w].name);
    }
}

int main(void)
{
    Context x = {0};
    Status status = {0};
    if (profile_load("unbounded", &x.alloc, &x.chip, &status)) {
        check_table(&x);
        check_batch_zero(&x);
        check_hidden_nan(&x);
        check_rounding_of_O(&x);
        check_recomputed_rows(&x);
        check_witness(&x);
    }
    check_text(&x.test, status.text, "", "profile unbounded");
    check_u64(&x.test, x.alloc.live_bytes, 0, "bytes still allocated at the end");
    return test_end(&x.test, "field_cases_backward");
}
