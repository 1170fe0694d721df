/* output.c - see output.h. */
#include "output.h"
#include "platform.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { PATH_SIZE = 4096, PART_NAMES = 100 };

static bool cannot_write(const char *path, int error, Status *status)
{
    return status_fail(status, STATUS_IO, "cannot write %s: %s", path == NULL ? "standard output" : path,
                       error == 0 ? "output error" : strerror(error));
}

static bool write_stream(FILE *stream, const char *bytes, size_t length)
{
    errno = 0;
    return fwrite(bytes, 1, length, stream) == length && fflush(stream) == 0 && ferror(stream) == 0;
}

/* Writes and closes, whatever happens. Keeps errno of the first failure. */
static bool write_and_close(FILE *file, const char *bytes, size_t length)
{
    const bool written = write_stream(file, bytes, length);
    const int error = errno;
    const bool closed = fclose(file) == 0;
    if (!written) errno = error;
    return written && closed;
}

/* A new file beside `path`; "x" refuses to open one that exists (another run, or what a crash left behind). */
static FILE *open_part(const char *path, char part[PATH_SIZE])
{
    for (int i = 0; i < PART_NAMES; i++) {
        const int length = snprintf(part, PATH_SIZE, "%s.part%d", path, i);
        if (length < 0 || length >= PATH_SIZE) {
            errno = ENAMETOOLONG;
            return NULL;
        }
        FILE *file = fopen(part, "wbx");
        if (file != NULL || errno != EEXIST) return file;
    }
    return NULL;
}

bool output_write(const char *path, const char *bytes, size_t length, Status *status)
{
    char part[PATH_SIZE];
    if (!status_ok(status)) return false;
    if (path == NULL) return write_stream(stdout, bytes, length) || cannot_write(path, errno, status);
    const bool direct = platform_is_special(path);
    errno = 0;
    FILE *file = direct ? fopen(path, "wb") : open_part(path, part);
    if (file == NULL) return cannot_write(path, errno, status);
    const bool written = write_and_close(file, bytes, length);
    if (written && (direct || platform_replace(part, path))) return true;
    const int error = errno;
    if (!direct) remove(part);
    return cannot_write(path, error, status);
}
