/* normal.c - see normal.h.
 *
 * The three regions of AS 241: the centre |p - 1/2| <= 0.425 (85 % of the numbers), the tail, and the far tail below e^-25, which
 * 32-bit uniforms never reach. The coefficients are the paper's.
 */
#include "normal.h"
#include "math_inline.h"
#include "philox.h"

#include <math.h>

/* Numerator and denominator of degree 7, constant term first. */
typedef struct {
    double numerator[8], denominator[8];
} Rational;

static const Rational CENTRE = {
    {3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
     4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3},
    {1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
     2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3},
};
static const Rational TAIL = {
    {1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
     1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4},
    {1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
     1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9},
};
static const Rational FAR_TAIL = {
    {6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
     2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7},
    {1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
     7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15},
};

static inline double rational(const Rational *r, double x)
{
    double numerator = r->numerator[7], denominator = r->denominator[7];
    for (int i = 6; i >= 0; i--) {
        numerator = numerator * x + r->numerator[i];
        denominator = denominator * x + r->denominator[i];
    }
    return numerator / denominator;
}

/* Phi^-1(p) for 0 < p < 1. */
static inline double quantile(double p)
{
    const double q = p - 0.5;
    if (q >= -0.425 && q <= 0.425) return q * rational(&CENTRE, 0.180625 - q * q); /* 0.425^2 */
    const double tail = q < 0 ? p : 1.0 - p, r = sqrt(-log_f64_inline(tail));
    const double x = r <= 5.0 ? rational(&TAIL, r - 1.6) : rational(&FAR_TAIL, r - 5.0);
    return q < 0 ? -x : x;
}

static inline double normal_from_bits(uint32_t u) { return quantile(((double)u + 0.5) * 0x1p-32); }

double normal_quantile(double p)
{
    if (p > 0.0 && p < 1.0) return quantile(p);
    return p == 0.0 ? -(double)INFINITY : p == 1.0 ? (double)INFINITY : (double)NAN;
}

double normal_element(uint64_t seed, uint64_t stream, uint64_t index)
{
    return normal_from_bits(philox_element(seed, stream, index));
}

/* Uniforms of elements first, first + 1, ... up to the end of their block of four; how many (1 to 4, at most `count`). */
static uint64_t block_from(uint32_t u[4], uint64_t count, uint64_t seed, uint64_t stream, uint64_t first)
{
    const uint64_t skipped = first % 4, available = 4 - skipped;
    uint32_t block[4];
    philox_block(seed, stream, first / 4, block);
    for (uint64_t i = 0; i < available; i++) u[i] = block[skipped + i];
    return available < count ? available : count;
}

void normal_fill_f64(double *out, uint64_t count, uint64_t seed, uint64_t stream, uint64_t first)
{
    uint32_t u[4];
    for (uint64_t done = 0; done < count;) {
        const uint64_t n = block_from(u, count - done, seed, stream, first + done);
        for (uint64_t i = 0; i < n; i++) out[done + i] = normal_from_bits(u[i]);
        done += n;
    }
}

void normal_fill_f32(float *out, uint64_t count, uint64_t seed, uint64_t stream, uint64_t first)
{
    uint32_t u[4];
    for (uint64_t done = 0; done < count;) {
        const uint64_t n = block_from(u, count - done, seed, stream, first + done);
        for (uint64_t i = 0; i < n; i++) out[done + i] = (float)normal_from_bits(u[i]);
        done += n;
    }
}
