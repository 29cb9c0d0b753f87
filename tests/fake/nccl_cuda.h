/* nccl_cuda - the CUDA runtime's part of NCCL's stand-in: eight GPUs whose memory is the host's. */
#ifndef FAKE_NCCL_CUDA_H
#define FAKE_NCCL_CUDA_H

#include <cuda_runtime.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* Whether FAKE_NCCL's list has the word. */
static bool wanted(const char *what)
{
    const char *list = getenv("FAKE_NCCL");
    for (size_t len = strlen(what); list && *list;
         list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL)
        if (strncmp(list, what, len) == 0 && (list[len] == '\0' || list[len] == ','))
            return true;
    return false;
}

/* Says so when the caller does what makes NCCL or CUDA hang, or read memory that is gone. */
static void wrong_use(const char *what)
{
    fprintf(stderr, "fake: wrong: %s\n", what);
    abort();
}

/* What CUDA refuses, and what spoils the graph, while a thread records one. */
static bool spoils(void);

EXPORT cudaError_t cudaDriverGetVersion(int *version)
{
    *version = wanted("no_driver") ? 0 : wanted("old_driver") ? 11080 : CUDART_VERSION;
    return cudaSuccess;
}
EXPORT cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}
EXPORT cudaError_t cudaGetDeviceCount(int *count)
{
    *count = wanted("one_gpu") ? 1 : 8;
    bool usable = !wanted("no_driver") && !wanted("old_driver");
    return usable ? cudaSuccess : cudaErrorInsufficientDriver;
}
EXPORT cudaError_t cudaSetDevice(int device)
{
    return device < 8 ? cudaSuccess : cudaErrorInvalidDevice;
}
EXPORT cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr what, int device)
{
    *value = what == cudaDevAttrComputeCapabilityMajor ? (wanted("ampere") ? 8 : 9) : 0;
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
    *free_bytes = wanted("full") ? (size_t)16 << 20 : *total_bytes;
    return cudaSuccess;
}
EXPORT cudaError_t cudaMalloc(void **out, size_t bytes)
{
    if (spoils())
        return cudaErrorStreamCaptureUnsupported;
    *out = bytes < SIZE_MAX / 4 ? malloc(bytes) : NULL;
    return *out ? cudaSuccess : cudaErrorMemoryAllocation;
}
EXPORT cudaError_t cudaFree(void *p)
{
    if (spoils())
        return cudaErrorStreamCaptureUnsupported;
    free(p);
    return cudaSuccess;
}
EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    *out = malloc(1);
    return flags == cudaStreamNonBlocking ? cudaSuccess : cudaErrorInvalidValue;
}
EXPORT cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    free(s);
    return cudaSuccess;
}
#endif
