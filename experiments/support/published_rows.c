/* published_rows.c - see published_rows.h. */
#include "published_rows.h"

#include <string.h>

const Column published_columns[PUBLISHED_COLUMNS] = {
    {"kernel", "", "whose bar it is"},
    {"d", "", "head dimension"},
    {"mask", "", "none or causal"},
    {"N", "", "sequence length"},
    {"batch x heads", "", "of the benchmark"},
    {"printed", "TFLOP/s", "quoted: the number on the bar"},
    {"of peak", "%", "printed, of the chip's dense peak in this type"},
    {"model", "TFLOP/s", "our time model of the same kernel, shape and chip"},
    {"error", "%", "model over printed, less 100 %"},
    {"bound", "", "what binds in the model"},
};

double mean_absolute(const ModelErrors *errors)
{
    return errors->count > 0 ? errors->sum_of_absolutes / (double)errors->count : 0;
}

static void note_error(ModelErrors *errors, double tflops, double error)
{
    if (errors->count == 0 || error < errors->low) errors->low = error;
    if (errors->count == 0 || error > errors->high) errors->high = error;
    if (errors->count == 0 || tflops < errors->slowest) errors->slowest = tflops;
    if (errors->count == 0 || tflops > errors->fastest) errors->fastest = tflops;
    errors->sum_of_absolutes += error < 0 ? -error : error;
    errors->count++;
}

void cell_error(Table *table, double ours, double theirs)
{
    const double error = error_percent(ours, theirs);
    if (theirs <= 0)
        cell_empty(table);
    else if (error > -0.5 && error < 0.5)
        cell_decimals(table, 0, 0);
    else
        cell_decimals(table, error, 0);
}

static double peak_tflops(const Profile *chip, ElementType dtype)
{
    return (double)chip->peak_bf16_flops_per_chip * (dtype == ELEMENT_E4M3 ? 2 : 1) / 1e12;
}

static void begin_row(Table *table, const PublishedCurve *curve, size_t point, const Profile *chip)
{
    const uint64_t tflops = curve->points[point].tflops;
    table_row(table);
    cell_text(table, curve->kernel);
    cell_count(table, curve->head_dim);
    cell_text(table, curve->causal ? "causal" : "none");
    cell_count(table, curve->points[point].seqlen);
    cell_textf(table, "%" PRIu64 " x %" PRIu64, curve->points[point].batch, curve->heads);
    cell_count(table, tflops);
    cell_decimals(table, 100 * (double)tflops / peak_tflops(chip, published_source(curve->figure)->dtype), 0);
}

static bool curve_rows(Table *table, const PublishedCurve *curve, const PublishedModel *model, const Profile *chip,
                       ModelErrors *errors, Alloc *alloc, Status *status)
{
    for (size_t p = 0; p < PUBLISHED_POINTS && curve->points[p].seqlen > 0; p++) {
        const TimedSetup setup = {.algorithm = model->algorithm,
                                  .chip = chip,
                                  .shape = published_shape(curve, p),
                                  .fa4 = model->fa4.conditional ? fa4_as_shipped(curve->causal) : model->fa4,
                                  .backward = model->backward};
        const double printed = (double)curve->points[p].tflops;
        TimedRun run;
        if (model->longest > 0 && curve->points[p].seqlen > model->longest) continue;
        if (!timed_run(&run, &setup, table->report, alloc, status)) return false;
        begin_row(table, curve, p, chip);
        cell_significant(table, run.tflops, 3);
        cell_error(table, run.tflops, printed);
        cell_text(table, run.bound);
        note_error(errors, run.tflops, error_percent(run.tflops, printed));
    }
    return true;
}

bool published_rows(Table *table, PublishedFigure figure, const PublishedModel *model, const Profile *chip, ModelErrors *errors,
                    Alloc *alloc, Status *status)
{
    for (size_t i = 0; i < published_curve_count; i++) {
        const PublishedCurve *curve = &published_curves[i];
        if (curve->figure != figure || strcmp(curve->kernel, model->kernel) != 0) continue;
        if (!curve_rows(table, curve, model, chip, errors, alloc, status)) return false;
    }
    return true;
}

static bool asked(const BarQuery *q, const PublishedCurve *curve)
{
    return curve->figure == q->figure && strcmp(curve->kernel, q->kernel) == 0 && (curve->causal || !q->causal_only) &&
           (q->head_dim == 0 || curve->head_dim == q->head_dim);
}

BarRange bar_range(const BarQuery *q)
{
    BarRange range = {0};
    double sum = 0;
    for (size_t i = 0; i < published_curve_count; i++) {
        const PublishedCurve *x = &published_curves[i];
        if (!asked(q, x)) continue;
        const PublishedCurve *y = q->over != NULL ? published_curve(q->figure, q->over, x->head_dim, x->causal) : NULL;
        for (size_t p = 0; p < PUBLISHED_POINTS && x->points[p].seqlen > 0; p++) {
            const double other = q->over != NULL ? (double)published_tflops(y, x->points[p].seqlen) : q->scale > 0 ? q->scale : 1;
            if (other <= 0 || x->points[p].seqlen < q->from) continue;
            const double ratio = (double)x->points[p].tflops / other;
            if (range.count == 0 || ratio < range.low) range.low = ratio;
            if (range.count == 0 || ratio > range.high) range.high = ratio;
            sum += ratio;
            range.count++;
        }
    }
    if (range.count > 0) range.mean = sum / (double)range.count;
    return range;
}
