/* bayes_acquisition - the acquisition function, and the points of a space that maximise it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "hpo/model/gp.h"
#include "hpo/model/gp_classifier.h"
#include "hpo/samplers/bayes_features.h"
#include "hpo/trial/outcome.h"

struct bayes_acquisition_bound { /* a constraint on what a trial measures, on the model's scale */
    struct gp *model;            /* borrowed */
    double low, high;
};

struct bayes_acquisition_target { /* the acquisition function, ln EI + ln P[success] + the ln P of
                                     each bound; all pointers are borrowed */
    const struct bayes_features *space;
    struct gp *value; /* the model of the objective */
    double best;      /* the smallest value observed, of a feasible trial */
    bool seek;        /* no trial is feasible yet: the improvement does not count */
    struct bayes_acquisition_bound bounds[OUTCOME_MAX];
    size_t bound_count;
    double widen; /* factor by which the model's standard deviations are multiplied */
    struct gp_classifier *success; /* NULL: no trial has failed */
    double success_min;            /* the least ln P[success] that a proposal should have */

    struct gp *second;   /* the model of a second objective. NULL: there is none. Otherwise the
                            expected hypervolume improvement over `front` replaces EI */
    const double *front; /* front_count pairs of values, none of which dominates another */
    size_t front_count;
    double ref[2];
};

/* Computes the target at the n points of `at` in value[0 … n - 1], and its derivatives by the
 * columns in `slope` (n rows of cols; NULL: not needed). */
void bayes_acquisition_target_at(const struct bayes_acquisition_target *t,
                                 const struct kernel_points *at, double *value, double *slope);

/* Returns the sum of the ln P of the bounds at a point, given by its columns. */
double bayes_acquisition_log_feasible(const struct bayes_acquisition_target *t, const double *x);

struct bayes_acquisition {
    const struct bayes_acquisition_target *target;
    uint64_t seed, stream; /* seed of the random numbers, and which of its streams */
    const double *known;   /* known_count rows of dims: observed points, the best first */
    size_t known_count;
    double effort; /* share of the full number of points to evaluate, in (0, 1]; below 1 if
                      predictions are expensive */
};

/* Writes at most `most` points (rows of dims) to `out`, the most promising first. Each point has
 * exact values and satisfies the space's constraints. Sets `*value` to the target at the first
 * point. Returns the number of points; it is 0 if no allowed point was found.
 *
 * The search first evaluates points that fill the cube evenly, and small perturbations of the best
 * known points. From the most promising of these points it climbs along the gradient over the
 * numbers, all climbs in one batch. Then it steps to neighbouring values of categories and
 * integers, and climbs again. */
size_t bayes_acquisition_maximise(const struct bayes_acquisition *s, double *out, size_t most,
                                  double *value);
