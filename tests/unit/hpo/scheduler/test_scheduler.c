#include "tests/unit/kit_scheduler.h"

TEST(a_trial_is_created_leased_and_run_when_a_slot_is_free)
{
    start_with(GRID(3));
    step(SCHEDULER_EV_TICK, NULL, 0, NULL);
    CHECK_STR(gave(), "|");
    hello("a", "{\"slots\":2,\"node\":\"n1\",\"running\":[]}");
    CHECK_STR(gave(), "CREATED 0/0 ; LEASED 0/1 {\"worker\":\"a\",\"node\":\"n1\"}; "
                      "CREATED 1/0 ; LEASED 1/2 {\"worker\":\"a\",\"node\":\"n1\"}; "
                      "| RUN a 0/1; RUN a 1/2;");
    CHECK_INT(json_integer_value(json_object_get(out.actions[0].params, "x")), 1);
    CHECK_INT(scheduler_counts(s).total_wanted, 3);
    CHECK_INT(scheduler_counts(s).running, 2);
}

TEST(reports_are_stored_and_their_best_counts)
{
    start_with(ONE);
    hello("a", "{\"slots\":1}");
    report(1, "{\"loss\":0.5,\"acc\":1,\"note\":\"x\"}");
    CHECK_STR(gave(), "REPORT 0/1 {\"step\":0,\"values\":{\"loss\":0.5,\"acc\":1}}; |");
    report(1, "{\"step\":7,\"loss\":0.25}");
    report(1, "{\"loss\":\"nan\",\"step\":8}");
    CHECK_STR(gave(), "REPORT 0/1 {\"step\":8,\"values\":{\"loss\":\"nan\"}}; |");
    report(1, "{\"step\":9.5,\"loss\":0.75}");
    report(1, "{\"note\":\"no number\"}");
    CHECK_STR(gave(), "|");
    done(1, "{\"status\":0,\"seconds\":2.5}");
    CHECK_STR(gave(), "ENDED 0/1 {\"state\":\"done\",\"seconds\":2.5,\"value\":0.25}; "
                      "| END - -1/0 every point of the space is tried;");
    AUTO(json) json_t *t = scheduler_trial_json(s, 0);
    AUTO(free) char *text = json_line(t);
    CHECK_STR(text,
              "{\"id\":0,\"state\":\"done\",\"params\":{\"x\":1},\"value\":0.25,\"steps\":3,"
              "\"node\":null,\"seconds\":2.5,\"lease\":1,\"metrics\":{\"loss\":0.75,\"acc\":1}}");
    CHECK(scheduler_is_done(s));
    CHECK_INT(scheduler_best(s), 0);
    step(SCHEDULER_EV_TICK, NULL, 0, NULL);
    CHECK_STR(gave(), "|"); /* END comes once */
}

TEST(value_last_takes_the_last_and_maximize_the_highest)
{
    start_with("method: grid\nprogram: t\nparameters: {x: {min: 1, max: 2}}\n"
               "metric: {name: acc, goal: maximize}\ndrover: {value: last}\n");
    hello("a", "{\"slots\":2}");
    report(1, "{\"step\":1,\"acc\":0.9}");
    report(1, "{\"step\":2,\"acc\":0.2}");
    report(2, "{\"step\":1,\"acc\":0.3}");
    CHECK_INT(scheduler_best(s), 1);
    AUTO(json) json_t *t = scheduler_trial_json(s, 0);
    CHECK_NEAR(json_number_value(json_object_get(t, "value")), 0.2, 0);
}

TEST(a_sweep_without_a_metric_needs_no_report)
{
    start_with("method: grid\nprogram: t\nparameters: {x: {min: 1, max: 2}}\n");
    hello("a", "{\"slots\":1}");
    done(1, "{\"status\":0}");
    CHECK_STR(state_of(0), "done");
    CHECK_INT(scheduler_best(s), -1);
}

TEST(failures_say_why)
{
    start_with(GRID(4) "drover: {give_up_after: 0}\n");
    hello("a", "{\"slots\":4}");
    done(1, "{\"status\":3}");
    CHECK_HAS(gave(),
              "\"state\":\"failed\",\"seconds\":0.0,\"value\":null,\"error\":\"exit status 3\"");
    done(2, "{\"status\":0,\"signal\":9}");
    CHECK_HAS(gave(), "killed by signal 9 (Killed)");
    done(3, "{\"status\":1,\"error\":\"rank 2: boom\"}");
    CHECK_HAS(gave(), "rank 2: boom");
    done(4, "{\"status\":1,\"oom\":true}");
    CHECK_STR(state_of(3), "oom");
    CHECK_INT(scheduler_counts(s).failed, 3);
    CHECK_INT(scheduler_counts(s).oom, 1);
}

TEST(the_first_end_counts)
{
    start_with(ONE);
    hello("a", "{\"slots\":1}");
    report(1, "{\"loss\":1}");
    done(1, "{\"status\":0}");
    done(1, "{\"status\":1}");
    CHECK_STR(gave(), "|");
    report(1, "{\"loss\":0}");
    CHECK_STR(gave(), "|");
    CHECK_STR(state_of(0), "done");
}

TEST(a_lost_workers_trials_wait_again_and_go_first)
{
    start_with(GRID(3));
    hello("a", "{\"slots\":1}");
    report(1, "{\"loss\":1}");
    step(SCHEDULER_EV_LOST, "a", 0, NULL);
    CHECK_STR(gave(), "REQUEUED 0/1 {\"why\":\"lost\",\"spent\":true}; |");
    CHECK_STR(state_of(0), "waiting");
    hello("b", "{\"slots\":2}");
    CHECK_HAS(gave(), "LEASED 0/2 {\"worker\":\"b\",\"node\":null}; CREATED 1/0 ;");
    done(1, "{\"status\":0}"); /* leased again: the old lease is void */
    CHECK_STR(gave(), "|");
    hello("a", "{\"slots\":0,\"running\":[1]}");
    CHECK_STR(gave(), "| STOP a 0/1 this lease is void;");
}

TEST(a_lost_lease_may_still_report_and_succeed_until_the_trial_is_leased_again)
{
    start_with(ONE);
    hello("a", "{\"slots\":1}");
    step(SCHEDULER_EV_LOST, "a", 0, NULL);
    report(1, "{\"loss\":0.5}");
    CHECK_INT(out.record_count, 1);
    CHECK_STR(state_of(0), "waiting");
    done(1, "{\"status\":1}");
    CHECK_STR(gave(), "|");
    done(1, "{\"status\":0,\"seconds\":1}");
    CHECK_HAS(gave(), "ENDED 0/1 {\"state\":\"done\",\"seconds\":1.0,\"value\":0.5}; | END");
}

TEST(a_trial_that_comes_back_before_it_was_started_has_spent_no_retry)
{
    start_with(ONE "drover: {retries: 0}\n");
    hello("a", "{\"slots\":1}");
    for (int lease = 1; lease <= 5; lease++) {
        done(lease, "{\"status\":-1,\"preempted\":true,\"stopped\":true,\"not_started\":true}");
        CHECK_HAS(gave(), "{\"why\":\"preempted\",\"spent\":false}; LEASED 0/");
    }
    done(6, "{\"status\":1,\"preempted\":true}");
    CHECK_HAS(gave(), "\"error\":\"it was preempted after 0 retries\"}; | END");
}

TEST(retries_are_spent_by_losses_and_preemption_but_not_by_drains)
{
    start_with(ONE "drover: {retries: 2}\n");
    hello("a", "{\"slots\":1}");
    done(1, "{\"status\":1,\"preempted\":true}");
    CHECK_HAS(gave(), "REQUEUED 0/1 {\"why\":\"preempted\",\"spent\":true}; LEASED 0/2");
    step(SCHEDULER_EV_LOST, "a", 0, NULL);
    hello("a", "{\"slots\":1}");
    CHECK_HAS(gave(), "LEASED 0/3");
    step(SCHEDULER_EV_LOST, "a", 0, NULL);
    CHECK_HAS(gave(), "ENDED 0/3 {\"state\":\"failed\",\"seconds\":0.0,\"value\":null,"
                      "\"error\":\"its worker was lost after 2 retries\"}; | END");
}

TEST(failed_trials_are_run_again_only_where_that_was_asked_for)
{
    start_with(ONE "drover: {retries: 1, retry_failed: true}\n");
    hello("a", "{\"slots\":1}");
    done(1, "{\"status\":7}");
    CHECK_HAS(gave(),
              "REQUEUED 0/1 {\"why\":\"failed\",\"spent\":true,\"error\":\"exit status 7\"}; "
              "LEASED 0/2");
    done(2, "{\"status\":7}");
    CHECK_STR(state_of(0), "failed");
}

TEST(a_median_stop_is_decided_at_the_report)
{
    start_with(GRID(4) "early_terminate: {type: median, min_trials: 2}\n");
    hello("a", "{\"slots\":3}");
    report(1, "{\"step\":1,\"loss\":1}");
    report(2, "{\"step\":1,\"loss\":2}");
    done(1, "{\"status\":0}");
    done(2, "{\"status\":0}");
    report(3, "{\"step\":1,\"loss\":1.5}"); /* equal to the median is kept */
    CHECK_INT(out.action_count, 0);
    report(4, "{\"step\":1,\"loss\":1.6}");
    CHECK_HAS(gave(), "STOPPING 3/4 {\"why\":\"median\"}; | STOP a 3/4 median;");
    CHECK_STR(state_of(3), "stopping");
    report(4, "{\"step\":2,\"loss\":1.25}"); /* the answer is still: stop */
    CHECK_HAS(gave(), "| STOP a 3/4 median;");
    done(4, "{\"status\":0,\"seconds\":1}");
    CHECK_HAS(gave(),
              "ENDED 3/4 {\"state\":\"pruned\",\"seconds\":1.0,\"value\":1.25,\"why\":\"median\"}");
}

TEST(an_end_that_crossed_the_stop_counts_as_it_was)
{
    start_with(GRID(4) "early_terminate: {type: median, min_trials: 1}\n");
    hello("a", "{\"slots\":2}");
    report(1, "{\"step\":1,\"loss\":1}");
    done(1, "{\"status\":0}");
    report(2, "{\"step\":1,\"loss\":5}");
    CHECK_STR(state_of(1), "stopping");
    done(2, "{\"status\":0,\"stopped\":false}");
    CHECK_STR(state_of(1), "done");
}

TEST(a_trial_past_its_time_is_stopped_and_failed)
{
    start_with(ONE "drover: {timeout: 10}\n");
    hello("a", "{\"slots\":1}");
    CHECK_INT(scheduler_deadline(s), 11000);
    now = 10999;
    step(SCHEDULER_EV_TICK, NULL, 0, NULL);
    CHECK_STR(gave(), "|");
    now = 11000;
    step(SCHEDULER_EV_TICK, NULL, 0, NULL);
    CHECK_STR(gave(), "STOPPING 0/1 {\"why\":\"timeout\"}; | STOP a 0/1 timeout;");
    CHECK(scheduler_deadline(s) == INT64_MAX);
    done(1, "{\"status\":0,\"signal\":15}");
    CHECK_HAS(gave(), "\"state\":\"failed\"");
    CHECK_HAS(gave(), "ran longer than the timeout of 10 s");
}

TEST(a_reached_target_starts_no_new_trial_and_lets_the_others_end)
{
    start_with("method: grid\nprogram: t.py\nparameters: {x: {min: 1, max: 9}}\n"
               "metric: {name: loss, target: 0.1}\n");
    hello("a", "{\"slots\":2}");
    hello("b", "{\"slots\":1}");
    report(1, "{\"loss\":0.05}");
    done(1, "{\"status\":0}");
    CHECK_INT(out.action_count, 0);
    CHECK_STR(state_of(1), "leased");
    step(SCHEDULER_EV_LOST, "b", 0, NULL); /* waiting trials will never run */
    CHECK_STR(state_of(2), "waiting");
    report(2, "{\"loss\":3}");
    done(2, "{\"status\":0}");
    CHECK_STR(state_of(2), "cancelled");
    CHECK_HAS(gave(), "END - -1/0 the metric's target is reached;");
}

TEST(a_drain_stops_all_and_keeps_them_for_later)
{
    start_with(GRID(5));
    hello("a", "{\"slots\":2}");
    step(SCHEDULER_EV_DRAIN, NULL, 0, NULL);
    CHECK_HAS(gave(), "STOP a 0/1 drain; STOP a 1/2 drain;");
    done(1, "{\"status\":0,\"signal\":15}");
    CHECK_STR(gave(), "REQUEUED 0/1 {\"why\":\"drain\",\"spent\":false}; |");
    step(SCHEDULER_EV_LOST, "a", 0, NULL);
    CHECK_STR(gave(), "REQUEUED 1/2 {\"why\":\"drain\",\"spent\":false}; | END - -1/0 drained;");
    crash();
    hello("b", "{\"slots\":2}");
    CHECK_HAS(gave(), "| RUN b 0/3; RUN b 1/4;");
}

TEST(parallel_limits_what_runs_at_once)
{
    start_with(GRID(9) "drover: {parallel: 3}\n");
    hello("a", "{\"slots\":2}");
    hello("b", "{\"slots\":8}");
    CHECK_INT(scheduler_counts(s).running, 3);
    report(1, "{\"loss\":1}");
    done(1, "{\"status\":0}");
    CHECK_HAS(gave(), "RUN b 3/4");
    CHECK_INT(scheduler_counts(s).running, 3);
}

TEST(trials_spread_over_the_workers)
{
    start_with(GRID(9) "drover: {parallel: 4}\n");
    hello("a", "{\"slots\":0}");
    hello("b", "{\"slots\":4}");
    CHECK_INT(out.action_count, 4);
    step(SCHEDULER_EV_LOST, "b", 0, NULL);
    hello("c", "{\"slots\":2}");
    hello("d", "{\"slots\":3}");
    CHECK_HAS(gave(), "| RUN d 2/7; RUN d 3/8;");
}

TEST(a_worker_may_have_more_or_fewer_slots_as_it_goes)
{
    start_with(GRID(9));
    hello("a", "{\"slots\":0}");
    CHECK_INT(out.action_count, 0);
    step(SCHEDULER_EV_SLOTS, "a", 0, "{\"slots\":2}");
    CHECK_INT(scheduler_counts(s).running, 2);
    step(SCHEDULER_EV_SLOTS, "a", 0, "{\"slots\":1}");
    CHECK_INT(scheduler_counts(s).running, 2); /* running trials continue */
    report(1, "{\"loss\":1}");
    done(1, "{\"status\":0}");
    CHECK_INT(scheduler_counts(s).running, 1);
    step(SCHEDULER_EV_SLOTS, "a", 0, "{\"slots\":3}");
    CHECK_INT(scheduler_counts(s).running, 3);
    step(SCHEDULER_EV_SLOTS, "stranger", 0, "{\"slots\":3}");
    CHECK_INT(out.action_count, 0);
    CHECK_INT(step_rc(SCHEDULER_EV_SLOTS, "a", 0, "{\"slots\":-1}"), -EINVAL);
    CHECK_INT(step_rc(SCHEDULER_EV_SLOTS, "a", 0, "{}"), -EINVAL);
}

TEST(a_leaving_worker_gets_no_more_but_keeps_what_it_has)
{
    start_with(GRID(9));
    hello("a", "{\"slots\":1}");
    step(SCHEDULER_EV_LEAVING, "a", 0, NULL);
    report(1, "{\"loss\":1}");
    done(1, "{\"status\":0}");
    CHECK_INT(out.action_count, 0);
    CHECK_STR(state_of(0), "done");
}

TEST(the_sweep_gives_up_when_the_first_trials_all_fail)
{
    start_with(GRID(9) "drover: {give_up_after: 2}\n");
    hello("a", "{\"slots\":1}");
    done(1, "{\"status\":1}");
    CHECK_HAS(gave(), "RUN a 1/2");
    done(2, "{\"status\":1}");
    CHECK_HAS(gave(), "END - -1/0 gave up: the first trials all failed");
    crash(); /* starting it again gives it another chance */
    hello("b", "{\"slots\":1}");
    CHECK_HAS(gave(), "RUN b 2/3");
}

TEST(after_a_success_failures_do_not_end_the_sweep)
{
    start_with(GRID(9) "drover: {give_up_after: 2}\n");
    hello("a", "{\"slots\":1}");
    report(1, "{\"loss\":1}");
    done(1, "{\"status\":0}");
    for (int i = 2; i < 6; i++)
        done(i, "{\"status\":1}");
    CHECK_HAS(gave(), "RUN a 5/6");
}

TEST(run_cap_ends_the_sweep)
{
    start_with(RANDOM "run_cap: 2\n");
    CHECK_INT(scheduler_counts(s).total_wanted, 2);
    hello("a", "{\"slots\":4}");
    CHECK_INT((int)scheduler_view(s).count, 2);
    for (int i = 1; i <= 2; i++) {
        report(i, "{\"loss\":1}");
        done(i, "{\"status\":0}");
    }
    CHECK_HAS(gave(), "END - -1/0 run_cap is reached;");
}

TEST(start_points_come_first_and_are_not_repeated_by_the_grid)
{
    start_with("method: grid\nprogram: t\nparameters: {x: {min: 1, max: 3}, y: {value: 7}}\n"
               "drover: {start: [{x: 3}, {x: 2}]}\n");
    CHECK_INT(scheduler_counts(s).total_wanted, 3);
    hello("a", "{\"slots\":4}");
    CHECK_INT(out.action_count, 3);
    static const int want[] = {3, 2, 1};
    for (int i = 0; i < 3; i++) {
        CHECK_INT(json_integer_value(json_object_get(out.actions[i].params, "x")), want[i]);
        CHECK_INT(json_integer_value(json_object_get(out.actions[i].params, "y")), 7);
    }
}

TEST(a_workers_unlisted_lease_never_ran_and_a_listed_one_stays)
{
    start_with(GRID(5) "drover: {retries: 0}\n");
    hello("a", "{\"slots\":2}");
    hello("a", "{\"slots\":2,\"running\":[2]}");
    CHECK_HAS(gave(), "REQUEUED 0/1 {\"why\":\"lost\",\"spent\":false}; LEASED 0/3");
    CHECK_HAS(gave(), "| STOP a 0/1 this lease is void; RUN a 0/3;");
    CHECK_STR(state_of(1), "leased");
    hello("a", "{\"slots\":2,\"running\":[2,3,77]}");
    CHECK_STR(gave(), "| STOP a -1/77 this lease is void;");
}

TEST(after_a_restart_a_worker_claims_its_leases)
{
    start_with(GRID(5));
    hello("a", "{\"slots\":2}");
    report(2, "{\"loss\":4}");
    crash();
    CHECK_INT(scheduler_deadline(s), now + 120000);
    hello("a", "{\"slots\":2,\"running\":[2]}"); /* it did not receive the RUN of lease 1 */
    CHECK_HAS(gave(), "REQUEUED 0/1 {\"why\":\"lost\",\"spent\":false}; LEASED 0/3");
    CHECK(scheduler_deadline(s) == INT64_MAX);
    report(2, "{\"loss\":3}");
    CHECK_STR(gave(), "REPORT 1/2 {\"step\":1,\"values\":{\"loss\":3}}; |");
}

TEST(after_a_restart_leases_that_nobody_claims_are_void_in_time)
{
    start_with(GRID(5));
    hello("a", "{\"slots\":1}");
    crash();
    now += 119999;
    step(SCHEDULER_EV_TICK, NULL, 0, NULL);
    CHECK_STR(gave(), "|");
    report(1, "{\"loss\":3}"); /* before its hello */
    CHECK_INT(out.record_count, 1);
    now++;
    step(SCHEDULER_EV_TICK, NULL, 0, NULL);
    CHECK_HAS(gave(), "REQUEUED 0/1 {\"why\":\"lost\",\"spent\":true}; |");
}

TEST(a_new_lease_replaces_the_history_from_its_first_step)
{
    start_with(ONE);
    hello("a", "{\"slots\":1}");
    for (int i = 0; i < 5; i++) {
        char json[64];
        snprintf(json, sizeof json, "{\"step\":%d,\"loss\":%g}", i, 5.0 - i);
        report(1, json);
    }
    done(1, "{\"status\":1,\"preempted\":true}");
    report(2, "{\"step\":3,\"loss\":2.5}");
    crash();
    AUTO(json) json_t *t = scheduler_trial_json(s, 0);
    CHECK_INT(json_integer_value(json_object_get(t, "steps")), 4);
    CHECK_NEAR(json_number_value(json_object_get(t, "value")), 2.5, 0);
}

TEST(malformed_events_are_refused_and_change_nothing)
{
    start_with(GRID(5));
    hello("a", "{\"slots\":1}");
    AUTO(json) json_t *before = scheduler_dump(s);
    CHECK_INT(step_rc(SCHEDULER_EV_HELLO, "b", 0, "{}"), -EINVAL);
    CHECK_INT(step_rc(SCHEDULER_EV_HELLO, "b", 0, "{\"slots\":-1}"), -EINVAL);
    CHECK_INT(step_rc(SCHEDULER_EV_HELLO, NULL, 0, "{\"slots\":1}"), -EINVAL);
    CHECK_INT(step_rc(SCHEDULER_EV_HELLO, "\xff", 0, "{\"slots\":1}"), -EINVAL);
    CHECK_INT(step_rc(SCHEDULER_EV_HELLO, "b", 0, "{\"slots\":1,\"running\":3}"), -EINVAL);
    CHECK_INT(step_rc(SCHEDULER_EV_REPORT, "a", 1, NULL), -EINVAL);
    CHECK_INT(step_rc(SCHEDULER_EV_DONE, "a", 1, "{\"status\":\"0\"}"), -EINVAL);
    CHECK_INT(step_rc((enum scheduler_event_kind)99, "a", 1, NULL), -EINVAL);
    step(SCHEDULER_EV_DONE, "a", 99, "{}");
    step(SCHEDULER_EV_REPORT, "a", -5, "{\"loss\":1}");
    step(SCHEDULER_EV_LOST, "nobody", 0, NULL);
    step(SCHEDULER_EV_LEAVING, NULL, 0, NULL);
    AUTO(json) json_t *after = scheduler_dump(s);
    CHECK(json_equal(before, after));
    CHECK_INT(out.record_count + out.action_count, 0);
}

TEST(records_that_contradict_each_other_are_damage)
{
    static const struct {
        int kind, trial, lease;
        const char *data;
    } bad[] = {
        {SCHEDULER_REC_CREATED, 2, 0, "{\"params\":{}}"},
        {SCHEDULER_REC_CREATED, 1, 0, "{}"},
        {SCHEDULER_REC_LEASED, 0, 2, "{\"worker\":\"a\"}"},
        {SCHEDULER_REC_LEASED, 1, 2, "{\"worker\":\"a\"}"},
        {SCHEDULER_REC_REPORT, 0, 2, "{\"step\":1,\"values\":{}}"},
        {SCHEDULER_REC_REPORT, 0, 1, "{\"values\":{}}"},
        {SCHEDULER_REC_ENDED, 0, 1, "{\"state\":\"running\"}"},
        {SCHEDULER_REC_ENDED, 0, 1, "{}"},
        {SCHEDULER_REC_ENDED, -1, 1, "{\"state\":\"done\"}"},
        {SCHEDULER_REC_KINDS, 0, 1, "{}"},
    };
    start_with(GRID(5) "drover: {parallel: 1}\n");
    hello("a", "{\"slots\":1}");
    AUTO(json) json_t *before = scheduler_dump(s);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        AUTO(json) json_t *data = json_loads(bad[i].data, 0, NULL);
        struct scheduler_record r = {(enum scheduler_record_kind)bad[i].kind, 0, bad[i].trial,
                                     bad[i].lease, data};
        struct err e = {0};
        if (scheduler_replay(s, &r, &e) != -EINVAL)
            FAIL("row %zu was taken", i);
        CHECK_HAS(e.text, "trial");
    }
    AUTO(json) json_t *after = scheduler_dump(s);
    CHECK(json_equal(before, after));
}

/* Literal data of records as stores have them: the words of stop reasons never change. */
TEST(the_records_of_a_store_are_read_with_the_words_that_it_has)
{
    static const struct {
        enum scheduler_record_kind kind;
        const char *data, *state, *why;
    } steps[] = {
        {SCHEDULER_REC_CREATED, "{\"params\":{\"x\":1}}", "waiting", NULL},
        {SCHEDULER_REC_LEASED, "{\"worker\":\"a\",\"node\":\"n\"}", "leased", NULL},
        {SCHEDULER_REC_STOPPING, "{\"why\":\"drain\"}", "stopping", "drain"},
        {SCHEDULER_REC_REQUEUED, "{\"why\":\"drain\",\"spent\":false}", "waiting", "drain"},
        {SCHEDULER_REC_LEASED, "{\"worker\":\"a\"}", "leased", "drain"},
        {SCHEDULER_REC_REQUEUED, "{\"why\":\"lost\",\"spent\":true}", "waiting", "lost"},
        {SCHEDULER_REC_LEASED, "{\"worker\":\"a\"}", "leased", "lost"},
        {SCHEDULER_REC_REQUEUED, "{\"why\":\"failed\",\"spent\":true,\"error\":\"exit status 1\"}",
         "waiting", "failed"},
        {SCHEDULER_REC_LEASED, "{\"worker\":\"a\"}", "leased", "failed"},
        {SCHEDULER_REC_PAUSING, "{\"why\":\"curve\"}", "pausing", "curve"},
        {SCHEDULER_REC_PAUSED, "{\"seconds\":1.5}", "paused", "curve"},
        {SCHEDULER_REC_LEASED, "{\"worker\":\"a\"}", "leased", "curve"},
        {SCHEDULER_REC_STOPPING, "{\"why\":\"timeout\"}", "stopping", "timeout"},
        {SCHEDULER_REC_ENDED,
         "{\"state\":\"failed\",\"seconds\":2.0,\"value\":null,\"error\":\"late\",\"why\":"
         "\"timeout\"}",
         "failed", "timeout"},
        {SCHEDULER_REC_RETRIED, "{}", "waiting", NULL},
        {SCHEDULER_REC_ENDED,
         "{\"state\":\"cancelled\",\"value\":null,\"seconds\":0.0,\"why\":\"it was stopped (drover "
         "sweep resume goes on)\"}",
         "cancelled", "it was stopped (drover sweep resume goes on)"},
    };
    start_with(ONE);
    for (size_t i = 0, leases = 0; i < COUNT_OF(steps); i++) {
        AUTO(json) json_t *data = json_loads(steps[i].data, 0, NULL);
        CHECK(data);
        leases += steps[i].kind == SCHEDULER_REC_LEASED;
        struct scheduler_record r = {steps[i].kind, 5, 0, (int64_t)leases, data};
        struct err e = {0};
        if (scheduler_replay(s, &r, &e) < 0)
            FAIL("record %zu: %s", i, e.text);
        AUTO(json) json_t *t = scheduler_trial_json(s, 0);
        CHECK_STR(state_of(0), steps[i].state);
        const char *why = json_string_value(json_object_get(t, "why"));
        if (steps[i].why ? !why || strcmp(why, steps[i].why) != 0 : why != NULL)
            FAIL("record %zu: the reason is %s", i, why ? why : "missing");
    }
}

TEST(a_worker_that_comes_back_hears_again_what_it_is_to_stop)
{
    start_with(ONE "drover: {timeout: 10}\n");
    hello("a", "{\"slots\":1}");
    now += 10000;
    step(SCHEDULER_EV_TICK, NULL, 0, NULL);
    hello("a", "{\"slots\":1,\"running\":[1]}");
    CHECK_STR(gave(), "| STOP a 0/1 timeout;");
    hello("a", "{\"slots\":1,\"running\":[]}"); /* stopped, but its DONE was not received */
    CHECK_HAS(gave(), "\"state\":\"failed\"");
}
