/* bayes_features - converts a parameter set to the columns that a Gaussian process has as input.
 *
 * A number has one column: its coordinate in the unit cube. A category of two values, or of three
 * or more numbers (in their order), also has one column. Any other category has one column per
 * value, which is 1 for that value ("one-hot"). The column of an inactive parameter has the value
 * in the middle; the one-hot columns of an inactive category are 0. */
#pragma once

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
    struct kernel_shape shape; /* one group per coordinate; `smooth`: all parameters are continuous
                                  and always active */
    size_t *group;
};

/* Returns the features of `space`, which is borrowed and must have at least one coordinate. The
 * caller frees them. */
struct bayes_features *bayes_features_new(const struct space *space);
void bayes_features_free(struct bayes_features *b);
AUTO_DEFINE(bayes_features, struct bayes_features *, bayes_features_free)

/* Writes column c of the point u (dims numbers) to x[c * stride]. With `exact`, u is first moved to
 * the nearest possible parameter set (space_snap()). Without `exact`, numbers that are active are
 * not moved, so that the columns change smoothly with u. */
void bayes_features_columns(const struct bayes_features *b, const double *u, bool exact, double *x,
                            size_t stride);

/* Returns the index in `positions` of the value of category i that is nearest to the coordinate
 * u. */
size_t bayes_features_value(const struct bayes_features *b, size_t i, double u);
