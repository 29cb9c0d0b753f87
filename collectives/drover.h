/* drover.h - what a training program calls: who am I (client.h), give me a communicator, reduce.
 *
 *     struct drover *d;            drover_init(&d);
 *     struct drover_comm *c;       drover_comm_open(&c, d, NULL);
 *     drover_all_reduce(c, grad, grad, n, DROVER_FLOAT, DROVER_AVG);
 *     drover_wait(c, 60000);
 *
 * A communicator belongs to a stream of work, done in the order of the calls: on the CPU (backend
 * "mpi", or "self" for one rank) calls are complete when drover_wait() returns 0; on a GPU (backend
 * "nccl") they are ordered on the CUDA stream given in the options and drover_wait() waits for that
 * stream. Functions return 0 or a negative errno; drover_error() has the text. */
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
    DROVER_F8E4M3, /* 8-bit floats: NCCL 2.24 on a GPU of compute capability 9.0, or "self"; … */
    DROVER_F8E5M2, /* … else -ENOTSUP */
    DROVER_TYPES
};

enum drover_op {
    DROVER_SUM,
    DROVER_PROD,
    DROVER_MIN,
    DROVER_MAX,
    DROVER_AVG,
    DROVER_MULSUM, /* the sum of each rank's input times its factor, see drover_comm_factor() */
    DROVER_OPS
};

struct drover_comm_opts {
    const char *backend; /* "mpi", "nccl", "self"; NULL: nccl where this rank has a GPU and a stream
                            was given, else mpi; self for one rank */
    void *stream;        /* cudaStream_t; NULL: the CPU's, or NCCL's default stream */
    int device;          /* CUDA device of this rank, with backend "nccl"; -1: by its local rank */
    int64_t open_ms;     /* deadline of drover_comm_open(), _split() and _shrink(); 0: 60,000 */
    const char *lib_path; /* the libnccl to load; NULL: the one found */
};

/* Collective over all ranks of the job. `o` may be NULL.
 *   -ENOENT     no such plug-in, or the library below it is missing
 *   -ETIMEDOUT  not all ranks came; the text names those that are missing where that is known */
DROVER_API int drover_comm_open(struct drover_comm **out, struct drover *d,
                                const struct drover_comm_opts *o);

/* Collective over c, which stays: a communicator for each colour, its ranks in the order of their
 * keys, then of their ranks in c. DROVER_NO_COLOR: this rank is in none, *out is NULL. Waits first
 * for all that was started on c. Each communicator is closed by itself.
 *   -ETIMEDOUT  a rank of c did not come; c has failed too */
enum { DROVER_NO_COLOR = -1 };
DROVER_API int drover_comm_split(struct drover_comm **out, struct drover_comm *c, int color,
                                 int key);

/* A communicator of c's ranks but the `n` in `without`, in their order. Only those that stay call
 * it, all with the same list; the others may have ended. c may have failed before; after, it is of
 * no use but for drover_comm_close().
 *   -ENOTSUP    NCCL is too old (before 2.27; where c has failed, before 2.28)
 *   -ETIMEDOUT  one that should stay did not come */
DROVER_API int drover_comm_shrink(struct drover_comm **out, struct drover_comm *c,
                                  const int *without, int n);

DROVER_API void drover_comm_close(struct drover_comm *c);
DROVER_API const char *drover_comm_backend(const struct drover_comm *c);
/* This rank's number in the communicator, and how many there are. */
DROVER_API int drover_comm_rank(const struct drover_comm *c);
DROVER_API int drover_comm_size(const struct drover_comm *c);

/* What DROVER_MULSUM multiplies this rank's input by, in the type, before it adds; of the calls
 * that follow. 1 at first. Each rank has its own. -EINVAL  not finite, or 2^63 and more */
DROVER_API int drover_comm_factor(struct drover_comm *c, double factor);

/* `n` counts elements of one part. What is whole at one rank or at each (all_reduce, broadcast,
 * reduce, send, recv) has n of them; what has a part for each rank (`out` of all_gather and gather,
 * `in` of reduce_scatter and scatter, both of all_to_all) has size * n, in the order of the ranks.
 * 0 elements are fine; at a rank that has nothing to give or take, `in` or `out` may be NULL.
 *
 * In place is: in == out for all_reduce, broadcast, reduce and all_to_all (-ENOTSUP with "nccl");
 * in == this rank's part of out for all_gather and gather; out == this rank's part of in for
 * reduce_scatter and scatter. Other overlaps are not allowed, and all_to_all_v has none.
 *
 * DROVER_AVG cuts whole numbers towards 0. What is refused at once (-EINVAL, -EOVERFLOW, -ENOTSUP)
 * has no effect; after any other failure only drover_comm_close() and drover_comm_shrink() may
 * follow (-ESHUTDOWN). */
DROVER_API int drover_all_reduce(struct drover_comm *c, const void *in, void *out, size_t n,
                                 enum drover_type t, enum drover_op op);
DROVER_API int drover_broadcast(struct drover_comm *c, const void *in, void *out, size_t n,
                                enum drover_type t, int root);
DROVER_API int drover_reduce(struct drover_comm *c, const void *in, void *out, size_t n,
                             enum drover_type t, enum drover_op op, int root);
DROVER_API int drover_all_gather(struct drover_comm *c, const void *in, void *out, size_t n,
                                 enum drover_type t);
DROVER_API int drover_reduce_scatter(struct drover_comm *c, const void *in, void *out, size_t n,
                                     enum drover_type t, enum drover_op op);
DROVER_API int drover_all_to_all(struct drover_comm *c, const void *in, void *out, size_t n,
                                 enum drover_type t);
DROVER_API int drover_gather(struct drover_comm *c, const void *in, void *out, size_t n,
                             enum drover_type t, int root);
DROVER_API int drover_scatter(struct drover_comm *c, const void *in, void *out, size_t n,
                              enum drover_type t, int root);

/* One entry for each rank, in elements: how many, and where they begin. */
struct drover_parts {
    const size_t *counts, *starts;
};
/* What rank s sends to r is counted at s by send->counts[r] and at r by recv->counts[s]. The arrays
 * are read before it returns. */
DROVER_API int drover_all_to_all_v(struct drover_comm *c, const void *in,
                                   const struct drover_parts *send, void *out,
                                   const struct drover_parts *recv, enum drover_type t);

/* The other rank makes the matching call, of as many elements; between two ranks, calls match in
 * the order in which they were made. Outside of a group each is done before the next begins, so two
 * ranks that both send first wait for ever. To itself a rank sends in a group only. */
DROVER_API int drover_send(struct drover_comm *c, const void *in, size_t n, enum drover_type t,
                           int peer);
DROVER_API int drover_recv(struct drover_comm *c, void *out, size_t n, enum drover_type t,
                           int peer);

/* What is called between the two is begun by the second, all at once, in any order: none may use
 * what another makes. Groups may lie in each other; the outermost counts. */
DROVER_API int drover_group_start(struct drover_comm *c);
DROVER_API int drover_group_end(struct drover_comm *c);

/* Waits for all that was started; timeout_ms > 0. -ETIMEDOUT: the communicator was aborted. */
DROVER_API int drover_wait(struct drover_comm *c, int64_t timeout_ms);
/* 0: all that was started is done; -EINPROGRESS; or what went wrong. Does not wait. On the CPU,
 * work goes on only in this, in drover_wait() and in further calls. */
DROVER_API int drover_comm_poll(struct drover_comm *c);
/* Every rank has come here. */
DROVER_API int drover_barrier(struct drover_comm *c, int64_t timeout_ms);
/* Ends what is under way; never blocks. Only drover_comm_close() and _shrink() may follow. After
 * this, and after a failure, MPI may still write to the buffers of what was not done. */
DROVER_API int drover_comm_abort(struct drover_comm *c);

/* Opens one of NVIDIA's libraries by the name that the loader has for it ("libcublas.so.13"), where
 * backend "nccl" looks for its own: what the process has, the loader's path, a CUDA toolkit,
 * Python's wheels. What needs it can then be opened too. The handle is dlopen()'s. NULL: there is
 * none; drover_error(NULL) says where was looked. */
DROVER_API void *drover_cuda_library(const char *name);

#ifdef __cplusplus
}
#endif
#endif
