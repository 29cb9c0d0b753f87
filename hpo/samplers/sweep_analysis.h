/* sweep_analysis - which parameters matter, and the Pareto front of several objectives. */
#ifndef DROVER_SWEEP_ANALYSIS_H
#define DROVER_SWEEP_ANALYSIS_H

#include <jansson.h>

#include "hpo/samplers/sampler.h"
#include "hpo/trial/trial.h"

enum { SWEEP_ANALYSIS_TRIALS_MIN = 10 };

/* Returns each parameter's importance for the first objective: its share in whether a trial is
 * among the best (importance_of()), {name: share}, the largest first. The shares add up to 1, or to
 * 0 if no parameter matters. Only trials that are done or pruned count. Null if fewer than
 * SWEEP_ANALYSIS_TRIALS_MIN of them have a value. New reference. */
json_t *sweep_analysis_importance(const struct space *space,
                                  const struct sampler_objective *objectives,
                                  const struct trial_view *view);

/* Returns the trials that no other trial dominates: an array of ids, the best in the first
 * objective first. Trials that failed or lack a value do not count. New reference. */
json_t *sweep_analysis_front(const struct sampler_objective *objectives, size_t count,
                             const struct trial_view *view);

#endif
