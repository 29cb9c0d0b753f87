/* test_trial_run_state - what a trial run does and does not do. */
#include "hpo/worker/trial_run_state.h"

#include "tests/unit/kit_states.h"

#define S(x) TRIAL_RUN_##x
#define E(x) TRIAL_RUN_EV_##x

static const struct states *const table = &trial_run_states;

TEST(every_state_is_reachable_and_only_the_last_has_no_way_out)
{
    states_check_graph(table, TRIAL_RUN_STATES, TRIAL_RUN_EVENTS, SET(S(DONE)));
}

TEST(a_run_may_copy_a_checkpoint_then_its_job_runs_and_ends)
{
    LEAD(table, SET(S(WAITING)), S(PREPARING), E(COPY));
    LEAD(table, SET(S(WAITING)) | SET(S(PREPARING)), S(RUNNING), E(LAUNCHED));
    LEAD(table, SET(S(RUNNING)) | SET(S(STOPPING)), S(DONE), E(JOB_ENDED));
}

TEST(a_job_that_cannot_start_ends_the_run)
{
    LEAD(table, SET(S(WAITING)) | SET(S(PREPARING)) | SET(S(PREPARING_STOPPED)), S(DONE),
         E(NOT_STARTED));
    CHECK(!(states_with(table, E(NOT_STARTED)) & SET(S(RUNNING))));
}

TEST(a_run_that_is_stopped_while_it_copies_never_starts_its_job)
{
    LEAD(table, SET(S(PREPARING)), S(PREPARING_STOPPED), E(STOP), E(KILL));
    CHECK_INT(states_after(table, S(PREPARING_STOPPED)), SET(S(DONE)));
}

TEST(a_second_stop_changes_nothing)
{
    LEAD(table, SET(S(RUNNING)), S(STOPPING), E(STOP), E(KILL));
    LEAD(table, SET(S(STOPPING)), S(STOPPING), E(KILL));
    CHECK_INT(states_with(table, E(STOP)), SET(S(WAITING)) | SET(S(PREPARING)) | SET(S(RUNNING)));
    CHECK(!(states_with(table, E(KILL)) & SET(S(DRAINING))));
}

TEST(a_run_without_a_slot_ends_at_a_stop_and_not_at_a_kill)
{
    LEAD(table, SET(S(WAITING)), S(DONE), E(STOP));
    LEAD(table, SET(S(WAITING)), S(WAITING), E(KILL));
}

TEST(a_job_that_ends_before_its_agent_keeps_the_slot_until_the_agent_has_ended)
{
    LEAD(table, SET(S(RUNNING)) | SET(S(STOPPING)), S(DRAINING), E(JOB_ENDED_AGENT_LEFT));
    LEAD(table, SET(S(DRAINING)), S(DONE), E(AGENT_ENDED));
    LEAD(table, SET(S(RUNNING)), S(RUNNING), E(AGENT_ENDED));
    LEAD(table, SET(S(STOPPING)), S(STOPPING), E(AGENT_ENDED));
    CHECK_INT(states_after(table, S(DRAINING)), SET(S(DONE)));
}
