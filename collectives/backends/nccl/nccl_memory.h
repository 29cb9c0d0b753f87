/* nccl_memory - memory of NCCL's allocator, and its registration with a communicator. */
#pragma once

#include <stdbool.h>

#include "collectives/backends/nccl/nccl_loader.h"
#include "collectives/comm/backend.h"

struct nccl_region {
    void *p, *handle; /* `handle` of the registration; NULL: not registered, or NCCL ignored the
                         registration */
    size_t bytes;
    bool window; /* the handle is a window (symmetric memory) */
    struct nccl_region *next;
};

/* Allocates a region and adds it to the front of the list.
 *   -ENOTSUP  symmetric memory before NCCL 2.27 */
int nccl_memory_alloc(struct nccl_region **list, const struct nccl_lib *nccl, size_t bytes,
                      enum backend_memory use, struct err *e);
/* Registers the region with comm; as a window, together with all other ranks. */
ncclResult_t nccl_memory_register(struct nccl_region *r, const struct nccl_lib *nccl,
                                  ncclComm_t comm);
/* Returns a pointer to the list's link to the region that begins at p. The link is NULL if there is
 * no such region. */
struct nccl_region **nccl_memory_find(struct nccl_region **list, const void *p);
/* Deregisters and frees the region. `comm` is NULL if the communicator is not usable any more. */
void nccl_memory_release(struct nccl_region **region, const struct nccl_lib *nccl, ncclComm_t comm);
/* Frees the list, but not the memory. */
void nccl_memory_forget(struct nccl_region **list);
