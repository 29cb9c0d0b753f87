/* forecast - what a trial's final value will be, or would have been, from its curve and all others.
 *
 * A trial's curve is extrapolated (hpo/model/learning_curve.h); how far off that is, is learnt from
 * the sweep's own longer curves. A step is a time; where a trial's first step is 0 or below, its
 * times count from 1. A whole trial is as long as the rule's max_iter, or the longest so far. */
#ifndef DROVER_CURVE_FORECAST_H
#define DROVER_CURVE_FORECAST_H

#include <stdbool.h>

#include "common/mem.h"
#include "hpo/model/learning_curve.h"
#include "hpo/spec/spec.h"
#include "hpo/trial/trial.h"

struct curve_forecast;

/* Learns from view's curves; keeps nothing of them. `rule`: for max_iter; may be NULL. `last`: a
 * trial's last value counts, not its best. Cost: 10 fits for each trial. */
struct curve_forecast *curve_forecast_new(const struct spec_stop *rule, bool maximize, bool last,
                                          const struct trial_view *view);
void curve_forecast_free(struct curve_forecast *f);
AUTO_DEFINE(curve_forecast, struct curve_forecast *, curve_forecast_free)

/* The value that trial `t` would have at its end, and its standard deviation, in the metric's unit.
 * A whole trial's value and 0 where it is done or has gone the whole way. False: it has no point.
 */
bool curve_forecast_trial(const struct curve_forecast *f, const struct trial *t, double *mean,
                          double *sd);

/* ---- for stopper_curve -------------------------------------------------------------------------
 */

struct curve_forecast_scale { /* what curves are measured on */
    enum learning_curve_link link;
    bool maximize;
    double horizon; /* the time of a whole trial; 0: nothing was reported yet */
};

/* Cost: the number of trials. */
struct curve_forecast_scale curve_forecast_scale(const struct spec_stop *rule, bool maximize,
                                                 const struct trial_view *view);

/* The time of a trial's step. */
double curve_forecast_time(const struct trial *t, double step);

/* z expected at the end, from the first n > 0 points of `t`; lower is better. */
double curve_forecast_score(const struct curve_forecast_scale *s, const struct trial *t, size_t n);

/* A z that trial `t`'s end will hardly be below; -INFINITY while fewer than five trials went the
 * whole way, since nothing is known of how far off a forecast is. */
double curve_forecast_bound(const struct curve_forecast *f, const struct trial *t);

/* The best z that a whole trial ended with; INFINITY: there is none. */
double curve_forecast_leader(const struct curve_forecast *f);

#endif
