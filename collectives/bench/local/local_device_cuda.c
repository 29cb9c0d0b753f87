#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "collectives/bench/local/cuda_libs.h"
#include "collectives/bench/local/local_device.h"
#include "common/clock.h"
#include "common/mem.h"

enum { ALLOCATIONS_MAX = 8, WORKSPACE_BYTES = 32 << 20 };

/* What a product needs: it is made for the first one, and used for the others like it. */
struct blas {
    const struct cuda_libs_blas *lib;
    void *handle, *operation, *input, *output, *workspace;
    struct cuda_libs_algorithm algorithm;
    int n;
    enum drover_type type;
};

struct local_device {
    const struct cuda_libs_runtime *cuda;
    int index;
    int64_t wait_ms;
    void *stream;
    struct blas blas;
    void *memory[ALLOCATIONS_MAX];
    bool on_host[ALLOCATIONS_MAX];
    int count;
};

/* ---- errors and waiting --------------------------------------------------------------------- */

static int check(const struct local_device *d, int code, const char *what, struct err *e)
{
    if (code == 0)
        return 0;
    return err_set(e, code == CUDA_LIBS_NO_MEMORY ? -ENOMEM : -EIO, "CUDA: %s: %s", what,
                   d->cuda->cudaGetErrorString(code));
}

static int check_blas(const struct blas *b, int code, const char *what, struct err *e)
{
    return code == 0
               ? 0
               : err_set(e, -EIO, "cuBLASLt: %s: %s", what, b->lib->cublasLtGetStatusString(code));
}

/* Waits for the stream without sleeping, as the time until then is measured. */
static int wait_for(const struct local_device *d, const char *what, struct err *e)
{
    double begin = clock_s();
    int code;
    while ((code = d->cuda->cudaStreamQuery(d->stream)) == CUDA_LIBS_NOT_READY)
        if (d->wait_ms != INT64_MAX && (clock_s() - begin) * 1e3 > (double)d->wait_ms)
            return err_set(e, -ETIMEDOUT, "CUDA: %s: not done after %g s", what,
                           (double)d->wait_ms / 1e3);
    return check(d, code, what, e);
}

/* ---- open and close ------------------------------------------------------------------------- */

static int cuda_count(int *out, struct err *e)
{
    struct local_device d = {0};
    int rc = cuda_libs_open_runtime(&d.cuda, e);
    int code = rc < 0 ? 0 : d.cuda->cudaGetDeviceCount(out);
    if (rc == 0 && code == CUDA_LIBS_NO_DEVICE)
        *out = 0;
    return rc < 0 || code == CUDA_LIBS_NO_DEVICE ? rc : check(&d, code, "counting devices", e);
}

static int cuda_load_product(struct err *e)
{
    const struct cuda_libs_blas *lib;
    return cuda_libs_open_blas(&lib, e);
}

static void close_blas(const struct local_device *d)
{
    const struct blas *b = &d->blas;
    if (!b->lib)
        return;
    if (b->operation)
        b->lib->cublasLtMatmulDescDestroy(b->operation);
    if (b->input)
        b->lib->cublasLtMatrixLayoutDestroy(b->input);
    if (b->output)
        b->lib->cublasLtMatrixLayoutDestroy(b->output);
    if (b->handle)
        b->lib->cublasLtDestroy(b->handle);
}

static void cuda_close(struct local_device *d)
{
    if (!d)
        return;
    close_blas(d);
    for (int i = 0; i < d->count; i++)
        (void)(d->on_host[i] ? d->cuda->cudaFreeHost : d->cuda->cudaFree)(d->memory[i]);
    if (d->stream)
        d->cuda->cudaStreamDestroy(d->stream);
    free(d);
}

static int cuda_open(struct local_device **out, int index, int64_t wait_ms, struct err *e)
{
    struct local_device *d = xzalloc(sizeof *d);
    d->index = index;
    d->wait_ms = wait_ms;
    int rc = cuda_libs_open_runtime(&d->cuda, e);
    if (rc == 0)
        rc = check(d, d->cuda->cudaSetDevice(index), "choosing the device", e);
    if (rc == 0)
        rc = check(d, d->cuda->cudaStreamCreateWithFlags(&d->stream, CUDA_LIBS_NON_BLOCKING),
                   "creating a stream", e);
    if (rc < 0) {
        cuda_close(d);
        return rc;
    }
    *out = d;
    return 0;
}

static void cuda_describe(const struct local_device *d, struct local_device_facts *out)
{
    char properties[CUDA_LIBS_PROPERTIES_BYTES] = "", bus[32] = "";
    *out = (struct local_device_facts){.name = "GPU"};
    if (d->cuda->cudaGetDeviceProperties &&
        d->cuda->cudaGetDeviceProperties(properties, d->index) == 0)
        snprintf(out->name, sizeof out->name, "%.127s", properties);
    size_t free_bytes = 0, all_bytes;
    if (d->cuda->cudaMemGetInfo(&free_bytes, &all_bytes) == 0)
        out->free_bytes = free_bytes;
    out->has_pci = d->cuda->cudaDeviceGetPCIBusId(bus, sizeof bus, d->index) == 0 &&
                   sscanf(bus, "%x:%x:%x", (unsigned *)&out->pci_domain, (unsigned *)&out->pci_bus,
                          (unsigned *)&out->pci_device) == 3;
}

/* ---- memory --------------------------------------------------------------------------------- */

static int cuda_alloc(struct local_device *d, size_t bytes, enum local_device_memory where,
                      void **out, struct err *e)
{
    bool on_host = where == LOCAL_DEVICE_HOST;
    if (d->count == ALLOCATIONS_MAX)
        return err_set(e, -ENOMEM, "more than %d allocations", ALLOCATIONS_MAX);
    int code = on_host ? d->cuda->cudaHostAlloc(out, bytes, 0) : d->cuda->cudaMalloc(out, bytes);
    int rc = check(d, code, on_host ? "allocating pinned memory" : "allocating memory", e);
    if (rc < 0)
        return rc;
    d->on_host[d->count] = on_host;
    d->memory[d->count++] = *out;
    return 0;
}

static int cuda_copy(struct local_device *d, const struct local_device_copy *c, struct err *e)
{
    static const struct {
        int kind;
        const char *what;
    } copies[] = {{CUDA_LIBS_ON_DEVICE, "a copy on the device"},
                  {CUDA_LIBS_TO_DEVICE, "a copy to the device"},
                  {CUDA_LIBS_TO_HOST, "a copy from the device"}};
    int i = c->to_where == c->from_where ? 0 : c->to_where == LOCAL_DEVICE_OWN ? 1 : 2;
    const char *what = copies[i].what;
    int code = d->cuda->cudaMemcpyAsync(c->to, c->from, c->bytes, copies[i].kind, d->stream);
    int rc = check(d, code, what, e);
    return rc < 0 ? rc : wait_for(d, what, e);
}

/* ---- products ------------------------------------------------------------------------------- */

static int data_type(enum drover_type t, struct err *e)
{
    switch (t) {
    case DROVER_FLOAT:
        return CUDA_LIBS_FLOAT;
    case DROVER_HALF:
        return CUDA_LIBS_HALF;
    case DROVER_BFLOAT16:
        return CUDA_LIBS_BFLOAT16;
    default:
        err_set(e, -ENOTSUP, "products of %s are not measured", backend_type_name(t));
        return err_hint(e, "-d bfloat16, half or float");
    }
}

/* Chooses an algorithm for the product that b->operation, input and output describe. */
static int choose_algorithm(struct blas *b, struct err *e)
{
    const struct cuda_libs_blas *lib = b->lib;
    const size_t workspace_bytes = WORKSPACE_BYTES;
    void *preference = NULL;
    int found = 0;
    int code = lib->cublasLtMatmulPreferenceCreate(&preference);
    if (code == 0)
        code = lib->cublasLtMatmulPreferenceSetAttribute(preference, CUDA_LIBS_WORKSPACE_MAX,
                                                         &workspace_bytes, sizeof workspace_bytes);
    if (code == 0)
        code = lib->cublasLtMatmulAlgoGetHeuristic(b->handle, b->operation, b->input, b->input,
                                                   b->output, b->output, preference, 1,
                                                   &b->algorithm, &found);
    if (preference)
        lib->cublasLtMatmulPreferenceDestroy(preference);
    if (code == 0 && found < 1)
        return err_set(e, -EIO, "cuBLASLt has no algorithm for this product");
    return check_blas(b, code, "choosing an algorithm", e);
}

static int open_blas(struct local_device *d, const struct local_device_product *p, struct err *e)
{
    struct blas *b = &d->blas;
    uint64_t n = (uint64_t)p->n;
    int type = data_type(p->type, e);
    int rc = type < 0 ? type : cuda_libs_open_blas(&b->lib, e);
    if (rc < 0)
        return rc;
    int code = b->lib->cublasLtCreate(&b->handle);
    if (code == 0)
        code = b->lib->cublasLtMatmulDescCreate(&b->operation, CUDA_LIBS_COMPUTE_FLOAT,
                                                CUDA_LIBS_FLOAT);
    if (code == 0)
        code = b->lib->cublasLtMatrixLayoutCreate(&b->input, type, n, n, p->n);
    if (code == 0)
        code = b->lib->cublasLtMatrixLayoutCreate(&b->output, CUDA_LIBS_FLOAT, n, n, p->n);
    rc = check_blas(b, code, "preparing a product", e);
    if (rc == 0)
        rc = cuda_alloc(d, WORKSPACE_BYTES, LOCAL_DEVICE_OWN, &b->workspace, e);
    if (rc == 0)
        rc = choose_algorithm(b, e);
    b->n = p->n;
    b->type = p->type;
    return rc;
}

static int cuda_multiply(struct local_device *d, const struct local_device_product *p,
                         struct err *e)
{
    struct blas *b = &d->blas;
    const float one = 1, zero = 0;
    int rc = b->lib ? 0 : open_blas(d, p, e);
    if (rc == 0 && (b->n != p->n || b->type != p->type))
        rc = err_set(e, -ENOTSUP, "a device is opened for products of one size");
    if (rc == 0)
        rc = check_blas(b,
                        b->lib->cublasLtMatmul(b->handle, b->operation, &one, p->a, b->input, p->b,
                                               b->input, &zero, p->c, b->output, p->c, b->output,
                                               &b->algorithm, b->workspace, WORKSPACE_BYTES,
                                               d->stream),
                        "a product", e);
    return rc < 0 ? rc : wait_for(d, "a product", e);
}

const struct local_device_kind local_device_cuda = {
    .has_links = true,
    .product = DROVER_BFLOAT16,
    .count = cuda_count,
    .load_product = cuda_load_product,
    .open = cuda_open,
    .close = cuda_close,
    .describe = cuda_describe,
    .alloc = cuda_alloc,
    .copy = cuda_copy,
    .multiply = cuda_multiply,
};
