/* cmd_run_watch - what `drover run` tells others of its job: events in a file, an entry in the
 * registry with the ranks' last lines, hangs, and ranks that do not find each other. */
#ifndef DROVER_RUN_MONITOR_H
#define DROVER_RUN_MONITOR_H

#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/job/restart.h"
#include "launcher/run/cmd_run.h"

struct cmd_run_watch;

struct cmd_run_watch_needs {                  /* from `drover run` */
    void (*say)(void *arg, const char *text); /* whole lines, on stderr */
    void (*hung)(void *arg);                  /* the job is to be ended */
    void *arg;
};

/* Opens the events file. Borrows the options. */
int cmd_run_watch_open(struct cmd_run_watch **out, uv_loop_t *loop, const struct cmd_run_opts *o,
                       const struct cmd_run_watch_needs *needs, struct err *e);
/* Its handles close on the loop's next turns. */
void cmd_run_watch_close(struct cmd_run_watch *w);
AUTO_DEFINE(cmd_run_watch, struct cmd_run_watch *, cmd_run_watch_close)

/* An attempt begins: the job, which is borrowed until cmd_run_watch_ended(). `attempt` counts from
 * 0. */
void cmd_run_watch_begin(struct cmd_run_watch *w, struct launch *job, int attempt);

/* The launcher's news, as launch_events has them. */
void cmd_run_watch_line(struct cmd_run_watch *w, int rank, enum launch_stream from,
                        const char *text, size_t len);
void cmd_run_watch_report(struct cmd_run_watch *w, int rank);
void cmd_run_watch_rank_started(struct cmd_run_watch *w, int rank, pid_t pid);
void cmd_run_watch_looked(struct cmd_run_watch *w, int rank);
void cmd_run_watch_stack(struct cmd_run_watch *w, int rank, const char *text);
void cmd_run_watch_rank_ended(struct cmd_run_watch *w, const struct rank_end *r);
/* `status` is what the job's end means for `drover run`. */
void cmd_run_watch_ended(struct cmd_run_watch *w, const struct job_end *end, int status);

/* The job will be started again. `left_out` (a strv; may be NULL) has the hosts that are not. */
void cmd_run_watch_restart(struct cmd_run_watch *w, int attempt, int pause_ms,
                           char *const *left_out);

#endif
