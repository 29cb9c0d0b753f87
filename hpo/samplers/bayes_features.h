/* bayes_features - a parameter set as the columns of a Gaussian process's input.
 *
 * A number has one column: its coordinate in the unit cube. A category of two values, or of three
 * or more numbers (in their order), also has one column. Any other category has one column per
 * value, which is 1 for that value ("one-hot"). An inactive parameter is in the middle, its one-hot
 * columns are 0. */
#ifndef DROVER_BAYES_FEATURES_H
#define DROVER_BAYES_FEATURES_H

#include <stdbool.h>
#include <stddef.h>

#include "common/mem.h"
#include "hpo/model/kernel.h"
#include "hpo/space/space.h"

struct bayes_dim { /* a coordinate of the unit cube */
    size_t col, cols;
    size_t count;      /* number of values of a category; 0: the parameter is a number */
    double *positions; /* each value's coordinate in the cube */
    bool ordered;      /* all values are numbers, and `positions` is in their order */
    bool whole;        /* a number with a smallest step */
};

struct bayes_features {        /* constant after bayes_features_new() */
    const struct space *space; /* borrowed */
    size_t dims;
    struct bayes_dim *dim;
    struct kernel_shape shape; /* one group per coordinate. `smooth`: only numbers, which are always
                                  active */
    size_t *group;
};

/* `space` must have at least one coordinate. */
struct bayes_features *bayes_features_new(const struct space *space);
void bayes_features_free(struct bayes_features *b);
AUTO_DEFINE(bayes_features, struct bayes_features *, bayes_features_free)

/* Writes the columns of the point at u (dims), column c to x[c * stride]. With `exact`, u is first
 * moved to the exact value that it stands for (space_snap()). Without, numbers are used as they
 * are, so that the columns change smoothly with u. */
void bayes_features_columns(const struct bayes_features *b, const double *u, bool exact, double *x,
                            size_t stride);

/* Returns the index in `positions` of the category's value that u (of coordinate i) stands for. */
size_t bayes_features_value(const struct bayes_features *b, size_t i, double u);

#endif
