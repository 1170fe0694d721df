/* count_case.h - one shape, one algorithm, counted by a walk: what the counting tests have in common. */
#ifndef ATTNLAB_COUNT_CASE_H
#define ATTNLAB_COUNT_CASE_H

#include "brute_force.h"

#include "algos/run.h"

#include <stddef.h>

typedef struct {
    const Algorithm *algorithm;
    AttentionShape shape;
    TileSize tiles;
    L2Model l2;
} CountCase;

/* Prepares and walks the forward pass; L2 and precision come from the case. Numeric runs get random inputs. Free with
 * attention_run_free, also after a failure. */
bool count_walk(AttentionRun *run, const CountCase *c, MachineConfig config, const Profile *profile, Alloc *alloc,
                Status *status);

/* The same with options of algorithm_decode; other algorithms pass them over. */
bool count_walk_decode(AttentionRun *run, const CountCase *c, DecodeOptions decode, MachineConfig config, const Profile *profile, Alloc *alloc,
                       Status *status);

/* Any parts, up to twice the key blocks, any packing and order of merging. */
DecodeOptions random_decode(const CountCase *c, uint64_t *random);

/* "fa2 B=1 H=4/2 Nq=5 Nk=7 d=3 Br=2 Bc=4 causal window -1,-1 bf16 l2 none" */
void count_case_name(const CountCase *c, char *text, size_t size);

/* The problem for brute_force(); what depends on the kernel is as the closed form has it. */
BruteProblem brute_problem(const CountCase *c, const CountedProblem *p);

/* Whether query i sees key j, from the words of attention.h: bottom-right alignment unless top-left is asked for, windows inclusive and
 * bottom-right, -1 unbounded. */
bool sees(const AttentionShape *s, uint64_t i, uint64_t j);

/* The counters that walk, closed form and brute force share, under the same names: where they lie in Totals, ClosedForm and
 * BruteCounts. */
enum { COUNT_FIELDS = 14 };
typedef struct {
    const char *name;
    size_t walk, form, brute;
} CountField;
extern const CountField count_fields[COUNT_FIELDS];
uint64_t count_at(const void *record, size_t offset);

/* Deterministic pseudo-random numbers for choosing shapes (splitmix64): uniform in low .. high. */
uint64_t random_between(uint64_t *state, uint64_t low, uint64_t high);
/* A length near a block edge, a prime, or anything. */
uint64_t random_length(uint64_t *random, uint64_t block);
/* Any mask and window; any batch (also none) and heads, up to `most` K/V heads with up to `most` query heads each (also none). */
void random_mask(AttentionShape *shape, uint64_t *random);
void random_heads(AttentionShape *shape, uint64_t *random, uint64_t most);

#endif
