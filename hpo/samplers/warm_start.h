/* warm_start - observations of earlier sweeps, from which a sampler learns before the first trial.
 *
 * They are an array of observations {"params": {…}, "values": {metric: number}}. "params" is a
 * complete parameter set in the order of the space. "values" has a finite value for each metric of
 * the sweep. Observations are not trials: they have no number, do not count for run_cap, and are
 * never the best trial. */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "hpo/spec/spec.h"
#include "hpo/trial/trial.h"

struct warm_start_counts { /* numbers of trials of the other sweep */
    size_t done, taken;
    size_t outside;   /* done, but not taken: outside of the space */
    size_t valueless; /* done, but not taken: a metric has no finite value */
};

/* Appends to `into` the trials of another sweep that are done and fit the space of `s`. Returns how
 * many trials were taken or not taken. `metric` names the metric of the trials' points; NULL: no
 * metric of this sweep. For all other metrics the last value counts. Costs space_params() and one
 * pass over the points per trial. */
struct warm_start_counts warm_start_import(json_t *into, const struct spec *s,
                                           const struct trial_view *trials, const char *metric);
