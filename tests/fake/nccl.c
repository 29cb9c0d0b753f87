/* A stand-in for libnccl and libcudart, for tests of the nccl plug-in without a GPU: device memory
 * is host memory, the GPU is a thread, and the ranks share a file in FAKE_NCCL_DIR. DROVER_NCCL_LIB
 * and DROVER_CUDART_LIB name this library. With FAKE_OLD it is NCCL 2.19, without newer functions.
 *
 * FAKE_NCCL is a comma-separated list of conditions to simulate:
 *     no_driver   no driver                    init_hang    connecting never completes
 *     old_driver  a driver for CUDA 11         part_hang    split and shrink never complete
 *     stuck       no collective is accepted    stuck_graph  … during the recording of a graph
 *     no_cumem    no memory without NCCL_CUMEM_ENABLE=0
 *     full        a GPU has 16 MiB of free memory
 *     init_error  connecting fails             async_error  a peer disconnects at the third
 * collective slow        a collective is accepted at the third query only late        this rank's
 * GPU waits 2 ms before each collective between     pending work ends after a query for errors,
 * before the next call hang        the stream's work never ends old          another version
 *     one_gpu     only one GPU                 ampere       a GPU without 8-bit floats
 *     log         print the end of communicators to stderr
 *     wrong       the first element of this rank's sums is off by one
 *
 * A use that would hang NCCL, or make it use freed memory, aborts the program: "fake: wrong: …". */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fake/nccl_gpu.h"

/* ---- NCCL: functions ------------------------------------------------------------------------- */
static struct {
    int depth;
    struct work *work;
} group;

static ncclResult_t begin(struct work *w)
{
    ncclComm_t c = w->comm;
    if (c->unaccepted || !c->connected || atomic_load(&c->aborted)) {
        free(w);
        return ncclInvalidUsage; /* as NCCL: the previous call is not accepted yet */
    }
    c->calls++;
    c->stuck = simulates("stuck") || (simulates("stuck_graph") && recording.graph);
    if (!simulates("slow") && !c->stuck) {
        put_on_stream(w);
        return ncclSuccess;
    }
    c->unaccepted = w;
    c->queries = 0;
    return ncclInProgress;
}

/* A created reduction is valid for one call. */
static struct {
    bool live;
    long double factor;
    ncclDataType_t type;
} made;

EXPORT ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t t,
                                             ncclScalarResidence_t where, ncclComm_t c)
{
    if (made.live || where != ncclScalarHostImmediate)
        return ncclInvalidUsage;
    made.live = true;
    made.factor = get(scalar, 0, t);
    made.type = t;
    *op = ncclNumOps;
    return ncclSuccess;
}
EXPORT ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t c)
{
    bool fine = made.live && op == ncclNumOps;
    made.live = false;
    return fine ? ncclSuccess : ncclInvalidArgument;
}

static ncclResult_t call(ncclComm_t c, struct op k)
{
    bool multiplies = k.op == ncclNumOps || k.op == ncclAvg;
    if (c->size == 1 && k.type >= ncclFloat8e4m3 && multiplies)
        return ncclInvalidArgument; /* NCCL has no kernel for it (up to 2.30) */
    if (k.op == ncclNumOps) {
        if (!made.live || made.type != k.type)
            return ncclInvalidArgument;
        k.factor = made.factor;
        k.op = ncclSum;
    }
    if (!group.work)
        group.work = calloc(1, sizeof *group.work);
    struct work *w = group.work;
    if ((w->comm && w->comm != c) || w->n == OPS_MAX)
        return ncclInvalidUsage;
    w->comm = c;
    w->ops[w->n++] = k;
    if (group.depth)
        return ncclSuccess;
    group.work = NULL;
    return begin(w);
}

EXPORT ncclResult_t ncclGroupStart(void)
{
    group.depth++;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclGroupEnd(void)
{
    struct work *w = group.work;
    if (group.depth == 0 || --group.depth > 0 || !w)
        return ncclSuccess;
    group.work = NULL;
    return begin(w);
}

EXPORT ncclResult_t ncclGetVersion(int *v)
{
#ifdef FAKE_OLD
    *v = 21903;
#else
    *v = simulates("old") ? 21903 : NCCL_VERSION_CODE;
#endif
    return ncclSuccess;
}
EXPORT const char *ncclGetErrorString(ncclResult_t r)
{
    return r == ncclRemoteError ? "remote process exited or there was a network error"
                                : "fake NCCL error";
}
EXPORT const char *ncclGetLastError(ncclComm_t c)
{
    return simulates("async_error") ? "the fake peer is gone\nsecond line" : "";
}

EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    char path[sizeof id->internal];
    const char *dir = getenv("FAKE_NCCL_DIR");
    snprintf(path, sizeof path, "%s/nccl-XXXXXX", dir ? dir : "/dev/shm");
    int fd = mkstemp(path);
    if (fd < 0)
        return ncclSystemError;
    close(fd);
    memset(id, 0, sizeof *id);
    memcpy(id->internal, path, sizeof path);
    return ncclSuccess;
}

static void log_memory(ncclComm_t c, const char *what)
{
    if (simulates("log") && c->rank == 0)
        fprintf(stderr, "fake: memory %s\n", what);
}

EXPORT ncclResult_t ncclMemAlloc(void **out, size_t bytes)
{
    const char *cumem = getenv("NCCL_CUMEM_ENABLE");
    if (simulates("no_cumem") && (!cumem || strcmp(cumem, "0") != 0))
        return ncclUnhandledCudaError;
    return cudaMalloc(out, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
EXPORT ncclResult_t ncclMemFree(void *p)
{
    if (kept_works)
        wrong_use("memory is freed that a graph may have registered");
    cudaFree(p);
    return ncclSuccess;
}
EXPORT ncclResult_t ncclCommRegister(const ncclComm_t c, void *p, size_t bytes, void **handle)
{
    log_memory(c, "registered");
    *handle = p;
    return ncclSuccess;
}
EXPORT ncclResult_t ncclCommDeregister(const ncclComm_t c, void *handle)
{
    log_memory(c, "deregistered");
    return ncclSuccess;
}

/* The first rank creates the file. */
static ncclResult_t connect_at(ncclComm_t *out, const char *path, int n, int rank)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(struct shared)) < 0)
        return ncclSystemError;
    struct ncclComm *c = calloc(1, sizeof *c);
    c->at = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (c->at == MAP_FAILED) {
        free(c);
        return ncclSystemError;
    }
    c->rank = rank;
    c->size = n;
    snprintf(c->path, sizeof c->path, "%s", path);
    c->connect_turn = arrive(c);
    *out = c;
    return ncclInProgress;
}

EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int n, ncclUniqueId id, int rank,
                                           ncclConfig_t *config)
{
    if (simulates("init_error") || config->blocking != 0)
        return ncclSystemError;
    return connect_at(out, id.internal, n, rank);
}

#ifndef FAKE_OLD
/* One id per 128 ranks, each created by another rank. */
EXPORT ncclResult_t ncclCommInitRankScalable(ncclComm_t *out, int n, int rank, int n_ids,
                                             ncclUniqueId *ids, ncclConfig_t *config)
{
    if (config->blocking != 0 || n_ids != (n + 127) / 128)
        return ncclSystemError;
    for (int k = 1; k < n_ids; k++) {
        if (access(ids[k].internal, F_OK) < 0 || !strcmp(ids[k].internal, ids[k - 1].internal))
            return ncclInvalidArgument;
    }
    if (rank == 0)
        fprintf(stderr, "fake: %d ids\n", n_ids);
    return connect_at(out, ids[0].internal, n, rank);
}
#endif

static ncclResult_t connecting(ncclComm_t c)
{
    if (simulates("init_hang") || atomic_load(&c->at->turn) == c->connect_turn)
        return ncclInProgress;
    c->connected = true;
    if (c->rank == 0)
        unlink(c->path);
    return ncclSuccess;
}

/* NCCL does this in a thread of its own, at any time. */
static void show_made(ncclComm_t c)
{
    if (c->made_at && *c->made_at) /* freed memory is not NULL with MALLOC_PERTURB_ */
        wrong_use("the memory for a new communicator was freed");
    if (c->made_at)
        *c->made_at = c->made;
    c->made_at = NULL;
}

EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *state)
{
    *state = c->connected ? atomic_load(&c->broken) : connecting(c);
    if (c->made_at) {
        if (!simulates("part_hang"))
            show_made(c);
        *state = ncclInProgress;
    } else if (simulates("async_error") && c->calls >= 3) {
        *state = ncclRemoteError;
    } else if ((c->finalized || atomic_load(&c->aborted)) && atomic_load(&c->pending)) {
        *state = ncclInProgress;
    } else if (c->finalized && c->kept) {
        *state = ncclInProgress; /* until the graphs are destroyed */
    } else if (c->unaccepted && (++c->queries < 3 || c->stuck)) {
        *state = ncclInProgress;
    } else if (c->unaccepted) {
        put_on_stream(c->unaccepted);
        c->unaccepted = NULL;
    }
    while (simulates("between") && atomic_load(&c->pending))
        sched_yield();
    return ncclSuccess;
}

static void stop(ncclComm_t c)
{
    atomic_store(&c->aborted, true);
    show_made(c);
    free(c->unaccepted);
    c->unaccepted = NULL;
}

static ncclResult_t end(ncclComm_t c, const char *how)
{
    if (c->kept)
        wrong_use("a communicator ends before a graph that has its work");
    if (simulates("log"))
        fprintf(stderr, "fake: %s\n", how);
    while (atomic_load(&c->pending)) /* until the GPU notices the abort */
        sched_yield();
    munmap(c->at, sizeof(struct shared));
    free(c);
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommFinalize(ncclComm_t c)
{
    c->finalized = true;
    return ncclInProgress;
}
EXPORT ncclResult_t ncclCommDestroy(ncclComm_t c)
{
    bool fine = c->finalized || atomic_load(&c->aborted);
    return end(c, fine ? "destroyed" : "destroyed without finalize");
}
EXPORT ncclResult_t ncclCommAbort(ncclComm_t c)
{
    stop(c);
    return end(c, "aborted");
}

static ncclResult_t make_child(ncclComm_t c, ncclComm_t *out, const char *what, int n, int rank)
{
    char path[PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s.%d.%s", c->path, c->children, what);
    ncclResult_t rc = connect_at(&c->made, path, n, rank);
    *out = NULL;
    c->made_at = out;
    return rc;
}

EXPORT ncclResult_t ncclCommSplit(ncclComm_t c, int color, int key, ncclComm_t *out,
                                  ncclConfig_t *config)
{
    struct wish {
        int color, key;
    } mine = {color, key};
    memcpy(c->at->slots[c->rank], &mine, sizeof mine);
    c->children++;
    if (!barrier(c))
        return ncclSystemError;
    int n = 0, rank = 0;
    for (int r = 0; r < c->size; r++) {
        struct wish w;
        memcpy(&w, c->at->slots[r], sizeof w);
        n += w.color == color;
        rank += w.color == color && (w.key < key || (w.key == key && r < c->rank));
    }
    if (!barrier(c))
        return ncclSystemError;
    *out = NULL;
    if (color == NCCL_SPLIT_NOCOLOR)
        return ncclSuccess;
    char what[16];
    snprintf(what, sizeof what, "%d", color);
    return make_child(c, out, what, n, rank);
}

#ifndef FAKE_OLD
EXPORT ncclResult_t ncclCommShrink(ncclComm_t c, int *without, int n, ncclComm_t *out,
                                   ncclConfig_t *config, int flags)
{
    if (n == 0)
        return ncclInvalidArgument;
    if (flags & NCCL_SHRINK_ABORT)
        stop(c);
    int rank = c->rank;
    for (int i = 0; i < n; i++)
        rank -= without[i] < c->rank;
    c->children++;
    return make_child(c, out, "shrunk", c->size - n, rank);
}
EXPORT ncclResult_t ncclCommWindowRegister(ncclComm_t c, void *p, size_t bytes, ncclWindow_t *out,
                                           int flags)
{
    log_memory(c, "in a window");
    *out = p;
    return flags == NCCL_WIN_COLL_SYMMETRIC && barrier(c) ? ncclInProgress : ncclInvalidArgument;
}
EXPORT ncclResult_t ncclCommWindowDeregister(ncclComm_t c, ncclWindow_t w)
{
    log_memory(c, "out of the window");
    return ncclSuccess;
}
EXPORT ncclResult_t ncclCommRevoke(ncclComm_t c, int flags)
{
    if (c->unaccepted || c->made_at)
        wrong_use("revoked while a call is taken in");
    if (simulates("log"))
        fprintf(stderr, "fake: revoked\n");
    stop(c);
    return ncclInProgress;
}
EXPORT ncclResult_t ncclAlltoAll(const void *in, void *out, size_t n, ncclDataType_t t,
                                 ncclComm_t c, cudaStream_t s)
{
    return call(c, (struct op){ALL_TO_ALL, 0, in, out, n, t, ncclSum, 0, 0});
}
EXPORT ncclResult_t ncclGather(const void *in, void *out, size_t n, ncclDataType_t t, int root,
                               ncclComm_t c, cudaStream_t s)
{
    return call(c, (struct op){GATHER, root, in, out, n, t, ncclSum, 0, 0});
}
EXPORT ncclResult_t ncclScatter(const void *in, void *out, size_t n, ncclDataType_t t, int root,
                                ncclComm_t c, cudaStream_t s)
{
    return call(c, (struct op){SCATTER, root, in, out, n, t, ncclSum, 0, 0});
}
#endif

EXPORT ncclResult_t ncclAllReduce(const void *in, void *out, size_t n, ncclDataType_t t,
                                  ncclRedOp_t op, ncclComm_t c, cudaStream_t s)
{
    return call(c, (struct op){ALL_REDUCE, 0, in, out, n, t, op, 0, 0});
}
EXPORT ncclResult_t ncclBroadcast(const void *in, void *out, size_t n, ncclDataType_t t, int root,
                                  ncclComm_t c, cudaStream_t s)
{
    return call(c, (struct op){BROADCAST, root, in, out, n, t, ncclSum, 0, 0});
}
EXPORT ncclResult_t ncclReduce(const void *in, void *out, size_t n, ncclDataType_t t,
                               ncclRedOp_t op, int root, ncclComm_t c, cudaStream_t s)
{
    return call(c, (struct op){REDUCE, root, in, out, n, t, op, 0, 0});
}
EXPORT ncclResult_t ncclAllGather(const void *in, void *out, size_t n, ncclDataType_t t,
                                  ncclComm_t c, cudaStream_t s)
{
    return call(c, (struct op){ALL_GATHER, 0, in, out, n, t, ncclSum, 0, 0});
}
EXPORT ncclResult_t ncclReduceScatter(const void *in, void *out, size_t n, ncclDataType_t t,
                                      ncclRedOp_t op, ncclComm_t c, cudaStream_t s)
{
    return call(c, (struct op){REDUCE_SCATTER, 0, in, out, n, t, op, 0, 0});
}
EXPORT ncclResult_t ncclSend(const void *in, size_t n, ncclDataType_t t, int peer, ncclComm_t c,
                             cudaStream_t s)
{
    return call(c, (struct op){SEND, peer, in, NULL, n, t, ncclSum, 0, 0});
}
EXPORT ncclResult_t ncclRecv(void *out, size_t n, ncclDataType_t t, int peer, ncclComm_t c,
                             cudaStream_t s)
{
    return call(c, (struct op){RECV, peer, NULL, out, n, t, ncclSum, 0, 0});
}
