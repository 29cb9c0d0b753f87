/* picks - which of a node's GPUs the job has, and how its ranks see them. Pure. */
#ifndef DROVER_GPU_ASSIGNMENT_H
#define DROVER_GPU_ASSIGNMENT_H

#include <stdbool.h>

#include "launcher/node/topo.h"
#include "launcher/plan/plan.h"

/* A GPU that the job has, or a part of one. */
struct picks_one {
    const struct gpu *gpu;
    const char *uuid; /* the GPU's, or that of one of its parts */
};

/* What of a node's GPUs the job has, in an order. */
struct picks {
    struct picks_one *at;
    int n;
    bool seen; /* the job's ranks see just these, in this order, by themselves */
};

/* Those of spec.gpus, else all that CUDA_VISIBLE_DEVICES shows. They are the topology's, which has
 * to live as long. -EINVAL  spec.gpus names one that is not there, is hidden or stands twice */
int picks_of(struct picks **out, const struct launch_spec *s, const struct topo *t,
             char *const *base, struct err *e);
void picks_free(struct picks *c);
AUTO_DEFINE(picks, struct picks *, picks_free)

/* -EINVAL  more ranks on the node than GPUs, and they are not to share */
int picks_check(const struct plan_node *n, const struct launch_spec *s, const struct picks *gpus,
                struct err *e);

/* CUDA_VISIBLE_DEVICES, where the ranks would see others: all of the job's GPUs for every rank;
 * LOCAL_RANK counts them, as torchrun's users expect. Of parts of GPUs a program can use one
 * (NVIDIA MIG User Guide, "CUDA Device Enumeration"): each rank sees its own. Indexes mean NVML's,
 * in the order of the bus; CUDA's own order is the fastest first. */
void picks_show(char ***env, const struct plan_rank *r, const struct launch_spec *s,
                const struct topo *t, const struct picks *gpus, char *const *base);

#endif
