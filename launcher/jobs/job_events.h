/* job_events - the events of a job as lines of JSON in a file (docs/drover-run.md has the schema).
 *
 * Each line is appended by one write, so that several jobs may share a file. A failed write is
 * reported once; the job continues. */
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "common/json.h"
#include "common/mem.h"

struct job_events;

/* Opens the file for appending, and creates it if it does not exist. A pipe needs a reader. */
int job_events_open(struct job_events **out, const char *path, struct err *e);
void job_events_close(struct job_events *ev);
AUTO_DEFINE(job_events, struct job_events *, job_events_close)

/* Writes {"time":…,"event":`event`,"job":`job`, and the members of `fields`}. Takes the reference
 * to `fields`, which may be NULL. `ev` may be NULL: nothing is written. */
void job_events_write(struct job_events *ev, const char *event, const char *job, json_t *fields);

/* Formats milliseconds since 1970 as "2026-01-31T12:00:00.123Z", in 25 bytes. */
void job_events_time(char out[25], int64_t unix_ms);
