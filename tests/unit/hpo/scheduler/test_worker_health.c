/* test_worker_health - what follows from faults of a worker's node, and when. */
#include "hpo/scheduler/worker_health.h"

#include "tests/unit/kit_states.h"

#define S(x) WORKER_HEALTH_##x
#define E(x) WORKER_HEALTH_EV_##x

static const struct states *const table = &worker_health_states;

TEST(every_state_is_reached_and_left)
{
    states_check_graph(table, WORKER_HEALTH_STATES, WORKER_HEALTH_EVENTS, 0);
}

TEST(a_fault_backs_off_and_the_last_one_of_a_suspect_excludes)
{
    LEAD(table, SET(S(GOOD)) | SET(S(BACKING_OFF)) | SET(S(SUSPECT)), S(BACKING_OFF), E(FAULT));
    LEAD(table, SET(S(SUSPECT)), S(EXCLUDED), E(LAST_FAULT));
    LEAD(table, SET(S(BACKING_OFF)), S(BACKING_OFF),
         E(LAST_FAULT)); /* of a trial that began before */
    LEAD(table, SET(S(BACKING_OFF)), S(SUSPECT), E(DUE));
}

TEST(success_counts_only_where_trials_may_start)
{
    LEAD(table, SET(S(GOOD)) | SET(S(SUSPECT)), S(GOOD), E(SUCCESS));
    CHECK_INT(states_with(table, E(SUCCESS)), SET(S(GOOD)) | SET(S(SUSPECT)));
}

TEST(an_excluded_worker_returns_only_through_a_test_that_it_passes)
{
    CHECK_INT(states_after(table, S(EXCLUDED)), SET(S(EXCLUDED)) | SET(S(TESTING)));
    LEAD(table, SET(S(TESTING)), S(SUSPECT), E(TEST_PASSED));
    LEAD(table, SET(S(TESTING)), S(EXCLUDED), E(TEST_FAILED), E(DUE), E(RECONNECTED));
    LEAD(table, SET(S(TESTING)), S(TESTING), E(LAST_FAULT));
}

/* The next fault after the backoff; returns how long the backoff is. */
static int64_t fault_after_backoff(struct worker_health *h)
{
    int64_t at = worker_health_gets_trials(h) ? h->since_ms : h->due_ms;
    (void)worker_health_tick(h, at);
    CHECK(worker_health_fault(h, "disk full", at));
    CHECK(!worker_health_gets_trials(h));
    return h->due_ms - at;
}

TEST(each_fault_doubles_the_time_and_the_third_excludes)
{
    struct worker_health h = {.since_ms = 1000};
    CHECK_INT(fault_after_backoff(&h), 500);
    CHECK_INT(fault_after_backoff(&h), 1000);
    CHECK_INT(h.state, S(BACKING_OFF));
    CHECK_INT(fault_after_backoff(&h), 2000);
    CHECK_INT(h.state, S(EXCLUDED));
    CHECK_INT(h.since_ms, 1000);
    CHECK_STR(h.cause, "disk full");
    worker_health_clear(&h);
}

TEST(a_fault_of_an_earlier_trial_is_not_counted_again)
{
    struct worker_health h = {0};
    CHECK(worker_health_fault(&h, "one", 1000));
    CHECK(!worker_health_fault(&h, "two", 1001));
    CHECK_INT(h.failures, 1);
    CHECK_INT(h.due_ms, 1500);
    CHECK_STR(h.cause, "two");
    CHECK(!worker_health_success(&h)); /* a trial that ended well had started before */
    CHECK_INT(h.state, S(BACKING_OFF));
    worker_health_clear(&h);
}

TEST(a_success_after_the_backoff_forgets_the_failures_but_not_the_cause)
{
    struct worker_health h = {0};
    CHECK(worker_health_fault(&h, "no space", 1000));
    CHECK(!worker_health_tick(&h, 1499));
    CHECK(worker_health_tick(&h, 1500));
    CHECK(worker_health_gets_trials(&h));
    CHECK(worker_health_success(&h));
    CHECK(!worker_health_success(&h));
    CHECK_INT(h.failures, 0);
    CHECK_STR(h.cause, "no space");
    CHECK(worker_health_deadline(&h) == INT64_MAX);
    worker_health_clear(&h);
}

static void exclude(struct worker_health *h)
{
    *h = (struct worker_health){.since_ms = 1000};
    for (int i = 0; i < WORKER_HEALTH_FAULTS_MAX; i++)
        (void)fault_after_backoff(h);
}

TEST(failed_self_tests_count_until_the_worker_is_hopeless_and_a_passed_one_gives_it_a_trial)
{
    struct worker_health h;
    exclude(&h);
    CHECK(!worker_health_tested(&h, NULL, h.due_ms)); /* none was requested */
    for (int failures = WORKER_HEALTH_FAULTS_MAX; failures < WORKER_HEALTH_HOPELESS; failures++) {
        CHECK(!worker_health_is_hopeless(&h));
        CHECK(worker_health_tick(&h, h.due_ms));
        CHECK_INT(h.state, S(TESTING));
        CHECK(worker_health_tested(&h, "still full", h.due_ms));
    }
    CHECK(worker_health_is_hopeless(&h));
    CHECK(worker_health_tick(&h, h.due_ms));
    CHECK(worker_health_tested(&h, NULL, h.due_ms));
    CHECK(worker_health_gets_trials(&h) && !worker_health_is_hopeless(&h));
    (void)fault_after_backoff(&h);
    CHECK_INT(h.state, S(EXCLUDED));
    CHECK(worker_health_is_hopeless(&h));
    worker_health_clear(&h);
}

TEST(a_self_test_that_does_not_end_has_failed_and_one_that_a_new_connection_lost_has_not)
{
    struct worker_health h;
    exclude(&h);
    CHECK(worker_health_tick(&h, h.due_ms));
    CHECK(worker_health_reconnected(&h, 9000));
    CHECK_INT(h.failures, 3);
    CHECK(worker_health_tick(&h, 9000)); /* requested again */
    CHECK_INT(h.state, S(TESTING));
    CHECK(!worker_health_tick(&h, 9000 + WORKER_HEALTH_TEST_MS - 1));
    CHECK(worker_health_tick(&h, 9000 + WORKER_HEALTH_TEST_MS));
    CHECK_INT(h.state, S(EXCLUDED));
    CHECK_INT(h.failures, 4);
    CHECK_HAS(h.cause, "self-test");
    worker_health_clear(&h);
}

TEST(the_backoff_has_a_limit)
{
    struct worker_health h = {.state = S(TESTING), .failures = 60};
    CHECK(worker_health_tested(&h, "full", 1000));
    CHECK_INT(h.due_ms, 1000 + WORKER_HEALTH_BACKOFF_MAX_MS);
    worker_health_clear(&h);
}
