/* bayes_model - what is known of one quantity over a space: a Gaussian process on the trials that
 * gave it, its hyperparameters fitted now and then.
 *
 * What it is, is a function of the observations in their order and of what the last fit learnt; it
 * does not matter whether they came one by one or, after a restart, all at once. */
#ifndef DROVER_BAYES_MODEL_H
#define DROVER_BAYES_MODEL_H

#include <jansson.h>
#include <stdbool.h>

#include "common/mem.h"
#include "hpo/model/gp.h"
#include "hpo/model/output_transform.h"

struct bayes_data { /* observations */
    size_t n, cap;
    double *x;   /* columns of cap */
    double *y;   /* finite; smaller is better */
    double *var; /* of each y; 0: as told */
};

/* Adds one and returns its number. `x`: a number for each of `cols` columns. */
size_t bayes_model_data_add(struct bayes_data *d, size_t cols, const double *x, double y,
                            double var);
void bayes_model_data_free(struct bayes_data *d);

/* The numbers of `most` of the first n observations, rising: a third of them the smallest, a third
 * the newest, the others spread evenly over the rest by value. Returns how many: n where all fit.
 */
size_t bayes_model_data_choose(const struct bayes_data *d, size_t n, size_t most, size_t *out);

struct bayes_model;

/* Borrows shape. */
struct bayes_model *bayes_model_new(const struct kernel_shape *shape);
void bayes_model_free(struct bayes_model *m);
AUTO_DEFINE(bayes_model, struct bayes_model *, bayes_model_free)

/* One that has learnt the same, for a look that is to change nothing. */
struct bayes_model *bayes_model_copy(const struct bayes_model *m);

/* Takes in the observations that are new since the last call; fits when it is time. The first
 * `certain` of them only ever get more; those behind may change from call to call. n >= 1.
 * False: no covariance could be factored, and there is no model. */
bool bayes_model_update(struct bayes_model *m, const struct bayes_data *d, size_t certain);

/* The posterior after the last update: of warped values. Points may be added to it for as long as
 * they are cut off again, with their targets, before the next update. */
struct gp *bayes_model_gp(struct bayes_model *m);
const struct output_transform *bayes_model_warp(const struct bayes_model *m);
/* The targets of the posterior's own observations: gp_count() numbers; borrowed. */
const double *bayes_model_targets(const struct bayes_model *m);

/* Whether there was a fit since what it learnt was saved. */
bool bayes_model_unsaved(const struct bayes_model *m);
/* What the last fit learnt: a new reference, or NULL: there was none. And back: false, and
 * nothing changed, where it makes no sense for this shape or is another version's. */
json_t *bayes_model_save(struct bayes_model *m);
bool bayes_model_restore(struct bayes_model *m, const json_t *learnt);

#endif
