/* spawn - one rank's process: fork, descriptors, directory, binding, exec. What fails after the
 * fork comes back through a pipe that a successful exec closes. */
#ifndef DROVER_SPAWN_H
#define DROVER_SPAWN_H

#include <sys/types.h>

#include "launcher/guardian.h"

enum spawn_step { SPAWN_FORK, SPAWN_CHDIR, SPAWN_BIND, SPAWN_EXEC };

/* "fork", "chdir", "bind", "exec". */
const char *spawn_step_name(int step);

/* Forks a process that becomes `r`: a group of its own, SIGKILL when this thread ends, r's four
 * descriptors as 0 to 3 and no others, default signal handlers, nothing blocked. Call from a
 * process that has one thread. `*result_fd` is for spawn_result(), the caller closes it; readable
 * once the outcome is known. On failure nothing was started and `*step` says at what. */
int spawn_start(pid_t *pid, int *result_fd, const struct guardian_rank *r, enum spawn_step *step);

/* Without waiting: 1: the program runs (or its process was killed before it did); 0: not known
 * yet; -errno: `*step` failed, and the process is about to exit. */
int spawn_result(int result_fd, enum spawn_step *step);

#endif
