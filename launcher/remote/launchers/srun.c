#include <string.h>

#include "common/mem.h"
#include "launcher/plan/env.h"
#include "launcher/plan/rank_spec.h"
#include "launcher/remote/launcher_failure.h"
#include "launcher/remote/remote_launcher.h"

/* What sbatch and salloc put into the environment for their own options. srun takes it as if it
 * had been typed (srun(1), INPUT ENVIRONMENT VARIABLES), and it speaks of other tasks than ours. */
static bool is_for_tasks(const char *entry)
{
    static const char *const names[] = {"SLURM_NTASKS",
                                        "SLURM_NPROCS",
                                        "SLURM_NTASKS_PER_NODE",
                                        "SLURM_NTASKS_PER_CORE",
                                        "SLURM_NTASKS_PER_GPU",
                                        "SLURM_NTASKS_PER_SOCKET",
                                        "SLURM_NTASKS_PER_TRES",
                                        "SLURM_CPUS_PER_TASK",
                                        "SRUN_CPUS_PER_TASK",
                                        "SLURM_CPUS_PER_GPU",
                                        "SLURM_GPUS_PER_TASK",
                                        "SLURM_TRES_PER_TASK",
                                        "SLURM_GPUS_PER_SOCKET",
                                        "SLURM_GPU_BIND",
                                        "SLURM_DISTRIBUTION",
                                        "SLURM_THREADS_PER_CORE",
                                        "SLURM_CORE_SPEC",
                                        "SLURM_HINT",
                                        "SLURM_EXCLUSIVE",
                                        "SLURM_EXACT",
                                        "SLURM_OPEN_MODE",
                                        "SLURM_STDINMODE",
                                        "SLURM_STDOUTMODE",
                                        "SLURM_STDERRMODE",
                                        "SLURM_LABELIO",
                                        "SLURM_WAIT",
                                        "SLURM_KILL_BAD_EXIT",
                                        "SLURM_EXPORT_ENV",
                                        "SLURM_CPU_BIND",
                                        "SLURM_MEM_BIND",
                                        "SLURM_MPI_TYPE",
                                        "SLURM_NNODES",
                                        "SLURM_NUM_NODES",
                                        "SLURM_WORKING_DIR",
                                        "SLURM_REMOTE_CWD",
                                        "SLURM_SRUN_MULTI",
                                        "SLURM_STEP_GRES",
                                        "SLURM_MEM_PER_CPU",
                                        "SLURM_MEM_PER_GPU",
                                        "SLURM_HOSTFILE",
                                        "SLURM_ARBITRARY_NODELIST"};
    size_t len = strcspn(entry, "=");
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (strlen(names[i]) == len && strncmp(entry, names[i], len) == 0)
            return true;
    return false;
}

/* srun passes the rest on to every node. */
static void drop_what_is_ours(char **env)
{
    size_t kept = 0;
    for (size_t i = 0; env && env[i]; i++) {
        if (is_for_tasks(env[i]) || rank_spec_is_host_env(env[i]))
            free(env[i]);
        else
            env[kept++] = env[i];
    }
    if (env)
        env[kept] = NULL;
}

/* Slurm 20.11 and later. Task i runs on line i of SLURM_HOSTFILE (--distribution=arbitrary).
 * Nothing is bound, since `drover rank` binds its rank, and CPUs are shared with other steps and
 * among tasks: we placed. A `drover rank` that ends, early or not, ends no other; what the job
 * then does is ours to say. In / because the directory of here need not be there. The words of
 * mpirun's (--mca) are none of srun's. */
static int argv_slurm(char ***argv, char ***env, const struct remote_launcher_opts *j,
                      struct err *e)
{
    const char *const words[] = {j->program,
                                 "--mpi=pmix",
                                 "--distribution=arbitrary",
                                 "--cpu-bind=none",
                                 "--mem-bind=none",
                                 "--overlap",
                                 "--overcommit",
                                 "--kill-on-bad-exit=0",
                                 "--wait=0",
                                 "--export=ALL",
                                 "--input=none",
                                 "--unbuffered",
                                 "--job-name=drover",
                                 "--chdir=/"};
    drop_what_is_ours(*env);
    env_set(env, "SLURM_HOSTFILE", "%s", j->hostfile);
    for (size_t i = 0; i < COUNT_OF(words); i++)
        strv_push(argv, xstrdup(words[i]));
    strv_push(argv, xasprintf("--nodes=%d", j->plan->node_count));
    strv_push(argv, xasprintf("--ntasks=%d", j->plan->world_size));
    strv_push(argv, xstrdup(j->drover_rank));
    return 0;
}

const struct remote_launcher remote_launcher_srun = {.program = "srun",
                                                     .package = "slurm-client",
                                                     .argv = argv_slurm,
                                                     .cause = launcher_failure_find};
