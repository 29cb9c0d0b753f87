/* test_remote_job_state - what a remote job does and does not do. */
#include "launcher/remote/remote_state.h"

#include "tests/unit/kit_states.h"

#define S(x) REMOTE_JOB_##x
#define E(x) REMOTE_JOB_EV_##x

static const struct states *const table = &remote_job_states;

TEST(every_state_is_reached_and_every_state_but_the_last_is_left)
{
    states_check_graph(table, REMOTE_JOB_STATES, REMOTE_JOB_EVENTS, SET(S(DONE)));
}

TEST(a_job_resolves_names_meets_its_agents_runs_and_is_reaped)
{
    LEAD(table, SET(S(NEW)), S(RESOLVING), E(RESOLVE));
    LEAD(table, SET(S(NEW)), S(MEETING), E(MEET));
    LEAD(table, SET(S(RESOLVING)), S(MEETING), E(RESOLVED));
    LEAD(table, SET(S(MEETING)), S(RUNNING), E(ALL_READY));
    LEAD(table, SET(S(RUNNING)), S(REAPING), E(KILL_TREE));
    LEAD(table, SET(S(REAPING)), S(RELEASING), E(REAPED));
    LEAD(table, SET(S(RELEASING)), S(DONE), E(LAUNCHER_REAPED));
    LEAD(table, SET(S(REAPING)), S(DONE), E(REAPED_ALL));
}

TEST(a_failed_start_is_reported_on_the_next_turn_and_then_reaped)
{
    LEAD(table, SET(S(RESOLVING)) | SET(S(MEETING)), S(START_FAILING), E(START_FAILED));
    LEAD(table, SET(S(START_FAILING)), S(START_FAILED), E(NEXT_TURN));
    LEAD(table, SET(S(START_FAILED)), S(REAPING), E(KILL_TREE));
}

TEST(a_job_that_is_killed_while_it_starts_is_reaped_on_the_next_turn)
{
    LEAD(table, SET(S(RESOLVING)) | SET(S(MEETING)) | SET(S(START_FAILING)), S(ABORTING),
         E(KILL_TREE));
    LEAD(table, SET(S(ABORTING)), S(REAPING), E(NEXT_TURN));
}

TEST(no_job_goes_back)
{
    for (int s = 0; s < REMOTE_JOB_STATES; s++)
        for (int ev = 0; ev < REMOTE_JOB_EVENTS; ev++)
            CHECK(states_next(table, s, ev) < 0 || states_next(table, s, ev) > s);
}

TEST(a_start_fails_once)
{
    for (int s = REMOTE_JOB_START_FAILING; s < REMOTE_JOB_STATES; s++)
        CHECK_INT(states_next(table, s, REMOTE_JOB_EV_START_FAILED), -1);
}

TEST(only_a_job_that_waits_for_names_or_agents_is_starting)
{
    for (int s = 0; s < REMOTE_JOB_STATES; s++)
        CHECK_INT(remote_job_is_starting(s),
                  states_next(table, s, REMOTE_JOB_EV_START_FAILED) == REMOTE_JOB_START_FAILING);
}
