/* run_hang_report - --hang-timeout: samples the ranks, and if the job hangs, reports where every
 * rank waits, which ranks differ from the others, and their call stacks. */
#ifndef DROVER_RUN_HANG_REPORT_H
#define DROVER_RUN_HANG_REPORT_H

#include <uv.h>

#include "common/json.h"
#include "common/strbuf.h"
#include "launcher/engine/launch.h"
#include "launcher/run/console.h"
#include "launcher/run/run_options.h"

struct run_hang_report;

/* Observes the job. If it hangs, prints a report on the console at once, and the call stacks when
 * they have arrived; then calls `on_hang`, once and from the loop, with everything as JSON (the
 * callee owns the reference). Borrows the job, the options and the console. */
struct run_hang_report *run_hang_report_open(uv_loop_t *loop, struct launch *job,
                                             const struct run_options *o, struct console *console,
                                             void (*on_hang)(void *arg, json_t *report), void *arg);
/* Only once the job emits nothing more: in its `ended`, or later. Its handles close in the loop's
 * next iterations. May be NULL. */
void run_hang_report_close(struct run_hang_report *h);

/* Appends how the positions of the job's ranks in their collectives differ, as text (complete
 * lines). Appends nothing if no rank waits in a collective and none has failed. `ended`: by rank.
 * Returns true if any rank differs. */
bool run_hang_report_collectives(struct strbuf *b, const struct launch *job, const bool *ended);

#endif
