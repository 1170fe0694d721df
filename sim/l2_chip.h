/* l2_chip.h - an L2 cache as a real chip's counters show it: partitions that hold copies for each other, and ages that are known only roughly.
 *
 * Tiles are cut into chunks of L2_CHUNK_BYTES; smaller tiles share a chunk, of which only those are valid that were loaded or stored. A chunk lies
 * in one set of each partition, numbered along the tensors, so that what is contiguous fills the sets evenly.
 *
 *     partitions   Each chunk has its home in one of them. An SM looks in its own; what it does not find there comes through the home and
 *                  leaves a copy. HBM is read when the home lacks it too, and written when a dirty chunk leaves its home. What is stored
 *                  goes home and leaves a copy in every other partition. Source: an H200 reads again what all SMs sweep when it is larger than
 *                  half of L2, what one SM sweeps when it is larger than two thirds, and holds at most half of L2 dirty.
 *     replacement  A set counts its fills. A chunk's age is how many there were since it was last used, known in steps of L2_AGE_STEP, a third
 *                  of the ways: two bits. Of the oldest class a random one goes. Steps of 1 are LRU. Source: the loads of attention with the
 *                  first keys first, where LRU reads everything once and so does the chip, and with the last keys first, where LRU does and the
 *                  chip reads up to four times as much. Steps of 5 to 8 give both; the sweeps are best at 5.
 *
 * Measurements: hw_profiles/measured/h200_l2.csv and h200_l2_replay.csv, held against this by tests/test_l2_chip.c. The number of ways is
 * assumed; 32 with steps of 12 do the same. What it misses: data of single SMs, of which the chip holds some 10 % more; SMs that lose step in a
 * sweep and read from HBM more than once; many heads whose K and V are together just too large (`sections` in s4_5_scheduling: a third too low, where
 * LRU is within 12 %). Lecture §2.4.
 */
#ifndef ATTNLAB_L2_CHIP_H
#define ATTNLAB_L2_CHIP_H

#include "l2_cache.h"

enum { L2_CHUNK_BYTES = 4096, L2_AGE_STEP = 5, L2_MOST_PARTITIONS = 16 };

typedef struct {
    uint32_t bytes;
    uint32_t dirty_bytes;           /* at home */
    uint32_t generation;            /* how often it came home: a tile that shares it is valid if its stamp says the same */
    uint32_t set;                   /* in every partition */
    uint8_t owner, home;
} L2Chunk;

typedef struct {
    Alloc *alloc;
    L2Chunk *chunks;                /* [chunk_count] */
    uint8_t *ways;                  /* [chunk_count][partitions]: where it is in its set, from 1; 0: not there */
    uint64_t *stamps;               /* [part_count]: 2 * generation + dirty, of tiles that share a chunk */
    uint32_t *entries, *last_used;  /* [partitions][sets][L2_WAYS]: chunk + 1; the set's fills when it was last used */
    uint32_t *fills;                /* [partitions][sets] */
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
/* Adds, by owner, the bytes that were written and not written back. */
void l2_chip_dirty(const L2Chip *chip, uint64_t bytes[L2_OWNERS]);

#endif
