/* test_philox.c - Philox4x32-10 against the published known answers of Random123, and the layout of elements in streams.
 *
 * Known answers: file kat_vectors of the Random123 library (D. E. Shaw Research), lines "philox4x32 10".
 */
/* label: unit */
#include "sim/philox.h"
#include "test.h"

typedef struct {
    const char *name;
    uint32_t counter[4], key[2], want[4];
} KnownAnswer;

static const KnownAnswer KNOWN_ANSWERS[] = {
    {"zeros", {0, 0, 0, 0}, {0, 0}, {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}},
    {"ones",
     {0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu},
     {0xffffffffu, 0xffffffffu},
     {0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}},
    {"digits of pi",
     {0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u},
     {0xa4093822u, 0x299f31d0u},
     {0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}},
};

static void test_known_answers(Test *t)
{
    for (size_t i = 0; i < sizeof KNOWN_ANSWERS / sizeof KNOWN_ANSWERS[0]; i++) {
        const KnownAnswer *known = &KNOWN_ANSWERS[i];
        uint32_t got[4];
        philox4x32(known->counter, known->key, got);
        for (int word = 0; word < 4; word++) {
            char what[80];
            snprintf(what, sizeof what, "philox4x32-10 of %s, word %d", known->name, word);
            check_u64(t, got[word], known->want[word], what);
        }
    }
}

/* Element = word index % 4 of Philox(counter = (index / 4, stream), key = seed), every 64-bit number low word first. */
static void test_layout(Test *t)
{
    static const uint64_t SEEDS[] = {0, 1, 0x299f31d0a4093822u, UINT64_MAX};
    static const uint64_t STREAMS[] = {0, 3, 0x0370734413198a2eu, UINT64_MAX};
    static const uint64_t INDICES[] = {0, 1, 2, 3, 4, 5, 0xffffffffu, 0x100000000u, 0x400000000u, UINT64_MAX - 1, UINT64_MAX};
    for (size_t a = 0; a < sizeof SEEDS / sizeof SEEDS[0]; a++) {
        for (size_t b = 0; b < sizeof STREAMS / sizeof STREAMS[0]; b++) {
            for (size_t c = 0; c < sizeof INDICES / sizeof INDICES[0]; c++) {
                const uint64_t seed = SEEDS[a], stream = STREAMS[b], index = INDICES[c], block = index / 4;
                const uint32_t counter[4] = {block & 0xffffffffu, (uint32_t)(block >> 32), stream & 0xffffffffu,
                                             (uint32_t)(stream >> 32)};
                const uint32_t key[2] = {seed & 0xffffffffu, (uint32_t)(seed >> 32)};
                uint32_t want[4], words[4];
                philox4x32(counter, key, want);
                philox_block(seed, stream, block, words);
                char what[128];
                snprintf(what, sizeof what, "element %" PRIu64 " of stream %" PRIu64 ", seed %" PRIu64, index, stream, seed);
                check_u64(t, philox_element(seed, stream, index), want[index % 4], what);
                check_u64(t, words[index % 4], want[index % 4], what);
            }
        }
    }
    /* The pi answer again, from 64-bit seed and stream: swapped words would show. The block number is that of no element. */
    uint32_t pi[4];
    philox_block(0x299f31d0a4093822u, 0x0370734413198a2eu, 0x85a308d3243f6a88u, pi);
    check_u64(t, pi[0], KNOWN_ANSWERS[2].want[0], "digits of pi through philox_block: counter (block, stream), key seed");
}

/* Bits of consecutive elements, neighbouring streams and neighbouring seeds are balanced: 20000 x 32 fair bits, 5 sigma. */
static void test_balance(Test *t)
{
    enum { COUNT = 20000 };
    for (int direction = 0; direction < 3; direction++) {
        uint64_t ones = 0;
        for (uint64_t i = 0; i < COUNT; i++) {
            uint32_t word = philox_element(direction == 2 ? i : 5, direction == 1 ? i : 9, direction == 0 ? i : 9);
            for (; word != 0; word &= word - 1) ones++;
        }
        const double half = COUNT * 32 / 2.0, sigma = 400; /* sqrt(640000 / 4) */
        check_close(t, ((double)ones - half) / sigma, 0, 5, "set bits of 20000 elements, in standard deviations from half");
    }
}

int main(void)
{
    Test t = {0};
    test_known_answers(&t);
    test_layout(&t);
    test_balance(&t);
    return test_end(&t, "test_philox");
}
