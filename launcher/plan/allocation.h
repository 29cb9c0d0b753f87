/* allocation - hosts and slots that a batch system or an operator has granted, read from the
 * environment.
 *
 *     Slurm            SLURM_JOB_NODELIST, SLURM_TASKS_PER_NODE, SLURM_GPUS_ON_NODE, …
 *     PBS, Torque      PBS_NODEFILE
 *     LSF              LSB_DJOB_HOSTFILE, LSB_MCPU_HOSTS
 *     Grid Engine      PE_HOSTFILE
 *     mpi-operator     OMPI_MCA_orte_default_hostfile, PRTE_MCA_prte_default_hostfile,
 *                      HYDRA_HOST_FILE, I_MPI_HYDRA_HOST_FILE
 *
 * Parsers are pure: their input is an environment (strv) or the text of a file. Errors name the
 * variable. */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "launcher/plan/hosts.h"

/* Reads the first allocation that `env` describes, in the order above, and the files that its
 * variables name. Returns 1 and sets `*out`, or returns 0 if there is no allocation.
 *   -EINVAL, -ENOENT, …  a value is malformed, or its file cannot be read */
int allocation_find(struct hosts **out, char *const *env, struct err *e);

/* Reads Slurm's allocation. Returns 1, or 0 outside an allocation. A node has one slot per task. If
 * the nodes have GPUs and the user requested no tasks or one task per node, a node has one slot per
 * GPU. */
int allocation_slurm(struct hosts **out, char *const *env, struct err *e);

/* Sets `*out` to the names in Slurm's "n[001-003,7],m5" (strv).
 *   -EINVAL  malformed; -E2BIG  more than HOSTS_MAX names */
int allocation_nodelist(char ***out, const char *list, struct err *e);

/* Parses the value of LSB_MCPU_HOSTS: "a 4 b 4". */
int allocation_lsf(struct hosts **out, const char *value, struct err *e);

/* Parses PBS_NODEFILE and LSB_DJOB_HOSTFILE, which have one name per line; each line of a host
 * gives it one slot. With `with_slots`, parses Grid Engine's PE_HOSTFILE: one "host slots queue
 * processors" per line. `what` names the file in errors. */
int allocation_lines(struct hosts **out, const char *what, const char *text, bool with_slots,
                     struct err *e);

/* Returns true if every host of `h` is this machine or a node of the Slurm allocation in `env`. */
bool allocation_slurm_has(char *const *env, const struct hosts *h);
