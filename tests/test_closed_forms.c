/* test_closed_forms.c - the formulas by themselves: against sums written as loops, at sizes that no walk reaches, and at their
 * limits.
 *
 * That they equal the walk and the brute-force count is test_counts.c.
 */
/* label: closed-form */
#include "test.h"

#include "algos/closed_forms.h"
#include "support/count_case.h"

typedef bool ClosedFormFunction(const CountedProblem *problem, ClosedForm *form, Status *status);

static ClosedFormFunction *const all_forms[] = {closed_form_standard, closed_form_fa1, closed_form_fa1_shipped, closed_form_fa2,
                                                closed_form_fa4};
static const char *const all_names[] = {"standard", "fa1", "fa1-shipped", "fa2", "fa4"};
enum { FORMS = sizeof all_forms / sizeof all_forms[0] };

/* One head, two-byte elements, no mask, no L2. */
static CountedProblem problem(uint64_t Nq, uint64_t Nk, uint64_t d, uint64_t Br, uint64_t Bc)
{
    return (CountedProblem){.batch = 1, .heads = 1, .kv_heads = 1, .Nq = Nq, .Nk = Nk, .d = d, .band_low = INT64_MIN,
                            .band_high = INT64_MAX, .Br = Br, .Bc = Bc, .element_bytes = 2, .statistic_bytes = 4,
                            .softmax_cols = Nk};
}

/* "Nq=5 Nk=7 Br=2 Bc=4 band -5..0: tile_pairs" */
static void name_of(const CountedProblem *p, const char *quantity, char *text, size_t size)
{
    snprintf(text, size,
             "Nq=%" PRIu64 " Nk=%" PRIu64 " d=%" PRIu64 " Br=%" PRIu64 " Bc=%" PRIu64 " band %" PRId64 "..%" PRId64 ": %s",
             p->Nq, p->Nk, p->d, p->Br, p->Bc, p->band_low, p->band_high, quantity);
}

static uint64_t hbm_elements(const ClosedForm *form) { return form->hbm_read_elements + form->hbm_write_elements; }

/* -------------------------------------------------------------------------------------------------------- against loops */

static void check_visible_pairs(Test *t)
{
    static const int64_t bounds[] = {INT64_MIN, -12, -8, -7, -3, -1, 0, 1, 2, 5, 8, 9, 13, INT64_MAX};
    enum { BOUNDS = sizeof bounds / sizeof bounds[0] };
    Status status = {0};
    char what[128];
    for (int64_t Nq = 0; Nq <= 9; Nq++)
        for (int64_t Nk = 0; Nk <= 9; Nk++)
            for (size_t b = 0; b < BOUNDS * BOUNDS; b++) {
                const int64_t low = bounds[b / BOUNDS], high = bounds[b % BOUNDS];
                uint64_t want = 0;
                for (int64_t r = 0; r < Nq; r++)
                    for (int64_t c = 0; c < Nk; c++) want += c - r >= low && c - r <= high;
                snprintf(what, sizeof what, "visible_pairs Nq=%d Nk=%d band %" PRId64 "..%" PRId64, (int)Nq, (int)Nk, low, high);
                check_u64(t, visible_pairs((uint64_t)Nq, (uint64_t)Nk, low, high, &status), want, what);
            }
    check_text(t, status.text, "", "visible_pairs");
}

/* Σ over executed block pairs, block by block, and the rows and keys of blocks in any of them. */
typedef struct {
    uint64_t pairs, rows, keys, area, seeing_rows, seen_keys;
} LoopSums;

enum { MOST_BLOCKS = 200 };

static LoopSums loop_sums(const CountedProblem *p)
{
    LoopSums sums = {0};
    bool sees[MOST_BLOCKS] = {false}, seen[MOST_BLOCKS] = {false};
    for (uint64_t first_row = 0; first_row < p->Nq; first_row += p->Br)
        for (uint64_t first_key = 0; first_key < p->Nk; first_key += p->Bc) {
            const uint64_t r = min_u64(p->Br, p->Nq - first_row), c = min_u64(p->Bc, p->Nk - first_key);
            const int64_t to_last = (int64_t)(first_key + c) - 1 - (int64_t)first_row;      /* last key - first row */
            const int64_t to_first = (int64_t)first_key - (int64_t)(first_row + r) + 1;     /* first key - last row */
            if (p->band_high < p->band_low || to_last < p->band_low || to_first > p->band_high) continue;
            sums.pairs++;
            sums.rows += r;
            sums.keys += c;
            sums.area += r * c;
            if (!sees[first_row / p->Br]) sums.seeing_rows += r;
            if (!seen[first_key / p->Bc]) sums.seen_keys += c;
            sees[first_row / p->Br] = seen[first_key / p->Bc] = true;
        }
    return sums;
}

static void check_block_sums(Test *t)
{
    uint64_t random = 1;
    for (int i = 0; i < 4000; i++) {
        const uint64_t Nq = random_between(&random, 1, 2000), Nk = random_between(&random, 1, 2000);
        CountedProblem p = problem(Nq, Nk, 3, random_between(&random, 1, 300), random_between(&random, 1, 300));
        p.Br = ceil_div(p.Nq, p.Br) > MOST_BLOCKS ? p.Nq : p.Br;
        p.Bc = ceil_div(p.Nk, p.Bc) > MOST_BLOCKS ? p.Nk : p.Bc;
        p.band_low = (int64_t)random_between(&random, 0, 5000) - 2500;
        p.band_high = (int64_t)random_between(&random, 0, 5000) - 2500;
        if (random_between(&random, 0, 3)) p.band_high = p.band_low + (int64_t)random_between(&random, 0, 400);
        Status status = {0};
        ClosedForm form;
        char what[256];
        closed_form_fa2(&p, &form, &status);
        const LoopSums want = loop_sums(&p);
        check_text(t, status.text, "", "block sums");
        name_of(&p, "tile_pairs", what, sizeof what);
        check_u64(t, form.tile_pairs, want.pairs, what);
        name_of(&p, "matmul_flops = 4 d scores", what, sizeof what);
        check_u64(t, form.matmul_flops, 4 * 3 * want.area, what);
        name_of(&p, "exp_ops = scores + rows", what, sizeof what);
        check_u64(t, form.exp_ops, want.area + want.rows, what);
        name_of(&p, "smem_operand_bytes = 2 d (rows + 2 keys)", what, sizeof what);
        check_u64(t, form.smem_operand_bytes, 2 * 3 * (want.rows + 2 * want.keys), what);
        name_of(&p, "hbm_read_elements = d (seeing rows + 2 keys)", what, sizeof what);
        check_u64(t, form.hbm_read_elements, 3 * (want.seeing_rows + 2 * want.keys), what);
        p.ideal_l2 = true;
        closed_form_fa2(&p, &form, &status);
        name_of(&p, "ideal L2: hbm_read_elements = d (seeing rows + 2 seen keys)", what, sizeof what);
        check_u64(t, form.hbm_read_elements, 3 * (want.seeing_rows + 2 * want.seen_keys), what);
    }
}

/* -------------------------------------------------------------------------------------------------------- at great lengths */

/* Tile pairs of one query block after the other, for the lengths at which only that loop is short. */
static uint64_t loop_over_query_blocks(const CountedProblem *p)
{
    uint64_t pairs = 0;
    for (uint64_t first_row = 0; first_row < p->Nq; first_row += p->Br) {
        const int64_t last_row = (int64_t)min_u64(first_row + p->Br, p->Nq) - 1, last_key = (int64_t)p->Nk - 1;
        const int64_t from = (int64_t)first_row + p->band_low, to = last_row + p->band_high;
        if (to < 0 || from > last_key) continue;
        pairs += (to > last_key ? ceil_div(p->Nk, p->Bc) : (uint64_t)to / p->Bc + 1) - (from < 0 ? 0 : (uint64_t)from / p->Bc);
    }
    return pairs;
}

static void check_great_lengths(Test *t)
{
    const uint64_t N = UINT64_C(1) << 31, lengths[] = {N, N - 1, N - 65536, 2147483629}, blocks[] = {65536, 65521, 40000};
    const int64_t bands[][2] = {{-(int64_t)N, 0}, {-100000, 0}, {-1, 1}, {-123456789, 987654321}, {5, 70000}, {-70000, -5}};
    Status status = {0};
    char what[256];
    for (size_t i = 0; i < 4 * 3 * 6; i++) {
        CountedProblem p = problem(lengths[i % 4], lengths[(i + 1) % 4], 1, blocks[i / 4 % 3], i % 2 ? 127 : 65535);
        ClosedForm form;
        p.band_low = bands[i / 12][0];
        p.band_high = bands[i / 12][1];
        closed_form_fa2(&p, &form, &status);
        name_of(&p, "tile_pairs", what, sizeof what);
        check_u64(t, form.tile_pairs, loop_over_query_blocks(&p), what);
    }
    check_u64(t, visible_pairs(N, N, INT64_MIN, 0, &status), N / 2 * (N + 1), "N = 2^31, causal: N (N + 1) / 2 pairs");
    check_u64(t, visible_pairs(N, N, INT64_MIN, INT64_MAX, &status), N * N, "N = 2^31, no mask: N^2 pairs");
    check_u64(t, visible_pairs(N, N, -4095, 0, &status), N * 4096 - 4096 * 4095 / 2, "N = 2^31, W = 4096: N W - W (W - 1) / 2");
    CountedProblem causal = problem(N, N, 1, 65536, 65536);
    ClosedForm form;
    causal.band_high = 0;
    closed_form_fa2(&causal, &form, &status);
    check_u64(t, form.tile_pairs, 32768 * 32769 / 2, "N = 2^31, causal, blocks of 65536: T (T + 1) / 2 tile pairs");
    check_text(t, status.text, "", "great lengths");
}

/* FLOPs grow by exactly 4 from 2^17 to 2^18 ... 2^21, HBM bytes (with their linear part) by nearly 4. */
static void check_growth(Test *t)
{
    for (size_t a = 0; a < FORMS; a++) {
        ClosedForm last = {0};
        for (uint64_t N = UINT64_C(1) << 17; N <= UINT64_C(1) << 21; N *= 2) {
            const CountedProblem p = problem(N, N, 128, 128, 128);
            Status status = {0};
            ClosedForm form;
            char what[96];
            all_forms[a](&p, &form, &status);
            snprintf(what, sizeof what, "%s, N = %" PRIu64, all_names[a], N);
            check_text(t, status.text, "", what);
            if (last.matmul_flops > 0) {
                check_u64(t, form.matmul_flops, 4 * last.matmul_flops, what);
                check_u64(t, form.tile_pairs, 4 * last.tile_pairs, what);
                const uint64_t bytes = form.hbm_read_bytes + form.hbm_write_bytes;
                const uint64_t before = last.hbm_read_bytes + last.hbm_write_bytes;
                check_true(t, bytes <= 4 * before && bytes > 4 * before - before / 100, what);
            }
            last = form;
        }
    }
}

/* Products that do not fit in 32 bits. */
static void check_integer_width(Test *t)
{
    static const struct {
        uint64_t batch, heads, N, pairs;
    } cases[] = {{1, 1, 46340, UINT64_C(2147395600)},
                 {1, 1, 46341, UINT64_C(2147488281)},
                 {1, 1, 65536, UINT64_C(4294967296)},
                 {8, 28, 4096, UINT64_C(3758096384)}};
    Status status = {0};
    ClosedForm form;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CountedProblem p = problem(cases[i].N, cases[i].N, 1, 1, 1);
        p.batch = cases[i].batch;
        p.heads = p.kv_heads = cases[i].heads;
        closed_form_fa2(&p, &form, &status);
        check_u64(t, form.tile_pairs, cases[i].pairs, "blocks of 1 x 1: batch heads N^2 tile pairs");
        check_u64(t, form.matmul_flops_exact_mask, 4 * cases[i].pairs, "4 batch heads N^2 d FLOPs");
    }
    CountedProblem p = problem(4096, 0, 512, 128, 128);
    p.batch = 29;
    p.heads = p.kv_heads = 64;
    p.element_bytes = 4;
    closed_form_standard(&p, &form, &status);
    check_u64(t, form.hbm_write_elements, UINT64_C(3892314112), "O of 29 x 64 x 4096 x 512: elements");
    check_u64(t, form.hbm_write_bytes, UINT64_C(15569256448), "O of 29 x 64 x 4096 x 512 in float32: bytes");
    check_text(t, status.text, "", "products past 32 bits");
}

/* ----------------------------------------------------------------------------------------------------- limits and errors */

static void check_overflow(Test *t)
{
    for (size_t a = 0; a < FORMS; a++) {
        CountedProblem p = problem(UINT64_C(1) << 31, UINT64_C(1) << 31, 128, 128, 128);
        Status status = {0};
        ClosedForm form;
        check_true(t, !all_forms[a](&p, &form, &status) && status.code == STATUS_INFEASIBLE, all_names[a]);
        check_true(t, strstr(status.text, "overflows 64 bits") != NULL, status.text);
        p.batch = 0;        /* nothing runs: nothing overflows */
        status = (Status){0};
        check_true(t, all_forms[a](&p, &form, &status), all_names[a]);
        check_u64(t, hbm_elements(&form) + form.matmul_flops + form.nonmatmul_ops + form.tile_pairs, 0, "batch 0 does nothing");
    }
    CountedProblem flops = problem(UINT64_C(1) << 29, UINT64_C(1) << 29, 512, 65536, 65536);     /* 4 N^2 d = 2^69 */
    Status status = {0};
    ClosedForm form;
    closed_form_fa2(&flops, &form, &status);
    check_text(t, status.text, "matmul_flops overflows 64 bits: 1152921504606846976 * 512", "the product is named");
    status = (Status){0};
    visible_pairs(UINT64_C(1) << 40, UINT64_C(1) << 40, INT64_MIN, INT64_MAX, &status);
    check_true(t, status.code == STATUS_INFEASIBLE && strstr(status.text, "tile pairs overflows") != NULL, status.text);
}

static void check_refused(Test *t)
{
    const CountedProblem no_rows = problem(8, 8, 1, 0, 4), no_keys = problem(8, 8, 1, 4, 0);
    const CountedProblem too_long = problem(UINT64_C(1) << 62, 8, 1, 4, 4), too_wide = problem(8, 8, 1, 4, UINT64_MAX);
    const CountedProblem *const refused[] = {&no_rows, &no_keys, &too_long, &too_wide};
    for (size_t a = 0; a < FORMS; a++)
        for (size_t i = 0; i < 4; i++) {
            Status status = {0};
            ClosedForm form;
            check_true(t, !all_forms[a](refused[i], &form, &status), all_names[a]);
            check_u64(t, status.code, i < 2 ? STATUS_USAGE : STATUS_INFEASIBLE, status.text);
        }
}

/* ------------------------------------------------------------------------------------------ the lecture's one-head formulas */

static void check_lecture_values(Test *t)
{
    Status status = {0};
    check_u64(t, standard_elements(1024, 64, &status), 4456448, "standard, N = 1024, d = 64: 4Nd + 4N^2");
    check_u64(t, standard_elements(256, 64, &status), 327680, "standard, N = 256, d = 64");
    check_u64(t, standard_elements(8192, 64, &status), 270532608, "standard, N = 8192, d = 64");
    check_u64(t, standard_elements(16384, 64, &status), 1077936128, "standard, N = 16384, d = 64");
    check_u64(t, standard_elements(8192, 128, &status), 272629760, "standard, N = 8192, d = 128");
    check_u64(t, standard_elements(4, 2, &status), 96, "standard, N = 4, d = 2");
    check_u64(t, fa1_elements(1024, 64, 16, &status), 13043712, "fa1, N = 1024, d = 64, Bc = 16");
    check_u64(t, fa1_elements(1024, 64, 256, &status), 1001472, "fa1, N = 1024, d = 64, Bc = 256");
    check_u64(t, fa1_elements(8192, 128, 192, &status), 139837440, "fa1, N = 8192, d = 128, Bc = 192");
    check_u64(t, fa2_elements(1024, 64, 128, &status), 1180672, "fa2, N = 1024, d = 64, Br = 128");
    check_u64(t, fa2_elements(4, 2, 2, &status), 52, "fa2, N = 4, d = 2, Br = 2");
    check_u64(t, fa1_sram_elements(64, 64, 64, &status), 20608, "fa1 on-chip peak, M = 16384: 1.26 M");
    check_u64(t, fa1_sram_elements(64, 256, 64, &status), 57472, "fa1 on-chip peak, M = 65536: 0.88 M");

    const uint64_t standard = standard_elements(1024, 64, &status);
    const uint64_t at_12288 = fa1_elements(1024, 64, paper_tiles(12288, 64).Bc, &status);
    const uint64_t at_12289 = fa1_elements(1024, 64, paper_tiles(12289, 64).Bc, &status);
    check_true(t, at_12288 > standard && standard > at_12289, "fa1 moves less than standard from M = 12,289 on");

    CountedProblem p = problem(1024, 1024, 64, 128, 128);
    p.batch = 64;
    p.heads = p.kv_heads = 16;
    check_u64(t, matmul_flops_convention(&p, false, &status), UINT64_C(274877906944), "4 batch heads N^2 d");
    check_u64(t, matmul_flops_convention(&p, true, &status), UINT64_C(137438953472), "half of it when causal");
    check_text(t, status.text, "", "lecture values");
}

/* They are the general forms with one head, no mask and no L2 (standard attention: with each operand once per kernel). */
static void check_lecture_formulas(Test *t)
{
    uint64_t random = 4;
    for (int i = 0; i < 500; i++) {
        const uint64_t N = random_between(&random, 1, 5000), d = random_between(&random, 1, 512);
        const uint64_t Br = random_between(&random, 1, 600), Bc = random_between(&random, 1, 600), Tc = ceil_div(N, Bc);
        CountedProblem p = problem(N, N, d, Br, Bc);
        Status status = {0};
        ClosedForm form;
        char what[256];
        name_of(&p, "one-head formula against the general form", what, sizeof what);
        closed_form_fa1(&p, &form, &status);
        check_u64(t, fa1_elements(N, d, Bc, &status), hbm_elements(&form), what);
        closed_form_fa2(&p, &form, &status);
        check_u64(t, fa2_elements(N, d, Br, &status), hbm_elements(&form), what);
        check_u64(t, matmul_flops_convention(&p, false, &status), form.matmul_flops, what);
        closed_form_fa1_shipped(&p, &form, &status);
        check_u64(t, fa1_published_elements(N, d, Bc, &status), hbm_elements(&form) - N * (2 * Tc - 1), what);
        p.Br = N;           /* one query block: the products re-read nothing */
        closed_form_standard(&p, &form, &status);
        check_u64(t, standard_elements(N, d, &status), hbm_elements(&form), what);
        p.Br = Br;
        p.ideal_l2 = true;
        closed_form_standard(&p, &form, &status);
        check_u64(t, standard_elements(N, d, &status), hbm_elements(&form), what);
        check_text(t, status.text, "", what);
    }
}

int main(void)
{
    Test t = {0};
    check_visible_pairs(&t);
    check_block_sums(&t);
    check_great_lengths(&t);
    check_growth(&t);
    check_integer_width(&t);
    check_overflow(&t);
    check_refused(&t);
    check_lecture_values(&t);
    check_lecture_formulas(&t);
    return test_end(&t, "closed_forms");
}
