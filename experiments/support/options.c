/* options.c - see options.h. The option table, and a parser that treats defaults and the command line alike. */
#include "options.h"
#include "writers.h"

#include "sim/suggest.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the option table ---- */

typedef enum { KIND_FLAG, KIND_COUNT, KIND_LIST, KIND_REAL, KIND_CHOICE, KIND_WORD, KIND_WINDOW } Kind;

typedef struct {
    const char *name, *short_name;
    Kind kind;
    const char *argument;           /* NULL: a flag */
    const char *initial;            /* the default, as on the command line; NULL: none */
    const char *absent;             /* what leaving it out means, when there is no default */
    const char *meaning;
    size_t offset;                  /* of the member of Options (not for choices: set_choice) */
    uint64_t low, high;             /* KIND_COUNT, KIND_LIST: both ends allowed */
    double real_low, real_high;     /* KIND_REAL: both ends allowed */
    const char *const *choices;     /* KIND_CHOICE: NULL-terminated, in the order of the enum */
    const char *zero;               /* KIND_LIST: a word that is allowed too, and stands for 0 */
} OptionSpec;

static const char *const format_choices[] = {"text", "md", "csv", "json", NULL};
static const char *const mask_choices[] = {"none", "causal", "causal-top-left", NULL};
static const char *const dtype_choices[] = {"f64", "f32", "bf16", "fp16", "fp8", NULL};
static const char *const pass_choices[] = {"fwd", "bwd", NULL};
static const char *const mode_choices[] = {"numeric", "count", "time", NULL};
static const char *const l2_choices[] = {"none", "ideal", "simulated", NULL};
static const char *const quantise_choices[] = {"none", "tensor", "block", "row", NULL};
static const char *const rotate_choices[] = {"none", "qk", "qkv", NULL};
static const char *const prepass_choices[] = {"fused", "kernel", NULL};
static const char *const order_choices[] = {"grid", "lpt", NULL};
static const char *const packing_choices[] = {"one-query", "always", "never", NULL};
static const char *const merge_choices[] = {"sequential", "tree", NULL};

#define LIST "N[,N...]"
#define TWO_TO_40 (UINT64_C(1) << 40)
#define LARGEST 1.7976931348623157e308
#define BELOW_ONE 0x1.fffffffffffffp-1

static const OptionSpec specs[OPTION_COUNT] = {
    [OPTION_FORMAT] = {.name = "--format", .kind = KIND_CHOICE, .argument = "F", .initial = "text",
        .choices = format_choices, .meaning = "output format; else taken from the suffix of -o"},
    [OPTION_OUTPUT] = {.name = "--output", .short_name = "-o", .kind = KIND_WORD, .argument = "FILE", .absent = "standard output",
        .offset = offsetof(Options, output), .meaning = "where to write; .txt, .md, .csv and .json set the format"},
    [OPTION_CHECK] = {.name = "--check", .kind = KIND_FLAG,
        .offset = offsetof(Options, check), .meaning = "exit with 1 when a verdict is not the expected one"},
    [OPTION_HW] = {.name = "--hw", .kind = KIND_WORD, .argument = "NAME|FILE", .initial = "h100",
        .offset = offsetof(Options, hw), .meaning = "hardware profile"},
    [OPTION_SEED] = {.name = "--seed", .kind = KIND_COUNT, .argument = "N", .initial = "1",
        .offset = offsetof(Options, seed), .high = UINT64_MAX, .meaning = "seed of the random inputs"},
    [OPTION_HELP] = {.name = "--help", .short_name = "-h", .kind = KIND_FLAG,
        .offset = offsetof(Options, help), .meaning = "this text"},
    [OPTION_VERSION] = {.name = "--version", .kind = KIND_FLAG,
        .offset = offsetof(Options, version), .meaning = "name and version"},

    [OPTION_BATCH] = {.name = "--batch", .kind = KIND_LIST, .argument = LIST, .absent = "1",
        .offset = offsetof(Options, batch), .high = UINT64_C(1) << 32, .meaning = "sequences"},
    [OPTION_HEADS] = {.name = "--heads", .kind = KIND_LIST, .argument = LIST, .absent = "1",
        .offset = offsetof(Options, heads), .low = 1, .high = 65536, .meaning = "query heads"},
    [OPTION_KV_HEADS] = {.name = "--kv-heads", .kind = KIND_LIST, .argument = LIST, .absent = "as --heads",
        .offset = offsetof(Options, kv_heads), .low = 1, .high = 65536, .meaning = "key/value heads; must divide --heads"},
    [OPTION_SEQLEN] = {.name = "--seqlen", .kind = KIND_LIST, .argument = LIST, .absent = "the lecture's",
        .offset = offsetof(Options, seqlen), .high = TWO_TO_40, .meaning = "sequence length (of the queries)"},
    [OPTION_SEQLEN_K] = {.name = "--seqlen-k", .kind = KIND_LIST, .argument = LIST, .absent = "as --seqlen",
        .offset = offsetof(Options, seqlen_k), .high = TWO_TO_40, .meaning = "sequence length of the keys"},
    [OPTION_HEAD_DIM] = {.name = "--head-dim", .kind = KIND_LIST, .argument = LIST, .absent = "the lecture's",
        .offset = offsetof(Options, head_dim), .low = 1, .high = MAX_HEAD_DIM, .meaning = "elements per head, d"},
    [OPTION_BLOCK_Q] = {.name = "--block-q", .kind = KIND_LIST, .argument = LIST, .absent = "that of the real kernel",
        .offset = offsetof(Options, block_q), .low = 1, .high = 1048576, .meaning = "rows of a query block, Br"},
    [OPTION_BLOCK_K] = {.name = "--block-k", .kind = KIND_LIST, .argument = LIST, .absent = "that of the real kernel",
        .offset = offsetof(Options, block_k), .low = 1, .high = 1048576, .meaning = "rows of a key block, Bc"},
    [OPTION_SRAM] = {.name = "--sram", .kind = KIND_LIST, .argument = "BYTES[,BYTES...]", .absent = "blocks are not sized by M",
        .offset = offsetof(Options, sram), .low = 1, .high = TWO_TO_40,
        .meaning = "on-chip size M from which the paper's block sizes follow"},
    [OPTION_SPLITS] = {.name = "--splits", .kind = KIND_LIST, .argument = LIST, .absent = "auto",
        .offset = offsetof(Options, splits), .low = 1, .high = 65536, .zero = "auto",
        .meaning = "decode: parts into which the keys are split; auto: FlashAttention-2's rule"},

    [OPTION_MASK] = {.name = "--mask", .kind = KIND_CHOICE, .argument = "M", .initial = "none",
        .choices = mask_choices, .meaning = "which keys a query sees; causal aligns the last query with the last key"},
    [OPTION_CAUSAL] = {.name = "--causal", .kind = KIND_FLAG,
        .meaning = "short for --mask causal"},
    [OPTION_WINDOW] = {.name = "--window", .kind = KIND_WINDOW, .argument = "L,R", .initial = "-1,-1",
        .high = TWO_TO_40, .meaning = "keys seen to the left and right of the diagonal, inclusive; -1: no limit"},
    [OPTION_SCALE] = {.name = "--scale", .kind = KIND_REAL, .argument = "X", .absent = "1/sqrt(head dim)",
        .offset = offsetof(Options, scale), .real_low = -LARGEST, .real_high = LARGEST, .meaning = "factor of the scores"},
    [OPTION_DROPOUT] = {.name = "--dropout", .kind = KIND_REAL, .argument = "P", .initial = "0",
        .offset = offsetof(Options, dropout), .real_low = 0, .real_high = BELOW_ONE,
        .meaning = "probability of dropping an element of P"},
    [OPTION_DTYPE] = {.name = "--dtype", .kind = KIND_CHOICE, .argument = "T", .initial = "bf16",
        .choices = dtype_choices, .meaning = "element type of Q, K, V and O"},

    [OPTION_PASS] = {.name = "--pass", .kind = KIND_CHOICE, .argument = "P", .absent = "both",
        .choices = pass_choices, .meaning = "forward or backward"},
    [OPTION_MODE] = {.name = "--mode", .kind = KIND_CHOICE, .argument = "M", .initial = "count",
        .choices = mode_choices, .meaning = "compute, count only, or time"},
    [OPTION_L2] = {.name = "--l2", .kind = KIND_CHOICE, .argument = "L", .initial = "ideal",
        .choices = l2_choices, .meaning = "none: every load goes to HBM; ideal: each byte once per kernel; simulated: a cache of the chip's size"},
    [OPTION_ORDER] = {.name = "--order", .kind = KIND_CHOICE, .argument = "O", .initial = "grid",
        .choices = order_choices, .meaning = "launch order of the blocks; lpt: longest first"},
    [OPTION_THRESHOLD] = {.name = "--threshold", .kind = KIND_REAL, .argument = "T", .absent = "rescale at every key block",
        .offset = offsetof(Options, threshold), .real_low = 0, .real_high = 1e6,
        .meaning = "fa4: rescale only when the maximum grew by more than T (log2), in numeric mode"},
    [OPTION_RESCALE_ROWS] = {.name = "--rescale-rows", .kind = KIND_COUNT, .argument = "N", .initial = "32",
        .offset = offsetof(Options, rescale_rows), .low = 1, .high = 128,
        .meaning = "fa4 with --threshold: rows that decide together; 32: a warp, as shipped"},
    [OPTION_RESCALE_SHARE] = {.name = "--rescale-share", .kind = KIND_REAL, .argument = "X", .absent = "all",
        .offset = offsetof(Options, rescale_share), .real_low = 0, .real_high = 1,
        .meaning = "fa4: share of key blocks that rescale, in count and time mode"},
    [OPTION_POLY_SHARE] = {.name = "--poly-share", .kind = KIND_REAL, .argument = "X", .initial = "0",
        .offset = offsetof(Options, poly_share), .real_low = 0, .real_high = 1,
        .meaning = "fa4: share of exponentials computed by polynomial, in sixteenths"},
    [OPTION_QUANTISE] = {.name = "--quantise", .kind = KIND_CHOICE, .argument = "G", .initial = "tensor",
        .choices = quantise_choices, .meaning = "fa3 --dtype fp8: what shares a scale; none: values are rounded as they are"},
    [OPTION_ROTATE] = {.name = "--rotate", .kind = KIND_CHOICE, .argument = "R", .initial = "none",
        .choices = rotate_choices, .meaning = "fa3 --dtype fp8: operands rotated by a random-sign Hadamard matrix"},
    [OPTION_PREPASS] = {.name = "--prepass", .kind = KIND_CHOICE, .argument = "P", .initial = "kernel",
        .choices = prepass_choices, .meaning = "fa3 --dtype fp8: rotating and rounding as kernels of their own, or part of what came before"},
    [OPTION_STUDY] = {.name = "--study", .kind = KIND_FLAG,
        .offset = offsetof(Options, study), .meaning = "many seeds and long sequences: slow, but the spreads are measured"},
    [OPTION_PACKING] = {.name = "--packing", .kind = KIND_CHOICE, .argument = "P", .initial = "one-query",
        .choices = packing_choices, .meaning = "decode: when query heads of one K/V head share a tile; one-query is FlashAttention-2's, always FlashAttention-3's"},
    [OPTION_MERGE] = {.name = "--merge", .kind = KIND_CHOICE, .argument = "M", .initial = "sequential",
        .choices = merge_choices, .meaning = "decode: order in which the parts are merged"},
    [OPTION_DETERMINISTIC] = {.name = "--deterministic", .kind = KIND_FLAG,
        .offset = offsetof(Options, deterministic), .meaning = "accumulate dQ in a fixed order"},
    [OPTION_GANTT] = {.name = "--gantt", .kind = KIND_FLAG,
        .offset = offsetof(Options, gantt), .meaning = "draw the timeline in characters"},
    [OPTION_TRACE] = {.name = "--trace", .kind = KIND_WORD, .argument = "FILE", .absent = "none",
        .offset = offsetof(Options, trace), .meaning = "write the timeline as trace events (Perfetto)"},
    [OPTION_SEEDS] = {.name = "--seeds", .kind = KIND_COUNT, .argument = "N", .initial = "1",
        .offset = offsetof(Options, seeds), .low = 1, .high = 1000, .meaning = "seeds from --seed on, of which mean and spread are shown"},
    [OPTION_SKIP_TIMED] = {.name = "--skip-timed", .kind = KIND_FLAG,
        .offset = offsetof(Options, skip_timed), .meaning = "leave out programs that measure wall-clock time"},
    [OPTION_MAP] = {.name = "--map", .kind = KIND_FLAG,
        .offset = offsetof(Options, map), .meaning = "print where everything in the lecture is found; runs nothing"},

    [OPTION_COUNTERS] = {.name = "--counters", .kind = KIND_WORD, .argument = "NAME|FILE", .absent = "h200_counters",
        .offset = offsetof(Options, counters), .meaning = "hardware counters: h200_counters, _more, _decode, or a CSV file with their columns"},
    [OPTION_TIMINGS] = {.name = "--timings", .kind = KIND_WORD, .argument = "NAME|FILE", .absent = "h200_timings",
        .offset = offsetof(Options, timings), .meaning = "wall times: a CSV file with the columns of h200_timings.csv"},
    [OPTION_KERNEL] = {.name = "--kernel", .kind = KIND_WORD, .argument = "NAME", .absent = "all",
        .offset = offsetof(Options, kernel), .meaning = "only this kernel of the files: flash, cudnn, std_qk, ..."},
    [OPTION_COUNTER] = {.name = "--counter", .kind = KIND_WORD, .argument = "NAME", .absent = "all",
        .offset = offsetof(Options, counter), .meaning = "only this counter: a column of the counters' file"},
    [OPTION_SUMMARY] = {.name = "--summary", .kind = KIND_FLAG,
        .offset = offsetof(Options, summary), .meaning = "only the errors by kernel and counter, and what is behind them"},
};

static bool is_common(OptionId id) { return id <= OPTION_VERSION; }

const char *option_name(OptionId id) { return specs[id].name; }
const char *option_short_name(OptionId id) { return specs[id].short_name; }
const char *option_argument(OptionId id) { return specs[id].argument; }
const char *option_meaning(OptionId id) { return specs[id].meaning; }
const char *option_when_absent(OptionId id) { return specs[id].initial != NULL ? specs[id].initial : specs[id].absent; }

/* "none, causal or causal-top-left" */
static void list_choices(const char *const *choices, char *buffer, size_t size)
{
    size_t used = 0;
    buffer[0] = '\0';
    for (size_t i = 0; choices[i] != NULL && used < size; i++) {
        const char *separator = i == 0 ? "" : choices[i + 1] == NULL ? " or " : ", ";
        used += (size_t)snprintf(buffer + used, size - used, "%s%s", separator, choices[i]);
    }
}

const char *option_range(OptionId id, char buffer[OPTION_RANGE_SIZE])
{
    const OptionSpec *spec = &specs[id];
    buffer[0] = '\0';
    switch (spec->kind) {
    case KIND_FLAG: break;
    case KIND_COUNT:
    case KIND_LIST:
        snprintf(buffer, OPTION_RANGE_SIZE, "%s%san integer from %" PRIu64 " to %" PRIu64, spec->zero != NULL ? spec->zero : "",
                 spec->zero != NULL ? " or " : "", spec->low, spec->high);
        break;
    case KIND_REAL:
        if (spec->real_high == LARGEST) snprintf(buffer, OPTION_RANGE_SIZE, "a finite number");
        else if (spec->real_high == BELOW_ONE) snprintf(buffer, OPTION_RANGE_SIZE, "a number from %g to below 1", spec->real_low);
        else snprintf(buffer, OPTION_RANGE_SIZE, "a number from %g to %g", spec->real_low, spec->real_high);
        break;
    case KIND_CHOICE: list_choices(spec->choices, buffer, OPTION_RANGE_SIZE); break;
    case KIND_WORD: snprintf(buffer, OPTION_RANGE_SIZE, "a name"); break;
    case KIND_WINDOW:
        snprintf(buffer, OPTION_RANGE_SIZE, "two integers L,R from -1 (no limit) to %" PRIu64, spec->high);
        break;
    }
    return buffer;
}

const char *option_choice(OptionId id, int value)
{
    if (id == OPTION_DTYPE) {
        for (size_t i = 0; dtype_choices[i] != NULL; i++) {
            ElementType type;
            if (element_from_name(dtype_choices[i], &type) && (int)type == value) return dtype_choices[i];
        }
        return element_name((ElementType)value);
    }
    return specs[id].choices[value];
}

/* ---- values ---- */

/* At most 60 bytes of a word from the command line, control characters replaced, so that an error stays one line. */
enum { QUOTE_SIZE = 64 };
static const char *quote(const char *word, size_t length, char buffer[QUOTE_SIZE])
{
    const size_t kept = length < QUOTE_SIZE - 4 ? length : QUOTE_SIZE - 4;
    for (size_t i = 0; i < kept; i++) buffer[i] = (unsigned char)word[i] < 0x20 || word[i] == 0x7F ? '?' : word[i];
    strcpy(buffer + kept, kept < length ? "..." : "");
    return buffer;
}

static bool bad_value(OptionId id, const char *value, size_t length, Status *status)
{
    char range[OPTION_RANGE_SIZE], quoted[QUOTE_SIZE];
    quote(value, length, quoted);
    option_range(id, range);
    const char *nearest = NULL;
    size_t count = 0;
    if (specs[id].kind == KIND_CHOICE) {
        while (specs[id].choices[count] != NULL) count++;
        nearest = suggest_nearest(quoted, specs[id].choices, count);
    }
    if (nearest != NULL)
        return status_fail(status, STATUS_USAGE, "%s: '%s' is not allowed; expected %s; did you mean '%s'?", specs[id].name,
                           quoted, range, nearest);
    return status_fail(status, STATUS_USAGE, "%s: '%s' is not allowed; expected %s", specs[id].name, quoted, range);
}

/* Digits and an optional k or m; no sign, no space; false when malformed or past 64 bits. */
static bool read_count(const char *text, size_t length, uint64_t *value)
{
    uint64_t unit = 1, sum = 0;
    if (length > 0 && (text[length - 1] == 'k' || text[length - 1] == 'K')) unit = 1024;
    if (length > 0 && (text[length - 1] == 'm' || text[length - 1] == 'M')) unit = 1024 * 1024;
    const size_t digits = unit > 1 ? length - 1 : length;
    if (digits == 0) return false;
    for (size_t i = 0; i < digits; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        const uint64_t digit = (uint64_t)(text[i] - '0');
        if (sum > (UINT64_MAX - digit) / 10) return false;
        sum = sum * 10 + digit;
    }
    if (sum > UINT64_MAX / unit) return false;
    *value = sum * unit;
    return true;
}

static bool read_count_in_range(OptionId id, const char *text, size_t length, uint64_t *value, Status *status)
{
    if (read_count(text, length, value) && *value >= specs[id].low && *value <= specs[id].high) return true;
    return bad_value(id, text, length, status);
}

/* One item of a list. */
static bool read_item(OptionId id, const char *text, size_t length, uint64_t *value, Status *status)
{
    const char *zero = specs[id].zero;
    if (zero == NULL || strlen(zero) != length || memcmp(zero, text, length) != 0) return read_count_in_range(id, text, length, value, status);
    *value = 0;
    return true;
}

static bool read_list(OptionId id, const char *text, OptionList *list, Status *status)
{
    list->count = 0;
    for (const char *item = text;;) {
        const size_t length = strcspn(item, ",");
        if (list->count == OPTION_LIST_MAX)
            return status_fail(status, STATUS_USAGE, "%s: more than %d values in the list", specs[id].name, OPTION_LIST_MAX);
        if (!read_item(id, item, length, &list->values[list->count], status)) return false;
        list->count++;
        if (item[length] == '\0') return true;
        item += length + 1;
    }
}

/* [sign] digits [. digits] [e [sign] digits]: what strtod reads without hexadecimal, names and spaces. */
static bool is_plain_real(const char *text)
{
    const char *at = text + (*text == '-' || *text == '+');
    const size_t whole = strspn(at, "0123456789");
    at += whole;
    size_t fraction = 0;
    if (*at == '.') {
        fraction = strspn(at + 1, "0123456789");
        at += 1 + fraction;
    }
    if (whole + fraction == 0) return false;
    if (*at == 'e' || *at == 'E') {
        at += 1 + (at[1] == '-' || at[1] == '+');
        const size_t exponent = strspn(at, "0123456789");
        if (exponent == 0) return false;
        at += exponent;
    }
    return *at == '\0';
}

static bool read_real(OptionId id, const char *text, double *value, Status *status)
{
    if (!is_plain_real(text)) return bad_value(id, text, strlen(text), status);
    const double real = strtod(text, NULL);
    if (!(real >= specs[id].real_low && real <= specs[id].real_high)) return bad_value(id, text, strlen(text), status);
    *value = real;
    return true;
}

static bool read_window_side(const char *text, size_t length, int64_t *side)
{
    uint64_t count = 0;
    if (length == 2 && text[0] == '-' && text[1] == '1') {
        *side = -1;
        return true;
    }
    if (!read_count(text, length, &count) || count > specs[OPTION_WINDOW].high) return false;
    *side = (int64_t)count;
    return true;
}

static bool read_window(const char *text, Options *options, Status *status)
{
    const size_t left = strcspn(text, ",");
    int64_t sides[2];
    const bool good = text[left] == ',' && read_window_side(text, left, &sides[0]) &&
                      read_window_side(text + left + 1, strlen(text + left + 1), &sides[1]);
    if (!good) return bad_value(OPTION_WINDOW, text, strlen(text), status);
    options->window_left = sides[0];
    options->window_right = sides[1];
    return true;
}

static bool set_choice(OptionId id, const char *text, Options *options, Status *status)
{
    int chosen = 0;
    while (specs[id].choices[chosen] != NULL && strcmp(specs[id].choices[chosen], text) != 0) chosen++;
    if (specs[id].choices[chosen] == NULL) return bad_value(id, text, strlen(text), status);
    switch (id) {
    case OPTION_FORMAT: options->format = (Format)chosen; break;
    case OPTION_MASK: options->mask = (MaskKind)chosen; break;
    case OPTION_PASS: options->pass = (OptionPass)chosen; break;
    case OPTION_MODE: options->mode = (OptionMode)chosen; break;
    case OPTION_L2: options->l2 = (L2Model)chosen; break;
    case OPTION_ORDER: options->order = (OptionOrder)chosen; break;
    case OPTION_QUANTISE: options->quantise = (ScaleGranularity)chosen; break;
    case OPTION_ROTATE: options->rotate = (Rotation)chosen; break;
    case OPTION_PREPASS: options->prepass = (OptionPrepass)chosen; break;
    case OPTION_PACKING: options->packing = (QueryPacking)chosen; break;
    case OPTION_MERGE: options->merge = (MergeOrder)chosen; break;
    case OPTION_DTYPE: return element_from_name(text, &options->dtype);
    default: return status_fail(status, STATUS_USAGE, "%s: not a choice", specs[id].name);
    }
    return true;
}

/* One option with its value (NULL for a flag), from a default or from the command line. */
static bool set_option(OptionId id, const char *text, Options *options, Status *status)
{
    void *member = (char *)options + specs[id].offset;
    switch (specs[id].kind) {
    case KIND_FLAG:
        if (id == OPTION_CAUSAL) options->mask = MASK_CAUSAL;
        else *(bool *)member = true;
        return true;
    case KIND_COUNT: return read_count_in_range(id, text, strlen(text), member, status);
    case KIND_LIST: return read_list(id, text, member, status);
    case KIND_REAL: return read_real(id, text, member, status);
    case KIND_CHOICE: return set_choice(id, text, options, status);
    case KIND_WINDOW: return read_window(text, options, status);
    case KIND_WORD:
        if (*text == '\0') return bad_value(id, text, 0, status);
        *(const char **)member = text;
        return true;
    }
    return false;
}

static bool set_defaults(const ProgramSpec *program, Options *options, Status *status)
{
    *options = (Options){0};
    for (int id = 0; id < OPTION_COUNT; id++)
        if (specs[id].initial != NULL && !set_option((OptionId)id, specs[id].initial, options, status)) return false;
    for (size_t i = 0; i < program->option_count; i++) {
        const ProgramOption *option = &program->options[i];
        if (option->default_value != NULL && !set_option(option->id, option->default_value, options, status)) return false;
    }
    return true;
}

/* ---- names ---- */

bool option_is_taken(const ProgramSpec *program, OptionId id)
{
    if (is_common(id)) return true;
    for (size_t i = 0; i < program->option_count; i++)
        if (program->options[i].id == id || (id == OPTION_CAUSAL && program->options[i].id == OPTION_MASK)) return true;
    return false;
}

static bool unknown_option(const ProgramSpec *program, const char *word, size_t length, Status *status)
{
    const char *names[OPTION_COUNT];
    char quoted[QUOTE_SIZE];
    for (int id = 0; id < OPTION_COUNT; id++) names[id] = option_is_taken(program, (OptionId)id) ? specs[id].name : NULL;
    const char *nearest = suggest_nearest(quote(word, length, quoted), names, OPTION_COUNT);
    if (nearest != NULL) return status_fail(status, STATUS_USAGE, "unknown option '%s'; did you mean '%s'?", quoted, nearest);
    return status_fail(status, STATUS_USAGE, "unknown option '%s'; --help lists those of %s", quoted, program->name);
}

static bool find_option(const ProgramSpec *program, const char *word, size_t length, OptionId *found, Status *status)
{
    for (int id = 0; id < OPTION_COUNT; id++) {
        const char *const names[] = {specs[id].name, specs[id].short_name};
        for (size_t i = 0; i < 2; i++) {
            if (names[i] == NULL || strlen(names[i]) != length || memcmp(names[i], word, length) != 0) continue;
            *found = (OptionId)id;
            if (option_is_taken(program, *found)) return true;
            return status_fail(status, STATUS_USAGE, "%s is not an option of %s; --help lists them", specs[id].name,
                               program->name);
        }
    }
    return unknown_option(program, word, length, status);
}

static bool set_operand(const ProgramSpec *program, const char *word, Options *options, Status *status)
{
    char quoted[QUOTE_SIZE], choices[400];
    quote(word, strlen(word), quoted);
    if (program->operand == NULL || options->operand != NULL)
        return status_fail(status, STATUS_USAGE, "unexpected argument '%s'; see --help", quoted);
    size_t count = 0;
    for (; program->operand_choices[count] != NULL; count++) {
        if (strcmp(program->operand_choices[count], word) != 0) continue;
        options->operand = program->operand_choices[count];
        return true;
    }
    const char *nearest = suggest_nearest(word, program->operand_choices, count);
    if (nearest != NULL)
        return status_fail(status, STATUS_USAGE, "unknown %s '%s'; did you mean '%s'?", program->operand, quoted, nearest);
    list_choices(program->operand_choices, choices, sizeof choices);
    return status_fail(status, STATUS_USAGE, "unknown %s '%s'; expected %s", program->operand, quoted, choices);
}

/* ---- checks across options ---- */

/* A file name decides the format: .txt, .md, .csv, .json; no suffix is text; another one needs --format. */
static bool infer_format(const ProgramSpec *program, Options *options, Status *status)
{
    if (options->output == NULL || options->given[OPTION_FORMAT] || program->output_is_directory) return true;
    const char *base = options->output;
    for (const char *c = options->output; *c != '\0'; c++)
        if (*c == '/' || *c == '\\') base = c + 1;
    const char *dot = strrchr(base, '.');
    if (dot == NULL) return true;
    for (int format = 0; format < FORMAT_COUNT; format++) {
        if (strcmp(dot + 1, format_suffix((Format)format)) != 0) continue;
        options->format = (Format)format;
        return true;
    }
    char quoted[QUOTE_SIZE];
    return status_fail(status, STATUS_USAGE,
                       "-o: the suffix '%s' names no format; expected .txt, .md, .csv or .json, or --format",
                       quote(dot, strlen(dot), quoted));
}

static bool heads_are_grouped(const Options *options, Status *status)
{
    const OptionList one = {.values = {1}, .count = 1}, *heads = options->heads.count > 0 ? &options->heads : &one;
    for (size_t i = 0; i < options->kv_heads.count; i++) {
        for (size_t j = 0; j < heads->count; j++) {
            const uint64_t kv = options->kv_heads.values[i], h = heads->values[j];
            if (h % kv != 0)
                return status_fail(status, STATUS_USAGE, "--kv-heads: %" PRIu64 " does not divide --heads %" PRIu64
                                   "; expected a divisor of it, from 1 to %" PRIu64, kv, h, h);
        }
    }
    return true;
}

/* ---- sweeps ---- */

enum { AXES = 10, POINTS_MAX = 4096 };

static void list_axes(const Options *options, const OptionList *axes[AXES])
{
    const OptionList *const lists[AXES] = {&options->batch,  &options->heads,    &options->kv_heads, &options->seqlen,
                                           &options->seqlen_k, &options->head_dim, &options->block_q,  &options->block_k,
                                           &options->sram,   &options->splits};
    memcpy(axes, lists, sizeof lists);
}

size_t options_point_count(const Options *options)
{
    const OptionList *axes[AXES];
    size_t points = 1;                      /* at most 64^10 = 2^60 */
    list_axes(options, axes);
    for (size_t i = 0; i < AXES; i++) points *= axes[i]->count > 0 ? axes[i]->count : 1;
    return points;
}

OptionPoint options_point(const Options *options, size_t index)
{
    const OptionList *axes[AXES];
    uint64_t value[AXES];
    list_axes(options, axes);
    for (size_t i = AXES; i-- > 0;) {
        const size_t count = axes[i]->count > 0 ? axes[i]->count : 1;
        value[i] = axes[i]->count > 0 ? axes[i]->values[index % count] : 0;
        index /= count;
    }
    OptionPoint point = {value[0], value[1], value[2], value[3], value[4], value[5], value[6], value[7], value[8], value[9]};
    if (options->batch.count == 0) point.batch = 1;
    if (options->heads.count == 0) point.heads = 1;
    if (options->kv_heads.count == 0) point.kv_heads = point.heads;
    if (options->seqlen_k.count == 0) point.seqlen_k = point.seqlen;
    return point;
}

/* ---- the command line ---- */

/* argv[*at] is an option; takes its value from after '=' or from the next argument, which *at moves to. */
static bool parse_option(const ProgramSpec *program, int argc, const char *const *argv, int *at, Options *options, Status *status)
{
    const char *word = argv[*at], *equals = strchr(word, '=');
    const size_t length = equals == NULL ? strlen(word) : (size_t)(equals - word);
    OptionId id = OPTION_HELP;
    if (!find_option(program, word, length, &id, status)) return false;
    options->given[id] = true;
    if (specs[id].kind == KIND_FLAG) {
        if (equals != NULL) return status_fail(status, STATUS_USAGE, "%s: takes no value", specs[id].name);
        return set_option(id, NULL, options, status);
    }
    if (equals != NULL) return set_option(id, equals + 1, options, status);
    if (*at + 1 >= argc) {
        char range[OPTION_RANGE_SIZE];
        return status_fail(status, STATUS_USAGE, "%s: the value is missing; expected %s", specs[id].name,
                           option_range(id, range));
    }
    return set_option(id, argv[++*at], options, status);
}

bool options_parse(const ProgramSpec *program, int argc, const char *const *argv, Options *options, Status *status)
{
    if (!set_defaults(program, options, status)) return false;
    bool only_operands = false;
    for (int at = 1; at < argc; at++) {
        const bool option = !only_operands && argv[at][0] == '-' && argv[at][1] != '\0';
        if (option && strcmp(argv[at], "--") == 0) only_operands = true;
        else if (!option && !set_operand(program, argv[at], options, status)) return false;
        else if (option && !parse_option(program, argc, argv, &at, options, status)) return false;
        if (options->help || options->version) return true;
    }
    if (program->operand != NULL && options->operand == NULL && !program->operand_optional) {
        char choices[400];
        list_choices(program->operand_choices, choices, sizeof choices);
        return status_fail(status, STATUS_USAGE, "the %s is missing; expected %s", program->operand, choices);
    }
    if (!infer_format(program, options, status) || !heads_are_grouped(options, status)) return false;
    if (options_point_count(options) > POINTS_MAX)
        return status_fail(status, STATUS_USAGE, "the lists sweep %zu points; at most %d are allowed",
                           options_point_count(options), POINTS_MAX);
    return true;
}
