#include "collectives/comm/comm.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "collectives/bootstrap/bootstrap.h"
#include "collectives/comm/comm_internal.h"
#include "collectives/comm/p2p_fallback.h"
#include "common/clock.h"
#include "common/mem.h"
#include "launcher/client/client_internal.h"

enum { OPEN_MS = 60000, SPINS = 2000, NAP_NS = 20000 };

static const char *backend_name(const struct drover *d, const struct drover_comm_opts *o)
{
    if (o->backend)
        return o->backend;
    /* A stream means that buffers are on the GPU, even in a job of one rank. */
    return o->stream ? "nccl" : drover_size(d) == 1 ? "self" : "mpi";
}

/* Returns bits, by enum collective, for the collectives that the backend has a call for. The others
 * are made of sends and receives. */
static unsigned native_mask(unsigned caps)
{
    unsigned mask = 0;
    for (int i = 0; i < COLLECTIVES; i++)
        if ((collective_rows[i].native_cap & ~caps) == 0)
            mask |= 1u << i;
    return mask;
}

static uint8_t flags_of(enum collective c)
{
    const struct collective_row *row = collective_row(c);
    if (row->to_peer)
        return COLLECTIVE_TRACE_HAS_COUNT | COLLECTIVE_TRACE_TO_PEER;
    /* The counts of a varying collective differ between ranks. */
    bool has_count = collective_counts(c);
    return (uint8_t)((has_count ? COLLECTIVE_TRACE_HAS_COUNT : 0) |
                     (collective_reduces(c) ? COLLECTIVE_TRACE_HAS_OP : 0) |
                     (collective_has_root(c) ? COLLECTIVE_TRACE_HAS_ROOT : 0));
}

struct collective_trace_comm *comm_trace_open(const char *name, int rank, int size)
{
    struct collective_trace_words w = {0};
    for (int i = 0; i < COLLECTIVES; i++) {
        snprintf(w.colls[i].name, sizeof w.colls[i].name, "%s", collective_rows[i].name);
        w.colls[i].flags = flags_of((enum collective)i);
    }
    for (int i = 0; i < DROVER_TYPES; i++)
        snprintf(w.types[i], sizeof w.types[i], "%s", backend_type_name((enum drover_type)i));
    for (int i = 0; i < DROVER_OPS; i++)
        snprintf(w.ops[i], sizeof w.ops[i], "%s", backend_op_name((enum drover_op)i));
    return collective_trace_open(&w, name, rank, size);
}

struct drover_comm *comm_new(struct drover *d, const struct backend *b, struct backend_comm *inner,
                             int rank, int size, const char *name)
{
    struct drover_comm *c = xzalloc(sizeof *c);
    *c = (struct drover_comm){
        .d = d, .err = client_err(d), .backend = b, .inner = inner, .rank = rank, .size = size};
    c->factor = 1;
    c->caps = b->caps(inner);
    c->native_mask = native_mask(c->caps);
    snprintf(c->name, sizeof c->name, "%s", name);
    c->trace = comm_trace_open(c->name, rank, size);
    /* If there are more ranks than cores, the rank that this one waits for may need its core. */
    c->oversubscribed = drover_local_size(d) > sysconf(_SC_NPROCESSORS_ONLN);
    return c;
}

int drover_comm_open(struct drover_comm **out, struct drover *d, const struct drover_comm_opts *o)
{
    static const struct drover_comm_opts defaults = {.device = -1};
    if (!o)
        o = &defaults;
    struct err *e = client_err(d);
    const struct backend *b = NULL;
    int rc = backend_load(&b, backend_name(d, o), e);
    if (rc < 0)
        return rc;
    AUTO(bootstrap) struct bootstrap *x = bootstrap_new(client_identity(d));
    struct backend_opts bo = {
        .rank = drover_rank(d),
        .size = drover_size(d),
        .local_rank = drover_local_rank(d),
        .device = o->device,
        .stream = o->stream,
        .lib_path = o->lib_path,
        .open_ms = o->open_ms > 0 ? o->open_ms : OPEN_MS,
        .bootstrap = &x->table,
    };
    struct backend_comm *inner = NULL;
    if ((rc = b->open(&inner, &bo, e)) < 0) {
        (void)err_wrap(e, "rank %d of %d: backend %s", bo.rank, bo.size, b->name);
        return rc;
    }
    static unsigned opened; /* all ranks open their communicators in the same order */
    char name[COLLECTIVE_TRACE_NAME_BYTES] = "world";
    if (++opened > 1)
        snprintf(name, sizeof name, "world %u", opened);
    *out = comm_new(d, b, inner, bo.rank, bo.size, name);
    (*out)->open_ms = bo.open_ms;
    return 0;
}

void drover_comm_close(struct drover_comm *c)
{
    if (!c)
        return;
    c->backend->close(c->inner);
    collective_trace_close(c->trace);
    free(c->queue);
    free(c);
}

const char *drover_comm_backend(const struct drover_comm *c)
{
    return c->backend->name;
}

int drover_comm_factor(struct drover_comm *c, double factor)
{
    if (!(fabs(factor) < 0x1p63))
        return err_set(c->err, -EINVAL, "factor %g: not finite, or too large", factor);
    c->factor = factor;
    return 0;
}

int drover_comm_rank(const struct drover_comm *c)
{
    return c->rank;
}

int drover_comm_size(const struct drover_comm *c)
{
    return c->size;
}

const struct backend *comm_backend(const struct drover_comm *c)
{
    return c->backend;
}

struct backend_comm *comm_inner(const struct drover_comm *c)
{
    return c->inner;
}

int comm_fail(struct drover_comm *c, int rc)
{
    collective_trace_failed(c->trace, rc);
    c->backend->abort(c->inner);
    c->unusable = true;
    return rc;
}

/* Adds rank and call to the backend's error and fails the communicator. */
static int call_failed(struct drover_comm *c, int rc)
{
    (void)err_wrap(c->err, "rank %d of %d: call %" PRIu64 ", %s of %zu %s", c->rank, c->size,
                   c->calls, collective_name(c->last.coll), c->last.count,
                   backend_type_name(c->last.type));
    return comm_fail(c, rc);
}

static int check_peer(const struct drover_comm *c, const struct backend_call *k)
{
    bool peer = collective_row(k->coll)->to_peer;
    if ((unsigned)k->root >= (unsigned)c->size)
        return err_set(c->err, -EINVAL, "%s %d is out of range (0 to %d)", peer ? "peer" : "root",
                       k->root, c->size - 1);
    if (peer && k->root == c->rank && !c->depth) {
        err_set(c->err, -EINVAL, "a rank can send to itself only inside a group");
        return err_hint(c->err, "call drover_group_start() before and drover_group_end() after");
    }
    return 0;
}

static int check_size(const struct drover_comm *c, const struct backend_call *k, size_t elements,
                      size_t times)
{
    size_t bytes = 0;
    if (__builtin_mul_overflow(elements, backend_type_bytes(k->type) * times, &bytes) ||
        bytes > PTRDIFF_MAX)
        return err_set(c->err, -EOVERFLOW, "%zu elements per rank exceed the address space",
                       elements);
    return 0;
}

static int check_parts(const struct drover_comm *c, const struct backend_call *k,
                       const struct drover_parts *p, const void *buffer)
{
    for (int r = 0; r < c->size; r++) {
        size_t end = 0;
        if (p->counts[r] && !buffer)
            return err_set(c->err, -EINVAL, "the buffer is NULL");
        if (__builtin_add_overflow(p->counts[r], p->starts[r], &end))
            end = SIZE_MAX;
        int rc = check_size(c, k, end, 1);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Checks a call. comm_start() adds the name of the collective to the error. */
static int check(const struct drover_comm *c, const struct backend_call *k)
{
    if (c->unusable)
        return err_set(c->err, -ESHUTDOWN, "the communicator has failed or was aborted");
    if ((unsigned)k->type >= DROVER_TYPES)
        return err_set(c->err, -EINVAL, "invalid type %d", (int)k->type);
    if ((unsigned)k->op >= DROVER_OPS)
        return err_set(c->err, -EINVAL, "invalid operation %d", (int)k->op);
    if (k->type >= DROVER_F8E4M3 && !(c->caps & BACKEND_FP8)) {
        err_set(c->err, -ENOTSUP, "backend %s does not support %s", c->backend->name,
                backend_type_name(k->type));
        return err_hint(c->err, "NCCL 2.24, and GPUs of compute capability 9.0 at all ranks");
    }
    int rc = check_peer(c, k);
    const struct collective_row *row = collective_row(k->coll);
    if (rc == 0 && row->in == COLLECTIVE_VARYING) {
        rc = check_parts(c, k, k->send, k->in);
        return rc < 0 ? rc : check_parts(c, k, k->recv, k->out);
    }
    if (rc == 0)
        rc = check_size(c, k, k->count, (size_t)c->size);
    if (rc < 0)
        return rc;
    if (k->count && ((!k->in && collective_reads(k->coll, c->rank, k->root)) ||
                     (!k->out && collective_writes(k->coll, c->rank, k->root))))
        return err_set(c->err, -EINVAL, "the buffer is NULL");
    if ((row->in_place_refusal & c->caps) && k->in == k->out && k->count && c->size > 1)
        return err_set(c->err, -ENOTSUP, "backend %s does not support calls in place",
                       c->backend->name);
    return 0;
}

/* Starts as many queued calls as the backend accepts now, except those of an open group. Returns
 * -EINPROGRESS if the backend must complete earlier calls first. */
static int advance(struct drover_comm *c)
{
    size_t end = c->depth ? c->group : c->len;
    while (c->head < end) {
        size_t n = 1;
        while (c->head + n < end && c->queue[c->head + n].grouped)
            n++;
        int rc = c->backend->start(c->inner, &c->queue[c->head], n, c->err);
        if (rc < 0)
            return rc == -EAGAIN ? -EINPROGRESS : rc;
        c->head += n;
    }
    if (c->head == c->len)
        c->head = c->len = c->group = 0;
    return 0;
}

static void enqueue(struct drover_comm *c, const struct backend_call *calls, size_t n)
{
    if (c->len + n > c->cap) {
        c->cap = 2 * (c->len + n);
        c->queue = xrealloc(c->queue, c->cap, sizeof *c->queue);
    }
    for (size_t i = 0; i < n; i++, c->len++) {
        c->queue[c->len] = calls[i];
        c->queue[c->len].grouped = i > 0 || (c->depth && c->len > c->group);
    }
}

static int submit_later(struct drover_comm *c, const struct backend_call *calls, size_t n)
{
    enqueue(c, calls, n);
    int rc = advance(c);
    return rc < 0 && rc != -EINPROGRESS ? call_failed(c, rc) : 0;
}

/* Starts the calls immediately, or queues them if a group is open or earlier calls are queued. */
static inline int submit(struct drover_comm *c, const struct backend_call *calls, size_t n)
{
    if (c->depth || c->head < c->len)
        return submit_later(c, calls, n);
    int rc = c->backend->start(c->inner, calls, n, c->err);
    if (rc == 0 || rc == -ENOTSUP || rc == -EOVERFLOW)
        return rc; /* started, or refused without an effect */
    return rc == -EAGAIN ? submit_later(c, calls, n) : call_failed(c, rc);
}

static int submit_expanded(struct drover_comm *c, const struct backend_call *call)
{
    AUTO(free) struct backend_call *calls = xcalloc(2 * (size_t)c->size, sizeof *calls);
    size_t n = p2p_fallback_expand(calls, call, c->rank, c->size);
    return n ? submit(c, calls, n) : 0;
}

int comm_start(struct drover_comm *c, struct backend_call *call)
{
    int rc = check(c, call);
    if (rc < 0)
        return err_wrap(c->err, "%s", collective_name(call->coll));
    if (call->count == 0 && collective_counts(call->coll))
        return 0;
    call->factor = c->factor;
    c->last.coll = call->coll;
    c->last.type = call->type;
    c->last.count = call->count;
    c->calls++;
    comm_trace_call(c->trace, call);
    rc = c->native_mask >> call->coll & 1 ? submit(c, call, 1) : submit_expanded(c, call);
    if (rc == 0)
        collective_trace_pending(c->trace);
    else if (!c->unusable)
        collective_trace_refused(c->trace);
    return rc;
}

int drover_group_start(struct drover_comm *c)
{
    if (c->unusable)
        return err_set(c->err, -ESHUTDOWN, "group: the communicator has failed");
    if (c->depth++ == 0)
        c->group = c->len;
    return 0;
}

int drover_group_end(struct drover_comm *c)
{
    if (c->unusable)
        return err_set(c->err, -ESHUTDOWN, "group: the communicator has failed");
    if (c->depth == 0)
        return err_set(c->err, -EINVAL, "group end without group start");
    if (--c->depth > 0)
        return 0;
    int rc = advance(c);
    return rc < 0 && rc != -EINPROGRESS ? call_failed(c, rc) : 0;
}

int comm_check_idle(const struct drover_comm *c, const char *what)
{
    if (c->unusable)
        return err_set(c->err, -ESHUTDOWN, "%s: the communicator has failed or was aborted", what);
    if (c->depth)
        return err_set(c->err, -EINVAL, "%s: a group is open (see drover_group_end())", what);
    return 0;
}

static int progress(struct drover_comm *c)
{
    int rc = c->head < c->len ? advance(c) : 0;
    return rc < 0 ? rc : c->backend->poll(c->inner, c->err);
}

int drover_comm_poll(struct drover_comm *c)
{
    int rc = comm_check_idle(c, "poll");
    if (rc == 0 && (rc = progress(c)) < 0 && rc != -EINPROGRESS)
        rc = call_failed(c, rc);
    if (rc == 0)
        collective_trace_done(c->trace, clock_coarse_ms());
    return rc;
}

/* Lets other tasks run between two polls. Oversubscribed ranks sleep: if they only yielded to each
 * other, they could starve all other tasks, including the launcher, for a minute. This was seen on
 * Linux 6.18, whose scheduler loses count of such tasks. */
static void yield_core(const struct drover_comm *c, unsigned turn)
{
    if (c->oversubscribed)
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    else if (turn > SPINS)
        sched_yield();
}

int drover_wait(struct drover_comm *c, int64_t timeout_ms)
{
    int rc = comm_check_idle(c, "wait");
    if (rc < 0)
        return rc;
    if (timeout_ms <= 0)
        return err_set(c->err, -EINVAL, "wait: invalid timeout of %" PRId64 " ms", timeout_ms);
    /* The clock is read only while the calls are incomplete and may continue in the background. A
     * read after their completion would delay the caller. */
    int64_t start_ms = clock_coarse_ms(), now = start_ms;
    for (unsigned turn = 1; (rc = progress(c)) != 0; turn++) {
        if (rc != -EINPROGRESS)
            return call_failed(c, rc);
        if (now - start_ms >= timeout_ms) {
            err_set(c->err, -ETIMEDOUT, "not complete after %" PRId64 " ms", timeout_ms);
            err_hint(c->err, "check the other ranks: one exited, hangs, or made another call");
            return call_failed(c, -ETIMEDOUT);
        }
        yield_core(c, turn);
        now = clock_coarse_ms();
    }
    collective_trace_done(c->trace, now);
    return 0;
}

int drover_barrier(struct drover_comm *c, int64_t timeout_ms)
{
    int rc = comm_check_idle(c, "barrier");
    if (rc == 0)
        rc = comm_start(c, &(struct backend_call){.coll = COLLECTIVE_BARRIER});
    return rc < 0 ? rc : drover_wait(c, timeout_ms);
}

int drover_comm_abort(struct drover_comm *c)
{
    if (c->unusable)
        return 0;
    c->unusable = true;
    collective_trace_done(c->trace, clock_coarse_ms()); /* no rank waits for the calls any more */
    return c->backend->abort(c->inner);
}
