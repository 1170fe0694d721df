/* oracle.c - see oracle.h. */
#include "oracle.h"

#include "sim/math_functions.h"

#include <math.h>

/* The tensors as plain float64 arrays, whatever the machine computes in: a quarter of the time of asking for each element. */
typedef struct {
    const Attention *a;
    Alloc *alloc;
    double *q, *k, *v, *d_o, *keep;
} Inputs;

static double *snapshot(const Machine *machine, const Tensor *tensor)
{
    const uint64_t count = tensor_elements(tensor);
    double *values = alloc_array(machine->alloc, count, sizeof *values, tensor->name, machine->status);
    for (uint64_t i = 0; values != NULL && i < count; i++) values[i] = tensor_value(machine, tensor, i);
    return values;
}

static void free_inputs(Inputs *in)
{
    double *const arrays[] = {in->q, in->k, in->v, in->d_o, in->keep};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) alloc_free(in->alloc, arrays[i]);
}

/* False, and nothing to free, when memory is short. */
static bool take_inputs(Inputs *in, const Attention *a, const Machine *machine, bool backward)
{
    *in = (Inputs){.a = a, .alloc = machine->alloc};
    in->q = snapshot(machine, a->Q);
    in->k = snapshot(machine, a->K);
    in->v = snapshot(machine, a->V);
    if (backward) in->d_o = snapshot(machine, a->dO);
    if (a->shape.dropout_source == DROPOUT_GIVEN) in->keep = snapshot(machine, a->Z);
    if (status_ok(machine->status)) return true;
    free_inputs(in);
    return false;
}

/* The row of a [batch, heads, rows, cols] tensor, as an index of its first element. */
static uint64_t row_start(const Tensor *t, uint64_t batch, uint64_t head, uint64_t row)
{
    return ((batch * t->heads + head) * t->rows + row) * t->cols;
}

static bool is_visible(Band band, uint64_t i, uint64_t j)
{
    return (int64_t)j >= (int64_t)i + band.low && (int64_t)j <= (int64_t)i + band.high;
}

static double dot(const double *a, const double *b, uint64_t d)
{
    double sum = 0.0;
    for (uint64_t c = 0; c < d; c++) sum += a[c] * b[c];
    return sum;
}

/* What dropout does to a probability: 1 without dropout, 1/(1-p) when kept, 0 when dropped. */
static double keep_factor(const Inputs *in, uint64_t batch, uint64_t head, uint64_t i, uint64_t j)
{
    const Attention *a = in->a;
    const AttentionShape *s = &a->shape;
    if (s->dropout_source == DROPOUT_NONE) return 1.0;
    const bool kept = in->keep != NULL ? in->keep[row_start(a->Z, batch, head, i) + j] != 0.0
                                       : dropout_keeps(&s->dropout, batch * s->heads + head, i, j);
    return kept ? 1.0 / (1.0 - s->dropout.p) : 0.0;
}

/* p_j = softmax over the visible keys of row i, 0 for hidden keys. Returns L. */
static double probabilities(const Inputs *in, uint64_t batch, uint64_t head, uint64_t i, double *p)
{
    const Attention *a = in->a;
    const AttentionShape *s = &a->shape;
    const double *q = in->q + row_start(a->Q, batch, head, i), *k = in->k + row_start(a->K, batch, head / group_size(a), 0);
    double m = -INFINITY, l = 0.0;
    for (uint64_t j = 0; j < s->seqlen_k; j++) {
        p[j] = 0.0;
        if (!is_visible(a->band, i, j)) continue;
        p[j] = s->softmax_scale * dot(q, k + j * s->head_dim, s->head_dim);
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

static void forward_row(const Inputs *in, uint64_t batch, uint64_t head, uint64_t i, double *p, double *O, double *L)
{
    const Attention *a = in->a;
    const uint64_t d = a->shape.head_dim;
    const double *v = in->v + row_start(a->V, batch, head / group_size(a), 0);
    const double lse = probabilities(in, batch, head, i, p);
    for (uint64_t c = 0; c < d; c++) O[c] = 0.0;
    for (uint64_t j = 0; j < a->shape.seqlen_k; j++) {
        if (!is_visible(a->band, i, j)) continue;
        const double weight = p[j] * keep_factor(in, batch, head, i, j);
        for (uint64_t c = 0; c < d; c++) O[c] += weight * v[j * d + c];
    }
    if (L != NULL) *L = lse;
}

bool oracle_forward(const Attention *a, const Machine *machine, double *O, double *L)
{
    const AttentionShape *s = &a->shape;
    Inputs in;
    if (!take_inputs(&in, a, machine, false)) return false;
    double *p = alloc_array(machine->alloc, s->seqlen_k, sizeof *p, "one row of P", machine->status);
    for (uint64_t batch = 0; p != NULL && batch < s->batch; batch++)
        for (uint64_t head = 0; head < s->heads; head++)
            for (uint64_t i = 0; i < s->seqlen_q; i++) {
                const uint64_t row = (batch * s->heads + head) * s->seqlen_q + i;
                forward_row(&in, batch, head, i, p, &O[row * s->head_dim], L != NULL ? &L[row] : NULL);
            }
    alloc_free(machine->alloc, p);
    free_inputs(&in);
    return status_ok(machine->status);
}

typedef struct {
    double *p, *dp;             /* scratch, N_k each */
    double *dQ, *dK, *dV;
} Gradients;

/* One row's contributions to the gradients. */
static void backward_row(const Inputs *in, uint64_t batch, uint64_t head, uint64_t i, const Gradients *g)
{
    const Attention *a = in->a;
    const uint64_t d = a->shape.head_dim, Nk = a->shape.seqlen_k;
    const uint64_t q = row_start(a->Q, batch, head, i), k = row_start(a->K, batch, head / group_size(a), 0);
    double sum = 0.0;
    probabilities(in, batch, head, i, g->p);
    for (uint64_t j = 0; j < Nk; j++) {
        if (!is_visible(a->band, i, j)) continue;
        const double keep = keep_factor(in, batch, head, i, j);
        g->dp[j] = keep * dot(in->d_o + q, in->v + k + j * d, d);
        sum += g->p[j] * g->dp[j];
        for (uint64_t c = 0; c < d; c++) g->dV[k + j * d + c] += keep * g->p[j] * in->d_o[q + c];
    }
    for (uint64_t j = 0; j < Nk; j++) {
        if (!is_visible(a->band, i, j)) continue;
        const double ds = a->shape.softmax_scale * g->p[j] * (g->dp[j] - sum);
        for (uint64_t c = 0; c < d; c++) {
            g->dQ[q + c] += ds * in->k[k + j * d + c];
            g->dK[k + j * d + c] += ds * in->q[q + c];
        }
    }
}

static void set_zero(double *values, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) values[i] = 0.0;
}

bool oracle_backward(const Attention *a, const Machine *machine, double *dQ, double *dK, double *dV)
{
    const AttentionShape *s = &a->shape;
    Inputs in;
    if (!take_inputs(&in, a, machine, true)) return false;
    const Gradients g = {.p = alloc_array(machine->alloc, s->seqlen_k, sizeof(double), "one row of P", machine->status),
                         .dp = alloc_array(machine->alloc, s->seqlen_k, sizeof(double), "one row of dP", machine->status),
                         .dQ = dQ, .dK = dK, .dV = dV};
    set_zero(dQ, tensor_elements(a->dQ));
    set_zero(dK, tensor_elements(a->dK));
    set_zero(dV, tensor_elements(a->dV));
    for (uint64_t batch = 0; status_ok(machine->status) && batch < s->batch; batch++)
        for (uint64_t head = 0; head < s->heads; head++)
            for (uint64_t i = 0; i < s->seqlen_q; i++) backward_row(&in, batch, head, i, &g);
    alloc_free(machine->alloc, g.p);
    alloc_free(machine->alloc, g.dp);
    free_inputs(&in);
    return status_ok(machine->status);
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
        error->max_gradient = fmax(max_magnitude(dQ, tensor_elements(a->dQ)),
                                   fmax(max_magnitude(dK, tensor_elements(a->dK)), max_magnitude(dV, tensor_elements(a->dV))));
    }
    alloc_free(alloc, dQ);
    alloc_free(alloc, dK);
    alloc_free(alloc, dV);
    return ok;
}
