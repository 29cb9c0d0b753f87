/* curve - where a learning curve will end: a straight line in the logarithm of the time, flattened.
 *
 * A curve is points (t, z): times above 0, rising, and values on a scale where lower is better and
 * learning is nearly straight: learning_curve_z() makes it from a metric. Measured on 200 trainings
 * of 81 epochs: ranked by what is expected after 8 epochs the best of them is 7th, by its value
 * 25th. */
#ifndef DROVER_LEARNING_CURVE_H
#define DROVER_LEARNING_CURVE_H

#include <stdbool.h>
#include <stddef.h>

/* How a metric becomes z. */
enum learning_curve_link {
    LEARNING_CURVE_LINEAR, /* as it is; its negative where it is maximised */
    LEARNING_CURVE_LOG,    /* ln y: a loss above 0 */
    LEARNING_CURVE_LOGIT   /* -logit(y): a share that is maximised, such as an accuracy; y is kept
                     1e-4 from   0 and 1 */
};

/* The link for a metric whose values reach from `low` to `high`. */
enum learning_curve_link learning_curve_link_for(double low, double high, bool maximize);
/* z of a finite value in the link's range; and back. */
double learning_curve_z(enum learning_curve_link link, bool maximize, double y);
double learning_curve_y(enum learning_curve_link link, bool maximize, double z);

struct learning_curve_fit { /* a line through the end of a curve */
    double t;               /* of the last point */
    double level;           /* z of the line there */
    double slope;           /* dz / d ln t */
};

/* Least squares over ln t through n > 0 points of rising t; one point has no slope. Cost: n
 * logarithms. */
struct learning_curve_fit learning_curve_fit(const double *t, const double *z, size_t n);

/* z expected at time `horizon`: level + 0.7 · min(0, slope) · ln(horizon / t); the level where the
 * horizon is passed. A curve that rises is expected to stay where it is. */
double learning_curve_at(const struct learning_curve_fit *f, double horizon);

#endif
