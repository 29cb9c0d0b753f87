/* stopper_curve - pauses by extrapolated curves, and goes on with the best; see stopper.h. */
#include <math.h>
#include <stdlib.h>

#include "hpo/stoppers/curve_forecast.h"
#include "hpo/stoppers/stopper.h"

/* The highest rung's time that is <= `time`, or 0: none. A trial's end is no rung. */
static double rung_until(const struct spec_stop *rule, double time)
{
    double rung = 0, end = rule->max_iter > 0 ? (double)rule->max_iter : (double)INFINITY;
    for (double next = rule->min_iter; next <= time && next < end; next *= rule->eta)
        rung = next;
    return rung;
}

static double end_time(const struct trial *t)
{
    return curve_forecast_time(t, t->points[t->point_count - 1].step);
}

/* How many of its points belong to the rung: up to the first one there, two at least; 0: it has not
 * got there. */
static size_t points_at(const struct trial *t, double rung)
{
    if (t->point_count < 2 || end_time(t) < rung)
        return 0;
    size_t lo = 2, hi = t->point_count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (curve_forecast_time(t, t->points[mid - 1].step) >= rung)
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

/* Whether so good a score is among the best `keep` of n, its own among them. */
static bool in_top(const struct spec_stop *rule, const double *scores, size_t n, double score)
{
    size_t better = 0;
    for (size_t i = 0; i < n; i++)
        better += scores[i] < score;
    return (double)(better + 1) <= rule->keep * (double)n;
}

/* What is expected of all trials that reached the rung. To be freed. */
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

static bool hopeless(const struct spec_stop *rule, bool maximize, const struct trial_view *view,
                     const struct trial *t)
{
    AUTO(curve_forecast) struct curve_forecast *f = curve_forecast_new(rule, maximize, false, view);
    return curve_forecast_bound(f, t) > curve_forecast_leader(f);
}

static enum stopper_verdict judge(const struct spec_stop *rule, bool maximize,
                                  const struct trial_view *view, struct trial *t)
{
    if (t->point_count < 2)
        return STOPPER_GO;
    double now = end_time(t), before = curve_forecast_time(t, t->points[t->point_count - 2].step);
    if (t->diverged)
        return rung_until(rule, curve_forecast_time(t, t->last_step)) > now ? STOPPER_STOP
                                                                            : STOPPER_GO;
    double rung = rung_until(rule, now);
    if (rung <= before || rung <= curve_forecast_time(t, t->resumed_at))
        return STOPPER_GO;
    struct curve_forecast_scale s = curve_forecast_scale(rule, maximize, view);
    size_t n = 0;
    AUTO(free) double *scores = scores_at(&s, view, rung, &n);
    if (!in_top(rule, scores, n, score_at(&s, t, rung)))
        return STOPPER_PAUSE;
    return hopeless(rule, maximize, view, t) ? STOPPER_STOP : STOPPER_GO;
}

struct candidate {             /* the best of the trials that are paused at a rung */
    const struct trial *trial; /* NULL: there is none */
    double score;
    bool top; /* it is among the best `keep` of those that reached the rung */
};

static struct candidate best_paused(const struct spec_stop *rule,
                                    const struct curve_forecast_scale *s,
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
            rung_until(rule, end_time(t)) == rung) {
            best.trial = t;
            best.score = score;
        }
    }
    best.top = in_top(rule, scores, n, best.score);
    return best;
}

static int resume(const struct spec_stop *rule, bool maximize, const struct trial_view *view)
{
    struct curve_forecast_scale s = curve_forecast_scale(rule, maximize, view);
    for (double rung = rung_until(rule, s.horizon); rung > 0;
         rung = rung_until(rule, nextafter(rung, 0))) {
        struct candidate best = best_paused(rule, &s, view, rung);
        if (best.trial && best.top)
            return best.trial->id;
    }
    return -1;
}

/* The least z that done trials came to, or that is expected of those that run. */
static double bar(const struct curve_forecast_scale *s, const struct trial_view *view)
{
    double least = INFINITY;
    for (size_t i = 0; i < view->count; i++) {
        const struct trial *t = view->trials[i];
        if (t->point_count > 0 && (trial_is_active(t->state) || t->state == TRIAL_DONE))
            least = fmin(least, curve_forecast_score(s, t, t->point_count));
    }
    return least;
}

static int finish(const struct spec_stop *rule, bool maximize, const struct trial_view *view)
{
    struct curve_forecast_scale s = curve_forecast_scale(rule, maximize, view);
    double least = bar(&s, view);
    for (double rung = rung_until(rule, s.horizon); rung > 0;
         rung = rung_until(rule, nextafter(rung, 0))) {
        struct candidate best = best_paused(rule, &s, view, rung);
        if (best.trial && best.score < least)
            return best.trial->id;
    }
    return -1;
}

const struct stopper_ops stopper_curve = {
    .name = "curve", .judge = judge, .resume = resume, .finish = finish};
