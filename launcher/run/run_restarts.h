/* cmd_run_again - --max-restarts: the next attempt of `drover run`'s job, after a pause. */
#ifndef DROVER_RUN_RESTARTS_H
#define DROVER_RUN_RESTARTS_H

#include <uv.h>

#include "launcher/run/cmd_run.h"
#include "launcher/run/run_monitor.h"

struct run_restarts;

/* `start` is called from the loop when an attempt is due. Borrows the options, whose spec it makes
 * into that of the next attempt. */
struct run_restarts *run_restarts_open(uv_loop_t *loop, struct run_options *o,
                                       void (*start)(void *arg), void *arg);
/* Its handle closes on the loop's next turn. May be NULL. */
void run_restarts_close(struct run_restarts *a);

/* The job `p` has ended with `status`; `unwanted` as restart_end has it. True where it is started
 * again, which is said (to people and to `w`). */
bool run_restarts_attempt_ended(struct run_restarts *a, const struct plan *p,
                                const struct job_end *end, int status, bool unwanted,
                                struct run_monitor *w);
/* The attempt that runs, or the next one: 0 is the first. */
int run_restarts_attempt(const struct run_restarts *a);

#endif
