/* cmd_bench_control - control runs after a --verdict run that failed or gave wrong elements. */
#pragma once

#include "collectives/bench/cmd/cmd_bench_opts.h"

/* Set in a control run, and for its ranks: nothing is saved, and no further control run follows. */
#define CMD_BENCH_CONTROL_ENV "DROVER_BENCH_CONTROL"

/* Status of a rank, and of a control run, whose collectives failed or gave wrong elements. */
enum { CMD_BENCH_CONTROL_STATUS = 3 };

/* Runs the command line `argv` again without one transport after the other, and prints which one is
 * at fault to stderr. */
void cmd_bench_control(char *const *argv, const struct cmd_bench_opts *o);
