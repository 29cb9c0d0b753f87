/* job_map - which rank of a job is on which node: what a PMIx server tells the ranks of its node
 * about the whole job. Part of the message `node_spec`. Pure. */
#pragma once

#include "common/err.h"
#include "common/mem.h"
#include "launcher/plan/plan.h"

struct job_map {
    char *job_id;
    char **nodes; /* names, by node (strv) */
    int node_count;
    int *rank_nodes; /* node of each rank of the job */
    int ranks;       /* of the job */
    int node;        /* the node that this map is for */
    int *local;      /* its ranks, ascending: numbers in the whole job */
    int local_count;
    char **cpus; /* per local rank: hwloc list of OS indexes ("0-3"), or "" if it is not bound
                    (strv) */
};

/* Makes the map of a plan for one of its nodes. */
struct job_map *job_map_new(const struct plan *p, int node);
/* Returns the index of a rank in `local`, or -1 if it is on another node. */
int job_map_index(const struct job_map *m, int rank);
struct job_map *job_map_copy(const struct job_map *m);
void job_map_free(struct job_map *m);
AUTO_DEFINE(job_map, struct job_map *, job_map_free)
