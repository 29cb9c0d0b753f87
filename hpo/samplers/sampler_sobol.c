/* sampler_sobol - proposes points of a scrambled Sobol sequence, which fill the space evenly.
 *
 * Each trial has the next point of the sequence that the constraints allow and that is untried. */
#include "common/json.h"
#include "hpo/model/sobol.h"
#include "hpo/samplers/sampler_internal.h"
#include "hpo/space/space.h"

enum { POINTS_PER_TRIAL = 64 }; /* points of the sequence that are examined per trial, on average */

struct sequence {
    uint64_t at;          /* every point before this one is tried or not allowed */
    struct sampler *rest; /* proposes points if the sequence would take too long */
};

static void *state_new(const struct sampler *s)
{
    struct sequence *q = xzalloc(sizeof *q);
    q->rest = sampler_new(&sampler_random, &s->task);
    return q;
}

static void state_free(void *state)
{
    struct sequence *q = state;
    sampler_free(q->rest);
    free(q);
}

static json_t *next(struct sampler *s, const struct trial_view *view)
{
    struct sequence *q = s->state;
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
    /* Nearly all points examined so far were tried or are not allowed. */
    return sampler_next(q->rest, view);
}

const struct sampler_ops sampler_sobol = {
    .method = {.name = "sobol", .help = "points that fill the space evenly"},
    .state_new = state_new,
    .state_free = state_free,
    .next = next,
};
