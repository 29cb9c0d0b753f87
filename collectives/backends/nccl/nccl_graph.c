/* A CUDA graph: the work of the stream is recorded once and launched many times. */
#include <errno.h>

#include "collectives/backends/nccl/nccl_internal.h"

static int begin_graph(struct backend_comm *c, struct err *e)
{
    if (!c->stream) {
        err_set(e, -ENOTSUP, "CUDA cannot record its default stream in a graph");
        return err_hint(e, "use another stream (drover bench: without -y 1)");
    }
    nccl_copy_load_kernels(c);
    /* Thread-local: NCCL's own threads may allocate memory during the recording. */
    cudaError_t rc = c->cuda->cudaStreamBeginCapture(c->stream, cudaStreamCaptureModeThreadLocal);
    c->recording = rc == cudaSuccess;
    return nccl_loader_cuda(e, c->cuda, rc, "start of a graph");
}

static cudaError_t end_recording(struct backend_comm *c, cudaGraph_t *recorded)
{
    c->recording = false;
    return c->cuda->cudaStreamEndCapture(c->stream, recorded);
}

void nccl_graph_drop(struct backend_comm *c)
{
    cudaGraph_t recorded = NULL;
    if (c->recording && end_recording(c, &recorded) == cudaSuccess && recorded)
        c->cuda->cudaGraphDestroy(recorded);
    if (c->graph)
        c->cuda->cudaGraphExecDestroy(c->graph);
    c->graph = NULL;
}

int nccl_record(struct backend_comm *c, bool begin, struct err *e)
{
    cudaGraph_t recorded = NULL;
    if (begin)
        return begin_graph(c, e);
    cudaError_t rc = end_recording(c, &recorded);
    nccl_graph_drop(c);
    if (rc == cudaSuccess)
        rc = c->cuda->cudaGraphInstantiateWithFlags(&c->graph, recorded, 0);
    if (recorded)
        c->cuda->cudaGraphDestroy(recorded);
    return nccl_loader_cuda(e, c->cuda, rc, "end of a graph");
}

int nccl_replay(struct backend_comm *c, struct err *e)
{
    if (!c->graph)
        return err_set(e, -EINVAL, "no CUDA graph was recorded");
    return nccl_loader_cuda(e, c->cuda, c->cuda->cudaGraphLaunch(c->graph, c->stream),
                            "launch of a graph");
}
