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

template <typename T> void launch_compare(const nccl_kernels_compare *k, void *stream)
{
    size_t blocks = (k->n + THREADS - 1) / THREADS;
    blocks = blocks < BLOCKS_MAX ? blocks : (size_t)BLOCKS_MAX;
    LAUNCH(compare<T>, (unsigned)blocks, THREADS, stream, *k);
}

} // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int nccl_kernels_usable(int device)
{
    cudaFuncAttributes attributes;
    cudaError_t rc = cudaSetDevice(device);
    return rc == cudaSuccess ? cudaFuncGetAttributes(&attributes, (const void *)compare<uint8_t>)
                             : rc;
}

EXPORT int nccl_kernels_run_compare(const struct nccl_kernels_compare *k, void *stream)
{
    if (k->n == 0)
        return cudaSuccess;
    switch (k->element) {
    case 1:
        launch_compare<uint8_t>(k, stream);
        break;
    case 2:
        launch_compare<uint16_t>(k, stream);
        break;
    case 4:
        launch_compare<uint32_t>(k, stream);
        break;
    case 8:
        launch_compare<uint64_t>(k, stream);
        break;
    default:
        return cudaErrorInvalidValue;
    }
    return cudaGetLastError();
}
