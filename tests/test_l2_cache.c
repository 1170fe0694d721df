/* test_l2_cache.c - both caches on traces that can be followed by hand, and against each other.
 *
 * With one set the line cache is fully associative; on whole lines it must then do what the tile cache does with tiles of 128 bytes: two
 * implementations that share nothing.
 */
/* label: unit, property */
#include "test.h"

#include "sim/checked.h"
#include "sim/l2_cache.h"
#include "support/count_case.h"

typedef struct {
    Test test;
    Alloc alloc;
} Context;

static uint64_t sum(const uint64_t bytes[L2_OWNERS]) { return l2_sum(bytes, L2_OWNERS); }

/* ---------------------------------------------------------------------------------------------------------------- tiles */

/* R a: load tile a, W a: store it, A a: add to it. Bytes of tiles a, b, c, d; expected bytes, written before the end and dirty then. */
typedef struct {
    const char *name, *trace;
    uint64_t capacity;
    uint32_t bytes[4];
    uint64_t read, written, dirty, hit, missed;
} TileCase;

static const TileCase tile_cases[] = {
    {"nothing", "", 4, {1, 1, 1, 1}, 0, 0, 0, 0, 0},
    {"the one used longest ago goes", "Ra Rb Rc Ra Rd Rb", 3, {1, 1, 1, 1}, 5, 0, 0, 1, 5},
    {"a sweep that fits", "Ra Rb Rc Ra Rb Rc", 3, {1, 1, 1, 1}, 3, 0, 0, 3, 3},
    {"a sweep one tile too long never hits", "Ra Rb Rc Ra Rb Rc", 2, {1, 1, 1, 1}, 6, 0, 0, 0, 6},
    {"a clean tile leaves silently", "Ra Rb Rc", 2, {1, 1, 1, 1}, 3, 0, 0, 0, 3},
    {"a dirty tile is written back", "Wa Rb Rc", 2, {1, 1, 1, 1}, 2, 1, 0, 0, 2},
    {"once, however often it was stored", "Wa Wa Wa Rb Rc", 2, {1, 1, 1, 1}, 2, 1, 0, 0, 2},
    {"a tile that was written back is clean", "Wa Rb Rc Ra Rb Rc", 2, {1, 1, 1, 1}, 5, 1, 0, 0, 5},
    {"a store reads nothing", "Wa", 2, {1, 1, 1, 1}, 0, 0, 1, 0, 0},
    {"what was stored need not be read", "Wa Ra", 2, {1, 1, 1, 1}, 0, 0, 1, 1, 0},
    {"an addition reads the old value", "Aa", 2, {1, 1, 1, 1}, 1, 0, 1, 0, 1},
    {"unless it is there", "Wa Aa Aa", 2, {1, 1, 1, 1}, 0, 0, 1, 2, 0},
    {"a store is a use", "Wa Wb Wa Rc", 2, {1, 1, 1, 1}, 1, 1, 1, 0, 1},
    {"sizes: one large tile goes for two small ones", "Ra Rb Rc Rb", 3, {2, 1, 2, 1}, 5, 0, 0, 1, 5},
    {"sizes: two small tiles go for a large one", "Ra Rb Rc Ra", 3, {1, 1, 3, 1}, 6, 0, 0, 0, 6},
    {"larger than the cache: passes through", "Ra Ra Wa", 3, {5, 1, 1, 1}, 10, 5, 0, 0, 10},
    {"no capacity at all", "Ra Ra Wb", 0, {1, 1, 1, 1}, 2, 1, 0, 0, 2},
};

static L2Access access_of(char c) { return c == 'R' ? L2_LOAD : c == 'W' ? L2_STORE : L2_ADD; }

static void check_traffic(Test *t, const L2Traffic *got, uint64_t dirty, const TileCase *want)
{
    check_u64(t, sum(got->read), want->read, want->name);
    check_u64(t, sum(got->written), want->written, want->name);
    check_u64(t, dirty, want->dirty, want->name);
    check_u64(t, got->hit, want->hit, want->name);
    check_u64(t, got->missed, want->missed, want->name);
}

static void test_tiles(Context *x)
{
    for (size_t i = 0; i < sizeof tile_cases / sizeof tile_cases[0]; i++) {
        const TileCase *c = &tile_cases[i];
        Status status = {0};
        L2TileCache cache;
        check_true(&x->test, l2_tiles_init(&cache, 4, c->capacity, &x->alloc, &status), c->name);
        for (uint32_t tile = 0; tile < 4; tile++) l2_tiles_define(&cache, tile, c->bytes[tile], (uint8_t)tile);
        for (const char *at = c->trace; *at != '\0'; at += at[2] == ' ' ? 3 : 2)
            l2_tiles_access(&cache, (uint32_t)(at[1] - 'a'), access_of(at[0]));
        check_traffic(&x->test, &cache.traffic, l2_tiles_dirty(&cache), c);
        check_true(&x->test, cache.used <= c->capacity, "the capacity holds");
        l2_tiles_flush(&cache);
        check_u64(&x->test, sum(cache.traffic.written), c->written + c->dirty, "a flush writes what is dirty");
        check_u64(&x->test, l2_tiles_dirty(&cache), 0, "nothing is dirty after a flush");
        l2_tiles_free(&cache);
    }
    Status status = {0};
    L2TileCache cache;
    check_true(&x->test, !l2_tiles_init(&cache, UINT32_MAX, 1, &x->alloc, &status) && status.code == STATUS_INFEASIBLE, "too many tiles");
    l2_tiles_free(&cache);
}

/* ---------------------------------------------------------------------------------------------------------------- lines */

typedef struct {
    L2Access access;
    uint64_t address, bytes;
} LineAccess;

enum { MOST_ACCESSES = 8 };

typedef struct {
    const char *name;
    uint64_t lines;                 /* capacity */
    uint32_t ways;
    LineAccess trace[MOST_ACCESSES];        /* ends at 0 bytes */
    uint64_t read, ownership, written, dirty, hit;
} LineCase;

static const LineCase line_cases[] = {
    {"a line, twice", 4, 4, {{L2_LOAD, 0, 128}, {L2_LOAD, 0, 128}}, 128, 0, 0, 0, 128},
    {"a sector, then the rest", 4, 4, {{L2_LOAD, 32, 32}, {L2_LOAD, 0, 128}}, 128, 0, 0, 0, 32},
    {"a byte reads a sector", 4, 4, {{L2_LOAD, 31, 1}}, 32, 0, 0, 0, 0},
    {"two bytes across an edge read two", 4, 4, {{L2_LOAD, 31, 2}}, 64, 0, 0, 0, 0},
    {"a range over three lines", 4, 4, {{L2_LOAD, 100, 200}}, 224, 0, 0, 0, 0},
    {"a whole sector is stored without reading", 4, 4, {{L2_STORE, 0, 32}}, 0, 0, 0, 32, 0},
    {"a part of one is read first", 4, 4, {{L2_STORE, 40, 16}}, 32, 32, 0, 32, 0},
    {"unless it is there", 4, 4, {{L2_LOAD, 32, 32}, {L2_STORE, 40, 16}}, 32, 0, 0, 32, 0},
    {"a ragged range: only its ends", 4, 4, {{L2_STORE, 16, 96}}, 64, 64, 0, 128, 0},
    {"an addition reads", 4, 4, {{L2_ADD, 0, 8}, {L2_ADD, 8, 8}}, 32, 0, 0, 32, 32},
    {"only dirty sectors are written back", 1, 1, {{L2_LOAD, 0, 128}, {L2_STORE, 64, 32}, {L2_LOAD, 128, 128}}, 256, 0, 32, 0, 0},
    {"one way: lines 0 and 2 share a set", 2, 1, {{L2_LOAD, 0, 128}, {L2_LOAD, 256, 128}, {L2_LOAD, 0, 128}}, 384, 0, 0, 0, 0},
    {"lines 0 and 1 do not", 2, 1, {{L2_LOAD, 0, 128}, {L2_LOAD, 128, 128}, {L2_LOAD, 0, 128}}, 256, 0, 0, 0, 128},
    {"two ways: both stay", 2, 2, {{L2_LOAD, 0, 128}, {L2_LOAD, 256, 128}, {L2_LOAD, 0, 128}}, 256, 0, 0, 0, 128},
    {"the one used longest ago goes", 2, 2,
     {{L2_LOAD, 0, 128}, {L2_LOAD, 128, 128}, {L2_LOAD, 0, 128}, {L2_LOAD, 256, 128}, {L2_LOAD, 128, 128}, {L2_LOAD, 0, 128}},
     640, 0, 0, 0, 128},
    {"nothing", 2, 2, {{L2_LOAD, 0, 0}}, 0, 0, 0, 0, 0},
};

static void test_lines(Context *x)
{
    for (size_t i = 0; i < sizeof line_cases / sizeof line_cases[0]; i++) {
        const LineCase *c = &line_cases[i];
        Status status = {0};
        L2LineCache cache;
        check_true(&x->test, l2_lines_init(&cache, c->lines * L2_LINE_BYTES, c->ways, &x->alloc, &status), c->name);
        for (int k = 0; k < MOST_ACCESSES && c->trace[k].bytes > 0; k++)
            l2_lines_access(&cache, c->trace[k].address, c->trace[k].bytes, 3, c->trace[k].access);
        check_u64(&x->test, cache.traffic.read[3], c->read, c->name);
        check_u64(&x->test, cache.traffic.read_for_ownership, c->ownership, c->name);
        check_u64(&x->test, cache.traffic.written[3], c->written, c->name);
        check_u64(&x->test, l2_lines_dirty(&cache), c->dirty, c->name);
        check_u64(&x->test, cache.traffic.hit, c->hit, c->name);
        l2_lines_flush(&cache);
        check_u64(&x->test, sum(cache.traffic.written), c->written + c->dirty, "a flush writes what is dirty");
        check_u64(&x->test, l2_lines_dirty(&cache), 0, "nothing is dirty after a flush");
        l2_lines_free(&cache);
    }
    Status status = {0};
    L2LineCache cache;
    check_true(&x->test, !l2_lines_init(&cache, 4096, 0, &x->alloc, &status) && status.code == STATUS_USAGE, "no ways");
    l2_lines_free(&cache);
}

/* ------------------------------------------------------------------------------------------------------------ each other */

static void compare(Context *x, uint32_t capacity, uint32_t lines, uint64_t *random)
{
    enum { STEPS = 2000, OWNERS = 3 };
    Status status = {0};
    L2TileCache by_tiles;
    L2LineCache by_lines;
    char what[80];
    snprintf(what, sizeof what, "%u of %u lines at random", capacity, lines);
    check_true(&x->test, l2_tiles_init(&by_tiles, lines, (uint64_t)capacity * L2_LINE_BYTES, &x->alloc, &status), what);
    check_true(&x->test, l2_lines_init(&by_lines, (uint64_t)capacity * L2_LINE_BYTES, capacity, &x->alloc, &status), what);
    for (uint32_t i = 0; i < lines; i++) l2_tiles_define(&by_tiles, i, L2_LINE_BYTES, (uint8_t)(i % OWNERS));
    for (int step = 0; step < STEPS; step++) {
        const uint32_t line = (uint32_t)random_between(random, 0, lines - 1);
        const L2Access access = (L2Access)random_between(random, L2_LOAD, L2_ADD);
        l2_tiles_access(&by_tiles, line, access);
        l2_lines_access(&by_lines, (uint64_t)line * L2_LINE_BYTES, L2_LINE_BYTES, (uint8_t)(line % OWNERS), access);
    }
    for (int owner = 0; owner < OWNERS; owner++) {
        check_u64(&x->test, by_tiles.traffic.read[owner], by_lines.traffic.read[owner], what);
        check_u64(&x->test, by_tiles.traffic.written[owner], by_lines.traffic.written[owner], what);
    }
    check_u64(&x->test, by_tiles.traffic.hit, by_lines.traffic.hit, what);
    check_u64(&x->test, by_tiles.traffic.missed, by_lines.traffic.missed, what);
    check_u64(&x->test, l2_tiles_dirty(&by_tiles), l2_lines_dirty(&by_lines), what);
    l2_tiles_free(&by_tiles);
    l2_lines_free(&by_lines);
}

int main(void)
{
    Context x = {0};
    uint64_t random = 1;
    test_tiles(&x);
    test_lines(&x);
    for (uint32_t capacity = 1; capacity <= 40; capacity++) compare(&x, capacity, (uint32_t)random_between(&random, 1, 60), &random);
    check_u64(&x.test, x.alloc.live_bytes, 0, "bytes still allocated at the end");
    return test_end(&x.test, "l2_cache");
}
