/* test_chip_schedule.c - blocks on SMs: worked schedules, the lecture's figures, Graham's bound against brute force, occupancy.
 *
 * The independent slow implementation is `plain_greedy`: for each block a linear search for the slot that is free first.
 */
/* label: unit, property */
#include "test.h"

#include "sim/checked.h"
#include "sim/chip_schedule.h"
#include "support/count_case.h"
#include "support/csv_named.h"

#include "experiments/support/h200_waves.h"

#include <stdlib.h>
#include <time.h>

typedef struct {
    Test test;
    Alloc alloc;
} Context;

enum { MOST_BLOCKS = 4096, MOST_SLOTS = 64 };

static uint64_t ratio_percent_100(Ratio r)
{
    return r.denominator > 0 ? (10000 * r.numerator + r.denominator / 2) / r.denominator : 0;
}

/* ---- waves ---- */

static void test_waves(Context *x)
{
    static const struct {
        uint64_t blocks, sms, resident, waves, last, numerator, denominator, percent_100;
    } cases[] = {
        {0, 132, 1, 0, 0, 0, 0, 0},
        {132, 132, 1, 1, 132, 132, 132, 10000},
        {136, 132, 1, 2, 4, 136, 264, 5152},
        {108, 108, 1, 1, 108, 108, 108, 10000},
        {109, 108, 1, 2, 1, 109, 216, 5046},
        {216, 108, 1, 2, 108, 216, 216, 10000},
        {220, 108, 1, 3, 4, 220, 324, 6790},
        {220, 108, 2, 2, 4, 220, 432, 5093},
        {256, 108, 1, 3, 40, 256, 324, 7901}, /* lecture 3.3 */
        {256, 132, 1, 2, 124, 256, 264, 9697},
        {16, 132, 1, 1, 16, 16, 132, 1212}, /* exercise 11 */
        {528, 132, 1, 4, 132, 528, 528, 10000},
        {UINT64_MAX, 1, 1, UINT64_MAX, 1, UINT64_MAX, UINT64_MAX, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Status status = {0};
        Waves w;
        char what[80];
        snprintf(what, sizeof what, "waves of %" PRIu64 " blocks on %" PRIu64 " SMs", cases[i].blocks, cases[i].sms);
        check_true(&x->test, count_waves(cases[i].blocks, cases[i].sms, cases[i].resident, &w, &status), what);
        check_u64(&x->test, w.waves, cases[i].waves, what);
        check_u64(&x->test, w.last, cases[i].last, what);
        check_u64(&x->test, w.utilisation.numerator, cases[i].numerator, what);
        check_u64(&x->test, w.utilisation.denominator, cases[i].denominator, what);
        if (cases[i].percent_100 > 0) check_u64(&x->test, ratio_percent_100(w.utilisation), cases[i].percent_100, what);
    }
    Status none = {0}, large = {0};
    Waves w;
    check_true(&x->test, !count_waves(1, 0, 1, &w, &none) && none.code == STATUS_USAGE, "no SM");
    check_true(&x->test, !count_waves(1, UINT64_MAX, 2, &w, &large) && large.code == STATUS_INFEASIBLE, "slots overflow");
}

/* ---- schedules ---- */

typedef enum { NATURAL, REVERSED, LONGEST_FIRST } Order;

/* Schedules `work` in an order; `group`: of REVERSED, and sections of LONGEST_FIRST. */
static void run_order(Context *x, ChipSchedule *schedule, const uint64_t *work, uint64_t count, Order order, uint64_t group,
                      ChipSlots chip)
{
    static uint64_t places[MOST_BLOCKS];
    Status status = {0};
    order_by_launch(places, count);
    if (order == REVERSED) order_reversed_in_groups(places, count, group);
    if (order == LONGEST_FIRST) order_longest_first(places, work, count, group, &x->alloc, &status);
    const BlockList list = {.work = work, .order = places, .count = count};
    chip_schedule(schedule, &list, &chip, &x->alloc, &status);
    check_text(&x->test, status.text, "", "schedule");
}

static uint64_t makespan(Context *x, const uint64_t *work, uint64_t count, Order order, uint64_t group, uint64_t sms)
{
    ChipSchedule s;
    run_order(x, &s, work, count, order, group, (ChipSlots){sms, 1, NULL});
    const uint64_t result = s.makespan;
    chip_schedule_free(&s);
    return result;
}

/* heads * Tr blocks, block t of a head costs t + 1. */
static void causal(uint64_t *work, uint64_t heads, uint64_t Tr)
{
    for (uint64_t i = 0; i < heads * Tr; i++) work[i] = i % Tr + 1;
}

static void check_loads(Context *x, const uint64_t *work, uint64_t count, Order order, const uint64_t *loads, uint64_t sms,
                        const char *what)
{
    ChipSchedule s;
    run_order(x, &s, work, count, order, count, (ChipSlots){sms, 1, NULL});
    for (uint64_t i = 0; i < sms; i++) {
        check_u64(&x->test, s.sms[i].work, loads[i], what);
        check_u64(&x->test, s.sms[i].finish, loads[i], what);
    }
    chip_schedule_free(&s);
}

static void test_lecture(Context *x)
{
    static const uint64_t slide[] = {1, 2, 3, 4, 1, 2, 3, 4}, natural[] = {9, 5, 6}, lpt[] = {7, 7, 6};
    check_loads(x, slide, 8, NATURAL, natural, 3, "the slide, natural order: [9, 5, 6]");
    check_loads(x, slide, 8, LONGEST_FIRST, lpt, 3, "the slide, LPT: [7, 7, 6]");
    ChipSchedule s;
    run_order(x, &s, slide, 8, NATURAL, 8, (ChipSlots){3, 1, NULL});
    static const BlockTime times[] = {{0, 0, 1}, {1, 0, 2}, {2, 0, 3}, {0, 1, 5}, {1, 2, 3}, {1, 3, 5}, {2, 3, 6}, {0, 5, 9}};
    for (size_t b = 0; b < 8; b++)
        check_true(&x->test,
                   s.blocks[b].sm == times[b].sm && s.blocks[b].start == times[b].start && s.blocks[b].end == times[b].end,
                   "the slide, natural order: who, from, to");
    check_u64(&x->test, s.bound, 7, "the slide: ceil(20/3)");
    chip_schedule_free(&s);

    static const uint64_t exercise[] = {1, 2, 3, 3, 4, 5}, arrival[] = {8, 10}, sorted[] = {9, 9};
    check_loads(x, exercise, 6, NATURAL, arrival, 2, "exercise 10, arrival order");
    check_loads(x, exercise, 6, LONGEST_FIRST, sorted, 2, "exercise 10, LPT");
}

static void test_large(Context *x)
{
    static const struct {
        uint64_t heads, Tr;
        Order order;
        uint64_t bound, makespan, percent_100;
    } cases[] = {{16, 16, NATURAL, 17, 27, 6296},      {16, 16, LONGEST_FIRST, 17, 17, 10000},
                 {16, 32, NATURAL, 64, 85, 7529},      {16, 32, LONGEST_FIRST, 64, 65, 9846},
                 {16, 64, NATURAL, 253, 292, 8664},    {16, 64, LONGEST_FIRST, 253, 253, 10000},
                 {16, 128, NATURAL, 1001, 1076, 9303}, {16, 128, LONGEST_FIRST, 1001, 1002, 9990},
                 {256, 64, NATURAL, 4034, 4074, 9902}, {256, 64, LONGEST_FIRST, 4034, 4034, 10000}};
    static uint64_t work[16384], order[16384];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const uint64_t count = cases[i].heads * cases[i].Tr;
        Status status = {0};
        ChipSchedule s;
        causal(work, cases[i].heads, cases[i].Tr);
        if (cases[i].order == LONGEST_FIRST)
            order_longest_first(order, work, count, count, &x->alloc, &status);
        else
            order_by_launch(order, count);
        const BlockList list = {.work = work, .order = order, .count = count};
        chip_schedule(&s, &list, &(ChipSlots){132, 1, NULL}, &x->alloc, &status);
        check_text(&x->test, status.text, "", "large");
        check_u64(&x->test, s.bound, cases[i].bound, "bound of a causal launch on 132 SMs");
        check_u64(&x->test, s.makespan, cases[i].makespan, "makespan of a causal launch on 132 SMs");
        check_u64(&x->test, ratio_percent_100(s.efficiency), cases[i].percent_100, "efficiency, 0.01 %");
        check_u64(&x->test, s.busy, s.work, "busy time = work");
        check_u64(&x->test, s.busy_share.denominator, 132 * s.makespan, "slots * makespan");
        chip_schedule_free(&s);
    }
}

/* Longest first, published cases: reversing inside each head is not sorting, and LPT is not optimal. */
static void test_longest_first(Context *x)
{
    uint64_t work[64];
    causal(work, 4, 4);
    check_u64(&x->test, makespan(x, work, 16, NATURAL, 4, 6), 9, "4 x 4 on 6, natural");
    check_u64(&x->test, makespan(x, work, 16, REVERSED, 4, 6), 8, "4 x 4 on 6, reversed");
    check_u64(&x->test, makespan(x, work, 16, LONGEST_FIRST, 16, 6), 7, "4 x 4 on 6, LPT");
    causal(work, 4, 8);
    check_u64(&x->test, makespan(x, work, 32, NATURAL, 8, 12), 17, "4 x 8 on 12, natural");
    check_u64(&x->test, makespan(x, work, 32, REVERSED, 8, 12), 15, "4 x 8 on 12, reversed");
    check_u64(&x->test, makespan(x, work, 32, LONGEST_FIRST, 32, 12), 13, "4 x 8 on 12, LPT");
    static const uint64_t two[] = {3, 3, 2, 2, 2}, three[] = {5, 5, 4, 4, 3, 3, 3};
    check_u64(&x->test, makespan(x, two, 5, LONGEST_FIRST, 5, 2), 7, "{3,3,2,2,2} on 2, LPT (the optimum is 6)");
    check_u64(&x->test, makespan(x, three, 7, LONGEST_FIRST, 7, 3), 11, "{5,5,4,4,3,3,3} on 3, LPT (the optimum is 9)");
}

/* ---- brute force ---- */

/* The best makespan of work[at..count) on machines with these loads. */
static uint64_t optimum(const uint64_t *work, uint64_t count, uint64_t at, uint64_t *loads, uint64_t machines)
{
    uint64_t best = UINT64_MAX;
    if (at == count) {
        best = 0;
        for (uint64_t i = 0; i < machines; i++) best = max_u64(best, loads[i]);
        return best;
    }
    for (uint64_t i = 0; i < machines && i <= at; i++) {
        loads[i] += work[at];
        best = min_u64(best, optimum(work, count, at + 1, loads, machines));
        loads[i] -= work[at];
    }
    return best;
}

static void test_graham(Context *x)
{
    uint64_t random = 7, worst_above = 0;
    for (int i = 0; i < 400; i++) {
        uint64_t work[8], loads[3] = {0};
        const uint64_t count = random_between(&random, 1, 8), machines = random_between(&random, 2, 3),
                       most = random_between(&random, 1, 20);
        for (uint64_t b = 0; b < count; b++) work[b] = random_between(&random, 0, most);
        const uint64_t best = optimum(work, count, 0, loads, machines);
        const uint64_t lpt = makespan(x, work, count, LONGEST_FIRST, count, machines);
        const uint64_t any = makespan(x, work, count, NATURAL, count, machines);
        ChipSchedule s;
        run_order(x, &s, work, count, NATURAL, count, (ChipSlots){machines, 1, NULL});
        check_true(&x->test, s.bound <= best, "the bound is no larger than the optimum");
        chip_schedule_free(&s);
        check_true(&x->test, best <= lpt && 3 * machines * lpt <= (4 * machines - 1) * best, "LPT <= (4/3 - 1/(3m)) optimum");
        check_true(&x->test, machines * any <= (2 * machines - 1) * best, "any order <= (2 - 1/m) optimum");
        worst_above += lpt > best;
    }
    check_true(&x->test, worst_above > 0, "some cases in which LPT is not optimal");
    uint64_t loads[3] = {0};
    static const uint64_t two[] = {3, 3, 2, 2, 2}, three[] = {5, 5, 4, 4, 3, 3, 3};
    check_u64(&x->test, optimum(two, 5, 0, loads, 2), 6, "{3,3,2,2,2} on 2, optimum");
    check_u64(&x->test, optimum(three, 7, 0, loads, 3), 9, "{5,5,4,4,3,3,3} on 3, optimum");
}

/* ---- against the slow implementation, and invariants ---- */

static void plain_greedy(const uint64_t *work, const uint64_t *order, uint64_t count, uint64_t sms, uint64_t layers,
                         BlockTime *times)
{
    uint64_t free_at[MOST_SLOTS] = {0};
    for (uint64_t i = 0; i < count; i++) {
        uint64_t slot = 0;
        for (uint64_t s = 1; s < sms * layers; s++) slot = free_at[s] < free_at[slot] ? s : slot;
        times[order[i]] = (BlockTime){slot % sms, free_at[slot], free_at[slot] + work[order[i]]};
        free_at[slot] += work[order[i]];
    }
}

static void check_invariants(Context *x, const ChipSchedule *s, const uint64_t *work, uint64_t count)
{
    uint64_t sum = 0, loads = 0, blocks = 0, last = 0;
    for (uint64_t b = 0; b < count; b++) sum += work[b];
    for (uint64_t i = 0; i < s->sm_count; i++) {
        loads += s->sms[i].work;
        blocks += s->sms[i].blocks;
        last = max_u64(last, s->sms[i].finish);
    }
    check_u64(&x->test, s->work, sum, "work = sum over blocks");
    check_u64(&x->test, loads, sum, "loads of the SMs add up to the work");
    check_u64(&x->test, blocks, count, "every block ran");
    check_u64(&x->test, last, s->makespan, "makespan = last SM");
    check_true(&x->test, s->bound <= s->makespan, "bound <= makespan");
}

static void test_random(Context *x)
{
    uint64_t random = 11;
    for (int i = 0; i < 300; i++) {
        uint64_t work[120], order[120];
        BlockTime times[120];
        Status status = {0};
        ChipSchedule s;
        const uint64_t count = random_between(&random, 0, 120), sms = random_between(&random, 1, 8),
                       layers = random_between(&random, 1, 8);
        const uint64_t most = random_between(&random, 0, 12), section = random_between(&random, 1, 130);
        for (uint64_t b = 0; b < count; b++) work[b] = random_between(&random, 0, most);
        if (i % 3 == 0) order_by_launch(order, count);
        if (i % 3 == 1) order_reversed_in_groups(order, count, section);
        if (i % 3 == 2) order_longest_first(order, work, count, section, &x->alloc, &status);
        plain_greedy(work, order, count, sms, layers, times);
        const BlockList list = {.work = work, .order = order, .count = count};
        check_true(&x->test, chip_schedule(&s, &list, &(ChipSlots){sms, layers, NULL}, &x->alloc, &status), "random schedule");
        check_invariants(x, &s, work, count);
        for (uint64_t b = 0; b < count; b++) {
            check_u64(&x->test, s.blocks[b].sm, times[b].sm, "heap = linear search: SM");
            check_u64(&x->test, s.blocks[b].start, times[b].start, "heap = linear search: start");
            check_u64(&x->test, s.blocks[b].end, times[b].end, "heap = linear search: end");
        }
        chip_schedule_free(&s);
    }
}

static void test_shared_equals_independent(Context *x)
{
    static const uint64_t ones[4] = {1, 1, 1, 1}, fives[4] = {5, 5, 5, 5};
    uint64_t random = 5, work[200];
    for (int i = 0; i < 200; i++) {
        const uint64_t count = random_between(&random, 1, 200), sms = random_between(&random, 1, 9),
                       layers = random_between(&random, 1, 4);
        for (uint64_t b = 0; b < count; b++) work[b] = random_between(&random, 1, 9);
        ChipSchedule alone, shared, slow;
        run_order(x, &alone, work, count, NATURAL, 1, (ChipSlots){sms, layers, NULL});
        run_order(x, &shared, work, count, NATURAL, 1, (ChipSlots){sms, layers, ones});
        run_order(x, &slow, work, count, NATURAL, 1, (ChipSlots){sms, layers, fives});
        for (uint64_t b = 0; b < count; b++) {
            check_true(&x->test, shared.blocks[b].sm == alone.blocks[b].sm && shared.blocks[b].end == alone.blocks[b].end,
                       "cost 1 = no sharing");
            check_u64(&x->test, slow.blocks[b].end, 5 * alone.blocks[b].end, "cost 5 = five times as long");
        }
        check_u64(&x->test, shared.bound, alone.bound, "the same bound");
        check_u64(&x->test, shared.busy, alone.busy, "the same busy time");
        chip_schedule_free(&alone);
        chip_schedule_free(&shared);
        chip_schedule_free(&slow);
    }
}

/* Worked by hand. One SM, two slots: a block alone takes 2 per unit, with a neighbour 3. */
static void test_shared(Context *x)
{
    static const uint64_t cost[] = {2, 3}, work[] = {4, 2, 1}, pair[] = {4, 2};
    ChipSchedule s;
    run_order(x, &s, pair, 2, NATURAL, 1, (ChipSlots){1, 2, cost});
    check_u64(&x->test, s.blocks[1].end, 6, "2 units beside a neighbour: 2 * 3");
    check_u64(&x->test, s.blocks[0].end, 10, "4 units: 2 * 3 with a neighbour, then 2 * 2 alone");
    check_u64(&x->test, s.bound, 9, "6 units at 3 / 2 each");
    check_u64(&x->test, s.busy, 16, "10 + 6");
    chip_schedule_free(&s);
    run_order(x, &s, work, 3, NATURAL, 1, (ChipSlots){1, 2, cost});
    check_u64(&x->test, s.blocks[2].start, 6, "the third starts when the second ends");
    check_u64(&x->test, s.blocks[2].end, 9, "1 unit beside the first");
    check_u64(&x->test, s.blocks[0].end, 11, "4 units: 3 * 3 beside others, 1 * 2 alone");
    chip_schedule_free(&s);
    static const uint64_t equal[] = {1, 1};
    run_order(x, &s, equal, 2, NATURAL, 1, (ChipSlots){2, 1, cost});
    check_u64(&x->test, s.makespan, 2, "one each on two SMs");
    chip_schedule_free(&s);
    run_order(x, &s, equal, 2, NATURAL, 1, (ChipSlots){1, 2, cost});
    check_u64(&x->test, s.makespan, 3, "two on one SM");
    chip_schedule_free(&s);
    static const uint64_t odd[] = {3, 4}, uneven[] = {2, 1, 2};
    run_order(x, &s, uneven, 3, NATURAL, 1, (ChipSlots){1, 2, odd});
    check_u64(&x->test, s.blocks[1].end, 4, "1 unit at 4");
    check_u64(&x->test, s.blocks[0].end, 8, "2 units at 4");
    check_u64(&x->test, s.blocks[2].end, 11, "1 unit at 4 from 4 on, 1 alone at 3");
    chip_schedule_free(&s);
    static const uint64_t three[] = {2, 3, 5}, staggered[] = {2, 2, 1, 1};
    run_order(x, &s, staggered, 4, NATURAL, 1, (ChipSlots){1, 3, three});
    check_u64(&x->test, s.blocks[2].end, 5, "1 unit of three at 5");
    check_u64(&x->test, s.blocks[3].end, 10, "the fourth takes its place");
    check_u64(&x->test, s.makespan, 10, "all end together");
    chip_schedule_free(&s);
}

/* ---- prologue and epilogue ---- */

static uint64_t with_overhead(Context *x, const uint64_t *work, uint64_t count, uint64_t sms, uint64_t prologue,
                              uint64_t epilogue, bool overlap)
{
    Status status = {0};
    ChipSchedule s;
    const BlockList list = {.work = work, .count = count, .prologue = prologue, .epilogue = epilogue, .overlap = overlap};
    check_true(&x->test, chip_schedule(&s, &list, &(ChipSlots){sms, 1, NULL}, &x->alloc, &status), "prologue and epilogue");
    check_true(&x->test, s.bound <= s.makespan, "bound <= makespan with prologue and epilogue");
    const uint64_t result = s.makespan;
    chip_schedule_free(&s);
    return result;
}

static void test_persistent(Context *x)
{
    static const uint64_t tens[] = {10, 10, 10}, ones[] = {1, 1, 1, 1};
    check_u64(&x->test, with_overhead(x, tens, 3, 1, 3, 2, false), 45, "3 * (3 + 10 + 2)");
    check_u64(&x->test, with_overhead(x, tens, 3, 1, 3, 2, true), 35, "3 + 30 + 2");
    check_u64(&x->test, with_overhead(x, ones, 4, 1, 3, 0, true), 13, "prologues longer than the work: 4 * 3 + 1");
    check_u64(&x->test, with_overhead(x, ones, 4, 1, 0, 3, true), 13, "epilogues longer than the work: 1 + 4 * 3");
    check_u64(&x->test, with_overhead(x, tens, 3, 3, 3, 2, true), 15, "one task each: nothing to overlap with");
    check_u64(&x->test, with_overhead(x, tens, 3, 1, 0, 0, true), 30, "nothing to hide");
    uint64_t random = 3, work[60];
    for (int i = 0; i < 200; i++) {
        const uint64_t count = random_between(&random, 1, 60), sms = random_between(&random, 1, 6);
        const uint64_t prologue = random_between(&random, 0, 5), epilogue = random_between(&random, 0, 5);
        for (uint64_t b = 0; b < count; b++) work[b] = random_between(&random, 0, 20);
        const uint64_t apart = with_overhead(x, work, count, 1, prologue, epilogue, false);
        const uint64_t hidden = with_overhead(x, work, count, 1, prologue, epilogue, true);
        uint64_t sum = 0, longer[60];
        for (uint64_t b = 0; b < count; b++) {
            longer[b] = work[b] + prologue + epilogue;
            sum += longer[b];
        }
        check_u64(&x->test, apart, sum, "one worker, nothing hidden: the sum");
        check_true(&x->test, hidden <= apart, "one worker: overlap never costs");
        check_u64(&x->test, with_overhead(x, work, count, sms, prologue, epilogue, false),
                  makespan(x, longer, count, NATURAL, 1, sms), "not overlapped = longer blocks");
        check_u64(&x->test, with_overhead(x, work, count, sms, 0, 0, true), makespan(x, work, count, NATURAL, 1, sms),
                  "overlap without prologue and epilogue = plain");
    }
}

/* ---- orders ---- */

static void test_orders(Context *x)
{
    Status status = {0};
    uint64_t order[10];
    static const uint64_t work[] = {1, 2, 3, 1, 2, 3, 1, 2, 3, 9};
    static const uint64_t reversed[] = {2, 1, 0, 5, 4, 3, 8, 7, 6, 9}, longest[] = {9, 2, 5, 8, 1, 4, 7, 0, 3, 6};
    static const uint64_t sections[] = {2, 5, 1, 4, 0, 3, 9, 8, 7, 6};
    order_reversed_in_groups(order, 10, 3);
    for (size_t i = 0; i < 10; i++) check_u64(&x->test, order[i], reversed[i], "reversed inside groups of 3");
    order_longest_first(order, work, 10, 10, &x->alloc, &status);
    for (size_t i = 0; i < 10; i++) check_u64(&x->test, order[i], longest[i], "longest first, ties in launch order");
    order_longest_first(order, work, 10, 6, &x->alloc, &status);
    for (size_t i = 0; i < 10; i++) check_u64(&x->test, order[i], sections[i], "longest first in sections of 6");
    order_longest_first(order, work, 10, UINT64_MAX, &x->alloc, &status);
    check_u64(&x->test, order[0], 9, "a section longer than the list");
    static const struct {
        uint64_t bytes, budget, groups;
    } fits[] = {{4, 32, 8}, {4, 35, 8}, {4, 31, 4}, {4, 3, 1},
                {4, 0, 1},  {5, 32, 4}, {0, 8, 8},  {1, UINT64_MAX, UINT64_C(1) << 63}};
    for (size_t i = 0; i < sizeof fits / sizeof fits[0]; i++)
        check_u64(&x->test, groups_that_fit(fits[i].bytes, fits[i].budget), fits[i].groups, "groups that fit: a power of two");
}

/* ---- occupancy ---- */

static void test_occupancy(Context *x)
{
    static const struct {
        const char *chip;
        uint64_t smem, threads, registers, blocks;
        OccupancyLimit limit;
    } cases[] = {
        {"h100", 65536, 128, 255, 2, OCCUPANCY_REGISTERS}, /* FlashAttention-2, d = 128: 65,536 registers / 32,768 */
        {"h100", 49152, 128, 255, 2, OCCUPANCY_REGISTERS}, /* d = 64: shared memory alone would allow 4 */
        {"a100", 65536, 128, 255, 2, OCCUPANCY_REGISTERS}, /* 164 KiB / 65 KiB = 2 as well */
        {"a100", 83 * 1024, 128, 128, 1, OCCUPANCY_SHARED_MEMORY},
        {"a100", 82 * 1024, 128, 128, 1, OCCUPANCY_SHARED_MEMORY}, /* 2 * 83 KiB: the reserved KiB of each block counts */
        {"a100", 81 * 1024, 128, 128, 2, OCCUPANCY_SHARED_MEMORY}, /* 2 * (81 + 1) KiB = 164 KiB */
        {"h100", 232448, 384, 168, 1, OCCUPANCY_REGISTERS},        /* 227 KiB: all that a block can have */
        {"h100", 0, 1024, 32, 2, OCCUPANCY_REGISTERS},
        {"h100", 0, 1024, 16, 2, OCCUPANCY_THREADS},
        {"h100", 0, 32, 16, 32, OCCUPANCY_BLOCKS},
        {"h100", 0, 33, 32, 32, OCCUPANCY_REGISTERS}, /* two warps of 1,024 registers; 32 blocks too */
        {"h100", 0, 256, 33, 6, OCCUPANCY_REGISTERS}, /* 33 * 32 = 1,056, rounded up to 1,280 a warp */
        {"unbounded", 1 << 30, 4096, 300, PROFILE_UNLIMITED, OCCUPANCY_REGISTERS},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Status status = {0};
        Profile chip;
        Occupancy o;
        char what[100];
        snprintf(what, sizeof what, "%s: %" PRIu64 " bytes, %" PRIu64 " threads of %" PRIu64 " registers", cases[i].chip,
                 cases[i].smem, cases[i].threads, cases[i].registers);
        check_true(&x->test, profile_load(cases[i].chip, &x->alloc, &chip, &status), what);
        check_true(&x->test, blocks_per_sm(&chip, cases[i].smem, cases[i].threads, cases[i].registers, &o, &status), status.text);
        check_u64(&x->test, o.blocks, cases[i].blocks, what);
        check_u64(&x->test, o.limit, cases[i].limit, what);
    }
    static const struct {
        uint64_t smem, threads, registers;
        StatusCode code;
        const char *text;
    } refused[] = {
        {0, 0, 32, STATUS_USAGE, "a block has 0 threads; at least 1 is needed"},
        {232449, 128, 32, STATUS_INFEASIBLE, "a block needs 232449 bytes of shared memory; h100 has 232448 per block"},
        {0, 1025, 32, STATUS_INFEASIBLE, "a block needs 1025 threads; h100 has 1024 per block"},
        {0, 128, 256, STATUS_INFEASIBLE, "a block needs 256 registers a thread; h100 has 255 per thread"},
        {0, 512, 255, STATUS_INFEASIBLE, "a block needs 131072 registers; h100 has 65536 per SM"},
        {UINT64_MAX, 128, 32, STATUS_INFEASIBLE, NULL},
    };
    Status status = {0};
    Profile h100;
    check_true(&x->test, profile_load("h100", &x->alloc, &h100, &status), "h100");
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        Status why = {0};
        Occupancy o;
        check_true(&x->test, !blocks_per_sm(&h100, refused[i].smem, refused[i].threads, refused[i].registers, &o, &why),
                   "refused");
        check_u64(&x->test, why.code, refused[i].code, "refused: code");
        if (refused[i].text != NULL) check_text(&x->test, why.text, refused[i].text, "refused: text");
    }
}

/* ---- footprint ---- */

static void test_footprint(Context *x)
{
    /* Two heads of 1, 2 (bytes 10, 20) on two SMs: natural: a1 | a2, then b1 after a1, b2 after b1. */
    static const uint64_t work[] = {1, 2, 1, 2}, bytes[] = {10, 20, 10, 20};
    Status status = {0};
    ChipSchedule s;
    Footprint f;
    run_order(x, &s, work, 4, NATURAL, 2, (ChipSlots){2, 1, NULL});
    check_true(&x->test, schedule_footprint(&s, bytes, 2, 25, &f, &status), "footprint");
    check_u64(&x->test, f.peak_bytes, 30, "a2 and b1 run together: 20 + 10");
    check_u64(&x->test, f.peak_time, 1, "from 1 to 2");
    check_u64(&x->test, f.time_over, 1, "above 25 for 1");
    check_u64(&x->test, f.block_time_over, 2, "with two blocks running");
    schedule_footprint(&s, bytes, 4, 25, &f, &status);
    check_u64(&x->test, f.peak_bytes, 20, "one group: the longest running block");
    chip_schedule_free(&s);
    run_order(x, &s, work, 4, LONGEST_FIRST, 4, (ChipSlots){2, 1, NULL});
    schedule_footprint(&s, bytes, 2, 39, &f, &status);
    check_u64(&x->test, f.peak_bytes, 40, "a2 and b2 run together");
    check_u64(&x->test, f.time_over, 2, "from 0 to 2");
    chip_schedule_free(&s);
    check_text(&x->test, status.text, "", "footprints");
}

/* At every instant by brute force. */
static void test_footprint_random(Context *x)
{
    uint64_t random = 17;
    for (int i = 0; i < 60; i++) {
        uint64_t work[40], bytes[40], peak = 0, over = 0, block_over = 0;
        const uint64_t count = random_between(&random, 1, 40), sms = random_between(&random, 1, 6),
                       group = random_between(&random, 1, 8), capacity = random_between(&random, 0, 60);
        for (uint64_t b = 0; b < count; b++) {
            work[b] = random_between(&random, 0, 7);
            bytes[b] = random_between(&random, 0, 30);
        }
        Status status = {0};
        ChipSchedule s;
        Footprint f;
        run_order(x, &s, work, count, i % 2 == 0 ? NATURAL : LONGEST_FIRST, count, (ChipSlots){sms, 1, NULL});
        for (uint64_t t = 0; t < s.makespan; t++) {
            uint64_t most[40] = {0}, now = 0, running = 0;
            for (uint64_t b = 0; b < count; b++) {
                if (s.blocks[b].start > t || s.blocks[b].end <= t) continue;
                most[b / group] = max_u64(most[b / group], bytes[b]);
                running++;
            }
            for (size_t g = 0; g < 40; g++) now += most[g];
            peak = max_u64(peak, now);
            over += now > capacity;
            block_over += now > capacity ? running : 0;
        }
        check_true(&x->test, schedule_footprint(&s, bytes, group, capacity, &f, &status), "footprint");
        check_u64(&x->test, f.peak_bytes, peak, "peak footprint");
        check_u64(&x->test, f.time_over, over, "time above the capacity");
        check_u64(&x->test, f.block_time_over, block_over, "block time above the capacity");
        chip_schedule_free(&s);
    }
}

/* ---- errors, memory, speed ---- */

static void test_refused(Context *x)
{
    static const uint64_t work[] = {1, 2}, large[] = {UINT64_MAX, 1}, twice[] = {0, 0}, outside[] = {0, 2}, cost[] = {1, 2},
                          zero[] = {1, 0};
    static const struct {
        BlockList list;
        ChipSlots chip;
        StatusCode code;
    } cases[] = {
        {{.work = work, .count = 2}, {0, 1, NULL}, STATUS_USAGE},
        {{.work = work, .count = 2}, {1, 0, NULL}, STATUS_USAGE},
        {{.work = work, .order = twice, .count = 2}, {1, 1, NULL}, STATUS_USAGE},
        {{.work = work, .order = outside, .count = 2}, {1, 1, NULL}, STATUS_USAGE},
        {{.work = work, .order = twice, .count = 2}, {1, 2, cost}, STATUS_USAGE},
        {{.work = work, .count = 2, .prologue = 1}, {1, 2, cost}, STATUS_USAGE},
        {{.work = work, .count = 2}, {1, 2, zero}, STATUS_USAGE},
        {{.work = large, .count = 2}, {1, 1, NULL}, STATUS_INFEASIBLE},
        {{.work = large, .count = 1, .epilogue = 1}, {1, 1, NULL}, STATUS_INFEASIBLE},
        {{.work = large, .count = 1}, {1, 2, cost}, STATUS_INFEASIBLE},
        {{.work = work, .count = 2}, {UINT64_MAX, 2, NULL}, STATUS_INFEASIBLE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Status status = {0};
        ChipSchedule s;
        check_true(&x->test, !chip_schedule(&s, &cases[i].list, &cases[i].chip, &x->alloc, &status), "refused");
        check_u64(&x->test, status.code, cases[i].code, status.text);
        chip_schedule_free(&s);
    }
    Status status = {0};
    ChipSchedule s;
    check_true(&x->test, chip_schedule(&s, &(BlockList){.work = work}, &(ChipSlots){3, 2, cost}, &x->alloc, &status),
               "no blocks");
    check_true(&x->test, s.makespan == 0 && s.bound == 0 && ratio_value(s.efficiency) == 0, "no blocks take no time");
    chip_schedule_free(&s);
}

static bool schedule_all(Alloc *alloc, Status *status)
{
    static const uint64_t work[] = {3, 1, 2, 2}, bytes[] = {1, 1, 1, 1}, cost[] = {2, 3};
    uint64_t order[4];
    ChipSchedule s = {0};
    Footprint f;
    bool ok = order_longest_first(order, work, 4, 4, alloc, status);
    for (int engine = 0; engine < 2 && ok; engine++) {
        ok = chip_schedule(&s, &(BlockList){.work = work, .order = order, .count = 4},
                           &(ChipSlots){1, 2, engine == 1 ? cost : NULL}, alloc, status) &&
             schedule_footprint(&s, bytes, 2, 1, &f, status);
        chip_schedule_free(&s);
    }
    return ok;
}

static void test_out_of_memory(Context *x)
{
    for (uint64_t k = 1;; k++) {
        Status status = {0};
        Alloc alloc = {.fail_at = k};
        const bool ok = schedule_all(&alloc, &status);
        check_u64(&x->test, alloc.live_bytes, 0, "nothing is left");
        check_true(&x->test, ok == (alloc.requests < k), "fails with the request");
        if (ok) break;
        check_u64(&x->test, status.code, STATUS_IO, status.text);
    }
}

/* 1,000,000 blocks twice give the same; printed is what it took. */
static void test_million(Context *x)
{
    enum { BLOCKS = 1000000 };
    Status status = {0};
    ChipSchedule s[2];
    uint64_t *work = alloc_array(&x->alloc, 2 * BLOCKS, sizeof *work, "work", &status), *order = work + BLOCKS;
    causal(work, BLOCKS / 1000, 1000);
    const clock_t begin = clock();
    order_longest_first(order, work, BLOCKS, BLOCKS, &x->alloc, &status);
    for (int i = 0; i < 2; i++)
        chip_schedule(&s[i], &(BlockList){.work = work, .order = i == 0 ? order : NULL, .count = BLOCKS},
                      &(ChipSlots){132, 2, NULL}, &x->alloc, &status);
    printf("1,000,000 blocks: sorted once, scheduled twice in %.2f s\n", (double)(clock() - begin) / CLOCKS_PER_SEC);
    check_text(&x->test, status.text, "", "a million blocks");
    check_u64(&x->test, s[0].work, s[1].work, "the same work");
    check_true(&x->test, s[0].makespan <= s[1].makespan && s[0].bound == s[1].bound, "LPT is no later here");
    chip_schedule_free(&s[1]);
    chip_schedule(&s[1], &(BlockList){.work = work, .order = order, .count = BLOCKS}, &(ChipSlots){132, 2, NULL}, &x->alloc,
                  &status);
    check_true(&x->test, memcmp(s[0].blocks, s[1].blocks, BLOCKS * sizeof(BlockTime)) == 0, "deterministic");
    chip_schedule_free(&s[0]);
    chip_schedule_free(&s[1]);
    alloc_free(&x->alloc, work);
}

/* ---- the measured times of the programs are those of the data file ---- */

static uint64_t measured(const char *kernel, const char *order, uint64_t heads, uint64_t seqlen, uint64_t d)
{
    const size_t steps = sizeof h200_staircase / sizeof h200_staircase[0], orders = sizeof h200_orders / sizeof h200_orders[0];
    for (size_t i = 0; i < steps && strcmp(order, "launch") == 0; i++) {
        if (h200_staircase[i].heads != heads || seqlen != 2048 || d != 128) continue;
        return strcmp(kernel, "flash") == 0 ? h200_staircase[i].flash : h200_staircase[i].cudnn;
    }
    for (size_t i = 0; i < orders; i++) {
        const H200Orders *o = &h200_orders[i];
        if (o->heads != heads || o->seqlen != seqlen || o->head_dim != d) continue;
        if (strcmp(order, "natural") == 0) return o->natural;
        if (strcmp(order, "longest-first-per-head") == 0) return o->reversed;
        if (strcmp(order, "longest-first") == 0) return o->longest_first;
    }
    return 0;
}

static void test_measured(Context *x)
{
    enum { HEADS, SEQLEN, HEAD_DIM, BATCH, BLOCKS_COLUMN, SIZES };
    static const char *const names[SIZES] = {"heads", "seqlen", "head_dim", "batch", "blocks"};
    CsvTable t;
    Status status = {0};
    if (measured_load(&t, NULL, "h200_waves", &x->alloc, &status))
        for (size_t row = 0; row < t.row_count; row++) {
            uint64_t v[SIZES];
            named_counts(&t, row, names, SIZES, v, &status);
            const double us = named_real(&t, row, "time_us", &status);
            const char *kernel = named_text(&t, row, "kernel", &status), *order = named_text(&t, row, "order", &status);
            if (!status_ok(&status)) break;
            check_u64(&x->test, measured(kernel, order, v[HEADS], v[SEQLEN], v[HEAD_DIM]), (uint64_t)(100 * us + 0.5), "time of h200_waves.csv");
            check_u64(&x->test, v[BLOCKS_COLUMN], v[BATCH] * v[HEADS] * v[SEQLEN] / 128, "blocks of h200_waves.csv");
        }
    check_text(&x->test, status.text, "", "h200_waves.csv");
    check_u64(&x->test, t.row_count, 2 * sizeof h200_staircase / sizeof h200_staircase[0] + 3 * sizeof h200_orders / sizeof h200_orders[0],
              "rows");
    csv_free(&t);
}

/* h200_stage_orders, of h200_orders.csv. */
static uint64_t measured_with(uint64_t stages, const char *order, uint64_t heads, uint64_t seqlen, uint64_t d)
{
    for (size_t i = 0; i < H200_STAGE_ROWS && stages >= 2 && stages - 2 < H200_STAGES; i++) {
        const H200Orders *o = &h200_stage_orders[stages - 2][i];
        if (o->heads != heads || o->seqlen != seqlen || o->head_dim != d) continue;
        if (strcmp(order, "natural") == 0) return o->natural;
        return strcmp(order, "longest-first") == 0 ? o->longest_first : o->reversed;
    }
    return 0;
}

static void test_stages(Context *x)
{
    enum { HEADS, SEQLEN, HEAD_DIM, STAGES, SIZES };
    static const char *const names[SIZES] = {"heads", "seqlen", "head_dim", "stages"};
    CsvTable t;
    Status status = {0};
    if (measured_load(&t, NULL, "h200_orders", &x->alloc, &status))
        for (size_t row = 0; row < t.row_count; row++) {
            uint64_t v[SIZES];
            named_counts(&t, row, names, SIZES, v, &status);
            const double us = named_real(&t, row, "time_us", &status);
            const char *order = named_text(&t, row, "order", &status);
            if (!status_ok(&status)) break;
            check_u64(&x->test, measured_with(v[STAGES], order, v[HEADS], v[SEQLEN], v[HEAD_DIM]), (uint64_t)(100 * us + 0.5), "time of h200_orders.csv");
        }
    check_text(&x->test, status.text, "", "h200_orders.csv");
    check_u64(&x->test, t.row_count, 3 * H200_STAGES * H200_STAGE_ROWS, "rows of h200_orders.csv");
    csv_free(&t);
}

int main(void)
{
    Context x = {0};
    test_stages(&x);
    test_waves(&x);
    test_lecture(&x);
    test_large(&x);
    test_longest_first(&x);
    test_graham(&x);
    test_random(&x);
    test_shared_equals_independent(&x);
    test_shared(&x);
    test_persistent(&x);
    test_orders(&x);
    test_occupancy(&x);
    test_footprint(&x);
    test_footprint_random(&x);
    test_refused(&x);
    test_out_of_memory(&x);
    test_million(&x);
    test_measured(&x);
    check_u64(&x.test, x.alloc.live_bytes, 0, "live bytes");
    return test_end(&x.test, "test_chip_schedule");
}
