/* bench_processes - runs one job for several processes that another launcher has started, each with
 * several ranks, as in `mpirun -np N all_reduce_perf -g G`.
 *
 * As with nccl-tests, there are N times G ranks. The first process launches the job. With GPUs,
 * every process starts an agent, which is a node of the job and starts the ranks of the process;
 * they then see the GPUs of this process. Without GPUs, the first process starts all ranks, and the
 * others have nothing to do. */
#pragma once

#include "collectives/bench/cmd/bench_job.h"
#include "launcher/client/rank_identity.h"

/* A variable for the ranks: the number of ranks per process. */
#define BENCH_PROCESSES_ENV "DROVER_BENCH_OWN"

struct bench_processes {
    const struct rank_identity *me; /* identity of this process among the processes */
    int per_process;                /* ranks */
    bool gpus;
};

/* Runs the job; its argv and env are those of the first process. Must be called before this process
 * has a second thread. Returns the job's exit status in the first process, 0 in the others, or a
 * negative errno:
 *   -EINVAL  no GPUs, and the processes are on several nodes */
int bench_processes_run(char *const *argv, char *const *env, const struct bench_processes *o,
                        struct err *e);

/* In a rank of such a job, sets the variables to the values of the rank's process, since a launcher
 * or a wrapper may give each process other GPUs, and the rank's numbers on its host. Call this
 * before the variables are read. */
void bench_processes_set_env(void);
