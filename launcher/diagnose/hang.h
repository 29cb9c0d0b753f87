/* hang - whether a job stands still, and who of it differs from the others.
 *
 * A rank has moved when its processes used more than 2 % of a CPU since the sample before. It is
 * idle when it has not moved for the whole time-out, and stopped when it was stopped (or in an
 * uninterruptible wait) as long. The job hangs when
 *
 *     a rank is stopped; or
 *     a rank has been in a collective for the time-out, and so has each of the others, or it is
 * idle and has written nothing for as long; or no rank has written or reported anything for the
 * time-out, and every rank is idle, or fewer than half of them are: a few wait for something while
 * the others, who wait for them, spin (as Open MPI and NCCL do).
 *
 * It does not when one or a few ranks compute while the rest waits for them: rank 0 evaluates, or
 * writes a checkpoint. Nor when a debugger holds a rank, or a rank cannot be seen. Pure. */
#ifndef DROVER_HANG_H
#define DROVER_HANG_H

#include <stdbool.h>
#include <stdint.h>

#include "common/mem.h"

struct hang;
struct hang *hang_new(int ranks, int64_t timeout_ms, int64_t now_ms);
void hang_free(struct hang *h);
AUTO_DEFINE(hang, struct hang *, hang_free)

/* How often to look: a tenth of the time-out, 0.5 to 10 s. */
int hang_interval_ms(const struct hang *h);

/* A rank has written a line, or reported. */
void hang_activity(struct hang *h, int rank, int64_t now_ms);
/* When it last did; the job's start where it never has. */
int64_t hang_last_activity_ms(const struct hang *h, int rank);

struct hang_sample {
    bool exited;      /* the rank has ended */
    bool seen;        /* the rest is known */
    char state;       /* as in /proc/PID/stat */
    int64_t cpu_ms;   /* so far */
    int64_t waits_ms; /* in a collective, for so long; 0: in none that is known */
};

enum hang_verdict {
    HANG_NONE,
    HANG_STOPPED,    /* a rank is */
    HANG_ALL_IDLE,   /* every rank is */
    HANG_COLLECTIVE, /* one is under way too long, and nobody does anything else */
    HANG_SOME_IDLE   /* fewer than half of the ranks are, and the others spin */
};

/* A sample of each rank. After a pause in sampling (the machine or drover was suspended) all times
 * start anew. */
enum hang_verdict hang_sample_add(struct hang *h, const struct hang_sample *samples,
                                  int64_t now_ms);
bool hang_is_idle(const struct hang *h, int rank);

/* Marks in `differs` who stands elsewhere than most: `where` says of each rank where it stands;
 * NULL for one that is left out. Where no place has more than half of them, nobody is marked. */
void hang_differs(bool *differs, const char *const *where, int ranks);

#endif
