/* gpu_assignment - the GPUs of a node that the job may use, and which of them each rank sees.
 * Pure. */
#pragma once

#include <stdbool.h>

#include "launcher/node/topo.h"
#include "launcher/plan/plan.h"

/* A GPU or a MIG instance. */
struct gpu_assignment_rank {
    const struct gpu *gpu;
    const char *uuid; /* UUID of the GPU or MIG instance */
};

/* The GPUs of a node that the job may use, in order. */
struct gpu_assignment {
    struct gpu_assignment_rank *at;
    int n;
    bool visible; /* ranks see exactly these GPUs, in this order, even if CUDA_VISIBLE_DEVICES is
                     not set for them */
};

/* Selects the GPUs of spec.gpus, or else all that CUDA_VISIBLE_DEVICES shows. Borrows them from
 * `t`, which must outlive the result.
 *   -EINVAL  spec.gpus names a GPU that does not exist, is hidden or is listed twice; or
 *            CUDA_VISIBLE_DEVICES names no GPU */
int gpu_assignment_make(struct gpu_assignment **out, const struct launch_spec *s,
                        const struct topo *t, char *const *base, struct err *e);
void gpu_assignment_free(struct gpu_assignment *c);
AUTO_DEFINE(gpu_assignment, struct gpu_assignment *, gpu_assignment_free)

/* Checks that the node has a GPU per rank.
 *   -EINVAL  more ranks than GPUs without oversubscription, or no GPU with needs_gpus */
int gpu_assignment_check(const struct plan_node *n, const struct launch_spec *s,
                         const struct gpu_assignment *gpus, struct err *e);

/* Sets CUDA_VISIBLE_DEVICES if the rank would otherwise see other GPUs. Every rank sees all of the
 * job's GPUs and uses LOCAL_RANK as the index of its own, as torchrun's users expect. But a program
 * can use only one MIG instance (NVIDIA MIG User Guide, "CUDA Device Enumeration"), so with MIG
 * each rank sees only its own instance. Indexes are those of NVML, in PCI bus order; CUDA's default
 * order puts the fastest GPU first. If the user asks for that order, GPUs are named by UUIDs. */
void gpu_assignment_show(char ***env, const struct plan_rank *r, const struct launch_spec *s,
                         const struct topo *t, const struct gpu_assignment *gpus,
                         char *const *base);
