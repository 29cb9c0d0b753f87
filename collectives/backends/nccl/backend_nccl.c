/* The plug-in for collectives on GPUs, with NCCL.
 *
 * Communicators are non-blocking, so that no call ever waits inside NCCL. Until NCCL has accepted a
 * call, start() of the next call returns -EAGAIN. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/backends/nccl/nccl_internal.h"
#include "collectives/backends/nccl/nccl_types.h"
#include "common/clock.h"

enum {
    ACCEPT_MS = 10000, /* time limit for closing, and for registering buffers */
    PROPERTIES_BYTES = 8192,
    SHRINK_ABORT = 1, /* NCCL_SHRINK_ABORT, which older headers lack */
};

int nccl_accepted(struct backend_comm *c, const char *what, struct err *e)
{
    ncclResult_t state = ncclSuccess;
    ncclResult_t rc = c->nccl->ncclCommGetAsyncError(c->comm, &state);
    if (rc == ncclSuccess)
        rc = state;
    return rc == ncclSuccess      ? 0
           : rc == ncclInProgress ? -EINPROGRESS
                                  : nccl_loader_nccl_failed(e, c->nccl, rc, what);
}

int nccl_await_accepted(struct backend_comm *c, int64_t end_ms, const char *what, struct err *e)
{
    int rc = 0;
    while ((rc = nccl_accepted(c, what, e)) == -EINPROGRESS) {
        if (clock_ms() >= end_ms)
            return err_set(e, -ETIMEDOUT, "NCCL: %s: timed out", what);
        sched_yield();
    }
    return rc;
}

void nccl_abort_now(struct backend_comm *c)
{
    nccl_graph_drop(&c->graph, c->cuda, c->stream);
    if (c->comm)
        c->nccl->ncclCommAbort(c->comm);
    c->comm = NULL;
}

/* Aborts the communicator. ncclCommRevoke stops the work in another thread, like ncclCommAbort, but
 * leaves a communicator that can be shrunk. It must not be used while NCCL has not accepted a call:
 * NCCL would then read memory of this call after it has freed the memory (2.28 to 2.30). */
static int nccl_abort(struct backend_comm *c)
{
    if (!c->comm || c->revoked)
        return 0;
    bool revocable = c->nccl->revoke && nccl_accepted(c, "abort", NULL) != -EINPROGRESS;
    nccl_graph_drop(&c->graph, c->cuda, c->stream);
    ncclResult_t rc = revocable ? c->nccl->revoke(c->comm, 0) : ncclInvalidUsage;
    c->revoked = rc == ncclSuccess || rc == ncclInProgress;
    if (!c->revoked)
        nccl_abort_now(c);
    return 0;
}

void nccl_free(struct backend_comm *c)
{
    if (c->cuda)
        nccl_abort_now(c);
    if (c->scratch)
        c->cuda->cudaFree(c->scratch);
    if (c->own_stream && c->stream)
        c->cuda->cudaStreamDestroy(c->stream);
    nccl_memory_forget(&c->regions); /* a collective may still write there */
    free(c);
}

static void nccl_close(struct backend_comm *c)
{
    struct err e = {0};
    nccl_graph_drop(&c->graph, c->cuda, c->stream);
    if (c->comm && !c->shrunk && (c->revoked || (c->nccl->ncclCommFinalize(c->comm), true)) &&
        nccl_await_accepted(c, clock_ms() + ACCEPT_MS, "closing", &e) == 0) {
        c->nccl->ncclCommDestroy(c->comm);
        c->comm = NULL;
    }
    nccl_free(c);
}

/* Creates the new NCCL communicator. made->comm is set when NCCL has accepted the call. */
static int create_subgroup(struct backend_comm *made, struct backend_comm *c,
                           const struct backend_subgroup *p, struct err *e)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const char *what = p->without ? "shrinking" : "splitting";
    int64_t end_ms = clock_ms() + p->open_ms;
    int failed = c->revoked ? nccl_await_accepted(c, end_ms, "stopping the work", e) : 0;
    if (failed < 0)
        return failed;
    ncclResult_t rc = ncclSuccess;
    if (p->n_without > 0) {
        AUTO(free) int *without = xcalloc((size_t)p->n_without, sizeof *without);
        memcpy(without, p->without, (size_t)p->n_without * sizeof *without);
        rc = c->nccl->shrink(c->comm, without, p->n_without, &made->comm, &config,
                             c->revoked ? 0 : SHRINK_ABORT);
    } else { /* also used for a shrink that excludes no rank, since NCCL rejects that */
        int key = p->without ? p->rank : p->key;
        rc = c->nccl->ncclCommSplit(c->comm, p->size ? p->color : NCCL_SPLIT_NOCOLOR, key,
                                    &made->comm, &config);
    }
    if (rc != ncclSuccess && rc != ncclInProgress)
        return nccl_loader_nccl_failed(e, c->nccl, rc, what);
    failed = nccl_await_accepted(c, end_ms, what, e);
    return failed < 0 || !made->comm ? failed : nccl_await_accepted(made, end_ms, what, e);
}

static int nccl_subgroup(struct backend_comm **out, struct backend_comm *c,
                         const struct backend_subgroup *p, struct err *e)
{
    if (p->without && ((p->n_without > 0 && !c->nccl->shrink) || !c->comm)) {
        err_set(e, -ENOTSUP, "%s cannot shrink a communicator%s", c->version,
                c->nccl->shrink ? " that has failed" : "");
        return err_hint(e, "NCCL 2.28; or start the job again without these ranks");
    }
    AUTO(nccl_comm) struct backend_comm *made = xzalloc(sizeof *made);
    *made = (struct backend_comm){.nccl = c->nccl, .cuda = c->cuda};
    made->rank = p->rank;
    made->size = p->size;
    made->device = c->device;
    made->caps = c->caps;
    memcpy(made->version, c->version, sizeof made->version);
    int rc = create_subgroup(made, c, p, e);
    c->shrunk = p->without;
    if (rc == -ETIMEDOUT) { /* until the abort, NCCL may write to made->comm */
        nccl_abort_now(c);
        made->comm = NULL; /* it was freed with its parent */
    }
    if (rc == 0)
        rc = nccl_use_stream(made, c->own_stream ? BACKEND_OWN_STREAM : c->stream, e);
    if (rc < 0)
        return rc;
    cudaError_t cu = c->cuda->cudaMalloc(&made->scratch, sizeof(int));
    if (cu != cudaSuccess)
        return nccl_loader_cuda_failed(e, c->cuda, cu, "allocating a buffer");
    *out = made->comm ? TAKE(made) : NULL;
    return 0;
}

/* Calls the NCCL function for the collective. */
static ncclResult_t call_nccl(struct backend_comm *c, const struct backend_call *k, ncclRedOp_t op)
{
    const struct nccl_lib *n = c->nccl;
    ncclDataType_t t = nccl_types_type(k->type);
    switch (k->coll) {
    case COLLECTIVE_ALL_REDUCE:
        return n->ncclAllReduce(k->in, k->out, k->count, t, op, c->comm, c->stream);
    case COLLECTIVE_BROADCAST:
        return n->ncclBroadcast(k->in, k->out, k->count, t, k->root, c->comm, c->stream);
    case COLLECTIVE_REDUCE:
        return n->ncclReduce(k->in, k->out, k->count, t, op, k->root, c->comm, c->stream);
    case COLLECTIVE_ALL_GATHER:
        return n->ncclAllGather(k->in, k->out, k->count, t, c->comm, c->stream);
    case COLLECTIVE_REDUCE_SCATTER:
        return n->ncclReduceScatter(k->in, k->out, k->count, t, op, c->comm, c->stream);
    case COLLECTIVE_ALL_TO_ALL:
        return n->all_to_all(k->in, k->out, k->count, t, c->comm, c->stream);
    case COLLECTIVE_GATHER:
        return n->gather(k->in, k->out, k->count, t, k->root, c->comm, c->stream);
    case COLLECTIVE_SCATTER:
        return n->scatter(k->in, k->out, k->count, t, k->root, c->comm, c->stream);
    case COLLECTIVE_SEND:
        return n->ncclSend(k->in, k->count, t, k->root, c->comm, c->stream);
    case COLLECTIVE_RECV:
        return n->ncclRecv(k->out, k->count, t, k->root, c->comm, c->stream);
    default: /* COLLECTIVE_BARRIER */
        return n->ncclAllReduce(c->scratch, c->scratch, 1, ncclInt32, ncclMax, c->comm, c->stream);
    }
}

static ncclResult_t issue(struct backend_comm *c, const struct backend_call *k)
{
    ncclRedOp_t op;
    ncclResult_t rc = nccl_types_acquire_op(&op, k, c->size, c->nccl, c->comm);
    if (rc != ncclSuccess)
        return rc;
    rc = call_nccl(c, k, op);
    nccl_types_release_op(op, k, c->nccl, c->comm);
    return rc;
}

/* Rejects calls for which NCCL has no kernel. */
static int check_kernels(const struct backend_comm *c, const struct backend_call *calls, size_t n,
                         struct err *e)
{
    for (size_t i = 0; i < n && c->size == 1; i++)
        if (calls[i].type >= DROVER_F8E4M3 && calls[i].op == DROVER_MULSUM &&
            collective_reduces(calls[i].coll))
            return err_set(e, -ENOTSUP,
                           "NCCL does not support mulsum of 8-bit floats with one rank");
    return 0;
}

static int nccl_start(struct backend_comm *c, const struct backend_call *calls, size_t n,
                      struct err *e)
{
    int failed = nccl_accepted(c, "collective", e);
    if (failed == 0)
        failed = check_kernels(c, calls, n, e);
    if (failed < 0)
        return failed == -EINPROGRESS ? -EAGAIN : failed;
    ncclResult_t rc = n > 1 ? c->nccl->ncclGroupStart() : ncclSuccess;
    for (size_t i = 0; i < n && rc == ncclSuccess; i++) {
        rc = issue(c, &calls[i]);
        if (n > 1 && rc == ncclInProgress)
            rc = ncclSuccess;
    }
    if (n > 1) { /* also after a failure: NCCL must not stay inside a group */
        ncclResult_t end = c->nccl->ncclGroupEnd();
        rc = rc == ncclSuccess ? end : rc;
    }
    if (rc == ncclSuccess || rc == ncclInProgress)
        return 0;
    return nccl_loader_nccl_failed(e, c->nccl, rc, collective_name(calls[0].coll));
}

static int nccl_poll(struct backend_comm *c, struct err *e)
{
    int rc = nccl_accepted(c, "collective", e);
    if (rc < 0 || c->graph.recording)
        return rc;
    cudaError_t state = c->cuda->cudaStreamQuery(c->stream);
    if (state == cudaErrorNotReady)
        return -EINPROGRESS;
    if (state != cudaSuccess)
        return nccl_loader_cuda_failed(e, c->cuda, state, "waiting for the stream");
    /* This is checked again, since the stream's work may have ended because of a failure. */
    return nccl_accepted(c, "collective", e);
}

static int nccl_record(struct backend_comm *c, bool begin, struct err *e)
{
    return begin ? nccl_graph_begin(&c->graph, c->cuda, c->stream, e)
                 : nccl_graph_end(&c->graph, c->cuda, c->stream, e);
}

static int nccl_replay(struct backend_comm *c, struct err *e)
{
    return nccl_graph_launch(&c->graph, c->cuda, c->stream, e);
}

static int nccl_mem_alloc(struct backend_comm *c, size_t bytes, enum backend_memory use, void **out,
                          struct err *e)
{
    bytes = bytes ? bytes : 1;
    if (use == BACKEND_SCRATCH) {
        cudaError_t rc = c->cuda->cudaMalloc(out, bytes);
        return rc == cudaSuccess ? 0
                                 : nccl_loader_cuda_failed(e, c->cuda, rc, "allocating a buffer");
    }
    int rc = nccl_memory_alloc(&c->regions, c->nccl, c->comm, bytes, use, e);
    if (rc == 0)
        rc = nccl_await_accepted(c, clock_ms() + ACCEPT_MS, "registering a buffer", e);
    if (rc == 0)
        *out = c->regions->p;
    return rc;
}

static void nccl_mem_free(struct backend_comm *c, void *p)
{
    bool usable = c->comm && !c->revoked && !c->shrunk;
    struct nccl_region **region = nccl_memory_find(&c->regions, p);
    if (!*region) {
        c->cuda->cudaFree(p);
        return;
    }
    nccl_graph_drop(&c->graph, c->cuda, c->stream); /* NCCL registers the buffers of a graph */
    nccl_memory_release(region, c->nccl, usable ? c->comm : NULL);
}

/* Copies on the communicator's stream, which may not be ordered with the default stream. */
static int copy(struct backend_comm *c, void *to, const void *from, size_t bytes,
                enum cudaMemcpyKind kind, struct err *e)
{
    cudaError_t rc = c->cuda->cudaMemcpyAsync(to, from, bytes, kind, c->stream);
    if (rc == cudaSuccess)
        rc = c->cuda->cudaStreamSynchronize(c->stream);
    if (rc == cudaSuccess)
        return 0;
    bool in = kind == cudaMemcpyHostToDevice;
    return nccl_loader_cuda_failed(e, c->cuda, rc, in ? "copy to the GPU" : "copy from the GPU");
}

static int nccl_copy_in(struct backend_comm *c, void *to, const void *host, size_t bytes,
                        struct err *e)
{
    return copy(c, to, host, bytes, cudaMemcpyHostToDevice, e);
}

static int nccl_copy_out(struct backend_comm *c, void *host, const void *from, size_t bytes,
                         struct err *e)
{
    return copy(c, host, from, bytes, cudaMemcpyDeviceToHost, e);
}

static unsigned nccl_caps(const struct backend_comm *c)
{
    return c->caps;
}

static const char *nccl_version(const struct backend_comm *c)
{
    return c->version;
}

static void nccl_device(const struct backend_comm *c, struct backend_device *out)
{
    *out = (struct backend_device){.index = c->device, .name = "GPU"};
    char bus[32] = "";
    unsigned domain = 0, number = 0, slot = 0;
    if (c->cuda->cudaDeviceGetPCIBusId(bus, sizeof bus, c->device) == cudaSuccess &&
        sscanf(bus, "%x:%x:%x", &domain, &number, &slot) == 3) {
        out->pci_domain = (int)domain;
        out->pci_bus = (int)number;
        out->pci_device = (int)slot;
    }
    size_t free_bytes = 0, total_bytes = 0;
    if (c->cuda->cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess)
        out->free_bytes = free_bytes;
    AUTO(free) char *properties = xzalloc(PROPERTIES_BYTES);
    if (c->cuda->get_properties && c->cuda->get_properties(properties, c->device) == cudaSuccess &&
        properties[0])
        snprintf(out->name, sizeof out->name, "%s", properties);
}

DROVER_API extern const struct backend drover_backend;
const struct backend drover_backend = {
    .abi = BACKEND_ABI,
    .name = "nccl",
    .open = nccl_open,
    .close = nccl_close,
    .subgroup = nccl_subgroup,
    .start = nccl_start,
    .poll = nccl_poll,
    .abort = nccl_abort,
    .mem_alloc = nccl_mem_alloc,
    .mem_free = nccl_mem_free,
    .copy_in = nccl_copy_in,
    .copy_out = nccl_copy_out,
    .record = nccl_record,
    .replay = nccl_replay,
    .caps = nccl_caps,
    .version = nccl_version,
    .device = nccl_device,
};
