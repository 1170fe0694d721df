/* backward_sums.c - see backward_sums.h. */
#include "backward_sums.h"

void backward_clear_rows(Stream *w, Block *b, Tensor *sums, uint64_t splits, uint64_t row, Tile *zero, uint32_t rows)
{
    fill(w, zero, rows, (uint32_t)sums->cols, 0.0);
    for (b->member = 0; b->member < splits; b->member++) store(w, sums, row, zero);
    b->member = 0;
}

void backward_dot_block(Block *b, const void *arguments, uint64_t i)
{
    const BackwardSums *sums = arguments;
    const Attention *a = sums->attention;
    const uint32_t Br = a->Br, d = (uint32_t)a->shape.head_dim;
    Stream *w = stream(b, "compute", b->kernel->threads / 32);
    Tile *o = register_tile(b, "O", a->shape.dtype, Br, d), *d_o = register_tile(b, "dO", a->shape.dtype, Br, d);
    Rows *D = row_vector(b, "D", a->statistic, Br);

    load(w, o, a->O, i * Br);
    load(w, d_o, a->dO, i * Br);
    row_dot(w, D, d_o, o);
    store(w, sums->D, i * Br, D);
    if (sums->dQ_sum != NULL) backward_clear_rows(w, b, sums->dQ_sum, sums->splits, i * Br, o, live_rows(a, i));
}

void backward_convert_block(Block *b, const void *arguments, uint64_t i)
{
    const BackwardSums *sums = arguments;
    const Attention *a = sums->attention;
    const uint32_t d = (uint32_t)a->shape.head_dim;
    Stream *w = stream(b, "compute", b->kernel->threads / 32);
    Tile *sum = register_tile(b, "dQ", a->statistic, a->Br, d);
    load(w, sum, sums->dQ_sum, i * a->Br);
    if (sums->splits > 1) {
        Tile *part = register_tile(b, "part", a->statistic, a->Br, d);
        for (b->member = 1; b->member < sums->splits; b->member++) {
            load(w, part, sums->dQ_sum, i * a->Br);
            add(w, sum, part);
        }
        b->member = 0;
    }
    scale(w, sum, a->shape.softmax_scale);
    store(w, a->dQ, i * a->Br, sum);
}

static Kernel with_run(Kernel kernel, const char *name, void (*run)(Block *, const void *, uint64_t))
{
    kernel.name = name;
    kernel.run = run;
    return kernel;
}

bool backward_with_sums(Machine *machine, Attention *a, const char *algorithm, BackwardNames names, Kernel kernel)
{
    const AttentionShape *s = &a->shape;
    const BackwardVariant *v = &a->variant;
    if (v->direct_dq || v->deterministic || v->query_blocks_outside)
        return status_fail(machine->status, STATUS_INFEASIBLE, "%s: its backward has no other dQ sums or loop order; use fa2", algorithm);
    BackwardSums sums = {.attention = a, .splits = 1};
    sums.D = machine_tensor(machine, "D", a->statistic, s->batch, s->heads, s->seqlen_q, 1);
    sums.dQ_sum = machine_tensor(machine, "dQ sum", a->statistic, s->batch, s->heads, s->seqlen_q, s->head_dim);
    if (a->L == NULL) a->L = machine_tensor(machine, "L", a->statistic, s->batch, s->heads, s->seqlen_q, 1);
    const Kernel dot = with_run(kernel, names.dot, backward_dot_block), conversion = with_run(kernel, names.conversion, backward_convert_block);
    const Kernel main_kernel = with_run(kernel, names.key_blocks, kernel.run);
    return launch(machine, &dot, one_block_per_query_block(a), &sums) &&
           launch(machine, &main_kernel, one_block_per_key_block(a), &sums) &&
           launch(machine, &conversion, one_block_per_query_block(a), &sums);
}
