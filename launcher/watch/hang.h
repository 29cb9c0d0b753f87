/* hang - hang detection: decides from samples whether a job hangs, and which ranks differ from the
 * others.
 *
 * A rank is active in a sample if its processes used more than 2 % of a CPU since the previous
 * sample. It is idle if it has not been active for the whole timeout. It is stopped if it is idle
 * and has been stopped, or in an uninterruptible wait, for the whole timeout. The job hangs in
 * three cases:
 *
 * - A rank is stopped.
 * - A rank has been in a collective for the whole timeout. Each other rank has also been in a
 *   collective for the whole timeout, or is idle and has written nothing for the whole timeout.
 * - No rank has written or reported anything for the whole timeout, and either all ranks are idle,
 *   or some ranks but fewer than half are idle. In the second case a few ranks wait for something,
 *   and the others spin while they wait for these (as Open MPI and NCCL do).
 *
 * The job does not hang if one or a few ranks compute while the other ranks wait for them, for
 * example if rank 0 evaluates or writes a checkpoint. The job does not hang either if a debugger
 * holds a rank, or if a rank cannot be observed. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/mem.h"

struct hang;
struct hang *hang_new(int ranks, int64_t timeout_ms, int64_t now_ms);
void hang_free(struct hang *h);
AUTO_DEFINE(hang, struct hang *, hang_free)

/* Returns the sampling interval: a tenth of the timeout, 0.5 to 10 s. */
int hang_interval_ms(const struct hang *h);

/* Records that a rank has written a line or reported. */
void hang_activity(struct hang *h, int rank, int64_t now_ms);
/* Returns the time of a rank's last activity, or the start of the job if there was none. */
int64_t hang_last_activity_ms(const struct hang *h, int rank);

struct hang_sample {
    bool exited;      /* the rank has exited */
    bool seen;        /* the following members are known */
    char state;       /* as in /proc/PID/stat */
    int64_t cpu_ms;   /* total CPU time */
    int64_t waits_ms; /* time in its current collective; 0: the rank is in no known collective */
};

enum hang_verdict {
    HANG_NONE,
    HANG_STOPPED,    /* a rank is stopped */
    HANG_ALL_IDLE,   /* every rank is idle */
    HANG_COLLECTIVE, /* all ranks are in collectives or idle */
    HANG_SOME_IDLE   /* fewer than half of the ranks are idle, and the others spin */
};

/* Adds a sample of each rank and returns the verdict. After a pause in sampling, because the
 * machine or drover was suspended, all times start again. */
enum hang_verdict hang_sample_add(struct hang *h, const struct hang_sample *samples,
                                  int64_t now_ms);
bool hang_is_idle(const struct hang *h, int rank);

/* Sets `differs` for the ranks that wait in another place than the majority. `where` describes for
 * each rank in what it waits; a rank with NULL is ignored. If there is no majority, no rank
 * differs. */
void hang_differs(bool *differs, const char *const *where, int ranks);
