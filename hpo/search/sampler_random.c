/* sampler_random - independent draws from the distributions, without repeats where it can be. */
#include <math.h>

#include "common/json.h"
#include "common/rng.h"
#include "hpo/search/sampler.h"
#include "hpo/search/space.h"

enum { DRAWS_MAX = 64 };

/* The first untried point of a countable space from a random one on. */
static json_t *search(const struct sampler *s, struct rng *r)
{
    double n = space_count(s->task.space), start = floor(rng_unit(r) * n);
    for (double i = 0; i < n; i++) {
        double at = start + i < n ? start + i : start + i - n;
        AUTO(json) json_t *params = space_point(s->task.space, at);
        if (!sampler_tried(s, params))
            return TAKE(params);
    }
    return NULL;
}

static json_t *next(struct sampler *s, const struct trial_view *view)
{
    struct rng r;
    rng_seed(&r, s->task.seed, view->count);
    size_t dims = space_dims(s->task.space);
    AUTO(free) double *u = xcalloc(dims + 1, sizeof *u);
    AUTO(json) json_t *params = NULL;
    for (int draw = 0; draw < DRAWS_MAX; draw++) {
        for (size_t i = 0; i < dims; i++)
            u[i] = rng_unit(&r);
        json_decref(params);
        params = space_sample(s->task.space, u);
        if (!sampler_tried(s, params))
            return TAKE(params);
    }
    /* Most of what comes by chance is tried. Where points cannot be counted, repeat one. */
    return isinf(space_count(s->task.space)) ? TAKE(params) : search(s, &r);
}

const struct sampler_ops sampler_random = {.name = "random", .next = next};
