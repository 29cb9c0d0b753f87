/* nccl_kernels - CUDA kernels of the plug-in, in a library of their own.
 *
 * nccl_kernels.so is built if there is nvcc, lies next to the plug-in, and contains its own CUDA
 * runtime. Without it, or on a GPU that it has no kernel for, the host does the work. C and C++. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "collectives/comm/premul.h"

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

/* Multiplies n elements by a factor, as premul_one() does; all in device memory. */
struct nccl_kernels_premul {
    const void *in;
    void *out;         /* may be `in` */
    size_t element, n; /* element: the size of the type in bytes */
    enum drover_type type;
    uint64_t factor; /* its bits */
};

/* The exported functions, "nccl_kernels_usable", "nccl_kernels_run_compare" and
 * "nccl_kernels_run_premul". They return an error code of CUDA. The first one loads the kernels and
 * says whether they work on this GPU; the others put their work on a stream. A comparison adds to
 * *out. */
typedef int nccl_kernels_usable_fn(int device);
typedef int nccl_kernels_compare_fn(const struct nccl_kernels_compare *k, void *stream);
typedef int nccl_kernels_premul_fn(const struct nccl_kernels_premul *k, void *stream);
