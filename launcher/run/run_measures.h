/* run_measures - what `drover run` measures of its job in all attempts: the use of its limits, its
 * GPUs, its speed against a baseline, and its metrics for Prometheus. */
#ifndef DROVER_RUN_MEASURES_H
#define DROVER_RUN_MEASURES_H

#include <uv.h>

#include "launcher/engine/launch.h"
#include "launcher/limits/job_limits.h"
#include "launcher/monitor/job_monitor.h"
#include "launcher/run/console.h"
#include "launcher/run/run_monitor.h"
#include "launcher/run/run_options.h"

struct run_measures;

/* Starts to measure. The loop calls `on_limit` once if a limit of the options is reached. Borrows
 * the options and the console.
 * Errors are those of metrics_server_open(), if the options have an address; `*out` must be closed
 * then, too. */
int run_measures_open(struct run_measures **out, uv_loop_t *loop, const struct run_options *o,
                      struct console *console, void (*on_limit)(void *arg, enum job_limit limit),
                      void *arg, struct err *e);
/* The handles close in the loop's next iteration. `m` may be NULL. */
void run_measures_close(struct run_measures *m);

/* An attempt begins, the first of which is 0. The job is borrowed until run_measures_ended(). */
void run_measures_attach(struct run_measures *m, struct launch *job, int attempt);
/* A rank has started: the nodes of the job, and so its GPUs, are known. */
void run_measures_started(struct run_measures *m);
void run_measures_hang(struct run_measures *m);
/* The attempt has ended; `status` is the exit status that `drover run` has after it. */
void run_measures_ended(struct run_measures *m, const struct job_end *end, int status);

/* Returns the monitor of the present attempt; NULL: no attempt runs, or it has no GPU here. */
struct job_monitor *run_measures_monitor(const struct run_measures *m);

/* Appends which limit has stopped the job. */
void run_measures_print_limit(const struct run_measures *m, struct strbuf *b, enum job_limit limit);

/* After all output of the ranks: prints the comparison with the baseline and the use of GPUs, and
 * stores them. A failure of the store is not one of the job. */
void run_measures_finish(struct run_measures *m, struct run_monitor *monitor, int status);

#endif
