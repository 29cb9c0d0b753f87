/* mpi_transport - lets the ranks of a node communicate over TCP if /dev/shm is too small for Open
 * MPI. */
#ifndef DROVER_MPI_TRANSPORT_H
#define DROVER_MPI_TRANSPORT_H

#include "launcher/plan/plan.h"

/* Adds TCP to the transports of a local plan if /dev/shm is too small, unless the user has chosen
 * the transports. `base_env` is the environment that the ranks inherit. With TCP, an Open MPI
 * program prints a warning and continues; without, it fails. */
void mpi_transport_choose(struct plan *p, char *const *base_env);

#endif
