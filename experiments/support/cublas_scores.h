/* cublas_scores.h - S = Q K^T as cuBLAS's kernels do it on an H200: a thread block takes one tile of S after another, in panels.
 *
 * In their names, nvjet_sm90_tst_256x128_64x4_1x2_h_..., stand the keys and queries of a tile of S (column-major, so keys come first), the depth
 * of a step and the stages, the thread blocks of a cluster along keys and queries, and the direction in which tiles follow each other. They
 * go through a head panel by panel: h, a panel is so many clusters of keys wide, and its rows follow each other; v, it is so many queries
 * high, and its columns follow each other. Every second panel is walked backwards. Watched tile by tile on the chip: hw_profiles/measured/h200_tile_order.csv.
 */
#ifndef ATTNLAB_CUBLAS_SCORES_H
#define ATTNLAB_CUBLAS_SCORES_H

#include "algos/algorithm.h"

typedef struct {
    TileSize tile;                      /* Br queries x Bc keys */
    TileSize cluster;                   /* thread blocks along queries and along keys */
    bool down_columns;                  /* v: panels of queries; else h: of keys */
} ScoreTiles;

/* False for a name without them. */
bool cublas_score_tiles(const char *launch, ScoreTiles *tiles);

/* Thread blocks of all heads. */
uint64_t cublas_score_count(const ScoreTiles *tiles, const AttentionShape *shape);

/* The order in which they begin, for L2Order. Block i of a head has row i / across of its tiles and column i % across. NULL without memory (STATUS_IO);
 * alloc_free() when done. */
uint64_t *cublas_score_order(const ScoreTiles *tiles, const AttentionShape *shape, Alloc *alloc, Status *status);

/* One thread block a tile of S: Q_i, K_j in, S_ij out. */
extern const Algorithm algorithm_cublas_scores;

#endif
