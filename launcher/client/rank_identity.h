/* whoami - which rank of how many this process is, as whoever started it says in the environment.
 */
#ifndef DROVER_RANK_IDENTITY_H
#define DROVER_RANK_IDENTITY_H

#include "common/err.h"

struct rank_identity {
    int rank, size;             /* in the job */
    int local_rank, local_size; /* on this node */
    int node;                   /* index of this node */
    const char *source;         /* the variable that said so; NULL: nobody did */
};

/* Looks variables up by `get` (getenv). The first that names both a rank and a size is believed:
 * RANK and WORLD_SIZE (drover, torchrun), OMPI_COMM_WORLD_* (mpirun), PMI_* (MPICH, PALS), SLURM_*
 * inside a step of srun's; else rank 0 of 1. Where a rank on the node is missing, the job is taken
 * to be on one node; where only the node's index is, nodes to be filled in turn.
 *   -EINVAL  a value is no number or out of range, or there is a rank and nobody says of how many
 */
int rank_identity_read(struct rank_identity *out, const char *(*get)(const char *name),
                       struct err *e);

#endif
