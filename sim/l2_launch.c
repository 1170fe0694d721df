/* l2_launch.c - see l2_launch.h. */
#include "l2_launch.h"

#include "checked.h"
#include "l2_chip.h"
#include "launch_time.h"

#include <string.h>

/* -------------------------------------------------------------------------------------------------------------- recording */

enum { FIRST_SLOTS = 1024 };

L2Trace *l2_trace_new(const char *kernel, uint64_t blocks, Alloc *alloc, Status *status)
{
    const char *what = "the accesses of a head";
    L2Trace *trace = alloc_array(alloc, 1, sizeof *trace, what, status);
    if (trace == NULL) return NULL;
    *trace = (L2Trace){.kernel = kernel, .alloc = alloc, .status = status, .slots = FIRST_SLOTS};
    trace->table = alloc_array(alloc, trace->slots, sizeof *trace->table, what, status);
    trace->first = alloc_array(alloc, blocks, sizeof *trace->first, what, status);
    trace->end = alloc_array(alloc, blocks, sizeof *trace->end, what, status);
    if (status_ok(status)) return trace;
    l2_trace_free(trace);
    return NULL;
}

void l2_trace_free(L2Trace *trace)
{
    if (trace == NULL) return;
    Alloc *alloc = trace->alloc;
    alloc_free(alloc, trace->pieces);
    alloc_free(alloc, trace->table);
    alloc_free(alloc, trace->sequence);
    alloc_free(alloc, trace->first);
    alloc_free(alloc, trace->end);
    alloc_free(alloc, trace);
}

void l2_trace_begin(L2Trace *trace, uint64_t block)
{
    trace->block = block;
    trace->first[block] = trace->end[block] = trace->length;
}

void l2_trace_end(L2Trace *trace) { trace->end[trace->block] = trace->length; }

static uint32_t hash_of(const L2Piece *p)
{
    const uint64_t where = ((uint64_t)p->row << 32 | p->rows) * UINT64_C(0x9e3779b97f4a7c15);
    const uint64_t which = ((uint64_t)p->col << 32 | p->cols) ^ ((uint64_t)p->member << 16 | (uint64_t)p->tensor << 8 | p->access);
    return (uint32_t)((where ^ (which + 1) * UINT64_C(0xd6e8feb86659fd93)) >> 32);
}

static bool same_piece(const L2Piece *a, const L2Piece *b)
{
    return a->row == b->row && a->col == b->col && a->rows == b->rows && a->cols == b->cols && a->member == b->member &&
           a->tensor == b->tensor && a->access == b->access;
}

/* The slot where the piece is, or the free one where it belongs. */
static uint32_t slot_of(const L2Trace *trace, const L2Piece *piece)
{
    uint32_t slot = hash_of(piece) & (trace->slots - 1);
    while (trace->table[slot] != 0 && !same_piece(&trace->pieces[trace->table[slot] - 1], piece)) slot = (slot + 1) & (trace->slots - 1);
    return slot;
}

static bool double_table(L2Trace *trace)
{
    uint32_t *larger = alloc_array(trace->alloc, 2 * (uint64_t)trace->slots, sizeof *larger, "the accesses of a head", trace->status);
    if (larger == NULL) return false;
    alloc_free(trace->alloc, trace->table);
    trace->table = larger;
    trace->slots *= 2;
    for (uint32_t i = 0; i < trace->piece_count; i++) trace->table[slot_of(trace, &trace->pieces[i])] = i + 1;
    return true;
}

static bool new_piece(L2Trace *trace, const L2Piece *piece)
{
    if (trace->piece_count == trace->piece_capacity) {
        const uint32_t capacity = trace->piece_capacity > 0 ? 2 * trace->piece_capacity : 256;      /* at most 2 * L2_MOST_RECORDED */
        L2Piece *larger = alloc_resize(trace->alloc, trace->pieces, capacity, sizeof *larger, "the accesses of a head", trace->status);
        if (larger == NULL) return false;
        trace->pieces = larger;
        trace->piece_capacity = capacity;
    }
    trace->pieces[trace->piece_count++] = *piece;
    return 2 * trace->piece_count < trace->slots || double_table(trace);
}

static bool longer_sequence(L2Trace *trace)
{
    if (trace->length == L2_MOST_RECORDED)
        return status_fail(trace->status, STATUS_INFEASIBLE,
                           "%s: a head moves more than %" PRIu64 " tiles, too many for the simulated L2; use larger blocks, a shorter sequence or "
                           "the ideal L2",
                           trace->kernel, L2_MOST_RECORDED);
    const uint64_t capacity = max_u64(2 * trace->capacity, 1024);
    uint32_t *larger = alloc_resize(trace->alloc, trace->sequence, capacity, sizeof *larger, "the accesses of a head", trace->status);
    if (larger == NULL) return false;
    trace->sequence = larger;
    trace->capacity = capacity;
    return true;
}

void l2_trace_add(L2Trace *trace, const L2Piece *piece)
{
    if (piece->rows == 0 || piece->cols == 0 || !status_ok(trace->status)) return;
    if (trace->length == trace->capacity && !longer_sequence(trace)) return;
    uint32_t slot = slot_of(trace, piece);
    if (trace->table[slot] == 0) {
        if (!new_piece(trace, piece)) return;
        slot = slot_of(trace, piece);           /* the table may have grown */
        trace->table[slot] = trace->piece_count;
    }
    trace->sequence[trace->length++] = trace->table[slot] - 1;
}

/* ---------------------------------------------------------------------------------------------------------- tiles of a tensor */

/* How a tensor is cut into tiles of the cache. */
typedef struct {
    uint64_t rows, cols;            /* of a tile */
    uint64_t across, per_head;      /* tiles side by side; in a head */
    uint64_t base;                  /* number of its first tile */
    uint64_t tile_bytes;
    uint64_t chunks_per_tile;       /* of L2_CHIP; 0: several tiles share one, */
    uint64_t tiles_per_chunk;       /* so many */
    uint64_t first_chunk, first_part;
} Cut;

/* A piece as tiles: `down` x `across` of them. */
typedef struct {
    uint64_t first;                 /* relative to the head */
    uint32_t down, across, pitch;
    uint32_t size;                  /* which of the agenda's sizes */
    uint64_t bytes;
    uint8_t tensor, access;
} Touch;

/* When a running block makes its next access. */
typedef struct {
    uint64_t time, slot;
} Due;

/* What is due, first by time, then by slot. A block's next access comes as many units of time after this one as this one has bytes, and there are
 * few sizes. So there is a queue for each: what comes in in order of time stays in that order when the same is added to all of it. */
typedef struct {
    uint64_t *sizes;                /* [count]; the first is 0: what is due at the start */
    uint32_t count;
    uint64_t capacity;              /* of a queue: a power of two, no less than there are slots */
    Due *queues;                    /* [count][capacity], rings */
    uint64_t *taken, *added;        /* [count] */
    Due *fronts;                    /* [count]; never due: empty */
} Agenda;

typedef struct {
    Machine *machine;
    const L2Trace *trace;
    Grid grid;
    Cut cuts[MAX_TENSORS];
    Touch *touches;                 /* [piece_count] */
    uint64_t tiles;                 /* of all tensors and heads */
    uint64_t *bases;                /* [heads of the grid][tensors]: first tile (by tiles), first byte (by lines) */
    L2Engine engine;
    Agenda agenda;
    L2TileCache tile_cache;         /* the one that the engine names; the others are empty */
    L2LineCache line_cache;
    L2Chip chip;
    uint64_t chunks, parts;         /* of all tensors */
    uint32_t spilled_per_block, spilled_per_step;       /* chunks of a slot */
    uint64_t earlier;               /* chunks that are dirty when the launch begins: the last ones */
} Simulation;

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The largest step that all [first, first + count) begin and end at; ends at the tensor's edge are free. */
static uint64_t common_step(uint64_t step, uint64_t first, uint64_t count, uint64_t limit)
{
    step = gcd(step, first);
    return first + count < limit ? gcd(step, count) : step;
}

static void cut_tensors(Simulation *s)
{
    const Machine *machine = s->machine;
    bool used[MAX_TENSORS] = {false};
    for (uint32_t i = 0; i < s->trace->piece_count; i++) {
        const L2Piece *p = &s->trace->pieces[i];
        const Tensor *t = &machine->tensors[p->tensor];
        Cut *cut = &s->cuts[p->tensor];
        cut->rows = common_step(cut->rows, p->row, p->rows, t->rows);
        cut->cols = common_step(cut->cols, p->col, p->cols, t->cols);
        used[p->tensor] = true;
    }
    for (uint32_t i = 0; i < machine->tensor_count; i++) {
        if (!used[i]) continue;
        const Tensor *t = &machine->tensors[i];
        Cut *cut = &s->cuts[i];
        if (cut->rows == 0) cut->rows = t->rows;
        if (cut->cols == 0) cut->cols = t->cols;
        cut->across = ceil_div(t->cols, cut->cols);
        cut->per_head = checked_mul(ceil_div(t->rows, cut->rows), cut->across, "tiles of the L2 cache", machine->status);
        cut->base = s->tiles;
        s->tiles = checked_add(s->tiles, checked_mul(cut->per_head, t->batch * t->heads, "tiles of the L2 cache", machine->status),
                               "tiles of the L2 cache", machine->status);
    }
}

/* The number of this size, a new one if there is none like it. */
static uint32_t size_of(Agenda *agenda, uint64_t bytes)
{
    uint32_t size = 0;
    while (size < agenda->count && agenda->sizes[size] != bytes) size++;
    if (size == agenda->count) agenda->sizes[agenda->count++] = bytes;
    return size;
}

static bool convert_pieces(Simulation *s)
{
    Agenda *agenda = &s->agenda;
    agenda->sizes = alloc_array(s->machine->alloc, (uint64_t)s->trace->piece_count + 1, sizeof *agenda->sizes, "accesses to the L2 cache", s->machine->status);
    if (agenda->sizes == NULL) return false;
    agenda->count = 1;
    s->touches = alloc_array(s->machine->alloc, s->trace->piece_count, sizeof *s->touches, "accesses to the L2 cache", s->machine->status);
    for (uint32_t i = 0; s->touches != NULL && i < s->trace->piece_count; i++) {
        const L2Piece *p = &s->trace->pieces[i];
        const Cut *cut = &s->cuts[p->tensor];
        const uint64_t row = p->row / cut->rows, col = p->col / cut->cols;
        const uint64_t bytes = (uint64_t)p->rows * p->cols * element_bytes(s->machine->tensors[p->tensor].type);
        s->touches[i] = (Touch){
            .first = p->member * cut->per_head + row * cut->across + col,
            .down = (uint32_t)(ceil_div((uint64_t)p->row + p->rows, cut->rows) - row),
            .across = (uint32_t)(ceil_div((uint64_t)p->col + p->cols, cut->cols) - col),
            .pitch = (uint32_t)cut->across,
            .size = size_of(agenda, bytes),
            .bytes = bytes,
            .tensor = p->tensor,
            .access = p->access,
        };
    }
    return s->touches != NULL;
}

/* A tile of this size must fit 32 bits: no tile that a kernel can hold comes near. */
static bool size_tiles(Simulation *s)
{
    const Machine *machine = s->machine;
    for (uint32_t i = 0; i < machine->tensor_count; i++) {
        Cut *cut = &s->cuts[i];
        const Tensor *t = &machine->tensors[i];
        if (cut->per_head == 0) continue;
        if (cut->rows > UINT32_MAX / cut->cols / element_bytes(t->type))
            return status_fail(machine->status, STATUS_INFEASIBLE, "a tile of %s is too large for the simulated L2", t->name);
        cut->tile_bytes = cut->rows * cut->cols * element_bytes(t->type);
    }
    return true;
}

static uint64_t tiles_of(const Cut *cut, const Tensor *t) { return cut->per_head * t->batch * t->heads; }

/* Tile k of all heads of a tensor: smaller at its edges. */
static uint32_t bytes_of_tile(const Cut *cut, const Tensor *t, uint64_t k)
{
    const uint64_t row = k % cut->per_head / cut->across * cut->rows, col = k % cut->across * cut->cols;
    return (uint32_t)(min_u64(cut->rows, t->rows - row) * min_u64(cut->cols, t->cols - col) * element_bytes(t->type));
}

static void define_tiles(Simulation *s)
{
    for (uint32_t i = 0; i < s->machine->tensor_count; i++) {
        const Cut *cut = &s->cuts[i];
        const Tensor *t = &s->machine->tensors[i];
        for (uint64_t k = 0; k < tiles_of(cut, t); k++) l2_tiles_define(&s->tile_cache, (uint32_t)(cut->base + k), bytes_of_tile(cut, t, k), (uint8_t)i);
    }
}

/* Large tiles are several chunks; small ones share them. */
static void number_chunks(Simulation *s)
{
    Status *status = s->machine->status;
    for (uint32_t i = 0; i < s->machine->tensor_count; i++) {
        Cut *cut = &s->cuts[i];
        const uint64_t tiles = tiles_of(cut, &s->machine->tensors[i]);
        if (tiles == 0) continue;
        const bool shared = cut->tile_bytes <= L2_CHUNK_BYTES / 2;
        cut->first_chunk = s->chunks;
        cut->first_part = s->parts;
        cut->chunks_per_tile = shared ? 0 : ceil_div(cut->tile_bytes, L2_CHUNK_BYTES);
        cut->tiles_per_chunk = shared ? L2_CHUNK_BYTES / cut->tile_bytes : 0;
        const uint64_t chunks = shared ? ceil_div(tiles, cut->tiles_per_chunk) : checked_mul(tiles, cut->chunks_per_tile, "chunks of the L2 cache", status);
        s->chunks = checked_add(s->chunks, chunks, "chunks of the L2 cache", status);
        s->parts += shared ? tiles : 0;
    }
}

static void define_chunks(Simulation *s, uint64_t slots)
{
    for (uint32_t i = 0; i < s->machine->tensor_count; i++) {
        const Cut *cut = &s->cuts[i];
        const Tensor *t = &s->machine->tensors[i];
        const uint64_t tiles = tiles_of(cut, t);
        for (uint64_t k = 0; cut->chunks_per_tile == 0 && k < tiles; k += cut->tiles_per_chunk)
            l2_chip_define(&s->chip, (uint32_t)(cut->first_chunk + k / cut->tiles_per_chunk), L2_CHUNK_BYTES, (uint8_t)i);
        for (uint64_t k = 0; cut->chunks_per_tile > 0 && k < tiles; k++) {
            uint32_t left = bytes_of_tile(cut, t, k);
            for (uint64_t c = 0; c < cut->chunks_per_tile; c++) {
                const uint32_t bytes = (uint32_t)min_u64(left, L2_CHUNK_BYTES);
                l2_chip_define(&s->chip, (uint32_t)(cut->first_chunk + k * cut->chunks_per_tile + c), bytes, (uint8_t)i);
                left -= bytes;
            }
        }
    }
    for (uint64_t c = 0; c < slots * (s->spilled_per_block + s->spilled_per_step); c++)
        l2_chip_define(&s->chip, (uint32_t)(s->chunks + c), L2_CHUNK_BYTES, L2_REGISTERS);
    for (uint64_t c = s->chip.chunk_count - s->earlier; c < s->chip.chunk_count; c++) {
        l2_chip_define(&s->chip, (uint32_t)c, L2_CHUNK_BYTES, L2_EARLIER);
        l2_chip_store_before(&s->chip, (uint32_t)c);
    }
}

/* Where each head of the grid finds each tensor, as head_of() in ops.c has it: fewer heads are shared, of more a block has several. */
static bool find_bases(Simulation *s)
{
    const Machine *machine = s->machine;
    const uint64_t heads = s->grid.batch * s->grid.heads, tensors = machine->tensor_count;
    s->bases = alloc_array(machine->alloc, heads * tensors, sizeof *s->bases, "heads of a launch", machine->status);
    for (uint64_t h = 0; s->bases != NULL && h < heads; h++)
        for (uint32_t i = 0; i < tensors; i++) {
            const Tensor *t = &machine->tensors[i];
            const uint64_t head = h / s->grid.heads * t->heads + h % s->grid.heads * t->heads / s->grid.heads;
            s->bases[h * tensors + i] = s->engine == L2_LRU_LINES ? t->address + head * t->rows * t->cols * element_bytes(t->type)
                                                    : s->cuts[i].base + head * s->cuts[i].per_head;
        }
    return s->bases != NULL;
}

/* ------------------------------------------------------------------------------------------------------------------ running */

static void touch_tiles(Simulation *s, const uint64_t *bases, const Touch *touch)
{
    const uint64_t first = bases[touch->tensor] + touch->first;
    for (uint32_t r = 0; r < touch->down; r++)
        for (uint32_t c = 0; c < touch->across; c++)
            l2_tiles_access(&s->tile_cache, (uint32_t)(first + (uint64_t)r * touch->pitch + c), (L2Access)touch->access);
}

/* Whole rows are one range of bytes. */
static void touch_lines(Simulation *s, const uint64_t *bases, const L2Piece *p)
{
    const Tensor *t = &s->machine->tensors[p->tensor];
    const uint64_t size = element_bytes(t->type), row_bytes = t->cols * size;
    const uint64_t first = bases[p->tensor] + (p->member * t->rows + p->row) * row_bytes + p->col * size;
    const bool whole = p->cols == t->cols;
    const uint64_t ranges = whole ? 1 : p->rows, bytes = whole ? p->rows * row_bytes : p->cols * size;
    for (uint64_t r = 0; r < ranges; r++) l2_lines_access(&s->line_cache, first + r * row_bytes, bytes, p->tensor, (L2Access)p->access);
}

static void touch_chunks(Simulation *s, const uint64_t *bases, const Touch *touch, uint32_t partition)
{
    const Cut *cut = &s->cuts[touch->tensor];
    const Tensor *t = &s->machine->tensors[touch->tensor];
    const uint64_t first = bases[touch->tensor] - cut->base + touch->first;
    for (uint32_t r = 0; r < touch->down; r++)
        for (uint32_t a = 0; a < touch->across; a++) {
            const uint64_t k = first + (uint64_t)r * touch->pitch + a, chunk = cut->first_chunk + k * cut->chunks_per_tile;
            for (uint64_t c = 0; c < cut->chunks_per_tile; c++) l2_chip_access(&s->chip, (uint32_t)(chunk + c), partition, (L2Access)touch->access);
            if (cut->chunks_per_tile == 0)
                l2_chip_access_part(&s->chip, (uint32_t)(cut->first_chunk + k / cut->tiles_per_chunk), (uint32_t)(cut->first_part + k),
                                    bytes_of_tile(cut, t, k), partition, (L2Access)touch->access);
        }
}

/* What a slot's block spills: when it begins, or with each access. */
static void touch_registers(Simulation *s, uint64_t slot, uint32_t partition, bool begins)
{
    const uint32_t per_slot = s->spilled_per_block + s->spilled_per_step;
    const uint64_t first = s->chunks + slot * per_slot + (begins ? 0 : s->spilled_per_block);
    for (uint64_t c = 0; c < (begins ? s->spilled_per_block : s->spilled_per_step); c++) l2_chip_access(&s->chip, (uint32_t)(first + c), partition, L2_STORE);
}

/* A block that runs: its place in the sequence, and where its head lies. */
typedef struct {
    uint64_t next, end;
    const uint64_t *bases;
    bool begins;
} Running;

typedef struct {
    Simulation *simulation;
    const L2Order *order;
    uint64_t handed_out, count;     /* of all blocks */
} Dispenser;

/* The next block that moves anything. */
static bool take_block(Dispenser *d, Running *running)
{
    const Simulation *s = d->simulation;
    while (d->handed_out < d->count) {
        const uint64_t place = d->handed_out++, block = d->order->blocks != NULL ? d->order->blocks[place] : place;
        const uint64_t head = block / s->grid.blocks, index = block % s->grid.blocks;
        *running = (Running){s->trace->first[index], s->trace->end[index], s->bases + head * s->machine->tensor_count, true};
        if (running->next < running->end) return true;
    }
    return false;
}

static const Due never = {UINT64_MAX, UINT64_MAX};

static bool agenda_init(Agenda *agenda, uint64_t slots, Alloc *alloc, Status *status)
{
    const char *what = "running blocks";
    for (agenda->capacity = 1; agenda->capacity < slots;) agenda->capacity *= 2;
    agenda->queues = alloc_array(alloc, agenda->count * agenda->capacity, sizeof *agenda->queues, what, status);
    agenda->taken = alloc_array(alloc, agenda->count, sizeof *agenda->taken, what, status);
    agenda->added = alloc_array(alloc, agenda->count, sizeof *agenda->added, what, status);
    agenda->fronts = alloc_array(alloc, agenda->count, sizeof *agenda->fronts, what, status);
    for (uint32_t i = 0; agenda->fronts != NULL && i < agenda->count; i++) agenda->fronts[i] = never;
    return status_ok(status);
}

static void agenda_free(Agenda *agenda, Alloc *alloc)
{
    alloc_free(alloc, agenda->sizes);
    alloc_free(alloc, agenda->queues);
    alloc_free(alloc, agenda->taken);
    alloc_free(alloc, agenda->added);
    alloc_free(alloc, agenda->fronts);
}

static Due *place_in(const Agenda *agenda, uint32_t size, uint64_t number)
{
    return &agenda->queues[size * agenda->capacity + (number & (agenda->capacity - 1))];
}

static void agenda_add(Agenda *agenda, uint32_t size, Due due)
{
    if (agenda->taken[size] == agenda->added[size]) agenda->fronts[size] = due;
    *place_in(agenda, size, agenda->added[size]++) = due;
}

/* False when nothing is left. */
static bool agenda_next(Agenda *agenda, Due *due)
{
    uint32_t first = 0;
    for (uint32_t i = 1; i < agenda->count; i++) {
        const Due *a = &agenda->fronts[i], *b = &agenda->fronts[first];
        first = (a->time < b->time) | ((a->time == b->time) & (a->slot < b->slot)) ? i : first;
    }
    *due = agenda->fronts[first];
    if (due->time == UINT64_MAX) return false;
    const uint64_t next = ++agenda->taken[first];
    agenda->fronts[first] = next < agenda->added[first] ? *place_in(agenda, first, next) : never;
    return true;
}

/* SMs lie by turns next to each partition. */
static void access_l2(Simulation *s, Running *block, uint64_t slot, uint32_t piece)
{
    const uint32_t partition = s->engine == L2_CHIP ? (uint32_t)(slot % s->machine->profile->sm_count % s->chip.partitions) : 0;
    switch (s->engine) {
    case L2_LRU_TILES: touch_tiles(s, block->bases, &s->touches[piece]); break;
    case L2_LRU_LINES: touch_lines(s, block->bases, &s->trace->pieces[piece]); break;
    case L2_CHIP:
        if (block->begins) touch_registers(s, slot, partition, true);
        touch_chunks(s, block->bases, &s->touches[piece], partition);
        touch_registers(s, slot, partition, false);
        break;
    }
    block->begins = false;
}

static bool run_blocks(Simulation *s, uint64_t count, uint64_t slots)
{
    Machine *machine = s->machine;
    Agenda *agenda = &s->agenda;
    Dispenser dispenser = {s, &machine->config.l2_order, 0, count};
    Due now;
    Running *running = alloc_array(machine->alloc, slots, sizeof *running, "running blocks", machine->status);
    if (running == NULL || !agenda_init(agenda, slots, machine->alloc, machine->status)) slots = 0;
    for (uint64_t slot = 0; slot < slots && take_block(&dispenser, &running[slot]); slot++) agenda_add(agenda, 0, (Due){0, slot});
    while (slots > 0 && agenda_next(agenda, &now)) {
        Running *block = &running[now.slot];
        const uint32_t piece = s->trace->sequence[block->next++];
        const Touch *touch = &s->touches[piece];
        access_l2(s, block, now.slot, piece);
        if (block->next < block->end || take_block(&dispenser, block)) agenda_add(agenda, touch->size, (Due){now.time + touch->bytes, now.slot});
    }
    alloc_free(machine->alloc, running);
    return status_ok(machine->status);
}

static bool short_enough(const Simulation *s, uint64_t heads)
{
    const uint64_t accesses = checked_mul(s->trace->length, heads, "tiles that a launch moves", s->machine->status);
    return status_ok(s->machine->status) &&
           (accesses <= L2_MOST_ACCESSES ||
            status_fail(s->machine->status, STATUS_INFEASIBLE,
                        "%s: the launch moves %" PRIu64 " tiles, the simulated L2 follows at most %" PRIu64
                        "; use larger blocks, fewer heads, a shorter sequence or the ideal L2",
                        s->trace->kernel, accesses, L2_MOST_ACCESSES));
}

static uint64_t effective_capacity(const Profile *profile)
{
    return profile->l2_bytes_per_chip == PROFILE_UNLIMITED ? PROFILE_UNLIMITED : profile->l2_bytes_per_chip / profile->l2_partitions;
}

static bool prepare_chip(Simulation *s, uint64_t slots)
{
    const Machine *machine = s->machine;
    const L2Spill *spill = &machine->config.l2_spill;
    number_chunks(s);
    s->spilled_per_block = (uint32_t)ceil_div(spill->block_bytes, L2_CHUNK_BYTES);
    s->spilled_per_step = (uint32_t)ceil_div(spill->step_bytes, L2_CHUNK_BYTES);
    const uint64_t spilled = checked_mul(slots, (uint64_t)s->spilled_per_block + s->spilled_per_step, "spilled registers", machine->status);
    s->earlier = ceil_div(machine->config.l2_dirty_before, L2_CHUNK_BYTES);
    const uint64_t others = checked_add(spilled, s->earlier, "dirty chunks", machine->status);
    const uint64_t chunks = checked_add(s->chunks, others, "chunks of the L2 cache", machine->status);
    if (!status_ok(machine->status) ||
        !l2_chip_init(&s->chip, chunks, s->parts, machine->profile->l2_bytes_per_chip, machine->profile->l2_partitions, machine->alloc, machine->status))
        return false;
    define_chunks(s, slots);
    return true;
}

static bool prepare(Simulation *s, uint64_t capacity, uint64_t slots)
{
    Machine *machine = s->machine;
    cut_tensors(s);
    if (!status_ok(machine->status) || !convert_pieces(s) || !size_tiles(s) || !find_bases(s)) return false;
    if (s->engine == L2_CHIP) return prepare_chip(s, slots);
    if (s->engine == L2_LRU_LINES) {
        const uint64_t enough = machine->next_address + L2_LINE_BYTES * L2_WAYS;    /* an unlimited cache need not be larger than what there is */
        return l2_lines_init(&s->line_cache, min_u64(capacity, enough), L2_WAYS, machine->alloc, machine->status);
    }
    if (!l2_tiles_init(&s->tile_cache, s->tiles, capacity, machine->alloc, machine->status)) return false;
    define_tiles(s);
    return true;
}

/* What is dirty at the end counts as written, but for registers and what was dirty before. */
static void finish(Simulation *s, L2Traffic *traffic, L2Outcome *outcome)
{
    uint64_t dirty[L2_OWNERS] = {0};
    switch (s->engine) {
    case L2_LRU_TILES:
        outcome->dirty_bytes = l2_tiles_dirty(&s->tile_cache);
        l2_tiles_flush(&s->tile_cache);
        *traffic = s->tile_cache.traffic;
        break;
    case L2_LRU_LINES:
        outcome->dirty_bytes = l2_lines_dirty(&s->line_cache);
        l2_lines_flush(&s->line_cache);
        *traffic = s->line_cache.traffic;
        break;
    case L2_CHIP:
        l2_chip_dirty(&s->chip, dirty);
        outcome->dirty_bytes = l2_sum(dirty, L2_REGISTERS);
        *traffic = s->chip.traffic;
        for (int i = 0; i < L2_REGISTERS; i++) traffic->written[i] += dirty[i];
        outcome->spilled_bytes = traffic->written[L2_REGISTERS];
        outcome->earlier_bytes = traffic->written[L2_EARLIER];
        break;
    }
    outcome->hit_bytes = traffic->hit;
    outcome->miss_bytes = traffic->missed;
    outcome->written_back_bytes = l2_sum(traffic->written, L2_REGISTERS) - outcome->dirty_bytes;
}

static bool order_fits(const Machine *machine, const Kernel *kernel, uint64_t count)
{
    const L2Order *order = &machine->config.l2_order;
    if (order->blocks == NULL) return true;
    if (order->count != count)
        return status_fail(machine->status, STATUS_USAGE, "%s: an order of %" PRIu64 " blocks for %" PRIu64, kernel->name, order->count, count);
    for (uint64_t i = 0; i < count; i++)
        if (order->blocks[i] >= count)
            return status_fail(machine->status, STATUS_USAGE, "%s: place %" PRIu64 " of the order holds %" PRIu64 " of %" PRIu64 " blocks",
                               kernel->name, i, order->blocks[i], count);
    return true;
}

bool l2_launch(Machine *machine, const Kernel *kernel, Grid grid, const L2Trace *trace, const LaunchRecord *record, L2Traffic *traffic,
               L2Outcome *outcome)
{
    const uint64_t heads = grid.batch * grid.heads, count = record->blocks, capacity = effective_capacity(machine->profile);
    Simulation s = {.machine = machine, .trace = trace, .grid = grid, .engine = machine->config.l2_engine};
    uint64_t resident = machine->config.l2_order.blocks_per_sm;
    *traffic = (L2Traffic){0};
    *outcome = (L2Outcome){.capacity_bytes = capacity};
    if (count == 0) return true;
    if (!order_fits(machine, kernel, count)) return false;
    bool ok = (resident > 0 || blocks_held_by_sm(machine, kernel, record, &resident)) && short_enough(&s, heads);
    const uint64_t slots = resident > count / machine->profile->sm_count ? count : resident * machine->profile->sm_count;
    outcome->slots = slots;
    ok = ok && prepare(&s, capacity, slots);
    if (ok && s.engine == L2_CHIP) outcome->capacity_bytes = l2_chip_partition_bytes(&s.chip);
    ok = ok && run_blocks(&s, count, slots);
    if (ok) finish(&s, traffic, outcome);
    l2_tiles_free(&s.tile_cache);
    l2_lines_free(&s.line_cache);
    l2_chip_free(&s.chip);
    agenda_free(&s.agenda, machine->alloc);
    alloc_free(machine->alloc, s.touches);
    alloc_free(machine->alloc, s.bases);
    return ok && status_ok(machine->status);
}
