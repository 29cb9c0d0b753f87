/* insight - what the trials say about a search's parameters and objectives, for those who look at
 * it. */
#ifndef DROVER_SWEEP_ANALYSIS_H
#define DROVER_SWEEP_ANALYSIS_H

#include <jansson.h>

#include "hpo/samplers/sampler.h"
#include "hpo/trial/trial.h"

enum { SWEEP_ANALYSIS_TRIALS_MIN = 10 };

/* Each parameter's share in whether a trial is among the best in the first goal (importance_of()):
 * {name: share}, the largest first; their sum is 1, or 0 where nothing decides. Only trials that
 * are done or pruned count. Null with fewer than SWEEP_ANALYSIS_TRIALS_MIN of them that have a
 * value. New reference. */
json_t *sweep_analysis_importance(const struct space *space,
                                  const struct sampler_objective *objectives,
                                  const struct trial_view *view);

/* The trials that none is better than in all objectives: an array of ids, the best in the first
 * goal first. Those that failed or lack a value do not count. New reference. */
json_t *sweep_analysis_front(const struct sampler_objective *objectives, size_t count,
                             const struct trial_view *view);

#endif
