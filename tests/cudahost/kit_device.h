/* kit_device - device memory in tests of kernels, a stream, and comparisons. */
#pragma once

#include <stdint.h>
#include <vector>

#include "tests/cudahost/cudahost.h"
#include "tests/unit/test.h"

#define CHECK_CUDA(call) CHECK_STR(cudaGetErrorString(call), "no error")

static inline cudaStream_t kit_stream(void)
{
    static cudaStream_t s;
    if (!s)
        CHECK_CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    return s;
}

/* n values on the device: unwritten, or those of a vector. */
template <typename T> struct on_device {
    T *p;
    size_t n;
    explicit on_device(size_t count) : n(count)
    {
        CHECK_CUDA(cudaMalloc((void **)&p, n * sizeof(T)));
    }
    explicit on_device(const std::vector<T> &v) : on_device(v.size())
    {
        CHECK_CUDA(
            cudaMemcpyAsync(p, v.data(), n * sizeof(T), cudaMemcpyHostToDevice, kit_stream()));
        CHECK_CUDA(cudaStreamSynchronize(kit_stream()));
    }
    on_device(const on_device &) = delete;
    ~on_device()
    {
        cudaFree(p);
    }
    operator T *() const
    {
        return p;
    }
    std::vector<T> get() const
    {
        std::vector<T> v(n);
        CHECK_CUDA(
            cudaMemcpyAsync(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost, kit_stream()));
        CHECK_CUDA(cudaStreamSynchronize(kit_stream()));
        return v;
    }
};

/* n floats from -1 to 1, the same on each run. */
static inline std::vector<float> kit_floats(size_t n, unsigned seed = 1)
{
    std::vector<float> v(n);
    for (float &x : v) {
        seed = seed * 1664525 + 1013904223;
        x = (float)(seed >> 8) / (1 << 23) - 1;
    }
    return v;
}

/* Runs `work` in ten random orders of the threads, and checks that its result never changes. */
template <typename Work> void kit_check_orders(Work work)
{
    cudahost_order("forward");
    auto first = work();
    for (int seed = 0; seed < 10; seed++) {
        char text[16];
        snprintf(text, sizeof text, "%d", seed);
        cudahost_order(text);
        auto other = work();
        CHECK(first.size() == other.size() &&
              memcmp(first.data(), other.data(), first.size() * sizeof first[0]) == 0);
    }
    cudahost_order("forward");
}
