/* test_run_session_state - what a run session does and does not do. */
#include "launcher/run/run_session_state.h"

#include "tests/unit/kit_states.h"

#define S(state) RUN_SESSION_##state
#define EV(event) RUN_SESSION_EV_##event

static const struct states *const table = &run_session_states;

TEST(every_state_is_reached_and_only_the_last_has_no_way_out)
{
    states_check_graph(table, RUN_SESSION_STATES, RUN_SESSION_EVENTS, SET(S(DONE)));
}

TEST(attempts_follow_each_other_until_one_is_the_last)
{
    LEAD(table, SET(S(STARTING)) | SET(S(BACKOFF)) | SET(S(WAITING_PEERS)), S(RUNNING),
         EV(STARTED));
    LEAD(table, SET(S(RUNNING)) | SET(S(STOPPING)), S(BACKOFF), EV(ENDED_RESTART));
    LEAD(table, SET(S(RUNNING)) | SET(S(STOPPING)), S(FLUSHING), EV(ENDED_LAST));
    LEAD(table, SET(S(FLUSHING)), S(DONE), EV(FLUSHED), EV(OUTPUT_CLOSED));
    CHECK_INT(states_after(table, S(FLUSHING)), SET(S(DONE)));
}

TEST(each_reason_stops_a_running_job_and_the_next_one_changes_nothing)
{
    LEAD(table, SET(S(RUNNING)) | SET(S(STOPPING)), S(STOPPING), EV(SIGNAL), EV(STOP),
         EV(OUTPUT_CLOSED));
    LEAD(table, SET(S(STOPPING)), S(STOPPING), EV(SIGNAL_AGAIN));
    CHECK_INT(states_with(table, EV(PEERS_STOP)), SET(S(RUNNING)));
    CHECK(!(states_after(table, S(STOPPING)) & SET(S(RUNNING))));
}

TEST(what_is_forwarded_or_suspended_runs_on)
{
    LEAD(table, SET(S(RUNNING)), S(RUNNING), EV(SUSPEND), EV(FORWARD));
    LEAD(table, SET(S(STOPPING)), S(STOPPING), EV(SUSPEND), EV(FORWARD));
}

TEST(without_ranks_a_signal_or_the_time_limit_ends_drover)
{
    LEAD(table, SET(S(BACKOFF)) | SET(S(WAITING_PEERS)), S(DONE), EV(SIGNAL), EV(SIGNAL_AGAIN),
         EV(STOP), EV(NOT_STARTED));
    LEAD(table, SET(S(FLUSHING)), S(DONE), EV(SIGNAL), EV(SIGNAL_AGAIN));
    LEAD(table, SET(S(STARTING)), S(DONE), EV(NOT_STARTED));
}

TEST(the_peers_decide_what_follows_an_elastic_attempt)
{
    LEAD(table, SET(S(STARTING)) | SET(S(BACKOFF)), S(WAITING_PEERS), EV(RENDEZVOUS));
    LEAD(table, SET(S(RUNNING)) | SET(S(STOPPING)), S(WAITING_PEERS), EV(ENDED_PEERS));
    LEAD(table, SET(S(WAITING_PEERS)), S(BACKOFF), EV(PEERS_RESTART));
    LEAD(table, SET(S(WAITING_PEERS)), S(FLUSHING), EV(PEERS_LAST), EV(RENDEZVOUS_OVER));
    LEAD(table, SET(S(BACKOFF)), S(FLUSHING), EV(RENDEZVOUS_OVER));
}

/* A quirk that a later decision may change. */
TEST(closed_output_does_not_prevent_the_next_attempt)
{
    LEAD(table, SET(S(BACKOFF)), S(BACKOFF), EV(OUTPUT_CLOSED));
    LEAD(table, SET(S(WAITING_PEERS)), S(WAITING_PEERS), EV(OUTPUT_CLOSED));
}

/* The restart timer is not stopped when the rendezvous ends: its event is dropped. */
TEST(a_restart_that_is_due_after_the_rendezvous_ended_is_dropped)
{
    CHECK(!(states_with(table, EV(RENDEZVOUS)) & SET(S(FLUSHING))));
}
