/* test_hadamard.c - the rotation against its definition: a dense matrix by popcount, for every head dimension up to 160; J Jᵀ =
 * I; dot products and norms stay; both precisions, both directions, ragged rows, distances between columns. Field case 40 (a d
 * that is no power of two must be normalised by the size that is transformed).
 */
/* label: unit, property, golden */
#include "test.h"

#include "sim/hadamard.h"
#include "sim/normal.h"
#include "sim/philox.h"

#include <math.h>

enum { MOST_D = 320, MOST_ROWS = 40, LD = 64, SEED = 5, HEAD = 3 };

static double values[MOST_D * LD], rotated[MOST_D * LD], rotated_too[MOST_D * LD];
static float single[MOST_D * LD];

/* The largest power of two that divides d, by trial. */
static uint32_t power_in(uint32_t d)
{
    uint32_t b = 1;
    while (d % (2 * b) == 0) b *= 2;
    return b;
}

/* J_ij of the definition: s_i (-1)^popcount(i & j) / sqrt(b) inside a block of b, 0 outside. */
static double dense(uint32_t d, uint32_t i, uint32_t j)
{
    const uint32_t b = power_in(d);
    if (i / b != j / b) return 0.0;
    uint32_t common = i % b & j % b, ones = 0;
    for (; common > 0; common &= common - 1) ones++;
    const double sign = philox_element(SEED, HEAD, i) >> 31 ? -1.0 : 1.0;
    return (ones % 2 ? -sign : sign) / sqrt((double)b);
}

static void fill_random(uint32_t d)
{
    normal_fill_f64(values, (uint64_t)d * LD, 1, 0, 0);
    for (uint32_t i = 0; i < d * LD; i++) single[i] = (float)values[i];
}

static void check_dimension(Test *t, uint32_t d, uint32_t rows)
{
    char what[100];
    int8_t signs[MOST_D];
    double worst = 0, worst_single = 0, worst_back = 0, worst_outside = 0;
    const Matrix x = {rotated, rows, d, LD}, y = {single, rows, d, LD};
    fill_random(d);
    for (uint32_t i = 0; i < d * LD; i++) rotated[i] = values[i];
    hadamard_signs(signs, d, SEED, HEAD);
    hadamard_rotate(PRECISION_F64, x, signs);
    hadamard_rotate(PRECISION_F32, y, signs);
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t j = 0; j < d; j++) {
            double want = 0;
            for (uint32_t i = 0; i < d; i++) want += values[i * LD + r] * dense(d, i, j);
            worst = fmax(worst, fabs(rotated[j * LD + r] - want));
            worst_single = fmax(worst_single, fabs((double)single[j * LD + r] - want));
        }
    hadamard_unrotate(PRECISION_F64, x, signs);
    for (uint32_t c = 0; c < d; c++)
        for (uint32_t r = 0; r < LD; r++) {
            if (r < rows) worst_back = fmax(worst_back, fabs(rotated[c * LD + r] - values[c * LD + r]));
            else worst_outside = fmax(worst_outside, fabs(rotated[c * LD + r] - values[c * LD + r]));
        }
    snprintf(what, sizeof what, "d=%u, %u rows: X J = sum X_i s_i H_ij / sqrt(b), off by %.2g", d, rows, worst);
    check_true(t, worst < 1e-14, what);
    snprintf(what, sizeof what, "d=%u, %u rows, float32: off by %.2g", d, rows, worst_single);
    check_true(t, worst_single < 2e-6, what);
    snprintf(what, sizeof what, "d=%u, %u rows: (X J) Jᵀ = X, off by %.2g", d, rows, worst_back);
    check_true(t, worst_back < 1e-14, what);
    check_true(t, worst_outside == 0, "rows past the live part stay as they are");
}

/* |x J| = |x|, (x J)(y J) = x y. */
static void check_products(Test *t, uint32_t d)
{
    char what[100];
    int8_t signs[MOST_D];
    const Matrix x = {rotated, 2, d, LD};
    double before[3] = {0}, after[3] = {0};
    fill_random(d);
    for (uint32_t i = 0; i < d * LD; i++) rotated[i] = values[i];
    hadamard_signs(signs, d, SEED, HEAD);
    hadamard_rotate(PRECISION_F64, x, signs);
    for (uint32_t c = 0; c < d; c++)
        for (int pair = 0; pair < 3; pair++) {
            const uint32_t a = pair == 2, b = pair > 0;
            before[pair] += values[c * LD + a] * values[c * LD + b];
            after[pair] += rotated[c * LD + a] * rotated[c * LD + b];
        }
    for (int pair = 0; pair < 3; pair++) {
        snprintf(what, sizeof what, "d=%u: products of rotated rows: %.17g, of the rows: %.17g", d, after[pair], before[pair]);
        check_true(t, fabs(after[pair] - before[pair]) < 1e-12, what);
    }
}

/* Field case 40 (vllm#41414): d = 80 was built as 128 and divided by sqrt(80), so that e_0 e_0 became 1.6. */
static void check_unit_vector(Test *t)
{
    static const uint32_t dims[] = {1, 2, 80, 96, 128, 160, 320};
    for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++) {
        char what[80];
        int8_t signs[MOST_D];
        double square = 0;
        const Matrix x = {rotated, 1, dims[i], LD};
        for (uint32_t c = 0; c < dims[i]; c++) rotated[c * LD] = c == 0;
        hadamard_signs(signs, dims[i], SEED, HEAD);
        hadamard_rotate(PRECISION_F64, x, signs);
        for (uint32_t c = 0; c < dims[i]; c++) square += rotated[c * LD] * rotated[c * LD];
        snprintf(what, sizeof what, "40: (e_0 J)(e_0 J) at d=%u is %.17g", dims[i], square);
        check_true(t, fabs(square - 1.0) < 1e-15, what);
    }
}

static void check_sizes(Test *t)
{
    static const struct {
        uint32_t d, block;
        uint64_t additions;
    } rows[] = {{1, 1, 0},       {2, 2, 2},       {63, 1, 0},        {64, 64, 384},      {80, 16, 320},     {96, 32, 480},
                {128, 128, 896}, {192, 64, 1152}, {256, 256, 2048}, {1024, 1024, 10240}, {3072, 1024, 30720}, {4096, 1024, 40960}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char what[40];
        snprintf(what, sizeof what, "d=%u", rows[i].d);
        check_u64(t, hadamard_block(rows[i].d), rows[i].block, what);
        check_u64(t, hadamard_additions(rows[i].d), rows[i].additions, what);
    }
}

static void check_signs(Test *t)
{
    enum { COUNT = 4096 };
    int8_t a[COUNT], b[COUNT], c[COUNT];
    uint32_t positive = 0, differ = 0;
    hadamard_signs(a, COUNT, 1, 0);
    hadamard_signs(b, COUNT, 1, 0);
    hadamard_signs(c, COUNT, 1, 1);
    for (int i = 0; i < COUNT; i++) {
        check_true(t, (a[i] == 1 || a[i] == -1) && a[i] == b[i], "signs are +1 or -1, the same every time");
        positive += a[i] == 1;
        differ += a[i] != c[i];
    }
    check_true(t, positive > 1900 && positive < 2200, "half of them are positive");
    check_true(t, differ > 1900 && differ < 2200, "another head has others");
}

/* The same bits for any number of rows beside it and any distance between columns. */
static void check_bits(Test *t)
{
    enum { D = 128 };
    int8_t signs[D];
    hadamard_signs(signs, D, SEED, HEAD);
    for (uint32_t rows = 1; rows <= MOST_ROWS; rows++) {
        fill_random(D);
        for (uint32_t i = 0; i < D * LD; i++) rotated[i] = rotated_too[i] = values[i];
        hadamard_rotate(PRECISION_F64, (Matrix){rotated, rows, D, LD}, signs);
        hadamard_rotate(PRECISION_F64, (Matrix){rotated_too, MOST_ROWS, D, LD}, signs);
        for (uint32_t c = 0; c < D; c++)
            for (uint32_t r = 0; r < rows; r++) check_true(t, rotated[c * LD + r] == rotated_too[c * LD + r], "a row does not depend on its neighbours");
    }
}

int main(void)
{
    Test t = {0};
    for (uint32_t d = 1; d <= 160; d++) check_dimension(&t, d, 1 + d % MOST_ROWS);
    check_dimension(&t, 256, 33);
    check_dimension(&t, 320, 17);
    for (uint32_t d = 1; d <= MOST_D; d++) check_products(&t, d);
    check_unit_vector(&t);
    check_sizes(&t);
    check_signs(&t);
    check_bits(&t);
    return test_end(&t, "hadamard");
}
