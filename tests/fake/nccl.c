/* A libnccl and a libcudart in one, for tests of the nccl plug-in without a GPU: "device" memory is
 * the host's, the GPU is a thread, and the ranks meet in a file below FAKE_NCCL_DIR.
 * DROVER_NCCL_LIB and DROVER_CUDART_LIB name this library. FAKE_OLD makes an NCCL 2.19, without
 * younger calls.
 *
 * FAKE_NCCL is a list of what shall happen, apart by commas:
 *     no_driver   there is no GPU              init_hang    connecting never ends
 *     init_error  connecting fails             async_error  the third collective's peers are lost
 *     slow        a collective is taken in only at the third time that one asks
 *     late        this rank's GPU takes 2 ms before each collective
 *     hang        the stream is never done     old          the version is another one
 *     one_gpu     … and no other
 *     ampere      the GPU has no 8-bit floats  log          ends of communicators, on stderr
 *     wrong       this rank's sums are off by one in the first element */
#include <cuda_runtime.h>
#include <fcntl.h>
#include <nccl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/fake/nccl_cuda.h"
#include "tests/fake/nccl_values.h"

enum {
    RANKS_MAX = 8,
    SLOT_BYTES = 32 << 20,
    BOX_BYTES = 64 << 10,
    OPS_MAX = 256,
    PATH_BYTES = 512
};

/* A message on its way, a piece at a time. */
struct box {
    atomic_uint full;
    size_t total, bytes; /* of the message, and of this piece */
    char data[BOX_BYTES];
};

struct meeting {
    atomic_uint arrived, turn;
    struct box boxes[RANKS_MAX][RANKS_MAX]; /* from, to */
    char slots[RANKS_MAX][SLOT_BYTES];      /* each rank's input; the file is sparse */
};

enum {
    ALL_REDUCE,
    BROADCAST,
    REDUCE,
    ALL_GATHER,
    REDUCE_SCATTER,
    ALL_TO_ALL,
    GATHER,
    SCATTER,
    SEND,
    RECV
};

struct op {
    int kind, root;
    const void *in;
    void *out;
    size_t n;
    ncclDataType_t type;
    ncclRedOp_t op;
    size_t moved; /* of a send's or receive's bytes */
};

/* What is begun together. */
struct work {
    ncclComm_t comm;
    size_t n;
    struct op ops[OPS_MAX];
    struct work *next;
};

struct ncclComm {
    struct meeting *at;
    char path[PATH_BYTES];
    int rank, size, calls, asked, children;
    unsigned connect_turn; /* it is connected when the meeting's is another one */
    bool connected, finalized;
    struct work *untaken;      /* "slow" */
    ncclComm_t made, *made_at; /* by a split: seen when the parent is asked */
    atomic_int under_way;
    atomic_bool aborted;
    _Atomic ncclResult_t broken;
};

/* ---- the GPU: a thread that does what is on the stream, in order ---- */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t came;
    struct work *first, **last;
    atomic_int left;
    bool runs;
} gpu = {.lock = PTHREAD_MUTEX_INITIALIZER, .came = PTHREAD_COND_INITIALIZER};

EXPORT cudaError_t cudaStreamQuery(cudaStream_t s)
{
    return wanted("hang") || atomic_load(&gpu.left) ? cudaErrorNotReady : cudaSuccess;
}

static void perform(struct work *w);

static void *run_gpu(void *arg)
{
    for (;;) {
        pthread_mutex_lock(&gpu.lock);
        while (!gpu.first)
            pthread_cond_wait(&gpu.came, &gpu.lock);
        struct work *w = gpu.first;
        gpu.first = w->next;
        if (!gpu.first)
            gpu.last = &gpu.first;
        pthread_mutex_unlock(&gpu.lock);
        if (wanted("late"))
            nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        perform(w);
        atomic_fetch_sub(&w->comm->under_way, 1);
        atomic_fetch_sub(&gpu.left, 1);
        free(w);
    }
    return arg;
}

static void put_on_stream(struct work *w)
{
    atomic_fetch_add(&gpu.left, 1);
    pthread_mutex_lock(&gpu.lock);
    if (!gpu.runs) {
        pthread_t thread;
        gpu.runs = pthread_create(&thread, NULL, run_gpu, NULL) == 0;
        gpu.last = &gpu.first;
    }
    *gpu.last = w;
    gpu.last = &w->next;
    pthread_cond_signal(&gpu.came);
    pthread_mutex_unlock(&gpu.lock);
}

/* ---- NCCL's part: on the GPU ---- */
/* Says when all ranks have come: the turn changes. */
static unsigned arrive(ncclComm_t c)
{
    unsigned turn = atomic_load(&c->at->turn);
    if (atomic_fetch_add(&c->at->arrived, 1) + 1 == (unsigned)c->size) {
        atomic_store(&c->at->arrived, 0);
        atomic_fetch_add(&c->at->turn, 1);
    }
    return turn;
}

/* All ranks of the communicator; false when it is aborted. */
static bool barrier(ncclComm_t c)
{
    for (unsigned turn = arrive(c); atomic_load(&c->at->turn) == turn; sched_yield())
        if (atomic_load(&c->aborted))
            return false;
    return true;
}

/* Whole numbers in long double, which holds 64 bits; floats in double, so that they are rounded to
 * their type once. */
static void reduce_into(ncclComm_t c, const struct op *k, size_t first)
{
    for (size_t i = 0; i < k->n; i++) {
        long double x = get(c->at->slots[0], first + i, k->type);
        for (int r = 1; r < c->size; r++)
            x = combine(x, get(c->at->slots[r], first + i, k->type), k->op, k->type);
        set(k->out, i, k->type, k->op == ncclAvg ? x / c->size : x);
    }
    if (wanted("wrong"))
        set(k->out, 0, k->type, get(k->out, 0, k->type) + 1);
}

/* Every rank's input lies in its slot. */
static void take_result(ncclComm_t c, const struct op *k)
{
    size_t bytes = k->n * bytes_of(k->type), own = (size_t)c->rank * bytes;
    bool root = c->rank == k->root;
    switch (k->kind) {
    case REDUCE:
        if (!root)
            return;
        /* fall through */
    case ALL_REDUCE:
        reduce_into(c, k, 0);
        return;
    case REDUCE_SCATTER:
        reduce_into(c, k, (size_t)c->rank * k->n);
        return;
    case BROADCAST:
        memcpy(k->out, c->at->slots[k->root], bytes);
        return;
    case SCATTER:
        memcpy(k->out, c->at->slots[k->root] + own, bytes);
        return;
    default:
        for (int r = 0; r < c->size && (root || k->kind != GATHER); r++)
            memcpy((char *)k->out + (size_t)r * bytes,
                   c->at->slots[r] + (k->kind == ALL_TO_ALL ? own : 0), bytes);
    }
}

static ncclResult_t collective(ncclComm_t c, const struct op *k)
{
    bool wide = k->kind == REDUCE_SCATTER || k->kind == ALL_TO_ALL || k->kind == SCATTER;
    size_t sent = k->n * bytes_of(k->type) * (wide ? (size_t)c->size : 1);
    if (sent > SLOT_BYTES || c->size > RANKS_MAX)
        return ncclInvalidArgument;
    if ((k->kind != BROADCAST && k->kind != SCATTER) || c->rank == k->root)
        memcpy(c->at->slots[c->rank], k->in, sent);
    if (!barrier(c))
        return ncclSystemError;
    take_result(c, k);
    return barrier(c) ? ncclSuccess : ncclSystemError;
}

static bool is_done(const struct op *k)
{
    return k->kind < SEND || k->moved == k->n * bytes_of(k->type);
}

/* Moves a piece, where the box allows. */
static ncclResult_t move_piece(ncclComm_t c, struct op *k)
{
    bool sends = k->kind == SEND;
    struct box *b = sends ? &c->at->boxes[c->rank][k->root] : &c->at->boxes[k->root][c->rank];
    size_t total = k->n * bytes_of(k->type), left = total - k->moved;
    if (atomic_load(&b->full) == (sends ? 1U : 0U))
        return ncclSuccess;
    if (sends) {
        b->total = total;
        b->bytes = left < BOX_BYTES ? left : BOX_BYTES;
        memcpy(b->data, (const char *)k->in + k->moved, b->bytes);
    } else {
        if (b->total != total)
            return ncclInvalidUsage;
        memcpy((char *)k->out + k->moved, b->data, b->bytes);
    }
    k->moved += b->bytes;
    atomic_store(&b->full, sends);
    return ncclSuccess;
}

/* Messages between two ranks keep their order: an earlier one to the same must be done. */
static bool is_next(const struct work *w, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (w->ops[k].kind == w->ops[i].kind && w->ops[k].root == w->ops[i].root &&
            !is_done(&w->ops[k]))
            return false;
    return !is_done(&w->ops[i]);
}

static ncclResult_t messages(struct work *w)
{
    bool left = true;
    while (left) {
        left = false;
        for (size_t i = 0; i < w->n; i++) {
            ncclResult_t rc = is_next(w, i) ? move_piece(w->comm, &w->ops[i]) : ncclSuccess;
            if (rc != ncclSuccess)
                return rc;
            left |= !is_done(&w->ops[i]);
        }
        if (atomic_load(&w->comm->aborted))
            return ncclSystemError;
        sched_yield();
    }
    return ncclSuccess;
}

static void perform(struct work *w)
{
    ncclResult_t rc = atomic_load(&w->comm->aborted) ? ncclSystemError : ncclSuccess;
    for (size_t i = 0; i < w->n && rc == ncclSuccess; i++)
        if (w->ops[i].kind < SEND)
            rc = collective(w->comm, &w->ops[i]);
    if (rc == ncclSuccess)
        rc = messages(w);
    if (rc != ncclSuccess && !atomic_load(&w->comm->aborted))
        atomic_store(&w->comm->broken, rc);
}

/* ---- NCCL's part: calls ---- */
static struct {
    int depth;
    struct work *work;
} group;

static ncclResult_t begin(struct work *w)
{
    ncclComm_t c = w->comm;
    if (c->untaken || !c->connected || atomic_load(&c->aborted)) {
        free(w);
        return ncclInvalidUsage; /* as NCCL: the call before is not taken in yet */
    }
    c->calls++;
    atomic_fetch_add(&c->under_way, 1);
    if (!wanted("slow")) {
        put_on_stream(w);
        return ncclSuccess;
    }
    c->untaken = w;
    c->asked = 0;
    return ncclInProgress;
}

static ncclResult_t call(ncclComm_t c, struct op k)
{
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
    *v = wanted("old") ? 21903 : NCCL_VERSION_CODE;
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
    return wanted("async_error") ? "the fake peer is gone\nsecond line" : "";
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

/* Whoever comes first makes the file. */
static ncclResult_t connect_at(ncclComm_t *out, const char *path, int n, int rank)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(struct meeting)) < 0)
        return ncclSystemError;
    struct ncclComm *c = calloc(1, sizeof *c);
    c->at = mmap(NULL, sizeof(struct meeting), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
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
    if (wanted("init_error") || config->blocking != 0)
        return ncclSystemError;
    return connect_at(out, id.internal, n, rank);
}

#ifndef FAKE_OLD
/* 128 ranks for an id, which its speaker has made. */
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
    if (wanted("init_hang") || atomic_load(&c->at->turn) == c->connect_turn)
        return ncclInProgress;
    c->connected = true;
    if (c->rank == 0)
        unlink(c->path);
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *state)
{
    *state = c->connected ? atomic_load(&c->broken) : connecting(c);
    if (c->made_at) {
        *c->made_at = c->made;
        c->made_at = NULL;
        *state = ncclInProgress;
    } else if (wanted("async_error") && c->calls >= 3) {
        *state = ncclRemoteError;
    } else if ((c->finalized || atomic_load(&c->aborted)) && atomic_load(&c->under_way)) {
        *state = ncclInProgress;
    } else if (c->untaken && ++c->asked < 3) {
        *state = ncclInProgress;
    } else if (c->untaken) {
        put_on_stream(c->untaken);
        c->untaken = NULL;
    }
    return ncclSuccess;
}

static void stop(ncclComm_t c)
{
    atomic_store(&c->aborted, true);
    if (c->untaken) {
        atomic_fetch_sub(&c->under_way, 1);
        free(c->untaken);
        c->untaken = NULL;
    }
}

static ncclResult_t end(ncclComm_t c, const char *how)
{
    if (wanted("log"))
        fprintf(stderr, "fake: %s\n", how);
    while (atomic_load(&c->under_way)) /* the GPU has seen that it is aborted */
        sched_yield();
    munmap(c->at, sizeof(struct meeting));
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
    if (flags & NCCL_SHRINK_ABORT)
        stop(c);
    int rank = c->rank;
    for (int i = 0; i < n; i++)
        rank -= without[i] < c->rank;
    c->children++;
    return make_child(c, out, "shrunk", c->size - n, rank);
}
EXPORT ncclResult_t ncclCommRevoke(ncclComm_t c, int flags)
{
    if (wanted("log"))
        fprintf(stderr, "fake: revoked\n");
    stop(c);
    return ncclInProgress;
}
EXPORT ncclResult_t ncclAlltoAll(const void *in, void *out, size_t n, ncclDataType_t t,
                                 ncclComm_t c, cudaStream_t s)
{
    return call(c, (struct op){ALL_TO_ALL, 0, in, out, n, t, ncclSum, 0});
}
EXPORT ncclResult_t ncclGather(const void *in, void *out, size_t n, ncclDataType_t t, int root,
                               ncclComm_t c, cudaStream_t s)
{
    return call(c, (struct op){GATHER, root, in, out, n, t, ncclSum, 0});
}
EXPORT ncclResult_t ncclScatter(const void *in, void *out, size_t n, ncclDataType_t t, int root,
                                ncclComm_t c, cudaStream_t s)
{
    return call(c, (struct op){SCATTER, root, in, out, n, t, ncclSum, 0});
}
#endif

EXPORT ncclResult_t ncclAllReduce(const void *in, void *out, size_t n, ncclDataType_t t,
                                  ncclRedOp_t op, ncclComm_t c, cudaStream_t s)
{
    return call(c, (struct op){ALL_REDUCE, 0, in, out, n, t, op, 0});
}
EXPORT ncclResult_t ncclBroadcast(const void *in, void *out, size_t n, ncclDataType_t t, int root,
                                  ncclComm_t c, cudaStream_t s)
{
    return call(c, (struct op){BROADCAST, root, in, out, n, t, ncclSum, 0});
}
EXPORT ncclResult_t ncclReduce(const void *in, void *out, size_t n, ncclDataType_t t,
                               ncclRedOp_t op, int root, ncclComm_t c, cudaStream_t s)
{
    return call(c, (struct op){REDUCE, root, in, out, n, t, op, 0});
}
EXPORT ncclResult_t ncclAllGather(const void *in, void *out, size_t n, ncclDataType_t t,
                                  ncclComm_t c, cudaStream_t s)
{
    return call(c, (struct op){ALL_GATHER, 0, in, out, n, t, ncclSum, 0});
}
EXPORT ncclResult_t ncclReduceScatter(const void *in, void *out, size_t n, ncclDataType_t t,
                                      ncclRedOp_t op, ncclComm_t c, cudaStream_t s)
{
    return call(c, (struct op){REDUCE_SCATTER, 0, in, out, n, t, op, 0});
}
EXPORT ncclResult_t ncclSend(const void *in, size_t n, ncclDataType_t t, int peer, ncclComm_t c,
                             cudaStream_t s)
{
    return call(c, (struct op){SEND, peer, in, NULL, n, t, ncclSum, 0});
}
EXPORT ncclResult_t ncclRecv(void *out, size_t n, ncclDataType_t t, int peer, ncclComm_t c,
                             cudaStream_t s)
{
    return call(c, (struct op){RECV, peer, NULL, out, n, t, ncclSum, 0});
}
