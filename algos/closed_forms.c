/* closed_forms.c - see closed_forms.h.
 *
 * Three steps.
 * (1) How many block pairs does a kernel execute? The rows i Br to i Br + Br - 1 of query block i see the keys i Br + low to
 *     i Br + Br - 1 + high, so it executes the key blocks that begin at or before the upper end, less those that end before
 *     the lower end: two clamped floors, linear in i, summed without a loop over i. Only the last block of each side is shorter, so
 *     four numbers of pairs (whole or last query block x whole or last key block) describe everything that follows.
 * (2) The sums over executed pairs that all kernels share: of 1, of rows r, of keys c, of r c.
 * (3) Each algorithm as a short list of what it loads, stores and computes in terms of those sums, beside the line of its paper.
 */
#include "closed_forms_internal.h"

/* ------------------------------------------------------------------------------------------------ 1. sums without loops */

/* Lengths and blocks up to here keep the signed arithmetic below inside 64 bits. */
#define LARGEST_EXTENT (UINT64_C(1) << 61)

/* Rounded down, for b > 0 (C rounds toward zero). */
static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

static int64_t clamp(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }

/* Σ floor((step i + offset) / size) over 0 <= i < n, in O(log): the whole parts of both quotients are arithmetic series; what
 * remains counts the lattice points under a line of slope below one, which seen from the other axis is the same sum with the
 * slope inverted. */
static uint64_t floor_sum(uint64_t n, uint64_t step, uint64_t offset, uint64_t size, const char *what, Status *status)
{
    uint64_t sum = 0;
    while (n > 0) {
        const uint64_t half = n % 2 == 0 ? n / 2 : (n - 1) / 2, other = n % 2 == 0 ? n - 1 : n; /* product: n (n - 1) / 2 */
        const uint64_t series = checked_mul(checked_mul(step / size, half, what, status), other, what, status);
        sum = checked_add(sum, checked_add(series, checked_mul(n, offset / size, what, status), what, status), what, status);
        const uint64_t top = step % size * n + offset % size;   /* never more than the caller's step n + offset */
        n = top / size;
        offset = top % size;
        const uint64_t slope = step % size;
        step = size;
        size = slope;
    }
    return sum;
}

/* Σ clamp(floor((step i + offset) / size), 0, most) over 0 <= i < n: zero up to `rising`, `most` from `full` on. */
static uint64_t clamped_floor_sum(int64_t n, int64_t step, int64_t offset, int64_t size, int64_t most, const char *what,
                                  Status *status)
{
    const int64_t rising = clamp(-floor_div(offset, step), 0, n);
    const int64_t full = clamp(-floor_div(offset - most * size, step), rising, n);
    if (rising == n) return 0;
    const uint64_t first = (uint64_t)(step * rising + offset);
    const uint64_t between = floor_sum((uint64_t)(full - rising), (uint64_t)step, first, (uint64_t)size, what, status);
    return checked_add(between, checked_mul((uint64_t)(n - full), (uint64_t)most, what, status), what, status);
}

/* ------------------------------------------------------------------------------------------------- blocks of one sequence */

/* N rows in blocks: `whole` blocks of `size`, then one of `tail` if that is not 0. */
typedef struct {
    int64_t length, size, whole, tail;
} Blocks;

static Blocks cut(uint64_t length, uint64_t size)
{
    return (Blocks){(int64_t)length, (int64_t)size, (int64_t)(length / size), (int64_t)(length % size)};
}

/* Whole blocks that meet positions first .. last: those that begin at or before `last`, less those that end before `first`. */
static uint64_t whole_blocks_meeting(Blocks b, int64_t first, int64_t last)
{
    return (uint64_t)(clamp(floor_div(last, b.size) + 1, 0, b.whole) - clamp(floor_div(first, b.size), 0, b.whole));
}

/* 1 if there is a shorter last block and it meets positions first .. last. */
static uint64_t tail_meeting(Blocks b, int64_t first, int64_t last)
{
    return b.tail > 0 && last >= b.length - b.tail && first < b.length;
}

/* Rows of the blocks that meet positions first .. last. */
static uint64_t rows_meeting(Blocks b, int64_t first, int64_t last)
{
    return whole_blocks_meeting(b, first, last) * (uint64_t)b.size + tail_meeting(b, first, last) * (uint64_t)b.tail;
}

/* Query i sees keys i + low .. i + high; with high < low nobody sees anything. */
typedef struct {
    int64_t low, high;
} KeyBand;

/* Bounds beyond the matrix say no more than its edges. */
static KeyBand key_band(uint64_t Nq, uint64_t Nk, int64_t low, int64_t high)
{
    return (KeyBand){clamp(low, -(int64_t)Nq, (int64_t)Nk), clamp(high, -(int64_t)Nq, (int64_t)Nk)};
}

static bool sees_nothing(Blocks queries, Blocks keys, KeyBand band)
{
    return queries.length == 0 || keys.length == 0 || band.high < band.low;
}

/* Executed pairs (whole query block, whole key block). The last row of block i is i Br + Br - 1, and floor(x / Bc) + 1 blocks
 * begin at or before key x. */
static uint64_t whole_pairs(Blocks q, Blocks k, KeyBand band, Status *status)
{
    const int64_t last = q.size - 1 + band.high;
    const uint64_t begun = clamped_floor_sum(q.whole, q.size, last + k.size, k.size, k.whole, "tile pairs", status);
    const uint64_t ended = clamped_floor_sum(q.whole, q.size, band.low, k.size, k.whole, "tile pairs", status);
    return begun - ended;
}

static bool extents_allowed(uint64_t Nq, uint64_t Nk, uint64_t Br, uint64_t Bc, Status *status)
{
    if (Br == 0 || Bc == 0) return status_fail(status, STATUS_USAGE, "block size 0 is not allowed; expected 1 or more");
    const uint64_t largest = max_u64(max_u64(Nq, Nk), max_u64(Br, Bc));
    if (largest > LARGEST_EXTENT)
        return status_fail(status, STATUS_INFEASIBLE, "length or block size %" PRIu64 " is too large; expected at most %" PRIu64,
                           largest, LARGEST_EXTENT);
    return true;
}

uint64_t visible_pairs(uint64_t Nq, uint64_t Nk, int64_t band_low, int64_t band_high, Status *status)
{
    if (!extents_allowed(Nq, Nk, 1, 1, status)) return 0;
    const Blocks queries = cut(Nq, 1), keys = cut(Nk, 1);       /* block pairs of one query and one key */
    const KeyBand band = key_band(Nq, Nk, band_low, band_high);
    return sees_nothing(queries, keys, band) ? 0 : whole_pairs(queries, keys, band, status);
}

/* ------------------------------------------------------------------------------------------- 2. sums over executed pairs */

static void add_term(uint64_t *sum, uint64_t pairs, uint64_t x, uint64_t y, const char *what, Status *status)
{
    *sum = checked_add(*sum, checked_mul(pairs, checked_mul(x, y, what, status), what, status), what, status);
}

static void add_pairs(PairSums *s, const CountedProblem *p, uint64_t pairs, int64_t rows, int64_t keys, Status *status)
{
    const uint64_t r = (uint64_t)rows, c = (uint64_t)keys;
    if (pairs == 0) return;
    add_term(&s->pairs, pairs, 1, 1, "tile pairs", status);
    add_term(&s->rows, pairs, r, 1, "rows of tile pairs", status);
    add_term(&s->keys, pairs, c, 1, "keys of tile pairs", status);
    add_term(&s->area, pairs, r, c, "scores of tile pairs", status);
    add_term(&s->left_reads, pairs, r, groups(c, p->shape_n), "operand rows", status);
    add_term(&s->right_reads, pairs, c, groups(r, p->shape_m), "operand rows", status);
}

PairSums pair_sums(const CountedProblem *p, bool masked, Status *status)
{
    const KeyBand band = masked ? key_band(p->Nq, p->Nk, p->band_low, p->band_high) : (KeyBand){-(int64_t)p->Nq, (int64_t)p->Nk};
    const Blocks q = cut(p->Nq, p->Br), k = cut(p->Nk, p->Bc);
    PairSums s = {0};
    if (sees_nothing(q, k, band)) return s;
    const int64_t tail_row = q.length - q.tail, tail_key = k.length - k.tail;      /* where the last, shorter blocks begin */
    const int64_t tail_sees_first = tail_row + band.low, tail_sees_last = q.length - 1 + band.high;
    const int64_t tail_seen_first = tail_key - band.high, tail_seen_last = k.length - 1 - band.low;
    add_pairs(&s, p, whole_pairs(q, k, band, status), q.size, k.size, status);
    if (q.tail > 0) {
        add_pairs(&s, p, whole_blocks_meeting(k, tail_sees_first, tail_sees_last), q.tail, k.size, status);
        add_pairs(&s, p, tail_meeting(k, tail_sees_first, tail_sees_last), q.tail, k.tail, status);
    }
    if (k.tail > 0) add_pairs(&s, p, whole_blocks_meeting(q, tail_seen_first, tail_seen_last), q.size, k.tail, status);
    s.seeing_rows = rows_meeting(q, -band.high, k.length - 1 - band.low);   /* i + high >= 0 and i + low <= Nk - 1 */
    s.seen_keys = rows_meeting(k, band.low, q.length - 1 + band.high);
    return s;
}

/* Rows of query block i, times how many of the `splits` have one of its executed key blocks f .. f + n - 1: min(n, splits). */
static uint64_t rows_of_block(const CountedProblem *p, KeyBand band, int64_t first_row, int64_t rows, int64_t splits)
{
    const int64_t first = first_row + band.low, last = first_row + rows - 1 + band.high, Bc = (int64_t)p->Bc;
    if (last < 0 || first >= (int64_t)p->Nk) return 0;
    const int64_t from = clamp(first, 0, (int64_t)p->Nk - 1) / Bc, to = clamp(last, 0, (int64_t)p->Nk - 1) / Bc;
    return (uint64_t)(rows * clamp(to - from + 1, 0, splits));
}

/* The same for whole blocks, over those that see a key. While the first block is 0, n is the last one + 1, Tc at most. From where
 * the last one is Tc - 1, n is Tc less the first. Between, if these do not overlap, both ends move: n takes two neighbouring values,
 * of which a limit cuts both or none. */
static uint64_t blocks_of_splits(Blocks q, Blocks k, KeyBand band, int64_t splits, Status *status)
{
    static const char *const what = "rows of splits";
    const int64_t Tc = k.whole + (k.tail > 0), ahead = q.size - 1 + band.high;      /* block i ends at key i Br + ahead */
    const int64_t seeing = clamp(-floor_div(ahead, q.size), 0, q.whole);
    const int64_t end = clamp(floor_div(k.length - 1 - band.low, q.size) + 1, seeing, q.whole);
    const int64_t moving = clamp(-floor_div(band.low - k.size, q.size), seeing, end);       /* the first block is no longer 0 */
    const int64_t last = clamp(-floor_div(ahead - (Tc - 1) * k.size, q.size), moving, end);

    const uint64_t up =
        clamped_floor_sum(moving - seeing, q.size, seeing * q.size + ahead + k.size, k.size, splits, what, status);
    uint64_t between = checked_mul((uint64_t)(last - moving), (uint64_t)splits, what, status);
    if (splits > (ahead - band.low) / k.size + 1)
        between = clamped_floor_sum(last - moving, q.size, moving * q.size + ahead + k.size, k.size, Tc, what, status) -
                  clamped_floor_sum(last - moving, q.size, moving * q.size + band.low, k.size, Tc, what, status);
    const uint64_t most = checked_mul((uint64_t)(end - last), (uint64_t)splits, what, status);
    const int64_t over = last * q.size + band.low - (Tc - splits) * k.size;
    const uint64_t down = clamped_floor_sum(end - last, q.size, over, k.size, splits, what, status);
    return checked_add(checked_add(up, between, what, status), most - down, what, status);
}

uint64_t rows_of_splits(const CountedProblem *p, uint64_t splits, Status *status)
{
    const Blocks q = cut(p->Nq, p->Br), k = cut(p->Nk, p->Bc);
    const KeyBand band = key_band(p->Nq, p->Nk, p->band_low, p->band_high);
    if (sees_nothing(q, k, band)) return 0;
    const int64_t limit = (int64_t)min_u64(max_u64(splits, 1), ceil_div(p->Nk, p->Bc));
    const uint64_t whole = checked_mul(blocks_of_splits(q, k, band, limit, status), p->Br, "rows of splits", status);
    const uint64_t tail = q.tail > 0 ? rows_of_block(p, band, q.length - q.tail, q.tail, limit) : 0;
    return checked_add(whole, tail, "rows of splits", status);
}

Account open_account(const CountedProblem *p, bool masked, ClosedForm *form, Status *status)
{
    *form = (ClosedForm){0};
    Account a = {.problem = p, .form = form, .status = status};
    if (!extents_allowed(p->Nq, p->Nk, p->Br, p->Bc, status) || p->batch == 0) return a;
    a.heads = checked_mul(p->batch, p->heads, "batch x heads", status);
    a.kv_heads = checked_mul(p->batch, p->kv_heads, "batch x K/V heads", status);
    a.Nk = p->Nk;
    a.d = p->d;
    a.Q = (Operand){"Q", a.heads, p->d, p->element_bytes};
    a.K = (Operand){"K", a.kv_heads, p->d, p->element_bytes};
    a.V = (Operand){"V", a.kv_heads, p->d, p->element_bytes};
    a.O = (Operand){"O", a.heads, p->d, p->element_bytes};
    a.L = (Operand){"L", a.heads, 1, p->statistic_bytes};
    a.Z = (Operand){"Z", a.heads, 1, 1};
    if (p->heads == 0 || p->Nq == 0) return a;
    a.Nq = p->Nq;
    a.sums = pair_sums(p, masked, status);
    a.visible = visible_pairs(p->Nq, p->Nk, p->band_low, p->band_high, status);
    form->tile_pairs = checked_mul(a.heads, a.sums.pairs, "tile pairs of all heads", status);
    return a;
}

/* S = Q Kᵀ and P V, 2 r c d FLOPs each; a visible pair has its share of both. */
static void both_products(const Account *a)
{
    count(a, &a->form->matmul_flops, "matmul_flops", 4, a->sums.area, a->d);
    count(a, &a->form->matmul_flops_exact_mask, "matmul_flops_exact_mask", 4, a->visible, a->d);
}

/* Q, K and V as operands in shared memory. */
static void read_qkv(const Account *a)
{
    operand_reads(a, a->problem->element_bytes, a->sums.left_reads, a->d);
    operand_reads(a, 2 * a->problem->element_bytes, a->sums.right_reads, a->d);
}

/* Dropout in a forward pass; the mask that is stored for both passes is written by a launch of its own. */
static void drop_probabilities(const Account *a)
{
    drop_scores(a);
    const uint64_t scores = a->problem->writes_mask ? checked_mul(a->Nq, a->Nk, a->Z.name, a->status) : 0;
    stores(a, &a->Z, scores, scores);
}

/* ---------------------------------------------------------------------------------------------------------- 3. algorithms */

/* Algorithm 0: three launches. Nothing is skipped under a mask, so the pairs are those of the full matrix. Softmax rows that do
 * not fit on chip are read twice: a first pass for m and l, in `parts` of a row, and a second one for P. */
bool closed_form_standard(const CountedProblem *p, ClosedForm *form, Status *status)
{
    const Account a = open_account(p, false, form, status);
    const PairSums *s = &a.sums;
    const uint64_t e = p->element_bytes;
    const bool whole_rows = p->softmax_cols >= p->Nk;
    const uint64_t parts = whole_rows ? 0 : ceil_div(a.Nk, max_u64(p->softmax_cols, 1));
    const Operand S = {"S", a.heads, a.Nk, e}, P = {"P", a.heads, a.Nk, e};

    loads(&a, &a.Q, s->seeing_rows, s->seeing_rows);            /* kernel 1: Q once, K once per query block, S written */
    loads(&a, &a.K, s->keys, s->seen_keys);
    stores(&a, &S, a.Nq, a.Nq);
    copies(&a, e, s->seeing_rows, a.d);
    copies(&a, e, s->keys, a.d);

    loads(&a, &S, whole_rows ? a.Nq : 2 * a.Nq, a.Nq);          /* kernel 2, in shared memory */
    stores(&a, &P, a.Nq, a.Nq);
    copies(&a, (whole_rows ? 2 : 3) * e, a.Nq, a.Nk);
    nonmatmul(&a, whole_rows ? 5 : 7, a.Nq, a.Nk);              /* max 1, exp of a difference 2, sum 1, divide 1; or exp twice */
    nonmatmul(&a, 4, a.Nq, parts);                              /* long rows: alpha 2, alpha l + sum 2 */
    exponentials(&a, whole_rows ? 1 : 2, a.Nq, a.Nk);
    exponentials(&a, 1, a.Nq, parts);
    thread_touches(&a, (whole_rows ? 6 : 8) * e, a.Nq, a.Nk);   /* max 1, exp 2, sum 1, divide 2; or exp twice */

    loads(&a, &P, a.Nq, a.Nq);                                  /* kernel 3: P once, V once per query block, O written */
    loads(&a, &a.V, s->keys, s->seen_keys);
    stores(&a, &a.O, a.Nq, a.Nq);
    copies(&a, e, a.Nq, a.Nk);
    copies(&a, e, s->keys, a.d);

    both_products(&a);
    drop_probabilities(&a);
    if (p->dropout) thread_touches(&a, 2 * e, s->area, 1);     /* of P, in place in shared memory */
    read_qkv(&a);
    operand_reads(&a, e, s->area, groups(p->d, p->shape_n));    /* P is the left operand of P V, from shared memory */
    return status_ok(status);
}

/* As listed (Algorithm 1): launches `init` and `forward`; keys outside. Everything is in one on-chip memory, so threads reach
 * S, O, l and m in shared memory. */
bool closed_form_fa1(const CountedProblem *p, ClosedForm *form, Status *status)
{
    const Account a = open_account(p, true, form, status);
    const PairSums *s = &a.sums;
    const uint64_t e = p->element_bytes, t = p->statistic_bytes;

    stores(&a, &a.O, a.Nq, a.Nq);                               /* line 2: O, l, m */
    stores(&a, &a.L, 2 * a.Nq, 2 * a.Nq);
    loads(&a, &a.K, s->seen_keys, s->seen_keys);                /* line 6: K_j, V_j of every key block that is seen */
    loads(&a, &a.V, s->seen_keys, s->seen_keys);
    loads(&a, &a.Q, s->rows, s->seeing_rows);                   /* line 8: Q_i, O_i, l_i, m_i per executed pair */
    loads(&a, &a.O, s->rows, s->seeing_rows);
    loads(&a, &a.L, checked_mul(2, s->rows, "l and m", status), 2 * s->seeing_rows);
    stores(&a, &a.O, s->rows, s->seeing_rows);                  /* lines 12, 13 */
    stores(&a, &a.L, checked_mul(2, s->rows, "l and m", status), 2 * s->seeing_rows);

    both_products(&a);
    drop_probabilities(&a);
    nonmatmul(&a, 5, s->area, 1);       /* scale 1, max 1, subtract and exp 2, sum 1 */
    nonmatmul(&a, 8, s->rows, 1);       /* max(m, m~) 1, two weights 2 each, l w 1, l~ w~ 1, their sum 1 */
    nonmatmul(&a, 4, s->rows, a.d);     /* O l w 1, P V w~ 1, their sum 1, divided by l_new 1 */
    exponentials(&a, 1, s->area, 1);
    exponentials(&a, 2, s->rows, 1);

    read_qkv(&a);
    operand_reads(&a, e, s->area, 1);                           /* P: each warp its own quarter */
    copies(&a, 2 * e, s->seen_keys, a.d);                       /* K, V in; Q, O, l, m in; O, l out (m_new is in registers) */
    copies(&a, 3 * e, s->rows, a.d);
    copies(&a, 3 * t, s->rows, 1);
    thread_touches(&a, 8 * t + e, s->area, 1);                  /* S: product 1, scale 2, max 1, exp 2, sum 1, and 1 -> P */
    thread_touches(&a, 6 * e, s->rows, a.d);                    /* O: weighted 2, added to 2, divided 2 */
    thread_touches(&a, 8 * t, s->rows, 1);                      /* m: max 1, weight 1; l: weighted 2, used, added to 2, used */
    return status_ok(status);
}

/* As shipped: launches `forward` and `empty rows`; keys outside, one statistic L, and neither O nor L is read at the first
 * visit of a query block (Σ r - seeing_rows are the rows of later visits). An ideal L2 never reads them: the launch itself has
 * written them. */
bool closed_form_fa1_shipped(const CountedProblem *p, ClosedForm *form, Status *status)
{
    const Account a = open_account(p, true, form, status);
    const PairSums *s = &a.sums;
    const uint64_t e = p->element_bytes, unseeing_rows = a.Nq - s->seeing_rows;

    loads(&a, &a.K, s->seen_keys, s->seen_keys);
    loads(&a, &a.V, s->seen_keys, s->seen_keys);
    loads(&a, &a.Q, s->rows, s->seeing_rows);
    loads(&a, &a.O, s->rows - s->seeing_rows, 0);
    loads(&a, &a.L, s->rows - s->seeing_rows, 0);
    stores(&a, &a.O, s->rows, s->seeing_rows);
    stores(&a, &a.L, s->rows, s->seeing_rows);
    stores(&a, &a.O, unseeing_rows, unseeing_rows);             /* O = 0, L = -inf */
    stores(&a, &a.L, unseeing_rows, unseeing_rows);

    both_products(&a);
    drop_probabilities(&a);
    nonmatmul(&a, 5, s->area, 1);       /* scale 1, max 1, subtract and exp 2, sum 1 */
    nonmatmul(&a, 3, s->rows, 1);       /* e^(L - m) 2, added to the sum 1 */
    nonmatmul(&a, 3, s->rows, a.d);     /* O weighted 1, P V added 1, divided 1 */
    exponentials(&a, 1, s->area, 1);
    exponentials(&a, 1, s->rows, 1);

    read_qkv(&a);                       /* P, O and L stay in registers */
    copies(&a, 2 * e, s->seen_keys, a.d);
    copies(&a, e, s->rows, a.d);
    return status_ok(status);
}

/* One launch; queries outside. O, m, l stay in registers; every query block writes its O and L, seeing or not. */
bool closed_form_fa2(const CountedProblem *p, ClosedForm *form, Status *status)
{
    const Account a = open_account(p, true, form, status);
    const PairSums *s = &a.sums;
    const uint64_t e = p->element_bytes;

    loads(&a, &a.Q, s->seeing_rows, s->seeing_rows);            /* line 4: once per query block that sees a key */
    loads(&a, &a.K, s->keys, s->seen_keys);                     /* line 7: K_j, V_j per executed pair */
    loads(&a, &a.V, s->keys, s->seen_keys);
    stores(&a, &a.O, a.Nq, a.Nq);                               /* lines 14, 15 */
    stores(&a, &a.L, a.Nq, a.Nq);

    both_products(&a);
    drop_probabilities(&a);
    nonmatmul(&a, 5, s->area, 1);       /* scale 1, max 1, subtract and exp 2, sum 1 */
    nonmatmul(&a, 4, s->rows, 1);       /* alpha 2, alpha l + sum 2 */
    nonmatmul(&a, 2, s->rows, a.d);     /* O rescaled 1, P V added 1 */
    nonmatmul(&a, 1, a.Nq, a.d);        /* line 12, once: O / l */
    exponentials(&a, 1, s->area, 1);
    exponentials(&a, 1, s->rows, 1);

    read_qkv(&a);                       /* P stays in registers */
    copies(&a, e, s->seeing_rows, a.d);
    copies(&a, 2 * e, s->keys, a.d);
    return status_ok(status);
}

/* --------------------------------------------------------------------------------------- the lecture's one-head formulas */

/* x Nd + y N */
static uint64_t passes(uint64_t x, uint64_t y, uint64_t N, uint64_t d, const char *what, Status *status)
{
    const uint64_t rows = checked_mul(x, checked_mul(N, d, what, status), what, status);
    return checked_add(rows, checked_mul(y, N, what, status), what, status);
}

uint64_t standard_elements(uint64_t N, uint64_t d, Status *status)
{
    return passes(4, checked_mul(4, N, "4N", status), N, d, "4Nd + 4N^2", status);
}

uint64_t fa1_elements(uint64_t N, uint64_t d, uint64_t Bc, Status *status)
{
    static const char *const what = "2Nd + (Nd + 2N) + Tc (3Nd + 4N)";
    const uint64_t sweep = passes(3, 4, N, d, what, status);
    return checked_add(passes(3, 2, N, d, what, status), checked_mul(ceil_div(N, Bc), sweep, what, status), what, status);
}

uint64_t fa2_elements(uint64_t N, uint64_t d, uint64_t Br, Status *status)
{
    static const char *const what = "2Nd + N + 2Nd Tr";
    const uint64_t kv_passes = checked_mul(2, ceil_div(N, Br), what, status);
    return checked_add(passes(2, 1, N, d, what, status), passes(kv_passes, 0, N, d, what, status), what, status);
}

uint64_t fa1_published_elements(uint64_t N, uint64_t d, uint64_t Bc, Status *status)
{
    static const char *const what = "(1 + 3 Tc) Nd";
    return passes(checked_add(1, checked_mul(3, ceil_div(N, Bc), what, status), what, status), 0, N, d, what, status);
}

uint64_t fa1_sram_elements(uint64_t Br, uint64_t Bc, uint64_t d, Status *status)
{
    static const char *const what = "2 Bc d + 2 Br d + 2 Br + Br Bc";
    const uint64_t kv = passes(2, 0, Bc, d, what, status), qo = passes(2, 2, Br, d, what, status);
    return checked_add(checked_add(kv, qo, what, status), checked_mul(Br, Bc, what, status), what, status);
}

uint64_t standard_backward_elements(uint64_t N, uint64_t d, Status *status)
{
    return passes(8, checked_mul(7, N, "7N", status), N, d, "8Nd + 7N^2", status);
}

uint64_t fa2_backward_elements(uint64_t N, uint64_t d, uint64_t Bc, Status *status)
{
    static const char *const what = "6Nd + N + Tc (4Nd + 2N)";
    const uint64_t sweeps = checked_mul(ceil_div(N, Bc), passes(4, 2, N, d, what, status), what, status);
    return checked_add(passes(6, 1, N, d, what, status), sweeps, what, status);
}

uint64_t fa2_backward_atomic_elements(uint64_t N, uint64_t d, uint64_t Bc, Status *status)
{
    static const char *const what = "Tc 2Nd";
    return checked_mul(ceil_div(N, Bc), passes(2, 0, N, d, what, status), what, status);
}

uint64_t fa2_backward_atomic_elements_by_queries(uint64_t N, uint64_t d, uint64_t Br, Status *status)
{
    static const char *const what = "Tr 4Nd";
    return checked_mul(ceil_div(N, Br), passes(4, 0, N, d, what, status), what, status);
}

uint64_t fa1_published_backward_elements(uint64_t N, uint64_t d, uint64_t Bc, Status *status)
{
    static const char *const what = "(4 + 4 Tc) Nd";
    return passes(checked_add(4, checked_mul(4, ceil_div(N, Bc), what, status), what, status), 0, N, d, what, status);
}

uint64_t standard_training_elements(uint64_t N, uint64_t d, Status *status)
{
    return checked_add(standard_elements(N, d, status), standard_backward_elements(N, d, status), "12Nd + 11N^2", status);
}

uint64_t flash_training_elements(uint64_t N, uint64_t d, Status *status) { return passes(13, 0, N, d, "13Nd", status); }

uint64_t flash_training_bytes_float32_dq(uint64_t N, uint64_t d, Status *status) { return passes(34, 0, N, d, "34Nd", status); }

uint64_t saved_p_bytes(uint64_t batch, uint64_t heads, uint64_t N, Status *status)
{
    static const char *const what = "2 batch heads N^2";
    return checked_mul(checked_mul(batch, heads, what, status), passes(2, 0, N, N, what, status), what, status);
}

uint64_t saved_l_bytes(uint64_t batch, uint64_t heads, uint64_t N, Status *status)
{
    static const char *const what = "4 batch heads N";
    return checked_mul(checked_mul(batch, heads, what, status), passes(4, 0, N, 1, what, status), what, status);
}

/* x N²d */
static uint64_t products(uint64_t x, uint64_t N, uint64_t d, const char *what, Status *status)
{
    return checked_mul(passes(x, 0, N, d, what, status), N, what, status);
}

uint64_t forward_flops(uint64_t N, uint64_t d, Status *status) { return products(4, N, d, "4N^2 d", status); }

uint64_t backward_flops(uint64_t N, uint64_t d, Status *status) { return products(8, N, d, "8N^2 d", status); }

uint64_t recompute_flops(uint64_t N, uint64_t d, Status *status) { return products(2, N, d, "2N^2 d", status); }

uint64_t matmul_flops_convention(const CountedProblem *p, bool causal, Status *status)
{
    static const char *const what = "matmul_flops_convention";
    if (p->batch == 0 || p->heads == 0 || p->Nq == 0 || p->Nk == 0) return 0;
    const uint64_t heads = checked_mul(p->batch, p->heads, what, status);
    const uint64_t scores = checked_mul(heads, checked_mul(p->Nq, p->Nk, what, status), what, status);
    return checked_mul(causal ? 2 : 4, checked_mul(scores, p->d, what, status), what, status);
}
