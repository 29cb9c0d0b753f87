/* objectives - a trial's values by the objectives of a sweep, in minimised form. */
#ifndef DROVER_OBJECTIVES_H
#define DROVER_OBJECTIVES_H

#include <stdbool.h>
#include <stddef.h>

#include "hpo/samplers/sampler.h"
#include "hpo/trial/trial.h"

/* Writes a trial's value for each objective to y[0 … count - 1]. Smaller is better: a value is
 * negated if the goal is to maximise. The first objective's value is trial_value(), the best or the
 * last; of the others the last reported value counts. False, with y unchanged: a value is missing
 * or not finite. The trial's state makes no difference: the caller decides if a failed trial
 * counts. */
bool objectives_values(const struct sampler_objective *objectives, size_t count,
                       const struct trial *t, double *y);

#endif
