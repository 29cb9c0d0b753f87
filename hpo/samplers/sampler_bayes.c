/* sampler_bayes - Bayesian optimisation: the point that a Gaussian process expects most of.
 *
 * The recipe and what each choice in it is worth are told in docs/search.md. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/rng.h"
#include "hpo/model/pareto.h"
#include "hpo/model/sobol.h"
#include "hpo/samplers/bayes_acquisition.h"
#include "hpo/samplers/bayes_features.h"
#include "hpo/samplers/bayes_model.h"
#include "hpo/samplers/bayes_observations.h"
#include "hpo/samplers/objectives.h"
#include "hpo/samplers/sampler_internal.h"

enum {
    FIRST = 8,       /* trials that only fill the space */
    LIST_MAX = 2048, /* points of a space that are all looked at, rather than searched */
    PENDING_MAX = 256,
    KNOWN = 3,   /* best points that are handed to the search */
    OFFERS = 16, /* that it hands back */
    CHANCE_MIN = 6,
    ENDS_MAX = 300, /* ends that failures are learnt from */
};
/* ln EI below which nothing is left to gain; and how many times wider deviations are then taken. */
static const double settled = -8, doubt = 5;
/* The chance of failing that is taken; half as much after each failure of what the model chose. */
static const double risk = 0.1;
/* Variance of noise, in that of all values, from which it matters which trial is called the best.
 */
static const double noise_min = 1e-3;
/* Deviations above its mean that a running trial is taken to give. */
static const double pessimism = 0.25;
/* The share of the trials chosen by the model that fail by chance, if so many do. */
static const double chance_rate = 0.1;

struct bayes {
    const struct sampler *sampler; /* its task */
    struct sampler *even;          /* points that fill the space, before there is a model */
    struct bayes_features *space;  /* NULL: nothing varies */
    struct bayes_observations *past;
    struct bayes_model **models; /* of each objective */
};

static size_t objective_count(const struct bayes *b)
{
    return b->sampler->task.objective_count;
}

/* Observations that are to fill the space: a batch at least. */
static size_t first_trials(const struct sampler *s)
{
    return s->task.batch > FIRST ? (size_t)s->task.batch : FIRST;
}

static void *state_new(const struct sampler *s)
{
    struct bayes *b = xzalloc(sizeof *b);
    b->sampler = s;
    b->even = sampler_new(&sampler_sobol, &s->task);
    if (space_dims(s->task.space) == 0)
        return b;
    b->space = bayes_features_new(s->task.space);
    b->past = bayes_observations_new(&s->task, b->space, first_trials(s));
    b->models = xcalloc(objective_count(b), sizeof *b->models);
    for (size_t g = 0; g < objective_count(b); g++)
        b->models[g] = bayes_model_new(&b->space->shape);
    return b;
}

static void state_free(void *state)
{
    struct bayes *b = state;
    sampler_free(b->even);
    for (size_t g = 0; b->space && g < objective_count(b); g++)
        bayes_model_free(b->models[g]);
    free(b->models);
    bayes_observations_free(b->past);
    bayes_features_free(b->space);
    free(b);
}

/* ---- trials that run ---------------------------------------------------------------------------
 */

/* Trials that are taken for ended: the newest PENDING_MAX. */
static size_t pretended(const struct bayes *b)
{
    return b->past->pending_count < PENDING_MAX ? b->past->pending_count : PENDING_MAX;
}

/* Takes trials that have not ended for ones that gave a little more than their mean; what they gave
 * is put into value[pretended()]. (Of what was tried for batches the best: docs/search.md.) */
static void pretend(const struct bayes *b, struct bayes_model *m, double *value)
{
    struct gp *g = bayes_model_gp(m);
    size_t cols = b->space->shape.cols, own = gp_count(g), count = pretended(b);
    const double *u = b->past->pending + (b->past->pending_count - count) * b->space->dims;
    AUTO(free) double *targets = xcalloc(own + count + cols, sizeof *targets);
    double *x = targets + own + count;
    memcpy(targets, bayes_model_targets(m), own * sizeof *targets);
    for (size_t i = 0; i < count; i++) {
        struct kernel_points at = {x, 1, 1};
        struct err e = {0};
        double var = 0;
        bayes_features_columns(b->space, u + i * b->space->dims, true, x, 1);
        gp_predict(g, &at, &value[i], &var);
        value[i] += pessimism * sqrt(var);
        targets[gp_count(g)] = value[i];
        if (gp_add(g, &at, NULL, &e) == 0)
            gp_targets(g, targets);
    }
}

/* ---- what is sought ----------------------------------------------------------------------------
 */

struct aim { /* a target, and what it borrows */
    struct bayes_acquisition_target target;
    struct bayes_model *used[2];
    size_t counts[2];  /* their own observations */
    double *values[2]; /* of each, that running trials are taken to have given */
    double *front;
};

static void aim_free(struct aim *a)
{
    for (size_t i = 0; i < 2 && a->used[i]; i++) {
        free(a->values[i]);
        gp_cut(bayes_model_gp(a->used[i]), a->counts[i]);
        gp_targets(bayes_model_gp(a->used[i]), bayes_model_targets(a->used[i]));
    }
    free(a->front);
    gp_classifier_free(a->target.success);
}

/* A model ready to be asked; NULL: there is none. */
static struct gp *ready(struct bayes *b, struct aim *a, size_t which, size_t objective)
{
    struct bayes_model *m = b->models[objective];
    if (!bayes_model_update(m, &b->past->data[objective], b->past->certain))
        return NULL;
    a->used[which] = m;
    a->counts[which] = gp_count(bayes_model_gp(m));
    a->values[which] = xcalloc(pretended(b) + 1, sizeof *a->values[which]);
    pretend(b, m, a->values[which]);
    return bayes_model_gp(m);
}

static double warped(const struct bayes *b, size_t objective, size_t i)
{
    return output_transform_value(bayes_model_warp(b->models[objective]),
                                  b->past->data[objective].y[i]);
}

/* The front of two objectives, in warped values, running trials with it. */
static void set_front(const struct bayes *b, struct aim *a, size_t first, size_t second)
{
    size_t n = b->past->data[0].n, all = n + pretended(b);
    AUTO(free) double *y = xcalloc(2 * all, sizeof *y);
    AUTO(free) size_t *front = xcalloc(all, sizeof *front);
    for (size_t i = 0; i < n; i++) {
        y[2 * i] = warped(b, first, i);
        y[2 * i + 1] = warped(b, second, i);
    }
    for (size_t i = n; i < all; i++)
        for (size_t k = 0; k < 2; k++)
            y[2 * i + k] = a->values[k][i - n];
    a->target.front_count = pareto_front(y, all, 2, front);
    a->front = xcalloc(2 * a->target.front_count, sizeof *a->front);
    for (size_t i = 0; i < a->target.front_count; i++)
        memcpy(a->front + 2 * i, y + 2 * front[i], 2 * sizeof *y);
    a->target.front = a->front;
    pareto_reference(y, n, 2, a->target.ref);
}

/* Failures that could have been foreseen: what the model chose, but for the first of all. */
static double warnings(const struct bayes_observations *p)
{
    return (double)(p->failures > p->late_failures ? p->late_failures : p->failures - 1);
}

/* Learns where trials fail. */
static void beware(const struct bayes *b, struct aim *a)
{
    const struct bayes_data *d = &b->past->ends;
    AUTO(free) size_t *rows = xcalloc(d->n, sizeof *rows);
    size_t cols = b->space->shape.cols, n = bayes_model_data_choose(d, d->n, ENDS_MAX, rows);
    AUTO(free) double *x = xcalloc(n * cols, sizeof *x);
    AUTO(free) bool *success = xcalloc(n, sizeof *success);
    for (size_t i = 0; i < n; i++) {
        for (size_t c = 0; c < cols; c++)
            x[c * n + i] = d->x[c * d->cap + rows[i]];
        success[i] = d->y[rows[i]] > 0;
    }
    a->target.success = gp_classifier_new(&(struct kernel_points){x, n, n}, cols, success);
    /* Failures that come again and again in spite of it come by chance. */
    bool chance = b->past->late_failures >= CHANCE_MIN &&
                  (double)b->past->late_failures > chance_rate * (double)b->past->late_ends;
    a->target.success_min = chance ? -INFINITY : log1p(-risk * pow(0.5, warnings(b->past)));
}

/* False: no model could be made. */
static bool aim_at(struct bayes *b, const struct trial_view *view, struct aim *a)
{
    size_t objectives = objective_count(b),
           turn = view->count % (objectives * (objectives - 1) / 2 + (objectives == 1));
    size_t first = 0, second = 1, best = 0;
    for (; turn > 0; turn--) { /* the pairs of objectives in turn */
        if (++second == objectives) {
            first++;
            second = first + 1;
        }
    }
    a->target.space = b->space;
    a->target.widen = 1;
    a->target.value = ready(b, a, 0, first);
    if (!a->target.value)
        return false;
    bayes_observations_best(b->past, first, 1, &best);
    a->target.best = warped(b, first, best);
    for (size_t i = 0; i < pretended(b); i++)
        a->target.best = fmin(a->target.best, a->values[0][i]);
    if (objectives > 1) {
        a->target.second = ready(b, a, 1, second);
        if (!a->target.second)
            return false;
        set_front(b, a, first, second);
    }
    if (b->past->failures > 0)
        beware(b, a);
    return true;
}

/* ---- what is given -----------------------------------------------------------------------------
 */

/* The most promising untried one of points that a search found. NULL: there is none. */
static json_t *pick(const struct bayes *b, const double *offers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const double *u = offers + i * b->space->dims;
        if (b->space->shape.smooth && bayes_observations_at(b->past, u))
            continue;
        AUTO(json) json_t *params = space_sample(b->space->space, u);
        if (!sampler_tried(b->sampler, params))
            return TAKE(params);
    }
    return NULL;
}

/* The most promising point that is untried, by searching the cube. NULL: none was found. */
static json_t *searched(const struct bayes *b, struct aim *a, size_t count)
{
    size_t dims = b->space->dims, which[KNOWN],
           n = bayes_observations_best(b->past, 0, KNOWN, which);
    AUTO(free) double *room = xcalloc((KNOWN + OFFERS) * dims, sizeof *room);
    double *offers = room + KNOWN * dims, value = 0;
    for (size_t k = 0; k < n; k++)
        memcpy(room + k * dims, b->past->u + which[k] * dims, dims * sizeof *room);
    struct bayes_acquisition search = {.target = &a->target,
                                       .seed = b->sampler->task.seed,
                                       .stream = count + 1,
                                       .known = room,
                                       .known_count = n};
    /* What a prediction costs goes with observations times parameters. */
    double cost = (double)(gp_count(a->target.value) * dims);
    search.effort = fmin(1, fmax(0.2, 1000 / cost));
    size_t found = bayes_acquisition_maximise(&search, offers, OFFERS, &value);
    /* The model sees nothing left to gain: what if it is too sure of itself? */
    if (value < settled && count % 2 && !a->target.second) {
        a->target.widen = doubt;
        a->target.success_min /= doubt;
        found = bayes_acquisition_maximise(&search, offers, OFFERS, &value);
    }
    return pick(b, offers, found);
}

/* The most promising of all untried points. NULL: there is none. */
static json_t *listed(const struct bayes *b, const struct aim *a)
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

static json_t *next(struct sampler *s, const struct trial_view *view)
{
    struct bayes *b = s->state;
    if (!b->space)
        return sampler_random.next(s, view);
    bayes_observations_update(b->past, view);
    if (view->count < b->past->first || b->past->data[0].n < 2)
        return sampler_next(b->even, view);
    struct aim a = {0};
    AUTO(json) json_t *params = NULL;
    if (aim_at(b, view, &a))
        params =
            space_count(b->space->space) <= LIST_MAX ? listed(b, &a) : searched(b, &a, view->count);
    aim_free(&a);
    return params ? TAKE(params) : sampler_random.next(s, view);
}

/* Of the trials that are done, the one with the best posterior mean: the luckiest value is not the
 * best (docs/search.md). Where values have no noise to speak of they are taken as they are. */
static int best(struct sampler *s, const struct trial_view *view)
{
    struct bayes *b = s->state;
    if (!b->space || objective_count(b) != 1)
        return -1;
    bayes_observations_update(b->past, view);
    size_t n = b->past->certain;
    int least = -1;
    AUTO(bayes_model) struct bayes_model *m = bayes_model_copy(b->models[0]);
    if (n < FIRST || !bayes_model_update(m, &b->past->data[0], n) ||
        gp_noise(bayes_model_gp(m)) < noise_min)
        return -1;
    AUTO(free) double *mean = xcalloc(2 * n, sizeof *mean);
    struct kernel_points at = {b->past->data[0].x, n, b->past->data[0].cap};
    gp_predict(bayes_model_gp(m), &at, mean, mean + n);
    for (int i = 0; i < (int)n; i++)
        if (b->past->ids[i] >= 0 && (least < 0 || mean[i] < mean[least]))
            least = i;
    return least < 0 ? -1 : b->past->ids[least];
}

/* As measured (docs/search.md), fits included. */
static double seconds(const struct sampler *s, size_t ended)
{
    return 1e-4 * (double)(ended + json_array_size(s->task.prior));
}

/* ---- what is kept ------------------------------------------------------------------------------
 */

static json_t *save(const struct sampler *s)
{
    const struct bayes *b = s->state;
    bool news = false;
    for (size_t g = 0; b->space && g < objective_count(b); g++)
        news = news || bayes_model_unsaved(b->models[g]);
    if (!news)
        return NULL;
    json_t *models = json_array();
    for (size_t g = 0; g < objective_count(b); g++) {
        json_t *m = bayes_model_save(b->models[g]);
        json_array_append_new(models, m ? m : json_null());
    }
    return json_pack("{s:o}", "models", models);
}

static void restore(struct sampler *s, const json_t *model_state)
{
    struct bayes *b = s->state;
    const json_t *models = json_object_get(model_state, "models");
    for (size_t g = 0; b->space && g < objective_count(b); g++)
        bayes_model_restore(b->models[g], json_array_get(models, g));
}

const struct sampler_ops sampler_bayes = {
    .method = {.name = "bayes",
               .help = "Bayesian optimisation with a Gaussian process",
               .needs_metric = true,
               .learns_from_prior = true},
    .state_new = state_new,
    .state_free = state_free,
    .next = next,
    .save = save,
    .restore = restore,
    .seconds = seconds,
    .best = best,
};
