/* remote_rank_state: the whole table, row by row. */
#include "launcher/remote/remote_rank_state.h"

#include <stdbool.h>

#include "tests/unit/test.h"

/* Columns: HELLO CONFIGURE START NOT_STARTED EXITED DISCONNECTED LOST. '.' is "no meaning"; else
 * the digit is the next state. */
static const char *const expected[REMOTE_RANK_STATES] = {
    [REMOTE_RANK_EXPECTED] = "1..5..5",   [REMOTE_RANK_CONNECTED] = ".2.5..5",
    [REMOTE_RANK_CONFIGURED] = "..35..5", [REMOTE_RANK_STARTED] = "...5545",
    [REMOTE_RANK_LOSING] = "......5",     [REMOTE_RANK_DONE] = ".......",
};

TEST(the_table_is_as_described)
{
    CHECK_INT(REMOTE_RANK_STATES, 6);
    CHECK_INT(REMOTE_RANK_EVENTS, 7);
    for (int s = 0; s < REMOTE_RANK_STATES; s++)
        for (int ev = 0; ev < REMOTE_RANK_EVENTS; ev++) {
            char c = expected[s][ev];
            if (remote_rank_next(s, ev) != (c == '.' ? -1 : c - '0'))
                FAIL("%s, event %d: %d", remote_rank_state_name(s), ev, remote_rank_next(s, ev));
        }
}

TEST(every_state_is_reached_and_every_state_but_the_last_is_left)
{
    bool reached[REMOTE_RANK_STATES] = {[REMOTE_RANK_EXPECTED] = true};
    for (int s = 0; s < REMOTE_RANK_STATES; s++) {
        bool left = false;
        for (int ev = 0; ev < REMOTE_RANK_EVENTS; ev++)
            if (remote_rank_next(s, ev) >= 0) {
                reached[remote_rank_next(s, ev)] = true;
                left = true;
            }
        CHECK_INT(left, s != REMOTE_RANK_DONE);
        CHECK(remote_rank_state_name(s)[0]);
    }
    for (int s = 0; s < REMOTE_RANK_STATES; s++)
        CHECK(reached[s]);
}

TEST(every_rank_can_be_lost_until_it_is_done)
{
    for (int s = 0; s < REMOTE_RANK_DONE; s++)
        CHECK_INT(remote_rank_next(s, REMOTE_RANK_EV_LOST), REMOTE_RANK_DONE);
}
