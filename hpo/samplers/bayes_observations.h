/* bayes_observations - the trials of a sweep as observations of a model: certain ones, forecasts,
 * and failures. */
#ifndef DROVER_BAYES_OBSERVATIONS_H
#define DROVER_BAYES_OBSERVATIONS_H

#include "common/mem.h"
#include "hpo/samplers/bayes_features.h"
#include "hpo/samplers/bayes_model.h"
#include "hpo/samplers/sampler.h"

struct bayes_observations { /* read by the sampler; only bayes_observations.c changes it */
    const struct sampler_task *task;
    const struct bayes_features *space;

    /* Observations of each objective, of the same trials: first those of other sweeps, then those
     * of trials that are done, in the order of their ends, then, as of the last update, forecasts
     * of trials that were stopped early, are paused, or have reported something so far. */
    struct bayes_data *data;
    size_t certain; /* how many of them are not forecasts */
    double *u;      /* rows of dims: their points */
    size_t u_cap;
    int *ids; /* their trials; -1: of another sweep */
    size_t id_cap;

    struct bayes_data ends; /* of all trials that have ended: 1, or -1 if it failed */
    size_t failures;
    /* The ends and failures of trials that the model chose: of trials from number `first` on.
     * Trials before it only fill the space. */
    size_t first, late_ends, late_failures;

    double *pending; /* rows of dims: trials that have not ended and have no forecast */
    size_t pending_count, pending_cap;

    /* By trial: */
    bool *taken;         /* its end is among the certain observations or the failures */
    double *trial_rows;  /* rows of dims, then columns: its point; parameters never change */
    signed char *inside; /* 1: it is in the space; -1: it is not; 0: its row is not set */
    size_t trial_cap;
};

/* Borrows both. `first`: number of observations and trials that fill the space before a model
 * chooses. Observations of other sweeps are added at once, and count. */
struct bayes_observations *bayes_observations_new(const struct sampler_task *task,
                                                  const struct bayes_features *space, size_t first);
void bayes_observations_free(struct bayes_observations *p);
AUTO_DEFINE(bayes_observations, struct bayes_observations *, bayes_observations_free)

/* Updates everything from `view`, which only ever grows from call to call. Cost: O(trials), and a
 * forecast if there are values to forecast. */
void bayes_observations_update(struct bayes_observations *p, const struct trial_view *view);

/* Writes the numbers of the best `most` observations of an objective, best first, to `out`.
 * Forecasts count only if there is no certain observation. Returns how many. */
size_t bayes_observations_best(const struct bayes_observations *p, size_t objective, size_t most,
                               size_t *out);

/* Whether an observation is at u, within 1e-7. */
bool bayes_observations_at(const struct bayes_observations *p, const double *u);

#endif
