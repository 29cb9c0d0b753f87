/* test_scheduler_health - trials that end because of a node, and workers that get none. */
#include "tests/unit/kit_scheduler.h"

#define FAULT                                                                                  \
    "{\"status\":-1,\"not_started\":true,\"stopped\":false,\"node_fault\":0,\"error\":\"disk " \
    "full\"}"

static json_int_t due(const char *worker)
{
    AUTO(json) json_t *fault = scheduler_worker_fault(s, worker);
    return json_integer_value(json_object_get(fault, "due_ms"));
}

static bool state_is(const char *worker, const char *state)
{
    AUTO(json) json_t *fault = scheduler_worker_fault(s, worker);
    return strcmp(json_string_value(json_object_get(fault, "state")), state) == 0;
}

static void tick_at(int64_t ms)
{
    now = ms;
    step(SCHEDULER_EV_TICK, NULL, 0, NULL);
}

TEST(a_fault_of_a_node_spends_no_retry_and_another_worker_gets_the_trial)
{
    start_with(ONE "drover: {retries: 0}\n");
    hello("a", "{\"slots\":1,\"node\":\"n1\"}");
    CHECK(!scheduler_worker_fault(s, "a"));
    hello("b", "{\"slots\":1,\"node\":\"n2\"}");
    done(1, FAULT);
    CHECK_STR(gave(), "REQUEUED 0/1 {\"why\":\"node\",\"spent\":false,\"error\":\"disk full\"}; "
                      "LEASED 0/2 {\"worker\":\"b\",\"node\":\"n2\"}; | HEALTH a -1/0; RUN b 0/2;");
    CHECK(state_is("a", "backing off"));
    CHECK_INT(due("a"), now + 500);
    CHECK_INT(scheduler_deadline(s), now + 500);
    crash();
    CHECK(!scheduler_worker_fault(s, "a")); /* a new coordinator tries again */
}

/* The only worker fails with its trial until it is excluded. */
static void exclude(void)
{
    now = 1000;
    start_with(ONE);
    hello("a", "{\"slots\":2,\"node\":\"n1\"}");
    done(1, FAULT);
    CHECK_INT(scheduler_counts(s).waiting, 1);
    tick_at(1499);
    CHECK_STR(gave(), "|");
    tick_at(1500);
    CHECK_HAS(gave(), "RUN a 0/2;");
    done(2, FAULT);
    tick_at(2500);
    CHECK_HAS(gave(), "RUN a 0/3;");
    done(3, FAULT);
    CHECK(state_is("a", "excluded"));
    CHECK_INT(scheduler_deadline(s), 4500);
}

TEST(a_worker_that_fails_repeatedly_gets_no_trial_until_its_self_test_passes)
{
    exclude();
    tick_at(4500);
    CHECK_STR(gave(), "| HEALTH a -1/0; TEST a -1/0;");
    step(SCHEDULER_EV_TESTED, "a", 0, "{\"why\":\"still full\"}");
    CHECK_STR(gave(), "| HEALTH a -1/0;");
    CHECK(!scheduler_is_done(s));
    tick_at(8500);
    step(SCHEDULER_EV_TESTED, "a", 0, "{}");
    CHECK_HAS(gave(), "RUN a 0/4;");
    report(4, "{\"loss\":1}");
    done(4, "{\"status\":0}");
    CHECK_HAS(gave(), "| HEALTH a -1/0; END - -1/0 every point");
    CHECK(state_is("a", "good"));
    CHECK(!scheduler_lacks_workers(s));
}

TEST(the_sweep_ends_with_the_cause_if_no_worker_is_left_and_continues_later)
{
    exclude();
    tick_at(4500);
    step(SCHEDULER_EV_TESTED, "a", 0, "{\"why\":\"still full\"}");
    tick_at(8500);
    step(SCHEDULER_EV_TESTED, "a", 0, "{\"why\":\"no inodes\"}");
    CHECK_STR(gave(),
              "| HEALTH a -1/0; END - -1/0 no worker is left that can start a trial: worker "
              "a on n1: no inodes;");
    CHECK(scheduler_lacks_workers(s));
    CHECK_STR(state_of(0), "waiting");
    crash();
    hello("c", "{\"slots\":1}");
    CHECK_HAS(gave(), "RUN c 0/4;");
}

TEST(a_healthy_worker_or_an_awaited_one_keeps_the_sweep_alive)
{
    exclude();
    hello("b", "{\"slots\":0}"); /* its slots are taken, for now */
    tick_at(4500);
    step(SCHEDULER_EV_TESTED, "a", 0, "{\"why\":\"full\"}");
    tick_at(8500);
    step(SCHEDULER_EV_TESTED, "a", 0, "{\"why\":\"full\"}");
    CHECK(!scheduler_is_done(s));
    step(SCHEDULER_EV_LOST, "b", 0, NULL);
    CHECK(scheduler_lacks_workers(s));
}

TEST(a_sweep_that_expects_more_workers_waits_for_them)
{
    exclude();
    CHECK(scheduler_expect_workers(s, true));
    tick_at(4500);
    step(SCHEDULER_EV_TESTED, "a", 0, "{\"why\":\"full\"}");
    tick_at(8500);
    step(SCHEDULER_EV_TESTED, "a", 0, "{\"why\":\"full\"}");
    CHECK(!scheduler_is_done(s));
    CHECK(scheduler_expect_workers(s, false) && !scheduler_expect_workers(s, false));
    tick_at(8501);
    CHECK(scheduler_lacks_workers(s));
}

TEST(a_paused_sweep_does_not_end_for_lack_of_workers)
{
    exclude();
    step(SCHEDULER_EV_COMMAND, NULL, 0, "{\"ask\":\"1\",\"verb\":\"pause\"}");
    tick_at(4500);
    step(SCHEDULER_EV_TESTED, "a", 0, "{\"why\":\"full\"}");
    tick_at(8500);
    step(SCHEDULER_EV_TESTED, "a", 0, "{\"why\":\"full\"}");
    CHECK(!scheduler_is_done(s));
}

TEST(a_lost_worker_leaves_no_deadline_that_has_passed)
{
    exclude();
    step(SCHEDULER_EV_LOST, "a", 0, NULL);
    tick_at(4500);
    CHECK(scheduler_deadline(s) > 4500);
    hello("a", "{\"slots\":1}");
    CHECK_INT(scheduler_deadline(s), 4500); /* its self-test is overdue */
}

TEST(in_a_gang_the_node_that_failed_is_excluded_and_not_the_one_that_says_so)
{
    start_with(ONE "drover: {resources: {nodes: 2}}\n");
    hello("a", "{\"slots\":1,\"node\":\"n1\"}");
    hello("b", "{\"slots\":1,\"node\":\"n2\"}");
    step(SCHEDULER_EV_RESERVED, "b", 1, "{}");
    done(1, "{\"status\":-1,\"stopped\":false,\"node_fault\":1,\"error\":\"rank 1: fork\"}");
    CHECK_HAS(gave(), "\"why\":\"node\",\"spent\":false");
    CHECK(!scheduler_worker_fault(s, "a"));
    CHECK(state_is("b", "backing off"));
    done(1, "{\"status\":-1,\"node_fault\":7}"); /* late */
    CHECK_STR(gave(), "|");
}

TEST(a_trial_that_was_told_to_stop_ends_although_its_node_failed)
{
    start_with(ONE);
    hello("a", "{\"slots\":1}");
    step(SCHEDULER_EV_COMMAND, NULL, 0, "{\"ask\":\"1\",\"verb\":\"stop\"}");
    done(1, FAULT);
    CHECK_STR(state_of(0), "cancelled");
}

TEST(a_drain_does_not_wait_for_workers_that_are_not_connected)
{
    start_with(ONE);
    hello("a", "{\"slots\":1,\"node\":\"n1\"}");
    crash();
    scheduler_replayed(s, now);
    AUTO(json) json_t *awaited = scheduler_awaited(s);
    CHECK_INT(json_array_size(awaited), 1);
    const json_t *w = json_array_get(awaited, 0);
    CHECK_STR(json_string_value(json_object_get(w, "id")), "a");
    CHECK_STR(json_string_value(json_object_get(w, "node")), "n1");
    CHECK_INT(json_integer_value(json_object_get(w, "lost_ms")), now + spec->lost_after_ms);
    step(SCHEDULER_EV_DRAIN, NULL, 0, NULL);
    CHECK_STR(gave(), "STOPPING 0/1 {\"why\":\"drain\"}; REQUEUED 0/1 {\"why\":\"drain\",\"spent\":"
                      "false}; | END - -1/0 drained;");
}
