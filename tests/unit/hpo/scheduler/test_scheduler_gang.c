/* test_scheduler_gang - trials over several nodes: their workers, and their ends. */
#include "tests/unit/kit_scheduler.h"

#define TWO GRID(3) "drover: {resources: {nodes: 2}}\n"

static void held(const char *worker, int64_t lease)
{
    step(SCHEDULER_EV_RESERVED, worker, lease, "{\"cpus\":\"0-1\"}");
}

static void two_workers(void)
{
    hello("a", "{\"slots\":2,\"node\":\"na\"}");
    CHECK_STR(gave(), "|");
    hello("b", "{\"slots\":1,\"node\":\"nb\"}");
}

/* Lease 1: a runs the trial, b reserves a slot. */
static void one_runs(void)
{
    start_with(TWO);
    two_workers();
    held("b", 1);
}

TEST(a_trial_runs_when_the_others_have_reserved_their_slots)
{
    start_with(TWO);
    two_workers();
    CHECK_STR(gave(),
              "CREATED 0/0 ; LEASED 0/1 {\"worker\":\"a\",\"node\":\"na\",\"with\":[\"b\"]}; "
              "| HOLD b 0/1;");
    CHECK(scheduler_gang_members(s, "a", 1) && !scheduler_gang_members(s, "b", 1));
    CHECK(!scheduler_runner(s, "b", 1)); /* no worker yet */
    held("a", 1);                        /* it runs the trial */
    held("b", 7);
    CHECK_STR(gave(), "|");
    held("b", 1);
    CHECK_STR(gave(), "| RUN a 0/1;");
    AUTO(free) char *others = json_line(out.actions[0].gang_nodes);
    CHECK_STR(others, "[{\"node\":\"nb\",\"resources\":{\"cpus\":\"0-1\"}}]");
    CHECK_STR(scheduler_runner(s, "b", 1), "a");
    CHECK(!scheduler_runner(s, "a", 1) && !scheduler_runner(s, "b", 2) &&
          !scheduler_runner(s, "c", 1));
    report(1, "{\"loss\":1}");
    held("b", 1); /* again, on another connection */
    CHECK_STR(gave(), "|");
    done(1, "{\"status\":0,\"seconds\":1}");
    CHECK_HAS(gave(), "| STOP b 0/1 its trial has ended; HOLD b 1/2;");
    CHECK(!scheduler_runner(s, "b", 1));
}

TEST(two_workers_on_one_node_are_no_two_nodes)
{
    start_with(TWO);
    hello("a", "{\"slots\":2,\"node\":\"n\"}");
    hello("b", "{\"slots\":2,\"node\":\"n\"}");
    CHECK_STR(gave(), "|");
    hello("c", "{\"slots\":1,\"node\":\"other\"}");
    CHECK_HAS(gave(),
              "LEASED 0/1 {\"worker\":\"a\",\"node\":\"n\",\"with\":[\"c\"]}; | HOLD c 0/1;");
}

TEST(a_worker_that_reserves_nothing_in_ten_seconds_is_passed_over_until_it_speaks)
{
    start_with(TWO);
    two_workers();
    CHECK_INT(scheduler_deadline(s), now + 10000);
    now += 10000;
    step(SCHEDULER_EV_TICK, NULL, 0, NULL);
    CHECK_STR(gave(),
              "REQUEUED 0/1 {\"why\":\"lost\",\"spent\":false,\"error\":\"no slot was reserved "
              "within 10 s by b on nb\"}; | STOP b 0/1 its trial has ended;");
    hello("c", "{\"slots\":1,\"node\":\"nc\"}");
    CHECK_HAS(gave(), "\"with\":[\"c\"]}; | HOLD c 0/2;");
    step(SCHEDULER_EV_SLOTS, "b", 0, "{\"slots\":1}");
    CHECK_HAS(gave(),
              "LEASED 1/3 {\"worker\":\"a\",\"node\":\"na\",\"with\":[\"b\"]}; | HOLD b 1/3;");
}

TEST(a_lost_holder_sends_the_trial_back_and_stops_who_runs_it)
{
    one_runs();
    step(SCHEDULER_EV_LOST, "b", 0, NULL);
    CHECK_STR(gave(),
              "REQUEUED 0/1 {\"why\":\"lost\",\"spent\":true}; | STOP a 0/1 this lease is void;");
    done(1, "{\"status\":0,\"stopped\":true}"); /* it was stopped, whatever its exit status */
    CHECK_STR(gave(), "|");
    CHECK_STR(state_of(0), "waiting");
}

TEST(a_lost_runner_frees_the_others)
{
    one_runs();
    step(SCHEDULER_EV_LOST, "a", 0, NULL);
    CHECK_STR(gave(),
              "REQUEUED 0/1 {\"why\":\"lost\",\"spent\":true}; | STOP b 0/1 its trial has ended;");
}

TEST(a_trial_that_nobody_runs_yet_is_stopped_at_once)
{
    start_with(TWO);
    two_workers();
    step(SCHEDULER_EV_DRAIN, NULL, 0, NULL);
    CHECK_STR(gave(),
              "STOPPING 0/1 {\"why\":\"drain\"}; REQUEUED 0/1 {\"why\":\"drain\",\"spent\":false}; "
              "| STOP b 0/1 its trial has ended; END - -1/0 drained;");
}

TEST(after_a_restart_who_does_not_run_it_sends_it_back)
{
    start_with(TWO);
    two_workers();
    crash();
    hello("b", "{\"slots\":1,\"node\":\"nb\",\"running\":[1]}");
    CHECK_STR(gave(), "|"); /* it keeps its slot */
    held("b", 1);
    CHECK_STR(gave(), "|");
    hello("a", "{\"slots\":2,\"node\":\"na\"}");
    CHECK_HAS(gave(), "REQUEUED 0/1 {\"why\":\"lost\",\"spent\":false}; LEASED 0/2");
    CHECK_HAS(gave(), "STOP b 0/1 its trial has ended;");
}

TEST(a_holders_void_slot_is_taken_back_at_its_hello)
{
    one_runs();
    step(SCHEDULER_EV_LOST, "b", 0, NULL);
    hello("b", "{\"slots\":1,\"node\":\"nb\",\"running\":[1]}");
    CHECK_HAS(gave(), "| STOP b 0/1 this lease is void;");
}

TEST(a_holder_that_needs_its_slot_back_has_the_trial_stopped_and_run_again)
{
    one_runs();
    step(SCHEDULER_EV_LEAVING, "b", 0, NULL);
    step(SCHEDULER_EV_REVOKED, "a", 2, NULL);
    CHECK_STR(gave(), "|");
    step(SCHEDULER_EV_REVOKED, "b", 1, NULL);
    CHECK_STR(gave(), "STOPPING 0/1 {\"why\":\"preempted\"}; | STOP a 0/1 preempted;");
    done(1, "{\"status\":0,\"stopped\":true}");
    CHECK_STR(
        gave(),
        "REQUEUED 0/1 {\"why\":\"preempted\",\"spent\":true}; | STOP b 0/1 its trial has ended;");
}

TEST(a_slot_that_is_needed_back_before_the_trial_runs_costs_it_nothing)
{
    start_with(TWO);
    two_workers();
    step(SCHEDULER_EV_LEAVING, "b", 0, NULL);
    step(SCHEDULER_EV_REVOKED, "b", 1, NULL);
    CHECK_STR(
        gave(),
        "REQUEUED 0/1 {\"why\":\"preempted\",\"spent\":false}; | STOP b 0/1 its trial has ended;");
}
