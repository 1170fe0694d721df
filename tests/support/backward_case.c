/* backward_case.c - see backward_case.h. */
#include "backward_case.h"

const BackwardWay backward_ways[BACKWARD_WAYS] = {
    [WAY_STANDARD] = {"standard", &algorithm_standard, {0}},
    [WAY_FA2] = {"fa2, as shipped", &algorithm_fa2, {0}},
    [WAY_FA2_DIRECT] = {"fa2, direct dQ", &algorithm_fa2, {.direct_dq = true}},
    [WAY_FA2_DETERMINISTIC] = {"fa2, deterministic", &algorithm_fa2, {.deterministic = true}},
    [WAY_FA2_BY_QUERIES] = {"fa2, query blocks outside", &algorithm_fa2, {.query_blocks_outside = true}},
    [WAY_FA3] = {"fa3", &algorithm_fa3, {0}},
    [WAY_FA3_ONE_DQ] = {"fa3, one consumer for dQ", &algorithm_fa3, {.one_consumer_dq = true}},
    [WAY_FA4] = {"fa4", &algorithm_fa4, {0}},
};

const Algorithm *const dropout_forwards[DROPOUT_FORWARDS] = {&algorithm_standard, &algorithm_fa1, &algorithm_fa1_shipped,
                                                             &algorithm_fa2, &algorithm_fa4};

static void set_all(const Machine *machine, Tensor *tensor, const double *values)
{
    for (uint64_t i = 0; values != NULL && i < tensor_elements(tensor); i++) tensor_set(machine, tensor, i, values[i]);
}

static void set_inputs(const AttentionRun *run, const BackwardInputs *inputs)
{
    const Machine *machine = &run->machine;
    const Attention *a = &run->attention;
    attention_random_inputs(a, machine, 1);
    set_all(machine, a->Q, inputs->q);
    set_all(machine, a->K, inputs->k);
    set_all(machine, a->V, inputs->v);
    set_all(machine, a->dO, inputs->d_o);
    if (a->shape.dropout_source != DROPOUT_GIVEN) return;
    for (uint64_t i = 0; i < tensor_elements(a->Z); i++)
        tensor_set(machine, a->Z, i, inputs->keep != NULL ? inputs->keep[i] : (double)(i % 2));
}

bool run_backward(AttentionRun *run, const BackwardWay *way, TileSize tiles, MachineConfig config, const Profile *chip,
                  const BackwardInputs *inputs, Alloc *alloc, Status *status)
{
    config.precision = inputs->shape.dtype == ELEMENT_F64 ? PRECISION_F64 : PRECISION_F32;
    const RunSetup setup = {.algorithm = way->algorithm, .profile = chip, .tiles = tiles, .config = config};
    if (!attention_run_prepare(run, &setup, &inputs->shape, alloc, status)) return false;
    if (!attention_run_prepare_backward(run, tiles, way->variant)) return false;
    if (config.mode == MODE_COUNT) return attention_run_backward(run);
    set_inputs(run, inputs);
    return attention_run_forward(run) && attention_run_backward(run);
}
