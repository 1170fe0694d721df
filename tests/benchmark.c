/* benchmark.c - how fast the machine is; a program of its own, no test: times depend on the machine, ratios in one run hardly do.
 *
 *     build/bin/benchmark            all of it, 6 s
 *     build/bin/benchmark --quick    a quarter of the lengths, 1 s
 *
 *     count      FlashAttention-2 walked without data at N, 2N, 4N, 8N: ns per tile pair stay what they are, and memory too
 *     numeric    FlashAttention-2 computed in float32 by every build of the tile arithmetic, beside a plain attention in the
 *                order of llm.c (for each query: scores by dot products, softmax, weighted sum); the builds give the same bits
 *     L2         the simulated cache: both engines swept, and whole launches of 16 heads
 *     per tile   where a tile pair's time goes
 *     pieces     exponentials, rounding to formats, normal numbers
 *
 * Targets (Release, one core): a walk of a million tokens in 2 s and 8 MiB; 10 million tiles and 30 million lines a second through the
 * simulated L2; at least 20 GFLOP/s in the portable build; 4 times the plain one in the build that this processor gets. They are printed, not enforced; the exit code is 1 only when two builds
 * disagree or attention comes out wrong. Compilers do well by the plain loops: 6.5 GFLOP/s on a Sapphire Rapids core, which runs
 * several dot products at once. Times are the best of several runs: processor time (clock) of the long ones, wall-clock time
 * (timespec_get) of the short ones.
 */
#include "algos/run.h"
#include "sim/formats.h"
#include "sim/hadamard.h"
#include "sim/l2_chip.h"
#include "sim/math_functions.h"
#include "sim/normal.h"
#include "sim/quantise.h"
#include "sim/tile_math.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_VARIANTS = 3 };            /* of tile_math_select.c */

typedef struct {
    Alloc alloc;
    Status status;
    Profile chip;
    bool quick;
    bool wrong;             /* two builds disagree, or attention is not attention */
} Bench;

/* Nanoseconds. In seconds since 1970 a double resolves a quarter of a microsecond. */
static uint64_t now(void)
{
    struct timespec time;
    timespec_get(&time, TIME_UTC);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static double seconds_since(uint64_t start) { return 1e-9 * (double)(int64_t)(now() - start); }

/* Processor time of this program: what others run meanwhile hardly shows. */
static double cpu_seconds_since(clock_t start) { return (double)(clock() - start) / CLOCKS_PER_SEC; }

static double best_of(double best, double seconds, int repetition) { return repetition == 0 || seconds < best ? seconds : best; }

/* What a target line says of itself. */
static const char *verdict(bool reached) { return reached ? "reached" : "MISSED"; }

/* ------------------------------------------------------------------------------------------------------------------ count */

typedef struct {
    double seconds;
    uint64_t pairs, peak_bytes;
} WalkTime;

static WalkTime time_walk(Bench *bench, uint64_t N, L2Model l2, int repetitions)
{
    WalkTime result = {0};
    AttentionShape shape = attention_shape(N, 128);
    for (int i = 0; i < repetitions && status_ok(&bench->status); i++) {
        Alloc alloc = {0};
        AttentionRun run;
        const clock_t start = clock();
        attention_count(&run, &algorithm_fa2, &shape, (TileSize){128, 128}, l2, &bench->chip, &alloc, &bench->status);
        result.seconds = best_of(result.seconds, cpu_seconds_since(start), i);
        result.pairs = run.closed_form.tile_pairs;
        bench->wrong |= run.totals.matmul_flops != run.closed_form.matmul_flops;
        attention_run_free(&run);
        result.peak_bytes = alloc.peak_bytes;
    }
    return result;
}

static void bench_count(Bench *bench)
{
    const uint64_t base = bench->quick ? 1 << 15 : 1 << 17;
    double first = 0, seconds = 0;
    uint64_t peak = 0;
    printf("count: fa2, d = 128, tiles 128 x 128, one head on %s\n", bench->chip.name);
    printf("  %-6s %9s %12s %9s %8s %9s %7s\n", "L2", "N", "tile pairs", "ms", "ns/pair", "to first", "KiB");
    for (int l2 = L2_NONE; l2 <= L2_IDEAL; l2++)
        for (uint64_t N = base; N <= 8 * base; N *= 2) {
            const WalkTime walk = time_walk(bench, N, (L2Model)l2, N < 8 * base ? 3 : 1);
            const double per_pair = 1e9 * walk.seconds / (double)walk.pairs;
            if (N == base) first = per_pair;
            if (l2 == L2_NONE) {
                seconds = walk.seconds;
                peak = walk.peak_bytes;
            }
            printf("  %-6s %9" PRIu64 " %12" PRIu64 " %9.1f %8.2f %9.2f %7.0f\n", l2 == L2_NONE ? "none" : "ideal", N, walk.pairs,
                   1e3 * walk.seconds, per_pair, per_pair / first, (double)walk.peak_bytes / 1024);
        }
    if (!bench->quick)
        printf("  target: N = 1m without L2 in 2 s and 8 MiB: %.2f s, %.2f MiB, %s\n", seconds, (double)peak / 1048576,
               verdict(seconds <= 2 && peak <= UINT64_C(8) << 20));
}

/* --------------------------------------------------------------------------------------------------------------------- L2 */

/* Sweeps over tiles of 32 KiB, as many as fit, or twice that: all hits or all misses. Millions of loads a second. */
static double tile_rate(Bench *bench, bool fits)
{
    enum { TILES = 1920, SWEEPS = 2000, BYTES = 32768 };
    L2TileCache cache;
    if (!l2_tiles_init(&cache, TILES, (uint64_t)TILES * BYTES / (fits ? 1 : 2), &bench->alloc, &bench->status)) return 0;
    for (uint32_t i = 0; i < TILES; i++) l2_tiles_define(&cache, i, BYTES, 0);
    const clock_t start = clock();
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        for (uint32_t i = 0; i < TILES; i++) l2_tiles_access(&cache, i, L2_LOAD);
    const double seconds = cpu_seconds_since(start);
    bench->wrong |= cache.traffic.read[0] != (uint64_t)TILES * BYTES * (fits ? 1 : SWEEPS);
    l2_tiles_free(&cache);
    return 1e-6 * TILES * SWEEPS / seconds;
}

/* The same by lines of 128 bytes. */
static double line_rate(Bench *bench, bool fits)
{
    enum { SWEEPS = 20 };
    const uint64_t bytes = UINT64_C(60) << 20;
    L2LineCache cache;
    if (!l2_lines_init(&cache, fits ? bytes : bytes / 2, L2_WAYS, &bench->alloc, &bench->status)) return 0;
    const clock_t start = clock();
    for (int sweep = 0; sweep < SWEEPS; sweep++) l2_lines_access(&cache, 0, bytes, 0, L2_LOAD);
    const double seconds = cpu_seconds_since(start);
    bench->wrong |= cache.traffic.read[0] != bytes * (fits ? 1 : SWEEPS);
    l2_lines_free(&cache);
    return 1e-6 * SWEEPS * (double)(bytes / L2_LINE_BYTES) / seconds;
}

/* The same by chunks, in two partitions, asked for by SMs of one: as many as the copies leave room for, or more than fit. */
static double chunk_rate(Bench *bench, bool fits)
{
    enum { SWEEPS = 200 };
    const uint64_t bytes = UINT64_C(60) << 20;
    const uint32_t chunks = (uint32_t)((fits ? bytes / 2 : 2 * bytes) / L2_CHUNK_BYTES);
    L2Chip chip;
    if (!l2_chip_init(&chip, chunks, 0, bytes, 2, &bench->alloc, &bench->status)) return 0;
    for (uint32_t i = 0; i < chunks; i++) l2_chip_define(&chip, i, L2_CHUNK_BYTES, 0);
    const clock_t start = clock();
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        for (uint32_t i = 0; i < chunks; i++) l2_chip_access(&chip, i, 0, L2_LOAD);
    const double seconds = cpu_seconds_since(start);
    bench->wrong |= chip.traffic.read[0] != (uint64_t)chunks * L2_CHUNK_BYTES * (fits ? 1 : SWEEPS);
    l2_chip_free(&chip);
    return 1e-6 * chunks * SWEEPS / seconds;
}

static void bench_l2(Bench *bench)
{
    const double chunks[2] = {chunk_rate(bench, true), chunk_rate(bench, false)};
    const double tiles[2] = {tile_rate(bench, true), tile_rate(bench, false)}, lines[2] = {line_rate(bench, true), line_rate(bench, false)};
    const uint64_t N = bench->quick ? 16384 : 65536;
    AttentionShape shape = attention_shape(N, 128);
    AttentionRun run;
    shape.heads = shape.kv_heads = 16;
    const clock_t start = clock();
    attention_count(&run, &algorithm_fa2, &shape, (TileSize){128, 64}, L2_SIMULATED, &bench->chip, &bench->alloc, &bench->status);
    const double seconds = cpu_seconds_since(start);
    attention_run_free(&run);
    printf("L2: the simulated cache, millions a second: hits, misses\n");
    printf("  tiles of 32 KiB %9.1f %9.1f   target: 10, %s\n", tiles[0], tiles[1], verdict(tiles[0] >= 10 && tiles[1] >= 10));
    printf("  lines of 128 B  %9.1f %9.1f   target: 30, %s\n", lines[0], lines[1], verdict(lines[0] >= 30 && lines[1] >= 30));
    printf("  chunks of 4 KiB %9.1f %9.1f   as on a chip: eight to a tile\n", chunks[0], chunks[1]);
    printf("  fa2, 16 heads, N = %" PRIu64 ", d = 128, walked and run through it: %.2f s\n", N, seconds);
}

/* ---------------------------------------------------------------------------------------------------------------- numeric */

typedef struct {
    double seconds;
    float *O;               /* N x d, the caller's to free */
} NumericTime;

static NumericTime time_fa2(Bench *bench, const AttentionShape *shape, const TileMath *math, int repetitions)
{
    NumericTime result = {0};
    const RunSetup setup = {.algorithm = &algorithm_fa2, .profile = &bench->chip, .tiles = {128, 128},
                            .config = {.mode = MODE_NUMERIC, .l2 = L2_IDEAL, .precision = PRECISION_F32, .math = math}};
    const uint64_t elements = shape->seqlen_q * shape->head_dim;
    result.O = alloc_array(&bench->alloc, elements, sizeof(float), "O", &bench->status);
    for (int i = 0; i < repetitions && status_ok(&bench->status); i++) {
        AttentionRun run;
        if (attention_run_prepare(&run, &setup, shape, &bench->alloc, &bench->status)) {
            attention_random_inputs(&run.attention, &run.machine, 0);
            const clock_t start = clock();
            if (attention_run_forward(&run)) memcpy(result.O, run.attention.O->data, elements * sizeof(float));
            result.seconds = best_of(result.seconds, cpu_seconds_since(start), i);
        }
        attention_run_free(&run);
    }
    return result;
}

/* One query after the other, each sum in ascending order, as llm.c writes it (attention_forward in train_gpt2.c). */
static void plain_attention(float *O, const float *Q, const float *K, const float *V, float *weights, uint64_t queries,
                            uint64_t N, uint64_t d, float scale)
{
    for (uint64_t i = 0; i < queries; i++) {
        float m = -INFINITY, l = 0;
        for (uint64_t j = 0; j < N; j++) {
            float score = 0;
            for (uint64_t c = 0; c < d; c++) score += Q[i * d + c] * K[j * d + c];
            weights[j] = score * scale;
            if (weights[j] > m) m = weights[j];
        }
        for (uint64_t j = 0; j < N; j++) {
            weights[j] = exp_f32(weights[j] - m);
            l += weights[j];
        }
        for (uint64_t c = 0; c < d; c++) O[i * d + c] = 0;
        for (uint64_t j = 0; j < N; j++)
            for (uint64_t c = 0; c < d; c++) O[i * d + c] += weights[j] / l * V[j * d + c];
    }
}

/* Seconds for all N queries; a quarter of them is computed. */
static double time_plain(Bench *bench, const AttentionShape *shape, const float *want)
{
    const uint64_t N = shape->seqlen_q, d = shape->head_dim, queries = N / 4;
    float *data = alloc_array(&bench->alloc, 4 * N * d + N, sizeof(float), "plain attention", &bench->status);
    if (data == NULL) return 0;
    float *Q = data, *K = Q + N * d, *V = K + N * d, *O = V + N * d, *weights = O + N * d, largest = 0;
    for (uint64_t stream_id = 0; stream_id < 3; stream_id++) normal_fill_f32(data + stream_id * N * d, N * d, 0, stream_id, 0);
    const clock_t start = clock();
    plain_attention(O, Q, K, V, weights, queries, N, d, (float)shape->softmax_scale);
    const double seconds = cpu_seconds_since(start) * (double)N / (double)queries;
    for (uint64_t i = 0; i < queries * d; i++) largest = fabsf(O[i] - want[i]) > largest ? fabsf(O[i] - want[i]) : largest;
    printf("  max |plain - fa2| = %.1e\n", (double)largest);
    bench->wrong |= !(largest < 1e-5f);
    alloc_free(&bench->alloc, data);
    return seconds;
}

static void bench_numeric(Bench *bench)
{
    AttentionShape shape = attention_shape(bench->quick ? 1024 : 4096, 64);
    shape.dtype = ELEMENT_F32;
    const double gflop = 4e-9 * (double)shape.seqlen_q * (double)shape.seqlen_k * (double)shape.head_dim;
    const size_t variants = tile_math_count(PRECISION_F32), bytes = (size_t)(shape.seqlen_q * shape.head_dim * sizeof(float));
    double gflops[MOST_VARIANTS] = {0};
    printf("numeric: fa2 forward, float32, N = %" PRIu64 ", d = 64, tiles 128 x 128, one core\n", shape.seqlen_q);
    const NumericTime portable = time_fa2(bench, &shape, tile_math_variant(PRECISION_F32, 0), 5);
    if (!status_ok(&bench->status)) return;
    const double plain = gflop / time_plain(bench, &shape, portable.O);
    printf("  %-14s %9s %9s %9s %s\n", "arithmetic", "ms", "GFLOP/s", "to plain", "bits");
    printf("  %-14s %9.1f %9.1f %9.1f\n", "plain", 1e3 * gflop / plain, plain, 1.0);
    for (size_t i = 0; i < variants; i++) {
        const NumericTime time = i == 0 ? portable : time_fa2(bench, &shape, tile_math_variant(PRECISION_F32, i), 5);
        const bool same = memcmp(time.O, portable.O, bytes) == 0;
        gflops[i] = gflop / time.seconds;
        printf("  %-14s %9.1f %9.1f %9.1f %s\n", tile_math_variant(PRECISION_F32, i)->name, 1e3 * time.seconds, gflops[i],
               gflops[i] / plain, same ? "the same" : "DIFFERENT");
        bench->wrong |= !same;
        if (i > 0) alloc_free(&bench->alloc, time.O);
    }
    alloc_free(&bench->alloc, portable.O);
    const double widest = gflops[variants - 1];
    printf("  target: portable at least 20 GFLOP/s: %.1f, %s; %s at least 4 times plain: %.1f, %s\n", gflops[0],
           verdict(gflops[0] >= 20), tile_math_select(PRECISION_F32)->name, widest / plain, verdict(widest >= 4 * plain));
}

/* --------------------------------------------------------------------------------------------------------------- per tile */

enum { TILE_ROWS = 128, TILE_KEYS = 128, TILE_DIM = 64, TILE_REPETITIONS = 300 };

/* The operations of one tile pair of fa2, as ops.c calls them. */
typedef enum {
    PAIR_LOAD, PAIR_QK, PAIR_SCALE, PAIR_MAX, PAIR_ALPHA, PAIR_EXP, PAIR_SUM, PAIR_CONVERT, PAIR_RESCALE, PAIR_PV, PAIR_OPERATIONS
} PairOperation;

static const char *const pair_names[PAIR_OPERATIONS] = {"load K, V", "Q K^T",        "scale",      "row max",   "alpha",
                                                        "exp",       "row sum",      "convert P",  "rescale O", "P V"};

typedef struct {
    Matrix q, k, v, s, o, m, m_new, l, alpha;
    const float *memory;
} PairTiles;

static void run_operation(const TileMath *math, const PairTiles *t, PairOperation operation)
{
    switch (operation) {
    case PAIR_LOAD:
        math->load(t->k, t->memory, TILE_DIM);
        math->load(t->v, t->memory, TILE_DIM);
        break;
    case PAIR_QK: math->matmul(t->s, t->q, false, t->k, true, 1.0, false); break;
    case PAIR_SCALE: math->scale(t->s, 0.125); break;
    case PAIR_MAX: math->row_max(t->m_new, t->m, t->s); break;
    case PAIR_ALPHA: math->exp_difference(t->alpha, t->m, t->m_new); break;
    case PAIR_EXP: math->exp_rows(t->s, t->s, t->m_new); break;
    case PAIR_SUM: math->row_sum(t->l, t->alpha, t->s); break;
    case PAIR_CONVERT: math->copy(t->s, t->s, ELEMENT_F32); break;
    case PAIR_RESCALE: math->scale_rows(t->o, t->alpha); break;
    case PAIR_PV: math->matmul(t->o, t->s, false, t->v, false, 1.0, true); break;
    case PAIR_OPERATIONS: break;
    }
}

/* Whole tile pairs, timed operation by operation, so that caches are as in a kernel. */
static void time_pair(const TileMath *math, const PairTiles *tiles, double seconds[PAIR_OPERATIONS])
{
    for (int repetition = 0; repetition < TILE_REPETITIONS; repetition++)
        for (int operation = 0; operation < PAIR_OPERATIONS; operation++) {
            const uint64_t start = now();
            run_operation(math, tiles, (PairOperation)operation);
            seconds[operation] = best_of(seconds[operation], seconds_since(start), repetition);
        }
}

static void bench_tiles(Bench *bench)
{
    const size_t variants = tile_math_count(PRECISION_F32);
    double seconds[MOST_VARIANTS][PAIR_OPERATIONS] = {{0}}, totals[MOST_VARIANTS] = {0};
    float *data = alloc_array(&bench->alloc, TILE_ROWS * (5 * TILE_DIM + TILE_KEYS + 5), sizeof(float), "tiles", &bench->status);
    if (data == NULL) return;
    float *next = data;
    PairTiles tiles;
    Matrix *const all[] = {&tiles.q, &tiles.k, &tiles.v, &tiles.o, &tiles.s, &tiles.m, &tiles.m_new, &tiles.l, &tiles.alpha};
    const uint32_t cols[] = {TILE_DIM, TILE_DIM, TILE_DIM, TILE_DIM, TILE_KEYS, 1, 1, 1, 1};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        *all[i] = (Matrix){next, TILE_ROWS, cols[i], TILE_ROWS};
        next += TILE_ROWS * cols[i];
    }
    tiles.memory = next;
    normal_fill_f32(data, TILE_ROWS * TILE_DIM, 0, 0, 0);
    normal_fill_f32(next, TILE_ROWS * TILE_DIM, 0, 1, 0);
    printf("per tile: one pair of %d x %d, d = %d, microseconds (share)\n  %-14s", TILE_ROWS, TILE_KEYS, TILE_DIM, "");
    for (size_t i = 0; i < variants; i++) {
        time_pair(tile_math_variant(PRECISION_F32, i), &tiles, seconds[i]);
        for (int operation = 0; operation < PAIR_OPERATIONS; operation++) totals[i] += seconds[i][operation];
        printf(" %17s", tile_math_variant(PRECISION_F32, i)->name);
    }
    for (int operation = 0; operation < PAIR_OPERATIONS; operation++) {
        printf("\n  %-14s", pair_names[operation]);
        for (size_t i = 0; i < variants; i++)
            printf(" %9.2f (%4.1f %%)", 1e6 * seconds[i][operation], 100 * seconds[i][operation] / totals[i]);
    }
    printf("\n");
    alloc_free(&bench->alloc, data);
}

/* ----------------------------------------------------------------------------------------------------------------- pieces */

enum { PIECE_ELEMENTS = 1 << 16, PIECE_REPETITIONS = 20 };

static void bench_formats(float *values)
{
    static const ElementType types[] = {ELEMENT_BF16, ELEMENT_FP16, ELEMENT_E4M3, ELEMENT_E5M2};
    printf("pieces: milliseconds per million elements (65,536 in the caches)\n");
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        double best = 0;
        for (int i = 0; i < PIECE_REPETITIONS; i++) {
            normal_fill_f32(values, PIECE_ELEMENTS, 0, 0, 0);
            const uint64_t start = now();
            round_elements(types[t], values, PIECE_ELEMENTS);
            best = best_of(best, seconds_since(start), i);
        }
        printf("  %-24s %8.2f\n", element_name(types[t]), 1e9 * best / PIECE_ELEMENTS);
    }
}

static void bench_exp(Precision precision, void *values)
{
    float *single = values;
    double *real = values;
    for (size_t variant = 0; variant < tile_math_count(precision); variant++) {
        const TileMath *math = tile_math_variant(precision, variant);
        const Matrix x = {values, 256, 128, 256};
        double best = 0;
        double reference[256] = {0};        /* m = 0 in either precision */
        for (int i = 0; i < PIECE_REPETITIONS; i++) {
            if (precision == PRECISION_F32) normal_fill_f32(single, 256 * 128, 0, 0, 0);
            else normal_fill_f64(real, 256 * 128, 0, 0, 0);
            const uint64_t start = now();
            math->exp_rows(x, x, (Matrix){reference, 256, 1, 256});
            best = best_of(best, seconds_since(start), i);
        }
        printf("  exp %-20s %8.2f\n", math->name, 1e9 * best / (256 * 128));
    }
}

static void bench_normal(void *values)
{
    double best_single = 0, best_double = 0;
    for (int i = 0; i < PIECE_REPETITIONS; i++) {
        const uint64_t start = now();
        normal_fill_f32(values, PIECE_ELEMENTS, 0, 0, 0);
        best_single = best_of(best_single, seconds_since(start), i);
        const uint64_t middle = now();
        normal_fill_f64(values, PIECE_ELEMENTS / 2, 0, 0, 0);
        best_double = best_of(best_double, seconds_since(middle), i);
    }
    printf("  %-24s %8.2f\n  %-24s %8.2f\n", "normal_fill_f32", 1e9 * best_single / PIECE_ELEMENTS, "normal_fill_f64",
           2e9 * best_double / PIECE_ELEMENTS);
}

/* What comes before FP8 attention: 16k x 128, rotated, then rounded with a scale per block of 128 rows. */
static void bench_rotation(Bench *bench)
{
    enum { ROWS = 16384, COLS = 128, DISTANCE = ROWS + TILE_ROW_ALIGNMENT };
    float *values = alloc_array(&bench->alloc, (uint64_t)DISTANCE * COLS, sizeof(float), "values", &bench->status), descale[ROWS / 128];
    int8_t signs[COLS];
    double rotate = 0, quantise = 0;
    if (values == NULL) return;
    const Matrix x = {values, ROWS, COLS, DISTANCE};
    normal_fill_f32(values, (uint64_t)DISTANCE * COLS, 0, 0, 0);
    hadamard_signs(signs, COLS, 0, 0);
    for (int i = 0; i < PIECE_REPETITIONS; i++) {
        const uint64_t start = now();
        hadamard_rotate(PRECISION_F32, x, signs);
        rotate = best_of(rotate, seconds_since(start), i);
        const uint64_t middle = now();
        quantise_matrix(x, x, QUANTISED_E4M3, SCALE_BLOCK, 128, descale);
        quantise = best_of(quantise, seconds_since(middle), i);
    }
    printf("16,384 x 128: rotated in %.2f ms, rounded to E4M3 in %.2f ms\n", 1e3 * rotate, 1e3 * quantise);
    alloc_free(&bench->alloc, values);
}

static void bench_pieces(Bench *bench)
{
    void *values = alloc_array(&bench->alloc, PIECE_ELEMENTS, sizeof(float), "values", &bench->status);
    if (values == NULL) return;
    bench_formats(values);
    bench_exp(PRECISION_F32, values);
    bench_exp(PRECISION_F64, values);
    bench_normal(values);
    bench_rotation(bench);
    alloc_free(&bench->alloc, values);
}

int main(int argc, char **argv)
{
    Bench bench = {0};
    bench.quick = argc == 2 && strcmp(argv[1], "--quick") == 0;
    if (argc > 1 && !bench.quick) {
        fprintf(stderr, "benchmark: unknown argument '%s'; allowed: --quick\n", argv[1]);
        return STATUS_USAGE;
    }
    if (profile_load("h100", &bench.alloc, &bench.chip, &bench.status)) {
        bench_count(&bench);
        bench_l2(&bench);
        bench_numeric(&bench);
        bench_tiles(&bench);
        bench_pieces(&bench);
    }
    if (!status_ok(&bench.status)) {
        fprintf(stderr, "benchmark: %s\n", bench.status.text);
        return (int)bench.status.code;
    }
    if (bench.wrong) fprintf(stderr, "benchmark: results disagree\n");
    return bench.wrong ? STATUS_MISMATCH : STATUS_OK;
}
