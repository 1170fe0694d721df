/* tensor_named.h - a machine's tensor by its name: intermediate results that no Attention points to (D, dP, m). */
#ifndef ATTNLAB_TENSOR_NAMED_H
#define ATTNLAB_TENSOR_NAMED_H

#include "sim/machine.h"

#include <string.h>

/* NULL when there is none. */
static inline const Tensor *tensor_named(const Machine *machine, const char *name)
{
    for (uint32_t i = 0; i < machine->tensor_count; i++)
        if (strcmp(machine->tensors[i].name, name) == 0) return &machine->tensors[i];
    return NULL;
}

#endif
