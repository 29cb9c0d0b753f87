/* exchange_lines - a sweep as lines of JSON: what `drover export --jsonl` writes, and what
 * drover_exchange.py reads from its stdin and writes to its stdout.
 *
 * One line per trial: {"state", "params", "metrics": {name: number}, "value"?, "goals"?: {name:
 * "minimize" or "maximize"} of the sweep's metrics, the first one first, "feasible"?: true or
 * false, "outcome_constraints"? of the sweep, "curves"?: {name: [[step, value], …]}, "created_ms"?,
 * "leased_ms"?, "ended_ms"?, "seconds"?, "node"?, "error"?}. Times are milliseconds since 1970.
 * "params" has groups as nested objects. Numbers that are not finite are texts: "nan", "inf",
 * "-inf".
 *
 * Between drover and drover_exchange.py a line that describes the sweep comes first. Of an export:
 * {"name", "method", "metrics": [{"name", "goal"}], "params": [{"name", "kind": "real" or
 * "integer", "low", "high", "log", "step"?} or {"name", "kind": "choice", "choices"}]}. Of an
 * import:
 * {"metrics": [{"name", "goal"}], "parameters"?: as in a sweep file, "unfinished": number of trials
 * that are left out, "texts"?: parameters are texts of a table's cells (param_text.h)}. */
#pragma once

#include <stdio.h>

#include "hpo/exchange/import_trials.h"
#include "hpo/reader/sweep_reader.h"

/* Returns the line that describes an export (new reference). */
json_t *exchange_lines_header(const struct sweep_reader *v);

/* Writes one line per trial. Returns 0, or a negative errno if `out` cannot be written. */
int exchange_lines_write(FILE *out, const struct sweep_columns *c);

/* Adds the trials of a text to *out, which the caller clears, also after a failure, and the number
 * of those that wait or run to *unfinished. `described`: the first line describes the sweep. If no
 * metric is known, it is the only one of the first trial.
 *   -EINVAL  a line is not such an object, or there are several metrics (the hint is an option) */
int exchange_lines_read(struct import_trials *out, size_t *unfinished, const char *text, size_t len,
                        bool described, struct err *e);
