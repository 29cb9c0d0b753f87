/* resources - the nodes, ranks, GPUs, cores and memory of a trial: `drover: {resources: …}`. */
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "common/json.h"
#include "hpo/space/config_node.h"

enum {
    RESOURCES_MAX = 1 << 20, /* limit on ranks, GPUs and cores */
    RESOURCES_NODES_MAX = 1024
};

struct resources {
    int nodes;   /* >= 1; all other fields are per node */
    int ranks;   /* >= 1 */
    double gpus; /* for all ranks together: a whole number, or a share of one GPU (0.01 to 1); 0:
                    not given, one GPU per rank if the node has GPUs */
    int cpus;    /* cores per rank; 0: not given, an equal share of the node's cores */
    int64_t memory_bytes; /* for all ranks together; 0: not given */
};

/* Reads the mapping `resources`. A key that is missing leaves its field unchanged. `n` may have no
 * value.
 *   -EINVAL  an invalid key or value; the message has the position in the file */
int resources_read(struct resources *r, const struct config_node *n, struct err *e);

/* Returns {"nodes","ranks","gpus","cpus","memory"} (new reference). This is the data of
 * WIRE_REQUIREMENTS and a part of spec_json(). */
json_t *resources_json(const struct resources *r);
/* Reads the result of resources_json(). */
struct resources resources_of(const json_t *j);
