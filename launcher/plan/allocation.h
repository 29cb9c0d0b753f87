/* alloc - hosts and slots that a batch system or an operator has given us, from the environment.
 *
 *     Slurm            SLURM_JOB_NODELIST, SLURM_TASKS_PER_NODE, SLURM_GPUS_ON_NODE, …
 *     PBS, Torque      PBS_NODEFILE
 *     LSF              LSB_DJOB_HOSTFILE, LSB_MCPU_HOSTS
 *     Grid Engine      PE_HOSTFILE
 *     mpi-operator     OMPI_MCA_orte_default_hostfile, PRTE_MCA_prte_default_hostfile,
 *                      HYDRA_HOST_FILE, I_MPI_HYDRA_HOST_FILE
 *
 * Parsers are pure: an environment (strv) or a file's text goes in. An error names the variable. */
#ifndef DROVER_ALLOCATION_H
#define DROVER_ALLOCATION_H

#include <stdbool.h>

#include "common/err.h"
#include "launcher/plan/hosts.h"

/* The allocation that `env` tells of, in the order above; reads the files that it names. Returns 1
 * and `*out`, or 0 where there is none. `*from` (may be NULL) is the name of the variable that
 * told, for messages; static.
 *   -EINVAL, -ENOENT, …  malformed, or its file cannot be read */
int allocation_find(struct hosts **out, const char **from, char *const *env, struct err *e);

/* Slurm's. Returns 1, or 0 outside an allocation. Slots: a node's tasks; but where nobody has asked
 * for tasks, or for one a node, and there are GPUs, one a GPU. */
int allocation_slurm(struct hosts **out, char *const *env, struct err *e);

/* Appends the names in Slurm's "n[001-003,7],m5" to `out` (strv).
 *   -EINVAL  malformed; -E2BIG  more than 16,384 names */
int allocation_nodelist(char ***out, const char *list, struct err *e);

/* LSB_MCPU_HOSTS: "a 4 b 4". */
int allocation_lsf(struct hosts **out, const char *value, struct err *e);

/* Grid Engine's PE_HOSTFILE: "host slots queue processors" a line. */
int allocation_sge(struct hosts **out, const char *what, const char *text, struct err *e);

/* PBS_NODEFILE and LSB_DJOB_HOSTFILE: a name a line, a slot for each time that it stands there. */
int allocation_names(struct hosts **out, const char *what, const char *text, struct err *e);

/* True where every host of `h` is a node of the allocation of Slurm that `env` tells of. */
bool allocation_slurm_has(char *const *env, const struct hosts *h);

#endif
