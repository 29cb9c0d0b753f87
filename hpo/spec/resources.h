/* resources - what a trial needs: `drover: {resources: …}` of a sweep file. */
#ifndef DROVER_RESOURCES_H
#define DROVER_RESOURCES_H

#include <jansson.h>
#include <stdint.h>

#include "common/err.h"
#include "hpo/space/config_node.h"

enum {
    RESOURCES_MAX = 1 << 20, /* of ranks, GPUs, cores */
    RESOURCES_NODES_MAX = 1024
};

struct resources {
    int nodes;            /* >= 1; all that follows is of each of them */
    int ranks;            /* >= 1 */
    double gpus;          /* its ranks together: a whole number, or a part of one GPU (0.01 to
                             1); 0: not asked for, one a rank where there are any */
    int cpus;             /* cores of a rank; 0: its share */
    int64_t memory_bytes; /* its ranks together; 0: not asked for */
};

/* Reads the mapping; what is not in it stays as it is. `n` may be without a value.
 *   -EINVAL  at the place in the file */
int resources_read(struct resources *r, const struct config_node *n, struct err *e);

/* {"nodes","ranks","gpus","cpus","memory"}: WIRE_REQUIREMENTS's data, and a part of spec_json().
 * New reference. */
json_t *resources_json(const struct resources *r);
/* Reads what resources_json() made. */
struct resources resources_of(const json_t *j);

#endif
