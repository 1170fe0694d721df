/* test_machine.c - the machine without any attention: on-chip arenas, launches and their refusals, errors that stick, tensors,
 * the L2 models, heads, limits. Small kernels of this file, on chips as published and on the chip without limits. The operations
 * have their own test, test_ops.c.
 */
/* label: unit, property */
#include "test.h"

#include "support/count_case.h"

#include "sim/checked.h"
#include "sim/ops.h"

#include <math.h>
#include <stddef.h>

typedef struct {
    Test test;
    Alloc alloc;
    Profile unbounded, a100, h100, b200;
} Context;

typedef void Run(Block *block, const void *arguments, uint64_t index);

static Kernel kernel_of(Run *run)
{
    return (Kernel){.name = "kernel", .instruction = TENSOR_MMA_SYNC, .threads = 128, .registers_per_thread = 255, .run = run};
}

/* One launch on a fresh machine that only counts, without tensors. The caller frees the machine. */
static bool launch_alone(Machine *machine, Context *x, const Profile *chip, Run *run, Grid grid, const void *arguments,
                         Status *status)
{
    const Kernel kernel = kernel_of(run);
    machine_init(machine, chip, (MachineConfig){.mode = MODE_COUNT}, &x->alloc, status);
    return launch(machine, &kernel, grid, arguments);
}

static const Grid one_block = {1, 1, 1};

/* ------------------------------------------------------------------------------------------------------------------ arenas */

enum { MOST_DECLARED = 4 };

typedef struct {
    Space space;
    ElementType type;
    uint32_t rows, cols;
} Declared;

typedef struct {
    size_t chip;                            /* offset in Context */
    Declared tiles[MOST_DECLARED];          /* A, B, C, D; ends with rows = 0 */
    uint64_t peaks[3];                      /* bytes, by Space */
    const char *error;
} ArenaCase;

#define CHIP(name) offsetof(Context, name)
static const Profile *chip_of(const Context *x, size_t offset)
{
    return (const Profile *)(const void *)((const char *)x + offset);
}

/* The largest block: 227 KiB of shared memory on H100, 163 on A100; 128 threads x 255 registers x 4 bytes; 256 KiB of tensor
 * memory. */
static const ArenaCase arena_cases[] = {
    {CHIP(h100), {{SPACE_SHARED, ELEMENT_BF16, 1, 116224}}, {232448, 0, 0}, ""},
    {CHIP(h100),
     {{SPACE_SHARED, ELEMENT_BF16, 1, 116225}},
     {0},
     "kernel: tile A does not fit in shared memory of h100: needs 232450 bytes, "
     "232448 of 232448 are left"},
    {CHIP(a100), {{SPACE_SHARED, ELEMENT_E4M3, 1, 166912}}, {166912, 0, 0}, ""},
    {CHIP(a100),
     {{SPACE_SHARED, ELEMENT_E4M3, 1, 166913}},
     {0},
     "kernel: tile A does not fit in shared memory of a100: needs 166913 bytes, "
     "166912 of 166912 are left"},
    {CHIP(h100),
     {{SPACE_SHARED, ELEMENT_F32, 128, 128},
      {SPACE_SHARED, ELEMENT_F32, 128, 128},
      {SPACE_SHARED, ELEMENT_F32, 128, 128},
      {SPACE_SHARED, ELEMENT_F32, 128, 128}},
     {0},
     "kernel: tile D does not fit in shared memory of h100: needs 65536 bytes, 35840 of 232448 are left"},
    {CHIP(h100), {{SPACE_REGISTERS, ELEMENT_F32, 128, 255}}, {0, 130560, 0}, ""},
    {CHIP(h100),
     {{SPACE_REGISTERS, ELEMENT_F32, 128, 254}, {SPACE_REGISTERS, ELEMENT_F64, 65, 1}},
     {0},
     "kernel: tile B does not fit in "
     "registers of h100: needs 520 bytes, 512 of 130560 are left"},
    {CHIP(h100),
     {{SPACE_TENSOR_MEMORY, ELEMENT_F32, 1, 1}},
     {0},
     "kernel: tile A does not fit in tensor memory of h100: needs 4 bytes, 0 of 0 "
     "are left"},
    {CHIP(b200), {{SPACE_TENSOR_MEMORY, ELEMENT_F32, 128, 512}}, {0, 0, 262144}, ""},
    {CHIP(b200),
     {{SPACE_TENSOR_MEMORY, ELEMENT_F32, 128, 512}, {SPACE_TENSOR_MEMORY, ELEMENT_BF16, 1, 1}},
     {0},
     "kernel: tile B does not fit "
     "in tensor memory of b200: needs 2 bytes, 0 of 262144 are left"},
    {CHIP(h100),
     {{SPACE_SHARED, ELEMENT_BF16, 3, 5}, {SPACE_REGISTERS, ELEMENT_F32, 7, 1}, {SPACE_SHARED, ELEMENT_F64, 1, 1}},
     {38, 28, 0},
     ""},
    {CHIP(unbounded),
     {{SPACE_SHARED, ELEMENT_F32, 65536, 65536}, {SPACE_REGISTERS, ELEMENT_F64, 65536, 65536}},
     {UINT64_C(1) << 34, UINT64_C(1) << 35, 0},
     ""},
    {CHIP(unbounded),
     {{SPACE_SHARED, ELEMENT_F32, UINT32_MAX, UINT32_MAX}},
     {0},
     "A overflows 64 bits: 18446744065119617025 * 4"},
};

static void declare(Block *b, const void *arguments, uint64_t index)
{
    static const char *const names[MOST_DECLARED] = {"A", "B", "C", "D"};
    const Declared *d = arguments;
    (void)index;
    for (size_t i = 0; i < MOST_DECLARED && d[i].rows > 0; i++) {
        if (d[i].space == SPACE_SHARED) shared_tile(b, names[i], d[i].type, d[i].rows, d[i].cols);
        if (d[i].space == SPACE_REGISTERS) register_tile(b, names[i], d[i].type, d[i].rows, d[i].cols);
        if (d[i].space == SPACE_TENSOR_MEMORY) tensor_memory_tile(b, names[i], d[i].type, d[i].rows, d[i].cols);
    }
}

static void check_arenas(Context *x)
{
    for (size_t i = 0; i < sizeof arena_cases / sizeof arena_cases[0]; i++) {
        const ArenaCase *c = &arena_cases[i];
        Status status = {0};
        Machine machine;
        const bool ok = launch_alone(&machine, x, chip_of(x, c->chip), declare, (Grid){3, 2, 1}, c->tiles, &status);
        check_text(&x->test, status.text, c->error, "what does not fit");
        check_u64(&x->test, status.code, c->error[0] == '\0' ? STATUS_OK : STATUS_INFEASIBLE, "what does not fit");
        check_u64(&x->test, machine.launch_count, ok, "a failed launch leaves no record");
        if (ok) {
            check_u64(&x->test, machine.launches[0].smem_peak_bytes, c->peaks[SPACE_SHARED], "peak of shared memory");
            check_u64(&x->test, machine.launches[0].register_peak_bytes, c->peaks[SPACE_REGISTERS], "peak of registers");
            check_u64(&x->test, machine.launches[0].tmem_peak_bytes, c->peaks[SPACE_TENSOR_MEMORY], "peak of tensor memory");
        }
        machine_free(&machine);
    }
}

/* Block 1 of three declares most. */
static void declare_by_index(Block *b, const void *arguments, uint64_t index)
{
    static const uint32_t rows[] = {2, 5, 3};
    (void)arguments;
    shared_tile(b, "A", ELEMENT_F32, rows[index], 1);
}

static void check_peak_over_blocks(Context *x)
{
    Status status = {0};
    Machine machine;
    check_true(&x->test, launch_alone(&machine, x, &x->h100, declare_by_index, (Grid){3, 1, 1}, NULL, &status), status.text);
    check_u64(&x->test, machine.launches[0].smem_peak_bytes, 20, "the peak is the largest block's");
    check_u64(&x->test, machine.launches[0].blocks, 3, "blocks");
    machine_free(&machine);
}

/* ------------------------------------------------------------------------------------------------------------------- views */

typedef struct {
    ElementType type;
    uint32_t rows, cols;
    const char *error;
} ViewCase;

/* Of a float32 tile S of 16 x 32, whose columns lie 32 rows apart. */
static const ViewCase view_cases[] = {
    {ELEMENT_BF16, 16, 32, ""},
    {ELEMENT_F32, 16, 32, ""},
    {ELEMENT_F32, 1, 1, ""},
    {ELEMENT_F32, 32, 16, ""},
    {ELEMENT_F64, 16, 32, "kernel: P (4096 bytes) is no view of S (2048 bytes)"},
    {ELEMENT_F32, 17, 32, "kernel: P (2176 bytes) is no view of S (2048 bytes)"},
    {ELEMENT_BF16, 16, 33, "kernel: P (1056 bytes) is no view of S (2048 bytes)"},
    {ELEMENT_BF16, 33, 1, "kernel: P (66 bytes) is no view of S (2048 bytes)"},
};

static void declare_view(Block *b, const void *arguments, uint64_t index)
{
    const ViewCase *c = arguments;
    (void)index;
    tile_view(shared_tile(b, "S", ELEMENT_F32, 16, 32), "P", c->type, c->rows, c->cols);
}

static void check_views(Context *x)
{
    for (size_t i = 0; i < sizeof view_cases / sizeof view_cases[0]; i++) {
        Status status = {0};
        Machine machine;
        if (launch_alone(&machine, x, &x->h100, declare_view, one_block, &view_cases[i], &status))
            check_u64(&x->test, machine.launches[0].smem_peak_bytes, 2048, "a view costs nothing");
        check_text(&x->test, status.text, view_cases[i].error, "views");
        machine_free(&machine);
    }
}

/* What is written through a view is in the tile. */
static void store_through_view(Block *b, const void *arguments, uint64_t index)
{
    Tensor *const *out = arguments;
    Stream *w = stream(b, "s", 1);
    Tile *s = register_tile(b, "S", ELEMENT_F32, 2, 2), *p = tile_view(s, "P", ELEMENT_BF16, 2, 2);
    (void)index;
    fill(w, s, 2, 2, 1.0 + 0x1p-20);
    convert(w, p, s);
    store(w, *out, 0, s);
}

static void check_view_values(Context *x)
{
    Status status = {0};
    Machine machine;
    const Kernel kernel = kernel_of(store_through_view);
    machine_init(&machine, &x->h100, (MachineConfig){.mode = MODE_NUMERIC}, &x->alloc, &status);
    Tensor *out = machine_tensor(&machine, "out", ELEMENT_F32, 1, 1, 2, 2);
    check_true(&x->test, launch(&machine, &kernel, one_block, &out), status.text);
    for (uint64_t i = 0; i < 4; i++)
        check_close(&x->test, (double)((const float *)out->data)[i], 1.0, 0, "P rounded to bf16 over S");
    machine_free(&machine);
}

/* ------------------------------------------------------------------------------------------------------ limits and refusals */

static void declare_many(Block *b, const void *arguments, uint64_t index)
{
    const uint32_t *counts = arguments;
    (void)index;
    for (uint32_t i = 0; i < counts[0]; i++) register_tile(b, "T", ELEMENT_E4M3, 1, 1);
    for (uint32_t i = 0; i < counts[1]; i++) stream(b, "s", 1);
}

static void check_declaration_limits(Context *x)
{
    static const struct {
        uint32_t counts[2];
        const char *error;
    } rows[] = {{{MAX_TILES, MAX_STREAMS}, ""},
                {{MAX_TILES + 2, 0}, "kernel: tile T: a block holds at most "},
                {{0, MAX_STREAMS + 2}, "kernel: stream s: a block has at most "}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        Status status = {0};
        Machine machine;
        launch_alone(&machine, x, &x->unbounded, declare_many, one_block, rows[i].counts, &status);
        check_u64(&x->test, status.code, i == 0 ? STATUS_OK : STATUS_INFEASIBLE, "tiles and streams of a block");
        check_true(&x->test, strncmp(status.text, rows[i].error, strlen(rows[i].error)) == 0, status.text);
        machine_free(&machine);
    }
}

static void nothing(Block *b, const void *arguments, uint64_t index)
{
    (void)b;
    (void)arguments;
    (void)index;
}

typedef struct {
    size_t chip;
    uint32_t threads, registers;
    TensorInstruction instruction;
    L2Model l2;
    const char *error;
} LaunchCase;

static const LaunchCase launch_cases[] = {
    {CHIP(h100), 1024, 64, TENSOR_MMA_SYNC, L2_IDEAL, ""},
    {CHIP(h100), 1025, 1, TENSOR_MMA_SYNC, L2_IDEAL, "kernel: 1025 threads per block, h100 allows 1024"},
    {CHIP(h100), 32, 256, TENSOR_MMA_SYNC, L2_IDEAL, "kernel: 256 registers per thread, h100 allows 255"},
    {CHIP(h100), 1024, 65, TENSOR_MMA_SYNC, L2_NONE, "kernel: 66560 registers per block, an SM of h100 has 65536"},
    {CHIP(h100), 128, 255, TENSOR_WGMMA, L2_NONE, ""},
    {CHIP(a100), 128, 255, TENSOR_WGMMA, L2_NONE, "kernel needs wgmma: a100 has no wgmma"},
    {CHIP(b200), 128, 255, TENSOR_WGMMA, L2_NONE, "kernel needs wgmma: b200 has no wgmma"},
    {CHIP(h100), 128, 255, TENSOR_TCGEN05, L2_NONE, "kernel needs tcgen05: h100 has no tcgen05"},
    {CHIP(b200), 128, 255, TENSOR_TCGEN05, L2_NONE, ""},
    {CHIP(unbounded), 1000000, 1000000, TENSOR_TCGEN05, L2_IDEAL, ""},
    {CHIP(h100), 128, 255, TENSOR_MMA_SYNC, L2_SIMULATED, ""},
};

static void check_refusals(Context *x)
{
    for (size_t i = 0; i < sizeof launch_cases / sizeof launch_cases[0]; i++) {
        const LaunchCase *c = &launch_cases[i];
        Status status = {0};
        Machine machine;
        const Kernel kernel = {.name = "kernel",
                               .instruction = c->instruction,
                               .threads = c->threads,
                               .registers_per_thread = c->registers,
                               .run = nothing};
        machine_init(&machine, chip_of(x, c->chip), (MachineConfig){.mode = MODE_COUNT, .l2 = c->l2}, &x->alloc, &status);
        const bool ok = launch(&machine, &kernel, one_block, NULL);
        check_text(&x->test, status.text, c->error, "what a chip cannot launch");
        check_true(&x->test, ok == (c->error[0] == '\0'), "launch says so");
        check_u64(&x->test, status.code, ok ? STATUS_OK : STATUS_INFEASIBLE, "what a chip cannot launch");
        machine_free(&machine);
    }
}

/* ----------------------------------------------------------------------------------------------------------------- tensors */

static void check_tensor_limits(Context *x)
{
    static const struct {
        uint64_t batch, heads, rows, cols;
        ElementType type;
        const char *error;
    } rows[] = {
        {0, 0, 0, 0, ELEMENT_F32, ""},
        {UINT64_C(1) << 32, UINT64_C(1) << 32, 1, 1, ELEMENT_E4M3, "batch x heads overflows 64 bits: 4294967296 * 4294967296"},
        {UINT64_C(1) << 16, UINT64_C(1) << 16, UINT64_C(1) << 32, 1, ELEMENT_E4M3,
         "rows of all heads overflows 64 bits: 4294967296 * 4294967296"},
        {1, 1, UINT64_C(1) << 33, UINT64_C(1) << 31, ELEMENT_E4M3,
         "elements of a tensor overflows 64 bits: 8589934592 * 2147483648"},
        {1, 1, UINT64_C(1) << 31, UINT64_C(1) << 30, ELEMENT_F64, "bytes of a tensor overflows 64 bits: 2305843009213693952 * 8"},
        {1, 1, UINT64_C(1) << 31, UINT64_C(1) << 30, ELEMENT_F32, ""}, /* 2^63 bytes */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        Status status = {0};
        Machine machine;
        machine_init(&machine, &x->unbounded, (MachineConfig){.mode = MODE_COUNT}, &x->alloc, &status);
        const Tensor *t = machine_tensor(&machine, "T", rows[i].type, rows[i].batch, rows[i].heads, rows[i].rows, rows[i].cols);
        check_text(&x->test, status.text, rows[i].error, "sizes of tensors");
        check_true(&x->test, (t == NULL) == (rows[i].error[0] != '\0'), "no tensor after an error");
        check_u64(&x->test, x->alloc.live_bytes, 0, "counting allocates no tensor");
        machine_free(&machine);
    }
}

static void check_tensor_count(Context *x)
{
    Status status = {0};
    Machine machine;
    machine_init(&machine, &x->unbounded, (MachineConfig){.mode = MODE_COUNT}, &x->alloc, &status);
    uint64_t end = 0;
    for (int i = 0; i < MAX_TENSORS; i++) {
        const Tensor *t = machine_tensor(&machine, "T", ELEMENT_BF16, 1, 2, 3, (uint64_t)i * 37);
        check_true(&x->test, t != NULL && t->address >= end && t->address % 256 == 0 && t->index == (uint32_t)i,
                   "addresses ascend");
        end = t->address + 2 * tensor_elements(t);
    }
    check_true(&x->test, machine_tensor(&machine, "one more", ELEMENT_BF16, 1, 1, 1, 1) == NULL, "too many tensors");
    check_u64(&x->test, status.code, STATUS_INFEASIBLE, "too many tensors");
    check_true(&x->test, strncmp(status.text, "tensor one more: a machine holds at most ", 41) == 0, status.text);
    machine_free(&machine);
}

/* Tensors that each fit 64 bits but not together. */
static void check_address_space(Context *x)
{
    Status status = {0};
    Machine machine;
    machine_init(&machine, &x->unbounded, (MachineConfig){.mode = MODE_COUNT}, &x->alloc, &status);
    const Tensor *first = machine_tensor(&machine, "A", ELEMENT_E4M3, 1, 1, UINT64_C(1) << 63, 1);
    const Tensor *second = machine_tensor(&machine, "B", ELEMENT_E4M3, 1, 1, UINT64_C(1) << 63, 1);
    const Tensor *third = machine_tensor(&machine, "C", ELEMENT_E4M3, 1, 1, 1, 1);
    check_true(&x->test, first != NULL && (second == NULL || third == NULL),
               "tensors of 2^63 bytes do not overlap: the third is refused");
    check_u64(&x->test, status.code, STATUS_INFEASIBLE, "the end of the address space");
    machine_free(&machine);
}

/* Stores a tile that nothing has written. */
static void store_unwritten(Block *b, const void *arguments, uint64_t index)
{
    Tensor *const *tensors = arguments;
    Stream *w = stream(b, "s", 1);
    Tile *t = register_tile(b, "T", ELEMENT_F32, 2, 2);
    (void)index;
    load(w, t, tensors[0], 0);
    store(w, tensors[1], 0, t);
    t = register_tile(b, "U", ELEMENT_F32, 2, 2);
    t->rows = t->cols = 2;                                  /* as if an operation had filled it */
    store(w, tensors[1], 2, t);
}

static void check_poison(Context *x)
{
    for (int poison = 0; poison < 2; poison++)
        for (int precision = PRECISION_F32; precision <= PRECISION_F64; precision++) {
            Status status = {0};
            Machine machine;
            const Kernel kernel = kernel_of(store_unwritten);
            machine_init(&machine, &x->unbounded,
                         (MachineConfig){.mode = MODE_NUMERIC, .precision = (Precision)precision, .poison = poison}, &x->alloc,
                         &status);
            Tensor *tensors[2] = {machine_tensor(&machine, "in", ELEMENT_F32, 1, 1, 4, 2),
                                  machine_tensor(&machine, "out", ELEMENT_F32, 1, 1, 4, 2)};
            check_true(&x->test, launch(&machine, &kernel, one_block, tensors), status.text);
            for (int i = 0; i < 8; i++) {
                const double got = precision == PRECISION_F32 ? (double)((const float *)tensors[1]->data)[i]
                                                              : ((const double *)tensors[1]->data)[i];
                if (poison) check_true(&x->test, isnan(got), "poisoned memory and tiles are NaN");
                else if (i < 4) check_close(&x->test, got, 0, 0, "new memory is zero");
            }
            machine_free(&machine);
        }
}

/* ------------------------------------------------------------------------------------------------------------ errors stick */

/* Every operation on tiles that could not be made, on a tensor that does not exist. */
static void go_on_after_error(Block *b, const void *arguments, uint64_t index)
{
    Stream *w = stream(b, "s", 1);
    Tile *a = shared_tile(b, "A", ELEMENT_F32, 1000, 1000), *c = register_tile(b, "C", ELEMENT_F32, 4, 4);
    Tile *p = tile_view(a, "P", ELEMENT_BF16, 4, 4), *big = tile_view(c, "big", ELEMENT_F64, 4, 4);
    Rows *m = row_vector(b, "m", ELEMENT_F32, 4), *l = row_vector(b, "l", ELEMENT_F32, 4);
    Tensor *none = *(Tensor *const *)arguments;
    (void)index;
    for (int i = 0; i < 2; i++) {
        load(w, a, none, 0);
        load_part(w, c, none, 1, 1);
        matmul_nt(w, c, a, a);
        matmul_nn(w, c, a, p);
        matmul_nn_add(w, c, p, big);
        matmul_nn_continue(w, c, p, big);
        mask(w, c, 0, 0, (Band){0, 0});
        declare_masked(w, c, 3, 0, (Band){0, 0});
        fill(w, big, 4, 4, 0.0);
        scale(w, c, 2.0);
        add(w, c, p);
        convert(w, p, c);
        row_max(w, m, l, c);
        exp_rows(w, c, c, m);
        row_sum(w, l, c);
        row_sum_scaled(w, l, m, c);
        scale_rows(w, a, m);
        divide_rows(w, a, l);
        rows_exp_difference(w, m, l, m);
        rows_max(w, m, l, m);
        rows_multiply(w, m, l, m);
        rows_add(w, m, l);
        rows_log_sum_exp(w, m, m, l);
        store(w, none, 0, a);
        store_part(w, none, 5, 5, c);
    }
}

static void check_sticky(Context *x)
{
    for (int mode = MODE_COUNT; mode <= MODE_NUMERIC; mode++) {
        static const char *const first =
            "kernel: tile A does not fit in shared memory of h100: needs 4000000 bytes, 232448 of 232448 are left";
        Status status = {0};
        Machine machine;
        Totals totals;
        const Kernel bad = kernel_of(go_on_after_error), good = kernel_of(nothing);
        Tensor *none = NULL;
        machine_init(&machine, &x->h100, (MachineConfig){.mode = (Mode)mode}, &x->alloc, &status);
        check_true(&x->test, launch(&machine, &good, one_block, NULL), status.text);
        check_true(&x->test, !launch(&machine, &bad, (Grid){5, 1, 1}, &none), "the launch fails");
        check_text(&x->test, status.text, first, "the first error is kept");
        check_true(&x->test, !launch(&machine, &good, one_block, NULL), "later launches fail too");
        check_true(&x->test, machine_tensor(&machine, "T", ELEMENT_F32, 1, 1, 1, 1) == NULL, "no tensor after an error");
        check_u64(&x->test, machine.launch_count, 1, "only the launch before the error is on record");
        check_u64(&x->test, machine.ledger_count, 0, "no ledger row");
        check_true(&x->test, !machine_totals(&machine, &totals), "no totals either");
        check_text(&x->test, status.text, first, "the first error is kept");
        machine_free(&machine);
    }
}

/* ------------------------------------------------------------------------------------------------------ what HBM sees: L2 */

enum { L2_ROWS = 11, L2_COLS = 3, TILE_ROWS = 3, MOST_STEPS = 24 };

/* "L4": a tile of rows from 4 is loaded; S: the tile is stored; A: added atomically. */
typedef struct {
    char what[MOST_STEPS];
    uint8_t row[MOST_STEPS];
    int count;
    Tensor *tensor;
} Script;

static Script script_of(const char *text)
{
    Script script = {.count = 0};
    for (; text[0] != '\0'; text += 2) {
        script.what[script.count] = text[0];
        script.row[script.count++] = (uint8_t)(text[1] - '0');
    }
    return script;
}

static void play(Block *b, const void *arguments, uint64_t index)
{
    const Script *s = arguments;
    Stream *w = stream(b, "s", 1);
    Tile *t = register_tile(b, "T", ELEMENT_F32, TILE_ROWS, L2_COLS);
    (void)index;
    fill(w, t, TILE_ROWS, L2_COLS, 1.0);
    for (int i = 0; i < s->count; i++) {
        if (s->what[i] == 'L') load(w, t, s->tensor, s->row[i]);
        if (s->what[i] == 'S') store(w, s->tensor, s->row[i], t);
        if (s->what[i] == 'A') atomic_add(w, s->tensor, s->row[i], t);
    }
}

static Traffic play_once(Context *x, Script *script, MachineConfig config, Grid grid, int launches)
{
    Status status = {0};
    Machine machine;
    Traffic traffic = {0};
    const Kernel kernel = kernel_of(play);
    machine_init(&machine, &x->unbounded, config, &x->alloc, &status);
    script->tensor = machine_tensor(&machine, "T", ELEMENT_F32, grid.batch, 1, L2_ROWS, L2_COLS);
    for (int i = 0; i < launches; i++) launch(&machine, &kernel, grid, script);
    check_text(&x->test, status.text, "", "an L2 script");
    for (uint32_t i = 0; i < machine.ledger_count; i++) {
        const Traffic *t = &machine.ledger[i].traffic;
        traffic.l2_to_sm += t->l2_to_sm;
        traffic.sm_to_l2 += t->sm_to_l2;
        traffic.hbm_read += t->hbm_read;
        traffic.hbm_write += t->hbm_write;
        traffic.atomic_adds += t->atomic_adds;
    }
    machine_free(&machine);
    return traffic;
}

static void check_traffic(Context *x, Traffic got, Traffic want, const char *what)
{
    check_u64(&x->test, got.l2_to_sm, want.l2_to_sm, what);
    check_u64(&x->test, got.sm_to_l2, want.sm_to_l2, what);
    check_u64(&x->test, got.hbm_read, want.hbm_read, what);
    check_u64(&x->test, got.hbm_write, want.hbm_write, what);
    check_u64(&x->test, got.atomic_adds, want.atomic_adds, what);
}

/* Rows of 3 elements, tiles of 3 rows. */
static void check_known_scripts(Context *x)
{
    static const struct {
        const char *script;
        L2Model l2;
        Traffic rows;               /* l2_to_sm, sm_to_l2, hbm_read, hbm_write, atomic_adds */
    } known[] = {
        {"L0", L2_IDEAL, {3, 0, 3, 0, 0}},
        {"L0L0L0", L2_IDEAL, {9, 0, 3, 0, 0}},          /* read once */
        {"L0L0L0", L2_NONE, {9, 0, 9, 0, 0}},
        {"L0L1L2", L2_IDEAL, {9, 0, 5, 0, 0}},          /* overlapping tiles */
        {"L9L9", L2_IDEAL, {4, 0, 2, 0, 0}},            /* the last tile has two rows */
        {"S0L0", L2_IDEAL, {3, 3, 0, 3, 0}},            /* a read after a write never reaches HBM */
        {"S0L0", L2_NONE, {3, 3, 3, 3, 0}},
        {"S0S0S0", L2_IDEAL, {0, 9, 0, 3, 0}},          /* written back once */
        {"S0S0S0", L2_NONE, {0, 9, 0, 9, 0}},
        {"L0S0L0S0", L2_IDEAL, {6, 6, 3, 3, 0}},
        {"S0L2", L2_IDEAL, {3, 3, 2, 3, 0}},            /* row 2 is there */
        {"A0", L2_IDEAL, {0, 3, 3, 3, 3}},              /* an addition needs the old value */
        {"A0A0", L2_IDEAL, {0, 6, 3, 3, 6}},
        {"S0A0", L2_IDEAL, {0, 6, 0, 3, 3}},
        {"A0A0L0", L2_NONE, {3, 6, 3, 0, 6}},           /* counted apart */
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        Script script = script_of(known[i].script);
        Traffic want = known[i].rows;
        uint64_t *const fields[] = {&want.l2_to_sm, &want.sm_to_l2, &want.hbm_read, &want.hbm_write, &want.atomic_adds};
        for (int f = 0; f < 5; f++) *fields[f] *= L2_COLS;
        const MachineConfig config = {.mode = MODE_COUNT, .l2 = known[i].l2};
        check_traffic(x, play_once(x, &script, config, one_block, 1), want, known[i].script);
        for (int f = 0; f < 5; f++) *fields[f] *= 2;        /* L2 keeps nothing from launch to launch */
        check_traffic(x, play_once(x, &script, config, one_block, 2), want, "two launches");
    }
}

/* The same by one flag per row. */
static Traffic flags_per_row(const Script *script, int blocks)
{
    bool touched[L2_ROWS] = {false}, written[L2_ROWS] = {false};
    Traffic t = {0};
    for (int i = 0; i < blocks * script->count; i++) {
        static uint64_t live = TILE_ROWS;
        const char what = script->what[i % script->count];
        const uint64_t row = script->row[i % script->count];
        if (i % script->count == 0) live = TILE_ROWS;
        if (what == 'L') live = min_u64(TILE_ROWS, L2_ROWS - row);
        for (uint64_t r = row; r < row + live; r++) {
            if (what == 'L') t.l2_to_sm++;
            else t.sm_to_l2++;
            t.atomic_adds += what == 'A';
            t.hbm_read += what != 'S' && !touched[r];
            t.hbm_write += what != 'L' && !written[r];
            touched[r] = true;
            written[r] = written[r] || what != 'L';
        }
    }
    t.l2_to_sm *= L2_COLS, t.sm_to_l2 *= L2_COLS, t.hbm_read *= L2_COLS, t.hbm_write *= L2_COLS, t.atomic_adds *= L2_COLS;
    return t;
}

static Script random_script(uint64_t *random)
{
    Script script = {.count = (int)random_between(random, 1, MOST_STEPS)};
    uint64_t live = TILE_ROWS;
    for (int i = 0; i < script.count; i++) {
        script.what[i] = "LLSA"[random_between(random, 0, 3)];
        const uint64_t last = script.what[i] == 'L' ? L2_ROWS - 1 : L2_ROWS - live;     /* a store stays inside */
        script.row[i] = (uint8_t)random_between(random, 0, last);
        if (script.what[i] == 'L') live = min_u64(TILE_ROWS, (uint64_t)(L2_ROWS - script.row[i]));
    }
    return script;
}

static void check_random_scripts(Context *x)
{
    uint64_t random = 1;
    for (int i = 0; i < 400; i++) {
        Script script = random_script(&random);
        const int blocks = (int)random_between(&random, 1, 3);
        const uint64_t batch = random_between(&random, 1, 3);
        const Grid grid = {(uint64_t)blocks, 1, batch};
        Traffic want = flags_per_row(&script, blocks);
        want.l2_to_sm *= batch, want.sm_to_l2 *= batch, want.hbm_read *= batch, want.hbm_write *= batch,
            want.atomic_adds *= batch;
        check_traffic(x, play_once(x, &script, (MachineConfig){.mode = MODE_COUNT, .l2 = L2_IDEAL}, grid, 1), want,
                      "one batch multiplied");
        check_traffic(x,
                      play_once(x, &script, (MachineConfig){.mode = MODE_COUNT, .l2 = L2_IDEAL, .walk_all_heads = true}, grid, 1),
                      want, "all batches walked");
        check_traffic(x, play_once(x, &script, (MachineConfig){.mode = MODE_NUMERIC, .l2 = L2_IDEAL}, grid, 1), want, "numeric");
    }
}

/* ------------------------------------------------------------------------------------------------------------------- heads */

typedef struct {
    Tensor *K, *O;
} Heads;

static void copy_shared_head(Block *b, const void *arguments, uint64_t index)
{
    const Heads *h = arguments;
    Stream *w = stream(b, "s", 1);
    Tile *t = register_tile(b, "T", ELEMENT_F32, 1, 1);
    load(w, t, h->K, index);
    store(w, h->O, index, t);
}

/* Query head h of 6 reads K/V head h / (6 / kv_heads) of its own sequence. */
static void check_grouped_heads(Context *x)
{
    enum { BATCH = 2, HEADS = 6, ROWS = 3 };
    for (uint64_t kv_heads = 1; kv_heads <= HEADS; kv_heads++) {
        if (HEADS % kv_heads != 0) continue;
        Status status = {0};
        Machine machine;
        const Kernel kernel = kernel_of(copy_shared_head);
        machine_init(&machine, &x->h100, (MachineConfig){.mode = MODE_NUMERIC, .l2 = L2_IDEAL}, &x->alloc, &status);
        Heads h = {machine_tensor(&machine, "K", ELEMENT_F32, BATCH, kv_heads, ROWS, 1),
                   machine_tensor(&machine, "O", ELEMENT_F32, BATCH, HEADS, ROWS, 1)};
        for (uint64_t i = 0; i < tensor_elements(h.K); i++) ((float *)h.K->data)[i] = (float)i;
        check_true(&x->test, launch(&machine, &kernel, (Grid){ROWS, HEADS, BATCH}, &h), status.text);
        for (uint64_t i = 0; i < tensor_elements(h.O); i++) {
            const uint64_t row = i % ROWS, head = i / ROWS % HEADS, batch = i / ROWS / HEADS;
            const uint64_t from = (batch * kv_heads + head / (HEADS / kv_heads)) * ROWS + row;
            check_close(&x->test, (double)((const float *)h.O->data)[i], (double)from, 0, "the K/V head of a query head");
        }
        check_u64(&x->test, machine.ledger[0].traffic.l2_to_sm, BATCH * HEADS * ROWS, "every query head asks");
        check_u64(&x->test, machine.ledger[0].traffic.hbm_read, BATCH * kv_heads * ROWS, "each K/V head comes from HBM once");
        machine_free(&machine);
    }
}

/* ------------------------------------------------------------------------------------------------------ limits of the walk */

static void load_once(Block *b, const void *arguments, uint64_t index)
{
    const Tensor *tensor = *(Tensor *const *)arguments;
    load(stream(b, "s", 1), register_tile(b, "T", ELEMENT_F32, 1, 1), tensor, index % tensor->rows);
}

static void check_walk_limit(Context *x)
{
    static const struct {
        uint64_t limit;
        const char *error;
    } rows[] = {{100, ""}, {99, "kernel: the walk is longer than 99 tile loads"}};
    for (size_t i = 0; i < 2; i++) {
        Status status = {0};
        Machine machine;
        const Kernel kernel = kernel_of(load_once);
        machine_init(&machine, &x->h100, (MachineConfig){.mode = MODE_COUNT}, &x->alloc, &status);
        check_u64(&x->test, machine.walk_limit, DEFAULT_WALK_LIMIT, "the limit of a new machine");
        machine.walk_limit = rows[i].limit;
        Tensor *tensor = machine_tensor(&machine, "T", ELEMENT_F32, 1, 1, 5, 1);
        launch(&machine, &kernel, (Grid){100, 7, 1}, &tensor);      /* one head is walked */
        check_text(&x->test, status.text, rows[i].error, "walks that are too long");
        machine_free(&machine);
    }
}

/* Each kernel takes one counter past 64 bits. */
static void overflow_elements(Block *b, const void *arguments, uint64_t index)
{
    Stream *w = stream(b, "s", 1);
    Tile *t = register_tile(b, "T", ELEMENT_E4M3, UINT32_MAX, UINT32_MAX);
    (void)arguments;
    (void)index;
    fill(w, t, UINT32_MAX, UINT32_MAX, 0.0);
    fill(w, t, UINT32_MAX, UINT32_MAX, 0.0);
}

static void overflow_product(Block *b, const void *arguments, uint64_t index)
{
    enum { SIDE = 1 << 22 };
    Stream *w = stream(b, "s", 1);
    Tile *t = register_tile(b, "T", ELEMENT_E4M3, SIDE, SIDE), *c = register_tile(b, "C", ELEMENT_E4M3, SIDE, SIDE);
    (void)arguments;
    (void)index;
    fill(w, t, SIDE, SIDE, 0.0);
    matmul_nn(w, c, t, t);                                  /* 2^67 FLOP */
}

static void overflow_touch(Block *b, const void *arguments, uint64_t index)
{
    Stream *w = stream(b, "s", 1);
    Tile *t = shared_tile(b, "T", ELEMENT_F64, 1u << 31, 1u << 29);     /* 2^63 bytes */
    (void)arguments;
    (void)index;
    fill(w, t, 1u << 31, 1u << 29, 0.0);
    scale(w, t, 2.0);                                       /* read and written */
}

static void fill_2_63(Block *b, const void *arguments, uint64_t index)
{
    (void)arguments;
    (void)index;
    fill(stream(b, "s", 1), register_tile(b, "T", ELEMENT_E4M3, 1u << 31, 1u << 31), 1u << 31, 1u << 31, 0.0); /* 2^62 elements */
}

static void check_overflow(Context *x)
{
    static const struct {
        Run *run;
        Grid grid;
        const char *error;
    } rows[] = {
        {overflow_elements, {1, 1, 1}, "kernel: a counter overflows 64 bits"},
        {overflow_product, {1, 1, 1}, "kernel: a counter overflows 64 bits"},
        {overflow_touch, {1, 1, 1}, "kernel: a counter overflows 64 bits"},
        {fill_2_63, {3, 1, 1}, ""},
        {fill_2_63, {4, 1, 1}, "kernel: a counter overflows 64 bits"},
        {fill_2_63, {1, 2, 2}, "fill overflows 64 bits: 4611686018427387904 * 4"},
        {nothing, {1, UINT64_C(1) << 32, UINT64_C(1) << 32}, "batch x heads overflows 64 bits: 4294967296 * 4294967296"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        Status status = {0};
        Machine machine;
        launch_alone(&machine, x, &x->unbounded, rows[i].run, rows[i].grid, NULL, &status);
        check_text(&x->test, status.text, rows[i].error, "counters past 64 bits");
        machine_free(&machine);
    }
}

/* Two launches whose sum does not fit are found by machine_totals. */
static void check_total_overflow(Context *x)
{
    Status status = {0};
    Machine machine;
    Totals totals;
    const Kernel kernel = kernel_of(load_once);
    machine_init(&machine, &x->unbounded, (MachineConfig){.mode = MODE_COUNT, .l2 = L2_NONE}, &x->alloc, &status);
    Tensor *tensor = machine_tensor(&machine, "T", ELEMENT_F32, 1, 1, 1, 1);
    for (int i = 0; i < 2; i++)
        launch(&machine, &kernel, (Grid){1, UINT64_C(1) << 31, UINT64_C(1) << 31}, &tensor); /* 2^64 bytes each */
    check_text(&x->test, status.text, "", "each launch fits");
    check_true(&x->test, !machine_totals(&machine, &totals), "the total does not");
    check_text(&x->test, status.text, "hbm_read_bytes overflows 64 bits: 4611686018427387904 * 4", "the total does not");
    machine_free(&machine);
}

/* A million-token head in one block: what a launch needs does not grow with what it walks. */
static void check_memory_of_a_walk(Context *x)
{
    Alloc alloc = {0};
    for (uint64_t blocks = 1; blocks <= 10000; blocks *= 100) {
        Status status = {0};
        Machine machine;
        const Kernel kernel = kernel_of(load_once);
        machine_init(&machine, &x->unbounded, (MachineConfig){.mode = MODE_COUNT, .l2 = L2_IDEAL}, &alloc, &status);
        Tensor *tensor = machine_tensor(&machine, "T", ELEMENT_F32, 1, 1, UINT64_C(1) << 40, 1);
        check_true(&x->test, launch(&machine, &kernel, (Grid){blocks, 1, 1}, &tensor), status.text);
        machine_free(&machine);
    }
    check_true(&x->test, alloc.peak_bytes < 32 << 10, "a walk takes less than 32 KiB");
    check_u64(&x->test, alloc.live_bytes, 0, "and gives it back");
}

int main(void)
{
    Context x = {0};
    Status status = {0};
    profile_load("unbounded", &x.alloc, &x.unbounded, &status);
    profile_load("a100", &x.alloc, &x.a100, &status);
    profile_load("h100", &x.alloc, &x.h100, &status);
    if (profile_load("b200", &x.alloc, &x.b200, &status)) {
        check_arenas(&x);
        check_peak_over_blocks(&x);
        check_views(&x);
        check_view_values(&x);
        check_declaration_limits(&x);
        check_refusals(&x);
        check_tensor_limits(&x);
        check_tensor_count(&x);
        check_address_space(&x);
        check_poison(&x);
        check_sticky(&x);
        check_known_scripts(&x);
        check_random_scripts(&x);
        check_grouped_heads(&x);
        check_walk_limit(&x);
        check_overflow(&x);
        check_total_overflow(&x);
        check_memory_of_a_walk(&x);
    }
    check_text(&x.test, status.text, "", "the profiles");
    check_u64(&x.test, x.alloc.live_bytes, 0, "bytes still allocated at the end");
    return test_end(&x.test, "machine");
}
