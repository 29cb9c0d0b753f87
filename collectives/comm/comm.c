#include "collectives/comm/comm.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collectives/bootstrap/bootstrap.h"
#include "collectives/comm/comm_trace.h"
#include "collectives/comm/p2p_fallback.h"
#include "collectives/comm/subgroup.h"
#include "common/clock.h"
#include "common/mem.h"
#include "launcher/client/client_internal.h"

enum { OPEN_MS = 60000, SPINS = 2000, NAP_NS = 20000 };

struct drover_comm {
    struct drover *d;
    struct err *err; /* d's */
    const struct backend *backend;
    struct backend_comm *inner;
    int rank, size;
    unsigned caps, native_mask; /* bits: enum backend_caps; the collectives that the backend has */
    double factor;
    bool crowded;               /* this node has more ranks than cores */
    struct backend_call *queue; /* head … len could not be started yet */
    size_t head, len, cap;
    int depth;    /* of groups */
    size_t group; /* where the open one begins in the queue */
    struct {
        enum collective coll;
        size_t count;
        enum drover_type type;
    } last;                              /* for messages */
    uint64_t calls;                      /* made so far */
    struct collective_trace_comm *notes; /* what the launcher sees of it; may be NULL */
    bool dead;                           /* aborted, or failed: only close and shrink may follow */
    int64_t open_ms;
    unsigned parts; /* made of it so far */
    char name[COLLECTIVE_TRACE_NAME_BYTES];
};

static const char *pick(const struct drover *d, const struct drover_comm_opts *o)
{
    if (o->backend)
        return o->backend;
    /* A stream says that buffers are the GPU's, also where the job has one rank. */
    return o->stream ? "nccl" : drover_size(d) == 1 ? "self" : "mpi";
}

/* The collectives that the backend has a call for; the others are made of sends and receives. */
static unsigned native_mask(unsigned caps)
{
    unsigned mask = 0;
    for (int i = 0; i < COLLECTIVES; i++)
        if ((collective_rows[i].native_cap & ~caps) == 0)
            mask |= 1u << i;
    return mask;
}

static struct drover_comm *comm_new(struct drover *d, const struct backend *b,
                                    struct backend_comm *inner, int rank, int size,
                                    const char *name)
{
    struct drover_comm *c = xzalloc(sizeof *c);
    *c = (struct drover_comm){
        .d = d, .err = client_err(d), .backend = b, .inner = inner, .rank = rank, .size = size};
    c->factor = 1;
    c->caps = b->caps(inner);
    c->native_mask = native_mask(c->caps);
    snprintf(c->name, sizeof c->name, "%s", name);
    c->notes = comm_trace_open(c->name, rank, size);
    /* With more ranks than cores, the one that is awaited needs this very core. */
    c->crowded = drover_local_size(d) > sysconf(_SC_NPROCESSORS_ONLN);
    return c;
}

int drover_comm_open(struct drover_comm **out, struct drover *d, const struct drover_comm_opts *o)
{
    static const struct drover_comm_opts usual = {.device = -1};
    if (!o)
        o = &usual;
    struct err *e = client_err(d);
    const struct backend *b = NULL;
    int rc = backend_load(&b, pick(d, o), e);
    if (rc < 0)
        return rc;
    AUTO(bootstrap) struct bootstrap *x = bootstrap_new(client_who(d));
    struct backend_opts bo = {
        .rank = drover_rank(d),
        .size = drover_size(d),
        .local_rank = drover_local_rank(d),
        .device = o->device,
        .stream = o->stream,
        .lib_path = o->lib_path,
        .open_ms = o->open_ms > 0 ? o->open_ms : OPEN_MS,
        .exchange = bootstrap_table(x),
    };
    struct backend_comm *inner = NULL;
    if ((rc = b->open(&inner, &bo, e)) < 0) {
        (void)err_wrap(e, "rank %d of %d: backend %s", bo.rank, bo.size, b->name);
        return rc;
    }
    static unsigned opened; /* all ranks open theirs in the same order */
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
    collective_trace_close(c->notes);
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
        return err_set(c->err, -EINVAL, "a factor of %g", factor);
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

/* Whatever failed, ranks may now disagree on what comes next, so the communicator is over. */
static int fail_comm(struct drover_comm *c, int rc)
{
    collective_trace_failed(c->notes, rc);
    c->backend->abort(c->inner);
    c->dead = true;
    return rc;
}

/* Puts rank and call before what the backend said. */
static int failed(struct drover_comm *c, int rc)
{
    (void)err_wrap(c->err, "rank %d of %d: call %" PRIu64 ", %s of %zu %s", c->rank, c->size,
                   c->calls, collective_name(c->last.coll), c->last.count,
                   backend_type_name(c->last.type));
    return fail_comm(c, rc);
}

static int check_peer(const struct drover_comm *c, const struct backend_call *k)
{
    bool peer = collective_row(k->coll)->to_peer;
    if ((unsigned)k->root >= (unsigned)c->size)
        return err_set(c->err, -EINVAL, "%s %d is none of the %d ranks", peer ? "rank" : "root",
                       k->root, c->size);
    if (peer && k->root == c->rank && !c->depth) {
        err_set(c->err, -EINVAL, "to itself a rank sends in a group only");
        return err_hint(c->err, "between drover_group_start() and drover_group_end()");
    }
    return 0;
}

static int check_size(const struct drover_comm *c, const struct backend_call *k, size_t elements,
                      size_t times)
{
    size_t bytes = 0;
    if (__builtin_mul_overflow(elements, backend_type_bytes(k->type) * times, &bytes) ||
        bytes > PTRDIFF_MAX)
        return err_set(c->err, -EOVERFLOW, "%zu elements a rank do not fit into memory", elements);
    return 0;
}

static int check_parts(const struct drover_comm *c, const struct backend_call *k,
                       const struct drover_parts *p, const void *buffer)
{
    for (int r = 0; r < c->size; r++) {
        size_t end = 0;
        if (p->counts[r] && !buffer)
            return err_set(c->err, -EINVAL, "no buffer was given");
        if (__builtin_add_overflow(p->counts[r], p->starts[r], &end))
            end = SIZE_MAX;
        int rc = check_size(c, k, end, 1);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* comm_start() puts the collective's name before what these say. */
static int check(const struct drover_comm *c, const struct backend_call *k)
{
    if (c->dead)
        return err_set(c->err, -ESHUTDOWN, "the communicator has failed or was aborted");
    if ((unsigned)k->type >= DROVER_TYPES)
        return err_set(c->err, -EINVAL, "there is no type %d", (int)k->type);
    if ((unsigned)k->op >= DROVER_OPS)
        return err_set(c->err, -EINVAL, "there is no operation %d", (int)k->op);
    if (k->type >= DROVER_F8E4M3 && !(c->caps & BACKEND_FP8)) {
        err_set(c->err, -ENOTSUP, "%s has no %s here", c->backend->name,
                backend_type_name(k->type));
        return err_hint(c->err, "8-bit floats need NCCL 2.24 and a GPU of compute capability 9.0");
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
        return err_set(c->err, -EINVAL, "no buffer was given");
    if ((row->in_place_refusal & c->caps) && k->in == k->out && k->count && c->size > 1)
        return err_set(c->err, -ENOTSUP, "%s cannot do it in place", c->backend->name);
    return 0;
}

/* Hands the backend what it will take now, but not of a group that is still open. */
static int advance(struct drover_comm *c)
{
    size_t end = c->depth ? c->group : c->len;
    while (c->head < end) {
        size_t n = 1;
        while (c->head + n < end && c->queue[c->head + n].joined)
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
        c->queue[c->len].joined = i > 0 || (c->depth && c->len > c->group);
    }
}

static int submit_later(struct drover_comm *c, const struct backend_call *calls, size_t n)
{
    enqueue(c, calls, n);
    int rc = advance(c);
    return rc < 0 && rc != -EINPROGRESS ? failed(c, rc) : 0;
}

/* Now, or when what is before it allows. */
static inline int submit(struct drover_comm *c, const struct backend_call *calls, size_t n)
{
    if (c->depth || c->head < c->len)
        return submit_later(c, calls, n);
    int rc = c->backend->start(c->inner, calls, n, c->err);
    if (rc == 0 || rc == -ENOTSUP || rc == -EOVERFLOW)
        return rc; /* begun; or refused: nobody has begun anything */
    return rc == -EAGAIN ? submit_later(c, calls, n) : failed(c, rc);
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
    comm_trace_call(c->notes, call);
    rc = c->native_mask >> call->coll & 1 ? submit(c, call, 1) : submit_expanded(c, call);
    if (rc == 0)
        collective_trace_pending(c->notes);
    else if (!c->dead)
        collective_trace_refused(c->notes);
    return rc;
}

int drover_group_start(struct drover_comm *c)
{
    if (c->dead)
        return err_set(c->err, -ESHUTDOWN, "group: the communicator has failed");
    if (c->depth++ == 0)
        c->group = c->len;
    return 0;
}

int drover_group_end(struct drover_comm *c)
{
    if (c->dead)
        return err_set(c->err, -ESHUTDOWN, "group: the communicator has failed");
    if (c->depth == 0)
        return err_set(c->err, -EINVAL, "group: none was begun");
    if (--c->depth > 0)
        return 0;
    int rc = advance(c);
    return rc < 0 && rc != -EINPROGRESS ? failed(c, rc) : 0;
}

static int check_idle(const struct drover_comm *c, const char *what)
{
    if (c->dead)
        return err_set(c->err, -ESHUTDOWN, "%s: the communicator has failed or was aborted", what);
    if (c->depth)
        return err_set(c->err, -EINVAL, "%s: a group is open; end it first", what);
    return 0;
}

static int progress(struct drover_comm *c)
{
    int rc = c->head < c->len ? advance(c) : 0;
    return rc < 0 ? rc : c->backend->poll(c->inner, c->err);
}

int drover_comm_poll(struct drover_comm *c)
{
    int rc = check_idle(c, "poll");
    if (rc == 0 && (rc = progress(c)) < 0 && rc != -EINPROGRESS)
        rc = failed(c, rc);
    if (rc == 0)
        collective_trace_done(c->notes, clock_coarse_ms());
    return rc;
}

/* Between two looks. Ranks that only yield to each other can starve everybody else, the launcher
 * too, for a minute: seen on Linux 6.18, whose scheduler loses count of such tasks. */
static void give_core(const struct drover_comm *c, unsigned turn)
{
    if (c->crowded)
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    else if (turn > SPINS)
        sched_yield();
}

int drover_wait(struct drover_comm *c, int64_t timeout_ms)
{
    int rc = check_idle(c, "wait");
    if (rc < 0)
        return rc;
    if (timeout_ms <= 0)
        return err_set(c->err, -EINVAL, "wait: a deadline of %" PRId64 " ms", timeout_ms);
    int64_t begun = clock_coarse_ms(), now = begun; /* read while the work goes on, as below */
    for (unsigned turn = 1; (rc = progress(c)) != 0; turn++) {
        if (rc != -EINPROGRESS)
            return failed(c, rc);
        if (now - begun >= timeout_ms) {
            err_set(c->err, -ETIMEDOUT, "not done after %" PRId64 " ms", timeout_ms);
            err_hint(c->err, "look at the other ranks: one ended, hangs, or called something else");
            return failed(c, -ETIMEDOUT);
        }
        give_core(c, turn);
        now = clock_coarse_ms();
    }
    collective_trace_done(c->notes, now);
    return 0;
}

int drover_barrier(struct drover_comm *c, int64_t timeout_ms)
{
    int rc = check_idle(c, "barrier");
    if (rc == 0)
        rc = comm_start(c, &(struct backend_call){.coll = COLLECTIVE_BARRIER});
    return rc < 0 ? rc : drover_wait(c, timeout_ms);
}

int drover_comm_abort(struct drover_comm *c)
{
    if (c->dead)
        return 0;
    c->dead = true;
    collective_trace_done(c->notes, clock_coarse_ms()); /* nobody waits for it any more */
    return c->backend->abort(c->inner);
}

int comm_gather(struct drover_comm *c, const void *mine, size_t bytes, void *all, int64_t wait_ms)
{
    struct err *e = c->err;
    const struct backend *b = c->backend;
    void *in = NULL, *out = NULL;
    int rc = b->mem_alloc(c->inner, bytes, BACKEND_SCRATCH, &in, e);
    if (rc == 0)
        rc = b->mem_alloc(c->inner, bytes * (size_t)c->size, BACKEND_SCRATCH, &out, e);
    if (rc == 0)
        rc = b->copy_in(c->inner, in, mine, bytes, e);
    if (rc == 0)
        rc = drover_all_gather(c, in, out, bytes, DROVER_UINT8);
    if (rc == 0)
        rc = drover_wait(c, wait_ms);
    if (rc == 0)
        rc = b->copy_out(c->inner, all, out, bytes * (size_t)c->size, e);
    if (c->dead)
        return rc; /* what was given up may still be written to */
    if (in)
        b->mem_free(c->inner, in);
    if (out)
        b->mem_free(c->inner, out);
    return rc;
}

/* The new communicator, which may be none. */
static int make_part(struct drover_comm **out, struct drover_comm *c, struct backend_subgroup *p,
                     const char *what)
{
    struct err *e = c->err;
    struct backend_comm *inner = NULL;
    p->rank = subgroup_index(p->members, p->size, c->rank);
    p->open_ms = c->open_ms;
    int rc = c->backend->part(&inner, c->inner, p, e);
    if (rc < 0) {
        (void)err_wrap(e, "rank %d of %d: %s", c->rank, c->size, what);
        return rc == -ENOTSUP ? rc : fail_comm(c, rc);
    }
    char name[COLLECTIVE_TRACE_NAME_BYTES];
    snprintf(name, sizeof name, "%.20s/%s %u.%d", c->name, what, ++c->parts, p->color);
    *out = inner ? comm_new(c->d, c->backend, inner, p->rank, p->size, name) : NULL;
    if (*out)
        (*out)->open_ms = c->open_ms;
    return 0;
}

int drover_comm_split(struct drover_comm **out, struct drover_comm *c, int color, int key)
{
    struct err *e = c->err;
    int rc = check_idle(c, "split");
    if (rc < 0)
        return rc;
    if (color < DROVER_NO_COLOR)
        return err_set(e, -EINVAL, "split: a colour is 0 or more, or DROVER_NO_COLOR; not %d",
                       color);
    /* All ranks meet here by the deadline; what follows may then be without one. */
    AUTO(free) struct subgroup_key *wishes = xcalloc((size_t)c->size, sizeof *wishes);
    struct subgroup_key mine = {color, key};
    if ((rc = comm_gather(c, &mine, sizeof mine, wishes, c->open_ms)) < 0)
        return rc;
    AUTO(free) int *members = xcalloc((size_t)c->size, sizeof *members);
    struct backend_subgroup p = {.members = members, .color = color, .key = key};
    p.size = subgroup_split(members, wishes, c->size, c->rank);
    return make_part(out, c, &p, "split");
}

int drover_comm_shrink(struct drover_comm **out, struct drover_comm *c, const int *without, int n)
{
    struct err *e = c->err;
    if (n < 0 || (n > 0 && !without))
        return err_set(e, -EINVAL, "shrink: no list of %d ranks was given", n);
    AUTO(free) int *members = xcalloc((size_t)c->size, sizeof *members);
    int left = subgroup_shrink(members, without, n, c->size, c->rank, e);
    if (left < 0)
        return err_wrap(e, "shrink");
    static const int nobody;
    struct backend_subgroup p = {.members = members, .size = left, .n_without = n};
    p.without = without ? without : &nobody;
    int rc = make_part(out, c, &p, "shrink");
    c->dead |= rc == 0;
    return rc;
}
