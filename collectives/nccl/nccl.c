/* nccl - the plug-in for collectives on GPUs.
 *
 * Communicators are non-blocking, so that no call of NCCL's is ever waited for inside NCCL: until
 * it says that the call before is under way, further ones stand in a queue. */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "collectives/backend.h"
#include "collectives/nccl/nccl_lib.h"
#include "common/mem.h"

enum { CLOSE_MS = 10000, VERSION_MAX = 64, PROPERTIES_BYTES = 8192 };

struct backend_comm {
    const struct nccl_lib *nccl;
    const struct cuda_lib *cuda;
    ncclComm_t comm; /* NULL once it was aborted */
    cudaStream_t stream;
    int rank, size, device;
    struct backend_call *queue; /* head … len is not with NCCL yet */
    size_t head, len, cap;
    void *scratch; /* one int on the device, for barriers */
    char version[VERSION_MAX];
};

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int cuda_failed(struct err *e, const struct cuda_lib *cuda, cudaError_t rc, const char *what)
{
    int code = rc == cudaErrorMemoryAllocation ? -ENOMEM : -EIO;
    return err_set(e, code, "CUDA: %s: %s", what, cuda->cudaGetErrorString(rc));
}

/* ncclGetLastError has the text that helps, where there is one. */
static int nccl_failed(struct err *e, const struct nccl_lib *nccl, ncclResult_t rc,
                       const char *what)
{
    const char *last = nccl->ncclGetLastError(NULL);
    int code = rc == ncclInvalidArgument || rc == ncclInvalidUsage ? -EINVAL
               : rc == ncclRemoteError                             ? -ECONNRESET
                                                                   : -EIO;
    err_set(e, code, "NCCL: %s: %s%s%s", what, nccl->ncclGetErrorString(rc),
            last && *last ? ": " : "", last ? last : "");
    if (e)
        e->text[strcspn(e->text, "\n")] = '\0';
    return err_hint(e, "NCCL_DEBUG=INFO makes NCCL say more");
}

static int find_device(struct backend_comm *c, const struct backend_opts *o, struct err *e)
{
    int count = 0;
    cudaError_t rc = c->cuda->cudaGetDeviceCount(&count);
    if (rc != cudaSuccess) {
        err_set(e, -ENODEV, "no GPU can be used: %s", c->cuda->cudaGetErrorString(rc));
        return err_hint(e, "nvidia-smi tells whether there is a driver; backend mpi needs none");
    }
    if (count == 0)
        return err_set(e, -ENODEV, "the driver shows no GPU (see CUDA_VISIBLE_DEVICES)");
    c->device = o->device >= 0 ? o->device : o->local_rank % count;
    if (c->device >= count)
        return err_set(e, -ENODEV, "there is no GPU %d; %d are visible", c->device, count);
    rc = c->cuda->cudaSetDevice(c->device);
    if (rc == cudaSuccess)
        rc = c->cuda->cudaMalloc(&c->scratch, sizeof(int));
    return rc == cudaSuccess ? 0 : cuda_failed(e, c->cuda, rc, "the first use of the GPU");
}

/* What rank 0 says to all. */
struct greeting {
    ncclUniqueId id;
    int version;
};

static void version_text(char out[VERSION_MAX], int version)
{
    /* From 2.9 on 10,000 * major + 100 * minor + patch. */
    snprintf(out, VERSION_MAX, "NCCL %d.%d.%d (headers %d.%d.%d)", version / 10000,
             version / 100 % 100, version % 100, NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH);
}

/* NCCL itself waits for ever for a rank that stays away; so all ranks meet before, by a deadline.
 */
static int meet(struct backend_comm *c, const struct backend_opts *o, ncclUniqueId *id,
                struct err *e)
{
    struct greeting mine, theirs;
    memset(&mine, 0, sizeof mine);
    ncclResult_t rc = c->nccl->ncclGetVersion(&mine.version);
    if (rc == ncclSuccess && o->rank == 0)
        rc = c->nccl->ncclGetUniqueId(&mine.id);
    if (rc != ncclSuccess)
        return nccl_failed(e, c->nccl, rc, "the job's id");
    version_text(c->version, mine.version);
    *id = mine.id;
    if (o->size == 1)
        return 0;
    const struct backend_exchange *x = o->exchange;
    int failed = o->rank == 0 ? x->put(x->arg, "nccl", &mine, sizeof mine, e) : 0;
    if (failed == 0)
        failed = x->fence(x->arg, o->open_ms, e);
    if (failed == 0)
        failed = x->get(x->arg, 0, "nccl", &theirs, sizeof theirs, e);
    if (failed < 0)
        return failed;
    if (theirs.version != mine.version) {
        char other[VERSION_MAX];
        version_text(other, theirs.version);
        err_set(e, -EPROTO, "rank 0 has %s, this rank %s", other, c->version);
        return err_hint(e, "let all ranks load the same library, by DROVER_NCCL_LIB");
    }
    *id = theirs.id;
    return 0;
}

/* Until NCCL has taken in what it was given. 0, -EINPROGRESS, or what went wrong. */
static int settled(struct backend_comm *c, const char *what, struct err *e)
{
    ncclResult_t state = ncclSuccess;
    ncclResult_t rc = c->nccl->ncclCommGetAsyncError(c->comm, &state);
    if (rc == ncclSuccess)
        rc = state;
    return rc == ncclSuccess      ? 0
           : rc == ncclInProgress ? -EINPROGRESS
                                  : nccl_failed(e, c->nccl, rc, what);
}

static int settle_by(struct backend_comm *c, int64_t end_ms, const char *what, struct err *e)
{
    int rc = 0;
    while ((rc = settled(c, what, e)) == -EINPROGRESS) {
        if (now_ms() >= end_ms)
            return err_set(e, -ETIMEDOUT, "NCCL: %s: not done in time", what);
        sched_yield();
    }
    return rc;
}

static int connect_ranks(struct backend_comm *c, const struct backend_opts *o, ncclUniqueId id,
                         struct err *e)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    int64_t end_ms = now_ms() + o->open_ms;
    ncclResult_t rc = c->nccl->ncclCommInitRankConfig(&c->comm, o->size, id, o->rank, &config);
    if (rc != ncclSuccess && rc != ncclInProgress)
        return nccl_failed(e, c->nccl, rc, "connecting the ranks");
    int failed = settle_by(c, end_ms, "connecting the ranks", e);
    if (failed == -ETIMEDOUT)
        err_hint(e, "all ranks came, but do not reach each other: see NCCL_SOCKET_IFNAME, and "
                    "NCCL_DEBUG=INFO");
    return failed;
}

static int nccl_abort(struct backend_comm *c)
{
    if (c->comm)
        c->nccl->ncclCommAbort(c->comm);
    c->comm = NULL;
    c->head = c->len = 0;
    return 0;
}

static void release(struct backend_comm *c)
{
    (void)nccl_abort(c);
    if (c->scratch)
        c->cuda->cudaFree(c->scratch);
    free(c->queue);
    free(c);
}
AUTO_DEFINE(comm, struct backend_comm *, release)

static int nccl_open(struct backend_comm **out, const struct backend_opts *o, struct err *e)
{
    AUTO(comm) struct backend_comm *c = xzalloc(sizeof *c);
    c->rank = o->rank;
    c->size = o->size;
    c->stream = o->stream;
    ncclUniqueId id;
    int rc = cuda_lib_load(&c->cuda, e);
    if (rc == 0)
        rc = find_device(c, o, e);
    if (rc == 0)
        rc = nccl_lib_load(&c->nccl, o->lib_path, e);
    if (rc == 0)
        rc = meet(c, o, &id, e);
    if (rc == 0)
        rc = connect_ranks(c, o, id, e);
    if (rc < 0)
        return rc;
    *out = TAKE(c);
    return 0;
}

static void nccl_close(struct backend_comm *c)
{
    struct err e = {0};
    if (c->comm && (c->nccl->ncclCommFinalize(c->comm), true) &&
        settle_by(c, now_ms() + CLOSE_MS, "ending", &e) == 0) {
        c->nccl->ncclCommDestroy(c->comm);
        c->comm = NULL;
    }
    release(c);
}

static ncclDataType_t nccl_type(enum drover_type t)
{
    static const ncclDataType_t types[DROVER_TYPES] = {
        [DROVER_INT8] = ncclInt8,      [DROVER_UINT8] = ncclUint8,
        [DROVER_INT32] = ncclInt32,    [DROVER_UINT32] = ncclUint32,
        [DROVER_INT64] = ncclInt64,    [DROVER_UINT64] = ncclUint64,
        [DROVER_HALF] = ncclFloat16,   [DROVER_FLOAT] = ncclFloat32,
        [DROVER_DOUBLE] = ncclFloat64, [DROVER_BFLOAT16] = ncclBfloat16,
    };
    return types[t];
}

static ncclRedOp_t nccl_op(enum drover_op op)
{
    static const ncclRedOp_t ops[DROVER_OPS] = {ncclSum, ncclProd, ncclMin, ncclMax, ncclAvg};
    return ops[op];
}

static ncclResult_t all_to_all(struct backend_comm *c, const struct backend_call *k)
{
    size_t bytes = k->count * backend_type_bytes(k->type);
    ncclDataType_t type = nccl_type(k->type);
    ncclResult_t rc = c->nccl->ncclGroupStart();
    for (int r = 0; r < c->size && rc == ncclSuccess; r++) {
        size_t at = (size_t)r * bytes;
        rc = c->nccl->ncclSend((const char *)k->in + at, k->count, type, r, c->comm, c->stream);
        if (rc == ncclSuccess)
            rc = c->nccl->ncclRecv((char *)k->out + at, k->count, type, r, c->comm, c->stream);
    }
    ncclResult_t end = c->nccl->ncclGroupEnd();
    return rc == ncclSuccess ? end : rc;
}

static int issue(struct backend_comm *c, const struct backend_call *k, struct err *e)
{
    const struct nccl_lib *n = c->nccl;
    ncclDataType_t t = nccl_type(k->type);
    ncclRedOp_t op = nccl_op(k->op);
    ncclResult_t rc = ncclSuccess;
    switch (k->coll) {
    case BACKEND_ALL_REDUCE:
        rc = n->ncclAllReduce(k->in, k->out, k->count, t, op, c->comm, c->stream);
        break;
    case BACKEND_BROADCAST:
        rc = n->ncclBroadcast(k->in, k->out, k->count, t, k->root, c->comm, c->stream);
        break;
    case BACKEND_REDUCE:
        rc = n->ncclReduce(k->in, k->out, k->count, t, op, k->root, c->comm, c->stream);
        break;
    case BACKEND_ALL_GATHER:
        rc = n->ncclAllGather(k->in, k->out, k->count, t, c->comm, c->stream);
        break;
    case BACKEND_REDUCE_SCATTER:
        rc = n->ncclReduceScatter(k->in, k->out, k->count, t, op, c->comm, c->stream);
        break;
    case BACKEND_ALL_TO_ALL:
        rc = all_to_all(c, k);
        break;
    case BACKEND_BARRIER:
    case BACKEND_COLLS:
        rc = n->ncclAllReduce(c->scratch, c->scratch, 1, ncclInt32, ncclMax, c->comm, c->stream);
        break;
    }
    if (rc == ncclSuccess || rc == ncclInProgress)
        return 0;
    return nccl_failed(e, n, rc, backend_coll_name(k->coll));
}

/* Hands NCCL what it will take now. 0: all of it. */
static int move_queue(struct backend_comm *c, struct err *e)
{
    int rc = 0;
    while ((rc = settled(c, "a collective", e)) == 0 && c->head < c->len) {
        rc = issue(c, &c->queue[c->head++], e);
        if (rc < 0)
            return rc;
    }
    if (c->head == c->len)
        c->head = c->len = 0;
    return rc;
}

static int nccl_start(struct backend_comm *c, const struct backend_call *call, struct err *e)
{
    if (c->len == c->cap) {
        c->cap = c->cap ? 2 * c->cap : 16;
        c->queue = xrealloc(c->queue, c->cap, sizeof *c->queue);
    }
    c->queue[c->len++] = *call;
    int rc = move_queue(c, e);
    return rc == -EINPROGRESS ? 0 : rc;
}

static int nccl_poll(struct backend_comm *c, struct err *e)
{
    int rc = move_queue(c, e);
    if (rc < 0)
        return rc;
    cudaError_t state = c->cuda->cudaStreamQuery(c->stream);
    if (state == cudaErrorNotReady)
        return -EINPROGRESS;
    return state == cudaSuccess ? 0 : cuda_failed(e, c->cuda, state, "the stream");
}

static int nccl_mem_alloc(struct backend_comm *c, size_t bytes, void **out, struct err *e)
{
    cudaError_t rc = c->cuda->cudaMalloc(out, bytes ? bytes : 1);
    return rc == cudaSuccess ? 0 : cuda_failed(e, c->cuda, rc, "a buffer");
}

static void nccl_mem_free(struct backend_comm *c, void *p)
{
    c->cuda->cudaFree(p);
}

static int nccl_copy_in(struct backend_comm *c, void *to, const void *host, size_t bytes,
                        struct err *e)
{
    cudaError_t rc = c->cuda->cudaMemcpy(to, host, bytes, cudaMemcpyHostToDevice);
    return rc == cudaSuccess ? 0 : cuda_failed(e, c->cuda, rc, "a copy to the GPU");
}

static int nccl_copy_out(struct backend_comm *c, void *host, const void *from, size_t bytes,
                         struct err *e)
{
    cudaError_t rc = c->cuda->cudaMemcpy(host, from, bytes, cudaMemcpyDeviceToHost);
    return rc == cudaSuccess ? 0 : cuda_failed(e, c->cuda, rc, "a copy from the GPU");
}

static unsigned nccl_caps(const struct backend_comm *c)
{
    return BACKEND_DEVICE_MEMORY | BACKEND_NO_INPLACE_A2A;
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
    .start = nccl_start,
    .poll = nccl_poll,
    .abort = nccl_abort,
    .mem_alloc = nccl_mem_alloc,
    .mem_free = nccl_mem_free,
    .copy_in = nccl_copy_in,
    .copy_out = nccl_copy_out,
    .caps = nccl_caps,
    .version = nccl_version,
    .device = nccl_device,
};
