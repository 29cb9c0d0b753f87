#include "hpo/samplers/sampler.h"

#include <math.h>

#include "common/json.h"
#include "hpo/space/distribution.h"
#include "hpo/space/space.h"
#include "tests/unit/kit_sampler.h"
#include "tests/unit/test.h"

enum { MAX = 2048 };

static struct trial *trials[MAX];
static size_t count;

static struct space *space(const char *json, bool grid)
{
    AUTO(json) json_t *v = json_loads(json, 0, NULL);
    struct config_node n = config_node_of_json(v);
    struct space *s = NULL;
    AUTO(strv) char **notices = NULL;
    struct err e = {0};
    if (space_read(&s, &n, grid, &notices, &e) < 0)
        FAIL("%s", e.text);
    return s;
}

static struct space *constrained(const char *params, const char *when, const char *rule, bool grid)
{
    struct space *s = space(params, grid);
    AUTO(json) json_t *w = json_loads(when, 0, NULL), *list = json_pack("[s]", rule);
    struct config_node conditions = config_node_of_json(w), rules = config_node_of_json(list);
    struct err e = {0};
    if (space_add_conditions(s, &conditions, &e) < 0 || space_add_constraints(s, &rules, &e) < 0)
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
    AUTO(sampler) struct sampler *s = sampler(kit_sampler("grid"), sp, 0);
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
    AUTO(sampler) struct sampler *s = sampler(kit_sampler("grid"), sp, 0);
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
    AUTO(sampler) struct sampler *s = sampler(kit_sampler("random"), sp, 42);
    const char *want[20];
    for (int i = 0; i < 20; i++)
        want[i] = next(s);
    for (size_t restart = 0; restart < 20; restart++) {
        count = restart; /* like a restart with this many trials */
        AUTO(sampler) struct sampler *again = sampler(kit_sampler("random"), sp, 42);
        CHECK_STR(next(again), want[restart]);
    }
    count = 0;
    AUTO(sampler) struct sampler *other = sampler(kit_sampler("random"), sp, 43);
    CHECK(strcmp(next(other), want[0]) != 0);
    space_free(sp);
}

TEST(random_draws_follow_the_distribution)
{
    struct space *sp = space(mixed, false);
    AUTO(sampler) struct sampler *s = sampler(kit_sampler("random"), sp, 1);
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
    AUTO(sampler) struct sampler *s = sampler(kit_sampler("random"), sp, 7);
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
    AUTO(sampler) struct sampler *s = sampler(kit_sampler("random"), sp, 7);
    for (int i = 0; i < 20; i++)
        CHECK(next(s) != NULL);
    space_free(sp);
}

/* 24 points: a = 1 has b and c, a = 2 … 6 only c; 3 of a = 1's are forbidden. */
static struct space *small(bool grid)
{
    return constrained("{\"a\":{\"min\":1,\"max\":6},\"b\":{\"values\":[1,2,3,4]},"
                       "\"c\":{\"values\":[1,2,3]}}",
                       "{\"b\":{\"param\":\"a\",\"in\":[1]}}", "b * c < 8", grid);
}

static void check_repeats(const struct sampler_ops *ops, bool grid)
{
    struct space *sp = small(grid);
    CHECK_INT(space_count(sp), 24);
    struct sampler_task task = {.space = sp, .seed = 3, .repeats = 3};
    struct sampler *s = sampler_new(ops, &task);
    AUTO(json) json_t *times = json_object();
    count = 0;
    for (int i = 0; i < 72; i++) {
        if (i % 10 == 9) { /* like after a restart */
            sampler_free(s);
            s = sampler_new(ops, &task);
        }
        const char *text = next(s);
        CHECK(text != NULL);
        json_int_t before = json_integer_value(json_object_get(times, text));
        CHECK_INT(before, i / 24); /* no repeat while a point is left */
        json_object_set_new(times, text, json_integer(before + 1));
        CHECK_INT(sampler_times(s, trials[i]->params), i / 24); /* not counted yet */
    }
    CHECK(!next(s));
    CHECK_INT(json_object_size(times), 24);
    CHECK(sampler_tried(s, trials[0]->params));
    sampler_free(s);
    space_free(sp);
}

TEST(grid_gives_each_allowed_configuration_so_often_as_repeats_says)
{
    check_repeats(kit_sampler("grid"), true);
}

TEST(random_gives_each_allowed_configuration_so_often_as_repeats_says)
{
    check_repeats(kit_sampler("random"), false);
}

TEST(grid_in_order_again_is_what_repeats_means)
{
    struct space *sp = space("{\"a\":{\"min\":1,\"max\":2}}", true);
    given("{\"a\":2}");
    struct sampler_task task = {.space = sp, .repeats = 2};
    AUTO(sampler) struct sampler *s = sampler_new(kit_sampler("grid"), &task);
    CHECK_STR(next(s), "{\"a\":1}");
    CHECK_STR(next(s), "{\"a\":1}");
    CHECK_STR(next(s), "{\"a\":2}");
    CHECK(!next(s));
    space_free(sp);
}

TEST(random_keeps_to_constraints_where_points_cannot_be_counted)
{
    struct space *sp = constrained("{\"x\":{\"min\":0.0,\"max\":1.0},\"n\":{\"min\":1,\"max\":9}}",
                                   "{}", "x * n < 0.01 and n % 3 == 0", false);
    AUTO(sampler) struct sampler *s = sampler(kit_sampler("random"), sp, 9);
    for (int i = 0; i < 200; i++) {
        next(s);
        double x = json_number_value(json_object_get(trials[i]->params, "x"));
        json_int_t n = json_integer_value(json_object_get(trials[i]->params, "n"));
        CHECK(x * (double)n < 0.01 && n % 3 == 0);
    }
    space_free(sp);
}

/* 2^50 points, of which few are tried: no sampler may enumerate them. */
TEST(huge_countable_spaces_are_sampled_at_once)
{
    static const char params[] =
        "{\"a\":{\"min\":1,\"max\":33554432},\"b\":{\"min\":1,\"max\":33554432}}";
    for (int grid = 0; grid < 2; grid++) {
        struct space *sp = constrained(params, "{}", "a + b > 3", grid);
        CHECK(space_count(sp) >
              1e15); /* an upper bound, since the count is not exact with constraints */
        AUTO(sampler)
        struct sampler *s = sampler(grid ? kit_sampler("grid") : kit_sampler("random"), sp, 1);
        count = 0;
        for (int i = 0; i < 50; i++)
            CHECK(next(s) != NULL);
        CHECK(!grid || json_integer_value(json_object_get(trials[0]->params, "b")) == 3);
        space_free(sp);
    }
}
