/* silicon_dram.c - see silicon_dram.h. */
#include "silicon_dram.h"

#include "silicon_counts.h"

#include "algos/run.h"

#include <string.h>

/* Dirty in L2 when a launch begins that the profiler repeats. Every decoding kernel of h200_counters.csv writes HBM 2.42 to 2.51 MB, of which 0.1 are
 * its own (h200_passes.csv); a launch for which L2 has room writes none. */
enum { PROFILER_DIRTY_BYTES = 2457600 };

/* What a launch is here. */
typedef struct {
    DramFamily family;
    DramLaunch launch;
    const Algorithm *algorithm;
    const char *kernel;             /* its name in the ledger */
    uint32_t wide_Br, wide_Bc;      /* tiles for d > 64 */
    uint32_t narrow_Br, narrow_Bc;  /* and up to 64 */
    uint32_t blocks_per_sm;         /* 0: by occupancy */
} Stand;

static const Stand stands[] = {
    {DRAM_FLASH, DRAM_FORWARD, &algorithm_fa2, "fa2_forward", 128, 64, 128, 128, 2},
    {DRAM_FLASH, DRAM_DECODE, &algorithm_fa2, "fa2_forward", 64, 128, 64, 128, 2},
    {DRAM_FLASH, DRAM_DOT, &algorithm_fa2, "fa2_bwd_dot", 64, 128, 128, 128, 0},
    {DRAM_FLASH, DRAM_BACKWARD, &algorithm_fa2, "fa2_bwd", 64, 128, 128, 128, 0},
    {DRAM_FLASH, DRAM_CONVERT, &algorithm_fa2, "fa2_bwd_convert", 64, 128, 128, 128, 0},
    {DRAM_CUDNN, DRAM_FORWARD, &algorithm_fa3, "fa3_forward", 128, 128, 128, 128, 1},
    {DRAM_CUDNN, DRAM_DECODE, &algorithm_fa3, "fa3_forward", 128, 128, 128, 128, 1},
    {DRAM_CUDNN, DRAM_DOT, &algorithm_fa2, "fa2_bwd_dot", 64, 128, 128, 128, 0},
    {DRAM_CUDNN, DRAM_BACKWARD, &algorithm_fa2, "fa2_bwd", 64, 128, 128, 128, 0},
    {DRAM_CUDNN, DRAM_CONVERT, &algorithm_fa2, "fa2_bwd_convert", 64, 128, 128, 128, 0},
    {DRAM_STANDARD, DRAM_QK, &algorithm_cublas_scores, "cublas_scores", 128, 256, 128, 256, 1},
    {DRAM_STANDARD, DRAM_SOFTMAX, &algorithm_standard, "standard_softmax", 128, 128, 128, 128, 1},
    {DRAM_STANDARD, DRAM_PV, &algorithm_standard, "standard_pv", 256, 64, 512, 64, 1},
};

static const Stand *stand_of(const DramProblem *problem)
{
    for (size_t i = 0; i < sizeof stands / sizeof stands[0]; i++)
        if (stands[i].family == problem->family && stands[i].launch == problem->launch) return &stands[i];
    return NULL;
}

/* ------------------------------------------------------------------------------------------------------- names of the file */

bool silicon_dram_find(const char *kernel, const char *pass, const char *launch, DramProblem *problem)
{
    static const struct {
        const char *kernel, *pass, *part;       /* part of the launch's name; "": any */
        DramFamily family;
        DramLaunch launch;
    } names[] = {
        {"flash", "fwd", "", DRAM_FLASH, DRAM_FORWARD},
        {"flash", "bwd", "dot_do_o", DRAM_FLASH, DRAM_DOT},
        {"flash", "bwd", "seqk_parallel", DRAM_FLASH, DRAM_BACKWARD},
        {"flash", "bwd", "convert_dq", DRAM_FLASH, DRAM_CONVERT},
        {"cudnn", "fwd", "", DRAM_CUDNN, DRAM_FORWARD},
        {"cudnn", "bwd", "dot_do_o", DRAM_CUDNN, DRAM_DOT},
        {"cudnn", "bwd", "convert_dq", DRAM_CUDNN, DRAM_CONVERT},
        {"cudnn", "bwd", "", DRAM_CUDNN, DRAM_BACKWARD},
        {"std_qk", "fwd", "", DRAM_STANDARD, DRAM_QK},
        {"std_softmax", "fwd", "", DRAM_STANDARD, DRAM_SOFTMAX},
        {"std_pv", "fwd", "", DRAM_STANDARD, DRAM_PV},
        {"flash_decode", "fwd", "splitkv_kernel", DRAM_FLASH, DRAM_DECODE},
        {"cudnn_decode", "fwd", "kernel0", DRAM_CUDNN, DRAM_DECODE},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i].kernel, kernel) != 0 || strcmp(names[i].pass, pass) != 0 || strstr(launch, names[i].part) == NULL) continue;
        uint64_t along_d, rows;
        problem->family = names[i].family;
        problem->launch = names[i].launch;
        problem->tile_rows = problem->launch == DRAM_PV && silicon_tile_in_name(launch, &along_d, &rows, NULL) ? (uint32_t)rows : 0;
        problem->scores = (ScoreTiles){0};
        if (problem->launch == DRAM_QK && !cublas_score_tiles(launch, &problem->scores)) return false;
        return true;
    }
    return false;
}

/* --------------------------------------------------------------------------------------------------------------- prediction */

/* Only FlashAttention-2's forward kernel spills much. */
static L2Spill spill_of(const Stand *stand, const AttentionShape *shape, TileSize tiles)
{
    if (stand->family != DRAM_FLASH || stand->launch != DRAM_FORWARD) return (L2Spill){0};
    const SiliconSpill words = silicon_flash_spill(shape->head_dim, shape->mask != MASK_NONE);
    const uint64_t word = stand->algorithm->geometry(shape, tiles).threads * sizeof(float);
    return (L2Spill){.block_bytes = (uint32_t)(words.block * word), .step_bytes = (uint32_t)(words.tile * word)};
}

/* Which blocks begin when; *blocks, NULL for the order of the grid, is the caller's to free. */
static L2Order order_of(const Stand *stand, const DramProblem *problem, uint64_t **blocks, Alloc *alloc, Status *status)
{
    *blocks = NULL;
    if (stand->launch != DRAM_QK) return (L2Order){.blocks_per_sm = stand->blocks_per_sm};
    const ScoreTiles usual = {.tile = {stand->wide_Br, stand->wide_Bc}, .cluster = {2, 1}};
    const ScoreTiles *const scores = problem->scores.tile.Br > 0 ? &problem->scores : &usual;
    *blocks = cublas_score_order(scores, &problem->shape, alloc, status);
    return (L2Order){*blocks, cublas_score_count(scores, &problem->shape), stand->blocks_per_sm};
}

/* One pass under one model of L2. */
static bool run_pass(AttentionRun *run, const Stand *stand, const DramProblem *problem, L2Model l2, const L2Order *order, const Profile *h200,
                     Alloc *alloc, Status *status)
{
    const AttentionShape packed = silicon_packed(&problem->shape), *shape = stand->launch == DRAM_DECODE ? &packed : &problem->shape;
    const bool narrow = shape->head_dim <= 64, backward = stand->launch >= DRAM_DOT && stand->launch <= DRAM_CONVERT;
    TileSize tiles = narrow ? (TileSize){stand->narrow_Br, stand->narrow_Bc} : (TileSize){stand->wide_Br, stand->wide_Bc};
    if (problem->tile_rows > 0) tiles.Br = problem->tile_rows;
    if (problem->scores.tile.Br > 0) tiles = problem->scores.tile;
    RunSetup setup = {.algorithm = stand->algorithm, .profile = h200, .config = {.mode = MODE_COUNT, .l2 = l2}};
    setup.config.l2_order = *order;
    setup.config.l2_engine = problem->lru ? L2_LRU_TILES : L2_CHIP;
    setup.config.l2_spill = spill_of(stand, shape, tiles);
    setup.config.l2_dirty_before = PROFILER_DIRTY_BYTES;
    if (!backward) setup.tiles = tiles;
    if (!attention_run_prepare(run, &setup, shape, alloc, status)) return false;
    run->attention.last_keys_first = true;
    if (!backward) return attention_run_forward(run);
    return attention_run_prepare_backward(run, tiles, (BackwardVariant){0}) && attention_run_backward(run);
}

static const LaunchRecord *launch_named(const Machine *machine, const char *kernel)
{
    for (uint32_t i = 0; i < machine->launch_count; i++)
        if (strcmp(machine->launches[i].kernel, kernel) == 0) return &machine->launches[i];
    return NULL;
}

/* HBM reads and L2 reads of a launch, by the ledger. */
static void add_up(const Machine *machine, const LaunchRecord *launch, uint64_t *read, uint64_t *asked)
{
    *read = *asked = 0;
    for (uint32_t i = 0; i < launch->row_count; i++) {
        const LedgerRow *row = &machine->ledger[launch->first_row + i];
        *read += row->traffic.hbm_read * element_bytes(row->tensor->type);
        *asked += row->traffic.l2_to_sm * element_bytes(row->tensor->type);
    }
}

bool silicon_dram(const DramProblem *problem, Alloc *alloc, Status *status, DramBytes *bytes)
{
    const Stand *stand = stand_of(problem);
    Profile h200;
    AttentionRun run = {0};
    *bytes = (DramBytes){0};
    if (stand == NULL) return status_fail(status, STATUS_USAGE, "no kernel stands for launch %d of family %d", (int)problem->launch, (int)problem->family);
    if (!profile_load("h200", alloc, &h200, status)) return false;
    uint64_t *blocks;
    const L2Order order = order_of(stand, problem, &blocks, alloc, status);
    bool ok = status_ok(status) && run_pass(&run, stand, problem, L2_IDEAL, &order, &h200, alloc, status);
    const LaunchRecord *launch = ok ? launch_named(&run.machine, stand->kernel) : NULL;
    if (launch != NULL) add_up(&run.machine, launch, &bytes->once, &bytes->asked);
    attention_run_free(&run);
    ok = ok && run_pass(&run, stand, problem, L2_SIMULATED, &order, &h200, alloc, status);
    launch = ok ? launch_named(&run.machine, stand->kernel) : NULL;
    if (launch != NULL) {
        add_up(&run.machine, launch, &bytes->read, &bytes->asked);
        bytes->spilled = launch->l2.spilled_bytes;
        bytes->earlier = launch->l2.earlier_bytes;
        bytes->written = launch->l2.written_back_bytes + bytes->spilled + bytes->earlier;
        bytes->dirty = launch->l2.dirty_bytes;
    }
    attention_run_free(&run);
    alloc_free(alloc, blocks);
    return ok && status_ok(status);
}
