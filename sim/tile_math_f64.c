/* tile_math_f64.c - float64 tile arithmetic: nothing is rounded to a narrower format here. Compiled like tile_math_f32.c. */
#include "tile_math.h"
#include "math_inline.h"
#include "math_functions.h"
#include "poly_exp.h"

static void round_strip_f64(double *restrict to, const double *restrict from, ElementType type)
{
    (void)type;
    for (int i = 0; i < TILE_ROW_ALIGNMENT; i++) to[i] = from[i];
}

#define REAL         double
#define EXP          exp_f64_inline
#define POLY_EXP2    poly_exp2_f64_inline
#define LOG          log_f64
#define ROUND_STRIP  round_strip_f64
#ifndef TABLE
#define TABLE        tile_math_f64_portable
#define TABLE_NAME   "f64 portable"
#endif
extern const TileMath TABLE;
#include "tile_math_body.h"
