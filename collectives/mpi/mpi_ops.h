/* mpi_ops - types and reductions of drover.h in MPI's terms. */
#ifndef DROVER_MPI_OPS_H
#define DROVER_MPI_OPS_H

#include <mpi.h>
#include <stddef.h>

#include "collectives/drover.h"
#include "common/err.h"

/* MPI knows no 16-bit floats: they travel as MPI_UINT16_T, with reductions of ours. */
MPI_Datatype mpi_type(enum drover_type t);

/* The reduction for a type; DROVER_AVG's is the sum, see mpi_average(), and so is DROVER_MULSUM's.
 * Ours are made on first use and live as long as MPI. */
int mpi_op(MPI_Op *out, enum drover_type t, enum drover_op op, struct err *e);

/* Divides n sums by the number of ranks; whole numbers are cut towards zero, as NCCL cuts them. */
void mpi_average(void *values, size_t n, enum drover_type t, int ranks);

#endif
