#include <math.h>

#include "common/json.h"
#include "hpo/model/sobol.h"
#include "hpo/samplers/sampler.h"
#include "hpo/space/distribution.h"
#include "hpo/space/space.h"
#include "tests/unit/kit_sampler.h"
#include "tests/unit/test.h"

enum { MAX = 2048 };

static struct trial *trials[MAX];
static size_t count;

static struct space *space(const char *list, const char *constraints)
{
    AUTO(json) json_t *v = json_loads(list, 0, NULL), *c = json_loads(constraints, 0, NULL);
    struct config_node n = config_node_of_json(v), nc = config_node_of_json(c);
    struct space *s = NULL;
    struct err e = {0};
    if (space_read_list(&s, &n, &e) < 0 ||
        (json_array_size(c) > 0 && space_add_constraints(s, &nc, &e) < 0))
        FAIL("%s", e.text);
    return s;
}

static struct sampler *sampler(const struct space *sp, uint64_t seed)
{
    struct sampler_task task = {.space = sp, .seed = seed};
    return sampler_new(kit_sampler("sobol"), &task);
}

/* The next parameters, which become a trial. NULL: exhausted. Borrowed. */
static const json_t *next(struct sampler *s)
{
    struct trial_view view = {(const struct trial *const *)trials, count};
    AUTO(json) json_t *p = sampler_next(s, &view);
    if (!p)
        return NULL;
    trials[count] = trial_new((int)count, p, 0);
    return trials[count++]->params;
}

static void clear(void)
{
    while (count > 0)
        trial_free(trials[--count]);
}

static const char plane[] = "[{\"name\":\"x\",\"type\":\"float\",\"low\":0,\"high\":1},"
                            "{\"name\":\"y\",\"type\":\"float\",\"low\":0,\"high\":1}]";

static double number(const json_t *params, const char *name)
{
    return json_number_value(json_object_get(params, name));
}

TEST(trial_i_has_point_i_after_a_restart_too)
{
    AUTO(space) struct space *sp = space(plane, "[]");
    AUTO(sampler) struct sampler *s = sampler(sp, 5);
    for (uint64_t i = 0; i < 40; i++) {
        double u[2];
        sobol_point(5, i, 2, u);
        if (i % 7 == 3) {
            sampler_free(s);
            s = sampler(sp, 5);
        }
        const json_t *p = next(s);
        CHECK_NEAR(number(p, "x"), u[0], 0);
        CHECK_NEAR(number(p, "y"), u[1], 0);
    }
    clear();
}

TEST(given_trials_take_no_point_away)
{
    AUTO(space) struct space *sp = space(plane, "[]");
    AUTO(json) json_t *given = json_pack("{s:f,s:f}", "x", 0.5, "y", 0.5);
    trials[count++] = trial_new(0, given, 0);
    AUTO(sampler) struct sampler *s = sampler(sp, 5);
    double u[2];
    sobol_point(5, 0, 2, u);
    CHECK_NEAR(number(next(s), "x"), u[0], 0);
    clear();
}

TEST(a_power_of_two_of_trials_meets_each_value_of_a_list_equally_often)
{
    AUTO(space)
    struct space *sp = space("[{\"name\":\"a\",\"type\":\"cat\",\"choices\":[0,1,2,3]},"
                             "{\"name\":\"b\",\"type\":\"float\",\"low\":0,\"high\":1}]",
                             "[]");
    AUTO(sampler) struct sampler *s = sampler(sp, 1);
    int in[4][4] = {{0}};
    for (int i = 0; i < 64; i++) {
        const json_t *p = next(s);
        in[(int)number(p, "a")][(int)(number(p, "b") * 4)]++;
    }
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++)
            CHECK_INT(in[a][b], 4);
    clear();
}

TEST(a_finite_space_is_exhausted_with_each_point_once_across_restarts)
{
    for (uint64_t seed = 0; seed < 5; seed++) {
        AUTO(space)
        struct space *sp = space(
            "[{\"name\":\"solver\",\"type\":\"cat\",\"choices\":[\"sgd\",\"adam\",\"lbfgs\"]},"
            "{\"name\":\"m\",\"type\":\"int\",\"low\":1,\"high\":30,"
            "\"when\":{\"param\":\"solver\",\"in\":[\"sgd\"]}},"
            "{\"name\":\"w\",\"type\":\"int\",\"low\":1,\"high\":4,\"log\":true}]",
            "[]");
        AUTO(sampler) struct sampler *s = sampler(sp, seed);
        AUTO(json) json_t *seen = json_object();
        for (int i = 0; i < 32 * 4; i++) {
            if (i % 50 == 49) {
                sampler_free(s);
                s = sampler(sp, seed);
            }
            const json_t *p = next(s);
            CHECK(p != NULL);
            AUTO(free) char *key = distribution_key(p);
            CHECK(!json_object_get(seen, key));
            json_object_set_new(seen, key, json_true());
        }
        CHECK(!next(s));
        CHECK(!next(s));
        clear();
    }
}

TEST(only_allowed_points_are_given_and_they_stay_even)
{
    AUTO(space) struct space *sp = space(plane, "[\"x + y <= 0.5\"]");
    AUTO(sampler) struct sampler *s = sampler(sp, 3);
    int left = 0, most = 0;
    enum { N = 256 };
    for (int i = 0; i < N; i++) {
        const json_t *p = next(s);
        CHECK(number(p, "x") + number(p, "y") <= 0.5);
        left += number(p, "x") < 0.25;
    }
    /* 3/4 of the triangle, an eighth of the square: 256 of the first 2,048 points are in it. */
    CHECK_NEAR(left, 0.75 * N, 6); /* random points would deviate by 7 */
    for (int i = 0; i < N; i++)
        for (int k = 0; k < i; k++)
            most += json_equal(trials[i]->params, trials[k]->params);
    CHECK_INT(most, 0);
    clear();
}

TEST(a_tiny_allowed_part_still_gives_different_points)
{
    AUTO(space) struct space *sp = space(plane, "[\"x < 0.01 and y < 0.01\"]");
    AUTO(sampler) struct sampler *s = sampler(sp, 3);
    for (int i = 0; i < 100; i++) {
        const json_t *p = next(s);
        CHECK(number(p, "x") < 0.01 && number(p, "y") < 0.01);
        CHECK(i == 0 || !json_equal(p, trials[i - 1]->params));
    }
    clear();
}

TEST(repeats_come_after_every_point_was_tried_once)
{
    AUTO(space)
    struct space *sp = space("[{\"name\":\"x\",\"type\":\"int\",\"low\":1,\"high\":7}]", "[]");
    struct sampler_task task = {.space = sp, .repeats = 3};
    AUTO(sampler) struct sampler *s = sampler_new(kit_sampler("sobol"), &task);
    int times[8] = {0};
    for (int i = 0; i < 21; i++) {
        if (i == 10) {
            sampler_free(s);
            s = sampler_new(kit_sampler("sobol"), &task);
        }
        CHECK_INT(times[(int)number(next(s), "x")]++, i / 7);
    }
    CHECK(!next(s));
    clear();
}

TEST(a_space_of_constants_is_one_trial)
{
    AUTO(space)
    struct space *sp = space("[{\"name\":\"x\",\"type\":\"int\",\"low\":3,\"high\":3}]", "[]");
    AUTO(sampler) struct sampler *s = sampler(sp, 0);
    CHECK_NEAR(number(next(s), "x"), 3, 0);
    CHECK(!next(s));
    clear();
}
