/* sampler_internal - what one sampler provides, and the fields that samplers share; for samplers
 * only. */
#ifndef DROVER_SAMPLER_INTERNAL_H
#define DROVER_SAMPLER_INTERNAL_H

#include "hpo/samplers/sampler.h"

struct sampler_ops { /* a row of the table in sampler.c */
    struct spec_method method;
    /* Creates and frees the sampler's own state; NULL: it has none. */
    void *(*state_new)(const struct sampler *s);
    void (*state_free)(void *state);
    /* Implements sampler_next(), for trial number view->count. */
    json_t *(*next)(struct sampler *s, const struct trial_view *view);
    /* Implement sampler_save() and sampler_restore(); both NULL: nothing is learned. */
    json_t *(*save)(const struct sampler *s);
    void (*restore)(struct sampler *s, const json_t *model_state);
    /* Implements sampler_seconds(); NULL: next() takes a negligible time. */
    double (*seconds)(const struct sampler *s, size_t ended);
    /* Implements sampler_best(); NULL: there is no model. */
    int (*best)(struct sampler *s, const struct trial_view *view);
};

struct sampler {
    const struct sampler_ops *ops;
    struct sampler_task task;
    json_t *tried;   /* distribution_key() of every trial's parameters -> number of trials */
    size_t observed; /* trials in `tried` */
    int round;       /* random: every point has been tried this often */
    void *state;     /* the sampler's own */
};

/* Independent draws, which need no state: other samplers fall back on next(). */
extern const struct sampler_ops sampler_random;
/* Points that fill the space evenly, for samplers whose model needs first observations. */
extern const struct sampler_ops sampler_sobol;

#endif
