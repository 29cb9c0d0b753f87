/* Injected faults: `faulty N` runs with fault N, `faulty 0` without. The script `faults` runs each
 * one in the build that must report it, with a line that is marked "fault N". planted.cc has those
 * that a GPU's own tools must report, too. */
#include <stdlib.h>

#include <cublas_v2.h>

#include "examples/kit/launch.h"
#include "tests/cudahost/kit_device.h"

static int fault;

enum { THREADS = 64, TILE = 32 };

__global__ void reverse(float *y, const float *x, int n)
{
    SHARED(float, t, THREADS);
    int i = (int)(blockIdx.x * THREADS + threadIdx.x), last = THREADS - 1 - (int)threadIdx.x;
    if (fault != 11 || threadIdx.x != 0)
        t[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    if (i < n)
        y[i] = t[last]; /* fault 11 */
}

/* Adds rows of TILE elements. */
__global__ void add_tiles(float *y, const float *x, int tiles)
{
    SHARED(float, t, TILE);
    float sum = 0;
    for (int k = 0; k < tiles; k++) {
        t[threadIdx.x] = x[k * TILE + (int)threadIdx.x]; /* fault 4 */
        __syncthreads();
        sum += t[TILE - 1 - threadIdx.x]; /* fault 4 */
        if (fault != 4)
            __syncthreads();
    }
    y[threadIdx.x] = sum;
}

__global__ void twice(float *y, const float *x, int n)
{
    int i = (int)(blockIdx.x * THREADS + threadIdx.x);
    if (fault == 3 || i < n)
        y[i] = 2 * (i < n ? x[i] : 0); /* fault 3 */ /* fault 10 */ /* fault 19 */
}

__global__ void sum_all(float *y, const float *x, int n)
{
    int i = (int)(blockIdx.x * THREADS + threadIdx.x), lane = (int)threadIdx.x % 32;
    float v = i < n ? x[i] : 0; /* fault 7 */
    unsigned mask = fault == 13 && lane < 16 ? 0xffff : fault == 13 ? 0xffff0000 : ~0u;
    if (fault != 5 || lane < 16)
        for (int m = 16; m; m /= 2)
            v += __shfl_xor_sync(mask, v, m); /* fault 5 */ /* fault 13 */
    if (lane == 0 && fault == 6)
        *y += v; /* fault 6 */
    else if (lane == 0)
        atomicAdd(y, v);
}

/* Each lane writes its numbers, then all lanes read all of them. */
__global__ void square(float *y, const float *x)
{
    SHARED(float, tile, 256);
    for (int i = 0; i < 8; i++)
        tile[8 * threadIdx.x + i] = x[8 * threadIdx.x + i] * x[8 * threadIdx.x + i];
    if (fault != 18)
        __syncwarp();
    for (int i = (int)threadIdx.x; i < 256; i += 32)
        y[i] = tile[i]; /* fault 18 */
}

/* ---- the host ------------------------------------------------------------------------------- */
enum { N = 100, TILES = 3 };

static void run_blocks(cudaStream_t s)
{
    on_device<float> x(kit_floats(N)), y(fault == 3 ? N : N + 28), sum(1);
    int grid = (N + THREADS - 1) / THREADS;
    const std::vector<float> host = kit_floats(N);
    LAUNCH(reverse, grid, THREADS, s, y, x, N);
    LAUNCH(twice, grid, THREADS, s, y, fault == 19 ? host.data() : x, N);
    CHECK_CUDA(cudaMemsetAsync(sum, 0, sizeof(float), s));
    LAUNCH(sum_all, grid, THREADS, s, sum, x, N);
    CHECK_CUDA(cudaStreamSynchronize(s));
    if (fault == 15)
        fprintf(stderr, "%g\n", y.p[0]); /* fault 15 */
}

static void run_tiles(cudaStream_t s)
{
    on_device<float> x(kit_floats(TILE * TILES)), y(TILE), z(256), numbers(kit_floats(256));
    LAUNCH(add_tiles, 1, TILE, s, y, x, TILES);
    LAUNCH(square, 1, 32, s, z, numbers);
    CHECK_CUDA(cudaStreamSynchronize(s));
}

static void run_streams(cudaStream_t s)
{
    cudaStream_t other;
    cudaEvent_t ready;
    CHECK_CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    CHECK_CUDA(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming));
    on_device<float> x(kit_floats(N)), y(N), sum(1);
    static float out;
    LAUNCH(twice, 2, THREADS, s, y, x, N);
    LAUNCH(twice, 2, THREADS, fault == 10 ? other : s, y, x, N);
    CHECK_CUDA(cudaEventRecord(ready, s));
    if (fault != 7)
        CHECK_CUDA(cudaStreamWaitEvent(other, ready, 0));
    CHECK_CUDA(cudaMemsetAsync(sum, 0, sizeof(float), other));
    LAUNCH(sum_all, 2, THREADS, other, sum, y, N);
    CHECK_CUDA(cudaMemcpyAsync(&out, sum, sizeof out, cudaMemcpyDeviceToHost, other)); /* fault 9 */
    if (fault != 9)
        CHECK_CUDA(cudaStreamSynchronize(other));
    CHECK(out == out); /* fault 9 */
    CHECK_CUDA(cudaStreamSynchronize(other));
    CHECK_CUDA(cudaEventDestroy(ready));
}

static void run_pinned(cudaStream_t s)
{
    on_device<float> x(N);
    float *pinned;
    CHECK_CUDA(cudaMallocHost((void **)&pinned, N * sizeof(float)));
    for (int i = 0; i < N; i++)
        pinned[i] = 1;
    CHECK_CUDA(cudaMemcpyAsync(x, pinned, 4 * N, cudaMemcpyHostToDevice, s)); /* fault 8 */
    if (fault != 8)
        CHECK_CUDA(cudaStreamSynchronize(s));
    for (int i = 0; i < N; i++)
        pinned[i] = 2; /* fault 8 */
    CHECK_CUDA(cudaStreamSynchronize(s));
    CHECK_CUDA(cudaFreeHost(pinned));
}

static void run_product(cudaStream_t s)
{
    cublasHandle_t h;
    int m = 5, n = 3, k = 4;
    float one = 1, zero = 0;
    on_device<float> a(kit_floats(20)), b(kit_floats(12)), c(15);
    cublasCreate(&h);
    cublasSetStream(h, s);
    int lda = fault == 12 ? 6 : m;
    cublasOperation_t no = CUBLAS_OP_N;
    int rc = cublasSgemm(h, no, no, m, n, k, &one, a, lda, b, k, &zero, c, m); /* fault 12 */
    CHECK_INT(rc, CUBLAS_STATUS_SUCCESS);
    CHECK_CUDA(cudaStreamSynchronize(s));
    cublasDestroy(h);
}

int main(int argc, char **argv)
{
    fault = argc > 1 ? atoi(argv[1]) : 0;
    cudaStream_t s = kit_stream();
    run_pinned(s);
    run_product(s);
    run_streams(s);
    run_tiles(s);
    run_blocks(s);
    return 0;
}
