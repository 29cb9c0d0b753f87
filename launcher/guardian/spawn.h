/* spawn - starts the process of one rank: descriptors, directory, binding, exec.
 *
 * The child shares this process's memory until it executes its program (clone(2), CLONE_VM |
 * CLONE_VFORK). So no memory is copied for the child, and this process immediately knows an error
 * of the child. */
#pragma once

#include <sys/types.h>

#include "launcher/guardian/guardian.h"

enum spawn_step { SPAWN_FORK, SPAWN_CHDIR, SPAWN_CGROUP, SPAWN_BIND, SPAWN_EXEC };

/* Returns "fork", "chdir", "cgroup", "bind" or "exec". */
const char *spawn_step_name(int step);

/* Starts the process of the rank `r`. The process has a process group of its own, only r's
 * descriptors (as 0 to 4), and no blocked signal. It gets SIGKILL when this thread ends, and
 * ignores the signals that this process ignores. Returns 0 when the program runs, or if its process
 * was killed before. Returns a negative errno if no process was started; `*step` is then the step
 * that failed. Blocks this thread, which must be the only one. */
int spawn_start(pid_t *pid, const struct guardian_rank *r, enum spawn_step *step);

/* Restores the default action of every signal in this process. This is done once for all ranks.
 * Otherwise each child would need about sixty system calls, for which this process would wait. */
void spawn_default_signals(void);
