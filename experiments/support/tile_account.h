/* tile_account.h - how many cycles each unit of an SM is busy for one 128 x 128 tile of scores: the accounts of the
 * FlashAttention-4 paper, from a walk of the kernel.
 *
 *     tensor cores   FLOP / rate                      exponentials   scores / MUFU rate (rescaling factors are not in the
 * account) shared memory  bytes that products read, and in a backward pass what threads write there and copies read back of dQ, /
 * 128 a cycle. As in the paper, K and V arriving and O leaving are not charged.
 *
 * Nothing but counts of the walk, tile shapes and rates of the profile goes in. Lecture §5.1, §5.4.
 */
#ifndef ATTNLAB_TILE_ACCOUNT_H
#define ATTNLAB_TILE_ACCOUNT_H

#include "report.h"

#include "algos/run.h"

typedef struct {
    const Algorithm *algorithm;
    const Profile *chip;
    uint64_t d;
    TileSize tiles;                  /* {0, 0}: those of the real kernel that fit */
    const BackwardVariant *backward; /* NULL: forward */
    bool time;
} AccountSetup;

/* Cycles per 128 x 128 scores. */
typedef struct {
    TileSize tiles; /* of the walk */
    double tensor, exp;
    double operands;                                 /* shared memory: read by products, */
    double scores_written;                           /* written by threads: P and dS (backward), */
    double dq;                                       /* written by threads and read back by copies: dQ */
    double shared;                                   /* the sum of the three */
    uint64_t atomic_adds;                            /* elements added to at L2 by one head of ACCOUNT_LENGTH queries and keys */
    uint64_t smem_bytes, tmem_bytes, register_bytes; /* that a block holds */
    double timeline;                                 /* with setup->time: until the main kernel's last block ends; else 0 */
    const char *bound;                               /* ... and what its critical path spent most on */
} TileAccount;

enum { ACCOUNT_LENGTH = 2048, ACCOUNT_SIDE = 128 };

/* What the exchange of dS between two CTAs takes of shared memory, d = 128: printed in the paper's Table 3 without a formula. No account
 * here has it. */
enum { EXCHANGE_CYCLES = 384 };

/* One head of ACCOUNT_LENGTH queries and keys, no mask, BF16. Counts are checked against the closed form (a mismatch goes to the
 * report). */
bool tile_account(TileAccount *account, const AccountSetup *setup, Report *report, Alloc *alloc, Status *status);

/* The unit that needs most, or several: "exp", "tensor = exp". */
const char *account_binds(double tensor, double exp, double shared);

/* ---- what each product reads ---- */

enum { MOST_PRODUCTS = 16 };

typedef struct {
    const char *result, *left, *right; /* names of tiles */
    Space left_space, right_space;
    uint64_t tensor, shared; /* cycles */
} ProductAccount;

typedef struct {
    const Profile *chip;
    size_t count;
    ProductAccount products[MOST_PRODUCTS];
} ProductAccounts;

/* The products of one tile of 128 queries and 128 keys (with two CTAs: of one of them), in the order in which they are issued. */
bool product_accounts(ProductAccounts *accounts, const AccountSetup *setup, Alloc *alloc, Status *status);

/* Its cells of a row: the result, either operand and where it is, and the cycles of tensor cores and shared memory. */
void product_cells(Table *table, const ProductAccount *p);

#endif
