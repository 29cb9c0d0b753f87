#include "hpo/search/sched.h"

#include <math.h>

#include "common/json.h"
#include "common/strbuf.h"
#include "common/yaml.h"
#include "hpo/search/spec.h"
#include "tests/unit/test.h"

/* A sweep, the last step's output, and all records so far. One for each test's process. */
static struct spec *spec;
static struct sched *s;
static struct sched_out out;
static struct sched_record records[512];
static int record_count;
static int64_t now = 1000;

/* Instead of any before it. */
static void start_with(const char *yaml)
{
    struct err e = {0};
    while (record_count > 0)
        json_decref(records[--record_count].data);
    sched_free(s);
    spec_free(spec);
    AUTO(yaml_doc) struct yaml_doc *d = NULL;
    if (yaml_read(&d, yaml, strlen(yaml), "s.yaml", &e) < 0 || spec_read(&spec, d, &e) < 0 ||
        sched_new(&s, spec, &e) < 0)
        FAIL("%s", e.text);
}

#define RANDOM                                                                              \
    "method: random\nprogram: t.py\nparameters: {x: {min: 0.0, max: 1.0}}\nmetric: {name: " \
    "loss}\n"
#define GRID(n) \
    "method: grid\nprogram: t.py\nparameters: {x: {min: 1, max: " #n "}}\nmetric: {name: loss}\n"

#define ONE "method: grid\nprogram: t.py\nparameters: {x: {values: [1]}}\nmetric: {name: loss}\n"

static int step_rc(enum sched_event_kind kind, const char *worker, int64_t lease, const char *json)
{
    AUTO(json) json_t *data = json ? json_loads(json, 0, NULL) : NULL;
    CHECK(!json || data);
    struct sched_event ev = {kind, worker, lease, data};
    int rc = sched_step(s, &ev, now, &out, NULL);
    for (size_t i = 0; i < out.record_count; i++) {
        records[record_count] = out.records[i];
        json_incref(records[record_count++].data);
    }
    return rc;
}

static void step(enum sched_event_kind kind, const char *worker, int64_t lease, const char *json)
{
    CHECK_INT(step_rc(kind, worker, lease, json), 0);
}

static void hello(const char *worker, const char *json)
{
    step(SCHED_EV_HELLO, worker, 0, json);
}
static void report(int64_t lease, const char *json)
{
    step(SCHED_EV_REPORT, "a", lease, json);
}
static void done(int64_t lease, const char *json)
{
    step(SCHED_EV_DONE, "a", lease, json);
}

/* What the last step gave, as "CREATED 0 0 {…}; …|RUN a 0 1; …" with data. */
static const char *gave(void)
{
    static const char *const kinds[] = {"CREATED",  "LEASED", "REPORT",  "STOPPING",
                                        "REQUEUED", "ENDED",  "PAUSING", "PAUSED"};
    static const char *const acts[] = {"RUN", "STOP", "END"};
    static struct strbuf b;
    strbuf_reset(&b);
    for (size_t i = 0; i < out.record_count; i++) {
        const struct sched_record *r = &out.records[i];
        AUTO(free) char *data = json_line(r->data);
        strbuf_printf(&b, "%s %d/%d %s; ", kinds[r->kind], r->trial, (int)r->lease,
                      r->kind == SCHED_REC_CREATED ? "" : data);
    }
    strbuf_puts(&b, "|");
    for (size_t i = 0; i < out.action_count; i++) {
        const struct sched_action *a = &out.actions[i];
        strbuf_printf(&b, " %s %s %d/%d%s%s;", acts[a->kind], a->worker ? a->worker : "-", a->trial,
                      (int)a->lease, a->why ? " " : "", a->why ? a->why : "");
    }
    return strbuf_str(&b);
}

static const char *state_of(int trial)
{
    AUTO(json) json_t *t = sched_trial_json(s, trial);
    int st = -1;
    static const char *const names[] = {"waiting", "leased", "running", "stopping",
                                        "pausing", "paused", "done",    "pruned",
                                        "failed",  "oom",    "invalid", "cancelled"};
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (strcmp(names[i], json_string_value(json_object_get(t, "state"))) == 0)
            st = (int)i;
    CHECK(st >= 0);
    return names[st];
}

/* A crash: what was decided is dropped, and the records are played back. Checks that nothing is
 * different. */
static void crash(void)
{
    AUTO(json) json_t *before = sched_dump(s);
    sched_free(s);
    s = NULL;
    struct err e = {0};
    CHECK_INT(sched_new(&s, spec, NULL), 0);
    for (int i = 0; i < record_count; i++)
        if (sched_replay(s, &records[i], &e) < 0)
            FAIL("%s", e.text);
    sched_replayed(s, now);
    AUTO(json) json_t *after = sched_dump(s);
    CHECK(json_equal(before, after));
}

TEST(a_trial_is_created_leased_and_run_when_a_place_is_free)
{
    start_with(GRID(3));
    step(SCHED_EV_TICK, NULL, 0, NULL);
    CHECK_STR(gave(), "|");
    hello("a", "{\"places\":2,\"node\":\"n1\",\"running\":[]}");
    CHECK_STR(gave(), "CREATED 0/0 ; LEASED 0/1 {\"worker\":\"a\",\"node\":\"n1\"}; "
                      "CREATED 1/0 ; LEASED 1/2 {\"worker\":\"a\",\"node\":\"n1\"}; "
                      "| RUN a 0/1; RUN a 1/2;");
    CHECK_INT(json_integer_value(json_object_get(out.actions[0].params, "x")), 1);
    CHECK_INT(sched_counts(s).total_wanted, 3);
    CHECK_INT(sched_counts(s).running, 2);
}

TEST(reports_are_stored_and_their_best_counts)
{
    start_with(ONE);
    hello("a", "{\"places\":1}");
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
    AUTO(json) json_t *t = sched_trial_json(s, 0);
    AUTO(free) char *text = json_line(t);
    CHECK_STR(text,
              "{\"id\":0,\"state\":\"done\",\"params\":{\"x\":1},\"value\":0.25,\"steps\":3,"
              "\"node\":null,\"seconds\":2.5,\"lease\":1,\"metrics\":{\"loss\":0.75,\"acc\":1}}");
    CHECK(sched_over(s));
    CHECK_INT(sched_best(s), 0);
    step(SCHED_EV_TICK, NULL, 0, NULL);
    CHECK_STR(gave(), "|"); /* END comes once */
}

TEST(value_last_takes_the_last_and_maximize_the_highest)
{
    start_with("method: grid\nprogram: t\nparameters: {x: {min: 1, max: 2}}\n"
               "metric: {name: acc, goal: maximize}\ndrover: {value: last}\n");
    hello("a", "{\"places\":2}");
    report(1, "{\"step\":1,\"acc\":0.9}");
    report(1, "{\"step\":2,\"acc\":0.2}");
    report(2, "{\"step\":1,\"acc\":0.3}");
    CHECK_INT(sched_best(s), 1);
    AUTO(json) json_t *t = sched_trial_json(s, 0);
    CHECK_NEAR(json_number_value(json_object_get(t, "value")), 0.2, 0);
}

TEST(a_report_that_comes_twice_is_stored_once)
{
    start_with(ONE);
    hello("a", "{\"places\":1}");
    report(1, "{\"step\":1,\"loss\":3,\"acc\":1}");
    report(1, "{\"step\":2,\"loss\":2}");
    report(1, "{\"step\":1,\"loss\":3,\"acc\":1}");
    CHECK_STR(gave(), "|");
    report(1, "{\"step\":2,\"loss\":2}");
    CHECK_STR(gave(), "|");
    report(1, "{\"step\":2,\"acc\":0.5}"); /* more about a step */
    CHECK_INT(out.record_count, 1);
    report(1, "{\"step\":2,\"loss\":2.5}"); /* a correction */
    CHECK_INT(out.record_count, 1);
    AUTO(json) json_t *t = sched_trial_json(s, 0);
    CHECK_INT(json_integer_value(json_object_get(t, "steps")), 2);
}

TEST(a_trial_that_never_reports_the_metric_is_invalid_and_told_what_it_did_report)
{
    start_with(GRID(3));
    hello("a", "{\"places\":3}");
    report(1, "{\"accuracy\":1,\"Loss\":2}");
    done(1, "{\"status\":0}");
    CHECK_STR(state_of(0), "invalid");
    CHECK_HAS(gave(), "the metric 'loss' was never reported; what was: 'Loss', 'accuracy'");
    done(2, "{\"status\":0}");
    CHECK_HAS(gave(), "the metric 'loss' was never reported; nothing was");
    report(3, "{\"loss\":\"inf\"}");
    done(3, "{\"status\":0}");
    CHECK_HAS(gave(), "no value of the metric 'loss' was finite");
}

TEST(a_sweep_without_a_metric_needs_no_report)
{
    start_with("method: grid\nprogram: t\nparameters: {x: {min: 1, max: 2}}\n");
    hello("a", "{\"places\":1}");
    done(1, "{\"status\":0}");
    CHECK_STR(state_of(0), "done");
    CHECK_INT(sched_best(s), -1);
}

TEST(failures_say_why)
{
    start_with(GRID(4) "drover: {give_up_after: 0}\n");
    hello("a", "{\"places\":4}");
    done(1, "{\"status\":3}");
    CHECK_HAS(gave(),
              "\"state\":\"failed\",\"seconds\":0.0,\"value\":null,\"error\":\"exit status 3\"");
    done(2, "{\"status\":0,\"signal\":9}");
    CHECK_HAS(gave(), "killed by signal 9 (Killed)");
    done(3, "{\"status\":1,\"error\":\"rank 2: boom\"}");
    CHECK_HAS(gave(), "rank 2: boom");
    done(4, "{\"status\":1,\"oom\":true}");
    CHECK_STR(state_of(3), "oom");
    CHECK_INT(sched_counts(s).failed, 3);
    CHECK_INT(sched_counts(s).oom, 1);
}

TEST(the_first_end_counts)
{
    start_with(ONE);
    hello("a", "{\"places\":1}");
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
    hello("a", "{\"places\":1}");
    report(1, "{\"loss\":1}");
    step(SCHED_EV_LOST, "a", 0, NULL);
    CHECK_STR(gave(), "REQUEUED 0/1 {\"why\":\"lost\",\"spent\":true}; |");
    CHECK_STR(state_of(0), "waiting");
    hello("b", "{\"places\":2}");
    CHECK_HAS(gave(), "LEASED 0/2 {\"worker\":\"b\",\"node\":null}; CREATED 1/0 ;");
    done(1, "{\"status\":0}"); /* leased again: the old lease is void */
    CHECK_STR(gave(), "|");
    hello("a", "{\"places\":0,\"running\":[1]}");
    CHECK_STR(gave(), "| STOP a 0/1 this lease is void;");
}

TEST(a_lost_lease_may_still_report_and_succeed_until_the_trial_is_leased_again)
{
    start_with(ONE);
    hello("a", "{\"places\":1}");
    step(SCHED_EV_LOST, "a", 0, NULL);
    report(1, "{\"loss\":0.5}");
    CHECK_INT(out.record_count, 1);
    CHECK_STR(state_of(0), "waiting");
    done(1, "{\"status\":1}");
    CHECK_STR(gave(), "|");
    done(1, "{\"status\":0,\"seconds\":1}");
    CHECK_HAS(gave(), "ENDED 0/1 {\"state\":\"done\",\"seconds\":1.0,\"value\":0.5}; | END");
}

TEST(retries_are_spent_by_losses_and_preemption_but_not_by_drains)
{
    start_with(ONE "drover: {retries: 2}\n");
    hello("a", "{\"places\":1}");
    done(1, "{\"status\":1,\"preempted\":true}");
    CHECK_HAS(gave(), "REQUEUED 0/1 {\"why\":\"preempted\",\"spent\":true}; LEASED 0/2");
    step(SCHED_EV_LOST, "a", 0, NULL);
    hello("a", "{\"places\":1}");
    CHECK_HAS(gave(), "LEASED 0/3");
    step(SCHED_EV_LOST, "a", 0, NULL);
    CHECK_HAS(gave(), "ENDED 0/3 {\"state\":\"failed\",\"seconds\":0.0,\"value\":null,"
                      "\"error\":\"lost, after 2 retries\"}; | END");
}

TEST(failed_trials_are_run_again_only_where_that_was_asked_for)
{
    start_with(ONE "drover: {retries: 1, retry_failed: true}\n");
    hello("a", "{\"places\":1}");
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
    hello("a", "{\"places\":3}");
    report(1, "{\"step\":1,\"loss\":1}");
    report(2, "{\"step\":1,\"loss\":2}");
    done(1, "{\"status\":0}");
    done(2, "{\"status\":0}");
    report(3, "{\"step\":1,\"loss\":1.5}"); /* equal to the median is kept */
    CHECK_INT(out.action_count, 0);
    report(3, "{\"step\":1,\"loss\":1.6}");
    CHECK_HAS(gave(), "STOPPING 2/3 {\"why\":\"median\"}; | STOP a 2/3 median;");
    CHECK_STR(state_of(2), "stopping");
    report(3, "{\"step\":2,\"loss\":1.25}"); /* the answer is still: stop */
    CHECK_HAS(gave(), "| STOP a 2/3 median;");
    done(3, "{\"status\":0,\"seconds\":1}");
    CHECK_HAS(gave(),
              "ENDED 2/3 {\"state\":\"pruned\",\"seconds\":1.0,\"value\":1.25,\"why\":\"median\"}");
}

TEST(an_end_that_crossed_the_stop_counts_as_it_was)
{
    start_with(GRID(4) "early_terminate: {type: median, min_trials: 1}\n");
    hello("a", "{\"places\":2}");
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
    hello("a", "{\"places\":1}");
    CHECK_INT(sched_deadline(s), 11000);
    now = 10999;
    step(SCHED_EV_TICK, NULL, 0, NULL);
    CHECK_STR(gave(), "|");
    now = 11000;
    step(SCHED_EV_TICK, NULL, 0, NULL);
    CHECK_STR(gave(), "STOPPING 0/1 {\"why\":\"timeout\"}; | STOP a 0/1 timeout;");
    CHECK(sched_deadline(s) == INT64_MAX);
    done(1, "{\"status\":0,\"signal\":15}");
    CHECK_HAS(gave(), "\"state\":\"failed\"");
    CHECK_HAS(gave(), "ran longer than the timeout of 10 s");
}

TEST(a_reached_target_starts_no_new_trial_and_lets_the_others_end)
{
    start_with("method: grid\nprogram: t.py\nparameters: {x: {min: 1, max: 9}}\n"
               "metric: {name: loss, target: 0.1}\n");
    hello("a", "{\"places\":2}");
    hello("b", "{\"places\":1}");
    report(1, "{\"loss\":0.05}");
    done(1, "{\"status\":0}");
    CHECK_INT(out.action_count, 0);
    CHECK_STR(state_of(1), "leased");
    step(SCHED_EV_LOST, "b", 0, NULL); /* what waits will never run */
    CHECK_STR(state_of(2), "waiting");
    report(2, "{\"loss\":3}");
    done(2, "{\"status\":0}");
    CHECK_STR(state_of(2), "cancelled");
    CHECK_HAS(gave(), "END - -1/0 the metric's target is reached;");
}

TEST(a_drain_stops_all_and_keeps_them_for_later)
{
    start_with(GRID(5));
    hello("a", "{\"places\":2}");
    step(SCHED_EV_DRAIN, NULL, 0, NULL);
    CHECK_HAS(gave(), "STOP a 0/1 drain; STOP a 1/2 drain;");
    done(1, "{\"status\":0,\"signal\":15}");
    CHECK_STR(gave(), "REQUEUED 0/1 {\"why\":\"drain\",\"spent\":false}; |");
    step(SCHED_EV_LOST, "a", 0, NULL);
    CHECK_STR(gave(), "REQUEUED 1/2 {\"why\":\"drain\",\"spent\":false}; | END - -1/0 drained;");
    crash();
    hello("b", "{\"places\":2}");
    CHECK_HAS(gave(), "| RUN b 0/3; RUN b 1/4;");
}

TEST(parallel_limits_what_runs_at_once)
{
    start_with(GRID(9) "drover: {parallel: 3}\n");
    hello("a", "{\"places\":2}");
    hello("b", "{\"places\":8}");
    CHECK_INT(sched_counts(s).running, 3);
    report(1, "{\"loss\":1}");
    done(1, "{\"status\":0}");
    CHECK_HAS(gave(), "RUN b 3/4");
    CHECK_INT(sched_counts(s).running, 3);
}

TEST(trials_spread_over_the_workers)
{
    start_with(GRID(9) "drover: {parallel: 4}\n");
    hello("a", "{\"places\":0}");
    hello("b", "{\"places\":4}");
    CHECK_INT(out.action_count, 4);
    step(SCHED_EV_LOST, "b", 0, NULL);
    hello("c", "{\"places\":2}");
    hello("d", "{\"places\":3}");
    CHECK_HAS(gave(), "| RUN d 2/7; RUN d 3/8;");
}

TEST(a_leaving_worker_gets_no_more_but_keeps_what_it_has)
{
    start_with(GRID(9));
    hello("a", "{\"places\":1}");
    step(SCHED_EV_LEAVING, "a", 0, NULL);
    report(1, "{\"loss\":1}");
    done(1, "{\"status\":0}");
    CHECK_INT(out.action_count, 0);
    CHECK_STR(state_of(0), "done");
}

TEST(the_sweep_gives_up_when_the_first_trials_all_fail)
{
    start_with(GRID(9) "drover: {give_up_after: 2}\n");
    hello("a", "{\"places\":1}");
    done(1, "{\"status\":1}");
    CHECK_HAS(gave(), "RUN a 1/2");
    done(2, "{\"status\":1}");
    CHECK_HAS(gave(), "END - -1/0 gave up: the first trials all failed");
    crash(); /* starting it again gives it another chance */
    hello("b", "{\"places\":1}");
    CHECK_HAS(gave(), "RUN b 2/3");
}

TEST(after_a_success_failures_do_not_end_the_sweep)
{
    start_with(GRID(9) "drover: {give_up_after: 2}\n");
    hello("a", "{\"places\":1}");
    report(1, "{\"loss\":1}");
    done(1, "{\"status\":0}");
    for (int i = 2; i < 6; i++)
        done(i, "{\"status\":1}");
    CHECK_HAS(gave(), "RUN a 5/6");
}

TEST(run_cap_ends_the_sweep)
{
    start_with(RANDOM "run_cap: 2\n");
    CHECK_INT(sched_counts(s).total_wanted, 2);
    hello("a", "{\"places\":4}");
    CHECK_INT(sched_trial_count(s), 2);
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
    CHECK_INT(sched_counts(s).total_wanted, 3);
    hello("a", "{\"places\":4}");
    CHECK_INT(out.action_count, 3);
    static const int want[] = {3, 2, 1};
    for (int i = 0; i < 3; i++) {
        CHECK_INT(json_integer_value(json_object_get(out.actions[i].params, "x")), want[i]);
        CHECK_INT(json_integer_value(json_object_get(out.actions[i].params, "y")), 7);
    }
}

TEST(a_workers_unlisted_lease_is_lost_and_a_listed_one_stays)
{
    start_with(GRID(5));
    hello("a", "{\"places\":2}");
    hello("a", "{\"places\":2,\"running\":[2]}");
    CHECK_HAS(gave(), "REQUEUED 0/1 {\"why\":\"lost\",\"spent\":true}; LEASED 0/3");
    CHECK_HAS(gave(), "| STOP a 0/1 this lease is void; RUN a 0/3;");
    CHECK_STR(state_of(1), "leased");
    hello("a", "{\"places\":2,\"running\":[2,3,77]}");
    CHECK_STR(gave(), "| STOP a -1/77 this lease is void;");
}

TEST(after_a_restart_a_worker_claims_its_leases)
{
    start_with(GRID(5));
    hello("a", "{\"places\":2}");
    report(2, "{\"loss\":4}");
    crash();
    CHECK_INT(sched_deadline(s), now + 120000);
    hello("a", "{\"places\":2,\"running\":[2]}"); /* lease 1's RUN never reached it */
    CHECK_HAS(gave(), "REQUEUED 0/1 {\"why\":\"lost\",\"spent\":false}; LEASED 0/3");
    CHECK(sched_deadline(s) == INT64_MAX);
    report(2, "{\"loss\":3}");
    CHECK_STR(gave(), "REPORT 1/2 {\"step\":1,\"values\":{\"loss\":3}}; |");
}

TEST(after_a_restart_leases_that_nobody_claims_are_void_in_time)
{
    start_with(GRID(5));
    hello("a", "{\"places\":1}");
    crash();
    now += 119999;
    step(SCHED_EV_TICK, NULL, 0, NULL);
    CHECK_STR(gave(), "|");
    report(1, "{\"loss\":3}"); /* before its hello */
    CHECK_INT(out.record_count, 1);
    now++;
    step(SCHED_EV_TICK, NULL, 0, NULL);
    CHECK_HAS(gave(), "REQUEUED 0/1 {\"why\":\"lost\",\"spent\":true}; |");
}

TEST(a_new_lease_replaces_the_history_from_its_first_step)
{
    start_with(ONE);
    hello("a", "{\"places\":1}");
    for (int i = 0; i < 5; i++) {
        char json[64];
        snprintf(json, sizeof json, "{\"step\":%d,\"loss\":%g}", i, 5.0 - i);
        report(1, json);
    }
    done(1, "{\"status\":1,\"preempted\":true}");
    report(2, "{\"step\":3,\"loss\":2.5}");
    crash();
    AUTO(json) json_t *t = sched_trial_json(s, 0);
    CHECK_INT(json_integer_value(json_object_get(t, "steps")), 4);
    CHECK_NEAR(json_number_value(json_object_get(t, "value")), 2.5, 0);
}

TEST(malformed_events_are_refused_and_change_nothing)
{
    start_with(GRID(5));
    hello("a", "{\"places\":1}");
    AUTO(json) json_t *before = sched_dump(s);
    CHECK_INT(step_rc(SCHED_EV_HELLO, "b", 0, "{}"), -EINVAL);
    CHECK_INT(step_rc(SCHED_EV_HELLO, "b", 0, "{\"places\":-1}"), -EINVAL);
    CHECK_INT(step_rc(SCHED_EV_HELLO, NULL, 0, "{\"places\":1}"), -EINVAL);
    CHECK_INT(step_rc(SCHED_EV_HELLO, "\xff", 0, "{\"places\":1}"), -EINVAL);
    CHECK_INT(step_rc(SCHED_EV_HELLO, "b", 0, "{\"places\":1,\"running\":3}"), -EINVAL);
    CHECK_INT(step_rc(SCHED_EV_REPORT, "a", 1, NULL), -EINVAL);
    CHECK_INT(step_rc(SCHED_EV_DONE, "a", 1, "{\"status\":\"0\"}"), -EINVAL);
    CHECK_INT(step_rc((enum sched_event_kind)99, "a", 1, NULL), -EINVAL);
    step(SCHED_EV_DONE, "a", 99, "{}");
    step(SCHED_EV_REPORT, "a", -5, "{\"loss\":1}");
    step(SCHED_EV_LOST, "nobody", 0, NULL);
    step(SCHED_EV_LEAVING, NULL, 0, NULL);
    AUTO(json) json_t *after = sched_dump(s);
    CHECK(json_equal(before, after));
    CHECK_INT(out.record_count + out.action_count, 0);
}

TEST(records_that_contradict_each_other_are_damage)
{
    static const struct {
        int kind, trial, lease;
        const char *data;
    } bad[] = {
        {SCHED_REC_CREATED, 2, 0, "{\"params\":{}}"},
        {SCHED_REC_CREATED, 1, 0, "{}"},
        {SCHED_REC_LEASED, 0, 2, "{\"worker\":\"a\"}"},
        {SCHED_REC_LEASED, 1, 2, "{\"worker\":\"a\"}"},
        {SCHED_REC_REPORT, 0, 2, "{\"step\":1,\"values\":{}}"},
        {SCHED_REC_REPORT, 0, 1, "{\"values\":{}}"},
        {SCHED_REC_ENDED, 0, 1, "{\"state\":\"running\"}"},
        {SCHED_REC_ENDED, 0, 1, "{}"},
        {SCHED_REC_ENDED, -1, 1, "{\"state\":\"done\"}"},
        {SCHED_REC_KINDS, 0, 1, "{}"},
    };
    start_with(GRID(5) "drover: {parallel: 1}\n");
    hello("a", "{\"places\":1}");
    AUTO(json) json_t *before = sched_dump(s);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        AUTO(json) json_t *data = json_loads(bad[i].data, 0, NULL);
        struct sched_record r = {(enum sched_record_kind)bad[i].kind, 0, bad[i].trial, bad[i].lease,
                                 data};
        struct err e = {0};
        if (sched_replay(s, &r, &e) != -EINVAL)
            FAIL("row %zu was taken", i);
        CHECK_HAS(e.text, "trial");
    }
    AUTO(json) json_t *after = sched_dump(s);
    CHECK(json_equal(before, after));
}

TEST(a_worker_that_comes_back_hears_again_what_it_is_to_stop)
{
    start_with(ONE "drover: {timeout: 10}\n");
    hello("a", "{\"places\":1}");
    now += 10000;
    step(SCHED_EV_TICK, NULL, 0, NULL);
    hello("a", "{\"places\":1,\"running\":[1]}");
    CHECK_STR(gave(), "| STOP a 0/1 timeout;");
    hello("a", "{\"places\":1,\"running\":[]}"); /* stopped, but its end never came */
    CHECK_HAS(gave(), "\"state\":\"failed\"");
}

/* ---- pauses ------------------------------------------------------------------------------------
 */

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

TEST(a_trial_pauses_frees_its_place_and_goes_on_before_a_new_one_starts)
{
    start_with(GRID(9) CURVE);
    hello("a", "{\"places\":1}");
    reach_rung(1, 4, 3);
    CHECK_HAS(gave(), "PAUSING 0/1 {\"why\":\"curve\"}; | STOP a 0/1 curve;");
    CHECK_STR(state_of(0), "pausing");
    report(1, "{\"step\":3,\"loss\":2.5}"); /* the answer is still: stop */
    CHECK_HAS(gave(), "| STOP a 0/1 curve;");
    done(1, "{\"status\":0,\"signal\":15,\"seconds\":7}");
    CHECK_HAS(gave(), "PAUSED 0/1 {\"seconds\":7.0}; CREATED 1/0 ; LEASED 1/2");
    CHECK_INT(sched_counts(s).paused, 1);
    crash();
    hello("a", "{\"places\":1,\"running\":[2]}");
    reach_rung(2, 9, 8);
    done(2, "{\"status\":0}");
    CHECK_HAS(gave(), "PAUSED 1/2 {\"seconds\":0.0}; LEASED 0/3"); /* the best of two */
    CHECK_INT(sched_trial_count(s), 2);
    crash();
    hello("a", "{\"places\":1,\"running\":[3]}");
    report(3, "{\"step\":2,\"loss\":5}"); /* from a checkpoint: it is let past the rung */
    CHECK_STR(gave(), "REPORT 0/3 {\"step\":2,\"values\":{\"loss\":5}}; |");
}

TEST(paused_trials_end_as_pruned_when_nothing_else_is_left)
{
    start_with(GRID(3) CURVE);
    hello("a", "{\"places\":3}");
    for (int i = 3; i >= 1; i--)
        reach_rung(i, i + 1, i);
    CHECK_STR(state_of(2), "pausing");
    CHECK_STR(state_of(1), "running"); /* the best of two, then the best of three, go on */
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
    hello("a", "{\"places\":2}");
    reach_rung(1, 4, 3);
    done(1, "{\"status\":0}");
    CHECK_HAS(gave(), "PAUSED 0/1 {\"seconds\":0.0}; LEASED 0/2");
}

TEST(a_pausing_trial_whose_worker_is_lost_is_paused_and_one_that_ended_by_itself_has_ended)
{
    start_with(GRID(9) CURVE);
    hello("a", "{\"places\":2}");
    hello("b", "{\"places\":0}");
    reach_rung(1, 4, 3);
    reach_rung(2, 9, 8);
    CHECK_STR(state_of(1), "pausing");
    done(2, "{\"status\":0,\"stopped\":false}");
    CHECK_STR(state_of(1), "done");
    step(SCHED_EV_LOST, "a", 0, NULL);
    CHECK_HAS(gave(), "PAUSED 0/1 {\"seconds\":0.0}; ");
    done(1, "{\"status\":0}"); /* its end, late */
    CHECK_STR(state_of(0), "paused");
    done(1, "{\"status\":0,\"stopped\":false}");
    CHECK_STR(state_of(0), "done");
}

TEST(a_pausing_trial_that_failed_by_itself_has_failed)
{
    start_with(GRID(9) CURVE);
    hello("a", "{\"places\":1}");
    reach_rung(1, 4, 3);
    done(1, "{\"status\":3,\"stopped\":false}");
    CHECK_STR(state_of(0), "failed");
}

TEST(a_pausing_trial_is_not_stopped_for_its_time_or_for_a_drain_and_is_paused_afterwards)
{
    start_with(GRID(9) CURVE "drover: {timeout: 10}\n");
    hello("a", "{\"places\":1}");
    reach_rung(1, 4, 3);
    CHECK(sched_deadline(s) == INT64_MAX);
    now += 10000;
    step(SCHED_EV_TICK, NULL, 0, NULL);
    CHECK_STR(gave(), "|");
    step(SCHED_EV_DRAIN, NULL, 0, NULL);
    CHECK_STR(gave(), "|");
    hello("a", "{\"places\":1,\"running\":[1]}"); /* it may not have heard of it */
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
    hello("a", "{\"places\":1}");
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
        hello("a", "{\"places\":4}");
        for (int i = 1; i <= 4; i++)
            report(i, i < 4 ? "{\"step\":50,\"loss\":1}" : "{\"step\":300,\"loss\":1}");
        done(4, "{\"status\":0}"); /* settles the first rung's step: 3 */
        report(1, "{\"step\":51,\"loss\":3}");
        CHECK_STR(state_of(0), "running");
        if (crashes)
            crash();
        report(2, "{\"step\":51,\"loss\":4}"); /* half of two is one, and not this one */
        CHECK_HAS(gave(), "STOPPING 1/2 {\"why\":\"asha\"}");
        report(3, "{\"step\":51,\"loss\":2}");
        CHECK_STR(state_of(2), "running");
    }
}

/* The parameters of 12 trials under `bayes`, one after the other, as lines; with a crash after each
 * trial, or without. A worker is lost and heard again, so that one is computed ahead of a result.
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
        hello(id, "{\"places\":1}");
        CHECK_INT(out.action_count, 1);
        AUTO(free) char *line = json_line(out.actions[0].params);
        strbuf_printf(&b, "%s\n", line);
        double x = json_number_value(json_object_get(out.actions[0].params, "x")) - 0.3;
        double y = json_number_value(json_object_get(out.actions[0].params, "y")) - 0.6;
        snprintf(json, sizeof json, "{\"loss\":%.17g}", x * x + y * y + 0.3 * x * y);
        step(SCHED_EV_LOST, id, 0, NULL);
        report(i, json);
        done(i, "{\"status\":0}");
        step(SCHED_EV_TICK, NULL, 0, NULL);
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

/* What is suggested after paused trials of a lost worker turned out to have ended well, while the
 * next suggestion had been computed. */
static char *suggested_late(bool crashes)
{
    start_with("method: bayes\nprogram: t.py\nrun_cap: 40\nmetric: {name: loss}\n"
               "parameters: {x: {min: 0.0, max: 1.0}}\n" CURVE);
    hello("a", "{\"places\":12}");
    step(SCHED_EV_LEAVING, "a", 0, NULL);
    for (int i = 1; i <= 12; i++) {
        AUTO(json) json_t *t = sched_trial_json(s, i - 1);
        double x = json_number_value(json_object_get(json_object_get(t, "params"), "x"));
        reach_rung(i, 9, 1 + (x - 0.77) * (x - 0.77));
        if (strcmp(state_of(i - 1), "running") == 0)
            done(i, "{\"status\":0}");
    }
    step(SCHED_EV_LOST, "a", 0, NULL); /* those that were pausing are paused; none waits */
    CHECK(sched_counts(s).paused > 2);
    for (int i = 1; i <= 12; i++)
        done(i, "{\"status\":0,\"stopped\":false}");
    if (crashes)
        crash();
    hello("b", "{\"places\":1}");
    CHECK_HAS(gave(), "CREATED 12/0");
    return json_line(out.actions[0].params);
}

TEST(a_suggestion_that_was_computed_ahead_does_not_ignore_what_came_in)
{
    AUTO(free) char *one = suggested_late(false);
    AUTO(free) char *two = suggested_late(true);
    CHECK_STR(two, one);
}
