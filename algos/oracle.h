/* oracle.h - the textbook definition in float64: what every kernel's numbers are compared with.
 *
 * One row at a time, no blocks, no running maximum: m_i = max over visible keys of scale q_i . k_j, l_i = sum e^(s - m), O_i = sum e^(s - m)
 * v_j / l_i, L_i = m_i + log l_i. Slow, and meant to be read first. A row without visible keys has O = 0, L = -inf. Hidden keys are
 * never touched, so what stands behind a mask cannot show.
 */
#ifndef ATTNLAB_ORACLE_H
#define ATTNLAB_ORACLE_H

#include "attention.h"

/* The machine must compute (MODE_NUMERIC). O: [batch, heads, N_q, d], L: [batch, heads, N_q], both float64; L may be NULL. Inputs are
 * the tensors as they stand in HBM, already rounded to their type. False when there is no memory for one row of scores. */
bool oracle_forward(const Attention *attention, const Machine *machine, double *O, double *L);

typedef struct {
    double max_abs_O;       /* max |O - O_oracle|; NaN on one side only, or different infinities, count as infinite */
    double max_abs_L;       /* the same for L; 0 when the algorithm keeps none */
    double max_O;           /* max |O_oracle| */
} ForwardError;

/* Compares the tensors O and L with the oracle's. */
bool oracle_compare(const Attention *attention, const Machine *machine, ForwardError *error);

#endif
