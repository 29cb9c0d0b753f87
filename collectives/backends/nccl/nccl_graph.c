#include "collectives/backends/nccl/nccl_graph.h"

#include <errno.h>

int nccl_graph_begin(struct nccl_graph *g, const struct cuda_lib *cuda, cudaStream_t stream,
                     struct err *e)
{
    if (!stream) {
        err_set(e, -ENOTSUP, "CUDA cannot record its default stream in a graph");
        return err_hint(e, "use another stream (drover bench: without -y 1)");
    }
    /* Thread-local: NCCL's own threads may allocate memory during the recording. */
    cudaError_t rc = cuda->cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    g->recording = rc == cudaSuccess;
    return g->recording ? 0 : nccl_loader_cuda_failed(e, cuda, rc, "start of a graph");
}

static void destroy(struct nccl_graph *g, const struct cuda_lib *cuda)
{
    if (g->ready)
        cuda->cudaGraphExecDestroy(g->ready);
    g->ready = NULL;
}

int nccl_graph_end(struct nccl_graph *g, const struct cuda_lib *cuda, cudaStream_t stream,
                   struct err *e)
{
    cudaGraph_t recorded = NULL;
    destroy(g, cuda);
    g->recording = false;
    cudaError_t rc = cuda->cudaStreamEndCapture(stream, &recorded);
    if (rc == cudaSuccess)
        rc = cuda->cudaGraphInstantiateWithFlags(&g->ready, recorded, 0);
    if (recorded)
        cuda->cudaGraphDestroy(recorded);
    return rc == cudaSuccess ? 0 : nccl_loader_cuda_failed(e, cuda, rc, "end of a graph");
}

int nccl_graph_launch(struct nccl_graph *g, const struct cuda_lib *cuda, cudaStream_t stream,
                      struct err *e)
{
    if (!g->ready)
        return err_set(e, -EINVAL, "no CUDA graph was recorded");
    cudaError_t rc = cuda->cudaGraphLaunch(g->ready, stream);
    return rc == cudaSuccess ? 0 : nccl_loader_cuda_failed(e, cuda, rc, "launch of a graph");
}

void nccl_graph_drop(struct nccl_graph *g, const struct cuda_lib *cuda, cudaStream_t stream)
{
    cudaGraph_t recorded = NULL;
    if (g->recording && cuda->cudaStreamEndCapture(stream, &recorded) == cudaSuccess && recorded)
        cuda->cudaGraphDestroy(recorded);
    g->recording = false;
    destroy(g, cuda);
}
