/* test_h200_decode.c - the numbers of experiments/support/h200_decode.h are those of the CSV files in hw_profiles/measured. */
/* label: unit */
#include "test.h"

#include "experiments/support/h200_decode.h"

enum { TIMES = sizeof h200_decode / sizeof h200_decode[0], POINTS = sizeof h200_bandwidth / sizeof h200_bandwidth[0] };

static uint64_t time_of(const char *kernel, uint64_t batch, uint64_t kv_heads, uint64_t keys)
{
    for (size_t i = 0; i < TIMES; i++)
        if (h200_decode[i].batch == batch && h200_decode[i].kv_heads == kv_heads && h200_decode[i].keys == keys)
            return strcmp(kernel, "flash_decode") == 0 ? h200_decode[i].flash : h200_decode[i].cudnn;
    return 0;
}

static void times(Test *t)
{
    FILE *file = fopen(TEST_DATA "/../hw_profiles/measured/h200_timings.csv", "r");
    char line[200], kernel[40];
    uint64_t rows = 0, batch, kv_heads, keys, us, hundredths;
    check_true(t, file != NULL, "h200_timings.csv");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "%39[^,],fwd,bf16,%" SCNu64 ",32,%" SCNu64 ",1,%" SCNu64 ",128,0,%" SCNu64 ".%2" SCNu64, kernel, &batch,
                   &kv_heads, &keys, &us, &hundredths) != 6 ||
            strstr(kernel, "_decode") == NULL)
            continue;
        rows++;
        check_u64(t, time_of(kernel, batch, kv_heads, keys), 100 * us + hundredths, line);
    }
    if (file != NULL) fclose(file);
    uint64_t expected = 0;
    for (size_t i = 0; i < TIMES; i++) expected += (h200_decode[i].flash > 0 ? 1u : 0u) + (h200_decode[i].cudnn > 0 ? 1u : 0u);
    check_u64(t, rows, expected, "decoding rows");
}

static void points(Test *t)
{
    FILE *file = fopen(TEST_DATA "/../hw_profiles/measured/h200_micro2.csv", "r");
    char line[200];
    uint64_t rows = 0, sms, whole, tenths;
    check_true(t, file != NULL, "h200_micro2.csv");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "hbm_read_bw_%" SCNu64 "_sms,%" SCNu64 ".%1" SCNu64, &sms, &whole, &tenths) == 3) {
            check_u64(t, rows < POINTS ? h200_bandwidth[rows].sms : 0, sms, line);
            check_u64(t, rows < POINTS ? h200_bandwidth[rows].bandwidth : 0, 10 * whole + tenths, line);
            rows++;
        } else if (sscanf(line, "empty_kernel_back_to_back,%" SCNu64 ".%2" SCNu64, &whole, &tenths) == 2) {
            check_u64(t, h200_next_launch_time, 100 * whole + tenths, line);
        }
    }
    if (file != NULL) fclose(file);
    check_u64(t, rows, POINTS, "bandwidth rows");
}

static void splits(Test *t)
{
    FILE *file = fopen(TEST_DATA "/../hw_profiles/measured/h200_counters.csv", "r");
    char line[1024];
    uint64_t rows = 0, batch, kv_heads, keys, parts;
    check_true(t, file != NULL, "h200_counters.csv");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line,
                   "flash_decode,fwd,%" SCNu64 ",32,%" SCNu64 ",1,%" SCNu64
                   ",128,0,pytorch_flash::flash_fwd_splitkv_kernel,%*ux%" SCNu64,
                   &batch, &kv_heads, &keys, &parts) != 4)
            continue;
        const H200Splits *s = &h200_splits[rows < 3 ? rows : 0];
        check_true(t, s->batch == batch && s->kv_heads == kv_heads && s->keys == keys, line);
        check_u64(t, s->splits, parts, line);
        rows++;
    }
    if (file != NULL) fclose(file);
    check_u64(t, rows, sizeof h200_splits / sizeof h200_splits[0], "split kernels");
}

/* Column `tensor_warp_insts`, the tenth after the block shape. */
static void instructions(Test *t)
{
    static const char *const kernels[] = {"splitkv_kernel,", "sm80_flash_fprop"};
    FILE *file = fopen(TEST_DATA "/../hw_profiles/measured/h200_counters.csv", "r");
    char line[1024], launch[128];
    uint64_t rows[2] = {0}, kv_heads, keys, count;
    check_true(t, file != NULL, "h200_counters.csv");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line,
                   "%*[^,],fwd,1,32,%" SCNu64 ",1,%" SCNu64
                   ",128,0,%127[^,],%*[^,],%*[^,],%*u,%*u,%*u,%*u,%*u,%*u,%*u,%*u,%*u,%*u,%*u,%" SCNu64,
                   &kv_heads, &keys, launch, &count) != 4)
            continue;
        for (int k = 0; k < 2; k++) {
            if (strstr(line, kernels[k]) == NULL || rows[k] >= 3) continue;
            const H200TensorInstructions *row = &h200_tensor_instructions[rows[k]++];
            check_true(t, row->kv_heads == kv_heads && row->keys == keys, line);
            check_u64(t, k == 0 ? row->flash : row->cudnn, count, line);
        }
    }
    if (file != NULL) fclose(file);
    check_u64(t, rows[0] + rows[1], 6, "decoding kernels");
}

int main(void)
{
    Test t = {0};
    times(&t);
    points(&t);
    splits(&t);
    instructions(&t);
    return test_end(&t, "h200_decode");
}
