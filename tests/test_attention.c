/* test_attention.c - the attention problem itself: bands, blocks, refusals, tiles, inputs; no kernel's result.
 *
 *   band        for every mask and window: the pairs it lets through are those of the definition, written out per pair
 *   blocks      the key blocks of a query block and the query blocks of a key block: exactly those with a visible pair
 *   tiles       what fitting_tiles() returns runs on its chip, and is the first of its halvings that does; else the refusal is
 * right
 */
/* label: unit, property */
#include "test.h"

#include "support/count_case.h"

#include "algos/run.h"

#include <math.h>

typedef struct {
    Test test;
    Alloc alloc;
    Profile unbounded;
} Context;

/* ------------------------------------------------------------------------------------------------------- bands and blocks */

static void check_band(Context *x, const AttentionShape *s)
{
    const Band band = attention_band(s);
    bool same = true;
    for (uint64_t i = 0; i < s->seqlen_q; i++)
        for (uint64_t j = 0; j < s->seqlen_k; j++) {
            const int64_t key = (int64_t)j, row = (int64_t)i;
            same = same && (row + band.low <= key && key <= row + band.high) == sees(s, i, j);
        }
    check_true(&x->test, same, "attention_band = the definition, pair by pair");
    check_true(&x->test, band.low >= -(int64_t)s->seqlen_q && band.low <= (int64_t)s->seqlen_k,
               "the band's lower side is no wider than the matrix");
    check_true(&x->test, band.high <= (int64_t)s->seqlen_k && band.high >= -(int64_t)s->seqlen_q, "nor is its upper side");
}

static bool meet(const Attention *a, uint64_t i, uint64_t j)
{
    for (uint64_t row = i * a->Br; row < min_u64((i + 1) * a->Br, a->shape.seqlen_q); row++)
        for (uint64_t key = j * a->Bc; key < min_u64((j + 1) * a->Bc, a->shape.seqlen_k); key++)
            if (sees(&a->shape, row, key)) return true;
    return false;
}

static void check_blocks(Context *x, const AttentionShape *s, uint32_t Br, uint32_t Bc)
{
    const Attention a = {.shape = *s, .Br = Br, .Bc = Bc, .band = attention_band(s)};
    bool keys_right = true, queries_right = true;
    for (uint64_t i = 0; i < query_blocks(&a); i++)
        for (uint64_t j = 0; j < key_blocks(&a); j++) {
            const BlockRange keys = visible_key_blocks(&a, i), queries = visible_query_blocks(&a, j);
            const bool visible = meet(&a, i, j);
            keys_right = keys_right && (j >= keys.first && j < keys.end) == visible && keys.end <= key_blocks(&a);
            queries_right =
                queries_right && (i >= queries.first && i < queries.end) == visible && queries.end <= query_blocks(&a);
        }
    char what[200];
    snprintf(what, sizeof what,
             "Nq=%" PRIu64 " Nk=%" PRIu64 " mask %d window %" PRId64 ",%" PRId64 " Br=%u Bc=%u: visible_key_blocks", s->seqlen_q,
             s->seqlen_k, (int)s->mask, s->window_left, s->window_right, Br, Bc);
    check_true(&x->test, keys_right, what);
    check_true(&x->test, queries_right, "the same: visible_query_blocks");
}

/* Every length up to 6, every mask, every window up to 6, blocks of 1 to 3. */
static void check_small(Context *x)
{
    AttentionShape s = attention_shape(0, 1);
    for (s.seqlen_q = 0; s.seqlen_q <= 6; s.seqlen_q++)
        for (s.seqlen_k = 0; s.seqlen_k <= 6; s.seqlen_k++)
            for (int mask = MASK_NONE; mask <= MASK_CAUSAL_TOP_LEFT; mask++)
                for (s.window_left = -1; s.window_left <= 6; s.window_left++)
                    for (s.window_right = -1; s.window_right <= 6; s.window_right++) {
                        s.mask = (MaskKind)mask;
                        check_band(x, &s);
                        for (uint32_t blocks = 0; blocks < 9; blocks++) check_blocks(x, &s, 1 + blocks / 3, 1 + blocks % 3);
                    }
}

static void check_random(Context *x, int cases)
{
    uint64_t random = 1;
    for (int i = 0; i < cases; i++) {
        AttentionShape s = attention_shape(random_between(&random, 0, 40), 1);
        s.seqlen_k = random_between(&random, 0, 40);
        s.mask = (MaskKind)random_between(&random, 0, 2);
        s.window_left = (int64_t)random_between(&random, 0, 45) - 1;
        s.window_right = (int64_t)random_between(&random, 0, 45) - 1;
        check_band(x, &s);
        const uint32_t Br = (uint32_t)random_between(&random, 1, 45), Bc = (uint32_t)random_between(&random, 1, 45);
        check_blocks(x, &s, Br, Bc);
    }
}

/* The longest sequences allowed: no sum leaves 64 bits. */
static void check_long(Context *x)
{
    AttentionShape s = attention_shape(MAX_SEQLEN, 1);
    s.seqlen_k = 1;
    s.mask = MASK_CAUSAL;
    s.window_left = INT64_MAX;
    const Attention a = {.shape = s, .Br = UINT32_MAX, .Bc = 1, .band = attention_band(&s)};
    check_i64(&x->test, a.band.high, 1 - (int64_t)MAX_SEQLEN, "2^31 queries, 1 key, causal");
    check_i64(&x->test, a.band.low, -(int64_t)MAX_SEQLEN, "a window wider than the sequence hides nothing");
    check_u64(&x->test, visible_key_blocks(&a, 0).end, 1, "the last query sees the key");
    check_u64(&x->test, visible_query_blocks(&a, 0).end, 1, "and is in the only block");
}

/* ---------------------------------------------------------------------------------------------------------------- refusals */

static void check_refusals(Context *x)
{
    typedef struct {
        uint64_t heads, kv_heads, Nq, Nk, d;
        int64_t left, right;
        double scale;
        const char *error;
    } Row;
    static const Row rows[] = {
        {6, 2, 4, 4, 64, -1, -1, 1, ""},
        {1, 1, 0, 0, 1, 0, 0, -1, ""},
        {1, 1, MAX_SEQLEN, MAX_SEQLEN, 512, -1, -1, 0, ""},
        {3, 2, 4, 4, 64, -1, -1, 1, "2 K/V heads do not divide 3 query heads"},
        {33, 2, 4, 4, 64, -1, -1, 1, "2 K/V heads do not divide 33 query heads"},
        {2, 4, 4, 4, 64, -1, -1, 1, "4 K/V heads do not divide 2 query heads"},
        {4, 0, 4, 4, 64, -1, -1, 1, "0 K/V heads do not divide 4 query heads"},
        {1, 1, 4, 4, 0, -1, -1, 1, "head dim 0 is not allowed; expected 1 to 512"},
        {1, 1, 4, 4, 513, -1, -1, 1, "head dim 513 is not allowed; expected 1 to 512"},
        {1, 1, MAX_SEQLEN + 1, 4, 1, -1, -1, 1, "sequence length 2147483649 is not allowed; expected 0 to 2147483648"},
        {1, 1, 4, MAX_SEQLEN + 1, 1, -1, -1, 1, "sequence length 2147483649 is not allowed; expected 0 to 2147483648"},
        {1, 1, 4, 4, 1, -2, -1, 1, "window -2,-1 is not allowed; expected -1 (unbounded) or more"},
        {1, 1, 4, 4, 1, -1, INT64_MIN, 1, "window -1,-9223372036854775808 is not allowed; expected -1 (unbounded) or more"},
        {1, 1, 4, 4, 1, -1, -1, NAN, "the softmax scale must be finite"},
        {1, 1, 4, 4, 1, -1, -1, INFINITY, "the softmax scale must be finite"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const Row *r = &rows[i];
        Status status = {0};
        AttentionShape s = attention_shape(r->Nq, r->d);
        s.seqlen_k = r->Nk;
        s.heads = r->heads;
        s.kv_heads = r->kv_heads;
        s.window_left = r->left;
        s.window_right = r->right;
        s.softmax_scale = r->scale;
        check_true(&x->test, attention_check(&s, &status) == (r->error[0] == '\0'), "attention_check says so");
        check_text(&x->test, status.text, r->error, "attention_check");
        check_u64(&x->test, status.code, r->error[0] == '\0' ? STATUS_OK : STATUS_USAGE, "attention_check");
    }
}

/* A block size of 0 is refused, not divided by. */
static void check_empty_blocks(Context *x)
{
    static const TileSize sizes[] = {{16, 0}, {0, 16}};
    for (size_t a = 0; a < algorithm_count(); a++)
        for (size_t i = 0; i < 2; i++) {
            Status status = {0};
            AttentionRun run;
            const AttentionShape s = attention_shape(40, 8);
            const RunSetup setup = {
                .algorithm = algorithm_at(a), .profile = &x->unbounded, .tiles = sizes[i], .config = {.mode = MODE_COUNT}};
            const bool ok = attention_run_prepare(&run, &setup, &s, &x->alloc, &status) && attention_run_forward(&run);
            check_true(&x->test, ok ? run.setup.tiles.Br > 0 && run.setup.tiles.Bc > 0 : status.code == STATUS_USAGE,
                       "a block of no rows");
            attention_run_free(&run);
        }
}

static void check_names(Context *x)
{
    Status status = {0};
    for (size_t i = 0; i < algorithm_count(); i++)
        check_true(&x->test, algorithm_find(algorithm_at(i)->name, &status) == algorithm_at(i), algorithm_at(i)->name);
    check_text(&x->test, status.text, "", "known names");
    check_true(&x->test, algorithm_find("fa1-shiped", &status) == NULL, "an unknown name");
    static const char *const expected = "unknown algorithm 'fa1-shiped'; did you mean 'fa1-shipped'? allowed: standard, fa1, ";
    check_true(&x->test, strncmp(status.text, expected, strlen(expected)) == 0, status.text);
    check_u64(&x->test, status.code, STATUS_USAGE, "an unknown name");
    status = (Status){0};
    check_true(&x->test, algorithm_find("", &status) == NULL && strstr(status.text, "did you mean") == NULL,
               "no name is near nothing");
}

/* ------------------------------------------------------------------------------------------------------------------- tiles */

/* Bc = ceil(M / 4d), Br = min(Bc, d), neither below 1. */
static void check_paper_tiles(Context *x)
{
    static const struct {
        uint64_t sram_elements, d;
        uint32_t Br, Bc;
    } rows[] = {
        {51200, 64, 64, 200}, {4096, 64, 16, 16}, {65536, 64, 64, 256}, {98304, 128, 128, 192},  {257, 64, 2, 2},
        {256, 64, 1, 1},      {1, 64, 1, 1},      {0, 64, 1, 1},        {1000000, 1, 1, 250000}, {UINT64_MAX, 1, 1, UINT32_MAX}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const TileSize got = paper_tiles(rows[i].sram_elements, rows[i].d);
        check_u64(&x->test, got.Br, rows[i].Br, "paper_tiles: Br = min(Bc, d)");
        check_u64(&x->test, got.Bc, rows[i].Bc, "paper_tiles: Bc = ceil(M / 4d)");
    }
}

/* A problem of several ragged blocks with these tiles on this chip. */
static bool runs(Context *x, const Algorithm *algorithm, const AttentionShape *shape, TileSize tiles, const Profile *chip,
                 Status *status)
{
    AttentionRun run;
    AttentionShape s = *shape;
    s.seqlen_q = s.seqlen_k = 2 * max_u64(tiles.Br, tiles.Bc) + 3;
    const bool ok = attention_count(&run, algorithm, &s, tiles, L2_IDEAL, chip, &x->alloc, status);
    attention_run_free(&run);
    return ok;
}

/* From the real kernel's tiles on: the larger side is halved, Bc of equals, down to 16; the first that runs is the one. */
static void check_fitting(Context *x, const Algorithm *algorithm, const AttentionShape *shape, const Profile *chip,
                          const char *what)
{
    Status status = {0};
    TileSize chosen = {0, 0}, candidate = algorithm->tiles(shape);
    const bool found = fitting_tiles(algorithm, shape, chip, &x->alloc, &chosen, &status);
    Status attempt = {0};
    bool ran = runs(x, algorithm, shape, candidate, chip, &attempt);
    while (!ran && profile_has(chip, algorithm->instruction) && (candidate.Br > 16 || candidate.Bc > 16)) {
        if (candidate.Bc >= candidate.Br) candidate.Bc /= 2;
        else candidate.Br /= 2;
        attempt = (Status){0};
        ran = runs(x, algorithm, shape, candidate, chip, &attempt);
    }
    check_true(&x->test, found == ran, what);
    check_u64(&x->test, status.code, found ? STATUS_OK : STATUS_INFEASIBLE, what);
    check_text(&x->test, status.text, attempt.text, what);
    if (found) check_u64(&x->test, (uint64_t)chosen.Br << 32 | chosen.Bc, (uint64_t)candidate.Br << 32 | candidate.Bc, what);
}

static void check_fitting_tiles(Context *x)
{
    static const uint64_t head_dims[] = {1, 63, 64, 65, 96, 128, 129, 192, 256, 257, 384, 512};
    static const ElementType types[] = {ELEMENT_F64, ELEMENT_F32, ELEMENT_BF16, ELEMENT_FP16, ELEMENT_E4M3};
    for (size_t p = 0; p < profile_builtin_count(); p++) {
        Status status = {0};
        Profile chip;
        check_true(&x->test, profile_load(profile_builtin_name(p), &x->alloc, &chip, &status), status.text);
        for (size_t a = 0; a < algorithm_count(); a++)
            for (size_t i = 0; i < sizeof head_dims / sizeof head_dims[0]; i++)
                for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
                    AttentionShape s = attention_shape(1024, head_dims[i]);
                    char what[120];
                    s.dtype = types[t];
                    snprintf(what, sizeof what, "fitting_tiles: %s on %s, d=%" PRIu64 ", %s", algorithm_at(a)->name, chip.name,
                             s.head_dim, element_name(s.dtype));
                    check_fitting(x, algorithm_at(a), &s, &chip, what);
                }
    }
}

/* The real kernels' tiles run unchanged where the real kernels run. */
static void check_shipped_tiles(Context *x)
{
    static const struct {
        const Algorithm *algorithm;
        uint64_t d;
        TileSize tiles;
    } rows[] = {{&algorithm_fa2, 64, {128, 128}},         {&algorithm_fa2, 128, {128, 64}},
                {&algorithm_fa2, 256, {128, 64}},         {&algorithm_fa1_shipped, 64, {16, 256}},
                {&algorithm_fa1_shipped, 128, {16, 128}}, {&algorithm_standard, 128, {128, 128}}};
    Status status = {0};
    Profile a100;
    profile_load("a100", &x->alloc, &a100, &status);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const AttentionShape s = attention_shape(4096, rows[i].d);
        TileSize tiles = {0, 0};
        check_true(&x->test, fitting_tiles(rows[i].algorithm, &s, &a100, &x->alloc, &tiles, &status), status.text);
        check_u64(&x->test, tiles.Br, rows[i].tiles.Br, "Br as shipped, on A100 in BF16");
        check_u64(&x->test, tiles.Bc, rows[i].tiles.Bc, "Bc as shipped, on A100 in BF16");
    }
}

/* ------------------------------------------------------------------------------------------------------------------ inputs */

/* Element i of the k-th tensor depends on seed, k and i alone, and is rounded to the type. */
static void check_inputs(Context *x)
{
    static const ElementType types[] = {ELEMENT_F32, ELEMENT_BF16, ELEMENT_FP16};
    Status status = {0};
    AttentionRun wide, runs_of[3];
    AttentionShape s = attention_shape(64, 16);
    s.dtype = ELEMENT_F64;
    RunSetup setup = {.algorithm = &algorithm_fa2,
                      .profile = &x->unbounded,
                      .tiles = {16, 16},
                      .config = {.mode = MODE_NUMERIC, .precision = PRECISION_F64}};
    attention_run_prepare(&wide, &setup, &s, &x->alloc, &status);
    attention_random_inputs(&wide.attention, &wide.machine, 7);
    setup.config.precision = PRECISION_F32;
    for (int i = 0; i < 3; i++) {
        AttentionShape smaller = attention_shape(8, 16);
        smaller.dtype = types[i];
        attention_run_prepare(&runs_of[i], &setup, &smaller, &x->alloc, &status);
        attention_random_inputs(&runs_of[i].attention, &runs_of[i].machine, 7);
        Tensor *const narrow[] = {runs_of[i].attention.Q, runs_of[i].attention.K, runs_of[i].attention.V};
        Tensor *const full[] = {wide.attention.Q, wide.attention.K, wide.attention.V};
        for (int t = 0; t < 3; t++)
            for (uint64_t e = 0; e < tensor_elements(narrow[t]); e++) {
                float want = (float)tensor_value(&wide.machine, full[t], e);
                round_elements(types[i], &want, 1);
                check_close(&x->test, tensor_value(&runs_of[i].machine, narrow[t], e), (double)want, 0,
                            "an input rounded to its type");
            }
        attention_run_free(&runs_of[i]);
    }
    const double q = tensor_value(&wide.machine, wide.attention.Q, 3), k = tensor_value(&wide.machine, wide.attention.K, 3);
    check_true(&x->test, q != k && k != tensor_value(&wide.machine, wide.attention.V, 3), "tensors are different streams");
    attention_random_inputs(&wide.attention, &wide.machine, 8);
    check_true(&x->test, q != tensor_value(&wide.machine, wide.attention.Q, 3), "another seed, other numbers");
    check_text(&x->test, status.text, "", "inputs");
    attention_run_free(&wide);
}

int main(void)
{
    Context x = {0};
    Status status = {0};
    if (profile_load("unbounded", &x.alloc, &x.unbounded, &status)) {
        check_small(&x);
        check_random(&x, 3000);
        check_long(&x);
        check_refusals(&x);
        check_empty_blocks(&x);
        check_names(&x);
        check_paper_tiles(&x);
        check_fitting_tiles(&x);
        check_shipped_tiles(&x);
        check_inputs(&x);
    }
    check_text(&x.test, status.text, "", "profile unbounded");
    check_u64(&x.test, x.alloc.live_bytes, 0, "bytes still allocated at the end");
    return test_end(&x.test, "attention");
}
