/* sweep_report - what the report of a sweep says: the question, the result, the cost, the failures,
 * the machines, and how to run it again. */
#ifndef DROVER_SWEEP_REPORT_H
#define DROVER_SWEEP_REPORT_H

#include "launcher/report/report_document.h"
#include "serve/serve_sweeps.h"

/* Adds the hosts that the sweep knows to the names that an anonymous report does not show. */
void sweep_report_hosts(struct report_anonymous *a, const struct sweep_reader *v);

/* Fills the document. `now_ms`: since 1970. */
void sweep_report(struct report_document *d, struct serve_sweep *s, int64_t now_ms);

#endif
