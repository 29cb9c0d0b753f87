/* test_remote_node_state - what a node of a remote job does and does not do. */
#include "launcher/remote/remote_state.h"

#include "tests/unit/kit_states.h"

#define S(x) REMOTE_NODE_##x
#define E(x) REMOTE_NODE_EV_##x

static const struct states *const table = &remote_node_states;

TEST(every_state_is_reached_and_every_state_but_the_last_is_left)
{
    states_check_graph(table, REMOTE_NODE_STATES, REMOTE_NODE_EVENTS, SET(S(GONE)));
}

TEST(an_agent_says_hello_is_configured_gets_ready_and_starts_once_and_in_this_order)
{
    static const int order[] = {E(HELLO), E(CONFIGURE), E(READY), E(START)};
    for (int i = 0; i < 4; i++) {
        CHECK_INT(states_with(table, order[i]), SET(i));
        LEAD(table, SET(i), i + 1, order[i]);
    }
    CHECK_INT(S(STARTED), 4);
}

TEST(a_connection_can_end_in_every_state_and_only_then_there_is_no_agent)
{
    for (int s = 0; s < REMOTE_NODE_GONE; s++) {
        CHECK_INT(states_next(table, s, REMOTE_NODE_EV_GONE), REMOTE_NODE_GONE);
        CHECK_INT(remote_node_has_agent(s), s != REMOTE_NODE_EXPECTED);
    }
    CHECK(!remote_node_has_agent(REMOTE_NODE_GONE));
}

TEST(kill_tree_is_answered_in_every_state_of_an_agent)
{
    for (int s = REMOTE_NODE_CONNECTED; s < REMOTE_NODE_REAPED; s++) {
        CHECK_INT(states_next(table, s, REMOTE_NODE_EV_REAPED), REMOTE_NODE_REAPED);
        CHECK(!remote_node_is_reaped(s));
    }
    CHECK(remote_node_is_reaped(REMOTE_NODE_REAPED) && remote_node_is_reaped(REMOTE_NODE_GONE));
}
