/* fp8.c - see fp8.h. */
#include "fp8.h"

enum { THREADS = 256, REGISTERS = 255 };

/* What the kernels of one operand get. */
typedef struct {
    const Attention *a;
    const Tensor *from;
    const QuantisedOperand *to;
    uint32_t block_rows;
    bool rotated;
    ScaleGranularity scales;
} Prepass;

static Tile *load_block(Block *b, Stream *w, const Prepass *p, uint64_t i)
{
    const AttentionShape *s = &p->a->shape;
    Tile *x = register_tile(b, "X", ELEMENT_F32, p->block_rows, (uint32_t)s->head_dim);
    load(w, x, p->from, i * p->block_rows);
    if (p->rotated) rotate_rows(w, x, s->fp8.seed, b->head * s->kv_heads / b->grid.heads);
    return x;
}

static void maximum_of_block(Block *b, const void *arguments, uint64_t i)
{
    const Prepass *p = arguments;
    Stream *w = stream(b, "compute", THREADS / 32);
    Rows *largest = row_vector(b, "max", ELEMENT_F32, 1);
    absolute_max(w, largest, load_block(b, w, p, i));
    store(w, p->to->block_maxima, i, largest);
}

static void maximum_of_all(Block *b, const void *arguments, uint64_t i)
{
    const Prepass *p = arguments;
    const Tensor *maxima = p->to->block_maxima;
    Stream *w = stream(b, "compute", THREADS / 32);
    Rows *piece = row_vector(b, "maxima", ELEMENT_F32, FP8_MAXIMA_AT_ONCE);
    Rows *of_piece = row_vector(b, "max of a piece", ELEMENT_F32, 1), *largest = row_vector(b, "max", ELEMENT_F32, 1);
    fill(w, largest, 1, 1, 0.0);
    for (uint64_t first = 0; maxima != NULL && first < maxima->rows; first += FP8_MAXIMA_AT_ONCE) {
        load(w, piece, maxima, first);
        absolute_max(w, of_piece, piece);
        rows_max(w, largest, largest, of_piece);
    }
    store(w, p->to->maximum, i, largest);
}

static void quantise_block(Block *b, const void *arguments, uint64_t i)
{
    const Prepass *p = arguments;
    const bool by_row = p->scales == SCALE_ROW;
    Stream *w = stream(b, "compute", THREADS / 32);
    Rows *largest = row_vector(b, "max", ELEMENT_F32, by_row ? p->block_rows : 1);
    Rows *descale = row_vector(b, "1/s", ELEMENT_F32, by_row ? p->block_rows : 1);
    Tile *x = load_block(b, w, p, i), *codes = tile_view(x, "X8", p->a->shape.dtype, x->max_rows, x->max_cols);
    if (p->scales == SCALE_TENSOR) load(w, largest, p->to->maximum, 0);
    else if (p->scales != SCALE_NONE) absolute_max(w, largest, x);
    quantise(w, codes, descale, x, p->scales == SCALE_NONE ? NULL : largest);
    store(w, p->to->codes, i * p->block_rows, codes);
    if (p->scales == SCALE_BLOCK) store(w, p->to->descale, i, descale);
    if (by_row) store(w, p->to->descale, i * p->block_rows, descale);
    if (p->scales == SCALE_TENSOR && i == 0) store(w, p->to->descale, 0, descale);
}

static bool launch_operand(Machine *machine, const Prepass *p, const char *const names[3])
{
    const Grid blocks = {ceil_div(p->from->rows, p->block_rows), p->from->heads, p->from->batch};
    Kernel kernel = {.instruction = TENSOR_WGMMA, .threads = THREADS, .registers_per_thread = REGISTERS};
    if (p->scales == SCALE_TENSOR && blocks.blocks > 0) {
        kernel.name = names[0];
        kernel.run = maximum_of_block;
        launch(machine, &kernel, blocks, p);
        kernel.name = names[1];
        kernel.run = maximum_of_all;
        launch(machine, &kernel, (Grid){1, blocks.heads, blocks.batch}, p);
    }
    kernel.name = names[2];
    kernel.run = quantise_block;
    return launch(machine, &kernel, blocks, p);
}

bool launch_fp8_prepass(Machine *machine, Attention *a)
{
    static const char *const names[3][3] = {{"max_blocks_Q", "max_Q", "quantise_Q"},
                                            {"max_blocks_K", "max_K", "quantise_K"},
                                            {"max_blocks_V", "max_V", "quantise_V"}};
    const Fp8Options *o = &a->shape.fp8;
    if (!attention_quantises(&a->shape) || (!o->prepass && machine->config.mode != MODE_NUMERIC)) return status_ok(machine->status);
    if (!profile_has(machine->profile, TENSOR_WGMMA)) return status_ok(machine->status);        /* attention itself will say so */
    const bool rotate_qk = o->rotation != ROTATE_NONE, rotate_v = o->rotation == ROTATE_QKV;
    const Prepass passes[3] = {{a, a->Q, &a->q8, a->Br, rotate_qk, o->scales},
                               {a, a->K, &a->k8, a->Bc, rotate_qk, o->scales},
                               {a, a->V, &a->v8, a->Bc, rotate_v, o->scales == SCALE_ROW ? SCALE_BLOCK : o->scales}};
    for (int i = 0; i < 3; i++)
        if (!launch_operand(machine, &passes[i], names[i])) return false;
    if (!o->prepass) machine_clear_ledger(machine);
    return status_ok(machine->status);
}
