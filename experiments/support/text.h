/* text.h - text that grows, and numbers spelled the same way on every machine.
 *
 * A Text is a buffer that the writers fill; errors (memory) are sticky in its Status. Numbers follow one rule each: counts are
 * decimal, with or without thousands separators; reals have either a fixed number of decimals or a number of significant digits
 * (then 0.0001 up to 999,999,999 is written out and the rest as 8.9e-16). Digits are those of correct rounding, as C's printf
 * gives them under the default rounding mode (glibc, musl, BSD and current Windows libraries agree).
 */
#ifndef ATTNLAB_TEXT_H
#define ATTNLAB_TEXT_H

#include "sim/alloc.h"
#include "sim/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    Alloc *alloc;
    Status *status;
    char *data;         /* always terminated once something was added; NULL before */
    size_t length, capacity;
} Text;

void text_add(Text *text, const char *string);
void text_add_bytes(Text *text, const char *bytes, size_t length);
void text_add_repeated(Text *text, char character, size_t times);
void text_addf(Text *text, const char *format, ...) STATUS_PRINTF(2, 3);
void text_free(Text *text);

/* Columns that a terminal uses for UTF-8 text: one per code point, two for East Asian wide ones, none for combining marks. */
size_t text_width(const char *utf8);

/* Bytes of the code point at `utf8` (1 to 4), 0 when no valid sequence starts there. */
size_t text_sequence_length(const char *utf8);

/* Number formats. Each writes at most NUMBER_SIZE bytes including the terminator and returns `buffer`. */
enum { NUMBER_SIZE = 400, GROUP_NONE = 0, GROUP_THOUSANDS = 1 };
char *format_count(char buffer[NUMBER_SIZE], uint64_t value, int grouping);
char *format_signed(char buffer[NUMBER_SIZE], int64_t value, int grouping);
char *format_decimals(char buffer[NUMBER_SIZE], double value, int decimals, int grouping);      /* 12.44 */
char *format_significant(char buffer[NUMBER_SIZE], double value, int digits, int grouping);     /* 1,230 or 8.9e-16 */
char *format_bytes(char buffer[NUMBER_SIZE], uint64_t bytes);   /* "8 MiB" when that is exact, else "13,043,712 bytes" */

#endif
