/* remote_job_state: the whole table, row by row. */
#include "launcher/remote/remote_job_state.h"

#include "tests/unit/test.h"

/* Columns: RESOLVE MEET RESOLVED START_FAILED ALL_READY NEXT_TURN KILL_TREE REAPED REAPED_ALL
 * LAUNCHER_REAPED. '.' is "no meaning"; else the digit is the next state. */
static const char *const expected[REMOTE_JOB_STATES] = {
    [REMOTE_JOB_NEW] = "12........",       [REMOTE_JOB_RESOLVING] = "..23..4...",
    [REMOTE_JOB_MEETING] = "...36.4...",   [REMOTE_JOB_START_FAILING] = ".....54...",
    [REMOTE_JOB_ABORTING] = ".....7....",  [REMOTE_JOB_START_FAILED] = "......7...",
    [REMOTE_JOB_RUNNING] = "......7...",   [REMOTE_JOB_REAPING] = ".......89.",
    [REMOTE_JOB_RELEASING] = ".........9", [REMOTE_JOB_DONE] = "..........",
};

TEST(the_table_is_as_described)
{
    CHECK_INT(REMOTE_JOB_STATES, 10);
    CHECK_INT(REMOTE_JOB_EVENTS, 10);
    for (int s = 0; s < REMOTE_JOB_STATES; s++)
        for (int ev = 0; ev < REMOTE_JOB_EVENTS; ev++) {
            char c = expected[s][ev];
            if (states_next(&remote_job_states, s, ev) != (c == '.' ? -1 : c - '0'))
                FAIL("%s, %s: %d", states_name(&remote_job_states, s),
                     states_event_name(&remote_job_states, ev),
                     states_next(&remote_job_states, s, ev));
        }
}

TEST(every_state_is_reached_and_every_state_but_the_last_is_left)
{
    bool reached[REMOTE_JOB_STATES] = {[REMOTE_JOB_NEW] = true}, left[REMOTE_JOB_STATES] = {false};
    for (int s = 0; s < REMOTE_JOB_STATES; s++)
        for (int ev = 0; ev < REMOTE_JOB_EVENTS; ev++)
            if (states_next(&remote_job_states, s, ev) >= 0) {
                reached[states_next(&remote_job_states, s, ev)] = true;
                left[s] = true;
            }
    for (int s = 0; s < REMOTE_JOB_STATES; s++) {
        CHECK(reached[s]);
        CHECK_INT(left[s], s != REMOTE_JOB_DONE);
    }
}

TEST(no_job_goes_back)
{
    for (int s = 0; s < REMOTE_JOB_STATES; s++)
        for (int ev = 0; ev < REMOTE_JOB_EVENTS; ev++)
            CHECK(states_next(&remote_job_states, s, ev) < 0 ||
                  states_next(&remote_job_states, s, ev) > s);
}

TEST(a_start_fails_once)
{
    for (int s = REMOTE_JOB_START_FAILING; s < REMOTE_JOB_STATES; s++)
        CHECK_INT(states_next(&remote_job_states, s, REMOTE_JOB_EV_START_FAILED), -1);
}

TEST(only_a_job_that_waits_for_names_or_agents_is_starting)
{
    for (int s = 0; s < REMOTE_JOB_STATES; s++)
        CHECK_INT(remote_job_is_starting(s),
                  states_next(&remote_job_states, s, REMOTE_JOB_EV_START_FAILED) ==
                      REMOTE_JOB_START_FAILING);
}

TEST(every_state_and_event_has_a_name)
{
    for (int s = 0; s < REMOTE_JOB_STATES; s++)
        CHECK(states_name(&remote_job_states, s)[0]);
    for (int ev = 0; ev < REMOTE_JOB_EVENTS; ev++)
        CHECK(states_event_name(&remote_job_states, ev)[0]);
}
