/* s5_4_backward_2cta.c - lecture §5.4: two CTAs against the shared-memory bottleneck of the backward pass.
 *
 * FlashAttention-4's backward on a B200 (Zadouri et al. 2026, arXiv:2603.05451, Section 4) makes five products per tile. Shared
 * memory sees, for M queries, N keys and head dimension d, in elements of two bytes and, of dQ, four:
 *
 *     one CTA     operands 4 M d + 3 N d + M N      dS M N      dQ written and read back 2 M d
 *     two CTAs    each reads half of Q and dO wherever they are operands: 2 M d + 3 N d + M N; dS M N; dQ of half of the rows M d
 *
 * Two CTAs on neighbouring SMs take two key blocks, and one instruction covers 256 keys: the left operand is each CTA's own, the
 * right one (Q or dO) is half here, half there. For dQ they exchange half of dS, so that each has half of the query rows over all
 * 256 keys: as much work, half as many rows to add up in L2. All numbers come from walks of the kernels (algos/fa4_backward.c),
 * except for the exchange: the paper's table has 384 cycles for it and its text no formula (three passes over half a tile of dS
 * would be 384), so it is cited.
 */
#include "support/experiment.h"
#include "support/text.h"
#include "support/tile_account.h"
#include "support/timeline_view.h"

#include "sim/checked.h"

#include <string.h>

enum { ONE, TWO, FORMS };
static const char *const form_names[FORMS] = {"one CTA", "two CTAs, each"};
static const BackwardVariant variants[FORMS] = {{0}, {.two_ctas = true}};

typedef struct {
    TileAccount form[FORMS];
} Pair;

static bool account_pair(const Context *context, const Profile *b200, uint64_t d, bool time, Report *report, Pair *pair)
{
    for (int f = 0; f < FORMS; f++) {
        const AccountSetup setup = {.algorithm = &algorithm_fa4, .chip = b200, .d = d, .backward = &variants[f], .time = time};
        if (!tile_account(&pair->form[f], &setup, report, context->alloc, context->status)) return false;
    }
    return true;
}

/* ---- the declarations ---- */

static const Column product_columns[] = {
    {"form", "", "one CTA, or one of two"},
    {"result", "", "tile that the product writes, in tensor memory"},
    {"left", "", "left operand, as the kernel here writes the product"},
    {"left is in", "", "where the instruction finds it"},
    {"right", "", "right operand"},
    {"right is in", "", "where the instruction finds it"},
    {"tensor", "cycles", "2 M N K / 8192"},
    {"shared", "cycles", "bytes read from this CTA's shared memory / 128"},
};
static const TableSpec products_table = {"products", "What the five products read (B200, one tile of 128 x 128, d = 128)",
                                         product_columns, 8};

static const Column account_columns[] = {
    {"cycles per tile", "", "128 x 128 scores, d = 128"},
    {"one CTA", "", "per CTA"},
    {"two CTAs", "", "per CTA"},
    {"change", "%", "from one to two"},
    {"source", "", "walk: counted here"},
};
static const TableSpec account_table = {"account", "The account of the backward pass", account_columns, 5};

static const TableSpec bars_table = {"bars", "Shared-memory cycles of one tile, stacked", NULL, 0};

static const Column stack_columns[] = {
    {"form", "", "one CTA, or one of two"},
    {"operands", "cycles", "read by products"},
    {"dS", "cycles", "written by threads"},
    {"exchange", "cycles", "of dS between the CTAs (cited)"},
    {"dQ", "cycles", "written by threads, read back by copies"},
    {"tensor", "cycles", "for comparison"},
};
static const TableSpec stack_table = {"stack", "The same in numbers", stack_columns, 6};

static const Column dim_columns[] = {
    {"d", "", "head dimension"},
    {"tile", "", "query rows x keys of a block"},
    {"tensor", "cycles", "five products"},
    {"exp", "cycles", "MUFU"},
    {"one CTA", "cycles", "shared memory"},
    {"over tensor", "%", "one CTA"},
    {"two CTAs", "cycles", "shared memory, without the exchange"},
    {"over tensor (two)", "%", "two CTAs; negative: tensor cores bind"},
    {"saved", "%", "of shared memory"},
};
static const TableSpec dims_table = {"head_dims", "At other head dimensions (cycles per 128 x 128 tile)", dim_columns, 9};

static const Column atomic_columns[] = {
    {"form", "", "one CTA or two"},        {"key blocks that add", "", "to each row of dQ"},
    {"elements added", "", "one head"},    {"formula", "", "N d times the key blocks that add"},
    {"check", "", "walk against formula"}, {"bytes to L2", "MB", "float32"},
};
static const TableSpec atomics_table = {"atomics", "Atomic additions into dQ", atomic_columns, 6};

static const Column fit_columns[] = {
    {"form", "", "one CTA, or one of two"},
    {"shared memory", "bytes", "that a block holds"},
    {"of", "bytes", "that a block of a B200 can have"},
    {"tensor memory", "bytes", "S, dP, dV, dK of 128 columns each"},
    {"tensor memory of", "bytes", "512 columns x 128 lanes x 4 bytes"},
    {"registers", "bytes", "held by tiles and roles"},
};
static const TableSpec fit_table = {"fit", "What a block holds (d = 128)", fit_columns, 6};

static const Column time_columns[] = {
    {"d", "", "head dimension"},
    {"one CTA", "cycles", "timeline, per 128 x 128 tile"},
    {"its bound", "cycles", "the longest unit of the account"},
    {"two CTAs", "cycles", "timeline, without the exchange"},
    {"its bound (two)", "cycles", "the longest unit of the account"},
    {"faster", "x", "timeline of one over two"},
};
static const TableSpec time_table = {"time", "On the timeline of one SM", time_columns, 6};

static const TableSpec gantt_tables[FORMS] = {{"gantt_one", "One CTA", NULL, 0}, {"gantt_two", "One of two CTAs", NULL, 0}};

static const TableSpec *const tables[] = {&gantt_tables[ONE], &gantt_tables[TWO], &products_table, &account_table, &bars_table,
                                          &stack_table,       &dims_table,        &atomics_table,  &fit_table,     &time_table};

static const ClaimSpec claims[] = {
    {"S5.4-01", "5.4", "tensor memory of one SM", "256 KB", VERDICT_EQUAL,
     "128 lanes x 512 columns x 4 bytes; four 128 x 128 float32 tiles", NULL},
    {"S5.4-02", "5.4", "rows of a matrix product of two CTAs", "M = 256", VERDICT_CITED, "arXiv:2603.05451", NULL},
    {"S5.4-03", "5.4", "each of two CTAs reads half of the operands", "half", VERDICT_DIFFERS, "operand bytes of the two walks",
     "only one operand (Q, dO) is halved: operand reads fall 25 %, shared memory 19 % in total"},
    {"R-B5.4", "5.4", "the right operand of dV: cycles with one CTA and with two", "256 -> 128", VERDICT_EQUAL,
     "operand bytes of the two walks", NULL},
    {"S5.4-05", "5.4", "two CTAs: shared memory over matrix products", "5%", VERDICT_EQUAL,
     "(walk 2304 + exchange 384 as cited) / 2560 - 1; one CTA 30%: S5.1-11", NULL},
    {"R-5.4-exchange", "5.4", "exchange of dS between two CTAs, cycles per tile", "384", VERDICT_CITED,
     "arXiv:2603.05451, Table 3, no formula", NULL},
    {"S5.4-06", "5.4", "atomic additions into dQ with two CTAs", "half", VERDICT_EQUAL, "elements added in the two walks", NULL},
};

static const ProgramOption options[] = {{OPTION_HEAD_DIM, "64,96,128"}, {OPTION_GANTT, NULL}, {OPTION_TRACE, NULL}};

/* ---- the tables ---- */

static bool add_products(const Context *context, const Profile *b200, Report *report, ProductAccounts all[FORMS])
{
    Table *table = report_table(report, &products_table);
    for (int f = 0; f < FORMS; f++) {
        const AccountSetup setup = {
            .algorithm = &algorithm_fa4, .chip = b200, .d = 128, .tiles = {128, 128}, .backward = &variants[f]};
        if (!product_accounts(&all[f], &setup, context->alloc, context->status)) return false;
        for (size_t i = 0; i < all[f].count; i++) {
            table_row(table);
            cell_text(table, form_names[f]);
            product_cells(table, &all[f].products[i]);
        }
    }
    table_note(
        table,
        "S = Q K^T, dP = dO V^T, dV = P^T dO, dK = dS^T Q, dQ = dS K. The real kernel computes S^T and dP^T: the same operands.");
    table_note(table, "Of a tile in the memory of two CTAs (Q, dO) each reads half: 128 cycles instead of 256. Columns: the "
                      "other way to cut it.");
    return true;
}

static void account_row(Table *table, const char *what, double one, double two, const char *source)
{
    table_row(table);
    cell_text(table, what);
    cell_decimals(table, one, 0);
    cell_decimals(table, two, 0);
    if (one > 0)
        cell_decimals(table, 100 * (two / one - 1), 1);
    else
        cell_empty(table);
    cell_text(table, source);
}

static void add_account(Report *report, const Pair *pair)
{
    const TileAccount *one = &pair->form[ONE], *two = &pair->form[TWO];
    const double total = two->shared + EXCHANGE_CYCLES;
    Table *table = report_table(report, &account_table);
    account_row(table, "tensor cores", one->tensor, two->tensor, "walk");
    account_row(table, "exponentials", one->exp, two->exp, "walk");
    account_row(table, "shared memory: operands", one->operands, two->operands, "walk");
    account_row(table, "shared memory: dS written", one->scores_written, two->scores_written, "walk");
    account_row(table, "shared memory: dS exchanged", 0, EXCHANGE_CYCLES, "paper, no formula");
    account_row(table, "shared memory: dQ written and read back", one->dq, two->dq, "walk");
    account_row(table, "shared memory: all", one->shared, total, "sum");
    account_row(table, "of it without the exchange", one->shared, two->shared, "walk");
    table_note(table, "Over the tensor cores' %.0f cycles: one CTA %.1f %%, two CTAs %.1f %% (%.1f %% without the exchange).",
               one->tensor, 100 * (one->shared / one->tensor - 1), 100 * (total / two->tensor - 1),
               100 * (two->shared / two->tensor - 1));
    table_note(table, "Only reads of Q and dO are halved: 8 tiles of operands become 6. They and dQ save 512 each; the exchange "
                      "takes 384 back.");
}

/* ---- stacked bars ---- */

enum { CYCLES_PER_MARK = 64, BAR_WIDTH = 64 };

static void mark(char *bar, double *until, double cycles, char character)
{
    const double from = *until;
    *until += cycles / CYCLES_PER_MARK;
    for (int i = 0; i < BAR_WIDTH; i++)
        if (i + 0.5 >= from && i + 0.5 < *until) bar[i] = character;
}

static void bar_line(Table *picture, const char *name, const TileAccount *a, double exchange)
{
    char bar[BAR_WIDTH + 1];
    double until = 0;
    memset(bar, ' ', BAR_WIDTH);
    bar[BAR_WIDTH] = '\0';
    mark(bar, &until, a->operands, 'o');
    mark(bar, &until, a->scores_written, 's');
    mark(bar, &until, exchange, 'x');
    mark(bar, &until, a->dq, 'q');
    picture_line(picture, "%-15s %s %.0f", name, bar, a->shared + exchange);
}

static void add_bars(Report *report, const Pair *pair)
{
    char line[BAR_WIDTH + 1];
    double until = 0;
    Table *picture = report_table(report, &bars_table);
    for (int f = 0; f < FORMS; f++) bar_line(picture, form_names[f], &pair->form[f], f == TWO ? EXCHANGE_CYCLES : 0);
    memset(line, ' ', BAR_WIDTH);
    line[BAR_WIDTH] = '\0';
    mark(line, &until, pair->form[ONE].tensor, '=');
    picture_line(picture, "%-15s %s %.0f", "tensor cores", line, pair->form[ONE].tensor);
    table_note(picture, "o operands, s dS written, x dS exchanged (cited), q dQ written and read back; %d cycles a character.",
               CYCLES_PER_MARK);
    Table *table = report_table(report, &stack_table);
    for (int f = 0; f < FORMS; f++) {
        const TileAccount *a = &pair->form[f];
        table_row(table);
        cell_text(table, form_names[f]);
        cell_decimals(table, a->operands, 0);
        cell_decimals(table, a->scores_written, 0);
        cell_count(table, f == TWO ? EXCHANGE_CYCLES : 0);
        cell_decimals(table, a->dq, 0);
        cell_decimals(table, a->tensor, 0);
    }
}

/* ---- head dimensions, atomics, capacity, time ---- */

static double longest(const TileAccount *a)
{
    const double most = a->tensor > a->exp ? a->tensor : a->exp;
    return most > a->shared ? most : a->shared;
}

static void time_row(Table *table, uint64_t d, const Pair *pair)
{
    const TileAccount *one = &pair->form[ONE], *two = &pair->form[TWO];
    table_row(table);
    cell_count(table, d);
    cell_significant(table, one->timeline, 3);
    cell_decimals(table, longest(one), 0);
    cell_significant(table, two->timeline, 3);
    cell_decimals(table, longest(two), 0);
    cell_decimals(table, one->timeline / two->timeline, 2);
}

static void dim_row(Table *table, uint64_t d, const Pair *pair)
{
    const TileAccount *one = &pair->form[ONE], *two = &pair->form[TWO];
    table_row(table);
    cell_count(table, d);
    cell_textf(table, "%u x %u", one->tiles.Br, one->tiles.Bc);
    cell_decimals(table, one->tensor, 0);
    cell_decimals(table, one->exp, 0);
    cell_decimals(table, one->shared, 0);
    cell_decimals(table, 100 * (one->shared / one->tensor - 1), 1);
    cell_decimals(table, two->shared, 0);
    cell_decimals(table, 100 * (two->shared / two->tensor - 1), 1);
    cell_decimals(table, 100 * (1 - two->shared / one->shared), 1);
}

static void add_atomics(const Context *context, Report *report, const Pair *pair)
{
    const uint64_t blocks[FORMS] = {ACCOUNT_LENGTH / 128, ACCOUNT_LENGTH / 256};
    Table *table = report_table(report, &atomics_table);
    table_title(table, "Atomic additions into dQ (one head, N = %d, d = 128)", ACCOUNT_LENGTH);
    for (int f = 0; f < FORMS; f++) {
        const uint64_t formula = checked_mul(blocks[f], (uint64_t)ACCOUNT_LENGTH * 128, "additions into dQ", context->status);
        table_row(table);
        cell_text(table, f == ONE ? "one CTA" : "two CTAs, both");
        cell_count(table, blocks[f]);
        cell_count(table, pair->form[f].atomic_adds);
        cell_count(table, formula);
        cell_check(table, pair->form[f].atomic_adds, formula, "additions into dQ");
        cell_decimals(table, (double)pair->form[f].atomic_adds * 4 / 1e6, 2);
    }
    table_note(
        table,
        "With two CTAs a row of dQ is summed over 256 keys before it leaves: half as many additions at L2, at any length.");
}

static void add_fit(Report *report, const Profile *b200, const Pair *pair)
{
    Table *table = report_table(report, &fit_table);
    for (int f = 0; f < FORMS; f++) {
        const TileAccount *a = &pair->form[f];
        table_row(table);
        cell_text(table, form_names[f]);
        cell_count(table, a->smem_bytes);
        cell_count(table, b200->smem_bytes_per_block);
        cell_count(table, a->tmem_bytes);
        cell_count(table, b200->tmem_bytes_per_sm);
        cell_count(table, a->register_bytes);
    }
    table_note(table, "Tensor memory is full: S (P over it), dP (dS and dQ over it), dV and dK take 128 columns each. In "
                      "registers, as before Blackwell,");
    table_note(table, "these four float32 tiles would be all 65,536 registers of an SM.");
    table_note(
        table,
        "Two CTAs hold half of Q and of dO, but in two cuts, and K in a second cut for dQ; dQ leaves in slices of 32 columns.");
}

static bool add_sweeps(const Context *context, const Profile *b200, Report *report)
{
    Table *dims = report_table(report, &dims_table);
    Pair pairs[OPTION_LIST_MAX];
    const size_t count = options_point_count(context->options);
    for (size_t i = 0; i < count; i++) {
        const uint64_t d = options_point(context->options, i).head_dim;
        if (!account_pair(context, b200, d, true, report, &pairs[i])) return false;
        dim_row(dims, d, &pairs[i]);
    }
    table_note(dims, "Smaller heads are worse off: what grows with M N (dS, written and read) does not shrink with d.");
    table_note(dims, "With the exchange's 384 cycles d = 128 is 5 %% over; other d are not published. The shipped kernel uses "
                     "two CTAs from d = 128 on.");
    Table *time = report_table(report, &time_table);
    for (size_t i = 0; i < count; i++) time_row(time, options_point(context->options, i).head_dim, &pairs[i]);
    table_note(time,
               "Not in it: the exchange of dS and the waiting of two CTAs for each other, which is the price the lecture names.");
    return true;
}

/* ---- pictures ---- */

/* The first block of the main kernel; D before and the conversion after are other launches. */
static void observe_main_kernel(void *timeline, const Event *event)
{
    const Block *block = event->stream->block;
    if (strcmp(block->kernel->name, "fa4_bwd") == 0 && block->index == 0) timeline_observe(timeline, event);
}

/* One key block (of two CTAs: one of two) against four query blocks, d = 128. The caller frees the timeline, also after a
 * failure. */
static bool record(const Context *context, const Profile *b200, int form, Timeline *timeline)
{
    AttentionRun run = {0};
    AttentionShape shape = attention_shape(4 * 128, 128);
    shape.seqlen_k = form == TWO ? 256 : 128;
    const RunSetup setup = {.algorithm = &algorithm_fa4,
                            .profile = b200,
                            .config = {.mode = MODE_COUNT, .observe = observe_main_kernel, .observer = timeline}};
    const bool ok = timeline_init(timeline, b200, context->alloc, context->status) &&
                    attention_run_prepare(&run, &setup, &shape, context->alloc, context->status) &&
                    attention_run_prepare_backward(&run, (TileSize){128, 128}, variants[form]) && attention_run_backward(&run) &&
                    timeline_run(timeline);
    attention_run_free(&run);
    return ok;
}

/* The trace is that of one CTA. */
static bool add_pictures(const Context *context, const Profile *b200, Report *report)
{
    const Options *o = context->options;
    bool ok = true;
    for (int f = 0; f < FORMS && ok && (o->gantt || o->trace != NULL); f++) {
        Timeline timeline = {0};
        ok = record(context, b200, f, &timeline);
        if (ok && o->gantt) {
            Table *picture = report_table(report, &gantt_tables[f]);
            table_title(picture, "%s: 128 keys against 512 queries, d = 128 (%" PRIu64 " cycles)", gantt_tables[f].title,
                        timeline.makespan);
            timeline_picture(picture, &timeline, timeline_scale(&timeline, timeline.makespan));
            timeline_legend(picture);
        }
        if (ok && o->trace != NULL && f == ONE)
            ok = timeline_trace(o->trace, "FlashAttention-4 backward, one CTA, a block on a B200", &timeline, context->alloc,
                                context->status);
        timeline_free(&timeline);
    }
    return ok;
}

/* ---- the claims ---- */

static const ProductAccount *product_named(const ProductAccounts *accounts, const char *result)
{
    for (size_t i = 0; i < accounts->count; i++)
        if (strcmp(accounts->products[i].result, result) == 0) return &accounts->products[i];
    return &accounts->products[0];
}

static void judge_claims(Report *report, const Profile *b200, const Pair *pair, const ProductAccounts products[FORMS])
{
    const TileAccount *one = &pair->form[ONE], *two = &pair->form[TWO];
    const double total = two->shared + EXCHANGE_CYCLES;
    const uint64_t before = product_named(&products[ONE], "dV")->shared, after = product_named(&products[TWO], "dV")->shared;
    claim_bytes(report, "S5.4-01", 256 * 1024, b200->tmem_bytes_per_sm);
    claim_cited(report, "S5.4-02", "2 x 128 keys");
    claim_holds(report, "S5.4-03", 2 * two->operands <= one->operands,
                "operands %.0f -> %.0f cycles (%.0f%%), all %.0f -> %.0f (%.0f%%)", one->operands, two->operands,
                100 * (two->operands / one->operands - 1), one->shared, total, 100 * (total / one->shared - 1));
    claim_holds(report, "R-B5.4", before == 256 && after == 128, "%" PRIu64 " -> %" PRIu64, before, after);
    claim_decimals(report, "S5.4-05", 5, 0, 100 * (total / two->tensor - 1), "%");
    claim_cited(report, "R-5.4-exchange", "-");
    claim_holds(report, "S5.4-06", one->atomic_adds == 2 * two->atomic_adds, "%" PRIu64 " -> %" PRIu64 " elements",
                one->atomic_adds, two->atomic_adds);
}

static bool run(Context *context, Report *report)
{
    Profile b200;
    Pair pair;
    ProductAccounts products[FORMS];
    if (!profile_load("b200", context->alloc, &b200, context->status)) return false;
    if (!account_pair(context, &b200, 128, false, report, &pair) || !add_products(context, &b200, report, products)) return false;
    add_account(report, &pair);
    add_bars(report, &pair);
    if (!add_sweeps(context, &b200, report)) return false;
    add_atomics(context, report, &pair);
    add_fit(report, &b200, &pair);
    if (!add_pictures(context, &b200, report)) return false;
    judge_claims(report, &b200, &pair, products);
    return status_ok(context->status);
}

const Experiment experiment_s5_4_backward_2cta = {
    .program =
        {
            .name = "s5_4_backward_2cta",
            .purpose = "what two CTAs save of shared-memory traffic in FlashAttention-4's backward pass (lecture 5.4)",
            .examples = {"", "--head-dim 64,128 --gantt"},
            .options = options,
            .option_count = sizeof options / sizeof options[0],
        },
    .report =
        {
            .section = "5.4",
            .title_en = "Backward: two CTAs and tensor memory",
            .title_zh = "反向：2-CTA 与 TMEM",
            .tables = tables,
            .table_count = sizeof tables / sizeof tables[0],
            .claims = claims,
            .claim_count = sizeof claims / sizeof claims[0],
        },
    .run = run,
};
