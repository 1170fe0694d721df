/* s2_8_dropout.c - lecture §2.8: dropout inside attention: store a seed, not a mask.
 *
 *     O = (P o Z / (1 - p)) V      Z_ij = 1 (kept) or 0 (dropped with probability p)
 *
 * The backward pass needs the same Z. Standard attention stores its N x N elements. FlashAttention stores two numbers, seed and
 * offset, and each pass asks a counter-based generator (Philox) for the elements of the tile at hand:
 *
 *     Z_ij = Philox(seed; offset, batch, head, i, j) >= p 2^32
 *
 * Nothing in it depends on tiles, loops or passes, so they agree by construction; the masks below are read out of the results of
 * the real kernels. Two rules more: l comes from the undropped P (the softmax is what is dropped from), and D from the dropped O,
 * because sum_k P_ik (Z_ik / (1 - p)) dO_i . V_k = dO_i . O_i. What this leaves out: the cost of the random numbers.
 */
#include "support/experiment.h"
#include "support/population.h"
#include "support/text.h"

#include "algos/run.h"
#include "sim/checked.h"
#include "sim/math_functions.h"

#include <math.h>
#include <string.h>

enum { LECTURE_N = 512, LECTURE_D = 64, LECTURE_BLOCK = 64, MAX_NUMERIC_N = 2048, MAX_SAMPLES = 200 };
static const double lecture_p = 0.1;

/* ---- one run: forward and backward ---- */

typedef struct {
    const Algorithm *algorithm;
    AttentionShape shape;
    TileSize forward, backward;
    BackwardVariant variant;
    bool random_inputs; /* from the dropout's seed; else the caller fills them */
    Mode mode;
    L2Model l2;
} Setup;

static AttentionShape dropped(uint64_t N, uint64_t d, double p, uint64_t seed, DropoutSource source)
{
    AttentionShape shape = attention_shape(N, d);
    shape.dtype = ELEMENT_F64;
    shape.dropout_source = source;
    shape.dropout = (Dropout){.p = p, .seed = seed};
    return shape;
}

/* attention_run_free is the caller's, also after a failure. */
static bool prepare(const Context *context, const Profile *machine, const Setup *s, AttentionRun *run)
{
    const RunSetup setup = {.algorithm = s->algorithm,
                            .profile = machine,
                            .tiles = s->forward,
                            .config = {.mode = s->mode, .l2 = s->l2, .precision = PRECISION_F64}};
    *run = (AttentionRun){.setup = setup};
    return attention_run_prepare(run, &setup, &s->shape, context->alloc, context->status) &&
           attention_run_prepare_backward(run, s->backward, s->variant);
}

static bool compute(const Context *context, const Profile *machine, const Setup *s, AttentionRun *run)
{
    if (!prepare(context, machine, s, run)) return false;
    if (s->random_inputs) attention_random_inputs(&run->attention, &run->machine, s->shape.dropout.seed);
    return attention_run_forward(run) && attention_run_backward(run);
}

/* ---- against the stored mask ---- */

enum { RESULTS = 4 };
static const char *const result_names[RESULTS] = {"O", "dQ", "dK", "dV"};

/* max |seed - stored mask| of each result and sample; the largest of the four last. */
typedef struct {
    Population population;
    double samples[RESULTS + 1][MAX_SAMPLES];
} Errors;

static bool measure_sample(const Context *context, const Profile *machine, const Population *p, uint64_t sample, Errors *errors)
{
    AttentionRun seeded, stored;
    const uint64_t seed = p->seed + sample;
    const Setup a = {.algorithm = &algorithm_fa2,
                     .shape = dropped(p->N, p->d, p->dropout, seed, DROPOUT_SEED),
                     .forward = p->tiles,
                     .backward = p->tiles,
                     .variant = {.direct_dq = true},
                     .random_inputs = true,
                     .mode = MODE_NUMERIC};
    Setup b = a;
    b.algorithm = &algorithm_standard;
    b.shape.dropout_source = DROPOUT_STORED;
    const bool ok1 = compute(context, machine, &a, &seeded), ok2 = compute(context, machine, &b, &stored);
    if (ok1 && ok2) {
        const Attention *x = &seeded.attention, *y = &stored.attention;
        const Tensor *const left[RESULTS] = {x->O, x->dQ, x->dK, x->dV}, *const right[RESULTS] = {y->O, y->dQ, y->dK, y->dV};
        double worst = 0.0;
        for (size_t r = 0; r < RESULTS; r++) {
            errors->samples[r][sample] = largest_difference(&seeded.machine, left[r], &stored.machine, right[r]);
            worst = fmax(worst, errors->samples[r][sample]);
        }
        errors->samples[RESULTS][sample] = worst;
    }
    attention_run_free(&seeded);
    attention_run_free(&stored);
    return ok1 && ok2;
}

static bool measure(const Context *context, const Profile *machine, const Population *p, Errors *errors)
{
    errors->population = *p;
    for (uint64_t s = 0; s < p->samples; s++)
        if (!measure_sample(context, machine, p, s, errors)) return false;
    return true;
}

static Range range_of(const Errors *errors, size_t result)
{
    double values[MAX_SAMPLES];
    memcpy(values, errors->samples[result], sizeof values);
    return range_of_errors(values, (size_t)errors->population.samples);
}

/* ---- the masks that the kernels used, read out of their results ----
 *
 * With Q = 0 every P_ij is 1/N. With V_kc = 2^(k mod 8) for k / 8 = c, else 0, column c of O holds the keep bits of eight keys,
 * 8c and on, as a number, times 1 / (N (1 - p)). With the same pattern in dO, dV_jc holds the bits of query rows 8c and on. */

typedef struct {
    uint64_t N;
    unsigned char *forward, *backward; /* [N][N], 1: kept */
} Masks;

static void fill_bits(const AttentionRun *run, Tensor *tensor, uint64_t N, uint64_t d)
{
    for (uint64_t row = 0; row < N; row++) tensor_set(&run->machine, tensor, row * d + row / 8, (double)(1 << row % 8));
}

static void decode(const AttentionRun *run, const Tensor *tensor, uint64_t N, uint64_t d, double p, bool transposed,
                   unsigned char *mask)
{
    for (uint64_t row = 0; row < N; row++)
        for (uint64_t other = 0; other < N; other++) {
            const double number = tensor_value(&run->machine, tensor, row * d + other / 8) * (double)N * (1.0 - p);
            const unsigned bits = (unsigned)(number + 0.5);
            mask[transposed ? other * N + row : row * N + other] = (unsigned char)(bits >> other % 8 & 1);
        }
}

/* The caller frees the masks, also after a failure. */
static bool read_masks(const Context *context, const Profile *machine, uint64_t N, const Dropout *dropout, TileSize forward,
                       TileSize backward, bool by_queries, Masks *masks)
{
    AttentionRun run;
    const uint64_t d = ceil_div(N, 8);
    const Setup s = {.algorithm = &algorithm_fa2,
                     .shape = dropped(N, d, dropout->p, dropout->seed, DROPOUT_SEED),
                     .forward = forward,
                     .backward = backward,
                     .variant = {.query_blocks_outside = by_queries},
                     .mode = MODE_NUMERIC};
    *masks = (Masks){.N = N};
    masks->forward = alloc_array(context->alloc, N * N, 1, "the mask of the forward pass", context->status);
    masks->backward = alloc_array(context->alloc, N * N, 1, "the mask of the backward pass", context->status);
    bool ok = prepare(context, machine, &s, &run) && masks->forward != NULL && masks->backward != NULL;
    if (ok) {
        fill_bits(&run, run.attention.V, N, d);
        fill_bits(&run, run.attention.dO, N, d);
        ok = attention_run_forward(&run) && attention_run_backward(&run);
    }
    if (ok) {
        decode(&run, run.attention.O, N, d, dropout->p, false, masks->forward);
        decode(&run, run.attention.dV, N, d, dropout->p, true, masks->backward);
    }
    attention_run_free(&run);
    return ok;
}

static void free_masks(const Context *context, Masks *masks)
{
    alloc_free(context->alloc, masks->forward);
    alloc_free(context->alloc, masks->backward);
}

typedef struct {
    uint64_t kept, passes_differ, full_differs;
} MaskCounts;

/* The two masks against each other and against the definition, element by element. */
static MaskCounts compare_masks(const Masks *m, const Dropout *dropout)
{
    MaskCounts counts = {0};
    for (uint64_t i = 0; i < m->N; i++)
        for (uint64_t j = 0; j < m->N; j++) {
            const unsigned char forward = m->forward[i * m->N + j];
            counts.kept += forward;
            counts.passes_differ += forward != m->backward[i * m->N + j];
            counts.full_differs += forward != dropout_keeps(dropout, 0, i, j);
        }
    return counts;
}

/* ---- the declarations ---- */

static const TableSpec mask_picture = {"mask", "One mask from two loop orders (# kept, . dropped), N = 32", NULL, 0};

static const Column mask_columns[] = {
    {"N", "", "sequence length"},
    {"forward tiles", "", "Br x Bc, query blocks outside"},
    {"backward tiles", "", "Br x Bc"},
    {"backward order", "", "which blocks are outside"},
    {"elements", "", "N^2"},
    {"kept", "", "read out of O"},
    {"backward differs", "", "elements in which the mask read out of dV is another"},
    {"full mask differs", "", "elements in which the mask generated all at once is another"},
};
static const TableSpec mask_table = {"masks", "The masks that the kernels used, read out of O and dV", mask_columns, 8};

static const Column error_columns[] = {
    {"N", "", "sequence length"},
    {"d", "", "head dimension"},
    {"p", "", "probability of being dropped"},
    {"result", "", "of FlashAttention-2 from a seed"},
    {"samples", "", "random inputs and masks (--batch)"},
    {"smallest", "", "max |seed - stored mask|, in the best sample"},
    {"median", "", "over the samples"},
    {"largest", "", "in the worst sample"},
};
static const TableSpec error_table = {"errors", "Against standard attention with the whole mask stored, float64", error_columns,
                                      8};

static const Column byte_columns[] = {
    {"N", "", "sequence length"},
    {"algorithm", "", "standard attention or FlashAttention-2"},
    {"mask", "", "from a seed, or stored, a byte per element"},
    {"mask written", "bytes", "HBM, counted by the walk"},
    {"read forward", "bytes", "HBM, counted by the walk"},
    {"read backward", "bytes", "HBM, counted by the walk"},
    {"kept", "bytes", "between the passes: seed and offset, or the mask"},
    {"HBM", "bytes", "all that both passes move, ideal L2"},
    {"more", "%", "than with the seed"},
};
static const TableSpec byte_table = {"bytes", "What storing the mask costs (one head, FP16, ideal L2)", byte_columns, 9};

static const Column kept_columns[] = {
    {"p", "", "probability of being dropped"},
    {"1 - p", "", "share to be kept"},
    {"kept", "", "share of 256 x 256 elements"},
    {"deviation", "sigma", "(kept - (1 - p)) / sqrt(p (1 - p) / n)"},
    {"8 bits keep", "", "(floor(255 (1 - p)) + 1) / 256: FlashAttention-2 as shipped compares 8 random bits"},
    {"8 bits drop", "", "1 - that"},
    {"over p", "x", "the drop rate that 8 bits give over the one asked for"},
};
static const TableSpec kept_table = {"kept", "How many are kept", kept_columns, 7};

static const Column other_columns[] = {
    {"compared with", "", "seed s, offset 0, batch 0, head 0"},
    {"agree", "%", "of 128 x 128 elements"},
    {"expected", "%", "100, or 1 - 2p(1 - p) for an independent mask"},
};
static const TableSpec other_table = {"others", "Which masks are the same", other_columns, 3};

static const Column rule_columns[] = {
    {"computed by", "", "N = 2, d = 1, p = 0.5; q = 1, 2; k = 0.5, -0.5; v = 3, 7; key 1 of row 0 dropped; dO = 1"},
    {"O 0", "", "row 0"},
    {"O 1", "", "row 1"},
    {"L 0", "", "logsumexp of row 0"},
    {"L 1", "", "logsumexp of row 1"},
    {"dQ 0", "", "row 0"},
    {"dQ 1", "", "row 1"},
    {"dK 0", "", "row 0"},
    {"dK 1", "", "row 1"},
    {"dV 0", "", "row 0"},
    {"dV 1", "", "row 1"},
};
static const TableSpec rule_table = {"rules", "l from the undropped P, D from the dropped O: what goes wrong otherwise",
                                     rule_columns, 11};

static const TableSpec *const tables[] = {&mask_picture, &mask_table,  &error_table, &byte_table,
                                          &kept_table,   &other_table, &rule_table};

static const ClaimSpec claims[] = {
    {"2.8-1", "2.8", "O, dQ, dK, dV from the seed against the stored mask, N=512, d=64, p=0.1, float64", "1.3e-15", VERDICT_CLOSE,
     "band: our spread over 200 seeds (--batch 200); the largest of the four", NULL},
    {"2.8-2", "2.8", "forward by query blocks (64 x 64) and backward by key blocks (128 x 32) see one mask, N=512", "identical",
     VERDICT_EQUAL, "read out of O and dV: no element differs", NULL},
    {"2.8-3", "2.8", "stored for dropout", "seed and offset", VERDICT_EQUAL,
     "walks: bytes of a stored mask with and without a seed", NULL},
    {"R-2.8-blocks", "2.8", "a mask that depends on (seed, block i, block j) is the same in both passes", "same", VERDICT_DIFFERS,
     "a generator per block, tiles 64 x 64 and 128 x 32: share of elements that agree",
     "only with the same tiles in both passes; shipped FA2 has 128 x 64 and 128 x 128 at d = 64, so real kernels count per "
     "element"},
};

static const ProgramOption options[] = {{OPTION_BATCH, "1"},    {OPTION_SEQLEN, "512"}, {OPTION_HEAD_DIM, "64"},
                                        {OPTION_BLOCK_Q, "64"}, {OPTION_BLOCK_K, "64"}, {OPTION_DROPOUT, "0.1"}};

/* ---- the masks ---- */

/* A row of the mask with a bar where a tile ends. */
static void mask_line(char *line, const unsigned char *row, uint64_t N, uint32_t Bc)
{
    for (uint64_t j = 0; j < N; j++) {
        if (j > 0 && j % Bc == 0) *line++ = '|';
        *line++ = row[j] ? '#' : '.';
    }
    *line = '\0';
}

static void rule_line(char *line, uint64_t N, uint32_t Bc)
{
    for (uint64_t j = 0; j < N; j++) {
        if (j > 0 && j % Bc == 0) *line++ = '+';
        *line++ = '-';
    }
    *line = '\0';
}

static void draw_masks(Table *picture, const Masks *m, TileSize forward, TileSize backward)
{
    char left[128], right[128], rule[128];
    picture_line(picture, "forward: query blocks of %-2u outside,    backward: key blocks of %u outside,", forward.Br,
                 backward.Bc);
    picture_line(picture, "keys in blocks of %-2u, along a row       queries in blocks of %u, down a column", forward.Bc,
                 backward.Br);
    for (uint64_t i = 0; i < m->N; i++) {
        const bool left_ends = i > 0 && i % forward.Br == 0, right_ends = i > 0 && i % backward.Br == 0;
        mask_line(left, &m->forward[i * m->N], m->N, forward.Bc);
        mask_line(right, &m->backward[i * m->N], m->N, backward.Bc);
        if (left_ends || right_ends) {
            rule_line(rule, m->N, forward.Bc);
            const int width = (int)strlen(rule);
            char other[128];
            rule_line(other, m->N, backward.Bc);
            picture_line(picture, "%-*s     %s", width, left_ends ? rule : "", right_ends ? other : "");
        }
        picture_line(picture, "%s     %s", left, right);
    }
}

static bool add_picture(const Context *context, const Profile *machine, Report *report, const Dropout *dropout)
{
    const TileSize forward = {16, 8}, backward = {8, 16};
    Masks masks;
    Table *picture = report_table(report, &mask_picture);
    const bool ok = read_masks(context, machine, 32, dropout, forward, backward, false, &masks);
    if (ok) {
        draw_masks(picture, &masks, forward, backward);
        report_check(report, compare_masks(&masks, dropout).passes_differ, 0, "elements in which the two masks differ");
        table_note(
            picture,
            "Not two drawings of one array: the left mask is read out of O, the right one out of dV. Lines are tile borders.");
    }
    free_masks(context, &masks);
    return ok;
}

static const struct {
    uint64_t N;
    TileSize forward, backward;
    bool by_queries;
} mask_cases[] = {{LECTURE_N, {64, 64}, {128, 32}, false},
                  {128, {16, 16}, {32, 64}, false},
                  {128, {128, 128}, {1, 128}, false},
                  {100, {64, 48}, {33, 7}, true}};

static bool add_masks(const Context *context, const Profile *machine, Report *report, const Dropout *dropout)
{
    Table *table = report_table(report, &mask_table);
    for (size_t i = 0; i < sizeof mask_cases / sizeof mask_cases[0]; i++) {
        Masks masks;
        const TileSize f = mask_cases[i].forward, b = mask_cases[i].backward;
        const bool ok = read_masks(context, machine, mask_cases[i].N, dropout, f, b, mask_cases[i].by_queries, &masks);
        if (ok) {
            const MaskCounts counts = compare_masks(&masks, dropout);
            table_row(table);
            cell_count(table, masks.N);
            cell_textf(table, "%u x %u", f.Br, f.Bc);
            cell_textf(table, "%u x %u", b.Br, b.Bc);
            cell_text(table, mask_cases[i].by_queries ? "query blocks" : "key blocks");
            cell_count(table, masks.N * masks.N);
            cell_count(table, counts.kept);
            cell_count(table, counts.passes_differ);
            cell_count(table, counts.full_differs);
            report_check(report, counts.passes_differ + counts.full_differs, 0, "elements in which masks differ");
        }
        free_masks(context, &masks);
        if (!ok) return false;
    }
    table_note(table, "Read out with Q = 0 (then P = 1/N) and powers of two in V and dO, so that each element of O and dV "
                      "carries eight keep bits.");
    return true;
}

/* ---- against the stored mask ---- */

static void error_rows(Table *table, const Errors *errors)
{
    for (size_t r = 0; r <= RESULTS; r++) {
        const Range range = range_of(errors, r);
        table_row(table);
        cell_count(table, errors->population.N);
        cell_count(table, errors->population.d);
        cell_significant(table, errors->population.dropout, 3);
        cell_text(table, r < RESULTS ? result_names[r] : "largest of the four");
        cell_count(table, errors->population.samples);
        cell_significant(table, range.low, 2);
        cell_significant(table, range.median, 2);
        cell_significant(table, range.high, 2);
    }
}

static bool add_errors(const Context *context, const Profile *machine, Report *report, const Errors *lecture, Errors *scratch)
{
    const Options *o = context->options;
    Table *table = report_table(report, &error_table);
    for (size_t i = 0; i < options_point_count(o); i++) {
        const OptionPoint point = options_point(o, i);
        const Population p = {
            point.seqlen, point.head_dim, point.batch, o->seed, {(uint32_t)point.block_q, (uint32_t)point.block_k}, o->dropout};
        if (p.N > MAX_NUMERIC_N) {
            table_note(table, "N = %" PRIu64 " is counted, not computed: the reference holds N x N matrices (at most %d).", p.N,
                       MAX_NUMERIC_N);
            continue;
        }
        const bool known = same_population(&p, &lecture->population);
        if (!known && !measure(context, machine, &p, scratch)) return false;
        error_rows(table, known ? lecture : scratch);
    }
    table_note(table, "The reference writes Z once and reads it in O = P V, dV = PT dO and dP; the kernel under test generates "
                      "it twice. The rest is rounding.");
    return true;
}

/* ---- bytes ---- */

typedef struct {
    uint64_t written, read_forward, read_backward, kept, moved;
} MaskBytes;

static void add_ledger(const AttentionRun *run, uint64_t *read, MaskBytes *bytes)
{
    for (uint32_t i = 0; i < run->machine.ledger_count; i++) {
        const LedgerRow *row = &run->machine.ledger[i];
        if (row->tensor != run->attention.Z) continue;
        *read += row->traffic.hbm_read * element_bytes(row->tensor->type);
        bytes->written += row->traffic.hbm_write * element_bytes(row->tensor->type);
    }
    bytes->moved += run->totals.hbm_read_bytes + run->totals.hbm_write_bytes;
}

static void check_all(Report *report, const AttentionRun *run)
{
    CountPair pairs[COUNT_PAIRS];
    count_pairs(&run->totals, &run->closed_form, pairs);
    for (size_t i = 0; i < COUNT_PAIRS; i++) report_check(report, pairs[i].counted, pairs[i].formula, pairs[i].name);
}

static bool count_bytes(const Context *context, const Profile *machine, Report *report, const Algorithm *algorithm,
                        const AttentionShape *shape, TileSize tiles, MaskBytes *bytes)
{
    AttentionRun run;
    const Setup s = {
        .algorithm = algorithm, .shape = *shape, .forward = tiles, .backward = tiles, .mode = MODE_COUNT, .l2 = L2_IDEAL};
    *bytes = (MaskBytes){0};
    bool ok = prepare(context, machine, &s, &run) && attention_run_forward(&run);
    if (ok) {
        check_all(report, &run);
        add_ledger(&run, &bytes->read_forward, bytes);
        ok = attention_run_backward(&run);
    }
    if (ok) {
        check_all(report, &run);
        add_ledger(&run, &bytes->read_backward, bytes);
        const Tensor *Z = run.attention.Z;
        const Dropout *dropout = &run.attention.shape.dropout;
        bytes->kept = Z != NULL ? tensor_elements(Z) * element_bytes(Z->type) : sizeof dropout->seed + sizeof dropout->offset;
    }
    attention_run_free(&run);
    return ok;
}

static void byte_row(Table *table, uint64_t N, const char *algorithm, const char *mask, const MaskBytes *b, uint64_t base)
{
    table_row(table);
    cell_count(table, N);
    cell_text(table, algorithm);
    cell_text(table, mask);
    cell_count(table, b->written);
    cell_count(table, b->read_forward);
    cell_count(table, b->read_backward);
    cell_count(table, b->kept);
    cell_count(table, b->moved);
    cell_decimals(table, base > 0 ? 100 * ((double)b->moved / (double)base - 1) : 0.0, 1);
}

static bool byte_rows(const Context *context, const Profile *machine, Table *table, const Algorithm *algorithm, const char *name,
                      const OptionPoint *point)
{
    const TileSize tiles = {(uint32_t)point->block_q, (uint32_t)point->block_k};
    AttentionShape shape =
        dropped(point->seqlen, point->head_dim, context->options->dropout, context->options->seed, DROPOUT_SEED);
    MaskBytes seeded, stored;
    shape.dtype = ELEMENT_FP16;
    if (!count_bytes(context, machine, table->report, algorithm, &shape, tiles, &seeded)) return false;
    shape.dropout_source = DROPOUT_STORED;
    if (!count_bytes(context, machine, table->report, algorithm, &shape, tiles, &stored)) return false;
    byte_row(table, point->seqlen, name, "seed", &seeded, seeded.moved);
    byte_row(table, point->seqlen, name, "stored", &stored, seeded.moved);
    return true;
}

static bool add_bytes(const Context *context, const Profile *machine, Report *report)
{
    Table *table = report_table(report, &byte_table);
    AttentionShape layer = dropped(1024, 64, lecture_p, 1, DROPOUT_STORED);
    MaskBytes kept;
    char text[NUMBER_SIZE];
    layer.dtype = ELEMENT_FP16;
    layer.batch = 64;
    layer.heads = layer.kv_heads = 16;
    for (size_t i = 0; i < options_point_count(context->options); i++) {
        const OptionPoint point = options_point(context->options, i);
        if (!byte_rows(context, machine, table, &algorithm_standard, "standard", &point) ||
            !byte_rows(context, machine, table, &algorithm_fa2, "FA2", &point))
            return false;
    }
    if (!count_bytes(context, machine, report, &algorithm_fa2, &layer, (TileSize){128, 128}, &kept)) return false;
    table_note(table,
               "The seed is 8 bytes and the offset 4, for all heads together. A layer of 64 x 16 heads at N = 1024 keeps a mask "
               "of %s otherwise,",
               format_bytes(text, kept.kept));
    table_note(table, "half of its P. For FlashAttention-2 the mask would be the only N x N array; one bit per element would be "
                      "an eighth of this.");
    return true;
}

/* ---- statistics of the masks ---- */

static void add_kept(Report *report, uint64_t seed)
{
    static const double probabilities[] = {0.001, 0.01, 0.1, 0.2, 0.5};
    enum { SIDE = 256 };
    Table *table = report_table(report, &kept_table);
    for (size_t i = 0; i < sizeof probabilities / sizeof probabilities[0]; i++) {
        const double p = probabilities[i], n = (double)SIDE * SIDE;
        const Dropout dropout = {.p = p, .seed = seed};
        uint64_t kept = 0;
        for (uint64_t row = 0; row < SIDE; row++)
            for (uint64_t col = 0; col < SIDE; col++) kept += dropout_keeps(&dropout, 0, row, col);
        const double share = (double)kept / n, deviation = (share - (1 - p)) / sqrt(p * (1 - p) / n),
                     eight = (floor(255 * (1 - p)) + 1) / 256;
        table_row(table);
        cell_significant(table, p, 3);
        cell_significant(table, 1 - p, 4);
        cell_decimals(table, share, 6);
        cell_decimals(table, deviation, 2);
        cell_decimals(table, eight, 6);
        cell_decimals(table, 1 - eight, 6);
        cell_decimals(table, (1 - eight) / p, 2);
        if (fabs(deviation) > 5) report_mismatch(report, "the share of kept elements is %.1f sigma off at p = %g", deviation, p);
    }
    table_note(table, "Here 32 random bits decide. FlashAttention-2 as shipped takes 8 of them: 230/256 are kept at p = 0.1, and "
                      "at p = 0.001 four times too");
    table_note(table, "many are dropped, while 1/(1 - p) is scaled for the p that was asked for.");
}

static double agreement(const Dropout *a, const Dropout *b, uint64_t head)
{
    enum { SIDE = 128 };
    uint64_t same = 0;
    for (uint64_t row = 0; row < SIDE; row++)
        for (uint64_t col = 0; col < SIDE; col++) same += dropout_keeps(a, 0, row, col) == dropout_keeps(b, head, row, col);
    return 100.0 * (double)same / (SIDE * SIDE);
}

/* A generator of its own for each block (seed, i, j), counting within the block: what a mask per block would be. */
static bool block_keeps(const Dropout *dropout, TileSize tiles, uint64_t row, uint64_t col)
{
    Dropout block = *dropout;
    block.seed += UINT64_C(1000003) * (row / tiles.Br) + UINT64_C(7919) * (col / tiles.Bc);
    return dropout_keeps(&block, 0, row % tiles.Br, col % tiles.Bc);
}

static double block_agreement(const Dropout *dropout, TileSize a, TileSize b)
{
    enum { SIDE = 128 };
    uint64_t same = 0;
    for (uint64_t row = 0; row < SIDE; row++)
        for (uint64_t col = 0; col < SIDE; col++) same += block_keeps(dropout, a, row, col) == block_keeps(dropout, b, row, col);
    return 100.0 * (double)same / (SIDE * SIDE);
}

static void other_row(Table *table, const char *name, double agrees, double expected)
{
    table_row(table);
    cell_text(table, name);
    cell_decimals(table, agrees, 1);
    cell_decimals(table, expected, 1);
}

static void add_others(Report *report, const Dropout *dropout)
{
    const TileSize square = {64, 64}, wide = {128, 32};
    const double p = dropout->p, independent = 100 * (1 - 2 * p * (1 - p));
    Dropout seed = *dropout, offset = *dropout;
    seed.seed++;
    offset.offset++;
    Table *table = report_table(report, &other_table);
    other_row(table, "the same numbers again", agreement(dropout, dropout, 0), 100);
    other_row(table, "another head or batch", agreement(dropout, dropout, 1), independent);
    other_row(table, "another offset: the next step of training", agreement(dropout, &offset, 0), independent);
    other_row(table, "another seed", agreement(dropout, &seed, 0), independent);
    other_row(table, "a generator per block, tiles 64 x 64 in both passes", block_agreement(dropout, square, square), 100);
    other_row(table, "a generator per block, tiles 64 x 64 and 128 x 32", block_agreement(dropout, square, wide), independent);
    table_note(table, "A mask per block (seed, i, j) needs the same tiles in both passes. (The last line lies above 82 because "
                      "the first blocks begin alike.)");
}

/* ---- where dropout enters ---- */

/* The textbook on two rows; the two mistakes are switches. */
typedef struct {
    double O[2], L[2], dQ[2], dK[2], dV[2];
} TwoRows;
typedef enum { AS_DEFINED, D_UNDROPPED, L_AFTER_DROPOUT } Mistake;

static const double two_k[2] = {0.5, -0.5}, two_v[2] = {3, 7}, two_keep[2][2] = {{2, 0}, {2, 2}}; /* Z / (1 - p) at p = 0.5 */

static TwoRows two_rows(const double q[2], Mistake mistake)
{
    TwoRows x = {.O = {0}};
    for (int i = 0; i < 2; i++) {
        double e[2], l = 0, undropped = 0;
        for (int j = 0; j < 2; j++) {
            e[j] = exp_f64(q[i] * two_k[j]);
            l += mistake == L_AFTER_DROPOUT ? e[j] * two_keep[i][j] : e[j];
        }
        for (int j = 0; j < 2; j++) {
            x.O[i] += e[j] / l * two_keep[i][j] * two_v[j];
            undropped += e[j] / l * two_v[j];
        }
        x.L[i] = log_f64(l);
        const double D = mistake == D_UNDROPPED ? undropped : x.O[i];
        for (int j = 0; j < 2; j++) {
            const double dS = e[j] / l * (two_keep[i][j] * two_v[j] - D);
            x.dQ[i] += dS * two_k[j];
            x.dK[j] += dS * q[i];
            x.dV[j] += e[j] / l * two_keep[i][j];
        }
    }
    return x;
}

static void number_cells(Table *table, const double *numbers, bool there)
{
    for (int i = 0; i < 2; i++) {
        if (there)
            cell_decimals(table, numbers[i], 6);
        else
            cell_empty(table);
    }
}

typedef enum { ALL, FORWARD_ONLY, DQ_ONLY } Shown;

static void rule_row(Table *table, const char *name, const TwoRows *x, Shown shown)
{
    table_row(table);
    cell_text(table, name);
    number_cells(table, x->O, shown != DQ_ONLY);
    number_cells(table, x->L, shown != DQ_ONLY);
    number_cells(table, x->dQ, shown != FORWARD_ONLY);
    number_cells(table, x->dK, shown == ALL);
    number_cells(table, x->dV, shown == ALL);
}

/* The sum of O is the loss, because dO = 1. */
static TwoRows central_difference(const double q[2])
{
    const double h = 1e-5;
    TwoRows x = {.O = {0}};
    for (int i = 0; i < 2; i++) {
        double up[2] = {q[0], q[1]}, down[2] = {q[0], q[1]};
        up[i] += h;
        down[i] -= h;
        const TwoRows a = two_rows(up, AS_DEFINED), b = two_rows(down, AS_DEFINED);
        x.dQ[i] = (a.O[0] + a.O[1] - b.O[0] - b.O[1]) / (2 * h);
    }
    return x;
}

/* FlashAttention-2 on the same numbers, one element per tile. */
static bool kernel_rows(const Context *context, const Profile *machine, const double q[2], TwoRows *x)
{
    AttentionRun run;
    Setup s = {.algorithm = &algorithm_fa2,
               .shape = dropped(2, 1, 0.5, 1, DROPOUT_GIVEN),
               .forward = {1, 1},
               .backward = {1, 1},
               .variant = {.direct_dq = true},
               .mode = MODE_NUMERIC};
    s.shape.softmax_scale = 1.0;
    bool ok = prepare(context, machine, &s, &run);
    const Attention *a = &run.attention;
    const Machine *m = &run.machine;
    for (uint64_t i = 0; ok && i < 2; i++) {
        tensor_set(m, a->Q, i, q[i]);
        tensor_set(m, a->K, i, two_k[i]);
        tensor_set(m, a->V, i, two_v[i]);
        tensor_set(m, a->dO, i, 1.0);
        for (uint64_t j = 0; j < 2; j++) tensor_set(m, a->Z, 2 * i + j, two_keep[i][j] > 0 ? 1.0 : 0.0);
    }
    ok = ok && attention_run_forward(&run) && attention_run_backward(&run);
    for (uint64_t i = 0; ok && i < 2; i++) {
        x->O[i] = tensor_value(m, a->O, i);
        x->L[i] = tensor_value(m, a->L, i);
        x->dQ[i] = tensor_value(m, a->dQ, i);
        x->dK[i] = tensor_value(m, a->dK, i);
        x->dV[i] = tensor_value(m, a->dV, i);
    }
    attention_run_free(&run);
    return ok;
}

static bool add_rules(const Context *context, const Profile *machine, Report *report)
{
    const double q[2] = {1, 2};
    TwoRows kernel = {.O = {0}};
    if (!kernel_rows(context, machine, q, &kernel)) return false;
    const TwoRows defined = two_rows(q, AS_DEFINED), difference = central_difference(q), wrong_D = two_rows(q, D_UNDROPPED),
                  wrong_l = two_rows(q, L_AFTER_DROPOUT);
    Table *table = report_table(report, &rule_table);
    rule_row(table, "FlashAttention-2", &kernel, ALL);
    rule_row(table, "the definition", &defined, ALL);
    rule_row(table, "central differences", &difference, DQ_ONLY);
    rule_row(table, "wrong: D = rowsum(dO o O), O without dropout", &wrong_D, ALL);
    rule_row(table, "wrong: l = sum of what is kept, / (1 - p)", &wrong_l, FORWARD_ONLY);
    for (int i = 0; i < 2; i++)
        if (fabs(kernel.O[i] - defined.O[i]) + fabs(kernel.dQ[i] - defined.dQ[i]) + fabs(kernel.dQ[i] - difference.dQ[i]) > 1e-8)
            report_mismatch(report, "dropout on two rows: the kernel's O or dQ is not the definition's in row %d", i);
    table_note(table, "A wrong D leaves O, L and dV right, so only a gradient check finds it. A wrong l undoes the dropout: row "
                      "0 keeps one key and would");
    table_note(table, "weigh it with 1, and a row that keeps none would be 0/0.");
    return true;
}

/* ---- the claims, at the lecture's shape ---- */

/* Smallest and largest over 200 samples, one more in the second digit on either side:
 *     s2_8_dropout --batch 200        (ten seconds) */
static const double spread_low = 7.1e-16, spread_high = 2.5e-15, lecture_error = 1.3e-15;

static void judge_error(Report *report, const Errors *x)
{
    const double ours = range_of(x, RESULTS).median;
    if (lecture_error < spread_low || lecture_error > spread_high)
        claim_holds(report, "2.8-1", false, "%.1e (our spread %.1e to %.1e)", ours, spread_low, spread_high);
    else
        claim_close(report, "2.8-1", spread_low, spread_high, ours, 2, "");
}

static bool judge_claims(const Context *context, const Profile *machine, Report *report)
{
    const Dropout dropout = {.p = lecture_p, .seed = context->options->seed};
    const TileSize square = {64, 64}, wide = {128, 32};
    AttentionShape shape = dropped(LECTURE_N, LECTURE_D, lecture_p, 1, DROPOUT_SEED);
    Masks masks;
    MaskBytes seeded, stored;
    shape.dtype = ELEMENT_FP16;
    bool ok = read_masks(context, machine, LECTURE_N, &dropout, square, wide, false, &masks);
    if (ok) {
        const MaskCounts counts = compare_masks(&masks, &dropout);
        claim_holds(report, "2.8-2", counts.passes_differ == 0 && counts.full_differs == 0, "%" PRIu64 " of %d elements differ",
                    counts.passes_differ, LECTURE_N * LECTURE_N);
    }
    free_masks(context, &masks);
    ok = ok && count_bytes(context, machine, report, &algorithm_fa2, &shape, square, &seeded);
    shape.dropout_source = DROPOUT_STORED;
    ok = ok && count_bytes(context, machine, report, &algorithm_fa2, &shape, square, &stored);
    if (!ok) return false;
    claim_holds(report, "2.8-3",
                seeded.written + seeded.read_forward + seeded.read_backward == 0 && stored.kept == LECTURE_N * LECTURE_N,
                "2 numbers, %" PRIu64 " bytes, instead of %" PRIu64, seeded.kept, stored.kept);
    claim_holds(report, "R-2.8-blocks", block_agreement(&dropout, square, wide) >= 100, "%.1f %% agree",
                block_agreement(&dropout, square, wide));
    return true;
}

/* ---- the program ---- */

static bool check_samples(const Options *o, Status *status)
{
    for (size_t i = 0; i < o->batch.count; i++)
        if (o->batch.values[i] < 1 || o->batch.values[i] > MAX_SAMPLES)
            return status_fail(status, STATUS_USAGE, "--batch: %" PRIu64 " samples are not allowed; expected 1 to %d",
                               o->batch.values[i], MAX_SAMPLES);
    return true;
}

static bool run_with(const Context *context, const Profile *machine, Report *report, Errors *lecture, Errors *scratch)
{
    const Options *o = context->options;
    const Dropout dropout = {.p = o->dropout, .seed = o->seed};
    const Population at_lecture = {LECTURE_N, LECTURE_D, 1, o->seed, {LECTURE_BLOCK, LECTURE_BLOCK}, lecture_p};
    if (!measure(context, machine, &at_lecture, lecture) || !add_picture(context, machine, report, &dropout) ||
        !add_masks(context, machine, report, &dropout) || !add_errors(context, machine, report, lecture, scratch) ||
        !add_bytes(context, machine, report))
        return false;
    add_kept(report, o->seed);
    add_others(report, &dropout);
    judge_error(report, lecture);
    return add_rules(context, machine, report) && judge_claims(context, machine, report);
}

static bool run(Context *context, Report *report)
{
    Profile machine;
    if (!check_samples(context->options, context->status) ||
        !profile_load("unbounded", context->alloc, &machine, context->status))
        return false;
    report_param_real(report, "p", context->options->dropout, 3);
    report_param_count(report, "seed", context->options->seed);
    Errors *both = alloc_array(context->alloc, 2, sizeof *both, "errors of all samples", context->status);
    const bool ok = both != NULL && run_with(context, &machine, report, &both[0], &both[1]);
    alloc_free(context->alloc, both);
    return ok;
}

const Experiment experiment_s2_8_dropout = {
    .program =
        {
            .name = "s2_8_dropout",
            .purpose = "dropout from a seed: one mask in both passes, nothing N x N stored (lecture 2.8)",
            .examples = {"", "--dropout 0.3 --seqlen 256 --block-q 32 --batch 10"},
            .options = options,
            .option_count = sizeof options / sizeof options[0],
        },
    .report =
        {
            .section = "2.8",
            .title_en = "Dropout: store the seed, not the mask",
            .title_zh = "dropout：存种子，不存掩码",
            .tables = tables,
            .table_count = sizeof tables / sizeof tables[0],
            .claims = claims,
            .claim_count = sizeof claims / sizeof claims[0],
        },
    .run = run,
};
