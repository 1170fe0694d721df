/* test_suggest.c - the nearest name: what is suggested, what is not, by how many letters a word may be off. */
#include "sim/suggest.h"
#include "tests/test.h"

static const char *const names[] = {"--seqlen", "--seqlen-k", "--head-dim", "--heads",     "--kv-heads",
                                    "--mask",   "--hw",       "h100",       "h200",        "ideal_sm",
                                    NULL,       "",           "fa1",        "fa1-shipped", "fa2"};

/* Hundred letters: longer than any name. */
static const char long_word[] =
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

static const struct {
    const char *word;
    const char *nearest; /* NULL: nothing is near */
} cases[] = {
    {"--seqlen", "--seqlen"},     /* itself */
    {"--seqlne", "--seqlen"},     /* two neighbours swapped: 1 */
    {"--seqln", "--seqlen"},      /* one missing */
    {"--seqleen", "--seqlen"},    /* one too many */
    {"--head-din", "--head-dim"}, /* one replaced */
    {"--SEQLEN-K", "--seqlen-k"}, /* letter case is free */
    {"--head_dim", "--head-dim"},
    {"--head", "--heads"},
    {"--kvheads", "--kv-heads"},
    {"h10", "h100"},
    {"h300", "h100"}, /* h100 and h200 are equally near: the first */
    {"ideal", NULL},  /* 3 of 8 letters missing: more than a third */
    {"idealsm", "ideal_sm"},
    {"f1a", "fa1"}, /* one swap; two replacements would be too many */
    {"fa3", "fa1"},
    {"fa", "fa1"}, /* a third of the longer word, rounded down, and at least one letter */
    {"x", NULL},
    {"--frobnicate", NULL},
    {"zzz", NULL},
    {"", NULL},
    {long_word, NULL},
};

int main(void)
{
    Test t = {0};
    const size_t count = sizeof names / sizeof names[0];
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const char *got = suggest_nearest(cases[k].word, names, count);
        check_text(&t, got != NULL ? got : "nothing", cases[k].nearest != NULL ? cases[k].nearest : "nothing", cases[k].word);
    }
    return test_end(&t, "test_suggest");
}
