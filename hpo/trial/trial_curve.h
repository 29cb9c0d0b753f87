/* trial_curve - the finite values of one metric of a trial, by step.
 *
 * Each metric has its own steps. Every report counts: the last value is the one that was reported
 * last, and the best one is the best of all reports, whatever their steps. The points have one
 * value per step, that of the newest report. A report at the step of the one before it corrects
 * that one, which then counts no more. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct trial_point {
    double step;
    double value;
};

struct trial_curve {            /* zeroes are an empty curve; `best` and `last` are then not set */
    struct trial_point *points; /* by increasing step */
    size_t count, cap;
    /* what the points have lost: values that another one of the same step has replaced, in the
     * order of their reports */
    struct trial_point *replaced;
    size_t replaced_count;
    double best, last; /* of all reports; NAN: there are none */
    double newest;     /* the step of the newest report */
};

void trial_curve_init(struct trial_curve *c);
void trial_curve_clear(struct trial_curve *c);
/* Makes an empty curve a copy of another one. */
void trial_curve_copy(struct trial_curve *c, const struct trial_curve *from);

/* The number of points whose step is <= `step`. */
size_t trial_curve_until(const struct trial_curve *c, double step);

/* Sets the least and the greatest of all reports, also of values that later ones have replaced.
 * NAN: there are none. */
void trial_curve_range(const struct trial_curve *c, double *low, double *high);

/* Adds a report. Its value becomes that of its step. `maximize`: larger values are better. Returns
 * the index of the first point that has changed. */
size_t trial_curve_put(struct trial_curve *c, double step, double value, bool maximize);

/* Drops all reports from `step` on: the trial continued from a checkpoint, or began again. The last
 * value is then that of the highest step. */
void trial_curve_cut(struct trial_curve *c, double step, bool maximize);
