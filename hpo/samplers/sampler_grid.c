/* sampler_grid - every point of the space in W&B's order.
 *
 * Points in order, the last name changing fastest. Ends with the last point; with `repeats` it
 * first goes through all points again. Needs a space of countable points. */
#include "common/json.h"
#include "hpo/samplers/sampler_internal.h"
#include "hpo/space/space.h"

struct grid {
    int round; /* every point has been tried this often, */
    double at; /* and the points before this one once again */
};

static void *state_new(const struct sampler *s)
{
    (void)s; /* starts at the first point, whatever the space */
    return xzalloc(sizeof(struct grid));
}

static json_t *next(struct sampler *s, const struct trial_view *view)
{
    (void)view; /* s->tried has what matters of the trials */
    struct grid *g = s->state;
    for (double n = space_count(s->task.space); g->round < s->task.repeats; g->round++) {
        for (; g->at < n; g->at++) {
            AUTO(json) json_t *params = space_point(s->task.space, g->at);
            if (params && sampler_times(s, params) <= g->round)
                return TAKE(params);
        }
        g->at = 0;
    }
    return NULL;
}

const struct sampler_ops sampler_grid = {
    .method = {.name = "grid", .help = "every point, in order", .needs_grid = true},
    .state_new = state_new,
    .state_free = free,
    .next = next,
};
