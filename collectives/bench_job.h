/* bench_job - `drover bench` that nobody started as a rank starts itself as a job. */
#ifndef DROVER_BENCH_JOB_H
#define DROVER_BENCH_JOB_H

#include <stdbool.h>

#include "common/err.h"

/* Runs this program with `argv` on `ranks` ranks of this machine (0: one a GPU, or one a core),
 * passes their lines on, and waits for them. Call before this process has a thread.
 * Returns the job's exit status, or a negative errno where nothing was started. */
int bench_job_run(char *const *argv, int ranks, bool oversubscribe, struct err *e);

#endif
