#include "collectives/comm.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "collectives/exchange.h"
#include "common/mem.h"
#include "launcher/client/client_inside.h"

enum { OPEN_MS = 60000, SPINS = 2000 };

struct drover_comm {
    struct drover *d;
    const struct backend *backend;
    struct backend_comm *inner;
    struct backend_call last; /* for messages */
    uint64_t calls;           /* started so far */
    bool dead;                /* aborted, or failed: only close may follow */
};

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static const char *pick(const struct drover *d, const struct drover_comm_opts *o)
{
    if (o->backend)
        return o->backend;
    /* A stream says that buffers are the GPU's, also where the job has one rank. */
    return o->stream ? "nccl" : drover_size(d) == 1 ? "self" : "mpi";
}

int drover_comm_open(struct drover_comm **out, struct drover *d, const struct drover_comm_opts *o)
{
    static const struct drover_comm_opts usual;
    if (!o)
        o = &usual;
    struct err *e = client_err(d);
    const struct backend *b = NULL;
    int rc = backend_load(&b, pick(d, o), e);
    if (rc < 0)
        return rc;
    AUTO(exchange) struct exchange *x = exchange_new(drover_rank(d), drover_size(d));
    struct backend_exchange table = exchange_table(x);
    struct backend_opts bo = {
        .rank = drover_rank(d),
        .size = drover_size(d),
        .local_rank = drover_local_rank(d),
        .device = o->device,
        .stream = o->stream,
        .lib_path = o->lib_path,
        .open_ms = o->open_ms > 0 ? o->open_ms : OPEN_MS,
        .exchange = &table,
    };
    struct backend_comm *inner = NULL;
    if ((rc = b->open(&inner, &bo, e)) < 0) {
        (void)err_wrap(e, "rank %d of %d: backend %s", bo.rank, bo.size, b->name);
        return rc;
    }
    struct drover_comm *c = xzalloc(sizeof *c);
    *c = (struct drover_comm){.d = d, .backend = b, .inner = inner};
    *out = c;
    return 0;
}

void drover_comm_close(struct drover_comm *c)
{
    if (!c)
        return;
    c->backend->close(c->inner);
    free(c);
}

const char *drover_comm_backend(const struct drover_comm *c)
{
    return c->backend->name;
}

const struct backend *comm_backend(const struct drover_comm *c)
{
    return c->backend;
}

struct backend_comm *comm_inner(const struct drover_comm *c)
{
    return c->inner;
}

/* Puts rank and call before what the backend said. Whatever failed, ranks may now disagree on what
 * comes next, so the communicator is over. */
static int failed(struct drover_comm *c, int rc)
{
    (void)err_wrap(client_err(c->d), "rank %d of %d: call %" PRIu64 ", %s of %zu %s",
                   drover_rank(c->d), drover_size(c->d), c->calls, backend_coll_name(c->last.coll),
                   c->last.count, backend_type_name(c->last.type));
    c->backend->abort(c->inner);
    c->dead = true;
    return rc;
}

static int check(const struct drover_comm *c, const struct backend_call *call, struct err *e)
{
    const char *what = backend_coll_name(call->coll);
    int rank = drover_rank(c->d), size = drover_size(c->d);
    if (c->dead)
        return err_set(e, -ESHUTDOWN, "%s: the communicator has failed or was aborted", what);
    if ((unsigned)call->type >= DROVER_TYPES)
        return err_set(e, -EINVAL, "%s: there is no type %d", what, (int)call->type);
    if ((unsigned)call->op >= DROVER_OPS)
        return err_set(e, -EINVAL, "%s: there is no operation %d", what, (int)call->op);
    if (call->root < 0 || call->root >= size)
        return err_set(e, -EINVAL, "%s: root %d is none of the %d ranks", what, call->root, size);
    size_t bytes = 0;
    if (__builtin_mul_overflow(call->count, backend_type_bytes(call->type), &bytes) ||
        __builtin_mul_overflow(bytes, (size_t)size, &bytes) || bytes > PTRDIFF_MAX)
        return err_set(e, -EOVERFLOW, "%s: %zu elements a rank do not fit into memory", what,
                       call->count);
    bool reads = call->coll != BACKEND_BROADCAST || rank == call->root;
    bool writes = call->coll != BACKEND_REDUCE || rank == call->root;
    if (call->count && ((reads && !call->in) || (writes && !call->out)))
        return err_set(e, -EINVAL, "%s: no buffer was given", what);
    if (call->coll == BACKEND_ALL_TO_ALL && call->in == call->out && call->count && size > 1 &&
        (c->backend->caps(c->inner) & BACKEND_NO_INPLACE_A2A))
        return err_set(e, -ENOTSUP, "%s: %s cannot do it in place", what, c->backend->name);
    return 0;
}

int comm_start(struct drover_comm *c, const struct backend_call *call)
{
    struct err *e = client_err(c->d);
    int rc = check(c, call, e);
    if (rc < 0 || (call->count == 0 && call->coll != BACKEND_BARRIER))
        return rc;
    c->last = *call;
    c->calls++;
    rc = c->backend->start(c->inner, call, e);
    return rc < 0 ? failed(c, rc) : 0;
}

int comm_start_barrier(struct drover_comm *c)
{
    return comm_start(c, &(struct backend_call){.coll = BACKEND_BARRIER});
}

int drover_all_reduce(struct drover_comm *c, const void *in, void *out, size_t n,
                      enum drover_type t, enum drover_op op)
{
    return comm_start(c, &(struct backend_call){BACKEND_ALL_REDUCE, in, out, n, t, op, 0});
}

int drover_broadcast(struct drover_comm *c, const void *in, void *out, size_t n, enum drover_type t,
                     int root)
{
    return comm_start(c, &(struct backend_call){BACKEND_BROADCAST, in, out, n, t, 0, root});
}

int drover_reduce(struct drover_comm *c, const void *in, void *out, size_t n, enum drover_type t,
                  enum drover_op op, int root)
{
    return comm_start(c, &(struct backend_call){BACKEND_REDUCE, in, out, n, t, op, root});
}

int drover_all_gather(struct drover_comm *c, const void *in, void *out, size_t n,
                      enum drover_type t)
{
    return comm_start(c, &(struct backend_call){BACKEND_ALL_GATHER, in, out, n, t, 0, 0});
}

int drover_reduce_scatter(struct drover_comm *c, const void *in, void *out, size_t n,
                          enum drover_type t, enum drover_op op)
{
    return comm_start(c, &(struct backend_call){BACKEND_REDUCE_SCATTER, in, out, n, t, op, 0});
}

int drover_all_to_all(struct drover_comm *c, const void *in, void *out, size_t n,
                      enum drover_type t)
{
    return comm_start(c, &(struct backend_call){BACKEND_ALL_TO_ALL, in, out, n, t, 0, 0});
}

int drover_wait(struct drover_comm *c, int64_t timeout_ms)
{
    struct err *e = client_err(c->d);
    if (c->dead)
        return err_set(e, -ESHUTDOWN, "wait: the communicator has failed or was aborted");
    if (timeout_ms <= 0)
        return err_set(e, -EINVAL, "wait: a deadline of %" PRId64 " ms", timeout_ms);
    int64_t end = now_ms() + timeout_ms;
    for (unsigned turn = 1;; turn++) {
        int rc = c->backend->poll(c->inner, e);
        if (rc == 0)
            return 0;
        if (rc != -EINPROGRESS)
            return failed(c, rc);
        if (turn % 64 == 0 && now_ms() >= end) {
            err_set(e, -ETIMEDOUT, "not done after %" PRId64 " ms", timeout_ms);
            err_hint(e, "look at the other ranks: one ended, hangs, or called something else");
            return failed(c, -ETIMEDOUT);
        }
        if (turn > SPINS)
            sched_yield(); /* the rank that is awaited may need this very core */
    }
}

int drover_barrier(struct drover_comm *c, int64_t timeout_ms)
{
    int rc = comm_start_barrier(c);
    return rc < 0 ? rc : drover_wait(c, timeout_ms);
}

int drover_comm_abort(struct drover_comm *c)
{
    if (c->dead)
        return 0;
    c->dead = true;
    return c->backend->abort(c->inner);
}
