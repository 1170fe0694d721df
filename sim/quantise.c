/* quantise.c - see quantise.h. */
#include "quantise.h"

static const char *const granularity_names[] = {"none", "tensor", "block", "row"};

const char *granularity_name(ScaleGranularity granularity) { return granularity_names[granularity]; }

float quantised_largest(QuantisedFormat format)
{
    static const float largest[] = {[QUANTISED_E4M3] = 448.0f, [QUANTISED_E5M2] = 57344.0f, [QUANTISED_INT8] = 127.0f};
    return largest[format];
}

/* Adding and taking away 1.5 * 2^23 rounds to an integer in float32's own rounding; a NaN passes both comparisons. */
static inline float round_int8(float x)
{
    const float below = x > 127.0f ? 127.0f : x, clamped = below < -127.0f ? -127.0f : below;
    return (clamped + 0x1.8p23f) - 0x1.8p23f;
}

float quantised_code(QuantisedFormat format, float x)
{
    if (format == QUANTISED_E4M3) return round_e4m3(x, FP8_SATURATE);
    return format == QUANTISED_E5M2 ? round_e5m2(x, FP8_SATURATE) : round_int8(x);
}

static float *column(Matrix x, uint32_t c) { return (float *)x.data + c * x.ld; }

/* Bits of magnitudes order as the magnitudes do: the maximum is one of integers, which may be taken in any order. */
Extent matrix_extent(Matrix x)
{
    const int32_t infinity = 0x7f800000;
    int32_t largest = 0, above = 0;         /* of finite magnitudes; of all */
    for (uint32_t c = 0; c < x.cols; c++) {
        const float *restrict values = column(x, c);
        for (uint32_t r = 0; r < x.rows; r++) {
            const int32_t bits = (int32_t)(bits_from_f32(values[r]) & 0x7fffffffu), finite = bits < infinity ? bits : 0;
            largest = finite > largest ? finite : largest;
            above = bits > above ? bits : above;
        }
    }
    Extent extent = {.largest = f32_from_bits((uint32_t)largest), .has_nan = above > infinity};
    for (uint32_t c = 0; c < x.cols && above >= infinity; c++)
        for (uint32_t r = 0; r < x.rows; r++)
            if ((bits_from_f32(column(x, c)[r]) & 0x7fffffffu) == (uint32_t)infinity) extent.has_infinity = true;
    return extent;
}

float quantising_scale(QuantisedFormat format, float largest_magnitude)
{
    if (largest_magnitude == 0.0f) return 1.0f;
    const float s = quantised_largest(format) / largest_magnitude;
    return s > 0x1p126f ? 0x1p126f : s < 0x1p-126f ? 0x1p-126f : s;
}

void quantise_scaled(Matrix y, Matrix x, QuantisedFormat format, float s)
{
    for (uint32_t c = 0; c < x.cols; c++) {
        const float *from = column(x, c);
        float *to = column(y, c);
        if (format == QUANTISED_E4M3)
            for (uint32_t r = 0; r < x.rows; r++) to[r] = round_e4m3(from[r] * s, FP8_SATURATE);
        else
            for (uint32_t r = 0; r < x.rows; r++) to[r] = quantised_code(format, from[r] * s);
    }
}

static uint64_t rows_per_scale(ScaleGranularity granularity, uint64_t rows, uint64_t block_rows)
{
    if (granularity == SCALE_ROW) return 1;
    if (granularity == SCALE_BLOCK && block_rows < rows) return block_rows;
    return rows > 0 ? rows : 1;
}

uint64_t quantised_scales(ScaleGranularity granularity, uint64_t rows, uint64_t block_rows)
{
    const uint64_t per_scale = rows_per_scale(granularity, rows, block_rows);
    return rows / per_scale + (rows % per_scale != 0);
}

/* `count` rows of x from `row` on. */
static Matrix some_rows(Matrix x, uint32_t row, uint32_t count)
{
    return (Matrix){(float *)x.data + row, x.rows - row < count ? x.rows - row : count, x.cols, x.ld};
}

void quantise_matrix(Matrix y, Matrix x, QuantisedFormat format, ScaleGranularity granularity, uint32_t block_rows, float *descale)
{
    const uint32_t step = (uint32_t)rows_per_scale(granularity, x.rows, block_rows);
    uint32_t block = 0;
    for (uint32_t row = 0; row < x.rows; row += step, block++) {
        const Matrix part = some_rows(x, row, step);
        const float s = granularity == SCALE_NONE ? 1.0f : quantising_scale(format, matrix_extent(part).largest);
        quantise_scaled(some_rows(y, row, step), part, format, s);
        descale[block] = 1.0f / s;
    }
}

void dequantise_matrix(Matrix x, ScaleGranularity granularity, uint32_t block_rows, const float *descale)
{
    const uint32_t step = (uint32_t)rows_per_scale(granularity, x.rows, block_rows);
    uint32_t block = 0;
    for (uint32_t row = 0; row < x.rows; row += step, block++) {
        const Matrix part = some_rows(x, row, step);
        for (uint32_t c = 0; c < part.cols; c++)
            for (uint32_t r = 0; r < part.rows; r++) column(part, c)[r] *= descale[block];
    }
}
