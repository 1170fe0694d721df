/* formats.c - names, codes and bulk rounding of the number formats; see formats.h for the formats and how rounding works.
 *
 * A code is a float32 in miniature: after rounding, scaling by 2^(bias-127) makes float32's exponent field the format's own
 * (and a subnormal of the format a subnormal float32), so that the code is float32's upper bits. Decoding is the way back. Both
 * scalings are exact.
 */
#include "formats.h"

#include <float.h>
#include <string.h>

typedef struct {
    uint32_t mantissa_bits;
    float to_code;          /* 2^(bias-127) */
    float from_code;        /* 2^(127-bias) */
    uint32_t infinity;      /* code of +infinity; one past the NaN when there is none */
    uint32_t nan;           /* code of the positive quiet NaN */
} Layout;

static const Layout FP16 = {10, 0x1p-112f, 0x1p112f, 0x7c00, 0x7e00};
static const Layout E4M3 = {3, 0x1p-120f, 0x1p120f, 0x80, 0x7f};
static const Layout E5M2 = {2, 0x1p-112f, 0x1p112f, 0x7c, 0x7e};

/* The code, without its sign, of a magnitude that the format holds exactly. */
static inline uint32_t encode_magnitude(float magnitude, const Layout *layout)
{
    if (magnitude != magnitude) return layout->nan;
    if (magnitude > FLT_MAX) return layout->infinity;
    return bits_from_f32(magnitude * layout->to_code) >> (23 - layout->mantissa_bits);
}

static inline float decode_magnitude(uint32_t code, const Layout *layout)
{
    if (code == layout->infinity) return f32_from_bits(0x7f800000u);
    if (code > layout->infinity || code == layout->nan) return f32_from_bits(0x7fc00000u);
    return f32_from_bits(code << (23 - layout->mantissa_bits)) * layout->from_code;
}

static inline uint32_t sign_of(float x) { return bits_from_f32(x) >> 31; }

static inline float magnitude_of(float x) { return f32_from_bits(bits_from_f32(x) & 0x7fffffffu); }

static inline float with_sign(float magnitude, uint32_t sign) { return f32_from_bits(bits_from_f32(magnitude) | sign << 31); }

uint16_t bf16_from_f32(float x) { return (uint16_t)(bits_from_f32(round_bf16(x)) >> 16); }

uint16_t fp16_from_f32(float x)
{
    const uint32_t payload = (bits_from_f32(x) & 0x007fffffu) >> 13, nan = payload != 0 ? FP16.infinity | payload : FP16.nan;
    return (uint16_t)(sign_of(x) << 15 | (x != x ? nan : encode_magnitude(magnitude_of(round_fp16(x)), &FP16)));
}

uint8_t e4m3_from_f32(float x, Fp8Overflow overflow)
{
    return (uint8_t)(sign_of(x) << 7 | encode_magnitude(magnitude_of(round_e4m3(x, overflow)), &E4M3));
}

uint8_t e5m2_from_f32(float x, Fp8Overflow overflow)
{
    return (uint8_t)(sign_of(x) << 7 | encode_magnitude(magnitude_of(round_e5m2(x, overflow)), &E5M2));
}

float f32_from_bf16(uint16_t code) { return f32_from_bits((uint32_t)code << 16); }

float f32_from_fp16(uint16_t code)
{
    const uint32_t magnitude = code & 0x7fffu, payload = code & 0x03ffu;
    const float value = decode_magnitude(magnitude, &FP16);
    return with_sign(magnitude > FP16.infinity ? f32_from_bits(0x7f800000u | payload << 13) : value, code >> 15);
}

float f32_from_e4m3(uint8_t code) { return with_sign(decode_magnitude(code & 0x7fu, &E4M3), code >> 7); }

float f32_from_e5m2(uint8_t code) { return with_sign(decode_magnitude(code & 0x7fu, &E5M2), code >> 7); }

typedef struct {
    const char *name;
    uint64_t bytes;
} ElementRow;

static const ElementRow ELEMENTS[] = {
    [ELEMENT_F64] = {"f64", 8},   [ELEMENT_F32] = {"f32", 4},   [ELEMENT_BF16] = {"bf16", 2},
    [ELEMENT_FP16] = {"fp16", 2}, [ELEMENT_E4M3] = {"e4m3", 1}, [ELEMENT_E5M2] = {"e5m2", 1},
    [ELEMENT_U8] = {"u8", 1},
};

enum { ELEMENT_COUNT = sizeof ELEMENTS / sizeof ELEMENTS[0] };

uint64_t element_bytes(ElementType type) { return ELEMENTS[type].bytes; }

const char *element_name(ElementType type) { return ELEMENTS[type].name; }

bool element_from_name(const char *name, ElementType *type)
{
    if (strcmp(name, "fp8") == 0) name = element_name(ELEMENT_E4M3);
    for (int i = 0; i < ELEMENT_COUNT; i++) {
        if (strcmp(name, ELEMENTS[i].name) != 0) continue;
        *type = (ElementType)i;
        return true;
    }
    return false;
}

void round_elements(ElementType type, float *x, uint64_t count)
{
    switch (type) {
    case ELEMENT_F64:
    case ELEMENT_F32:
    case ELEMENT_U8: break;
    case ELEMENT_BF16:
        for (uint64_t i = 0; i < count; i++) x[i] = round_bf16(x[i]);
        break;
    case ELEMENT_FP16:
        for (uint64_t i = 0; i < count; i++) x[i] = round_fp16(x[i]);
        break;
    case ELEMENT_E4M3:
        for (uint64_t i = 0; i < count; i++) x[i] = round_e4m3(x[i], FP8_SATURATE);
        break;
    case ELEMENT_E5M2:
        for (uint64_t i = 0; i < count; i++) x[i] = round_e5m2(x[i], FP8_SATURATE);
        break;
    }
}
