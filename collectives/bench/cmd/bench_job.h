/* bench_job - launches `drover bench` as a job, if it was not started as a rank. */
#ifndef DROVER_BENCH_JOB_H
#define DROVER_BENCH_JOB_H

#include "common/err.h"

struct bench_job {
    char *const *argv;   /* the command line of a rank, strv */
    char *const *launch; /* options of `drover run`, strv: --hostfile F, -x NAME, … */
    char *const *env;    /* variables for the ranks, strv */
    int ranks;           /* 0: one per GPU, core or slot */
};

/* Runs this program as a job, prints the lines of its ranks, and waits for its end. Without hosts
 * and outside of an allocation the ranks run on this node. Must be called before this process has a
 * second thread. Returns the job's exit status, or a negative errno if nothing was started. */
int bench_job_run(const struct bench_job *b, struct err *e);

#endif
