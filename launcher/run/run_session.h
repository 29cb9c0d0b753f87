/* run_session - one `drover run` in the foreground: the attempts of a job, its output on stdout and
 * stderr, and its exit status.
 *
 * run_session_state.h has the states; entering one performs its actions. */
#pragma once

#include "common/err.h"
#include "launcher/run/run_options.h"

/* Runs the job until it ends. `*status` is then the exit status. Returns a negative errno if no
 * rank was started; `*status` is 0 then if the options are the cause. -ECANCELED: a check of this
 * machine has failed that would break the job. */
int run_session(int *status, struct run_options *o, struct err *e);
