/* test_options.c - the command line: values, errors word by word, sweeps. */
#include "tests/test.h"

#include "experiments/support/options.h"

#include <math.h>

static const ProgramOption options_taken[] = {
    {OPTION_BATCH, NULL},   {OPTION_HEADS, NULL}, {OPTION_KV_HEADS, NULL}, {OPTION_SEQLEN, "1k"},       {OPTION_SEQLEN_K, NULL},
    {OPTION_HEAD_DIM, "64"}, {OPTION_BLOCK_Q, NULL}, {OPTION_MASK, NULL},    {OPTION_WINDOW, NULL},       {OPTION_SCALE, NULL},
    {OPTION_DROPOUT, NULL}, {OPTION_DTYPE, NULL}, {OPTION_MODE, NULL},     {OPTION_DETERMINISTIC, NULL},
};
static const char *const algorithms[] = {"standard", "fa1", "fa1-shipped", "fa2", NULL};
static const ProgramSpec program = {
    .name = "attn", .purpose = "test", .options = options_taken, .option_count = sizeof options_taken / sizeof options_taken[0],
    .operand = "algorithm", .operand_choices = algorithms,
};

enum { ARGS_MAX = 12 };

/* Parses "attn ARG ARG ...", NULL-terminated. */
static Options parse(const char *const *arguments, Status *status)
{
    const char *argv[ARGS_MAX + 1] = {"attn"};
    int argc = 1;
    Options options;
    for (; argc < ARGS_MAX && arguments[argc - 1] != NULL; argc++) argv[argc] = arguments[argc - 1];
    *status = (Status){0};
    options_parse(&program, argc, argv, &options, status);
    return options;
}

static void test_errors(Test *t)
{
    static const struct {
        const char *arguments[6];
        const char *text;
    } rows[] = {
        {{"fa2"}, ""},
        {{"fa2", "--block-q", "0"}, "--block-q: '0' is not allowed; expected an integer from 1 to 1048576"},
        {{"fa2", "--block-q=0"}, "--block-q: '0' is not allowed; expected an integer from 1 to 1048576"},
        {{"fa2", "--block-q", "-1"}, "--block-q: '-1' is not allowed; expected an integer from 1 to 1048576"},
        {{"fa2", "--block-q", "64x"}, "--block-q: '64x' is not allowed; expected an integer from 1 to 1048576"},
        {{"fa2", "--block-q", " 64"}, "--block-q: ' 64' is not allowed; expected an integer from 1 to 1048576"},
        {{"fa2", "--block-q", "1.5k"}, "--block-q: '1.5k' is not allowed; expected an integer from 1 to 1048576"},
        {{"fa2", "--block-q", "k"}, "--block-q: 'k' is not allowed; expected an integer from 1 to 1048576"},
        {{"fa2", "--block-q", ""}, "--block-q: '' is not allowed; expected an integer from 1 to 1048576"},
        {{"fa2", "--block-q", "2m"}, "--block-q: '2m' is not allowed; expected an integer from 1 to 1048576"},
        {{"fa2", "--block-q", "64,,128"}, "--block-q: '' is not allowed; expected an integer from 1 to 1048576"},
        {{"fa2", "--block-q", "64,0"}, "--block-q: '0' is not allowed; expected an integer from 1 to 1048576"},
        {{"fa2", "--block-q", "64,"}, "--block-q: '' is not allowed; expected an integer from 1 to 1048576"},
        {{"fa2", "--block-q"}, "--block-q: the value is missing; expected an integer from 1 to 1048576"},
        {{"fa2", "--seqlen", "18446744073709551616"},
         "--seqlen: '18446744073709551616' is not allowed; expected an integer from 0 to 1099511627776"},
        {{"fa2", "--seqlen", "18014398509481984k"},
         "--seqlen: '18014398509481984k' is not allowed; expected an integer from 0 to 1099511627776"},
        {{"fa2", "--head-dim", "513"}, "--head-dim: '513' is not allowed; expected an integer from 1 to 512"},
        {{"fa2", "--seed", "-1"}, "--seed: '-1' is not allowed; expected an integer from 0 to 18446744073709551615"},
        {{"fa2", "--blok-q", "1"}, "unknown option '--blok-q'; did you mean '--block-q'?"},
        {{"fa2", "--blok-q=1"}, "unknown option '--blok-q'; did you mean '--block-q'?"},
        {{"fa2", "--frobnicate"}, "unknown option '--frobnicate'; --help lists those of attn"},
        {{"fa2", "-x"}, "unknown option '-x'; --help lists those of attn"},
        {{"fa2", "--order", "lpt"}, "--order is not an option of attn; --help lists them"},
        {{"fa2", "--check=1"}, "--check: takes no value"},
        {{"fa3000"}, "unknown algorithm 'fa3000'; expected standard, fa1, fa1-shipped or fa2"},
        {{"fa22"}, "unknown algorithm 'fa22'; did you mean 'fa2'?"},
        {{"fa1\nx"}, "unknown algorithm 'fa1?x'; expected standard, fa1, fa1-shipped or fa2"},
        {{"fa2", "fa1"}, "unexpected argument 'fa1'; see --help"},
        {{NULL}, "the algorithm is missing; expected standard, fa1, fa1-shipped or fa2"},
        {{"fa2", "--mask", "causl"},
         "--mask: 'causl' is not allowed; expected none, causal or causal-top-left; did you mean 'causal'?"},
        {{"fa2", "--mask", "xyzzy"}, "--mask: 'xyzzy' is not allowed; expected none, causal or causal-top-left"},
        {{"fa2", "--dtype", "fp32"}, "--dtype: 'fp32' is not allowed; expected f64, f32, bf16, fp16 or fp8; did you mean 'f32'?"},
        {{"fa2", "--format", "pdf"}, "--format: 'pdf' is not allowed; expected text, md, csv or json"},
        {{"fa2", "--kv-heads", "3", "--heads", "8"},
         "--kv-heads: 3 does not divide --heads 8; expected a divisor of it, from 1 to 8"},
        {{"fa2", "--kv-heads", "2,3", "--heads", "4,6"},
         "--kv-heads: 3 does not divide --heads 4; expected a divisor of it, from 1 to 4"},
        {{"fa2", "--kv-heads", "2"}, "--kv-heads: 2 does not divide --heads 1; expected a divisor of it, from 1 to 1"},
        {{"fa2", "--window", "4"}, "--window: '4' is not allowed; expected two integers L,R from -1 (no limit) to 1099511627776"},
        {{"fa2", "--window", "4,-2"},
         "--window: '4,-2' is not allowed; expected two integers L,R from -1 (no limit) to 1099511627776"},
        {{"fa2", "--scale", "nan"}, "--scale: 'nan' is not allowed; expected a finite number"},
        {{"fa2", "--scale", "1e999"}, "--scale: '1e999' is not allowed; expected a finite number"},
        {{"fa2", "--scale", "0x1p3"}, "--scale: '0x1p3' is not allowed; expected a finite number"},
        {{"fa2", "--scale", "0.5 "}, "--scale: '0.5 ' is not allowed; expected a finite number"},
        {{"fa2", "--scale", "."}, "--scale: '.' is not allowed; expected a finite number"},
        {{"fa2", "--scale", "1e"}, "--scale: '1e' is not allowed; expected a finite number"},
        {{"fa2", "--dropout", "1"}, "--dropout: '1' is not allowed; expected a number from 0 to below 1"},
        {{"fa2", "--dropout", "-0.1"}, "--dropout: '-0.1' is not allowed; expected a number from 0 to below 1"},
        {{"fa2", "-o", "table.pdf"},
         "-o: the suffix '.pdf' names no format; expected .txt, .md, .csv or .json, or --format"},
        {{"fa2", "-o", ""}, "--output: '' is not allowed; expected a name"},
        {{"fa2", "--seqlen", "01234567890123456789012345678901234567890123456789012345678901234567890123456789"},
         "--seqlen: '012345678901234567890123456789012345678901234567890123456789...' is not allowed; expected an integer "
         "from 0 to 1099511627776"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        Status status;
        parse(rows[i].arguments, &status);
        check_text(t, status.text, rows[i].text, rows[i].arguments[1] == NULL ? "operand" : rows[i].arguments[1]);
        check_i64(t, status.code, rows[i].text[0] == '\0' ? STATUS_OK : STATUS_USAGE, "exit code");
    }
}

/* Without its operand a program with an optional one starts, another does not. */
static void test_optional_operand(Test *t)
{
    const char *const argv[] = {"attn"};
    ProgramSpec optional = program;
    Status without = {0}, with = {0};
    Options options;
    optional.operand_optional = true;
    options_parse(&program, 1, argv, &options, &without);
    check_text(t, without.text, "the algorithm is missing; expected standard, fa1, fa1-shipped or fa2", "a required operand");
    check_true(t, options_parse(&optional, 1, argv, &options, &with) && options.operand == NULL, "an optional operand");
}

static void test_values(Test *t)
{
    Status status;
    const Options none = parse((const char *const[]){"fa1", NULL}, &status);
    check_true(t, status_ok(&status), "defaults parse");
    check_text(t, none.operand, "fa1", "operand");
    check_text(t, none.hw, "h100", "default profile");
    check_u64(t, none.seed, 1, "default seed");
    check_u64(t, none.seqlen.values[0], 1024, "the program's default, 1k");
    check_u64(t, none.batch.count, 0, "no default: an empty list");
    check_true(t, !none.given[OPTION_SEQLEN], "a default is not given");
    check_true(t, none.format == FORMAT_TEXT && none.mode == OPTION_MODE_COUNT && none.dtype == ELEMENT_BF16, "default choices");
    check_true(t, none.window_left == -1 && none.window_right == -1, "no window");

    const Options all = parse((const char *const[]){"--seqlen=2k,1M", "--causal", "fa2", "--window", "-1,7", "--scale=-.5e1",
                                                    "--dtype", "fp8", "-o", "a.b/c.json", "--deterministic", NULL}, &status);
    check_text(t, status.text, "", "all parse");
    check_u64(t, all.seqlen.count, 2, "two lengths");
    check_u64(t, all.seqlen.values[1], 1048576, "1M");
    check_true(t, all.given[OPTION_SEQLEN] && all.mask == MASK_CAUSAL && all.deterministic, "flags");
    check_true(t, all.window_left == -1 && all.window_right == 7, "window");
    check_close(t, all.scale, -5, 0, "scale");
    check_true(t, all.dtype == ELEMENT_E4M3, "fp8 is E4M3");
    check_true(t, all.format == FORMAT_JSON, "format from the suffix");
    check_text(t, option_choice(OPTION_DTYPE, (int)all.dtype), "fp8", "the word for E4M3");
    check_text(t, option_choice(OPTION_MASK, (int)all.mask), "causal", "the word for a mask");

    const Options last = parse((const char *const[]){"fa2", "--mask", "causal", "--mask=none", "--format", "md", "-o", "x.csv",
                                                     NULL}, &status);
    check_true(t, last.mask == MASK_NONE, "the last one holds");
    check_true(t, last.format == FORMAT_MARKDOWN, "--format beats the suffix");
    const Options device = parse((const char *const[]){"fa2", "-o", "/dev.d/full", NULL}, &status);
    check_true(t, status_ok(&status) && device.format == FORMAT_TEXT, "no suffix: text");
    const Options help = parse((const char *const[]){"--help", "--nonsense", NULL}, &status);
    check_true(t, status_ok(&status) && help.help, "--help ends the parse");
    const Options seed = parse((const char *const[]){"fa2", "--seed", "18446744073709551615", NULL}, &status);
    check_u64(t, seed.seed, UINT64_MAX, "the largest seed");
}

static void test_sweep(Test *t)
{
    Status status;
    const Options options = parse((const char *const[]){"fa2", "--heads", "8,16", "--seqlen", "1,2,3", NULL}, &status);
    check_u64(t, options_point_count(&options), 6, "2 x 3 points");
    for (size_t i = 0; i < 6; i++) {
        const OptionPoint point = options_point(&options, i);
        check_u64(t, point.heads, i < 3 ? 8 : 16, "heads vary slowest");
        check_u64(t, point.seqlen, i % 3 + 1, "lengths vary fastest");
        check_u64(t, point.kv_heads, point.heads, "kv_heads = heads");
        check_u64(t, point.seqlen_k, point.seqlen, "seqlen_k = seqlen");
        check_u64(t, point.batch, 1, "batch");
        check_u64(t, point.block_q, 0, "no block given");
    }
    char list[65 * 2 + 1];
    for (size_t i = 0; i < 65; i++) memcpy(list + 2 * i, "1,", 2);
    list[65 * 2 - 1] = '\0';
    parse((const char *const[]){"fa2", "--seqlen", list, NULL}, &status);
    check_text(t, status.text, "--seqlen: more than 64 values in the list", "65 values");
    list[64 * 2 - 1] = '\0';
    parse((const char *const[]){"fa2", "--seqlen", list, NULL}, &status);
    check_text(t, status.text, "", "64 values");
    parse((const char *const[]){"fa2", "--seqlen", list, "--heads", list, "--batch", "1,1", NULL}, &status);
    check_text(t, status.text, "the lists sweep 8192 points; at most 4096 are allowed", "too many points");
}

/* Words made of pieces that mean something, in any order: never a crash, always a clean end or one printable line. */
static void test_random(Test *t)
{
    static const char *const pieces[] = {
        "--", "-", "=", ",", "seqlen", "block-q", "kv-heads", "heads", "mask", "causal", "window", "1k", "0", "9", "m", "-1", ".",
        "e", "18446744073709551615", "fa2", "scale", "dtype", "fp8", "o", ".json", "\n", "\xFF", " ", "help", "dropout"};
    uint64_t random = 1;
    for (int round = 0; round < 20000; round++) {
        char words[6][128];
        const char *arguments[7] = {NULL};
        for (size_t i = 0; i < 6; i++) {
            words[i][0] = '\0';
            for (size_t parts = 0; parts < 3; parts++) {
                random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
                const size_t piece = (size_t)(random >> 33) % (sizeof pieces / sizeof pieces[0] + 8);
                if (piece < sizeof pieces / sizeof pieces[0]) strcat(words[i], pieces[piece]);
            }
            arguments[i] = words[i];
        }
        Status status;
        parse(arguments, &status);
        check_true(t, status.code == STATUS_OK || status.code == STATUS_USAGE, "exit code of random words");
        check_true(t, strchr(status.text, '\n') == NULL, "one line");
    }
}

/* Every option has what --help prints. */
static void test_table(Test *t)
{
    for (int id = 0; id < OPTION_COUNT; id++) {
        char range[OPTION_RANGE_SIZE];
        const OptionId option = (OptionId)id;
        const bool flag = option_argument(option) == NULL;
        check_true(t, strncmp(option_name(option), "--", 2) == 0, option_name(option));
        check_true(t, option_meaning(option) != NULL && option_meaning(option)[0] != '\0', option_name(option));
        check_true(t, flag == (option_range(option, range)[0] == '\0'), option_name(option));
        check_true(t, flag == (option_when_absent(option) == NULL), option_name(option));
    }
}

int main(void)
{
    Test t = {0};
    test_errors(&t);
    test_optional_operand(&t);
    test_values(&t);
    test_sweep(&t);
    test_random(&t);
    test_table(&t);
    return test_end(&t, "test_options");
}
