/* usage_run - what a job of `drover run` uses: samples the GPUs of this machine's ranks during its
 * attempts, and then reports and stores the figures.
 *
 * A job without GPUs is not measured. Of a job over several nodes, only the GPUs of this machine
 * are sampled; the report says so. */
#ifndef DROVER_USAGE_RUN_H
#define DROVER_USAGE_RUN_H

#include "common/err.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/strbuf.h"
#include "launcher/engine/launch.h"
#include "launcher/monitor/job_monitor.h"

enum { USAGE_RUN_LEAST_S = 5 }; /* a shorter job has too few samples, and is not reported */

struct usage_run;
struct usage_run *usage_run_open(void);
void usage_run_close(struct usage_run *u);
AUTO_DEFINE(usage_run, struct usage_run *, usage_run_close)

/* Starts to sample for an attempt. The job is borrowed until usage_run_ended(). */
void usage_run_attach(struct usage_run *u, const struct launch *job);
/* Returns the monitor of the present or the last attempt; NULL: it has no GPU on this machine. */
struct job_monitor *usage_run_monitor(const struct usage_run *u);
void usage_run_ended(struct usage_run *u, const struct job_end *end);

struct usage_run_end {
    const char *program; /* prefix of the lines */
    int status;          /* exit status of `drover run` */
    double gpu_hours;    /* of all attempts, on all nodes */
    double price;        /* of a GPU hour; 0: not given */
};

/* After the last attempt: appends the report to `text`, sets *event to the members of the event
 * `usage` (new reference), and stores the job. Does nothing if the job had no GPUs or was short.
 * May wait for another process that uses the store. Errors are those of history_jobs_put(); line
 * and event exist nevertheless. */
int usage_run_finish(struct usage_run *u, const struct usage_run_end *end, struct strbuf *text,
                     json_t **event, struct err *e);

#endif
