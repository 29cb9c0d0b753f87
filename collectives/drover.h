/* drover.h - libdrover's interface for training programs: communicators, collectives, and client.h.
 *
 *     struct drover *d;            drover_init(&d);
 *     struct drover_comm *c;       drover_comm_open(&c, d, NULL);
 *     drover_all_reduce(c, grad, grad, n, DROVER_FLOAT, DROVER_AVG);
 *     drover_wait(c, 60000);
 *
 * The calls on a communicator are executed in the order in which they were made. On the CPU
 * (backend "mpi", or "self" for one rank) they are complete when drover_wait() returns 0. On a GPU
 * (backend "nccl") they are on the CUDA stream given in the options when they return, in that
 * order, and drover_wait() waits for that stream. The first call of its kind there also waits until
 * the ranks have connected.
 *
 * Functions return 0 or a negative errno, unless stated otherwise; drover_error() has the text. A
 * communicator is used by one thread at a time. */
#ifndef DROVER_H
#define DROVER_H

#ifdef DROVER_BUILD
#include "launcher/client/client.h"
#else
#include "client.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct drover_comm;

/* Type of the elements of a buffer. */
enum drover_type {
    DROVER_INT8,
    DROVER_UINT8,
    DROVER_INT32,
    DROVER_UINT32,
    DROVER_INT64,
    DROVER_UINT64,
    DROVER_HALF,
    DROVER_FLOAT,
    DROVER_DOUBLE,
    DROVER_BFLOAT16,
    DROVER_F8E4M3, /* 8-bit floats: with "self", or with NCCL 2.24 if all ranks have a GPU of … */
    DROVER_F8E5M2, /* … compute capability 9.0; else -ENOTSUP */
    DROVER_TYPES
};

/* Reduction, element by element. */
enum drover_op {
    DROVER_SUM,
    DROVER_PROD,
    DROVER_MIN,
    DROVER_MAX,
    DROVER_AVG,    /* the mean; whole numbers are truncated towards 0 */
    DROVER_MULSUM, /* the sum of each rank's input times its factor, see drover_comm_factor() */
    DROVER_OPS
};

struct drover_comm_opts {
    const char *backend; /* "mpi", "nccl" or "self"; NULL: "nccl" if a stream is given, "self" for
                            one rank, else "mpi" */
    void *stream;        /* cudaStream_t; NULL: none on the CPU, the default stream with NCCL */
    int device;          /* CUDA device of this rank, for "nccl"; -1: chosen by its local rank */
    int64_t open_ms; /* deadline for connecting ranks, in drover_comm_open(), _split(), _shrink()
                        and first calls; 0: 60,000 ms */
    const char *lib_path; /* path of libnccl; NULL: searched for */
};

/* ---- communicators -------------------------------------------------------------------------- */

/* Opens a communicator of all ranks of the job. Collective over them. `o` is read during the call;
 * NULL is the same as {.device = -1}. `d` must outlive the communicator. Close it with
 * drover_comm_close().
 *   -ENOENT     the plug-in, or the library that it needs, was not found
 *   -ETIMEDOUT  some ranks did not connect in time; the text names them if they are known */
DROVER_API int drover_comm_open(struct drover_comm **out, struct drover *d,
                                const struct drover_comm_opts *o);

/* Splits `c` into one communicator per colour, which is 0 or more. Collective over c. The ranks of
 * a colour are ordered by key, then by their rank in c. A rank with DROVER_NO_COLOR gets none: *out
 * is NULL. Waits first for all calls on c, which stays open. Each communicator is closed by itself.
 *   -EINVAL     a negative colour other than DROVER_NO_COLOR, or an open group
 *   -ETIMEDOUT  a rank of c did not call it in time; c has failed as well */
enum { DROVER_NO_COLOR = -1 };
DROVER_API int drover_comm_split(struct drover_comm **out, struct drover_comm *c, int color,
                                 int key);

/* Makes a communicator of c's ranks except the `n` ranks in `without`, in the same order. The
 * remaining ranks call it, all with the same list; the others may have ended. c may have failed
 * before. Afterwards only drover_comm_close() may be called on c.
 *   -EINVAL     the list has the calling rank, or a rank outside of c
 *   -ENOTSUP    NCCL is too old (before 2.27; if c has failed, before 2.28)
 *   -ETIMEDOUT  a remaining rank did not call it in time */
DROVER_API int drover_comm_shrink(struct drover_comm **out, struct drover_comm *c,
                                  const int *without, int n);

/* Closes the communicator and frees it. All calls must be complete, unless the communicator has
 * failed or was aborted. NULL is allowed. */
DROVER_API void drover_comm_close(struct drover_comm *c);

/* Returns "mpi", "nccl" or "self". */
DROVER_API const char *drover_comm_backend(const struct drover_comm *c);

/* Returns this rank's number in the communicator, from 0 on. */
DROVER_API int drover_comm_rank(const struct drover_comm *c);

/* Returns the number of ranks in the communicator. */
DROVER_API int drover_comm_size(const struct drover_comm *c);

/* Sets the factor of this rank's input for later calls with DROVER_MULSUM; it is converted to the
 * type of the call. Initially 1. Each rank has its own. -EINVAL  not finite, or 2^63 and more */
DROVER_API int drover_comm_factor(struct drover_comm *c, double factor);

/* ---- collectives -------------------------------------------------------------------------------
 *
 * `n` is the number of elements of one part. Buffers that are the same for all ranks, or are held
 * by one rank (all_reduce, broadcast, reduce, send, recv), have n elements. Buffers with one part
 * per rank (`out` of all_gather and gather, `in` of reduce_scatter and scatter, both of all_to_all)
 * have size * n, in the order of the ranks. 0 elements are allowed. A buffer that a rank does not
 * need may be NULL. Buffers are the caller's; they must not be changed or freed before the call is
 * complete.
 *
 * Calls in place: in == out for all_reduce, broadcast, reduce and all_to_all (-ENOTSUP with
 * "nccl"); in == this rank's part of out for all_gather and gather; out == this rank's part of in
 * for reduce_scatter and scatter. Other overlaps are not allowed; all_to_all_v has none in place.
 *
 * All functions start the work and return 0, or:
 *   -EINVAL     an argument is invalid
 *   -EOVERFLOW  more elements than memory, or the backend, can address
 *   -ENOTSUP    not supported by the backend
 *   -ESHUTDOWN  the communicator has failed before, or was aborted
 * These errors have no effect. After any other error only drover_comm_close() and
 * drover_comm_shrink() may be called:
 *   -ETIMEDOUT  the ranks did not connect within open_ms ("nccl"); the communicator was aborted */

/* Reduces the inputs of all ranks; every rank gets the result. */
DROVER_API int drover_all_reduce(struct drover_comm *c, const void *in, void *out, size_t n,
                                 enum drover_type t, enum drover_op op);

/* Copies the root's input to the output of every rank. */
DROVER_API int drover_broadcast(struct drover_comm *c, const void *in, void *out, size_t n,
                                enum drover_type t, int root);

/* Reduces the inputs of all ranks; the root gets the result. */
DROVER_API int drover_reduce(struct drover_comm *c, const void *in, void *out, size_t n,
                             enum drover_type t, enum drover_op op, int root);

/* Every rank gets the inputs of all ranks. */
DROVER_API int drover_all_gather(struct drover_comm *c, const void *in, void *out, size_t n,
                                 enum drover_type t);

/* Reduces the inputs of all ranks; every rank gets its part of the result. */
DROVER_API int drover_reduce_scatter(struct drover_comm *c, const void *in, void *out, size_t n,
                                     enum drover_type t, enum drover_op op);

/* Every rank sends one part to every rank. */
DROVER_API int drover_all_to_all(struct drover_comm *c, const void *in, void *out, size_t n,
                                 enum drover_type t);

/* The root gets the inputs of all ranks. */
DROVER_API int drover_gather(struct drover_comm *c, const void *in, void *out, size_t n,
                             enum drover_type t, int root);

/* Every rank gets its part of the root's input. */
DROVER_API int drover_scatter(struct drover_comm *c, const void *in, void *out, size_t n,
                              enum drover_type t, int root);

/* Lengths and positions of parts, one entry per rank, in elements. */
struct drover_parts {
    const size_t *counts, *starts;
};

/* Like all_to_all, with parts of any length: send->counts[r] at rank s equals recv->counts[s] at
 * rank r. The arrays are read before the function returns. */
DROVER_API int drover_all_to_all_v(struct drover_comm *c, const void *in,
                                   const struct drover_parts *send, void *out,
                                   const struct drover_parts *recv, enum drover_type t);

/* Sends to, or receives from, rank `peer`, which makes the matching call with the same number of
 * elements. Between two ranks, calls match in the order in which they were made. Outside of a group
 * each call is complete before the next one starts, so two ranks that both send first wait for
 * ever. A rank can send to itself only inside a group. */
DROVER_API int drover_send(struct drover_comm *c, const void *in, size_t n, enum drover_type t,
                           int peer);
DROVER_API int drover_recv(struct drover_comm *c, void *out, size_t n, enum drover_type t,
                           int peer);

/* Starts and ends a group. Its calls start together, when drover_group_end() is called, and are
 * executed in any order: none may use the result of another one. Groups may be nested; the
 * outermost one counts. -EINVAL  group end without group start */
DROVER_API int drover_group_start(struct drover_comm *c);
DROVER_API int drover_group_end(struct drover_comm *c);

/* ---- completion ----------------------------------------------------------------------------- */

/* Waits until all calls are complete, for at most timeout_ms > 0.
 *   -ETIMEDOUT  not complete in time; the communicator was aborted */
DROVER_API int drover_wait(struct drover_comm *c, int64_t timeout_ms);

/* Returns 0 if all calls are complete, -EINPROGRESS if they are not, or the error of a call. Does
 * not wait. On the CPU, work progresses only in this function, in drover_wait(), and in further
 * calls. */
DROVER_API int drover_comm_poll(struct drover_comm *c);

/* Waits until every rank has called it, and for all calls before it; timeout_ms > 0.
 *   -ETIMEDOUT  as drover_wait() */
DROVER_API int drover_barrier(struct drover_comm *c, int64_t timeout_ms);

/* Stops all calls that are not complete; never blocks, drover_comm_close() waits for the end.
 * Afterwards only drover_comm_close() and drover_comm_shrink() may be called. MPI may still write
 * to the buffers of incomplete calls, after this and after a failure. */
DROVER_API int drover_comm_abort(struct drover_comm *c);

/* ---- CUDA libraries ------------------------------------------------------------------------- */

/* Opens one of NVIDIA's libraries by its loader name ("libcublas.so.13"), searching where backend
 * "nccl" does: libraries of the process, the loader's path, a CUDA toolkit, Python's wheels.
 * Libraries that depend on it can be opened afterwards. Returns a handle of dlopen(); NULL if it
 * was not found: drover_error(NULL) names the places that were searched. */
DROVER_API void *drover_cuda_library(const char *name);

#ifdef __cplusplus
}
#endif
#endif
