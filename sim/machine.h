/* machine.h - the instrumented GPU: tensors in HBM, kernels, thread blocks with their on-chip memory, and the ledger.
 *
 * A kernel is one C function for one thread block. It declares tiles in shared memory, registers or tensor memory, and calls the tile
 * operations of ops.h in an order that is also valid when executed one by one. launch() walks the blocks of a grid; each operation
 * computes (if this machine computes), counts, checks capacity and reports an event, in one place. So one walk serves every executor:
 *
 *     MODE_NUMERIC   computes on real data, all heads; counts on the way
 *     MODE_COUNT     counts without data; every head does the same work, so one head is walked and multiplied
 *                    with MachineConfig.time: also simulates when things happen (timeline.h, launch_time.h)
 *
 * Memory levels. An SM's load asks L2; what HBM sees depends on the L2 model:
 *     L2_NONE        every load and store of a block goes to HBM (the two-level model of the FlashAttention paper)
 *     L2_IDEAL       infinite and write-back: within one launch each byte is read from HBM at most once, and not at all once the launch
 *                    has written it; each byte written reaches HBM once
 *     L2_SIMULATED   a cache of the chip's size: blocks of all heads run as the chip hands them out, and their loads and stores go through it
 *                    in that order (l2_launch.h); what is dirty when the launch ends counts as written
 *
 * Not modelled: bank conflicts; partial sectors, but by L2LineCache.
 */
#ifndef ATTNLAB_MACHINE_H
#define ATTNLAB_MACHINE_H

#include "alloc.h"
#include "coverage.h"
#include "formats.h"
#include "profile.h"
#include "status.h"
#include "tile_math.h"

typedef enum { MODE_COUNT, MODE_NUMERIC } Mode;
typedef enum { L2_NONE, L2_IDEAL, L2_SIMULATED } L2Model;

enum {
    MAX_TENSORS = 32,       /* per machine */
    MAX_TILES = 64,         /* per block */
    MAX_STREAMS = 8,        /* per block */
    EVENT_TILES = 4         /* tiles that one operation reads, and writes */
};

/* ------------------------------------------------------------------------------------------------------------- counting */

/* Traffic of one tensor, in elements. */
typedef struct {
    uint64_t l2_to_sm;          /* what the SMs asked for */
    uint64_t sm_to_l2;          /* what the SMs wrote */
    uint64_t hbm_read;          /* what HBM saw, by the L2 model */
    uint64_t hbm_write;
    uint64_t atomic_adds;       /* elements added to; their payload is part of sm_to_l2 */
} Traffic;

/* The kinds of tile operations; operation_name() and operation_price() describe them. */
typedef enum {
    OP_LOAD, OP_STORE, OP_ATOMIC_ADD, OP_MATMUL, OP_ACCUMULATE, OP_MASK, OP_FILL, OP_CONVERT, OP_SCALE, OP_ADD, OP_ROW_MAX, OP_EXP_ROWS, OP_ROW_SUM,
    OP_ARRIVE, OP_SYNC, OP_SCALE_ROWS, OP_DIVIDE_ROWS, OP_SUBTRACT_ROWS, OP_MULTIPLY, OP_ROW_DOT, OP_RANDOM_KEEP, OP_DROPOUT, OP_ROWS_SCALE_ADD, OP_ROWS_EXP_DIFFERENCE, OP_ROWS_MAX, OP_ROWS_MULTIPLY, OP_ROWS_ADD, OP_ROWS_LOG_SUM_EXP,
    OPERATION_KINDS
} Operation;

const char *operation_name(Operation operation);
/* Non-matmul operations per element by the lecture's price list (§3.2; see ops.h). The price list never drives time. */
uint64_t operation_price(Operation operation);

/* What one or all blocks did besides moving tensors. */
typedef struct {
    uint64_t elements[OPERATION_KINDS]; /* elements of the tiles that each kind of operation worked on; of OP_LOAD, OP_STORE and OP_ATOMIC_ADD: calls */
    uint64_t matmul_flops;              /* 2 M N K on the live rows and columns of executed tiles */
    uint64_t matmul_flops_hidden;       /* of them, those of (query, key) pairs that a mask hides */
    uint64_t references_moved, references_kept; /* groups of rows that row_max_lagging gave a new reference, and that it left theirs */
    uint64_t smem_operand_bytes;        /* shared memory read by tensor-core instructions */
    uint64_t smem_thread_bytes;         /* read and written by threads */
    uint64_t smem_copy_bytes;           /* written and read by copies between L2 and shared memory */
    bool overflow;                      /* one of them has left 64 bits */
} Counts;

/* One line of the ledger: what one launch moved of one tensor. */
typedef struct {
    const char *kernel;
    const struct Tensor *tensor;
    Traffic traffic;
} LedgerRow;

/* What serves the operations of an SM, one at a time each. */
typedef enum { UNIT_TENSOR, UNIT_MUFU, UNIT_ISSUE, UNIT_SHARED, UNIT_COPY, UNIT_KINDS } Unit;

/* "tensor cores", "MUFU", "issue", "shared memory", "copy". */
const char *unit_name(Unit unit);

/* How long one launch takes on the whole chip, in cycles of the tensor clock (launch_time.h). */
typedef struct {
    uint64_t cycles;                    /* the longest of the three below */
    uint64_t nanoseconds;               /* they take, at the clock that the power limit leaves */
    uint64_t sm_cycles;                 /* until the last block ends */
    uint64_t l2_cycles, hbm_cycles;     /* what moving the launch's bytes takes at full bandwidth */
    uint64_t blocks_per_sm;
    uint64_t busy[UNIT_KINDS];          /* summed over the SMs */
    const char *bound;                  /* "tensor cores", ..., "latency", "L2", "HBM" */
} LaunchTime;

/* One launch through the simulated L2 (l2_launch.h). */
typedef struct {
    uint64_t capacity_bytes;            /* for data that all SMs read */
    uint64_t slots;                     /* blocks that run at the same time */
    uint64_t hit_bytes, miss_bytes;     /* of what the SMs read, and of the old values that additions need */
    uint64_t written_back_bytes;        /* before the launch ended ... */
    uint64_t dirty_bytes;               /* ... and what waited in L2 then; together what the ledger has as written to HBM */
    uint64_t spilled_bytes;             /* registers that were written back before the launch ended: beside the ledger */
    uint64_t earlier_bytes;             /* what was dirty before the launch and was written back during it: beside the ledger too */
} L2Outcome;

/* One launch: its counters and the most on-chip memory that a block held. */
typedef struct {
    const char *kernel;
    uint64_t blocks;                    /* thread blocks of the whole grid */
    Counts counts;
    uint64_t smem_peak_bytes, register_peak_bytes, tmem_peak_bytes;
    uint32_t first_row, row_count;      /* its rows in the ledger */
    LaunchTime time;                    /* all zero unless the machine times */
    L2Outcome l2;                       /* all zero unless L2 is simulated */
} LaunchRecord;

/* -------------------------------------------------------------------------------------------------------------- tensors */

/* A tensor in HBM: [batch, heads, rows, cols], row-major. */
typedef struct Tensor {
    const char *name;
    ElementType type;           /* what an element costs to move, and what a store rounds to */
    uint64_t batch, heads, rows, cols;
    uint64_t address;           /* simulated; tensors do not overlap */
    void *data;                 /* float or double by the machine's precision; NULL when counting */
    uint32_t index;             /* in the machine */
    uint64_t stacked;           /* a view whose row r is row r / stacked of head r % stacked of a group; 0: no view */
} Tensor;

static inline uint64_t tensor_elements(const Tensor *t) { return t->batch * t->heads * t->rows * t->cols; } /* checked at creation */

/* -------------------------------------------------------------------------------------------------------------- machine */

typedef struct Block Block;
typedef struct L2Trace L2Trace;
typedef struct Stream Stream;
typedef struct Tile Tile;

/* What an operation did, for whoever watches the walk (a timeline, a trace, a test). Tiles: NULL-terminated if fewer than the maximum. */
typedef struct {
    Operation operation;
    const Stream *stream;
    TensorInstruction instruction;      /* the kernel's class of them */
    const Tensor *tensor;               /* of a load, store or atomic addition */
    bool async;                         /* the stream goes on at once */
    const Tile *read[EVENT_TILES];
    const Tile *written[EVENT_TILES];
} Event;

typedef void EventObserver(void *observer, const Event *event);

/* How the simulated L2 hands the blocks of a launch to the SMs. All zero: as a grid is launched, as many on an SM as fit. */
typedef struct {
    const uint64_t *blocks;     /* [count], a permutation; block = (batch * heads + head) * blocks of a head + index */
    uint64_t count;             /* must be that of every launch */
    uint64_t blocks_per_sm;
} L2Order;

/* What stands for the simulated L2. */
typedef enum {
    L2_LRU_TILES,               /* fully associative LRU over whole tiles (l2_cache.h) */
    L2_LRU_LINES,               /* LRU over lines of 128 bytes in sets: slower, a cross-check */
    L2_CHIP                     /* partitions and rough ages, as measured (l2_chip.h) */
} L2Engine;

/* Registers that a compiled kernel spills: bytes of a block's threads, stored once when it begins, and again with every access. They reach L2 (L2_CHIP
 * alone follows them); what is read back, L1 has. */
typedef struct {
    uint32_t block_bytes, step_bytes;
} L2Spill;

typedef struct {
    Mode mode;
    L2Model l2;
    L2Order l2_order;
    L2Engine l2_engine;
    L2Spill l2_spill;
    uint64_t l2_dirty_before;   /* bytes of others that a launch finds dirty in L2; L2_CHIP alone has them */
    Precision precision;        /* of the arithmetic in MODE_NUMERIC */
    bool walk_all_heads;        /* MODE_COUNT: walk every head instead of one (a test of the multiplication) */
    bool time;                  /* MODE_COUNT: also time each launch on the chip */
    uint64_t shuffle_seed;      /* MODE_NUMERIC: not 0: the blocks of a head run in an order drawn from this seed */
    bool poison;                /* MODE_NUMERIC: tiles and new tensors start as NaN (a test that nothing unwritten is read) */
    EventObserver *observe;     /* NULL: nobody watches */
    void *observer;
    const TileMath *math;       /* NULL: the widest that runs here */
} MachineConfig;

typedef struct {
    void *data;
    uint64_t elements;
} TileBuffer;

typedef struct Machine {
    const Profile *profile;
    MachineConfig config;
    Alloc *alloc;
    Status *status;
    const TileMath *math;       /* NULL when only counting */

    Tensor tensors[MAX_TENSORS];
    uint32_t tensor_count;
    uint64_t next_address;

    LedgerRow *ledger;
    uint32_t ledger_count, ledger_capacity;
    LaunchRecord *launches;
    uint32_t launch_count, launch_capacity;

    TileBuffer tile_buffers[MAX_TILES];     /* reused from block to block */
    uint64_t walk_limit;        /* tile loads in one launch */
} Machine;

/* A launch may not walk more tile loads than this: some minutes. */
#define DEFAULT_WALK_LIMIT (UINT64_C(1) << 32)

/* The machine borrows profile, alloc and status, which must outlive it. Errors are recorded in status, sticky. */
void machine_init(Machine *machine, const Profile *profile, MachineConfig config, Alloc *alloc, Status *status);
void machine_free(Machine *machine);

/* A new tensor [batch, heads, rows, cols]; its data are zero (NaN if the machine poisons). NULL on failure: no room for another
 * tensor, the size overflows, no memory. The name is borrowed. */
Tensor *machine_tensor(Machine *machine, const char *name, ElementType type, uint64_t batch, uint64_t heads, uint64_t rows, uint64_t cols);

/* The same memory with the rows of each `group` consecutive heads interleaved: [batch, heads / group, rows * group, cols], row r is row
 * r / group of head r % group of the group. For loads and stores, not for atomic additions. `base` itself for a group of 1; NULL on failure. */
Tensor *machine_stacked_view(Machine *machine, Tensor *base, uint64_t group);

/* --------------------------------------------------------------------------------------------------------------- kernels */

/* How far one tensor-core instruction (or one warp, for mma.sync) reaches: each group of m rows of the left operand reads the whole
 * right operand from shared memory, each group of n columns the whole left operand. 0 = all of them. mma.sync with warps that split
 * the rows: m = rows per warp; wgmma: 64 x 256; tcgen05: 128 x 128. */
typedef struct {
    uint32_t m, n;
} InstructionShape;

typedef struct {
    const char *name;
    TensorInstruction instruction;
    InstructionShape shape;
    uint32_t threads;                   /* per block */
    uint32_t registers_per_thread;      /* the register arena holds threads x this x 4 bytes */
    void (*run)(Block *block, const void *arguments, uint64_t index);
    uint64_t period;                    /* iterations after which a block's operations repeat; 0: every one is the same */
} Kernel;

/* blocks x heads x batch thread blocks; a block knows its index, head and batch. */
typedef struct {
    uint64_t blocks, heads, batch;
} Grid;

/* Timed launches one after the other, in nanoseconds: the chip launches the next while one runs, so only the first is waited for. */
uint64_t machine_nanoseconds(const Machine *machine);

/* Walks the grid, block by block, and appends to the ledger. False when the machine has failed (also earlier). */
bool launch(Machine *machine, const Kernel *kernel, Grid grid, const void *arguments);

/* ---------------------------------------------------------------------------------------------------- on-chip memory */

typedef enum { SPACE_SHARED, SPACE_REGISTERS, SPACE_TENSOR_MEMORY } Space;

/* What a product's cost depends on, quick to compare. */
typedef struct {
    uint64_t left, right;               /* Tile::shape of the operands; UINT64_MAX: no product */
    InstructionShape instruction;
    uint32_t left_kind, right_kind;     /* Tile::kind of the operands */
    uint32_t form;                      /* which one is transposed */
} ProductKey;

/* A matrix in on-chip memory. `rows` and `cols` are the live part: the last tile of a sequence is shorter. */
struct Tile {
    Block *block;
    const char *name;
    Space space;
    ElementType type;
    uint32_t element_bytes;
    uint32_t storage;                   /* index of the tile whose memory this is: its own, or that of the tile it is a view of */
    uint32_t max_rows, max_cols;        /* as declared; this much is reserved */
    uint32_t rows, cols;
    uint64_t area;                      /* rows * cols */
    uint64_t shape;                     /* rows * 2^32 + cols */
    uint32_t kind;                      /* type and space */
    uint32_t depth;                     /* inner dimension of the product that filled it */
    bool simple;                        /* threads touch it without traffic and nobody computes or watches: counting is all */
    bool halved;                        /* two CTAs hold it together: see paired_tile() */
    bool banded;                        /* part of it is hidden by a mask */
    bool nonfinite;                     /* the load that filled it saw an infinity or a NaN */
    VisibleBand band;
    uint32_t band_step, band_phase;     /* row r counts as row (band_phase + r) / band_step of the band: see mask_stacked() */
    uint64_t visible;                   /* visible pairs; rows * cols unless banded */
    void *data;
    uint64_t ld;
    ProductKey product;                 /* the product that filled it last, and what that cost: most products repeat */
    uint64_t product_flops, product_operand_bytes;
    uint32_t product_element_bytes;     /* of its left operand; 0: no product */
};

/* The elements of its live part that this CTA holds. */
static inline uint64_t tile_elements_here(const Tile *tile) { return tile->halved ? tile->area / 2 : tile->area; }

/* One value per row: a tile with one column. */
typedef Tile Rows;

/* Whoever issues operations: a warp, a warpgroup, a role. */
struct Stream {
    Block *block;
    const char *name;
    uint32_t warps;
    uint32_t index;             /* in the block */
    InstructionShape shape;     /* of its tensor-core instructions; the kernel's unless the block says otherwise */
    uint32_t poly_sixteenths;   /* of 16 columns, those that exp_rows sends past MUFU (poly_exp.h) */
    bool async_matmul;          /* products are asynchronous: by default all but mma.sync */
    bool async_copy;            /* loads and stores are asynchronous: by default they are (cp.async, TMA) */
};

typedef struct {
    uint64_t capacity, used, peak;      /* bytes */
} Arena;

struct Block {
    Machine *machine;
    const Kernel *kernel;
    Grid grid;
    uint64_t index, head, batch;
    uint64_t member;                        /* for tensors with more heads than the grid: which of the block's heads; set by the kernel */
    Arena arenas[3];                    /* by Space */
    Tile tiles[MAX_TILES];
    uint32_t tile_count;
    Stream streams[MAX_STREAMS];
    uint32_t stream_count;

    /* for the whole launch */
    Counts counts;
    Traffic traffic[MAX_TENSORS];
    Coverage *touched[MAX_TENSORS], *written[MAX_TENSORS];  /* per head of the tensor; ideal L2 */
    uint64_t coverage_heads[MAX_TENSORS];
    bool counting_only;                 /* no arithmetic, no observer */
    L2Trace *l2_trace;                  /* records this block's accesses; NULL: nobody asked */
};

/* Tiles of a block. What does not fit is STATUS_INFEASIBLE naming the tile, the bytes needed and the bytes there; the tile returned
 * is then still safe to pass on. Rows count toward the arena unpadded. */
Tile *shared_tile(Block *block, const char *name, ElementType type, uint32_t rows, uint32_t cols);
/* In the shared memory of two CTAs, half in each: this one reserves, copies, reads and writes half of it. rows x cols is even. Its numbers are those
 * of the whole: each of the two CTAs is walked as if it had both halves. */
Tile *paired_tile(Block *block, const char *name, ElementType type, uint32_t rows, uint32_t cols);
Tile *register_tile(Block *block, const char *name, ElementType type, uint32_t rows, uint32_t cols);
Tile *tensor_memory_tile(Block *block, const char *name, ElementType type, uint32_t rows, uint32_t cols);
/* One float32 (float64 in the f64 path) per row, in registers: running max, sum, scale factors. */
Rows *row_vector(Block *block, const char *name, ElementType type, uint32_t rows);
/* Another name and type for the memory of `base` (P over S): costs nothing; must not be larger. */
Tile *tile_view(Tile *base, const char *name, ElementType type, uint32_t rows, uint32_t cols);

Stream *stream(Block *block, const char *name, uint32_t warps);

/* ---------------------------------------------------------------------------------------------------------------- totals */

/* The machine's totals over all launches, as the programs print them. Peaks are maxima over launches, everything else sums. */
typedef struct {
    uint64_t hbm_read_elements, hbm_write_elements, hbm_read_bytes, hbm_write_bytes;
    uint64_t l2_to_sm_bytes, sm_to_l2_bytes;
    uint64_t atomic_elements;
    uint64_t smem_operand_bytes, smem_thread_bytes, smem_copy_bytes;
    uint64_t matmul_flops, matmul_flops_exact_mask, nonmatmul_ops, exp_ops;
    uint64_t sram_peak_bytes, register_peak_bytes, tmem_peak_bytes;
} Totals;

bool machine_totals(const Machine *machine, Totals *totals);

/* Forgets launches and ledger so far; tensors stay. What follows is counted alone. */
void machine_clear_ledger(Machine *machine);

#endif
