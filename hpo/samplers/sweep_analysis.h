/* sweep_analysis - the importance of parameters, and the Pareto set of several objectives. */
#pragma once

#include <jansson.h>

#include "hpo/samplers/sampler.h"
#include "hpo/trial/trial.h"

enum { SWEEP_ANALYSIS_TRIALS_MIN = 10 };

/* Returns the importance of each parameter for the first objective as an object {name: share}, the
 * largest share first (new reference). A share is importance_of() divided by the sum over all
 * parameters. The shares add up to 1, or to 0 if no parameter matters. Only trials that are done or
 * pruned count. Returns a JSON null if fewer than SWEEP_ANALYSIS_TRIALS_MIN of them have a value.
 */
json_t *sweep_analysis_importance(const struct space *space,
                                  const struct sampler_objective *objectives,
                                  const struct trial_view *view);

/* Returns the same with an interval: {name: [share, low, high]}, where low and high are the
 * smallest and the largest share in `resamples` bootstrap samples of the trials, without the
 * outermost twentieth at each end; the share itself lies between them. Every call draws the same
 * samples. Costs `resamples` times as much. */
json_t *sweep_analysis_importance_ranges(const struct space *space,
                                         const struct sampler_objective *objectives,
                                         const struct trial_view *view, size_t resamples);

/* Returns the ids of the trials that no other trial dominates, as an array (new reference). The
 * best trial in the first objective comes first. Trials that failed or lack a value do not count.
 */
json_t *sweep_analysis_front(const struct sampler_objective *objectives, size_t count,
                             const struct trial_view *view);
