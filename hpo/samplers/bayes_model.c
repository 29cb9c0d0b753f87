#include "hpo/samplers/bayes_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "hpo/model/gp_fit.h"

enum {
    FRESH_MAX = 60,   /* up to this many observations, each fit also starts from the prior's mode */
    FIT_FEW = 120,    /* observations used to choose the hyperparameters and the output transform */
    FIT_MANY = 400,   /* observations used to refine the chosen hyperparameters */
    MODEL_MAX = 1000, /* observations in the posterior when it is built */
    EVALS_FIRST = 60, /* evaluations of the density from the prior's mode */
    EVALS_NEXT = 25,  /* … from the hyperparameters of the last fit */
    EVALS_FINE = 15,  /* … to refine hyperparameters */
    PARAM_MAX = 100,  /* largest absolute value of a hyperparameter, which is a logarithm */
    LOG_MAX = 30,     /* observations up to which OUTPUT_TRANSFORM_LOG is tried; with more, it would
                         only see one basin */
};

/* The evidence of OUTPUT_TRANSFORM_LOG must exceed that of the other transforms by this much. Its
 * knee is the smallest value, and thus depends on few observations. */
static const double LOG_MARGIN = 1;

/* ---- observations --------------------------------------------------------------------------- */

size_t bayes_model_data_add(struct bayes_data *d, size_t cols, const double *x, double y,
                            double var)
{
    if (d->n == d->cap) {
        size_t cap = d->cap ? 2 * d->cap : 64;
        double *wider = xcalloc(cols * cap, sizeof *wider);
        for (size_t c = 0; d->n && c < cols; c++)
            memcpy(wider + c * cap, d->x + c * d->cap, d->n * sizeof *wider);
        free(d->x);
        d->x = wider;
        d->y = xrealloc(d->y, cap, sizeof *d->y);
        d->var = xrealloc(d->var, cap, sizeof *d->var);
        d->cap = cap;
    }
    for (size_t c = 0; c < cols; c++)
        d->x[c * d->cap + d->n] = x[c];
    d->y[d->n] = y;
    d->var[d->n] = var;
    return d->n++;
}

void bayes_model_data_free(struct bayes_data *d)
{
    free(d->x);
    free(d->y);
    free(d->var);
    *d = (struct bayes_data){0};
}

struct chosen { /* an observation in bayes_model_data_choose() */
    double y;
    size_t i;
    bool taken;
};

static int by_value(const void *a, const void *b)
{
    const struct chosen *x = a, *y = b;
    return x->y < y->y ? -1 : x->y > y->y ? 1 : x->i < y->i ? -1 : 1;
}

static int by_number(const void *a, const void *b)
{
    const struct chosen *x = a, *y = b;
    return x->i < y->i ? -1 : 1;
}

size_t bayes_model_data_choose(const struct bayes_data *d, size_t n, size_t most, size_t *out)
{
    AUTO(free) struct chosen *all = xcalloc(n, sizeof *all);
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        all[i] = (struct chosen){d->y[i], i, n <= most || i + most / 3 >= n};
    qsort(all, n, sizeof *all, by_value);
    for (size_t i = 0; i < n; i++) {
        all[i].taken = all[i].taken || i < most / 3;
        count += all[i].taken;
    }
    size_t rest = n - count, want = n <= most ? 0 : most - count, seen = 0;
    for (size_t i = 0; i < n; i++)
        if (!all[i].taken && want > 0) {
            all[i].taken = seen * want / rest != (seen + 1) * want / rest;
            seen++;
        }
    qsort(all, n, sizeof *all, by_number);
    count = 0;
    for (size_t i = 0; i < n; i++)
        if (all[i].taken)
            out[count++] = i;
    return count;
}

struct bayes_data bayes_model_data_few(const struct bayes_data *d, size_t cols, size_t n,
                                       size_t most, size_t *rows)
{
    size_t count = bayes_model_data_choose(d, n, most, rows);
    struct bayes_data few = {.n = count, .cap = count};
    few.x = xcalloc(cols, count * sizeof *few.x);
    few.y = xcalloc(count, sizeof *few.y);
    few.var = xcalloc(count, sizeof *few.var);
    for (size_t i = 0; i < count; i++) {
        for (size_t c = 0; c < cols; c++)
            few.x[c * count + i] = d->x[c * d->cap + rows[i]];
        few.y[i] = d->y[rows[i]];
        few.var[i] = d->var[rows[i]];
    }
    return few;
}

/* Returns the variance of the transformed value of observation i. */
static double transformed_var(const struct output_transform *w, const struct bayes_data *d,
                              size_t i)
{
    double slope = output_transform_slope(w, d->y[i]);
    return d->var[i] > 0 ? d->var[i] * slope * slope : 0;
}

/* ---- fitting -------------------------------------------------------------------------------- */

static size_t param_count(const struct bayes_model *m)
{
    return gp_params(m->shape);
}

struct fitting { /* how to fit hyperparameters for one output transform to chosen observations */
    enum output_transform_kind kind;
    struct bayes_data few; /* the chosen observations */
    bool fresh;            /* also start from the prior's mode */
    int evals;             /* evaluations from m->params; 0: do not start there */
};

/* Writes the most probable hyperparameters to m->params. Returns the logarithm of their density
 * over y, or -INFINITY if the output transform cannot be fitted. */
static double fit_transform(struct bayes_model *m, const struct bayes_data *d,
                            const struct fitting *how)
{
    const struct bayes_data *few = &how->few;
    struct output_transform w;
    output_transform_fit(&w, how->kind, d->y, d->n);
    if (w.kind != how->kind)
        return -INFINITY;
    AUTO(free) double *z = xcalloc(few->n, 2 * sizeof *z);
    double *var = z + few->n;
    for (size_t i = 0; i < few->n; i++) {
        z[i] = output_transform_value(&w, few->y[i]);
        var[i] = transformed_var(&w, few, i);
    }
    struct gp_data data = {m->shape, {few->x, few->n, few->cap}, z, var};
    AUTO(gp_fit) struct gp_fit *f = gp_fit_new(&data);
    AUTO(free) double *fresh = xcalloc(param_count(m), sizeof *fresh);
    double density = how->evals ? gp_fit_climb(f, m->params[how->kind], how->evals) : -INFINITY;
    if (how->fresh) {
        gp_fit_prior(m->shape, fresh);
        double other = gp_fit_climb(f, fresh, EVALS_FIRST);
        if (other > density || !how->evals) {
            density = other;
            memcpy(m->params[how->kind], fresh, param_count(m) * sizeof *fresh);
        }
    }
    for (size_t i = 0; i < few->n; i++)
        density += log(output_transform_slope(&w, few->y[i]));
    return density;
}

/* Returns gp_skill() of the chosen observations `few` of `d`. */
static double skill(const struct bayes_model *m, const struct bayes_data *d,
                    const struct bayes_data *few)
{
    AUTO(gp) struct gp *g = gp_new(m->shape, m->params[m->kind]);
    AUTO(free) double *z = xcalloc(few->n, 2 * sizeof *z);
    double *var = z + few->n;
    struct output_transform w;
    struct err e = {0};
    output_transform_fit(&w, m->kind, d->y, d->n);
    for (size_t i = 0; i < few->n; i++) {
        z[i] = output_transform_value(&w, few->y[i]);
        var[i] = transformed_var(&w, few, i);
    }
    if (gp_add(g, &(struct kernel_points){few->x, few->n, few->cap}, var, &e) < 0)
        return 0;
    gp_targets(g, z);
    return gp_skill(g, z);
}

/* Chooses the output transform and rough hyperparameters with few observations, and refines the
 * hyperparameters with more. */
static void fit(struct bayes_model *m, const struct bayes_data *d)
{
    AUTO(free) size_t *rows = xcalloc(d->n, sizeof *rows);
    struct fitting how = {.evals = m->fitted ? EVALS_NEXT : 0};
    how.few = bayes_model_data_few(d, m->shape->cols, d->n, FIT_FEW, rows);
    how.fresh = d->n <= FRESH_MAX || !m->fitted;
    double best = -INFINITY;
    enum output_transform_kind chosen = OUTPUT_TRANSFORM_NONE;
    for (int kind = 0; kind < OUTPUT_TRANSFORM_KINDS; kind++) {
        if (kind == OUTPUT_TRANSFORM_LOG && d->n > LOG_MAX)
            continue;
        how.kind = (enum output_transform_kind)kind;
        double density =
            fit_transform(m, d, &how) - (kind == OUTPUT_TRANSFORM_LOG ? LOG_MARGIN : 0);
        if (density > best) {
            best = density;
            chosen = how.kind;
        }
    }
    m->kind = chosen;
    m->skill = skill(m, d, &how.few);
    bayes_model_data_free(&how.few);
    if (d->n > FIT_FEW) {
        how = (struct fitting){.kind = chosen, .evals = EVALS_FINE};
        how.few = bayes_model_data_few(d, m->shape->cols, d->n, FIT_MANY, rows);
        fit_transform(m, d, &how);
        bayes_model_data_free(&how.few);
    }
    m->fitted = d->n;
    m->surprised = false;
    m->unsaved = true;
    gp_free(m->gp);
    m->gp = NULL;
}

/* Returns true if the hyperparameters are outdated. If there are few observations, each new one
 * makes a fit due. */
static bool is_fit_due(const struct bayes_model *m, size_t n)
{
    size_t grown = n > m->fitted ? n - m->fitted : 0;
    return m->fitted == 0 ||
           (grown > 0 && grown >= (m->surprised ? m->fitted / 50 : m->fitted / 20));
}

/* ---- the posterior -------------------------------------------------------------------------- */

static void set_targets(struct bayes_model *m, const struct bayes_data *d, size_t n)
{
    output_transform_fit(&m->transform, m->kind, d->y, n);
    if (m->row_count > m->row_cap) {
        m->row_cap = 2 * m->row_count;
        m->targets = xrealloc(m->targets, m->row_cap, sizeof *m->targets);
    }
    for (size_t i = 0; i < m->row_count; i++)
        m->targets[i] = output_transform_value(&m->transform, d->y[m->rows[i]]);
    gp_targets(m->gp, m->targets);
}

/* Builds the posterior of the first n observations, or of MODEL_MAX of them. Returns false if their
 * covariance cannot be factored. */
static bool build(struct bayes_model *m, const struct bayes_data *d, size_t n)
{
    struct err e = {0};
    gp_free(m->gp);
    m->gp = gp_new(m->shape, m->params[m->kind]);
    m->rows = xrealloc(m->rows, n + 1, sizeof *m->rows);
    struct bayes_data few = bayes_model_data_few(d, m->shape->cols, n, MODEL_MAX, m->rows);
    m->row_count = few.n;
    output_transform_fit(&m->transform, m->kind, d->y, n);
    for (size_t i = 0; i < few.n; i++)
        few.var[i] = transformed_var(&m->transform, &few, i);
    int rc = gp_add(m->gp, &(struct kernel_points){few.x, few.n, few.cap}, few.var, &e);
    bayes_model_data_free(&few);
    m->taken = n;
    if (rc == 0)
        set_targets(m, d, n);
    return rc == 0;
}

/* Adds the next observation to the posterior, and records if it was far from its prediction.
 * Returns false if the covariance cannot be factored. */
static bool add_next(struct bayes_model *m, const struct bayes_data *d)
{
    size_t i = m->taken;
    struct err e = {0};
    struct kernel_points at = {d->x + i, 1, d->cap};
    double mean = 0, var = 0, noise = transformed_var(&m->transform, d, i);
    gp_predict(m->gp, &at, &mean, &var, NULL, NULL);
    double off = output_transform_value(&m->transform, d->y[i]) - mean;
    if (off * off > 9 * (var + noise + m->gp->noise))
        m->surprised = true;
    if (gp_add(m->gp, &at, &noise, &e) < 0)
        return false;
    m->rows = xrealloc(m->rows, m->row_count + 1, sizeof *m->rows);
    m->rows[m->row_count++] = i;
    m->taken++;
    set_targets(m, d, m->taken);
    return true;
}

bool bayes_model_update(struct bayes_model *m, const struct bayes_data *d, size_t certain)
{
    size_t known = m->fitted < d->n ? m->fitted : d->n;
    if (certain < d->n) { /* forecasts change from call to call, so the posterior is built again */
        m->surprised = false;
        if (is_fit_due(m, d->n))
            fit(m, d);
        bool ok = build(m, d, d->n);
        m->grows = false;
        return ok;
    }
    for (int again = 0; again < 2; again++) { /* a fit at the end of a pass needs a second pass */
        bool ok = known > 0 && ((m->gp && m->grows && m->taken >= known) || build(m, d, known));
        m->grows = true;
        while (ok && m->taken < d->n)
            ok = add_next(m, d);
        if (ok && !is_fit_due(m, d->n))
            return true;
        fit(m, d);
        known = d->n;
    }
    return build(m, d, d->n);
}

/* ---- creation and model state --------------------------------------------------------------- */

struct bayes_model *bayes_model_new(const struct kernel_shape *shape)
{
    struct bayes_model *m = xzalloc(sizeof *m);
    m->shape = shape;
    for (int kind = 0; kind < OUTPUT_TRANSFORM_KINDS; kind++)
        m->params[kind] = xcalloc(param_count(m), sizeof **m->params);
    return m;
}

struct bayes_model *bayes_model_copy(const struct bayes_model *m)
{
    struct bayes_model *copy = bayes_model_new(m->shape);
    copy->fitted = m->fitted;
    copy->kind = m->kind;
    copy->skill = m->skill;
    for (int kind = 0; kind < OUTPUT_TRANSFORM_KINDS; kind++)
        memcpy(copy->params[kind], m->params[kind], param_count(m) * sizeof **m->params);
    return copy;
}

void bayes_model_free(struct bayes_model *m)
{
    if (!m)
        return;
    for (int kind = 0; kind < OUTPUT_TRANSFORM_KINDS; kind++)
        free(m->params[kind]);
    gp_free(m->gp);
    free(m->rows);
    free(m->targets);
    free(m);
}

json_t *bayes_model_save(struct bayes_model *m)
{
    if (m->fitted == 0)
        return NULL;
    m->unsaved = false;
    json_t *lists = json_array();
    for (int kind = 0; kind < OUTPUT_TRANSFORM_KINDS; kind++) {
        json_t *list = json_array();
        for (size_t i = 0; i < param_count(m); i++)
            json_array_append_new(list, json_real(m->params[kind][i]));
        json_array_append_new(lists, list);
    }
    return json_pack("{s:I, s:i, s:f, s:o}", "n", (json_int_t)m->fitted, "warp", (int)m->kind,
                     "skill", m->skill, "params", lists);
}

bool bayes_model_restore(struct bayes_model *m, const json_t *model_state)
{
    const json_t *lists = json_object_get(model_state, "params");
    json_int_t n = json_integer_value(json_object_get(model_state, "n"));
    json_int_t kind = json_integer_value(json_object_get(model_state, "warp"));
    if (n <= 0 || kind < 0 || kind >= OUTPUT_TRANSFORM_KINDS ||
        json_array_size(lists) != OUTPUT_TRANSFORM_KINDS)
        return false;
    for (size_t k = 0; k < OUTPUT_TRANSFORM_KINDS; k++)
        if (json_array_size(json_array_get(lists, k)) != param_count(m))
            return false;
    for (size_t k = 0; k < OUTPUT_TRANSFORM_KINDS; k++)
        for (size_t i = 0; i < param_count(m); i++) {
            const json_t *value = json_array_get(json_array_get(lists, k), i);
            if (!json_is_number(value) || !(fabs(json_number_value(value)) <= PARAM_MAX))
                return false;
        }
    for (size_t k = 0; k < OUTPUT_TRANSFORM_KINDS; k++)
        for (size_t i = 0; i < param_count(m); i++)
            m->params[k][i] = json_number_value(json_array_get(json_array_get(lists, k), i));
    const json_t *skill = json_object_get(model_state, "skill");
    m->skill = json_is_number(skill) ? json_number_value(skill) : 1; /* older states have none */
    m->fitted = (size_t)n;
    m->kind = (enum output_transform_kind)kind;
    gp_free(m->gp);
    m->gp = NULL;
    return true;
}
