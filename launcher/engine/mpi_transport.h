/* mpi_transport - which transports Open MPI's ranks use: TCP if /dev/shm is too small, and TCP
 * between nodes that have no other network. */
#pragma once

#include "launcher/plan/plan.h"

/* Adds TCP to the transports of a local plan if this machine's /dev/shm is too small, unless the
 * user has chosen the transports. `base_env` is the environment that the ranks inherit. With TCP,
 * an Open MPI program prints a warning and continues; without, it fails. The plan of a part of a
 * job over several nodes does not change. */
void mpi_transport_choose(struct plan *p, char *const *base_env);

/* Returns the variables ("NAME=value") by which the ranks of a job over several nodes use shared
 * memory and TCP. Open MPI then does not look for other networks, which takes half of MPI_Init.
 * Returns no variables if a node of the job has another network (topo_has_fabric()), if drover does
 * not serve PMIx in this job, or if the user has chosen the transports or the layer above them.
 * The caller frees the result (strv); NULL: none. Pure. */
char **mpi_transport_between_nodes(const struct plan *p, char *const *base_env, bool has_fabric);
