#include "collectives/bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "collectives/buffers.h"
#include "common/mem.h"
#include "launcher/client/client_inside.h"

struct bench {
    const struct bench_opts *o;
    struct drover *d;
    struct drover_comm *comm;
    const struct backend *backend; /* comm's table and object */
    struct backend_comm *inner;
    struct err *e;
    int rank, size;
    struct buffers *buffers;
    double *seconds; /* one for each rank */
    struct report_foot foot;
    double busbw_sum;
    size_t halves;
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

uint64_t bench_next_size(const struct bench_opts *o, uint64_t bytes)
{
    uint64_t next = 0;
    bool over = o->factor > 1 ? __builtin_mul_overflow(bytes, (uint64_t)o->factor, &next)
                              : __builtin_add_overflow(bytes, o->step_bytes, &next);
    return over || next > o->max_bytes || next <= bytes ? 0 : next;
}

/* drover_wait()'s and comm_start()'s errors are the drover's. */
static int comm_failed(struct bench *b, int rc)
{
    *b->e = *client_err(b->d);
    return rc;
}

static int wait_all(struct bench *b)
{
    int rc = drover_wait(b->comm, b->o->wait_ms);
    return rc < 0 ? comm_failed(b, rc) : 0;
}

/* Every rank's `bytes` of host memory, in the order of ranks. */
static int gather(struct bench *b, const void *mine, size_t bytes, void *all)
{
    int rc = comm_gather(b->comm, mine, bytes, all, b->o->wait_ms);
    return rc < 0 ? comm_failed(b, rc) : 0;
}

/* The processor's name, for ranks that compute on it. */
static void cpu_name(char *out, size_t len)
{
    snprintf(out, len, "CPU");
    AUTO(file) FILE *f = fopen("/proc/cpuinfo", "re");
    char line[256];
    while (f && fgets(line, sizeof line, f)) {
        char *value = strstr(line, ": ");
        if (strncmp(line, "model name", 10) != 0 || !value)
            continue;
        value[strcspn(value, "\n")] = '\0';
        snprintf(out, len, "%s", value + 2);
        return;
    }
}

int bench_devices(struct drover *d, struct drover_comm *c, struct report_device *devices,
                  struct err *e)
{
    static const struct bench_opts usual = {.wait_ms = 60000};
    struct bench b = {.o = &usual, .d = d, .comm = c, .backend = comm_backend(c), .e = e};
    b.inner = comm_inner(c);
    b.size = drover_size(d);
    struct report_device mine;
    memset(&mine, 0, sizeof mine);
    mine.rank = drover_rank(d);
    mine.pid = (int)getpid();
    mine.index = drover_local_rank(d);
    (void)gethostname(mine.host, sizeof mine.host - 1); /* an unknown one stays empty */
    mine.host[strcspn(mine.host, ".")] = '\0';
    struct backend_device gpu;
    if (b.backend->device) {
        b.backend->device(b.inner, &gpu);
        mine.index = gpu.index;
        mine.pci_domain = gpu.pci_domain;
        mine.pci_bus = gpu.pci_bus;
        mine.pci_device = gpu.pci_device;
        snprintf(mine.name, sizeof mine.name, "%s", gpu.name);
    } else {
        cpu_name(mine.name, sizeof mine.name);
    }
    return gather(&b, &mine, sizeof mine, devices);
}

/* Starts the collective, `shift` bytes into the buffers. */
static int start(struct bench *b, const struct buffers_run *r, size_t shift)
{
    struct backend_call call = buffers_call(b->buffers, r, shift);
    int rc = comm_start(b->comm, &call);
    return rc < 0 ? comm_failed(b, rc) : 0;
}

static int check(struct bench *b, struct buffers_run *r, struct report_half *half)
{
    AUTO(free) uint64_t *all = xcalloc((size_t)b->size, sizeof *all);
    half->checked = b->o->checks > 0;
    for (int c = 0; c < b->o->checks && half->wrong == 0; c++) {
        uint64_t mine = 0;
        int rc = buffers_prepare(b->buffers, r, b->e);
        if (rc == 0)
            rc = start(b, r, 0);
        if (rc == 0)
            rc = wait_all(b);
        if (rc == 0 && b->o->inject_rank == b->rank)
            rc = buffers_spoil(b->buffers, r, (size_t)b->o->inject_element, b->e);
        if (rc == 0)
            rc = buffers_wrong(b->buffers, r, &mine, b->e);
        if (rc == 0)
            rc = gather(b, &mine, sizeof mine, all);
        if (rc < 0)
            return rc;
        for (int i = 0; i < b->size; i++) {
            half->wrong += all[i];
            b->foot.bad += all[i] > 0;
        }
    }
    return 0;
}

static int barrier(struct bench *b)
{
    int rc = drover_barrier(b->comm, b->o->wait_ms);
    return rc < 0 ? comm_failed(b, rc) : 0;
}

/* Seconds per iteration on this rank. Each iteration works on another part of the buffers, so that
 * caches do not help small sizes. */
static int time_iterations(struct bench *b, const struct buffers_run *r, int iters, double *seconds)
{
    size_t places = r->shape.bytes ? b->o->max_bytes / r->shape.bytes : 1;
    double begin = now_s();
    int rc = 0;
    for (int i = 0; i < iters && rc == 0; i++) {
        rc = start(b, r, places ? r->shape.bytes * ((size_t)i % places) : 0);
        if (rc == 0 && b->o->blocking)
            rc = wait_all(b);
        if (rc == 0 && b->o->blocking == 1)
            rc = barrier(b);
    }
    if (rc == 0)
        rc = wait_all(b);
    *seconds = iters ? (now_s() - begin) / iters : 0;
    return rc;
}

static int measure(struct bench *b, struct buffers_run *r, struct report_half *half)
{
    *half = (struct report_half){0};
    if (r->in_place && !busbw_has_in_place(r->v.coll))
        return 0;
    if (r->in_place && r->v.coll == BACKEND_ALL_TO_ALL && b->size > 1 &&
        (b->backend->caps(b->inner) & BACKEND_NO_INPLACE_A2A))
        return 0;
    half->ran = true;
    double mine = 0, once = 0;
    int rc = check(b, r, half);
    if (rc == 0)
        rc = time_iterations(b, r, 1, &once); /* the first one of a size may set things up */
    if (rc == 0)
        rc = barrier(b);
    if (rc == 0)
        rc = time_iterations(b, r, b->o->iters, &mine);
    if (rc == 0)
        rc = gather(b, &mine, sizeof mine, b->seconds);
    if (rc < 0)
        return rc;
    half->seconds = stats_pick(b->seconds, (size_t)b->size, b->o->pick);
    half->rank_min_seconds = stats_pick(b->seconds, (size_t)b->size, STATS_MIN);
    half->rank_max_seconds = stats_pick(b->seconds, (size_t)b->size, STATS_MAX);
    half->algbw = busbw_rate(r->shape.bytes, half->seconds);
    half->busbw = half->algbw * busbw_factor(r->v.coll, b->size);
    b->busbw_sum += half->busbw;
    b->halves++;
    return 0;
}

static struct buffers_run make_run(const struct bench *b, const struct verify *v, uint64_t bytes)
{
    struct buffers_run r = {.v = *v};
    r.shape = busbw_shape(v->coll, bytes, backend_type_bytes(v->type), b->size);
    return r;
}

static int warm_up(struct bench *b, const struct verify *v)
{
    int rc = 0;
    for (uint64_t bytes = b->o->min_bytes; bytes && bytes <= b->o->max_bytes && rc == 0;
         bytes *= 2) {
        struct buffers_run r = make_run(b, v, bytes);
        double seconds = 0;
        rc = time_iterations(b, &r, b->o->warmups, &seconds);
    }
    return rc;
}

/* The whole table for one type, operation and root. */
static int walk(struct bench *b, const struct verify *v, const struct bench_sink *sink)
{
    int rc = warm_up(b, v);
    for (uint64_t bytes = b->o->min_bytes; bytes && rc == 0; bytes = bench_next_size(b->o, bytes)) {
        struct buffers_run r = make_run(b, v, bytes);
        struct report_row row = {
            .bytes = r.shape.bytes,
            .count = r.shape.count,
            .type = backend_type_name(v->type),
            .op = busbw_has_op(v->coll) ? backend_op_name(v->op) : "none",
            .root = busbw_has_root(v->coll) ? v->root : -1,
        };
        for (int half = 0; half < 2 && rc == 0; half++) {
            r.in_place = half == 1;
            rc = measure(b, &r, &row.half[half]);
        }
        if (rc == 0 && b->rank == 0)
            sink->row(sink->arg, &row);
    }
    return rc;
}

static int walk_roots(struct bench *b, struct verify *v, const struct bench_sink *sink)
{
    bool all = busbw_has_root(v->coll) && b->o->root == BENCH_ROOT_ALL;
    int first = all ? 0 : busbw_has_root(v->coll) ? b->o->root : 0, rc = 0;
    for (v->root = first; v->root <= (all ? b->size - 1 : first) && rc == 0; v->root++)
        rc = walk(b, v, sink);
    return rc;
}

static int walk_all(struct bench *b, const struct bench_sink *sink)
{
    unsigned fp8 = 1U << DROVER_F8E4M3 | 1U << DROVER_F8E5M2, types = b->o->types;
    if (!(b->backend->caps(b->inner) & BACKEND_FP8) && types & ~fp8)
        types &= ~fp8; /* "all" are those that there are */
    int rc = 0;
    for (int t = 0; t < DROVER_TYPES && rc == 0; t++)
        for (int op = 0; op < DROVER_OPS && rc == 0; op++) {
            bool wanted = busbw_has_op(b->o->coll) ? b->o->ops >> op & 1 : op == 0;
            struct verify v = {.coll = b->o->coll, .ranks = b->size};
            v.type = (enum drover_type)t;
            v.op = (enum drover_op)op;
            if (wanted && types >> t & 1)
                rc = walk_roots(b, &v, sink);
        }
    return rc;
}

int bench_run(const struct bench_opts *o, struct drover *d, struct drover_comm *c,
              const struct bench_sink *sink, struct report_foot *foot, struct err *e)
{
    struct bench b = {
        .o = o,
        .d = d,
        .comm = c,
        .backend = comm_backend(c),
        .inner = comm_inner(c),
        .e = e,
        .rank = drover_rank(d),
        .size = drover_size(d),
    };
    int rc = buffers_open(&b.buffers, b.backend, b.inner, b.rank, o->max_bytes, e);
    if (rc < 0)
        return rc;
    AUTO(free) double *seconds = xcalloc((size_t)b.size, sizeof *seconds);
    b.seconds = seconds;
    rc = walk_all(&b, sink);
    if (rc < 0)
        return rc; /* the buffers stay: a collective that was given up may still write to them */
    buffers_close(b.buffers);
    *foot = b.foot;
    foot->coll = backend_coll_name(o->coll);
    foot->avg_busbw = b.halves ? b.busbw_sum / (double)b.halves : 0;
    return 0;
}
