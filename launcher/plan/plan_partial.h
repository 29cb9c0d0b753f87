/* plan_partial - changes the plan of ranks that are a part of a larger job: an external part (one
 * node of a job that several launchers start together), or one of several programs. Pure. */
#pragma once

#include "launcher/plan/plan.h"

/* Applies spec.external_part to a plan: first_rank, master_addr, and the variables that give a rank
 * its position in the whole job. Does nothing if spec.external_part is not set. */
void plan_partial_of_job(struct plan *p, const struct launch_spec *s);

/* Applies spec.apps to a rank of a job of `world_size`: sets its argv, its working directory and
 * the variables of its program. A variable without a value gets the value that `base_env` has (as
 * in plan_make()). Does nothing if the rank's program is spec.argv. */
void plan_partial_program(struct plan_rank *r, int world_size, const struct launch_spec *s,
                          char *const *base_env);
