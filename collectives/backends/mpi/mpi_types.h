/* mpi_types - the MPI types and reductions that correspond to those of drover.h. */
#pragma once

#include <mpi.h>
#include <stddef.h>

#include "collectives/drover.h"
#include "common/err.h"

/* Returns the MPI type. MPI has no 16-bit floats, so they are sent as MPI_UINT16_T and reduced by
 * drover's own operations. comm.c rejects the 8-bit floats. */
static inline MPI_Datatype mpi_types_type(enum drover_type t)
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

/* Sets `*out` to drover's own reduction of 16-bit floats. The reduction is created at its first use
 * and never freed. */
int mpi_types_op_16(MPI_Op *out, enum drover_type t, enum drover_op op, struct err *e);

/* Sets `*out` to the reduction for a type. For DROVER_MULSUM and DROVER_AVG (see
 * mpi_types_average()) the reduction is the sum. Returns 0 or a negative errno. */
static inline int mpi_types_op(MPI_Op *out, enum drover_type t, enum drover_op op, struct err *e)
{
    static const MPI_Op ops[DROVER_OPS] = {
        [DROVER_SUM] = MPI_SUM, [DROVER_PROD] = MPI_PROD, [DROVER_MIN] = MPI_MIN,
        [DROVER_MAX] = MPI_MAX, [DROVER_AVG] = MPI_SUM,   [DROVER_MULSUM] = MPI_SUM,
    };
    if (t == DROVER_HALF || t == DROVER_BFLOAT16)
        return mpi_types_op_16(out, t, op, e);
    *out = ops[op];
    return 0;
}

/* Divides n sums of integers by the number of ranks, truncated towards 0, as NCCL does. */
void mpi_types_average(void *values, size_t n, enum drover_type t, int ranks);
