/* nccl_lib - NCCL and the CUDA runtime, found and loaded when they are first needed. */
#ifndef DROVER_NCCL_LIB_H
#define DROVER_NCCL_LIB_H

#include <cuda_runtime.h>
#include <nccl.h>

#include "common/err.h"

#define NCCL_CALLS(X)         \
    X(ncclGetVersion)         \
    X(ncclGetUniqueId)        \
    X(ncclGetErrorString)     \
    X(ncclGetLastError)       \
    X(ncclCommInitRankConfig) \
    X(ncclCommGetAsyncError)  \
    X(ncclCommFinalize)       \
    X(ncclCommDestroy)        \
    X(ncclCommAbort)          \
    X(ncclAllReduce)          \
    X(ncclBroadcast)          \
    X(ncclReduce)             \
    X(ncclAllGather)          \
    X(ncclReduceScatter)      \
    X(ncclGroupStart)         \
    X(ncclGroupEnd)           \
    X(ncclSend)               \
    X(ncclRecv)

#define CUDA_CALLS(X)        \
    X(cudaGetDeviceCount)    \
    X(cudaSetDevice)         \
    X(cudaDeviceGetPCIBusId) \
    X(cudaGetErrorString)    \
    X(cudaMalloc)            \
    X(cudaFree)              \
    X(cudaMemcpy)            \
    X(cudaStreamQuery)

/* One field a call, with the call's own type and name. cudaMalloc is overloaded in C++ only. */
#define LIB_FIELD(call) __typeof__(&call) call;
struct nccl_lib {
    NCCL_CALLS(LIB_FIELD)
};
struct cuda_lib {
    CUDA_CALLS(LIB_FIELD)
    /* Its argument's layout differs between releases; all begin with `char name[256]`. */
    cudaError_t (*get_properties)(void *properties, int device);
};
#undef LIB_FIELD

/* Loaded once in a process; borrowed. `path` is one file; NULL: $DROVER_NCCL_LIB (a file too), or
 * what is in the process already, on the loader's path, in CUDA_HOME, among Python's packages.
 *   -ENOENT   none was found, the hint says where to get one
 *   -ELIBBAD  it lacks a call */
int nccl_lib_load(const struct nccl_lib **out, const char *path, struct err *e);
/* The same for libcudart, with $DROVER_CUDART_LIB. */
int cuda_lib_load(const struct cuda_lib **out, struct err *e);

#endif
