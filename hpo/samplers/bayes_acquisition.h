/* bayes_acquisition - the acquisition function, and the points of a space that maximise it. */
#ifndef DROVER_BAYES_ACQUISITION_H
#define DROVER_BAYES_ACQUISITION_H

#include <stddef.h>
#include <stdint.h>

#include "hpo/model/gp.h"
#include "hpo/model/gp_classifier.h"
#include "hpo/samplers/bayes_features.h"

struct bayes_acquisition_target { /* the function: ln EI + ln P[success]. Borrows all pointers */
    const struct bayes_features *space;
    struct gp *value;              /* the model of one objective */
    double best;                   /* the smallest value observed */
    double widen;                  /* factor on the model's standard deviations */
    struct gp_classifier *success; /* NULL: no trial has failed */
    double success_min;            /* ln P[success] that a proposal should have at least */

    struct gp *second;   /* the model of a second objective, or NULL. With it, instead of EI, the
                            expected   hypervolume improvement over: */
    const double *front; /* front_count pairs of values that no other pair dominates */
    size_t front_count;
    double ref[2];
};

/* Evaluates the target at n points into value[n], and its derivatives by the columns into slope (n
 * rows of cols; NULL: not wanted). */
void bayes_acquisition_target_at(const struct bayes_acquisition_target *t,
                                 const struct kernel_points *at, double *value, double *slope);

struct bayes_acquisition {
    const struct bayes_acquisition_target *target;
    uint64_t seed, stream; /* of the random numbers */
    const double *known;   /* known_count rows of dims: observed points, the best first */
    size_t known_count;
    double effort; /* 1: the full number of points; less if predictions are expensive */
};

/* Writes at most `most` points (rows of dims) to `out`, the most promising first, each moved to its
 * exact values and allowed by the space's constraints. *value is the target at the first. Returns
 * their number; 0: no allowed point was found.
 *
 * The search evaluates even points of the cube and small perturbations of the best known ones. From
 * the most promising of these it climbs along the gradient over the numbers, in batches, and steps
 * to neighbouring values of categories and integers. */
size_t bayes_acquisition_maximise(const struct bayes_acquisition *s, double *out, size_t most,
                                  double *value);

#endif
