/* baseline_run - implements `drover run --baseline NAME`: measures a job from rank 0's reports, and
 * compares it with the stored baseline of this name.
 *
 * Reports come through the report channel (spec.reports), or are lines of stdout that are mappings;
 * after the first one on the channel, lines do not count. The CPU time is that of the ranks on this
 * machine, if these are all. */
#ifndef DROVER_BASELINE_RUN_H
#define DROVER_BASELINE_RUN_H

#include "common/err.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/strbuf.h"
#include "launcher/engine/launch.h"

struct baseline_run;

/* `name` is borrowed. With `update`, the result replaces a stored baseline. */
struct baseline_run *baseline_run_open(const char *name, bool update);
void baseline_run_close(struct baseline_run *b);
AUTO_DEFINE(baseline_run, struct baseline_run *, baseline_run_close)

/* In these functions `b` may be NULL, if the user wants no baseline. */

/* Observes the job of an attempt, and forgets the previous one. The job is borrowed until
 * baseline_run_ended(). `s`: its spec. */
void baseline_run_attach(struct baseline_run *b, struct launch *job, const struct launch_spec *s);
/* Ends the measurement. It is dropped if the job was stopped, if `status` is not 0, or if rank 0 is
 * in another part of the job. */
void baseline_run_ended(struct baseline_run *b, const struct job_end *end, int status);
/* Compares and stores the measurement of the last attempt. Appends a line to `text`, and sets
 * *event to the members of the event `baseline` (new reference). Does nothing if there is no
 * measurement. May wait for another process that uses the store. Errors are those of
 * baseline_store.h; the line and the event are then missing. */
int baseline_run_finish(struct baseline_run *b, struct strbuf *text, json_t **event, struct err *e);

#endif
