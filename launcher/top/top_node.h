/* top_node - what `drover top` knows of one node at one moment: its GPUs, the processes on them,
 * and the jobs that were started there. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/mem.h"
#include "launcher/gpu/gpu_sample.h"
#include "launcher/jobs/registry.h"

enum { TOP_UNKNOWN = -1 };

/* A process on a GPU; one that uses several GPUs has an entry for each. */
struct top_process {
    char gpu_uuid[96];
    int pid;
    int64_t memory_bytes; /* on this GPU; TOP_UNKNOWN */
    bool visible;         /* false: /proc does not have it: another container, or it has ended */
    char user[33], command[128]; /* empty: unknown */
    char job[96];                /* id of its job of drover; empty: none */
    char sweep[64];              /* of its trial; empty: not of a trial */
    int trial, rank;             /* TOP_UNKNOWN */
};

/* A job, sweep or trial of the list of running jobs. */
struct top_job {
    enum registry_kind kind;
    char id[96], sweep[64], command[128];
    int trial, ranks; /* ranks 0: a sweep */
    int64_t age_ms;
};

struct top_node {
    char name[256];
    char problem[512]; /* why the node or its GPUs are not shown; empty: they are */
    int64_t age_ms;    /* of the GPUs' values, and of the process list */
    struct gpu_sample *gpus;
    int gpu_count;
    struct top_process *processes;
    int process_count;
    struct top_job *jobs;
    int job_count;
};

/* Frees the lists, and empties the node. */
static inline void top_node_end(struct top_node *n)
{
    free(n->gpus);
    free(n->processes);
    free(n->jobs);
    *n = (struct top_node){0};
}

AUTO_DEFINE_STRUCT(top_node, struct top_node, top_node_end)
