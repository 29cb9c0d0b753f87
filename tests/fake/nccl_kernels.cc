/* The plug-in's CUDA kernels (collectives/backends/nccl/nccl_kernels.cu) on the host: a kernel is a
 * loop over its threads. DROVER_NCCL_KERNELS names this library. With FAKE_NCCL_KERNELS=log it
 * prints a line to stderr per comparison; with "old", the GPU is older than the kernels. */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define __host__
#define __device__
#define __global__ static

struct fake_dim {
    unsigned x;
};
static fake_dim blockIdx, threadIdx, blockDim, gridDim;

enum cudaError_t { cudaSuccess, cudaErrorInvalidValue, cudaErrorNoKernelImageForDevice = 209 };
struct cudaFuncAttributes {
    int unused;
};

static bool simulates(const char *what)
{
    const char *word = getenv("FAKE_NCCL_KERNELS");
    return word && strcmp(word, what) == 0;
}

static cudaError_t cudaSetDevice(int)
{
    return cudaSuccess;
}

static cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *, const void *)
{
    return simulates("old") ? cudaErrorNoKernelImageForDevice : cudaSuccess;
}

static cudaError_t cudaGetLastError()
{
    return cudaSuccess;
}

static void atomicAdd(unsigned long long *to, unsigned long long n)
{
    *to += n;
}

static void atomicMin(unsigned long long *to, unsigned long long n)
{
    *to = n < *to ? n : *to;
}

template <typename Kernel, typename Argument>
static void launch(Kernel kernel, unsigned blocks, unsigned threads, Argument argument)
{
    if (simulates("log"))
        fprintf(stderr, "fake: %zu elements are compared\n", argument.n);
    gridDim.x = blocks;
    blockDim.x = threads;
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)
        for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++)
            kernel(argument);
}

#define LAUNCH(kernel, blocks, threads, stream, argument) \
    ((void)(stream), launch(kernel, blocks, threads, argument))

#include "collectives/backends/nccl/nccl_kernels.cu"
