/* bandwidth.h - what a few busy SMs draw from HBM.
 *
 * An SM alone has only so many reads in flight: r bytes per second. n of them draw n r while HBM has room; all together draw what
 * it sustains, S. Between they get in each other's way, softly: with
 *
 *     1 / B(n)^3 = 1 / (n r)^3 + 1 / A^3,   A such that B(all SMs) = S
 *
 * the curve meets both ends exactly and stays within 6 % of all points measured on an H200 (hw_profiles/measured/h200_micro2.csv;
 * tests/test_bandwidth.c). The exponent is the one number that was fitted, to those points; r and S are the profile's
 * (hbm_bytes_per_second_per_sm, hbm_sustained_...). So a quarter of the SMs draws half of the bandwidth, not a quarter (lecture
 * §6.1). Left out: writes, L2 hits, and reads in flight that depend on the kernel: r is that of a kernel which only reads.
 */
#ifndef ATTNLAB_BANDWIDTH_H
#define ATTNLAB_BANDWIDTH_H

#include "profile.h"

/* Bytes per second that `busy` SMs draw, rounded down; more than the chip has count as all. 0 for none; PROFILE_UNLIMITED if HBM
 * is. */
uint64_t hbm_bandwidth(const Profile *profile, uint64_t busy);

/* Nanoseconds in which `busy` SMs move `bytes`, rounded up; 0 if HBM is unlimited. */
uint64_t hbm_nanoseconds(const Profile *profile, uint64_t bytes, uint64_t busy);

#endif
