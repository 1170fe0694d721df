/* cublas_scores.c - see cublas_scores.h. */
#include "cublas_scores.h"

#include "sim/checked.h"
#include "sim/l2_launch.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------------------- kernel */

typedef struct {
    Attention *attention;
    Tensor *S;
} Scores;

static void scores_block(Block *b, const void *arguments, uint64_t i)
{
    const Scores *f = arguments;
    const Attention *a = f->attention;
    const uint32_t d = (uint32_t)a->shape.head_dim;
    const uint64_t across = key_blocks(a), row = i / across * a->Br, col = i % across * a->Bc;
    Stream *w = stream(b, "compute", b->kernel->threads / 32);
    Tile *q = shared_tile(b, "Q", a->shape.dtype, a->Br, d), *k = shared_tile(b, "K", a->shape.dtype, a->Bc, d);
    Tile *s = register_tile(b, "S", a->statistic, a->Br, a->Bc);

    load(w, q, a->Q, row);
    load(w, k, a->K, col);
    matmul_nt(w, s, q, k);
    store_part(w, f->S, row, col, s);
}

static bool scores_forward(Machine *machine, Attention *a)
{
    const AttentionShape *s = &a->shape;
    const Scores f = {a, machine_tensor(machine, "S", s->dtype, s->batch, s->heads, s->seqlen_q, s->seqlen_k)};
    const Kernel kernel = attention_kernel(&algorithm_cublas_scores, "cublas_scores", a, scores_block);
    return launch(machine, &kernel, (Grid){query_blocks(a) * key_blocks(a), s->heads, s->batch}, &f);
}

static TileSize scores_tiles(const AttentionShape *s)
{
    (void)s;
    return (TileSize){128, 256};
}

static Geometry scores_geometry(const AttentionShape *s, TileSize tiles)
{
    (void)s;
    return (Geometry){.threads = 384, .registers_per_thread = 168, .shape = {64, tiles.Bc}};
}

const Algorithm algorithm_cublas_scores = {
    .name = "cublas_scores",
    .title = "Q K^T, a tile of S per thread block",
    .source = "cuBLAS 13 on an H200",
    .instruction = TENSOR_WGMMA,
    .tiles = scores_tiles,
    .geometry = scores_geometry,
    .forward = scores_forward,
};

/* -------------------------------------------------------------------------------------------------------------------- order */

/* Clusters side by side in a panel, as watched: a launch runs 66 at a time. Of others nothing is known. */
static const struct {
    uint32_t keys, queries, panel;
} panels[] = {{256, 128, 11}, {320, 128, 13}, {192, 192, 8}};

enum { OTHER_PANEL = 8, LARGEST_TILE = 1024, LARGEST_CLUSTER = 16 };

static uint64_t panel_of(const ScoreTiles *t)
{
    for (size_t i = 0; i < sizeof panels / sizeof panels[0]; i++)
        if (panels[i].keys == t->tile.Bc && panels[i].queries == t->tile.Br) return panels[i].panel;
    return OTHER_PANEL;
}

/* Both numbers of "AxB_", from 1 to `largest`; *at is behind it then. */
static bool read_pair(const char **at, uint32_t largest, uint32_t *a, uint32_t *b)
{
    int length = 0;
    if (sscanf(*at, "%4" SCNu32 "x%4" SCNu32 "_%n", a, b, &length) != 2 || length == 0) return false;
    *at += length;
    return *a > 0 && *b > 0 && *a <= largest && *b <= largest;
}

bool cublas_score_tiles(const char *launch, ScoreTiles *tiles)
{
    static const char prefix[] = "_tst_";
    TileSize step;
    const char *at = strstr(launch, prefix);
    if (at == NULL) return false;
    at += sizeof prefix - 1;
    if (!read_pair(&at, LARGEST_TILE, &tiles->tile.Bc, &tiles->tile.Br) || !read_pair(&at, LARGEST_TILE, &step.Br, &step.Bc) ||
        !read_pair(&at, LARGEST_CLUSTER, &tiles->cluster.Bc, &tiles->cluster.Br))
        return false;
    tiles->down_columns = *at == 'v';
    return *at == 'v' || *at == 'h';
}

static uint64_t across(const ScoreTiles *t, const AttentionShape *s) { return ceil_div(s->seqlen_k, t->tile.Bc); }
static uint64_t down(const ScoreTiles *t, const AttentionShape *s) { return ceil_div(s->seqlen_q, t->tile.Br); }

uint64_t cublas_score_count(const ScoreTiles *tiles, const AttentionShape *shape)
{
    return shape->batch * shape->heads * across(tiles, shape) * down(tiles, shape);
}

/* Where the n-th cluster of a head is, in clusters. All panels but the last are full. */
static TileSize nth_cluster(const ScoreTiles *t, uint64_t n, uint64_t rows, uint64_t cols)
{
    const uint64_t sides = t->down_columns ? rows : cols, steps = t->down_columns ? cols : rows, width = panel_of(t);
    const uint64_t panel = n / (width * steps), within = n % (width * steps), wide = min_u64(width, sides - panel * width);
    const uint32_t side = (uint32_t)(panel * width + within % wide), step = (uint32_t)(panel % 2 == 0 ? within / wide : steps - 1 - within / wide);
    return t->down_columns ? (TileSize){side, step} : (TileSize){step, side};
}

static uint64_t *order_head(const ScoreTiles *t, uint64_t first, uint64_t rows, uint64_t cols, uint64_t *next)
{
    const uint64_t high = ceil_div(rows, t->cluster.Br), wide = ceil_div(cols, t->cluster.Bc);
    for (uint64_t n = 0; n < high * wide; n++) {
        const TileSize at = nth_cluster(t, n, high, wide);
        const uint64_t row = (uint64_t)at.Br * t->cluster.Br, col = (uint64_t)at.Bc * t->cluster.Bc;
        for (uint64_t y = row; y < min_u64(rows, row + t->cluster.Br); y++)
            for (uint64_t x = col; x < min_u64(cols, col + t->cluster.Bc); x++) *next++ = first + y * cols + x;
    }
    return next;
}

uint64_t *cublas_score_order(const ScoreTiles *t, const AttentionShape *s, Alloc *alloc, Status *status)
{
    static const char what[] = "tiles of S";
    const uint64_t rows = down(t, s), cols = across(t, s), heads = checked_mul(s->batch, s->heads, what, status);
    const uint64_t count = checked_mul(heads, checked_mul(rows, cols, what, status), what, status);
    if (!status_ok(status)) return NULL;
    if (count > L2_MOST_ACCESSES / 3) {
        status_fail(status, STATUS_INFEASIBLE, "%" PRIu64 " tiles of S are too many for the simulated L2", count);
        return NULL;
    }
    uint64_t *const order = alloc_array(alloc, count, sizeof *order, what, status);
    uint64_t *next = order;
    for (uint64_t head = 0; order != NULL && head < heads; head++) next = order_head(t, head * rows * cols, rows, cols, next);
    return order;
}
