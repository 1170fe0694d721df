/* algorithm.c - the table of algorithms, block sizes, and the bridge to the closed forms. See algorithm.h. */
#include "algorithm.h"
#include "fp8.h"
#include "decode.h"

#include "sim/hadamard.h"
#include "sim/suggest.h"

#include <string.h>

static const Algorithm *const algorithms[] = {&algorithm_standard, &algorithm_fa1, &algorithm_fa1_shipped, &algorithm_fa2, &algorithm_fa3,
                                            &algorithm_fa4, &algorithm_decode};

size_t algorithm_count(void) { return sizeof algorithms / sizeof algorithms[0]; }

const Algorithm *algorithm_at(size_t index) { return algorithms[index]; }

const Algorithm *algorithm_find(const char *name, Status *status)
{
    const char *names[sizeof algorithms / sizeof algorithms[0]];
    char all[256] = "";
    for (size_t i = 0; i < algorithm_count(); i++) {
        if (strcmp(algorithms[i]->name, name) == 0) return algorithms[i];
        names[i] = algorithms[i]->name;
        if (i > 0) strncat(all, ", ", sizeof all - strlen(all) - 1);
        strncat(all, names[i], sizeof all - strlen(all) - 1);
    }
    const char *nearest = suggest_nearest(name, names, algorithm_count());
    if (nearest != NULL) status_fail(status, STATUS_USAGE, "unknown algorithm '%s'; did you mean '%s'? allowed: %s", name, nearest, all);
    else status_fail(status, STATUS_USAGE, "unknown algorithm '%s'; allowed: %s", name, all);
    return NULL;
}

static Geometry geometry_of(const Algorithm *algorithm, const Attention *a)
{
    return algorithm->geometry(&a->shape, (TileSize){a->Br, a->Bc});
}

Kernel attention_kernel(const Algorithm *algorithm, const char *name, const Attention *a,
                        void (*run)(Block *block, const void *arguments, uint64_t index))
{
    const Geometry geometry = geometry_of(algorithm, a);
    return (Kernel){.name = name, .instruction = algorithm->instruction, .shape = geometry.shape, .threads = geometry.threads,
                    .registers_per_thread = geometry.registers_per_thread, .run = run};
}

TileSize paper_tiles(uint64_t sram_elements, uint64_t head_dim)
{
    const uint64_t Bc = min_u64(max_u64(ceil_div(sram_elements, 4 * head_dim), 1), UINT32_MAX);
    return (TileSize){(uint32_t)min_u64(Bc, head_dim), (uint32_t)Bc};
}

/* One block of one row and one key, walked for its declarations alone. */
static bool tiles_fit(const Algorithm *algorithm, const AttentionShape *shape, bool backward, TileSize tiles, const Profile *profile, Alloc *alloc,
                      Status *status)
{
    AttentionShape tiny = *shape;
    tiny.batch = tiny.heads = tiny.kv_heads = tiny.seqlen_q = tiny.seqlen_k = 1;
    Machine machine;
    Attention attention;
    machine_init(&machine, profile, (MachineConfig){.mode = MODE_COUNT, .l2 = L2_NONE}, alloc, status);
    if (attention_init(&attention, &machine, &tiny, tiles.Br, tiles.Bc)) {
        if (!backward) algorithm->forward(&machine, &attention);
        else if (attention_init_backward(&attention, &machine)) algorithm->backward(&machine, &attention);
    }
    machine_free(&machine);
    return status_ok(status);
}

static bool shrink_to_fit(const Algorithm *algorithm, const AttentionShape *shape, bool backward, const Profile *profile, Alloc *alloc,
                          TileSize *tiles, Status *status)
{
    enum { SMALLEST = 16 };
    TileSize candidate = backward ? algorithm->backward_tiles(shape) : algorithm->tiles(shape);
    for (;;) {
        Status attempt = {0};
        if (tiles_fit(algorithm, shape, backward, candidate, profile, alloc, &attempt)) break;
        const bool can_shrink = candidate.Br > SMALLEST || candidate.Bc > SMALLEST;
        if (attempt.code != STATUS_INFEASIBLE || !can_shrink || !profile_has(profile, algorithm->instruction))
            return status_fail(status, attempt.code, "%s", attempt.text);
        if (candidate.Bc >= candidate.Br) candidate.Bc /= 2;
        else candidate.Br /= 2;
    }
    *tiles = candidate;
    return true;
}

bool fitting_tiles(const Algorithm *algorithm, const AttentionShape *shape, const Profile *profile, Alloc *alloc, TileSize *tiles,
                   Status *status)
{
    return shrink_to_fit(algorithm, shape, false, profile, alloc, tiles, status);
}

bool fitting_backward_tiles(const Algorithm *algorithm, const AttentionShape *shape, const Profile *profile, Alloc *alloc, TileSize *tiles,
                            Status *status)
{
    return shrink_to_fit(algorithm, shape, true, profile, alloc, tiles, status);
}

uint64_t standard_softmax_cols(uint64_t smem_bytes_per_block, const AttentionShape *shape)
{
    return min_u64(shape->seqlen_k, max_u64(smem_bytes_per_block / element_bytes(shape->dtype), 1));
}

void standard_strip(uint64_t bytes, const AttentionShape *shape, uint32_t *rows, uint32_t *cols)
{
    const uint64_t width = standard_softmax_cols(bytes, shape);
    *cols = (uint32_t)width;
    *rows = 32;
    while (*rows > 1 && *rows * width * element_bytes(shape->dtype) > bytes) *rows /= 2;
}

static BackwardGeometry backward_geometry_of(const Algorithm *algorithm, const Attention *a)
{
    const TileSize tiles = {a->Br, a->Bc};
    if (algorithm->backward == fa3_backward) return fa3_backward_geometry(&a->shape, tiles);
    return algorithm->backward == fa4_backward ? fa4_backward_geometry() : fa2_backward_geometry(&a->shape, tiles);
}

CountedBackward counted_backward(const Algorithm *algorithm, const Attention *a, const Machine *machine)
{
    const BackwardGeometry geometry = backward_geometry_of(algorithm, a);
    const BackwardVariant *v = &a->variant;
    CountedBackward counted = {
        .problem = counted_problem(algorithm, a, machine),
        .key_m = geometry.key_gradients.m,
        .key_n = geometry.key_gradients.n,
        .query_m = geometry.query_gradients.m,
        .query_n = geometry.query_gradients.n,
        .direct_dq = v->direct_dq,
        .query_blocks_outside = v->query_blocks_outside,
        .two_ctas = v->two_ctas,
        .splits = v->deterministic ? fa2_backward_splits(machine->profile->sm_count, &a->shape, key_blocks(a)) : 0,
    };
    if (algorithm->backward == standard_backward) {     /* two strips share the memory */
        counted.problem.softmax_cols = standard_softmax_cols(machine->profile->smem_bytes_per_block / 2, &a->shape);
    } else {
        counted.problem.shape_m = geometry.scores.m;
        counted.problem.shape_n = geometry.scores.n;
    }
    return counted;
}

static CountedFp8 counted_fp8(const AttentionShape *s)
{
    static const CountedScales scales[] = {[SCALE_NONE] = COUNTED_SCALE_NONE, [SCALE_TENSOR] = COUNTED_SCALE_TENSOR, [SCALE_BLOCK] = COUNTED_SCALE_BLOCK,
                                           [SCALE_ROW] = COUNTED_SCALE_ROW};
    const bool codes = attention_quantises(s);
    return (CountedFp8){.operands = is_fp8(s->dtype),
                        .codes = codes,
                        .scales = scales[s->fp8.scales],
                        .rotate_qk = s->fp8.rotation != ROTATE_NONE,
                        .rotate_v = s->fp8.rotation == ROTATE_QKV,
                        .prepass = s->fp8.prepass,
                        .stages = hadamard_stages((uint32_t)s->head_dim),
                        .maxima_at_once = FP8_MAXIMA_AT_ONCE,
                        .source_bytes = element_bytes(codes ? s->fp8.source : s->dtype)};
}

CountedProblem counted_problem(const Algorithm *algorithm, const Attention *a, const Machine *machine)
{
    const AttentionShape *s = &a->shape;
    const Geometry geometry = geometry_of(algorithm, a);
    const DecodePlan plan = algorithm == &algorithm_decode ? decode_plan(a, machine->profile->sm_count) : (DecodePlan){0};
    return (CountedProblem){
        .batch = s->batch,
        .heads = s->heads,
        .kv_heads = s->kv_heads,
        .Nq = s->seqlen_q,
        .Nk = s->seqlen_k,
        .d = s->head_dim,
        .band_low = a->band.low,
        .band_high = a->band.high,
        .Br = a->Br,
        .Bc = a->Bc,
        .element_bytes = element_bytes(s->dtype),
        .statistic_bytes = element_bytes(a->statistic),
        .ideal_l2 = machine->config.l2 == L2_IDEAL,
        .shape_m = geometry.shape.m,
        .shape_n = geometry.shape.n,
        .softmax_cols = standard_softmax_cols(machine->profile->smem_bytes_per_block, s),
        .dropout = s->dropout_source != DROPOUT_NONE,
        .stored_mask = a->Z != NULL,
        .writes_mask = s->dropout_source == DROPOUT_STORED,
        .fp8 = counted_fp8(s),
        .splits = plan.splits,
        .packed = plan.group > 1,
        .merged_by_tree = a->decode.merge == MERGE_TREE,
    };
}
