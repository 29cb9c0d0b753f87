/* import_trials - trials of another tool in the form of exchange_lines.h, and the sweep file that
 * describes them. Pure. */
#pragma once

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
    bool value_best; /* a trial's value is the best one of its curve, not the last one */
    /* The `parameters` of a sweep file, as far as the other tool has them; NULL: none. Ranges that
     * it lacks come from the values. */
    json_t *parameters;
    bool texts;       /* their values are texts of param_text.h */
    json_t *renamed;  /* {name of the other tool: name here}; NULL: none */
    json_t *outcomes; /* `outcome_constraints` of a sweep file; NULL: none */
    /* A list of trials as in exchange_lines.h. */
    json_t *trials;
};

void import_trials_clear(struct import_trials *t);

/* Adds a metric.
 *   -EINVAL  there are SPEC_METRICS_MAX already, or the name was added before */
int import_trials_add_metric(struct import_trials *t, const char *name, bool maximize,
                             struct err *e);

/* Returns the text of the sweep file, which the caller frees. Parameters of the trials get names
 * that a sweep file allows, and values instead of texts.
 *   -ENODATA  there is no trial, or no metric, or no parameter */
int import_trials_file(char **out, struct import_trials *t, const char *name, struct err *e);
