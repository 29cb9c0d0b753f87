#include "collectives/backends/nccl/nccl_copy.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/dl.h"
#include "common/log.h"
#include "common/mem.h"

/* Pageable memory is copied through a small buffer of the driver, at a part of the rate: it is used
 * only if no memory can be pinned. */
static int need_staging(struct nccl_copy *c, struct err *e)
{
    const struct cuda_lib *cuda = c->cuda;
    if (c->staging)
        return 0;
    c->pinned = cuda->host_alloc && cuda->host_free &&
                cuda->host_alloc(&c->staging, NCCL_COPY_BYTES, cudaHostAllocDefault) == cudaSuccess;
    if (!c->pinned)
        c->staging = try_calloc(NCCL_COPY_BYTES, 1);
    return c->staging ? 0 : err_set(e, -ENOMEM, "no memory for copies");
}

static cudaError_t move(struct nccl_copy *c, void *to, const void *from, size_t bytes,
                        enum cudaMemcpyKind kind)
{
    cudaError_t rc = c->cuda->cudaMemcpyAsync(to, from, bytes, kind, c->stream);
    return rc == cudaSuccess ? c->cuda->cudaStreamSynchronize(c->stream) : rc;
}

int nccl_copy_in(struct nccl_copy *c, void *to, const void *host, size_t bytes, struct err *e)
{
    int failed = need_staging(c, e);
    for (size_t at = 0; at < bytes && failed == 0; at += NCCL_COPY_BYTES) {
        size_t part = bytes - at < NCCL_COPY_BYTES ? bytes - at : NCCL_COPY_BYTES;
        memcpy(c->staging, (const char *)host + at, part);
        cudaError_t rc = move(c, (char *)to + at, c->staging, part, cudaMemcpyHostToDevice);
        if (rc != cudaSuccess)
            failed = nccl_loader_cuda_failed(e, c->cuda, rc, "copy to the GPU");
    }
    return failed;
}

int nccl_copy_out(struct nccl_copy *c, void *host, const void *from, size_t bytes, struct err *e)
{
    int failed = need_staging(c, e);
    for (size_t at = 0; at < bytes && failed == 0; at += NCCL_COPY_BYTES) {
        size_t part = bytes - at < NCCL_COPY_BYTES ? bytes - at : NCCL_COPY_BYTES;
        cudaError_t rc = move(c, c->staging, (const char *)from + at, part, cudaMemcpyDeviceToHost);
        if (rc != cudaSuccess)
            failed = nccl_loader_cuda_failed(e, c->cuda, rc, "copy from the GPU");
        else
            memcpy((char *)host + at, c->staging, part);
    }
    return failed;
}

/* Copies the pattern once; then the device doubles what is there, at the rate of its memory. */
int nccl_copy_fill(struct nccl_copy *c, void *to, const void *pattern, size_t period, size_t bytes,
                   struct err *e)
{
    size_t there = period < bytes ? period : bytes;
    int failed = nccl_copy_in(c, to, pattern, there, e);
    cudaError_t rc = cudaSuccess;
    for (; there < bytes && failed == 0 && rc == cudaSuccess;) {
        size_t part = bytes - there < there ? bytes - there : there;
        rc = c->cuda->cudaMemcpyAsync((char *)to + there, to, part, cudaMemcpyDeviceToDevice,
                                      c->stream);
        there += part;
    }
    if (failed == 0 && rc == cudaSuccess)
        rc = c->cuda->cudaStreamSynchronize(c->stream);
    return rc == cudaSuccess ? failed : nccl_loader_cuda_failed(e, c->cuda, rc, "filling memory");
}

/* ---- kernels -------------------------------------------------------------------------------- */

/* Returns the path of the library next to this one, which the caller frees; NULL: unknown. */
static char *kernels_beside(void)
{
    Dl_info self;
    if (!dladdr((void *)kernels_beside, &self) || !self.dli_fname)
        return NULL;
    const char *slash = strrchr(self.dli_fname, '/');
    return xasprintf("%.*snccl_kernels.so", slash ? (int)(slash - self.dli_fname) + 1 : 0,
                     self.dli_fname);
}

/* Returns the comparison of $DROVER_NCCL_KERNELS (empty: none) or of the library next to this one,
 * loaded once per process; NULL: there is none for this GPU. */
static nccl_kernels_compare_fn *find_compare(int device)
{
    struct kernels {
        nccl_kernels_usable_fn *usable;
        nccl_kernels_compare_fn *run_compare;
    } k;
    static const struct dl_symbol symbols[] = {
        {"nccl_kernels_usable", offsetof(struct kernels, usable), DL_REQUIRED},
        {"nccl_kernels_run_compare", offsetof(struct kernels, run_compare), DL_REQUIRED},
    };
    static nccl_kernels_compare_fn *compare;
    static bool searched;
    if (searched)
        return compare;
    searched = true;
    const char *given = getenv("DROVER_NCCL_KERNELS");
    AUTO(free) char *beside = given ? NULL : kernels_beside();
    const char *path = given ? given : beside;
    const struct dl_library library = {.names = {path}, DL_SYMBOLS(symbols)};
    if (path && *path && dl_load(&k, NULL, &library, NULL) == 0 && k.usable(device) == cudaSuccess)
        compare = k.run_compare;
    log_debug("buffers are compared %s", compare ? "on the GPU" : "on the host");
    return compare;
}

static cudaError_t compare_on_device(struct nccl_copy *c, nccl_kernels_compare_fn *compare,
                                     const struct backend_compare *k,
                                     struct nccl_kernels_difference *found)
{
    cudaError_t rc = c->pattern ? cudaSuccess : c->cuda->cudaMalloc(&c->pattern, NCCL_COPY_BYTES);
    void *difference = c->difference;
    if (rc == cudaSuccess && !difference)
        rc = c->cuda->cudaMalloc(&difference, sizeof *c->difference);
    c->difference = difference;
    if (rc == cudaSuccess) {
        memcpy(c->staging, k->pattern, k->period * k->element);
        rc = move(c, c->pattern, c->staging, k->period * k->element, cudaMemcpyHostToDevice);
    }
    if (rc == cudaSuccess) {
        *(struct nccl_kernels_difference *)c->staging = (struct nccl_kernels_difference){0, ~0ULL};
        rc = move(c, c->difference, c->staging, sizeof *found, cudaMemcpyHostToDevice);
    }
    const struct nccl_kernels_compare job = {k->got, c->pattern, k->element,   k->period,
                                             k->n,   k->ulps,    c->difference};
    if (rc == cudaSuccess)
        rc = (cudaError_t)compare(&job, c->stream);
    if (rc == cudaSuccess)
        rc = move(c, c->staging, c->difference, sizeof *found, cudaMemcpyDeviceToHost);
    *found = *(const struct nccl_kernels_difference *)c->staging;
    return rc;
}

int nccl_copy_compare(struct nccl_copy *c, const struct backend_compare *k,
                      struct backend_difference *out, struct err *e)
{
    nccl_kernels_compare_fn *compare = find_compare(c->device);
    if (!compare || k->period * k->element > NCCL_COPY_BYTES)
        return err_set(e, -ENOTSUP, "no kernel compares buffers on this GPU");
    struct nccl_kernels_difference found;
    int failed = need_staging(c, e);
    if (failed < 0)
        return failed;
    cudaError_t rc = compare_on_device(c, compare, k, &found);
    if (rc != cudaSuccess)
        return nccl_loader_cuda_failed(e, c->cuda, rc, "comparing buffers");
    *out = (struct backend_difference){.count = found.count, .first = found.first};
    return 0;
}

void nccl_copy_free(struct nccl_copy *c)
{
    if (c->pinned)
        c->cuda->host_free(c->staging);
    else
        free(c->staging);
    if (c->pattern)
        c->cuda->cudaFree(c->pattern);
    if (c->difference)
        c->cuda->cudaFree(c->difference);
}
