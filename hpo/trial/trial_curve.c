#include "hpo/trial/trial_curve.h"

#include <math.h>
#include <string.h>

#include "common/mem.h"

void trial_curve_init(struct trial_curve *c)
{
    *c = (struct trial_curve){.best = NAN, .last = NAN, .newest = NAN};
}

void trial_curve_clear(struct trial_curve *c)
{
    free(c->points);
    free(c->replaced);
    trial_curve_init(c);
}

static struct trial_point *copy_points(const struct trial_point *from, size_t count)
{
    struct trial_point *to = xcalloc(count + 1, sizeof *to);
    for (size_t i = 0; i < count; i++)
        to[i] = from[i];
    return to;
}

void trial_curve_copy(struct trial_curve *c, const struct trial_curve *from)
{
    *c = *from;
    c->cap = from->count + 1;
    c->points = copy_points(from->points, from->count);
    c->replaced = copy_points(from->replaced, from->replaced_count);
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

void trial_curve_range(const struct trial_curve *c, double *low, double *high)
{
    *low = *high = NAN;
    for (size_t i = 0; i < c->count + c->replaced_count; i++) {
        double v = i < c->count ? c->points[i].value : c->replaced[i - c->count].value;
        *low = better(*low, v, false);
        *high = better(*high, v, true);
    }
}

static void find_best(struct trial_curve *c, bool maximize)
{
    double low, high;
    trial_curve_range(c, &low, &high);
    c->best = maximize ? high : low;
}

size_t trial_curve_put(struct trial_curve *c, double step, double value, bool maximize)
{
    size_t i = trial_curve_until(c, step);
    bool corrects = false;
    if (i && c->points[i - 1].step == step) {
        i--;
        corrects = c->newest == step;
        if (!corrects && c->points[i].value != value) {
            c->replaced = xgrow(c->replaced, c->replaced_count, sizeof *c->replaced);
            c->replaced[c->replaced_count++] = c->points[i];
        }
    } else {
        if (c->count == c->cap) {
            c->cap += c->cap / 4 + 8; /* slowly: thousands of trials have curves */
            c->points = xrealloc(c->points, c->cap, sizeof *c->points);
        }
        memmove(c->points + i + 1, c->points + i, (c->count - i) * sizeof *c->points);
        c->count++;
    }
    c->points[i] = (struct trial_point){.step = step, .value = value};
    if (corrects)
        find_best(c, maximize);
    else
        c->best = better(c->best, value, maximize);
    c->last = value;
    c->newest = step;
    return i;
}

void trial_curve_cut(struct trial_curve *c, double step, bool maximize)
{
    while (c->count && c->points[c->count - 1].step >= step)
        c->count--;
    size_t kept = 0;
    for (size_t i = 0; i < c->replaced_count; i++)
        if (c->replaced[i].step < step)
            c->replaced[kept++] = c->replaced[i];
    c->replaced_count = kept;
    c->newest = NAN;
    find_best(c, maximize);
    c->last = c->count ? c->points[c->count - 1].value : (double)NAN;
}
