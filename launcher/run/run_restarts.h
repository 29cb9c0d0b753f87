/* run_restarts - --max-restarts: decides if a job is restarted, and waits before the next attempt.
 */
#ifndef DROVER_RUN_RESTARTS_H
#define DROVER_RUN_RESTARTS_H

#include <uv.h>

#include "launcher/engine/launch.h"
#include "launcher/run/run_monitor.h"
#include "launcher/run/run_options.h"

struct run_restarts;

/* `on_due` is called from the loop when the pause before an attempt is over. Borrows the options,
 * whose spec becomes that of the next attempt. */
struct run_restarts *run_restarts_open(uv_loop_t *loop, struct run_options *o,
                                       void (*on_due)(void *arg), void *arg);
/* Its handle closes in the loop's next iteration. May be NULL. */
void run_restarts_close(struct run_restarts *r);

/* Decides what follows an attempt with the plan `p` that ended with `status`. Returns true if a
 * restart is due: the options' spec is then that of the next attempt, and
 * run_restarts_start_timer() must follow. `by_user`: the user stopped the attempt. */
bool run_restarts_attempt_ended(struct run_restarts *r, const struct plan *p,
                                const struct job_end *end, int status, bool by_user);
/* Announces the restart through the monitor and starts the pause before it. */
void run_restarts_start_timer(struct run_restarts *r, struct run_monitor *monitor);
/* Returns the number of the present attempt, or of the next one if it is due; 0 is the first. */
int run_restarts_attempt(const struct run_restarts *r);

#endif
