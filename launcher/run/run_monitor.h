/* cmd_run_watch - what `drover run` tells others of its job: events in a file, an entry in the
 * registry with the ranks' last lines, hangs, and ranks that do not find each other. */
#ifndef DROVER_RUN_MONITOR_H
#define DROVER_RUN_MONITOR_H

#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/job/restart.h"
#include "launcher/run/cmd_run.h"

struct run_monitor;

struct run_monitor_events {                   /* from `drover run` */
    void (*say)(void *arg, const char *text); /* whole lines, on stderr */
    void (*hung)(void *arg);                  /* the job is to be ended */
    void *arg;
};

/* Opens the events file. Borrows the options. */
int run_monitor_open(struct run_monitor **out, uv_loop_t *loop, const struct run_options *o,
                     const struct run_monitor_events *needs, struct err *e);
/* Its handles close on the loop's next turns. */
void run_monitor_close(struct run_monitor *w);
AUTO_DEFINE(run_monitor, struct run_monitor *, run_monitor_close)

/* An attempt begins: the job, which is borrowed until run_monitor_ended(). `attempt` counts from
 * 0. */
void run_monitor_begin(struct run_monitor *w, struct launch *job, int attempt);

/* The launcher's news, as launch_events has them. */
void run_monitor_line(struct run_monitor *w, int rank, enum launch_stream from, const char *text,
                      size_t len);
void run_monitor_report(struct run_monitor *w, int rank);
void run_monitor_rank_started(struct run_monitor *w, int rank, pid_t pid);
void run_monitor_status(struct run_monitor *w, int rank);
void run_monitor_stack(struct run_monitor *w, int rank, const char *text);
void run_monitor_rank_ended(struct run_monitor *w, const struct rank_end *r);
/* `status` is what the job's end means for `drover run`. */
void run_monitor_ended(struct run_monitor *w, const struct job_end *end, int status);

/* The job will be started again. `left_out` (a strv; may be NULL) has the hosts that are not. */
void run_monitor_restart(struct run_monitor *w, int attempt, int pause_ms, char *const *left_out);

#endif
