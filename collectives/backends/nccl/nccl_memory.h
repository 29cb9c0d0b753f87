/* nccl_memory - memory of NCCL's own allocator, and what a communicator was told of it. */
#ifndef DROVER_NCCL_MEMORY_H
#define DROVER_NCCL_MEMORY_H

#include <stdbool.h>

#include "collectives/backends/nccl/nccl_loader.h"
#include "collectives/comm/backend.h"

struct nccl_region {
    void *p, *handle; /* NULL: NCCL was not told of it, or makes nothing of that */
    bool window;      /* of which kind the handle is */
    struct nccl_region *next;
};

/* Puts a new region in front of the list. NCCL may still be at it: it is good when the communicator
 * says that its last call is done.
 *   -ENOTSUP  symmetric memory, which came with NCCL 2.27 */
int nccl_memory_take(struct nccl_region **list, const struct nccl_lib *nccl, ncclComm_t comm,
                     size_t bytes, enum backend_memory use, struct err *e);
/* Where in the list the region is that begins at p; *it is NULL where there is none. */
struct nccl_region **nccl_memory_find(struct nccl_region **list, const void *p);
/* Frees it. `comm` is NULL when it is of no use any more. */
void nccl_memory_give(struct nccl_region **region, const struct nccl_lib *nccl, ncclComm_t comm);
/* The list alone; the memory stays. */
void nccl_memory_forget(struct nccl_region **list);

#endif
