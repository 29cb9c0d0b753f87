/* run_restarts - implements --max-restarts and --spares: decides if a job is restarted, waits
 * before the next attempt, and chooses its nodes. */
#ifndef DROVER_RUN_RESTARTS_H
#define DROVER_RUN_RESTARTS_H

#include <uv.h>

#include "launcher/doctor/preflight.h"
#include "launcher/engine/launch.h"
#include "launcher/run/run_monitor.h"
#include "launcher/run/run_options.h"

struct run_restarts;

/* The loop calls `on_due` when the pause before an attempt is over. Borrows the options and changes
 * their spec for each attempt. */
struct run_restarts *run_restarts_open(uv_loop_t *loop, struct run_options *o,
                                       void (*on_due)(void *arg), void *arg);
/* Stops the timer. The handle closes in the loop's next iteration. `r` may be NULL. */
void run_restarts_close(struct run_restarts *r);

/* Decides what follows after an attempt that had the plan `p` and ended with `status`. Returns true
 * if a restart is due. The options then have the spec of the next attempt, and the caller must call
 * run_restarts_start_timer(). `by_user` is true if the user stopped the attempt. */
bool run_restarts_attempt_ended(struct run_restarts *r, const struct plan *p,
                                const struct job_end *end, int status, bool by_user);
/* Announces the restart through the monitor and starts the pause before it. */
void run_restarts_start_timer(struct run_restarts *r, struct run_monitor *monitor);
/* Chooses the nodes of the next attempt, if the job has more than it needs: asks all of them,
 * leaves out those that do not answer or fail a check, and logs which and why. They stay out.
 * Blocks for a few seconds. -ECANCELED  too few nodes are left */
int run_restarts_choose_nodes(struct run_restarts *r, struct err *e);
/* Measures the nodes of the next attempt (--preflight full). Errors are those of
 * preflight_measure() and preflight_judge(). */
int run_restarts_measure(const struct run_restarts *r, struct preflight *p, const struct topo *t,
                         struct err *e);
/* Judges the checks of an attempt's nodes. A node that would break the job is left out of later
 * attempts, and written to the file of --exclude-file; `*node` is its number in the plan. Errors
 * are those of preflight_judge(). */
int run_restarts_judge(struct run_restarts *r, struct preflight *p, const struct plan *plan,
                       int *node, struct err *e);
/* Returns the number of the present attempt, or of the next attempt if a restart is due. The first
 * attempt is 0. */
int run_restarts_attempt(const struct run_restarts *r);

#endif
