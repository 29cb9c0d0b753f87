/* picks - which of a node's GPUs the job has, and how its ranks see them. Pure. */
#ifndef DROVER_GPU_ASSIGNMENT_H
#define DROVER_GPU_ASSIGNMENT_H

#include <stdbool.h>

#include "launcher/node/topo.h"
#include "launcher/plan/plan.h"

/* A GPU that the job has, or a part of one. */
struct gpu_assignment_rank {
    const struct gpu *gpu;
    const char *uuid; /* the GPU's, or that of one of its parts */
};

/* What of a node's GPUs the job has, in an order. */
struct gpu_assignment {
    struct gpu_assignment_rank *at;
    int n;
    bool seen; /* the job's ranks see just these, in this order, by themselves */
};

/* Those of spec.gpus, else all that CUDA_VISIBLE_DEVICES shows. They are the topology's, which has
 * to live as long. -EINVAL  spec.gpus names one that is not there, is hidden or stands twice */
int gpu_assignment_make(struct gpu_assignment **out, const struct launch_spec *s,
                        const struct topo *t, char *const *base, struct err *e);
void gpu_assignment_free(struct gpu_assignment *c);
AUTO_DEFINE(gpu_assignment, struct gpu_assignment *, gpu_assignment_free)

/* -EINVAL  more ranks on the node than GPUs, and they are not to share */
int gpu_assignment_check(const struct plan_node *n, const struct launch_spec *s,
                         const struct gpu_assignment *gpus, struct err *e);

/* CUDA_VISIBLE_DEVICES, where the ranks would see others: all of the job's GPUs for every rank;
 * LOCAL_RANK counts them, as torchrun's users expect. Of parts of GPUs a program can use one
 * (NVIDIA MIG User Guide, "CUDA Device Enumeration"): each rank sees its own. Indexes mean NVML's,
 * in the order of the bus; CUDA's own order is the fastest first. */
void gpu_assignment_show(char ***env, const struct plan_rank *r, const struct launch_spec *s,
                         const struct topo *t, const struct gpu_assignment *gpus,
                         char *const *base);

#endif
