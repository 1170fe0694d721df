/* test_dropout.c - the dropout mask belongs to (seed, offset, batch, head, row, column) and to nothing else.
 *
 *   tiles           random_keep of any shape at any offset = dropout_keeps, element by element = what DROPOUT_STORED writes
 *   passes          O, L and gradients are the same bits with the mask regenerated, stored and given, for every tile shape: the
 *                   forward walks query blocks, the backward key blocks
 *   elsewhere       another seed, offset, batch or head is another mask, also where products of lengths leave 32 bits
 *   rate            kept fraction within 5 sigma; the threshold has 32 bits, so p = 0.001 is not 1/256
 *   edges           p = 0 changes no bit; a row that loses every key; p outside [0, 1) is refused
 *
 * Field cases 28, 29, 46: flash-attention#612, #1106, #2088, pytorch#188015. Lecture §2.8.
 */
#include "test.h"

#include "support/backward_case.h"

#include <math.h>
#include <stdlib.h>

typedef struct {
    Test test;
    Profile chip;               /* unbounded */
    Alloc alloc;
} Context;

/* ------------------------------------------------------------------------------------------------------------------ tiles */

typedef struct {
    Test *test;
    const Tensor *queries;
    const Dropout *dropout;
    uint64_t row, col;
    uint32_t rows, cols;
} KeepTile;

static void keep_tile_block(Block *b, const void *arguments, uint64_t index)
{
    (void)index;
    const KeepTile *k = arguments;
    Tile *z = register_tile(b, "Z", ELEMENT_U8, k->rows + 3, k->cols + 2);      /* live part smaller than the tile */
    random_keep(stream(b, "compute", 4), z, k->queries, k->row, k->col, k->rows, k->cols, k->dropout);
    for (uint32_t r = 0; r < k->rows; r++)
        for (uint32_t c = 0; c < k->cols; c++) {
            const double got = b->machine->math->real_bytes == sizeof(double) ? ((const double *)z->data)[c * z->ld + r]
                                                                              : (double)((const float *)z->data)[c * z->ld + r];
            const uint64_t head = b->batch * k->queries->heads + b->head;
            check_true(k->test, got == (dropout_keeps(k->dropout, head, k->row + r, k->col + c) ? 1.0 : 0.0),
                       "29: random_keep = dropout_keeps");
        }
}

static void check_tiles(Context *x)
{
    static const uint32_t shapes[][2] = {{1, 1}, {1, 9}, {7, 3}, {16, 16}, {5, 300}, {33, 64}};
    static const uint64_t offsets[] = {0, 1, 2, 3, 5, 254, 255, 257, 65533};
    enum { OFFSETS = sizeof offsets / sizeof offsets[0] };
    const Dropout dropout = {.p = 0.4, .seed = UINT64_C(0x123456789abcdef0), .offset = 3};
    for (int f32 = 0; f32 < 2; f32++)
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
            for (size_t o = 0; o < OFFSETS; o++) {
                Status status = {0};
                Machine machine;
                const MachineConfig config = {
                    .mode = MODE_NUMERIC, .precision = f32 ? PRECISION_F32 : PRECISION_F64, .poison = true};
                machine_init(&machine, &x->chip, config, &x->alloc, &status);
                const Tensor *queries = machine_tensor(&machine, "Q", ELEMENT_F32, 2, 3, 70000, 1);
                const KeepTile k = {&x->test,   queries,      &dropout,    offsets[OFFSETS - 1 - o],
                                    offsets[o], shapes[s][0], shapes[s][1]};
                const Kernel kernel = {.name = "keep", .threads = 128, .registers_per_thread = 255, .run = keep_tile_block};
                check_true(&x->test, launch(&machine, &kernel, (Grid){1, 3, 2}, &k), status.text);
                machine_free(&machine);
            }
}

/* ------------------------------------------------------------------------------------------------------------------ passes */

/* Bits of the tensors that a run leaves. */
static const Tensor *result_of(const Attention *a, int i)
{
    const Tensor *const results[] = {a->O, a->dQ, a->dK, a->dV, a->L};
    return results[i];
}
enum { RESULTS = 5 };

static void check_same_bits(Context *x, const AttentionRun *one, const AttentionRun *other, const char *what)
{
    for (int i = 0; i < RESULTS; i++) {
        const Tensor *a = result_of(&one->attention, i), *b = result_of(&other->attention, i);
        if (a == NULL) continue;                    /* standard attention keeps no L */
        check_true(&x->test, memcmp(a->data, b->data, tensor_elements(a) * one->machine.math->real_bytes) == 0, what);
    }
}

static AttentionShape dropout_shape(DropoutSource source, double p, ElementType type)
{
    AttentionShape s = attention_shape(37, 5);
    s.seqlen_k = 45;
    s.batch = 2;
    s.heads = 4;
    s.kv_heads = 2;
    s.mask = MASK_CAUSAL;
    s.dtype = type;
    s.dropout_source = source;
    s.dropout = (Dropout){.p = p, .seed = 7, .offset = 11};
    return s;
}

/* The mask element by element, [batch, heads, N_q, N_k]. */
static double *whole_mask(Context *x, const AttentionShape *s, Status *status)
{
    const uint64_t heads = s->batch * s->heads;
    double *keep = alloc_array(&x->alloc, heads * s->seqlen_q * s->seqlen_k, sizeof *keep, "a keep mask", status);
    for (uint64_t head = 0; keep != NULL && head < heads; head++)
        for (uint64_t r = 0; r < s->seqlen_q; r++)
            for (uint64_t c = 0; c < s->seqlen_k; c++)
                keep[(head * s->seqlen_q + r) * s->seqlen_k + c] = dropout_keeps(&s->dropout, head, r, c) ? 1.0 : 0.0;
    return keep;
}

static bool run_source(Context *x, AttentionRun *run, const BackwardWay *way, TileSize tiles, const AttentionShape *shape,
                       const double *keep, Status *status)
{
    const BackwardInputs inputs = {.shape = *shape, .keep = keep};
    run_backward(run, way, tiles, (MachineConfig){.mode = MODE_NUMERIC, .poison = true}, &x->chip, &inputs, &x->alloc, status);
    check_text(&x->test, status->text, "", way->name);
    return status_ok(status);
}

static void check_written_mask(Context *x, const AttentionRun *run, const double *keep)
{
    const Tensor *Z = run->attention.Z;
    bool same = true;
    for (uint64_t i = 0; i < tensor_elements(Z); i++) same = same && tensor_value(&run->machine, Z, i) == keep[i];
    check_true(&x->test, same, "29: the stored mask is the seed's");
}

static const TileSize tiles[] = {{16, 16}, {32, 64}, {64, 64}, {5, 7}, {1, 3}};
enum { TILES = sizeof tiles / sizeof tiles[0] };

/* For each way and tile shape the three sources give the same bits; the tile shapes differ in the last bits only, as sums do. */
static void check_sources(Context *x, ElementType type)
{
    for (size_t w = 0; w < BACKWARD_WAYS; w++)
        for (size_t t = 0; t < TILES; t++) {
            Status status = {0};
            AttentionRun seed = {0}, stored = {0}, given = {0};
            const AttentionShape shapes[] = {dropout_shape(DROPOUT_SEED, 0.3, type), dropout_shape(DROPOUT_STORED, 0.3, type),
                                             dropout_shape(DROPOUT_GIVEN, 0.3, type)};
            double *keep = whole_mask(x, &shapes[0], &status);
            if (run_source(x, &seed, &backward_ways[w], tiles[t], &shapes[0], NULL, &status) &&
                run_source(x, &stored, &backward_ways[w], tiles[t], &shapes[1], NULL, &status) &&
                run_source(x, &given, &backward_ways[w], tiles[t], &shapes[2], keep, &status)) {
                check_same_bits(x, &seed, &stored, "28: regenerated = stored");
                check_same_bits(x, &seed, &given, "28: regenerated = given");
                check_written_mask(x, &stored, keep);
            }
            alloc_free(&x->alloc, keep);
            attention_run_free(&seed);
            attention_run_free(&stored);
            attention_run_free(&given);
        }
}

/* One mask for every forward pass, tile shape and loop order: all O and gradients agree with those of the first. */
static void check_shapes_and_orders(Context *x)
{
    const AttentionShape shape = dropout_shape(DROPOUT_SEED, 0.3, ELEMENT_F64);
    Status status = {0};
    AttentionRun first, run;
    run_source(x, &first, &backward_ways[WAY_STANDARD], (TileSize){37, 45}, &shape, NULL, &status);
    for (size_t w = 0; w < BACKWARD_WAYS; w++)
        for (size_t t = 0; t < TILES; t++) {
            run_source(x, &run, &backward_ways[w], tiles[t], &shape, NULL, &status);
            for (int i = 0; i < 4; i++) {
                const Tensor *got = result_of(&run.attention, i), *want = result_of(&first.attention, i);
                for (uint64_t k = 0; k < tensor_elements(want); k++)
                    check_close(&x->test, tensor_value(&run.machine, got, k), tensor_value(&first.machine, want, k), 1e-13,
                                backward_ways[w].name);
            }
            attention_run_free(&run);
        }
    for (size_t a = 0; a < DROPOUT_FORWARDS; a++) {
        const RunSetup setup = {.algorithm = dropout_forwards[a], .profile = &x->chip, .tiles = {5, 7},
                                .config = {.mode = MODE_NUMERIC, .precision = PRECISION_F64, .poison = true}};
        check_true(&x->test, attention_run_prepare(&run, &setup, &shape, &x->alloc, &status), status.text);
        attention_random_inputs(&run.attention, &run.machine, 1);
        check_true(&x->test, attention_run_forward(&run), status.text);
        for (uint64_t k = 0; k < tensor_elements(run.attention.O); k++)
            check_close(&x->test, tensor_value(&run.machine, run.attention.O, k),
                        tensor_value(&first.machine, first.attention.O, k), 1e-13, dropout_forwards[a]->name);
        attention_run_free(&run);
    }
    attention_run_free(&first);
}

/* p = 0 regenerates a mask that keeps everything: no bit of any result differs from no dropout. */
static void check_nothing_dropped(Context *x, ElementType type)
{
    for (size_t w = 0; w < BACKWARD_WAYS; w++)
        for (size_t t = 0; t < TILES; t++) {
            Status status = {0};
            AttentionRun none = {0}, zero = {0};
            const AttentionShape shapes[] = {dropout_shape(DROPOUT_NONE, 0, type), dropout_shape(DROPOUT_SEED, 0, type)};
            if (run_source(x, &none, &backward_ways[w], tiles[t], &shapes[0], NULL, &status) &&
                run_source(x, &zero, &backward_ways[w], tiles[t], &shapes[1], NULL, &status))
                check_same_bits(x, &none, &zero, "28: p = 0 is no dropout");
            attention_run_free(&none);
            attention_run_free(&zero);
        }
}

/* A row that loses every key: O = 0, L as without dropout, dQ = 0, and nothing of it reaches dK and dV, whatever its dO is. */
static void check_dropped_row(Context *x)
{
    enum { N = 9, D = 3, ROW = 4 };
    for (size_t w = 0; w < BACKWARD_WAYS; w++)
        for (size_t t = 0; t < TILES; t++) {
            Status status = {0};
            AttentionRun dropped, kept;
            double keep[N * N];
            BackwardInputs inputs = {.shape = attention_shape(N, D), .keep = keep};
            inputs.shape.dtype = ELEMENT_F64;
            const MachineConfig config = {.mode = MODE_NUMERIC, .poison = true};
            run_backward(&kept, &backward_ways[w], tiles[t], config, &x->chip, &inputs, &x->alloc, &status);
            for (int i = 0; i < N * N; i++) keep[i] = i / N == ROW ? 0 : 1;
            inputs.shape.dropout_source = DROPOUT_GIVEN;
            inputs.shape.dropout.p = 0.5;
            run_backward(&dropped, &backward_ways[w], tiles[t], config, &x->chip, &inputs, &x->alloc, &status);
            check_text(&x->test, status.text, "", backward_ways[w].name);
            for (uint64_t c = 0; c < D; c++) {
                check_close(&x->test, tensor_value(&dropped.machine, dropped.attention.O, ROW * D + c), 0, 0,
                            "28: O of a dropped row");
                check_close(&x->test, tensor_value(&dropped.machine, dropped.attention.dQ, ROW * D + c), 0, 0,
                            "28: dQ of a dropped row");
            }
            double before[2][N * D];
            const Tensor *const key_side[] = {dropped.attention.dK, dropped.attention.dV};
            for (uint64_t i = 0; i < 2 * N * D; i++)
                before[i / (N * D)][i % (N * D)] = tensor_value(&dropped.machine, key_side[i / (N * D)], i % (N * D));
            for (uint64_t c = 0; c < D; c++) tensor_set(&dropped.machine, dropped.attention.dO, ROW * D + c, 1000);
            check_true(&x->test, attention_run_backward(&dropped), status.text);
            for (uint64_t i = 0; i < 2 * N * D; i++)
                check_close(&x->test, tensor_value(&dropped.machine, key_side[i / (N * D)], i % (N * D)),
                            before[i / (N * D)][i % (N * D)], 0, "28: dK, dV take nothing from a dropped row");
            for (uint64_t i = 0; i < N && kept.attention.L != NULL; i++)
                check_close(&x->test, tensor_value(&dropped.machine, dropped.attention.L, i),
                            tensor_value(&kept.machine, kept.attention.L, i), 0, "28: L does not know of dropout");
            attention_run_free(&dropped);
            attention_run_free(&kept);
        }
}

/* --------------------------------------------------------------------------------------------------------------- elsewhere */

typedef struct {
    const Dropout *dropout;
    uint64_t head, row, col;
} Place;

/* How many of 64 x 64 elements from two places on are alike. */
static int alike(Place a, Place b)
{
    int same = 0;
    for (uint64_t i = 0; i < 64 * 64; i++)
        same += dropout_keeps(a.dropout, a.head, a.row + i / 64, a.col + i % 64) ==
                dropout_keeps(b.dropout, b.head, b.row + i / 64, b.col + i % 64);
    return same;
}

/* At p = 0.5 half of the elements are: 2048 of 4096 within 5 sigma (32 each). */
static void check_independent(Context *x, Place a, Place b, const char *what)
{
    check_true(&x->test, abs(alike(a, b) - 2048) <= 5 * 32, what);
}

static void check_elsewhere(Context *x)
{
    static const uint64_t corners[][2] = {{0, 0}, {65472, 65472}, {65536, 65536}, {46341, 46341}, {1048512, 7}};
    const Dropout dropout = {.p = 0.5, .seed = 42, .offset = 0};
    const Dropout other[] = {{.p = 0.5, .seed = 42, .offset = 1},
                             {.p = 0.5, .seed = 42, .offset = 0x7fffffff},
                             {.p = 0.5, .seed = 43},
                             {.p = 0.5, .seed = UINT64_C(42) + (UINT64_C(1) << 32)}};
    for (size_t i = 0; i < sizeof corners / sizeof corners[0]; i++) {
        const Place here = {&dropout, 0, corners[i][0], corners[i][1]};
        check_i64(&x->test, alike(here, here), 64 * 64, "29: the same mask again");
        for (size_t k = 0; k < sizeof other / sizeof other[0]; k++)
            check_independent(x, here, (Place){&other[k], 0, here.row, here.col},
                              "29: another offset or seed (flash-attention#2088)");
        for (uint64_t head = 1; head <= UINT64_C(1) << 31; head = head < 40 ? head + 1 : 2 * head)
            check_independent(x, here, (Place){&dropout, head, here.row, here.col}, "46: another head or batch (pytorch#188015)");
        for (int bit = 6; bit < 31; bit++) {
            check_independent(x, here, (Place){&dropout, 0, here.row + (UINT64_C(1) << bit), here.col},
                              "46: a row 2^bit further on");
            check_independent(x, here, (Place){&dropout, 0, here.row, here.col + (UINT64_C(1) << bit)},
                              "46: a column 2^bit further on");
        }
    }
    /* N = 65536: (head N + row) N + col is the same modulo 2^32 for every head */
    check_independent(x, (Place){&dropout, 0, 65472, 65472}, (Place){&dropout, 1, 65472, 65472},
                      "46: heads 0 and 1 at N = 65536 (ffpa-attn#352)");
}

/* The kernels' masks: heads of one run differ, and so do sequences of the batch. */
static void check_heads_of_a_run(Context *x)
{
    Status status = {0};
    AttentionRun run;
    const AttentionShape shape = dropout_shape(DROPOUT_STORED, 0.5, ELEMENT_F32);
    if (run_source(x, &run, &backward_ways[WAY_FA2], (TileSize){16, 16}, &shape, NULL, &status)) {
        const uint64_t heads = shape.batch * shape.heads, size = shape.seqlen_q * shape.seqlen_k * run.machine.math->real_bytes;
        const char *Z = run.attention.Z->data;
        for (uint64_t a = 0; a < heads; a++)
            for (uint64_t b = 0; b < a; b++)
                check_true(&x->test, memcmp(Z + a * size, Z + b * size, size) != 0, "29: heads and batches differ");
    }
    attention_run_free(&run);
}

/* -------------------------------------------------------------------------------------------------------------------- rate */

static void check_rate(Context *x)
{
    static const double rates[] = {0, 0.001, 0.1, 0.3, 0.5, 0.9, 0.999};
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        const Dropout dropout = {.p = rates[i], .seed = 99};
        const double draws = 1 << 20, sigma = sqrt(rates[i] * (1 - rates[i]) / draws);
        uint64_t kept = 0;
        for (uint64_t k = 0; k < 1 << 20; k++) kept += dropout_keeps(&dropout, k >> 18, k >> 9 & 511, k & 511);
        char what[80];
        snprintf(what, sizeof what, "29: kept fraction at p = %g: %.6f, within 5 sigma of 1 - p", rates[i], (double)kept / draws);
        check_true(&x->test, fabs((double)kept / draws - (1 - rates[i])) <= 5 * sigma, what);
    }
}

static void check_refused(Context *x)
{
    static const struct {
        double p;
        const char *text;
    } refused[] = {{1, "dropout 1 is not allowed; expected 0 or more and less than 1"},
                   {-0.1, "dropout -0.1 is not allowed; expected 0 or more and less than 1"},
                   {1.5, "dropout 1.5 is not allowed; expected 0 or more and less than 1"},
                   {INFINITY, "dropout inf is not allowed; expected 0 or more and less than 1"},
                   {NAN, NULL}};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        for (int source = DROPOUT_SEED; source <= DROPOUT_GIVEN; source++) {
            Status status = {0};
            AttentionShape shape = attention_shape(4, 2);
            shape.dropout_source = (DropoutSource)source;
            shape.dropout.p = refused[i].p;
            check_true(&x->test, !attention_check(&shape, &status), "28: p outside [0, 1) is refused");
            check_u64(&x->test, status.code, STATUS_USAGE, "28: p outside [0, 1)");
            if (refused[i].text != NULL) check_text(&x->test, status.text, refused[i].text, "28: the message");
        }
    Status status = {0};
    AttentionShape shape = attention_shape(4, 2);
    shape.dropout_source = DROPOUT_SEED;
    shape.dropout.p = nextafter(1, 0);
    check_true(&x->test, attention_check(&shape, &status), "28: the largest p below 1 is allowed");
}

int main(void)
{
    Context x = {0};
    Status status = {0};
    if (profile_load("unbounded", &x.alloc, &x.chip, &status)) {
        check_tiles(&x);
        check_sources(&x, ELEMENT_F64);
        check_sources(&x, ELEMENT_F32);
        check_sources(&x, ELEMENT_BF16);
        check_shapes_and_orders(&x);
        check_nothing_dropped(&x, ELEMENT_F64);
        check_nothing_dropped(&x, ELEMENT_F32);
        check_nothing_dropped(&x, ELEMENT_BF16);
        check_dropped_row(&x);
        check_elsewhere(&x);
        check_heads_of_a_run(&x);
        check_rate(&x);
        check_refused(&x);
    }
    check_text(&x.test, status.text, "", "profile unbounded");
    check_u64(&x.test, x.alloc.live_bytes, 0, "bytes still allocated at the end");
    return test_end(&x.test, "dropout");
}
