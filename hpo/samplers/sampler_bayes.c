/* sampler_bayes - Bayesian optimisation with a Gaussian process.
 *
 * docs/search.md describes the method, and the measured effect of each choice. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "hpo/model/pareto.h"
#include "hpo/model/sobol.h"
#include "hpo/samplers/bayes_acquisition.h"
#include "hpo/samplers/bayes_features.h"
#include "hpo/samplers/bayes_model.h"
#include "hpo/samplers/bayes_observations.h"
#include "hpo/samplers/bayes_plateau.h"
#include "hpo/samplers/sampler_internal.h"

enum {
    FIRST_TRIALS = 8,     /* trials that only fill the space */
    ENUMERATE_MAX = 2048, /* a space of up to this many points is evaluated completely; a larger one
                             is searched */
    PENDING_MAX = 256,
    BEST_POINTS = 3, /* best observed points that the search starts from */
    CANDIDATES = 16, /* points that the search returns */
    CHANCE_MIN = 6,
    OUTCOMES_MAX = 300, /* ends of trials that the model of failures learns from */
    SHOWN_MAX = 400,    /* observations of the model that predict() shows */
    EXPLORED = 16,      /* points that exploring examines per trial, on average */
    BATCH = 256,        /* points per call of gp_predict(), which needs memory for each */
};
/* If ln EI is below `settled`, no gain is expected; the model's deviations are then multiplied by
 * `doubt`. */
static const double settled = -8, doubt = 5;
/* The accepted probability that a trial fails. It is halved for each failure that the model could
 * have foreseen. */
static const double risk = 0.1;
/* If the variance of the noise, relative to the variance of all values, is at least this, the trial
 * with the best value is not recommended; the model's mean decides. */
static const double noise_min = 1e-3;
/* The value that is assumed for a running trial is this many standard deviations above the mean. */
static const double pessimism = 0.25;
/* If a larger share of the trials that the model chose fails, trials fail by chance. */
static const double chance_rate = 0.1;

struct bayes {
    const struct sampler *sampler; /* gives the task and the tried points */
    struct sampler *space_filling; /* proposes points before there is a model */
    struct bayes_features *space;  /* NULL: no parameter varies */
    struct bayes_observations *observations;
    struct bayes_model **models; /* one per objective, then one per outcome constraint */
};

static size_t objective_count(const struct bayes *b)
{
    return b->sampler->task.objective_count;
}

static size_t model_count(const struct bayes *b)
{
    return b->space ? b->observations->lists : 0;
}

/* Returns the number of observations that fill the space, which is at least one batch. */
static size_t first_trials(const struct sampler *s)
{
    return s->task.batch > FIRST_TRIALS ? (size_t)s->task.batch : FIRST_TRIALS;
}

static void *state_new(const struct sampler *s)
{
    struct bayes *b = xzalloc(sizeof *b);
    b->sampler = s;
    b->space_filling = sampler_new(&sampler_sobol, &s->task);
    if (space_dims(s->task.space) == 0)
        return b;
    b->space = bayes_features_new(s->task.space);
    b->observations = bayes_observations_new(&s->task, b->space, first_trials(s));
    b->models = xcalloc(model_count(b), sizeof *b->models);
    for (size_t g = 0; g < model_count(b); g++)
        b->models[g] = bayes_model_new(&b->space->shape);
    return b;
}

static void state_free(void *state)
{
    struct bayes *b = state;
    sampler_free(b->space_filling);
    for (size_t g = 0; g < model_count(b); g++)
        bayes_model_free(b->models[g]);
    free(b->models);
    bayes_observations_free(b->observations);
    bayes_features_free(b->space);
    free(b);
}

/* ---- fantasies ------------------------------------------------------------------------------ */

/* Returns the number of running trials that get a fantasy. These are the newest ones, at most
 * PENDING_MAX. */
static size_t fantasy_count(const struct bayes *b)
{
    return b->observations->pending_count < PENDING_MAX ? b->observations->pending_count
                                                        : PENDING_MAX;
}

/* Assumes for each running trial a value slightly above the model's mean, and adds it to the model.
 * Writes the values to value[0 … fantasy_count() - 1]. This was the best of the rules that were
 * tried for batches (docs/search.md). */
static void add_fantasies(const struct bayes *b, struct bayes_model *m, double *value)
{
    struct gp *g = m->gp;
    size_t cols = b->space->shape.cols, own = g->n, count = fantasy_count(b);
    const double *u =
        b->observations->pending + (b->observations->pending_count - count) * b->space->dims;
    AUTO(free) double *targets = xcalloc(own + count + cols, sizeof *targets);
    double *x = targets + own + count;
    memcpy(targets, m->targets, own * sizeof *targets);
    for (size_t i = 0; i < count; i++) {
        struct kernel_points at = {x, 1, 1};
        struct err e = {0};
        double var = 0;
        bayes_features_columns(b->space, u + i * b->space->dims, true, x, 1);
        gp_predict(g, &at, &value[i], &var, NULL, NULL);
        value[i] += pessimism * sqrt(var);
        targets[g->n] = value[i];
        if (gp_add(g, &at, NULL, &e) == 0)
            gp_targets(g, targets);
    }
}

/* ---- the acquisition function --------------------------------------------------------------- */

struct acquisition { /* a target, and the objects that it borrows */
    struct bayes_acquisition_target target;
    struct bayes_model *used[2 + OUTCOME_MAX];
    size_t counts[2 + OUTCOME_MAX];  /* number of observations of each model, without fantasies */
    double *values[2 + OUTCOME_MAX]; /* the fantasies of each model */
    size_t used_count;
    double *front;
};

static void acquisition_release(struct acquisition *a)
{
    for (size_t i = 0; i < a->used_count; i++) {
        free(a->values[i]);
        gp_cut(a->used[i]->gp, a->counts[i]);
        gp_targets(a->used[i]->gp, a->used[i]->targets);
    }
    free(a->front);
    gp_classifier_free(a->target.success);
}

/* Updates a model and adds the fantasies. Returns its posterior, or NULL if there is no model. It
 * is the next one in the arrays of `a`. */
static struct gp *model_prepare(struct bayes *b, struct acquisition *a, size_t model)
{
    struct bayes_model *m = b->models[model];
    const struct bayes_data *d = &b->observations->data[model];
    if (!bayes_model_update(m, d, model < objective_count(b) ? b->observations->certain : d->n))
        return NULL;
    size_t which = a->used_count++;
    a->used[which] = m;
    a->counts[which] = m->gp->n;
    a->values[which] = xcalloc(fantasy_count(b) + 1, sizeof *a->values[which]);
    add_fantasies(b, m, a->values[which]);
    return m->gp;
}

static double transformed(const struct bayes *b, size_t objective, size_t i)
{
    return output_transform_value(&b->models[objective]->transform,
                                  b->observations->data[objective].y[i]);
}

/* Returns true if the bounds hold for fantasy i. The bounds' models are the last ones of `a`. */
static bool fantasy_feasible(const struct acquisition *a, size_t i)
{
    size_t first = a->used_count - a->target.bound_count;
    for (size_t k = 0; k < a->target.bound_count; k++) {
        double value = a->values[first + k][i];
        if (value < a->target.bounds[k].low || value > a->target.bounds[k].high)
            return false;
    }
    return true;
}

/* Sets the target's Pareto set and reference point for two objectives. The values are transformed;
 * the set includes fantasies, and only what is feasible. */
static void set_front(const struct bayes *b, struct acquisition *a, size_t first, size_t second)
{
    size_t n = b->observations->data[0].n, all = n + fantasy_count(b), count = 0;
    AUTO(free) double *y = xcalloc(2 * all, sizeof *y);
    AUTO(free) size_t *front = xcalloc(all, sizeof *front);
    for (size_t i = 0; i < n; i++) {
        y[2 * i] = transformed(b, first, i);
        y[2 * i + 1] = transformed(b, second, i);
    }
    pareto_reference(y, n, 2, a->target.ref);
    for (size_t i = 0; i < all; i++) {
        if (i < n ? !b->observations->feasible[i] : !fantasy_feasible(a, i - n))
            continue;
        for (size_t k = 0; k < 2; k++)
            y[2 * count + k] = i < n ? y[2 * i + k] : a->values[k][i - n];
        count++;
    }
    a->target.front_count = pareto_front(y, count, 2, front);
    a->front = xcalloc(2 * a->target.front_count + 1, sizeof *a->front);
    for (size_t i = 0; i < a->target.front_count; i++)
        memcpy(a->front + 2 * i, y + 2 * front[i], 2 * sizeof *y);
    a->target.front = a->front;
}

/* Returns the number of failures that the model could have foreseen: failures of trials that it
 * chose, without the first failure of the sweep. */
static double foreseeable_failures(const struct bayes_observations *p)
{
    return (double)(p->failures > p->late_failures ? p->late_failures : p->failures - 1);
}

/* Adds the model of failures to the target. */
static void learn_failures(const struct bayes *b, struct acquisition *a)
{
    const struct bayes_data *d = &b->observations->ends;
    AUTO(free) size_t *rows = xcalloc(d->n, sizeof *rows);
    size_t cols = b->space->shape.cols;
    struct bayes_data few = bayes_model_data_few(d, cols, d->n, OUTCOMES_MAX, rows);
    AUTO(free) bool *success = xcalloc(few.n, sizeof *success);
    for (size_t i = 0; i < few.n; i++)
        success[i] = few.y[i] > 0;
    a->target.success =
        gp_classifier_new(&(struct kernel_points){few.x, few.n, few.cap}, cols, success);
    bayes_model_data_free(&few);
    /* Failures that continue although the model avoids them are random: the parameters do not
     * cause them. */
    bool chance =
        b->observations->late_failures >= CHANCE_MIN &&
        (double)b->observations->late_failures > chance_rate * (double)b->observations->late_ends;
    a->target.success_min =
        chance ? -INFINITY : log1p(-risk * pow(0.5, foreseeable_failures(b->observations)));
}

/* Returns true if there are constraints and no observation is known to satisfy them. */
static bool seeks(const struct bayes *b)
{
    size_t best = 0;
    return model_count(b) > objective_count(b) &&
           (bayes_observations_best(b->observations, 0, 1, &best) == 0 ||
            !b->observations->feasible[best]);
}

/* Adds the outcome constraints to the target. A metric that no trial has reported has no model. */
static void add_bounds(struct bayes *b, struct acquisition *a)
{
    for (size_t g = objective_count(b); g < model_count(b); g++) {
        const struct outcome_bound *from = &b->sampler->task.outcomes->at[g - objective_count(b)];
        bool negated = isinf(from->max);
        double low = negated ? (double)-INFINITY : from->min,
               high = negated ? -from->min : from->max;
        struct gp *model = b->observations->data[g].n < 2 ? NULL : model_prepare(b, a, g);
        if (!model)
            continue;
        const struct output_transform *w = &b->models[g]->transform;
        a->target.bounds[a->target.bound_count++] = (struct bayes_acquisition_bound){
            model, isinf(low) ? low : output_transform_value(w, low),
            output_transform_value(w, high)};
    }
}

/* Prepares the target. Returns false if there is no model. */
static bool acquisition_prepare(struct bayes *b, const struct trial_view *view,
                                struct acquisition *a)
{
    size_t objectives = objective_count(b),
           turn = view->count % (objectives * (objectives - 1) / 2 + (objectives == 1));
    size_t first = 0, second = 1, best = 0;
    for (; turn > 0; turn--) { /* the pairs of objectives take turns */
        if (++second == objectives) {
            first++;
            second = first + 1;
        }
    }
    a->target.space = b->space;
    a->target.widen = 1;
    a->target.seek = seeks(b);
    a->target.value = model_prepare(b, a, first);
    if (!a->target.value)
        return false;
    if (objectives > 1) {
        a->target.second = model_prepare(b, a, second);
        if (!a->target.second)
            return false;
    }
    add_bounds(b, a);
    bayes_observations_best(b->observations, first, 1, &best);
    a->target.best = transformed(b, first, best);
    for (size_t i = 0; i < fantasy_count(b); i++)
        if (fantasy_feasible(a, i))
            a->target.best = fmin(a->target.best, a->values[0][i]);
    if (objectives > 1)
        set_front(b, a, first, second);
    if (b->observations->failures > 0)
        learn_failures(b, a);
    return true;
}

/* ---- proposals ------------------------------------------------------------------------------ */

/* Returns the parameters of the most promising untried candidate (new reference), or NULL if all
 * were tried. `candidates` has the most promising one first. */
static json_t *first_untried(const struct bayes *b, const double *candidates, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const double *u = candidates + i * b->space->dims;
        if (b->space->shape.smooth && bayes_observations_at(b->observations, u))
            continue;
        AUTO(json) json_t *params = space_sample(b->space->space, u);
        if (!sampler_tried(b->sampler, params))
            return TAKE(params);
    }
    return NULL;
}

/* Returns the parameters that a search of the cube finds, or NULL if it finds no untried point. */
static json_t *propose_by_search(const struct bayes *b, struct acquisition *a, size_t count)
{
    size_t dims = b->space->dims, which[BEST_POINTS],
           n = bayes_observations_best(b->observations, 0, BEST_POINTS, which);
    AUTO(free) double *known = xcalloc((BEST_POINTS + CANDIDATES) * dims, sizeof *known);
    double *candidates = known + BEST_POINTS * dims, value = 0;
    for (size_t k = 0; k < n; k++)
        memcpy(known + k * dims, b->observations->u + which[k] * dims, dims * sizeof *known);
    struct bayes_acquisition search = {.target = &a->target,
                                       .seed = b->sampler->task.seed,
                                       .stream = count + 1,
                                       .known = known,
                                       .known_count = n};
    /* The cost of a prediction is proportional to observations times parameters. */
    double cost = (double)(a->target.value->n * dims * (1 + a->target.bound_count));
    search.effort = fmin(1, fmax(0.2, 1000 / cost));
    size_t found = bayes_acquisition_maximise(&search, candidates, CANDIDATES, &value);
    /* The model expects no gain but may be overconfident. So every second trial doubts it. */
    if (value < settled && count % 2 && !a->target.second) {
        a->target.widen = doubt;
        a->target.success_min /= doubt;
        found = bayes_acquisition_maximise(&search, candidates, CANDIDATES, &value);
    }
    return first_untried(b, candidates, found);
}

/* Returns the parameters of the most promising of all untried points, or NULL if all were tried. */
static json_t *propose_from_list(const struct bayes *b, const struct acquisition *a)
{
    const struct space *space = b->space->space;
    size_t points = (size_t)space_count(space), cols = b->space->shape.cols, n = 0, best = 0;
    AUTO(free) double *x = xcalloc(points * (cols + 1) + b->space->dims, sizeof *x);
    AUTO(free) size_t *which = xcalloc(points, sizeof *which);
    double *value = x + points * cols, *u = value + points;
    for (size_t i = 0; i < points; i++) {
        AUTO(json) json_t *params = space_point(space, (double)i);
        struct err e = {0};
        if (sampler_tried(b->sampler, params) || space_unit(space, params, u, &e) < 0)
            continue;
        bayes_features_columns(b->space, u, true, x + n, points);
        which[n++] = i;
    }
    if (n == 0)
        return NULL;
    bayes_acquisition_target_at(&a->target, &(struct kernel_points){x, n, points}, value, NULL);
    for (size_t i = 1; i < n; i++)
        if (value[i] > value[best])
            best = i;
    return space_point(space, (double)which[best]);
}

/* Returns what the values say; nothing only if this holds for each objective, or while nothing is
 * feasible for each constraint. */
static enum bayes_plateau plateau(const struct bayes *b)
{
    enum bayes_plateau p = BAYES_PLATEAU_NONE;
    bool seek = seeks(b);
    size_t end = seek ? model_count(b) : objective_count(b);
    for (size_t g = seek ? objective_count(b) : 0; g < end; g++) {
        const struct bayes_data *d = &b->observations->data[g];
        const struct bayes_model *m = b->models[g];
        p = bayes_plateau(d->y, d->n, m->fitted ? m->skill : (double)NAN);
        if (p == BAYES_PLATEAU_NONE)
            break;
    }
    return p;
}

/* Returns the parameters of the next point of the sequence that the first trials came from, which
 * is allowed, untried, not where trials fail, and rather feasible than not, if anything is. Returns
 * NULL if there is none nearby. */
static json_t *explore(const struct bayes *b, const struct acquisition *a, size_t count)
{
    const struct space *space = b->space->space;
    size_t cols = b->space->shape.cols;
    AUTO(free) double *u = xcalloc(b->space->dims + cols, sizeof *u);
    double *x = u + b->space->dims;
    for (uint64_t at = 0; at < EXPLORED * (count + 1); at++) {
        sobol_point(b->sampler->task.seed, at, b->space->dims, u);
        if (!space_allows(space, u))
            continue;
        AUTO(json) json_t *params = space_sample(space, u);
        bayes_features_columns(b->space, u, true, x, 1);
        if (sampler_times(b->sampler, params) == 0 &&
            (a->target.seek || bayes_acquisition_log_feasible(&a->target, x) >= log(0.5)) &&
            (!a->target.success ||
             gp_classifier_log_success(a->target.success, x, NULL) >= a->target.success_min))
            return TAKE(params);
    }
    return NULL;
}

static json_t *next(struct sampler *s, const struct trial_view *view)
{
    struct bayes *b = s->state;
    if (!b->space)
        return sampler_random.next(s, view);
    bayes_observations_update(b->observations, view);
    if (view->count < b->observations->first || b->observations->data[0].n < 2)
        return sampler_next(b->space_filling, view);
    struct acquisition a = {0};
    AUTO(json) json_t *params = NULL;
    bool ready = acquisition_prepare(b, view, &a);
    if (plateau(b) != BAYES_PLATEAU_NONE || (a.target.seek && a.target.bound_count == 0))
        params = explore(b, &a, view->count);
    if (ready && !params)
        params = space_count(b->space->space) <= ENUMERATE_MAX
                     ? propose_from_list(b, &a)
                     : propose_by_search(b, &a, view->count);
    acquisition_release(&a);
    return params ? TAKE(params) : sampler_random.next(s, view);
}

static char *note(struct sampler *s, const struct trial_view *view)
{
    struct bayes *b = s->state;
    if (!b->space)
        return NULL;
    bayes_observations_update(b->observations, view);
    if (view->count < b->observations->first)
        return NULL;
    bool seek = seeks(b);
    for (size_t g = objective_count(b); seek && g < model_count(b); g++)
        if (b->observations->certain > 0 && b->observations->data[g].n == 0)
            return xasprintf("no trial is feasible: none has reported '%s'",
                             s->task.outcomes->at[g - objective_count(b)].metric);
    char *text = bayes_plateau_text(plateau(b), b->observations->data[0].n);
    return text || !seek ? text : xstrdup("no trial is feasible yet: looking for one");
}

/* Returns the trial with the best posterior mean among those that are done and feasible. With
 * noise, the trial with the best value is often just lucky (docs/search.md). Returns -1 if the
 * noise is negligible: then the values decide. */
static int best(struct sampler *s, const struct trial_view *view)
{
    struct bayes *b = s->state;
    if (!b->space || objective_count(b) != 1)
        return -1;
    bayes_observations_update(b->observations, view);
    size_t n = b->observations->certain;
    int least = -1;
    AUTO(bayes_model) struct bayes_model *m = bayes_model_copy(b->models[0]);
    if (n < FIRST_TRIALS || !bayes_model_update(m, &b->observations->data[0], n) ||
        m->gp->noise < noise_min)
        return -1;
    AUTO(free) double *mean = xcalloc(2 * n, sizeof *mean);
    struct kernel_points at = {b->observations->data[0].x, n, b->observations->data[0].cap};
    gp_predict(m->gp, &at, mean, mean + n, NULL, NULL);
    for (int i = 0; i < (int)n; i++)
        if (b->observations->ids[i] >= 0 && b->observations->feasible[i] &&
            (least < 0 || mean[i] < mean[least]))
            least = i;
    return least < 0 ? -1 : b->observations->ids[least];
}

/* Returns a model of at most SHOWN_MAX observations, which the caller frees. Returns NULL if there
 * is no model. It has the hyperparameters of the last fit, so it is not fitted again. */
static struct bayes_model *shown_model(const struct bayes *b)
{
    const struct bayes_data *d = &b->observations->data[0];
    AUTO(free) size_t *rows = xcalloc(d->n + 1, sizeof *rows);
    if (d->n < FIRST_TRIALS)
        return NULL;
    struct bayes_data few = bayes_model_data_few(d, b->space->shape.cols, d->n, SHOWN_MAX, rows);
    AUTO(bayes_model) struct bayes_model *m = bayes_model_copy(b->models[0]);
    bool ok = bayes_model_update(m, &few, few.n);
    bayes_model_data_free(&few);
    return ok ? TAKE(m) : NULL;
}

static bool predict(struct sampler *s, const struct trial_view *view, const double *u, size_t n,
                    struct sampler_prediction *out)
{
    static const double normal_95 = 1.96;
    struct bayes *b = s->state;
    if (!b->space)
        return false;
    bayes_observations_update(b->observations, view);
    AUTO(bayes_model) struct bayes_model *m = shown_model(b);
    size_t cols = b->space->shape.cols;
    AUTO(free) double *x = xcalloc(BATCH, (cols + 2) * sizeof *x);
    double *mean = x + BATCH * cols, *var = mean + BATCH;
    double sign = s->task.objectives[0].maximize ? -1 : 1;
    for (size_t from = 0; m && from < n; from += BATCH) {
        size_t count = n - from < BATCH ? n - from : BATCH;
        for (size_t i = 0; i < count; i++)
            bayes_features_columns(b->space, u + (from + i) * b->space->dims, true, x + i, BATCH);
        gp_predict(m->gp, &(struct kernel_points){x, count, BATCH}, mean, var, NULL, NULL);
        for (size_t i = 0; i < count; i++) {
            const struct output_transform *w = &m->transform;
            double by = normal_95 * sqrt(var[i]);
            double low = sign * output_transform_inverse(w, mean[i] - by),
                   high = sign * output_transform_inverse(w, mean[i] + by);
            out[from + i] = (struct sampler_prediction){sign * output_transform_inverse(w, mean[i]),
                                                        fmin(low, high), fmax(low, high)};
        }
    }
    return m != NULL;
}

/* Returns the measured time of next() (docs/search.md), including fits. */
static double seconds(const struct sampler *s, size_t ended)
{
    return 1e-4 * (double)(ended + json_array_size(s->task.warm_start));
}

/* ---- model state ---------------------------------------------------------------------------- */

static json_t *save(const struct sampler *s)
{
    const struct bayes *b = s->state;
    bool unsaved = false;
    for (size_t g = 0; g < model_count(b); g++)
        unsaved = unsaved || b->models[g]->unsaved;
    if (!unsaved)
        return NULL;
    json_t *models = json_array();
    for (size_t g = 0; g < model_count(b); g++) {
        json_t *m = bayes_model_save(b->models[g]);
        json_array_append_new(models, m ? m : json_null());
    }
    return json_pack("{s:o}", "models", models);
}

static void restore(struct sampler *s, const json_t *model_state)
{
    struct bayes *b = s->state;
    const json_t *models = json_object_get(model_state, "models");
    for (size_t g = 0; g < model_count(b); g++)
        bayes_model_restore(b->models[g], json_array_get(models, g));
}

const struct sampler_ops sampler_bayes = {
    .method = {.name = "bayes",
               .help = "Bayesian optimisation with a Gaussian process",
               .needs_metric = true,
               .learns_from_warm_start = true},
    .state_new = state_new,
    .state_free = state_free,
    .next = next,
    .save = save,
    .restore = restore,
    .seconds = seconds,
    .best = best,
    .note = note,
    .predict = predict,
};
