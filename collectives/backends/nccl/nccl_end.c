/* Blocking calls in threads of their own, and the end of a communicator. */
#include <errno.h>
#include <stdlib.h>

#include "collectives/backends/nccl/nccl_internal.h"

enum { CLOSE_MS = 10000 }; /* for each step of closing */

/* ---- jobs ----------------------------------------------------------------------------------- */

void *nccl_job_new(const struct backend_comm *c, size_t bytes)
{
    struct nccl_job *j = xzalloc(bytes);
    j->c = *c;
    return j;
}

static void run_job(struct task *t)
{
    struct nccl_job *j = (struct nccl_job *)t;
    (void)j->c.cuda->cudaSetDevice(j->c.device); /* each thread has its own; it worked before */
    j->rc = j->call(j);
}

static void start_job(struct nccl_job *j, ncclResult_t (*call)(struct nccl_job *j))
{
    j->call = call;
    task_start(&j->task, run_job);
}

int nccl_job_run(struct nccl_job *j, ncclResult_t (*call)(struct nccl_job *j), int64_t timeout_ms,
                 const char *what, struct err *e)
{
    start_job(j, call);
    if (!task_wait(&j->task, timeout_ms))
        return err_set(e, -ETIMEDOUT, "NCCL: %s: timed out after %lld ms", what,
                       (long long)timeout_ms);
    return nccl_loader_nccl(e, j->c.nccl, j->rc, what);
}

/* ---- abort ---------------------------------------------------------------------------------- */

static ncclResult_t call_abort(struct nccl_job *j)
{
    return j->c.nccl->ncclCommAbort(j->c.comm);
}

static ncclResult_t call_revoke(struct nccl_job *j)
{
    return j->c.nccl->revoke(j->c.comm, 0);
}

bool nccl_await_end(struct backend_comm *c, int64_t timeout_ms)
{
    return !c->ending || task_wait(&c->ending->task, timeout_ms);
}

/* The graph is dropped first: NCCL waits for the end of graphs that contain its work. */
static void start_end(struct backend_comm *c, ncclResult_t (*call)(struct nccl_job *j))
{
    nccl_graph_drop(c);
    nccl_job_free(c->ending);
    c->ending = nccl_job_new(c, sizeof *c->ending);
    start_job(c->ending, call);
}

/* Starts an abort, which other threads inside of NCCL notice; comm is not usable any more. */
static void start_abort(struct backend_comm *c)
{
    if (c->comm && nccl_await_end(c, CLOSE_MS))
        start_end(c, call_abort);
    c->comm = NULL;
}

/* A revocation leaves a communicator that can be shrunk. But while a call has not returned yet, it
 * continues to read memory of that call after freeing it (2.28 to 2.30). */
int nccl_abort(struct backend_comm *c)
{
    if (!c->comm || c->revoked)
        return 0;
    c->revoked = c->nccl->revoke && !c->stuck;
    if (c->revoked)
        start_end(c, call_revoke);
    else
        start_abort(c);
    return 0;
}

/* ---- close ---------------------------------------------------------------------------------- */

static ncclResult_t call_finalize(struct nccl_job *j)
{
    return j->c.nccl->ncclCommFinalize(j->c.comm);
}

static ncclResult_t call_destroy(struct nccl_job *j)
{
    return j->c.nccl->ncclCommDestroy(j->c.comm);
}

static int run_end(struct backend_comm *c, ncclResult_t (*call)(struct nccl_job *j))
{
    AUTO(nccl_job) struct nccl_job *j = nccl_job_new(c, sizeof *j);
    return nccl_job_run(j, call, CLOSE_MS, "closing", NULL);
}

/* Work that does not end is aborted. */
void nccl_close(struct backend_comm *c)
{
    nccl_graph_drop(c);
    bool usable = c->comm && !c->shrunk && !c->stuck && nccl_await_end(c, CLOSE_MS);
    if (usable && (c->revoked || run_end(c, call_finalize) == 0)) {
        (void)run_end(c, call_destroy); /* an error here has no remedy */
        c->comm = NULL;
    }
    nccl_free(c);
}

void nccl_free(struct backend_comm *c)
{
    if (c->cuda)
        start_abort(c);
    if (nccl_await_end(c, CLOSE_MS)) { /* else CUDA would wait for the work here */
        nccl_copy_free(c);
        if (c->scratch)
            c->cuda->cudaFree(c->scratch);
        if (c->own_stream && c->stream)
            c->cuda->cudaStreamDestroy(c->stream);
    }
    nccl_job_free(c->ending);
    nccl_forget_memory(c); /* a collective may still write there */
    free(c->used.peers);
    free(c);
}
