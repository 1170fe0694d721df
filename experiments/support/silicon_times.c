/* silicon_times.c - see silicon_times.h. */
#include "silicon_times.h"
#include "measured.h"

#include "algos/run.h"

#include <string.h>

bool silicon_times_load(SiliconTimes *times, const char *path, Alloc *alloc, Status *status)
{
    SiliconShapeColumns shape;
    size_t kernel, pass, time;
    *times = (SiliconTimes){.alloc = alloc};
    CsvTable *t = &times->table;
    if (!measured_load(t, path, "h200_timings", alloc, status) || !csv_column(t, "kernel", &kernel, status) ||
        !csv_column(t, "pass", &pass, status) || !csv_column(t, "time_us", &time, status) || !silicon_shape_columns(t, &shape, status))
        return false;
    times->rows = alloc_array(alloc, t->row_count, sizeof *times->rows, "rows of times", status);
    if (times->rows == NULL) return false;
    for (size_t i = 0; i < t->row_count; i++) {
        SiliconTime *row = &times->rows[i];
        *row = (SiliconTime){.kernel = csv_text(t, i, kernel), .pass = csv_text(t, i, pass), .line = t->lines[i + 1]};
        if (!silicon_shape_read(t, i, &shape, &row->shape, status) || !csv_real(t, i, time, &row->chip_us, status)) return false;
        if (!(row->chip_us > 0)) return csv_refuse(t, i, time, "time", "microseconds above 0", status);
        times->count++;
    }
    return true;
}

void silicon_times_free(SiliconTimes *times)
{
    csv_free(&times->table);
    alloc_free(times->alloc, times->rows);
    *times = (SiliconTimes){.alloc = times->alloc};
}

/* What stands for a kernel of the file: all launches of a pass, or one of them. */
typedef struct {
    const char *kernel, *pass;
    const Algorithm *algorithm;
    TileSize tiles, backward_tiles;
    BackwardVariant variant;
    int launch;                             /* -1: all */
    bool no_overlap;                        /* of softmax and products inside a warpgroup */
    uint32_t copies;                        /* tensors of the queries' shape that PyTorch copies before the pass */
} Stand;

/* A copy of a strided tensor by PyTorch's elementwise kernel, bytes read and written: h200_counters.csv, 84 us for twice 67 MB. */
static const double strided_copy_bytes_per_us = 1.6e6;

static const Stand stands[] = {
    {.kernel = "flash", .pass = "fwd", .algorithm = &algorithm_fa2, .launch = -1},
    {.kernel = "flash", .pass = "bwd", .algorithm = &algorithm_fa2, .launch = -1, .copies = 2},
    {.kernel = "cudnn", .pass = "fwd", .algorithm = &algorithm_fa3, .tiles = {128, 128}, .launch = -1, .no_overlap = true},
    {.kernel = "cudnn", .pass = "bwd", .algorithm = &algorithm_fa3, .tiles = {128, 128}, .backward_tiles = {64, 128},
     .variant = {.one_consumer_dq = true}, .launch = -1},
    {.kernel = "std_qk", .pass = "fwd", .algorithm = &algorithm_standard, .launch = 0},
    {.kernel = "std_softmax", .pass = "fwd", .algorithm = &algorithm_standard, .launch = 1},
    {.kernel = "std_pv", .pass = "fwd", .algorithm = &algorithm_standard, .launch = 2},
    {.kernel = "flash_decode", .pass = "fwd", .algorithm = &algorithm_decode, .launch = -1},
};

static const Stand *stand_of(const SiliconTime *row)
{
    for (size_t i = 0; i < sizeof stands / sizeof stands[0]; i++)
        if (strcmp(row->kernel, stands[i].kernel) == 0 && strcmp(row->pass, stands[i].pass) == 0) return &stands[i];
    return NULL;
}

static void add_launches(SiliconTime *row, const Stand *stand, const AttentionRun *run, const Profile *chip)
{
    const AttentionShape *s = &row->shape;
    uint64_t longest = 0;
    row->model_us = (double)chip->launch_nanoseconds / 1e3;
    row->model_us += stand->copies * 2 * (double)(s->batch * s->heads * s->seqlen_q * s->head_dim * element_bytes(s->dtype)) / strided_copy_bytes_per_us;
    for (uint32_t i = 0; i < run->machine.launch_count; i++) {
        const LaunchTime *time = &run->machine.launches[i].time;
        if (stand->launch >= 0 && i != (uint32_t)stand->launch) continue;
        row->model_us += (double)time->nanoseconds / 1e3;
        if (time->cycles >= longest) row->bound = time->bound;
        if (time->cycles >= longest) longest = time->cycles;
    }
}

/* What flash launches when its rule cuts the keys into one part: its training kernel, which computes whole tiles, on one query per K/V head with the
 * heads of the group as rows. */
static const Stand unsplit = {.kernel = "flash_decode", .pass = "fwd", .algorithm = &algorithm_fa2, .launch = -1};

static bool walk(SiliconTime *row, const Stand *stand, const AttentionShape *shape, const Profile *chip, Alloc *alloc, Status *status)
{
    AttentionRun run;
    const RunSetup setup = {.algorithm = stand->algorithm, .profile = chip, .tiles = stand->tiles,
                            .config = {.mode = MODE_COUNT, .l2 = L2_IDEAL, .time = true}};
    const bool backward = strcmp(row->pass, "bwd") == 0;
    bool ok = attention_run_prepare(&run, &setup, shape, alloc, status);
    if (stand->algorithm == &algorithm_decode) ok = ok && attention_run_set_decode(&run, (DecodeOptions){0});
    if (ok && stand->algorithm == &algorithm_decode && run.problem.splits <= 1 && shape->seqlen_q == 1) {
        const AttentionShape packed = silicon_packed(shape);
        attention_run_free(&run);
        return walk(row, &unsplit, &packed, chip, alloc, status);
    }
    run.attention.fa3.no_overlap = stand->no_overlap;
    if (backward) ok = ok && attention_run_prepare_backward(&run, stand->backward_tiles, stand->variant) && attention_run_backward(&run);
    else ok = ok && attention_run_forward(&run);
    if (ok) add_launches(row, stand, &run, chip);
    attention_run_free(&run);
    return ok;
}

bool silicon_time_model(SiliconTime *row, const Profile *chip, Alloc *alloc, Status *status)
{
    const Stand *stand = stand_of(row);
    row->model_us = 0;
    row->skipped = stand == NULL                                       ? "no kernel here stands for it"
                   : !profile_has(chip, stand->algorithm->instruction) ? "the chip lacks its instruction"
                                                                       : NULL;
    if (row->skipped != NULL) return true;
    Status failed = {0};
    row->stands_for = stand->algorithm->name;
    if (walk(row, stand, &row->shape, chip, alloc, &failed)) return true;
    row->skipped = "too long to walk, or it does not fit the chip";
    return failed.code == STATUS_INFEASIBLE || status_fail(status, failed.code, "line %zu: %.400s", row->line, failed.text);
}
