/* hang - hang detection: decides from samples whether a job hangs, and which ranks differ from the
 * others.
 *
 * A rank is active in a sample if its processes used more than 2 % of a CPU since the previous
 * sample. It is idle if it has not been active for the whole timeout. It is stopped if it is idle
 * and was stopped (or in an uninterruptible wait) for as long. The job hangs in three cases:
 *
 * - A rank is stopped.
 * - A rank has been in a collective for the timeout, and each other rank has been, too, or is idle
 *   and has written nothing for as long.
 * - No rank has written or reported anything for the timeout, and either every rank is idle, or
 *   fewer than half of them are: a few wait for something while the others spin waiting for them
 *   (as Open MPI and NCCL do).
 *
 * The job does not hang if one rank or a few compute while the rest waits for them: rank 0
 * evaluates, or writes a checkpoint. Nor does it if a debugger holds a rank, or if a rank cannot
 * be observed. Pure. */
#ifndef DROVER_HANG_H
#define DROVER_HANG_H

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
/* Returns the time of a rank's last activity; the job's start if there was none. */
int64_t hang_last_activity_ms(const struct hang *h, int rank);

struct hang_sample {
    bool exited;      /* the rank has exited */
    bool seen;        /* the following members are known */
    char state;       /* as in /proc/PID/stat */
    int64_t cpu_ms;   /* in total */
    int64_t waits_ms; /* time in its current collective; 0: in none that is known */
};

enum hang_verdict {
    HANG_NONE,
    HANG_STOPPED,    /* a rank is stopped */
    HANG_ALL_IDLE,   /* every rank is idle */
    HANG_COLLECTIVE, /* a collective takes longer than the timeout, and no rank does anything
                        else */
    HANG_SOME_IDLE   /* fewer than half of the ranks are idle, and the others spin */
};

/* Adds a sample of each rank and returns the verdict. After a pause in sampling (the machine or
 * drover was suspended) all times start again. */
enum hang_verdict hang_sample_add(struct hang *h, const struct hang_sample *samples,
                                  int64_t now_ms);
bool hang_is_idle(const struct hang *h, int rank);

/* Marks in `differs` the ranks that wait elsewhere than the majority. `where` describes for each
 * rank what it waits in; NULL: the rank is ignored. No rank is marked if there is no majority. */
void hang_differs(bool *differs, const char *const *where, int ranks);

#endif
