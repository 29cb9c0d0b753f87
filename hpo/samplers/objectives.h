/* objectives - what a search is after, and how near a trial came to it: values in minimised form.
 */
#ifndef DROVER_OBJECTIVES_H
#define DROVER_OBJECTIVES_H

#include <stdbool.h>
#include <stddef.h>

#include "hpo/samplers/sampler.h"
#include "hpo/trial/trial.h"

/* y[0 … count - 1]: a trial's value for each goal, smaller is better: negated where the goal is to
 * maximise. The first goal's is trial_value(), the best or the last; of the others the last that
 * was reported. False, with y untouched, where one is missing or not finite. Whatever the trial's
 * state: whether a failed one counts is for the caller. */
bool objectives_values(const struct sampler_objective *objectives, size_t count,
                       const struct trial *t, double *y);

#endif
