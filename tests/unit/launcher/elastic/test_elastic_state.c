/* test_elastic_state - what a node does as its launcher sees it, and does not do. */
#include "launcher/elastic/elastic_state.h"

#include "tests/unit/kit_states.h"

#define S(state) ELASTIC_##state
#define EV(event) ELASTIC_EV_##event

static const struct states *const table = &elastic_states;

TEST(every_state_is_reached_and_only_the_last_has_no_way_out)
{
    states_check_graph(table, ELASTIC_STATES, ELASTIC_EVENTS, SET(S(LOST)));
}

TEST(a_job_that_succeeds_is_assigned_runs_and_ends_with_its_peers)
{
    LEAD(table, SET(S(WAITING)), S(RUNNING), EV(ASSIGNED));
    LEAD(table, SET(S(RUNNING)), S(SUCCEEDED), EV(RANKS_SUCCEEDED));
    LEAD(table, SET(S(SUCCEEDED)), S(LOST), EV(JOB_DONE));
}

TEST(a_peer_that_fails_or_joins_stops_the_ranks_here_and_the_node_waits_again)
{
    LEAD(table, SET(S(RUNNING)) | SET(S(STOPPING)), S(STOPPING), EV(STOP), EV(STOP_LAST));
    LEAD(table, SET(S(STOPPING)), S(WAITING), EV(RANKS_SUCCEEDED), EV(RANKS_FAILED),
         EV(RANKS_FAILED_LAST));
    LEAD(table, SET(S(SUCCEEDED)), S(WAITING), EV(STOP));
}

TEST(a_new_node_does_not_run_ranks_again_that_succeeded_before_the_user_stopped_them)
{
    LEAD(table, SET(S(SUCCEEDED)), S(SUCCEEDED), EV(STOP_LAST));
}

TEST(any_stop_confirms_a_failure_and_a_node_joins_again_only_if_a_restart_is_due)
{
    LEAD(table, SET(S(RUNNING)), S(FAILED), EV(RANKS_FAILED));
    LEAD(table, SET(S(RUNNING)), S(FAILED_LEAVING), EV(RANKS_FAILED_LAST));
    LEAD(table, SET(S(FAILED)) | SET(S(FAILED_LEAVING)) | SET(S(WAITING)), S(WAITING), EV(STOP),
         EV(STOP_LAST));
    LEAD(table, SET(S(FAILED)) | SET(S(WAITING)), S(WAITING), EV(JOIN));
    CHECK_INT(states_with(table, EV(JOIN)), SET(S(WAITING)) | SET(S(FAILED)));
}

TEST(a_rendezvous_is_lost_from_every_state_and_for_good)
{
    LEAD(table, SET(S(LOST)) - 1, S(LOST), EV(LOST));
    LEAD(table, SET(S(LOST)), S(LOST), EV(RANKS_SUCCEEDED), EV(RANKS_FAILED),
         EV(RANKS_FAILED_LAST));
    CHECK_INT(states_after(table, S(LOST)), SET(S(LOST)));
}

/* What may come at any time from a faulty server is dropped, not acted on. */
TEST(assignments_and_the_end_of_the_job_have_a_meaning_in_one_state_each)
{
    CHECK_INT(states_with(table, EV(ASSIGNED)), SET(S(WAITING)));
    CHECK_INT(states_with(table, EV(JOB_DONE)), SET(S(SUCCEEDED)));
}
