/* timeline.h - when the operations of the blocks on one SM happen.
 *
 * A Timeline is an observer of a walk (MachineConfig::observe): it records the operations with their costs (cost.h) and tiles, then simulates
 * them. Rules:
 *   1. Operations of a stream issue in program order. A blocking one holds its stream until its result is there; an asynchronous one (a
 *      copy, wgmma, tcgen05) leaves at once into a queue of its own, and whoever needs its tile waits. Asynchronous operations of one
 *      stream on one unit start in issue order.
 *   2. Dependencies are read-after-write, write-after-read and write-after-write on tiles; a view is the tile below it.
 *   3. A unit serves one operation at a time; an operation takes all its units together.
 *   4. The operation that can start first starts first; among equals the one that was ready earlier, then program order.
 *   5. A named barrier is a token: barrier_arrive writes it, barrier_sync reads it. What one stream made another may use a barrier's latency later.
 *   6. An asynchronous product that the queue cannot take holds its stream until the queue can (Cost::queued_at); one that threads
 *      issue instruction by instruction holds it for as long as that takes (Cost::issue).
 *   7. A stream that uses what another has copied asynchronously looks at the copy's mbarrier first, once for each copy (copy_wait_cycles), also when
 *      the tile is long there.
 * Integer cycles. Several resident blocks are recorded one after the other and share the units.
 *
 * Left out: warps inside a stream diverge in nothing; caches (a load takes L2's latency).
 */
#ifndef ATTNLAB_TIMELINE_H
#define ATTNLAB_TIMELINE_H

#include "cost.h"

/* What kept an operation from starting earlier. */
typedef enum { WAIT_NOTHING, WAIT_STREAM, WAIT_TILE, WAIT_UNIT } WaitKind;

typedef struct {
    Operation operation;
    uint16_t stream;            /* index into Timeline::stream_names */
    bool async;
    bool awaits_copy;           /* recorded by rule 7, not by the kernel */
    Cost cost;
    const char *tile;           /* name of what it writes (or reads) */
    uint32_t first_dependency, dependency_count;
    uint64_t start, end;
    WaitKind wait;
    uint32_t waited_for;        /* the operation whose end, or whose hold of a unit, set the start */
    Unit waited_unit;
} TimedOperation;

enum { TIMELINE_STREAMS = 64, TIMELINE_STORAGES = 16 * MAX_TILES };

/* Last users of a tile's storage. */
typedef struct {
    uint32_t writer;                            /* operation + 1; 0: none */
    uint32_t readers[TIMELINE_STREAMS][2];      /* last reader of each stream, blocking and asynchronous */
} StorageUsers;

typedef struct {
    const Profile *profile;
    Alloc *alloc;
    Status *status;
    TimedOperation *operations;
    uint32_t count, capacity;
    uint32_t *dependencies;
    uint32_t dependency_count, dependency_capacity;
    StorageUsers *storages;                     /* [TIMELINE_STORAGES] */
    const char *stream_names[TIMELINE_STREAMS];
    uint16_t stream_count;
    uint32_t resident;                          /* blocks recorded so far */
    uint64_t makespan;                          /* cycles; after timeline_run */
    uint64_t busy[UNIT_KINDS];
} Timeline;

/* Borrowed: profile, alloc, status. */
bool timeline_init(Timeline *timeline, const Profile *profile, Alloc *alloc, Status *status);
void timeline_free(Timeline *timeline);

/* The EventObserver; `timeline` is a Timeline. Blocks are told apart by timeline_next_block. */
void timeline_observe(void *timeline, const Event *event);
/* What follows is another resident block: its streams and tiles are its own. */
void timeline_next_block(Timeline *timeline);
/* Forgets all operations. */
void timeline_clear(Timeline *timeline);

/* Simulates. STATUS_INFEASIBLE when operations wait for each other in a circle. */
bool timeline_run(Timeline *timeline);

/* Where the last operation's time went: cycles of the critical path spent in each unit (an operation counts for its longest occupancy), and
 * the rest: latency of instruction chains, copies and barriers. Sums to the makespan. */
typedef struct {
    uint64_t unit[UNIT_KINDS];
    uint64_t latency;
} CriticalPath;
CriticalPath timeline_critical_path(const Timeline *timeline);

/* "tensor cores", ... or "latency": what most of the critical path went to. */
const char *critical_path_bound(const CriticalPath *path);

#endif
