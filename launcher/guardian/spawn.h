/* spawn - one rank's process: descriptors, directory, binding, exec. The child shares our memory
 * until it executes its program (clone(2), CLONE_VM | CLONE_VFORK), so nothing is copied for it and
 * what fails on the way is known at once. */
#ifndef DROVER_SPAWN_H
#define DROVER_SPAWN_H

#include <sys/types.h>

#include "launcher/guardian/guardian.h"

enum spawn_step { SPAWN_FORK, SPAWN_CHDIR, SPAWN_CGROUP, SPAWN_BIND, SPAWN_EXEC };

/* "fork", "chdir", "cgroup", "bind", "exec". */
const char *spawn_step_name(int step);

/* Starts a process that becomes `r`: a group of its own, SIGKILL when this thread ends, r's
 * descriptors as 0 to 4 and no others, no signal blocked; those that we ignore it ignores too.
 * Returns 0 when the program runs (or its process was killed before it did), or a negative errno:
 * nothing was started, and `*step` says at what. This thread stands still meanwhile; it is to be
 * the only one. */
int spawn_start(pid_t *pid, const struct guardian_rank *r, enum spawn_step *step);

/* No signal is ignored or handled from now on: once for all that is started, instead of some sixty
 * system calls in each child, for which we would stand still. */
void spawn_default_signals(void);

#endif
