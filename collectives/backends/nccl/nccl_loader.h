/* nccl_loader - loads NCCL and the CUDA runtime at their first use. */
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include "common/err.h"

#define NCCL_CALLS(X)           \
    X(ncclGetVersion)           \
    X(ncclGetUniqueId)          \
    X(ncclGetErrorString)       \
    X(ncclGetLastError)         \
    X(ncclCommInitRankConfig)   \
    X(ncclCommGetAsyncError)    \
    X(ncclCommFinalize)         \
    X(ncclCommDestroy)          \
    X(ncclCommAbort)            \
    X(ncclCommSplit)            \
    X(ncclAllReduce)            \
    X(ncclBroadcast)            \
    X(ncclReduce)               \
    X(ncclAllGather)            \
    X(ncclReduceScatter)        \
    X(ncclRedOpCreatePreMulSum) \
    X(ncclRedOpDestroy)         \
    X(ncclGroupStart)           \
    X(ncclGroupEnd)             \
    X(ncclSend)                 \
    X(ncclRecv)                 \
    X(ncclMemAlloc)             \
    X(ncclMemFree)              \
    X(ncclCommRegister)         \
    X(ncclCommDeregister)

#define CUDA_CALLS(X)                \
    X(cudaDriverGetVersion)          \
    X(cudaRuntimeGetVersion)         \
    X(cudaGetDeviceCount)            \
    X(cudaSetDevice)                 \
    X(cudaDeviceGetAttribute)        \
    X(cudaDeviceGetPCIBusId)         \
    X(cudaGetErrorString)            \
    X(cudaMemGetInfo)                \
    X(cudaMalloc)                    \
    X(cudaFree)                      \
    X(cudaMemcpyAsync)               \
    X(cudaStreamCreateWithFlags)     \
    X(cudaStreamDestroy)             \
    X(cudaStreamSynchronize)         \
    X(cudaStreamQuery)               \
    X(cudaStreamBeginCapture)        \
    X(cudaStreamEndCapture)          \
    X(cudaGraphInstantiateWithFlags) \
    X(cudaGraphLaunch)               \
    X(cudaGraphExecDestroy)          \
    X(cudaGraphDestroy)

/* Functions of newer releases, declared here because the headers may be older. NULL: not
 * available. */
typedef ncclResult_t nccl_all_fn(const void *in, void *out, size_t n, ncclDataType_t t,
                                 ncclComm_t c, cudaStream_t s);
typedef ncclResult_t nccl_root_fn(const void *in, void *out, size_t n, ncclDataType_t t, int root,
                                  ncclComm_t c, cudaStream_t s);
typedef ncclResult_t nccl_scalable_fn(ncclComm_t *out, int n, int rank, int n_ids,
                                      ncclUniqueId *ids, ncclConfig_t *config);
typedef ncclResult_t nccl_shrink_fn(ncclComm_t c, int *without, int n, ncclComm_t *out,
                                    ncclConfig_t *config, int flags);
typedef ncclResult_t nccl_revoke_fn(ncclComm_t c, int flags);
typedef ncclResult_t nccl_window_fn(ncclComm_t c, void *memory, size_t bytes, void **window,
                                    int flags);
typedef ncclResult_t nccl_window_free_fn(ncclComm_t c, void *window);

/* One field per function, with its type and name. cudaMalloc is overloaded only in C++, not in
 * C. */
#define LIB_FIELD(call) __typeof__(&call) call;
struct nccl_lib {
    NCCL_CALLS(LIB_FIELD)
    nccl_scalable_fn *init_scalable;  /* ncclCommInitRankScalable, 2.23 */
    nccl_shrink_fn *shrink;           /* ncclCommShrink, 2.27 */
    nccl_revoke_fn *revoke;           /* ncclCommRevoke, 2.28 */
    nccl_window_fn *window;           /* ncclCommWindowRegister, 2.27 */
    nccl_window_free_fn *window_free; /* ncclCommWindowDeregister, 2.27 */
    nccl_all_fn *all_to_all;          /* ncclAlltoAll, 2.28 */
    nccl_root_fn *gather, *scatter;   /* ncclGather, ncclScatter, 2.28 */
};
struct cuda_lib {
    CUDA_CALLS(LIB_FIELD)
    /* The layout of its argument differs between releases; it always begins with `char
     * name[256]`. */
    cudaError_t (*get_properties)(void *properties, int device);
    /* Pinned memory: an optimisation, so NULL is allowed. */
    cudaError_t (*host_alloc)(void **out, size_t bytes, unsigned flags);
    cudaError_t (*host_free)(void *p);
};
#undef LIB_FIELD

/* Loads libnccl once per process. `*out` is borrowed. `path` is the file; if it is NULL, the file
 * is $DROVER_NCCL_LIB, or the one that cuda_loader_open() finds.
 *   -ENOENT   not found; the hint says where to get it
 *   -ELIBBAD  the library lacks a function */
int nccl_loader_open_nccl(const struct nccl_lib **out, const char *path, struct err *e);
/* Loads libcudart in the same way, with $DROVER_CUDART_LIB. */
int nccl_loader_open_cuda(const struct cuda_lib **out, struct err *e);

/* Return 0 for a success. Otherwise they set *e to the error of CUDA or NCCL in the operation
 * `what`, and return
 *   -ENOMEM      CUDA lacked memory
 *   -EINVAL      an invalid call of NCCL
 *   -ECONNRESET  a peer disconnected
 *   -EIO         any other error */
int nccl_loader_cuda(struct err *e, const struct cuda_lib *cuda, cudaError_t rc, const char *what);
int nccl_loader_nccl(struct err *e, const struct nccl_lib *nccl, ncclResult_t rc, const char *what);
