/* launcher_failure - explains the output of mpirun, ssh and srun when they cannot start an agent:
 * which host, at which step, the cause, and what helps. Pure. */
#pragma once

#include <stdbool.h>

#include "common/err.h"

/* Finds the most exact cause in `lines`; the interface is that of remote_launcher.find_failure.
 * Messages of ssh are more exact than those of mpirun, which guesses. `lines` is NULL-terminated,
 * oldest first. A host that a line names precedes `host`, which may be NULL. */
bool launcher_failure_find(struct err *e, const char *host, const char *const *lines);
