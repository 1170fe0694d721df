/* output.h - results reach a file whole or not at all. */
#ifndef ATTNLAB_OUTPUT_H
#define ATTNLAB_OUTPUT_H

#include "sim/status.h"

#include <stdbool.h>
#include <stddef.h>

/* Writes the bytes to `path`, or to standard output when path is NULL. A plain file is written beside its place under the name
 * path.partN and renamed when all is written, so that a full disk leaves the old file, or none; devices and pipes are written
 * directly. STATUS_IO, naming the path and the reason, for every failure to open, write, flush, close or rename. */
bool output_write(const char *path, const char *bytes, size_t length, Status *status);

#endif
