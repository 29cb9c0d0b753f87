/* node_slice - a worker's node divided into equal slices, one per slot. Reads a topology and
 * nothing else. */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/spec/resources.h"
#include "launcher/node/topo.h"

struct node_slice {
    char *cpus;  /* hwloc list; NULL: the slice has no CPUs of its own, trials share all of them */
    char *gpus;  /* CUDA_VISIBLE_DEVICES of a trial: UUIDs; NULL: the node has no GPU */
    bool shared; /* CPUs or GPUs belong to another slice too */
    int port;    /* MASTER_PORT of its trials; 0: each trial chooses one */
};

/* What the worker may use of the node, and how it is divided. */
struct node_slice_opts {
    const char *cpus;      /* NULL: all */
    const char *gpus;      /* "0,2", "0-3", UUIDs, "" for none; NULL: those that are visible */
    const char *visible;   /* CUDA_VISIBLE_DEVICES; NULL: all. Read as CUDA does: up to the first
                              entry that is not valid */
    int slots;             /* at most; 0: as many as fit without sharing, at least one */
    int64_t memory_bytes;  /* limit of this process's cgroup; 0: no limit */
    struct resources need; /* of a trial */
};

/* Divides the node. `*out` is an array of `*count` slices, for node_slice_free(). Neighbouring
 * cores and GPUs stay together. A trial gets everything that it needs: there are never more slices
 * than GPUs (or fractions of a GPU), memory and cores suffice for. Cores and GPUs without a
 * requirement are shared if opts->slots exceeds them. MIG instances count as GPUs.
 *   -EINVAL  no trial fits, or a list names what this node does not have */
int node_slice_make(struct node_slice **out, int *count, const struct topo *t,
                    const struct node_slice_opts *opts, struct err *e);
void node_slice_free(struct node_slice *slices, int n);

/* Whether the slice has this GPU or MIG instance, by its UUID. */
bool node_slice_has_gpu(const struct node_slice *s, const char *uuid);
