/* check_run - runs checks in a child process, each with its own deadline.
 *
 * A check that does not return in time fails, and its child is abandoned: a process that waits
 * inside the kernel cannot be ended. Another child continues with the next check. */
#pragma once

#include "common/err.h"
#include "launcher/doctor/core/check.h"

/* Runs the rows that `env` selects. `out` has one result for each of the `count` rows; a row that
 * is not run is skipped without a value. A check whose needs failed or were skipped is skipped.
 * Call it from a process with one thread. Returns 0, or the error of fork() or socketpair(). */
int check_run(struct check_result *out, const struct check *rows, size_t count,
              struct check_env *env, struct err *e);
