/* test_timeline_view.c - a timeline as characters, and as trace events: what is drawn, and that no two events of a track overlap.
 */
/* label: unit, property */
#include "test.h"

#include "experiments/support/timeline_view.h"

#include "sim/checked.h"

#include <stdlib.h>

typedef struct {
    Test test;
    Alloc alloc;
} Context;

static const TableSpec picture_spec = {"picture", "A timeline", NULL, 0};
static const TableSpec *const tables[] = {&picture_spec};
static const ReportSpec report_spec = {.section = "4.3", .title_en = "t", .title_zh = "t", .tables = tables, .table_count = 1};

static Profile profile(Context *x, const char *name)
{
    Status status = {0};
    Profile chip = {0};
    check_true(&x->test, profile_load(name, &x->alloc, &chip, &status), name);
    return chip;
}

/* A block of FlashAttention-3, T key tiles of 128. */
static void record(Context *x, Timeline *timeline, const Profile *chip, uint32_t consumers, uint32_t rows, bool overlap,
                   uint64_t T)
{
    Status status = {0};
    AttentionShape shape = attention_shape(128 * T, 128);
    const RunSetup setup = {.algorithm = &algorithm_fa3, .profile = chip, .tiles = {rows * consumers, 128}};
    const Fa3Options fa3 = {.consumers = consumers, .no_overlap = !overlap};
    shape.seqlen_q = (uint64_t)rows * consumers;
    check_true(&x->test, timeline_record_block(timeline, &setup, &shape, &fa3, NULL, &x->alloc, &status), status.text);
}

/* ---- characters ---- */

static void check_lines(Context *x, const Timeline *timeline, uint64_t scale, const char *const *lines, const char *what)
{
    Status status = {0};
    Report report;
    report_init(&report, "test", &report_spec, &x->alloc, &status);
    Table *picture = report_table(&report, &picture_spec);
    timeline_picture(picture, timeline, scale);
    size_t count = 0;
    while (lines[count] != NULL) count++;
    check_u64(&x->test, picture->row_count, count, what);
    for (size_t i = 0; i < count && i < picture->row_count; i++)
        check_text(&x->test, picture->cells[i].value.text, lines[i], what);
    check_true(&x->test, status_ok(&status), status.text);
    report_free(&report);
}

static void test_pictures(Context *x)
{
    static const char *const in_order[] = {
        "cycle         0               4096",
        "tensor cores  aaaa....aaaaaaaa....aaaa  67%",
        "MUFU          ....aaaa........aaaa....  33%",
        "a consumer 0  ....eeee........eeee....",
        "a   products  SSSS....OOOOSSSS....OOOO",
        "(all 6144 cycles)",
        NULL,
    };
    static const char *const inside[] = {
        "cycle         0               4096",
        "tensor cores  aaaa....aaaaaaaaaaaa  80%",
        "MUFU          ....aaaa....aaaa....  40%",
        "a consumer 0  ....eeee....eeee....",
        "a   products  SSSS....SSSSOOOOOOOO",
        "(all 5120 cycles)",
        NULL,
    };
    static const char *const ping_pong[] = {
        "cycle         0               1024            2048            3072            4096            5120",
        "tensor cores  aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb 100%",
        "MUFU          ................aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbb................aaaaaaaaaaaaaaaa................  50%",
        "a consumer 0  ................eeeeeeeeeeeeeeee................................eeeeeeeeeeeeeeee................",
        "a   products  SSSSSSSSSSSSSSSS................OOOOOOOOOOOOOOOOSSSSSSSSSSSSSSSS................................",
        "b consumer 1  ................................eeeeeeeeeeeeeeee................................................",
        "b   products  ................SSSSSSSSSSSSSSSS................................OOOOOOOOOOOOOOOOSSSSSSSSSSSSSSSS",
        "(the first 6144 of 8192 cycles; the shares are of all of them)",
        NULL,
    };
    /* 32 bytes of L2 a cycle: 1024 cycles for Q, K or V; shared memory: Q once and K twice, V twice, at 128 bytes a cycle. */
    static const char *const with_copies[] = {
        "cycle         0               4096            8192",
        "tensor cores  .........bbbb....bbbbbbbbbbbb.....  48%",
        "MUFU          .............bbbb....bbbb.........  24%",
        "shared mem    .........bbb.....bbb.bb..bb.......  30%",
        "copy          aaaaaaaaaaaaaaaaaaaa.........bbbbb  73%",
        "a   copies    QQQQKKKKVVVVKKKKVVVV..............",
        "b consumer 0  .............eeee....eeee.........",
        "b   products  .........SSSS....SSSSOOOOOOOO.....",
        "b   copies    .............................wwwww",
        "(all 8464 cycles)",
        NULL,
    };
    const Profile ideal = profile(x, "ideal_sm");
    Profile copying = ideal;
    copying.smem_bytes_per_cycle_per_sm = 128;
    copying.l2_bytes_per_second_per_sm = 32 * copying.tensor_clock_hz;
    copying.l2_latency_cycles = 256;
    Timeline timeline;
    record(x, &timeline, &copying, 1, 128, true, 2);
    check_lines(x, &timeline, 256, with_copies, "with copies");
    timeline_free(&timeline);
    record(x, &timeline, &ideal, 1, 128, false, 2);
    check_lines(x, &timeline, 256, in_order, "in order");
    check_u64(&x->test, timeline_scale(&timeline, 0), 64, "6144 cycles fit 96 columns of 64");
    check_u64(&x->test, timeline_scale(&timeline, 3072), 32, "half of them fit columns of 32");
    check_u64(&x->test, timeline_scale(&timeline, 1), 1, "one cycle");
    timeline_free(&timeline);
    record(x, &timeline, &ideal, 1, 128, true, 2);
    check_lines(x, &timeline, 256, inside, "inside a warpgroup");
    timeline_free(&timeline);
    record(x, &timeline, &ideal, 2, 128, false, 2);
    check_lines(x, &timeline, 64, ping_pong, "ping-pong");
    timeline_free(&timeline);
}

/* ---- trace events ---- */

static char *read_file(Context *x, const char *path)
{
    Status status = {0};
    FILE *file = fopen(path, "rb");
    check_true(&x->test, file != NULL, path);
    if (file == NULL) return NULL;
    fseek(file, 0, SEEK_END);
    const long size = ftell(file);
    rewind(file);
    char *text = alloc_array(&x->alloc, (uint64_t)size + 1, 1, "trace", &status);
    check_u64(&x->test, fread(text, 1, (size_t)size, file), (uint64_t)size, path);
    fclose(file);
    return text;
}

static uint64_t number_after(const char *line, const char *key)
{
    const char *at = strstr(line, key);
    return at != NULL ? strtoull(at + strlen(key), NULL, 10) : UINT64_MAX;
}

/* What the events add up to; also checks that each track is named and in the order of time without overlaps. */
static uint64_t check_events(Context *x, const char *text, uint64_t unit_time[UNIT_KINDS])
{
    enum { TRACKS = 128 };
    bool named[TRACKS] = {false};
    uint64_t until[TRACKS] = {0}, events = 0;
    for (const char *line = text; line != NULL && *line != '\0';
         line = strchr(line, '\n') != NULL ? strchr(line, '\n') + 1 : NULL) {
        const uint64_t track = number_after(line, "\"tid\":");
        if (strncmp(line, "{\"ph\":\"M\",\"name\":\"thread_name\"", 30) == 0) named[track % TRACKS] = true;
        if (strncmp(line, "{\"ph\":\"X\"", 9) != 0) continue;
        const uint64_t start = number_after(line, "\"ts\":"), length = number_after(line, "\"dur\":");
        check_true(&x->test, track < TRACKS && named[track], "the track has a name");
        check_true(&x->test, start >= until[track % TRACKS] && length > 0, "events of a track do not overlap");
        until[track % TRACKS] = start + length;
        if (number_after(line, "\"pid\":") == 1 && track >= 1 && track <= UNIT_KINDS) unit_time[track - 1] += length;
        events++;
    }
    return events;
}

static void test_trace(Context *x, uint32_t consumers, uint64_t T, bool whole)
{
    static const char path[] = "test_timeline_view.json";
    const Profile h100 = profile(x, "h100");
    Status status = {0};
    Timeline timeline;
    uint64_t unit_time[UNIT_KINDS] = {0};
    record(x, &timeline, &h100, consumers, 64, true, T);
    check_true(&x->test, timeline_trace(path, "a \"title\" with \\", &timeline, &x->alloc, &status), status.text);
    char *text = read_file(x, path);
    remove(path);
    if (text != NULL) {
        check_true(&x->test, check_events(x, text, unit_time) > timeline.count / 2, "events");
        check_true(&x->test, strstr(text, "\"title\":\"a \\\"title\\\" with \\\\\"") != NULL, "the title is quoted");
        check_u64(&x->test, number_after(text, "\"makespan_cycles\":"), timeline.makespan, "makespan");
        check_u64(&x->test, number_after(text, "\"operations\":"), timeline.count, "operations");
        check_u64(&x->test, number_after(text, "\"operations_written\":"), min_u64(timeline.count, TRACE_OPERATIONS),
                  "operations written");
        check_true(&x->test, (strstr(text, "the first operations only") == NULL) == whole, "a cut trace says so");
        for (int unit = 0; unit < UNIT_KINDS; unit++)
            check_true(&x->test, whole ? unit_time[unit] == timeline.busy[unit] : unit_time[unit] < timeline.busy[unit],
                       "a unit's events are its busy time");
    }
    alloc_free(&x->alloc, text);
    timeline_free(&timeline);
}

static void test_unwritable(Context *x)
{
    const Profile ideal = profile(x, "ideal_sm");
    Status status = {0};
    Timeline timeline;
    record(x, &timeline, &ideal, 1, 128, true, 2);
    check_true(&x->test, !timeline_trace("no/such/directory/t.json", "t", &timeline, &x->alloc, &status),
               "a directory that is not there");
    check_u64(&x->test, status.code, STATUS_IO, status.text);
    timeline_free(&timeline);
}

int main(void)
{
    Context x = {0};
    test_pictures(&x);
    test_trace(&x, 1, 4, true);
    test_trace(&x, 2, 16, true);
    test_trace(&x, 2, 256, false);
    test_unwritable(&x);
    return test_end(&x.test, "test_timeline_view");
}
