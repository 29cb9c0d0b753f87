/* rank_identity - reads the rank and the world size of this process from the environment that its
 * launcher has set. */
#pragma once

#include "common/err.h"

struct rank_identity {
    int rank, size;             /* in the job */
    int local_rank, local_size; /* on this node */
    int node;                   /* index of this node */
    const char *source;         /* the variable with the rank; NULL: not started as a rank */
};

/* Reads the variables with `get`, which is getenv() outside of tests. The first family that has
 * both a rank and a size is used: RANK and WORLD_SIZE (drover, torchrun), OMPI_COMM_WORLD_*
 * (mpirun), PMI_* (MPICH, PALS), SLURM_* inside a step of srun. Without any of these, the identity
 * is rank 0 of 1. If there is no local rank, the job is assumed to run on one node. If there is no
 * node number, nodes are assumed to be filled one after another.
 *   -EINVAL  a value is not a number or out of range, or a rank is set without a world size */
int rank_identity_read(struct rank_identity *out, const char *(*get)(const char *name),
                       struct err *e);
