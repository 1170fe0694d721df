/* l2_chip.h - an L2 cache as a real chip's counters show it: partitions that hold copies for each other, and ages that are known only roughly.
 *
 * Tiles are cut into chunks of L2_CHUNK_BYTES; smaller tiles share a chunk, of which only those are valid that were loaded or stored. A chunk lies
 * in one set of each partition, numbered along the tensors, so that what is contiguous fills the sets evenly.
 *
 *     partitions   Each chunk has its home in one of them. An SM looks in its own; what it does not find there comes through the home and
 *                  leaves a copy, and what it stores goes home and leaves a copy as well. HBM is read when the home lacks it too, and written
 *                  when a dirty chunk leaves its home. Source: an H200 reads again what all SMs sweep when it is larger than half of L2, and
 *                  what one SM sweeps when it is larger than two thirds, whether loads or stores came between.
 *     write-back   When more than half of a set is dirty, the L2_CLEANED of it that were not used for longest are written back, and stay. Source:
 *                  of any number of stores 29.5 MB of 63 stay dirty; 36 MB that were stored, and 9.6 of them written back, are all
 *                  found again.
 *     replacement  A set counts its fills. A chunk's age is how many there were since it was last used, known in steps of L2_AGE_STEP, about
 *                  a third of the ways: two bits. Of the oldest class one that is not dirty goes, if there is any, a random one of several. Source: the
 *                  loads of attention with the first keys first, where LRU reads everything once and so does the chip, and with the last keys
 *                  first, where LRU does and the chip reads up to four times as much: steps of 5 to 8 give both, 1 would be LRU. Loads and stores
 *                  of buffers come out best with 6, and with clean ones first.
 *
 * Measurements: hw_profiles/measured/h200_l2.csv, h200_l2_replay.csv and h200_l2_stores.csv, held against this by tests/test_l2_chip.c. The number of
 * ways is assumed. What it misses: what the chip writes back while HBM idles, up to 4 MB of a launch of attention; SMs that lose step in a
 * sweep and read from HBM more than once; many heads whose K and V are together just too large (`sections` in s4_5_scheduling: a third too low,
 * where LRU is within 12 %). Lecture §2.4.
 */
#ifndef ATTNLAB_L2_CHIP_H
#define ATTNLAB_L2_CHIP_H

#include "l2_cache.h"

enum { L2_CHUNK_BYTES = 4096, L2_AGE_STEP = 6, L2_DIRTY_WAYS = L2_WAYS / 2, L2_CLEANED = 2, L2_MOST_PARTITIONS = 16 };

typedef struct {
    uint32_t bytes;
    uint32_t dirty_bytes;           /* at home */
    uint32_t generation;            /* how often it came home, */
    uint32_t writing;               /* and was written back, from 1 on */
    uint32_t set;                   /* in every partition */
    uint8_t owner, home;
} L2Chunk;

/* A tile that shares a chunk: valid if it has the chunk's generation, dirty if it also has its writing. */
typedef struct {
    uint32_t generation, writing;
} L2Part;

typedef struct {
    Alloc *alloc;
    L2Chunk *chunks;                /* [chunk_count] */
    uint8_t *ways;                  /* [chunk_count][partitions]: where it is in its set, from 1; 0: not there */
    L2Part *parts;                  /* [part_count] */
    uint32_t *entries, *last_used;  /* [partitions][sets][L2_WAYS]: chunk + 1; the set's fills when it was last used */
    uint32_t *fills;                /* [partitions][sets] */
    uint32_t *dirty_ways;           /* [partitions][sets]: a bit for each way whose chunk is dirty, at home */
    uint32_t chunk_count, part_count, partitions, sets;
    uint64_t random;
    L2Traffic traffic;
} L2Chip;

/* `capacity` bytes in all partitions together, at least one set in each. chunk_count chunks of 0 bytes and part_count tiles that share chunks,
 * nothing resident. STATUS_INFEASIBLE for 2^32 - 1 chunks or more, STATUS_IO without memory. */
bool l2_chip_init(L2Chip *chip, uint64_t chunk_count, uint64_t part_count, uint64_t capacity, uint64_t partitions, Alloc *alloc, Status *status);
void l2_chip_free(L2Chip *chip);
/* What a partition holds. */
uint64_t l2_chip_partition_bytes(const L2Chip *chip);
/* Before its first access. */
void l2_chip_define(L2Chip *chip, uint32_t chunk, uint32_t bytes, uint8_t owner);
/* A whole chunk, by an SM next to `partition`. */
void l2_chip_access(L2Chip *chip, uint32_t chunk, uint32_t partition, L2Access access);
/* `bytes` of a chunk, always the same ones by this number of a part. */
void l2_chip_access_part(L2Chip *chip, uint32_t chunk, uint32_t part, uint32_t bytes, uint32_t partition, L2Access access);
/* A store of a whole chunk before the first access: it is older than anything that follows. */
void l2_chip_store_before(L2Chip *chip, uint32_t chunk);
/* Adds, by owner, the bytes that were written and not written back. */
void l2_chip_dirty(const L2Chip *chip, uint64_t bytes[L2_OWNERS]);

#endif
