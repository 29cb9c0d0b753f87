/* share - a worker's node cut into equal parts, one for each trial that runs at once.
 *
 * Pure, but that it reads a topology. */
#ifndef DROVER_NODE_SLICE_H
#define DROVER_NODE_SLICE_H

#include <stdbool.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/spec/resources.h"
#include "launcher/node/topo.h"

struct node_slice {
    char *cpus;  /* hwloc list; NULL: no part of its own, trials share all there is */
    char *gpus;  /* CUDA_VISIBLE_DEVICES of a trial: UUIDs; NULL: the node has no GPU */
    bool shared; /* CPUs or GPUs are another trial's too */
    int port;    /* MASTER_PORT of its trials; 0: each chooses one */
};

/* What of the node the worker may use, and how it is to be cut. */
struct node_slice_opts {
    const char *cpus;      /* NULL: all */
    const char *gpus;      /* "0,2", "0-3", UUIDs, "" for none; NULL: those that are visible */
    const char *visible;   /* CUDA_VISIBLE_DEVICES; NULL: all. It ends where CUDA ends to read it */
    int slots;             /* at most; 0: as many as fit without sharing, at least one */
    int64_t memory_bytes;  /* of our cgroup; 0: no limit */
    struct resources need; /* of a trial */
};

/* `*out` is an array of `*count` shares, to be given to node_slice_free(). Neighbouring cores and
 * GPUs stay together. What a trial asks for it gets whole: never are more places made than there
 * are GPUs (or parts of GPUs, or memory, or cores where a number is asked for) for; cores and GPUs
 * that nobody asked for are shared where w->slots wants more than there are. The parts of a GPU
 * that is divided (MIG) count as GPUs. -EINVAL  not one trial fits, or a list is none of this
 * node's */
int node_slice_make(struct node_slice **out, int *count, const struct topo *t,
                    const struct node_slice_opts *w, struct err *e);
void node_slice_free(struct node_slice *shares, int n);

/* Whether the part has this GPU or MIG instance, by its UUID. */
bool node_slice_has_gpu(const struct node_slice *s, const char *uuid);

#endif
