/* decode_study.c - see decode_study.h. */
#include "decode_study.h"

#include "algos/decode.h"
#include "algos/oracle.h"

#include "sim/bandwidth.h"
#include "sim/chip_schedule.h"
#include "sim/normal.h"

bool split_use(uint64_t unsplit_blocks, uint64_t splits, uint64_t sm_count, SplitUse *use, Status *status)
{
    Waves waves;
    use->blocks = checked_mul(unsplit_blocks, splits, "blocks x splits", status);
    if (!status_ok(status) || !count_waves(use->blocks, sm_count, 1, &waves, status)) return false;
    use->waves = waves.waves;
    use->used_percent = use->blocks > 0 ? 100 * ratio_value(waves.utilisation) : 0;
    return true;
}

SplitProblem decode_split_problem(uint64_t batch, uint64_t kv_heads, uint64_t keys, uint64_t Bc, uint64_t sm_count)
{
    return (SplitProblem){.blocks = batch * kv_heads, .query_blocks = 1, .key_blocks = ceil_div(keys, Bc), .sm_count = sm_count};
}

uint64_t blocks_read_nanoseconds(const Profile *chip, uint64_t bytes, uint64_t blocks, uint64_t resident)
{
    const uint64_t slots = chip->sm_count * resident;
    if (blocks == 0 || slots == 0) return 0;
    const uint64_t each = ceil_div(bytes, blocks), waves = blocks / slots, last = blocks % slots;
    return waves * hbm_nanoseconds(chip, slots * each, chip->sm_count) +
           hbm_nanoseconds(chip, last * each, min_u64(last, chip->sm_count));
}

bool exercise_11(uint64_t sm_count, Exercise11 *answer, Status *status)
{
    const SplitProblem p = decode_split_problem(2, 8, 32768, 128, sm_count);
    SplitProblem one_per_sm = p;
    *answer = (Exercise11){.problem = p};
    for (int rule = 0; rule < SPLIT_RULES; rule++) answer->by_rule[rule] = split_count((SplitRule)rule, &p);
    one_per_sm.sm_count = sm_count / 2; /* FlashAttention-2's rule doubles it */
    answer->eligible = split_count(SPLIT_FA2, &one_per_sm);
    const uint64_t eight = decode_parts_bytes(2, 8, 1, 128, 8, 4, status), more = decode_parts_bytes(2, 8, 1, 128, 33, 4, status);
    answer->parts_ratio = (double)more / (double)eight;
    return split_use(p.blocks, 1, sm_count, &answer->unsplit, status) &&
           split_use(p.blocks, 8, sm_count, &answer->eight, status) &&
           split_use(p.blocks, 33, sm_count, &answer->thirty_three, status);
}

/* ---- merging ---- */

/* A part of each of `rows` problems. O: [rows, d], L: [rows]. */
typedef struct {
    double *O, *L;
} Parts;

/* A machine on which the combine kernel alone runs, `rows` problems at once. */
typedef struct {
    Machine machine;
    Attention attention;
    Tensor *parts[2], *part_lse[2], *O, *L; /* for two parts and for three */
    uint64_t rows, d;
} Merger;

static bool merger_init(Merger *m, const Profile *profile, uint64_t rows, uint64_t d, Alloc *alloc, Status *status)
{
    AttentionShape shape = attention_shape(rows, d);
    shape.dtype = ELEMENT_F64;
    *m = (Merger){.rows = rows, .d = d};
    machine_init(&m->machine, profile, (MachineConfig){.mode = MODE_NUMERIC, .precision = PRECISION_F64}, alloc, status);
    if (!attention_init(&m->attention, &m->machine, &shape, 1, 1)) return false;
    for (uint64_t i = 0; i < 2; i++) {
        m->parts[i] = machine_tensor(&m->machine, "O parts", ELEMENT_F64, 1, i + 2, rows, d);
        m->part_lse[i] = machine_tensor(&m->machine, "L parts", ELEMENT_F64, 1, 1, rows, i + 2);
    }
    m->O = m->attention.O;
    m->L = machine_tensor(&m->machine, "L", ELEMENT_F64, 1, 1, rows, 1);
    return status_ok(status);
}

/* out = the merge of count (2 or 3) parts in this order; may be one of them. */
static bool merge(Merger *m, const Parts *const parts[], uint64_t count, MergeOrder order, const Parts *out)
{
    Tensor *O = m->parts[count - 2], *L = m->part_lse[count - 2];
    for (uint64_t s = 0; s < count; s++)
        for (uint64_t r = 0; r < m->rows; r++) {
            for (uint64_t c = 0; c < m->d; c++)
                tensor_set(&m->machine, O, (s * m->rows + r) * m->d + c, parts[s]->O[r * m->d + c]);
            tensor_set(&m->machine, L, r * count + s, parts[s]->L[r]);
        }
    m->attention.decode.merge = order;
    if (!decode_combine(&m->machine, &m->attention, O, L, m->O, m->L)) return false;
    for (uint64_t i = 0; i < m->rows * m->d; i++) out->O[i] = tensor_value(&m->machine, m->O, i);
    for (uint64_t r = 0; r < m->rows; r++) out->L[r] = tensor_value(&m->machine, m->L, r);
    return true;
}

/* max |x - y| */
static double largest_difference(const double *x, const double *y, uint64_t count)
{
    double largest = 0;
    for (uint64_t i = 0; i < count; i++) {
        const double difference = x[i] < y[i] ? y[i] - x[i] : x[i] - y[i];
        if (!(difference <= largest)) largest = difference;
    }
    return largest;
}

enum { A, B, C, LEFT, RIGHT, LISTS };

static void random_parts(const Parts *parts, uint64_t rows, uint64_t d, uint64_t seed, uint64_t stream)
{
    normal_fill_f64(parts->O, rows * d, seed, stream, 0);
    normal_fill_f64(parts->L, rows, seed, stream + 1, 0);
    for (uint64_t r = 0; r < rows; r++) parts->L[r] *= 4;
}

static bool compare_merges(Merger *m, const Parts p[LISTS], MergeStudy *study)
{
    const Parts *const ab[] = {&p[A], &p[B]}, *const ba[] = {&p[B], &p[A]}, *const bc[] = {&p[B], &p[C]};
    const Parts *const left_c[] = {&p[LEFT], &p[C]}, *const a_right[] = {&p[A], &p[RIGHT]};
    const Parts *const abc[] = {&p[A], &p[B], &p[C]}, *const cba[] = {&p[C], &p[B], &p[A]};
    const uint64_t count = m->rows * m->d;
    if (!merge(m, ab, 2, MERGE_TREE, &p[LEFT]) || !merge(m, ba, 2, MERGE_TREE, &p[RIGHT])) return false;
    study->order = largest_difference(p[LEFT].O, p[RIGHT].O, count);
    if (!merge(m, left_c, 2, MERGE_TREE, &p[LEFT]) || !merge(m, bc, 2, MERGE_TREE, &p[RIGHT]) ||
        !merge(m, a_right, 2, MERGE_TREE, &p[RIGHT]))
        return false;
    study->bracketing = largest_difference(p[LEFT].O, p[RIGHT].O, count);
    if (!merge(m, abc, 3, MERGE_SEQUENTIAL, &p[RIGHT])) return false;
    study->shape = largest_difference(p[LEFT].O, p[RIGHT].O, count);
    if (!merge(m, abc, 3, MERGE_TREE, &p[LEFT]) || !merge(m, cba, 3, MERGE_TREE, &p[RIGHT])) return false;
    const double reversed = largest_difference(p[LEFT].O, p[RIGHT].O, count);
    if (!(reversed <= study->order)) study->order = reversed;
    for (uint64_t i = 0; i < count; i++) {
        const double magnitude = p[LEFT].O[i] < 0 ? -p[LEFT].O[i] : p[LEFT].O[i];
        if (magnitude > study->largest) study->largest = magnitude;
    }
    return true;
}

bool merge_study(uint64_t triples, uint64_t d, uint64_t seed, Alloc *alloc, MergeStudy *study, Status *status)
{
    Profile profile;
    Merger merger;
    Parts parts[LISTS] = {{NULL, NULL}};
    *study = (MergeStudy){0};
    if (!profile_load("unbounded", alloc, &profile, status)) return false;
    bool ok = merger_init(&merger, &profile, triples, d, alloc, status);
    for (int i = 0; i < LISTS && ok; i++) {
        parts[i].O = alloc_array(alloc, triples * d, sizeof(double), "parts", status);
        parts[i].L = alloc_array(alloc, triples, sizeof(double), "parts", status);
        ok = status_ok(status);
    }
    for (int i = A; i <= C && ok; i++) random_parts(&parts[i], triples, d, seed, 2 * (uint64_t)i);
    ok = ok && compare_merges(&merger, parts, study);
    for (int i = 0; i < LISTS; i++) {
        alloc_free(alloc, parts[i].O);
        alloc_free(alloc, parts[i].L);
    }
    machine_free(&merger.machine);
    return ok;
}

/* Runs once more with these options. O: [d]. */
static bool decode_again(AttentionRun *run, DecodeOptions options, double *O, double *from_oracle)
{
    ForwardError error;
    machine_clear_ledger(&run->machine);
    if (!attention_run_set_decode(run, options) || !attention_run_forward(run) ||
        !oracle_compare(&run->attention, &run->machine, &error))
        return false;
    for (uint64_t c = 0; c < run->attention.shape.head_dim; c++) O[c] = tensor_value(&run->machine, run->attention.O, c);
    *from_oracle = error.max_abs_O;
    return true;
}

bool split_errors(uint64_t keys, uint64_t d, MergeOrder merge, const uint32_t *splits, size_t count, uint64_t seed, Alloc *alloc,
                  SplitError *errors, Status *status)
{
    double split[MAX_HEAD_DIM], whole[MAX_HEAD_DIM], unused;
    Profile profile;
    AttentionRun run;
    AttentionShape shape = attention_shape(1, d);
    shape.seqlen_k = keys;
    shape.dtype = ELEMENT_F64;
    if (!profile_load("unbounded", alloc, &profile, status)) return false;
    const RunSetup setup = {.algorithm = &algorithm_decode,
                            .profile = &profile,
                            .tiles = {16, 64},
                            .config = {.mode = MODE_NUMERIC, .l2 = L2_IDEAL, .precision = PRECISION_F64}};
    bool ok = attention_run_prepare(&run, &setup, &shape, alloc, status);
    if (ok) attention_random_inputs(&run.attention, &run.machine, seed);
    ok = ok && decode_again(&run, (DecodeOptions){.splits = 1}, whole, &unused);
    for (size_t i = 0; ok && i < count; i++) {
        ok = decode_again(&run, (DecodeOptions){.splits = splits[i], .merge = merge}, split, &errors[i].from_oracle);
        if (ok) errors[i].from_unsplit = largest_difference(split, whole, d);
    }
    attention_run_free(&run);
    return ok;
}
