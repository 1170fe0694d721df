/* silicon_published.c - see silicon_published.h. */
#include "silicon_published.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHORTEST = 1024 };

/* ---- the bars ---- */

/* Who stands for a printed kernel. */
typedef struct {
    const char *kernel;
    const Algorithm *forward;
    Fa3Options fa3;
    TileSize tiles, backward_tiles;
    uint64_t widest;                        /* head dim up to which its tiles are known; 0: all */
    bool two_ctas;                          /* backward, from head dim 128 on (published tuning) */
    bool one_consumer_dq;                   /* backward */
} Model;

static const Model models[] = {
    {.kernel = "standard", .forward = &algorithm_standard},
    {.kernel = "fa1", .forward = &algorithm_fa1_shipped},
    {.kernel = "fa2", .forward = &algorithm_fa2},
    {.kernel = "fa3", .forward = &algorithm_fa3},
    {.kernel = "fa4", .forward = &algorithm_fa4, .two_ctas = true},
    {.kernel = "cudnn 9.1.1", .forward = &algorithm_fa3, .fa3 = {.no_overlap = true}, .tiles = {128, 128}, .backward_tiles = {64, 128}, .widest = 128,
     .one_consumer_dq = true},
};

static const Model *model_of(const PublishedCurve *curve)
{
    const bool backward = strcmp(published_source(curve->figure)->pass, "bwd") == 0;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        if (strcmp(models[i].kernel, curve->kernel) == 0 && (models[i].widest == 0 || curve->head_dim <= models[i].widest) &&
            (!backward || models[i].forward->backward != NULL))
            return &models[i];
    return NULL;
}

/* "192/128" heads have no kernel here; FlashAttention-1 walks no more than 4096 keys in reasonable time. */
static bool is_modelled(const PublishedCurve *curve, size_t point)
{
    const uint64_t N = curve->points[point].seqlen;
    if (curve->figure == FA4_FIGURE_5 || model_of(curve) == NULL) return false;
    return N >= SHORTEST && (strcmp(curve->kernel, "fa1") != 0 || N <= 4096);
}

static bool model_bar(PublishedTime *row, Report *report, Alloc *alloc, Status *status)
{
    const PublishedCurve *curve = row->curve;
    const PublishedSource *source = published_source(curve->figure);
    const Model *model = model_of(curve);
    const BackwardVariant variant = {.two_ctas = model->two_ctas && curve->head_dim >= 128, .one_consumer_dq = model->one_consumer_dq};
    const bool backward = strcmp(source->pass, "bwd") == 0;
    Profile chip;
    TimedRun run;
    if (!profile_load(source->chip, alloc, &chip, status)) return false;
    TimedSetup setup = {.algorithm = model->forward, .chip = &chip, .shape = published_shape(curve, row->point), .fa3 = model->fa3,
                        .fa4 = fa4_as_shipped(curve->causal), .backward = backward ? &variant : NULL};
    setup.tiles = backward ? model->backward_tiles : model->tiles;
    if (!timed_run(&run, &setup, report, alloc, status)) return false;
    row->model_us = run.microseconds;
    row->printed_us = run.microseconds * run.tflops / (double)curve->points[row->point].tflops;
    return true;
}

bool published_times_model(PublishedTimes *times, Report *report, Alloc *alloc, Status *status)
{
    *times = (PublishedTimes){.alloc = alloc};
    times->rows = alloc_array(alloc, published_curve_count * PUBLISHED_POINTS, sizeof *times->rows, "published times", status);
    if (times->rows == NULL) return false;
    for (size_t i = 0; i < published_curve_count; i++)
        for (size_t p = 0; p < PUBLISHED_POINTS && published_curves[i].points[p].seqlen > 0; p++) {
            if (!is_modelled(&published_curves[i], p)) continue;
            PublishedTime *row = &times->rows[times->count++];
            *row = (PublishedTime){.curve = &published_curves[i], .point = p};
            if (!model_bar(row, report, alloc, status)) return false;
        }
    return true;
}

void published_times_free(PublishedTimes *times)
{
    alloc_free(times->alloc, times->rows);
    *times = (PublishedTimes){.alloc = times->alloc};
}

/* ---- errors ---- */

static int by_size(const void *a, const void *b)
{
    const double x = fabs(*(const double *)a), y = fabs(*(const double *)b);
    return (x > y) - (x < y);
}

TimeErrors time_errors(double *errors, size_t count, double limit)
{
    TimeErrors e = {.count = count};
    size_t within = 0;
    if (count == 0) return e;
    qsort(errors, count, sizeof *errors, by_size);
    for (size_t i = 0; i < count; i++) within += fabs(errors[i]) <= limit;
    e.median = (fabs(errors[(count - 1) / 2]) + fabs(errors[count / 2])) / 2;
    e.worst = errors[count - 1];
    e.ninth = fabs(errors[(9 * count + 9) / 10 - 1]);
    e.share = (double)within / (double)count;
    return e;
}

/* ---- ranking ---- */

/* Two measured and two modelled times of one problem. */
static void rank_pair(Ranking *ranking, double measured_a, double measured_b, double model_a, double model_b)
{
    if (measured_a <= 1.1 * measured_b && measured_b <= 1.1 * measured_a) return;
    ranking->pairs++;
    ranking->right += (measured_a < measured_b) == (model_a < model_b);
}

static bool same_bar(const PublishedTime *a, const PublishedTime *b)
{
    const PublishedCurve *x = a->curve, *y = b->curve;
    return x->figure == y->figure && x->head_dim == y->head_dim && x->causal == y->causal && x->points[a->point].seqlen == y->points[b->point].seqlen;
}

Ranking rank_published(const PublishedTimes *times)
{
    Ranking ranking = {0};
    for (size_t i = 0; i < times->count; i++)
        for (size_t k = 0; k < i; k++) {
            const PublishedTime *a = &times->rows[i], *b = &times->rows[k];
            if (same_bar(a, b)) rank_pair(&ranking, a->printed_us, b->printed_us, a->model_us, b->model_us);
        }
    return ranking;
}

static bool same_problem(const SiliconTime *a, const SiliconTime *b)
{
    return strcmp(a->pass, b->pass) == 0 && silicon_same_shape(&a->shape, &b->shape);
}

/* A launch of standard attention is no attention. */
static bool is_attention(const SiliconTime *row) { return row->skipped == NULL && strncmp(row->kernel, "std_", 4) != 0; }

Ranking rank_measured(const SiliconTimes *times)
{
    Ranking ranking = {0};
    for (size_t i = 0; i < times->count; i++)
        for (size_t k = 0; k < i; k++) {
            const SiliconTime *a = &times->rows[i], *b = &times->rows[k];
            if (is_attention(a) && is_attention(b) && same_problem(a, b)) rank_pair(&ranking, a->chip_us, b->chip_us, a->model_us, b->model_us);
        }
    return ranking;
}
