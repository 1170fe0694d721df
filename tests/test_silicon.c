/* test_silicon.c - the model beside a chip's counters (experiments/support/silicon_*), and the CSV reader that both are read with.
 *
 *   reader       what a CSV file may look like; every mistake word for word, with its line and column
 *   bounds       the worst error of every kernel and counter, as README states it: it may not get worse, nor better unnoticed
 *   targets      in all files of counters: every target is met, but for the misses with a known reason; no kernel of the file is skipped
 *   brute force  the forward kernels' counts, tile by tile and row by row, on shapes that no counter has seen
 *   walk         traffic and shared memory against the machine; the backward launches add up to the closed form
 *   half sectors the points of h200_stores.h against their measurement, and the formula on the shapes that are no point's
 *   softmax      the expected share of slow divisions against scores drawn one by one
 *   rows         what is skipped and why; what is refused and where
 *   HBM          where the simulated L2 is asked (its own test: test_silicon_dram.c)
 *   times        what has a model gets a time, and what has none says why
 *   memory       every allocation failing in turn
 */
/* label: closed-form */
#include "test.h"

#include "algos/run.h"
#include "experiments/support/h200_stores.h"
#include "experiments/support/silicon_times.h"
#include "sim/formats.h"
#include "sim/math_functions.h"
#include "sim/normal.h"
#include "support/csv_named.h"

#include <math.h>
#include <stdlib.h>

typedef struct {
    Test test;
    Alloc alloc;
    Profile h200;
} Context;

/* ---- reader ---- */

static void test_good_tables(Context *x)
{
    static const struct {
        const char *text;
        size_t rows, columns;
        const char *first, *last;       /* fields of the first row */
    } tables[] = {
        {"a,b\n1,2\n", 1, 2, "1", "2"},
        {"a,b\r\n1,2\r\n\r\n3,4", 2, 2, "1", "2"},
        {"\xEF\xBB\xBF" "a\n1\n", 1, 1, "1", "1"},
        {"a,b\n\"x, \"\"y\"\"\",\"two\nlines\"\n", 1, 2, "x, \"y\"", "two\nlines"},
        {"a,b\n,\n", 1, 2, "", ""},
        {"a,b\n\n", 0, 2, NULL, NULL},
        {"a,b\n\"\",x", 1, 2, "", "x"},
    };
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        CsvTable t;
        Status status = {0};
        const bool ok = csv_parse(&t, "t.csv", tables[i].text, strlen(tables[i].text), &x->alloc, &status);
        check_text(&x->test, status.text, "", tables[i].text);
        check_u64(&x->test, t.row_count, tables[i].rows, tables[i].text);
        check_u64(&x->test, t.column_count, tables[i].columns, tables[i].text);
        if (ok && tables[i].first != NULL) {
            check_text(&x->test, csv_text(&t, 0, 0), tables[i].first, "first field");
            check_text(&x->test, csv_text(&t, 0, t.column_count - 1), tables[i].last, "last field");
        }
        csv_free(&t);
    }
}

static void test_bad_tables(Context *x)
{
    static const struct {
        const char *text, *error;
    } tables[] = {
        {"", "t.csv: is empty; expected a line of column names"},
        {"\n\r\n", "t.csv: is empty; expected a line of column names"},
        {"a,b\n1\n", "t.csv:2: 1 fields; expected 2, as many as column names"},
        {"a,b\n\n1,2\n1,2,3\n", "t.csv:4: 3 fields; expected 2, as many as column names"},
        {"a,b\n\"x\ny\",1\n2\n", "t.csv:4: 1 fields; expected 2, as many as column names"},
        {"a,b,a\n", "t.csv:1: two columns are named 'a'"},
        {"a\n\"x", "t.csv:2: a quotation mark is opened and never closed"},
        {"a\n\"x\ny\nz", "t.csv:2: a quotation mark is opened and never closed"},
        {"a\n\"x\"y\n", "t.csv:2: text after a closing quotation mark; expected a comma or the end of the line"},
        {"a\nx\"y\"\n", "t.csv:2: a quotation mark inside a field; expected it at the beginning"},
    };
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        CsvTable t;
        Status status = {0};
        check_true(&x->test, !csv_parse(&t, "t.csv", tables[i].text, strlen(tables[i].text), &x->alloc, &status), tables[i].text);
        check_text(&x->test, status.text, tables[i].error, tables[i].text);
        check_u64(&x->test, status.code, STATUS_USAGE, tables[i].text);
        csv_free(&t);
    }
    CsvTable t;
    Status zero = {0}, none = {0};
    check_true(&x->test, !csv_parse(&t, "t.csv", "a\n\0\n", 4, &x->alloc, &zero), "a zero byte");
    check_text(&x->test, zero.text, "t.csv: holds a zero byte: not a CSV file", "a zero byte");
    csv_free(&t);
    check_true(&x->test, !csv_load(&t, "no/such.csv", &x->alloc, &none), "no file");
    check_u64(&x->test, none.code, STATUS_IO, none.text);
    csv_free(&t);
}

static void test_values(Context *x)
{
    static const char text[] = "count,real\n18446744073709551615,1.5\n18446744073709551616,1e3\n-1,-1\n 1,.\n1x\t,nan\n,.5\n";
    static const char *const errors[][2] = {
        {"", ""},
        {"t.csv:3: column count: '18446744073709551616' is no count; expected a decimal integer below 2^64",
         "t.csv:3: column real: '1e3' is no number; expected a finite decimal number, not negative"},
        {"t.csv:4: column count: '-1' is no count; expected a decimal integer below 2^64",
         "t.csv:4: column real: '-1' is no number; expected a finite decimal number, not negative"},
        {"t.csv:5: column count: ' 1' is no count; expected a decimal integer below 2^64",
         "t.csv:5: column real: '.' is no number; expected a finite decimal number, not negative"},
        {"t.csv:6: column count: '1x?' is no count; expected a decimal integer below 2^64",
         "t.csv:6: column real: 'nan' is no number; expected a finite decimal number, not negative"},
        {"t.csv:7: column count: '' is no count; expected a decimal integer below 2^64", ""},
    };
    CsvTable t;
    Status status = {0};
    size_t column = 0;
    check_true(&x->test, csv_parse(&t, "t.csv", text, strlen(text), &x->alloc, &status), "values");
    for (size_t row = 0; row < t.row_count; row++) {
        Status count_status = {0}, real_status = {0};
        uint64_t count = 0;
        double real = 0;
        csv_count(&t, row, 0, &count, &count_status);
        csv_real(&t, row, 1, &real, &real_status);
        check_text(&x->test, count_status.text, errors[row][0], csv_text(&t, row, 0));
        check_text(&x->test, real_status.text, errors[row][1], csv_text(&t, row, 1));
        if (row == 0) check_u64(&x->test, count, UINT64_MAX, "largest count");
        if (row == 5) check_close(&x->test, real, 0.5, 0, ".5");
    }
    check_true(&x->test, csv_column(&t, "real", &column, &status) && column == 1, "column by name");
    check_true(&x->test, !csv_column(&t, "rael", &column, &status), "column that is not there");
    check_text(&x->test, status.text, "t.csv:1: no column 'rael'; did you mean 'real'?", "column that is not there");
    csv_free(&t);
}

/* ---- bounds: what README's table says ---- */

/* Hundredths of a percent, in the order of SiliconCounter; OUT: left out. */
enum { OUT = -1 };
static const struct {
    const char *kernel, *role;
    size_t rows;
    int worst[SILICON_DRAM_READ];             /* HBM: test_silicon_dram.c */
} bounds[] = {
    {"flash", "forward", 9, {1, 29, 0, 247, 0, 0, 0}},
    {"flash", "split", 3, {0, 230, 0, 12, 6, 0, 0}},
    {"flash", "combine", 3, {0, 0, 0, 141, 0, 0, 0}},
    {"flash", "copy", 16, {0, 0, 0, OUT, 0, 0, 0}},
    {"flash", "D", 8, {0, 15, 0, OUT, 0, 0, 0}},
    {"flash", "gradients", 8, {17, 0, 0, 479, 0, 0, 0}},
    {"flash", "convert", 8, {0, 0, 0, 1270, 0, 0, 0}},
    {"cudnn", "forward", 9, {4, 39, 0, 272, 0, 0, 0}},
    {"cudnn", "split", 3, {0, 0, 0, 18, 0, 0, 0}},
    {"cudnn", "combine", 3, {0, 0, 0, 40, 0, 0, 0}},
    {"cudnn", "D", 8, {0, 111, 0, OUT, 0, 0, 0}},
    {"cudnn", "gradients", 8, {4, 228, 0, 381, 0, 0, 0}},
    {"cudnn", "convert", 8, {7, 430, 0, OUT, 0, 0, 0}},
    {"std_qk", "S = Q K^T", 4, {6, 5, 0, 224, 0, 0, 0}},
    {"std_softmax", "P = softmax S", 4, {0, 0, 0, OUT, 17, 53, 53}},
    {"std_pv", "O = P V", 4, {0, 4, 0, 28, 0, 0, 0}},
};

static const SiliconFilter everything = {.counter = -1};

static void test_bounds(Context *x, const SiliconRows *rows)
{
    check_u64(&x->test, sizeof bounds / sizeof bounds[0], silicon_kernel_count(), "kernels with bounds");
    for (size_t k = 0; k < silicon_kernel_count() && k < sizeof bounds / sizeof bounds[0]; k++) {
        const SiliconKernel *kernel = silicon_kernel_at(k);
        check_text(&x->test, silicon_kernel_name(kernel), bounds[k].kernel, "kernel");
        check_text(&x->test, silicon_kernel_role(kernel), bounds[k].role, "launch");
        for (int c = 0; c < SILICON_DRAM_READ; c++) {
            char what[160];
            SiliconSummary s;
            Status status = {0};
            silicon_summarise(rows, &everything, kernel, (SiliconCounter)c, &s, &status);
            snprintf(what, sizeof what, "%s %s %s: worst error in 0.01 %%", bounds[k].kernel, bounds[k].role, silicon_counter_name((SiliconCounter)c));
            check_i64(&x->test, s.rows == 0 ? OUT : (int64_t)floor(100 * fabs(s.worst) + 0.5), bounds[k].worst[c], what);
            if (s.rows > 0) check_u64(&x->test, s.rows, bounds[k].rows, what);
        }
    }
}

/* ---- targets ---- */

static void test_targets(Context *x, const SiliconRows *rows, uint64_t launches)
{
    check_u64(&x->test, rows->count, launches, "launches");
    for (size_t i = 0; i < rows->count; i++) {
        const SiliconRow *row = &rows->rows[i];
        check_true(&x->test, row->kernel != NULL, row->launch.launch);
        for (int c = 0; row->kernel != NULL && c < SILICON_COUNTERS; c++) {
            char what[160];
            if (!silicon_cell_is_shown(row, (SiliconCounter)c, &everything)) continue;
            snprintf(what, sizeof what, "line %zu: %s: model %" PRIu64 ", chip %" PRIu64, row->line, silicon_counter_name((SiliconCounter)c),
                     row->model.n[c], row->chip[c]);
            check_true(&x->test, silicon_verdict(row, (SiliconCounter)c) != SILICON_MISSED, what);
        }
    }
}

static void test_errors(Context *x)
{
    check_close(&x->test, silicon_error(101, 100), 1, 1e-12, "error of 101 for 100");
    check_close(&x->test, silicon_error(99, 100), -1, 1e-12, "error of 99 for 100");
    check_close(&x->test, silicon_error(0, 0), 0, 0, "error of 0 for 0");
    check_true(&x->test, isinf(silicon_error(1, 0)), "error of 1 for 0");
}

/* What is no matter of timing is exact: of decoding, in every row whose rows fill a block. */
static void test_exact(Context *x, const SiliconRows *decode)
{
    static const SiliconCounter counters[] = {SILICON_L2_READ, SILICON_XU, SILICON_TENSOR_INSTRUCTIONS};
    for (size_t i = 0; i < decode->count; i++) {
        const SiliconRow *row = &decode->rows[i];
        for (size_t c = 0; row->kernel != NULL && c < sizeof counters / sizeof counters[0]; c++) {
            char what[80];
            snprintf(what, sizeof what, "h200_counters_decode, line %zu: %s", row->line, silicon_counter_name(counters[c]));
            if (silicon_verdict(row, counters[c]) == SILICON_MET) check_u64(&x->test, row->model.n[counters[c]], row->chip[counters[c]], what);
        }
    }
}

/* A known miss that is missed nowhere is no miss any more. */
static void test_known_misses(Context *x, const SiliconRows *const files[], size_t count)
{
    for (size_t k = 0; k < silicon_kernel_count(); k++) {
        for (int c = 0; c < SILICON_COUNTERS; c++) {
            const SiliconKernel *kernel = silicon_kernel_at(k);
            uint64_t met = 0, rows = 0;
            if (silicon_known_miss(kernel, (SiliconCounter)c) == NULL || !silicon_counter_is_shown(kernel, (SiliconCounter)c, &everything)) continue;
            for (size_t i = 0; i < count; i++) {
                SiliconSummary s;
                Status status = {0};
                silicon_summarise(files[i], &everything, kernel, (SiliconCounter)c, &s, &status);
                met += s.met;
                rows += s.rows;
            }
            check_true(&x->test, met < rows, silicon_known_miss(kernel, (SiliconCounter)c));
        }
    }
}

/* ---- brute force ---- */

static AttentionShape shape_of(uint64_t heads, uint64_t kv_heads, uint64_t Nq, uint64_t Nk, uint64_t d, bool causal)
{
    AttentionShape s = attention_shape(Nq, d);
    s.heads = heads;
    s.kv_heads = kv_heads;
    s.seqlen_k = Nk;
    s.mask = causal ? MASK_CAUSAL : MASK_NONE;
    return s;
}

static const struct {
    uint64_t batch, heads, kv_heads, Nq, Nk, d;
    bool causal;
} unseen[] = {{1, 2, 2, 256, 256, 64, false}, {2, 3, 1, 384, 640, 128, true}, {1, 1, 1, 300, 300, 64, true},
              {1, 1, 1, 77, 513, 128, false}, {1, 2, 2, 1, 129, 64, false}};
enum { UNSEEN = sizeof unseen / sizeof unseen[0] };

static AttentionShape unseen_shape(size_t i)
{
    AttentionShape s = shape_of(unseen[i].heads, unseen[i].kv_heads, unseen[i].Nq, unseen[i].Nk, unseen[i].d, unseen[i].causal);
    s.batch = unseen[i].batch;
    return s;
}

/* Tile pairs of one head of which some pair of positions is visible, decided pair by pair. */
static uint64_t count_pairs_of_tiles(const AttentionShape *s, uint64_t Br, uint64_t Bc)
{
    const Band band = attention_band(s);
    uint64_t pairs = 0;
    for (uint64_t i = 0; i < s->seqlen_q; i += Br) {
        for (uint64_t j = 0; j < s->seqlen_k; j += Bc) {
            bool seen = false;
            for (uint64_t r = i; r < i + Br && r < s->seqlen_q; r++)
                for (uint64_t c = j; c < j + Bc && c < s->seqlen_k; c++)
                    seen = seen || ((int64_t)c >= (int64_t)r + band.low && (int64_t)c <= (int64_t)r + band.high);
            pairs += seen;
        }
    }
    return pairs;
}

/* XU instructions of a head, warp by warp: 32 scores an instruction; per row and tile but the first 4 lanes' factors; at the end 4 logarithms
 * and 4 reciprocals a row. */
static uint64_t softmax_by_rows(const AttentionShape *s, uint64_t Br, uint64_t Bc)
{
    const uint64_t pairs = count_pairs_of_tiles(s, Br, Bc), blocks = (s->seqlen_q + Br - 1) / Br;
    uint64_t lanes = 0;
    for (uint64_t row = 0; row < Br; row++) lanes += pairs * Bc + (pairs - blocks) * 4 + blocks * 8;
    return lanes / 32;
}

static void check_counts(Context *x, const SiliconLaunch *launch, uint64_t n[SILICON_COUNTERS])
{
    SiliconCounts counts = {0};
    const char *why = NULL;
    Status status = {0};
    const SiliconKernel *kernel = silicon_kernel_of(launch, &why);
    check_true(&x->test, kernel != NULL, launch->launch);
    if (kernel == NULL) return;
    check_true(&x->test, silicon_counts(kernel, launch, &x->h200, &counts, &why, &status), why != NULL ? why : status.text);
    memcpy(n, counts.n, sizeof counts.n);
}

static void test_forward_by_brute_force(Context *x)
{
    for (size_t i = 0; i < UNSEEN; i++) {
        const AttentionShape shape = unseen_shape(i), *s = &shape;
        const uint64_t heads = s->batch * s->heads, d = s->head_dim, Bc = d == 64 ? 128 : 64, blocks = heads * ((s->seqlen_q + 127) / 128);
        uint64_t n[SILICON_COUNTERS];
        const SiliconLaunch flash = {.kernel = "flash", .pass = "fwd", .launch = "flash_fwd_kernel", .shape = *s, .grid = blocks, .threads = 128};
        check_counts(x, &flash, n);
        const uint64_t pairs = heads * count_pairs_of_tiles(s, 128, Bc);
        check_u64(&x->test, n[SILICON_XU], heads * softmax_by_rows(s, 128, Bc) + blocks * 4 * 3, "flash XU: scores, lanes, one division a warp");
        check_u64(&x->test, n[SILICON_TENSOR_INSTRUCTIONS], pairs * (128 / 16) * (Bc / 8) * (d / 16) * 2, "flash mma.sync m16n8k16");
        check_u64(&x->test, n[SILICON_TENSOR_CYCLES], 6 * n[SILICON_TENSOR_INSTRUCTIONS], "flash tensor cycles");
        /* each of 4 warps: its 32 rows of Q, all of K and V; O written and read; 2 shuffles for each 8 of its rows, a tile and at the end */
        check_u64(&x->test, n[SILICON_SMEM], pairs * 4 * (32 + 2 * Bc) * d * 2 / 128 + blocks * 2 * 128 * d * 2 / 128 + (pairs + blocks) * 4 * 4 * 2, "flash wavefronts");

        const char *name = d == 64 ? "sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1_x"
                                   : "sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_x";
        const SiliconLaunch cudnn = {.kernel = "cudnn", .pass = "fwd", .launch = name, .shape = *s, .grid = 132, .threads = 384};
        check_counts(x, &cudnn, n);
        const uint64_t wide = heads * count_pairs_of_tiles(s, 128, 128);
        check_u64(&x->test, n[SILICON_XU], heads * softmax_by_rows(s, 128, 128) + blocks * 9 + 132 * 3, "cudnn XU");
        check_u64(&x->test, n[SILICON_TENSOR_INSTRUCTIONS], wide * 2 * 4 * (d / 16 + 128 / 16), "cudnn wgmma: 2 warpgroups of 4 warps, S then O");
        check_u64(&x->test, n[SILICON_TENSOR_CYCLES], wide * 128 * 128 * d * 4 / 1024, "cudnn tensor cycles: 4,096 FLOP a cycle and SM, 4 sub-cores");
        /* each of 2 warpgroups: its 64 rows of Q, all of K and V; O written; shuffles of 8 warps of 16 rows */
        check_u64(&x->test, n[SILICON_SMEM], wide * 2 * (64 + 2 * 128) * d * 2 / 128 + blocks * 128 * d * 2 / 128 + (wide + blocks) * 8 * 2 * 2, "cudnn wavefronts");
        check_u64(&x->test, n[SILICON_L2_READ], (wide * 2 * 128 + blocks * 128) * d * 2, "cudnn reads whole tiles");
    }
}

/* ---- the walk ---- */

static void test_walk(Context *x)
{
    for (size_t i = 0; i < UNSEEN; i++) {
        const AttentionShape shape = unseen_shape(i), *s = &shape;
        uint64_t n[SILICON_COUNTERS];
        AttentionRun run;
        Status status = {0};
        const SiliconLaunch flash = {.kernel = "flash", .pass = "fwd", .launch = "flash_fwd_kernel", .shape = *s, .grid = 1, .threads = 128};
        check_counts(x, &flash, n);
        attention_count(&run, &algorithm_fa2, s, (TileSize){0, 0}, L2_IDEAL, &x->h200, &x->alloc, &status);
        check_u64(&x->test, n[SILICON_L2_READ], run.totals.l2_to_sm_bytes, "flash reads what FlashAttention-2 walks");
        check_true(&x->test, n[SILICON_L2_WRITE] > run.totals.sm_to_l2_bytes, "flash writes O, L and what it spills");
        attention_run_free(&run);
    }
}

/* The three launches of the backward pass are the closed form's three, but for the sectors of D, which are half empty, and what is spilled. */
static void test_backward(Context *x)
{
    static const char *const launches[] = {"flash_bwd_dot_do_o_kernel", "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel", "flash_bwd_convert_dq_kernel"};
    for (int causal = 0; causal < 2; causal++) {
        for (uint64_t d = 64; d <= 128; d *= 2) {
            const AttentionShape s = shape_of(2, 2, 384, 384, d, causal == 1);
            const TileSize tiles = fa2_backward_tiles(&s);
            uint64_t reads = 0, writes = 0, n[SILICON_COUNTERS];
            for (int i = 0; i < 3; i++) {
                const SiliconLaunch l = {.kernel = "flash", .pass = "bwd", .launch = launches[i], .shape = s, .grid = 6, .threads = 256};
                check_counts(x, &l, n);
                reads += n[SILICON_L2_READ];
                writes += n[SILICON_L2_WRITE];
                if (i == 1) {
                    const uint64_t pairs = 2 * count_pairs_of_tiles(&s, tiles.Br, tiles.Bc);
                    check_u64(&x->test, n[SILICON_XU], pairs * tiles.Br * tiles.Bc / 32 + 6 * 8 * 3, "backward XU");
                    check_u64(&x->test, n[SILICON_TENSOR_INSTRUCTIONS], pairs * 5 * tiles.Br * tiles.Bc * d * 2 / 4096, "backward mma.sync");
                    check_u64(&x->test, n[SILICON_L2_RED], pairs * tiles.Br * d * 4 / 32 * 3 / 2, "sectors of dQ");
                }
            }
            AttentionRun run;
            Status status = {0};
            const RunSetup setup = {.algorithm = &algorithm_fa2, .profile = &x->h200, .config = {.mode = MODE_COUNT, .l2 = L2_IDEAL}};
            const bool ok = attention_run_prepare(&run, &setup, &s, &x->alloc, &status) &&
                            attention_run_prepare_backward(&run, (TileSize){0, 0}, (BackwardVariant){0}) && attention_run_backward(&run);
            const uint64_t spilled = 6 * 256 * 4 * (uint64_t)(d == 64 ? (causal ? 12 : 19) : (causal ? 3 : 2));
            check_true(&x->test, ok, status.text);
            check_u64(&x->test, reads, run.totals.l2_to_sm_bytes, "backward reads");
            check_u64(&x->test, writes, run.totals.sm_to_l2_bytes + 2 * 384 * 4 + spilled, "backward writes");
            attention_run_free(&run);
        }
    }
}

/* ---- softmax: the expected share of slow divisions ---- */

/* Rows of N scores with variance |q|^2, drawn and rounded to BF16; a division of 32 lanes is slow where one of them lies 102 ln 2 below the row's maximum. */
static double drawn_share(uint64_t N, uint64_t d, uint64_t rows)
{
    double scores[1024];
    uint64_t slow = 0, next = 0;
    for (uint64_t r = 0; r < rows; r++) {
        double square = 0, largest = -1e9;
        for (uint64_t i = 0; i < d; i++) {
            const double q = normal_element(7, 0, next++);
            square += q * q;
        }
        for (uint64_t j = 0; j < N; j++) {
            scores[j] = f32_from_bf16(bf16_from_f32((float)(sqrt(square) * normal_element(7, 0, next++))));
            if (scores[j] > largest) largest = scores[j];
        }
        for (uint64_t j = 0; j < N; j += 32) {
            bool any = false;
            for (uint64_t k = j; k < j + 32; k++) any = any || scores[k] < largest - 102 * log_f64(2);
            slow += any;
        }
    }
    return (double)slow / (double)(rows * N / 32);
}

static void test_softmax(Context *x)
{
    static const uint64_t dims[] = {128, 256};
    for (size_t i = 0; i < 2; i++) {
        uint64_t n[SILICON_COUNTERS];
        const SiliconLaunch l = {.kernel = "std_softmax", .pass = "fwd", .launch = "",
                                 .shape = shape_of(16, 16, 1024, 1024, dims[i], false), .grid = 4096, .threads = 128};
        check_counts(x, &l, n);
        const double divisions = 16.0 * 1024 * 1024 / 32, share = (double)n[SILICON_XU] / divisions - 3;
        check_close(&x->test, share, drawn_share(1024, dims[i], 600), 0.015, "share of slow divisions");
        check_true(&x->test, share > 0.05, "they matter");
    }
}

/* ---- rows ---- */

static const char header[] = "kernel,pass,batch,heads,kv_heads,seqlen_q,seqlen_k,head_dim,causal,launch,grid,block,l2_to_l1_read_bytes,l1_to_l2_write_bytes,"
                             "l2_red_sectors,smem_wavefronts,xu_warp_insts,tensor_warp_insts,tensor_pipe_cycles,dram_read_bytes,dram_write_bytes\n";

static bool parse(Context *x, SiliconRows *rows, const char *lines, Status *status)
{
    char text[2048];
    snprintf(text, sizeof text, "%s%s", header, lines);
    return silicon_rows_parse(rows, "t.csv", text, strlen(text), &x->h200, &x->alloc, status);
}

static void test_skipped_rows(Context *x)
{
    static const struct {
        const char *line, *why;
    } lines[] = {
        {"math,fwd,1,1,1,128,128,64,0,k,1x1x1,128x1x1,1,1,1,1,1,1,1,1,1\n", "no formula for this kernel and pass"},
        {"flash,fwd+bwd,1,1,1,128,128,64,0,flash_fwd_kernel,1x1x1,128x1x1,1,1,1,1,1,1,1,1,1\n", "no formula for this kernel and pass"},
        {"flash,fwd,1,1,1,128,128,64,0,other_kernel,1x1x1,128x1x1,1,1,1,1,1,1,1,1,1\n", "no formula for a launch of this name"},
        {"flashy,fwd,1,1,1,128,128,64,0,flash_fwd_kernel,1x1x1,128x1x1,1,1,1,1,1,1,1,1,1\n", "no formula for this kernel and pass"},
        {"flash,fwd,1,1,1,128,128,96,0,flash_fwd_kernel,1x1x1,128x1x1,1,1,1,1,1,1,1,1,1\n", "its counts are known for head dims 64 and 128"},
        {"cudnn,fwd,1,1,1,128,128,64,0,flash_fprop_wgmma,1x1x1,384x1x1,1,1,1,1,1,1,1,1,1\n", "no tile in its name"},
        {"cudnn,fwd,1,1,1,128,128,64,0,flash_fprop_wgmma_64x128x64_,1x1x1,128x1x1,1,1,1,1,1,1,1,1,1\n",
         "fewer than two warpgroups: no producer and consumers"},
        {"cudnn_decode,fwd,1,8,8,1,512,128,0,lean_reduction_kernel,1x8x1,256x1x1,1,1,1,1,1,1,1,1,1\n",
         "the launch that made its parts is not in the file"},
        {"flash_decode,fwd,1,8,8,1,512,128,0,flash_fwd_splitkv_kernel,1x1x4,128x1x1,1,1,1,1,1,1,1,1,1\n",
         "its grid is smaller than the number of query blocks"},
        {"std_qk,fwd,1,1,1,128,128,64,0,nvjet_sm90,1x1x1,384x1x1,1,1,1,1,1,1,1,1,1\n", "no tile in its name"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        SiliconRows rows;
        Status status = {0};
        check_true(&x->test, parse(x, &rows, lines[i].line, &status), status.text);
        check_u64(&x->test, rows.count, 1, lines[i].line);
        check_true(&x->test, rows.count == 1 && rows.rows[0].kernel == NULL, lines[i].line);
        if (rows.count == 1) check_text(&x->test, rows.rows[0].skipped != NULL ? rows.rows[0].skipped : "", lines[i].why, lines[i].line);
        silicon_rows_free(&rows);
    }
}

static void test_refused_rows(Context *x)
{
    static const struct {
        const char *line, *error;
    } lines[] = {
        {"flash,fwd,1,1,1,128,128,64,2,k,1x1x1,1x1x1,1,1,1,1,1,1,1,1,1\n", "t.csv:2: column causal: '2' is no mask; expected 0 or 1"},
        {"flash,fwd,1,1,1,128,128,64,0,k,1x1,1x1x1,1,1,1,1,1,1,1,1,1\n",
         "t.csv:2: column grid: '1x1' is no grid; expected three sizes, 8x1x16, together below 2^64"},
        {"flash,fwd,1,1,1,128,128,64,0,k,1x1x1,0x1x1,1,1,1,1,1,1,1,1,1\n",
         "t.csv:2: column block: '0x1x1' is no grid; expected three sizes, 8x1x16, together below 2^64"},
        {"flash,fwd,1,1,1,128,128,64,0,k,1x1x1,1x1x1,1,1,1,1,x,1,1,1,1\n",
         "t.csv:2: column xu_warp_insts: 'x' is no count; expected a decimal integer below 2^64"},
        {"flash,fwd,1,3,2,128,128,64,0,k,1x1x1,1x1x1,1,1,1,1,1,1,1,1,1\n", "t.csv:2: 2 K/V heads do not divide 3 query heads"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        SiliconRows rows;
        Status status = {0};
        check_true(&x->test, !parse(x, &rows, lines[i].line, &status), lines[i].line);
        check_text(&x->test, status.text, lines[i].error, lines[i].line);
        silicon_rows_free(&rows);
    }
    SiliconRows rows;
    Status missing = {0};
    check_true(&x->test, !silicon_rows_parse(&rows, "t.csv", "kernel,pass\n", 12, &x->h200, &x->alloc, &missing), "columns missing");
    check_text(&x->test, missing.text, "t.csv:1: no column 'launch'", "columns missing");
    silicon_rows_free(&rows);
}

/* Shapes of every size: never a crash, and what leaves 64 bits is an error with its line. */
static void test_sizes(Context *x)
{
    SiliconRows rows;
    Status status = {0};
    static const char large[] =
        "flash,fwd,4294967295,65536,65536,2147483648,2147483648,128,0,flash_fwd_kernel,1x1x1,128x1x1,1,1,1,1,1,1,1,1,1\n";
    check_true(&x->test, !parse(x, &rows, large, &status), "too large");
    check_u64(&x->test, status.code, STATUS_INFEASIBLE, status.text);
    check_true(&x->test, strncmp(status.text, "t.csv:2: ", 9) == 0, status.text);
    silicon_rows_free(&rows);
    for (size_t k = 0; k < silicon_kernel_count(); k++) {
        for (uint64_t N = 0; N < 200; N += 33) {
            const SiliconLaunch l = {.kernel = silicon_kernel_name(silicon_kernel_at(k)), .pass = silicon_kernel_pass(silicon_kernel_at(k)),
                                     .launch = "x_64x128x64_x", .shape = shape_of(N % 4 < 2 ? 2 : 0, 1, N, N, 64, N % 2 == 1), .grid = 5,
                                     .threads = 384, .splits = N};
            SiliconCounts n;
            const char *why = NULL;
            Status fine = {0};
            silicon_counts(silicon_kernel_at(k), &l, &x->h200, &n, &why, &fine);
            check_text(&x->test, fine.text, "", silicon_kernel_role(silicon_kernel_at(k)));
        }
    }
}

/* Spills are known of whole tiles only. */
static void test_ragged(Context *x)
{
    static const struct {
        uint64_t Nq, Nk;
        bool known;
    } lengths[] = {{1024, 1024, true}, {1000, 1024, false}, {1024, 1000, false}};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        const SiliconLaunch l = {.kernel = "flash", .pass = "fwd", .launch = "flash_fwd_kernel", .grid = 8, .threads = 128,
                                 .shape = shape_of(1, 1, lengths[i].Nq, lengths[i].Nk, 64, false)};
        SiliconCounts counts;
        const char *why = NULL;
        Status status = {0};
        check_true(&x->test, silicon_counts(silicon_kernel_of(&l, &why), &l, &x->h200, &counts, &why, &status), status.text);
        check_true(&x->test, (counts.unknown[SILICON_L2_WRITE] == NULL) == lengths[i].known, "spills of ragged lengths");
        check_true(&x->test, counts.unknown[SILICON_L2_READ] == NULL, "reads of ragged lengths");
    }
}

/* One query and no split keys: the kernel of the forward, a group of query heads in a tile's rows; a causal mask hides nothing. */
static void test_one_query(Context *x)
{
    for (int causal = 0; causal < 2; causal++) {
        uint64_t n[SILICON_COUNTERS];
        const SiliconLaunch l = {.kernel = "flash_decode", .pass = "fwd", .launch = "flash_fwd_kernel",
                                 .shape = shape_of(32, 8, 1, 4096, 128, causal == 1), .grid = 8, .threads = 128};
        check_counts(x, &l, n);
        check_u64(&x->test, n[SILICON_L2_READ], (32 + 2 * 8 * 4096) * 128 * 2, "Q, K and V once");
        check_u64(&x->test, n[SILICON_TENSOR_INSTRUCTIONS], 8 * (4096 / 64) * (128 / 16) * (64 / 8) * (128 / 16) * 2,
                  "a tile for each K/V head and 64 keys");
    }
}

/* flash chooses its parts by the rule of algos/split_heuristics.h: in every row of both files, and for a combine kernel that stands alone. */
static void test_split_rule(Context *x, const SiliconRows *rows)
{
    size_t seen = 0;
    for (size_t i = 0; i < rows->count; i++) {
        const SiliconRow *row = &rows->rows[i];
        if (strncmp(row->launch.kernel, "flash", 5) != 0 || strcmp(silicon_kernel_role(row->kernel), "combine") != 0) continue;
        SiliconLaunch alone = row->launch;
        SiliconCounts counts;
        const char *why = NULL;
        Status status = {0};
        alone.splits = 0;
        check_true(&x->test, silicon_counts(row->kernel, &alone, &x->h200, &counts, &why, &status), status.text);
        check_u64(&x->test, counts.n[SILICON_L2_READ], row->model.n[SILICON_L2_READ], "parts by flash's rule");
        seen++;
    }
    check_true(&x->test, seen >= 3, "there are combine kernels");
}

/* Flash-Decoding's closed form and the two launches: what both read, but for L, which comes by sectors, and two sectors a block that are stored twice. */
static void test_decode_closed_form(Context *x)
{
    const AttentionShape s = shape_of(32, 8, 1, 8192, 128, false);
    const CountedProblem p = {.batch = 1, .heads = 32, .kv_heads = 8, .Nq = 1, .Nk = 8192, .d = 128, .band_low = -1, .band_high = 8192,
                              .Br = 64, .Bc = 128, .element_bytes = 2, .statistic_bytes = 4, .ideal_l2 = true, .splits = 32, .packed = true};
    const SiliconLaunch split = {.kernel = "flash_decode", .pass = "fwd", .launch = "flash_fwd_splitkv_kernel", .shape = s, .grid = 256, .threads = 128};
    const SiliconLaunch combine = {.kernel = "flash_decode", .pass = "fwd", .launch = "flash_fwd_splitkv_combine_kernel", .shape = s,
                                   .grid = 8, .threads = 128, .splits = 32};
    uint64_t a[SILICON_COUNTERS], b[SILICON_COUNTERS];
    ClosedForm form;
    Status status = {0};
    check_true(&x->test, closed_form_decode(&p, &form, &status), status.text);
    check_counts(x, &split, a);
    check_counts(x, &combine, b);
    check_u64(&x->test, a[SILICON_L2_READ] + b[SILICON_L2_READ], form.l2_to_sm_bytes - 32 * 32 * 4 + 32 * 8 * 32, "both launches read");
    check_u64(&x->test, a[SILICON_L2_WRITE] + b[SILICON_L2_WRITE], form.sm_to_l2_bytes - (32 * 32 + 32) * 4 + 32 * 32 * 32 + 8 * 32 + 256 * 2 * 32,
              "both launches write");
}

/* ---- half sectors: h200_half_sectors.csv ---- */

enum { STORE_HEADS, STORE_SEQLEN, STORE_HEAD_DIM, STORE_BLOCKS, STORE_BYTES, STORE_COUNTS };

static bool read_stores(const CsvTable *t, size_t row, uint64_t v[STORE_COUNTS], Status *status)
{
    static const char *const names[STORE_COUNTS] = {"heads", "seqlen", "head_dim", "blocks", "l1_to_l2_write_bytes"};
    named_counts(t, row, names, STORE_COUNTS, v, status);
    return strcmp(named_text(t, row, "kernel", status), "dot") == 0;
}

/* The rows that h200_stores.h has its points from. */
static bool is_of_a_point(const uint64_t v[STORE_COUNTS]) { return v[STORE_SEQLEN] == 1024 && v[STORE_HEADS] != 16; }

/* The mean share of a number of blocks, in 1/1000: bytes beyond those stored, over those stored in halves. */
static uint64_t mean_share(const CsvTable *t, bool dot, uint64_t blocks, Status *status)
{
    double sum = 0;
    uint64_t rows = 0, v[STORE_COUNTS];
    for (size_t row = 0; row < t->row_count; row++) {
        if (read_stores(t, row, v, status) != dot || v[STORE_BLOCKS] != blocks || !is_of_a_point(v)) continue;
        const uint64_t halves = v[STORE_HEADS] * v[STORE_SEQLEN] * v[STORE_HEAD_DIM] * (dot ? 4 : 2);
        const uint64_t whole = dot ? v[STORE_HEADS] * v[STORE_SEQLEN] * 4 : 0;
        sum += (double)(v[STORE_BYTES] - halves - whole) / (double)halves;
        rows++;
    }
    return rows == 0 ? 0 : (uint64_t)(1000 * sum / (double)rows + 0.5);
}

static void check_point(Context *x, const CsvTable *t, bool dot, const H200HalfSectors *point, Status *status)
{
    char what[80];
    snprintf(what, sizeof what, "h200_stores.h: %s, %" PRIu64 " blocks", dot ? "dot" : "convert", point->blocks);
    check_u64(&x->test, point->twice, mean_share(t, dot, point->blocks, status), what);
}

/* What the formula says of shapes that no point is from, up to 16,384 rows. */
static void check_other_shape(Context *x, const uint64_t v[STORE_COUNTS], bool dot)
{
    char what[120];
    uint64_t n[SILICON_COUNTERS] = {0};
    const SiliconLaunch l = {.kernel = "cudnn", .pass = "bwd", .launch = dot ? "cudnn::compute_dot_do_o" : "cudnn::convert_dq_to_16bits",
                             .shape = shape_of(v[STORE_HEADS], v[STORE_HEADS], v[STORE_SEQLEN], v[STORE_SEQLEN], v[STORE_HEAD_DIM], false),
                             .grid = v[STORE_BLOCKS], .threads = 128};
    check_counts(x, &l, n);
    const double error = silicon_error(n[SILICON_L2_WRITE], v[STORE_BYTES]);
    snprintf(what, sizeof what, "%s of %" PRIu64 " blocks: %" PRIu64 " bytes, measured %" PRIu64, dot ? "dot" : "convert", v[STORE_BLOCKS],
             n[SILICON_L2_WRITE], v[STORE_BYTES]);
    check_true(&x->test, fabs(error) <= 5, what);
}

static void test_half_sectors(Context *x)
{
    CsvTable t;
    Status status = {0};
    size_t others = 0;
    uint64_t v[STORE_COUNTS];
    const bool ok = measured_load(&t, NULL, "h200_half_sectors", &x->alloc, &status);
    for (size_t i = 0; ok && i < H200_DOT_POINTS; i++) check_point(x, &t, true, &h200_half_sectors_dot[i], &status);
    for (size_t i = 0; ok && i < H200_CONVERT_POINTS; i++) check_point(x, &t, false, &h200_half_sectors_convert[i], &status);
    for (size_t row = 0; ok && row < t.row_count; row++) {
        const bool dot = read_stores(&t, row, v, &status);
        if (!status_ok(&status)) break;
        if (is_of_a_point(v)) continue;
        check_other_shape(x, v, dot);
        others++;
    }
    check_text(&x->test, status.text, "", "h200_half_sectors.csv");
    check_u64(&x->test, others, 44, "rows of other shapes");
    csv_free(&t);
}

/* ---- HBM ---- */

/* A launch that fits in L2 reads each byte once and writes nothing back; one that the simulated L2 does not know is left out. */
static void test_dram(Context *x)
{
    static const char lines[] = "flash,fwd,1,2,2,256,256,64,0,flash_fwd_kernel,2x1x2,128x1x1,1,1,1,1,1,1,1,1,1\n"
                                "flash,bwd,1,2,2,256,256,64,0,at::elementwise_kernel,2x1x2,128x1x1,1,1,1,1,1,1,1,1,1\n";
    static const SiliconFilter dram = {.counter = -1, .dram = true};
    SiliconRows rows;
    Status status = {0};
    check_true(&x->test, parse(x, &rows, lines, &status) && silicon_rows_dram(&rows, &dram, &status), status.text);
    if (rows.count == 2) {
        check_u64(&x->test, rows.rows[0].model.n[SILICON_DRAM_READ], 3 * 2 * 256 * 64 * 2, "Q, K, V once");
        check_u64(&x->test, rows.rows[0].model.n[SILICON_DRAM_WRITE], 0, "all in L2");
        check_true(&x->test, silicon_counter_is_shown(rows.rows[0].kernel, SILICON_DRAM_READ, &dram), "shown");
        check_true(&x->test, !silicon_counter_is_shown(rows.rows[0].kernel, SILICON_DRAM_READ, &everything), "not before it is known");
        check_true(&x->test, !silicon_counter_is_shown(rows.rows[1].kernel, SILICON_DRAM_READ, &dram), "left out");
        rows.rows[0].chip[SILICON_L2_WRITE] = 100;
        rows.rows[0].chip[SILICON_DRAM_WRITE] = 10;
        check_close(&x->test, silicon_row_error(&rows.rows[0], SILICON_DRAM_WRITE), -10, 1e-12, "of what was written");
    }
    silicon_rows_free(&rows);
}

/* ---- times ---- */

static void test_times(Context *x)
{
    static const char *const modelled[][2] = {{"flash", "fwd"},  {"flash", "bwd"},       {"cudnn", "fwd"},
                                              {"std_qk", "fwd"}, {"std_softmax", "fwd"}, {"std_pv", "fwd"}, {"flash_decode", "fwd"}};
    SiliconTimes times;
    Status status = {0};
    check_true(&x->test, silicon_times_load(&times, NULL, &x->alloc, &status), status.text);
    check_u64(&x->test, times.count, 180, "times");
    for (size_t i = 0; i < times.count; i++) {
        SiliconTime *row = &times.rows[i];
        bool expected = false;
        if (row->shape.seqlen_k > 1024) continue;           /* the short ones will do */
        for (size_t k = 0; k < sizeof modelled / sizeof modelled[0]; k++)
            expected = expected || (strcmp(row->kernel, modelled[k][0]) == 0 && strcmp(row->pass, modelled[k][1]) == 0);
        check_true(&x->test, silicon_time_model(row, &x->h200, &x->alloc, &status), status.text);
        check_true(&x->test, row->skipped == NULL || !expected, row->kernel);
        check_true(&x->test, row->skipped != NULL || (row->model_us > 0 && row->bound != NULL && row->stands_for != NULL), row->kernel);
    }
    silicon_times_free(&times);
}

/* ---- memory ---- */

static void test_out_of_memory(Context *x)
{
    for (uint64_t k = 1;; k++) {
        SiliconRows rows;
        SiliconSummary summary;
        Status status = {0};
        Alloc alloc = {.fail_at = k};
        const bool ok = silicon_rows_load(&rows, NULL, &x->h200, &alloc, &status) &&
                        silicon_summarise(&rows, &everything, NULL, SILICON_XU, &summary, &status);
        silicon_rows_free(&rows);
        check_u64(&x->test, alloc.live_bytes, 0, "bytes left");
        check_true(&x->test, ok == (alloc.requests < k), "fails iff memory was refused");
        if (alloc.requests < k) break;
        check_u64(&x->test, status.code, STATUS_IO, status.text);
    }
}

int main(void)
{
    Context x = {.test = {0}, .alloc = {0}};
    SiliconRows rows, more, decode;
    Status status = {0};
    check_true(&x.test, profile_load("h200", &x.alloc, &x.h200, &status), status.text);
    check_true(&x.test, silicon_rows_load(&rows, NULL, &x.h200, &x.alloc, &status), status.text);
    test_good_tables(&x);
    test_bad_tables(&x);
    test_values(&x);
    test_bounds(&x, &rows);
    check_true(&x.test, silicon_rows_load(&more, "h200_counters_more", &x.h200, &x.alloc, &status), status.text);
    test_targets(&x, &rows, 106);
    test_targets(&x, &more, 286);
    check_true(&x.test, silicon_rows_load(&decode, "h200_counters_decode", &x.h200, &x.alloc, &status), status.text);
    test_targets(&x, &decode, 132);
    test_exact(&x, &decode);
    test_errors(&x);
    test_known_misses(&x, (const SiliconRows *const[]){&rows, &more, &decode}, 3);
    test_split_rule(&x, &rows);
    test_split_rule(&x, &more);
    test_decode_closed_form(&x);
    silicon_rows_free(&rows);
    silicon_rows_free(&more);
    silicon_rows_free(&decode);
    test_forward_by_brute_force(&x);
    test_walk(&x);
    test_backward(&x);
    test_half_sectors(&x);
    test_softmax(&x);
    test_skipped_rows(&x);
    test_refused_rows(&x);
    test_sizes(&x);
    test_ragged(&x);
    test_one_query(&x);
    test_dram(&x);
    test_times(&x);
    test_out_of_memory(&x);
    check_u64(&x.test, x.alloc.live_bytes, 0, "bytes left");
    return test_end(&x.test, "test_silicon");
}
