/* exp_facts.c - see exp_facts.h. */
#include "exp_facts.h"

#include "sim/checked.h"
#include "sim/math_functions.h"
#include "sim/normal.h"
#include "sim/tile_math.h"

#include <math.h>

#define LN_2   0x1.62e42fefa39efp-1
#define LOG2_E 0x1.71547652b82fep+0

double rescale_threshold_bound(uint64_t N)
{
    uint32_t k = 0;
    while (N >> k > 1) k++;
    return 128.0 - (k + log_f64((double)N / (double)(UINT64_C(1) << k)) / LN_2);
}

bool polynomial_accuracy(uint32_t degree, Exp2Accuracy *accuracy, Status *status)
{
    PolyFit fit;
    if (!poly_fit(&fit, FIT_MINIMAX_RELATIVE, degree, status)) return false;
    *accuracy = exp2_accuracy(exp2_by_fit, &fit, EXP2_POINTS);
    return true;
}

/* ---------------------------------------------------------------------------------------------------------- another base */

typedef struct {
    Matrix q, k, v, s, o, m, l;     /* column-major; all of one precision */
} Head;

enum { HEAD_MATRICES = 7 };

static bool head_new(Head *h, uint32_t N, uint32_t d, size_t real_bytes, Alloc *alloc, Status *status)
{
    Matrix *const all[HEAD_MATRICES] = {&h->q, &h->k, &h->v, &h->s, &h->o, &h->m, &h->l};
    const uint32_t cols[HEAD_MATRICES] = {d, d, d, N, d, 1, 1};
    bool ok = true;
    for (int i = 0; i < HEAD_MATRICES; i++) {
        void *data = alloc_array(alloc, (uint64_t)N * cols[i], real_bytes, "one head", status);
        *all[i] = (Matrix){data, N, cols[i], N};
        ok = ok && data != NULL;
    }
    return ok;
}

static void head_free(Head *h, Alloc *alloc)
{
    void *const all[HEAD_MATRICES] = {h->q.data, h->k.data, h->v.data, h->s.data, h->o.data, h->m.data, h->l.data};
    for (int i = 0; i < HEAD_MATRICES; i++) alloc_free(alloc, all[i]);
}

static uint64_t elements(const Matrix *x) { return (uint64_t)x->rows * x->cols; }

/* The same float32 numbers in both heads. */
static void fill_inputs(const Head *narrow, const Head *wide, uint64_t seed)
{
    const Matrix *const from[] = {&narrow->q, &narrow->k, &narrow->v}, *const to[] = {&wide->q, &wide->k, &wide->v};
    for (uint64_t t = 0; t < 3; t++) {
        normal_fill_f32(from[t]->data, elements(from[t]), seed, t, 0);
        for (uint64_t i = 0; i < elements(from[t]); i++) ((double *)to[t]->data)[i] = (double)((const float *)from[t]->data)[i];
    }
}

static void exponentials(const Matrix *x, size_t real_bytes)
{
    for (uint64_t i = 0; i < elements(x); i++) {
        if (real_bytes == sizeof(float)) ((float *)x->data)[i] = exp2_f32(((float *)x->data)[i]);
        else ((double *)x->data)[i] = exp2_f64(((double *)x->data)[i]);
    }
}

/* O before it is divided by l; scores in log2 units. */
static void attend(const Head *h, const TileMath *math, double above)
{
    math->matmul(h->s, h->q, false, h->k, true, LOG2_E / sqrt((double)h->q.cols), false);
    math->fill(h->m, -INFINITY);
    math->row_max(h->m, h->m, h->s);
    math->fill(h->l, above);
    math->add(h->m, h->l);
    math->subtract_rows(h->s, h->m);
    exponentials(&h->s, math->real_bytes);
    math->row_sum(h->l, (Matrix){0}, h->s);
    math->matmul(h->o, h->s, false, h->v, false, 1.0, false);
}

/* Divides as a chip does: 0 / 0 is NaN (the kernels' divide_rows gives 0 there, for rows that see no key). */
static void compare(BaseOutcome *outcome, const Head *narrow, const Head *wide)
{
    *outcome = (BaseOutcome){.entries = elements(&narrow->o)};
    for (uint64_t i = 0; i < outcome->entries; i++) {
        const uint64_t row = i % narrow->o.ld;
        const float got = ((const float *)narrow->o.data)[i] / ((const float *)narrow->l.data)[row];
        const double want = ((const double *)wide->o.data)[i] / ((const double *)wide->l.data)[row];
        if (isfinite(got)) outcome->max_error = fmax(outcome->max_error, fabs((double)got - want));
        else outcome->nonfinite++;
    }
}

bool attention_with_base(BaseOutcome *outcome, uint32_t N, uint32_t d, uint64_t seed, double above, Alloc *alloc, Status *status)
{
    Head narrow = {0}, wide = {0};
    *outcome = (BaseOutcome){0};
    if (N % TILE_ROW_ALIGNMENT != 0 || d % TILE_ROW_ALIGNMENT != 0 || N > 4096 || d > 512)
        return status_fail(status, STATUS_USAGE, "%u x %u is not allowed; expected multiples of %d up to 4096 x 512", N, d, TILE_ROW_ALIGNMENT);
    const bool ok = head_new(&narrow, N, d, sizeof(float), alloc, status) && head_new(&wide, N, d, sizeof(double), alloc, status);
    if (ok) {
        fill_inputs(&narrow, &wide, seed);
        attend(&narrow, tile_math_select(PRECISION_F32), above);
        attend(&wide, tile_math_select(PRECISION_F64), 0.0);
        compare(outcome, &narrow, &wide);
    }
    head_free(&narrow, alloc);
    head_free(&wide, alloc);
    return ok;
}
