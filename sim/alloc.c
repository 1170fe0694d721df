/* alloc.c - see alloc.h. A 64-byte header in front of each block remembers its size. */
#include "alloc.h"
#include "checked.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

static uint64_t *header_of(void *block) { return (uint64_t *)(void *)((char *)block - ALIGNMENT); }

void *alloc_array(Alloc *alloc, uint64_t count, uint64_t size, const char *what, Status *status)
{
    Status overflow = {0};
    const uint64_t bytes = checked_mul(count, size, what, &overflow);
    alloc->requests++;
    const bool over_limit = alloc->limit_bytes != 0 && (bytes > alloc->limit_bytes || alloc->live_bytes > alloc->limit_bytes - bytes);
    const bool refused = !status_ok(&overflow) || bytes > SIZE_MAX / 2 || alloc->requests == alloc->fail_at || over_limit;
    const size_t total = refused ? 0 : ((size_t)bytes / ALIGNMENT + 2) * ALIGNMENT;
    char *base = refused ? NULL : aligned_alloc(ALIGNMENT, total);
    if (base == NULL) {
        status_fail(status, STATUS_IO, "out of memory: %s needs %" PRIu64 " x %" PRIu64 " bytes", what, count, size);
        return NULL;
    }
    char *block = base + ALIGNMENT;
    *header_of(block) = bytes;
    memset(block, 0, (size_t)bytes);
    alloc->live_bytes += bytes;
    if (alloc->live_bytes > alloc->peak_bytes) alloc->peak_bytes = alloc->live_bytes;
    return block;
}

void *alloc_resize(Alloc *alloc, void *block, uint64_t count, uint64_t size, const char *what, Status *status)
{
    void *larger = alloc_array(alloc, count, size, what, status);
    if (larger == NULL) return NULL;
    if (block != NULL) {
        const uint64_t old_bytes = *header_of(block), new_bytes = *header_of(larger);
        memcpy(larger, block, (size_t)min_u64(old_bytes, new_bytes));
        alloc_free(alloc, block);
    }
    return larger;
}

void alloc_free(Alloc *alloc, void *block)
{
    if (block == NULL) return;
    alloc->live_bytes -= *header_of(block);
    free((char *)block - ALIGNMENT);
}
