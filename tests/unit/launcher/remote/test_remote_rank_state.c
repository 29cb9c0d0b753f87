/* test_remote_rank_state - what a rank of a remote job does and does not do. */
#include "launcher/remote/remote_state.h"

#include "tests/unit/kit_states.h"

#define S(x) REMOTE_RANK_##x
#define E(x) REMOTE_RANK_EV_##x

static const struct states *const table = &remote_rank_states;

TEST(every_state_is_reached_and_every_state_but_the_last_is_left)
{
    states_check_graph(table, REMOTE_RANK_STATES, REMOTE_RANK_EVENTS, SET(S(DONE)));
}

TEST(only_a_rank_that_was_started_exits_or_is_lost)
{
    LEAD(table, SET(S(WAITING)), S(STARTED), E(START));
    LEAD(table, SET(S(STARTED)), S(DONE), E(EXITED), E(LOST));
    CHECK_INT(states_with(table, E(EXITED)), SET(S(STARTED)));
    CHECK_INT(states_with(table, E(LOST)), SET(S(STARTED)));
}

TEST(a_rank_may_fail_to_start_before_and_after_its_agent_was_told_to)
{
    LEAD(table, SET(S(WAITING)) | SET(S(STARTED)), S(DONE), E(NOT_STARTED));
}

TEST(a_rank_starts_once_and_ends_once)
{
    CHECK_INT(states_with(table, E(START)), SET(S(WAITING)));
    CHECK_INT(states_after(table, S(DONE)), 0);
}
