/* job_clock - measures what a job uses of its limits, and tells when a limit is reached. */
#pragma once

#include <uv.h>

#include "launcher/limits/job_limits.h"

struct job_clock;

/* Reads a point in time: a duration from now (duration.h), "HH:MM[:SS]" (the next such time),
 * "YYYY-MM-DD", or "YYYY-MM-DDTHH:MM[:SS]" with "T" or a space. Times are in the local time zone,
 * and in UTC if "Z" follows. `now_s` and `*out_s` are seconds since 1970. -EINVAL  malformed
 *   -ERANGE  the time has passed */
int job_clock_parse_deadline(double *out_s, const char *text, double now_s, struct err *e);

/* Reads the limits that the user has written as text.
 *   -EINVAL, -ERANGE  as job_clock_parse_deadline() and job_limits_parse_budget() */
int job_clock_read_limits(struct job_limits *l, struct err *e);

/* Starts to measure, with no GPU in use. `on_limit` is called once, by the loop. Borrows the
 * limits. */
struct job_clock *job_clock_open(uv_loop_t *loop, const struct job_limits *l,
                                 void (*on_limit)(void *arg, enum job_limit limit), void *arg);
/* The handle closes in the loop's next iteration. `c` may be NULL. */
void job_clock_close(struct job_clock *c);

/* From now on this number of GPUs is in use. `c` may be NULL. */
void job_clock_set_gpus(struct job_clock *c, double gpus);

struct job_limits_usage job_clock_usage(struct job_clock *c);
