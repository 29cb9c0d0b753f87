/* cmd_run - carries out `drover run` and `drover torchrun` after their options were read: prints
 * the plan, or runs the job. */
#pragma once

#include "common/err.h"
#include "launcher/run/run_options.h"

/* Prints the plan if --dry-run is set, else runs the job in the foreground. Prints errors. Returns
 * the exit status. */
int cmd_run_job(struct run_options *o);
/* Prints why nothing was started. Returns the exit status. */
int cmd_run_usage_error(const struct run_options *o, const struct err *e);
