/* ops.c - the tile operations. See ops.h.
 *
 * Here is what each does when there is more to do than to count; the common case of a count is in ops_inline.h.
 */
#include "ops.h"
#include "checked.h"
#include "hadamard.h"
#include "l2_launch.h"
#include "philox.h"
#include "quantise.h"

#include <math.h>

/* ------------------------------------------------------------------------------------------------------------ book-keeping */

void op_mark_overflow(const Stream *w) { w->block->counts.overflow = true; }

static bool alive(const Stream *w) { return w->block->machine->status->code == STATUS_OK; }

static const TileMath *math_of(const Stream *w) { return w->block->machine->math; }

/* a * b, with the same mark. */
static uint64_t times(const Stream *w, uint64_t a, uint64_t b)
{
    const bool fits = a == 0 || b <= UINT64_MAX / a;
    w->block->counts.overflow |= !fits;
    return fits ? a * b : UINT64_MAX;
}

static Matrix matrix(const Tile *x) { return (Matrix){x->data, x->rows, x->cols, x->ld}; }

/* Threads touch a whole tile, once or more; only shared memory is a traffic level. */
void op_count_touch(const Stream *w, const Tile *x, int touches)
{
    if (x->space != SPACE_SHARED) return;
    for (int i = 0; i < touches; i++) op_count(w, &w->block->counts.smem_thread_bytes, tile_elements_here(x) * x->element_bytes);
}

static void notify(const Stream *w, Operation operation, const Tile *written, const Tile *read0, const Tile *read1, const Tile *read2)
{
    const Machine *machine = w->block->machine;
    const bool async = operation == OP_MATMUL ? w->async_matmul : operation == OP_ARRIVE;
    const Event event = {.operation = operation, .stream = w, .instruction = w->block->kernel->instruction, .async = async,
                         .read = {read0, read1, read2}, .written = {written}};
    machine->config.observe(machine->config.observer, &event);
}

static inline void report(const Stream *w, Operation operation, const Tile *written, const Tile *read0, const Tile *read1, const Tile *read2)
{
    if (w->block->machine->config.observe != NULL) notify(w, operation, written, read0, read1, read2);
}

/* The same for what moves between a tile and HBM. */
static inline void report_copy(const Stream *w, Operation operation, const Tile *written, const Tile *read, const Tensor *tensor)
{
    const Machine *machine = w->block->machine;
    if (machine->config.observe == NULL) return;
    const Event event = {.operation = operation, .stream = w, .instruction = w->block->kernel->instruction, .async = w->async_copy, .tensor = tensor,
                         .read = {read}, .written = {written}};
    machine->config.observe(machine->config.observer, &event);
}

static void set_shape(const Stream *w, Tile *x, uint64_t rows, uint64_t cols)
{
    if (rows > x->max_rows || cols > x->max_cols) {
        status_fail(w->block->machine->status, STATUS_INFEASIBLE, "%s: %" PRIu64 " x %" PRIu64 " does not fit tile %s of %u x %u",
                    w->block->kernel->name, rows, cols, x->name, x->max_rows, x->max_cols);
        return;
    }
    x->rows = (uint32_t)rows;
    x->cols = (uint32_t)cols;
    x->banded = false;
    x->nonfinite = false;
    x->area = x->visible = rows * cols;
    x->shape = rows << 32 | cols;
    x->product.left = UINT64_MAX;
    x->depth = 0;
}

static void copy_mask(Tile *to, const Tile *from)
{
    to->banded = from->banded;
    to->band = from->band;
    to->band_step = from->band_step;
    to->band_phase = from->band_phase;
    to->visible = from->visible;
}

static bool same_shape(const Stream *w, Operation operation, const Tile *a, uint32_t rows, uint32_t cols)
{
    if (a->rows == rows && a->cols == cols) return true;
    return status_fail(w->block->machine->status, STATUS_INFEASIBLE, "%s: %s: tile %s is %u x %u, expected %u x %u", w->block->kernel->name,
                       operation_name(operation), a->name, a->rows, a->cols, rows, cols);
}

/* ------------------------------------------------------------------------------------------------- between HBM and the block */

/* Fewer heads than the grid: consecutive blocks share one. More: a block has several, and says which it means. */
static uint64_t head_of(const Block *block, const Tensor *tensor)
{
    return block->batch * tensor->heads + block->head * tensor->heads / block->grid.heads + (tensor->heads > block->grid.heads ? block->member : 0);
}

/* Coverage of a tensor's head; when one head stands for all there is one. */
static Coverage *coverage_of(const Stream *w, Coverage **array, const Tensor *tensor, uint64_t head)
{
    Block *block = w->block;
    const Machine *machine = block->machine;
    const uint32_t i = tensor->index;
    if (!alive(w)) return NULL;             /* an allocation has failed: do not try again over what the first attempt got */
    if (block->touched[i] == NULL) {
        const bool one_head = machine->config.mode == MODE_COUNT && !machine->config.walk_all_heads;
        const uint64_t heads = one_head ? max_u64(tensor->heads / block->grid.heads, 1) : tensor->batch * tensor->heads;
        block->touched[i] = alloc_array(machine->alloc, heads, sizeof(Coverage), "coverage", machine->status);
        block->written[i] = alloc_array(machine->alloc, heads, sizeof(Coverage), "coverage", machine->status);
        if (block->touched[i] == NULL || block->written[i] == NULL) return NULL;
        block->coverage_heads[i] = heads;
    }
    return &array[i][head];
}

static Region region_of(const Tile *tile, const Tensor *tensor, uint64_t row, uint64_t col)
{
    return (Region){row, col, tile->rows, tile->cols, tile->max_rows, tile->max_cols, tensor->rows, tensor->cols};
}

/* Of a tile that two CTAs share, this one moves its half: the first CTA of a pair the upper rows (or left columns). */
static void record_access(const Stream *w, const Tile *tile, const Tensor *tensor, uint64_t row, uint64_t col, L2Access access)
{
    const Block *block = w->block;
    const uint64_t head = block->batch * tensor->heads + block->head * tensor->heads / block->grid.heads, part = block->index % 2;
    L2Piece piece = {(uint32_t)row, (uint32_t)col, tile->rows, tile->cols, (uint32_t)(head_of(block, tensor) - head), (uint8_t)tensor->index,
                     (uint8_t)access};
    if (tile->halved && tile->rows % 2 == 0) {
        piece.rows /= 2;
        piece.row += (uint32_t)part * piece.rows;
    } else if (tile->halved) {
        piece.cols /= 2;
        piece.col += (uint32_t)part * piece.cols;
    }
    l2_trace_add(block->l2_trace, &piece);
}

static void count_load(const Stream *w, const Tile *tile, const Tensor *tensor, uint64_t row, uint64_t col)
{
    Traffic *traffic = &w->block->traffic[tensor->index];
    const Machine *machine = w->block->machine;
    op_count(w, &traffic->l2_to_sm, tile_elements_here(tile));
    if (w->block->l2_trace != NULL) record_access(w, tile, tensor, row, col, L2_LOAD);
    if (machine->config.l2 != L2_IDEAL) return;                 /* without L2, HBM sees what the SMs asked for: see record() */
    const Region region = region_of(tile, tensor, row, col);
    Coverage *touched = coverage_of(w, w->block->touched, tensor, head_of(w->block, tensor));
    if (touched != NULL) op_count(w, &traffic->hbm_read, coverage_add(touched, &region, machine->alloc, machine->status));
}

/* An addition at L2 needs the old value there: if nobody has brought or written it, HBM is read too. */
static void count_store(const Stream *w, const Tile *tile, const Tensor *tensor, uint64_t row, uint64_t col, bool needs_old_value)
{
    Traffic *traffic = &w->block->traffic[tensor->index];
    const Machine *machine = w->block->machine;
    op_count(w, &traffic->sm_to_l2, tile_elements_here(tile));
    if (w->block->l2_trace != NULL) record_access(w, tile, tensor, row, col, needs_old_value ? L2_ADD : L2_STORE);
    if (machine->config.l2 != L2_IDEAL) return;
    const Region region = region_of(tile, tensor, row, col);
    const uint64_t head = head_of(w->block, tensor);
    Coverage *touched = coverage_of(w, w->block->touched, tensor, head), *written = coverage_of(w, w->block->written, tensor, head);
    if (touched == NULL || written == NULL) return;
    const uint64_t fresh = coverage_add(touched, &region, machine->alloc, machine->status);
    if (needs_old_value) op_count(w, &traffic->hbm_read, fresh);
    op_count(w, &traffic->hbm_write, coverage_add(written, &region, machine->alloc, machine->status));
}

/* First element of the tile's part of the tensor. */
static void *memory_at(const Block *block, const Tensor *tensor, uint64_t row, uint64_t col)
{
    const uint64_t head = head_of(block, tensor), group = max_u64(tensor->stacked, 1);
    const uint64_t element = ((head * group + row % group) * (tensor->rows / group) + row / group) * tensor->cols + col;
    return (char *)tensor->data + element * block->machine->math->real_bytes;
}

static bool inside(const Stream *w, const Tensor *tensor, uint64_t row, uint64_t col)
{
    if (tensor == NULL) return false;       /* its creation failed; the status says so */
    if (row < tensor->rows && col < tensor->cols) return true;
    return status_fail(w->block->machine->status, STATUS_INFEASIBLE, "%s: row %" PRIu64 ", column %" PRIu64 " is outside tensor %s",
                       w->block->kernel->name, row, col, tensor->name);
}

/* A tile is written as far as it is live; it may not reach over the tensor's edge. */
static bool stays_inside(const Stream *w, const Tensor *tensor, uint64_t row, uint64_t col, const Tile *tile)
{
    return same_shape(w, OP_STORE, tile, (uint32_t)min_u64(tile->rows, tensor->rows - row), (uint32_t)min_u64(tile->cols, tensor->cols - col));
}

/* Row r of a tile, as a matrix of one row. */
static Matrix matrix_row(const Tile *x, uint32_t r)
{
    return (Matrix){(char *)x->data + r * x->block->machine->math->real_bytes, 1, x->cols, x->ld};
}

/* Rows of a stacked view lie apart in memory, others one after another. */
static bool load_numbers(const Stream *w, const Tile *tile, const Tensor *tensor, uint64_t row, uint64_t col)
{
    bool nonfinite = false;
    if (tensor->stacked == 0) return math_of(w)->load(matrix(tile), memory_at(w->block, tensor, row, col), tensor->cols);
    for (uint32_t r = 0; r < tile->rows; r++)
        nonfinite |= math_of(w)->load(matrix_row(tile, r), memory_at(w->block, tensor, row + r, col), tensor->cols);
    return nonfinite;
}

static void store_numbers(const Stream *w, const Tensor *tensor, uint64_t row, uint64_t col, const Tile *tile)
{
    if (tensor->stacked == 0) {
        math_of(w)->store(memory_at(w->block, tensor, row, col), tensor->cols, matrix(tile), tensor->type);
        return;
    }
    for (uint32_t r = 0; r < tile->rows; r++)
        math_of(w)->store(memory_at(w->block, tensor, row + r, col), tensor->cols, matrix_row(tile, r), tensor->type);
}

void load_part(Stream *w, Tile *tile, const Tensor *tensor, uint64_t row, uint64_t col)
{
    if (!alive(w) || !inside(w, tensor, row, col)) return;
    set_shape(w, tile, min_u64(tile->max_rows, tensor->rows - row), min_u64(tile->max_cols, tensor->cols - col));
    op_count_elements(w, OP_LOAD, 1);
    count_load(w, tile, tensor, row, col);
    op_count_copy(w, tile);
    if (math_of(w) != NULL && alive(w)) tile->nonfinite = load_numbers(w, tile, tensor, row, col);
    report_copy(w, OP_LOAD, tile, NULL, tensor);
}

void load_fully(Stream *w, Tile *tile, const Tensor *tensor, uint64_t row)
{
    if (alive(w) && tensor != NULL && tensor->cols > tile->max_cols) set_shape(w, tile, tile->max_rows, tensor->cols);  /* says what does not fit */
    load_part(w, tile, tensor, row, 0);
}

void store_part(Stream *w, Tensor *tensor, uint64_t row, uint64_t col, const Tile *tile)
{
    if (!alive(w) || !inside(w, tensor, row, col) || !stays_inside(w, tensor, row, col, tile)) return;
    op_count_elements(w, OP_STORE, 1);
    count_store(w, tile, tensor, row, col, false);
    op_count_copy(w, tile);
    if (math_of(w) != NULL && alive(w)) store_numbers(w, tensor, row, col, tile);
    report_copy(w, OP_STORE, NULL, tile, tensor);
}

void store(Stream *w, Tensor *tensor, uint64_t row, const Tile *tile) { store_part(w, tensor, row, 0, tile); }

/* A sum at L2 is a number of the tensor's type, like everything that is stored there. */
static void add_to_memory(const Stream *w, const Tensor *tensor, uint64_t row, uint64_t col, const Tile *tile)
{
    void *memory = memory_at(w->block, tensor, row, col);
    math_of(w)->accumulate(memory, tensor->cols, matrix(tile));
    if (math_of(w)->real_bytes != sizeof(float)) return;
    for (uint32_t r = 0; r < tile->rows; r++) round_elements(tensor->type, (float *)memory + r * tensor->cols, tile->cols);
}

void atomic_add_part(Stream *w, Tensor *tensor, uint64_t row, uint64_t col, const Tile *tile)
{
    if (!alive(w) || !inside(w, tensor, row, col) || !stays_inside(w, tensor, row, col, tile)) return;
    if (tensor->stacked != 0) {
        status_fail(w->block->machine->status, STATUS_INFEASIBLE, "%s: no atomic additions to stacked tensor %s", w->block->kernel->name, tensor->name);
        return;
    }
    op_count_elements(w, OP_ATOMIC_ADD, 1);
    op_count(w, &w->block->traffic[tensor->index].atomic_adds, tile_elements_here(tile));
    count_store(w, tile, tensor, row, col, true);
    op_count_copy(w, tile);
    if (math_of(w) != NULL && alive(w)) add_to_memory(w, tensor, row, col, tile);
    report_copy(w, OP_ATOMIC_ADD, NULL, tile, tensor);
}

void atomic_add(Stream *w, Tensor *tensor, uint64_t row, const Tile *tile) { atomic_add_part(w, tensor, row, 0, tile); }

/* --------------------------------------------------------------------------------------------------------- named barriers */

Tile *barrier(Block *block, const char *name) { return register_tile(block, name, ELEMENT_U8, 0, 0); }

void barrier_arrive_fully(Stream *w, Tile *token)
{
    if (!alive(w)) return;
    op_count_elements(w, OP_ARRIVE, 1);
    report(w, OP_ARRIVE, token, NULL, NULL, NULL);
}

void barrier_sync_fully(Stream *w, const Tile *token)
{
    if (!alive(w)) return;
    op_count_elements(w, OP_SYNC, 1);
    report(w, OP_SYNC, NULL, token, NULL, NULL);
}

/* ------------------------------------------------------------------------------------------------------------ tensor cores */

/* What row r of a banded tile sees. */
static VisibleBand row_band(const Tile *x, uint32_t r)
{
    const int64_t steps = (x->band_phase + (int64_t)r) / x->band_step;
    return (VisibleBand){x->band.first + steps, x->band.last + steps};
}

/* Hidden elements become value. */
static void hide_elements(const Stream *w, const Tile *x, double value)
{
    if (x->band_step <= 1) {
        math_of(w)->hide(matrix(x), x->band, value);
        return;
    }
    for (uint32_t r = 0; r < x->rows; r++) math_of(w)->hide(matrix_row(x, r), row_band(x, r), value);
}

/* Shared memory read by the instructions of an M x N product: see InstructionShape. */
static uint64_t operand_bytes(const Stream *w, const Tile *a, const Tile *b, uint64_t m, uint64_t n)
{
    const InstructionShape shape = w->shape;
    uint64_t left = 0, right = 0;
    if (a->space == SPACE_SHARED) left = times(w, shape.n ? ceil_div(n, shape.n) : 1, tile_elements_here(a) * a->element_bytes);
    if (b->space == SPACE_SHARED) right = times(w, shape.m ? ceil_div(m, shape.m) : 1, tile_elements_here(b) * b->element_bytes);
    op_count(w, &left, right);
    return left;
}

static inline ProductKey op_product_key(const Stream *w, const Tile *a, const Tile *b, ProductForm form)
{
    const ProductKey key = {a->shape, b->shape, w->shape, a->kind, b->kind, (uint32_t)form};
    return key;
}

static void remember_product(const Stream *w, Tile *c, const Tile *a, const Tile *b, ProductForm form, uint32_t depth)
{
    c->depth = depth;
    c->product = op_product_key(w, a, b, form);
    c->product_flops = times(w, times(w, 2, c->area), depth);
    c->product_operand_bytes = operand_bytes(w, a, b, c->rows, c->cols);
    c->product_element_bytes = a->element_bytes;
}

/* A banded left operand whose hidden elements must not touch what is not finite. */
static void multiply_banded(const Stream *w, const Tile *c, const Tile *a, bool a_transposed, const Tile *b, bool b_transposed, bool accumulate)
{
    if (a->band_step <= 1) {
        math_of(w)->matmul_banded(matrix(c), matrix(a), a_transposed, a->band, matrix(b), b_transposed, accumulate);
        return;
    }
    if (a_transposed) {
        status_fail(w->block->machine->status, STATUS_INFEASIBLE, "%s: tile %s has stacked rows and cannot be transposed", w->block->kernel->name, a->name);
        return;
    }
    for (uint32_t r = 0; r < a->rows; r++)
        math_of(w)->matmul_banded(matrix_row(c, r), matrix_row(a, r), false, row_band(a, r), matrix(b), b_transposed, accumulate);
}

void matmul_fully(Stream *w, Tile *c, const Tile *a, const Tile *b, ProductForm form, double alpha, ProductKind kind)
{
    const bool accumulate = kind != PRODUCT_REPLACES, a_transposed = form == PRODUCT_TN, b_transposed = form == PRODUCT_NT;
    if (!alive(w)) return;
    const uint32_t m = a_transposed ? a->cols : a->rows, k = a_transposed ? a->rows : a->cols, n = b_transposed ? b->rows : b->cols;
    if (!same_shape(w, OP_MATMUL, b, b_transposed ? n : k, b_transposed ? k : n)) return;
    if (accumulate && !same_shape(w, OP_MATMUL, c, m, n)) return;
    set_shape(w, c, m, n);
    remember_product(w, c, a, b, form, k);
    op_count_product(w, c, a, kind);
    op_count_touch(w, c, accumulate ? 2 : 1);
    if (math_of(w) != NULL && alive(w)) {
        if (a->banded && b->nonfinite) multiply_banded(w, c, a, a_transposed, b, b_transposed, accumulate);
        else math_of(w)->matmul(matrix(c), matrix(a), a_transposed, matrix(b), b_transposed, alpha, accumulate);
    }
    report(w, OP_MATMUL, c, a, b, accumulate ? c : NULL);
}

/* ------------------------------------------------------------------------------------------------------------------- masks */

static int64_t clamp(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }

/* Elements that the tile's band leaves. */
static uint64_t visible_in(const Tile *x)
{
    uint64_t visible = 0;
    for (int64_t r = 0; r < (int64_t)x->rows; r++) {
        const VisibleBand seen = row_band(x, (uint32_t)r);
        const int64_t first = clamp(seen.first, 0, x->cols), last = clamp(seen.last, 0, x->cols);
        if (last > first) visible += (uint64_t)(last - first);
    }
    return visible;
}

/* Sets the tile's band, or narrows the one it has; false when nothing is hidden by it. Row arithmetic only: no N x N mask exists anywhere. */
static bool set_band(Tile *x, uint64_t row, uint64_t col, Band band, uint32_t step)
{
    const uint32_t phase = (uint32_t)(row % step);
    const int64_t offset = (int64_t)(row / step) - (int64_t)col, rows = x->rows, cols = x->cols;
    const int64_t low = offset + band.low, end = offset + band.high + 1;
    if (low + (phase + rows - 1) / step <= 0 && end >= cols) return false;      /* the last row sees the first column, the first the last */
    if (x->banded && (x->band_step != step || x->band_phase != phase))
        return !status_fail(x->block->machine->status, STATUS_INFEASIBLE, "%s: tile %s has two masks whose rows are stacked differently", x->block->kernel->name,
                            x->name);
    x->band_step = step;
    x->band_phase = phase;
    x->band.first = x->banded && x->band.first > low ? x->band.first : low;
    x->band.last = x->banded && x->band.last < end ? x->band.last : end;
    x->visible = visible_in(x);
    x->banded = true;
    return true;
}

Tile operand_part(const Tile *x, uint32_t row, uint32_t col, uint32_t rows, uint32_t cols)
{
    Tile part = *x;
    part.rows = row < x->rows ? (uint32_t)min_u64(rows, x->rows - row) : 0;
    part.cols = col < x->cols ? (uint32_t)min_u64(cols, x->cols - col) : 0;
    part.area = part.visible = (uint64_t)part.rows * part.cols;
    part.shape = (uint64_t)part.rows << 32 | part.cols;
    if (x->banded && x->band_step != 1)
        status_fail(x->block->machine->status, STATUS_INFEASIBLE, "%s: a part of tile %s, whose rows are stacked", x->block->kernel->name, x->name);
    if (x->banded) {
        part.band.first += (int64_t)row - (int64_t)col;
        part.band.last += (int64_t)row - (int64_t)col;
        part.visible = visible_in(&part);
    }
    if (x->data != NULL && part.area > 0) part.data = (char *)x->data + (col * x->ld + row) * x->block->machine->math->real_bytes;
    return part;
}

static void mask_rows(Stream *w, Tile *x, uint64_t row, uint64_t col, Band band, uint32_t step, double hidden)
{
    const uint64_t visible = x->visible;
    if (!alive(w) || !set_band(x, row, col, band, step)) return;
    op_count_elements(w, OP_MASK, x->area);
    op_count(w, &w->block->counts.matmul_flops_hidden, 2 * (visible - x->visible) * x->depth);
    if (math_of(w) != NULL) hide_elements(w, x, hidden);
    report(w, OP_MASK, x, x, NULL, NULL);
}

void mask_fully(Stream *w, Tile *x, uint64_t row, uint64_t col, Band band, double hidden) { mask_rows(w, x, row, col, band, 1, hidden); }

void mask_stacked(Stream *w, Tile *x, uint64_t row, uint64_t col, Band band, uint32_t step) { mask_rows(w, x, row, col, band, step, -INFINITY); }

void declare_masked(Stream *w, Tile *x, uint64_t row, uint64_t col, Band band)
{
    if (alive(w) && set_band(x, row, col, band, 1) && x->nonfinite && math_of(w) != NULL) hide_elements(w, x, 0.0);
}

/* ----------------------------------------------------------------------------------------------------- CUDA cores and MUFU */

void fill(Stream *w, Tile *x, uint32_t rows, uint32_t cols, double value)
{
    if (!alive(w)) return;
    set_shape(w, x, rows, cols);
    op_count_elements(w, OP_FILL, x->area);
    op_count_touch(w, x, 1);
    if (math_of(w) != NULL && alive(w)) math_of(w)->fill(matrix(x), value);
    report(w, OP_FILL, x, NULL, NULL, NULL);
}

void scale_fully(Stream *w, Tile *x, double factor)
{
    if (!alive(w)) return;
    op_count_elements(w, OP_SCALE, x->area);
    op_count_touch(w, x, 2);
    if (math_of(w) != NULL) math_of(w)->scale(matrix(x), factor);
    report(w, OP_SCALE, x, x, NULL, NULL);
}

void add_fully(Stream *w, Tile *y, const Tile *x)
{
    if (!alive(w) || !same_shape(w, OP_ADD, x, y->rows, y->cols)) return;
    op_count_elements(w, OP_ADD, y->area);
    op_count_touch(w, y, 2);
    op_count_touch(w, x, 1);
    if (math_of(w) != NULL) math_of(w)->add(matrix(y), matrix(x));
    report(w, OP_ADD, y, y, x, NULL);
}

void convert_fully(Stream *w, Tile *y, const Tile *x)
{
    if (!alive(w)) return;
    if (y != x) {
        set_shape(w, y, x->rows, x->cols);
        copy_mask(y, x);
    }
    op_count_elements(w, OP_CONVERT, x->area);
    op_count_touch(w, y, 1);
    op_count_touch(w, x, 1);
    if (math_of(w) != NULL && alive(w)) math_of(w)->copy(matrix(y), matrix(x), y->type);
    report(w, OP_CONVERT, y, x, NULL, NULL);
}

/* X from (row, col) on. */
static Matrix matrix_from(const Tile *x, uint32_t row, uint32_t col, const Tile *part)
{
    char *first = (char *)x->data + (col * x->ld + row) * x->block->machine->math->real_bytes;
    return (Matrix){first, part->rows, part->cols, x->ld};
}

void convert_part(Stream *w, Tile *y, const Tile *x, uint32_t row, uint32_t col)
{
    if (!alive(w)) return;
    if (row > x->rows || col > x->cols) {
        status_fail(w->block->machine->status, STATUS_INFEASIBLE, "%s: row %u, column %u is outside tile %s of %u x %u", w->block->kernel->name, row,
                    col, x->name, x->rows, x->cols);
        return;
    }
    set_shape(w, y, min_u64(y->max_rows, x->rows - row), min_u64(y->max_cols, x->cols - col));
    op_count_elements(w, OP_CONVERT, tile_elements_here(y));
    op_count_touch(w, y, 1);
    if (x->space == SPACE_SHARED) op_count(w, &w->block->counts.smem_thread_bytes, tile_elements_here(y) * x->element_bytes);
    if (math_of(w) != NULL && alive(w)) math_of(w)->copy(matrix(y), matrix_from(x, row, col, y), y->type);
    report(w, OP_CONVERT, y, x, NULL, NULL);
}

/* What both maxima count; false when nothing is to be done. */
static bool begin_row_max(Stream *w, Rows *m_new, const Rows *m_old, const Tile *x)
{
    if (!alive(w) || !same_shape(w, OP_ROW_MAX, m_old, x->rows, 1)) return false;
    set_shape(w, m_new, x->rows, 1);
    op_count_elements(w, OP_ROW_MAX, x->area);
    op_count_touch(w, x, 1);
    op_count_touch(w, m_old, 1);
    op_count_touch(w, m_new, 1);
    return true;
}

void row_max_fully(Stream *w, Rows *m_new, const Rows *m_old, const Tile *x)
{
    if (!begin_row_max(w, m_new, m_old, x)) return;
    if (math_of(w) != NULL && alive(w)) math_of(w)->row_max(matrix(m_new), matrix(m_old), matrix(x));
    report(w, OP_ROW_MAX, m_new, m_old, x, NULL);
}

bool row_max_lagging(Stream *w, Rows *m_new, const Rows *m_old, const Tile *x, double threshold, uint32_t group, bool assumed)
{
    if (!begin_row_max(w, m_new, m_old, x)) return assumed;
    const uint64_t groups = ceil_div(x->rows, group);
    uint64_t moved = assumed ? groups : 0;
    if (math_of(w) != NULL && alive(w)) moved = math_of(w)->row_max_lagging(matrix(m_new), matrix(m_old), matrix(x), threshold, group);
    op_count(w, &w->block->counts.references_moved, moved);
    op_count(w, &w->block->counts.references_kept, groups - moved);
    report(w, OP_ROW_MAX, m_new, m_old, x, NULL);
    return moved > 0;
}

void exp_rows_fully(Stream *w, Tile *p, const Tile *x, const Rows *m)
{
    if (!alive(w) || !same_shape(w, OP_EXP_ROWS, m, x->rows, 1)) return;
    if (p != x) {
        set_shape(w, p, x->rows, x->cols);
        copy_mask(p, x);
    }
    op_count_elements(w, OP_EXP_ROWS, x->area);
    op_count_touch(w, x, 1);
    op_count_touch(w, m, 1);
    op_count_touch(w, p, 1);
    if (math_of(w) != NULL && alive(w)) {
        if (w->poly_sixteenths == 0) math_of(w)->exp_rows(matrix(p), matrix(x), matrix(m));
        else math_of(w)->exp_rows_mixed(matrix(p), matrix(x), matrix(m), w->poly_sixteenths);
        if (p->banded) hide_elements(w, p, 0.0);    /* also where m is NaN: -inf - NaN is no zero */
    }
    report(w, OP_EXP_ROWS, p, x, m, NULL);
}

void row_sum_fully(Stream *w, Rows *l, const Tile *x)
{
    if (!alive(w)) return;
    set_shape(w, l, x->rows, 1);
    op_count_elements(w, OP_ROW_SUM, x->area);
    op_count_touch(w, x, 1);
    op_count_touch(w, l, 1);
    if (math_of(w) != NULL && alive(w)) math_of(w)->row_sum(matrix(l), (Matrix){0}, matrix(x));
    report(w, OP_ROW_SUM, l, x, NULL, NULL);
}

void row_sum_scaled_fully(Stream *w, Rows *l, const Rows *alpha, const Tile *x)
{
    if (!alive(w) || !same_shape(w, OP_ROW_SUM, l, x->rows, 1) || !same_shape(w, OP_ROW_SUM, alpha, x->rows, 1)) return;
    op_count_elements(w, OP_ROW_SUM, x->area);
    op_count_elements(w, OP_ROWS_SCALE_ADD, x->rows);
    op_count_touch(w, x, 1);
    op_count_touch(w, l, 2);
    op_count_touch(w, alpha, 1);
    if (math_of(w) != NULL) math_of(w)->row_sum(matrix(l), matrix(alpha), matrix(x));
    report(w, OP_ROW_SUM, l, l, alpha, x);
}

void scale_rows_fully(Stream *w, Tile *x, const Rows *factor)
{
    if (!alive(w) || !same_shape(w, OP_SCALE_ROWS, factor, x->rows, 1)) return;
    op_count_elements(w, OP_SCALE_ROWS, x->area);
    op_count_touch(w, x, 2);
    op_count_touch(w, factor, 1);
    if (math_of(w) != NULL) math_of(w)->scale_rows(matrix(x), matrix(factor));
    report(w, OP_SCALE_ROWS, x, x, factor, NULL);
}

void weigh_rows(Stream *w, Tile *x, const Rows *weight, const Rows *logsumexp)
{
    if (!alive(w) || !same_shape(w, OP_SCALE_ROWS, weight, x->rows, 1) || !same_shape(w, OP_SCALE_ROWS, logsumexp, x->rows, 1)) return;
    op_count_elements(w, OP_SCALE_ROWS, x->area);
    op_count_touch(w, x, 2);
    op_count_touch(w, weight, 1);
    op_count_touch(w, logsumexp, 1);
    if (math_of(w) != NULL) math_of(w)->weigh_rows(matrix(x), matrix(weight), matrix(logsumexp));
    report(w, OP_SCALE_ROWS, x, x, weight, logsumexp);
}

void divide_rows_fully(Stream *w, Tile *x, const Rows *l)
{
    if (!alive(w) || !same_shape(w, OP_DIVIDE_ROWS, l, x->rows, 1)) return;
    op_count_elements(w, OP_DIVIDE_ROWS, x->area);
    op_count_touch(w, x, 2);
    op_count_touch(w, l, 1);
    if (math_of(w) != NULL) math_of(w)->divide_rows(matrix(x), matrix(l));
    report(w, OP_DIVIDE_ROWS, x, x, l, NULL);
}

void subtract_rows_fully(Stream *w, Tile *x, const Rows *d)
{
    if (!alive(w) || !same_shape(w, OP_SUBTRACT_ROWS, d, x->rows, 1)) return;
    op_count_elements(w, OP_SUBTRACT_ROWS, x->area);
    op_count_touch(w, x, 2);
    op_count_touch(w, d, 1);
    if (math_of(w) != NULL) math_of(w)->subtract_rows(matrix(x), matrix(d));
    report(w, OP_SUBTRACT_ROWS, x, x, d, NULL);
}

void multiply_fully(Stream *w, Tile *y, const Tile *x)
{
    if (!alive(w) || !same_shape(w, OP_MULTIPLY, x, y->rows, y->cols)) return;
    op_count_elements(w, OP_MULTIPLY, y->area);
    op_count_touch(w, y, 2);
    op_count_touch(w, x, 1);
    if (math_of(w) != NULL) math_of(w)->multiply(matrix(y), matrix(x), matrix(y));
    const bool hides = x->banded && !y->banded;
    if (hides) op_count(w, &w->block->counts.matmul_flops_hidden, 2 * (x->area - x->visible) * y->depth);
    copy_mask(y, x);
    if (hides && math_of(w) != NULL) hide_elements(w, y, 0.0);
    report(w, OP_MULTIPLY, y, y, x, NULL);
}

void row_dot(Stream *w, Rows *d, const Tile *x, const Tile *y)
{
    if (!alive(w) || !same_shape(w, OP_ROW_DOT, y, x->rows, x->cols)) return;
    set_shape(w, d, x->rows, 1);
    op_count_elements(w, OP_ROW_DOT, x->area);
    op_count_touch(w, x, 1);
    op_count_touch(w, y, 1);
    op_count_touch(w, d, 1);
    if (math_of(w) != NULL && alive(w)) math_of(w)->row_dot(matrix(d), matrix(x), matrix(y));
    report(w, OP_ROW_DOT, d, x, y, NULL);
}

/* --- dropout */

static uint64_t keep_threshold(const Dropout *dropout) { return (uint64_t)(dropout->p * 4294967296.0); }

/* Random bits of columns 4 (col / 4) .. + 3. Bit 31 of the fourth counter word keeps them apart from those that fill tensors (philox.h). */
static void four_columns(const Dropout *dropout, uint64_t head, uint64_t row, uint64_t col, uint32_t random[4])
{
    const uint32_t key[2] = {(uint32_t)dropout->seed, (uint32_t)(dropout->seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)(col / 4), (uint32_t)row, (uint32_t)head, dropout->offset | 0x80000000u};
    philox4x32(counter, key, random);
}

bool dropout_keeps(const Dropout *dropout, uint64_t head, uint64_t row, uint64_t col)
{
    uint32_t random[4];
    four_columns(dropout, head, row, col, random);
    return random[col % 4] >= keep_threshold(dropout);
}

static void keep_row(const Dropout *dropout, uint64_t head, uint64_t row, uint64_t col, uint32_t cols, uint8_t *keep)
{
    const uint64_t threshold = keep_threshold(dropout);
    uint32_t random[4] = {0};
    for (uint32_t c = 0; c < cols; c++) {
        const uint64_t element = col + c;
        if (c == 0 || element % 4 == 0) four_columns(dropout, head, row, element, random);
        keep[c] = random[element % 4] >= threshold;
    }
}

static void fill_keep(const Tile *z, uint64_t head, uint64_t row, uint64_t col, const Dropout *dropout)
{
    enum { PIECE = 256 };
    const bool wide = z->block->machine->math->real_bytes == sizeof(double);
    uint8_t keep[PIECE];
    for (uint32_t r = 0; r < z->rows; r++)
        for (uint32_t c0 = 0; c0 < z->cols; c0 += PIECE) {
            const uint32_t count = z->cols - c0 < PIECE ? z->cols - c0 : PIECE;
            keep_row(dropout, head, row + r, col + c0, count, keep);
            for (uint32_t c = 0; c < count; c++) {
                const uint64_t at = (c0 + c) * z->ld + r;
                if (wide) ((double *)z->data)[at] = keep[c];
                else ((float *)z->data)[at] = keep[c];
            }
        }
}

void random_keep(Stream *w, Tile *z, const Tensor *queries, uint64_t row, uint64_t col, uint32_t rows, uint32_t cols, const Dropout *dropout)
{
    if (!alive(w) || !inside(w, queries, row, 0)) return;
    set_shape(w, z, rows, cols);
    op_count_elements(w, OP_RANDOM_KEEP, z->area);
    op_count_touch(w, z, 1);
    if (math_of(w) != NULL && alive(w)) fill_keep(z, head_of(w->block, queries), row, col, dropout);
    report(w, OP_RANDOM_KEEP, z, NULL, NULL, NULL);
}

void apply_dropout(Stream *w, Tile *y, const Tile *x, const Tile *z, double p)
{
    if (!alive(w) || !same_shape(w, OP_DROPOUT, z, x->rows, x->cols)) return;
    if (y != x) {
        set_shape(w, y, x->rows, x->cols);
        copy_mask(y, x);
    }
    op_count_elements(w, OP_DROPOUT, x->area);
    op_count_touch(w, y, 1);
    op_count_touch(w, x, 1);
    op_count_touch(w, z, 1);
    if (math_of(w) != NULL && alive(w)) math_of(w)->keep_scaled(matrix(y), matrix(x), matrix(z), 1.0 / (1.0 - p));
    if (math_of(w) != NULL && alive(w) && y->type != x->type) math_of(w)->copy(matrix(y), matrix(y), y->type);
    report(w, OP_DROPOUT, y, x, z, NULL);
}

/* --- one value per row */

static bool rows_ready(Stream *w, Operation operation, Rows *y, const Rows *a, const Rows *b)
{
    if (!alive(w) || !same_shape(w, operation, b, a->rows, 1)) return false;
    if (y != a && y != b) set_shape(w, y, a->rows, 1);
    op_count_touch(w, a, 1);
    op_count_touch(w, b, 1);
    op_count_touch(w, y, 1);
    return alive(w);
}

void rows_exp_difference_fully(Stream *w, Rows *alpha, const Rows *m_old, const Rows *m_new)
{
    if (!rows_ready(w, OP_ROWS_EXP_DIFFERENCE, alpha, m_old, m_new)) return;
    op_count_elements(w, OP_ROWS_EXP_DIFFERENCE, alpha->rows);
    if (math_of(w) != NULL) math_of(w)->exp_difference(matrix(alpha), matrix(m_old), matrix(m_new));
    report(w, OP_ROWS_EXP_DIFFERENCE, alpha, m_old, m_new, NULL);
}

void rows_max_fully(Stream *w, Rows *y, const Rows *a, const Rows *b)
{
    if (!rows_ready(w, OP_ROWS_MAX, y, a, b)) return;
    op_count_elements(w, OP_ROWS_MAX, y->rows);
    if (math_of(w) != NULL) math_of(w)->maximum(matrix(y), matrix(a), matrix(b));
    report(w, OP_ROWS_MAX, y, a, b, NULL);
}

void rows_multiply_fully(Stream *w, Rows *y, const Rows *a, const Rows *b)
{
    if (!rows_ready(w, OP_ROWS_MULTIPLY, y, a, b)) return;
    op_count_elements(w, OP_ROWS_MULTIPLY, y->rows);
    if (math_of(w) != NULL) math_of(w)->multiply(matrix(y), matrix(a), matrix(b));
    report(w, OP_ROWS_MULTIPLY, y, a, b, NULL);
}

void rows_add(Stream *w, Rows *y, const Rows *x)
{
    if (!rows_ready(w, OP_ROWS_ADD, y, y, x)) return;
    op_count_elements(w, OP_ROWS_ADD, y->rows);
    if (math_of(w) != NULL) math_of(w)->add(matrix(y), matrix(x));
    report(w, OP_ROWS_ADD, y, y, x, NULL);
}

void rows_log_sum_exp(Stream *w, Rows *lse, const Rows *m, const Rows *l)
{
    if (!rows_ready(w, OP_ROWS_LOG_SUM_EXP, lse, m, l)) return;
    op_count_elements(w, OP_ROWS_LOG_SUM_EXP, lse->rows);
    if (math_of(w) != NULL) math_of(w)->log_sum_exp(matrix(lse), matrix(m), matrix(l));
    report(w, OP_ROWS_LOG_SUM_EXP, lse, m, l, NULL);
}

/* ----------------------------------------------------------------------------------------------------------- narrow formats */

void scale_cols(Stream *w, Tile *x, const Rows *factor)
{
    if (!alive(w) || !same_shape(w, OP_SCALE_ROWS, factor, x->cols, 1)) return;
    op_count_elements(w, OP_SCALE_ROWS, x->area);
    op_count_touch(w, x, 2);
    op_count_touch(w, factor, 1);
    if (math_of(w) != NULL) math_of(w)->scale_cols(matrix(x), matrix(factor));
    report(w, OP_SCALE_ROWS, x, x, factor, NULL);
}

/* Each stage of the butterfly is an addition per element. */
static void rotate(Stream *w, Tile *x, uint64_t seed, uint64_t head, bool back)
{
    if (!alive(w)) return;
    for (uint32_t stage = 0; stage < hadamard_stages(x->cols); stage++) {
        op_count_elements(w, OP_ADD, x->area);
        op_count_touch(w, x, 2);
        report(w, OP_ADD, x, x, NULL, NULL);
    }
    if (math_of(w) == NULL) return;
    const Precision precision = math_of(w)->real_bytes == sizeof(float) ? PRECISION_F32 : PRECISION_F64;
    int8_t *signs = alloc_array(w->block->machine->alloc, x->cols, sizeof *signs, "signs of a rotation", w->block->machine->status);
    if (signs == NULL) return;
    hadamard_signs(signs, x->cols, seed, head);
    if (back) hadamard_unrotate(precision, matrix(x), signs);
    else hadamard_rotate(precision, matrix(x), signs);
    alloc_free(w->block->machine->alloc, signs);
}

void rotate_rows(Stream *w, Tile *x, uint64_t seed, uint64_t head) { rotate(w, x, seed, head, false); }

void unrotate_rows(Stream *w, Tile *x, uint64_t seed, uint64_t head) { rotate(w, x, seed, head, true); }

static bool computes_in_f32(const Stream *w)
{
    if (math_of(w) == NULL || math_of(w)->real_bytes == sizeof(float)) return true;
    return status_fail(w->block->machine->status, STATUS_INFEASIBLE, "%s: quantisation is computed in float32 only", w->block->kernel->name);
}

static Matrix row_of(Matrix x, uint32_t row) { return (Matrix){(float *)x.data + row, 1, x.cols, x.ld}; }

void absolute_max(Stream *w, Rows *largest, const Tile *x)
{
    if (!alive(w) || !computes_in_f32(w)) return;
    const bool one = largest->max_rows == 1;
    set_shape(w, largest, one ? 1 : x->rows, 1);
    op_count_elements(w, OP_ROW_MAX, x->area);
    op_count_touch(w, x, 1);
    op_count_touch(w, largest, 1);
    for (uint32_t r = 0; math_of(w) != NULL && alive(w) && r < largest->rows; r++)
        ((float *)largest->data)[r] = matrix_extent(one ? matrix(x) : row_of(matrix(x), r)).largest;
    report(w, OP_ROW_MAX, largest, x, NULL, NULL);
}

static void quantise_rows(const Tile *y, const Rows *descale, const Tile *x, const Rows *largest)
{
    const QuantisedFormat format = y->type == ELEMENT_E5M2 ? QUANTISED_E5M2 : QUANTISED_E4M3;
    const bool one = largest == NULL || largest->rows == 1;
    for (uint32_t r = 0; r < (one ? 1 : x->rows); r++) {
        const float s = largest == NULL ? 1.0f : quantising_scale(format, ((const float *)largest->data)[r]);
        if (one) quantise_scaled(matrix(y), matrix(x), format, s);
        else quantise_scaled(row_of(matrix(y), r), row_of(matrix(x), r), format, s);
        if (largest != NULL) ((float *)descale->data)[r] = 1.0f / s;
    }
}

void quantise(Stream *w, Tile *y, Rows *descale, const Tile *x, const Rows *largest)
{
    if (!alive(w) || !computes_in_f32(w)) return;
    if (y != x) set_shape(w, y, x->rows, x->cols);
    if (largest != NULL) {
        if (largest->rows != 1 && !same_shape(w, OP_MULTIPLY, largest, x->rows, 1)) return;
        set_shape(w, descale, largest->rows, 1);
        op_count_elements(w, OP_MULTIPLY, x->area);
        op_count_touch(w, largest, 1);
        op_count_touch(w, descale, 1);
    }
    op_count_elements(w, OP_CONVERT, x->area);
    op_count_touch(w, x, 1);
    op_count_touch(w, y, 1);
    if (math_of(w) != NULL && alive(w)) quantise_rows(y, descale, x, largest);
    if (largest != NULL) report(w, OP_MULTIPLY, descale, x, largest, NULL);
    report(w, OP_CONVERT, y, x, NULL, NULL);
}

double tile_scalar(const Tile *x)
{
    if (x->block->machine->math == NULL || x->data == NULL) return 1.0;
    return x->block->machine->math->real_bytes == sizeof(float) ? (double)((const float *)x->data)[0] : ((const double *)x->data)[0];
}
