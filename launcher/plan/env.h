/* env - environments: which variables a job inherits, and which it sets for all ranks and for each
 * rank.
 *
 * An environment is a NULL-terminated array of "NAME=value" that owns its strings (common/mem.h:
 * strv). The functions do not read the environment of this process; callers pass it. */
#ifndef DROVER_ENV_H
#define DROVER_ENV_H

#include <stdbool.h>

#include "launcher/plan/plan.h"

/* Plug-ins of hwloc that ranks and mpirun must not load. MPI_Init and mpirun load them, and they
 * bring libxml2 with ICU, OpenCL and X11, which takes a tenth of their time. hwloc reads XML
 * without libxml2, too, and its GPU plug-in for CUDA stays. */
#define ENV_HWLOC_BLACKLIST "HWLOC_PLUGINS_BLACKLIST"
#define ENV_HWLOC_BLACKLIST_VALUE "hwloc_xml_libxml.so,hwloc_opencl.so,hwloc_gl.so"

/* The transports of Open MPI on one node, unless the user chooses others. */
#define ENV_MPI_TRANSPORTS "OMPI_MCA_btl"
#define ENV_MPI_SHARED_MEMORY "self,vader"

/* Returns the value of `name`, borrowed; NULL: not set. If a name occurs twice, the last one
 * counts. `env` may be NULL. */
const char *env_get(char *const *env, const char *name);

/* Sets NAME to a formatted value: replaces its entry, or appends one. */
void env_set(char ***env, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Returns the value that the user has given `name`: with -x (`user`, as launch_spec.env:
 * "NAME=value" sets, "NAME" passes on the value in `base`), else the inherited value in `base`.
 * NULL: not set by the user. Borrowed from either. */
const char *env_user_value(char *const *base, char *const *user, const char *name);

/* Returns true for a variable that a launcher sets for its ranks (PMIX_RANK, OMPI_COMM_WORLD_*,
 * PMI_FD, SLURM_PROCID, RANK, …), so that a job inside such a rank does not mistake it for its
 * own. Variables that users set for their programs (OMPI_MCA_*, PMIX_MCA_*, SLURM_JOB_ID) do not
 * count, unless a launcher sets exactly that one. `base` shows what an outer drover has set. */
bool env_is_from_launcher(char *const *base, const char *name);

/* Returns the whole environment of a rank: the inherited variables of `base`, then `job`
 * (plan.env), then `rank` (plan_rank.env). Each name occurs once, the last value wins; sorted by
 * name. The caller frees it (strv_free). All arguments may be NULL. Cost n log n: a fraction of a
 * millisecond for 500 variables. */
char **env_merge(char *const *base, char *const *job, char *const *rank);
/* Returns all of `own`, in which each name occurs once, and those variables of `common` that `own`
 * does not have. The strings are borrowed: free() frees the result. */
char **env_overlay(char *const *common, char *const *own);

/* Returns the variables that the job `p` of `s` sets for every rank: torchrun's variables per job,
 * DROVER_JOB_ID and DROVER_RESTART_COUNT, with the local engine also what lets Open MPI start on
 * one node without mpirun, and, last, the user's -x. Keeps what the user has set
 * (env_user_value()). Does not contain MASTER_PORT, which the launcher holds, nor MASTER_ADDR of a
 * job over several nodes. The caller frees it.
 *
 * Nothing tells NCCL its network cards: it finds the ones nearest to each GPU itself, on the PCI
 * tree in /sys, which the ranks see whole ("NCCL_TOPO_FILE" and "NCCL_NET_GDR_LEVEL" of its
 * manual). NCCL_IB_HCA per rank would prevent its choice between several equally near cards, and
 * must be alike on all ranks of a node for its rings. */
char **env_job(const struct plan *p, const struct launch_spec *s, char *const *base);

/* Sets OMPI_MCA_orte_hnp_uri, in which JAX looks for the address of rank 0
 * (jax/_src/clusters/ompi_cluster.py). JAX computes the port of its coordinator from the number of
 * the job, so the number follows from `job_id`. No process listens at the port in the URI: the
 * ranks of an Open MPI that has such processes find theirs by PMIx. */
void env_set_hnp_uri(char ***env, const char *address, const char *job_id);

/* Returns the variables of rank `r` of `p` in addition to these: torchrun's RANK, LOCAL_RANK, …;
 * Open MPI's OMPI_COMM_WORLD_RANK, … and hydra's MPI_LOCALRANKID, … if the job has a PMIx server;
 * OMP_NUM_THREADS unless the user has set it; DROVER_RANK_*. `oversubscribed`: the node has fewer
 * CPU units than ranks. The caller frees it. */
char **env_rank(const struct plan *p, const struct plan_rank *r, const struct launch_spec *s,
                char *const *base, bool oversubscribed);

#endif
