/* run_hang_report - reports where each rank of a job that hangs waits, which ranks differ from most
 * ranks, and their call stacks. Implements --hang-timeout: samples the ranks, and decides if the
 * job hangs. Also reports ranks that exceed the limits of sections and heartbeats, and stragglers
 * (job_progress.h) with what the checks find on their nodes. */
#ifndef DROVER_RUN_HANG_REPORT_H
#define DROVER_RUN_HANG_REPORT_H

#include <uv.h>

#include "common/json.h"
#include "common/strbuf.h"
#include "launcher/engine/launch.h"
#include "launcher/run/console.h"
#include "launcher/run/run_options.h"

struct run_hang_report;

/* The callee owns the references. */
struct run_hang_report_events {
    void (*hang)(void *arg, json_t *report); /* once, when the report is printed */
    /* A rank has become slow or is no longer slow ("straggler"), or the node of a slow rank was
     * checked ("straggler_checks"); after it was printed. */
    void (*progress)(void *arg, const char *event, json_t *fields);
};

/* Observes the job. If the job hangs, prints a report on the console immediately, and the call
 * stacks when they have arrived. Then the loop calls `hang` with all of this as JSON. Borrows the
 * job, the options, the console and the events. Returns NULL if the options ask for none of this.
 */
struct run_hang_report *run_hang_report_open(uv_loop_t *loop, struct launch *job,
                                             const struct run_options *o, struct console *console,
                                             const struct run_hang_report_events *to, void *arg);
/* With --learn-timeouts: remembers the longest times of the ranks in sections and between
 * heartbeats. Call it before run_hang_report_close(), if nothing has hung. `h` may be NULL. */
void run_hang_report_learn(const struct run_hang_report *h);
/* Stops observing. Call this only when the job emits no more events: in its `ended` or later. The
 * handles close in the loop's next iterations. `h` may be NULL. */
void run_hang_report_close(struct run_hang_report *h);

/* Appends complete lines that say how the positions of the job's ranks in their collectives differ.
 * Appends nothing if no rank waits in a collective and no rank has failed in one. `ended` says for
 * each rank if it has ended. Returns true if any rank differs. */
bool run_hang_report_collectives(struct strbuf *b, const struct launch *job, const bool *ended);

#endif
