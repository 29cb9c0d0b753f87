/* sweep_run - runs a sweep in this process, and prints its progress and its result. */
#pragma once

#include "common/err.h"
#include "hpo/cmd/sweep_options.h"
#include "hpo/coordinator/coordinator.h"
#include "hpo/store/sweep_dir.h"

/* Opens the sweep's directory as `d` says and coordinates the sweep until it ends or is stopped.
 * `c` is complete except for its directory. `notices` (a strv) is printed if the warm start counts,
 * since a stored sweep keeps what it learned at its start. Returns the exit status; a failure is
 * described in `e`. */
int sweep_run(struct coordinator_opts *c, struct spec *spec, const struct sweep_dir_opts *d,
              char **notices, const struct sweep_options *o, struct err *e);

/* Prints each of the strv `texts`, unless --quiet. */
void sweep_run_print_notices(char **texts, const struct sweep_options *o);
