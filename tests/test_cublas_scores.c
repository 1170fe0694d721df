/* test_cublas_scores.c - the order in which cuBLAS takes the tiles of Q K^T: names, small orders by hand, and against what was seen on an H200. */
/* label: unit, property */
#include "test.h"

#include "experiments/support/cublas_scores.h"
#include "support/csv_named.h"

#include <string.h>

typedef struct {
    Test test;
    Alloc alloc;
} Context;

static void check_names(Context *x)
{
    ScoreTiles t = {0};
    check_true(&x->test, cublas_score_tiles("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT", &t), "a product");
    check_u64(&x->test, t.tile.Bc, 256, "its keys");
    check_u64(&x->test, t.tile.Br, 128, "its queries");
    check_u64(&x->test, t.cluster.Bc, 1, "blocks along the keys");
    check_u64(&x->test, t.cluster.Br, 2, "blocks along the queries");
    check_true(&x->test, !t.down_columns, "h");
    check_true(&x->test, cublas_score_tiles("nvjet_sm90_tst_192x192_64x4_2x1_v_bz_coopB_TNN", &t) && t.down_columns, "v");
    static const char *const bad[] = {"", "sm80_xmma_gemm", "nvjet_sm90_tst_", "nvjet_sm90_tst_0x128_64x4_1x2_h_bz", "nvjet_sm90_tst_256x128_64x4_1x2_q_bz",
                                      "nvjet_sm90_tst_256x2048_64x4_1x2_h_bz", "nvjet_sm90_tst_256x128_64x4_1x99_h_bz", "nvjet_sm90_tst_256x128_64x4_1x2"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) check_true(&x->test, !cublas_score_tiles(bad[i], &t), bad[i]);
}

/* One head of 4 x 12 tiles of 256 x 128 in clusters of two rows: eleven columns down, then the twelfth up. */
static void check_by_hand(Context *x)
{
    const ScoreTiles t = {.tile = {128, 256}, .cluster = {2, 1}};
    AttentionShape shape = attention_shape(4 * 128, 64);
    Status status = {0};
    shape.seqlen_k = 12 * 256;
    uint64_t *order = cublas_score_order(&t, &shape, &x->alloc, &status);
    check_u64(&x->test, cublas_score_count(&t, &shape), 48, "tiles");
    for (uint64_t i = 0; i < 44; i++) check_u64(&x->test, order[i], 12 * (2 * (i / 22) + i % 2) + i % 22 / 2, "a tile of the first panel");
    for (uint64_t i = 0; i < 4; i++) check_u64(&x->test, order[44 + i], 12 * (2 * (1 - i / 2) + i % 2) + 11, "a tile of the second, from below");
    alloc_free(&x->alloc, order);
}

static void check_once_each(Context *x)
{
    static const char *const names[] = {"_tst_256x128_64x4_1x2_h", "_tst_320x128_64x3_1x2_h", "_tst_192x192_64x4_2x1_v", "_tst_64x64_64x4_2x4_v"};
    static const uint64_t lengths[][2] = {{1, 1}, {1000, 3000}, {4096, 4096}, {129, 5000}, {5120, 5120}};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++)
        for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
            ScoreTiles t = {0};
            Status status = {0};
            AttentionShape shape = attention_shape(lengths[l][0], 64);
            shape.seqlen_k = lengths[l][1];
            shape.heads = shape.kv_heads = 3;
            shape.batch = 2;
            cublas_score_tiles(names[n], &t);
            const uint64_t count = cublas_score_count(&t, &shape);
            uint64_t *order = cublas_score_order(&t, &shape, &x->alloc, &status), twice = 0;
            bool *seen = alloc_array(&x->alloc, count, sizeof *seen, "seen", &status);
            for (uint64_t i = 0; i < count; i++) {
                twice += order[i] >= count || seen[order[i]];
                if (order[i] < count) seen[order[i]] = true;
            }
            check_u64(&x->test, twice, 0, names[n]);
            alloc_free(&x->alloc, seen);
            alloc_free(&x->alloc, order);
        }
    const ScoreTiles t = {.tile = {128, 256}, .cluster = {2, 1}};
    AttentionShape shape = attention_shape(UINT32_MAX, 64);
    Status status = {0};
    check_true(&x->test, cublas_score_order(&t, &shape, &x->alloc, &status) == NULL && status.code == STATUS_INFEASIBLE, "too many tiles");
}

/* ------------------------------------------------------------------------------------------------ h200_tile_order.csv: one head of each */

enum { MOST_TILES = 64 * 64, WAVES = 2 * 132 };

/* Of the pairs of tiles that lie two waves or more apart in the order, how many were seen in that order. */
static double share_in_order(const uint64_t *order, const uint64_t *seen, uint64_t tiles)
{
    uint64_t right = 0, pairs = 0;
    for (uint64_t i = 0; i < tiles; i++)
        for (uint64_t k = i + WAVES; k < tiles; k++) {
            right += seen[order[i]] < seen[order[k]];
            pairs++;
        }
    return (double)right / (double)pairs;
}

static void check_group(Context *x, const char *tile, uint64_t seqlen, const uint64_t *seen, uint64_t tiles, Status *status)
{
    static const struct {
        const char *tile, *name;
    } names[] = {{"256x128", "_tst_256x128_64x4_1x2_h"}, {"320x128", "_tst_320x128_64x3_1x2_h"}, {"192x192", "_tst_192x192_64x4_2x1_v"}};
    ScoreTiles t = {0};
    const AttentionShape shape = attention_shape(seqlen, 128);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i].tile, tile) == 0) cublas_score_tiles(names[i].name, &t);
    check_u64(&x->test, tiles, cublas_score_count(&t, &shape), "tiles of a head in h200_tile_order.csv");
    uint64_t *order = cublas_score_order(&t, &shape, &x->alloc, status);
    if (order == NULL) return;
    const double share = share_in_order(order, seen, tiles);
    if (test_failed(&x->test, share > 0.95))
        printf("FAIL %s, N = %" PRIu64 ": %.3f of the pairs were seen in the model's order, more than 0.95 expected\n", tile, seqlen, share);
    ScoreTiles turned = t;
    turned.down_columns = !t.down_columns;
    uint64_t *other = cublas_score_order(&turned, &shape, &x->alloc, status);
    if (other != NULL) check_true(&x->test, 1 - share_in_order(other, seen, tiles) > 3 * (1 - share), "the other direction is not what was seen");
    alloc_free(&x->alloc, other);
    alloc_free(&x->alloc, order);
}

static void check_measured(Context *x)
{
    Status status = {0};
    CsvTable t;
    static uint64_t seen[MOST_TILES];
    uint64_t tiles = 0, groups = 0;
    measured_load(&t, NULL, "h200_tile_order", &x->alloc, &status);
    for (size_t row = 0; status_ok(&status) && row < t.row_count && tiles < MOST_TILES; row++) {
        const char *tile = named_text(&t, row, "tile", &status);
        const uint64_t seqlen = named_count(&t, row, "seqlen", &status);
        seen[tiles++] = named_count(&t, row, "nanoseconds", &status);
        const bool last = row + 1 == t.row_count || named_count(&t, row + 1, "seqlen", &status) != seqlen;
        if (!last) continue;
        check_group(x, tile, seqlen, seen, tiles, &status);
        tiles = 0;
        groups++;
    }
    check_text(&x->test, status.text, "", "h200_tile_order.csv");
    check_u64(&x->test, groups, 4, "heads that were watched");
    csv_free(&t);
}

int main(void)
{
    static Context x;
    check_names(&x);
    check_by_hand(&x);
    check_once_each(&x);
    check_measured(&x);
    check_u64(&x.test, x.alloc.live_bytes, 0, "bytes still allocated at the end");
    return test_end(&x.test, "cublas_scores");
}
