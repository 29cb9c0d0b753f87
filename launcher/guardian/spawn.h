/* spawn - starts the process of one rank: descriptors, directory, binding, exec.
 *
 * The child shares this process's memory until it executes its program (clone(2), CLONE_VM |
 * CLONE_VFORK), so nothing is copied for it, and an error on the way is known at once. */
#ifndef DROVER_SPAWN_H
#define DROVER_SPAWN_H

#include <sys/types.h>

#include "launcher/guardian/guardian.h"

enum spawn_step { SPAWN_FORK, SPAWN_CHDIR, SPAWN_CGROUP, SPAWN_BIND, SPAWN_EXEC };

/* Returns "fork", "chdir", "cgroup", "bind" or "exec". */
const char *spawn_step_name(int step);

/* Starts a process that becomes `r`: with its own group, SIGKILL when this thread ends, r's
 * descriptors as 0 to 4 and no others, and no blocked signal; it ignores the signals that this
 * process ignores. Returns 0 when the program runs (or its process was killed before), or a
 * negative errno: nothing was started, and `*step` is what failed. Blocks this thread, which must
 * be the only one. */
int spawn_start(pid_t *pid, const struct guardian_rank *r, enum spawn_step *step);

/* Restores the default of every signal in this process: once for all ranks, instead of some sixty
 * system calls in each child, for which this process would wait. */
void spawn_default_signals(void);

#endif
