/* sampler_grid - proposes every point of the space, in W&B's order.
 *
 * In this order the last parameter changes fastest. After the last point the sampler goes through
 * all points again until each has `repeats` trials; then the space is exhausted. The space must
 * have countable points. */
#include "common/json.h"
#include "hpo/samplers/sampler_internal.h"
#include "hpo/space/space.h"

struct grid {
    int round; /* every point has at least this many trials … */
    double at; /* … and every point before this one has one more */
};

static void *state_new(const struct sampler *s)
{
    (void)s; /* the state starts at the first point of any space */
    return xzalloc(sizeof(struct grid));
}

static json_t *next(struct sampler *s, const struct trial_view *view)
{
    (void)view; /* s->tried has all that is needed of the trials */
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
