/* plan_print - prints a plan as text or JSON, for --dry-run, --report-bindings and --json.
 *
 * Secrets are shown as "***" (redact.h). Pure. */
#pragma once

#include <jansson.h>

#include "common/strbuf.h"
#include "launcher/plan/plan.h"

/* Appends the whole plan: one line per rank (rank, node, local rank, GPU, CPUs, memory nodes), the
 * nodes that were not contacted, one line per rank with the variables by which it finds its peers,
 * and the variables that the job sets. */
void plan_print(struct strbuf *b, const struct plan *p);

/* Appends a heading and one line per rank, and nothing else of the plan. */
void plan_print_ranks(struct strbuf *b, const struct plan *p);

/* Returns the plan with each rank's variables:
 *   {"job_id", "world_size", "argv": […], "wdir", "master_addr", "master_port", "env": {…},
 *    "nodes": [{"name", "ranks", "assumed"}, …],
 *    "ranks": [{"rank", "node", "local_rank", "gpu", "gpu_uuid", "cpus", "mems", "cores",
 *               "env": {…}}, …]}
 * Absent values are null. The caller frees the result (json_decref). */
json_t *plan_print_json(const struct plan *p);
