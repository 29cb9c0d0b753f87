/* cuda_libs - the functions of libcudart and libcublasLt that `drover bench gemm` and `copy` call.
 *
 * These are drover's own declarations, for CUDA 12 and 13: no header of CUDA is needed to build
 * them. Handles are pointers, and enums are int. Streams are from cudart. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

enum {
    CUDA_LIBS_NO_MEMORY = 2,   /* cudaErrorMemoryAllocation */
    CUDA_LIBS_NO_DEVICE = 100, /* cudaErrorNoDevice */
    CUDA_LIBS_NOT_READY = 600, /* cudaErrorNotReady */
    CUDA_LIBS_NON_BLOCKING = 1 /* cudaStreamNonBlocking */
};
/* cudaMemcpyKind */
enum { CUDA_LIBS_TO_DEVICE = 1, CUDA_LIBS_TO_HOST = 2, CUDA_LIBS_ON_DEVICE = 3 };
/* cudaDataType, cublasComputeType_t and an attribute of a preference */
enum { CUDA_LIBS_FLOAT = 0, CUDA_LIBS_HALF = 2, CUDA_LIBS_BFLOAT16 = 14 };
enum { CUDA_LIBS_COMPUTE_FLOAT = 68, CUDA_LIBS_WORKSPACE_MAX = 1 };

/* cublasLtMatmulHeuristicResult_t */
struct cuda_libs_algorithm {
    uint64_t data[8];
    size_t workspace_bytes;
    int state;
    float waves;
    int reserved[4];
};

#define CUDA_LIBS_RUNTIME(X)                                                               \
    X(cudaGetDeviceCount, (int *out))                                                      \
    X(cudaSetDevice, (int device))                                                         \
    X(cudaDeviceGetPCIBusId, (char *out, int len, int device))                             \
    X(cudaMemGetInfo, (size_t * free_bytes, size_t * all_bytes))                           \
    X(cudaMalloc, (void **out, size_t bytes))                                              \
    X(cudaFree, (void *p))                                                                 \
    X(cudaHostAlloc, (void **out, size_t bytes, unsigned flags))                           \
    X(cudaFreeHost, (void *p))                                                             \
    X(cudaMemcpyAsync, (void *to, const void *from, size_t bytes, int kind, void *stream)) \
    X(cudaStreamCreateWithFlags, (void **out, unsigned flags))                             \
    X(cudaStreamDestroy, (void *stream))                                                   \
    X(cudaStreamQuery, (void *stream))

#define CUDA_LIBS_BLAS(X)                                                                         \
    X(cublasLtCreate, (void **out))                                                               \
    X(cublasLtDestroy, (void *handle))                                                            \
    X(cublasLtMatmulDescCreate, (void **out, int compute, int scale))                             \
    X(cublasLtMatmulDescDestroy, (void *desc))                                                    \
    X(cublasLtMatrixLayoutCreate,                                                                 \
      (void **out, int type, uint64_t rows, uint64_t columns, int64_t leading))                   \
    X(cublasLtMatrixLayoutDestroy, (void *layout))                                                \
    X(cublasLtMatmulPreferenceCreate, (void **out))                                               \
    X(cublasLtMatmulPreferenceDestroy, (void *preference))                                        \
    X(cublasLtMatmulPreferenceSetAttribute,                                                       \
      (void *preference, int attribute, const void *value, size_t bytes))                         \
    X(cublasLtMatmulAlgoGetHeuristic,                                                             \
      (void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference, int n,     \
       struct cuda_libs_algorithm *out, int *found))                                              \
    X(cublasLtMatmul,                                                                             \
      (void *handle, void *desc, const void *alpha, const void *a, void *layout_a, const void *b, \
       void *layout_b, const void *beta, const void *c, void *layout_c, void *d, void *layout_d,  \
       const void *algorithm, void *workspace, size_t workspace_bytes, void *stream))

#define CUDA_LIBS_FIELD(name, arguments) int(*name) arguments;
struct cuda_libs_runtime {
    CUDA_LIBS_RUNTIME(CUDA_LIBS_FIELD)
    const char *(*cudaGetErrorString)(int code);
    /* The layout of its argument differs between releases; it always begins with `char name[256]`,
     * and has less than CUDA_LIBS_PROPERTIES_BYTES. */
    int (*cudaGetDeviceProperties)(void *properties, int device);
};
struct cuda_libs_blas {
    CUDA_LIBS_BLAS(CUDA_LIBS_FIELD)
    const char *(*cublasLtGetStatusString)(int code);
};
#undef CUDA_LIBS_FIELD
enum { CUDA_LIBS_PROPERTIES_BYTES = 4096 };

/* Load the libraries once per process, as cuda_loader.h says; $DROVER_CUDART_LIB and
 * $DROVER_CUBLASLT_LIB name other files. `*out` is borrowed.
 *   -ENOENT   not found
 *   -ELIBBAD  the library lacks a function */
int cuda_libs_open_runtime(const struct cuda_libs_runtime **out, struct err *e);
int cuda_libs_open_blas(const struct cuda_libs_blas **out, struct err *e);
