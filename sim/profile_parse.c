/* profile_parse.c - from the text of a profile to a Profile, or to a message that shows where the text is wrong.
 *
 *     KEY = NUMBER UNIT per SCOPE | SOURCE          every quantity, e.g.  smem_bytes_per_sm = 164 KiB per SM | CUDA guide
 *     name = WORD        description = TEXT         the two that are not quantities
 *     # a comment, alone on its line
 *
 * Each line is read from left to right by a Reader; the first thing that is not as it must be ends the parse with the line, a
 * caret under the place and what was expected. Numbers are decimal, without exponent or sign; 126.5 MiB is computed in integers
 * and must come out whole. After the last line: every key is there, and the values fit each other (an SM's share is not more than
 * the chip's, FP8 is twice BF16, and the published peak is SMs x FLOP per cycle x clock within 1 %).
 */
#include "checked.h"
#include "profile.h"
#include "suggest.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    LONGEST_LINE = 200, /* bytes; the line is shown twice (itself and its caret) in a Status text of 1024 */
    LONGEST_LABEL = 160,
    LONGEST_MESSAGE = 340,
    LONGEST_QUOTE = 40, /* bytes of the file that a message repeats */
    TEXT_KEYS = 2       /* "name" and "description", numbered after the quantities */
};

typedef struct {
    const char *label;
    Status *status;
    const char *line; /* the current line, without its end */
    size_t length;
    uint64_t number; /* of the line, from 1 */
    size_t at;       /* next byte to read */
} Reader;

/* Where a key stands: its line, with `at` at its value. number == 0: not seen. */
typedef struct {
    const char *line;
    size_t length;
    uint64_t number;
    size_t at;
} Place;

typedef struct {
    Reader reader;
    Profile profile;
    Place places[PROFILE_MOST_KEYS + TEXT_KEYS];
} Parse;

static bool is_blank(char c) { return c == ' ' || c == '\t'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
static bool is_control(char c) { return ((unsigned char)c < 0x20 && c != '\t') || c == 0x7F; }
static bool is_continuation(char c) { return ((unsigned char)c & 0xC0) == 0x80; } /* a UTF-8 character's second and later bytes */

/* Length of the UTF-8 character at text[0], 0 if it is none (overlong forms, surrogates and values past U+10FFFF are none). */
static size_t utf8_length(const char *text, size_t available)
{
    const unsigned char first = (unsigned char)text[0];
    if (first < 0x80) return 1;
    if (first < 0xC2 || first > 0xF4) return 0;
    const size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (length > available) return 0;
    for (size_t k = 1; k < length; k++)
        if (!is_continuation(text[k])) return 0;
    const unsigned char second = (unsigned char)text[1];
    const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
    const bool outside = (first == 0xED && second >= 0xA0) || (first == 0xF4 && second >= 0x90);
    return overlong || outside ? 0 : length;
}

/* The longest whole characters of text that fit in `most` bytes. */
static size_t clip(const char *text, size_t length, size_t most)
{
    if (length <= most) return length;
    while (most > 0 && is_continuation(text[most])) most--;
    return most;
}

/* ---- messages -------------------------------------------------------------------------------------------------------------- */

/* Records "label:line:column: message", the line, and a caret under byte `at`. Columns count characters from 1. */
static bool complain(const Reader *r, size_t at, const char *format, ...) STATUS_PRINTF(3, 4);

static bool complain(const Reader *r, size_t at, const char *format, ...)
{
    char message[LONGEST_MESSAGE], shown[LONGEST_LINE + 1], indent[LONGEST_LINE + 1];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);

    const size_t length = clip(r->line, r->length, LONGEST_LINE);
    size_t column = 0, bytes = 0;
    for (size_t k = 0; k < length; k += bytes) {
        const size_t character = utf8_length(r->line + k, length - k);
        bytes = character > 0 ? character : 1;
        memcpy(shown + k, r->line + k, bytes);
        if (character == 0 || is_control(shown[k])) shown[k] = '?';
        if (k < at) indent[column++] = shown[k] == '\t' ? '\t' : ' ';
    }
    shown[length] = indent[column] = '\0';

    const size_t label_length = strlen(r->label);
    const bool cut = label_length > LONGEST_LABEL;
    return status_fail(r->status, STATUS_USAGE, "%s%s:%" PRIu64 ":%zu: %s\n    %s\n    %s^", cut ? "..." : "",
                       cut ? r->label + label_length - LONGEST_LABEL : r->label, r->number, column + 1, message, shown, indent);
}

/* The allowed units of a key: "B, kB, KiB, MB, ... or TiB". */
static void list_units(const ProfileKey *key, char *buffer, size_t size)
{
    const char *last = NULL;
    size_t used = 0;
    buffer[0] = '\0';
    for (size_t k = 0; k < profile_unit_count(); k++) {
        if (strcmp(profile_unit(k)->base, key->unit) != 0) continue;
        if (last != NULL && used < size) used += (size_t)snprintf(buffer + used, size - used, "%s%s", used > 0 ? ", " : "", last);
        last = profile_unit(k)->name;
    }
    if (last != NULL && used < size) snprintf(buffer + used, size - used, "%s%s", used > 0 ? " or " : "", last);
}

/* ---- one line -------------------------------------------------------------------------------------------------------------- */

static void skip_blanks(Reader *r)
{
    while (r->at < r->length && is_blank(r->line[r->at])) r->at++;
}

/* The run of bytes up to the next blank or '|', which starts at r->at; r->at moves behind it. */
static size_t take_token(Reader *r)
{
    const size_t start = r->at;
    while (r->at < r->length && !is_blank(r->line[r->at]) && r->line[r->at] != '|') r->at++;
    return r->at - start;
}

static bool token_is(const Reader *r, size_t start, size_t length, const char *word)
{
    return strlen(word) == length && memcmp(r->line + start, word, length) == 0;
}

static bool check_line_is_text(const Reader *r)
{
    for (size_t k = 0; k < r->length && k < LONGEST_LINE;) {
        const size_t length = utf8_length(r->line + k, r->length - k);
        if (length == 0 || is_control(r->line[k]))
            return complain(r, k, "byte 0x%02X is not text; a profile is UTF-8 without control characters",
                            (unsigned char)r->line[k]);
        k += length;
    }
    return r->length <= LONGEST_LINE || complain(r, LONGEST_LINE, "the line is longer than %d bytes", LONGEST_LINE);
}

/* value = digits / 10^decimals, trailing zeros after the point removed. */
static bool read_decimal(Reader *r, const ProfileKey *key, uint64_t *digits, size_t *decimals)
{
    const size_t start = r->at;
    Status overflow = {0};
    bool point = false;
    size_t zeros = 0; /* zeros after the point that only count if another digit follows */
    *digits = 0, *decimals = 0;
    for (; r->at < r->length; r->at++) {
        const char c = r->line[r->at];
        const bool digit_follows = r->at + 1 < r->length && is_digit(r->line[r->at + 1]);
        if (c == '.' && !point && digit_follows) {
            point = true;
        } else if (!is_digit(c)) {
            break;
        } else if (point && c == '0') {
            zeros++;
        } else {
            for (size_t k = 0; k < zeros; k++) *digits = checked_mul(*digits, 10, "", &overflow);
            *digits = checked_add(checked_mul(*digits, 10, "", &overflow), (uint64_t)(c - '0'), "", &overflow);
            *decimals += point ? zeros + 1 : 0;
            zeros = 0;
        }
    }
    if (!status_ok(&overflow)) return complain(r, start, "%s does not fit in 64 bits", key->name);
    return true;
}

/* A number or `unlimited`, up to the blank after it. *unlimited says which. */
static bool read_number(Reader *r, const ProfileKey *key, uint64_t *digits, size_t *decimals, bool *unlimited)
{
    const size_t start = r->at, length = take_token(r);
    *unlimited = token_is(r, start, length, "unlimited");
    if (*unlimited && key->may_be_unlimited) return true;
    if (*unlimited) return complain(r, start, "%s cannot be unlimited", key->name);
    if (length == 0) return complain(r, start, "%s has no value; expected a number", key->name);
    const bool negative = length > 1 && r->line[start] == '-' && is_digit(r->line[start + 1]);
    if (negative) return complain(r, start, "%s cannot be negative", key->name);
    if (!is_digit(r->line[start]))
        return complain(r, start, "'%.*s' is not a number; expected digits%s", (int)clip(r->line + start, length, LONGEST_QUOTE),
                        r->line + start, key->may_be_unlimited ? " or 'unlimited'" : "");
    r->at = start;
    if (!read_decimal(r, key, digits, decimals)) return false;
    if (r->at == r->length || is_blank(r->line[r->at])) return true;
    return complain(r, r->at, "unexpected '%.*s' in a number; expected digits, a blank and the unit",
                    (int)utf8_length(r->line + r->at, r->length - r->at), r->line + r->at);
}

static bool read_unit(Reader *r, const ProfileKey *key, uint64_t *multiplier)
{
    char allowed[80];
    list_units(key, allowed, sizeof allowed);
    const size_t start = r->at, length = take_token(r);
    for (size_t k = 0; k < profile_unit_count(); k++) {
        const ProfileUnit *unit = profile_unit(k);
        if (strcmp(unit->base, key->unit) != 0 || !token_is(r, start, length, unit->name)) continue;
        *multiplier = unit->multiplier;
        return true;
    }
    const bool none = length == 0 || token_is(r, start, length, "per");
    if (none) return complain(r, start, "%s has no unit; expected %s", key->name, allowed);
    return complain(r, start, "wrong unit '%.*s' for %s; expected %s", (int)clip(r->line + start, length, LONGEST_QUOTE),
                    r->line + start, key->name, allowed);
}

static bool read_scope_and_source(Reader *r, const ProfileKey *key)
{
    skip_blanks(r);
    const size_t per = r->at, per_length = take_token(r);
    if (!token_is(r, per, per_length, "per")) return complain(r, per, "expected 'per %s' after the unit", key->scope);
    skip_blanks(r);
    const size_t scope = r->at, scope_length = take_token(r);
    if (!token_is(r, scope, scope_length, key->scope))
        return complain(r, scope, "wrong scope for %s; expected 'per %s'", key->name, key->scope);
    skip_blanks(r);
    if (r->at == r->length || r->line[r->at] != '|') return complain(r, r->at, "expected '| SOURCE' after the scope");
    r->at++;
    skip_blanks(r);
    if (r->at == r->length) return complain(r, r->at, "%s has no source; every value says where it comes from", key->name);
    return true;
}

/* digits * multiplier / 10^decimals, which must be whole and fit. */
static bool scale(const Reader *r, const ProfileKey *key, uint64_t digits, size_t decimals, uint64_t multiplier, uint64_t *value)
{
    for (; decimals > 0 && multiplier % 10 == 0; decimals--) multiplier /= 10;
    Status overflow = {0};
    uint64_t scaled = checked_mul(digits, multiplier, "", &overflow);
    if (!status_ok(&overflow)) return complain(r, r->at, "%s does not fit in 64 bits", key->name);
    for (; decimals > 0 && scaled % 10 == 0; decimals--) scaled /= 10;
    if (decimals > 0 && scaled > 0) return complain(r, r->at, "%s is not a whole number of %s", key->name, key->unit);
    *value = scaled;
    return true;
}

static bool check_band(const Reader *r, const ProfileKey *key, uint64_t value)
{
    const bool inside = value >= key->minimum && value <= key->maximum;
    if (inside || (value == 0 && key->may_be_zero)) return true;
    char is[40], low[40], high[40];
    profile_format_value(key, value, is, sizeof is);
    profile_format_value(key, key->minimum, low, sizeof low);
    profile_format_value(key, key->maximum, high, sizeof high);
    return complain(r, r->at, "%s = %s is out of band; allowed: %s to %s%s%s", key->name, is, low, high,
                    key->may_be_zero && key->minimum > 0 ? ", or 0" : "", key->may_be_unlimited ? ", or unlimited" : "");
}

/* NUMBER UNIT per SCOPE | SOURCE; r->at stands at the number and stays there. */
static bool read_quantity(Reader *r, const ProfileKey *key, uint64_t *value)
{
    const Reader at_value = *r;
    uint64_t digits = 0, multiplier = 1;
    size_t decimals = 0;
    bool unlimited = false;
    if (!read_number(r, key, &digits, &decimals, &unlimited)) return false;
    skip_blanks(r);
    if (!read_unit(r, key, &multiplier) || !read_scope_and_source(r, key)) return false;
    *r = at_value;
    *value = PROFILE_UNLIMITED;
    return unlimited || (scale(r, key, digits, decimals, multiplier, value) && check_band(r, key, *value));
}

/* The rest of the line, without trailing blanks, into buffer. */
static bool read_text(const Reader *r, const char *key, char *buffer, size_t size)
{
    size_t end = r->length;
    while (end > r->at && is_blank(r->line[end - 1])) end--;
    const size_t length = end - r->at;
    if (length == 0) return complain(r, r->at, "%s has no value", key);
    if (length >= size) return complain(r, r->at, "%s is longer than %zu bytes", key, size - 1);
    memcpy(buffer, r->line + r->at, length);
    buffer[length] = '\0';
    return true;
}

static bool read_name(const Reader *r, Profile *profile)
{
    if (!read_text(r, "name", profile->name, sizeof profile->name)) return false;
    for (size_t k = 0; profile->name[k] != '\0'; k++) {
        const char c = profile->name[k];
        if (!is_lower(c) && !is_digit(c) && c != '_' && c != '-')
            return complain(r, r->at + k, "a name has lower-case letters, digits, '_' and '-' only");
    }
    return true;
}

/* ---- keys ------------------------------------------------------------------------------------------------------------------ */

static const char example_line[] = "sm_count = 132 SMs per chip | SOURCE";

static size_t all_keys(void) { return profile_key_count() + TEXT_KEYS; }

/* "name" and "description" are the last two. */
static const char *key_name(size_t index)
{
    const size_t quantities = profile_key_count();
    return index < quantities ? profile_key(index)->name : index == quantities ? "name" : "description";
}

static bool unknown_key(const Reader *r, size_t start, size_t length)
{
    const char *names[PROFILE_MOST_KEYS + TEXT_KEYS];
    for (size_t k = 0; k < all_keys(); k++) names[k] = key_name(k);
    char word[LONGEST_LINE + 1];
    memcpy(word, r->line + start, length);
    word[length] = '\0';
    const char *nearest = suggest_nearest(word, names, all_keys());
    word[clip(word, length, LONGEST_QUOTE)] = '\0';
    if (nearest == NULL) return complain(r, start, "unknown key '%s'; keys are described in hw_profiles/README.md", word);
    return complain(r, start, "unknown key '%s'; did you mean '%s'?", word, nearest);
}

/* Reads KEY and '='. */
static bool read_key(Parse *parse, size_t *index)
{
    Reader *r = &parse->reader;
    const size_t start = r->at;
    while (r->at < r->length && !is_blank(r->line[r->at]) && r->line[r->at] != '=') r->at++;
    const size_t length = r->at - start;
    if (length == 0) return complain(r, start, "expected a key, as in '%s', or a comment with '#'", example_line);
    for (*index = 0; *index < all_keys() && !token_is(r, start, length, key_name(*index));) ++*index;
    if (*index == all_keys()) return unknown_key(r, start, length);
    const uint64_t first = parse->places[*index].number;
    if (first != 0) return complain(r, start, "%s is given twice; first on line %" PRIu64, key_name(*index), first);
    skip_blanks(r);
    if (r->at == r->length || r->line[r->at] != '=') return complain(r, r->at, "expected '=' after %s", key_name(*index));
    r->at++;
    skip_blanks(r);
    return true;
}

static bool read_line(Parse *parse)
{
    Reader *r = &parse->reader;
    Profile *profile = &parse->profile;
    if (!check_line_is_text(r)) return false;
    skip_blanks(r);
    if (r->at == r->length || r->line[r->at] == '#') return true;
    size_t index = 0;
    if (!read_key(parse, &index)) return false;
    parse->places[index] = (Place){r->line, r->length, r->number, r->at};
    if (index == profile_key_count()) return read_name(r, profile);
    if (index > profile_key_count()) return read_text(r, "description", profile->description, sizeof profile->description);
    uint64_t value = 0;
    if (!read_quantity(r, profile_key(index), &value)) return false;
    memcpy((char *)profile + profile_key(index)->offset, &value, sizeof value);
    return true;
}

/* ---- the whole ------------------------------------------------------------------------------------------------------------- */

/* The reader, back at the value of the quantity at `offset`. */
static Reader reader_at(const Parse *parse, size_t offset, const ProfileKey **key)
{
    size_t index = 0;
    while (profile_key(index)->offset != offset) index++;
    *key = profile_key(index);
    const Place *place = &parse->places[index];
    return (Reader){parse->reader.label, parse->reader.status, place->line, place->length, place->number, place->at};
}

static bool check_complete(const Parse *parse)
{
    const Reader *r = &parse->reader;
    size_t missing = 0, first = 0;
    for (size_t k = all_keys(); k-- > 0;) {
        if (parse->places[k].number != 0) continue;
        first = k;
        missing++;
    }
    if (missing == 0) return true;
    if (missing == all_keys())
        return complain(r, r->length, "the file has no keys; a profile has lines such as '%s'", example_line);
    char more[40] = "";
    if (missing > 1) snprintf(more, sizeof more, " (and %zu more)", missing - 1);
    const char *name = key_name(first);
    if (first >= profile_key_count()) return complain(r, r->length, "missing key %s%s; expected '%s = TEXT'", name, more, name);
    const ProfileKey *key = profile_key(first);
    return complain(r, r->length, "missing key %s%s; expected '%s = NUMBER %s per %s | SOURCE'", name, more, name, key->unit,
                    key->scope);
}

/* The first must not be more than the second. */
static const size_t at_most[][2] = {
    {offsetof(Profile, tensor_clock_hz), offsetof(Profile, boost_clock_hz)},
    {offsetof(Profile, full_tensor_clock_hz), offsetof(Profile, tensor_clock_hz)},
    {offsetof(Profile, hbm_sustained_bytes_per_second_per_chip), offsetof(Profile, hbm_bytes_per_second_per_chip)},
    {offsetof(Profile, hbm_bytes_per_second_per_sm), offsetof(Profile, hbm_sustained_bytes_per_second_per_chip)},
    {offsetof(Profile, l2_bytes_per_second_per_sm), offsetof(Profile, l2_bytes_per_second_per_chip)},
    {offsetof(Profile, smem_latency_cycles), offsetof(Profile, l2_latency_cycles)},
    {offsetof(Profile, l2_latency_cycles), offsetof(Profile, hbm_latency_cycles)},
    {offsetof(Profile, smem_bytes_per_sm), offsetof(Profile, l1_and_smem_bytes_per_sm)},
    {offsetof(Profile, smem_bytes_per_block), offsetof(Profile, smem_bytes_per_sm)},
    {offsetof(Profile, registers_per_thread), offsetof(Profile, registers_per_sm)},
    {offsetof(Profile, max_threads_per_block), offsetof(Profile, max_threads_per_sm)},
};

static bool check_order(const Parse *parse)
{
    for (size_t k = 0; k < sizeof at_most / sizeof at_most[0]; k++) {
        const ProfileKey *small = NULL, *large = NULL;
        const Reader r = reader_at(parse, at_most[k][0], &small);
        (void)reader_at(parse, at_most[k][1], &large);
        const uint64_t small_value = profile_value(&parse->profile, small), large_value = profile_value(&parse->profile, large);
        if (small_value <= large_value) continue;
        char is[40], most[40];
        profile_format_value(small, small_value, is, sizeof is);
        profile_format_value(large, large_value, most, sizeof most);
        return complain(&r, r.at, "%s = %s is more than %s = %s", small->name, is, large->name, most);
    }
    return true;
}

/* The bands keep every product below 2^64: 1024 SMs x 2^20 FLOP x 10^10 Hz = 1.07e19. */
static bool check_peak(const Parse *parse, uint64_t best_rate)
{
    const Profile *p = &parse->profile;
    const ProfileKey *key = NULL;
    const Reader r = reader_at(parse, offsetof(Profile, peak_bf16_flops_per_chip), &key);
    const uint64_t peak = p->peak_bf16_flops_per_chip, product = p->sm_count * best_rate * p->tensor_clock_hz;
    const uint64_t difference = product > peak ? product - peak : peak - product;
    if (difference <= peak / 100) return true;
    return complain(&r, r.at,
                    "%s must be sm_count x best BF16 rate x tensor clock within 1 %%, which is %" PRIu64 " x %" PRIu64
                    " x %" PRIu64 " = %" PRIu64 " FLOP/s",
                    key->name, p->sm_count, best_rate, p->tensor_clock_hz, product);
}

static bool check_rates(const Parse *parse)
{
    const Profile *p = &parse->profile;
    const uint64_t best_rate = max_u64(p->mma_sync_bf16_flops_per_cycle_per_sm,
                                       max_u64(p->wgmma_bf16_flops_per_cycle_per_sm, p->tcgen05_bf16_flops_per_cycle_per_sm));
    if (!check_peak(parse, best_rate)) return false;

    const ProfileKey *key = NULL;
    const Reader fp8 = reader_at(parse, offsetof(Profile, fp8_flops_per_cycle_per_sm), &key);
    if (p->fp8_flops_per_cycle_per_sm != 0 && p->fp8_flops_per_cycle_per_sm != 2 * best_rate)
        return complain(&fp8, fp8.at, "%s must be twice the best BF16 rate, %" PRIu64 " FLOP/cycle, or 0 for none", key->name,
                        2 * best_rate);

    const Reader tmem = reader_at(parse, offsetof(Profile, tmem_bytes_per_sm), &key);
    if ((p->tmem_bytes_per_sm > 0) == profile_has(p, TENSOR_TCGEN05)) return true;
    return complain(&tmem, tmem.at,
                    "%s must be 0 exactly if tcgen05_bf16_flops_per_cycle_per_sm is, which is %" PRIu64 " FLOP/cycle", key->name,
                    p->tcgen05_bf16_flops_per_cycle_per_sm);
}

bool profile_parse(const char *text, size_t length, const char *label, Profile *out, Status *status)
{
    Parse parse = {.reader = {.label = label, .status = status, .line = text}};
    const bool byte_order_mark = length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0;
    size_t next = byte_order_mark ? 3 : 0;
    while (next < length) {
        const char *line = text + next, *end = memchr(line, '\n', length - next);
        const size_t bytes = end != NULL ? (size_t)(end - line) : length - next;
        const bool carriage_return = end != NULL && bytes > 0 && line[bytes - 1] == '\r';
        parse.reader.line = line;
        parse.reader.length = carriage_return ? bytes - 1 : bytes;
        parse.reader.number++;
        parse.reader.at = 0;
        if (!read_line(&parse)) return false;
        next += bytes + 1;
    }
    if (parse.reader.number == 0) parse.reader.number = 1;
    if (!check_complete(&parse) || !check_order(&parse) || !check_rates(&parse)) return false;
    *out = parse.profile;
    return true;
}
