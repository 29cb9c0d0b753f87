#include "hpo/samplers/sweep_analysis.h"

#include <gsl/gsl_sort.h>
#include <math.h>

#include "common/json.h"
#include "common/rng.h"
#include "hpo/model/importance.h"
#include "hpo/model/pareto.h"
#include "hpo/space/distribution.h"
#include "hpo/space/space.h"

/* ---- importance ----------------------------------------------------------------------------- */

/* Collects the trials that are done or pruned and have a value, and returns their number. y[i] is
 * the value of the i-th of them. u[k * view->count + i] is the coordinate of its parameter k; NAN
 * if the parameter is inactive. */
static size_t table(const struct space *space, const struct sampler_objective *objectives,
                    const struct trial_view *view, double *u, double *y)
{
    size_t dims = space_dims(space), n = 0;
    AUTO(free) double *at = xcalloc(dims, sizeof *at);
    AUTO(free) bool *active = xcalloc(dims, sizeof *active);
    for (size_t i = 0; i < view->count; i++) {
        const struct trial *t = view->trials[i];
        if (!trial_has_signal(t->state) || !trial_is_ended(t->state) ||
            !sampler_values(objectives, 1, t, &y[n]) || space_unit(space, t->params, at, NULL) < 0)
            continue;
        space_snap(space, at, active);
        for (size_t k = 0; k < dims; k++)
            u[k * view->count + n] = active[k] ? at[k] : (double)NAN;
        n++;
    }
    return n;
}

/* Returns the importance of one parameter. `u` has its coordinates, which are changed to the form
 * that importance_of() needs. */
static double importance(const struct distribution *d, double *u, const bool *top, size_t n)
{
    double count = distribution_count(d);
    bool ordered = d->kind != DISTRIBUTION_CATEGORICAL;
    if (ordered && count > IMPORTANCE_CELLS)
        return importance_of(u, top, n, IMPORTANCE_CELLS, true);
    for (size_t i = 0; i < n; i++)
        if (!isnan(u[i]))
            u[i] = (distribution_index(d, u[i]) + 0.5) / count;
    return importance_of(u, top, n, (size_t)count, ordered);
}

/* Sets share[k] to the share of parameter k. `u` has rows of `stride` and is changed. */
static void shares_of(const struct space *space, double *u, size_t stride, const double *y,
                      size_t n, double *share)
{
    AUTO(free) bool *top = xcalloc(n, sizeof *top);
    size_t dims = space_dims(space);
    double sum = 0;
    importance_top(y, n, top);
    for (size_t k = 0; k < dims; k++) {
        share[k] = importance(space_distribution(space, k), u + k * stride, top, n);
        sum += share[k];
    }
    for (size_t k = 0; k < dims; k++)
        share[k] = sum > 0 ? share[k] / sum : 0;
}

struct share {
    const char *name;
    double value;
};

static int largest_first(const void *a, const void *b)
{
    const struct share *p = a, *q = b;
    int order = (p->value < q->value) - (p->value > q->value);
    return order ? order : strcmp(p->name, q->name);
}

json_t *sweep_analysis_importance(const struct space *space,
                                  const struct sampler_objective *objectives,
                                  const struct trial_view *view)
{
    size_t dims = space_dims(space);
    AUTO(free) double *u = xcalloc(view->count, dims * sizeof *u);
    AUTO(free) double *y = xcalloc(view->count + 1, sizeof *y);
    size_t n = table(space, objectives, view, u, y);
    if (n < SWEEP_ANALYSIS_TRIALS_MIN)
        return json_null();
    AUTO(free) double *of = xcalloc(dims + 1, sizeof *of);
    AUTO(free) struct share *shares = xcalloc(dims, sizeof *shares);
    shares_of(space, u, view->count, y, n, of);
    for (size_t k = 0; k < dims; k++)
        shares[k] = (struct share){space_name(space, k), of[k]};
    qsort(shares, dims, sizeof *shares, largest_first);
    json_t *out = json_object();
    for (size_t k = 0; k < dims; k++)
        json_object_set_new(out, shares[k].name, json_real(shares[k].value));
    return out;
}

json_t *sweep_analysis_importance_ranges(const struct space *space,
                                         const struct sampler_objective *objectives,
                                         const struct trial_view *view, size_t resamples)
{
    size_t dims = space_dims(space), stride = view->count, rows = resamples + 1;
    AUTO(free) double *u = xcalloc(stride + 1, dims * sizeof *u);
    AUTO(free) double *drawn = xcalloc(stride + 1, dims * sizeof *drawn);
    AUTO(free) double *y = xcalloc(2 * stride + 1, sizeof *y);
    AUTO(free) double *all = xcalloc(rows * dims + resamples + 1, sizeof *all);
    double *drawn_y = y + stride, *column = all + rows * dims;
    size_t n = table(space, objectives, view, u, y);
    struct rng r;
    rng_seed(&r, 0, 0);
    if (n < SWEEP_ANALYSIS_TRIALS_MIN)
        return json_null();
    for (size_t b = 0; b < rows; b++) { /* row 0: the trials themselves */
        for (size_t i = 0; i < n; i++) {
            size_t from = b == 0 ? i : (size_t)rng_below(&r, n);
            drawn_y[i] = y[from];
            for (size_t k = 0; k < dims; k++)
                drawn[k * stride + i] = u[k * stride + from];
        }
        shares_of(space, drawn, stride, drawn_y, n, all + b * dims);
    }
    json_t *out = json_object();
    for (size_t k = 0; k < dims; k++) {
        for (size_t b = 0; b < resamples; b++)
            column[b] = all[(b + 1) * dims + k];
        gsl_sort(column, 1, resamples);
        double low = column[resamples / 20], high = column[resamples - 1 - resamples / 20];
        json_object_set_new(out, space_name(space, k),
                            json_pack("[f,f,f]", all[k], fmin(low, all[k]), fmax(high, all[k])));
    }
    return out;
}

/* ---- the Pareto front ----------------------------------------------------------------------- */

json_t *sweep_analysis_front(const struct sampler_objective *objectives, size_t count,
                             const struct trial_view *view)
{
    AUTO(free) double *y = xcalloc(view->count * count, sizeof *y);
    AUTO(free) size_t *index = xcalloc(view->count, sizeof *index);
    AUTO(free) size_t *front = xcalloc(view->count, sizeof *front);
    size_t n = 0;
    for (size_t i = 0; i < view->count; i++) {
        const struct trial *t = view->trials[i];
        if (trial_has_signal(t->state) && sampler_values(objectives, count, t, &y[n * count]))
            index[n++] = i;
    }
    json_t *ids = json_array();
    size_t best = pareto_front(y, n, count, front);
    for (size_t i = 0; i < best; i++)
        json_array_append_new(ids, json_integer(view->trials[index[front[i]]]->id));
    return ids;
}
