/* profile.c - the table of what a profile holds. Reading (profile_parse.c), checking and printing all come from it: a new
 * quantity is a field in profile.h, a row here and a line in every file of hw_profiles/ (the parser names files that lack it).
 *
 * The bands are wide: they catch a wrong unit or a forgotten prefix, not an unusual chip.
 */
#include "profile.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define KILO UINT64_C(1000)
#define MEGA (1000 * KILO)
#define GIGA (1000 * MEGA)
#define TERA (1000 * GIGA)
#define PETA (1000 * TERA)
#define KIBI UINT64_C(1024)
#define MEBI (1024 * KIBI)
#define GIBI (1024 * MEBI)
#define TEBI (1024 * GIBI)

/* Name, base unit, multiplier. */
static const ProfileUnit units[] = {
    {"Hz", "Hz", 1},
    {"kHz", "Hz", KILO},
    {"MHz", "Hz", MEGA},
    {"GHz", "Hz", GIGA},
    {"FLOP/s", "FLOP/s", 1},
    {"GFLOP/s", "FLOP/s", GIGA},
    {"TFLOP/s", "FLOP/s", TERA},
    {"PFLOP/s", "FLOP/s", PETA},
    {"B/s", "B/s", 1},
    {"MB/s", "B/s", MEGA},
    {"GB/s", "B/s", GIGA},
    {"TB/s", "B/s", TERA},
    {"B", "B", 1},
    {"kB", "B", KILO},
    {"KiB", "B", KIBI},
    {"MB", "B", MEGA},
    {"MiB", "B", MEBI},
    {"GB", "B", GIGA},
    {"GiB", "B", GIBI},
    {"TB", "B", TERA},
    {"TiB", "B", TEBI},
    {"FLOP/cycle", "FLOP/cycle", 1},
    {"FMA/cycle", "FMA/cycle", 1},
    {"op/cycle", "op/cycle", 1},
    {"B/cycle", "B/cycle", 1},
    {"instructions/cycle", "instructions/cycle", 1},
    {"instructions", "instructions", 1},
    {"ns", "ns", 1},
    {"us", "ns", KILO},
    {"cycles", "cycles", 1},
    {"millicycles", "millicycles", 1},
    {"lanes", "lanes", 1},
    {"SMs", "SMs", 1},
    {"partitions", "partitions", 1},
    {"registers", "registers", 1},
    {"threads", "threads", 1},
    {"blocks", "blocks", 1},
};

/* A key is spelled like its field. */
#define KEY(field) #field, offsetof(Profile, field)

enum { NO = false, YES = true };

/* clang-format off */
/* Key and field, unit, scope, lowest and highest sane value, may be zero, may be unlimited, meaning. */
static const ProfileKey keys[] = {
    {KEY(sm_count), "SMs", "chip", 1, 1024, NO, NO, "streaming multiprocessors in use"},
    {KEY(tensor_clock_hz), "Hz", "chip", 100 * MEGA, 10 * GIGA, NO, NO, "clock at which the published tensor peak is defined"},
    {KEY(boost_clock_hz), "Hz", "chip", 100 * MEGA, 10 * GIGA, NO, NO, "highest SM clock"},
    {KEY(full_tensor_clock_hz), "Hz", "chip", 100 * MEGA, 10 * GIGA, NO, NO, "SM clock at the power limit when the tensor cores never rest"},
    {KEY(launch_nanoseconds), "ns", "chip", 1, 1000000, YES, NO, "from one launch of an empty kernel to the next"},

    {KEY(peak_bf16_flops_per_chip), "FLOP/s", "chip", TERA / 100, 1000 * PETA, NO, NO,
     "published dense BF16 peak (FMA = 2 FLOP)"},
    {KEY(mma_sync_bf16_flops_per_cycle_per_sm), "FLOP/cycle", "SM", 16, 1 << 20, YES, NO, "mma.sync with BF16 operands"},
    {KEY(wgmma_bf16_flops_per_cycle_per_sm), "FLOP/cycle", "SM", 16, 1 << 20, YES, NO, "wgmma with BF16 operands; 0: none"},
    {KEY(tcgen05_bf16_flops_per_cycle_per_sm), "FLOP/cycle", "SM", 16, 1 << 20, YES, NO, "tcgen05 with BF16 operands; 0: none"},
    {KEY(fp8_flops_per_cycle_per_sm), "FLOP/cycle", "SM", 16, 1 << 20, YES, NO, "newest instruction with FP8 operands; 0: none"},

    {KEY(fp32_fma_per_cycle_per_sm), "FMA/cycle", "SM", 1, 4096, NO, YES, "float32 FMA, additions or multiplications"},
    {KEY(mufu_ops_per_cycle_per_sm), "op/cycle", "SM", 1, 1024, NO, YES, "exp2, reciprocal and other special functions"},
    {KEY(issue_slots_per_cycle_per_sm), "instructions/cycle", "SM", 1, 64, NO, YES, "warp instructions issued by all schedulers"},
    {KEY(issue_interval_millicycles_per_warp), "millicycles", "warp", 0, 100000, YES, NO, "how often one warp alone issues a dependent instruction"},
    {KEY(independent_interval_millicycles_per_warp), "millicycles", "warp", 0, 100000, YES, NO, "the same of instructions that do not wait for one another"},
    {KEY(matmul_startup_cycles), "cycles", "access", 0, 10000, YES, NO, "time of an asynchronous matrix product beyond its own"},
    {KEY(mma_sync_startup_cycles), "cycles", "access", 0, 10000, YES, NO, "time of a product by mma.sync beyond its own"},
    {KEY(wgmma_queue_instructions), "instructions", "warp", 1, 1000, NO, YES, "wgmma instructions issued ahead of their execution"},
    {KEY(row_statistic_lanes), "lanes", "access", 0, 32, YES, NO, "lanes that each compute the same statistic of a row"},
    {KEY(barrier_latency_cycles), "cycles", "access", 0, 10000, YES, NO, "from the arrival at a named barrier to the release"},
    {KEY(smem_bytes_per_cycle_per_sm), "B/cycle", "SM", 1, 1 << 16, NO, YES, "shared-memory bandwidth"},

    {KEY(l2_bytes_per_second_per_chip), "B/s", "chip", GIGA, 1000 * TERA, NO, YES, "L2 read bandwidth of all SMs together"},
    {KEY(l2_bytes_per_second_per_sm), "B/s", "SM", GIGA, 10 * TERA, NO, YES, "L2 read bandwidth of one SM alone"},
    {KEY(hbm_bytes_per_second_per_chip), "B/s", "chip", GIGA, 1000 * TERA, NO, YES, "published HBM bandwidth"},
    {KEY(hbm_sustained_bytes_per_second_per_chip), "B/s", "chip", GIGA, 1000 * TERA, NO, YES, "HBM bandwidth of a long read"},
    {KEY(hbm_bytes_per_second_per_sm), "B/s", "SM", GIGA, 10 * TERA, NO, YES, "HBM read bandwidth of one SM alone"},
    {KEY(smem_latency_cycles), "cycles", "access", 0, 100000, YES, NO, "latency of a shared-memory read"},
    {KEY(l2_latency_cycles), "cycles", "access", 0, 100000, YES, NO, "latency of a read that hits the near L2 partition"},
    {KEY(hbm_latency_cycles), "cycles", "access", 0, 100000, YES, NO, "latency of a read from HBM"},

    {KEY(hbm_bytes_per_chip), "B", "chip", MEBI, 64 * TEBI, NO, YES, "HBM capacity"},
    {KEY(l2_bytes_per_chip), "B", "chip", KIBI, 16 * GIBI, NO, YES, "L2 capacity"},
    {KEY(l2_partitions), "partitions", "chip", 1, 16, NO, NO, "parts of L2 that each cache for the SMs next to them"},
    {KEY(l1_and_smem_bytes_per_sm), "B", "SM", KIBI, 64 * MEBI, NO, YES, "the array that L1 cache and shared memory divide"},
    {KEY(smem_bytes_per_sm), "B", "SM", KIBI, 64 * MEBI, NO, YES, "shared memory of an SM"},
    {KEY(smem_bytes_per_block), "B", "block", KIBI, 64 * MEBI, NO, YES, "most shared memory that a block can have"},
    {KEY(smem_reserved_bytes_per_block), "B", "block", 1, 64 * KIBI, YES, NO, "shared memory the system takes with each block"},
    {KEY(tmem_bytes_per_sm), "B", "SM", KIBI, 64 * MEBI, YES, YES, "tensor memory; 0: none"},

    {KEY(registers_per_sm), "registers", "SM", 1024, 1 << 24, NO, YES, "32-bit registers of an SM"},
    {KEY(registers_per_thread), "registers", "thread", 16, 1 << 16, NO, YES, "most registers that a thread can have"},
    {KEY(register_granule_per_warp), "registers", "warp", 1, 1 << 16, NO, NO, "a warp's registers are rounded up to this"},
    {KEY(warp_size), "threads", "warp", 1, 1024, NO, NO, "threads of a warp"},
    {KEY(max_threads_per_sm), "threads", "SM", 32, 1 << 20, NO, YES, "most threads resident on an SM"},
    {KEY(max_threads_per_block), "threads", "block", 32, 1 << 20, NO, YES, "most threads of a block"},
    {KEY(max_blocks_per_sm), "blocks", "SM", 1, 1 << 16, NO, YES, "most blocks resident on an SM"},
};
/* clang-format on */

_Static_assert(sizeof keys / sizeof keys[0] <= PROFILE_MOST_KEYS, "raise PROFILE_MOST_KEYS in profile.h");

size_t profile_key_count(void) { return sizeof keys / sizeof keys[0]; }

const ProfileKey *profile_key(size_t index) { return &keys[index]; }

const ProfileKey *profile_key_named(const char *name)
{
    for (size_t k = 0; k < profile_key_count(); k++)
        if (strcmp(keys[k].name, name) == 0) return &keys[k];
    return NULL;
}

size_t profile_unit_count(void) { return sizeof units / sizeof units[0]; }

const ProfileUnit *profile_unit(size_t index) { return &units[index]; }

uint64_t profile_value(const Profile *profile, const ProfileKey *key)
{
    uint64_t value;
    memcpy(&value, (const char *)profile + key->offset, sizeof value);
    return value;
}

void profile_format_value(const ProfileKey *key, uint64_t value, char *buffer, size_t size)
{
    if (value == PROFILE_UNLIMITED) {
        snprintf(buffer, size, "unlimited %s", key->unit);
        return;
    }
    ProfileUnit best = {key->unit, key->unit, 1};
    for (size_t k = 0; k < profile_unit_count(); k++) {
        const ProfileUnit unit = units[k];
        const bool whole = value != 0 && value % unit.multiplier == 0;
        if (strcmp(unit.base, key->unit) == 0 && whole && unit.multiplier > best.multiplier) best = unit;
    }
    snprintf(buffer, size, "%" PRIu64 " %s", value / best.multiplier, best.name);
}

const char *tensor_instruction_name(TensorInstruction instruction)
{
    switch (instruction) {
    case TENSOR_MMA_SYNC: return "mma.sync";
    case TENSOR_WGMMA: return "wgmma";
    case TENSOR_TCGEN05: return "tcgen05";
    }
    return "unknown";
}

double profile_balance_flops_per_byte(const Profile *profile)
{
    if (profile->hbm_bytes_per_second_per_chip == PROFILE_UNLIMITED) return 0;
    return (double)profile->peak_bf16_flops_per_chip / (double)profile->hbm_bytes_per_second_per_chip;
}
