/* nccl_kernels - CUDA kernels of the plug-in, in a library of their own.
 *
 * nccl_kernels.so is built if there is nvcc, lies next to the plug-in, and contains its own CUDA
 * runtime. Without it, or on a GPU that it has no kernel for, the host does the work. C and C++. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* What a comparison finds, in device memory. */
struct nccl_kernels_difference {
    unsigned long long count, first; /* first: ULLONG_MAX if count is 0 */
};

/* Compares n elements with a pattern of `period` elements that repeats; all in device memory. */
struct nccl_kernels_compare {
    const void *got, *pattern;
    size_t element, period, n; /* element: 1, 2, 4 or 8 bytes */
    int64_t ulps;              /* as in ulps_differ() */
    struct nccl_kernels_difference *out;
};

/* The exported functions, "nccl_kernels_usable" and "nccl_kernels_run_compare". They return an
 * error code of CUDA. The first one says whether the kernels work on this GPU; the second one puts
 * a comparison, which adds to *out, on a stream. */
typedef int nccl_kernels_usable_fn(int device);
typedef int nccl_kernels_compare_fn(const struct nccl_kernels_compare *k, void *stream);
