#include "tests/unit/kit_scheduler.h"

/* ---- pauses --------------------------------------------------------------------------------- */

#define CURVE "early_terminate: {type: curve, keep: 0.5, max_iter: 16}\n"

/* Reports of steps 1 and 2, the rung. */
static void reach_rung(int64_t lease, double first, double second)
{
    char json[64];
    snprintf(json, sizeof json, "{\"step\":1,\"loss\":%g}", first);
    report(lease, json);
    snprintf(json, sizeof json, "{\"step\":2,\"loss\":%g}", second);
    report(lease, json);
}

TEST(a_trial_pauses_frees_its_slot_and_goes_on_before_a_new_one_starts)
{
    start_with(GRID(9) CURVE);
    hello("a", "{\"slots\":1}");
    reach_rung(1, 4, 3);
    CHECK_HAS(gave(), "PAUSING 0/1 {\"why\":\"curve\"}; | STOP a 0/1 curve;");
    CHECK_STR(state_of(0), "pausing");
    report(1, "{\"step\":3,\"loss\":2.5}"); /* the answer is still: stop */
    CHECK_HAS(gave(), "| STOP a 0/1 curve;");
    done(1, "{\"status\":0,\"signal\":15,\"seconds\":7}");
    CHECK_HAS(gave(), "PAUSED 0/1 {\"seconds\":7.0}; CREATED 1/0 ; LEASED 1/2");
    CHECK_INT(scheduler_counts(s).paused, 1);
    crash();
    hello("a", "{\"slots\":1,\"running\":[2]}");
    reach_rung(2, 9, 8);
    done(2, "{\"status\":0}");
    CHECK_HAS(gave(), "PAUSED 1/2 {\"seconds\":0.0}; LEASED 0/3"); /* the best of two */
    CHECK_INT((int)scheduler_view(s).count, 2);
    crash();
    hello("a", "{\"slots\":1,\"running\":[3]}");
    report(3, "{\"step\":2,\"loss\":5}"); /* from a checkpoint: it passes the rung */
    CHECK_STR(gave(), "REPORT 0/3 {\"step\":2,\"values\":{\"loss\":5}}; |");
}

TEST(paused_trials_end_as_pruned_when_nothing_else_is_left)
{
    start_with(GRID(3) CURVE);
    hello("a", "{\"slots\":3}");
    for (int i = 3; i >= 1; i--)
        reach_rung(i, i + 1, i);
    CHECK_STR(state_of(2), "pausing");
    CHECK_STR(state_of(1), "running"); /* the best of two, then the best of three, continue */
    CHECK_STR(state_of(0), "running");
    done(2, "{\"status\":0}");
    done(3, "{\"status\":0,\"seconds\":2}");
    CHECK_STR(gave(), "PAUSED 2/3 {\"seconds\":2.0}; |");
    report(1, "{\"step\":3,\"loss\":0.5}");
    done(1, "{\"status\":0}");
    CHECK_HAS(gave(), "ENDED 0/1 {\"state\":\"done\",\"seconds\":0.0,\"value\":0.5}; "
                      "ENDED 2/3 {\"state\":\"pruned\",\"seconds\":2.0,"
                      "\"value\":3.0,\"why\":\"curve\"}; | END");
    crash();
}

TEST(what_may_still_win_is_finished_when_no_new_trial_can_start)
{
    start_with(ONE CURVE);
    hello("a", "{\"slots\":2}");
    reach_rung(1, 4, 3);
    done(1, "{\"status\":0}");
    CHECK_HAS(gave(), "PAUSED 0/1 {\"seconds\":0.0}; LEASED 0/2");
}

TEST(a_pausing_trial_whose_worker_is_lost_is_paused_and_one_that_ended_by_itself_has_ended)
{
    start_with(GRID(9) CURVE);
    hello("a", "{\"slots\":2}");
    hello("b", "{\"slots\":0}");
    reach_rung(1, 4, 3);
    reach_rung(2, 9, 8);
    CHECK_STR(state_of(1), "pausing");
    done(2, "{\"status\":0,\"stopped\":false}");
    CHECK_STR(state_of(1), "done");
    step(SCHEDULER_EV_LOST, "a", 0, NULL);
    CHECK_HAS(gave(), "PAUSED 0/1 {\"seconds\":0.0}; ");
    report(1, "{\"step\":3,\"loss\":2.5}"); /* a report of that time, late */
    CHECK_STR(gave(), "REPORT 0/1 {\"step\":3,\"values\":{\"loss\":2.5}}; |");
    done(1, "{\"status\":0}"); /* its end, also late */
    CHECK_STR(state_of(0), "paused");
    done(1, "{\"status\":0,\"stopped\":false}");
    CHECK_STR(state_of(0), "done");
}

TEST(a_pausing_trial_that_failed_by_itself_has_failed)
{
    start_with(GRID(9) CURVE);
    hello("a", "{\"slots\":1}");
    reach_rung(1, 4, 3);
    done(1, "{\"status\":3,\"stopped\":false}");
    CHECK_STR(state_of(0), "failed");
}

TEST(a_pausing_trial_is_not_stopped_for_its_time_or_for_a_drain_and_is_paused_afterwards)
{
    start_with(GRID(9) CURVE "drover: {timeout: 10}\n");
    hello("a", "{\"slots\":1}");
    reach_rung(1, 4, 3);
    CHECK(scheduler_deadline(s) == INT64_MAX);
    now += 10000;
    step(SCHEDULER_EV_TICK, NULL, 0, NULL);
    CHECK_STR(gave(), "|");
    step(SCHEDULER_EV_DRAIN, NULL, 0, NULL);
    CHECK_STR(gave(), "|");
    hello("a", "{\"slots\":1,\"running\":[1]}"); /* it may not have received the STOP */
    CHECK_STR(gave(), "| STOP a 0/1 curve;");
    done(1, "{\"status\":0}");
    CHECK_STR(gave(), "PAUSED 0/1 {\"seconds\":0.0}; | END - -1/0 drained;");
    crash();
    CHECK_STR(state_of(0), "paused");
}

TEST(a_reached_target_prunes_what_is_paused)
{
    start_with("method: grid\nprogram: t.py\nparameters: {x: {min: 1, max: 9}}\n"
               "metric: {name: loss, target: 0.1}\n" CURVE);
    hello("a", "{\"slots\":1}");
    reach_rung(1, 4, 3);
    done(1, "{\"status\":0}");
    report(2, "{\"loss\":0.05}");
    done(2, "{\"status\":0}");
    CHECK_HAS(gave(), "ENDED 0/1 {\"state\":\"pruned\"");
    CHECK_HAS(gave(), "END - -1/0 the metric's target is reached;");
}

TEST(asha_decides_after_a_crash_as_without_one)
{
    for (int crashes = 0; crashes < 2; crashes++) {
        start_with(GRID(9) "early_terminate: {type: asha, eta: 2}\n");
        hello("a", "{\"slots\":4}");
        for (int i = 1; i <= 4; i++)
            report(i, i < 4 ? "{\"step\":50,\"loss\":1}" : "{\"step\":300,\"loss\":1}");
        done(4, "{\"status\":0}"); /* settles the first rung's step: 3 */
        report(1, "{\"step\":51,\"loss\":3}");
        CHECK_STR(state_of(0), "running");
        if (crashes)
            crash();
        report(2, "{\"step\":51,\"loss\":4}"); /* half of two is one, but not this one */
        CHECK_HAS(gave(), "STOPPING 1/2 {\"why\":\"asha\"}");
        report(3, "{\"step\":51,\"loss\":2}");
        CHECK_STR(state_of(2), "running");
    }
}

/* The parameters of 12 trials under `bayes`, one after the other, as lines; with a crash after each
 * trial, or without. A worker is lost and reconnects, so that a proposal is made before a result.
 */
static char *suggested(bool crashes)
{
    struct strbuf b = {0};
    start_with("method: bayes\nprogram: t.py\nrun_cap: 12\nmetric: {name: loss}\n"
               "parameters: {x: {min: 0.0, max: 1.0}, y: {min: 0.0, max: 1.0}}\n"
               "drover: {seed: 5}\n");
    for (int i = 1; i <= 12; i++) {
        char id[16], json[64];
        snprintf(id, sizeof id, "w%d", i);
        hello(id, "{\"slots\":1}");
        CHECK_INT(out.action_count, 1);
        AUTO(free) char *line = json_line(out.actions[0].params);
        strbuf_printf(&b, "%s\n", line);
        double x = json_number_value(json_object_get(out.actions[0].params, "x")) - 0.3;
        double y = json_number_value(json_object_get(out.actions[0].params, "y")) - 0.6;
        snprintf(json, sizeof json, "{\"loss\":%.17g}", x * x + y * y + 0.3 * x * y);
        step(SCHEDULER_EV_LOST, id, 0, NULL);
        report(i, json);
        done(i, "{\"status\":0}");
        step(SCHEDULER_EV_TICK, NULL, 0, NULL);
        if (crashes)
            crash();
    }
    return strbuf_take(&b);
}

TEST(restarts_change_no_suggestion_of_a_method_that_learns)
{
    AUTO(free) char *one = suggested(false);
    AUTO(free) char *two = suggested(true);
    CHECK_STR(two, one);
}

/* The parameters of 72 trials under `bayes`, as lines; with crashes after the later ones, or
 * without. With this many trials, the model is fitted anew for some of them only. */
static char *suggested_later(bool crashes)
{
    struct strbuf b = {0};
    start_with("method: bayes\nprogram: t.py\nrun_cap: 72\nmetric: {name: loss}\n"
               "parameters: {x: {min: 0.0, max: 1.0}, y: {min: 0.0, max: 1.0}}\n"
               "drover: {seed: 5}\n");
    hello("w", "{\"slots\":1}");
    for (int i = 1; i <= 72; i++) {
        char json[64];
        AUTO(json) json_t *t = scheduler_trial_json(s, i - 1);
        const json_t *params = json_object_get(t, "params");
        AUTO(free) char *line = json_line(params);
        strbuf_printf(&b, "%s\n", line);
        double x = json_number_value(json_object_get(params, "x")) - 0.3;
        double y = json_number_value(json_object_get(params, "y")) - 0.6;
        snprintf(json, sizeof json, "{\"loss\":%.17g}", x * x + y * y + 0.3 * x * y);
        report(i, json);
        done(i, "{\"status\":0}");
        if (crashes && i > 62 && i < 72) {
            snprintf(json, sizeof json, "{\"slots\":1,\"running\":[%d]}", i + 1);
            crash();
            hello("w", json);
        }
    }
    return strbuf_take(&b);
}

TEST(a_restart_keeps_what_the_model_had_learned_before_the_last_trial)
{
    AUTO(free) char *one = suggested_later(false);
    AUTO(free) char *two = suggested_later(true);
    CHECK_STR(two, one);
}

/* The next proposal after paused trials of a lost worker turned out to have succeeded, although a
 * proposal had been made already. */
static char *suggested_late(bool crashes)
{
    start_with("method: bayes\nprogram: t.py\nrun_cap: 40\nmetric: {name: loss}\n"
               "parameters: {x: {min: 0.0, max: 1.0}}\n" CURVE);
    hello("a", "{\"slots\":12}");
    step(SCHEDULER_EV_LEAVING, "a", 0, NULL);
    for (int i = 1; i <= 12; i++) {
        AUTO(json) json_t *t = scheduler_trial_json(s, i - 1);
        double x = json_number_value(json_object_get(json_object_get(t, "params"), "x"));
        reach_rung(i, 9, 1 + (x - 0.77) * (x - 0.77));
        if (strcmp(state_of(i - 1), "running") == 0)
            done(i, "{\"status\":0}");
    }
    step(SCHEDULER_EV_LOST, "a", 0, NULL); /* pausing trials are paused; none waits */
    CHECK(scheduler_counts(s).paused > 2);
    for (int i = 1; i <= 12; i++)
        done(i, "{\"status\":0,\"stopped\":false}");
    if (crashes)
        crash();
    hello("b", "{\"slots\":1}");
    CHECK_HAS(gave(), "CREATED 12/0");
    return json_line(out.actions[0].params);
}

TEST(a_suggestion_that_was_computed_ahead_does_not_ignore_what_came_in)
{
    AUTO(free) char *one = suggested_late(false);
    AUTO(free) char *two = suggested_late(true);
    CHECK_STR(two, one);
}
