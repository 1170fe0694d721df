/* oracle.h - the textbook definition in float64: what every kernel's numbers are compared with.
 *
 * One row at a time, no blocks, no running maximum: m_i = max over visible keys of scale q_i . k_j, l_i = sum e^(s - m), O_i = sum e^(s - m)
 * v_j / l_i, L_i = m_i + log l_i. Slow, and meant to be read first. A row without visible keys has O = 0, L = -inf. Hidden keys are
 * never touched, so what stands behind a mask cannot show. Dropout keeps or drops what was normalised: O_i = sum Z_ij p_ij v_j / (1 - p).
 */
#ifndef ATTNLAB_ORACLE_H
#define ATTNLAB_ORACLE_H

#include "attention.h"

/* The machine must compute (MODE_NUMERIC). O: [batch, heads, N_q, d], L: [batch, heads, N_q], both float64; L may be NULL. Inputs are
 * the tensors as they stand in HBM, already rounded to their type. False when there is no memory for one row of scores. */
bool oracle_forward(const Attention *attention, const Machine *machine, double *O, double *L);

/* Gradients by full rows, float64: P and dP of a row in memory, dS = P o (dP - sum_k P_k dP_k), the sum taken over the row itself and not
 * through dO . O, so that the identity is tested and not assumed. dQ as Q; dK, dV as K (summed over the group). Needs dO. */
bool oracle_backward(const Attention *attention, const Machine *machine, double *dQ, double *dK, double *dV);

typedef struct {
    double max_abs_O;       /* max |O - O_oracle|; NaN on one side only, or different infinities, count as infinite */
    double max_abs_L;       /* the same for L; 0 when the algorithm keeps none */
    double max_O;           /* max |O_oracle|; NaN if one of them is */
} ForwardError;

/* Compares the tensors O and L with the oracle's. */
bool oracle_compare(const Attention *attention, const Machine *machine, ForwardError *error);

typedef struct {
    double max_abs_dQ, max_abs_dK, max_abs_dV;  /* as above */
    double max_gradient;                        /* the largest gradient of the oracle */
} BackwardError;

bool oracle_compare_backward(const Attention *attention, const Machine *machine, BackwardError *error);

#endif
