/* stopper_median - the median rule of Vizier.
 *
 * The rule is that of Golovin et al., "Google Vizier: a service for black-box optimization", KDD
 * 2017, section 3.2.2. For each trial that is done, the mean of its values up to step s is
 * computed. A running trial stops at step s if its best value up to s is worse than the median of
 * these means. A trial is not stopped before its report number min_iter, nor while fewer than
 * min_trials trials are done. Costs O(n log n) for n done trials. */
#include <errno.h>
#include <gsl/gsl_sort.h>
#include <limits.h>

#include "hpo/stoppers/stopper_internal.h"

struct median {
    int min_iter;   /* a trial may be stopped from this report on, counted from 1 */
    int min_trials; /* least number of done trials to compare with */
};

static int read_keys(struct stopper *s, const struct config_node *n, struct err *e)
{
    struct median *m = s->config = xzalloc(sizeof *m);
    *m = (struct median){.min_iter = 1, .min_trials = 5};
    if (config_node_int(&m->min_iter, n, "min_iter", 1, INT_MAX, e) < 0)
        return -EINVAL;
    if (config_node_int(&m->min_trials, n, "min_trials", 1, INT_MAX, e) < 0)
        return -EINVAL;
    s->first = m->min_iter;
    s->min_done = m->min_trials;
    return 0;
}

static void json(const struct stopper *s, json_t *to)
{
    const struct median *m = s->config;
    json_object_set_new(to, "min_iter", json_integer(m->min_iter));
    json_object_set_new(to, "min_trials", json_integer(m->min_trials));
}

/* Returns the median of n > 0 values; sorts them in place. If n is even, the median is the mean of
 * the two values in the middle. */
static double median_of(double *values, size_t n)
{
    gsl_sort(values, 1, n);
    return n % 2 ? values[n / 2] : values[n / 2 - 1] / 2 + values[n / 2] / 2;
}

static enum stopper_verdict judge(struct stopper *s, bool maximize, const struct trial_view *view,
                                  const struct trial *t)
{
    const struct median *m = s->config;
    if (t->curve.count == 0 || t->curve.count < (size_t)m->min_iter)
        return STOPPER_CONTINUE;
    const struct trial_point *now = &t->curve.points[t->curve.count - 1];
    AUTO(free) double *means = xcalloc(view->count, sizeof *means);
    size_t n = 0;
    for (size_t i = 0; i < view->count; i++) {
        const struct trial *other = view->trials[i];
        size_t until = other->state == TRIAL_DONE ? trial_curve_until(&other->curve, now->step) : 0;
        if (until > 0)
            means[n++] = trial_mean(other, until);
    }
    if (n == 0 || n < (size_t)m->min_trials)
        return STOPPER_CONTINUE;
    double middle = median_of(means, n);
    return (maximize ? t->curve.best < middle : t->curve.best > middle) ? STOPPER_STOP
                                                                        : STOPPER_CONTINUE;
}

const struct stopper_ops stopper_median = {
    .name = "median",
    .help = "worse than the median of the trials that are done",
    .keys = {"min_iter", "min_trials"},
    .read = read_keys,
    .json = json,
    .judge = judge,
};
