/* mpi_ops - types and reductions of drover.h in MPI's terms. */
#ifndef DROVER_MPI_TYPES_H
#define DROVER_MPI_TYPES_H

#include <mpi.h>
#include <stddef.h>

#include "collectives/drover.h"
#include "common/err.h"

/* MPI knows no 16-bit floats: they travel as MPI_UINT16_T, with reductions of ours. The 8-bit ones
 * are refused by comm.c. */
static inline MPI_Datatype mpi_type(enum drover_type t)
{
    static const MPI_Datatype types[DROVER_TYPES] = {
        [DROVER_INT8] = MPI_INT8_T,   [DROVER_UINT8] = MPI_UINT8_T,
        [DROVER_INT32] = MPI_INT32_T, [DROVER_UINT32] = MPI_UINT32_T,
        [DROVER_INT64] = MPI_INT64_T, [DROVER_UINT64] = MPI_UINT64_T,
        [DROVER_HALF] = MPI_UINT16_T, [DROVER_FLOAT] = MPI_FLOAT,
        [DROVER_DOUBLE] = MPI_DOUBLE, [DROVER_BFLOAT16] = MPI_UINT16_T,
    };
    return types[t];
}

/* A reduction of ours, of 16-bit floats. They are made on first use and live as long as MPI. */
int mpi_types_op_16(MPI_Op *out, enum drover_type t, enum drover_op op, struct err *e);

/* The reduction for a type; DROVER_AVG's is the sum, see mpi_types_average(), and so is
 * DROVER_MULSUM's.
 */
static inline int mpi_op(MPI_Op *out, enum drover_type t, enum drover_op op, struct err *e)
{
    static const MPI_Op usual[DROVER_OPS] = {
        [DROVER_SUM] = MPI_SUM, [DROVER_PROD] = MPI_PROD, [DROVER_MIN] = MPI_MIN,
        [DROVER_MAX] = MPI_MAX, [DROVER_AVG] = MPI_SUM,   [DROVER_MULSUM] = MPI_SUM,
    };
    if (t == DROVER_HALF || t == DROVER_BFLOAT16)
        return mpi_types_op_16(out, t, op, e);
    *out = usual[op];
    return 0;
}

/* Divides n sums by the number of ranks; whole numbers are cut towards zero, as NCCL cuts them. */
void mpi_types_average(void *values, size_t n, enum drover_type t, int ranks);

#endif
