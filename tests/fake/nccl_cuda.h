/* nccl_cuda - the CUDA runtime of the NCCL stand-in: eight GPUs that use host memory. */
#pragma once

#include <cuda_runtime.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* Returns true if the list in FAKE_NCCL has the word. */
static bool simulates(const char *what)
{
    const char *list = getenv("FAKE_NCCL");
    for (size_t len = strlen(what); list && *list;
         list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL)
        if (strncmp(list, what, len) == 0 && (list[len] == '\0' || list[len] == ','))
            return true;
    return false;
}

/* Simulates a fault of a transport that a variable switches off. */
static bool faulty(const char *what, const char *variable)
{
    const char *off = getenv(variable);
    return simulates(what) && !(off && strcmp(off, "1") == 0);
}

/* Aborts: the caller did something that makes NCCL or CUDA hang, or read freed memory. */
static void wrong_use(const char *what)
{
    fprintf(stderr, "fake: wrong: %s\n", what);
    abort();
}

/* The capture of a graph; there is one at a time. A call that CUDA refuses makes it invalid: then
 * cudaStreamEndCapture fails, and until then all work on the stream does. Two kinds are refused:
 *
 * - calls around streams: of memory, of graphs, and the loading of kernels. The capturing thread
 * must not make them; in global mode no thread, in relaxed mode each may.
 * - calls on the stream: waits, queries, its end. No thread may make them, in any mode. The
 * stand-in refuses copies and launches of graphs, too, since it cannot record them.
 *
 * The source is NVIDIA's text on cudaThreadExchangeStreamCaptureMode and cudaStreamBeginCapture;
 * that cudaGraphExecDestroy is of the first kind was seen with driver 580. */
static struct {
    struct CUgraph_st *graph; /* NULL: no capture */
    cudaStream_t stream;
    enum cudaStreamCaptureMode mode;
    pthread_t thread;
    bool invalid;
} capture;

static bool refused(bool by_capture)
{
    capture.invalid |= by_capture;
    return by_capture;
}

static bool in_capturing_thread(void)
{
    return capture.graph && pthread_equal(capture.thread, pthread_self());
}

static bool refused_around_streams(void)
{
    return refused(capture.mode == cudaStreamCaptureModeGlobal        ? capture.graph != NULL
                   : capture.mode == cudaStreamCaptureModeThreadLocal ? in_capturing_thread()
                                                                      : false);
}

static bool refused_of_stream(cudaStream_t s)
{
    return refused(capture.graph && s == capture.stream);
}

EXPORT cudaError_t cudaDriverGetVersion(int *version)
{
    *version = simulates("no_driver") ? 0 : simulates("old_driver") ? 11080 : CUDART_VERSION;
    return cudaSuccess;
}
EXPORT cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}
EXPORT cudaError_t cudaGetDeviceCount(int *count)
{
    *count = simulates("one_gpu") ? 1 : 8;
    bool usable = !simulates("no_driver") && !simulates("old_driver");
    return usable ? cudaSuccess : cudaErrorInsufficientDriver;
}
EXPORT cudaError_t cudaSetDevice(int device)
{
    return device < 8 ? cudaSuccess : cudaErrorInvalidDevice;
}
EXPORT cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr what, int device)
{
    *value = what == cudaDevAttrComputeCapabilityMajor ? (simulates("ampere") ? 8 : 9) : 0;
    return cudaSuccess;
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
EXPORT cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    *total_bytes = (size_t)16 << 30;
    *free_bytes = simulates("full") ? (size_t)16 << 20 : *total_bytes;
    return cudaSuccess;
}
EXPORT cudaError_t cudaMalloc(void **out, size_t bytes)
{
    if (refused_around_streams())
        return cudaErrorStreamCaptureUnsupported;
    *out = bytes < SIZE_MAX / 4 ? malloc(bytes) : NULL;
    return *out ? cudaSuccess : cudaErrorMemoryAllocation;
}
EXPORT cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags)
{
    return cudaMalloc(out, bytes);
}
EXPORT cudaError_t cudaFree(void *p)
{
    if (refused_around_streams())
        return cudaErrorStreamCaptureUnsupported;
    free(p);
    return cudaSuccess;
}
EXPORT cudaError_t cudaFreeHost(void *p)
{
    return cudaFree(p);
}
