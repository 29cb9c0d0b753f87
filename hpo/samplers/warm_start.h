/* warm_start - observations of earlier sweeps, from which a sampler learns before the first trial.
 *
 * An array of observations {"params": {…}, "values": {metric: number}}: a parameter set of the
 * space, complete and in its order, and a finite value of each of the sweep's metrics. They are not
 * trials: they have no number, do not count for run_cap, and are never the best. */
#ifndef DROVER_WARM_START_H
#define DROVER_WARM_START_H

#include <jansson.h>
#include <stddef.h>

#include "hpo/spec/spec.h"
#include "hpo/trial/trial.h"

struct warm_start_counts { /* trials of the other sweep that are done */
    size_t done, taken;
    size_t outside;   /* not taken: outside of the space */
    size_t valueless; /* not taken: a metric has no finite value */
};

/* Appends the trials of another sweep that are done and fit the space of s to `into`. `metric`
 * names the metric whose values their points are (NULL: none); of other metrics the last value
 * counts. Cost per trial: space_params(), and its points. */
struct warm_start_counts warm_start_import(json_t *into, const struct spec *s,
                                           const struct trial_view *trials, const char *metric);

#endif
