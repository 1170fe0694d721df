/* hadamard_body.h - the butterfly for one precision; included twice by hadamard.c, which defines
 *   REAL        float or double
 *   NAMED(x)    x with the precision's suffix
 *
 * A strip of LANES rows is copied into a buffer of its own, one block of columns at a time, so that the stages stay in the
 * nearest cache whatever the distance between columns is; rows are the vector axis.
 */

/* Stage h: columns c and c + h become their sum and difference. */
static void NAMED(stage)(REAL *strip, uint32_t block, uint32_t h)
{
    for (uint32_t first = 0; first < block; first += 2 * h)
        for (uint32_t c = first; c < first + h; c++) {
            REAL *restrict upper = strip + c * LANES, *restrict lower = strip + (c + h) * LANES;
            KEEP_LOOP
            for (int i = 0; i < LANES; i++) {
                const REAL a = upper[i], b = lower[i];
                upper[i] = a + b;
                lower[i] = a - b;
            }
        }
}

/* Rows row .. of block `first`, times a factor per column. */
static void NAMED(take)(REAL *restrict strip, Matrix x, uint32_t row, uint32_t first, uint32_t block, const int8_t *signs)
{
    const uint32_t rows = x.rows - row < LANES ? x.rows - row : LANES;
    for (uint32_t c = 0; c < block; c++) {
        const REAL *restrict from = (const REAL *)x.data + (first + c) * x.ld + row;
        const REAL sign = signs == NULL ? (REAL)1 : (REAL)signs[first + c];
        if (rows == LANES)
            KEEP_LOOP
            for (int i = 0; i < LANES; i++) strip[c * LANES + (uint32_t)i] = from[i] * sign;
        else
            for (uint32_t i = 0; i < LANES; i++) strip[c * LANES + i] = i < rows ? from[i] * sign : (REAL)0;
    }
}

static void NAMED(give)(Matrix x, const REAL *restrict strip, uint32_t row, uint32_t first, uint32_t block, const int8_t *signs, REAL factor)
{
    const uint32_t rows = x.rows - row < LANES ? x.rows - row : LANES;
    for (uint32_t c = 0; c < block; c++) {
        REAL *restrict to = (REAL *)x.data + (first + c) * x.ld + row;
        const REAL signed_factor = signs == NULL ? factor : factor * (REAL)signs[first + c];
        if (rows == LANES)
            KEEP_LOOP
            for (int i = 0; i < LANES; i++) to[i] = strip[c * LANES + (uint32_t)i] * signed_factor;
        else
            for (uint32_t i = 0; i < rows; i++) to[i] = strip[c * LANES + i] * signed_factor;
    }
}

/* Signs before (X J), after (X Jᵀ). */
static void NAMED(transform)(Matrix x, const int8_t *before, const int8_t *after)
{
    REAL strip[HADAMARD_MAX_BLOCK * LANES];
    const uint32_t block = hadamard_block(x.cols);
    const REAL factor = (REAL)(1.0 / sqrt((double)block));
    for (uint32_t row = 0; row < x.rows; row += LANES)
        for (uint32_t first = 0; first < x.cols; first += block) {
            NAMED(take)(strip, x, row, first, block, before);
            for (uint32_t h = 1; h < block; h *= 2) NAMED(stage)(strip, block, h);
            NAMED(give)(x, strip, row, first, block, after, factor);
        }
}

#undef REAL
#undef NAMED
