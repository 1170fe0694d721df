/* test_fa3.c - FlashAttention-3 in time and space: the lecture's schedules from kernel code, its registers, its switches.
 *
 * The schedules (lecture §4.3) stand on the profile ideal_sm, where only products and exponentials take time. G cycles of a
 * product, S of a tile's exponentials, T key tiles of 128 per warpgroup of 128 rows. The makespans of the table are the
 * lecture's; beside it stand closed forms, which hold for every head dim (x+ is x or 0): in order              T (2 G + S)
 *     ping-pong             max(4 G T + 2 (S - G)+, 2 S T + 2 G)
 *     inside a warpgroup    G + S + (T - 1)(G + max(G, S)) + G
 *     both                  max(4 G T + (S - G)+, 2 S T + 2 G)
 *
 * The backward pass: the real tiles on an H100, what a tile reads, what is refused, its numbers against the oracle, and that its
 * two warpgroups keep the tensor cores busy by turns. (Its counts: test_counts_backward.c.)
 */
/* label: unit, closed-form */
#include "test.h"

#include "experiments/support/timeline_view.h"

#include "algos/oracle.h"

#include "sim/checked.h"

#include <math.h>

typedef struct {
    Test test;
    Alloc alloc;
} Context;

static Profile profile(Context *x, const char *name)
{
    Status status = {0};
    Profile p = {0};
    check_true(&x->test, profile_load(name, &x->alloc, &p, &status), name);
    return p;
}

/* ---- the lecture's schedules ---- */

typedef struct {
    const char *what;
    uint32_t consumers;
    bool overlap;
    uint64_t makespan[2][3]; /* [H100, B200][T = 8, 16, 32] */
} Schedule;

static const Schedule schedules[] = {
    {"in order", 1, false, {{24576, 49152, 98304}, {16384, 32768, 65536}}},
    {"ping-pong", 2, false, {{32768, 65536, 131072}, {17408, 33792, 66560}}},
    {"overlap", 1, true, {{17408, 33792, 66560}, {12800, 25088, 49664}}},
    {"both", 2, true, {{32768, 65536, 131072}, {17408, 33792, 66560}}},
};

/* One warpgroup of 128 rows and T key tiles of 128, or two. */
static bool record(Context *x, Timeline *timeline, const Profile *chip, const Schedule *s, bool barriers, uint64_t T, uint64_t d)
{
    Status status = {0};
    AttentionShape shape = attention_shape(128 * T, d);
    const RunSetup setup = {.algorithm = &algorithm_fa3, .profile = chip, .tiles = {128 * s->consumers, 128}};
    const Fa3Options fa3 = {.consumers = s->consumers, .no_ping_pong = !barriers, .no_overlap = !s->overlap};
    shape.seqlen_q = 128 * s->consumers;
    const bool ok = timeline_record_block(timeline, &setup, &shape, &fa3, NULL, &x->alloc, &status);
    check_true(&x->test, ok, status.text);
    return ok;
}

static void check_schedule(Context *x, const Profile *chip, int generation, const Schedule *s, bool barriers, int length)
{
    const uint64_t T = UINT64_C(8) << length, products = 2 * T * s->consumers, G = generation == 0 ? 1024 : 512;
    Timeline timeline;
    char what[100];
    if (record(x, &timeline, chip, s, barriers, T, 128)) {
        snprintf(what, sizeof what, "%s, %s, T = %" PRIu64 ", barriers %d", s->what, generation == 0 ? "H100" : "B200", T,
                 barriers);
        check_u64(&x->test, timeline.makespan, s->makespan[generation][length], what);
        check_u64(&x->test, timeline.busy[UNIT_TENSOR], products * G, "tensor cores: 2 T G per warpgroup");
        check_u64(&x->test, timeline.busy[UNIT_MUFU], T * s->consumers * 1024, "MUFU: T S per warpgroup");
        check_u64(&x->test, timeline.busy[UNIT_ISSUE] + timeline.busy[UNIT_SHARED] + timeline.busy[UNIT_COPY], 0,
                  "nothing else takes time");
    }
    timeline_free(&timeline);
}

static void test_schedules(Context *x)
{
    Profile chips[2] = {profile(x, "ideal_sm"), profile(x, "ideal_sm")};
    chips[1].wgmma_bf16_flops_per_cycle_per_sm = 8192;
    for (size_t i = 0; i < sizeof schedules / sizeof schedules[0]; i++)
        for (int generation = 0; generation < 2; generation++)
            for (int length = 0; length < 3; length++)
                for (int barriers = 0; barriers < 2;
                     barriers++) /* greedy already alternates: the barrier costs nothing, gains nothing */
                    check_schedule(x, &chips[generation], generation, &schedules[i], barriers, length);
    Profile slow = chips[0];
    Timeline timeline;
    uint64_t makespan[2] = {0};
    slow.barrier_latency_cycles = 100;
    for (int barriers = 0; barriers < 2; barriers++) {
        if (record(x, &timeline, &slow, &schedules[1], barriers, 8, 128)) makespan[barriers] = timeline.makespan;
        timeline_free(&timeline);
    }
    check_true(&x->test, makespan[0] >= 32768 + 100, "waiting for the first K takes a barrier");
    check_true(&x->test, makespan[1] > makespan[0], "turns take more");
}

static uint64_t closed_form(const Schedule *s, uint64_t G, uint64_t S, uint64_t T)
{
    const uint64_t late = S > G ? S - G : 0;
    if (s->consumers == 1) return s->overlap ? G + S + (T - 1) * (G + max_u64(G, S)) + G : T * (2 * G + S);
    return max_u64(4 * G * T + (s->overlap ? late : 2 * late), 2 * S * T + 2 * G);
}

static void test_closed_forms(Context *x)
{
    const Profile ideal = profile(x, "ideal_sm");
    for (size_t i = 0; i < sizeof schedules / sizeof schedules[0]; i++)
        for (uint64_t d = 16; d <= 320; d += 16)
            for (uint64_t T = 1; T <= 9; T++) {
                Timeline timeline;
                char what[100];
                snprintf(what, sizeof what, "%s, d = %" PRIu64 ", T = %" PRIu64, schedules[i].what, d, T);
                if (record(x, &timeline, &ideal, &schedules[i], true, T, d))
                    check_u64(&x->test, timeline.makespan, closed_form(&schedules[i], 8 * d, 1024, T), what);
                timeline_free(&timeline);
            }
}

/* ---- what asynchrony changes ---- */

static uint64_t block_cycles(Context *x, const Profile *chip, uint32_t Br, Fa3Options fa3)
{
    Status status = {0};
    const AttentionShape shape = attention_shape(2048, 128);
    const RunSetup setup = {.algorithm = &algorithm_fa3, .profile = chip, .tiles = {Br, 128}};
    Timeline timeline;
    check_true(&x->test, timeline_record_block(&timeline, &setup, &shape, &fa3, NULL, &x->alloc, &status), status.text);
    const uint64_t cycles = timeline.makespan;
    timeline_free(&timeline);
    return cycles;
}

/* Loads and products that the issuing stream does not wait for, and all of both. */
static void test_flags(Context *x)
{
    const Profile h100 = profile(x, "h100");
    for (int blocking = 0; blocking < 4; blocking++) {
        Status status = {0};
        const AttentionShape shape = attention_shape(512, 128);
        const RunSetup setup = {.algorithm = &algorithm_fa3, .profile = &h100, .tiles = {128, 128}};
        const Fa3Options fa3 = {.blocking_copies = blocking & 1, .blocking_products = (blocking & 2) != 0};
        uint64_t loads = 0, async_loads = 0, products = 0, async_products = 0;
        Timeline timeline;
        check_true(&x->test, timeline_record_block(&timeline, &setup, &shape, &fa3, NULL, &x->alloc, &status), status.text);
        for (uint32_t i = 0; i < timeline.count; i++) {
            const TimedOperation *operation = &timeline.operations[i];
            loads += operation->operation == OP_LOAD;
            async_loads += operation->operation == OP_LOAD && operation->async;
            products += operation->operation == OP_MATMUL;
            async_products += operation->operation == OP_MATMUL && operation->async;
        }
        check_u64(&x->test, loads, 2 + 2 * 4, "loads: Q per consumer, K and V per tile");
        check_u64(&x->test, products, 2 * 2 * 4, "products: two per consumer and tile");
        check_u64(&x->test, async_loads, blocking & 1 ? 0 : loads, "asynchronous loads");
        check_u64(&x->test, async_products, blocking & 2 ? 0 : products, "asynchronous products");
        timeline_free(&timeline);
    }
}

static void test_switches(Context *x)
{
    const Profile h100 = profile(x, "h100");
    for (uint32_t Br = 64; Br <= 128; Br += 64) {
        const Fa3Options blocking = {
            .no_ping_pong = true, .no_overlap = true, .blocking_copies = true, .blocking_products = true};
        Fa3Options copies = blocking, products, overlap;
        copies.blocking_copies = false;
        products = copies;
        products.blocking_products = false;
        overlap = products;
        overlap.no_overlap = false;
        const uint64_t all = block_cycles(x, &h100, Br, blocking), with_copies = block_cycles(x, &h100, Br, copies);
        check_true(&x->test, with_copies < all, "asynchronous copies save time");
        const uint64_t alone = block_cycles(x, &h100, Br, products), reordered = block_cycles(x, &h100, Br, overlap);
        check_true(&x->test, alone <= with_copies && 10 * (with_copies - alone) < with_copies - reordered,
                   "asynchronous products alone change hardly anything: the softmax waits for S");
        check_true(&x->test, reordered < with_copies, "with another order of the code they do");
        overlap.blocking_products = true;
        check_true(&x->test, block_cycles(x, &h100, Br, overlap) >= with_copies, "which without them gains nothing");
    }
}

/* ---- registers ---- */

typedef struct {
    uint32_t Bc;
    bool overlap;
    uint32_t live;       /* registers per consumer thread for O, S and P, at d = 128 and 64 rows */
    const char *refused; /* by h100; NULL: fits */
} Registers;

static const Registers registers[] = {
    {128, false, 128, NULL},
    {128, true, 160, NULL},
    {176, true, 196, NULL},
    {192, true, 208, NULL}, /* + 32: all of 240 */
    {208, true, 220, "does not fit in registers of h100"},
    {208, false, 168, "tile V does not fit in shared memory of h100"},
    {256, true, 256, "does not fit in registers of h100"},
};

static bool count(Context *x, AttentionRun *run, const Profile *chip, const Registers *r, Status *status)
{
    const AttentionShape shape = attention_shape(1024, 128);
    const RunSetup setup = {.algorithm = &algorithm_fa3, .profile = chip, .tiles = {128, r->Bc}, .config = {.l2 = L2_IDEAL}};
    if (!attention_run_prepare(run, &setup, &shape, &x->alloc, status)) return false;
    run->attention.fa3.no_overlap = !r->overlap;
    return attention_run_forward(run);
}

static void test_registers(Context *x)
{
    const Profile unlimited = profile(x, "ideal_sm"), h100 = profile(x, "h100");
    for (size_t i = 0; i < sizeof registers / sizeof registers[0]; i++) {
        const Registers *r = &registers[i];
        Status status = {0};
        AttentionRun run;
        char what[100];
        snprintf(what, sizeof what, "Bc = %u%s: registers of a consumer thread: O + S + P + 32", r->Bc,
                 r->overlap ? ", overlap" : "");
        if (count(x, &run, &unlimited, r, &status)) {
            check_u64(&x->test, run.totals.register_peak_bytes, 4 * (128 * 24 + UINT64_C(2) * 128 * (r->live + 32)), what);
        }
        attention_run_free(&run);
        check_true(&x->test, count(x, &run, &h100, r, &status) == (r->refused == NULL), what);
        if (r->refused != NULL)
            check_true(&x->test, status.code == STATUS_INFEASIBLE && strstr(status.text, r->refused) != NULL, status.text);
        attention_run_free(&run);
    }
}

/* The tiles of the real kernels fit. */
static void test_real_tiles(Context *x)
{
    static const uint64_t dims[] = {64, 96, 128, 192, 256};
    const Profile h100 = profile(x, "h100");
    for (size_t i = 0; i < 2 * sizeof dims / sizeof dims[0]; i++) {
        Status status = {0};
        AttentionShape shape = attention_shape(1024, dims[i / 2]);
        AttentionRun run;
        if (i % 2 == 1) shape.mask = MASK_CAUSAL;
        const TileSize tiles = algorithm_fa3.tiles(&shape);
        check_true(&x->test, attention_count(&run, &algorithm_fa3, &shape, tiles, L2_IDEAL, &h100, &x->alloc, &status),
                   status.text);
        attention_run_free(&run);
    }
}

/* ---- the backward pass ---- */

static bool walk_backward(Context *x, AttentionRun *run, const Profile *chip, const AttentionShape *shape, TileSize tiles,
                          BackwardVariant variant, MachineConfig config, Status *status)
{
    const RunSetup setup = {.algorithm = &algorithm_fa3, .profile = chip, .tiles = {32, 16}, .config = config}; /* of the forward pass */
    if (!attention_run_prepare(run, &setup, shape, &x->alloc, status)) return false;
    if (!attention_run_prepare_backward(run, tiles, variant)) return false;
    if (config.mode == MODE_COUNT) return attention_run_backward(run);
    attention_random_inputs(&run->attention, &run->machine, 7);
    return attention_run_forward(run) && attention_run_backward(run);
}

/* flash-attention's tiles for an H100 fit as they are; shared memory: K, V, two stages of Q, one or two of dO and dS, the way out
 * of dQ. */
typedef struct {
    uint64_t d;
    MaskKind mask;
    uint32_t Br, Bc;
    uint64_t smem, registers; /* bytes; KiB of shared memory = K, V + Q + dO + dS + dQ */
} BackwardTiles;

static const BackwardTiles backward_tiles[] = {
    {64, MASK_NONE, 128, 128, (32 + 32 + 32 + 64 + 32) << 10, 4 * (128 * 24 + 256 * (26 + 64 + 64 + 64) + 4 * 128)},
    {64, MASK_CAUSAL, 128, 128, (32 + 32 + 32 + 64 + 32) << 10, 4 * (128 * 24 + 256 * (26 + 64 + 64 + 64) + 4 * 128)},
    {96, MASK_NONE, 64, 128, (48 + 24 + 24 + 32 + 24) << 10, 4 * (128 * 24 + 256 * (26 + 96 + 32 + 32) + 4 * 64)},
    {128, MASK_NONE, 80, 128, (64 + 40 + 40 + 40 + 40) << 10, 4 * (128 * 24 + 256 * (26 + 128 + 40 + 40) + 4 * 80)},
    {128, MASK_CAUSAL, 64, 128, (64 + 32 + 32 + 32 + 32) << 10, 4 * (128 * 24 + 256 * (26 + 128 + 32 + 32) + 4 * 64)},
    {192, MASK_NONE, 64, 96, (72 + 48 + 24 + 12 + 24) << 10, 4 * (128 * 24 + 256 * (26 + 144 + 24 + 24) + 3 * 64)},
    {256, MASK_NONE, 64, 80, (80 + 64 + 32 + 10 + 32) << 10, 4 * (128 * 24 + 256 * (26 + 160 + 32 + 20) + 3 * 64)},
};

static void test_backward_tiles(Context *x)
{
    const Profile h100 = profile(x, "h100");
    for (size_t i = 0; i < sizeof backward_tiles / sizeof backward_tiles[0]; i++) {
        const BackwardTiles *t = &backward_tiles[i];
        Status status = {0};
        AttentionRun run;
        AttentionShape shape = attention_shape(1024, t->d);
        char what[60];
        shape.mask = t->mask;
        snprintf(what, sizeof what, "backward, d = %" PRIu64 ", mask %d", t->d, t->mask);
        walk_backward(x, &run, &h100, &shape, (TileSize){0, 0}, (BackwardVariant){0}, (MachineConfig){.mode = MODE_COUNT}, &status);
        check_text(&x->test, status.text, "", what);
        check_u64(&x->test, run.backward_tiles.Br, t->Br, what);
        check_u64(&x->test, run.backward_tiles.Bc, t->Bc, what);
        check_u64(&x->test, run.totals.sram_peak_bytes, t->smem, what);
        check_u64(&x->test, run.totals.register_peak_bytes, t->registers, what);
        attention_run_free(&run);
    }
}

/* One tile at d = 128, two bytes an element: instructions, then threads, then copies, by the roles' tiles. */
static void test_backward_tile(Context *x, uint32_t Br)
{
    const Profile unlimited = profile(x, "ideal_sm");
    const uint64_t q = UINT64_C(2) * Br * 128, k = UINT64_C(2) * 128 * 128, ds = UINT64_C(2) * Br * 128, dq = UINT64_C(4) * Br * 128;
    const uint64_t scores = 2 * (2 * q + k), keys = 2 * 2 * q, queries = 2 * ds + k;
    Status status = {0};
    AttentionRun run;
    AttentionShape shape = attention_shape(128, 128);
    shape.seqlen_q = Br;
    walk_backward(x, &run, &unlimited, &shape, (TileSize){Br, 128}, (BackwardVariant){0}, (MachineConfig){.mode = MODE_COUNT}, &status);
    check_text(&x->test, status.text, "", "one tile");
    check_u64(&x->test, run.totals.smem_operand_bytes, scores + keys + queries, "Q, dO, dS per warpgroup; K, V twice, once each part");
    check_u64(&x->test, run.totals.smem_thread_bytes, ds + dq, "dS and dQ written");
    check_u64(&x->test, run.totals.smem_copy_bytes, 2 * k + 2 * q + dq, "K, V, Q, dO in, dQ out");
    check_u64(&x->test, run.totals.matmul_flops, UINT64_C(10) * Br * 128 * 128, "five products");
    attention_run_free(&run);
}

/* Both consumers meet once per query block where dS has two stages, and twice where it has one. */
static void test_backward_barriers(Context *x, uint64_t d, uint64_t meetings)
{
    const Profile h100 = profile(x, "h100");
    Status status = {0};
    AttentionRun run;
    const AttentionShape shape = attention_shape(640, d);
    walk_backward(x, &run, &h100, &shape, (TileSize){64, 80}, (BackwardVariant){0}, (MachineConfig){.mode = MODE_COUNT}, &status);
    check_text(&x->test, status.text, "", "barriers");
    if (status_ok(&status)) {
        const Counts *main_kernel = &run.machine.launches[1].counts;
        check_u64(&x->test, main_kernel->elements[OP_ARRIVE], 2 * meetings * 10 * 8, "arrivals of two consumers, 10 x 8 tiles");
        check_u64(&x->test, main_kernel->elements[OP_SYNC], 2 * meetings * 10 * 8, "waits of two consumers, 10 x 8 tiles");
        check_u64(&x->test, main_kernel->elements[OP_ATOMIC_ADD], ceil_div(d, 64) * 10 * 8, "pieces of dQ");
    }
    attention_run_free(&run);
}

static void check_refused(Context *x, const AttentionShape *shape, TileSize tiles, BackwardVariant variant, const char *text)
{
    const Profile unlimited = profile(x, "ideal_sm");
    Status status = {0};
    AttentionRun run;
    walk_backward(x, &run, &unlimited, shape, tiles, variant, (MachineConfig){.mode = MODE_COUNT}, &status);
    check_text(&x->test, status.text, text, "refused");
    check_u64(&x->test, status.code, STATUS_INFEASIBLE, text);
    attention_run_free(&run);
}

static void test_backward_refusals(Context *x)
{
    static const char others[] = "fa3: its backward has no other dQ sums or loop order; use fa2";
    const AttentionShape shape = attention_shape(512, 64);
    const TileSize tiles = {128, 128};
    AttentionShape stored = shape;
    stored.dropout_source = DROPOUT_STORED;
    stored.dropout.p = 0.5;
    check_refused(x, &shape, tiles, (BackwardVariant){.deterministic = true}, others);
    check_refused(x, &shape, tiles, (BackwardVariant){.direct_dq = true}, others);
    check_refused(x, &shape, tiles, (BackwardVariant){.query_blocks_outside = true}, others);
    check_refused(x, &shape, tiles, (BackwardVariant){.two_ctas = true}, "fa3: its backward has no pairs of CTAs; use fa4");
    check_refused(x, &shape, (TileSize){64, 257}, (BackwardVariant){0},
                  "fa3: 257 keys per block need 5 consumer warpgroups of 64; at most 4");
    check_refused(x, &stored, (TileSize){64, 65}, (BackwardVariant){0},
                  "fa3 reads a stored dropout mask in 2 equal parts: 65 keys per block are no multiple");
}

/* Real tiles, ragged lengths, groups. */
static void test_backward_numbers(Context *x)
{
    static const struct {
        ElementType type;
        double tolerance;
    } types[] = {{ELEMENT_F64, 1e-13}, {ELEMENT_F32, 1e-5}, {ELEMENT_BF16, 2e-2}};
    static const uint64_t dims[] = {40, 64, 128, 192};
    const Profile h100 = profile(x, "h100");
    for (size_t i = 0; i < 3 * 4 * 2; i++) {
        Status status = {0};
        AttentionRun run;
        BackwardError error = {0};
        AttentionShape s = attention_shape(199, dims[i / 2 % 4]);
        s.seqlen_k = 270;
        s.heads = 4;
        s.kv_heads = 2;
        s.mask = i % 2 ? MASK_CAUSAL : MASK_NONE;
        s.dtype = types[i / 8].type;
        const MachineConfig config = {
            .mode = MODE_NUMERIC, .poison = true, .precision = s.dtype == ELEMENT_F64 ? PRECISION_F64 : PRECISION_F32};
        if (walk_backward(x, &run, &h100, &s, (TileSize){0, 0}, (BackwardVariant){0}, config, &status))
            oracle_compare_backward(&run.attention, &run.machine, &error);
        check_text(&x->test, status.text, "", "backward on an H100");
        const double most = types[i / 8].tolerance * fmax(1, error.max_gradient);
        check_true(&x->test, error.max_gradient > 0 && fmax(error.max_abs_dQ, fmax(error.max_abs_dK, error.max_abs_dV)) <= most,
                   "gradients against the oracle");
        attention_run_free(&run);
    }
}

static void observe_key_blocks(void *observer, const Event *event)
{
    if (strcmp(event->stream->block->kernel->name, "fa3_bwd") == 0) timeline_observe(observer, event);
}

/* Where only products and exponentials take time: T query blocks of 128 x 128 at d = 128, five products of 1024 cycles each, 1024
 * cycles of exponentials. Each warpgroup's P is hidden by its own dP and the other's products: no cycle is lost. */
static void test_backward_overlap(Context *x)
{
    const Profile ideal = profile(x, "ideal_sm");
    for (uint64_t T = 1; T <= 16; T *= 2) {
        Status status = {0};
        AttentionRun run;
        Timeline timeline;
        AttentionShape shape = attention_shape(128 * T, 128);
        shape.seqlen_k = 128;
        timeline_init(&timeline, &ideal, &x->alloc, &status);
        const MachineConfig config = {.mode = MODE_COUNT, .observe = observe_key_blocks, .observer = &timeline};
        walk_backward(x, &run, &ideal, &shape, (TileSize){128, 128}, (BackwardVariant){0}, config, &status);
        check_true(&x->test, timeline_run(&timeline), status.text);
        check_u64(&x->test, timeline.busy[UNIT_TENSOR], 5 * 1024 * T, "five products per tile");
        check_u64(&x->test, timeline.busy[UNIT_MUFU], 1024 * T, "one exponential per score");
        check_u64(&x->test, timeline.makespan, 5 * 1024 * T, "the tensor cores never wait");
        timeline_free(&timeline);
        attention_run_free(&run);
    }
}

int main(void)
{
    Context x = {0};
    test_schedules(&x);
    test_closed_forms(&x);
    test_flags(&x);
    test_switches(&x);
    test_registers(&x);
    test_real_tiles(&x);
    test_backward_tiles(&x);
    test_backward_tile(&x, 128);
    test_backward_tile(&x, 64);
    test_backward_barriers(&x, 128, 1);
    test_backward_barriers(&x, 256, 2);
    test_backward_refusals(&x);
    test_backward_numbers(&x);
    test_backward_overlap(&x);
    return test_end(&x.test, "test_fa3");
}
