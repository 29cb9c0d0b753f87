/* bayes_past - what the trials of a search say about its space: observations, some of them certain,
 * some forecast, and failures. */
#ifndef DROVER_BAYES_OBSERVATIONS_H
#define DROVER_BAYES_OBSERVATIONS_H

#include "common/mem.h"
#include "hpo/samplers/bayes_features.h"
#include "hpo/samplers/bayes_model.h"
#include "hpo/samplers/sampler.h"

struct bayes_observations { /* read by the sampler; changed only here */
    const struct sampler_task *task;
    const struct bayes_features *space;

    /* Observations of each objective, of the same trials: first those that other searches made,
     * then those of trials that are done, in the order of their ends; then, as of the last look,
     * forecasts of those that were stopped early, are paused, or have reported something so far. */
    struct bayes_data *data;
    size_t certain; /* how many are no forecasts */
    double *u;      /* rows of dims: where they are */
    size_t u_cap;
    int *ids; /* their trials; -1: another search's */
    size_t id_cap;

    struct bayes_data ends; /* of all that have ended: 1, or -1 where it failed */
    size_t failures;
    /* Of them, those that the model chose: trials from number `first` on; those before it only fill
     * the space. */
    size_t first, late_ends, late_failures;

    double *pending; /* rows of dims: trials that have not ended and are not forecast */
    size_t pending_count, pending_cap;

    /* By trial: */
    bool *taken;         /* its end is among the certain ones, or the failures */
    double *places;      /* rows of dims, then columns: where it is; parameters never change */
    signed char *inside; /* 1: it is in the space, -1: it is not, 0: its row is not set */
    size_t trial_cap;
};

/* Borrows both. `first`: observations and trials that are to fill the space before a model chooses;
 * those of other searches are taken in at once, and count. */
struct bayes_observations *bayes_observations_new(const struct sampler_task *task,
                                                  const struct bayes_features *space, size_t first);
void bayes_observations_free(struct bayes_observations *p);
AUTO_DEFINE(bayes_observations, struct bayes_observations *, bayes_observations_free)

/* Takes in all that `view` says; it only ever grows from call to call. Cost O(trials), and a
 * forecast where there is something to forecast. */
void bayes_observations_update(struct bayes_observations *p, const struct trial_view *view);

/* The numbers of the best `most` observations of a objective, best first: of certain ones, while
 * there are any. Returns how many. */
size_t bayes_observations_best(const struct bayes_observations *p, size_t objective, size_t most,
                               size_t *out);

/* Whether an observation is at u, to all purposes. */
bool bayes_observations_at(const struct bayes_observations *p, const double *u);

#endif
