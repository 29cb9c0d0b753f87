/* serve_overview - a sweep as JSON for the page: its facts, its best trial, its workers, and one
 * trial with all details. */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/strbuf.h"
#include "serve/data/serve_sweeps.h"

/* Returns {"name","description","method","state","counts","total_wanted","metric","maximize",
 * "objectives","best","importance","workers","resources","early_terminate","constraints",
 * "outcome_constraints","file",…}
 * (new reference). Importance is computed anew at most every few seconds. */
json_t *serve_overview_json(struct serve_sweep *s);

/* Appends the body of serve_columns.h with all trials that have a record after `since`. */
void serve_overview_columns(struct strbuf *out, struct serve_sweep *s, int64_t since);

/* Returns a trial as `sweep show NAME TRIAL --json` prints it, with "command" and "files" (new
 * reference), or NULL: there is no such trial. */
json_t *serve_overview_trial(const struct serve_sweep *s, int trial, struct err *e);

/* Appends the last bytes, at most `max`, of the file `stream` of a trial's last lease, and sets
 * *size to the size of the file.
 *   -ENOENT   no such trial
 *   -ENODATA  it has no such file on this machine; others as open() */
int serve_overview_log(struct strbuf *out, off_t *size, const struct serve_sweep *s, int trial,
                       const char *stream, size_t max, struct err *e);
