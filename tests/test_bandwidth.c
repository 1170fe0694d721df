/* test_bandwidth.c - the bandwidth that a few SMs draw, against an H200 (hw_profiles/measured/h200_micro2.csv) and at its ends.
 */
/* label: unit */
#include "test.h"

#include "sim/bandwidth.h"

#include <stdlib.h>

static void measured(Test *t, const Profile *h200)
{
    FILE *file = fopen(TEST_DATA "/../hw_profiles/measured/h200_micro2.csv", "r");
    char line[200];
    uint64_t rows = 0, sms;
    check_true(t, file != NULL, "h200_micro2.csv");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "hbm_read_bw_%" SCNu64 "_sms,", &sms) != 1) continue;
        const double gigabytes = strtod(strchr(line, ',') + 1, NULL), model = (double)hbm_bandwidth(h200, sms) * 1e-9;
        check_close(t, model / gigabytes, 1, 0.06, line);
        rows++;
    }
    if (file != NULL) fclose(file);
    check_u64(t, rows, 14, "measured numbers of SMs");
}

static void ends(Test *t, const Profile *p)
{
    uint64_t last = 0;
    check_u64(t, hbm_bandwidth(p, 0), 0, "no SM");
    check_u64(t, hbm_bandwidth(p, p->sm_count), p->hbm_sustained_bytes_per_second_per_chip, "all SMs");
    check_u64(t, hbm_bandwidth(p, p->sm_count + 7), p->hbm_sustained_bytes_per_second_per_chip, "more than all");
    check_close(t, (double)hbm_bandwidth(p, p->sm_count - 1) / (double)p->hbm_sustained_bytes_per_second_per_chip, 1, 0.005,
                "no jump at the end");
    check_close(t, (double)hbm_bandwidth(p, 1) / (double)p->hbm_bytes_per_second_per_sm, 1, 1e-4, "one SM");
    for (uint64_t n = 1; n <= p->sm_count; n++) {
        const uint64_t drawn = hbm_bandwidth(p, n);
        check_true(t, drawn > last && drawn <= n * p->hbm_bytes_per_second_per_sm,
                   "more with each SM, never more than each alone");
        last = drawn;
    }
}

static void times(Test *t, const Profile *h200)
{
    Profile small = *h200;
    small.sm_count = 4; /* 307 GB/s together: HBM is never full */
    check_u64(t, hbm_bandwidth(&small, 2), 2 * h200->hbm_bytes_per_second_per_sm, "too few to fill HBM");
    check_u64(t, hbm_nanoseconds(&small, 768, 1), 10, "768 bytes at 76.8 GB/s");
    check_u64(t, hbm_nanoseconds(&small, 769, 1), 11, "rounded up");
    check_u64(t, hbm_nanoseconds(&small, 0, 1), 0, "no bytes");
    check_u64(t, hbm_nanoseconds(&small, UINT64_C(76800000000) * 5 + 768, 1), UINT64_C(5000000010), "five seconds");
    small.hbm_sustained_bytes_per_second_per_chip = PROFILE_UNLIMITED;
    check_u64(t, hbm_bandwidth(&small, 1), PROFILE_UNLIMITED, "unlimited HBM");
    check_u64(t, hbm_nanoseconds(&small, 1000, 1), 0, "costs no time");
}

int main(void)
{
    static const char *const chips[] = {"a100", "h100", "h200", "b200"};
    Test t = {0};
    Alloc alloc = {0};
    Profile chip;
    for (size_t i = 0; i < sizeof chips / sizeof chips[0]; i++) {
        Status status = {0};
        if (profile_load(chips[i], &alloc, &chip, &status)) ends(&t, &chip);
        if (status_ok(&status) && strcmp(chips[i], "h200") == 0) {
            measured(&t, &chip);
            times(&t, &chip);
        }
        check_text(&t, status.text, "", chips[i]);
    }
    return test_end(&t, "bandwidth");
}
