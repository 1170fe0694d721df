/* normal.h - standard normal numbers from Philox: element i of a stream, without state.
 *
 *     x_i = Phi^-1((u_i + 1/2) / 2^32),    u_i = philox_element(seed, stream, i),    Phi = the standard normal distribution
 *
 * One uniform gives one normal number, so x_i depends on (seed, stream, i) alone. The argument is a multiple of 2^-33 strictly
 * between 0 and 1, symmetric about 1/2: every x_i is finite, |x_i| <= 6.34, and u and its complement give opposite numbers.
 * What 32 bits leave out is the tail beyond that, of probability 2.3e-10, and x_i = 0.
 *
 * Phi^-1 is Wichura's rational approximation (measured: within 9e-16 of the quantile, relative: tests/test_normal) on our own
 * log and the square root, which IEEE 754 rounds correctly everywhere: the same bits from every compiler and C library.
 *
 * Source: M. J. Wichura, "Algorithm AS 241: The Percentage Points of the Normal Distribution", Applied Statistics 37 (1988),
 * PPND16.
 */
#ifndef ATTNLAB_NORMAL_H
#define ATTNLAB_NORMAL_H

#include <stdint.h>

/* Phi^-1(p) for 0 < p < 1; -inf at 0, inf at 1, NaN elsewhere. */
double normal_quantile(double p);

/* Element `index` of a stream. Streams as in philox.h. */
double normal_element(uint64_t seed, uint64_t stream, uint64_t index);

/* out[i] = normal_element(seed, stream, first + i), 0 <= i < count, in two thirds of the time (18 ms a million on
 * a Xeon of the Sapphire Rapids generation: tests/test_normal --time); the second form rounds to float. */
void normal_fill_f64(double *out, uint64_t count, uint64_t seed, uint64_t stream, uint64_t first);
void normal_fill_f32(float *out, uint64_t count, uint64_t seed, uint64_t stream, uint64_t first);

#endif
