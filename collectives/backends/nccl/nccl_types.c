#include "collectives/backends/nccl/nccl_types.h"

#include "collectives/comm/premul.h"

/* The last three are ncclBfloat16, which old headers declare after <cuda_bf16.h> only, and
 * ncclFloat8e4m3 and ncclFloat8e5m2, which headers before 2.24 lack. */
ncclDataType_t nccl_types_type(enum drover_type t)
{
    static const ncclDataType_t types[DROVER_TYPES] = {
        [DROVER_INT8] = ncclInt8,
        [DROVER_UINT8] = ncclUint8,
        [DROVER_INT32] = ncclInt32,
        [DROVER_UINT32] = ncclUint32,
        [DROVER_INT64] = ncclInt64,
        [DROVER_UINT64] = ncclUint64,
        [DROVER_HALF] = ncclFloat16,
        [DROVER_FLOAT] = ncclFloat32,
        [DROVER_DOUBLE] = ncclFloat64,
        [DROVER_BFLOAT16] = (ncclDataType_t)9,
        [DROVER_F8E4M3] = (ncclDataType_t)10,
        [DROVER_F8E5M2] = (ncclDataType_t)11,
    };
    return types[t];
}

static bool is_created(const struct backend_call *k)
{
    return k->op == DROVER_MULSUM && collective_reduces(k->coll);
}

ncclResult_t nccl_types_acquire_op(ncclRedOp_t *out, const struct backend_call *k, int ranks,
                                   const struct nccl_lib *nccl, ncclComm_t comm)
{
    static const ncclRedOp_t ops[DROVER_OPS] = {ncclSum, ncclProd, ncclMin, ncclMax, ncclAvg};
    uint64_t factor;
    /* With one rank, the sum replaces the mean, which has the same result. NCCL (up to 2.30) has no
     * mean of 8-bit floats for one rank. */
    *out = ops[k->op == DROVER_AVG && ranks == 1 ? DROVER_SUM : k->op];
    if (!is_created(k))
        return ncclSuccess;
    premul_scalar(&factor, k->type, k->factor);
    return nccl->ncclRedOpCreatePreMulSum(out, &factor, nccl_types_type(k->type),
                                          ncclScalarHostImmediate, comm);
}

void nccl_types_release_op(ncclRedOp_t op, const struct backend_call *k,
                           const struct nccl_lib *nccl, ncclComm_t comm)
{
    if (is_created(k))
        nccl->ncclRedOpDestroy(op, comm);
}
