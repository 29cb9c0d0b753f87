/* stopper_curve - pauses trials by their extrapolated learning curves, and continues the best of
 * them.
 *
 * Trials are compared by forecasts of their final value (curve_forecast.h). A rung is a time:
 * min_iter·eta^k, if that is before the end of a whole trial. `keep` is a share: at a rung a trial
 * continues if its forecast is among this share of the best forecasts of all trials that reached
 * the rung. Otherwise it is paused.
 *
 * When a slot is free, the best paused trial of a rung continues if it is now among the share
 * `keep`. If this holds at several rungs, the highest rung is chosen, which is promotion as in ASHA
 * (Li et al. 2020). Only if it holds at no rung does a new trial start. If no new trial can start,
 * the best paused trial of a rung continues if its forecast beats those of all trials that are done
 * or active.
 *
 * A trial is stopped if its value is not finite at a rung, or if it almost certainly cannot become
 * the best. The latter needs forecasts that were tested on at least five whole curves. Costs n fits
 * if a rung is reached, else O(1); resume costs n fits per rung. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "hpo/stoppers/curve_forecast.h"
#include "hpo/stoppers/stopper_internal.h"

static const double standard_eta = 2;

struct curve {
    /* max_iter 0: the end is the last step of the longest trial so far */
    struct stopper_rungs rungs;
    double keep; /* the share of the trials at a rung that continue without a pause */
};

static int read_keys(struct stopper *s, const struct config_node *n, struct err *e)
{
    struct curve *c = s->config = xzalloc(sizeof *c);
    struct config_node at = config_node_member(n, "keep");
    *c = (struct curve){.rungs.min_iter = 2, .keep = 0.33};
    if (stopper_rungs_read(&c->rungs, n, false, standard_eta, e) < 0 ||
        config_node_real(&c->keep, n, "keep", e) < 0)
        return -EINVAL;
    if (!(c->keep > 0 && c->keep <= 1))
        return config_node_error(&at, e, "'keep' must be above 0 and at most 1");
    s->max_iter = c->rungs.max_iter;
    s->first = c->rungs.min_iter;
    s->least = s->first + 1; /* the end of a trial is not a rung */
    return 0;
}

static void json(const struct stopper *s, json_t *to)
{
    const struct curve *c = s->config;
    stopper_rungs_json(&c->rungs, to);
    json_object_set_new(to, "keep", json_real(c->keep));
}

/* ---- rungs ---------------------------------------------------------------------------------- */

/* Returns the time of the highest rung that is <= `time`, or 0 if there is none. The end of a whole
 * trial is not a rung. */
static double rung_until(const struct stopper_rungs *r, double time)
{
    double rung = 0, end = r->max_iter > 0 ? (double)r->max_iter : (double)INFINITY;
    for (double next = r->min_iter; next <= time && next < end; next *= r->eta)
        rung = next;
    return rung;
}

/* Returns the number of the trial's points up to the first point at or after the rung, but at least
 * two. Returns 0 if the trial has not reached the rung or has fewer than two points. */
static size_t points_at(const struct trial *t, double rung)
{
    if (t->curve.count < 2 || curve_forecast_end(t) < rung)
        return 0;
    size_t lo = 2, hi = t->curve.count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (curve_forecast_time(t, t->curve.points[mid - 1].step) >= rung)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

static double score_at(const struct curve_forecast_scale *s, const struct trial *t, double rung)
{
    size_t n = points_at(t, rung);
    return n ? curve_forecast_score(s, t, n) : (double)NAN;
}

/* Returns true if `score`, which is one of the n scores, is among the best ones, whose share is
 * `keep`. */
static bool in_top(double keep, const double *scores, size_t n, double score)
{
    size_t better = 0;
    for (size_t i = 0; i < n; i++)
        better += scores[i] < score;
    return (double)(better + 1) <= keep * (double)n;
}

/* Returns the scores of all trials that reached the rung, and sets `*n` to their number. The caller
 * frees them. */
static double *scores_at(const struct curve_forecast_scale *s, const struct trial_view *view,
                         double rung, size_t *n)
{
    double *scores = xcalloc(view->count, sizeof *scores);
    *n = 0;
    for (size_t i = 0; i < view->count; i++) {
        scores[*n] = score_at(s, view->trials[i], rung);
        *n += !isnan(scores[*n]);
    }
    return scores;
}

/* ---- judging -------------------------------------------------------------------------------- */

static bool is_hopeless(const struct stopper *s, bool maximize, const struct trial_view *view,
                        const struct trial *t)
{
    AUTO(curve_forecast)
    struct curve_forecast *f = curve_forecast_new(s->max_iter, maximize, false, view);
    return curve_forecast_hopeless(f, t);
}

static enum stopper_verdict judge(struct stopper *s, bool maximize, const struct trial_view *view,
                                  const struct trial *t)
{
    const struct curve *c = s->config;
    if (t->curve.count < 2)
        return STOPPER_CONTINUE;
    double now = curve_forecast_end(t),
           before = curve_forecast_time(t, t->curve.points[t->curve.count - 2].step);
    if (t->diverged)
        return rung_until(&c->rungs, curve_forecast_time(t, t->last_step)) > now ? STOPPER_STOP
                                                                                 : STOPPER_CONTINUE;
    double rung = rung_until(&c->rungs, now);
    if (rung <= before || rung <= curve_forecast_time(t, t->resumed_at))
        return STOPPER_CONTINUE;
    struct curve_forecast_scale scale = curve_forecast_scale(s->max_iter, maximize, view);
    size_t n = 0;
    AUTO(free) double *scores = scores_at(&scale, view, rung, &n);
    if (!in_top(c->keep, scores, n, score_at(&scale, t, rung)))
        return STOPPER_PAUSE;
    return is_hopeless(s, maximize, view, t) ? STOPPER_STOP : STOPPER_CONTINUE;
}

/* ---- continuing paused trials --------------------------------------------------------------- */

struct candidate { /* the trial with the best score of those that are paused at a rung */
    const struct trial *trial; /* NULL: there is none */
    double score;
    bool top; /* it is among the best trials that reached the rung, by the share `keep` */
};

static struct candidate best_paused(const struct curve *c, const struct curve_forecast_scale *s,
                                    const struct trial_view *view, double rung)
{
    struct candidate best = {.score = INFINITY};
    AUTO(free) double *scores = xcalloc(view->count, sizeof *scores);
    size_t n = 0;
    for (size_t i = 0; i < view->count; i++) {
        const struct trial *t = view->trials[i];
        double score = score_at(s, t, rung);
        if (isnan(score))
            continue;
        scores[n++] = score;
        if (t->state == TRIAL_PAUSED && score < best.score &&
            rung_until(&c->rungs, curve_forecast_end(t)) == rung) {
            best.trial = t;
            best.score = score;
        }
    }
    best.top = in_top(c->keep, scores, n, best.score);
    return best;
}

/* Returns the lowest score of the trials that are done or active, or INFINITY. */
static double score_to_beat(const struct curve_forecast_scale *s, const struct trial_view *view)
{
    double least = INFINITY;
    for (size_t i = 0; i < view->count; i++) {
        const struct trial *t = view->trials[i];
        if (t->curve.count > 0 && (trial_is_active(t->state) || t->state == TRIAL_DONE))
            least = fmin(least, curve_forecast_score(s, t, t->curve.count));
    }
    return least;
}

static int resume(const struct stopper *s, bool maximize, const struct trial_view *view, bool last)
{
    const struct curve *c = s->config;
    struct curve_forecast_scale scale = curve_forecast_scale(s->max_iter, maximize, view);
    double least = last ? score_to_beat(&scale, view) : 0;
    for (double rung = rung_until(&c->rungs, scale.horizon); rung > 0;
         rung = rung_until(&c->rungs, nextafter(rung, 0))) {
        struct candidate best = best_paused(c, &scale, view, rung);
        if (best.trial && (last ? best.score < least : best.top))
            return best.trial->id;
    }
    return -1;
}

const struct stopper_ops stopper_curve = {
    .name = "curve",
    .help = "forecasts of the final value; pauses and continues trials",
    .keys = {"min_iter", "max_iter", "eta", "keep"},
    .read = read_keys,
    .json = json,
    .judge = judge,
    .resume = resume,
    .reached = curve_forecast_end,
    .by_steps = true,
};
