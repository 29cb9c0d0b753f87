/* sweep_report_data - the answers of the dashboard's server as elements of a report:
 *
 *     <script type="application/gzip" data-answer="columns">BASE64</script>
 *
 * Answers are `columns` and `overview`, and by the numbers of metrics and
 * parameters `density 0`, `curves 0`, `surface 1` and `surface 1 2`. */
#pragma once

#include "common/strbuf.h"
#include "launcher/report/report_anonymous.h"
#include "serve/data/serve_sweeps.h"

/* Appends the elements. `a` NULL: names stay. */
void sweep_report_data(struct strbuf *out, struct serve_sweep *s, struct report_anonymous *a);
