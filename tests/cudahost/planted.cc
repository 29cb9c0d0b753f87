/* Planted faults: what looks for faults has to report each one.
 *
 *   planted bounds|race|barrier|unwritten|none
 *
 * The script `faults` runs the builds of tests/cudahost. scripts/gpu-check compiles the file by nvcc
 * (-x cu) and runs it under compute-sanitizer: memcheck, racecheck, synccheck, initcheck. A line that
 * the report must name is marked "fault NAME". */
#include <stdio.h>
#include <string.h>

#include <cuda_runtime.h>

#include "examples/kit/launch.h"

/* Two warps, so that a race is one between warps. */
enum { THREADS = 64, N = 100 };
enum fault { NONE, BOUNDS, RACE, BARRIER, UNWRITTEN, FAULTS };
static const char *const names[FAULTS] = {"none", "bounds", "race", "barrier", "unwritten"};

__global__ void reverse(float *y, const float *x, int n, int fault)
{
    SHARED(float, t, THREADS);
    int i = (int)(blockIdx.x * THREADS + threadIdx.x), last = THREADS - 1 - (int)threadIdx.x;
    t[threadIdx.x] = i < n ? x[i] : 0; /* fault race */
    if (fault == BARRIER && threadIdx.x < 7)
        __syncthreads(); /* fault barrier */
    if (fault != RACE)
        __syncthreads(); /* fault barrier */
    if (i < n)
        y[i] = t[last]; /* fault race */
}

__global__ void twice(float *y, const float *x, int n, int fault)
{
    int i = (int)(blockIdx.x * THREADS + threadIdx.x);
    if (i < n)
        y[i] = 2 * x[i]; /* fault unwritten */
    if (fault == BOUNDS && i == n)
        y[i] = 0; /* fault bounds */
}

static int failed(cudaError_t rc, const char *call)
{
    if (rc != cudaSuccess)
        fprintf(stderr, "planted: %s: %s\n", call, cudaGetErrorString(rc));
    return rc != cudaSuccess;
}
#define TRY(call)                                                                                  \
    if (failed(call, #call))                                                                       \
        return 1

int main(int argc, char **argv)
{
    const size_t bytes = N * sizeof(float);
    const int blocks = (N + THREADS - 1) / THREADS;
    float host[N], *x, *y;
    int fault = NONE;
    while (fault < FAULTS && (argc != 2 || strcmp(argv[1], names[fault]) != 0))
        fault++;
    if (fault == FAULTS) {
        fputs("Usage: planted bounds|race|barrier|unwritten|none\n", stderr);
        return 2;
    }
    for (int i = 0; i < N; i++)
        host[i] = (float)i;
    TRY(cudaMalloc((void **)&x, bytes));
    TRY(cudaMalloc((void **)&y, bytes));
    if (fault != UNWRITTEN)
        TRY(cudaMemcpy(x, host, bytes, cudaMemcpyHostToDevice));
    LAUNCH(twice, blocks, THREADS, 0, y, x, N, fault);
    TRY(cudaGetLastError());
    LAUNCH(reverse, blocks, THREADS, 0, x, y, N, fault);
    TRY(cudaGetLastError());
    TRY(cudaMemcpy(host, x, bytes, cudaMemcpyDeviceToHost));
    TRY(cudaFree(x));
    TRY(cudaFree(y));
    if (fault == NONE && host[0] != 2 * (THREADS - 1)) {
        fprintf(stderr, "planted: the first element is %g\n", (double)host[0]);
        return 1;
    }
    return 0;
}
