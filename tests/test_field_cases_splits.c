/* test_field_cases_splits.c - field cases 19, 20 and 23: keys in parts, each part by itself, the parts put together by their logsumexp.
 *
 * Every kernel that keeps L answers for each part, and decode's combine kernel merges what they answered, in both orders; and decode does all of it itself:
 *
 *     L = log sum_s e^(L_s),  O = sum_s e^(L_s - L) O_s;  a part with L_s = -inf has no weight, whatever its O_s is
 *
 * Expected: the same O and L in float64 for any number of parts, empty parts O = 0 and L = -inf, L in natural logarithm (case 20: in
 * base 2 the result would be 0.00374 and 0.1701), idle parts as many as the rule says.
 */
/* label: unit, property */
#include "test.h"

#include "algos/decode.h"
#include "algos/run.h"

#include "sim/checked.h"

#include <math.h>

typedef struct {
    Test test;
    Profile chip;
    Alloc alloc;
} Context;

typedef struct {
    double O, L;
} Part;

enum { MOST_PARTS = 40 };

static RunSetup decode_setup(const Context *x, uint32_t Bc)
{
    return (RunSetup){.algorithm = &algorithm_decode,
                      .profile = &x->chip,
                      .tiles = {2, Bc},
                      .config = {.mode = MODE_NUMERIC, .precision = PRECISION_F64, .poison = true}};
}

/* By the combine kernel alone. */
static Part merge(Context *x, const Part *parts, uint64_t count, MergeOrder order)
{
    Status status = {0};
    AttentionRun run;
    Part sum = {NAN, NAN};
    AttentionShape shape = attention_shape(1, 1);
    shape.dtype = ELEMENT_F64;
    const RunSetup setup = decode_setup(x, 1);
    bool ok = attention_run_prepare(&run, &setup, &shape, &x->alloc, &status) && attention_run_set_decode(&run, (DecodeOptions){.merge = order});
    Machine *machine = &run.machine;
    Tensor *O = machine_tensor(machine, "O parts", ELEMENT_F64, 1, count, 1, 1), *L = machine_tensor(machine, "L parts", ELEMENT_F64, 1, 1, 1, count);
    Tensor *merged = machine_tensor(machine, "L", ELEMENT_F64, 1, 1, 1, 1);
    for (uint64_t i = 0; ok && i < count; i++) {
        tensor_set(machine, O, i, parts[i].O);
        tensor_set(machine, L, i, parts[i].L);
    }
    ok = ok && decode_combine(machine, &run.attention, O, L, run.attention.O, merged);
    check_text(&x->test, status.text, "", "the combine kernel");
    if (ok) sum = (Part){tensor_value(machine, run.attention.O, 0), tensor_value(machine, merged, 0)};
    attention_run_free(&run);
    return sum;
}

static double value_one(uint64_t key) { return (double)(key + 1); }                 /* v = 1 .. N */
static double value_after_3072(uint64_t key) { return key < 3072 ? 0 : 1; }
static double value_after_3(uint64_t key) { return key < 3 ? 0 : 1; }

/* Decoding: one query, keys first .. end - 1, all scores 0 or (spread) different. */
static Part attend(Context *x, const Algorithm *algorithm, DecodeOptions options, uint64_t first, uint64_t end, int64_t window, uint32_t Bc,
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
    if (algorithm == &algorithm_decode) ok = ok && attention_run_set_decode(&run, options);
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
    const Part whole = attend(x, algorithm, (DecodeOptions){0}, 0, c->keys, c->window, c->Bc, c->value, c->spread);
    Part parts[MOST_PARTS];
    uint64_t used = 0;
    char what[120];
    snprintf(what, sizeof what, "%s, case %s", algorithm->name, c->name);
    for (uint64_t s = 0; s < c->parts; s++) {
        const uint64_t begin = min_u64(s * each, c->keys), end = min_u64(begin + each, c->keys);
        const uint64_t first = min_u64(max_u64(begin, visible_from), end);
        parts[s] = attend(x, algorithm, (DecodeOptions){0}, first, end, -1, c->Bc, c->value, c->spread);
        used += end > begin;
        if (first == end) check_true(&x->test, parts[s].O == 0 && parts[s].L == -INFINITY, "an empty part: O = 0, L = -inf");
    }
    check_u64(&x->test, used, c->used, what);
    for (int order = 0; order < MERGE_ORDERS; order++) {
        const Part sum = merge(x, parts, c->parts, (MergeOrder)order);
        check_close(&x->test, sum.O, whole.O, 1e-13, what);
        check_close(&x->test, sum.L, whole.L, 1e-13, what);
    }
    if (!isnan(c->O)) check_close(&x->test, whole.O, c->O, 1e-13, what);
    if (!isnan(c->L)) check_close(&x->test, whole.L, c->L, 1e-13, what);
}

/* The same by decode alone; and what it says of its parts. */
static void check_decode(Context *x, const Case *c)
{
    const Part whole = attend(x, &algorithm_fa2, (DecodeOptions){0}, 0, c->keys, c->window, c->Bc, c->value, c->spread);
    for (int order = 0; order < MERGE_ORDERS; order++) {
        const DecodeOptions options = {.splits = (uint32_t)c->parts, .merge = (MergeOrder)order};
        const Part part = attend(x, &algorithm_decode, options, 0, c->keys, c->window, c->Bc, c->value, c->spread);
        check_close(&x->test, part.O, whole.O, 1e-13, c->name);
        check_close(&x->test, part.L, whole.L, 1e-13, c->name);
        const Attention a = {.shape = {.batch = 1, .heads = 1, .kv_heads = 1, .seqlen_q = 1, .seqlen_k = c->keys, .head_dim = 1},
                             .Br = 2, .Bc = c->Bc, .decode = options};
        const DecodePlan plan = decode_plan(&a, 132);
        check_u64(&x->test, plan.used, c->used, c->name);
        check_u64(&x->test, plan.blocks, c->parts, c->name);
    }
}

/* Case 19: (a) no part has weight; (b) one has none, and NaN for numbers, first or last or between. */
static void check_weightless(Context *x)
{
    const Part none = {0, -INFINITY}, some = {5, 2}, unwritten = {NAN, -INFINITY};
    const Part lists[][3] = {{none, none, none}, {some, unwritten, unwritten}, {unwritten, some, unwritten}, {unwritten, unwritten, some}};
    for (int order = 0; order < MERGE_ORDERS; order++)
        for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
            const Part sum = merge(x, lists[i], 3, (MergeOrder)order);
            check_true(&x->test, i == 0 ? sum.O == 0 && sum.L == -INFINITY : sum.O == 5 && sum.L == 2, "19a, 19b: parts without weight");
        }
    const Part seen = {NAN, 1}, lost[2] = {some, seen};
    check_true(&x->test, isnan(merge(x, lost, 2, MERGE_SEQUENTIAL).O) && isnan(merge(x, lost, 2, MERGE_TREE).O), "a NaN with weight stays one");
}

int main(void)
{
    Context x = {0};
    Status status = {0};
    if (profile_load("unbounded", &x.alloc, &x.chip, &status)) {
        static const Algorithm *const kernels[] = {&algorithm_fa2, &algorithm_fa3, &algorithm_fa4};
        for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++)
            for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) check_case(&x, kernels[k], &cases[i]);
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) check_decode(&x, &cases[i]);
        check_weightless(&x);
    }
    check_text(&x.test, status.text, "", "profile unbounded");
    check_u64(&x.test, x.alloc.live_bytes, 0, "memory left at the end");
    return test_end(&x.test, "field_cases_splits");
}
