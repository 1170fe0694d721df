/* test_out_of_memory.c - a whole attention run, with every allocation of it failing in turn.
 *
 * For k = 1, 2, ... the k-th request for memory is refused, until the run no longer makes that many. Expected each time:
 * STATUS_IO with "out of memory", no crash, and not a byte left. Run under AddressSanitizer this also finds what is used after a
 * failure.
 */
/* label: property */
#include "test.h"

#include "algos/oracle.h"
#include "algos/run.h"

typedef struct {
    const Algorithm *algorithm;
    const Profile *chip;
    MachineConfig config;
    TileSize tiles;             /* {0, 0}: fitting_tiles */
    bool fp8;                   /* scaled, rotated, by kernels of its own */
} Plan;

/* What `attn` does with one sweep point. */
static bool run_all(const Plan *plan, Alloc *alloc, Status *status)
{
    AttentionRun run;
    ForwardError error;
    AttentionShape shape = attention_shape(9, 4);
    shape.heads = 4;
    shape.kv_heads = 2;
    shape.mask = MASK_CAUSAL;
    if (plan->fp8) {
        shape.dtype = ELEMENT_E4M3;
        shape.fp8 = (Fp8Options){.scales = SCALE_TENSOR, .rotation = ROTATE_QKV, .prepass = true, .p_log2_scale = 8, .source = ELEMENT_BF16};
    }
    const RunSetup setup = {.algorithm = plan->algorithm, .profile = plan->chip, .tiles = plan->tiles, .config = plan->config};
    bool ok = attention_run_prepare(&run, &setup, &shape, alloc, status);
    if (ok) attention_random_inputs(&run.attention, &run.machine, 1);
    ok = ok && attention_run_forward(&run);
    if (ok && plan->config.mode == MODE_NUMERIC) ok = oracle_compare(&run.attention, &run.machine, &error);
    attention_run_free(&run);
    return ok && status_ok(status);
}

static void fail_each(Test *t, const Plan *plan)
{
    char what[120];
    for (uint64_t k = 1;; k++) {
        Status status = {0};
        Alloc alloc = {.fail_at = k};
        const bool ok = run_all(plan, &alloc, &status);
        snprintf(what, sizeof what, "%s, mode %d, l2 %d, request %" PRIu64 " fails", plan->algorithm->name,
                 (int)plan->config.mode, (int)plan->config.l2, k);
        check_u64(t, alloc.live_bytes, 0, what);
        check_true(t, ok == (alloc.requests < k), what);            /* all went well iff the k-th request was never made */
        if (alloc.requests < k) {
            check_true(t, k > 3, "some requests were made");
            check_text(t, status.text, "", what);
            return;
        }
        check_u64(t, status.code, STATUS_IO, what);
        check_true(t, strncmp(status.text, "out of memory: ", 15) == 0, status.text);
    }
}

/* A limit on live bytes, as `attn` sets one: refused, with nothing left. */
static void limit_bytes(Test *t, const Plan *plan)
{
    Alloc free_of_limits = {0};
    Status status = {0};
    check_true(t, run_all(plan, &free_of_limits, &status), status.text);
    for (uint64_t limit = 1; limit < free_of_limits.peak_bytes; limit += 1 + limit / 3) {
        Alloc alloc = {.limit_bytes = limit};
        Status refused = {0};
        check_true(t, !run_all(plan, &alloc, &refused), "less memory than the peak");
        check_u64(t, refused.code, STATUS_IO, "less memory than the peak");
        check_true(t, alloc.peak_bytes <= limit && alloc.live_bytes == 0, "the limit was kept");
    }
    Alloc enough = {.limit_bytes = free_of_limits.peak_bytes};
    check_true(t, run_all(plan, &enough, &status), "the peak is enough");
}

static void check_algorithm(Test *t, const Algorithm *algorithm, const Profile *chip)
{
    for (int mode = MODE_COUNT; mode <= MODE_NUMERIC; mode++)
        for (int l2 = L2_NONE; l2 <= L2_SIMULATED; l2++) {
            Plan plan = {.algorithm = algorithm, .chip = chip, .config = {.mode = (Mode)mode, .l2 = (L2Model)l2}, .tiles = {4, 2}};
            fail_each(t, &plan);
            limit_bytes(t, &plan);
            plan.tiles = (TileSize){0, 0};
            fail_each(t, &plan);
            plan.config.walk_all_heads = true;
            plan.config.precision = PRECISION_F64;
            fail_each(t, &plan);
        }
}

static void check_fp8(Test *t, const Profile *chip)
{
    for (int mode = MODE_COUNT; mode <= MODE_NUMERIC; mode++) {
        const Plan plan = {.algorithm = &algorithm_fa3, .chip = chip, .config = {.mode = (Mode)mode, .l2 = L2_IDEAL}, .fp8 = true};
        fail_each(t, &plan);
        limit_bytes(t, &plan);
    }
}

int main(void)
{
    Test t = {0};
    Alloc alloc = {0};
    Status status = {0};
    Profile h100, b200;
    if (profile_load("h100", &alloc, &h100, &status) && profile_load("b200", &alloc, &b200, &status)) {
        check_fp8(&t, &h100);
        for (size_t a = 0; a < algorithm_count(); a++)
            check_algorithm(&t, algorithm_at(a), profile_has(&h100, algorithm_at(a)->instruction) ? &h100 : &b200);
    }
    check_text(&t, status.text, "", "the profiles");
    check_u64(&t, alloc.live_bytes, 0, "bytes still allocated at the end");
    return test_end(&t, "out_of_memory");
}
