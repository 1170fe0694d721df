/* suggest.c - see suggest.h. Optimal string alignment distance (Damerau-Levenshtein without repeated edits of one substring) by
 * dynamic programming over prefixes, keeping three rows. */
#include "suggest.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

enum { LONGEST_WORD = 64 };

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

static int folded(char c) { return tolower((unsigned char)c); }

/* distance[i][j] between the first i letters of a and the first j of b; only the last three rows are kept. */
static size_t edit_distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t rows[3][LONGEST_WORD + 1];
    for (size_t j = 0; j <= b_length; j++) rows[0][j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t *now = rows[i % 3];
        const size_t *above = rows[(i - 1) % 3], *two_above = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            const int x = folded(a[i - 1]), y = folded(b[j - 1]);
            now[j] = smaller(smaller(above[j], now[j - 1]) + 1, above[j - 1] + (x != y));
            const bool swapped = i > 1 && j > 1 && x == folded(b[j - 2]) && y == folded(a[i - 2]);
            if (swapped) now[j] = smaller(now[j], two_above[j - 2] + 1);
        }
    }
    return rows[a_length % 3][b_length];
}

const char *suggest_nearest(const char *word, const char *const *names, size_t count)
{
    const size_t length = strlen(word);
    if (length == 0 || length > LONGEST_WORD) return NULL;
    const char *best = NULL;
    size_t best_distance = LONGEST_WORD + 1;
    for (size_t k = 0; k < count; k++) {
        if (names[k] == NULL) continue;
        const size_t name_length = strlen(names[k]);
        if (name_length == 0 || name_length > LONGEST_WORD) continue;
        const size_t distance = edit_distance(word, length, names[k], name_length);
        const size_t longer = length > name_length ? length : name_length;
        const size_t allowed = longer < 3 ? 1 : longer / 3;
        if (distance <= allowed && distance < best_distance) {
            best = names[k];
            best_distance = distance;
        }
    }
    return best;
}
