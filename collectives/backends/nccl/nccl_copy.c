/* Copies between host and device through pinned memory, repeated patterns, comparisons and
 * products. They use the stream of the communicator, which may not be ordered with the default
 * stream. */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/backends/nccl/nccl_internal.h"
#include "collectives/backends/nccl/nccl_kernels.h"
#include "common/dl.h"
#include "common/log.h"

/* A comparison puts what is found before the pattern. */
enum {
    COPY_BYTES = 1 << 20,
    PATTERN_MAX = COPY_BYTES - (int)sizeof(struct nccl_kernels_difference)
};

/* Pageable memory is copied through a small buffer of the driver, at a part of the rate: it is used
 * only if no memory can be pinned. */
static int need_staging(struct backend_comm *c, struct err *e)
{
    const struct cuda_lib *cuda = c->cuda;
    if (c->copy.staging)
        return 0;
    c->copy.pinned =
        cuda->host_alloc && cuda->host_free &&
        cuda->host_alloc(&c->copy.staging, COPY_BYTES, cudaHostAllocDefault) == cudaSuccess;
    if (!c->copy.pinned)
        c->copy.staging = try_calloc(COPY_BYTES, 1);
    return c->copy.staging ? 0 : err_set(e, -ENOMEM, "no memory for copies");
}

static cudaError_t move(struct backend_comm *c, void *to, const void *from, size_t bytes,
                        enum cudaMemcpyKind kind)
{
    cudaError_t rc = c->cuda->cudaMemcpyAsync(to, from, bytes, kind, c->stream);
    return rc == cudaSuccess ? c->cuda->cudaStreamSynchronize(c->stream) : rc;
}

int nccl_copy_in(struct backend_comm *c, void *to, const void *host, size_t bytes, struct err *e)
{
    int failed = need_staging(c, e);
    for (size_t at = 0; at < bytes && failed == 0; at += COPY_BYTES) {
        size_t part = bytes - at < COPY_BYTES ? bytes - at : COPY_BYTES;
        memcpy(c->copy.staging, (const char *)host + at, part);
        cudaError_t rc = move(c, (char *)to + at, c->copy.staging, part, cudaMemcpyHostToDevice);
        failed = nccl_loader_cuda(e, c->cuda, rc, "copy to the GPU");
    }
    return failed;
}

int nccl_copy_out(struct backend_comm *c, void *host, const void *from, size_t bytes, struct err *e)
{
    int failed = need_staging(c, e);
    for (size_t at = 0; at < bytes && failed == 0; at += COPY_BYTES) {
        size_t part = bytes - at < COPY_BYTES ? bytes - at : COPY_BYTES;
        cudaError_t rc =
            move(c, c->copy.staging, (const char *)from + at, part, cudaMemcpyDeviceToHost);
        failed = nccl_loader_cuda(e, c->cuda, rc, "copy from the GPU");
        if (failed == 0)
            memcpy((char *)host + at, c->copy.staging, part);
    }
    return failed;
}

/* Copies the pattern once; then the device doubles what is there, at the rate of its memory. */
int nccl_copy_fill(struct backend_comm *c, void *to, const void *pattern, size_t period,
                   size_t bytes, struct err *e)
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
    return failed < 0 ? failed : nccl_loader_cuda(e, c->cuda, rc, "filling memory");
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

struct kernels {
    nccl_kernels_usable_fn *usable;
    nccl_kernels_compare_fn *run_compare;
    nccl_kernels_premul_fn *run_premul;
};

/* Returns the kernels of $DROVER_NCCL_KERNELS (empty: none) or of the library next to this one,
 * loaded once per process; NULL: there are none for this GPU. */
static const struct kernels *find_kernels(int device)
{
    static const struct dl_symbol symbols[] = {
        {"nccl_kernels_usable", offsetof(struct kernels, usable), DL_REQUIRED},
        {"nccl_kernels_run_compare", offsetof(struct kernels, run_compare), DL_REQUIRED},
        {"nccl_kernels_run_premul", offsetof(struct kernels, run_premul), DL_REQUIRED},
    };
    static struct kernels k;
    static bool searched, usable;
    if (searched)
        return usable ? &k : NULL;
    searched = true;
    const char *given = getenv("DROVER_NCCL_KERNELS");
    AUTO(free) char *beside = given ? NULL : kernels_beside();
    const char *path = given ? given : beside;
    const struct dl_library library = {.names = {path}, DL_SYMBOLS(symbols)};
    usable =
        path && *path && dl_load(&k, NULL, &library, NULL) == 0 && k.usable(device) == cudaSuccess;
    log_debug("buffers are compared on the %s", usable ? "GPU" : "host");
    return usable ? &k : NULL;
}

void nccl_copy_load_kernels(struct backend_comm *c)
{
    (void)find_kernels(c->device);
}

static cudaError_t compare_on_device(struct backend_comm *c, nccl_kernels_compare_fn *compare,
                                     const struct backend_compare *k)
{
    size_t bytes = k->period * k->element;
    struct nccl_kernels_difference *found = c->copy.staging, *on_device;
    cudaError_t rc =
        c->copy.pattern ? cudaSuccess : c->cuda->cudaMalloc(&c->copy.pattern, COPY_BYTES);
    on_device = c->copy.pattern;
    *found = (struct nccl_kernels_difference){0, ~0ULL};
    memcpy(found + 1, k->pattern, bytes);
    if (rc == cudaSuccess)
        rc = move(c, on_device, found, sizeof *found + bytes, cudaMemcpyHostToDevice);
    const struct nccl_kernels_compare job = {k->got, on_device + 1, k->element, k->period,
                                             k->n,   k->ulps,       on_device};
    if (rc == cudaSuccess)
        rc = (cudaError_t)compare(&job, c->stream);
    return rc == cudaSuccess ? move(c, found, on_device, sizeof *found, cudaMemcpyDeviceToHost)
                             : rc;
}

int nccl_copy_compare(struct backend_comm *c, const struct backend_compare *k,
                      struct backend_difference *out, struct err *e)
{
    const struct kernels *kernels = find_kernels(c->device);
    if (!kernels || k->period * k->element > PATTERN_MAX)
        return err_set(e, -ENOTSUP, "no kernel compares buffers on this GPU");
    int failed = need_staging(c, e);
    if (failed == 0)
        failed = nccl_loader_cuda(e, c->cuda, compare_on_device(c, kernels->run_compare, k),
                                  "comparing buffers");
    if (failed < 0)
        return failed;
    const struct nccl_kernels_difference *found = c->copy.staging;
    *out = (struct backend_difference){.count = found->count, .first = found->first};
    return 0;
}

/* Waits for the work of the stream. */
static cudaError_t premul_on_host(struct backend_comm *c, const struct backend_call *k,
                                  size_t element)
{
    size_t bytes = k->count * element;
    cudaError_t rc = cudaSuccess;
    for (size_t at = 0; at < bytes && rc == cudaSuccess; at += COPY_BYTES) {
        size_t part = bytes - at < COPY_BYTES ? bytes - at : COPY_BYTES;
        rc = move(c, c->copy.staging, (const char *)k->in + at, part, cudaMemcpyDeviceToHost);
        premul_apply(c->copy.staging, part / element, k->type, k->factor);
        if (rc == cudaSuccess)
            rc = move(c, (char *)k->out + at, c->copy.staging, part, cudaMemcpyHostToDevice);
    }
    return rc;
}

int nccl_copy_premul(struct backend_comm *c, const struct backend_call *k, struct err *e)
{
    const struct kernels *kernels = find_kernels(c->device);
    size_t element = backend_type_bytes(k->type);
    const struct nccl_kernels_premul job = {k->in,    k->out,  element,
                                            k->count, k->type, type_bits(k->type, k->factor)};
    (void)c->cuda->cudaSetDevice(c->device); /* each thread has its own; it worked before */
    if (!kernels && c->recording) {
        err_set(e, -ENOTSUP, "a graph cannot hold mulsum with one rank: no kernel for this GPU");
        return err_hint(e, "install nccl_kernels.so next to the plug-in, or use no graph");
    }
    int failed = kernels ? 0 : need_staging(c, e);
    if (failed < 0)
        return failed;
    cudaError_t rc =
        kernels ? (cudaError_t)kernels->run_premul(&job, c->stream) : premul_on_host(c, k, element);
    return nccl_loader_cuda(e, c->cuda, rc, "multiplying a buffer");
}

void nccl_copy_free(struct backend_comm *c)
{
    if (c->copy.pinned)
        c->cuda->host_free(c->copy.staging);
    else
        free(c->copy.staging);
    if (c->copy.pattern)
        c->cuda->cudaFree(c->copy.pattern);
}
