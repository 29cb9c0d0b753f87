/* backend_mpi - the plug-in for collectives on the CPU, with MPI's non-blocking functions.
 *
 * Calls of a group are passed to MPI together. Later calls are passed on when the earlier ones are
 * complete, since a call may use the result of the call before it, as on a CUDA stream. Work
 * progresses only in poll() and start(), since MPI has no thread of its own. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif

#include "collectives/backends/mpi/mpi_session.h"
#include "collectives/backends/mpi/mpi_types.h"
#include "collectives/comm/backend.h"
#include "collectives/comm/premul.h"
#include "common/clock.h"
#include "common/dl.h"
#include "common/mem.h"

/* CHUNK: limit on the elements per MPI call, since MPI counts in int; longer calls are divided.
 * POLLS: number of tests of the pending calls per poll(). */
enum { CHUNK = 1 << 30, POLLS = 16 };

/* Marks functions that are not inlined, so that the functions on the path of every call save fewer
 * registers. */
#define RARE __attribute__((noinline))

struct pending { /* a started call */
    enum drover_type type;
    enum drover_op op;
    size_t count;
    void *out;  /* NULL: no output on this rank */
    void *temp; /* copy of the input or output, if MPI cannot work in place */
    enum collective coll;
};

struct backend_comm {
    MPI_Comm comm;
    int rank, size;
    struct pending *pending; /* n calls; requests[i] belongs to pending[i] */
    MPI_Request *requests;
    size_t n, cap;
    bool aborted;
    bool cuda_loaded; /* buffers may be on a GPU */
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
};

/* ---- buffers on a GPU, which only a CUDA-aware MPI supports -----------------------------------
 */

/* The type of cuPointerGetAttribute(), and the values of CU_POINTER_ATTRIBUTE_MEMORY_TYPE and
 * CU_MEMORYTYPE_DEVICE (cuda.h; unchanged since CUDA 4). The function fails for memory that CUDA
 * does not know. */
typedef int get_attribute_fn(void *value, int attribute, unsigned long long p);
enum { MEMORY_TYPE = 2, IS_DEVICE = 2 };

static get_attribute_fn *get_attribute;

/* Returns true if CUDA's driver library is loaded in this process. Called when a communicator is
 * opened: a program that uses a GPU has then loaded the library. This function does not load it. */
static bool find_driver(void)
{
    static const struct dl_symbol symbols[] = {{"cuPointerGetAttribute", 0, DL_REQUIRED}};
    static const struct dl_library library = {.names = {"libcuda.so.1"},
                                              .flags = RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD,
                                              DL_SYMBOLS(symbols)};
    return get_attribute || dl_load(&get_attribute, NULL, &library, NULL) == 0;
}

static bool is_on_device(const void *p)
{
    unsigned type = 0;
    return get_attribute && p &&
           get_attribute(&type, MEMORY_TYPE, (unsigned long long)(uintptr_t)p) == 0 &&
           type == IS_DEVICE;
}

static bool is_cuda_aware(void)
{
#ifdef MPIX_CUDA_AWARE_SUPPORT
    return MPIX_Query_cuda_support() == 1;
#else
    return false;
#endif
}

/* ---- communicators ----------------------------------------------------------------------------
 */

static int check_ranks(const struct backend_opts *o, struct err *e)
{
    int rank = 0, size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (size == o->size && rank == o->rank)
        return 0;
    if (size == 1) {
        err_set(e, -EPROTO,
                "MPI runs alone, as rank 0 of 1: it found no launcher that it supports");
        return err_hint(e, "start the job with drover run (PMIx on) or with Open MPI's mpirun");
    }
    err_set(e, -EPROTO, "MPI reports rank %d of %d, the environment rank %d of %d", rank, size,
            o->rank, o->size);
    return err_hint(e, "unset RANK and WORLD_SIZE if they are from another launcher");
}

/* Duplicates the communicator, so that the program's MPI calls never match drover's. */
static int duplicate(struct backend_comm *c, int64_t end_ms, struct err *e)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_Comm_idup(MPI_COMM_WORLD, &c->comm, &request);
    int done = 0;
    while (code == MPI_SUCCESS && !done) {
        code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (code == MPI_SUCCESS && !done && clock_ms() >= end_ms)
            return err_set(e, -ETIMEDOUT, "not all ranks opened the communicator in time");
    }
    if (code == MPI_SUCCESS)
        code = MPI_Comm_set_errhandler(c->comm, MPI_ERRORS_RETURN);
    return code == MPI_SUCCESS ? 0 : mpi_session_failed(e, code, "duplicating the communicator");
}

static void read_version(char *out)
{
    int len = 0;
    MPI_Get_library_version(out, &len);
    out[strcspn(out, ",\n")] = '\0'; /* "Open MPI v4.1.4, package: …" */
}

static int mpi_open(struct backend_comm **out, const struct backend_opts *o, struct err *e)
{
    int64_t end_ms = clock_ms() + o->open_ms;
    int rc = mpi_session_enter(o->open_ms, e);
    if (rc < 0)
        return rc;
    struct backend_comm *c = xzalloc(sizeof *c);
    *c = (struct backend_comm){.comm = MPI_COMM_NULL, .rank = o->rank, .size = o->size};
    rc = check_ranks(o, e);
    if (rc == 0)
        rc = duplicate(c, end_ms, e);
    if (rc < 0) {
        mpi_session_leave(false);
        free(c);
        return rc;
    }
    read_version(c->version);
    c->cuda_loaded = find_driver();
    *out = c;
    return 0;
}

static void mpi_close(struct backend_comm *c)
{
    bool clean = !c->aborted && c->n == 0;
    if (clean)
        MPI_Comm_free(&c->comm);
    mpi_session_leave(clean);
    if (clean) { /* otherwise MPI may still use them */
        free(c->pending);
        free(c->requests);
    }
    free(c);
}

/* The arguments and the result of create(). MPI_Comm_create_group() is called by the members only,
 * so it does not wait for ranks that have exited. */
struct creation {
    MPI_Comm from, made;
    MPI_Group group;
};

static int create(void *arg)
{
    struct creation *k = arg;
    return MPI_Comm_create_group(k->from, k->group, 0, &k->made);
}

static int mpi_subgroup(struct backend_comm **out, struct backend_comm *c,
                        const struct backend_subgroup *p, struct err *e)
{
    *out = NULL;
    if (p->size == 0)
        return 0;
    MPI_Group whole = MPI_GROUP_NULL;
    /* on the heap, since an abandoned thread may still use it */
    struct creation *k = xzalloc(sizeof *k);
    *k = (struct creation){.from = c->comm, .made = MPI_COMM_NULL, .group = MPI_GROUP_NULL};
    int code = MPI_Comm_group(c->comm, &whole);
    if (code == MPI_SUCCESS)
        code = MPI_Group_incl(whole, p->size, p->members, &k->group);
    if (code != MPI_SUCCESS)
        return mpi_session_failed(e, code, "creating a group");
    int rc = mpi_session_call(create, k, p->open_ms, "MPI_Comm_create_group", e);
    if (rc < 0)
        return rc;
    MPI_Group_free(&k->group);
    MPI_Group_free(&whole);
    MPI_Comm_set_errhandler(k->made, MPI_ERRORS_RETURN);
    mpi_session_hold();
    struct backend_comm *made = xzalloc(sizeof *made);
    *made = (struct backend_comm){
        .comm = k->made, .rank = p->rank, .size = p->size, .cuda_loaded = c->cuda_loaded};
    memcpy(made->version, c->version, sizeof made->version);
    free(k);
    *out = made;
    return 0;
}

/* Passes a call to MPI, with a temporary buffer if it needs one. Returns MPI's code, or a negative
 * errno if the reduction cannot be created. */
static int pass_to_mpi(struct backend_comm *c, const struct backend_call *k, void *temp,
                       struct err *e)
{
    MPI_Request *request = &c->requests[c->n];
    MPI_Datatype type = mpi_types_type(k->type);
    MPI_Op op = MPI_OP_NULL;
    int n = (int)k->count, root = k->root, rc;
    bool reduces = collective_reduces(k->coll), is_root = c->rank == root;
    size_t bytes = k->count * backend_type_bytes(k->type), own = (size_t)c->rank * bytes;
    const void *in = k->in;
    void *out = k->out;
    if (reduces && (rc = mpi_types_op(&op, k->type, k->op, e)) < 0)
        return rc;
    if (temp && reduces && k->op != DROVER_MULSUM)
        out = temp;
    else if (temp)
        in = temp;
    switch (k->coll) {
    case COLLECTIVE_ALL_REDUCE:
        return MPI_Iallreduce(in == out ? MPI_IN_PLACE : in, out, n, type, op, c->comm, request);
    case COLLECTIVE_REDUCE:
        out = is_root ? out : NULL;
        return MPI_Ireduce(in == out ? MPI_IN_PLACE : in, out, n, type, op, root, c->comm, request);
    case COLLECTIVE_REDUCE_SCATTER:
        return MPI_Ireduce_scatter_block(in, out, n, type, op, c->comm, request);
    case COLLECTIVE_ALL_GATHER:
        in = in == (char *)out + own ? MPI_IN_PLACE : in;
        return MPI_Iallgather(in, n, type, out, n, type, c->comm, request);
    case COLLECTIVE_GATHER:
        in = is_root && in == (char *)out + own ? MPI_IN_PLACE : in;
        return MPI_Igather(in, n, type, out, n, type, root, c->comm, request);
    case COLLECTIVE_SCATTER:
        out = is_root && out == (const char *)in + own ? MPI_IN_PLACE : out;
        return MPI_Iscatter(in, n, type, out, n, type, root, c->comm, request);
    case COLLECTIVE_ALL_TO_ALL:
        return MPI_Ialltoall(in, n, type, out, n, type, c->comm, request);
    case COLLECTIVE_BROADCAST:
        if (is_root && in != out)
            memmove(out, in, bytes);
        return MPI_Ibcast(out, n, type, root, c->comm, request);
    case COLLECTIVE_SEND:
        return MPI_Isend(in, n, type, root, 0, c->comm, request);
    case COLLECTIVE_RECV:
        return MPI_Irecv(out, n, type, root, 0, c->comm, request);
    default:
        return MPI_Ibarrier(c->comm, request);
    }
}

/* Returns true if MPI cannot work on the buffers directly. This is so for an all_to_all in place,
 * for a reduce_scatter in place (MPI requires the output at the start of the input), and for inputs
 * that must be multiplied first. */
static inline bool needs_temp(const struct backend_comm *c, const struct backend_call *k)
{
    if (!collective_reduces(k->coll))
        return k->coll == COLLECTIVE_ALL_TO_ALL && k->in == k->out;
    size_t own = (size_t)c->rank * k->count * backend_type_bytes(k->type);
    return k->op == DROVER_MULSUM ||
           (k->coll == COLLECTIVE_REDUCE_SCATTER && k->out == (const char *)k->in + own);
}

/* Returns a temporary buffer for MPI with a copy of the input, if it needs one, or NULL if there is
 * no memory. */
RARE static void *make_temp(const struct backend_comm *c, const struct backend_call *k,
                            struct err *e)
{
    bool multiplies = k->op == DROVER_MULSUM && collective_reduces(k->coll);
    bool parts =
        k->coll == COLLECTIVE_ALL_TO_ALL || (k->coll == COLLECTIVE_REDUCE_SCATTER && multiplies);
    size_t n = parts ? k->count * (size_t)c->size : k->count;
    size_t bytes = n * backend_type_bytes(k->type);
    void *temp = try_calloc(bytes, 1);
    if (!temp)
        err_set(e, -ENOMEM, "no memory for a temporary copy of %zu bytes", bytes);
    if (temp && (multiplies || parts))
        memcpy(temp, k->in, bytes);
    if (temp && multiplies)
        premul_apply(temp, n, k->type, k->factor);
    return temp;
}

static void grow(struct backend_comm *c)
{
    c->cap = c->cap ? 2 * c->cap : 16;
    c->pending = xrealloc(c->pending, c->cap, sizeof *c->pending);
    c->requests = xrealloc(c->requests, c->cap, sizeof(MPI_Request));
}

/* The mean of floats, as NCCL computes it: each is multiplied by 1 / ranks before they are added,
 * so the sum does not overflow. */
static inline bool is_float_mean(const struct backend_call *k)
{
    const unsigned floats =
        1U << DROVER_HALF | 1U << DROVER_BFLOAT16 | 1U << DROVER_FLOAT | 1U << DROVER_DOUBLE;
    return k->op == DROVER_AVG && floats >> k->type & 1 && collective_reduces(k->coll);
}

static int start_call(struct backend_comm *c, const struct backend_call *k, struct err *e)
{
    struct backend_call mean;
    if (c->n == c->cap)
        grow(c);
    if (is_float_mean(k)) {
        mean = *k;
        mean.op = DROVER_MULSUM;
        mean.factor = 1.0 / c->size;
        k = &mean;
    }
    void *temp = NULL;
    if (needs_temp(c, k) && !(temp = make_temp(c, k, e)))
        return -ENOMEM;
    int code = pass_to_mpi(c, k, temp, e);
    if (code != MPI_SUCCESS) {
        free(temp);
        return code < 0 ? code : mpi_session_failed(e, code, collective_name(k->coll));
    }
    bool has_result = k->coll != COLLECTIVE_REDUCE || c->rank == k->root;
    c->pending[c->n++] =
        (struct pending){k->type, k->op, k->count, has_result ? k->out : NULL, temp, k->coll};
    return 0;
}

RARE static void finish(struct backend_comm *c, const struct pending *j)
{
    if (j->temp && j->coll == COLLECTIVE_REDUCE_SCATTER && j->op != DROVER_MULSUM)
        memcpy(j->out, j->temp, j->count * backend_type_bytes(j->type));
    free(j->temp);
    if (j->op == DROVER_AVG && collective_reduces(j->coll) && j->out)
        mpi_types_average(j->out, j->count, j->type, c->size);
}

static int finish_all(struct backend_comm *c)
{
    do {
        const struct pending *j = &c->pending[--c->n];
        if (j->temp || j->op == DROVER_AVG)
            finish(c, j);
    } while (c->n > 0);
    return 0;
}

static int mpi_poll(struct backend_comm *c, struct err *e)
{
    if (c->n == 0)
        return 0;
    for (int i = 0; i < POLLS; i++) { /* a test costs less than a return to the caller */
        int done = 0;
        int code = c->n == 1 ? MPI_Test(c->requests, &done, MPI_STATUS_IGNORE)
                             : MPI_Testall((int)c->n, c->requests, &done, MPI_STATUSES_IGNORE);
        if (code != MPI_SUCCESS)
            return mpi_session_failed(e, code, collective_name(c->pending[0].coll));
        if (done)
            return finish_all(c);
    }
    return -EINPROGRESS;
}

/* Divides a call with more than CHUNK elements into several MPI calls. */
static int start_pieces(struct backend_comm *c, const struct backend_call *call, struct err *e)
{
    struct backend_call piece = *call;
    int rc = 0;
    for (size_t left = call->count; left > 0 && rc == 0; left -= piece.count) {
        piece.count = left < CHUNK ? left : CHUNK;
        rc = start_call(c, &piece, e);
        size_t bytes = piece.count * backend_type_bytes(piece.type);
        piece.in = piece.in ? (const char *)piece.in + bytes : NULL;
        piece.out = piece.out ? (char *)piece.out + bytes : NULL;
    }
    return rc;
}

/* Rejects GPU buffers that are not supported. A CUDA-aware Open MPI can move GPU memory, but
 * reductions and temporary copies are done on the host. */
static int check_memory(const struct backend_comm *c, const struct backend_call *k, struct err *e)
{
    if (!c->cuda_loaded || (!is_on_device(k->in) && !is_on_device(k->out)))
        return 0;
    const char *what = collective_name(k->coll);
    bool copies = needs_temp(c, k) || (k->coll == COLLECTIVE_BROADCAST && k->in != k->out);
    if (is_cuda_aware() && !collective_reduces(k->coll) && !copies)
        return 0;
    if (is_cuda_aware())
        err_set(e, -ENOTSUP, "%s%s: not supported on GPU buffers", what,
                copies ? " with a temporary copy" : "");
    else
        err_set(e, -ENOTSUP, "%s: %s does not support GPU buffers", what, c->version);
    return err_hint(e, "backend nccl; or copy to the host first");
}

static int check_call(const struct backend_comm *c, const struct backend_call *k, struct err *e)
{
    if (k->count > INT_MAX && collective_has_parts(k->coll))
        return err_set(e, -EOVERFLOW, "MPI supports at most %d elements per rank", INT_MAX);
    return check_memory(c, k, e);
}

RARE static int start_any(struct backend_comm *c, const struct backend_call *calls, size_t n,
                          struct err *e)
{
    int rc = c->n > 0 ? mpi_poll(c, e) : 0;
    if (rc < 0)
        return rc == -EINPROGRESS ? -EAGAIN : rc;
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = check_call(c, &calls[i], e);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = calls[i].count > CHUNK ? start_pieces(c, &calls[i], e) : start_call(c, &calls[i], e);
    return rc;
}

static int mpi_start(struct backend_comm *c, const struct backend_call *calls, size_t n,
                     struct err *e)
{
    /* The usual case: there is nothing to wait for, to check or to divide. */
    if (c->n == 0 && n == 1 && calls->count <= CHUNK && !c->cuda_loaded)
        return start_call(c, calls, e);
    return start_any(c, calls, n, e);
}

/* MPI cannot cancel collectives, so the requests and buffers of pending calls are never freed. */
static int mpi_abort(struct backend_comm *c)
{
    c->aborted = true;
    return 0;
}

static unsigned mpi_caps(const struct backend_comm *c)
{
    return BACKEND_HAS_ALL_TO_ALL | BACKEND_HAS_GATHER | BACKEND_HAS_SCATTER;
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
    .subgroup = mpi_subgroup,
    .start = mpi_start,
    .poll = mpi_poll,
    .abort = mpi_abort,
    .mem_alloc = backend_host_alloc,
    .mem_free = backend_host_free,
    .copy_in = backend_host_copy,
    .copy_out = backend_host_copy,
    .caps = mpi_caps,
    .version = mpi_version,
};
