/* algorithm.h - what an attention algorithm is to the programs: a row of a table.
 *
 * To add one: write algos/NAME.c with its kernels, ending in a `const Algorithm algorithm_NAME`; declare that below, list it in
 * algorithm.c, and give it a closed form in closed_forms.c (or NULL). Every program, test and option then knows it.
 */
#ifndef ATTNLAB_ALGORITHM_H
#define ATTNLAB_ALGORITHM_H

#include "attention.h"
#include "closed_forms.h"

#include <math.h>

typedef struct {
    uint32_t Br, Bc;
} TileSize;

/* How a kernel sits on an SM, for given tiles. */
typedef struct {
    uint32_t threads;
    uint32_t registers_per_thread;
    InstructionShape shape;
} Geometry;

/* The same for a backward pass, whose products differ in how the warps share them. */
typedef struct {
    uint32_t threads;
    uint32_t registers_per_thread;
    InstructionShape scores, key_gradients, query_gradients;    /* S and dP; dK and dV; dQ */
} BackwardGeometry;

typedef struct Algorithm {
    const char *name;                       /* as on the command line */
    const char *title;
    const char *source;
    TensorInstruction instruction;          /* chips without it cannot run the algorithm */
    TileSize (*tiles)(const AttentionShape *shape);     /* the tiles of the real kernel, BF16 */
    Geometry (*geometry)(const AttentionShape *shape, TileSize tiles);
    bool (*forward)(Machine *machine, Attention *attention);    /* launches the kernels; O (and L where kept) then hold the result */
    bool (*closed_form)(const CountedProblem *problem, ClosedForm *form, Status *status);  /* NULL: none */
    bool (*backward)(Machine *machine, Attention *attention);   /* needs O and dO, L or P; fills dQ, dK, dV. NULL: none */
    TileSize (*backward_tiles)(const AttentionShape *shape);
    bool (*backward_closed_form)(const CountedBackward *problem, ClosedForm *form, Status *status);
} Algorithm;

extern const Algorithm algorithm_standard, algorithm_fa1, algorithm_fa1_shipped, algorithm_fa2, algorithm_fa3, algorithm_fa4, algorithm_decode;

size_t algorithm_count(void);
const Algorithm *algorithm_at(size_t index);
/* STATUS_USAGE with the nearest name and all names when there is none of this name; NULL then. */
const Algorithm *algorithm_find(const char *name, Status *status);

/* FlashAttention-3's warpgroups, in both passes: at most MAX_CONSUMERS compute, beside a producer's. */
enum { MAX_CONSUMERS = 4 };
/* Consumer warpgroups of the forward pass for this problem. */
uint32_t fa3_consumers(const Attention *a);
/* The producer: a warpgroup with few registers, of which one warp copies; `consumers` warpgroups have the rest. */
Stream *fa3_producer(Block *b, uint32_t consumers, bool fp8);
Stream *fa3_consumer(Block *b, uint32_t index);
/* Whether some pair may be hidden, which decides the real kernels' tiles. */
bool fa3_is_masked(const AttentionShape *shape);

/* FlashAttention-2's backward (fa2_backward.c). */
bool fa2_backward(Machine *machine, Attention *attention);
TileSize fa2_backward_tiles(const AttentionShape *shape);
BackwardGeometry fa2_backward_geometry(const AttentionShape *shape, TileSize tiles);
/* Deterministic mode: thread blocks, and float32 copies of dQ, per head. */
uint64_t fa2_backward_splits(uint64_t sm_count, const AttentionShape *shape, uint64_t key_blocks_per_head);

/* FlashAttention-3's backward (fa3_backward.c). */
bool fa3_backward(Machine *machine, Attention *attention);
TileSize fa3_backward_tiles(const AttentionShape *shape);
BackwardGeometry fa3_backward_geometry(const AttentionShape *shape, TileSize tiles);

/* FlashAttention-4's backward (fa4_backward.c). */
bool fa4_backward(Machine *machine, Attention *attention);
TileSize fa4_backward_tiles(const AttentionShape *shape);
BackwardGeometry fa4_backward_geometry(void);

/* Standard attention's backward (standard_backward.c). */
bool standard_backward(Machine *machine, Attention *attention);

/* A kernel of `algorithm` with its geometry for this problem. */
Kernel attention_kernel(const Algorithm *algorithm, const char *name, const Attention *a,
                        void (*run)(Block *block, const void *arguments, uint64_t index));

/* Block sizes by the FlashAttention paper's rule for M elements of on-chip memory: Bc = ceil(M / 4d), Br = min(Bc, d)
 * (Dao et al. 2022, Algorithm 1, line 1). */
TileSize paper_tiles(uint64_t sram_elements, uint64_t head_dim);

/* The tiles a run uses when none are given: the real kernel's, halved (the larger side first, down to 16) until one block fits the chip. That
 * happens for wide element types and head dims past the real kernels' range. A failure names what does not fit. */
bool fitting_tiles(const Algorithm *algorithm, const AttentionShape *shape, const Profile *profile, Alloc *alloc, TileSize *tiles,
                   Status *status);

/* Elements of a row of S that a softmax block holds: the whole row if it fits in shared memory. */
uint64_t standard_softmax_cols(uint64_t smem_bytes_per_block, const AttentionShape *shape);
/* The strip of an N_q x N_k matrix that fits in `bytes`: as many whole rows as fit, at most 32; else part of one row. */
void standard_strip(uint64_t bytes, const AttentionShape *shape, uint32_t *rows, uint32_t *cols);

/* The same for the backward pass. */
bool fitting_backward_tiles(const Algorithm *algorithm, const AttentionShape *shape, const Profile *profile, Alloc *alloc, TileSize *tiles,
                            Status *status);

/* The same problem in the plain integers that the closed forms take. */
CountedProblem counted_problem(const Algorithm *algorithm, const Attention *a, const Machine *machine);
CountedBackward counted_backward(const Algorithm *algorithm, const Attention *a, const Machine *machine);

#endif
