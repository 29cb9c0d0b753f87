/* stopper_asha - successive halving as Optuna and as Ray decide it; see stopper.h. */
#include <math.h>
#include <stdlib.h>

#include "hpo/stoppers/stopper.h"

/* ---- rungs -------------------------------------------------------------------------------------
 */

static double rung_step(const struct spec_stop *rule, double base, size_t k)
{
    return base * pow(rule->eta, rule->s + (double)k);
}

static bool took(const struct trial *t, size_t k)
{
    return k < t->rung_count && t->rungs[k].taken;
}

static void take(struct trial *t, size_t k, double value)
{
    if (k >= t->rung_count) {
        t->rungs = xrealloc(t->rungs, k + 1, sizeof *t->rungs);
        for (; t->rung_count <= k; t->rung_count++)
            t->rungs[t->rung_count] = (struct trial_rung){0};
    }
    t->rungs[k] = (struct trial_rung){true, value};
}

/* Of the metric's newest report. */
static double newest_step(const struct trial *t)
{
    return t->diverged ? t->last_step : t->points[t->point_count - 1].step;
}

static double newest_value(const struct trial *t)
{
    return t->diverged ? NAN : t->points[t->point_count - 1].value;
}

static bool has_report(const struct trial *t)
{
    return t->diverged || t->point_count > 0;
}

/* ---- Optuna ------------------------------------------------------------------------------------
 */

/* Optuna's "auto". Who was judged once it was settled knows it; the others ask. */
static double settle_base(const struct trial_view *view)
{
    double longest = -1;
    for (size_t i = 0; i < view->count; i++) {
        const struct trial *t = view->trials[i];
        if (t->rung_base > 0)
            return t->rung_base;
        if (t->state == TRIAL_DONE && has_report(t))
            longest = fmax(longest, newest_step(t));
    }
    return longest < 0 ? 0 : fmax(floor(longest / 100), 1);
}

/* Whether `value` is good enough among those that took rung k. */
static bool promoted(const struct spec_stop *rule, bool maximize, const struct trial_view *view,
                     size_t k, double value)
{
    size_t n = 0, better = 0;
    for (size_t i = 0; i < view->count; i++) {
        const struct trial *other = view->trials[i];
        if (!took(other, k))
            continue;
        double v = other->rungs[k].value;
        n++;
        better += maximize ? v > value : v < value;
    }
    return (double)better <= fmax(floor((double)n / rule->eta) - 1, 0);
}

static enum stopper_verdict as_optuna(const struct spec_stop *rule, bool maximize,
                                      const struct trial_view *view, struct trial *t)
{
    if (t->rung_base == 0)
        t->rung_base = rule->min_iter > 0 ? rule->min_iter : settle_base(view);
    if (t->rung_base == 0)
        return STOPPER_GO;
    double step = newest_step(t), value = newest_value(t);
    for (size_t k = t->rung_count;; k++) {
        double at = rung_step(rule, t->rung_base, k);
        if (step < at || (rule->max_iter > 0 && at > rule->max_iter))
            return STOPPER_GO;
        if (isnan(value))
            return STOPPER_STOP;
        take(t, k, value);
        if (!promoted(rule, maximize, view, k, value))
            return STOPPER_STOP;
    }
}

/* ---- Ray ---------------------------------------------------------------------------------------
 */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* numpy's quantile of n > 0 values, which are put in order, step for step: a cutoff that differs in
 * the last bit decides a tie. */
static double quantile(double *v, size_t n, double q)
{
    qsort(v, n, sizeof *v, compare);
    double at = (double)(n - 1) * q;
    if (at >= (double)(n - 1))
        return v[n - 1];
    size_t i = (size_t)at;
    double part = at - (double)i, gap = v[i + 1] - v[i];
    return part < 0.5 ? v[i] + gap * part : v[i + 1] - gap * (1 - part);
}

/* The value below which a trial stops at rung k, higher being better; NAN: none. */
static double cutoff(const struct spec_stop *rule, bool maximize, const struct trial_view *view,
                     size_t k)
{
    AUTO(free) double *there = xcalloc(view->count, sizeof *there);
    size_t n = 0;
    for (size_t i = 0; i < view->count; i++) {
        const struct trial *other = view->trials[i];
        if (took(other, k) && !isnan(other->rungs[k].value))
            there[n++] = maximize ? other->rungs[k].value : -other->rungs[k].value;
    }
    return n ? quantile(there, n, (1 - 1 / rule->eta) * 100 / 100) : (double)NAN;
}

static enum stopper_verdict as_ray(const struct spec_stop *rule, bool maximize,
                                   const struct trial_view *view, struct trial *t)
{
    double step = newest_step(t), value = newest_value(t);
    double base = rule->min_iter > 0 ? rule->min_iter : 1;
    if (rule->max_iter > 0 && step >= rule->max_iter)
        return STOPPER_STOP;
    double rungs = rule->max_iter > 0
                       ? trunc(log(rule->max_iter / base) / log(rule->eta) - rule->s + 1)
                       : INFINITY;
    size_t k = 0; /* rungs that were reached */
    while ((double)k < rungs && step >= rung_step(rule, base, k))
        k++;
    while (k > 0 && took(t, k - 1))
        k--;
    if (k == 0)
        return STOPPER_GO;
    double cut = cutoff(rule, maximize, view, k - 1);
    take(t, k - 1, value);
    return (maximize ? value : -value) < cut ? STOPPER_STOP : STOPPER_GO;
}

static enum stopper_verdict judge(const struct spec_stop *rule, bool maximize,
                                  const struct trial_view *view, struct trial *t)
{
    if (!has_report(t))
        return STOPPER_GO;
    return rule->ray ? as_ray(rule, maximize, view, t) : as_optuna(rule, maximize, view, t);
}

const struct stopper_ops stopper_asha = {.name = "asha", .judge = judge, .notes = true};
