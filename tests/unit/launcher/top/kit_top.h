/* kit_top - nodes for the tests of `drover top`. */
#ifndef DROVER_TEST_KIT_TOP_H
#define DROVER_TEST_KIT_TOP_H

#include <stdio.h>

#include "launcher/top/top_node.h"

static inline struct gpu_sample *kit_gpu(struct top_node *n, const char *uuid, int busy_percent,
                                         int used_gib)
{
    struct gpu_sample *g = top_node_add_gpu(n);
    snprintf(g->uuid, sizeof g->uuid, "%s", uuid);
    snprintf(g->name, sizeof g->name, "NVIDIA A100");
    g->index = n->gpu_count - 1;
    g->busy_percent = busy_percent;
    g->memory_used_bytes = (int64_t)used_gib << 30;
    g->memory_total_bytes = INT64_C(40) << 30;
    g->power_w = 300;
    g->power_limit_w = 400;
    g->sm_mhz = 1410;
    g->temperature_c = 50;
    g->throttle_reasons = 0;
    return g;
}

static inline struct top_process *kit_process(struct top_node *n, const char *uuid, int pid,
                                              const char *command)
{
    struct top_process *p = top_node_add_process(n);
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
    struct top_job *j = top_node_add_job(n);
    j->kind = kind;
    snprintf(j->id, sizeof j->id, "%s", id);
    snprintf(j->sweep, sizeof j->sweep, "%s", sweep);
    snprintf(j->command, sizeof j->command, "train");
    j->trial = trial;
    j->ranks = ranks;
    j->age_ms = 61000;
    return j;
}

#endif
