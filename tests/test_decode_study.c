/* test_decode_study.c - exercise 3 (merging is associative and commutative to rounding), exercise 11, and the error of splitting
 * (§6.1). */
/* label: property */
#include "test.h"

#include "experiments/support/decode_study.h"

static void merging(Test *t, Alloc *alloc)
{
    for (uint64_t seed = 0; seed < 5; seed++) {
        MergeStudy study;
        Status status = {0};
        merge_study(200, 64, seed, alloc, &study, &status);
        check_text(t, status.text, "", "merge_study");
        const double rounding = 0x1p-50 * study.largest; /* 8 half-units in the last place of the largest |O| */
        check_close(t, study.bracketing, 0, rounding, "ex3: (ab)c = a(bc)");
        check_close(t, study.order, 0, rounding, "ex3: ab = ba, abc = cba");
        check_close(t, study.shape, 0, rounding, "ex3: part after part = tree");
        check_true(t, study.bracketing > 0 && study.largest > 2, "ex3: something was merged, and rounded");
    }
}

static void splitting(Test *t, Alloc *alloc)
{
    static const uint32_t splits[] = {1, 2, 3, 8, 17, 33, 64, 64};
    for (int order = 0; order < MERGE_ORDERS; order++) {
        SplitError errors[MOST_SPLIT_ERRORS];
        Status status = {0};
        split_errors(4096, 64, (MergeOrder)order, splits, MOST_SPLIT_ERRORS, 0, alloc, errors, &status);
        check_text(t, status.text, "", "split_errors");
        for (int i = 0; i < MOST_SPLIT_ERRORS; i++) {
            check_close(t, errors[i].from_oracle, 0, 1e-15, "6.1: distance from the oracle");
            check_close(t, errors[i].from_unsplit, 0, i == 0 ? 0 : 1e-15, "6.1: distance from one part");
        }
    }
}

static void out_of_memory(Test *t)
{
    static const uint32_t splits[] = {3};
    for (int study = 0; study < 2; study++)
        for (uint64_t k = 1;; k++) {
            Status status = {0};
            Alloc alloc = {.fail_at = k};
            MergeStudy merged;
            SplitError error;
            const bool ok = study == 0 ? merge_study(3, 4, 1, &alloc, &merged, &status)
                                       : split_errors(70, 4, MERGE_TREE, splits, 1, 1, &alloc, &error, &status);
            check_u64(t, alloc.live_bytes, 0, "memory left after a failed study");
            check_true(t, ok == (alloc.requests < k), status.text);
            if (alloc.requests < k) break;
        }
}

static void exercise(Test *t)
{
    Exercise11 e;
    Status status = {0};
    exercise_11(132, &e, &status);
    check_text(t, status.text, "", "exercise_11");
    check_u64(t, e.unsplit.blocks, 16, "ex11: blocks without splitting");
    check_close(t, e.unsplit.used_percent, 12.12, 0.001, "ex11: 16 / 132");
    check_u64(t, e.eight.blocks * 10 + e.eight.waves, 1281, "ex11: 8 parts, 128 blocks, 1 wave");
    check_close(t, e.eight.used_percent, 96.97, 0.001, "ex11: 128 / 132");
    check_u64(t, e.thirty_three.blocks * 10 + e.thirty_three.waves, 5284, "ex11: 33 parts, 528 blocks, 4 waves");
    check_close(t, e.thirty_three.used_percent, 100, 1e-12, "ex11: 528 / 528");
    check_close(t, e.parts_ratio, 4.125, 1e-12, "ex11: 33 / 8 of the traffic");
    check_u64(t, e.by_rule[SPLIT_LECTURE], 8, "ex11: the lecture's rule");
    check_u64(t, e.by_rule[SPLIT_FA3], 8, "ex11: FlashAttention-3's rule");
    check_u64(t, e.by_rule[SPLIT_FA2], 14, "ex11: FlashAttention-2's rule, two blocks per SM");
    check_u64(t, e.eligible, 7, "ex11: with FlashAttention-2's eligibility, one block per SM");
}

int main(void)
{
    Test t = {0};
    Alloc alloc = {0};
    merging(&t, &alloc);
    splitting(&t, &alloc);
    out_of_memory(&t);
    exercise(&t);
    check_u64(&t, alloc.live_bytes, 0, "memory left at the end");
    return test_end(&t, "decode_study");
}
