#include <string.h>

#include "common/mem.h"
#include "launcher/plan/env.h"
#include "launcher/plan/node_spec.h"
#include "launcher/remote/launchers/launcher_failure.h"
#include "launcher/remote/remote_launcher.h"

/* Returns true if sbatch or salloc sets the variable for one of their options. srun reads such
 * variables like options of its command line (srun(1), INPUT ENVIRONMENT VARIABLES). But they
 * describe the user's tasks, not the agents. */
static bool is_task_option(const char *entry)
{
    static const char names[] =
        " SLURM_NTASKS SLURM_NPROCS SLURM_NTASKS_PER_NODE SLURM_NTASKS_PER_CORE "
        "SLURM_NTASKS_PER_GPU SLURM_NTASKS_PER_SOCKET SLURM_NTASKS_PER_TRES "
        "SLURM_CPUS_PER_TASK SRUN_CPUS_PER_TASK SLURM_CPUS_PER_GPU SLURM_GPUS_PER_TASK "
        "SLURM_TRES_PER_TASK SLURM_GPUS_PER_SOCKET SLURM_GPU_BIND SLURM_DISTRIBUTION "
        "SLURM_THREADS_PER_CORE SLURM_CORE_SPEC SLURM_HINT SLURM_EXCLUSIVE SLURM_EXACT "
        "SLURM_OPEN_MODE SLURM_STDINMODE SLURM_STDOUTMODE SLURM_STDERRMODE SLURM_LABELIO "
        "SLURM_WAIT SLURM_KILL_BAD_EXIT SLURM_EXPORT_ENV SLURM_CPU_BIND SLURM_MEM_BIND "
        "SLURM_MPI_TYPE SLURM_NNODES SLURM_NUM_NODES SLURM_WORKING_DIR SLURM_REMOTE_CWD "
        "SLURM_SRUN_MULTI SLURM_STEP_GRES SLURM_MEM_PER_CPU SLURM_MEM_PER_GPU SLURM_HOSTFILE "
        "SLURM_ARBITRARY_NODELIST ";
    AUTO(free) char *word = xasprintf(" %.*s ", (int)strcspn(entry, "="), entry);
    return strstr(names, word);
}

/* Removes variables that must not reach the other nodes, since srun passes on its whole
 * environment. */
static void drop_local_env(char **env)
{
    size_t kept = 0;
    for (size_t i = 0; env && env[i]; i++) {
        if (is_task_option(env[i]) || node_spec_is_host_env(env[i]))
            free(env[i]);
        else
            env[kept++] = env[i];
    }
    if (env)
        env[kept] = NULL;
}

/* Builds the command line for srun of Slurm 20.11 and later. Task i runs on the host in line i of
 * SLURM_HOSTFILE (--distribution=arbitrary). A task has all CPUs and GPUs of its node, and shares
 * them with other steps. srun binds nothing, since each agent binds its ranks. When an agent exits,
 * srun does not end the other agents: drover decides what happens to the job. The agents start in /
 * because the current directory may not exist on their nodes. mpirun's arguments (--mca) have no
 * meaning for srun. */
static int srun_argv(char ***argv, char ***env, const struct remote_launcher_opts *o, struct err *e)
{
    drop_local_env(*env);
    env_set(env, "SLURM_HOSTFILE", "%s", o->hostfile);
    strv_push(argv, xstrdup(o->program));
    remote_launcher_push(argv,
                         "--mpi=none --distribution=arbitrary --cpu-bind=none --mem-bind=none "
                         "--overlap --overcommit --kill-on-bad-exit=0 --wait=0 --export=ALL "
                         "--input=none --unbuffered --job-name=drover --chdir=/ --nodes=%d "
                         "--ntasks=%d",
                         o->plan->node_count, o->plan->node_count);
    strv_push(argv, xstrdup(o->drover));
    strv_push(argv, xstrdup(REMOTE_AGENT_COMMAND));
    return 0;
}

static const char *const env_prefixes[] = {"PMIX_", "PMI_", "SLURM_", NULL};
static const char *const node_env[] = {"PMIX_RANK", "SLURM_PROCID", NULL};

const struct remote_launcher remote_launcher_srun = {.word = "slurm",
                                                     .program = "srun",
                                                     .package = "slurm-client",
                                                     .env_prefixes = env_prefixes,
                                                     .node_env = node_env,
                                                     .argv = srun_argv,
                                                     .find_failure = launcher_failure_find};
