/* nccl_copy - copies between host and device through pinned memory, and repeated patterns. */
#pragma once

#include <stdbool.h>

#include "collectives/backends/nccl/nccl_kernels.h"
#include "collectives/backends/nccl/nccl_loader.h"
#include "collectives/comm/backend.h"

/* All zero: nothing is allocated yet. */
struct nccl_copy {
    const struct cuda_lib *cuda; /* set by the owner, like the next two */
    cudaStream_t stream;
    int device;
    void *staging;                              /* NCCL_COPY_BYTES of host memory, … */
    bool pinned;                                /* … pinned, if possible */
    void *pattern;                              /* on the device, NCCL_COPY_BYTES */
    struct nccl_kernels_difference *difference; /* on the device */
};
enum { NCCL_COPY_BYTES = 1 << 20 };

/* Copy on the stream; complete on return. */
int nccl_copy_in(struct nccl_copy *c, void *to, const void *host, size_t bytes, struct err *e);
int nccl_copy_out(struct nccl_copy *c, void *host, const void *from, size_t bytes, struct err *e);

/* See struct backend. */
int nccl_copy_fill(struct nccl_copy *c, void *to, const void *pattern, size_t period, size_t bytes,
                   struct err *e);
int nccl_copy_compare(struct nccl_copy *c, const struct backend_compare *k,
                      struct backend_difference *out, struct err *e);

void nccl_copy_free(struct nccl_copy *c);
