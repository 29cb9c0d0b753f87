/* bayes_search - the point of a space that promises most, given what models say. */
#ifndef DROVER_BAYES_ACQUISITION_H
#define DROVER_BAYES_ACQUISITION_H

#include <stddef.h>
#include <stdint.h>

#include "hpo/model/gp.h"
#include "hpo/model/gp_classifier.h"
#include "hpo/samplers/bayes_features.h"

struct bayes_acquisition_target { /* what is maximised: ln EI + ln P[success]. Borrows */
    const struct bayes_features *space;
    struct gp *value;              /* of one objective */
    double best;                   /* the smallest value observed */
    double widen;                  /* deviations of values are taken so many times wider */
    struct gp_classifier *success; /* NULL: no trial has failed */
    double success_min;            /* ln P[success] that what is offered should have */

    struct gp *second;   /* of a second objective; NULL: there is one. Then instead of EI: */
    const double *front; /* front_count pairs of values that no other is better than in both */
    size_t front_count;
    double ref[2];
};

/* The target at n points into value[n], its derivatives by the columns into slope (n rows of cols;
 * NULL: not wanted). */
void bayes_acquisition_target_at(const struct bayes_acquisition_target *t,
                                 const struct kernel_points *at, double *value, double *slope);

struct bayes_acquisition {
    const struct bayes_acquisition_target *target;
    uint64_t seed, stream; /* where chance comes from */
    const double *known;   /* known_count rows of dims: observed points, the best first */
    size_t known_count;
    double effort; /* 1: as much as pays; less where a prediction is dear */
};

/* Points (rows of dims) into `out`, at most `most`, the most promising first, each moved to where
 * its values are, allowed by the space's constraints; the target at the first into *value. Returns
 * how many: 0 where chance found none that is allowed.
 *
 * Even points of the cube and small changes of the best known ones; from the most promising of them
 * gradient steps over the numbers, all side by side, and steps to neighbouring values of whatever
 * has neighbours. */
size_t bayes_acquisition_maximise(const struct bayes_acquisition *s, double *out, size_t most,
                                  double *value);

#endif
