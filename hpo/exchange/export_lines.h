/* export_lines - a sweep as lines of JSON: one line per trial, with its curves. */
#ifndef DROVER_EXPORT_LINES_H
#define DROVER_EXPORT_LINES_H

#include <stdio.h>

#include "hpo/exchange/export_params.h"
#include "hpo/reader/sweep_reader.h"

/* Returns the trial: sweep_columns_trial_json() with "created_ms", "leased_ms"?, "ended_ms"? (since
 * 1970) and "curves" {metric: [[step, value], …]} (new reference). */
json_t *export_lines_trial(const struct sweep_columns *c, size_t trial);

/* Returns {"name", "method", "metrics": [{"name", "goal"}], "params": [export_params_json()]} (new
 * reference). */
json_t *export_lines_header(const struct sweep_reader *v, const struct export_params *p);

/* Writes one line per trial. Returns 0, or a negative errno if `out` cannot be written. */
int export_lines_write(FILE *out, const struct sweep_columns *c);

#endif
