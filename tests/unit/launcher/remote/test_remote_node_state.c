/* remote_node_state: the whole table, row by row. */
#include "launcher/remote/remote_node_state.h"

#include <stdbool.h>

#include "tests/unit/test.h"

/* Columns: HELLO CONFIGURE READY START REAPED GONE. '.' is "no meaning"; else the digit is the next
 * state. */
static const char *const expected[REMOTE_NODE_STATES] = {
    [REMOTE_NODE_EXPECTED] = "1....6",   [REMOTE_NODE_CONNECTED] = ".2..56",
    [REMOTE_NODE_CONFIGURED] = "..3.56", [REMOTE_NODE_READY] = "...456",
    [REMOTE_NODE_STARTED] = "....56",    [REMOTE_NODE_REAPED] = ".....6",
    [REMOTE_NODE_GONE] = "......",
};

TEST(the_table_is_as_described)
{
    CHECK_INT(REMOTE_NODE_STATES, 7);
    CHECK_INT(REMOTE_NODE_EVENTS, 6);
    for (int s = 0; s < REMOTE_NODE_STATES; s++)
        for (int ev = 0; ev < REMOTE_NODE_EVENTS; ev++) {
            char c = expected[s][ev];
            if (states_next(&remote_node_states, s, ev) != (c == '.' ? -1 : c - '0'))
                FAIL("%s, event %d: %d", states_name(&remote_node_states, s), ev,
                     states_next(&remote_node_states, s, ev));
        }
}

TEST(every_state_is_reached_and_every_state_but_the_last_is_left)
{
    bool reached[REMOTE_NODE_STATES] = {[REMOTE_NODE_EXPECTED] = true};
    for (int s = 0; s < REMOTE_NODE_STATES; s++) {
        bool left = false;
        for (int ev = 0; ev < REMOTE_NODE_EVENTS; ev++)
            if (states_next(&remote_node_states, s, ev) >= 0) {
                reached[states_next(&remote_node_states, s, ev)] = true;
                left = true;
            }
        CHECK_INT(left, s != REMOTE_NODE_GONE);
        CHECK(states_name(&remote_node_states, s)[0]);
    }
    for (int s = 0; s < REMOTE_NODE_STATES; s++)
        CHECK(reached[s]);
}

TEST(a_connection_can_end_in_every_state_and_only_then_there_is_no_agent)
{
    for (int s = 0; s < REMOTE_NODE_GONE; s++) {
        CHECK_INT(states_next(&remote_node_states, s, REMOTE_NODE_EV_GONE), REMOTE_NODE_GONE);
        CHECK_INT(remote_node_has_agent(s), s != REMOTE_NODE_EXPECTED);
    }
    CHECK(!remote_node_has_agent(REMOTE_NODE_GONE));
}

TEST(kill_tree_is_answered_in_every_state_of_an_agent)
{
    for (int s = REMOTE_NODE_CONNECTED; s < REMOTE_NODE_REAPED; s++) {
        CHECK_INT(states_next(&remote_node_states, s, REMOTE_NODE_EV_REAPED), REMOTE_NODE_REAPED);
        CHECK(!remote_node_is_reaped(s));
    }
    CHECK(remote_node_is_reaped(REMOTE_NODE_REAPED) && remote_node_is_reaped(REMOTE_NODE_GONE));
}
