/* The plug-in for collectives on GPUs, with NCCL.
 *
 * Communicators are blocking: a call returns when its work is on the stream. (Each call on a
 * non-blocking one starts a thread, since NCCL 2.23.) Calls that may wait for other ranks are made
 * in a thread of their own, under a deadline. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "collectives/backends/nccl/nccl_internal.h"
#include "collectives/comm/premul.h"

enum { PROPERTIES_BYTES = 8192 };

/* Returns 0, or the error that NCCL's own threads have found. */
static int check_async(struct backend_comm *c, struct err *e)
{
    ncclResult_t state = ncclSuccess;
    ncclResult_t rc = c->nccl->ncclCommGetAsyncError(c->comm, &state);
    return nccl_loader_nccl(e, c->nccl, rc == ncclSuccess ? state : rc, "collective");
}

/* The last three are ncclBfloat16, which old headers declare after <cuda_bf16.h> only, and
 * ncclFloat8e4m3 and ncclFloat8e5m2, which headers before 2.24 lack. */
static ncclDataType_t nccl_type(enum drover_type t)
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

static bool multiplies(const struct backend_call *k)
{
    return k->op == DROVER_MULSUM && collective_reduces(k->coll);
}

/* With one rank, NCCL (up to 2.30) has no product of 8-bit floats, and its kernel (oneRankReduce in
 * onerank.cu) does not write the last elements of many counts, such as 65,537 of 8 bytes. So such a
 * call is not NCCL's. */
static bool multiplies_alone(const struct backend_comm *c, const struct backend_call *k)
{
    return c->size == 1 && multiplies(k);
}

/* Sets *out to the reduction of a call. For DROVER_MULSUM the reduction is created for this call.
 * Release it when the call is started, since NCCL has then read the factor. */
static ncclResult_t acquire_op(ncclRedOp_t *out, const struct backend_comm *c,
                               const struct backend_call *k)
{
    static const ncclRedOp_t ops[DROVER_OPS] = {ncclSum, ncclProd, ncclMin, ncclMax, ncclAvg};
    /* With one rank, the sum replaces the mean, which has the same result. NCCL (up to 2.30) has no
     * mean of 8-bit floats for one rank. */
    *out = ops[k->op == DROVER_AVG && c->size == 1 ? DROVER_SUM : k->op];
    if (!multiplies(k))
        return ncclSuccess;
    uint64_t factor = type_bits(k->type, k->factor);
    return c->nccl->ncclRedOpCreatePreMulSum(out, &factor, nccl_type(k->type),
                                             ncclScalarHostImmediate, c->comm);
}

static void release_op(ncclRedOp_t op, const struct backend_comm *c, const struct backend_call *k)
{
    if (multiplies(k))
        c->nccl->ncclRedOpDestroy(op, c->comm);
}

/* Calls the NCCL function for the collective. */
static ncclResult_t call_nccl(struct backend_comm *c, const struct backend_call *k, ncclRedOp_t op)
{
    const struct nccl_lib *n = c->nccl;
    ncclDataType_t t = nccl_type(k->type);
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
    if (multiplies_alone(c, k))
        return ncclSuccess;
    ncclRedOp_t op;
    ncclResult_t rc = acquire_op(&op, c, k);
    if (rc == ncclSuccess)
        rc = call_nccl(c, k, op);
    if (rc == ncclSuccess) /* else it may have been aborted */
        release_op(op, c, k);
    return rc;
}

static ncclResult_t issue_all(struct backend_comm *c, const struct backend_call *calls, size_t n)
{
    if (n == 1)
        return issue(c, calls);
    ncclResult_t rc = c->nccl->ncclGroupStart();
    for (size_t i = 0; i < n && rc == ncclSuccess; i++)
        rc = issue(c, &calls[i]);
    ncclResult_t end = c->nccl->ncclGroupEnd(); /* also after a failure: no group stays open */
    return rc == ncclSuccess ? end : rc;
}

struct calls_job {
    struct nccl_job job;
    size_t n;
    struct backend_call calls[];
};

static ncclResult_t call_all(struct nccl_job *j)
{
    struct calls_job *k = (struct calls_job *)j;
    return issue_all(&j->c, k->calls, k->n);
}

/* The first use of an algorithm or a peer connects ranks: it waits for them. While a graph is
 * recorded, each call may, since the ranks register its buffers together. */
static bool may_block(struct backend_comm *c, const struct backend_call *calls, size_t n)
{
    if (c->stream == cudaStreamPerThread)
        return false; /* each thread has its own: no other thread can use the caller's */
    return c->recording || nccl_first_use_check(&c->used, calls, n);
}

static int start_in_time(struct backend_comm *c, const struct backend_call *calls, size_t n,
                         struct err *e)
{
    struct calls_job *k = nccl_job_new(c, sizeof *k + n * sizeof *calls);
    AUTO(nccl_job) struct nccl_job *j = &k->job;
    k->n = n;
    memcpy(k->calls, calls, n * sizeof *calls);
    int rc = nccl_job_run(j, call_all, c->open_ms, collective_name(calls[0].coll), e);
    if (rc == 0)
        nccl_first_use_done(&c->used, calls, n);
    if (rc != -ETIMEDOUT)
        return rc;
    c->stuck = true;
    return err_hint(e, "the first call of its kind connects the ranks: check the others");
}

static int nccl_start(struct backend_comm *c, const struct backend_call *calls, size_t n,
                      struct err *e)
{
    size_t alone = 0;
    for (size_t i = 0; i < n; i++) {
        int rc = multiplies_alone(c, &calls[i]) ? nccl_copy_premul(c, &calls[i], e) : 0;
        if (rc < 0)
            return rc;
        alone += multiplies_alone(c, &calls[i]);
    }
    if (alone == n)
        return 0;
    if (may_block(c, calls, n))
        return start_in_time(c, calls, n, e);
    return nccl_loader_nccl(e, c->nccl, issue_all(c, calls, n), collective_name(calls[0].coll));
}

static int nccl_poll(struct backend_comm *c, struct err *e)
{
    int rc = check_async(c, e);
    if (rc < 0 || c->recording)
        return rc;
    cudaError_t state = c->cuda->cudaStreamQuery(c->stream);
    if (state == cudaErrorNotReady)
        return -EINPROGRESS;
    rc = nccl_loader_cuda(e, c->cuda, state, "waiting for the stream");
    /* This is checked again, since the stream's work may have ended because of a failure. */
    return rc < 0 ? rc : check_async(c, e);
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
    int integrated = 0;
    (void)c->cuda->cudaDeviceGetAttribute(&integrated, cudaDevAttrIntegrated, c->device);
    out->integrated = integrated;
    if (c->cuda->cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess)
        out->free_bytes = integrated ? total_bytes : free_bytes;
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
    .fill = nccl_copy_fill,
    .compare = nccl_copy_compare,
    .record = nccl_record,
    .replay = nccl_replay,
    .caps = nccl_caps,
    .version = nccl_version,
    .device = nccl_device,
};
