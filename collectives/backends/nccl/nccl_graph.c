#include "collectives/backends/nccl/nccl_graph.h"

#include <errno.h>

int nccl_graph_begin(struct nccl_graph *g, const struct cuda_lib *cuda, cudaStream_t stream,
                     struct err *e)
{
    if (!stream) {
        err_set(e, -ENOTSUP, "a CUDA graph cannot be made of the default stream's work");
        return err_hint(e, "a stream of its own; drover bench has one without -y 1");
    }
    /* Thread-local: NCCL's own threads may allocate memory meanwhile. */
    cudaError_t rc = cuda->cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    g->recording = rc == cudaSuccess;
    return g->recording ? 0 : nccl_loader_cuda_failed(e, cuda, rc, "the begin of a graph");
}

static void forget(struct nccl_graph *g, const struct cuda_lib *cuda)
{
    if (g->ready)
        cuda->cudaGraphExecDestroy(g->ready);
    g->ready = NULL;
}

int nccl_graph_end(struct nccl_graph *g, const struct cuda_lib *cuda, cudaStream_t stream,
                   struct err *e)
{
    cudaGraph_t kept = NULL;
    forget(g, cuda);
    g->recording = false;
    cudaError_t rc = cuda->cudaStreamEndCapture(stream, &kept);
    if (rc == cudaSuccess)
        rc = cuda->cudaGraphInstantiateWithFlags(&g->ready, kept, 0);
    if (kept)
        cuda->cudaGraphDestroy(kept);
    return rc == cudaSuccess ? 0 : nccl_loader_cuda_failed(e, cuda, rc, "the end of a graph");
}

int nccl_graph_launch(struct nccl_graph *g, const struct cuda_lib *cuda, cudaStream_t stream,
                      struct err *e)
{
    if (!g->ready)
        return err_set(e, -EINVAL, "no CUDA graph was made");
    cudaError_t rc = cuda->cudaGraphLaunch(g->ready, stream);
    return rc == cudaSuccess ? 0 : nccl_loader_cuda_failed(e, cuda, rc, "the launch of a graph");
}

void nccl_graph_drop(struct nccl_graph *g, const struct cuda_lib *cuda, cudaStream_t stream)
{
    cudaGraph_t kept = NULL;
    if (g->recording && cuda->cudaStreamEndCapture(stream, &kept) == cudaSuccess && kept)
        cuda->cudaGraphDestroy(kept);
    g->recording = false;
    forget(g, cuda);
}
