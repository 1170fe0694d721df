/* test_exp_facts.c - any base cancels until float32 ends; the bound on a threshold (lecture §5.3, §8, exercise 9). */
/* label: property */
#include "test.h"

#include "experiments/support/exp_facts.h"

#include <math.h>

int main(void)
{
    Test t = {0};
    Alloc alloc = {0};
    Status status = {0};
    const struct {
        uint64_t N;
        double bound;
    } bounds[] = {{1, 128}, {2, 127}, {1024, 118}, {2048, 117}, {UINT64_C(1) << 20, 108}, {UINT64_C(1) << 31, 97}, {3, 128 - 1.5849625007211561815}};
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++)
        check_close(&t, rescale_threshold_bound(bounds[i].N), bounds[i].bound, 1e-15, "128 - log2 N");

    /* The base -above is tau in an unlucky run: N weights of 2^tau. Base - 110 is below the bound 119 for N = 512 at d = 64, -130 is not. */
    const struct {
        double above;
        bool all_finite, none_finite;
    } bases[] = {{0, true, false}, {1, true, false}, {-8, true, false}, {110, true, false}, {-110, true, false}, {150, false, true}, {-130, false, true}};
    double usual = 0.0;
    for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++) {
        BaseOutcome o;
        char what[64];
        snprintf(what, sizeof what, "base = max + %g", bases[i].above);
        check_true(&t, attention_with_base(&o, 512, 64, 3, bases[i].above, &alloc, &status), what);
        check_u64(&t, o.entries, 512 * 64, what);
        if (i == 0) usual = o.max_error;
        if (bases[i].all_finite) {
            check_u64(&t, o.nonfinite, 0, what);
            check_true(&t, o.max_error < 10 * usual && usual < 1e-6, what);     /* scores beside 110 have 2^-17 left */
            printf("%s: error %.3g\n", what, o.max_error);
        }
        if (bases[i].none_finite) check_u64(&t, o.nonfinite, o.entries, what);
    }
    BaseOutcome o;
    check_true(&t, !attention_with_base(&o, 100, 64, 1, 0, &alloc, &status) && status.code == STATUS_USAGE, "100 rows are refused");
    Status fresh = {0};
    Exp2Accuracy a;
    check_true(&t, polynomial_accuracy(3, &a, &fresh), "degree 3");
    check_true(&t, a.same_bf16 > 0.98995 && a.same_bf16 < 0.99005 && a.max_ulp_bf16 == 1, "99.00 % of the BF16 numbers are the same");
    check_true(&t, !polynomial_accuracy(8, &a, &fresh), "degree 8 is refused");
    check_u64(&t, alloc.live_bytes, 0, "memory left at the end");
    return test_end(&t, "exp_facts");
}
