/* plan_part - ranks that are a part of something larger: one node's share of a job that others
 * start too, or one of several programs of a job. Pure. */
#ifndef DROVER_PLAN_PARTIAL_H
#define DROVER_PLAN_PARTIAL_H

#include "launcher/plan/plan.h"

/* spec.share: first_rank, master_addr, and the variables that tell ranks who they are among all. */
void plan_partial_of_job(struct plan *p, const struct launch_spec *s);

/* spec.apps: the argv of a rank of a job of `world_size`, and its variables of `base_env` (as
 * plan_make() has it). Nothing where its program is spec.argv. */
void plan_partial_program(struct plan_rank *r, int world_size, const struct launch_spec *s,
                          char *const *base_env);

#endif
