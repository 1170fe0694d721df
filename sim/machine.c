/* machine.c - tensors, launches, on-chip arenas and the ledger. See machine.h; the operations are in ops.c. */
#include "machine.h"
#include "checked.h"
#include "l2_launch.h"
#include "launch_time.h"
#include "philox.h"

#include <math.h>
#include <string.h>

enum { ADDRESS_ALIGNMENT = 256 };

void machine_init(Machine *machine, const Profile *profile, MachineConfig config, Alloc *alloc, Status *status)
{
    *machine = (Machine){.profile = profile, .config = config, .alloc = alloc, .status = status, .walk_limit = DEFAULT_WALK_LIMIT};
    if (config.mode == MODE_NUMERIC) machine->math = config.math != NULL ? config.math : tile_math_select(config.precision);
}

void machine_free(Machine *machine)
{
    for (uint32_t i = 0; i < machine->tensor_count; i++)
        if (machine->tensors[i].stacked == 0) alloc_free(machine->alloc, machine->tensors[i].data);
    for (uint32_t i = 0; i < MAX_TILES; i++) alloc_free(machine->alloc, machine->tile_buffers[i].data);
    alloc_free(machine->alloc, machine->ledger);
    alloc_free(machine->alloc, machine->launches);
    *machine = (Machine){0};
}

static const struct {
    const char *name;
    uint64_t price;
} operations[OPERATION_KINDS] = {
    [OP_LOAD] = {"load", 0},
    [OP_STORE] = {"store", 0},
    [OP_ATOMIC_ADD] = {"atomic_add", 0},
    [OP_MATMUL] = {"matmul", 0},
    [OP_ACCUMULATE] = {"accumulate", 1},
    [OP_MASK] = {"mask", 0},
    [OP_FILL] = {"fill", 0},
    [OP_CONVERT] = {"convert", 0},
    [OP_SCALE] = {"scale", 1},
    [OP_ADD] = {"add", 1},
    [OP_ROW_MAX] = {"row_max", 1},
    [OP_EXP_ROWS] = {"exp_rows", 2},
    [OP_ROW_SUM] = {"row_sum", 1},
    [OP_SCALE_ROWS] = {"scale_rows", 1},
    [OP_DIVIDE_ROWS] = {"divide_rows", 1},
    [OP_SUBTRACT_ROWS] = {"subtract_rows", 1},
    [OP_MULTIPLY] = {"multiply", 1},
    [OP_ROW_DOT] = {"row_dot", 2},
    [OP_RANDOM_KEEP] = {"random_keep", 0},
    [OP_DROPOUT] = {"dropout", 1},
    [OP_ARRIVE] = {"arrive", 0},
    [OP_SYNC] = {"sync", 0},
    [OP_ROWS_SCALE_ADD] = {"rows_scale_add", 2},
    [OP_ROWS_EXP_DIFFERENCE] = {"rows_exp_difference", 2},
    [OP_ROWS_MAX] = {"rows_max", 1},
    [OP_ROWS_MULTIPLY] = {"rows_multiply", 1},
    [OP_ROWS_ADD] = {"rows_add", 1},
    [OP_ROWS_LOG_SUM_EXP] = {"rows_log_sum_exp", 0},
};

const char *unit_name(Unit unit)
{
    static const char *const names[UNIT_KINDS] = {"tensor cores", "MUFU", "issue", "shared memory", "copy"};
    return names[unit];
}

const char *operation_name(Operation operation) { return operations[operation].name; }

uint64_t operation_price(Operation operation) { return operations[operation].price; }

static void fill_reals(const Machine *machine, void *data, uint64_t count, double value)
{
    for (uint64_t i = 0; i < count; i++) {
        if (machine->math->real_bytes == sizeof(float)) ((float *)data)[i] = (float)value;
        else ((double *)data)[i] = value;
    }
}

Tensor *machine_tensor(Machine *machine, const char *name, ElementType type, uint64_t batch, uint64_t heads, uint64_t rows, uint64_t cols)
{
    Status *status = machine->status;
    if (machine->tensor_count == MAX_TENSORS)
        status_fail(status, STATUS_INFEASIBLE, "tensor %s: a machine holds at most %d tensors", name, MAX_TENSORS);
    uint64_t elements = checked_mul(checked_mul(batch, heads, "batch x heads", status), rows, "rows of all heads", status);
    elements = checked_mul(elements, cols, "elements of a tensor", status);
    const uint64_t bytes = checked_mul(elements, element_bytes(type), "bytes of a tensor", status);
    const uint64_t end = checked_add(machine->next_address, checked_add(bytes, ADDRESS_ALIGNMENT - 1, "bytes of a tensor", status),
                                     "the simulated address of a tensor", status);
    if (!status_ok(status)) return NULL;

    Tensor *tensor = &machine->tensors[machine->tensor_count];
    *tensor = (Tensor){.name = name, .type = type, .batch = batch, .heads = heads, .rows = rows, .cols = cols,
                       .address = machine->next_address, .index = machine->tensor_count};
    if (machine->math != NULL) {
        tensor->data = alloc_array(machine->alloc, elements, machine->math->real_bytes, name, status);
        if (tensor->data == NULL) return NULL;
        if (machine->config.poison) fill_reals(machine, tensor->data, elements, NAN);
    }
    machine->next_address = end / ADDRESS_ALIGNMENT * ADDRESS_ALIGNMENT;
    machine->tensor_count++;
    return tensor;
}

Tensor *machine_stacked_view(Machine *machine, Tensor *base, uint64_t group)
{
    if (base == NULL || group == 1) return base;
    if (machine->tensor_count == MAX_TENSORS || group == 0 || base->heads % group != 0 || base->stacked != 0) {
        status_fail(machine->status, STATUS_INFEASIBLE, "tensor %s: no view of %" PRIu64 " heads in groups of %" PRIu64, base->name, base->heads, group);
        return NULL;
    }
    Tensor *view = &machine->tensors[machine->tensor_count];
    *view = *base;
    view->heads = base->heads / group;
    view->rows = base->rows * group;            /* no more elements than the base has */
    view->index = machine->tensor_count++;
    view->stacked = group;
    return view;
}

/* ------------------------------------------------------------------------------------------------------- on-chip memory */

static const char *const space_names[] = {"shared memory", "registers", "tensor memory"};

static bool reserve(Block *block, Space space, const char *name, uint64_t bytes)
{
    Arena *arena = &block->arenas[space];
    const uint64_t free_bytes = arena->capacity - arena->used;
    if (bytes > free_bytes)
        return status_fail(block->machine->status, STATUS_INFEASIBLE,
                           "%s: tile %s does not fit in %s of %s: needs %" PRIu64 " bytes, %" PRIu64 " of %" PRIu64 " are left", block->kernel->name,
                           name, space_names[space], block->machine->profile->name, bytes, free_bytes, arena->capacity);
    arena->used += bytes;
    arena->peak = max_u64(arena->peak, arena->used);
    return true;
}

static Tile *next_tile(Block *block, const char *name, Space space, ElementType type, uint32_t rows, uint32_t cols)
{
    if (block->tile_count == MAX_TILES) {
        status_fail(block->machine->status, STATUS_INFEASIBLE, "%s: tile %s: a block holds at most %d tiles", block->kernel->name, name,
                    MAX_TILES);
        block->tile_count--;
    }
    Tile *tile = &block->tiles[block->tile_count++];
    const uint32_t index = block->tile_count - 1;
    *tile = (Tile){.block = block, .name = name, .space = space, .type = type, .kind = (uint32_t)type * 4 + (uint32_t)space, .product = {.left = UINT64_MAX},
                   .element_bytes = (uint32_t)element_bytes(type), .storage = index, .max_rows = rows, .max_cols = cols,
                   .simple = block->counting_only && space != SPACE_SHARED,
                   .ld = ((uint64_t)rows + TILE_ROW_ALIGNMENT - 1) / TILE_ROW_ALIGNMENT * TILE_ROW_ALIGNMENT};
    return tile;
}

/* Memory for the values of a tile, kept from block to block: every block declares the same tiles in the same order. */
static void attach_data(Block *block, Tile *tile)
{
    Machine *machine = block->machine;
    TileBuffer *buffer = &machine->tile_buffers[block->tile_count - 1];
    const uint64_t columns = checked_mul(tile->ld, tile->max_cols, tile->name, machine->status);
    const uint64_t elements = checked_add(columns, TILE_ROW_ALIGNMENT, tile->name, machine->status);    /* strips from any row on */
    if (buffer->elements < elements) {
        alloc_free(machine->alloc, buffer->data);
        buffer->elements = 0;
        buffer->data = alloc_array(machine->alloc, elements, machine->math->real_bytes, tile->name, machine->status);
        if (buffer->data == NULL) return;
        buffer->elements = elements;
    }
    tile->data = buffer->data;
    if (machine->config.poison) fill_reals(machine, tile->data, elements, NAN);
}

/* This block reserves one of `shares` equal parts. */
static Tile *new_tile(Block *block, Space space, const char *name, ElementType type, uint32_t rows, uint32_t cols, uint64_t shares)
{
    Tile *tile = next_tile(block, name, space, type, rows, cols);
    const uint64_t elements = (uint64_t)rows * cols;        /* 32 x 32 bits */
    const uint64_t bytes = checked_mul(elements, element_bytes(type), name, block->machine->status);
    if (status_ok(block->machine->status) && reserve(block, space, name, bytes / shares) && block->machine->math != NULL) attach_data(block, tile);
    return tile;
}

Tile *shared_tile(Block *block, const char *name, ElementType type, uint32_t rows, uint32_t cols)
{
    return new_tile(block, SPACE_SHARED, name, type, rows, cols, 1);
}

Tile *paired_tile(Block *block, const char *name, ElementType type, uint32_t rows, uint32_t cols)
{
    Tile *tile = new_tile(block, SPACE_SHARED, name, type, rows, cols, 2);
    tile->halved = true;
    tile->kind |= UINT32_C(1) << 31;    /* a product of it costs less than one of the whole */
    return tile;
}

Tile *register_tile(Block *block, const char *name, ElementType type, uint32_t rows, uint32_t cols)
{
    return new_tile(block, SPACE_REGISTERS, name, type, rows, cols, 1);
}

Tile *tensor_memory_tile(Block *block, const char *name, ElementType type, uint32_t rows, uint32_t cols)
{
    return new_tile(block, SPACE_TENSOR_MEMORY, name, type, rows, cols, 1);
}

Rows *row_vector(Block *block, const char *name, ElementType type, uint32_t rows) { return register_tile(block, name, type, rows, 1); }

Tile *tile_view(Tile *base, const char *name, ElementType type, uint32_t rows, uint32_t cols)
{
    Block *block = base->block;
    Tile *tile = next_tile(block, name, base->space, type, rows, cols);
    const uint64_t needed = (uint64_t)rows * cols * element_bytes(type);
    const uint64_t there = (uint64_t)base->max_rows * base->max_cols * element_bytes(base->type);
    if (needed > there || tile->ld > base->ld || cols > base->max_cols)
        status_fail(block->machine->status, STATUS_INFEASIBLE, "%s: %s (%" PRIu64 " bytes) is no view of %s (%" PRIu64 " bytes)",
                    block->kernel->name, name, needed, base->name, there);
    tile->storage = base->storage;
    tile->ld = base->ld;
    tile->data = base->data;
    return tile;
}

Stream *stream(Block *block, const char *name, uint32_t warps)
{
    if (block->stream_count == MAX_STREAMS) {
        status_fail(block->machine->status, STATUS_INFEASIBLE, "%s: stream %s: a block has at most %d streams", block->kernel->name, name,
                    MAX_STREAMS);
        block->stream_count--;
    }
    Stream *next = &block->streams[block->stream_count++];
    *next = (Stream){.block = block, .name = name, .warps = warps, .index = block->stream_count - 1,
                       .shape = block->kernel->shape, .async_matmul = block->kernel->instruction != TENSOR_MMA_SYNC, .async_copy = true};
    return next;
}

/* -------------------------------------------------------------------------------------------------------------- launching */

static bool can_launch(const Machine *machine, const Kernel *kernel)
{
    const Profile *p = machine->profile;
    Status *status = machine->status;
    if (!status_ok(status)) return false;
    if (!profile_has(p, kernel->instruction))
        return status_fail(status, STATUS_INFEASIBLE, "%s needs %s: %s has no %s", kernel->name, tensor_instruction_name(kernel->instruction),
                           p->name, tensor_instruction_name(kernel->instruction));
    if (kernel->threads > p->max_threads_per_block)
        return status_fail(status, STATUS_INFEASIBLE, "%s: %u threads per block, %s allows %" PRIu64, kernel->name, kernel->threads, p->name,
                           p->max_threads_per_block);
    if (kernel->registers_per_thread > p->registers_per_thread)
        return status_fail(status, STATUS_INFEASIBLE, "%s: %u registers per thread, %s allows %" PRIu64, kernel->name,
                           kernel->registers_per_thread, p->name, p->registers_per_thread);
    const uint64_t registers = (uint64_t)kernel->threads * kernel->registers_per_thread;
    if (registers > p->registers_per_sm)
        return status_fail(status, STATUS_INFEASIBLE, "%s: %" PRIu64 " registers per block, an SM of %s has %" PRIu64, kernel->name, registers,
                           p->name, p->registers_per_sm);
    return true;
}

static void init_arenas(Block *block)
{
    const Profile *p = block->machine->profile;
    const uint64_t register_bytes = (uint64_t)block->kernel->threads * block->kernel->registers_per_thread * 4;
    block->arenas[SPACE_SHARED].capacity = p->smem_bytes_per_block;
    block->arenas[SPACE_REGISTERS].capacity = p->registers_per_thread == PROFILE_UNLIMITED ? PROFILE_UNLIMITED : register_bytes;
    block->arenas[SPACE_TENSOR_MEMORY].capacity = p->tmem_bytes_per_sm;
}

void block_begin(Block *block, uint64_t batch, uint64_t head, uint64_t index)
{
    block->batch = batch;
    block->head = head;
    block->index = index;
    block->member = 0;
    block->tile_count = 0;
    block->stream_count = 0;
    for (int space = 0; space < 3; space++) block->arenas[space].used = 0;
}

/* The order in which the blocks of a head run: as launched, or a permutation drawn from the seed (Fisher and Yates). NULL: as launched. */
static uint64_t *block_order(const Machine *machine, uint64_t blocks)
{
    if (machine->config.shuffle_seed == 0 || machine->math == NULL) return NULL;
    uint64_t *order = alloc_array(machine->alloc, blocks, sizeof *order, "the order of the blocks", machine->status);
    if (order == NULL) return NULL;
    for (uint64_t i = 0; i < blocks; i++) {
        const uint64_t j = philox_element(machine->config.shuffle_seed, 0, i) % (i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    return order;
}

/* What this block did since `before`, as one number: blocks with the same work share it. Loads tell how long its loop was. */
static BlockWork work_since(const Block *block, const Counts *before)
{
    const Counts *now = &block->counts;
    uint64_t hash = UINT64_C(14695981039346656037);         /* FNV-1a over the counters */
    for (int kind = 0; kind < OPERATION_KINDS; kind++) hash = (hash ^ (now->elements[kind] - before->elements[kind])) * UINT64_C(1099511628211);
    hash = (hash ^ (now->matmul_flops - before->matmul_flops)) * UINT64_C(1099511628211);
    return (BlockWork){hash, now->elements[OP_LOAD] - before->elements[OP_LOAD], block->index};
}

/* What one head accesses stands for all. */
static void run_block(Block *block, const void *arguments, L2Trace *trace)
{
    block->l2_trace = block->head == 0 && block->batch == 0 ? trace : NULL;
    if (block->l2_trace != NULL) l2_trace_begin(block->l2_trace, block->index);
    block->kernel->run(block, arguments, block->index);
    if (block->l2_trace != NULL) l2_trace_end(block->l2_trace);
}

static void walk(Block *block, Grid walked, const uint64_t *order, BlockWork *works, L2Trace *trace, const void *arguments)
{
    const Machine *machine = block->machine;
    for (uint64_t batch = 0; batch < walked.batch; batch++)
        for (uint64_t head = 0; head < walked.heads; head++)
            for (uint64_t k = 0; k < walked.blocks; k++) {
                const uint64_t index = order != NULL ? order[k] : k;
                const Counts before = works != NULL ? block->counts : (Counts){0};
                block_begin(block, batch, head, index);
                run_block(block, arguments, trace);
                if (works != NULL) works[index] = work_since(block, &before);
                if (block->counts.elements[OP_LOAD] > machine->walk_limit)
                    status_fail(machine->status, STATUS_INFEASIBLE, "%s: the walk is longer than %" PRIu64 " tile loads",
                                block->kernel->name, machine->walk_limit);
                if (block->counts.overflow)
                    status_fail(machine->status, STATUS_INFEASIBLE, "%s: a counter overflows 64 bits", block->kernel->name);
                if (!status_ok(machine->status)) return;
            }
}

static bool grow(const Machine *machine, void **array, uint32_t count, uint32_t *capacity, uint64_t size, const char *what)
{
    if (count < *capacity) return true;
    const uint32_t larger = *capacity ? 2 * *capacity : 16;
    void *grown = alloc_resize(machine->alloc, *array, larger, size, what, machine->status);
    if (grown == NULL) return false;
    *array = grown;
    *capacity = larger;
    return true;
}

static void multiply_counts(Counts *counts, uint64_t heads, Status *status)
{
    for (int kind = 0; kind < OPERATION_KINDS; kind++)
        counts->elements[kind] = checked_mul(counts->elements[kind], heads, operation_name((Operation)kind), status);
    counts->matmul_flops = checked_mul(counts->matmul_flops, heads, "matmul_flops", status);
    counts->matmul_flops_hidden = checked_mul(counts->matmul_flops_hidden, heads, "matmul_flops_hidden", status);
    counts->references_moved = checked_mul(counts->references_moved, heads, "references_moved", status);
    counts->references_kept = checked_mul(counts->references_kept, heads, "references_kept", status);
    counts->smem_operand_bytes = checked_mul(counts->smem_operand_bytes, heads, "smem_operand_bytes", status);
    counts->smem_thread_bytes = checked_mul(counts->smem_thread_bytes, heads, "smem_thread_bytes", status);
    counts->smem_copy_bytes = checked_mul(counts->smem_copy_bytes, heads, "smem_copy_bytes", status);
}

/* One walked head stands for all: what SMs asked for scales with the grid's heads, what ideal L2 lets through with the tensor's. */
static Traffic multiply_traffic(const Machine *machine, const Tensor *tensor, Traffic t, Grid grid)
{
    Status *status = machine->status;
    const uint64_t shared_heads = tensor->batch * min_u64(tensor->heads, grid.heads), grid_heads = grid.batch * grid.heads;
    const uint64_t hbm_heads = machine->config.l2 == L2_IDEAL ? shared_heads : grid_heads;
    t.l2_to_sm = checked_mul(t.l2_to_sm, grid_heads, tensor->name, status);
    t.sm_to_l2 = checked_mul(t.sm_to_l2, grid_heads, tensor->name, status);
    t.hbm_read = checked_mul(t.hbm_read, hbm_heads, tensor->name, status);
    t.hbm_write = checked_mul(t.hbm_write, hbm_heads, tensor->name, status);
    t.atomic_adds = checked_mul(t.atomic_adds, grid_heads, tensor->name, status);
    return t;
}

/* HBM's side of the ledger comes from the simulated cache, which has seen all heads. */
static void simulate_l2(Block *block, const L2Trace *trace, LaunchRecord *launch_record)
{
    Machine *machine = block->machine;
    L2Traffic traffic;
    if (!status_ok(machine->status) || !l2_launch(machine, block->kernel, block->grid, trace, launch_record, &traffic, &launch_record->l2)) return;
    for (uint32_t i = 0; i < launch_record->row_count; i++) {
        LedgerRow *row = &machine->ledger[launch_record->first_row + i];
        const uint64_t bytes = element_bytes(row->tensor->type);
        row->traffic.hbm_read = ceil_div(traffic.read[row->tensor->index], bytes);
        row->traffic.hbm_write = ceil_div(traffic.written[row->tensor->index], bytes);
    }
}

static void record(Block *block, bool one_head)
{
    Machine *machine = block->machine;
    Status *status = machine->status;
    const uint64_t grid_heads = checked_mul(block->grid.heads, block->grid.batch, "batch x heads", status);
    const uint64_t blocks = checked_mul(block->grid.blocks, grid_heads, "thread blocks", status);
    if (!grow(machine, (void **)&machine->launches, machine->launch_count, &machine->launch_capacity, sizeof(LaunchRecord), "launches"))
        return;
    LaunchRecord *launch_record = &machine->launches[machine->launch_count++];
    *launch_record = (LaunchRecord){.kernel = block->kernel->name, .blocks = blocks, .counts = block->counts,
                                    .smem_peak_bytes = block->arenas[SPACE_SHARED].peak,
                                    .register_peak_bytes = block->arenas[SPACE_REGISTERS].peak,
                                    .tmem_peak_bytes = block->arenas[SPACE_TENSOR_MEMORY].peak, .first_row = machine->ledger_count};
    if (one_head) multiply_counts(&launch_record->counts, grid_heads, status);
    for (uint32_t i = 0; i < machine->tensor_count; i++) {
        Traffic traffic = block->traffic[i];
        if (traffic.l2_to_sm == 0 && traffic.sm_to_l2 == 0) continue;
        if (machine->config.l2 == L2_NONE) {                    /* HBM sees what the SMs asked for */
            traffic.hbm_read = traffic.l2_to_sm;
            traffic.hbm_write = traffic.sm_to_l2 - traffic.atomic_adds;
        }
        if (one_head) traffic = multiply_traffic(machine, &machine->tensors[i], traffic, block->grid);
        if (!grow(machine, (void **)&machine->ledger, machine->ledger_count, &machine->ledger_capacity, sizeof(LedgerRow), "ledger")) return;
        machine->ledger[machine->ledger_count++] = (LedgerRow){block->kernel->name, &machine->tensors[i], traffic};
        launch_record->row_count++;
    }
}

void block_free(Block *block)
{
    for (uint32_t i = 0; i < MAX_TENSORS; i++) {
        for (uint64_t head = 0; head < block->coverage_heads[i]; head++) {
            coverage_free(&block->touched[i][head], block->machine->alloc);
            coverage_free(&block->written[i][head], block->machine->alloc);
        }
        alloc_free(block->machine->alloc, block->touched[i]);
        alloc_free(block->machine->alloc, block->written[i]);
    }
    alloc_free(block->machine->alloc, block);
}

Block *block_new(Machine *machine, const Kernel *kernel, Grid grid)
{
    Block *block = alloc_array(machine->alloc, 1, sizeof *block, "a thread block", machine->status);
    if (block == NULL) return NULL;
    block->machine = machine;
    block->kernel = kernel;
    block->grid = grid;
    block->counting_only = machine->math == NULL && machine->config.observe == NULL;
    init_arenas(block);
    return block;
}

bool launch(Machine *machine, const Kernel *kernel, Grid grid, const void *arguments)
{
    if (!can_launch(machine, kernel)) return false;
    Block *block = block_new(machine, kernel, grid);
    if (block == NULL) return false;
    const bool one_head = machine->config.mode == MODE_COUNT && !machine->config.walk_all_heads;
    const bool timed = one_head && machine->config.time;
    Grid walked = grid;
    if (one_head) walked = (Grid){grid.heads > 0 && grid.batch > 0 ? grid.blocks : 0, 1, 1};
    uint64_t *order = block_order(machine, walked.blocks);
    BlockWork *works = timed ? alloc_array(machine->alloc, walked.blocks, sizeof *works, "block works", machine->status) : NULL;
    const bool simulated = machine->config.l2 == L2_SIMULATED && status_ok(machine->status);
    L2Trace *trace = simulated ? l2_trace_new(kernel->name, grid.blocks, machine->alloc, machine->status) : NULL;
    if (status_ok(machine->status)) walk(block, walked, order, works, trace, arguments);
    alloc_free(machine->alloc, order);
    if (status_ok(machine->status)) record(block, one_head);
    if (simulated && status_ok(machine->status)) simulate_l2(block, trace, &machine->launches[machine->launch_count - 1]);
    l2_trace_free(trace);
    block_free(block);
    if (timed && status_ok(machine->status)) time_launch(machine, kernel, grid, arguments, works, &machine->launches[machine->launch_count - 1]);
    alloc_free(machine->alloc, works);
    return status_ok(machine->status);
}

/* ---------------------------------------------------------------------------------------------------------------- totals */

static void sum_into(uint64_t *total, uint64_t value, const char *name, Status *status) { *total = checked_add(*total, value, name, status); }

static void add_row(Totals *totals, const LedgerRow *row, Status *status)
{
    const Traffic *t = &row->traffic;
    const uint64_t bytes = element_bytes(row->tensor->type);
    sum_into(&totals->hbm_read_elements, t->hbm_read, "hbm_read_elements", status);
    sum_into(&totals->hbm_write_elements, t->hbm_write, "hbm_write_elements", status);
    sum_into(&totals->hbm_read_bytes, checked_mul(t->hbm_read, bytes, "hbm_read_bytes", status), "hbm_read_bytes", status);
    sum_into(&totals->hbm_write_bytes, checked_mul(t->hbm_write, bytes, "hbm_write_bytes", status), "hbm_write_bytes", status);
    sum_into(&totals->l2_to_sm_bytes, checked_mul(t->l2_to_sm, bytes, "l2_to_sm_bytes", status), "l2_to_sm_bytes", status);
    sum_into(&totals->atomic_elements, checked_mul(t->atomic_adds, 2, "atomic_elements", status), "atomic_elements", status);
    sum_into(&totals->sm_to_l2_bytes, checked_mul(t->sm_to_l2, bytes, "sm_to_l2_bytes", status), "sm_to_l2_bytes", status);
}

uint64_t machine_nanoseconds(const Machine *machine)
{
    uint64_t sum = machine->launch_count > 0 ? machine->profile->launch_nanoseconds : 0;
    for (uint32_t i = 0; i < machine->launch_count; i++) sum = checked_add(sum, machine->launches[i].time.nanoseconds, "nanoseconds", machine->status);
    return sum;
}

static void add_launch(Totals *totals, const LaunchRecord *launch_record, Status *status)
{
    const Counts *c = &launch_record->counts;
    sum_into(&totals->matmul_flops, c->matmul_flops, "matmul_flops", status);
    sum_into(&totals->matmul_flops_exact_mask, c->matmul_flops - c->matmul_flops_hidden, "matmul_flops_exact_mask", status);
    sum_into(&totals->exp_ops, c->elements[OP_EXP_ROWS], "exp_ops", status);
    sum_into(&totals->exp_ops, c->elements[OP_ROWS_EXP_DIFFERENCE], "exp_ops", status);
    for (int kind = 0; kind < OPERATION_KINDS; kind++)
        sum_into(&totals->nonmatmul_ops, checked_mul(c->elements[kind], operation_price((Operation)kind), "nonmatmul_ops", status),
                 "nonmatmul_ops", status);
    sum_into(&totals->smem_operand_bytes, c->smem_operand_bytes, "smem_operand_bytes", status);
    sum_into(&totals->smem_thread_bytes, c->smem_thread_bytes, "smem_thread_bytes", status);
    sum_into(&totals->smem_copy_bytes, c->smem_copy_bytes, "smem_copy_bytes", status);
    totals->sram_peak_bytes = max_u64(totals->sram_peak_bytes, launch_record->smem_peak_bytes);
    totals->register_peak_bytes = max_u64(totals->register_peak_bytes, launch_record->register_peak_bytes);
    totals->tmem_peak_bytes = max_u64(totals->tmem_peak_bytes, launch_record->tmem_peak_bytes);
}

void machine_clear_ledger(Machine *machine)
{
    machine->ledger_count = 0;
    machine->launch_count = 0;
}

bool machine_totals(const Machine *machine, Totals *totals)
{
    *totals = (Totals){0};
    for (uint32_t i = 0; i < machine->ledger_count; i++) add_row(totals, &machine->ledger[i], machine->status);
    for (uint32_t i = 0; i < machine->launch_count; i++) add_launch(totals, &machine->launches[i], machine->status);
    return status_ok(machine->status);
}
