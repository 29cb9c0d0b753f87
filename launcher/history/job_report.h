/* job_report - `drover run --report FILE`: a job as a file to mail. It says what ran where, how it
 * ended, the first failure, and what the job has used. */
#ifndef DROVER_JOB_REPORT_H
#define DROVER_JOB_REPORT_H

#include "common/err.h"
#include "common/mem.h"
#include "launcher/plan/plan.h"

struct job_report;
struct job_report *job_report_open(const char *path); /* borrowed */
void job_report_close(struct job_report *r);
AUTO_DEFINE(job_report, struct job_report *, job_report_close)

struct job_report_end {
    int status;          /* exit status of `drover run` after the attempt */
    double seconds;      /* of the attempt */
    const char *failure; /* description of the first failure; "": none */
};

/* An attempt has ended. The last one counts. `r` may be NULL. */
void job_report_ended(struct job_report *r, const struct plan *p, const struct job_report_end *end);

/* Writes the file. Does nothing if no attempt has ended, or `r` is NULL. `usage`: what the job has
 * used; "": unknown.
 *   -EIO  the file cannot be written */
int job_report_finish(struct job_report *r, const char *usage, struct err *e);

#endif
