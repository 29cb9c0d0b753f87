#include "hpo/stoppers/curve_forecast.h"

#include <math.h>

enum {
    GAPS = 12,    /* longest distance of a forecast, in doublings of the time */
    FIT_MAX = 16, /* a line is fitted to at most this many points */
    KNOWN = 5     /* a forecast is trusted after this many whole curves and errors over its gap */
};

static const double prior_errors = 2; /* weight of the guessed spread, as a number of errors */
static const double bound_sds = 3;

/* The errors of forecasts over one gap. An error is z at the end minus the forecast. */
struct errors {
    double n, sum, squares;
};

struct curve_forecast {
    struct curve_forecast_scale scale;
    bool last;
    struct errors errors[2][GAPS + 1]; /* [1 if the line had a slope, else 0][gap in doublings] */
    double scatter; /* standard deviation of z over the trials; the guessed spread of an error */
    double leader;
    int whole; /* number of whole curves */
};

/* ---- a trial's curve ------------------------------------------------------------------------ */

double curve_forecast_time(const struct trial *t, double step)
{
    double first = t->curve.points[0].step;
    return first > 0 ? step : step - first + 1;
}

/* Returns the number of the trial's points at or before `time`. */
static size_t points_until(const struct trial *t, double time)
{
    return trial_curve_until(&t->curve, time - curve_forecast_time(t, 0));
}

static double z_of(const struct curve_forecast_scale *s, double y)
{
    return learning_curve_z(s->link, s->maximize, y);
}

/* Fits a line to points in the second half of the time of the first n points: to at most FIT_MAX
 * points, and to at least two if n > 1. */
static struct learning_curve_fit fit(const struct curve_forecast_scale *s, const struct trial *t,
                                     size_t n)
{
    double end = curve_forecast_time(t, t->curve.points[n - 1].step);
    size_t first = points_until(t, end / 2);
    if (first > 0 && curve_forecast_time(t, t->curve.points[first - 1].step) == end / 2)
        first--;
    if (first + 2 > n)
        first = n > 1 ? n - 2 : 0;
    size_t count = n - first, used = count < FIT_MAX ? count : FIT_MAX;
    double time[FIT_MAX], z[FIT_MAX];
    for (size_t i = 0; i < used; i++) {
        const struct trial_point *p =
            &t->curve.points[n - 1 - (used - 1 - i) * (count - 1) / (used > 1 ? used - 1 : 1)];
        time[i] = curve_forecast_time(t, p->step);
        z[i] = z_of(s, p->value);
    }
    return learning_curve_fit(time, z, used);
}

double curve_forecast_score(const struct curve_forecast_scale *s, const struct trial *t, size_t n)
{
    struct learning_curve_fit f = fit(s, t, n);
    return learning_curve_at(&f, s->horizon);
}

double curve_forecast_end(const struct trial *t)
{
    return curve_forecast_time(t, t->curve.points[t->curve.count - 1].step);
}

struct curve_forecast_scale curve_forecast_scale(int max_iter, bool maximize,
                                                 const struct trial_view *view)
{
    double low = INFINITY, high = -INFINITY, longest = 0;
    for (size_t i = 0; i < view->count; i++) {
        const struct trial *t = view->trials[i];
        if (t->curve.count == 0)
            continue;
        const struct trial_point *first = &t->curve.points[0],
                                 *end = &t->curve.points[t->curve.count - 1];
        low = fmin(low, fmin(fmin(first->value, end->value), t->curve.best));
        high = fmax(high, fmax(fmax(first->value, end->value), t->curve.best));
        longest = fmax(longest, curve_forecast_end(t));
    }
    return (struct curve_forecast_scale){learning_curve_link_for(low, high, maximize), maximize,
                                         max_iter > 0 ? max_iter : longest};
}

/* ---- errors of forecasts -------------------------------------------------------------------- */

static int doublings(double gap)
{
    double k = rint(gap / M_LN2);
    return k < 1 ? 1 : k > GAPS ? GAPS : (int)k;
}

/* Returns z of the trial's value, the best or the last one. */
static double outcome(const struct curve_forecast *f, const struct trial *t)
{
    return z_of(&f->scale, trial_value(t, f->last));
}

/* Adds the errors that forecasts of the trial's last point would have had at 1/2, 1/4, … of its
 * time. */
static void add_errors(struct curve_forecast *f, const struct trial *t)
{
    double end = curve_forecast_end(t);
    struct curve_forecast_scale s = f->scale;
    s.horizon = end;
    for (int k = 1; k <= GAPS; k++) {
        size_t n = points_until(t, ldexp(end, -k));
        if (n == 0)
            break;
        double gap = log(end / curve_forecast_time(t, t->curve.points[n - 1].step));
        double error = outcome(f, t) - curve_forecast_score(&s, t, n);
        struct errors *e = &f->errors[n > 1][doublings(gap)];
        e->n++;
        e->sum += error;
        e->squares += error * error;
        if (n == 1)
            break;
    }
}

struct curve_forecast *curve_forecast_new(int max_iter, bool maximize, bool last,
                                          const struct trial_view *view)
{
    struct curve_forecast *f = xzalloc(sizeof *f);
    f->scale = curve_forecast_scale(max_iter, maximize, view);
    f->last = last;
    f->leader = INFINITY;
    double n = 0, mean = 0, squares = 0;
    for (size_t i = 0; i < view->count; i++) {
        const struct trial *t = view->trials[i];
        if (t->curve.count == 0)
            continue;
        double z = outcome(f, t), off = z - mean;
        mean += off / ++n;
        squares += off * (z - mean);
        add_errors(f, t);
        if (curve_forecast_end(t) >= f->scale.horizon) {
            f->whole++;
            f->leader = fmin(f->leader, z);
        }
    }
    f->scatter = n > 1 ? sqrt(squares / (n - 1)) : 1;
    return f;
}

void curve_forecast_free(struct curve_forecast *f)
{
    free(f);
}

/* Returns the errors over the gap from the last point of `t` to the horizon. Sets `*mean` and `*sd`
 * to their mean and standard deviation. If few errors are known, the mean is pulled towards 0 and
 * the deviation towards f->scatter. */
static const struct errors *errors_ahead(const struct curve_forecast *f, const struct trial *t,
                                         double *mean, double *sd)
{
    double gap = log(f->scale.horizon / curve_forecast_end(t));
    const struct errors *e = &f->errors[t->curve.count > 1][doublings(gap)];
    *mean = e->sum / (e->n + prior_errors);
    /* sum of squared distances from the mean */
    double squares = e->squares - 2 * *mean * e->sum + e->n * *mean * *mean;
    *sd = sqrt((fmax(squares, 0) + prior_errors * f->scatter * f->scatter) / (e->n + prior_errors));
    return e;
}

bool curve_forecast_trial(const struct curve_forecast *f, const struct trial *t, double *mean,
                          double *sd)
{
    if (t->curve.count == 0)
        return false;
    const struct curve_forecast_scale *s = &f->scale;
    *mean = trial_value(t, f->last);
    *sd = 0;
    if (t->state == TRIAL_DONE || curve_forecast_end(t) >= s->horizon)
        return true;
    double off, spread;
    errors_ahead(f, t, &off, &spread);
    double z = curve_forecast_score(s, t, t->curve.count) + off;
    double end = learning_curve_y(s->link, s->maximize, z);
    *sd = fabs(learning_curve_y(s->link, s->maximize, z + spread) -
               learning_curve_y(s->link, s->maximize, z - spread)) /
          2;
    *mean = f->last ? end : s->maximize ? fmax(*mean, end) : fmin(*mean, end);
    return true;
}

bool curve_forecast_hopeless(const struct curve_forecast *f, const struct trial *t)
{
    double off, spread;
    if (f->whole < KNOWN || curve_forecast_end(t) >= f->scale.horizon)
        return false;
    if (errors_ahead(f, t, &off, &spread)->n < KNOWN)
        return false;
    return curve_forecast_score(&f->scale, t, t->curve.count) + off - bound_sds * spread >
           f->leader;
}
