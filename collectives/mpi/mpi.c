/* mpi - the plug-in for collectives on the CPU, by MPI's non-blocking calls.
 *
 * Calls stand in a queue and are given to MPI one after the other, so that a call may use what the
 * one before it makes, as on a CUDA stream. Only poll() moves the queue on: MPI has no thread. */
#include <errno.h>
#include <limits.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "collectives/backend.h"
#include "collectives/mpi/mpi_ops.h"
#include "collectives/mpi/mpi_session.h"
#include "common/mem.h"

enum { CHUNK = 1 << 30 }; /* elements in one call of MPI's, which counts in ints */

struct job {
    struct backend_call call;
    MPI_Request request;
    bool issued;
    void *temp; /* input or output, where MPI may not work in place */
};

struct backend_comm {
    MPI_Comm comm;
    int rank, size;
    struct job *queue; /* head … len is to be done, or under way */
    size_t head, len, cap;
    bool aborted;
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
};

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int check_world(const struct backend_opts *o, struct err *e)
{
    int rank = 0, size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (size == o->size && rank == o->rank)
        return 0;
    if (size == 1) {
        err_set(e, -EPROTO, "MPI runs alone, as rank 0 of 1: it found no launcher that it knows");
        return err_hint(e, "start the job with drover run (PMIx on) or with Open MPI's mpirun");
    }
    err_set(e, -EPROTO, "MPI says rank %d of %d", rank, size);
    return err_hint(e, "RANK and WORLD_SIZE in the environment are another launcher's");
}

/* A communicator of our own, so that a program's own calls of MPI are never mixed up with ours. */
static int duplicate(struct backend_comm *c, int64_t end_ms, struct err *e)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_Comm_idup(MPI_COMM_WORLD, &c->comm, &request);
    int done = 0;
    while (code == MPI_SUCCESS && !done) {
        code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (code == MPI_SUCCESS && !done && now_ms() >= end_ms)
            return err_set(e, -ETIMEDOUT, "not every rank opened the communicator in time");
    }
    if (code == MPI_SUCCESS)
        code = MPI_Comm_set_errhandler(c->comm, MPI_ERRORS_RETURN);
    return code == MPI_SUCCESS ? 0 : mpi_failed(e, code, "a communicator");
}

static void read_version(char *out)
{
    int len = 0;
    MPI_Get_library_version(out, &len);
    out[strcspn(out, ",\n")] = '\0'; /* "Open MPI v4.1.4, package: …" */
}

static int mpi_open(struct backend_comm **out, const struct backend_opts *o, struct err *e)
{
    int64_t end_ms = now_ms() + o->open_ms;
    int rc = mpi_session_enter(o->open_ms, e);
    if (rc < 0)
        return rc;
    struct backend_comm *c = xzalloc(sizeof *c);
    *c = (struct backend_comm){.comm = MPI_COMM_NULL, .rank = o->rank, .size = o->size};
    rc = check_world(o, e);
    if (rc == 0)
        rc = duplicate(c, end_ms, e);
    if (rc < 0) {
        mpi_session_leave(false);
        free(c);
        return rc;
    }
    read_version(c->version);
    *out = c;
    return 0;
}

static void mpi_close(struct backend_comm *c)
{
    bool clean = !c->aborted && c->head == c->len;
    if (clean)
        MPI_Comm_free(&c->comm);
    mpi_session_leave(clean);
    free(c->queue);
    free(c);
}

/* What MPI may not work on in place goes through a buffer. */
static int take_temp(struct job *j, size_t bytes, struct err *e)
{
    j->temp = try_calloc(bytes, 1);
    if (!j->temp)
        return err_set(e, -ENOMEM, "no memory for a copy of %zu bytes", bytes);
    return 0;
}

static int issue_reduction(struct backend_comm *c, struct job *j, struct err *e)
{
    const struct backend_call *call = &j->call;
    MPI_Datatype type = mpi_type(call->type);
    MPI_Op op;
    int n = (int)call->count, code = 0;
    int rc = mpi_op(&op, call->type, call->op, e);
    if (rc < 0)
        return rc;
    const void *in = call->in == call->out ? MPI_IN_PLACE : call->in;
    if (call->coll == BACKEND_ALL_REDUCE) {
        code = MPI_Iallreduce(in, call->out, n, type, op, c->comm, &j->request);
    } else if (call->coll == BACKEND_REDUCE) {
        bool root = c->rank == call->root;
        code = MPI_Ireduce(root ? in : call->in, root ? call->out : NULL, n, type, op, call->root,
                           c->comm, &j->request);
    } else {
        /* In place, `out` is this rank's part of `in`, which MPI would have at its beginning. */
        size_t bytes = call->count * backend_type_bytes(call->type);
        bool own = call->out == (const char *)call->in + (size_t)c->rank * bytes;
        if (own && (rc = take_temp(j, bytes, e)) < 0)
            return rc;
        code = MPI_Ireduce_scatter_block(call->in, own ? j->temp : call->out, n, type, op, c->comm,
                                         &j->request);
    }
    return code == MPI_SUCCESS ? 0 : mpi_failed(e, code, backend_coll_name(call->coll));
}

static int issue_movement(struct backend_comm *c, struct job *j, struct err *e)
{
    const struct backend_call *call = &j->call;
    MPI_Datatype type = mpi_type(call->type);
    size_t bytes = call->count * backend_type_bytes(call->type);
    int n = (int)call->count, code = 0, rc = 0;
    const void *in = call->in;
    switch (call->coll) {
    case BACKEND_BROADCAST:
        if (c->rank == call->root && in != call->out)
            memmove(call->out, in, bytes);
        code = MPI_Ibcast(call->out, n, type, call->root, c->comm, &j->request);
        break;
    case BACKEND_ALL_GATHER:
        if (in == (char *)call->out + (size_t)c->rank * bytes)
            in = MPI_IN_PLACE;
        code = MPI_Iallgather(in, n, type, call->out, n, type, c->comm, &j->request);
        break;
    case BACKEND_ALL_TO_ALL:
        if (in == call->out) {
            if ((rc = take_temp(j, bytes * (size_t)c->size, e)) < 0)
                return rc;
            in = memcpy(j->temp, in, bytes * (size_t)c->size);
        }
        code = MPI_Ialltoall(in, n, type, call->out, n, type, c->comm, &j->request);
        break;
    default:
        code = MPI_Ibarrier(c->comm, &j->request);
        break;
    }
    return code == MPI_SUCCESS ? 0 : mpi_failed(e, code, backend_coll_name(call->coll));
}

static bool reduces(enum backend_coll coll)
{
    return coll == BACKEND_ALL_REDUCE || coll == BACKEND_REDUCE || coll == BACKEND_REDUCE_SCATTER;
}

static int issue(struct backend_comm *c, struct job *j, struct err *e)
{
    j->issued = true;
    return reduces(j->call.coll) ? issue_reduction(c, j, e) : issue_movement(c, j, e);
}

static void finish(struct backend_comm *c, struct job *j)
{
    const struct backend_call *call = &j->call;
    if (j->temp && call->coll == BACKEND_REDUCE_SCATTER)
        memcpy(call->out, j->temp, call->count * backend_type_bytes(call->type));
    free(j->temp);
    bool has_result = call->coll != BACKEND_REDUCE || c->rank == call->root;
    if (reduces(call->coll) && call->op == DROVER_AVG && has_result)
        mpi_average(call->out, call->count, call->type, c->size);
}

static int mpi_poll(struct backend_comm *c, struct err *e)
{
    while (c->head < c->len) {
        struct job *j = &c->queue[c->head];
        int rc = j->issued ? 0 : issue(c, j, e), done = 0;
        if (rc < 0)
            return rc;
        int code = MPI_Test(&j->request, &done, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS)
            return mpi_failed(e, code, backend_coll_name(j->call.coll));
        if (!done)
            return -EINPROGRESS;
        finish(c, j);
        c->head++;
    }
    c->head = c->len = 0;
    return 0;
}

static void push(struct backend_comm *c, const struct backend_call *call)
{
    if (c->len == c->cap) {
        c->cap = c->cap ? 2 * c->cap : 16;
        c->queue = xrealloc(c->queue, c->cap, sizeof *c->queue);
    }
    c->queue[c->len++] = (struct job){.call = *call, .request = MPI_REQUEST_NULL};
}

static int mpi_start(struct backend_comm *c, const struct backend_call *call, struct err *e)
{
    bool in_parts = call->coll == BACKEND_ALL_REDUCE || call->coll == BACKEND_REDUCE ||
                    call->coll == BACKEND_BROADCAST;
    if (!in_parts && call->count > INT_MAX)
        return err_set(e, -EOVERFLOW, "MPI counts to %d elements a rank", INT_MAX);
    struct backend_call part = *call;
    size_t left = call->count;
    do {
        part.count = left < CHUNK || !in_parts ? left : CHUNK;
        push(c, &part);
        size_t bytes = part.count * backend_type_bytes(part.type);
        part.in = part.in ? (const char *)part.in + bytes : NULL;
        part.out = part.out ? (char *)part.out + bytes : NULL;
        left -= part.count;
    } while (left > 0);
    int rc = mpi_poll(c, e); /* it may begin at once, and what waits moves on */
    return rc == -EINPROGRESS ? 0 : rc;
}

/* MPI cannot take back what it was given: its requests and buffers are left to it for good. */
static int mpi_abort(struct backend_comm *c)
{
    c->aborted = true;
    return 0;
}

static int mpi_mem_alloc(struct backend_comm *c, size_t bytes, void **out, struct err *e)
{
    void *p = NULL;
    if (posix_memalign(&p, 64, bytes ? bytes : 1) != 0)
        return err_set(e, -ENOMEM, "no memory for a buffer of %zu bytes", bytes);
    *out = p;
    return 0;
}

static void mpi_mem_free(struct backend_comm *c, void *p)
{
    free(p);
}

static int mpi_copy(struct backend_comm *c, void *to, const void *from, size_t bytes, struct err *e)
{
    memcpy(to, from, bytes);
    return 0;
}

static unsigned mpi_caps(const struct backend_comm *c)
{
    return 0;
}

static const char *mpi_version(const struct backend_comm *c)
{
    return c->version;
}

DROVER_API extern const struct backend drover_backend;
const struct backend drover_backend = {
    .abi = BACKEND_ABI,
    .name = "mpi",
    .open = mpi_open,
    .close = mpi_close,
    .start = mpi_start,
    .poll = mpi_poll,
    .abort = mpi_abort,
    .mem_alloc = mpi_mem_alloc,
    .mem_free = mpi_mem_free,
    .copy_in = mpi_copy,
    .copy_out = mpi_copy,
    .caps = mpi_caps,
    .version = mpi_version,
};
