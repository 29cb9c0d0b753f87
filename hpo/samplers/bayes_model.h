/* bayes_model - a Gaussian process over a space for one quantity. Its hyperparameters are fitted
 * again from time to time.
 *
 * The model is a function of the observations, in their order, and of the model state of the last
 * fit. It makes no difference if the observations were added one by one or, after a restart, all in
 * one call. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "common/mem.h"
#include "hpo/model/gp.h"
#include "hpo/model/output_transform.h"

struct bayes_data { /* observations */
    size_t n, cap;
    double *x;   /* columns of length cap */
    double *y;   /* finite; smaller is better */
    double *var; /* variance of each y; 0: y is exact except for the noise of the model */
};

/* Adds an observation and returns its number, from 0. `x` has one number per column. */
size_t bayes_model_data_add(struct bayes_data *d, size_t cols, const double *x, double y,
                            double var);
void bayes_model_data_free(struct bayes_data *d);

/* Chooses at most `most` of the first n observations and writes their numbers to `out` in
 * increasing order: a third has the smallest values, a third is the newest, and the rest is spread
 * evenly over the other values. Returns the number of chosen observations, which is n if n <= most.
 */
size_t bayes_model_data_choose(const struct bayes_data *d, size_t n, size_t most, size_t *out);
/* Returns copies of the observations that bayes_model_data_choose() writes to `rows`; the caller
 * frees them. */
struct bayes_data bayes_model_data_few(const struct bayes_data *d, size_t cols, size_t n,
                                       size_t most, size_t *rows);

struct bayes_model { /* only bayes_model.c changes the fields */
    const struct kernel_shape *shape;
    size_t fitted; /* number of observations at the last fit; 0: no fit yet */
    enum output_transform_kind kind;
    double *params[OUTPUT_TRANSFORM_KINDS];
    double skill;   /* gp_skill() of up to 120 observations at the last fit */
    bool unsaved;   /* there was a fit since the model state was last saved */
    bool surprised; /* an observation since the last fit was far from its prediction */

    /* The posterior of transformed values after the last update; NULL: must be built. Callers may
     * add points. They must remove them and restore the targets before the next update. */
    struct gp *gp;
    bool grows;   /* all observations of `gp` are certain, so new ones can be added to them */
    size_t taken; /* number of observations that `gp` was built from, or that were added to it */
    struct output_transform transform;
    size_t *rows;    /* for each row of `gp`, the number of its observation */
    double *targets; /* the values of these rows, without points that callers added */
    size_t row_count, row_cap;
};

/* Returns a model without observations, which the caller frees. `shape` is borrowed. */
struct bayes_model *bayes_model_new(const struct kernel_shape *shape);
void bayes_model_free(struct bayes_model *m);
AUTO_DEFINE(bayes_model, struct bayes_model *, bayes_model_free)

/* Returns a new model with the same model state and without observations, for predictions that must
 * not change `m`. The caller frees the copy. */
struct bayes_model *bayes_model_copy(const struct bayes_model *m);

/* Adds the observations that are new since the last call, and fits the hyperparameters if a fit is
 * due. The first `certain` observations never change, and their number may grow; later observations
 * may change from call to call. d->n >= 1. Returns false if the covariance cannot be factored; then
 * there is no model. */
bool bayes_model_update(struct bayes_model *m, const struct bayes_data *d, size_t certain);

/* Returns the model state of the last fit: a new reference, or NULL if there was none. */
json_t *bayes_model_save(struct bayes_model *m);
/* Restores a saved model state. Returns false and changes nothing if the state is invalid for this
 * shape or comes from another version. */
bool bayes_model_restore(struct bayes_model *m, const json_t *model_state);
