/* test_scheduler_objectives - the number of trials of a sweep, and its targets. */
#include "common/json.h"
#include "common/yaml.h"
#include "hpo/samplers/sweep_file.h"
#include "hpo/scheduler/scheduler.h"
#include "tests/unit/test.h"

static struct spec *spec;
static struct scheduler *s;
static struct scheduler_out out;

static void start_with(const char *yaml)
{
    struct err e = {0};
    AUTO(yaml_doc) struct yaml_doc *d = NULL;
    if (yaml_read(&d, yaml, strlen(yaml), "s.yaml", "command", &e) < 0 ||
        sweep_file_read(&spec, d, &e) < 0 || scheduler_new(&s, spec, &e) < 0)
        FAIL("%s", e.text);
}

static void step(enum scheduler_event_kind kind, int64_t lease, const char *json)
{
    AUTO(json) json_t *data = json_loads(json, 0, NULL);
    CHECK_INT(scheduler_handle(s, &(struct scheduler_event){kind, "w", lease, data}, 1, &out, NULL),
              0);
}

static void end(void)
{
    scheduler_out_free(&out);
    scheduler_free(s);
    spec_free(spec);
}

TEST(repeats_count_for_each_point_and_start_ones_are_among_them)
{
    start_with("method: grid\nprogram: t\nparameters: {x: {min: 1, max: 3}}\n"
               "drover: {repeats: 2, start: [{x: 2}, {x: 2}, {x: 2}]}\n");
    CHECK_INT(scheduler_counts(s).total_wanted, 7);
    step(SCHEDULER_EV_HELLO, 0, "{\"slots\":9}");
    static const int want[] = {2, 2, 2, 1, 3, 1, 3};
    CHECK_INT(out.action_count, 7);
    for (int i = 0; i < 7; i++)
        CHECK_INT(json_integer_value(json_object_get(out.actions[i].params, "x")), want[i]);
    end();
}

TEST(only_points_that_conditions_and_constraints_leave_are_wanted)
{
    start_with("method: random\nprogram: t\n"
               "parameters: {a: {values: [x, y]}, b: {min: 1, max: 4}}\n"
               "drover: {when: {b: {param: a, in: [x]}}, constraints: [b != 3]}\n");
    CHECK_INT(scheduler_counts(s).total_wanted, 4); /* x with 1, 2 and 4; y */
    step(SCHEDULER_EV_HELLO, 0, "{\"slots\":9}");
    CHECK_INT(out.action_count, 4);
    end();
}

TEST(several_targets_have_to_be_reached_by_one_trial)
{
    start_with("method: grid\nprogram: t\nparameters: {x: {min: 1, max: 9}}\n"
               "metrics: [{name: loss, target: 0.1}, {name: acc, goal: maximize, target: 0.9}]\n");
    step(SCHEDULER_EV_HELLO, 0, "{\"slots\":1}");
    static const char *const reports[] = {"{\"loss\":0.05,\"acc\":0.8}",
                                          "{\"loss\":0.2,\"acc\":0.95}", "{\"acc\":0.91}",
                                          "{\"loss\":0.01,\"acc\":0.91}"};
    for (int i = 0; i < 4; i++) {
        step(SCHEDULER_EV_REPORT, i + 1, reports[i]);
        CHECK(!scheduler_is_done(s));
        step(SCHEDULER_EV_DONE, i + 1, "{\"status\":0}");
        CHECK(scheduler_is_done(s) == (i == 3));
    }
    CHECK_STR(out.actions[0].reason, "the metric's target is reached");
    end();
}

TEST(the_best_and_the_target_are_those_of_feasible_trials)
{
    start_with("method: grid\nprogram: t\nparameters: {x: {min: 1, max: 3}}\n"
               "metric: {name: loss, target: 1}\n"
               "drover: {parallel: 2, outcome_constraints: [{metric: ms, max: 50}]}\n");
    step(SCHEDULER_EV_HELLO, 0, "{\"slots\":2}");
    step(SCHEDULER_EV_REPORT, 1, "{\"step\":1,\"loss\":0.5}");
    CHECK_INT(scheduler_best(s), -1); /* it is not known to be feasible */
    step(SCHEDULER_EV_REPORT, 1, "{\"step\":2,\"ms\":80}");
    step(SCHEDULER_EV_REPORT, 2, "{\"step\":1,\"loss\":2,\"ms\":20}");
    step(SCHEDULER_EV_DONE, 1, "{\"status\":0,\"seconds\":1}");
    CHECK_INT(scheduler_best(s), 1);
    CHECK_INT(scheduler_view(s).count, 3); /* the target is not reached: another trial runs */
    AUTO(json) json_t *slow = scheduler_trial_json(s, 0), *fast = scheduler_trial_json(s, 1);
    CHECK(json_is_false(json_object_get(slow, "feasible")));
    CHECK(json_is_true(json_object_get(fast, "feasible")));
    end();
}
