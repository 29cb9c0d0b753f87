/* job_clock - measures what a job uses of its limits, and tells when a limit is reached. */
#ifndef DROVER_JOB_CLOCK_H
#define DROVER_JOB_CLOCK_H

#include <uv.h>

#include "launcher/limits/job_limits.h"
#include "launcher/plan/plan.h"

struct job_clock;

/* Reads the limits that the user has written as text.
 *   -EINVAL, -ERANGE  as deadline_parse() and job_limits_parse_budget() */
int job_clock_read_limits(struct job_limits *l, struct err *e);

/* Starts to measure. `on_limit` is called once, by the loop. Borrows the limits. */
struct job_clock *job_clock_open(uv_loop_t *loop, const struct job_limits *l,
                                 void (*on_limit)(void *arg, enum job_limit limit), void *arg);
/* The handle closes in the loop's next iteration. `c` may be NULL. */
void job_clock_close(struct job_clock *c);

/* An attempt with this plan begins: its GPUs count until job_clock_ended(). The GPUs of other nodes
 * are known only when the nodes have connected, and the plan then has them. Borrows the plan. */
void job_clock_began(struct job_clock *c, const struct plan *p);
void job_clock_ended(struct job_clock *c);

struct job_limits_usage job_clock_usage(struct job_clock *c);

/* Returns the number of GPUs that the ranks of a plan use. */
int job_clock_gpus(const struct plan *p);

#endif
