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
    TileSize tiles;
    int launch;                             /* -1: all */
} Stand;

static const Stand stands[] = {
    {"flash", "fwd", &algorithm_fa2, {0, 0}, -1},          {"flash", "bwd", &algorithm_fa2, {0, 0}, -1},
    {"cudnn", "fwd", &algorithm_fa3, {128, 128}, -1},      {"std_qk", "fwd", &algorithm_standard, {0, 0}, 0},
    {"std_softmax", "fwd", &algorithm_standard, {0, 0}, 1}, {"std_pv", "fwd", &algorithm_standard, {0, 0}, 2},
    {"flash_decode", "fwd", &algorithm_decode, {0, 0}, -1},
};

static const Stand *stand_of(const SiliconTime *row)
{
    for (size_t i = 0; i < sizeof stands / sizeof stands[0]; i++)
        if (strcmp(row->kernel, stands[i].kernel) == 0 && strcmp(row->pass, stands[i].pass) == 0) return &stands[i];
    return NULL;
}

static void add_launches(SiliconTime *row, const Stand *stand, const AttentionRun *run, const Profile *chip)
{
    uint64_t longest = 0;
    for (uint32_t i = 0; i < run->machine.launch_count; i++) {
        const LaunchTime *time = &run->machine.launches[i].time;
        if (stand->launch >= 0 && i != (uint32_t)stand->launch) continue;
        row->model_us += 1e6 * (double)time->cycles / (double)chip->tensor_clock_hz;
        if (time->cycles >= longest) row->bound = time->bound;
        if (time->cycles >= longest) longest = time->cycles;
    }
}

static bool walk(SiliconTime *row, const Stand *stand, const Profile *chip, Alloc *alloc, Status *status)
{
    AttentionRun run;
    const RunSetup setup = {.algorithm = stand->algorithm, .profile = chip, .tiles = stand->tiles,
                            .config = {.mode = MODE_COUNT, .l2 = L2_IDEAL, .time = true}};
    const bool backward = strcmp(row->pass, "bwd") == 0;
    bool ok = attention_run_prepare(&run, &setup, &row->shape, alloc, status);
    if (stand->algorithm == &algorithm_decode) ok = ok && attention_run_set_decode(&run, (DecodeOptions){0});
    if (backward) ok = ok && attention_run_prepare_backward(&run, (TileSize){0, 0}, (BackwardVariant){0}) && attention_run_backward(&run);
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
    if (walk(row, stand, chip, alloc, &failed)) return true;
    row->skipped = "too long to walk, or it does not fit the chip";
    return failed.code == STATUS_INFEASIBLE || status_fail(status, failed.code, "line %zu: %.400s", row->line, failed.text);
}
