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
    DROVER_TYPES
};

enum drover_op { DROVER_SUM, DROVER_PROD, DROVER_MIN, DROVER_MAX, DROVER_AVG, DROVER_OPS };

struct drover_comm_opts {
    const char *backend; /* "mpi", "nccl", "self"; NULL: nccl where this rank has a GPU and a stream
                            was given, else mpi; self for one rank */
    void *stream;        /* cudaStream_t; NULL: the CPU's, or NCCL's default stream */
    int device;          /* CUDA device of this rank, with backend "nccl"; -1: by its local rank */
    int64_t open_ms;     /* deadline of drover_comm_open(); 0: 60,000 */
    const char *lib_path; /* the libnccl to load; NULL: the one found */
};

/* Collective over all ranks of the job. `o` may be NULL.
 *   -ENOENT     no such plug-in, or the library below it is missing
 *   -ETIMEDOUT  not all ranks came; the text names those that are missing where that is known */
DROVER_API int drover_comm_open(struct drover_comm **out, struct drover *d,
                                const struct drover_comm_opts *o);
DROVER_API void drover_comm_close(struct drover_comm *c);
DROVER_API const char *drover_comm_backend(const struct drover_comm *c);

/* `n` counts elements per rank of `in` (all_gather: per rank; reduce_scatter: per rank of `out`).
 * in == out is in place (all_gather and reduce_scatter: at this rank's part; all_to_all: -ENOTSUP
 * with "nccl"). 0 elements are fine. What is refused at once (-EINVAL, -EOVERFLOW, -ENOTSUP) has no
 * effect; after any other failure only drover_comm_close() may follow (-ESHUTDOWN). */
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

/* Waits for all that was started; timeout_ms > 0. -ETIMEDOUT: the communicator was aborted. */
DROVER_API int drover_wait(struct drover_comm *c, int64_t timeout_ms);
/* Every rank has come here. */
DROVER_API int drover_barrier(struct drover_comm *c, int64_t timeout_ms);
/* Ends what is under way; never blocks. Only drover_comm_close() may follow. */
DROVER_API int drover_comm_abort(struct drover_comm *c);

#ifdef __cplusplus
}
#endif
#endif
