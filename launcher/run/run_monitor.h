/* run_monitor - what `drover run` records of its job for other processes and for the user: events
 * in a file (--events), the registry entry and its last lines (`drover ps`, `drover logs`),
 * collective mismatches, and MPI ranks that do not find each other. */
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

/* Opens the events file. Borrows the options and the console, which shows its messages. */
int run_monitor_open(struct run_monitor **out, uv_loop_t *loop, const struct run_options *o,
                     struct console *console, struct err *e);
/* Its handles close in the loop's next iterations. */
void run_monitor_close(struct run_monitor *m);
AUTO_DEFINE(run_monitor, struct run_monitor *, run_monitor_close)

/* Observes the job of an attempt (0 is the first), which is borrowed until run_monitor_ended(). */
void run_monitor_attach(struct run_monitor *m, struct launch *job, int attempt);

/* Records the hang report of the job; takes its reference. */
void run_monitor_hang(struct run_monitor *m, json_t *report);
/* The job has ended, which gives `drover run` the exit status `status`. */
void run_monitor_ended(struct run_monitor *m, const struct job_end *end, int status);
/* The job will be restarted without the hosts of `excluded` (a strv; may be NULL). */
void run_monitor_restart(struct run_monitor *m, int attempt, int pause_ms, char *const *excluded);

#endif
