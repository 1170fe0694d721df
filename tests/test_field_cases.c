/* test_field_cases.c - small inputs on which public attention code has been wrong, with the right answers.
 *
 * Each row of the table is a bug report in miniature: a mask aligned at the wrong corner, a frontier that crosses two key tiles,
 * a row that sees nothing, a NaN behind a mask, a running maximum that starts at the wrong value. The numbers were computed by
 * hand or with numpy; `source` names the public thread. Every case runs through every algorithm, float64 and float32, with nine
 * tile shapes, all tiles and outputs filled with NaN beforehand, and is compared with the printed number and with the definition,
 * written out once more below with the C library's exp. "Exact" answers must be bit-equal.
 *
 * How to read an input: with d = 1, q = 1 and scale 1 the score of key j is k_j; with q = 0 every visible key has the same
 * weight, so O is the mean of the visible v. Key blocks are walked left to right only, as the listed algorithms do. Lecture §8
 * (pitfalls).
 */
/* label: golden */
#include "test.h"

#include "support/count_case.h"
#include "support/golden_case.h"

#include "algos/oracle.h"
#include "sim/normal.h"

#include <math.h>

typedef struct {
    Test test;
    Profile chip;               /* unbounded */
    Alloc alloc;
} Context;

static const TileSize tiles[] = {{1, 1}, {2, 1}, {1, 2}, {2, 4}, {4, 2}, {4, 4}, {2, 3}, {16, 32}, {64, 64}};

/* Query heads share one K/V head; q, k, v: [head, row, d]. */
typedef struct {
    const char *name, *source;
    uint64_t Nq, Nk, d;
    const double *q;            /* NULL: all ones where k is given, else zero */
    const double *k;            /* NULL: zero (uniform weights) */
    const double *v;            /* NULL: v_j = j + 1 */
    const double *O, *L;        /* as printed, six decimals; NULL: not printed */
    double scale;               /* 0: one */
    MaskKind mask;
    bool windowed, exact;
    int64_t left, right;        /* the window, if windowed */
    double tolerance_L;         /* relative, float32; 0: as for O */
    uint64_t heads;             /* 0: one */
} FieldCase;

#define VALUES (const double[])
#define NOTHING -INFINITY

static const FieldCase cases[] = {
    {"1a: causal, more queries than keys", "flash-attention#1778", 4, 2, 1, .mask = MASK_CAUSAL, .O = VALUES{0, 0, 1, 1.5},
     .L = VALUES{NOTHING, NOTHING, 0, 0.693147}},
    {"1b: causal, more keys than queries", "mlx#2967", 2, 5, 1, .mask = MASK_CAUSAL, .O = VALUES{2.5, 3},
     .L = VALUES{1.386294, 1.609438}},
    {"1: the same, top-left", "pytorch#103082", 4, 2, 1, .mask = MASK_CAUSAL_TOP_LEFT, .O = VALUES{1, 1.5, 1.5, 1.5}},
    {"1: the same, top-left", "pytorch#103082", 2, 5, 1, .mask = MASK_CAUSAL_TOP_LEFT, .O = VALUES{1, 1.5}},

    {"3a: the frontier crosses two key tiles", "flash-attention#436", 4, 6, 1, .mask = MASK_CAUSAL, .O = VALUES{2, 2.5, 3, 3.5},
     .L = VALUES{1.098612, 1.386294, 1.609438, 1.791759}},
    {"3b: query tiles shorter than key tiles", "triton#8853", 4, 4, 1, .mask = MASK_CAUSAL, .O = VALUES{1, 1.5, 2, 2.5}},

    {"4a: no keys at all", "xformers#1042", 3, 0, 1, .O = VALUES{0, 0, 0}, .L = VALUES{NOTHING, NOTHING, NOTHING}, .exact = true},
    {"4b: rows without a visible key", "flash-attention#978", 3, 1, 1, .mask = MASK_CAUSAL, .v = VALUES{7}, .O = VALUES{0, 0, 7},
     .L = VALUES{NOTHING, NOTHING, 0}, .exact = true},
    {"4: every visible score is -inf: like no key", "onnxruntime#28904", 2, 2, 1, .k = VALUES{-INFINITY, -INFINITY},
     .O = VALUES{0, 0}, .L = VALUES{NOTHING, NOTHING}, .exact = true},

    {"5: window 2,0", "transformers#39408", 5, 5, 1, .windowed = true, .left = 2, .right = 0, .O = VALUES{1, 1.5, 2, 3, 4}},
    {"5: window -1,0", "flash-attention#1116", 5, 5, 1, .windowed = true, .left = -1, .right = 0, .O = VALUES{1, 1.5, 2, 2.5, 3}},
    {"5: window 0,0 is the diagonal", "flash-attention#2574", 3, 3, 1, .windowed = true, .left = 0, .right = 0,
     .O = VALUES{1, 2, 3}},
    {"5: window 1,1", "vllm#9679", 4, 4, 1, .windowed = true, .left = 1, .right = 1, .O = VALUES{1.5, 2, 3, 3.5}},
    {"5: window 4,0 reaches the first key", "libflash_attn#11", 5, 5, 1, .windowed = true, .left = 4, .right = 0,
     .O = VALUES{1, 1.5, 2, 2.5, 3}},
    {"5: window 9,0 is wider than the sequence", "libflash_attn#11", 5, 5, 1, .windowed = true, .left = 9, .right = 0,
     .O = VALUES{1, 1.5, 2, 2.5, 3}},
    {"5: window 1,2, more queries than keys", "axlearn#1009", 6, 3, 1, .windowed = true, .left = 1, .right = 2,
     .O = VALUES{0, 1, 1.5, 2, 2, 2.5}},

    {"9: scale of head dim 63", "tiny-flash-attention#12", 1, 2, 63, .scale = NAN, .L = VALUES{7.937611}},
    {"9: scale of head dim 80", "transformers#35984", 1, 2, 80, .scale = NAN, .L = VALUES{8.944402}},
    {"9: scale of head dim 1", "flash-attention#1347", 1, 2, 1, .scale = NAN, .L = VALUES{1.313262}},
    {"9: scale of head dim 3", "sglang#28637", 1, 2, 3, .scale = NAN, .L = VALUES{1.894953}},

    {"11b: no queries", "flash-attention#2421", 0, 3, 1, .O = VALUES{0}},

    {"13a: NaN behind the mask", "pytorch#101967", 2, 2, 1, .mask = MASK_CAUSAL, .k = VALUES{0, NAN}, .v = VALUES{4, NAN},
     .O = VALUES{4, NAN}, .L = VALUES{0, NAN}, .exact = true},
    {"13: only V is NaN behind the mask", "flashinfer#358", 2, 2, 1, .mask = MASK_CAUSAL, .k = VALUES{0, 0}, .v = VALUES{4, NAN},
     .O = VALUES{4, NAN}, .exact = true},
    {"13: infinite V behind the mask", "flash-attention#1395", 2, 2, 1, .mask = MASK_CAUSAL, .k = VALUES{0, 0},
     .v = VALUES{4, INFINITY}, .O = VALUES{4, INFINITY}, .exact = true},
    {"13: NaN before the window", "ffpa-attn#330", 3, 3, 1, .windowed = true, .left = 0, .right = 0,
     .k = VALUES{NAN, 0, INFINITY}, .v = VALUES{NAN, 5, NAN}, .O = VALUES{NAN, 5, NAN}, .L = VALUES{NAN, 0, NAN}, .exact = true},
    {"13: NaN query spoils its own row only", "flash-attention#1395", 3, 2, 1, .q = VALUES{0, NAN, 0}, .k = VALUES{0, 0},
     .v = VALUES{1, 3}, .O = VALUES{2, NAN, 2}, .L = VALUES{0.693147, NAN, 0.693147}},
    {"13b: NaN in the tail of a tile", "ffpa-attn#330", 3, 3, 1, .O = VALUES{2, 2, 2}, .L = VALUES{1.098612, 1.098612, 1.098612}},

    {"15a: all logits -200, causal", "flash-attention#2082", 4, 4, 1, .mask = MASK_CAUSAL, .k = VALUES{-200, -200, -200, -200},
     .O = VALUES{1, 1.5, 2, 2.5}, .L = VALUES{-200, -199.306853, -198.901388, -198.613706}},
    {"15a: all logits -200, window 1,0", "flash-attention#2082", 4, 4, 1, .windowed = true, .left = 1, .right = 0,
     .k = VALUES{-200, -200, -200, -200}, .O = VALUES{1, 1.5, 2.5, 3.5},
     .L = VALUES{-200, -199.306853, -199.306853, -199.306853}},
    {"15b: logits below a finite sentinel", "flashinfer#4267", 1, 2, 1, .k = VALUES{-1e5, -99999}, .v = VALUES{0, 1},
     .O = VALUES{0.731059}, .L = VALUES{-99998.6867}, .tolerance_L = 8e-8},
    {"15c: one key, logit 0", "INT-FlashAttention#2", 1, 1, 1, .k = VALUES{0}, .O = VALUES{1}, .L = VALUES{0}, .exact = true},

    {"16b: huge logits", "FasterTransformer#43", 1, 2, 1, .k = VALUES{1000, 999}, .v = VALUES{0, 1}, .O = VALUES{0.268941},
     .L = VALUES{1000.313262}, .tolerance_L = 1e-7},

    {"17a: negative scale", "pytorch#105202", 1, 2, 1, .scale = -1, .k = VALUES{1, 3}, .v = VALUES{0, 1}, .O = VALUES{0.119203},
     .L = VALUES{-0.873072}},
    {"17b: the maximum is over scaled logits", "pytorch#105202", 1, 2, 1, .scale = -1, .k = VALUES{-1000, 1000},
     .v = VALUES{0, 1}, .O = VALUES{0}, .L = VALUES{1000}, .exact = true},
    {"17c: the mask is written after scaling", "cudnn-frontend#804", 2, 2, 1, .scale = -1, .mask = MASK_CAUSAL,
     .k = VALUES{2, 100}, .v = VALUES{10, 20}, .O = VALUES{10, 10}, .L = VALUES{-2, -2}, .exact = true},

    {"25: two query heads, one K/V head, causal", "flash-attention#2528", 2, 2, 1, .heads = 2, .mask = MASK_CAUSAL,
     .v = VALUES{1, 3}, .O = VALUES{1, 2, 1, 2}},

    {"56: a student's worked example", "mylearningnoteforai.blogspot.com", 4, 4, 4, .scale = 0.5,
     .q = VALUES{1, 0, 2, 0, 0, 1, 1, 0, 1, 1, 0, 1, 0, 2, 1, 1}, .k = VALUES{2, 1, 0, 0, 0, 1, 1, 0, 1, 0, 1, 1, 0, 0, 2, 1},
     .v = VALUES{1, 0, 0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 2, 1, 0, 0},
     .O = VALUES{1.269873, 0.842940, 0, 0, 1, 0.811230, 0, 0, 1, 0.573067, 0, 0, 1, 0.811230, 0, 0},
     .L = VALUES{2.851129, 2.167224, 2.351129, 2.667224}},
    {"56: the same, causal", "mylearningnoteforai.blogspot.com", 4, 4, 4, .scale = 0.5, .mask = MASK_CAUSAL,
     .q = VALUES{1, 0, 2, 0, 0, 1, 1, 0, 1, 1, 0, 1, 0, 2, 1, 1}, .k = VALUES{2, 1, 0, 0, 0, 1, 1, 0, 1, 0, 1, 1, 0, 0, 2, 1},
     .v = VALUES{1, 0, 0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 2, 1, 0, 0},
     .O = VALUES{1, 0, 0, 0, 0.377541, 0.622459, 0, 0, 0.813676, 0.493520, 0, 0, 1, 0.811230, 0, 0},
     .L = VALUES{1, 1.474077, 2.180270, 2.667224}},
};

/* ------------------------------------------------------------------------------------------------------------ the definition */

static double score(const AttentionShape *s, const double *q, const double *k)
{
    double sum = 0;
    for (uint64_t c = 0; c < s->head_dim; c++) sum += q[c] * k[c];
    return s->softmax_scale * sum;
}

/* One row from the definition: two passes over the visible keys. k, v: of the row's K/V head. */
static void define_row(const AttentionShape *s, uint64_t i, const double *q, const double *k, const double *v, double *O,
                       double *L)
{
    double m = -INFINITY, l = 0;
    for (uint64_t j = 0; j < s->seqlen_k; j++)
        if (sees(s, i, j)) m = fmax(m, score(s, q, k + j * s->head_dim));
    for (uint64_t c = 0; c < s->head_dim; c++) O[c] = 0;
    for (uint64_t j = 0; j < s->seqlen_k; j++) {
        if (!sees(s, i, j)) continue;
        const double p = exp(score(s, q, k + j * s->head_dim) - (m == -INFINITY ? 0 : m));
        l += p;
        for (uint64_t c = 0; c < s->head_dim; c++) O[c] += p * v[j * s->head_dim + c];
    }
    for (uint64_t c = 0; c < s->head_dim && l != 0; c++) O[c] /= l;
    *L = m + log(l);            /* nothing visible: -inf - inf */
}

static void define(const AttentionShape *s, const double *q, const double *k, const double *v, double *O, double *L)
{
    for (uint64_t head = 0; head < s->batch * s->heads; head++) {
        const uint64_t kv = head / (s->heads / s->kv_heads) * s->seqlen_k * s->head_dim;
        for (uint64_t i = 0; i < s->seqlen_q; i++) {
            const uint64_t row = head * s->seqlen_q + i;
            define_row(s, i, q + row * s->head_dim, k + kv, v + kv, O + row * s->head_dim, L + row);
        }
    }
}

/* ------------------------------------------------------------------------------------------------------------ running a case */

typedef struct {
    const char *name;
    AttentionShape shape;
    const double *q, *k, *v;
    const double *printed_O, *printed_L;    /* NULL: none */
    const double *O, *L;                    /* by the definition */
    double tolerance_L;
    bool exact;
} Problem;

static void compare(Context *x, const AttentionRun *run, const Tensor *tensor, const double *want, double tolerance,
                    const char *what)
{
    for (uint64_t i = 0; want != NULL && i < tensor_elements(tensor); i++)
        check_close(&x->test, tensor_value(&run->machine, tensor, i), want[i], tolerance, what);
}

static void compare_all(Context *x, const AttentionRun *run, const Problem *p, Precision precision, const char *what)
{
    const double printed = p->exact ? 0 : 1e-6, defined = precision == PRECISION_F64 ? 1e-12 : 1e-5;
    const double printed_L = p->tolerance_L != 0 ? p->tolerance_L : printed;
    compare(x, run, run->attention.O, p->printed_O, printed, what);
    compare(x, run, run->attention.O, p->O, defined, what);
    if (run->attention.L == NULL) return;
    compare(x, run, run->attention.L, p->printed_L, printed_L, what);
    compare(x, run, run->attention.L, p->L, precision == PRECISION_F32 && p->tolerance_L != 0 ? p->tolerance_L : defined, what);
}

/* Launching the same problem again gives the same bits: nothing of the first run is added to. */
static void check_again(Context *x, AttentionRun *run, const char *what)
{
    const Tensor *O = run->attention.O;
    const uint64_t bytes = tensor_elements(O) * run->machine.math->real_bytes;
    void *before = alloc_array(&x->alloc, bytes, 1, "the first O", run->machine.status);
    memcpy(before, O->data, bytes);
    check_true(&x->test, run->setup.algorithm->forward(&run->machine, &run->attention), what);
    check_true(&x->test, memcmp(before, O->data, bytes) == 0, what);
    alloc_free(&x->alloc, before);
}

static void run_one(Context *x, const Problem *p, const Algorithm *algorithm, TileSize tile, Precision precision)
{
    Status status = {0};
    AttentionRun run;
    char what[200];
    AttentionShape shape = p->shape;
    shape.dtype = precision == PRECISION_F64 ? ELEMENT_F64 : ELEMENT_F32;
    snprintf(what, sizeof what, "%s: %s, %s, tiles %ux%u", p->name, algorithm->name, element_name(shape.dtype), tile.Br, tile.Bc);
    numeric_forward(&run, &(NumericSetup){algorithm, tile, precision, true}, &x->chip, &shape, p->q, p->k, p->v, &x->alloc,
                    &status);
    check_text(&x->test, status.text, "", what);
    if (status_ok(&status)) {
        compare_all(x, &run, p, precision, what);
        check_again(x, &run, what);
    }
    attention_run_free(&run);
}

/* The oracle is a program too. */
static void check_oracle(Context *x, const Problem *p)
{
    Status status = {0};
    AttentionRun run;
    AttentionShape shape = p->shape;
    shape.dtype = ELEMENT_F64;
    const uint64_t rows = shape.batch * shape.heads * shape.seqlen_q;
    double *O = alloc_array(&x->alloc, rows * shape.head_dim, sizeof *O, "O", &status),
           *L = alloc_array(&x->alloc, rows, sizeof *L, "L", &status);
    numeric_forward(&run, &(NumericSetup){&algorithm_fa2, {4, 4}, PRECISION_F64, true}, &x->chip, &shape, p->q, p->k, p->v,
                    &x->alloc, &status);
    check_true(&x->test, oracle_forward(&run.attention, &run.machine, O, L), status.text);
    for (uint64_t i = 0; i < rows * shape.head_dim; i++) {
        if (p->printed_O != NULL) check_close(&x->test, O[i], p->printed_O[i], p->exact ? 0 : 1e-6, p->name);
        check_close(&x->test, O[i], p->O[i], 1e-12, p->name);
    }
    for (uint64_t i = 0; i < rows; i++) {
        if (p->printed_L != NULL) check_close(&x->test, L[i], p->printed_L[i], p->exact ? 0 : 1e-6, p->name);
        check_close(&x->test, L[i], p->L[i], 1e-12, p->name);
    }
    alloc_free(&x->alloc, O);
    alloc_free(&x->alloc, L);
    attention_run_free(&run);
}

static void run_everywhere(Context *x, const Problem *p, const TileSize *sizes, size_t count)
{
    check_oracle(x, p);
    for (size_t a = 0; a < algorithm_count(); a++)
        for (size_t i = 0; i < count; i++) {
            run_one(x, p, algorithm_at(a), sizes[i], PRECISION_F64);
            run_one(x, p, algorithm_at(a), sizes[i], PRECISION_F32);
        }
}

enum { TILES = sizeof tiles / sizeof tiles[0], LARGEST = 64 * 64 };

static AttentionShape case_shape(const FieldCase *c)
{
    AttentionShape s = attention_shape(c->Nq, c->d);
    s.heads = c->heads != 0 ? c->heads : 1;
    s.seqlen_k = c->Nk;
    s.mask = c->mask;
    if (c->windowed) s.window_left = c->left, s.window_right = c->right;
    if (!isnan(c->scale)) s.softmax_scale = c->scale != 0 ? c->scale : 1;
    return s;
}

/* The given array, or `value` everywhere. */
static const double *array_or(const double *given, double value, double *buffer, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) buffer[i] = value;
    return given != NULL ? given : buffer;
}

static void check_table(Context *x)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const FieldCase *c = &cases[i];
        double q[LARGEST], k[LARGEST], v[LARGEST], O[LARGEST], L[LARGEST];
        Problem p = {.name = c->name, .shape = case_shape(c), .printed_O = c->O, .printed_L = c->L, .O = O, .L = L,
                     .tolerance_L = c->tolerance_L, .exact = c->exact};
        const bool default_scale = isnan(c->scale);         /* case 9: q and the first key are ones, the second zero; v = 1 */
        p.q = array_or(c->q, c->k != NULL || default_scale ? 1 : 0, q, p.shape.heads * c->Nq * c->d);
        p.k = array_or(c->k, 0, k, c->Nk * c->d);
        p.v = array_or(c->v, 1, v, c->Nk * c->d);
        for (uint64_t j = 0; j < c->d && default_scale; j++) k[j] = 1;
        for (uint64_t j = 0; j < c->Nk && !default_scale; j++) v[j] = (double)(j + 1);
        define(&p.shape, p.q, p.k, p.v, O, L);
        run_everywhere(x, &p, tiles, TILES);
    }
}

/* Case 16a, head dim 64: scores of 1.4e11, where one fused multiply-add leaves a residue of 7916 and e^7916 is infinite. */
static void check_huge_scores(Context *x)
{
    double q[64], O[64], L = 141767475200.0;                /* 64 * 133120^2 / 8: exact in float32 too */
    array_or(NULL, 133120, q, 64);
    array_or(NULL, 133120, O, 64);
    const Problem p = {.name = "16a: q = k = v = 133120 (pytorch#121558)",
                       .shape = attention_shape(1, 64),
                       .q = q,
                       .k = q,
                       .v = q,
                       .printed_O = O,
                       .printed_L = &L,
                       .O = O,
                       .L = &L,
                       .exact = true};
    run_everywhere(x, &p, tiles, TILES);
}

/* ------------------------------------------------------------------------------------------- case 7: results of any tile shape
 */

static void random_problem(Context *x, const AttentionShape *shape, const TileSize *sizes, size_t count, const char *name)
{
    double q[LARGEST], k[LARGEST], v[LARGEST], O[LARGEST], L[LARGEST];
    normal_fill_f64(q, shape->heads * shape->seqlen_q * shape->head_dim, 7, 0, 0);
    normal_fill_f64(k, shape->kv_heads * shape->seqlen_k * shape->head_dim, 7, 1, 0);
    normal_fill_f64(v, shape->kv_heads * shape->seqlen_k * shape->head_dim, 7, 2, 0);
    for (size_t i = 0; i < LARGEST; i++)
        q[i] = (float)q[i], k[i] = (float)k[i], v[i] = (float)v[i]; /* the same inputs in float32 */
    define(shape, q, k, v, O, L);
    const Problem p = {.name = name, .shape = *shape, .q = q, .k = k, .v = v, .O = O, .L = L};
    run_everywhere(x, &p, sizes, count);
}

static void check_tile_independence(Context *x)
{
    static const uint64_t lengths[][2] = {{1, 1}, {1, 20}, {5, 5}, {7, 13}, {33, 33}, {31, 32}, {13, 7}};
    static const TileSize sizes[] = {{1, 1}, {2, 3}, {4, 4}, {16, 32}, {64, 64}};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        for (int mask = MASK_NONE; mask <= MASK_CAUSAL; mask++) {
            AttentionShape shape = attention_shape(lengths[i][0], 3);
            shape.seqlen_k = lengths[i][1];
            shape.mask = (MaskKind)mask;
            shape.softmax_scale = 0.5;
            random_problem(x, &shape, sizes, sizeof sizes / sizeof sizes[0], "7: random, d = 3 (vllm#54035)");
        }
}

/* Cases 24 and 25: six query heads on two K/V heads, seven on one. */
static void check_groups(Context *x)
{
    static const uint64_t heads[][2] = {{6, 2}, {7, 1}};
    static const TileSize sizes[] = {{4, 2}, {4, 4}, {2, 3}};
    for (size_t i = 0; i < 2; i++) {
        AttentionShape shape = attention_shape(9, 2);
        shape.heads = heads[i][0];
        shape.kv_heads = heads[i][1];
        shape.mask = MASK_CAUSAL;
        random_problem(x, &shape, sizes, 3, "24, 25: grouped heads (flash-attention#2082)");
    }
}

/* Case 24: refused before anything is read or allocated. */
static void check_refused_groups(Context *x)
{
    static const uint64_t heads[][2] = {{3, 2}, {33, 2}, {2, 4}, {4, 0}};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        AttentionShape shape = attention_shape(4, 2);
        shape.heads = heads[i][0];
        shape.kv_heads = heads[i][1];
        Status status = {0};
        AttentionRun run;
        const RunSetup setup = {
            .algorithm = &algorithm_fa2, .profile = &x->chip, .tiles = {2, 2}, .config = {.mode = MODE_NUMERIC}};
        check_true(&x->test, !attention_run_prepare(&run, &setup, &shape, &x->alloc, &status),
                   "24: heads that do not divide are refused");
        check_u64(&x->test, status.code, STATUS_USAGE, "24: heads that do not divide (flash-linear-attention#1029)");
        check_u64(&x->test, run.machine.tensor_count, 0, "24: nothing was laid out");
        attention_run_free(&run);
    }
}

/* Case 5, the planner: window 2,0 on 5 x 5 with 1 x 1 tiles is 1 + 2 + 3 + 3 + 3 pairs, not 15. Standard attention computes
 * all 25. */
static void check_window_plan(Context *x)
{
    for (size_t a = 0; a < algorithm_count(); a++) {
        Status status = {0};
        AttentionRun run;
        AttentionShape shape = attention_shape(5, 1);
        shape.window_left = 2;
        shape.window_right = 0;
        attention_count(&run, algorithm_at(a), &shape, (TileSize){1, 1}, L2_NONE, &x->chip, &x->alloc, &status);
        const uint64_t pairs = algorithm_at(a) == &algorithm_standard ? 25 : 12;
        check_text(&x->test, status.text, "", algorithm_at(a)->name);
        check_u64(&x->test, run.totals.matmul_flops, 4 * pairs, "5: windowed tile pairs x 4 FLOP");
        check_u64(&x->test, run.totals.matmul_flops_exact_mask, 4 * 12, "5: visible pairs x 4 FLOP");
        check_u64(&x->test, run.closed_form.tile_pairs, pairs, "5: tile pairs by formula");
        attention_run_free(&run);
    }
}

/* Case 11a: batch 0 succeeds and counts nothing. */
static void check_batch_zero(Context *x)
{
    for (size_t a = 0; a < algorithm_count(); a++)
        for (int mode = MODE_COUNT; mode <= MODE_NUMERIC; mode++) {
            Status status = {0};
            AttentionRun run;
            AttentionShape shape = attention_shape(4, 2);
            shape.batch = 0;
            const RunSetup setup = {
                .algorithm = algorithm_at(a), .profile = &x->chip, .tiles = {2, 2}, .config = {.mode = (Mode)mode}};
            check_true(&x->test, attention_run_prepare(&run, &setup, &shape, &x->alloc, &status) && attention_run_forward(&run),
                       status.text);
            Totals zero = {0};
            zero.sram_peak_bytes = run.totals.sram_peak_bytes;              /* nothing ran: */
            zero.register_peak_bytes = run.totals.register_peak_bytes;
            check_u64(&x->test, run.totals.sram_peak_bytes + run.totals.register_peak_bytes, 0,
                      "11a: no block, no on-chip memory");
            check_true(&x->test, memcmp(&run.totals, &zero, sizeof zero) == 0,
                       "11a: no sequence, no work (flash-attention#1159)");
            attention_run_free(&run);
        }
}

/* -------------------------------------------------------------------------------------- case 14: comparisons that see a NaN */

static void check_compare_routines(Context *x)
{
    static const struct {
        double got, want;
        bool close;
    } pairs[] = {{NAN, 1, false}, {1, NAN, false}, {NAN, NAN, true}, {INFINITY, INFINITY, true}, {-INFINITY, -INFINITY, true},
                 {INFINITY, -INFINITY, false}, {INFINITY, 1, false}, {1, INFINITY, false}, {1, 1 + 1e-9, true}, {1, 1.1, false}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        check_true(&x->test, close_enough(pairs[i].got, pairs[i].want, 1e-6) == pairs[i].close, "14: close_enough");
}

/* O is overwritten by `got` where the oracle says `want` (v of the only key). */
static void check_oracle_compare(Context *x)
{
    static const struct {
        double got, want, max_abs, max;
    } rows[] = {{1, 1, 0, 1},
                {1.5, 1, 0.5, 1},
                {NAN, 1, INFINITY, 1},
                {1, NAN, INFINITY, NAN},
                {NAN, NAN, 0, NAN},
                {INFINITY, 1, INFINITY, 1},
                {-INFINITY, 1, INFINITY, 1},
                {INFINITY, INFINITY, 0, INFINITY},
                {-INFINITY, -INFINITY, 0, INFINITY},
                {-INFINITY, INFINITY, INFINITY, INFINITY}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        Status status = {0};
        AttentionRun run;
        ForwardError error;
        AttentionShape shape = attention_shape(2, 1);
        shape.dtype = ELEMENT_F64;
        shape.window_left = shape.window_right = 0;
        const double zero[2] = {0, 0}, v[2] = {rows[i].want, 0.25};     /* a finite row follows the special one */
        numeric_forward(&run, &(NumericSetup){&algorithm_fa2, {2, 2}, PRECISION_F64, true}, &x->chip, &shape, zero, zero, v,
                        &x->alloc, &status);
        tensor_set(&run.machine, run.attention.O, 0, rows[i].got);
        check_true(&x->test, oracle_compare(&run.attention, &run.machine, &error), status.text);
        check_close(&x->test, error.max_abs_O, rows[i].max_abs, 1e-15, "14: max |O - oracle|");
        check_close(&x->test, error.max_O, rows[i].max, 1e-15, "14: max |oracle| is NaN when one is");
        check_close(&x->test, error.max_abs_L, 0, 1e-15, "14: max |L - oracle|");
        tensor_set(&run.machine, run.attention.L, 1, NAN);
        check_true(&x->test, oracle_compare(&run.attention, &run.machine, &error) && error.max_abs_L == INFINITY,
                   "14: a NaN in L is seen");
        attention_run_free(&run);
    }
}

/* ------------------------------------------------------------------------------------------------ case 46: counts past 32 bits
 */

static void check_wide_products(Context *x)
{
    static const struct {
        uint64_t factors[4], product;
    } rows[] = {{{46340, 46340, 1, 1}, 2147395600},
                {{46341, 46341, 1, 1}, 2147488281},             /* past 2^31 - 1 */
                {{65536, 65536, 1, 1}, 4294967296},             /* 0 in 32 bits */
                {{8, 28, 4096, 4096}, 3758096384},
                {{225304, 9728, 1, 1}, 2191757312},
                {{29, 4096, 64, 512}, 3892314112}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        Status status = {0};
        Alloc none = {.limit_bytes = 1};
        Machine machine;
        const uint64_t *f = rows[i].factors;
        const uint64_t product =
            checked_mul(checked_mul(f[0], f[1], "p", &status), checked_mul(f[2], f[3], "p", &status), "p", &status);
        check_u64(&x->test, product, rows[i].product, "46: checked_mul");
        machine_init(&machine, &x->chip, (MachineConfig){.mode = MODE_COUNT}, &none, &status);
        const Tensor *tensor = machine_tensor(&machine, "T", ELEMENT_F32, f[2], f[3], f[0], f[1]);
        check_u64(&x->test, tensor_elements(tensor), rows[i].product, "46: elements of a tensor");
        const Tensor *next = machine_tensor(&machine, "U", ELEMENT_F32, 1, 1, 1, 1);
        check_true(&x->test, next->address >= tensor->address + 4 * rows[i].product, "46: tensors do not overlap");
        check_text(&x->test, status.text, "", "46: counting needs no memory");
        machine_free(&machine);
    }
}

/* Where loads read from, seen by an arithmetic that looks at the address, touches nothing and leaves the offset in the tile. */
static char start_of_memory[1];

typedef struct {
    uint64_t offsets[4];
    size_t count;
} Offsets;

static bool load_offset(Matrix tile, const void *memory, uint64_t row_stride)
{
    (void)row_stride;
    *(double *)tile.data = (double)((uintptr_t)memory - (uintptr_t)start_of_memory);
    return false;
}

static void keep_offset(void *observer, const Event *event)
{
    Offsets *seen = observer;
    seen->offsets[seen->count++ % 4] = (uint64_t)*(const double *)event->written[0]->data;
}

static void first_and_last_row(Block *b, const void *arguments, uint64_t index)
{
    const Tensor *tensor = arguments;
    load(stream(b, "s", 1), register_tile(b, "T", ELEMENT_F64, 1, 1), tensor, index == 0 ? 0 : tensor->rows - 1);
}

/* (b H + h) 65536 65536: heads 0 and 1 start at different addresses, though both offsets are 0 in 32 bits. */
static void check_wide_addresses(Context *x)
{
    if (UINTPTR_MAX <= UINT32_MAX) return;
    const uint64_t rows = UINT64_C(65536) * 65536, want[4] = {0, 8 * (rows - 1), 8 * rows, 8 * (2 * rows - 1)};
    Status status = {0};
    Machine machine;
    Offsets seen = {{0}, 0};
    TileMath math = *tile_math_select(PRECISION_F64);
    math.load = load_offset;
    const MachineConfig config = {
        .mode = MODE_NUMERIC, .precision = PRECISION_F64, .math = &math, .observe = keep_offset, .observer = &seen};
    machine_init(&machine, &x->chip, config, &x->alloc, &status);
    machine.tensors[machine.tensor_count++] =
        (Tensor){.name = "T", .type = ELEMENT_F64, .batch = 1, .heads = 2, .rows = rows, .cols = 1, .data = start_of_memory};
    const Kernel kernel = {.name = "addresses", .threads = 32, .registers_per_thread = 32, .run = first_and_last_row};
    check_true(&x->test, launch(&machine, &kernel, (Grid){2, 2, 1}, &machine.tensors[0]), status.text);
    for (int i = 0; i < 4; i++) check_u64(&x->test, seen.offsets[i], want[i], "46: bytes from the start of the tensor");
    machine.tensors[0].data = NULL;                         /* nothing to free */
    machine_free(&machine);
}

/* FLOP and bytes by formula: positive, and four times as many per doubling (within 1 %: K and V grow linearly). */
static void check_wide_forms(Context *x)
{
    for (size_t a = 0; a < algorithm_count(); a++) {
        ClosedForm before = {0};
        for (uint64_t N = UINT64_C(1) << 17; N <= UINT64_C(1) << 20; N *= 2) {
            Status status = {0};
            ClosedForm form;
            const CountedProblem p = {.batch = 1,
                                      .heads = 1,
                                      .kv_heads = 1,
                                      .Nq = N,
                                      .Nk = N,
                                      .d = 128,
                                      .band_low = -(int64_t)N,
                                      .band_high = (int64_t)N,
                                      .Br = 128,
                                      .Bc = 128,
                                      .element_bytes = 2,
                                      .statistic_bytes = 4,
                                      .softmax_cols = N};
            check_true(&x->test, algorithm_at(a)->closed_form(&p, &form, &status), status.text);
            check_u64(&x->test, form.matmul_flops, 4 * N * N * 128, "46: 4 N^2 d");
            if (before.matmul_flops > 0)
                check_close(&x->test, (double)form.hbm_read_bytes / (double)before.hbm_read_bytes, 4, 0.01 / 4,
                            "46: bytes of 2N over N");
            before = form;
        }
    }
}

int main(void)
{
    Context x = {0};
    Status status = {0};
    if (profile_load("unbounded", &x.alloc, &x.chip, &status)) {
        check_table(&x);
        check_huge_scores(&x);
        check_tile_independence(&x);
        check_groups(&x);
        check_refused_groups(&x);
        check_window_plan(&x);
        check_batch_zero(&x);
        check_compare_routines(&x);
        check_oracle_compare(&x);
        check_wide_products(&x);
        check_wide_addresses(&x);
        check_wide_forms(&x);
    }
    check_text(&x.test, status.text, "", "profile unbounded");
    check_u64(&x.test, x.alloc.live_bytes, 0, "bytes still allocated at the end");
    return test_end(&x.test, "field_cases");
}
