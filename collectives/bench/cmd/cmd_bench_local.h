/* cmd_bench_local - `drover bench gemm` and `drover bench copy` on their ranks: which devices a
 * rank measures, and the table of all devices. */
#pragma once

#include "collectives/bench/cmd/cmd_bench_opts.h"
#include "launcher/client/rank_identity.h"

/* Measures this rank's devices, and prints the rows of all ranks on rank 0. With as many ranks on a
 * node as GPUs, each measures one GPU; a single rank measures all of them, one after the other.
 * Copies are measured by one rank of a node at a time, since GPUs may share a link. `gpus`: on
 * GPUs, and not on CPUs. Returns 1 on rank 0 if a result is wrong, else 0, or a negative errno. */
int cmd_bench_local(const struct rank_identity *me, const struct cmd_bench_opts *o, bool gpus,
                    struct err *e);
