/* bayes_observations - the trials of a sweep as observations of a model: final values, forecasts,
 * and failures. */
#pragma once

#include "common/mem.h"
#include "hpo/samplers/bayes_features.h"
#include "hpo/samplers/bayes_model.h"
#include "hpo/samplers/sampler.h"

struct bayes_observations { /* only bayes_observations.c changes the fields */
    const struct sampler_task *task;
    const struct bayes_features *space;

    /* One list of observations per objective, all of the same trials. The list has first the
     * observations of other sweeps. Then it has the trials that are done, in the order of their
     * ends. Last it has the forecasts that the last update made: of trials that were stopped early,
     * and of those that have reported values and have not ended. */
    struct bayes_data *data;
    /* Then one list per outcome constraint, of the trials that are done and have its metric. Their
     * observations are certain. The values are negated if the constraint has no `max`. */
    size_t lists;
    bool *feasible; /* of each observation of the first lists; a forecast never is */
    size_t certain; /* number of observations before the forecasts */
    double *u;      /* the points of the observations: rows of dims */
    size_t u_cap;
    int *ids; /* the trial of each observation; -1: it is from another sweep */
    size_t id_cap;

    struct bayes_data ends; /* one observation per ended trial: 1, or -1 if it failed */
    size_t failures;
    /* The model chooses the trials from number `first` on; earlier trials only fill the space.
     * late_ends and late_failures count the trials that the model chose. */
    size_t first, late_ends, late_failures;

    double *pending; /* points (rows of dims) of trials that have not ended and have no forecast */
    size_t pending_count, pending_cap;

    struct { /* the observation that is being added: its point, its columns, its values */
        double *u, *x, *y;
    } one;

    /* Arrays with one entry per trial: */
    bool *taken;         /* its end has been added */
    double *trial_rows;  /* its point (dims numbers) and its columns; kept, since parameters never
                            change */
    signed char *inside; /* 1: it is in the space; -1: it is not; 0: its row is not set */
    size_t trial_cap;
};

/* Returns the observations, which the caller frees. Borrows `task` and `space`. Adds the
 * observations of other sweeps. `first` is the number of observations that fill the space before
 * the model chooses trials; the observations of other sweeps count. */
struct bayes_observations *bayes_observations_new(const struct sampler_task *task,
                                                  const struct bayes_features *space, size_t first);
void bayes_observations_free(struct bayes_observations *p);
AUTO_DEFINE(bayes_observations, struct bayes_observations *, bayes_observations_free)

/* Updates all fields from `view`, to which trials may only be added between calls. Costs O(trials),
 * and the forecasts if there are values to forecast. */
void bayes_observations_update(struct bayes_observations *p, const struct trial_view *view);

/* Writes to `out` the numbers of the best observations of an objective, best first, at most `most`.
 * Those that are not feasible come last. Forecasts count only if there is no certain observation.
 * Returns how many were written. */
size_t bayes_observations_best(const struct bayes_observations *p, size_t objective, size_t most,
                               size_t *out);

/* Returns true if an observation is at u or differs from it by less than 1e-7 in each
 * coordinate. */
bool bayes_observations_at(const struct bayes_observations *p, const double *u);
