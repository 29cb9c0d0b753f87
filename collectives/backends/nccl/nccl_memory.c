#include "collectives/backends/nccl/nccl_memory.h"

#include <errno.h>
#include <stdlib.h>

#include "common/mem.h"

enum { SYMMETRIC = 1 }; /* NCCL_WIN_COLL_SYMMETRIC, which older headers lack */

int nccl_memory_alloc(struct nccl_region **list, const struct nccl_lib *nccl, size_t bytes,
                      enum backend_memory use, struct err *e)
{
    if (use == BACKEND_SYMMETRIC && !nccl->window) {
        err_set(e, -ENOTSUP, "this NCCL does not support symmetric memory");
        return err_hint(e, "NCCL 2.27; or drover bench -R 1, which registers locally");
    }
    struct nccl_region *r = xzalloc(sizeof *r);
    r->bytes = bytes;
    ncclResult_t rc = nccl->ncclMemAlloc(&r->p, bytes);
    if (rc != ncclSuccess) {
        free(r);
        return nccl_loader_nccl_failed(e, nccl, rc, "allocating memory");
    }
    r->next = *list;
    *list = r;
    return 0;
}

ncclResult_t nccl_memory_register(struct nccl_region *r, const struct nccl_lib *nccl,
                                  ncclComm_t comm)
{
    return r->window ? nccl->window(comm, r->p, r->bytes, &r->handle, SYMMETRIC)
                     : nccl->ncclCommRegister(comm, r->p, r->bytes, &r->handle);
}

struct nccl_region **nccl_memory_find(struct nccl_region **list, const void *p)
{
    while (*list && (*list)->p != p)
        list = &(*list)->next;
    return list;
}

void nccl_memory_release(struct nccl_region **region, const struct nccl_lib *nccl, ncclComm_t comm)
{
    struct nccl_region *r = *region;
    *region = r->next;
    if (comm && r->handle && r->window)
        nccl->window_free(comm, r->handle);
    else if (comm && r->handle)
        nccl->ncclCommDeregister(comm, r->handle);
    nccl->ncclMemFree(r->p);
    free(r);
}

void nccl_memory_forget(struct nccl_region **list)
{
    for (struct nccl_region *r; (r = *list); free(r))
        *list = r->next;
}
