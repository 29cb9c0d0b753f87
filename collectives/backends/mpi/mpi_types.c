#include "collectives/backends/mpi/mpi_types.h"

#include <stdbool.h>
#include <stdint.h>

#include "collectives/backends/mpi/mpi_session.h"
#include "collectives/comm/float16.h"

/* Defines a reduction for MPI: inout[i] = in[i] op inout[i], computed in float and rounded to the
 * type. */
#define REDUCTION(name, from, to, expression)                             \
    static void name(void *in, void *inout, int *len, MPI_Datatype *type) \
    {                                                                     \
        const uint16_t *x = in;                                           \
        uint16_t *y = inout;                                              \
        for (int i = 0; i < *len; i++) {                                  \
            float a = from(x[i]), b = from(y[i]);                         \
            y[i] = to(expression);                                        \
        }                                                                 \
    }

REDUCTION(half_sum, half_to_float, half_from_float, a + b)
REDUCTION(half_prod, half_to_float, half_from_float, a *b)
REDUCTION(half_min, half_to_float, half_from_float, a < b ? a : b)
REDUCTION(half_max, half_to_float, half_from_float, a > b ? a : b)
REDUCTION(bfloat16_sum, bfloat16_to_float, bfloat16_from_float, a + b)
REDUCTION(bfloat16_prod, bfloat16_to_float, bfloat16_from_float, a *b)
REDUCTION(bfloat16_min, bfloat16_to_float, bfloat16_from_float, a < b ? a : b)
REDUCTION(bfloat16_max, bfloat16_to_float, bfloat16_from_float, a > b ? a : b)

int mpi_types_op_16(MPI_Op *out, enum drover_type t, enum drover_op op, struct err *e)
{
    static MPI_User_function *const functions[2][4] = {
        {half_sum, half_prod, half_min, half_max},
        {bfloat16_sum, bfloat16_prod, bfloat16_min, bfloat16_max},
    };
    static MPI_Op created[2][4];
    static bool is_created[2][4];
    int which = op == DROVER_AVG || op == DROVER_MULSUM ? DROVER_SUM : (int)op;
    int kind = t == DROVER_BFLOAT16;
    if (!is_created[kind][which]) {
        int code = MPI_Op_create(functions[kind][which], 1, &created[kind][which]);
        if (code != MPI_SUCCESS)
            return mpi_session_failed(e, code, "creating a reduction");
        is_created[kind][which] = true;
    }
    *out = created[kind][which];
    return 0;
}

/* Divides the values in the type `wide`: 8-bit values are divided as int, which can hold any number
 * of ranks. */
#define DIVIDE(type, wide)                           \
    do {                                             \
        type *v = values;                            \
        for (size_t i = 0; i < n; i++)               \
            v[i] = (type)((wide)v[i] / (wide)ranks); \
    } while (0)

void mpi_types_average(void *values, size_t n, enum drover_type t, int ranks)
{
    switch (t) {
    case DROVER_INT8:
        DIVIDE(int8_t, int);
        break;
    case DROVER_UINT8:
        DIVIDE(uint8_t, int);
        break;
    case DROVER_INT32:
        DIVIDE(int32_t, int32_t);
        break;
    case DROVER_UINT32:
        DIVIDE(uint32_t, uint32_t);
        break;
    case DROVER_INT64:
        DIVIDE(int64_t, int64_t);
        break;
    case DROVER_UINT64:
        DIVIDE(uint64_t, uint64_t);
        break;
    default: /* floats are divided before they are added */
        break;
    }
}
