/* cmd_run_hang - --hang-timeout: looks at the ranks from time to time, and tells when the job
 * stands still: where every rank stands, who differs from the others, and their stacks. */
#ifndef DROVER_RUN_HANG_REPORT_H
#define DROVER_RUN_HANG_REPORT_H

#include <uv.h>

#include "common/json.h"
#include "common/strbuf.h"
#include "launcher/engine/launch.h"
#include "launcher/run/cmd_run.h"

struct run_hang_report;

/* `found` is called twice, from the loop: at once with the report for people (whole lines), `j`
 * NULL; and when stacks were taken, with these and, for a file, everything as JSON (its own
 * reference). The job and the options (`who`, `hang_timeout_s`) are borrowed. */
struct run_hang_report *run_hang_report_open(uv_loop_t *loop, struct launch *job,
                                             const struct run_options *o,
                                             void (*found)(void *arg, const char *text, json_t *j),
                                             void *arg);
/* Appends how the collectives of the job's ranks stand to each other, for people (whole lines).
 * Nothing where nobody waits in one and none has failed. Says whether anybody differs. */
bool run_hang_report_collectives(struct strbuf *b, const struct launch *job, const bool *over);

/* Its handles close on the loop's next turns. */
void run_hang_report_close(struct run_hang_report *h);

void run_hang_report_activity(struct run_hang_report *h, int rank);
/* The answer to launch_request_stack(). */
void run_hang_report_stack(struct run_hang_report *h, int rank, const char *text);
void run_hang_report_job_ended(struct run_hang_report *h, int rank);

#endif
