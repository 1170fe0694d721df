/* platform.h - the two things that C11 cannot say and the programs need: make a directory, and tell a plain file from a device.
 * */
#ifndef ATTNLAB_PLATFORM_H
#define ATTNLAB_PLATFORM_H

#include <stdbool.h>

/* Makes a directory and those above it; true when it exists afterwards. */
bool platform_make_directories(const char *path);

/* True for devices, pipes, symbolic links and directories: what must be written to directly because replacing it by a new file
 * would be wrong (/dev/full, /dev/stdout). */
bool platform_is_special(const char *path);

/* A closed pipe shall be a write error, not the end of the process. */
void platform_ignore_broken_pipe(void);

/* Replaces `to` by `from`; false leaves both. */
bool platform_replace(const char *from, const char *to);

#endif
