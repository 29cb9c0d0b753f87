/* start_condition - waits until a command of the user succeeds (`--start-when`). */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "launcher/limits/job_limits.h"

struct start_condition {
    const char *program; /* prefix of messages */
    const char *command; /* for the shell */
    double pause_max_s;  /* between two runs of the command; the pause begins with a second and
                            doubles */
    const struct job_limits *limits; /* for the deadline */
    bool quiet;                      /* do not say what is awaited */
};

/* Runs the command until it exits with status 0. Call it while this process has no threads and no
 * other children. Returns 0, or the exit status of `drover run` if the wait has ended without
 * success: 128 + N for signal N, JOB_LIMITS_STATUS if the deadline has passed.
 *   -ENOENT, -EACCES  the shell cannot run the command: a further run would not succeed */
int start_condition_wait(const struct start_condition *c, struct err *e);
