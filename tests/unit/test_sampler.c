#include "hpo/search/sampler.h"

#include <math.h>

#include "common/json.h"
#include "hpo/search/dist.h"
#include "hpo/search/space.h"
#include "tests/unit/test.h"

enum { MAX = 2048 };

static struct trial *trials[MAX];
static size_t count;

static struct space *space(const char *json, bool grid)
{
    AUTO(json) json_t *v = json_loads(json, 0, NULL);
    struct node n = node_of_json(v);
    struct space *s = NULL;
    AUTO(strv) char **notices = NULL;
    struct err e = {0};
    if (space_read(&s, &n, grid, &notices, &e) < 0)
        FAIL("%s", e.text);
    return s;
}

static struct sampler *sampler(const struct sampler_ops *ops, const struct space *sp, uint64_t seed)
{
    struct sampler_task task = {.space = sp, .seed = seed};
    return sampler_new(ops, &task);
}

static void add_trial(json_t *params)
{
    trial_free(trials[count]);
    trials[count] = trial_new((int)count, params, 0);
    count++;
}

/* The next parameters as text; they become a trial. NULL: exhausted. */
static const char *next(struct sampler *s)
{
    struct trial_view view = {(const struct trial *const *)trials, count};
    AUTO(json) json_t *p = sampler_next(s, &view);
    if (!p)
        return NULL;
    add_trial(p);
    static char *texts[2 * MAX]; /* until the process ends */
    static int text_count;
    return texts[text_count++] = json_line(p);
}

static void given(const char *json)
{
    AUTO(json) json_t *p = json_loads(json, 0, NULL);
    add_trial(p);
}

TEST(grid_goes_through_all_points_once_in_order)
{
    struct space *sp =
        space("{\"b\":{\"values\":[\"x\",\"y\",\"x\"]},\"a\":{\"min\":1,\"max\":2}}", true);
    AUTO(sampler) struct sampler *s = sampler(&sampler_grid, sp, 0);
    CHECK_STR(next(s), "{\"a\":1,\"b\":\"x\"}");
    CHECK_STR(next(s), "{\"a\":1,\"b\":\"y\"}");
    CHECK_STR(next(s), "{\"a\":2,\"b\":\"x\"}");
    CHECK_STR(next(s), "{\"a\":2,\"b\":\"y\"}");
    CHECK(!next(s));
    space_free(sp);
}

TEST(grid_skips_what_was_tried_and_takes_3_and_3_point_0_for_the_same)
{
    struct space *sp = space("{\"a\":{\"values\":[1,3,0.5]},\"b\":{\"value\":2}}", true);
    given("{\"b\":2.0,\"a\":3.0}");
    AUTO(sampler) struct sampler *s = sampler(&sampler_grid, sp, 0);
    CHECK_STR(next(s), "{\"a\":1,\"b\":2}");
    CHECK_STR(next(s), "{\"a\":0.5,\"b\":2}");
    CHECK(!next(s));
    space_free(sp);
}

static const char mixed[] =
    "{\"lr\":{\"distribution\":\"log_uniform_values\",\"min\":1e-5,\"max\":0.1},"
    "\"act\":{\"values\":[\"relu\",\"tanh\"]}}";

TEST(random_trials_depend_on_the_seed_and_their_number_alone)
{
    struct space *sp = space(mixed, false);
    AUTO(sampler) struct sampler *s = sampler(&sampler_random, sp, 42);
    const char *want[20];
    for (int i = 0; i < 20; i++)
        want[i] = next(s);
    for (size_t restart = 0; restart < 20; restart++) {
        count = restart; /* as after a restart with so many trials */
        AUTO(sampler) struct sampler *again = sampler(&sampler_random, sp, 42);
        CHECK_STR(next(again), want[restart]);
    }
    count = 0;
    AUTO(sampler) struct sampler *other = sampler(&sampler_random, sp, 43);
    CHECK(strcmp(next(other), want[0]) != 0);
    space_free(sp);
}

TEST(random_draws_follow_the_distribution)
{
    struct space *sp = space(mixed, false);
    AUTO(sampler) struct sampler *s = sampler(&sampler_random, sp, 1);
    int relu = 0, low = 0;
    for (int i = 0; i < 2000; i++) {
        next(s);
        const json_t *p = trials[i]->params;
        relu += strcmp(json_string_value(json_object_get(p, "act")), "relu") == 0;
        low += json_number_value(json_object_get(p, "lr")) < 1e-3; /* the median */
    }
    /* Five standard deviations of a fair coin: 5 * sqrt(2000) / 2 = 112. */
    CHECK(abs(relu - 1000) < 112);
    CHECK(abs(low - 1000) < 112);
    space_free(sp);
}

TEST(random_repeats_no_point_of_a_countable_space_and_ends_with_the_last)
{
    struct space *sp = space("{\"a\":{\"min\":1,\"max\":40},\"b\":{\"values\":[1,2,3,4,5],"
                             "\"probabilities\":[0.999996,1e-6,1e-6,1e-6,1e-6]}}",
                             false);
    AUTO(sampler) struct sampler *s = sampler(&sampler_random, sp, 7);
    for (int i = 0; i < 200; i++) {
        CHECK(next(s) != NULL);
        for (int k = 0; k < i; k++)
            CHECK(!json_equal(trials[k]->params, trials[i]->params));
    }
    CHECK(!next(s));
    CHECK(!next(s));
    space_free(sp);
}

TEST(random_repeats_where_points_cannot_be_counted)
{
    struct space *sp = space("{\"a\":{\"distribution\":\"q_normal\",\"sigma\":0.1}}", false);
    AUTO(sampler) struct sampler *s = sampler(&sampler_random, sp, 7);
    for (int i = 0; i < 20; i++)
        CHECK(next(s) != NULL);
    space_free(sp);
}
