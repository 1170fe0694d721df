/* fp8.h - the pass before FP8 attention: Q, K and V rotated and rounded to FP8 with their scales. Lecture §4.4.
 *
 *     X8 = round(s X J),   s = 448 / max |X J|,   descale = 1 / s
 *
 * Fused (Fp8Options::prepass false): whatever wrote Q, K and V did this while it had them in registers. With a scale per block
 * of rows a projection's epilogue or RoPE can: the block is there. Nothing of it is counted then. As kernels of its own: per
 * operand one launch that reads it in its own type and writes codes and scales; with one scale per tensor three, because the
 * largest magnitude of all is needed first: one that takes the maximum of each block, one (a single block per head) that takes
 * the maximum of those, and one that reads the operand again, rotates it again, and rounds.
 *
 * Traffic of the pass, elements: N d read (2 N d with a scale per tensor), N d written in one byte. Operations: d log2 b
 * additions a row for the rotation, 1 per element for the maximum, 1 for the scale. The rows are in registers, so shared memory
 * sees nothing. A real kernel's shuffles between threads are left out.
 */
#ifndef ATTNLAB_FP8_H
#define ATTNLAB_FP8_H

#include "attention.h"

/* Maxima of blocks that the kernel in the middle takes at once. */
enum { FP8_MAXIMA_AT_ONCE = 4096 };

/* Launches the pass if the shape quantises: counted, or (fused) only computed, when this machine computes. */
bool launch_fp8_prepass(Machine *machine, Attention *attention);

#endif
