/* job_progress - follows the sections and heartbeats of a job's ranks: finds ranks that exceed a
 * time limit, and ranks that are slower than the others. */
#ifndef DROVER_JOB_PROGRESS_H
#define DROVER_JOB_PROGRESS_H

#include <uv.h>

#include "launcher/diagnose/section_watch.h"
#include "launcher/engine/launch.h"

struct job_progress;

struct job_progress_opts {
    const char *program; /* prefix of messages */
    const struct section_limits *limits;
    bool from_connect; /* the limits apply from a RankMonitorClient's connection on, not from the
                          start of the rank */
    bool stragglers;   /* find ranks that are slower than the others */
};

struct job_progress_events {
    /* Ranks have exceeded a time limit. `text` says which, and what they did; `ranks` has their
     * entries; the callee owns `fields`, which describe it for an event. Called once. */
    void (*overrun)(void *arg, const char *text, const bool *ranks, json_t *fields);
    /* A rank has become slower than the others, or is no longer slower. `text` is a whole line; the
     * callee owns `fields`. */
    void (*straggler)(void *arg, const char *text, json_t *fields);
};

/* Observes the job. Borrows the job and the limits. */
struct job_progress *job_progress_open(uv_loop_t *loop, struct launch *job,
                                       const struct job_progress_opts *o,
                                       const struct job_progress_events *ev, void *arg);
/* Returns the longest times of the job's ranks (section_watch.h). Borrowed. */
const struct section_limits *job_progress_longest(const struct job_progress *p);
/* Stops observing. Call this only when the job emits no more events: in its `ended` or later. The
 * handle closes in the loop's next iteration. `p` may be NULL. */
void job_progress_close(struct job_progress *p);

#endif
