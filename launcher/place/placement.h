/* placement - the GPUs that a job file gets on this machine: selected, locked and waited for. */
#pragma once

#include "launcher/gpu/gpu_lock.h"
#include "launcher/place/place_inventory.h"
#include "launcher/place/place_select.h"
#include "launcher/plan/plan.h"

struct placement_opts {
    const char *file, *labels_file; /* labels_file NULL: none */
    char *const *argv; /* the program, whose earlier jobs correct the estimate; NULL: not known */
    const char *wdir;  /* its directory; NULL: the current one */
    bool idle;         /* GPUs count as if no process and no placed job used them */
};

struct placement {
    struct place_job *job;
    struct place_inventory inventory;
    struct place_choice choice;
    struct gpu_locks locks; /* empty after placement_preview() */
    char *gpus;             /* the UUIDs in the form of launch_spec.gpus */
    uint64_t arrived_ns;    /* its place in the queue: CLOCK_BOOTTIME */
    uint64_t lock_state;    /* gpu_lock_state() when it last selected */
    int wait_fd;            /* of gpu_lock_wait(), while it waits; else -1 */
};

/* Selects and locks the GPUs of a job file, and waits for them as long as the file allows. First
 * come, first served: GPUs that an earlier placement waits for and could use are left to it, since
 * it is not known how long a job runs. Logs the notes of the file, and one line if it waits. Call
 * this before there is a thread. The caller closes `*out` after the job; until then its processes
 * and their guardian hold the locks. -EINVAL, -ERANGE  the file is wrong, or its job cannot be
 * estimated -ENOSPC           no GPU of this machine fits the job, even if all were idle; the hint
 * is what would fit -EBUSY            the GPUs did not become free in time -EIO              the
 * driver does not respond */
int placement_open(struct placement **out, const struct placement_opts *o, struct err *e);

/* Selects without locks and without waiting. `*out` is also set with -EBUSY and -ENOSPC, when
 * `choice.each` tells why. With other errors it is NULL. */
int placement_preview(struct placement **out, const struct placement_opts *o, struct err *e);

/* Warns of GPUs of a job without a placement that placed jobs have locked. */
void placement_warn(const struct plan *p);

void placement_close(struct placement *p);
AUTO_DEFINE(placement, struct placement *, placement_close)
