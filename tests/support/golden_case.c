/* golden_case.c - see golden_case.h. */
#include "golden_case.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_file(const char *path, Alloc *alloc, Status *status)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        status_fail(status, STATUS_IO, "cannot open %s", path);
        return NULL;
    }
    fseek(file, 0, SEEK_END);
    const long size = ftell(file);
    rewind(file);
    char *text = alloc_array(alloc, (uint64_t)size + 1, 1, path, status);
    if (text != NULL && fread(text, 1, (size_t)size, file) != (size_t)size) status_fail(status, STATUS_IO, "cannot read %s", path);
    fclose(file);
    return text;
}

static double **array_slot(GoldenCase *golden, const char *name)
{
    static const struct {
        const char *name;
        size_t offset;
    } slots[] = {
        {"q", offsetof(GoldenCase, q)},     {"k", offsetof(GoldenCase, k)},   {"v", offsetof(GoldenCase, v)},
        {"o", offsetof(GoldenCase, o)},     {"lse", offsetof(GoldenCase, lse)}, {"do", offsetof(GoldenCase, d_o)},
        {"dq", offsetof(GoldenCase, dq)},   {"dk", offsetof(GoldenCase, dk)}, {"dv", offsetof(GoldenCase, dv)},
        {"keep", offsetof(GoldenCase, keep)},
    };
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++)
        if (strcmp(slots[i].name, name) == 0) return (double **)(void *)((char *)golden + slots[i].offset);
    return NULL;
}

/* "array NAME dim..." then the values. Returns where the text goes on. */
static char *read_array(char *at, GoldenCase *golden, Alloc *alloc, Status *status)
{
    char name[16] = "";
    int used = 0;
    sscanf(at, "%15s%n", name, &used);
    at += used;
    uint64_t count = 1;
    while (*at != '\n') {
        count *= strtoull(at, &at, 10);
        while (*at == ' ' || *at == '\r') at++;
    }
    double **slot = array_slot(golden, name);
    if (slot == NULL) {
        status_fail(status, STATUS_USAGE, "unknown array '%s'", name);
        return NULL;
    }
    *slot = alloc_array(alloc, count, sizeof **slot, name, status);
    if (*slot == NULL) return NULL;
    for (uint64_t i = 0; i < count; i++) {
        char *end;
        (*slot)[i] = strtod(at, &end);
        if (end == at) {
            status_fail(status, STATUS_USAGE, "array %s: value %" PRIu64 " of %" PRIu64 " is missing", name, i, count);
            return NULL;
        }
        at = end;
    }
    return at;
}

static void read_value(GoldenCase *golden, const char *key, const char *value)
{
    AttentionShape *s = &golden->shape;
    uint64_t *const integers[] = {&s->batch, &s->heads, &s->kv_heads, &s->seqlen_q, &s->seqlen_k, &s->head_dim};
    static const char *const names[] = {"batch", "heads_q", "heads_kv", "seqlen_q", "seqlen_k", "head_dim"};
    for (size_t i = 0; i < 6; i++)
        if (strcmp(key, names[i]) == 0) *integers[i] = strtoull(value, NULL, 10);
    if (strcmp(key, "case") == 0) snprintf(golden->name, sizeof golden->name, "%s", value);
    if (strcmp(key, "scale") == 0) s->softmax_scale = strtod(value, NULL);
    if (strcmp(key, "dropout") == 0) golden->dropout = strtod(value, NULL);
    if (strcmp(key, "mask") == 0)
        s->mask = strcmp(value, "bottom-right") == 0 ? MASK_CAUSAL : strcmp(value, "top-left") == 0 ? MASK_CAUSAL_TOP_LEFT : MASK_NONE;
    if (strcmp(key, "window") == 0) {
        char *end;
        s->window_left = strtoll(value, &end, 10);
        s->window_right = strtoll(end, NULL, 10);
    }
}

bool golden_read(const char *path, GoldenCase *golden, Alloc *alloc, Status *status)
{
    *golden = (GoldenCase){.shape = attention_shape(0, 1)};
    char *text = read_file(path, alloc, status), *at = text;
    while (status_ok(status) && at != NULL && *at != '\0') {
        char *end = strchr(at, '\n');
        char key[32] = "", value[96] = "";
        if (strncmp(at, "array ", 6) == 0) {
            at = read_array(at + 6, golden, alloc, status);
            continue;
        }
        if (sscanf(at, "%31s %95[^\r\n]", key, value) == 2) read_value(golden, key, value);
        at = end != NULL ? end + 1 : NULL;
    }
    alloc_free(alloc, text);
    if (status_ok(status) && (golden->q == NULL || golden->o == NULL || golden->lse == NULL))
        status_fail(status, STATUS_USAGE, "%s lacks an array", path);
    return status_ok(status);
}

void golden_free(GoldenCase *g, Alloc *alloc)
{
    double *const arrays[] = {g->q, g->k, g->v, g->o, g->lse, g->d_o, g->dq, g->dk, g->dv, g->keep};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) alloc_free(alloc, arrays[i]);
}

static void set_all(const Machine *machine, Tensor *tensor, const double *values)
{
    for (uint64_t i = 0; i < tensor_elements(tensor); i++) tensor_set(machine, tensor, i, values[i]);
}

bool numeric_forward(AttentionRun *run, const NumericSetup *setup, const Profile *chip, const AttentionShape *shape, const double *q,
                     const double *k, const double *v, Alloc *alloc, Status *status)
{
    const RunSetup run_setup = {
        .algorithm = setup->algorithm,
        .profile = chip,
        .tiles = setup->tiles,
        .config = {.mode = MODE_NUMERIC, .l2 = L2_IDEAL, .precision = setup->precision, .poison = setup->poison},
    };
    if (!attention_run_prepare(run, &run_setup, shape, alloc, status)) return false;
    set_all(&run->machine, run->attention.Q, q);
    set_all(&run->machine, run->attention.K, k);
    set_all(&run->machine, run->attention.V, v);
    return attention_run_forward(run);
}

bool numeric_backward(AttentionRun *run, const NumericSetup *setup, BackwardVariant variant, const Profile *chip, const GoldenCase *golden,
                      Alloc *alloc, Status *status)
{
    const RunSetup run_setup = {
        .algorithm = setup->algorithm,
        .profile = chip,
        .tiles = setup->tiles,
        .config = {.mode = MODE_NUMERIC, .l2 = L2_IDEAL, .precision = setup->precision, .poison = setup->poison},
    };
    AttentionShape shape = golden->shape;
    shape.dtype = setup->precision == PRECISION_F64 ? ELEMENT_F64 : ELEMENT_F32;
    if (golden->keep != NULL) {
        shape.dropout_source = DROPOUT_GIVEN;
        shape.dropout.p = golden->dropout;
    }
    if (!attention_run_prepare(run, &run_setup, &shape, alloc, status)) return false;
    if (!attention_run_prepare_backward(run, setup->tiles, variant)) return false;
    set_all(&run->machine, run->attention.Q, golden->q);
    set_all(&run->machine, run->attention.K, golden->k);
    set_all(&run->machine, run->attention.V, golden->v);
    set_all(&run->machine, run->attention.dO, golden->d_o);
    if (golden->keep != NULL) set_all(&run->machine, run->attention.Z, golden->keep);
    return attention_run_forward(run) && attention_run_backward(run);
}
