/* silicon_counts.c - see silicon_counts.h.
 *
 * Six things stand between an algorithm's count and a chip's:
 *
 *   whole tiles    a kernel computes the tiles that a mask or a ragged end cuts as if they were whole:
 *                  count = executed tile pairs x the count of one whole tile
 *   lanes          the m and l of a row are held by the lanes that share the row (4 in the accumulator layout of mma.sync and wgmma), and
 *                  each computes the rescaling factor, the final logarithm and the final reciprocal for itself
 *   addresses      a division by a run-time integer takes three XU instructions a warp (to float, reciprocal, back): which batch, head and
 *                  block a thread block is
 *   shuffles       lanes that exchange values do it through the data path of shared memory
 *   half sectors   what two instructions store in halves L1 merges or not, by timing: measured (h200_stores.h)
 *   the compiler   spilled registers are stored through L1 to L2 (what is read back hits L1)
 *
 * Executed pairs, operand reads and traffic are the closed forms of algos/ with the tiles of the shipped kernel; for cuDNN those in the
 * kernel's own name. Bank conflicts and barriers' retries are counted where a calibration has them (silicon_calibrations); HBM is not.
 */
#include "silicon_counts.h"

#include "h200_stores.h"

#include "algos/algorithm.h"
#include "algos/split_heuristics.h"
#include "sim/math_functions.h"
#include "sim/normal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WARP = 32,
    SECTOR = 32,                /* bytes, the granule of L2 */
    ELEMENT = 2,                /* bytes: BF16 */
    FLOAT = 4,
    XU_PER_DIVISION = 3,        /* integer to float, reciprocal, float to integer */
    MMA_FLOPS = 4096,           /* of one mma.sync.m16n8k16 */
    MMA_CYCLES = 6,             /* of its sub-core's tensor pipe, where wgmma would need 4 */
    MOVE_CYCLES = 2,            /* of a constant set by HFMA2 on the tensor pipe */
    SUBCORES = 4,
    SUM_ROWS = 128,             /* flash: the rows of dQ's float32 sums are a multiple of this */
    WARPGROUP_THREADS = 128,
};

const char *silicon_counter_name(SiliconCounter counter)
{
    static const char *const names[SILICON_COUNTERS] = {
        "l2_to_l1_read_bytes", "l1_to_l2_write_bytes", "l2_red_sectors",  "smem_wavefronts", "xu_warp_insts",
        "tensor_warp_insts",   "tensor_pipe_cycles",   "dram_read_bytes", "dram_write_bytes"};
    return names[counter];
}

/* -------------------------------------------------------------------------------------------------------- the calibrations */

/* Words that a thread of FlashAttention-2 stores because it has no register for them. A property of this build (CUDA 13.0), not of the
 * algorithm: forward per thread and tile, and per block (more with a mask); backward per block of keys. */
typedef struct {
    uint64_t head_dim, tile, block, block_masked, backward, backward_masked;
} Spills;
static const Spills flash_spills[] = {{64, 6, 22, 26, 19, 12}, {128, 14, 14, 16, 2, 3}};

enum {
    CUDNN_ITEM_DIVISIONS = 3,   /* by one warp for a tile of work, */
    CUDNN_BLOCK_DIVISIONS = 1,  /* and once for a thread block */
    SPLIT_DIVISIONS = 3,        /* by each warp of flash's split kernel; */
    CUDNN_SPLIT_DIVISIONS = 2,  /* of cuDNN's, */
    CUDNN_WHOLE_XU = 5,         /* a block of which needs so many more when the keys are not split */
    SPLIT_TWICE = 2,            /* sectors that a block of flash's split kernel stores in pieces that L1 does not merge: 0 to 5, by timing */
    SPLIT_TILE_WAVEFRONTS = 27, /* of its tiles, and of a block that decodes, beyond operands, threads, shuffles and O */
    SPLIT_QUERY_WAVEFRONTS = 300,
    SCORES_WAITING = 165,       /* wavefronts in which std_qk's warps look at barriers while a tile of S leaves: 133 to 180, by timing */
    COMBINE_XU = 164,           /* divisions by 64-bit integers: of a block of flash's combine kernel */
    COMBINE_WAVEFRONTS = 15,    /* of a block, beyond those that grow with the splits; */
    COMBINE_TWO_WAVEFRONTS = 9, /* with two */
    REDUCTION_WAVEFRONTS = 3,   /* of a block of cuDNN's, and for each step in which up to eight warps put their parts together */
    REDUCTION_STEP_WAVEFRONTS = 12,
    MERGE_WAVEFRONTS = 1210,    /* four warps' O, m and l put together in a block of cuDNN's decoding kernel, d = 128 */
    CUDNN_NARROW_WAVEFRONTS = 84,   /* of its tiles at d = 64: beyond the operands */
    COPY_MOVES = 6,             /* constants set by a warp of the elementwise kernel */
    RED_SECTORS_NUMERATOR = 3, RED_SECTORS_DENOMINATOR = 2,
};

/* Constants that the compiler sets on the tensor pipe in a block of flash's combine kernel, by the power of two that the parts fill: 2, 4, ... 64. */
enum { COMBINE_SIZES = 6 };
static const uint64_t combine_moves[COMBINE_SIZES] = {22, 26, 29, 30, 32, 40}, combine_moves_narrow[COMBINE_SIZES] = {22, 26, 28, 32, 40, 46};

const SiliconCalibration silicon_calibrations[] = {
    {"words that a thread of flash's forward spills, d = 64", "6 a tile; a block 22, with a mask 26", "L2 write, N = 1,024 and 16,384"},
    {"the same, d = 128", "14 a tile; a block 14, 16", "the same"},
    {"the same in the backward, a key block", "d = 64: 19, with a mask 12; d = 128: 2, 3", "the same"},
    {"tensor-pipe cycles of an mma.sync m16n8k16", "6 of a sub-core", "tensor cycles / instructions"},
    {"half sectors that L1 does not merge, cuDNN's D and convert", "by thread blocks: 60 to 350, 88 to 859 of 1,000", "L2 write of other shapes"},
    {"bytes that a launch under the profiler finds dirty in L2", "2.46 MB", "HBM write of the split kernels"},
    {"the simulated L2: step of ages, dirty ways, written back at once", "6 of 16, 8, 2", "h200_l2_stores, h200_l2_replay"},
    {"tiles side by side in a panel of Q K^T", "11 of 256 keys, 13 of 320; 8 of 192 queries", "h200_tile_order"},
    {"sectors counted for each that is added to", "1.5", "L2 add, N = 1,024"},
    {"integer divisions in flash's kernels", "1 a warp; split 3", "XU less the exponentials"},
    {"integer divisions in cudnn's kernels", "3 a tile of work, 1 a block; split 2 a warp", "the same"},
    {"barrier wavefronts of std_qk and std_pv, per 64 of depth", "12 (coop), 5", "smem of std_pv"},
    {"the same, a tile of std_qk", "165", "smem of std_qk, N = 1,024"},
    {"sectors that a block of flash's split kernel stores twice", "2", "L2 write of the split kernels"},
    {"wavefronts of flash's split kernel", "27 a tile; a block that decodes 300", "h200_counters_decode"},
    {"flash's combine kernel, a block", "XU 164, wavefronts 15, constants 22 to 46", "h200_counters_decode"},
    {"cudnn's combine kernel, a block of s splits", "XU 2s - 1, wavefronts 3 and 12 a step, constants s/4 + 1", "h200_counters_decode"},
    {"cudnn's split kernel, a block", "1,210 wavefronts to merge four warps; d = 64: 605, 84 a tile", "N = 32,768; h200_counters_decode"},
    {"the same, when the keys are not split", "XU 5", "h200_counters_decode"},
    {"constants set on the tensor pipe, a warp, d = 64 and 128", "copy 6, 6; D 0, 1; convert 2, 1; softmax 1, 1", "tensor, N = 1,024"},
    {"constants of softmax, a warp of a block with e elements a thread", "e + 1; e = 3: 1; e > 9: e + 3, 7e/8 + 1", "tensor, N = 2,304 to 32,768"},
    {"integer divisions of softmax, rows past 48 KiB", "6 a warp", "the same"},
    {"which side of its tile cuBLAS's instructions split", "the shorter; coopB half of it, if >= 64", "their tensor instructions"},
};
const size_t silicon_calibration_count = sizeof silicon_calibrations / sizeof silicon_calibrations[0];

/* ------------------------------------------------------------------------------------------------------ what formulas share */

/* A launch being described. */
typedef struct {
    const SiliconLaunch *launch;
    const AttentionShape *shape;
    const Profile *chip;
    uint64_t heads, Nq, Nk, d;          /* heads of the whole batch */
    bool masked;
    SiliconCounts *counts;
    const char **why;
    Status *status;
} Work;

static uint64_t times(const Work *w, uint64_t a, uint64_t b) { return checked_mul(a, b, "a hardware counter", w->status); }
static uint64_t times3(const Work *w, uint64_t a, uint64_t b, uint64_t c) { return times(w, times(w, a, b), c); }

static void count(const Work *w, SiliconCounter counter, uint64_t n)
{
    uint64_t *sum = &w->counts->n[counter];
    *sum = checked_add(*sum, n, silicon_counter_name(counter), w->status);
}

static bool cannot(const Work *w, const char *why)
{
    *w->why = why;
    return false;
}

/* One matrix of the queries' size, in bytes. */
static uint64_t query_bytes(const Work *w) { return times(w, times3(w, w->heads, w->Nq, w->d), ELEMENT); }

AttentionShape silicon_packed(const AttentionShape *shape)
{
    AttentionShape packed = *shape;
    if (shape->seqlen_q != 1 || shape->heads == 0 || shape->kv_heads == 0) return packed;
    packed.seqlen_q = shape->heads / shape->kv_heads;
    packed.heads = shape->kv_heads;
    packed.mask = MASK_NONE;
    return packed;
}

static void pack_group(Work *w)
{
    const AttentionShape packed = silicon_packed(w->shape);
    w->masked = packed.mask != MASK_NONE;
    w->heads = times(w, packed.batch, packed.heads);
    w->Nq = packed.seqlen_q;
}

/* The tiles that a kernel executes. */
typedef struct {
    uint64_t Br, Bc;
    uint64_t pairs, items;              /* tile pairs; tiles of work: query blocks forward, key blocks backward */
    ClosedForm all, none, tile;         /* the launch, what of it needs no key, and one whole tile */
} Tiling;

/* K and V are read by the blocks of each query head, as no kernel here shares them. */
static CountedProblem problem_of(const Work *w, uint64_t Br, uint64_t Bc, InstructionShape instruction)
{
    const Band band = w->masked ? attention_band(w->shape) : (Band){-(int64_t)w->Nq, (int64_t)w->Nk};
    return (CountedProblem){.batch = 1, .heads = w->heads, .kv_heads = w->heads, .Nq = w->Nq, .Nk = w->Nk, .d = w->d,
                            .band_low = band.low, .band_high = band.high, .Br = Br, .Bc = Bc, .element_bytes = ELEMENT,
                            .statistic_bytes = FLOAT, .ideal_l2 = true, .shape_m = instruction.m, .shape_n = instruction.n};
}

static CountedProblem one_tile(const CountedProblem *p)
{
    CountedProblem one = *p;
    one.heads = one.kv_heads = 1;
    one.Nq = p->Br;
    one.Nk = p->Bc;
    one.band_low = -(int64_t)p->Br;
    one.band_high = (int64_t)p->Bc;
    return one;
}

static bool tile_forward(const Work *w, uint64_t Br, uint64_t Bc, InstructionShape instruction, Tiling *t)
{
    const CountedProblem p = problem_of(w, Br, Bc, instruction), one = one_tile(&p);
    *t = (Tiling){.Br = Br, .Bc = Bc};
    if (!closed_form_fa2(&p, &t->all, w->status) || !closed_form_fa2(&one, &t->tile, w->status)) return false;
    t->pairs = t->all.tile_pairs;
    t->items = times(w, w->heads, ceil_div(w->Nq, Br));
    return true;
}

/* The kernel between the one for D and the one that converts dQ: all three, less what remains without keys. */
static bool tile_backward(const Work *w, uint64_t Br, uint64_t Bc, const BackwardGeometry *g, Tiling *t)
{
    CountedBackward b = {.problem = problem_of(w, Br, Bc, g->scores), .key_m = g->key_gradients.m, .key_n = g->key_gradients.n,
                         .query_m = g->query_gradients.m, .query_n = g->query_gradients.n};
    *t = (Tiling){.Br = Br, .Bc = Bc};
    if (!closed_form_fa2_backward(&b, &t->all, w->status)) return false;
    t->pairs = t->all.tile_pairs;
    t->items = times(w, w->heads, ceil_div(w->Nk, Bc));
    CountedBackward none = b;
    none.problem.Nk = 0;
    b.problem = one_tile(&b.problem);
    return closed_form_fa2_backward(&none, &t->none, w->status) && closed_form_fa2_backward(&b, &t->tile, w->status);
}

/* The lanes that share a row put its maximum together in every tile, and its sum at the end: log2(lanes) shuffles, each for the 8 rows of a
 * warp, and a shuffle takes a cycle of shared memory. */
static void quad_shuffles(const Work *w, const Tiling *t)
{
    uint64_t steps = 0;
    while (UINT64_C(1) << steps < w->chip->row_statistic_lanes && steps < 5) steps++;
    const uint64_t each = t->Br / (WARP / max_u64(w->chip->row_statistic_lanes, 1)) * steps;
    count(w, SILICON_SMEM, times(w, t->pairs, each));
    count(w, SILICON_SMEM, times(w, t->items, each));
}

/* Exponentials of an online softmax, in warp instructions: a score each; per row, tile and lane the rescaling factor, which the first tile
 * does not need; per row and lane the logarithm and the reciprocal at the end. */
static void online_softmax(const Work *w, const Tiling *t)
{
    const uint64_t lanes = w->chip->row_statistic_lanes;
    count(w, SILICON_XU, times3(w, t->pairs, t->Br, t->Bc + lanes) / WARP);
    count(w, SILICON_XU, times3(w, t->items, t->Br, (2 - 1) * lanes) / WARP);
}

static void divisions(const Work *w, uint64_t warps, uint64_t each) { count(w, SILICON_XU, times3(w, warps, each, XU_PER_DIVISION)); }

static void mma_sync(const Work *w, uint64_t flops)
{
    count(w, SILICON_TENSOR_INSTRUCTIONS, flops / MMA_FLOPS);
    count(w, SILICON_TENSOR_CYCLES, times(w, flops / MMA_FLOPS, MMA_CYCLES));
}

/* Products whose instructions are 64 x n x 16; each of the four warps counts. */
static void wgmma(const Work *w, uint64_t flops, uint64_t n)
{
    count(w, SILICON_TENSOR_INSTRUCTIONS, flops / (2 * 64 * n * 16 / 4));
    count(w, SILICON_TENSOR_CYCLES, flops / (w->chip->wgmma_bf16_flops_per_cycle_per_sm / SUBCORES));
}

/* HFMA2 instructions with which the compiler sets registers to constants; they run on the tensor pipe. */
static void constant_moves(const Work *w, uint64_t instructions)
{
    count(w, SILICON_TENSOR_INSTRUCTIONS, instructions);
    count(w, SILICON_TENSOR_CYCLES, times(w, instructions, MOVE_CYCLES));
}

static uint64_t warps_of(const Work *w) { return times(w, w->launch->grid, w->launch->threads / WARP); }

static uint64_t wavefronts(const Work *w, uint64_t bytes) { return bytes / w->chip->smem_bytes_per_cycle_per_sm; }

/* What the products and the threads of all tiles read and write. */
static void shared_memory(const Work *w, const Tiling *t)
{
    count(w, SILICON_SMEM, times(w, t->pairs, wavefronts(w, t->tile.smem_operand_bytes + t->tile.smem_thread_bytes)));
}

/* A tile of rows x d that threads write to shared memory on its way to L2 and, unless a bulk copy takes it there, read again. */
static void through_shared(const Work *w, uint64_t tiles, uint64_t rows, uint64_t element, uint64_t touches)
{
    count(w, SILICON_SMEM, times(w, touches * tiles, wavefronts(w, times3(w, rows, w->d, element))));
}

bool silicon_tile_in_name(const char *name, uint64_t *A, uint64_t *B, uint64_t *C)
{
    for (const char *at = strchr(name, '_'); at != NULL; at = strchr(at + 1, '_')) {
        uint64_t *const sides[] = {A, B, C};
        const size_t wanted = C != NULL ? 3 : 2;
        const char *from = at;
        size_t found = 0;
        while (found < wanted && from[1] >= '1' && from[1] <= '9') {
            char *end;
            *sides[found++] = strtoull(from + 1, &end, 10);
            from = end;
            if (*from != 'x') break;
        }
        if (found == wanted && *from == '_' && *A <= 1024 && *B <= 1024) return true;
    }
    return false;
}

/* ------------------------------------------------------------------------------------------------------------------ flash */

static const Spills *spills_of(uint64_t head_dim)
{
    for (size_t i = 0; i < sizeof flash_spills / sizeof flash_spills[0]; i++)
        if (flash_spills[i].head_dim == head_dim) return &flash_spills[i];
    return NULL;
}

SiliconSpill silicon_flash_spill(uint64_t head_dim, bool masked)
{
    const Spills *spills = spills_of(head_dim);
    return spills == NULL ? (SiliconSpill){0} : (SiliconSpill){spills->tile, masked ? spills->block_masked : spills->block};
}

/* Ragged lengths are another build of the kernel, whose spills are not known. */
static void spill(const Work *w, const Tiling *t, uint64_t threads, uint64_t words)
{
    if (w->Nq % t->Br != 0 || w->Nk % t->Bc != 0) w->counts->unknown[SILICON_L2_WRITE] = "what ragged lengths spill is not known";
    count(w, SILICON_L2_WRITE, times3(w, threads, words, FLOAT));
}

static bool flash_forward(Work *w)
{
    const TileSize tiles = algorithm_fa2.tiles(w->shape);
    const Geometry geometry = algorithm_fa2.geometry(w->shape, tiles);
    const SiliconSpill spilled = silicon_flash_spill(w->d, w->masked);
    Tiling t;
    pack_group(w);
    if (!tile_forward(w, tiles.Br, tiles.Bc, geometry.shape, &t)) return false;
    count(w, SILICON_L2_READ, t.all.l2_to_sm_bytes);
    count(w, SILICON_L2_WRITE, t.all.sm_to_l2_bytes);
    spill(w, &t, times(w, t.pairs, geometry.threads), spilled.tile);
    spill(w, &t, times(w, t.items, geometry.threads), spilled.block);
    shared_memory(w, &t);
    through_shared(w, t.items, t.Br, ELEMENT, 2);               /* O */
    quad_shuffles(w, &t);
    online_softmax(w, &t);
    divisions(w, times(w, t.items, geometry.threads / WARP), 1);
    mma_sync(w, times(w, t.pairs, t.tile.matmul_flops));
    return true;
}

/* dO, or another matrix of the queries' size, made contiguous. */
static bool flash_copy(Work *w)
{
    count(w, SILICON_L2_READ, query_bytes(w));
    count(w, SILICON_L2_WRITE, query_bytes(w));
    constant_moves(w, times(w, warps_of(w), COPY_MOVES));
    return true;
}

/* Bytes that two instructions store, half a sector each: what L1 does not merge goes to L2 twice. Between the points it is interpolated. */
static void half_sectors(Work *w, uint64_t bytes, const H200HalfSectors *points, size_t count_of_points)
{
    const uint64_t blocks = w->launch->grid;
    size_t i = 0;
    while (i < count_of_points && points[i].blocks < blocks) i++;
    uint64_t twice = points[i < count_of_points ? i : count_of_points - 1].twice;
    if (i > 0 && i < count_of_points) {
        const H200HalfSectors *low = &points[i - 1], *high = &points[i];
        const uint64_t part = blocks - low->blocks, whole = high->blocks - low->blocks;
        twice = (low->twice * (whole - part) + high->twice * part) / whole;
    }
    count(w, SILICON_L2_WRITE, bytes);
    count(w, SILICON_L2_WRITE, times(w, bytes / SECTOR, twice) / 1000 * SECTOR);
}

/* D = rowsum(dO o O), and float32 sums of dQ set to zero. A warp has four rows or fewer: it writes at most 16 bytes of D, half a sector. */
static bool dot_of_rows(Work *w, uint64_t bytes_of_D)
{
    count(w, SILICON_L2_READ, 2 * query_bytes(w));
    count(w, SILICON_L2_WRITE, times3(w, w->heads, w->Nq, bytes_of_D));
    return true;
}

/* flash rounds the rows of dQ's sums up. */
static uint64_t sum_bytes(const Work *w) { return times3(w, times(w, w->heads, ceil_div(w->Nq, SUM_ROWS) * SUM_ROWS), w->d, FLOAT); }

static bool flash_dot(Work *w)
{
    constant_moves(w, w->d > 64 ? warps_of(w) : 0);
    count(w, SILICON_L2_WRITE, sum_bytes(w));
    return dot_of_rows(w, 2 * FLOAT);
}

static void added_to_queries(const Work *w, uint64_t bytes)
{
    count(w, SILICON_L2_RED, times(w, bytes / SECTOR, RED_SECTORS_NUMERATOR) / RED_SECTORS_DENOMINATOR);
}

/* What both backward kernels have: dK and dV written and dQ added, by bytes of its live rows; a P for each score. */
static void gradients(const Work *w, const Tiling *t)
{
    count(w, SILICON_L2_WRITE, t->all.sm_to_l2_bytes - t->none.sm_to_l2_bytes);
    shared_memory(w, t);
    count(w, SILICON_XU, times3(w, t->pairs, t->Br, t->Bc) / WARP);
}

static bool flash_gradients(Work *w)
{
    const TileSize tiles = fa2_backward_tiles(w->shape);
    const BackwardGeometry geometry = fa2_backward_geometry(w->shape, tiles);
    const Spills *spills = spills_of(w->d);
    Tiling t;
    if (!tile_backward(w, tiles.Br, tiles.Bc, &geometry, &t)) return false;
    gradients(w, &t);
    added_to_queries(w, times3(w, t.pairs, t.Br, w->d * FLOAT));        /* whole tiles */
    count(w, SILICON_L2_READ, t.all.l2_to_sm_bytes - t.none.l2_to_sm_bytes);
    spill(w, &t, times(w, t.items, geometry.threads), w->masked ? spills->backward_masked : spills->backward);
    divisions(w, times(w, t.items, geometry.threads / WARP), 1);
    mma_sync(w, times(w, t.pairs, t.tile.matmul_flops));
    return true;
}

/* The float32 sums of dQ scaled and converted, through shared memory. */
static bool flash_convert(Work *w)
{
    count(w, SILICON_L2_READ, sum_bytes(w));
    count(w, SILICON_L2_WRITE, query_bytes(w));
    count(w, SILICON_SMEM, 2 * wavefronts(w, query_bytes(w)));
    constant_moves(w, times(w, warps_of(w), w->d > 64 ? 1 : 2));
    return true;
}

/* --------------------------------------------------------------------------------------------------------- flash, decoding */

static uint64_t rows_of(const Work *w) { return times(w, w->heads, w->Nq); }

/* Thread blocks for each block of Br queries. */
static uint64_t splits_in_grid(const Work *w, uint64_t Br) { return w->launch->grid / max_u64(times(w, w->heads, ceil_div(w->Nq, Br)), 1); }

/* Keys split among blocks: O and L of each part in float32. Eight rows of L, which a warp stores together, fill a sector; what stores fewer
 * takes one a row, or one if it comes at once. */
static bool flash_split(Work *w)
{
    const TileSize tiles = algorithm_decode.tiles(w->shape);
    const Geometry geometry = algorithm_decode.geometry(w->shape, tiles);
    const uint64_t Br = tiles.Br, warps = geometry.threads / WARP;
    pack_group(w);
    Tiling t;
    if (!tile_forward(w, Br, tiles.Bc, geometry.shape, &t)) return false;
    const uint64_t splits = splits_in_grid(w, Br);
    if (splits == 0) return cannot(w, "its grid is smaller than the number of query blocks");
    count(w, SILICON_L2_READ, t.all.l2_to_sm_bytes);
    count(w, SILICON_L2_READ, times(w, splits - 1, query_bytes(w)));
    const bool at_once = t.pairs < times(w, 2, w->launch->grid);    /* a tile a block: L1 has nothing else to do, and merges all */
    count(w, SILICON_L2_WRITE, times3(w, splits, rows_of(w), w->d * FLOAT));
    if (w->Nq >= 8) count(w, SILICON_L2_WRITE, times3(w, splits, rows_of(w), FLOAT));
    else count(w, SILICON_L2_WRITE, times3(w, w->launch->grid, SECTOR, at_once ? 1 : w->Nq));
    if (!at_once) count(w, SILICON_L2_WRITE, times3(w, w->launch->grid, SPLIT_TWICE, SECTOR));
    t.items = w->launch->grid;
    shared_memory(w, &t);
    count(w, SILICON_SMEM, times(w, t.pairs, SPLIT_TILE_WAVEFRONTS));
    if (w->shape->seqlen_q == 1) count(w, SILICON_SMEM, times(w, t.items, SPLIT_QUERY_WAVEFRONTS));
    through_shared(w, t.items, Br, FLOAT, 2);
    quad_shuffles(w, &t);
    online_softmax(w, &t);
    divisions(w, times(w, t.items, warps), SPLIT_DIVISIONS);
    mma_sync(w, times(w, t.pairs, t.tile.matmul_flops));
    return true;
}

/* Where the launch that made the parts is not known: flash's own rule. */
static uint64_t splits_by_rule(const Work *w)
{
    const TileSize tiles = algorithm_decode.tiles(w->shape);
    Work packed = *w;
    pack_group(&packed);
    const uint64_t query_blocks = ceil_div(packed.Nq, tiles.Br);
    const SplitProblem problem = {.blocks = times(w, packed.heads, query_blocks), .query_blocks = query_blocks,
                                  .key_blocks = ceil_div(packed.Nk, tiles.Bc), .sm_count = w->chip->sm_count};
    return split_count(SPLIT_FA2, &problem);
}

/* Blocks of four rows (eight for narrower heads), the parts of each filled up to a power of two. L is read by sectors, of which the rows of a block
 * are a part, but where there are so few that a sector has those of several parts; each block writes one. Shared memory: L written, read transposed, its
 * weights written; a weight read by each warp and part; the shuffles of a maximum and a sum. Exponentials: of all parts against the maximum (4 warps, or more
 * for more parts than threads), the logarithm (4), the weights of those there are. */
static bool flash_combine(Work *w)
{
    const uint64_t splits = w->launch->splits > 0 ? w->launch->splits : splits_by_rule(w), rows = w->d >= 128 ? 4 : 8, threads = 128;
    uint64_t padded = 2, steps = 1;
    for (; padded < splits; padded *= 2) steps++;
    const uint64_t blocks = ceil_div(rows_of(w), rows), weighing = ceil_div(times(w, rows, padded), WARP);
    const uint64_t exponentials = max_u64(weighing, threads / WARP) + threads / WARP + weighing;
    const uint64_t *const moves = w->d >= 128 ? combine_moves : combine_moves_narrow;
    count(w, SILICON_L2_READ, times3(w, splits, rows_of(w), w->d * FLOAT));
    if (blocks > 1) count(w, SILICON_L2_READ, times3(w, splits, blocks, SECTOR));
    else count(w, SILICON_L2_READ, times(w, ceil_div(times3(w, splits, min_u64(rows_of(w), SECTOR / FLOAT), FLOAT), SECTOR), SECTOR));
    count(w, SILICON_L2_WRITE, query_bytes(w));
    count(w, SILICON_L2_WRITE, times(w, blocks, SECTOR));
    count(w, SILICON_SMEM, times(w, blocks, times(w, threads / WARP, splits + 2 * steps)));
    count(w, SILICON_SMEM, times(w, blocks, 3 * weighing + (steps > 1 ? COMBINE_WAVEFRONTS : COMBINE_TWO_WAVEFRONTS)));
    count(w, SILICON_XU, times(w, blocks, exponentials + COMBINE_XU));
    constant_moves(w, times(w, blocks, moves[min_u64(steps, COMBINE_SIZES) - 1]));
    return true;
}

/* ------------------------------------------------------------------------------------------------------------------ cudnn */

static uint64_t consumers_of(const Work *w) { return w->launch->threads / WARPGROUP_THREADS - 1; }

static bool has_consumers(const Work *w)
{
    if (w->launch->threads >= 2 * WARPGROUP_THREADS) return true;
    return cannot(w, "fewer than two warpgroups: no producer and consumers");
}

static void cudnn_divisions(const Work *w, const Tiling *t)
{
    divisions(w, t->items, CUDNN_ITEM_DIVISIONS);
    divisions(w, w->launch->grid, CUDNN_BLOCK_DIVISIONS);
}

/* 64 queries for each consumer warpgroup; S = Q Kᵀ with both operands in shared memory, P in registers. Run without gradients: no L. */
static bool cudnn_forward(Work *w)
{
    uint64_t rows, Bc, depth;
    Tiling t;
    if (!silicon_tile_in_name(w->launch->launch, &rows, &Bc, &depth)) return cannot(w, "no tile in its name");
    if (!has_consumers(w) || !tile_forward(w, rows * consumers_of(w), Bc, (InstructionShape){64, 256}, &t)) return false;
    const uint64_t flops = times(w, t.pairs, t.tile.matmul_flops);
    count(w, SILICON_L2_READ, times3(w, t.pairs, 2 * Bc, w->d * ELEMENT));      /* bulk copies fetch whole tiles */
    count(w, SILICON_L2_READ, times3(w, t.items, t.Br, w->d * ELEMENT));
    count(w, SILICON_L2_WRITE, t.all.sm_to_l2_bytes - times3(w, w->heads, w->Nq, FLOAT));
    shared_memory(w, &t);
    through_shared(w, t.items, t.Br, ELEMENT, 1);               /* O, stored by a bulk copy */
    quad_shuffles(w, &t);
    online_softmax(w, &t);
    cudnn_divisions(w, &t);
    wgmma(w, flops / 2, Bc);
    wgmma(w, flops / 2, w->d);
    return true;
}

static bool cudnn_dot(Work *w)
{
    half_sectors(w, 2 * query_bytes(w), h200_half_sectors_dot, H200_DOT_POINTS);
    return dot_of_rows(w, FLOAT);
}

/* 64 queries x 64 keys for each consumer warpgroup, which share the queries. P and dS go through shared memory, the float32 dQ too, on its
 * way to a bulk reduction, and at the end dK and dV. */
static bool cudnn_gradients(Work *w)
{
    uint64_t Br, keys, depth;
    Tiling t;
    if (!silicon_tile_in_name(w->launch->launch, &Br, &keys, &depth)) return cannot(w, "no tile in its name");
    const BackwardGeometry geometry = {.scores = {64, (uint32_t)keys}, .key_gradients = {64, 0}, .query_gradients = {64, 0}};
    if (!has_consumers(w) || !tile_backward(w, Br, keys * consumers_of(w), &geometry, &t)) return false;
    const uint64_t product = times(w, t.pairs, t.tile.matmul_flops / 5);
    gradients(w, &t);
    added_to_queries(w, times(w, t.all.atomic_elements / 2, FLOAT));    /* a bulk copy: live rows */
    count(w, SILICON_L2_READ, times3(w, t.pairs, 2 * Br, w->d * ELEMENT + FLOAT));     /* whole tiles of Q and dO, L and D */
    count(w, SILICON_L2_READ, times3(w, t.items, 2 * t.Bc, w->d * ELEMENT));
    through_shared(w, t.pairs, Br, FLOAT, 1);                   /* dQ */
    through_shared(w, t.items, t.Bc, ELEMENT, 2);               /* dK, dV */
    cudnn_divisions(w, &t);
    wgmma(w, 2 * product, keys);
    wgmma(w, 3 * product, w->d);
    return true;
}

static bool cudnn_convert(Work *w)
{
    count(w, SILICON_L2_READ, times(w, query_bytes(w), FLOAT / ELEMENT));
    half_sectors(w, query_bytes(w), h200_half_sectors_convert, H200_CONVERT_POINTS);
    divisions(w, times(w, w->launch->grid, w->launch->threads / WARP), 1);
    return true;
}

/* Rows of Q that the blocks of all K/V heads read: tiles of Br, from the first query head of each on, as far as there are heads: the last few have fewer. */
static uint64_t query_rows(const Work *w, uint64_t Br)
{
    const uint64_t blocks = w->shape->kv_heads, group = w->shape->heads / blocks, last = min_u64(blocks, Br);
    uint64_t rows = times(w, blocks - last, Br);
    for (uint64_t i = 1; i <= last; i++) rows += min_u64(Br, i * group);    /* heads from this block on */
    return times(w, rows, w->shape->batch);
}

/* 16 x 128 tiles by mma.sync; the warps share the keys, so each has its own m, l and O, merged at the end; a block writes two sectors of
 * statistics. */
static bool cudnn_split(Work *w)
{
    uint64_t Br, Bc, depth;
    const uint64_t warps = w->launch->threads / WARP;
    Tiling t;
    pack_group(w);
    if (!silicon_tile_in_name(w->launch->launch, &Br, &Bc, &depth) || warps == 0) return cannot(w, "no tile in its name, or no warp");
    if (!tile_forward(w, Br, Bc, (InstructionShape){0, (uint32_t)(Bc / warps)}, &t)) return false;
    const uint64_t splits = splits_in_grid(w, Br);
    if (splits == 0) return cannot(w, "its grid is smaller than the number of query blocks");
    count(w, SILICON_L2_READ, t.all.l2_to_sm_bytes - query_bytes(w));   /* K and V */
    count(w, SILICON_L2_READ, times3(w, splits, query_rows(w, Br), w->d * ELEMENT));
    if (splits == 1) {                                          /* nothing to combine */
        count(w, SILICON_L2_WRITE, query_bytes(w));
    } else {
        count(w, SILICON_L2_WRITE, times3(w, splits, rows_of(w), w->d * FLOAT));
        count(w, SILICON_L2_WRITE, times(w, w->launch->grid, 2 * SECTOR));
    }
    shared_memory(w, &t);
    count(w, SILICON_SMEM, times(w, w->launch->grid, MERGE_WAVEFRONTS * w->d / 128));
    if (w->d <= 64) count(w, SILICON_SMEM, times(w, t.pairs, CUDNN_NARROW_WAVEFRONTS));
    if (splits == 1) count(w, SILICON_XU, times(w, w->launch->grid, CUDNN_WHOLE_XU));
    /* Each warp has the factors of all rows; one reciprocal at the end makes up for the first tile, which needs none. */
    count(w, SILICON_XU, times3(w, t.pairs, Br, t.Bc + warps * w->chip->row_statistic_lanes) / WARP);
    divisions(w, times(w, w->launch->grid, warps), CUDNN_SPLIT_DIVISIONS);
    mma_sync(w, times(w, t.pairs, t.tile.matmul_flops));
    return true;
}

/* One block per query head, which reads O and the two statistics of every part. These lie [part][head]: a sector has eight heads, or several parts where
 * there are fewer heads; and 32 heads apart in shared memory they lie in one bank. Each warp reads its share of O, and a maximum and a sum per part. */
static bool cudnn_reduction(Work *w)
{
    const uint64_t splits = w->launch->splits, warps = w->launch->threads / WARP, rows = rows_of(w), heads = w->shape->heads;
    uint64_t steps = 0, stride = WARP;
    while (UINT64_C(2) << steps <= min_u64(splits, warps)) steps++;
    while (heads % stride != 0) stride /= 2;
    if (splits == 0) return cannot(w, "the launch that made its parts is not in the file");
    count(w, SILICON_L2_READ, times3(w, splits, rows, w->d * FLOAT));
    count(w, SILICON_L2_READ, times3(w, rows, ceil_div(times(w, splits, min_u64(heads, SECTOR / FLOAT)), SECTOR / FLOAT), 2 * SECTOR));
    count(w, SILICON_L2_WRITE, query_bytes(w));
    count(w, SILICON_SMEM, times3(w, rows, splits, 2 + wavefronts(w, w->d * FLOAT)));
    count(w, SILICON_SMEM, times(w, rows, 2 * ceil_div(times(w, splits, stride), WARP) + REDUCTION_WAVEFRONTS + REDUCTION_STEP_WAVEFRONTS * steps));
    count(w, SILICON_XU, times(w, rows, 2 * splits - 1));
    constant_moves(w, times(w, rows, splits / 4 + 1));
    return true;
}

/* ----------------------------------------------------------------------------------------------------- standard attention */

/* n of the 64 x n x 16 instructions of a tile M x N. It lies along the shorter side, so that 64 goes into the longer one; where two warpgroups share it
 * (coopB), along half of it, or half of the longer side when that is less than 64. */
static uint64_t cublas_n(const char *name, uint64_t M, uint64_t N)
{
    const uint64_t shorter = min_u64(M, N), longer = max_u64(M, N);
    if (strstr(name, "coopB") != NULL) return shorter >= 128 ? shorter / 2 : longer / 2;
    return longer % 64 == 0 ? shorter : longer;
}

/* A product of cuBLAS: C = A B in output tiles of M x N, inner dimension K. An instruction reads 64 rows of one operand and n of the other. */
static void cublas_product(const Work *w, uint64_t tiles, uint64_t M, uint64_t N, uint64_t K, uint64_t flops)
{
    const char *name = w->launch->launch;
    const uint64_t n = cublas_n(name, M, N), steps = ceil_div(K, 64);
    const uint64_t instructions = ceil_div(M * N, 64 * max_u64(n, 1)), barriers = strstr(name, "coop") != NULL ? 12 : 5;
    count(w, SILICON_L2_READ, times3(w, tiles, M + N, K * ELEMENT));
    count(w, SILICON_SMEM, times3(w, tiles, steps, instructions * wavefronts(w, (64 + n) * 64 * ELEMENT) + barriers));
    count(w, SILICON_SMEM, times(w, tiles, wavefronts(w, M * N * ELEMENT)));
    wgmma(w, flops, max_u64(n, 1));
}

static bool product_tile(const Work *w, uint64_t *M, uint64_t *N)
{
    if (strstr(w->launch->launch, "splitK") != NULL) return cannot(w, "its inner dimension is split among blocks");
    return silicon_tile_in_name(w->launch->launch, M, N, NULL) || cannot(w, "no tile in its name");
}

static bool standard_scores(Work *w)
{
    uint64_t M, N;
    if (!product_tile(w, &M, &N)) return false;
    const uint64_t elements = times3(w, w->heads, w->Nq, w->Nk), tiles = times3(w, w->heads, ceil_div(w->Nk, M), ceil_div(w->Nq, N));
    count(w, SILICON_L2_WRITE, times(w, elements, ELEMENT));
    count(w, SILICON_SMEM, times(w, tiles, SCORES_WAITING));
    cublas_product(w, tiles, M, N, w->d, times(w, elements, 2 * w->d));
    return true;
}

/* Column-major: the first side of a tile is along d, the second along the queries. */
static bool standard_output(Work *w)
{
    uint64_t M, N;
    if (!product_tile(w, &M, &N)) return false;
    count(w, SILICON_L2_WRITE, query_bytes(w));
    cublas_product(w, times3(w, w->heads, ceil_div(w->d, M), ceil_div(w->Nq, N)), M, N, w->Nk,
                   times(w, times3(w, w->heads, w->Nq, w->Nk), 2 * w->d));
    return true;
}

/* Phi(x), by bisection of its inverse; 0 below 1e-17. */
static double normal_distribution(double x)
{
    double low = -40, high = 0;                                 /* of log p; of its mirror image above 1/2 */
    if (x > 0) return 1 - normal_distribution(-x);
    for (int i = 0; i < 40; i++) {
        const double middle = (low + high) / 2;
        if (normal_quantile(exp_f64(middle)) < x) low = middle;
        else high = middle;
    }
    return exp_f64(high);
}

/* Between neighbours of x in BF16, which has eight bits. */
static double bf16_spacing(double x)
{
    int exponent;
    frexp(x, &exponent);
    return ldexp(1, exponent - 8);
}

/* The share of elements e^(s - m) below e^-depth, where scores are normal with this deviation and the maximum m is so many deviations: both are
 * BF16, so m is a multiple of its spacing, and s is below the limit if it is rounded to something below. */
static double share_below(double deviation, double largest, double depth)
{
    const double m = deviation * largest, fine = bf16_spacing(m), limit = nearbyint(m / fine) * fine - depth, coarse = bf16_spacing(limit);
    return normal_distribution((ceil(limit / coarse) - 0.5) * coarse / deviation);
}

/* Float32 division takes a slow path, with a reciprocal of its own, when the numerator is below 2^-102; the whole warp takes it with its
 * slowest lane. P's numerator e^(s - m) is that small where a score lies 102 ln 2 below its row's maximum. How often depends on the data;
 * the measurements have standard normal Q and K and no softmax scale, so a row's scores are normal with variance |q|^2, chi-squared with d
 * degrees of freedom, and the maximum of N of them has the distribution Phi^N. Returns the expected share of a warp's divisions: the mean over
 * both densities. In a launch of 16 heads of 1,024 rows it scatters by 1 %. */
static double slow_division_share(uint64_t N, uint64_t d)
{
    enum { NORMS = 32, MAXIMA = 512 };
    const double depth = 102 * log_f64(2), root = sqrt((double)d), reach = 5, width = 8;
    double sum = 0, weights = 0;
    for (int j = 0; j < MAXIMA; j++) {
        const double largest = width * ((2 * j + 1.0) / MAXIMA - 1);
        const double weight = exp_f64((double)(N - 1) * log_f64(normal_distribution(largest)) - largest * largest / 2);
        for (int i = 0; i < NORMS && weight > 0; i++) {
            const double norm = root + reach * ((2 * i + 1.0) / NORMS - 1);
            if (norm <= 0) continue;
            const double density = weight * exp_f64((double)(d - 1) * log_f64(norm / root) - (norm * norm - (double)d) / 2);
            weights += density;
            sum += density * (1 - exp_f64(WARP * log_f64(1 - share_below(norm, largest, depth))));
        }
    }
    return sum / weights;
}

/* Keys of a row that PyTorch gives to one warp; to a block of 1,024 threads that keep it in registers; in shared memory, 48 KiB less 128 bytes. */
enum { SOFTMAX_WARP = 2048, SOFTMAX_BLOCK = 1024, SOFTMAX_REGISTERS = 9 * SOFTMAX_BLOCK, SOFTMAX_SHARED = (48 * 1024 - 128) / 2 };
enum { LONG_ROW_DIVISIONS = 6 };        /* integer divisions of a warp, rows longer than that */

static uint64_t next_power_of_two(uint64_t n)
{
    uint64_t power = 1;
    while (power < n) power *= 2;
    return power;
}

/* Constants that a warp sets on the tensor pipe, for blocks with so many keys a thread: one, and one an element but for what the compiler of that kernel
 * found (h200_counters_more). Those with 5 or 6 elements set none in the slow path of a division either. */
static uint64_t softmax_constants(uint64_t Nk)
{
    const uint64_t elements = ceil_div(Nk, SOFTMAX_BLOCK);
    if (Nk <= SOFTMAX_WARP || elements == 3) return 1;
    if (Nk <= SOFTMAX_REGISTERS) return 1 + elements;
    return Nk < SOFTMAX_SHARED ? 3 + elements : 1 + 7 * elements / 8;
}

/* Rows stay on chip, up to 2,048 keys in the registers of one warp, beyond with a block: S read once. Per element e^(S - m) for the sum and
 * again for P, and the reciprocal of a division; a block's kernel needs one XU instruction more. A warp's sum runs to the next power of two. */
static bool standard_softmax(Work *w)
{
    const uint64_t elements = times3(w, w->heads, w->Nq, w->Nk), instructions = elements / WARP, a_thread = ceil_div(w->Nk, SOFTMAX_BLOCK);
    count(w, SILICON_L2_READ, times(w, elements, ELEMENT));
    count(w, SILICON_L2_WRITE, times(w, elements, ELEMENT));
    const uint64_t slow = w->Nk > 0 ? (uint64_t)(slow_division_share(w->Nk, w->d) * (double)instructions) : 0;  /* an expectation */
    if (w->Nk > SOFTMAX_WARP) count(w, SILICON_XU, times(w, instructions, 4));
    else count(w, SILICON_XU, 2 * instructions + times3(w, w->heads, w->Nq, next_power_of_two(w->Nk)) / WARP);
    if (w->Nk >= SOFTMAX_SHARED) count(w, SILICON_XU, times(w, warps_of(w), LONG_ROW_DIVISIONS));
    count(w, SILICON_XU, slow);
    constant_moves(w, times(w, warps_of(w), softmax_constants(w->Nk)));
    if (a_thread != 5 && a_thread != 6) constant_moves(w, slow);
    return true;
}

/* ------------------------------------------------------------------------------------------------------------ the kernels */

struct SiliconKernel {
    const char *family, *pass, *mark, *role;    /* mark: part of the launch's name */
    bool (*describe)(Work *w);
    bool any_head_dim;
    const char *left_out[SILICON_COUNTERS], *known_miss[SILICON_COUNTERS];
};

static const char no_tile[] = "no tile in shared memory: the counter shows shuffles and stores";
static const char unknown_to_l2[] = "the simulated L2 has no kernel for it";
static const char edge[] = "on the edge: what is in use nearly fills L2";
static const char stand_in[] = "FlashAttention-2's kernel stands for it";
static const char stored_otherwise[] = "blocks of a long launch end one by one: more of O is written back than the first wave's";
static const char private_data[] = "K and V that only just fill L2: more of what was dirty before leaves than in the model";
static const char few_rows[] = "rows that do not fill a block: what its idle threads do is not counted right";
static const char two_tiles[] = "a block of two tiles: L1 merges more of the stored sectors or fewer, by timing";
static const char not_split[] = "keys that are not split: what its barriers poll, by timing";
#define NO_DRAM [SILICON_DRAM_READ] = unknown_to_l2, [SILICON_DRAM_WRITE] = unknown_to_l2

static const SiliconKernel kernels[] = {
    {"flash", "fwd", "flash_fwd_kernel", "forward", flash_forward, .any_head_dim = false, .known_miss = {[SILICON_DRAM_READ] = edge}},
    {"flash", "fwd", "flash_fwd_splitkv_kernel", "split", flash_split, .any_head_dim = false,
     .known_miss = {[SILICON_DRAM_WRITE] = private_data, [SILICON_L2_WRITE] = two_tiles}},
    {"flash", "fwd", "flash_fwd_splitkv_combine_kernel", "combine", flash_combine, .any_head_dim = false, .left_out = {NO_DRAM},
     .known_miss = {[SILICON_L2_WRITE] = few_rows, [SILICON_SMEM] = few_rows, [SILICON_XU] = few_rows}},
    {"flash", "bwd", "::elementwise_kernel", "copy", flash_copy, .any_head_dim = true, .left_out = {[SILICON_SMEM] = no_tile, NO_DRAM}},
    {"flash", "bwd", "flash_bwd_dot_do_o_kernel", "D", flash_dot, .any_head_dim = true, .left_out = {[SILICON_SMEM] = no_tile}},
    {"flash", "bwd", "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel", "gradients", flash_gradients, .any_head_dim = false},
    {"flash", "bwd", "flash_bwd_convert_dq_kernel", "convert", flash_convert, .any_head_dim = true},
    {"cudnn", "fwd", "flash_fprop_wgmma", "forward", cudnn_forward, .any_head_dim = false},
    {"cudnn", "fwd", "flash_fprop_wmma", "split", cudnn_split, .any_head_dim = false,
     .known_miss = {[SILICON_SMEM] = not_split, [SILICON_DRAM_WRITE] = private_data}},
    {"cudnn", "fwd", "lean_reduction_kernel", "combine", cudnn_reduction, .any_head_dim = false, .left_out = {NO_DRAM}},
    {"cudnn", "bwd", "compute_dot_do_o", "D", cudnn_dot, .any_head_dim = true, .left_out = {[SILICON_SMEM] = no_tile}},
    {"cudnn", "bwd", "flash_bprop_wgmma", "gradients", cudnn_gradients, .any_head_dim = false,
     .known_miss = {[SILICON_DRAM_READ] = stand_in}},
    {"cudnn", "bwd", "convert_dq_to_16bits", "convert", cudnn_convert, .any_head_dim = true,
     .left_out = {[SILICON_SMEM] = no_tile}},
    {"std_qk", "fwd", "nvjet_", "S = Q K^T", standard_scores, .any_head_dim = true},
    {"std_softmax", "fwd", "", "P = softmax S", standard_softmax, .any_head_dim = true, .left_out = {[SILICON_SMEM] = no_tile}},
    {"std_pv", "fwd", "nvjet_", "O = P V", standard_output, .any_head_dim = true, .known_miss = {[SILICON_DRAM_WRITE] = stored_otherwise}},
};
enum { KERNELS = sizeof kernels / sizeof kernels[0] };

size_t silicon_kernel_count(void) { return KERNELS; }
const SiliconKernel *silicon_kernel_at(size_t index) { return &kernels[index]; }
const char *silicon_kernel_name(const SiliconKernel *kernel) { return kernel->family; }
const char *silicon_kernel_pass(const SiliconKernel *kernel) { return kernel->pass; }
const char *silicon_kernel_role(const SiliconKernel *kernel) { return kernel->role; }
const char *silicon_left_out(const SiliconKernel *kernel, SiliconCounter counter) { return kernel->left_out[counter]; }
const char *silicon_known_miss(const SiliconKernel *kernel, SiliconCounter counter) { return kernel->known_miss[counter]; }

double silicon_target(const SiliconKernel *kernel, SiliconCounter counter)
{
    switch (counter) {
    case SILICON_L2_READ: return 0.5;
    case SILICON_DRAM_READ: return 30;          /* silicon_row_target: less where it is read once */
    case SILICON_DRAM_WRITE: return 15;
    case SILICON_L2_WRITE: return 5;
    case SILICON_SMEM: return strcmp(kernel->pass, "fwd") == 0 ? 10 : 20;
    default: return 1;
    }
}

/* "flash" and "flash_decode" are of the family flash. */
static bool is_of_family(const char *kernel, const char *family)
{
    const size_t length = strlen(family);
    return strncmp(kernel, family, length) == 0 && (kernel[length] == '\0' || kernel[length] == '_');
}

const SiliconKernel *silicon_kernel_of(const SiliconLaunch *l, const char **why)
{
    bool family = false;
    for (size_t i = 0; i < KERNELS; i++) {
        if (!is_of_family(l->kernel, kernels[i].family) || strcmp(l->pass, kernels[i].pass) != 0) continue;
        family = true;
        if (strstr(l->launch, kernels[i].mark) == NULL) continue;
        *why = "its counts are known for head dims 64 and 128";
        return kernels[i].any_head_dim || l->shape.head_dim == 64 || l->shape.head_dim == 128 ? &kernels[i] : NULL;
    }
    *why = family ? "no formula for a launch of this name" : "no formula for this kernel and pass";
    return NULL;
}

static Work work_on(const SiliconLaunch *launch, Status *status)
{
    const AttentionShape *s = &launch->shape;
    return (Work){.launch = launch, .shape = s, .heads = checked_mul(s->batch, s->heads, "batch x heads", status), .Nq = s->seqlen_q,
                  .Nk = s->seqlen_k, .d = s->head_dim, .masked = s->mask != MASK_NONE, .status = status};
}

uint64_t silicon_splits(const SiliconLaunch *launch)
{
    Status status = {0};
    Work w = work_on(launch, &status);
    uint64_t Br, Bc, depth;
    if (!silicon_tile_in_name(launch->launch, &Br, &Bc, &depth)) Br = algorithm_decode.tiles(&launch->shape).Br;
    pack_group(&w);
    return status_ok(&status) ? splits_in_grid(&w, Br) : 0;
}

bool silicon_counts(const SiliconKernel *kernel, const SiliconLaunch *launch, const Profile *chip, SiliconCounts *counts, const char **why,
                    Status *status)
{
    *counts = (SiliconCounts){0};
    *why = NULL;
    if (!attention_check(&launch->shape, status)) return false;
    Work w = work_on(launch, status);
    w.chip = chip;
    w.counts = counts;
    w.why = why;
    if (!profile_has(chip, TENSOR_WGMMA)) return cannot(&w, "these are kernels for Hopper, and the chip has no wgmma");
    return kernel->describe(&w) && status_ok(status);
}
