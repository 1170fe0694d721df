/* suggest.h - "did you mean": the nearest of the allowed words, for error messages about names, options and keys. */
#ifndef ATTNLAB_SUGGEST_H
#define ATTNLAB_SUGGEST_H

#include <stddef.h>

/* The name nearest to word by edit distance (an insertion, deletion, replacement or swap of two neighbours costs 1; letter case
 * is ignored), the first of equals. NULL when none is near: more than a third of the longer word (at least one) would have to
 * change, or word is longer than any sensible name (64 characters). Names in the list may be NULL; they are skipped. */
const char *suggest_nearest(const char *word, const char *const *names, size_t count);

#endif
