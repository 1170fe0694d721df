/* test_formats.c - BF16, FP16, E4M3, E5M2 bit for bit: golden rows, every code, every halfway point, a second implementation.
 *
 *     tests/test_formats --time       also prints the time of rounding a million values
 */
/* label: unit, golden, property */
#include "sim/float_bits.h"
#include "sim/formats.h"
#include "sim/philox.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

/* ------------------------------------------------------------------------------- the formats as the standard defines them */

static uint32_t bf16_code(float x) { return bf16_from_f32(x); }
static uint32_t fp16_code(float x) { return fp16_from_f32(x); }
static uint32_t e4m3_code(float x) { return e4m3_from_f32(x, FP8_NONFINITE); }
static uint32_t e5m2_code(float x) { return e5m2_from_f32(x, FP8_NONFINITE); }
static uint32_t e4m3_saturating_code(float x) { return e4m3_from_f32(x, FP8_SATURATE); }
static uint32_t e5m2_saturating_code(float x) { return e5m2_from_f32(x, FP8_SATURATE); }
static float bf16_value(uint32_t code) { return f32_from_bf16((uint16_t)code); }
static float fp16_value(uint32_t code) { return f32_from_fp16((uint16_t)code); }
static float e4m3_value(uint32_t code) { return f32_from_e4m3((uint8_t)code); }
static float e5m2_value(uint32_t code) { return f32_from_e5m2((uint8_t)code); }
static float round_e4m3_nonfinite(float x) { return round_e4m3(x, FP8_NONFINITE); }
static float round_e5m2_nonfinite(float x) { return round_e5m2(x, FP8_NONFINITE); }
static float round_e4m3_saturating(float x) { return round_e4m3(x, FP8_SATURATE); }
static float round_e5m2_saturating(float x) { return round_e5m2(x, FP8_SATURATE); }

typedef struct {
    const char *name;
    int exponent_bits, mantissa_bits, bias;
    uint32_t largest;           /* code of the largest finite value */
    uint32_t beyond;            /* code of what is past it */
    uint32_t (*encode)(float);
    float (*decode)(uint32_t);
    float (*round)(float);
} Format;

static const Format FORMATS[] = {
    {"bf16", 8, 7, 127, 0x7f7f, 0x7f80, bf16_code, bf16_value, round_bf16},
    {"fp16", 5, 10, 15, 0x7bff, 0x7c00, fp16_code, fp16_value, round_fp16},
    {"e4m3", 4, 3, 7, 0x7e, 0x7f, e4m3_code, e4m3_value, round_e4m3_nonfinite},
    {"e5m2", 5, 2, 15, 0x7b, 0x7c, e5m2_code, e5m2_value, round_e5m2_nonfinite},
    {"e4m3 saturating", 4, 3, 7, 0x7e, 0x7e, e4m3_saturating_code, e4m3_value, round_e4m3_saturating},
    {"e5m2 saturating", 5, 2, 15, 0x7b, 0x7b, e5m2_saturating_code, e5m2_value, round_e5m2_saturating},
};

enum { FORMAT_COUNT = sizeof FORMATS / sizeof FORMATS[0] };

static uint32_t sign_bit(const Format *f) { return 1u << (f->exponent_bits + f->mantissa_bits); }

/* A finite code's value from the definition: (-1)^s 2^(max(e,1) - bias) (hidden bit + mantissa / 2^m). */
static double value_of_code(const Format *f, uint32_t code)
{
    const uint32_t mantissa = code & ((1u << f->mantissa_bits) - 1), exponent = (code & (sign_bit(f) - 1)) >> f->mantissa_bits;
    const uint32_t significand = mantissa | (exponent > 0 ? 1u << f->mantissa_bits : 0);
    const double magnitude = ldexp((double)significand, (exponent > 0 ? (int)exponent : 1) - f->bias - f->mantissa_bits);
    return code & sign_bit(f) ? -magnitude : magnitude;
}

/* The code of x by bisection over the magnitudes of all codes: the nearest, the even one when two are as near. */
static uint32_t slow_code(const Format *f, float x)
{
    const uint32_t sign = bits_from_f32(x) >> 31 ? sign_bit(f) : 0;
    const double magnitude = fabs((double)x);
    uint32_t low = 0, high = f->largest + 1; /* value(low) <= magnitude < value(high), as if the codes went on */
    if (magnitude >= value_of_code(f, high)) return sign | f->beyond;
    while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;
        if (value_of_code(f, middle) <= magnitude) low = middle;
        else high = middle;
    }
    const double below = magnitude - value_of_code(f, low), above = value_of_code(f, high) - magnitude;
    const uint32_t nearest = below < above || (below == above && low % 2 == 0) ? low : high;
    return sign | (nearest > f->largest ? f->beyond : nearest);
}

static bool same_value(float a, float b) { return bits_from_f32(a) == bits_from_f32(b) || (isnan(a) && isnan(b)); }

/* encode(x) is `want`, and rounding is encoding followed by decoding. */
static void check_code(Test *t, const Format *f, float x, uint32_t want, const char *how)
{
    char what[128];
    snprintf(what, sizeof what, "%s code of %a (bits %08" PRIx32 "), %s", f->name, (double)x, bits_from_f32(x), how);
    check_u64(t, f->encode(x), want, what);
    snprintf(what, sizeof what, "%s rounding of %a: got %a, want the value of code %" PRIx32, f->name, (double)x,
             (double)f->round(x), want);
    check_true(t, same_value(f->round(x), f->decode(want)), what);
}

/* ------------------------------------------------------------------------------------------------------------ golden files */

static void test_golden_encode(Test *t)
{
    FILE *file = fopen(TEST_DATA "/golden/formats.csv", "r");
    char line[128];
    uint64_t rows = 0;
    if (file == NULL || fgets(line, sizeof line, file) == NULL) {
        check_true(t, false, "golden/formats.csv can be read");
    } else {
        while (fgets(line, sizeof line, file) != NULL) {
            char *rest = line;
            const float x = f32_from_bits((uint32_t)strtoul(rest, &rest, 16));
            for (int i = 0; i < 4; i++) check_code(t, &FORMATS[i], x, (uint32_t)strtoul(rest + 1, &rest, 16), "golden row");
            rows++;
        }
    }
    if (file != NULL) fclose(file);
    check_u64(t, rows, 4258, "rows of golden/formats.csv");
}

static void test_golden_decode(Test *t)
{
    FILE *file = fopen(TEST_DATA "/golden/fp8_decode.csv", "r");
    char line[128], what[80];
    uint64_t rows = 0;
    if (file == NULL || fgets(line, sizeof line, file) == NULL) {
        check_true(t, false, "golden/fp8_decode.csv can be read");
    } else {
        while (fgets(line, sizeof line, file) != NULL) {
            char *rest = line;
            const uint32_t code = (uint32_t)strtoul(rest, &rest, 16);
            for (int i = 2; i < 4; i++) {
                const float want = strtof(rest + 1, &rest);
                snprintf(what, sizeof what, "value of %s code %02" PRIx32 ": got %a, want %a", FORMATS[i].name, code,
                         (double)FORMATS[i].decode(code), (double)want);
                check_true(t, same_value(FORMATS[i].decode(code), want), what);
            }
            rows++;
        }
    }
    if (file != NULL) fclose(file);
    check_u64(t, rows, 256, "rows of golden/fp8_decode.csv");
}

/* --------------------------------------------------------------------------------------------------------------- all codes */

/* Every finite code has the value of the definition, and comes back from it; NaN codes are NaN and keep their sign. */
static void test_every_code(Test *t, const Format *f)
{
    char what[96];
    for (uint32_t code = 0; code < 2 * sign_bit(f); code++) {
        const uint32_t magnitude = code & (sign_bit(f) - 1), sign = code & sign_bit(f);
        const float value = f->decode(code);
        snprintf(what, sizeof what, "%s code %04" PRIx32 " decodes to %a", f->name, code, (double)value);
        if (magnitude <= f->largest) {
            check_true(t, same_value(value, (float)value_of_code(f, code)), what);
            check_code(t, f, value, code, "decoded from it");
        } else if (isinf(value)) {
            check_true(t, magnitude == f->largest + 1 && (value < 0) == (sign != 0), what);
            check_code(t, f, value, sign | f->beyond, "infinity");
        } else {
            check_true(t, isnan(value) && (bits_from_f32(value) >> 31 != 0) == (sign != 0), what);
            check_true(t, isnan(f->decode(f->encode(value))) && (f->encode(value) & sign_bit(f)) == sign, what);
            if (f->encode == fp16_code) check_u64(t, f->encode(value), code, "fp16 NaN codes keep their payload");
        }
    }
}

/* Between neighbours a < b: the halfway point goes to the even one, the floats beside it to the nearer one. The last pair is the
 * largest finite value and what would follow it: 464 for E4M3, 65520 for FP16. */
static void test_every_halfway_point(Test *t, const Format *f)
{
    for (uint32_t low = 0; low <= f->largest; low++) {
        const uint32_t high = low == f->largest ? f->beyond : low + 1, even = low % 2 == 0 ? low : high;
        const double halfway = (value_of_code(f, low) + value_of_code(f, low + 1)) / 2;
        if (halfway >= 0x1.ffffffp127) continue; /* rounds to infinity as a float32 already */
        for (uint32_t sign = 0; sign <= sign_bit(f); sign += sign_bit(f)) {
            const float x = (float)(sign ? -halfway : halfway), away = sign ? -INFINITY : INFINITY;
            check_code(t, f, x, sign | even, "halfway");
            check_code(t, f, nextafterf(x, 0.0f), sign | low, "just under halfway");
            check_code(t, f, nextafterf(x, away), sign | high, "just over halfway");
        }
    }
}

/* -------------------------------------------------------------------------------------------- random values and special cases */

/* Random bits, and random numbers within the format's own exponents (subnormals and the overflow edge included). */
static void test_random(Test *t, const Format *f)
{
    for (uint64_t i = 0; i < 40000; i++) {
        const uint32_t bits = philox_element(1, 4, 2 * i);
        float x = f32_from_bits(bits);
        if (i % 2 == 1) {
            const int exponents = (1 << f->exponent_bits) + f->mantissa_bits + 4;
            const int exponent = (int)(philox_element(1, 4, 2 * i + 1) % (uint32_t)exponents) - f->bias - f->mantissa_bits - 2;
            x = ldexpf(f32_from_bits((bits & 0x807fffffu) | 0x3f800000u), exponent);
        }
        if (!isnan(x)) check_code(t, f, x, slow_code(f, x), "against bisection");
    }
}

static void test_special(Test *t, const Format *f)
{
    static const uint32_t NANS[] = {0x7fc00000u, 0x7f800001u, 0x7fffffffu, 0x7fa55aa5u};
    for (size_t i = 0; i < sizeof NANS / sizeof NANS[0]; i++) {
        for (uint32_t sign = 0; sign <= 1; sign++) {
            const float x = f32_from_bits(NANS[i] | sign << 31);
            char what[96];
            snprintf(what, sizeof what, "%s: NaN %08" PRIx32 " stays NaN and keeps its sign", f->name, bits_from_f32(x));
            check_true(t, isnan(f->decode(f->encode(x))) && (f->encode(x) & sign_bit(f)) == sign * sign_bit(f), what);
            check_u64(t, bits_from_f32(f->round(x)), 0x7fc00000u | sign << 31, what);
        }
    }
    check_code(t, f, -0.0f, sign_bit(f), "minus zero");
    check_code(t, f, -0x1p-149f, sign_bit(f), "the smallest float, negative: minus zero");
    check_code(t, f, INFINITY, f->beyond, "infinity");
    check_code(t, f, -INFINITY, sign_bit(f) | f->beyond, "minus infinity");
}

typedef struct {
    float x, saturating, nonfinite;
} Range;

/* E4M3 around its range, and its subnormals in units of 2^-9. */
static const Range E4M3_RANGE[] = {
    {448, 448, 448},
    {449, 448, 448},
    {464, 448, 448},
    {465, 448, NAN},
    {1000, 448, NAN},
    {-1000, -448, NAN},
    {INFINITY, 448, NAN},
    {NAN, NAN, NAN},
    {0x1p-10f, 0, 0},                       /* 0.5 -> 0, even */
    {0x1.8p-10f, 0x1p-9f, 0x1p-9f},         /* 0.75 -> 1 */
    {0x1.8p-9f, 0x1p-8f, 0x1p-8f},          /* 1.5 -> 2 */
    {0x1.4p-8f, 0x1p-8f, 0x1p-8f},          /* 2.5 -> 2 */
    {0x1.ep-7f, 0x1p-6f, 0x1p-6f},          /* 7.5 -> 8, the smallest normal */
};

static void test_e4m3_range(Test *t)
{
    for (size_t i = 0; i < sizeof E4M3_RANGE / sizeof E4M3_RANGE[0]; i++) {
        const Range *r = &E4M3_RANGE[i];
        check_close(t, (double)round_e4m3(r->x, FP8_SATURATE), (double)r->saturating, 0, "e4m3, saturating");
        check_close(t, (double)round_e4m3(r->x, FP8_NONFINITE), (double)r->nonfinite, 0, "e4m3, NaN past 464");
    }
    check_close(t, (double)round_e5m2(1e9f, FP8_SATURATE), 57344, 0, "e5m2, saturating");
    check_close(t, (double)round_e5m2(61440.0f, FP8_NONFINITE), HUGE_VAL, 0, "e5m2, infinity from 61440");
}

/* ---------------------------------------------------------------------------------------------------------- element types */

typedef struct {
    ElementType type;
    const char *name;
    uint64_t bytes;
    float (*round)(float);      /* NULL: the value stays */
} Element;

static const Element ELEMENTS[] = {
    {ELEMENT_F64, "f64", 8, NULL},
    {ELEMENT_F32, "f32", 4, NULL},
    {ELEMENT_BF16, "bf16", 2, round_bf16},
    {ELEMENT_FP16, "fp16", 2, round_fp16},
    {ELEMENT_E4M3, "e4m3", 1, round_e4m3_saturating},
    {ELEMENT_E5M2, "e5m2", 1, round_e5m2_saturating},
};

static void test_elements(Test *t)
{
    enum { COUNT = 1003 };
    for (size_t e = 0; e < sizeof ELEMENTS / sizeof ELEMENTS[0]; e++) {
        const Element *element = &ELEMENTS[e];
        ElementType type = ELEMENT_F64;
        check_text(t, element_name(element->type), element->name, "element_name");
        check_u64(t, element_bytes(element->type), element->bytes, element->name);
        check_true(t, element_from_name(element->name, &type) && type == element->type, element->name);
        float x[COUNT], want[COUNT];
        for (int i = 0; i < COUNT; i++) {
            x[i] = f32_from_bits(philox_element(8, e, (uint64_t)i));
            want[i] = element->round == NULL ? x[i] : element->round(x[i]);
        }
        round_elements(element->type, x, COUNT - 1);
        want[COUNT - 1] = x[COUNT - 1];
        for (int i = 0; i < COUNT; i++) check_true(t, same_value(x[i], want[i]), "round_elements = rounding one by one");
    }
    ElementType type = ELEMENT_BF16;
    check_true(t, element_from_name("fp8", &type) && type == ELEMENT_E4M3, "fp8 is e4m3");
    const bool refused = !element_from_name("fp32", &type) && !element_from_name("", &type);
    check_true(t, refused && type == ELEMENT_E4M3, "unknown names are refused and leave the type alone");
}

static void print_times(void)
{
    enum { COUNT = 1000000 };
    static float x[COUNT];
    for (size_t e = 2; e < sizeof ELEMENTS / sizeof ELEMENTS[0]; e++) {
        for (uint64_t i = 0; i < COUNT; i++) x[i] = (float)((double)philox_element(8, 0, i) * 0x1p-30 - 2);
        const clock_t start = clock();
        for (int round = 0; round < 10; round++) round_elements(ELEMENTS[e].type, x, COUNT);
        printf("%s: %.2f ms for a million values\n", ELEMENTS[e].name, (double)(clock() - start) * 1e2 / CLOCKS_PER_SEC);
    }
}

int main(int argc, char **argv)
{
    Test t = {0};
    test_golden_encode(&t);
    test_golden_decode(&t);
    for (int i = 0; i < FORMAT_COUNT; i++) {
        test_every_code(&t, &FORMATS[i]);
        test_every_halfway_point(&t, &FORMATS[i]);
        test_random(&t, &FORMATS[i]);
        test_special(&t, &FORMATS[i]);
    }
    test_e4m3_range(&t);
    test_elements(&t);
    if (argc > 1 && strcmp(argv[1], "--time") == 0) print_times();
    return test_end(&t, "test_formats");
}
