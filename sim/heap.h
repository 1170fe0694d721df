/* heap.h - what happens next: a binary heap of (time, id), smallest first, ties to the smaller id. */
#ifndef ATTNLAB_HEAP_H
#define ATTNLAB_HEAP_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    uint64_t time, id;
} HeapEntry;

/* The entries are the owner's, who knows how many there can be. */
typedef struct {
    HeapEntry *entries;
    uint64_t count;
} Heap;

static inline bool heap_before(HeapEntry a, HeapEntry b) { return a.time < b.time || (a.time == b.time && a.id < b.id); }

/* Puts `entry` into the hole at the top. */
static inline void heap_replace_top(Heap *heap, HeapEntry entry)
{
    uint64_t hole = 0;
    for (uint64_t child = 1; child < heap->count; child = 2 * hole + 1) {
        if (child + 1 < heap->count && heap_before(heap->entries[child + 1], heap->entries[child])) child++;
        if (!heap_before(heap->entries[child], entry)) break;
        heap->entries[hole] = heap->entries[child];
        hole = child;
    }
    if (heap->count > 0) heap->entries[hole] = entry;
}

static inline HeapEntry heap_pop(Heap *heap)
{
    const HeapEntry top = heap->entries[0];
    heap->count--;
    heap_replace_top(heap, heap->entries[heap->count]);
    return top;
}

static inline void heap_push(Heap *heap, HeapEntry entry)
{
    uint64_t hole = heap->count++;
    while (hole > 0 && heap_before(entry, heap->entries[(hole - 1) / 2])) {
        heap->entries[hole] = heap->entries[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    heap->entries[hole] = entry;
}

#endif
