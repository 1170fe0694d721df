/* fp8_error.h - the error of attention whose operands are rounded to 8 (or 16) bits, on data with outliers. Lecture §4.4,
 * exercise 8, pitfall 7.
 *
 *     Q, K, V: each N x d, entry = n1 + b 10 n2,  n1, n2 ~ N(0, 1),  b ~ Bernoulli(0.001)       (FlashAttention-3 paper, section 4.3)
 *     S = Q' K'ᵀ / sqrt(d),  P = e^(S - rowmax S),  l = row sums of P,  P' = P in its format,  O = P' V' / l
 *     error = sqrt(mean (O - O_exact)²) over all rows computed; O_exact in float64 from the same data, not rounded
 *
 * ' marks what a recipe rounds. Q' and K' are Q J and K J rounded if the recipe rotates; V' = (V J)' and then O = (...) Jᵀ if
 * it rotates V. The variance of the outliers is 100: their standard deviation is 10. Each format's values are multiplied back
 * by 1/s in float32; products, exponentials and sums are float32 (error 1e-6: none of the numbers here sees it).
 *
 * This is the definition of the lecture's script, with the whole row of scores at once; algos/fa3.c is the kernel, which rounds
 * P against the running maximum. s4_4_fp8 shows both.
 */
#ifndef ATTNLAB_FP8_ERROR_H
#define ATTNLAB_FP8_ERROR_H

#include "algos/attention.h"
#include "sim/status.h"

typedef enum { OPERAND_EXACT, OPERAND_BF16, OPERAND_E4M3, OPERAND_INT8 } OperandFormat;

/* What is rounded, and how. All zero: nothing. */
typedef struct {
    OperandFormat qk, v, p;
    ScaleGranularity scales;    /* of Q, K and V in 8 bits; SCALE_BLOCK: 128 rows */
    bool rotate_qk, rotate_v;
    double p_scale;             /* what P, in [0, 1], is multiplied by before rounding; 0 means 1 (127 for INT8) */
} Fp8Recipe;

/* How many rows one scale of a SCALE_BLOCK covers. */
enum { FP8_BLOCK_ROWS = 128 };

/* V rounded in so many ways can share the scores. */
enum { FP8_V_KINDS = 4 };

/* Data, its exact result, and room to work. d is at most 1024. */
typedef struct {
    Alloc *alloc;
    uint64_t seed;
    uint32_t N, queries, d;     /* the first `queries` of N rows of Q are computed */
    uint64_t outliers;          /* in Q, K and V together */
    Matrix Q, K, V;             /* float32, column-major */
    Matrix exact;               /* queries x d, float64 */
    Matrix q, k, v[FP8_V_KINDS];    /* rounded operands */
    Matrix s, o;                /* a strip of P before and after rounding; of O */
    Matrix m, none, l;
    float *descale;
} Fp8Case;

/* Data of (seed, N, d) and the exact O; Q's first `queries` rows do not depend on how many are computed. False: no memory. fp8_case_free is
 * the caller's even then. */
bool fp8_case_init(Fp8Case *c, uint64_t seed, uint32_t N, uint32_t queries, uint32_t d, Alloc *alloc, Status *status);
void fp8_case_free(Fp8Case *c);

/* error[i] of recipe i; recipes that differ only in v and p and stand side by side share their scores. */
void fp8_errors(Fp8Case *c, const Fp8Recipe *recipes, size_t count, double *error);

/* One of them. */
double fp8_error(Fp8Case *c, Fp8Recipe recipe);

/* What the rounding of Q itself does, before any attention. */
typedef struct {
    double max_over_rms;        /* of Q, or of Q J */
    double rms_error;           /* sqrt(mean (Q' - Q)²): rotation does not change the mean square */
    double rms_score_error;     /* the same of S, over the rows computed */
    uint32_t levels;            /* different magnitudes among the codes of Q */
} Fp8OperandError;

Fp8OperandError fp8_operand_error(Fp8Case *c, Fp8Recipe recipe);

/* The first of them alone. */
double fp8_max_over_rms(Fp8Case *c, bool rotated);

/* The error of FlashAttention-3's kernel (algos/fa3.c) on this machine model, all operands in E4M3: P is rounded against the running maximum, times 2^8, and
 * blocks are tiles of 128 x 128. */
bool fp8_kernel_error(const Fp8Case *c, const Profile *chip, ScaleGranularity scales, Rotation rotation, double *error, Status *status);

/* One query, two key tiles of one key each, log2 scores 0 and then x, V = 0 and 1, P stored in E4M3 as 2^offset P, the reference kept at 0 while x <= threshold
 * (FlashAttention-4's conditional rescaling, §5.3). l is summed before P is rounded, as kernels do. */
typedef struct {
    double largest_p;           /* 2^(x + offset), or 2^offset if the reference moved */
    bool saturates;             /* it is past 448 */
    double exact, output;       /* O */
} LaggingP;

LaggingP fp8_lagging_p(double x, double threshold, uint32_t offset);

/* The largest of |(Q J)(K J)ᵀ - Q Kᵀ|, |P (V J) Jᵀ - P V| and |J Jᵀ - I|, in float64, P = softmax(Q Kᵀ / sqrt(d)). */
typedef struct {
    double scores, output, identity;
} RotationError;

bool fp8_rotation_error(const Fp8Case *c, RotationError *error, Status *status);

#endif
