/* backward_sums.h - the kernels before and after a backward pass that adds dQ up in HBM, and its launches.
 *
 *     before   D = rowsum(dO o O), one number per query row, because sum_k P_ik dP_ik = dO_i . O_i; the sums of dQ start at 0
 *     after    dQ = scale times its sums
 *
 * FlashAttention-2, -3 and -4 have them alike. Dao 2023, Algorithm 2, line 4. Lecture §2.6, §2.8.
 */
#ifndef ATTNLAB_BACKWARD_SUMS_H
#define ATTNLAB_BACKWARD_SUMS_H

#include "attention.h"

typedef struct {
    const Attention *attention;
    Tensor *D;                          /* rowsum(dO o O), N_q x 1 per query head */
    Tensor *dQ_sum;                     /* what dQ is added into: float32 sums, one per query head and split; NULL: none to clear */
    uint64_t splits;                    /* 1 when all blocks share the sums */
} BackwardSums;

/* The kernels, one block per query block; `arguments` is a BackwardSums. */
void backward_dot_block(Block *b, const void *arguments, uint64_t i);
void backward_convert_block(Block *b, const void *arguments, uint64_t i);

/* `splits` sums start at 0, rows from `row` on; `zero` is a tile for them. */
void backward_clear_rows(Stream *w, Block *b, Tensor *sums, uint64_t splits, uint64_t row, Tile *zero, uint32_t rows);

/* The names of the three launches. */
typedef struct {
    const char *dot, *key_blocks, *conversion;
} BackwardNames;

/* A whole backward pass with shared sums: D, `kernel` over the key blocks (its arguments are a BackwardSums), the conversion; all with the geometry
 * of `kernel`, under these names. Creates D, the sums and, if no forward did, L. STATUS_INFEASIBLE for variants that only FlashAttention-2 has;
 * `algorithm` names who refuses them. */
bool backward_with_sums(Machine *machine, Attention *a, const char *algorithm, BackwardNames names, Kernel kernel);

#endif
