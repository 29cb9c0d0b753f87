/* prior - what other searches saw, for a search to learn from before its first trial.
 *
 * An array of observations {"params": {…}, "values": {metric: number}}: a parameter set of the
 * space, complete and in its order, and a finite value of each of the search's metrics. They are no
 * trials: they have no number, count for nothing and are never the best. */
#ifndef DROVER_WARM_START_H
#define DROVER_WARM_START_H

#include <jansson.h>
#include <stddef.h>

#include "hpo/spec/spec.h"
#include "hpo/trial/trial.h"

struct warm_start_counts { /* of trials that are done */
    size_t done, taken;
    size_t outside;   /* of the space: not taken */
    size_t valueless; /* without a finite value of each metric: not taken */
};

/* Appends to `into` those trials of another sweep that are done and that fit to s. `metric` is the
 * one that their points are values of (NULL: none); of others the last value counts. Cost: that of
 * space_params() for each, and its points. */
struct warm_start_counts warm_start_import(json_t *into, const struct spec *s,
                                           const struct trial_view *trials, const char *metric);

#endif
