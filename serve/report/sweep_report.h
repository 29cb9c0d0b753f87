/* sweep_report - what the report of a sweep says: the question, the result, the cost, the failures,
 * the machines, and how to run it again. */
#pragma once

#include "launcher/report/report_document.h"
#include "serve/data/serve_sweeps.h"

/* Adds the names that an anonymous report does not show: the hosts of the sweep, this machine, and
 * the names of this user. */
void sweep_report_names(struct report_anonymous *a, const struct sweep_reader *v);

/* Fills the document. `now_ms`: since 1970. */
void sweep_report(struct report_document *d, struct serve_sweep *s, int64_t now_ms);
