/* cmd_run - carries out `drover run` and `drover torchrun` after their options were read: prints
 * the plan, or runs the job. */
#pragma once

#include "common/err.h"
#include "launcher/run/run_options.h"

/* `parsed` is the result of reading the options, and `e` its error. Prints the plan if --dry-run is
 * set, else runs the job in the foreground. Prints errors. Returns the exit status. */
int cmd_run_job(struct run_options *o, int parsed, struct err *e);
