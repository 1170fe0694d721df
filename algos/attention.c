/* attention.c - see attention.h. */
#include "attention.h"

#include "sim/normal.h"

#include <math.h>

AttentionShape attention_shape(uint64_t N, uint64_t d)
{
    return (AttentionShape){.batch = 1, .heads = 1, .kv_heads = 1, .seqlen_q = N, .seqlen_k = N, .head_dim = d, .mask = MASK_NONE,
                            .window_left = -1, .window_right = -1, .softmax_scale = d ? 1.0 / sqrt((double)d) : 1.0, .dtype = ELEMENT_BF16,
                            .fp8 = {.p_log2_scale = 8, .source = ELEMENT_BF16}};
}

bool attention_check(const AttentionShape *s, Status *status)
{
    if (s->kv_heads == 0 || s->heads % s->kv_heads != 0)
        return status_fail(status, STATUS_USAGE, "%" PRIu64 " K/V heads do not divide %" PRIu64 " query heads", s->kv_heads, s->heads);
    if (s->head_dim == 0 || s->head_dim > MAX_HEAD_DIM)
        return status_fail(status, STATUS_USAGE, "head dim %" PRIu64 " is not allowed; expected 1 to %d", s->head_dim, MAX_HEAD_DIM);
    if (s->seqlen_q > MAX_SEQLEN || s->seqlen_k > MAX_SEQLEN)
        return status_fail(status, STATUS_USAGE, "sequence length %" PRIu64 " is not allowed; expected 0 to %" PRIu64,
                           max_u64(s->seqlen_q, s->seqlen_k), MAX_SEQLEN);
    if (s->window_left < -1 || s->window_right < -1)
        return status_fail(status, STATUS_USAGE, "window %" PRId64 ",%" PRId64 " is not allowed; expected -1 (unbounded) or more",
                           s->window_left, s->window_right);
    if (s->dropout_source != DROPOUT_NONE && !(s->dropout.p >= 0.0 && s->dropout.p < 1.0))
        return status_fail(status, STATUS_USAGE, "dropout %g is not allowed; expected 0 or more and less than 1", s->dropout.p);
    if (s->dropout.offset >= UINT32_C(1) << 31)
        return status_fail(status, STATUS_USAGE, "dropout offset %" PRIu32 " is not allowed; expected 0 to %" PRIu32, s->dropout.offset,
                           (UINT32_C(1) << 31) - 1);
    if (!is_fp8(s->dtype) && (s->fp8.scales != SCALE_NONE || s->fp8.rotation != ROTATE_NONE))
        return status_fail(status, STATUS_USAGE, "scales and rotation are for FP8; the type is %s", element_name(s->dtype));
    if (s->fp8.p_log2_scale > 8)
        return status_fail(status, STATUS_USAGE, "P times 2^%u leaves the range of E4M3, 448; expected 2^0 to 2^8", s->fp8.p_log2_scale);
    if (!isfinite(s->softmax_scale)) return status_fail(status, STATUS_USAGE, "the softmax scale must be finite");
    return true;
}

Band attention_band(const AttentionShape *s)
{
    const int64_t Nq = (int64_t)s->seqlen_q, Nk = (int64_t)s->seqlen_k, shift = Nk - Nq;
    Band band = {-Nq, Nk};                                      /* everything */
    if (s->mask == MASK_CAUSAL) band.high = shift;
    if (s->mask == MASK_CAUSAL_TOP_LEFT) band.high = 0;
    if (s->window_left >= 0 && s->window_left < Nk) band.low = shift - s->window_left > band.low ? shift - s->window_left : band.low;
    if (s->window_right >= 0 && s->window_right < Nq) band.high = shift + s->window_right < band.high ? shift + s->window_right : band.high;
    if (band.low > band.high) band = (Band){Nk, -Nq};           /* a top-left mask and a window that never meet: nothing */
    return band;
}

/* What the passes that round an operand write. */
static void init_quantised(QuantisedOperand *x, Machine *machine, const AttentionShape *s, uint64_t heads, uint64_t rows, uint64_t block_rows, bool summed,
                           const char *const names[4])
{
    const ScaleGranularity scales = summed && s->fp8.scales == SCALE_ROW ? SCALE_BLOCK : s->fp8.scales;
    x->codes = machine_tensor(machine, names[0], s->dtype, s->batch, heads, rows, s->head_dim);
    if (scales == SCALE_NONE) return;
    const uint64_t count = scales == SCALE_TENSOR ? 1 : quantised_scales(scales, rows, block_rows);
    x->descale = machine_tensor(machine, names[1], ELEMENT_F32, s->batch, heads, count, 1);
    if (scales != SCALE_TENSOR) return;
    x->block_maxima = machine_tensor(machine, names[2], ELEMENT_F32, s->batch, heads, ceil_div(rows, block_rows), 1);
    x->maximum = machine_tensor(machine, names[3], ELEMENT_F32, s->batch, heads, 1, 1);
}

static void init_operands(Attention *a, Machine *machine)
{
    static const char *const names[3][4] = {{"Q8", "sQ", "maxima Q", "max Q"}, {"K8", "sK", "maxima K", "max K"}, {"V8", "sV", "maxima V", "max V"}};
    const AttentionShape *s = &a->shape;
    if (!attention_quantises(s)) return;
    init_quantised(&a->q8, machine, s, s->heads, s->seqlen_q, a->Br, false, names[0]);
    init_quantised(&a->k8, machine, s, s->kv_heads, s->seqlen_k, a->Bc, false, names[1]);
    init_quantised(&a->v8, machine, s, s->kv_heads, s->seqlen_k, a->Bc, true, names[2]);
}

bool attention_init(Attention *a, Machine *machine, const AttentionShape *shape, uint32_t Br, uint32_t Bc)
{
    if (!attention_check(shape, machine->status)) return false;
    const ElementType type = attention_quantises(shape) ? shape->fp8.source : shape->dtype;
    *a = (Attention){.shape = *shape, .Br = Br, .Bc = Bc, .band = attention_band(shape),
                     .statistic = type == ELEMENT_F64 ? ELEMENT_F64 : ELEMENT_F32};
    a->Q = machine_tensor(machine, "Q", type, shape->batch, shape->heads, shape->seqlen_q, shape->head_dim);
    a->K = machine_tensor(machine, "K", type, shape->batch, shape->kv_heads, shape->seqlen_k, shape->head_dim);
    a->V = machine_tensor(machine, "V", type, shape->batch, shape->kv_heads, shape->seqlen_k, shape->head_dim);
    a->O = machine_tensor(machine, "O", type, shape->batch, shape->heads, shape->seqlen_q, shape->head_dim);
    init_operands(a, machine);
    if (shape->dropout_source == DROPOUT_STORED || shape->dropout_source == DROPOUT_GIVEN)
        a->Z = machine_tensor(machine, "Z", ELEMENT_U8, shape->batch, shape->heads, shape->seqlen_q, shape->seqlen_k);
    return status_ok(machine->status);
}

bool attention_init_backward(Attention *a, Machine *machine)
{
    const AttentionShape *s = &a->shape;
    a->dO = machine_tensor(machine, "dO", s->dtype, s->batch, s->heads, s->seqlen_q, s->head_dim);
    a->dQ = machine_tensor(machine, "dQ", s->dtype, s->batch, s->heads, s->seqlen_q, s->head_dim);
    a->dK = machine_tensor(machine, "dK", s->dtype, s->batch, s->kv_heads, s->seqlen_k, s->head_dim);
    a->dV = machine_tensor(machine, "dV", s->dtype, s->batch, s->kv_heads, s->seqlen_k, s->head_dim);
    return status_ok(machine->status);
}

double tensor_value(const Machine *machine, const Tensor *tensor, uint64_t i)
{
    return machine->math->real_bytes == sizeof(float) ? (double)((const float *)tensor->data)[i] : ((const double *)tensor->data)[i];
}

void tensor_set(const Machine *machine, Tensor *tensor, uint64_t i, double value)
{
    if (machine->math->real_bytes == sizeof(double)) {
        ((double *)tensor->data)[i] = value;
        return;
    }
    float rounded = (float)value;
    round_elements(tensor->type, &rounded, 1);
    ((float *)tensor->data)[i] = rounded;
}

static void random_tensor(const Machine *machine, Tensor *tensor, uint64_t seed, uint64_t stream_id)
{
    const uint64_t count = tensor_elements(tensor);
    if (machine->math->real_bytes == sizeof(double)) {
        normal_fill_f64(tensor->data, count, seed, stream_id, 0);
        return;
    }
    normal_fill_f32(tensor->data, count, seed, stream_id, 0);
    round_elements(tensor->type, tensor->data, count);
}

void attention_random_inputs(const Attention *a, const Machine *machine, uint64_t seed)
{
    if (!status_ok(machine->status) || machine->math == NULL) return;
    random_tensor(machine, a->Q, seed, 0);
    random_tensor(machine, a->K, seed, 1);
    random_tensor(machine, a->V, seed, 2);
    if (a->dO != NULL) random_tensor(machine, a->dO, seed, 3);
}

/* ----------------------------------------------------------------------------------------------------------------- blocks */

static uint64_t clamp_to(int64_t x, uint64_t limit) { return x < 0 ? 0 : min_u64((uint64_t)x, limit); }

/* Blocks of `size` that meet [first, end) of `count` elements. */
static BlockRange blocks_meeting(int64_t first, int64_t end, uint64_t count, uint64_t size)
{
    const uint64_t from = clamp_to(first, count), to = clamp_to(end, count);
    return to > from ? (BlockRange){from / size, ceil_div(to, size)} : (BlockRange){0, 0};
}

BlockRange key_blocks_of_queries(const Attention *a, uint64_t first, uint64_t last)
{
    return blocks_meeting((int64_t)first + a->band.low, (int64_t)last + a->band.high + 1, a->shape.seqlen_k, a->Bc);
}

BlockRange visible_key_blocks(const Attention *a, uint64_t i)
{
    return key_blocks_of_queries(a, i * a->Br, i * a->Br + live_rows(a, i) - 1);
}

BlockRange visible_query_blocks(const Attention *a, uint64_t j)
{
    const int64_t first = (int64_t)(j * a->Bc), last = (int64_t)min_u64((j + 1) * a->Bc, a->shape.seqlen_k) - 1;
    return blocks_meeting(first - a->band.high, last - a->band.low + 1, a->shape.seqlen_q, a->Br);
}

/* ---------------------------------------------------------------------------------------------------------------- dropout */

Tile *keep_part(Block *b, const Attention *a, uint32_t rows, uint32_t cols)
{
    return a->shape.dropout_source == DROPOUT_NONE ? NULL : register_tile(b, "Z", ELEMENT_U8, rows, cols);
}

Tile *keep_tile(Block *b, const Attention *a, uint32_t rows) { return keep_part(b, a, rows, a->Bc); }

static void keep_mask_block(Block *b, const void *arguments, uint64_t i)
{
    const Attention *a = arguments;
    Stream *w = stream(b, "compute", b->kernel->threads / 32);
    Tile *z = keep_tile(b, a, a->Br);
    for (uint64_t j = 0; j < key_blocks(a); j++) {
        const uint32_t cols = live_keys(a, j);
        random_keep(w, z, a->Q, i * a->Br, j * a->Bc, live_rows(a, i), cols, &a->shape.dropout);
        store_part(w, a->Z, i * a->Br, j * a->Bc, z);
    }
}

bool launch_keep_mask(Machine *machine, const Attention *a, Kernel kernel)
{
    if (a->shape.dropout_source != DROPOUT_STORED) return status_ok(machine->status);
    kernel.name = "dropout_mask";
    kernel.run = keep_mask_block;
    return launch(machine, &kernel, one_block_per_query_block(a), a);
}
