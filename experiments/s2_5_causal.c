/* s2_5_causal.c - lecture §2.5: a causal mask, and the tiles that nobody has to compute or read.
 *
 * Query i sees keys 0 .. i. Cut into T x T tiles, what lies above the diagonal is hidden as a whole: a kernel that walks tiles
 * leaves it out, and computes
 *
 *     T (T + 1) / 2 of T² tiles, a share of (T + 1) / (2T)        136 of 256 at N = 1024 and blocks of 64: 53.1 %
 *
 * The tiles on the diagonal are computed whole and masked inside, by the numbers of their rows and columns: no mask is stored. So
 * there are three counts of "causal FLOPs": exact pairs N (N + 1) / 2, the convention N² / 2 of benchmarks, and the tiles that
 * run. Standard attention computes all of S and then writes -inf over half of it.
 *
 * Every count comes from the walk: an observer of the machine's operations sees which tiles are multiplied and which are masked,
 * and the pictures are what it saw. Leaving tiles out changes no bit of the result: a hidden tile adds exp(-inf) = 0 and rescales
 * by exp(0) = 1; the last table computes both ways. What this leaves out: time. The last rows see more keys than the first, so
 * blocks differ in length, and not all of a chip may stay busy.
 */
#include "support/experiment.h"
#include "support/ratios.h"
#include "support/text.h"

#include "algos/run.h"

#include "sim/checked.h"
#include "sim/ops.h"

#include <math.h>
#include <string.h>

/* ---- a walk under observation ---- */

enum { DRAWN = 64 }; /* pictures have at most so many tiles on a side */

/* What an observer saw: products and masks of S, and where they were. */
typedef struct {
    const Attention *attention;
    uint64_t products, masked;
    uint64_t block, key_block; /* of the product of Q and K seen last, in a kernel with one block per query block */
    bool begun;
    char tiles[DRAWN][DRAWN + 1];
} Observer;

static void draw(Observer *o, char tile)
{
    if (o->block < DRAWN && o->key_block < DRAWN) o->tiles[o->block][o->key_block] = tile;
}

static void observe(void *observer, const Event *event)
{
    Observer *o = observer;
    const Tile *written = event->written[0];
    if (written == NULL) return;
    const bool scores = strcmp(written->name, "S") == 0;
    if (event->operation == OP_MATMUL) o->products++;
    if (event->operation == OP_MATMUL && scores) {
        const uint64_t block = written->block->index;
        if (!o->begun || block != o->block) o->key_block = visible_key_blocks(o->attention, block).first;
        else o->key_block++;
        o->block = block;
        o->begun = true;
        draw(o, '#');
    }
    if (event->operation == OP_MASK && scores) {
        o->masked++;
        draw(o, '/');
    }
}

/* One head: counts, and what the observer saw. */
typedef struct {
    Attention attention; /* shape, blocks and band; its tensors are gone */
    Observer seen;
    uint64_t tiles, computed; /* tile pairs in all, and those with their two products */
    uint64_t pairs_formula;
    uint64_t elements, elements_formula; /* read and written, HBM */
    uint64_t flops, flops_formula, exact_flops, convention_flops;
} Walk;

static void keep(Walk *walk, const AttentionRun *run, Status *status)
{
    const bool causal = run->attention.shape.mask != MASK_NONE;
    walk->tiles = query_blocks(&run->attention) * key_blocks(&run->attention);
    walk->computed = walk->seen.products / 2;
    walk->pairs_formula = run->closed_form.tile_pairs;
    walk->elements = run->totals.hbm_read_elements + run->totals.hbm_write_elements;
    walk->elements_formula = run->closed_form.hbm_read_elements + run->closed_form.hbm_write_elements;
    walk->flops = run->totals.matmul_flops;
    walk->flops_formula = run->closed_form.matmul_flops;
    walk->exact_flops = run->totals.matmul_flops_exact_mask;
    walk->convention_flops = matmul_flops_convention(&run->problem, causal, status);
}

static bool walk_head(const Context *context, const Algorithm *algorithm, const AttentionShape *shape, TileSize tiles, L2Model l2,
                      Walk *walk)
{
    AttentionRun run = {0};
    Profile unbounded;
    if (!profile_load("unbounded", context->alloc, &unbounded, context->status)) return false;
    *walk = (Walk){.seen = {.attention = &walk->attention}};
    for (size_t i = 0; i < DRAWN; i++) memset(walk->seen.tiles[i], '.', DRAWN);
    const RunSetup setup = {
        .algorithm = algorithm,
        .profile = &unbounded,
        .tiles = tiles,
        .config = {.mode = MODE_COUNT, .l2 = l2, .observe = observe, .observer = &walk->seen},
    };
    bool ok = attention_run_prepare(&run, &setup, shape, context->alloc, context->status);
    walk->attention = run.attention;
    ok = ok && attention_run_forward(&run);
    if (ok) keep(walk, &run, context->status);
    attention_run_free(&run);
    return ok && status_ok(context->status);
}

static const char *mask_name(const AttentionShape *shape) { return option_choice(OPTION_MASK, (int)shape->mask); }

/* ---- FlashAttention-2 that skips nothing ---- */

/* algos/fa2.c with all key blocks instead of the visible ones: every tile is read, multiplied and masked. */
static void every_block(Block *b, const void *arguments, uint64_t i)
{
    const Attention *a = arguments;
    const uint32_t Br = a->Br, Bc = a->Bc, d = (uint32_t)a->shape.head_dim, rows = live_rows(a, i);
    const ElementType type = a->shape.dtype, statistic = a->statistic;
    Stream *w = stream(b, "compute", b->kernel->threads / 32);
    Tile *q = shared_tile(b, "Q", type, Br, d), *k = shared_tile(b, "K", type, Bc, d), *v = shared_tile(b, "V", type, Bc, d);
    Tile *s = register_tile(b, "S", statistic, Br, Bc), *p = tile_view(s, "P", type, Br, Bc);
    Tile *o = register_tile(b, "O", statistic, Br, d);
    Rows *m = row_vector(b, "m", statistic, Br), *m_new = row_vector(b, "m_new", statistic, Br);
    Rows *l = row_vector(b, "l", statistic, Br), *alpha = row_vector(b, "alpha", statistic, Br);

    fill(w, o, rows, d, 0.0);
    fill(w, l, rows, 1, 0.0);
    fill(w, m, rows, 1, -INFINITY);
    load(w, q, a->Q, i * Br);
    for (uint64_t j = 0; j < key_blocks(a); j++) {
        load(w, k, a->K, j * Bc);
        matmul_nt(w, s, q, k);
        scale(w, s, a->shape.softmax_scale);
        mask(w, s, i * Br, j * Bc, a->band);
        row_max(w, m_new, m, s);
        rows_exp_difference(w, alpha, m, m_new);
        exp_rows(w, s, s, m_new);
        row_sum_scaled(w, l, alpha, s);
        convert(w, p, s);
        scale_rows(w, o, alpha);
        load(w, v, a->V, j * Bc);
        matmul_nn_add(w, o, p, v);
        Rows *const swap = m;
        m = m_new;
        m_new = swap;
    }
    divide_rows(w, o, l);
    rows_log_sum_exp(w, alpha, m, l);
    store(w, a->O, i * Br, o);
    store(w, a->L, i * Br, alpha);
}

static bool every_block_forward(Machine *machine, Attention *a)
{
    const AttentionShape *s = &a->shape;
    a->L = machine_tensor(machine, "L", a->statistic, s->batch, s->heads, s->seqlen_q, 1);
    const Kernel kernel = attention_kernel(&algorithm_fa2, "every_block", a, every_block);
    return launch(machine, &kernel, one_block_per_query_block(a), a);
}

/* O, then L, of one head on random inputs into `values`, as doubles; the tile pairs that were computed. */
static bool compute_head(const Context *context, const Algorithm *algorithm, const AttentionShape *shape, TileSize tiles,
                         double *values, uint64_t *computed)
{
    AttentionRun run = {0};
    Profile unbounded;
    if (!profile_load("unbounded", context->alloc, &unbounded, context->status)) return false;
    Observer seen = {.attention = &run.attention};
    const RunSetup setup = {
        .algorithm = algorithm,
        .profile = &unbounded,
        .tiles = tiles,
        .config = {.mode = MODE_NUMERIC,
                   .l2 = L2_IDEAL,
                   .precision = shape->dtype == ELEMENT_F64 ? PRECISION_F64 : PRECISION_F32,
                   .observe = observe,
                   .observer = &seen},
    };
    bool ok = attention_run_prepare(&run, &setup, shape, context->alloc, context->status);
    if (ok) attention_random_inputs(&run.attention, &run.machine, context->options->seed);
    ok = ok && attention_run_forward(&run);
    for (uint64_t i = 0; ok && i < shape->seqlen_q * shape->head_dim; i++)
        *values++ = tensor_value(&run.machine, run.attention.O, i);
    for (uint64_t i = 0; ok && i < shape->seqlen_q; i++) *values++ = tensor_value(&run.machine, run.attention.L, i);
    *computed = seen.products / 2;
    attention_run_free(&run);
    return ok;
}

/* ---- the declarations ---- */

static const Column tile_columns[] = {
    {"algorithm", "", "standard attention, FlashAttention-1 (key blocks outside), FlashAttention-2 (query blocks outside)"},
    {"Nq", "", "queries"},
    {"Nk", "", "keys"},
    {"d", "", "head dimension"},
    {"block", "", "Br x Bc: query rows x keys"},
    {"tiles", "", "ceil(Nq/Br) * ceil(Nk/Bc)"},
    {"computed", "", "tiles whose products the walk executes"},
    {"masked", "", "of these, tiles of which the mask hides a part (standard attention: or all)"},
    {"share", "%", "computed over tiles"},
    {"all tiles", "MFLOP", "FLOPs of the matrix products without a mask, by the walk"},
    {"executed", "MFLOP", "with the mask"},
    {"check", "", "computed tiles against the closed form"},
};
static const TableSpec tiles_table = {"tiles", "Tiles computed under the mask", tile_columns, 12};

static const TableSpec triangle_picture = {"triangle", "What the walk of FlashAttention-2 saw", NULL, 0};

static const Column count_columns[] = {
    {"count", "", "what is counted"},          {"pairs", "", "(query, key) pairs; the convention halves an odd N^2"},
    {"FLOP", "MFLOP", "4 d per pair"},         {"of all", "%", "of the full matrix"},
    {"who uses it", "", "where one meets it"},
};
static const TableSpec count_table = {"three_counts", "Three counts of the same kernel", count_columns, 5};

static const Column traffic_columns[] = {
    {"algorithm", "", "FA1 as listed in the paper, and as shipped"},
    {"no mask", "elements", "HBM reads and writes without L2"},
    {"masked", "elements", "with the mask, without L2"},
    {"share", "%", "masked over no mask"},
    {"check", "", "masked against the closed form"},
    {"no mask, L2", "elements", "with an ideal L2"},
    {"masked, L2", "elements", "with an ideal L2"},
    {"share, L2", "%", "masked over no mask"},
};
static const TableSpec traffic_table = {"traffic", "Skipped tiles are not read either", traffic_columns, 8};

static const Column size_columns[] = {
    {"block", "", "Br x Bc"},
    {"tiles", "", "in all"},
    {"computed", "", "by the walk of FlashAttention-2"},
    {"share", "%", "computed over tiles"},
    {"(T+1)/(2T)", "%", "the formula, for square blocks and a causal mask"},
    {"executed", "MFLOP", "FLOPs of the matrix products"},
    {"over exact", "x", "executed over the FLOPs of the visible pairs"},
};
static const TableSpec size_table = {"block_sizes", "Smaller blocks follow the diagonal more closely", size_columns, 7};

static const Column alignment_columns[] = {
    {"Nq", "", "queries"},
    {"Nk", "", "keys"},
    {"alignment", "", "causal: the last query sees the last key (bottom-right); causal-top-left: query 0 sees key 0"},
    {"tiles", "", "in all, blocks of 64 x 64"},
    {"computed", "", "by the walk of FlashAttention-2"},
    {"visible pairs", "", "by the walk"},
    {"check", "", "visible pairs against the closed form"},
    {"rows without key", "", "queries that see nothing: O = 0, L = -inf"},
};
static const TableSpec alignment_table = {"alignment", "When Nq and Nk differ, causal needs a convention", alignment_columns, 8};

static const TableSpec alignment_picture = {"alignment_tiles", "The two alignments: bottom-right, then top-left", NULL, 0};

static const Column unchanged_columns[] = {
    {"type", "", "of Q, K, V, O and of P as an operand"},
    {"Nq", "", "queries"},
    {"Nk", "", "keys"},
    {"block", "", "Br x Bc"},
    {"computed", "", "tiles, when hidden ones are skipped: algorithm fa2"},
    {"all", "", "tiles, when every one is computed and masked"},
    {"values", "", "elements of O and L that were compared"},
    {"differ", "", "values of which any bit differs"},
};
static const TableSpec unchanged_table = {"unchanged", "Skipping changes no bit of the result", unchanged_columns, 8};

static const ClaimSpec claims[] = {
    {"2.5-1", "2.5", "tiles (N = 1024, blocks of 64)", "16 x 16 = 256", VERDICT_EQUAL,
     "(N/B)^2; products seen in the walk without mask", NULL},
    {"2.5-2", "2.5", "tiles computed with a causal mask, FA1 and FA2", "136", VERDICT_EQUAL, "walks; T(T + 1)/2", NULL},
    {"2.5-3", "2.5", "share of the tiles", "53.1%", VERDICT_EQUAL, "(T + 1)/(2T)", NULL},
    {"2.5-4", "2.5", "FLOPs of the products without mask (d = 64)", "268.4 MFLOP", VERDICT_EQUAL, "walks; 4N^2 d", NULL},
    {"2.5-5", "2.5", "FLOPs of the products, causal, FA1 and FA2", "142.6 MFLOP", VERDICT_EQUAL, "walks; 136 tiles of 4 B^2 d",
     NULL},
    {"2.5-6", "2.5", "standard attention computes all of S and fills with -inf", "half", VERDICT_EQUAL, "N(N - 1)/2 of N^2",
     NULL},
    {"R-A10", "2.5", "skipped tiles are not read (FA1, N = 1024, d = 64, blocks of 64)", "not read", VERDICT_EQUAL,
     "each of 120 skipped tiles saves 3 Br d + 4 Br elements (Q, O; l, m)", NULL},
};

static const TableSpec *const tables[] = {
    &tiles_table, &triangle_picture, &count_table, &traffic_table, &size_table, &alignment_table, &alignment_picture,
    &unchanged_table,
};
static const ProgramOption options[] = {
    {OPTION_SEQLEN, "1k"},  {OPTION_SEQLEN_K, NULL}, {OPTION_HEAD_DIM, "64"}, {OPTION_BLOCK_Q, "64"},
    {OPTION_BLOCK_K, "64"}, {OPTION_MASK, "causal"}, {OPTION_WINDOW, NULL},
};

/* ---- tiles ---- */

static AttentionShape point_shape(const Context *context, const OptionPoint *point)
{
    AttentionShape shape = attention_shape(point->seqlen, point->head_dim);
    shape.seqlen_k = point->seqlen_k;
    shape.mask = context->options->mask;
    shape.window_left = context->options->window_left;
    shape.window_right = context->options->window_right;
    return shape;
}

static AttentionShape unmasked(AttentionShape shape)
{
    shape.mask = MASK_NONE;
    shape.window_left = shape.window_right = -1;
    return shape;
}

static void cell_block(Table *table, TileSize tiles) { cell_textf(table, "%" PRIu32 " x %" PRIu32, tiles.Br, tiles.Bc); }

static bool tile_row(const Context *context, Table *table, const Algorithm *algorithm, const AttentionShape *shape,
                     TileSize tiles)
{
    const AttentionShape full_shape = unmasked(*shape);
    Walk walk, full;
    if (!walk_head(context, algorithm, shape, tiles, L2_NONE, &walk)) return false;
    if (!walk_head(context, algorithm, &full_shape, tiles, L2_NONE, &full)) return false;
    report_check(table->report, walk.flops, walk.flops_formula, "FLOPs of the matrix products");
    table_row(table);
    cell_text(table, algorithm->name);
    cell_count(table, shape->seqlen_q);
    cell_count(table, shape->seqlen_k);
    cell_count(table, shape->head_dim);
    cell_block(table, tiles);
    cell_count(table, walk.tiles);
    cell_count(table, walk.computed);
    cell_count(table, walk.seen.masked);
    cell_decimals(table, 100 * per(walk.computed, walk.tiles), 1);
    cell_decimals(table, mega(full.flops), 1);
    cell_decimals(table, mega(walk.flops), 1);
    cell_check(table, walk.computed, walk.pairs_formula, algorithm->name);
    return true;
}

static bool add_tiles(const Context *context, Report *report)
{
    static const Algorithm *const algorithms[] = {&algorithm_standard, &algorithm_fa1, &algorithm_fa2};
    Table *table = report_table(report, &tiles_table);
    for (size_t i = 0; i < options_point_count(context->options); i++) {
        const OptionPoint point = options_point(context->options, i);
        const AttentionShape shape = point_shape(context, &point);
        const TileSize tiles = {(uint32_t)point.block_q, (uint32_t)point.block_k};
        for (size_t a = 0; a < sizeof algorithms / sizeof algorithms[0]; a++) {
            if (!tile_row(context, table, algorithms[a], &shape, tiles)) return false;
        }
    }
    table_note(table,
               "Standard attention computes every tile of S and then fills the hidden part with -inf: a mask saves it nothing.");
    table_note(table, "No mask is read or stored: a tile on the diagonal compares its own row and column numbers.");
    return true;
}

static void add_triangle(Report *report, const Walk *walk)
{
    Table *picture = report_table(report, &triangle_picture);
    const uint64_t Tr = query_blocks(&walk->attention), Tc = key_blocks(&walk->attention);
    table_title(picture, "What the walk of FlashAttention-2 saw: # computed, / computed and masked inside, . skipped");
    if (Tr > DRAWN || Tc > DRAWN) {
        picture_line(picture,
                     "%" PRIu64 " x %" PRIu64 " tiles are too many to draw (at most %d x %d); try larger --block-q, --block-k",
                     Tr, Tc, DRAWN, DRAWN);
        return;
    }
    for (uint64_t i = 0; i < Tr; i++) picture_line(picture, "query block %2" PRIu64 "  %.*s", i, (int)Tc, walk->seen.tiles[i]);
}

/* ---- FLOPs ---- */

static void count_row(Table *table, const char *what, uint64_t flops, uint64_t all, uint64_t d, const char *who)
{
    table_row(table);
    cell_text(table, what);
    cell_count(table, flops / (4 * d));
    cell_decimals(table, mega(flops), 1);
    cell_decimals(table, 100 * per(flops, all), 2);
    cell_text(table, who);
}

static void add_counts(Report *report, const Walk *walk, const Walk *full, Status *status)
{
    const Attention *a = &walk->attention;
    const uint64_t d = a->shape.head_dim;
    const uint64_t visible = visible_pairs(a->shape.seqlen_q, a->shape.seqlen_k, a->band.low, a->band.high, status);
    Table *table = report_table(report, &count_table);
    report_check(report, walk->exact_flops / (4 * d), visible, "visible pairs");
    count_row(table, "all pairs", full->flops, full->flops, d,
              "a causal run counted in full: 189 TFLOP/s of an A100 become \"121 %\"");
    count_row(table, "executed tiles", walk->flops, full->flops, d, "the tensor cores: diagonal tiles are computed whole");
    count_row(table, "visible pairs", walk->exact_flops, full->flops, d, "the mathematics: N(N+1)/2");
    count_row(table, "convention", walk->convention_flops, full->flops, d, "benchmarks and papers: N^2/2 when causal");
}

/* ---- traffic ---- */

static bool add_traffic(const Context *context, Report *report, const AttentionShape *shape, TileSize tiles)
{
    static const Algorithm *const algorithms[] = {&algorithm_standard, &algorithm_fa1, &algorithm_fa1_shipped, &algorithm_fa2};
    const AttentionShape full_shape = unmasked(*shape);
    Table *table = report_table(report, &traffic_table);
    for (size_t a = 0; a < sizeof algorithms / sizeof algorithms[0]; a++) {
        table_row(table);
        cell_text(table, algorithms[a]->name);
        for (int l2 = L2_NONE; l2 <= L2_IDEAL; l2++) {
            Walk full, walk;
            if (!walk_head(context, algorithms[a], &full_shape, tiles, (L2Model)l2, &full)) return false;
            if (!walk_head(context, algorithms[a], shape, tiles, (L2Model)l2, &walk)) return false;
            cell_count(table, full.elements);
            cell_count(table, walk.elements);
            cell_decimals(table, 100 * per(walk.elements, full.elements), 1);
            if (l2 == L2_NONE) cell_check(table, walk.elements, walk.elements_formula, algorithms[a]->name);
            else report_check(report, walk.elements, walk.elements_formula, algorithms[a]->name);
        }
    }
    table_note(table, "With an ideal L2 each K and V comes from HBM once, mask or not: skipping then spares L2 and the SMs.");
    table_note(table, "An H200's SMs read the same share from L2 by hardware counters: s2_4_l2_roofline, L2 to SMs.");
    return true;
}

/* ---- block sizes ---- */

static bool add_sizes(const Context *context, Report *report, const AttentionShape *shape)
{
    static const TileSize sizes[] = {{16, 16}, {32, 32}, {64, 64}, {128, 128}, {256, 256}, {512, 512}, {128, 64}, {64, 128}};
    const bool plain_causal = shape->mask == MASK_CAUSAL && shape->window_left < 0 && shape->seqlen_q == shape->seqlen_k;
    Table *table = report_table(report, &size_table);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const uint64_t T = ceil_div(shape->seqlen_q, sizes[i].Br);
        Walk walk;
        if (T * ceil_div(shape->seqlen_k, sizes[i].Bc) > MAX_WALKED_TILE_PAIRS) continue;
        if (!walk_head(context, &algorithm_fa2, shape, sizes[i], L2_NONE, &walk)) return false;
        const bool formula = plain_causal && sizes[i].Br == sizes[i].Bc && T > 0;
        if (formula) report_check(report, walk.computed, T * (T + 1) / 2, "computed tiles, T(T+1)/2");
        table_row(table);
        cell_block(table, sizes[i]);
        cell_count(table, walk.tiles);
        cell_count(table, walk.computed);
        cell_decimals(table, 100 * per(walk.computed, walk.tiles), 1);
        if (formula) cell_decimals(table, 100 * per(T + 1, 2 * T), 1);
        else cell_empty(table);
        cell_decimals(table, mega(walk.flops), 1);
        cell_decimals(table, per(walk.flops, walk.exact_flops), 3);
    }
    return true;
}

/* ---- alignment ---- */

static uint64_t rows_without_key(const Attention *a)
{
    uint64_t rows = 0;
    for (int64_t i = 0; i < (int64_t)a->shape.seqlen_q; i++)
        rows += i + a->band.high < 0 || i + a->band.low >= (int64_t)a->shape.seqlen_k;
    return rows;
}

static void alignment_row(Table *table, const Walk *walk, Status *status)
{
    const Attention *a = &walk->attention;
    const AttentionShape *s = &a->shape;
    table_row(table);
    cell_count(table, s->seqlen_q);
    cell_count(table, s->seqlen_k);
    cell_text(table, mask_name(s));
    cell_count(table, walk->tiles);
    cell_count(table, walk->computed);
    cell_count(table, walk->exact_flops / (4 * s->head_dim));
    cell_check(table, walk->exact_flops / (4 * s->head_dim),
               visible_pairs(s->seqlen_q, s->seqlen_k, a->band.low, a->band.high, status), "visible pairs");
    cell_count(table, rows_without_key(a));
}

static bool add_alignment(const Context *context, Report *report)
{
    static const struct {
        uint64_t Nq, Nk;
    } lengths[] = {{512, 1024}, {1024, 512}, {1, 1024}};
    Table *table = report_table(report, &alignment_table), *picture = report_table(report, &alignment_picture);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        AttentionShape shape = attention_shape(lengths[i].Nq, 64);
        Walk walks[2];
        shape.seqlen_k = lengths[i].Nk;
        for (size_t k = 0; k < 2; k++) {
            shape.mask = k == 0 ? MASK_CAUSAL : MASK_CAUSAL_TOP_LEFT;
            if (!walk_head(context, &algorithm_fa2, &shape, (TileSize){64, 64}, L2_NONE, &walks[k])) return false;
            alignment_row(table, &walks[k], context->status);
        }
        const int Tc = (int)key_blocks(&walks[0].attention);
        picture_line(picture, "Nq = %" PRIu64 ", Nk = %" PRIu64, lengths[i].Nq, lengths[i].Nk);
        for (uint64_t r = 0; r < query_blocks(&walks[0].attention); r++)
            picture_line(picture, "  %.*s   %.*s", Tc, walks[0].seen.tiles[r], Tc, walks[1].seen.tiles[r]);
    }
    table_note(
        table,
        "FlashAttention 2.1 changed from top-left to bottom-right. A single query (decoding) must see all keys, not the first.");
    return true;
}

/* ---- the numbers do not change ---- */

static bool unchanged_row(const Context *context, Table *table, const AttentionShape *shape, TileSize tiles)
{
    Algorithm every = algorithm_fa2;
    every.forward = every_block_forward;
    const uint64_t count = shape->seqlen_q * (shape->head_dim + 1);
    uint64_t computed = 0, all = 0, different = 0;
    double *values = alloc_array(context->alloc, 2 * count, sizeof *values, "two results", context->status);
    const bool ok = values != NULL && compute_head(context, &algorithm_fa2, shape, tiles, values, &computed) &&
                    compute_head(context, &every, shape, tiles, values + count, &all);
    for (uint64_t i = 0; ok && i < count; i++) different += memcmp(&values[i], &values[count + i], sizeof *values) != 0;
    alloc_free(context->alloc, values);
    if (!ok) return false;
    table_row(table);
    cell_text(table, element_name(shape->dtype));
    cell_count(table, shape->seqlen_q);
    cell_count(table, shape->seqlen_k);
    cell_block(table, tiles);
    cell_count(table, computed);
    cell_count(table, all);
    cell_count(table, count);
    cell_count(table, different);
    report_check(table->report, different, 0, "values changed by skipping");
    return true;
}

static bool add_unchanged(const Context *context, Report *report)
{
    static const struct {
        ElementType type;
        uint64_t Nq, Nk;
        TileSize tiles;
    } cases[] = {{ELEMENT_F64, 256, 256, {32, 32}},
                 {ELEMENT_F32, 256, 256, {32, 32}},
                 {ELEMENT_BF16, 256, 256, {64, 32}},
                 {ELEMENT_BF16, 150, 331, {32, 64}}};
    Table *table = report_table(report, &unchanged_table);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        AttentionShape shape = attention_shape(cases[i].Nq, 32);
        shape.seqlen_k = cases[i].Nk;
        shape.mask = MASK_CAUSAL;
        shape.dtype = cases[i].type;
        if (!unchanged_row(context, table, &shape, cases[i].tiles)) return false;
    }
    table_note(table,
               "A hidden tile would add exp(-inf) = 0 to l and O and rescale them by exp(0) = 1. Random normal inputs, d = 32.");
    return true;
}

/* ---- the claims, at the lecture's shape ---- */

static bool judge_claims(const Context *context, Report *report)
{
    const uint64_t N = 1024, d = 64, B = 64;
    const TileSize tiles = {64, 64};
    const AttentionShape full = attention_shape(N, d);
    AttentionShape causal = full;
    Walk fa1, fa1_full, fa2, fa2_full, standard;
    causal.mask = MASK_CAUSAL;
    if (!walk_head(context, &algorithm_fa1, &causal, tiles, L2_NONE, &fa1)) return false;
    if (!walk_head(context, &algorithm_fa1, &full, tiles, L2_NONE, &fa1_full)) return false;
    if (!walk_head(context, &algorithm_fa2, &causal, tiles, L2_NONE, &fa2)) return false;
    if (!walk_head(context, &algorithm_fa2, &full, tiles, L2_NONE, &fa2_full)) return false;
    if (!walk_head(context, &algorithm_standard, &causal, tiles, L2_NONE, &standard)) return false;

    report_check(report, fa1.computed, fa2.computed, "computed tiles, FA1 and FA2");
    report_check(report, fa1.flops, fa2.flops, "FLOPs, FA1 and FA2");
    claim_holds(report, "2.5-1", fa2_full.computed == 256 && fa1_full.computed == 256, "%" PRIu64 " x %" PRIu64 " = %" PRIu64,
                N / B, N / B, fa2_full.computed);
    claim_count(report, "2.5-2", 136, fa2.computed, "");
    claim_decimals(report, "2.5-3", 53.1, 1, 100 * per(fa2.computed, fa2_full.computed), "%");
    claim_decimals(report, "2.5-4", 268.4, 1, mega(fa2_full.flops), " MFLOP");
    claim_decimals(report, "2.5-5", 142.6, 1, mega(fa2.flops), " MFLOP");
    const uint64_t hidden = (standard.flops - standard.exact_flops) / (4 * d);
    claim_holds(report, "2.5-6", standard.computed == 256 && hidden == N * (N - 1) / 2,
                "%" PRIu64 " of 256 tiles computed, %.2f %% filled", standard.computed, 100 * per(hidden, N * N));
    const uint64_t skipped = fa1_full.computed - fa1.computed, saved = fa1_full.elements - fa1.elements;
    char with[NUMBER_SIZE], without[NUMBER_SIZE];
    claim_holds(report, "R-A10", skipped > 0 && saved == skipped * (3 * B * d + 4 * B), "%s of %s elements",
                format_count(with, fa1.elements, GROUP_THOUSANDS), format_count(without, fa1_full.elements, GROUP_THOUSANDS));
    return status_ok(context->status);
}

static bool run(Context *context, Report *report)
{
    const OptionPoint point = options_point(context->options, 0);
    const AttentionShape shape = point_shape(context, &point), full_shape = unmasked(shape);
    const TileSize tiles = {(uint32_t)point.block_q, (uint32_t)point.block_k};
    Walk walk, full;
    report_param_text(report, "hw", "unbounded");
    report_param_text(report, "mask", mask_name(&shape));
    report_param_count(report, "seed", context->options->seed);
    if (!add_tiles(context, report)) return false;
    if (!walk_head(context, &algorithm_fa2, &shape, tiles, L2_NONE, &walk)) return false;
    if (!walk_head(context, &algorithm_fa2, &full_shape, tiles, L2_NONE, &full)) return false;
    add_triangle(report, &walk);
    add_counts(report, &walk, &full, context->status);
    return add_traffic(context, report, &shape, tiles) && add_sizes(context, report, &shape) && add_alignment(context, report) &&
           add_unchanged(context, report) && judge_claims(context, report);
}

const Experiment experiment_s2_5_causal = {
    .program = {
        .name = "s2_5_causal",
        .purpose = "which tiles a causal mask leaves to compute and to read (lecture 2.5)",
        .examples = {"", "--seqlen 2k --block-q 128 --block-k 64 --window 256,0"},
        .options = options,
        .option_count = sizeof options / sizeof options[0],
    },
    .report = {
        .section = "2.5",
        .title_en = "Causal mask: whole tiles are skipped",
        .title_zh = "因果掩码：整块跳过",
        .tables = tables,
        .table_count = sizeof tables / sizeof tables[0],
        .claims = claims,
        .claim_count = sizeof claims / sizeof claims[0],
    },
    .run = run,
};
