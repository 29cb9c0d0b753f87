/* stopper_asha - asynchronous successive halving with the rules of Optuna or of Ray.
 *
 * The method is that of Li et al., "A system for massively parallel hyperparameter tuning", MLSys
 * 2020, but trials are stopped that the paper would pause. A rung is a step: min_iter·eta^(s + k)
 * for k = 0, 1, … No rung is above max_iter (0: no limit). A trial takes each rung once, with the
 * value of the report that reached the rung.
 *
 * `like: optuna` follows SuccessiveHalvingPruner of Optuna 5.0. The n values at the rung, including
 * the trial's own, are sorted. The trial continues if its value is not worse than the value at
 * index max(floor(n / eta) - 1, 0). A report can pass several rungs. If a report reaches a rung and
 * its value is not finite, the trial stops. If min_iter is 0, the first rung is 1/100 of the last
 * step of the longest trial that is done. This is computed when the first trial is done; until then
 * no trial stops.
 *
 * `like: ray` follows AsyncHyperBandScheduler of Ray 2.59 with one bracket. Of the rungs that a
 * report reaches, only the highest counts, and only if the trial has not taken it. A trial stops if
 * its value is worse than the 1 - 1/eta quantile of the values that other trials have at the rung;
 * the quantile is linear between neighbours. A trial also stops at max_iter. min_iter 0 means 1.
 *
 * Unlike in both, an infinite value counts as NaN. Costs O(n) if a rung is reached (`like: ray`:
 * O(n log n)), else O(1). */
#include <errno.h>
#include <gsl/gsl_sort.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hpo/stoppers/stopper_internal.h"

static const double standard_eta = 4;

struct rung { /* a trial's value at a rung */
    bool taken;
    double value; /* NAN: the reported value was not finite */
};

struct memory { /* the rungs of one trial */
    struct rung *rungs;
    size_t count;
};

struct asha {
    struct stopper_rungs rungs; /* with Optuna's rules, min_iter 0 means Optuna's "auto" */
    int s;                      /* min_early_stopping_rate (Li et al. 2020) */
    bool ray;                   /* use Ray's rules, not Optuna's */
    double base;           /* with Optuna's rules: the step of the first rung; 0: not known yet */
    struct memory *memory; /* of each trial, by id */
    size_t memory_count;
};

static int read_keys(struct stopper *s, const struct config_node *n, struct err *e)
{
    struct asha *a = s->config = xzalloc(sizeof *a);
    struct config_node like = config_node_member(n, "like");
    const char *word = json_string_value(like.value);
    if (stopper_rungs_read(&a->rungs, n, false, standard_eta, e) < 0 ||
        config_node_int(&a->s, n, "s", 0, INT_MAX, e) < 0)
        return -EINVAL;
    a->ray = word && strcmp(word, "ray") == 0;
    if (like.value && !a->ray && (!word || strcmp(word, "optuna") != 0))
        return config_node_error(&like, e, "'like' must be optuna or ray");
    if (a->ray && !a->rungs.min_iter)
        a->rungs.min_iter = 1; /* Ray's grace_period */
    s->max_iter = a->rungs.max_iter;
    s->least = s->first = fmax(a->rungs.min_iter, 1) * pow(a->rungs.eta, a->s);
    return 0;
}

static void json(const struct stopper *s, json_t *to)
{
    const struct asha *a = s->config;
    stopper_rungs_json(&a->rungs, to);
    if (a->s)
        json_object_set_new(to, "s", json_integer(a->s));
    json_object_set_new(to, "like", json_string(a->ray ? "ray" : "optuna"));
}

/* ---- rungs ---------------------------------------------------------------------------------- */

static double rung_step(const struct asha *a, double base, size_t k)
{
    return base * pow(a->rungs.eta, a->s + (double)k);
}

static void grow_memory(struct asha *a, size_t trials)
{
    size_t count = 2 * trials;
    if (trials <= a->memory_count)
        return;
    a->memory = xrealloc(a->memory, count, sizeof *a->memory);
    for (; a->memory_count < count; a->memory_count++)
        a->memory[a->memory_count] = (struct memory){0};
}

static void clear(void *config)
{
    const struct asha *a = config;
    for (size_t i = 0; i < a->memory_count; i++)
        free(a->memory[i].rungs);
    free(a->memory);
}

static const struct rung *taken_rung(const struct asha *a, const struct trial *t, size_t k)
{
    const struct memory *m = &a->memory[t->id];
    return k < m->count && m->rungs[k].taken ? &m->rungs[k] : NULL;
}

static void take_rung(const struct asha *a, const struct trial *t, size_t k, double value)
{
    struct memory *m = &a->memory[t->id];
    if (k >= m->count) {
        m->rungs = xrealloc(m->rungs, k + 1, sizeof *m->rungs);
        for (; m->count <= k; m->count++)
            m->rungs[m->count] = (struct rung){0};
    }
    m->rungs[k] = (struct rung){true, value};
}

/* Returns the step of the metric's newest report, which may have a value that is not finite. */
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

/* ---- Optuna --------------------------------------------------------------------------------- */

/* Returns the step of the first rung by Optuna's "auto", or 0 if no trial is done. */
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

/* Returns true if `value` is good enough, among the values of all trials that took rung k, to
 * continue. */
static bool is_promoted(const struct asha *a, bool maximize, const struct trial_view *view,
                        size_t k, double value)
{
    size_t n = 0, better = 0;
    for (size_t i = 0; i < view->count; i++) {
        const struct rung *other = taken_rung(a, view->trials[i], k);
        if (!other)
            continue;
        n++;
        better += maximize ? other->value > value : other->value < value;
    }
    return (double)better <= fmax(floor((double)n / a->rungs.eta) - 1, 0);
}

static enum stopper_verdict judge_as_optuna(struct asha *a, bool maximize,
                                            const struct trial_view *view, const struct trial *t)
{
    if (a->base == 0)
        a->base = a->rungs.min_iter > 0 ? a->rungs.min_iter : auto_base(view);
    if (a->base == 0)
        return STOPPER_CONTINUE;
    double step = newest_step(t), value = newest_value(t);
    for (size_t k = a->memory[t->id].count;; k++) {
        double at = rung_step(a, a->base, k);
        if (step < at || (a->rungs.max_iter > 0 && at > a->rungs.max_iter))
            return STOPPER_CONTINUE;
        if (isnan(value))
            return STOPPER_STOP;
        take_rung(a, t, k, value);
        if (!is_promoted(a, maximize, view, k, value))
            return STOPPER_STOP;
    }
}

/* ---- Ray ------------------------------------------------------------------------------------ */

/* Returns numpy's quantile of n > 0 values; sorts them in place. The operations and their order are
 * those of numpy, since a difference in the last bit would change decisions between equal values.
 */
static double quantile(double *v, size_t n, double q)
{
    gsl_sort(v, 1, n);
    double at = (double)(n - 1) * q;
    if (at >= (double)(n - 1))
        return v[n - 1];
    size_t i = (size_t)at;
    double part = at - (double)i, gap = v[i + 1] - v[i];
    return part < 0.5 ? v[i] + gap * part : v[i + 1] - gap * (1 - part);
}

/* Returns the value below which a trial stops at rung k, on a scale where higher is better. Returns
 * NAN if no trial has a value at the rung. */
static double cutoff(const struct asha *a, bool maximize, const struct trial_view *view, size_t k)
{
    AUTO(free) double *values = xcalloc(view->count, sizeof *values);
    size_t n = 0;
    for (size_t i = 0; i < view->count; i++) {
        const struct rung *other = taken_rung(a, view->trials[i], k);
        if (other && !isnan(other->value))
            values[n++] = maximize ? other->value : -other->value;
    }
    return n ? quantile(values, n, (1 - 1 / a->rungs.eta) * 100 / 100) : (double)NAN;
}

static enum stopper_verdict judge_as_ray(const struct asha *a, bool maximize,
                                         const struct trial_view *view, const struct trial *t)
{
    const struct stopper_rungs *r = &a->rungs;
    double step = newest_step(t), value = newest_value(t);
    double base = r->min_iter > 0 ? r->min_iter : 1;
    if (r->max_iter > 0 && step >= r->max_iter)
        return STOPPER_STOP;
    double rungs =
        r->max_iter > 0 ? trunc(log(r->max_iter / base) / log(r->eta) - a->s + 1) : INFINITY;
    size_t k = 0; /* number of the highest rung that was reached and not taken, from 1; 0: none */
    while ((double)k < rungs && step >= rung_step(a, base, k))
        k++;
    while (k > 0 && taken_rung(a, t, k - 1))
        k--;
    if (k == 0)
        return STOPPER_CONTINUE;
    double cut = cutoff(a, maximize, view, k - 1);
    take_rung(a, t, k - 1, value);
    return (maximize ? value : -value) < cut ? STOPPER_STOP : STOPPER_CONTINUE;
}

static enum stopper_verdict judge(struct stopper *s, bool maximize, const struct trial_view *view,
                                  const struct trial *t)
{
    struct asha *a = s->config;
    grow_memory(a, (size_t)view->trials[view->count - 1]->id + 1);
    if (!has_report(t))
        return STOPPER_CONTINUE;
    return a->ray ? judge_as_ray(a, maximize, view, t) : judge_as_optuna(a, maximize, view, t);
}

const struct stopper_ops stopper_asha = {
    .name = "asha",
    .help = "asynchronous successive halving, as Optuna or Ray decides",
    .keys = {"min_iter", "max_iter", "eta", "s", "like"},
    .read = read_keys,
    .json = json,
    .judge = judge,
    .reached = newest_step,
    .clear = clear,
    .by_steps = true,
    .has_memory = true,
};
