/* profile_builtin.h - the texts of hw_profiles/ as the build embeds them (embed_files.cmake writes the definition). Only
 * profile_load.c looks at them: they go through the same parser as files. */
#ifndef ATTNLAB_PROFILE_BUILTIN_H
#define ATTNLAB_PROFILE_BUILTIN_H

#include <stddef.h>

typedef struct {
    const char *name;          /* the file's name without .txt */
    const unsigned char *text; /* not terminated */
    size_t length;
} BuiltinProfile;

extern const BuiltinProfile builtin_profiles[]; /* sorted by name */
extern const size_t builtin_profile_count;

#endif
