/* remote_rank_state: the whole table, row by row. */
#include "launcher/remote/remote_rank_state.h"

#include <stdbool.h>

#include "tests/unit/test.h"

/* Columns: START NOT_STARTED EXITED LOST. '.' is "no meaning"; else the digit is the next state. */
static const char *const expected[REMOTE_RANK_STATES] = {
    [REMOTE_RANK_WAITING] = "12..",
    [REMOTE_RANK_STARTED] = ".222",
    [REMOTE_RANK_DONE] = "....",
};

TEST(the_table_is_as_described)
{
    CHECK_INT(REMOTE_RANK_STATES, 3);
    CHECK_INT(REMOTE_RANK_EVENTS, 4);
    for (int s = 0; s < REMOTE_RANK_STATES; s++)
        for (int ev = 0; ev < REMOTE_RANK_EVENTS; ev++) {
            char c = expected[s][ev];
            if (states_next(&remote_rank_states, s, ev) != (c == '.' ? -1 : c - '0'))
                FAIL("%s, event %d: %d", states_name(&remote_rank_states, s), ev,
                     states_next(&remote_rank_states, s, ev));
        }
}

TEST(every_state_is_reached_and_every_state_but_the_last_is_left)
{
    bool reached[REMOTE_RANK_STATES] = {[REMOTE_RANK_WAITING] = true};
    for (int s = 0; s < REMOTE_RANK_STATES; s++) {
        bool left = false;
        for (int ev = 0; ev < REMOTE_RANK_EVENTS; ev++)
            if (states_next(&remote_rank_states, s, ev) >= 0) {
                reached[states_next(&remote_rank_states, s, ev)] = true;
                left = true;
            }
        CHECK_INT(left, s != REMOTE_RANK_DONE);
        CHECK(states_name(&remote_rank_states, s)[0]);
    }
    for (int s = 0; s < REMOTE_RANK_STATES; s++)
        CHECK(reached[s]);
}

TEST(a_rank_ends_once)
{
    for (int ev = 0; ev < REMOTE_RANK_EVENTS; ev++)
        CHECK_INT(states_next(&remote_rank_states, REMOTE_RANK_DONE, ev), -1);
}
