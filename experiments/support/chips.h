/* chips.h - the chips of a table: some by name, and --hw behind them when it is none of these. */
#ifndef ATTNLAB_CHIPS_H
#define ATTNLAB_CHIPS_H

#include "experiment.h"

#include <string.h>

/* Loads names[count] into chips[count + 1]; `with_hw`: --hw may be the last. Returns how many there are, 0 when one cannot be loaded. */
static inline size_t load_chips(const Context *context, const char *const names[], size_t count, bool with_hw, Profile chips[])
{
    bool extra = with_hw;
    for (size_t i = 0; i < count; i++) {
        if (!profile_load(names[i], context->alloc, &chips[i], context->status)) return 0;
        extra = extra && strcmp(names[i], context->hw->name) != 0;
    }
    if (extra) chips[count] = *context->hw;
    return count + extra;
}

#endif
