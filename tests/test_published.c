/* test_published.c - the published bars: the table in published.c against hw_profiles/measured/published_tflops.csv, and ranges
 * over bars. */
/* label: unit, golden */
#include "test.h"

#include "experiments/support/published_rows.h"

#include <stdlib.h>

static PublishedFigure figure_named(const char *name)
{
    for (int f = 0; f < PUBLISHED_FIGURES; f++)
        if (strcmp(published_source((PublishedFigure)f)->name, name) == 0) return (PublishedFigure)f;
    return PUBLISHED_FIGURES;
}

static const char *dtype_name(ElementType type) { return type == ELEMENT_E4M3 ? "fp8" : element_name(type); }

static void check_line(Test *t, const char *line)
{
    char figure[40], chip[20], kernel[40], pass[8], dtype[8];
    uint64_t d, causal, batch, heads, seqlen, tflops;
    const char *format =
        "%39[^,],%19[^,],%39[^,],%7[^,],%7[^,],%" SCNu64 ",%" SCNu64 ",%" SCNu64 ",%" SCNu64 ",%" SCNu64 ",%" SCNu64;
    check_u64(t, (uint64_t)sscanf(line, format, figure, chip, kernel, pass, dtype, &d, &causal, &batch, &heads, &seqlen, &tflops),
              11, line);
    const PublishedFigure f = figure_named(figure);
    check_true(t, f < PUBLISHED_FIGURES, figure);
    if (f >= PUBLISHED_FIGURES) return;
    const PublishedSource *source = published_source(f);
    const PublishedCurve *curve = published_curve(f, kernel, d, causal == 1);
    check_text(t, source->chip, chip, line);
    check_text(t, source->pass, pass, line);
    check_text(t, dtype_name(source->dtype), dtype, line);
    check_u64(t, published_tflops(curve, seqlen), tflops, line);
    check_u64(t, curve != NULL ? curve->heads : 0, heads, line);
    for (size_t p = 0; curve != NULL && p < PUBLISHED_POINTS; p++)
        if (curve->points[p].seqlen == seqlen) check_u64(t, curve->points[p].batch, batch, line);
}

static void test_csv(Test *t)
{
    char line[200];
    uint64_t rows = 0, points = 0;
    FILE *file = fopen(TEST_DATA "/../hw_profiles/measured/published_tflops.csv", "r");
    check_true(t, file != NULL, "published_tflops.csv");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (rows++ > 0) check_line(t, line);
    if (file != NULL) fclose(file);
    for (size_t i = 0; i < published_curve_count; i++)
        for (size_t p = 0; p < PUBLISHED_POINTS; p++) points += published_curves[i].points[p].seqlen > 0;
    check_u64(t, rows, points + 1, "rows of the CSV: a header and every point");
}

/* Each curve is found by its own key, its lengths rise, batch * N is what the figure keeps constant. */
static void test_curves(Test *t)
{
    for (size_t i = 0; i < published_curve_count; i++) {
        const PublishedCurve *c = &published_curves[i];
        check_true(t, published_curve(c->figure, c->kernel, c->head_dim, c->causal) == c, "a curve's key is its own");
        for (size_t p = 1; p < PUBLISHED_POINTS && c->points[p].seqlen > 0; p++) {
            check_true(t, c->points[p].seqlen > c->points[p - 1].seqlen, "lengths rise");
            check_true(t, c->points[p].batch * c->points[p].seqlen / 16000 == c->points[0].batch * c->points[0].seqlen / 16000,
                       "batch * N");
        }
    }
}

static void test_ranges(Test *t)
{
    const BarRange fa2 = bar_range(&(BarQuery){.figure = FA2_FIGURE_5, .kernel = "fa2", .head_dim = 64});
    check_close(t, fa2.low, 115, 0, "FA2 at d = 64: least");
    check_close(t, fa2.high, 192, 0, "FA2 at d = 64: most");
    check_close(t, fa2.mean, (178 + 191 + 192 + 192 + 115 + 146 + 177 + 183) / 8.0, 1e-12, "FA2 at d = 64: mean");
    check_u64(t, fa2.count, 8, "bars");
    const BarRange causal = bar_range(
        &(BarQuery){.figure = FA2_FIGURE_5, .kernel = "fa2", .over = "fa1", .head_dim = 64, .from = 4096, .causal_only = true});
    check_close(t, causal.low, 183.0 / 94, 1e-12, "FA2 / FA1, causal, from 4096: least");
    check_close(t, causal.high, 177.0 / 89, 1e-12, "FA2 / FA1, causal, from 4096: most");
    check_u64(t, causal.count, 2, "bars that both have");
    /* the standard bars end at 4096: out of memory */
    check_u64(t, bar_range(&(BarQuery){.figure = FA2_FIGURE_5, .kernel = "fa2", .over = "standard", .from = 16384}).count, 0,
              "no bar");
    check_close(t, bar_range(&(BarQuery){.figure = FA4_FIGURE_4, .kernel = "fa4", .scale = 22.5}).high, 1613 / 22.5, 1e-12,
                "of peak");
}

int main(void)
{
    Test t = {0};
    test_csv(&t);
    test_curves(&t);
    test_ranges(&t);
    return test_end(&t, "test_published");
}
