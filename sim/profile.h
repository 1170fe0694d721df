/* profile.h - a chip as data.
 *
 * A Profile is what the machine must know of a GPU: rates, capacities, limits and latencies, read from a text file (those in
 * hw_profiles/, whose README.md describes the format) in which every value carries its unit, its scope and its source:
 *
 *     hbm_bytes_per_second_per_chip = 2039 GB/s per chip | NVIDIA A100 80GB datasheet
 *
 * All quantities are exact integers in base units (bytes, bytes per second, hertz, FLOP, cycles); none passes through a double.
 * A fused multiply-add is 2 FLOP in tensor rates and 1 operation in fp32_fma rates. The key in the file is the name of the field.
 * What a Profile leaves out: instruction shapes (they belong to the operations) and the latency of the far L2 partition. The lecture
 * uses these numbers in §1.3 (memory hierarchy), §1.4 and §2.4 (balance
 * points), §4.2 and §5.1 (exponential against tensor rate).
 */
#ifndef ATTNLAB_PROFILE_H
#define ATTNLAB_PROFILE_H

#include "alloc.h"
#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* No limit (a capacity that never fills, a rate that costs no time); `unlimited` in the file. */
#define PROFILE_UNLIMITED UINT64_MAX

enum { PROFILE_NAME_SIZE = 32, PROFILE_DESCRIPTION_SIZE = 128, PROFILE_MOST_KEYS = 64 };

/* The three generations of tensor-core instructions. */
typedef enum { TENSOR_MMA_SYNC, TENSOR_WGMMA, TENSOR_TCGEN05 } TensorInstruction;

typedef struct {
    char name[PROFILE_NAME_SIZE];               /* lower-case letters, digits, '_' and '-' */
    char description[PROFILE_DESCRIPTION_SIZE]; /* one line of UTF-8 */

    /* size and clocks */
    uint64_t sm_count;
    uint64_t tensor_clock_hz;                   /* the clock at which the peak below is defined */
    uint64_t boost_clock_hz;                    /* the highest SM clock */
    uint64_t full_tensor_clock_hz;              /* the clock that the power limit leaves when the tensor cores never rest */
    uint64_t launch_nanoseconds;                /* from one launch to the next, when kernels do nothing */

    /* tensor cores: dense FLOP, float32 accumulation; 0 = the chip lacks the instruction */
    uint64_t peak_bf16_flops_per_chip;          /* FLOP per second as published; sm_count x best rate x tensor clock within 1 % */
    uint64_t mma_sync_bf16_flops_per_cycle_per_sm;
    uint64_t wgmma_bf16_flops_per_cycle_per_sm;
    uint64_t tcgen05_bf16_flops_per_cycle_per_sm;
    uint64_t fp8_flops_per_cycle_per_sm;        /* by the chip's newest instruction */

    /* the other units of an SM */
    uint64_t fp32_fma_per_cycle_per_sm;         /* one FMA, addition or multiplication each */
    uint64_t mufu_ops_per_cycle_per_sm;         /* exp2, reciprocal, ... */
    uint64_t issue_slots_per_cycle_per_sm;      /* warp instructions: one per scheduler */
    uint64_t smem_bytes_per_cycle_per_sm;
    uint64_t issue_interval_millicycles_per_warp;   /* one warp alone issues a dependent instruction this often */
    uint64_t independent_interval_millicycles_per_warp; /* the same of instructions that do not wait for one another */
    uint64_t matmul_startup_cycles;             /* from the issue of an asynchronous matrix product to its first result, beyond its own time */
    uint64_t mma_sync_startup_cycles;           /* the same of a product by mma.sync: first fragments from shared memory, first result */
    uint64_t wgmma_queue_instructions;          /* wgmma instructions that a warpgroup can have issued before they run */
    uint64_t row_statistic_lanes;               /* lanes that each compute the same statistic of a row: who shares a row of the accumulator layout */
    uint64_t barrier_latency_cycles;            /* from the arrival at a named barrier to the release of those who wait */

    /* memory: bandwidth, latency, capacity */
    uint64_t l2_bytes_per_second_per_chip;      /* what all SMs together can read */
    uint64_t l2_bytes_per_second_per_sm;        /* what one SM alone can read */
    uint64_t hbm_bytes_per_second_per_chip;     /* as published: the balance points divide by it */
    uint64_t hbm_sustained_bytes_per_second_per_chip;   /* what a long read reaches */
    uint64_t hbm_bytes_per_second_per_sm;       /* what one SM alone can read */
    uint64_t smem_latency_cycles;
    uint64_t l2_latency_cycles;
    uint64_t hbm_latency_cycles;
    uint64_t hbm_bytes_per_chip;
    uint64_t l2_bytes_per_chip;
    uint64_t l2_partitions;                     /* each caches for the SMs next to it: what all SMs read is held this many times */
    uint64_t l1_and_smem_bytes_per_sm;          /* one array, split between L1 cache and shared memory */
    uint64_t smem_bytes_per_sm;
    uint64_t smem_bytes_per_block;              /* the most that one block can ask for */
    uint64_t smem_reserved_bytes_per_block;     /* taken by the system from the SM for each resident block */
    uint64_t tmem_bytes_per_sm;                 /* tensor memory; 0 before tcgen05 */

    /* threads and registers */
    uint64_t registers_per_sm;                  /* of 32 bits */
    uint64_t registers_per_thread;              /* the most that one thread can have */
    uint64_t register_granule_per_warp;         /* a warp's registers are rounded up to a multiple of this */
    uint64_t warp_size;
    uint64_t max_threads_per_sm;
    uint64_t max_threads_per_block;
    uint64_t max_blocks_per_sm;
} Profile;

/* FLOP per cycle and SM of one instruction class in BF16; 0 = the chip lacks it. */
static inline uint64_t profile_tensor_rate(const Profile *profile, TensorInstruction instruction)
{
    switch (instruction) {
    case TENSOR_MMA_SYNC: return profile->mma_sync_bf16_flops_per_cycle_per_sm;
    case TENSOR_WGMMA: return profile->wgmma_bf16_flops_per_cycle_per_sm;
    case TENSOR_TCGEN05: return profile->tcgen05_bf16_flops_per_cycle_per_sm;
    }
    return 0;
}

static inline bool profile_has(const Profile *profile, TensorInstruction instruction)
{
    return profile_tensor_rate(profile, instruction) > 0;
}

/* "mma.sync", "wgmma", "tcgen05": for messages such as "a100 has no wgmma". */
const char *tensor_instruction_name(TensorInstruction instruction);

/* FLOP per byte at which tensor cores and HBM take the same time (lecture §1.4: A100 153, H100 295, B200 281); 0 if HBM is
 * unlimited. */
double profile_balance_flops_per_byte(const Profile *profile);

/* Loads a profile.
 * A word with '/', '\' or '.' in it is a path. Any other word is a name: the built-in profile, else a file of that name.
 * Errors: STATUS_USAGE for an unknown name (one line: the nearest name and all that are allowed) and for a bad file
 * ("file:line:column: what is wrong and what was expected", the line and a caret under the column); STATUS_IO for what cannot be
 * read and for lack of memory. *out is written on success only. */
bool profile_load(const char *name_or_path, Alloc *alloc, Profile *out, Status *status);

/* The same, but a name is first looked up as directory/NAME.txt, so that an installed profile can be edited and a chip added
 * without compiling. A file that is there but bad is an error, never passed over. directory may be NULL (then as above). */
bool profile_load_from(const char *directory, const char *name_or_path, Alloc *alloc, Profile *out, Status *status);

/* The directory of the installed profiles, found from where the running program is (argv[0], or PATH if argv[0] is a bare word):
 * the program's directory + "/../share/attnlab/hw_profiles" (as installed). Relative to the program and not compiled in, so that
 * an installed tree can be moved and an old installation never shadows the profiles of a build tree. False if it cannot be told
 * or does not fit; whether the directory exists is not looked at. */
bool profile_installed_directory(const char *program, char *buffer, size_t size);

/* Parses the text of a profile; label stands for the file in messages. Errors as above. text need not end in '\0'. */
bool profile_parse(const char *text, size_t length, const char *label, Profile *out, Status *status);

/* The built-in profiles in alphabetical order. */
size_t profile_builtin_count(void);
const char *profile_builtin_name(size_t index);

/* The glossary: every numeric key, in the order of a profile file. */
typedef struct {
    const char *name;       /* also the name of the field in Profile */
    size_t offset;          /* of the field */
    const char *unit;       /* the base unit in which the value is stored */
    const char *scope;      /* "chip", "SM", "block", "thread", "warp" or "access": what the value is counted for */
    uint64_t minimum;       /* the band of sane values, in base units, both ends allowed */
    uint64_t maximum;
    bool may_be_zero;       /* 0 is allowed too: the chip has none, or it costs nothing */
    bool may_be_unlimited;
    const char *meaning;    /* one line */
} ProfileKey;

size_t profile_key_count(void);
const ProfileKey *profile_key(size_t index);
/* NULL when none has this name. */
const ProfileKey *profile_key_named(const char *name);
uint64_t profile_value(const Profile *profile, const ProfileKey *key);

/* A unit in which a value may be written. "B" has KiB, MiB, GiB, TiB, kB, MB, GB, TB; most have none but themselves. */
typedef struct {
    const char *name;
    const char *base;
    uint64_t multiplier;    /* one `name` is this many `base` */
} ProfileUnit;

size_t profile_unit_count(void);
const ProfileUnit *profile_unit(size_t index);

/* "2039 GB/s", "164 KiB", "0 B", "unlimited B": as in a profile file, in the largest unit that leaves a whole number. Cut off if
 * it does not fit. */
void profile_format_value(const ProfileKey *key, uint64_t value, char *buffer, size_t size);

#endif
