/* test_math_functions.c - exp, exp2 and log: error in ULP against a wider reference, special cases, and the same bits everywhere.
 *
 * References: for float32 the C library's double functions, for float64 its long double functions where long double is wider
 * (elsewhere the double ones, with half an ULP more allowed). An error is |got - reference| in units in the last place of the
 * reference, the spacing of floats there: 2^-149 (2^-1074) throughout the subnormals.
 *
 *     tests/test_math_functions            about 4 million float32 arguments and 0.3 million float64 ones a function
 *     tests/test_math_functions --all      every float32 argument and 50 million float64 ones (6 minutes); prints the
 *                                          figures that math_functions.h states
 *     tests/test_math_functions --time     also prints nanoseconds per element of this build; for wider vectors configure with
 *                                          -DCMAKE_C_FLAGS=-mavx2, or "-mavx512f -mavx512dq -mprefer-vector-width=512"
 */
/* label: unit, property */
#include "sim/float_bits.h"
#include "sim/math_functions.h"
#include "sim/math_inline.h"
#include "sim/philox.h"
#include "test.h"

#include <math.h>
#include <time.h>

static double spacing(double x, int mantissa_bits, int min_exponent)
{
    int exponent = 0;
    frexp(x, &exponent); /* x = f 2^exponent, f in [1/2, 1) */
    const int leading = x == 0 || exponent - 1 < min_exponent ? min_exponent : exponent - 1;
    return ldexp(1.0, leading - mantissa_bits);
}

/* ---------------------------------------------------------------------------------------------------- error, float32 */

typedef struct {
    const char *name;
    float (*function)(float);
    double (*reference)(double);
    double stated_ulp;          /* the figure in math_functions.h */
} FunctionF32;

static const FunctionF32 FUNCTIONS_F32[] = {
    {"exp_f32", exp_f32, exp, 0.778},
    {"exp2_f32", exp2_f32, exp2, 0.792},
    {"log_f32", log_f32, log, 0.840},
};

/* ULP of error; 0 for equal infinities and for NaN where NaN is due; huge for any other mismatch of kind. */
static double error_f32(float got, double reference)
{
    const float nearest = (float)reference;
    if (isnan(reference) || isinf(nearest)) return (isnan(reference) && isnan(got)) || got == nearest ? 0 : HUGE_VAL;
    if (isnan(got)) return HUGE_VAL;
    return fabs((double)got - reference) / spacing(reference, 23, -126);
}

static void test_error_f32(Test *t, const FunctionF32 *f, uint32_t stride, bool print)
{
    double worst = 0;
    uint32_t worst_bits = 0;
    uint64_t tried = 0, not_nearest = 0;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += stride, tried++) {
        const float x = f32_from_bits((uint32_t)bits), got = f->function(x);
        const double reference = f->reference((double)x), error = error_f32(got, reference);
        if (!isnan(got) && got != (float)reference) not_nearest++;
        if (error > worst) {
            worst = error;
            worst_bits = (uint32_t)bits;
        }
    }
    char what[160];
    snprintf(what, sizeof what, "%s(%a): error %.4f ULP <= %.3f stated, over %" PRIu64 " arguments", f->name,
             (double)f32_from_bits(worst_bits), worst, f->stated_ulp, tried);
    check_true(t, worst <= f->stated_ulp, what);
    if (print) printf("%s, %.2f%% not the nearest\n", what, 100.0 * (double)not_nearest / (double)tried);
}

/* ---------------------------------------------------------------------------------------------------- error, float64 */

typedef struct {
    const char *name;
    double (*function)(double);
    long double (*reference)(long double);
    double lowest, highest;     /* arguments are uniform between these ... */
    bool all_exponents;         /* ... or have random bits */
    double stated_ulp;
} FunctionF64;

static const FunctionF64 FUNCTIONS_F64[] = {
    {"exp_f64", exp_f64, expl, -746, 710, false, 0.78},
    {"exp_f64 near 0", exp_f64, expl, -1, 1, false, 0.63},
    {"exp2_f64", exp2_f64, exp2l, -1076, 1025, false, 0.78},
    {"exp2_f64 near 0", exp2_f64, exp2l, -1, 1, false, 0.68},
    {"log_f64", log_f64, logl, 0, 0, true, 0.86},
    {"log_f64 near 1", log_f64, logl, 0.5, 2, false, 0.86},
};

static double error_f64(double got, long double reference)
{
    const double nearest = (double)reference;
    if (isnan(nearest) || isinf(nearest)) return (isnan(nearest) && isnan(got)) || got == nearest ? 0 : HUGE_VAL;
    if (isnan(got)) return HUGE_VAL;
    return (double)(fabsl((long double)got - reference) / (long double)spacing(nearest, 52, -1022));
}

static double argument_f64(const FunctionF64 *f, uint64_t index)
{
    const uint64_t random = (uint64_t)philox_element(7, 1, 2 * index) << 32 | philox_element(7, 1, 2 * index + 1);
    if (f->all_exponents) return f64_from_bits(random >> 1); /* positive, NaN now and then */
    return f->lowest + (f->highest - f->lowest) * ((double)(random >> 11) * 0x1p-53);
}

static void test_error_f64(Test *t, const FunctionF64 *f, uint64_t count, bool print)
{
    const double allowed = LDBL_MANT_DIG > DBL_MANT_DIG ? f->stated_ulp : f->stated_ulp + 0.5;
    double worst = 0, worst_x = 0;
    for (uint64_t i = 0; i < count; i++) {
        const double x = argument_f64(f, i), error = error_f64(f->function(x), f->reference((long double)x));
        if (error > worst) {
            worst = error;
            worst_x = x;
        }
    }
    char what[160];
    snprintf(what, sizeof what, "%s(%a): error %.4f ULP <= %.3f, over %" PRIu64 " arguments", f->name, worst_x, worst, allowed,
             count);
    check_true(t, worst <= allowed, what);
    if (print) printf("%s\n", what);
}

/* -------------------------------------------------------------------------------------------------- special cases */

typedef struct {
    const char *what;
    double (*function)(double);
    double x, want;             /* equal to the last bit, the sign of zero included; NaN means any NaN */
} SpecialF64;

static const SpecialF64 SPECIALS_F64[] = {
    {"exp_f64(0) = 1", exp_f64, 0.0, 1.0},
    {"exp_f64(-0) = 1", exp_f64, -0.0, 1.0},
    {"exp_f64(-inf) = 0", exp_f64, -INFINITY, 0.0},
    {"exp_f64(inf) = inf", exp_f64, INFINITY, INFINITY},
    {"exp_f64(NaN) = NaN", exp_f64, NAN, NAN},
    {"exp_f64(710) overflows", exp_f64, 710.0, INFINITY},
    {"exp_f64(ln of the largest) is finite", exp_f64, 0x1.62e42fefa39efp+9, 0x1.fffffffffff2ap+1023},
    {"exp_f64(next above) overflows", exp_f64, 0x1.62e42fefa39f0p+9, INFINITY},
    {"exp_f64(1e300) = inf", exp_f64, 1e300, INFINITY},
    {"exp_f64(-1e300) = 0", exp_f64, -1e300, 0.0},
    {"exp_f64(-745) = the smallest subnormal", exp_f64, -745.0, 0x1p-1074},
    {"exp_f64(-746) = 0", exp_f64, -746.0, 0.0},
    {"exp_f64(-1417) = 0", exp_f64, -1417.0, 0.0},
    {"exp_f64(subnormal) = 1", exp_f64, 0x1p-1074, 1.0},
    {"exp2_f64(-inf) = 0", exp2_f64, -INFINITY, 0.0},
    {"exp2_f64(inf) = inf", exp2_f64, INFINITY, INFINITY},
    {"exp2_f64(NaN) = NaN", exp2_f64, NAN, NAN},
    {"exp2_f64(1024) overflows", exp2_f64, 1024.0, INFINITY},
    {"exp2_f64(-1075) ties to even: 0", exp2_f64, -1075.0, 0.0},
    {"exp2_f64(-1e18) = 0", exp2_f64, -1e18, 0.0},
    {"exp2_f64(subnormal) = 1", exp2_f64, 0x1p-1074, 1.0},
    {"log_f64(1) = +0", log_f64, 1.0, 0.0},
    {"log_f64(0) = -inf", log_f64, 0.0, -INFINITY},
    {"log_f64(-0) = -inf", log_f64, -0.0, -INFINITY},
    {"log_f64(-1) = NaN", log_f64, -1.0, NAN},
    {"log_f64(-subnormal) = NaN", log_f64, -0x1p-1074, NAN},
    {"log_f64(-inf) = NaN", log_f64, -INFINITY, NAN},
    {"log_f64(inf) = inf", log_f64, INFINITY, INFINITY},
    {"log_f64(NaN) = NaN", log_f64, NAN, NAN},
    {"log_f64(smallest subnormal) = -1074 ln 2", log_f64, 0x1p-1074, -0x1.74385446d71c3p+9},
    {"log_f64(largest) = 1024 ln 2", log_f64, DBL_MAX, 0x1.62e42fefa39efp+9},
};

typedef struct {
    const char *what;
    float (*function)(float);
    float x, want;
} SpecialF32;

static const SpecialF32 SPECIALS_F32[] = {
    {"exp_f32(0) = 1", exp_f32, 0.0f, 1.0f},
    {"exp_f32(-0) = 1", exp_f32, -0.0f, 1.0f},
    {"exp_f32(-inf) = 0", exp_f32, -INFINITY, 0.0f},
    {"exp_f32(inf) = inf", exp_f32, INFINITY, INFINITY},
    {"exp_f32(NaN) = NaN", exp_f32, NAN, NAN},
    {"exp_f32(88.72283) is finite", exp_f32, 0x1.62e42ep+6f, 0x1.ffff08p+127f},
    {"exp_f32(88.72284) overflows", exp_f32, 0x1.62e430p+6f, INFINITY},
    {"exp_f32(-103.9) = the smallest subnormal", exp_f32, -103.9f, 0x1p-149f},
    {"exp_f32(-104) = 0", exp_f32, -104.0f, 0.0f},
    {"exp_f32(-1e30) = 0", exp_f32, -1e30f, 0.0f},
    {"exp2_f32(-inf) = 0", exp2_f32, -INFINITY, 0.0f},
    {"exp2_f32(inf) = inf", exp2_f32, INFINITY, INFINITY},
    {"exp2_f32(NaN) = NaN", exp2_f32, NAN, NAN},
    {"exp2_f32(128) overflows", exp2_f32, 128.0f, INFINITY},
    {"exp2_f32(-150) ties to even: 0", exp2_f32, -150.0f, 0.0f},
    {"exp2_f32(-253.5) = 0", exp2_f32, -253.5f, 0.0f},
    {"exp2_f32(-1e30) = 0", exp2_f32, -1e30f, 0.0f},
    {"log_f32(1) = +0", log_f32, 1.0f, 0.0f},
    {"log_f32(0) = -inf", log_f32, 0.0f, -INFINITY},
    {"log_f32(-0) = -inf", log_f32, -0.0f, -INFINITY},
    {"log_f32(-1) = NaN", log_f32, -1.0f, NAN},
    {"log_f32(-inf) = NaN", log_f32, -INFINITY, NAN},
    {"log_f32(inf) = inf", log_f32, INFINITY, INFINITY},
    {"log_f32(NaN) = NaN", log_f32, NAN, NAN},
    {"log_f32(smallest subnormal) = -149 ln 2", log_f32, 0x1p-149f, -0x1.9d1da0p+6f},
};

static void test_special_cases(Test *t)
{
    char what[160];
    for (size_t i = 0; i < sizeof SPECIALS_F64 / sizeof SPECIALS_F64[0]; i++) {
        const SpecialF64 *s = &SPECIALS_F64[i];
        const double got = s->function(s->x);
        snprintf(what, sizeof what, "%s: got %a, want %a", s->what, got, s->want);
        check_true(t, isnan(s->want) ? isnan(got) : bits_from_f64(got) == bits_from_f64(s->want), what);
    }
    for (size_t i = 0; i < sizeof SPECIALS_F32 / sizeof SPECIALS_F32[0]; i++) {
        const SpecialF32 *s = &SPECIALS_F32[i];
        const float got = s->function(s->x);
        snprintf(what, sizeof what, "%s: got %a, want %a", s->what, (double)got, (double)s->want);
        check_true(t, isnan(s->want) ? isnan(got) : bits_from_f32(got) == bits_from_f32(s->want), what);
    }
}

/* 2^n is exact for every n that has a result. */
static void test_powers_of_two(Test *t)
{
    char what[96];
    for (int n = -1074; n <= 1023; n++) {
        snprintf(what, sizeof what, "exp2_f64(%d) is exact", n);
        check_u64(t, bits_from_f64(exp2_f64((double)n)), bits_from_f64(ldexp(1.0, n)), what);
    }
    for (int n = -149; n <= 127; n++) {
        snprintf(what, sizeof what, "exp2_f32(%d) is exact", n);
        check_u64(t, bits_from_f32(exp2_f32((float)n)), bits_from_f32((float)ldexp(1.0, n)), what);
    }
}

/* ------------------------------------------------------------------------------------------------ the same bits everywhere */

enum { HASHED = 4096 };

/* FNV-1a over 64-bit words. */
static uint64_t hash_word(uint64_t hash, uint64_t word) { return (hash ^ word) * 0x100000001b3u; }

/* Outputs of all six functions over fixed arguments that reach every range; inline in loops, so vectorised where possible. */
static uint64_t hash_outputs(void)
{
    static const double LOWEST[] = {-1, -20, -110, -760}, HIGHEST[] = {1, 20, 95, 720};
    double x64[HASHED], y64[3][HASHED];
    float x32[HASHED], y32[3][HASHED];
    for (uint64_t i = 0; i < HASHED; i++) {
        const double uniform = (double)philox_element(11, 2, i) * 0x1p-32;
        x64[i] = LOWEST[i % 4] + (HIGHEST[i % 4] - LOWEST[i % 4]) * uniform;
        x32[i] = (float)x64[i];
    }
    for (int i = 0; i < HASHED; i++) y64[0][i] = exp_f64_inline(x64[i]);
    for (int i = 0; i < HASHED; i++) y64[1][i] = exp2_f64_inline(x64[i]);
    for (int i = 0; i < HASHED; i++) y64[2][i] = log_f64_inline(x64[i] * x64[i]);
    for (int i = 0; i < HASHED; i++) y32[0][i] = exp_f32_inline(x32[i]);
    for (int i = 0; i < HASHED; i++) y32[1][i] = exp2_f32_inline(x32[i]);
    for (int i = 0; i < HASHED; i++) y32[2][i] = log_f32_inline(x32[i] * x32[i]);
    uint64_t hash = 0xcbf29ce484222325u;
    for (int f = 0; f < 3; f++) {
        for (int i = 0; i < HASHED; i++) hash = hash_word(hash_word(hash, bits_from_f64(y64[f][i])), bits_from_f32(y32[f][i]));
    }
    return hash;
}

/* ------------------------------------------------------------------------------------------------------------- time */

static void apply_exp_f32(void *y, const void *x)
{
    float *to = y;
    for (int i = 0; i < HASHED; i++) to[i] = exp_f32_inline(((const float *)x)[i]);
}

static void apply_exp2_f32(void *y, const void *x)
{
    float *to = y;
    for (int i = 0; i < HASHED; i++) to[i] = exp2_f32_inline(((const float *)x)[i]);
}

static void apply_log_f32(void *y, const void *x)
{
    float *to = y;
    for (int i = 0; i < HASHED; i++) to[i] = log_f32_inline(((const float *)x)[i]);
}

static void apply_exp_f64(void *y, const void *x)
{
    double *to = y;
    for (int i = 0; i < HASHED; i++) to[i] = exp_f64_inline(((const double *)x)[i]);
}

static void apply_exp2_f64(void *y, const void *x)
{
    double *to = y;
    for (int i = 0; i < HASHED; i++) to[i] = exp2_f64_inline(((const double *)x)[i]);
}

static void apply_log_f64(void *y, const void *x)
{
    double *to = y;
    for (int i = 0; i < HASHED; i++) to[i] = log_f64_inline(((const double *)x)[i]);
}

static const struct {
    const char *name;
    void (*apply)(void *y, const void *x);
    bool is_f64, is_log;
} TIMED[] = {
    {"exp_f32", apply_exp_f32, false, false}, {"exp2_f32", apply_exp2_f32, false, false}, {"log_f32", apply_log_f32, false, true},
    {"exp_f64", apply_exp_f64, true, false},  {"exp2_f64", apply_exp2_f64, true, false},  {"log_f64", apply_log_f64, true, true},
};

/* The best of 20 rounds, each 1000 times over 4096 arguments in -20 ... 0 (log: 0 ... 20). */
static void print_times(void)
{
    static double x64[HASHED], y64[HASHED];
    static float x32[HASHED], y32[HASHED];
    for (size_t f = 0; f < sizeof TIMED / sizeof TIMED[0]; f++) {
        for (uint64_t i = 0; i < HASHED; i++) {
            x64[i] = (TIMED[f].is_log ? 20 : -20) * ((double)philox_element(11, 2, i) * 0x1p-32);
            x32[i] = (float)x64[i];
        }
        clock_t best = 0;
        for (int round = 0; round < 20; round++) {
            const clock_t start = clock();
            for (int i = 0; i < 1000 && TIMED[f].is_f64; i++) TIMED[f].apply(y64, x64);
            for (int i = 0; i < 1000 && !TIMED[f].is_f64; i++) TIMED[f].apply(y32, x32);
            const clock_t taken = clock() - start;
            if (round == 0 || taken < best) best = taken;
        }
        printf("%-9s %.2f ns per element\n", TIMED[f].name, (double)best / CLOCKS_PER_SEC * 1e9 / (1000.0 * HASHED));
    }
}

int main(int argc, char **argv)
{
    const bool all = argc > 1 && strcmp(argv[1], "--all") == 0;
    if (argc > 1 && strcmp(argv[1], "--time") == 0) print_times();
    Test t = {0};
    test_special_cases(&t);
    test_powers_of_two(&t);
    check_u64(&t, hash_outputs(), UINT64_C(0x89bf640c92688c67), "hash of 6 x 4096 outputs is that of every other build");
    for (size_t i = 0; i < sizeof FUNCTIONS_F32 / sizeof FUNCTIONS_F32[0]; i++)
        test_error_f32(&t, &FUNCTIONS_F32[i], all ? 1 : 1021, all);
    for (size_t i = 0; i < sizeof FUNCTIONS_F64 / sizeof FUNCTIONS_F64[0]; i++)
        test_error_f64(&t, &FUNCTIONS_F64[i], all ? 50000000 : 300000, all);
    return test_end(&t, "test_math_functions");
}
