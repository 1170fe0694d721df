/* test_quantise.c - scales and codes: against a slow second implementation (the nearest of all codes, by search), for every
 * granularity and format; scale edge cases (zero, tiny, huge, infinite, NaN), and what a scale does to E4M3 and INT8. Field
 * cases 14 (the largest magnitude of [NaN, 1]), 34 (all zero) and 36 (E4M3 past its range; the whole table is in
 * test_formats.c).
 */
/* label: unit, property, golden */
#include "test.h"

#include "sim/normal.h"
#include "sim/quantise.h"

#include <float.h>
#include <math.h>

enum { ROWS = 37, COLS = 5, LD = 64 };

static float x[COLS * LD], codes[COLS * LD], back[COLS * LD], descale[ROWS];

static Matrix of(float *data, uint32_t rows) { return (Matrix){data, rows, COLS, LD}; }

static float code_value(QuantisedFormat format, uint32_t code)
{
    if (format == QUANTISED_INT8) return (float)code;
    return format == QUANTISED_E4M3 ? f32_from_e4m3((uint8_t)code) : f32_from_e5m2((uint8_t)code);
}

/* The nearest non-negative code by trying them all; of two the even one; the largest for what is past it. */
static double nearest(QuantisedFormat format, double value)
{
    static const uint32_t largest[] = {[QUANTISED_E4M3] = 0x7e, [QUANTISED_E5M2] = 0x7b, [QUANTISED_INT8] = 127};
    uint32_t best = 0;
    for (uint32_t code = 1; code <= largest[format]; code++) {
        const double here = fabs((double)code_value(format, code) - fabs(value)), there = fabs((double)code_value(format, best) - fabs(value));
        if (here < there || (here == there && code % 2 == 0)) best = code;
    }
    return value < 0 ? -(double)code_value(format, best) : (double)code_value(format, best);
}

static uint32_t group_of(ScaleGranularity granularity, uint32_t row, uint32_t block)
{
    return granularity == SCALE_ROW ? row : granularity == SCALE_BLOCK ? row / block : 0;
}

static void check_matrix(Test *t, QuantisedFormat format, ScaleGranularity granularity, uint32_t rows, uint32_t block)
{
    char what[160];
    normal_fill_f32(x, COLS * LD, rows, block, 0);
    quantise_matrix(of(codes, rows), of(x, rows), format, granularity, block, descale);
    for (uint32_t i = 0; i < COLS * LD; i++) back[i] = codes[i];
    dequantise_matrix(of(back, rows), granularity, block, descale);
    for (uint32_t r = 0; r < rows; r++) {
        float largest = 0;
        for (uint32_t other = 0; other < rows; other++)
            for (uint32_t c = 0; c < COLS && group_of(granularity, other, block) == group_of(granularity, r, block); c++)
                largest = fmaxf(largest, fabsf(x[c * LD + other]));
        const float s = granularity == SCALE_NONE ? 1.0f : quantised_largest(format) / largest;
        snprintf(what, sizeof what, "format %d, scale per %s, %u rows by %u: descale of row %u", (int)format, granularity_name(granularity), rows, block, r);
        check_close(t, (double)descale[group_of(granularity, r, block)], (double)(1.0f / s), 0, what);
        for (uint32_t c = 0; c < COLS; c++) {
            snprintf(what, sizeof what, "format %d, scale per %s, %u rows by %u: code of (%u, %u)", (int)format, granularity_name(granularity), rows, block, r, c);
            check_close(t, (double)codes[c * LD + r], nearest(format, (double)(x[c * LD + r] * s)), 0, what);
            check_close(t, (double)back[c * LD + r], (double)(codes[c * LD + r] * (1.0f / s)), 0, what);
        }
    }
}

static void check_matrices(Test *t)
{
    static const struct {
        uint32_t rows, block;
    } sizes[] = {{1, 1}, {1, 128}, {ROWS, 1}, {ROWS, 8}, {ROWS, ROWS}, {ROWS, 128}, {32, 16}};
    for (int format = QUANTISED_E4M3; format <= QUANTISED_INT8; format++)
        for (int granularity = SCALE_NONE; granularity <= SCALE_ROW; granularity++)
            for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
                check_matrix(t, (QuantisedFormat)format, (ScaleGranularity)granularity, sizes[i].rows, sizes[i].block);
    check_u64(t, quantised_scales(SCALE_BLOCK, 37, 8), 5, "37 rows by 8");
    check_u64(t, quantised_scales(SCALE_BLOCK, 32, 8), 4, "32 rows by 8");
    check_u64(t, quantised_scales(SCALE_BLOCK, 0, 8), 0, "no rows");
    check_u64(t, quantised_scales(SCALE_TENSOR, 1000, 8), 1, "one per tensor");
    check_u64(t, quantised_scales(SCALE_ROW, 1000, 8), 1000, "one per row");
}

/* Scales that would be 0/0, infinite or zero. */
static void check_scales(Test *t)
{
    static const struct {
        float largest, s;
    } rows[] = {{0, 1}, {448, 1}, {1, 448}, {896, 0.5f}, {1e-45f, 0x1p126f}, {0x1p-126f, 0x1p126f}, {1e-30f, 448.0f / 1e-30f}, {FLT_MAX, 448.0f / FLT_MAX}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char what[60];
        snprintf(what, sizeof what, "scale for %g", (double)rows[i].largest);
        const float s = quantising_scale(QUANTISED_E4M3, rows[i].largest);
        check_close(t, (double)s, (double)rows[i].s, 0, what);
        check_true(t, isfinite(s) && s > 0 && isfinite(1.0f / s) && 1.0f / s > 0, what);
    }
    check_close(t, (double)quantising_scale(QUANTISED_INT8, FLT_MAX), 0x1p-121, 1e-7, "INT8, the largest float");
    check_close(t, (double)quantising_scale(QUANTISED_E5M2, 1e-45f), 0x1p126, 0, "E5M2, the smallest float");
}

/* Field case 34: zeros give zeros and a scale of 1; case 14: the extent says that there is a NaN; NaN and infinity stay in their own places. */
static void check_special(Test *t)
{
    for (uint32_t i = 0; i < COLS * LD; i++) x[i] = 0;
    for (int granularity = SCALE_NONE; granularity <= SCALE_ROW; granularity++) {
        quantise_matrix(of(codes, ROWS), of(x, ROWS), QUANTISED_E4M3, (ScaleGranularity)granularity, 8, descale);
        dequantise_matrix(of(codes, ROWS), (ScaleGranularity)granularity, 8, descale);
        for (uint32_t r = 0; r < ROWS; r++) check_close(t, (double)codes[r], 0, 0, "34: zeros stay zeros");
        check_close(t, (double)descale[0], 1, 0, "34: their scale is 1");
    }
    x[0] = NAN;
    x[1] = 1;
    x[2] = -INFINITY;
    x[3] = -0.5f;
    const Extent extent = matrix_extent(of(x, ROWS)), first = matrix_extent((Matrix){x, 2, 1, LD}), finite = matrix_extent((Matrix){x + 3, 1, 1, LD});
    check_true(t, first.has_nan && !first.has_infinity && first.largest == 1.0f, "14: [NaN, 1] has a NaN, and 1 is its largest finite magnitude");
    check_true(t, extent.has_nan && extent.has_infinity && extent.largest == 1.0f, "with an infinity too");
    check_true(t, !finite.has_nan && !finite.has_infinity && finite.largest == 0.5f, "finite: magnitude of a negative number");
    quantise_matrix(of(codes, ROWS), of(x, ROWS), QUANTISED_E4M3, SCALE_TENSOR, 0, descale);
    check_true(t, isnan(codes[0]), "a NaN stays NaN");
    check_close(t, (double)codes[1], 448, 0, "the largest finite value is scaled to 448");
    check_close(t, (double)codes[2], -448, 0, "an infinity saturates");
    check_close(t, (double)codes[3], -224, 0, "nothing else is spoilt");
    check_true(t, isnan(quantised_code(QUANTISED_INT8, NAN)), "NaN in INT8 stays NaN");
    check_close(t, (double)quantised_code(QUANTISED_INT8, 2.5f), 2, 0, "INT8: 2.5 to even");
    check_close(t, (double)quantised_code(QUANTISED_INT8, -1e9f), -127, 0, "INT8 saturates at -127");
    check_close(t, (double)quantised_code(QUANTISED_E4M3, 1000), 448, 0, "36: E4M3 saturates");
}

/* Field case 39 in small: a scale that a large value sets sends 2^-10 to zero. */
static void check_underflow(Test *t)
{
    static const struct {
        float other, want;
    } rows[] = {{1024, 0}, {0, 0x1p-10f}};
    for (size_t i = 0; i < 2; i++) {
        x[0] = 0x1p-10f;
        x[1] = rows[i].other;
        const Matrix two = {x, 2, 1, LD}, result = {codes, 2, 1, LD};
        quantise_matrix(result, two, QUANTISED_E4M3, SCALE_TENSOR, 0, descale);
        dequantise_matrix(result, SCALE_TENSOR, 0, descale);
        check_close(t, (double)codes[0], (double)rows[i].want, 0, "39: 2^-10 beside a large value, and alone");
    }
}

int main(void)
{
    Test t = {0};
    check_matrices(&t);
    check_scales(&t);
    check_special(&t);
    check_underflow(&t);
    return test_end(&t, "quantise");
}
