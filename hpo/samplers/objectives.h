/* objectives - the values of a trial for the objectives of a sweep, in a form where smaller is
 * better. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "hpo/samplers/sampler.h"
#include "hpo/trial/trial.h"

/* Writes a trial's value for each objective to y[0 … count - 1]. A value is negated if its goal is
 * to maximise, so smaller is better. The first objective's value is trial_value(), the best or the
 * last one; for the others the last reported value counts. Returns false and leaves y unchanged if
 * a value is missing or not finite. The trial's state makes no difference: the caller decides if a
 * failed trial counts. */
bool objectives_values(const struct sampler_objective *objectives, size_t count,
                       const struct trial *t, double *y);
