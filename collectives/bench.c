#include "collectives/bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "collectives/busbw.h"
#include "collectives/verify.h"
#include "common/mem.h"
#include "launcher/client/client_err.h"

enum { GUARD_BYTES = 64, POISON = 0xa5 };

struct bench {
    const struct bench_opts *o;
    struct drover *d;
    struct drover_comm *comm;
    const struct backend *backend; /* comm's table and object */
    struct backend_comm *inner;
    struct err *e;
    int rank, size;
    char *in, *out;    /* where the backend's collectives reach them; with a guard */
    char *table, *got; /* the host's: one period of elements each */
    double *seconds;   /* one for each rank */
    struct report_foot foot;
    double busbw_sum;
    size_t halves;
    uint64_t seed;
};

/* One row of the table, out of place or in place. */
struct run {
    struct busbw_shape shape;
    struct verify v;
    bool in_place;
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
    void *in = NULL, *out = NULL;
    int rc = b->backend->mem_alloc(b->inner, bytes, &in, b->e);
    if (rc == 0)
        rc = b->backend->mem_alloc(b->inner, bytes * (size_t)b->size, &out, b->e);
    if (rc == 0)
        rc = b->backend->copy_in(b->inner, in, mine, bytes, b->e);
    if (rc == 0 && (rc = drover_all_gather(b->comm, in, out, bytes, DROVER_UINT8)) < 0)
        rc = comm_failed(b, rc);
    if (rc == 0)
        rc = wait_all(b);
    if (rc == 0)
        rc = b->backend->copy_out(b->inner, all, out, bytes * (size_t)b->size, b->e);
    if (in)
        b->backend->mem_free(b->inner, in);
    if (out)
        b->backend->mem_free(b->inner, out);
    return rc;
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
static int start(struct bench *b, const struct run *r, size_t shift)
{
    size_t rank = (size_t)b->rank;
    char *out = b->out + shift;
    const char *in = b->in + shift;
    if (r->in_place) {
        in = out + rank * r->shape.in_stride;
        out += rank * r->shape.out_stride;
    }
    struct backend_call call = {r->v.coll, in, out, r->shape.count, r->v.type, r->v.op, r->v.root};
    int rc = comm_start(b->comm, &call);
    return rc < 0 ? comm_failed(b, rc) : 0;
}

/* Gives `bytes` of the backend's memory the contents of `period`, again and again. */
static int fill(struct bench *b, char *to, const char *period, size_t period_bytes, size_t bytes)
{
    int rc = 0;
    for (size_t at = 0; at < bytes && rc == 0; at += period_bytes) {
        size_t part = bytes - at < period_bytes ? bytes - at : period_bytes;
        rc = b->backend->copy_in(b->inner, to + at, period, part, b->e);
    }
    return rc;
}

/* Makes the input, and an output that no collective would make. */
static int prepare(struct bench *b, struct run *r)
{
    size_t element = backend_type_bytes(r->v.type);
    size_t period = VERIFY_PERIOD * element, n = r->shape.in_bytes / element;
    r->v.seed = ++b->seed;
    memset(b->table, POISON, period);
    int rc = fill(b, b->out, b->table, period,
                  (r->in_place ? r->shape.bytes : r->shape.out_bytes) + GUARD_BYTES);
    if (rc < 0)
        return rc;
    verify_input(&r->v, b->rank, b->table, n < VERIFY_PERIOD ? n : VERIFY_PERIOD);
    char *in = r->in_place ? b->out + (size_t)b->rank * r->shape.in_stride : b->in;
    return fill(b, in, b->table, period, r->shape.in_bytes);
}

/* For tests: what a broken link would do to one element. */
static int spoil(struct bench *b, const struct run *r, char *out)
{
    size_t element = backend_type_bytes(r->v.type), at = (size_t)b->o->inject_element * element;
    if (b->o->inject_rank != b->rank || at >= r->shape.out_bytes)
        return 0;
    char bytes[8];
    int rc = b->backend->copy_out(b->inner, bytes, out + at, element, b->e);
    bytes[element - 1] ^= 0x40;
    return rc < 0 ? rc : b->backend->copy_in(b->inner, out + at, bytes, element, b->e);
}

static int count_block(struct bench *b, const struct run *r, const char *out, int block,
                       uint64_t *wrong)
{
    size_t element = backend_type_bytes(r->v.type);
    size_t n = r->shape.out_bytes / element / (size_t)verify_blocks(&r->v);
    size_t period = n < VERIFY_PERIOD ? n : VERIFY_PERIOD;
    verify_expected(&r->v, b->rank, block, r->shape.count, b->table, period);
    const char *from = out + (size_t)block * n * element;
    for (size_t at = 0; at < n; at += period) {
        size_t part = n - at < period ? n - at : period;
        int rc = b->backend->copy_out(b->inner, b->got, from + at * element, part * element, b->e);
        if (rc < 0)
            return rc;
        *wrong += verify_wrong(&r->v, b->got, b->table, part);
    }
    return 0;
}

/* How many elements of this rank's output are wrong, and bytes behind it that were written. */
static int count_wrong(struct bench *b, const struct run *r, uint64_t *wrong)
{
    if (r->v.coll == BACKEND_REDUCE && b->rank != r->v.root)
        return 0;
    char *out = b->out + (r->in_place ? (size_t)b->rank * r->shape.out_stride : 0);
    int rc = spoil(b, r, out);
    for (int block = 0; block < verify_blocks(&r->v) && rc == 0; block++)
        rc = count_block(b, r, out, block, wrong);
    char guard[GUARD_BYTES];
    const char *end = b->out + (r->in_place ? r->shape.bytes : r->shape.out_bytes);
    if (rc == 0)
        rc = b->backend->copy_out(b->inner, guard, end, sizeof guard, b->e);
    for (int i = 0; i < GUARD_BYTES && rc == 0; i++)
        *wrong += (unsigned char)guard[i] != POISON;
    return rc;
}

static int check(struct bench *b, struct run *r, struct report_half *half)
{
    AUTO(free) uint64_t *all = xcalloc((size_t)b->size, sizeof *all);
    half->checked = b->o->checks > 0;
    for (int c = 0; c < b->o->checks && half->wrong == 0; c++) {
        uint64_t mine = 0;
        int rc = prepare(b, r);
        if (rc == 0)
            rc = start(b, r, 0);
        if (rc == 0)
            rc = wait_all(b);
        if (rc == 0)
            rc = count_wrong(b, r, &mine);
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
static int time_iterations(struct bench *b, const struct run *r, int iters, double *seconds)
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

static int measure(struct bench *b, struct run *r, struct report_half *half)
{
    *half = (struct report_half){0};
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

static struct run make_run(const struct bench *b, const struct verify *v, uint64_t bytes)
{
    struct run r = {.v = *v};
    r.shape = busbw_shape(v->coll, bytes, backend_type_bytes(v->type), b->size);
    return r;
}

static int warm_up(struct bench *b, const struct verify *v)
{
    int rc = 0;
    for (uint64_t bytes = b->o->min_bytes; bytes && bytes <= b->o->max_bytes && rc == 0;
         bytes *= 2) {
        struct run r = make_run(b, v, bytes);
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
        struct run r = make_run(b, v, bytes);
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
    int rc = 0;
    for (int t = 0; t < DROVER_TYPES && rc == 0; t++)
        for (int op = 0; op < DROVER_OPS && rc == 0; op++) {
            bool wanted = busbw_has_op(b->o->coll) ? b->o->ops >> op & 1 : op == 0;
            struct verify v = {.coll = b->o->coll, .ranks = b->size};
            v.type = (enum drover_type)t;
            v.op = (enum drover_op)op;
            if (wanted && b->o->types >> t & 1)
                rc = walk_roots(b, &v, sink);
        }
    return rc;
}

static int allocate(struct bench *b)
{
    size_t bytes = b->o->max_bytes + GUARD_BYTES;
    void *in = NULL, *out = NULL;
    int rc = b->backend->mem_alloc(b->inner, bytes, &in, b->e);
    b->in = in;
    if (rc == 0)
        rc = b->backend->mem_alloc(b->inner, bytes, &out, b->e);
    b->out = out;
    size_t period = VERIFY_PERIOD * sizeof(double);
    b->table = xzalloc(period);
    b->got = xzalloc(period);
    b->seconds = xcalloc((size_t)b->size, sizeof *b->seconds);
    for (int i = 0; i < 2 && rc == 0; i++) /* no page is touched for the first time when timed */
        rc = fill(b, i ? b->out : b->in, b->table, period, bytes);
    return rc;
}

static void release(struct bench *b)
{
    if (b->in)
        b->backend->mem_free(b->inner, b->in);
    if (b->out)
        b->backend->mem_free(b->inner, b->out);
    free(b->table);
    free(b->got);
    free(b->seconds);
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
    int rc = allocate(&b);
    if (rc == 0)
        rc = walk_all(&b, sink);
    if (rc == 0) {
        *foot = b.foot;
        foot->coll = backend_coll_name(o->coll);
        foot->avg_busbw = b.halves ? b.busbw_sum / (double)b.halves : 0;
    }
    release(&b);
    return rc;
}
