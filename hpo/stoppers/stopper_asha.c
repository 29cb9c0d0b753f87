/* stopper_asha - asynchronous successive halving, as Optuna and as Ray decide it.
 *
 * Asynchronous successive halving (Li et al., "A system for massively parallel hyperparameter
 * tuning", MLSys 2020), which stops trials where the paper pauses them. A rung is a step,
 * min_iter·eta^(s + k) for k = 0, 1, …, and no rung is above max_iter (0: no end). A trial takes
 * each rung once, with the value of the report that reached it.
 *
 * As Optuna 5.0's SuccessiveHalvingPruner: a trial continues if its value is at most the one at
 * index max(floor(n / eta) - 1, 0) of the n sorted values at the rung, its own included. A report
 * can pass several rungs. A value that is not finite stops the trial if a rung is reached.
 * min_iter 0: the first rung is a hundredth of the longest done trial's last step. It is settled
 * when the first trial is done; until then no trial stops.
 *
 * As Ray 2.59's AsyncHyperBandScheduler with one bracket: only the highest rung that was reached
 * and not taken counts. A trial stops if its value is worse than the 1 - 1/eta quantile of the
 * values that were there before it (linear between neighbours), and at max_iter. min_iter 0 is 1.
 *
 * Differs from both in that an infinite value counts as NaN. Cost: n if a rung is reached (Ray's:
 * n log n), else 1. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hpo/stoppers/stopper_internal.h"

static const double standard_eta = 4;

struct asha {
    struct stopper_rungs rungs; /* min_iter 0: Optuna's "auto" */
    int s;                      /* min_early_stopping_rate (Li et al. 2020) */
    bool ray;                   /* decide as Ray, not as Optuna */
    double base; /* as Optuna: the first rung's step, once it is settled; 0: not yet */
};

struct rung { /* what a trial was compared by at a rung */
    bool taken;
    double value; /* NAN: it was not finite */
};

struct memory { /* of a trial */
    struct rung *rungs;
    size_t count;
};

static int read_keys(struct stopper *s, const struct config_node *n, struct err *e)
{
    struct asha *a = s->config = xzalloc(sizeof *a);
    struct config_node like = config_node_member(n, "like");
    const char *word = json_string_value(like.value);
    a->rungs.eta = standard_eta;
    if (stopper_rungs_read(&a->rungs, n, e) < 0 ||
        config_node_int(&a->s, n, "s", 0, INT_MAX, e) < 0)
        return -EINVAL;
    a->ray = word && strcmp(word, "ray") == 0;
    if (like.value && !a->ray && (!word || strcmp(word, "optuna") != 0))
        return config_node_error(&like, e, "'like' must be optuna or ray");
    if (a->ray && !a->rungs.min_iter)
        a->rungs.min_iter = 1; /* Ray's grace_period */
    s->max_iter = a->rungs.max_iter;
    return stopper_rungs_check_eta(&a->rungs, n, false, standard_eta, e) < 0
               ? -EINVAL
               : stopper_rungs_check_max(&a->rungs, n, e);
}

static void json(const struct stopper *s, json_t *to)
{
    const struct asha *a = s->config;
    stopper_rungs_json(&a->rungs, to);
    if (a->s)
        json_object_set_new(to, "s", json_integer(a->s));
    json_object_set_new(to, "like", json_string(a->ray ? "ray" : "optuna"));
}

/* ---- rungs -------------------------------------------------------------------------------------
 */

static double rung_step(const struct asha *a, double base, size_t k)
{
    return base * pow(a->rungs.eta, a->s + (double)k);
}

static const struct rung *taken_rung(const struct stopper *s, const struct trial *t, size_t k)
{
    const struct memory *m = stopper_memory(s, t);
    return k < m->count && m->rungs[k].taken ? &m->rungs[k] : NULL;
}

static void take_rung(const struct stopper *s, const struct trial *t, size_t k, double value)
{
    struct memory *m = stopper_memory(s, t);
    if (k >= m->count) {
        m->rungs = xrealloc(m->rungs, k + 1, sizeof *m->rungs);
        for (; m->count <= k; m->count++)
            m->rungs[m->count] = (struct rung){0};
    }
    m->rungs[k] = (struct rung){true, value};
}

size_t stopper_asha_rung_count(const struct stopper *s, const struct trial *t)
{
    return ((const struct memory *)stopper_memory(s, t))->count;
}

static void memory_free(void *memory)
{
    free(((struct memory *)memory)->rungs);
}

/* The step of the metric's newest report. */
static double newest_step(const struct trial *t)
{
    return t->diverged ? t->last_step : t->curve.points[t->curve.count - 1].step;
}

static double newest_value(const struct trial *t)
{
    return t->diverged ? NAN : t->curve.points[t->curve.count - 1].value;
}

static bool has_report(const struct trial *t)
{
    return t->diverged || t->curve.count > 0;
}

/* ---- Optuna ------------------------------------------------------------------------------------
 */

/* Optuna's "auto": the first rung's step, or 0 while no trial is done. */
static double auto_base(const struct trial_view *view)
{
    double longest = -1;
    for (size_t i = 0; i < view->count; i++) {
        const struct trial *t = view->trials[i];
        if (t->state == TRIAL_DONE && has_report(t))
            longest = fmax(longest, newest_step(t));
    }
    return longest < 0 ? 0 : fmax(floor(longest / 100), 1);
}

/* Whether `value` is good enough among the values of the trials that took rung k. */
static bool is_promoted(const struct stopper *s, bool maximize, const struct trial_view *view,
                        size_t k, double value)
{
    const struct asha *a = s->config;
    size_t n = 0, better = 0;
    for (size_t i = 0; i < view->count; i++) {
        const struct rung *other = taken_rung(s, view->trials[i], k);
        if (!other)
            continue;
        n++;
        better += maximize ? other->value > value : other->value < value;
    }
    return (double)better <= fmax(floor((double)n / a->rungs.eta) - 1, 0);
}

static enum stopper_verdict judge_as_optuna(const struct stopper *s, bool maximize,
                                            const struct trial_view *view, const struct trial *t)
{
    struct asha *a = s->config;
    const struct memory *m = stopper_memory(s, t);
    if (a->base == 0)
        a->base = a->rungs.min_iter > 0 ? a->rungs.min_iter : auto_base(view);
    if (a->base == 0)
        return STOPPER_CONTINUE;
    double step = newest_step(t), value = newest_value(t);
    for (size_t k = m->count;; k++) {
        double at = rung_step(a, a->base, k);
        if (step < at || (a->rungs.max_iter > 0 && at > a->rungs.max_iter))
            return STOPPER_CONTINUE;
        if (isnan(value))
            return STOPPER_STOP;
        take_rung(s, t, k, value);
        if (!is_promoted(s, maximize, view, k, value))
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

/* numpy's quantile of n > 0 values, which are sorted in place. The arithmetic is numpy's, operation
 * by operation: a cutoff that differs in the last bit decides a tie. */
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

/* The value below which a trial stops at rung k, higher being better; NAN: there is no value yet.
 */
static double cutoff(const struct stopper *s, bool maximize, const struct trial_view *view,
                     size_t k)
{
    const struct asha *a = s->config;
    AUTO(free) double *values = xcalloc(view->count, sizeof *values);
    size_t n = 0;
    for (size_t i = 0; i < view->count; i++) {
        const struct rung *other = taken_rung(s, view->trials[i], k);
        if (other && !isnan(other->value))
            values[n++] = maximize ? other->value : -other->value;
    }
    return n ? quantile(values, n, (1 - 1 / a->rungs.eta) * 100 / 100) : (double)NAN;
}

static enum stopper_verdict judge_as_ray(const struct stopper *s, bool maximize,
                                         const struct trial_view *view, const struct trial *t)
{
    const struct asha *a = s->config;
    const struct stopper_rungs *r = &a->rungs;
    double step = newest_step(t), value = newest_value(t);
    double base = r->min_iter > 0 ? r->min_iter : 1;
    if (r->max_iter > 0 && step >= r->max_iter)
        return STOPPER_STOP;
    double rungs =
        r->max_iter > 0 ? trunc(log(r->max_iter / base) / log(r->eta) - a->s + 1) : INFINITY;
    size_t k = 0; /* number of rungs that were reached */
    while ((double)k < rungs && step >= rung_step(a, base, k))
        k++;
    while (k > 0 && taken_rung(s, t, k - 1))
        k--;
    if (k == 0)
        return STOPPER_CONTINUE;
    double cut = cutoff(s, maximize, view, k - 1);
    take_rung(s, t, k - 1, value);
    return (maximize ? value : -value) < cut ? STOPPER_STOP : STOPPER_CONTINUE;
}

static enum stopper_verdict judge(struct stopper *s, bool maximize, const struct trial_view *view,
                                  const struct trial *t)
{
    const struct asha *a = s->config;
    if (!has_report(t))
        return STOPPER_CONTINUE;
    return a->ray ? judge_as_ray(s, maximize, view, t) : judge_as_optuna(s, maximize, view, t);
}

const struct stopper_ops stopper_asha = {
    .name = "asha",
    .help = "asynchronous successive halving, as Optuna or Ray decides",
    .keys = {"min_iter", "max_iter", "eta", "s", "like"},
    .read = read_keys,
    .json = json,
    .judge = judge,
    .memory_bytes = sizeof(struct memory),
    .memory_free = memory_free,
};
