/* cudahost - CUDA C++ on a CPU, to find faults: what a .cu file sees instead of nvcc.
 *
 * g++ compiles the file unchanged, with this header first, against NVIDIA's own headers. Barriers,
 * warp functions, shared memory, atomics, streams and events promise what CUDA promises and nothing
 * more. CUDAHOST_ORDER is the order of a block's threads: forward (default), reverse, or a number,
 * the seed of a random order. CUDAHOST_LOG=1 prints a line to stderr per launch.
 *
 * Device and shared memory begin as NaN. With -fsanitize=address, each buffer and each shared array
 * has exact bounds. With -fsanitize=thread, each CUDA thread and each stream is a thread to the
 * detector, so races are found whatever order the threads ran in; and reads of memory that nothing
 * has written, and of memory of the other side (host, device), are reported.
 *
 * Not covered: what ptxas compiles, protocols below barriers (volatile, __threadfence), cp.async,
 * TMA, clusters, and speed. One host thread at a time may call CUDA. */
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <functional>
#include <math.h>
#include <new>
#include <stdint.h>
#include <string.h>
#include <tuple>

#undef __launch_bounds__
#define __launch_bounds__(...)

/* ---- the running thread --------------------------------------------------------------------- */
struct cudahost_thread {
    uint3 thread, block;
    dim3 dim, grid;
};
extern const cudahost_thread *cudahost_now;
#define threadIdx (cudahost_now->thread)
#define blockIdx (cudahost_now->block)
#define blockDim (cudahost_now->dim)
#define gridDim (cudahost_now->grid)
enum { warpSize = 32 };

/* A place in a source, for messages. */
struct cudahost_site {
    const char *what, *file;
    int line;
};
/* The caller's place, as default arguments. */
#define CUDAHOST_CALLER const char *file = __builtin_FILE(), int line = __builtin_LINE()
/* Ends the program with a message about the running thread. */
[[noreturn]] void cudahost_fail(cudahost_site site, const char *what);

/* ---- launch --------------------------------------------------------------------------------- */
/* Memory for the arguments of a launch, which its threads may read. */
void *cudahost_arguments(size_t bytes);
/* Runs `body` per thread. `arguments` is of cudahost_arguments(). */
void cudahost_run(cudahost_site site, dim3 grid, dim3 block, cudaStream_t stream, void *arguments,
                  void (*body)(void *arguments));

/* Sets the order of the threads, as CUDAHOST_ORDER does. */
void cudahost_order(const char *order);

/* The arguments are copied at the launch, as CUDA does. */
template <typename... Parameters, typename... Arguments>
void cudahost_launch(cudahost_site site, void (*kernel)(Parameters...), dim3 grid, dim3 block,
                     cudaStream_t stream, const Arguments &...arguments)
{
    struct call {
        void (*kernel)(Parameters...);
        std::tuple<Parameters...> parameters;
    };
    static_assert(std::is_trivially_destructible_v<call>, "CUDA copies arguments as bytes");
    call *c = new (cudahost_arguments(sizeof(call)))
        call{kernel, std::tuple<Parameters...>(arguments...)};
    cudahost_run(site, grid, block, stream, c, [](void *p) {
        call *mine = (call *)p;
        std::apply(mine->kernel, mine->parameters);
    });
}
#define LAUNCH(kernel, grid, block, stream, ...)                                                 \
    cudahost_launch(cudahost_site{#kernel, __FILE__, __LINE__}, kernel, dim3(grid), dim3(block), \
                    (cudaStream_t)(stream), ##__VA_ARGS__)

/* An array of the block: an allocation of its own, fresh for each block. */
void *cudahost_shared(cudahost_site site, size_t bytes);
#define SHARED(type, name, count)                                                  \
    type *name = (type *)cudahost_shared(cudahost_site{#name, __FILE__, __LINE__}, \
                                         sizeof(type) * (size_t)(count))

/* ---- barriers and warp functions ------------------------------------------------------------ */
enum cudahost_kind { CUDAHOST_SYNCWARP, CUDAHOST_SHUFFLE, CUDAHOST_BALLOT };
struct cudahost_warp_call {
    cudahost_kind kind;
    unsigned mask;
    unsigned long long value; /* what this lane gives */
    int from;                 /* SHUFFLE: the lane whose value it gets */
};
void cudahost_barrier(cudahost_site site);
/* All lanes of the mask meet. Returns the value of lane `from`, or the mask of non-zero values. */
unsigned long long cudahost_warp(cudahost_site site, cudahost_warp_call call);
/* Returns the number of this thread in its warp. */
int cudahost_lane(void);

static inline void __syncthreads(CUDAHOST_CALLER)
{
    cudahost_barrier({"__syncthreads", file, line});
}
static inline void __syncwarp(unsigned mask = ~0u, CUDAHOST_CALLER)
{
    cudahost_warp({"__syncwarp", file, line}, {CUDAHOST_SYNCWARP, mask, 0, 0});
}
static inline unsigned __ballot_sync(unsigned mask, int p, CUDAHOST_CALLER)
{
    return (unsigned)cudahost_warp({"__ballot_sync", file, line},
                                   {CUDAHOST_BALLOT, mask, p != 0, 0});
}
static inline int __any_sync(unsigned mask, int p, CUDAHOST_CALLER)
{
    return __ballot_sync(mask, p, file, line) != 0;
}
static inline int __all_sync(unsigned mask, int p, CUDAHOST_CALLER)
{
    return __ballot_sync(mask, !p, file, line) == 0;
}

template <typename T>
T cudahost_shuffle(cudahost_site site, unsigned mask, T v, int from, bool is_inside)
{
    static_assert(sizeof v <= sizeof(unsigned long long), "CUDA shuffles up to 8 bytes");
    unsigned long long bits = 0;
    memcpy(&bits, &v, sizeof v);
    bits = cudahost_warp(site, {CUDAHOST_SHUFFLE, mask, bits, is_inside ? from : cudahost_lane()});
    memcpy(&v, &bits, sizeof v);
    return v;
}
/* A lane reads from its own segment of `width` lanes, else it gets its own value. */
template <typename T> T __shfl_sync(unsigned mask, T v, int lane, int width = 32, CUDAHOST_CALLER)
{
    int first = cudahost_lane() & -width;
    return cudahost_shuffle({"__shfl_sync", file, line}, mask, v, first + (lane & (width - 1)),
                            true);
}
template <typename T> T __shfl_xor_sync(unsigned mask, T v, int by, int width = 32, CUDAHOST_CALLER)
{
    int from = cudahost_lane() ^ by, end = (cudahost_lane() & -width) + width;
    return cudahost_shuffle({"__shfl_xor_sync", file, line}, mask, v, from, from < end);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32, CUDAHOST_CALLER)
{
    int from = cudahost_lane() + (int)by, end = (cudahost_lane() & -width) + width;
    return cudahost_shuffle({"__shfl_down_sync", file, line}, mask, v, from, from < end);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32, CUDAHOST_CALLER)
{
    int from = cudahost_lane() - (int)by;
    return cudahost_shuffle({"__shfl_up_sync", file, line}, mask, v, from,
                            from >= (cudahost_lane() & -width));
}

/* ---- atomics -------------------------------------------------------------------------------- */
/* For the detector: reads and writes *p as one atomic access does. */
void cudahost_atomic(const void *p, size_t bytes);

/* Sets *p to change(*p) -> the value before. */
template <typename T, typename Change> T cudahost_exchange(T *p, Change change)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "CUDA has atomics of 4 and 8 bytes");
    using bits = std::conditional_t<sizeof(T) == 4, unsigned, unsigned long long>;
    cudahost_atomic(p, sizeof *p);
    bits before = __atomic_load_n((bits *)p, __ATOMIC_RELAXED), after;
    T value;
    do {
        memcpy(&value, &before, sizeof value);
        T next = change(value);
        memcpy(&after, &next, sizeof after);
    } while (!__atomic_compare_exchange_n((bits *)p, &before, after, false, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    return value;
}
#define CUDAHOST_ATOMIC(name, T, expression)                                 \
    static inline T name(T *p, T v)                                          \
    {                                                                        \
        return cudahost_exchange(p, [=](T old) -> T { return expression; }); \
    }
#define CUDAHOST_ATOMICS(T)                          \
    CUDAHOST_ATOMIC(atomicAdd, T, old + v)           \
    CUDAHOST_ATOMIC(atomicExch, T, ((void)old, v))   \
    CUDAHOST_ATOMIC(atomicMin, T, v < old ? v : old) \
    CUDAHOST_ATOMIC(atomicMax, T, old < v ? v : old)
CUDAHOST_ATOMICS(int)
CUDAHOST_ATOMICS(unsigned)
CUDAHOST_ATOMICS(unsigned long long)
CUDAHOST_ATOMIC(atomicAdd, float, old + v)
CUDAHOST_ATOMIC(atomicAdd, double, old + v)
CUDAHOST_ATOMIC(atomicExch, float, ((void)old, v))

/* ---- functions that only device code has ---------------------------------------------------- */
static inline float rsqrtf(float x)
{
    return 1 / sqrtf(x);
}
/* glibc declares functions of these names. */
#define __expf expf
#define __logf logf
static inline float __frcp_rn(float x)
{
    return 1 / x;
}
static inline float __fdividef(float x, float y)
{
    return x / y;
}
template <typename T> T __ldg(const T *p)
{
    return *p;
}
