/* platform.c - see platform.h. The only file that looks past C11: POSIX, or what Windows has instead. */
#if !defined(_WIN32)
#define _POSIX_C_SOURCE 200809L     /* lstat, mkdir */
#endif

#include "platform.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

#if defined(_WIN32)
#include <direct.h>

static int make_one(const char *path) { return _mkdir(path); }

bool platform_is_special(const char *path)
{
    struct _stat info;
    return _stat(path, &info) == 0 && (info.st_mode & _S_IFREG) == 0;
}

bool platform_replace(const char *from, const char *to)
{
    remove(to);                     /* rename does not replace there */
    return rename(from, to) == 0;
}

static bool is_directory(const char *path)
{
    struct _stat info;
    return _stat(path, &info) == 0 && (info.st_mode & _S_IFDIR) != 0;
}

#else

static int make_one(const char *path) { return mkdir(path, 0777); }

bool platform_is_special(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 && !S_ISREG(info.st_mode);
}

bool platform_replace(const char *from, const char *to) { return rename(from, to) == 0; }

static bool is_directory(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

#endif

bool platform_make_directories(const char *path)
{
    char part[4096];
    const size_t length = strlen(path);
    if (length == 0 || length >= sizeof part) {
        errno = length == 0 ? ENOENT : ENAMETOOLONG;
        return false;
    }
    for (size_t i = 1; i <= length; i++) {
        if (i < length && path[i] != '/') continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (!is_directory(part) && make_one(part) != 0 && !is_directory(part)) return false;
    }
    return true;
}

void platform_ignore_broken_pipe(void)
{
#if defined(SIGPIPE)
    signal(SIGPIPE, SIG_IGN);
#endif
}
