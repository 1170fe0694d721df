/* test_ops.c - the tile operations: what each computes, which shapes it takes and leaves, what it counts, which events it
 * reports.
 *
 * Counting must be the same whoever watches. In the common case (nobody computes, nobody looks) an operation is one addition;
 * with an observer or with numbers it goes the long way. Kernels of every operation, random sequences of operations and every
 * attention algorithm over random shapes must come out with equal counters on both ways.
 */
/* label: unit, property */
#include "test.h"

#include "support/count_case.h"

#include "sim/checked.h"
#include "sim/ops.h"

#include <math.h>
#include <stdlib.h>

typedef struct {
    Test test;
    Alloc alloc;
    Profile unbounded;
} Context;

typedef void Run(Block *block, const void *arguments, uint64_t index);

static Kernel kernel_of(Run *run)
{
    return (Kernel){.name = "kernel",
                    .instruction = TENSOR_MMA_SYNC,
                    .threads = 128,
                    .registers_per_thread = 255,
                    .shape = {3, 5},
                    .run = run};
}

/* matmul_flops_exact_mask of Totals. */
static uint64_t exact_flops(const Counts *counts) { return counts->matmul_flops - counts->matmul_flops_hidden; }

/* ------------------------------------------------------------------------------------------------------- names and prices */

/* The lecture's price list (§3.2). */
static void check_prices(Context *x)
{
    static const struct {
        Operation operation;
        const char *name;
        uint64_t price;
    } list[] = {
        {OP_LOAD, "load", 0},
        {OP_STORE, "store", 0},
        {OP_ATOMIC_ADD, "atomic_add", 0},
        {OP_MATMUL, "matmul", 0},
        {OP_ACCUMULATE, "accumulate", 1},
        {OP_MASK, "mask", 0},
        {OP_FILL, "fill", 0},
        {OP_CONVERT, "convert", 0},
        {OP_SCALE, "scale", 1},
        {OP_ADD, "add", 1},
        {OP_ROW_MAX, "row_max", 1},
        {OP_EXP_ROWS, "exp_rows", 2},
        {OP_ROW_SUM, "row_sum", 1},
        {OP_SCALE_ROWS, "scale_rows", 1},
        {OP_DIVIDE_ROWS, "divide_rows", 1},
        {OP_SUBTRACT_ROWS, "subtract_rows", 1},
        {OP_MULTIPLY, "multiply", 1},
        {OP_ROW_DOT, "row_dot", 2},
        {OP_RANDOM_KEEP, "random_keep", 0},
        {OP_DROPOUT, "dropout", 1},
        {OP_ARRIVE, "arrive", 0},
        {OP_SYNC, "sync", 0},
        {OP_ROWS_SCALE_ADD, "rows_scale_add", 2},
        {OP_ROWS_EXP_DIFFERENCE, "rows_exp_difference", 2},
        {OP_ROWS_MAX, "rows_max", 1},
        {OP_ROWS_MULTIPLY, "rows_multiply", 1},
        {OP_ROWS_ADD, "rows_add", 1},
        {OP_ROWS_LOG_SUM_EXP, "rows_log_sum_exp", 0},
    };
    check_u64(&x->test, sizeof list / sizeof list[0], OPERATION_KINDS, "every operation has a price");
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        check_text(&x->test, operation_name(list[i].operation), list[i].name, "name of an operation");
        check_u64(&x->test, operation_price(list[i].operation), list[i].price, list[i].name);
    }
}

/* ---------------------------------------------------------------------------------------------- what each operation computes */

/* x = [1 2; 3 4], y = [5 6; 7 8], r = [2; 4], t = [0.5; 0.25]; `out` starts as x. */
typedef struct {
    Tensor *X, *Y, *R, *T, *out;
    int number;
} Example;

typedef struct {
    const char *name;
    uint32_t cols;              /* of the result: 2, or 1 for one value per row */
    double want[4];
} Expected;

#define E 2.718281828459045
static const Expected examples[] = {
    {"matmul_nt", 2, {17, 23, 39, 53}},
    {"matmul_nt_scaled", 2, {8.5, 11.5, 19.5, 26.5}},
    {"matmul_nn", 2, {19, 22, 43, 50}},
    {"matmul_nn_add", 2, {20, 24, 46, 54}},
    {"matmul_nn_continue", 2, {20, 24, 46, 54}},
    {"matmul_tn", 2, {26, 30, 38, 44}},
    {"matmul_tn_add", 2, {27, 32, 41, 48}},
    {"matmul_tn_continue", 2, {27, 32, 41, 48}},
    {"mask", 2, {1, -INFINITY, 3, 4}},
    {"mask_gradient", 2, {1, 0, 3, 4}},
    {"fill", 2, {0.5, 0.5, 0.5, 0.5}},
    {"scale", 2, {0.5, 1, 1.5, 2}},
    {"add", 2, {6, 8, 10, 12}},
    {"convert", 2, {1, 2, 3, 4}},
    {"multiply", 2, {5, 12, 21, 32}},
    {"row_max", 1, {2, 4}},
    {"exp_rows", 2, {1 / E, 1, 1 / E, 1}},
    {"row_sum", 1, {3, 7}},
    {"row_sum_scaled", 1, {4, 8}},
    {"scale_rows", 2, {2, 4, 12, 16}},
    {"divide_rows", 2, {0.5, 1, 0.75, 1}},
    {"subtract_rows", 2, {-1, 0, -1, 0}},
    {"row_dot", 1, {17, 53}},
    {"rows_exp_difference", 1, {0.22313016014842982, 0.023517745856009107}},    /* e^-1.5, e^-3.75 */
    {"rows_max", 1, {2, 4}},
    {"rows_multiply", 1, {1, 1}},
    {"rows_add", 1, {2.5, 4.25}},
    {"rows_log_sum_exp", 1, {1.3068528194400546, 2.613705638880109}},           /* 2 - ln 2, 4 - 2 ln 2 */
    {"weigh_rows", 2, {2, 4, 12, 16}},
    {"weigh_rows, no keys in the second row", 2, {2, 4, 0, 0}},
    {"atomic_add", 2, {2, 4, 6, 8}},
};
enum { EXAMPLES = sizeof examples / sizeof examples[0] };

static void compute_example(Block *b, const void *arguments, uint64_t index)
{
    const Example *e = arguments;
    Stream *w = stream(b, "s", 1);
    Tile *x = register_tile(b, "x", ELEMENT_F64, 2, 2), *y = register_tile(b, "y", ELEMENT_F64, 2, 2),
         *o = register_tile(b, "o", ELEMENT_F64, 2, 2);
    Rows *r = row_vector(b, "r", ELEMENT_F64, 2), *t = row_vector(b, "t", ELEMENT_F64, 2),
         *q = row_vector(b, "q", ELEMENT_F64, 2);
    const Band causal = {-2, 0};
    (void)index;
    load(w, x, e->X, 0);
    load(w, y, e->Y, 0);
    load(w, r, e->R, 0);
    load(w, t, e->T, 0);
    load(w, o, e->X, 0);
    Tile *result = o;
    switch (e->number) {
    case 0: matmul_nt(w, o, x, y); break;
    case 1: matmul_nt_scaled(w, o, x, y, 0.5); break;
    case 2: matmul_nn(w, o, x, y); break;
    case 3: matmul_nn_add(w, o, x, y); break;
    case 4: matmul_nn_continue(w, o, x, y); break;
    case 5: matmul_tn(w, o, x, y); break;
    case 6: matmul_tn_add(w, o, x, y); break;
    case 7: matmul_tn_continue(w, o, x, y); break;
    case 8: mask(w, o, 0, 0, causal); break;
    case 9: mask_gradient(w, o, 0, 0, causal); break;
    case 10: fill(w, o, 2, 2, 0.5); break;
    case 11: scale(w, o, 0.5); break;
    case 12: add(w, o, y); break;
    case 13: convert(w, y, x); result = y; break;
    case 14: multiply(w, o, y); break;
    case 15: row_max(w, q, t, x); result = q; break;
    case 16: fill(w, q, 2, 1, 0.0); row_max(w, q, q, x); exp_rows(w, o, x, q); break;
    case 17: row_sum(w, q, x); result = q; break;
    case 18: row_sum_scaled(w, r, t, x); result = r; break;             /* 0.5 * 2 + 3, 0.25 * 4 + 7 */
    case 19: scale_rows(w, o, r); break;
    case 20: divide_rows(w, o, r); break;
    case 21: subtract_rows(w, o, r); break;
    case 22: row_dot(w, q, x, y); result = q; break;
    case 23: rows_exp_difference(w, q, t, r); result = q; break;
    case 24: rows_max(w, q, t, r); result = q; break;
    case 25: rows_multiply(w, q, t, r); result = q; break;
    case 26: rows_add(w, r, t); result = r; break;
    case 27: rows_log_sum_exp(w, q, r, t); result = q; break;
    case 28: weigh_rows(w, o, r, t); break;
    case 29: fill(w, q, 2, 1, 0.0); mask(w, q, 0, 0, (Band){0, 0}); weigh_rows(w, o, r, q); break;
    default: store(w, e->out, 0, o); atomic_add(w, e->out, 0, x); return;
    }
    store(w, e->out, 0, result);
}

static void set_values(const Machine *machine, Tensor *t, const double *values)
{
    for (uint64_t i = 0; i < tensor_elements(t); i++) tensor_set(machine, t, i, values[i]);
}

static void check_examples(Context *x)
{
    for (int i = 0; i < EXAMPLES; i++) {
        Status status = {0};
        Machine machine;
        const Kernel kernel = kernel_of(compute_example);
        machine_init(&machine, &x->unbounded, (MachineConfig){.mode = MODE_NUMERIC, .precision = PRECISION_F64, .poison = true},
                     &x->alloc, &status);
        Example e = {.X = machine_tensor(&machine, "X", ELEMENT_F64, 1, 1, 2, 2),
                     .Y = machine_tensor(&machine, "Y", ELEMENT_F64, 1, 1, 2, 2),
                     .R = machine_tensor(&machine, "R", ELEMENT_F64, 1, 1, 2, 1),
                     .T = machine_tensor(&machine, "T", ELEMENT_F64, 1, 1, 2, 1),
                     .out = machine_tensor(&machine, "out", ELEMENT_F64, 1, 1, 2, examples[i].cols),
                     .number = i};
        set_values(&machine, e.X, (const double[]){1, 2, 3, 4});
        set_values(&machine, e.Y, (const double[]){5, 6, 7, 8});
        set_values(&machine, e.R, (const double[]){2, 4});
        set_values(&machine, e.T, (const double[]){0.5, 0.25});
        check_true(&x->test, launch(&machine, &kernel, (Grid){1, 1, 1}, &e), status.text);
        for (uint64_t k = 0; k < tensor_elements(e.out); k++)
            check_close(&x->test, tensor_value(&machine, e.out, k), examples[i].want[k], 1e-15, examples[i].name);
        machine_free(&machine);
    }
}

/* A store rounds to the tensor's type, a conversion to the tile's. */
static void round_by_tile_and_tensor(Block *b, const void *arguments, uint64_t index)
{
    Tensor *const *tensors = arguments;
    Stream *w = stream(b, "s", 1);
    Tile *f = register_tile(b, "f", ELEMENT_F32, 1, 1), *h = register_tile(b, "h", ELEMENT_FP16, 1, 1);
    (void)index;
    load(w, f, tensors[0], 0);
    store(w, tensors[1], 0, f);
    convert(w, h, f);
    store(w, tensors[2], 0, h);
}

static void check_rounding(Context *x)
{
    Status status = {0};
    Machine machine;
    const Kernel kernel = kernel_of(round_by_tile_and_tensor);
    machine_init(&machine, &x->unbounded, (MachineConfig){.mode = MODE_NUMERIC}, &x->alloc, &status);
    Tensor *tensors[3] = {machine_tensor(&machine, "in", ELEMENT_F32, 1, 1, 1, 1),
                          machine_tensor(&machine, "bf16", ELEMENT_BF16, 1, 1, 1, 1),
                          machine_tensor(&machine, "f32", ELEMENT_F32, 1, 1, 1, 1)};
    tensor_set(&machine, tensors[0], 0, 1.0 + 0x1p-9);
    check_true(&x->test, launch(&machine, &kernel, (Grid){1, 1, 1}, tensors), status.text);
    check_close(&x->test, tensor_value(&machine, tensors[1], 0), 1.0, 0, "7 bits of mantissa");
    check_close(&x->test, tensor_value(&machine, tensors[2], 0), 1.0 + 0x1p-9, 0, "10 bits of mantissa");
    tensor_set(&machine, tensors[0], 0, 1.0 + 0x1p-11);
    launch(&machine, &kernel, (Grid){1, 1, 1}, tensors);
    check_close(&x->test, tensor_value(&machine, tensors[2], 0), 1.0, 0, "a tie, to even");
    machine_free(&machine);
}

/* ------------------------------------------------------------------------------------------------------------------ shapes */

typedef struct {
    Tensor *X, *S;
    uint32_t (*shapes)[2];      /* where the kernel leaves what it saw */
} Ragged;

static void note(uint32_t shape[2], const Tile *t)
{
    shape[0] = t->rows;
    shape[1] = t->cols;
}

/* X is 6 x 3, tiles are 4 x 5. */
static void go_ragged(Block *b, const void *arguments, uint64_t index)
{
    const Ragged *r = arguments;
    Stream *w = stream(b, "s", 1);
    Tile *x = shared_tile(b, "x", ELEMENT_F32, 4, 5), *k = shared_tile(b, "k", ELEMENT_F32, 4, 5),
         *s = register_tile(b, "s", ELEMENT_F32, 4, 4);
    Tile *p = register_tile(b, "p", ELEMENT_F32, 4, 4), *o = register_tile(b, "o", ELEMENT_F32, 4, 5),
         *part = register_tile(b, "part", ELEMENT_F32, 4, 2);
    Rows *m = row_vector(b, "m", ELEMENT_F32, 4), *l = row_vector(b, "l", ELEMENT_F32, 4);
    (void)index;
    load(w, x, r->X, 4);
    note(r->shapes[0], x);
    load(w, k, r->X, 1);
    note(r->shapes[1], k);
    matmul_nt(w, s, x, k);
    note(r->shapes[2], s);
    fill(w, m, 2, 1, -INFINITY);
    row_max(w, l, m, s);
    note(r->shapes[3], l);
    exp_rows(w, p, s, l);
    note(r->shapes[4], p);
    row_sum(w, m, p);
    note(r->shapes[5], m);
    matmul_nn(w, o, p, k);
    note(r->shapes[6], o);
    convert(w, k, o);
    note(r->shapes[7], k);
    store(w, r->X, 4, o);
    load_part(w, part, r->S, 5, 6);
    note(r->shapes[8], part);
}

static void check_ragged(Context *x)
{
    static const uint32_t want[9][2] = {{2, 3}, {4, 3}, {2, 4}, {2, 1}, {2, 4}, {2, 1}, {2, 3}, {2, 3}, {1, 1}};
    for (int mode = MODE_COUNT; mode <= MODE_NUMERIC; mode++) {
        Status status = {0};
        Machine machine;
        uint32_t got[9][2] = {{0}};
        const Kernel kernel = kernel_of(go_ragged);
        machine_init(&machine, &x->unbounded, (MachineConfig){.mode = (Mode)mode, .l2 = L2_NONE}, &x->alloc, &status);
        const Ragged r = {machine_tensor(&machine, "X", ELEMENT_F32, 1, 1, 6, 3),
                          machine_tensor(&machine, "S", ELEMENT_F32, 1, 1, 6, 7), got};
        check_true(&x->test, launch(&machine, &kernel, (Grid){1, 1, 1}, &r), status.text);
        for (int i = 0; i < 9; i++)
            for (int side = 0; side < 2; side++) check_u64(&x->test, got[i][side], want[i][side], "live rows and columns");
        const Counts *c = &machine.launches[0].counts;
        check_u64(&x->test, machine.ledger[0].traffic.l2_to_sm, 2 * 3 + 4 * 3, "live elements are moved");
        check_u64(&x->test, machine.ledger[0].traffic.sm_to_l2, 2 * 3, "live elements are moved");
        check_u64(&x->test, c->matmul_flops, 2 * 2 * 4 * 3 + 2 * 2 * 3 * 4, "live rows and columns are multiplied");
        /* Instruction shape 3 x 5: x once (4 columns), k once (2 rows); then p in registers, k once. */
        check_u64(&x->test, c->smem_operand_bytes, 4 * (2 * 3 + 4 * 3) + 4 * (4 * 3), "operands in shared memory");
        check_u64(&x->test, c->smem_thread_bytes, 4 * 2 * 3, "threads write k");
        check_u64(&x->test, c->smem_copy_bytes, 4 * (2 * 3 + 4 * 3), "copies into x and k");
        machine_free(&machine);
    }
}

/* Shared memory read by the instructions of a 10 x 12 product of depth 4: groups of m rows read B, groups of n columns read A. */
static void one_product(Block *b, const void *arguments, uint64_t index)
{
    const Space *spaces = arguments;
    Stream *w = stream(b, "s", 1);
    Tile *a = spaces[0] == SPACE_SHARED ? shared_tile(b, "a", ELEMENT_BF16, 10, 4) : register_tile(b, "a", ELEMENT_BF16, 10, 4);
    Tile *k = spaces[1] == SPACE_SHARED ? shared_tile(b, "b", ELEMENT_BF16, 4, 12) : register_tile(b, "b", ELEMENT_BF16, 4, 12);
    Tile *c = register_tile(b, "c", ELEMENT_F32, 10, 12);
    (void)index;
    fill(w, a, 10, 4, 0.0);
    fill(w, k, 4, 12, 0.0);
    matmul_nn(w, c, a, k);
}

static void check_operand_bytes(Context *x)
{
    static const struct {
        InstructionShape shape;
        Space spaces[2];
        uint64_t bytes;
    } rows[] = {
        {{0, 0}, {SPACE_SHARED, SPACE_SHARED}, 2 * (40 + 48)},
        {{10, 12}, {SPACE_SHARED, SPACE_SHARED}, 2 * (40 + 48)},
        {{5, 0}, {SPACE_SHARED, SPACE_SHARED}, 2 * (40 + 2 * 48)},
        {{9, 0}, {SPACE_SHARED, SPACE_SHARED}, 2 * (40 + 2 * 48)},
        {{1, 0}, {SPACE_SHARED, SPACE_SHARED}, 2 * (40 + 10 * 48)},
        {{0, 6}, {SPACE_SHARED, SPACE_SHARED}, 2 * (2 * 40 + 48)},
        {{0, 5}, {SPACE_SHARED, SPACE_SHARED}, 2 * (3 * 40 + 48)},
        {{5, 5}, {SPACE_REGISTERS, SPACE_SHARED}, 2 * 2 * 48},
        {{5, 5}, {SPACE_SHARED, SPACE_REGISTERS}, 2 * 3 * 40},
        {{5, 5}, {SPACE_REGISTERS, SPACE_REGISTERS}, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        Status status = {0};
        Machine machine;
        Kernel kernel = kernel_of(one_product);
        kernel.shape = rows[i].shape;
        machine_init(&machine, &x->unbounded, (MachineConfig){.mode = MODE_COUNT}, &x->alloc, &status);
        check_true(&x->test, launch(&machine, &kernel, (Grid){1, 1, 1}, rows[i].spaces), status.text);
        check_u64(&x->test, machine.launches[0].counts.smem_operand_bytes, rows[i].bytes, "operand bytes by instruction shape");
        machine_free(&machine);
    }
}

/* A product whose result lies in shared memory: written once, or read and written when it adds. */
static void product_in_shared_memory(Block *b, const void *arguments, uint64_t index)
{
    Stream *w = stream(b, "s", 1);
    Tile *a = register_tile(b, "a", ELEMENT_F32, 3, 3), *c = shared_tile(b, "c", ELEMENT_F32, 3, 3);
    (void)arguments;
    (void)index;
    fill(w, a, 3, 3, 1.0);
    matmul_nn(w, c, a, a);
    matmul_nn_add(w, c, a, a);
    matmul_tn_continue(w, c, a, a);
}

static void check_product_in_shared_memory(Context *x)
{
    Status status = {0};
    Machine machine;
    const Kernel kernel = kernel_of(product_in_shared_memory);
    machine_init(&machine, &x->unbounded, (MachineConfig){.mode = MODE_COUNT}, &x->alloc, &status);
    check_true(&x->test, launch(&machine, &kernel, (Grid){1, 1, 1}, NULL), status.text);
    check_u64(&x->test, machine.launches[0].counts.smem_thread_bytes, 4 * 9 * (1 + 2 + 2), "results in shared memory");
    check_u64(&x->test, machine.launches[0].counts.elements[OP_ACCUMULATE], 9, "only the addition is priced");
    machine_free(&machine);
}

/* Wrong shapes, one per row of the table below. Tiles: a 2 x 3, c 3 x 2, e 2 x 2; rows m 2, n 3; X is 6 x 3. */
typedef struct {
    Tensor *X;
    int number;
} Misuse;

static const char *const misuses[] = {
    "kernel: matmul: tile a is 2 x 3, expected 2 x 2",
    "kernel: matmul: tile a is 2 x 3, expected 3 x 3",
    "kernel: matmul: tile c is 3 x 2, expected 2 x 2",
    "kernel: add: tile a is 2 x 3, expected 2 x 2",
    "kernel: row_max: tile n is 3 x 1, expected 2 x 1",
    "kernel: exp_rows: tile n is 3 x 1, expected 2 x 1",
    "kernel: row_sum: tile n is 3 x 1, expected 2 x 1",
    "kernel: scale_rows: tile n is 3 x 1, expected 2 x 1",
    "kernel: divide_rows: tile n is 3 x 1, expected 2 x 1",
    "kernel: rows_exp_difference: tile n is 3 x 1, expected 2 x 1",
    "kernel: rows_max: tile n is 3 x 1, expected 2 x 1",
    "kernel: rows_multiply: tile n is 3 x 1, expected 2 x 1",
    "kernel: rows_add: tile n is 3 x 1, expected 2 x 1",
    "kernel: rows_log_sum_exp: tile n is 3 x 1, expected 2 x 1",
    "kernel: row 6, column 0 is outside tensor X",
    "kernel: row 0, column 3 is outside tensor X",
    "kernel: 2 x 3 does not fit tile e of 2 x 2",
    "kernel: 3 x 2 does not fit tile e of 2 x 2",
    "kernel: 3 x 1 does not fit tile m of 2 x 1",
    "kernel: 2 x 3 does not fit tile c of 3 x 2",
    "kernel: store: tile a is 2 x 3, expected 1 x 3",
    "kernel: store: tile e is 2 x 2, expected 2 x 1",
    "kernel: row 6, column 0 is outside tensor X",
    "kernel: subtract_rows: tile n is 3 x 1, expected 2 x 1",
    "kernel: multiply: tile a is 2 x 3, expected 2 x 2",
    "kernel: row_dot: tile c is 3 x 2, expected 2 x 3",
    "kernel: dropout: tile c is 3 x 2, expected 2 x 3",
    "kernel: row 6, column 0 is outside tensor X",
};

static void misuse(Block *b, const void *arguments, uint64_t index)
{
    const Misuse *u = arguments;
    Stream *w = stream(b, "s", 1);
    Tile *a = register_tile(b, "a", ELEMENT_F32, 2, 3), *c = register_tile(b, "c", ELEMENT_F32, 3, 2),
         *e = register_tile(b, "e", ELEMENT_F32, 2, 2);
    Rows *m = row_vector(b, "m", ELEMENT_F32, 2), *n = row_vector(b, "n", ELEMENT_F32, 3),
         *l = row_vector(b, "l", ELEMENT_F32, 2);
    (void)index;
    fill(w, a, 2, 3, 1.0);
    fill(w, c, 3, 2, 1.0);
    fill(w, e, 2, 2, 1.0);
    fill(w, m, 2, 1, 1.0);
    fill(w, n, 3, 1, 1.0);
    fill(w, l, 2, 1, 1.0);
    switch (u->number) {
    case 0: matmul_nt(w, e, e, a); break;
    case 1: matmul_nn(w, a, a, a); break;
    case 2: matmul_nn_add(w, c, a, c); break;
    case 3: add(w, e, a); break;
    case 4: row_max(w, m, n, a); break;
    case 5: exp_rows(w, a, a, n); break;
    case 6: row_sum_scaled(w, m, n, a); break;
    case 7: scale_rows(w, a, n); break;
    case 8: divide_rows(w, a, n); break;
    case 9: rows_exp_difference(w, l, m, n); break;
    case 10: rows_max(w, l, m, n); break;
    case 11: rows_multiply(w, l, m, n); break;
    case 12: rows_add(w, m, n); break;
    case 13: rows_log_sum_exp(w, l, m, n); break;
    case 14: load(w, a, u->X, 6); break;
    case 15: load_part(w, a, u->X, 0, 3); break;
    case 16: load(w, e, u->X, 0); break;
    case 17: fill(w, e, 3, 2, 0.0); break;
    case 18: row_sum(w, m, c); break;
    case 19: convert(w, c, a); break;
    case 20: store(w, u->X, 5, a); break;
    case 21: store_part(w, u->X, 0, 2, e); break;
    case 22: store(w, u->X, 6, a); break;
    case 23: subtract_rows(w, a, n); break;
    case 24: multiply(w, e, a); break;
    case 25: row_dot(w, m, a, c); break;
    case 26: apply_dropout(w, a, a, c, 0.5); break;
    default: atomic_add(w, u->X, 6, a); break;
    }
}

static void check_misuse(Context *x)
{
    for (int i = 0; i < (int)(sizeof misuses / sizeof misuses[0]); i++)
        for (int mode = MODE_COUNT; mode <= MODE_NUMERIC; mode++) {
            Status status = {0};
            Machine machine;
            const Kernel kernel = kernel_of(misuse);
            machine_init(&machine, &x->unbounded, (MachineConfig){.mode = (Mode)mode, .l2 = L2_IDEAL}, &x->alloc, &status);
            const Misuse u = {machine_tensor(&machine, "X", ELEMENT_F32, 1, 1, 6, 3), i};
            check_true(&x->test, !launch(&machine, &kernel, (Grid){1, 1, 1}, &u), misuses[i]);
            check_text(&x->test, status.text, misuses[i], mode == MODE_COUNT ? "misuse, counting" : "misuse, computing");
            check_u64(&x->test, status.code, STATUS_INFEASIBLE, misuses[i]);
            machine_free(&machine);
        }
}

/* ------------------------------------------------------------------------------------------------------------------- masks */

enum { MASK_ROWS = 4, MASK_COLS = 5, MASK_DEPTH = 3 };

typedef struct {
    Tensor *S;
    uint64_t row, col;
    Band band;
    bool declare;
    uint32_t step;              /* rows of S per row of the band; 0: mask(), not mask_stacked() */
} Masked;

static void mask_and_store(Block *b, const void *arguments, uint64_t index)
{
    const Masked *a = arguments;
    Stream *w = stream(b, "s", 1);
    Tile *q = register_tile(b, "q", ELEMENT_F64, MASK_ROWS, MASK_DEPTH),
         *k = register_tile(b, "k", ELEMENT_F64, MASK_COLS, MASK_DEPTH);
    Tile *s = register_tile(b, "s", ELEMENT_F64, MASK_ROWS, MASK_COLS),
         *o = register_tile(b, "o", ELEMENT_F64, MASK_ROWS, MASK_DEPTH);
    (void)index;
    fill(w, q, MASK_ROWS, MASK_DEPTH, 1.0);
    fill(w, k, MASK_COLS, MASK_DEPTH, 1.0);
    matmul_nt(w, s, q, k);
    if (a->declare) declare_masked(w, s, a->row, a->col, a->band);
    else if (a->step > 0) mask_stacked(w, s, a->row, a->col, a->band, a->step);
    else mask(w, s, a->row, a->col, a->band);
    store(w, a->S, 0, s);
    matmul_nn(w, o, s, k);
}

/* Each (query, key) pair by the definition: row i sees column j iff i + low <= j <= i + high. */
static void check_mask(Context *x, Masked a, Mode mode)
{
    Status status = {0};
    Machine machine;
    uint64_t visible = 0;
    const Kernel kernel = kernel_of(mask_and_store);
    machine_init(&machine, &x->unbounded, (MachineConfig){.mode = mode, .precision = PRECISION_F64}, &x->alloc, &status);
    a.S = machine_tensor(&machine, "S", ELEMENT_F64, 1, 1, MASK_ROWS, MASK_COLS);
    check_true(&x->test, launch(&machine, &kernel, (Grid){1, 1, 1}, &a), status.text);
    for (uint64_t i = 0; i < MASK_ROWS; i++)
        for (uint64_t j = 0; j < MASK_COLS; j++) {
            const int64_t row = (int64_t)((a.row + i) / (a.step > 0 ? a.step : 1)), col = (int64_t)(a.col + j);
            const bool seen = row + a.band.low <= col && col <= row + a.band.high;
            visible += seen;
            if (mode == MODE_NUMERIC)
                check_close(&x->test, tensor_value(&machine, a.S, i * MASK_COLS + j), seen || a.declare ? MASK_DEPTH : -INFINITY,
                            0, "masked scores");
        }
    const Counts *c = &machine.launches[0].counts;
    const uint64_t first_product = a.declare ? MASK_ROWS * MASK_COLS : visible;
    check_u64(&x->test, c->matmul_flops, 2 * 2 * MASK_ROWS * MASK_COLS * MASK_DEPTH, "all pairs of both products");
    check_u64(&x->test, exact_flops(c), 2 * MASK_DEPTH * (first_product + visible), "visible pairs of both products");
    check_u64(&x->test, c->elements[OP_MASK], a.declare || visible == MASK_ROWS * MASK_COLS ? 0 : MASK_ROWS * MASK_COLS,
              "masking, where needed");
    machine_free(&machine);
}

static void check_masks(Context *x)
{
    for (int64_t low = -9; low <= 5; low++)
        for (int64_t high = low; high <= 9; high += 2)
            for (uint64_t at = 0; at < 4; at++) {
                const Masked a = {.row = at / 2 * 3, .col = at % 2 * 4, .band = {low, high}};
                Masked declared = a;
                declared.declare = true;
                check_mask(x, a, MODE_COUNT);
                check_mask(x, a, MODE_NUMERIC);
                check_mask(x, declared, MODE_NUMERIC);
                for (uint32_t step = 1; step <= 5; step++) {
                    Masked stacked = a;
                    stacked.step = step;
                    check_mask(x, stacked, MODE_COUNT);
                    check_mask(x, stacked, MODE_NUMERIC);
                }
            }
}

/* A second mask hides more: what is seen lies in both bands. Rows 0..3, columns 0..4: j <= i and j >= i - 1, in either order. */
typedef struct {
    Tensor *S;
    Band first, second;
} TwoMasks;

static void mask_twice(Block *b, const void *arguments, uint64_t index)
{
    const TwoMasks *a = arguments;
    Stream *w = stream(b, "s", 1);
    Tile *q = register_tile(b, "q", ELEMENT_F32, 4, 3), *k = register_tile(b, "k", ELEMENT_F32, 5, 3);
    Tile *s = register_tile(b, "s", ELEMENT_F32, 4, 5);
    (void)index;
    fill(w, q, 4, 3, 1.0);
    fill(w, k, 5, 3, 1.0);
    matmul_nt(w, s, q, k);
    mask(w, s, 0, 0, a->first);
    mask(w, s, 0, 0, a->second);
    mask(w, s, 0, 0, (Band){-9, 9});                        /* hides nothing */
    store(w, a->S, 0, s);
    convert(w, s, s);                                       /* a copy is banded like its source */
    matmul_nn(w, q, s, k);
}

static void check_mask_twice(Context *x)
{
    static const Band bands[2] = {{-9, 0}, {-1, 9}};
    for (int mode = MODE_COUNT; mode <= MODE_NUMERIC; mode++)
        for (int order = 0; order < 2; order++) {
            Status status = {0};
            Machine machine;
            const Kernel kernel = kernel_of(mask_twice);
            machine_init(&machine, &x->unbounded, (MachineConfig){.mode = (Mode)mode}, &x->alloc, &status);
            const TwoMasks a = {machine_tensor(&machine, "S", ELEMENT_F32, 1, 1, 4, 5), bands[order], bands[1 - order]};
            check_true(&x->test, launch(&machine, &kernel, (Grid){1, 1, 1}, &a), status.text);
            check_u64(&x->test, exact_flops(&machine.launches[0].counts), 2 * 2 * 3 * 7, "1 + 2 + 2 + 2 pairs, twice");
            for (uint64_t i = 0; mode == MODE_NUMERIC && i < 20; i++) {
                const uint64_t row = i / 5, col = i % 5;
                const double want = col == row || col + 1 == row ? 3 : -INFINITY;
                check_close(&x->test, tensor_value(&machine, a.S, i), want, 0, "masked twice");
            }
            machine_free(&machine);
        }
}

/* Only the product that filled a tile gives pairs back: not one whose result was overwritten since. */
static void mask_after_overwrite(Block *b, const void *arguments, uint64_t index)
{
    Tensor *const *tensors = arguments;
    Stream *w = stream(b, "s", 1);
    Tile *q = register_tile(b, "q", ELEMENT_F32, 4, 3), *s = register_tile(b, "s", ELEMENT_F32, 4, 4);
    (void)index;
    fill(w, q, 4, 3, 1.0);
    load(w, s, tensors[0], 0);
    matmul_nt(w, s, q, q);
    load(w, s, tensors[0], 0);
    mask(w, s, 0, 0, (Band){0, 0});
    matmul_nt(w, s, q, q);
    fill(w, s, 4, 4, 0.0);
    mask(w, s, 0, 0, (Band){0, 0});
    matmul_nt(w, s, q, q);
    mask(w, s, 0, 0, (Band){0, 0});
}

static void check_mask_after_overwrite(Context *x)
{
    for (int mode = MODE_COUNT; mode <= MODE_NUMERIC; mode++) {
        Status status = {0};
        Machine machine;
        const Kernel kernel = kernel_of(mask_after_overwrite);
        machine_init(&machine, &x->unbounded, (MachineConfig){.mode = (Mode)mode, .l2 = L2_NONE}, &x->alloc, &status);
        Tensor *S = machine_tensor(&machine, "S", ELEMENT_F32, 1, 1, 4, 4);
        check_true(&x->test, launch(&machine, &kernel, (Grid){1, 1, 1}, &S), status.text);
        check_u64(&x->test, exact_flops(&machine.launches[0].counts), 2 * 3 * (16 + 16 + 4),
                  "pairs given back by the last product only");
        machine_free(&machine);
    }
}

/* ------------------------------------------------------------------------------------------------------------------ events */

enum { MOST_EVENTS = 40, EVENT_TEXT = 80 };

typedef struct {
    char text[MOST_EVENTS][EVENT_TEXT];
    int count;
} EventLog;

/* "compute matmul S <- Q K" */
static void log_event(void *observer, const Event *event)
{
    EventLog *log = observer;
    char *text = log->text[log->count++ % MOST_EVENTS];
    int used = snprintf(text, EVENT_TEXT, "%s %s", event->stream->name, operation_name(event->operation));
    for (int i = 0; i < EVENT_TILES && event->written[i] != NULL; i++)
        used += snprintf(text + used, EVENT_TEXT - (size_t)used, " %s", event->written[i]->name);
    if (event->read[0] != NULL) used += snprintf(text + used, EVENT_TEXT - (size_t)used, " <-");
    for (int i = 0; i < EVENT_TILES && event->read[i] != NULL; i++)
        used += snprintf(text + used, EVENT_TEXT - (size_t)used, " %s", event->read[i]->name);
}

/* Every operation once, on two streams. X: 6 x 4 per head, tiles of 4 rows: the second block is ragged. */
typedef struct {
    Tensor *X, *Y;
} Everything;

static void do_everything(Block *b, const void *arguments, uint64_t index)
{
    const Everything *f = arguments;
    Stream *w = stream(b, "compute", 4), *copy = stream(b, "copy", 1);
    Tile *q = shared_tile(b, "Q", ELEMENT_BF16, 4, 4), *k = shared_tile(b, "K", ELEMENT_BF16, 4, 4),
         *s = register_tile(b, "S", ELEMENT_F32, 4, 4);
    Tile *p = tile_view(s, "P", ELEMENT_BF16, 4, 4), *o = register_tile(b, "O", ELEMENT_F32, 4, 4),
         *z = register_tile(b, "Z", ELEMENT_E4M3, 4, 4);
    Rows *m = row_vector(b, "m", ELEMENT_F32, 4), *m_new = row_vector(b, "m_new", ELEMENT_F32, 4),
         *l = row_vector(b, "l", ELEMENT_F32, 4);
    Rows *alpha = shared_tile(b, "alpha", ELEMENT_F32, 4, 1);
    const Dropout dropout = {.p = 0.5, .seed = 1};
    const uint64_t row = 4 * index;
    load(copy, q, f->X, row);
    load_part(copy, k, f->X, row, 0);
    fill(w, m, q->rows, 1, -INFINITY);
    fill(w, o, q->rows, 4, 0.0);
    matmul_nt(w, s, q, k);
    scale(w, s, 0.5);
    mask(w, s, row, row, (Band){-9, 0});
    row_max(w, m_new, m, s);
    rows_exp_difference(w, alpha, m, m_new);
    exp_rows(w, s, s, m_new);
    row_sum(w, l, s);
    row_sum_scaled(w, l, alpha, s);
    random_keep(w, z, f->X, row, row, s->rows, s->cols, &dropout);
    apply_dropout(w, p, s, z, 0.5);
    convert(w, p, s);
    matmul_nn_add(w, o, p, k);
    matmul_nn_continue(w, o, p, k);
    matmul_nn(w, o, p, k);
    matmul_tn(w, s, q, k);
    add(w, o, q);
    multiply(w, o, q);
    scale_rows(w, o, alpha);
    divide_rows(w, o, l);
    subtract_rows(w, o, m_new);
    row_dot(w, m, o, q);
    rows_max(w, m, m_new, l);
    rows_multiply(w, m, m_new, l);
    rows_add(w, m, l);
    rows_log_sum_exp(w, l, m, l);
    store(copy, f->Y, row, o);
    store_part(copy, f->Y, row, 0, o);
    atomic_add(copy, f->Y, row, o);
}

static const char *const expected_events[] = {
    "copy load Q",
    "copy load K",
    "compute fill m",
    "compute fill O",
    "compute matmul S <- Q K",
    "compute scale S <- S",
    "compute mask S <- S",
    "compute row_max m_new <- m S",
    "compute rows_exp_difference alpha <- m m_new",
    "compute exp_rows S <- S m_new",
    "compute row_sum l <- S",
    "compute row_sum l <- l alpha S",
    "compute random_keep Z",
    "compute dropout P <- S Z",
    "compute convert P <- S",
    "compute matmul O <- P K O",
    "compute matmul O <- P K O",
    "compute matmul O <- P K",
    "compute matmul S <- Q K",
    "compute add O <- O Q",
    "compute multiply O <- O Q",
    "compute scale_rows O <- O alpha",
    "compute divide_rows O <- O l",
    "compute subtract_rows O <- O m_new",
    "compute row_dot m <- O Q",
    "compute rows_max m <- m_new l",
    "compute rows_multiply m <- m_new l",
    "compute rows_add m <- m l",
    "compute rows_log_sum_exp l <- m l",
    "copy store <- O",
    "copy store <- O",
    "copy atomic_add <- O",
};
enum { EXPECTED_EVENTS = sizeof expected_events / sizeof expected_events[0] };

static bool run_everything(Context *x, Machine *machine, MachineConfig config, Grid grid, Status *status)
{
    const Kernel kernel = kernel_of(do_everything);
    machine_init(machine, &x->unbounded, config, &x->alloc, status);
    const Everything f = {machine_tensor(machine, "X", ELEMENT_BF16, grid.batch, 1, 6, 4),
                          machine_tensor(machine, "Y", ELEMENT_F32, grid.batch, grid.heads, 6, 4)};
    return launch(machine, &kernel, grid, &f);
}

static void check_events(Context *x)
{
    for (int mode = MODE_COUNT; mode <= MODE_NUMERIC; mode++) {
        Status status = {0};
        Machine machine;
        EventLog log = {.count = 0};
        const MachineConfig config = {.mode = (Mode)mode, .observe = log_event, .observer = &log};
        check_true(&x->test, run_everything(x, &machine, config, (Grid){1, 1, 1}, &status), status.text);
        check_u64(&x->test, (uint64_t)log.count, EXPECTED_EVENTS, "events of the kernel of every operation");
        for (int i = 0; i < EXPECTED_EVENTS; i++)
            check_text(&x->test, log.text[i], expected_events[i], "events in program order");
        machine_free(&machine);
    }
}

/* ------------------------------------------------------------------------------------------------ the same counts on all ways */

static void see_nothing(void *observer, const Event *event)
{
    (void)observer;
    (void)event;
}

static void check_counts(Context *x, const Counts *got, const Counts *want, const char *what)
{
    char text[400];
    for (int kind = 0; kind < OPERATION_KINDS; kind++) {
        snprintf(text, sizeof text, "%s: %s", what, operation_name((Operation)kind));
        check_u64(&x->test, got->elements[kind], want->elements[kind], text);
    }
    check_u64(&x->test, got->matmul_flops, want->matmul_flops, what);
    check_u64(&x->test, got->matmul_flops_hidden, want->matmul_flops_hidden, what);
    check_u64(&x->test, got->smem_operand_bytes, want->smem_operand_bytes, what);
    check_u64(&x->test, got->smem_thread_bytes, want->smem_thread_bytes, what);
    check_u64(&x->test, got->smem_copy_bytes, want->smem_copy_bytes, what);
    check_u64(&x->test, got->overflow, want->overflow, what);
}

/* Launch by launch, ledger row by ledger row. */
static void check_same_machine(Context *x, const Machine *got, const Machine *want, const char *what)
{
    check_u64(&x->test, got->launch_count, want->launch_count, what);
    check_u64(&x->test, got->ledger_count, want->ledger_count, what);
    for (uint32_t i = 0; i < got->launch_count && i < want->launch_count; i++) {
        const LaunchRecord *a = &got->launches[i], *b = &want->launches[i];
        check_counts(x, &a->counts, &b->counts, what);
        check_u64(&x->test, a->blocks, b->blocks, what);
        check_u64(&x->test, a->smem_peak_bytes, b->smem_peak_bytes, what);
        check_u64(&x->test, a->register_peak_bytes, b->register_peak_bytes, what);
    }
    for (uint32_t i = 0; i < got->ledger_count && i < want->ledger_count; i++) {
        const Traffic *a = &got->ledger[i].traffic, *b = &want->ledger[i].traffic;
        check_text(&x->test, got->ledger[i].tensor->name, want->ledger[i].tensor->name, what);
        check_u64(&x->test, a->l2_to_sm, b->l2_to_sm, what);
        check_u64(&x->test, a->sm_to_l2, b->sm_to_l2, what);
        check_u64(&x->test, a->hbm_read, b->hbm_read, what);
        check_u64(&x->test, a->hbm_write, b->hbm_write, what);
        check_u64(&x->test, a->atomic_adds, b->atomic_adds, what);
    }
}

/* Every operation, in every mode, and one head multiplied; and the known counts of one full and one ragged block. */
static void check_everything(Context *x)
{
    static const uint64_t elements[OPERATION_KINDS] = {
        [OP_LOAD] = 2 * 2,           [OP_STORE] = 2 * 2,
        [OP_ATOMIC_ADD] = 2,         [OP_MATMUL] = (16 + 4) + 3 * (16 + 8) + (16 + 16),
        [OP_ACCUMULATE] = 16 + 8,    [OP_MASK] = 16 + 4,
        [OP_FILL] = 4 + 16 + 2 + 8,  [OP_CONVERT] = 16 + 4,
        [OP_SCALE] = 16 + 4,         [OP_ADD] = 16 + 8,
        [OP_ROW_MAX] = 16 + 4,       [OP_EXP_ROWS] = 16 + 4,
        [OP_ROW_SUM] = 2 * (16 + 4), [OP_SCALE_ROWS] = 16 + 8,
        [OP_DIVIDE_ROWS] = 16 + 8,   [OP_SUBTRACT_ROWS] = 16 + 8,
        [OP_MULTIPLY] = 16 + 8,      [OP_ROW_DOT] = 16 + 8,
        [OP_RANDOM_KEEP] = 16 + 4,   [OP_DROPOUT] = 16 + 4,
        [OP_ROWS_SCALE_ADD] = 4 + 2, [OP_ROWS_EXP_DIFFERENCE] = 4 + 2,
        [OP_ROWS_MAX] = 4 + 2,       [OP_ROWS_MULTIPLY] = 4 + 2,
        [OP_ROWS_ADD] = 4 + 2,       [OP_ROWS_LOG_SUM_EXP] = 4 + 2};
    static const MachineConfig ways[] = {{.mode = MODE_COUNT, .walk_all_heads = true},
                                         {.mode = MODE_COUNT, .observe = see_nothing},
                                         {.mode = MODE_NUMERIC},
                                         {.mode = MODE_NUMERIC, .precision = PRECISION_F64, .poison = true}};
    for (int l2 = L2_NONE; l2 <= L2_IDEAL; l2++) {
        Status status = {0};
        Machine one;
        Totals totals;
        const Grid grid = {2, 3, 2};
        uint64_t priced = 0;
        run_everything(x, &one, (MachineConfig){.mode = MODE_COUNT, .l2 = (L2Model)l2}, grid, &status);
        for (int kind = 0; kind < OPERATION_KINDS; kind++) {
            check_u64(&x->test, one.launches[0].counts.elements[kind], 6 * elements[kind], operation_name((Operation)kind));
            priced += 6 * elements[kind] * operation_price((Operation)kind);
        }
        check_true(&x->test, machine_totals(&one, &totals), status.text);
        check_u64(&x->test, totals.nonmatmul_ops, priced, "elements x price");
        check_u64(&x->test, totals.exp_ops, 6 * (16 + 4 + 4 + 2), "one exponential per element and per row");
        check_u64(&x->test, totals.atomic_elements, 6 * 2 * 24, "2 per addition");
        for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
            Machine other;
            MachineConfig config = ways[i];
            config.l2 = (L2Model)l2;
            run_everything(x, &other, config, grid, &status);
            check_same_machine(x, &other, &one, "the kernel of every operation");
            machine_free(&other);
        }
        check_text(&x->test, status.text, "", "the kernel of every operation");
        machine_free(&one);
    }
}

/* --- random sequences of operations */

enum { SIDE = 6, TILE_POOL = 6, ROW_POOL = 5 };

typedef struct {
    Tensor *T, *U;
    uint64_t seed;
    int steps;
} Sequence;

typedef struct {
    Stream *w;
    Tile *tiles[TILE_POOL];     /* four in registers, two in shared memory */
    Rows *rows[ROW_POOL];       /* four in registers, one in shared memory */
    const Sequence *sequence;
    uint64_t random;
} Player;

static bool is_square(const Tile *t) { return t->rows == SIDE && t->cols == SIDE; }

/* One operation on tiles of the pool, or none if their shapes do not fit each other. Products never write an operand. */
static void step_tiles(const Player *g, int operation, Tile *a, Tile *b, Tile *c, Rows *m, Rows *l, uint64_t value)
{
    const bool fits = m->rows == a->rows && l->rows == a->rows && a->rows > 0;
    const Band band = {(int64_t)(value % 13) - 6, (int64_t)(value % 13) - 6 + (int64_t)(value % 5)};
    switch (operation) {
    case 0: load(g->w, a, g->sequence->T, value % 17); break;
    case 1: load_part(g->w, a, g->sequence->U, value % 3 * SIDE, value % 2 * SIDE); break;
    case 2: if (a != c && b != c && a->cols == b->cols) matmul_nt(g->w, c, a, b); break;
    case 3: if (a != c && b != c && a->cols == b->rows) matmul_nn(g->w, c, a, b); break;
    case 4: if (a != c && b != c && is_square(a) && is_square(b) && is_square(c)) matmul_nn_add(g->w, c, a, b); break;
    case 5: if (a != c && b != c && is_square(a) && is_square(b) && is_square(c)) matmul_nn_continue(g->w, c, a, b); break;
    case 6: mask(g->w, a, value % 4, value % 7, band); break;
    case 7: declare_masked(g->w, a, value % 4, value % 7, band); break;
    case 8: fill(g->w, a, value % 3 ? SIDE : 1 + (uint32_t)value % SIDE, SIDE, 1.0); break;
    case 9: scale(g->w, a, 0.5); break;
    case 10: if (a->rows == b->rows && a->cols == b->cols) add(g->w, a, b); break;
    case 11: if (a != b) convert(g->w, a, b); break;
    case 12: if (m->rows == a->rows) row_max(g->w, l, m, a); break;
    case 13: if (m->rows == a->rows) exp_rows(g->w, value % 2 ? a : b, a, m); break;
    case 14: if (a->rows > 0) row_sum(g->w, m, a); break;
    case 15: if (fits) row_sum_scaled(g->w, l, m, a); break;
    case 16: if (fits) scale_rows(g->w, a, m); break;
    case 17: if (fits) divide_rows(g->w, a, m); break;
    case 18: if (a->rows > 0 && g->sequence->T->cols == a->cols) store(g->w, g->sequence->T, value % (18 - a->rows), a); break;
    case 19: if (fits) subtract_rows(g->w, a, l); break;
    case 20: if (a->rows == b->rows && a->cols == b->cols) multiply(g->w, a, b); break;
    case 21: if (a->rows == b->rows && a->cols == b->cols && a->rows > 0) row_dot(g->w, m, a, b); break;
    case 22: if (a != c && b != c && a->rows == b->rows && a->rows > 0) matmul_tn(g->w, c, a, b); break;
    default: break;
    }
}

static void step_rows(const Player *g, int operation, Rows *y, Rows *a, Rows *b)
{
    if (a->rows != b->rows || a->rows == 0) return;
    switch (operation) {
    case 0: rows_exp_difference(g->w, y, a, b); break;
    case 1: rows_max(g->w, y, a, b); break;
    case 2: rows_multiply(g->w, y, a, b); break;
    case 3: rows_add(g->w, a, b); break;
    case 4: rows_log_sum_exp(g->w, y, a, b); break;
    default: fill(g->w, y, a->rows, 1, 0.5); break;
    }
}

static void play(Block *b, const void *arguments, uint64_t index)
{
    static const char *const names[] = {"r0", "r1", "r2", "r3", "s0", "s1", "m0", "m1", "m2", "m3", "m4"};
    Player g = {.w = stream(b, "s", 1), .sequence = arguments, .random = ((const Sequence *)arguments)->seed + index};
    for (int i = 0; i < TILE_POOL; i++) {
        const ElementType type = i % 2 ? ELEMENT_BF16 : ELEMENT_F32;
        g.tiles[i] = i < 4 ? register_tile(b, names[i], type, SIDE, SIDE) : shared_tile(b, names[i], type, SIDE, SIDE);
        fill(g.w, g.tiles[i], SIDE, SIDE, 1.0);
    }
    for (int i = 0; i < ROW_POOL; i++) {
        g.rows[i] = i < 4 ? row_vector(b, names[TILE_POOL + i], ELEMENT_F32, SIDE)
                          : shared_tile(b, names[TILE_POOL + i], ELEMENT_F32, SIDE, 1);
        fill(g.w, g.rows[i], SIDE, 1, 1.0);
    }
    Tile *large = register_tile(b, "large", ELEMENT_F32, 16, 16), *product = register_tile(b, "product", ELEMENT_F32, 16, 16);
    fill(g.w, large, 16, 16, 1.0);
    matmul_nn(g.w, product, large, large);      /* so many visible pairs that no mask below can take back more */
    for (int i = 0; i < g.sequence->steps; i++) {
        Tile *t[3];
        Rows *r[3];
        for (int k = 0; k < 3; k++) {
            t[k] = g.tiles[random_between(&g.random, 0, TILE_POOL - 1)];
            r[k] = g.rows[random_between(&g.random, 0, ROW_POOL - 1)];
        }
        const int operation = (int)random_between(&g.random, 0, 28);
        const uint64_t value = random_between(&g.random, 0, 1000),
                       times = random_between(&g.random, 1, 3); /* most products repeat */
        for (uint64_t k = 0; k < times; k++) {
            if (operation < 23) step_tiles(&g, operation, t[0], t[1], t[2], r[0], r[1], value);
            else step_rows(&g, operation - 23, r[0], r[1], r[2]);
        }
    }
}

static void play_sequence(Context *x, Machine *machine, MachineConfig config, Sequence sequence, Status *status)
{
    const Kernel kernel = kernel_of(play);
    machine_init(machine, &x->unbounded, config, &x->alloc, status);
    sequence.T = machine_tensor(machine, "T", ELEMENT_F32, 1, 1, 17, SIDE);
    sequence.U = machine_tensor(machine, "U", ELEMENT_F32, 1, 1, 17, SIDE + 5);
    launch(machine, &kernel, (Grid){3, 1, 1}, &sequence);
}

static void check_random_sequences(Context *x, int sequences)
{
    for (int i = 0; i < sequences; i++) {
        Status statuses[3] = {{0}, {0}, {0}};
        Machine machines[3];
        const L2Model l2 = i % 2 ? L2_IDEAL : L2_NONE;
        const MachineConfig ways[3] = {{.mode = MODE_COUNT, .l2 = l2}, {.mode = MODE_COUNT, .l2 = l2, .observe = see_nothing},
                                       {.mode = MODE_NUMERIC, .l2 = l2}};
        char what[64];
        snprintf(what, sizeof what, "random sequence %d", i);
        for (int way = 0; way < 3; way++)
            play_sequence(x, &machines[way], ways[way], (Sequence){.seed = 1000 * (uint64_t)i, .steps = 120}, &statuses[way]);
        for (int way = 0; way < 3; way++) check_text(&x->test, statuses[way].text, "", what);
        check_same_machine(x, &machines[0], &machines[1], what);
        snprintf(what, sizeof what, "random sequence %d, numeric", i);
        check_same_machine(x, &machines[2], &machines[1], what);
        for (int way = 0; way < 3; way++) machine_free(&machines[way]);
    }
}

/* --- every algorithm, unwatched and watched */

static void check_algorithm(Context *x, const CountCase *c)
{
    Status status = {0};
    AttentionRun quick, watched;
    char what[256];
    count_case_name(c, what, sizeof what);
    count_walk(&quick, c, (MachineConfig){.mode = MODE_COUNT}, &x->unbounded, &x->alloc, &status);
    count_walk(&watched, c, (MachineConfig){.mode = MODE_COUNT, .observe = see_nothing}, &x->unbounded, &x->alloc, &status);
    check_text(&x->test, status.text, "", what);
    check_same_machine(x, &quick.machine, &watched.machine, what);
    attention_run_free(&quick);
    attention_run_free(&watched);
}

static void check_algorithms(Context *x, int cases)
{
    uint64_t random = 5;
    for (int i = 0; i < cases; i++) {
        AttentionShape shape = attention_shape(0, random_between(&random, 1, 20));
        shape.seqlen_q = random_between(&random, 0, 90);
        shape.seqlen_k = random_between(&random, 0, 1) ? shape.seqlen_q : random_between(&random, 0, 90);
        shape.mask = (MaskKind)random_between(&random, 0, 2);
        shape.window_left = (int64_t)random_between(&random, 0, 40) - 20 < 0 ? -1 : (int64_t)random_between(&random, 0, 90);
        shape.window_right = random_between(&random, 0, 1) ? -1 : (int64_t)random_between(&random, 0, 90);
        shape.kv_heads = random_between(&random, 1, 2);
        shape.heads = shape.kv_heads * random_between(&random, 1, 3);
        shape.dtype = (ElementType)random_between(&random, ELEMENT_F64, ELEMENT_E5M2);
        TileSize tiles;
        tiles.Br = (uint32_t)random_between(&random, 1, 24);
        tiles.Bc = (uint32_t)random_between(&random, 1, 24);
        for (size_t a = 0; a < algorithm_count(); a++) {
            const CountCase c = {algorithm_at(a), shape, tiles, random_between(&random, 0, 1) ? L2_IDEAL : L2_NONE};
            check_algorithm(x, &c);
        }
    }
}

/* ---------------------------------------------------------------------------------------- parts of tiles, tiles of two CTAs */

/* X: 5 x 7 with element (r, c) = 10 r + c. Its part from (2, 3) on, as much as 2 x 3 holds, is added to Y at (1, 4). */
typedef struct {
    Tensor *X, *Y, *Z;
    uint32_t row, col;
} Parts;

static void take_part(Block *b, const void *arguments, uint64_t index)
{
    const Parts *p = arguments;
    Stream *w = stream(b, "s", 1);
    Tile *x = register_tile(b, "x", ELEMENT_F64, 5, 7), *part = shared_tile(b, "part", ELEMENT_F64, 2, 3);
    (void)index;
    load(w, x, p->X, 0);
    convert_part(w, part, x, p->row, p->col);
    atomic_add_part(w, p->Y, 1, 4, part);
}

static void run_part(Context *x, Machine *machine, Parts *parts, Status *status)
{
    const Kernel kernel = kernel_of(take_part);
    machine_init(machine, &x->unbounded, (MachineConfig){.mode = MODE_NUMERIC, .precision = PRECISION_F64}, &x->alloc, status);
    parts->X = machine_tensor(machine, "X", ELEMENT_F64, 1, 1, 5, 7);
    parts->Y = machine_tensor(machine, "Y", ELEMENT_F64, 1, 1, 4, 7);
    for (int i = 0; i < 35; i++) ((double *)parts->X->data)[i] = 10 * (i / 7) + i % 7;
    for (int i = 0; i < 28; i++) ((double *)parts->Y->data)[i] = 1000;
    launch(machine, &kernel, (Grid){1, 1, 1}, parts);
}

static void check_parts(Context *x)
{
    Status status = {0};
    Machine machine;
    Parts parts = {.row = 2, .col = 3};
    run_part(x, &machine, &parts, &status);
    check_text(&x->test, status.text, "", "a part of a tile");
    for (int i = 0; i < 28; i++) {
        const int r = i / 7, c = i % 7;
        const bool inside = r >= 1 && r < 3 && c >= 4;
        const double want = 1000 + (inside ? 10 * (r - 1 + 2) + (c - 4 + 3) : 0);
        check_close(&x->test, ((double *)parts.Y->data)[i], want, 0, "convert_part, atomic_add_part");
    }
    const Counts *n = &machine.launches[0].counts;
    check_u64(&x->test, n->elements[OP_CONVERT], 6, "elements converted");
    check_u64(&x->test, n->smem_thread_bytes, 6 * 8, "written by threads");
    check_u64(&x->test, n->smem_copy_bytes, 6 * 8, "read by the copy");
    check_u64(&x->test, machine.ledger[1].traffic.atomic_adds, 6, "elements added");
    machine_free(&machine);

    parts = (Parts){.row = 6, .col = 0};
    run_part(x, &machine, &parts, &status);
    check_text(&x->test, status.text, "kernel: row 6, column 0 is outside tile x of 5 x 7", "a part that is not there");
    machine_free(&machine);
}

/* C = A B with A 5 x 5, of which row i sees columns i - 1 .. i + 1, and B 5 x 7: all of A B, by parts of 3 rows, 2
 * columns, 2 and 3 inner elements. */
static void multiply_parts(Block *b, const void *arguments, uint64_t index)
{
    const Parts *p = arguments;
    Stream *w = stream(b, "s", 1);
    Tile *x = shared_tile(b, "x", ELEMENT_F64, 5, 5), *c = register_tile(b, "c", ELEMENT_F64, 3, 2);
    Tile *y = shared_tile(b, "y", ELEMENT_F64, 5, 7);
    (void)index;
    load(w, x, p->X, 0);
    mask_gradient(w, x, 0, 0, (Band){-1, 1});
    load(w, y, p->Y, 0);
    for (uint32_t row = 0; row < 5; row += 3)
        for (uint32_t col = 0; col < 7; col += 2) {
            const Tile left = operand_part(x, row, 0, 3, 2), right = operand_part(y, 0, col, 2, 2);
            const Tile next_left = operand_part(x, row, 2, 3, UINT32_MAX), next_right = operand_part(y, 2, col, UINT32_MAX, 2);
            matmul_nn(w, c, &left, &right);
            matmul_nn_continue(w, c, &next_left, &next_right);
            atomic_add_part(w, p->Z, row, col, c);
        }
}

static void check_operand_parts(Context *x)
{
    Status status = {0};
    Machine machine;
    Parts parts = {0};
    const Kernel kernel = kernel_of(multiply_parts);
    machine_init(&machine, &x->unbounded, (MachineConfig){.mode = MODE_NUMERIC, .precision = PRECISION_F64}, &x->alloc, &status);
    parts.X = machine_tensor(&machine, "X", ELEMENT_F64, 1, 1, 5, 5);
    parts.Y = machine_tensor(&machine, "Y", ELEMENT_F64, 1, 1, 5, 7);
    parts.Z = machine_tensor(&machine, "Z", ELEMENT_F64, 1, 1, 5, 7);
    double *const X = parts.X->data, *const Y = parts.Y->data;
    for (int i = 0; i < 25; i++) X[i] = 10 * (i / 5) + i % 5 + 1;
    for (int i = 0; i < 35; i++) Y[i] = i == 30 ? (double)INFINITY : i * i % 11;     /* row 4: seen by rows 3 and 4 of A alone */
    launch(&machine, &kernel, (Grid){1, 1, 1}, &parts);
    check_text(&x->test, status.text, "", "parts of operands");
    for (int r = 0; r < 5; r++)
        for (int c = 0; c < 7; c++) {
            double want = 0;
            for (int k = 0; k < 5; k++) want += abs(r - k) <= 1 ? X[r * 5 + k] * Y[k * 7 + c] : 0;
            check_close(&x->test, ((double *)parts.Z->data)[r * 7 + c], want, 0, "a product by parts");
        }
    const Counts *n = &machine.launches[0].counts;
    check_u64(&x->test, n->matmul_flops, 2 * 5 * 5 * 7, "FLOPs of all parts");
    check_u64(&x->test, exact_flops(n), 2 * 13 * 7, "of visible pairs");
    check_u64(&x->test, n->smem_operand_bytes, 8 * (4 * 25 + 2 * 35), "A once per two columns, B once per three rows");
    machine_free(&machine);
}

/* X and Y: 4 x 6 in BF16, 48 bytes. C = X Yᵀ reads 2 groups of 3 rows of Y, 1 group of 5 columns of X (see kernel_of). */
static void multiply_pair(Block *b, const void *arguments, uint64_t index)
{
    const Parts *p = arguments;
    Stream *w = stream(b, "s", 1);
    Tile *whole = shared_tile(b, "x", ELEMENT_BF16, 4, 6), *half = paired_tile(b, "y", ELEMENT_BF16, 4, 6);
    Tile *c = register_tile(b, "c", ELEMENT_F32, 4, 4);
    (void)index;
    load(w, whole, p->X, 0);
    load(w, half, p->Y, 0);
    matmul_nt(w, c, whole, half);
    if (p->row > 0) matmul_nt(w, c, whole, whole);
}

static void check_pair(Context *x, bool both)
{
    Status status = {0};
    Machine machine;
    Parts parts = {.row = both};
    const Kernel kernel = kernel_of(multiply_pair);
    machine_init(&machine, &x->unbounded, (MachineConfig){.mode = MODE_COUNT}, &x->alloc, &status);
    parts.X = machine_tensor(&machine, "X", ELEMENT_BF16, 1, 1, 4, 6);
    parts.Y = machine_tensor(&machine, "Y", ELEMENT_BF16, 1, 1, 4, 6);
    launch(&machine, &kernel, (Grid){1, 1, 1}, &parts);
    check_text(&x->test, status.text, "", "a tile of two CTAs");
    const LaunchRecord *n = &machine.launches[0];
    check_u64(&x->test, n->smem_peak_bytes, 48 + 24, "half is reserved");
    check_u64(&x->test, n->counts.smem_copy_bytes, 48 + 24, "half is copied");
    check_u64(&x->test, machine.ledger[1].traffic.l2_to_sm, 12, "half is asked for");
    check_u64(&x->test, n->counts.smem_operand_bytes, 48 + 2 * 24 + (both ? 48 + 2 * 48 : 0), "half is read");
    machine_free(&machine);
}

/* ----------------------------------------------------------------------------------------------------------- stacked views */

enum { STACK_COPY, STACK_ADD, STACK_TWO_MASKS, STACK_TRANSPOSE };

typedef struct {
    Tensor *from, *to, *plain;
    int what;
} Stacked;

/* Rows 1 .. 4 of a view to rows 1 .. 4 of another one and to a tensor without views. */
static void copy_stacked(Block *b, const void *arguments, uint64_t index)
{
    const Stacked *a = arguments;
    Stream *w = stream(b, "s", 1);
    Tile *t = register_tile(b, "t", ELEMENT_F64, 4, 2), *nan = register_tile(b, "nan", ELEMENT_F64, 4, 2), *o = register_tile(b, "o", ELEMENT_F64, 2, 2);
    (void)index;
    load(w, t, a->from, 1);
    if (a->what == STACK_ADD) atomic_add(w, a->to, 1, t);
    if (a->what == STACK_TWO_MASKS || a->what == STACK_TRANSPOSE) mask_stacked(w, t, 1, 0, (Band){-9, 0}, 2);
    if (a->what == STACK_TWO_MASKS) mask(w, t, 1, 0, (Band){0, 9});
    if (a->what == STACK_TRANSPOSE) {
        load(w, nan, a->plain, 0);
        matmul_tn(w, o, t, nan);
    }
    store(w, a->to, 1, t);
    store(w, a->plain, 0, t);
}

/* Four heads of three rows as two groups of two: row r of group g is row r / 2 of head 2 g + r % 2. */
static void check_stacked(Context *x)
{
    static const char *const errors[] = {"", "kernel: no atomic additions to stacked tensor to", "kernel: tile t has two masks whose rows are stacked differently",
                                         "kernel: tile t has stacked rows and cannot be transposed"};
    for (int what = STACK_COPY; what <= STACK_TRANSPOSE; what++) {
        Status status = {0};
        Machine machine;
        const Kernel kernel = kernel_of(copy_stacked);
        machine_init(&machine, &x->unbounded, (MachineConfig){.mode = MODE_NUMERIC, .l2 = L2_IDEAL, .precision = PRECISION_F64}, &x->alloc, &status);
        Tensor *from = machine_tensor(&machine, "from", ELEMENT_F64, 1, 4, 3, 2), *to = machine_tensor(&machine, "to", ELEMENT_F64, 1, 4, 3, 2);
        Stacked a = {machine_stacked_view(&machine, from, 2), machine_stacked_view(&machine, to, 2), machine_tensor(&machine, "plain", ELEMENT_F64, 1, 2, 4, 2), what};
        check_true(&x->test, machine_stacked_view(&machine, from, 1) == from, "a group of one is the tensor itself");
        for (uint64_t i = 0; i < 24; i++) tensor_set(&machine, from, i, (double)i + 1);
        for (uint64_t i = 0; what == STACK_TRANSPOSE && i < 16; i++) tensor_set(&machine, a.plain, i, NAN);
        check_true(&x->test, launch(&machine, &kernel, (Grid){1, 2, 1}, &a) == (what == STACK_COPY), "launch");
        check_text(&x->test, status.text, errors[what], "stacked tensors");
        for (uint64_t group = 0; what == STACK_COPY && group < 2; group++)
            for (uint64_t r = 0; r < 6; r++)
                for (uint64_t c = 0; c < 2; c++) {
                    const uint64_t element = ((2 * group + r % 2) * 3 + r / 2) * 2 + c;
                    const double want = r >= 1 && r <= 4 ? (double)element + 1 : 0;
                    check_close(&x->test, tensor_value(&machine, to, element), want, 0, "a row of a stacked view");
                    if (want > 0) check_close(&x->test, tensor_value(&machine, a.plain, (group * 4 + r - 1) * 2 + c), want, 0, "rows in the order of the view");
                }
        if (what == STACK_COPY) check_u64(&x->test, machine.ledger[0].traffic.hbm_read, 16, "elements of a view, each once");
        machine_free(&machine);
    }
    Status status = {0};
    Machine machine;
    machine_init(&machine, &x->unbounded, (MachineConfig){.mode = MODE_COUNT}, &x->alloc, &status);
    check_true(&x->test, machine_stacked_view(&machine, machine_tensor(&machine, "T", ELEMENT_F32, 1, 4, 3, 2), 3) == NULL, "no groups of three");
    check_text(&x->test, status.text, "tensor T: no view of 4 heads in groups of 3", "no groups of three");
    machine_free(&machine);
}

int main(void)
{
    Context x = {0};
    Status status = {0};
    if (profile_load("unbounded", &x.alloc, &x.unbounded, &status)) {
        check_prices(&x);
        check_examples(&x);
        check_rounding(&x);
        check_ragged(&x);
        check_operand_bytes(&x);
        check_parts(&x);
        check_operand_parts(&x);
        check_pair(&x, false);
        check_pair(&x, true);
        check_stacked(&x);
        check_product_in_shared_memory(&x);
        check_misuse(&x);
        check_masks(&x);
        check_mask_twice(&x);
        check_mask_after_overwrite(&x);
        check_events(&x);
        check_everything(&x);
        check_random_sequences(&x, 300);
        check_algorithms(&x, 300);
    }
    check_text(&x.test, status.text, "", "profile unbounded");
    check_u64(&x.test, x.alloc.live_bytes, 0, "bytes still allocated at the end");
    return test_end(&x.test, "ops");
}
