/* test_published.c - the published bars: the table in published.c against hw_profiles/measured/published_figures.csv, and ranges
 * over bars. */
/* label: unit, golden */
#include "test.h"

#include "experiments/support/csv_table.h"
#include "experiments/support/published_rows.h"

#include <stdlib.h>

/* ---- against the file ---- */

/* How the file spells what published.c has. Kernels and chips that are not here were left out. */
static const struct {
    const char *file, *here;
} words[] = {{"standard_attention_pytorch", "standard"},
             {"flashattention1", "fa1"},
             {"flashattention2", "fa2"},
             {"flashattention3", "fa3"},
             {"flashattention4", "fa4"},
             {"cudnn_9.1.1", "cudnn 9.1.1"},
             {"cudnn_9.13", "cudnn 9.13"},
             {"cudnn_9.19.1.2", "cudnn 9.19"},
             {"triton_3.6", "triton 3.6"},
             {"A100-SXM4-80GB", "a100"},
             {"H100-SXM5-80GB", "h100"},
             {"B200", "b200"},
             {"fp8_e4m3", "fp8"},
             {"fp16", "fp16"},
             {"bf16", "bf16"}};

static const char *word(const char *file)
{
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i].file, file) == 0) return words[i].here;
    return "";
}

enum { ID, GPU, KERNEL, PASS, DTYPE, BATCH, HEADS, SEQLEN, HEAD_DIM, CAUSAL, VALUE, USED };
static const char *const names[USED] = {"id",    "gpu",    "kernel",   "pass",   "dtype", "batch",
                                        "heads", "seqlen", "head_dim", "causal", "value"};

static PublishedFigure figure_of(const char *id)
{
    for (int f = 0; f < PUBLISHED_FIGURES; f++) {
        const char *prefix = published_source((PublishedFigure)f)->id;
        if (strncmp(id, prefix, strlen(prefix)) == 0 && id[strlen(prefix)] == '-') return (PublishedFigure)f;
    }
    return PUBLISHED_FIGURES;
}

/* "192/128" is 192. */
static uint64_t number(const char *text) { return strtoull(text, NULL, 10); }

static bool has_curve(PublishedFigure figure, const char *kernel)
{
    for (size_t i = 0; i < published_curve_count; i++)
        if (published_curves[i].figure == figure && strcmp(published_curves[i].kernel, kernel) == 0) return true;
    return false;
}

/* Whether the row is one of published.c's bars. */
static bool check_row(Test *t, const char *const field[USED])
{
    const PublishedFigure figure = figure_of(field[ID]);
    const char *kernel = word(field[KERNEL]);
    if (figure == PUBLISHED_FIGURES || !has_curve(figure, kernel) || strcmp(field[VALUE], "OOM") == 0) return false;
    const PublishedSource *source = published_source(figure);
    const PublishedCurve *curve = published_curve(figure, kernel, number(field[HEAD_DIM]), field[CAUSAL][0] == '1');
    check_text(t, source->chip, word(field[GPU]), field[ID]);
    check_text(t, source->pass, field[PASS], field[ID]);
    check_text(t, source->dtype == ELEMENT_E4M3 ? "fp8" : element_name(source->dtype), word(field[DTYPE]), field[ID]);
    check_u64(t, published_tflops(curve, number(field[SEQLEN])), number(field[VALUE]), field[ID]);
    check_u64(t, curve != NULL ? curve->heads : 0, number(field[HEADS]), field[ID]);
    for (size_t p = 0; curve != NULL && p < PUBLISHED_POINTS; p++)
        if (curve->points[p].seqlen == number(field[SEQLEN]))
            check_u64(t, curve->points[p].batch, number(field[BATCH]), field[ID]);
    return true;
}

static void test_file(Test *t)
{
    Alloc alloc = {0};
    Status status = {0};
    CsvTable csv;
    size_t columns[USED] = {0};
    uint64_t bars = 0, points = 0;
    bool ok = csv_load(&csv, TEST_DATA "/../hw_profiles/measured/published_figures.csv", &alloc, &status);
    for (int c = 0; c < USED; c++) ok = ok && csv_column(&csv, names[c], &columns[c], &status);
    check_text(t, status.text, "", "published_figures.csv");
    for (size_t row = 0; ok && row < csv.row_count; row++) {
        const char *field[USED];
        for (int c = 0; c < USED; c++) field[c] = csv_text(&csv, row, columns[c]);
        bars += check_row(t, field);
    }
    csv_free(&csv);
    for (size_t i = 0; i < published_curve_count; i++)
        for (size_t p = 0; p < PUBLISHED_POINTS; p++) points += published_curves[i].points[p].seqlen > 0;
    check_u64(t, bars, points, "every point is a row of the file, and every row of these kernels a point");
    check_u64(t, alloc.live_bytes, 0, "live bytes");
}

/* ---- by themselves ---- */

/* Each curve is found by its own key, its lengths rise, batch * N is what the figure keeps constant. */
static void test_curves(Test *t)
{
    for (size_t i = 0; i < published_curve_count; i++) {
        const PublishedCurve *c = &published_curves[i];
        check_true(t, published_curve(c->figure, c->kernel, c->head_dim, c->causal) == c, "a curve's key is its own");
        for (size_t p = 1; p < PUBLISHED_POINTS && c->points[p].seqlen > 0; p++) {
            check_true(t, c->points[p].seqlen > c->points[p - 1].seqlen, "lengths rise");
            check_u64(t, c->points[p].batch * c->points[p].seqlen / 16000, c->points[0].batch * c->points[0].seqlen / 16000,
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
    const BarQuery none = {.figure = FA2_FIGURE_5, .kernel = "fa2", .over = "standard", .from = 16384};
    check_u64(t, bar_range(&none).count, 0, "no bar");
    check_close(t, bar_range(&(BarQuery){.figure = FA4_FIGURE_4, .kernel = "fa4", .scale = 22.5}).high, 1613 / 22.5, 1e-12,
                "of peak");
}

int main(void)
{
    Test t = {0};
    test_file(&t);
    test_curves(&t);
    test_ranges(&t);
    return test_end(&t, "test_published");
}
