/* sampler_sobol - points of a scrambled Sobol sequence, in its order. */
#include "common/json.h"
#include "hpo/model/sobol.h"
#include "hpo/samplers/sampler.h"
#include "hpo/space/space.h"

enum { POINTS_PER_TRIAL = 64 }; /* so many are looked at in the mean */

struct sequence {
    uint64_t at;          /* all points before it are tried or not allowed */
    struct sampler *rest; /* finds what the sequence gets to too late */
};

static void *own_new(const struct sampler *s)
{
    struct sequence *q = xzalloc(sizeof *q);
    q->rest = sampler_new(&sampler_random, &s->task);
    return q;
}

static void own_free(void *own)
{
    struct sequence *q = own;
    sampler_free(q->rest);
    free(q);
}

static json_t *next(struct sampler *s, const struct trial_view *view)
{
    struct sequence *q = s->own;
    size_t dims = space_dims(s->task.space);
    AUTO(free) double *u = xcalloc(dims, sizeof *u);
    for (uint64_t end = POINTS_PER_TRIAL * (view->count + 1); q->at < end; q->at++) {
        sobol_point(s->task.seed, q->at, dims, u);
        if (!space_allows(s->task.space, u))
            continue;
        AUTO(json) json_t *params = space_sample(s->task.space, u);
        if (sampler_times(s, params) == 0)
            return TAKE(params);
    }
    return sampler_next(q->rest, view); /* most of what came by is tried or not allowed */
}

const struct sampler_ops sampler_sobol = {
    .name = "sobol", .own_new = own_new, .own_free = own_free, .next = next};
