/* cmd_bench_env - reads the variables of `drover bench`: those of nccl-tests, and one for tests. */
#pragma once

#include "collectives/bench/cmd/cmd_bench_opts.h"

/* Reads the variables into `o`, which already has the command line. The caller frees
 * o->bench.traffic in every case. A variable without a value counts as not set.
 *   -EINVAL, -ERANGE  a value is invalid */
int cmd_bench_env_read(struct cmd_bench_opts *o, struct err *e);

/* Appends "NAME=value" for each variable that must be the same for all ranks on all nodes. */
void cmd_bench_env_pass(char ***env);
