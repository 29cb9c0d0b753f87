#include "hpo/trial/trial_curve.h"

#include <math.h>
#include <string.h>

#include "common/mem.h"

void trial_curve_init(struct trial_curve *c)
{
    *c = (struct trial_curve){.best = NAN};
}

void trial_curve_clear(struct trial_curve *c)
{
    free(c->points);
    trial_curve_init(c);
}

size_t trial_curve_until(const struct trial_curve *c, double step)
{
    size_t lo = 0, hi = c->count;
    if (hi && c->points[hi - 1].step <= step) /* usually the newest point */
        return hi;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (c->points[mid].step <= step)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static double better(double a, double b, bool maximize)
{
    return maximize ? fmax(a, b) : fmin(a, b); /* a NAN loses: there is no value yet */
}

/* Needed after points were dropped or replaced. */
static void find_best(struct trial_curve *c, bool maximize)
{
    c->best = NAN;
    for (size_t i = 0; i < c->count; i++)
        c->best = better(c->best, c->points[i].value, maximize);
}

size_t trial_curve_put(struct trial_curve *c, double step, double value, bool maximize)
{
    size_t i = trial_curve_until(c, step);
    bool replaced = i && c->points[i - 1].step == step;
    if (replaced) {
        i--;
    } else {
        if (c->count == c->cap) {
            c->cap += c->cap / 4 + 8; /* slowly: thousands of trials have curves */
            c->points = xrealloc(c->points, c->cap, sizeof *c->points);
        }
        memmove(c->points + i + 1, c->points + i, (c->count - i) * sizeof *c->points);
        c->count++;
    }
    c->points[i] = (struct trial_point){.step = step, .value = value};
    if (replaced)
        find_best(c, maximize);
    else
        c->best = better(c->best, value, maximize);
    return i;
}

void trial_curve_cut(struct trial_curve *c, double step, bool maximize)
{
    while (c->count && c->points[c->count - 1].step >= step)
        c->count--;
    find_best(c, maximize);
}
