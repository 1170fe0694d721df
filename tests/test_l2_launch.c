/* test_l2_launch.c - launches through the simulated L2: by hand where a few tiles can be followed, by what must hold elsewhere.
 *
 *   by hand            blocks that sweep one tensor and store a tile each, on one and two SMs, by tiles and by lines
 *   unlimited          every ledger row as with the ideal L2, tile by tile and as on a chip; by lines never less
 *   any capacity       ideal <= simulated <= what the SMs asked for; everything but HBM unchanged
 *   one slot           heads follow one another: h heads move h times what one does
 *   tiles and lines    FlashAttention-2, standard attention and a backward pass within a few percent of each other
 *   order              launch order given as a list changes nothing; a list that does not fit is refused
 */
/* label: unit, property */
#include "test.h"

#include "support/backward_case.h"
#include "support/count_case.h"

#include "sim/l2_chip.h"

typedef struct {
    Test test;
    Alloc alloc;
    Profile h100, unbounded;
} Context;

/* ------------------------------------------------------------------------------------------------------------------ by hand */

enum { TILE = 64, TILES = 4, TILE_BYTES = TILE * TILE * 2 };

typedef struct {
    Tensor *a, *o;
} Sweep;

/* Loads all four tiles of A, then stores its own tile of O. */
static void sweep_block(Block *b, const void *arguments, uint64_t i)
{
    const Sweep *s = arguments;
    Stream *w = stream(b, "compute", 4);
    Tile *tile = shared_tile(b, "tile", ELEMENT_BF16, TILE, TILE);
    for (uint64_t j = 0; j < TILES; j++) load(w, tile, s->a, j * TILE);
    store(w, s->o, i * TILE, tile);
}

/* In tiles. */
typedef struct {
    uint64_t sms, blocks, capacity, read, written_back, dirty;
    const char *why;
} HandCase;

static const HandCase hand_cases[] = {
    {1, 3, 8, 4, 0, 3, "all fits"},
    {1, 3, 5, 4, 2, 1, "A and one tile of O: the older O goes"},
    {1, 3, 4, 12, 2, 1, "O takes the place of one tile of A, and a sweep one tile too long never hits"},
    {1, 3, 1, 12, 2, 1, "room for one tile: the next block's first load pushes O out"},
    {2, 2, 1, 4, 1, 1, "two blocks in step share each tile, whatever the capacity"},
    {2, 3, 4, 8, 2, 1, "the third comes when A is partly gone"},
    {2, 3, 6, 4, 1, 2, "or not, in a larger cache: A stays, the third tile of O pushes out the first"},
    {2, 4, 2, 8, 2, 2, "two pairs, one after the other"},
    {1, 0, 4, 0, 0, 0, "no blocks"},
};

static void check_by_hand(Context *x, const HandCase *c, bool by_lines)
{
    Status status = {0};
    Machine machine;
    Profile chip = x->h100;
    chip.sm_count = c->sms;
    chip.l2_bytes_per_chip = c->capacity * TILE_BYTES * chip.l2_partitions;
    MachineConfig config = {.mode = MODE_COUNT, .l2 = L2_SIMULATED, .l2_engine = by_lines ? L2_LRU_LINES : L2_LRU_TILES};
    config.l2_order.blocks_per_sm = 1;
    machine_init(&machine, &chip, config, &x->alloc, &status);
    const Sweep sweep = {machine_tensor(&machine, "A", ELEMENT_BF16, 1, 1, TILES * TILE, TILE),
                         machine_tensor(&machine, "O", ELEMENT_BF16, 1, 1, max_u64(c->blocks, 1) * TILE, TILE)};
    const Kernel kernel = {.name = "sweep", .instruction = TENSOR_MMA_SYNC, .threads = 128, .registers_per_thread = 32, .run = sweep_block};
    launch(&machine, &kernel, (Grid){c->blocks, 1, 1}, &sweep);
    check_text(&x->test, status.text, "", c->why);
    const L2Outcome *l2 = &machine.launches[0].l2;
    Totals totals;
    machine_totals(&machine, &totals);
    check_u64(&x->test, totals.hbm_read_bytes, c->read * TILE_BYTES, c->why);
    check_u64(&x->test, totals.hbm_write_bytes, c->blocks * TILE_BYTES, "everything stored counts as written");
    check_u64(&x->test, l2->written_back_bytes, c->written_back * TILE_BYTES, c->why);
    check_u64(&x->test, l2->dirty_bytes, c->dirty * TILE_BYTES, c->why);
    check_u64(&x->test, l2->hit_bytes + l2->miss_bytes, totals.l2_to_sm_bytes, "hits and misses are what was asked for");
    machine_free(&machine);
}

/* ----------------------------------------------------------------------------------------------------------- what must hold */

/* One pass of anything. */
typedef struct {
    CountCase forward;
    const BackwardWay *backward;    /* NULL: the forward pass */
} Case;

static void case_name(const Case *c, char *text, size_t size)
{
    char shape[256];
    count_case_name(&c->forward, shape, sizeof shape);
    snprintf(text, size, "%s%s%s", shape, c->backward != NULL ? " backward: " : "", c->backward != NULL ? c->backward->name : "");
}

static bool walk(Context *x, AttentionRun *run, const Case *c, MachineConfig config, const Profile *chip, Status *status)
{
    CountCase forward = c->forward;
    char what[400];
    bool ok;
    config.mode = MODE_COUNT;
    if (c->backward != NULL) {
        const BackwardInputs inputs = {.shape = forward.shape};
        ok = run_backward(run, c->backward, forward.tiles, config, chip, &inputs, &x->alloc, status);
    } else {
        forward.l2 = config.l2;
        ok = count_walk(run, &forward, config, chip, &x->alloc, status);
    }
    case_name(c, what, sizeof what);
    check_text(&x->test, status->text, "", what);
    return ok;
}

static void check_between(Context *x, const char *what, uint64_t low, uint64_t value, uint64_t high)
{
    if (test_failed(&x->test, low <= value && value <= high))
        printf("FAIL %s: %" PRIu64 " is not in %" PRIu64 " .. %" PRIu64 "\n", what, value, low, high);
}

/* Ledger by ledger: `exact` when nothing is ever evicted. */
static void check_ledgers(Context *x, const Case *c, const Machine *simulated, const Machine *ideal, bool exact)
{
    char name[400], what[500];
    case_name(c, name, sizeof name);
    check_u64(&x->test, simulated->ledger_count, ideal->ledger_count, name);
    for (uint32_t i = 0; i < ideal->ledger_count && i < simulated->ledger_count; i++) {
        const Traffic *s = &simulated->ledger[i].traffic, *p = &ideal->ledger[i].traffic;
        snprintf(what, sizeof what, "%s, %s of %s", name, ideal->ledger[i].tensor->name, ideal->ledger[i].kernel);
        check_u64(&x->test, s->l2_to_sm, p->l2_to_sm, what);
        check_u64(&x->test, s->sm_to_l2, p->sm_to_l2, what);
        check_between(x, what, p->hbm_read, s->hbm_read, exact ? p->hbm_read : p->l2_to_sm + p->atomic_adds);
        check_between(x, what, p->hbm_write, s->hbm_write, exact ? p->hbm_write : p->sm_to_l2);
    }
    for (uint32_t i = 0; i < simulated->launch_count; i++) {
        const L2Outcome *l2 = &simulated->launches[i].l2;
        check_true(&x->test, l2->dirty_bytes <= l2->capacity_bytes, "no more is dirty than fits");
        if (exact) check_u64(&x->test, l2->written_back_bytes, 0, "nothing leaves an unlimited cache");
    }
}

/* A sector that is touched is moved as a whole. */
static void check_lines(Context *x, const Machine *lines, const Machine *ideal)
{
    for (uint32_t i = 0; i < ideal->ledger_count && i < lines->ledger_count; i++) {
        check_true(&x->test, lines->ledger[i].traffic.hbm_read >= ideal->ledger[i].traffic.hbm_read, "by lines: reads");
        check_true(&x->test, lines->ledger[i].traffic.hbm_write >= ideal->ledger[i].traffic.hbm_write, "by lines: writes");
    }
}

static Profile chip_with(const Context *x, uint64_t sms, uint64_t capacity)
{
    Profile chip = x->unbounded;
    chip.sm_count = sms;
    chip.l2_bytes_per_chip = capacity;
    return chip;
}

static void check_case(Context *x, const Case *c, uint64_t *random)
{
    Status status = {0};
    AttentionRun ideal, run;
    MachineConfig config = {.l2 = L2_IDEAL};
    const uint64_t sms = random_between(random, 1, 5);      /* a deterministic backward depends on them */
    const Profile unlimited = chip_with(x, sms, PROFILE_UNLIMITED), small = chip_with(x, sms, random_between(random, 0, 40000)), some_sets = chip_with(x, sms, random_between(random, 0, 400000));
    if (walk(x, &ideal, c, config, &unlimited, &status)) {
        config.l2 = L2_SIMULATED;
        if (walk(x, &run, c, config, &unlimited, &status)) check_ledgers(x, c, &run.machine, &ideal.machine, true);
        attention_run_free(&run);
        config.l2_engine = L2_LRU_LINES;
        if (walk(x, &run, c, config, &unlimited, &status)) check_lines(x, &run.machine, &ideal.machine);
        attention_run_free(&run);
        config.l2_engine = L2_CHIP;
        if (walk(x, &run, c, config, &unlimited, &status)) check_ledgers(x, c, &run.machine, &ideal.machine, true);
        attention_run_free(&run);
        config.l2_engine = random_between(random, 0, 1) > 0 ? L2_CHIP : L2_LRU_TILES;
        config.l2_order.blocks_per_sm = random_between(random, 1, 3);
        config.walk_all_heads = random_between(random, 0, 1);
        if (walk(x, &run, c, config, config.l2_engine == L2_CHIP ? &some_sets : &small, &status)) check_ledgers(x, c, &run.machine, &ideal.machine, false);
        attention_run_free(&run);
    }
    attention_run_free(&ideal);
}

static AttentionShape random_shape(TileSize tiles, uint64_t *random)
{
    AttentionShape shape = attention_shape(random_length(random, tiles.Br) % 300, random_between(random, 1, 40));
    shape.seqlen_k = random_length(random, tiles.Bc) % 300;
    random_mask(&shape, random);
    random_heads(&shape, random, 3);
    return shape;
}

/* More different tiles than the recording first has room for. */
static void check_many_tiles(Context *x)
{
    Case c = {.forward = {.algorithm = &algorithm_standard, .shape = attention_shape(1000, 16), .tiles = {32, 24}}};
    uint64_t random = 5;
    check_case(x, &c, &random);
}

static void check_random(Context *x)
{
    static const TileSize tiles[] = {{16, 16}, {32, 16}, {16, 48}, {64, 64}, {17, 5}};
    uint64_t random = 7;
    for (int i = 0; i < 60; i++) {
        const TileSize tile = tiles[random_between(&random, 0, 4)];
        Case c = {.forward = {.shape = random_shape(tile, &random), .tiles = tile}};
        c.forward.algorithm = algorithm_at((size_t)random_between(&random, 0, algorithm_count() - 1));
        const bool wide = c.forward.algorithm == &algorithm_fa3 || c.forward.algorithm == &algorithm_fa4;
        if (wide) c.forward.tiles = (TileSize){128, 64};
        check_case(x, &c, &random);
        c.backward = &backward_ways[random_between(&random, 0, BACKWARD_WAYS - 1)];
        c.forward.algorithm = c.backward->algorithm;
        c.forward.tiles = c.backward == &backward_ways[WAY_FA4] ? (TileSize){128, 128} : tile;
        check_case(x, &c, &random);
    }
}

/* Two CTAs share tiles: each moves its half, and together they move what one alone would. */
static void check_pairs(Context *x)
{
    const BackwardWay pairs = {"fa4, two CTAs", &algorithm_fa4, {.two_ctas = true}};
    Case c = {.forward = {.algorithm = &algorithm_fa4, .shape = attention_shape(512, 64), .tiles = {128, 128}}, .backward = &pairs};
    uint64_t random = 11;
    c.forward.shape.heads = c.forward.shape.kv_heads = 2;
    for (int i = 0; i < 4; i++) check_case(x, &c, &random);
}

/* ------------------------------------------------------------------------------------------------------------ one slot, order */

static uint64_t moved(Context *x, const Case *c, MachineConfig config, const Profile *chip, Totals *totals)
{
    Status status = {0};
    AttentionRun run;
    config.l2 = L2_SIMULATED;
    walk(x, &run, c, config, chip, &status);
    *totals = run.totals;
    attention_run_free(&run);
    return totals->hbm_read_bytes + totals->hbm_write_bytes;
}

static void check_one_slot(Context *x)
{
    const Profile chip = chip_with(x, 1, 60000);
    MachineConfig config = {.l2 = L2_SIMULATED};
    config.l2_order.blocks_per_sm = 1;
    for (size_t a = 0; a < algorithm_count(); a++) {
        Case c = {.forward = {.algorithm = algorithm_at(a), .shape = attention_shape(640, 32), .tiles = {128, 64}}};
        Totals one, three;
        c.forward.shape.mask = MASK_CAUSAL;
        moved(x, &c, config, &chip, &one);
        c.forward.shape.heads = c.forward.shape.kv_heads = 3;
        moved(x, &c, config, &chip, &three);
        check_u64(&x->test, three.hbm_read_bytes, 3 * one.hbm_read_bytes, "one slot: three heads read three times as much");
        check_u64(&x->test, three.hbm_write_bytes, 3 * one.hbm_write_bytes, "one slot: three heads write three times as much");
    }
}

/* What a launch finds dirty stays where there is room, and all of it leaves where there is little: in whole chunks, beside the ledger. */
static void check_dirty_before(Context *x)
{
    enum { BEFORE = 300000 };
    static const struct {
        uint64_t capacity, leaves;
    } cases[] = {{16000000, 0}, {524288, (BEFORE + L2_CHUNK_BYTES - 1) / L2_CHUNK_BYTES * L2_CHUNK_BYTES}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const Profile chip = chip_with(x, 4, cases[i].capacity);
        Case c = {.forward = {.algorithm = &algorithm_fa2, .shape = attention_shape(2048, 64), .tiles = {128, 64}}};
        MachineConfig config = {.l2 = L2_SIMULATED, .l2_engine = L2_CHIP, .l2_dirty_before = BEFORE};
        config.l2_order.blocks_per_sm = 1;
        c.forward.shape.heads = c.forward.shape.kv_heads = 4;
        AttentionRun run;
        Status status = {0};
        check_true(&x->test, walk(x, &run, &c, config, &chip, &status), status.text);
        const L2Outcome *l2 = &run.machine.launches[0].l2;
        check_u64(&x->test, l2->earlier_bytes, cases[i].leaves, "dirty before, written back");
        check_u64(&x->test, run.totals.hbm_write_bytes, l2->written_back_bytes + l2->dirty_bytes, "and not in the ledger");
        attention_run_free(&run);
    }
}

static void check_order(Context *x)
{
    enum { BLOCKS = 30 };
    uint64_t order[BLOCKS];
    const Profile chip = chip_with(x, 3, 100000);
    Case c = {.forward = {.algorithm = &algorithm_fa2, .shape = attention_shape(640, 32), .tiles = {64, 64}}};
    c.forward.shape.heads = c.forward.shape.kv_heads = 3;
    MachineConfig config = {.l2 = L2_SIMULATED};
    config.l2_order.blocks_per_sm = 2;
    Totals launched, listed, across;
    const uint64_t bytes = moved(x, &c, config, &chip, &launched);
    for (uint64_t i = 0; i < BLOCKS; i++) order[i] = i;
    config.l2_order.blocks = order;
    config.l2_order.count = BLOCKS;
    check_u64(&x->test, moved(x, &c, config, &chip, &listed), bytes, "launch order, listed");
    for (uint64_t i = 0; i < BLOCKS; i++) order[i] = i % 3 * (BLOCKS / 3) + i / 3;      /* head after head after head */
    check_true(&x->test, moved(x, &c, config, &chip, &across) > bytes, "blocks of all heads at once need more than blocks of one");

    static const struct {
        uint64_t count, last;
        const char *error;
    } bad[] = {{BLOCKS - 1, 0, "fa2_forward: an order of 29 blocks for 30"},
               {BLOCKS, BLOCKS, "fa2_forward: place 29 of the order holds 30 of 30 blocks"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        Status status = {0};
        AttentionRun run;
        config.l2_order.count = bad[i].count;
        order[BLOCKS - 1] = bad[i].last;
        check_true(&x->test, !count_walk(&run, &(CountCase){&algorithm_fa2, c.forward.shape, c.forward.tiles, L2_SIMULATED}, config, &chip,
                                         &x->alloc, &status), bad[i].error);
        check_text(&x->test, status.text, bad[i].error, "an order that does not fit");
        check_u64(&x->test, status.code, STATUS_USAGE, "an order that does not fit");
        attention_run_free(&run);
    }
}

/* --------------------------------------------------------------------------------------------------------- tiles and lines */

/* Rows and row blocks here are whole sectors, so only conflicts in sets differ, and what a tile on its way out still gives. */
static void check_engines(Context *x, const Case *c, uint64_t capacity, double tolerance)
{
    const Profile chip = chip_with(x, 16, capacity);
    MachineConfig config = {.l2 = L2_SIMULATED};
    char what[400];
    Totals tiles, lines;
    config.l2_order.blocks_per_sm = 2;
    case_name(c, what, sizeof what);
    moved(x, c, config, &chip, &tiles);
    config.l2_engine = L2_LRU_LINES;
    moved(x, c, config, &chip, &lines);
    check_close(&x->test, (double)lines.hbm_read_bytes, (double)tiles.hbm_read_bytes, tolerance, what);
    check_close(&x->test, (double)lines.hbm_write_bytes, (double)tiles.hbm_write_bytes, tolerance, what);
}

static void check_both(Context *x)
{
    static const struct {
        const Algorithm *algorithm;
        const BackwardWay *backward;
        MaskKind mask;
        uint64_t capacity_kib;
        double tolerance;
    } cases[] = {
        {&algorithm_fa2, NULL, MASK_NONE, 65536, 0},                            /* all of it */
        {&algorithm_standard, NULL, MASK_NONE, 65536, 0},
        {&algorithm_fa2, &backward_ways[WAY_FA2], MASK_NONE, 65536, 0},
        {&algorithm_fa2, NULL, MASK_NONE, 1024, 0.02},                          /* three heads' K and V of a head of 256 KiB */
        {&algorithm_fa2, NULL, MASK_NONE, 300, 0.02},                           /* a little more than one */
        {&algorithm_fa2, NULL, MASK_NONE, 64, 0.02},                            /* less */
        {&algorithm_fa2, NULL, MASK_CAUSAL, 512, 0.02},
        {&algorithm_fa1, NULL, MASK_NONE, 200, 0.02},
        {&algorithm_standard, NULL, MASK_NONE, 512, 0.02},
        {&algorithm_fa2, &backward_ways[WAY_FA2], MASK_CAUSAL, 512, 0.02},
        {&algorithm_fa2, &backward_ways[WAY_FA2], MASK_NONE, 200, 0.02},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Case c = {.forward = {.algorithm = cases[i].algorithm, .shape = attention_shape(1024, 64), .tiles = {64, 64}}, .backward = cases[i].backward};
        c.forward.shape.mask = cases[i].mask;
        c.forward.shape.heads = c.forward.shape.kv_heads = 8;
        check_engines(x, &c, cases[i].capacity_kib << 10, cases[i].tolerance);
    }
}

int main(void)
{
    Context x = {0};
    Status status = {0};
    if (profile_load("h100", &x.alloc, &x.h100, &status) &&
        profile_load("unbounded", &x.alloc, &x.unbounded, &status)) {
        for (size_t i = 0; i < sizeof hand_cases / sizeof hand_cases[0]; i++) {
            check_by_hand(&x, &hand_cases[i], false);
            if (hand_cases[i].capacity % 4 == 0) check_by_hand(&x, &hand_cases[i], true);   /* as many lines of a tile in every set */
        }
        check_random(&x);
        check_many_tiles(&x);
        check_pairs(&x);
        check_one_slot(&x);
        check_dirty_before(&x);
        check_order(&x);
        check_both(&x);
    }
    check_text(&x.test, status.text, "", "the profiles");
    check_u64(&x.test, x.alloc.live_bytes, 0, "bytes still allocated at the end");
    return test_end(&x.test, "l2_launch");
}
