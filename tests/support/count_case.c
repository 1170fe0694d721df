/* count_case.c - see count_case.h. */
#include "count_case.h"

#include <stdio.h>

bool count_walk(AttentionRun *run, const CountCase *c, MachineConfig config, const Profile *profile, Alloc *alloc,
                Status *status)
{
    config.l2 = c->l2;
    config.precision = c->shape.dtype == ELEMENT_F64 ? PRECISION_F64 : PRECISION_F32;
    const RunSetup setup = {.algorithm = c->algorithm, .profile = profile, .tiles = c->tiles, .config = config};
    if (!attention_run_prepare(run, &setup, &c->shape, alloc, status)) return false;
    attention_random_inputs(&run->attention, &run->machine, 1);
    return attention_run_forward(run);
}

void count_case_name(const CountCase *c, char *text, size_t size)
{
    static const char *const masks[] = {"no mask", "causal", "causal-top-left"};
    const AttentionShape *s = &c->shape;
    snprintf(text, size,
             "%s B=%" PRIu64 " H=%" PRIu64 "/%" PRIu64 " Nq=%" PRIu64 " Nk=%" PRIu64 " d=%" PRIu64 " Br=%u Bc=%u %s "
             "window %" PRId64 ",%" PRId64 " %s l2 %s",
             c->algorithm->name, s->batch, s->heads, s->kv_heads, s->seqlen_q, s->seqlen_k, s->head_dim, c->tiles.Br, c->tiles.Bc,
             masks[s->mask], s->window_left, s->window_right, element_name(s->dtype), c->l2 == L2_IDEAL ? "ideal" : "none");
}

uint64_t random_between(uint64_t *state, uint64_t low, uint64_t high)
{
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return low + (z ^ (z >> 31)) % (high - low + 1);
}
