/* cudahost_stream - streams, events, copies and devices of the CUDA runtime.
 *
 * A stream does its work when it is queued. To the race detector each stream is a thread that is
 * after the host at each call, and before it only where the host waits. It is stricter than CUDA:
 * copies of pageable memory do not wait either, since the same code with pinned memory would be
 * wrong.
 *
 * FAKE_GPUS is the number of devices (default: 1), FAKE_GPU_MEMORY the bytes of each (default: 16
 * GiB). FAKE_GPU_SLOW=N:MS lets all work of device N take MS milliseconds longer. */
#include "cudahost_internal.h"

#include <time.h>

struct event;
struct CUstream_st {
    void *fiber;
    order queued, done;
    bool is_blocking; /* ordered with the default stream */
    unsigned long long works, waited;
    CUstream_st *next;
};
struct CUevent_st {
    order *at; /* of the last record; NULL: not recorded */
    cudaStream_t stream;
    unsigned long long work;
    double ms;
};

static CUstream_st default_stream, *streams = &default_stream;
static cudaError_t last_error;
static int device;

void stream_set_error(cudaError_t e)
{
    last_error = e;
}

/* A stream of another library is taken as one that is complete. */
static CUstream_st *stream_of(cudaStream_t s)
{
    for (CUstream_st *q = streams; q; q = q->next)
        if (q == s)
            return q;
    return &default_stream;
}

static void be_slow(void)
{
    const char *slow = getenv("FAKE_GPU_SLOW");
    int number, ms;
    if (slow && sscanf(slow, "%d:%d", &number, &ms) == 2 && number == device)
        usleep((useconds_t)ms * 1000);
}

void stream_do(cudaStream_t s, void *pc, const std::function<void()> &work)
{
    CUstream_st *q = stream_of(s);
    void *host = fiber_now();
    if (!q->fiber)
        q->fiber = fiber_new();
    order_release(&q->queued);
    fiber_enter(q->fiber);
    if (__tsan_func_entry)
        __tsan_func_entry(pc);
    order_acquire(&q->queued);
    for (CUstream_st *other = streams; other; other = other->next)
        if ((q == &default_stream && other->is_blocking) ||
            (q->is_blocking && other == &default_stream))
            order_acquire(&other->done);
    work();
    be_slow();
    q->works++;
    order_release(&q->done);
    if (__tsan_func_exit)
        __tsan_func_exit();
    fiber_enter(host);
}

static void wait_for(CUstream_st *q)
{
    order_acquire(&q->done);
    q->waited = q->works;
}

static cudaError_t error(cudaError_t e)
{
    last_error = e != cudaSuccess ? e : last_error;
    return e;
}

static int devices(void)
{
    const char *n = getenv("FAKE_GPUS");
    return n ? atoi(n) : 1;
}

static size_t total_memory(void)
{
    const char *n = getenv("FAKE_GPU_MEMORY");
    return n ? strtoull(n, NULL, 10) : (size_t)16 << 30;
}

extern "C" {
/* ---- devices -------------------------------------------------------------------------------- */
cudaError_t cudaGetDeviceCount(int *count)
{
    *count = devices();
    return *count > 0 ? cudaSuccess : error(cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int number)
{
    if (number < 0 || number >= devices())
        return error(cudaErrorInvalidDevice);
    device = number;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int *number)
{
    *number = device;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int number)
{
    if (number < 0 || number >= devices())
        return error(cudaErrorInvalidDevice);
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "cudahost");
    p->totalGlobalMem = total_memory();
    p->major = 9;
    p->warpSize = 32;
    p->maxThreadsPerBlock = 1024;
    p->multiProcessorCount = 1;
    p->sharedMemPerBlock = 48 << 10;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char *out, int len, int number)
{
    if (number < 0 || number >= devices())
        return error(cudaErrorInvalidDevice);
    snprintf(out, (size_t)len, "0000:%02X:00.0", number + 1);
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    *total = total_memory();
    *free_bytes = *total > memory_used() ? *total - memory_used() : 0;
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize(void)
{
    for (CUstream_st *q = streams; q; q = q->next)
        wait_for(q);
    return cudaSuccess;
}
/* The device of FAKE_GPU_OLD has no code of this program. */
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *a, const void *)
{
    memset(a, 0, sizeof *a);
    return getenv("FAKE_GPU_OLD") ? cudaErrorNoKernelImageForDevice : cudaSuccess;
}

/* ---- errors --------------------------------------------------------------------------------- */
cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}
cudaError_t cudaGetLastError(void)
{
    cudaError_t e = last_error;
    last_error = cudaSuccess;
    return e;
}
const char *cudaGetErrorString(cudaError_t e)
{
    switch (e) {
    case cudaSuccess:
        return "no error";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorInvalidDevice:
        return "invalid device ordinal";
    case cudaErrorInvalidConfiguration:
        return "invalid configuration argument";
    case cudaErrorInvalidValue:
        return "invalid argument";
    case cudaErrorNoDevice:
        return "no CUDA-capable device is detected";
    default:
        return "error of cudahost";
    }
}

/* ---- memory --------------------------------------------------------------------------------- */
cudaError_t cudaMalloc(void **out, size_t bytes)
{
    *out = bytes <= total_memory() - memory_used() ? memory_new(MEMORY_DEVICE, bytes) : NULL;
    return *out ? cudaSuccess : error(cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void *p)
{
    cudaDeviceSynchronize();
    if (p)
        memory_free(p);
    return cudaSuccess;
}
cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned)
{
    *out = memory_new(MEMORY_PINNED, bytes);
    return *out ? cudaSuccess : error(cudaErrorMemoryAllocation);
}
cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    return cudaHostAlloc(out, bytes, 0);
}
cudaError_t cudaFreeHost(void *p)
{
    return cudaFree(p);
}

/* Each side is where the kind of the copy says. */
static bool is_right(const void *to, const void *from, size_t n, cudaMemcpyKind kind)
{
    bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    return kind == cudaMemcpyDefault || n == 0 ||
           (memory_is(MEMORY_DEVICE, to, n) == to_device &&
            memory_is(MEMORY_DEVICE, from, n) == from_device);
}
static cudaError_t copy(void *pc, void *to, const void *from, size_t n, cudaMemcpyKind kind,
                        cudaStream_t s)
{
    if (!is_right(to, from, n, kind))
        return error(cudaErrorInvalidValue);
    stream_do(s, pc, [=] { memory_copy(to, from, n); });
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, cudaMemcpyKind kind,
                            cudaStream_t s)
{
    return copy(CALLER, to, from, n, kind, s);
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t n, cudaMemcpyKind kind)
{
    cudaError_t e = copy(CALLER, to, from, n, kind, NULL);
    wait_for(&default_stream);
    return e;
}
static cudaError_t fill(void *pc, void *p, int value, size_t n, cudaStream_t s)
{
    if (!memory_is(MEMORY_DEVICE, p, n))
        return error(cudaErrorInvalidValue);
    stream_do(s, pc, [=] { memory_fill(p, value, n); });
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *p, int value, size_t n, cudaStream_t s)
{
    return fill(CALLER, p, value, n, s);
}
cudaError_t cudaMemset(void *p, int value, size_t n)
{
    return fill(CALLER, p, value, n, NULL);
}

/* ---- streams -------------------------------------------------------------------------------- */
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    CUstream_st *q = (CUstream_st *)calloc(1, sizeof *q);
    q->is_blocking = flags != cudaStreamNonBlocking;
    q->next = streams;
    streams = q;
    *out = q;
    return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t *out)
{
    return cudaStreamCreateWithFlags(out, cudaStreamDefault);
}
/* Its work is still done: the stream stays, and only its handle is gone. */
cudaError_t cudaStreamDestroy(cudaStream_t)
{
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    wait_for(stream_of(s));
    return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t s)
{
    return cudaStreamSynchronize(s);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned)
{
    stream_do(s, CALLER, [=] { order_acquire(e->at); });
    return cudaSuccess;
}

/* ---- events --------------------------------------------------------------------------------- */
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned)
{
    *out = (cudaEvent_t)calloc(1, sizeof **out);
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    return cudaEventCreateWithFlags(out, cudaEventDefault);
}
cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    free(e->at);
    free(e);
    return cudaSuccess;
}
/* Each record is an order of its own: a wait that came before it is not a wait for it. */
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    free(e->at);
    e->at = (order *)calloc(1, sizeof *e->at);
    e->stream = stream_of(s);
    stream_do(s, CALLER, [=] {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        e->ms = (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
        order_release(e->at);
    });
    e->work = e->stream->works;
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    order_acquire(e->at);
    if (e->stream && e->stream->waited < e->work)
        e->stream->waited = e->work;
    return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t e)
{
    return cudaEventSynchronize(e);
}
/* The host must have waited for both. */
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    if (!from->at || !to->at)
        return error(cudaErrorInvalidResourceHandle);
    if (from->stream->waited < from->work || to->stream->waited < to->work)
        return error(cudaErrorNotReady);
    *ms = (float)(to->ms - from->ms);
    return cudaSuccess;
}
}
