/* mpi_transport - lets the ranks of a node communicate over TCP if /dev/shm is too small for Open
 * MPI. */
#ifndef DROVER_MPI_TRANSPORT_H
#define DROVER_MPI_TRANSPORT_H

#include "launcher/plan/plan.h"

/* Adds TCP to the transports of a local plan, unless the user has chosen them; `base_env` is what
 * the ranks inherit. Open MPI then prints
 * a warning, if the program uses it, and continues; otherwise it fails. */
void mpi_transport_choose(struct plan *p, char *const *base_env);

#endif
