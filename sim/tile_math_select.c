/* tile_math_select.c - which builds of the tile arithmetic this processor can run. See tile_math.h. */
#include "tile_math.h"

extern const TileMath tile_math_f32_portable, tile_math_f64_portable;
#ifdef ATTNLAB_X86_VARIANTS
extern const TileMath tile_math_f32_avx2, tile_math_f64_avx2, tile_math_f32_avx512, tile_math_f64_avx512;

static size_t runnable_variants(void)
{
    if (__builtin_cpu_supports("avx512f")) return 3;
    return __builtin_cpu_supports("avx2") ? 2 : 1;
}
#else
static size_t runnable_variants(void) { return 1; }
#endif

static const TileMath *const variants[2][3] = {
    [PRECISION_F32] = {&tile_math_f32_portable,
#ifdef ATTNLAB_X86_VARIANTS
                       &tile_math_f32_avx2, &tile_math_f32_avx512
#endif
    },
    [PRECISION_F64] = {&tile_math_f64_portable,
#ifdef ATTNLAB_X86_VARIANTS
                       &tile_math_f64_avx2, &tile_math_f64_avx512
#endif
    },
};

size_t tile_math_count(Precision precision)
{
    (void)precision;
    return runnable_variants();
}

const TileMath *tile_math_variant(Precision precision, size_t index) { return variants[precision][index]; }

const TileMath *tile_math_select(Precision precision) { return variants[precision][runnable_variants() - 1]; }
