/* nccl_graph - a CUDA graph: what is put on a stream is kept, and launched as a whole, many times.
 */
#ifndef DROVER_NCCL_GRAPH_H
#define DROVER_NCCL_GRAPH_H

#include <stdbool.h>

#include "collectives/backends/nccl/nccl_loader.h"

/* All zero: there is none yet. */
struct nccl_graph {
    cudaGraphExec_t ready; /* to be launched; NULL: none */
    bool recording;
};

/* From here on the stream's work is kept, not done; asking for its state would spoil that.
 *   -ENOTSUP  the default stream, whose work cannot be kept */
int nccl_graph_begin(struct nccl_graph *g, const struct cuda_lib *cuda, cudaStream_t stream,
                     struct err *e);
/* All of it is on the stream. What was kept before is forgotten. */
int nccl_graph_end(struct nccl_graph *g, const struct cuda_lib *cuda, cudaStream_t stream,
                   struct err *e);
/* -EINVAL  nothing was kept */
int nccl_graph_launch(struct nccl_graph *g, const struct cuda_lib *cuda, cudaStream_t stream,
                      struct err *e);
/* Also in the midst of a recording. */
void nccl_graph_drop(struct nccl_graph *g, const struct cuda_lib *cuda, cudaStream_t stream);

#endif
