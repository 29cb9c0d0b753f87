#include "collectives/bench/local/bench_local.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/bench/analysis/stats.h"
#include "collectives/bench/local/gemm_check.h"
#include "collectives/comm/float16.h"
#include "common/clock.h"
#include "common/mem.h"

/* Default sizes: a GPU needs some 8,000 rows for its full rate, and a copy over PCIe some 100 MB. A
 * CPU's copy exceeds its caches. */
enum {
    GPU_MATRIX = 128 << 20,
    GPU_COPY = 256 << 20,
    CPU_MATRIX = 1 << 20,
    CPU_COPY = 64 << 20,
    MEMORY_PART = 64, /* … unless that is more than this part of the device's free memory */
    N_MULTIPLE = 16,  /* rows of a matrix: cuBLASLt's fast kernels need aligned columns */
    N_MAX = 1 << 16
};

static const char *const names[BENCH_LOCAL_WHATS] = {
    [BENCH_LOCAL_GEMM] = "gemm", [BENCH_LOCAL_COPY] = "copy"};

const char *bench_local_name(enum bench_local_what w)
{
    return names[w];
}

enum bench_local_what bench_local_find(const char *name)
{
    for (int w = BENCH_LOCAL_NONE + 1; w < BENCH_LOCAL_WHATS; w++)
        if (strcmp(name, names[w]) == 0)
            return (enum bench_local_what)w;
    return BENCH_LOCAL_NONE;
}

/* Returns the size of a matrix or copy: that of the options, or one for the full rate. */
static uint64_t size_of(const struct bench_local_row *row, const struct bench_local_opts *o,
                        uint64_t on_gpu, uint64_t on_cpu)
{
    uint64_t usual = o->kind->has_links ? on_gpu : on_cpu;
    uint64_t part = row->device.free_bytes / MEMORY_PART;
    return o->bytes ? o->bytes : part && part < usual ? part : usual;
}

/* ---- timing ---------------------------------------------------------------------------------- */

/* One operation of a device, which is complete on return. */
typedef int operation_fn(struct local_device *d, void *arg, struct err *e);

/* Sets *median to the median time of an operation in seconds, and *spread to the times' spread as a
 * share of it. */
static int time_operation(const struct bench_local_opts *o, struct local_device *d,
                          operation_fn *run, void *arg, double *median, double *spread,
                          struct err *e)
{
    AUTO(free) double *times = xcalloc((size_t)o->iters, sizeof *times);
    int rc = 0;
    for (int i = 0; i < o->warmups && rc == 0; i++)
        rc = run(d, arg, e);
    for (int i = 0; i < o->iters && rc == 0; i++) {
        double begin = clock_s();
        rc = run(d, arg, e);
        times[i] = fmax(clock_s() - begin, 1e-9);
    }
    if (rc < 0)
        return rc;
    *median = stats_median(times, (size_t)o->iters);
    *spread = stats_spread(times, (size_t)o->iters, *median) / *median;
    return 0;
}

/* ---- products -------------------------------------------------------------------------------- */

struct product {
    const struct local_device_kind *kind;
    struct local_device_product p;
};

static int run_product(struct local_device *d, void *arg, struct err *e)
{
    const struct product *m = arg;
    return m->kind->multiply(d, &m->p, e);
}

/* Writes small integers, which every type represents, as elements of the type. */
static void encode(void *out, enum drover_type t, const signed char *from, size_t count)
{
    uint16_t *small = out;
    float *single = out;
    for (size_t i = 0; i < count; i++)
        if (t == DROVER_FLOAT)
            single[i] = from[i];
        else
            small[i] = t == DROVER_HALF ? half_from_float(from[i]) : bfloat16_from_float(from[i]);
}

static int put_matrix(struct product *m, struct local_device *d, const void **out,
                      const signed char *from, void *scratch, struct err *e)
{
    size_t count = (size_t)m->p.n * (size_t)m->p.n;
    size_t bytes = count * backend_type_bytes(m->p.type);
    void *p = NULL;
    int rc = m->kind->alloc(d, bytes, LOCAL_DEVICE_OWN, &p, e);
    if (rc < 0)
        return rc;
    encode(scratch, m->p.type, from, count);
    *out = p;
    return m->kind->copy(d, p, LOCAL_DEVICE_OWN, scratch, LOCAL_DEVICE_HOST, bytes, e);
}

/* Multiplies again and again: the first result is checked, and each further one must have the same
 * bits. Counts what is wrong in *wrong. */
static int check_products(struct product *m, struct local_device *d, const struct gemm_check *g,
                          const struct bench_local_opts *o, uint64_t *wrong, struct err *e)
{
    size_t count = (size_t)m->p.n * (size_t)m->p.n, bytes = count * sizeof(float);
    void *memory[2] = {NULL, NULL};
    int rc = 0;
    for (int i = 0; i < 2 && rc == 0; i++)
        rc = m->kind->alloc(d, bytes, LOCAL_DEVICE_HOST, &memory[i], e);
    float *first = memory[0], *now = memory[1];
    for (int i = 0; i < o->checks && rc == 0; i++) {
        float *to = i == 0 ? first : now;
        if (i == 0) /* not a number: a product that writes nothing is noticed */
            memset(to, 0xff, bytes);
        if (i == 0)
            rc = m->kind->copy(d, m->p.c, LOCAL_DEVICE_OWN, to, LOCAL_DEVICE_HOST, bytes, e);
        rc = rc < 0 ? rc : m->kind->multiply(d, &m->p, e);
        rc = rc < 0 ? rc
                    : m->kind->copy(d, to, LOCAL_DEVICE_HOST, m->p.c, LOCAL_DEVICE_OWN, bytes, e);
        if (rc == 0 && i == o->checks - 1 && o->inject_at >= 0 && (size_t)o->inject_at < count)
            to[o->inject_at] += 1;
        if (rc == 0 && i == 0)
            *wrong += gemm_check_wrong_rows(g, first);
        else if (rc == 0 && memcmp(first, now, bytes) != 0)
            for (size_t k = 0; k < count; k++)
                *wrong += memcmp(&first[k], &now[k], sizeof *now) != 0;
    }
    return rc;
}

static int run_gemm(struct bench_local_row *row, const struct bench_local_opts *o,
                    struct local_device *d, struct err *e)
{
    struct product m = {.kind = o->kind};
    m.p.type = o->type == DROVER_TYPES ? o->kind->product : o->type;
    size_t element = backend_type_bytes(m.p.type);
    uint64_t bytes = size_of(row, o, GPU_MATRIX, CPU_MATRIX);
    double n = floor(sqrt((double)bytes / (double)element) / N_MULTIPLE) * N_MULTIPLE;
    m.p.n = (int)fmin(fmax(n, N_MULTIPLE), N_MAX);
    size_t count = (size_t)m.p.n * (size_t)m.p.n;

    AUTO(gemm_check) struct gemm_check *g = gemm_check_new(m.p.n);
    void *scratch = NULL, *c = NULL;
    if (!g)
        return err_set(e, -ENOMEM, "matrices of %d rows do not fit into memory", m.p.n);
    int rc = o->kind->alloc(d, count * element, LOCAL_DEVICE_HOST, &scratch, e);
    if (rc == 0)
        rc = put_matrix(&m, d, &m.p.a, gemm_check_a(g), scratch, e);
    if (rc == 0)
        rc = put_matrix(&m, d, &m.p.b, gemm_check_b(g), scratch, e);
    if (rc == 0)
        rc = o->kind->alloc(d, count * sizeof(float), LOCAL_DEVICE_OWN, &c, e);
    m.p.c = c;
    if (rc == 0 && o->checks > 0)
        rc = check_products(&m, d, g, o, &row->wrong, e);
    if (rc == 0)
        rc = time_operation(o, d, run_product, &m, &row->seconds, &row->spread, e);
    if (rc < 0)
        return rc;
    row->bytes = count * element;
    row->n = m.p.n;
    row->type = m.p.type;
    row->tflops = 2 * pow(m.p.n, 3) / row->seconds / 1e12;
    return 0;
}

/* ---- copies ---------------------------------------------------------------------------------- */

struct copy {
    const struct local_device_kind *kind;
    void *to;
    const void *from;
    enum local_device_memory to_where, from_where;
    size_t bytes;
};

static int run_copy(struct local_device *d, void *arg, struct err *e)
{
    const struct copy *c = arg;
    return c->kind->copy(d, c->to, c->to_where, c->from, c->from_where, c->bytes, e);
}

/* Times a copy between two memories. Sets its rate in GB/s. */
static int time_copy(const struct bench_local_opts *o, struct local_device *d, struct copy c,
                     double *gbps, struct err *e)
{
    double seconds = 0, spread;
    int rc = time_operation(o, d, run_copy, &c, &seconds, &spread, e);
    if (rc == 0)
        *gbps = (double)c.bytes / seconds / 1e9;
    return rc;
}

/* Fills with numbers that differ from word to word, so that a copy to the wrong place is wrong. */
static void fill(uint64_t *p, size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof *p; i++)
        p[i] = i * UINT64_C(0x9e3779b97f4a7c15);
}

static uint64_t count_wrong(const unsigned char *got, const unsigned char *want, size_t bytes)
{
    uint64_t wrong = 0;
    if (memcmp(got, want, bytes) == 0)
        return 0;
    for (size_t i = 0; i < bytes; i++)
        wrong += got[i] != want[i];
    return wrong;
}

/* The same bytes go from the host to the device, within it, and back. */
static int check_copies(const struct bench_local_opts *o, struct local_device *d,
                        void *const *device, void *const *host, size_t bytes, uint64_t *wrong,
                        struct err *e)
{
    const enum local_device_memory own = LOCAL_DEVICE_OWN, far = LOCAL_DEVICE_HOST;
    int rc = 0;
    for (int i = 0; i < o->checks && rc == 0; i++) {
        memset(host[1], 0xff, bytes);
        rc = o->kind->copy(d, device[0], own, host[0], far, bytes, e);
        rc = rc < 0 ? rc : o->kind->copy(d, device[1], own, device[0], own, bytes, e);
        rc = rc < 0 ? rc : o->kind->copy(d, host[1], far, device[1], own, bytes, e);
        if (rc == 0 && i == o->checks - 1 && o->inject_at >= 0 && (size_t)o->inject_at < bytes)
            ((unsigned char *)host[1])[o->inject_at] ^= 1;
        if (rc == 0)
            *wrong += count_wrong(host[1], host[0], bytes);
    }
    return rc;
}

static int run_copies(struct bench_local_row *row, const struct bench_local_opts *o,
                      struct local_device *d, struct err *e)
{
    uint64_t size = size_of(row, o, GPU_COPY, CPU_COPY);
    size_t bytes = (size_t)(size + sizeof(uint64_t) - 1) / sizeof(uint64_t) * sizeof(uint64_t);
    void *device[2], *host[2];
    int rc = 0;
    for (int i = 0; i < 2 && rc == 0; i++) {
        rc = o->kind->alloc(d, bytes, LOCAL_DEVICE_OWN, &device[i], e);
        rc = rc < 0 ? rc : o->kind->alloc(d, bytes, LOCAL_DEVICE_HOST, &host[i], e);
    }
    if (rc < 0)
        return rc;
    fill(host[0], bytes);
    rc = check_copies(o, d, device, host, bytes, &row->wrong, e);
    struct copy to = {o->kind, device[0], host[0], LOCAL_DEVICE_OWN, LOCAL_DEVICE_HOST, bytes};
    struct copy from = {o->kind, host[1], device[0], LOCAL_DEVICE_HOST, LOCAL_DEVICE_OWN, bytes};
    struct copy within = {o->kind, device[1], device[0], LOCAL_DEVICE_OWN, LOCAL_DEVICE_OWN, bytes};
    if (rc == 0 && o->kind->has_links)
        rc = time_copy(o, d, to, &row->to_gbps, e);
    if (rc == 0 && o->kind->has_links)
        rc = time_copy(o, d, from, &row->from_gbps, e);
    if (rc == 0 && row->device.has_pci)
        pcie_link_read(&row->link, "/sys", row->device.pci_domain, row->device.pci_bus,
                       row->device.pci_device);
    if (rc == 0)
        rc = time_copy(o, d, within, &row->within_gbps, e);
    row->bytes = bytes;
    return rc;
}

int bench_local_run(struct bench_local_row *row, const struct bench_local_opts *o, int index,
                    struct err *e)
{
    struct local_device *d = NULL;
    row->index = index;
    int rc = o->kind->open(&d, index, o->wait_ms, e);
    if (rc == 0) {
        o->kind->describe(d, &row->device);
        rc = (o->what == BENCH_LOCAL_GEMM ? run_gemm : run_copies)(row, o, d, e);
        o->kind->close(d);
    }
    return rc < 0 && o->kind->has_links ? err_wrap(e, "GPU %d", index) : rc;
}
