#include "collectives/bench/bench.h"

#include <stdlib.h>

#include "collectives/bench/bench_internal.h"
#include "common/mem.h"
#include "launcher/client/client_internal.h"

uint64_t bench_next_size(const struct bench_opts *o, uint64_t bytes)
{
    uint64_t next = 0;
    bool over = o->factor > 1 ? __builtin_mul_overflow(bytes, (uint64_t)o->factor, &next)
                              : __builtin_add_overflow(bytes, o->step_bytes, &next);
    return over || next > o->max_bytes || next <= bytes ? 0 : next;
}

const char *bench_name(const struct bench_opts *o)
{
    return o->hypercube ? BENCH_HYPERCUBE : collective_name(o->coll);
}

int bench_comm(struct bench *b, int rc)
{
    if (rc < 0)
        *b->e = *client_err(b->d);
    return rc;
}

int bench_wait(struct bench *b)
{
    return bench_comm(b, drover_wait(b->comm, b->o->wait_ms));
}

int bench_barrier(struct bench *b)
{
    return bench_comm(b, drover_barrier(b->world, b->o->wait_ms));
}

int bench_gather(struct bench *b, const void *mine, size_t bytes, void *all)
{
    return bench_comm(b, comm_gather(b->world, mine, bytes, all, b->o->wait_ms));
}

static int exchange(struct drover_comm *comm, const void *from, void *to, size_t n,
                    enum drover_type t, int peer)
{
    int rc = drover_group_start(comm);
    rc = rc < 0 ? rc : drover_send(comm, from, n, t, peer);
    rc = rc < 0 ? rc : drover_recv(comm, to, n, t, peer);
    return rc < 0 ? rc : drover_group_end(comm);
}

/* Starts nccl-tests' hypercube, an all_gather by doubling: in each round a rank exchanges
 * everything it has with one peer. The number of ranks is a power of 2. */
static int start_hypercube(struct drover_comm *comm, const struct backend_call *k)
{
    int rank = drover_comm_rank(comm), size = drover_comm_size(comm);
    size_t part = k->count * backend_type_bytes(k->type);
    char *out = k->out, *own = out + (size_t)rank * part;
    /* the first round's copy */
    int rc = k->in == own ? 0 : exchange(comm, k->in, own, k->count, k->type, rank);
    for (int mask = 1; mask < size && rc == 0; mask *= 2) {
        int have = rank & ~(mask - 1);
        rc = exchange(comm, out + (size_t)have * part, out + (size_t)(have ^ mask) * part,
                      k->count * (size_t)mask, k->type, rank ^ mask);
    }
    return rc;
}

int bench_start(struct bench *b, const struct buffers_run *r, size_t shift)
{
    struct backend_call call = buffers_call(b->buffers, r, shift);
    return bench_comm(b, b->o->hypercube ? start_hypercube(b->comm, &call)
                                         : comm_start(b->comm, &call));
}

/* Adds the wrong data that the ranks have found to the row and the summary. */
static void add_wrong(struct bench *b, const struct buffers_wrong *all,
                      struct bench_report_placement *placement)
{
    for (int i = 0; i < b->all; i++) {
        uint64_t wrong = all[i].elements + all[i].canaries;
        placement->wrong += wrong;
        b->summary.bad += wrong > 0;
        if (wrong && placement->wrong_rank < 0) {
            placement->wrong_rank = i;
            placement->first_wrong = all[i];
        }
    }
}

/* Runs one operation. With -G it runs from a graph, like the timed operations. */
static int run_once(struct bench *b, const struct buffers_run *r)
{
    bool graph = b->o->graph > 0;
    int rc = graph ? b->backend->record(b->inner, true, b->e) : 0;
    if (rc == 0)
        rc = bench_start(b, r, 0);
    if (rc == 0 && graph)
        rc = bench_end_graph(b);
    if (rc == 0 && graph)
        rc = b->backend->replay(b->inner, b->e);
    return rc == 0 ? bench_wait(b) : rc;
}

/* Runs one operation, and collects from each rank what is wrong in its output. */
static int check_once(struct bench *b, struct buffers_run *r, struct buffers_wrong *all)
{
    const struct bench_opts *o = b->o;
    bool injects = o->inject_rank == b->members[b->rank];
    struct buffers_wrong mine;
    int rc = buffers_prepare(b->buffers, r, b->e);
    if (rc == 0 && injects && o->inject == BUFFERS_NO_INPUT)
        rc = buffers_inject(b->buffers, r, o->inject, 0, b->e);
    if (rc == 0)
        rc = run_once(b, r);
    if (rc == 0 && injects && o->inject != BUFFERS_NO_INPUT)
        rc = buffers_inject(b->buffers, r, o->inject, (size_t)o->inject_at, b->e);
    if (rc == 0)
        rc = buffers_check(b->buffers, r, &mine, b->e);
    if (rc == 0 && mine.diagnosis.rank >= 0)
        mine.diagnosis.rank = b->members[mine.diagnosis.rank];
    return rc == 0 ? bench_gather(b, &mine, sizeof mine, all) : rc;
}

static int check(struct bench *b, struct buffers_run *r, struct bench_report_placement *placement)
{
    AUTO(free) struct buffers_wrong *all = xcalloc((size_t)b->all, sizeof *all);
    placement->checked = b->o->checks > 0;
    for (int c = 0; c < b->o->checks && placement->wrong == 0; c++) {
        int rc = check_once(b, r, all);
        if (rc < 0)
            return rc;
        add_wrong(b, all, placement);
    }
    return 0;
}

/* Computes a placement's figures from the times of all ranks. */
static void reduce_times(struct bench *b, const struct buffers_run *r, const struct bench_time *all,
                         struct bench_report_placement *placement)
{
    for (int i = 0; i < b->all; i++)
        b->seconds[i] = all[i].started;
    placement->cpu_seconds = stats_pick(b->seconds, (size_t)b->all, b->o->pick);
    for (int i = 0; i < b->all; i++)
        b->seconds[i] = all[i].done;
    placement->seconds = stats_pick(b->seconds, (size_t)b->all, b->o->pick);
    placement->rank_min_seconds = stats_pick(b->seconds, (size_t)b->all, STATS_MIN);
    placement->rank_max_seconds = stats_pick(b->seconds, (size_t)b->all, STATS_MAX);
    placement->algbw = busbw_rate(r->shape.bytes, placement->seconds);
    placement->busbw = placement->algbw * collective_row(r->v.coll)->busbw_factor(b->size);
    if (b->o->hypercube)
        placement->algbw = placement->busbw; /* as in nccl-tests, both count the bytes that a rank
                                                receives from other ranks */
    b->busbw_sum += placement->busbw;
    b->placements++;
}

/* Measures one placement of a size. Like nccl-tests, also prints a time in place for a collective
 * that has no such form. It is measured with two buffers (buffers.c), and its result is not
 * checked. */
static int measure(struct bench *b, struct buffers_run *r, struct bench_report_placement *placement)
{
    static const struct traffic even;
    *placement = (struct bench_report_placement){.wrong_rank = -1};
    const struct collective_row *row = collective_row(r->v.coll);
    bool refused =
        r->in_place && b->all > 1 && (b->backend->caps(b->inner) & row->in_place_refusal);
    if (refused) { /* replaced by sends and receives of equal parts, which every backend accepts */
        r->v.coll = COLLECTIVE_ALL_TO_ALL_V;
        r->v.traffic = &even;
    }
    bool defined = !r->in_place || (collective_in_place(r->v.coll) && !refused);
    struct bench_time mine = {0}, once;
    AUTO(free) struct bench_time *all = xcalloc((size_t)b->all, sizeof *all);
    int rc = defined ? check(b, r, placement) : 0;
    if (rc == 0)
        rc = bench_time_iterations(b, r, 1, &once); /* the first call of a size may allocate */
    if (rc == 0)
        rc = bench_barrier(b);
    if (rc == 0)
        rc = b->o->graph ? bench_time_graph(b, r, &mine)
                         : bench_time_iterations(b, r, b->o->iters, &mine);
    if (rc == 0)
        rc = bench_gather(b, &mine, sizeof mine, all);
    if (rc < 0)
        return rc;
    reduce_times(b, r, all, placement);
    return b->o->samples ? bench_sample(b, r, placement) : 0;
}

static struct buffers_run make_run(const struct bench *b, const struct verify *v, uint64_t bytes)
{
    struct buffers_run r = {.v = *v};
    r.shape = busbw_shape(v->coll, bytes, backend_type_bytes(v->type), b->size);
    if (collective_row(v->coll)->in == COLLECTIVE_VARYING) {
        const struct traffic_call c = verify_traffic(v, r.shape.count);
        r.shape = busbw_traffic_shape(&c, b->rank);
    }
    return r;
}

static int warm_up(struct bench *b, const struct verify *v)
{
    int rc = 0;
    for (uint64_t bytes = b->o->min_bytes; bytes && bytes <= b->o->max_bytes && rc == 0;
         bytes *= 2) {
        struct buffers_run r = make_run(b, v, bytes);
        struct bench_time ignored;
        rc = bench_time_iterations(b, &r, b->o->warmups, &ignored);
    }
    return rc;
}

/* Measures all sizes for one type, operation and root. */
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
            .op = collective_reduces(v->coll) ? backend_op_name(v->op) : "none",
            .root = collective_has_root(v->coll) ? v->root : -1,
        };
        for (int i = 0; i < 2 && rc == 0; i++) {
            r.in_place = i == 1;
            rc = measure(b, &r, &row.placement[i]);
        }
        b->summary.avg_busbw = b->placements ? b->busbw_sum / (double)b->placements : 0;
        row.so_far = b->summary;
        if (rc == 0 && b->members[b->rank] == 0)
            sink->row(sink->arg, &row);
    }
    return rc;
}

static int walk_cycles(struct bench *b, const struct verify *v, const struct bench_sink *sink)
{
    buffers_shift(b->buffers, (size_t)b->o->unalign * backend_type_bytes(v->type));
    int rc = warm_up(b, v);
    for (int cycle = 0; rc == 0 && (cycle < b->o->cycles || b->o->cycles == 0); cycle++)
        rc = walk_sizes(b, v, sink);
    return rc;
}

static int walk_roots(struct bench *b, struct verify *v, const struct bench_sink *sink)
{
    bool all = collective_has_root(v->coll) && b->o->root == BENCH_ROOT_ALL;
    int first = all ? 0 : collective_has_root(v->coll) ? b->o->root : 0, smallest, rc = 0;
    (void)rank_groups_groups(&b->o->split, b->all, &smallest); /* the same in all groups */
    for (v->root = first; v->root <= (all ? smallest - 1 : first) && rc == 0; v->root++)
        rc = walk_cycles(b, v, sink);
    return rc;
}

static int walk_all(struct bench *b, const struct bench_sink *sink)
{
    unsigned fp8 = 1U << DROVER_F8E4M3 | 1U << DROVER_F8E5M2, types = b->o->types;
    if (!(b->backend->caps(b->inner) & BACKEND_FP8) && types & ~fp8)
        types &= ~fp8; /* "all" means all types that the backend has */
    int rc = 0;
    for (int t = 0; t < DROVER_TYPES && rc == 0; t++)
        for (int op = 0; op < DROVER_OPS && rc == 0; op++) {
            bool selected = collective_reduces(b->o->coll) ? b->o->ops >> op & 1 : op == 0;
            struct verify v = {.coll = b->o->coll, .ranks = b->size, .traffic = &b->o->traffic};
            v.type = (enum drover_type)t;
            v.op = (enum drover_op)op;
            if (selected && types >> t & 1)
                rc = walk_roots(b, &v, sink);
        }
    return rc;
}

/* Measures this rank's group, with its own buffers. */
static int run_group(struct bench *b, const struct bench_sink *sink)
{
    const struct buffers_opts opts = {
        .max_bytes = b->o->max_bytes,
        .shift_bytes = (size_t)b->o->unalign * sizeof(double),
        .rank = b->rank,
        .memory = BACKEND_BUFFERS + (unsigned)b->o->registration,
    };
    b->backend = comm_backend(b->comm);
    b->inner = comm_inner(b->comm);
    /* Cannot fail, since the factor is valid */
    (void)drover_comm_factor(b->comm, verify_factor(b->rank));
    int rc = buffers_open(&b->buffers, b->backend, b->inner, &opts, b->e);
    if (rc == 0)
        rc = walk_all(b, sink);
    for (int i = 0; i < 2; i++) {
        free(b->samples[i]);
        free(b->rank_samples[i]);
    }
    if (rc == 0) /* otherwise an aborted collective may still write to the buffers */
        buffers_close(b->buffers);
    return rc;
}

int bench_run(const struct bench_opts *o, struct drover *d, struct drover_comm *c,
              const struct bench_sink *sink, struct bench_report_summary *summary, struct err *e)
{
    struct bench b = {.o = o, .d = d, .world = c, .comm = c, .e = e, .all = drover_size(d)};
    b.summary.coll = bench_name(o);
    AUTO(free) double *seconds = xcalloc((size_t)b.all, sizeof *seconds);
    AUTO(free) int *members = xcalloc((size_t)b.all, sizeof *members);
    b.seconds = seconds;
    b.members = members;
    int rank = drover_rank(d), color = rank_groups_color(&o->split, rank), rc = 0;
    (void)rank_groups_group(members, &o->split, b.all, rank);
    if (o->split.op && (rc = drover_comm_split(&b.comm, c, color, rank)) < 0)
        return bench_comm(&b, rc);
    b.rank = drover_comm_rank(b.comm);
    b.size = drover_comm_size(b.comm);
    rc = run_group(&b, sink);
    if (o->split.op) {
        if (rc < 0) /* the other ranks may wait for this one */
            (void)drover_comm_abort(b.comm);
        drover_comm_close(b.comm);
    }
    *summary = b.summary;
    return rc;
}
