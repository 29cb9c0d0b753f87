/* A libnccl and a libcudart in one, for tests of the nccl plug-in without a GPU: "device" memory is
 * the host's, and the ranks meet in a file below FAKE_NCCL_DIR. DROVER_NCCL_LIB and
 * DROVER_CUDART_LIB name this library.
 *
 * FAKE_NCCL is a list of what shall happen, apart by commas:
 *     no_driver   there is no GPU              init_hang    connecting never ends
 *     init_error  connecting fails             async_error  the third collective's peers are lost
 *     slow        a collective is taken in only at the third time that one asks
 *     hang        the stream is never done     old          the version is another one
 *     wrong       this rank's sums are off by one in the first element */
#include <cuda_runtime.h>
#include <fcntl.h>
#include <nccl.h>
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

#include "collectives/float16.h"

#define EXPORT __attribute__((visibility("default")))
enum { RANKS_MAX = 8, SLOT_BYTES = 8 << 20, BARRIER_S = 20 };

struct meeting {
    atomic_uint arrived, turn;
    atomic_uint closed;
    char slots[RANKS_MAX][SLOT_BYTES]; /* each rank's input; the file is sparse */
};

struct ncclComm {
    struct meeting *at;
    int rank, size, calls, asked;
    bool finalized;
    ncclResult_t (*pending)(ncclComm_t);
    struct call {
        int kind, root;
        const void *in;
        void *out;
        size_t n;
        ncclDataType_t type;
        ncclRedOp_t op;
    } call;
};

static bool wanted(const char *what)
{
    const char *list = getenv("FAKE_NCCL");
    for (size_t len = strlen(what); list && *list;
         list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL)
        if (strncmp(list, what, len) == 0 && (list[len] == '\0' || list[len] == ','))
            return true;
    return false;
}

/* ---- CUDA's part ---- */
EXPORT cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 2;
    return wanted("no_driver") ? cudaErrorInsufficientDriver : cudaSuccess;
}
EXPORT cudaError_t cudaSetDevice(int device)
{
    return device < 2 ? cudaSuccess : cudaErrorInvalidDevice;
}
EXPORT cudaError_t cudaDeviceGetPCIBusId(char *out, int len, int device)
{
    snprintf(out, (size_t)len, "0000:%02X:00.0", 0x3b + device);
    return cudaSuccess;
}
EXPORT cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    snprintf(p->name, sizeof p->name, "Fake GPU");
    return cudaSuccess;
}
EXPORT const char *cudaGetErrorString(cudaError_t e)
{
    return e == cudaErrorInsufficientDriver ? "CUDA driver version is insufficient"
                                            : "fake CUDA error";
}
EXPORT cudaError_t cudaMalloc(void **out, size_t bytes)
{
    *out = bytes < SIZE_MAX / 4 ? malloc(bytes) : NULL;
    return *out ? cudaSuccess : cudaErrorMemoryAllocation;
}
EXPORT cudaError_t cudaFree(void *p)
{
    free(p);
    return cudaSuccess;
}
EXPORT cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    memcpy(to, from, bytes);
    return cudaSuccess;
}
EXPORT cudaError_t cudaStreamQuery(cudaStream_t s)
{
    return wanted("hang") ? cudaErrorNotReady : cudaSuccess;
}

/* ---- NCCL's part ---- */
static size_t bytes_of(ncclDataType_t t)
{
    static const size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
    return bytes[t];
}

static double get(const void *b, size_t i, ncclDataType_t t)
{
    switch (t) {
    case ncclInt8:
        return ((const int8_t *)b)[i];
    case ncclUint8:
        return ((const uint8_t *)b)[i];
    case ncclInt32:
        return ((const int32_t *)b)[i];
    case ncclUint32:
        return ((const uint32_t *)b)[i];
    case ncclInt64:
        return (double)((const int64_t *)b)[i];
    case ncclUint64:
        return (double)((const uint64_t *)b)[i];
    case ncclFloat16:
        return half_to_float(((const uint16_t *)b)[i]);
    case ncclFloat32:
        return ((const float *)b)[i];
    case ncclFloat64:
        return ((const double *)b)[i];
    default:
        return bfloat16_to_float(((const uint16_t *)b)[i]);
    }
}

static void set(void *b, size_t i, ncclDataType_t t, double x)
{
    switch (t) {
    case ncclInt8:
        ((int8_t *)b)[i] = (int8_t)x;
        break;
    case ncclUint8:
        ((uint8_t *)b)[i] = (uint8_t)x;
        break;
    case ncclInt32:
        ((int32_t *)b)[i] = (int32_t)x;
        break;
    case ncclUint32:
        ((uint32_t *)b)[i] = (uint32_t)x;
        break;
    case ncclInt64:
        ((int64_t *)b)[i] = (int64_t)x;
        break;
    case ncclUint64:
        ((uint64_t *)b)[i] = (uint64_t)x;
        break;
    case ncclFloat16:
        ((uint16_t *)b)[i] = half_from_float((float)x);
        break;
    case ncclFloat32:
        ((float *)b)[i] = (float)x;
        break;
    case ncclFloat64:
        ((double *)b)[i] = x;
        break;
    default:
        ((uint16_t *)b)[i] = bfloat16_from_float((float)x);
        break;
    }
}

/* All ranks of the communicator; false when one does not come. */
static bool barrier(ncclComm_t c)
{
    unsigned turn = atomic_load(&c->at->turn);
    if (atomic_fetch_add(&c->at->arrived, 1) + 1 == (unsigned)c->size) {
        atomic_store(&c->at->arrived, 0);
        atomic_fetch_add(&c->at->turn, 1);
        return true;
    }
    for (time_t end = time(NULL) + BARRIER_S; atomic_load(&c->at->turn) == turn;) {
        if (time(NULL) > end)
            return false;
        sched_yield();
    }
    return true;
}

static double combine(double a, double b, ncclRedOp_t op)
{
    switch (op) {
    case ncclProd:
        return a * b;
    case ncclMin:
        return b < a ? b : a;
    case ncclMax:
        return b > a ? b : a;
    default:
        return a + b;
    }
}

static void reduce_into(ncclComm_t c, const struct call *k, size_t first)
{
    for (size_t i = 0; i < k->n; i++) {
        double x = get(c->at->slots[0], first + i, k->type);
        for (int r = 1; r < c->size; r++)
            x = combine(x, get(c->at->slots[r], first + i, k->type), k->op);
        set(k->out, i, k->type, k->op == ncclAvg ? x / c->size : x);
    }
    if (wanted("wrong"))
        set(k->out, 0, k->type, get(k->out, 0, k->type) + 1);
}

enum { ALL_REDUCE, BROADCAST, REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL };

static ncclResult_t perform(ncclComm_t c)
{
    const struct call *k = &c->call;
    size_t bytes = k->n * bytes_of(k->type), whole = bytes * (size_t)c->size;
    bool wide = k->kind == REDUCE_SCATTER || k->kind == ALL_TO_ALL;
    size_t sent = wide ? whole : bytes;
    if (sent > SLOT_BYTES)
        return ncclInvalidArgument;
    if (k->kind != BROADCAST || c->rank == k->root)
        memcpy(c->at->slots[c->rank], k->in, sent);
    if (!barrier(c))
        return ncclSystemError;
    if (k->kind == ALL_REDUCE || (k->kind == REDUCE && c->rank == k->root))
        reduce_into(c, k, 0);
    if (k->kind == REDUCE_SCATTER)
        reduce_into(c, k, (size_t)c->rank * k->n);
    if (k->kind == BROADCAST)
        memcpy(k->out, c->at->slots[k->root], bytes);
    for (int r = 0; r < c->size && k->kind == ALL_GATHER; r++)
        memcpy((char *)k->out + (size_t)r * bytes, c->at->slots[r], bytes);
    for (int r = 0; r < c->size && k->kind == ALL_TO_ALL; r++)
        memcpy((char *)k->out + (size_t)r * bytes, c->at->slots[r] + (size_t)c->rank * bytes,
               bytes);
    return barrier(c) ? ncclSuccess : ncclSystemError;
}

static ncclResult_t begin(ncclComm_t c, struct call k)
{
    if (c->pending)
        return ncclInvalidUsage; /* as NCCL: the call before is not taken in yet */
    c->call = k;
    c->calls++;
    if (!wanted("slow"))
        return perform(c);
    c->pending = perform;
    c->asked = 0;
    return ncclInProgress;
}

EXPORT ncclResult_t ncclGetVersion(int *v)
{
    *v = wanted("old") ? 21903 : NCCL_VERSION_CODE;
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
    if (fd < 0 || ftruncate(fd, sizeof(struct meeting)) < 0)
        return ncclSystemError;
    close(fd);
    memset(id, 0, sizeof *id);
    memcpy(id->internal, path, sizeof path);
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int n, ncclUniqueId id, int rank,
                                           ncclConfig_t *config)
{
    if (wanted("init_error") || n > RANKS_MAX || config->blocking != 0)
        return ncclSystemError;
    struct ncclComm *c = calloc(1, sizeof *c);
    int fd = open(id.internal, O_RDWR | O_CLOEXEC);
    c->at = fd < 0 ? MAP_FAILED
                   : mmap(NULL, sizeof(struct meeting), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (c->at == MAP_FAILED) {
        free(c);
        return ncclSystemError;
    }
    c->rank = rank;
    c->size = n;
    *out = c;
    if (wanted("init_hang"))
        return ncclInProgress;
    if (!barrier(c))
        return ncclSystemError;
    if (rank == 0)
        unlink(id.internal);
    return ncclInProgress; /* the next question finds it done */
}

EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *state)
{
    *state = ncclSuccess;
    if (wanted("init_hang"))
        *state = ncclInProgress;
    else if (wanted("async_error") && c->calls >= 3)
        *state = ncclRemoteError;
    else if (c->pending && ++c->asked < 3)
        *state = ncclInProgress;
    else if (c->pending) {
        *state = c->pending(c);
        c->pending = NULL;
    }
    return ncclSuccess;
}

static void end(ncclComm_t c, const char *how)
{
    if (wanted("log"))
        fprintf(stderr, "fake: %s\n", how);
    munmap(c->at, sizeof(struct meeting));
    free(c);
}

EXPORT ncclResult_t ncclCommFinalize(ncclComm_t c)
{
    c->finalized = true;
    return ncclInProgress;
}
EXPORT ncclResult_t ncclCommDestroy(ncclComm_t c)
{
    end(c, c->finalized ? "destroyed" : "destroyed without finalize");
    return ncclSuccess;
}
EXPORT ncclResult_t ncclCommAbort(ncclComm_t c)
{
    end(c, "aborted");
    return ncclSuccess;
}

EXPORT ncclResult_t ncclAllReduce(const void *in, void *out, size_t n, ncclDataType_t t,
                                  ncclRedOp_t op, ncclComm_t c, cudaStream_t s)
{
    return begin(c, (struct call){ALL_REDUCE, 0, in, out, n, t, op});
}
EXPORT ncclResult_t ncclBroadcast(const void *in, void *out, size_t n, ncclDataType_t t, int root,
                                  ncclComm_t c, cudaStream_t s)
{
    return begin(c, (struct call){BROADCAST, root, in, out, n, t, ncclSum});
}
EXPORT ncclResult_t ncclReduce(const void *in, void *out, size_t n, ncclDataType_t t,
                               ncclRedOp_t op, int root, ncclComm_t c, cudaStream_t s)
{
    return begin(c, (struct call){REDUCE, root, in, out, n, t, op});
}
EXPORT ncclResult_t ncclAllGather(const void *in, void *out, size_t n, ncclDataType_t t,
                                  ncclComm_t c, cudaStream_t s)
{
    return begin(c, (struct call){ALL_GATHER, 0, in, out, n, t, ncclSum});
}
EXPORT ncclResult_t ncclReduceScatter(const void *in, void *out, size_t n, ncclDataType_t t,
                                      ncclRedOp_t op, ncclComm_t c, cudaStream_t s)
{
    return begin(c, (struct call){REDUCE_SCATTER, 0, in, out, n, t, op});
}

/* A group is an all-to-all: a send and a receive for each rank, side by side in memory. */
static struct {
    int depth, sends, receives;
    ncclComm_t comm;
    struct call call;
} group;

EXPORT ncclResult_t ncclGroupStart(void)
{
    memset(&group, 0, sizeof group);
    group.depth = 1;
    return ncclSuccess;
}
EXPORT ncclResult_t ncclSend(const void *in, size_t n, ncclDataType_t t, int peer, ncclComm_t c,
                             cudaStream_t s)
{
    if (peer == 0)
        group.call = (struct call){ALL_TO_ALL, 0, in, NULL, n, t, ncclSum};
    group.comm = c;
    size_t at = (size_t)peer * n * bytes_of(t);
    return group.depth && (const char *)group.call.in + at == in && group.sends++ == peer
               ? ncclSuccess
               : ncclInvalidUsage;
}
EXPORT ncclResult_t ncclRecv(void *out, size_t n, ncclDataType_t t, int peer, ncclComm_t c,
                             cudaStream_t s)
{
    if (peer == 0)
        group.call.out = out;
    size_t at = (size_t)peer * n * bytes_of(t);
    return group.depth && (char *)group.call.out + at == out && group.receives++ == peer
               ? ncclSuccess
               : ncclInvalidUsage;
}
EXPORT ncclResult_t ncclGroupEnd(void)
{
    group.depth = 0;
    if (!group.comm || group.sends != group.comm->size || group.receives != group.sends)
        return ncclInvalidUsage;
    return begin(group.comm, group.call);
}
