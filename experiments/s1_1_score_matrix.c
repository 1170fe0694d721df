/* s1_1_score_matrix.c - lecture §1.1 and §1.2: how large the score matrix is, and where it fills the card.
 *
 * Standard attention writes S = QKᵀ, an N x N matrix for each head, and P = softmax(S) of the same size, which training keeps for
 * the backward pass:
 *
 *     bytes of P in one layer = heads * N * N * bytes per element
 *
 * So a card of C bytes holds P of one layer up to N = floor(sqrt(C / (heads * bytes per element))). What this leaves out: batch
 * (one sequence here), the other layers, S itself, weights and all other activations; a real model stops earlier. The history
 * lines (contexts before 2022, approximate attention) are quoted: there is nothing to compute.
 */
#include "support/experiment.h"
#include "support/text.h"

#include "sim/checked.h"
#include "sim/formats.h"
#include "sim/profile.h"

/* ---- the model ---- */

static uint64_t score_bytes(uint64_t N, uint64_t heads, uint64_t element, Status *status)
{
    const uint64_t elements = checked_mul(N, N, "score matrix elements (N * N)", status);
    return checked_mul(checked_mul(elements, heads, "score matrices of a layer (N * N * heads)", status), element,
                       "bytes of the score matrices (N * N * heads * bytes per element)", status);
}

/* floor(sqrt(x)), digit by digit in base 2. */
static uint64_t integer_sqrt(uint64_t x)
{
    uint64_t root = 0;
    for (uint64_t bit = UINT64_C(1) << 31; bit > 0; bit >>= 1) {
        const uint64_t candidate = root + bit;
        if (candidate <= x / candidate) root = candidate;
    }
    return root;
}

/* The longest N whose score matrices fit: heads * N * N * element <= capacity. */
static uint64_t longest_fitting(uint64_t capacity, uint64_t heads, uint64_t element)
{
    return integer_sqrt(capacity / (heads * element));
}

/* ---- the declarations ---- */

static const Column size_columns[] = {
    {"heads", "", "query heads of the layer"},
    {"N", "", "sequence length"},
    {"elements", "", "N * N of one head"},
    {"one head", "bytes", "N * N * bytes per element"},
    {"one head, short", "", "the same in binary units"},
    {"one layer", "", "heads times as much"},
};
static const TableSpec sizes_table = {"sizes", "Score matrices of one sequence", size_columns, 6};

static const Column fill_columns[] = {
    {"N", "", "sequence length"},
    {"P of one layer", "", "heads * N * N * bytes per element"},
    {"share of the card", "%", "of the profile's HBM capacity"},
    {"picture", "", "one # for each 2.5 % of the card; > when it does not fit"},
};
static const TableSpec fill_table = {"fill", "Where P fills the card", fill_columns, 4};

static const Column limit_columns[] = {
    {"heads", "", "query heads of the layer"},
    {"longest N, P alone", "", "largest N whose P of one layer fits into HBM"},
    {"longest N, S and P", "", "largest N when S is kept as well, as the standard kernels do"},
};
static const TableSpec limits_table = {"limits", "The longest sequence whose score matrices of one layer fit", limit_columns, 3};

static const Column history_columns[] = {
    {"when", "", "as the lecture says"},
    {"what", "", "quoted from the lecture"},
    {"beside it", "", "what the formulas above say of it"},
};
static const TableSpec history_table = {"history", "The history in two lines (quoted)", history_columns, 3};

static const ClaimSpec claims[] = {
    {"0.4-1", "0.4", "bytes per element, FP16 and BF16", "2", VERDICT_EQUAL, "size of the element type", NULL},
    {"1.1-1", "1.1", "score matrix of one head in FP16, N = 2048", "8 MiB", VERDICT_EQUAL, "N*N*2 bytes", NULL},
    {"1.1-2", "1.1", "score matrix of one head in FP16, N = 8192", "128 MiB", VERDICT_EQUAL, "N*N*2 bytes", NULL},
    {"1.1-3", "1.1", "score matrix of one head in FP16, N = 128K = 131,072", "32 GiB", VERDICT_EQUAL, "N*N*2 bytes", NULL},
    {"1.1-4", "1.1", "one layer of 32 heads, N = 128K", "1 TiB", VERDICT_EQUAL, "32*N*N*2 bytes", NULL},
    {"1.1-5", "1.1", "compute and memory of attention grow as N^2: factor from N to 2N", "4", VERDICT_EQUAL,
     "(2N)^2/N^2 = 4(2N)^2 d/(4N^2 d) = 4", NULL},
    {"1.1-6", "1.1", "context of most models before 2022", "2K-4K", VERDICT_CITED, "quoted", NULL},
    {"1.1-7", "1.1", "on long sequences the standard implementation does not fit at all", "does not fit", VERDICT_EQUAL,
     "32*N*N*2 bytes at N = 128K > 80 GB", NULL},
    {"1.2-1", "1.2", "FLOPs of approximate attention, 2020-2021", "N^2 -> N log N or N", VERDICT_CITED, "quoted (slide 6)", NULL},
};

static const TableSpec *const tables[] = {&sizes_table, &fill_table, &limits_table, &history_table};
static const ProgramOption options[] = {{OPTION_SEQLEN, "2k,8k,128k"}, {OPTION_HEADS, "32"}, {OPTION_DTYPE, "fp16"}};

/* ---- the tables ---- */

static void add_sizes(const Context *context, Report *report)
{
    char short_form[NUMBER_SIZE];
    const uint64_t element = element_bytes(context->options->dtype);
    Table *table = report_table(report, &sizes_table);
    for (size_t i = 0; i < options_point_count(context->options); i++) {
        const OptionPoint point = options_point(context->options, i);
        const uint64_t layer = score_bytes(point.seqlen, point.heads, element, context->status);
        const uint64_t head = score_bytes(point.seqlen, 1, element, context->status);
        table_row(table);
        cell_count(table, point.heads);
        cell_count(table, point.seqlen);
        cell_count(table, head / element);
        cell_count(table, head);
        cell_text(table, format_bytes(short_form, head));
        cell_text(table, format_bytes(short_form, layer));
    }
}

static void add_fill(const Context *context, Report *report)
{
    enum { BAR = 40 };
    static const char bar[BAR + 1] = "########################################";
    char short_form[NUMBER_SIZE];
    const uint64_t element = element_bytes(context->options->dtype), heads = options_point(context->options, 0).heads;
    const uint64_t capacity = context->hw->hbm_bytes_per_chip, limit = longest_fitting(capacity, heads, element);
    Table *table = report_table(report, &fill_table);
    for (uint64_t N = 2048; N <= 131072; N *= 2) {
        const uint64_t bytes = score_bytes(N, heads, element, context->status);
        const double share = (double)bytes / (double)capacity;
        table_row(table);
        cell_count(table, N);
        cell_text(table, format_bytes(short_form, bytes));
        cell_decimals(table, 100 * share, 1);
        if (bytes > capacity) cell_textf(table, "%s>", bar);
        else cell_textf(table, "%.*s", (int)(share * BAR), bar);
    }
    table_note(table, "%" PRIu64 " heads fill %s at N = %" PRIu64 ".", heads, context->hw->name, limit);
}

static void add_limits(const Context *context, Report *report)
{
    static const uint64_t heads[] = {1, 8, 16, 32, 64, 128};
    const uint64_t element = element_bytes(context->options->dtype), capacity = context->hw->hbm_bytes_per_chip;
    Table *table = report_table(report, &limits_table);
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        table_row(table);
        cell_count(table, heads[i]);
        cell_count(table, longest_fitting(capacity, heads[i], element));
        cell_count(table, longest_fitting(capacity, heads[i], 2 * element));
    }
}

static void add_history(const Context *context, Report *report)
{
    char from[NUMBER_SIZE], to[NUMBER_SIZE];
    Table *table = report_table(report, &history_table);
    format_bytes(from, score_bytes(2048, 32, 2, context->status));
    format_bytes(to, score_bytes(4096, 32, 2, context->status));
    table_row(table);
    cell_text(table, "before 2022");
    cell_text(table, "most contexts stop at 2K-4K");
    cell_textf(table, "P of 32 heads in one layer: %s at 2K, %s at 4K", from, to);
    table_row(table);
    cell_text(table, "2020-2021");
    cell_text(table, "approximate attention: N^2 FLOPs become N log N or N, often no faster");
    cell_text(table, "bytes are the limit, not FLOPs: s1_4_standard_ledger");
    claim_cited(report, "1.1-6", "P of one layer of 32 heads is %s to %s", from, to);
    claim_cited(report, "1.2-1", "-");
}

/* ---- the claims, at the lecture's shapes ---- */

static bool judge_claims(const Context *context, Report *report)
{
    const uint64_t MiB = UINT64_C(1) << 20, fp16 = element_bytes(ELEMENT_FP16), N = 131072;
    Status *status = context->status;
    Profile a100;
    if (!profile_load("a100", context->alloc, &a100, status)) return false;
    claim_holds(report, "0.4-1", fp16 == 2 && element_bytes(ELEMENT_BF16) == 2, "%" PRIu64, fp16);
    claim_bytes(report, "1.1-1", 8 * MiB, score_bytes(2048, 1, fp16, status));
    claim_bytes(report, "1.1-2", 128 * MiB, score_bytes(8192, 1, fp16, status));
    claim_bytes(report, "1.1-3", 32 * 1024 * MiB, score_bytes(N, 1, fp16, status));
    claim_bytes(report, "1.1-4", 1024 * 1024 * MiB, score_bytes(N, 32, fp16, status));
    const double growth = (double)score_bytes(2 * N, 1, fp16, status) / (double)score_bytes(N, 1, fp16, status);
    claim_decimals(report, "1.1-5", 4, 0, growth, "");
    const uint64_t capacity = a100.hbm_bytes_per_chip;
    claim_holds(report, "1.1-7", score_bytes(N, 32, fp16, status) > capacity,
                "80 GB hold one layer of 32 heads up to N = %" PRIu64, longest_fitting(capacity, 32, fp16));
    return status_ok(status);
}

static bool run(Context *context, Report *report)
{
    report_param_text(report, "hw", context->hw->name);
    report_param_text(report, "dtype", option_choice(OPTION_DTYPE, (int)context->options->dtype));
    add_sizes(context, report);
    if (context->hw->hbm_bytes_per_chip != PROFILE_UNLIMITED) {
        add_fill(context, report);
        add_limits(context, report);
    }
    add_history(context, report);
    return judge_claims(context, report);
}

const Experiment experiment_s1_1_score_matrix = {
    .program = {
        .name = "s1_1_score_matrix",
        .purpose = "how large the N x N score matrix is, and where it fills the card (lecture 1.1, 1.2)",
        .examples = {"", "--seqlen 1k,32k,1m --heads 16 --hw a100"},
        .options = options,
        .option_count = sizeof options / sizeof options[0],
    },
    .report = {
        .section = "1.1",
        .title_en = "Long sequences: the score matrix",
        .title_zh = "长序列：分数矩阵放不下",
        .tables = tables,
        .table_count = sizeof tables / sizeof tables[0],
        .claims = claims,
        .claim_count = sizeof claims / sizeof claims[0],
    },
    .run = run,
};
