/* learning_curve - extrapolates a learning curve: a straight line over the logarithm of time,
 * flattened.
 *
 * A curve is a list of points (t, z): times above 0, ascending, and values on a scale on which
 * lower is better and learning is nearly straight; learning_curve_z() converts a metric to it.
 * Measured on 200 trainings of 81 epochs: in the ranking by the forecast after 8 epochs the best
 * training is 7th, in the ranking by its value 25th. */
#ifndef DROVER_LEARNING_CURVE_H
#define DROVER_LEARNING_CURVE_H

#include <stdbool.h>
#include <stddef.h>

/* How a metric becomes z. */
enum learning_curve_link {
    LEARNING_CURVE_LINEAR, /* unchanged; negated if the metric is maximised */
    LEARNING_CURVE_LOG,    /* ln y: a loss above 0 */
    LEARNING_CURVE_LOGIT /* -logit(y): a share that is maximised, such as an accuracy; y is limited
                            to [1e-4, 1 - 1e-4] */
};

/* The link for a metric with values from `low` to `high`. */
enum learning_curve_link learning_curve_link_for(double low, double high, bool maximize);
/* z of a finite value in the link's range, and the inverse. */
double learning_curve_z(enum learning_curve_link link, bool maximize, double y);
double learning_curve_y(enum learning_curve_link link, bool maximize, double z);

struct learning_curve_fit { /* a line through the end of a curve */
    double t;               /* time of the last point */
    double level;           /* z of the line at this time */
    double slope;           /* dz / d ln t */
};

/* Least squares over ln t through n > 0 points with ascending t; one point has no slope. Cost: n
 * logarithms. */
struct learning_curve_fit learning_curve_fit(const double *t, const double *z, size_t n);

/* The forecast of z at time `horizon`: level + 0.7 · min(0, slope) · ln(horizon / t), or the
 * level if the horizon has passed. A rising curve is expected to stay at its level. */
double learning_curve_at(const struct learning_curve_fit *f, double horizon);

#endif
