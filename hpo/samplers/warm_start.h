/* warm_start - observations of earlier sweeps, from which a sampler learns before the first trial.
 *
 * They are an array of observations {"params": {…}, "values": {metric: number}}. "params" is a
 * complete parameter set in the order of the space. "values" has a finite value for each metric of
 * the sweep, and may have one for each outcome constraint; without it, it is not known to be
 * feasible. Observations are not trials: they have no number, do not count for run_cap, and are
 * never the best trial. */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "hpo/spec/spec.h"
#include "hpo/trial/trial.h"

struct warm_start_counts { /* numbers of trials of the other sweep */
    size_t done, taken;
    /* Why the others that are done were not taken: {"'x' is outside its range": 3, …}, in the order
     * of the trials; the caller releases it. Reasons after the first WARM_START_REASONS_MAX count
     * as "other reasons". */
    json_t *left_out;
};
enum { WARM_START_REASONS_MAX = 6 };

/* Appends to `into` the trials of another sweep that are done and fit the space of `s`. Returns how
 * many trials were taken or not taken. `metric` names the metric of the trials' points; NULL: no
 * metric of this sweep. For all other metrics the last value counts. Costs space_params() and one
 * pass over the points per trial. */
struct warm_start_counts warm_start_import(json_t *into, const struct spec *s,
                                           const struct trial_view *trials, const char *metric);
