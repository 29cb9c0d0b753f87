/* trial_curve - the finite values of one metric of a trial, by step. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct trial_point {
    double step;
    double value;
};

struct trial_curve {            /* zeroes are an empty curve; `best` is then not set */
    struct trial_point *points; /* by increasing step */
    size_t count, cap;
    double best; /* of the values; NAN: there are none */
};

void trial_curve_init(struct trial_curve *c);
void trial_curve_clear(struct trial_curve *c);

/* The number of points whose step is <= `step`. */
size_t trial_curve_until(const struct trial_curve *c, double step);

/* Adds a value, or replaces the one of the same step. `maximize`: larger values are better. Returns
 * the index of the first point that has changed. */
size_t trial_curve_put(struct trial_curve *c, double step, double value, bool maximize);

/* Drops the points from `step` on: the trial continued from a checkpoint, or began again. */
void trial_curve_cut(struct trial_curve *c, double step, bool maximize);
