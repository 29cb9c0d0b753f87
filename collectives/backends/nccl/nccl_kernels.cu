#ifndef DROVER_BUILD
#define DROVER_BUILD /* drover.h of this tree, not as it is installed */
#endif
#include "collectives/backends/nccl/nccl_kernels.h"

#include "collectives/comm/ulps.h"

#ifdef __CUDACC__
#define LAUNCH(kernel, blocks, threads, stream, ...) \
    kernel<<<blocks, threads, 0, (cudaStream_t)(stream)>>>(__VA_ARGS__)
#endif

namespace
{

enum { THREADS = 256, BLOCKS_MAX = 1024 };

/* Each thread compares the elements i, i + stride, …; `at` is i modulo the period. */
template <typename T> __global__ void compare(nccl_kernels_compare k)
{
    const T *got = (const T *)k.got, *pattern = (const T *)k.pattern;
    size_t stride = (size_t)gridDim.x * blockDim.x, step = stride % k.period;
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x, at = i % k.period;
    unsigned long long count = 0, first = ~0ULL;
    for (; i < k.n; i += stride) {
        if (ulps_differ(got[i], pattern[at], sizeof(T), k.ulps)) {
            first = count++ ? first : i;
        }
        at += step;
        at -= at >= k.period ? k.period : 0;
    }
    if (count) { /* rare */
        atomicAdd(&k.out->count, count);
        atomicMin(&k.out->first, first);
    }
}

template <typename T> __global__ void premul(nccl_kernels_premul k)
{
    const T *in = (const T *)k.in;
    T *out = (T *)k.out;
    size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < k.n; i += stride)
        out[i] = (T)premul_one(k.type, in[i], k.factor);
}

unsigned blocks_for(size_t n)
{
    size_t blocks = (n + THREADS - 1) / THREADS;
    return (unsigned)(blocks < BLOCKS_MAX ? blocks : (size_t)BLOCKS_MAX);
}

} // namespace

/* Launches the kernel of k's element size, and returns from the function. */
#define RUN(kernel, k, stream)                                                   \
    do {                                                                         \
        if ((k)->n == 0)                                                         \
            return cudaSuccess;                                                  \
        switch ((k)->element) {                                                  \
        case 1:                                                                  \
            LAUNCH(kernel<uint8_t>, blocks_for((k)->n), THREADS, stream, *(k));  \
            break;                                                               \
        case 2:                                                                  \
            LAUNCH(kernel<uint16_t>, blocks_for((k)->n), THREADS, stream, *(k)); \
            break;                                                               \
        case 4:                                                                  \
            LAUNCH(kernel<uint32_t>, blocks_for((k)->n), THREADS, stream, *(k)); \
            break;                                                               \
        case 8:                                                                  \
            LAUNCH(kernel<uint64_t>, blocks_for((k)->n), THREADS, stream, *(k)); \
            break;                                                               \
        default:                                                                 \
            return cudaErrorInvalidValue;                                        \
        }                                                                        \
        return cudaGetLastError();                                               \
    } while (0)

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int nccl_kernels_usable(int device)
{
    static const void *const kernels[] = {
        (const void *)compare<uint8_t>,  (const void *)compare<uint16_t>,
        (const void *)compare<uint32_t>, (const void *)compare<uint64_t>,
        (const void *)premul<uint8_t>,   (const void *)premul<uint16_t>,
        (const void *)premul<uint32_t>,  (const void *)premul<uint64_t>};
    cudaFuncAttributes attributes;
    cudaError_t rc = cudaSetDevice(device);
    for (const void *kernel : kernels)
        rc = rc == cudaSuccess ? cudaFuncGetAttributes(&attributes, kernel) : rc;
    return rc;
}

EXPORT int nccl_kernels_run_compare(const struct nccl_kernels_compare *k, void *stream)
{
    RUN(compare, k, stream);
}

EXPORT int nccl_kernels_run_premul(const struct nccl_kernels_premul *k, void *stream)
{
    RUN(premul, k, stream);
}
