/* alloc.h - the one place where memory comes from.
 *
 * An Alloc counts what is live and its peak (the programs report it), and can be told to fail at the k-th request: a test fails
 * every k in turn and demands exit code 4 and no leak. Blocks are zeroed and 64-byte aligned (one cache line, one AVX-512 vector).
 */
#ifndef ATTNLAB_ALLOC_H
#define ATTNLAB_ALLOC_H

#include "status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t live_bytes;
    uint64_t peak_bytes;
    uint64_t requests;      /* requests so far */
    uint64_t fail_at;       /* the request that fails, counted from 1; 0 = never */
    uint64_t limit_bytes;   /* requests that would take live_bytes past this fail; 0 = no limit */
} Alloc;

/* Zeroed memory for count * size bytes. NULL and STATUS_IO ("out of memory", naming `what` and the bytes) when there is none or
 * the product overflows. A request of zero bytes gives a valid pointer. */
void *alloc_array(Alloc *alloc, uint64_t count, uint64_t size, const char *what, Status *status);

/* Grows or shrinks; the old contents up to the smaller size are kept, new bytes are zero. On failure the old block stays valid. */
void *alloc_resize(Alloc *alloc, void *block, uint64_t count, uint64_t size, const char *what, Status *status);

/* NULL is fine. */
void alloc_free(Alloc *alloc, void *block);

#endif
