#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/bench/local/local_device.h"
#include "common/dl.h"
#include "common/file.h"
#include "common/mem.h"

enum { ALIGNMENT = 64, ALLOCATIONS_MAX = 8, COLUMN_MAJOR = 102, NO_TRANSPOSE = 111, BLOCK = 64 };

/* cblas_sgemm() of OpenBLAS, whose enums are these numbers. */
typedef void sgemm_fn(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                      const float *a, int lda, const float *b, int ldb, float beta, float *c,
                      int ldc);

struct local_device {
    sgemm_fn *sgemm; /* NULL: there is no BLAS on this machine */
    void *memory[ALLOCATIONS_MAX];
    int count;
};

static int cpu_count(int *out, struct err *e)
{
    *out = 1;
    return 0;
}

static int cpu_open(struct local_device **out, int index, int64_t wait_ms, struct err *e)
{
    static const struct dl_symbol symbols[] = {
        {"cblas_sgemm", offsetof(struct local_device, sgemm), DL_REQUIRED}};
    static const struct dl_library library = {
        .names = {"libopenblas.so.0", "libblas.so.3", "libcblas.so.3"}, DL_SYMBOLS(symbols)};
    struct local_device *d = xzalloc(sizeof *d);
    (void)dl_load(d, NULL, &library, NULL); /* without it, drover's own loops multiply */
    *out = d;
    return 0;
}

static void cpu_close(struct local_device *d)
{
    for (int i = 0; d && i < d->count; i++)
        free(d->memory[i]);
    free(d);
}

void local_device_cpu_name(char *out, size_t len)
{
    AUTO(free) char *model = file_field("/proc/cpuinfo", "model name");
    const char *name = model ? strstr(model, ": ") : NULL;
    snprintf(out, len, "%s", name ? name + 2 : "CPU");
}

static void cpu_describe(const struct local_device *d, struct local_device_facts *out)
{
    *out = (struct local_device_facts){0};
    local_device_cpu_name(out->name, sizeof out->name);
}

static int cpu_alloc(struct local_device *d, size_t bytes, enum local_device_memory where,
                     void **out, struct err *e)
{
    size_t whole = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    void *p = d->count < ALLOCATIONS_MAX ? aligned_alloc(ALIGNMENT, whole) : NULL;
    if (!p)
        return err_set(e, -ENOMEM, "%zu bytes do not fit into memory", bytes);
    memset(p, 0, whole); /* the kernel maps the pages now, and not while they are measured */
    d->memory[d->count++] = p;
    *out = p;
    return 0;
}

static int cpu_copy(struct local_device *d, const struct local_device_copy *c, struct err *e)
{
    memcpy(c->to, c->from, c->bytes);
    __asm__ volatile("" : : "r"(c->to) : "memory"); /* keeps the copy from being optimised away */
    return 0;
}

/* The product without BLAS, in blocks of columns that stay in the cache. */
static void multiply_plainly(const struct local_device_product *p)
{
    const float *a = p->a, *b = p->b;
    size_t n = (size_t)p->n;
    memset(p->c, 0, n * n * sizeof *p->c);
    for (size_t begin = 0; begin < n; begin += BLOCK)
        for (size_t j = 0; j < n; j++)
            for (size_t k = begin; k < begin + BLOCK && k < n; k++)
                for (size_t i = 0; i < n; i++)
                    p->c[j * n + i] += a[k * n + i] * b[j * n + k];
}

static int cpu_multiply(struct local_device *d, const struct local_device_product *p, struct err *e)
{
    if (p->type != DROVER_FLOAT) {
        err_set(e, -ENOTSUP, "a CPU multiplies float, not %s", backend_type_name(p->type));
        return err_hint(e, "-d float");
    }
    if (d->sgemm)
        d->sgemm(COLUMN_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, p->n, p->n, p->n, 1, p->a, p->n, p->b,
                 p->n, 0, p->c, p->n);
    else
        multiply_plainly(p);
    return 0;
}

const struct local_device_kind local_device_cpu = {
    .product = DROVER_FLOAT,
    .count = cpu_count,
    .open = cpu_open,
    .close = cpu_close,
    .describe = cpu_describe,
    .alloc = cpu_alloc,
    .copy = cpu_copy,
    .multiply = cpu_multiply,
};
