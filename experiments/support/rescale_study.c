/* rescale_study.c - see rescale_study.h. */
#include "rescale_study.h"

#include "algos/run.h"
#include "sim/math_functions.h"
#include "sim/normal.h"

#include <math.h>
#include <string.h>

#define LN_2   0x1.62e42fefa39efp-1
#define LOG2_E 0x1.71547652b82fep+0

enum { QUERY_BLOCK = 2 * RESCALE_ROWS };

static uint64_t input_rows(const RescaleCase *c, int which) { return which == 0 ? c->setup.queries : c->setup.N; }

static uint32_t blocks(const RescaleCase *c) { return c->setup.N / RESCALE_KEYS; }

/* Row j of K times growth^(j / (N - 1)). */
static void grow_keys(const RescaleCase *c)
{
    const RescaleSetup *s = &c->setup;
    for (uint64_t j = 0; j < s->N; j++) {
        const double factor = exp_f64(log_f64(s->growth) * (double)j / (double)(s->N - 1));
        for (uint64_t i = 0; i < s->d; i++) c->inputs[1][j * s->d + i] = (float)((double)c->inputs[1][j * s->d + i] * factor);
    }
}

bool rescale_case_init(RescaleCase *c, const RescaleSetup *setup, Alloc *alloc, Status *status)
{
    *c = (RescaleCase){.setup = *setup, .alloc = alloc, .status = status};
    if (setup->queries % QUERY_BLOCK != 0 || setup->N % RESCALE_KEYS != 0 || setup->N < RESCALE_KEYS)
        return status_fail(status, STATUS_USAGE, "%u queries and %u keys; expected multiples of %d and %d", setup->queries, setup->N, QUERY_BLOCK, RESCALE_KEYS);
    for (int i = 0; i < 3; i++) {
        c->inputs[i] = alloc_array(alloc, input_rows(c, i) * setup->d, sizeof(float), "inputs", status);
        if (c->inputs[i] == NULL) return false;
        normal_fill_f32(c->inputs[i], input_rows(c, i) * setup->d, setup->seed, (uint64_t)i, 0);
    }
    if (setup->growth != 1.0) grow_keys(c);
    c->maxima = alloc_array(alloc, (uint64_t)setup->queries * blocks(c), sizeof(float), "block maxima", status);
    return c->maxima != NULL;
}

void rescale_case_free(RescaleCase *c)
{
    for (int i = 0; i < 3; i++) alloc_free(c->alloc, c->inputs[i]);
    alloc_free(c->alloc, c->exact);
    alloc_free(c->alloc, c->maxima);
}

/* ------------------------------------------------------------------------------------------------------------------- runs */

/* Sees the tiles of scores and weights go by. Blocks come in order; in a block two query tiles take turns, key block by key block. */
typedef struct {
    RescaleCase *c;
    uint64_t maxima_seen;
    float largest_weight;
} Watch;

static const Tile *wide_tile(const Tile *const tiles[EVENT_TILES])
{
    for (int i = 0; i < EVENT_TILES; i++)
        if (tiles[i] != NULL && tiles[i]->cols > 1) return tiles[i];
    return NULL;
}

static void keep_maxima(RescaleCase *c, uint64_t number, const Tile *scores)
{
    const uint64_t tile = number / (2 * blocks(c)) * 2 + number % 2, block = number / 2 % blocks(c);
    float largest[RESCALE_ROWS];
    for (uint32_t r = 0; r < scores->rows; r++) largest[r] = -INFINITY;
    for (uint32_t col = 0; col < scores->cols; col++) {
        const float *values = (const float *)scores->data + col * scores->ld;
        for (uint32_t r = 0; r < scores->rows; r++) largest[r] = values[r] > largest[r] ? values[r] : largest[r];
    }
    for (uint32_t r = 0; r < scores->rows; r++) c->maxima[(tile * RESCALE_ROWS + r) * blocks(c) + block] = largest[r];
}

static float largest_of(const Tile *weights, float so_far)
{
    float largest[RESCALE_ROWS] = {0};
    for (uint32_t col = 0; col < weights->cols; col++) {
        const float *values = (const float *)weights->data + col * weights->ld;
        for (uint32_t r = 0; r < weights->rows; r++) largest[r] = values[r] > largest[r] ? values[r] : largest[r];
    }
    for (uint32_t r = 0; r < weights->rows; r++) so_far = largest[r] > so_far ? largest[r] : so_far;
    return so_far;
}

static void watch(void *observer, const Event *event)
{
    Watch *const w = observer;
    if (event->operation == OP_ROW_MAX && !w->c->have_maxima) keep_maxima(w->c, w->maxima_seen++, wide_tile(event->read));
    if (event->operation == OP_EXP_ROWS) w->largest_weight = largest_of(wide_tile(event->written), w->largest_weight);
}

/* The kernel on this case; the caller frees the run. */
static bool run_kernel(const RescaleCase *c, AttentionRun *run, const char *chip_name, Profile *chip, MachineConfig config, Fa4Options fa4)
{
    AttentionShape shape = attention_shape(c->setup.N, c->setup.d);
    const bool wide = config.precision == PRECISION_F64;
    shape.seqlen_q = c->setup.queries;
    shape.dtype = wide ? ELEMENT_F64 : ELEMENT_F32;
    const RunSetup setup = {.algorithm = &algorithm_fa4, .profile = chip, .tiles = {QUERY_BLOCK, RESCALE_KEYS}, .config = config};
    *run = (AttentionRun){0};
    if (!profile_load(chip_name, c->alloc, chip, c->status) || !attention_run_prepare(run, &setup, &shape, c->alloc, c->status)) return false;
    run->attention.fa4 = fa4;
    Tensor *const tensors[] = {run->attention.Q, run->attention.K, run->attention.V};
    for (int t = 0; t < 3; t++)
        for (uint64_t i = 0; i < tensor_elements(tensors[t]); i++) {
            if (wide) ((double *)tensors[t]->data)[i] = (double)c->inputs[t][i];
            else ((float *)tensors[t]->data)[i] = c->inputs[t][i];
        }
    return attention_run_forward(run);
}

static bool find_exact(RescaleCase *c)
{
    Profile chip;
    AttentionRun run;
    const uint64_t elements = (uint64_t)c->setup.queries * c->setup.d;
    const bool ok = run_kernel(c, &run, "unbounded", &chip, (MachineConfig){.mode = MODE_NUMERIC, .precision = PRECISION_F64}, (Fa4Options){0});
    if (ok) c->exact = alloc_array(c->alloc, elements, sizeof *c->exact, "exact O", c->status);
    if (c->exact != NULL) memcpy(c->exact, run.attention.O->data, elements * sizeof *c->exact);
    attention_run_free(&run);
    return c->exact != NULL;
}

static void compare(const RescaleCase *c, const Tensor *O, RescaleOutcome *outcome)
{
    for (uint64_t i = 0; i < tensor_elements(O); i++) {
        const double got = (double)((const float *)O->data)[i];
        if (!isfinite(got)) outcome->nonfinite++;
        else if (!isnan(outcome->max_error)) outcome->max_error = fmax(outcome->max_error, fabs(got - c->exact[i]));
    }
}

bool rescale_run(RescaleCase *c, double threshold, uint32_t decision_rows, bool want_error, RescaleOutcome *outcome)
{
    Profile chip;
    AttentionRun run;
    Watch seen = {.c = c};
    *outcome = (RescaleOutcome){.max_error = want_error ? 0.0 : NAN};
    if (want_error && c->exact == NULL && !find_exact(c)) return false;
    const Fa4Options fa4 = {.conditional = true, .threshold = threshold, .decision_rows = decision_rows};
    const bool ok = run_kernel(c, &run, "b200", &chip, (MachineConfig){.mode = MODE_NUMERIC, .observe = watch, .observer = &seen}, fa4);
    if (ok) {
        c->have_maxima = true;
        outcome->rescaled = run.machine.launches[0].counts.references_moved;
        outcome->skipped = run.machine.launches[0].counts.references_kept;
        outcome->largest_weight = LOG2_E * log_f64((double)seen.largest_weight);
        compare(c, run.attention.O, outcome);
    }
    attention_run_free(&run);
    return ok;
}

/* ----------------------------------------------------------------------------------------------------------------- replay */

uint64_t rescale_decision_count(const RescaleCase *c, uint32_t decision_rows) { return (uint64_t)c->setup.queries / decision_rows * blocks(c); }

/* One group of rows: when any of them has grown past the threshold, all take their maxima. In float32, as the kernel compares. */
static uint64_t group_decisions(const RescaleCase *c, uint32_t first, uint32_t rows, float threshold, float spread)
{
    float reference[RESCALE_ROWS];
    uint64_t moved = 0;
    for (uint32_t r = 0; r < rows; r++) reference[r] = -INFINITY;
    for (uint32_t j = 0; j < blocks(c); j++) {
        bool moves = false;
        for (uint32_t r = 0; r < rows; r++) {
            const float largest = c->maxima[(uint64_t)(first + r) * blocks(c) + j] * spread;
            if (largest > reference[r] && (reference[r] == -INFINITY || largest - reference[r] > threshold)) moves = true;
        }
        for (uint32_t r = 0; r < rows && moves; r++) {
            const float largest = c->maxima[(uint64_t)(first + r) * blocks(c) + j] * spread;
            reference[r] = largest > reference[r] ? largest : reference[r];
        }
        moved += moves;
    }
    return moved;
}

uint64_t rescale_decisions(const RescaleCase *c, double threshold, uint32_t decision_rows, double spread)
{
    uint64_t moved = 0;
    for (uint32_t first = 0; first < c->setup.queries; first += decision_rows)
        moved += group_decisions(c, first, decision_rows, (float)(threshold * LN_2), (float)spread);
    return moved;
}

double rescale_largest_score(const RescaleCase *c)
{
    float largest = -INFINITY;
    for (uint64_t i = 0; i < (uint64_t)c->setup.queries * blocks(c); i++) largest = c->maxima[i] > largest ? c->maxima[i] : largest;
    return (double)largest * LOG2_E;
}

/* ------------------------------------------------------------------------------------------------------------- worst case */

bool rescale_worst_case(uint64_t N, double threshold, double *O, Alloc *alloc, Status *status)
{
    Profile chip;
    AttentionRun run = {0};
    AttentionShape shape = attention_shape(N, 1);
    shape.seqlen_q = 1;
    shape.dtype = ELEMENT_F32;
    shape.softmax_scale = LN_2;                 /* scores in log2 */
    const RunSetup setup = {.algorithm = &algorithm_fa4, .profile = &chip, .tiles = {2, RESCALE_KEYS}, .config = {.mode = MODE_NUMERIC}};
    bool ok = profile_load("b200", alloc, &chip, status) && attention_run_prepare(&run, &setup, &shape, alloc, status);
    if (ok) {
        /* the reference must not move: a little more than the scores */
        run.attention.fa4 = (Fa4Options){.conditional = true, .threshold = threshold * 1.000001};
        tensor_set(&run.machine, run.attention.Q, 0, 1);
        for (uint64_t j = 0; j < N; j++) {
            tensor_set(&run.machine, run.attention.K, j, j < RESCALE_KEYS ? 0 : threshold);
            tensor_set(&run.machine, run.attention.V, j, 1);
        }
        ok = attention_run_forward(&run);
    }
    if (ok) *O = tensor_value(&run.machine, run.attention.O, 0);
    attention_run_free(&run);
    return ok;
}
