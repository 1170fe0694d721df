/* options.h - the command line of every program.
 *
 * One table (options.c) holds each option once: name, argument, allowed range, meaning. A program lists which of them it takes,
 * each with its own default; common options (--format, -o, --check, --hw, --seed, --help, --version) belong to all. Rules:
 *   --opt value and --opt=value; the last one of a repeated option wins; -- ends the options.
 *   Numbers are decimal with an optional k or m (1k = 1024, 1m = 1048576). Shape options take lists, a,b,c, which sweep: the
 *   one named first in OptionId varies slowest.
 * An error is STATUS_USAGE and one line that names the option, the value and what is allowed.
 */
#ifndef ATTNLAB_OPTIONS_H
#define ATTNLAB_OPTIONS_H

#include "algos/attention.h"
#include "sim/formats.h"
#include "sim/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    /* common */
    OPTION_FORMAT, OPTION_OUTPUT, OPTION_CHECK, OPTION_HW, OPTION_SEED, OPTION_HELP, OPTION_VERSION,
    /* shape: lists that sweep */
    OPTION_BATCH, OPTION_HEADS, OPTION_KV_HEADS, OPTION_SEQLEN, OPTION_SEQLEN_K, OPTION_HEAD_DIM, OPTION_BLOCK_Q, OPTION_BLOCK_K,
    OPTION_SRAM, OPTION_SPLITS,
    /* the problem */
    OPTION_MASK, OPTION_CAUSAL, OPTION_WINDOW, OPTION_SCALE, OPTION_DROPOUT, OPTION_DTYPE,
    /* how it is run */
    OPTION_PASS, OPTION_MODE, OPTION_L2, OPTION_ORDER, OPTION_THRESHOLD, OPTION_RESCALE_ROWS, OPTION_RESCALE_SHARE, OPTION_POLY_SHARE,
    OPTION_QUANTISE, OPTION_ROTATE, OPTION_PREPASS, OPTION_STUDY,
    OPTION_PACKING, OPTION_MERGE,
    OPTION_DETERMINISTIC, OPTION_GANTT, OPTION_TRACE, OPTION_SEEDS, OPTION_SKIP_TIMED, OPTION_MAP,
    /* the comparison with a chip */
    OPTION_COUNTERS, OPTION_TIMINGS, OPTION_KERNEL, OPTION_COUNTER, OPTION_SUMMARY,
    OPTION_COUNT
} OptionId;

typedef enum { FORMAT_TEXT, FORMAT_MARKDOWN, FORMAT_CSV, FORMAT_JSON, FORMAT_COUNT } Format;
typedef enum { OPTION_PASS_FWD, OPTION_PASS_BWD } OptionPass;
typedef enum { OPTION_MODE_NUMERIC, OPTION_MODE_COUNT, OPTION_MODE_TIME } OptionMode;

typedef enum { OPTION_PREPASS_FUSED, OPTION_PREPASS_KERNEL } OptionPrepass;
typedef enum { OPTION_ORDER_GRID, OPTION_ORDER_LPT } OptionOrder;

enum { OPTION_LIST_MAX = 64 };

typedef struct {
    uint64_t values[OPTION_LIST_MAX];
    size_t count;                       /* 0: neither given nor defaulted */
} OptionList;

typedef struct {
    bool given[OPTION_COUNT];           /* on the command line, not by default */
    Format format;                      /* --format, else from the suffix of --output, else text */
    const char *output;                 /* NULL: stdout */
    bool check, help, version, deterministic, gantt, skip_timed, map, study, summary;
    const char *hw;                     /* profile name or path; default h100 */
    uint64_t seed, seeds, rescale_rows;
    OptionList batch, heads, kv_heads, seqlen, seqlen_k, head_dim, block_q, block_k, sram, splits;  /* splits 0: auto */
    MaskKind mask;                      /* --causal is --mask causal */
    int64_t window_left, window_right;  /* -1: unbounded */
    double scale;                       /* meaningful when given; else 1/sqrt(head dim) */
    double dropout, threshold, rescale_share, poly_share;
    ElementType dtype;
    OptionPass pass;
    OptionMode mode;
    L2Model l2;
    OptionOrder order;
    ScaleGranularity quantise;
    Rotation rotate;
    OptionPrepass prepass;
    QueryPacking packing;
    MergeOrder merge;
    const char *trace;                  /* NULL unless given */
    const char *counters, *timings;     /* CSV files; NULL: the built-in measurements */
    const char *kernel, *counter;       /* what is shown; NULL: all */
    const char *operand;                /* the positional argument (attn ALGO), or NULL */
} Options;

/* An option that a program takes. The default is written as on the command line ("1k,4k") and parsed as such, so that --help
 * shows what holds; NULL: none, --help then shows what the option table says about leaving it out ("as --heads"). */
typedef struct {
    OptionId id;
    const char *default_value;
} ProgramOption;

typedef struct {
    const char *name;                       /* "s1_1_score_matrix" */
    const char *purpose;                    /* one line */
    const char *examples[2];                /* arguments only: "--seqlen 4k --format md"; NULL: none */
    const ProgramOption *options;           /* beyond the common ones */
    size_t option_count;
    bool output_is_directory;               /* -o DIR: no format is inferred from its suffix */
    const char *operand;                    /* "algorithm"; NULL: the program takes no positional argument */
    const char *const *operand_choices;     /* NULL-terminated */
    bool operand_optional;                  /* without it Options.operand is NULL */
} ProgramSpec;

/* Reads argv[1..argc). On --help or --version it stops there with the flag set and succeeds. */
bool options_parse(const ProgramSpec *program, int argc, const char *const *argv, Options *options, Status *status);

/* Sweeps. One point of the cross product of all lists; what was left out is filled in: seqlen_k = seqlen, kv_heads = heads,
 * batch = heads = 1; other empty lists give 0. */
typedef struct {
    uint64_t batch, heads, kv_heads, seqlen, seqlen_k, head_dim, block_q, block_k, sram, splits;
} OptionPoint;
size_t options_point_count(const Options *options);
OptionPoint options_point(const Options *options, size_t index);

/* Whether the option is common or in the program's list (--causal comes with --mask). */
bool option_is_taken(const ProgramSpec *program, OptionId id);

const char *option_name(OptionId id);           /* "--block-q" */
const char *option_short_name(OptionId id);     /* "-o" or NULL */
const char *option_argument(OptionId id);       /* "N[,N...]"; NULL: a flag */
const char *option_meaning(OptionId id);
enum { OPTION_RANGE_SIZE = 160 };
const char *option_range(OptionId id, char buffer[OPTION_RANGE_SIZE]);  /* "an integer from 1 to 512"; "" for a flag */
const char *option_when_absent(OptionId id);    /* "as --heads", or the default that all programs share; NULL: a flag */
const char *option_choice(OptionId id, int value);  /* the word for an enumerated value: OPTION_MASK, 1 -> "causal" */

#endif
