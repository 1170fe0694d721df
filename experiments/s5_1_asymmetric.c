/* s5_1_asymmetric.c - lecture §5.1: tensor cores double, exponentials and shared memory do not. Which unit binds?
 *
 * Zadouri et al. 2026 (arXiv:2603.05451) count, for one tile of M x N scores and head dimension d, the cycles that each unit of
 * an SM is busy:
 *
 *     forward    tensor 4 M N d / 8192      exp M N / 16      shared memory 3 M N d / 8192  (sides in multiples of 128)
 *     backward   tensor 10 M N d / 8192     exp M N / 16      shared memory (4 M d + 3 N d + M N) / 64 + M N / 64 + M d / 16
 *
 * The shared-memory terms are not put in here: each product of the kernel reads its operands from where they are (shared memory,
 * registers, tensor memory), once per group of rows and columns that its instruction covers, and a walk of the kernel counts the
 * bytes. So the same program answers for the instructions of other chips: FlashAttention-2 with mma.sync on the A100,
 * FlashAttention-3 with wgmma on Hopper. The unit with the most cycles binds if everything overlaps; the timeline says what the
 * kernel as written here reaches. Left out, as in the paper: the other float32 work, registers, tensor-memory traffic, L2 and HBM
 * (the timeline has issue slots and copies).
 */
#include "support/chips.h"
#include "support/experiment.h"
#include "support/tile_account.h"
#include "support/timeline_view.h"

#include "sim/cost.h"

#include <string.h>

/* ---- chips ---- */

/* B300_MUFU: NVIDIA, Blackwell Ultra: twice the exponentials of a B200. FlashAttention-4 emulates none there (flash_attn/cute,
 * sm_103). */
typedef enum { A100, H100, H200, B200, B300, CHIPS } Chip;
enum { B300_MUFU = 32 };
static const char *const profile_names[CHIPS] = {"a100", "h100", "h200", "b200", "b200"};
static const char *const chip_names[CHIPS] = {"A100", "H100", "H200", "B200", "B200 (MUFU 32)"};
static const Algorithm *const kernels[2][CHIPS] = {
    {&algorithm_fa2, &algorithm_fa3, &algorithm_fa3, &algorithm_fa4, &algorithm_fa4}, /* forward */
    {&algorithm_fa2, &algorithm_fa2, &algorithm_fa2, &algorithm_fa4, &algorithm_fa4}, /* backward */
};
enum { FORWARD, BACKWARD, PASSES };
static const char *const pass_names[PASSES] = {"forward", "backward"};
static const BackwardVariant one_cta = {0}, two_ctas = {.two_ctas = true};

typedef struct {
    Profile all[CHIPS];
} Chips;

static bool load_with_b300(const Context *context, Chips *chips)
{
    if (load_chips(context, profile_names, CHIPS, false, chips->all) == 0) return false;
    chips->all[B300].mufu_ops_per_cycle_per_sm = B300_MUFU;
    return true;
}

/* 128 keys a tile where the real kernel has another number, so that all chips stand on the same tile. */
static AccountSetup setup_of(const Profile *chip, Chip which, int pass, uint64_t d)
{
    AccountSetup setup = {
        .algorithm = kernels[pass][which], .chip = chip, .d = d, .backward = pass == BACKWARD ? &one_cta : NULL};
    if (setup.algorithm == &algorithm_fa3 && d <= 128) setup.tiles = (TileSize){128, 128};
    return setup;
}

/* ---- the declarations ---- */

static const Column product_columns[] = {
    {"result", "", "tile that the product writes, in tensor memory"},
    {"left", "", "left operand"},
    {"left is in", "", "where the instruction finds it"},
    {"right", "", "right operand"},
    {"right is in", "", "where the instruction finds it"},
    {"tensor", "cycles", "2 M N K / rate"},
    {"shared", "cycles", "bytes of operands in shared memory / 128"},
};
static const TableSpec products_table = {"products", "Where the products find their operands", product_columns, 7};

static const Column account_columns[] = {
    {"chip", "", "profile; the last is a B200 with twice the MUFU rate, as the B300 has"},
    {"pass", "", "forward or backward"},
    {"d", "", "head dimension"},
    {"kernel", "", "walked on that chip"},
    {"tile", "", "query rows x keys of a block"},
    {"tensor", "cycles", "tensor cores, per 128 x 128 scores"},
    {"exp", "cycles", "MUFU"},
    {"shared", "cycles", "shared memory: operands, and in a backward pass P, dS and dQ"},
    {"exp/tensor", "", "above 1: exponentials take longer"},
    {"shared/tensor", "", "above 1: shared memory takes longer"},
    {"binds", "", "the unit with the most cycles"},
};
static const TableSpec accounts_table = {"accounts", "Cycles per 128 x 128 tile of scores", account_columns, 11};

static const Column paper_columns[] = {
    {"what", "", "one tile on a B200, d = 128"},
    {"tensor", "cycles", "walk"},
    {"exp", "cycles", "walk"},
    {"shared", "cycles", "walk"},
    {"paper", "", "the same three, as printed"},
    {"check", "", "walk against the paper"},
};
static const TableSpec paper_table = {"paper", "Against the paper (arXiv:2603.05451, Tables 1 and 3)", paper_columns, 6};

static const Column map_columns[] = {
    {"pass", "", "forward or backward (one CTA)"},
    {"d", "", "head dimension"},
    {"tensor FLOP", "per cycle", "of one SM"},
    {"MUFU 8", "", "who binds, and cycles per tile"},
    {"MUFU 16", "", "A100 to B200"},
    {"MUFU 32", "", "B300"},
    {"MUFU 64", "", "and beyond"},
};
static const TableSpec map_table = {
    "map", "Who binds, over MUFU rate and tensor rate (FlashAttention-4's kernels, 128 bytes of shared memory a cycle)",
    map_columns, 7};

static const Column doubling_columns[] = {
    {"pass", "", "forward or backward"},
    {"d", "", "head dimension"},
    {"doubled", "", "rate of a B200 that is doubled"},
    {"account", "cycles", "the longest unit of the account"},
    {"binds", "", "by the account"},
    {"timeline", "cycles", "per 128 x 128 tile, the kernel as written here"},
    {"faster", "x", "timeline of the B200 over this one"},
    {"critical path", "", "what it spends most on"},
};
static const TableSpec doubling_table = {"doubling", "What doubling one unit of a B200 would change", doubling_columns, 8};

static const TableSpec gantt_table = {"gantt", "One block of FlashAttention-4 on a B200", NULL, 0};

static const TableSpec *const tables[] = {&products_table, &paper_table,    &accounts_table,
                                          &map_table,      &doubling_table, &gantt_table};

#define PAPER "arXiv:2603.05451"

static const ClaimSpec claims[] = {
    {"S5.1-01", "5.1", "B200: BF16 FLOP per cycle and SM", "8192", VERDICT_EQUAL,
     "profile b200; 2.25e15 / (148 SMs x 1.85 GHz) = 8218", NULL},
    {"S5.1-02", "5.1", "H100: BF16 FLOP per cycle and SM", "4096", VERDICT_EQUAL, "profile h100, wgmma", NULL},
    {"S5.1-03", "5.1", "whole card, B200 and H100", "2.25 vs 1 PFLOP/s", VERDICT_CITED, "datasheets (profiles)", NULL},
    {"S5.1-04", "5.1", "B200: exponentials per cycle and SM", "16", VERDICT_CITED, PAPER, NULL},
    {"S5.1-05", "5.1", "shared memory, bytes per cycle and SM", "128", VERDICT_CITED, PAPER, NULL},
    {"S5.1-06", "5.1", "forward, M = N = d = 128: matrix products", "1024", VERDICT_EQUAL, "FLOP of the walk / 8192", NULL},
    {"S5.1-07", "5.1", "forward, M = N = d = 128: exponentials", "1024", VERDICT_EQUAL, "scores of the walk / 16", NULL},
    {"S5.1-08", "5.1", "forward, M = N = d = 128: shared memory", "768", VERDICT_EQUAL,
     "operand bytes of the walk / 128: Q 256 + K 256 + V 256", NULL},
    {"S5.1-09", "5.1", "backward, one CTA: matrix products", "2560", VERDICT_EQUAL, "FLOP of the walk / 8192", NULL},
    {"S5.1-10", "5.1", "backward, one CTA: shared memory", "3328", VERDICT_EQUAL,
     "bytes of the walk / 128: operands 2048 + dS 256 + dQ 1024", NULL},
    {"S5.1-11", "5.1", "backward, one CTA: shared memory over matrix products (also S5.4-04)", "30%", VERDICT_EQUAL,
     "3328 / 2560 - 1", NULL},
    {"S5.1-12", "5.1", "changes to the forward algorithm that slide 51 lists", "3", VERDICT_CITED, "quoted", NULL},
    {"S5.1-13", "5.1", "rescalings skipped", "90%", VERDICT_CITED,
     "slide 51; with 16 key blocks 1 - 1/16 if only the first rescales", NULL},
    {"R-A14", "5.1", "the forward pass is stuck at exp, d = 128", "exp", VERDICT_DIFFERS,
     "the larger of two of the walk's accounts", "tensor cores and exp tie at d = 128; exp alone binds below"},
    {"R-A14-h100", "5.1", "H100, BF16, d = 128: exp over matrix products", "0.5", VERDICT_EQUAL, "walk of FlashAttention-3",
     NULL},
    {"R-C5.1", "5.1", "the backward pass is stuck at shared memory, d = 128", "shared memory", VERDICT_EQUAL,
     "the largest account", NULL},
    {"R-D5.1", "5.1", "MUFU stays at 16 per cycle and SM", "16", VERDICT_DIFFERS, "published rates",
     "the B300 (sm_103) has 32; FlashAttention-4's kernel there emulates no exponentials"},
};

static const ProgramOption options[] = {{OPTION_HEAD_DIM, "32,64,96,128"}, {OPTION_GANTT, NULL}, {OPTION_TRACE, NULL}};

/* ---- the tables ---- */

static bool add_products(const Context *context, const Profile *b200, Report *report)
{
    ProductAccounts accounts;
    const AccountSetup setup = {.algorithm = &algorithm_fa4, .chip = b200, .d = 128, .tiles = {256, 128}};
    Table *table = report_table(report, &products_table);
    table_title(table, "Where the products of the forward pass find their operands (B200, one query tile of 128 x 128, d = 128)");
    if (!product_accounts(&accounts, &setup, context->alloc, context->status)) return false;
    for (size_t i = 0; i < accounts.count; i++) {
        table_row(table);
        product_cells(table, &accounts.products[i]);
    }
    table_note(table, "A 128 x 128 tile in BF16 is 32 KiB: 256 cycles. P never touches shared memory: the softmax warps leave it "
                      "in tensor memory.");
    table_note(table,
               "S_next = Q K^T and O = O + P V of two query tiles take turns, so a block of 256 rows reads K and V twice.");
    return true;
}

static void paper_row(Table *table, const char *what, const TileAccount *a, double scale, double exchange,
                      const uint64_t paper[3])
{
    const double ours[3] = {a->tensor * scale, a->exp * scale, a->shared * scale + exchange};
    table_row(table);
    cell_text(table, what);
    for (int i = 0; i < 3; i++) cell_decimals(table, ours[i], 0);
    cell_textf(table, "%" PRIu64 " / %" PRIu64 " / %" PRIu64, paper[0], paper[1], paper[2]);
    const bool same = ours[0] == (double)paper[0] && ours[1] == (double)paper[1] && ours[2] == (double)paper[2];
    cell_text(table, same ? "ok" : "differs");
    if (!same) report_mismatch(table->report, "%s: the walk differs from the paper's account", what);
}

/* The accounts that the claims are about. */
typedef struct {
    TileAccount forward, one, two, hopper;
} Accounts;

static bool published_accounts(const Context *context, const Chips *chips, Report *report, Accounts *a)
{
    const AccountSetup b200 = {.algorithm = &algorithm_fa4, .chip = &chips->all[B200], .d = 128};
    AccountSetup one = b200, two = b200;
    one.backward = &one_cta;
    two.backward = &two_ctas;
    const AccountSetup hopper = setup_of(&chips->all[H100], H100, FORWARD, 128);
    Alloc *alloc = context->alloc;
    Status *status = context->status;
    return tile_account(&a->forward, &b200, report, alloc, status) && tile_account(&a->one, &one, report, alloc, status) &&
           tile_account(&a->two, &two, report, alloc, status) && tile_account(&a->hopper, &hopper, report, alloc, status);
}

static void add_paper(Report *report, const Accounts *a)
{
    Table *table = report_table(report, &paper_table);
    paper_row(table, "forward, M = 128", &a->forward, 1, 0, (const uint64_t[]){1024, 1024, 768});
    paper_row(table, "forward, M = 256", &a->forward, 2, 0, (const uint64_t[]){2048, 2048, 1536});
    paper_row(table, "backward, one CTA", &a->one, 1, 0, (const uint64_t[]){2560, 1024, 3328});
    paper_row(table, "backward, two CTAs, each", &a->two, 1, EXCHANGE_CYCLES, (const uint64_t[]){2560, 1024, 2688});
    table_note(
        table,
        "The last row includes 384 cycles for the exchange of dS, which the paper prints without a formula; the walk has 2304.");
    table_note(table, "s5_4_backward_2cta takes the two backward rows apart.");
}

static bool add_accounts(const Context *context, const Chips *chips, Report *report)
{
    Table *table = report_table(report, &accounts_table);
    for (int pass = 0; pass < PASSES; pass++)
        for (size_t i = 0; i < options_point_count(context->options); i++)
            for (int c = 0; c < CHIPS; c++) {
                const uint64_t d = options_point(context->options, i).head_dim;
                const AccountSetup setup = setup_of(&chips->all[c], (Chip)c, pass, d);
                TileAccount a;
                if (c == H200 && pass == BACKWARD) continue; /* an SM like the H100's */
                if (!tile_account(&a, &setup, report, context->alloc, context->status)) return false;
                table_row(table);
                cell_text(table, chip_names[c]);
                cell_text(table, pass_names[pass]);
                cell_count(table, d);
                cell_text(table, setup.algorithm->name);
                cell_textf(table, "%u x %u", a.tiles.Br, a.tiles.Bc);
                cell_decimals(table, a.tensor, 0);
                cell_decimals(table, a.exp, 0);
                cell_decimals(table, a.shared, 0);
                cell_decimals(table, a.exp / a.tensor, 2);
                cell_decimals(table, a.shared / a.tensor, 2);
                cell_text(table, account_binds(a.tensor, a.exp, a.shared));
            }
    table_note(table,
               "From H100 to B200 the tensor cycles halve and the exponentials stay: exp/tensor goes from 0.5 to 1 at d = 128.");
    table_note(table, "It falls with d: an exponential is paid once per score, a product once per score and column.");
    table_note(table, "Shared memory has had 128 bytes a cycle since the A100; instructions that cover more rows made up for it: "
                      "K and V are read");
    table_note(table,
               "by every warp on the A100 (mma.sync), once per 64 rows on Hopper (wgmma), once per 128 on Blackwell (tcgen05).");
    table_note(
        table,
        "Hopper's backward is FlashAttention-2's, with mma.sync (2686 FLOP a cycle). FlashAttention-3 is shown with 128 keys.");
    table_note(table, "Tiles that do not fit (d > 128 on a B200) shrink; the real kernels then change shape, so do not read too "
                      "much into them.");
    return true;
}

/* ---- the map ---- */

static const uint64_t tensor_rates[] = {2048, 4096, 8192, 16384}, mufu_rates[] = {8, 16, 32, 64};
enum { RATES = 4 };

static const char *chip_at(uint64_t tensor, uint64_t mufu)
{
    if (mufu == 16) return tensor == 2048 ? " (A100)" : tensor == 4096 ? " (H100)" : tensor == 8192 ? " (B200)" : "";
    return mufu == 32 && tensor == 8192 ? " (B300)" : "";
}

static bool add_map(const Context *context, const Chips *chips, Report *report)
{
    static const uint64_t dims[] = {64, 128};
    Table *table = report_table(report, &map_table);
    const Profile *b200 = &chips->all[B200];
    for (int pass = 0; pass < PASSES; pass++)
        for (size_t i = 0; i < 2; i++) {
            const AccountSetup setup = setup_of(b200, B200, pass, dims[i]);
            TileAccount a;
            if (!tile_account(&a, &setup, report, context->alloc, context->status)) return false;
            for (int t = 0; t < RATES; t++) {
                const double tensor = a.tensor * 8192 / (double)tensor_rates[t];
                table_row(table);
                cell_text(table, pass_names[pass]);
                cell_count(table, dims[i]);
                cell_count(table, tensor_rates[t]);
                for (int m = 0; m < RATES; m++) {
                    const double exp = a.exp * 16 / (double)mufu_rates[m], most = tensor > exp ? tensor : exp;
                    cell_textf(table, "%s %.0f%s", account_binds(tensor, exp, a.shared), most > a.shared ? most : a.shared,
                               chip_at(tensor_rates[t], mufu_rates[m]));
                }
            }
        }
    table_note(table, "Doubling MUFU moves the B200 one column to the right, to the B300: forward at d = 64 in half the time; at "
                      "d = 128, where both");
    table_note(table, "were tied, it only makes room; backward nothing changes.");
    table_note(table, "Doubling the tensor cores once more (16,384, MUFU 16) would gain nothing: forward waits for exp, backward "
                      "for shared memory.");
    return true;
}

/* ---- doubling ---- */

typedef enum { NOTHING, MUFU, TENSOR, SHARED, ISSUE, DOUBLINGS } Doubling;
static const char *const doubling_names[DOUBLINGS] = {"nothing", "MUFU (B300)", "tensor cores", "shared memory",
                                                      "instruction issue"};

static Profile doubled(const Profile *b200, Doubling what)
{
    Profile chip = *b200;
    if (what == MUFU) chip.mufu_ops_per_cycle_per_sm *= 2;
    if (what == TENSOR) chip.tcgen05_bf16_flops_per_cycle_per_sm *= 2;
    if (what == SHARED) chip.smem_bytes_per_cycle_per_sm *= 2;
    if (what == ISSUE) {
        chip.issue_slots_per_cycle_per_sm *= 2;
        chip.issue_interval_millicycles_per_warp /= 2;
    }
    return chip;
}

static double longest(const TileAccount *a)
{
    const double most = a->tensor > a->exp ? a->tensor : a->exp;
    return most > a->shared ? most : a->shared;
}

static bool add_doubling(const Context *context, const Chips *chips, Report *report)
{
    static const uint64_t dims[] = {64, 128};
    Table *table = report_table(report, &doubling_table);
    for (int pass = 0; pass < PASSES; pass++)
        for (size_t i = 0; i < 2; i++) {
            double before = 0;
            for (int what = 0; what < DOUBLINGS; what++) {
                const Profile chip = doubled(&chips->all[B200], (Doubling)what);
                AccountSetup setup = setup_of(&chip, B200, pass, dims[i]);
                TileAccount a;
                setup.time = true;
                if (!tile_account(&a, &setup, report, context->alloc, context->status)) return false;
                if (what == NOTHING) before = a.timeline;
                table_row(table);
                cell_text(table, pass_names[pass]);
                cell_count(table, dims[i]);
                cell_text(table, doubling_names[what]);
                cell_decimals(table, longest(&a), 0);
                cell_text(table, account_binds(a.tensor, a.exp, a.shared));
                cell_significant(table, a.timeline, 3);
                cell_decimals(table, before / a.timeline, 2);
                cell_text(table, a.bound);
            }
        }
    table_note(table,
               "The account is a bound: all units overlap perfectly. The timeline has the chains too: a softmax warp issues an");
    table_note(table,
               "instruction every 2.7 cycles, and S of the next tile waits until P of this one has left its columns of tensor");
    table_note(table, "memory. So doubling the issue rate, which no account sees, gains most forward.");
    table_note(table, "The forward kernel here sends every exponential to MUFU and rescales O at every tile. The real one does "
                      "neither:");
    table_note(table, "attn fa4 --poly-share, --rescale-share and --threshold (5.2, 5.3).");
    table_note(table, "S, dP and dQ take shared memory as long as tensor cores; the path counts such a product as tensor cores.");
    return true;
}

/* ---- pictures ---- */

static bool add_gantt(const Context *context, const Profile *b200, Report *report)
{
    enum { SHOWN = 4 * 128 };
    Timeline timeline;
    const Options *o = context->options;
    if (!o->gantt && o->trace == NULL) return true;
    const RunSetup setup = {.algorithm = &algorithm_fa4, .profile = b200, .tiles = {256, 128}};
    AttentionShape shape = attention_shape(256, 128);
    shape.seqlen_k = SHOWN;
    bool ok = timeline_record_block(&timeline, &setup, &shape, NULL, NULL, context->alloc, context->status);
    if (ok && o->gantt) {
        Table *picture = report_table(report, &gantt_table);
        table_title(picture, "One block of FlashAttention-4 on a B200: 256 queries, 512 keys, d = 128 (%" PRIu64 " cycles)",
                    timeline.makespan);
        timeline_picture(picture, &timeline, timeline_scale(&timeline, timeline.makespan));
        timeline_legend(picture);
    }
    if (ok && o->trace != NULL)
        ok = timeline_trace(o->trace, "FlashAttention-4, one block on a B200", &timeline, context->alloc, context->status);
    timeline_free(&timeline);
    return ok;
}

/* ---- the claims ---- */

static void judge_claims(Report *report, const Chips *chips, const Accounts *a)
{
    const Profile *b200 = &chips->all[B200], *h100 = &chips->all[H100];
    claim_count(report, "S5.1-01", 8192, tensor_rate(b200, TENSOR_TCGEN05, ELEMENT_BF16), "");
    claim_count(report, "S5.1-02", 4096, tensor_rate(h100, TENSOR_WGMMA, ELEMENT_BF16), "");
    claim_cited(report, "S5.1-03", "%.2f and %.3f PFLOP/s", (double)b200->peak_bf16_flops_per_chip / 1e15,
                (double)h100->peak_bf16_flops_per_chip / 1e15);
    claim_cited(report, "S5.1-04", "%" PRIu64, b200->mufu_ops_per_cycle_per_sm);
    claim_cited(report, "S5.1-05", "%" PRIu64, b200->smem_bytes_per_cycle_per_sm);
    claim_decimals(report, "S5.1-06", 1024, 0, a->forward.tensor, " cycles");
    claim_decimals(report, "S5.1-07", 1024, 0, a->forward.exp, " cycles");
    claim_decimals(report, "S5.1-08", 768, 0, a->forward.shared, " cycles");
    claim_decimals(report, "S5.1-09", 2560, 0, a->one.tensor, " cycles");
    claim_decimals(report, "S5.1-10", 3328, 0, a->one.shared, " cycles");
    claim_decimals(report, "S5.1-11", 30, 0, 100 * (a->one.shared / a->one.tensor - 1), "%");
    claim_cited(report, "S5.1-12", "-");
    claim_cited(report, "S5.1-13", "93.75%% of 16 key blocks: all but the first");
    const char *forward = account_binds(a->forward.tensor, a->forward.exp, a->forward.shared);
    claim_holds(report, "R-A14", strcmp(forward, "exp") == 0, "%s (%.0f and %.0f cycles)", forward, a->forward.tensor,
                a->forward.exp);
    claim_decimals(report, "R-A14-h100", 0.5, 1, a->hopper.exp / a->hopper.tensor, "");
    const char *backward = account_binds(a->one.tensor, a->one.exp, a->one.shared);
    claim_holds(report, "R-C5.1", strcmp(backward, "shared") == 0, "%s (%.0f of %.0f tensor cycles)", backward, a->one.shared,
                a->one.tensor);
    claim_holds(report, "R-D5.1", b200->mufu_ops_per_cycle_per_sm == B300_MUFU, "B200 %" PRIu64 ", B300 %d",
                b200->mufu_ops_per_cycle_per_sm, B300_MUFU);
}

static bool run(Context *context, Report *report)
{
    Chips chips;
    Accounts accounts;
    if (!load_with_b300(context, &chips) || !published_accounts(context, &chips, report, &accounts)) return false;
    if (!add_products(context, &chips.all[B200], report)) return false;
    add_paper(report, &accounts);
    if (!add_accounts(context, &chips, report) || !add_map(context, &chips, report) || !add_doubling(context, &chips, report))
        return false;
    if (!add_gantt(context, &chips.all[B200], report)) return false;
    judge_claims(report, &chips, &accounts);
    return status_ok(context->status);
}

const Experiment experiment_s5_1_asymmetric = {
    .program =
        {
            .name = "s5_1_asymmetric",
            .purpose = "which unit of an SM binds attention on each chip, forward and backward (lecture 5.1)",
            .examples = {"", "--head-dim 32,64,128 --gantt"},
            .options = options,
            .option_count = sizeof options / sizeof options[0],
        },
    .report =
        {
            .section = "5.1",
            .title_en = "Asymmetric hardware scaling",
            .title_zh = "瓶颈又转移了：不对称扩展",
            .tables = tables,
            .table_count = sizeof tables / sizeof tables[0],
            .claims = claims,
            .claim_count = sizeof claims / sizeof claims[0],
        },
    .run = run,
};
