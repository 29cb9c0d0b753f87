/* curve_forecast - forecasts a trial's final value from its own learning curve and those of the
 * other trials.
 *
 * The trial's curve is extrapolated (hpo/model/learning_curve.h). The error of a forecast is
 * estimated from the curves of the sweep: each is forecast from its earlier points. The steps of a
 * trial are its times; if the first step is 0 or below, they are shifted so that times start at 1.
 * A trial is whole if it reached the time `max_iter` or, if max_iter is 0, the time of the longest
 * trial so far. */
#pragma once

#include <stdbool.h>

#include "common/mem.h"
#include "hpo/model/learning_curve.h"
#include "hpo/trial/trial.h"

struct curve_forecast;

/* Returns a forecaster that has learned from the curves in `view`, to which it keeps no reference.
 * The caller frees it. `last`: the last value of a trial counts, not the best. Costs about 10 fits
 * per trial. */
struct curve_forecast *curve_forecast_new(int max_iter, bool maximize, bool last,
                                          const struct trial_view *view);
void curve_forecast_free(struct curve_forecast *f);
AUTO_DEFINE(curve_forecast, struct curve_forecast *, curve_forecast_free)

/* Sets `*mean` and `*sd` to the forecast of the final value of trial `t` and its standard
 * deviation, in the metric's unit. If the trial is done or whole, they are its value and 0. Returns
 * false if the trial has no point. */
bool curve_forecast_trial(const struct curve_forecast *f, const struct trial *t, double *mean,
                          double *sd);

/* ---- for stopper_curve ---------------------------------------------------------------------- */

struct curve_forecast_scale { /* how curves are converted to z and compared */
    enum learning_curve_link link;
    bool maximize;
    double horizon; /* the time of a whole trial; 0: no trial has reported */
};

/* Returns the scale for the trials of `view`. Costs O(trials). */
struct curve_forecast_scale curve_forecast_scale(int max_iter, bool maximize,
                                                 const struct trial_view *view);

/* Return the time of a trial's step, and of its last point. */
double curve_forecast_time(const struct trial *t, double step);
double curve_forecast_end(const struct trial *t);

/* Returns the forecast of z at the horizon from the first n > 0 points of `t`. Lower is better. */
double curve_forecast_score(const struct curve_forecast_scale *s, const struct trial *t, size_t n);

/* Returns true if the final z of trial `t` is very unlikely to be lower than the best z of all
 * whole trials. Returns false if fewer than five trials are whole, or fewer than five errors over
 * the gap are known. */
bool curve_forecast_hopeless(const struct curve_forecast *f, const struct trial *t);
