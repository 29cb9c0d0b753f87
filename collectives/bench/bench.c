#include "collectives/bench/bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/bench/buffers.h"
#include "common/clock.h"
#include "common/mem.h"
#include "launcher/client/client_internal.h"

enum { SAMPLES_MAX = 1000000 };
#define OWN_BYTES (UINT64_C(2) << 30)

struct bench {
    const struct bench_opts *o;
    struct drover *d;
    struct drover_comm *world;     /* where all ranks meet, … */
    struct drover_comm *comm;      /* … and this one's group works: the same where there is one */
    const struct backend *backend; /* comm's table and object */
    struct backend_comm *inner;
    struct err *e;
    int rank, size; /* in comm */
    int all;        /* ranks in world */
    int *members;   /* numbers in world of comm's ranks */
    struct buffers *buffers;
    double *seconds;         /* one for each rank of world */
    double *samples[2];      /* of the halves of the row, … */
    double *rank_samples[2]; /* … and each rank's of them, where they are kept */
    struct bench_report_summary foot;
    double busbw_sum;
    size_t halves;
};

uint64_t bench_next_size(const struct bench_opts *o, uint64_t bytes)
{
    uint64_t next = 0;
    bool over = o->factor > 1 ? __builtin_mul_overflow(bytes, (uint64_t)o->factor, &next)
                              : __builtin_add_overflow(bytes, o->step_bytes, &next);
    return over || next > o->max_bytes || next <= bytes ? 0 : next;
}

const char *bench_name(const struct bench_opts *o)
{
    return o->hypercube ? "hypercube" : backend_coll_name(o->coll);
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
    int rc = comm_gather(b->world, mine, bytes, all, b->o->wait_ms);
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

int bench_devices(const struct bench_opts *o, struct drover *d, struct drover_comm *c,
                  struct bench_report_device *devices, struct err *e)
{
    struct bench b = {.o = o, .d = d, .world = c, .backend = comm_backend(c), .e = e};
    b.inner = comm_inner(c);
    struct bench_report_device mine;
    memset(&mine, 0, sizeof mine);
    mine.rank = drover_rank(d);
    mine.group = rank_groups_color(&o->split, mine.rank);
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
        mine.free_bytes = gpu.free_bytes;
        snprintf(mine.name, sizeof mine.name, "%s", gpu.name);
    } else {
        cpu_name(mine.name, sizeof mine.name);
    }
    return gather(&b, &mine, sizeof mine, devices);
}

/* Ranks on one GPU share what is left of it. An eighth, but at most 2 GiB, is for NCCL's own. */
uint64_t bench_room(const struct bench_opts *o, const struct bench_report_device *devices, int n)
{
    uint64_t room = UINT64_MAX, apart = 2 * BUFFERS_GUARD + (uint64_t)o->unalign * sizeof(double);
    for (int r = 0; r < n; r++) {
        const struct bench_report_device *d = &devices[r];
        uint64_t sharers = 0;
        for (int k = 0; k < n; k++)
            sharers += strcmp(devices[k].host, d->host) == 0 &&
                       devices[k].pci_domain == d->pci_domain && devices[k].pci_bus == d->pci_bus &&
                       devices[k].pci_device == d->pci_device;
        uint64_t own = d->free_bytes / 8 < OWN_BYTES ? d->free_bytes / 8 : OWN_BYTES;
        uint64_t here = (d->free_bytes - own) / 2 / sharers;
        here = here > apart ? here - apart : 1;
        room = d->free_bytes && here < room ? here : room;
    }
    return room;
}

/* nccl-tests' hypercube: in each round a rank exchanges what it has with another one, and then has
 * twice as much. */
static int start_hypercube(struct bench *b, const struct backend_call *k)
{
    size_t part = k->count * backend_type_bytes(k->type);
    char *out = k->out, *own = out + (size_t)b->rank * part;
    int rc = 0;
    if (k->in != own) { /* the first round's copy */
        rc = drover_group_start(b->comm);
        rc = rc < 0 ? rc : drover_send(b->comm, k->in, k->count, k->type, b->rank);
        rc = rc < 0 ? rc : drover_recv(b->comm, own, k->count, k->type, b->rank);
        rc = rc < 0 ? rc : drover_group_end(b->comm);
    }
    for (int mask = 1; mask < b->size && rc == 0; mask *= 2) {
        int have = b->rank & ~(mask - 1), peer = b->rank ^ mask;
        size_t n = k->count * (size_t)mask;
        rc = drover_group_start(b->comm);
        rc = rc < 0 ? rc : drover_send(b->comm, out + (size_t)have * part, n, k->type, peer);
        rc = rc < 0 ? rc
                    : drover_recv(b->comm, out + (size_t)(have ^ mask) * part, n, k->type, peer);
        rc = rc < 0 ? rc : drover_group_end(b->comm);
    }
    return rc;
}

/* Starts the collective, `shift` bytes into the buffers. */
static int start(struct bench *b, const struct buffers_run *r, size_t shift)
{
    struct backend_call call = buffers_call(b->buffers, r, shift);
    int rc = b->o->hypercube ? start_hypercube(b, &call) : comm_start(b->comm, &call);
    return rc < 0 ? comm_failed(b, rc) : 0;
}

static int barrier(struct bench *b)
{
    int rc = drover_barrier(b->world, b->o->wait_ms);
    return rc < 0 ? comm_failed(b, rc) : 0;
}

/* One iteration: -m operations, begun together. Each works on another part of the buffers, so that
 * caches do not help small sizes. */
static int iterate(struct bench *b, const struct buffers_run *r, size_t *place)
{
    size_t bytes = r->shape.bytes, places = bytes ? b->o->max_bytes / bytes : 1;
    int rc = b->o->agg > 1 ? drover_group_start(b->comm) : 0;
    if (rc < 0)
        return comm_failed(b, rc);
    for (int i = 0; i < b->o->agg && rc == 0; i++) {
        rc = start(b, r, bytes * *place);
        *place = *place + 1 < places ? *place + 1 : 0;
    }
    if (rc == 0 && b->o->agg > 1 && (rc = drover_group_end(b->comm)) < 0)
        return comm_failed(b, rc);
    return rc;
}

/* Seconds per operation on this rank. Without a device nothing goes on unless it is waited for, so
 * that each iteration is. */
static int time_iterations(struct bench *b, const struct buffers_run *r, int iters, double *seconds)
{
    bool each = !b->o->cpu_time && !(b->backend->caps(b->inner) & BACKEND_DEVICE_MEMORY);
    size_t place = 0;
    double begin = clock_s(), apart = 0;
    int rc = 0;
    for (int i = 0; i < iters && rc == 0; i++) {
        rc = iterate(b, r, &place);
        if (rc == 0 && (b->o->blocking || each))
            rc = wait_all(b);
        double done = b->o->blocking == 3 ? clock_s() : 0;
        if (rc == 0 && b->o->blocking % 2)
            rc = barrier(b);
        apart += b->o->blocking == 3 ? clock_s() - done : 0;
    }
    double started = clock_s();
    if (rc == 0)
        rc = wait_all(b);
    double all = (b->o->cpu_time ? started : clock_s()) - begin - apart;
    *seconds = iters ? all / iters / b->o->agg : 0;
    return rc;
}

/* Operations of an iteration, or of a graph. */
static double per_launch(const struct bench *b)
{
    return (double)b->o->agg * (b->o->graph ? b->o->iters : 1);
}

/* Makes a graph of what was started since record(): when the wait is over it is kept, not done. */
static int keep(struct bench *b)
{
    int rc = wait_all(b);
    return rc == 0 ? b->backend->record(b->inner, false, b->e) : rc;
}

/* Seconds per operation of a graph of iters that is launched -G times. */
static int time_graph(struct bench *b, const struct buffers_run *r, double *seconds)
{
    size_t place = 0;
    int rc = b->backend->record(b->inner, true, b->e);
    for (int i = 0; i < b->o->iters && rc == 0; i++)
        rc = iterate(b, r, &place);
    if (rc == 0)
        rc = keep(b);
    if (rc == 0)
        rc = barrier(b);
    double begin = clock_s();
    for (int i = 0; i < b->o->graph && rc == 0; i++)
        rc = b->backend->replay(b->inner, b->e);
    double started = clock_s();
    if (rc == 0)
        rc = wait_all(b);
    *seconds = ((b->o->cpu_time ? started : clock_s()) - begin) / b->o->graph / per_launch(b);
    return rc;
}

/* Adds up what the ranks have found. */
static void sum_up(struct bench *b, const struct buffers_wrong *all,
                   struct bench_report_placement *half)
{
    for (int i = 0; i < b->all; i++) {
        uint64_t wrong = all[i].elements + all[i].canaries;
        half->wrong += wrong;
        b->foot.bad += wrong > 0;
        if (wrong && half->wrong_rank < 0) {
            half->wrong_rank = i;
            half->first_wrong = all[i];
        }
    }
}

/* One operation; with -G out of a graph, as those that are timed. */
static int do_once(struct bench *b, const struct buffers_run *r)
{
    bool graph = b->o->graph > 0;
    int rc = graph ? b->backend->record(b->inner, true, b->e) : 0;
    if (rc == 0)
        rc = start(b, r, 0);
    if (rc == 0 && graph)
        rc = keep(b);
    if (rc == 0 && graph)
        rc = b->backend->replay(b->inner, b->e);
    return rc == 0 ? wait_all(b) : rc;
}

/* One operation, looked over by every rank. */
static int check_once(struct bench *b, struct buffers_run *r, struct buffers_wrong *all)
{
    const struct bench_opts *o = b->o;
    bool ours = o->inject_rank == b->members[b->rank];
    struct buffers_wrong mine;
    int rc = buffers_prepare(b->buffers, r, b->e);
    if (rc == 0 && ours && o->inject == BUFFERS_ABSENT)
        rc = buffers_spoil(b->buffers, r, o->inject, 0, b->e);
    if (rc == 0)
        rc = do_once(b, r);
    if (rc == 0 && ours && o->inject != BUFFERS_ABSENT)
        rc = buffers_spoil(b->buffers, r, o->inject, (size_t)o->inject_at, b->e);
    if (rc == 0)
        rc = buffers_look(b->buffers, r, &mine, b->e);
    if (rc == 0 && mine.blame.rank >= 0)
        mine.blame.rank = b->members[mine.blame.rank];
    return rc == 0 ? gather(b, &mine, sizeof mine, all) : rc;
}

static int check(struct bench *b, struct buffers_run *r, struct bench_report_placement *half)
{
    AUTO(free) struct buffers_wrong *all = xcalloc((size_t)b->all, sizeof *all);
    half->checked = b->o->checks > 0;
    for (int c = 0; c < b->o->checks && half->wrong == 0; c++) {
        int rc = check_once(b, r, all);
        if (rc < 0)
            return rc;
        sum_up(b, all, half);
    }
    return 0;
}

/* Single iterations that are waited for, then one figure for each from all ranks' times. all[] has
 * room for iters + 1 of each rank: the last is how long it has been. */
static int sample_batch(struct bench *b, const struct buffers_run *r, double begin, double *all)
{
    size_t n = (size_t)b->o->iters, place = 0;
    AUTO(free) double *mine = xcalloc(n + 1, sizeof *mine);
    int rc = barrier(b);
    for (size_t i = 0; i < n && rc == 0; i++) {
        double from = clock_s();
        rc = b->o->graph ? b->backend->replay(b->inner, b->e) : iterate(b, r, &place);
        if (rc == 0)
            rc = wait_all(b);
        mine[i] = (clock_s() - from) / per_launch(b);
    }
    mine[n] = clock_s() - begin;
    return rc == 0 ? gather(b, mine, (n + 1) * sizeof *mine, all) : rc;
}

static double column(struct bench *b, const double *all, size_t i, enum stats_pick pick)
{
    for (int r = 0; r < b->all; r++)
        b->seconds[r] = all[(size_t)r * ((size_t)b->o->iters + 1) + i];
    return stats_pick(b->seconds, (size_t)b->all, pick);
}

/* All ranks' times of a batch behind those that are kept; NULL where they are not. */
static const double *keep_ranks(struct bench *b, const struct buffers_run *r, const double *all,
                                size_t have)
{
    if (!b->o->rank_samples)
        return NULL;
    size_t n = (size_t)b->o->iters, ranks = (size_t)b->all;
    double **list = &b->rank_samples[r->in_place];
    *list = xrealloc(*list, (have + n) * ranks, sizeof **list);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < ranks; k++)
            (*list)[(have + i) * ranks + k] = all[k * (n + 1) + i];
    return *list;
}

/* Every rank sees the same times, and so ends after the same batch. */
static int sample(struct bench *b, const struct buffers_run *r, struct bench_report_placement *half)
{
    size_t n = (size_t)b->o->iters;
    AUTO(free) double *all = xcalloc((n + 1) * (size_t)b->all, sizeof *all);
    double begin = clock_s();
    for (size_t have = 0; have <= SAMPLES_MAX; have += n) {
        int rc = sample_batch(b, r, begin, all);
        if (rc < 0)
            return rc;
        double *list = xrealloc(b->samples[r->in_place], have + n, sizeof *list);
        b->samples[r->in_place] = list;
        for (size_t i = 0; i < n; i++)
            list[have + i] = column(b, all, i, b->o->sample_pick);
        half->rank_samples = keep_ranks(b, r, all, have);
        half->stats = stats_of(list, have + n);
        half->samples = list;
        double half_width = (half->stats.high - half->stats.low) / 2;
        half->unstable = b->o->stable > 0 && half_width > b->o->stable * half->stats.median;
        if (!half->unstable || column(b, all, n, STATS_MAX) >= b->o->max_time_s)
            break;
    }
    return 0;
}

/* From every rank's time to a row's figures. */
static void reduce(struct bench *b, const struct buffers_run *r,
                   struct bench_report_placement *half)
{
    half->seconds = stats_pick(b->seconds, (size_t)b->all, b->o->pick);
    half->rank_min_seconds = stats_pick(b->seconds, (size_t)b->all, STATS_MIN);
    half->rank_max_seconds = stats_pick(b->seconds, (size_t)b->all, STATS_MAX);
    half->algbw = busbw_rate(r->shape.bytes, half->seconds);
    half->busbw = half->algbw * busbw_factor(r->v.coll, b->size);
    if (b->o->hypercube)
        half->algbw = half->busbw; /* both by what a rank gets from others */
    b->busbw_sum += half->busbw;
    b->halves++;
}

static int measure(struct bench *b, struct buffers_run *r, struct bench_report_placement *half)
{
    *half = (struct bench_report_placement){.wrong_rank = -1};
    if (r->in_place && !busbw_has_in_place(r->v.coll))
        return 0;
    if (r->in_place && r->v.coll == BACKEND_ALL_TO_ALL && b->all > 1 &&
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
        rc = b->o->graph ? time_graph(b, r, &mine) : time_iterations(b, r, b->o->iters, &mine);
    if (rc == 0)
        rc = gather(b, &mine, sizeof mine, b->seconds);
    if (rc < 0)
        return rc;
    reduce(b, r, half);
    return b->o->samples ? sample(b, r, half) : 0;
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

/* All sizes for one type, operation and root. */
static int walk_sizes(struct bench *b, const struct verify *v, const struct bench_sink *sink)
{
    int rc = 0;
    for (uint64_t bytes = b->o->min_bytes; bytes && rc == 0; bytes = bench_next_size(b->o, bytes)) {
        if (b->members[b->rank] == 0 && sink->begin)
            sink->begin(sink->arg, bytes);
        struct buffers_run r = make_run(b, v, bytes);
        struct bench_report_row row = {
            .bytes = r.shape.bytes,
            .count = r.shape.count,
            .type = backend_type_name(v->type),
            .op = backend_reduces(v->coll) ? backend_op_name(v->op) : "none",
            .root = busbw_has_root(v->coll) ? v->root : -1,
        };
        for (int half = 0; half < 2 && rc == 0; half++) {
            r.in_place = half == 1;
            rc = measure(b, &r, &row.half[half]);
        }
        if (rc == 0 && b->members[b->rank] == 0)
            sink->row(sink->arg, &row);
    }
    return rc;
}

static int walk(struct bench *b, const struct verify *v, const struct bench_sink *sink)
{
    buffers_shift(b->buffers, (size_t)b->o->unalign * backend_type_bytes(v->type));
    int rc = warm_up(b, v);
    for (int cycle = 0; rc == 0 && (cycle < b->o->cycles || b->o->cycles == 0); cycle++)
        rc = walk_sizes(b, v, sink);
    return rc;
}

static int walk_roots(struct bench *b, struct verify *v, const struct bench_sink *sink)
{
    bool all = busbw_has_root(v->coll) && b->o->root == BENCH_ROOT_ALL;
    int first = all ? 0 : busbw_has_root(v->coll) ? b->o->root : 0, least, rc = 0;
    (void)rank_groups_groups(&b->o->split, b->all, &least); /* the groups walk alike */
    for (v->root = first; v->root <= (all ? least - 1 : first) && rc == 0; v->root++)
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
            bool wanted = backend_reduces(b->o->coll) ? b->o->ops >> op & 1 : op == 0;
            struct verify v = {.coll = b->o->coll, .ranks = b->size};
            v.type = (enum drover_type)t;
            v.op = (enum drover_op)op;
            if (wanted && types >> t & 1)
                rc = walk_roots(b, &v, sink);
        }
    return rc;
}

/* The group's table, with buffers of its own. */
static int run_group(struct bench *b, const struct bench_sink *sink)
{
    const struct buffers_opts room = {
        .max_bytes = b->o->max_bytes,
        .shift_bytes = (size_t)b->o->unalign * sizeof(double),
        .rank = b->rank,
        .memory = BACKEND_BUFFERS + (unsigned)b->o->registration,
    };
    b->backend = comm_backend(b->comm);
    b->inner = comm_inner(b->comm);
    (void)drover_comm_factor(b->comm, verify_factor(b->rank)); /* it is finite */
    int rc = buffers_open(&b->buffers, b->backend, b->inner, &room, b->e);
    if (rc == 0)
        rc = walk_all(b, sink);
    for (int half = 0; half < 2; half++) {
        free(b->samples[half]);
        free(b->rank_samples[half]);
    }
    if (rc == 0) /* else they stay: a collective that was given up may still write to them */
        buffers_close(b->buffers);
    return rc;
}

int bench_run(const struct bench_opts *o, struct drover *d, struct drover_comm *c,
              const struct bench_sink *sink, struct bench_report_summary *foot, struct err *e)
{
    struct bench b = {.o = o, .d = d, .world = c, .comm = c, .e = e, .all = drover_size(d)};
    AUTO(free) double *seconds = xcalloc((size_t)b.all, sizeof *seconds);
    AUTO(free) int *members = xcalloc((size_t)b.all, sizeof *members);
    b.seconds = seconds;
    b.members = members;
    int rank = drover_rank(d), color = rank_groups_color(&o->split, rank), rc = 0;
    (void)rank_groups_group(members, &o->split, b.all, rank);
    if (o->split.op && (rc = drover_comm_split(&b.comm, c, color, rank)) < 0)
        return comm_failed(&b, rc);
    b.rank = drover_comm_rank(b.comm);
    b.size = drover_comm_size(b.comm);
    rc = run_group(&b, sink);
    if (o->split.op) {
        if (rc < 0) /* the other ranks may not come to the end */
            (void)drover_comm_abort(b.comm);
        drover_comm_close(b.comm);
    }
    if (rc < 0)
        return rc;
    *foot = b.foot;
    foot->coll = bench_name(o);
    foot->avg_busbw = b.halves ? b.busbw_sum / (double)b.halves : 0;
    return 0;
}
