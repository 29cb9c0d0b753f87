/* run_restarts - implements --max-restarts: decides if a job is restarted, and waits before the
 * next attempt. */
#pragma once

#include "launcher/run/features/feature.h"
#include "launcher/watch/first_cause.h"

struct run_restarts;

/* The loop calls `on_due` when the pause before an attempt is over. Borrows the run and changes its
 * spec for each attempt. */
struct run_restarts *run_restarts_open(struct feature_run *run, void (*on_due)(void *arg),
                                       void *arg);
/* Stops the timer. The handle closes in the loop's next iteration. `r` may be NULL. */
void run_restarts_close(struct run_restarts *r);

/* Decides what follows after an attempt that had the plan `p`, ended with `status`, and failed
 * because of `c`. If the cause forbids a restart, prints why. Returns true if a restart is due. The
 * options then have the spec of the next attempt, and the caller must call
 * run_restarts_start_timer(). `by_user` is true if the user stopped the attempt. */
bool run_restarts_attempt_ended(struct run_restarts *r, const struct plan *p,
                                const struct job_end *end, const struct first_cause *c, int status,
                                bool by_user);
/* Announces the restart and starts the pause before it. */
void run_restarts_start_timer(struct run_restarts *r);
