/* nccl - the plug-in for collectives on GPUs.
 *
 * Communicators are non-blocking, so that no call of NCCL's is ever waited for inside NCCL: until
 * it says that the call before is under way, start() says "not yet". */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/backends/nccl/nccl_graph.h"
#include "collectives/backends/nccl/nccl_loader.h"
#include "collectives/backends/nccl/nccl_memory.h"
#include "collectives/backends/nccl/nccl_precheck.h"
#include "collectives/backends/nccl/nccl_types.h"
#include "collectives/comm/backend.h"
#include "common/clock.h"
#include "common/mem.h"

enum {
    SETTLE_MS = 10000, /* ends, and buffers that are made known */
    TROUBLE_MS = 5000, /* so long one that cannot take part waits for the others, to tell them */
    VERSION_MAX = 64,
    PROPERTIES_BYTES = 8192,
    RANKS_AN_ID = 128,   /* one rank's listener takes in so many others' first connections */
    FP8_VERSION = 22400, /* NCCL 2.24 has the 8-bit floats, … */
    FP8_CAPABILITY = 9,  /* … and reduces them on GPUs from here on */
    SHRINK_ABORT = 1,    /* NCCL_SHRINK_ABORT, which older headers lack */
};

struct backend_comm {
    const struct nccl_lib *nccl;
    const struct cuda_lib *cuda;
    ncclComm_t comm; /* NULL once it was aborted */
    bool revoked;    /* aborted, but good for a shrink, … */
    bool spent;      /* … which was done */
    cudaStream_t stream;
    bool own_stream;
    struct nccl_graph graph;
    struct nccl_region *regions;
    int rank, size, device;
    unsigned caps;
    void *scratch; /* one int on the device, for barriers */
    char version[VERSION_MAX];
};

static int no_gpu(const struct cuda_lib *cuda, cudaError_t rc, struct err *e)
{
    int driver = 0, runtime = 0; /* 12040 is 12.4; 0: there is no driver */
    err_set(e, -ENODEV, "no GPU can be used: %s", cuda->cudaGetErrorString(rc));
    if (cuda->cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0 ||
        cuda->cudaRuntimeGetVersion(&runtime) != cudaSuccess || driver / 1000 >= runtime / 1000)
        return err_hint(e, "nvidia-smi tells whether there is a driver; backend mpi needs none");
    return err_hint(e,
                    "the driver is of CUDA %d.%d, libcudart of %d.%d; DROVER_CUDART_LIB and "
                    "DROVER_NCCL_LIB name files of CUDA %d",
                    driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10,
                    driver / 1000);
}

static int find_device(struct backend_comm *c, const struct backend_opts *o, struct err *e)
{
    int count = 0;
    cudaError_t rc = c->cuda->cudaGetDeviceCount(&count);
    if (rc != cudaSuccess)
        return no_gpu(c->cuda, rc, e);
    if (count == 0)
        return err_set(e, -ENODEV, "the driver shows no GPU (see CUDA_VISIBLE_DEVICES)");
    c->device = o->device >= 0 ? o->device : o->local_rank % count;
    if (c->device >= count)
        return err_set(e, -ENODEV, "there is no GPU %d; %d are visible", c->device, count);
    rc = c->cuda->cudaSetDevice(c->device);
    if (rc == cudaSuccess)
        rc = c->cuda->cudaMalloc(&c->scratch, sizeof(int));
    return rc == cudaSuccess ? 0
                             : nccl_loader_cuda_failed(e, c->cuda, rc, "the first use of the GPU");
}

static int take_stream(struct backend_comm *c, void *stream, struct err *e)
{
    c->own_stream = stream == BACKEND_OWN_STREAM;
    c->stream = c->own_stream ? NULL : stream;
    cudaError_t rc = c->own_stream
                         ? c->cuda->cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking)
                         : cudaSuccess;
    return rc == cudaSuccess ? 0 : nccl_loader_cuda_failed(e, c->cuda, rc, "a stream");
}

/* Who says the k-th of n ids. */
static int speaker(int k, int n, int size)
{
    return (int)((int64_t)k * size / n);
}

static bool speaks(const struct backend_comm *c, int n)
{
    for (int k = 0; k < n; k++)
        if (speaker(k, n, c->size) == c->rank)
            return true;
    return false;
}

/* The library's version, and the id where this rank makes one. */
static int introduce(struct backend_comm *c, int *version, ncclUniqueId *id, int n, struct err *e)
{
    ncclResult_t rc = c->nccl->ncclGetVersion(version);
    if (rc == ncclSuccess && nccl_precheck_interfaces(getenv("NCCL_SOCKET_IFNAME"), e) < 0)
        return -EINVAL;
    if (rc == ncclSuccess && speaks(c, n))
        rc = c->nccl->ncclGetUniqueId(id);
    if (rc != ncclSuccess)
        return nccl_loader_nccl_failed(e, c->nccl, rc, "the job's id");
    char short_version[NCCL_PRECHECK_VERSION_BYTES];
    nccl_precheck_version(short_version, *version);
    snprintf(c->version, sizeof c->version, "%s (headers %d.%d.%d)", short_version, NCCL_MAJOR,
             NCCL_MINOR, NCCL_PATCH);
    int major = 0;
    (void)c->cuda->cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, c->device);
    if (*version >= FP8_VERSION && major >= FP8_CAPABILITY)
        c->caps |= BACKEND_FP8;
    return 0;
}

static int ids_of(const struct backend_comm *c)
{
    bool several = c->nccl && c->nccl->init_scalable;
    return several ? (c->size + RANKS_AN_ID - 1) / RANKS_AN_ID : 1;
}

/* All that this rank needs by itself. */
static int prepare(struct backend_comm *c, const struct backend_opts *o,
                   struct nccl_precheck_rank_info *mine, ncclUniqueId *id, struct err *e)
{
    int rc = nccl_loader_open_cuda(&c->cuda, e);
    if (rc == 0)
        rc = find_device(c, o, e);
    if (rc == 0)
        rc = take_stream(c, o->stream, e);
    if (rc == 0)
        rc = nccl_loader_open_nccl(&c->nccl, o->lib_path, e);
    if (rc < 0)
        return rc;
    (void)c->cuda->cudaDeviceGetPCIBusId(mine->bus, sizeof mine->bus, c->device);
    c->caps = BACKEND_DEVICE_MEMORY | BACKEND_NO_INPLACE_A2A | BACKEND_REGISTERS;
    c->caps |= c->nccl->all_to_all ? BACKEND_HAS_ALL_TO_ALL : 0;
    c->caps |= c->nccl->gather ? BACKEND_HAS_GATHER : 0;
    c->caps |= c->nccl->scatter ? BACKEND_HAS_SCATTER : 0;
    return introduce(c, &mine->version, id, ids_of(c), e);
}

static int first_here(const struct nccl_precheck_rank_info *cards, int rank)
{
    int r = 0;
    while (cards[r].host != cards[rank].host)
        r++;
    return r;
}

/* What the others said: nothing is in the way, and the ids, in the same order at all ranks. */
static int listen_to(const struct backend_comm *c, const struct bootstrap_ops *x, ncclUniqueId *ids,
                     int n, struct err *e)
{
    AUTO(free) struct nccl_precheck_rank_info *cards = xcalloc((size_t)c->size, sizeof *cards);
    int here = 0;
    for (int r = 0; r < c->size; r++) {
        int rc = x->get(x->arg, r, "card", &cards[r], sizeof cards[r], e);
        if (rc < 0)
            return rc;
    }
    for (int r = 0; r < c->size; r++)
        here += cards[r].host == cards[c->rank].host;
    int rc = nccl_precheck_check(cards, c->size, e);
    for (int k = 0; k < n && rc == 0; k++)
        rc = x->get(x->arg, speaker(k, n, c->size), "id", &ids[k], sizeof ids[k], e);
    if (rc == 0 && c->rank == first_here(cards, c->rank))
        nccl_precheck_shm(here);
    return rc;
}

/* NCCL itself waits for ever for a rank that stays away; so all ranks meet before, by a deadline.
 * One that cannot take part comes too, to say so: `rc` and `e` are its reason. */
static int meet(struct backend_comm *c, const struct backend_opts *o,
                struct nccl_precheck_rank_info *mine, ncclUniqueId *ids, int rc, struct err *e)
{
    if (c->size == 1)
        return rc;
    const struct bootstrap_ops *x = o->bootstrap;
    int64_t wait_ms = o->open_ms;
    if (rc < 0) {
        snprintf(mine->trouble, sizeof mine->trouble, "%.199s", e ? e->text : strerror(-rc));
        wait_ms = wait_ms < TROUBLE_MS ? wait_ms : TROUBLE_MS;
    }
    struct err why = {0};
    int n = rc < 0 ? 1 : ids_of(c);
    int failed = x->put(x->arg, "card", mine, sizeof *mine, &why);
    if (failed == 0 && rc == 0 && speaks(c, n))
        failed = x->put(x->arg, "id", &ids[0], sizeof ids[0], &why);
    if (failed == 0)
        failed = x->fence(x->arg, wait_ms, &why);
    if (rc < 0)
        return rc; /* its own reason says more */
    if (failed == 0)
        failed = listen_to(c, x, ids, n, &why);
    if (failed < 0 && e)
        *e = why;
    return failed;
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
                                  : nccl_loader_nccl_failed(e, c->nccl, rc, what);
}

static int settle_by(struct backend_comm *c, int64_t end_ms, const char *what, struct err *e)
{
    int rc = 0;
    while ((rc = settled(c, what, e)) == -EINPROGRESS) {
        if (clock_ms() >= end_ms)
            return err_set(e, -ETIMEDOUT, "NCCL: %s: not done in time", what);
        sched_yield();
    }
    return rc;
}

static int connect_ranks(struct backend_comm *c, const struct backend_opts *o, ncclUniqueId *ids,
                         int n, struct err *e)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    int64_t end_ms = clock_ms() + o->open_ms;
    ncclResult_t rc =
        n > 1 ? c->nccl->init_scalable(&c->comm, c->size, c->rank, n, ids, &config)
              : c->nccl->ncclCommInitRankConfig(&c->comm, c->size, ids[0], c->rank, &config);
    if (rc != ncclSuccess && rc != ncclInProgress)
        return nccl_loader_nccl_failed(e, c->nccl, rc, "connecting the ranks");
    int failed = settle_by(c, end_ms, "connecting the ranks", e);
    if (failed == -ETIMEDOUT)
        err_hint(e, "all ranks came, but do not reach each other: see NCCL_SOCKET_IFNAME, and "
                    "NCCL_DEBUG=INFO");
    return failed;
}

/* A graph goes first: NCCL waits for the end of those that its work is in. */
static void abort_now(struct backend_comm *c)
{
    nccl_graph_drop(&c->graph, c->cuda, c->stream);
    if (c->comm)
        c->nccl->ncclCommAbort(c->comm);
    c->comm = NULL;
}

/* ncclCommRevoke stops the work as ncclCommAbort does, in a thread of its own, and what it leaves
 * may be shrunk. But while NCCL still takes a call in, it goes on to read what belongs to that call
 * and was freed (2.28 to 2.30). */
static int nccl_abort(struct backend_comm *c)
{
    if (!c->comm || c->revoked)
        return 0;
    bool revocable = c->nccl->revoke && settled(c, "the end", NULL) != -EINPROGRESS;
    nccl_graph_drop(&c->graph, c->cuda, c->stream);
    ncclResult_t rc = revocable ? c->nccl->revoke(c->comm, 0) : ncclInvalidUsage;
    c->revoked = rc == ncclSuccess || rc == ncclInProgress;
    if (!c->revoked)
        abort_now(c);
    return 0;
}

static void release(struct backend_comm *c)
{
    if (c->cuda)
        abort_now(c);
    if (c->scratch)
        c->cuda->cudaFree(c->scratch);
    if (c->own_stream && c->stream)
        c->cuda->cudaStreamDestroy(c->stream);
    nccl_memory_forget(&c->regions); /* a collective may still write there */
    free(c);
}
AUTO_DEFINE(comm, struct backend_comm *, release)

static int nccl_open(struct backend_comm **out, const struct backend_opts *o, struct err *e)
{
    AUTO(comm) struct backend_comm *c = xzalloc(sizeof *c);
    c->rank = o->rank;
    c->size = o->size;
    struct nccl_precheck_rank_info mine;
    memset(&mine, 0, sizeof mine);
    nccl_precheck_host(&mine);
    AUTO(free)
    ncclUniqueId *ids = xcalloc((size_t)(c->size + RANKS_AN_ID - 1) / RANKS_AN_ID, sizeof *ids);
    int rc = prepare(c, o, &mine, &ids[0], e);
    rc = meet(c, o, &mine, ids, rc, e);
    if (rc == 0)
        rc = connect_ranks(c, o, ids, ids_of(c), e);
    if (rc < 0)
        return rc;
    *out = TAKE(c);
    return 0;
}

static void nccl_close(struct backend_comm *c)
{
    struct err e = {0};
    nccl_graph_drop(&c->graph, c->cuda, c->stream);
    if (c->comm && !c->spent && (c->revoked || (c->nccl->ncclCommFinalize(c->comm), true)) &&
        settle_by(c, clock_ms() + SETTLE_MS, "ending", &e) == 0) {
        c->nccl->ncclCommDestroy(c->comm);
        c->comm = NULL;
    }
    release(c);
}

/* Asks NCCL for the new communicator; the old one is settled when the new one can be seen. */
static int ask_for_part(struct backend_comm *made, struct backend_comm *c,
                        const struct backend_subgroup *p, struct err *e)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const char *what = p->without ? "shrinking" : "splitting";
    int64_t end_ms = clock_ms() + p->open_ms;
    int failed = c->revoked ? settle_by(c, end_ms, "stopping the work", e) : 0;
    if (failed < 0)
        return failed;
    ncclResult_t rc = ncclSuccess;
    if (p->n_without > 0) {
        AUTO(free) int *without = xcalloc((size_t)p->n_without, sizeof *without);
        memcpy(without, p->without, (size_t)p->n_without * sizeof *without);
        rc = c->nccl->shrink(c->comm, without, p->n_without, &made->comm, &config,
                             c->revoked ? 0 : SHRINK_ABORT);
    } else { /* also without nobody, which is no shrink to NCCL */
        int key = p->without ? p->rank : p->key;
        rc = c->nccl->ncclCommSplit(c->comm, p->size ? p->color : NCCL_SPLIT_NOCOLOR, key,
                                    &made->comm, &config);
    }
    if (rc != ncclSuccess && rc != ncclInProgress)
        return nccl_loader_nccl_failed(e, c->nccl, rc, what);
    failed = settle_by(c, end_ms, what, e);
    return failed < 0 || !made->comm ? failed : settle_by(made, end_ms, what, e);
}

static int nccl_subgroup(struct backend_comm **out, struct backend_comm *c,
                     const struct backend_subgroup *p, struct err *e)
{
    if (p->without && ((p->n_without > 0 && !c->nccl->shrink) || !c->comm)) {
        err_set(e, -ENOTSUP, "%s cannot leave ranks out%s", c->version,
                c->nccl->shrink ? " of a communicator that has failed" : "");
        return err_hint(e, "NCCL 2.28 can; or close it, and start the job again without them");
    }
    AUTO(comm) struct backend_comm *made = xzalloc(sizeof *made);
    *made = (struct backend_comm){.nccl = c->nccl, .cuda = c->cuda};
    made->rank = p->rank;
    made->size = p->size;
    made->device = c->device;
    made->caps = c->caps;
    memcpy(made->version, c->version, sizeof made->version);
    int rc = ask_for_part(made, c, p, e);
    c->spent = p->without;
    if (rc == -ETIMEDOUT) { /* up to here NCCL may write to made->comm */
        abort_now(c);
        made->comm = NULL; /* what is there went with its parent */
    }
    if (rc == 0)
        rc = take_stream(made, c->own_stream ? BACKEND_OWN_STREAM : c->stream, e);
    if (rc < 0)
        return rc;
    cudaError_t cu = c->cuda->cudaMalloc(&made->scratch, sizeof(int));
    if (cu != cudaSuccess)
        return nccl_loader_cuda_failed(e, c->cuda, cu, "a buffer");
    *out = made->comm ? TAKE(made) : NULL;
    return 0;
}

static ncclResult_t issue_with(struct backend_comm *c, const struct backend_call *k, ncclRedOp_t op)
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
    default: /* a barrier */
        return n->ncclAllReduce(c->scratch, c->scratch, 1, ncclInt32, ncclMax, c->comm, c->stream);
    }
}

static ncclResult_t issue(struct backend_comm *c, const struct backend_call *k)
{
    ncclRedOp_t op;
    ncclResult_t rc = nccl_types_take(&op, k, c->size, c->nccl, c->comm);
    if (rc != ncclSuccess)
        return rc;
    rc = issue_with(c, k, op);
    nccl_types_give(op, k, c->nccl, c->comm);
    return rc;
}

/* What NCCL has no kernel for. */
static int check_kernels(const struct backend_comm *c, const struct backend_call *calls, size_t n,
                         struct err *e)
{
    for (size_t i = 0; i < n && c->size == 1; i++)
        if (calls[i].type >= DROVER_F8E4M3 && calls[i].op == DROVER_MULSUM &&
            collective_reduces(calls[i].coll))
            return err_set(e, -ENOTSUP, "NCCL multiplies no 8-bit floats of a single rank");
    return 0;
}

static int nccl_start(struct backend_comm *c, const struct backend_call *calls, size_t n,
                      struct err *e)
{
    int failed = settled(c, "a collective", e);
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
    if (n > 1) { /* also after a failure, which it forgets: NCCL must not stay inside a group */
        ncclResult_t end = c->nccl->ncclGroupEnd();
        rc = rc == ncclSuccess ? end : rc;
    }
    if (rc == ncclSuccess || rc == ncclInProgress)
        return 0;
    return nccl_loader_nccl_failed(e, c->nccl, rc, collective_name(calls[0].coll));
}

static int nccl_poll(struct backend_comm *c, struct err *e)
{
    int rc = settled(c, "a collective", e);
    if (rc < 0 || c->graph.recording)
        return rc;
    cudaError_t state = c->cuda->cudaStreamQuery(c->stream);
    if (state == cudaErrorNotReady)
        return -EINPROGRESS;
    if (state != cudaSuccess)
        return nccl_loader_cuda_failed(e, c->cuda, state, "the stream");
    return settled(c, "a collective", e); /* again: it may have failed since, and so have ended */
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
        return rc == cudaSuccess ? 0 : nccl_loader_cuda_failed(e, c->cuda, rc, "a buffer");
    }
    int rc = nccl_memory_take(&c->regions, c->nccl, c->comm, bytes, use, e);
    if (rc == 0)
        rc = settle_by(c, clock_ms() + SETTLE_MS, "a buffer", e);
    if (rc == 0)
        *out = c->regions->p;
    return rc;
}

static void nccl_mem_free(struct backend_comm *c, void *p)
{
    bool usable = c->comm && !c->revoked && !c->spent;
    struct nccl_region **region = nccl_memory_find(&c->regions, p);
    if (!*region) {
        c->cuda->cudaFree(p);
        return;
    }
    nccl_graph_drop(&c->graph, c->cuda, c->stream); /* NCCL registers for it what it writes to */
    nccl_memory_give(region, c->nccl, usable ? c->comm : NULL);
}

/* On the communicator's stream: a stream of its own is not ordered with the default one. */
static int copy(struct backend_comm *c, void *to, const void *from, size_t bytes,
                enum cudaMemcpyKind way, struct err *e)
{
    cudaError_t rc = c->cuda->cudaMemcpyAsync(to, from, bytes, way, c->stream);
    if (rc == cudaSuccess)
        rc = c->cuda->cudaStreamSynchronize(c->stream);
    if (rc == cudaSuccess)
        return 0;
    bool in = way == cudaMemcpyHostToDevice;
    return nccl_loader_cuda_failed(e, c->cuda, rc,
                                   in ? "a copy to the GPU" : "a copy from the GPU");
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
