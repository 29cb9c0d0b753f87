/* bench_job - launches `drover bench` as a job, if it was not started as a rank. */
#pragma once

#include "common/err.h"
#include "launcher/engine/launch.h"

struct bench_job {
    char *const *argv;         /* the command line of a rank, strv */
    char *const *launch;       /* options of `drover run`, strv: --hostfile F, -x NAME, … */
    char *const *env;          /* variables for the ranks, strv */
    int ranks;                 /* 0: one per GPU, core or slot */
    const char *engine;        /* in static memory; NULL: as the options say */
    struct guardian *guardian; /* borrowed; NULL: starts one */
    /* Called when the job is launched. If the function fails, the job is killed. May be NULL. */
    int (*started)(void *arg, struct launch_context *l, const struct launch *job, struct err *e);
    /* Returns true while work that `started` has begun still runs; may be NULL */
    bool (*running)(void *arg);
    void *arg;
};

/* Runs this program as a job, prints the lines of its ranks, and waits for its end. If no hosts are
 * given and there is no allocation, the ranks run on this node. Must be called before this process
 * has a second thread. Returns the job's exit status, or a negative errno if nothing was
 * started. */
int bench_job_run(const struct bench_job *b, struct err *e);
