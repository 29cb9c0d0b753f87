/* cuda - the functions of CUDA and cuBLAS that mlp_cuda.cu calls, on the host.
 *
 * Device memory is malloc's, a kernel is a loop over its threads, cuBLAS is OpenBLAS. A test
 * compiles examples/digits/mlp_cuda.cu with this header first and its launches rewritten to
 * launch(), and compares the results with those of the CPU. FAKE_GPUS is the number of GPUs
 * (default: 1). C++. */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <cblas.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define __host__
#define __device__
#define __global__

struct fake_dim {
    unsigned x;
};
static fake_dim blockIdx, threadIdx, blockDim;

template <typename Kernel, typename... Arguments>
static void launch(Kernel kernel, unsigned blocks, unsigned threads, Arguments... arguments)
{
    blockDim.x = threads;
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)
        for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++)
            kernel(arguments...);
}

enum cudaError_t { cudaSuccess, cudaErrorMemoryAllocation = 2, cudaErrorInvalidDevice = 101 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
enum { cudaStreamNonBlocking = 1 };
typedef struct fake_stream *cudaStream_t;

static const char *cudaGetErrorString(cudaError_t e)
{
    return e == cudaErrorInvalidDevice ? "invalid device" : "out of memory";
}

static cudaError_t cudaGetDeviceCount(int *count)
{
    const char *n = getenv("FAKE_GPUS");
    *count = n ? atoi(n) : 1;
    return cudaSuccess;
}

static cudaError_t cudaSetDevice(int device)
{
    int count;
    (void)cudaGetDeviceCount(&count);
    return device >= 0 && device < count ? cudaSuccess : cudaErrorInvalidDevice;
}

/* Bytes of 0xff are NaN as floats, so that a read of unwritten memory is noticed. */
static cudaError_t cudaMalloc(void **out, size_t bytes)
{
    *out = malloc(bytes);
    if (*out)
        memset(*out, 0xff, bytes);
    return *out ? cudaSuccess : cudaErrorMemoryAllocation;
}

static cudaError_t cudaFree(void *p)
{
    free(p);
    return cudaSuccess;
}

static cudaError_t cudaMemset(void *p, int value, size_t bytes)
{
    memset(p, value, bytes);
    return cudaSuccess;
}

static cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t)
{
    return cudaMemset(p, value, bytes);
}

static cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind,
                                   cudaStream_t)
{
    memcpy(to, from, bytes);
    return cudaSuccess;
}

/* The default stream: the stand-in of NCCL gets it, too, and has streams of its own. */
static cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned)
{
    *out = NULL;
    return cudaSuccess;
}

static cudaError_t cudaStreamDestroy(cudaStream_t)
{
    return cudaSuccess;
}

static cudaError_t cudaStreamSynchronize(cudaStream_t)
{
    return cudaSuccess;
}

static cudaError_t cudaDeviceSynchronize(void)
{
    return cudaSuccess;
}

static cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

enum cublasStatus_t { CUBLAS_STATUS_SUCCESS };
enum cublasOperation_t { CUBLAS_OP_N = CblasNoTrans, CUBLAS_OP_T = CblasTrans };
enum cublasMath_t { CUBLAS_PEDANTIC_MATH };
typedef struct fake_blas *cublasHandle_t;

static const char *cublasGetStatusString(cublasStatus_t)
{
    return "failed";
}

static cublasStatus_t cublasCreate(cublasHandle_t *out)
{
    *out = (cublasHandle_t)malloc(1);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t cublasDestroy(cublasHandle_t h)
{
    free(h);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t cublasSetStream(cublasHandle_t, cudaStream_t)
{
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t)
{
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t cublasSgemm(cublasHandle_t, cublasOperation_t ta, cublasOperation_t tb, int m,
                                  int n, int k, const float *alpha, const float *a, int lda,
                                  const float *b, int ldb, const float *beta, float *c, int ldc)
{
    cblas_sgemm(CblasColMajor, (CBLAS_TRANSPOSE)ta, (CBLAS_TRANSPOSE)tb, m, n, k, *alpha, a, lda, b,
                ldb, *beta, c, ldc);
    return CUBLAS_STATUS_SUCCESS;
}

#endif
