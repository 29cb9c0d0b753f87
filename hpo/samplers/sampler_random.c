/* sampler_random - independent draws from the distributions, without repeats if possible.
 *
 * Trial i's draws come from the seed's stream i. The sampler has no state of its own, so that other
 * samplers can fall back on its next(). In a space of more than 2^20 points, nearly all of which
 * are tried, a point may come again although an untried one is left. */
#include <math.h>

#include "common/json.h"
#include "common/rng.h"
#include "hpo/samplers/sampler_internal.h"
#include "hpo/space/space.h"

enum { DRAWS_MAX = 64, SCAN_MAX = 1 << 20 };

/* Returns a point that was tried at most `round` times; NULL: there is none. */
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
    /* Most draws hit tried points: take the next untried one in order, from a random one on. */
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
        /* Seeded in each round, so that a restart, which begins with the first, changes nothing. */
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
