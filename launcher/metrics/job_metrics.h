/* job_metrics - the metrics of the job of `drover run`: observes the job, and serves its values and
 * those of its GPUs. */
#ifndef DROVER_JOB_METRICS_H
#define DROVER_JOB_METRICS_H

#include <uv.h>

#include "common/err.h"
#include "launcher/engine/launch.h"
#include "launcher/limits/job_clock.h"
#include "launcher/monitor/job_monitor.h"

struct job_metrics;

struct job_metrics_opts { /* all is borrowed */
    const char *address;  /* of --metrics */
    const struct job_limits *limits;
    struct job_clock *clock;
    struct job_monitor *const *monitor; /* of the present attempt; it may point to NULL */
};

/* Starts to serve. Errors are those of metrics_server_open(). */
int job_metrics_open(struct job_metrics **out, uv_loop_t *loop, const struct job_metrics_opts *o,
                     struct err *e);
/* In these functions `m` may be NULL. */
void job_metrics_close(struct job_metrics *m);
const char *job_metrics_url(const struct job_metrics *m);

/* Observes the job of an attempt. The first attempt is 0. The job is borrowed until
 * job_metrics_ended(). */
void job_metrics_attach(struct job_metrics *m, struct launch *job, int attempt);
void job_metrics_ended(struct job_metrics *m);
/* The job hangs. */
void job_metrics_hang(struct job_metrics *m);

#endif
