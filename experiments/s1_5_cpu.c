/* s1_5_cpu.c - lecture §1.5: the same two algorithms on a CPU, where saving memory traffic saves no time.
 *
 * Standard attention keeps S = scale QKᵀ and P = softmax(S) as whole N x N matrices; blocked attention keeps one B x B tile and a
 * running softmax (§2.2). Both run here for real, in float32, one head, on one core, with the same inner loops (sim/tile_math.h)
 * on the same tiles of the inputs, so that what differs is the order of the work and the memory it needs:
 *
 *     standard    S_ij = Q_i K_jᵀ for all i, j;   m = rowmax S, P = e^(S - m), l = rowsum P, P = P / l;   O_i = sum_j P_ij V_j
 *     blocked     for each i, for each j:  S = Q_i K_jᵀ;  m, alpha, P = e^(S - m), l = alpha l + rowsum P;
 *                 O_i = alpha O_i + P V_j;  at the end O_i / l
 *
 * Peak memory of the two, in floats (R = N when the blocks divide it):  2 R N + R d + 2 B   against   R d + B^2 + 4 B.
 *
 * Why so little gain: a processor is bound by memory when an algorithm does fewer FLOPs per byte than its balance point, FLOP/s ÷
 * bytes/s. Standard attention in float32 does 4N²d / (4 (4N² + 4Nd)) = about d/4 FLOP per byte. A core's balance point is below
 * that, a GPU's far above. That is all the lecture's counter-example says; table `balance` says it with measured numbers, and
 * table `vectors` turns the knob: the wider the vectors, the higher the balance point, the more blocking pays, on one and the
 * same machine.
 *
 * Times are wall-clock times (the one program whose output holds them), the best of a few repetitions, memory allocated and
 * touched before the clock starts. What this leaves out: several cores, masks, a BLAS.
 */
#include "support/experiment.h"

#include "algos/run.h"
#include "sim/checked.h"
#include "sim/math_functions.h"
#include "sim/normal.h"
#include "sim/tile_math.h"

#include <math.h>
#include <string.h>
#include <time.h>

/* ---- the clock ---- */

typedef enum { STAGE_QK, STAGE_EXP, STAGE_PV, STAGE_REST, STAGES } Stage;

typedef struct {
    double seconds[STAGES];
    uint64_t last;
} Watch;

/* Nanoseconds. In seconds since 1970 a double resolves a quarter of a microsecond. */
static uint64_t now(void)
{
    struct timespec time;
    timespec_get(&time, TIME_UTC);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static double seconds_since(uint64_t start) { return 1e-9 * (double)(int64_t)(now() - start); }

static Watch watch_start(void) { return (Watch){.last = now()}; }

/* What has passed since the last lap belongs to `stage`. */
static void lap(Watch *watch, Stage stage)
{
    watch->seconds[stage] += seconds_since(watch->last);
    watch->last = now();
}

static double watch_total(const Watch *watch)
{
    double total = 0;
    for (int stage = 0; stage < STAGES; stage++) total += watch->seconds[stage];
    return total;
}

/* ---- the problem ---- */

enum { Q, K, V, INPUTS };

typedef struct {
    const TileMath *math;
    Alloc *alloc;
    Status *status;
    uint64_t N, d, B;               /* B: rows of a block, at most N */
    uint64_t ld, blocks;            /* B rounded up to whole vectors; blocks of N */
    double scale;
    float *rows[INPUTS];            /* N x d, row-major */
    float *tiles[INPUTS];           /* the same in blocks: [blocks][d][ld], each block column by column */
    float *O_standard, *O_blocked;  /* N x d, row-major */
} Problem;

static uint64_t stored_rows(const Problem *p) { return p->blocks * p->ld; }

static uint32_t block_rows(const Problem *p, uint64_t i) { return (uint32_t)min_u64(p->B, p->N - i * p->B); }

/* Block i of a matrix of d columns that is stored in blocks. */
static Matrix block(const Problem *p, float *tiles, uint64_t i)
{
    return (Matrix){tiles + i * p->d * p->ld, block_rows(p, i), (uint32_t)p->d, p->ld};
}

/* Rows of block i, all N columns, of an N x N matrix: [blocks][N][ld]. */
static Matrix row_panel(const Problem *p, float *scores, uint64_t i)
{
    return (Matrix){scores + i * p->N * p->ld, block_rows(p, i), (uint32_t)p->N, p->ld};
}

static Matrix score_tile(const Problem *p, float *scores, uint64_t i, uint64_t j)
{
    return (Matrix){scores + (i * p->N + j * p->B) * p->ld, block_rows(p, i), block_rows(p, j), p->ld};
}

static Matrix row_values(const Problem *p, float *values, uint64_t i) { return (Matrix){values, block_rows(p, i), 1, p->ld}; }

static float *floats(const Problem *p, uint64_t count, const char *what)
{
    return alloc_array(p->alloc, count, sizeof(float), what, p->status);
}

static void problem_free(const Problem *p)
{
    for (int input = 0; input < INPUTS; input++) {
        alloc_free(p->alloc, p->rows[input]);
        alloc_free(p->alloc, p->tiles[input]);
    }
    alloc_free(p->alloc, p->O_standard);
    alloc_free(p->alloc, p->O_blocked);
}

/* problem_free is the caller's, also after a failure. */
static bool problem_init(Problem *p, const Context *context, const OptionPoint *point, const TileMath *math)
{
    static const char *const names[INPUTS] = {"Q", "K", "V"};
    const uint64_t N = point->seqlen, d = point->head_dim, B = max_u64(1, min_u64(point->block_k, N));
    *p = (Problem){.math = math,
                   .alloc = context->alloc,
                   .status = context->status,
                   .N = N,
                   .d = d,
                   .B = B,
                   .ld = ceil_div(B, TILE_ROW_ALIGNMENT) * TILE_ROW_ALIGNMENT,
                   .blocks = ceil_div(N, B),
                   .scale = 1.0 / sqrt((double)d)};
    for (int input = 0; input < INPUTS; input++) {
        p->rows[input] = floats(p, N * d, names[input]);
        p->tiles[input] = floats(p, stored_rows(p) * d, names[input]);
    }
    p->O_standard = floats(p, N * d, "O");
    p->O_blocked = floats(p, N * d, "O");
    if (!status_ok(p->status)) return false;
    for (int input = 0; input < INPUTS; input++) {
        normal_fill_f32(p->rows[input], N * d, context->options->seed, (uint64_t)input, 0);
        for (uint64_t i = 0; i < p->blocks; i++) p->math->load(block(p, p->tiles[input], i), p->rows[input] + i * p->B * d, d);
    }
    return true;
}

static void store_output(const Problem *p, float *rows, float *tiles)
{
    for (uint64_t i = 0; i < p->blocks; i++) p->math->store(rows + i * p->B * p->d, p->d, block(p, tiles, i), ELEMENT_F32);
}

/* ---- the two algorithms ---- */

typedef struct {
    float *S, *P, *O, *m, *l;
} Standard;

static Watch run_standard(const Problem *p, const Standard *s)
{
    const TileMath *math = p->math;
    Watch watch = watch_start();
    for (uint64_t i = 0; i < p->blocks; i++)                                    /* 1  S = scale QKᵀ */
        for (uint64_t j = 0; j < p->blocks; j++)
            math->matmul(score_tile(p, s->S, i, j), block(p, p->tiles[Q], i), false, block(p, p->tiles[K], j), true, p->scale,
                         false);
    lap(&watch, STAGE_QK);
    for (uint64_t i = 0; i < p->blocks; i++) {                                  /* 2  P = softmax(S) */
        const Matrix scores = row_panel(p, s->S, i), weights = row_panel(p, s->P, i);
        const Matrix m = row_values(p, s->m, i), l = row_values(p, s->l, i);
        math->fill(m, -INFINITY);
        math->row_max(m, m, scores);
        lap(&watch, STAGE_REST);
        math->exp_rows(weights, scores, m);
        lap(&watch, STAGE_EXP);
        math->row_sum(l, (Matrix){0}, weights);
        math->divide_rows(weights, l);
        lap(&watch, STAGE_REST);
    }
    for (uint64_t i = 0; i < p->blocks; i++) {                                  /* 3  O = PV */
        math->fill(block(p, s->O, i), 0.0);
        for (uint64_t j = 0; j < p->blocks; j++)
            math->matmul(block(p, s->O, i), score_tile(p, s->P, i, j), false, block(p, p->tiles[V], j), false, 1.0, true);
    }
    lap(&watch, STAGE_PV);
    return watch;
}

typedef struct {
    float *S, *O, *m, *m_new, *l, *alpha;
} Blocked;

static Watch run_blocked(const Problem *p, const Blocked *b)
{
    const TileMath *math = p->math;
    Watch watch = watch_start();
    for (uint64_t i = 0; i < p->blocks; i++) {
        const Matrix o = block(p, b->O, i), l = row_values(p, b->l, i), alpha = row_values(p, b->alpha, i);
        Matrix m = row_values(p, b->m, i), m_new = row_values(p, b->m_new, i);
        math->fill(o, 0.0);
        math->fill(l, 0.0);
        math->fill(m, -INFINITY);
        for (uint64_t j = 0; j < p->blocks; j++) {
            const Matrix s = {b->S, block_rows(p, i), block_rows(p, j), p->ld};
            lap(&watch, STAGE_REST);
            math->matmul(s, block(p, p->tiles[Q], i), false, block(p, p->tiles[K], j), true, p->scale, false);
            lap(&watch, STAGE_QK);
            math->row_max(m_new, m, s);
            math->exp_difference(alpha, m, m_new);
            lap(&watch, STAGE_REST);
            math->exp_rows(s, s, m_new);                                        /* P in the place of S */
            lap(&watch, STAGE_EXP);
            math->row_sum(l, alpha, s);
            math->scale_rows(o, alpha);
            lap(&watch, STAGE_REST);
            math->matmul(o, s, false, block(p, p->tiles[V], j), false, 1.0, true);
            lap(&watch, STAGE_PV);
            const Matrix swap = m;
            m = m_new;
            m_new = swap;
        }
        math->divide_rows(o, l);
        lap(&watch, STAGE_REST);
    }
    return watch;
}

/* ---- measuring ---- */

typedef struct {
    uint64_t N, d, B;
    uint64_t repetitions;
    const char *arithmetic;                         /* of the tile loops */
    Watch standard, blocked;                        /* of the fastest repetition */
    double copy_seconds;                            /* 2N² floats read and 2N² written */
    uint64_t standard_peak, blocked_peak;           /* bytes, by the allocator */
    uint64_t standard_formula, blocked_formula;
    double difference;                              /* max |O_standard - O_blocked| */
    double error;                                   /* of sampled rows of O_blocked against float64 */
} Measurement;

/* Some seconds in all: five runs while 4N²d is small, two up to N = 8192, d = 64. */
static uint64_t repetitions_for(const OptionPoint *point)
{
    const double N = (double)point->seqlen, flops = 4.0 * N * N * (double)point->head_dim;
    if (flops <= 0x1p31) return 5;
    return flops <= 0x1p34 ? 2 : 1;
}

/* The allocator's peak from here on, above what is live now; peak_end puts the program's own peak back. */
typedef struct {
    uint64_t live, outer_peak;
} Peak;

static Peak peak_begin(Alloc *alloc)
{
    const Peak peak = {alloc->live_bytes, alloc->peak_bytes};
    alloc->peak_bytes = alloc->live_bytes;
    return peak;
}

static uint64_t peak_end(Alloc *alloc, Peak peak)
{
    const uint64_t grown = alloc->peak_bytes - peak.live;
    alloc->peak_bytes = max_u64(alloc->peak_bytes, peak.outer_peak);
    return grown;
}

static void keep_faster(Watch *best, Watch candidate, uint64_t repetition)
{
    if (repetition == 0 || watch_total(&candidate) < watch_total(best)) *best = candidate;
}

/* All of S to P and back: the 4N² floats that the three kernels' ledger holds, and nothing else. */
static double time_copy(const Problem *p, const Standard *s, uint64_t repetitions)
{
    const uint64_t panel = p->N * p->ld;
    double best = 0;
    for (uint64_t repetition = 0; repetition < repetitions; repetition++) {
        const uint64_t start = now();
        for (uint64_t i = 0; i < p->blocks; i++) memcpy(s->P + i * panel, s->S + i * panel, (size_t)panel * sizeof(float));
        for (uint64_t i = 0; i < p->blocks; i++) memcpy(s->S + i * panel, s->P + i * panel, (size_t)panel * sizeof(float));
        const double seconds = seconds_since(start);
        if (repetition == 0 || seconds < best) best = seconds;
    }
    return best;
}

static void measure_standard(const Problem *p, Measurement *result)
{
    const Peak peak = peak_begin(p->alloc);
    const uint64_t scores = stored_rows(p) * p->N;
    Standard s = {.S = floats(p, scores, "S"), .P = floats(p, scores, "P"), .O = floats(p, stored_rows(p) * p->d, "O"),
                  .m = floats(p, p->ld, "m"), .l = floats(p, p->ld, "l")};
    if (status_ok(p->status)) {
        for (uint64_t i = 0; i < result->repetitions; i++) keep_faster(&result->standard, run_standard(p, &s), i);
        store_output(p, p->O_standard, s.O);
        result->copy_seconds = time_copy(p, &s, result->repetitions);
    }
    result->standard_peak = peak_end(p->alloc, peak);
    float *const arrays[] = {s.S, s.P, s.O, s.m, s.l};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) alloc_free(p->alloc, arrays[i]);
}

static void measure_blocked(const Problem *p, Measurement *result)
{
    const Peak peak = peak_begin(p->alloc);
    Blocked b = {.S = floats(p, p->ld * p->B, "S"), .O = floats(p, stored_rows(p) * p->d, "O"), .m = floats(p, p->ld, "m"),
                 .m_new = floats(p, p->ld, "m_new"), .l = floats(p, p->ld, "l"), .alpha = floats(p, p->ld, "alpha")};
    if (status_ok(p->status)) {
        for (uint64_t i = 0; i < result->repetitions; i++) keep_faster(&result->blocked, run_blocked(p, &b), i);
        store_output(p, p->O_blocked, b.O);
    }
    result->blocked_peak = peak_end(p->alloc, peak);
    float *const arrays[] = {b.S, b.O, b.m, b.m_new, b.l, b.alpha};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) alloc_free(p->alloc, arrays[i]);
}

/* NaN counts as infinite. */
static double max_difference(const float *a, const float *b, uint64_t count)
{
    double largest = 0;
    for (uint64_t i = 0; i < count; i++) {
        const double difference = fabs((double)a[i] - (double)b[i]);
        if (!(difference <= largest)) largest = difference == difference ? difference : INFINITY;
    }
    return largest;
}

/* Row i of the textbook definition in float64 against O_blocked. */
static double row_error(const Problem *p, uint64_t i, double *weights)
{
    double m = -INFINITY, l = 0, largest = 0;
    for (uint64_t j = 0; j < p->N; j++) {
        weights[j] = 0;
        for (uint64_t c = 0; c < p->d; c++)
            weights[j] += p->scale * (double)p->rows[Q][i * p->d + c] * (double)p->rows[K][j * p->d + c];
        m = weights[j] > m ? weights[j] : m;
    }
    for (uint64_t j = 0; j < p->N; j++) l += weights[j] = exp_f64(weights[j] - m);
    for (uint64_t c = 0; c < p->d; c++) {
        double sum = 0;
        for (uint64_t j = 0; j < p->N; j++) sum += weights[j] * (double)p->rows[V][j * p->d + c];
        const float exact = (float)(sum / l);
        const double error = max_difference(&p->O_blocked[i * p->d + c], &exact, 1);
        largest = error > largest ? error : largest;
    }
    return largest;
}

static void compare(const Problem *p, Measurement *result)
{
    enum { SAMPLES = 4 };
    double *weights = alloc_array(p->alloc, p->N, sizeof(double), "one row of P", p->status);
    if (weights == NULL) return;
    result->difference = max_difference(p->O_standard, p->O_blocked, p->N * p->d);
    for (uint64_t sample = 0; sample < SAMPLES && p->N > 0; sample++) {
        const double error = row_error(p, (p->N - 1) * sample / (SAMPLES - 1), weights);
        result->error = error > result->error ? error : result->error;
    }
    alloc_free(p->alloc, weights);
}

/* Peaks in floats; stored_rows and ld are N and B but for the last block and blocks that are no multiple of 32. */
static uint64_t standard_peak_bytes(uint64_t rows, uint64_t N, uint64_t d, uint64_t ld)
{
    return (2 * rows * N + rows * d + 2 * ld) * sizeof(float);
}
static uint64_t blocked_peak_bytes(uint64_t rows, uint64_t d, uint64_t B, uint64_t ld)
{
    return (rows * d + ld * B + 4 * ld) * sizeof(float);
}

/* More than this and the program would not end within a coffee break. */
#define MOST_SCORE_BYTES (UINT64_C(4) << 30)

static bool measure(const Context *context, const OptionPoint *point, const TileMath *math, uint64_t repetitions,
                    Measurement *result)
{
    Problem p;
    const uint64_t N = point->seqlen, elements = checked_mul(N, N, "N * N", context->status);
    const uint64_t score_bytes = checked_mul(elements, 2 * sizeof(float), "S and P", context->status);
    if (!status_ok(context->status)) return false;
    if (score_bytes > MOST_SCORE_BYTES)
        return status_fail(context->status, STATUS_INFEASIBLE,
                           "--seqlen %" PRIu64 ": S and P take %" PRIu64 " bytes, at most %" PRIu64 " are allowed", N,
                           score_bytes, MOST_SCORE_BYTES);
    if (problem_init(&p, context, point, math)) {
        *result = (Measurement){.N = N, .d = p.d, .B = p.B, .repetitions = repetitions, .arithmetic = p.math->name,
                                .standard_formula = standard_peak_bytes(stored_rows(&p), N, p.d, p.ld),
                                .blocked_formula = blocked_peak_bytes(stored_rows(&p), p.d, p.B, p.ld)};
        measure_standard(&p, result);
        measure_blocked(&p, result);
        if (status_ok(context->status)) compare(&p, result);
    }
    problem_free(&p);
    return status_ok(context->status);
}

/* ---- the declarations ---- */

static const Column time_columns[] = {
    {"N", "", "sequence length"},
    {"d", "", "head dim"},
    {"block", "", "B, rows and keys of a block"},
    {"runs", "", "repetitions, of which the fastest counts"},
    {"standard", "ms", "time of standard attention, this run, this machine"},
    {"standard peak", "MiB", "its peak memory: S, P, O"},
    {"blocked", "ms", "time of blocked attention"},
    {"blocked peak", "MiB", "its peak memory: O and one tile"},
    {"speed-up", "", "standard time / blocked time"},
    {"max difference", "", "max |O of standard - O of blocked|"},
    {"max error", "", "of four sampled rows against float64"},
};
static const TableSpec times_table = {"times", "Standard and blocked attention on one core, float32, one head", time_columns, 11};

static const Column memory_columns[] = {
    {"N", "", "sequence length"},
    {"standard", "bytes", "the allocator's peak"},
    {"= formula", "", "4 (2 R N + R d + 2 B), R = N in whole blocks"},
    {"blocked", "bytes", "the allocator's peak"},
    {"= formula ", "", "4 (R d + B^2 + 4 B)"},
    {"ratio", "", "standard / blocked"},
};
static const TableSpec memory_table = {"memory", "Peak memory, exact (inputs excluded)", memory_columns, 6};

static const Column stage_columns[] = {
    {"N", "", "sequence length"},
    {"algorithm", "", "standard or blocked"},
    {"QK^T", "ms", "S = scale Q K^T"},
    {"exp", "ms", "P = e^(S - m), N^2 exponentials"},
    {"PV", "ms", "O = P V"},
    {"rest", "ms", "row maxima, row sums, divisions, rescaling of O"},
    {"exp share", "%", "of the algorithm's time"},
    {"matmul share", "%", "QK^T and PV"},
    {"per exp", "ns", "time of one exponential"},
    {"matmul", "GFLOP/s", "4 N^2 d / (QK^T + PV)"},
};
static const TableSpec stages_table = {"stages", "Where the time goes", stage_columns, 10};

static const TableSpec shares_picture = {"shares", "Shares of time: Q = QK^T, e = exp, P = PV, . = rest", NULL, 0};

static const Column traffic_columns[] = {
    {"N", "", "sequence length"},
    {"ledger", "MiB", "4 N^2 floats: S and P written once and read once, what three fused kernels move"},
    {"copy", "ms", "memcpy of S to P and back: the same floats"},
    {"copy rate", "GB/s", "what this machine's memory gives one core"},
    {"standard, ledger", "GB/s", "4 N^2 floats / time of standard attention (the lecture's estimate)"},
    {"standard, passes", "GB/s", "8 N^2 floats / time: what separate passes move"},
    {"copy share", "%", "copy time / time of standard attention: the most that saving all traffic could save"},
};
static const TableSpec traffic_table = {"traffic", "Is it the memory? The ledger against a plain copy", traffic_columns, 7};

static const Column balance_columns[] = {
    {"processor", "", "this core (measured above, largest N) or a chip's profile"},
    {"matmul", "GFLOP/s", "float32 here, BF16 tensor cores there"},
    {"memory", "GB/s", "copy rate here, HBM there"},
    {"balance point", "FLOP/byte", "matmul / memory"},
    {"standard attention", "FLOP/byte", "4 N^2 d / bytes of (4 N^2 + 4 N d), four bytes an element here, two there"},
    {"bound by", "", "memory when standard attention is below the balance point"},
};
static const TableSpec balance_table = {"balance", "Balance points: why the same traffic hurts a GPU and not a core",
                                        balance_columns, 6};

static const Column vector_columns[] = {
    {"arithmetic", "", "which build of the tile loops"},
    {"N", "", "sequence length"},
    {"standard", "ms", "time of standard attention"},
    {"blocked", "ms", "time of blocked attention"},
    {"speed-up", "", "standard time / blocked time"},
    {"matmul", "GFLOP/s", "4 N^2 d / (QK^T + PV), blocked"},
    {"balance point", "FLOP/byte", "matmul / copy rate"},
};
static const TableSpec vectors_table = {"vectors", "The same with narrower vectors: less arithmetic, less gain from blocking",
                                        vector_columns, 7};

static const TableSpec *const tables[] = {&times_table,   &memory_table,  &stages_table, &shares_picture,
                                          &traffic_table, &balance_table, &vectors_table};

static const ClaimSpec claims[] = {
    {"1.5-1", "1.5", "parameters of the experiment: d = 64, block 256, N to 8192", "d=64, block 256", VERDICT_CITED,
     "quoted; the same here", NULL},
    {"1.5-2", "1.5", "data that standard attention moves, N = 8192, d = 64, float32 (a ledger of three kernels)", "about 1 GiB",
     VERDICT_EQUAL,
     "walk of the three kernels, (4N^2 + 4Nd) * 4 bytes; separate passes, as here and in NumPy, move 8-12 N^2 floats", NULL},
    {"1.5-3", "1.5", "time of standard attention on the author's CPU, N = 8192", "120 ms", VERDICT_CITED,
     "wall-clock time: depends on the machine", NULL},
    {"1.5-4", "1.5", "bandwidth that this amounts to (a lower bound: separate passes move 2-3 times as much)", "9 GB/s",
     VERDICT_EQUAL, "4 N^2 * 4 bytes / 120 ms", NULL},
    {"1.5-5", "1.5", "exponentials of standard attention, N = 8192", "67 million", VERDICT_EQUAL, "counted by the walk: N^2",
     NULL},
    {"1.5-6", "1.5", "peak memory of the two", "O(N^2) vs O(N)", VERDICT_EQUAL,
     "4 (2N^2 + Nd + 2B) and 4 (Nd + B^2 + 4B), equal to the allocator's peak in every row", NULL},
    {"1.5-7", "1.5", "blocked attention is not faster on a CPU, N = 8192", "no speed-up", VERDICT_CITED,
     "wall-clock time; table vectors: the gain grows with the width of the vectors", NULL},
    {"1.5-8", "1.5", "tensor cores made matmul two orders of magnitude faster", "two orders of magnitude", VERDICT_CITED,
     "quoted; table balance", NULL},
    {"R-A6-1", "1.5", "the CPU's bottleneck is the 67 million exponentials", "exp", VERDICT_CITED,
     "wall-clock time: share of exp in standard attention", NULL},
    {"R-A6-2", "1.5", "9 GB/s is far below the machine's memory bandwidth", "far below", VERDICT_CITED,
     "wall-clock time: ledger / time against a plain copy", NULL},
};

static const ProgramOption options[] = {{OPTION_SEQLEN, "1k,2k,4k,8k"}, {OPTION_HEAD_DIM, "64"}, {OPTION_BLOCK_K, "256"}};

/* ---- the tables ---- */

static double rate(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }
static double share(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }
static double squared(uint64_t N) { return (double)N * (double)N; }
static double mebibytes(uint64_t bytes) { return (double)bytes / 1048576; }

static double matmul_flops(const Measurement *m) { return 4 * squared(m->N) * (double)m->d; }
static double matmul_seconds(const Watch *watch) { return watch->seconds[STAGE_QK] + watch->seconds[STAGE_PV]; }
/* 2N² floats read and 2N² written, which is also the ledger of three kernels. */
static double ledger_bytes(const Measurement *m) { return 4 * squared(m->N) * sizeof(float); }

static void add_times(Report *report, const Measurement *runs, size_t count)
{
    Table *table = report_table(report, &times_table);
    for (size_t i = 0; i < count; i++) {
        const Measurement *m = &runs[i];
        table_row(table);
        cell_count(table, m->N);
        cell_count(table, m->d);
        cell_count(table, m->B);
        cell_count(table, m->repetitions);
        cell_decimals(table, 1e3 * watch_total(&m->standard), 1);
        cell_decimals(table, mebibytes(m->standard_peak), 2);
        cell_decimals(table, 1e3 * watch_total(&m->blocked), 1);
        cell_decimals(table, mebibytes(m->blocked_peak), 2);
        cell_decimals(table, rate(watch_total(&m->standard), watch_total(&m->blocked)), 2);
        cell_significant(table, m->difference, 2);
        cell_significant(table, m->error, 2);
    }
    table_note(table, "Times are of this machine and this minute. Both compute the same O, up to the order of additions.");
    table_note(table,
               "Memory falls from O(N^2) to O(N) on any machine; time by the speed-up beside it, GPUs gain 2-4x (lecture 2.7).");
}

static void add_memory(Report *report, const Measurement *runs, size_t count)
{
    Table *table = report_table(report, &memory_table);
    for (size_t i = 0; i < count; i++) {
        const Measurement *m = &runs[i];
        table_row(table);
        cell_count(table, m->N);
        cell_count(table, m->standard_peak);
        cell_check(table, m->standard_peak, m->standard_formula, "peak memory of standard attention");
        cell_count(table, m->blocked_peak);
        cell_check(table, m->blocked_peak, m->blocked_formula, "peak memory of blocked attention");
        cell_decimals(table, (double)m->standard_peak / (double)max_u64(m->blocked_peak, 1), 1);
    }
}

static void stage_row(Table *table, const Measurement *m, const char *algorithm, const Watch *watch)
{
    table_row(table);
    cell_count(table, m->N);
    cell_text(table, algorithm);
    for (int stage = 0; stage < STAGES; stage++) cell_decimals(table, 1e3 * watch->seconds[stage], 1);
    cell_decimals(table, share(watch->seconds[STAGE_EXP], watch_total(watch)), 0);
    cell_decimals(table, share(matmul_seconds(watch), watch_total(watch)), 0);
    cell_decimals(table, rate(1e9 * watch->seconds[STAGE_EXP], squared(m->N)), 2);
    cell_decimals(table, 1e-9 * rate(matmul_flops(m), matmul_seconds(watch)), 1);
}

/* Letters up to the stage's rounded end, so that the bar is always full. */
static void share_line(Table *picture, const Measurement *m, const char *algorithm, const Watch *watch)
{
    enum { BAR = 60 };
    static const char letters[STAGES] = {'Q', 'e', 'P', '.'};
    char bar[BAR + 1] = "";
    double passed = 0;
    size_t length = 0;
    for (int stage = 0; stage < STAGES; stage++) {
        passed += watch->seconds[stage];
        while (length < BAR && (double)length + 0.5 < BAR * rate(passed, watch_total(watch))) bar[length++] = letters[stage];
    }
    picture_line(picture, "%6" PRIu64 " %-8s |%s|", m->N, algorithm, bar);
}

static void add_stages(Report *report, const Measurement *runs, size_t count)
{
    Table *table = report_table(report, &stages_table);
    for (size_t i = 0; i < count; i++) {
        stage_row(table, &runs[i], "standard", &runs[i].standard);
        stage_row(table, &runs[i], "blocked", &runs[i].blocked);
    }
    Table *picture = report_table(report, &shares_picture);
    for (size_t i = 0; i < count; i++) {
        share_line(picture, &runs[i], "standard", &runs[i].standard);
        share_line(picture, &runs[i], "blocked", &runs[i].blocked);
    }
}

static void add_traffic(Report *report, const Measurement *runs, size_t count)
{
    Table *table = report_table(report, &traffic_table);
    for (size_t i = 0; i < count; i++) {
        const Measurement *m = &runs[i];
        const double bytes = ledger_bytes(m), seconds = watch_total(&m->standard);
        table_row(table);
        cell_count(table, m->N);
        cell_decimals(table, bytes / 1048576, 0);
        cell_decimals(table, 1e3 * m->copy_seconds, 1);
        cell_decimals(table, 1e-9 * rate(bytes, m->copy_seconds), 1);
        cell_decimals(table, 1e-9 * rate(bytes, seconds), 1);
        cell_decimals(table, 1e-9 * rate(2 * bytes, seconds), 1);
        cell_decimals(table, share(m->copy_seconds, seconds), 0);
    }
    table_note(table, "4N^2 is the ledger of three fused kernels. Separate passes move more, so ledger / time is a lower bound: "
                      "8N^2 here (S written, read");
    table_note(table, "for the maximum and for exp; P written, read for the sum, read and written by the division, read by PV), "
                      "8-12 N^2 in NumPy.");
    table_note(table, "The copy of a small N stays in the caches.");
}

static void balance_row(Table *table, const char *name, double gflops, double gigabytes, double intensity)
{
    const double balance = rate(gflops, gigabytes);
    table_row(table);
    cell_text(table, name);
    cell_decimals(table, gflops, 0);
    cell_decimals(table, gigabytes, 1);
    cell_decimals(table, balance, 1);
    cell_decimals(table, intensity, 1);
    cell_text(table, intensity < balance ? "memory" : "compute");
}

static bool add_balance(const Context *context, Report *report, const Measurement *m)
{
    static const char *const chips[] = {"a100", "h100", "h200", "b200"};
    const double elements = 4 * squared(m->N) + 4 * (double)m->N * (double)m->d,
                 intensity = rate(matmul_flops(m), elements * sizeof(float));
    Table *table = report_table(report, &balance_table);
    balance_row(table, "this core", 1e-9 * rate(matmul_flops(m), matmul_seconds(&m->standard)),
                1e-9 * rate(ledger_bytes(m), m->copy_seconds), intensity);
    for (size_t i = 0; i < sizeof chips / sizeof chips[0]; i++) {
        Profile chip;
        if (!profile_load(chips[i], context->alloc, &chip, context->status)) return false;
        balance_row(table, chips[i], 1e-9 * (double)chip.peak_bf16_flops_per_chip,
                    1e-9 * (double)chip.hbm_bytes_per_second_per_chip, 2 * intensity);
    }
    table_note(table, "A core has little arithmetic for its bandwidth. Tensor cores multiplied arithmetic by far more than "
                      "bandwidth: saving bytes pays there.");
    return true;
}

/* The shape of `run` once more with every build, in one go. */
static bool add_vectors(const Context *context, Report *report, const Measurement *run)
{
    const OptionPoint point = {.seqlen = run->N, .head_dim = run->d, .block_k = run->B};
    const size_t variants = tile_math_count(PRECISION_F32);
    Table *table = report_table(report, &vectors_table);
    for (size_t i = 0; i < variants; i++) {
        Measurement built;
        if (!measure(context, &point, tile_math_variant(PRECISION_F32, i), 1, &built)) return false;
        const double flops_per_second = rate(matmul_flops(&built), matmul_seconds(&built.blocked));
        table_row(table);
        cell_text(table, built.arithmetic);
        cell_count(table, built.N);
        cell_decimals(table, 1e3 * watch_total(&built.standard), 1);
        cell_decimals(table, 1e3 * watch_total(&built.blocked), 1);
        cell_decimals(table, rate(watch_total(&built.standard), watch_total(&built.blocked)), 2);
        cell_decimals(table, 1e-9 * flops_per_second, 1);
        cell_decimals(table, rate(flops_per_second, rate(ledger_bytes(run), run->copy_seconds)), 1);
    }
    table_note(table,
               "\"No speed-up\" holds for slow arithmetic. From line to line arithmetic grows, memory stays: towards the GPU.");
    return true;
}

/* ---- the claims, at the lecture's shape ---- */

enum { LECTURE_N = 8192, LECTURE_D = 64, LECTURE_B = 256 };

static const Measurement *lecture_run(const Measurement *runs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (runs[i].N == LECTURE_N && runs[i].d == LECTURE_D && runs[i].B == LECTURE_B) return &runs[i];
    return NULL;
}

/* Measured, so never more than cited. */
static void judge_times(Report *report, const Measurement *m)
{
    claim_cited(report, "1.5-1", "d=%d, block %d, N=%d", LECTURE_D, LECTURE_B, LECTURE_N);
    if (m == NULL) {
        static const char *const ids[] = {"1.5-3", "1.5-7", "1.5-8", "R-A6-1", "R-A6-2"};
        for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
            claim_cited(report, ids[i], "not measured: N = 8192, d = 64, block 256 is not in this sweep");
        return;
    }
    const Watch *s = &m->standard, *b = &m->blocked;
    const double seconds = watch_total(s);
    claim_cited(report, "1.5-3", "%.0f ms (%s)", 1e3 * seconds, m->arithmetic);
    claim_cited(report, "1.5-7", "%.2f times as fast", rate(seconds, watch_total(b)));
    claim_cited(report, "1.5-8", "this core: %.0f GFLOP/s; table balance", 1e-9 * rate(matmul_flops(m), matmul_seconds(s)));
    claim_cited(report, "R-A6-1", "exp %.0f %%, matmuls %.0f %% of the time: with a vectorised exp it is the matmuls",
                share(s->seconds[STAGE_EXP], seconds), share(matmul_seconds(s), seconds));
    claim_cited(report, "R-A6-2", "%.1f GB/s against %.1f GB/s of a copy", 1e-9 * rate(ledger_bytes(m), seconds),
                1e-9 * rate(ledger_bytes(m), m->copy_seconds));
}

static bool judge_counts(const Context *context, Report *report, bool peaks_agree)
{
    AttentionShape shape = attention_shape(LECTURE_N, LECTURE_D);
    Profile unbounded;
    AttentionRun walk;
    shape.dtype = ELEMENT_F32;
    if (!profile_load("unbounded", context->alloc, &unbounded, context->status)) return false;
    const bool ok = attention_count(&walk, &algorithm_standard, &shape, (TileSize){LECTURE_B, LECTURE_B}, L2_IDEAL, &unbounded,
                                    context->alloc, context->status);
    const Totals totals = walk.totals;
    const uint64_t formula = standard_elements(LECTURE_N, LECTURE_D, context->status);
    attention_run_free(&walk);
    if (!ok) return false;
    report_check(report, totals.hbm_read_elements + totals.hbm_write_elements, formula, "elements moved by standard attention");
    const uint64_t bytes = totals.hbm_read_bytes + totals.hbm_write_bytes;
    claim_decimals(report, "1.5-2", 1, 0, (double)bytes / 1073741824, " GiB");
    claim_decimals(report, "1.5-4", 9, 0, 4 * squared(LECTURE_N) * sizeof(float) / 0.120 / 1e9, " GB/s");
    claim_decimals(report, "1.5-5", 67, 0, (double)totals.exp_ops / 1e6, " million");
    claim_holds(report, "1.5-6", peaks_agree, "N = 8192: %.1f MiB and %.2f MiB",
                mebibytes(standard_peak_bytes(LECTURE_N, LECTURE_N, LECTURE_D, LECTURE_B)),
                mebibytes(blocked_peak_bytes(LECTURE_N, LECTURE_D, LECTURE_B, LECTURE_B)));
    return true;
}

enum { VECTORS_LONGEST_N = 4096 };      /* the narrow vectors take their time */

static bool write_report(Context *context, Report *report, const Measurement *runs, size_t count)
{
    const Measurement *longest = &runs[0], *middle = &runs[0];
    bool peaks_agree = true;
    for (size_t i = 0; i < count; i++) {
        /* Sums of float32 in another order: measured 1e-7 to 6e-7 for N to 8192. */
        if (!(runs[i].difference <= 1e-5 && runs[i].error <= 1e-5))
            report_mismatch(report, "N = %" PRIu64 ": standard and blocked attention differ by %g, and by %g from float64",
                            runs[i].N, runs[i].difference, runs[i].error);
        peaks_agree =
            peaks_agree && runs[i].standard_peak == runs[i].standard_formula && runs[i].blocked_peak == runs[i].blocked_formula;
        if (runs[i].N > longest->N) longest = &runs[i];
        if (runs[i].N > middle->N && runs[i].N <= VECTORS_LONGEST_N) middle = &runs[i];
    }
    report_param_text(report, "arithmetic", runs[0].arithmetic);
    add_times(report, runs, count);
    add_memory(report, runs, count);
    add_stages(report, runs, count);
    add_traffic(report, runs, count);
    if (!add_balance(context, report, longest)) return false;
    if (middle->N <= VECTORS_LONGEST_N && !add_vectors(context, report, middle)) return false;
    judge_times(report, lecture_run(runs, count));
    return judge_counts(context, report, peaks_agree);
}

static bool run(Context *context, Report *report)
{
    const size_t count = options_point_count(context->options);
    Measurement *runs = alloc_array(context->alloc, count, sizeof *runs, "measurements", context->status);
    if (runs == NULL) return false;
    bool ok = true;
    for (size_t i = 0; ok && i < count; i++) {
        const OptionPoint point = options_point(context->options, i);
        ok = measure(context, &point, tile_math_select(PRECISION_F32), repetitions_for(&point), &runs[i]);
    }
    ok = ok && write_report(context, report, runs, count);
    alloc_free(context->alloc, runs);
    return ok;
}

const Experiment experiment_s1_5_cpu = {
    .program = {
        .name = "s1_5_cpu",
        .purpose = "real times and peak memory of standard and blocked attention on one core (lecture 1.5)",
        .examples = {"", "--seqlen 512,3000 --head-dim 128 --block-k 128"},
        .options = options,
        .option_count = sizeof options / sizeof options[0],
    },
    .report = {
        .section = "1.5",
        .title_en = "A counter-example: what happens on a CPU?",
        .title_zh = "一个对照：在 CPU 上会怎样？",
        .tables = tables,
        .table_count = sizeof tables / sizeof tables[0],
        .claims = claims,
        .claim_count = sizeof claims / sizeof claims[0],
    },
    .run = run,
    .wall_clock = true,
};
