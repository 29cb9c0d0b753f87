/* run_monitor - records the job of `drover run` for other processes and for the user. It writes
 * events to a file (--events), and the registry entry and the last lines for `drover ps` and
 * `drover logs`. It reports collective mismatches, and MPI ranks that do not find each other. */
#ifndef DROVER_RUN_MONITOR_H
#define DROVER_RUN_MONITOR_H

#include <uv.h>

#include "common/err.h"
#include "common/json.h"
#include "common/mem.h"
#include "launcher/engine/launch.h"
#include "launcher/run/console.h"
#include "launcher/run/run_options.h"

struct run_monitor;

/* Opens the monitor and the events file. Borrows the options and the console. The monitor prints
 * its messages on the console. */
int run_monitor_open(struct run_monitor **out, uv_loop_t *loop, const struct run_options *o,
                     struct console *console, struct err *e);
/* Closes the monitor. Its handles close in the loop's next iterations. */
void run_monitor_close(struct run_monitor *m);
AUTO_DEFINE(run_monitor, struct run_monitor *, run_monitor_close)

/* Observes the job of an attempt. The first attempt is 0. The job is borrowed until
 * run_monitor_ended(). */
void run_monitor_attach(struct run_monitor *m, struct launch *job, int attempt);

/* Records an event of the attached job, also after its end. Takes over the caller's reference to
 * `fields`. */
void run_monitor_event(struct run_monitor *m, const char *event, json_t *fields);
/* Records that the job has ended. `status` is the exit status that `drover run` has after this
 * attempt. */
void run_monitor_ended(struct run_monitor *m, const struct job_end *end, int status);
/* Records that the job will be restarted after `pause_ms`, without the hosts in `excluded`.
 * `excluded` is a strv and may be NULL. */
void run_monitor_restart(struct run_monitor *m, int attempt, int pause_ms, char *const *excluded);

#endif
