/* env - environments: what a job inherits, what it sets for itself and for each rank.
 *
 * An environment is a NULL-terminated array of "NAME=value" that owns its strings (common/mem.h:
 * strv). Nothing here reads the process's own: it is handed in. */
#ifndef DROVER_ENV_H
#define DROVER_ENV_H

#include <stdbool.h>

#include "launcher/plan/plan.h"

/* MPI_Init and mpirun load hwloc's plug-ins, and these bring libxml2 with ICU, OpenCL and X11: a
 * tenth of their time. hwloc reads XML without the first, too; its GPUs are CUDA's. */
#define ENV_HWLOC_BLACKLIST "HWLOC_PLUGINS_BLACKLIST"
#define ENV_HWLOC_BLACKLIST_VALUE "hwloc_xml_libxml.so,hwloc_opencl.so,hwloc_gl.so"

/* The value of `name`, borrowed; NULL where it is not set. Where a name stands twice the last
 * counts. `env` may be NULL. */
const char *env_get(char *const *env, const char *name);

/* Sets NAME to a formatted value: in its place where it has one, else at the end. */
void env_set(char ***env, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The value that the user gives `name`: with -x (`user`, as launch_spec.env: "NAME=value" sets,
 * "NAME" passes the value in `base` on), else in what is inherited of `base`. NULL: none.
 * Borrowed from either. */
const char *env_user_value(char *const *base, char *const *user, const char *name);

/* True for a variable that a launcher sets for its ranks, so that a job started inside one does
 * not take it for its own: PMIX_RANK, OMPI_COMM_WORLD_*, PMI_FD, SLURM_PROCID, RANK, … What users
 * set for their programs (OMPI_MCA_*, PMIX_MCA_*, SLURM_JOB_ID) is none, unless a launcher sets
 * just that. `base` tells what an outer drover has set. */
bool env_is_from_launcher(char *const *base, const char *name);

/* A rank's whole environment: what is inherited of `base`, then `job` (plan.env), then `rank`
 * (plan_rank.env). Each name once, the last wins; in the order of their names. To be freed
 * (strv_free). All may be NULL. Cost n log n: a fraction of a millisecond for 500 variables. */
char **env_merge(char *const *base, char *const *job, char *const *rank);
/* All of `own`, each name once, and of `common` what is not in it. The strings stay theirs: free()
 * frees the result. */
char **env_overlay(char *const *common, char *const *own);

/* What the job `p` of `s` sets for every rank: the rest of torchrun's contract, DROVER_JOB_ID and
 * DROVER_RESTART_COUNT, with the local engine what makes Open MPI start on one node without mpirun,
 * and, last, the user's -x. What the user has set
 * (env_user_value) is left alone. MASTER_PORT is the launcher's, who holds it, and of several nodes
 * MASTER_ADDR too. To be freed.
 *
 * Nothing tells NCCL its network cards: it looks for the ones nearest to each GPU itself, on the
 * PCI tree in /sys, which the ranks see whole ("NCCL_TOPO_FILE" and "NCCL_NET_GDR_LEVEL" of its
 * manual). NCCL_IB_HCA for a rank would take from it the choice between several equally near, and
 * must be alike on all ranks of a node for its rings. */
char **env_job(const struct plan *p, const struct launch_spec *s, char *const *base);

/* What rank `r` of `p` has beyond that: torchrun's RANK, LOCAL_RANK, …, Open MPI's
 * OMPI_COMM_WORLD_RANK, … where the job is served with PMIx, OMP_NUM_THREADS unless the user has
 * set it, DROVER_RANK_*. `crowded`: its node has fewer CPUs than ranks. To be freed. */
char **env_rank(const struct plan *p, const struct plan_rank *r, const struct launch_spec *s,
                char *const *base, bool crowded);

#endif
