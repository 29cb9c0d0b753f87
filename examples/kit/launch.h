/* launch - how a kernel is launched and declares shared memory.
 *
 * nvcc gets CUDA's own notation. Without nvcc, the code that runs kernels on the host
 * (tests/cudahost) has defined both macros before this header is included. */
#pragma once

#ifdef __CUDACC__
#define LAUNCH(kernel, grid, block, stream, ...) kernel<<<grid, block, 0, stream>>>(__VA_ARGS__)
/* Aligned for accesses of 16 bytes, the largest that a thread makes. */
#define SHARED(type, name, count) __shared__ __align__(16) type name[count]
#endif
