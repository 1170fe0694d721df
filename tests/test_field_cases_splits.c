/* test_field_cases_splits.c - field cases 19, 20 and 23: keys in parts, each part by itself, the parts put together by their logsumexp.
 *
 * No kernel combines parts yet; here every kernel that keeps L answers for each part, and what it answers must be enough:
 *
 *     L = log sum_s e^(L_s),  O = sum_s e^(L_s - L) O_s;  a part with L_s = -inf has no weight, whatever its O_s is
 *
 * Expected: the same O and L in float64 for any number of parts, empty parts O = 0 and L = -inf, L in natural logarithm (case 20: in
 * base 2 the result would be 0.00374 and 0.1701), idle parts as many as the rule says.
 */
/* label: unit, property */
#include "test.h"

#include "algos/run.h"

#include "sim/checked.h"
#include "sim/math_functions.h"

#include <math.h>

typedef struct {
    Test test;
    Profile chip;
    Alloc alloc;
} Context;

typedef struct {
    double O, L;
} Part;

static Part merge(Part a, Part b)
{
    if (b.L == -INFINITY) return a;
    if (a.L == -INFINITY) return b;
    const double m = a.L > b.L ? a.L : b.L, x = exp_f64(a.L - m), y = exp_f64(b.L - m);
    return (Part){(x * a.O + y * b.O) / (x + y), m + log_f64(x + y)};
}

static double value_one(uint64_t key) { return (double)(key + 1); }                 /* v = 1 .. N */
static double value_after_3072(uint64_t key) { return key < 3072 ? 0 : 1; }
static double value_after_3(uint64_t key) { return key < 3 ? 0 : 1; }

/* Decoding: one query, keys first .. end - 1, all scores 0 or (spread) different. */
static Part attend(Context *x, const Algorithm *algorithm, uint64_t first, uint64_t end, int64_t window, uint32_t Bc,
                   double (*value)(uint64_t key), bool spread)
{
    Status status = {0};
    AttentionRun run;
    Part part = {NAN, NAN};
    AttentionShape shape = attention_shape(1, 1);
    shape.seqlen_k = end - first;
    shape.dtype = ELEMENT_F64;
    shape.window_left = window;
    if (window >= 0) shape.window_right = 0;
    const RunSetup setup = {.algorithm = algorithm,
                            .profile = &x->chip,
                            .tiles = {2, Bc},
                            .config = {.mode = MODE_NUMERIC, .precision = PRECISION_F64, .poison = true}};
    bool ok = attention_run_prepare(&run, &setup, &shape, &x->alloc, &status);
    if (ok) tensor_set(&run.machine, run.attention.Q, 0, 1);
    for (uint64_t key = first; ok && key < end; key++) {
        tensor_set(&run.machine, run.attention.K, key - first, spread ? (double)(key % 7) * 3 - 8 : 0);
        tensor_set(&run.machine, run.attention.V, key - first, value(key));
    }
    ok = ok && attention_run_forward(&run);
    check_text(&x->test, status.text, "", algorithm->name);
    if (ok) part = (Part){tensor_value(&run.machine, run.attention.O, 0), tensor_value(&run.machine, run.attention.L, 0)};
    attention_run_free(&run);
    return part;
}

typedef struct {
    const char *name;
    uint64_t keys;
    uint32_t Bc;
    int64_t window;                 /* keys to the left of the last that are visible; -1: all */
    double (*value)(uint64_t key);
    bool spread;
    uint64_t parts, used;           /* asked for; those that get key blocks */
    double O, L;                    /* NAN: as with one part */
} Case;

static const Case cases[] = {
    {"19c: more parts than keys", 3, 1, -1, value_one, true, 8, 3, NAN, NAN},
    {"19d: a window shorter than a part", 100, 16, 2, value_one, false, 8, 7, 99, 1.0986122886681098},
    {"20: 3072 and 64 keys", 3136, 64, -1, value_after_3072, false, 2, 2, 64.0 / 3136, 8.0507033814702993},
    {"20: 3 and 1 keys", 4, 1, -1, value_after_3, false, 4, 4, 0.25, 1.3862943611198906},
    {"23: 64 key blocks, 12 parts", 64, 1, -1, value_one, true, 12, 11, NAN, NAN},
    {"23: 64 key blocks, 20 parts", 64, 1, -1, value_one, true, 20, 16, NAN, NAN},
    {"23: 64 key blocks, 33 parts", 64, 1, -1, value_one, true, 33, 32, NAN, NAN},
    {"23: 5 key blocks, 4 parts", 5, 1, -1, value_one, true, 4, 3, NAN, NAN},
    {"23: 5 key blocks, 8 parts", 5, 1, -1, value_one, true, 8, 5, NAN, NAN},
    {"23: 130 keys in blocks of 128", 130, 128, -1, value_one, true, 4, 2, NAN, NAN},
};

/* Keys that the window hides are left out of a part: its own last key is not the query's. */
static void check_case(Context *x, const Algorithm *algorithm, const Case *c)
{
    const uint64_t blocks = ceil_div(c->keys, c->Bc), each = ceil_div(blocks, c->parts) * c->Bc;
    const uint64_t visible_from = c->window >= 0 && c->keys > (uint64_t)c->window ? c->keys - (uint64_t)c->window - 1 : 0;
    const Part whole = attend(x, algorithm, 0, c->keys, c->window, c->Bc, c->value, c->spread);
    Part sum = {0, -INFINITY};
    uint64_t used = 0;
    char what[120];
    snprintf(what, sizeof what, "%s, case %s", algorithm->name, c->name);
    for (uint64_t s = 0; s < c->parts; s++) {
        const uint64_t begin = min_u64(s * each, c->keys), end = min_u64(begin + each, c->keys);
        const uint64_t first = min_u64(max_u64(begin, visible_from), end);
        const Part part = attend(x, algorithm, first, end, -1, c->Bc, c->value, c->spread);
        used += end > begin;
        if (first == end) check_true(&x->test, part.O == 0 && part.L == -INFINITY, "an empty part: O = 0, L = -inf");
        sum = merge(sum, part);
    }
    check_u64(&x->test, used, c->used, what);
    check_close(&x->test, sum.O, whole.O, 1e-13, what);
    check_close(&x->test, sum.L, whole.L, 1e-13, what);
    if (!isnan(c->O)) check_close(&x->test, whole.O, c->O, 1e-13, what);
    if (!isnan(c->L)) check_close(&x->test, whole.L, c->L, 1e-13, what);
}

int main(void)
{
    Context x = {0};
    Status status = {0};
    if (profile_load("unbounded", &x.alloc, &x.chip, &status)) {
        static const Algorithm *const kernels[] = {&algorithm_fa2, &algorithm_fa3, &algorithm_fa4};
        for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++)
            for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) check_case(&x, kernels[k], &cases[i]);
    }
    check_text(&x.test, status.text, "", "profile unbounded");
    /* 19a, 19b: no part has weight; one has no weight and NaN for numbers */
    const Part none = {0, -INFINITY}, some = {5, 2}, unwritten = {NAN, -INFINITY};
    check_true(&x.test, merge(none, none).O == 0 && merge(none, none).L == -INFINITY, "19a: nothing and nothing");
    check_true(&x.test, merge(some, unwritten).O == 5 && merge(some, unwritten).L == 2, "19b: NaN without weight, right");
    check_true(&x.test, merge(unwritten, some).O == 5 && merge(unwritten, some).L == 2, "19b: NaN without weight, left");
    check_u64(&x.test, x.alloc.live_bytes, 0, "memory left at the end");
    return test_end(&x.test, "field_cases_splits");
}
