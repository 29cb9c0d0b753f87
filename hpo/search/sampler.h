/* sampler - where the next trial's parameters come from: one shape for all methods.
 *
 * What a sampler gives depends on the space, the seed and the trials that there are, not on what
 * it was asked before: after a restart it goes on where it was. No point is given that was tried or
 * is being tried, while a space of countable points has another. */
#ifndef DROVER_SAMPLER_H
#define DROVER_SAMPLER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/mem.h"
#include "hpo/search/trial.h"

struct space;
struct sampler;

struct sampler_ops {
    const char *name; /* the word in `method:` */
    /* A method's own state; NULL where it needs none. */
    void *(*own_new)(const struct sampler *s);
    void (*own_free)(void *own);
    /* The parameters of trial number view->count: a new reference, or NULL: all points are tried.
     */
    json_t *(*next)(struct sampler *s, const struct trial_view *view);
};

struct sampler { /* its fields are for the methods */
    const struct sampler_ops *ops;
    const struct space *space; /* borrowed */
    uint64_t seed;
    json_t *tried; /* a set: dist_key() of every trial's parameters */
    size_t seen;   /* trials in `tried` */
    void *own;
};

/* Points in order, the last name fastest; ends with the last. */
extern const struct sampler_ops sampler_grid;
/* Independent draws; trial i's come from the seed's stream i. */
extern const struct sampler_ops sampler_random;

struct sampler *sampler_new(const struct sampler_ops *ops, const struct space *space,
                            uint64_t seed);
void sampler_free(struct sampler *s);
AUTO_DEFINE(sampler, struct sampler *, sampler_free)

/* The next trial's parameters: a new reference, or NULL: the space is exhausted. `view` only ever
 * grows from call to call. */
json_t *sampler_next(struct sampler *s, const struct trial_view *view);

/* For methods: whether a trial had these parameters. */
bool sampler_tried(const struct sampler *s, const json_t *params);

#endif
