/* learning_curve - extrapolates a learning curve: a straight line over the logarithm of time, with
 * a reduced slope.
 *
 * A curve is a list of points (t, z). The times t are above 0 and ascending. The values z are on a
 * scale where lower is better and a learning curve is nearly straight; learning_curve_z() converts
 * a metric to this scale. In a measurement with 200 trainings of 81 epochs, the training with the
 * best result had, after 8 epochs, rank 7 by its forecast and rank 25 by its value. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* How learning_curve_z() converts a metric y to z. */
enum learning_curve_link {
    LEARNING_CURVE_LINEAR, /* unchanged; negated if the metric is maximised */
    LEARNING_CURVE_LOG,    /* ln y; for a loss above 0 */
    LEARNING_CURVE_LOGIT   /* -logit(y), with y limited to [1e-4, 1 - 1e-4]; for a share that is
                              maximised, such as an accuracy */
};

/* Returns the link for a metric with values from `low` to `high`. */
enum learning_curve_link learning_curve_link_for(double low, double high, bool maximize);
/* learning_curve_z() returns z for a finite value y in the link's range; learning_curve_y() returns
 * y for z. */
double learning_curve_z(enum learning_curve_link link, bool maximize, double y);
double learning_curve_y(enum learning_curve_link link, bool maximize, double z);

struct learning_curve_fit { /* a line fitted to a curve */
    double t;               /* time of the last point */
    double level;           /* z of the line at this time */
    double slope;           /* dz / d ln t */
};

/* Returns the line of least squares over ln t through n > 0 points with ascending t. With one point
 * the slope is 0. Costs n logarithms. */
struct learning_curve_fit learning_curve_fit(const double *t, const double *z, size_t n);

/* Returns the forecast of z at time `horizon`: level + 0.7 · min(0, slope) · ln(horizon / t), or
 * the level if `horizon` is not after t. A rising curve (one that gets worse) is expected to stay
 * at its level. */
double learning_curve_at(const struct learning_curve_fit *f, double horizon);
