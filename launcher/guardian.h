/* guardian - the small process that is parent of ranks and outlives nothing.
 *
 * Forked before this process has a thread. It is a subreaper in a session of its own: it forks,
 * binds and execs ranks as it is told, waits for them, reports every exit, and when the lifeline
 * closes (its launcher ended, by whatever means) it kills all that descends from it, setsid or not,
 * and ends. */
#ifndef DROVER_GUARDIAN_H
#define DROVER_GUARDIAN_H

#include <sys/types.h>

#include "common/err.h"
#include "common/mem.h"

struct guardian;

/* Forks it and makes this process a subreaper too. Call first thing in main: no thread, no loop. */
int guardian_start(struct guardian **out, struct err *e);

/* Closes the lifeline, waits for the guardian's end (it kills what is left first) and frees. */
void guardian_stop(struct guardian *g);
AUTO_DEFINE(guardian, struct guardian *, guardian_stop)

pid_t guardian_pid(const struct guardian *g);

#endif
