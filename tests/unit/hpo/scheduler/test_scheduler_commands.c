/* test_scheduler_commands - the user's commands, step by step. */
#include "tests/unit/kit_scheduler.h"

static void ask(const char *json)
{
    step(SCHEDULER_EV_COMMAND, NULL, 0, json);
}

/* The text and hint of a rejected command; nothing has happened. */
static const char *refused(const char *json)
{
    static struct err e;
    e = (struct err){0};
    AUTO(json) json_t *data = json_loads(json, 0, NULL), *before = scheduler_dump(s);
    const struct scheduler_event ev = {SCHEDULER_EV_COMMAND, NULL, 0, data};
    CHECK_INT(scheduler_handle(s, &ev, now, &out, &e), -EINVAL);
    CHECK_STR(gave(), "|");
    AUTO(json) json_t *after = scheduler_dump(s);
    CHECK(json_equal(before, after));
    return e.text;
}

TEST(a_stop_ends_what_runs_and_what_waits_as_cancelled)
{
    start_with(GRID(9));
    hello("a", "{\"slots\":2}");
    report(1, "{\"step\":1,\"loss\":3}");
    step(SCHEDULER_EV_LOST, "a", 0, NULL);
    hello("b", "{\"slots\":1}");
    ask("{\"ask\":\"1\",\"verb\":\"stop\"}");
    CHECK_HAS(gave(), "STOPPING 0/3 {\"why\":\"stop\"}; | STOP b 0/3 stop;");
    CHECK(!scheduler_is_done(s));
    step(SCHEDULER_EV_DONE, "b", 3, "{\"status\":0,\"signal\":15,\"seconds\":2}");
    CHECK_HAS(gave(), "ENDED 0/3 {\"state\":\"cancelled\",\"seconds\":2.0,\"value\":3.0,"
                      "\"why\":\"stop\"}; ENDED 1/2 {\"state\":\"cancelled\"");
    CHECK_HAS(gave(), "END - -1/0 it was stopped");
    CHECK(scheduler_is_stopped(s));
    crash();
    hello("b", "{\"slots\":1}");
    CHECK_HAS(gave(), "| END - -1/0 it was stopped");
    CHECK_HAS(refused("{\"ask\":\"2\",\"verb\":\"stop\"}"), "the sweep has ended");
}

TEST(a_stop_now_kills_and_still_does_when_a_worker_is_heard_again)
{
    start_with(GRID(9));
    hello("a", "{\"slots\":1}");
    ask("{\"ask\":\"1\",\"verb\":\"stop\"}");
    ask("{\"ask\":\"2\",\"verb\":\"stop\",\"now\":true}");
    CHECK_HAS(gave(), "| KILL a 0/1 stop;");
    crash();
    hello("a", "{\"slots\":1,\"running\":[1]}");
    CHECK_STR(gave(), "| KILL a 0/1 stop;");
}

TEST(a_paused_sweep_starts_nothing_until_it_is_resumed)
{
    start_with(GRID(3));
    hello("a", "{\"slots\":2}");
    ask("{\"ask\":\"1\",\"verb\":\"pause\"}");
    CHECK_HAS(gave(), "STOPPING 0/1 {\"why\":\"pause\"}; STOPPING 1/2 {\"why\":\"pause\"}; "
                      "| STOP a 0/1 pause; STOP a 1/2 pause;");
    done(1, "{\"status\":0,\"signal\":15}");
    CHECK_STR(gave(), "REQUEUED 0/1 {\"why\":\"pause\",\"spent\":false}; |");
    crash();
    CHECK(scheduler_is_paused(s));
    hello("a", "{\"slots\":2,\"running\":[2]}");
    CHECK_STR(gave(), "| STOP a 1/2 pause;");
    done(2, "{\"status\":0,\"signal\":15}");
    CHECK(!scheduler_is_done(s));
    ask("{\"ask\":\"2\",\"verb\":\"resume\"}");
    CHECK_HAS(gave(), "| RUN a 0/3; RUN a 1/4;");
    CHECK_HAS(refused("{\"ask\":\"3\",\"verb\":\"resume\"}"), "neither paused nor stopped");
}

TEST(a_pause_may_let_trials_come_to_their_end)
{
    start_with(ONE);
    hello("a", "{\"slots\":1}");
    ask("{\"ask\":\"1\",\"verb\":\"pause\",\"finish\":true}");
    CHECK_STR(state_of(0), "leased");
    report(1, "{\"step\":1,\"loss\":3}");
    done(1, "{\"status\":0}");
    CHECK_HAS(gave(), "ENDED 0/1 {\"state\":\"done\"");
    CHECK(scheduler_is_done(s)); /* nothing is left to resume */
}

TEST(a_stop_may_let_trials_finish)
{
    start_with(GRID(9));
    hello("a", "{\"slots\":2}");
    ask("{\"ask\":\"1\",\"verb\":\"stop\",\"finish\":true}");
    CHECK_HAS(gave(), "\"finish\":true}; |");
    CHECK_STR(state_of(0), "leased");
    report(1, "{\"step\":1,\"loss\":3}");
    done(1, "{\"status\":0}");
    CHECK_HAS(gave(), "ENDED 0/1 {\"state\":\"done\"");
    CHECK(!strstr(gave(), "RUN"));
    crash();
    hello("a", "{\"slots\":2,\"running\":[2]}");
    CHECK_STR(gave(), "|");
    step(SCHEDULER_EV_LOST, "a", 0, NULL); /* it waits then, in a sweep that starts nothing */
    CHECK_HAS(gave(), "ENDED 1/2 {\"state\":\"cancelled\"");
    CHECK_HAS(gave(), "END - -1/0 it was stopped");
}

TEST(a_stop_of_an_earlier_version_still_stops_the_running_trials)
{
    AUTO(json) json_t *data = json_loads("{\"ask\":\"1\",\"verb\":\"stop\",\"now\":true}", 0, NULL);
    const struct scheduler_record r = {SCHEDULER_REC_COMMAND, 1, -1, 0, data};
    start_with(GRID(9));
    CHECK_INT(scheduler_replay(s, &r, NULL), 0);
    CHECK(scheduler_is_stopped(s));
    hello("a", "{\"slots\":1}");
    CHECK_HAS(gave(), "| END - -1/0 it was stopped");
}

TEST(trials_are_cancelled_one_by_one)
{
    start_with(GRID(5) "drover: {retries: 1}\n");
    hello("a", "{\"slots\":2}");
    ask("{\"ask\":\"1\",\"verb\":\"cancel\",\"trials\":[1,1]}");
    CHECK_HAS(gave(), "STOPPING 1/2 {\"why\":\"stop\"}; | STOP a 1/2 stop;");
    CHECK(!strstr(gave(), "STOPPING 1/2 {\"why\":\"stop\"}; STOPPING"));
    ask("{\"ask\":\"2\",\"verb\":\"cancel\",\"trials\":[1],\"now\":true}");
    CHECK_HAS(gave(), "| KILL a 1/2 stop;");
    done(2, "{\"status\":0,\"signal\":15,\"seconds\":2}");
    CHECK_HAS(gave(), "ENDED 1/2 {\"state\":\"cancelled\"");
    CHECK_HAS(gave(), "RUN a 2/3;"); /* the sweep continues */
    CHECK_HAS(refused("{\"ask\":\"3\",\"verb\":\"cancel\",\"trials\":[1]}"),
              "trial 1 has ended: cancelled");
    CHECK_HAS(refused("{\"ask\":\"3\",\"verb\":\"cancel\",\"trials\":[9]}"), "no trial 9");
    CHECK_HAS(refused("{\"ask\":\"3\",\"verb\":\"cancel\"}"), "no trials given");
    crash();
    CHECK_STR(state_of(1), "cancelled");
    CHECK(!scheduler_is_stopped(s));
}

TEST(a_trial_that_waits_or_would_wait_again_is_cancelled)
{
    start_with(GRID(3));
    hello("a", "{\"slots\":2}");
    ask("{\"ask\":\"1\",\"verb\":\"pause\"}");
    ask("{\"ask\":\"2\",\"verb\":\"cancel\",\"trials\":[0]}"); /* it would be requeued */
    CHECK_HAS(gave(), "STOPPING 0/1 {\"why\":\"stop\"}; | STOP a 0/1 stop;");
    done(1, "{\"status\":0,\"signal\":15}");
    CHECK_HAS(gave(), "ENDED 0/1 {\"state\":\"cancelled\"");
    done(2, "{\"status\":0,\"signal\":15}");
    CHECK_STR(state_of(1), "waiting");
    ask("{\"ask\":\"3\",\"verb\":\"cancel\",\"trials\":[1]}");
    CHECK_HAS(gave(), "ENDED 1/2 {\"state\":\"cancelled\"");
    CHECK(scheduler_is_paused(s));
    crash();
    CHECK_STR(state_of(0), "cancelled");
    CHECK_STR(state_of(1), "cancelled");
}

TEST(a_cancel_does_not_withdraw_a_stop)
{
    start_with(GRID(9));
    hello("a", "{\"slots\":2}");
    ask("{\"ask\":\"1\",\"verb\":\"stop\",\"finish\":true}");
    ask("{\"ask\":\"2\",\"verb\":\"cancel\",\"trials\":[0]}");
    CHECK(scheduler_is_stopped(s));
    crash();
    CHECK(scheduler_is_stopped(s));
}

TEST(trials_that_went_wrong_run_again_with_all_their_retries)
{
    start_with(GRID(2) "drover: {give_up_after: 0, retries: 1}\n");
    hello("a", "{\"slots\":1}");
    done(1, "{\"status\":1}");
    report(2, "{\"loss\":1}");
    CHECK_HAS(refused("{\"ask\":\"1\",\"verb\":\"retry\",\"trials\":[0,1]}"), "trial 1 is running");
    CHECK_HAS(refused("{\"ask\":\"1\",\"verb\":\"retry\",\"trials\":[7]}"), "no trial 7");
    done(2, "{\"status\":0}");
    CHECK_HAS(refused("{\"ask\":\"1\",\"verb\":\"retry\",\"trials\":[1]}"), "trial 1 is done");
    CHECK(scheduler_is_done(s));
    crash();
    ask("{\"ask\":\"1\",\"verb\":\"retry\",\"failed\":true,\"trials\":[0]}");
    CHECK_HAS(gave(), "RETRIED 0/1 {}; |");
    CHECK(strstr(gave(), "RETRIED 0/1 {}; RETRIED") == NULL);
    hello("a", "{\"slots\":1}");
    CHECK_HAS(gave(), "| RUN a 0/3;");
    step(SCHEDULER_EV_LOST, "a", 0, NULL);
    CHECK_HAS(gave(), "REQUEUED 0/3 {\"why\":\"lost\",\"spent\":true}");
    hello("a", "{\"slots\":1}");
    done(4, "{\"status\":1}");
    CHECK_HAS(gave(), "\"error\":\"exit status 1\"}; | END - -1/0 every point");
    CHECK_HAS(refused("{\"ask\":\"2\",\"verb\":\"retry\",\"trials\":[]}"), "no trial has failed");
}

TEST(what_an_added_set_lacks_is_drawn)
{
    start_with(
        "method: grid\nprogram: t\nmetric: {name: loss}\nparameters: {x: {min: 1, max: 1000}, "
        "g: {parameters: {y: {min: 1, max: 1000}, z: {value: 7}}}}\n");
    ask("{\"ask\":\"1\",\"verb\":\"add\",\"params\":[{\"x\":5},{\"g\":{\"y\":6}},{},{}]}");
    int64_t x[4], y[4];
    for (int i = 0; i < 4; i++) {
        AUTO(json) json_t *t = scheduler_trial_json(s, i), *g = NULL;
        const json_t *params = json_object_get(t, "params");
        g = json_incref(json_object_get(params, "g"));
        CHECK_INT(json_require_int(&x[i], params, "x", NULL), 0);
        CHECK_INT(json_require_int(&y[i], g, "y", NULL), 0);
        CHECK_INT(json_integer_value(json_object_get(g, "z")), 7);
    }
    CHECK(x[0] == 5 && y[1] == 6);
    CHECK(x[2] != x[3] && y[2] != y[3]); /* different draws for different trials */
}

TEST(parameters_are_added_if_the_space_has_them)
{
    start_with("method: grid\nprogram: t\nmetric: {name: loss}\nparameters: {x: {min: 1, max: 3}, "
               "k: {value: 7}}\ndrover: {start: [{x: 3}, {x: 2}]}\n");
    CHECK_HAS(refused("{\"ask\":\"1\",\"verb\":\"add\",\"params\":[{\"x\":1},{\"x\":4}]}"), "'x'");
    CHECK_HAS(refused("{\"ask\":\"1\",\"verb\":\"add\",\"params\":[{\"y\":4}]}"), "'y'");
    CHECK_HAS(refused("{\"ask\":\"1\",\"verb\":\"add\",\"params\":[5]}"), "");
    CHECK_HAS(refused("{\"ask\":\"1\",\"verb\":\"add\"}"), "neither 'params' nor 'trials'");
    CHECK_HAS(refused("{\"ask\":\"1\",\"verb\":\"add\",\"trials\":2}"), "no run_cap");
    ask("{\"ask\":\"1\",\"verb\":\"add\",\"params\":[{\"x\":1}]}");
    CHECK_HAS(gave(), "CREATED 0/0 ; |");
    AUTO(json) json_t *t = scheduler_trial_json(s, 0);
    CHECK_INT(json_integer_value(json_object_get(json_object_get(t, "params"), "k")), 7);
    CHECK_INT(scheduler_counts(s).total_wanted,
              3); /* a point that the sampler would have proposed anyway */
    hello("a", "{\"slots\":4}");
    CHECK_INT((int)scheduler_view(s).count, 3); /* no set of `start` is left out */
    ask("{\"ask\":\"2\",\"verb\":\"add\",\"params\":[{\"x\":1}]}");
    CHECK_HAS(gave(), "| RUN a 3/4;");
    CHECK_INT(scheduler_counts(s).total_wanted, 4);
    crash();
    CHECK_INT(scheduler_counts(s).total_wanted, 4);
}

TEST(more_trials_than_run_cap_may_be_asked_for)
{
    start_with(RANDOM "run_cap: 1\n");
    hello("a", "{\"slots\":4}");
    CHECK_INT((int)scheduler_view(s).count, 1);
    ask("{\"ask\":\"1\",\"verb\":\"add\",\"trials\":2}");
    CHECK_INT((int)scheduler_view(s).count, 3);
    CHECK_INT(scheduler_counts(s).total_wanted, 3);
    ask("{\"ask\":\"1\",\"verb\":\"add\",\"trials\":2}"); /* the same command again */
    CHECK_STR(gave(), "|");
    crash();
    ask("{\"ask\":\"1\",\"verb\":\"add\",\"trials\":2}");
    CHECK_STR(gave(), "|");
}

TEST(a_search_that_was_asked_ahead_is_the_same_after_a_restart)
{
    for (int restart = 0; restart < 2; restart++) {
        static char first[128];
        start_with(RANDOM "run_cap: 9\ndrover: {retries: 0}\n");
        hello("a", "{\"slots\":1}");
        done(1, "{\"status\":1}"); /* trial 1 runs, and trial 2 is proposed when it ends */
        ask("{\"ask\":\"1\",\"verb\":\"add\",\"params\":[{\"x\":0.5}]}");
        ask("{\"ask\":\"2\",\"verb\":\"retry\",\"failed\":true}");
        if (restart)
            crash();
        hello("a", "{\"slots\":9,\"running\":[2]}");
        AUTO(json) json_t *t = scheduler_trial_json(s, 4);
        AUTO(free) char *params = json_line(json_object_get(t, "params"));
        CHECK(!restart || strcmp(first, params) == 0);
        snprintf(first, sizeof first, "%s", params);
    }
}

TEST(an_ask_that_is_none_is_refused)
{
    start_with(GRID(2));
    CHECK_HAS(refused("{\"ask\":\"1\",\"verb\":\"sing\"}"), "'sing'");
    CHECK_HAS(refused("{\"verb\":\"stop\"}"), "ask");
    CHECK_HAS(refused("{\"ask\":\"1\",\"verb\":\"stop\",\"now\":3}"), "now");
    CHECK_HAS(refused("[]"), "");
}
