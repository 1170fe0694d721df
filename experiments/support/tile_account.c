/* tile_account.c - see tile_account.h. */
#include "tile_account.h"

#include "sim/cost.h"

static bool start(AttentionRun *run, const AccountSetup *setup, uint64_t queries, uint64_t keys, MachineConfig config,
                  Alloc *alloc, Status *status)
{
    AttentionShape shape = attention_shape(queries, setup->d);
    shape.seqlen_k = keys;
    RunSetup forward = {.algorithm = setup->algorithm, .profile = setup->chip, .config = config};
    if (setup->backward == NULL) forward.tiles = setup->tiles;
    return attention_run_prepare(run, &forward, &shape, alloc, status) &&
           (setup->backward == NULL
                ? attention_run_forward(run)
                : attention_run_prepare_backward(run, setup->tiles, *setup->backward) && attention_run_backward(run));
}

/* The kernel that computes: the one with the most matrix products. */
static const LaunchRecord *main_launch(const Machine *machine)
{
    const LaunchRecord *longest = &machine->launches[0];
    for (uint32_t i = 1; i < machine->launch_count; i++)
        if (machine->launches[i].counts.matmul_flops > longest->counts.matmul_flops) longest = &machine->launches[i];
    return longest;
}

/* What leaves the block by additions: payload bytes, and elements. */
static uint64_t added(const Machine *machine, uint64_t *elements)
{
    uint64_t bytes = 0;
    *elements = 0;
    for (uint32_t i = 0; i < machine->ledger_count; i++) {
        *elements += machine->ledger[i].traffic.atomic_adds;
        bytes += machine->ledger[i].traffic.atomic_adds * element_bytes(machine->ledger[i].tensor->type);
    }
    return bytes;
}

static void fill_account(TileAccount *account, const AccountSetup *setup, const AttentionRun *run)
{
    const Profile *chip = setup->chip;
    const LaunchRecord *launch = main_launch(&run->machine);
    const double side = (double)ACCOUNT_LENGTH / ACCOUNT_SIDE, tiles = side * side;
    const double smem = tiles * (double)chip->smem_bytes_per_cycle_per_sm;
    uint64_t through_smem = added(&run->machine, &account->atomic_adds);
    if (setup->algorithm != &algorithm_fa4) through_smem = 0; /* FlashAttention-2 adds from registers */
    account->tiles = setup->backward != NULL ? run->backward_tiles : run->setup.tiles;
    account->tensor =
        (double)run->totals.matmul_flops / tiles / (double)tensor_rate(chip, setup->algorithm->instruction, ELEMENT_BF16);
    account->exp = (double)launch->counts.elements[OP_EXP_ROWS] / tiles / (double)chip->mufu_ops_per_cycle_per_sm;
    account->operands = (double)run->totals.smem_operand_bytes / smem;
    account->dq = 2 * (double)through_smem / smem;
    account->scores_written = setup->backward != NULL ? (double)(run->totals.smem_thread_bytes - through_smem) / smem : 0;
    account->shared = account->operands + account->scores_written + account->dq;
    account->smem_bytes = run->totals.sram_peak_bytes;
    account->tmem_bytes = run->totals.tmem_peak_bytes;
    account->register_bytes = run->totals.register_peak_bytes;
    if (!setup->time) return;
    const double blocks = (double)launch->blocks, tiles_per_block = tiles / blocks; /* of one head: all run at once */
    account->timeline = (double)launch->time.sm_cycles / tiles_per_block;
    account->bound = launch->time.bound;
}

bool tile_account(TileAccount *account, const AccountSetup *setup, Report *report, Alloc *alloc, Status *status)
{
    AttentionRun run = {0};
    CountPair pairs[COUNT_PAIRS];
    *account = (TileAccount){.bound = ""};
    const MachineConfig config = {.mode = MODE_COUNT, .l2 = L2_IDEAL, .time = setup->time};
    const bool ok = start(&run, setup, ACCOUNT_LENGTH, ACCOUNT_LENGTH, config, alloc, status);
    if (ok) {
        count_pairs(&run.totals, &run.closed_form, pairs);
        for (size_t i = 0; i < COUNT_PAIRS; i++) report_check(report, pairs[i].counted, pairs[i].formula, pairs[i].name);
        fill_account(account, setup, &run);
    }
    attention_run_free(&run);
    return ok;
}

const char *account_binds(double tensor, double exp, double shared)
{
    static const char *const names[8] = {"",       "tensor",          "exp",          "tensor = exp",
                                         "shared", "tensor = shared", "exp = shared", "all three"};
    double most = tensor > exp ? tensor : exp;
    if (shared > most) most = shared;
    const double nearly = most * (1 - 1e-9);
    return names[(tensor >= nearly) + 2 * (exp >= nearly) + 4 * (shared >= nearly)];
}

/* ---- what each product reads ---- */

static void observe_product(void *observer, const Event *event)
{
    ProductAccounts *accounts = observer;
    if (event->operation != OP_MATMUL || accounts->count == MOST_PRODUCTS) return;
    const Tile *c = event->written[0], *a = event->read[0], *b = event->read[1];
    const Cost cost = operation_cost(accounts->chip, event);
    accounts->products[accounts->count++] =
        (ProductAccount){c->name, a->name, b->name, a->space, b->space, cost.occupancy[UNIT_TENSOR], cost.occupancy[UNIT_SHARED]};
}

bool product_accounts(ProductAccounts *accounts, const AccountSetup *setup, Alloc *alloc, Status *status)
{
    AttentionRun run = {0};
    *accounts = (ProductAccounts){.chip = setup->chip};
    const MachineConfig config = {.mode = MODE_COUNT, .l2 = L2_IDEAL, .observe = observe_product, .observer = accounts};
    const bool two = setup->backward != NULL && setup->backward->two_ctas;
    const bool ok = start(&run, setup, ACCOUNT_SIDE, two ? 2 * ACCOUNT_SIDE : ACCOUNT_SIDE, config, alloc, status);
    attention_run_free(&run);
    if (two) accounts->count /= 2; /* the other CTA's are the same */
    return ok;
}

static const char *space_name(Space space)
{
    static const char *const names[] = {"shared memory", "registers", "tensor memory"};
    return names[space];
}

void product_cells(Table *table, const ProductAccount *p)
{
    cell_text(table, p->result);
    cell_text(table, p->left);
    cell_text(table, space_name(p->left_space));
    cell_text(table, p->right);
    cell_text(table, space_name(p->right_space));
    cell_count(table, p->tensor);
    cell_count(table, p->shared);
}
