/* l2_cache.h - a cache between HBM and the SMs: what misses, what is written back and when.
 *
 * Both engines here are write-back caches with least-recently-used replacement (LRU); l2_chip.h is nearer to a real chip.
 *
 *     L2TileCache   its lines are tiles: ranges of a tensor that are always moved as a whole, of any size. Fully associative; a hash table
 *                   or a search is not needed, because every tile of a launch has a number. An access takes some nanoseconds.
 *     L2LineCache   its lines are 128 bytes in four sectors of 32, in sets of `ways` lines (set = line modulo sets). A load reads the sectors that
 *                   are not there. A store needs nothing from HBM where it covers whole sectors; a sector of which it writes only a part is
 *                   read first (read for ownership). What is written back are the dirty sectors of the line that leaves.
 *
 * The first is what l2_launch.h uses, the second the cross-check (tests/test_l2_launch.c). They differ by conflicts in sets and by sectors that a tile
 * does not fill.
 *
 * How near is that to a chip? LRU has a cliff: data that are swept again and again hit always if they fit and never if they are a
 * little too large. A real L2 hashes addresses to sets and slices, is built from two partitions that both keep what SMs of both read
 * (Profile::l2_partitions: so shared data have half of the capacity), and its replacement is not published; l2_chip.h says what measurements
 * show of it. So expect LRU right well below and well above the cliff, and not on it. Lecture §2.4; DESIGN: README.md, "The L2 cache".
 */
#ifndef ATTNLAB_L2_CACHE_H
#define ATTNLAB_L2_CACHE_H

#include "alloc.h"
#include "status.h"

#include <stdbool.h>
#include <stdint.h>

/* L2_REGISTERS owns what threads spill, L2_EARLIER what was dirty before a launch; smaller numbers are tensors. */
enum { L2_OWNERS = 64, L2_REGISTERS = 32, L2_EARLIER = 33, L2_LINE_BYTES = 128, L2_SECTOR_BYTES = 32, L2_WAYS = 16 };

/* Adding at L2 needs the old value there, and leaves a new one. */
typedef enum { L2_LOAD, L2_STORE, L2_ADD } L2Access;

/* Bytes, by owner: a tensor, say. */
typedef struct {
    uint64_t read[L2_OWNERS];       /* from HBM */
    uint64_t written[L2_OWNERS];    /* to HBM */
    uint64_t hit, missed;           /* of what the SMs asked for, loads and additions */
    uint64_t read_for_ownership;    /* part of `read`: sectors that a store covered in part */
} L2Traffic;

/* Of the first `owners`: L2_REGISTERS for the tensors, L2_OWNERS for all. */
static inline uint64_t l2_sum(const uint64_t bytes[L2_OWNERS], int owners)
{
    uint64_t sum = 0;
    for (int i = 0; i < owners; i++) sum += bytes[i];
    return sum;
}

/* ---------------------------------------------------------------------------------------------------------------- tiles */

typedef struct {
    uint32_t newer, older;          /* neighbours in the order of use */
    uint32_t bytes;
    uint8_t owner;
    bool resident, dirty;
} L2Tile;

typedef struct {
    Alloc *alloc;
    L2Tile *tiles;                  /* [count + 1]; the last one is the ring's anchor: its `older` was used last, its `newer` first */
    uint32_t count;
    uint64_t capacity, used;        /* bytes */
    L2Traffic traffic;
} L2TileCache;

/* count tiles, none resident, 0 bytes each until they are given a size. STATUS_INFEASIBLE for 2^32 - 1 or more, STATUS_IO without memory. */
bool l2_tiles_init(L2TileCache *cache, uint64_t count, uint64_t capacity, Alloc *alloc, Status *status);
void l2_tiles_free(L2TileCache *cache);
/* Before its first access. */
static inline void l2_tiles_define(L2TileCache *cache, uint32_t tile, uint32_t bytes, uint8_t owner)
{
    cache->tiles[tile].bytes = bytes;
    cache->tiles[tile].owner = owner;
}
/* A tile larger than the cache passes through. */
static inline void l2_tiles_access(L2TileCache *cache, uint32_t tile, L2Access access);
/* Bytes that were written and not written back. */
uint64_t l2_tiles_dirty(const L2TileCache *cache);
/* Writes them back; everything stays resident. */
void l2_tiles_flush(L2TileCache *cache);

/* ---------------------------------------------------------------------------------------------------------------- lines */

typedef struct {
    Alloc *alloc;
    uint64_t *entries;              /* [sets][ways], last used first: (line + 1) << 16 | owner << 8 | dirty sectors << 4 | valid sectors; 0: none */
    uint64_t sets;
    uint32_t ways;
    L2Traffic traffic;
} L2LineCache;

/* Sets: capacity / (128 * ways), at least 1. STATUS_USAGE for 0 ways. */
bool l2_lines_init(L2LineCache *cache, uint64_t capacity, uint32_t ways, Alloc *alloc, Status *status);
void l2_lines_free(L2LineCache *cache);
/* bytes [address, address + bytes); addresses below 2^53. */
void l2_lines_access(L2LineCache *cache, uint64_t address, uint64_t bytes, uint8_t owner, L2Access access);
uint64_t l2_lines_dirty(const L2LineCache *cache);
void l2_lines_flush(L2LineCache *cache);

/* ------------------------------------------------------------------------------------------------ the common case, inline */

/* Makes room: the tiles that were not used for longest go. */
void l2_tiles_evict(L2TileCache *cache);

static inline void l2_tiles_unlink(L2Tile *tiles, const L2Tile *t)
{
    tiles[t->newer].older = t->older;
    tiles[t->older].newer = t->newer;
}

static inline void l2_tiles_access(L2TileCache *cache, uint32_t tile, L2Access access)
{
    L2Tile *const tiles = cache->tiles, *const t = &tiles[tile], *const anchor = &tiles[cache->count];
    if (t->resident) {
        if (access != L2_STORE) cache->traffic.hit += t->bytes;
        l2_tiles_unlink(tiles, t);
    } else {
        if (access != L2_STORE) {
            cache->traffic.missed += t->bytes;
            cache->traffic.read[t->owner] += t->bytes;
        }
        cache->used += t->bytes;
        t->resident = true;
    }
    if (access != L2_LOAD) t->dirty = true;
    t->newer = cache->count;
    t->older = anchor->older;
    tiles[anchor->older].newer = tile;
    anchor->older = tile;
    if (cache->used > cache->capacity) l2_tiles_evict(cache);
}

#endif
