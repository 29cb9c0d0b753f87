/* stopper_median - the median rule of Vizier; see stopper.h. */
#include <stdlib.h>

#include "hpo/stoppers/stopper.h"

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Of n > 0 values, which are put in order; between the middle two where n is even. */
static double median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, compare);
    return n % 2 ? values[n / 2] : values[n / 2 - 1] / 2 + values[n / 2] / 2;
}

static enum stopper_verdict judge(const struct spec_stop *rule, bool maximize,
                                  const struct trial_view *view, struct trial *t)
{
    if (t->point_count == 0 || t->point_count < (size_t)rule->min_iter)
        return STOPPER_GO;
    const struct trial_point *now = &t->points[t->point_count - 1];
    AUTO(free) double *means = xcalloc(view->count, sizeof *means);
    size_t n = 0;
    for (size_t i = 0; i < view->count; i++) {
        const struct trial *other = view->trials[i];
        size_t until = other->state == TRIAL_DONE ? trial_points_until(other, now->step) : 0;
        if (until > 0)
            means[n++] = trial_mean(other, until);
    }
    if (n == 0 || n < (size_t)rule->min_trials)
        return STOPPER_GO;
    double middle = median(means, n);
    return (maximize ? t->best < middle : t->best > middle) ? STOPPER_STOP : STOPPER_GO;
}

const struct stopper_ops stopper_median = {.name = "median", .judge = judge};
