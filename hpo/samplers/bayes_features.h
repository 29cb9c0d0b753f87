/* bayes_space - a space as a Gaussian process sees it: a point is a row of columns.
 *
 * A number has one column: its place in the unit cube. So has a category whose values are three or
 * more different numbers, by their order, and one of two values. Any other category has a column
 * for each value, 1 where it is that ("one-hot"). What is inactive stands in the middle, its
 * columns of values at 0. */
#ifndef DROVER_BAYES_FEATURES_H
#define DROVER_BAYES_FEATURES_H

#include <stdbool.h>
#include <stddef.h>

#include "common/mem.h"
#include "hpo/model/kernel.h"
#include "hpo/space/space.h"

struct bayes_dim { /* a coordinate of the unit cube */
    size_t col, cols;
    size_t count;   /* of a category: its values; 0: a number */
    double *places; /* where they are in the cube; those that are ordered, by their order */
    bool ordered;
    bool whole; /* a number with a smallest step */
};

struct bayes_features {        /* constant */
    const struct space *space; /* borrowed */
    size_t dims;
    struct bayes_dim *dim;
    struct kernel_shape shape; /* a group for each coordinate; where it is smooth, all of them are
                                  always active */
    size_t *group;
};

/* `space` has one coordinate or more. */
struct bayes_features *bayes_features_new(const struct space *space);
void bayes_features_free(struct bayes_features *b);
AUTO_DEFINE(bayes_features, struct bayes_features *, bayes_features_free)

/* The columns of the point at u (dims), column c into x[c * stride]. With `exact` u is first moved
 * to the place of the value that it stands for (space_snap()); without, numbers are taken as they
 * are, so that the columns move smoothly with u. */
void bayes_features_columns(const struct bayes_features *b, const double *u, bool exact, double *x,
                            size_t stride);

/* Which of a category's values u (of coordinate i) stands for: an index of `places`. */
size_t bayes_features_value(const struct bayes_features *b, size_t i, double u);

#endif
