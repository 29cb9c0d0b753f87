/* sweep_analysis - the importance of parameters, and the Pareto set of several objectives. */
#pragma once

#include <jansson.h>

#include "hpo/samplers/sampler.h"
#include "hpo/trial/trial.h"

enum { SWEEP_ANALYSIS_TRIALS_MIN = 10 };

/* Returns the importance of each parameter for the first objective as an object {name: share}, the
 * largest share first (new reference): the total share of sweep_importance(). All shares are 0 if
 * no parameter matters. Only trials that are done or pruned count. Returns a JSON null if fewer
 * than SWEEP_ANALYSIS_TRIALS_MIN of them have a value. */
json_t *sweep_analysis_importance(const struct space *space,
                                  const struct sampler_objective *objectives,
                                  const struct trial_view *view);

/* Returns the same with all that sweep_importance() says, from `resamples` parts of the trials:
 * {name: [share, low, high, first, region, best, better]}. `best` is the parameter's range in the
 * best twentieth of the space, [from, to], or [value] for a category. `better` is "lower" or
 * "higher" if a straight line over the parameter explains at least half of what it decides alone,
 * else null. */
json_t *sweep_analysis_importance_ranges(const struct space *space,
                                         const struct sampler_objective *objectives,
                                         const struct trial_view *view, size_t resamples);

/* Returns the ids of the trials that no other trial dominates, as an array (new reference). The
 * best trial in the first objective comes first. Trials that failed, lack a value, or are not
 * feasible do not count. */
json_t *sweep_analysis_front(const struct sampler_task *task, const struct trial_view *view);
