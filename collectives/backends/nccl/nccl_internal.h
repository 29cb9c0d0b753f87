/* nccl_internal - the state of an NCCL communicator, and its creation. */
#ifndef DROVER_NCCL_INTERNAL_H
#define DROVER_NCCL_INTERNAL_H

#include "collectives/backends/nccl/nccl_graph.h"
#include "collectives/backends/nccl/nccl_loader.h"
#include "collectives/backends/nccl/nccl_memory.h"
#include "collectives/comm/backend.h"
#include "common/mem.h"

enum { NCCL_VERSION_BYTES = 64 };

struct backend_comm {
    const struct nccl_lib *nccl;
    const struct cuda_lib *cuda;
    ncclComm_t comm; /* NULL after an abort */
    bool revoked;    /* the communicator is aborted, but can still be shrunk … */
    bool shrunk;     /* … and has been shrunk */
    cudaStream_t stream;
    bool own_stream;
    struct nccl_graph graph;
    struct nccl_region *regions;
    int rank, size, device;
    unsigned caps;
    void *scratch; /* one int on the device, for barriers */
    char version[NCCL_VERSION_BYTES];
};

/* Opens the communicator of all ranks; see struct backend. */
int nccl_open(struct backend_comm **out, const struct backend_opts *o, struct err *e);

/* Uses the given stream, or creates one for BACKEND_OWN_STREAM. */
int nccl_use_stream(struct backend_comm *c, void *stream, struct err *e);

/* Returns 0 if NCCL has accepted the last call, -EINPROGRESS if it has not yet, or the error of the
 * call. `what` names the operation in the error. */
int nccl_accepted(struct backend_comm *c, const char *what, struct err *e);

/* Waits until NCCL has accepted the last call, but at most until end_ms on clock_ms().
 *   -ETIMEDOUT  not accepted in time */
int nccl_await_accepted(struct backend_comm *c, int64_t end_ms, const char *what, struct err *e);

/* Drops the communicator's graph and then aborts the communicator. The order matters, since NCCL
 * waits for the end of graphs that contain its work. */
void nccl_abort_now(struct backend_comm *c);

/* Frees the communicator and all that it owns, except memory to which a collective may still write.
 */
void nccl_free(struct backend_comm *c);
AUTO_DEFINE(nccl_comm, struct backend_comm *, nccl_free)

#endif
