/* test_normal.c - the normal quantile against tables and against the C library's erfc, and the numbers drawn with it.
 *
 *     tests/test_normal --time        also prints the time of a million numbers
 */
/* label: unit, property */
#include "sim/float_bits.h"
#include "sim/normal.h"
#include "sim/philox.h"
#include "test.h"

#include <math.h>
#include <time.h>

typedef struct {
    double p, want; /* Phi^-1 of the double p to 17 digits, by Newton steps on the series of Phi in 120-digit arithmetic */
} Quantile;

static const Quantile QUANTILES[] = {
    {0.5, 0},
    {0.75, 0.67448975019608174},
    {0.9, 1.2815515655446006},
    {0.95, 1.6448536269514723},
    {0.975, 1.9599639845400539},
    {0.99, 2.3263478740408408},
    {0.995, 2.5758293035489005},
    {0.999, 3.0902323061678133},
    {0.001, -3.0902323061678135},
    {1e-5, -4.2648907939228246},
    {1e-10, -6.3613409024040562},
    {1e-20, -9.2623400897984076},
};

static void test_quantiles(Test *t)
{
    char what[80];
    for (size_t i = 0; i < sizeof QUANTILES / sizeof QUANTILES[0]; i++) {
        snprintf(what, sizeof what, "Phi^-1(%g)", QUANTILES[i].p);
        check_close(t, normal_quantile(QUANTILES[i].p), QUANTILES[i].want, 9e-16, what);
    }
    check_close(t, normal_quantile(0), -(double)INFINITY, 0, "Phi^-1(0) = -inf");
    check_close(t, normal_quantile(1), (double)INFINITY, 0, "Phi^-1(1) = inf");
    check_true(t, isnan(normal_quantile(-0.1)) && isnan(normal_quantile(1.1)) && isnan(normal_quantile((double)NAN)),
               "Phi^-1 outside [0, 1] and of NaN is NaN");
}

/* Relative error of x = Phi^-1(p), by one Newton step: (Phi(x) - p) / phi(x) / x, Phi(x) = erfc(-x / sqrt 2) / 2. */
static double quantile_error(double p)
{
    const long double x = (long double)normal_quantile(p), root_half = 0.707106781186547524400844362104849039L;
    const long double density = expl(-x * x / 2) * 0.398942280401432677939946059934381868L;
    return (double)fabsl((erfcl(-x * root_half) / 2 - (long double)p) / density / x);
}

/* p over (0, 1/2) evenly and down to 1e-300 by ratio, so that all three regions are covered. */
static void test_quantile_error(Test *t)
{
    const double allowed = LDBL_MANT_DIG > DBL_MANT_DIG ? 9e-16 : 1e-14;
    double worst = 0, worst_p = 0;
    for (int i = 1; i < 60000; i++) {
        const double p = i < 30000 ? i / 60000.0 : exp(-(i - 30000) * 0.023), error = quantile_error(p);
        if (error > worst) {
            worst = error;
            worst_p = p;
        }
    }
    char what[80];
    snprintf(what, sizeof what, "Phi^-1(%g): relative error %.2g <= %.2g", worst_p, worst, allowed);
    check_true(t, worst <= allowed, what);
}

/* mean 0, variance 1, third moment 0, fourth 3, each within 5 standard errors of n = 10^6 draws. */
static void test_moments(Test *t)
{
    enum { COUNT = 1000000 };
    double sum[5] = {0};
    for (uint64_t i = 0; i < COUNT; i += 1000) {
        double x[1000];
        normal_fill_f64(x, 1000, 2024, 1, i);
        for (int j = 0; j < 1000; j++) {
            for (int k = 1; k <= 4; k++) sum[k] += k == 1 ? x[j] : k == 2 ? x[j] * x[j] : pow(x[j], k);
        }
    }
    check_close(t, sum[1] / COUNT, 0, 5e-3 * 1, "mean, standard error 1/sqrt n");
    check_close(t, sum[2] / COUNT - 1, 0, 5e-3 * 1.4143, "variance - 1, standard error sqrt(2/n)");
    check_close(t, sum[3] / COUNT, 0, 5e-3 * 3.873, "third moment, standard error sqrt(15/n)");
    check_close(t, sum[4] / COUNT - 3, 0, 5e-3 * 9.798, "fourth moment - 3, standard error sqrt(96/n)");
}

/* A filled array equals its elements, wherever in a block of four it starts and ends; the float form is the rounded one. */
static void test_fill(Test *t)
{
    static const uint64_t FIRSTS[] = {0, 1, 2, 3, 4, 1001, UINT64_C(1) << 40};
    for (size_t a = 0; a < sizeof FIRSTS / sizeof FIRSTS[0]; a++) {
        for (uint64_t count = 0; count <= 19; count++) {
            double x[20];
            float y[20];
            for (int i = 0; i < 20; i++) y[i] = (float)(x[i] = 99);
            normal_fill_f64(x, count, 42, 7, FIRSTS[a]);
            normal_fill_f32(y, count, 42, 7, FIRSTS[a]);
            for (uint64_t i = 0; i < 20; i++) {
                char what[96];
                const double want = i < count ? normal_element(42, 7, FIRSTS[a] + i) : 99;
                snprintf(what, sizeof what, "fill from %" PRIu64 ", count %" PRIu64 ": number %" PRIu64, FIRSTS[a], count, i);
                check_u64(t, bits_from_f64(x[i]), bits_from_f64(want), what);
                check_u64(t, bits_from_f32(y[i]), bits_from_f32((float)want), what);
            }
        }
    }
}

/* Every argument that an element can have is (u + 1/2) / 2^32: finite at both ends, odd about 1/2, never falling. */
static void test_symmetry(Test *t)
{
    char what[80];
    double previous = -(double)INFINITY;
    for (uint64_t u = 0; u < UINT64_C(1) << 31; u += u < 100000 ? 1 : 99991) {
        const double low = normal_quantile(((double)u + 0.5) * 0x1p-32);
        const double high = normal_quantile(((double)(UINT32_MAX - u) + 0.5) * 0x1p-32);
        snprintf(what, sizeof what, "Phi^-1 of u = %" PRIu64 " is finite, rises, and is minus that of ~u", u);
        check_true(t, isfinite(low) && low == -high && low >= previous && low < 0, what);
        previous = low;
    }
    check_close(t, normal_quantile(0x1p-33), -6.3379577545537893, 9e-16, "the smallest element");
    for (uint64_t i = 0; i < 1000; i++) {
        const double p = ((double)philox_element(3, 5, i) + 0.5) * 0x1p-32;
        check_u64(t, bits_from_f64(normal_element(3, 5, i)), bits_from_f64(normal_quantile(p)), "Phi^-1((u + 1/2) / 2^32)");
    }
}

/* FNV-1a over the bits of a hundred thousand numbers; the same from every compiler, level and vector width. */
static void test_same_bits(Test *t)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (uint64_t i = 0; i < 100000; i += 100) {
        double x[100];
        normal_fill_f64(x, 100, 1, 0, i);
        for (int j = 0; j < 100; j++) hash = (hash ^ bits_from_f64(x[j])) * 0x100000001b3u;
    }
    check_u64(t, hash, UINT64_C(0x7679726c36fe1bd7), "hash of 100000 normal numbers is that of every other build");
}

static void print_time(void)
{
    static double x[1000000];
    const clock_t start = clock();
    normal_fill_f64(x, 1000000, 1, 0, 0);
    const clock_t filled = clock();
    for (uint64_t i = 0; i < 1000000; i++) x[i] = normal_element(1, 0, i);
    const clock_t end = clock();
    printf("a million normal numbers: %.1f ms filled, %.1f ms one by one\n", (double)(filled - start) * 1e3 / CLOCKS_PER_SEC,
           (double)(end - filled) * 1e3 / CLOCKS_PER_SEC);
}

int main(int argc, char **argv)
{
    Test t = {0};
    test_quantiles(&t);
    test_quantile_error(&t);
    test_moments(&t);
    test_fill(&t);
    test_symmetry(&t);
    test_same_bits(&t);
    if (argc > 1 && strcmp(argv[1], "--time") == 0) print_time();
    return test_end(&t, "test_normal");
}
