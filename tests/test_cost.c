/* test_cost.c - what one operation costs, worked by hand on an H100 and held against what an H200, whose SM is the same, was
 * measured to take.
 *
 * A kernel of one consumer warpgroup of FlashAttention-3 (64 rows, 128 keys, d = 128) runs its operations once; the table lists,
 * in its order, every unit's cycles and the hold. Constants that are read off files of hw_profiles/measured are held against them.
 */
/* label: unit */
#include "test.h"

#include "sim/checked.h"
#include "sim/cost.h"
#include "sim/launch_time.h"
#include "sim/ops.h"
#include "support/csv_named.h"

#include <math.h>
#include <string.h>

typedef struct {
    Test test;
    Alloc alloc;
} Context;

enum { MOST_EVENTS = 32 };

typedef struct {
    const Profile *profile;
    Cost costs[MOST_EVENTS];
    Operation operations[MOST_EVENTS];
    size_t count;
} Costs;

static void observe(void *observer, const Event *event)
{
    Costs *costs = observer;
    if (costs->count == MOST_EVENTS) return;
    costs->operations[costs->count] = event->operation;
    costs->costs[costs->count++] = operation_cost(costs->profile, event);
}

/* ---- the kernel ---- */

typedef struct {
    uint32_t rows, keys, d, warps;
    ElementType type;
    Tensor *K, *O;
} Shape;

static void one_tile(Block *b, const void *arguments, uint64_t index)
{
    const Shape *x = arguments;
    Stream *w = stream(b, "warpgroup", x->warps);
    Tile *q = shared_tile(b, "Q", x->type, x->rows, x->d), *k = shared_tile(b, "K", x->type, x->keys, x->d);
    Tile *s = register_tile(b, "S", ELEMENT_F32, x->rows, x->keys), *p = register_tile(b, "P", x->type, x->rows, x->keys);
    Tile *o = register_tile(b, "O", ELEMENT_F32, x->rows, x->d),
         *p_shared = shared_tile(b, "P in shared memory", x->type, x->rows, x->keys);
    Rows *m = row_vector(b, "m", ELEMENT_F32, x->rows), *m_new = row_vector(b, "m_new", ELEMENT_F32, x->rows);
    Rows *l = row_vector(b, "l", ELEMENT_F32, x->rows), *alpha = row_vector(b, "alpha", ELEMENT_F32, x->rows);
    Tile *turn = barrier(b, "turn");
    (void)index;
    fill(w, o, x->rows, x->d, 0.0);
    fill(w, l, x->rows, 1, 0.0);
    fill(w, m, x->rows, 1, -INFINITY);
    fill(w, q, x->rows, x->d, 0.0);
    load(w, k, x->K, 0);
    barrier_sync(w, turn);
    matmul_nt(w, s, q, k);
    barrier_arrive(w, turn);
    scale(w, s, 0.5);
    row_max(w, m_new, m, s);
    rows_exp_difference(w, alpha, m, m_new);
    exp_rows(w, s, s, m_new);
    row_sum_scaled(w, l, alpha, s);
    convert(w, p, s);
    scale_rows(w, o, alpha);
    matmul_nn_add(w, o, p, k);
    convert(w, p_shared, p);
    rows_log_sum_exp(w, m, m, l);
    store(w, x->O, 0, o);
    atomic_add(w, x->O, 0, o);
}

static bool observe_tile(Context *x, const Profile *chip, Shape shape, TensorInstruction instruction, InstructionShape reach,
                         Costs *costs)
{
    Status status = {0};
    Machine machine;
    *costs = (Costs){.profile = chip};
    machine_init(&machine, chip, (MachineConfig){.mode = MODE_COUNT, .observe = observe, .observer = costs}, &x->alloc, &status);
    shape.K = machine_tensor(&machine, "K", shape.type, 1, 1, shape.keys, shape.d);
    shape.O = machine_tensor(&machine, "O", shape.type, 1, 1, shape.rows, shape.d);
    const Kernel kernel = {.name = "tile",
                           .instruction = instruction,
                           .shape = reach,
                           .threads = 32 * shape.warps,
                           .registers_per_thread = 255,
                           .run = one_tile};
    const bool ok = launch(&machine, &kernel, (Grid){1, 1, 1}, &shape);
    machine_free(&machine);
    check_true(&x->test, ok, status.text);
    return ok;
}

/* ---- by hand ---- */

typedef struct {
    Operation operation;
    uint64_t tensor, mufu, issue, shared, copy, hold;
} Expected;

/* H100: 4096 FLOP, 16 exponentials, 4 instructions, 128 bytes of shared memory and 170 GB/s / 1.83 GHz = 92.9 bytes of L2
 * per cycle. An instruction of a thread works on one element; four warps share a tile, each issues one instruction every 2.7 cycles.
 * 64 x 128 elements are 256 instructions of 32 lanes, 64 per warp. */
static const Expected by_hand[] = {
    {OP_FILL, 0, 0, 64, 0, 0, 173}, /* 256 / 4; 64 * 2.7 = 172.8 */
    {OP_FILL, 0, 0, 1, 0, 0, 3},    /* 64 rows: 2 instructions, 1 per warp */
    {OP_FILL, 0, 0, 1, 0, 0, 3},
    {OP_FILL, 0, 0, 64, 128, 0, 173}, /* 16 KiB of Q / 128 */
    {OP_LOAD, 0, 0, 0, 0, 353, 644},  /* 32 KiB at 170 GB/s and 1.83 GHz; + 291 of latency */
    {OP_SYNC, 0, 0, 0, 0, 0, 29},
    {OP_MATMUL, 512, 0, 0, 384, 0, 569}, /* 2*64*128*128 / 4096; (16 + 32 KiB) / 128; + 57 */
    {OP_ARRIVE, 0, 0, 0, 0, 0, 0},
    {OP_SCALE, 0, 0, 0, 0, 0, 0}, /* rides on the exponential's multiply-add */
    {OP_ROW_MAX, 0, 0, 64, 0, 0, 173},
    {OP_ROWS_EXP_DIFFERENCE, 0, 16, 10, 0, 0,
     27},                                  /* 64 rows * 4 lanes / 16; five times 256 / 32 instructions / 4; 10 per warp * 2.7 */
    {OP_EXP_ROWS, 0, 512, 320, 0, 0, 864}, /* 8192 / 16; five instructions each, 320 per warp * 2.7 */
    {OP_ROW_SUM, 0, 0, 64, 0, 0, 173},
    {OP_CONVERT, 0, 0, 32, 0, 0, 87}, /* two elements at a time: 32 * 2.7 = 86.4 */
    {OP_SCALE_ROWS, 0, 0, 64, 0, 0, 173},
    {OP_MATMUL, 512, 0, 0, 256, 0, 569},      /* P from registers: V alone, 32 KiB / 128 */
    {OP_CONVERT, 0, 0, 32, 128, 0, 128},      /* written to shared memory: 16 KiB / 128 */
    {OP_ROWS_LOG_SUM_EXP, 0, 0, 6, 0, 0, 17}, /* 3 * 256 / 32 = 24; 6 per warp * 2.7 = 16.2 */
    {OP_STORE, 0, 0, 0, 0, 177, 177},         /* BF16 in memory: 16 KiB */
    {OP_ATOMIC_ADD, 0, 0, 0, 0, 177, 177},
};

static void test_by_hand(Context *x)
{
    Status status = {0};
    Profile h100;
    Costs costs;
    profile_load("h100", &x->alloc, &h100, &status);
    if (!observe_tile(x, &h100, (Shape){.rows = 64, .keys = 128, .d = 128, .warps = 4, .type = ELEMENT_BF16}, TENSOR_WGMMA,
                      (InstructionShape){64, 256}, &costs))
        return;
    check_u64(&x->test, costs.count, sizeof by_hand / sizeof by_hand[0], "operations of the kernel");
    for (size_t i = 0; i < costs.count && i < sizeof by_hand / sizeof by_hand[0]; i++) {
        const Expected *e = &by_hand[i];
        const uint64_t expected[UNIT_KINDS] = {e->tensor, e->mufu, e->issue, e->shared, e->copy};
        char what[100];
        check_text(&x->test, operation_name(costs.operations[i]), operation_name(e->operation), "operation");
        for (int unit = 0; unit < UNIT_KINDS; unit++) {
            snprintf(what, sizeof what, "operation %zu, %s: cycles of %s", i, operation_name(e->operation),
                     unit_name((Unit)unit));
            check_u64(&x->test, costs.costs[i].occupancy[unit], expected[unit], what);
        }
        snprintf(what, sizeof what, "operation %zu, %s: hold", i, operation_name(e->operation));
        check_u64(&x->test, costs.costs[i].hold, e->hold, what);
    }
}

/* ---- beside silicon: a wgmma phase with its wait (CUDA C++, clock64, one warpgroup), 64 x 128 x k ---- */

static const Cost *find(const Costs *costs, Operation operation)
{
    for (size_t i = 0; i < costs->count; i++)
        if (costs->operations[i] == operation) return &costs->costs[i];
    return NULL;
}

static void test_silicon(Context *x)
{
    static const struct {
        uint32_t d;
        double measured;
    } phases[] = {{16, 119.2}, {64, 313.4}, {128, 569.4}, {256, 1081.4}};
    Status status = {0};
    Profile h200;
    Costs costs;
    profile_load("h200", &x->alloc, &h200, &status);
    for (size_t i = 0; i < sizeof phases / sizeof phases[0]; i++) {
        char what[80];
        if (!observe_tile(x, &h200, (Shape){.rows = 64, .keys = 128, .d = phases[i].d, .warps = 8, .type = ELEMENT_BF16},
                          TENSOR_WGMMA, (InstructionShape){64, 256}, &costs))
            continue;
        const Cost *product = find(&costs, OP_MATMUL);
        snprintf(what, sizeof what, "wgmma 64 x 128 x %u and wait, measured on an H200", phases[i].d);
        if (product != NULL) check_close(&x->test, (double)product->hold, phases[i].measured, 0.02, what);
    }
}

/* ---- instruction classes and types ---- */

static void test_rates(Context *x)
{
    static const struct {
        const char *chip;
        TensorInstruction instruction;
        ElementType type;
        uint64_t rate;
    } rates[] = {
        {"a100", TENSOR_MMA_SYNC, ELEMENT_BF16, 2048}, {"a100", TENSOR_MMA_SYNC, ELEMENT_E4M3, 2048},
        {"a100", TENSOR_WGMMA, ELEMENT_BF16, 0},       {"h100", TENSOR_MMA_SYNC, ELEMENT_BF16, 2686},
        {"h100", TENSOR_WGMMA, ELEMENT_BF16, 4096},    {"h100", TENSOR_WGMMA, ELEMENT_FP16, 4096},
        {"h100", TENSOR_WGMMA, ELEMENT_E4M3, 8192},    {"h100", TENSOR_WGMMA, ELEMENT_E5M2, 8192},
        {"b200", TENSOR_TCGEN05, ELEMENT_BF16, 8192},  {"b200", TENSOR_TCGEN05, ELEMENT_E4M3, 16384},
    };
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        Status status = {0};
        Profile chip;
        char what[80];
        snprintf(what, sizeof what, "%s, %s, %s: FLOP per cycle", rates[i].chip, tensor_instruction_name(rates[i].instruction),
                 element_name(rates[i].type));
        if (profile_load(rates[i].chip, &x->alloc, &chip, &status))
            check_u64(&x->test, tensor_rate(&chip, rates[i].instruction, rates[i].type), rates[i].rate, what);
    }
    check_u64(&x->test, cycles_at(10, 4), 3, "10 at 4 per cycle, rounded up");
    check_u64(&x->test, cycles_at(12, 4), 3, "12 at 4 per cycle");
    check_u64(&x->test, cycles_at(0, 4), 0, "nothing");
    check_u64(&x->test, cycles_at(10, PROFILE_UNLIMITED), 0, "an unlimited rate");
}

/* Field case J 55: the two products and the exponentials of a 128 x 128 tile. */
static void test_tile_accounts(Context *x)
{
    static const struct {
        const char *chip;
        TensorInstruction instruction;
        uint64_t d, matmul, exp;
    } tiles[] = {{"h100", TENSOR_WGMMA, 128, 2048, 1024},
                 {"h100", TENSOR_WGMMA, 64, 1024, 1024},
                 {"b200", TENSOR_TCGEN05, 128, 1024, 1024},
                 {"b200", TENSOR_TCGEN05, 64, 512, 1024}};
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++) {
        Status status = {0};
        Profile chip;
        if (!profile_load(tiles[i].chip, &x->alloc, &chip, &status)) continue;
        const uint64_t rate = tensor_rate(&chip, tiles[i].instruction, ELEMENT_FP16);
        check_u64(&x->test, cycles_at(4 * 128 * 128 * tiles[i].d, rate), tiles[i].matmul, "products: 4 M N d / F");
        check_u64(&x->test, cycles_at(128 * 128, chip.mufu_ops_per_cycle_per_sm), tiles[i].exp, "exponentials: M N / X");
    }
}

/* On ideal_sm products and exponentials cost what they cost on an H100, everything else nothing. */
static void test_ideal(Context *x)
{
    Status status = {0};
    Profile ideal;
    Costs costs;
    profile_load("ideal_sm", &x->alloc, &ideal, &status);
    if (!observe_tile(x, &ideal, (Shape){.rows = 128, .keys = 128, .d = 128, .warps = 4, .type = ELEMENT_BF16}, TENSOR_WGMMA,
                      (InstructionShape){64, 256}, &costs))
        return;
    for (size_t i = 0; i < costs.count; i++) {
        const Operation op = costs.operations[i];
        const uint64_t expected = op == OP_MATMUL || op == OP_EXP_ROWS ? 1024 : 0;
        check_u64(&x->test, costs.costs[i].hold, expected, operation_name(op));
    }
}

/* ---- measured ---- */

/* What looking at an mbarrier takes when the copy is there. */
static void test_copy_wait(Context *x)
{
    Status status = {0};
    Profile h200;
    CsvTable table;
    profile_load("h200", &x->alloc, &h200, &status);
    if (measured_load(&table, NULL, "h200_barriers", &x->alloc, &status))
        for (size_t i = 0; i < table.row_count; i++) {
            if (strcmp(named_text(&table, i, "name", &status), "mbarrier_wait") != 0 || named_count(&table, i, "threads", &status) != 128) continue;
            const uint64_t cycles = copy_wait_cycles(&h200);
            check_true(&x->test, named_count(&table, i, "least_cycles", &status) <= cycles && cycles <= named_count(&table, i, "mean_cycles", &status),
                       "an mbarrier: 42 to 46 cycles");
        }
    check_text(&x->test, status.text, "", "h200_barriers.csv");
    csv_free(&table);
}

/* cuDNN's forward kernel, by opcode: what is neither arithmetic of the softmax nor a product, over products. */
static void test_companions(Context *x)
{
    static const char *const softmax[] = {"FADD", "FMUL", "FMNMX", "MUFU", "F2FP"};
    Status status = {0};
    CsvTable table;
    if (measured_load(&table, NULL, "h200_opcodes", &x->alloc, &status))
        for (uint64_t d = 64; d <= 128; d += 64) {
            uint64_t others = 0, products = 0;
            for (size_t i = 0; i < table.row_count; i++) {
                const char *opcode = named_text(&table, i, "opcode", &status);
                const uint64_t count = named_count(&table, i, "warp_insts", &status);
                if (strcmp(named_text(&table, i, "kernel", &status), "cudnn") != 0 || strcmp(named_text(&table, i, "pass", &status), "fwd") != 0 ||
                    named_count(&table, i, "head_dim", &status) != d)
                    continue;
                bool arithmetic = false;
                for (size_t k = 0; k < sizeof softmax / sizeof softmax[0]; k++) arithmetic = arithmetic || strcmp(opcode, softmax[k]) == 0;
                if (strcmp(opcode, "HGMMA") == 0) products = count;
                else if (!arithmetic) others += count;
            }
            check_close(&x->test, (double)others / (double)max_u64(products, 1), 10, 0.1, "instructions that come with a wgmma");
        }
    check_text(&x->test, status.text, "", "h200_opcodes.csv");
    csv_free(&table);
}

/* FP8's products take half as many instructions, and half as many come with them: four an exponential for five. */
static void test_fp8_exponentials(Context *x)
{
    Status status = {0};
    Profile h100;
    Costs costs;
    uint64_t exponentials = 0;
    profile_load("h100", &x->alloc, &h100, &status);
    if (!observe_tile(x, &h100, (Shape){.rows = 64, .keys = 128, .d = 128, .warps = 4, .type = ELEMENT_E4M3}, TENSOR_WGMMA,
                      (InstructionShape){64, 256}, &costs))
        return;
    for (size_t i = 0; i < costs.count; i++)
        if (costs.operations[i] == OP_EXP_ROWS) {
            check_u64(&x->test, costs.costs[i].occupancy[UNIT_ISSUE], 256, "exponentials of an FP8 tile");
            exponentials++;
        }
    check_u64(&x->test, exponentials, 1, "exponentials");
}

int main(void)
{
    Context x = {0};
    test_fp8_exponentials(&x);
    test_copy_wait(&x);
    test_companions(&x);
    test_by_hand(&x);
    test_silicon(&x);
    test_rates(&x);
    test_tile_accounts(&x);
    test_ideal(&x);
    return test_end(&x.test, "test_cost");
}
