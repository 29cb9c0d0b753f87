/* share - what a plan of this machine's ranks alone says where they are a part of something larger:
 * one node's share of a job, or a job of several programs. Pure. */
#ifndef DROVER_SHARE_H
#define DROVER_SHARE_H

#include "launcher/plan.h"

/* spec.share: first_rank, master_addr, and the variables that tell ranks who they are among all. */
void share_apply(struct plan *p, const struct launch_spec *s);

/* spec.apps: the ranks' argv and env. `base_env` as plan_make() has it.
 *   -EINVAL  the programs have more ranks than the job */
int share_apps(struct plan *p, const struct launch_spec *s, char *const *base_env, struct err *e);

#endif
