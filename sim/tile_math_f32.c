/* tile_math_f32.c - float32 tile arithmetic. Also compiled as tile_math_f32_avx2.c and _avx512.c where the compiler can. */
#include "tile_math.h"
#include "math_inline.h"
#include "math_functions.h"
#include "poly_exp.h"

static void round_strip_f32(float *restrict to, const float *restrict from, ElementType type)
{
    switch (type) {
    case ELEMENT_F64:
    case ELEMENT_F32:
    case ELEMENT_U8:
        for (int i = 0; i < TILE_ROW_ALIGNMENT; i++) to[i] = from[i];
        break;
    case ELEMENT_BF16:
        for (int i = 0; i < TILE_ROW_ALIGNMENT; i++) to[i] = round_bf16(from[i]);
        break;
    case ELEMENT_FP16:
        for (int i = 0; i < TILE_ROW_ALIGNMENT; i++) to[i] = round_fp16(from[i]);
        break;
    case ELEMENT_E4M3:
        for (int i = 0; i < TILE_ROW_ALIGNMENT; i++) to[i] = round_e4m3(from[i], FP8_SATURATE);
        break;
    case ELEMENT_E5M2:
        for (int i = 0; i < TILE_ROW_ALIGNMENT; i++) to[i] = round_e5m2(from[i], FP8_SATURATE);
        break;
    }
}

#define REAL         float
#define EXP          exp_f32_inline
#define POLY_EXP2    poly_exp2_f32_inline
#define LOG          log_f32
#define ROUND_STRIP  round_strip_f32
#ifndef TABLE
#define TABLE        tile_math_f32_portable
#define TABLE_NAME   "f32 portable"
#endif
extern const TileMath TABLE;
#include "tile_math_body.h"
