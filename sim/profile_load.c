/* profile_load.c - from a name or path to a Profile: which text is meant, and reading it.
 *
 * The order for a name is: the given directory (an installed, perhaps edited profile), the text built into the program, a file of
 * that name in the current directory. A path is only ever that file. ISO C has no way to list a directory or to ask where the
 * program is, so the installed directory comes from argv[0] and PATH.
 */
#include "profile.h"
#include "profile_builtin.h"
#include "suggest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef ATTNLAB_PROFILES_FROM_BIN
#define ATTNLAB_PROFILES_FROM_BIN "../share/attnlab/hw_profiles" /* from the directory of the installed programs */
#endif

#ifdef _WIN32
#define PATH_SEPARATOR ';'
#else
#define PATH_SEPARATOR ':'
#endif

enum { LARGEST_FILE = 64 * 1024, LONGEST_PATH = 4096, MOST_BUILTIN = 64 };

size_t profile_builtin_count(void) { return builtin_profile_count; }

const char *profile_builtin_name(size_t index) { return builtin_profiles[index].name; }

/* ---- files ----------------------------------------------------------------------------------------------------------------- */

/* Reads and parses an open file. Profiles are small, so the whole text is in memory; what is larger is no profile. */
static bool load_stream(FILE *file, const char *path, Alloc *alloc, Profile *out, Status *status)
{
    char *text = alloc_array(alloc, LARGEST_FILE + 1, 1, "the text of a profile", status);
    if (text == NULL) return false;
    errno = 0;
    const size_t length = fread(text, 1, LARGEST_FILE + 1, file);
    bool ok;
    if (ferror(file))
        ok =
            status_fail(status, STATUS_IO, "cannot read profile '%.500s': %s", path, errno != 0 ? strerror(errno) : "read error");
    else if (length > LARGEST_FILE)
        ok = status_fail(status, STATUS_USAGE, "'%.500s' is larger than %d bytes: not a profile", path, LARGEST_FILE);
    else
        ok = profile_parse(text, length, path, out, status);
    alloc_free(alloc, text);
    return ok;
}

/* *found tells whether the file could be opened; the result, whether a profile was loaded. */
static bool load_if_there(const char *path, Alloc *alloc, Profile *out, Status *status, bool *found)
{
    errno = 0;
    FILE *file = fopen(path, "rb");
    *found = file != NULL;
    if (!*found) return false;
    const bool ok = load_stream(file, path, alloc, out, status);
    fclose(file);
    return ok;
}

static bool load_path(const char *path, Alloc *alloc, Profile *out, Status *status)
{
    bool found = false;
    const bool ok = load_if_there(path, alloc, out, status, &found);
    if (found) return ok;
    return status_fail(status, STATUS_IO, "cannot open profile '%.500s': %s", path,
                       errno != 0 ? strerror(errno) : "no such file");
}

/* ---- names ----------------------------------------------------------------------------------------------------------------- */

static bool unknown_name(const char *name, Status *status)
{
    const char *names[MOST_BUILTIN];
    char allowed[400] = "", guess[80] = "";
    size_t count = 0, used = 0;
    for (; count < profile_builtin_count() && count < MOST_BUILTIN; count++) {
        names[count] = profile_builtin_name(count);
        if (used < sizeof allowed) used += (size_t)snprintf(allowed + used, sizeof allowed - used, "%s, ", names[count]);
    }
    const char *nearest = suggest_nearest(name, names, count);
    if (nearest != NULL) snprintf(guess, sizeof guess, "; did you mean '%s'?", nearest);
    return status_fail(status, STATUS_USAGE, "unknown hardware profile '%.60s'%s (allowed: %sor the path of a profile file)",
                       name, guess, allowed);
}

static bool load_builtin(const char *name, Profile *out, Status *status, bool *found)
{
    for (size_t k = 0; k < builtin_profile_count; k++) {
        const BuiltinProfile *builtin = &builtin_profiles[k];
        *found = strcmp(builtin->name, name) == 0;
        if (*found) return profile_parse((const char *)builtin->text, builtin->length, name, out, status);
    }
    return false;
}

bool profile_load_from(const char *directory, const char *name_or_path, Alloc *alloc, Profile *out, Status *status)
{
    if (strpbrk(name_or_path, "/\\.") != NULL) return load_path(name_or_path, alloc, out, status);

    bool found = false, ok = false;
    if (directory != NULL) {
        char path[LONGEST_PATH];
        const int length = snprintf(path, sizeof path, "%s/%s.txt", directory, name_or_path);
        if (length > 0 && (size_t)length < sizeof path) ok = load_if_there(path, alloc, out, status, &found);
    }
    if (!found) ok = load_builtin(name_or_path, out, status, &found);
    if (!found && name_or_path[0] != '\0') ok = load_if_there(name_or_path, alloc, out, status, &found);
    return found ? ok : unknown_name(name_or_path, status);
}

bool profile_load(const char *name_or_path, Alloc *alloc, Profile *out, Status *status)
{
    return profile_load_from(NULL, name_or_path, alloc, out, status);
}

/* ---- the installed directory ----------------------------------------------------------------------------------------------- */

/* directory (not terminated) + "/" + ATTNLAB_PROFILES_FROM_BIN */
static bool join_installed(const char *directory, size_t length, char *buffer, size_t size)
{
    const int needed = snprintf(buffer, size, "%.*s/%s", (int)length, directory, ATTNLAB_PROFILES_FROM_BIN);
    return needed > 0 && (size_t)needed < size;
}

static bool file_exists(const char *directory, size_t length, const char *program)
{
    char path[LONGEST_PATH];
    const int needed = snprintf(path, sizeof path, "%.*s/%s", (int)length, directory, program);
    if (needed <= 0 || (size_t)needed >= sizeof path) return false;
    FILE *file = fopen(path, "rb");
    if (file != NULL) fclose(file);
    return file != NULL;
}

bool profile_installed_directory(const char *program, char *buffer, size_t size)
{
    if (program == NULL || program[0] == '\0' || strlen(program) >= LONGEST_PATH) return false;
    size_t end = strlen(program);
    while (end > 0 && program[end - 1] != '/' && program[end - 1] != '\\') end--;
    if (end > 0) return join_installed(program, end - 1, buffer, size);

    const char *path = getenv("PATH");
    while (path != NULL && *path != '\0') {
        const char *separator = strchr(path, PATH_SEPARATOR);
        const size_t length = separator != NULL ? (size_t)(separator - path) : strlen(path);
        if (length > 0 && length < LONGEST_PATH && file_exists(path, length, program))
            return join_installed(path, length, buffer, size);
        path = separator != NULL ? separator + 1 : NULL;
    }
    return false;
}
