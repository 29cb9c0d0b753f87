/* bench_processes - one job of several processes that another launcher has started, each with
 * several ranks: `mpirun -np N all_reduce_perf -g G`.
 *
 * As with nccl-tests, there are N times G ranks. The first process launches the job. Over GPUs,
 * every process starts the agents of its own ranks: they see the GPUs that it sees. Without GPUs
 * the first process starts all ranks, and the others have nothing to do; MPI needs drover's PMIx
 * server for that, which serves the ranks of one node only. */
#ifndef DROVER_BENCH_PROCESSES_H
#define DROVER_BENCH_PROCESSES_H

#include "collectives/bench/cmd/bench_job.h"
#include "launcher/client/rank_identity.h"

/* How many ranks a process has; set for the ranks. */
#define BENCH_PROCESSES_ENV "DROVER_BENCH_OWN"

struct bench_processes {
    const struct rank_identity *me; /* of the processes */
    int per_process;                /* ranks */
    bool gpus;
};

/* Runs the job; its argv and env are those of the first process. Must be called before this process
 * has a second thread. Returns the job's exit status in the first process, 0 in the others, or a
 * negative errno:
 *   -EINVAL  no GPUs, and the processes are on several nodes */
int bench_processes_run(char *const *argv, char *const *env, const struct bench_processes *o,
                        struct err *e);

/* In a rank of such a job: sets the variables that its process has for itself, since a launcher or
 * a wrapper may give each process other GPUs. Call it before they are read. */
void bench_processes_set_env(void);

#endif
