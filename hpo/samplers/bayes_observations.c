#include "hpo/samplers/bayes_observations.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "hpo/space/space.h"
#include "hpo/stoppers/curve_forecast.h"

static const double side_by_side = 1e-7; /* points that are closer count as equal */

void bayes_observations_free(struct bayes_observations *p)
{
    if (!p)
        return;
    for (size_t g = 0; g < p->lists; g++)
        bayes_model_data_free(&p->data[g]);
    bayes_model_data_free(&p->ends);
    free(p->data);
    free(p->u);
    free(p->ids);
    free(p->feasible);
    free(p->pending);
    free(p->taken);
    free(p->trial_rows);
    free(p->inside);
    free(p->one.u);
    free(p);
}

/* ---- one observation ------------------------------------------------------------------------ */

/* Writes the point and the columns of a parameter set to p->one. Returns false if the set is
 * outside of the space; the first sets that the user gives may be. */
static bool locate(const struct bayes_observations *p, const json_t *params)
{
    struct err e = {0};
    if (space_unit(p->space->space, params, p->one.u, &e) < 0)
        return false;
    bayes_features_columns(p->space, p->one.u, true, p->one.x, 1);
    return true;
}

/* Does the same as locate() for a trial. Keeps the result, so that the parameters of a trial are
 * read only once. */
static bool locate_trial(struct bayes_observations *p, const struct trial *t)
{
    size_t dims = p->space->dims, cols = p->space->shape.cols, at = (size_t)t->id;
    double *row = p->trial_rows + at * (dims + cols);
    if (p->inside[at]) {
        memcpy(p->one.u, row, dims * sizeof *row);
        memcpy(p->one.x, row + dims, cols * sizeof *row);
    } else {
        p->inside[at] = locate(p, t->params) ? 1 : -1;
        memcpy(row, p->one.u, dims * sizeof *row);
        memcpy(row + dims, p->one.x, cols * sizeof *row);
    }
    return p->inside[at] > 0;
}

/* Grows the arrays that are indexed by trial. */
static void reserve_trials(struct bayes_observations *p, size_t count)
{
    size_t row = p->space->dims + p->space->shape.cols, old = p->trial_cap, cap = 2 * count;
    if (count <= old)
        return;
    p->taken = xrealloc(p->taken, cap, sizeof *p->taken);
    p->inside = xrealloc(p->inside, cap, sizeof *p->inside);
    p->trial_rows = xrealloc(p->trial_rows, cap * row, sizeof *p->trial_rows);
    memset(p->taken + old, 0, (cap - old) * sizeof *p->taken);
    memset(p->inside + old, 0, (cap - old) * sizeof *p->inside);
    p->trial_cap = cap;
}

static void append_row(double **rows, size_t *cap, size_t at, const double *u, size_t dims)
{
    if (at == *cap) {
        *cap = *cap ? 2 * *cap : 64;
        *rows = xrealloc(*rows, *cap * dims, sizeof **rows);
    }
    memcpy(*rows + at * dims, u, dims * sizeof *u);
}

/* Adds trial `id` as an observation of all objectives. `var` is the variance of the first
 * objective's value. */
static void add(struct bayes_observations *p, int id, double var)
{
    size_t n = p->data[0].n;
    append_row(&p->u, &p->u_cap, n, p->one.u, p->space->dims);
    if (n == p->id_cap) {
        p->id_cap = p->id_cap ? 2 * p->id_cap : 64;
        p->ids = xrealloc(p->ids, p->id_cap, sizeof *p->ids);
        p->feasible = xrealloc(p->feasible, p->id_cap, sizeof *p->feasible);
    }
    p->ids[n] = id;
    p->feasible[n] = !p->task->outcomes || p->task->outcomes->count == 0;
    for (size_t g = 0; g < p->task->objective_count; g++)
        bayes_model_data_add(&p->data[g], p->space->shape.cols, p->one.x, p->one.y[g],
                             g == 0 ? var : 0);
}

/* Adds what a trial has measured to the lists of the outcome constraints. `metrics` are those of
 * the certain observation that was added last. */
static void add_outcomes(struct bayes_observations *p, const json_t *metrics)
{
    size_t objectives = p->task->objective_count;
    for (size_t g = objectives; g < p->lists; g++) {
        const struct outcome_bound *b = &p->task->outcomes->at[g - objectives];
        double v = NAN;
        (void)json_as_number(&v, json_object_get(metrics, b->metric)); /* it stays NAN */
        if (isfinite(v))
            bayes_model_data_add(&p->data[g], p->space->shape.cols, p->one.x,
                                 isinf(b->max) ? -v : v, 0);
    }
    p->feasible[p->certain++] = outcome_feasible(p->task->outcomes, metrics);
}

/* Adds an observation of another sweep. It is not a trial of this sweep, but as certain as its
 * finished trials. */
static void add_warm_start(struct bayes_observations *p, const json_t *one)
{
    const json_t *values = json_object_get(one, "values");
    for (size_t g = 0; g < p->task->objective_count; g++) {
        const struct sampler_objective *objective = &p->task->objectives[g];
        double v;
        if (json_as_number(&v, json_object_get(values, objective->metric)) < 0 || !isfinite(v))
            return;
        p->one.y[g] = objective->maximize ? -v : v;
    }
    if (!locate(p, json_object_get(one, "params")))
        return;
    bayes_model_data_add(&p->ends, p->space->shape.cols, p->one.x, 1, 0);
    add(p, -1, 0);
    add_outcomes(p, values);
}

/* Adds the end of a trial as a success or a failure, and its values if it is done. */
static void add_end(struct bayes_observations *p, const struct trial *t)
{
    bool has_values = t->state == TRIAL_PRUNED ||
                      sampler_values(p->task->objectives, p->task->objective_count, t, p->one.y);
    if (t->state == TRIAL_CANCELLED || !locate(p, t->params))
        return;
    has_values = has_values && (t->state == TRIAL_DONE || t->state == TRIAL_PRUNED);
    bayes_model_data_add(&p->ends, p->space->shape.cols, p->one.x, has_values ? 1 : -1, 0);
    p->failures += !has_values;
    p->late_ends += (size_t)t->id >= p->first;
    p->late_failures += (size_t)t->id >= p->first && !has_values;
    if (!has_values || t->state == TRIAL_PRUNED)
        return;
    add(p, t->id, 0);
    add_outcomes(p, t->metrics);
}

static int by_end(const void *a, const void *b)
{
    const struct trial *x = *(const struct trial *const *)a, *y = *(const struct trial *const *)b;
    if (x->end_order != y->end_order)
        return x->end_order < y->end_order ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Adds the trials that have ended since the last update, in the order of their ends. */
static void add_ends(struct bayes_observations *p, const struct trial_view *view)
{
    AUTO(free) const struct trial **ended = xcalloc(view->count + 1, sizeof *ended);
    size_t n = 0;
    reserve_trials(p, view->count);
    for (size_t i = 0; i < view->count; i++)
        if (!p->taken[i] && trial_is_ended(view->trials[i]->state)) {
            p->taken[i] = true;
            ended[n++] = view->trials[i];
        }
    qsort(ended, n, sizeof *ended, by_end);
    for (size_t i = 0; i < n; i++)
        add_end(p, ended[i]);
}

/* ---- updates -------------------------------------------------------------------------------- */

/* Returns true if the trial has reported values but not its final one, which must be forecast. */
static bool needs_forecast(const struct trial *t)
{
    return t->curve.count > 0 && (t->state == TRIAL_PRUNED || !trial_is_ended(t->state));
}

/* Adds forecasts of the trials that have not run to their final step. Other trials that have not
 * ended become pending. */
static void add_forecasts(struct bayes_observations *p, const struct trial_view *view)
{
    const struct sampler_objective *objective = &p->task->objectives[0];
    AUTO(curve_forecast) struct curve_forecast *f = NULL;
    for (size_t i = 0; i < view->count; i++) {
        const struct trial *t = view->trials[i];
        double mean = 0, sd = 0;
        if ((trial_is_ended(t->state) && !needs_forecast(t)) || !locate_trial(p, t))
            continue;
        if (needs_forecast(t) && !f)
            f = curve_forecast_new(p->task->max_iter, objective->maximize, objective->last, view);
        if (needs_forecast(t) && curve_forecast_trial(f, t, &mean, &sd) && isfinite(mean) &&
            isfinite(sd * sd) &&
            sampler_values(p->task->objectives, p->task->objective_count, t, p->one.y)) {
            p->one.y[0] = objective->maximize ? -mean : mean;
            add(p, t->id, sd * sd);
        } else if (!trial_is_ended(t->state)) {
            append_row(&p->pending, &p->pending_cap, p->pending_count++, p->one.u, p->space->dims);
        }
    }
}

struct bayes_observations *bayes_observations_new(const struct sampler_task *task,
                                                  const struct bayes_features *space, size_t first)
{
    struct bayes_observations *p = xzalloc(sizeof *p);
    p->task = task;
    p->space = space;
    p->lists = task->objective_count + (task->outcomes ? task->outcomes->count : 0);
    p->data = xcalloc(p->lists, sizeof *p->data);
    p->one.u = xcalloc(space->dims + space->shape.cols + task->objective_count, sizeof *p->one.u);
    p->one.x = p->one.u + space->dims;
    p->one.y = p->one.x + space->shape.cols;
    for (size_t i = 0; i < json_array_size(task->warm_start); i++)
        add_warm_start(p, json_array_get(task->warm_start, i));
    p->first = first > p->certain ? first - p->certain : 0;
    return p;
}

void bayes_observations_update(struct bayes_observations *p, const struct trial_view *view)
{
    for (size_t g = 0; g < p->task->objective_count; g++)
        p->data[g].n = p->certain;
    p->pending_count = 0;
    add_ends(p, view);
    add_forecasts(p, view);
}

static bool is_better(const struct bayes_observations *p, const double *y, size_t a, size_t b)
{
    return p->feasible[a] != p->feasible[b] ? p->feasible[a] : y[a] < y[b];
}

size_t bayes_observations_best(const struct bayes_observations *p, size_t objective, size_t most,
                               size_t *out)
{
    const struct bayes_data *d = &p->data[objective];
    size_t n = 0;
    for (size_t i = 0; i < (p->certain ? p->certain : d->n); i++) {
        if (n == most && !is_better(p, d->y, i, out[n - 1]))
            continue;
        size_t at = n < most ? n++ : n - 1;
        for (; at > 0 && is_better(p, d->y, i, out[at - 1]); at--)
            out[at] = out[at - 1];
        out[at] = i;
    }
    return n;
}

bool bayes_observations_at(const struct bayes_observations *p, const double *u)
{
    size_t dims = p->space->dims;
    for (size_t i = 0; i < p->data[0].n; i++) {
        double most = 0;
        for (size_t k = 0; k < dims && most < side_by_side; k++)
            most = fmax(most, fabs(u[k] - p->u[i * dims + k]));
        if (most < side_by_side)
            return true;
    }
    return false;
}
