/* plan_show - a plan as people and programs read it: --dry-run, --report-bindings, --json.
 *
 * The values of variables whose names say that they are secret are shown as "***". Pure. */
#ifndef DROVER_PLAN_PRINT_H
#define DROVER_PLAN_PRINT_H

#include <jansson.h>
#include <stdbool.h>

#include "common/strbuf.h"
#include "launcher/plan/plan.h"

/* True for a name with TOKEN, KEY, SECRET, PASSW(ORD) or CREDENTIAL in it, in whatever case: rather
 * one too many. */
bool plan_print_is_secret(const char *name, size_t len);

/* A line for each rank (rank, node, local rank, GPU, CPUs, memory nodes), then what the job sets
 * in its environment; appended to `b`. */
void plan_print(struct strbuf *b, const struct plan *p);

/* The lines of the ranks alone, with a heading. */
void plan_print_ranks(struct strbuf *b, const struct plan *p);

/* The same and each rank's variables:
 *   {"job_id", "world_size", "argv": […], "wdir", "master_addr", "env": {…},
 *    "nodes": [{"name", "ranks"}, …],
 *    "ranks": [{"rank", "node", "local_rank", "gpu", "gpu_uuid", "cpus", "mems", "cores",
 *               "env": {…}}, …]}
 * What there is none of is null. The caller's (json_decref). */
json_t *plan_print_json(const struct plan *p);

#endif
