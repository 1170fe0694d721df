/* test_profile.c - chips as data: what the built-in profiles say, what a bad file gets, and that no text can crash the parser. */
#include "sim/profile.h"
#include "tests/test.h"

#include <stdlib.h>

enum { TEXT_SIZE = 32 * 1024 };

/* A text that a test edits. */
typedef struct {
    char bytes[TEXT_SIZE];
    size_t length;
} Text;

static void text_append(Text *text, const char *bytes, size_t length)
{
    if (length > TEXT_SIZE - text->length) length = TEXT_SIZE - text->length;
    memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
}

static bool text_read(Text *text, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) return false;
    text->length = fread(text->bytes, 1, TEXT_SIZE, file);
    fclose(file);
    return true;
}

static Text read_profile_text(Test *t, const char *name)
{
    Text text = {.length = 0};
    char path[1024];
    snprintf(path, sizeof path, "%s/../hw_profiles/%s.txt", TEST_DATA, name);
    check_true(t, text_read(&text, path), path);
    return text;
}

static bool parse(const Text *text, Profile *profile, Status *status)
{
    *status = (Status){0};
    return profile_parse(text->bytes, text->length, "chip.txt", profile, status);
}

/* Fields, not bytes: padding is free. */
static bool same_profile(const Profile *a, const Profile *b)
{
    bool same = strcmp(a->name, b->name) == 0 && strcmp(a->description, b->description) == 0;
    for (size_t k = 0; k < profile_key_count(); k++)
        same = same && profile_value(a, profile_key(k)) == profile_value(b, profile_key(k));
    return same;
}

/* ---- what the chips say ---------------------------------------------------------------------------------------------------- */

static const struct {
    const char *chip;
    const char *key;
    uint64_t value;
} pinned[] = {
    {"a100", "sm_count", 108},
    {"a100", "tensor_clock_hz", 1410000000},
    {"a100", "peak_bf16_flops_per_chip", 312000000000000},
    {"a100", "mma_sync_bf16_flops_per_cycle_per_sm", 2048},
    {"a100", "wgmma_bf16_flops_per_cycle_per_sm", 0},
    {"a100", "fp8_flops_per_cycle_per_sm", 0},
    {"a100", "fp32_fma_per_cycle_per_sm", 64},
    {"a100", "l2_bytes_per_second_per_sm", 90240000000},
    {"a100", "hbm_bytes_per_second_per_chip", 2039000000000},
    {"a100", "hbm_bytes_per_chip", 80000000000},
    {"a100", "l2_bytes_per_chip", 41943040},
    {"a100", "l1_and_smem_bytes_per_sm", 196608},
    {"a100", "smem_bytes_per_sm", 167936},
    {"a100", "smem_bytes_per_block", 166912},
    {"h100", "sm_count", 132},
    {"h100", "tensor_clock_hz", 1830000000},
    {"h100", "boost_clock_hz", 1980000000},
    {"h100", "peak_bf16_flops_per_chip", 989000000000000},
    {"h100", "mma_sync_bf16_flops_per_cycle_per_sm", 2686},
    {"h100", "wgmma_bf16_flops_per_cycle_per_sm", 4096},
    {"h100", "fp8_flops_per_cycle_per_sm", 8192},
    {"h100", "tcgen05_bf16_flops_per_cycle_per_sm", 0},
    {"h100", "mufu_ops_per_cycle_per_sm", 16},
    {"h100", "smem_bytes_per_cycle_per_sm", 128},
    {"h100", "hbm_bytes_per_second_per_chip", 3350000000000},
    {"h100", "l2_bytes_per_chip", 52428800},
    {"h100", "smem_bytes_per_sm", 233472},
    {"h100", "smem_bytes_per_block", 232448},
    {"h100", "registers_per_sm", 65536},
    {"h100", "registers_per_thread", 255},
    {"h200", "hbm_bytes_per_second_per_chip", 4800000000000},
    {"h200", "hbm_bytes_per_second_per_sm", 76800000000},
    {"h200", "l2_bytes_per_chip", 62914560},
    {"b200", "sm_count", 148},
    {"b200", "tcgen05_bf16_flops_per_cycle_per_sm", 8192},
    {"b200", "wgmma_bf16_flops_per_cycle_per_sm", 0},
    {"b200", "hbm_bytes_per_second_per_chip", 8000000000000},
    {"b200", "l2_bytes_per_chip", 132644864},
    {"b200", "tmem_bytes_per_sm", 262144},
    {"ideal_sm", "wgmma_bf16_flops_per_cycle_per_sm", 4096},
    {"ideal_sm", "mufu_ops_per_cycle_per_sm", 16},
    {"ideal_sm", "fp32_fma_per_cycle_per_sm", PROFILE_UNLIMITED},
    {"ideal_sm", "hbm_bytes_per_second_per_chip", PROFILE_UNLIMITED},
    {"ideal_sm", "smem_bytes_per_block", PROFILE_UNLIMITED},
    {"unbounded", "smem_bytes_per_block", PROFILE_UNLIMITED},
    {"unbounded", "registers_per_thread", PROFILE_UNLIMITED},
    {"unbounded", "tmem_bytes_per_sm", PROFILE_UNLIMITED},
};

static void test_pinned_values(Test *t)
{
    for (size_t k = 0; k < sizeof pinned / sizeof pinned[0]; k++) {
        Profile profile = {0};
        Status status = {0};
        Alloc alloc = {0};
        char what[128];
        snprintf(what, sizeof what, "%s %s", pinned[k].chip, pinned[k].key);
        check_true(t, profile_load(pinned[k].chip, &alloc, &profile, &status), status.text);
        const ProfileKey *key = profile_key_named(pinned[k].key);
        check_true(t, key != NULL, what);
        if (key != NULL) check_u64(t, profile_value(&profile, key), pinned[k].value, what);
    }
}

/* Lecture §1.4 and §2.4, to the second decimal. */
static void test_balance_points(Test *t)
{
    static const struct {
        const char *chip;
        double flops_per_byte;
    } cases[] = {{"a100", 153.02}, {"h100", 295.22}, {"h200", 206.04}, {"b200", 281.25}, {"ideal_sm", 0}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        Profile profile = {0};
        Status status = {0};
        Alloc alloc = {0};
        check_true(t, profile_load(cases[k].chip, &alloc, &profile, &status), status.text);
        const double balance = profile_balance_flops_per_byte(&profile);
        char what[128];
        snprintf(what, sizeof what, "%s peak / HBM bandwidth = %.4f, want %.2f", cases[k].chip, balance, cases[k].flops_per_byte);
        check_true(t, balance >= cases[k].flops_per_byte - 0.005 && balance < cases[k].flops_per_byte + 0.005, what);
    }
}

static void test_instructions(Test *t)
{
    static const struct {
        const char *chip;
        bool has[3]; /* mma.sync, wgmma, tcgen05 */
    } cases[] = {
        {"a100", {true, false, false}}, {"h100", {true, true, false}},     {"h200", {true, true, false}},
        {"b200", {true, false, true}},  {"ideal_sm", {true, true, false}}, {"unbounded", {true, true, true}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        Profile profile = {0};
        Status status = {0};
        Alloc alloc = {0};
        check_true(t, profile_load(cases[k].chip, &alloc, &profile, &status), status.text);
        for (int i = TENSOR_MMA_SYNC; i <= TENSOR_TCGEN05; i++) {
            const TensorInstruction instruction = (TensorInstruction)i;
            char what[64];
            snprintf(what, sizeof what, "%s has %s", cases[k].chip, tensor_instruction_name(instruction));
            check_true(t, profile_has(&profile, instruction) == cases[k].has[i], what);
        }
    }
}

/* What is built in is what the files say, and every file is built in under its own name. */
static void test_builtin(Test *t)
{
    static const char *const expected[] = {"a100", "b200", "h100", "h200", "ideal_sm", "unbounded"};
    const size_t count = sizeof expected / sizeof expected[0];
    check_u64(t, profile_builtin_count(), count, "built-in profiles");
    for (size_t k = 0; k < profile_builtin_count() && k < count; k++) {
        const char *name = profile_builtin_name(k);
        check_text(t, name, expected[k], "names in alphabetical order");
        const Text text = read_profile_text(t, name);
        Profile from_file = {0}, from_name = {0};
        Status status = {0};
        Alloc alloc = {0};
        check_true(t, parse(&text, &from_file, &status), status.text);
        check_true(t, profile_load(name, &alloc, &from_name, &status), status.text);
        check_text(t, from_name.name, name, "the name inside the file");
        check_true(t, same_profile(&from_file, &from_name), name);
    }
}

/* The line of a key: from its first byte to behind its newline. */
static bool find_line(const Text *text, const char *key, size_t *start, size_t *end)
{
    const size_t length = strlen(key);
    for (*start = 0; *start < text->length; *start = *end) {
        const char *newline = memchr(text->bytes + *start, '\n', text->length - *start);
        *end = newline != NULL ? (size_t)(newline - text->bytes) + 1 : text->length;
        const bool long_enough = *end - *start > length;
        if (long_enough && memcmp(text->bytes + *start, key, length) == 0 && text->bytes[*start + length] == ' ') return true;
    }
    return false;
}

/* text with the line of `key` replaced (by nothing if line is ""). */
static Text with_line(const Text *text, const char *key, const char *line)
{
    size_t start = 0, end = 0;
    Text edited = {.length = 0};
    if (!find_line(text, key, &start, &end)) return edited;
    text_append(&edited, text->bytes, start);
    text_append(&edited, line, strlen(line));
    text_append(&edited, text->bytes + end, text->length - end);
    return edited;
}

/* ---- what is accepted ------------------------------------------------------------------------------------------------------ */

static void test_same_meaning(Test *t)
{
    const Text text = read_profile_text(t, "h100");
    Profile want = {0}, got = {0};
    Status status;
    check_true(t, parse(&text, &want, &status), status.text);

    Text crlf = {.length = 0};
    for (size_t k = 0; k < text.length; k++)
        text_append(&crlf, text.bytes[k] == '\n' ? "\r\n" : text.bytes + k, text.bytes[k] == '\n' ? 2 : 1);
    check_true(t, parse(&crlf, &got, &status) && same_profile(&got, &want), "CRLF");

    Text marked = {.length = 0};
    text_append(&marked, "\xEF\xBB\xBF", 3);
    text_append(&marked, text.bytes, text.length);
    got = (Profile){0};
    check_true(t, parse(&marked, &got, &status) && same_profile(&got, &want), "byte order mark");

    Text unfinished = text;
    unfinished.length--;
    got = (Profile){0};
    check_true(t, parse(&unfinished, &got, &status) && same_profile(&got, &want), "no final newline");

    const Text trailing = with_line(&text, "name", "name = h100 \t \n");
    got = (Profile){0};
    check_true(t, parse(&trailing, &got, &status) && same_profile(&got, &want), "blanks after a name");

    Text indented = {.length = 0};
    for (size_t k = 0; k < text.length; k++) {
        if (k == 0 || text.bytes[k - 1] == '\n') text_append(&indented, " \t", 2);
        text_append(&indented, text.bytes + k, 1);
    }
    got = (Profile){0};
    check_true(t, parse(&indented, &got, &status) && same_profile(&got, &want), "blanks before keys, comments and empty lines");
}

/* Every value as profile_format_value writes it is read back, on every chip, keys in reverse order. */
static void test_write_and_read(Test *t)
{
    for (size_t chip = 0; chip < profile_builtin_count(); chip++) {
        Profile profile = {0}, again = {0};
        Status status = {0};
        Alloc alloc = {0};
        check_true(t, profile_load(profile_builtin_name(chip), &alloc, &profile, &status), status.text);
        Text text = {.length = 0};
        char line[256], value[64];
        for (size_t k = profile_key_count(); k-- > 0;) {
            const ProfileKey *key = profile_key(k);
            profile_format_value(key, profile_value(&profile, key), value, sizeof value);
            const int length = snprintf(line, sizeof line, "%s = %s per %s | test\n", key->name, value, key->scope);
            text_append(&text, line, (size_t)length);
        }
        const int length = snprintf(line, sizeof line, "name=%s\ndescription=%s", profile.name, profile.description);
        text_append(&text, line, (size_t)length);
        check_true(t, parse(&text, &again, &status), status.text);
        check_true(t, same_profile(&profile, &again), profile.name);
    }
}

/* Decimal numbers become exact integers, without a double in between. */
static void test_numbers(Test *t)
{
    static const struct {
        const char *number;
        uint64_t value;
    } cases[] = {
        {"126.5 MiB", 132644864},
        {"0080 GB", 80000000000},
        {"80.000000000000000000000000000000 GB", 80000000000},
        {"1048.577 kB", 1048577},
        {"1048577.0 B", 1048577},
        {"4.35 GB", 4350000000}, /* 4349999999.9999995 in a double */
        {"0.00010000000 TB", 100000000},
        {"1.5 GiB", 1610612736},
        {"1048576 B", 1048576},     /* the lowest of the band */
        {"64 TiB", 70368744177664}, /* the highest */
        {"unlimited B", PROFILE_UNLIMITED},
    };
    const Text text = read_profile_text(t, "h100");
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        char line[128];
        snprintf(line, sizeof line, "hbm_bytes_per_chip = %s per chip | test\n", cases[k].number);
        const Text edited = with_line(&text, "hbm_bytes_per_chip", line);
        Profile profile = {0};
        Status status;
        check_true(t, parse(&edited, &profile, &status), status.text);
        check_u64(t, profile.hbm_bytes_per_chip, cases[k].value, cases[k].number);
    }
}

/* ---- what is refused ------------------------------------------------------------------------------------------------------- */

/* One file each in tests/profiles/. */
static const struct {
    const char *file;
    unsigned line, column; /* column counts characters */
    const char *message;
} bad_files[] = {
    {"above_band.txt", 3, 21, "smem_bytes_per_sm = 164 GiB is out of band; allowed: 1 KiB to 64 MiB, or unlimited"},
    {"above_band_zero.txt", 3, 30,
     "fp8_flops_per_cycle_per_sm = 8 FLOP/cycle is out of band; allowed: 16 FLOP/cycle to 1048576 FLOP/cycle, or 0"},
    {"bad_name.txt", 2, 8, "a name has lower-case letters, digits, '_' and '-' only"},
    {"below_band.txt", 3, 19, "tensor_clock_hz = 1410 kHz is out of band; allowed: 100 MHz to 10 GHz"},
    {"binary.txt", 1, 1, "byte 0x7F is not text; a profile is UTF-8 without control characters"},
    {"carriage_returns.txt", 3, 35, "byte 0x0D is not text; a profile is UTF-8 without control characters"},
    {"comma.txt", 3, 22, "unexpected ',' in a number; expected digits, a blank and the unit"},
    {"control.txt", 3, 19, "byte 0x0B is not text; a profile is UTF-8 without control characters"},
    {"empty.txt", 1, 1, "the file has no keys; a profile has lines such as 'sm_count = 132 SMs per chip | SOURCE'"},
    {"empty_source.txt", 3, 38, "smem_bytes_per_sm has no source; every value says where it comes from"},
    {"exponent.txt", 3, 20, "unexpected 'e' in a number; expected digits, a blank and the unit"},
    {"garbage.txt", 3, 33, "wrong scope for smem_bytes_per_sm; expected 'per SM'"},
    {"garbage_behind_scope.txt", 3, 36, "expected '| SOURCE' after the scope"},
    {"given_twice.txt", 5, 1, "sm_count is given twice; first on line 3"},
    {"glued_unit.txt", 3, 24, "unexpected 'K' in a number; expected digits, a blank and the unit"},
    {"infinite.txt", 3, 22, "'inf' is not a number; expected digits or 'unlimited'"},
    {"long_description.txt", 3, 15, "description is longer than 127 bytes"},
    {"long_name.txt", 1, 8, "name is longer than 31 bytes"},
    {"nan.txt", 3, 12, "'NaN' is not a number; expected digits"},
    {"negative.txt", 3, 12, "sm_count cannot be negative"},
    {"no_equals.txt", 3, 10, "expected '=' after sm_count"},
    {"no_key.txt", 3, 3, "expected a key, as in 'sm_count = 132 SMs per chip | SOURCE', or a comment with '#'"},
    {"no_name.txt", 2, 9, "name has no value"},
    {"no_scope.txt", 3, 29, "expected 'per SM' after the unit"},
    {"no_source.txt", 3, 35, "expected '| SOURCE' after the scope"},
    {"no_unit.txt", 3, 28, "smem_bytes_per_sm has no unit; expected B, kB, KiB, MB, MiB, GB, GiB, TB or TiB"},
    {"no_value.txt", 3, 11, "sm_count has no value; expected a number"},
    {"not_utf8.txt", 3, 34, "byte 0xE9 is not text; a profile is UTF-8 without control characters"},
    {"not_whole.txt", 3, 21, "smem_bytes_per_sm is not a whole number of B"},
    {"nul.txt", 3, 14, "byte 0x00 is not text; a profile is UTF-8 without control characters"},
    {"only_comments.txt", 3, 7, "the file has no keys; a profile has lines such as 'sm_count = 132 SMs per chip | SOURCE'"},
    {"overflow.txt", 3, 21, "l2_bytes_per_chip does not fit in 64 bits"},
    {"overflow_unit.txt", 3, 21, "l2_bytes_per_chip does not fit in 64 bits"},
    {"overlong.txt", 3, 201, "the line is longer than 200 bytes"},
    {"overlong_utf8.txt", 3, 200, "the line is longer than 200 bytes"},
    {"tab.txt", 3, 16, "wrong unit 'cores' for sm_count; expected SMs"},
    {"truncated.txt", 3, 35,
     "missing key tensor_clock_hz (and 43 more); expected 'tensor_clock_hz = NUMBER Hz per chip | SOURCE'"},
    {"two_points.txt", 3, 22, "unexpected '.' in a number; expected digits, a blank and the unit"},
    {"unknown_key.txt", 3, 1, "unknown key 'sm_cuont'; did you mean 'sm_count'?"},
    {"unknown_key_far.txt", 3, 1, "unknown key 'frequency'; keys are described in hw_profiles/README.md"},
    {"unlimited.txt", 3, 12, "sm_count cannot be unlimited"},
    {"utf8_column.txt", 3, 24, "wrong unit 'Mébi' for l2_bytes_per_chip; expected B, kB, KiB, MB, MiB, GB, GiB, TB or TiB"},
    {"utf8_key.txt", 3, 1, "unknown key 'größe'; keys are described in hw_profiles/README.md"},
    {"utf8_number.txt", 3, 15, "unexpected 'µ' in a number; expected digits, a blank and the unit"},
    {"wrong_scope.txt", 3, 33, "wrong scope for smem_bytes_per_sm; expected 'per SM'"},
    {"wrong_unit.txt", 3, 38, "wrong unit 'GHz' for hbm_bytes_per_second_per_chip; expected B/s, MB/s, GB/s or TB/s"},
    {"zero.txt", 3, 12, "sm_count = 0 SMs is out of band; allowed: 1 SMs to 1024 SMs"},
};

/* The first line must be the message, the second the source line (control bytes shown as '?'), the third a caret under the
 * column. */
static void check_message(Test *t, const char *text, const char *label, unsigned line, unsigned column, const char *message)
{
    char first[512];
    snprintf(first, sizeof first, "%s:%u:%u: %s\n    ", label, line, column, message);
    const bool same = strncmp(text, first, strlen(first)) == 0;
    if (!same) printf("want %s\n got %s\n", first, text);
    check_true(t, same, label);

    const char *indent = strrchr(text, '\n');
    const size_t length = indent != NULL ? strlen(indent + 1) : 0;
    check_u64(t, length, 4 + column, "length of the caret's line = 4 + column");
    check_true(t, length > 0 && indent[length] == '^' && strspn(indent + 1, " \t") == length - 1, "a caret behind blanks");
}

static void test_bad_files(Test *t)
{
    for (size_t k = 0; k < sizeof bad_files / sizeof bad_files[0]; k++) {
        char path[1024];
        Text text = {.length = 0};
        snprintf(path, sizeof path, "%s/profiles/%s", TEST_DATA, bad_files[k].file);
        check_true(t, text_read(&text, path), path);
        Profile profile = {.sm_count = 7};
        Status status = {0};
        check_true(t, !profile_parse(text.bytes, text.length, bad_files[k].file, &profile, &status), path);
        check_i64(t, status.code, STATUS_USAGE, path);
        check_u64(t, profile.sm_count, 7, "a failed parse leaves *out alone");
        check_message(t, status.text, bad_files[k].file, bad_files[k].line, bad_files[k].column, bad_files[k].message);
    }
}

/* The three lines as they are printed. */
static void test_whole_message(Test *t)
{
    const char text[] = "name = tabs\nl2_bytes_per_chip\t= 40 Mébi per chip | test\n";
    Profile profile;
    Status status = {0};
    check_true(t, !profile_parse(text, sizeof text - 1, "chip.txt", &profile, &status), "wrong unit");
    check_text(t, status.text,
               "chip.txt:2:24: wrong unit 'Mébi' for l2_bytes_per_chip; expected B, kB, KiB, MB, MiB, GB, GiB, TB or TiB\n"
               "    l2_bytes_per_chip\t= 40 Mébi per chip | test\n"
               "                     \t     ^",
               "the whole message");
}

/* Values that are right alone and wrong together, on h100 and b200. */
static const struct {
    const char *chip, *key, *value, *message;
} contradictions[] = {
    {"h100", "tensor_clock_hz", "1981 MHz per chip", "tensor_clock_hz = 1981 MHz is more than boost_clock_hz = 1980 MHz"},
    {"h100", "full_tensor_clock_hz", "1831 MHz per chip", "full_tensor_clock_hz = 1831 MHz is more than tensor_clock_hz = 1830 MHz"},
    {"h100", "hbm_sustained_bytes_per_second_per_chip", "3351 GB/s per chip",
     "hbm_sustained_bytes_per_second_per_chip = 3351 GB/s is more than hbm_bytes_per_second_per_chip = 3350 GB/s"},
    {"h100", "hbm_sustained_bytes_per_second_per_chip", "unlimited B/s per chip",
     "hbm_sustained_bytes_per_second_per_chip = unlimited B/s is more than hbm_bytes_per_second_per_chip = 3350 GB/s"},
    {"h100", "hbm_bytes_per_second_per_sm", "4 TB/s per SM",
     "hbm_bytes_per_second_per_sm = 4 TB/s is more than hbm_sustained_bytes_per_second_per_chip = 3118 GB/s"},
    {"h100", "l2_bytes_per_second_per_sm", "8163 GB/s per SM",
     "l2_bytes_per_second_per_sm = 8163 GB/s is more than l2_bytes_per_second_per_chip = 8162 GB/s"},
    {"h100", "smem_latency_cycles", "292 cycles per access",
     "smem_latency_cycles = 292 cycles is more than l2_latency_cycles = 291 cycles"},
    {"h100", "l2_latency_cycles", "701 cycles per access",
     "l2_latency_cycles = 701 cycles is more than hbm_latency_cycles = 700 cycles"},
    {"h100", "smem_bytes_per_sm", "257 KiB per SM",
     "smem_bytes_per_sm = 257 KiB is more than l1_and_smem_bytes_per_sm = 256 KiB"},
    {"h100", "smem_bytes_per_block", "229 KiB per block",
     "smem_bytes_per_block = 229 KiB is more than smem_bytes_per_sm = 228 KiB"},
    {"h100", "registers_per_sm", "1024 registers per SM", ""},
    {"h100", "max_threads_per_block", "2049 threads per block",
     "max_threads_per_block = 2049 threads is more than max_threads_per_sm = 2048 threads"},
    {"h100", "peak_bf16_flops_per_chip", "979 TFLOP/s per chip",
     "peak_bf16_flops_per_chip must be sm_count x best BF16 rate x tensor clock within 1 %, which is 132 x 4096 x 1830000000 = "
     "989429760000000 FLOP/s"},
    {"h100", "peak_bf16_flops_per_chip", "980 TFLOP/s per chip", ""},
    {"h100", "peak_bf16_flops_per_chip", "999 TFLOP/s per chip", ""},
    {"h100", "fp8_flops_per_cycle_per_sm", "4096 FLOP/cycle per SM",
     "fp8_flops_per_cycle_per_sm must be twice the best BF16 rate, 8192 FLOP/cycle, or 0 for none"},
    {"h100", "fp8_flops_per_cycle_per_sm", "0 FLOP/cycle per SM", ""},
    {"h100", "tmem_bytes_per_sm", "256 KiB per SM",
     "tmem_bytes_per_sm must be 0 exactly if tcgen05_bf16_flops_per_cycle_per_sm is, which is 0 FLOP/cycle"},
    {"b200", "tmem_bytes_per_sm", "0 B per SM",
     "tmem_bytes_per_sm must be 0 exactly if tcgen05_bf16_flops_per_cycle_per_sm is, which is 8192 FLOP/cycle"},
};

static void test_contradictions(Test *t)
{
    for (size_t k = 0; k < sizeof contradictions / sizeof contradictions[0]; k++) {
        const Text text = read_profile_text(t, contradictions[k].chip);
        char line[160];
        const int before = snprintf(line, sizeof line, "%s = ", contradictions[k].key);
        snprintf(line, sizeof line, "%s = %s | test\n", contradictions[k].key, contradictions[k].value);
        const Text edited = with_line(&text, contradictions[k].key, line);
        size_t start = 0, end = 0;
        check_true(t, find_line(&edited, contradictions[k].key, &start, &end), line);
        unsigned number = 1;
        for (size_t i = 0; i < start; i++) number += edited.bytes[i] == '\n';
        Profile profile;
        Status status;
        const bool ok = parse(&edited, &profile, &status), allowed = contradictions[k].message[0] == '\0';
        check_true(t, ok == allowed, line);
        if (!allowed) check_message(t, status.text, "chip.txt", number, (unsigned)before + 1, contradictions[k].message);
    }
}

/* Each key left out, then given twice. */
static void test_missing_and_twice(Test *t)
{
    const Text text = read_profile_text(t, "h200");
    for (size_t k = 0; k < profile_key_count() + 2; k++) {
        const char *key = k < profile_key_count() ? profile_key(k)->name : k == profile_key_count() ? "name" : "description";
        char want[256];
        Profile profile;
        Status status;
        Text edited = with_line(&text, key, "");
        snprintf(want, sizeof want, ": missing key %s; expected '%s = ", key, key);
        check_true(t, !parse(&edited, &profile, &status), key);
        check_true(t, strstr(status.text, want) != NULL, status.text);

        size_t start = 0, end = 0;
        check_true(t, find_line(&text, key, &start, &end), key);
        unsigned number = 1;
        for (size_t i = 0; i < start; i++) number += text.bytes[i] == '\n';
        edited = text;
        text_append(&edited, text.bytes + start, end - start);
        snprintf(want, sizeof want, ":1: %s is given twice; first on line %u\n", key, number);
        check_true(t, !parse(&edited, &profile, &status), key);
        check_true(t, strstr(status.text, want) != NULL, status.text);
    }
}

/* Every key refuses a value just outside its band, a foreign unit and a foreign scope. */
static void test_every_key(Test *t)
{
    const Text text = read_profile_text(t, "h200");
    for (size_t k = 0; k < profile_key_count(); k++) {
        const ProfileKey *key = profile_key(k);
        char lines[4][160];
        snprintf(lines[0], sizeof lines[0], "%s = %" PRIu64 " %s per %s | test\n", key->name, key->maximum + 1, key->unit,
                 key->scope);
        snprintf(lines[1], sizeof lines[1], "%s = %" PRIu64 " furlongs per %s | test\n", key->name, key->minimum, key->scope);
        snprintf(lines[2], sizeof lines[2], "%s = %" PRIu64 " %s per furlong | test\n", key->name, key->minimum, key->unit);
        snprintf(lines[3], sizeof lines[3], "%s = %s %s per %s | test\n", key->name, key->may_be_unlimited ? "0.5" : "unlimited",
                 key->unit, key->scope);
        for (size_t i = 0; i < 4; i++) {
            const Text edited = with_line(&text, key->name, lines[i]);
            Profile profile;
            Status status;
            check_true(t, !parse(&edited, &profile, &status) && strstr(status.text, key->name) != NULL, lines[i]);
        }
    }
}

/* ---- any text at all ------------------------------------------------------------------------------------------------------- */

static uint32_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

/* A good text with up to eight bytes changed, and cut off now and then: either a profile or one message, and never a crash (run
 * it under the sanitizers). Each text is a block of its own, so that they see a byte read behind its end. */
static void test_mutations(Test *t)
{
    const Text good = read_profile_text(t, "h100");
    uint64_t state = 2022, accepted = 0;
    for (int k = 0; k < 20000; k++) {
        const size_t length = next_random(&state) % 8 == 0 ? next_random(&state) % (good.length + 1) : good.length;
        char *text = malloc(length > 0 ? length : 1);
        if (text == NULL) return;
        memcpy(text, good.bytes, length);
        for (uint32_t changes = next_random(&state) % 9; changes > 0 && length > 0; changes--) {
            const size_t at = next_random(&state) % length;
            const uint32_t kind = next_random(&state) % 3;
            text[at] = kind == 0   ? (char)(next_random(&state) & 0xFF)
                       : kind == 1 ? "\n|=# .0-9\t\0"[next_random(&state) % 11]
                                   : good.bytes[next_random(&state) % good.length];
        }
        Profile profile;
        Status status = {0};
        const bool ok = profile_parse(text, length, "chip.txt", &profile, &status);
        accepted += ok;
        const bool told = ok ? status_ok(&status) : status.code == STATUS_USAGE && strncmp(status.text, "chip.txt:", 9) == 0;
        check_true(t, told, "a mutated text is a profile, or one message says why not");
        free(text);
    }
    check_true(t, accepted > 1000 && accepted < 19000, "the mutations are neither all harmless nor all fatal");
}

/* ---- names and paths ------------------------------------------------------------------------------------------------------- */

static void check_load_error(Test *t, const char *directory, const char *name, StatusCode code, const char *message)
{
    Profile profile;
    Status status = {0};
    Alloc alloc = {0};
    check_true(t, !profile_load_from(directory, name, &alloc, &profile, &status), name);
    check_i64(t, status.code, code, name);
    check_true(t, strstr(status.text, message) != NULL, message);
    if (strstr(status.text, message) == NULL) printf("got %s\n", status.text);
    check_u64(t, alloc.live_bytes, 0, "memory after a failed load");
}

static void test_names(Test *t)
{
    static const char allowed[] = " (allowed: a100, b200, h100, h200, ideal_sm, unbounded, or the path of a profile file)";
    static const struct {
        const char *name, *message;
    } cases[] = {
        {"h10", "unknown hardware profile 'h10'; did you mean 'h100'?"},
        {"H100", "unknown hardware profile 'H100'; did you mean 'h100'?"},
        {"a1000", "unknown hardware profile 'a1000'; did you mean 'a100'?"},
        {"ideal-sm", "did you mean 'ideal_sm'?"},
        {"tpu", "unknown hardware profile 'tpu' (allowed"},
        {"", "unknown hardware profile '' (allowed"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        check_load_error(t, NULL, cases[k].name, STATUS_USAGE, cases[k].message);
        check_load_error(t, NULL, cases[k].name, STATUS_USAGE, allowed);
    }
}

static void test_paths(Test *t)
{
    char path[1024];
    check_load_error(t, NULL, "./no-such-profile.txt", STATUS_IO, "cannot open profile './no-such-profile.txt': ");
    check_load_error(t, NULL, TEST_DATA, STATUS_IO, "cannot "); /* a directory */
    check_load_error(t, NULL, TEST_DATA "/profiles/nan.txt", STATUS_USAGE, "nan.txt:3:12: 'NaN' is not a number");
    snprintf(path, sizeof path, "%s/../hw_profiles/b200.txt", TEST_DATA);
    Profile profile = {0};
    Status status = {0};
    Alloc alloc = {0};
    check_true(t, profile_load(path, &alloc, &profile, &status), status.text);
    check_text(t, profile.name, "b200", path);
    check_u64(t, alloc.live_bytes, 0, "memory after a load");

    Alloc none = {.fail_at = 1};
    check_true(t, !profile_load(path, &none, &profile, &status), "no memory");
    check_i64(t, status.code, STATUS_IO, "no memory");
}

/* A name is looked up in the directory first: a new chip is found there, a bad file is not passed over, what is not there is
 * built in. */
static void test_directory(Test *t)
{
    static const char name[] = "test_profile_chip", file_name[] = "test_profile_chip.txt";
    const Text text = read_profile_text(t, "h100");
    const Text edited =
        with_line(&text, "mufu_ops_per_cycle_per_sm", "mufu_ops_per_cycle_per_sm = 32 op/cycle per SM | as the B300\n");
    FILE *file = fopen(file_name, "wb");
    check_true(t, file != NULL && fwrite(edited.bytes, 1, edited.length, file) == edited.length,
               "writing test_profile_chip.txt here");
    if (file == NULL) return;
    fclose(file);
    Profile profile = {0};
    Status status = {0};
    Alloc alloc = {0};
    check_true(t, profile_load_from(".", name, &alloc, &profile, &status), status.text);
    check_u64(t, profile.mufu_ops_per_cycle_per_sm, 32, "the directory's profile");
    check_true(t, profile_load_from(".", "unbounded", &alloc, &profile, &status), status.text);
    check_text(t, profile.name, "unbounded", "not in the directory, so built in");
    check_load_error(t, TEST_DATA "/profiles/installed", "h100", STATUS_USAGE, "h100.txt:3:12: 'many' is not a number");
    check_load_error(t, NULL, name, STATUS_USAGE, "unknown hardware profile 'test_profile_chip'");
    check_load_error(t, "./no-such-directory", name, STATUS_USAGE, "unknown hardware profile 'test_profile_chip'");
    remove(file_name);

    char text_size[64 * 1024 + 2];
    memset(text_size, '#', sizeof text_size);
    file = fopen(file_name, "wb");
    check_true(t, file != NULL && fwrite(text_size, 1, sizeof text_size, file) == sizeof text_size, "writing a large file");
    if (file != NULL) fclose(file);
    check_load_error(t, ".", name, STATUS_USAGE, "larger than 65536 bytes: not a profile");
    remove(file_name);
}

static void test_installed_directory(Test *t)
{
    static const struct {
        const char *program, *start; /* NULL: cannot be told */
    } cases[] = {
        {"/opt/lab/bin/attn", "/opt/lab/bin/.."},
        {"build/bin/attn", "build/bin/.."},
        {"./attn", "./.."},
        {"/attn", "/.."},
        {"no-such-program-anywhere", NULL},
        {"", NULL},
    };
    char directory[512];
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const bool told = profile_installed_directory(cases[k].program, directory, sizeof directory);
        check_true(t, told == (cases[k].start != NULL), cases[k].program);
        if (!told || cases[k].start == NULL) continue;
        const size_t start = strlen(cases[k].start), end = strlen(directory);
        check_true(t, strncmp(directory, cases[k].start, start) == 0, directory);
        check_true(t, end > 20 && strcmp(directory + end - 20, "/attnlab/hw_profiles") == 0, directory);
    }
    check_true(t, !profile_installed_directory("/opt/lab/bin/attn", directory, 16), "a buffer that is too small");
}

int main(void)
{
    Test t = {0};
    test_pinned_values(&t);
    test_balance_points(&t);
    test_instructions(&t);
    test_builtin(&t);
    test_same_meaning(&t);
    test_write_and_read(&t);
    test_numbers(&t);
    test_bad_files(&t);
    test_whole_message(&t);
    test_contradictions(&t);
    test_missing_and_twice(&t);
    test_every_key(&t);
    test_mutations(&t);
    test_names(&t);
    test_paths(&t);
    test_directory(&t);
    test_installed_directory(&t);
    return test_end(&t, "test_profile");
}
