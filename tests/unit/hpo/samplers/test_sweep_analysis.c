#include "hpo/samplers/sweep_analysis.h"

#include <math.h>

#include "common/json.h"
#include "common/rng.h"
#include "hpo/space/space.h"
#include "tests/unit/test.h"

enum { MAX = 400 };

static struct trial *trials[MAX];
static struct trial_view view = {(const struct trial *const *)trials, 0};

static struct space *space(const char *json)
{
    AUTO(json) json_t *v = json_loads(json, 0, NULL);
    struct config_node n = config_node_of_json(v);
    struct space *s = NULL;
    struct err e = {0};
    if (space_read_list(&s, &n, &e) < 0)
        FAIL("%s", e.text);
    return s;
}

static struct trial *add(json_t *params, enum trial_state state, const char *values)
{
    struct trial *t = trials[view.count] = trial_new((int)view.count, params, 0);
    AUTO(json) json_t *v = json_loads(values, 0, NULL);
    t->lease = 1;
    trial_report(t, 1, v, "loss", false);
    t->state = state;
    view.count++;
    return t;
}

static void clear(void)
{
    while (view.count > 0)
        trial_free(trials[--view.count]);
}

static const struct sampler_objective loss = {.metric = "loss"};
static const struct sampler_objective accuracy = {.metric = "loss", .maximize = true};

static const char model[] =
    "[{\"name\":\"kind\",\"type\":\"cat\",\"choices\":[\"a\",\"b\",\"c\"]},"
    "{\"name\":\"lr\",\"type\":\"float\",\"low\":1e-5,\"high\":1,\"log\":true},"
    "{\"name\":\"width\",\"type\":\"int\",\"low\":1,\"high\":8},"
    "{\"name\":\"beta\",\"type\":\"float\",\"low\":0,\"high\":1,"
    "\"when\":{\"param\":\"kind\",\"in\":[\"b\"]}}]";

/* Adds `n` random trials that are done. Their loss depends on the learning rate and, if kind is b,
 * a little on beta. */
static void fill(const struct space *sp, int n)
{
    struct rng r;
    rng_seed(&r, 4, 0);
    for (int i = 0; i < n; i++) {
        double u[4];
        for (int k = 0; k < 4; k++)
            u[k] = rng_unit(&r);
        AUTO(json) json_t *p = space_sample(sp, u);
        const json_t *beta = json_object_get(p, "beta");
        double y = pow(log10(json_number_value(json_object_get(p, "lr"))) + 3, 2) +
                   (beta ? 0.3 * json_number_value(beta) : 0);
        AUTO(free) char *values = xasprintf("{\"loss\":%.17g}", y);
        add(p, i % 5 == 0 ? TRIAL_PRUNED : TRIAL_DONE, values);
    }
}

TEST(importances_are_named_and_come_largest_first)
{
    AUTO(space) struct space *sp = space(model);
    fill(sp, MAX);
    AUTO(json) json_t *j = sweep_analysis_importance(sp, &loss, &view);
    CHECK_INT(json_object_size(j), 4);
    const char *name;
    json_t *v;
    double sum = 0, last = 1;
    json_object_foreach (j, name, v) {
        CHECK(json_real_value(v) <= last);
        last = json_real_value(v);
        sum += last;
    }
    CHECK_NEAR(sum, 1, 0.05); /* there is nearly no interaction */
    CHECK_STR(json_object_iter_key(json_object_iter(j)), "lr");
    CHECK(json_real_value(json_object_get(j, "lr")) > 0.8);
    CHECK(json_real_value(json_object_get(j, "width")) < 0.1);
    clear();
}

TEST(an_interval_contains_its_share_and_is_the_same_each_time)
{
    AUTO(space) struct space *sp = space(model);
    fill(sp, MAX);
    AUTO(json) json_t *shares = sweep_analysis_importance(sp, &loss, &view);
    AUTO(json) json_t *one = sweep_analysis_importance_ranges(sp, &loss, &view, 20);
    AUTO(json) json_t *two = sweep_analysis_importance_ranges(sp, &loss, &view, 20);
    CHECK(json_equal(one, two));
    CHECK_INT(json_object_size(one), 4);
    const char *name;
    json_t *v;
    json_object_foreach (one, name, v) {
        double share = json_real_value(json_array_get(v, 0)),
               low = json_real_value(json_array_get(v, 1)),
               high = json_real_value(json_array_get(v, 2));
        const json_t *best = json_array_get(v, 5);
        CHECK_INT(json_array_size(best), strcmp(name, "kind") == 0 ? 1 : 2);
        CHECK_NEAR(share, json_real_value(json_object_get(shares, name)), 0);
        CHECK(0 <= low && low <= share && share <= high && high <= 1);
        CHECK(high > low);
    }
    clear();
    fill(sp, 9);
    AUTO(json) json_t *few = sweep_analysis_importance_ranges(sp, &loss, &view, 20);
    CHECK(json_is_null(few));
    clear();
}

TEST(the_best_range_depends_on_the_goal)
{
    AUTO(space)
    struct space *sp = space("[{\"name\":\"x\",\"type\":\"int\",\"low\":0,\"high\":99}]");
    for (int i = 0; i < 50; i++) {
        AUTO(json) json_t *p = json_pack("{s:i}", "x", 2 * i);
        AUTO(free) char *values = xasprintf("{\"loss\":%d}", i * i);
        add(p, TRIAL_DONE, values);
    }
    AUTO(json) json_t *low = sweep_analysis_importance_ranges(sp, &loss, &view, 2);
    AUTO(json) json_t *high = sweep_analysis_importance_ranges(sp, &accuracy, &view, 2);
    const json_t *at = json_array_get(json_object_get(low, "x"), 5);
    CHECK(json_integer_value(json_array_get(at, 1)) < 20);
    CHECK_STR(json_string_value(json_array_get(json_object_get(low, "x"), 6)), "lower");
    at = json_array_get(json_object_get(high, "x"), 5);
    CHECK(json_integer_value(json_array_get(at, 0)) > 90);
    CHECK_STR(json_string_value(json_array_get(json_object_get(high, "x"), 6)), "higher");
    clear();
}

TEST(there_are_no_importances_before_ten_trials_that_count)
{
    AUTO(space) struct space *sp = space(model);
    fill(sp, 12);
    trials[1]->state = TRIAL_FAILED;
    trials[2]->state = TRIAL_RUNNING; /* its value is not its last one */
    AUTO(json) json_t *ten = sweep_analysis_importance(sp, &loss, &view);
    CHECK(json_is_object(ten));
    trials[3]->state = TRIAL_OOM;
    AUTO(json) json_t *nine = sweep_analysis_importance(sp, &loss, &view);
    CHECK(json_is_null(nine));
    clear();
    AUTO(json) json_t *none = sweep_analysis_importance(sp, &loss, &view);
    CHECK(json_is_null(none));
}

TEST(where_all_values_are_equal_nothing_decides)
{
    AUTO(space)
    struct space *sp = space("[{\"name\":\"x\",\"type\":\"int\",\"low\":0,\"high\":99}]");
    for (int i = 0; i < 20; i++) {
        AUTO(json) json_t *p = json_pack("{s:i}", "x", i);
        add(p, TRIAL_DONE, "{\"loss\":1}");
    }
    AUTO(json) json_t *j = sweep_analysis_importance(sp, &loss, &view);
    AUTO(free) char *text = json_line(j);
    CHECK_STR(text, "{\"x\":0.0}");
    clear();
}

TEST(parameters_that_the_space_does_not_have_do_not_count)
{
    AUTO(space)
    struct space *sp = space("[{\"name\":\"x\",\"type\":\"int\",\"low\":0,\"high\":99}]");
    for (int i = 0; i < 20; i++) {
        AUTO(json) json_t *p = json_pack("{s:i}", i < 11 ? "x" : "z", i);
        AUTO(free) char *values = xasprintf("{\"loss\":%d}", i);
        add(p, TRIAL_DONE, values);
    }
    AUTO(json) json_t *j = sweep_analysis_importance(sp, &loss, &view);
    CHECK_NEAR(json_real_value(json_object_get(j, "x")), 1, 0.01);
    clear();
}

TEST(the_front_has_those_that_none_is_better_than_in_all_goals)
{
    static const struct sampler_objective objectives[] = {{.metric = "loss"},
                                                          {.metric = "accuracy", .maximize = true}};
    AUTO(json) json_t *p = json_object();
    add(p, TRIAL_DONE, "{\"loss\":3,\"accuracy\":0.9}");
    add(p, TRIAL_FAILED, "{\"loss\":0,\"accuracy\":1}");
    add(p, TRIAL_DONE, "{\"loss\":2,\"accuracy\":0.8}");
    add(p, TRIAL_RUNNING, "{\"loss\":1,\"accuracy\":0.5}");
    add(p, TRIAL_PRUNED, "{\"loss\":2.5,\"accuracy\":0.8}");
    add(p, TRIAL_DONE, "{\"loss\":0.5}");
    add(p, TRIAL_DONE, "{\"loss\":3,\"accuracy\":0.9}");
    struct sampler_task task = {.objectives = objectives, .objective_count = 2};
    AUTO(json) json_t *front = sweep_analysis_front(&task, &view);
    AUTO(free) char *text = json_line(front);
    CHECK_STR(text, "[3,2,0,6]");
    const struct outcomes bounds = {.at = {{"accuracy", 0.8, INFINITY}}, .count = 1};
    task.outcomes = &bounds;
    AUTO(json) json_t *feasible = sweep_analysis_front(&task, &view);
    AUTO(free) char *fewer = json_line(feasible);
    CHECK_STR(fewer, "[2,0,6]");
    clear();
    AUTO(json) json_t *none = sweep_analysis_front(&task, &view);
    CHECK_INT(json_array_size(none), 0);
}
