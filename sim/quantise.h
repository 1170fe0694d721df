/* quantise.h - scaling a matrix into the range of a narrow format, and back.
 *
 *     s = largest / amax,   code = round(s x),   x ~ code / s;    largest: 448 (E4M3), 57344 (E5M2), 127 (INT8)
 *
 * amax is the largest magnitude of what shares the scale s: the whole matrix, a block of consecutive rows, or one row. Codes
 * are kept as float values, which the formats' products then add exactly as a tensor core does; rounding is to nearest, ties to
 * even, once, and saturates.
 *
 * E4M3 is a floating-point format: what is below amax keeps its relative precision (3 bits of mantissa) over four decades, down
 * to amax / 28,672, and only then falls into subnormals. So one large value does not squeeze the others into few levels: that
 * is true of INT8, whose levels are amax / 127 apart.
 *
 * Edge cases, because public code disagrees. An all-zero matrix has s = 1 (no 0/0), and zero codes. s is at most 2^126 and at
 * least 2^-126, so neither it nor 1/s is ever infinite or zero: a matrix whose amax is below 5e-36 (E4M3) loses bits instead.
 * amax is taken over finite values: a NaN stays a NaN in its own place and spoils nothing else; an infinity becomes the largest
 * code of its sign. Whoever wants a NaN refused finds it in Extent.
 *
 * Lecture §4.4. Source of the scale: Shah et al. 2024, arXiv:2407.08608, section 3.3; Micikevicius et al., arXiv:2209.05433.
 * Left out: power-of-two scales (MX formats), scales by column, delayed scaling (amax of earlier steps).
 */
#ifndef ATTNLAB_QUANTISE_H
#define ATTNLAB_QUANTISE_H

#include "tile_math.h"

typedef enum { QUANTISED_E4M3, QUANTISED_E5M2, QUANTISED_INT8 } QuantisedFormat;

/* What shares a scale. SCALE_NONE: s = 1, values are rounded as they are. */
typedef enum { SCALE_NONE, SCALE_TENSOR, SCALE_BLOCK, SCALE_ROW } ScaleGranularity;

/* "none", "tensor", "block", "row". */
const char *granularity_name(ScaleGranularity granularity);

/* Largest magnitude of a code: 448, 57344, 127. */
float quantised_largest(QuantisedFormat format);

/* The code nearest to x, as a value. NaN stays NaN. */
float quantised_code(QuantisedFormat format, float x);

typedef struct {
    float largest;              /* largest finite magnitude; 0 if there is none */
    bool has_infinity, has_nan;
} Extent;

/* Of the live part of a float32 matrix. */
Extent matrix_extent(Matrix x);

/* s, from the largest magnitude. */
float quantising_scale(QuantisedFormat format, float largest_magnitude);

/* y = codes of s x; y may be x. float32, the same shape. */
void quantise_scaled(Matrix y, Matrix x, QuantisedFormat format, float s);

/* How many scales a matrix of `rows` rows has. */
uint64_t quantised_scales(ScaleGranularity granularity, uint64_t rows, uint64_t block_rows);

/* y = codes of x; y may be x. descale[i] = 1 / s of the i-th block (row; the only one): quantised_scales() of them. */
void quantise_matrix(Matrix y, Matrix x, QuantisedFormat format, ScaleGranularity granularity, uint32_t block_rows, float *descale);

/* x *= its descale: codes become values again. */
void dequantise_matrix(Matrix x, ScaleGranularity granularity, uint32_t block_rows, const float *descale);

#endif
