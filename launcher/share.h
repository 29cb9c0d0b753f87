/* share - ranks that are a part of something larger: one node's share of a job that others start
 * too, or one of several programs of a job. Pure. */
#ifndef DROVER_SHARE_H
#define DROVER_SHARE_H

#include "launcher/plan.h"

/* spec.share: first_rank, master_addr, and the variables that tell ranks who they are among all. */
void share_apply(struct plan *p, const struct launch_spec *s);

/* spec.apps: the argv of a rank of a job of `world_size`, and its variables of `base_env` (as
 * plan_make() has it). Nothing where its program is spec.argv. */
void share_app(struct plan_rank *r, int world_size, const struct launch_spec *s,
               char *const *base_env);

#endif
