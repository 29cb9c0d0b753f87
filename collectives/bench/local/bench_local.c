#include "collectives/bench/local/bench_local.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/bench/analysis/stats.h"
#include "collectives/bench/local/gemm_check.h"
#include "collectives/comm/premul.h"
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

/* ---- timing --------------------------------------------------------------------------------- */

/* An operation of a device, which is complete on return, and the times that it takes. */
struct operation {
    const struct local_device_product *product; /* NULL: the copy */
    const struct local_device_copy *copy;
    double median, spread; /* seconds; the spread as a share of the median */
};

static int run_operation(const struct operation *p, const struct bench_local_opts *o,
                         struct local_device *d, struct err *e)
{
    return p->product ? o->kind->multiply(d, p->product, e) : o->kind->copy(d, p->copy, e);
}

static int time_operation(struct operation *p, const struct bench_local_opts *o,
                          struct local_device *d, struct err *e)
{
    AUTO(free) double *times = xcalloc((size_t)o->iters, sizeof *times);
    int rc = 0;
    for (int i = 0; i < o->warmups && rc == 0; i++)
        rc = run_operation(p, o, d, e);
    for (int i = 0; i < o->iters && rc == 0; i++) {
        double begin = clock_s();
        rc = run_operation(p, o, d, e);
        times[i] = fmax(clock_s() - begin, 1e-9);
    }
    if (rc < 0)
        return rc;
    p->median = stats_median(times, (size_t)o->iters);
    p->spread = stats_spread(times, (size_t)o->iters, p->median) / p->median;
    return 0;
}

/* Copies between the memory of a device and that of the host. */
static int copy_in(const struct local_device_kind *k, struct local_device *d, void *to,
                   const void *host, size_t bytes, struct err *e)
{
    const struct local_device_copy c = {to, host, LOCAL_DEVICE_OWN, LOCAL_DEVICE_HOST, bytes};
    return k->copy(d, &c, e);
}

static int copy_out(const struct local_device_kind *k, struct local_device *d, void *host,
                    const void *from, size_t bytes, struct err *e)
{
    const struct local_device_copy c = {host, from, LOCAL_DEVICE_HOST, LOCAL_DEVICE_OWN, bytes};
    return k->copy(d, &c, e);
}

/* ---- products ------------------------------------------------------------------------------- */

/* Writes small integers, which every type represents, as elements of the type. */
static void encode(void *out, enum drover_type t, const signed char *from, size_t count)
{
    size_t bytes = backend_type_bytes(t);
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = type_bits(t, from[i]);
        memcpy((char *)out + i * bytes, &bits, bytes);
    }
}

static int put_matrix(const struct local_device_kind *k, struct local_device *d,
                      const struct local_device_product *m, const void **out,
                      const signed char *from, void *scratch, struct err *e)
{
    size_t count = (size_t)m->n * (size_t)m->n;
    size_t bytes = count * backend_type_bytes(m->type);
    void *p = NULL;
    int rc = k->alloc(d, bytes, LOCAL_DEVICE_OWN, &p, e);
    if (rc < 0)
        return rc;
    encode(scratch, m->type, from, count);
    *out = p;
    return copy_in(k, d, p, scratch, bytes, e);
}

/* Multiplies again and again: the first result is checked, and each further one must have the same
 * bits. Counts what is wrong in *wrong. */
static int check_products(const struct local_device_product *m, struct local_device *d,
                          const struct gemm_check *g, const struct bench_local_opts *o,
                          uint64_t *wrong, struct err *e)
{
    size_t count = (size_t)m->n * (size_t)m->n, bytes = count * sizeof(float);
    void *memory[2] = {NULL, NULL};
    int rc = 0;
    for (int i = 0; i < 2 && rc == 0; i++)
        rc = o->kind->alloc(d, bytes, LOCAL_DEVICE_HOST, &memory[i], e);
    float *first = memory[0], *now = memory[1];
    for (int i = 0; i < o->checks && rc == 0; i++) {
        float *to = i == 0 ? first : now;
        if (i == 0) /* not a number: a product that writes nothing is noticed */
            memset(to, 0xff, bytes);
        if (i == 0)
            rc = copy_in(o->kind, d, m->c, to, bytes, e);
        rc = rc < 0 ? rc : o->kind->multiply(d, m, e);
        rc = rc < 0 ? rc : copy_out(o->kind, d, to, m->c, bytes, e);
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
    struct local_device_product m;
    m.type = o->type == DROVER_TYPES ? o->kind->product : o->type;
    size_t element = backend_type_bytes(m.type);
    uint64_t bytes = size_of(row, o, GPU_MATRIX, CPU_MATRIX);
    double n = floor(sqrt((double)bytes / (double)element) / N_MULTIPLE) * N_MULTIPLE;
    m.n = (int)fmin(fmax(n, N_MULTIPLE), N_MAX);
    size_t count = (size_t)m.n * (size_t)m.n;

    AUTO(gemm_check) struct gemm_check *g = gemm_check_new(m.n);
    void *scratch = NULL, *c = NULL;
    if (!g)
        return err_set(e, -ENOMEM, "matrices of %d rows do not fit into memory", m.n);
    int rc = o->kind->alloc(d, count * element, LOCAL_DEVICE_HOST, &scratch, e);
    if (rc == 0)
        rc = put_matrix(o->kind, d, &m, &m.a, g->a, scratch, e);
    if (rc == 0)
        rc = put_matrix(o->kind, d, &m, &m.b, g->b, scratch, e);
    if (rc == 0)
        rc = o->kind->alloc(d, count * sizeof(float), LOCAL_DEVICE_OWN, &c, e);
    m.c = c;
    if (rc == 0 && o->checks > 0)
        rc = check_products(&m, d, g, o, &row->wrong, e);
    struct operation p = {.product = &m};
    if (rc == 0)
        rc = time_operation(&p, o, d, e);
    if (rc < 0)
        return rc;
    row->bytes = count * element;
    row->n = m.n;
    row->type = m.type;
    row->seconds = p.median;
    row->spread = p.spread;
    row->tflops = 2 * pow(m.n, 3) / row->seconds / 1e12;
    return 0;
}

/* ---- copies --------------------------------------------------------------------------------- */

struct copies {
    void *device[2], *host[2];
    size_t bytes;
};

/* Times a copy. Sets its rate in GB/s. */
static int time_copy(double *gbps, const struct bench_local_opts *o, struct local_device *d,
                     struct local_device_copy c, struct err *e)
{
    struct operation p = {.copy = &c};
    int rc = time_operation(&p, o, d, e);
    if (rc == 0)
        *gbps = (double)c.bytes / p.median / 1e9;
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
static int check_copies(const struct copies *m, const struct bench_local_opts *o,
                        struct local_device *d, uint64_t *wrong, struct err *e)
{
    const struct local_device_copy within = {m->device[1], m->device[0], LOCAL_DEVICE_OWN,
                                             LOCAL_DEVICE_OWN, m->bytes};
    unsigned char *back = m->host[1];
    int rc = 0;
    for (int i = 0; i < o->checks && rc == 0; i++) {
        memset(back, 0xff, m->bytes);
        rc = copy_in(o->kind, d, m->device[0], m->host[0], m->bytes, e);
        rc = rc < 0 ? rc : o->kind->copy(d, &within, e);
        rc = rc < 0 ? rc : copy_out(o->kind, d, back, m->device[1], m->bytes, e);
        if (rc == 0 && i == o->checks - 1 && o->inject_at >= 0 && (size_t)o->inject_at < m->bytes)
            back[o->inject_at] ^= 1;
        if (rc == 0)
            *wrong += count_wrong(back, m->host[0], m->bytes);
    }
    return rc;
}

static int time_copies(struct bench_local_row *row, const struct copies *m,
                       const struct bench_local_opts *o, struct local_device *d, struct err *e)
{
    const enum local_device_memory own = LOCAL_DEVICE_OWN, far = LOCAL_DEVICE_HOST;
    const struct local_device_copy to = {m->device[0], m->host[0], own, far, m->bytes},
                                   from = {m->host[1], m->device[0], far, own, m->bytes},
                                   within = {m->device[1], m->device[0], own, own, m->bytes};
    int rc = 0;
    if (o->kind->has_links) {
        rc = time_copy(&row->to_gbps, o, d, to, e);
        rc = rc < 0 ? rc : time_copy(&row->from_gbps, o, d, from, e);
    }
    if (rc == 0 && row->device.has_pci) /* now, since an idle link may be slower */
        pcie_link_read(&row->link, "/sys", row->device.pci_domain, row->device.pci_bus,
                       row->device.pci_device);
    return rc < 0 ? rc : time_copy(&row->within_gbps, o, d, within, e);
}

static int run_copies(struct bench_local_row *row, const struct bench_local_opts *o,
                      struct local_device *d, struct err *e)
{
    struct copies m;
    uint64_t words = (size_of(row, o, GPU_COPY, CPU_COPY) + sizeof words - 1) / sizeof words;
    m.bytes = (size_t)words * sizeof words;
    for (int i = 0; i < 2; i++) {
        int rc = o->kind->alloc(d, m.bytes, LOCAL_DEVICE_OWN, &m.device[i], e);
        rc = rc < 0 ? rc : o->kind->alloc(d, m.bytes, LOCAL_DEVICE_HOST, &m.host[i], e);
        if (rc < 0)
            return rc;
    }
    fill(m.host[0], m.bytes);
    row->bytes = m.bytes;
    int rc = check_copies(&m, o, d, &row->wrong, e);
    return rc < 0 ? rc : time_copies(row, &m, o, d, e);
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
