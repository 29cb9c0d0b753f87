/* nccl_ops - types and reductions of drover.h in NCCL's terms. */
#ifndef DROVER_NCCL_TYPES_H
#define DROVER_NCCL_TYPES_H

#include "collectives/backends/nccl/nccl_loader.h"
#include "collectives/comm/backend.h"

ncclDataType_t nccl_types_type(enum drover_type t);

/* The reduction of a call. DROVER_MULSUM's is made for it, and given back when the call was begun:
 * NCCL has read the factor by then. */
ncclResult_t nccl_types_take(ncclRedOp_t *out, const struct backend_call *k, int ranks,
                             const struct nccl_lib *nccl, ncclComm_t comm);
void nccl_types_give(ncclRedOp_t op, const struct backend_call *k, const struct nccl_lib *nccl,
                     ncclComm_t comm);

#endif
