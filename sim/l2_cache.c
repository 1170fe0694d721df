/* l2_cache.c - see l2_cache.h. */
#include "l2_cache.h"

#include "checked.h"

#include <string.h>

/* ---------------------------------------------------------------------------------------------------------------- tiles */

bool l2_tiles_init(L2TileCache *cache, uint64_t count, uint64_t capacity, Alloc *alloc, Status *status)
{
    *cache = (L2TileCache){.alloc = alloc, .capacity = capacity};
    if (count >= UINT32_MAX)
        return status_fail(status, STATUS_INFEASIBLE, "the L2 cache follows at most %" PRIu32 " tiles, not %" PRIu64, UINT32_MAX - 1, count);
    cache->count = (uint32_t)count;
    cache->tiles = alloc_array(alloc, count + 1, sizeof *cache->tiles, "tiles of the L2 cache", status);
    if (cache->tiles == NULL) return false;
    cache->tiles[count].newer = cache->tiles[count].older = cache->count;
    return true;
}

void l2_tiles_free(L2TileCache *cache)
{
    if (cache->alloc != NULL) alloc_free(cache->alloc, cache->tiles);
    cache->tiles = NULL;
}

static void write_back(L2TileCache *cache, L2Tile *t)
{
    if (t->dirty) cache->traffic.written[t->owner] += t->bytes;
    t->dirty = false;
}

void l2_tiles_evict(L2TileCache *cache)
{
    L2Tile *const tiles = cache->tiles;
    while (cache->used > cache->capacity) {
        L2Tile *const t = &tiles[tiles[cache->count].newer];
        l2_tiles_unlink(tiles, t);
        write_back(cache, t);
        t->resident = false;
        cache->used -= t->bytes;
    }
}

uint64_t l2_tiles_dirty(const L2TileCache *cache)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < cache->count; i++) bytes += cache->tiles[i].dirty ? cache->tiles[i].bytes : 0;
    return bytes;
}

void l2_tiles_flush(L2TileCache *cache)
{
    for (uint32_t i = 0; i < cache->count; i++) write_back(cache, &cache->tiles[i]);
}

/* ---------------------------------------------------------------------------------------------------------------- lines */

enum { SECTORS = L2_LINE_BYTES / L2_SECTOR_BYTES, DIRTY_SHIFT = 4, OWNER_SHIFT = 8, LINE_SHIFT = 16, ALL_SECTORS = (1 << SECTORS) - 1 };

static const uint8_t sector_bytes[ALL_SECTORS + 1] = {0, 32, 32, 64, 32, 64, 64, 96, 32, 64, 64, 96, 64, 96, 96, 128};

bool l2_lines_init(L2LineCache *cache, uint64_t capacity, uint32_t ways, Alloc *alloc, Status *status)
{
    *cache = (L2LineCache){.alloc = alloc, .ways = ways};
    if (ways == 0) return status_fail(status, STATUS_USAGE, "a cache with 0 ways holds nothing; at least 1 is needed");
    cache->sets = max_u64(capacity / L2_LINE_BYTES / ways, 1);
    cache->entries = alloc_array(alloc, checked_mul(cache->sets, ways, "lines of the L2 cache", status), sizeof *cache->entries,
                                 "lines of the L2 cache", status);
    return cache->entries != NULL;
}

void l2_lines_free(L2LineCache *cache)
{
    if (cache->alloc != NULL) alloc_free(cache->alloc, cache->entries);
    cache->entries = NULL;
}

static void write_line_back(L2LineCache *cache, uint64_t entry)
{
    cache->traffic.written[entry >> OWNER_SHIFT & (L2_OWNERS - 1)] += sector_bytes[entry >> DIRTY_SHIFT & ALL_SECTORS];
}

/* The line's entry, first of its set; of the oldest line's place when it was not there. */
static uint64_t *find_line(L2LineCache *cache, uint64_t set, uint64_t line, uint8_t owner)
{
    uint64_t *const entries = &cache->entries[set * cache->ways];
    uint32_t way = 0;
    while (way < cache->ways - 1 && entries[way] >> LINE_SHIFT != line + 1) way++;
    uint64_t found = entries[way];
    if (found >> LINE_SHIFT != line + 1) {
        write_line_back(cache, found);
        found = (line + 1) << LINE_SHIFT | (uint64_t)owner << OWNER_SHIFT;
    }
    for (; way > 0; way--) entries[way] = entries[way - 1];
    entries[0] = found;
    return entries;
}

/* whole: sectors that the access covers, part: those of which it covers a part. */
static void access_line(L2LineCache *cache, uint64_t *entry, uint8_t owner, L2Access access, uint32_t whole, uint32_t part)
{
    const uint32_t valid = (uint32_t)(*entry & ALL_SECTORS), touched = whole | part;
    const uint32_t needed = access == L2_STORE ? part : touched, missing = needed & ~valid;
    cache->traffic.read[owner] += sector_bytes[missing];
    if (access == L2_STORE) {
        cache->traffic.read_for_ownership += sector_bytes[missing];
    } else {
        cache->traffic.hit += sector_bytes[needed & valid];
        cache->traffic.missed += sector_bytes[missing];
    }
    *entry |= touched;
    if (access != L2_LOAD) *entry |= (uint64_t)touched << DIRTY_SHIFT;
}

/* Sectors first to end - 1 of a line. */
static uint32_t sectors(uint64_t first, uint64_t end) { return first < end ? (uint32_t)((1u << end) - (1u << first)) : 0; }

void l2_lines_access(L2LineCache *cache, uint64_t address, uint64_t bytes, uint8_t owner, L2Access access)
{
    const uint64_t end = address + bytes;
    uint64_t set = address / L2_LINE_BYTES % cache->sets;
    for (uint64_t line = address / L2_LINE_BYTES; line * L2_LINE_BYTES < end; line++) {
        const uint64_t base = line * L2_LINE_BYTES, from = max_u64(address, base) - base, to = min_u64(end, base + L2_LINE_BYTES) - base;
        const uint32_t whole = sectors(ceil_div(from, L2_SECTOR_BYTES), to / L2_SECTOR_BYTES);
        const uint32_t touched = sectors(from / L2_SECTOR_BYTES, ceil_div(to, L2_SECTOR_BYTES));
        access_line(cache, find_line(cache, set, line, owner), owner, access, whole, touched & ~whole);
        if (++set == cache->sets) set = 0;
    }
}

uint64_t l2_lines_dirty(const L2LineCache *cache)
{
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < cache->sets * cache->ways; i++) bytes += sector_bytes[cache->entries[i] >> DIRTY_SHIFT & ALL_SECTORS];
    return bytes;
}

void l2_lines_flush(L2LineCache *cache)
{
    for (uint64_t i = 0; i < cache->sets * cache->ways; i++) {
        write_line_back(cache, cache->entries[i]);
        cache->entries[i] &= ~((uint64_t)ALL_SECTORS << DIRTY_SHIFT);
    }
}
