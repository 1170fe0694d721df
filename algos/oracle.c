/* oracle.c - see oracle.h. */
#include "oracle.h"

#include "sim/math_functions.h"

#include <math.h>
#include <string.h>

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

/* What dropout does to a probability: 1 without dropout, 1/(1-p) when kept, 0 when dropped. */
static double keep_factor(const Attention *a, const Machine *machine, uint64_t batch, uint64_t head, uint64_t i, uint64_t j)
{
    const AttentionShape *s = &a->shape;
    if (s->dropout_source == DROPOUT_NONE) return 1.0;
    const bool kept = a->Z != NULL && s->dropout_source == DROPOUT_GIVEN ? tensor_value(machine, a->Z, row_start(a->Z, batch, head, i) + j) != 0.0
                                                                        : dropout_keeps(&s->dropout, batch * s->heads + head, i, j);
    return kept ? 1.0 / (1.0 - s->dropout.p) : 0.0;
}

/* p_j = softmax over the visible keys of row i, 0 for hidden keys. Returns L. */
static double probabilities(const Attention *a, const Machine *machine, uint64_t batch, uint64_t head, uint64_t i, double *p)
{
    const AttentionShape *s = &a->shape;
    const uint64_t kv_head = head / group_size(a), q = row_start(a->Q, batch, head, i);
    double m = -INFINITY, l = 0.0;
    for (uint64_t j = 0; j < s->seqlen_k; j++) {
        p[j] = 0.0;
        if (!is_visible(a->band, i, j)) continue;
        p[j] = s->softmax_scale * dot(machine, a->Q, q, a->K, row_start(a->K, batch, kv_head, j), s->head_dim);
        if (p[j] > m) m = p[j];
    }
    for (uint64_t j = 0; j < s->seqlen_k; j++) {
        if (!is_visible(a->band, i, j)) continue;
        p[j] = exp_f64(p[j] - (m == -INFINITY ? 0.0 : m));
        l += p[j];
    }
    for (uint64_t j = 0; j < s->seqlen_k; j++)
        if (is_visible(a->band, i, j)) p[j] = l == 0.0 ? 0.0 : p[j] / l;
    return l == 0.0 ? -INFINITY : m + log_f64(l);
}

static void oracle_row(const Attention *a, const Machine *machine, uint64_t batch, uint64_t head, uint64_t i, double *p, double *O, double *L)
{
    const AttentionShape *s = &a->shape;
    const double lse = probabilities(a, machine, batch, head, i, p);
    for (uint64_t c = 0; c < s->head_dim; c++) O[c] = 0.0;
    for (uint64_t j = 0; j < s->seqlen_k; j++) {
        if (!is_visible(a->band, i, j)) continue;
        const uint64_t v = row_start(a->V, batch, head / group_size(a), j);
        const double weight = p[j] * keep_factor(a, machine, batch, head, i, j);
        for (uint64_t c = 0; c < s->head_dim; c++) O[c] += weight * tensor_value(machine, a->V, v + c);
    }
    if (L != NULL) *L = lse;
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

/* One row's contributions to the gradients. p, dp: scratch of N_k. */
static void backward_row(const Attention *a, const Machine *machine, uint64_t batch, uint64_t head, uint64_t i, double *p, double *dp, double *dQ,
                         double *dK, double *dV)
{
    const AttentionShape *s = &a->shape;
    const uint64_t kv_head = head / group_size(a), q = row_start(a->Q, batch, head, i);
    double sum = 0.0;
    probabilities(a, machine, batch, head, i, p);
    for (uint64_t j = 0; j < s->seqlen_k; j++) {
        if (!is_visible(a->band, i, j)) continue;
        const double keep = keep_factor(a, machine, batch, head, i, j);
        const uint64_t k = row_start(a->K, batch, kv_head, j);
        dp[j] = keep * dot(machine, a->dO, q, a->V, k, s->head_dim);
        sum += p[j] * dp[j];
        for (uint64_t c = 0; c < s->head_dim; c++) dV[k + c] += keep * p[j] * tensor_value(machine, a->dO, q + c);
    }
    for (uint64_t j = 0; j < s->seqlen_k; j++) {
        if (!is_visible(a->band, i, j)) continue;
        const uint64_t k = row_start(a->K, batch, kv_head, j);
        const double ds = s->softmax_scale * p[j] * (dp[j] - sum);
        for (uint64_t c = 0; c < s->head_dim; c++) {
            dQ[q + c] += ds * tensor_value(machine, a->K, k + c);
            dK[k + c] += ds * tensor_value(machine, a->Q, q + c);
        }
    }
}

bool oracle_backward(const Attention *a, const Machine *machine, double *dQ, double *dK, double *dV)
{
    const AttentionShape *s = &a->shape;
    double *p = alloc_array(machine->alloc, s->seqlen_k, sizeof *p, "one row of P", machine->status);
    double *dp = alloc_array(machine->alloc, s->seqlen_k, sizeof *dp, "one row of dP", machine->status);
    const bool ok = p != NULL && dp != NULL;
    if (ok) {
        memset(dQ, 0, (size_t)tensor_elements(a->dQ) * sizeof *dQ);
        memset(dK, 0, (size_t)tensor_elements(a->dK) * sizeof *dK);
        memset(dV, 0, (size_t)tensor_elements(a->dV) * sizeof *dV);
    }
    for (uint64_t batch = 0; ok && batch < s->batch; batch++)
        for (uint64_t head = 0; head < s->heads; head++)
            for (uint64_t i = 0; i < s->seqlen_q; i++) backward_row(a, machine, batch, head, i, p, dp, dQ, dK, dV);
    alloc_free(machine->alloc, p);
    alloc_free(machine->alloc, dp);
    return ok;
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

static double max_magnitude(const double *x, uint64_t count)
{
    double largest = 0.0;
    for (uint64_t i = 0; i < count; i++)
        if (isnan(x[i]) || fabs(x[i]) > largest) largest = fabs(x[i]);      /* nothing is larger than a NaN: it stays */
    return largest;
}

static double largest(const double *values, uint64_t count)
{
    double worst = 0.0;
    for (uint64_t i = 0; i < count; i++) worst = fmax(worst, isnan(values[i]) ? 0.0 : fabs(values[i]));
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
        error->max_O = max_magnitude(O, tensor_elements(a->O));
    }
    alloc_free(machine->alloc, O);
    alloc_free(machine->alloc, L);
    return ok;
}

bool oracle_compare_backward(const Attention *a, const Machine *machine, BackwardError *error)
{
    Alloc *alloc = machine->alloc;
    Status *status = machine->status;
    double *dQ = alloc_array(alloc, tensor_elements(a->dQ), sizeof *dQ, "the oracle's dQ", status);
    double *dK = alloc_array(alloc, tensor_elements(a->dK), sizeof *dK, "the oracle's dK", status);
    double *dV = alloc_array(alloc, tensor_elements(a->dV), sizeof *dV, "the oracle's dV", status);
    *error = (BackwardError){0};
    const bool ok = dQ != NULL && dK != NULL && dV != NULL && oracle_backward(a, machine, dQ, dK, dV);
    if (ok) {
        error->max_abs_dQ = max_difference(machine, a->dQ, dQ);
        error->max_abs_dK = max_difference(machine, a->dK, dK);
        error->max_abs_dV = max_difference(machine, a->dV, dV);
        error->max_gradient = fmax(largest(dQ, tensor_elements(a->dQ)),
                                   fmax(largest(dK, tensor_elements(a->dK)), largest(dV, tensor_elements(a->dV))));
    }
    alloc_free(alloc, dQ);
    alloc_free(alloc, dK);
    alloc_free(alloc, dV);
    return ok;
}
