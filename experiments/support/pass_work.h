/* pass_work.h - FLOPs and HBM elements of both passes of one head, walked (pitfall 2, exercise 5).
 *
 * Tiles of 64 x 64, ideal L2, no mask; the backward adds into dQ itself, as the lecture counts. Checked against the closed forms.
 */
#ifndef ATTNLAB_PASS_WORK_H
#define ATTNLAB_PASS_WORK_H

#include "report.h"

#include "algos/run.h"

typedef struct {
    uint64_t flops[2], elements[2]; /* forward, backward */
} PassWork;

bool pass_work(PassWork *work, const Algorithm *algorithm, const Profile *machine, uint64_t N, uint64_t d, Report *report,
               Alloc *alloc, Status *status);

static inline uint64_t hbm_elements(const Totals *t) { return t->hbm_read_elements + t->hbm_write_elements; }

#endif
