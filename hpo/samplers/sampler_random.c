/* sampler_random - proposes independent draws from the distributions, without repeats if possible.
 *
 * The draws for trial i come from stream i of the seed. The sampler has no state of its own, so
 * that other samplers can fall back on its next(). If a space has more than 2^20 points and nearly
 * all were tried, a point may be repeated although an untried one is left. */
#include <math.h>

#include "common/json.h"
#include "common/rng.h"
#include "hpo/samplers/sampler_internal.h"
#include "hpo/space/space.h"

enum { DRAWS_MAX = 64, SCAN_MAX = 1 << 20 };

/* Returns a point that was tried at most `round` times, or NULL if there is none. In a space of
 * more than SCAN_MAX points, may return a point that was tried more often. */
static json_t *draw(const struct sampler *s, struct rng *r, int round)
{
    const struct space *space = s->task.space;
    AUTO(free) double *u = xcalloc(space_dims(space) + 1, sizeof *u);
    AUTO(json) json_t *params = NULL;
    for (int draw = 0; draw < DRAWS_MAX; draw++) {
        space_draw(space, r, u);
        json_decref(params);
        params = space_sample(space, u);
        if (sampler_times(s, params) <= round)
            return TAKE(params);
    }
    /* Most draws hit tried points. Take the first untried point in order, starting at a random
     * point. */
    double n = space_count(space), start = isinf(n) ? 0 : floor(rng_unit(r) * n);
    for (double i = 0; !isinf(n) && i < n && i < SCAN_MAX; i++) {
        AUTO(json) json_t *point = space_point(space, start + i < n ? start + i : start + i - n);
        if (point && sampler_times(s, point) <= round)
            return TAKE(point);
    }
    return n <= SCAN_MAX ? NULL : TAKE(params); /* too many points to scan: repeat one */
}

static json_t *next(struct sampler *s, const struct trial_view *view)
{
    for (; s->round < s->task.repeats; s->round++) {
        /* Each round has the same seed. So the result is the same after a restart, which begins
         * with round 0. */
        struct rng r;
        rng_seed(&r, s->task.seed, view->count);
        json_t *params = draw(s, &r, s->round);
        if (params)
            return params;
    }
    return NULL;
}

const struct sampler_ops sampler_random = {
    .method = {.name = "random", .help = "independent draws"},
    .next = next,
};
