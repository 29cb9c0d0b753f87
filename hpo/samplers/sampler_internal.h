/* sampler_internal - the functions of one sampler, and the fields that all samplers have. Only
 * samplers include this. */
#pragma once

#include "hpo/samplers/sampler.h"

struct sampler_ops { /* a row of the table in sampler.c */
    struct spec_method method;
    /* Create and free the sampler's own state. NULL: the sampler has no state. */
    void *(*state_new)(const struct sampler *s);
    void (*state_free)(void *state);
    /* Implements sampler_next(), for trial number view->count. */
    json_t *(*next)(struct sampler *s, const struct trial_view *view);
    /* Implement sampler_save() and sampler_restore(). Both are NULL if the sampler learns
     * nothing. */
    json_t *(*save)(const struct sampler *s);
    void (*restore)(struct sampler *s, const json_t *model_state);
    /* Implements sampler_seconds(). NULL: next() takes a negligible time. */
    double (*seconds)(const struct sampler *s, size_t ended);
    /* Implements sampler_best(). NULL: the sampler has no model. */
    int (*best)(struct sampler *s, const struct trial_view *view);
    /* Implements sampler_note(). NULL: the sampler has nothing to say. */
    char *(*note)(struct sampler *s, const struct trial_view *view);
    /* Implements sampler_predict(). NULL: the sampler has no model. */
    bool (*predict)(struct sampler *s, const struct trial_view *view, const double *u, size_t n,
                    struct sampler_prediction *out);
};

struct sampler {
    const struct sampler_ops *ops;
    struct sampler_task task;
    json_t *tried;   /* distribution_key() of every trial's parameters -> number of trials */
    size_t observed; /* trials in `tried` */
    int round;       /* for sampler_random: every point has at least this many trials */
    void *state;     /* the sampler's own state */
};

/* Proposes independent draws. Its next() needs no state, so other samplers fall back on it. */
extern const struct sampler_ops sampler_random;
/* Proposes points that fill the space evenly. Samplers with a model use it for the first
 * observations. */
extern const struct sampler_ops sampler_sobol;
