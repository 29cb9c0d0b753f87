/* Memory of CUDA and of NCCL's allocator, and its registration with the communicator. */
#include <errno.h>
#include <stdlib.h>

#include "collectives/backends/nccl/nccl_internal.h"

enum { SYMMETRIC = 1 }; /* NCCL_WIN_COLL_SYMMETRIC, which older headers lack */

struct nccl_region {
    void *p, *handle; /* `handle` of the registration; NULL: not registered, or NCCL ignored the
                         registration */
    size_t bytes;
    bool window; /* the handle is a window (symmetric memory) */
    struct nccl_region *next;
};

struct register_job {
    struct nccl_job job;
    struct nccl_region region;
};

static ncclResult_t call_register(struct nccl_job *j)
{
    struct nccl_region *r = &((struct register_job *)j)->region;
    return r->window ? j->c.nccl->window(j->c.comm, r->p, r->bytes, &r->handle, SYMMETRIC)
                     : j->c.nccl->ncclCommRegister(j->c.comm, r->p, r->bytes, &r->handle);
}

/* Symmetric memory is registered by all ranks together. */
static int register_region(struct backend_comm *c, struct nccl_region *region, struct err *e)
{
    struct register_job *r = nccl_job_new(c, sizeof *r);
    AUTO(nccl_job) struct nccl_job *j = &r->job;
    r->region = *region;
    int rc = nccl_job_run(j, call_register, c->open_ms, "registering memory", e);
    if (rc == 0)
        region->handle = r->region.handle;
    c->stuck |= rc == -ETIMEDOUT;
    return rc;
}

int nccl_mem_alloc(struct backend_comm *c, size_t bytes, enum backend_memory use, void **out,
                   struct err *e)
{
    bytes = bytes ? bytes : 1;
    if (use == BACKEND_SCRATCH)
        return nccl_loader_cuda(e, c->cuda, c->cuda->cudaMalloc(out, bytes), "allocating a buffer");
    if (use == BACKEND_SYMMETRIC && !c->nccl->window) {
        err_set(e, -ENOTSUP, "this NCCL does not support symmetric memory");
        return err_hint(e, "NCCL 2.27; or drover bench -R 1, which registers locally");
    }
    struct nccl_region *r = xzalloc(sizeof *r);
    *r = (struct nccl_region){
        .bytes = bytes, .window = use == BACKEND_SYMMETRIC, .next = c->regions};
    int rc = nccl_loader_nccl(e, c->nccl, c->nccl->ncclMemAlloc(&r->p, bytes), "allocating memory");
    if (rc < 0) {
        free(r);
        return rc;
    }
    c->regions = r;
    if (use != BACKEND_BUFFERS)
        rc = register_region(c, r, e);
    if (rc == 0)
        *out = r->p;
    return rc;
}

void nccl_mem_free(struct backend_comm *c, void *p)
{
    bool usable = c->comm && !c->revoked && !c->shrunk;
    struct nccl_region **link = &c->regions;
    while (*link && (*link)->p != p)
        link = &(*link)->next;
    struct nccl_region *r = *link;
    if (!r) {
        c->cuda->cudaFree(p);
        return;
    }
    nccl_graph_drop(c); /* NCCL registers the buffers of a graph */
    *link = r->next;
    if (usable && r->handle && r->window)
        c->nccl->window_free(c->comm, r->handle);
    else if (usable && r->handle)
        c->nccl->ncclCommDeregister(c->comm, r->handle);
    c->nccl->ncclMemFree(r->p);
    free(r);
}

void nccl_forget_memory(struct backend_comm *c)
{
    for (struct nccl_region *r; (r = c->regions); free(r))
        c->regions = r->next;
}
