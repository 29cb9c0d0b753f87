/* events - what happens to a job, as lines of JSON in a file (docs/drover-run.md has the schema).
 *
 * Each line is written at once and whole, at the end of the file: several jobs may share one. What
 * cannot be written is said once; the job goes on. */
#ifndef DROVER_JOB_EVENTS_H
#define DROVER_JOB_EVENTS_H

#include <stdint.h>

#include "common/err.h"
#include "common/json.h"
#include "common/mem.h"

struct job_events;

/* Opens for appending; makes the file where it is not there. A pipe needs a reader. */
int job_events_open(struct job_events **out, const char *path, struct err *e);
void job_events_close(struct job_events *ev);
AUTO_DEFINE(job_events, struct job_events *, job_events_close)

/* Writes {"time":…,"event":`what`,"job":`job`, and the members of `fields`}. Takes over `fields`,
 * which may be NULL. `ev` may be NULL: nothing is written. */
void job_events_write(struct job_events *ev, const char *what, const char *job, json_t *fields);

/* "2026-01-31T12:00:00.123Z" of milliseconds since 1970, in 25 bytes. */
void job_events_time(char out[25], int64_t unix_ms);

#endif
