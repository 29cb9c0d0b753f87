/* nccl_internal - the state of an NCCL communicator, and its creation. */
#pragma once

#include "collectives/backends/nccl/nccl_first_use.h"
#include "collectives/backends/nccl/nccl_loader.h"
#include "collectives/bootstrap/task.h"
#include "collectives/comm/backend.h"
#include "common/mem.h"

enum { NCCL_VERSION_BYTES = 64 };

struct backend_comm {
    const struct nccl_lib *nccl;
    const struct cuda_lib *cuda;
    ncclComm_t comm;         /* NULL after an abort */
    struct nccl_job *ending; /* an abort or a revocation; NULL: none */
    bool revoked;            /* the communicator is aborted, but can still be shrunk … */
    bool shrunk;             /* … and has been shrunk */
    bool stuck;              /* a thread is left behind in a call on comm */
    cudaStream_t stream;
    bool own_stream;
    cudaGraphExec_t graph; /* the graph that can be launched; NULL: none */
    bool recording;
    struct nccl_region *regions; /* of NCCL's allocator */
    struct nccl_first_use used;
    struct {
        void *staging; /* host memory, … */
        bool pinned;   /* … pinned, if possible */
        void *pattern; /* on the device */
    } copy;            /* all zero: nothing is allocated yet */
    int rank, size, device;
    int64_t open_ms; /* deadline of calls that connect ranks */
    unsigned caps;
    void *scratch; /* one int on the device, for barriers */
    char version[NCCL_VERSION_BYTES];
};

/* A call of NCCL that may block, in a thread of its own. */
struct nccl_job {
    struct task task; /* first */
    ncclResult_t (*call)(struct nccl_job *j);
    struct backend_comm c; /* a copy: the original may be freed before the call returns */
    ncclComm_t made;       /* the communicator that the call creates */
    ncclResult_t rc;
};

/* Makes a job for c, the first member of a zeroed struct of `bytes`. */
void *nccl_job_new(const struct backend_comm *c, size_t bytes);
/* Frees the job; if its call has not returned yet, its thread does so later. */
static inline void nccl_job_free(struct nccl_job *j)
{
    task_free(j ? &j->task : NULL);
}

/* Runs a job. `what` names it in errors.
 *   -ETIMEDOUT  the call has not returned after timeout_ms
 *   others      as nccl_loader_nccl() */
int nccl_job_run(struct nccl_job *j, ncclResult_t (*call)(struct nccl_job *j), int64_t timeout_ms,
                 const char *what, struct err *e);

/* Opens the communicator of all ranks; see struct backend. */
int nccl_open(struct backend_comm **out, const struct backend_opts *o, struct err *e);

/* Creates a subgroup; see struct backend. */
int nccl_subgroup(struct backend_comm **out, struct backend_comm *c,
                  const struct backend_subgroup *p, struct err *e);

/* Uses the given stream, or creates one for BACKEND_OWN_STREAM. */
int nccl_use_stream(struct backend_comm *c, void *stream, struct err *e);

/* ---- nccl_copy.c, nccl_memory.c and nccl_graph.c; see struct backend ------------------------ */

int nccl_copy_in(struct backend_comm *c, void *to, const void *host, size_t bytes, struct err *e);
int nccl_copy_out(struct backend_comm *c, void *host, const void *from, size_t bytes,
                  struct err *e);
int nccl_copy_fill(struct backend_comm *c, void *to, const void *pattern, size_t period,
                   size_t bytes, struct err *e);
int nccl_copy_compare(struct backend_comm *c, const struct backend_compare *k,
                      struct backend_difference *out, struct err *e);
/* Executes a call with DROVER_MULSUM on a communicator of one rank. Without a kernel for the GPU
 * the host does it, and the call waits for the stream; -ENOTSUP then while a graph is recorded. */
int nccl_copy_premul(struct backend_comm *c, const struct backend_call *k, struct err *e);
/* Loads the kernels, which may be too late while a graph is recorded. */
void nccl_copy_load_kernels(struct backend_comm *c);
void nccl_copy_free(struct backend_comm *c);

int nccl_mem_alloc(struct backend_comm *c, size_t bytes, enum backend_memory use, void **out,
                   struct err *e);
void nccl_mem_free(struct backend_comm *c, void *p);
/* Forgets the memory of NCCL's allocator without freeing it. */
void nccl_forget_memory(struct backend_comm *c);

/* While a stream is recorded, a query of its state would invalidate the recording. */
int nccl_record(struct backend_comm *c, bool begin, struct err *e);
int nccl_replay(struct backend_comm *c, struct err *e);
/* Drops the graph, also during a recording. */
void nccl_graph_drop(struct backend_comm *c);

/* ---- the end -------------------------------------------------------------------------------- */

/* Ends the communicator; see struct backend. */
int nccl_abort(struct backend_comm *c);
void nccl_close(struct backend_comm *c);

/* Waits for an abort or a revocation. Returns false after timeout_ms. */
bool nccl_await_end(struct backend_comm *c, int64_t timeout_ms);

/* Frees the communicator and all that it owns, except memory to which a collective may still
 * write. */
void nccl_free(struct backend_comm *c);
AUTO_DEFINE(nccl_comm, struct backend_comm *, nccl_free)
AUTO_DEFINE(nccl_job, struct nccl_job *, nccl_job_free)
