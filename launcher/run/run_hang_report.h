/* run_hang_report - reports where each rank of a job that hangs waits, which ranks differ from most
 * ranks, and their call stacks. Implements --hang-timeout: samples the ranks, and decides if the
 * job hangs. */
#ifndef DROVER_RUN_HANG_REPORT_H
#define DROVER_RUN_HANG_REPORT_H

#include <uv.h>

#include "common/json.h"
#include "common/strbuf.h"
#include "launcher/engine/launch.h"
#include "launcher/run/console.h"
#include "launcher/run/run_options.h"

struct run_hang_report;

/* Observes the job. If the job hangs, prints a report on the console immediately, and the call
 * stacks when they have arrived. Then the loop calls `on_hang` once, with all of this as JSON; the
 * callee owns the reference. Borrows the job, the options and the console. */
struct run_hang_report *run_hang_report_open(uv_loop_t *loop, struct launch *job,
                                             const struct run_options *o, struct console *console,
                                             void (*on_hang)(void *arg, json_t *report), void *arg);
/* Reports that the job hangs although --hang-timeout has not found it: `cause` says why, and names
 * the ranks whose entries in `ranks` are true. `fields` describe the cause in the report; takes
 * over the caller's reference. */
void run_hang_report_start(struct run_hang_report *h, const char *cause, const bool *ranks,
                           json_t *fields);
/* Stops observing. Call this only when the job emits no more events: in its `ended` or later. The
 * handles close in the loop's next iterations. `h` may be NULL. */
void run_hang_report_close(struct run_hang_report *h);

/* Appends complete lines that say how the positions of the job's ranks in their collectives differ.
 * Appends nothing if no rank waits in a collective and no rank has failed in one. `ended` says for
 * each rank if it has ended. Returns true if any rank differs. */
bool run_hang_report_collectives(struct strbuf *b, const struct launch *job, const bool *ended);

#endif
