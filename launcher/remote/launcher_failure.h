/* launcher_failure_find - what mpirun, ssh and srun say when they cannot start something, in one
 * line: which host, at which step, why, and what helps. Pure. */
#ifndef DROVER_LAUNCHER_FAILURE_H
#define DROVER_LAUNCHER_FAILURE_H

#include <stdbool.h>

#include "common/err.h"

/* As struct remote_launcher's `cause`. The most exact that any of the lines says: ssh's own words
 * stand before mpirun's, which guess. `lines` are NULL-terminated, oldest first. */
bool launcher_failure_find(struct err *e, const char *const *lines);

#endif
