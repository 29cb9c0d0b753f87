/* curve_forecast - forecasts of a trial's final value, from its learning curve and all others.
 *
 * A trial's curve is extrapolated (hpo/model/learning_curve.h). How far off a forecast is, is
 * learned from the sweep's own longer curves. A step is a time; if a trial's first step is 0 or
 * below, its times count from 1. A whole trial is `max_iter` long, or as long as the longest so far
 * if that is 0. */
#ifndef DROVER_CURVE_FORECAST_H
#define DROVER_CURVE_FORECAST_H

#include <stdbool.h>

#include "common/mem.h"
#include "hpo/model/learning_curve.h"
#include "hpo/trial/trial.h"

struct curve_forecast;

/* Learns from view's curves and keeps no reference to them. `last`: a trial's last value counts,
 * not its best. Cost: 10 fits per trial. */
struct curve_forecast *curve_forecast_new(int max_iter, bool maximize, bool last,
                                          const struct trial_view *view);
void curve_forecast_free(struct curve_forecast *f);
AUTO_DEFINE(curve_forecast, struct curve_forecast *, curve_forecast_free)

/* Forecasts trial `t`'s final value and its standard deviation, in the metric's unit. For a trial
 * that is done or whole: its value and 0. False: the trial has no point. */
bool curve_forecast_trial(const struct curve_forecast *f, const struct trial *t, double *mean,
                          double *sd);

/* ---- for stopper_curve -------------------------------------------------------------------------
 */

struct curve_forecast_scale { /* the scale on which curves are measured */
    enum learning_curve_link link;
    bool maximize;
    double horizon; /* the time of a whole trial; 0: nothing was reported yet */
};

/* Cost: the number of trials. */
struct curve_forecast_scale curve_forecast_scale(int max_iter, bool maximize,
                                                 const struct trial_view *view);

/* Returns the time of a trial's step. */
double curve_forecast_time(const struct trial *t, double step);

/* Returns z expected at the end, from the first n > 0 points of `t`; lower is better. */
double curve_forecast_score(const struct curve_forecast_scale *s, const struct trial *t, size_t n);

/* Returns a bound that trial `t`'s final z will hardly fall below. -INFINITY while fewer than five
 * trials are whole, since the error of a forecast is not known before. */
double curve_forecast_bound(const struct curve_forecast *f, const struct trial *t);

/* Returns the best z that a whole trial ended with; INFINITY: there is none. */
double curve_forecast_leader(const struct curve_forecast *f);

#endif
