/* exp_mix.h - k of 16 exponentials by a polynomial, the others by MUFU: how many clocks, by two models. Lecture §5.2.
 *
 *     two units    clocks of 16 elements per thread and SM = max((16 - k) / X, (k p + (16 - k) m + r) / I)
 *                  X: MUFU results per clock; I: instructions of threads that are issued per clock (four schedulers x 32 lanes = 128 at best);
 *                  p, m: instructions of a polynomial and of a MUFU element; r: of the loop around them
 *     machine      what sim/cost.c charges for the same work: the same two units, and the time that one warp's chain of instructions takes
 *
 * Both overlap the units perfectly. On the chip they do not where both are nearly full: at the best share it is 5 to 10 % slower.
 */
#ifndef ATTNLAB_EXP_MIX_H
#define ATTNLAB_EXP_MIX_H

#include "sim/alloc.h"
#include "sim/profile.h"
#include "sim/status.h"

typedef struct {
    double mufu_rate, issue_rate;               /* X, I */
    double polynomial, mufu, loop;              /* p, m, r */
} ExpMixModel;

/* Clocks per 16 elements, one thread's worth; 16 over them is 2^x per clock and SM. */
double exp_mix_clocks(const ExpMixModel *model, uint32_t k);
/* The k of 0 to 16 with the fewest clocks. */
uint32_t exp_mix_best(const ExpMixModel *model);

/* Constants from two of the 13 measured mixtures, the pure polynomial and k = 8 (both bound by instructions), of h200_exp_mix.csv; X is the
 * profile's, I 128. The other eleven are predictions. */
ExpMixModel exp_mix_fitted(const Profile *chip);
/* Instructions as counted in the machine code of h200_exp_warps.csv; X and I from its pure mixtures at 32 warps. */
ExpMixModel exp_mix_counted(void);

/* Clocks that the machine charges one exp_rows of 32 `warps` rows x 16 columns, issued by so many warps. */
bool exp_mix_machine(uint64_t *clocks, const Profile *chip, uint32_t warps, uint32_t k, Alloc *alloc, Status *status);

#endif
