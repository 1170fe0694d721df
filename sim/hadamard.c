/* hadamard.c - see hadamard.h; the butterfly is in hadamard_body.h. */
#include "hadamard.h"
#include "keep_loop.h"
#include "philox.h"

#include <math.h>

enum { LANES = 16 };

#define REAL     float
#define NAMED(x) x##_f32
#include "hadamard_body.h"

#define REAL     double
#define NAMED(x) x##_f64
#include "hadamard_body.h"

uint32_t hadamard_stages(uint32_t d)
{
    uint32_t stages = 0;
    while (d > 0 && d % 2 == 0 && 1u << stages < HADAMARD_MAX_BLOCK) {
        d /= 2;
        stages++;
    }
    return stages;
}

uint32_t hadamard_block(uint32_t d) { return 1u << hadamard_stages(d); }

uint64_t hadamard_additions(uint32_t d) { return (uint64_t)d * hadamard_stages(d); }

void hadamard_signs(int8_t *signs, uint32_t d, uint64_t seed, uint64_t head)
{
    for (uint32_t i = 0; i < d; i++) signs[i] = philox_element(seed, head, i) >> 31 ? -1 : 1;
}

void hadamard_rotate(Precision precision, Matrix x, const int8_t *signs)
{
    if (precision == PRECISION_F32) transform_f32(x, signs, NULL);
    else transform_f64(x, signs, NULL);
}

void hadamard_unrotate(Precision precision, Matrix x, const int8_t *signs)
{
    if (precision == PRECISION_F32) transform_f32(x, NULL, signs);
    else transform_f64(x, NULL, signs);
}
