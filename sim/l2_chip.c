/* l2_chip.c - see l2_chip.h. */
#include "l2_chip.h"

#include "checked.h"

bool l2_chip_init(L2Chip *chip, uint64_t chunk_count, uint64_t part_count, uint64_t capacity, uint64_t partitions, Alloc *alloc, Status *status)
{
    const char *what = "chunks of the L2 cache";
    *chip = (L2Chip){.alloc = alloc, .random = 1};
    if (max_u64(chunk_count, part_count) >= UINT32_MAX)
        return status_fail(status, STATUS_INFEASIBLE, "the L2 cache follows at most %" PRIu32 " chunks, not %" PRIu64, UINT32_MAX - 1,
                           max_u64(chunk_count, part_count));
    chip->chunk_count = (uint32_t)chunk_count;
    chip->part_count = (uint32_t)part_count;
    chip->partitions = (uint32_t)partitions;
    /* A set for every chunk is as good as any larger number. */
    chip->sets = (uint32_t)max_u64(min_u64(capacity / partitions / (L2_CHUNK_BYTES * L2_WAYS), chunk_count), 1);
    const uint64_t sets = partitions * chip->sets;
    chip->chunks = alloc_array(alloc, chunk_count, sizeof *chip->chunks, what, status);
    chip->ways = alloc_array(alloc, checked_mul(chunk_count, partitions, what, status), sizeof *chip->ways, what, status);
    chip->parts = alloc_array(alloc, part_count, sizeof *chip->parts, what, status);
    chip->entries = alloc_array(alloc, sets * L2_WAYS, sizeof *chip->entries, what, status);
    chip->last_used = alloc_array(alloc, sets * L2_WAYS, sizeof *chip->last_used, what, status);
    chip->fills = alloc_array(alloc, sets, sizeof *chip->fills, what, status);
    chip->dirty_ways = alloc_array(alloc, sets, sizeof *chip->dirty_ways, what, status);
    return status_ok(status);
}

void l2_chip_free(L2Chip *chip)
{
    if (chip->alloc == NULL) return;
    alloc_free(chip->alloc, chip->chunks);
    alloc_free(chip->alloc, chip->ways);
    alloc_free(chip->alloc, chip->parts);
    alloc_free(chip->alloc, chip->entries);
    alloc_free(chip->alloc, chip->last_used);
    alloc_free(chip->alloc, chip->fills);
    alloc_free(chip->alloc, chip->dirty_ways);
    *chip = (L2Chip){0};
}

uint64_t l2_chip_partition_bytes(const L2Chip *chip) { return (uint64_t)chip->sets * L2_WAYS * L2_CHUNK_BYTES; }

/* Steele, Lea, Flood 2014: the finaliser of SplitMix. */
static uint64_t hash_of(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* Chunks one after another fill the sets evenly, but not in step with anything else: each round begins at another set. */
void l2_chip_define(L2Chip *chip, uint32_t chunk, uint32_t bytes, uint8_t owner)
{
    const uint64_t round = chunk / chip->sets;
    chip->chunks[chunk] = (L2Chunk){.bytes = bytes, .owner = owner, .home = (uint8_t)(hash_of(chunk) % chip->partitions),
                                    .set = (uint32_t)((chunk + hash_of(round)) % chip->sets), .writing = 1};
}

/* Xorshift (Marsaglia 2003). */
static uint32_t draw(L2Chip *chip, uint32_t limit)
{
    chip->random ^= chip->random << 13;
    chip->random ^= chip->random >> 7;
    chip->random ^= chip->random << 17;
    return (uint32_t)((chip->random >> 32) % limit);
}

static uint32_t bits(uint32_t mask)
{
    uint32_t count = 0;
    for (; mask != 0; mask &= mask - 1) count++;
    return count;
}

/* The way of a full set that is given up. */
static uint32_t victim(L2Chip *chip, uint64_t set)
{
    const uint32_t *const last_used = &chip->last_used[set * L2_WAYS], fills = chip->fills[set], dirty = chip->dirty_ways[set];
    uint32_t first = 0, alike = 0, way = 0;
    for (uint32_t w = 0; w < L2_WAYS; w++) {
        const uint32_t rank = 2 * ((fills - last_used[w]) / L2_AGE_STEP) + (~dirty >> w & 1);
        if (alike > 0 && rank < first) continue;
        alike = rank > first || alike == 0 ? 1 : alike + 1;
        first = rank;
        if (alike == 1 || draw(chip, alike) == 0) way = w;
    }
    return way;
}

/* Where a chunk is in a partition: its set, and its way there. */
static uint64_t set_in(const L2Chip *chip, uint32_t chunk, uint32_t partition) { return (uint64_t)partition * chip->sets + chip->chunks[chunk].set; }
static uint8_t *way_in(const L2Chip *chip, uint32_t chunk, uint32_t partition) { return &chip->ways[(uint64_t)chunk * chip->partitions + partition]; }

static uint64_t set_at_home(const L2Chip *chip, uint32_t chunk) { return set_in(chip, chunk, chip->chunks[chunk].home); }
static uint32_t way_at_home(const L2Chip *chip, uint32_t chunk) { return *way_in(chip, chunk, chip->chunks[chunk].home) - 1u; }

static void write_back(L2Chip *chip, uint32_t chunk)
{
    L2Chunk *c = &chip->chunks[chunk];
    if (c->dirty_bytes == 0) return;
    chip->traffic.written[c->owner] += c->dirty_bytes;
    c->dirty_bytes = 0;
    c->writing++;
    chip->dirty_ways[set_at_home(chip, chunk)] &= ~(UINT32_C(1) << way_at_home(chip, chunk));
}

static void leave(L2Chip *chip, uint32_t chunk, uint32_t partition)
{
    if (chip->chunks[chunk].home == partition) write_back(chip, chunk);
    *way_in(chip, chunk, partition) = 0;
}

/* Takes a chunk into a set of which it is no part. */
static void fill(L2Chip *chip, uint32_t chunk, uint32_t partition, uint64_t set)
{
    uint32_t *const last_used = &chip->last_used[set * L2_WAYS];
    uint32_t way = chip->fills[set];                        /* they are taken in order, and never free again */
    if (way >= L2_WAYS) {
        way = victim(chip, set);
        leave(chip, chip->entries[set * L2_WAYS + way] - 1, partition);
    }
    chip->entries[set * L2_WAYS + way] = chunk + 1;
    last_used[way] = ++chip->fills[set];
    *way_in(chip, chunk, partition) = (uint8_t)(way + 1);
}

/* Uses a chunk in a partition; false if it was not there. It is now. */
static inline bool use(L2Chip *chip, uint32_t chunk, uint32_t partition)
{
    const uint32_t way = *way_in(chip, chunk, partition);
    const uint64_t set = set_in(chip, chunk, partition);
    if (way > 0) {
        chip->last_used[set * L2_WAYS + way - 1] = chip->fills[set];
        return true;
    }
    fill(chip, chunk, partition, set);
    return false;
}

/* Brings a chunk home; false if it was not there. */
static bool use_at_home(L2Chip *chip, uint32_t chunk)
{
    L2Chunk *c = &chip->chunks[chunk];
    if (use(chip, chunk, c->home)) return true;
    c->generation++;
    return false;
}

static void count_demand(L2Chip *chip, const L2Chunk *c, uint32_t bytes, bool hit)
{
    if (hit) {
        chip->traffic.hit += bytes;
        return;
    }
    chip->traffic.missed += bytes;
    chip->traffic.read[c->owner] += bytes;
}

/* Of the dirty chunks of a set, the one that was not used for longest. */
static uint32_t oldest_dirty(const L2Chip *chip, uint64_t set)
{
    const uint32_t *const last_used = &chip->last_used[set * L2_WAYS], fills = chip->fills[set], dirty = chip->dirty_ways[set];
    uint32_t oldest = 0, age = 0;
    for (uint32_t w = 0; w < L2_WAYS; w++) {
        if ((dirty >> w & 1) == 0 || fills - last_used[w] < age) continue;
        oldest = w;
        age = fills - last_used[w];
    }
    return chip->entries[set * L2_WAYS + oldest] - 1;
}

static void make_dirty(L2Chip *chip, uint32_t chunk, uint32_t bytes)
{
    L2Chunk *c = &chip->chunks[chunk];
    const uint64_t set = set_at_home(chip, chunk);
    const bool was_clean = c->dirty_bytes == 0;
    c->dirty_bytes = bytes;
    if (!was_clean) return;
    chip->dirty_ways[set] |= UINT32_C(1) << way_at_home(chip, chunk);
    if (bits(chip->dirty_ways[set]) <= L2_DIRTY_WAYS) return;
    for (int i = 0; i < L2_CLEANED; i++) write_back(chip, oldest_dirty(chip, set));
}

void l2_chip_access(L2Chip *chip, uint32_t chunk, uint32_t partition, L2Access access)
{
    L2Chunk *c = &chip->chunks[chunk];
    if (c->bytes == 0) return;                      /* a tile at the edge of its tensor has fewer */
    if (access == L2_LOAD) {
        const bool copied = partition != c->home && use(chip, chunk, partition);
        count_demand(chip, c, c->bytes, copied || use_at_home(chip, chunk));
        return;
    }
    const bool there = use_at_home(chip, chunk);
    if (access == L2_ADD) count_demand(chip, c, c->bytes, there);
    if (partition != c->home) use(chip, chunk, partition);
    make_dirty(chip, chunk, c->bytes);
}

/* Small things: copies are not told apart, so all go home. */
void l2_chip_access_part(L2Chip *chip, uint32_t chunk, uint32_t part, uint32_t bytes, uint32_t partition, L2Access access)
{
    L2Chunk *c = &chip->chunks[chunk];
    L2Part *const p = &chip->parts[part];
    use_at_home(chip, chunk);
    if (partition != c->home) use(chip, chunk, partition);
    const bool there = p->generation == c->generation, dirty = there && p->writing == c->writing;
    if (access != L2_STORE) count_demand(chip, c, bytes, there);
    *p = (L2Part){c->generation, dirty || access != L2_LOAD ? c->writing : 0};
    if (access != L2_LOAD && !dirty) make_dirty(chip, chunk, c->dirty_bytes + bytes);
}

void l2_chip_store_before(L2Chip *chip, uint32_t chunk)
{
    l2_chip_access(chip, chunk, chip->chunks[chunk].home, L2_STORE);
    chip->last_used[set_at_home(chip, chunk) * L2_WAYS + way_at_home(chip, chunk)] -= L2_WAYS;
}

void l2_chip_dirty(const L2Chip *chip, uint64_t bytes[L2_OWNERS])
{
    for (uint32_t i = 0; i < chip->chunk_count; i++) bytes[chip->chunks[i].owner] += chip->chunks[i].dirty_bytes;
}
