/* text.c - see text.h. */
#include "text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- growing text ---- */

static bool text_reserve(Text *text, size_t more)
{
    if (!status_ok(text->status)) return false;
    const size_t needed = text->length + more + 1;
    if (needed <= text->capacity) return true;
    const size_t capacity = needed > 2 * text->capacity ? needed + 256 : 2 * text->capacity;
    char *data = alloc_resize(text->alloc, text->data, capacity, 1, "output text", text->status);
    if (data == NULL) return false;
    text->data = data;
    text->capacity = capacity;
    return true;
}

void text_add_bytes(Text *text, const char *bytes, size_t length)
{
    if (!text_reserve(text, length)) return;
    if (length > 0) memcpy(text->data + text->length, bytes, length);
    text->length += length;
    text->data[text->length] = '\0';
}

void text_add(Text *text, const char *string) { text_add_bytes(text, string, strlen(string)); }

void text_add_repeated(Text *text, char character, size_t times)
{
    if (!text_reserve(text, times)) return;
    memset(text->data + text->length, character, times);
    text->length += times;
    text->data[text->length] = '\0';
}

void text_addf(Text *text, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int length = vsnprintf(NULL, 0, format, args);
    if (length < 0) {
        status_fail(text->status, STATUS_IO, "cannot format output text");
    } else if (text_reserve(text, (size_t)length)) {
        vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
        text->length += (size_t)length;
    }
    va_end(again);
    va_end(args);
}

void text_free(Text *text)
{
    alloc_free(text->alloc, text->data);
    text->data = NULL;
    text->length = text->capacity = 0;
}

/* ---- width ---- */

typedef struct {
    uint32_t first, last;
} CodeRange;

static const CodeRange wide[] = {
    {0x1100, 0x115F}, {0x2E80, 0x303E}, {0x3041, 0x33FF}, {0x3400, 0x4DBF}, {0x4E00, 0x9FFF}, {0xA000, 0xA4CF}, {0xAC00, 0xD7A3},
    {0xF900, 0xFAFF}, {0xFE30, 0xFE6F}, {0xFF01, 0xFF60}, {0xFFE0, 0xFFE6}, {0x1F300, 0x1F64F}, {0x1F900, 0x1F9FF},
    {0x20000, 0x3FFFD},
};
static const CodeRange zero_width[] = {{0x0300, 0x036F}, {0x200B, 0x200F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}, {0xFEFF, 0xFEFF}};

static bool in_ranges(uint32_t code, const CodeRange *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (code >= ranges[i].first && code <= ranges[i].last) return true;
    return false;
}

size_t text_sequence_length(const char *utf8)
{
    const unsigned char *s = (const unsigned char *)utf8;
    if (s[0] < 0x80) return s[0] != 0;
    const size_t length = s[0] >= 0xC2 && s[0] < 0xE0 ? 2 : s[0] >= 0xE0 && s[0] < 0xF0 ? 3 : s[0] >= 0xF0 && s[0] < 0xF5 ? 4 : 0;
    for (size_t i = 1; i < length; i++)
        if ((s[i] & 0xC0) != 0x80) return 0;
    if (s[0] == 0xE0 && s[1] < 0xA0) return 0;      /* overlong */
    if (s[0] == 0xED && s[1] >= 0xA0) return 0;     /* surrogates */
    if (s[0] == 0xF0 && s[1] < 0x90) return 0;      /* overlong */
    if (s[0] == 0xF4 && s[1] >= 0x90) return 0;     /* past U+10FFFF */
    return length;
}

/* The code point at *at, which moves past it. A byte that starts no valid sequence counts as a code point of its own. */
static uint32_t next_code_point(const char **at)
{
    const unsigned char *s = (const unsigned char *)*at;
    const size_t length = text_sequence_length(*at);
    *at += length < 1 ? 1 : length;
    if (length < 2) return s[0];
    uint32_t code = s[0] & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++) code = code << 6 | (s[i] & 0x3Fu);
    return code;
}

size_t text_width(const char *utf8)
{
    const char *at = utf8;
    size_t width = 0;
    while (*at != 0) {
        const uint32_t code = next_code_point(&at);
        if (in_ranges(code, zero_width, sizeof zero_width / sizeof zero_width[0])) continue;
        width += in_ranges(code, wide, sizeof wide / sizeof wide[0]) ? 2 : 1;
    }
    return width;
}

/* ---- numbers ---- */

/* Puts a comma between groups of three digits of the integer part. */
static void group_thousands(char buffer[NUMBER_SIZE])
{
    const size_t length = strlen(buffer), start = buffer[0] == '-' ? 1 : 0;
    const size_t integer = strspn(buffer + start, "0123456789");
    if (integer <= 3) return;
    const size_t commas = (integer - 1) / 3;
    if (length + commas >= NUMBER_SIZE) return;
    memmove(buffer + start + integer + commas, buffer + start + integer, length - start - integer + 1);
    char *to = buffer + start + integer + commas;
    const char *from = buffer + start + integer;
    for (size_t digit = 0; digit < integer; digit++) {
        if (digit > 0 && digit % 3 == 0) *--to = ',';
        *--to = *--from;
    }
}

char *format_count(char buffer[NUMBER_SIZE], uint64_t value, int grouping)
{
    snprintf(buffer, NUMBER_SIZE, "%" PRIu64, value);
    if (grouping == GROUP_THOUSANDS) group_thousands(buffer);
    return buffer;
}

char *format_signed(char buffer[NUMBER_SIZE], int64_t value, int grouping)
{
    snprintf(buffer, NUMBER_SIZE, "%" PRId64, value);
    if (grouping == GROUP_THOUSANDS) group_thousands(buffer);
    return buffer;
}

/* Writes nan, inf or -inf. */
static bool format_special(char buffer[NUMBER_SIZE], double value)
{
    if (value - value == 0) return false;
    strcpy(buffer, value != value ? "nan" : value > 0 ? "inf" : "-inf");
    return true;
}

/* -0.00 becomes 0.00. */
static void drop_sign_of_zero(char buffer[NUMBER_SIZE])
{
    if (buffer[0] == '-' && strpbrk(buffer, "123456789") == NULL) memmove(buffer, buffer + 1, strlen(buffer));
}

char *format_decimals(char buffer[NUMBER_SIZE], double value, int decimals, int grouping)
{
    if (format_special(buffer, value)) return buffer;
    const int kept = decimals < 0 ? 0 : decimals > 30 ? 30 : decimals;
    snprintf(buffer, NUMBER_SIZE, "%.*f", kept, value);
    drop_sign_of_zero(buffer);
    if (grouping == GROUP_THOUSANDS) group_thousands(buffer);
    return buffer;
}

char *format_significant(char buffer[NUMBER_SIZE], double value, int digits, int grouping)
{
    if (format_special(buffer, value)) return buffer;
    const int kept = digits < 1 ? 1 : digits > 17 ? 17 : digits;
    if (value == 0) return strcpy(buffer, "0");
    char scientific[64];
    snprintf(scientific, sizeof scientific, "%.*e", kept - 1, value);
    char *const mark = strchr(scientific, 'e');
    const int exponent = (int)strtol(mark + 1, NULL, 10);
    *mark = '\0';
    if (exponent < -4 || exponent > 8) {
        snprintf(buffer, NUMBER_SIZE, "%se%d", scientific, exponent);
        return buffer;
    }
    if (exponent < kept) {
        snprintf(buffer, NUMBER_SIZE, "%.*f", kept - 1 - exponent, value);
    } else {                                        /* 1.23e3 with 3 digits: 1230, not 1234 */
        char *out = buffer;
        for (const char *c = scientific; *c != '\0'; c++)
            if (*c != '.') *out++ = *c;
        for (int zero = kept; zero <= exponent; zero++) *out++ = '0';
        *out = '\0';
    }
    if (grouping == GROUP_THOUSANDS) group_thousands(buffer);
    return buffer;
}

char *format_bytes(char buffer[NUMBER_SIZE], uint64_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    uint64_t value = bytes;
    while (unit < 6 && value != 0 && value % 1024 == 0) {
        value /= 1024;
        unit++;
    }
    format_count(buffer, value, GROUP_THOUSANDS);
    const size_t length = strlen(buffer);
    snprintf(buffer + length, NUMBER_SIZE - length, " %s", units[unit]);
    return buffer;
}
