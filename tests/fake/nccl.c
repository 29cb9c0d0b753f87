/* A stand-in for libnccl and libcudart, for tests of the nccl plug-in without a GPU: device memory
 * is host memory, the GPU is a thread, and the ranks share a file in FAKE_NCCL_DIR. DROVER_NCCL_LIB
 * and DROVER_CUDART_LIB name this library. With FAKE_OLD it is NCCL 2.19, without newer functions.
 *
 * It is as strict as the real library: a call on a non-blocking communicator returns
 * ncclInProgress, and a thread completes it; a blocking one returns when its work is on the stream.
 * The first collective of each kind waits for all ranks, which connect (NCCL 2.22 and newer). What
 * CUDA refuses during the capture of a graph is refused here (nccl_cuda.h). One rank's product
 * leaves elements unwritten, as NCCL does. It is also a library of the plug-in's kernels
 * (nccl_kernels.h), for DROVER_NCCL_KERNELS.
 *
 * FAKE_NCCL is a comma-separated list of conditions to simulate:
 *     no_driver    no driver
 *     old_driver   a driver for CUDA 11
 *     no_cumem     no memory without NCCL_CUMEM_ENABLE=0
 *     full         a GPU has 16 MiB of free memory
 *     init_error   connecting fails
 *     init_hang    connecting never completes
 *     init_stop    the last rank stops itself (SIGSTOP) while it connects
 *     part_hang    split and shrink never complete
 *     stuck        the first use of a collective never returns, until the communicator is aborted
 *     stuck_graph  the same during the recording of a graph
 *     async_error  a peer disconnects at the third collective
 *     slow         the first use of each kind of collective takes 20 ms
 *     late         this rank's GPU waits 2 ms before each collective
 *     between      pending work ends after a query for errors, before the next call
 *     hang         the stream's work never ends
 *     old          another version
 *     one_gpu      only one GPU
 *     ampere       a GPU without 8-bit floats
 *     log          print the end of communicators to stderr
 *     wrong        the first element of this rank's sums is off by one
 *     wrong_p2p    the same without NCCL_P2P_DISABLE=1
 *     wrong_shm    the same without NCCL_SHM_DISABLE=1
 *     stuck_p2p    as stuck, without NCCL_P2P_DISABLE=1
 *
 * FAKE_NCCL_RECORD is a file that gets a line per call when it returns: the rank, the call, and how
 * many of the communicator's calls are on the stream: "0 ncclAllReduce 3/3".
 *
 * A use that would hang NCCL, or make it use freed memory, aborts the program: "fake: wrong: …". */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fake/nccl_gpu.h"

/* ---- NCCL: calls that wait for other ranks -------------------------------------------------- */
/* Such a call; the caller's thread executes it, or another one if the communicator is not
 * blocking. */
struct job {
    ncclResult_t (*run)(struct job *j);
    ncclComm_t c;
    struct work *work;
    ncclComm_t made, *out; /* a new communicator, and the caller's variable */
};

static void *run_job(void *arg)
{
    struct job *j = arg;
    ncclComm_t c = j->c;
    ncclResult_t rc = j->run(j);
    if (rc != ncclSuccess && !atomic_load(&c->aborted))
        atomic_store(&c->broken, rc);
    atomic_store(&c->busy, false);
    free(j);
    atomic_fetch_sub(&c->inside, 1);
    return NULL;
}

static ncclResult_t do_job(struct job job)
{
    struct job *j = malloc(sizeof *j);
    pthread_t thread;
    *j = job;
    atomic_fetch_add(&j->c->inside, 1);
    if (j->c->blocking) {
        ncclResult_t rc = j->run(j);
        atomic_fetch_sub(&job.c->inside, 1);
        free(j);
        return rc;
    }
    atomic_store(&j->c->busy, true);
    if (pthread_create(&thread, NULL, run_job, j) != 0)
        return ncclSystemError;
    pthread_detach(thread);
    return ncclInProgress;
}

/* ---- NCCL: collectives ---------------------------------------------------------------------- */
static _Thread_local struct {
    int depth;
    struct work *work;
} group;

static const char *const call_names[] = {
    "ncclAllReduce", "ncclBroadcast", "ncclReduce",  "ncclAllGather", "ncclReduceScatter",
    "ncclAlltoAll",  "ncclGather",    "ncclScatter", "ncclSend",      "ncclRecv"};

/* What the caller can know when the call returns. */
static void record(ncclComm_t c, int kind, int on_stream)
{
    const char *path = getenv("FAKE_NCCL_RECORD");
    FILE *f = path ? fopen(path, "ae") : NULL;
    if (!f)
        return;
    fprintf(f, "%d %s %d/%d\n", c->rank, call_names[kind], on_stream, c->calls);
    fclose(f);
}

/* Connects the ranks at the first use of a kind of collective; false if it is aborted. */
static bool connect_for(ncclComm_t c, const struct work *w)
{
    bool stuck = simulates("stuck") || faulty("stuck_p2p", "NCCL_P2P_DISABLE") ||
                 (simulates("stuck_graph") && capture.graph);
    while (stuck && !atomic_load(&c->aborted))
        sched_yield();
    for (size_t i = 0; i < w->n; i++) {
        unsigned kind = 1U << w->ops[i].kind;
        if (w->ops[i].kind >= SEND || c->used & kind)
            continue;
        c->used |= kind;
        if (simulates("slow"))
            nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
#ifndef FAKE_OLD
        if (!meet(c, &c->at->hosts))
            return false;
#endif
    }
    return !stopped(c);
}

static ncclResult_t put_work(struct job *j)
{
    if (!connect_for(j->c, j->work)) {
        free(j->work);
        return ncclInternalError;
    }
    if (!put_on_stream(j->work))
        return ncclUnhandledCudaError;
    atomic_fetch_add(&j->c->on_stream, 1);
    return ncclSuccess;
}

static ncclResult_t begin(struct work *w)
{
    ncclComm_t c = w->comm;
    int kind = w->ops[0].kind;
    if (atomic_load(&c->busy) || c->finalized || stopped(c)) {
        free(w);
        return ncclInvalidUsage; /* as NCCL: the previous call is not complete yet */
    }
    c->calls++;
    int before = atomic_load(&c->on_stream);
    ncclResult_t rc = do_job((struct job){.run = put_work, .c = c, .work = w});
    record(c, kind, rc == ncclSuccess ? atomic_load(&c->on_stream) : before);
    return rc;
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

static ncclResult_t call(ncclComm_t c, struct op k, cudaStream_t s)
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
    w->stream = s;
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
static ncclResult_t nothing(struct job *j)
{
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommRegister(const ncclComm_t c, void *p, size_t bytes, void **handle)
{
    log_memory(c, "registered");
    *handle = p;
    return do_job((struct job){.run = nothing, .c = c});
}
EXPORT ncclResult_t ncclCommDeregister(const ncclComm_t c, void *handle)
{
    log_memory(c, "deregistered");
    return ncclSuccess;
}

/* The first rank creates the file. */
static ncclComm_t make_comm(const char *path, int n, int rank, bool blocking)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(struct shared)) < 0)
        return NULL;
    struct ncclComm *c = calloc(1, sizeof *c);
    c->at = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (c->at == MAP_FAILED) {
        free(c);
        return NULL;
    }
    c->rank = rank;
    c->size = n;
    c->blocking = blocking;
    snprintf(c->path, sizeof c->path, "%s", path);
    c->connect_turn = arrive(&c->at->hosts, n);
    return c;
}

static bool is_connected(ncclComm_t c)
{
    return !simulates("init_hang") && atomic_load(&c->at->hosts.turn) != c->connect_turn;
}

static ncclResult_t connect_all(struct job *j)
{
    while (!is_connected(j->made) && !atomic_load(&j->c->aborted))
        sched_yield();
    if (atomic_load(&j->c->aborted))
        return ncclInternalError;
    if (j->made->rank == 0)
        unlink(j->made->path);
    return ncclSuccess;
}

/* A blocking call sets *out when all ranks are connected. */
static ncclResult_t connect_at(ncclComm_t *out, const char *path, int n, int rank, bool blocking)
{
    ncclComm_t c = make_comm(path, n, rank, blocking);
    if (!c)
        return ncclSystemError;
    if (!blocking)
        *out = c;
    ncclResult_t rc = do_job((struct job){.run = connect_all, .c = c, .made = c});
    *out = c;
    return rc;
}

EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int n, ncclUniqueId id, int rank,
                                           ncclConfig_t *config)
{
    if (simulates("init_error"))
        return ncclSystemError;
    if (simulates("init_stop") && rank == n - 1)
        raise(SIGSTOP);
    return connect_at(out, id.internal, n, rank, config->blocking != 0);
}

#ifndef FAKE_OLD
/* One id per 128 ranks, each created by another rank. */
EXPORT ncclResult_t ncclCommInitRankScalable(ncclComm_t *out, int n, int rank, int n_ids,
                                             ncclUniqueId *ids, ncclConfig_t *config)
{
    if (n_ids != (n + 127) / 128)
        return ncclSystemError;
    for (int k = 1; k < n_ids; k++) {
        if (access(ids[k].internal, F_OK) < 0 || !strcmp(ids[k].internal, ids[k - 1].internal))
            return ncclInvalidArgument;
    }
    if (rank == 0)
        fprintf(stderr, "fake: %d ids\n", n_ids);
    return connect_at(out, ids[0].internal, n, rank, config->blocking != 0);
}
#endif

EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *state)
{
    *state = atomic_load(&c->busy) ? ncclInProgress : atomic_load(&c->broken);
    if (simulates("async_error") && c->calls >= 3)
        *state = ncclRemoteError;
    while (simulates("between") && atomic_load(&c->pending))
        sched_yield();
    return ncclSuccess;
}

static ncclResult_t end(ncclComm_t c, const char *how)
{
    if (c->kept)
        wrong_use("a communicator ends before a graph that has its work");
    if (simulates("log"))
        fprintf(stderr, "fake: %s\n", how);
    while (atomic_load(&c->pending) || atomic_load(&c->inside)) /* until they notice the abort */
        sched_yield();
    munmap(c->at, sizeof(struct shared));
    free(c);
    return ncclSuccess;
}

/* The work of graphs counts until they are destroyed. */
static ncclResult_t complete(struct job *j)
{
    while ((atomic_load(&j->c->pending) || j->c->kept) && !atomic_load(&j->c->aborted))
        sched_yield();
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommFinalize(ncclComm_t c)
{
    c->finalized = true;
    return do_job((struct job){.run = complete, .c = c});
}
EXPORT ncclResult_t ncclCommDestroy(ncclComm_t c)
{
    bool fine = c->finalized || stopped(c);
    return end(c, fine ? "destroyed" : "destroyed without finalize");
}
EXPORT ncclResult_t ncclCommAbort(ncclComm_t c)
{
    atomic_store(&c->aborted, true);
    return end(c, "aborted");
}

/* Connects j->made, the ranks of a part of j->c. */
static ncclResult_t connect_part(struct job *j)
{
    while (simulates("part_hang") && !atomic_load(&j->c->aborted))
        sched_yield();
    ncclResult_t rc = connect_all(j);
    if (rc != ncclSuccess)
        return rc;
    if (!*j->out || *j->out != j->made) /* freed memory is not NULL with MALLOC_PERTURB_ */
        *j->out = j->made;
    return ncclSuccess;
}

static ncclResult_t make_child(ncclComm_t c, ncclComm_t *out, const char *what, int n, int rank)
{
    char path[PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s.%d.%s", c->path, c->children, what);
    struct job j = {.run = connect_part, .c = c, .out = out};
    j.made = make_comm(path, n, rank, c->blocking);
    *out = NULL;
    return j.made ? do_job(j) : ncclSystemError;
}

EXPORT ncclResult_t ncclCommSplit(ncclComm_t c, int color, int key, ncclComm_t *out,
                                  ncclConfig_t *config)
{
    struct wish {
        int color, key;
    } mine = {color, key};
    memcpy(c->at->slots[c->rank], &mine, sizeof mine);
    c->children++;
    if (!meet(c, &c->at->hosts))
        return ncclSystemError;
    int n = 0, rank = 0;
    for (int r = 0; r < c->size; r++) {
        struct wish w;
        memcpy(&w, c->at->slots[r], sizeof w);
        n += w.color == color;
        rank += w.color == color && (w.key < key || (w.key == key && r < c->rank));
    }
    if (!meet(c, &c->at->hosts))
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
        atomic_store(&c->revoked, true);
    int rank = c->rank;
    for (int i = 0; i < n; i++)
        rank -= without[i] < c->rank;
    c->children++;
    return make_child(c, out, "shrunk", c->size - n, rank);
}
static ncclResult_t meet_all(struct job *j)
{
    return meet(j->c, &j->c->at->hosts) ? ncclSuccess : ncclInternalError;
}

EXPORT ncclResult_t ncclCommWindowRegister(ncclComm_t c, void *p, size_t bytes, ncclWindow_t *out,
                                           int flags)
{
    log_memory(c, "in a window");
    *out = p;
    return flags == NCCL_WIN_COLL_SYMMETRIC ? do_job((struct job){.run = meet_all, .c = c})
                                            : ncclInvalidArgument;
}
EXPORT ncclResult_t ncclCommWindowDeregister(ncclComm_t c, ncclWindow_t w)
{
    log_memory(c, "out of the window");
    return ncclSuccess;
}
EXPORT ncclResult_t ncclCommRevoke(ncclComm_t c, int flags)
{
    if (atomic_load(&c->inside))
        wrong_use("revoked while a call is being executed");
    if (simulates("log"))
        fprintf(stderr, "fake: revoked\n");
    atomic_store(&c->revoked, true);
    while (c->blocking && atomic_load(&c->pending))
        sched_yield();
    return c->blocking ? ncclSuccess : ncclInProgress;
}
EXPORT ncclResult_t ncclAlltoAll(const void *in, void *out, size_t n, ncclDataType_t t,
                                 ncclComm_t c, cudaStream_t s)
{
    return call(c, (struct op){ALL_TO_ALL, 0, in, out, n, t, ncclSum, 0, 0}, s);
}
EXPORT ncclResult_t ncclGather(const void *in, void *out, size_t n, ncclDataType_t t, int root,
                               ncclComm_t c, cudaStream_t s)
{
    return call(c, (struct op){GATHER, root, in, out, n, t, ncclSum, 0, 0}, s);
}
EXPORT ncclResult_t ncclScatter(const void *in, void *out, size_t n, ncclDataType_t t, int root,
                                ncclComm_t c, cudaStream_t s)
{
    return call(c, (struct op){SCATTER, root, in, out, n, t, ncclSum, 0, 0}, s);
}
#endif

EXPORT ncclResult_t ncclAllReduce(const void *in, void *out, size_t n, ncclDataType_t t,
                                  ncclRedOp_t op, ncclComm_t c, cudaStream_t s)
{
    return call(c, (struct op){ALL_REDUCE, 0, in, out, n, t, op, 0, 0}, s);
}
EXPORT ncclResult_t ncclBroadcast(const void *in, void *out, size_t n, ncclDataType_t t, int root,
                                  ncclComm_t c, cudaStream_t s)
{
    return call(c, (struct op){BROADCAST, root, in, out, n, t, ncclSum, 0, 0}, s);
}
EXPORT ncclResult_t ncclReduce(const void *in, void *out, size_t n, ncclDataType_t t,
                               ncclRedOp_t op, int root, ncclComm_t c, cudaStream_t s)
{
    return call(c, (struct op){REDUCE, root, in, out, n, t, op, 0, 0}, s);
}
EXPORT ncclResult_t ncclAllGather(const void *in, void *out, size_t n, ncclDataType_t t,
                                  ncclComm_t c, cudaStream_t s)
{
    return call(c, (struct op){ALL_GATHER, 0, in, out, n, t, ncclSum, 0, 0}, s);
}
EXPORT ncclResult_t ncclReduceScatter(const void *in, void *out, size_t n, ncclDataType_t t,
                                      ncclRedOp_t op, ncclComm_t c, cudaStream_t s)
{
    return call(c, (struct op){REDUCE_SCATTER, 0, in, out, n, t, op, 0, 0}, s);
}
EXPORT ncclResult_t ncclSend(const void *in, size_t n, ncclDataType_t t, int peer, ncclComm_t c,
                             cudaStream_t s)
{
    return call(c, (struct op){SEND, peer, in, NULL, n, t, ncclSum, 0, 0}, s);
}
EXPORT ncclResult_t ncclRecv(void *out, size_t n, ncclDataType_t t, int peer, ncclComm_t c,
                             cudaStream_t s)
{
    return call(c, (struct op){RECV, peer, NULL, out, n, t, ncclSum, 0, 0}, s);
}
