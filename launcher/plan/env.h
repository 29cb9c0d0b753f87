/* env - environments of ranks: which variables a job inherits, which it sets for all ranks, and
 * which for each rank.
 *
 * An environment is a NULL-terminated array of "NAME=value" that owns its strings (common/mem.h:
 * strv). The functions do not read the environment of this process; callers pass it. */
#pragma once

#include <stdbool.h>

#include "launcher/plan/plan.h"

/* Plug-ins of hwloc that ranks and mpirun must not load. By default MPI_Init and mpirun load them,
 * and with them libxml2, ICU, OpenCL and X11, which takes a tenth of the time of MPI_Init or
 * mpirun. hwloc can read XML without libxml2. Its GPU plug-in for CUDA is still loaded. */
#define ENV_HWLOC_BLACKLIST "HWLOC_PLUGINS_BLACKLIST"
#define ENV_HWLOC_BLACKLIST_VALUE "hwloc_xml_libxml.so,hwloc_opencl.so,hwloc_gl.so"

/* The layer of Open MPI that uses the transports below, and not libraries such as UCX. */
#define ENV_MPI_LAYER "OMPI_MCA_pml"
#define ENV_MPI_LAYER_VALUE "ob1"
/* The transports of Open MPI on one node, unless the user chooses others. Open MPI 5 knows "vader"
 * as another name of its "sm". */
#define ENV_MPI_TRANSPORTS "OMPI_MCA_btl"
#define ENV_MPI_SHARED_MEMORY "self,vader"
#define ENV_MPI_SHARED_MEMORY_AND_TCP ENV_MPI_SHARED_MEMORY ",tcp"

/* Returns the value of `name`, borrowed; NULL: not set. If a name occurs twice, the last one
 * counts. `env` may be NULL. */
const char *env_get(char *const *env, const char *name);

/* Sets NAME to a formatted value: replaces its entry, or appends one. */
void env_set(char ***env, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Returns the value that the user has given to the variable `name`, or NULL if the user has not set
 * it. This is the value of -x if `user` has one, else the inherited value in `base`. `user` has the
 * form of launch_spec.env: "NAME=value" sets a value, "NAME" passes on the value in `base`. The
 * result is borrowed from `user` or `base`. */
const char *env_user_value(char *const *base, char *const *user, const char *name);

/* Returns true for a variable that a launcher sets for its ranks (PMIX_RANK, OMPI_COMM_WORLD_*,
 * PMI_FD, SLURM_PROCID, RANK, …). A job that runs inside such a rank must not use these variables
 * as its own. Returns false for variables that users set for their programs (OMPI_MCA_*,
 * PMIX_MCA_*, SLURM_JOB_ID), except for those that launchers set. `base` shows which variables an
 * outer drover has set. */
bool env_is_from_launcher(char *const *base, const char *name);

/* Returns the whole environment of a rank: the inherited variables of `base`, then `job`
 * (plan.env), then `rank` (plan_rank.env). Each name occurs once, with its last value, and the
 * names are sorted. The caller frees the result (strv_free). All arguments may be NULL. The cost is
 * n log n: a fraction of a millisecond for 500 variables. */
char **env_merge(char *const *base, char *const *job, char *const *rank);
/* Returns all variables of `own`, and those of `common` whose names are not in `own`. Each name
 * must occur only once in `own`. The strings are borrowed, so the caller frees the result with
 * free(). */
char **env_overlay(char *const *common, char *const *own);

/* Returns the variables that the job `p` of `s` sets for every rank: torchrun's variables per job,
 * DROVER_JOB_ID, DROVER_RESTART_COUNT, and the user's -x. If drover serves PMIx, there are also
 * variables that let MPI programs start without mpirun. Values that the user has set stay
 * (env_user_value()). The result does not contain MASTER_PORT, which the launcher holds, nor
 * MASTER_ADDR of a job over several nodes. The caller frees it.
 *
 * No variable sets NCCL's network cards. NCCL finds the cards nearest to each GPU in the PCI tree
 * in /sys, all of which the ranks see ("NCCL_TOPO_FILE" and "NCCL_NET_GDR_LEVEL" in its manual).
 * NCCL_IB_HCA would prevent NCCL's choice between several equally near cards, and its rings need
 * the same value on all ranks of a node. */
char **env_job(const struct plan *p, const struct launch_spec *s, char *const *base);

/* Sets OMPI_MCA_orte_hnp_uri, in which JAX looks for the address of rank 0
 * (jax/_src/clusters/ompi_cluster.py). JAX computes the port of its coordinator from the number of
 * the job, so the number follows from `job_id`. No process listens at the port in the URI. Ranks of
 * Open MPI do not need it, since they find their daemon through PMIx. */
void env_set_hnp_uri(char ***env, const char *address, const char *job_id);

/* Returns the variables of rank `r` of `p` in addition to those of env_job(): torchrun's RANK,
 * LOCAL_RANK, …; Open MPI's OMPI_COMM_WORLD_RANK, … and hydra's MPI_LOCALRANKID, … if the job has a
 * PMIx server; OMP_NUM_THREADS unless the user has set it; DROVER_RANK_*. `oversubscribed` is true
 * if the node has fewer CPU units than ranks. The caller frees it. */
char **env_rank(const struct plan *p, const struct plan_rank *r, const struct launch_spec *s,
                char *const *base, bool oversubscribed);
