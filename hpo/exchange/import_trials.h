/* import_trials - trials of another tool in the form of export_lines.h, and the sweep file that
 * describes them. Pure. */
#ifndef DROVER_IMPORT_TRIALS_H
#define DROVER_IMPORT_TRIALS_H

#include <jansson.h>
#include <stdbool.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/spec/spec.h"

struct import_metric {
    char *name;
    bool maximize;
};

struct import_trials {
    struct import_metric metrics[SPEC_METRICS_MAX];
    int metric_count;
    /* The `parameters` of a sweep file, as far as the other tool has them; NULL: none. Ranges that
     * it lacks come from the values. */
    json_t *parameters;
    /* A list of {"state", "params", "metrics": {name: number}, "curves"?: {name: [[step, value],
     * …]}, "created_ms"?, "leased_ms"?, "ended_ms"?, "seconds"?, "node"?, "error"?}. "params" has
     * groups as nested objects. */
    json_t *trials;
};

void import_trials_clear(struct import_trials *t);

/* Adds a metric.
 *   -EINVAL  there are SPEC_METRICS_MAX already, or the name was added before */
int import_trials_add_metric(struct import_trials *t, const char *name, bool maximize,
                             struct err *e);

/* Sets a parameter with a dotted name in a nested object: {"optimizer": {"lr": …}}. Takes over the
 * reference to `value`. A name whose group is a value already keeps its dots. */
void import_trials_set(json_t *params, const char *dotted, json_t *value);

/* Returns what a cell of a table means: an integer, a real, true or false as JSON or Python write
 * them, or else the text; NULL if it is empty (new reference). */
json_t *import_trials_cell(const char *text);

/* Returns the state of drover for a word of another tool ("COMPLETE", "finished", "crashed"), or
 * NULL if the trial has not ended or the word is unknown. */
const char *import_trials_state(const char *word);

/* Returns the text of the sweep file, which the caller frees.
 *   -ENODATA  there is no trial, or no metric, or no parameter */
int import_trials_file(char **out, const struct import_trials *t, const char *name, struct err *e);

#endif
