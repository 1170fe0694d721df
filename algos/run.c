/* run.c - see run.h. */
#include "run.h"
#include "decode.h"

static bool evaluate_closed_form(AttentionRun *run)
{
    const Algorithm *algorithm = run->setup.algorithm;
    run->problem = counted_problem(algorithm, &run->attention, &run->machine);
    return algorithm->closed_form == NULL || algorithm->closed_form(&run->problem, &run->closed_form, run->machine.status);
}

bool attention_run_set_decode(AttentionRun *run, DecodeOptions options)
{
    run->attention.decode = options;
    return evaluate_closed_form(run);
}

bool attention_run_prepare(AttentionRun *run, const RunSetup *setup, const AttentionShape *shape, Alloc *alloc, Status *status)
{
    *run = (AttentionRun){.setup = *setup};
    machine_init(&run->machine, setup->profile, setup->config, alloc, status);
    if (!attention_check(shape, status)) return false;
    if (attention_quantises(shape) && setup->algorithm != &algorithm_fa3)
        return status_fail(status, STATUS_INFEASIBLE, "%s has no FP8 scales or rotation; fa3 has", setup->algorithm->name);
    if (setup->tiles.Br == 0 && !fitting_tiles(setup->algorithm, shape, setup->profile, alloc, &run->setup.tiles, status)) return false;
    if (!attention_init(&run->attention, &run->machine, shape, run->setup.tiles.Br, run->setup.tiles.Bc)) return false;
    return evaluate_closed_form(run);
}

/* Decoding walks its parts too, used or idle, twice: of one head, in the order of a tile pair each. At most 2^63. */
static uint64_t walked_parts(const AttentionRun *run)
{
    if (run->setup.algorithm != &algorithm_decode) return 0;
    const DecodePlan plan = decode_plan(&run->attention, run->setup.profile->sm_count);
    return plan.splits * (plan.query_blocks + plan.rows / 4);
}

bool attention_run_short_enough(const AttentionRun *run)
{
    const ClosedForm *form = &run->closed_form;
    const bool numeric = run->setup.config.mode == MODE_NUMERIC, all = numeric || run->setup.config.walk_all_heads;
    const uint64_t heads = max_u64(run->attention.shape.batch * run->attention.shape.heads, 1), parts = walked_parts(run);
    const uint64_t walked = (all ? form->tile_pairs : form->tile_pairs / heads) + (all && parts <= UINT64_MAX / 2 / heads ? parts * heads : parts);
    if (walked > MAX_WALKED_TILE_PAIRS)
        return status_fail(run->machine.status, STATUS_INFEASIBLE,
                           "the walk is too long: %" PRIu64 " tile pairs, at most %" PRIu64 "; use larger blocks. Its closed form: %" PRIu64
                           " elements read from HBM, %" PRIu64 " written, %" PRIu64 " matmul FLOP",
                           walked, MAX_WALKED_TILE_PAIRS, form->hbm_read_elements, form->hbm_write_elements, form->matmul_flops);
    if (numeric && form->matmul_flops > MAX_NUMERIC_FLOPS)
        return status_fail(run->machine.status, STATUS_INFEASIBLE,
                           "the computation is too long: %" PRIu64 " FLOP, at most %" PRIu64 "; count it instead", form->matmul_flops,
                           MAX_NUMERIC_FLOPS);
    return true;
}

/* The rows x key blocks that kept their reference, which only they add sums to: the one count that no formula knows beforehand. */
static bool give_kept_references(AttentionRun *run)
{
    run->problem.kept_references = 0;
    for (uint32_t i = 0; i < run->machine.launch_count; i++)
        run->problem.kept_references += run->machine.launches[i].counts.elements[OP_ROWS_ADD];
    return run->setup.algorithm->closed_form(&run->problem, &run->closed_form, run->machine.status);
}

bool attention_run_forward(AttentionRun *run)
{
    return status_ok(run->machine.status) && attention_run_short_enough(run) &&
           run->setup.algorithm->forward(&run->machine, &run->attention) && machine_totals(&run->machine, &run->totals) &&
           (!run->attention.fa4.conditional || give_kept_references(run));
}

void attention_run_free(AttentionRun *run) { machine_free(&run->machine); }

bool attention_run_prepare_backward(AttentionRun *run, TileSize tiles, BackwardVariant variant)
{
    Machine *machine = &run->machine;
    const RunSetup *setup = &run->setup;
    const AttentionShape *shape = &run->attention.shape;
    if (setup->algorithm->backward == NULL)
        return status_fail(machine->status, STATUS_INFEASIBLE, "%s has no backward pass", setup->algorithm->name);
    if (tiles.Br == 0 && !fitting_backward_tiles(setup->algorithm, shape, setup->profile, machine->alloc, &tiles, machine->status)) return false;
    if (!attention_init_backward(&run->attention, machine)) return false;
    run->backward_tiles = tiles;
    run->attention.variant = variant;
    return true;
}

static void use_tiles(AttentionRun *run, TileSize tiles)
{
    run->attention.Br = tiles.Br;
    run->attention.Bc = tiles.Bc;
}

bool attention_run_backward(AttentionRun *run)
{
    const Algorithm *algorithm = run->setup.algorithm;
    use_tiles(run, run->backward_tiles);
    run->backward_problem = counted_backward(algorithm, &run->attention, &run->machine);
    machine_clear_ledger(&run->machine);
    const bool ok = (algorithm->backward_closed_form == NULL ||
                     algorithm->backward_closed_form(&run->backward_problem, &run->closed_form, run->machine.status)) &&
                    attention_run_short_enough(run) && algorithm->backward(&run->machine, &run->attention) &&
                    machine_totals(&run->machine, &run->totals);
    use_tiles(run, run->setup.tiles);
    return ok;
}

bool attention_count(AttentionRun *run, const Algorithm *algorithm, const AttentionShape *shape, TileSize tiles, L2Model l2,
                     const Profile *profile, Alloc *alloc, Status *status)
{
    const RunSetup setup = {.algorithm = algorithm, .profile = profile, .tiles = tiles, .config = {.mode = MODE_COUNT, .l2 = l2}};
    return attention_run_prepare(run, &setup, shape, alloc, status) && attention_run_forward(run);
}

bool attention_run_ideal_form(const AttentionRun *run, bool backward, ClosedForm *ideal)
{
    const Algorithm *algorithm = run->setup.algorithm;
    CountedProblem problem = run->problem;
    CountedBackward backward_problem = run->backward_problem;
    problem.ideal_l2 = backward_problem.problem.ideal_l2 = true;
    return backward ? algorithm->backward_closed_form(&backward_problem, ideal, run->machine.status)
                    : algorithm->closed_form(&problem, ideal, run->machine.status);
}

void count_pairs(const Totals *x, const ClosedForm *f, CountPair pairs[COUNT_PAIRS])
{
    const CountPair all[COUNT_PAIRS] = {
        {"hbm_read_elements", x->hbm_read_elements, f->hbm_read_elements},
        {"hbm_write_elements", x->hbm_write_elements, f->hbm_write_elements},
        {"hbm_read_bytes", x->hbm_read_bytes, f->hbm_read_bytes},
        {"hbm_write_bytes", x->hbm_write_bytes, f->hbm_write_bytes},
        {"l2_to_sm_bytes", x->l2_to_sm_bytes, f->l2_to_sm_bytes},
        {"sm_to_l2_bytes", x->sm_to_l2_bytes, f->sm_to_l2_bytes},
        {"atomic_elements", x->atomic_elements, f->atomic_elements},
        {"smem_operand_bytes", x->smem_operand_bytes, f->smem_operand_bytes},
        {"smem_thread_bytes", x->smem_thread_bytes, f->smem_thread_bytes},
        {"smem_copy_bytes", x->smem_copy_bytes, f->smem_copy_bytes},
        {"matmul_flops", x->matmul_flops, f->matmul_flops},
        {"matmul_flops_exact_mask", x->matmul_flops_exact_mask, f->matmul_flops_exact_mask},
        {"nonmatmul_ops", x->nonmatmul_ops, f->nonmatmul_ops},
        {"exp_ops", x->exp_ops, f->exp_ops},
    };
    for (int i = 0; i < COUNT_PAIRS; i++) pairs[i] = all[i];
}
