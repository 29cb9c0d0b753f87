/* cmd_bench_env - the variables that `drover bench` reads: nccl-tests', and one for tests. */
#ifndef DROVER_CMD_BENCH_ENV_H
#define DROVER_CMD_BENCH_ENV_H

#include "collectives/bench/cmd/cmd_bench_opts.h"

/* Reads the variables, after the command line, into `o`; free o->bench.traffic in each case. A
 * variable without a value counts as not set. -EINVAL, -ERANGE  a value is invalid */
int cmd_bench_env_read(struct cmd_bench_opts *o, struct err *e);

/* Appends "NAME=value" for the variables that all ranks must read alike, on every node. */
void cmd_bench_env_pass(char ***env);

#endif
