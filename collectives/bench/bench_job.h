/* bench_job - `drover bench` that nobody started as a rank starts itself as a job. */
#ifndef DROVER_BENCH_JOB_H
#define DROVER_BENCH_JOB_H

#include "common/err.h"

/* Runs this program with `argv` as a job, passes its lines on, and waits for it. `launch` (strv)
 * are options of `drover run`: --hostfile F, -x NAME, …; without hosts, and outside of an
 * allocation, the ranks run on this machine. `ranks` 0: one a GPU, or one a core, or one a slot.
 * `env` (strv) is set for the ranks. Call before this process has a thread. Returns the job's exit
 * status, or a negative errno where nothing was started. */
struct bench_job {
    char *const *argv, *const *launch, *const *env;
    int ranks;
};
int bench_job_run(const struct bench_job *b, struct err *e);

#endif
