/* brute_force_fp8.c - see brute_force_fp8.h. */
#include "brute_force_fp8.h"
#include "brute_force_internal.h"

/* An operand: as it comes, its codes, and what belongs to its scale. */
typedef struct {
    Memory source, codes, scale, maxima, maximum;
    uint64_t block_rows;
    bool rotated;
    BruteScales scales;
} Operand;

typedef struct {
    Run run;                    /* first: the shared functions take a Run */
    const BruteFp8 *f;
    Operand q, k, v;
} Fp8Run;

static Fp8Run *fp8_of(Run *run) { return (Fp8Run *)run; }

static void forget_operand(Operand *x)
{
    Memory *const all[] = {&x->source, &x->codes, &x->scale, &x->maxima, &x->maximum};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) forget(all[i]);
}

static Span row(uint64_t i) { return (Span){i, i + 1}; }

/* One row: sums and differences of pairs, twice as far apart each time, inside blocks of the largest power of two that divides d. */
static void butterfly(const Run *run)
{
    const uint64_t d = run->p->d;
    for (uint64_t h = 1; d % (2 * h) == 0; h *= 2)
        for (uint64_t first = 0; first < d; first += 2 * h)
            for (uint64_t c = first; c < first + h; c++) {
                work(run, 1, 0);
                work(run, 1, 0);
            }
}

/* ------------------------------------------------------------------------------------------------ the pass before attention */

static void read_block(Run *run, Operand *x, Span rows)
{
    load(run, &x->source, rows, whole(run->p->d));
    for (uint64_t r = rows.first; r < rows.end && x->rotated; r++) butterfly(run);
}

/* Compared with the maximum, or multiplied by the scale. */
static void once_per_element(const Run *run, Span rows)
{
    for (uint64_t r = rows.first; r < rows.end; r++)
        for (uint64_t c = 0; c < run->p->d; c++) work(run, 1, 0);
}

static void find_maximum(Run *run, Operand *x, uint64_t rows)
{
    uint64_t blocks = 0;
    for (uint64_t i = 0; i * x->block_rows < rows; i++, blocks++) {
        read_block(run, x, block_span(i, x->block_rows, rows));
        once_per_element(run, block_span(i, x->block_rows, rows));
        store(run, &x->maxima, row(i), whole(1));
    }
    forget_operand(x);
    if (rows == 0) return;
    for (uint64_t i = 0; i < blocks; i++) {
        load(run, &x->maxima, row(i), whole(1));
        work(run, 1, 0);
    }
    work(run, 1, 0);            /* the maximum of one piece with that of the pieces before: there are few blocks here */
    store(run, &x->maximum, row(0), whole(1));
    forget_operand(x);
}

static void round_blocks(Run *run, Operand *x, uint64_t rows)
{
    for (uint64_t i = 0; i * x->block_rows < rows; i++) {
        const Span span = block_span(i, x->block_rows, rows);
        read_block(run, x, span);
        if (x->scales == BRUTE_BY_TENSOR) load(run, &x->maximum, row(0), whole(1));
        else if (x->scales != BRUTE_UNSCALED) once_per_element(run, span);
        if (x->scales != BRUTE_UNSCALED) once_per_element(run, span);
        store(run, &x->codes, span, whole(run->p->d));
        if (x->scales == BRUTE_BY_BLOCK) store(run, &x->scale, row(i), whole(1));
        if (x->scales == BRUTE_BY_ROW) store(run, &x->scale, span, whole(1));
        if (x->scales == BRUTE_BY_TENSOR && i == 0) store(run, &x->scale, row(0), whole(1));
    }
}

/* Head by head; each launch's memory is forgotten per head, which is the same: heads share nothing. */
static void round_operand(Run *run, Operand *x, uint64_t heads, uint64_t rows)
{
    const uint64_t group = run->p->heads > heads ? run->p->heads / heads : 1;
    for (run->batch = 0; run->batch < run->p->batch; run->batch++)
        for (uint64_t h = 0; h < heads; h++) {
            run->head = h * group;
            if (x->scales == BRUTE_BY_TENSOR) find_maximum(run, x, rows);
            round_blocks(run, x, rows);
            forget_operand(x);
        }
}

/* --------------------------------------------------------------------------------------------------------------- attention */

static void read_scales_of_block(Run *run, uint64_t i, Span q)
{
    Fp8Run *x = fp8_of(run);
    const BruteScales scales = x->f->scales;
    if (scales == BRUTE_BY_ROW) load_shared(run, &x->q.scale, q, whole(1));
    if (scales == BRUTE_BY_BLOCK) load_shared(run, &x->q.scale, row(i), whole(1));
    if (scales != BRUTE_BY_TENSOR) return;
    load_shared(run, &x->q.scale, row(0), whole(1));
    load_shared(run, &x->k.scale, row(0), whole(1));
    load_shared(run, &x->v.scale, row(0), whole(1));
}

static void read_scales_of_tile(Run *run, uint64_t j, Span q, Span k)
{
    Fp8Run *x = fp8_of(run);
    const BruteScales scales = x->f->scales;
    if (scales != BRUTE_BY_BLOCK && scales != BRUTE_BY_ROW) return;
    load_shared(run, &x->v.scale, row(j), whole(1));
    if (scales == BRUTE_BY_BLOCK) {
        load_shared(run, &x->k.scale, row(j), whole(1));
        return;
    }
    load_shared(run, &x->k.scale, k, whole(1));
    for (uint64_t r = q.first; r < q.end; r++) run->n->smem_thread_bytes += 4;
    for (uint64_t warpgroup = q.first; warpgroup < q.end; warpgroup += 64)
        for (uint64_t c = k.first; c < k.end; c++) run->n->smem_thread_bytes += 4;
}

static void tile(Run *run, uint64_t j, Span q, Span k)
{
    Fp8Run *x = fp8_of(run);
    const Span d = whole(run->p->d);
    const BruteScales scales = x->f->scales;
    load_shared(run, &x->k.codes, k, d);
    load_shared(run, &x->v.codes, k, d);
    read_scales_of_tile(run, j, q, k);
    for (uint64_t c = k.first; c < k.end; c++)
        for (uint64_t e = 0; e < run->p->d; e++) run->n->smem_thread_bytes += 1 + 1;        /* V: read, and written transposed */
    score_and_softmax(run, q, k);
    multiply(run, q, k);
    read_right(run, q, d, k);
    for (uint64_t r = q.first; r < q.end; r++) {
        work(run, 2, 1);                                        /* e^(m - m_new) */
        work(run, 2, 0);                                        /* l */
        work(run, 1, 0);                                        /* m - 8 ln 2 */
        if (scales == BRUTE_BY_BLOCK || scales == BRUTE_BY_ROW) work(run, 1, 0);        /* alpha in the unit of this V */
        for (uint64_t e = 0; e < run->p->d; e++) work(run, 2, 0);
        for (uint64_t c = k.first; c < k.end && scales == BRUTE_BY_ROW; c++) work(run, 2, 0);   /* scales of the row and of the column */
    }
}

static void block(Run *run, uint64_t i)
{
    Fp8Run *x = fp8_of(run);
    const BruteProblem *p = run->p;
    const Span q = block_span(i, p->Br, p->Nq), d = whole(p->d);
    if (any_visible(p, q, whole(p->Nk))) {
        load_shared(run, &x->q.codes, q, d);
        read_scales_of_block(run, i, q);
    }
    for (uint64_t j = 0; j * p->Bc < p->Nk; j++)
        if (any_visible(p, q, block_span(j, p->Bc, p->Nk))) tile(run, j, q, block_span(j, p->Bc, p->Nk));
    for (uint64_t r = q.first; r < q.end; r++) {
        for (uint64_t e = 0; e < p->d; e++) work(run, 1, 0);    /* O / l */
        work(run, 1, 0);                                        /* the reference of L */
        if (x->f->scales != BRUTE_UNSCALED) work(run, 1, 0);    /* l in the unit of V */
        if (x->f->rotate_v) butterfly(run);
    }
    store(run, &run->O, q, d);
    store(run, &run->l, q, whole(1));
}

/* -------------------------------------------------------------------------------------------------------------------- a run */

static Operand new_operand(const Fp8Run *x, uint64_t heads, uint64_t rows, uint64_t block_rows, bool rotated, BruteScales scales, Alloc *alloc,
                           Status *status)
{
    const uint64_t d = x->run.p->d, blocks = (rows + block_rows - 1) / block_rows;
    const uint64_t count = scales == BRUTE_BY_TENSOR ? 1 : scales == BRUTE_BY_ROW ? rows : blocks;
    return (Operand){.source = new_memory(heads, rows, d, x->f->source_bytes, alloc, status),
                     .codes = new_memory(heads, rows, d, x->run.p->element_bytes, alloc, status),
                     .scale = new_memory(heads, count, 1, 4, alloc, status),
                     .maxima = new_memory(heads, blocks, 1, 4, alloc, status),
                     .maximum = new_memory(heads, 1, 1, 4, alloc, status),
                     .block_rows = block_rows,
                     .rotated = rotated,
                     .scales = scales};
}

static void free_operand(Operand *x, Alloc *alloc)
{
    Memory *const all[] = {&x->source, &x->codes, &x->scale, &x->maxima, &x->maximum};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free_memory(all[i], alloc);
}

bool brute_force_fp8(const BruteProblem *p, const BruteFp8 *f, BruteCounts *counts, Alloc *alloc, Status *status)
{
    const uint64_t heads = p->batch * p->heads, kv_heads = p->batch * p->kv_heads;
    const BruteScales of_v = f->scales == BRUTE_BY_ROW ? BRUTE_BY_BLOCK : f->scales;
    *counts = (BruteCounts){0};
    Fp8Run x = {.run = {.p = p, .n = counts}, .f = f};
    x.q = new_operand(&x, heads, p->Nq, p->Br, f->rotate_qk, f->scales, alloc, status);
    x.k = new_operand(&x, kv_heads, p->Nk, p->Bc, f->rotate_qk, f->scales, alloc, status);
    x.v = new_operand(&x, kv_heads, p->Nk, p->Bc, f->rotate_v, of_v, alloc, status);
    x.run.O = new_memory(heads, p->Nq, p->d, f->source_bytes, alloc, status);
    x.run.l = new_memory(heads, p->Nq, 1, p->statistic_bytes, alloc, status);
    if (status_ok(status)) {
        if (f->codes && f->prepass) {
            round_operand(&x.run, &x.q, p->heads, p->Nq);
            round_operand(&x.run, &x.k, p->kv_heads, p->Nk);
            round_operand(&x.run, &x.v, p->kv_heads, p->Nk);
        }
        each_head(&x.run, block, query_blocks(p));
    }
    free_operand(&x.q, alloc);
    free_operand(&x.k, alloc);
    free_operand(&x.v, alloc);
    free_memory(&x.run.O, alloc);
    free_memory(&x.run.l, alloc);
    return status_ok(status);
}
