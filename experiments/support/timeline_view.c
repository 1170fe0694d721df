/* timeline_view.c - see timeline_view.h. */
#include "timeline_view.h"
#include "output.h"
#include "text.h"

#include "sim/checked.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --------------------------------------------------------------------------------------------------------------- recording */

bool timeline_record_block(Timeline *timeline, const RunSetup *setup, const AttentionShape *shape, const Fa3Options *fa3,
                           const Fa4Options *fa4, Alloc *alloc, Status *status)
{
    RunSetup recorded = *setup;
    AttentionShape block = *shape;
    AttentionRun run = {0};
    *timeline = (Timeline){0};
    if (recorded.tiles.Br == 0 && !fitting_tiles(setup->algorithm, shape, setup->profile, alloc, &recorded.tiles, status))
        return false;
    block.batch = block.heads = block.kv_heads = 1;
    block.seqlen_q = min_u64(shape->seqlen_q, recorded.tiles.Br);
    recorded.config = (MachineConfig){.mode = MODE_COUNT, .l2 = L2_NONE, .observe = timeline_observe, .observer = timeline};
    if (!timeline_init(timeline, setup->profile, alloc, status)) return false;
    bool ok = attention_run_prepare(&run, &recorded, &block, alloc, status);
    if (ok && fa3 != NULL) run.attention.fa3 = *fa3;
    if (ok && fa4 != NULL) run.attention.fa4 = *fa4;
    ok = ok && attention_run_forward(&run) && timeline_run(timeline);
    attention_run_free(&run);
    return ok;
}

/* ------------------------------------------------------------------------------------------------------------ spans of time */

/* What one line of a picture, or one track of a trace, shows: operations that never overlap there. */
typedef struct {
    uint16_t stream; /* of a stream's lines */
    bool of_unit, async;
    Unit unit; /* of a unit's line; of an asynchronous line: what its operations occupy longest */
} Lane;

static Unit longest_unit(const TimedOperation *operation)
{
    int longest = 0;
    for (int unit = 1; unit < UNIT_KINDS; unit++)
        if (operation->cost.occupancy[unit] > operation->cost.occupancy[longest]) longest = unit;
    return (Unit)longest;
}

/* How long the operation is in this lane; 0: not at all. An asynchronous one is there while it occupies its unit: the latency of
 * its result overlaps with the next. */
static uint64_t time_in_lane(const TimedOperation *operation, const Lane *lane)
{
    if (lane->of_unit) return operation->cost.occupancy[lane->unit];
    if (operation->stream != lane->stream || operation->async != lane->async) return 0;
    if (!lane->async) return operation->end - operation->start;
    return longest_unit(operation) == lane->unit ? operation->cost.occupancy[lane->unit] : 0;
}

static bool is_used(const Timeline *timeline, const Lane *lane, uint64_t until)
{
    for (uint32_t i = 0; i < timeline->count; i++)
        if (timeline->operations[i].start < until && time_in_lane(&timeline->operations[i], lane) > 0) return true;
    return false;
}

enum { MOST_LANES = UNIT_KINDS + TIMELINE_STREAMS * (1 + UNIT_KINDS) };

/* Units first, then each stream. Returns how many are used before `until`. */
static size_t used_lanes(const Timeline *timeline, uint64_t until, Lane lanes[MOST_LANES])
{
    size_t count = 0;
    for (int unit = 0; unit < UNIT_KINDS; unit++) {
        lanes[count] = (Lane){.of_unit = true, .unit = (Unit)unit};
        count += is_used(timeline, &lanes[count], until);
    }
    for (uint16_t stream = 0; stream < timeline->stream_count; stream++) {
        lanes[count] = (Lane){.stream = stream};
        count += is_used(timeline, &lanes[count], until);
        for (int unit = 0; unit < UNIT_KINDS; unit++) {
            lanes[count] = (Lane){.stream = stream, .async = true, .unit = (Unit)unit};
            count += is_used(timeline, &lanes[count], until);
        }
    }
    return count;
}

/* ---------------------------------------------------------------------------------------------------------------- characters */

static const char *const unit_short_names[UNIT_KINDS] = {"tensor cores", "MUFU", "issue", "shared mem", "copy"};
/* What a stream has under way without waiting for it. */
static const char *const async_names[UNIT_KINDS] = {"  products", "  MUFU", "  issue", "  products", "  copies"};

static bool takes_time(const Timeline *timeline, uint16_t stream)
{
    for (uint32_t i = 0; i < timeline->count; i++)
        if (timeline->operations[i].stream == stream && timeline->operations[i].cost.hold > 0) return true;
    return false;
}

/* One letter for a stream: a, b, c, ... in the order of their creation; those that never take time have none. */
static void give_letters(const Timeline *timeline, char letters[TIMELINE_STREAMS])
{
    int letter = 'a';
    for (uint16_t stream = 0; stream < timeline->stream_count; stream++) {
        letters[stream] = (char)(letter <= 'z' ? letter : '?');
        letter += takes_time(timeline, stream);
    }
}

/* One letter for what a stream does. Products and copies are called by their tile. */
static char operation_letter(const TimedOperation *operation)
{
    switch (operation->operation) {
    case OP_MATMUL:
    case OP_LOAD:
        return operation->tile[0];
    case OP_STORE:
    case OP_ATOMIC_ADD:
        return 'w';
    case OP_EXP_ROWS:
    case OP_ROWS_EXP_DIFFERENCE:
        return 'e';
    case OP_SYNC:
        return '|';
    default:
        return 's';
    }
}

/* Cycles of [from, to) in [start, start + length). */
static uint64_t overlap(uint64_t from, uint64_t to, uint64_t start, uint64_t length)
{
    const uint64_t begin = max_u64(from, start), end = min_u64(to, start + length);
    return end > begin ? end - begin : 0;
}

/* The character of a column is that of the operation that has most of it; '.' when nothing has. */
static void draw_lane(const Timeline *timeline, const Lane *lane, uint64_t cycles_per_column,
                      const char letters[TIMELINE_STREAMS], char line[TIMELINE_COLUMNS + 1])
{
    uint64_t most[TIMELINE_COLUMNS] = {0};
    memset(line, '.', TIMELINE_COLUMNS);
    for (uint32_t i = 0; i < timeline->count; i++) {
        const TimedOperation *operation = &timeline->operations[i];
        const uint64_t length = time_in_lane(operation, lane);
        for (uint64_t c = operation->start / cycles_per_column; length > 0 && c < TIMELINE_COLUMNS; c++) {
            const uint64_t part = overlap(c * cycles_per_column, (c + 1) * cycles_per_column, operation->start, length);
            if (part == 0) break;
            if (part <= most[c]) continue;
            most[c] = part;
            line[c] = lane->of_unit ? letters[operation->stream] : operation_letter(operation);
        }
    }
    const uint64_t columns = min_u64(ceil_div(timeline->makespan, cycles_per_column), TIMELINE_COLUMNS);
    line[columns] = '\0';
}

static void lane_label(const Timeline *timeline, const Lane *lane, const char letters[TIMELINE_STREAMS], char label[32])
{
    if (lane->of_unit)
        snprintf(label, 32, "%s", unit_short_names[lane->unit]);
    else if (lane->async)
        snprintf(label, 32, "%c %s", letters[lane->stream], async_names[lane->unit]);
    else
        snprintf(label, 32, "%c %s", letters[lane->stream], timeline->stream_names[lane->stream]);
}

uint64_t timeline_scale(const Timeline *timeline, uint64_t cycles)
{
    const uint64_t shown = cycles == 0 ? timeline->makespan : min_u64(cycles, timeline->makespan);
    uint64_t scale = 1;
    while (scale < shown && scale * TIMELINE_COLUMNS < shown) scale *= 2;
    return scale;
}

static void time_axis(Table *picture, const Timeline *timeline, uint64_t cycles_per_column)
{
    enum { TICK = 16 };
    char axis[TIMELINE_COLUMNS + TICK] = "";
    const uint64_t columns = min_u64(ceil_div(timeline->makespan, cycles_per_column), TIMELINE_COLUMNS);
    for (uint64_t c = 0; c < columns; c += TICK) snprintf(axis + c, sizeof axis - c, "%-*" PRIu64, TICK, c * cycles_per_column);
    for (size_t end = strlen(axis); end > 0 && axis[end - 1] == ' '; end--) axis[end - 1] = '\0';
    picture_line(picture, "%-13s %s", "cycle", axis);
}

void timeline_picture(Table *picture, const Timeline *timeline, uint64_t cycles_per_column)
{
    Lane lanes[MOST_LANES];
    char letters[TIMELINE_STREAMS];
    const uint64_t shown = checked_mul(TIMELINE_COLUMNS, cycles_per_column, "cycles of a picture", picture->report->status);
    const size_t count = used_lanes(timeline, shown, lanes);
    give_letters(timeline, letters);
    time_axis(picture, timeline, cycles_per_column);
    for (size_t i = 0; i < count; i++) {
        char label[32], line[TIMELINE_COLUMNS + 1];
        lane_label(timeline, &lanes[i], letters, label);
        draw_lane(timeline, &lanes[i], cycles_per_column, letters, line);
        if (!lanes[i].of_unit)
            picture_line(picture, "%-13s %s", label, line);
        else
            picture_line(picture, "%-13s %s %3.0f%%", label, line,
                         100 * (double)timeline->busy[lanes[i].unit] / (double)max_u64(timeline->makespan, 1));
    }
    if (shown < timeline->makespan)
        picture_line(picture, "(the first %" PRIu64 " of %" PRIu64 " cycles; the shares are of all of them)", shown,
                     timeline->makespan);
    else
        picture_line(picture, "(all %" PRIu64 " cycles)", timeline->makespan);
}

void timeline_legend(Table *picture)
{
    picture_line(picture, "Units show the stream that has them and the share of the time that they are busy; streams show what "
                          "they do: S and O products");
    picture_line(
        picture,
        "(QKᵀ and PV), e exponentials, s the rest of the softmax, Q K V loads, w stores, | a barrier, . waiting or nothing.");
}

/* -------------------------------------------------------------------------------------------------------------- trace events */

static void text_json_string(Text *out, const char *string)
{
    text_add(out, "\"");
    for (; *string != '\0'; string++) {
        if (*string == '"' || *string == '\\')
            text_addf(out, "\\%c", *string);
        else if ((unsigned char)*string < 0x20)
            text_addf(out, "\\u%04x", (unsigned)*string);
        else
            text_add_bytes(out, string, 1);
    }
    text_add(out, "\"");
}

enum { UNITS_PROCESS = 1, STREAMS_PROCESS = 2 };

/* Metadata events that name a process or a track. */
static void name_event(Text *out, const char *what, int process, size_t track, const char *name)
{
    text_addf(out, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%zu,\"args\":{\"name\":", what, process, track);
    text_json_string(out, name);
    text_add(out, "}},\n");
}

static void name_lane(Text *out, const Timeline *timeline, const Lane *lane, size_t track)
{
    char name[96], block[24] = "";
    if (lane->of_unit) {
        name_event(out, "thread_name", UNITS_PROCESS, track, unit_name(lane->unit));
        return;
    }
    if (timeline->resident > 0) snprintf(block, sizeof block, "block %d: ", lane->stream / MAX_STREAMS);
    if (lane->async)
        snprintf(name, sizeof name, "%s%s, asynchronous, %s", block, timeline->stream_names[lane->stream], unit_name(lane->unit));
    else
        snprintf(name, sizeof name, "%s%s", block, timeline->stream_names[lane->stream]);
    name_event(out, "thread_name", STREAMS_PROCESS, track, name);
}

/* An operation of the part that is written, in the order of time. */
typedef struct {
    uint64_t start;
    uint32_t index;
} Written;

static int by_start(const void *a, const void *b)
{
    const Written *x = a, *y = b;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static void complete_event(Text *out, const Timeline *timeline, const Lane *lane, size_t track, uint32_t index)
{
    const TimedOperation *operation = &timeline->operations[index];
    text_addf(out, ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%zu,\"ts\":%" PRIu64 ",\"dur\":%" PRIu64 ",\"name\":",
              lane->of_unit ? UNITS_PROCESS : STREAMS_PROCESS, track, operation->start, time_in_lane(operation, lane));
    char name[96];
    snprintf(name, sizeof name, "%s %s", operation_name(operation->operation), operation->tile);
    text_json_string(out, name);
    text_addf(out, ",\"args\":{\"operation\":%" PRIu32 ",\"stream\":", index);
    text_json_string(out, timeline->stream_names[operation->stream]);
    text_addf(out, ",\"result at\":%" PRIu64 "}}", operation->end);
}

static bool write_events(Text *out, const char *title, const Timeline *timeline, const Written *written, size_t count)
{
    Lane lanes[MOST_LANES];
    const size_t lane_count = used_lanes(timeline, count < timeline->count ? written[count].start : UINT64_MAX, lanes);
    text_addf(out, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"title\":");
    text_json_string(out, title);
    text_addf(out,
              ",\"unit\":\"1 us is 1 cycle\",\"makespan_cycles\":%" PRIu64 ",\"operations\":%" PRIu32
              ",\"operations_written\":%zu,\"note\":\"%s\"},\n\"traceEvents\":[\n",
              timeline->makespan, timeline->count, count,
              count < timeline->count ? "the first operations only; those that take no time are left out"
                                      : "operations that take no time are left out");
    for (size_t i = 0; i < lane_count; i++) name_lane(out, timeline, &lanes[i], i + 1);
    name_event(out, "process_name", UNITS_PROCESS, 0, "units of the SM");
    text_addf(out, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"tid\":0,\"args\":{\"name\":\"streams\"}}",
              STREAMS_PROCESS);
    for (size_t i = 0; i < lane_count; i++)
        for (size_t w = 0; w < count; w++)
            if (time_in_lane(&timeline->operations[written[w].index], &lanes[i]) > 0)
                complete_event(out, timeline, &lanes[i], i + 1, written[w].index);
    text_add(out, "\n]}\n");
    return status_ok(out->status);
}

bool timeline_trace(const char *path, const char *title, const Timeline *timeline, Alloc *alloc, Status *status)
{
    Text text = {.alloc = alloc, .status = status};
    Written *written = alloc_array(alloc, timeline->count, sizeof *written, "trace", status);
    if (written == NULL) return false;
    for (uint32_t i = 0; i < timeline->count; i++) written[i] = (Written){timeline->operations[i].start, i};
    qsort(written, timeline->count, sizeof *written, by_start);
    const bool ok = write_events(&text, title, timeline, written, min_u64(timeline->count, TRACE_OPERATIONS)) &&
                    output_write(path, text.data, text.length, status);
    text_free(&text);
    alloc_free(alloc, written);
    return ok;
}
