/* nccl_types - converts the types and reductions of drover.h to NCCL's. */
#ifndef DROVER_NCCL_TYPES_H
#define DROVER_NCCL_TYPES_H

#include "collectives/backends/nccl/nccl_loader.h"
#include "collectives/comm/backend.h"

ncclDataType_t nccl_types_type(enum drover_type t);

/* Sets *out to the reduction of a call. For DROVER_MULSUM the reduction is created for this call.
 * Release it when the call is started, since NCCL has then read the factor. */
ncclResult_t nccl_types_acquire_op(ncclRedOp_t *out, const struct backend_call *k, int ranks,
                                   const struct nccl_lib *nccl, ncclComm_t comm);
void nccl_types_release_op(ncclRedOp_t op, const struct backend_call *k,
                           const struct nccl_lib *nccl, ncclComm_t comm);

#endif
