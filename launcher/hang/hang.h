/* hang - hang detection: decides from samples whether a job hangs, and which ranks differ from the
 * others.
 *
 * A rank has worked in a sample if, since the previous sample, its GPU has worked (gpu_wait.h), its
 * processes have read or written more than 32 KiB/s, or they have touched new memory (64 page
 * faults per second). It was active if it has worked, or if its processes used more than 2 % of a
 * CPU while its GPU did not spin: the CPU of a rank whose GPU spins waits for the GPU. A rank is
 * idle if it has not been active for the whole timeout, and still if it has not worked for the
 * whole timeout. It is stopped if it is idle and has been stopped, or in an uninterruptible wait,
 * for the whole timeout. The job hangs in these cases:
 *
 * - A rank is stopped.
 * - A rank has been in a collective for the whole timeout. Each other rank has also been in a
 *   collective for the whole timeout, or is idle and has written nothing for the whole timeout.
 * - No rank has written or reported anything for the whole timeout, and all ranks are idle.
 * - The same, no GPU has worked for the whole timeout, and some ranks but fewer than half are idle.
 *   A few ranks wait for something, and the others spin while they wait for these (as Open MPI and
 *   NCCL do).
 * - The same, and each rank is idle or still, and one is idle and waits for something that no rank
 *   provides: a file, a lock, a child, time.
 * - The same, each rank is still, and a GPU has spun for the whole timeout.
 * - No rank has written or reported anything and each one has been still for three times the
 *   timeout, and one is idle.
 * - No rank has written or reported anything, each one is still, and their stacks show twice that
 *   those that use their CPU wait in the same call of MPI. The caller compares the stacks.
 *
 * The job does not hang if one or a few ranks compute while the other ranks wait for them, for
 * example if rank 0 evaluates or writes a checkpoint. The job does not hang either if a debugger
 * holds a rank, or if a rank cannot be observed. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/mem.h"
#include "launcher/hang/gpu_wait.h"

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
    int64_t faults, io_bytes; /* totals: page faults; bytes read and written */
    bool waits_alone;         /* it waits for something that no other rank provides */
    enum gpu_wait gpu;
};

enum hang_case {
    HANG_NONE,
    HANG_STOPPED,    /* a rank is stopped */
    HANG_ALL_IDLE,   /* every rank is idle */
    HANG_COLLECTIVE, /* all ranks are in collectives or idle */
    HANG_SOME_IDLE,  /* some ranks are idle, and the others spin */
    HANG_GPUS_SPIN,  /* GPUs wait, and no rank works */
    HANG_STILL,      /* some ranks are idle; the others use their CPU, and nothing else */
    HANG_POLLS       /* no rank works: a hang only if the stacks say so */
};

/* By case: a word for programs, and what was seen. */
extern const struct hang_case_text {
    const char *name, *description;
} hang_cases[];

/* Adds a sample of each rank and returns the case. After a pause in sampling, because the machine
 * or drover was suspended, all times start again. */
enum hang_case hang_sample_add(struct hang *h, const struct hang_sample *samples, int64_t now_ms);
/* Returns for how long a rank has not been active, or, if it is active, has not worked. */
int64_t hang_still_ms(const struct hang *h, int rank);
/* Returns true if its GPU has spun for the whole timeout. */
bool hang_spins(const struct hang *h, int rank);
bool hang_is_idle(const struct hang *h, int rank);

/* Sets `differs` for the ranks that wait in another place than the majority. `where` describes for
 * each rank in what it waits; a rank with NULL is ignored. If there is no majority, no rank
 * differs. */
void hang_differs(bool *differs, const char *const *where, int ranks);
