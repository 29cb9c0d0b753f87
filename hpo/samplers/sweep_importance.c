#include "hpo/samplers/sweep_importance.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <string.h>

#include "common/rng.h"
#include "hpo/model/sobol.h"
#include "hpo/samplers/bayes_features.h"
#include "hpo/samplers/bayes_model.h"
#include "hpo/samplers/bayes_plateau.h"
#include "hpo/space/distribution.h"

enum { TRIALS_MAX = 300, POINTS = 512, POINTS_MANY = 256, DIMS_FEW = 8, PAIRS_MIN = 10 };
static const double part = 0.63;
/* These make an interval. They were chosen on the functions of
 * docs/search.md, which says how often it is right. */
static const double widen = 2, margin = 0.01; /* the margin is the error of the estimator */

struct design { /* points of the space at which the model is asked */
    const struct bayes_features *space;
    size_t dims, count;
    /* (2 + dims) blocks of `count` points: A, B, and for each parameter A with B's value of it.
     * `all` is their number. */
    size_t all;
    double *u, *x; /* rows of dims; the columns of the model */
    bool *allowed; /* the constraints allow the point */
};

static void design_set(struct design *d)
{
    size_t dims = d->dims, n = d->count;
    AUTO(free) double *row = xcalloc(2 * dims, sizeof *row);
    for (size_t i = 0; i < n; i++) {
        sobol_point(1, i, 2 * dims, row);
        for (size_t block = 0; block < 2 + dims; block++) {
            size_t at = block * n + i;
            double *u = d->u + at * dims;
            memcpy(u, row + (block == 1 ? dims : 0), dims * sizeof *u);
            if (block >= 2)
                u[block - 2] = row[dims + block - 2];
            d->allowed[at] = space_allows(d->space->space, u);
            bayes_features_columns(d->space, u, true, d->x + at, d->all);
        }
    }
}

/* ---- the model ------------------------------------------------------------------------------ */

struct learnt {
    struct bayes_model *model;
    const struct bayes_data *data;
    double unit, least, most; /* the largest absolute value; the limits in this unit */
};

/* Predicts the values at the points of the design, with the trials `rows` alone. Returns false if
 * their covariance cannot be factored. */
static bool ask(const struct learnt *l, const struct design *d, const size_t *rows, size_t count,
                double *f)
{
    const struct bayes_model *m = l->model;
    size_t cols = m->shape->cols;
    AUTO(gp) struct gp *g = gp_new(m->shape, m->params[m->kind]);
    AUTO(free) double *x = xcalloc(count, (cols + 1) * sizeof *x);
    double *z = x + count * cols;
    struct err e = {0};
    for (size_t i = 0; i < count; i++) {
        for (size_t c = 0; c < cols; c++)
            x[c * count + i] = l->data->x[c * l->data->cap + rows[i]];
        z[i] = output_transform_value(&m->transform, l->data->y[rows[i]]);
    }
    if (gp_add(g, &(struct kernel_points){x, count, count}, NULL, &e) < 0)
        return false;
    gp_targets(g, z);
    gp_predict(g, &(struct kernel_points){d->x, d->all, d->all}, f, NULL, NULL, NULL);
    for (size_t i = 0; i < d->all; i++) {
        double y = output_transform_inverse(&m->transform, f[i]) / l->unit;
        f[i] = (fmin(fmax(y, l->least), l->most) - l->least) / (l->most - l->least);
    }
    return true;
}

/* ---- shares --------------------------------------------------------------------------------- */

/* Returns the value below which a share of the allowed points of A lies. */
static double quantile(const struct design *d, const double *f, double share)
{
    AUTO(free) double *sorted = xcalloc(d->count + 1, sizeof *sorted);
    size_t n = 0;
    for (size_t i = 0; i < d->count; i++)
        if (d->allowed[i])
            sorted[n++] = f[i];
    gsl_sort(sorted, 1, n);
    return n ? sorted[(size_t)(share * (double)(n - 1))] : 0;
}

static double variance(const struct design *d, const double *f)
{
    double sum = 0, square = 0, n = 0;
    for (size_t i = 0; i < 2 * d->count; i++)
        if (d->allowed[i]) {
            sum += f[i];
            square += f[i] * f[i];
            n++;
        }
    return n > 0 ? fmax(square / n - sum / n * (sum / n), 0) : 0;
}

/* Returns half of the mean square of the differences between a block and the block of parameter k,
 * over pairs of allowed points whose values are both at most `most`. Returns 0 if there are fewer
 * than `pairs_min` pairs. */
static double half_square(const struct design *d, const double *f, size_t block, size_t k,
                          double most, double pairs_min)
{
    double sum = 0, n = 0;
    for (size_t i = 0; i < d->count; i++) {
        size_t a = block * d->count + i, b = (2 + k) * d->count + i;
        if (!d->allowed[a] || !d->allowed[b] || f[a] > most || f[b] > most)
            continue;
        sum += (f[a] - f[b]) * (f[a] - f[b]);
        n++;
    }
    return n >= pairs_min && n > 0 ? sum / (2 * n) : 0;
}

static void totals(const struct design *d, const double *f, double *total)
{
    double all = variance(d, f);
    for (size_t k = 0; k < d->dims; k++)
        total[k] = all > 0 ? fmin(half_square(d, f, 0, k, INFINITY, 1) / all, 1) : 0;
}

/* Sets the range of parameter k in the best twentieth of the space. */
static void set_range(const struct design *d, const double *f, size_t k,
                      struct sweep_importance *out)
{
    AUTO(free) double *at = xcalloc(d->count + 1, sizeof *at);
    double most = quantile(d, f, 0.05);
    size_t n = 0;
    for (size_t i = 0; i < d->count; i++)
        if (d->allowed[i] && f[i] <= most)
            at[n++] = d->u[i * d->dims + k];
    gsl_sort(at, 1, n);
    out->from = n ? at[n / 10] : 0;
    out->to = n ? at[n - 1 - n / 10] : 1;
    const struct distribution *of = space_distribution(d->space->space, k);
    size_t most_of_one = 0;
    for (size_t i = 0, first = 0; of->kind == DISTRIBUTION_CATEGORICAL && i < n; i++) {
        if (distribution_index(of, at[i]) != distribution_index(of, at[first]))
            first = i;
        if (i - first + 1 > most_of_one) {
            most_of_one = i - first + 1;
            out->from = out->to = at[i];
        }
    }
}

/* Returns the correlation of parameter k and the value over the allowed points of A. */
static double trend(const struct design *d, const double *f, size_t k)
{
    AUTO(free) double *u = xcalloc(2 * d->count, sizeof *u);
    double *v = u + d->count;
    size_t n = 0;
    for (size_t i = 0; i < d->count; i++)
        if (d->allowed[i]) {
            u[n] = d->u[i * d->dims + k];
            v[n++] = f[i];
        }
    double r = n > 1 ? gsl_stats_correlation(u, 1, v, 1, n) : 0;
    return isfinite(r) ? r : 0;
}

static void set_shares(const struct design *d, const double *f, struct sweep_importance *out)
{
    double all = variance(d, f), good = quantile(d, f, 0.2), sum = 0;
    AUTO(free) double *total = xcalloc(d->dims, sizeof *total);
    totals(d, f, total);
    for (size_t k = 0; k < d->dims; k++) {
        double rest = half_square(d, f, 1, k, INFINITY, 1);
        out[k].total = out[k].low = out[k].high = total[k];
        out[k].first = all > 0 ? fmin(fmax(1 - rest / all, 0), total[k]) : 0;
        out[k].region = half_square(d, f, 0, k, good, PAIRS_MIN);
        sum += out[k].region;
        set_range(d, f, k, &out[k]);
        if (space_distribution(d->space->space, k)->kind != DISTRIBUTION_CATEGORICAL)
            out[k].trend = trend(d, f, k);
    }
    for (size_t k = 0; k < d->dims; k++)
        out[k].region = sum > 0 ? out[k].region / sum : 0;
}

/* Sets low and high from predictions with parts of the trials. */
static void set_intervals(const struct learnt *l, const struct design *d, size_t resamples,
                          struct sweep_importance *out)
{
    size_t n = l->data->n, done = 0;
    AUTO(free) size_t *rows = xcalloc(n, sizeof *rows);
    AUTO(free) double *f = xcalloc(d->all, sizeof *f);
    AUTO(free) double *shares = xcalloc(resamples + 1, (d->dims + 1) * sizeof *shares);
    double *column = shares + resamples * d->dims;
    struct rng r;
    rng_seed(&r, 0, 0);
    for (size_t b = 0; b < resamples; b++) {
        size_t count = 0;
        for (size_t i = 0; i < n; i++)
            if (rng_unit(&r) < part)
                rows[count++] = i;
        if (count > 1 && ask(l, d, rows, count, f))
            totals(d, f, shares + done++ * d->dims);
    }
    for (size_t k = 0; done > 0 && k < d->dims; k++) {
        for (size_t b = 0; b < done; b++)
            column[b] = shares[b * d->dims + k];
        gsl_sort(column, 1, done);
        double low = fmin(column[done / 20] - out[k].total, 0),
               high = fmax(column[done - 1 - done / 20] - out[k].total, 0);
        out[k].low = fmax(out[k].total + widen * low - margin, 0);
        out[k].high = fmin(out[k].total + widen * high + margin, 1);
    }
}

static bool compute(const struct bayes_features *space, const struct bayes_data *data,
                    size_t resamples, struct sweep_importance *out)
{
    AUTO(bayes_model) struct bayes_model *m = bayes_model_new(&space->shape);
    if (!bayes_model_update(m, data, data->n))
        return false;
    enum bayes_plateau p = bayes_plateau(data->y, data->n, m->skill);
    if (p == BAYES_PLATEAU_EQUAL || p == BAYES_PLATEAU_NOISE)
        return true;
    struct learnt l = {m, data, 0, data->y[0], data->y[0]};
    AUTO(free) size_t *rows = xcalloc(data->n, sizeof *rows);
    for (size_t i = 0; i < data->n; i++) {
        rows[i] = i;
        l.least = fmin(l.least, data->y[i]);
        l.most = fmax(l.most, data->y[i]);
    }
    l.unit = fmax(fabs(l.least), fabs(l.most)); /* > 0, since the values are not equal */
    l.least /= l.unit;
    l.most /= l.unit;
    struct design d = {.space = space, .dims = space->dims};
    d.count = d.dims > DIMS_FEW ? POINTS_MANY : POINTS;
    d.all = (2 + d.dims) * d.count;
    AUTO(free) double *u = xcalloc(d.all, (d.dims + space->shape.cols + 1) * sizeof *u);
    AUTO(free) bool *allowed = xcalloc(d.all, sizeof *allowed);
    d.u = u;
    d.x = u + d.all * d.dims;
    d.allowed = allowed;
    double *f = d.x + d.all * space->shape.cols;
    design_set(&d);
    if (!ask(&l, &d, rows, data->n, f))
        return false;
    set_shares(&d, f, out);
    set_intervals(&l, &d, resamples, out);
    return true;
}

bool sweep_importance(const struct space *space, const double *u, const double *y, size_t n,
                      size_t resamples, struct sweep_importance *out)
{
    size_t dims = space_dims(space), used = n < TRIALS_MAX ? n : TRIALS_MAX;
    for (size_t k = 0; k < dims; k++)
        out[k] = (struct sweep_importance){.to = 1};
    if (dims == 0 || n < 2)
        return false;
    AUTO(bayes_features) struct bayes_features *features = bayes_features_new(space);
    AUTO(free) double *x = xcalloc(features->shape.cols, sizeof *x);
    struct bayes_data data = {0};
    for (size_t i = 0; i < used; i++) {
        size_t from = i * n / used;
        bayes_features_columns(features, u + from * dims, true, x, 1);
        bayes_model_data_add(&data, features->shape.cols, x, y[from], 0);
    }
    bool ok = compute(features, &data, resamples, out);
    bayes_model_data_free(&data);
    return ok;
}
