/* count_case.c - see count_case.h. */
#include "count_case.h"

#include <stdio.h>

#define FIELD(name) {#name, offsetof(Totals, name), offsetof(ClosedForm, name), offsetof(BruteCounts, name)}
const CountField count_fields[COUNT_FIELDS] = {
    FIELD(hbm_read_elements), FIELD(hbm_write_elements), FIELD(hbm_read_bytes), FIELD(hbm_write_bytes), FIELD(l2_to_sm_bytes),
    FIELD(sm_to_l2_bytes), FIELD(atomic_elements), FIELD(smem_operand_bytes), FIELD(smem_thread_bytes), FIELD(smem_copy_bytes),
    FIELD(matmul_flops), FIELD(matmul_flops_exact_mask), FIELD(nonmatmul_ops), FIELD(exp_ops)};

uint64_t count_at(const void *record, size_t offset)
{
    return *(const uint64_t *)(const void *)((const char *)record + offset);
}

bool count_walk(AttentionRun *run, const CountCase *c, MachineConfig config, const Profile *profile, Alloc *alloc,
                Status *status)
{
    return count_walk_decode(run, c, (DecodeOptions){0}, config, profile, alloc, status);
}

bool count_walk_decode(AttentionRun *run, const CountCase *c, DecodeOptions decode, MachineConfig config, const Profile *profile, Alloc *alloc,
                       Status *status)
{
    config.l2 = c->l2;
    config.precision = c->shape.dtype == ELEMENT_F64 ? PRECISION_F64 : PRECISION_F32;
    const RunSetup setup = {.algorithm = c->algorithm, .profile = profile, .tiles = c->tiles, .config = config};
    if (!attention_run_prepare(run, &setup, &c->shape, alloc, status)) return false;
    if (c->algorithm == &algorithm_decode && !attention_run_set_decode(run, decode)) return false;
    attention_random_inputs(&run->attention, &run->machine, 1);
    return attention_run_forward(run);
}

BruteProblem brute_problem(const CountCase *c, const CountedProblem *p)
{
    static const BruteMask masks[] = {BRUTE_NO_MASK, BRUTE_CAUSAL, BRUTE_CAUSAL_TOP_LEFT};
    const AttentionShape *s = &c->shape;
    return (BruteProblem){.batch = s->batch, .heads = s->heads, .kv_heads = s->kv_heads, .Nq = s->seqlen_q, .Nk = s->seqlen_k,
                          .d = s->head_dim, .mask = masks[s->mask], .window_left = s->window_left,
                          .window_right = s->window_right, .Br = c->tiles.Br, .Bc = c->tiles.Bc,
                          .element_bytes = p->element_bytes, .statistic_bytes = p->statistic_bytes, .ideal_l2 = c->l2 == L2_IDEAL,
                          .instruction_rows = p->shape_m, .instruction_cols = p->shape_n, .softmax_cols = p->softmax_cols,
                          .splits = p->splits, .packed = p->packed, .merged_by_tree = p->merged_by_tree};
}

void count_case_name(const CountCase *c, char *text, size_t size)
{
    static const char *const masks[] = {"no mask", "causal", "causal-top-left"};
    static const char *const l2_names[] = {"none", "ideal", "simulated"};
    const AttentionShape *s = &c->shape;
    snprintf(text, size,
             "%s B=%" PRIu64 " H=%" PRIu64 "/%" PRIu64 " Nq=%" PRIu64 " Nk=%" PRIu64 " d=%" PRIu64 " Br=%u Bc=%u %s "
             "window %" PRId64 ",%" PRId64 " %s l2 %s",
             c->algorithm->name, s->batch, s->heads, s->kv_heads, s->seqlen_q, s->seqlen_k, s->head_dim, c->tiles.Br, c->tiles.Bc,
             masks[s->mask], s->window_left, s->window_right, element_name(s->dtype), l2_names[c->l2]);
}

uint64_t random_between(uint64_t *state, uint64_t low, uint64_t high)
{
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return low + (z ^ (z >> 31)) % (high - low + 1);
}

uint64_t random_length(uint64_t *random, uint64_t block)
{
    static const uint64_t primes[] = {1, 2, 3, 7, 31, 61, 127, 131, 257, 509, 521, 1021};
    switch (random_between(random, 0, 3)) {
    case 0: return primes[random_between(random, 0, sizeof primes / sizeof primes[0] - 1)];
    case 1: return random_between(random, 0, 700);
    default: return block * random_between(random, 1, 5) + random_between(random, 0, 2) - 1;    /* one less, equal, one more */
    }
}

void random_mask(AttentionShape *shape, uint64_t *random)
{
    const uint64_t longest = max_u64(max_u64(shape->seqlen_q, shape->seqlen_k), 1);
    shape->mask = (MaskKind)random_between(random, 0, 2);
    shape->window_left = random_between(random, 0, 1) ? -1 : (int64_t)random_between(random, 0, longest);
    shape->window_right = random_between(random, 0, 1) ? -1 : (int64_t)random_between(random, 0, longest);
}

void random_heads(AttentionShape *shape, uint64_t *random, uint64_t most)
{
    shape->batch = random_between(random, 0, 9) ? random_between(random, 1, 2) : 0;
    shape->kv_heads = random_between(random, 1, most);
    shape->heads = shape->kv_heads * random_between(random, random_between(random, 0, 9) ? 1 : 0, most);
}

DecodeOptions random_decode(const CountCase *c, uint64_t *random)
{
    const uint64_t key_blocks = ceil_div(c->shape.seqlen_k, c->tiles.Bc);
    return (DecodeOptions){.splits = (uint32_t)random_between(random, 0, 2 * key_blocks + 2),
                           .packing = (QueryPacking)random_between(random, 0, PACK_RULES - 1),
                           .merge = (MergeOrder)random_between(random, 0, MERGE_ORDERS - 1)};
}

bool sees(const AttentionShape *s, uint64_t i, uint64_t j)
{
    const int64_t own = (int64_t)i + (int64_t)s->seqlen_k - (int64_t)s->seqlen_q, key = (int64_t)j;
    if (s->mask == MASK_CAUSAL && key > own) return false;
    if (s->mask == MASK_CAUSAL_TOP_LEFT && j > i) return false;
    if (s->window_left >= 0 && key < own - s->window_left) return false;
    return s->window_right < 0 || key <= own + s->window_right;
}
