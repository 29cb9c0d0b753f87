/* worker_display - what a worker does: one line per event on stdout; on a terminal also a block
 * with its running trials. */
#pragma once

#include <stdbool.h>

#include "common/mem.h"
#include "hpo/worker/worker.h"

struct worker_display;

/* Borrows `endpoint`, at which the worker joins; it tries for `patience_s`. colour: stderr shows
 * colours. */
struct worker_display *worker_display_open(const char *endpoint, double patience_s, bool colour);
/* Call it after worker_run(). */
void worker_display_close(struct worker_display *d);
AUTO_DEFINE(worker_display, struct worker_display *, worker_display_close)

/* Is worker_opts.notice, with the display as `arg`. */
void worker_display_notice(void *arg, const struct worker_notice *n);
