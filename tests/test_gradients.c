/* test_gradients.c - gradients against central differences, and what they do not depend on.
 *
 *   differences     every element of dQ, dK, dV against (loss(x + h) - loss(x - h)) / 2h, loss = sum of dO o O with O from the
 *                   definition written out below: random shapes, masks, windows, groups, scales, dropout from a seed; every
 *                   backward pass; float64. h = 1e-5: an error of 1e-10 from the third derivative and as much from rounding;
 *                   allowed 1e-7.
 *   memory          the same bits with tiles and tensors filled with NaN beforehand, and when run again
 *   order           key blocks (query blocks) in any order: what is added at L2 differs in the last bits, what stays on chip in
 *                   none, and a deterministic pass in none (field case 32)
 *   types           every gradient is a number of its tensor's type
 *
 * Lecture §2.6, §2.8.
 */
/* label: property */
#include "test.h"

#include "support/backward_case.h"
#include "support/count_case.h"

#include "sim/normal.h"

#include <math.h>

typedef struct {
    Test test;
    Profile chip;               /* unbounded */
    Alloc alloc;
} Context;

/* ------------------------------------------------------------------------------------------------------------ the definition */

enum { LARGEST = 512 };

typedef struct {
    AttentionShape shape;
    double q[LARGEST], k[LARGEST], v[LARGEST], d_o[LARGEST];
} Problem;

static double dot(const double *a, const double *b, uint64_t d)
{
    double sum = 0;
    for (uint64_t c = 0; c < d; c++) sum += a[c] * b[c];
    return sum;
}

/* dO_i . O_i: sum over visible keys of P_ij Z_ij (dO_i . v_j), for query row i of one head (counted over the batch). */
static double row_loss(const Problem *p, uint64_t head, uint64_t i)
{
    const AttentionShape *s = &p->shape;
    const uint64_t d = s->head_dim, kv = head / (s->heads / s->kv_heads) * s->seqlen_k * d, row = (head * s->seqlen_q + i) * d;
    double l = 0, sum = 0;
    for (uint64_t j = 0; j < s->seqlen_k; j++) {
        if (!sees(s, i, j)) continue;
        const double e = exp(s->softmax_scale * dot(p->q + row, p->k + kv + j * d, d));     /* small scores: no maximum needed */
        const bool kept = s->dropout_source == DROPOUT_NONE || dropout_keeps(&s->dropout, head, i, j);
        l += e;
        if (kept) sum += e * dot(p->d_o + row, p->v + kv + j * d, d);
    }
    if (s->dropout_source != DROPOUT_NONE) sum /= 1 - s->dropout.p;
    return l == 0 ? 0 : sum / l;
}

static double loss(const Problem *p)
{
    double sum = 0;
    for (uint64_t head = 0; head < p->shape.batch * p->shape.heads; head++)
        for (uint64_t i = 0; i < p->shape.seqlen_q; i++) sum += row_loss(p, head, i);
    return sum;
}

static void differences(Problem *p, double *inputs, uint64_t count, double *gradient)
{
    const double h = 1e-5;
    for (uint64_t i = 0; i < count; i++) {
        const double x = inputs[i];
        inputs[i] = x + h;
        const double above = loss(p);
        inputs[i] = x - h;
        gradient[i] = (above - loss(p)) / (2 * h);
        inputs[i] = x;
    }
}

static void random_problem(Problem *p, uint64_t *random)
{
    AttentionShape *s = &p->shape;
    *s = attention_shape(random_between(random, 1, 6), 1);
    s->head_dim = random_between(random, 1, 4);
    s->seqlen_k = random_between(random, 1, 6);
    s->batch = random_between(random, 1, 2);
    s->kv_heads = random_between(random, 1, 2);
    s->heads = s->kv_heads * random_between(random, 1, 3);
    s->mask = (MaskKind)random_between(random, 0, 2);
    s->window_left = (int64_t)random_between(random, 0, 6) - 1;
    s->window_right = (int64_t)random_between(random, 0, 6) - 1;
    if (random_between(random, 0, 1)) s->window_left = s->window_right = -1;
    s->softmax_scale = (double)random_between(random, 1, 8) / 4 - 1;
    s->dtype = ELEMENT_F64;
    s->dropout_source = random_between(random, 0, 1) ? DROPOUT_SEED : DROPOUT_NONE;
    s->dropout = (Dropout){.p = 0.3, .seed = random_between(random, 0, 1000)};
    s->dropout.offset = (uint32_t)random_between(random, 0, 5);
    double *const arrays[] = {p->q, p->k, p->v, p->d_o};
    for (uint64_t i = 0; i < 4; i++) normal_fill_f64(arrays[i], LARGEST, random_between(random, 0, 1000), i, 0);
}

static void compare(Context *x, const AttentionRun *run, const Tensor *tensor, const double *want, const char *what)
{
    for (uint64_t i = 0; i < tensor_elements(tensor); i++)
        check_close(&x->test, tensor_value(&run->machine, tensor, i), want[i], 1e-7, what);
}

static void check_differences(Context *x, int cases)
{
    uint64_t random = 1;
    for (int n = 0; n < cases; n++) {
        Problem p;
        double dQ[LARGEST], dK[LARGEST], dV[LARGEST];
        random_problem(&p, &random);
        const AttentionShape *s = &p.shape;
        const uint64_t queries = s->batch * s->heads * s->seqlen_q * s->head_dim,
                       keys = s->batch * s->kv_heads * s->seqlen_k * s->head_dim;
        differences(&p, p.q, queries, dQ);
        differences(&p, p.k, keys, dK);
        differences(&p, p.v, keys, dV);
        for (size_t w = 0; w < BACKWARD_WAYS; w++) {
            Status status = {0};
            AttentionRun run;
            char what[300], shape[256];
            TileSize tiles = {.Br = (uint32_t)random_between(&random, 1, 7)};
            tiles.Bc = (uint32_t)random_between(&random, 1, 7);
            const BackwardInputs inputs = {*s, p.q, p.k, p.v, p.d_o, NULL};
            count_case_name(&(CountCase){backward_ways[w].algorithm, *s, tiles, L2_NONE}, shape, sizeof shape);
            snprintf(what, sizeof what, "%s, %s%s", shape, backward_ways[w].name,
                     s->dropout_source == DROPOUT_NONE ? "" : ", dropout");
            run_backward(&run, &backward_ways[w], tiles, (MachineConfig){.mode = MODE_NUMERIC, .poison = true}, &x->chip, &inputs,
                         &x->alloc, &status);
            check_text(&x->test, status.text, "", what);
            if (status_ok(&status)) {
                compare(x, &run, run.attention.dQ, dQ, what);
                compare(x, &run, run.attention.dK, dK, what);
                compare(x, &run, run.attention.dV, dV, what);
            }
            attention_run_free(&run);
        }
    }
}

/* ------------------------------------------------------------------------------------------------------- memory and order */

enum { GRADIENTS = 3 };
static const char *const gradient_names[GRADIENTS] = {"dQ", "dK", "dV"};

static const Tensor *gradient_of(const AttentionRun *run, int i)
{
    const Tensor *const all[GRADIENTS] = {run->attention.dQ, run->attention.dK, run->attention.dV};
    return all[i];
}

static bool same_bits(const AttentionRun *run, const AttentionRun *other, int i)
{
    const Tensor *a = gradient_of(run, i), *b = gradient_of(other, i);
    return memcmp(a->data, b->data, tensor_elements(a) * run->machine.math->real_bytes) == 0;
}

static double largest_difference(const AttentionRun *run, const AttentionRun *other, int i)
{
    const Tensor *a = gradient_of(run, i), *b = gradient_of(other, i);
    double worst = 0;
    for (uint64_t k = 0; k < tensor_elements(a); k++) {
        const double x = tensor_value(&run->machine, a, k), y = tensor_value(&other->machine, b, k),
                     error = fabs(x - y) / fmax(1, fabs(y));
        worst = error <= worst ? worst : error;         /* a NaN wins */
    }
    return worst;
}

static AttentionShape grouped_shape(uint64_t group, ElementType type, MaskKind mask)
{
    AttentionShape s = attention_shape(70, 8);
    s.seqlen_k = 90;
    s.kv_heads = 2;
    s.heads = 2 * group;
    s.dtype = type;
    s.mask = mask;
    s.dropout_source = DROPOUT_SEED;
    s.dropout = (Dropout){.p = 0.2, .seed = 5, .offset = 1};
    return s;
}

static void start(Context *x, AttentionRun *run, size_t way, const AttentionShape *shape, MachineConfig config, Status *status)
{
    config.mode = MODE_NUMERIC;
    run_backward(run, &backward_ways[way], (TileSize){16, 12}, config, &x->chip, &(BackwardInputs){.shape = *shape}, &x->alloc,
                 status);
    check_text(&x->test, status->text, "", backward_ways[way].name);
}

static void check_memory(Context *x, size_t way, ElementType type)
{
    const AttentionShape shape = grouped_shape(2, type, MASK_CAUSAL);
    Status status = {0};
    AttentionRun clean, poisoned;
    start(x, &clean, way, &shape, (MachineConfig){0}, &status);
    start(x, &poisoned, way, &shape, (MachineConfig){.poison = true}, &status);
    for (int i = 0; i < GRADIENTS; i++)
        check_true(&x->test, same_bits(&clean, &poisoned, i), "11c: NaN in fresh memory is never read");
    check_true(&x->test, attention_run_backward(&poisoned), status.text);
    for (int i = 0; i < GRADIENTS; i++) check_true(&x->test, same_bits(&clean, &poisoned, i), "11d: run twice, the same bits");
    attention_run_free(&clean);
    attention_run_free(&poisoned);
}

/* Whether a gradient is added up at L2 by several blocks. */
static bool is_shared(size_t way, int gradient)
{
    if (way == WAY_FA2 || way == WAY_FA2_DIRECT || way == WAY_FA3 || way == WAY_FA3_ONE_DQ || way == WAY_FA4) return gradient == 0;
    return way == WAY_FA2_BY_QUERIES && gradient > 0;
}

static void check_order(Context *x, size_t way, uint64_t group)
{
    const AttentionShape shape = grouped_shape(group, ELEMENT_F32, MASK_CAUSAL);
    bool differs[GRADIENTS] = {false};
    Status status = {0};
    AttentionRun in_order;
    start(x, &in_order, way, &shape, (MachineConfig){0}, &status);
    for (uint64_t seed = 1; seed <= 6; seed++) {
        AttentionRun shuffled;
        start(x, &shuffled, way, &shape, (MachineConfig){.shuffle_seed = seed}, &status);
        for (int i = 0; i < GRADIENTS; i++) {
            differs[i] = differs[i] || !same_bits(&shuffled, &in_order, i);
            check_true(&x->test, largest_difference(&shuffled, &in_order, i) <= 1e-5, "32: any order, within 1e-5");
        }
        attention_run_free(&shuffled);
    }
    for (int i = 0; i < GRADIENTS; i++) {
        char what[120];
        snprintf(what, sizeof what, "32: %s, group of %" PRIu64 ": bits of %s depend on the order: %s", backward_ways[way].name,
                 group, gradient_names[i], is_shared(way, i) ? "yes" : "no");
        check_true(&x->test, differs[i] == is_shared(way, i), what);
    }
    attention_run_free(&in_order);
}

/* A gradient is stored in its tensor's type, however it got there. */
static void check_types(Context *x, size_t way, ElementType type)
{
    const AttentionShape shape = grouped_shape(2, type, MASK_NONE);
    Status status = {0};
    AttentionRun run;
    start(x, &run, way, &shape, (MachineConfig){0}, &status);
    for (int i = 0; i < GRADIENTS; i++) {
        bool representable = true;
        for (uint64_t k = 0; k < tensor_elements(gradient_of(&run, i)); k++) {
            const float value = (float)tensor_value(&run.machine, gradient_of(&run, i), k);
            float rounded = value;
            round_elements(type, &rounded, 1);
            representable = representable && rounded == value;
        }
        char what[120];
        snprintf(what, sizeof what, "%s: %s holds %s numbers", backward_ways[way].name, gradient_names[i], element_name(type));
        check_true(&x->test, representable, what);
    }
    attention_run_free(&run);
}

int main(void)
{
    Context x = {0};
    Status status = {0};
    if (profile_load("unbounded", &x.alloc, &x.chip, &status)) {
        check_differences(&x, 200);
        for (size_t w = 0; w < BACKWARD_WAYS; w++) {
            check_memory(&x, w, ELEMENT_F64);
            check_memory(&x, w, ELEMENT_F32);
            check_memory(&x, w, ELEMENT_BF16);
            check_order(&x, w, 1);
            check_order(&x, w, 3);
            check_types(&x, w, ELEMENT_BF16);
            check_types(&x, w, ELEMENT_FP16);
        }
    }
    check_text(&x.test, status.text, "", "profile unbounded");
    check_u64(&x.test, x.alloc.live_bytes, 0, "bytes still allocated at the end");
    return test_end(&x.test, "gradients");
}
