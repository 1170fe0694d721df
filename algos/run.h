/* run.h - one algorithm on one problem on one machine, from nothing to totals: what programs and tests start from.
 *
 *     AttentionRun run;
 *     if (attention_run_prepare(&run, &setup, &shape, alloc, status)) { ... place inputs ... attention_run_forward(&run) ... }
 *     attention_run_free(&run);
 */
#ifndef ATTNLAB_RUN_H
#define ATTNLAB_RUN_H

#include "algorithm.h"

typedef struct {
    const Algorithm *algorithm;
    const Profile *profile;
    TileSize tiles;             /* {0, 0}: fitting_tiles() */
    MachineConfig config;
} RunSetup;

typedef struct {
    RunSetup setup;             /* with the tiles that are used */
    Machine machine;
    Attention attention;
    CountedProblem problem;     /* what the closed forms take */
    TileSize backward_tiles;
    CountedBackward backward_problem;
    Totals totals;              /* after attention_run_forward */
    ClosedForm closed_form;     /* from the start, all zero when the algorithm has none; with a simulated L2 its hbm_* are those without L2 */
} AttentionRun;

/* Chooses tiles, lays the problem out in HBM and evaluates the closed form. attention_run_free is the caller's even after a failure. */
bool attention_run_prepare(AttentionRun *run, const RunSetup *setup, const AttentionShape *shape, Alloc *alloc, Status *status);

/* Gives a prepared run of algorithm_decode its options (before: FlashAttention-2's) and evaluates the closed form for them. */
bool attention_run_set_decode(AttentionRun *run, DecodeOptions options);

/* A run that would take longer is refused, by its closed form and before it starts: half a minute of counting, some minutes of arithmetic.
 * A count walks one head, a numeric run computes all. */
#define MAX_WALKED_TILE_PAIRS (UINT64_C(1) << 30)
#define MAX_NUMERIC_FLOPS     (UINT64_C(1) << 41)

/* STATUS_INFEASIBLE with what the closed form says when a forward run would be too long; attention_run_forward asks this itself. */
bool attention_run_short_enough(const AttentionRun *run);

/* Launches the kernels and sums up. STATUS_INFEASIBLE with what the closed form says when the run would be too long. */
bool attention_run_forward(AttentionRun *run);

void attention_run_free(AttentionRun *run);

/* The backward pass of a prepared run: adds dO, dQ, dK, dV and the closed form for these tiles ({0, 0}: fitting_backward_tiles()). */
bool attention_run_prepare_backward(AttentionRun *run, TileSize tiles, BackwardVariant variant);

/* Launches the backward kernels. When computing, after attention_run_forward: they need its O and L (or P). totals, closed_form and the
 * machine's ledger then are the backward pass' alone. */
bool attention_run_backward(AttentionRun *run);

/* prepare and forward in one go, in MODE_COUNT. */
bool attention_count(AttentionRun *run, const Algorithm *algorithm, const AttentionShape *shape, TileSize tiles, L2Model l2,
                     const Profile *profile, Alloc *alloc, Status *status);

/* The formula with an ideal L2 of a run whose L2 is another: the least that HBM can see. `backward`: of attention_run_backward's pass. */
bool attention_run_ideal_form(const AttentionRun *run, bool backward, ClosedForm *ideal);

/* A total beside its formula. */
typedef struct {
    const char *name;           /* as in Totals */
    uint64_t counted, formula;
} CountPair;

enum { COUNT_PAIRS = 14 };

/* Every quantity that both have, in the order of Totals. */
void count_pairs(const Totals *totals, const ClosedForm *form, CountPair pairs[COUNT_PAIRS]);

#endif
