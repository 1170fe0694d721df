/* timeline.c - recording and simulation; see timeline.h. */
#include "timeline.h"
#include "checked.h"

#include <string.h>

/* --------------------------------------------------------------------------------------------------------------- recording */

bool timeline_init(Timeline *timeline, const Profile *profile, Alloc *alloc, Status *status)
{
    *timeline = (Timeline){.profile = profile, .alloc = alloc, .status = status};
    timeline->storages = alloc_array(alloc, TIMELINE_STORAGES, sizeof *timeline->storages, "tiles of a timeline", status);
    return timeline->storages != NULL;
}

void timeline_free(Timeline *timeline)
{
    alloc_free(timeline->alloc, timeline->operations);
    alloc_free(timeline->alloc, timeline->dependencies);
    alloc_free(timeline->alloc, timeline->storages);
    *timeline = (Timeline){0};
}

void timeline_clear(Timeline *timeline)
{
    memset(timeline->storages, 0, TIMELINE_STORAGES * sizeof *timeline->storages);
    timeline->count = timeline->dependency_count = timeline->resident = 0;
    timeline->stream_count = 0;
    timeline->makespan = 0;
}

void timeline_next_block(Timeline *timeline)
{
    timeline->resident++;
    if (timeline->resident * MAX_TILES >= TIMELINE_STORAGES || timeline->resident * MAX_STREAMS >= TIMELINE_STREAMS)
        status_fail(timeline->status, STATUS_INFEASIBLE, "a timeline holds at most %d resident blocks", TIMELINE_STREAMS / MAX_STREAMS);
}

static bool grow(Timeline *timeline, void **array, uint32_t needed, uint32_t *capacity, uint64_t size, const char *what)
{
    if (needed <= *capacity) return true;
    const uint32_t larger = *capacity ? 2 * *capacity : 1024;
    void *grown = alloc_resize(timeline->alloc, *array, larger, size, what, timeline->status);
    if (grown == NULL) return false;
    *array = grown;
    *capacity = larger;
    return true;
}

static void depend_on(Timeline *timeline, TimedOperation *operation, uint32_t user)
{
    if (user == 0 || user - 1 == timeline->count) return;
    if (!grow(timeline, (void **)&timeline->dependencies, timeline->dependency_count + 1, &timeline->dependency_capacity, sizeof(uint32_t),
              "dependencies of a timeline"))
        return;
    timeline->dependencies[timeline->dependency_count++] = user - 1;
    operation->dependency_count++;
}

static StorageUsers *storage_of(Timeline *timeline, const Tile *tile) { return &timeline->storages[timeline->resident * MAX_TILES + tile->storage]; }

static void record_read(Timeline *timeline, TimedOperation *operation, const Tile *tile)
{
    StorageUsers *users = storage_of(timeline, tile);
    depend_on(timeline, operation, users->writer);
    users->readers[operation->stream][operation->async] = timeline->count + 1;
}

static void record_write(Timeline *timeline, TimedOperation *operation, const Tile *tile)
{
    StorageUsers *users = storage_of(timeline, tile);
    depend_on(timeline, operation, users->writer);
    for (uint16_t stream = 0; stream < timeline->stream_count; stream++)
        for (int async = 0; async < 2; async++) {
            depend_on(timeline, operation, users->readers[stream][async]);
            users->readers[stream][async] = 0;
        }
    users->writer = timeline->count + 1;
}

static uint16_t stream_of(Timeline *timeline, const Stream *stream)
{
    const uint16_t index = (uint16_t)(timeline->resident * MAX_STREAMS + stream->index);
    if (index >= timeline->stream_count) timeline->stream_count = (uint16_t)(index + 1);
    timeline->stream_names[index] = stream->name;
    return index;
}

/* Room for one more; NULL without. */
static TimedOperation *next_operation(Timeline *timeline)
{
    const bool room = grow(timeline, (void **)&timeline->operations, timeline->count + 1, &timeline->capacity, sizeof(TimedOperation), "timeline");
    return room ? &timeline->operations[timeline->count] : NULL;
}

/* The stream's first use of a tile that another stream copies asynchronously. */
static void await_copy(Timeline *timeline, uint16_t stream, const Tile *tile)
{
    const StorageUsers *users = storage_of(timeline, tile);
    if (users->writer == 0 || users->readers[stream][0] != 0 || users->readers[stream][1] != 0) return;
    const TimedOperation *writer = &timeline->operations[users->writer - 1];
    if (writer->operation != OP_LOAD || !writer->async || writer->stream == stream) return;
    TimedOperation *operation = next_operation(timeline);
    if (operation == NULL) return;
    *operation = (TimedOperation){.operation = OP_SYNC, .awaits_copy = true, .stream = stream, .cost = {.hold = copy_wait_cycles(timeline->profile)}, .tile = tile->name,
                                  .first_dependency = timeline->dependency_count};
    depend_on(timeline, operation, users->writer);
    timeline->count++;
}

void timeline_observe(void *observer, const Event *event)
{
    Timeline *timeline = observer;
    const uint16_t stream = stream_of(timeline, event->stream);
    for (int i = 0; i < EVENT_TILES && status_ok(timeline->status); i++)
        if (event->read[i] != NULL) await_copy(timeline, stream, event->read[i]);
    TimedOperation *operation = status_ok(timeline->status) ? next_operation(timeline) : NULL;
    if (operation == NULL) return;
    const Tile *named = event->written[0] != NULL ? event->written[0] : event->read[0];
    *operation = (TimedOperation){.operation = event->operation, .stream = stream, .async = event->async,
                                  .cost = operation_cost(timeline->profile, event), .tile = named != NULL ? named->name : "",
                                  .first_dependency = timeline->dependency_count};
    for (int i = 0; i < EVENT_TILES; i++)
        if (event->read[i] != NULL) record_read(timeline, operation, event->read[i]);
    for (int i = 0; i < EVENT_TILES; i++)
        if (event->written[i] != NULL) record_write(timeline, operation, event->written[i]);
    timeline->count++;
}

/* -------------------------------------------------------------------------------------------------------------- simulation */

#define NO_OPERATION UINT32_MAX

/* The asynchronous operations of one stream on one unit, which start in order. Linked through next_async. */
typedef struct {
    uint32_t head, tail;
    uint32_t last;              /* the one that started last */
    uint64_t last_start;
} Queue;

typedef struct {
    Timeline *timeline;
    uint32_t *next_in_stream;                   /* [count]: program order within a stream */
    uint32_t *next_async;                       /* [count]: issue order within an asynchronous queue */
    uint64_t *issued;                           /* [count]: when an asynchronous operation left its stream */
    uint32_t *issuer;                           /* [count]: the operation that its stream had then waited for */
    uint32_t stream_head[TIMELINE_STREAMS];
    uint64_t stream_free[TIMELINE_STREAMS];
    uint32_t stream_last[TIMELINE_STREAMS];     /* the operation that set stream_free, but for issuing others since; or none */
    uint32_t stream_queued[TIMELINE_STREAMS];   /* the asynchronous operation whose start the stream waits for: the queue is full */
    Queue async[TIMELINE_STREAMS][UNIT_KINDS];
    uint64_t unit_free[UNIT_KINDS];
    uint32_t unit_last[UNIT_KINDS];
    uint32_t done;
} Simulation;

/* An operation that waits at a queue head, and when it could start. */
typedef struct {
    uint32_t operation;
    uint64_t ready, start;
    WaitKind wait;
    uint32_t waited_for;
    Unit waited_unit;
} Candidate;

static bool is_done(const TimedOperation *operation) { return operation->end != UINT64_MAX; }

/* The unit that an asynchronous operation queues for: its longest. */
static Unit main_unit(const TimedOperation *operation)
{
    int best = UNIT_COPY;
    for (int unit = 0; unit < UNIT_KINDS; unit++)
        if (operation->cost.occupancy[unit] > operation->cost.occupancy[best]) best = unit;
    return (Unit)best;
}

/* When what `done` made can be used: by another stream once a barrier has told it, which is in the cost of whoever waits at one (OP_SYNC). */
static uint64_t ready_for(const Timeline *timeline, const TimedOperation *done, const TimedOperation *user)
{
    const bool barrier = done->operation == OP_ARRIVE || user->operation == OP_SYNC;
    return done->end + (done->stream != user->stream && !barrier ? timeline->profile->barrier_latency_cycles : 0);
}

/* When the operation could start; false if it still depends on one that has not started. */
static bool examine(const Simulation *s, uint32_t index, uint64_t issued, uint32_t issuer, Candidate *candidate)
{
    const Timeline *timeline = s->timeline;
    const TimedOperation *operation = &timeline->operations[index];
    *candidate = (Candidate){.operation = index, .ready = issued, .wait = issued > 0 ? WAIT_STREAM : WAIT_NOTHING, .waited_for = issuer};
    for (uint32_t i = 0; i < operation->dependency_count; i++) {
        const uint32_t other = timeline->dependencies[operation->first_dependency + i];
        if (!is_done(&timeline->operations[other])) return false;
        const uint64_t ready = ready_for(timeline, &timeline->operations[other], operation);
        if (ready > candidate->ready) {
            candidate->ready = ready;
            candidate->wait = WAIT_TILE;
            candidate->waited_for = other;
        }
    }
    candidate->start = candidate->ready;
    for (int unit = 0; unit < UNIT_KINDS; unit++)
        if (operation->cost.occupancy[unit] > 0 && s->unit_free[unit] > candidate->start) {
            candidate->start = s->unit_free[unit];
            candidate->wait = WAIT_UNIT;
            candidate->waited_for = s->unit_last[unit];
            candidate->waited_unit = (Unit)unit;
        }
    return true;
}

/* Not before the one issued before it: matters for operations that occupy no unit. */
static void keep_order(const Queue *queue, Unit unit, Candidate *candidate)
{
    if (queue->last_start <= candidate->start) return;
    candidate->start = queue->last_start;
    candidate->wait = WAIT_UNIT;
    candidate->waited_for = queue->last;
    candidate->waited_unit = unit;
}

static bool is_better(const Candidate *a, const Candidate *b)
{
    if (b->operation == NO_OPERATION) return true;
    if (a->start != b->start) return a->start < b->start;
    if (a->ready != b->ready) return a->ready < b->ready;
    return a->operation < b->operation;
}

/* Moves asynchronous operations at stream heads into their queues: a stream waits for them only while the queue is full (Cost::queued_at). */
static void issue_async(Simulation *s, uint16_t stream)
{
    Timeline *timeline = s->timeline;
    while (s->stream_queued[stream] == NO_OPERATION && s->stream_head[stream] != NO_OPERATION &&
           timeline->operations[s->stream_head[stream]].async) {
        const uint32_t index = s->stream_head[stream];
        const Cost *cost = &timeline->operations[index].cost;
        Queue *queue = &s->async[stream][main_unit(&timeline->operations[index])];
        s->issued[index] = s->stream_free[stream];
        s->issuer[index] = s->stream_last[stream];
        s->stream_free[stream] += cost->issue;
        if (cost->queued_at > 0) s->stream_queued[stream] = index;
        s->next_async[index] = NO_OPERATION;
        if (queue->head == NO_OPERATION) queue->head = index;
        else s->next_async[queue->tail] = index;
        queue->tail = index;
        s->stream_head[stream] = s->next_in_stream[index];
    }
}

static Candidate choose(const Simulation *s)
{
    Candidate best = {.operation = NO_OPERATION}, candidate;
    for (uint16_t stream = 0; stream < s->timeline->stream_count; stream++) {
        const uint32_t head = s->stream_head[stream];
        if (head != NO_OPERATION && s->stream_queued[stream] == NO_OPERATION && examine(s, head, s->stream_free[stream], s->stream_last[stream], &candidate) && is_better(&candidate, &best))
            best = candidate;
        for (int unit = 0; unit < UNIT_KINDS; unit++) {
            const Queue *queue = &s->async[stream][unit];
            if (queue->head == NO_OPERATION || !examine(s, queue->head, s->issued[queue->head], s->issuer[queue->head], &candidate)) continue;
            keep_order(queue, (Unit)unit, &candidate);
            if (is_better(&candidate, &best)) best = candidate;
        }
    }
    return best;
}

/* The operation that its stream waited for has started: when the stream goes on is known. */
static void leave_queue(Simulation *s, const TimedOperation *operation, uint32_t index)
{
    const uint16_t stream = operation->stream;
    const uint64_t free = operation->start + operation->cost.queued_at;
    s->stream_queued[stream] = NO_OPERATION;
    if (free > s->stream_free[stream]) {
        s->stream_free[stream] = free;
        s->stream_last[stream] = index;
    }
    issue_async(s, stream);
}

static void start(Simulation *s, const Candidate *chosen)
{
    Timeline *timeline = s->timeline;
    TimedOperation *operation = &timeline->operations[chosen->operation];
    operation->start = chosen->start;
    operation->end = chosen->start + operation->cost.hold;
    operation->wait = chosen->start == 0 ? WAIT_NOTHING : chosen->wait;
    operation->waited_for = chosen->waited_for;
    operation->waited_unit = chosen->waited_unit;
    for (int unit = 0; unit < UNIT_KINDS; unit++) {
        if (operation->cost.occupancy[unit] == 0) continue;
        s->unit_free[unit] = chosen->start + operation->cost.occupancy[unit];
        s->unit_last[unit] = chosen->operation;
        timeline->busy[unit] += operation->cost.occupancy[unit];
    }
    if (operation->async) {
        Queue *queue = &s->async[operation->stream][main_unit(operation)];
        queue->head = s->next_async[chosen->operation];
        queue->last = chosen->operation;
        queue->last_start = chosen->start;
        if (s->stream_queued[operation->stream] == chosen->operation) leave_queue(s, operation, chosen->operation);
    } else {
        s->stream_head[operation->stream] = s->next_in_stream[chosen->operation];
        s->stream_free[operation->stream] = operation->end;
        s->stream_last[operation->stream] = chosen->operation;
        issue_async(s, operation->stream);
    }
    timeline->makespan = max_u64(timeline->makespan, operation->end);
    s->done++;
}

static void link_streams(Simulation *s)
{
    Timeline *timeline = s->timeline;
    uint32_t last[TIMELINE_STREAMS];
    for (int stream = 0; stream < TIMELINE_STREAMS; stream++) {
        s->stream_head[stream] = s->stream_queued[stream] = s->stream_last[stream] = last[stream] = NO_OPERATION;
        for (int unit = 0; unit < UNIT_KINDS; unit++) s->async[stream][unit] = (Queue){.head = NO_OPERATION, .tail = NO_OPERATION};
    }
    for (uint32_t i = 0; i < timeline->count; i++) {
        TimedOperation *operation = &timeline->operations[i];
        operation->end = UINT64_MAX;
        s->next_in_stream[i] = NO_OPERATION;
        if (last[operation->stream] == NO_OPERATION) s->stream_head[operation->stream] = i;
        else s->next_in_stream[last[operation->stream]] = i;
        last[operation->stream] = i;
    }
    for (uint16_t stream = 0; stream < timeline->stream_count; stream++) issue_async(s, stream);
}

static bool simulate(Simulation *s)
{
    Timeline *timeline = s->timeline;
    link_streams(s);
    while (s->done < timeline->count) {
        const Candidate chosen = choose(s);
        if (chosen.operation == NO_OPERATION)
            return status_fail(timeline->status, STATUS_INFEASIBLE, "timeline: %u of %u operations wait for each other", timeline->count - s->done,
                               timeline->count);
        start(s, &chosen);
    }
    return true;
}

bool timeline_run(Timeline *timeline)
{
    if (!status_ok(timeline->status)) return false;
    Simulation s = {.timeline = timeline};
    s.next_in_stream = alloc_array(timeline->alloc, timeline->count, sizeof(uint32_t), "timeline", timeline->status);
    s.next_async = alloc_array(timeline->alloc, timeline->count, sizeof(uint32_t), "timeline", timeline->status);
    s.issuer = alloc_array(timeline->alloc, timeline->count, sizeof(uint32_t), "timeline", timeline->status);
    s.issued = alloc_array(timeline->alloc, timeline->count, sizeof(uint64_t), "timeline", timeline->status);
    timeline->makespan = 0;
    memset(timeline->busy, 0, sizeof timeline->busy);
    const bool ok = status_ok(timeline->status) && simulate(&s);
    alloc_free(timeline->alloc, s.next_in_stream);
    alloc_free(timeline->alloc, s.next_async);
    alloc_free(timeline->alloc, s.issued);
    alloc_free(timeline->alloc, s.issuer);
    return ok;
}

/* ----------------------------------------------------------------------------------------------------------- critical path */

static uint32_t last_to_end(const Timeline *timeline)
{
    uint32_t last = 0;
    for (uint32_t i = 1; i < timeline->count; i++)
        if (timeline->operations[i].end > timeline->operations[last].end) last = i;
    return last;
}

/* Charges [from, to) of an operation's time: its longest unit first, the rest is latency. */
static void charge(CriticalPath *path, const TimedOperation *operation, uint64_t cycles)
{
    int longest = 0;
    for (int unit = 1; unit < UNIT_KINDS; unit++)
        if (operation->cost.occupancy[unit] > operation->cost.occupancy[longest]) longest = unit;
    const uint64_t in_unit = min_u64(cycles, operation->cost.occupancy[longest]);
    path->unit[longest] += in_unit;
    path->latency += cycles - in_unit;
}

CriticalPath timeline_critical_path(const Timeline *timeline)
{
    CriticalPath path = {0};
    if (timeline->count == 0) return path;
    uint64_t until = timeline->makespan;
    uint32_t at = last_to_end(timeline);
    for (;;) {
        const TimedOperation *operation = &timeline->operations[at];
        charge(&path, operation, until - operation->start);
        until = operation->start;
        if (until == 0 || operation->wait == WAIT_NOTHING || operation->waited_for == NO_OPERATION) break;
        at = operation->waited_for;
    }
    path.latency += until;
    return path;
}

const char *critical_path_bound(const CriticalPath *path)
{
    int longest = 0;
    for (int unit = 1; unit < UNIT_KINDS; unit++)
        if (path->unit[unit] > path->unit[longest]) longest = unit;
    return path->latency > path->unit[longest] ? "latency" : unit_name((Unit)longest);
}
