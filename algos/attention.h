/* attention.h - the attention problem that every kernel of this folder solves, and how it is cut into blocks.
 *
 *     S = scale Q Kᵀ,  P = softmax(S) over the visible keys,  O = P V,  L = m + log l   (natural logarithm, one per row)
 *
 * Q: [batch, heads, N_q, d]; K, V: [batch, kv_heads, N_k, d]; O as Q; L: [batch, heads, N_q]. Query head h reads K/V head
 * h * kv_heads / heads (grouped-query attention). Conventions, because public code disagrees: causal with N_q != N_k is aligned bottom-right
 * (the last query sees the last key) unless top-left is asked for; windows are inclusive and bottom-right aligned, -1 = unbounded; a row
 * that sees no key has O = 0 and L = -inf; a NaN that a row sees makes that row NaN, one that it does not see never shows.
 */
#ifndef ATTNLAB_ATTENTION_H
#define ATTNLAB_ATTENTION_H

#include "sim/machine.h"
#include "sim/checked.h"
#include "sim/ops.h"
#include "sim/quantise.h"

typedef enum { MASK_NONE, MASK_CAUSAL, MASK_CAUSAL_TOP_LEFT } MaskKind;

enum { MAX_HEAD_DIM = 512 };
#define MAX_SEQLEN (UINT64_C(1) << 31)

/* Where the dropout mask comes from. */
typedef enum {
    DROPOUT_NONE,
    DROPOUT_SEED,           /* each tile regenerates its part from seed and offset: nothing is stored (§2.8) */
    DROPOUT_STORED,         /* a kernel writes all N_q x N_k keep bits (a byte each) to HBM; both passes read them back */
    DROPOUT_GIVEN           /* they are in HBM already (tests) */
} DropoutSource;

/* Which operands are multiplied by a random-sign Hadamard matrix J before they are rounded (§4.4); each K/V head has its own, and the query heads that
 * share it use it too. */
typedef enum {
    ROTATE_NONE,
    ROTATE_QK,              /* (Q J)(K J)ᵀ = Q Kᵀ: nothing is to be undone */
    ROTATE_QKV              /* also V, and O is rotated back: P (V J) Jᵀ = P V (exercise 8) */
} Rotation;

/* How operands get into FP8. FlashAttention-3 only, and only when dtype is an FP8 type. */
typedef struct {
    ScaleGranularity scales;    /* one scale per head and tensor; per block of Br (Q) or Bc (K, V) rows; per row of Q and K (V: per block, because a
                                 * row of V is summed over: its scale cannot be taken out of P V) */
    Rotation rotation;
    bool prepass;               /* rotating and rounding are kernels of their own, counted; else they are part of whatever wrote Q, K and V (a projection's
                                 * epilogue, RoPE), which has them in registers: nothing of it is counted here */
    uint64_t seed;              /* of the rotation's signs */
    uint32_t p_log2_scale;      /* P, in [0, 1], is stored as 2^this P: 8 in the shipped kernel, 256 <= 448 */
    ElementType source;         /* of Q, K, V before rounding, and of O, if anything is scaled or rotated; else O has the FP8 type too */
} Fp8Options;

typedef struct {
    uint64_t batch, heads, kv_heads;        /* kv_heads divides heads */
    uint64_t seqlen_q, seqlen_k;            /* N_q, N_k; may be 0 */
    uint64_t head_dim;                      /* d, 1 to 512 */
    MaskKind mask;
    int64_t window_left, window_right;      /* -1: unbounded */
    double softmax_scale;                   /* what S is multiplied by; 1/sqrt(d) by default */
    ElementType dtype;                      /* of Q, K, V, O and of P as a tensor-core operand */
    Fp8Options fp8;
    DropoutSource dropout_source;
    Dropout dropout;                        /* p, seed, offset */
} AttentionShape;

/* One head, N x N, BF16, no mask, scale 1/sqrt(d); if dtype becomes FP8: no scales, no rotation, P times 2^8, sources in BF16. */
AttentionShape attention_shape(uint64_t N, uint64_t d);

/* STATUS_USAGE with the reason if the shape is no problem at all: heads not a multiple of kv_heads, d outside 1..512, ... */
bool attention_check(const AttentionShape *shape, Status *status);

static inline bool is_fp8(ElementType type) { return type == ELEMENT_E4M3 || type == ELEMENT_E5M2; }

/* Whether Q, K and V come in another type, to be scaled or rotated into FP8. */
static inline bool attention_quantises(const AttentionShape *shape)
{
    return is_fp8(shape->dtype) && (shape->fp8.scales != SCALE_NONE || shape->fp8.rotation != ROTATE_NONE);
}

/* Mask and window together: query i sees keys i + low .. i + high. Never wider than the matrix. */
Band attention_band(const AttentionShape *shape);

/* How a backward is arranged; the first three are FlashAttention-2's alone. Default: all false, as shipped. */
typedef struct {
    bool direct_dq;         /* atomic adds straight into dQ in its own type, as the lecture counts; else float32 sums and a conversion kernel */
    bool deterministic;     /* a fixed set of blocks strides over the key blocks, each with its own float32 sums */
    bool query_blocks_outside;  /* the other loop order: dQ stays on chip, dK and dV are added atomically */
    bool two_ctas;          /* FlashAttention-4 only: two CTAs share Q, dO and their products */
    bool one_consumer_dq;   /* FlashAttention-3 only: the first consumer computes all of dQ, as cuDNN's Hopper kernel has it */
} BackwardVariant;

/* FlashAttention-3's overlaps, each to be switched off. Default: all on, as shipped. */
typedef struct {
    uint32_t consumers;     /* warpgroups; 0: one per 64 rows of Br, at most 3 */
    bool no_ping_pong;
    bool no_overlap;        /* of softmax and products inside a warpgroup */
    bool blocking_copies;   /* no producer: consumer 0 copies K and V itself and waits */
    bool blocking_products; /* a warpgroup waits for each of its products */
} Fa3Options;

/* FlashAttention-4's savings outside the products. Default: every exponential by MUFU, O rescaled at every key block. */
typedef struct {
    uint32_t poly_sixteenths;   /* of 16 columns, those whose exponential is a polynomial on the multiply-add units (0 to 16) */
    bool conditional;           /* O and l are rescaled only where a row's maximum has grown by more than 2^threshold */
    double threshold;           /* log2, after the scale; the kernel's is 8 */
    uint32_t decision_rows;     /* rows of a query tile that decide together: 1, a warp's 32, ...; 0: 32, as shipped; UINT32_MAX: all */
    bool bf16_weights;          /* P is rounded to BF16 for the product with V, whatever the inputs are (a study; no chip mixes them) */
    uint32_t rescale_ppm;       /* without data: millionths of the key blocks that rescale; the first always does */
} Fa4Options;

/* An operand rounded to FP8 by a pass before attention. */
typedef struct {
    Tensor *codes;                          /* as Q (K, V), in the FP8 type */
    Tensor *descale;                        /* what multiplies codes back: [batch, heads, scales]; NULL without scales */
    Tensor *block_maxima, *maximum;         /* a scale per tensor: largest magnitudes of its blocks, and of all */
} QuantisedOperand;
/* Which query heads share a tile when decoding: those of one K/V head, stacked as rows, row = query x group + head of the group. */
typedef enum {
    PACK_ONE_QUERY,         /* stacked when there is one query (FlashAttention-2: a reshape) */
    PACK_ALWAYS,            /* any number of queries (FlashAttention-3) */
    PACK_NEVER,
    PACK_RULES
} QueryPacking;

/* How the parts of a split sequence are put together. */
typedef enum {
    MERGE_SEQUENTIAL,       /* their weights first, then one part after the other (as shipped) */
    MERGE_TREE,             /* two at a time, as a binary tree */
    MERGE_ORDERS
} MergeOrder;

/* Decoding. Default: as FlashAttention-2 ships it. */
typedef struct {
    uint32_t splits;        /* parts of the key sequence; 0: by FlashAttention-2's rule for this chip */
    QueryPacking packing;
    MergeOrder merge;
} DecodeOptions;

/* A problem laid out in a machine's HBM, with its block sizes. */
typedef struct {
    AttentionShape shape;
    uint32_t Br, Bc;                        /* query rows and keys per block */
    Band band;
    ElementType statistic;                  /* accumulators and statistics: float32, float64 for float64 inputs */
    Tensor *Q, *K, *V, *O;
    QuantisedOperand q8, k8, v8;            /* all NULL unless attention_quantises() */
    Tensor *L;                              /* logsumexp, N_q x 1 per head; only algorithms that keep it create it */
    Tensor *P;                              /* N_q x N_k; only standard attention keeps it */
    Tensor *Z;                              /* keep mask, N_q x N_k bytes; NULL unless stored or given */

    Tensor *dO, *dQ, *dK, *dV;              /* after attention_init_backward */
    BackwardVariant variant;
    bool last_keys_first;   /* fa2's forward visits its key blocks last to first, as shipped; default: first to last, as listed */
    Fa3Options fa3;
    Fa4Options fa4;
    DecodeOptions decode;
} Attention;

/* Creates Q, K, V and O in the machine. Fails (status of the machine) if the shape is refused or does not fit. */
bool attention_init(Attention *attention, Machine *machine, const AttentionShape *shape, uint32_t Br, uint32_t Bc);

/* Adds dO, dQ, dK, dV. */
bool attention_init_backward(Attention *attention, Machine *machine);

/* Fills Q, K, V (and dO if it is there) with standard normal numbers, rounded to dtype: element i of the k-th of them is a function of (seed, k, i) alone. */
void attention_random_inputs(const Attention *attention, const Machine *machine, uint64_t seed);

/* Element i of a tensor as a double, whatever the machine's precision. */
double tensor_value(const Machine *machine, const Tensor *tensor, uint64_t i);
void tensor_set(const Machine *machine, Tensor *tensor, uint64_t i, double value);  /* rounds to the tensor's type */

/* ----------------------------------------------------------------------------------------------------------------- blocks */

typedef struct {
    uint64_t first, end;                    /* block numbers [first, end); empty when first = end */
} BlockRange;

/* The key blocks of which some key is visible to some row of query block i; the others are neither read nor computed (§2.5). */
BlockRange visible_key_blocks(const Attention *a, uint64_t i);
/* The same for queries first .. last. */
BlockRange key_blocks_of_queries(const Attention *a, uint64_t first, uint64_t last);
/* The query blocks of which some row sees some key of key block j. */
BlockRange visible_query_blocks(const Attention *a, uint64_t j);

static inline uint64_t query_blocks(const Attention *a) { return ceil_div(a->shape.seqlen_q, a->Br); }     /* Tr */
static inline uint64_t key_blocks(const Attention *a) { return ceil_div(a->shape.seqlen_k, a->Bc); }       /* Tc */
static inline uint32_t live_rows(const Attention *a, uint64_t i) { return (uint32_t)min_u64(a->Br, a->shape.seqlen_q - i * a->Br); }
static inline uint32_t live_keys(const Attention *a, uint64_t j) { return (uint32_t)min_u64(a->Bc, a->shape.seqlen_k - j * a->Bc); }

static inline uint64_t group_size(const Attention *a) { return a->shape.heads / a->shape.kv_heads; }   /* query heads per K/V head */
static inline Grid one_block_per_key_block(const Attention *a) { return (Grid){key_blocks(a), a->shape.kv_heads, a->shape.batch}; }
static inline Grid one_block_per_head(const Attention *a) { return (Grid){1, a->shape.heads, a->shape.batch}; }
static inline Grid one_block_per_query_block(const Attention *a) { return (Grid){query_blocks(a), a->shape.heads, a->shape.batch}; }

/* ---------------------------------------------------------------------------------------------------------------- dropout */

/* A tile for rows x Bc of the keep mask, in registers; NULL without dropout. */
Tile *keep_tile(Block *b, const Attention *a, uint32_t rows);
Tile *keep_part(Block *b, const Attention *a, uint32_t rows, uint32_t cols);
/* Fills it for the scores from (row, col) on, as large as S is: regenerated or read. Does nothing without dropout. */
static inline void keep_or_load(Stream *w, const Attention *a, Tile *z, const Tile *s, uint64_t row, uint64_t col)
{
    if (z == NULL) return;
    if (a->Z != NULL) load_part(w, z, a->Z, row, col);
    else random_keep(w, z, a->Q, row, col, s->rows, s->cols, &a->shape.dropout);
}

/* P = S as an operand: converted, and dropped where z is 0 if there is dropout. */
static inline void drop_and_convert(Stream *w, const Attention *a, Tile *p, const Tile *s, const Tile *z)
{
    if (z == NULL) convert(w, p, s);
    else apply_dropout(w, p, s, z, a->shape.dropout.p);
}

/* DROPOUT_STORED: the kernel that writes Z. */
bool launch_keep_mask(Machine *machine, const Attention *a, Kernel kernel);

#endif
