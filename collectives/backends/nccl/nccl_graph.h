/* nccl_graph - a CUDA graph: the work of a stream is recorded once and launched many times. */
#pragma once

#include <stdbool.h>

#include "collectives/backends/nccl/nccl_loader.h"

/* The state of a graph. If zero-initialised, there is no graph yet. */
struct nccl_graph {
    cudaGraphExec_t ready; /* the graph that can be launched; NULL: none */
    bool recording;
};

/* Starts recording: the stream's work is recorded and not executed. Querying the stream's state
 * would invalidate the recording.
 *   -ENOTSUP  this is the default stream, which CUDA cannot record */
int nccl_graph_begin(struct nccl_graph *g, const struct cuda_lib *cuda, cudaStream_t stream,
                     struct err *e);
/* Ends the recording. All recorded work must be on the stream. Drops an earlier graph. */
int nccl_graph_end(struct nccl_graph *g, const struct cuda_lib *cuda, cudaStream_t stream,
                   struct err *e);
/* Launches the graph.
 *   -EINVAL  no graph was recorded */
int nccl_graph_launch(struct nccl_graph *g, const struct cuda_lib *cuda, cudaStream_t stream,
                      struct err *e);
/* Drops the graph, also during a recording. */
void nccl_graph_drop(struct nccl_graph *g, const struct cuda_lib *cuda, cudaStream_t stream);
