/* oracle.c - see oracle.h. */
#include "oracle.h"

#include "sim/math_functions.h"

#include <math.h>

/* The row of a [batch, heads, rows, cols] tensor, as an index of its first element. */
static uint64_t row_start(const Tensor *t, uint64_t batch, uint64_t head, uint64_t row)
{
    return ((batch * t->heads + head) * t->rows + row) * t->cols;
}

static bool is_visible(Band band, uint64_t i, uint64_t j)
{
    return (int64_t)j >= (int64_t)i + band.low && (int64_t)j <= (int64_t)i + band.high;
}

static double dot(const Machine *machine, const Tensor *a, uint64_t at_a, const Tensor *b, uint64_t at_b, uint64_t d)
{
    double sum = 0.0;
    for (uint64_t c = 0; c < d; c++) sum += tensor_value(machine, a, at_a + c) * tensor_value(machine, b, at_b + c);
    return sum;
}

static void oracle_row(const Attention *a, const Machine *machine, uint64_t batch, uint64_t head, uint64_t i, double *scores, double *O, double *L)
{
    const AttentionShape *s = &a->shape;
    const uint64_t kv_head = head / (s->heads / s->kv_heads), d = s->head_dim, q = row_start(a->Q, batch, head, i);
    double m = -INFINITY, l = 0.0;
    for (uint64_t j = 0; j < s->seqlen_k; j++) {
        if (!is_visible(a->band, i, j)) continue;
        scores[j] = s->softmax_scale * dot(machine, a->Q, q, a->K, row_start(a->K, batch, kv_head, j), d);
        if (scores[j] > m) m = scores[j];
    }
    for (uint64_t c = 0; c < d; c++) O[c] = 0.0;
    for (uint64_t j = 0; j < s->seqlen_k; j++) {
        if (!is_visible(a->band, i, j)) continue;
        const double p = exp_f64(scores[j] - (m == -INFINITY ? 0.0 : m));
        const uint64_t v = row_start(a->V, batch, kv_head, j);
        l += p;
        for (uint64_t c = 0; c < d; c++) O[c] += p * tensor_value(machine, a->V, v + c);
    }
    for (uint64_t c = 0; c < d; c++) O[c] = l == 0.0 ? 0.0 : O[c] / l;
    if (L != NULL) *L = l == 0.0 ? -INFINITY : m + log_f64(l);
}

bool oracle_forward(const Attention *a, const Machine *machine, double *O, double *L)
{
    const AttentionShape *s = &a->shape;
    double *scores = alloc_array(machine->alloc, s->seqlen_k, sizeof *scores, "one row of scores", machine->status);
    if (scores == NULL) return false;
    for (uint64_t batch = 0; batch < s->batch; batch++)
        for (uint64_t head = 0; head < s->heads; head++)
            for (uint64_t i = 0; i < s->seqlen_q; i++) {
                const uint64_t row = (batch * s->heads + head) * s->seqlen_q + i;
                oracle_row(a, machine, batch, head, i, scores, &O[row * s->head_dim], L != NULL ? &L[row] : NULL);
            }
    alloc_free(machine->alloc, scores);
    return true;
}

/* |got - want|, infinite where only one is NaN or they are different infinities: no comparison may lose a NaN. */
static double difference(double got, double want)
{
    if (isnan(got) || isnan(want)) return isnan(got) && isnan(want) ? 0.0 : INFINITY;
    return got == want ? 0.0 : fabs(got - want);
}

static double max_difference(const Machine *machine, const Tensor *tensor, const double *want)
{
    double worst = 0.0;
    const uint64_t count = tensor_elements(tensor);
    for (uint64_t i = 0; i < count; i++) worst = fmax(worst, difference(tensor_value(machine, tensor, i), want[i]));
    return worst;
}

bool oracle_compare(const Attention *a, const Machine *machine, ForwardError *error)
{
    *error = (ForwardError){0};
    const uint64_t rows = a->shape.batch * a->shape.heads * a->shape.seqlen_q;
    double *O = alloc_array(machine->alloc, tensor_elements(a->O), sizeof *O, "the oracle's O", machine->status);
    double *L = alloc_array(machine->alloc, rows, sizeof *L, "the oracle's L", machine->status);
    bool ok = O != NULL && L != NULL && oracle_forward(a, machine, O, L);
    if (ok) {
        error->max_abs_O = max_difference(machine, a->O, O);
        if (a->L != NULL) error->max_abs_L = max_difference(machine, a->L, L);
        for (uint64_t i = 0; i < tensor_elements(a->O); i++) error->max_O = fmax(error->max_O, isnan(O[i]) ? 0.0 : fabs(O[i]));
    }
    alloc_free(machine->alloc, O);
    alloc_free(machine->alloc, L);
    return ok;
}
