/* kit_top - nodes for the tests of `drover top`. */
#pragma once

#include <stdio.h>

#include "launcher/top/top_node.h"

/* Append an empty entry, which they return until the next one is appended. */
static inline struct gpu_sample *kit_add_gpu(struct top_node *n)
{
    n->gpus = xrealloc(n->gpus, (size_t)n->gpu_count + 1, sizeof *n->gpus);
    n->gpus[n->gpu_count] = (struct gpu_sample){0};
    return &n->gpus[n->gpu_count++];
}

static inline struct top_process *kit_add_process(struct top_node *n)
{
    n->processes = xrealloc(n->processes, (size_t)n->process_count + 1, sizeof *n->processes);
    n->processes[n->process_count] = (struct top_process){
        .memory_bytes = TOP_UNKNOWN, .trial = TOP_UNKNOWN, .rank = TOP_UNKNOWN};
    return &n->processes[n->process_count++];
}

static inline struct top_job *kit_add_job(struct top_node *n)
{
    n->jobs = xrealloc(n->jobs, (size_t)n->job_count + 1, sizeof *n->jobs);
    n->jobs[n->job_count] = (struct top_job){.trial = TOP_UNKNOWN};
    return &n->jobs[n->job_count++];
}

/* `busy_percent` < 0: unknown. */
static inline struct gpu_sample *kit_gpu(struct top_node *n, const char *uuid, int busy_percent,
                                         int used_gib)
{
    struct gpu_sample *g = kit_add_gpu(n);
    snprintf(g->gpu.uuid, sizeof g->gpu.uuid, "%s", uuid);
    snprintf(g->gpu.name, sizeof g->gpu.name, "NVIDIA A100");
    g->gpu.index = n->gpu_count - 1;
    if (busy_percent >= 0)
        gpu_sample_set(g, GPU_FACT_BUSY, busy_percent);
    gpu_sample_set(g, GPU_FACT_MEMORY_USED, (int64_t)used_gib << 30);
    gpu_sample_set(g, GPU_FACT_MEMORY_TOTAL, INT64_C(40) << 30);
    gpu_sample_set(g, GPU_FACT_POWER, 300000);
    gpu_sample_set(g, GPU_FACT_POWER_LIMIT, 400000);
    gpu_sample_set(g, GPU_FACT_SM_CLOCK, 1410);
    gpu_sample_set(g, GPU_FACT_TEMPERATURE, 50);
    gpu_sample_set(g, GPU_FACT_THROTTLE, 0);
    return g;
}

static inline struct top_process *kit_process(struct top_node *n, const char *uuid, int pid,
                                              const char *command)
{
    struct top_process *p = kit_add_process(n);
    snprintf(p->gpu_uuid, sizeof p->gpu_uuid, "%s", uuid);
    snprintf(p->user, sizeof p->user, "ada");
    snprintf(p->command, sizeof p->command, "%s", command);
    p->pid = pid;
    p->memory_bytes = INT64_C(1) << 30;
    p->visible = true;
    return p;
}

static inline struct top_job *kit_job(struct top_node *n, enum registry_kind kind, const char *id,
                                      const char *sweep, int trial, int ranks)
{
    struct top_job *j = kit_add_job(n);
    j->kind = kind;
    snprintf(j->id, sizeof j->id, "%s", id);
    snprintf(j->sweep, sizeof j->sweep, "%s", sweep);
    snprintf(j->command, sizeof j->command, "train");
    j->trial = trial;
    j->ranks = ranks;
    j->age_ms = 61000;
    return j;
}
